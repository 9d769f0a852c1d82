"""Line numbers in TOML: of a key, and of a syntax error."""

import re
import tomllib
from bisect import bisect_left
from collections.abc import Sequence
from functools import reduce
from typing import Any, cast

Place = Sequence[str | int]
"""A value of a document: the keys, and the indices of lists, that lead to it."""


def line_of(text: str, place: Place) -> int:
    """Return the line on which the statement begins that first gives a value at `place`.

    `text` is valid TOML 1.0 that has a value there; lines count from 1.
    """
    lines = text.split("\n")
    # A statement is a document by itself, and no beginning of one is.
    ends = [0]
    for number in range(1, len(lines) + 1):
        if _read("\n".join(lines[ends[-1] : number])) is not None:
            ends.append(number)
    last = bisect_left(ends, True, key=lambda end: _has(_read("\n".join(lines[:end])), place))
    return ends[max(last, 1) - 1] + 1


def line_of_error(data: bytes, error: ValueError) -> int:
    """Return the line of an error of decoding or parsing the TOML document `data`."""
    if isinstance(error, UnicodeDecodeError):
        return data.count(b"\n", 0, error.start) + 1
    if match := re.search(r"\(at line (\d+), column", str(error)):
        return int(match[1])
    return data.rstrip().count(b"\n") + 1  # "at end of document"


def _read(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _has(value: object, place: Place) -> bool:
    try:
        reduce(lambda inner, part: inner[part], place, cast("Any", value))
    except (KeyError, IndexError):
        return False
    return True
