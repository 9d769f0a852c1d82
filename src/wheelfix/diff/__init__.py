"""What changed between two releases of a wheel (`diff`)."""
