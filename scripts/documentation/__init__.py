"""What `scripts/docs` generates from the program for the documentation site, and its link check."""
