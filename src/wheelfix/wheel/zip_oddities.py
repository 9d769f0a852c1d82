"""Features of the zip format that only some readers accept.

`zip_headers` refuses what two readers would see differently. What is left here is read in
the same way by readers that trust the central directory, as pip and uv do; a reader that goes
through the file from its first byte may stop at it, and PyPI refuses it (docs.pypi.org/archives).
Section numbers are those of PKWARE's APPNOTE 6.3.10.
"""

from collections.abc import Iterator
from struct import Struct, unpack_from

from wheelfix.wheel.model import ZipFeature, ZipOddity
from wheelfix.wheel.zip_headers import LOCAL, STORED, Entry
from wheelfix.wheel.zip_reader import ZipReader

_HEAD = Struct("<6xH18x2H")
"""Of a local header (4.3.7): the flags, and the lengths of name and extra field."""
_STREAMED = 0x0008
_ZIP64 = 0x0001
_UNICODE_PATH = 0x7075
_ZIP64_SIZES = (0, 8, 16, 24, 28)
"""Bytes of the fields that a Zip64 extra field may have (4.5.3)."""


def find_oddities(archive: ZipReader) -> tuple[ZipOddity, ...]:
    """Return the unusual features of an archive, whose local headers were checked before.

    Raises `BadWheelError` if the file has become shorter.
    """
    found: dict[ZipFeature, list[str]] = {}
    folders: set[str] = set()
    for entry in archive.directory:
        if entry.comment:
            found.setdefault(ZipFeature.COMMENT, []).append(entry.name)
        if entry.name in folders:
            found.setdefault(ZipFeature.FOLDER_TWICE, []).append(entry.name)
        if entry.name.endswith("/"):
            folders.add(entry.name)
        for feature in _of_header(archive, entry):
            found.setdefault(feature, []).append(entry.name)
    return tuple(ZipOddity(feature, names[0], len(names)) for feature, names in found.items())


def _of_header(archive: ZipReader, entry: Entry) -> Iterator[ZipFeature]:
    """Yield the features of one entry's local header."""
    flags, name_size, extra_size = _HEAD.unpack(archive.read_at(entry.offset, LOCAL.size))
    extra_at = LOCAL.size + name_size
    if flags & _STREAMED:
        yield ZipFeature.DESCRIPTOR
    elif entry.offset + extra_at + extra_size + entry.compressed_size < entry.end:
        yield ZipFeature.GAP
    if extra_size:
        extra = archive.read_at(entry.offset + extra_at, extra_size)
        yield from dict.fromkeys(_of_extra(extra, entry))


def _of_extra(extra: bytes, entry: Entry) -> Iterator[ZipFeature]:
    names = at = 0
    while at + 4 <= len(extra):
        kind, size = unpack_from("<2H", extra, at)
        value = extra[at + 4 : at + 4 + size]
        at += 4 + size
        names += kind == _UNICODE_PATH
        if kind == _ZIP64:
            yield from _of_zip64(value, entry)
    if at != len(extra):  # padding of less than a field
        yield ZipFeature.EXTRA
    if names > 1:
        yield ZipFeature.EXTRA_TWICE


def _of_zip64(value: bytes, entry: Entry) -> Iterator[ZipFeature]:
    """Yield the features of Zip64 sizes: that of the file, and that of its data."""
    if len(value) not in _ZIP64_SIZES or (len(value) == 8 and entry.method != STORED):
        yield ZipFeature.EXTRA
    elif value and unpack_from("<Q", value, max(0, min(8, len(value) - 8)))[0] != (
        entry.compressed_size
    ):
        yield ZipFeature.EXTRA_SIZE
