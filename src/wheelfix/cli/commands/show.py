"""`wheelfix show`: the tags, Pythons, objects and libraries of a wheel."""

import os
from pathlib import Path

import typer

from wheelfix.analysis.graph import graph_of_wheel
from wheelfix.cli import installation_options, options
from wheelfix.cli.config.configuration import Configuration
from wheelfix.cli.config.settings_text import tables
from wheelfix.cli.console import Terminal
from wheelfix.cli.installation_options import read_wheel, say_unknown, world_of
from wheelfix.cli.options import Call, TextOrJson
from wheelfix.cli.wheel_paths import Wheels, expand
from wheelfix.cli.wheel_time_limit import ask_each
from wheelfix.errors import ExitCode
from wheelfix.frozen import frozen
from wheelfix.host.library_search import GivenLibraries
from wheelfix.host.neighbors import providers_of
from wheelfix.pipelines.check import verdict_of
from wheelfix.reports import show as reports
from wheelfix.reports.printable import json_text
from wheelfix.rules.context import Context
from wheelfix.rules.symbol_contract import present_contracts
from wheelfix.settings import Group, Option
from wheelfix.wheel.reader import open_wheel
from wheelfix.wheel.required_file import require_file


@frozen
class _Options:
    """The options that are not settings."""

    output_format: TextOrJson = options.OUTPUT_FORMAT.default(TextOrJson.TEXT)
    target: str | None = installation_options.TARGET.default(None)
    symbols: bool = Option(
        "Write which symbols the objects export, as tables [[tool.wheelfix.symbols]].",
        group=Group.OUTPUT,
    ).default(False)


@options.with_options
def show(call: Call, paths: Wheels, request: _Options) -> None:
    """Show what wheels are and contain.

    The tag that its objects allow and what prevents a better one, the Pythons, the libraries that
    it bundles, those it expects from the platform and from other wheels, and those that are
    missing. It reports no findings: `wheelfix check` does.
    """
    configuration = call.read_configuration()
    seconds = configuration.settings.timeout
    terminal, wheels = call.terminal, expand(paths, call.terminal)
    if request.symbols:
        texts, errors = ask_each(
            wheels, lambda path: _contracts(path, configuration), terminal, seconds
        )
        terminal.result("\n\n".join(texts))
    else:
        shown, errors = ask_each(
            wheels,
            lambda path: _shown(path, request.target, configuration, terminal),
            terminal,
            seconds,
        )
        if request.output_format is TextOrJson.JSON:
            terminal.result(json_text({**reports.as_json(shown), "errors": errors}))
        else:
            terminal.report("\n\n".join(map(reports.text, shown)))
    raise typer.Exit(ExitCode.ERROR if errors else ExitCode.OK)


def _shown(
    path: Path, target: str | None, configuration: Configuration, terminal: Terminal
) -> reports.Shown:
    settings = configuration.settings_for(path.name)
    wheel = read_wheel(path)
    providers = providers_of(settings, wheel, os.environ)
    say_unknown(providers, terminal)
    return reports.Shown(
        wheel=wheel,
        verdict=verdict_of(Context(wheel=wheel, settings=settings, providers=providers)),
        graph=graph_of_wheel(wheel, world_of(wheel, target=target, providers=providers)),
    )


def _contracts(path: Path, configuration: Configuration) -> str:
    """Return what the objects of a wheel export as tables for the settings."""
    require_file(path)
    settings = configuration.settings_for(path.name)
    with open_wheel(path) as archive:
        context = Context(
            wheel=archive.wheel,
            settings=settings,
            definitions=GivenLibraries(archive=archive, library_path=()),
            budget=archive.budget,
        )
        return tables("symbols", present_contracts(context)).rstrip("\n")
