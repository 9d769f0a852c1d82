"""A file that is to become a member, and what was found out about it while it was in hand."""

import os
import zlib
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from wheelfix.elf.model import Elf
from wheelfix.system.mmap_io import forget
from wheelfix.wheel.members import Whole
from wheelfix.wheel.splice import Old, Part, Read, filed, first_difference, holds, plan, spliced

_PIECE = 2**18
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


Changes = tuple[tuple[int, int], ...]
"""Where a file differs from another, as ranges: not before, between or after them."""


def look_at(path: Path) -> Made:
    """Read a file once."""
    return compared(path, None)[0]


def compared(path: Path, old: memoryview | None) -> tuple[Made, Changes]:
    """Read a file once, and compare it with what it was made from, if that is given."""
    hasher, crc, size = sha256(), 0, 0
    changes: list[tuple[int, int]] = []
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            hasher.update(piece)
            crc = zlib.crc32(piece, crc)
            if old is not None and piece != _copied(old, size, len(piece)):
                changes.append((size, size + len(piece)))
            size += len(piece)
    if old is not None and size < len(old):
        changes.append((size, len(old)))
    return Made(path=path, size=size, crc=crc, sha256=hasher.digest()), tuple(changes)


def _copied(view: memoryview, offset: int, size: int) -> bytes:
    piece = bytes(view[offset : offset + size])
    forget(view)
    return piece


def fixed(stream: Read, whole: Whole, path: Path, changes: Changes) -> tuple[Part, ...] | None:
    """Return the compressed form of a file in parts of that of `whole`, to which it has `changes`.

    None where that serves nobody. Raises the error of an inflater if that one cannot be inflated
    any more.
    """
    old, places = partial(_copied, whole.data), whole.tracked.places
    with path.open("rb") as file:

        def new(offset: int, size: int) -> bytes:
            return os.pread(file.fileno(), size, offset)

        def differs(start: int, stop: int | None) -> int | None:
            for low, high in changes:
                end = high if stop is None else min(high, stop)
                found = first_difference(old, new, max(low, start), end)
                if found is not None:
                    return found
            return None

        worth = max(_WORTH, len(whole.data) // 8)
        fresh = plan(stream, new, old=Old(old, differs), places=places, worth=worth)
        if fresh is None:
            return None
        parts = tuple(filed(spliced(fresh, stream, new, -1), path.with_suffix(".parts")))
        return parts if holds(parts, stream, differs, new, places) else None
