"""The objects of an environment that Python sources open for all others (RTLD_GLOBAL)."""

import os
import posixpath
from collections.abc import Iterator, Mapping

from wheelfix.analysis.world import World
from wheelfix.environments.read_sources import SiteSources, sources_in
from wheelfix.environments.read_values import Promotion
from wheelfix.python_sources.global_imports import (
    functions_that_set_flags,
    global_imports,
    may_set_flags,
    opens_for_all,
)
from wheelfix.python_sources.imported_modules import module_name
from wheelfix.system.lazy_patterns import lazy_pattern

_FEW = 20
_NAMED = lazy_pattern(rb"(?<!\bdef )\b\w+")


def read_promotions(world: World, sources: SiteSources) -> list[Promotion]:
    """Return the objects that sources of the environment open for all, with the places.

    Objects opened by bare names are left out, and what is opened only in other files than those of
    the environment.
    """
    promotions: dict[str, Promotion] = {}
    for folder in sources.telling:
        for promotion in _in_folder(world, folder, sources):
            promotions.setdefault(promotion.path, promotion)
    return list(promotions.values())


def _in_folder(world: World, folder: str, sources: SiteSources) -> Iterator[Promotion]:
    budget = sources.budget
    texts = sources.telling[folder].items()
    naming = {path: data for path, data in texts if opens_for_all(data)}
    for path, source in naming.items():
        for line, name in sources.visit(folder, path, source, budget).openings:
            place = posixpath.normpath(f"{folder}{posixpath.dirname(path)}/{name}")
            if (real := os.path.realpath(place)) in world.environment.files:
                yield Promotion(real, f"{path}:{line}")
    setters = {path: source for path, source in naming.items() if may_set_flags(source)}
    if not setters:
        return
    modules = {
        module_name(path.removeprefix(folder)): path
        for path, elf in world.environment.files.items()
        if path.startswith(folder) and elf.module_hooks
    }
    callers = _callers(folder, setters, sources)
    starts = sorted({*map(module_name, setters), *map(module_name, callers)})
    for importing in global_imports(starts, sources_in(folder, modules), budget):
        if importing.module in modules:
            yield Promotion(modules[importing.module], f"{importing.source}:{importing.line}")


def _callers(folder: str, setters: Mapping[str, bytes], sources: SiteSources) -> list[str]:
    """Return the sources that may call a function of `setters`, in the same packages."""
    packages = {path.partition("/")[0] for path in setters if "/" in path}
    names = sorted(frozenset[bytes]().union(*map(functions_that_set_flags, setters.values())))
    if not names:
        return []
    # Hundreds of sources define a `__getattr__` of their own.
    wanted = frozenset(names)

    def may_call(source: bytes) -> bool:
        # To search for few names is ten times as fast.
        is_there = len(names) > _FEW or any(name in source for name in names)
        return is_there and not wanted.isdisjoint(_NAMED.findall(source))

    return [
        path
        for package in sorted(packages)
        for path, _ in sources.that(may_call, b"calls " + b" ".join(names), folder, package)
    ]
