"""Random sets of wheels that require each other, installed, and what `check` says of each."""
