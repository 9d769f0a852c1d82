"""`wheelfix check`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wheelfix.cli import options
from wheelfix.errors import ExitCode, SettingsError, WheelfixError

if TYPE_CHECKING:
    from wheelfix.findings import Finding
    from wheelfix.settings import Settings


def check(
    context: typer.Context,
    wheels: options.Wheels,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail on warnings too.", envvar="WHEELFIX_STRICT")
    ] = False,
    select: options.Select = None,
    extend_select: options.ExtendSelect = None,
    ignore: options.Ignore = None,
    keep_entries: options.KeepEntries = None,
    keep_names: options.KeepNames = None,
    require: options.Require = None,
    prune_needed: options.PruneNeededChoice = None,
    keep_needed: options.KeepNeeded = None,
    drop_needed: options.DropNeeded = None,
    library_path: options.LibraryPath = None,
    config: options.Config = None,
    verbose: options.Verbose = 0,
    quiet: options.Quiet = False,
) -> None:
    """Say what is wrong with wheels as they stand, and change nothing.

    Needs nothing but the wheel: no compiler, no patchelf, no auditwheel, whatever its platform.
    """
    given = locals()
    from wheelfix.cli.terminal import Terminal
    from wheelfix.findings import Severity
    from wheelfix.reports.text import finding_text, tally
    from wheelfix.rules import RULES

    terminal = Terminal(verbosity=-1 if quiet else verbose + int(context.obj or 0))
    settings = options.settings_of(given, config, RULES)
    found: list[Finding] = []
    unreadable = 0
    for wheel in wheels:
        try:
            findings = _findings(wheel, settings)
        except WheelfixError as error:
            terminal.fail(error)
            unreadable += 1
            continue
        for finding in findings:
            terminal.result(finding_text(finding, wheel.name, colour=terminal.colours_results))
            terminal.result("")
        found += findings
    if unreadable < len(wheels) and (found or not quiet):
        terminal.result(tally(found, len(wheels) - unreadable))
    limit = Severity.WARNING if strict else Severity.ERROR
    failing = any(finding.severity >= limit for finding in found)
    raise typer.Exit(
        ExitCode.ERROR if unreadable else ExitCode.FINDINGS if failing else ExitCode.OK
    )


def _findings(path: Path, settings: "Settings") -> "tuple[Finding, ...]":
    """Open a wheel and run the rules on it; worst first."""
    from wheelfix.archive import open_wheel
    from wheelfix.engine import run_rules
    from wheelfix.hostlibs import HostLibraries
    from wheelfix.rules import selected
    from wheelfix.rules.base import Context

    if not path.is_file():
        raise SettingsError(f"`{path}` is not a file")
    with open_wheel(path) as archive:
        libraries = HostLibraries(archive=archive, settings=settings, environ=os.environ)
        context = Context(wheel=archive.wheel, settings=settings, definitions=libraries)
        findings = run_rules(context, selected(settings))
    return tuple(sorted(findings, key=lambda finding: -finding.severity))
