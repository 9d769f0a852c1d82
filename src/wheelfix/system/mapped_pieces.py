"""Sequential reading of memory-mapped files."""

import mmap
from collections.abc import Iterator

PIECE = 1 << 18


def pieces(view: memoryview) -> Iterator[bytes]:
    """Yield a buffer in copies of 256 KiB, and release the pages of a mapped file on the way.

    Pages of a mapping count as memory of the process once they were read, until the kernel needs
    them; the next access reads them again.
    """
    for start in range(0, len(view), PIECE):
        piece = bytes(view[start : start + PIECE])
        if isinstance(view.obj, mmap.mmap):
            view.obj.madvise(mmap.MADV_DONTNEED)
        yield piece
