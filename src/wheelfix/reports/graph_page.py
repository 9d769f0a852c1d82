"""The page of `wheelfix explain`: library graphs as a self-contained HTML page."""

import json
import posixpath
from collections.abc import Sequence

from wheelfix.analysis.graph import Graph, Node
from wheelfix.reports.fill_template import fill_template
from wheelfix.reports.graph_formats import graph_value
from wheelfix.reports.printable import hide_command
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.wheel.grafted_name import original_name

_VERSION = lazy_pattern(r"(\.so\.\d+)[\d.]*$")


def page(graphs: Sequence[Graph]) -> str:
    """Return the page for one wheel, or for several to choose from.

    The graphs are embedded as JSON, escaped so that nothing can end the script element. The
    page's own script writes names as text, never as markup, and its Content-Security-Policy
    forbids it to load anything.
    """
    data = {"graphs": [_graph_with_labels(graph) for graph in graphs]}
    values = json.dumps(data, separators=(",", ":"))
    for character in "<>&":
        values = values.replace(character, f"\\u{ord(character):04x}")
    values = hide_command(values)
    title = "".join(
        character if character.isalnum() or character in "._-+" else f"&#{ord(character)};"
        for character in graphs[0].wheel
        if character.isprintable()
    )
    return fill_template("graph_page.html", {"TITLE": title, "GRAPHS": values})


def _graph_with_labels(graph: Graph) -> dict[str, object]:
    """Return the graph as JSON types, each node with the short name that the page shows."""
    labels = {node.id: _label(node) for node in graph.nodes}
    value = graph_value(graph)
    return {**value, "labels": labels}


def _label(node: Node) -> str:
    """Return `pkg/_core` for a module, `libfoo.so.1` for a library."""
    folders, _, name = node.id.rpartition("!")[2].rpartition("/")
    if node.role != "module":
        return _VERSION.sub(r"\1", original_name(name))
    return posixpath.join(posixpath.basename(folders), name.partition(".")[0])
