"""`wheelfix tree`."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from wheelfix.analysis.graph import Graph, graph_of, graph_of_installation
from wheelfix.cli import load_options as circumstances
from wheelfix.cli import options
from wheelfix.cli.console import Terminal
from wheelfix.cli.load_options import (
    library_path_of,
    question_of,
    read_wheel,
    settings_of,
    target_of,
)
from wheelfix.errors import ExitCode, OutputError, SettingsError
from wheelfix.host.site import of_distribution, read_site, sizes_of
from wheelfix.reports import graph_formats as reports
from wheelfix.reports.graph_page import page
from wheelfix.reports.terminal_text import json_text
from wheelfix.settings import Settings
from wheelfix.wheel.model import Wheel


class Format(StrEnum):
    """How a graph is written."""

    TEXT = "text"
    MERMAID = "mermaid"
    DOT = "dot"
    HTML = "html"
    JSON = "json"


def tree(
    context: typer.Context,
    wheel: Annotated[
        str | None,
        typer.Argument(
            metavar="[WHEEL|DISTRIBUTION]",
            help="The wheel; with --site, the distribution, or all of them without.",
            show_default=False,
        ),
    ] = None,
    after: Annotated[
        Path | None,
        typer.Option(
            "--after",
            metavar="REPAIRED",
            help="The same wheel after a repair, to stand beside it.",
            show_default=False,
        ),
    ] = None,
    site: Annotated[
        Path | None,
        typer.Option(
            "--site",
            metavar="DIR",
            help="Show an installed environment: a venv, a prefix, a site-packages folder.",
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
    provider: options.ProviderOf = None,
    config: options.Config = None,
    scheme: circumstances.Scheme = None,
    target: circumstances.TargetName = None,
    env: circumstances.Env = None,
) -> None:
    """Show a wheel's libraries once installed: who needs whom, found how, given by whom.

    With --site, show those of an installed environment, or of one distribution in it.

    Exit code 1 if there is something that nobody gives (after the repair, with --after).
    """
    library_path = library_path_of(env or [])
    graphs: list[Graph]
    if site is not None:
        if after or scheme or beside or provider:
            raise SettingsError(
                "--after, --scheme, --with and --provider are for wheels, not for --site"
            )
        graphs = [_graph_of_site(site, wheel, target, library_path)]
    else:
        if wheel is None:
            raise SettingsError("name a wheel, or an environment with --site")
        others = [read_wheel(each) for each in beside or []]
        paths = [Path(wheel), *([after] if after else [])]
        known = settings_of(context, provider, config)
        graphs = [
            _graph_of_wheel(each, target, scheme, others, library_path, known(each.name))
            for each in paths
        ]
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


def _graph_of_wheel(
    path: Path,
    target: str | None,
    scheme: str | None,
    others: Sequence[Wheel],
    library_path: tuple[str, ...] | None,
    settings: Settings,
) -> Graph:
    subject = read_wheel(path)
    question = question_of(
        subject,
        target=target,
        scheme=scheme,
        others=others,
        library_path=library_path,
        settings=settings,
    )
    return graph_of(subject, question)


def _graph_of_site(
    directory: Path,
    distribution: str | None,
    target: str | None,
    library_path: tuple[str, ...] | None,
) -> Graph:
    described = None if target is None else target_of(target, None)
    world = read_site(directory, target=described, library_path=library_path or ())
    if distribution is not None:
        world = of_distribution(world, distribution)
    return graph_of_installation(world, distribution or str(directory), sizes_of(world))


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


def _written(graphs: Sequence[Graph], form: Format, *, colour: bool) -> str:
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
            return page(graphs)
        case Format.JSON:
            return json_text(reports.graphs_value(graphs))
