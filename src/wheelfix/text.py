"""Names, counts and sizes as text, names that match patterns, and items grouped by a key."""

from collections.abc import Callable, Hashable, Iterable
from fnmatch import fnmatchcase
from typing import TypeVar

_Item = TypeVar("_Item")
_Key = TypeVar("_Key", bound=Hashable)


def join_some(names: Iterable[object], most: int = 5) -> str:
    """List the first `most` different names: "`a`, `b` and 3 more"."""
    different = list(dict.fromkeys(names))
    shown = ", ".join(f"`{name}`" for name in different[:most])
    left = len(different) - most
    return f"{shown} and {left:,} more" if left > 0 else shown


def counted(number: int, noun: str) -> str:
    """Return `1 file`, `2 files`, `2 libraries`."""
    if number == 1:
        return f"1 {noun}"
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number:,} {plural}"


def in_units(size: float) -> str:
    """Spell a number of bytes in decimal units: `1.2 MB`."""
    for unit in ("B", "kB", "MB"):
        if abs(size) < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"


def matches_any(name: str, globs: Iterable[str]) -> bool:
    """Return whether one of `globs` matches `name`, on any system case-sensitively."""
    return any(fnmatchcase(name, glob) for glob in globs)


def grouped(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, list[_Item]]:
    """Return the items by their key, in the order of the first item of each key."""
    return values_by_key((key(item), item) for item in items)


def values_by_key(pairs: Iterable[tuple[_Key, _Item]]) -> dict[_Key, list[_Item]]:
    """Return the second items of `pairs` by the first, in the order of the first of each."""
    groups: dict[_Key, list[_Item]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    return groups
