"""`wheelfix repair`: wheels that work once installed."""

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import typer

from wheelfix.cli import options
from wheelfix.cli.console import Terminal
from wheelfix.cli.options import Call, TextOrJson
from wheelfix.cli.output_files import Kind, write_file
from wheelfix.cli.wheel_paths import Wheels, expand
from wheelfix.cli.wheel_time_limit import time_limit
from wheelfix.errors import ExitCode, OutputError
from wheelfix.frozen import frozen
from wheelfix.grouping import flatten
from wheelfix.host.machine_files import refuse_tmpdir_of_others
from wheelfix.pipelines.graft_lock import LOCK_FILE, joined, lock_text, read_lock, tables_of
from wheelfix.pipelines.repair_many import repair_many
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.reports import repair_json
from wheelfix.reports.printable import Style, json_text, printable
from wheelfix.reports.repair_text import (
    fails_alike,
    failure,
    failure_again,
    plan,
    run_result,
    summary,
)
from wheelfix.reports.run_totals import run_totals
from wheelfix.rules.findings import Severity
from wheelfix.settings import Group, Option, Settings
from wheelfix.system.wheelfix_metadata import documentation_site


@frozen
class _Options:
    """The options that are not settings."""

    dry_run: bool = Option("Print the plan, and write nothing.", group=Group.OUTPUT).default(False)
    write_lock: bool = Option(
        "Write what is grafted to wheelfix.lock, and do not compare it with that file before.",
        group=Group.GRAFT,
    ).default(False)
    output_format: TextOrJson = options.OUTPUT_FORMAT.default(TextOrJson.TEXT)


@options.with_options
def repair(call: Call, paths: Wheels, request: _Options) -> None:
    """Write wheels that work once installed.

    External libraries are grafted and the tag is chosen by auditwheel's rules, with its options;
    wheelfix's rules repair the rest, and auditwheel judges what was written. The paths of the
    wheels written go to stdout, or with --output-format json everything about them.
    """
    refuse_tmpdir_of_others()
    configuration, terminal = call.read_configuration().check(), call.terminal

    shown: list[Outcome] = []

    def show(outcome: Outcome) -> None:
        like = next((earlier for earlier in shown if fails_alike(earlier, outcome)), None)
        if like is None:
            _show_summary(outcome, terminal)
        else:
            terminal.alert(failure_again(outcome, like, _note_style(terminal)))
        shown.append(outcome)
        if outcome.status is Status.FAILED or request.output_format is TextOrJson.JSON:
            return
        if request.dry_run:
            terminal.report(plan(outcome, terminal.result_style))
        if outcome.output is not None:
            terminal.result(printable(str(outcome.output)))

    def settings_for(wheel: str | None) -> Settings:
        settings = configuration.settings_for(wheel)
        return replace(settings, locked=False) if request.write_lock else settings

    outcomes = repair_many(
        expand(paths, terminal),
        settings_for,
        os.environ,
        options.current_folder(),
        words=options.words_for_repair(call, configuration),
        jobs=configuration.settings.jobs,
        publish=not request.dry_run,
        progress=terminal.progress,
        limit=lambda wheel: time_limit(configuration.settings.timeout, wheel.name),
    )
    try:
        for outcome in outcomes:
            show(outcome)
    finally:
        if request.output_format is TextOrJson.JSON:
            terminal.result(json_text(repair_json.as_json(shown, documentation_site())))
    if request.write_lock:
        _write_lock(shown, options.current_folder() / LOCK_FILE)
    terminal.say(run_totals(map(run_result, shown), list(Status)))
    raise typer.Exit(max(map(_exit_code, shown), default=ExitCode.OK))


def _exit_code(outcome: Outcome) -> ExitCode:
    match outcome.status:
        case Status.REPAIRED | Status.UNCHANGED | Status.PLANNED:
            is_left = any(finding.severity is Severity.ERROR for finding in outcome.remaining)
            return ExitCode.FINDINGS if is_left else ExitCode.OK
        case Status.REJECTED:
            return ExitCode.FINDINGS
        case Status.FAILED:
            return ExitCode.ERROR


def _show_summary(outcome: Outcome, terminal: Terminal) -> None:
    """Print the summary of one wheel; if quiet, only why it was not written."""
    cause = outcome.error.__cause__ if outcome.error else None
    if terminal.verbosity > 0 and cause is not None:
        terminal.trace(cause)
    text = failure if terminal.verbosity < 0 else summary
    terminal.alert(text(outcome, _note_style(terminal)))


def _note_style(terminal: Terminal) -> Style:
    site = documentation_site() if terminal.links_notes else ""
    return Style(color=terminal.colors_notes, verbose=terminal.verbosity > 0, documentation=site)


def _write_lock(outcomes: Iterable[Outcome], file: Path) -> None:
    """Write what was grafted to the lock, which keeps what it has of other wheels.

    Nothing is written where no wheel was.
    """
    written = [outcome for outcome in outcomes if outcome.status is Status.REPAIRED]
    if not written:
        return
    pairs = ((outcome.after, outcome.grafted) for outcome in written)
    new = list(flatten(tables_of(wheel.name, grafted) for wheel, grafted in pairs if wheel))
    if file.is_symlink():  # in a checkout of others it may lead to any file of the user
        raise OutputError(f"`{file}` is a symbolic link", hint="delete it, and repair again")
    write_file(file, lock_text(joined(read_lock(file), new)).rstrip("\n"), Kind.LOCK)
