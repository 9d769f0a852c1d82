"""`python -m wheelfix` and the `wheelfix` script."""

import gc
import os
import signal
import sys
from contextlib import suppress
from types import FrameType

from wheelfix import __version__
from wheelfix.system.signal_mask import set_handler


def main() -> None:
    """Run the command line, and exit."""
    if sys.implementation.name != "cpython":
        sys.stderr.write(f"error: wheelfix needs CPython, not {sys.implementation.name}\n")
        sys.exit(2)
    if sys.argv[1:] in (["--version"], ["-V"]):
        # The command line takes three times as long to import; it reports a stdout that fails.
        with suppress(OSError):
            os.write(1, f"wheelfix {__version__}\n".encode())
            return
    # Values are trees, and hold no cycles: a quarter of the time of a wheel with 400 objects went
    # into looking for some.
    gc.set_threshold(300_000)
    set_handler(_leave)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored, nothing says how one ended
    _leave_out_current_folder()
    from wheelfix.cli.stdio import guard_streams  # noqa: PLC0415 - after the handler
    from wheelfix.cli.supervisor import supervise  # noqa: PLC0415

    guard_streams()
    supervise(sys.argv[1:])
    # Only now, so that an interrupt while modules are imported prints no traceback.
    from wheelfix.cli.app import main as run_command_line  # noqa: PLC0415

    run_command_line()


def _leave_out_current_folder() -> None:
    """Take the current directory from the places of modules.

    `python -m` and an empty entry of PYTHONPATH put it there, and a distribution in a checkout
    could bring rules, which are loaded.
    """
    with suppress(OSError):  # the directory may be gone
        here = os.getcwd()  # noqa: PTH109 - no pathlib, which takes time
        if not {"", here}.isdisjoint(sys.path):
            import sysconfig  # noqa: PLC0415 - seldom

            kept = {*map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib"))}
            sys.path[:] = [entry for entry in sys.path if entry in kept or entry not in {"", here}]


def _leave(number: int, _frame: FrameType | None) -> None:
    os._exit(128 + number)


if __name__ == "__main__":
    main()
