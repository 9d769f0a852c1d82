"""Settings from files, the environment and options."""
