"""Simulated loads of a wheel's objects among the libraries of this machine.

Loads are computed from values, as in `loader.loading`; the real loader opens nothing. The wheel is
assumed to be repaired: a bundled library counts as found, even if no search path leads there yet.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Protocol, TypeVar, cast

from wheelfix.analysis.lddtree_search import Host, MachineLibraries, Outside
from wheelfix.analysis.world import World
from wheelfix.budget import Budget
from wheelfix.elf.model import Elf, Exports, Libc, Undefined, without_needed
from wheelfix.loader.as_needed import Library
from wheelfix.loader.glibc_moves import before_moves, is_part, oldest_glibc
from wheelfix.loader.load_values import Environment, Load
from wheelfix.loader.loading import LastLoads
from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.loader.python_api import init_functions
from wheelfix.loader.symbol_lookup import Scope, SymbolIndex, undefined_names
from wheelfix.loader.symbol_versions import Release
from wheelfix.providers.model import Provided
from wheelfix.wheel.edits import Edit
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.names_in_code import CodeNames

_Result = TypeVar("_Result")

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


class LastResults:
    """The last result of each question, for the next time that it is asked. Mutable."""

    def __init__(self) -> None:
        self._results: dict[object, tuple[object, Any]] = {}

    def recall(self, question: object, key: object, make: Callable[[], _Result]) -> _Result:
        """Return the last answer to `question`, made again only if `key` is another one."""
        last = self._results.get(question)
        if last is None or last[0] != key:
            last = self._results[question] = key, make()
        return cast("_Result", last[1])


class LastLoaded:
    """What was last computed of a wheel's loads and symbols, for what follows. Mutable."""

    def __init__(self) -> None:
        self.loads = LastLoads()
        self.results = LastResults()
        self._indices: dict[str, SymbolIndex] = {}
        self._names: dict[str, frozenset[str]] = {}
        self._parts: tuple[Mapping[str, Library], Release] = {}, ()
        self._moved: tuple[Library, ...] = ()

    def before_moves(
        self, libraries: Mapping[str, Library], release: Release
    ) -> tuple[Library, ...]:
        """Return glibc's of `libraries` as they were in `release`, the last ones if it is the same.

        To an index, libraries are the same if their exports are.
        """
        parts = {path: library for path, library in libraries.items() if is_part(library)}
        if self._parts != (parts, release):
            self._parts, self._moved = (parts, release), tuple(before_moves(parts, release))
        return self._moved

    def names(self, purpose: str, names: frozenset[str]) -> frozenset[str]:
        """Return the last set of names for `purpose`, with `names` if it has not all of them."""
        last = self._names.get(purpose, frozenset())
        if not names <= last:
            last = self._names[purpose] = last | names
        return last

    def index(
        self, purpose: str, libraries: Mapping[str, Library], names: frozenset[str], libc: Libc
    ) -> SymbolIndex:
        """Return the last index for `purpose` if it has all `names` and the symbols of `libraries`.

        Another one is made for the same set of names if that has all: to look up the same set in a
        library once more costs nothing, an equal set is compared name by name.
        """
        last = self._indices.get(purpose)
        wanted = last.wanted if last is not None and names <= last.wanted else names
        if last is None or last.wanted is not wanted or not last.has_symbols_of(libraries):
            last = self._indices[purpose] = SymbolIndex(libraries, wanted, libc)
        return last


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
    last: LastLoaded = field(default_factory=LastLoaded)

    @classmethod
    def around(
        cls,
        world: World,
        wheel: Wheel,
        definitions: Definitions,
        last: LastLoaded,
    ) -> "LoadedWheel":
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
            added |= {library.path: library for library in last.before_moves(added, release)}
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
            index=last.index("others", libraries, names, environment.libc),
            machine=hosts,
            budget=world.budget,
            last=last,
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
        loads = self.last.loads.load_each([*self.paths.values()], self.environment, self.budget)
        return dict(zip(self.paths, loads, strict=True))

    @cached_property
    def scopes(self) -> Mapping[str, Scope]:
        """Member -> the lookup scope of its load."""
        return {member: Scope(load.objects, self.index) for member, load in self.loads.items()}

    def unbound(self, member: str) -> Sequence[Undefined]:
        """Return the references of `member`, a library, that stay undefined in its own load."""
        path, objects = self.paths[member], self.loads[member].objects
        exports = [file in self.libraries and self.libraries[file].exports for file in objects]
        key = self.elf(member).undefined, objects, exports
        find = partial(self.scopes[member].unbound, path)
        return self.last.results.recall(("unbound", path), key, find)

    def symbol_providers(self, path: str) -> frozenset[str]:
        """Return the libraries that define a symbol to which the object at `path` refers."""
        return frozenset[str]().union(*self.index.references(path))

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
