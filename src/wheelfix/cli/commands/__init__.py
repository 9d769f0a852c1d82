"""The commands: one module each, with its options, what it calls and what it prints."""
