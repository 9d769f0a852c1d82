"""The command line: read options, call one function, print, choose the exit code.

Each command imports what it works with when it runs: `--help` and `rule` load none of it.
"""

import io
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Annotated

import typer

from wheelfix import __version__
from wheelfix.cli import options
from wheelfix.cli.check import check
from wheelfix.cli.explain import explain
from wheelfix.cli.init import init
from wheelfix.cli.repair import repair
from wheelfix.cli.rule import rule
from wheelfix.cli.settings import settings
from wheelfix.cli.trace import trace
from wheelfix.cli.tree import tree
from wheelfix.cli.verify import verify
from wheelfix.errors import ExitCode, WheelfixError, internal_error

EPILOG = (
    "Exit codes: 0 fine or all repaired, 1 errors remain in a wheel, 2 anything else. "
    "Every option may also stand in [tool.wheelfix] of pyproject.toml, or in the environment."
)

app = typer.Typer(
    name="wheelfix",
    help="Repair Linux wheels so that they work once installed.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(no_args_is_help=True)(repair)
app.command(no_args_is_help=True)(check)
app.command(no_args_is_help=True)(explain)
app.command(no_args_is_help=True)(tree)
app.command()(rule)
app.command()(init)
app.command()(settings)
app.command(no_args_is_help=True, context_settings={"allow_interspersed_args": False})(trace)
app.command(no_args_is_help=True)(verify)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"wheelfix {__version__}")
        raise typer.Exit


@app.callback()
def _before(
    context: typer.Context,
    verbose: options.Verbose = 0,
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
    signal.signal(signal.SIGTERM, _terminate)
    sys.exit(run(sys.argv[1:]))


def _terminate(number: int, _frame: FrameType | None) -> None:
    """End as with Ctrl-C, so that folders and programs of the run are cleaned up."""
    sys.exit(128 + number)


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
        import traceback

        traceback.print_exception(error)
    _fail(internal_error(error))


def _fail(error: WheelfixError) -> None:
    from wheelfix.cli.terminal import Terminal

    Terminal(verbosity=0).fail(error)
