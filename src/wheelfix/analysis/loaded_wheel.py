"""Simulated loads of a wheel's objects among the libraries of this machine.

Loads are computed from values, as in `loader.loading`; the real loader opens nothing. The wheel is
assumed to be repaired: a bundled library counts as found, even if no search path leads there yet.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from wheelfix.analysis.lddtree_search import Host, MachineLibraries, Outside
from wheelfix.analysis.world import World
from wheelfix.budget import Budget
from wheelfix.elf.model import Elf, Exports, Libc, Undefined, without_needed
from wheelfix.loader.as_needed import Library
from wheelfix.loader.glibc_moves import before_moves, is_part, oldest_glibc
from wheelfix.loader.load_values import Environment, Load
from wheelfix.loader.loading import load_each, unchanged_loads
from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.loader.python_api import init_functions
from wheelfix.loader.symbol_lookup import Scope, SymbolIndex, undefined_names
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


@dataclass(frozen=True, kw_only=True, eq=False)
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
    kept: "LoadedWheel | None" = None

    @classmethod
    def around(cls, world: World, wheel: Wheel, definitions: Definitions, before=None) -> "LoadedWheel":
        """Add to `world`, where `wheel` is installed, the libraries of this machine that it needs.

        Those of glibc define what they define in the oldest glibc that can load the wheel.
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
        if environment.libc is Libc.GLIBC:
            release = oldest_glibc(wheel.elfs.values())
            parts = {path: library for path, library in added.items() if is_part(library)}
            added |= {library.path: library for library in before_moves(parts, release)}
        folders = dict.fromkeys(path.rpartition("/")[0] for path in cache.values())
        libraries = own | added
        others = ALLOCATOR.union(_other_names(libraries))
        names = others | undefined_names(libraries)
        return cls(
            environment=replace(
                environment,
                files={**environment.files, **{path: added[path].elf for path in added}},
                cache=cache,
                chosen=hosts.chosen,
                default_directories=tuple(folders),
            ),
            paths=paths,
            libraries=libraries,
            index=SymbolIndex(libraries, names, environment.libc),
            machine=hosts,
            budget=world.budget,
            kept=before,
        )

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
    def loads(self) -> Mapping[str, Load]:
        """Member -> its load, as the first of a process."""
        known = {}
        if self.kept is not None:
            old = {load.root: load for load in self.kept.loads.values()}
            known = unchanged_loads(old, self.kept.environment, self.environment)
        left = [path for path in self.paths.values() if path not in known]
        known |= dict(zip(left, load_each(left, self.environment, self.budget), strict=True))
        return {member: known[path] for member, path in self.paths.items()}

    @cached_property
    def scopes(self) -> Mapping[str, Scope]:
        """Member -> the lookup scope of its load."""
        return {member: Scope(load.objects, self.index) for member, load in self.loads.items()}

    def unbound(self, member: str) -> Sequence[Undefined]:
        """Return the references of `member`, a library, that stay undefined in its own load."""
        return self.scopes[member].unbound(self.paths[member])

    def results(self, member: str) -> Mapping[str, str | None]:
        """Return the path found for each DT_NEEDED entry of `member`, None if not found."""
        path = self.paths[member]
        return {
            request.name: request.result
            for request in reversed(self.loads[member].requests)
            if request.requester == path
        }

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


def _other_names(libraries: Mapping[str, Library]) -> Iterator[str]:
    """Yield names that are looked up without being undefined symbols."""
    for path, library in libraries.items():
        yield from module_hooks(path)
        if library.elf.is_executable:
            yield from (copy.name for copy in library.exports.copies)
