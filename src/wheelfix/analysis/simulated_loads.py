"""Simulated loads of a wheel's objects among the libraries of this machine.

Loads are computed from values, as in `loader.loading`; the real loader opens nothing. The wheel is
assumed to be repaired: a bundled library counts as found, even if no search path leads there yet.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from wheelfix.budget import Budget
from wheelfix.elf.model import Elf, Exports, Libc, without_needed
from wheelfix.loader.as_needed import Library
from wheelfix.loader.glibc_moves import before_moves, oldest_glibc
from wheelfix.loader.install_schemes import Layout
from wheelfix.loader.load_values import Environment, Load
from wheelfix.loader.loading import load_each
from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.loader.python_api import init_functions
from wheelfix.loader.symbol_lookup import Scope, SymbolIndex, undefined_names
from wheelfix.wheel.edits import Edit
from wheelfix.wheel.model import Wheel

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

    def host(self, name: str, dependent: Elf, /) -> Library | None:
        """Find the library outside of the wheel for the DT_NEEDED entry `name` of `dependent`."""
        ...

    def provider_library(
        self, name: str, dependent: Elf, place: str, folder: str | None, /
    ) -> Library | None:
        """Find the library `name` in `place`, the wheel or directory of a provider."""
        ...

    def preferring(self, places: Iterable[str], /) -> "Definitions":
        """Return the same with `places` before the other entries of `library-path`."""
        ...

    def mentions(self, names: Collection[str], /) -> Mapping[str, tuple[str, ...]]:
        """Return for each library name the members that contain it as a string."""
        ...


@dataclass(frozen=True, kw_only=True)
class LoadedWheel:
    """The installed wheel, the libraries that it loads, and their symbols."""

    environment: Environment
    paths: Mapping[str, str]
    """Member -> installed path; dynamic objects only."""
    index: SymbolIndex
    """The libraries whose exports can be read, by the symbols that they define."""
    budget: Budget
    """What the loads spend."""

    @classmethod
    def around(
        cls,
        wheel: Wheel,
        layout: Layout,
        environment: Environment,
        definitions: Definitions,
        budget: Budget,
    ) -> "LoadedWheel":
        """Install `wheel` in `layout`, and add the libraries of this machine that it needs.

        Those of glibc define what they define in the oldest glibc that can load the wheel.
        """
        paths = {
            member: layout.paths[member]
            for member, elf in wheel.elfs.items()
            if elf.dynamic and member in layout.paths
        }
        own = dict(_own_libraries(wheel, paths, definitions))
        cache = {member.rpartition("/")[2]: path for member, path in reversed(paths.items())}
        cache = {name: path for name, path in cache.items() if not may_come_from_platform(name)}
        elfs = [wheel.elfs[member] for member in paths]
        needed = [(name, elf) for elf in elfs for name in elf.needed]
        hosts = _host_libraries(needed, cache, definitions)
        cache |= {name: library.path for name, library in hosts.items()}
        added = {
            library.path: library
            for library in hosts.values()
            if library.path not in environment.files
        }
        if environment.libc is Libc.GLIBC:
            release = oldest_glibc(wheel.elfs.values())
            added |= {library.path: library for library in before_moves(added, release)}
        folders = dict.fromkeys(path.rpartition("/")[0] for path in cache.values())
        libraries = own | added
        others = ALLOCATOR.union(_other_names(libraries))
        wanted = others | undefined_names(libraries)
        return cls(
            environment=replace(
                environment,
                files={**environment.files, **{path: added[path].elf for path in added}},
                cache=cache,
                default_directories=tuple(folders),
            ),
            paths=paths,
            index=SymbolIndex(libraries, wanted, environment.libc),
            budget=budget,
        )

    def elf(self, member: str) -> Elf:
        """Return the ELF facts of `member`."""
        return self.environment.files[self.paths[member]]

    @cached_property
    def members(self) -> Mapping[str, str]:
        """Installed path -> member."""
        return {path: member for member, path in self.paths.items()}

    @cached_property
    def loads(self) -> Mapping[str, Load]:
        """Member -> its load, as the first of a process."""
        loads = load_each(self.paths.values(), self.environment, self.budget)
        return dict(zip(self.paths, loads, strict=True))

    @property
    def libraries(self) -> Mapping[str, Library]:
        """Path -> the library, if its exports can be read."""
        return self.index.libraries

    @cached_property
    def scopes(self) -> Mapping[str, Scope]:
        """Member -> the lookup scope of its load."""
        return {member: Scope(load.objects, self.index) for member, load in self.loads.items()}

    @cached_property
    def symbol_providers(self) -> Mapping[str, frozenset[str]]:
        """Path -> the libraries that define a symbol to which the object there refers."""
        return {
            path: frozenset[str]().union(*references)
            for path, references in self.index.references.items()
        }

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


def module_hooks(file: str) -> tuple[str, str]:
    """Return the names of the functions by which CPython would initialize `file` as a module."""
    return init_functions(file.rpartition("/")[2].partition(".")[0])


def _own_libraries(
    wheel: Wheel, paths: Mapping[str, str], definitions: Definitions
) -> Iterator[tuple[str, Library]]:
    for member, path in paths.items():
        read = definitions.reader(member)
        if read is not None:
            yield path, Library(path=path, elf=wheel.elfs[member], read=read)


def _host_libraries(
    needed: Iterable[tuple[str, Elf]], own: Container[str], definitions: Definitions
) -> dict[str, Library]:
    """Find the libraries for `needed` and their dependencies, except the wheel's `own`, by name."""
    found: dict[str, Library] = {}
    seen: set[str] = set()
    waiting = list(needed)
    for name, dependent in waiting:  # grows during the walk
        library = None if name in own or name in found else definitions.host(name, dependent)
        if library is None:
            continue
        found[name] = library
        if library.path not in seen:
            seen.add(library.path)
            waiting += [(further, library.elf) for further in library.elf.needed]
    return found


def _other_names(libraries: Mapping[str, Library]) -> Iterator[str]:
    """Yield names that are looked up without being undefined symbols."""
    for path, library in libraries.items():
        yield from module_hooks(path)
        if library.elf.is_executable:
            yield from (copy.name for copy in library.exports.copies)
