"""The computer it runs on: libraries, Pythons, installed distributions, packages, processes."""
