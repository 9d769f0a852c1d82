"""Repair Linux wheels so that they work once installed."""

__version__ = "0.1.0"
