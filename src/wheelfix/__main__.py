"""`python -m wheelfix` and the `wheelfix` script."""

import gc
import os
import sys
from types import FrameType

from wheelfix.system.signal_mask import set_handler


def main() -> None:
    """Run the command line, and exit."""
    if sys.implementation.name != "cpython":
        sys.stderr.write(f"error: wheelfix needs CPython, not {sys.implementation.name}\n")
        sys.exit(2)
    set_handler(_leave)
    # Values are trees, and hold no cycles: a quarter of the time of a wheel with 400 objects went
    # into looking for some.
    gc.set_threshold(300_000)
    # Only now, so that an interrupt while modules are imported prints no traceback.
    from wheelfix.cli.app import main as run_command_line  # noqa: PLC0415

    run_command_line()


def _leave(number: int, _frame: FrameType | None) -> None:
    os._exit(128 + number)


if __name__ == "__main__":
    main()
