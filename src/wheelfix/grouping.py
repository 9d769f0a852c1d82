"""Items grouped by a key, and groups of them as one row."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain
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


def flatten(groups: Iterable[Iterable[_Item]]) -> Iterator[_Item]:
    """Yield the items of one group after those of the other."""
    return chain.from_iterable(groups)
