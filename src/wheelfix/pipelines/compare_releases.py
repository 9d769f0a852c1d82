"""Comparison of wheels with those of an earlier release: reading, and pairing."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from packaging.utils import canonicalize_name

from wheelfix.errors import SettingsError
from wheelfix.pipelines.sbom import listed_packages
from wheelfix.rules.release_comparison import (
    Change,
    ChangeKind,
    Side,
    compare,
    counterpart,
    public_libraries,
)
from wheelfix.settings import Settings
from wheelfix.wheel.model import WheelName
from wheelfix.wheel.reader import open_wheel


class Comparison(NamedTuple):
    """The changes from one wheel to another."""

    old: str
    """The file name; empty for a wheel without counterpart."""
    new: str
    """Likewise."""
    changes: tuple[Change, ...]


def compare_wheels(old: Path, new: Path, settings: Settings) -> Comparison:
    """Return what changed from the wheel `old` to `new`.

    Raises `BadWheelError` for what `open_wheel` refuses, `BudgetError` for too many symbols.
    """
    changes = compare(_read(old, settings), _read(new, settings), settings)
    return Comparison(old.name, new.name, changes)


def _read(path: Path, settings: Settings) -> Side:
    with open_wheel(path) as archive:
        wheel = archive.wheel
        exports = {
            member: archive.symbol_tables(member).definitions()
            for member in public_libraries(wheel, settings)
        }
        return Side(wheel=wheel, exports=exports, packages=listed_packages(wheel))


def pairs(
    olds: Sequence[Path], news: Sequence[Path]
) -> tuple[tuple[Path | None, Path | None], ...]:
    """Return each new wheel with its counterpart, then the wheels without one.

    Raises `SettingsError` if the wheels are of different distributions.
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
    found: list[tuple[Path | None, Path | None]] = []
    used: set[WheelName] = set()
    for name, path in after.items():
        other = counterpart(name, before)
        found.append((before[other] if other else None, path))
        used |= {other} if other else set()
    return (*found, *((path, None) for name, path in before.items() if name not in used))


def unpaired(old: Path | None, new: Path | None) -> Comparison:
    """Return the comparison of a wheel that only one of the releases has."""
    if old is not None:
        message = "the new release has no wheel for this Python and platform"
        return Comparison(old.name, "", (Change(ChangeKind.LOST_WHEEL, message),))
    message = "the old release has no wheel for this Python and platform"
    return Comparison("", new.name if new else "", (Change(ChangeKind.FILES, message),))
