"""What the members of a wheel are: hashed, read as ELF or as Python source, in one pass.

Two at a time, as zlib and hashlib let go of the interpreter lock.
"""

import errno
import hashlib
import re
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from itertools import chain, islice
from mmap import ACCESS_READ, PAGESIZE, mmap
from threading import Event, Thread
from typing import Any, NamedTuple, Protocol

from wheelfix.elf.model import Elf
from wheelfix.elf.reader import read_elf_and_tables
from wheelfix.errors import BadElfError, BadWheelError, OutputError
from wheelfix.system.mmap_io import pieces
from wheelfix.system.tmpdir import ADVICE, unnamed_file
from wheelfix.wheel.inflate import Mark, ahead, crc32
from wheelfix.wheel.record import hash_field
from wheelfix.wheel.sniff import Strings, is_library_name, likeness, may_open
from wheelfix.wheel.splice import Tracked
from wheelfix.wheel.zip_format import DEFLATED, Entry

HUGE = 32 * 2**20
"""Bytes; what has as many keeps more than one thread busy."""
LARGE = 8 * 2**20
"""Bytes; what is larger is never in memory as a whole."""
_SMALL = 2**18  # a thread for less is not worth it
SHORT = 2**16
"""Bytes in the zip: of these, many are read at once."""
_KEPT = 24 * 2**20 // PAGESIZE
"""Pages of tables that are kept in memory."""
_SOURCES = 16 * 2**20
"""Bytes of small sources that are kept: a hundred times what wheels have."""
_LARGE_SOURCES = 64
_LONGEST_WORD = 16
"""Bytes; no word of those by which a source opens a library is longer."""
_ELF_MAGIC = b"\x7fELF"
_NAME = b".so"  # in the name of every library that a linker makes
_NAMED = re.compile(re.escape(_NAME)).search  # in half the time of `in`

Watch = Callable[[bytes], None]


class Inflater(Protocol):
    """Gives the bytes of members."""

    def inflated(
        self, member: str, watch: Watch, /, *, mark: Mark | None = None
    ) -> Iterator[bytes]:
        """Yield them in pieces, and show `watch` what is read as it is stored.

        `mark` is for `inflating.inflated_pieces`.
        """
        ...

    def read_short(self, member: str, /) -> tuple[bytes, int]:
        """Return those of a member that is short, and the CRC of what was read."""
        ...


class What(NamedTuple):
    """What a member is, if that matters."""

    elf: Elf | None = None
    broken: str = ""
    """Why it is no ELF object, although it begins like one."""
    likeness: str = ""
    """What it is, although it is named like a shared object."""
    source: bytes = b""
    """Python source that may open libraries."""
    is_too_much: bool = False
    """Whether it is such a source, and not kept: it is too long, or comes after too many."""
    library_names: frozenset[bytes] | None = frozenset()
    """Of an object or a Python source: the strings with `.so` in them; None if there are too many.

    Those of .dynstr are left out."""
    tables: memoryview | None = None
    """Of an object: its tables at their places, and zeros elsewhere."""


class Whole(NamedTuple):
    """A large object as it was inflated, and how to inflate parts of it again."""

    data: memoryview
    """A mapped file without a name."""
    tracked: Tracked


NOTHING = What()


class Content(NamedTuple):
    """What was found in a member. A tuple, since a wheel may have 50,000."""

    hash: str
    """As RECORD spells it, by the algorithm that RECORD names; empty where it names none."""
    stored_crc: int
    """CRC of the data as it is stored: by that a copy of it is known."""
    what: What


def read_contents(
    archive: Inflater,
    entries: Mapping[str, Entry],
    stated: Mapping[str, str],
    *,
    wholes: dict[str, Whole] | None = None,
) -> dict[str, Content]:
    """Inflate every member once, and say what it is.

    `stated` has what RECORD says of each member that is to be hashed. The largest member stays
    inflated in `wholes`, if it is a huge object: on disk that is no more than reading it takes.

    Raises what `archive` raises of the first member, in their order, for which it does.
    """
    reader = _Reader(archive, entries, stated, wholes)
    try:
        reader.read_all()
    except BadWheelError:
        for member in entries:  # which of two threads met its error first is chance
            if member not in reader.contents:
                reader.read(member)
        raise
    return reader.contents


class _Reader:
    """The work, shared by two threads."""

    def __init__(
        self,
        archive: Inflater,
        entries: Mapping[str, Entry],
        stated: Mapping[str, str],
        wholes: dict[str, Whole] | None,
    ) -> None:
        self.contents: dict[str, Content] = {}
        self._archive = archive
        self._entries = entries
        self._stated = stated
        self._stopped = Event()
        self._room = _KEPT
        self._spare = _SOURCES
        large = (m for m, e in entries.items() if m.endswith(".py") and e.size > _SMALL)
        self._large_sources = frozenset(islice(large, _LARGE_SOURCES))
        self._wholes = wholes
        self._largest = "" if wholes is None else _largest(entries)

    def read_all(self) -> None:
        """Read all members, the large ones beside the small."""
        large = [member for member, entry in self._entries.items() if entry.size > _SMALL]
        queue = deque(sorted(large, key=lambda member: -self._entries[member].size))
        if len(queue) < 2:
            self._read_each(deque(self._entries))
            return
        errors: list[Exception] = []

        def read_large() -> None:
            try:
                self._read_each(queue)
            except Exception as error:  # noqa: BLE001 - it is raised again by who waits
                errors.append(error)

        other = Thread(target=read_large)
        other.start()
        try:
            self._read_each(deque(m for m, e in self._entries.items() if e.size <= _SMALL))
            self._read_each(queue)
        except BaseException:
            queue.clear()
            self._stopped.set()
            raise
        finally:
            other.join()
        if errors:
            raise errors[0]

    def _read_each(self, queue: deque[str]) -> None:
        while queue:
            try:
                member = queue.popleft()
            except IndexError:  # the other thread took the last
                return
            self.read(member)

    def read(self, member: str) -> None:
        """Read one member."""
        entry = self._entries[member]
        if entry.size <= _SMALL and entry.end - entry.offset <= SHORT:
            self.contents[member] = self._short(member)
        else:
            self.contents[member] = self._long(member, stoppable=entry.size > _SMALL)

    def _short(self, member: str) -> Content:
        data, stored_crc = self._archive.read_short(member)
        said = ""
        if stated := self._stated.get(member):
            algorithm = stated.partition("=")[0]
            said = hash_field(algorithm, _new_hash(algorithm)(data).digest())
            said = stated if said == stated else said  # one copy is enough
        what = NOTHING if _is_plain(member, data) else self._what(member, data, iter(()))
        return Content(said, stored_crc, what)

    def _long(self, member: str, *, stoppable: bool) -> Content:
        algorithm = self._stated.get(member, "").partition("=")[0]
        hasher = _new_hash(algorithm)() if algorithm else None
        stored_crc = 0

        def watch(piece: bytes) -> None:
            nonlocal stored_crc
            stored_crc = crc32(piece, stored_crc)

        tracked = self._tracked(member)
        pieces = self._archive.inflated(member, watch, mark=tracked.mark if tracked else None)
        if self._entries[member].size >= HUGE:
            pieces = ahead(pieces)
        if hasher:
            pieces = watched(pieces, hasher.update)
        if stoppable:
            pieces = self._stoppable(pieces)
        what = self._what(member, next(pieces, b""), pieces, tracked)
        for _ in pieces:
            pass
        said = hash_field(algorithm, hasher.digest()) if hasher else ""
        return Content(said, stored_crc, what)

    def _tracked(self, member: str) -> Tracked | None:
        if member != self._largest:
            return None
        return Tracked(self._entries[member].compressed_size)

    def _what(
        self, member: str, first: bytes, rest: Iterator[bytes], tracked: Tracked | None = None
    ) -> What:
        if first.startswith(_ELF_MAGIC):
            return self._object(member, chain([first], rest), tracked)
        if member.endswith(".py"):
            return self._source(member, first, rest)
        if ".so" in member and is_library_name(member):
            return What(likeness=likeness(first))
        return NOTHING

    def _source(self, member: str, first: bytes, rest: Iterator[bytes]) -> What:
        names = Strings(_NAME)
        names.feed(first)
        opens, more = may_open(first), b""
        for piece in rest:
            names.feed(piece)
            opens = opens or may_open((more or first)[-_LONGEST_WORD:] + piece)
            more = piece
        names.finish()
        found = frozenset(text for _, text in names.found) if names.complete else None
        # Longer ones are not what a person writes.
        is_kept = not more and opens and self._has_room(member, first)
        if found or found is None or opens:
            source = first if is_kept else b""
            return What(source=source, is_too_much=opens and not is_kept, library_names=found)
        return NOTHING

    def _has_room(self, member: str, source: bytes) -> bool:
        """Whether there is room for a source, whichever of the threads comes first."""
        if len(source) > _SMALL:
            return member in self._large_sources
        self._spare -= len(source)
        return self._spare > 0

    def _object(self, member: str, pieces: Iterator[bytes], tracked: Tracked | None) -> What:
        names = Strings(_NAME)
        data = buffered(watched(pieces, names.feed), self._entries[member].size)
        names.finish()
        try:
            elf, tables = read_elf_and_tables(data, member)
        except BadElfError as error:
            return What(broken=error.message, library_names=None)
        if tracked and self._wholes is not None:
            self._wholes[member] = Whole(data, tracked)
        found = frozenset(text for at, text in names.found if at not in tables.strings)
        return What(
            elf=elf,
            library_names=found if names.complete else None,
            tables=self._kept(data, tables.places) if tables.places else None,
        )

    def _kept(self, data: memoryview, places: Iterable[tuple[int, int]]) -> memoryview | None:
        """Keep the tables of an object: in memory if there is room, large ones in a file."""
        ranges = list(_merged(places))
        if len(data) > LARGE:
            return _sparse_file(data, ranges)
        pages = sum(stop // PAGESIZE - start // PAGESIZE + 1 for start, stop in ranges)
        if self._room < pages:
            return None
        self._room -= pages
        # Of a mapping, the kernel gives pages only for what is written.
        kept = memoryview(mmap(-1, len(data)))
        for start, stop in ranges:
            kept[start:stop] = data[start:stop]
        return kept.toreadonly()

    def _stoppable(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            if self._stopped.is_set():
                return
            yield piece


def _largest(entries: Mapping[str, Entry]) -> str:
    """Return the largest member, if it is huge and deflated; otherwise no name."""
    largest = max(entries.values(), key=lambda entry: entry.size, default=None)
    if largest is None or largest.size < HUGE or largest.method != DEFLATED:
        return ""
    return largest.name


def _is_plain(member: str, data: bytes) -> bool:
    """Whether there is nothing to say of a member: the short answer for most of 50,000."""
    if data.startswith(_ELF_MAGIC):
        return False
    if member.endswith(".py"):
        return not _NAMED(data) and not may_open(data)
    return ".so" not in member


@cache
def _new_hash(algorithm: str) -> Callable[..., Any]:
    new: Callable[..., Any] = getattr(hashlib, algorithm)
    return new


def watched(pieces: Iterable[bytes], watch: Watch) -> Iterator[bytes]:
    """Yield pieces that `watch` is shown first."""
    for piece in pieces:
        watch(piece)
        yield piece


def _merged(places: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Turn offsets and sizes, in any order, into ranges that do not touch, in order."""
    start = stop = 0
    for offset, size in sorted(places):
        if offset > stop:
            yield start, stop
            start = offset
        stop = max(stop, offset + size)
    yield start, stop


# --- Buffers -----------------------------------------------------------------------------------


def buffered(inflated: Iterator[bytes], size: int) -> memoryview:
    """Make a buffer of the `size` bytes of `inflated`; above 8 MiB it is a mapped, unlinked file.

    Raises `OutputError` where that file cannot be written.
    """
    if size <= LARGE:
        whole = BytesIO()  # unlike `bytes.join`, it does not hold the pieces and the whole at once
        whole.writelines(inflated)
        return memoryview(whole.getvalue())
    with _file_errors(), unnamed_file() as file:
        file.writelines(inflated)
        file.flush()
        return memoryview(mmap(file.fileno(), size, access=ACCESS_READ))


def _sparse_file(data: memoryview, ranges: Iterable[tuple[int, int]]) -> memoryview:
    """Map a file without a name that has these ranges of `data`, and holes between them."""
    with _file_errors(), unnamed_file() as file:
        for start, stop in ranges:
            file.seek(start)
            file.writelines(pieces(data[start:stop]))
        file.truncate(len(data))
        file.flush()
        return memoryview(mmap(file.fileno(), len(data), access=ACCESS_READ))


@contextmanager
def _file_errors() -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"cannot write a temporary file: {error.strerror}",
            hint=ADVICE.get(error.errno or 0, ADVICE[errno.ENOSPC]),
        ) from error
