"""The floor: what any program must do to check or to repair a wheel, and nothing else.

    python scripts/benchmark/floor.py check WHEEL
    python scripts/benchmark/floor.py repair WHEEL NEW COPY

`check` inflates and hashes every member once. `repair` does so, hashes and deflates the members of
the zip NEW, which are stored there, and writes a file COPY of these and of the others, in their
compressed form. zlib-ng inflates, libdeflate deflates (above 32 MiB zlib-ng, in pieces), in two
threads. Nothing is verified, parsed or listed, and no module of wheelfix is imported.
"""

import mmap
import os
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from importlib import import_module
from threading import Thread
from typing import Any, NamedTuple, TypeVar

deflate: Any = import_module("deflate")  # neither has type information
zlib_ng: Any = import_module("zlib_ng.zlib_ng")

_CENTRAL = struct.Struct("<4s4H4L5H2L")
_PIECE = 2**20
_WHOLE = 32 * 2**20
_RAW = -15
_THREADS = 2
Item = TypeVar("Item")


class Packed(NamedTuple):
    """One member of a zip, in its compressed form."""

    name: bytes
    method: int
    crc: int
    size: int
    data: memoryview


def packed(path: str) -> Iterator[Packed]:
    """Yield the members of a zip that is neither damaged nor Zip64."""
    view = memoryview(mmap.mmap(os.open(path, os.O_RDONLY), 0, access=mmap.ACCESS_READ))
    end = bytes(view[-22:])
    count, _, at = struct.unpack("<HLL", end[10:20])
    for _ in range(count):
        fields = _CENTRAL.unpack_from(view, at)
        method, crc, compressed, size, *lengths = fields[4], *fields[6:12]
        offset = fields[15]
        names = struct.unpack_from("<2H", view, offset + 26)
        start = offset + 30 + sum(names)
        name = bytes(view[at + _CENTRAL.size : at + _CENTRAL.size + lengths[0]])
        yield Packed(name, method, crc, size, view[start : start + compressed])
        at += _CENTRAL.size + sum(lengths)


def read(member: Packed) -> None:
    """Inflate and hash a member."""
    if not member.method:
        sha256(member.data).digest()
    elif member.size <= _WHOLE:
        sha256(zlib_ng.decompress(member.data, _RAW, member.size or 1)).digest()
    else:
        inflater, hashed = zlib_ng.decompressobj(_RAW), sha256()
        for start in range(0, len(member.data), _PIECE):
            hashed.update(inflater.decompress(member.data[start : start + _PIECE]))


class Part(NamedTuple):
    """A part of new content that is deflated by itself."""

    data: memoryview
    start: int
    stop: int


def parts(data: memoryview) -> Iterator[Part]:
    """Yield the parts of new content."""
    step = _WHOLE if len(data) <= _WHOLE else _PIECE
    for start in range(0, len(data), step):
        yield Part(data, start, min(start + step, len(data)))


def deflated(part: Part) -> bytes | bytearray:
    """Deflate a part of new content."""
    data, start, stop = part
    if len(data) <= _WHOLE:
        whole: bytearray = deflate.deflate_compress(data, 6)
        return whole
    before = bytes(data[max(0, start - 2**15) : start])
    deflater = zlib_ng.compressobj(6, zlib_ng.DEFLATED, _RAW, zdict=before)
    ends = zlib_ng.Z_FINISH if stop == len(data) else zlib_ng.Z_SYNC_FLUSH
    return b"".join((deflater.compress(data[start:stop]), deflater.flush(ends)))


def in_threads(work: Callable[[Item], object], items: Sequence[Item]) -> None:
    """Work on all items, in two threads."""
    waiting = iter(items)

    def run() -> None:
        for item in waiting:
            work(item)

    threads = [Thread(target=run) for _ in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main(what: str, wheel: str, *files: str) -> None:
    """Do what the command line says."""
    members = list(packed(wheel))
    in_threads(read, members)
    if what == "check":
        return
    new, target = files
    added = list(packed(new))
    names = {member.name for member in added}
    in_threads(read, added)
    written = os.open(target, os.O_WRONLY | os.O_CREAT)
    for member in members:
        if member.name not in names:
            os.write(written, member.data)
    in_threads(
        lambda part: os.write(written, deflated(part)),
        [part for member in added for part in parts(member.data)],
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
