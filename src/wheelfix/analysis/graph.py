"""The library graph of a whole wheel: which object needs which library, and how it is found."""

import posixpath
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from wheelfix.analysis.load_tree import Step, describe_search, flat_steps, found_elsewhere
from wheelfix.analysis.world import Provenance, World
from wheelfix.elf.model import Elf
from wheelfix.grouping import grouped
from wheelfix.loader.load_values import How
from wheelfix.named_tuple import NamedTuple
from wheelfix.wheel.model import Wheel


class Node(NamedTuple):
    """One file, or the name of a library that is not found."""

    id: str
    """The member or `other.whl!member`; for the platform and if missing, the DT_NEEDED name.

    Where another node has that name, after the provenance: `missing/libx.so`.
    """
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
    unreached: tuple[str, ...] = ()
    """Files of other wheels with the name of a missing library: no search path leads there."""
    versions: tuple[str, ...] = ()
    """The files that are other versions of a missing library."""

    @property
    def folder(self) -> str:
        """The folder in the wheel."""
        return self.id.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The file's name."""
        return self.id.rpartition("/")[2]


class Edge(NamedTuple):
    """One DT_NEEDED entry and its result."""

    source: str
    target: str
    given_by: Provenance
    """Of the target; MISSING if it is not found."""
    name: str
    """The DT_NEEDED name."""
    how: str
    """`rpath $ORIGIN`, `platform glibc:2.28`, `not found`."""
    varies: tuple[str, ...] = ()
    """Other results and their install schemes: `not found if installed by target-pip`."""


class Graph(NamedTuple):
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


class Loads(NamedTuple):
    """The loads of a graph."""

    roots: Sequence[str] = ()
    """The files that are loaded; if empty, all that is loaded first."""
    after: Sequence[str] = ()
    """The files that are loaded before."""
    needing: Container[str] | None = None
    """The files at which edges begin; None for the members of the wheel."""


_ALL = Loads()


def graph_of(world: World, title: str, sizes: Mapping[str, int], loads: Loads = _ALL) -> Graph:
    """Return the graph of `loads`, whose edges list the differences in other arrangements.

    `sizes` are bytes by member.
    """
    roots, edges = loads.roots, _edges(world, loads)
    varies: dict[tuple[str, str], dict[str, None]] = {}
    for elsewhere in world.elsewhere:
        members = (world.members.get(path, "") for path in roots)
        others = [elsewhere.paths[member] for member in members if member in elsewhere.paths]
        there = {_key(edge): edge for edge in _edges(elsewhere, Loads(others))}
        for edge in edges:
            other = there.get(_key(edge))
            if other is not None and _result(other) != _result(edge):
                is_missing = other.given_by is Provenance.MISSING
                what = "not found" if is_missing else f"`{other.target}`"
                text = f"{what} if installed by {elsewhere.where}"
                varies.setdefault(_key(edge), {})[text] = None
    edges = tuple(
        edge._replace(target=target, varies=tuple(varies.get(_key(edge), ())))
        for edge, target in zip(edges, _targets(world, edges), strict=True)
    )
    return Graph(
        wheel=title,
        target=world.name,
        where=world.where,
        nodes=_nodes(world, edges, sizes, roots),
        edges=edges,
    )


def graph_of_wheel(wheel: Wheel, world: World) -> Graph:
    """Return the graph of `wheel` in `world`."""
    return graph_of(world, str(wheel.name), wheel.sizes)


def _key(edge: Edge) -> tuple[str, str]:
    return edge.source, edge.name


def _result(edge: Edge) -> tuple[Provenance, str]:
    return edge.given_by, edge.target


def _targets(world: World, edges: Iterable[Edge]) -> Iterator[str]:
    """Yield the ids of the nodes that `edges` lead to; a node has one provenance."""
    known = dict.fromkeys(world.paths, Provenance.WHEEL)
    for edge in edges:
        is_own = known.setdefault(edge.target, edge.given_by) is edge.given_by
        yield edge.target if is_own else f"{edge.given_by}/{edge.target}"


def _edges(world: World, loads: Loads) -> tuple[Edge, ...]:
    """Return each different result of each DT_NEEDED entry, over the loads of all load roots."""
    edges: dict[tuple[str, str, tuple[Provenance, str]], Edge] = {}
    searched: set[tuple[str, str, tuple[Provenance, str]]] = set()
    needing = world.members if loads.needing is None else loads.needing
    for root in loads.roots or world.first_loads:
        *before, load = world.process(root, loads.after)
        for step in flat_steps(world, load, before):
            if (step.request.requester or "") not in needing:
                continue
            edge = _edge(world, step)
            key = (edge.source, edge.name, _result(edge))
            is_searched = step.request.how is not How.LOADED
            if key not in edges or (is_searched and key not in searched):
                edges[key] = edge
            if is_searched:
                searched.add(key)
    return tuple(edges.values())


def _edge(world: World, step: Step) -> Edge:
    request = step.request
    if step.origin is None:
        target = request.name
    elif step.origin.provenance is Provenance.PLATFORM:
        target = step.origin.name.rpartition("/")[2]
    else:
        target = step.origin.name
    return Edge(
        source=world.label(request.requester or ""),
        target=target,
        given_by=step.origin.provenance if step.origin else Provenance.MISSING,
        name=request.name,
        how=describe_search(world, step),
    )


def _nodes(
    world: World, edges: tuple[Edge, ...], sizes: Mapping[str, int], roots: Sequence[str]
) -> tuple[Node, ...]:
    """Return the wheel's objects, and all else that `edges` lead to.

    Of `roots`, only what they load.
    """
    files = world.environment.files
    shown = {*map(world.label, roots), *(edge.target for edge in edges)}
    own = (node for node in _wheel_nodes(world, sizes) if not roots or node.id in shown)
    nodes = {node.id: node for node in own}
    paths = {world.label(path): path for path in files}
    others = grouped(world.others, posixpath.basename)
    for edge in edges:
        if edge.target in nodes:
            continue
        if edge.given_by is Provenance.MISSING:
            package, wheels, versions = found_elsewhere(world, edge.name)
            nodes[edge.target] = Node(
                id=edge.target,
                provenance=Provenance.MISSING,
                role="library",
                package=package,
                wheels=wheels,
                unreached=tuple(map(world.label, others.get(edge.name, ()))),
                versions=versions,
            )
        elif edge.given_by is Provenance.PLATFORM:
            nodes[edge.target] = Node(
                id=edge.target, provenance=Provenance.PLATFORM, role="library"
            )
        else:
            nodes[edge.target] = _file_node(edge.target, edge.given_by, files[paths[edge.target]])
    return tuple(nodes.values())


def _wheel_nodes(world: World, sizes: Mapping[str, int]) -> Iterator[Node]:
    files = world.environment.files
    roots = set(world.roots)
    for path, member in world.members.items():
        elf = files.get(path)
        if elf is not None and elf.dynamic:
            node = _file_node(member, Provenance.WHEEL, elf)
            yield node._replace(is_root=path in roots, size=sizes.get(member))


def _file_node(name: str, provenance: Provenance, elf: Elf) -> Node:
    return Node(
        id=name,
        provenance=provenance,
        role="program" if elf.is_executable else "module" if elf.module_hooks else "library",
        soname=elf.soname,
        search_path=None if elf.search_path is None else f"{elf.path_tag} {elf.search_path}",
    )
