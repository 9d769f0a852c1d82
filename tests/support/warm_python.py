"""A program of `fork_server`: Python code, where wheelfix is imported already."""

import sys


def main() -> None:
    """Run the first argument as `python -c` does, with the others."""
    code = sys.argv[1]
    sys.argv = ["-c", *sys.argv[2:]]
    exec(code, {"__name__": "__main__"})  # noqa: S102 - it is what a test says


if __name__ == "__main__":
    main()
