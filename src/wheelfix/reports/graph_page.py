"""The graph of a wheel as one HTML page that needs no network."""

import json
from collections.abc import Sequence

from wheelfix.analysis.graph import Graph
from wheelfix.reports.graph_formats import graph_value
from wheelfix.system.resources import read_text

_DATA = "@@GRAPHS@@"
_TITLE = "@@TITLE@@"


def page(graphs: Sequence[Graph]) -> str:
    """Return the page for one wheel, or for two: before and after.

    The graphs stand in it as JSON in which nothing can end the script element; the page's own
    script writes names as text, never as markup, and a policy forbids it to load anything.
    """
    template = read_text("wheelfix.reports", "graph_page.html")
    values = json.dumps([graph_value(graph) for graph in graphs], separators=(",", ":"))
    for character in "<>&":
        values = values.replace(character, f"\\u{ord(character):04x}")
    values = values.replace("##[", "#\\u0023[")  # GitHub's runner would take it for a command
    title = "".join(
        c if c.isalnum() or c in "._-+" else f"&#{ord(c)};"
        for c in graphs[0].wheel
        if c.isprintable()
    )
    return template.replace(_TITLE, title).replace(_DATA, values)
