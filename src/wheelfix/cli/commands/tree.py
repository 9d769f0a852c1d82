"""`wheelfix tree`: the dependency graph of a wheel's libraries once installed."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from wheelfix.analysis.graph import Graph, graph_of, graph_of_wheel
from wheelfix.cli import installation_options, options
from wheelfix.cli.installation_options import (
    parse_library_path,
    read_wheel,
    refuse_for_site,
    target_of,
    wheels_beside,
    world_of,
)
from wheelfix.cli.options import Call
from wheelfix.cli.output_files import Kind, write_file
from wheelfix.cli.wheel_paths import expand, names_wheels
from wheelfix.cli.wheel_time_limit import ask_each, time_limit
from wheelfix.environments.read_environment import of_distribution, read_site, sizes_of
from wheelfix.errors import ExitCode, SettingsError
from wheelfix.host.neighbors import providers_of
from wheelfix.pipelines.repair_refusals import refuse_other_system
from wheelfix.reports import graph_formats
from wheelfix.reports.graph_page import page
from wheelfix.reports.printable import Style, fit, json_text
from wheelfix.settings import Group, Option


class GraphFormat(StrEnum):
    """How a graph is written."""

    TEXT = "text"
    MERMAID = "mermaid"
    DOT = "dot"
    HTML = "html"
    JSON = "json"


_KINDS = {GraphFormat.HTML: Kind.MARKUP, GraphFormat.JSON: Kind.REPORT}
"""What a file is that a graph in each format may replace; else text."""
_Arguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[WHEEL|DIR...|DISTRIBUTION]",
        help="The wheels; with --site, the distribution, by default all.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """The options that are not settings."""

    output_format: GraphFormat | None = Option(
        "text, mermaid, dot, html or json; by default chosen by the suffix of --output.",
        group=Group.OUTPUT,
    ).default(None)
    output: Path | None = options.OUTPUT.default(None)
    scheme: str | None = installation_options.SCHEME.default(None)
    target: str | None = installation_options.TARGET.default(None)
    env: list[str] = Option(
        "LD_LIBRARY_PATH of the process; its directories are read on this machine.",
        group=Group.MACHINES,
        metavar="LD_LIBRARY_PATH=DIRS",
    ).default([])


@options.with_options
def tree(call: Call, request: _Options, arguments: _Arguments = None) -> None:
    """Show the dependency graph of a wheel's libraries.

    Each edge says how the library is found and who provides it. With --site, show the graph of an
    installed environment, or of one distribution in it.

    Exit code 1 if a library is missing.
    """
    library_path = parse_library_path(request.env)
    words, terminal = list(arguments or []), call.terminal
    is_complete = True
    configuration = call.read_configuration()
    site = configuration.settings.site
    if site is not None and not any(map(names_wheels, words)):
        refuse_for_site(call, "scheme")
        if len(words) > 1:
            raise SettingsError("with --site, name one distribution")
        distribution = words[0] if words else None
        with time_limit(configuration.settings.timeout, site):
            graphs = [_graph_of_site(Path(site), distribution, request.target, library_path)]
    else:
        if not words:
            raise SettingsError("name a wheel, or an environment with --site")
        wheels = expand([Path(word) for word in words])

        def graph(path: Path) -> Graph:
            subject = read_wheel(path)
            refuse_other_system(subject)
            settings = configuration.settings_for(path.name)
            world = world_of(
                subject,
                target=request.target,
                scheme=request.scheme,
                others=wheels_beside(settings),
                library_path=library_path,
                providers=providers_of(settings, subject, os.environ),
            )
            return graph_of_wheel(subject, world)

        seconds = configuration.settings.timeout
        graphs, is_complete = ask_each(wheels, graph, terminal, seconds)
    if not graphs:
        raise typer.Exit(ExitCode.ERROR)
    output = request.output
    color = output is None and terminal.colors_results
    form = request.output_format or _by_suffix(output)
    style = terminal.result_style._replace(color=color)
    text = _text(graphs, form, style)
    if output is None:
        terminal.result(text)
    else:
        write_file(output, text, _KINDS.get(form, Kind.TEXT))
    if not is_complete:
        raise typer.Exit(ExitCode.ERROR)
    is_missing = any(graph.missing for graph in graphs)
    raise typer.Exit(ExitCode.FINDINGS if is_missing else ExitCode.OK)


def _graph_of_site(
    directory: Path,
    distribution: str | None,
    target: str | None,
    library_path: tuple[str, ...],
) -> Graph:
    machine = None if target is None else target_of(target, None)
    world = read_site(directory, target=machine, library_path=library_path)
    if distribution is not None:
        world = of_distribution(world, distribution)
    return graph_of(world, distribution or str(directory), sizes_of(world))


def _by_suffix(output: Path | None) -> GraphFormat:
    suffixes = {
        ".html": GraphFormat.HTML,
        ".htm": GraphFormat.HTML,
        ".dot": GraphFormat.DOT,
        ".gv": GraphFormat.DOT,
        ".mmd": GraphFormat.MERMAID,
        ".mermaid": GraphFormat.MERMAID,
        ".json": GraphFormat.JSON,
        ".txt": GraphFormat.TEXT,
        "": GraphFormat.TEXT,
    }
    suffix = output.suffix.lower() if output else ""
    if suffix not in suffixes:
        raise SettingsError(
            f"`{output}`: there is no format for `{suffix}`",
            hint=f"known are {', '.join(filter(None, suffixes))}; or name it: --output-format",
        )
    return suffixes[suffix]


def _text(graphs: Sequence[Graph], form: GraphFormat, style: Style) -> str:
    match form:
        case GraphFormat.TEXT:
            texts = (graph_formats.graph_text(graph, style) for graph in graphs)
            return fit("\n\n".join(texts), verbose=style.verbose)
        case GraphFormat.MERMAID:
            return graph_formats.mermaid(graphs)
        case GraphFormat.DOT:
            return graph_formats.dot(graphs)
        case GraphFormat.HTML:
            return page(graphs)
        case GraphFormat.JSON:
            return json_text(graph_formats.graphs_value(graphs))
