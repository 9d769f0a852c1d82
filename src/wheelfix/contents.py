"""What the members of a wheel are: hashed, read as ELF or as Python source, in one pass.

Two at a time, as zlib and hashlib let go of the interpreter lock.
"""

import tempfile
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from itertools import chain, islice
from mmap import ACCESS_READ, PAGESIZE, mmap
from threading import Event
from typing import NamedTuple
from zlib import crc32

from wheelfix.elf import Elf
from wheelfix.errors import BadElfError, BadWheelError, OutputError
from wheelfix.likeness import is_library_name, likeness, may_open
from wheelfix.mapped import pieces
from wheelfix.record import hash_field
from wheelfix.strings import Strings
from wheelfix.tmpdir import tmpdir
from wheelfix.zipformat import Entry

LARGE = 8 * 2**20
"""Bytes; what is larger is never in memory as a whole."""
_SMALL = 2**18  # a thread for less is not worth it
_KEPT = 24 * 2**20 // PAGESIZE
"""Pages of tables that are kept in memory."""
_SOURCES = 16 * 2**20
"""Bytes of small sources that are kept: a hundred times what wheels have."""
_LARGE_SOURCES = 64
_ELF_MAGIC = b"\x7fELF"
_NAME = b".so"  # in the name of every library that a linker makes

Watch = Callable[[bytes], None]
Inflate = Callable[[str, Watch], Iterator[bytes]]
"""Gives the bytes of a member in pieces, and shows what it reads as it is stored."""


class Content(NamedTuple):
    """What one member is. A tuple, since a wheel may have 50,000."""

    hash: str = ""
    """As RECORD spells it, by the algorithm that RECORD names; empty where it names none."""
    elf: Elf | None = None
    broken: str = ""
    """Why it is no ELF object, although it begins like one."""
    likeness: str = ""
    """What it is, although it is named like a shared object."""
    source: bytes = b""
    """Python source that may open libraries."""
    library_names: frozenset[bytes] | None = frozenset()
    """Of an object or a Python source: the strings with `.so` in them; None if there are too many.

    Those of .dynstr are left out."""
    tables: memoryview | None = None
    """Of an object: its tables at their places, and zeros elsewhere."""
    stored_crc: int = 0
    """CRC of the data as it is stored: by that a copy of it is known."""


def read_contents(
    entries: Mapping[str, Entry], inflate: Inflate, algorithms: Mapping[str, str]
) -> dict[str, Content]:
    """Inflate every member once, and say what it is.

    `algorithms` has the hash algorithm of each member that is to be hashed. Raises what `inflate`
    raises of the first member, in their order, for which it does.
    """
    reader = _Reader(inflate, entries, algorithms)
    try:
        reader.read_all()
    except BadWheelError:
        for member in entries:  # which of two threads met its error first is chance
            if member not in reader.contents:
                reader.read(member)
        raise
    return {member: reader.contents[member] for member in entries}


class _Reader:
    """The work, shared by two threads."""

    def __init__(
        self, inflate: Inflate, entries: Mapping[str, Entry], algorithms: Mapping[str, str]
    ) -> None:
        self.contents: dict[str, Content] = {}
        self._inflate = inflate
        self._entries = entries
        self._algorithms = algorithms
        self._stopped = Event()
        self._room = _KEPT
        self._spare = _SOURCES
        large = (m for m, e in entries.items() if m.endswith(".py") and e.size > _SMALL)
        self._large_sources = frozenset(islice(large, _LARGE_SOURCES))

    def read_all(self) -> None:
        """Read all members, the large ones beside the small."""
        large = [member for member, entry in self._entries.items() if entry.size > _SMALL]
        queue = deque(sorted(large, key=lambda member: -self._entries[member].size))
        if len(queue) < 2:
            self._read_each(deque(self._entries))
            return
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 (start-up)

        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(self._read_each, queue)
            try:
                self._read_each(deque(m for m, e in self._entries.items() if e.size <= _SMALL))
                self._read_each(queue)
            except BaseException:
                queue.clear()
                self._stopped.set()
                raise
            other.result()

    def _read_each(self, queue: deque[str]) -> None:
        while queue:
            try:
                member = queue.popleft()
            except IndexError:  # the other thread took the last
                return
            self.read(member)

    def read(self, member: str) -> None:
        """Read one member."""
        import hashlib  # noqa: PLC0415 (start-up of light commands)

        algorithm = self._algorithms.get(member)
        hasher = getattr(hashlib, algorithm)() if algorithm else None
        stored_crc = 0

        def watch(piece: bytes) -> None:
            nonlocal stored_crc
            stored_crc = crc32(piece, stored_crc)

        pieces = self._inflate(member, watch)
        if hasher:
            pieces = watched(pieces, hasher.update)
        if self._entries[member].size > _SMALL:
            pieces = self._stoppable(pieces)
        content = self._content(member, pieces)
        for _ in pieces:
            pass
        if content.source and not self._keeps(member, content.source):
            content = content._replace(source=b"")
        said = hash_field(algorithm, hasher.digest()) if hasher and algorithm else ""
        self.contents[member] = content._replace(hash=said, stored_crc=stored_crc)

    def _keeps(self, member: str, source: bytes) -> bool:
        """Whether there is room for a source, whichever of the threads comes first."""
        if len(source) > _SMALL:
            return member in self._large_sources
        self._spare -= len(source)
        return self._spare > 0

    def _content(self, member: str, pieces: Iterator[bytes]) -> Content:
        first = next(pieces, b"")
        if first.startswith(_ELF_MAGIC):
            return self._object(member, chain([first], pieces))
        if member.endswith(".py"):
            return _source(first, pieces)
        if ".so" in member and is_library_name(member):
            return Content(likeness=likeness(first))
        return Content()

    def _object(self, member: str, pieces: Iterator[bytes]) -> Content:
        from wheelfix.elfread import read_elf_and_tables  # noqa: PLC0415 (wheels without ELF do not need it)

        names = Strings(_NAME)
        data = buffered(watched(pieces, names.feed), self._entries[member].size)
        names.finish()
        try:
            elf, tables = read_elf_and_tables(data, member)
        except BadElfError as error:
            return Content(broken=error.message, library_names=None)
        found = frozenset(text for at, text in names.found if at not in tables.strings)
        return Content(
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


def _source(first: bytes, pieces: Iterator[bytes]) -> Content:
    names = Strings(_NAME)
    names.feed(first)
    more = False
    for piece in pieces:
        names.feed(piece)
        more = True
    names.finish()
    return Content(
        # Longer ones are not what a person writes.
        source=first if not more and may_open(first) else b"",
        library_names=frozenset(text for _, text in names.found) if names.complete else None,
    )


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
    with _file_errors(), tempfile.TemporaryFile(prefix="wheelfix-", dir=tmpdir()) as file:
        file.writelines(inflated)
        file.flush()
        return memoryview(mmap(file.fileno(), size, access=ACCESS_READ))


def _sparse_file(data: memoryview, ranges: Iterable[tuple[int, int]]) -> memoryview:
    """Map a file without a name that has these ranges of `data`, and holes between them."""
    with _file_errors(), tempfile.TemporaryFile(prefix="wheelfix-", dir=tmpdir()) as file:
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
            hint="make room, or point TMPDIR to a directory on a larger disk",
        ) from error
