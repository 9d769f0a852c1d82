"""`wheelfix verify`: wheels installed into fresh environments, and everything in them loaded."""

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from wheelfix.analysis.providers import provider_wheels
from wheelfix.cli import completion, options
from wheelfix.cli.config.configuration import Configuration
from wheelfix.cli.config.values import suggestion
from wheelfix.cli.console import Quiet, Terminal, Verbose
from wheelfix.cli.installation_options import read_wheel
from wheelfix.cli.options import TextOrJson
from wheelfix.errors import ExitCode, SettingsError, WheelfixError
from wheelfix.host import verify as verifying
from wheelfix.host.fresh_environments import INSTALLER_SCHEMES
from wheelfix.host.provider_lookup import with_providers
from wheelfix.host.pythons import all_pythons as every_python
from wheelfix.host.verify_values import Options, Result, Verified
from wheelfix.loader.install_schemes import scheme_names
from wheelfix.reports import verify as reports
from wheelfix.reports.printable import json_text
from wheelfix.settings import Group
from wheelfix.text import join_some

_Python = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH",
        help="Verify for this Python, by default the one that runs wheelfix; repeatable.",
        rich_help_panel=Group.MACHINES,
    ),
]
_AllPythons = Annotated[
    bool,
    typer.Option(
        "--all-pythons",
        help="Verify for every installed Python that the tags allow.",
        rich_help_panel=Group.MACHINES,
    ),
]
_Scheme = Annotated[
    str,
    typer.Option(
        metavar="NAMES",
        autocompletion=completion.schemes,
        help=f"Install schemes, comma-separated: {', '.join(scheme_names())}; or all. The "
        f"suffix -pip or -uv chooses the installer of {', '.join(INSTALLER_SCHEMES)}.",
        rich_help_panel=Group.MACHINES,
    ),
]
_Deps = Annotated[
    bool,
    typer.Option(
        "--deps/--no-deps",
        help="Also install the requirements of the wheel.",
        rich_help_panel=Group.PROVIDERS,
    ),
]
_Runs = Annotated[
    list[str] | None,
    typer.Option(
        "--run",
        metavar="COMMAND",
        help="Command for a program of the wheel, instead of `NAME --version`; repeatable.",
        rich_help_panel=Group.PROOF,
    ),
]
_Timeout = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        help="Maximum seconds of each attempt.",
        min=0.1,
        max=1e7,
        rich_help_panel=Group.RUN,
    ),
]
_Jobs = Annotated[
    int,
    typer.Option(
        "-j", "--jobs", help="Number of parallel attempts.", min=1, rich_help_panel=Group.RUN
    ),
]
_Strict = Annotated[
    bool,
    typer.Option(
        "--strict", help="Also fail on exceptions and exit codes.", rich_help_panel=Group.FAILURE
    ),
]


@options.with_settings
def verify(
    context: typer.Context,
    wheels: options.Wheels,
    python: _Python = None,
    all_pythons: _AllPythons = False,
    scheme: _Scheme = "venv",
    deps: _Deps = False,
    beside: options.With = None,
    runs: _Runs = None,
    timeout: _Timeout = 60,
    jobs: _Jobs = 2,
    strict: _Strict = False,
    output_format: options.OutputFormat = TextOrJson.TEXT,
    config: options.Config = None,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    **given: object,
) -> None:
    """Install wheels into fresh environments, and load them.

    Every shared object is loaded, every extension module imported, every program run, each in a
    process of its own. Wheels of providers are installed too, if their files are known.
    This executes the content of the wheels. Nothing is written outside the temporary environments.
    """
    terminal = Terminal(verbosity=-1 if quiet else verbose)
    wanted = Options(
        pythons=every_python(os.environ) if all_pythons else tuple(python or ()),
        schemes=tuple(name.strip() for name in scheme.split(",")),
        dependencies=deps,
        beside=tuple(beside or ()),
        runs=tuple(_words(command) for command in runs or () if command.strip()),
        timeout=timeout,
        jobs=jobs,
    )
    configuration = options.configuration_of(context, given, config)
    _refuse_unknown_programs(wanted.runs, wheels)
    results: list[Verified] = []
    is_complete = True
    for wheel in wheels:
        try:
            for result in _verified(wheel, wanted, configuration):
                results.append(result)
                is_bad = result.result(strict=strict) is Result.FAILED
                if output_format is TextOrJson.TEXT and (is_bad or not quiet):
                    colour, is_verbose = terminal.colours_results, terminal.verbosity > 0
                    terminal.result(
                        reports.text(result, strict=strict, verbose=is_verbose, colour=colour)
                    )
        except WheelfixError as error:
            terminal.fail(error)
            is_complete = False
    if output_format is TextOrJson.JSON:
        terminal.result(json_text(reports.as_json(results, strict=strict), indent=1))
    if not is_complete:
        raise typer.Exit(ExitCode.ERROR)
    is_bad = any(result.result(strict=strict) is Result.FAILED for result in results)
    raise typer.Exit(ExitCode.FINDINGS if is_bad else ExitCode.OK)


def _refuse_unknown_programs(runs: Sequence[Sequence[str]], wheels: Sequence[Path]) -> None:
    """Raise `SettingsError` for a `--run` whose program is in none of the wheels."""
    try:
        known = [
            program.rpartition("/")[2]
            for wheel in (wheels if runs else ())
            for program in verifying.programs(read_wheel(wheel))
        ]
    except WheelfixError:
        return  # verifying that wheel reports it, and the others are still verified
    for name in (command[0] for command in runs if command[0] not in known):
        listed = f"they have {join_some(known)}" if known else "they have no program"
        raise SettingsError(
            f"--run {name}: no wheel has a program of that name",
            hint=suggestion(name, known) or listed,
        )


def _verified(wheel: Path, wanted: Options, configuration: Configuration) -> Iterator[Verified]:
    """Yield the results of `wheel` in each environment, with its providers beside it."""
    settings = configuration.settings_for(wheel.name)
    providers = with_providers(settings, Path.cwd(), read_wheel(wheel)).provider
    beside = dict.fromkeys((*wanted.beside, *map(Path, provider_wheels(providers))))
    yield from verifying.verify(wheel, replace(wanted, beside=tuple(beside)), os.environ)


def _words(command: str) -> tuple[str, ...]:
    """Split a command as a shell does. Raises `SettingsError` for quotes that are not closed."""
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        raise SettingsError(f"`--run {command}` is no command: {error}") from error
