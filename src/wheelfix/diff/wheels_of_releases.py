"""Comparison of wheels with those of an earlier release: reading, and pairing."""

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from packaging.utils import canonicalize_name

from wheelfix.diff.changes import (
    Brought,
    ChangeKind,
    ReleaseChange,
    Side,
    compare,
    counterpart,
    public_libraries,
)
from wheelfix.elf.exports import SymbolDefinitions, read_symbol_tables
from wheelfix.errors import SettingsError
from wheelfix.host.machine_files import map_regular
from wheelfix.host.neighbors import find_neighbors
from wheelfix.loader.install_schemes import site_path
from wheelfix.named_tuple import NamedTuple
from wheelfix.pipelines.sbom import listed_packages
from wheelfix.providers.model import Provided, requires_dist_of
from wheelfix.providers.requirements_between_wheels import Part, all_requirements
from wheelfix.settings import Settings
from wheelfix.wheel.model import Wheel, WheelName
from wheelfix.wheel.reader import open_wheel


class Comparison(NamedTuple):
    """The changes from one wheel to another."""

    old: str
    """The file name; empty for a wheel without counterpart."""
    new: str
    """Likewise."""
    changes: tuple[ReleaseChange, ...]
    neighbors: tuple[Provided, ...] = ()


Pairs = Sequence[tuple[Path | None, Path | None]]
"""The wheels of two releases, each with its counterpart."""


def compare_wheels(
    old: Path,
    new: Path,
    settings: Settings,
    releases: Pairs = (),
    environ: Mapping[str, str] = MappingProxyType({}),
) -> Comparison:
    """Return what changed from the wheel `old` to `new`, beside its neighbors.

    What another wheel in `releases` takes over is not lost. `environ` is that of the user. Raises
    `BadWheelError` for what `open_wheel` refuses, `BudgetError` for too many symbols, and what
    `find_neighbors` does.
    """
    before, after = (
        _read(path, settings, [pair[side] for pair in releases])
        for side, path in enumerate((old, new))
    )
    neighbors = find_neighbors(settings, after.wheel, environ)
    after = after._replace(brought=dict(_brought(before, after.wheel, neighbors)))
    return Comparison(old.name, new.name, compare(before, after, settings), neighbors)


def _brought(old: Side, new: Wheel, neighbors: Iterable[Provided]) -> Iterator[tuple[str, Brought]]:
    """Yield the public libraries of `old` that `new` lacks, where a requirement of it has them.

    Of several, it is the one at the same place.
    """
    part = Part(new.name, new.metadata.requires_dist)
    required = all_requirements(part, requires_dist_of(neighbors))
    kept = set(map(posixpath.basename, new.elfs))
    for member in old.exports:
        name = posixpath.basename(member)
        folders = [
            (f"{folder.directory}/{name}", neighbor, folder)
            for neighbor in neighbors
            for folder in neighbor.folders
            if name not in kept and neighbor.name in required and folder.has(name)
        ]
        folders.sort(key=lambda named: named[0] != site_path(member, old.wheel))
        for place, neighbor, folder in folders[:1]:
            definitions = _definitions(neighbor, f"{folder.path}/{name}")
            yield member, Brought(neighbor.name, place, definitions)


def _definitions(provided: Provided, path: str) -> Mapping[str, SymbolDefinitions]:
    """Return what a library of a neighbor defines. Raises `BadWheelError`, `BadElfError`."""
    if not provided.wheel:
        return read_symbol_tables(map_regular(Path(path)), path).definitions()
    with open_wheel(Path(provided.wheel)) as archive:
        member = path.removeprefix(f"{provided.wheel}/")
        return archive.symbol_tables(member).definitions()


def _read(path: Path, settings: Settings, release: Iterable[Path | None]) -> Side:
    names = (WheelName.parse(wheel.name) for wheel in release if wheel)
    with open_wheel(path) as archive:
        wheel = archive.wheel
        exports = {
            member: archive.symbol_tables(member).definitions()
            for member in public_libraries(wheel, settings)
        }
        own = canonicalize_name(wheel.name.distribution)
        beside = tuple(name for name in names if canonicalize_name(name.distribution) == own)
        return Side(wheel, exports, listed_packages(wheel), beside)


def pairs(olds: Sequence[Path], news: Sequence[Path]) -> Pairs:
    """Return each new wheel with its counterpart, then the other old ones, likewise.

    Raises `BadWheelError` for a file name that is not one of a wheel, `SettingsError` if the wheels
    are of different distributions.
    """
    before = {WheelName.parse(path.name): path for path in olds}
    after = {WheelName.parse(path.name): path for path in news}
    distributions = [{canonicalize_name(n.distribution) for n in side} for side in (before, after)]
    if distributions[0].isdisjoint(distributions[1]):
        old, new = (", ".join(sorted(names)) for names in distributions)
        raise SettingsError(
            f"the wheels are of different distributions: {old}, and {new}",
            hint="give two releases of one distribution",
        )
    if len(before) == len(after) == 1:
        return ((olds[0], news[0]),)
    paired: list[tuple[Path | None, Path | None]] = []
    used: set[WheelName] = set()
    for name, path in after.items():
        other = counterpart(name, before)
        paired.append((before[other] if other else None, path))
        used |= {other} if other else set()
    for name, path in before.items():
        if name not in used:
            other = counterpart(name, after)
            paired.append((path, after[other] if other else None))
    return tuple(paired)


def comparison_of_one(old: Path | None, new: Path | None) -> Comparison:
    """Return the comparison of a wheel that only one of the releases has."""
    if old is not None:
        message = "the new release has no wheel for this Python and platform"
        return Comparison(old.name, "", (ReleaseChange(ChangeKind.LOST_WHEEL, message),))
    message = "the old release has no wheel for this Python and platform"
    return Comparison("", new.name if new else "", (ReleaseChange(ChangeKind.FILES, message),))
