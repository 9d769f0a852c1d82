"""`wheelfix settings`."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from wheelfix.cli import options
from wheelfix.cli.config import describe as described
from wheelfix.cli.config.files import Layer, configured
from wheelfix.rules.plugins import all_rules


def settings(
    context: typer.Context,
    wheel: Annotated[
        str | None,
        typer.Argument(
            metavar="[WHEEL]",
            help="The file name of a wheel, for which overrides may hold.",
            show_default=False,
        ),
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of the table.")
    ] = False,
    config: options.Config = None,
) -> None:
    """Show what holds for a wheel, and where each value comes from: files and environment.

    The flags of `repair` and `check` win over all of it.
    """
    if schema:
        typer.echo(json.dumps(described.schema(options.DOCS), indent=1))
        return
    name = Path(wheel).name if wheel is not None else None
    configuration = configured(Path.cwd(), config).over([_environment(context)])
    configuration.check(all_rules())
    held = described.what_holds(configuration.settings_for(name), configuration.origins(name))
    typer.echo(held)


def _environment(context: typer.Context) -> Layer:
    """Return what the environment says, as `repair` and `check` read it."""
    group: Any = context.parent.command if context.parent is not None else None
    table: dict[str, object] = {}
    for name in ("repair", "check"):
        command = group.get_command(context, name)
        parsed = command.make_context(name, ["any.whl"], parent=context.parent)
        for layer in options.layers(parsed, parsed.params):
            table |= layer.table
    return Layer(source="the environment", table=table)
