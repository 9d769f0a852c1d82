"""Sequential reading of memory-mapped files.

Pages of a mapping count as memory of the process once they were read, until the kernel needs them.
Code that reads a whole file therefore releases its pages on the way.
"""

import mmap
from collections.abc import Iterator

PIECE = 1 << 18


def pieces(view: memoryview) -> Iterator[bytes]:
    """Yield a buffer in copies of 256 KiB, and release the pages of a mapping."""
    for start in range(0, len(view), PIECE):
        piece = bytes(view[start : start + PIECE])
        forget(view)
        yield piece


def forget(view: memoryview) -> None:
    """Release the pages of a mapped file; the next access reads them again."""
    if isinstance(view.obj, mmap.mmap):
        view.obj.madvise(mmap.MADV_DONTNEED)


def equal(one: bytes, other: bytes) -> int:
    """Return the length of the common prefix of both, in bytes."""
    known, unknown = 0, min(len(one), len(other)) + 1
    while unknown - known > 1:
        middle = (known + unknown) // 2
        if one[known:middle] == other[known:middle]:
            known = middle
        else:
            unknown = middle
    return known
