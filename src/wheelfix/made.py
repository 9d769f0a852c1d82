"""A file that is to become a member, and what was found out about it while it was in hand."""

import os
import zlib
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, NamedTuple

from wheelfix.elf import Elf
from wheelfix.mapped import copied, forget
from wheelfix.splice import Part, Read, Tracked, holds, plan, spliced

_PIECE = 2**20
_WORTH = 2**23
"""Bytes of one change that may always be deflated anew; of larger objects, an eighth of them."""


class Made(NamedTuple):
    """A file that nobody changes any more."""

    path: Path
    size: int
    crc: int
    sha256: bytes
    elf: Elf | None = None
    """What the object says; None if it was not read."""
    origin: str = ""
    """The member of the input that it was made from, where `parts` tell how."""
    parts: tuple[Part, ...] | None = None
    """Its compressed form, where most of that is the origin's; None to deflate it."""


def look_at(path: Path) -> Made:
    """Read a file once."""
    with path.open("rb") as file:
        return _look_at(path, file)


def _look_at(path: Path, file: BinaryIO) -> Made:
    hasher, crc, size = sha256(), 0, 0
    while piece := file.read(_PIECE):
        hasher.update(piece)
        crc = zlib.crc32(piece, crc)
        size += len(piece)
    return Made(path=path, size=size, crc=crc, sha256=hasher.digest())


def mended(stream: Read, tracked: Tracked, old: memoryview, path: Path) -> tuple[Part, ...] | None:
    """Return the compressed form of a file in parts of the one that `old` had, as was `tracked`.

    None where that serves nobody. Raises `zlib.error` if that one cannot be inflated any more.
    """

    def before(offset: int, size: int) -> bytes:
        piece = copied(old, offset, min(offset + size, len(old)))
        forget(old)
        return piece

    with path.open("rb") as file:

        def new(offset: int, size: int) -> bytes:
            return os.pread(file.fileno(), size, offset)

        worth = max(_WORTH, len(old) // 8)
        fresh = plan(stream, new, old=before, places=tracked.places, worth=worth)
        if fresh is None:
            return None
        parts = tuple(spliced(fresh, stream, new, -1))
        return parts if holds(parts, stream, before, new, tracked.places) else None
