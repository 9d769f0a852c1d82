"""Judgement of the DT_NEEDED entries of a wheel's objects: unused ones, and missing ones.

`loader.as_needed` computes what the linker would have left out with `--as-needed`. Here each such
entry is dropped on trial: every object of the wheel is loaded with and without it, among the
libraries of the oldest glibc that can load the wheel. An entry goes only if each strong reference
still binds to the same file, and nothing else is known that may use it.

What else counts depends on where the library is once the wheel is repaired. One that stays outside
may be missing, and then the entry costs the import: for extension modules and programs it goes as
the linker decides. One that is or goes into the wheel costs some bytes: its entry goes only from an
extension module, and only if nothing can tell.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field, replace
from functools import cached_property
from itertools import takewhile

from wheelfix.analysis.loaded_wheel import ALLOCATOR, Definitions, LoadedWheel, module_hooks
from wheelfix.budget import Budget
from wheelfix.depth_first import postorder
from wheelfix.elf.demangle import join_symbols
from wheelfix.elf.exports import among, idle, preemptible
from wheelfix.elf.model import (
    LIBC_SONAMES,
    Elf,
    Undefined,
    is_of_compiler,
    libc_of,
    starts_at_origin,
)
from wheelfix.frozen import frozen
from wheelfix.grouping import flatten, grouped, values_by_key
from wheelfix.loader import python_api
from wheelfix.loader.as_needed import Decision, Library, Why
from wheelfix.loader.load_values import Environment, Load
from wheelfix.loader.loading import load_all, load_each
from wheelfix.loader.platform_libraries import (
    may_come_from_platform,
    platform_parts,
    symbols_of,
)
from wheelfix.loader.symbol_lookup import Reference, Scope, SymbolIndex
from wheelfix.named_tuple import NamedTuple
from wheelfix.python_sources.global_imports import may_set_flags
from wheelfix.python_sources.imported_modules import module_name
from wheelfix.python_sources.opening_calls import takes_a_module
from wheelfix.settings import PruneNeeded, Settings, matches_any
from wheelfix.text import join_some
from wheelfix.wheel.grafted_name import earlier_names
from wheelfix.wheel.names_in_code import CodeNames

_MOST_REASONS = 3
_ENTRIES = "the unused entries"
_BINDINGS = "what the symbols are bound to"
_LOOKS_UP = frozenset({"dlsym", "dlvsym"})
_OPENS = frozenset({"dlopen", "dlmopen"})
RUNTIMES = ("libgomp.so.*", "libgfortran.so.*", "libquadmath.so.*")
"""GCC's own libraries: references to them have versions, which name them, and their constructors
prepare nothing but themselves."""


class Unused(NamedTuple):
    """A DT_NEEDED entry that the linker would have left out."""

    member: str
    name: str
    library: str | None
    """The path of the library; None if it is not found."""
    outside: bool = False
    """Whether the library stays outside the wheel: a repair neither finds it there nor grafts."""
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


@frozen
class Pruning:
    """The DT_NEEDED entries of a wheel to drop and to add."""

    unused: tuple[Unused, ...] = ()
    absent: Mapping[str, tuple[Decision, ...]] = field(
        default_factory=dict[str, tuple[Decision, ...]]
    )
    """Member -> the entries of libraries that are not found, and may define what is left open."""
    missing: tuple[Missing, ...] = ()


def judge_needed(
    loaded: LoadedWheel,
    settings: Settings,
    definitions: Definitions,
    elsewhere: Sequence[str] = (),
    *,
    is_asked: bool = False,
) -> Pruning:
    """Judge the DT_NEEDED entries of all objects.

    `elsewhere` are patterns of the libraries that come from others, or from the machine;
    `is_asked` says that another wheel may ask the modules for symbols.
    """
    lacking = {member: left for member in loaded.paths if (left := _unbound(loaded, member))}
    trial = _Trial(loaded, settings, definitions, lacking, is_asked=is_asked)
    absent: dict[str, tuple[Decision, ...]] = {}
    candidates: list[Unused] = []
    for member, own in loaded.own.items():
        doubtful = [
            decision
            for decision in own.decisions
            if decision.why is Why.UNUSED
            or (
                decision.why is Why.ABSENT
                and not trial.open_references.are_of(member, decision.name)
            )
        ]
        found = {d.name: own.results.get(d.name) for d in doubtful}
        # Nothing else asks for the open references of a load, which are many.
        is_open = any(d.why is Why.ABSENT or not _is_known(d, found, loaded) for d in doubtful)
        names = trial.open_references.strong(member) if is_open else ()
        judged = [decision._replace(open_references=names) for decision in doubtful]
        absent[member] = tuple(d for d in judged if d.why is Why.ABSENT and d.open_references)
        candidates += (
            Unused(
                member=member,
                name=decision.name,
                library=(library := found[decision.name]),
                outside=_stays_outside(decision.name, library, loaded, settings, elsewhere),
            )
            for decision in judged
            if (_is_known(decision, found, loaded) or not decision.open_references)
            and _may_go(decision.name, loaded, settings)
        )
    missing = tuple(_missing(loaded, lacking))
    if settings.prune_needed is PruneNeeded.OFF:
        return Pruning(absent=absent, missing=missing)
    return Pruning(unused=trial.outcome(candidates), absent=absent, missing=missing)


def _is_known(decision: Decision, found: Mapping[str, str | None], loaded: LoadedWheel) -> bool:
    """Return whether it is known what the library of an entry defines.

    What is left open may be defined by another version of a library from elsewhere, of which the
    one here is only an example; a library of the wheel is what it is.
    """
    library, name = found[decision.name], decision.name
    is_of_all = loaded.promises(name) or matches_any(name, RUNTIMES)
    return library is not None and (library in loaded.members or is_of_all)


def _may_go(name: str, loaded: LoadedWheel, settings: Settings) -> bool:
    """Return whether an entry for `name` without a reference known to use it may be unused."""
    if not name or libc_of(name):
        return False  # an empty name loads nothing
    if any(matches_any(each, settings.keep_needed) for each in (name, *earlier_names(name))):
        return False
    if python_api.is_libpython(name.rpartition("/")[2]):
        return False  # WF205 is about these
    return name not in platform_parts(loaded.environment.libc) or _is_requested(name, settings)


def _is_requested(name: str, settings: Settings) -> bool:
    """Return whether the settings drop an unused entry for `name` whatever depends on it."""
    return settings.prune_needed is PruneNeeded.ALL or matches_any(name, settings.drop_needed)


def _stays_outside(
    name: str,
    library: str | None,
    loaded: LoadedWheel,
    settings: Settings,
    elsewhere: Sequence[str],
) -> bool:
    """Return whether a repair leaves a library outside the wheel."""
    if library is None or loaded.promises(name):
        return True
    if library in loaded.members:
        return False
    left = (*settings.exclude, *elsewhere)
    is_left = matches_any(name, left) or matches_any(library, settings.exclude)
    return is_left or not matches_any(name, settings.grafts)


class _OpenReferences:
    """The references of objects that nothing known defines: an absent library may. Mutable."""

    def __init__(self, loaded: LoadedWheel) -> None:
        self._loaded = loaded
        self._known: dict[str, Sequence[Undefined]] = {}
        self._wanted: dict[str, Sequence[Undefined]] = {}

    def strong(self, member: str) -> tuple[str, ...]:
        """Return what the load of `member` leaves open of strong references of its objects."""
        in_load = self._in_load(member)
        return tuple({s.name: None for _, symbols in in_load for s in symbols if not s.weak})

    def are_of(self, member: str, library: str) -> bool:
        """Return whether a listed library of the platform, but glibc, may define strong ones."""
        loaded, libc = self._loaded, self._loaded.environment.libc
        known = symbols_of(library, libc) if loaded.promises(library) else None
        if known is None or known is symbols_of(LIBC_SONAMES[libc], libc):
            return False  # glibc's libraries share their names
        return any(
            symbol.name in known
            and not symbol.weak
            and loaded.own[member].scope.lookup(symbol.name, symbol.version) is None
            for path in loaded.loads[member].objects
            if path in loaded.members
            for symbol in self._unbound(loaded.members[path])
        )

    def weak(self, member: str, library: str) -> Iterator[Reference]:
        """Yield weak references in the load of `member` that an absent `library` may define."""
        for path, symbols in self._in_load(member):
            for symbol in symbols:
                if symbol.weak and symbol.file in {None, library}:
                    yield Reference(path, symbol.name, symbol.version, weak=True)

    def _in_load(self, member: str) -> Iterator[tuple[str, Sequence[Undefined]]]:
        """Yield the objects of the wheel in a load, each with what it leaves open there."""
        loaded = self._loaded
        scope = loaded.own[member].scope
        for path in loaded.loads[member].objects:
            if path in loaded.members:
                symbols = self._of(loaded.members[path])
                loaded.budget.spend(len(symbols), _BINDINGS, path)
                if path != loaded.paths[member]:  # what that leaves open was looked up in this load
                    symbols = [s for s in symbols if scope.lookup(s.name, s.version) is None]
                yield path, symbols

    def _of(self, member: str) -> Sequence[Undefined]:
        """Return the references of `member` that its own load leaves open."""
        if member not in self._known:
            self._known[member] = self._find(member)
        return self._known[member]

    def _find(self, member: str) -> Sequence[Undefined]:
        loaded, path = self._loaded, self._loaded.paths[member]
        if path not in loaded.libraries or path not in loaded.loads[member].objects:
            return loaded.elf(member).undefined  # not known which of them are defined
        requested = (request.name for request in loaded.loads[member].requests)
        libc = loaded.environment.libc
        names = filter(loaded.promises, requested)
        promised = {LIBC_SONAMES[libc], *names}
        unbound = self._unbound(member)
        left = frozenset(symbol.name for symbol in unbound)
        sets = (symbols_of(name, libc) or () for name in promised)
        for known in {id(each): each for each in sets}.values():  # several have the same one
            left = left.difference(known)
        return [symbol for symbol in unbound if symbol.name in left]

    def _unbound(self, member: str) -> Sequence[Undefined]:
        """Return what `member` refers to, and nothing that it loads here, nor Python, defines."""
        if member not in self._wanted:
            self._wanted[member] = self._find_unbound(member)
        return self._wanted[member]

    def _find_unbound(self, member: str) -> Sequence[Undefined]:
        loaded, elf = self._loaded, self._loaded.elf(member)
        library = loaded.libraries.get(loaded.paths[member])
        if library is None:
            return ()
        copies = library.exports.copies if elf.is_executable else ()
        unbound = [
            *loaded.own[member].unbound,
            *(c for c in copies if loaded.own[member].scope.lookup(c.name, c.version) is None),
        ]
        loaded.budget.spend(len(unbound), _BINDINGS, loaded.paths[member])
        api, skipped = python_api.names(), idle(library.exports) if unbound else ()
        return [
            symbol
            for symbol in unbound
            # It names its library: the linker's decision has counted it.
            if symbol.file is None or (symbol.weak and not loaded.promises(symbol.file))
            if symbol.name not in api
            and symbol.name not in skipped
            and not python_api.is_python_name(symbol.name)
            and not is_of_compiler(symbol)
        ]


_Moved = Mapping[Reference, tuple[str, str | None]]


@frozen
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
_Weak = dict[Unused, list[Reference]]


class _Trial:
    """The trial: entries are dropped, and those that turn out to be needed are kept."""

    def __init__(
        self,
        loaded: LoadedWheel,
        settings: Settings,
        definitions: Definitions,
        lacking: Mapping[str, Sequence[Undefined]],
        *,
        is_asked: bool,
    ) -> None:
        self._loaded = loaded
        self._is_asked = is_asked
        self.open_references = _OpenReferences(loaded)
        self._incomplete: dict[str, Sequence[Undefined]] = {
            loaded.paths[member]: references for member, references in lacking.items()
        }
        """Path -> what the object lacks by itself; those of the machine that were asked for."""
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
            elif not self._is_wanted(candidate) and (reason := self._untried(candidate)):
                kept[candidate] = candidate._replace(hazards=(reason,), kept=True)
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
            # Hazards are judged only once every strong reference binds as before: an entry that is
            # kept for a reference may also prevent the hazard of another drop.
            hazards = {} if needed else self._hazards(drops, changes)
            keeping = needed or {
                drop: why for drop, why in hazards.items() if not self._is_wanted(drop)
            }
            if not keeping:
                break
            for drop, why in keeping.items():
                kept[drop] = drop._replace(hazards=tuple(why), kept=True, forceable=not needed)
        return tuple(
            kept.get(drop) or drop._replace(hazards=tuple(hazards.get(drop, ())))
            for drop in candidates
        )

    def _is_wanted(self, drop: Unused) -> bool:
        """Return whether the settings drop the entry as the linker would."""
        return _is_requested(drop.name, self._settings)

    def _untried(self, drop: Unused) -> str | None:
        """Return the reason to keep an entry whatever a trial shows, None if there is none."""
        elf = self._loaded.elf(drop.member)
        is_loaded_alone = elf.is_module or elf.is_executable
        if not is_loaded_alone if drop.outside else not _is_imported(drop.member, elf):
            return "the object is not an extension module: what loads it may reach it by dlsym"
        if drop.outside and (looking := self._asking(drop.member)):
            return f"by dlsym {_quote(looking)} may ask it for symbols"
        if self._takes(drop.member) or (drop.outside and self._takes_any):
            return "Python code takes the file of a module, and may ask it for symbols"
        if self._sets_flags:
            return "Python code opens objects for all others (RTLD_GLOBAL)"
        if not drop.outside and self._opens_by_name:
            return "code of the wheel opens libraries, and may ask the module for symbols"
        return None

    def _asking(self, member: str) -> str | None:
        """Return an object of the wheel in the load of `member` that calls dlsym and no dlopen.

        With a handle from dlopen it asks what it opens, whatever the load has.
        """
        files = self._loaded.environment.files
        for path in self._loaded.loads[member].objects:
            elf = files.get(path) if path in self._loaded.members else None
            if elf and _calls(elf, _LOOKS_UP) and not _calls(elf, _OPENS):
                return path
        return None

    @cached_property
    def _opens_by_name(self) -> bool:
        return opens_by_name(map(self._loaded.elf, self._loaded.paths), self._definitions.code)

    def _takes(self, member: str) -> bool:
        """Return whether a source that names a module has the file of one; or another wheel's."""
        name = module_name(member).rpartition(".")[2].encode()
        taking = self._definitions.code.taking_modules
        return self._is_asked or any(name in source for source in taking)

    @cached_property
    def _takes_any(self) -> bool:
        return self._definitions.code.has_opening(takes_a_module)

    @cached_property
    def _sets_flags(self) -> bool:
        return self._definitions.code.has_opening(may_set_flags)

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
        return library is not None and not all(map(self._loaded.promises, library.elf.needed))

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
        loads = load_each(paths, environment, loaded.budget)
        for root, after in zip(roots, loads, strict=True):
            if root in tried and not tried[root].involves(others):
                continue
            before = loaded.loads[root]
            differs = before.objects != after.objects
            tried[root] = _Change(
                before=before,
                after=after,
                moved=self._moved_bindings(loaded.own[root].scope, after, unversioned)
                if differs
                else {},
                lost=frozenset(before.objects) - frozenset(after.objects),
                drops=[
                    drop
                    for drop in flatten(dropped.get(path, ()) for path in before.objects)
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
        references: dict[str, list[tuple[Reference, Undefined]]] = {}
        for path in dropped:
            before, after = (
                around.files[path].undefined for around in (self._loaded.environment, environment)
            )
            self._loaded.budget.spend(len(before), _BINDINGS, path)
            references[path] = [
                (Reference(path, old.name, old.version, old.weak), new)
                for old, new in zip(before, after, strict=True)
                if old is not new
            ]
        return references

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
                    listed = reasons.setdefault(drop, [])
                    listed += [why] if len(listed) < _MOST_REASONS and why not in listed else []
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
        every = frozenset(flatten(names.values()))
        owners = values_by_key((name, path) for path, members in names.items() for name in members)
        wanted = frozenset(
            name
            for path, library in libraries.items()
            if path in displaced
            for name in among(library.exports.definitions, every)
            if name in owners and (*owners[name],) != (path,)
        )
        libc = self._loaded.environment.libc
        index = SymbolIndex(libraries, wanted, libc)
        return index, {
            path: [
                Reference(path, name, definition.version, weak=False)
                for name in members
                if name in wanted
                for definition in libraries[path].exports.definitions[name]
                if index.providers(name, definition.version)[1:]
            ]
            for path, members in names.items()
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
        """Return the weak references that become null by each drop."""
        weak: _Weak = {}
        for change in changes:
            null = {
                reference: (before, after)
                for reference, (before, after) in change.moved.items()
                if reference.weak and after is None and not _is_platform(reference.dependent)
            }
            for reference, drops in self._responsible(change, null):
                self._loaded.budget.spend(1 + len(drops), _BINDINGS, change.before.root)
                for drop in drops:
                    weak.setdefault(drop, []).append(reference)
        return weak

    def _responsible(
        self, change: _Change, moved: _Moved
    ) -> Iterator[tuple[Reference, Sequence[Unused]]]:
        """Yield the references, each with the drops to undo so that it binds as before."""
        responsible: dict[str, Sequence[Unused]] = {}
        for reference, (before, _) in moved.items():
            if before not in responsible:
                responsible[before] = self._drops_that_lose(change, before)
            yield reference, responsible[before]

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

    def _hazards(self, drops: list[Unused], changes: Sequence[_Change]) -> _Reasons:
        hazards_of: dict[Unused, dict[str, None]] = {}
        for drop, why in self._rebound_otherwise(changes).items():
            hazards_of[drop] = dict.fromkeys(why)
        null = self._null(changes)
        null |= {
            d: [*self.open_references.weak(d.member, d.name)] for d in drops if d.library is None
        }
        for drop, references in null.items():
            hazards_of.setdefault(drop, {}).update(dict.fromkeys(_nullings(references)))
        for change in changes:
            self._loaded.budget.spend(len(change.drops) // 5, _ENTRIES, change.before.root)
            incomplete = {path for path in change.lost if self._lacks_by_itself(path)}
            grafts = [d for d in change.drops if not d.outside or matches_any(d.name, RUNTIMES)]
            looking = self._looking_up(change) if grafts else ()
            for drop in change.drops:
                hazards = looking if drop in grafts else ()
                if drop.library in change.lost:
                    hazards = (
                        *self._effects(drop, change),
                        *self._reasons_to_stay(drop, change, incomplete),
                        *hazards,
                    )
                if hazards:
                    hazards_of.setdefault(drop, {}).update(dict.fromkeys(hazards))
        lost = frozenset[str]().union(*(change.lost for change in changes))
        leaving = [drop for drop in drops if drop.library in lost and self._is_found_by_it(drop)]
        mentions = self._definitions.code.mentions({drop.name for drop in leaving})
        for drop in leaving:
            if members := mentions.get(drop.name):
                hazard = (
                    f"`{members[0]}` contains the name as a string, and may open it at run time"
                )
                hazards_of.setdefault(drop, {})[hazard] = None
        return {drop: list(why) for drop, why in hazards_of.items() if why}

    def _is_found_by_it(self, drop: Unused) -> bool:
        """Return whether who opens the library by its name may find it only through the entry.

        One that stays outside is found where the loader looks anyway, unless the object has a
        search path that leads there.
        """
        if self._loaded.promises(drop.name):
            return False
        entries = self._loaded.elf(drop.member).entries
        return not drop.outside or any(map(starts_at_origin, entries))

    def _lacks_by_itself(self, path: str) -> Sequence[Undefined]:
        """Return what an object lacks if it is opened first."""
        if path not in self._incomplete and path not in self._loaded.members:
            loaded = self._loaded
            (load,) = load_all((path,), loaded.environment, loaded.budget)
            unbound = Scope(load.objects, loaded.index).unbound(path)
            known = loaded.libraries.keys() >= {*load.objects} and not load.missing
            self._incomplete[path] = _strong(unbound, loaded.libraries[path].elf) if known else ()
        return self._incomplete.get(path, ())

    def _looking_up(self, change: _Change) -> tuple[str, ...]:
        """Return the reason that an object which stays looks symbols up in its scope."""
        files = self._loaded.environment.files
        calling = (
            path
            for path in change.after.objects
            if not _is_platform(path) and path in files and _calls(files[path], _LOOKS_UP)
        )
        return tuple(f"by dlsym {_quote(path)} may ask it for symbols" for path in [*calling][:1])

    def _effects(self, drop: Unused, change: _Change) -> Iterator[str]:
        library = self._loaded.libraries.get(drop.library or "")
        if library is None or self._loaded.promises(drop.name):
            return
        if among(library.exports.definitions, ALLOCATOR):
            yield "it defines memory allocation functions such as `malloc`"
        if not drop.outside:
            yield from self._code_that_runs(library, change)

    def _code_that_runs(self, library: Library, change: _Change) -> Iterator[str]:
        """Yield the reasons that what leaves the load with `library` runs when it is loaded."""
        files = self._loaded.environment.files
        for path in sorted(change.closure(library.path, self._loaded.budget) & change.lost):
            elf = files.get(path)
            if elf is None or _is_platform(path):
                continue
            it = "it" if path == library.path else f"{_quote(path)}, which comes with it,"
            if elf.constructors:
                yield f"{it} has constructors: code that runs when it is loaded"
            if elf.destructors:
                yield f"{it} has destructors: code that runs at the end"
            gone = [
                request.name
                for request in change.before.requests
                if request.requester == path and request.result is None
            ]
            unknown = [name for name in gone if not self._loaded.promises(name)]
            if unknown:
                yield f"{it} needs {join_some(unknown)}, not found: what that does is not known"

    def _reasons_to_stay(
        self,
        drop: Unused,
        change: _Change,
        incomplete: Collection[str],
    ) -> Iterator[str]:
        """Yield what leaving objects, `incomplete`, take from those that load them.

        They may be opened later: by themselves they do not load.
        """
        if drop.library is None or not incomplete:
            return
        closure = change.closure(drop.library, self._loaded.budget)
        for path in sorted(closure.intersection(incomplete)):
            scope = self._loaded.own[self._loaded.members[change.before.root]].scope
            for symbol in self._incomplete[path]:
                if (provider := scope.lookup(symbol.name, symbol.version)) is not None:
                    yield (
                        f"{_quote(path)} takes `{symbol.name}` from {_quote(provider)}, "
                        "and does not load by itself"
                    )


def opens_by_name(objects: Iterable[Elf], code: CodeNames) -> bool:
    """Return whether code of a wheel opens libraries, by names that may be built when it runs."""
    return code.opens_libraries or any(_calls(elf, _OPENS) for elf in objects)


def _is_imported(member: str, elf: Elf) -> bool:
    """Return whether Python imports an object by its file name."""
    return elf.is_module and not frozenset(module_hooks(member)).isdisjoint(elf.module_hooks)


def _calls(elf: Elf, functions: AbstractSet[str]) -> bool:
    """Return whether an object refers to one of `functions`, of whatever version."""
    return any(symbol.name in functions for symbol in elf.undefined)


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
        f"weak references of {_quote(dependent)} become null: {join_symbols(names)}"
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
    uses: dict[tuple[str, str], dict[str, str]] = {}
    for root, load in loaded.loads.items():
        scope = loaded.own[root].scope
        inside = (loaded.members.get(path, "") for path in load.objects)
        for member in inside:
            for symbol in lacking.get(member, ()) if member != root else ():
                provider = scope.lookup(symbol.name, symbol.version)
                if provider is not None:
                    uses.setdefault((member, provider), {}).setdefault(symbol.name, root)
    for (member, provider), roots in uses.items():
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
    return _strong(loaded.own[member].unbound, elf)


def _strong(unbound: Iterable[Undefined], elf: Elf) -> tuple[Undefined, ...]:
    return tuple(
        symbol
        for symbol in unbound
        if not symbol.weak
        and symbol.file not in elf.needed
        and not python_api.is_python_name(symbol.name)
    )
