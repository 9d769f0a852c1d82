"""Damaged wheels, objects and texts, and what may come of them."""
