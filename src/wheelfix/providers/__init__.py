"""Other distributions that bring libraries: which are known, what was found, which are used."""
