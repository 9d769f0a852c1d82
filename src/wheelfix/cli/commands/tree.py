"""`wheelfix tree`: the dependency graph of a wheel's libraries once installed."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from wheelfix.analysis.graph import Graph, graph_of, graph_of_installation
from wheelfix.cli import installation_options, options
from wheelfix.cli.console import Terminal, write_file
from wheelfix.cli.installation_options import parse_library_path, question_of, read_wheel, target_of
from wheelfix.errors import ExitCode, SettingsError
from wheelfix.host.installed_environment import of_distribution, read_site, sizes_of
from wheelfix.host.provider_lookup import with_providers
from wheelfix.reports import graph_formats
from wheelfix.reports.graph_page import page
from wheelfix.reports.printable import json_text
from wheelfix.settings import Group


class GraphFormat(StrEnum):
    """How a graph is written."""

    TEXT = "text"
    MERMAID = "mermaid"
    DOT = "dot"
    HTML = "html"
    JSON = "json"


_Wheel = Annotated[
    str | None,
    typer.Argument(
        metavar="[WHEEL|DISTRIBUTION]",
        help="The wheel; with --site, the distribution, by default all.",
    ),
]
_After = Annotated[
    Path | None,
    typer.Option(
        metavar="REPAIRED",
        help="The same wheel after a repair, to compare with.",
        rich_help_panel=Group.WHEELS,
    ),
]
_Form = Annotated[
    GraphFormat | None,
    typer.Option(
        "--output-format",
        help="text, mermaid, dot, html or json; by default chosen by the suffix of --output.",
        rich_help_panel=Group.OUTPUT,
    ),
]


@options.with_settings
def tree(
    context: typer.Context,
    wheel: _Wheel = None,
    after: _After = None,
    site: installation_options.Site = None,
    form: _Form = None,
    output: options.Output = None,
    beside: options.With = None,
    scheme: installation_options.Scheme = None,
    target: installation_options.TargetName = None,
    env: installation_options.Env = None,
    config: options.Config = None,
    **given: object,
) -> None:
    """Show the dependency graph of a wheel's libraries.

    Each edge says how the library is found and who provides it. With --site, show the graph of an
    installed environment, or of one distribution in it.

    Exit code 1 if a library is missing (after the repair, with --after).
    """
    library_path = parse_library_path(env or [])
    if site is not None:
        provider = given["provider"] and not options.by_environment(context, "provider")
        if after or scheme or beside or provider:
            raise SettingsError(
                "--after, --scheme, --with and --provider are for wheels, not for --site"
            )
        graphs = [_graph_of_site(site, wheel, target, library_path)]
    else:
        if wheel is None:
            raise SettingsError("name a wheel, or an environment with --site")
        others = [read_wheel(other) for other in beside or []]
        configuration = options.configuration_of(context, given, config)
        graphs = list[Graph]()
        for path in [Path(wheel), *([after] if after else [])]:
            subject = read_wheel(path)
            question = question_of(
                subject,
                target=target,
                scheme=scheme,
                others=others,
                library_path=library_path,
                settings=with_providers(configuration.settings_for(path.name), Path.cwd(), subject),
            )
            graphs.append(graph_of(subject, question))
    terminal = Terminal(verbosity=0)
    colour = output is None and terminal.colours_results
    text = _text(graphs, form or _by_suffix(output), colour=colour)
    if output is None:
        terminal.result(text)
    else:
        write_file(output, text)
    raise typer.Exit(ExitCode.FINDINGS if graphs[-1].missing else ExitCode.OK)


def _graph_of_site(
    directory: Path,
    distribution: str | None,
    target: str | None,
    library_path: tuple[str, ...] | None,
) -> Graph:
    machine = None if target is None else target_of(target, None)
    installation = read_site(directory, target=machine, library_path=library_path or ())
    if distribution is not None:
        installation = of_distribution(installation, distribution)
    return graph_of_installation(
        installation, distribution or str(directory), sizes_of(installation)
    )


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


def _text(graphs: Sequence[Graph], form: GraphFormat, *, colour: bool) -> str:
    match form:
        case GraphFormat.TEXT:
            if len(graphs) == 2:
                return graph_formats.compared_text(graphs[0], graphs[1], colour=colour)
            return graph_formats.graph_text(graphs[0], colour=colour)
        case GraphFormat.MERMAID:
            return graph_formats.mermaid(graphs)
        case GraphFormat.DOT:
            return graph_formats.dot(graphs)
        case GraphFormat.HTML:
            return page(graphs)
        case GraphFormat.JSON:
            return json_text(graph_formats.graphs_value(graphs))
