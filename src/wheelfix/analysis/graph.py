"""The library graph of a whole wheel: which object needs which library, and how it is found."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from wheelfix.analysis.installation import (
    Installation,
    LoadOptions,
    Provenance,
    installations_of,
    load_roots,
    loads_of,
)
from wheelfix.analysis.load_tree import Step, flat_steps, how_found
from wheelfix.analysis.providers import known_providers
from wheelfix.elf.model import Elf
from wheelfix.grouping import grouped
from wheelfix.loader.load_values import How, Load
from wheelfix.loader.loading import load, load_each
from wheelfix.wheel.model import Wheel


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One file, or the name of a library that is not found."""

    id: str
    """The member or `other.whl!member`; for the platform and if missing, the DT_NEEDED name."""
    provenance: Provenance
    role: str
    """`module`, `program` or `library`."""
    is_root: bool = False
    """Whether a process loads it first, and not only as a dependency."""
    size: int | None = None
    """Bytes; None if not known."""
    soname: str | None = None
    search_path: str | None = None
    """The tag and its value: `DT_RPATH $ORIGIN/../demo.libs`."""
    package: str | None = None
    """The platform's package that contains a missing library."""
    wheels: tuple[str, ...] = ()
    """The well-known wheels that contain a missing library."""

    @property
    def folder(self) -> str:
        """The folder in the wheel."""
        return self.id.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The file's name."""
        return self.id.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """One DT_NEEDED entry and its result."""

    source: str
    target: str
    name: str
    """The DT_NEEDED name."""
    how: str
    """`rpath $ORIGIN`, `platform glibc:2.28`, `not found`."""
    varies: tuple[str, ...] = ()
    """Other results and their install schemes: `not found if installed by target-pip`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The graph of one installed wheel."""

    wheel: str
    target: str
    where: str
    """The install schemes."""
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    def nodes_from(self, *provenances: Provenance) -> tuple[Node, ...]:
        """Return the nodes of these provenances."""
        return tuple(node for node in self.nodes if node.provenance in provenances)

    @property
    def missing(self) -> tuple[Node, ...]:
        """The libraries that are not found."""
        return self.nodes_from(Provenance.MISSING)

    @property
    def vendored(self) -> tuple[Node, ...]:
        """The wheel's libraries that are loaded only as dependencies."""
        return tuple(node for node in self.nodes_from(Provenance.WHEEL) if not node.is_root)

    def edges_to(self) -> dict[str, list[Edge]]:
        """Return the edges by the node that they lead to, from its dependents."""
        return grouped(self.edges, lambda edge: edge.target)

    def edges_from(self) -> dict[str, list[Edge]]:
        """Return the edges by the node that they start at: its DT_NEEDED entries."""
        return grouped(self.edges, lambda edge: edge.source)


class Change(StrEnum):
    """What a repair did to a node."""

    ADDED = "added"
    GONE = "gone"
    CHANGED = "changed"
    """Its file differs in size, SONAME or search path, or it needs or finds other libraries."""
    SAME = "same"


def changes_between(before: Graph, after: Graph) -> dict[str, Change]:
    """Return the change of each node of `before` or `after`, by its id."""
    old, new = ({node.id: node for node in graph.nodes} for graph in (before, after))
    old_needs, new_needs = before.edges_from(), after.edges_from()

    def change(name: str) -> Change:
        if name not in old:
            return Change.ADDED
        if name not in new:
            return Change.GONE
        is_same = old[name] == new[name] and set(old_needs.get(name, ())) == set(
            new_needs.get(name, ())
        )
        return Change.SAME if is_same else Change.CHANGED

    return {name: change(name) for name in dict.fromkeys((*old, *new))}


def graph_of(wheel: Wheel, options: LoadOptions) -> Graph:
    """Return the graph of `wheel` in one scheme; its edges list the differences in others."""
    installations = installations_of(wheel, options)
    sizes = {member.name: member.size for member in wheel.members}
    found = graph_of_installation(installations.here, str(wheel.name), sizes)
    varies: dict[tuple[str, str], dict[str, None]] = {}
    for elsewhere in installations.elsewhere:
        there = {_key(edge): edge for edge in _edges(elsewhere)}
        for edge in found.edges:
            other = there.get(_key(edge))
            if other is not None and other.target != edge.target:
                what = "not found" if other.how == "not found" else f"`{other.target}`"
                text = f"{what} if installed by {elsewhere.where}"
                varies.setdefault(_key(edge), {})[text] = None
    varying = (replace(edge, varies=tuple(varies.get(_key(edge), ()))) for edge in found.edges)
    return replace(found, edges=tuple(varying))


def graph_of_installation(
    installation: Installation, title: str, sizes: Mapping[str, int]
) -> Graph:
    """Return the graph of an installed environment; `sizes` are bytes by member."""
    edges = _edges(installation)
    return Graph(
        wheel=title,
        target=installation.name,
        where=installation.where,
        nodes=_nodes(installation, edges, sizes),
        edges=edges,
    )


def _key(edge: Edge) -> tuple[str, str]:
    return edge.source, edge.name


def _edges(installation: Installation) -> tuple[Edge, ...]:
    """Return each different result of each DT_NEEDED entry, over the loads of all load roots."""
    environment = installation.environment
    roots = list(load_roots(installation))
    found: dict[tuple[str, str, str], Edge] = {}
    searched: set[tuple[str, str, str]] = set()
    own = {path for path in installation.members if path in environment.files}
    left = {path for path in own if environment.files[path].dynamic}
    while left:
        # Objects that no root leads to need each other in a circle: each of them is a root.
        roots = [path for path in roots if path in left] or sorted(left)
        for load_of_root, before in _loads(installation, roots):
            left.difference_update(load_of_root.objects)
            for step in flat_steps(installation, load_of_root, before):
                edge = _edge(installation, step)
                if edge is None:
                    continue
                key = (edge.source, edge.name, edge.target)
                is_searched = step.request.how is not How.LOADED
                if key not in found or (is_searched and key not in searched):
                    found[key] = edge
                if is_searched:
                    searched.add(key)
        left.difference_update(roots)
    return tuple(found.values())


def _loads(
    installation: Installation, roots: Sequence[str]
) -> Iterator[tuple[Load, Sequence[Load]]]:
    """Load each of `roots` in a process of its own; yield with it the loads before."""
    environment = installation.environment
    budget = installation.budget
    start = (load(environment.main, environment, budget),) if environment.main else ()
    plain = [path for path in roots if path not in installation.shimmed]
    for load_of_root in load_each(plain, environment, budget):
        yield load_of_root, start
    for path in roots:
        if path in installation.shimmed:
            *before, last = loads_of(installation, path)
            yield last, before


def _edge(installation: Installation, step: Step) -> Edge | None:
    request = step.request
    if request.requester is None or request.requester not in installation.members:
        return None
    if step.origin is None:
        target = request.name
    elif step.origin.provenance is Provenance.PLATFORM:
        target = step.origin.name.rpartition("/")[2]
    else:
        target = step.origin.name
    return Edge(
        source=installation.label(request.requester),
        target=target,
        name=request.name,
        how=how_found(installation, step),
    )


def _nodes(
    installation: Installation, edges: tuple[Edge, ...], sizes: Mapping[str, int]
) -> tuple[Node, ...]:
    """Return the wheel's objects, and all else that `edges` lead to."""
    files = installation.environment.files
    nodes = {node.id: node for node in _own_nodes(installation, sizes)}
    paths = {installation.label(path): path for path in files if path not in installation.members}
    for edge in edges:
        if edge.target in nodes:
            continue
        path = paths.get(edge.target)
        if path is not None:
            provenance = installation.origin(path).provenance
            nodes[edge.target] = _file_node(edge.target, provenance, files[path])
        elif edge.how == "not found":
            nodes[edge.target] = Node(
                id=edge.target,
                provenance=Provenance.MISSING,
                role="library",
                package=installation.packages.get(edge.target),
                wheels=known_providers(edge.name),
            )
        else:
            nodes[edge.target] = Node(
                id=edge.target, provenance=Provenance.PLATFORM, role="library"
            )
    return tuple(nodes.values())


def _own_nodes(installation: Installation, sizes: Mapping[str, int]) -> Iterator[Node]:
    files = installation.environment.files
    roots = set(load_roots(installation))
    for path, member in installation.members.items():
        elf = files.get(path)
        if elf is not None and elf.dynamic:
            node = _file_node(member, Provenance.WHEEL, elf)
            yield replace(node, is_root=path in roots, size=sizes.get(member))


def _file_node(name: str, provenance: Provenance, elf: Elf) -> Node:
    return Node(
        id=name,
        provenance=provenance,
        role="program" if elf.is_executable else "module" if elf.module_hooks else "library",
        soname=elf.soname,
        search_path=None if elf.search_path is None else f"{elf.path_tag} {elf.search_path}",
    )
