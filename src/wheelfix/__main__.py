"""`python -m wheelfix` and the `wheelfix` script.

Hardly anything is imported here, so that an interrupt meets no traceback while the rest is.
"""

import os
import signal
from types import FrameType

from wheelfix.cli import main as run


def main() -> None:
    """Run the command line, and exit; end at a signal from now on, except where it is ignored."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _leave)
    run()


def _leave(number: int, _frame: FrameType | None) -> None:
    """End at once: nothing has been begun."""
    os._exit(128 + number)


if __name__ == "__main__":
    main()
