"""A program of `fork_server`: `venv`, as the Python below this environment runs it."""

import sys
import venv

BASE: str = getattr(sys, "_base_executable", sys.executable)
"""That Python."""


def main() -> None:
    """Make the environment that the arguments name."""
    sys.executable, sys.prefix, sys.exec_prefix = BASE, sys.base_prefix, sys.base_exec_prefix
    venv.main(sys.argv[1:])


if __name__ == "__main__":
    main()
