"""Which symbols of an installed environment bind to the files of other distributions."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from wheelfix.analysis.installed_modules import InstalledModules
from wheelfix.analysis.installed_symbols import InstalledSymbols, Promotion
from wheelfix.elf.constants import STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE
from wheelfix.elf.exports import OF_LINKER, SizedDefinition, among
from wheelfix.elf.model import Libc
from wheelfix.grouping import values_by_key
from wheelfix.loader.load_values import Load
from wheelfix.loader.process_bindings import Binding, ProcessBindings, Symbol
from wheelfix.loader.symbol_lookup import SymbolIndex

_OF_LINKER_ALONE = frozenset({"_ZSt21ios_base_library_initv"})
"""What <iostream> of GCC 13 refers to without a relocation, so that no loader looks it up.

It is known by name: for which undefined symbols there are relocations is not looked up.
"""
_CODE = {STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE}


class Opened(NamedTuple):
    """A load in a process, and whether all that is loaded later finds its symbols."""

    load: Load
    for_all: bool = False


class Preemption(NamedTuple):
    """An object whose symbols bind to another distribution's, as it is in the global scope."""

    promotion: Promotion
    module: str
    """The module whose import loads the object."""
    user: str
    usual: str
    """The object whose definitions it gets otherwise, maybe itself."""
    provider: str
    symbols: Sequence[str]
    data: Mapping[str, tuple[int, int]]
    """Data of other sizes: symbol -> its bytes in `usual`, and in `provider`."""
    code: Mapping[str, tuple[int, int]]
    """Functions that are other code by their sizes; not those that every object has a copy of."""


def bindings(modules: InstalledModules, process: Sequence[Opened]) -> Iterator[Binding]:
    """Yield what symbols bind to in a process of glibc.

    `process` are its loads in their order, without that of the main program.
    """
    wanted = {
        name
        for path, library in modules.symbols.libraries.items()
        for name in (*library.names, *modules.symbols.contents.own_lookups(path))
    }
    bound = _Model(modules.symbols, wanted, modules.symbols.libraries).process()
    for load, for_all in process:
        yield from bound.open(load, for_all=for_all)


def preemptions(modules: InstalledModules) -> Iterator[Preemption]:
    """Yield what objects get from those that other distributions have opened for all before.

    Only symbols that they get from another file otherwise; musl and environments of an unknown
    program are not judged.
    """
    if modules.world.environment.libc is Libc.MUSL or not modules.symbols.start:
        return
    for promotion in modules.symbols.contents.promotions():
        load = modules.world.process(promotion.path)[-1]
        if not load.missing:
            yield from _preempted(modules, promotion, load)


def _preempted(
    modules: InstalledModules, promotion: Promotion, promoted: Load
) -> Iterator[Preemption]:
    symbols = modules.symbols
    loaded = dict.fromkeys(promoted.objects)
    new = [path for path in loaded if path not in symbols.start and path in symbols.libraries]
    users = dict(_users(modules, promotion, {*loaded, *symbols.start}))
    wanted = frozenset(
        name
        for user in users
        for name in (*symbols.libraries[user].names, *symbols.contents.own_lookups(user))
    )
    defined = frozenset[str]().union(
        *(among(symbols.libraries[path].exports.definitions, wanted) for path in new)
    )
    defined -= OF_LINKER
    affected = values_by_key(
        (module, user)
        for user, module in users.items()
        if not defined.isdisjoint(symbols.libraries[user].names)
        or not defined.isdisjoint(symbols.contents.own_lookups(user))
    )
    loads = [promoted, *map(modules.world.load, affected)]
    model = _Model(symbols, defined, {path for load in loads for path in load.objects})
    for module in sorted(affected):
        after = modules.world.process(module, [promotion.path])[-1]
        if after.missing:
            continue
        own = frozenset(affected[module])
        there = {
            (one.user, one.symbol, one.version): one.provider
            for one in model.process(promoted.objects).open(after, users=own)
            if one.provider in loaded  # others provide the same as without them
        }
        alone = model.process().open(modules.world.load(module), users=own) if there else ()
        moved = values_by_key(
            ((user, before, provider), symbol)
            for symbol, user, before, version in alone
            if (provider := there.get((user, symbol, version), before)) != before
            and modules.are_different(user, provider)
            and modules.are_different(before, provider)
        )
        for (user, before, provider), names in moved.items():
            data, code = model.differing(user, before, provider, names)
            yield Preemption(promotion, module, user, before, provider, names, data, code)


def _users(
    modules: InstalledModules, promotion: Promotion, known: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield the objects that modules of others load, but for the `known` ones, with a module."""
    promoter = modules.distribution(promotion.path)
    for module in modules.imported_after(promoter):
        load = modules.world.load(module)
        if module not in known and not load.missing and modules.distribution(module) != promoter:
            for path in load.objects:
                if path in modules.world.members and path not in known:
                    yield path, module


class _Model:
    """The lookups of the objects of an environment, by the names that matter."""

    def __init__(
        self, symbols: InstalledSymbols, wanted: Collection[str], paths: Collection[str]
    ) -> None:
        """Restrict it to the names `wanted`, and to the program and the objects at `paths`."""
        self._symbols = symbols
        self._wanted = frozenset(wanted) - _OF_LINKER_ALONE
        libraries = {
            path: library
            for path, library in symbols.libraries.items()
            if path in paths or path in symbols.start
        }
        self._index = SymbolIndex(libraries, self._wanted, symbols.world.environment.libc)
        self._sizes = cache(self._read_sizes)
        self.lookups = cache(self._lookups)

    def process(self, for_all: Iterable[str] = ()) -> ProcessBindings:
        """Return a process with the main program, and with objects that were opened for all."""
        start = dict.fromkeys((*self._symbols.start, *for_all))
        return ProcessBindings(self._index, self.lookups, start)

    def differing(
        self, user: str, usual: str, provider: str, names: Iterable[str]
    ) -> tuple[Mapping[str, tuple[int, int]], Mapping[str, tuple[int, int]]]:
        """Return the data and the code that differ in size between two objects.

        A library that gives its symbols versions promises that they stay what they are.
        """
        ours = self._symbols.contents.own_lookups(user) if usual == user else self._sizes(usual)
        theirs = self._sizes(provider)
        data: dict[str, tuple[int, int]] = {}
        code: dict[str, tuple[int, int]] = {}
        for name in names:
            if name in ours and name in theirs:
                (one, size), (other, other_size) = ours[name], theirs[name]
                has_version = one.version is not None or other.version is not None
                if size != other_size and size and other_size and not has_version:
                    if one.type not in _CODE:
                        data[name] = size, other_size
                    elif not one.weak:
                        code[name] = size, other_size
        return data, code

    def _read_sizes(self, path: str) -> Mapping[str, SizedDefinition]:
        return self._symbols.contents.sizes(path, self._wanted)

    def _lookups(self, path: str) -> Mapping[tuple[str, ...], Sequence[Symbol]]:
        library = self._symbols.libraries.get(path)
        if library is None:
            return {}
        looked_up = dict.fromkeys(
            Symbol(one.name, one.version)
            for one in library.elf.undefined
            if one.name in self._wanted
        )
        own = self._symbols.contents.own_lookups(path)
        looked_up |= {
            Symbol(name, own[name].definition.version): None for name in own.keys() & self._wanted
        }
        return values_by_key(
            (self._index.providers(symbol.name, symbol.version), symbol) for symbol in looked_up
        )
