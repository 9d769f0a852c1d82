"""The command line: its commands, and the exit code of a run."""

import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from itertools import pairwise, takewhile
from typing import Annotated, Any

import typer
from typer._click.core import Command, Context, Parameter
from typer._click.exceptions import (
    BadParameter,
    ClickException,
    MissingParameter,
    NoArgsIsHelpError,
    NoSuchOption,
    UsageError,
)
from typer.core import TyperCommand

from wheelfix import __version__
from wheelfix.cli import option_completion
from wheelfix.cli.console import (
    CHOSEN_COLOR,
    HAS_RESULT,
    Color,
    ColorChoice,
    Quiet,
    SlowProgress,
    Terminal,
    Verbose,
)
from wheelfix.cli.help import GroupedCommand, GroupedProgram
from wheelfix.cli.signals import end_now, install_signal_handlers
from wheelfix.errors import ExitCode, SettingsError, WheelfixError, unexpected_error
from wheelfix.named_tuple import NamedTuple
from wheelfix.reports.printable import error_value, json_text
from wheelfix.settings import SETTING_FIELDS
from wheelfix.text import join_some


class _Entry(NamedTuple):
    """How a command is listed and registered."""

    summary: str
    """The first line of its help."""
    group: str
    """The list of commands that has it."""
    wraps: bool = False
    """Whether options after the first argument belong to another program."""


_REPAIR = "Repair and check wheels"
_EXPLAIN = "Answer questions about a wheel"
_CONFIGURE = "Rules and settings"

COMMANDS: Mapping[str, _Entry] = {
    "repair": _Entry("Write wheels that work once installed.", _REPAIR),
    "check": _Entry("Report what is wrong with wheels, and change nothing.", _REPAIR),
    "diff": _Entry("Show what changed between two releases of a wheel.", _REPAIR),
    "verify": _Entry("Install wheels into fresh environments, and load them.", _REPAIR),
    "show": _Entry("Show what wheels are and contain.", _EXPLAIN),
    "why": _Entry("Say what needs a library, and why it is or would be grafted.", _EXPLAIN),
    "explain": _Entry("Explain which libraries an object loads, and why.", _EXPLAIN),
    "trace": _Entry("Run a command, and report the files it loads.", _EXPLAIN, wraps=True),
    "doctor": _Entry("Say what goes wrong where installed distributions meet.", _EXPLAIN),
    "rule": _Entry("Explain a rule, or list all rules.", _CONFIGURE),
    "init": _Entry("Create a configuration file with every setting, as comments.", _CONFIGURE),
    "settings": _Entry("Show the settings in effect for a wheel, and their origin.", _CONFIGURE),
}
"""Each command is the function of its name in the module of its name."""
_LEAVES = {"diff": "wheelfix.diff.command", "trace": "wheelfix.trace.command"}
"""The modules of commands that have a package of their own."""


_EPILOG = (
    "Settings can also be given in [tool.wheelfix] of pyproject.toml, in wheelfix.toml, or as "
    "environment variables: `fail-on` as WHEELFIX_FAIL_ON. `wheelfix init --stdout` lists them."
)


class _LazyCommand(TyperCommand):
    """A command whose module is imported when it is called, not when it is listed."""

    def make_context(self, *arguments: Any, **options: Any) -> Context:  # noqa: ANN401 - of click
        """Parse what click hands on with the options of the command itself."""
        return _import_command(self.name or "").make_context(*arguments, **options)


def _names_of(parameter: Parameter) -> str:
    """Return the flags and the environment variables of an option, as users write them."""
    flags = "/".join(parameter.opts)
    variables = parameter.envvar if isinstance(parameter.envvar, list) else []
    return f"{flags} (or {', '.join(variables)})" if variables else flags


@cache
def _import_command(name: str) -> Command:
    """Import a command, and return it with its options."""
    module = import_module(_LEAVES.get(name, f"wheelfix.cli.commands.{name}"))
    entry = COMMANDS[name]
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(
        name,
        cls=GroupedCommand,
        epilog=_EPILOG if any(name in field.setting.commands for field in SETTING_FIELDS) else None,
        context_settings={"allow_interspersed_args": not entry.wraps},
    )(getattr(module, name))
    return typer.main.get_command(alone)


class _Program(GroupedProgram):
    """The program with its commands, none of which is imported yet."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - as typer passes them
        super().__init__(**options)
        self.commands = {
            name: _LazyCommand(name, help=entry.summary, rich_help_panel=entry.group)
            for name, entry in COMMANDS.items()
        }


app = typer.Typer(
    name="wheelfix",
    cls=_Program,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"wheelfix {__version__}")
        raise typer.Exit


@app.callback(
    epilog="Exit codes: 0 fine or all repaired, 1 errors remain in a wheel, 2 anything else. "
    "`wheelfix COMMAND --help` explains a command."
)
def _before(
    context: typer.Context,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    color: Color = None,
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
    del version, color
    context.obj = -1 if quiet else verbose


def main() -> None:
    """Run the command line of this process, and exit."""
    try:
        join_signal_thread = install_signal_handlers()
    except (OSError, RuntimeError) as error:  # the limit of files or threads
        Terminal(verbosity=0).fail(unexpected_error(error))
        sys.exit(ExitCode.ERROR)
    code = run(sys.argv[1:])
    join_signal_thread()
    end_now(code)  # Python would first take apart all values: a fifth of the time of a small wheel


def run(arguments: Sequence[str]) -> int:
    """Run the command line `arguments`, and return the exit code."""
    CHOSEN_COLOR.set(ColorChoice.AUTO)
    HAS_RESULT.set(False)
    is_verbose = any(re.fullmatch("--verbose|-[vq]*v[vq]*", argument) for argument in arguments)
    terminal = Terminal(verbosity=int(is_verbose))
    try:
        _refuse_empty(arguments)
        program = typer.main.get_command(app)
        option_completion.use_bash_words()
        with SlowProgress():
            code = program(arguments, prog_name="wheelfix", standalone_mode=False)
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else ExitCode.ERROR
    except NoArgsIsHelpError as error:
        error.show()
    except ClickException as error:
        _fail(_usage_error(error), terminal, arguments)
    except WheelfixError as error:
        _fail(error, terminal, arguments)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except Exception as error:  # noqa: BLE001 - a crash must not look like exit code 1, "findings"
        if terminal.verbosity > 0:
            terminal.trace(error)
        _fail(unexpected_error(error), terminal, arguments)
    else:
        return code if isinstance(code, int) else ExitCode.OK
    return ExitCode.ERROR


def _refuse_empty(arguments: Sequence[str]) -> None:
    """Raise `SettingsError` for an empty word: as a path it would be the current directory.

    Those of a program that `trace` runs are its own, and no folder is a value of `--ldpaths`.
    """
    own = (*arguments[:2], *takewhile(lambda word: word != "trace", arguments))
    if any(word == "" and before != "--ldpaths" for before, word in pairwise(("", *own))):
        raise SettingsError("an argument is empty", hint="a variable of the shell may not be set")


def _fail(error: WheelfixError, terminal: Terminal, arguments: Sequence[str]) -> None:
    """Report the error that ended the run; also as JSON if that is asked for, and none came."""
    terminal.fail(error)
    own = takewhile(lambda argument: argument not in {"--", "trace"}, arguments)
    options = "\0".join(own).replace("--output-format\0", "--output-format=").split("\0")
    if "--output-format=json" in options and not HAS_RESULT.get():
        with suppress(OSError):  # a full disk
            terminal.result(json_text({"version": 1, "error": error_value(error)}))


def _commands_with(flag: str) -> list[str]:
    """Return the commands that take `flag`, in words."""
    return [
        f"wheelfix {name}"
        for name in COMMANDS
        for parameter in _import_command(name).params
        if flag in {*parameter.opts, *parameter.secondary_opts}
    ]


def _near(error: NoSuchOption) -> list[str]:
    """Return the options that are meant; click compares the dashes, too."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for an error

    options = (option.lstrip("-") for option in error.possibilities or ())
    return get_close_matches(error.option_name.lstrip("-"), options)


_AS_ARGUMENTS = {("doctor", "--site"): "name the environment itself: `wheelfix doctor .venv`"}
"""Command and option of others -> the argument that the command takes instead."""


def _usage_error(error: ClickException) -> SettingsError:
    """Return an error of the command line in wheelfix's words."""
    is_option = isinstance(error, NoSuchOption)  # its format has what click takes for near
    message, hint = error.message if is_option else error.format_message(), ""
    if isinstance(error, BadParameter) and not isinstance(error, MissingParameter) and error.param:
        message = f"{_names_of(error.param)}: {error.message.replace('int range', 'integer')}"
    elif isinstance(error, NoSuchOption) and (commands := _commands_with(error.option_name)):
        message = f"no such option here: {error.option_name}"
        hint = f"it is one of {join_some(commands, len(commands))}"
        name = error.ctx.info_name if error.ctx else None
        hint = _AS_ARGUMENTS.get((name or "", error.option_name), hint)
    elif isinstance(error, NoSuchOption) and (near := _near(error)):
        hint = f"did you mean `--{near[0]}`?"
    elif isinstance(error, UsageError) and error.ctx is not None:
        usage = re.sub("Usage: |[{}]", "", error.ctx.get_usage())
        kinds = [param.param_type_name for param in error.ctx.command.params]
        if isinstance(error, MissingParameter) and kinds.count("argument") > 1:
            # click gives what there is to the last argument, and misses the first.
            message = f"missing argument: it takes `{usage.partition('] ')[2]}`"
        hint = f"{usage}\n`{error.ctx.command_path} --help` explains"
    message = message[:1].lower() + message[1:].rstrip(".")
    return SettingsError(message, hint=hint or None)
