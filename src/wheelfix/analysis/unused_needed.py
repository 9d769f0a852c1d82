"""What can be dropped from the DT_NEEDED of a wheel's objects, and what speaks against it.

`asneeded` says what the linker would have left out. Here each such entry is tried on paper: every
object of the wheel is loaded before and after, and an entry goes only if every symbol that was
bound is still bound to the same file. What symbols cannot tell (constructors, names opened at run
time) keeps an entry, unless the settings say otherwise.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property, partial
from typing import NamedTuple, Protocol

from wheelfix.elf.exports import Wanted, among, announce
from wheelfix.elf.model import Elf, Exports, libc_of
from wheelfix.loader.as_needed import Decision, Library, Why, decide, is_python_api
from wheelfix.loader.install_schemes import Layout
from wheelfix.loader.model import Environment, Load
from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.loader.search import load_each
from wheelfix.loader.symbols import Reference, Scope, SymbolIndex, bindings, wanted_by
from wheelfix.settings import PruneNeeded, Settings
from wheelfix.text import join_some
from wheelfix.wheel.edits import Edit, without_needed
from wheelfix.wheel.model import Wheel

_INTERPOSED = frozenset({"malloc", "free", "calloc", "realloc"})
_HOOKS = ("PyInit_", "PyInitU_", "PyModExport_", "PyModExportU_")


class Definitions(Protocol):
    """What can be looked into: the members of the wheel, and libraries around it."""

    @property
    def judged(self) -> list[tuple[Mapping[str, Elf], "Pruning"]]:
        """What `judge` has said in this run: most of its stages look at the same objects."""
        ...

    def including(self, edits: Iterable[Edit]) -> "Definitions":
        """Return the same for the wheel that `edits`, in their order, make of this one."""
        ...

    def reader(self, member: str) -> Callable[[], Exports] | None:
        """Return what reads the exports of `member`, None if its bytes are not at hand."""
        ...

    def host(self, name: str, user: Elf) -> Library | None:
        """Find the library that serves `name` for `user` outside of the wheel."""
        ...

    def handed(self, name: str, user: Elf, place: str, folder: str | None) -> Library | None:
        """Find the library `name` in `place`, a wheel or a directory that was handed over."""
        ...

    def preferring(self, places: Iterable[str]) -> "Definitions":
        """Return the same with `places` before all else that was handed over."""
        ...

    def mentions(self, names: Collection[str]) -> Mapping[str, tuple[str, ...]]:
        """Return for each library name the members whose code has it as a string."""
        ...


class Unused(NamedTuple):
    """A DT_NEEDED entry that the linker would have left out."""

    member: str
    name: str
    library: str | None
    """Where the library stands that it means; None where it is not at hand."""
    hazards: tuple[str, ...] = ()
    """What dropping it may change, though no strong symbol does."""
    kept: bool = False
    """Whether a hazard keeps it."""
    forceable: bool = True
    """Whether the settings can have it dropped all the same."""


class Missing(NamedTuple):
    """A library that is used, and not needed: another object of the group brings it along."""

    member: str
    name: str
    """What DT_NEEDED should say: the SONAME of the provider."""
    symbols: tuple[str, ...]
    root: str
    """A member whose group has the provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """What came of judging all objects of a wheel."""

    unused: tuple[Unused, ...] = ()
    absent: Mapping[str, tuple[Decision, ...]] = field(
        default_factory=dict[str, tuple[Decision, ...]]
    )
    """Member -> the entries that cannot be judged."""
    missing: tuple[Missing, ...] = ()


def judge(
    wheel: Wheel,
    world: "Callable[[], LoadedWheel | None]",
    settings: Settings,
    definitions: Definitions,
) -> Pruning:
    """Judge the DT_NEEDED entries of all objects of `wheel` that are in its `world`."""
    for elfs, known in definitions.judged:
        if elfs == wheel.elfs:
            return known
    there = world()
    found = Pruning() if there is None else _judge(there, settings, definitions)
    definitions.judged.append((wheel.elfs, found))
    return found


def _judge(world: "LoadedWheel", settings: Settings, definitions: Definitions) -> Pruning:
    decisions = {member: world.decide(member) for member in world.paths}
    absent = {
        member: tuple(e for e in some if e.why is Why.ABSENT and not _may_go(e, settings))
        for member, some in decisions.items()
    }
    missing = tuple(_missing(world))
    if settings.prune_needed is PruneNeeded.OFF:
        return Pruning(absent=absent, missing=missing)
    candidates = [
        Unused(member=member, name=each.name, library=world.answer(member, each.name))
        for member, some in decisions.items()
        for each in some
        if _may_go(each, settings)
    ]
    return Pruning(
        unused=_Trial(world, settings, definitions).outcome(candidates),
        absent=absent,
        missing=missing,
    )


def _may_go(decision: Decision, settings: Settings) -> bool:
    name = decision.name
    if libc_of(name) or _matches(name, settings.keep_needed):
        return False
    if decision.why is Why.ABSENT:
        return not decision.open_references and _matches(name, settings.drop_needed)
    return decision.why is Why.UNUSED


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


# --- The wheel among the libraries of this machine ------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LoadedWheel:
    """The installed wheel with the libraries around it, ready to be loaded on paper."""

    environment: Environment
    paths: Mapping[str, str]
    """Member -> where it is installed; dynamic objects only."""
    libraries: Mapping[str, Library]
    """Path -> what can be looked into."""
    wanted: Wanted
    """The names that any of these refers to."""

    @classmethod
    def around(
        cls, wheel: Wheel, layout: Layout, environment: Environment, definitions: Definitions
    ) -> "LoadedWheel":
        """Put the libraries that the wheel asks for to where a search finds them.

        A library that the wheel ships under the name asked for counts as found, whether or not a
        search path leads there yet.
        """
        elfs = wheel.elfs
        paths = {
            member: layout.paths[member]
            for member, elf in elfs.items()
            if elf.dynamic and member in layout.paths
        }
        libraries: dict[str, Library] = {}
        for member, path in paths.items():
            read = definitions.reader(member)
            if read is not None:
                libraries[path] = Library(path=path, elf=elfs[member], read=read)
        cache = {member.rpartition("/")[2]: path for member, path in reversed(paths.items())}
        cache = {name: path for name, path in cache.items() if not may_come_from_platform(name)}
        files = dict(environment.files)
        waiting = [(name, elfs[member]) for member in paths for name in elfs[member].needed]
        for name, user in waiting:  # grows while it is walked
            if name in cache:
                continue
            library = definitions.host(name, user)
            if library is not None:
                cache[name] = library.path
                if library.path not in files:
                    files[library.path] = library.elf
                    libraries[library.path] = library
                    waiting += [(each, library.elf) for each in library.elf.needed]
        folders = dict.fromkeys(path.rpartition("/")[0] for path in cache.values())
        wanted = wanted_by(libraries.values(), _INTERPOSED.union(_hooks_and_copies(libraries)))
        libraries = {
            path: replace(known, read=partial(_looked_up, known.read, wanted))
            for path, known in libraries.items()
        }
        return cls(
            environment=replace(
                environment, files=files, cache=cache, default_directories=tuple(folders)
            ),
            paths=paths,
            libraries=libraries,
            wanted=wanted,
        )

    @cached_property
    def loads(self) -> Mapping[str, Load]:
        """What each member loads when it is the first to be opened."""
        loads = load_each(self.paths.values(), self.environment)
        return dict(zip(self.paths, loads, strict=True))

    def answer(self, member: str, name: str) -> str | None:
        """Return the file that a DT_NEEDED entry of `member` leads to."""
        path = self.paths[member]
        return next(
            (
                request.result
                for request in self.loads[member].requests
                if request.requester == path and request.name == name
            ),
            None,
        )

    def decide(self, member: str) -> tuple[Decision, ...]:
        """Judge the entries of one member by what the linker would have done."""
        path = self.paths[member]
        elf = self.environment.files[path]
        own = self.libraries.get(path) or Library(path=path, elf=elf, read=Exports)
        answers = {
            request.name: self.libraries.get(request.result or "")
            for request in self.loads[member].requests
            if request.requester == path
        }
        return decide(own, answers)

    @cached_property
    def index(self) -> SymbolIndex:
        """The libraries of this world by the symbols that they define."""
        return SymbolIndex(self.libraries, self.environment.libc, self.wanted)

    @cached_property
    def references(self) -> Mapping[str, frozenset[str]]:
        """Path -> the names of the undefined symbols of what stands there."""
        return {path: library.names for path, library in self.libraries.items()}

    def without(self, drops: Collection[Unused]) -> Environment:
        """Return the environment in which the entries of `drops` are gone."""
        names: dict[str, set[str]] = {}
        for drop in drops:
            names.setdefault(self.paths[drop.member], set()).add(drop.name)
        changed = {
            path: without_needed(self.environment.files[path], gone) for path, gone in names.items()
        }
        return replace(self.environment, files={**self.environment.files, **changed})


def _hooks(file: str) -> list[str]:
    """Return the names of the functions by which Python would import `file`."""
    stem = file.rpartition("/")[2].partition(".")[0]
    return [prefix + stem for prefix in _HOOKS]


def _hooks_and_copies(libraries: Mapping[str, Library]) -> Iterator[str]:
    """Yield the names that are asked for and are no undefined symbols."""
    for path, library in libraries.items():
        yield from _hooks(path)
        if library.elf.is_executable:
            yield from (each.name for each in library.exports.copies)


def _looked_up(read: Callable[[], Exports], wanted: Wanted) -> Exports:
    """Read what a library exports, as far as it is `wanted`."""
    exports = read()
    announce(exports, wanted)
    return exports


def _closure(load: Load, start: str) -> set[str]:
    """Return the files that `start` brings along in `load`, with itself."""
    edges: dict[str | None, list[str]] = {}
    for request in load.requests:
        if request.result is not None:
            edges.setdefault(request.requester, []).append(request.result)
    found = {start}
    waiting = [start]
    while waiting:
        new = [each for each in edges.get(waiting.pop(), ()) if each not in found]
        found.update(new)
        waiting += new
    return found


# --- Trying it out --------------------------------------------------------------------------------


class _Change(NamedTuple):
    """One load before and after, where the two differ."""

    root: str
    before: Load
    after: Load
    lost: frozenset[str]
    """Files that are not loaded any more."""


_Moved = dict[Reference, tuple[str, str | None]]


class _Trial:
    """Drops entries on paper, and takes back what breaks something."""

    def __init__(self, world: LoadedWheel, settings: Settings, definitions: Definitions) -> None:
        self._world = world
        self._settings = settings
        self._definitions = definitions
        self._called: dict[tuple[str, str], bool] = {}
        self._known: dict[tuple[str, tuple[str, ...]], _Moved] = {}

    def outcome(self, candidates: list[Unused]) -> tuple[Unused, ...]:
        """Return the candidates, each with what speaks against it, and whether that decides."""
        kept: dict[Unused, Unused] = {}
        for each in candidates:
            if (hook := self._hook(each)) is not None:
                kept[each] = each._replace(hazards=(hook,), kept=True, forceable=False)
        hazards: dict[Unused, list[str]] = {}
        while True:
            drops = [each for each in candidates if each not in kept]
            changes = list(self._changes(drops))
            needed = self._rebound(drops, changes)
            if not needed:
                hazards = self._hazards(drops, changes)
                needed = {each: why for each, why in hazards.items() if self._keeps(each)}
            if not needed:
                break
            forced = {each: each in hazards for each in needed}
            for each, why in needed.items():
                kept[each] = each._replace(hazards=tuple(why), kept=True, forceable=forced[each])
        weak = self._unbound(drops, changes)
        return tuple(
            kept.get(each) or each._replace(hazards=(*hazards.get(each, ()), *weak.get(each, ())))
            for each in candidates
        )

    def _keeps(self, drop: Unused) -> bool:
        """Return whether a hazard keeps an entry from being dropped."""
        if self._settings.prune_needed is PruneNeeded.ALL:
            return False
        return not _matches(drop.name, self._settings.drop_needed)

    def _changes(self, drops: list[Unused]) -> Iterator[_Change]:
        world = self._world
        edited = {world.paths[drop.member] for drop in drops}
        roots = [
            member for member, load in world.loads.items() if not edited.isdisjoint(load.objects)
        ]
        loads = load_each([world.paths[root] for root in roots], world.without(drops))
        for root, after in zip(roots, loads, strict=True):
            before = world.loads[root]
            if before.objects != after.objects:
                lost = frozenset(before.objects) - frozenset(after.objects)
                yield _Change(root=root, before=before, after=after, lost=lost)

    # --- Symbols

    def _rebound(self, drops: list[Unused], changes: list[_Change]) -> dict[Unused, list[str]]:
        """Find the drops that take a strong symbol's provider away, or put another before it."""
        found: dict[Unused, list[str]] = {}
        for change in changes:
            for reference, (before, after) in self._moved(change).items():
                # The C library's parts define some symbols twice (`frexpl`), to the same effect.
                if reference.weak or (after and _is_platform(before) and _is_platform(after)):
                    continue
                user = self._named(reference.dependent)
                why = f"{user} takes `{reference.symbol}` from {self._named(before)} through it"
                for drop in self._responsible(drops, change, before):
                    found.setdefault(drop, []).append(why)
        return {drop: list(dict.fromkeys(why))[:3] for drop, why in found.items()}

    def _unbound(self, drops: list[Unused], changes: list[_Change]) -> dict[Unused, list[str]]:
        """Find the weak references that nobody serves any more; the linker accepts that."""
        found: dict[Unused, dict[str, None]] = {}
        for change in changes:
            for reference, (before, after) in self._moved(change).items():
                if reference.weak and after is None:
                    for drop in self._responsible(drops, change, before):
                        found.setdefault(drop, {})[reference.symbol] = None
        return {
            drop: [f"weak references become null: {join_some(symbols)}"]
            for drop, symbols in found.items()
        }

    def _moved(self, change: _Change) -> _Moved:
        """Return the references, bound before, that are bound elsewhere or not at all after."""
        key = (change.root, change.after.objects)
        if key not in self._known:
            self._known[key] = self._find_moved(change)
        return self._known[key]

    def _find_moved(self, change: _Change) -> _Moved:
        world = self._world
        before, after = (Scope(load.objects, world.index) for load in (change.before, change.after))
        moved = {
            providers: (old, new)
            for providers in world.index.referenced
            if (old := before.first(providers)) is not None
            and (new := after.first(providers)) != old
        }
        names = frozenset[str]().union(*(world.index.referenced[providers] for providers in moved))
        found: _Moved = {}
        for path in change.after.objects if moved else ():
            if path not in world.libraries or world.references[path].isdisjoint(names):
                continue
            for each in world.libraries[path].elf.undefined:
                if each.name in names:
                    providers = world.index.providers(each.name, each.version)
                    if providers in moved:
                        key = Reference(path, each.name, each.version, each.weak)
                        found[key] = moved[providers]
        return found

    def _responsible(self, drops: list[Unused], change: _Change, provider: str) -> Iterator[Unused]:
        """Yield the drops to take back so that `provider` is loaded as before."""
        here = [
            drop
            for drop in drops
            if drop.library is not None and self._world.paths[drop.member] in change.before.objects
        ]
        direct = [drop for drop in here if drop.library == provider]
        yield from direct or (
            drop
            for drop in here
            if drop.library and provider in _closure(change.before, drop.library)
        )

    # --- What symbols cannot tell

    def _hook(self, drop: Unused) -> str | None:
        """Say so if the module's own entry point is in the library (CPython takes it by dlsym)."""
        library = self._world.libraries.get(drop.library or "")
        elf = self._world.environment.files[self._world.paths[drop.member]]
        if library is None or elf.module_hooks:
            return None
        hooks = [name for name in _hooks(drop.member) if name in library.exports.definitions]
        return f"it defines `{hooks[0]}`, which makes the file a module" if hooks else None

    def _hazards(self, drops: list[Unused], changes: list[_Change]) -> dict[Unused, list[str]]:
        found: dict[Unused, dict[str, None]] = {}
        for change in changes:
            inside = set(change.before.objects)
            for drop in drops:
                if drop.library in change.lost and self._world.paths[drop.member] in inside:
                    leaving = _closure(change.before, drop.library or "") & change.lost
                    for hazard in self._effects(drop, change, leaving):
                        found.setdefault(drop, {})[hazard] = None
        leaving_names = {
            drop.name
            for drop in drops
            if not may_come_from_platform(drop.name)
            and any(drop.library in change.lost for change in changes)
        }
        mentions = self._definitions.mentions(leaving_names)
        for drop in drops:
            if members := mentions.get(drop.name):
                hazard = f"`{members[0]}` has the name as a string, and may open it at run time"
                found.setdefault(drop, {})[hazard] = None
        return {drop: list(why) for drop, why in found.items()}

    def _effects(self, drop: Unused, change: _Change, leaving: set[str]) -> Iterator[str]:
        world = self._world
        library = world.libraries.get(drop.library or "")
        if library is None:
            return
        elf = world.environment.files[world.paths[drop.member]]
        if may_come_from_platform(drop.name):
            weak = any(each.weak and each.file == drop.name for each in elf.undefined)
            if drop.name == "libpthread.so.0" and elf.is_executable and weak:
                yield "before glibc 2.34 a program without it has no threads"
        else:
            if library.elf.has_constructors:
                yield "it has constructors: code that runs when it is loaded"
            if among(library.exports.definitions, _INTERPOSED):
                yield "it defines `malloc` or its fellows, in place of the C library's"
        for path in sorted(leaving - {drop.library}):
            registry = self._registry(change, path)
            if registry is not None:
                yield (
                    f"{self._named(path)}, which comes with it, has constructors, and calls "
                    f"{self._named(registry)}, which stays"
                )

    def _registry(self, change: _Change, path: str) -> str | None:
        """Return what a library that goes may have told of itself: a library that stays.

        Constructors that call nothing but libraries of the platform, or what goes with them,
        only prepare their own library.
        """
        library = self._world.libraries.get(path)
        if library is None or not library.elf.has_constructors or _is_platform(path):
            return None
        return next(
            (
                other
                for other in change.before.objects
                if other not in change.lost and not _is_platform(other) and self._calls(path, other)
            ),
            None,
        )

    def _calls(self, user: str, provider: str) -> bool:
        """Return whether `provider` defines anything that `user` refers to."""
        key = (user, provider)
        if key not in self._called:
            library = self._world.libraries.get(provider)
            self._called[key] = library is not None and bool(
                among(library.exports.definitions, self._world.references[user])
            )
        return self._called[key]

    def _named(self, path: str) -> str:
        return f"`{path.rpartition('/')[2]}`"


def _is_platform(path: str) -> bool:
    return may_come_from_platform(path.rpartition("/")[2])


# --- Libraries that say too little ----------------------------------------------------------------


def _missing(world: LoadedWheel) -> Iterator[Missing]:
    """Find symbols that an object has only because others of its group bring the provider."""
    members = {path: member for member, path in world.paths.items()}
    unbound = {member: some for member in world.paths if (some := _unbound(world, member))}
    found: dict[tuple[str, str], dict[str, str]] = {}
    for root, load in world.loads.items():
        inside = [path for path in load.objects if members.get(path) in unbound]
        names = frozenset(name for path in inside for name in unbound[members[path]])
        if not names or inside == [world.paths[root]]:
            continue
        bound = bindings(load, world.index, among=names, dependents=frozenset(inside))
        for reference, provider in bound.items():
            member = members[reference.dependent]
            if provider is not None and reference.symbol in unbound[member]:
                found.setdefault((member, provider), {}).setdefault(reference.symbol, root)
    for (member, provider), symbols in found.items():
        soname = world.libraries[provider].elf.soname
        yield Missing(
            member=member,
            name=soname or provider.rpartition("/")[2],
            symbols=tuple(symbols),
            root=next(iter(symbols.values())),
        )


def _unbound(world: LoadedWheel, member: str) -> frozenset[str]:
    """Return the strong references that nobody defines where `member` is opened on its own.

    None where a library of its group is not at hand: that one may define them.
    """
    load, path = world.loads[member], world.paths[member]
    elf = world.environment.files[path]
    whole = path in load.objects and all(each in world.libraries for each in load.objects)
    if not whole or elf.is_executable or any(r.result is None for r in load.requests):
        return frozenset()
    scope = Scope(load.objects, world.index)
    return frozenset(
        name
        for name, version, file, _, weak in elf.undefined
        if not weak
        and file not in elf.needed
        and scope.lookup(name, version) is None
        and not is_python_api(name)
    )
