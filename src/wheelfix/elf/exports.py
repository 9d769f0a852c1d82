"""Lookup of an object's definitions by name, without reading all of them.

A library may define a million symbols while a wheel uses ten. So the names in the string table are
compared with those wanted, and only the matching entries of the symbol table are unpacked. Hash
tables are not used: they may be wrong.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import NamedTuple, TypeVar, overload

from wheelfix.elf.constants import Dt
from wheelfix.elf.image import Image, Structs
from wheelfix.elf.model import Definition, Exports
from wheelfix.elf.reader import (
    copies_of,
    definition_of,
    exports_in,
    first_defined,
    is_definition,
    read_exports,
    versions_of,
)
from wheelfix.elf.symbol_tables import Dynamic, words
from wheelfix.system.mmap_io import forget

_FEW = 256
"""Definitions that are read at once, rather than by name."""
_MAX_MISSES = 16
"""Names looked up one by one, before the whole table is read."""

Definitions = tuple[Definition, ...]
Names = frozenset[str] | set[str]
_T = TypeVar("_T")


class Wanted:
    """Names to look up in one library after another; they are encoded once."""

    def __init__(self, names: Names) -> None:
        self.names = frozenset(names)

    @cached_property
    def encoded(self) -> Mapping[bytes, str]:
        """The names, by their bytes in a string table."""
        return {name.encode("utf-8", "surrogateescape"): name for name in self.names}


def lazy_exports(reopen: Callable[[], memoryview], name: str) -> Exports:
    """Return the same as `read_exports`, with the definitions read by name.

    `reopen` returns the object's bytes at each call. Raises `BadElfError` as `read_exports` does.
    """
    dynamic = Dynamic.parse(Image.parse(reopen(), name))
    if dynamic is None or Dt.SYMTAB not in dynamic.tags:
        return Exports()
    if dynamic.symbol_count - first_defined(dynamic) <= _FEW:
        return exports_in(dynamic)
    return Exports(definitions=LazyDefinitions(reopen, dynamic), copies=tuple(copies_of(dynamic)))


def among(definitions: Mapping[str, Definitions], names: Names) -> AbstractSet[str]:
    """Return those of `names` that are defined."""
    if isinstance(definitions, LazyDefinitions):
        return definitions.among(names)
    return (
        names.intersection(definitions)
        if len(definitions) < len(names)
        else {name for name in names if name in definitions}
    )


def announce(exports: Exports, wanted: Wanted) -> None:
    """Look up all `wanted` names at once, ahead of the single look-ups."""
    if isinstance(exports.definitions, LazyDefinitions):
        exports.definitions.look_up(wanted)


class _Tables(NamedTuple):
    """The places of an object's tables, checked to be inside the file."""

    structs: Structs
    start: int
    """The number of the first symbol that may be defined."""
    stop: int
    symbols: int
    """File offset of symbol `start`."""
    strings: range
    """File offsets of .dynstr."""
    indices: int | None
    """File offset of DT_VERSYM."""
    versions: Mapping[int, str | None]


def _tables(dynamic: Dynamic) -> _Tables:
    start, count = first_defined(dynamic), dynamic.symbol_count
    strings = range(0)
    if size := len(dynamic.strings):
        at = dynamic.image.place(dynamic.tags[Dt.STRTAB], size, "DT_STRTAB")
        strings = range(at, at + size)
    return _Tables(
        structs=dynamic.image.structs,
        start=start,
        stop=count,
        symbols=dynamic.place_of_symbols(start, count) if start < count else 0,
        strings=strings,
        indices=dynamic.place_of_indices(count),
        versions=versions_of(dynamic),
    )


class LazyDefinitions(Mapping[str, Definitions]):
    """The definitions of one object by name, each read when it is first looked up."""

    def __init__(self, reopen: Callable[[], memoryview], dynamic: Dynamic) -> None:
        """Take the dynamic section of the bytes that `reopen` returns.

        Raises `BadElfError` for broken tables.
        """
        self._reopen = reopen
        self._name = dynamic.image.name
        self._tables = _tables(dynamic)
        self._looked_up: list[frozenset[str]] = []
        self._found: dict[str, Definitions] = {}
        self._shared: dict[tuple[int, int | None], Definitions] = {}
        self._is_complete = False
        self._misses = 0

    def look_up(self, wanted: Wanted) -> None:
        """Look up all `wanted` names at once."""
        if self._knows(wanted.names):
            return
        if self._looked_up:
            wanted = Wanted(wanted.names.difference(*self._looked_up))
        self._looked_up.append(wanted.names)  # one set, shared by all libraries
        self._find(wanted.encoded)

    def among(self, names: Names) -> AbstractSet[str]:
        """Return those of `names` that are defined."""
        if not self._knows(names):
            self.look_up(Wanted(names))
        return among(self._found, names)

    @overload
    def get(self, key: str, /) -> Definitions | None: ...

    @overload
    def get(self, key: str, default: Definitions | _T, /) -> Definitions | _T: ...

    def get(self, key: str, default: object = None, /) -> object:
        """Return the definitions of one name."""
        found = self._found.get(key)
        if found is None and not self._knows({key}):
            self._misses += 1
            if self._misses > _MAX_MISSES:
                self._read_all()
            else:
                self.look_up(Wanted({key}))
            found = self._found.get(key)
        return default if found is None else found

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.get(key) is not None

    def __getitem__(self, key: str) -> Definitions:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[str]:
        self._read_all()
        return iter(self._found)

    def __len__(self) -> int:
        self._read_all()
        return len(self._found)

    def _knows(self, names: Names) -> bool:
        return self._is_complete or any(names is some or names <= some for some in self._looked_up)

    def _read_all(self) -> None:
        if not self._is_complete:
            self._found = dict(read_exports(self._reopen(), self._name).definitions)
            self._is_complete = True

    def _find(self, wanted: Mapping[bytes, str]) -> None:
        view, tables = self._reopen(), self._tables
        strings = bytes(view[tables.strings.start : tables.strings.stop])
        forget(view)
        find = strings.find
        found = [
            (number, wanted[name])
            for number, at in enumerate(self._name_offsets(view), tables.start)
            if (name := strings[at : find(b"\0", at)]) in wanted
        ]
        for number, text in found:
            self._take(text, number, view)
        forget(view)

    def _name_offsets(self, view: memoryview) -> Iterable[int]:
        """Return `st_name` of all symbols from the first that may be defined."""
        tables = self._tables
        size = tables.structs.sym.size
        stop = tables.symbols + max(tables.stop - tables.start, 0) * size
        names = view[tables.symbols : stop].cast("I")[:: size // 4]  # st_name comes first
        return words(names.tobytes(), tables.structs.order)

    def _take(self, name: str, number: int, view: memoryview) -> None:
        """Add the symbol `number`, if it is a definition."""
        tables = self._tables
        sym = tables.structs.sym
        entry = sym.unpack_from(view, tables.symbols + (number - tables.start) * sym.size)
        if tables.structs.bits == 64:
            _, info, other, section, value, _ = entry
        else:
            _, value, _, info, other, section = entry
        if not is_definition(info, other, section, value):
            return
        version: int | None = None
        if tables.indices is not None:
            (version,) = tables.structs.half.unpack_from(view, tables.indices + 2 * number)
        definition = self._shared.get((info, version))
        if definition is None:
            definition = (definition_of(info, version, tables.versions),)
            self._shared[info, version] = definition
        found = self._found.get(name)
        self._found[name] = definition if found is None else found + definition
