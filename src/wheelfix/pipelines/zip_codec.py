"""The library that compresses what a repair writes, by its setting."""

from wheelfix.errors import SettingsError
from wheelfix.settings import ZipCodec
from wheelfix.wheel.deflate_members import ZLIB, Codec, libdeflate


def codec_of(choice: ZipCodec) -> Codec:
    """Return the codec for a setting; for `auto`, libdeflate where it is installed.

    Raises `SettingsError` for `libdeflate` where that is not installed.
    """
    if choice is ZipCodec.ZLIB:
        return ZLIB
    codec = libdeflate()
    if codec is None and choice is ZipCodec.LIBDEFLATE:
        raise SettingsError(
            '`zip-codec = "libdeflate"`: the package `deflate` is not installed',
            hint='pip install deflate; where it has no wheels, use `zip-codec = "zlib"`',
        )
    return codec or ZLIB
