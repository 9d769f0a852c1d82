"""Data that is part of the package."""
