"""Mapped files, read in pieces from start to end."""

import mmap
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path

PIECE = 1 << 18


@contextmanager
def map_file(path: Path) -> Generator[memoryview]:
    """Map a file into memory. Raises `OSError` if it cannot be read."""
    if not path.stat().st_size:  # which mmap refuses
        yield memoryview(b"")
        return
    with path.open("rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    # It is unmapped with its last view: the frames of an exception may hold some.
    with memoryview(mapping) as data:
        del mapping
        yield data


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


def first_difference(old: memoryview, other: memoryview) -> int | None:
    """Return the offset of the first byte that differs, None if all are equal."""
    done = 0
    for first, second in zip_longest(pieces(old), pieces(other), fillvalue=b""):
        if first != second:
            shorter = min(len(first), len(second))
            return done + next((n for n in range(shorter) if first[n] != second[n]), shorter)
        done += len(first)
    return None
