"""Time and memory of wheelfix beside other tools."""
