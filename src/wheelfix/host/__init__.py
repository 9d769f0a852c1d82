"""This computer: its libraries, Pythons, installed distributions, packages and running processes."""
