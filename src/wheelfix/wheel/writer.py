"""Write a wheel: untouched members in their compressed form, changed ones deflated, RECORD last.

The bytes depend on the input wheel, the new content and the options alone: not on the clock, the
time zone, the umask or the machine. The file has no name until it is published, so whatever
happens before leaves nothing behind.
"""

import errno
import os
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from wheelfix.errors import OutputError, VerificationError
from wheelfix.system.scratch import hold, sweep
from wheelfix.wheel.deflate import ZLIB, Chunk, Codec, Early, deflate_ahead
from wheelfix.wheel.dist_info import add_requirements, edit_metadata
from wheelfix.wheel.edited_file import Made, look_at
from wheelfix.wheel.members import Content, What
from wheelfix.wheel.model import Member, RecordRow, Wheel
from wheelfix.wheel.reader import Archive
from wheelfix.wheel.record import format_record, hash_field, update_record
from wheelfix.wheel.splice import stored
from wheelfix.wheel.zip_format import (
    End,
    Entry,
    dos_stamp,
    fresh_entry,
    pack_central,
    pack_end,
    pack_local,
    renamed,
    with_mode,
)

_PIECE = 2**20
_THREADS = 2
_HIDDEN = ".wheelfix-tmp"
_S_IFMT, _S_IFREG = 0o170000, 0o100000
_DEFAULT_STAMP = dos_stamp(0)

_New = bytes | Made

# --- What to write -----------------------------------------------------------------------------


def write_wheel(  # noqa: PLR0913 (the contract of a repair: what, from what, to where)
    archive: Archive,
    result: Wheel,
    content: Mapping[str, bytes | Path | Made],
    moved: Mapping[str, str],
    directory: Path,
    *,
    codec: Codec = ZLIB,
    level: int = -1,
    epoch: int | None = None,
    false_rows: AbstractSet[str] = frozenset(),
    early: Early | None = None,
) -> "PendingWheel":
    """Write `result` as a file without a name in `directory`, which is made if need be.

    The members are those of `result`, in its order. One in `content` is deflated by `codec` at
    `level`; one in `moved` (new name to old) is the old one's bytes under the new name; every other
    is copied. Both kinds of copy are raw: compressed data, date, mode and extra fields are the
    input's. WHEEL and RECORD are edited here, where `result` asks for it. Directory entries of the
    input are dropped: installers make the folders that files need.

    A changed member keeps the date of the one that it replaces, a new one gets RECORD's; with
    `epoch` (seconds since 1970, SOURCE_DATE_EPOCH) both get that.

    Rows of RECORD stand as they stood unless the file changes; those of `false_rows` are dropped,
    and `content` must have such a file if it stays.

    What was deflated `early`, by the same codec at the same level, is not deflated again.

    Raises `OutputError` where the file cannot be written, `BadWheelError` where the input has
    become unreadable.
    """
    with _output_errors(directory):
        new = {
            member: look_at(each) if isinstance(each, Path) else each
            for member, each in content.items()
        }
    _add_wheel_file(archive, result, new)
    _add_core_metadata(archive, result, new)
    _add_record(archive, result, new, moved, false_rows)
    stamp = None if epoch is None else dos_stamp(epoch)
    pending = PendingWheel(directory, str(result.name))
    try:
        with (
            _output_errors(directory),
            os.fdopen(os.dup(pending.descriptor), "w+b", _PIECE) as file,
            ThreadPoolExecutor(_THREADS) as pool,
        ):
            zip_file = _ZipFile(file)
            parts = {
                member: stored(each.parts, archive.stored(each.origin))
                for member, each in new.items()
                if isinstance(each, Made) and each.parts is not None and level < 0
            }
            fresh = [new[m.name] for m in result.members if m.name in new.keys() - parts.keys()]
            deflated = deflate_ahead(pool, map(_deflatable, fresh), codec, level, early)
            for member in result.members:
                old = archive.entries.get(moved.get(member.name, member.name))
                if member.name in new:
                    entry = _new_entry(archive, result, member, old, stamp)
                    made = new[member.name]
                    if isinstance(made, bytes):
                        zip_file.add(entry, made, deflated)
                    else:
                        zip_file.add_made(entry, made, parts.get(member.name), deflated)
                elif old:
                    zip_file.copy(_old_entry(old, member), *archive.raw(old.name))
                else:
                    raise VerificationError(  # noqa: TRY301 (the cleaning up is the same)
                        f"`{member.name}` is to be written, and nothing says from what",
                        hint="this is a bug in wheelfix: report it",
                    )
            zip_file.finish(archive.comment)
            pending.written = zip_file.written
    except BaseException:
        pending.close()
        raise
    return pending


def copy_wheel(archive: Archive, directory: Path) -> "PendingWheel":
    """Write the bytes of the input, for a wheel that needs no change.

    Raises `OutputError` where the file cannot be written.
    """
    pending = PendingWheel(directory, str(archive.wheel.name))
    try:
        with _output_errors(directory), os.fdopen(os.dup(pending.descriptor), "wb") as file:
            for offset in range(0, archive.size, _PIECE):
                file.write(archive.read_at(offset, min(_PIECE, archive.size - offset)))
    except BaseException:
        pending.close()
        raise
    return pending


def _add_wheel_file(archive: Archive, result: Wheel, content: dict[str, _New]) -> None:
    name = f"{result.dist_info}/WHEEL"
    old = archive.read(name)
    new = edit_metadata(
        old.decode(), tags=result.tags, root_is_purelib=result.root_is_purelib
    ).encode()
    if new != old:
        content[name] = new


def _add_core_metadata(archive: Archive, result: Wheel, content: dict[str, _New]) -> None:
    known = len(archive.wheel.metadata.requires_dist)
    added = result.metadata.requires_dist[known:]
    if added:
        name = f"{result.dist_info}/METADATA"
        content[name] = add_requirements(archive.read(name).decode(), added).encode()


def _add_record(
    archive: Archive,
    result: Wheel,
    content: dict[str, _New],
    moved: Mapping[str, str],
    false_rows: AbstractSet[str],
) -> None:
    name = f"{result.dist_info}/RECORD"
    names = [member.name for member in result.members]
    present = set(names)
    copied: dict[str, list[str]] = {}
    for new in names:
        if new in moved:
            copied.setdefault(moved[new], []).append(new)
    before = archive.wheel.record
    rows = update_record(
        tuple(row for row in before if row.name not in false_rows),
        record_name=name,
        removed=archive.entries.keys() - present,
        copied=copied,
        written={member: _row(member, content[member]) for member in names if member in content},
        order=names,
    )
    # Where nothing changed, even an unusual RECORD (its own row missing, or first) stays.
    same = rows[:-1] == tuple(row for row in before if row.name != name)
    if name in present and (false_rows or not same):
        content[name] = format_record(rows)


def _row(name: str, new: _New) -> RecordRow:
    if isinstance(new, bytes):
        return RecordRow(name=name, hash=_hash(sha256(new).digest()), size=len(new))
    return RecordRow(name=name, hash=_hash(new.sha256), size=new.size)


def _hash(digest: bytes) -> str:
    return hash_field("sha256", digest)


def _old_entry(entry: Entry, member: Member) -> Entry:
    """Describe a member whose bytes are copied, under the name and mode that it shall have."""
    if entry.name != member.name:
        entry = renamed(entry, member.name)
    return entry if entry.mode == member.mode else with_mode(entry, member.mode)


def _new_entry(
    archive: Archive, result: Wheel, member: Member, old: Entry | None, stamp: int | None
) -> Entry:
    """Describe a member with new bytes: the mode of `member`, the date of what it replaces."""
    dated = old or archive.entries.get(f"{result.dist_info}/RECORD")
    date = stamp if stamp is not None else dated.stamp if dated else _DEFAULT_STAMP
    mode = member.mode
    if old is None and mode and not mode & _S_IFMT:
        mode |= _S_IFREG
    entry = fresh_entry(member.name, mode=mode, stamp=date)
    if old and old.name == member.name:
        # A legacy name stays spelled in its legacy encoding.
        entry = entry._replace(flags=old.flags & 0x0800)
    return entry


def _deflatable(new: _New) -> bytes | Path:
    return new if isinstance(new, bytes) else new.path


# --- How to write it ---------------------------------------------------------------------------


class _ZipFile:
    """A zip that is being written to an empty file."""

    def __init__(self, file: BinaryIO) -> None:
        self.written: dict[str, tuple[Entry, Content]] = {}
        """The members that were made of files, and what they are."""
        self._file = file
        self._directory: list[bytes] = []
        self._at = 0

    def copy(self, entry: Entry, extra: bytes, raw: Iterable[bytes]) -> None:
        """Add a member in its compressed form."""
        self._directory.append(pack_central(entry._replace(offset=self._at)))
        self._write(pack_local(entry, extra))
        for piece in raw:
            self._write(piece)

    def add(self, entry: Entry, data: bytes, chunks: Iterator[tuple[Chunk, bytes]]) -> None:
        """Add content: of `chunks`, those up to its last one."""
        start, wide = self._begin(entry, len(data))
        for piece in _own(chunks):
            self._write(piece)
        self._end(entry._replace(crc=zlib.crc32(data), size=len(data), offset=start), wide=wide)

    def add_made(
        self,
        entry: Entry,
        made: Made,
        compressed: Iterator[bytes] | None,
        chunks: Iterator[tuple[Chunk, bytes]],
    ) -> None:
        """Add a file in its compressed form, or where there is none, by `chunks` as above."""
        start, wide = self._begin(entry, made.size)
        crc = 0
        for piece in _own(chunks) if compressed is None else compressed:
            crc = zlib.crc32(piece, crc)
            self._write(piece)
        entry = entry._replace(crc=made.crc, size=made.size, offset=start)
        entry = self._end(entry, wide=wide)
        if made.elf:
            hashed = _hash(made.sha256)
            self.written[entry.name] = entry, Content(hashed, crc, What(elf=made.elf))

    def _begin(self, entry: Entry, size: int) -> tuple[int, bool]:
        start = self._at
        # Incompressible data grows by five bytes in 16 KiB, so 64 MiB leave room to spare.
        wide = size > 2**32 - 2**26
        self._write(pack_local(entry, b"", wide=wide))
        return start, wide

    def _end(self, entry: Entry, *, wide: bool) -> Entry:
        """Write the header again, now that the compressed size is known."""
        start = entry.offset
        header = len(pack_local(entry, b"", wide=wide))
        entry = entry._replace(compressed_size=self._at - start - header)
        self._file.seek(start)
        self._file.write(pack_local(entry, b"", wide=wide))
        self._file.seek(self._at)
        self._directory.append(pack_central(entry))
        return entry

    def finish(self, comment: bytes) -> None:
        """Add the central directory."""
        start = self._at
        self._write(b"".join(self._directory))
        self._write(pack_end(End(start, self._at - start, len(self._directory), comment)))

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._at += len(data)


def _own(chunks: Iterator[tuple[Chunk, bytes]]) -> Iterator[bytes]:
    """Yield what is compressed of one content, up to its last chunk."""
    for chunk, compressed in chunks:
        yield compressed
        if chunk.last:
            return


class PendingWheel:
    """A wheel that is written and not yet published. Leaving its context discards it.

    It is an unnamed file (O_TMPFILE, open(2)) that vanishes with the process, however that ends;
    where the file system knows none, a hidden one.
    """

    def __init__(self, directory: Path, name: str) -> None:
        """Make the empty file; `OutputError` where that is not possible."""
        self.name = name
        """The file name to publish under."""
        self.descriptor = -1
        self.written: Mapping[str, tuple[Entry, Content]] = {}
        """The members whose compressed data is known to be what the contents say."""
        self._directory = directory
        self._hidden: Path | None = None
        with _output_errors(directory):
            directory.mkdir(parents=True, exist_ok=True)
            sweep(directory, ".", _HIDDEN)
            self.descriptor = _open_unnamed(directory)
            while self.descriptor < 0:
                self._hidden = self._hidden_name()
                flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
                self.descriptor = os.open(self._hidden, flags, 0o666)
                if not hold(self.descriptor):  # another run has swept it away
                    os.close(self.descriptor)
                    self.descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return os.fstat(self.descriptor).st_size

    @property
    def path(self) -> Path:
        """Where to read the file before it is published, also for other processes of the user."""
        return self._hidden or Path(f"/proc/{os.getpid()}/fd/{self.descriptor}")

    def publish(self, overwrite: bool = True) -> Path:  # noqa: FBT001, FBT002 (one question)
        """Give the file its name in one step, and return it; what bears it now is replaced.

        Raises `OutputError` where that fails, and with `overwrite` off where the name is taken.
        """
        target = self._directory / self.name
        with _output_errors(self._directory):
            try:
                self._link(target)
            except FileExistsError:
                if not overwrite:
                    raise
                self._replace(target)
        return target

    def close(self) -> None:
        """Discard the file, or let go of it after it was published."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
        if self._hidden:
            self._hidden.unlink(missing_ok=True)
            self._hidden = None

    def _link(self, target: Path) -> None:
        if self._hidden:
            os.link(self._hidden, target)
        else:
            # os.link() follows the link in /proc only when it is told of a directory, which an
            # absolute name then makes it ignore: any descriptor will do (linkat(2)).
            os.link(self.path, target, src_dir_fd=self.descriptor, follow_symlinks=True)

    def _replace(self, target: Path) -> None:
        if self._hidden is None:
            hidden = self._hidden_name()
            hold(self.descriptor)
            self._link(hidden)
            self._hidden = hidden
        self._hidden.replace(target)
        self._hidden = None

    def _hidden_name(self) -> Path:
        return self._directory / f".{os.urandom(6).hex()}{_HIDDEN}"


def _open_unnamed(directory: Path) -> int:
    """Open a file without a name in `directory`; -1 where that, or naming it later, is unknown."""
    if not Path("/proc/self/fd").is_dir():
        return -1
    try:
        return os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666)
    except OSError as error:
        # EISDIR is a kernel without O_TMPFILE, EOPNOTSUPP a file system (open(2)).
        if error.errno in {errno.EISDIR, errno.EOPNOTSUPP, errno.EINVAL}:
            return -1
        raise


_HINTS = {
    errno.ENOSPC: "make room on that disk, or choose another directory",
    errno.EDQUOT: "make room within your quota, or choose another directory",
    errno.EACCES: "choose a directory that you may write to",
    errno.EPERM: "choose a directory that you may write to",
    errno.EROFS: "choose a directory that is not mounted read-only",
    errno.ENOTDIR: "choose a directory: a part of that path is a file",
    errno.EEXIST: "remove what bears the name already",
    errno.EISDIR: "remove the directory that bears the name of the wheel",
    errno.EFBIG: "raise the limit (`ulimit -f`), or choose a file system that has none",
}


@contextmanager
def _output_errors(directory: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        what = f" (`{error.filename}`)" if error.filename else ""
        raise OutputError(
            f"cannot write the wheel into `{directory}`: {error.strerror}{what}",
            hint=_HINTS.get(error.errno or 0, "choose another directory"),
        ) from error
