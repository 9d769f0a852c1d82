"""Reports for people and machines: one pure function per format, from results to text."""
