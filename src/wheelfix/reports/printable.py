"""Escapes, colors and error messages for every output.

Names come from wheels that may be hostile: every one of them passes through `printable`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from textwrap import fill
from typing import cast

from wheelfix.errors import WheelfixError
from wheelfix.named_tuple import NamedTuple
from wheelfix.system.lazy_patterns import lazy_pattern


class Color(StrEnum):
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


LONGEST = 200
"""Characters of a line for people beyond which long names in it are shortened, unless verbose."""
MOST = 2000
"""Characters of a line with all its sentences; a line with a command is there to be pasted."""
_LONGEST_NAME = 120
_LONG_NAME = lazy_pattern(rf"[^\s`]{{{_LONGEST_NAME + 1},}}")
_REST = " …; -v shows the rest"
_UNBROKEN = lazy_pattern(r"`[^`]*`|\bpip (?:install|wheel) [^;]*|^wheelfix .*")
"""Literals and commands."""
_NO_BREAK = "\0"
"""Stands for a space at which no line is broken; a printable text has none."""
_ESCAPE = lazy_pattern(r"(\x1b\[[\d;]*m|\x1b\]8;[^\x1b]*\x1b\\)")


def shorten(text: str, most: int = LONGEST) -> str:
    """Return `text` with long names shortened if it has more than `most` characters.

    A name with thousands of characters is hostile, or a mangled one. No sentence is cut: what went
    wrong may stand anywhere in it.
    """
    if len(text) <= most:
        return text
    pieces = text.split("`")
    pieces[::2] = (_LONG_NAME.sub(_shorten_match, piece) for piece in pieces[::2])
    pieces[1::2] = map(_shorten_name, pieces[1::2])
    return _up_to_a_word("`".join(pieces))


def _shorten_match(match: re.Match[str]) -> str:
    return _shorten_name(match[0])


def _shorten_name(name: str) -> str:
    half = _LONGEST_NAME // 2
    return name if len(name) <= _LONGEST_NAME else f"{name[:half]}…{name[1 - half :]}"


def _up_to_a_word(text: str, most: int = MOST) -> str:
    return text if len(text) <= most else text[: max(0, text.rfind(" ", 0, most))] + _REST


def fit(text: str, *, verbose: bool) -> str:
    """Return text for people without long names, unless `verbose`; escapes do not count."""
    if verbose or all(len(line) <= LONGEST for line in text.splitlines()):
        return text
    return "\n".join(map(_fit_line, text.splitlines()))


def has_command(line: str) -> bool:
    """Return whether a line has something to be pasted.

    A command of wheelfix or pip, options of one, or an assignment to a variable of the loader.
    """
    words = ("wheelfix ", "pip install ", "pip wheel ", "`--", "LD_LIBRARY_PATH=", "LD_PRELOAD=")
    return any(word in line for word in words)


def _fit_line(line: str) -> str:
    """Return a line with its long names shortened, and with all its escapes."""
    pieces = _ESCAPE.split(line)
    if sum(map(len, pieces[::2])) <= (MOST if has_command(line) else LONGEST):
        return line
    left = MOST
    for place in range(0, len(pieces), 2):
        short = _up_to_a_word(_LONG_NAME.sub(_shorten_match, pieces[place]), left) if left else ""
        left = left - len(short) if short == pieces[place] or not short.endswith(_REST) else 0
        pieces[place] = short
    return "".join(pieces)


def json_text(value: object, *, indent: int | None = 2) -> str:
    """Return JSON in ASCII, for any terminal, without the runner's `##[`."""
    separators = (",", ":") if indent is None else None
    return hide_command(json.dumps(value, indent=indent, separators=separators))


def error_value(error: WheelfixError) -> dict[str, object]:
    """Return an error as JSON types."""
    return {"message": error.message, "hint": error.hint}


def fields_value(fields: Mapping[str, object], **names: str) -> dict[str, object]:
    """Return the fields of a value as JSON types; `names` are other keys for some of them."""
    return {
        names.get(name, name): list(cast("tuple[object, ...]", item))
        if isinstance(item, tuple)
        else item
        for name, item in fields.items()
    }


def hide_command(quoted: str) -> str:
    """Escape the runner's `##[` in a string as JSON, TOML and JavaScript write one."""
    return quoted.replace("##[", r"#\u0023[")


def paint(text: str, color: Color, *, on: bool) -> str:
    """Return `text` in `color` if `on`."""
    return f"\x1b[{color}m{text}\x1b[0m" if on and text else text


def link(text: str, address: str) -> str:
    """Return `text` as a hyperlink of a terminal to `address` (OSC 8); unchanged without one."""
    return f"\x1b]8;;{address}\x1b\\{text}\x1b]8;;\x1b\\" if address else text


def error_text(error: WheelfixError, *, color: bool) -> str:
    """Return the message and the hint of `error`, on lines of their own."""
    first, *more = error.lines
    lines = [paint("error", Color.RED, on=color) + f": {printable(first)}"]
    lines += [f"  {printable(line)}" for line in more]
    return "\n".join([*lines, *hint_lines(error.hint, Style(color=color))])


class Style(NamedTuple):
    """How text for people looks."""

    color: bool = False
    width: int = 0
    """Columns of the terminal; 0 if lines are not wrapped."""
    verbose: bool = False
    documentation: str = ""
    """The address of the documentation site, to link colored rules to; empty for no links."""


PLAIN = Style()


def hint_lines(hint: str | None, style: Style = PLAIN) -> list[str]:
    """Return `hint` as lines below a message; none without a hint."""
    if hint is None:
        return []
    width = style.width or LONGEST
    first, *more = map(printable, hint.splitlines() or [""])
    label = paint("hint", Color.BLUE, on=style.color)
    return [
        wrap("hint: ", first, width).replace("hint", label, 1),
        *(wrap("      ", line, width) for line in more),
    ]


def _unbroken(literal: re.Match[str]) -> str:
    return literal[0].replace(" ", _NO_BREAK)


def wrap(label: str, text: str, width: int, hanging: int = 0) -> str:
    """Break `label` and `text` at `width` columns; 0 leaves them on one line.

    Further lines are indented by `hanging` columns, or else as far as the label reaches. Words and
    commands are not broken: they can be copied from a terminal.
    """
    if len(label + text) <= width or not width:
        return label + text
    filled = fill(
        _UNBROKEN.sub(_unbroken, text),
        width,
        initial_indent=label,
        subsequent_indent=" " * (hanging or len(label)),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return filled.replace(_NO_BREAK, " ")


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
