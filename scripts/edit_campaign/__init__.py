"""Random edits of real objects, judged by real loaders and tools."""
