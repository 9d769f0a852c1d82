"""The time that a command may take for one wheel."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import TypeVar

from wheelfix.cli.console import Terminal
from wheelfix.cli.signals import end_now
from wheelfix.cli.supervisor import tell
from wheelfix.errors import ExitCode, WheelfixError, time_limit_error
from wheelfix.reports.printable import error_value, printable
from wheelfix.system.signal_mask import start_without_signals

_Answer = TypeVar("_Answer")


def ask_each(
    wheels: Sequence[Path], ask: Callable[[Path], _Answer], terminal: Terminal, seconds: float
) -> tuple[list[_Answer], list[dict[str, object]]]:
    """Return the answer for each wheel, and as JSON types the errors of those that have none.

    `seconds` is the `time_limit` of each. A wheel that cannot be read does not stop the others.
    Raises `WheelfixError` for the only one.
    """
    answers: list[_Answer] = []
    errors: list[dict[str, object]] = []
    for wheel in wheels:
        terminal.show_progress(printable(wheel.name))
        try:
            with time_limit(seconds, wheel.name):
                answers.append(ask(wheel))
        except WheelfixError as error:
            if len(wheels) == 1:
                raise
            terminal.fail(error)
            errors.append(error_value(error) | {"wheel": wheel.name})
    return answers, errors


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
