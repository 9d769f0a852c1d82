"""The output of `wheelfix tree`: library graphs as text, Mermaid, DOT and JSON.

Names are from wheels that may be hostile: each format escapes them in its own way.
"""

from collections.abc import Iterable, Iterator, Sequence

from wheelfix.analysis.graph import Change, Edge, Graph, Node, changes_between
from wheelfix.analysis.installation import Provenance
from wheelfix.reports.explain_formats import PROVENANCE_COLOURS, possible_providers
from wheelfix.reports.printable import Colour, paint, printable
from wheelfix.text import counted, in_units

FEW = 3
"""Dependents in a line before the rest is only counted."""
_STYLE = {
    Provenance.WHEEL: ("#dbeafe", "#2563eb"),
    Provenance.OTHER: ("#ede9fe", "#7c3aed"),
    Provenance.PYTHON: ("#fef9c3", "#a16207"),
    Provenance.PLATFORM: ("#f1f5f9", "#64748b"),
    Provenance.VARIABLE: ("#ffedd5", "#c2410c"),
    Provenance.MISSING: ("#fee2e2", "#dc2626"),
}
"""Fill and stroke colours."""
_MARKS = {Change.ADDED: "+", Change.GONE: "-", Change.CHANGED: "~"}


# --- Text -----------------------------------------------------------------------------------------


def graph_text(graph: Graph, *, colour: bool) -> str:
    """Return the load roots, the vendored libraries, those from elsewhere and those not found."""
    needs, dependents = graph.edges_from(), graph.edges_to()
    roots = [node for node in graph.nodes_from(Provenance.WHEEL) if node.is_root]
    lines = [
        paint(printable(graph.wheel), Colour.BOLD, on=colour),
        printable(f"on {graph.target}, in {graph.where}"),
        _sums(graph),
    ]
    for title, nodes in (("loaded first", roots), ("vendored libraries", graph.vendored)):
        if nodes:
            lines += ["", paint(title, Colour.BOLD, on=colour)]
        for node in nodes:
            by = "" if node.is_root else f"  needed by {_dependents(dependents.get(node.id, []))}"
            name = paint(printable(node.id), Colour.GREEN, on=colour)
            lines.append(f"  {name}  {printable(in_units(node.size or 0) + by)}")
            lines += _needs(graph, needs.get(node.id, []), colour=colour)
    for provenance, title in (
        (Provenance.OTHER, "from other wheels"),
        (Provenance.VARIABLE, "from LD_LIBRARY_PATH"),
        (Provenance.PYTHON, "from python"),
        (Provenance.PLATFORM, f"from the platform ({graph.target})"),
        (Provenance.MISSING, "not found"),
    ):
        nodes = graph.nodes_from(provenance)
        if nodes:
            lines += ["", paint(printable(title), Colour.BOLD, on=colour)]
        for node in nodes:
            name = paint(printable(node.id), PROVENANCE_COLOURS[provenance], on=colour)
            text = _dependents(dependents[node.id]) + possible_providers(node.package, node.wheels)
            lines.append(f"  {name}  needed by {printable(text)}")
    return "\n".join(lines)


def _sums(graph: Graph) -> str:
    own, vendored = graph.nodes_from(Provenance.WHEEL), graph.vendored
    text = f"{counted(len(own), 'object')}, {in_units(_bytes(own))}"
    if vendored:
        text += f"; {len(vendored)} of them vendored libraries, {in_units(_bytes(vendored))}"
    if graph.missing:
        text += f"; {counted(len(graph.missing), 'library')} not found"
    return text


def _needs(graph: Graph, edges: Sequence[Edge], *, colour: bool) -> Iterator[str]:
    provenances = {node.id: node.provenance for node in graph.nodes}
    plain: list[str] = []
    for edge in edges:
        if provenances[edge.target] is Provenance.PLATFORM and not edge.varies:
            plain.append(edge.name)
            continue
        provider_colour = PROVENANCE_COLOURS[provenances[edge.target]]
        name = paint(printable(edge.name), provider_colour, on=colour)
        leads = "" if edge.target == edge.name else f" => {printable(edge.target)}"
        how = paint(printable(f"[{edge.how}]"), Colour.DIM, on=colour)
        yield f"    {name}{leads}  {how}"
        yield from (f"      but {printable(other)}" for other in edge.varies)
    if plain:
        names = printable(", ".join(plain))
        yield f"    {paint(f'{names}  [platform]', Colour.DIM, on=colour)}"


def _dependents(edges: Sequence[Edge]) -> str:
    names = list(dict.fromkeys(edge.source.rpartition("/")[2] for edge in edges))
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return ", ".join(names[:FEW]) + more


# --- Two wheels side by side ----------------------------------------------------------------------


def compared_text(before: Graph, after: Graph, *, colour: bool) -> str:
    """Return the differences between a wheel and its repair in two columns."""
    rows: list[tuple[str, str, str]] = [("", "before", "after"), *_totals(before, after)]
    old, new = ({node.id: node for node in graph.nodes} for graph in (before, after))
    old_needs, new_needs = before.edges_from(), after.edges_from()
    changes = changes_between(before, after)
    unchanged = 0
    for name in dict.fromkeys((*old, *new)):
        sides = old.get(name), new.get(name)
        if not any(side and side.provenance is Provenance.WHEEL for side in sides):
            continue
        if changes[name] is Change.SAME:
            unchanged += 1
            continue
        sizes = [in_units(side.size or 0) if side else "-" for side in sides]
        rows.append((f"{_MARKS[changes[name]]} {name}", sizes[0], sizes[1]))
        rows += _changed_needs(old_needs.get(name, []), new_needs.get(name, []))
    for provenance in (Provenance.PLATFORM, Provenance.OTHER, Provenance.MISSING):
        word = "not found" if provenance is Provenance.MISSING else provenance.value
        for name in dict.fromkeys((*old, *new)):
            was, now = (
                side is not None and side.provenance is provenance
                for side in (old.get(name), new.get(name))
            )
            if was != now:
                left, right = (word, "-") if was else ("-", word)
                rows.append((f"{'-' if was else '+'} {name}", left, right))
    lines = [printable(f"before  {before.wheel}"), printable(f"after   {after.wheel}"), ""]
    lines += _columns([tuple(printable(cell) for cell in row) for row in rows], colour=colour)
    if unchanged:
        lines.append(f"{counted(unchanged, 'object')} unchanged")
    return "\n".join(lines)


def _totals(*graphs: Graph) -> Iterator[tuple[str, str, str]]:
    own = [graph.nodes_from(Provenance.WHEEL) for graph in graphs]
    for label, (old, new) in (
        ("objects", map(len, own)),
        ("vendored libraries", (len(graph.vendored) for graph in graphs)),
        ("not found", (len(graph.missing) for graph in graphs)),
        ("bytes", map(_bytes, own)),
    ):
        yield label, f"{old:,}", f"{new:,}"


def _bytes(nodes: Iterable[Node]) -> int:
    return sum(node.size or 0 for node in nodes)


def _changed_needs(old: Iterable[Edge], new: Iterable[Edge]) -> Iterator[tuple[str, str, str]]:
    before = {edge.name: edge for edge in old}
    after = {edge.name: edge for edge in new}
    for name in dict.fromkeys((*before, *after)):
        here, there = _result(before.get(name)), _result(after.get(name))
        if here != there:
            yield f"    {name}", here, there


def _result(edge: Edge | None) -> str:
    if edge is None:
        return "-"
    return edge.how if edge.how == "not found" else f"[{edge.how}]"


def _columns(rows: Sequence[tuple[str, ...]], *, colour: bool) -> Iterator[str]:
    widths = [min(max(len(row[n]) for row in rows), 60) for n in (0, 1)]
    paints = {"+": Colour.GREEN, "-": Colour.RED, "~": Colour.YELLOW}
    for first, second, third in rows:
        line = f"{first:{widths[0]}}  {second:{widths[1]}}  {third}".rstrip()
        tone = paints.get(first[:1])
        yield paint(line, tone, on=colour) if tone else line


# --- Mermaid and DOT ------------------------------------------------------------------------------


def mermaid(graphs: Sequence[Graph]) -> str:
    """Return a Mermaid flowchart; each of two graphs is a subgraph."""
    lines = ["flowchart LR"]
    for number, graph in enumerate(graphs):
        ids = {node.id: f"g{number}n{index}" for index, node in enumerate(graph.nodes)}
        if len(graphs) > 1:
            title = ("before", "after")[number]
            lines.append(f'subgraph g{number}["{_mermaid(f"{title}: {graph.wheel}")}"]')
        for node in graph.nodes:
            label = "<br>".join(_mermaid(text) for text in _label(node))
            lines.append(f'  {ids[node.id]}["{label}"]:::{_class(node.provenance)}')
        for edge in graph.edges:
            arrow = "-.->" if edge.how == "not found" else "-->"
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
    """Return a Graphviz digraph; each of two graphs is a cluster."""
    lines = [
        "digraph wheel {",
        "  rankdir=LR;",
        '  node [shape=box, style="rounded,filled", fontname="sans-serif", fontsize=10];',
        '  edge [fontname="sans-serif", fontsize=8, color="#64748b"];',
    ]
    for number, graph in enumerate(graphs):
        ids = {node.id: f"g{number}n{index}" for index, node in enumerate(graph.nodes)}
        title = graph.wheel if len(graphs) == 1 else f"{('before', 'after')[number]}: {graph.wheel}"
        lines += [f"  subgraph cluster_{number} {{", f"    label={_dot(title)};"]
        for node in graph.nodes:
            fill, stroke = _STYLE[node.provenance]
            label = _dot("\n".join(_label(node)))
            lines.append(
                f'    {ids[node.id]} [label={label}, fillcolor="{fill}", color="{stroke}"];'
            )
        for edge in graph.edges:
            style = ', style=dashed, color="#dc2626"' if edge.how == "not found" else ""
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
            {
                "id": node.id,
                "given_by": node.provenance.value,
                "role": node.role,
                "root": node.is_root,
                "size": node.size,
                "soname": node.soname,
                "search_path": node.search_path,
                "package": node.package,
                "wheels": list(node.wheels),
            }
            for node in graph.nodes
        ],
        "edges": [
            {
                "source": edge.source,
                "target": edge.target,
                "name": edge.name,
                "found": edge.how,
                "varies": list(edge.varies),
            }
            for edge in graph.edges
        ],
    }


def graphs_value(graphs: Sequence[Graph]) -> dict[str, object]:
    """Return one graph, or two as `before` and `after`, as JSON types."""
    if len(graphs) == 1:
        return {"version": 1, "graph": graph_value(graphs[0])}
    return {"version": 1, "before": graph_value(graphs[0]), "after": graph_value(graphs[1])}
