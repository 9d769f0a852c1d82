"""Reports: one pure function per format, from results to text."""
