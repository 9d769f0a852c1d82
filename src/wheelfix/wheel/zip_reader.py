"""Strict reading of a zip file: members by name, inflated or as stored.

The directory is read by `zip_headers`, not by the standard library's `zipfile`, which accepts
prepended data, overlapping members and bytes between them. The file is read by offset from one
descriptor that stays open, so a file that is replaced meanwhile is not mixed with its successor.

zlib-ng inflates where it is installed, otherwise zlib. It takes half the time, and checks the codes
of a stream by zlib's own routines: both give the same bytes, and refuse the same streams with the
same messages. ISA-L, which is faster still, accepts codes that zlib refuses, as pip would;
libdeflate does not report where a stream ends.
"""

import os
import zlib
from bz2 import BZ2Decompressor
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from itertools import chain, islice
from lzma import FILTER_LZMA1, FORMAT_RAW, LZMADecompressor, LZMAError
from types import ModuleType
from typing import Self

from wheelfix.errors import BadWheelError
from wheelfix.text import count
from wheelfix.wheel import zip_headers
from wheelfix.wheel.read_contents import fill_buffer
from wheelfix.wheel.zip_headers import (
    DAMAGED,
    HAS_END_MARKER,
    LZMA,
    REPACK,
    TAIL,
    Entry,
    check_local,
    find_end,
    is_descriptor,
    parse_directory,
    quote,
)

_PIECE = 2**20
_WRONG_END = "does not end where its compressed data should"
_LZMA_HEAD = 9
"""Bytes before an LZMA stream: the version, the size of the properties, and these (5.8.8)."""
_HEAD = 2**18
"""Bytes, more than the longest local header."""


def _fastest() -> ModuleType:
    try:
        return import_module("zlib_ng.zlib_ng")  # has no wheels for some machines
    except ImportError:
        return zlib


LIBRARY = _fastest()
"""The module that inflates; its interface is that of `zlib`."""
LIBRARY_NAME = (
    f"zlib {zlib.ZLIB_RUNTIME_VERSION}"
    if LIBRARY is zlib
    else f"zlib-ng {LIBRARY.ZLIBNG_RUNTIME_VERSION}"
)
"""With the version: `zlib-ng 2.3.3`."""
crc32: Callable[[bytes, int], int] = LIBRARY.crc32


class ZipReader:
    """An open zip file. Close it, or use it as a context manager; reading is safe from threads."""

    def __init__(self, descriptor: int) -> None:
        """Take over an open `descriptor`, and read the directory of the zip.

        Raises `BadWheelError` for a directory that is damaged or may be read in two ways.
        """
        self.size = os.fstat(descriptor).st_size
        """Bytes of the zip file."""
        self._descriptor = descriptor
        tail = self.read_at(max(0, self.size - TAIL), min(self.size, TAIL))
        end = find_end(tail, self.size)
        self.comment = end.comment
        """The comment of the zip."""
        self.directory = tuple(parse_directory(self.read_at(end.offset, end.size), end))
        """All entries, in the order of the central directory."""
        self.entries = {e.name: e for e in self.directory if not e.name.endswith("/")}
        """The entries of files, by name."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Buffers that were handed out stay valid."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def read(self, member: str) -> bytes:
        """Inflate a member; `BadWheelError` where size or CRC are not as stated.

        For members that may be large, use `buffer`.
        """
        return b"".join(self.inflate(member))

    def buffer(self, member: str) -> memoryview:
        """Inflate a member into a buffer; a large one is a mapped file without a name."""
        return fill_buffer(self.inflate(member), self.entries[member].size)

    def inflate(self, member: str) -> Iterator[bytes]:
        """Yield a member's bytes in pieces of up to 1 MiB.

        Raises `BadWheelError` as soon as it inflates past its stated size, at the end where size
        or CRC are not as stated.
        """
        return self._inflate(self.entries[member])

    def check_folders(self) -> None:
        """Compare the entries of folders with their local headers, and make sure they are empty.

        Raises `BadWheelError` where they disagree.
        """
        for entry in self.directory:
            if entry.name.endswith("/"):
                for _ in self._inflate(entry):
                    pass

    def raw(self, member: str) -> tuple[bytes, Iterable[bytes]]:
        """Return the extra field of the local header, and the data as stored, in pieces.

        Raises `BadWheelError` where the local header and the central directory disagree.
        """
        return self._raw(self.entries[member])

    def read_at(self, offset: int, size: int) -> bytes:
        """Read from the zip file itself; `BadWheelError` where it has become too short."""
        data = os.pread(self._descriptor, size, offset)
        while len(data) < size:  # one read ends at 2 GiB, or at a signal
            more = os.pread(self._descriptor, size - len(data), offset + len(data))
            if not more:
                raise BadWheelError("the file shrank while it was read", hint=DAMAGED)
            data += more
        return data

    def pieces(self, start: int, end: int) -> Iterator[bytes]:
        """Yield the bytes of the zip file from `start` to `end` - 1."""
        return (self.read_at(at, min(_PIECE, end - at)) for at in range(start, end, _PIECE))

    def _inflate(self, entry: Entry) -> Iterator[bytes]:
        if whole := self._inflate_small(entry):
            return iter((whole,))
        _, raw = self._raw(entry)
        match entry.method:
            case zip_headers.STORED:
                return _check_pieces(entry, raw)
            case zip_headers.DEFLATED:
                return _check_pieces(entry, inflate_pieces(entry, raw))
            case _:
                return _check_pieces(entry, _decompress_pieces(entry, raw))

    def _inflate_small(self, entry: Entry) -> bytes:
        """Read and inflate a small member at once; empty where anything is not as in most zips.

        What is wrong there is said by the other functions, piece by piece.
        """
        span = entry.end - entry.offset
        if entry.method != zip_headers.DEFLATED or max(span, entry.size) > _HEAD:
            return b""
        data = self.read_at(entry.offset, span)
        start, _ = check_local(entry, data)
        if start + entry.compressed_size != span:
            return b""
        inflater = LIBRARY.decompressobj(-zlib.MAX_WBITS)
        try:
            whole: bytes = inflater.decompress(data[start:], entry.size + 1)
        except LIBRARY.error:
            return b""
        is_as_stated = (
            inflater.eof
            and not inflater.unused_data
            and len(whole) == entry.size
            and crc32(whole, 0) == entry.crc
        )
        return whole if is_as_stated else b""

    def _raw(self, entry: Entry) -> tuple[bytes, Iterable[bytes]]:
        span = entry.end - entry.offset
        head = self.read_at(entry.offset, min(span, _HEAD))
        length, extra = check_local(entry, head)
        end = length + entry.compressed_size
        # The longest data descriptor has 24 bytes; one more is enough to know that it is none.
        rest = self.read_at(entry.offset + end, min(span - end, 25)) if end < span else b""
        # A local extra field longer than the central one may reach past the end of the entry.
        if end > span or (rest and not is_descriptor(entry, rest)):
            raise BadWheelError(
                f"{quote(entry.name)} is followed by foreign bytes in the zip", hint=REPACK
            )
        after = self.pieces(entry.offset + len(head), entry.offset + end)
        first = head[length:end]
        return extra, chain([first], after) if first else after


def _check_pieces(entry: Entry, inflated: Iterable[bytes]) -> Iterator[bytes]:
    crc = size = 0
    for piece in inflated:
        crc = crc32(piece, crc)
        size += len(piece)
        if size > entry.size:
            break
        yield piece
    if size != entry.size:
        raise _damage_error(entry, f"has {count(size, 'byte')}, the zip states {entry.size:,}")
    if crc != entry.crc:
        raise _damage_error(entry, "has a wrong checksum (CRC)")


def inflate_pieces(
    entry: Entry, raw: Iterable[bytes], library: ModuleType = LIBRARY
) -> Iterator[bytes]:
    """Inflate a member in pieces of up to 1 MiB.

    Raises `BadWheelError` where it inflates to more than its stated size, where its data is not a
    deflate stream, and where the stream does not end with the data.
    """
    inflater = library.decompressobj(-zlib.MAX_WBITS)
    left = entry.size
    try:
        for packed in raw:
            if inflater.eof:
                raise _damage_error(entry, _WRONG_END)
            while not inflater.eof:
                data = inflater.decompress(packed, min(_PIECE, left + 1))
                packed = inflater.unconsumed_tail  # noqa: PLW2901 - what is yet to be read of it
                left -= len(data)
                if left < 0:
                    raise _damage_error(
                        entry, f"inflates past the {count(entry.size, 'byte')} that the zip states"
                    )
                if data:
                    yield data
                elif not packed:
                    break
    except library.error as error:
        raise _damage_error(entry, f"cannot be inflated: {error}") from None
    if not inflater.eof or inflater.unused_data:
        raise _damage_error(entry, _WRONG_END)


def _decompress_pieces(entry: Entry, raw: Iterable[bytes]) -> Iterator[bytes]:
    """Decompress a BZIP2 or LZMA member as `inflate_pieces` does."""
    data, left = iter(raw), entry.size
    decompressor: BZ2Decompressor | LZMADecompressor = BZ2Decompressor()
    try:
        if entry.method == LZMA:
            head = b"".join(islice(data, 1))
            decompressor, data = _lzma_of(entry, head), chain([head[_LZMA_HEAD:]], data)
        for packed in data:
            if decompressor.eof:
                raise _damage_error(entry, _WRONG_END)
            piece = decompressor.decompress(packed, min(_PIECE, left + 1))
            while piece:
                yield piece
                left -= len(piece)
                more = left >= 0 and not decompressor.eof
                piece = decompressor.decompress(b"", min(_PIECE, left + 1)) if more else b""
    except (OSError, EOFError, LZMAError) as error:
        raise _damage_error(entry, f"cannot be decompressed: {error}") from None
    says_end = entry.method != LZMA or entry.flags & HAS_END_MARKER
    if decompressor.unused_data or (says_end and not decompressor.eof):
        raise _damage_error(entry, _WRONG_END)


def _lzma_of(entry: Entry, head: bytes) -> LZMADecompressor:
    """Return what decompresses a stream with the header `head` (5.8.8)."""
    if len(head) < _LZMA_HEAD or head[2:4] != b"\5\0":
        raise _damage_error(entry, "has no LZMA properties")
    lc, rest = head[4] % 9, head[4] // 9
    # A larger dictionary than the file is of no use, and would take memory.
    size = min(int.from_bytes(head[5:_LZMA_HEAD], "little"), entry.size)
    filters = {"id": FILTER_LZMA1, "lc": lc, "lp": rest % 5, "pb": rest // 5}
    return LZMADecompressor(FORMAT_RAW, filters=[{**filters, "dict_size": max(size, 4096)}])


def _damage_error(entry: Entry, fault: str) -> BadWheelError:
    return BadWheelError(f"{quote(entry.name)} {fault}", hint=DAMAGED)
