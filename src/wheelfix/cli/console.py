"""The terminal: results on stdout, everything else on stderr, in color where wanted."""

import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from enum import StrEnum
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from traceback import format_exception
from typing import Annotated, Self, TextIO

import typer

from wheelfix.errors import WheelfixError
from wheelfix.named_tuple import NamedTuple
from wheelfix.reports.printable import Style, error_text, fit, printable
from wheelfix.system.signal_mask import start_without_signals


class ColorChoice(StrEnum):
    """When to color the output."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


CHOSEN_COLOR = ContextVar("CHOSEN_COLOR", default=ColorChoice.AUTO)
"""The value of `--color`, which stands before or after the command."""


def wants_color(stream: TextIO) -> bool:
    """Whether to color the output to `stream`: `--color`, the environment, or a terminal.

    NO_COLOR (no-color.org) counts before FORCE_COLOR (force-color.org) and CLICOLOR_FORCE
    (bixense.com/clicolors).
    """
    if CHOSEN_COLOR.get() is not ColorChoice.AUTO:
        return CHOSEN_COLOR.get() is ColorChoice.ALWAYS
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR") or os.environ.get("CLICOLOR_FORCE", "0") != "0":
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _choose_color(choice: ColorChoice | None) -> None:
    if choice is not None:
        CHOSEN_COLOR.set(choice)


def _with_earlier(context: typer.Context, level: int) -> int:
    """Add the level given before the command, if any."""
    return level + max(context.obj or 0, 0)


def _or_earlier(context: typer.Context, given: bool) -> bool:
    """Return whether the option was given here or before the command."""
    return given or (context.obj or 0) < 0


Verbose = Annotated[
    int,
    typer.Option(
        "-v",
        "--verbose",
        callback=_with_earlier,
        count=True,
        metavar="",
        help="Print more details; `wheelfix -v COMMAND` means the same.",
        show_default=False,
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "-q",
        "--quiet",
        callback=_or_earlier,
        help="Print errors only; `wheelfix -q COMMAND` means the same.",
    ),
]
Color = Annotated[
    ColorChoice | None,
    typer.Option(
        "--color",
        callback=_choose_color,
        expose_value=False,
        help="Color the output: auto (only on a terminal), always or never; also before the "
        "command.",
        show_default=False,
    ),
]

HAS_RESULT: ContextVar[bool] = ContextVar("HAS_RESULT", default=False)
"""Whether something was written to stdout in this run."""
_ERASE = "\r\x1b[K"
"""To the start of the line, and erase it (ECMA-48, CR and EL)."""


class Terminal(NamedTuple):
    """The two output streams: results go to stdout, everything else to stderr."""

    verbosity: int
    """Negative: only errors. 0: summaries. Positive: everything."""

    def result(self, text: str) -> None:
        """Write a result as it is: a path, JSON, a page."""
        HAS_RESULT.set(True)
        self._erase()
        _write(sys.stdout, text)

    def report(self, text: str) -> None:
        """Write a result for people: without long lines, unless verbose."""
        self.result(fit(text, verbose=self.verbosity > 0))

    def say(self, text: str) -> None:
        """Write a note, unless quiet."""
        if self.verbosity >= 0:
            self.alert(text)

    def alert(self, text: str) -> None:
        """Write a line to stderr even with `--quiet`; an empty text is ignored."""
        if text:
            self._erase()
            _write(sys.stderr, fit(text, verbose=self.verbosity > 0))

    def fail(self, error: WheelfixError) -> None:
        """Write an error."""
        self.alert(error_text(error, color=self.colors_notes))

    def trace(self, error: BaseException) -> None:
        """Write the traceback of an error; its message may quote the wheel."""
        self.say("\n".join(map(printable, "".join(format_exception(error)).splitlines())))

    def progress(self, wheel: Path) -> Callable[[str], None]:
        """Return a function that shows the stage of the work on `wheel`."""

        def show(stage: str) -> None:
            text = printable(f"{wheel.name}: {stage}")
            if self.verbosity > 0:
                _write(sys.stderr, text)
            else:
                self.show_progress(text)

        return show

    def show_progress(self, text: str) -> None:
        """Show `text` in place of the last progress line; elsewhere every ten seconds."""
        if self.shows_progress:
            width = os.get_terminal_size(sys.stderr.fileno()).columns or 80
            _write(sys.stderr, f"{_ERASE}{text[: width - 1]}", end="")
        elif self.verbosity == 0 and (slow := SLOW_PROGRESS.get()) is not None:
            slow.show(text)

    @property
    def result_style(self) -> Style:
        """How results look."""
        return Style(color=self.colors_results, verbose=self.verbosity > 0)

    @property
    def width(self) -> int:
        """The columns of the terminal that shows results; 0 if they go elsewhere."""
        return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0

    @property
    def colors_results(self) -> bool:
        """Whether results are colored."""
        return wants_color(sys.stdout)

    @property
    def colors_notes(self) -> bool:
        """Whether everything else is colored."""
        return wants_color(sys.stderr)

    @property
    def links_results(self) -> bool:
        """Whether results may have hyperlinks: colored ones on a terminal."""
        return self.colors_results and sys.stdout.isatty()

    @property
    def links_notes(self) -> bool:
        """Whether everything else may have hyperlinks."""
        return self.colors_notes and sys.stderr.isatty()

    @property
    def shows_progress(self) -> bool:
        """Whether progress lines are shown: on a terminal, neither quiet nor verbose."""
        return self.verbosity == 0 and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def _erase(self) -> None:
        if self.shows_progress:
            _write(sys.stderr, _ERASE, end="")


class SlowProgress:
    """Writes the last progress text every `INTERVAL` to a stderr on which no line can be replaced.

    A context: the work is within it.
    """

    def __init__(self) -> None:
        self._text = ""
        self._began = monotonic()
        self._end = Event()
        self._thread: Thread | None = None

    def __enter__(self) -> Self:
        """Make this the one that `Terminal` uses."""
        SLOW_PROGRESS.set(self)
        return self

    def show(self, text: str) -> None:
        """Show `text` if it is still the last one when the interval ends."""
        self._text = text
        if self._thread is None:
            thread = Thread(target=self._run, daemon=True)
            with suppress(RuntimeError):  # the limit of threads: the work goes on
                start_without_signals(thread.start)
                self._thread = thread

    def _run(self) -> None:
        while not self._end.wait(INTERVAL):
            text = f"{self._text} ({monotonic() - self._began:.0f} s)"
            _write(sys.stderr, fit(text, verbose=False))

    def __exit__(self, *_: object) -> None:
        """End the thread."""
        self._end.set()
        if self._thread is not None:
            self._thread.join()


INTERVAL = 10.0
"""Seconds between two lines of progress."""
SLOW_PROGRESS: ContextVar[SlowProgress | None] = ContextVar("SLOW_PROGRESS", default=None)


def _write(stream: TextIO, text: str, *, end: str = "\n") -> None:
    stream.write(text + end)
    stream.flush()
