"""Time and memory of wheelfix and of other tools."""
