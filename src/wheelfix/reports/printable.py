"""Escapes, colours and error messages for every output.

Names come from wheels that may be hostile: every one of them passes through `printable`.
"""

import json
from collections.abc import Iterator
from enum import StrEnum
from textwrap import fill
from typing import NamedTuple

from wheelfix.errors import WheelfixError


class Colour(StrEnum):
    """SGR parameters (ECMA-48)."""

    BOLD = "1"
    RED = "1;31"
    GREEN = "1;32"
    YELLOW = "1;33"
    BLUE = "1;34"
    DIM = "2"


def printable(text: str) -> str:
    """Escape control characters, and workflow commands of GitHub's runner.

    The runner reads a line that starts with `::`, and `##[` anywhere, as a command of its own.
    """
    if not text.isprintable():
        text = "".join(
            c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
        )
    text = text.replace("##[", r"#\x23[")
    return text if not text.lstrip().startswith("::") else text.replace("::", r"\x3a:", 1)


def json_text(value: object, *, indent: int | None = 2) -> str:
    """Return JSON in ASCII, for any terminal, without the runner's `##[`."""
    separators = (",", ":") if indent is None else None
    text = json.dumps(value, indent=indent, separators=separators)
    return text.replace("##[", r"#\u0023[")


def paint(text: str, colour: Colour, *, on: bool) -> str:
    """Return `text` in `colour` if `on`."""
    return f"\x1b[{colour}m{text}\x1b[0m" if on and text else text


def linked(text: str, address: str) -> str:
    """Return `text` as a hyperlink of a terminal to `address` (OSC 8); unchanged without one."""
    return f"\x1b]8;;{address}\x1b\\{text}\x1b]8;;\x1b\\" if address else text


def error_text(error: WheelfixError, *, colour: bool) -> str:
    """Return the message and the hint of `error`, on lines of their own."""
    first, *more = error.message.splitlines() or [""]
    lines = [paint("error", Colour.RED, on=colour) + f": {printable(first)}"]
    lines += [f"  {printable(line)}" for line in more]
    return "\n".join([*lines, *hint_lines(error.hint, Style(colour=colour))])


class Style(NamedTuple):
    """How text for people looks."""

    colour: bool = False
    width: int = 0
    """Columns of the terminal; 0 if lines are not wrapped."""
    verbose: bool = False
    documentation: str = ""
    """The address of the documentation site, to link coloured rules to; empty for no links."""


PLAIN = Style()


def hint_lines(hint: str | None, style: Style = PLAIN) -> list[str]:
    """Return `hint` as lines below a message; none without a hint.

    A command is not broken: it could not be pasted.
    """
    if hint is None:
        return []
    width = 0 if "`wheelfix " in hint else style.width
    first, *more = hint.splitlines() or [""]
    label = paint("hint", Colour.BLUE, on=style.colour)
    return [
        wrapped("hint: ", printable(first), width).replace("hint", label, 1),
        *(wrapped("      ", printable(line), width) for line in more),
    ]


def wrapped(label: str, text: str, width: int, hanging: int = 0) -> str:
    """Break `label` and `text` at `width` columns; 0 leaves them on one line.

    Further lines are indented by `hanging` columns, or else as far as the label reaches. Words are
    not broken: paths can be copied from a terminal.
    """
    if len(label + text) <= width or not width:
        return label + text
    return fill(
        text,
        width,
        initial_indent=label,
        subsequent_indent=" " * (hanging or len(label)),
        break_long_words=False,
        break_on_hyphens=False,
    )


def error_words(error: WheelfixError) -> str:
    """Return the message and the hint of `error`, on lines of their own."""
    return "\n".join([error.message, *([error.hint] if error.hint else [])])


def backtick_spans(text: str) -> Iterator[tuple[bool, str]]:
    """Split a message at its backticks into pieces, each with whether it is a literal.

    A name with a backtick inverts the rest; no piece contains a backtick.
    """
    for number, piece in enumerate(text.split("`")):
        if piece:
            yield number % 2 == 1, piece
