"""`wheelfix show`: the tags, Pythons, objects and libraries of a wheel."""

from pathlib import Path
from typing import Annotated

import typer

from wheelfix.analysis.graph import graph_of
from wheelfix.budget import Budget
from wheelfix.cli import installation_options, options
from wheelfix.cli.console import Terminal
from wheelfix.cli.installation_options import question_of, read_wheel
from wheelfix.cli.options import TextOrJson
from wheelfix.host.provider_lookup import with_providers
from wheelfix.pipelines.check import verdict_of
from wheelfix.reports import show as reports
from wheelfix.reports.printable import json_text


@options.with_settings
def show(
    context: typer.Context,
    wheel: Annotated[Path, typer.Argument(metavar="WHEEL", help="The wheel.")],
    output_format: options.OutputFormat = TextOrJson.TEXT,
    target: installation_options.TargetName = None,
    config: options.Config = None,
    **given: object,
) -> None:
    """Show what a wheel is and contains.

    The tag that its objects allow and what prevents a better one, the Pythons, the libraries that
    it bundles, those it expects from the platform and from other wheels, and those that are
    missing. It reports no findings: `wheelfix check` does.
    """
    given_settings = options.configuration_of(context, given, config).settings_for(wheel.name)
    subject = read_wheel(wheel)
    settings = with_providers(given_settings, Path.cwd(), subject)
    question = question_of(subject, target=target, settings=settings)
    budget = Budget.of_file(str(subject.name), subject.size)
    shown = reports.Shown(
        wheel=subject,
        verdict=verdict_of(subject, settings, budget),
        graph=graph_of(subject, question),
    )
    terminal = Terminal(verbosity=0)
    terminal.result(
        json_text(reports.as_json(shown))
        if output_format is TextOrJson.JSON
        else reports.text(shown)
    )
