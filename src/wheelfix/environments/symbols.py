"""What the objects of an installed environment define for each other, and look up."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from typing import NamedTuple, Protocol

from wheelfix.analysis.load_failures import LoadJudge
from wheelfix.analysis.world import PlantedLibraries, World
from wheelfix.elf.exports import SizedDefinition, idle
from wheelfix.elf.model import Exports, Undefined
from wheelfix.environments.products import markers
from wheelfix.grouping import values_by_key
from wheelfix.loader.as_needed import Library
from wheelfix.loader.load_values import Load
from wheelfix.loader.python_api import is_python_name
from wheelfix.loader.symbol_lookup import Scope, SymbolIndex, undefined_names
from wheelfix.python_sources.opening_calls import may_open


class Promotion(NamedTuple):
    """An object that a Python source opens for all others (RTLD_GLOBAL)."""

    path: str
    source: str
    """The source below site-packages, and the line: `torch/__init__.py:300`."""


class Opening(NamedTuple):
    """A library that the import of a Python source opens by its path."""

    path: str
    module: str
    """The dotted name of the source."""
    line: int
    """Of the statement of the module that opens it."""
    sure: bool
    """Whether the import fails if the library cannot be opened; otherwise that may be caught."""


class Variable(NamedTuple):
    """An environment variable that a file of an environment sets."""

    name: str
    directories: tuple[str, ...]
    """Those in its value that are known."""
    path: str
    """The file that sets it."""
    line: int
    before_start: bool
    """Whether a shell sets it before Python starts; otherwise Python code that is imported does."""


class Contents(Protocol):
    """What is in the files of an environment, read when it is asked for."""

    def save(self) -> None:
        """Keep what was read for later runs."""
        ...

    def exports(self, path: str) -> Exports:
        """Return what an object defines."""
        ...

    def names(self, path: str) -> frozenset[str]:
        """Return the names of what an object defines."""
        ...

    def own_lookups(self, path: str, names: frozenset[str]) -> Mapping[str, SizedDefinition]:
        """Return those definitions of `names` in an object that its own relocations look up."""
        ...

    def unique_lookups(self, path: str) -> Mapping[str, SizedDefinition]:
        """Return the STB_GNU_UNIQUE definitions of an object that its own relocations look up."""
        ...

    def sizes(self, path: str, names: frozenset[str]) -> Mapping[str, SizedDefinition]:
        """Return the definitions of some names in an object."""
        ...

    def values(self, path: str, names: frozenset[str]) -> Mapping[str, bytes]:
        """Return a digest of what definitions of some names contain; empty if it is not known."""
        ...

    def hashes(self, path: str) -> Collection[int]:
        """Return hashes of the names of what an object defines."""
        ...

    def own_sizes(self, path: str, hashes: frozenset[int]) -> Mapping[str, int]:
        """Return the bytes of definitions that others have no copies of, by hashes of names."""
        ...

    def has_source(self, top: str) -> bool:
        """Return whether a top-level name is a package with `__init__.py`, or a source."""
        ...

    def version(self, path: str, pattern: re.Pattern[bytes]) -> str:
        """Return the first group of the first match in a file; empty without one."""
        ...

    def size(self, path: str) -> int | None:
        """Return the bytes of a file; None if there is none."""
        ...

    def promotions(self) -> Sequence[Promotion]:
        """Return the objects that enter the global scope when a Python source opens them."""
        ...

    def openings(self) -> Sequence[Opening]:
        """Return the libraries that sources open which the import of their packages imports."""
        ...

    def may_import(self, top: str, other: str) -> bool:
        """Return whether a source of the package `top` imports another one, at any time."""
        ...

    def variables(self) -> Sequence[Variable]:
        """Return the environment variables with directories that files of the environment set."""
        ...

    def planted(self, directories: Collection[str]) -> PlantedLibraries:
        """Return the libraries in some directories."""
        ...

    def are_equal(self, one: str, other: str) -> bool:
        """Return whether two files have the same content."""
        ...

    def mentions(self, path: str, words: frozenset[str]) -> Collection[str]:
        """Return which of some texts a file has."""
        ...

    def may_open(
        self, library: str, packages: frozenset[str], how: Callable[[bytes], bool] = may_open
    ) -> bool:
        """Return whether a source or object of top-level `packages` may open libraries.

        Or a source of another one that opens some as asked, and has the name of `library`.
        """
        ...

    def sure_imports(self, name: str, line: int | None = None) -> Collection[str]:
        """Return the modules that importing `name` surely imports, in turn, itself among them.

        The libraries that these open by a path are among them, by this path. With `line`, those
        that are imported before this line of it runs. None without a source.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class InstalledSymbols:
    """The symbols of an environment. They are the same in every order of imports."""

    world: World
    contents: Contents = field(compare=False, repr=False)

    @cached_property
    def libraries(self) -> Mapping[str, Library]:
        """All objects that can be loaded, by path; exports are read at the first access."""
        return {
            path: Library(path=path, elf=elf, read=partial(self.contents.exports, path))
            for path, elf in self.world.environment.files.items()
            if elf.dynamic
        }

    @cached_property
    def contested(self) -> Mapping[str, Collection[str]]:
        """SONAMEs that several different files have, with these."""
        hard_links = self.world.environment.hard_links
        several = {
            name: {hard_links.get(path, path) for path in paths}
            for name, paths in self.world.carriers.items()
            if name and len(paths) > 1
        }
        return {name: sorted(paths) for name, paths in several.items() if len(paths) > 1}

    @cached_property
    def judge(self) -> LoadJudge:
        """The judge of all loads."""
        described = self.world.described
        read = {path: one for path, one in self.libraries.items() if path not in described}
        names = markers() | undefined_names(read)
        return LoadJudge(
            world=self.world, index=SymbolIndex(read, names, self.world.environment.libc)
        )

    def bindings(self, load: Load, path: str) -> Iterator[tuple[str, str | None]]:
        """Yield what an object of `load` refers to, with the file that defines it there.

        Only references that files of wheels are to define (`references`) are yielded.
        """
        scope = Scope(dict.fromkeys((*self.start, *load.objects)), self.judge.index)
        for providers, names in self._providers.get(path, {}).items():
            definer = scope.first(providers)
            yield from ((name, definer) for name in self.looked_up(path, names))

    def looked_up(self, path: str, names: Iterable[str]) -> tuple[str, ...]:
        """Return those of the undefined symbols `names` of an object that the loader looks up."""
        some = tuple(names)
        skipped = idle(self.libraries[path].exports) if some else ()
        return tuple(name for name in some if name not in skipped)

    @property
    def start(self) -> tuple[str, ...]:
        """The objects of the main program, which all scopes begin with."""
        return self.judge.start

    @cached_property
    def _different(self) -> AbstractSet[Undefined]:
        """The references of all objects: many have the same."""
        return set(chain.from_iterable(self._references.values()))

    @cached_property
    def _providers(self) -> Mapping[str, Mapping[tuple[str, ...], Sequence[str]]]:
        """Object -> the files of the environment that can define the same names -> these."""
        index = self.judge.index
        providers = {one: index.providers(one.name, one.version) for one in self._different}
        return {
            path: values_by_key([(providers[one], one.name) for one in some])
            for path, some in self._references.items()
        }

    def references(self, path: str) -> Sequence[Undefined]:
        """Return the strong references of an object that files of wheels are to define.

        A reference counts if it has no version and is not to Python's API, or if it is to a
        library that the environment has several times.
        """
        return self._references.get(path, ())

    @cached_property
    def _references(self) -> Mapping[str, Sequence[Undefined]]:
        contested = self.contested
        found = (
            (
                path,
                [
                    one
                    for one in self.libraries[path].elf.undefined
                    if not one.weak
                    and (
                        (one.version is None and not is_python_name(one.name))
                        or one.file in contested
                    )
                ],
            )
            for path in (*self.world.members, *self.world.others)
            if path in self.libraries
        )
        return {path: some for path, some in found if some}
