"""`wheelfix tree`."""

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wheelfix.cli import circumstances
from wheelfix.cli.circumstances import library_path_of, question_of, read_wheel
from wheelfix.errors import ExitCode, OutputError

if TYPE_CHECKING:
    from wheelfix.graph import Graph


class Format(StrEnum):
    """How a graph is written."""

    TEXT = "text"
    MERMAID = "mermaid"
    DOT = "dot"
    HTML = "html"
    JSON = "json"


def tree(
    wheel: Annotated[Path, typer.Argument(metavar="WHEEL", help="The wheel.", show_default=False)],
    after: Annotated[
        Path | None,
        typer.Option(
            "--after",
            metavar="REPAIRED",
            help="The same wheel after a repair, to stand beside it.",
            show_default=False,
        ),
    ] = None,
    form: Annotated[
        Format | None,
        typer.Option(
            "--format",
            help="text, mermaid, dot, html or json; by default as the name of the output ends.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write here.", show_default=False),
    ] = None,
    beside: circumstances.With = None,
    scheme: circumstances.Scheme = None,
    target: circumstances.TargetName = None,
    env: circumstances.Env = None,
) -> None:
    """Show a wheel's libraries once installed: who needs whom, found how, given by whom.

    Exit code 1 if there is something that nobody gives (after the repair, with --after).
    """
    from wheelfix.cli.terminal import Terminal
    from wheelfix.graph import graph_of

    others = [read_wheel(each) for each in beside or []]
    library_path = library_path_of(env or [])
    graphs: list[Graph] = []
    for path in [wheel, *([after] if after else [])]:
        subject = read_wheel(path)
        question = question_of(
            subject, target=target, scheme=scheme, others=others, library_path=library_path
        )
        graphs.append(graph_of(subject, question))
    terminal = Terminal(verbosity=0)
    colour = terminal.colours_results and output is None
    text = _written(graphs, form or _by_suffix(output), colour=colour)
    if output is None:
        terminal.result(text)
    else:
        try:
            output.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise OutputError(f"`{output}` cannot be written: {error.strerror}") from error
    raise typer.Exit(ExitCode.FINDINGS if graphs[-1].missing else ExitCode.OK)


def _by_suffix(output: Path | None) -> Format:
    suffixes = {
        ".html": Format.HTML,
        ".htm": Format.HTML,
        ".dot": Format.DOT,
        ".gv": Format.DOT,
        ".mmd": Format.MERMAID,
        ".mermaid": Format.MERMAID,
        ".json": Format.JSON,
    }
    return suffixes.get(output.suffix.lower(), Format.TEXT) if output else Format.TEXT


def _written(graphs: "Sequence[Graph]", form: Format, *, colour: bool) -> str:
    from wheelfix.reports import graphs as reports

    match form:
        case Format.TEXT:
            if len(graphs) == 2:
                return reports.compared_text(graphs[0], graphs[1], colour=colour)
            return reports.graph_text(graphs[0], colour=colour)
        case Format.MERMAID:
            return reports.mermaid(graphs)
        case Format.DOT:
            return reports.dot(graphs)
        case Format.HTML:
            from wheelfix.reports.page import page

            return page(graphs)
        case Format.JSON:
            return json.dumps(reports.graphs_value(graphs), indent=2)
