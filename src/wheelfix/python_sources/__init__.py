"""What Python sources import, and which libraries they open."""
