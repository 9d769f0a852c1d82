"""Which symbols of an installed environment bind to the files of other distributions."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain, product

from wheelfix.elf.constants import STT_TLS, Pt
from wheelfix.elf.exports import CODE, SizedDefinition, among, idle
from wheelfix.elf.image import last_of
from wheelfix.elf.model import Libc
from wheelfix.environments.modules import InstalledModules
from wheelfix.environments.read_values import Promotion
from wheelfix.environments.symbols import InstalledSymbols
from wheelfix.grouping import flatten, values_by_key
from wheelfix.loader.load_values import Load
from wheelfix.loader.loading import independent_of
from wheelfix.loader.process_bindings import (
    Binding,
    Group,
    ProcessBindings,
    Symbol,
    is_defined_unique,
)
from wheelfix.loader.symbol_lookup import SymbolIndex
from wheelfix.named_tuple import NamedTuple


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
    data: Mapping[str, tuple[int, int]]
    """Other data: symbol -> its bytes in `usual`, and in `provider`."""
    code: Mapping[str, tuple[int, int]]
    """Functions that are other code; not those that every object has a copy of."""


def bindings(modules: InstalledModules, process: Sequence[Opened]) -> Iterator[Binding]:
    """Yield what symbols bind to in a process of glibc.

    `process` are its loads in their order, without that of the main program.
    """
    symbols = modules.symbols
    wanted = frozenset[str]().union(
        *(library.names for library in symbols.libraries.values()),
        *(symbols.contents.names(path) for path in symbols.libraries),
    )
    bound = _Model(symbols, wanted, symbols.libraries).process()
    for load, for_all in process:
        for group in bound.open(load, for_all=for_all):
            for symbol, version in group.symbols:
                yield Binding(symbol, group.user, group.provider, version)


def preemptions(modules: InstalledModules) -> Iterator[Preemption]:
    """Yield what objects get from those that other distributions have opened for all before.

    Only symbols that they get from another file otherwise. Not with musl or an unknown program.
    """
    symbols, world, contents = modules.symbols, modules.world, modules.symbols.contents
    if world.environment.libc is Libc.MUSL or not symbols.start:
        return
    loads = {
        promotion: modules.load_after(modules.imported_until(promotion.source), promotion.path)
        for promotion in contents.promotions
    }
    promoted = {promotion: load for promotion, load in loads.items() if not load.missing}
    of_promoted = set(flatten(load.objects for load in promoted.values()))
    wanted = _differing_names(modules, of_promoted)
    looked_up = {
        path: {
            *wanted.intersection([symbol.name for symbol in symbols.libraries[path].elf.undefined]),
            *contents.own_lookups(path, wanted),
        }
        for path in modules.loaded.keys() & world.members.keys() & symbols.libraries.keys()
    }
    model = _Model(symbols, wanted, modules.loaded.keys() | of_promoted)
    for promotion, load in promoted.items() if wanted else ():
        yield from _preempted(modules, promotion, load, looked_up, model)


class Interposition(NamedTuple):
    """A library that uses another object's variables, and a later module that uses its own."""

    first: str
    """The module that loads the library first, and before it the object with the variables."""
    provider: str
    library: str
    second: str
    user: str
    """The object that the later module loads, and that uses the variables of the library."""
    names: Collection[str]
    always: bool
    """Whether the later module comes after the first one in any order of imports."""


def interpositions(modules: InstalledModules) -> Iterator[Interposition]:
    """Yield libraries that other modules share, and whose thread-local variables are elsewhere.

    A library is bound once in a process, in the scope of the module that loads it first. Of each
    two distributions one is yielded.
    """
    libraries, is_musl = modules.symbols.libraries, modules.world.environment.libc is Libc.MUSL
    for providers, names in () if is_musl else _thread_local(modules.symbols):
        using = {path for path, one in libraries.items() if not names.isdisjoint(one.names)}
        firsts: dict[str, str] = {}
        seconds: dict[str, tuple[str, str, str]] = {}
        for module in modules.modules:
            loaded, owner = modules.usual(module).objects, modules.distribution(module)
            bringing = [path for path in loaded if path in providers]
            if len(bringing) > 1:
                firsts.setdefault(owner, module)
            user = next((path for path in loaded if path in using), None)
            if bringing and user:
                seconds.setdefault(owner, (module, bringing[0], user))
        for first, (second, library, user) in product(firsts.values(), seconds.values()):
            after = (*modules.before(first)[0], first, *modules.before(second)[0])
            bound = _bound_in(modules, names, (*(modules.order or after), second))
            provider = bound.get(library, library)
            if provider != library and bound.get(user) == library:
                alone = _bound_in(modules, names, (*modules.before(second)[0], second))
                always = not modules.order and alone.get(library) == provider
                yield Interposition(first, provider, library, second, user, names, always)


def _bound_in(
    modules: InstalledModules, names: frozenset[str], paths: Sequence[str]
) -> dict[str, str]:
    """Return the object that each one gets a variable from where `paths` are opened in turn."""
    loads = modules.world.process(paths[-1], paths[:-1])
    objects = {*flatten(load.objects for load in loads)}
    process = _Model(modules.symbols, names, objects).process()
    groups = flatten(map(process.open, loads))
    return {group.user: group.provider for group in groups if group.symbols}


def _thread_local(symbols: InstalledSymbols) -> Iterator[tuple[Collection[str], frozenset[str]]]:
    """Yield the objects that define the same thread-local variables, with the variables.

    Where the main program has one, all use that.
    """
    for paths, names in symbols.judge.index.referenced.items():
        is_shared = len(paths) > 1 and not {*symbols.start}.intersection(paths)
        libraries = [symbols.libraries[path] for path in paths] if is_shared else []
        having = [one for one in libraries if last_of(one.elf.segments, Pt.TLS)]
        variables = frozenset(
            name
            for name in (names if len(having) > 1 else ())
            if all(one.exports.definitions[name][0].type == STT_TLS for one in having)
        )
        if variables:
            yield [one.path for one in having], variables


def _differing_names(modules: InstalledModules, promoted: Collection[str]) -> frozenset[str]:
    """Return the names that one of `promoted` and another object define as something else.

    Objects share mostly the names of inline functions, and each has its own copy of these.
    """
    symbols, contents = modules.symbols, modules.symbols.contents
    theirs = [path for path in promoted if path in symbols.libraries and path not in symbols.start]
    offered = frozenset[int]().union(*map(contents.hashes, theirs))
    known: dict[str, dict[str, int]] = {}
    """Name -> object -> its bytes."""
    for path in modules.loaded if offered else ():
        if path in symbols.libraries and path not in symbols.start:
            for name, size in contents.own_sizes(path, offered).items():
                known.setdefault(name, {})[path] = size
    common = frozenset(known)
    differing_names: set[str] = set()
    equal: dict[str, set[str]] = {}
    """Object -> names that others define, too."""
    for path in theirs:
        for name, (definition, size) in contents.sizes(path, common).items():
            others = known[name]
            if not size or definition.version is not None or not others.keys() - {path}:
                continue
            if {*others.values()} != {size}:
                differing_names.add(name)
            for other in (path, *others):
                equal.setdefault(other, set()).add(name)
    return frozenset(differing_names).union(_of_other_content(symbols, equal))


def _of_other_content(
    symbols: InstalledSymbols, names: Mapping[str, Collection[str]]
) -> Iterator[str]:
    """Yield those names that objects define with other content; `names` are those of each."""
    values: dict[str, set[bytes]] = {}
    for path, members in names.items():
        for name, value in symbols.contents.values(path, frozenset(members)).items():
            values.setdefault(name, set()).add(value)
    return (name for name, paths in values.items() if len(paths) > 1)


def _may_differ(name: str, usual: SizedDefinition, other: SizedDefinition) -> bool:
    """Return whether a definition may be something else than another one of the name.

    A library that gives its symbols versions promises that they stay what they are, and all
    objects have the same copies of inline functions.
    """
    (definition, size), (there, other_size) = usual, other
    has_version = definition.version is not None or there.version is not None
    is_copy = definition.type in CODE and definition.weak and name.startswith("_Z")
    return bool(size and other_size) and not (has_version or is_copy)


def _preempted(
    modules: InstalledModules,
    promotion: Promotion,
    promoted: Load,
    looked_up: Mapping[str, Collection[str]],
    model: "_Model",
) -> Iterator[Preemption]:
    symbols, environment = modules.symbols, modules.world.environment
    loaded = dict.fromkeys(promoted.objects)
    defined = model.defined_by(path for path in loaded if path not in symbols.start)
    earlier = map(modules.usual, modules.imported_until(promotion.source))
    known = {*loaded, *symbols.start, *chain.from_iterable(load.objects for load in earlier)}
    users = dict(_users(modules, promotion, known))
    affected = values_by_key(
        (module, user)
        for user, module in users.items()
        if not defined.isdisjoint(looked_up.get(user, ()))
    )
    is_independent = independent_of(promoted, environment)
    for module in sorted(affected):
        usual = modules.usual(module)
        is_same = is_independent(usual)
        after = usual if is_same else modules.load_after([promotion.path], module)
        if after.missing:
            continue
        own = frozenset(affected[module])
        there = {
            (group.user, group.symbols[0]): group.provider
            for group in model.process(promoted.objects).open(after, users=own)
            if group.provider in loaded  # others provide the same as without them
        }
        moved: dict[tuple[str, str, str], list[str]] = {}
        for user, own_one, group in model.process().open(usual, users=own) if there else ():
            provider = there.get((user, group[0]), own_one)
            if provider != own_one:
                moved.setdefault((user, own_one, provider), []).extend(s.name for s in group)
        for (user, own_one, provider), names in sorted(moved.items()):
            contents = {modules.content(path) for path in (user, own_one)}
            if modules.content(provider) not in contents:
                data, code = model.differing(user, own_one, provider, sorted(names))
                yield Preemption(promotion, module, user, own_one, provider, data, code)


def _users(
    modules: InstalledModules, promotion: Promotion, known: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield the objects that modules of others load, but for the `known` ones, with a module."""
    promoter = modules.distribution(promotion.path)
    for module in modules.imported_after(promoter):
        load = modules.usual(module)
        if module not in known and not load.missing:
            for path in load.objects:
                if path in modules.world.members and path not in known:
                    yield path, module


class _Model:
    """The lookups of the objects of an environment, by the names that matter."""

    def __init__(
        self, symbols: InstalledSymbols, wanted: frozenset[str], paths: Collection[str]
    ) -> None:
        """Restrict it to the names `wanted`, and to the program and the objects at `paths`."""
        self._symbols = symbols
        self._wanted = wanted
        libraries = {
            path: library
            for path, library in symbols.libraries.items()
            if path in paths or path in symbols.start
        }
        self._index = SymbolIndex(libraries, wanted, symbols.world.environment.libc)
        contents = symbols.contents
        self._sizes = cache(partial(contents.sizes, names=wanted))
        self._own = cache(partial(contents.own_lookups, names=wanted))
        self._with_unique = cache(self._read_with_unique)
        self.lookups = cache(self._lookups)

    def process(self, for_all: Iterable[str] = ()) -> ProcessBindings:
        """Return a process with the main program, and with objects that were opened for all."""
        start = dict.fromkeys((*self._symbols.start, *for_all))
        return ProcessBindings(self._index, self.lookups, start)

    def defined_by(self, paths: Iterable[str]) -> frozenset[str]:
        """Return the names that any of some objects defines."""
        libraries = (self._index.libraries[path] for path in paths if path in self._index.libraries)
        return frozenset[str]().union(
            *(among(library.exports.definitions, self._wanted) for library in libraries)
        )

    def differing(
        self, user: str, usual: str, provider: str, names: Iterable[str]
    ) -> tuple[Mapping[str, tuple[int, int]], Mapping[str, tuple[int, int]]]:
        """Return the data and the code that differ between two objects, in size or in content."""
        contents, asked = self._symbols.contents, frozenset(names)
        values = (contents.values(usual, asked), contents.values(provider, asked))
        ours = self._own(user) if usual == user else self._sizes(usual)
        theirs = self._sizes(provider)
        data: dict[str, tuple[int, int]] = {}
        code: dict[str, tuple[int, int]] = {}
        for name in sorted(asked):
            if not (
                name in ours and name in theirs and _may_differ(name, ours[name], theirs[name])
            ):
                continue
            value, other = (values_of.get(name, b"") for values_of in values)
            if ours[name].size != theirs[name].size or value != other:
                kind = code if ours[name].definition.type in CODE else data
                kind[name] = ours[name].size, theirs[name].size
        return data, code

    def _lookups(self, path: str) -> Sequence[Group]:
        library = self._symbols.libraries.get(path)
        if library is None:
            return ()
        own = self._own(path)
        looked_up = [
            Symbol(symbol.name, symbol.version)
            for symbol in library.elf.undefined
            if symbol.name in self._wanted
        ]
        skipped = idle(library.exports) if looked_up else ()
        symbols = dict.fromkeys(symbol for symbol in looked_up if symbol.name not in skipped)
        symbols |= {Symbol(name, known.definition.version): None for name, known in own.items()}
        groups = values_by_key((self._providers(symbol), symbol) for symbol in symbols)
        return tuple(Group(paths, symbols, unique) for (paths, unique), symbols in groups.items())

    def _providers(self, symbol: Symbol) -> tuple[tuple[str, ...], bool]:
        """Return the objects that can provide a symbol, and whether one of them has it unique."""
        paths = self._index.providers(*symbol)
        libraries = (self._index.libraries[path] for path in self._with_unique(paths))
        return paths, any(is_defined_unique(library, symbol.name) for library in libraries)

    def _read_with_unique(self, paths: tuple[str, ...]) -> Sequence[str]:
        """Return those of some objects that have STB_GNU_UNIQUE symbols."""
        return [path for path in paths if self._index.libraries[path].elf.unique_symbols]
