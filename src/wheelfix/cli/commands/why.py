"""`wheelfix why`: what needs a library, and why it is or would be grafted."""

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from wheelfix.analysis.graph import graph_of
from wheelfix.analysis.needed_chains import chains_to, nodes_called
from wheelfix.cli import installation_options, options
from wheelfix.cli.config.values import suggestion
from wheelfix.cli.console import Terminal
from wheelfix.cli.installation_options import question_of, read_wheel
from wheelfix.cli.options import TextOrJson
from wheelfix.errors import SettingsError
from wheelfix.host.provider_lookup import with_providers
from wheelfix.pipelines.repair import repair
from wheelfix.pipelines.repair_result import GraftedFrom
from wheelfix.pipelines.sbom import listed_packages
from wheelfix.reports import why as reports
from wheelfix.reports.printable import json_text, printable
from wheelfix.settings import Settings
from wheelfix.wheel.grafted_name import original_name
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.platform_tags import Family, parse_platform_tag


@options.with_settings
def why(
    context: typer.Context,
    wheel: Annotated[Path, typer.Argument(metavar="WHEEL", help="The wheel.")],
    library: Annotated[
        str,
        typer.Argument(
            metavar="LIBRARY",
            help="A SONAME, a file name or a member; without hash and version, too: `liblzma`.",
        ),
    ],
    target: installation_options.TargetName = None,
    output_format: options.OutputFormat = TextOrJson.TEXT,
    config: options.Config = None,
    **given: object,
) -> None:
    """Say what needs a library, and why it is or would be grafted.

    For a wheel with a `linux` tag, the repair is planned with the libraries of this machine, and
    nothing is written.
    """
    given_settings = options.configuration_of(context, given, config).settings_for(wheel.name)
    as_built = read_wheel(wheel)
    settings = with_providers(given_settings, Path.cwd(), as_built)
    terminal = Terminal(verbosity=0)
    subject, planned = _as_repaired(wheel, as_built, given_settings, terminal)
    question = question_of(subject, target=target, settings=settings)
    graph = graph_of(subject, question)
    nodes = nodes_called(graph, library)
    if not nodes:
        known = {original_name(node.name) for node in graph.nodes}
        raise SettingsError(
            f"`{wheel.name}`: no object needs or is `{library}`", hint=suggestion(library, known)
        )
    packages = listed_packages(subject)
    uses = [
        reports.Use(
            name=planned[node.id].original if node.id in planned else original_name(node.name),
            node=node,
            chains=tuple(chains_to(graph, node)),
            source=str(planned[node.id].source) if node.id in planned else "",
            package=planned[node.id].package if node.id in planned else packages.get(node.id, ""),
            is_planned=node.id in planned,
            tag=".".join(subject.name.platforms),
        )
        for node in nodes
    ]
    command = f"wheelfix repair {shlex.quote(str(wheel))}"
    terminal.result(
        json_text(reports.as_json(uses))
        if output_format is TextOrJson.JSON
        else reports.text(uses, command)
    )


def _as_repaired(
    path: Path, wheel: Wheel, settings: Settings, terminal: Terminal
) -> tuple[Wheel, dict[str, GraftedFrom]]:
    """Return the wheel that a repair would make, and the libraries that it would graft.

    That is the wheel as it is if it cannot be repaired.
    """
    if not any(parse_platform_tag(tag).family is Family.LINUX for tag in wheel.name.platforms):
        return wheel, {}
    outcome = repair(path, settings, os.environ, publish=False)
    if outcome.error is not None:
        terminal.say(f"note: a repair cannot be planned: {printable(outcome.error.message)}")
        return wheel, {}
    return outcome.after or wheel, {library.member: library for library in outcome.grafted}
