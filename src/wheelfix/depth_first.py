"""Nodes in the order of a depth-first walk."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

_Node = TypeVar("_Node", bound=Hashable)


def postorder(
    starts: Iterable[_Node], edges: Callable[[_Node], Iterable[_Node]]
) -> Iterator[_Node]:
    """Yield each node after those that its edges lead to, but for circles."""
    seen: set[_Node] = set()
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
