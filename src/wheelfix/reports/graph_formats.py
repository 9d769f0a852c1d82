"""The output of `wheelfix tree`: library graphs as text, Mermaid, DOT and JSON.

Names are from wheels that may be hostile: each format escapes them in its own way.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from wheelfix.analysis.graph import Edge, Graph, Node
from wheelfix.analysis.world import Provenance
from wheelfix.grouping import grouped
from wheelfix.reports.explain_formats import PROVENANCE_COLORS, possible_providers
from wheelfix.reports.printable import PLAIN, Color, Style, fields_value, paint, printable
from wheelfix.text import FEW, count, in_units, join_plain, join_some

_STYLE = {
    Provenance.WHEEL: ("#dbeafe", "#2563eb"),
    Provenance.OTHER: ("#ede9fe", "#7c3aed"),
    Provenance.PYTHON: ("#fef9c3", "#a16207"),
    Provenance.PLATFORM: ("#f1f5f9", "#64748b"),
    Provenance.VARIABLE: ("#ffedd5", "#c2410c"),
    Provenance.MISSING: ("#fee2e2", "#dc2626"),
}
"""Fill and stroke colors."""


# --- Text -----------------------------------------------------------------------------------------


def graph_text(graph: Graph, style: Style = PLAIN) -> str:
    """Return the load roots, the vendored libraries, those from elsewhere and those not found.

    Those with the same needs are shown once, unless verbose.
    """
    needs, dependents = graph.edges_from(), graph.edges_to()
    roots = [node for node in graph.nodes_from(Provenance.WHEEL) if node.is_root]
    lines = [
        paint(printable(graph.wheel), Color.BOLD, on=style.color),
        printable(f"on {graph.target}, in {graph.where}"),
        _sums(graph),
    ]
    for title, nodes in (("loaded first", roots), ("vendored libraries", graph.vendored)):
        if nodes:
            lines += ["", paint(title, Color.BOLD, on=style.color)]
        for node, *others in _alike(nodes, needs, style):
            edges = dependents.get(node.id, [])
            by = f"  needed by {_dependents(edges)}" if edges and not node.is_root else ""
            more = f" and {len(others):,} more with the same needs: -v" if others else ""
            name = paint(printable(node.id), Color.GREEN, on=style.color)
            lines.append(f"  {name}{more}  {printable(in_units(node.size or 0) + by)}")
            lines += _needs(graph, needs.get(node.id, []), style)
    for provenance, title in (
        (Provenance.OTHER, "from other wheels"),
        (Provenance.VARIABLE, "from LD_LIBRARY_PATH"),
        (Provenance.PYTHON, "from python"),
        (Provenance.PLATFORM, f"from the platform ({graph.target})"),
        (Provenance.MISSING, "not found"),
    ):
        nodes = graph.nodes_from(provenance)
        if nodes:
            lines += ["", paint(printable(title), Color.BOLD, on=style.color)]
        for node in nodes:
            name = paint(printable(node.id), PROVENANCE_COLORS[provenance], on=style.color)
            providers = possible_providers(node.name, node.package, node.versions)
            if node.unreached:
                providers = f"  (no search path leads to {join_some(node.unreached, 2)})"
            text = _dependents(dependents[node.id]) + providers
            lines.append(f"  {name}  needed by {printable(text)}")
    return "\n".join(lines)


def _alike(
    nodes: Sequence[Node], needs: Mapping[str, Sequence[Edge]], style: Style
) -> Iterable[Sequence[Node]]:
    """Return the load roots that find the same libraries in the same way, and others alone."""

    def key(node: Node) -> Hashable:
        if style.verbose or not node.is_root:
            return node.id
        return tuple((edge.name, edge.target, edge.how) for edge in needs.get(node.id, ()))

    return grouped(nodes, key).values()


def _sums(graph: Graph) -> str:
    own, vendored = graph.nodes_from(Provenance.WHEEL), graph.vendored
    text = f"{count(len(own), 'object')}, {in_units(_bytes(own))}"
    if vendored:
        text += (
            f"; {count(len(vendored), 'vendored library')} among them, {in_units(_bytes(vendored))}"
        )
    if graph.missing:
        text += f"; {count(len(graph.missing), 'library')} not found"
    return text


def _needs(graph: Graph, edges: Sequence[Edge], style: Style) -> Iterator[str]:
    provenances = {node.id: node.provenance for node in graph.nodes}
    plain: list[str] = []
    for edge in edges:
        if provenances[edge.target] is Provenance.PLATFORM and not edge.varies:
            plain.append(edge.name)
            continue
        provider_color = PROVENANCE_COLORS[provenances[edge.target]]
        name = paint(printable(edge.name), provider_color, on=style.color)
        is_named = edge.given_by is Provenance.MISSING or edge.target == edge.name
        leads = "" if is_named else f" => {printable(edge.target)}"
        how = paint(printable(f"[{edge.how}]"), Color.DIM, on=style.color)
        yield f"    {name}{leads}  {how}"
        yield from (f"      but {printable(other)}" for other in edge.varies)
    if plain:
        names = printable(", ".join(plain))
        yield f"    {paint(f'{names}  [platform]', Color.DIM, on=style.color)}"


def _dependents(edges: Sequence[Edge]) -> str:
    return join_plain((edge.source.rpartition("/")[2] for edge in edges), FEW)


# --- Two wheels side by side ----------------------------------------------------------------------


def _bytes(nodes: Iterable[Node]) -> int:
    return sum(node.size or 0 for node in nodes)


def mermaid(graphs: Sequence[Graph]) -> str:
    """Return a Mermaid flowchart; each of several graphs is a subgraph.

    Two are `compared`: before and after a repair.
    """
    lines = ["flowchart LR"]
    for number, graph in enumerate(graphs):
        ids = {node.id: f"g{number}n{index}" for index, node in enumerate(graph.nodes)}
        if len(graphs) > 1:
            lines.append(f'subgraph g{number}["{_mermaid(graph.wheel)}"]')
        for node in graph.nodes:
            label = "<br>".join(_mermaid(text) for text in _label(node))
            lines.append(f'  {ids[node.id]}["{label}"]:::{_class(node.provenance)}')
        for edge in graph.edges:
            arrow = "-.->" if edge.given_by is Provenance.MISSING else "-->"
            label = _mermaid(edge.how)
            lines.append(f'  {ids[edge.source]} {arrow}|"{label}"| {ids[edge.target]}')
        if len(graphs) > 1:
            lines.append("end")
    for provenance, (fill, stroke) in _STYLE.items():
        name = _class(provenance)
        lines.append(f"classDef {name} fill:{fill},stroke:{stroke},color:#0f172a")
    return "\n".join(lines)


def _mermaid(text: str) -> str:
    """Escape a label: write characters with a meaning as entities (Mermaid, "Entity codes")."""
    return "".join(
        c if c.isalnum() or c in " ._-+/,:$()[]!" else f"#{ord(c)};" for c in printable(text)
    )


def _class(provenance: Provenance) -> str:
    return provenance.name.lower()


def _label(node: Node) -> tuple[str, ...]:
    return (node.id, in_units(node.size)) if node.size is not None else (node.id,)


def dot(graphs: Sequence[Graph]) -> str:
    """Return a Graphviz digraph; each graph is a cluster.

    Two are `compared`: before and after a repair.
    """
    lines = [
        "digraph wheel {",
        "  rankdir=LR;",
        '  node [shape=box, style="rounded,filled", fontname="sans-serif", fontsize=10];',
        '  edge [fontname="sans-serif", fontsize=8, color="#64748b"];',
    ]
    for number, graph in enumerate(graphs):
        ids = {node.id: f"g{number}n{index}" for index, node in enumerate(graph.nodes)}
        lines += [f"  subgraph cluster_{number} {{", f"    label={_dot(graph.wheel)};"]
        for node in graph.nodes:
            fill, stroke = _STYLE[node.provenance]
            label = _dot("\n".join(_label(node)))
            lines.append(
                f'    {ids[node.id]} [label={label}, fillcolor="{fill}", color="{stroke}"];'
            )
        for edge in graph.edges:
            is_missing = edge.given_by is Provenance.MISSING
            style = ', style=dashed, color="#dc2626"' if is_missing else ""
            arrow = f"{ids[edge.source]} -> {ids[edge.target]}"
            lines.append(f"    {arrow} [label={_dot(edge.how)}{style}];")
        lines.append("  }")
    return "\n".join([*lines, "}"])


def _dot(text: str) -> str:
    """Quote a DOT string: escape backslashes and quotes."""
    lines = (printable(line).replace("\\", "\\\\").replace('"', '\\"') for line in text.split("\n"))
    return '"' + "\\n".join(lines) + '"'


# --- JSON -----------------------------------------------------------------------------------------


def graph_value(graph: Graph) -> dict[str, object]:
    """Return the graph as JSON types."""
    return {
        "wheel": graph.wheel,
        "target": graph.target,
        "installed": graph.where,
        "nodes": [
            fields_value(node._asdict(), provenance="given_by", is_root="root")
            for node in graph.nodes
        ],
        "edges": [fields_value(edge._asdict(), how="found") for edge in graph.edges],
    }


def graphs_value(graphs: Sequence[Graph]) -> dict[str, object]:
    """Return the graphs as JSON types."""
    return {"version": 1, "graphs": [graph_value(graph) for graph in graphs]}
