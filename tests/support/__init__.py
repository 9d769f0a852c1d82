"""What the tests build their cases from."""
