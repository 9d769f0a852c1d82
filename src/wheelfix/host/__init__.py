"""The computer that runs wheelfix: libraries, Pythons, distributions, packages, processes."""
