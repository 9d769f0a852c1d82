"""Line numbers in TOML: of a key, and of a syntax error."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import reduce
from typing import Any, cast

from wheelfix.system import deferred

Place = Sequence[str | int]
"""A value of a document: the keys, and the indices of lists, that lead to it."""

_PARSED = 5_000_000
"""Characters that are parsed to find the statements, those of an unfinished one again and again."""


def line_of(text: str, place: Place) -> int:
    """Return the line on which the statement begins that first gives a value at `place`.

    `text` is valid TOML 1.0 that has a value there; lines count from 1.
    """
    lines = text.split("\n")
    # A complete statement parses as TOML; a prefix of one does not.
    ends, left = [0], _PARSED
    for number in range(1, len(lines) + 1):
        statement = "\n".join(lines[ends[-1] : number])
        left -= len(statement)
        if left < 0:  # one of thousands of lines: what follows it counts as part of it
            break
        if _read(statement) is not None:
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
        return deferred.tomllib.loads(text)
    except deferred.tomllib.TOMLDecodeError:
        return None


def _has(value: object, place: Place) -> bool:
    try:
        reduce(lambda inner, part: inner[part], place, cast("Any", value))
    except (KeyError, IndexError):
        return False
    return True
