"""Judgement of the DT_NEEDED entries of a wheel's objects: unused ones, and missing ones.

`loader.as_needed` computes what the linker would have left out with `--as-needed`. Here each such
entry is dropped on trial: every object of the wheel is loaded with and without it, among the
libraries of the oldest glibc that can load the wheel. The entry is unused only if each strong
reference still binds to the same file. Other effects keep an entry, unless the settings say
otherwise: an object's own symbols or weak references that bind elsewhere, constructors, names
opened at run time.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import takewhile
from typing import NamedTuple

from wheelfix.analysis.loaded_wheel import ALLOCATOR, Definitions, LoadedWheel, module_hooks
from wheelfix.budget import Budget
from wheelfix.depth_first import postorder
from wheelfix.elf.exports import among, preemptible
from wheelfix.elf.model import Exports, Undefined, libc_of
from wheelfix.grouping import grouped, values_by_key
from wheelfix.loader.as_needed import Decision, Library, Why, decide
from wheelfix.loader.load_values import Environment, Load
from wheelfix.loader.platform_libraries import GLIBC_PARTS, may_come_from_platform
from wheelfix.loader.python_api import is_python_name
from wheelfix.loader.symbol_lookup import Reference, Scope, SymbolIndex
from wheelfix.settings import PruneNeeded, Settings, matches_any
from wheelfix.text import join_some

_MOST_REASONS = 3
_ENTRIES = "the unused entries"
_BINDINGS = "what the symbols are bound to"


class Unused(NamedTuple):
    """A DT_NEEDED entry that the linker would have left out."""

    member: str
    name: str
    library: str | None
    """The path of the library; None if it is not found."""
    hazards: tuple[str, ...] = ()
    """Effects of dropping the entry, apart from strong symbols."""
    kept: bool = False
    """Whether a hazard keeps the entry."""
    forceable: bool = True
    """Whether `drop-needed` can override that."""


class Missing(NamedTuple):
    """A library that an object uses without DT_NEEDED: another object of the load needs it."""

    member: str
    name: str
    """The name for DT_NEEDED: the SONAME of the provider."""
    symbols: tuple[str, ...]
    root: str
    """A member whose load includes the provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """The DT_NEEDED entries of a wheel to drop and to add."""

    unused: tuple[Unused, ...] = ()
    absent: Mapping[str, tuple[Decision, ...]] = field(
        default_factory=dict[str, tuple[Decision, ...]]
    )
    """Member -> the entries that cannot be judged, because the library is not found."""
    missing: tuple[Missing, ...] = ()


def judge_needed(loaded: LoadedWheel, settings: Settings, definitions: Definitions) -> Pruning:
    """Judge the DT_NEEDED entries of all objects."""
    results = {member: loaded.results(member) for member in loaded.paths}
    decisions = {member: _decide(loaded, member, results[member]) for member in loaded.paths}
    absent = {
        member: tuple(
            decision
            for decision in some
            if decision.why is Why.ABSENT and not _may_go(decision, settings)
        )
        for member, some in decisions.items()
    }
    lacking = {member: some for member in loaded.paths if (some := _unbound(loaded, member))}
    missing = tuple(_missing(loaded, lacking))
    if settings.prune_needed is PruneNeeded.OFF:
        return Pruning(absent=absent, missing=missing)
    candidates = [
        Unused(member=member, name=decision.name, library=results[member].get(decision.name))
        for member, some in decisions.items()
        for decision in some
        if _may_go(decision, settings)
    ]
    unused = _Trial(loaded, settings, definitions, lacking).outcome(candidates)
    return Pruning(unused=unused, absent=absent, missing=missing)


def _decide(
    loaded: LoadedWheel, member: str, results: Mapping[str, str | None]
) -> tuple[Decision, ...]:
    """Return the linker's decisions on the entries of one member."""
    path = loaded.paths[member]
    own = loaded.libraries.get(path) or Library(path=path, elf=loaded.elf(member), read=Exports)
    found = {name: loaded.libraries.get(result or "") for name, result in results.items()}
    facts = [(name, library and library.facts) for name, library in found.items()]
    decide_again = partial(decide, own, found)
    return loaded.last.results.recall(("decisions", path), (own.facts, facts), decide_again)


def _may_go(decision: Decision, settings: Settings) -> bool:
    name = decision.name
    if libc_of(name) or matches_any(name, settings.keep_needed):
        return False
    if name in GLIBC_PARTS and not _is_requested(name, settings):
        return False
    if decision.why is Why.ABSENT:
        return not decision.open_references and matches_any(name, settings.drop_needed)
    return decision.why is Why.UNUSED


def _is_requested(name: str, settings: Settings) -> bool:
    """Return whether the settings drop an unused entry for `name` whatever depends on it."""
    return settings.prune_needed is PruneNeeded.ALL or matches_any(name, settings.drop_needed)


_Moved = Mapping[Reference, tuple[str, str | None]]


@dataclass(frozen=True, kw_only=True)
class _Change:
    """A load with and without some entries."""

    before: Load
    after: Load
    moved: _Moved
    """References that bind to another file, or to none: the file before and after."""
    lost: frozenset[str]
    """Files that are no longer loaded."""
    drops: Sequence[Unused]
    """The entries for a library that is found, of the objects of the load."""

    @property
    def differs(self) -> bool:
        """Whether other objects are loaded, or in another order."""
        return self.before.objects != self.after.objects

    @cached_property
    def _shared(self) -> int:
        """How many objects come first in both loads: what these define is found as before."""
        pairs = zip(self.before.objects, self.after.objects, strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    @cached_property
    def behind(self) -> Sequence[str]:
        """The objects, without the entries, whose own symbols others may define before them."""
        return self.after.objects[self._shared :]

    @cached_property
    def displaced(self) -> AbstractSet[str]:
        """The files that may be the first with a symbol in one load, and not in the other."""
        left = [path for path in self.before.objects if path not in self.lost]
        if left == [*self.after.objects]:
            return self.lost
        return frozenset((*self.before.objects[self._shared :], *self.behind))

    @cached_property
    def _dependencies(self) -> Mapping[str | None, Sequence[str]]:
        """Object -> what it needs, with the entries."""
        requests = self.before.requests
        return values_by_key((r.requester, r.result) for r in requests if r.result is not None)

    @cached_property
    def _closures(self) -> dict[str, frozenset[str]]:
        """Those that were asked for. Mutable."""
        return {}

    def closure(self, start: str, budget: Budget) -> frozenset[str]:
        """Return `start` and its direct and indirect dependencies, with the entries."""
        if start not in self._closures:
            budget.spend(len(self.before.requests), "the dependencies", start)
            needed = self._dependencies
            self._closures[start] = frozenset(postorder([start], lambda path: needed.get(path, ())))
        return self._closures[start]

    def involves(self, paths: AbstractSet[str]) -> bool:
        """Return whether one of `paths` is loaded, with the entries or without."""
        return not all(map(paths.isdisjoint, (self.before.objects, self.after.objects)))


_Unversioned = Mapping[str, Sequence[tuple[Reference, Undefined]]]
"""By object: a reference as it is, and without its version."""
_Reasons = dict[Unused, list[str]]
_Weak = dict[Unused, dict[Reference, str]]


class _Trial:
    """The trial: entries are dropped, and those that turn out to be needed are kept."""

    def __init__(
        self,
        loaded: LoadedWheel,
        settings: Settings,
        definitions: Definitions,
        lacking: Mapping[str, Sequence[Undefined]],
    ) -> None:
        self._loaded = loaded
        self._incomplete = {loaded.paths[member]: some for member, some in lacking.items()}
        """The objects of the wheel that load only with others -> what they lack by themselves."""
        self._settings = settings
        self._definitions = definitions
        self._dropped: Mapping[str, Sequence[Unused]] = {}
        """Path -> the entries dropped from the object there in the last round."""
        self._tried: dict[str, _Change] = {}
        """Member -> its load in the last round."""

    def outcome(self, candidates: list[Unused]) -> tuple[Unused, ...]:
        """Return the candidates with their hazards, and whether these keep them."""
        kept: dict[Unused, Unused] = {}
        for candidate in candidates:
            if (hook := self._hook(candidate)) is not None:
                kept[candidate] = candidate._replace(hazards=(hook,), kept=True, forceable=False)
        for candidate, redirection in self._redirecting(candidates):
            kept.setdefault(
                candidate, candidate._replace(hazards=(redirection,), kept=True, forceable=False)
            )
        # An entry that is kept brings back its library, and with it whatever that needs: so each
        # round loads the objects again with fewer drops, until none of the rest must be kept.
        while True:
            drops = [candidate for candidate in candidates if candidate not in kept]
            changes = self._changes(drops)
            needed = self._rebound(changes)
            null = self._null(changes)
            # Hazards are judged only once every strong reference binds as before: an entry that is
            # kept for a reference may also prevent the hazard of another drop.
            hazards = {} if needed else self._hazards(drops, changes, null)
            keeping = needed or {
                drop: why
                for drop, why in hazards.items()
                if not _is_requested(drop.name, self._settings)
            }
            if not keeping:
                break
            for drop, why in keeping.items():
                kept[drop] = drop._replace(hazards=tuple(why), kept=True, forceable=not needed)
        weak = {
            drop: _nullings(
                ref for ref in some if not self._keeps_weak_reference(drop, ref, some[ref])
            )
            for drop, some in null.items()
        }
        return tuple(
            kept.get(drop) or drop._replace(hazards=(*hazards.get(drop, ()), *weak.get(drop, ())))
            for drop in candidates
        )

    def _redirecting(self, candidates: Sequence[Unused]) -> Iterator[tuple[Unused, str]]:
        """Yield the entries whose library leads to another file for a name that is needed anyway.

        The graft would find that file elsewhere without them: by a search path of the object.
        """
        if not any(map(self._may_redirect, candidates)):
            return
        before = self._loaded.machine.found
        after = self._loaded.without_needed((drop.member, drop.name) for drop in candidates)
        elfs = {path: after.files[path] for path in before}
        by_path = grouped(candidates, lambda drop: self._loaded.paths[drop.member])
        for path, libraries in replace(self._loaded.machine, elfs=elfs).found.items():
            for name, library in libraries.items():
                if (there := before[path].get(name, library).path) != library.path:
                    why = f"`{name}` is `{there}` with it, and `{library.path}` without it"
                    yield from ((drop, why) for drop in by_path.get(path, candidates))

    def _may_redirect(self, candidate: Unused) -> bool:
        """Return whether other libraries may be found through that of an entry."""
        library = self._loaded.libraries.get(candidate.library or "")
        return library is not None and not all(map(may_come_from_platform, library.elf.needed))

    def _changes(self, drops: list[Unused]) -> list[_Change]:
        """Load each object again without the entries of `drops`; return the loads that differ.

        A load is the same as in the last round if the same entries of its objects are dropped.
        """
        loaded, tried = self._loaded, self._tried
        dropped = grouped(drops, lambda drop: loaded.paths[drop.member])
        # A load is repeated only if an object in it, with or without the drops, is one of these.
        others = {
            path
            for path in dropped.keys() | self._dropped.keys()
            if dropped.get(path) != self._dropped.get(path)
        }
        self._dropped = dropped
        environment = loaded.without_needed((drop.member, drop.name) for drop in drops)
        unversioned = self._unversioned_references(dropped, environment)
        roots = [
            root
            for root, load in loaded.loads.items()
            if not dropped.keys().isdisjoint(load.objects)
        ]
        paths = [loaded.paths[root] for root in roots]
        loads = loaded.last.loads.load_each(paths, environment, loaded.budget)
        for root, after in zip(roots, loads, strict=True):
            if root in tried and not tried[root].involves(others):
                continue
            before = loaded.loads[root]
            differs = before.objects != after.objects
            tried[root] = _Change(
                before=before,
                after=after,
                moved=self._moved_bindings(loaded.scopes[root], after, unversioned)
                if differs
                else {},
                lost=frozenset(before.objects) - frozenset(after.objects),
                drops=[
                    drop
                    for path in before.objects
                    for drop in dropped.get(path, ())
                    if drop.library is not None
                ],
            )
        return [tried[root] for root in roots if tried[root].differs]

    def _moved_bindings(
        self, before: Scope, load: Load, unversioned: _Unversioned
    ) -> dict[Reference, tuple[str, str | None]]:
        """Return the references bound in the scope `before` that bind otherwise in `load`."""
        loaded, after = self._loaded, Scope(load.objects, self._loaded.index)
        loaded.budget.spend(2 * len(loaded.index.referenced), _BINDINGS, load.root)
        moved = {
            providers: (old, new)
            for providers in loaded.index.referenced
            if (old := before.first(providers)) is not None
            and (new := after.first(providers)) != old
        }
        names = frozenset[str]().union(*(loaded.index.referenced[providers] for providers in moved))
        bindings: dict[Reference, tuple[str, str | None]] = {}
        for path in load.objects if moved else ():
            library = loaded.libraries.get(path)
            if library is None or library.names.isdisjoint(names):
                continue
            loaded.budget.spend(len(library.elf.undefined), _BINDINGS, path)
            for symbol in library.elf.undefined:
                if symbol.name in names:
                    providers = loaded.index.providers(symbol.name, symbol.version)
                    if providers in moved:
                        key = Reference(path, symbol.name, symbol.version, symbol.weak)
                        bindings[key] = moved[providers]
        loaded.budget.spend(2 * len(bindings), _BINDINGS, load.root)  # they are judged as well
        # The version of a weak reference goes with the entry of its library (Verneed), and without
        # a version it may bind elsewhere: so these are looked up by both of their forms.
        for path in load.objects:
            for reference, symbol in unversioned.get(path, ()):
                bindings.pop(reference, None)
                file = before.lookup(reference.symbol, reference.version)
                other = after.lookup(symbol.name, symbol.version)
                if file is not None and other != file:
                    bindings[reference] = (file, other)
        return bindings

    def _unversioned_references(
        self, dropped: Iterable[str], environment: Environment
    ) -> _Unversioned:
        """Return the weak references that lose their version with an entry, before and after.

        `environment` has the objects without the entries that are dropped, from those at `dropped`.
        """
        found: dict[str, list[tuple[Reference, Undefined]]] = {}
        for path in dropped:
            before, after = (
                around.files[path].undefined for around in (self._loaded.environment, environment)
            )
            self._loaded.budget.spend(len(before), _BINDINGS, path)
            found[path] = [
                (Reference(path, old.name, old.version, old.weak), new)
                for old, new in zip(before, after, strict=True)
                if old is not new
            ]
        return found

    def _rebound(self, changes: Sequence[_Change]) -> _Reasons:
        """Return the drops that unbind a strong reference, or bind it to another provider."""
        return self._reasons(
            (change, {ref: files for ref, files in change.moved.items() if not ref.weak})
            for change in changes
        )

    def _rebound_otherwise(self, changes: Sequence[_Change]) -> _Reasons:
        """Return the drops by which weak references, or an object's own symbols, bind elsewhere."""
        index, own = self._own(changes)
        return self._reasons(
            (change, {**_weak_elsewhere(change), **self._preempted_references(change, index, own)})
            for change in changes
        )

    def _reasons(self, changes: Iterable[tuple[_Change, _Moved]]) -> _Reasons:
        """Return for each drop the first of the moved references for which it is responsible."""
        reasons: _Reasons = {}
        for change, moved in changes:
            differ = {files for files in set(moved.values()) if not _is_same_effect(*files)}
            others = {ref: files for ref, files in moved.items() if files in differ}
            explained: set[str] = set()
            for reference, drops in self._responsible(change, others):
                provider, after = others[reference]
                if provider in explained:
                    continue
                self._loaded.budget.spend(1 + len(drops) // 5, _BINDINGS, change.before.root)
                why = _describe_rebinding(reference, provider, after)
                for drop in drops:
                    some = reasons.setdefault(drop, [])
                    some += [why] if len(some) < _MOST_REASONS and why not in some else []
                # A heavy library moves thousands of references: a few of them say enough.
                if all(len(reasons[drop]) == _MOST_REASONS for drop in drops):
                    explained.add(provider)
        return reasons

    def _own(
        self, changes: Collection[_Change]
    ) -> tuple[SymbolIndex, Mapping[str, Sequence[Reference]]]:
        """Return the references of objects to symbols of their own that may move, by file.

        Others define the symbol as well, among them a file that a change displaces, and no object
        looks behind its own definition.
        """
        libraries = self._loaded.libraries
        behind = frozenset[str]().union(*(change.behind for change in changes))
        displaced = frozenset[str]().union(*(change.displaced for change in changes))
        names = {
            path: preemptible(library.exports)
            for path, library in libraries.items()
            if path in behind
        }
        every = self._loaded.last.names("own", frozenset[str]().union(*names.values()))
        owners = values_by_key((name, path) for path, some in names.items() for name in some)
        wanted = frozenset(
            name
            for path, library in libraries.items()
            if path in displaced
            for name in among(library.exports.definitions, every)
            if name in owners and (*owners[name],) != (path,)
        )
        libc = self._loaded.environment.libc
        index = self._loaded.last.index("own", libraries, wanted, libc)
        return index, {
            path: [
                Reference(path, name, definition.version, weak=False)
                for name in some
                if name in wanted
                for definition in libraries[path].exports.definitions[name]
                if index.providers(name, definition.version)[1:]
            ]
            for path, some in names.items()
        }

    def _preempted_references(
        self,
        change: _Change,
        index: SymbolIndex,
        own: Mapping[str, Sequence[Reference]],
    ) -> dict[Reference, tuple[str, str | None]]:
        """Return the references to `own` symbols that bind to another file after a change."""
        references = sum(len(own.get(path, ())) for path in change.behind)
        self._loaded.budget.spend(references, "the own symbols", change.before.root)
        before, after = (Scope(load.objects, index) for load in (change.before, change.after))
        return {
            reference: (old, new)
            for path in change.behind
            for reference in own.get(path, ())
            if (old := before.lookup(reference.symbol, reference.version)) is not None
            and (new := after.lookup(reference.symbol, reference.version)) != old
        }

    def _null(self, changes: Sequence[_Change]) -> _Weak:
        """Return the weak references that become null by each drop, with their file before."""
        found: _Weak = {}
        for change in changes:
            null = {
                reference: (before, after)
                for reference, (before, after) in change.moved.items()
                if reference.weak and after is None and not _is_platform(reference.dependent)
            }
            for reference, drops in self._responsible(change, null):
                self._loaded.budget.spend(1 + len(drops), _BINDINGS, change.before.root)
                for drop in drops:
                    found.setdefault(drop, {})[reference] = null[reference][0]
        return found

    def _keeps_weak_reference(self, drop: Unused, reference: Reference, before: str) -> bool:
        """Return whether an entry must stay for a weak reference that is null without it.

        A library of the wheel is there for those who use it, if it is there. Elsewhere, the linker
        would have dropped what only the object's own weak references use. Those to libraries of
        glibc are the exception: before 2.34 they say whether the process has threads.
        """
        if before in self._loaded.members:
            return True
        if drop.library != before and not self._loaded.elf(drop.member).is_executable:
            return False
        is_own = reference.dependent == self._loaded.paths[drop.member]
        return not is_own or before.rpartition("/")[2] in GLIBC_PARTS

    def _responsible(
        self, change: _Change, moved: _Moved
    ) -> Iterator[tuple[Reference, Sequence[Unused]]]:
        """Yield the references, each with the drops to undo so that it binds as before."""
        found: dict[str, Sequence[Unused]] = {}
        for reference, (before, _) in moved.items():
            if before not in found:
                found[before] = self._drops_that_lose(change, before)
            yield reference, found[before]

    def _drops_that_lose(self, change: _Change, provider: str) -> Sequence[Unused]:
        """Return the drops to undo so that `provider` is loaded as before."""
        self._loaded.budget.spend(len(change.drops) // 5, _ENTRIES, change.before.root)
        direct = [drop for drop in change.drops if drop.library == provider]
        return direct or [
            drop
            for drop in change.drops
            if drop.library and provider in change.closure(drop.library, self._loaded.budget)
        ]

    def _hook(self, drop: Unused) -> str | None:
        """Return the hazard that the library has the module's entry point, found by dlsym."""
        library = self._loaded.libraries.get(drop.library or "")
        if library is None or self._loaded.elf(drop.member).module_hooks:
            return None
        hooks = [name for name in module_hooks(drop.member) if name in library.exports.definitions]
        return f"it defines `{hooks[0]}`, which Python imports" if hooks else None

    def _hazards(self, drops: list[Unused], changes: Sequence[_Change], null: _Weak) -> _Reasons:
        hazards_of: dict[Unused, dict[str, None]] = {}
        for drop, why in self._rebound_otherwise(changes).items():
            hazards_of[drop] = dict.fromkeys(why)
        for drop, some in null.items():
            if why := _nullings(
                ref for ref in some if self._keeps_weak_reference(drop, ref, some[ref])
            ):
                hazards_of.setdefault(drop, {}).update(dict.fromkeys(why))
        for change in changes:
            self._loaded.budget.spend(len(change.drops) // 5, _ENTRIES, change.before.root)
            registering = dict(self._registrations(change))
            incomplete = change.lost & self._incomplete.keys()
            for drop in change.drops:
                if drop.library in change.lost:
                    hazards = (
                        *self._effects(drop),
                        *self._reasons_to_stay(drop, change, registering, incomplete),
                    )
                    hazards_of.setdefault(drop, {}).update(dict.fromkeys(hazards))
        lost = frozenset[str]().union(*(change.lost for change in changes))
        leaving_names = {
            drop.name
            for drop in drops
            if drop.library in lost and not may_come_from_platform(drop.name)
        }
        mentions = self._definitions.code.mentions(leaving_names)
        for drop in drops:
            if members := mentions.get(drop.name):
                hazard = (
                    f"`{members[0]}` contains the name as a string, and may open it at run time"
                )
                hazards_of.setdefault(drop, {})[hazard] = None
        return {drop: list(why) for drop, why in hazards_of.items() if why}

    def _effects(self, drop: Unused) -> Iterator[str]:
        library = self._loaded.libraries.get(drop.library or "")
        if library is None:
            return
        if not may_come_from_platform(drop.name):
            if library.elf.has_constructors:
                yield "it has constructors: code that runs when it is loaded"
            if among(library.exports.definitions, ALLOCATOR):
                yield "it defines memory allocation functions such as `malloc`"

    def _reasons_to_stay(
        self,
        drop: Unused,
        change: _Change,
        registering: Mapping[str, str],
        incomplete: Collection[str],
    ) -> Iterator[str]:
        """Yield what remaining libraries know of those that leave with the library of `drop`.

        Also what leaving objects of the wheel, which may be opened later, take from those that load
        them: by themselves they do not load. Leaving libraries are `registering` with others, or
        `incomplete`.
        """
        if drop.library is None or not (registering or incomplete):
            return
        closure = change.closure(drop.library, self._loaded.budget)
        for path in sorted(closure.intersection(incomplete)):
            scope = self._loaded.scopes[self._loaded.members[change.before.root]]
            for symbol in self._incomplete[path]:
                if (provider := scope.lookup(symbol.name, symbol.version)) is not None:
                    yield (
                        f"{_quote(path)} takes `{symbol.name}` from {_quote(provider)}, "
                        "and does not load by itself"
                    )
        for path in sorted((closure - {drop.library}) & registering.keys()):
            yield (
                f"{_quote(path)}, which comes with it, has constructors, and calls "
                f"{_quote(registering[path])}, which stays"
            )

    def _registrations(self, change: _Change) -> Iterator[tuple[str, str]]:
        """Yield the leaving libraries that register at a remaining one, each with that one."""
        for path in change.lost:
            registry = self._registry(change, path)
            if registry is not None:
                yield path, registry

    def _registry(self, change: _Change, path: str) -> str | None:
        """Return a remaining library where the constructors of a leaving one may register it.

        Constructors that call only libraries of the platform, or those that leave with them,
        initialize just their own library.
        """
        library = self._loaded.libraries.get(path)
        if library is None or not library.elf.has_constructors or _is_platform(path):
            return None
        called = self._loaded.symbol_providers(path) - change.lost
        found = (other for other in change.before.objects if other in called)
        return next((other for other in found if not _is_platform(other)), None)


def _weak_elsewhere(change: _Change) -> _Moved:
    """Return the weak references that bind to another file, and not to none."""
    return {
        reference: (before, after)
        for reference, (before, after) in change.moved.items()
        if reference.weak and after is not None
    }


def _describe_rebinding(reference: Reference, before: str, after: str | None) -> str:
    otherwise = f"from {_quote(after)}" if after is not None else "from none"
    return (
        f"{_quote(reference.dependent)} takes `{reference.symbol}` from {_quote(before)} "
        f"through it, {otherwise} without it"
    )


def _nullings(references: Iterable[Reference]) -> list[str]:
    """Return a sentence for each object whose weak `references` become null."""
    symbols = values_by_key((ref.dependent, ref.symbol) for ref in references)
    return [
        f"weak references of {_quote(dependent)} become null: {join_some(dict.fromkeys(names))}"
        for dependent, names in symbols.items()
    ]


def _is_same_effect(before: str, after: str | None) -> bool:
    """Return whether both are of the platform: its parts define some symbols twice (`frexpl`)."""
    return after is not None and _is_platform(before) and _is_platform(after)


def _quote(path: str) -> str:
    return f"`{path.rpartition('/')[2]}`"


def _is_platform(path: str) -> bool:
    return may_come_from_platform(path.rpartition("/")[2])


def _missing(loaded: LoadedWheel, lacking: Mapping[str, Sequence[Undefined]]) -> Iterator[Missing]:
    """Yield libraries used without DT_NEEDED, which another object of the load needs.

    `lacking` are the references of members that stay undefined if they are loaded on their own.
    """
    found: dict[tuple[str, str], dict[str, str]] = {}
    for root, load in loaded.loads.items():
        scope = loaded.scopes[root]
        inside = (loaded.members.get(path, "") for path in load.objects)
        for member in inside:
            for symbol in lacking.get(member, ()) if member != root else ():
                provider = scope.lookup(symbol.name, symbol.version)
                if provider is not None:
                    found.setdefault((member, provider), {}).setdefault(symbol.name, root)
    for (member, provider), roots in found.items():
        yield Missing(
            member=member,
            name=loaded.libraries[provider].elf.soname or provider.rpartition("/")[2],
            symbols=tuple(roots),
            root=next(iter(roots.values())),
        )


def _unbound(loaded: LoadedWheel, member: str) -> tuple[Undefined, ...]:
    """Return the strong references that stay undefined if `member` is loaded on its own.

    Empty if a library of the load cannot be read: that library may define them.
    """
    load, elf, path = loaded.loads[member], loaded.elf(member), loaded.paths[member]
    known = path in load.objects and loaded.libraries.keys() >= {*load.objects}
    if not known or elf.is_executable or any(r.result is None for r in load.requests):
        return ()
    unbound = loaded.unbound(member)
    return loaded.last.results.recall(
        ("strong unbound", path),
        (unbound, elf.needed),
        lambda: tuple(
            symbol
            for symbol in unbound
            if not symbol.weak and symbol.file not in elf.needed and not is_python_name(symbol.name)
        ),
    )
