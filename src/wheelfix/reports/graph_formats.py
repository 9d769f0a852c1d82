"""The graph of a wheel as text, Mermaid, DOT and JSON; one wheel, or two side by side.

Names come from wheels that may be hostile: each format escapes them in its own way.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from wheelfix.analysis.explain import Provenance
from wheelfix.analysis.graph import Edge, Graph, Node
from wheelfix.reports.explain_text import possible_providers
from wheelfix.reports.printable import Colour, paint, printable
from wheelfix.text import counted

FEW = 3
_STYLE = {
    Provenance.WHEEL: ("#dbeafe", "#2563eb"),
    Provenance.OTHER: ("#ede9fe", "#7c3aed"),
    Provenance.PYTHON: ("#fef9c3", "#a16207"),
    Provenance.PLATFORM: ("#f1f5f9", "#64748b"),
    Provenance.GIVEN: ("#ffedd5", "#c2410c"),
    Provenance.NOBODY: ("#fee2e2", "#dc2626"),
}
"""Fill and stroke."""


def size_text(size: int | None) -> str:
    """Return `1.2 MB`, in powers of ten; nothing for an unknown size."""
    if size is None:
        return ""
    if size < 1000:
        return f"{size} B"
    amount, unit = size / 1000, "kB"
    if amount >= 999.95:
        amount, unit = amount / 1000, "MB"
    return f"{amount:.1f} {unit}"


# --- Text -----------------------------------------------------------------------------------------


def graph_text(graph: Graph, *, colour: bool) -> str:
    """Return what is loaded first, what is vendored, what the platform and nobody gives."""
    needs, users = graph.needs(), graph.users()
    roots = [node for node in graph.given(Provenance.WHEEL) if node.is_root]
    lines = [
        paint(printable(graph.wheel), Colour.BOLD, on=colour),
        printable(f"on {graph.target}, in {graph.where}"),
        _sums(graph),
    ]
    for title, nodes in (("loaded first", roots), ("vendored libraries", graph.vendored)):
        if nodes:
            lines += ["", paint(title, Colour.BOLD, on=colour)]
        for node in nodes:
            by = "" if node.is_root else f"  needed by {_users(users[node.id])}"
            lines.append(
                f"  {paint(printable(node.id), Colour.GREEN, on=colour)}  "
                f"{printable(size_text(node.size) + by)}"
            )
            lines += _needs(graph, needs[node.id], colour=colour)
    for giver, title in (
        (Provenance.OTHER, "other wheels give"),
        (Provenance.GIVEN, "LD_LIBRARY_PATH gives"),
        (Provenance.PYTHON, "python gives"),
        (Provenance.PLATFORM, f"the platform gives ({graph.target})"),
        (Provenance.NOBODY, "nobody gives"),
    ):
        nodes = graph.given(giver)
        if nodes:
            lines += ["", paint(printable(title), Colour.BOLD, on=colour)]
        for node in nodes:
            name = paint(printable(node.id), _colour(giver), on=colour)
            text = _users(users[node.id]) + possible_providers(node.package, node.wheels)
            lines.append(f"  {name}  needed by {printable(text)}")
    return "\n".join(lines)


def _sums(graph: Graph) -> str:
    own = graph.given(Provenance.WHEEL)
    vendored = graph.vendored
    total = size_text(sum(node.size or 0 for node in own))
    text = f"{counted(len(own), 'object')}, {total}"
    if vendored:
        size = size_text(sum(node.size or 0 for node in vendored))
        text += f"; {len(vendored)} of them vendored libraries, {size}"
    if graph.missing:
        text += f"; {counted(len(graph.missing), 'library')} that nobody gives"
    return text


def _needs(graph: Graph, edges: Sequence[Edge], *, colour: bool) -> Iterator[str]:
    givers = {node.id: node.giver for node in graph.nodes}
    plain = [
        edge for edge in edges if givers[edge.target] is Provenance.PLATFORM and not edge.varies
    ]
    for edge in edges:
        if edge in plain:
            continue
        name = paint(printable(edge.name), _colour(givers[edge.target]), on=colour)
        leads = "" if edge.target == edge.name else f" => {printable(edge.target)}"
        how = paint(printable(f"[{edge.how}]"), Colour.DIM, on=colour)
        yield f"    {name}{leads}  {how}"
        yield from (f"      but {printable(other)}" for other in edge.varies)
    if plain:
        names = printable(", ".join(edge.name for edge in plain))
        yield f"    {paint(f'{names}  [platform]', Colour.DIM, on=colour)}"


def _users(edges: Sequence[Edge]) -> str:
    names = list(dict.fromkeys(edge.source.rpartition("/")[2] for edge in edges))
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return ", ".join(names[:FEW]) + more


def _colour(giver: Provenance) -> Colour:
    if giver is Provenance.NOBODY:
        return Colour.RED
    if giver is Provenance.WHEEL:
        return Colour.GREEN
    return Colour.BLUE if giver is Provenance.OTHER else Colour.DIM


# --- Two wheels side by side ----------------------------------------------------------------------


def compared_text(before: Graph, after: Graph, *, colour: bool) -> str:
    """Return in two columns what differs between a wheel and its repair."""
    rows: list[tuple[str, str, str]] = [
        ("", "before", "after"),
        ("objects", *_both(before, after, lambda graph: len(graph.given(Provenance.WHEEL)))),
        ("vendored libraries", *_both(before, after, lambda graph: len(graph.vendored))),
        ("nobody gives", *_both(before, after, lambda graph: len(graph.missing))),
        ("bytes", *_both(before, after, _bytes)),
    ]
    old, new = ({node.id: node for node in graph.nodes} for graph in (before, after))
    old_needs, new_needs = before.needs(), after.needs()
    unchanged = 0
    for name in dict.fromkeys((*old, *new)):
        sides = old.get(name), new.get(name)
        if not any(side and side.giver is Provenance.WHEEL for side in sides):
            continue
        detail = list(_changed_needs(old_needs.get(name, []), new_needs.get(name, [])))
        if sides[0] and sides[1] and not detail and sides[0] == sides[1]:
            unchanged += 1
            continue
        mark = "~" if sides[0] and sides[1] else "-" if sides[0] else "+"
        sizes = [size_text(side.size) if side else "-" for side in sides]
        rows.append((f"{mark} {name}", sizes[0], sizes[1]))
        rows += detail
    for giver in (Provenance.PLATFORM, Provenance.OTHER, Provenance.NOBODY):
        for name in dict.fromkeys((*old, *new)):
            given = [
                side is not None and side.giver is giver for side in (old.get(name), new.get(name))
            ]
            if given[0] != given[1]:
                words = [giver.value if there else "-" for there in given]
                rows.append((f"{'-' if given[0] else '+'} {name}", words[0], words[1]))
    lines = [printable(f"before  {before.wheel}"), printable(f"after   {after.wheel}"), ""]
    lines += _columns([tuple(printable(cell) for cell in row) for row in rows], colour=colour)
    if unchanged:
        lines.append(f"{counted(unchanged, 'object')} unchanged")
    return "\n".join(lines)


def _both(before: Graph, after: Graph, measure: Callable[[Graph], int]) -> tuple[str, str]:
    return f"{measure(before):,}", f"{measure(after):,}"


def _bytes(graph: Graph) -> int:
    return sum(node.size or 0 for node in graph.given(Provenance.WHEEL))


def _changed_needs(old: Iterable[Edge], new: Iterable[Edge]) -> Iterator[tuple[str, str, str]]:
    before = {edge.name: edge for edge in old}
    after = {edge.name: edge for edge in new}
    for name in dict.fromkeys((*before, *after)):
        here, there = _answer(before.get(name)), _answer(after.get(name))
        if here != there:
            yield f"    {name}", here, there


def _answer(edge: Edge | None) -> str:
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
    """Return a Mermaid flowchart; two graphs stand in a subgraph each."""
    lines = ["flowchart LR"]
    for number, graph in enumerate(graphs):
        ids = {node.id: f"g{number}n{index}" for index, node in enumerate(graph.nodes)}
        if len(graphs) > 1:
            title = ("before", "after")[number]
            lines.append(f'subgraph g{number}["{_mermaid(f"{title}: {graph.wheel}")}"]')
        for node in graph.nodes:
            label = "<br>".join(_mermaid(text) for text in _label(node))
            lines.append(f'  {ids[node.id]}["{label}"]:::{_class(node)}')
        for edge in graph.edges:
            arrow = "-.->" if edge.how == "not found" else "-->"
            label = _mermaid(edge.how)
            lines.append(f'  {ids[edge.source]} {arrow}|"{label}"| {ids[edge.target]}')
        if len(graphs) > 1:
            lines.append("end")
    for giver, (fill, stroke) in _STYLE.items():
        lines.append(f"classDef {giver.name.lower()} fill:{fill},stroke:{stroke},color:#0f172a")
    return "\n".join(lines)


def _mermaid(text: str) -> str:
    """Write what could end a label or begin markup as an entity (Mermaid, "Entity codes")."""
    return "".join(
        c if c.isalnum() or c in " ._-+/,:$()[]!" else f"#{ord(c)};" for c in printable(text)
    )


def _class(node: Node) -> str:
    return node.giver.name.lower()


def _label(node: Node) -> tuple[str, ...]:
    return (node.id, size_text(node.size)) if node.size is not None else (node.id,)


def dot(graphs: Sequence[Graph]) -> str:
    """Return a Graphviz digraph; two graphs stand in a cluster each."""
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
            fill, stroke = _STYLE[node.giver]
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
    """Quote a string of DOT: a backslash would begin an escape, a quote end it."""
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
                "given_by": node.giver.value,
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
