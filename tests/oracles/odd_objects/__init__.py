"""Odd but valid ELF objects, and what the real loader makes of them."""
