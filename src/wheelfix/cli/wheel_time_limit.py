"""The time that a command may take for one wheel."""

from collections.abc import Generator
from contextlib import contextmanager
from threading import Timer

from wheelfix.cli.console import Terminal
from wheelfix.cli.signals import end_now
from wheelfix.cli.supervisor import tell
from wheelfix.errors import ExitCode, time_limit_error
from wheelfix.reports.printable import printable
from wheelfix.system.signal_mask import start_without_signals


@contextmanager
def time_limit(seconds: float, name: str) -> Generator[None]:
    """End the process if the work on the wheel `name` takes longer; 0 for no limit.

    It ends as by a signal: a thread cannot be stopped, and may wait for a program or the disk.
    Where no thread can run, the supervisor ends it.
    """
    timer = Timer(seconds, _end, [seconds, name])
    timer.daemon = True
    if seconds:
        start_without_signals(timer.start)
        tell(id(timer), seconds, name)
    try:
        yield
    finally:
        timer.cancel()
        if seconds:
            tell(id(timer), 0, "")


def _end(seconds: float, name: str) -> None:
    Terminal(verbosity=0).fail(time_limit_error(printable(name), seconds))
    end_now(ExitCode.ERROR)
