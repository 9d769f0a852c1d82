"""Chains of DT_NEEDED entries: by which objects a library gets into the load of a wheel."""

from collections import deque
from collections.abc import Iterator

from wheelfix.analysis.graph import Graph, Node
from wheelfix.wheel.grafted_name import original_name, short_names


def nodes_of_name(graph: Graph, name: str) -> tuple[Node, ...]:
    """Return the nodes that `name` means.

    That is a member, a file name, a SONAME, any of them without the hash of a graft, or a name
    without a version: `liblzma`, `lzma`.
    """
    found = tuple(node for node in graph.nodes if name in _names(node))
    return found or tuple(node for node in graph.nodes if name in _stems(node))


def _names(node: Node) -> set[str]:
    names = {node.id, node.name, node.soname or node.name}
    once = {original_name(known) for known in names}
    return names | once | {original_name(known) for known in once}  # grafted twice: OpenBLAS's


def _stems(node: Node) -> set[str]:
    return {short for known in _names(node) for short in short_names(known)}


def chains_to(graph: Graph, node: Node) -> Iterator[tuple[str, ...]]:
    """Yield for each load root a shortest chain of nodes that ends at `node`, the shortest first.

    A chain holds the ids of the nodes. A root that is `node` itself has none.
    """
    roots = {known.id for known in graph.nodes if known.is_root}
    dependents = graph.edges_to()
    after: dict[str, str | None] = {node.id: None}
    left = deque([node.id])
    while left:
        current = left.popleft()
        if current in roots and current != node.id:
            yield tuple(_chain(current, after))
        for edge in dependents.get(current, ()):
            if edge.source not in after:
                after[edge.source] = current
                left.append(edge.source)


def _chain(start: str, after: dict[str, str | None]) -> Iterator[str]:
    current: str | None = start
    while current is not None:
        yield current
        current = after[current]
