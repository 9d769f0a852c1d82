"""Sequential reading of memory-mapped files."""

import mmap
from collections.abc import Iterator

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
