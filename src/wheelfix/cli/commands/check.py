"""`wheelfix check`: what is wrong with wheels."""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from time import monotonic

import typer

from wheelfix.cli import options
from wheelfix.cli.check_jsonl import write_records
from wheelfix.cli.check_report_writer import KINDS, ReportWriter, parse_reports
from wheelfix.cli.config.configuration import Configuration
from wheelfix.cli.console import Terminal
from wheelfix.cli.options import Call
from wheelfix.cli.output_files import Kind, refuse_other, write_file
from wheelfix.cli.supervisor import CHANNEL, LOST, tell
from wheelfix.cli.wheel_paths import Wheels, expand
from wheelfix.errors import ExitCode, SettingsError
from wheelfix.frozen import frozen
from wheelfix.host.machine_files import MAX_DATABASE, read_regular
from wheelfix.host.wheel_cache import sweep_cache
from wheelfix.pipelines.check import NO_BASELINE, CheckTask, check_set, suppress_all
from wheelfix.pipelines.check_many import WORKER_MEMORY, check_many, check_tasks
from wheelfix.pipelines.check_result import Report, SetReport
from wheelfix.reports.check_content import lowest_failing
from wheelfix.reports.check_formats import Format
from wheelfix.reports.printable import error_words, printable
from wheelfix.rules import baseline as baselines
from wheelfix.rules.baseline import Baseline
from wheelfix.settings import Group, Option, Settings
from wheelfix.system.tempfiles import PREFIX, sweep_folders, tmpdir
from wheelfix.system.workers import InProcess, Lost, WorkerProcesses, Workers
from wheelfix.text import count, in_units


@frozen
class _Options:
    """The options that are not settings."""

    write_baseline: bool = Option(
        "Write all findings to the baseline file, so that they no longer count.",
        group=Group.FAILURE,
    ).default(False)
    output_format: Format = Option(
        f"Format of the report: {', '.join(Format)}.",
        group=Group.OUTPUT,
        metavar="FORMAT",
    ).default(Format.FULL)
    output_file: Path | None = Option(
        "Write the report to this file instead of stdout.",
        group=Group.OUTPUT,
        short="-o",
        metavar="FILE",
    ).default(None)
    report: list[str] = Option(
        "Also write the report in another format; repeatable.",
        group=Group.OUTPUT,
        metavar="FORMAT=FILE",
    ).default([])
    statistics: bool = Option(
        "Print the number of findings of each rule instead of each.", group=Group.OUTPUT
    ).default(False)


@options.with_options
def check(call: Call, request: _Options, paths: Wheels) -> None:
    """Report what is wrong with wheels, and change nothing.

    Only the wheel is needed: no compiler, no patchelf, no auditwheel, whatever its platform.
    """
    wheels = expand(paths, call.terminal)
    _refuse_contradictions(request)
    configuration = call.read_configuration().check()
    words = options.words_for_repair(call, configuration)
    raise typer.Exit(_run(wheels, request, configuration, call.terminal, words))


def _run(
    wheels: Sequence[Path],
    request: _Options,
    configuration: Configuration,
    terminal: Terminal,
    words: Sequence[str],
) -> ExitCode:
    """Check the wheels, and print and write the reports."""
    known = _baseline(configuration, write_baseline=request.write_baseline)
    files = parse_reports(request.report)
    inputs = _inputs(wheels, request, configuration)
    _refuse_outputs(request, files, configuration.settings, inputs)
    with ExitStack() as stack:
        # What was killed leaves what it fetched, and its folders.
        stack.callback(sweep_cache, os.environ)
        stack.callback(sweep_folders, tmpdir(), PREFIX)
        beside = " and what it requires" * configuration.settings.deps
        line = _ProgressLine(wheels, terminal, beside)
        workers = _workers(wheels, configuration.settings, request.output_format, stack)
        folder = options.current_folder()
        of_repair = configuration.for_command("repair").settings_for
        tasks = tuple(
            replace(task, repair=of_repair(task.wheel.name))
            for task in check_tasks(wheels, configuration.settings_for, folder, os.environ, words)
        )
        if request.output_format is Format.JSONL:
            progress = write_records(
                tasks,
                configuration,
                known,
                terminal,
                workers,
                output=request.output_file,
                inputs=inputs,
            )
            return _exit_code(unreadable=progress.unreadable > 0, failing=progress.failing > 0)
        report = _run_check(tasks, configuration, known, terminal, workers, line)
    if request.write_baseline:
        report = _write_baseline(report, Path(configuration.settings.baseline or ""), terminal)
    writer = ReportWriter(report, configuration.settings, terminal, inputs)
    _write_reports(writer, request, files)
    limit = lowest_failing(configuration.settings.fail_on)
    failing = limit is not None and report.fails(limit)
    return _exit_code(unreadable=bool(report.unreadable), failing=failing)


# --- Options --------------------------------------------------------------------------------------


def _refuse_contradictions(request: _Options) -> None:
    """Raise `SettingsError` for options that exclude each other."""
    if request.statistics and request.output_format is not Format.FULL:
        raise SettingsError("--statistics is a format of its own: not with --output-format")
    writes_records = request.output_format is Format.JSONL
    if writes_records and (request.report or request.write_baseline):
        raise SettingsError(
            "`--report` and `--write-baseline` need all wheels at once: not with jsonl",
            hint="use a separate run; `--report jsonl=FILE` works with the other formats",
        )


def _inputs(
    wheels: Sequence[Path], request: _Options, configuration: Configuration
) -> tuple[Path, ...]:
    """Return the files that are read: none of them is an output."""
    settings = configuration.settings
    baseline = [] if settings.baseline is None or request.write_baseline else [settings.baseline]
    named = (*baseline, *settings.neighbors, *settings.sbom_include)
    return (*wheels, *map(Path, named))


def _refuse_outputs(
    request: _Options,
    files: Sequence[tuple[Format, Path]],
    settings: Settings,
    inputs: Sequence[Path],
) -> None:
    """Raise `OutputError` before the work, for what no report may replace."""
    if request.output_file is not None:
        refuse_other(request.output_file, KINDS[request.output_format], inputs)
    for form, file in files:
        refuse_other(file, KINDS[form], inputs)
    if request.write_baseline and settings.baseline is not None:
        refuse_other(Path(settings.baseline), Kind.BASELINE, inputs)


def _baseline(configuration: Configuration, *, write_baseline: bool) -> Baseline:
    file = configuration.settings.baseline
    if write_baseline and file is None:
        raise SettingsError(
            "--write-baseline needs a file to write to",
            hint="--baseline wheelfix-baseline.json, or `baseline` in [tool.wheelfix]",
        )
    return NO_BASELINE if file is None or write_baseline else _read_baseline(Path(file))


def _read_baseline(file: Path) -> Baseline:
    """Read a baseline. Raises `SettingsError` if the file is not one."""
    try:
        return baselines.parse(read_regular(file, MAX_DATABASE), file)
    except OSError as error:
        raise SettingsError(
            f"cannot read the baseline `{file}`: {error.strerror}",
            hint="create it with --write-baseline",
        ) from error


# --- Work -----------------------------------------------------------------------------------------


def _workers(wheels: Sequence[Path], settings: Settings, form: Format, stack: ExitStack) -> Workers:
    """Return what checks the wheels within `stack`: a crash or a limit of one ends no other.

    The supervisor ends this process with its only wheel, and then writes the reports itself, but
    for the records that are written as they come.
    """
    if lost := LOST.get():
        return Lost(lost)
    if len(wheels) == 1 and CHANNEL.get() >= 0 and form is not Format.JSONL:
        tell("check", settings.timeout, wheels[0].name)
        stack.callback(tell, "check", 0, "")
        return InProcess()
    jobs, memory = min(settings.jobs, len(wheels)), WORKER_MEMORY if len(wheels) > 1 else None
    return stack.enter_context(WorkerProcesses(jobs, timeout=settings.timeout, memory=memory))


def _run_check(
    tasks: Sequence[CheckTask],
    configuration: Configuration,
    known: Baseline,
    terminal: Terminal,
    workers: Workers,
    line: "_ProgressLine",
) -> SetReport:
    reports: list[Report] = []
    line.go_on()
    for report in check_many(tasks, known, workers, line.watch):
        if terminal.verbosity > 0:
            terminal.say(f"{printable(report.source.name)}: checked")
        reports.append(report)
        line.go_on()
    return check_set(reports, configuration.settings_for, known)


_INTERVAL = 0.2
"""Seconds between two lines about the same wheel."""


class _ProgressLine:
    """The line that shows which wheel is checked, and how much of it was read."""

    def __init__(self, wheels: Sequence[Path], terminal: Terminal, beside: str) -> None:
        self.watch = self._read if len(wheels) == 1 and terminal.shows_progress else None
        self._fraction = 0.0
        self._due = 0.0
        self._wheels, self._beside = wheels, beside
        self._sizes = tuple(map(_size, wheels))
        self._past = tuple(accumulate(self._sizes, initial=0))
        self._terminal = terminal
        self._done = -1

    def go_on(self) -> None:
        """Show the next wheel."""
        self._done += 1
        self._terminal.show_progress(self._text())

    def _read(self, fraction: float) -> None:
        """Show how much of the only wheel was read, several times a second."""
        self._fraction = fraction
        if monotonic() > self._due or fraction == 1:
            self._due = monotonic() + _INTERVAL
            self._terminal.show_progress(self._text())

    def _text(self) -> str:
        """Return `2 of 5 wheels, 31 MB of 120 MB; reading 40% of 89 MB: x.whl`."""
        wheels, done = self._wheels, self._done
        if done == len(wheels):
            return f"checked {count(done, 'wheel')}"
        size = in_units(self._sizes[done])
        stage = f"reading {self._fraction:.0%} of" if 0 < self._fraction < 1 else "checking"
        checking = f"{stage} {size}{self._beside}: {printable(wheels[done].name)}"
        if len(wheels) == 1:
            return checking
        past, total = in_units(self._past[done]), in_units(self._past[-1])
        return f"{done} of {count(len(wheels), 'wheel')}, {past} of {total}; {checking}"


def _size(wheel: Path) -> int:
    """Return the size of a file; 0 if there is none, which its check reports."""
    try:
        return wheel.stat().st_size
    except OSError:
        return 0


def _write_baseline(checked: SetReport, file: Path, terminal: Terminal) -> SetReport:
    """Write all findings to the baseline, and return the report without them."""
    findings = [
        ((finding.wheel or (report.source.name if report else "")).partition("-")[0], finding)
        for report, finding in checked.all_findings
    ]
    write_file(file, baselines.text(findings).rstrip(), Kind.BASELINE)
    name = printable(str(file))
    terminal.say(f"{count(len(findings), 'finding')} written to `{name}`: they no longer count")
    return suppress_all(checked)


def _write_reports(
    writer: ReportWriter, request: _Options, files: Sequence[tuple[Format, Path]]
) -> None:
    told: set[str] = set()
    for error in (unreadable.error for unreadable in writer.found.unreadable):
        # What settings are refused for is the same for every wheel.
        if error is None or (isinstance(error, SettingsError) and error_words(error) in told):
            continue
        writer.terminal.fail(error)
        told.add(error_words(error))
    if request.statistics:
        writer.write_statistics(request.output_file)
    else:
        writer.write(request.output_format, request.output_file)
    for form, file in files:
        writer.write(form, file)
    writer.write_step_summary(os.environ)


def _exit_code(*, unreadable: bool, failing: bool) -> ExitCode:
    """Return the exit code of a run with or without unreadable wheels and failing findings."""
    if unreadable:
        return ExitCode.ERROR
    return ExitCode.FINDINGS if failing else ExitCode.OK
