"""Items grouped by a key."""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

_Item = TypeVar("_Item")
_Key = TypeVar("_Key", bound=Hashable)


def grouped(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, list[_Item]]:
    """Return the items by their key, in the order of the first item of each key."""
    return values_by_key((key(item), item) for item in items)


def values_by_key(pairs: Iterable[tuple[_Key, _Item]]) -> dict[_Key, list[_Item]]:
    """Return the second items of `pairs` by the first, in the order of the first of each."""
    groups: dict[_Key, list[_Item]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    return groups
