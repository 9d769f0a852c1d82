"""Deflate streams and checksums, read by zlib-ng where it is installed, otherwise by zlib.

zlib-ng takes half the time, and judges the codes of a stream by zlib's own routines: both give the
same bytes, and refuse the same streams in the same words. ISA-L, which is faster still, takes
codes that zlib refuses, as pip would; libdeflate does not say where a stream ends.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from types import ModuleType
from typing import Any

from wheelfix.errors import BadWheelError
from wheelfix.wheel.zip_format import Entry, shown

_PIECE = 2**20
_STRIDE = 2**18
"""Bytes of the stream from one place that may be marked to the next."""
_DAMAGED = "the file is damaged or incomplete: build or download it again"


def _fastest() -> ModuleType:
    try:
        return import_module("zlib_ng.zlib_ng")  # of the extra `fast`
    except ImportError:
        return zlib


LIBRARY = _fastest()
"""What inflates: a module with what `zlib` has."""
crc32: Callable[[bytes, int], int] = LIBRARY.crc32
Mark = Callable[[Any, int, int], None]
"""Is shown an inflater, how much of the stream it was fed, and how much data it gave."""


def inflated_whole(entry: Entry, stored: bytes, library: ModuleType = LIBRARY) -> bytes | None:
    """Inflate a member at once; None for one of which not all is as it should be."""
    inflater = library.decompressobj(-zlib.MAX_WBITS)
    try:
        data: bytes = inflater.decompress(stored, entry.size + 1)
    except library.error:
        return None
    is_sound = inflater.eof and len(data) == entry.size and not inflater.unused_data
    return data if is_sound else None


def inflated_pieces(
    entry: Entry,
    raw: Iterable[bytes],
    library: ModuleType = LIBRARY,
    *,
    mark: Mark | None = None,
) -> Iterator[bytes]:
    """Inflate a member in pieces of up to 1 MiB; `mark` is called on the way, and may copy.

    Raises `BadWheelError` where it inflates past its stated size, and where its deflate stream is
    none, or ends elsewhere than its data.
    """
    inflater = library.decompressobj(-zlib.MAX_WBITS)
    left = entry.size
    fed = 0
    surplus = False
    try:
        for packed in raw if mark is None else _in_strides(raw):
            if inflater.eof:
                surplus = True
                break
            if mark:
                mark(inflater, fed, entry.size - left)
            fed += len(packed)
            while not inflater.eof:
                data = inflater.decompress(
                    inflater.unconsumed_tail or packed, min(_PIECE, left + 1)
                )
                packed = b""  # noqa: PLW2901 (the inflater keeps what it has not used)
                left -= len(data)
                if left < 0:
                    raise BadWheelError(
                        f"{shown(entry.name)} inflates past the {entry.size} bytes that the zip "
                        "states",
                        hint=_DAMAGED,
                    )
                if data:
                    yield data
                elif not inflater.unconsumed_tail:
                    break
    except library.error as error:
        raise BadWheelError(
            f"{shown(entry.name)} cannot be inflated: {error}", hint=_DAMAGED
        ) from None
    if not inflater.eof or inflater.unused_data or surplus:
        raise BadWheelError(
            f"{shown(entry.name)} does not end where its compressed data should", hint=_DAMAGED
        )


def _in_strides(raw: Iterable[bytes]) -> Iterator[bytes]:
    for piece in raw:
        for at in range(0, len(piece), _STRIDE):
            yield piece[at : at + _STRIDE]


def ahead(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield pieces, of which the next is being made meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, pieces, None)
        while (piece := following.result()) is not None:
            following = pool.submit(next, pieces, None)
            yield piece
