"""`wheelfix verify`."""

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from wheelfix.analysis.providers import provider_wheels
from wheelfix.cli import options
from wheelfix.cli.console import Terminal
from wheelfix.cli.load_options import read_wheel, settings_of
from wheelfix.cli.verbosity import Verbose
from wheelfix.errors import ExitCode, SettingsError, WheelfixError
from wheelfix.host import verify as verifying
from wheelfix.host.provider_lookup import with_providers
from wheelfix.host.pythons import all_pythons as every_python
from wheelfix.host.verify_model import Options, Status, Verified
from wheelfix.reports import verify as reports
from wheelfix.reports.terminal_text import json_text
from wheelfix.settings import Settings


def verify(
    context: typer.Context,
    wheels: options.Wheels,
    python: Annotated[
        list[str] | None,
        typer.Option(
            "--python",
            metavar="PATH",
            help="Verify for this Python; the default is the one that runs wheelfix.",
        ),
    ] = None,
    all_pythons: Annotated[
        bool,
        typer.Option("--all-pythons", help="Verify for every Python found that the tags allow."),
    ] = False,
    scheme: Annotated[
        str,
        typer.Option(
            help="Install schemes to make: venv, prefix, user, target, with -pip or -uv behind to "
            "choose the installer; conda, debian-system, debian-prefix-pip, lib64; or all."
        ),
    ] = "venv",
    deps: Annotated[
        bool, typer.Option("--deps/--no-deps", help="Install what the wheel requires, too.")
    ] = False,
    beside: Annotated[
        list[Path] | None,
        typer.Option(
            "--with",
            metavar="WHEEL",
            help="Another wheel to install beside, such as one with libraries; repeatable.",
        ),
    ] = None,
    provider: options.ProviderOf = None,
    config: options.Config = None,
    runs: Annotated[
        list[str] | None,
        typer.Option(
            "--run",
            metavar="COMMAND",
            help="Run a program of the wheel so, in place of `NAME --version`; repeatable.",
        ),
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds for each attempt.", min=0.1)] = 60,
    jobs: Annotated[
        int, typer.Option("-j", "--jobs", help="Attempts to make side by side.", min=1)
    ] = 2,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail on exceptions and exit codes too.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Write the results as JSON.")] = False,
    verbose: Verbose = 0,
    quiet: options.Quiet = False,
) -> None:
    """Install wheels into fresh environments, and try all that is in them.

    The providers' wheels, where they are at hand, are installed beside.
    Every shared object is loaded, every extension module imported, every program run, each in a
    process of its own. This executes what the wheels contain. Nothing outside the temporary
    environments is written to.
    """
    terminal = Terminal(verbosity=-1 if quiet else verbose + int(context.obj or 0))
    pythons = tuple(python or ())
    if all_pythons:
        pythons = every_python(os.environ)
    settings = settings_of(context, provider, config)
    wanted = Options(
        pythons=pythons,
        schemes=tuple(each.strip() for each in scheme.split(",")),
        dependencies=deps,
        beside=tuple(beside or ()),
        runs=tuple(tuple(shlex.split(each)) for each in runs or () if each.strip()),
        timeout=timeout,
        jobs=jobs,
    )
    results: list[Verified] = []
    impossible = False
    for wheel in wheels:
        try:
            if not wheel.is_file():
                raise SettingsError(f"`{wheel}` is not a file")
            beside_too = (*wanted.beside, *_providing(wheel, settings(wheel.name)))
            here = replace(wanted, beside=tuple(dict.fromkeys(beside_too)))
            for result in verifying.verify(wheel, here, os.environ):
                results.append(result)
                if not json and (result.failed or not quiet):
                    colour = terminal.colours_results
                    text = reports.text(result, verbose=terminal.verbosity > 0, colour=colour)
                    terminal.result(text)
        except WheelfixError as error:
            terminal.fail(error)
            impossible = True
    if json:
        terminal.result(json_text(reports.as_json(results), indent=1))
    bad = any(
        check.failed or (strict and check.status is not Status.OK)
        for result in results
        for check in result.checks
    )
    if impossible:
        raise typer.Exit(ExitCode.ERROR)
    raise typer.Exit(ExitCode.FINDINGS if bad else ExitCode.OK)


def _providing(path: Path, settings: Settings) -> tuple[Path, ...]:
    """Return the wheels of the providers that are at hand as wheels."""
    if not settings.provider:
        return ()
    known = with_providers(settings, Path.cwd(), read_wheel(path)).provider
    return tuple(Path(each) for each in provider_wheels(known))
