"""What an object defines, found in its tables when somebody asks for it.

A library may define a million symbols of which a wheel uses ten, so names are not looked at one
by one: the string table is split and intersected with what is asked for, and of the symbol table
only the entries are unpacked whose names are among that. Hash tables, which may lie, are not asked.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import chain
from typing import NamedTuple, TypeVar, overload

from wheelfix.elf.image import Dt, Dynamic, Image, Layout, words
from wheelfix.elf.model import Definition, Exports
from wheelfix.elf.reader import (
    copies_of,
    definition_of,
    exports_in,
    first_defined,
    is_offered,
    read_exports,
    versions_of,
)
from wheelfix.system.mmap_io import copied, forget

_FEW = 256
"""Definitions that are read at once, rather than those of them that somebody wants."""
_LARGE = 1 << 23
"""Bytes of a string table that is not in memory as a whole."""
_STRINGS = 1 << 22
"""Bytes of it that are in memory at once."""
_SYMBOLS = 1 << 15
"""Entries of the symbol table that are in memory at once."""
_LOOKS = 4096
"""Symbols of a large object after which its pages are let go of."""
_MISSES = 16
"""Names that nobody announced, and that are looked for one by one."""

Definitions = tuple[Definition, ...]
Names = frozenset[str] | set[str]
_T = TypeVar("_T")


class Wanted:
    """Names that will be asked for, of one library after the other: they are encoded once."""

    def __init__(self, names: Names) -> None:
        self.names = frozenset(names)

    @cached_property
    def encoded(self) -> Mapping[bytes, str]:
        """The names as a string table spells them."""
        return {name.encode("utf-8", "surrogateescape"): name for name in self.names}


def exports_when_asked(reopen: Callable[[], memoryview], name: str) -> Exports:
    """Return what `read_exports` says, read when it is asked for.

    `reopen` gives the object's bytes, as often as it is called. Raises what `read_exports` does.
    """
    dynamic = Dynamic.parse(Image.parse(reopen(), name))
    if dynamic is None or Dt.SYMTAB not in dynamic.tags:
        return Exports()
    if dynamic.symbol_count() - first_defined(dynamic) <= _FEW:
        return exports_in(dynamic)
    return Exports(
        definitions=Defined(reopen, dynamic),
        copies=tuple(copies_of(dynamic)),
        plt_entries=_PltEntries(reopen, name),
    )


def among(definitions: Mapping[str, Definitions], names: Names) -> AbstractSet[str]:
    """Return those of `names` that are defined."""
    if isinstance(definitions, Defined):
        return definitions.among(names)
    return (
        names.intersection(definitions)
        if len(definitions) < len(names)
        else {name for name in names if name in definitions}
    )


def announce(exports: Exports, wanted: Wanted) -> None:
    """Say what will be asked for, so that it is found at once."""
    if isinstance(exports.definitions, Defined):
        exports.definitions.look_up(wanted)


class _Table(NamedTuple):
    """Where the tables of an object stand; they are known to lie inside of it."""

    layout: Layout
    start: int
    """The number of the first symbol that may be defined."""
    stop: int
    symbols: int
    """File offset of symbol `start`."""
    strings: range
    """.dynstr"""
    indices: int | None
    """File offset of DT_VERSYM."""
    versions: Mapping[int, str | None]


def _table(dynamic: Dynamic) -> _Table:
    start, count = first_defined(dynamic), dynamic.symbol_count()
    strings = range(0)
    if dynamic.text:
        at = dynamic.image.place(dynamic.tags[Dt.STRTAB], len(dynamic.text), "DT_STRTAB")
        strings = range(at, at + len(dynamic.text))
    return _Table(
        layout=dynamic.image.layout,
        start=start,
        stop=count,
        symbols=dynamic.place_of_symbols(start, count) if start < count else 0,
        strings=strings,
        indices=dynamic.place_of_indices(count),
        versions=versions_of(dynamic),
    )


class Defined(Mapping[str, Definitions]):
    """The definitions of one object, by name."""

    def __init__(self, reopen: Callable[[], memoryview], dynamic: Dynamic) -> None:
        """Take the dynamic section of what `reopen` gives; `BadElfError` if its tables are bad."""
        self._reopen = reopen
        self._name = dynamic.image.name
        self._table = _table(dynamic)
        self._asked: list[frozenset[str]] = []
        self._found: dict[str, Definitions] = {}
        self._made: dict[tuple[int, int | None], Definitions] = {}
        self._is_whole = False
        self._misses = 0

    def look_up(self, wanted: Wanted) -> None:
        """Find all of `wanted` at once."""
        if self._knows(wanted.names):
            return
        if self._asked:
            wanted = Wanted(wanted.names.difference(*self._asked))
        self._asked.append(wanted.names)  # of all libraries the same one
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
            if self._misses > _MISSES:
                self._take_whole()
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
        self._take_whole()
        return iter(self._found)

    def __len__(self) -> int:
        self._take_whole()
        return len(self._found)

    def _knows(self, names: Names) -> bool:
        return self._is_whole or any(names is some or names <= some for some in self._asked)

    def _take_whole(self) -> None:
        if not self._is_whole:
            self._found = dict(read_exports(self._reopen(), self._name).definitions)
            self._is_whole = True

    def _find(self, wanted: Mapping[bytes, str]) -> None:
        view, strings = self._reopen(), self._table.strings
        longest = max(map(len, wanted), default=0)
        found: list[tuple[int, str]] = []
        for start, stop, symbols in self._shares(view):
            # A name may go on in the next part; what is longer is none of them.
            part = strings[start : stop + longest + 2]
            names = copied(view, part.start, part.stop)
            find = names.find
            found += [
                (number, wanted[name])
                for number, at in symbols
                if (name := names[at - start : find(b"\0", at - start)]) in wanted
            ]
        found.sort()
        for first in range(0, len(found), _LOOKS):
            for number, text in found[first : first + _LOOKS]:
                self._take(text, number, view)
            if self._is_large:
                forget(view)

    def _shares(self, view: memoryview) -> Iterator[tuple[int, int, Iterable[tuple[int, int]]]]:
        """Yield the parts of the string table, and which symbols have their names where in each."""
        symbols = chain.from_iterable(enumerate(at, first) for first, at in self._names(view))
        if not self._is_large:
            yield 0, len(self._table.strings), symbols
            return
        parts = len(self._table.strings) // _STRINGS + 1
        numbers, places = ([array("I") for _ in range(parts)] for _ in range(2))
        for number, at in symbols:
            share = min(at // _STRINGS, parts - 1)
            numbers[share].append(number)
            places[share].append(at)
        for share in range(parts):
            start = share * _STRINGS
            yield start, start + _STRINGS, zip(numbers[share], places[share], strict=True)

    @property
    def _is_large(self) -> bool:
        return len(self._table.strings) > _LARGE

    def _names(self, view: memoryview) -> Iterator[tuple[int, Sequence[int]]]:
        """Yield `st_name` of the symbols, with the number of the first of them."""
        table = self._table
        size = table.layout.sym.size
        for first in range(table.start, table.stop, _SYMBOLS):
            at = table.symbols + (first - table.start) * size
            last = min(first + _SYMBOLS, table.stop)
            raw = copied(view, at, at + (last - first) * size)
            if self._is_large:
                forget(view)
            yield first, words(raw, table.layout.order)[:: size // 4]

    def _take(self, name: str, number: int, view: memoryview) -> None:
        """Take a symbol, if it is a definition."""
        table = self._table
        sym = table.layout.sym
        entry = sym.unpack_from(view, table.symbols + (number - table.start) * sym.size)
        if table.layout.bits == 64:
            _, info, other, section, value, _ = entry
        else:
            _, value, _, info, other, section = entry
        if not section or not is_offered(info, other, section, value):
            return
        version: int | None = None
        if table.indices is not None:
            (version,) = table.layout.half.unpack_from(view, table.indices + 2 * number)
        definition = self._made.get((info, version))
        if definition is None:
            definition = (definition_of(info, version, table.versions),)
            self._made[info, version] = definition
        found = self._found.get(name)
        self._found[name] = definition if found is None else found + definition


class _PltEntries(Mapping[str, Definitions]):
    """The PLT entries of a program that stand for functions of others; few ask for them."""

    def __init__(self, reopen: Callable[[], memoryview], name: str) -> None:
        self._reopen = reopen
        self._name = name

    @cached_property
    def _entries(self) -> Mapping[str, Definitions]:
        return read_exports(self._reopen(), self._name).plt_entries

    def __getitem__(self, key: str) -> Definitions:
        return self._entries[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
