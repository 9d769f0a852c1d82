"""Writing of wheels: untouched members in their compressed form, changed ones deflated.

The bytes depend on the input wheel, the new content and the options alone: not on the clock, the
time zone, the umask or the machine.
"""

import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from stat import S_IFMT, S_IFREG
from typing import BinaryIO

from wheelfix.errors import VerificationError
from wheelfix.grouping import grouped
from wheelfix.named_tuple import NamedTuple
from wheelfix.system.tempfiles import PendingFile, output_errors
from wheelfix.wheel.deflate_members import ZLIB, Codec, NewContent, Piece, deflate_ahead
from wheelfix.wheel.dist_info import edit_core_metadata, edit_metadata
from wheelfix.wheel.model import Member, RecordRow, Wheel
from wheelfix.wheel.reader import Archive
from wheelfix.wheel.record import format_record, hash_field, update_record
from wheelfix.wheel.zip_headers import (
    End,
    Entry,
    dos_stamp,
    fresh_entry,
    pack_central,
    pack_end,
    pack_local,
    rename,
    with_mode,
)
from wheelfix.wheel.zip_reader import crc32

_PIECE = 2**20
_THREADS = 2
_DEFAULT_STAMP = dos_stamp(0)


def write_wheel(  # noqa: PLR0913 - what to write, from what, where to, and how
    archive: Archive,
    wheel: Wheel,
    content: Mapping[str, NewContent],
    moved: Mapping[str, str],
    directory: Path,
    *,
    codec: Codec = ZLIB,
    level: int = zlib.Z_DEFAULT_COMPRESSION,
    epoch: int | None = None,
    false_rows: AbstractSet[str] = frozenset(),
) -> PendingFile:
    """Write `wheel`, which was made of that of `archive`, as a file without a name in `directory`.

    The members are those of `wheel`, in its order. Members in `content` are deflated by `codec` at
    `level`. Members in `moved` (new name -> old name) and all others are copied: they keep the
    compressed data, the date and the extra fields of the input. WHEEL, METADATA, RECORD and the
    Python sources of `wheel` are written if they differ from the input. Directory entries of the
    input are dropped: installers make the folders that files need.

    A changed member keeps the date of the one that it replaces, a new one gets RECORD's; with
    `epoch` (seconds since 1970, SOURCE_DATE_EPOCH) all members get that, and lose the extra fields
    of the input, which may hold other dates.

    RECORD keeps the rows of unchanged files, except those in `false_rows`. Such a file must be in
    `content`, unless it is removed.

    Raises `OutputError` where the file cannot be written, `BadWheelError` where the input has
    become unreadable.
    """
    with output_errors(directory):
        new = {
            member: _describe(data)
            for member, data in {**content, **dict(_changed_texts(archive, wheel, moved))}.items()
        }
    record = _changed_record(archive, wheel, new, moved, false_rows)
    if record is not None:
        new[wheel.dist_info.record] = _describe(record)
    stamp = None if epoch is None else dos_stamp(epoch)
    planned = list(_plan_entries(archive, wheel, new, moved, stamp))
    contents = [source.data for _, source in planned if isinstance(source, _New)]
    with ExitStack() as stack:
        pending = stack.enter_context(PendingFile(directory, str(wheel.name)))
        with (
            output_errors(directory),
            os.fdopen(os.dup(pending.descriptor), "w+b", _PIECE) as file,
            ThreadPoolExecutor(_THREADS) as pool,
        ):
            deflated = deflate_ahead(pool, contents, codec, level)
            writer = _ZipWriter(file)
            for entry, source in planned:
                if isinstance(source, _New):
                    writer.add(entry, source, deflated)
                else:
                    extra, raw = archive.raw(source)
                    writer.copy(entry, extra if stamp is None else b"", raw)
            writer.finish(archive.comment)
        stack.pop_all()
    return pending


def copy_wheel(archive: Archive, directory: Path) -> PendingFile:
    """Write the bytes of the input, for a wheel that needs no change.

    Raises `OutputError` where the file cannot be written.
    """
    with ExitStack() as stack:
        pending = stack.enter_context(PendingFile(directory, str(archive.wheel.name)))
        with output_errors(directory), os.fdopen(os.dup(pending.descriptor), "wb") as file:
            file.writelines(archive.pieces(0, archive.size))
        stack.pop_all()
    return pending


class _New(NamedTuple):
    """New content of a member, and what the zip and RECORD state of it."""

    data: NewContent
    size: int
    crc: int
    hash: str


def _describe(data: NewContent) -> _New:
    hasher, crc, size = sha256(), 0, 0
    with BytesIO(data) if isinstance(data, bytes) else data.open("rb") as file:
        while piece := file.read(_PIECE):
            hasher.update(piece)
            crc = crc32(piece, crc)
            size += len(piece)
    return _New(data, size, crc, hash_field("sha256", hasher.digest()))


def _changed_texts(
    archive: Archive, wheel: Wheel, moved: Mapping[str, str]
) -> Iterator[tuple[str, bytes]]:
    """Yield WHEEL, METADATA and Python sources, where `wheel` differs from the input."""
    wheel_file, metadata = wheel.dist_info.wheel_file, wheel.dist_info.metadata
    old = archive.read(wheel_file).decode()
    new = edit_metadata(old, tags=wheel.tags, root_is_purelib=wheel.root_is_purelib)
    if new != old:
        yield wheel_file, new.encode()
    if wheel.metadata != archive.wheel.metadata:
        old = archive.read(metadata).decode()
        yield metadata, edit_core_metadata(old, wheel.metadata).encode()
    for member, source in wheel.sources.items():
        if archive.wheel.sources.get(moved.get(member, member)) != source:
            yield member, source


def _changed_record(
    archive: Archive,
    wheel: Wheel,
    new: Mapping[str, _New],
    moved: Mapping[str, str],
    false_rows: AbstractSet[str],
) -> bytes | None:
    """Return RECORD of `wheel`, None where it is that of the input or where there is none."""
    record_name = wheel.dist_info.record
    names = [member.name for member in wheel.members]
    copied = grouped((name for name in names if name in moved), moved.__getitem__)
    before = archive.wheel.record
    rows = update_record(
        tuple(row for row in before if row.name not in false_rows),
        record_name=record_name,
        removed=archive.entries.keys() - set(names),
        copied=copied,
        written={n: RecordRow(n, new[n].hash, new[n].size) for n in names if n in new},
        order=names,
    )
    # Where nothing changed, even an unusual RECORD (its own row missing, or first) stays.
    is_same = rows[:-1] == tuple(row for row in before if row.name != record_name)
    if record_name not in names or (is_same and not false_rows):
        return None
    return format_record(rows)


def _plan_entries(
    archive: Archive,
    wheel: Wheel,
    new: Mapping[str, _New],
    moved: Mapping[str, str],
    stamp: int | None,
) -> Iterator[tuple[Entry, _New | str]]:
    """Yield each entry to write, with its new content or the member of the input to copy."""
    for member in wheel.members:
        origin = moved.get(member.name, member.name)
        old = archive.entries.get(origin)
        if member.name in new:
            yield _new_entry(archive, wheel, member, old, stamp), new[member.name]
        elif old is not None:
            yield _copied_entry(old, member, stamp), origin
        else:
            raise VerificationError(
                f"`{member.name}` is to be written, but has no content",
                hint="this is a bug in wheelfix: report it",
            )


def _copied_entry(old: Entry, member: Member, stamp: int | None) -> Entry:
    """Describe a member whose bytes are copied, with the name and mode of `member`."""
    entry = old if old.name == member.name else rename(old, member.name)
    entry = entry if stamp is None else entry._replace(stamp=stamp, extra=b"")
    return entry if entry.mode == member.mode else with_mode(entry, member.mode)


def _new_entry(
    archive: Archive, wheel: Wheel, member: Member, old: Entry | None, stamp: int | None
) -> Entry:
    """Describe a member with new bytes: the mode of `member`, the date of what it replaces."""
    dated = old or archive.entries.get(wheel.dist_info.record)
    date = stamp if stamp is not None else dated.stamp if dated else _DEFAULT_STAMP
    mode = member.mode
    if old is None and mode and not S_IFMT(mode):
        mode |= S_IFREG
    return fresh_entry(member.name, mode=mode, stamp=date)


class _ZipWriter:
    """Writes a zip to an empty file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._directory: list[bytes] = []
        self._at = 0

    def copy(self, entry: Entry, extra: bytes, raw: Iterable[bytes]) -> None:
        """Add a member in its compressed form."""
        self._directory.append(pack_central(entry._replace(offset=self._at)))
        self._write(pack_local(entry, extra))
        for piece in raw:
            self._write(piece)

    def add(
        self, entry: Entry, new: _New, deflated: Iterator[tuple[Piece, bytes | bytearray]]
    ) -> None:
        """Add new content: the pieces of `deflated` up to the last of this content."""
        start = self._at
        # Incompressible data grows by five bytes in 16 KiB, so 64 MiB leave room to spare.
        wide = new.size > 2**32 - 2**26
        header = pack_local(entry, b"", wide=wide)
        self._write(header)
        for piece, packed in deflated:
            self._write(packed)
            if piece.is_last:
                break
        entry = entry._replace(
            crc=new.crc,
            size=new.size,
            compressed_size=self._at - start - len(header),
            offset=start,
        )
        self._file.seek(start)
        self._file.write(pack_local(entry, b"", wide=wide))  # now that the sizes are known
        self._file.seek(self._at)
        self._directory.append(pack_central(entry))

    def finish(self, comment: bytes) -> None:
        """Add the central directory."""
        start = self._at
        self._write(b"".join(self._directory))
        self._write(pack_end(End(start, self._at - start, len(self._directory), comment)))

    def _write(self, data: bytes | bytearray) -> None:
        self._file.write(data)
        self._at += len(data)
