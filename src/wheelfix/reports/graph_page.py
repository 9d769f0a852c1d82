"""The output of `wheelfix tree`: library graphs as a self-contained HTML page."""

import json
from collections.abc import Sequence

from wheelfix.analysis.graph import Graph
from wheelfix.reports.graph_formats import graph_value
from wheelfix.system.resources import read_text

_DATA = "@@GRAPHS@@"
_TITLE = "@@TITLE@@"


def page(graphs: Sequence[Graph]) -> str:
    """Return the page for one wheel, or for two: before and after.

    The graphs are embedded as JSON, escaped so that nothing can end the script element. The
    page's own script writes names as text, never as markup, and its Content-Security-Policy
    forbids it to load anything.
    """
    template = read_text("wheelfix.reports", "graph_page.html")
    values = json.dumps([graph_value(graph) for graph in graphs], separators=(",", ":"))
    for character in "<>&":
        values = values.replace(character, f"\\u{ord(character):04x}")
    values = values.replace("##[", "#\\u0023[")  # GitHub Actions reads `##[` as a command
    title = "".join(
        character if character.isalnum() or character in "._-+" else f"&#{ord(character)};"
        for character in graphs[0].wheel
        if character.isprintable()
    )
    return template.replace(_TITLE, title).replace(_DATA, values)
