"""The commands, and the options before them, as typer reads them.

Each command imports what it works with when it runs.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer._click.core import Command, Context
from typer._click.formatting import HelpFormatter
from typer.core import TyperGroup

from wheelfix import __version__
from wheelfix.cli.front import HELP
from wheelfix.cli.verbosity import Verbose

_COMMANDS: Mapping[str, Mapping[str, Any]] = {
    "repair": {"no_args_is_help": True},
    "check": {"no_args_is_help": True},
    "explain": {"no_args_is_help": True},
    "tree": {"no_args_is_help": True},
    "rule": {},
    "init": {},
    "settings": {},
    "trace": {"no_args_is_help": True, "context_settings": {"allow_interspersed_args": False}},
    "verify": {"no_args_is_help": True},
}
"""The commands, each in a module of its own name, and how it is registered."""

_SETTINGS: Mapping[str, Any] = {
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}


class _Commands(TyperGroup):
    """The commands by name; what `--help` says of them needs none of their modules."""

    def list_commands(self, ctx: Context) -> list[str]:
        """Return the names, the most important first."""
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """Import a command; None where there is no such."""
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"wheelfix.cli.{cmd_name}")
        alone = typer.Typer(add_completion=False, **_SETTINGS)
        alone.command(cmd_name, **_COMMANDS[cmd_name])(getattr(module, cmd_name))
        return typer.main.get_command(alone)

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the help, as it is written without typer."""
        del ctx
        formatter.write(HELP)


app = typer.Typer(
    cls=_Commands,
    name="wheelfix",
    no_args_is_help=True,
    **_SETTINGS,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"wheelfix {__version__}")
        raise typer.Exit


@app.callback()
def _before(
    context: typer.Context,
    verbose: Verbose = 0,
    version: Annotated[
        bool,
        typer.Option("-V", "--version", callback=_version, is_eager=True),
    ] = False,
) -> None:
    del version
    context.obj = verbose
