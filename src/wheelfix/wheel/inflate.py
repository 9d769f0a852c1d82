"""Deflate streams and checksums, read by zlib-ng where it is installed, otherwise by zlib.

zlib-ng takes half the time, and checks the codes of a stream by zlib's own routines: both give the
same bytes, and refuse the same streams with the same messages. ISA-L, which is faster still,
accepts codes that zlib refuses, as pip would; libdeflate does not report where a stream ends.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from types import ModuleType

from wheelfix.errors import BadWheelError
from wheelfix.wheel.zip_format import DAMAGED, Entry, shown

_PIECE = 2**20


def _fastest() -> ModuleType:
    try:
        return import_module("zlib_ng.zlib_ng")  # of the extra `fast`
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


def inflated_pieces(
    entry: Entry, raw: Iterable[bytes], library: ModuleType = LIBRARY
) -> Iterator[bytes]:
    """Inflate a member in pieces of up to 1 MiB.

    Raises `BadWheelError` where it inflates to more than its stated size, where its data is no
    deflate stream, and where the stream does not end with the data.
    """
    inflater = library.decompressobj(-zlib.MAX_WBITS)
    left = entry.size
    try:
        for packed in raw:
            if inflater.eof:
                raise _wrong_end(entry)
            while not inflater.eof:
                data = inflater.decompress(packed, min(_PIECE, left + 1))
                packed = inflater.unconsumed_tail  # noqa: PLW2901 - what is yet to be read of it
                left -= len(data)
                if left < 0:
                    raise BadWheelError(
                        f"{shown(entry.name)} inflates past the {entry.size} bytes that the zip "
                        "states",
                        hint=DAMAGED,
                    )
                if data:
                    yield data
                elif not packed:
                    break
    except library.error as error:
        raise BadWheelError(
            f"{shown(entry.name)} cannot be inflated: {error}", hint=DAMAGED
        ) from None
    if not inflater.eof or inflater.unused_data:
        raise _wrong_end(entry)


def _wrong_end(entry: Entry) -> BadWheelError:
    return BadWheelError(
        f"{shown(entry.name)} does not end where its compressed data should", hint=DAMAGED
    )
