"""What is in the files of an installed environment: symbols, versions, Python sources."""

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, cast

from wheelfix.analysis.installed_symbols import Promotion, Variable
from wheelfix.analysis.world import PlantedLibraries, World
from wheelfix.budget import Budget
from wheelfix.elf.exports import (
    Names,
    SizedDefinition,
    SymbolPlaces,
    SymbolTables,
    lazy_exports,
    read_symbol_places,
    symbol_tables_at,
)
from wheelfix.elf.model import Exports
from wheelfix.errors import BadElfError
from wheelfix.host.cached_facts import EnvironmentCache
from wheelfix.host.global_openings import read_promotions
from wheelfix.host.machine_files import files_below, map_regular, read_regular
from wheelfix.host.reachable_files import read_planted
from wheelfix.host.site_sources import SiteSources, read_sources, read_variables
from wheelfix.wheel.python_searched_folders import MAX_SOURCE
from wheelfix.wheel.sure_imports import sure_imports

_KEPT = 64
"""Objects whose symbol tables are kept: what is asked of one is asked at about the same time."""


class InstalledContents:
    """The `Contents` of an environment. Mutable: what was read is kept."""

    def __init__(self, world: World, objects: EnvironmentCache) -> None:
        """Read the files of `world`, but for what `objects` knows."""
        self._world = world
        self._objects = objects
        self._tables = lru_cache(_KEPT)(self._read_tables)
        self._sure_imports = cache(self._read_sure_imports)

    def save(self) -> None:
        """Keep what was read for later runs."""
        self._objects.save()

    def exports(self, path: str) -> Exports:
        """Return what an object defines, read by name; nothing if it cannot be read."""
        with suppress(OSError, BadElfError):
            return lazy_exports(partial(self._tables, path))
        return Exports()

    def names(self, path: str) -> frozenset[str]:
        """Return the names of what an object defines."""
        with suppress(OSError, BadElfError):
            return self._tables(path).names()
        return frozenset()

    def own_lookups(self, path: str, names: Names) -> Mapping[str, SizedDefinition]:
        """Return those definitions of `names` in an object that its own relocations look up."""
        with suppress(OSError, BadElfError):
            return self._tables(path).own_lookups(names)
        return {}

    def unique_lookups(self, path: str) -> Mapping[str, SizedDefinition]:
        """Return the STB_GNU_UNIQUE definitions of an object that its own relocations look up."""
        with suppress(OSError, BadElfError):
            return self._tables(path).unique_lookups()
        return {}

    def sizes(self, path: str, names: Names) -> Mapping[str, SizedDefinition]:
        """Return the definitions of some names in an object."""
        with suppress(OSError, BadElfError):
            return self._tables(path).sizes(names)
        return {}

    def version(self, path: str, pattern: re.Pattern[bytes]) -> str:
        """Return the first group of the first match in a file; empty without one."""
        facts, question = self._objects.facts(path), b"version " + pattern.pattern
        with suppress(OSError):
            if question not in facts:
                match = pattern.search(map_regular(path))
                facts[question] = match[1].decode("utf-8", "replace") if match else ""
            return cast("str", facts[question])
        return ""

    def size(self, path: str) -> int | None:
        """Return the bytes of a file; None if there is none."""
        with suppress(OSError):
            return Path(path).stat().st_size
        return None

    def promotions(self) -> Sequence[Promotion]:
        """Return the objects that enter the global scope when a Python source opens them."""
        return read_promotions(self._world, self._sources, self._objects)

    def variables(self) -> Sequence[Variable]:
        """Return the environment variables with directories that files of the environment set."""
        return self._variables

    @cached_property
    def _variables(self) -> Sequence[Variable]:
        return tuple(read_variables(self._world, self._sources))

    def planted(self, directories: Collection[str]) -> PlantedLibraries:
        """Return the libraries in some directories."""
        return read_planted(directories)

    def are_equal(self, one: str, other: str) -> bool:
        """Return whether two files have the same content."""
        with suppress(OSError):
            return map_regular(one) == map_regular(other)
        return False

    def mentions(self, path: str, words: frozenset[str]) -> Collection[str]:
        """Return which of some texts a file has."""
        facts = self._objects.facts(path)
        question = "\0".join(["mentions", *sorted(words)]).encode()
        with suppress(OSError):
            if question not in facts:
                with map_regular(path) as data:
                    found = [word for word in words if re.search(re.escape(word.encode()), data)]
                facts[question] = tuple(sorted(found))
            return cast("tuple[str, ...]", facts[question])
        return ()

    @cached_property
    def _sources(self) -> SiteSources:
        return read_sources(self._world, self._objects)

    def sure_imports(self, top: str) -> Collection[str]:
        """Return the modules that importing the top-level package `top` surely imports."""
        return self._sure_imports(top)

    def _read_sure_imports(self, top: str) -> Collection[str]:
        return sure_imports(_read_packages(self._world, top))

    def _read_tables(self, path: str) -> SymbolTables:
        """Read the symbols of an object. Raises `OSError` and `BadElfError`."""
        facts = self._objects.facts(path)
        with map_regular(path) as data:
            if b"symbols" not in facts:
                facts[b"symbols"] = tuple(read_symbol_places(data, path))
            places = SymbolPlaces(*cast("tuple[Any, ...]", facts[b"symbols"]))
            return symbol_tables_at(places, data, path, Budget.of_file(path, len(data)))


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
