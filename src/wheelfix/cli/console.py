"""What the commands say, where, and in which colour."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from traceback import format_exception
from typing import NamedTuple, TextIO

from wheelfix.errors import WheelfixError
from wheelfix.pipelines.repair_result import Outcome
from wheelfix.reports.terminal_text import error_text, failure, printable, summary

_ERASE = "\r\x1b[K"
"""To the start of the line, and erase it (ECMA-48, CR and EL)."""


def wants_colour(stream: TextIO) -> bool:
    """Whether to colour what goes to `stream`: NO_COLOR, then FORCE_COLOR, then a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


class Terminal(NamedTuple):
    """The two streams: results go to stdout, all else to stderr."""

    verbosity: int
    """Negative: nothing but errors. 0: the summary. Positive: everything."""

    def result(self, text: str) -> None:
        """Write a result."""
        self._erase()
        _write(sys.stdout, text)

    def say(self, text: str) -> None:
        """Write a word on the side, unless it should be quiet."""
        if self.verbosity >= 0 and text:
            self._erase()
            _write(sys.stderr, text)

    def fail(self, error: WheelfixError) -> None:
        """Write an error."""
        self._erase()
        _write(sys.stderr, error_text(error, colour=wants_colour(sys.stderr)))

    def show(self, outcome: Outcome) -> None:
        """Write the summary of one wheel; if it should be quiet, only why it was not written."""
        self._erase()
        cause = outcome.error.__cause__ if outcome.error else None
        if self.verbosity > 0 and cause is not None:
            self.trace(cause)
        colour = wants_colour(sys.stderr)
        if self.verbosity < 0:
            text = failure(outcome, colour=colour)
        else:
            text = summary(outcome, verbose=self.verbosity > 0, colour=colour)
        if text:
            _write(sys.stderr, text)

    def trace(self, error: BaseException) -> None:
        """Write where an error comes from; its message may quote the wheel."""
        self.say("\n".join(map(printable, "".join(format_exception(error)).splitlines())))

    def progress(self, wheel: Path) -> Callable[[str], None]:
        """Return what shows how far the work on `wheel` is."""

        def show(stage: str) -> None:
            text = printable(f"{wheel.name}: {stage}")
            if self.verbosity > 0:
                _write(sys.stderr, text)
            else:
                self.counted(text)

        return show

    def counted(self, text: str) -> None:
        """Show how far the run is, in a line of its own on a terminal; nowhere else."""
        if self._is_live:
            width = os.get_terminal_size(sys.stderr.fileno()).columns or 80
            _write(sys.stderr, f"{_ERASE}{text[: width - 1]}", end="")

    @property
    def colours_results(self) -> bool:
        """Whether results are coloured."""
        return wants_colour(sys.stdout)

    @property
    def _is_live(self) -> bool:
        return self.verbosity == 0 and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def _erase(self) -> None:
        if self._is_live:
            _write(sys.stderr, _ERASE, end="")


def _write(stream: TextIO, text: str, *, end: str = "\n") -> None:
    stream.write(text + end)
    stream.flush()
