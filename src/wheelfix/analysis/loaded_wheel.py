"""Simulated loads of a wheel's objects among the libraries of this machine.

Loads are computed from values, as in `loader.loading`; the real loader opens nothing. The wheel is
assumed to be repaired: a bundled library counts as found, even if no search path leads there yet.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Protocol

from wheelfix.analysis.lddtree_search import Host, MachineLibraries, Outside
from wheelfix.analysis.world import World
from wheelfix.budget import Budget
from wheelfix.elf.model import Elf, Exports, Libc, Undefined, without_needed
from wheelfix.frozen import frozen
from wheelfix.loader.as_needed import Decision, Library, decide
from wheelfix.loader.glibc_moves import before_moves, is_part, oldest_glibc
from wheelfix.loader.load_values import Environment, Load
from wheelfix.loader.loading import load_each, unchanged_loads
from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.loader.python_api import init_functions
from wheelfix.loader.symbol_lookup import Scope, SymbolIndex, undefined_names
from wheelfix.loader.symbol_versions import Release
from wheelfix.named_tuple import NamedTuple
from wheelfix.providers.model import Provided
from wheelfix.wheel.edits import Edit
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.names_in_code import CodeNames

ALLOCATOR = frozenset({"malloc", "free", "calloc", "realloc"})
"""Functions that a library may define in place of the C library's."""


class Definitions(Protocol):
    """Reads the definitions of a wheel's members and of libraries around it."""

    def including(self, edits: Iterable[Edit]) -> "Definitions":
        """Return the same for the wheel after `edits`, which apply in order."""
        ...

    def reader(self, member: str, /) -> Callable[[], Exports] | None:
        """Return a function that reads the exports of `member`, None if its bytes are unknown."""
        ...

    @property
    def host(self) -> Host:
        """The search for libraries outside of the wheel."""
        ...

    @property
    def outside(self) -> Outside:
        """The search for other libraries than the wheel's of a name."""
        ...

    def provider_library(
        self, name: str, dependent: Elf, provider: Provided, directory: str | None, /
    ) -> Library | None:
        """Find the library `name` of `provider`, preferably in `directory`."""
        ...

    def preferring(self, places: Iterable[str], /) -> "Definitions":
        """Return the same that searches `places` first."""
        ...

    @property
    def code(self) -> CodeNames:
        """What the objects and Python sources of the wheel name."""
        ...


@frozen(eq=False, kw_only=False)
class ObjectLoad:
    """The load of an object, as the first of a process, and what its symbols bind to."""

    load: Load
    index: SymbolIndex
    own: Library
    """The object itself."""
    libraries: Mapping[str, Library]
    """Path -> each that can be read, of the load and others."""

    @cached_property
    def scope(self) -> Scope:
        """The lookup scope."""
        return Scope(self.load.objects, self.index)

    @cached_property
    def unbound(self) -> Sequence[Undefined]:
        """The references of the object, a library, that stay undefined."""
        return self.scope.unbound(self.load.root)

    @cached_property
    def results(self) -> Mapping[str, str | None]:
        """The path found for each DT_NEEDED entry of the object, None if not found."""
        requests = reversed(self.load.requests)
        return {r.name: r.result for r in requests if r.requester == self.load.root}

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        """The linker's decisions on the DT_NEEDED entries of the object."""
        libraries = self.libraries
        return decide(self.own, {n: libraries.get(r or "") for n, r in self.results.items()})


class _Moves(NamedTuple):
    """The libraries of glibc, as they were in the release that the wheel asks for."""

    release: Release
    parts: Mapping[str, Library]
    """As they are on this machine, by path."""
    older: Mapping[str, Library]

    @classmethod
    def before(cls, release: Release, parts: Mapping[str, Library]) -> "_Moves":
        """Return what `parts` were in `release`."""
        older = {library.path: library for library in before_moves(parts, release)}
        return cls(release, parts, older)


_NO_MOVES = _Moves((), {}, {})


@frozen(eq=False)
class LoadedWheel:
    """The installed wheel, the libraries that it loads, and their symbols."""

    environment: Environment
    paths: Mapping[str, str]
    """Member -> installed path; dynamic objects only."""
    libraries: Mapping[str, Library]
    """Path -> the library, if its exports can be read."""
    index: SymbolIndex
    """These libraries, by the symbols that they define."""
    machine: MachineLibraries
    """What the objects find on this machine."""
    budget: Budget
    """What the loads spend."""
    moves: _Moves = _NO_MOVES
    """Kept, so that the same libraries of glibc are the same value after an edit."""
    kept: Mapping[str, ObjectLoad] = field(default_factory=dict[str, ObjectLoad])
    """Path -> what the wheel before some edits loads, where that is the same here."""

    @classmethod
    def around(
        cls,
        world: World,
        wheel: Wheel,
        definitions: Definitions,
        before: "LoadedWheel | None" = None,
    ) -> "LoadedWheel":
        """Add to `world`, where `wheel` is installed, the libraries of this machine that it needs.

        Those of glibc define what they define in the oldest glibc that can load the wheel. What is
        the same in the loaded wheel `before` some edits is not computed again.
        """
        environment = world.environment
        paths = {
            member: world.paths[member]
            for member, elf in wheel.elfs.items()
            if elf.dynamic and member in world.paths
        }
        own = dict(_wheel_libraries(wheel, paths, definitions))
        cache = {member.rpartition("/")[2]: path for member, path in reversed(paths.items())}
        libc = environment.libc
        cache = {n: path for n, path in cache.items() if not may_come_from_platform(n, libc)}
        installed = {path: wheel.elfs[member] for member, path in paths.items()}
        hosts = MachineLibraries(
            elfs=installed,
            shipped=cache,
            host=definitions.host,
            outside=definitions.outside,
            budget=world.budget,
        )
        cache = {name: located[0].path for name, located in hosts.by_name.items()} | cache
        added = {
            library.path: library
            for libraries in hosts.by_name.values()
            for library in libraries
            if library.path not in environment.files
        }
        moves = _NO_MOVES
        if environment.libc is Libc.GLIBC:
            release = oldest_glibc(wheel.elfs.values())
            parts = {path: library for path, library in added.items() if is_part(library)}
            is_same = before is not None and before.moves[:2] == (release, parts)
            moves = before.moves if before and is_same else _Moves.before(release, parts)
            added |= moves.older
        folders = dict.fromkeys(path.rpartition("/")[0] for path in cache.values())
        libraries = own | added
        loaded = cls(
            environment=replace(
                environment,
                files={**environment.files, **{path: added[path].elf for path in added}},
                cache=cache,
                chosen=hosts.chosen,
                default_directories=tuple(folders),
            ),
            paths=paths,
            libraries=libraries,
            index=_index(libraries, environment.libc, before),
            machine=hosts,
            budget=world.budget,
            moves=moves,
        )
        return loaded if before is None else replace(loaded, kept=dict(loaded._kept_of(before)))

    def _kept_of(self, before: "LoadedWheel") -> Iterator[tuple[str, ObjectLoad]]:
        own = {loaded.load.root: loaded for loaded in before.own.values()}
        loads = {path: loaded.load for path, loaded in own.items()}
        for path, load in unchanged_loads(loads, before.environment, self.environment).items():
            yield path, own[path] if self.index is before.index else self._object_load(load)

    def elf(self, member: str) -> Elf:
        """Return the ELF facts of `member`."""
        return self.environment.files[self.paths[member]]

    def promises(self, name: str) -> bool:
        """Return whether a platform tag for the C library promises the library `name`."""
        return may_come_from_platform(name, self.environment.libc)

    @cached_property
    def members(self) -> Mapping[str, str]:
        """Installed path -> member."""
        return {path: member for member, path in self.paths.items()}

    @cached_property
    def own(self) -> Mapping[str, ObjectLoad]:
        """Member -> its load, as the first of a process, with the symbols."""
        left = [path for path in self.paths.values() if path not in self.kept]
        loads = load_each(left, self.environment, self.budget)
        new = {load.root: self._object_load(load) for load in loads}
        return {member: new.get(path) or self.kept[path] for member, path in self.paths.items()}

    def _object_load(self, load: Load) -> ObjectLoad:
        path, libraries = load.root, self.libraries
        elf = self.environment.files[path]
        own = libraries.get(path) or Library(path=path, elf=elf, read=Exports)
        return ObjectLoad(load, self.index, own, libraries)

    @cached_property
    def loads(self) -> Mapping[str, Load]:
        """Member -> its load, as the first of a process."""
        return {member: loaded.load for member, loaded in self.own.items()}

    def without_needed(self, entries: Iterable[tuple[str, str]]) -> Environment:
        """Return the environment without some DT_NEEDED entries, given as (member, name)."""
        names: dict[str, set[str]] = {}
        for member, name in entries:
            names.setdefault(self.paths[member], set()).add(name)
        changed = {
            path: without_needed(self.environment.files[path], gone) for path, gone in names.items()
        }
        return replace(self.environment, files={**self.environment.files, **changed})


def module_hooks(file: str) -> tuple[str, ...]:
    """Return the names of the functions by which CPython would initialize `file` as a module.

    There are none for a file whose name is not an identifier, such as a grafted library.
    """
    module = file.rpartition("/")[2].partition(".")[0]
    return init_functions(module) if module.isidentifier() else ()


def _wheel_libraries(
    wheel: Wheel, paths: Mapping[str, str], definitions: Definitions
) -> Iterator[tuple[str, Library]]:
    for member, path in paths.items():
        read = definitions.reader(member)
        if read is not None:
            yield path, Library(path=path, elf=wheel.elfs[member], read=read)


def _index(libraries: Mapping[str, Library], libc: Libc, before: LoadedWheel | None) -> SymbolIndex:
    """Return the index of `libraries`: the last one if none refers to or defines other symbols."""
    if before is not None and _symbols(before.libraries) == _symbols(libraries):
        return before.index
    others = ALLOCATOR.union(_other_names(libraries))
    return SymbolIndex(libraries, others | undefined_names(libraries), libc)


def _symbols(libraries: Mapping[str, Library]) -> Mapping[str, tuple[object, ...]]:
    return {
        path: (lib.elf.undefined, lib.exports, lib.elf.is_executable)
        for path, lib in libraries.items()
    }


def _other_names(libraries: Mapping[str, Library]) -> Iterator[str]:
    """Yield names that are looked up without being undefined symbols."""
    for path, library in libraries.items():
        yield from module_hooks(path)
        if library.elf.is_executable:
            yield from (copy.name for copy in library.exports.copies)
