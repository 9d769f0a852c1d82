"""Opening of wheels: every byte is read and verified once, and described as a `Wheel`."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from itertools import zip_longest
from operator import eq
from pathlib import Path
from stat import S_ISREG
from threading import Lock
from typing import Self

from wheelfix.budget import Budget, BudgetError
from wheelfix.elf.exports import SymbolTables, read_symbol_tables
from wheelfix.elf.object_file_names import is_object_name
from wheelfix.errors import BadWheelError
from wheelfix.grouping import flatten
from wheelfix.named_tuple import NamedTuple
from wheelfix.python_sources.imported_modules import module_name
from wheelfix.python_sources.opens import Followed, visit_source
from wheelfix.python_sources.parsing import STEPS_PER_WHEEL
from wheelfix.wheel.dist_info import (
    WheelMetadata,
    dist_info_folder,
    read_core_metadata,
    read_metadata,
)
from wheelfix.wheel.model import (
    LIBRARY_KEYS,
    PRELOAD,
    Member,
    Metadata,
    RecordProblem,
    RecordRow,
    Wheel,
    WheelName,
    is_license,
)
from wheelfix.wheel.platform_tags import as_promised
from wheelfix.wheel.read_contents import Content, Inflate, read_contents
from wheelfix.wheel.record import algorithm_of, parse_record, verify_record
from wheelfix.wheel.unsafe_entries import check_data_folder, check_entries, check_metadata_sizes
from wheelfix.wheel.zip_headers import Entry, quote
from wheelfix.wheel.zip_oddities import find_oddities
from wheelfix.wheel.zip_reader import ZipReader

ProgressWatch = Callable[[float], None]
"""Gets the fraction of a wheel that was read."""

_LARGEST_TEXT = 2**20
_TEXTS = 16 * 2**20
"""Bytes of texts that are kept: a hundred times what wheels have."""
_TICK = 10**8
"""Nanoseconds; several times the resolution of the clocks of file systems."""
_STEPS_A_TAG = 500
"""A tag is compared with those of the file name, of policies, and of Pythons."""
_STEPS_A_PROBLEM = 30
_PROBLEM_SIZE = 3000
"""Bytes of a finding about RECORD, in memory and in reports."""
_WRITABLE = frozenset({"__init__.py", f"{PRELOAD}.py"})
_REBUILD = "build the wheel again"


class Archive(ZipReader):
    """An open wheel. Close it, or use it as a context manager; reading is safe from threads."""

    def __init__(
        self,
        path: Path,
        descriptor: int,
        name: WheelName,
        origin: Self | None = None,
        watch: ProgressWatch | None = None,
    ) -> None:
        """Take over an open `descriptor`, and read and verify the wheel.

        Members with the same compressed bytes in `origin` are not inflated. `watch` gets the
        fraction of the bytes that are inflated.

        Raises `BadWheelError` for what `open_wheel` refuses.
        """
        self._state = _state_of(descriptor)
        self._is_new = time.time_ns() - self._state[-1] < _TICK
        super().__init__(descriptor)
        self.path = path
        self.budget = Budget.of_file(path.name, self.size)
        """What all that follows the contents of the wheel spends."""
        self.wheel, self.contents = _read_wheel(self, name, origin, self.budget, watch)

    def with_own_budget(self) -> Self:
        """Return the same open file, for another question, with what is left of the budget now."""
        other = copy(self)
        other.budget = copy(self.budget)
        return other

    def symbol_tables(self, member: str) -> SymbolTables:
        """Return what the exports of an object are read from; it may be inflated again.

        Raises `BadElfError` for broken tables.
        """
        known = self.contents[member].tables
        return known or read_symbol_tables(self.buffer(member), member, self.budget)

    def check_unchanged(self) -> None:
        """Raise `BadWheelError` if the file is not what it was when it was opened.

        Every change of a file sets its ctime, and no program can set that back (inode(7)), but two
        changes within one tick of the clock may leave the same. Where it may have changed, all of
        it is read again.
        """
        if not self._is_new and _state_of(self._descriptor) == self._state:
            return
        with _open_archive(self.path, os.dup(self._descriptor), self.wheel.name) as now:
            is_same = now.wheel == self.wheel and now.directory == self.directory
            hashes = {member: content.hash for member, content in now.contents.items()}
        if not is_same or hashes != {m: content.hash for m, content in self.contents.items()}:
            raise BadWheelError(
                f"`{self.path.name}`: it was written to while it was read", hint="run it again"
            )


def open_wheel(
    path: Path, *, name: WheelName | None = None, watch: ProgressWatch | None = None
) -> Archive:
    """Open a wheel, verify every byte of it, and read its ELF objects.

    `name` is for a file that does not have the name of a wheel, such as one yet to be published.
    `watch` is called again and again with the fraction of the wheel that was read.
    A RECORD that disagrees with the files does not fail the opening: it is `record_problems`.

    Raises `BadWheelError`, with the file, the member and the reason, for files that are not wheels
    and for wheels that must not be unpacked: names that leave the folder or clash, links, members
    that are encrypted, overlap, or are not what the zip states of them.
    """
    try:
        name = name or WheelName.parse(path.name)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise BadWheelError(
            f"`{path}` cannot be opened: {error.strerror}", hint="check the path"
        ) from error
    return _open_archive(path, descriptor, name, watch=watch)


def open_rewritten(path: Path, name: WheelName, origin: Archive) -> Archive:
    """Open a wheel called `name` that was made of `origin`, as `open_wheel` does.

    Members that were copied are compared with `origin` in their compressed form, not inflated.
    """
    return _open_archive(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC), name, origin)


def _open_archive(
    path: Path,
    descriptor: int,
    name: WheelName,
    origin: Archive | None = None,
    watch: ProgressWatch | None = None,
) -> Archive:
    """Make an archive of `descriptor`, which is closed where that fails."""
    with ExitStack() as stack:
        stack.callback(os.close, descriptor)
        try:
            _check_regular(descriptor)
            archive = Archive(path, descriptor, name, origin, watch)
        except BudgetError:
            raise
        except BadWheelError as error:
            raise BadWheelError(f"`{path.name}`: {error.message}", hint=error.hint) from error
        stack.pop_all()
    return archive


def _check_regular(descriptor: int) -> None:
    if not S_ISREG(os.fstat(descriptor).st_mode):
        raise BadWheelError("is not a file", hint="give the path of a wheel")


def _state_of(descriptor: int) -> tuple[int, int, int]:
    """Return the size, and when content and inode were changed last, in nanoseconds."""
    status = os.fstat(descriptor)
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _read_wheel(
    archive: ZipReader,
    name: WheelName,
    origin: Archive | None,
    budget: Budget,
    watch: ProgressWatch | None,
) -> tuple[Wheel, Mapping[str, Content]]:
    """Inflate every member once: check CRC and size, RECORD's hash, and read ELF objects."""
    check_entries(archive.directory, archive.size)
    archive.check_folders()
    dist_info = dist_info_folder(archive.entries, name)
    data_dir = dist_info.data_dir
    check_data_folder(archive.entries, data_dir)
    check_metadata_sizes(archive.entries, dist_info)
    wheel_file = _read_wheel_file(archive, dist_info.wheel_file)
    tags = _STEPS_A_TAG * sum(1 + len(tag) // 100 for tag in wheel_file.tags)
    budget.spend(tags, "the tags", dist_info.wheel_file)
    rows, problems = _read_record(archive, dist_info.record)
    budget.spend(2 * len(rows), "the rows", dist_info.record, memory=300 * len(rows))
    stated = {row.name: row.hash for row in rows if algorithm_of(row)}
    known = dict(_copy_contents(archive, origin, stated)) if origin else {}
    others = {member: entry for member, entry in archive.entries.items() if member not in known}
    inflate = archive.inflate if watch is None else _watch_inflating(archive, others, watch)
    read = known | read_contents(others, stated, inflate, budget)
    contents = {member: read[member] for member in archive.entries}
    members = tuple(
        Member(e.name, e.size, e.compressed_size, e.mode) for e in archive.entries.values()
    )
    if dist_info.record in archive.entries:
        hashes = {member: content.hash for member, content in contents.items() if content.hash}
        problems += verify_record(rows, members, hashes, dist_info.record)
    problems = tuple(dict.fromkeys(problems))
    wrong = len(problems)
    where = dist_info.record
    budget.spend(_STEPS_A_PROBLEM * wrong, "the wrong rows", where, memory=_PROBLEM_SIZE * wrong)
    followed = _visit_sources(contents, data_dir, budget, origin)
    openings = {member: each.openings for member, each in followed.items() if each.openings}
    wheel = Wheel(
        name=name,
        members=members,
        dist_info=dist_info,
        tags=wheel_file.tags,
        root_is_purelib=wheel_file.root_is_purelib,
        record=rows,
        record_problems=problems,
        elfs={m: as_promised(c.elf, name.platforms) for m, c in contents.items() if c.elf},
        broken_elfs={member: c.broken_elf for member, c in contents.items() if c.broken_elf},
        impostors={member: c.likeness for member, c in contents.items() if c.likeness},
        openings=openings,
        unfollowed=tuple(member for member, each in followed.items() if not each.to_its_end),
        opening_unknown=tuple(member for member, each in followed.items() if each.opened_unknown),
        sources=dict(_sources(archive, openings)),
        metadata=_read_metadata(archive, dist_info.metadata),
        size=archive.size,
        texts=dict(_texts(archive, dist_info)),
        zip_oddities=find_oddities(archive),
    )
    return wheel, contents


def _watch_inflating(
    archive: ZipReader, entries: Mapping[str, Entry], watch: ProgressWatch
) -> Inflate:
    """Return `archive.inflate`, which tells `watch` the fraction of `entries` that it has."""
    total = sum(entry.size for entry in entries.values()) or 1
    done = 0
    lock = Lock()

    def inflate(member: str) -> Iterator[bytes]:
        nonlocal done
        for piece in archive.inflate(member):
            with lock:
                done += len(piece)
                watch(done / total)
            yield piece

    return inflate


def _copy_contents(
    archive: ZipReader, origin: Archive, stated: Mapping[str, str]
) -> Iterator[tuple[str, Content]]:
    """Yield what is known of the members that have the same compressed bytes in `origin`."""
    known = origin.contents
    pairs = (
        _Pair(entry, origin.entries[member])
        for member, entry in archive.entries.items()
        if member in known
        and known[member].hash.partition("=")[0] == stated.get(member, "").partition("=")[0]
    )
    for run in _runs(pair for pair in pairs if _has_same_fields(*pair)):
        is_copied = _has_same_bytes(archive, origin, run)
        for new, _ in run:
            if is_copied or _has_same_data(archive, origin, new.name):
                yield new.name, known[new.name]


class _Pair(NamedTuple):
    """The entry of a member, and that of the same name in another archive."""

    new: Entry
    old: Entry


def _has_same_fields(new: Entry, old: Entry) -> bool:
    return (new.method, new.crc, new.compressed_size, new.size) == (
        old.method, old.crc, old.compressed_size, old.size,
    )  # fmt: skip


def _runs(pairs: Iterable[_Pair]) -> Iterator[list[_Pair]]:
    """Split `pairs` into those of entries that follow each other in both archives."""
    run: list[_Pair] = []
    for pair in pairs:
        if run and (run[-1].new.end, run[-1].old.end) != (pair.new.offset, pair.old.offset):
            yield run
            run = []
        run.append(pair)
    if run:
        yield run


def _has_same_bytes(archive: ZipReader, origin: ZipReader, run: Sequence[_Pair]) -> bool:
    """Compare all bytes of a run: local headers, data and what follows."""
    first, last = run[0], run[-1]
    return all(
        (new.flags, new.end - new.offset) == (old.flags, old.end - old.offset) for new, old in run
    ) and all(
        map(
            eq,
            archive.pieces(first.new.offset, last.new.end),
            origin.pieces(first.old.offset, last.old.end),
        )
    )


def _has_same_data(archive: ZipReader, origin: ZipReader, member: str) -> bool:
    """Compare the data of one member, as it is stored."""
    pieces = zip_longest(archive.raw(member)[1], origin.raw(member)[1])
    return all(new == old for new, old in pieces)


def _read_wheel_file(archive: ZipReader, member: str) -> WheelMetadata:
    if member not in archive.entries:
        raise BadWheelError(f"{quote(member)} is missing", hint=_REBUILD)
    try:
        return read_metadata(archive.read(member).decode("utf-8"))
    except UnicodeDecodeError:
        raise BadWheelError(f"{quote(member)} is not UTF-8", hint=_REBUILD) from None


def _read_record(
    archive: ZipReader, member: str
) -> tuple[tuple[RecordRow, ...], tuple[RecordProblem, ...]]:
    if member not in archive.entries:
        return (), (RecordProblem(member=member, message="the wheel has no RECORD"),)
    return parse_record(archive.read(member), member)


def _read_metadata(archive: ZipReader, member: str) -> Metadata:
    if member not in archive.entries:
        return Metadata(problem="the wheel has no METADATA")
    try:
        return read_core_metadata(archive.read(member).decode("utf-8"))
    except UnicodeDecodeError as error:
        return Metadata(problem=f"METADATA is not UTF-8: {error}")


def _texts(archive: ZipReader, dist_info: str) -> Iterator[tuple[str, str]]:
    """Read the small files of dist-info: JSON, entry points, licenses."""
    left = _TEXTS
    for member, entry in archive.entries.items():
        is_text = member.endswith((".json", ".txt")) or is_license(member, dist_info)
        if (
            is_text
            and member.startswith(f"{dist_info}/")
            and entry.size <= min(_LARGEST_TEXT, left)
        ):
            left -= entry.size
            yield member, archive.read(member).decode("utf-8", "replace")


def _sources(archive: ZipReader, openings: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Read the preload shims, and the `__init__.py` files that run before libraries are opened.

    `openings` are the sources that open libraries by name.
    """
    objects = (member for member in archive.entries if is_object_name(member))
    folders = {member.rpartition("/")[0] for member in (*objects, *openings)}
    above = set(flatten(map(_and_above, folders)))
    for member, entry in archive.entries.items():
        folder, _, name = member.rpartition("/")
        if name in _WRITABLE and folder in above and entry.size <= _LARGEST_TEXT:
            yield member, archive.read(member)


def _and_above(folder: str) -> Iterator[str]:
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]


def _visit_sources(
    contents: Mapping[str, Content], data_dir: str, budget: Budget, origin: Archive | None
) -> Mapping[str, Followed]:
    """Return what Python sources open by name, in the order of the members.

    Sources that were copied from `origin` open the same, if they can import the same.
    """
    places = _places(contents, data_dir)
    modules = _modules(places)
    copied: Mapping[str, Content] = {}
    if origin is not None and modules == _modules(_places(origin.contents, data_dir)):
        copied = origin.contents
    sources = budget.share(min(STEPS_PER_WHEEL, budget.steps // 3))
    return {
        member: Followed(to_its_end=False)
        if content.is_dropped_source
        else _earlier_openings(member, origin.wheel)
        if origin is not None and content is copied.get(member)
        else visit_source(content.source, places[member] or "", modules, sources)
        for member, content in contents.items()
        if content.is_dropped_source or (content.source and places[member])
    }


def _earlier_openings(member: str, wheel: Wheel) -> Followed:
    return Followed(
        wheel.openings.get(member, ()),
        to_its_end=member not in wheel.unfollowed,
        opened_unknown=member in wheel.opening_unknown,
    )


def _places(members: Iterable[str], data_dir: str) -> dict[str, str | None]:
    return {member: below_site(member, data_dir) for member in members}


def _modules(places: Mapping[str, str | None]) -> dict[str, str]:
    """Return the path of each module in site-packages, by its dotted name.

    A folder with a dot in its name, such as `numpy.libs`, is not a package.
    """
    # An extension module hides a source of the same name (importlib.machinery.FileFinder).
    code = sorted((place for place in places.values() if place), key=lambda p: p.endswith(".so"))
    return {
        module_name(place): place
        for place in code
        if place.endswith((".py", ".so")) and "." not in place.rpartition("/")[0]
    }


def below_site(member: str, data_dir: str) -> str | None:
    """Return the place of a member in site-packages, None for one that goes elsewhere."""
    if not member.startswith(f"{data_dir}/"):
        return member
    _, key, rest = (*member.split("/", 2), "")[:3]
    return rest if key in LIBRARY_KEYS else None
