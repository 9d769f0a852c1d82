"""Sequential reading of memory-mapped files."""

import mmap
from collections.abc import Iterator
from itertools import zip_longest

PIECE = 1 << 18


def pieces(view: memoryview) -> Iterator[bytes]:
    """Yield a buffer in copies of 256 KiB, and release the pages of a mapped file on the way.

    Pages that were read count as memory of the process until the kernel needs them, so without this
    a repair would exceed the 512 MB that the documents promise (tests/integration/test_memory.py).
    """
    for start in range(0, len(view), PIECE):
        piece = bytes(view[start : start + PIECE])
        if isinstance(view.obj, mmap.mmap):
            view.obj.madvise(mmap.MADV_DONTNEED)
        yield piece


def first_difference(one: memoryview, other: memoryview) -> int | None:
    """Return the offset of the first byte that differs, None if all are equal."""
    done = 0
    for first, second in zip_longest(pieces(one), pieces(other), fillvalue=b""):
        if first != second:
            pairs = enumerate(zip(first, second, strict=False))
            equal = min(len(first), len(second))
            return done + next((at for at, (a, b) in pairs if a != b), equal)
        done += len(first)
    return None
