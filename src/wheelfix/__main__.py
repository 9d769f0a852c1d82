"""`python -m wheelfix` and the `wheelfix` script."""

from wheelfix.cli import main

if __name__ == "__main__":
    main()
