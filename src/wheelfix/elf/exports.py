"""Exports: the symbols that an object defines, all of them or those of given names.

A library may define a million symbols while a wheel uses ten: the names in .dynsym are compared
with those wanted, and values are made of the matching entries alone. Hash tables are not used, as
they may be wrong.
"""

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property, lru_cache
from sys import intern
from typing import Protocol
from zlib import crc32

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
from wheelfix.elf.image import STRUCTS, Buffer, Image, Structs
from wheelfix.elf.model import Definition, Exports, Undefined
from wheelfix.errors import BadElfError
from wheelfix.grouping import flatten
from wheelfix.named_tuple import NamedTuple

CODE = frozenset({STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE})
"""The types of functions."""
_BINDABLE = {STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_COMMON, STT_TLS, STT_GNU_IFUNC}
"""The types of symbols that the loader lets a reference bind to."""
_COPIES = frozenset(STB_WEAK << 4 | kind for kind in CODE)
"""The `st_info` of inline functions in C++: each object has its own copy."""
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


class _Entry(NamedTuple):
    """A definition in .dynsym."""

    name: bytes
    info: int
    """st_info"""
    other: int
    """st_other"""
    size: int
    """st_size"""
    version: int | None
    """The entry of DT_VERSYM; None without that table."""


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
    idle: tuple[str, ...] = ()
    """Undefined symbols to which no relocation refers: the loader does not look them up."""
    hashes: "array[int] | None" = None
    """A hash of the name of each of `symbols`: most names are not compared then."""

    @property
    def size(self) -> int:
        """Bytes of the tables."""
        return len(self.symbols) + len(self.strings) + 4 * len(self.referenced)

    def definitions(self, names: Names | None = None) -> dict[str, SymbolDefinitions]:
        """Return the definitions of `names`, by default all, by the rules of `do_lookup_x`."""
        numbers = self._all() if names is None else self._named(names, self._all())
        self._spend(len(numbers))
        shared: dict[tuple[int, int | None], SymbolDefinitions] = {}
        by_name: dict[str, SymbolDefinitions] = {}
        for raw, info, _, _, version in self._definitions(numbers):
            if len(raw) > LONGEST_NAME:
                self._spend(len(raw) >> 8)
            name = intern(raw.decode("utf-8", "surrogateescape"))
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

    def own_lookups(self, names: Names) -> dict[str, SizedDefinition]:
        """Return those definitions of `names` to which its own relocations refer.

        Another object may come first. Of two versions of a name, the last one in .dynsym is
        returned.
        """
        return self._sized(self._referenced_definitions(self._named(names, self.referenced)))

    def unique_lookups(self) -> dict[str, SizedDefinition]:
        """Return the STB_GNU_UNIQUE definitions to which its own relocations refer."""
        infos = self.symbols[self.structs.st_info :: self.structs.sym.size]
        numbers = [n for n in self.referenced if infos[n] >> 4 == STB_GNU_UNIQUE]
        return self._sized(self._referenced_definitions(numbers))

    def sizes(self, names: Names) -> dict[str, SizedDefinition]:
        """Return those definitions of `names` that a reference without a version binds to."""
        entries = self._definitions(self._named(names, self._all()))
        return self._sized(entry for entry in entries if not _is_hidden(entry.version))

    def own_sizes(self, hashes: AbstractSet[int]) -> dict[str, int]:
        """Return the bytes of the definitions that other objects have no copies of, by name.

        Those whose names have one of `hashes` (`name_hashes`). Copies are those of inline functions
        (weak code of C++). Definitions with a version are left out.
        """
        own = self.hashes or self.name_hashes()
        numbers = [n for n, hashed in enumerate(own) if hashed in hashes]
        self._spend(len(own))
        sizes: dict[str, int] = {}
        for raw, info, _, size, version in self._definitions(numbers):
            is_copy = info in _COPIES and raw.startswith(b"_Z")
            if (
                size
                and not is_copy
                and (version is None or self.versions.get(version & VERSYM_INDEX) is None)
            ):
                sizes[raw.decode("utf-8", "surrogateescape")] = size
        return sizes

    def preemptible(self) -> Iterator[str]:
        """Yield the names of definitions to which the object's own relocations refer.

        Copies of a C++ entity, such as an inline function, are left out (Itanium C++ ABI, "Vague
        Linkage"): all objects have the same.
        """
        for raw, info, *_ in self._referenced_definitions(self.referenced):
            if info >> 4 == STB_GLOBAL or not raw.startswith(b"_Z"):
                yield raw.decode("utf-8", "surrogateescape")

    def name_hashes(self) -> "array[int]":
        """Return a hash of the name of each entry, the same in every process."""
        strings, find, places = self.strings, self.strings.find, self._places()
        self._spend_names(places, self._all())
        return array("I", [crc32(strings[at : find(b"\0", at)]) for at in places])

    def _has_long_names(self) -> bool:
        """Return whether a name may be longer than `LONGEST_NAME`."""
        strings, step = self.strings, LONGEST_NAME // 2  # twice a step has a whole one in it
        starts = range(0, len(strings), step)
        return any(strings.find(b"\0", at, at + step) < 0 for at in starts)

    def _places(self) -> "Sequence[int]":
        """Return where the name of each entry begins in the strings."""
        return self.structs.words("I", self.symbols)[:: self.structs.sym.size // 4]

    def _spend_names(self, places: Sequence[int], numbers: Iterable[int]) -> None:
        """Spend the time for long names of the entries `numbers`."""
        find = self.strings.find
        if self._has_long_names():
            for number in numbers:
                self._spend(max(find(b"\0", places[number]) - places[number], 0) >> 8)

    def _all(self) -> Sequence[int]:
        return range(len(self.symbols) // self.structs.sym.size)

    def names(self) -> frozenset[str]:
        """Return the names of all definitions."""
        names: set[str] = set()
        for raw, *_ in self._definitions(self._all()):
            self._spend(1 + (len(raw) >> 8), memory=_DEFINITION_SIZE + len(raw))
            names.add(raw.decode("utf-8", "surrogateescape"))
        return frozenset(names)

    def _named(self, names: Names, numbers: Sequence[int]) -> list[int]:
        """Return those of the entries `numbers` whose names are in `names`."""
        wanted, strings, find = _encoded(frozenset(names)), self.strings, self.strings.find
        self._spend(len(numbers))
        if self.hashes is not None:
            hashes, likely = self.hashes, _hashes_of(wanted)
            numbers = [number for number in numbers if hashes[number] in likely]
            if not numbers:
                return []
        places = self._places()
        self._spend_names(places, numbers)
        return [n for n in numbers if strings[(at := places[n]) : find(b"\0", at)] in wanted]

    def _definitions(self, numbers: Sequence[int]) -> Iterator[_Entry]:
        """Yield those of the entries `numbers` that define something."""
        size, strings, indices = self.structs.sym.size, self.strings, self.indices
        is_all = len(numbers) * size == len(self.symbols)
        rows = b"".join([self.symbols[n * size : (n + 1) * size] for n in numbers])
        symbols = self.structs.symbols(self.symbols if is_all else rows)
        for number, (at, info, other, section, value, extent) in zip(numbers, symbols, strict=True):
            if _is_definition(info, other, section, value):
                raw = strings[at : strings.find(b"\0", at)]
                yield _Entry(raw, info, other, extent, indices[number] if indices else None)

    def _referenced_definitions(self, numbers: Sequence[int]) -> Iterator[_Entry]:
        """Yield those of the entries `numbers` that other objects may replace."""
        for entry in self._definitions(numbers):
            if entry.other & 3 == STV_DEFAULT:
                self._spend(1 + (len(entry.name) >> 8), memory=_DEFINITION_SIZE + len(entry.name))
                yield entry

    def _sized(self, entries: Iterable[_Entry]) -> dict[str, SizedDefinition]:
        shared: dict[tuple[int, int | None], Definition] = {}
        by_name: dict[str, SizedDefinition] = {}
        for raw, info, _, size, version in entries:
            definition = shared.get((info, version))
            if definition is None:
                definition = shared[info, version] = definition_of(info, version, self.versions)
            by_name[raw.decode("utf-8", "surrogateescape")] = SizedDefinition(definition, size)
        return by_name

    def _spend(self, steps: int, memory: int = 0) -> None:
        self.budget.spend(steps, "the dynamic symbols", self.name, memory=memory)


@lru_cache(maxsize=4)
def _encoded(names: frozenset[str]) -> frozenset[bytes]:
    """Return names as .dynstr has them; the same are looked up in one object after the other."""
    return frozenset(name.encode("utf-8", "surrogateescape") for name in names)


@lru_cache(maxsize=4)
def _hashes_of(names: frozenset[bytes]) -> frozenset[int]:
    return frozenset(map(crc32, names))


class Definitions(Protocol):
    """What the exports of an object are read from: its tables, or what was read of them before."""

    @property
    def copies(self) -> tuple[Undefined, ...]:
        """As in `Exports`."""
        ...

    def definitions(self, names: Names | None = None) -> dict[str, SymbolDefinitions]:
        """Return the definitions of `names`, by default all."""
        ...

    @property
    def idle(self) -> tuple[str, ...]:
        """As in `SymbolTables`."""
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


def idle(exports: Exports) -> Collection[str]:
    """Return the undefined symbols of an object that the loader does not look up.

    None for exports that are not read from an object.
    """
    definitions = exports.definitions
    return definitions.idle if isinstance(definitions, LazyDefinitions) else ()


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
    return {name: versions for name, versions in {**definitions, **changes}.items() if versions}


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
    def idle(self) -> frozenset[str]:
        """As `SymbolTables.idle`."""
        return frozenset(self._read().idle)

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
        is_same = any(names is looked_up for looked_up in known)
        return self._is_complete or is_same or any(names <= looked_up for looked_up in known)

    def _has_looked_up(self, name: str) -> bool:
        return self._is_complete or any(name in names for names in self._looked_up)

    def _read_all(self) -> None:
        if not self._is_complete:
            self._found = self._definitions()
            self._is_complete = True

    def _definitions(self, names: Names | None = None) -> dict[str, SymbolDefinitions]:
        definitions = self._read().definitions(names)
        if self._changes is None:
            return definitions
        changes = self._changes.items()
        return _with_changes(
            definitions,
            {name: new for name, new in changes if names is None or name in names},
        )


class SymbolPlaces(NamedTuple):
    """Where the tables of an object are, and what takes time to read of it."""

    symbols: tuple[int, int]
    """File offset and bytes of .dynsym, from the first symbol that may be defined."""
    strings: tuple[int, int]
    indices: tuple[int, int] | None
    versions: Mapping[int, str | None]
    copies: tuple[Undefined, ...]
    referenced: bytes
    """As in `SymbolTables`, which has the rest, too."""
    idle: tuple[str, ...] = ()
    hashes: bytes = b""


def read_symbol_tables(data: Buffer, name: str, budget: Budget | None = None) -> SymbolTables:
    """Read the tables of an object; they are empty without a dynamic section.

    `name` is for messages. Without `budget`, the object has one of its own. Raises `BadElfError`
    as `read_elf` does.
    """
    with memoryview(data) as view:
        image = Image.parse(view, name, budget)
        return symbol_tables(image, Dynamic.parse(image))


def read_symbol_places(data: Buffer, name: str) -> SymbolPlaces:
    """Return where the tables of an object are, and the hashes of names.

    Raises `BadElfError` as `read_elf` does.
    """
    with memoryview(data) as view:
        image = Image.parse(view, name)
        places = _symbol_places(image, Dynamic.parse(image))
        tables = symbol_tables_at(places, view, name, image.budget)
        return places._replace(hashes=tables.name_hashes().tobytes())


def symbol_tables(image: Image, dynamic: Dynamic | None) -> SymbolTables:
    """Return the tables of an object with this dynamic section. Raises `BadElfError`."""
    return symbol_tables_at(_symbol_places(image, dynamic), image.view, image.name, image.budget)


def symbol_tables_at(
    places: SymbolPlaces, data: memoryview, name: str, budget: Budget
) -> SymbolTables:
    """Return the tables of the object `data`, which are at `places` there.

    Raises `BadElfError` if the file ends before.
    """
    structs = STRUCTS[data[4], data[5]]
    tables = (places.symbols, places.strings, places.indices or (0, 0))
    if any(at + size > len(data) for at, size in tables):
        raise BadElfError(f"`{name}` is truncated: its dynamic symbols reach past its end")
    symbols, strings, indices = (bytes(data[at : at + size]) for at, size in tables)
    return SymbolTables(
        name=name,
        budget=budget,
        structs=structs,
        symbols=symbols,
        strings=strings,
        indices=None if places.indices is None else structs.words("H", indices),
        versions=places.versions,
        copies=places.copies,
        referenced=array("I", places.referenced),
        idle=places.idle,
        hashes=array("I", places.hashes) if places.hashes else None,
    )


def _symbol_places(image: Image, dynamic: Dynamic | None) -> SymbolPlaces:
    if dynamic is None or Dt.SYMTAB not in dynamic.tags:
        return SymbolPlaces((0, 0), (0, 0), None, {}, (), b"")
    start, stop = first_definition(dynamic), dynamic.symbol_count
    relocated = frozenset[int]().union(*(table.symbols for table in dynamic.relocations()))
    symbols, strings, indices = (0, 0), (0, 0), None
    if start < stop:
        size = image.structs.sym.size
        length = (stop - start) * size
        at = image.offset(dynamic.tags[Dt.SYMTAB] + start * size, length, "the symbol table")
        image.spend(stop - start, "the dynamic symbols", memory=length)
        symbols = at, length
    if dynamic.strings:
        length = len(dynamic.strings)
        strings = image.offset(dynamic.tags[Dt.STRTAB], length, "the strings"), length
    if Dt.VERSYM in dynamic.tags:
        at = image.offset(dynamic.tags[Dt.VERSYM], 2 * stop, "DT_VERSYM")
        indices = at + 2 * start, 2 * max(stop - start, 0)
    return SymbolPlaces(
        symbols=symbols,
        strings=strings,
        indices=indices,
        versions=versions_of(dynamic),
        copies=tuple(_copies(dynamic)),
        referenced=_numbers(dynamic, relocated, start, stop).tobytes(),
        idle=tuple(_idle(dynamic, relocated, start or stop)),
    )


def _idle(dynamic: Dynamic, relocated: AbstractSet[int], stop: int) -> Iterator[str]:
    """Yield the undefined symbols below `stop` to which no relocation refers, under any version."""
    dynamic.image.spend(stop >> 3, "the undefined symbols", memory=_NUMBER_SIZE * stop)
    symbols = dynamic.symbols(0, stop)  # an error for those past the end comes first
    numbers = {*range(1, stop)}
    numbers -= relocated
    undefined = [
        (number, at)
        for number, (at, info, _, section, *_) in enumerate(symbols)
        if section == 0 and at and info >> 4 != STB_LOCAL
    ]
    places = {at for number, at in undefined if number in numbers}
    used = {at for number, at in undefined if number not in numbers}
    names = {dynamic.string(at, "a symbol's name") for at in places - used}
    if names:
        yield from sorted(names - {dynamic.string(at, "a symbol's name") for at in used})


def versions_of(dynamic: Dynamic) -> dict[int, str | None]:
    """Return the version of each index, None for the base version (the object's own name).

    Needed versions are among them: a program's copies of data have their indices.
    """
    needed = {v.number: v.name for _, versions in dynamic.version_needs() for v in versions}
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
        hidden=_is_hidden(version),
        weak=info >> 4 == STB_WEAK,
        type=info & 0xF,
        unique=info >> 4 == STB_GNU_UNIQUE,
    )


def _is_hidden(version: int | None) -> bool:
    """Return whether a DT_VERSYM entry hides its symbol from references without a version."""
    return version is not None and (version == 0 or version & VERSYM_HIDDEN != 0)


def _numbers(dynamic: Dynamic, relocated: AbstractSet[int], start: int, stop: int) -> "array[int]":
    """Return those of the entries `relocated` from `start` to `stop` - 1 in order, from `start`.

    An object with DT_SYMBOLIC looks into itself first: of its definitions only a unique symbol may
    be replaced, by the one that the process has already (`do_lookup_unique` in elf/dl-lookup.c).
    """
    numbers = {number - start for number in relocated if start <= number < stop}
    if Dt.SYMBOLIC in dynamic.tags or dynamic.tags.get(Dt.FLAGS, 0) & DF_SYMBOLIC:
        symbols = dynamic.image.structs.symbols(dynamic.symbol_bytes(start, stop))
        unique = (n for n, (_, info, *_) in enumerate(symbols) if info >> 4 == STB_GNU_UNIQUE)
        numbers.intersection_update(unique)
    dynamic.image.spend(0, "the relocations", memory=_NUMBER_SIZE * len(numbers))
    return array("I", sorted(numbers))


def _copies(dynamic: Dynamic) -> Iterator[Undefined]:
    """Yield the data that a program has copies of (R_*_COPY)."""
    image = dynamic.image
    if not image.is_program:
        return
    kind = R_COPY.get(image.header.machine, -1)
    numbers = set(flatten(table.symbols_of(kind) for table in dynamic.relocations()))
    needed = {
        v.number: (v.name, file) for file, versions in dynamic.version_needs() for v in versions
    }
    indices = dynamic.version_indices(max(numbers) + 1) if numbers else None
    for number in sorted(numbers):
        ((name, info, *_),) = dynamic.symbols(number, number + 1)
        index = indices[number] & VERSYM_INDEX if indices else 0
        version, file = needed.get(index, (None, None))
        text = dynamic.string(name, "a symbol's name")
        yield Undefined(text, version, file, type=info & 0xF, weak=False)
