"""Large files looked into through a mapping, so that none is ever in memory as a whole.

The pages of a mapping that were touched count as memory of the process, and stay until the kernel
runs short of it: whoever goes through a whole file here lets go of them on the way.
"""

import mmap
from collections.abc import Iterator
from io import BytesIO

PIECE = 1 << 18


def copied(view: memoryview, start: int, stop: int) -> bytes:
    """Copy bytes out of a buffer; of a mapping, only the copy stays in memory."""
    if stop - start <= PIECE:
        return bytes(view[start:stop])
    copy = BytesIO()  # unlike `bytes.join`, it does not hold the pieces and the whole at once
    for piece in pieces(view[start:stop]):
        copy.write(piece)
    return copy.getvalue()


def pieces(view: memoryview) -> Iterator[bytes]:
    """Yield a buffer in pieces of 256 KiB; of a mapping, only the piece stays in memory."""
    for start in range(0, len(view), PIECE):
        piece = bytes(view[start : start + PIECE])
        forget(view)
        yield piece


def forget(view: memoryview) -> None:
    """Let go of the pages of a mapped file; they are read again where they are asked for again."""
    if isinstance(view.obj, mmap.mmap):
        view.obj.madvise(mmap.MADV_DONTNEED)


def equal(one: bytes, other: bytes) -> int:
    """Return how many bytes are the same at the beginning of both."""
    known, unknown = 0, min(len(one), len(other)) + 1
    while unknown - known > 1:
        middle = (known + unknown) // 2
        if one[known:middle] == other[known:middle]:
            known = middle
        else:
            unknown = middle
    return known


class Text:
    """Part of a large file, looked into like `bytes` and never in memory as a whole."""

    _LOOKS = 64  # before pages are let go of: a look at one maps some of its neighbours

    def __init__(self, view: memoryview, start: int, stop: int) -> None:
        self._view = view
        self._start = start
        self._stop = stop
        self._looks = 0

    def __len__(self) -> int:
        return self._stop - self._start

    def __getitem__(self, part: slice) -> bytes:
        """Copy a part; unlike `bytes`, with no negative places but an end of -1."""
        start, stop, _ = part.indices(len(self))
        self._looks += 1
        if self._looks % self._LOOKS == 0:
            forget(self._view)
        return copied(self._view, self._start + start, self._start + max(start, stop))

    def __contains__(self, text: bytes) -> bool:
        return self.find(text) >= 0

    def startswith(self, text: bytes, at: int) -> bool:
        """Return whether `text` stands at a place."""
        return self[at : at + len(text)] == text

    def find(self, text: bytes, start: int = 0) -> int:
        """Return where `text` begins, at `start` or after it, -1 if nowhere."""
        size = 256
        while start < len(self):
            found = self[start : start + size + len(text) - 1].find(text)
            if found >= 0:
                return start + found
            if size == PIECE:
                forget(self._view)
            start += size
            size = PIECE
        return -1
