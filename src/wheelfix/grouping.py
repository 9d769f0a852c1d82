"""Items grouped by a key, and ordered by what they lead to."""

from collections.abc import Callable, Hashable, Iterable, Iterator
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


def postorder(starts: Iterable[_Key], edges: Callable[[_Key], Iterable[_Key]]) -> Iterator[_Key]:
    """Yield each node after those that its edges lead to, but for circles: depth first."""
    seen: set[_Key] = set()
    for start in starts:
        path = [(start, iter(edges(start)))] if start not in seen else []
        seen.add(start)
        while path:
            node, rest = path[-1]
            for following in rest:
                if following not in seen:
                    seen.add(following)
                    path.append((following, iter(edges(following))))
                    break
            else:
                path.pop()
                yield node
