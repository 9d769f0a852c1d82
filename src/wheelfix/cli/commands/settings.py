"""`wheelfix settings`: the settings in effect for a wheel, and their origin."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from wheelfix.cli import options
from wheelfix.cli.config.configuration import Layer, read_configuration
from wheelfix.cli.config.json_schema import schema as settings_schema
from wheelfix.cli.config.settings_text import in_effect
from wheelfix.cli.console import Terminal
from wheelfix.cli.wheel_paths import one_wheel
from wheelfix.frozen import frozen
from wheelfix.reports.printable import printable
from wheelfix.settings import Group, Option


@frozen
class _Options:
    """The options."""

    schema: bool = Option("Print the JSON schema of the table.", group=Group.OUTPUT).default(False)


@options.with_options
def settings(
    context: typer.Context,
    request: _Options,
    wheels: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[WHEEL]", help="The file name of a wheel, to which overrides may apply."
        ),
    ] = None,
    config: options.Config = None,
) -> None:
    """Show the settings in effect for a wheel, and their origin.

    These are the settings of files and the environment; the flags of a command win.
    """
    if request.schema:
        typer.echo(json.dumps(settings_schema(), indent=1))
        return
    name = one_wheel(wheels, "`settings`", ["wheelfix", "settings"]).name if wheels else None
    read = read_configuration(options.current_folder(), config)
    configuration = read.over([_environment(context)])
    configuration.check()
    options.announce(configuration, Terminal(verbosity=0))
    text = in_effect(configuration.settings_for(name), configuration.origins(name))
    for line in text.splitlines():
        typer.echo(printable(line))


def _environment(context: typer.Context) -> Layer:
    """Return the environment variables as the commands with settings read them."""
    group: Any = context.parent.command if context.parent is not None else None
    table: dict[str, object] = {}
    for name, wheels in (("repair", ["any.whl"]), ("check", ["any.whl"]), ("diff", ["a", "b"])):
        command = group.get_command(context, name)
        parsed = command.make_context(name, wheels, parent=context.parent)
        for layer in options.layers(parsed, parsed.params):
            table |= layer.table
    return Layer(source="the environment", table=table)
