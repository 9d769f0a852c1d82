"""Definitions of an object: all of them, or those of given names.

A library may define a million symbols while a wheel uses ten: the names in .dynsym are compared
with those wanted, and values are made of the matching entries alone. Hash tables are not used, as
they may be wrong.
"""

from array import array
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property, lru_cache
from itertools import repeat
from typing import NamedTuple, Protocol

from wheelfix.budget import Budget
from wheelfix.elf.constants import (
    DF_SYMBOLIC,
    R_COPY,
    SHN_ABS,
    STB_GLOBAL,
    STB_GNU_UNIQUE,
    STB_LOCAL,
    STB_WEAK,
    STT_COMMON,
    STT_FUNC,
    STT_GNU_IFUNC,
    STT_NOTYPE,
    STT_OBJECT,
    STT_TLS,
    STV_DEFAULT,
    STV_PROTECTED,
    VERSYM_HIDDEN,
    VERSYM_INDEX,
    Dt,
)
from wheelfix.elf.dynamic_tables import LONGEST_NAME, Dynamic
from wheelfix.elf.image import Buffer, Image, Structs
from wheelfix.elf.model import Definition, Exports, Undefined

_BINDABLE = {STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_COMMON, STT_TLS, STT_GNU_IFUNC}
"""The types of symbols that the loader lets a reference bind to."""
_DEFINITION_SIZE = 200
"""Bytes in memory of a definition besides its name."""
_NUMBER_SIZE = 64
"""Bytes in memory of a number in a set."""
_VISIBLE = {STV_DEFAULT, STV_PROTECTED}

SymbolDefinitions = tuple[Definition, ...]
Names = frozenset[str] | set[str]

OF_LINKER = frozenset({"_init", "_fini", "_edata", "_end", "__bss_start", "__bss_start__"})
"""What older linkers export from every object."""


class SizedDefinition(NamedTuple):
    """A definition, and how much it defines."""

    definition: Definition
    size: int
    """Bytes of the code or data (st_size)."""


class SymbolTables(NamedTuple):
    """Copies of the tables that the exports of an object are read from."""

    name: str
    """The name of the object, for messages."""
    budget: Budget
    """What each look-up spends."""
    structs: Structs
    symbols: bytes
    """.dynsym, from the first symbol that may be defined."""
    strings: bytes
    """.dynstr"""
    indices: "array[int] | None"
    """The entries of DT_VERSYM for `symbols`; None without that table."""
    versions: Mapping[int, str | None]
    """Version index -> version."""
    copies: tuple[Undefined, ...]
    """As in `Exports`."""
    referenced: "array[int]"
    """The numbers, in `symbols`, of the entries to which the object's own relocations refer."""

    @property
    def size(self) -> int:
        """Bytes of the tables."""
        return len(self.symbols) + len(self.strings) + 4 * len(self.referenced)

    def definitions(self, names: Names | None = None) -> dict[str, SymbolDefinitions]:
        """Return the definitions of `names`, by default all, by the rules of `do_lookup_x`."""
        strings = self.strings
        wanted = None if names is None else _encoded(frozenset(names))
        self._spend(len(self.symbols) // self.structs.sym.size)
        shared: dict[tuple[int, int | None], SymbolDefinitions] = {}
        by_name: dict[str, SymbolDefinitions] = {}
        symbols, indices = self.structs.symbols(self.symbols), self.indices or repeat(None)
        for (at, info, other, section, value, _), version in zip(symbols, indices, strict=False):
            raw = strings[at : strings.find(b"\0", at)]
            if len(raw) > LONGEST_NAME:
                self._spend(len(raw) >> 8)
            if wanted is not None and raw not in wanted:
                continue
            if not _is_definition(info, other, section, value):
                continue
            name = raw.decode("utf-8", "surrogateescape")
            if names is None:
                self._spend(1, memory=_DEFINITION_SIZE + len(raw))
            definition = shared.get((info, version))
            if definition is None:
                definition = (definition_of(info, version, self.versions),)
                shared[info, version] = definition
            if name in by_name:
                self._spend(len(by_name[name]) >> 6)
                definition = by_name[name] + definition
            by_name[name] = definition
        return by_name

    def own_lookups(self) -> dict[str, SizedDefinition]:
        """Return the definitions to which its own relocations refer: another object may come first.

        Of two versions of a name, the last one in .dynsym is returned.
        """
        return {
            raw.decode("utf-8", "surrogateescape"): SizedDefinition(
                definition_of(info, version, self.versions), size
            )
            for raw, info, size, version in self._referenced_definitions()
        }

    def sizes(self, names: Names) -> dict[str, SizedDefinition]:
        """Return those definitions of `names` that a reference without a version binds to."""
        self._spend(len(self.symbols) // self.structs.sym.size)
        wanted = _encoded(frozenset(names))
        found: dict[str, SizedDefinition] = {}
        symbols, indices = self.structs.symbols(self.symbols), self.indices or repeat(None)
        for (at, info, other, section, value, size), version in zip(symbols, indices, strict=False):
            raw = self.strings[at : self.strings.find(b"\0", at)]
            if raw in wanted and _is_definition(info, other, section, value):
                definition = definition_of(info, version, self.versions)
                if not definition.hidden:
                    found[raw.decode("utf-8", "surrogateescape")] = SizedDefinition(
                        definition, size
                    )
        return found

    def preemptible(self) -> Iterator[str]:
        """Yield the names of definitions to which the object's own relocations refer.

        Copies of a C++ entity, such as an inline function, are left out (Itanium C++ ABI, "Vague
        Linkage"): all objects have the same.
        """
        for raw, info, *_ in self._referenced_definitions():
            if info >> 4 == STB_GLOBAL or not raw.startswith(b"_Z"):
                yield raw.decode("utf-8", "surrogateescape")

    def _referenced_definitions(self) -> Iterator[tuple[bytes, int, int, int | None]]:
        """Yield the definitions that other objects may replace.

        Of each the name, st_info, st_size, and the entry of DT_VERSYM.
        """
        size = self.structs.sym.size
        self._spend(len(self.referenced))
        rows = b"".join([self.symbols[n * size : (n + 1) * size] for n in self.referenced])
        indices = self.indices
        symbols = zip(self.referenced, self.structs.symbols(rows), strict=True)
        for number, (at, info, other, section, value, extent) in symbols:
            if other & 3 == STV_DEFAULT and _is_definition(info, other, section, value):
                raw = self.strings[at : self.strings.find(b"\0", at)]
                self._spend(len(raw) >> 8, memory=_DEFINITION_SIZE + len(raw))
                yield raw, info, extent, None if indices is None else indices[number]

    def _spend(self, steps: int, memory: int = 0) -> None:
        self.budget.spend(steps, "the dynamic symbols", self.name, memory=memory)


@lru_cache(maxsize=4)
def _encoded(names: frozenset[str]) -> frozenset[bytes]:
    """Return names as .dynstr has them; the same are looked up in one object after the other."""
    return frozenset(name.encode("utf-8", "surrogateescape") for name in names)


class Definitions(Protocol):
    """What the exports of an object are read from: its tables, or what was read of them before."""

    @property
    def copies(self) -> tuple[Undefined, ...]:
        """As in `Exports`."""
        ...

    def definitions(self, names: Names | None = None) -> dict[str, SymbolDefinitions]:
        """Return the definitions of `names`, by default all."""
        ...

    def preemptible(self) -> Iterator[str]:
        """Yield what `SymbolTables.preemptible` does."""
        ...


def lazy_exports(read: Callable[[], Definitions]) -> Exports:
    """Return the exports of an object, with the definitions read by name.

    `read` is called whenever definitions are looked up. Raises what it raises.
    """
    return Exports(definitions=LazyDefinitions(read), copies=read().copies)


def among(definitions: Mapping[str, SymbolDefinitions], names: Names) -> AbstractSet[str]:
    """Return those of `names` that are defined."""
    if isinstance(definitions, LazyDefinitions):
        definitions = definitions.look_up(names)
    # Either walks through the smaller one.
    return names & definitions.keys() if len(names) < len(definitions) else names & set(definitions)


def preemptible(exports: Exports) -> tuple[str, ...]:
    """Return the own symbols that an object looks up by name, so that others may define them.

    As `SymbolTables.preemptible`, each once; none for exports that are not read from an object.
    """
    if isinstance(exports.definitions, LazyDefinitions):
        return exports.definitions.preemptible
    return ()


def with_changes(exports: Exports, changes: Mapping[str, SymbolDefinitions]) -> Exports:
    """Return exports that define the names in `changes` as they say; those without any no more."""
    definitions = exports.definitions
    if isinstance(definitions, LazyDefinitions):
        definitions = definitions.with_changes(changes)
    else:
        definitions = _with_changes(definitions, changes)
    return Exports(definitions=definitions, copies=exports.copies)


def _with_changes(
    definitions: Mapping[str, SymbolDefinitions], changes: Mapping[str, SymbolDefinitions]
) -> dict[str, SymbolDefinitions]:
    return {name: some for name, some in {**definitions, **changes}.items() if some}


def announce(exports: Exports, names: Names) -> None:
    """Look up all of `names` at once, ahead of the single look-ups."""
    if isinstance(exports.definitions, LazyDefinitions):
        exports.definitions.look_up(names)


class LazyDefinitions(Mapping[str, SymbolDefinitions]):
    """The definitions of one object, read when they are first looked up."""

    def __init__(
        self,
        read: Callable[[], Definitions],
        changes: Mapping[str, SymbolDefinitions] | None = None,
    ) -> None:
        """Read from the tables that `read` returns, but for `changes`, as in `with_changes`."""
        self._read = read
        self._changes = changes
        self._looked_up: list[frozenset[str]] = []
        self._found: dict[str, SymbolDefinitions] = {}
        self._is_complete = False

    def look_up(self, names: Names) -> Mapping[str, SymbolDefinitions]:
        """Look up `names` at once, and return all definitions that are known."""
        if not self._knows(names):
            self._looked_up.append(frozenset(names))
            self._found.update(self._definitions(names))
        return self._found

    def with_changes(self, changes: Mapping[str, SymbolDefinitions]) -> "LazyDefinitions":
        """Return definitions that differ in `changes`; the object's own look-ups are not known."""
        return LazyDefinitions(self._read, changes)

    @cached_property
    def preemptible(self) -> tuple[str, ...]:
        """The names that `SymbolTables.preemptible` yields, each once; none with changes."""
        if self._changes is not None:
            return ()
        return tuple(dict.fromkeys(self._read().preemptible()))

    def __getitem__(self, key: str) -> SymbolDefinitions:
        if key not in self._found and not self._has_looked_up(key):
            self._read_all()
        return self._found[key]

    def __iter__(self) -> Iterator[str]:
        self._read_all()
        return iter(self._found)

    def __len__(self) -> int:
        self._read_all()
        return len(self._found)

    def _knows(self, names: Names) -> bool:
        known = self._looked_up
        is_same = any(names is some for some in known)
        return self._is_complete or is_same or any(names <= some for some in known)

    def _has_looked_up(self, name: str) -> bool:
        return self._is_complete or any(name in names for names in self._looked_up)

    def _read_all(self) -> None:
        if not self._is_complete:
            self._found = self._definitions()
            self._is_complete = True

    def _definitions(self, names: Names | None = None) -> dict[str, SymbolDefinitions]:
        found = self._read().definitions(names)
        if self._changes is None:
            return found
        changes = self._changes.items()
        return _with_changes(
            found, {name: some for name, some in changes if names is None or name in names}
        )


def read_symbol_tables(data: Buffer, name: str, budget: Budget | None = None) -> SymbolTables:
    """Read the tables of an object; they are empty without a dynamic section.

    `name` is for messages. Without `budget`, the object has one of its own. Raises `BadElfError`
    as `read_elf` does.
    """
    with memoryview(data) as view:
        image = Image.parse(view, name, budget)
        return symbol_tables(image, Dynamic.parse(image))


def symbol_tables(image: Image, dynamic: Dynamic | None) -> SymbolTables:
    """Return the tables of an object with this dynamic section. Raises `BadElfError`."""
    if dynamic is None or Dt.SYMTAB not in dynamic.tags:
        return SymbolTables(
            name=image.name,
            budget=image.budget,
            structs=image.structs,
            symbols=b"",
            strings=b"",
            indices=None,
            versions={},
            copies=(),
            referenced=array("I"),
        )
    start, stop = first_definition(dynamic), dynamic.symbol_count
    indices = dynamic.version_indices(stop)
    return SymbolTables(
        name=image.name,
        budget=image.budget,
        structs=image.structs,
        symbols=dynamic.symbol_bytes(start, stop),
        strings=dynamic.strings,
        indices=indices[start:] if indices is not None else None,
        versions=versions_of(dynamic),
        copies=tuple(_copies(dynamic)),
        referenced=_numbers(dynamic, start, stop),
    )


def versions_of(dynamic: Dynamic) -> dict[int, str | None]:
    """Return the version of each index, None for the base version (the object's own name).

    Needed versions are among them: a program's copies of data have their indices.
    """
    needed = {
        index: version for _, versions in dynamic.version_needs() for index, version in versions
    }
    defined = {n: None if v.base else v.name for n, v in dynamic.version_definitions()}
    return {**needed, **defined}


def first_definition(dynamic: Dynamic) -> int:
    """Return an index that all defined symbols lie at or above."""
    table = dynamic.gnu_hash
    return table.symoffset if table is not None and not table.is_empty else 0


def _is_definition(info: int, other: int, section: int, value: int) -> bool:
    """Return whether the loader binds references of other objects to an entry of .dynsym."""
    kind = info & 0xF
    if section == 0 or info >> 4 == STB_LOCAL:
        return False
    if kind not in _BINDABLE or other & 3 not in _VISIBLE:
        return False
    return bool(value) or kind == STT_TLS or section == SHN_ABS


def definition_of(info: int, version: int | None, versions: Mapping[int, str | None]) -> Definition:
    """Return the definition in an entry of .dynsym with this `st_info` and DT_VERSYM entry."""
    index = None if version is None else version & VERSYM_INDEX
    return Definition(
        version=None if index is None else versions.get(index),
        version_index=index,
        hidden=version is not None and (version == 0 or version & VERSYM_HIDDEN != 0),
        weak=info >> 4 == STB_WEAK,
        type=info & 0xF,
        unique=info >> 4 == STB_GNU_UNIQUE,
    )


def _numbers(dynamic: Dynamic, start: int, stop: int) -> "array[int]":
    """Return the entries of `_relocated_entries` in order, each once.

    An object with DT_SYMBOLIC looks into itself first: of its definitions only a unique symbol may
    be replaced, by the one that the process has already (`do_lookup_unique` in elf/dl-lookup.c).
    """
    numbers = {*_relocated_entries(dynamic, start, stop)}
    if Dt.SYMBOLIC in dynamic.tags or dynamic.tags.get(Dt.FLAGS, 0) & DF_SYMBOLIC:
        symbols = dynamic.image.structs.symbols(dynamic.symbol_bytes(start, stop))
        unique = (n for n, (_, info, *_) in enumerate(symbols) if info >> 4 == STB_GNU_UNIQUE)
        numbers.intersection_update(unique)
    dynamic.image.spend(0, "the relocations", memory=_NUMBER_SIZE * len(numbers))
    return array("I", sorted(numbers))


def _relocated_entries(dynamic: Dynamic, start: int, stop: int) -> Iterator[int]:
    """Yield the entries of .dynsym that relocations refer to, among `start` to `stop` - 1."""
    for table in dynamic.relocations():
        for number in table.symbols:
            if start <= number < stop:
                yield number - start


def _copies(dynamic: Dynamic) -> Iterator[Undefined]:
    """Yield the data that a program has copies of (R_*_COPY)."""
    image = dynamic.image
    if not image.is_program:
        return
    kind = R_COPY.get(image.header.machine, -1)
    shift, mask = (32, 0xFFFFFFFF) if image.structs.bits == 64 else (8, 0xFF)
    numbers: set[int] = {
        entry[1] >> shift
        for table in dynamic.relocations()
        for entry in table.struct.iter_unpack(table.raw)
        if entry[1] & mask == kind
    }
    needed = {
        index: (version, file)
        for file, versions in dynamic.version_needs()
        for index, version in versions
    }
    indices = dynamic.version_indices(max(numbers) + 1) if numbers else None
    for number in sorted(numbers):
        ((name, info, *_),) = dynamic.symbols(number, number + 1)
        index = indices[number] & VERSYM_INDEX if indices else 0
        version, file = needed.get(index, (None, None))
        text = dynamic.string(name, "a symbol's name")
        yield Undefined(text, version, file, type=info & 0xF, weak=False)
