"""`wheelfix repair`: wheels that work once installed."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from wheelfix.cli import options
from wheelfix.cli.config.configuration import Configuration
from wheelfix.cli.console import Quiet, Terminal, Verbose
from wheelfix.cli.options import TextOrJson
from wheelfix.errors import ExitCode, SettingsError, WheelfixError, unexpected_error
from wheelfix.pipelines.auditwheel_analysis import Auditwheel
from wheelfix.pipelines.repair import repair_with
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.pipelines.repair_set import repair_each
from wheelfix.reports import repair_json
from wheelfix.reports.printable import json_text, printable
from wheelfix.reports.repair_text import failure, plan, summary
from wheelfix.rules.plugins import all_rules
from wheelfix.settings import Group, Settings
from wheelfix.system.own_metadata import documentation_site

_DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Print the plan, and write nothing.", rich_help_panel=Group.OUTPUT
    ),
]


@options.with_settings
def repair(
    context: typer.Context,
    wheels: options.Wheels,
    dry_run: _DryRun = False,
    output_format: options.OutputFormat = TextOrJson.TEXT,
    config: options.Config = None,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    **given: object,
) -> None:
    """Write wheels that work once installed.

    auditwheel grafts the external libraries and chooses the tag, with its own options; rules
    repair the rest. The paths of the wheels written go to stdout, or with
    --output-format json everything about them.
    """
    _refuse_wheels(wheels)
    configuration = options.configuration_of(context, given, config).check(all_rules())
    terminal = Terminal(verbosity=-1 if quiet else verbose)

    shown: list[Outcome] = []

    def show(outcome: Outcome) -> None:
        _show_summary(outcome, terminal)
        shown.append(outcome)
        if outcome.status is Status.FAILED or output_format is TextOrJson.JSON:
            return
        if dry_run:
            terminal.result(plan(outcome, colour=terminal.colours_results))
        if outcome.output is not None:
            terminal.result(printable(str(outcome.output)))

    outcomes = _repaired(wheels, configuration, terminal, publish=not dry_run)
    try:
        code = _shown(outcomes, show)
    finally:
        if output_format is TextOrJson.JSON:
            terminal.result(json_text(repair_json.as_json(shown, documentation_site())))
    raise typer.Exit(code)


def _refuse_wheels(wheels: Sequence[Path]) -> None:
    """Raise `SettingsError` for wheels that do not exist, or would be written to one name."""
    for wheel in wheels:
        if set("*?[").intersection(str(wheel)) and not wheel.exists():
            raise SettingsError(
                f"no file matches `{wheel}`",
                hint="the shell found no match for the pattern; build the wheel first",
            )
        options.require_file(wheel)
    names = Counter(wheel.name for wheel in wheels)
    name, times = names.most_common(1)[0]
    if times > 1:
        raise SettingsError(
            f"{times} of the wheels are called `{name}`; they would be written to one file",
            hint="repair them in several runs, each with its own -w",
        )


def _repaired(
    wheels: Sequence[Path], configuration: Configuration, terminal: Terminal, *, publish: bool
) -> Iterator[Outcome]:
    """Yield the outcome of each wheel, in their order."""
    jobs = configuration.settings.jobs
    inputs = frozenset(map(os.path.realpath, wheels))
    # PWD may be that of the process that started this one.
    environ = {**os.environ, "PWD": str(Path.cwd())}
    with Auditwheel(environ, min(jobs, len(wheels))) as auditwheel:

        def attempt(path: Path, settings: Settings, /, *, publish: bool) -> Outcome:
            """Repair one wheel; a bug that it triggers must not stop the others."""
            progress = terminal.progress(path)
            try:
                return repair_with(
                    auditwheel, path, settings, progress=progress, publish=publish, inputs=inputs
                )
            except WheelfixError as error:
                return Outcome(source=path, status=Status.FAILED, error=error)
            except Exception as error:  # noqa: BLE001 - reported, with exit code 2
                return Outcome(source=path, status=Status.FAILED, error=unexpected_error(error))

        yield from repair_each(
            wheels, configuration.settings_for, attempt, publish=publish, jobs=jobs
        )


def _shown(outcomes: Iterator[Outcome], show: Callable[[Outcome], None]) -> ExitCode:
    """Show each outcome when it is ready, and return the worst exit code."""
    worst = ExitCode.OK
    written: set[Path] = set()
    for outcome in outcomes:
        show(outcome)
        worst = max(worst, _exit_code(outcome))
        if outcome.output is not None and outcome.output in written:
            raise SettingsError(
                f"two of the wheels were both written to `{outcome.output}`",
                hint="repair them in two runs, each with its own -w",
            )
        written.update([outcome.output] if outcome.output else [])
    return worst


def _exit_code(outcome: Outcome) -> ExitCode:
    match outcome.status:
        case Status.REPAIRED | Status.UNCHANGED | Status.PLANNED:
            return ExitCode.OK
        case Status.REJECTED:
            return ExitCode.FINDINGS
        case Status.FAILED:
            return ExitCode.ERROR


def _show_summary(outcome: Outcome, terminal: Terminal) -> None:
    """Print the summary of one wheel; if quiet, only why it was not written."""
    cause = outcome.error.__cause__ if outcome.error else None
    if terminal.verbosity > 0 and cause is not None:
        terminal.trace(cause)
    colour = terminal.colours_notes
    site = documentation_site() if terminal.links_notes else ""
    if terminal.verbosity < 0:
        terminal.alert(failure(outcome, colour=colour, documentation=site))
    else:
        verbose = terminal.verbosity > 0
        terminal.alert(summary(outcome, verbose=verbose, colour=colour, documentation=site))
