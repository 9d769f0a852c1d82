"""The objects of an environment that Python sources open for all others (RTLD_GLOBAL)."""

import os
import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import cache

from wheelfix.analysis.installed_symbols import Promotion
from wheelfix.analysis.world import World
from wheelfix.budget import Budget
from wheelfix.host.cached_facts import EnvironmentCache
from wheelfix.host.machine_files import read_regular
from wheelfix.host.site_sources import SiteSources, telling_sources
from wheelfix.wheel.global_imports import (
    Sources,
    functions_that_set_flags,
    global_imports,
    sets_flags,
)
from wheelfix.wheel.imported_modules import module_name
from wheelfix.wheel.model import LookupPlace
from wheelfix.wheel.python_opens import visit_source
from wheelfix.wheel.python_parsing import STEPS_PER_WHEEL
from wheelfix.wheel.python_searched_folders import MAX_SOURCE


def read_promotions(
    world: World, sources: SiteSources, objects: EnvironmentCache
) -> list[Promotion]:
    """Return the objects that sources of the environment open for all, with the places.

    Objects opened by bare names are left out, and what is opened only in other files than those of
    the environment.
    """
    found: dict[str, Promotion] = {}
    for folder, some in sources.items():
        for promotion in _in_folder(world, folder, some, objects):
            found.setdefault(promotion.path, promotion)
    return list(found.values())


def _in_folder(
    world: World, folder: str, some: Mapping[str, bytes], objects: EnvironmentCache
) -> Iterator[Promotion]:
    budget = Budget("the Python sources", STEPS_PER_WHEEL)
    sources = {path: data for path, data in some.items() if b"RTLD_GLOBAL" in data}
    for path, source in sources.items():
        for opening in visit_source(source, path, {}, budget).openings:
            if opening.for_all and opening.where is LookupPlace.SOURCE:
                place = posixpath.normpath(f"{folder}{posixpath.dirname(path)}/{opening.name}")
                if (real := os.path.realpath(place)) in world.environment.files:
                    yield Promotion(real, f"{path}:{opening.line}")
    setters = {path: source for path, source in sources.items() if sets_flags(source)}
    if not setters:
        return
    modules = {
        module_name(path.removeprefix(folder)): path
        for path, elf in world.environment.files.items()
        if path.startswith(folder) and elf.module_hooks
    }
    callers = _callers(folder, setters, objects)
    starts = sorted({*map(module_name, setters), *map(module_name, callers)})
    for found in global_imports(starts, _reader(folder, modules), budget):
        if found.module in modules:
            yield Promotion(modules[found.module], f"{found.source}:{found.line}")


def _callers(folder: str, setters: Mapping[str, bytes], objects: EnvironmentCache) -> list[str]:
    """Return the sources that may call a function of `setters`, in the same packages."""
    packages = {path.partition("/")[0] for path in setters if "/" in path}
    words = [
        rb"\b%b\b" % re.escape(name)
        for source in setters.values()
        for name in sorted(functions_that_set_flags(source))
    ]
    if not words:
        return []
    calls = re.compile(b"|".join(words))
    return [
        path
        for package in sorted(packages)
        for path, _ in telling_sources(
            folder, package, calls.pattern, lambda data: calls.search(data) is not None, objects
        )
    ]


def _reader(folder: str, extensions: Collection[str]) -> Sources:
    @cache
    def path_of(module: str) -> str | None:
        stem = module.replace(".", "/")
        for path in (f"{stem}/__init__.py", f"{stem}.py"):
            if os.path.isfile(folder + path):  # noqa: PTH113 - text
                return path
        return None

    @cache
    def read(path: str) -> bytes:
        with suppress(OSError):
            return read_regular(folder + path, MAX_SOURCE)
        return b""

    return Sources(path_of, read, extensions.__contains__)
