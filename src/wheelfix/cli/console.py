"""The terminal: results on stdout, everything else on stderr, in colour where wanted."""

import os
import shutil
import sys
from collections.abc import Callable
from contextvars import ContextVar
from enum import StrEnum
from pathlib import Path
from traceback import format_exception
from typing import Annotated, NamedTuple, TextIO

import typer

from wheelfix.errors import WheelfixError
from wheelfix.reports.printable import error_text, printable
from wheelfix.system.tempfiles import write_whole


class ColourChoice(StrEnum):
    """When to colour the output."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


CHOSEN_COLOUR = ContextVar("CHOSEN_COLOUR", default=ColourChoice.AUTO)
"""The value of `--color`, which stands before or after the command."""


def wants_colour(stream: TextIO) -> bool:
    """Whether to colour the output to `stream`: `--color`, the environment, or a terminal.

    NO_COLOR (no-color.org) counts before FORCE_COLOR (force-color.org) and CLICOLOR_FORCE
    (bixense.com/clicolors).
    """
    if CHOSEN_COLOUR.get() is not ColourChoice.AUTO:
        return CHOSEN_COLOUR.get() is ColourChoice.ALWAYS
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR") or os.environ.get("CLICOLOR_FORCE", "0") != "0":
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _choose_colour(choice: ColourChoice | None) -> None:
    if choice is not None:
        CHOSEN_COLOUR.set(choice)


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
        help="Print more details; also before the command.",
        show_default=False,
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "-q",
        "--quiet",
        callback=_or_earlier,
        help="Print errors only; also before the command.",
    ),
]
Color = Annotated[
    ColourChoice | None,
    typer.Option(
        "--color",
        callback=_choose_colour,
        expose_value=False,
        help="Colour the output: auto (only on a terminal), always or never; also before the "
        "command.",
        show_default=False,
    ),
]

_ERASE = "\r\x1b[K"
"""To the start of the line, and erase it (ECMA-48, CR and EL)."""


class Terminal(NamedTuple):
    """The two output streams: results go to stdout, everything else to stderr."""

    verbosity: int
    """Negative: only errors. 0: summaries. Positive: everything."""

    def result(self, text: str) -> None:
        """Write a result."""
        self._erase()
        _write(sys.stdout, text)

    def say(self, text: str) -> None:
        """Write a note, unless quiet."""
        if self.verbosity >= 0:
            self.alert(text)

    def alert(self, text: str) -> None:
        """Write a note even if quiet; an empty one is no note."""
        if text:
            self._erase()
            _write(sys.stderr, text)

    def fail(self, error: WheelfixError) -> None:
        """Write an error."""
        self.alert(error_text(error, colour=self.colours_notes))

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
        """Show `text` in place of the last progress line; only on a terminal."""
        if self.shows_progress:
            width = os.get_terminal_size(sys.stderr.fileno()).columns or 80
            _write(sys.stderr, f"{_ERASE}{text[: width - 1]}", end="")

    @property
    def width(self) -> int:
        """The columns of the terminal that shows results; 0 if they go elsewhere."""
        return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0

    @property
    def colours_results(self) -> bool:
        """Whether results are coloured."""
        return wants_colour(sys.stdout)

    @property
    def colours_notes(self) -> bool:
        """Whether everything else is coloured."""
        return wants_colour(sys.stderr)

    @property
    def links_results(self) -> bool:
        """Whether results may have hyperlinks: coloured ones on a terminal."""
        return self.colours_results and sys.stdout.isatty()

    @property
    def links_notes(self) -> bool:
        """Whether everything else may have hyperlinks."""
        return self.colours_notes and sys.stderr.isatty()

    @property
    def shows_progress(self) -> bool:
        """Whether progress lines are shown: on a terminal, neither quiet nor verbose."""
        return self.verbosity == 0 and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def _erase(self) -> None:
        if self.shows_progress:
            _write(sys.stderr, _ERASE, end="")


def write_file(file: Path, text: str) -> None:
    """Write a report to `file`, whole or not at all. Raises `OutputError`."""
    write_whole(file, f"{text}\n".encode(errors="backslashreplace"))


def _write(stream: TextIO, text: str, *, end: str = "\n") -> None:
    stream.write(text + end)
    stream.flush()
