"""The zip format: its central directory, read strictly, and the headers to write one.

A zip can be read in several ways (from the end, from the start, by either of two names), and a
wheel that two readers see differently is refused here. Section numbers are those of PKWARE's
APPNOTE 6.3.10. Everything here is a function of bytes; `zip_reader` and `writer` do the reading
and writing.
"""

import struct
from collections.abc import Iterator
from struct import Struct, unpack_from
from time import gmtime

from wheelfix.errors import BadWheelError
from wheelfix.named_tuple import NamedTuple
from wheelfix.text import count

STORED = 0
DEFLATED = 8
BZIP2 = 12
LZMA = 14
HAS_END_MARKER = 1 << 1
"""The flag of an LZMA member whose stream says where it ends (4.4.4)."""
_HIGHEST_RATIO = {DEFLATED: 1032, BZIP2: 256, LZMA: 256}
"""Bytes of a member for one of its data. Deflate cannot expand more (258 bytes for two bits); the
others could, and take longer: files do not."""
_SMALL = 2**16

LOCAL = Struct("<4s3H4L2H")  # 4.3.7, time and date as one number
CENTRAL = Struct("<4s4H4L5H2L")  # 4.3.12, likewise
END = Struct("<4s4H2LH")  # 4.3.16
END64 = Struct("<4sQ2H2L4Q")  # 4.3.14
LOCATOR64 = Struct("<4sLQL")  # 4.3.15

TAIL = END.size + 0xFFFF + LOCATOR64.size + END64.size
"""Bytes from the end of a zip that hold its end records, with the longest comment."""

_MAX16 = 0xFFFF
_MAX32 = 0xFFFFFFFF
HAS_DESCRIPTOR = 0x0008
_UTF8 = 0x0800
_ENCRYPTED = 0x2041  # bits 0, 6 and 13 (4.4.4)
_PATCH = 0x0020
ZIP64 = 0x0001
UNICODE_PATH = 0x7075  # 4.6.9
# Sizes, the name once more, and paddings that align the data at its old offset.
_NOT_KEPT = (ZIP64, UNICODE_PATH, 0x0000, 0xD935)
_UNIX = 3 << 8
_NEWEST = 63
"""The version of the zip format that `zipfile` knows (4.4.3), in tenths."""

DAMAGED = "the file is damaged or incomplete: build or download it again"
REPACK = "build the wheel again, or unpack and pack it with `wheel unpack` and `wheel pack`"


class Entry(NamedTuple):
    """One record of the central directory. A tuple, since a wheel may have 50,000."""

    name: str
    made_by: int
    needs: int
    flags: int
    method: int
    stamp: int
    """MS-DOS time and date, as one little-endian number."""
    crc: int
    compressed_size: int
    size: int
    external_attr: int
    offset: int
    """Of the local header, in bytes from the start of the file."""
    extra: bytes
    comment: bytes
    end: int
    """Offset of what follows the data: the next local header or the central directory."""
    has_spare_zip64: bool = False
    """Whether its extra field has Zip64 sizes that the record has itself."""

    @property
    def mode(self) -> int:
        """`st_mode`, 0 where the zip has none."""
        return self.external_attr >> 16

    @property
    def raw_name(self) -> bytes:
        """The name as the zip has it."""
        return self.name.encode()


class End(NamedTuple):
    """The end of central directory record, plain or Zip64."""

    offset: int
    size: int
    members: int
    comment: bytes


def quote(name: str) -> str:
    """Quote a member's name for a message, without characters that control a terminal."""
    if name.isprintable():
        return f"`{name}`"
    plain = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)
    return f"`{plain}`"


def find_end(tail: bytes, file_size: int) -> End:
    """Find the central directory from the last `TAIL` bytes of the file.

    Raises `BadWheelError` where there is none, where it may be read in two ways, and where
    there are bytes between it and the end records (4.3.6).
    """
    at = _find_end_record(tail)
    _, disk, start_disk, here, count, size, offset, _ = END.unpack_from(tail, at)
    comment = tail[at + END.size :]
    base = file_size - len(tail)
    stated: tuple[int, ...] = (disk, start_disk, here, count, size, offset)
    locator = tail[max(0, at - LOCATOR64.size) : at]
    directory_end = base + at
    if locator[:4] == b"PK\6\7":
        directory_end, wide = _read_end64(tail, at, base)
        limits = (_MAX16, _MAX16, _MAX16, _MAX16, _MAX32, _MAX32)
        pairs = zip(stated, wide, limits, strict=True)
        if here != count or any(a not in (b, limit) for a, b, limit in pairs):
            raise BadWheelError("the zip has two central directories that differ", hint=REPACK)
        stated = wide
    disk, start_disk, here, count, size, offset = stated
    if disk or start_disk or here != count:
        raise BadWheelError("the zip is one part of several", hint=REPACK)
    if offset + size != directory_end:
        if offset + size > directory_end:
            raise BadWheelError("the zip's central directory is cut off", hint=DAMAGED)
        raise BadWheelError(
            "the zip has foreign bytes before its first member or its end", hint=REPACK
        )
    return End(offset, size, count, comment)


def _find_end_record(tail: bytes) -> int:
    """Find the one end record whose comment reaches exactly to the end of the file."""
    fitting: list[int] = []
    at = last = tail.rfind(b"PK\5\6")
    while at >= 0:
        if at + END.size <= len(tail):
            comment = unpack_from("<H", tail, at + END.size - 2)[0]
            if at + END.size + comment == len(tail):
                fitting.append(at)
        at = tail.rfind(b"PK\5\6", 0, at)
    if not fitting:
        raise BadWheelError(
            "not a zip file, or truncated (no end of central directory)",
            hint=DAMAGED,
        )
    # Readers that search from the end without checking the comment would find another one.
    if fitting != [last]:
        raise BadWheelError("the zip has more than one end record", hint=REPACK)
    return last


def _read_end64(tail: bytes, at: int, base: int) -> tuple[int, tuple[int, ...]]:
    """Read the Zip64 end record: its offset, and its fields in the order of the plain one."""
    _, _, offset, disks = LOCATOR64.unpack_from(tail, at - LOCATOR64.size)
    place = at - LOCATOR64.size - END64.size
    # The record may grow by an "extensible data sector", which no known tool writes (4.3.14.2).
    if disks > 1 or place < 0 or offset != base + place or tail[place : place + 4] != b"PK\6\6":
        raise BadWheelError("the zip's Zip64 end record is not where it should be", hint=DAMAGED)
    fields = END64.unpack_from(tail, place)
    if fields[1] != END64.size - 12:
        raise BadWheelError("the zip's Zip64 end record states a wrong size", hint=REPACK)
    return offset, (*fields[4:6], fields[6], fields[7], fields[8], fields[9])


def parse_directory(data: bytes, end: End) -> list[Entry]:
    """Split the central directory; `BadWheelError` where it does not hold together.

    Members must not overlap, and they must fill the file from its first byte to the directory:
    only readers that stream would see bytes between them.
    """
    if end.members * CENTRAL.size > len(data):
        raise BadWheelError("the zip's central directory is cut off", hint=DAMAGED)
    entries: list[Entry] = []
    at = 0
    try:
        for _ in range(end.members):
            entry, at = _parse_entry(data, at)
            entries.append(entry)
    except struct.error:
        at = -1
    if at != len(data):
        raise BadWheelError("the zip's central directory does not hold together", hint=DAMAGED)
    return _with_ends(entries, end.offset)


def _parse_entry(data: bytes, at: int) -> tuple[Entry, int]:
    """Read the record at `at`, with the least that its `end` can be, and where the next begins."""
    (
        sig, made_by, needs, flags, method, stamp, crc, packed, size,
        name_size, extra_size, comment_size, disk, _, attr, offset,
    ) = CENTRAL.unpack_from(data, at)  # fmt: skip
    name_at = at + CENTRAL.size
    extra_at = name_at + name_size
    comment_at = extra_at + extra_size
    after = comment_at + comment_size
    if sig != b"PK\1\2" or after > len(data):
        raise BadWheelError("the zip's central directory does not hold together", hint=DAMAGED)
    name = _decode(data[name_at:extra_at], flags)
    extra = data[extra_at:comment_at]
    spare = False
    if extra:
        _check_extra(extra, name)
        spare = len(_zip64_of(extra)) > 8 * (size, packed, offset).count(_MAX32)
    if _MAX32 in (packed, size, offset):
        size, packed, offset = _widen(extra, name, size, packed, offset)
    is_known = method in (STORED, *_HIGHEST_RATIO) and needs & 0xFF <= _NEWEST
    if disk or flags & (_ENCRYPTED | _PATCH) or not is_known:
        _check_kind(name, disk, needs, flags, method)
    slack = _SMALL if method in (BZIP2, LZMA) else 0
    if size > packed * _HIGHEST_RATIO[method] + slack if method else size != packed:
        raise BadWheelError(
            f"{quote(name)} states {count(size, 'byte')}, which its "
            f"{count(packed, 'byte')} of data cannot hold",
            hint=DAMAGED,
        )
    return Entry(
        name, made_by, needs, flags, method, stamp, crc, packed, size, attr, offset, extra,
        data[comment_at:after], offset + LOCAL.size + name_size + packed, spare,
    ), after  # fmt: skip


def _check_kind(name: str, disk: int, needs: int, flags: int, method: int) -> None:
    if disk not in (0, _MAX16):
        raise BadWheelError(f"{quote(name)} is in another part of the zip", hint=REPACK)
    if flags & _ENCRYPTED:
        raise BadWheelError(f"{quote(name)} is encrypted", hint=REPACK)
    if flags & _PATCH:
        raise BadWheelError(f"{quote(name)} is a patch, not a file", hint=REPACK)
    if method not in (STORED, *_HIGHEST_RATIO):
        raise BadWheelError(
            f"{quote(name)} is compressed with method {method}; wheels use 0 (stored) or 8 "
            "(deflated), and pip reads 12 (BZIP2) and 14 (LZMA)",
            hint=REPACK,
        )
    if needs & 0xFF > _NEWEST:
        raise BadWheelError(f"{quote(name)} needs a newer zip format than pip reads", hint=REPACK)


def _decode(raw_name: bytes, flags: int) -> str:
    """Return the name; without bit 11 it is in the IBM PC's code page 437 (appendix D.1)."""
    if not raw_name.isascii() and not flags & _UTF8:
        raise BadWheelError(
            f"the member name {raw_name!r} is not marked as UTF-8: pip reads it as code page 437, "
            "uv refuses it",
            hint=REPACK,
        )
    try:
        return raw_name.decode()
    except UnicodeDecodeError:
        raise BadWheelError(
            f"the member name {raw_name!r} is marked as UTF-8 and is not", hint=REPACK
        ) from None


def _check_extra(extra: bytes, name: str) -> None:
    """Refuse an extra field that readers would read differently, if at all (4.5, 4.6.9)."""
    kinds: list[int] = []
    at = 0
    for kind, value in extra_fields(extra):
        if kind == UNICODE_PATH and value[5:] != name.encode():
            raise BadWheelError(f"{quote(name)} has a second, different name", hint=REPACK)
        kinds.append(kind)
        at += 4 + len(value)
    if len(extra) - at >= 4:  # less is padding
        raise BadWheelError(f"{quote(name)} has an extra field that is cut off", hint=REPACK)
    if kinds.count(ZIP64) > 1:
        raise BadWheelError(f"{quote(name)} has Zip64 sizes twice", hint=REPACK)


def extra_fields(extra: bytes) -> Iterator[tuple[int, bytes]]:
    """Split an extra field (4.5.1); an unreadable rest is left out."""
    at = 0
    while at + 4 <= len(extra):
        kind, size = unpack_from("<2H", extra, at)
        if at + 4 + size > len(extra):
            return
        yield kind, extra[at + 4 : at + 4 + size]
        at += 4 + size


def _zip64_of(extra: bytes) -> bytes:
    return next((value for kind, value in extra_fields(extra) if kind == ZIP64), b"")


def _widen(extra: bytes, name: str, *numbers: int) -> Iterator[int]:
    """Replace each number that is all ones by the next of the Zip64 extra field (4.5.3)."""
    wide = _zip64_of(extra)
    at = 0
    for number in numbers:
        if number != _MAX32:
            yield number
            continue
        if at + 8 > len(wide):
            raise BadWheelError(f"{quote(name)} lacks its Zip64 sizes", hint=DAMAGED)
        yield unpack_from("<Q", wide, at)[0]
        at += 8


def _with_ends(entries: list[Entry], directory_offset: int) -> list[Entry]:
    """Find where each entry ends, and refuse members that overlap."""
    offsets = sorted(entry.offset for entry in entries)
    if not offsets:
        return []
    if offsets[0]:
        raise BadWheelError("the zip has foreign bytes before its first member", hint=REPACK)
    # Backwards, so that of two members at one offset each ends where it begins.
    ends = dict(zip(offsets[::-1], [directory_offset, *offsets[:0:-1]], strict=True))
    for entry in entries:
        if ends[entry.offset] < entry.end:
            raise BadWheelError(
                f"{quote(entry.name)} overlaps what follows it in the zip", hint=DAMAGED
            )
    return [
        entry if entry.end == (end := ends[entry.offset]) else entry._replace(end=end)
        for entry in entries
    ]


def check_local(entry: Entry, head: bytes) -> tuple[int, bytes]:
    """Compare the local header with the central directory; return its length and its extra field.

    `head` is the start of the entry: the header and at least all of its name and extra field.
    Raises `BadWheelError` where both disagree.
    """
    try:
        sig, _, flags, method, _, crc, packed, size, name_size, extra_size = LOCAL.unpack_from(head)
    except struct.error:
        sig = b""
        flags = method = crc = packed = size = name_size = extra_size = 0
    if sig != b"PK\3\4":
        raise BadWheelError(f"{quote(entry.name)} has no local header", hint=DAMAGED)
    extra_at = LOCAL.size + name_size
    length = extra_at + extra_size
    extra = head[extra_at:length]
    if head[LOCAL.size : extra_at] != entry.raw_name:
        raise BadWheelError(
            f"{quote(entry.name)} has another name in its local header", hint=REPACK
        )
    if extra:
        _check_extra(extra, entry.name)
    if method != entry.method or (flags ^ entry.flags) & (_ENCRYPTED | _PATCH | _UTF8):
        raise BadWheelError(
            f"{quote(entry.name)} is encoded otherwise in its local header than in the central "
            "directory",
            hint=REPACK,
        )
    if _MAX32 in (packed, size):
        size, packed = _widen(extra, entry.name, size, packed)
    local, central = (crc, packed, size), (entry.crc, entry.compressed_size, entry.size)
    streamed = flags & HAS_DESCRIPTOR
    if local != central and any(
        a != b and not (streamed and a == 0) for a, b in zip(local, central, strict=True)
    ):
        raise BadWheelError(
            f"{quote(entry.name)} has another size or checksum in its local header than in the "
            "central directory",
            hint=REPACK,
        )
    return length, extra


def is_descriptor(entry: Entry, rest: bytes) -> bool:
    """Return whether `rest`, found after the data, is a data descriptor (4.3.9)."""
    bare = rest.removeprefix(b"PK\7\x08") if len(rest) in (16, 24) else rest
    sizes = {12: "<3L", 20: "<L2Q"}.get(len(bare))
    stated = (entry.crc, entry.compressed_size, entry.size)
    return sizes is not None and unpack_from(sizes, bare) == stated


def dos_stamp(epoch: int) -> int:
    """Turn seconds since 1970 (UTC) into MS-DOS time and date, clamped to 1980 to 2107."""
    t = gmtime(min(max(epoch, 315532800), 4354819198))
    date = (t.tm_year - 1980) << 9 | t.tm_mon << 5 | t.tm_mday
    return date << 16 | t.tm_hour << 11 | t.tm_min << 5 | t.tm_sec // 2


def fresh_entry(name: str, *, mode: int, stamp: int) -> Entry:
    """Describe a deflated member that is yet to be written, as a Unix zip would."""
    flags = 0 if name.isascii() else _UTF8
    return Entry(name, _UNIX | 20, 20, flags, DEFLATED, stamp, 0, 0, 0, mode << 16,
                 0, b"", b"", 0)  # fmt: skip


def rename(entry: Entry, name: str) -> Entry:
    """Give the entry another name."""
    flags = entry.flags & ~_UTF8 | (0 if name.isascii() else _UTF8)
    return entry._replace(name=name, flags=flags)


def with_mode(entry: Entry, mode: int) -> Entry:
    """Give the entry another `st_mode`, which only a Unix zip has."""
    attributes = mode << 16 | entry.external_attr & _MAX16
    return entry._replace(external_attr=attributes, made_by=_UNIX | entry.made_by & 0xFF)


def _pack_field(kind: int, value: bytes) -> bytes:
    return Struct("<2H").pack(kind, len(value)) + value


def _kept_fields(extra: bytes) -> bytes:
    return b"".join(_pack_field(k, v) for k, v in extra_fields(extra) if k not in _NOT_KEPT)


def pack_local(entry: Entry, extra: bytes, *, wide: bool | None = None) -> bytes:
    """Write the local header, sizes included: no descriptor follows the data.

    `wide` reserves Zip64 sizes for data whose length is not known yet.
    """
    sizes = (entry.compressed_size, entry.size)
    raw_name = entry.raw_name
    if wide is None:
        wide = max(sizes) >= _MAX32
    if extra:
        extra = _kept_fields(extra)
    if wide:
        extra = _pack_field(ZIP64, Struct("<2Q").pack(entry.size, entry.compressed_size)) + extra
        sizes = (_MAX32, _MAX32)
    return LOCAL.pack(
        b"PK\3\4", max(entry.needs, 45) if wide else entry.needs, entry.flags & ~HAS_DESCRIPTOR,
        entry.method, entry.stamp, entry.crc, *sizes, len(raw_name), len(extra),
    ) + raw_name + extra  # fmt: skip


def pack_central(entry: Entry) -> bytes:
    """Write the record of the central directory; without a comment, which PyPI refuses."""
    size, packed, offset = numbers = (entry.size, entry.compressed_size, entry.offset)
    raw_name = entry.raw_name
    needs = entry.needs
    extra = _kept_fields(entry.extra) if entry.extra else b""
    if max(numbers) >= _MAX32:
        wide = [number for number in numbers if number >= _MAX32]
        size, packed, offset = (min(number, _MAX32) for number in numbers)
        extra = _pack_field(ZIP64, Struct(f"<{len(wide)}Q").pack(*wide)) + extra
        needs = max(needs, 45)
    return CENTRAL.pack(
        b"PK\1\2", entry.made_by, needs, entry.flags & ~HAS_DESCRIPTOR, entry.method,
        entry.stamp, entry.crc, packed, size, len(raw_name), len(extra), 0, 0, 0,
        entry.external_attr, offset,
    ) + raw_name + extra  # fmt: skip


def pack_end(end: End) -> bytes:
    """Write the end records, the Zip64 ones where the numbers need them."""
    plain = END.pack(
        b"PK\5\6", 0, 0, *[min(end.members, _MAX16)] * 2, min(end.size, _MAX32),
        min(end.offset, _MAX32), len(end.comment),
    ) + end.comment  # fmt: skip
    if end.members < _MAX16 and end.size < _MAX32 and end.offset < _MAX32:
        return plain
    wide = END64.pack(
        b"PK\6\6", END64.size - 12, 45, 45, 0, 0, end.members, end.members, end.size, end.offset
    )
    return wide + LOCATOR64.pack(b"PK\6\7", 0, end.offset + end.size, 1) + plain
