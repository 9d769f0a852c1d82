"""`wheelfix check`: what is wrong with wheels."""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from itertools import accumulate
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from wheelfix.cli import options
from wheelfix.cli.check_jsonl import write_records
from wheelfix.cli.check_reports import ReportWriter, parse_reports
from wheelfix.cli.config.configuration import Configuration
from wheelfix.cli.console import Quiet, Terminal, Verbose
from wheelfix.cli.dask_workers import dask_workers
from wheelfix.errors import ExitCode, SettingsError
from wheelfix.loader.target_machines import refuse_unknown
from wheelfix.pipelines.check import NO_BASELINE, check_each, check_set, without_baselined
from wheelfix.pipelines.check_result import Report, SetReport
from wheelfix.reports.check_content import lowest_failing
from wheelfix.reports.check_formats import Format
from wheelfix.reports.printable import printable
from wheelfix.rules import baseline as baselines
from wheelfix.rules.baseline import Baseline
from wheelfix.rules.plugins import all_rules
from wheelfix.settings import FailOn, Group, Settings
from wheelfix.system.shared_progress import SharedFraction, shared_fraction
from wheelfix.system.tempfiles import write_whole
from wheelfix.system.workers import WorkerProcesses, Workers
from wheelfix.text import counted, in_units

_Wheels = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="WHEEL|DIR...",
        help="The wheels; a directory stands for all wheels in and below it.",
    ),
]
_FromFile = Annotated[
    Path | None,
    typer.Option(
        metavar="LIST",
        help="Also check the wheels and directories that this file lists, or stdin if it is "
        "`-`: one per line, or terminated by NUL.",
        rich_help_panel=Group.WHEELS,
    ),
]
_Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Fail on warnings too: --fail-on warning.",
        envvar="WHEELFIX_STRICT",
        rich_help_panel=Group.FAILURE,
    ),
]
_ExitZero = Annotated[
    bool,
    typer.Option(
        "--exit-zero",
        help="Report findings, and exit with 0: --fail-on never.",
        envvar="WHEELFIX_EXIT_ZERO",
        rich_help_panel=Group.FAILURE,
    ),
]
_WriteBaseline = Annotated[
    bool,
    typer.Option(
        "--write-baseline",
        help="Write all findings to the baseline file, so that they no longer count.",
        rich_help_panel=Group.FAILURE,
    ),
]
_OutputFormat = Annotated[
    Format,
    typer.Option(
        metavar="FORMAT",
        envvar="WHEELFIX_OUTPUT_FORMAT",
        help=f"Format of the report: {', '.join(Format)}.",
        rich_help_panel=Group.OUTPUT,
    ),
]
_OutputFile = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output-file",
        metavar="FILE",
        envvar="WHEELFIX_OUTPUT_FILE",
        help="Write the report to this file instead of stdout.",
        rich_help_panel=Group.OUTPUT,
    ),
]
_MoreReports = Annotated[
    list[str] | None,
    typer.Option(
        "--report",
        metavar="FORMAT=FILE",
        help="Also write the report in another format; repeatable.",
        rich_help_panel=Group.OUTPUT,
    ),
]
_Statistics = Annotated[
    bool,
    typer.Option(
        "--statistics",
        help="Print the number of findings of each rule instead of each.",
        rich_help_panel=Group.OUTPUT,
    ),
]
_Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="With jsonl, continue --output-file: records that are still valid are kept.",
        rich_help_panel=Group.OUTPUT,
    ),
]
_Dask = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        envvar="WHEELFIX_DASK",
        help="Use the Dask cluster of the scheduler at this address instead of --jobs.",
        rich_help_panel=Group.RUN,
    ),
]


@options.with_settings
def check(
    context: typer.Context,
    wheels: _Wheels = None,
    from_file: _FromFile = None,
    strict: _Strict = False,
    exit_zero: _ExitZero = False,
    write_baseline: _WriteBaseline = False,
    output_format: _OutputFormat = Format.FULL,
    output_file: _OutputFile = None,
    more_reports: _MoreReports = None,
    statistics: _Statistics = False,
    resume: _Resume = False,
    dask: _Dask = None,
    config: options.Config = None,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    **given: object,
) -> None:
    """Report what is wrong with wheels, and change nothing.

    Only the wheel is needed: no compiler, no patchelf, no auditwheel, whatever its platform.
    """
    request = _Request(
        wheels=_expanded([*(wheels or ()), *_listed(from_file)]),
        write_baseline=write_baseline,
        output_format=output_format,
        output_file=output_file,
        more_reports=more_reports or (),
        statistics=statistics,
        resume=resume,
        dask=dask,
    )
    if options.by_environment(context, "output_format") and not request.can_write(output_format):
        request = request._replace(output_format=Format.FULL)
    _refuse_contradictions(request)
    given["fail_on"] = _fail_on(
        context, fail_on=given["fail_on"], strict=strict, exit_zero=exit_zero
    )
    configuration = options.configuration_of(context, given, config).check(all_rules())
    terminal = Terminal(verbosity=-1 if quiet else verbose)
    raise typer.Exit(_run(request, configuration, terminal))


class _Request(NamedTuple):
    """The options that are not settings."""

    wheels: Sequence[Path]
    write_baseline: bool
    output_format: Format
    output_file: Path | None
    more_reports: Sequence[str]
    statistics: bool
    resume: bool
    dask: str | None

    def can_write(self, form: Format) -> bool:
        """Return whether the other options allow the report in `form`."""
        if form is Format.JSONL:
            return not (self.statistics or self.more_reports or self.write_baseline)
        return form is Format.FULL or not self.statistics


def _run(request: _Request, configuration: Configuration, terminal: Terminal) -> ExitCode:
    """Check the wheels, and print and write the reports."""
    for name in configuration.settings.target:
        refuse_unknown(name)
    known = _baseline(configuration, write_baseline=request.write_baseline)
    files = parse_reports(request.more_reports)
    is_alone = request.dask is None and min(configuration.settings.jobs, len(request.wheels)) == 1
    with ExitStack() as stack:
        shows_read = is_alone and terminal.shows_progress
        read = stack.enter_context(shared_fraction()) if shows_read else None
        line = _ProgressLine(request.wheels, terminal, read)
        workers = stack.enter_context(_workers(request, configuration.settings, line.show))
        if request.output_format is Format.JSONL:
            progress = write_records(
                request.wheels,
                configuration,
                known,
                terminal,
                workers,
                output=request.output_file,
                resume=request.resume,
            )
            return _exit_code(unreadable=progress.unreadable > 0, failing=progress.failing > 0)
        # Workers of a cluster have other current directories.
        wheels = [wheel.absolute() if request.dask else wheel for wheel in request.wheels]
        report = _checked(wheels, configuration, known, terminal, workers, line)
    if request.write_baseline:
        report = _write_baseline(report, Path(configuration.settings.baseline or ""), terminal)
    _write_reports(report, request, files, configuration.settings, terminal)
    limit = lowest_failing(configuration.settings.fail_on)
    failing = limit is not None and report.fails(limit)
    return _exit_code(unreadable=bool(report.unreadable), failing=failing)


# --- Options --------------------------------------------------------------------------------------


def _listed(file: Path | None) -> list[Path]:
    """Return the paths that a list names; `-` is stdin."""
    if file is None:
        return []
    try:
        content = sys.stdin.buffer.read() if file == Path("-") else file.read_bytes()
    except OSError as error:
        raise SettingsError(f"cannot read the list `{file}`: {error.strerror}") from error
    names = content.split(b"\0") if b"\0" in content else content.splitlines()
    return [Path(os.fsdecode(name)) for name in names if name.strip()]


def _expanded(paths: Sequence[Path]) -> list[Path]:
    """Return the wheels, each once, and for a directory those in and below it."""
    found: dict[Path, None] = {}
    for path in paths:
        # os.path.isdir() is false for a path that is too long or may not be looked at.
        inside = options.wheels_below(path) if os.path.isdir(path) else [path]  # noqa: PTH112
        if not inside:
            raise SettingsError(f"there is no wheel in `{path}`", hint="build one, or name a file")
        found |= dict.fromkeys(inside)
    if not found:
        raise SettingsError("no wheel is named", hint="name wheels, directories, or --from-file")
    return list(found)


def _refuse_contradictions(request: _Request) -> None:
    """Raise `SettingsError` for options that exclude each other."""
    if request.statistics and request.output_format is not Format.FULL:
        raise SettingsError("--statistics is a format of its own: not with --output-format")
    writes_records = request.output_format is Format.JSONL
    if request.resume and not (writes_records and request.output_file):
        raise SettingsError(
            "--resume needs the file of records to continue",
            hint="--output-format jsonl --output-file FILE --resume",
        )
    if not request.can_write(request.output_format):
        raise SettingsError(
            "`--report` and `--write-baseline` need all wheels at once: not with jsonl",
            hint="use a separate run; `--report jsonl=FILE` works with the other formats",
        )


def _fail_on(context: typer.Context, *, fail_on: object, strict: bool, exit_zero: bool) -> object:
    """Return the severity that the flags agree on; without flags, that of the variables.

    It is None without both. Raises `SettingsError` for contradictions.
    """
    asked = {
        "fail_on": fail_on,
        "strict": FailOn.WARNING if strict else None,
        "exit_zero": FailOn.NEVER if exit_zero else None,
    }
    given = {name: value for name, value in asked.items() if value is not None}
    flags = {value for name, value in given.items() if not options.by_environment(context, name)}
    wanted = flags or set(given.values())
    if len(wanted) > 1:
        raise SettingsError(
            "--strict, --exit-zero and --fail-on contradict each other"
            if flags
            else "WHEELFIX_STRICT, WHEELFIX_EXIT_ZERO and WHEELFIX_FAIL_ON contradict each other",
            hint="give one of them",
        )
    return next(iter(wanted), None)


def _baseline(configuration: Configuration, *, write_baseline: bool) -> Baseline:
    file = configuration.settings.baseline
    if write_baseline and file is None:
        raise SettingsError(
            "--write-baseline needs a file to write to",
            hint="--baseline wheelfix-baseline.json, or `baseline` in [tool.wheelfix]",
        )
    return NO_BASELINE if file is None or write_baseline else baselines.read(Path(file))


# --- Work -----------------------------------------------------------------------------------------


MEMORY = 2 << 30
"""Bytes that one of several wheels may take: several times what the largest published ones do."""


def _workers(
    request: _Request, settings: Settings, tick: Callable[[], None]
) -> AbstractContextManager[Workers]:
    """Return the workers that check the wheels, so that a wheel that crashes one ends no run."""
    wheels = request.wheels
    if request.dask is not None:
        return dask_workers(request.dask, wheels[0].absolute())
    return WorkerProcesses(
        min(settings.jobs, len(wheels)),
        timeout=settings.timeout,
        memory=MEMORY if len(wheels) > 1 else None,
        tick=tick,
    )


def _checked(
    wheels: Sequence[Path],
    configuration: Configuration,
    known: Baseline,
    terminal: Terminal,
    workers: Workers,
    line: "_ProgressLine",
) -> SetReport:
    reports: list[Report] = []
    settings_for = configuration.settings_for
    line.go_on()
    for report in check_each(wheels, settings_for, known, workers, line.watch):
        if terminal.verbosity > 0:
            terminal.say(f"{printable(report.source.name)}: checked")
        reports.append(report)
        line.go_on()
    return check_set(reports, settings_for, known)


class _ProgressLine:
    """The line that shows which wheel is checked, and how much of it was read."""

    def __init__(
        self, wheels: Sequence[Path], terminal: Terminal, read: SharedFraction | None
    ) -> None:
        """`read` is written by the only worker; None with several, and where no line is shown."""
        self.watch = None if read is None else read.store
        self._read = read
        self._wheels = wheels
        self._sizes = tuple(map(_size, wheels))
        self._past = tuple(accumulate(self._sizes, initial=0))
        self._terminal = terminal
        self._done = -1

    def go_on(self) -> None:
        """Show the next wheel."""
        self._done += 1
        if self._read is not None:
            self._read.store(0)
        self.show()

    def show(self) -> None:
        """Show the line as it is now, once the check has begun."""
        if self._done >= 0:
            self._terminal.show_progress(self._text())

    def _text(self) -> str:
        """Return `2 of 5 wheels, 31 MB of 120 MB; reading 40% of 89 MB: x.whl`."""
        wheels, done = self._wheels, self._done
        if done == len(wheels):
            return f"checked {counted(done, 'wheel')}"
        size = in_units(self._sizes[done])
        fraction = 0.0 if self._read is None else self._read.load()
        stage = f"reading {fraction:.0%} of" if 0 < fraction < 1 else "checking"
        checking = f"{stage} {size}: {printable(wheels[done].name)}"
        if len(wheels) == 1:
            return checking
        past, total = in_units(self._past[done]), in_units(self._past[-1])
        return f"{done} of {counted(len(wheels), 'wheel')}, {past} of {total}; {checking}"


def _size(wheel: Path) -> int:
    """Return the size of a file; 0 if there is none, which its check reports."""
    try:
        return wheel.stat().st_size
    except OSError:
        return 0


def _write_baseline(checked: SetReport, file: Path, terminal: Terminal) -> SetReport:
    """Write all findings to the baseline, and return the report without them."""
    found = [
        ((finding.wheel or (report.source.name if report else "")).partition("-")[0], finding)
        for report, finding in checked.all_findings
    ]
    write_whole(file, baselines.text(found).encode())
    name = printable(str(file))
    terminal.say(f"{counted(len(found), 'finding')} written to `{name}`: they no longer count")
    return without_baselined(checked, baselines.read(file))


def _write_reports(
    report: SetReport,
    request: _Request,
    files: Sequence[tuple[Format, Path]],
    settings: Settings,
    terminal: Terminal,
) -> None:
    for unreadable in report.unreadable:
        if unreadable.error is not None:
            terminal.fail(unreadable.error)
    writer = ReportWriter(found=report, settings=settings, terminal=terminal)
    if request.statistics:
        writer.write_statistics(request.output_file)
    elif request.output_file is None:
        writer.show(request.output_format)
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
