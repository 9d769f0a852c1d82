"""Large files looked into through a mapping, so that none is ever in memory as a whole.

The pages of a mapping that were touched count as memory of the process, and stay until the kernel
runs short of it: whoever goes through a whole file here lets go of them on the way.
"""

import mmap
from collections.abc import Iterator
from io import BytesIO

PIECE = 1 << 20


def copied(view: memoryview, start: int, stop: int) -> bytes:
    """Copy bytes out of a buffer; of a mapping, only the copy stays in memory."""
    if stop - start <= PIECE:
        return bytes(view[start:stop])
    copy = BytesIO()  # unlike `bytes.join`, it does not hold the pieces and the whole at once
    for piece in pieces(view[start:stop]):
        copy.write(piece)
    return copy.getvalue()


def pieces(view: memoryview) -> Iterator[bytes]:
    """Yield a buffer in pieces of 1 MiB; of a mapping, only the piece stays in memory."""
    for start in range(0, len(view), PIECE):
        piece = bytes(view[start : start + PIECE])
        forget(view)
        yield piece


def forget(view: memoryview) -> None:
    """Let go of the pages of a mapped file; they are read again where they are asked for again."""
    if isinstance(view.obj, mmap.mmap):
        view.obj.madvise(mmap.MADV_DONTNEED)
