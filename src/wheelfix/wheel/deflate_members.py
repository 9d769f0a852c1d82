"""Deflate compression of new members, in several threads; the bytes do not depend on these."""

import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from wheelfix.named_tuple import NamedTuple
from wheelfix.wheel.zip_reader import LIBRARY, LIBRARY_NAME

_PIECE = 2**20
_WHOLE = 32 * 2**20
"""Bytes; longer content is deflated in pieces, which libdeflate cannot join."""
_AHEAD = 32 * 2**20
"""Bytes being deflated, or deflated and waiting to be written."""
DEFAULT_LEVEL = 6
"""What -1 means to zlib and zlib-ng; libdeflate has no -1."""
_WINDOW = 2**15
"""How far back deflate may refer (RFC 1951, section 2)."""

NewContent = bytes | Path
"""The content of a new or changed member."""


class Codec(NamedTuple):
    """A deflate library. Two codecs of one name make the same bytes."""

    name: str
    """With the version: `zlib 1.3.1`."""
    compress: Callable[[bytes, int], bytes | bytearray] | None = None
    """Deflate up to 32 MiB in one call, at a level of zlib; None to use `pieces`."""
    pieces: ModuleType = zlib
    """Deflates longer content piece by piece: zlib, or zlib-ng, which has the same functions."""


ZLIB = Codec(f"zlib {zlib.ZLIB_RUNTIME_VERSION}")


def libdeflate() -> Codec | None:
    """Return the codec of the package `deflate`, None where that is not installed."""
    try:
        package: Any = import_module("deflate")  # has no types
    except ImportError:
        return None

    def compress(data: bytes, level: int) -> bytearray:
        level = DEFAULT_LEVEL if level == zlib.Z_DEFAULT_COMPRESSION else level
        deflated: bytearray = package.deflate_compress(data, level)
        return deflated

    name = f"libdeflate (deflate {package.__version__}, {LIBRARY_NAME})"
    return Codec(name, compress, LIBRARY)


class Piece(NamedTuple):
    """A range of some content.

    The deflated pieces of one content, joined, are one deflate stream (RFC 1951): all but the last
    end with an empty block on a byte boundary.
    """

    content: NewContent
    start: int
    stop: int
    is_last: bool


def deflate_ahead(
    pool: ThreadPoolExecutor, contents: Iterable[NewContent], codec: Codec, level: int
) -> Iterator[tuple[Piece, bytes | bytearray]]:
    """Yield the pieces of `contents` in order and deflated; the next few are deflated meanwhile.

    Threads serve, as the codecs release the interpreter lock.
    """
    waiting: deque[tuple[Piece, Future[bytes | bytearray]]] = deque()
    ahead = 0
    for content in contents:
        for piece in _pieces(content, codec):
            ahead += piece.stop - piece.start
            while waiting and ahead > _AHEAD:
                ready, future = waiting.popleft()
                ahead -= ready.stop - ready.start
                yield ready, future.result()
            waiting.append((piece, pool.submit(_deflate, piece, codec, level)))
    for ready, future in waiting:
        yield ready, future.result()


def _pieces(content: NewContent, codec: Codec) -> Iterator[Piece]:
    size = len(content) if isinstance(content, bytes) else content.stat().st_size
    step = _WHOLE if codec.compress and size <= _WHOLE else _PIECE
    for start in range(0, max(size, 1), step):
        stop = min(start + step, size)
        yield Piece(content, start, stop, is_last=stop == size)


def _deflate(piece: Piece, codec: Codec, level: int) -> bytes | bytearray:
    data = _read(piece.content, piece.start, piece.stop)
    if codec.compress and piece.start == 0 and piece.is_last:
        return codec.compress(data, level)
    dictionary = _read(piece.content, max(0, piece.start - _WINDOW), piece.start)
    raw = -zlib.MAX_WBITS  # without a header
    deflater = codec.pieces.compressobj(level, zlib.DEFLATED, raw, zdict=dictionary)
    compressed: bytes = deflater.compress(data)
    rest: bytes = deflater.flush(zlib.Z_FINISH if piece.is_last else zlib.Z_SYNC_FLUSH)
    return compressed + rest


def _read(content: NewContent, start: int, stop: int) -> bytes:
    if isinstance(content, bytes):
        return content[start:stop]
    with content.open("rb") as file:
        file.seek(start)
        return file.read(stop - start)
