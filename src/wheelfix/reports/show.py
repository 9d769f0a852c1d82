"""The output of `wheelfix show`: what a wheel is and contains, as text and as JSON."""

import posixpath
from collections.abc import Iterator, Sequence
from typing import Any

from wheelfix.analysis.graph import Graph
from wheelfix.analysis.policy_verdict import Verdict
from wheelfix.analysis.world import Provenance
from wheelfix.loader.platform_libraries import is_dynamic_loader
from wheelfix.named_tuple import NamedTuple
from wheelfix.reports.check_json import verdict_value
from wheelfix.reports.explain_text_and_json import possible_providers
from wheelfix.reports.printable import printable
from wheelfix.text import count, first_of, in_units, join_plain, join_some
from wheelfix.wheel.grafted_name import original_name
from wheelfix.wheel.model import Wheel

_MOST = 6
"""The number of libraries of one kind that the text lists."""


class Shown(NamedTuple):
    """What is known of one wheel."""

    wheel: Wheel
    verdict: Verdict | None
    """None for a wheel without objects."""
    graph: Graph


def text(shown: Shown) -> str:
    """Return about ten lines."""
    wheel = shown.wheel
    lines = [str(wheel.name)]
    lines += _paragraph("tag", _tags(shown))
    lines += _paragraph("python", [_pythons(wheel)])
    lines += _paragraph("size", [_sizes(wheel)])
    lines += _paragraph("objects", [_objects(shown.graph)])
    lines += _paragraph("bundled", _bundled_lines(shown.graph))
    for label, provenance in _ELSEWHERE.items():
        names = sorted(node.id for node in shown.graph.nodes_from(provenance))
        own = [name for name in names if not is_dynamic_loader(name)]
        lines += _paragraph(label, [join_plain(own, _MOST)] if own else [])
    lines += _paragraph("not found", _missing(shown.graph))
    return "\n".join(map(printable, lines))


_ELSEWHERE = {
    "platform": Provenance.PLATFORM,
    "python's": Provenance.PYTHON,
    "providers": Provenance.OTHER,
}


def _paragraph(label: str, texts: Sequence[str]) -> Iterator[str]:
    for index, line in enumerate(texts):
        yield f"  {label if index == 0 else '':10} {line}"


def _tags(shown: Shown) -> list[str]:
    own = ".".join(shown.wheel.name.platforms)
    if shown.verdict is None:
        objects = "object for it" if shown.wheel.elfs else "ELF objects"
        return [f"{own}; the wheel has no {objects}"]
    verdict = shown.verdict
    allowed = f"{own}; its objects allow"
    if verdict.libraries_alone:
        return [f"{allowed} {verdict.overall}, because of the libraries that are not found"]
    obstacles = [verdict.near.text] if verdict.near is not None else verdict.reasons[:1]
    return [f"{allowed} {verdict.text}", *obstacles]


def _pythons(wheel: Wheel) -> str:
    built = wheel.name.python_tag
    required = wheel.metadata.requires_python
    return f"{built}, Requires-Python {required}" if required else built


def _sizes(wheel: Wheel) -> str:
    installed = sum(member.size for member in wheel.members)
    files = count(len(wheel.members), "file")
    return f"{in_units(wheel.zip_size)}, installed {in_units(installed)}; {files}"


def _objects(graph: Graph) -> str:
    own = graph.nodes_from(Provenance.WHEEL)
    roles = {"module": "extension module", "program": "program", "library": "library"}
    numbers = {noun: sum(node.role == role for node in own) for role, noun in roles.items()}
    return ", ".join(count(n, noun) for noun, n in numbers.items() if n) or "none"


def _bundled_lines(graph: Graph) -> list[str]:
    nodes = [node for node in graph.nodes_from(Provenance.WHEEL) if node.role == "library"]
    nodes.sort(key=lambda node: -(node.size or 0))
    named = [f"{node.name} ({in_units(node.size or 0)})" for node in nodes]
    return [join_plain(named, _MOST)] if named else []


def _missing(graph: Graph) -> list[str]:
    lines: list[str] = []
    edges = graph.edges_to()
    for node in graph.missing:
        dependents = join_some([posixpath.basename(e.source) for e in edges.get(node.id, ())], 2)
        given = possible_providers(node.name, None, node.versions)
        if node.unreached:
            given = f"; no search path leads to {join_some(node.unreached, 2)}"
        lines.append(f"{node.id}, needed by {dependents}{given}")
    return first_of(lines, _MOST)


def as_json(shown: Sequence[Shown]) -> dict[str, Any]:
    """Return the same as JSON types; `version` changes when the meaning of a key does."""
    return {"version": 1, "wheels": [_wheel_value(each) for each in shown]}


def _wheel_value(shown: Shown) -> dict[str, Any]:
    wheel, verdict, graph = shown.wheel, shown.verdict, shown.graph
    dependents = graph.edges_to()
    return {
        "wheel": str(wheel.name),
        "tags": list(wheel.tags),
        "verdict": verdict_value(verdict),
        "next_tag": verdict.near.text if verdict and verdict.near else None,
        "requires_python": wheel.metadata.requires_python,
        "size": wheel.zip_size,
        "installed_size": sum(member.size for member in wheel.members),
        "files": len(wheel.members),
        "objects": [
            {
                "member": node.id,
                "role": node.role,
                "size": node.size,
                "soname": node.soname,
                "original_name": original_name(node.name) if node.role == "library" else None,
                "search_path": node.search_path,
            }
            for node in graph.nodes_from(Provenance.WHEEL)
        ],
        "expected": [
            {
                "name": node.id,
                "from": node.provenance.value,
                "needed_by": sorted({edge.source for edge in dependents.get(node.id, ())}),
            }
            for node in graph.nodes
            if node.provenance is not Provenance.WHEEL
        ],
    }
