"""The command line: its commands, and the exit code of a run."""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer._click.core import Command, Context, Parameter
from typer._click.exceptions import BadParameter
from typer.core import TyperCommand

from wheelfix import __version__
from wheelfix.cli.console import Quiet, Terminal, Verbose
from wheelfix.cli.signals import install_signal_handlers
from wheelfix.cli.stdio import guard_streams
from wheelfix.errors import ExitCode, WheelfixError, unexpected_error


class _Entry(NamedTuple):
    """How a command is listed and registered."""

    summary: str
    """The first line of its help."""
    is_bare: bool = False
    """Whether it runs without any argument; the others print their help instead."""
    wraps: bool = False
    """Whether options after the first argument belong to another program."""


COMMANDS: Mapping[str, _Entry] = {
    "repair": _Entry("Write wheels that work once installed."),
    "check": _Entry("Report what is wrong with wheels, and change nothing."),
    "show": _Entry("Show what a wheel is and contains."),
    "why": _Entry("Say what needs a library, and why it is or would be grafted."),
    "explain": _Entry("Explain which libraries an object loads once installed, and why."),
    "tree": _Entry("Show the dependency graph of a wheel's libraries once installed."),
    "rule": _Entry("Explain a rule, or list all rules.", is_bare=True),
    "init": _Entry("Write a table with every setting and its default.", is_bare=True),
    "settings": _Entry("Show the settings in effect for a wheel, and their origin.", is_bare=True),
    "trace": _Entry("Run a command, and report the files it loads.", wraps=True),
    "verify": _Entry("Install wheels into fresh environments, and load everything in them."),
}
"""Each command is the function of its name in the module of its name."""


class _LazyCommand(TyperCommand):
    """A command whose module is imported when it is called, not when it is listed."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: Context | None = None,
        **extra: Any,  # noqa: ANN401 - as click declares it
    ) -> Context:
        """Parse `args` with the options of the command itself."""
        try:
            return _loaded(self.name or "").make_context(info_name, args, parent, **extra)
        except BadParameter as error:
            error.message = error.message.replace("int range", "integer")
            error.param_hint = _names_of(error.param) if error.param else None
            raise


def _names_of(parameter: Parameter) -> str:
    """Return the flags and the environment variables of an option, as users write them."""
    flags = " / ".join(f"'{flag}'" for flag in parameter.opts)
    variables = parameter.envvar if isinstance(parameter.envvar, list) else []
    return f"{flags} (or {', '.join(variables)})" if variables else flags


def _loaded(name: str) -> Command:
    """Import a command, and return it with its options."""
    module = import_module(f"wheelfix.cli.commands.{name}")
    entry = COMMANDS[name]
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(
        name,
        no_args_is_help=not entry.is_bare,
        context_settings={"allow_interspersed_args": not entry.wraps},
    )(getattr(module, name))
    return typer.main.get_command(alone)


app = typer.Typer(
    name="wheelfix",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _listed() -> None:
    """Stand for a command in the list of commands."""


for _name, _entry in COMMANDS.items():
    app.command(_name, cls=_LazyCommand, help=_entry.summary)(_listed)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"wheelfix {__version__}")
        raise typer.Exit


@app.callback(
    epilog="Exit codes: 0 fine or all repaired, 1 errors remain in a wheel, 2 anything else. "
    "Every option may also be set in [tool.wheelfix] of pyproject.toml, or in the environment."
)
def _before(
    context: typer.Context,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    version: Annotated[
        bool,
        typer.Option(
            "-V",
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Show the version and exit.",
        ),
    ] = False,
) -> None:
    """Repair Linux wheels so that they work once installed."""
    del version
    context.obj = -1 if quiet else verbose


def main() -> None:
    """Run the command line of this process, and exit."""
    guard_streams()
    join_signal_thread = install_signal_handlers()
    code = run(sys.argv[1:])
    join_signal_thread()
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run the command line `arguments`, and return the exit code."""
    try:
        app(arguments, prog_name="wheelfix")
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else ExitCode.ERROR
    except WheelfixError as error:
        Terminal(verbosity=0).fail(error)
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - a crash must not look like exit code 1, "findings"
        if {"-v", "-vv", "--verbose"}.intersection(arguments):
            Terminal(verbosity=0).trace(error)
        Terminal(verbosity=0).fail(unexpected_error(error))
    return ExitCode.ERROR
