"""Chains of DT_NEEDED entries: by which objects a library gets into the load of a wheel."""

import posixpath
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from wheelfix.analysis.opened_libraries import openings
from wheelfix.elf.model import names_of
from wheelfix.grouping import flatten, values_by_key
from wheelfix.wheel.grafted_name import earlier_names, short_names
from wheelfix.wheel.model import Wheel

if TYPE_CHECKING:
    from wheelfix.analysis.graph import Graph, Node


def nodes_of_name(graph: "Graph", name: str) -> tuple["Node", ...]:
    """Return the nodes that `name` means.

    That is a member, a file name, a SONAME, any of them without the hash of a graft, or a name
    without a version: `liblzma`, `lzma`; or a path, whose file a repair may have brought in.
    """
    nodes = tuple(node for node in graph.nodes if name in _names(node))
    nodes = nodes or tuple(node for node in graph.nodes if name in _stems(node))
    file = posixpath.basename(name)
    return nodes if nodes or file == name else nodes_of_name(graph, file)


def _names(node: "Node") -> set[str]:
    names = {node.id, node.name, node.soname or node.name}
    return names.union(*map(earlier_names, names))


def _stems(node: "Node") -> set[str]:
    return set(flatten(map(short_names, _names(node))))


def openers_of(wheel: Wheel, library: str) -> tuple[str, ...]:
    """Return the calls of Python sources that open what `library`, as above, means."""
    asked = posixpath.basename(library)
    return tuple(
        f"{opening.text} of `{source}`"
        for source, opening in openings(wheel)
        for name in (posixpath.basename(opening.name),)
        if asked in {name, *short_names(name)} or name in earlier_names(asked)
    )


def chains_to(graph: "Graph", node: "Node") -> Iterator[tuple[str, ...]]:
    """Yield for each load root a shortest chain of nodes that ends at `node`, the shortest first.

    And then one through each other object that needs `node`; it begins at that if no root leads
    there. A chain holds the ids of the nodes. A root that is `node` itself has none.
    """
    roots = {known.id for known in graph.nodes if known.is_root} - {node.id}
    dependents = values_by_key((edge.target, edge.source) for edge in graph.edges)

    def needing(known: str) -> Iterable[str]:
        return dependents.get(known, ())

    told = {node.id}
    for chain in shortest_chains(node.id, roots, needing):
        told.update(chain[-2:])
        yield chain
    for dependent in dict.fromkeys(needing(node.id)):
        through = next(iter(shortest_chains(dependent, roots, needing)), (dependent,))
        if dependent not in told and node.id not in through:
            yield (*through, node.id)


def objects_needing(wheel: Wheel, node: "Node") -> list[str]:
    """Return the members whose DT_NEEDED has the name of `node`, whatever file that finds."""
    names = names_of(node.id, node.soname)
    return [
        member
        for member, elf in wheel.elfs.items()
        if not names.isdisjoint(map(posixpath.basename, elf.needed))
    ]


def shortest_chains(
    end: str, roots: Collection[str], dependents: Callable[[str], Iterable[str]]
) -> Iterator[tuple[str, ...]]:
    """Yield for each of `roots` a shortest chain that ends at `end`, the shortest first.

    `dependents` returns what needs an object.
    """
    after: dict[str, str | None] = {end: None}
    left = deque([end])
    while left:
        current = left.popleft()
        if current in roots:
            yield tuple(_chain(current, after))
        for dependent in dependents(current):
            if dependent not in after:
                after[dependent] = current
                left.append(dependent)


def _chain(start: str, after: dict[str, str | None]) -> Iterator[str]:
    current: str | None = start
    while current is not None:
        yield current
        current = after[current]
