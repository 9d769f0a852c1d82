"""Open a wheel: read it once, refuse what may not be unpacked, and say what is in it.

The zip directory is read by `zipformat`, not by the standard library's `zipfile`, which accepts
prepended data, overlapping members and bytes between them, and takes no less time. The file is
read by offset from one descriptor that stays open, so a wheel that is replaced meanwhile is not
mixed with its successor.
"""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from unicodedata import normalize

from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelfix.errors import BadWheelError
from wheelfix.system.tmpdir import tmpdir
from wheelfix.wheel.dist_info import WheelMetadata, read_core_metadata, read_metadata
from wheelfix.wheel.inflate import Mark, crc32, inflated_pieces, inflated_whole
from wheelfix.wheel.members import NOTHING, SHORT, Content, Whole, buffered, read_contents, watched
from wheelfix.wheel.model import (
    PRELOAD,
    Member,
    Metadata,
    Opening,
    RecordProblem,
    RecordRow,
    Wheel,
    WheelName,
)
from wheelfix.wheel.python_opens import followed
from wheelfix.wheel.python_source import Budget
from wheelfix.wheel.record import algorithm_of, parse_record, verify_record
from wheelfix.wheel.zip_format import (
    DEFLATED,
    TAIL,
    Entry,
    check_local,
    find_end,
    is_descriptor,
    parse_directory,
    shown,
)

_PIECE = 2**20
_HEAD = 2**18
"""Bytes, more than the longest local header."""
_HELD = 16 * 2**20
"""Bytes of texts that are kept: a hundred times what wheels have."""
_LONGEST_SHEBANG = 4096
_TICK = 10**8
"""Nanoseconds; several times what the clocks of file systems may stand still."""
_S_IFMT, _S_IFREG, _S_IFDIR, _S_IFLNK = 0o170000, 0o100000, 0o040000, 0o120000

_WRITABLE = frozenset({"__init__.py", f"{PRELOAD}.py"})
_DAMAGED = "the file is damaged or incomplete: build or download it again"


class Archive:
    """An open wheel. Close it, or use it as a context manager; reading is safe from threads."""

    def __init__(self, path: Path, descriptor: int) -> None:
        """Take over an open `descriptor`; `open_wheel` fills in the rest."""
        self.path = path
        self._state = _state_of(descriptor)
        self._is_new = time.time_ns() - self._state[-1] < _TICK
        self.size = self._state[0]
        """Bytes of the zip file."""
        self.comment = b""
        """The comment of the zip."""
        self.entries: Mapping[str, Entry] = {}
        """What the zip's directory says of each member, by name; directory entries left out."""
        self.wheel: Wheel
        self.contents: Mapping[str, Content] = {}
        """What each member is; filled when its bytes were verified."""
        self.wholes: dict[str, Whole] = {}
        """What stays inflated for whoever edits it, who takes it from here."""
        self._descriptor = descriptor
        self._window = 0, b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Buffers that were handed out stay valid."""
        self.contents = {}
        self.wholes.clear()
        self._window = 0, b""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def is_untouched(self) -> bool:
        """Return whether surely nobody has written to the file since it was opened.

        Whatever is done to a file sets its ctime, and nothing sets that back (inode(7)); but two
        changes within one tick of the clock may leave the same.
        """
        return not self._is_new and _state_of(self._descriptor) == self._state

    def check_again(self) -> None:
        """Read all of the file once more. Raises `BadWheelError` if it is not what it was."""
        now = Archive(self.path, os.dup(self._descriptor))
        with now:
            _fill(now, self.wheel.name, None, {}, keeps=False)
            same = now.entries == self.entries and all(
                (now.contents[member].hash, now.contents[member].stored_crc)
                == (then.hash, then.stored_crc)
                for member, then in self.contents.items()  # two threads filled it, in any order
            )
        if not same:
            raise BadWheelError(
                f"`{self.path.name}`: it was written to while it was read", hint="run it again"
            )

    def read(self, member: str) -> bytes:
        """Inflate a member; `BadWheelError` where size or CRC are not as stated.

        For members that may be large, use `buffer`.
        """
        return b"".join(self.inflated(member))

    def read_short(self, member: str) -> tuple[bytes, int]:
        """Inflate a member that is `short`; its bytes, and the CRC of the data as stored.

        Raises what `inflated` raises.
        """
        entry = self.entries[member]
        span = self._ahead(entry.offset, entry.end)
        start, _ = check_local(entry, span)
        stop = start + entry.compressed_size
        stored = span[start:stop]
        data = inflated_whole(entry, stored) if entry.method == DEFLATED else stored
        ends_well = stop == len(span) or is_descriptor(entry, span[stop:])
        if data is None or crc32(data, 0) != entry.crc or not ends_well:
            data = self.read(member)  # what is wrong, this says
        return data, crc32(stored, 0)

    def buffer(self, member: str) -> memoryview:
        """Inflate a member into a buffer; a large one is a mapped file without a name."""
        return buffered(self.inflated(member), self.entries[member].size)

    def tables(self, member: str) -> memoryview:
        """Give a buffer with the tables of an object at their places, from which to read exports.

        The rest of it may be zeros: then nothing had to be inflated once more.
        """
        return self.contents[member].what.tables or self.buffer(member)

    def inflated(
        self,
        member: str,
        watch: Callable[[bytes], None] | None = None,
        *,
        mark: Mark | None = None,
    ) -> Iterator[bytes]:
        """Yield a member's bytes in pieces of up to 1 MiB; `watch` is given the data as stored.

        `mark` is for `inflated_pieces`, and called of a member that is deflated.

        Raises `BadWheelError` as soon as it inflates past its stated size, at the end where size
        or CRC are not as stated.
        """
        yield from self._inflated(self.entries[member], watch, mark)

    def check_folder(self, entry: Entry) -> None:
        """Hold the entry of a folder, which is no member, to its local header and to nothing.

        Raises what `inflated` raises.
        """
        for _ in self._inflated(entry):
            pass

    def _inflated(
        self,
        entry: Entry,
        watch: Callable[[bytes], None] | None = None,
        mark: Mark | None = None,
    ) -> Iterator[bytes]:
        _, raw = self._raw(entry)
        if watch:
            raw = watched(raw, watch)
        pieces = inflated_pieces(entry, raw, mark=mark) if entry.method == DEFLATED else raw
        yield from _checked(entry, pieces)

    def raw(self, member: str) -> tuple[bytes, Iterable[bytes]]:
        """Give the extra field of the local header, and the data as stored, in pieces.

        Raises `BadWheelError` where the local header and the central directory disagree.
        """
        return self._raw(self.entries[member])

    def _raw(self, entry: Entry) -> tuple[bytes, Iterable[bytes]]:
        span = entry.end - entry.offset
        head = self._head(entry)
        length, extra = check_local(entry, head)
        end = length + entry.compressed_size
        rest = head[end:] if len(head) == span else self._pread_rest(entry.offset + end, entry.end)
        # A local extra field longer than the central one may reach past the end of the entry.
        if end > span or (rest and not is_descriptor(entry, rest)):
            raise BadWheelError(
                f"{shown(entry.name)} is followed by foreign bytes in the zip",
                hint="build the wheel again, or unpack and pack it with `wheel unpack` and "
                "`wheel pack`",
            )
        first = head[length:end]
        if len(first) == entry.compressed_size:
            return extra, (first,) if first else ()
        return extra, self._pieces(first, entry.offset + len(head), entry.offset + end)

    def stored(self, member: str) -> Callable[[int, int], bytes]:
        """Return what reads the data as stored: from an offset so many bytes, fewer at its end."""
        entry = self.entries[member]
        length, _ = check_local(entry, self._head(entry))
        start, size = entry.offset + length, entry.compressed_size
        return lambda at, count: self.read_at(start + at, min(count, max(size - at, 0)))

    def _ahead(self, start: int, stop: int) -> bytes:
        """Read what is no more than a window; what follows it will mostly be asked for next."""
        window_start, window = self._window
        if not window_start <= start <= stop <= window_start + len(window):
            window_start, window = start, self.read_at(start, min(_PIECE, self.size - start))
            self._window = window_start, window
        return window[start - window_start : stop - window_start]

    def _head(self, entry: Entry) -> bytes:
        if entry.end - entry.offset <= SHORT:
            return self._ahead(entry.offset, entry.end)
        return self.read_at(entry.offset, min(entry.end - entry.offset, _HEAD))

    def _pread_rest(self, start: int, end: int) -> bytes:
        # The longest data descriptor has 24 bytes; one more is enough to know that it is none.
        return self.read_at(start, min(end - start, 25)) if end > start else b""

    def _pieces(self, first: bytes, start: int, end: int) -> Iterator[bytes]:
        yield first
        for at in range(start, end, _PIECE):
            yield self.read_at(at, min(_PIECE, end - at))

    def read_at(self, offset: int, size: int) -> bytes:
        """Read from the zip file itself; `BadWheelError` where it has become too short."""
        data = os.pread(self._descriptor, size, offset)
        while len(data) < size:  # one read ends at 2 GiB, or when a signal comes
            more = os.pread(self._descriptor, size - len(data), offset + len(data))
            if not more:
                raise BadWheelError("the file shrank while it was read", hint=_DAMAGED)
            data += more
        return data


def _checked(entry: Entry, pieces: Iterable[bytes]) -> Iterator[bytes]:
    crc = size = 0
    for piece in pieces:
        crc = crc32(piece, crc)
        size += len(piece)
        if size > entry.size:
            break
        yield piece
    if size != entry.size:
        raise BadWheelError(
            f"{shown(entry.name)} has {size} bytes, the zip states {entry.size}", hint=_DAMAGED
        )
    if crc != entry.crc:
        raise BadWheelError(f"{shown(entry.name)} has a wrong checksum (CRC)", hint=_DAMAGED)


def _state_of(descriptor: int) -> tuple[int, int, int]:
    """Return the size, and when content and inode were changed last, in nanoseconds."""
    status = os.fstat(descriptor)
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


# --- Opening -----------------------------------------------------------------------------------


def open_wheel(
    path: Path,
    *,
    name: WheelName | None = None,
    origin: Archive | None = None,
    written: Mapping[str, tuple[Entry, Content]] | None = None,
    keeps: bool = False,
) -> Archive:
    """Open a wheel, verify every byte of it, and read its ELF objects.

    `name` is for a file that does not carry its name, such as one that is yet to be published.
    What has the same compressed bytes as in `origin`, which was opened before, is as it was there;
    likewise what is `written`, where somebody knows of these bytes what they inflate to. An archive
    that `keeps` what it read has the largest object in its `wholes`.
    A RECORD that disagrees with the files does not fail the opening: it is `record_problems`.

    Raises `BadWheelError`, naming the file, the member and the reason, for what is no wheel and
    for what may not be unpacked: names that leave the tree or clash, links, members that are
    encrypted, overlap, or are not what the zip states of them.
    """
    try:
        name = name or WheelName.parse(path.name)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise BadWheelError(
            f"`{path}` cannot be opened: {error.strerror}", hint="check the path"
        ) from error
    archive = Archive(path, descriptor)
    try:
        if not _is_regular(descriptor):
            raise BadWheelError("is not a file", hint="give the path of a wheel")  # noqa: TRY301 - closed below
        _fill(archive, name, origin, written or {}, keeps=keeps)
    except BadWheelError as error:
        archive.close()
        raise BadWheelError(f"`{path.name}`: {error.message}", hint=error.hint) from error
    except BaseException:
        archive.close()
        raise
    return archive


def _is_regular(descriptor: int) -> bool:
    return os.fstat(descriptor).st_mode & _S_IFMT == _S_IFREG


def _fill(
    archive: Archive,
    name: WheelName,
    origin: Archive | None,
    written: Mapping[str, tuple[Entry, Content]],
    *,
    keeps: bool,
) -> None:
    known = _known(origin)
    entries = _read_directory(archive, known)
    _check_total(archive, entries)
    for entry in entries:
        if fault := _fault(entry):
            raise BadWheelError(f"{shown(entry.name)} {fault}", hint=_UNSAFE)
        if entry.name.endswith("/"):
            archive.check_folder(entry)
    _check_clashes(entries)
    archive.entries = {entry.name: entry for entry in entries if not entry.name.endswith("/")}
    dist_info = _find_dist_info(archive.entries, name)
    _check_places(archive.entries, f"{dist_info.removesuffix('.dist-info')}.data/")
    _check_lists(archive, dist_info)
    archive.wheel = _verified(archive, name, dist_info, origin, written, known, keeps=keeps)


def _known(origin: Archive | None) -> dict[Any, Any]:
    """Return what will mostly come again, as keys and values, so that it is in memory once."""
    if origin is None:
        return {}
    wheel = origin.wheel
    return {each: each for each in chain(origin.entries, wheel.members, wheel.record)}


def _read_directory(archive: Archive, known: dict[Any, Any]) -> list[Entry]:
    start = max(0, archive.size - TAIL)
    end = find_end(archive.read_at(start, archive.size - start), archive.size)
    archive.comment = end.comment
    return parse_directory(archive.read_at(end.offset, end.size), end, known)


_HIGHEST_RATIO = 100
"""Deflate reaches 1032; wheels 2 to 10, and hardly any more than 30."""
_UNSAFE = "do not install it: no build backend writes this; build the wheel again"


def _check_total(archive: Archive, entries: Sequence[Entry]) -> None:
    """Refuse bombs: more than the disk of the temporary directory holds, or than the file can mean.

    What is below takes seconds to inflate, and no memory.
    """
    total = sum(entry.size for entry in entries)
    if total <= 2**32:
        return
    if total > 2**33 and total > _HIGHEST_RATIO * archive.size:
        raise BadWheelError(
            f"the members inflate to {total} bytes, {total // archive.size} times what the file "
            "has: it is a bomb",
            hint=_UNSAFE,
        )
    disk = os.statvfs(tmpdir())
    if total > disk.f_blocks * disk.f_frsize:
        raise BadWheelError(
            f"the members inflate to {total} bytes, more than the disk holds", hint=_UNSAFE
        )


def _fault(entry: Entry) -> str | None:
    """Say why a member may not be unpacked, by its name or its kind alone."""
    kind = entry.mode & _S_IFMT
    if kind in (0, _S_IFREG) and len(entry.name) < _DEEPEST and _PLAIN.fullmatch(entry.name):
        return None
    folder = entry.name.endswith("/")
    if kind not in ((0, _S_IFDIR, _S_IFREG) if folder else (0, _S_IFREG)):
        what = "symbolic link" if kind == _S_IFLNK else "special file"
        return f"is a {what}, not a file (mode {entry.mode:o})"
    if folder and entry.size:
        return "is a folder with content"
    return _name_fault(entry.name)


_DEEPEST, _LONGEST, _NAME_MAX = 100, 4000, 255
"""Folders, and bytes of a path and of a name: Linux has no longer ones, PATH_MAX and NAME_MAX."""
_PLAIN = re.compile(r"(?:\w[\w.+-]*/)*\w[\w.+-]*", re.ASCII)
"""Nearly all names of files: of those, nothing more need be asked."""


def _name_fault(name: str) -> str | None:
    parts = name.removesuffix("/").split("/")
    faults = (
        (not name.isprintable() and any(map(_is_control, name)), "has a control character"),
        ("\\" in name, "has a backslash, which is a separator elsewhere"),
        (name.startswith("/"), "is an absolute name"),
        (name[1:2] == ":", "names a drive"),
        (".." in parts, "leads out of the wheel by `..`"),
        ("." in parts or "" in parts, "is not a plain relative name"),
        (any(len(part.encode()) > _NAME_MAX for part in parts), "has a name that is too long"),
        (len(parts) > _DEEPEST, f"is {len(parts)} folders deep"),
        (len(name) > _LONGEST and len(name.encode()) > _LONGEST, "has a path that is too long"),
    )
    return next((fault for found, fault in faults if found), None)


def _is_control(character: str) -> bool:
    return character < " " or "\x7f" <= character < "\xa0"


def _check_clashes(entries: Sequence[Entry]) -> None:
    """Refuse members that overwrite each other, also where case does not count."""
    files: dict[str, str] = {}
    folders: set[str] = set()
    for entry in entries:
        key = _folded(entry.name)
        if key.endswith("/"):
            key = key[:-1]
            folders.add(key)
        elif key in files:
            other = files[key]
            how = "is in the wheel twice" if other == entry.name else f"clashes with {shown(other)}"
            raise BadWheelError(f"{shown(entry.name)} {how}", hint=_CLASH)
        else:
            files[key] = entry.name
        parent = key.rpartition("/")[0]
        while parent and parent not in folders:
            folders.add(parent)
            parent = parent.rpartition("/")[0]
    for key in files.keys() & folders:
        raise BadWheelError(f"{shown(files[key])} is a file and a folder as well", hint=_CLASH)


def _check_places(names: Iterable[str], data: str) -> None:
    """Refuse members of the `.data` folder that no installer takes, or that overwrite others.

    `data` is the name of that folder. purelib and platlib are one folder for nearly every Python.
    """
    moved = [name for name in names if name.startswith(data)]
    if not moved:
        return
    files = {_folded(name): name for name in names}
    for name in moved:
        key, _, rest = name.removeprefix(data).partition("/")
        if not rest or key not in _KEYS.split(", "):
            raise BadWheelError(
                f"{shown(name)} is in none of the folders of an installation, {_KEYS}",
                hint=_UNSAFE,
            )
        if key in {"purelib", "platlib"}:
            other = files.setdefault(_folded(rest), name)
            if other != name:
                raise BadWheelError(f"{shown(name)} is installed over {shown(other)}", hint=_CLASH)


_KEYS = "purelib, platlib, headers, scripts, data"
_CLASH = "one would overwrite the other when unpacked: rename one where the wheel is built"


def _folded(name: str) -> str:
    if name.isascii():
        return name.lower()
    return normalize("NFC", normalize("NFC", name).casefold())


def _find_dist_info(names: Mapping[str, Entry], wheel: WheelName) -> str:
    tops = {name.partition("/")[0] for name in names if ".dist-info/" in name}
    found = sorted(top for top in tops if top.endswith(".dist-info"))
    if len(found) != 1:
        several = " and ".join(map(shown, found)) or "none"
        raise BadWheelError(
            f"a wheel has one .dist-info folder, this has {several}",
            hint="build the wheel again, from a clean build folder",
        )
    distribution, _, version = found[0].removesuffix(".dist-info").partition("-")
    if not (_same_name(distribution, wheel.distribution) and _same_version(version, wheel.version)):
        raise BadWheelError(
            f"the folder {shown(found[0])} is not of {wheel.distribution} {wheel.version}, which "
            "the file name says",
            hint="give the wheel the name that it was built with",
        )
    return found[0]


def _check_lists(archive: Archive, dist_info: str) -> None:
    """Refuse lists longer than what they list: they are read as a whole."""
    names = sum(len(entry.raw_name) + 200 for entry in archive.entries.values())
    most = {"WHEEL": _PIECE, "METADATA": 4 * _PIECE, "RECORD": _PIECE + 2 * names}
    for name, size in most.items():
        entry = archive.entries.get(f"{dist_info}/{name}")
        if entry and entry.size > size:
            raise BadWheelError(
                f"{shown(entry.name)} has {entry.size} bytes, more than any build writes",
                hint=_UNSAFE,
            )


def _same_name(one: str, other: str) -> bool:
    """Compare distribution names by the rule of PEP 503."""
    return canonicalize_name(one) == canonicalize_name(other)


def _same_version(one: str, other: str) -> bool:
    """Compare versions by PEP 440; `_` stands for `-` or `+` in file names (PEP 427)."""
    if one == other:
        return True
    with suppress(ValueError):  # InvalidVersion, or a number with thousands of digits
        return Version(one.replace("_", "-")) == Version(other.replace("_", "-"))
    return _same_name(one.replace("+", "-"), other.replace("+", "-"))


def _read_wheel_file(archive: Archive, dist_info: str) -> WheelMetadata:
    name = f"{dist_info}/WHEEL"
    if name not in archive.entries:
        raise BadWheelError(f"{shown(name)} is missing", hint="build the wheel again")
    try:
        return read_metadata(archive.read(name).decode("utf-8"))
    except UnicodeDecodeError:
        raise BadWheelError(f"{shown(name)} is not UTF-8", hint="build the wheel again") from None


def _verified(  # noqa: PLR0913, PLR0917 - what a wheel is told by
    archive: Archive,
    name: WheelName,
    dist_info: str,
    origin: Archive | None,
    written: Mapping[str, tuple[Entry, Content]],
    known: Mapping[Any, Any],
    *,
    keeps: bool,
) -> Wheel:
    """Inflate every member once: CRC and size, RECORD's hash, and what ELF objects say."""
    metadata = _read_wheel_file(archive, dist_info)
    record_name = f"{dist_info}/RECORD"
    rows, problems = _read_record(archive, record_name, known)
    stated = {row.name: row.hash for row in rows if algorithm_of(row)}
    contents = _unchanged(archive, origin, written, stated)
    rest = {member: entry for member, entry in archive.entries.items() if member not in contents}
    wholes = archive.wholes if keeps else None
    contents.update(read_contents(archive, rest, stated, wholes=wholes))
    archive.contents = contents
    found = (
        Member(e.name, e.size, e.compressed_size, e.mode)  # by position: a third quicker
        for e in archive.entries.values()
    )
    members = tuple(known.get(member, member) for member in found) if origin else tuple(found)
    if record_name in archive.entries:
        hashes = {member: each.hash for member, each in contents.items() if each.hash}
        problems += verify_record(rows, members, hashes, record_name)
    special = {m: what for m in archive.entries if (what := contents[m].what) is not NOTHING}
    sources = {member: each.source for member, each in special.items() if each.source}
    openings, unfollowed = _followed_before(archive, origin, sources) or _followed(
        sources, archive.entries, dist_info
    )
    unfollowed |= {member for member, each in special.items() if each.is_too_much}
    return Wheel(
        name=name,
        members=members,
        dist_info=dist_info,
        tags=metadata.tags,
        root_is_purelib=metadata.root_is_purelib,
        record=rows,
        record_problems=problems,
        elfs={member: each.elf for member, each in special.items() if each.elf},
        broken_elfs={member: each.broken for member, each in special.items() if each.broken},
        impostors={member: each.likeness for member, each in special.items() if each.likeness},
        openings=openings,
        unfollowed=tuple(member for member in special if member in unfollowed),
        sources=dict(_sources(archive)),
        metadata=_read_metadata(archive, f"{dist_info}/METADATA"),
        size=archive.size,
        texts=dict(_texts(archive, dist_info)),
        shebangs=dict(_shebangs(archive, dist_info)),
    )


def _unchanged(
    archive: Archive,
    origin: Archive | None,
    written: Mapping[str, tuple[Entry, Content]],
    stated: Mapping[str, str],
) -> dict[str, Content]:
    """Return what is known of the members that are copies, byte by byte as they are stored."""
    found: dict[str, Content] = {}
    for member, entry in archive.entries.items():
        if member in written:
            old, content = written[member]
        elif origin is not None and member in origin.contents:
            old, content = origin.entries[member], origin.contents[member]
        else:
            continue
        if _data_of(old) != _data_of(entry):
            continue
        if content.hash.partition("=")[0] != stated.get(member, "").partition("=")[0]:
            continue
        crc = 0
        for piece in archive.raw(member)[1]:
            crc = crc32(piece, crc)
        if crc == content.stored_crc:
            found[member] = content
    return found


_Followed = tuple[Mapping[str, tuple[Opening, ...]], set[str]]
"""What sources open, and which of them were not followed to their ends."""


def _followed_before(
    archive: Archive, origin: Archive | None, sources: Mapping[str, bytes]
) -> _Followed | None:
    """Return what the sources of `origin` open, where they and all modules' names are the same."""
    if origin is None or _modules(archive) != _modules(origin):
        return None
    before = {
        member: each.what.source for member, each in origin.contents.items() if each.what.source
    }
    if sources != before:
        return None
    return origin.wheel.openings, sources.keys() & origin.wheel.unfollowed


def _modules(archive: Archive) -> list[str]:
    return [member for member in archive.entries if member.endswith((".py", ".so"))]


def _data_of(entry: Entry) -> tuple[int, ...]:
    return entry.method, entry.crc, entry.compressed_size, entry.size


def _read_metadata(archive: Archive, member: str) -> Metadata:
    if member not in archive.entries:
        return Metadata(problem="the wheel has no METADATA")
    try:
        return read_core_metadata(archive.read(member).decode("utf-8"))
    except UnicodeDecodeError as error:
        return Metadata(problem=f"METADATA is not UTF-8: {error}")


def _texts(archive: Archive, dist_info: str) -> Iterator[tuple[str, str]]:
    """Read the small files of dist-info that tools write for tools: JSON, entry points."""
    spare = _HELD
    for member, entry in archive.entries.items():
        if (
            member.startswith(f"{dist_info}/")
            and member.endswith((".json", ".txt"))
            and entry.size <= min(_PIECE, spare)
            and not member.startswith(f"{dist_info}/licenses/")
        ):
            spare -= entry.size
            yield member, archive.read(member).decode("utf-8", "replace")


def _sources(archive: Archive) -> Iterator[tuple[str, bytes]]:
    """Read the `__init__.py` files that Python runs before a shared object, and the shims."""
    folders = {member.rpartition("/")[0] for member in archive.entries if ".so" in member}
    above = {parent for folder in folders for parent in _and_above(folder)}
    for member, entry in archive.entries.items():
        folder, _, name = member.rpartition("/")
        if name in _WRITABLE and folder in above and entry.size <= _PIECE:
            yield member, archive.read(member)


def _and_above(folder: str) -> Iterator[str]:
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]


def _shebangs(archive: Archive, dist_info: str) -> Iterator[tuple[str, str]]:
    scripts = dist_info.removesuffix(".dist-info") + ".data/scripts/"
    for member in archive.entries:
        if member.startswith(scripts):
            line = next(archive.inflated(member), b"")[:_LONGEST_SHEBANG].partition(b"\n")[0]
            if line.startswith(b"#!"):
                yield member, line.decode("utf-8", "replace").rstrip("\r")


def _followed(sources: Mapping[str, bytes], members: Iterable[str], dist_info: str) -> _Followed:
    """Return what Python sources of site-packages open by name."""
    if not sources:
        return {}, set()
    effort = Budget()
    data = dist_info.removesuffix(".dist-info") + ".data"
    places = {member: _below_site(member, data) for member in members}
    # An extension module hides a source of the same name (importlib.machinery.FileFinder).
    code = sorted((place for place in places.values() if place), key=lambda p: p.endswith(".so"))
    modules = {_module(place): place for place in code if place.endswith((".py", ".so"))}
    found = {
        member: followed(source, place, modules, effort)
        for member, source in sources.items()
        if (place := places[member])
    }
    openings = {member: each.openings for member, each in found.items() if each.openings}
    return openings, {member for member, each in found.items() if not each.to_its_end}


def _below_site(member: str, data: str) -> str | None:
    """Return the place of a member in site-packages, None for one that goes elsewhere."""
    if not member.startswith(f"{data}/"):
        return member
    _, key, rest = (*member.split("/", 2), "")[:3]
    return rest if key in {"purelib", "platlib"} else None


def _module(place: str) -> str:
    """`pkg/__init__.py` -> `pkg`, `pkg/core.cpython-311-x86_64-linux-gnu.so` -> `pkg.core`."""
    folder, _, name = place.rpartition("/")
    stem = name.partition(".")[0]
    parts = [*folder.split("/"), *([] if stem == "__init__" else [stem])]
    return ".".join(filter(None, parts))


def _read_record(
    archive: Archive, record_name: str, known: Mapping[Any, Any]
) -> tuple[tuple[RecordRow, ...], tuple[RecordProblem, ...]]:
    if record_name not in archive.entries:
        return (), (RecordProblem(member=record_name, message="the wheel has no RECORD"),)
    return parse_record(archive.read(record_name), record_name, known)
