"""What is in the files of an installed environment: symbols, versions, Python sources."""

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple, cast

from wheelfix.analysis.installed_symbols import Promotion, Variable
from wheelfix.analysis.world import PlantedLibraries, World
from wheelfix.elf.exports import (
    Names,
    SizedDefinition,
    SymbolDefinitions,
    SymbolTables,
    lazy_exports,
    read_symbol_tables,
)
from wheelfix.elf.model import Definition, Exports, Undefined
from wheelfix.errors import BadElfError
from wheelfix.host.global_openings import read_promotions
from wheelfix.host.machine_files import files_below, map_regular, read_regular
from wheelfix.host.object_cache import ObjectCache, Symbols
from wheelfix.host.reachable_files import read_planted
from wheelfix.host.site_sources import SiteSources, read_sources, read_variables
from wheelfix.wheel.python_library_searches import MAX_SOURCE
from wheelfix.wheel.sure_imports import sure_imports

_Plain = tuple[tuple[Any, ...], ...]
_Numbered = tuple[list[_Plain], dict[str, int]]
"""Different definitions, as plain tuples, and name -> the number of its ones."""
_KEPT = 64
"""Objects whose symbol tables are kept: what is asked of one is asked at about the same time."""


class InstalledContents:
    """The `Contents` of an environment. Mutable: what was read is kept."""

    def __init__(self, world: World, objects: ObjectCache) -> None:
        """Read the files of `world`, but for what `objects` knows."""
        self._world = world
        self._objects = objects
        self._read_tables = lru_cache(_KEPT)(_read_tables)
        self._own_lookups = cache(self._read_own_lookups)
        self._sure_imports = cache(self._read_sure_imports)

    def save(self) -> None:
        """Keep what was read for later runs."""
        self._objects.save()

    def exports(self, path: str) -> Exports:
        """Return what an object defines, read by name; nothing if it cannot be read."""
        with suppress(OSError, BadElfError):
            return lazy_exports(partial(self._tables, path))
        return Exports()

    def own_lookups(self, path: str) -> Mapping[str, SizedDefinition]:
        """Return the definitions of an object that its own relocations look up."""
        return self._own_lookups(path)

    def sizes(self, path: str, names: Names) -> Mapping[str, SizedDefinition]:
        """Return the definitions of some names in an object."""
        with suppress(OSError, BadElfError):
            return self._tables(path).sizes(names)
        return {}

    def version(self, path: str, pattern: re.Pattern[bytes]) -> str:
        """Return the first group of the first match in a file; empty without one."""
        with suppress(OSError):
            match = pattern.search(map_regular(path))
            return match[1].decode("utf-8", "replace") if match else ""
        return ""

    def size(self, path: str) -> int | None:
        """Return the bytes of a file; None if there is none."""
        with suppress(OSError):
            return Path(path).stat().st_size
        return None

    def promotions(self) -> Sequence[Promotion]:
        """Return the objects that enter the global scope when a Python source opens them."""
        return read_promotions(self._world, self._sources)

    def variables(self) -> Sequence[Variable]:
        """Return the environment variables with directories that files of the environment set."""
        return tuple(read_variables(self._world, self._sources))

    def planted(self, directories: Collection[str]) -> PlantedLibraries:
        """Return the libraries in some directories."""
        return read_planted(directories)

    def are_equal(self, one: str, other: str) -> bool:
        """Return whether two files have the same content."""
        with suppress(OSError):
            return map_regular(one) == map_regular(other)
        return False

    def mentions(self, path: str, word: str) -> bool:
        """Return whether a file has a text."""
        with suppress(OSError):
            return re.search(re.escape(word.encode()), map_regular(path)) is not None
        return False

    @cached_property
    def _sources(self) -> SiteSources:
        return read_sources(self._world)

    def sure_imports(self, top: str) -> Collection[str]:
        """Return the modules that importing the top-level package `top` surely imports."""
        return self._sure_imports(top)

    def _read_sure_imports(self, top: str) -> Collection[str]:
        return sure_imports(_read_packages(self._world, top))

    def _tables(self, path: str) -> "_KnownTables":
        return _KnownTables(partial(self._read_tables, path), self._objects.symbols(path))

    def _read_own_lookups(self, path: str) -> Mapping[str, SizedDefinition]:
        with suppress(OSError, BadElfError):
            return self._tables(path).own_lookups()
        return {}


class _KnownTables(NamedTuple):
    """The symbol tables of one object, read only for what was not asked before.

    Answers are kept as plain tuples and dicts: to pickle millions of named tuples takes minutes.
    """

    read: Callable[[], SymbolTables]
    known: Symbols

    @property
    def copies(self) -> tuple[Undefined, ...]:
        if b"copies" not in self.known:
            self.known[b"copies"] = self.read().copies
        return cast("tuple[Undefined, ...]", self.known[b"copies"])

    def definitions(self, names: Names | None = None) -> dict[str, SymbolDefinitions]:
        if names is None:
            return self.read().definitions()
        question = b"definitions" + _digest(frozenset(names))
        if question not in self.known:
            found = self.read().definitions(names)
            self.known[question] = _numbered(found)
            return found
        kinds, numbers = cast("_Numbered", self.known[question])
        values = [tuple(Definition(*one) for one in some) for some in kinds]
        return {name: values[number] for name, number in numbers.items()}

    def own_lookups(self) -> dict[str, SizedDefinition]:
        return self._sized(b"own", lambda: self.read().own_lookups())

    def sizes(self, names: Names) -> dict[str, SizedDefinition]:
        question = b"sizes" + _digest(frozenset(names))
        return self._sized(question, lambda: self.read().sizes(names))

    def preemptible(self) -> Iterator[str]:
        return self.read().preemptible()

    def _sized(
        self, question: bytes, read: Callable[[], dict[str, SizedDefinition]]
    ) -> dict[str, SizedDefinition]:
        if question not in self.known:
            found = read()
            numbered = _numbered({name: (one.definition,) for name, one in found.items()})
            self.known[question] = *numbered, [one.size for one in found.values()]
            return found
        kinds, numbers, sizes = cast("tuple[*_Numbered, list[int]]", self.known[question])
        values = [Definition(*one) for (one,) in kinds]
        return {
            name: SizedDefinition(values[number], size)
            for (name, number), size in zip(numbers.items(), sizes, strict=True)
        }


def _numbered(found: Mapping[str, SymbolDefinitions]) -> "_Numbered":
    kinds: dict[SymbolDefinitions, int] = {}
    numbers = {intern(name): kinds.setdefault(some, len(kinds)) for name, some in found.items()}
    return [tuple(map(tuple, some)) for some in kinds], numbers


@lru_cache(maxsize=8)
def _digest(names: frozenset[str]) -> bytes:
    """Return what stands for some names, in later runs, too."""
    text = "\0".join(sorted(names))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()[:16]


def _read_tables(path: str) -> SymbolTables:
    with map_regular(path) as data:
        return read_symbol_tables(data, path)


def _read_packages(world: World, top: str) -> dict[str, bytes]:
    """Return the `__init__.py` of the package `top` and of those in it, by dotted name.

    A module without a package is read, too.
    """
    found: dict[str, bytes] = {}
    members = world.members.items()
    for folder in sorted({path.removesuffix(f"/{member}") for path, member in members}):
        for path in (Path(folder, f"{top}.py"), *files_below(Path(folder, top), "__init__.py")):
            place = path.with_suffix("") if path.parent == Path(folder) else path.parent
            with suppress(OSError):
                name = place.relative_to(folder).as_posix().replace("/", ".")
                found[name] = read_regular(path, MAX_SOURCE)
    return found
