"""What is wrong with a wheel, and the edits that repair it."""
