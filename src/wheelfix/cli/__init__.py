"""The command line: read options, call one function, print, choose the exit code."""
