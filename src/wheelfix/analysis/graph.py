"""The libraries of a whole wheel as a graph: who needs whom, found how, given by whom."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from wheelfix.analysis.explain import (
    Provenance,
    Question,
    Step,
    World,
    answers,
    how_found,
    load_roots,
    loads_of,
    worlds_of,
)
from wheelfix.analysis.providers import known_providers
from wheelfix.elf.model import Elf
from wheelfix.loader.model import How, Load
from wheelfix.loader.search import load, load_each
from wheelfix.wheel.model import Wheel


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One file, or one name that nobody serves."""

    id: str
    """The member; `other.whl!member`; for the platform and for nobody, the name asked for."""
    giver: Provenance
    role: str
    """`module`, `program` or `library`."""
    is_root: bool = False
    """Whether it is opened first, and not only for others."""
    size: int | None = None
    """Bytes; None where it is not known."""
    soname: str | None = None
    search_path: str | None = None
    """The tag and its value: `DT_RPATH $ORIGIN/../demo.libs`."""
    package: str | None = None
    """The distribution's package that would bring what is missing."""
    wheels: tuple[str, ...] = ()
    """The well-known wheels that have what is missing."""

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
    """One DT_NEEDED entry and its answer."""

    source: str
    target: str
    name: str
    """As asked for."""
    how: str
    """`rpath $ORIGIN`, `platform glibc:2.28`, `not found`."""
    varies: tuple[str, ...] = ()
    """Other answers, and where they hold: `not found if installed by target-pip`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """One wheel, installed."""

    wheel: str
    target: str
    where: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    def given(self, *givers: Provenance) -> tuple[Node, ...]:
        """Return the nodes of these givers."""
        return tuple(node for node in self.nodes if node.giver in givers)

    @property
    def missing(self) -> tuple[Node, ...]:
        """What nobody gives."""
        return self.given(Provenance.NOBODY)

    @property
    def vendored(self) -> tuple[Node, ...]:
        """The libraries that are there for others."""
        return tuple(node for node in self.given(Provenance.WHEEL) if not node.is_root)

    def users(self) -> dict[str, list[Edge]]:
        """Return the edges by what they lead to."""
        found: dict[str, list[Edge]] = {node.id: [] for node in self.nodes}
        for edge in self.edges:
            found[edge.target].append(edge)
        return found

    def needs(self) -> dict[str, list[Edge]]:
        """Return the edges by what they come from."""
        found: dict[str, list[Edge]] = {node.id: [] for node in self.nodes}
        for edge in self.edges:
            found[edge.source].append(edge)
        return found


def graph_of(wheel: Wheel, question: Question) -> Graph:
    """Return the graph of `wheel` in one scheme; its edges say what differs in others."""
    worlds = worlds_of(wheel, question)
    world = worlds.here
    edges = _edges(world)
    varies: dict[tuple[str, str], dict[str, None]] = {}
    for elsewhere in worlds.elsewhere:
        there = {_key(edge): edge for edge in _edges(elsewhere)}
        for edge in edges:
            other = there.get(_key(edge))
            if other is not None and other.target != edge.target:
                what = "not found" if other.how == "not found" else f"`{other.target}`"
                text = f"{what} if installed by {elsewhere.where}"
                varies.setdefault(_key(edge), {})[text] = None
    told = tuple(replace(edge, varies=tuple(varies.get(_key(edge), ()))) for edge in edges)
    sizes = {member.name: member.size for member in wheel.members}
    return Graph(
        wheel=str(wheel.name),
        target=world.name,
        where=world.where,
        nodes=tuple(_nodes(world, told, sizes)),
        edges=told,
    )


def graph_of_world(world: World, title: str, sizes: Mapping[str, int]) -> Graph:
    """Return the graph of an environment as it stands; `sizes` are by the names of members."""
    edges = _edges(world)
    return Graph(
        wheel=title,
        target=world.name,
        where=world.where,
        nodes=tuple(_nodes(world, edges, sizes)),
        edges=edges,
    )


def _key(edge: Edge) -> tuple[str, str]:
    return edge.source, edge.name


def _edges(world: World) -> tuple[Edge, ...]:
    """Return each different answer to each DT_NEEDED entry, over all that may be opened first."""
    environment = world.environment
    roots = list(load_roots(world))
    found: dict[tuple[str, str, str], Edge] = {}
    searched: set[tuple[str, str, str]] = set()
    own = {path for path in world.members if path in environment.files}
    left = {path for path in own if environment.files[path].dynamic}
    while left:
        # What none of the roots leads to are circles of objects: all of them are opened.
        roots = [path for path in roots if path in left] or sorted(left)
        for each, before in _each(world, roots):
            left.difference_update(each.objects)
            for step in answers(world, each, before):
                edge = _edge(world, step)
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


def _each(world: World, roots: Sequence[str]) -> Iterator[tuple[Load, Sequence[Load]]]:
    """Load each of `roots` in a process of its own; yield also what was loaded before it."""
    environment = world.environment
    start = (load(environment.main, environment),) if environment.main else ()
    for each in load_each([path for path in roots if path not in world.shimmed], environment):
        yield each, start
    for path in roots:
        if path in world.shimmed:
            *before, last = loads_of(world, path)
            yield last, before


def _edge(world: World, step: Step) -> Edge | None:
    request = step.request
    if request.requester is None or request.requester not in world.members:
        return None
    if step.place is None:
        target = request.name
    elif step.place.giver is Provenance.PLATFORM:
        target = step.place.name.rpartition("/")[2]
    else:
        target = step.place.name
    return Edge(
        source=world.label(request.requester),
        target=target,
        name=request.name,
        how=how_found(world, step),
    )


def _nodes(world: World, edges: tuple[Edge, ...], sizes: Mapping[str, int]) -> Iterator[Node]:
    files = world.environment.files
    roots = set(load_roots(world))
    known: dict[str, Node] = {}
    for path, member in world.members.items():
        elf = files.get(path)
        if elf is not None and elf.dynamic:
            known[member] = _node(
                member, Provenance.WHEEL, elf, sizes.get(member), root=path in roots
            )
    labels = {world.label(path): path for path in files if path not in world.members}
    for edge in edges:
        if edge.target in known:
            continue
        file = labels.get(edge.target)
        if file is not None:
            known[edge.target] = _node(
                edge.target, world.place(file).giver, files[file], None, root=False
            )
        else:
            giver = Provenance.NOBODY if edge.how == "not found" else Provenance.PLATFORM
            package = world.packages.get(edge.target)
            known[edge.target] = Node(
                id=edge.target,
                giver=giver,
                role="library",
                package=package if giver is Provenance.NOBODY else None,
                wheels=known_providers(edge.name) if giver is Provenance.NOBODY else (),
            )
    yield from known.values()


def _node(name: str, giver: Provenance, elf: Elf, size: int | None, *, root: bool) -> Node:
    path = None if elf.search_path is None else f"{elf.path_tag} {elf.search_path}"
    role = "program" if elf.is_executable else "module" if elf.module_hooks else "library"
    return Node(
        id=name,
        giver=giver,
        role=role,
        is_root=root,
        size=size,
        soname=elf.soname,
        search_path=path,
    )
