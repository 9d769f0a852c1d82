"""Features of the zip format that only some readers accept.

`zip_headers` refuses what two readers would see differently. What is left here is read in
the same way by readers that trust the central directory, as pip does; a reader that goes through
the file from its first byte may stop at it, as uv does for some, and PyPI refuses most of it
(docs.pypi.org/archives).
Section numbers are those of PKWARE's APPNOTE 6.3.10.
"""

from collections.abc import Iterator
from struct import unpack_from

from wheelfix.wheel.model import ZipFeature, ZipOddity
from wheelfix.wheel.zip_headers import (
    DEFLATED,
    HAS_DESCRIPTOR,
    LOCAL,
    STORED,
    UNICODE_PATH,
    ZIP64,
    Entry,
    extra_fields,
)
from wheelfix.wheel.zip_reader import ZipReader

_ZIP64_SIZES = (0, 8, 16, 24, 28)
"""Bytes of the fields that a Zip64 extra field may have (4.5.3)."""


def find_oddities(archive: ZipReader) -> tuple[ZipOddity, ...]:
    """Return the unusual features of an archive, whose local headers were checked before.

    Raises `BadWheelError` if the file has become shorter.
    """
    members: dict[ZipFeature, list[str]] = {}
    folders: set[str] = set()
    for entry in archive.directory:
        if entry.has_spare_zip64:
            members.setdefault(ZipFeature.SPARE_ZIP64, []).append(entry.name)
        if entry.method not in (STORED, DEFLATED):
            members.setdefault(ZipFeature.COMPRESSION, []).append(entry.name)
        if entry.comment:
            members.setdefault(ZipFeature.COMMENT, []).append(entry.name)
        if entry.name in folders:
            members.setdefault(ZipFeature.FOLDER_TWICE, []).append(entry.name)
        if entry.name.endswith("/"):
            folders.add(entry.name)
        for feature in _of_header(archive, entry):
            members.setdefault(feature, []).append(entry.name)
    return tuple(ZipOddity(feature, names[0], len(names)) for feature, names in members.items())


def _of_header(archive: ZipReader, entry: Entry) -> Iterator[ZipFeature]:
    """Yield the features of one entry's local header."""
    _, _, flags, *_, name_size, extra_size = LOCAL.unpack(archive.read_at(entry.offset, LOCAL.size))
    extra_at = LOCAL.size + name_size
    if flags & HAS_DESCRIPTOR:
        yield ZipFeature.DESCRIPTOR
    elif entry.offset + extra_at + extra_size + entry.compressed_size < entry.end:
        yield ZipFeature.GAP
    if extra_size:
        extra = archive.read_at(entry.offset + extra_at, extra_size)
        yield from dict.fromkeys(_of_extra(extra, entry))


def _of_extra(extra: bytes, entry: Entry) -> Iterator[ZipFeature]:
    fields = list(extra_fields(extra))
    for kind, value in fields:
        if kind == ZIP64:
            yield from _of_zip64(value, entry)
    if sum(4 + len(value) for _, value in fields) != len(extra):  # padding of less than a field
        yield ZipFeature.EXTRA
    if [kind for kind, _ in fields].count(UNICODE_PATH) > 1:
        yield ZipFeature.EXTRA_TWICE


def _of_zip64(value: bytes, entry: Entry) -> Iterator[ZipFeature]:
    """Yield the features of Zip64 sizes: that of the file, and that of its data."""
    if len(value) not in _ZIP64_SIZES or (len(value) == 8 and entry.method != STORED):
        yield ZipFeature.EXTRA
    elif value and unpack_from("<Q", value, max(0, min(8, len(value) - 8)))[0] != (
        entry.compressed_size
    ):
        yield ZipFeature.EXTRA_SIZE
