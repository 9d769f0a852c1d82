"""Contents of members: hashed, and read as ELF or as Python source, in one pass.

Two members at a time, as zlib and hashlib release the interpreter lock.
"""

import errno
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from functools import partial
from io import BytesIO
from itertools import chain, islice
from mmap import ACCESS_READ, mmap
from threading import Event
from typing import Any

from wheelfix.budget import Budget
from wheelfix.elf.constants import MAGIC
from wheelfix.elf.exports import SymbolTables
from wheelfix.elf.model import Elf
from wheelfix.elf.object_file_names import is_library_name
from wheelfix.elf.reader import read_object
from wheelfix.errors import BadElfError, OutputError
from wheelfix.named_tuple import NamedTuple
from wheelfix.python_sources.opening_calls import may_open, takes_a_module
from wheelfix.system.tempfiles import ADVICE, unnamed_file
from wheelfix.wheel.file_likeness import likeness
from wheelfix.wheel.model import LICENSE_NAME, PROSE_NAME
from wheelfix.wheel.record import hash_field
from wheelfix.wheel.strings_in_files import CODE, DATA, Between, Strings
from wheelfix.wheel.zip_headers import Entry

LARGE = 8 * 2**20
"""Bytes; larger members are never in memory as a whole."""
_SMALL = 2**18
"""Bytes; up to that size members are read by one thread, one after the other."""
_THREADS = 2
_TABLES = 128 * 2**20
"""Bytes of symbol tables that are kept."""
_SOURCES = 16 * 2**20
"""Bytes of small sources that are kept: a hundred times what wheels have."""
_LARGE_SOURCES = 64
_STEPS_A_PIECE = 20
_HASHED_A_STEP, _SEARCHED_A_STEP = 512, 160
"""Bytes that are inflated and hashed, and those that are searched as well."""
_STEPS_AN_OBJECT, _STEPS_A_VERSION, _STEPS_A_SYMBOL = 1500, 100, 12
"""What some thirty rules, its load and auditwheel take for an object, besides reading it."""
_LONGEST_WORD = 16
"""Bytes; the words that `may_open` looks for are shorter."""
_LIBRARY = b".so"  # in the name of every library that a linker makes

Inflate = Callable[[str], Iterator[bytes]]
"""Yields the bytes of a member in pieces."""


class Content(NamedTuple):
    """What was found in a member. A tuple, since a wheel may have 50,000."""

    hash: str = ""
    """As RECORD spells it, by the algorithm that RECORD names; empty where it names none."""
    elf: Elf | None = None
    broken_elf: str = ""
    """Why it is not an ELF object, although it has ELF's magic number."""
    likeness: str = ""
    """What it looks like, if it is named like a shared object and is not one."""
    source: bytes = b""
    """Python source that may open libraries."""
    is_dropped_source: bool = False
    """Whether it is such a source and exceeds the limits, so that it is not kept."""
    takes_a_module: bool = False
    """Whether a source has the file of a module, to open or hand on."""
    library_names: frozenset[bytes] | None = frozenset()
    """Of an object or a Python source: the strings with `.so` in them; None if there are too many.

    Those of .dynstr are left out."""
    tables: SymbolTables | None = None
    """Of an object for the dynamic loader, as long as there is room for them."""


def read_contents(
    entries: Mapping[str, Entry], stated: Mapping[str, str], inflate: Inflate, budget: Budget
) -> dict[str, Content]:
    """Inflate every member once, hash it and look into it.

    `stated` has RECORD's hash of each member that is to be hashed.

    Raises what `inflate` raises, the same whichever thread fails first.
    """
    reader = _Reader(entries, stated, inflate, budget)
    small = [member for member, entry in entries.items() if entry.size <= _SMALL]
    large = sorted(entries.keys() - small, key=lambda member: (-entries[member].size, member))
    jobs = [small, *([member] for member in large)]
    with ThreadPoolExecutor(_THREADS) as pool:
        try:
            read = dict(chain.from_iterable(pool.map(reader.read_all, jobs)))
        finally:
            reader.stopped.set()
    return {member: read[member] for member in entries}


def is_data_text(member: str) -> bool:
    """Return whether code may read names of libraries from a member, by its name."""
    is_text = member.endswith(_DATA) or ".data/scripts/" in member
    is_license = member.endswith(".txt") and LICENSE_NAME.match(member.rpartition("/")[2])
    is_inventory = member.endswith(_SBOM) or ".dist-info/" in member
    return is_text and not is_license and not is_inventory


def is_prose(member: str) -> bool:
    """Return whether a member is a text for people, by its name."""
    return member.endswith(".txt") and PROSE_NAME.match(member.rpartition("/")[2]) is not None


def between_strings(member: str) -> Between:
    """Return what stands between the strings of a member, by its name."""
    return DATA if is_data_text(member) else CODE


_DATA = (
    *(".cfg", ".conf", ".csv", ".env", ".ini", ".json", ".list"),
    *(".properties", ".sh", ".toml", ".txt", ".xml", ".yaml", ".yml"),
)
_SBOM = (".spdx.json", ".cdx.json", ".cdx.xml")
"""Recommended by SPDX 2.3 and CycloneDX: such files list what was built, and no code opens it."""


class _Reader:
    """Reads members, and counts what is kept of them in memory."""

    def __init__(
        self,
        entries: Mapping[str, Entry],
        stated: Mapping[str, str],
        inflate: Inflate,
        budget: Budget,
    ) -> None:
        self.stopped = Event()
        """Set when the results are not wanted any more."""
        self._entries = entries
        self._stated = stated
        self._inflate = inflate
        self._budget = budget
        self._tables = _TABLES
        self._sources = _SOURCES
        large = (m for m, e in entries.items() if m.endswith(".py") and e.size > _SMALL)
        self._large_sources = frozenset(islice(large, _LARGE_SOURCES))

    def read_all(self, members: Sequence[str]) -> list[tuple[str, Content]]:
        return [(member, self._read(member)) for member in members]

    def _read(self, member: str) -> Content:
        algorithm = self._stated.get(member, "").partition("=")[0]
        hasher: Any = hashlib.new(algorithm) if algorithm else None
        inflated = self._feed_scan(member)
        if hasher:
            inflated = _watch_pieces(inflated, hasher.update)
        content = self._scan(member, next(inflated, b""), inflated)
        for _ in inflated:  # what follows is hashed, and its CRC is checked
            pass
        if hasher is None:
            return content
        # Half of the time of `_replace`, for each of all files.
        return Content(hash_field(algorithm, hasher.digest()), *content[1:])

    def _feed_scan(self, member: str) -> Iterator[bytes]:
        for piece in self._inflate(member):
            if self.stopped.is_set():
                raise CancelledError
            steps = _STEPS_A_PIECE + len(piece) // _HASHED_A_STEP
            self._budget.spend(steps, "the content", member)
            yield piece

    def _scan(self, member: str, first: bytes, rest: Iterator[bytes]) -> Content:
        if first.startswith(MAGIC):
            return self._object(member, chain([first], rest))
        if member.endswith(".py"):
            return self._source(member, first, rest)
        if ".so" in member and is_library_name(member):
            return Content(likeness=likeness(first))
        # Most files have none: to look for it costs a tenth of a `Strings`.
        is_without = _LIBRARY not in first and len(first) == self._entries[member].size
        if not is_without and is_data_text(member):
            return Content(library_names=self._names(member, chain([b"\n", first], rest, [b"\n"])))
        return Content()

    def _names(self, member: str, pieces: Iterable[bytes]) -> frozenset[bytes] | None:
        """Return the strings that may be names of libraries; None if there are too many."""
        names = Strings(_LIBRARY, between_strings(member))
        for piece in pieces:
            self._search(member, piece)
            names.feed(piece)
        names.finish()
        return frozenset(text for _, text in names.found) if names.complete else None

    def _source(self, member: str, first: bytes, rest: Iterator[bytes]) -> Content:
        names = Strings(_LIBRARY, CODE)
        names.feed(first)
        self._search(member, first)
        opens, last, takes = may_open(first), first, takes_a_module(first)
        for piece in rest:
            takes = takes or takes_a_module(piece)
            self._search(member, piece)
            names.feed(piece)
            opens = opens or may_open(last[-_LONGEST_WORD:] + piece)
            last = piece
        names.finish()
        texts = frozenset(text for _, text in names.found) if names.complete else None
        # Sources of more than one piece are longer than what a person writes.
        is_kept = opens and last is first and self._has_room_for_source(member, first)
        return Content(
            source=first if is_kept else b"",
            is_dropped_source=opens and not is_kept,
            takes_a_module=takes,
            library_names=texts,
        )

    def _search(self, member: str, piece: bytes) -> None:
        self._budget.spend(len(piece) // _SEARCHED_A_STEP, "the content", member)

    def _has_room_for_source(self, member: str, source: bytes) -> bool:
        """Whether a source may be kept, whichever of the threads is first."""
        if len(source) > _SMALL:
            return member in self._large_sources
        self._sources -= len(source)
        return self._sources > 0

    def _has_room_for_tables(self, tables: SymbolTables) -> bool:
        self._tables -= tables.size
        return self._tables > 0

    def _object(self, member: str, inflated: Iterator[bytes]) -> Content:
        names = Strings(_LIBRARY, CODE)
        searched = _watch_pieces(inflated, partial(self._search, member))
        data = fill_buffer(_watch_pieces(searched, names.feed), self._entries[member].size)
        names.finish()
        try:
            elf, tables, strings = read_object(data, member, self._budget)
        except BadElfError as error:
            return Content(broken_elf=error.message, library_names=None)
        versions = sum(len(need.versions) for need in elf.verneed)
        later = _STEPS_AN_OBJECT + _STEPS_A_VERSION * versions
        later += _STEPS_A_SYMBOL * len(elf.undefined)
        self._budget.spend(later, "the objects", member)
        texts = frozenset(text for at, text in names.found if at not in strings)
        return Content(
            elf=elf,
            library_names=texts if names.complete else None,
            tables=tables if tables and self._has_room_for_tables(tables) else None,
        )


def _watch_pieces(inflated: Iterable[bytes], watch: Callable[[bytes], None]) -> Iterator[bytes]:
    """Yield pieces, each after `watch` was called with it."""
    for piece in inflated:
        watch(piece)
        yield piece


def fill_buffer(inflated: Iterator[bytes], size: int) -> memoryview:
    """Make a buffer of the `size` bytes of `inflated`; above 8 MiB it is a mapped, unlinked file.

    Raises `OutputError` where that file cannot be written.
    """
    if size <= LARGE:
        whole = BytesIO()  # unlike `bytes.join`, it does not hold the pieces and the whole at once
        whole.writelines(inflated)
        return memoryview(whole.getvalue())
    try:
        with unnamed_file() as file:
            file.writelines(inflated)
            file.flush()
            return memoryview(mmap(file.fileno(), size, access=ACCESS_READ))
    except OSError as error:
        raise OutputError(
            f"cannot write a temporary file: {error.strerror}",
            hint=ADVICE.get(error.errno or 0, ADVICE[errno.ENOSPC]),
        ) from error
