"""Deflate what is new in a wheel, by two threads, to bytes that depend on data and codec alone."""

import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from wheelfix.errors import VerificationError
from wheelfix.wheel.splice import without_end

_PIECE = 2**20
_AHEAD = 12 * 2**20
"""Bytes that are in work, or wait for their turn to be written."""
_EARLY = 12 * 2**20
"""Bytes that are deflated before anybody asks for them."""
_MARK = 2**10
"""Bytes that tell most pieces from each other."""
_WINDOW = 2**15
"""How far back deflate may refer (RFC 1951, section 2)."""

Content = bytes | Path


def pieces(content: Content, size: int) -> Iterator[bytes]:
    """Yield content in pieces of up to `size` bytes."""
    if isinstance(content, bytes):
        yield from (content[at : at + size] for at in range(0, len(content), size))
        return
    with content.open("rb") as file:
        while piece := file.read(size):
            yield piece


# --- Codecs ------------------------------------------------------------------------------------


class Codec(NamedTuple):
    """What deflates. Two of one name make the same bytes."""

    name: str
    """With the version: `zlib 1.3.1`."""
    piece: int = _PIECE
    """Bytes that are deflated at once."""
    compress: Callable[[bytes, int], bytes] | None = None
    """Deflate one piece at a level, -1 for the usual one, to a stream of its own; None for zlib."""


ZLIB = Codec(f"zlib {zlib.ZLIB_RUNTIME_VERSION}")


# --- Pieces ------------------------------------------------------------------------------------


class Chunk(NamedTuple):
    """A part of some content, deflated by itself with what precedes it as a dictionary.

    Joined, the parts of one content are one deflate stream (RFC 1951): all but the last end with
    an empty block on a byte boundary. The cuts depend on the content and the codec alone, and so
    does the result, however many threads work on it.
    """

    data: bytes
    dictionary: bytes
    last: bool


def deflate_ahead(
    pool: ThreadPoolExecutor,
    contents: Iterable[Content],
    codec: Codec,
    level: int,
    early: "Early | None" = None,
) -> Iterator[tuple[Chunk, bytes]]:
    """Yield the chunks of `contents` in order, the next few being deflated meanwhile.

    What was begun `early` is not done again. Threads serve, as the codecs let go of the interpreter
    lock.
    """
    ahead: deque[tuple[Chunk, Future[bytes]]] = deque()
    work = partial(_deflate, codec=codec, level=level)
    for content in contents:
        for chunk in _chunks(content, codec.piece):
            while ahead and len(chunk.data) + sum(len(each.data) for each, _ in ahead) > _AHEAD:
                ready, future = ahead.popleft()
                yield ready, future.result()
            begun = early.take(chunk) if early else None
            ahead.append((chunk, begun or pool.submit(work, chunk)))
    for ready, future in ahead:
        yield ready, future.result()


class Early:
    """Pieces of files that are deflated before it is known what will become of them.

    A library that is grafted is edited in few places, and late: most of its pieces stay as they are
    on this machine. The result is the same with this and without: what is asked for is compared
    with what was deflated.
    """

    def __init__(self, codec: Codec, level: int) -> None:
        """Begin nothing yet."""
        self._codec = codec
        self._level = level
        self._pool: ThreadPoolExecutor | None = None
        self._begun: dict[bytes, list[_Begun]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def begin(self, paths: Iterable[Path]) -> None:
        """Begin with those pieces of files, which must stay as they are, that edits spare most."""
        chosen = list(islice(self._inner(paths), _EARLY // self._codec.piece))
        if not chosen:
            return
        self._pool = ThreadPoolExecutor(1)
        for path, at in chosen:
            piece = partial(_piece, path, at)
            size = self._codec.piece
            future = self._pool.submit(_deflate_piece, piece, size, self._codec, self._level)
            self._begun.setdefault(piece(_MARK).data, []).append(_Begun(piece, future))

    def take(self, chunk: Chunk) -> Future[bytes] | None:
        """Return the deflating of `chunk`, if that has begun."""
        alike = self._begun.get(chunk.data[:_MARK], [])
        for begun in alike:
            if begun.piece(len(chunk.data)) == chunk:
                alike.remove(begun)
                return None if begun.future.cancel() else begun.future
        return None

    def _inner(self, paths: Iterable[Path]) -> Iterator[tuple[Path, int]]:
        """Yield what is neither the beginning nor the end of a file, of large files first."""
        size = self._codec.piece
        for stop, path in sorted(((path.stat().st_size, path) for path in paths), reverse=True):
            yield from ((path, at) for at in range(size, stop - size, size))


class _Begun(NamedTuple):
    """A piece, and its deflating."""

    piece: Callable[[int], Chunk]
    """Reads so many bytes of it."""
    future: Future[bytes]


def _piece(path: Path, at: int, size: int) -> Chunk:
    with path.open("rb") as file:
        file.seek(at - _WINDOW)
        dictionary = file.read(_WINDOW)
        return Chunk(file.read(size), dictionary, last=False)


def _deflate_piece(piece: Callable[[int], Chunk], size: int, codec: Codec, level: int) -> bytes:
    return _deflate(piece(size), codec, level)


def _chunks(content: Content, size: int) -> Iterator[Chunk]:
    dictionary = b""
    parts = pieces(content, size)
    data = next(parts, b"")
    for following in parts:
        yield Chunk(data, dictionary, last=False)
        dictionary, data = data[-_WINDOW:], following
    yield Chunk(data, dictionary, last=True)


def _deflate(chunk: Chunk, codec: Codec, level: int) -> bytes:
    """Deflate a part, and inflate it again: nobody will have to do that later."""
    compressed = codec.compress(chunk.data, level) if codec.compress else None
    if compressed is not None and not chunk.last:
        compressed = without_end(compressed, chunk.data)
        if compressed is not None:
            return compressed
    if compressed is None:
        compressed = _deflate_by_zlib(chunk, level)
    if not _holds(compressed, chunk):
        raise VerificationError(
            f"what {codec.name} has deflated does not inflate to what it was",
            hint='use another codec, by `zip-codec = "zlib"`; nothing was published',
        )
    return compressed


def _holds(compressed: bytes, chunk: Chunk) -> bool:
    with suppress(zlib.error):
        return _inflated_like(chunk, compressed)
    return False


def _inflated_like(chunk: Chunk, compressed: bytes) -> bool:
    window = -zlib.MAX_WBITS
    if chunk.dictionary:
        inflater = zlib.decompressobj(window, zdict=chunk.dictionary)
    else:
        inflater = zlib.decompressobj(window)
    at = 0
    for start in range(0, len(compressed), _PIECE):
        piece = compressed[start : start + _PIECE]
        data = None
        while data is None or (len(data) == _PIECE and not inflater.eof):
            data = inflater.decompress(piece, _PIECE)
            if data != chunk.data[at : at + len(data)]:
                return False
            at += len(data)
            piece = inflater.unconsumed_tail
    return at == len(chunk.data) and inflater.eof == chunk.last and not inflater.unused_data


def _deflate_by_zlib(chunk: Chunk, level: int) -> bytes:
    window = -zlib.MAX_WBITS  # raw: no header
    if chunk.dictionary:
        deflater = zlib.compressobj(level, zlib.DEFLATED, window, zdict=chunk.dictionary)
    else:
        deflater = zlib.compressobj(level, zlib.DEFLATED, window)
    compressed = deflater.compress(chunk.data)
    return compressed + deflater.flush(zlib.Z_FINISH if chunk.last else zlib.Z_SYNC_FLUSH)
