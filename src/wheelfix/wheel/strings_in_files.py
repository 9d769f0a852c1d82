"""The strings in the bytes of a file, such as names of libraries in compiled code."""

import re
from collections.abc import Collection, Iterable, Iterator
from functools import cache

from wheelfix.named_tuple import NamedTuple
from wheelfix.wheel.model import NAME_MAX


class Between(NamedTuple):
    """What stands between the strings of a file."""

    delimiters: bytes
    skipped: bytes = b""
    """What may stand before a string, which then ends before a space."""

    def string(self, text: bytes, first: int) -> bytes:
        """Return the string of what is between two delimiters; `first` is the byte before."""
        if not self.skipped:
            return text
        is_comment = first == ord(";")  # unless the string begins at once, as in a list
        return (text if is_comment else text.lstrip(self.skipped)).partition(b" ")[0]


CODE = Between(b"\0/\"'\n")
"""Of compiled code and of Python sources."""
DATA = Between(CODE.delimiters + b";\r\t=:,<>()[]{}|\xbf", b" -")
"""Of files that code reads: `lib = NAME`, `- NAME`, not the end of a sentence. A byte order mark
ends with the last one."""
_MOST = 4096
"""Strings of a file."""


def strings_among(
    pieces: Iterable[bytes], texts: Collection[bytes], between: Between
) -> Iterator[tuple[bytes, int]]:
    """Yield each string of a file that is one of `texts`, with its offset in bytes.

    A string is as for `Strings`, which is faster for a few texts. `pieces` are the file, in order.
    """
    strings = re.compile(rb"[^%b]+" % re.escape(between.delimiters))
    longest = max(map(len, texts), default=0)
    kept, start = b"", 0
    for piece in pieces:
        data = kept + piece
        last = max(data.rfind(end) for end in _each(between.delimiters))
        for match in strings.finditer(data, 0, max(last, 0)):
            at = match.start()
            if at and (string := between.string(match[0], data[at - 1])) in texts:
                yield string, start + at
        # The rest may begin a string; of one that is too long, more than the longest text is kept.
        kept = data[max(last, len(data) - longest - 2, 0) :]
        start += len(data) - len(kept)


@cache
def _each(delimiters: bytes) -> tuple[bytes, ...]:
    return tuple(bytes((byte,)) for byte in delimiters)


@cache
def _pattern_of(text: bytes) -> re.Pattern[bytes]:
    return re.compile(re.escape(text))  # thrice as fast as `bytes.find`


class Strings:
    """Collects the strings of a file that contain a given text, while the file passes in pieces.

    A string is as `CODE` or `DATA` says: so does the name of a library that
    is opened by name.
    """

    def __init__(self, text: bytes, between: Between) -> None:
        """Begin at the start of a file."""
        self._between = between
        self.found: list[tuple[int, bytes]] = []
        """Offset and content of each string, in bytes."""
        self.complete = True
        """Whether no string was left out because there were too many."""
        self._text = text
        self._search_from = _pattern_of(text).search
        self._left = _MOST
        self._kept = b""
        self._start = 0  # where in the file the kept bytes begin
        self._next = 0  # where in the kept bytes the search continues

    def feed(self, piece: bytes) -> None:
        """Search the next piece of the file."""
        if not self.complete:
            return
        data = self._kept + piece
        # A string near the end may continue in the next piece.
        self._search(data, len(data) - NAME_MAX - len(self._text))
        begin = max(self._next - NAME_MAX, 0)
        self._kept = data[begin:]
        self._start += begin
        self._next -= begin

    def finish(self) -> None:
        """Search the rest: no further piece comes."""
        self._search(self._kept, len(self._kept))

    def _search(self, data: bytes, stop: int) -> None:
        match = self._search_from(data, self._next)
        while match and match.start() < stop and self.complete:
            at = match.start()
            self._take(data, at)
            self._left -= 1
            self.complete = self._left > 0
            match = self._search_from(data, at + 1)
        self._next = max(self._next, stop)

    def _take(self, data: bytes, at: int) -> None:
        """Find the delimiters of the string around the text at `at`."""
        after = at + len(self._text)
        ends = _each(self._between.delimiters)
        start = max(data.rfind(end, max(at - NAME_MAX, 0), at) for end in ends)
        stops = (data.find(end, after, after + NAME_MAX) for end in ends)
        stop = min((stop for stop in stops if stop >= 0), default=-1)
        if start >= 0 and stop >= 0:
            string = self._between.string(data[start + 1 : stop], data[start])
            self.found.append((self._start + start + 1, string))
