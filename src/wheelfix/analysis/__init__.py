"""Questions about a whole wheel: what is loaded, unused, unresolved, provided, allowed."""
