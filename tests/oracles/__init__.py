"""Second opinions: models, makers of odd input, and the real linkers and loaders that judge both.

A test run tries a few cases of each; `python -m tests.oracles.NAME -n 100000` tries many.
"""
