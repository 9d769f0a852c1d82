"""Modules of an environment for whose thread-local data the loader's area does not suffice."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

from wheelfix.analysis.world import World
from wheelfix.elf.model import Libc
from wheelfix.environments.modules import InstalledModules
from wheelfix.loader.load_values import Load
from wheelfix.loader.process_bindings import dependencies_first
from wheelfix.loader.static_tls import (
    BELOW_POINTER,
    LIMITED_PLATFORM,
    OPTIONAL,
    PATCHED,
    ROUNDED,
    SURPLUS,
    UNLIMITED,
    UNLIMITED_PLATFORMS,
    Area,
    Need,
    need_of,
)
from wheelfix.loader.symbol_versions import newer
from wheelfix.named_tuple import NamedTuple


class Shortage(NamedTuple):
    """Modules that cannot be imported into one process: the last one finds no room."""

    before: tuple[str, ...]
    """The modules that have taken room before, in turn; none if it does not even fit alone."""
    module: str
    path: str
    """The object of `module` that finds no room."""
    sizes: Mapping[str, int]
    """Object -> the bytes that it has or requires, the largest first."""
    wanted: int
    """Bytes with which nothing does without room: of all modules, where no order is known."""
    sure: bool
    """Whether it is seen that the packages import the modules."""


def shortages(modules: InstalledModules) -> Iterator[Shortage]:
    """Yield modules for which the area of glibc does not suffice, alone or after another one.

    Only two at a time are tried, of different distributions; where the order is known, all that
    come before.
    """
    if modules.world.environment.libc is Libc.MUSL:
        return
    needs = {
        path: need
        for path, elf in modules.world.environment.files.items()
        if path not in modules.symbols.start and (need := need_of(path, elf))
    }
    if not modules.order:
        every = sum(need.rounded for path, need in needs.items() if path in modules.loaded)
        for short in _of_pairs(modules, needs):
            yield short._replace(wanted=max(short.wanted, every))
    elif needs:
        failing = modules.in_turn[1].keys() | {path for path, _ in modules.failures}
        order = [path for path in modules.order if path not in failing]
        seen = list(filter(modules.is_surely_imported, order))
        sure = {short.module for short in _in_order(modules, needs, seen)}
        for short in _in_order(modules, needs, order):
            if all(modules.can_be_first(path, short.module) for path in short.before):
                yield short._replace(sure=short.module in sure)


def _of_pairs(modules: InstalledModules, needs: Mapping[str, Need]) -> Iterator[Shortage]:
    taken: dict[str, int] = {}
    too_large: set[str] = set()
    for path in modules.modules:
        load = modules.usual(path)
        if load.missing or needs.keys().isdisjoint(load.objects):
            continue
        process = _Process(modules, needs)
        short = process.open(load)
        if short is None:
            taken[path] = SURPLUS - process.areas[0].left
        elif short.path not in too_large:
            too_large.add(short.path)
            yield short._replace(sure=modules.is_surely_imported(path))
    yield from _after_others(modules, needs, taken)


def _after_others(
    modules: InstalledModules, needs: Mapping[str, Need], taken: Mapping[str, int]
) -> Iterator[Shortage]:
    """Yield one module of a distribution for which no room is left after one of another."""
    users, requiring = dict[str, str](), dict[str, str]()
    """Distribution -> its module that takes most, of all, and of those that cannot do without."""
    for path in sorted(taken, key=lambda path: -taken[path]):
        users.setdefault(modules.distribution(path), path)
        own = (needs[member] for member in modules.usual(path).objects if member in needs)
        if not all(need.optional for need in own):
            requiring.setdefault(modules.distribution(path), path)
    met: set[frozenset[str]] = set()
    for owner, path in reversed(requiring.items()):
        for other, first in users.items():
            if other == owner or frozenset((owner, other)) in met:
                continue
            if not modules.can_be_first(first, path):
                continue
            if taken[first] + taken[path] < SURPLUS:
                break
            process = _Process(modules, needs)
            process.open(modules.usual(first))
            short = process.open(modules.load_after([first], path))
            if short is not None:
                met.add(frozenset((owner, other)))
                yield short._replace(sure=all(map(modules.is_surely_imported, (first, path))))
                break


def _in_order(
    modules: InstalledModules, needs: Mapping[str, Need], order: Sequence[str]
) -> Iterator[Shortage]:
    """Yield the modules that find no room; they leave nothing loaded, but room may stay used."""
    areas, loader = _Process(modules, needs), modules.world.start_process()
    for module in order:
        load = loader.dlopen(module)
        short = None if load.missing else areas.open(load)
        if short is not None:
            loader.undo(load)
            yield short


class _Process:
    """What objects take of the area in a process that opens modules in turn. Mutable."""

    def __init__(self, modules: InstalledModules, needs: Mapping[str, Need]) -> None:
        self.areas = _areas(modules)
        """What may be left: the data of the program decides where the area begins."""
        self._needs = needs
        self._below = modules.world.abi.machine in BELOW_POINTER
        self._loaded: set[str] = set()
        self._takers: dict[str, dict[str, int]] = {}
        """Module -> the objects for which it has taken room -> bytes."""
        self._wanted = 0

    def open(self, load: Load) -> Shortage | None:
        """Open a module; return what is lacking if it finds no room wherever the area begins."""
        new = [path for path in load.objects if path not in self._loaded]
        ordered = dependencies_first(load, new)
        wanted = [self._needs[path] for path in ordered if path in self._needs]
        self._wanted += sum(need.rounded for need in wanted)
        runs = [_Run.of(area, wanted, below=self._below) for area in self.areas]
        most = runs[-1]
        taken = {need.path: need.rounded for _, need in most.taken}
        if any(run.lacking is None for run in runs):
            self.areas = list(dict.fromkeys(run.area for run in runs if run.lacking is None))
            self._loaded.update(new)
            if taken:
                self._takers[load.root] = taken
            return None
        required = {need.path: need.rounded for need in wanted if not need.optional}
        parts = (*self._takers.values(), taken, required)
        sizes = {path: size for part in parts for path, size in part.items()}
        short = Shortage(
            before=tuple(self._takers),
            module=load.root,
            path=most.lacking.path if most.lacking else "",
            sizes=dict(sorted(sizes.items(), key=lambda item: -item[1])),
            wanted=self._wanted,
            sure=False,
        )
        kept = self.areas[-1].left - most.closed(below=self._below).left
        if kept:
            self._takers[load.root] = {most.taken[0][1].path: kept}
        self.areas = list(dict.fromkeys(run.closed(below=self._below) for run in runs))
        return short


class _Run(NamedTuple):
    """What a load takes of one area."""

    area: Area
    taken: tuple[tuple[int, Need], ...]
    """What was left before, and what took room then."""
    lacking: Need | None
    """What found no room."""

    @classmethod
    def of(cls, area: Area, wanted: Iterable[Need], *, below: bool) -> "_Run":
        taken: list[tuple[int, Need]] = []
        for need in wanted:
            after = area.after(need, below=below)
            if after is None:
                return cls(area, tuple(taken), need)
            if after.left != area.left:
                taken.append((area.left, need))
            area = after
        return cls(area, tuple(taken), None)

    def closed(self, *, below: bool) -> Area:
        """Return what is left after the load has failed.

        Where thread data lies below the thread pointer, glibc takes it back only down to the first
        gap that an alignment has left (`_dl_close_worker` in elf/dl-close.c).
        """
        left = self.area.left
        for before, need in reversed(self.taken):
            if below and left + need.size != before:
                return self.area._replace(left=left + need.size)
            left = before
        return self.area._replace(left=left)


def _areas(modules: InstalledModules) -> list[Area]:
    """Return the areas that a process may begin with, that with most room last."""
    starts = range(SURPLUS, SURPLUS + ROUNDED)
    return [Area(start, limit) for limit, start in product(limits(modules.world), starts)]


def limits(world: World) -> tuple[float, ...]:
    """Return how many bytes descriptors may take: what is possible where it is not known."""
    version = world.versions.get("GLIBC", "")
    if newer(version, UNLIMITED) or world.name.startswith(LIMITED_PLATFORM):
        return (OPTIONAL,)
    is_known = newer(PATCHED, version) or world.name.startswith(UNLIMITED_PLATFORMS)
    return (math.inf,) if is_known else (math.inf, OPTIONAL)
