"""Strings of a file that have some text in them, found while the file passes by in pieces.

A string is what stands between two of NUL, `/`, `"` and `'`: in compiled code and in Python source
alike, that is how the name of a library stands that is opened by name.
"""

import re

_ENDS = (b"\0", b"/", b'"', b"'")
_LONGEST = 255  # bytes: NAME_MAX (limits.h)
_MOST = 4096


class Strings:
    """Collects the strings that have `text` in them, with their places."""

    def __init__(self, text: bytes) -> None:
        """Begin at the start of a file."""
        self.found: list[tuple[int, bytes]] = []
        """Offset and content of each."""
        self.complete = True
        """Whether none was left out: a file with thousands of places is not worth the time."""
        self._text = text
        self._search_from = re.compile(re.escape(text)).search  # thrice as fast as `bytes.find`
        self._left = _MOST
        self._kept = b""
        self._start = 0  # where in the file the kept bytes begin
        self._next = 0  # where in the kept bytes to look on

    def feed(self, piece: bytes) -> None:
        """Look through the next piece of the file."""
        if not self.complete:
            return
        data = self._kept + piece
        # What stands near the end may go on in the next piece.
        self._search(data, len(data) - _LONGEST - len(self._text))
        begin = max(self._next - _LONGEST, 0)
        self._kept = data[begin:]
        self._start += begin
        self._next -= begin

    def finish(self) -> None:
        """Look through the rest: no further piece comes."""
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
        """Find the ends of the string around the text at `at`."""
        after = at + len(self._text)
        start = max(data.rfind(end, max(at - _LONGEST, 0), at) for end in _ENDS)
        ends = [data.find(end, after, after + _LONGEST) for end in _ENDS]
        stop = min((end for end in ends if end >= 0), default=-1)
        if start >= 0 and stop >= 0:
            self.found.append((self._start + start + 1, data[start + 1 : stop]))
