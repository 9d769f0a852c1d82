"""The command line: read options, call one function, print, choose the exit code.

Each command imports what it works with when it runs: `--help` and `rule` load none of it.
"""

import io
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from wheelfix import __version__
from wheelfix.cli.verbosity import Verbose
from wheelfix.errors import ExitCode, WheelfixError, internal_error

if TYPE_CHECKING:
    from typer._click.core import Command, Context
    from typer._click.formatting import HelpFormatter

EPILOG = (
    "Exit codes: 0 fine or all repaired, 1 errors remain in a wheel, 2 anything else. "
    "Every option may also stand in [tool.wheelfix] of pyproject.toml, or in the environment."
)


class _Command(NamedTuple):
    """A command, in a module of its own name that is imported when it is called."""

    summary: str
    """What the list of commands says of it."""
    settings: Mapping[str, Any] = {"no_args_is_help": True}
    """How it is registered."""


_COMMANDS = {
    "repair": _Command("Write wheels that work once installed."),
    "check": _Command("Say what is wrong with wheels as they stand."),
    "explain": _Command("Say what an object loads once installed, and why."),
    "tree": _Command("Show a wheel's libraries once installed: who needs whom."),
    "rule": _Command("Explain a rule, or list them.", {}),
    "init": _Command("Write a table with every setting and its default.", {}),
    "settings": _Command("Show what holds for a wheel, and where it comes from.", {}),
    "trace": _Command(
        "Run a command, and tell which files it really loads.",
        {"no_args_is_help": True, "context_settings": {"allow_interspersed_args": False}},
    ),
    "verify": _Command("Install wheels into fresh environments, and try all that is in them."),
}

_SETTINGS: Mapping[str, Any] = {
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}


class _Commands(TyperGroup):
    """The commands by name; what `--help` says of them needs none of their modules."""

    def list_commands(self, ctx: "Context") -> list[str]:
        """Return the names, the most important first."""
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: "Context", cmd_name: str) -> "Command | None":
        """Import a command; None where there is no such."""
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"{__name__}.{cmd_name}")
        alone = typer.Typer(add_completion=False, **_SETTINGS)
        alone.command(cmd_name, **_COMMANDS[cmd_name].settings)(getattr(module, cmd_name))
        return typer.main.get_command(alone)

    def format_commands(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """Write the list of commands into the help."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.summary) for name, each in _COMMANDS.items()])


app = typer.Typer(
    cls=_Commands,
    name="wheelfix",
    help="Repair Linux wheels so that they work once installed.",
    epilog=EPILOG,
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
        typer.Option(
            "-V", "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    del version
    context.obj = verbose


def main() -> None:
    """Run the command line, and exit."""
    from wheelfix.cli.ending import end_now, heed_signals
    from wheelfix.cli.streams import guard_streams
    from wheelfix.patience import is_somebody_late

    guard_streams()
    at_the_end = heed_signals()
    code = run(sys.argv[1:])
    at_the_end()
    if is_somebody_late():
        end_now(code)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run the command line `arguments`, and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name may hold what the locale cannot spell
            stream.reconfigure(errors="backslashreplace")
    try:
        app(arguments, prog_name="wheelfix")
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else ExitCode.ERROR
    except WheelfixError as error:
        _fail(error)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - a crash must not look like exit code 1, "findings"
        _crashed(error, arguments)
    return ExitCode.ERROR


def _crashed(error: Exception, arguments: Sequence[str]) -> None:
    if {"-v", "-vv", "--verbose"}.intersection(arguments):
        from wheelfix.cli.terminal import Terminal

        Terminal(verbosity=0).trace(error)
    _fail(internal_error(error))


def _fail(error: WheelfixError) -> None:
    from wheelfix.cli.terminal import Terminal

    Terminal(verbosity=0).fail(error)
