"""The graphs of `wheelfix explain`: Mermaid, DOT, and what the page shows.

Names are from wheels that may be hostile: each format escapes them in its own way.
"""

from collections.abc import Sequence

from wheelfix.analysis.graph import Graph, Node
from wheelfix.analysis.world import Provenance
from wheelfix.reports.printable import fields_value, printable
from wheelfix.text import in_units

_STYLE = {
    Provenance.WHEEL: ("#dbeafe", "#2563eb"),
    Provenance.OTHER: ("#ede9fe", "#7c3aed"),
    Provenance.PYTHON: ("#fef9c3", "#a16207"),
    Provenance.PLATFORM: ("#f1f5f9", "#64748b"),
    Provenance.VARIABLE: ("#ffedd5", "#c2410c"),
    Provenance.MISSING: ("#fee2e2", "#dc2626"),
}
"""Fill and stroke colors."""


def mermaid(graphs: Sequence[Graph]) -> str:
    """Return a Mermaid flowchart; each of several graphs is a subgraph."""
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
    """Return a Graphviz digraph; each graph is a cluster."""
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
