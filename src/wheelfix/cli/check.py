"""`wheelfix check`."""

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wheelfix.cli import options
from wheelfix.cli.verbosity import Verbose
from wheelfix.errors import ExitCode, SettingsError
from wheelfix.heap import spare
from wheelfix.reports.formats import Format

if TYPE_CHECKING:
    from wheelfix.baseline import Baseline
    from wheelfix.cli.terminal import Terminal
    from wheelfix.config import Configuration
    from wheelfix.crew import Crew
    from wheelfix.report import Report, SetReport
    from wheelfix.settings import FailOn, Settings


def check(
    context: typer.Context,
    wheels: options.WheelsOrList = None,
    from_file: options.FromFile = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Fail on warnings too: --fail-on warning.", envvar="WHEELFIX_STRICT"
        ),
    ] = False,
    exit_zero: Annotated[
        bool,
        typer.Option(
            "--exit-zero",
            help="Report, and exit with 0: --fail-on never.",
            envvar="WHEELFIX_EXIT_ZERO",
        ),
    ] = False,
    fail_on: options.FailOnChoice = None,
    select: options.Select = None,
    extend_select: options.ExtendSelect = None,
    ignore: options.Ignore = None,
    per_file_ignores: options.PerFileIgnores = None,
    severity: options.SeverityOf = None,
    baseline: options.BaselineFile = None,
    write_baseline: Annotated[
        bool,
        typer.Option(
            "--write-baseline",
            help="Write what is found to the baseline file: from then on it does not count.",
        ),
    ] = False,
    exclude: options.Exclude = None,
    keep_entries: options.KeepEntries = None,
    keep_names: options.KeepNames = None,
    provider: options.ProviderOf = None,
    require: options.Require = None,
    prune_needed: options.PruneNeededChoice = None,
    keep_needed: options.KeepNeeded = None,
    drop_needed: options.DropNeeded = None,
    library_path: options.LibraryPath = None,
    max_size: options.MaxSize = None,
    max_file_size: options.MaxFileSize = None,
    max_growth: options.MaxGrowth = None,
    against: options.Against = None,
    target: options.Targets = None,
    jobs: options.Jobs = None,
    timeout: options.Timeout = None,
    output_format: options.OutputFormat = Format.FULL,
    output_file: options.OutputFile = None,
    more_reports: options.MoreReports = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="With jsonl, continue --output-file: records that still hold are kept.",
        ),
    ] = False,
    dask: Annotated[
        str | None,
        typer.Option(
            "--dask",
            metavar="ADDRESS",
            envvar="WHEELFIX_DASK",
            help="Work on the Dask cluster whose scheduler is there, in place of --jobs.",
            show_default=False,
        ),
    ] = None,
    config: options.Config = None,
    verbose: Verbose = 0,
    quiet: options.Quiet = False,
) -> None:
    """Say what is wrong with wheels as they stand, and change nothing.

    Needs nothing but the wheel: no compiler, no patchelf, no auditwheel, whatever its platform.
    """
    given = locals()
    if strict or exit_zero:
        given["fail_on"] = _fail_on(fail_on, strict=strict, exit_zero=exit_zero)
    from wheelfix.cli.reporting import Delivery, asked
    from wheelfix.cli.terminal import Terminal
    from wheelfix.plugins import all_rules

    files = asked(more_reports or [])
    terminal = Terminal(verbosity=-1 if quiet else verbose + int(context.obj or 0))
    configuration = options.configuration_of(context, given, config, all_rules())
    known = _baseline(configuration, write_baseline=write_baseline)
    found = _expanded([*(wheels or []), *_listed(from_file)])
    spare(found)
    streams = output_format is Format.JSONL
    _refuse(streams, output_file, more_reports, resume=resume, write_baseline=write_baseline)
    with _crew(found, configuration.settings, dask, streams=streams) as crew:
        if streams:
            from wheelfix.cli.stream import streamed

            raise typer.Exit(
                streamed(
                    found, configuration, known, terminal, crew, output=output_file, resume=resume
                )
            )
        report = _checked(found, configuration, known, terminal, crew)
    if write_baseline:
        report = _written_off(report, Path(configuration.settings.baseline or ""), terminal)
    for unreadable in report.unreadable:
        if unreadable.error is not None:
            terminal.fail(unreadable.error)
    delivery = Delivery(found=report, settings=configuration.settings, terminal=terminal)
    if output_file is not None:
        files = [(output_format, output_file), *files]
    elif not quiet or any(report.all_findings) or output_format is not Format.FULL:
        delivery.show(output_format)
    for form, file in files:
        delivery.write(form, file)
    delivery.summarise(os.environ)
    raise typer.Exit(_exit_code(report, configuration))


# --- Which wheels ---------------------------------------------------------------------------------


def _listed(file: Path | None) -> list[Path]:
    """Return what a list names; of stdin if it is `-`."""
    if file is None:
        return []
    try:
        content = sys.stdin.buffer.read() if file == Path("-") else file.read_bytes()
    except OSError as error:
        raise SettingsError(f"cannot read the list `{file}`: {error.strerror}") from error
    names = content.split(b"\0") if b"\0" in content else content.splitlines()
    return [Path(os.fsdecode(name)) for name in names if name.strip()]


def _expanded(paths: Sequence[Path]) -> list[Path]:
    """Return the wheels, those in and below a directory in its place, each once."""
    found: dict[Path, None] = {}
    for path in paths:
        inside = sorted(path.rglob("*.whl")) if path.is_dir() else [path]
        if not inside:
            raise SettingsError(f"there is no wheel in `{path}`", hint="build one, or name a file")
        found |= dict.fromkeys(inside)
    if not found:
        raise SettingsError("no wheel is named", hint="name wheels, directories, or --from-file")
    return list(found)


def _refuse(
    streams: bool,
    output_file: Path | None,
    more_reports: Sequence[str] | None,
    *,
    resume: bool,
    write_baseline: bool,
) -> None:
    """Raise `SettingsError` for what does not go together."""
    if resume and not (streams and output_file):
        raise SettingsError(
            "--resume continues a file of records, and none is named",
            hint="--output-format jsonl --output-file FILE --resume",
        )
    if streams and (more_reports or write_baseline):
        raise SettingsError(
            "jsonl keeps no report: `--report` and `--write-baseline` need all wheels at once",
            hint="make them by a run of their own; `--report jsonl=FILE` goes with other formats",
        )


# --- Work -----------------------------------------------------------------------------------------


def _baseline(configuration: "Configuration", *, write_baseline: bool) -> "Baseline":
    from wheelfix import baseline as baselines
    from wheelfix.checking import NOTHING

    file = configuration.settings.baseline
    if write_baseline and file is None:
        raise SettingsError(
            "--write-baseline needs a file to write to",
            hint="--baseline wheelfix-baseline.json, or `baseline` in [tool.wheelfix]",
        )
    return NOTHING if file is None or write_baseline else baselines.read(Path(file))


def _checked(
    wheels: Sequence[Path],
    configuration: "Configuration",
    known: "Baseline",
    terminal: "Terminal",
    crew: "Crew | None",
) -> "SetReport":
    from wheelfix.checking import check_each, check_set

    reports: list[Report] = []
    settings_for = configuration.settings_for
    for report in check_each(wheels, settings_for, known, crew):
        terminal.progress(report.source)("checked")
        reports.append(report)
    return check_set(reports, settings_for, known)


@contextmanager
def _crew(
    wheels: Sequence[Path], settings: "Settings", dask: str | None, *, streams: bool
) -> "Generator[Crew | None]":
    """Yield who does the work: nobody but this process, where that is enough.

    A long run is not made in this process: a wheel that takes its process down is then no end.
    """
    if dask is not None:
        from wheelfix.cli.cluster import dask_workers

        with dask_workers(dask, wheels[0].absolute(), settings.timeout) as crew:
            yield crew
    elif len(wheels) > 1 and (streams or settings.jobs > 1):
        from wheelfix.cli.workers import processes

        with processes(min(settings.jobs, len(wheels)), settings.timeout) as crew:
            yield crew
    else:
        yield None


def _written_off(checked: "SetReport", file: Path, terminal: "Terminal") -> "SetReport":
    """Write all that counts to the baseline, and return what is left of the report: nothing."""
    from wheelfix import baseline as baselines
    from wheelfix.checking import without
    from wheelfix.reports.text import counted

    found = [
        ((finding.wheel or (report.source.name if report else "")).partition("-")[0], finding)
        for report, finding in checked.all_findings
    ]
    baselines.write(file, baselines.text(found))
    terminal.say(f"{counted(len(found), 'finding')} written to `{file}`: they no longer count")
    return without(checked, baselines.read(file))


# --- Words ----------------------------------------------------------------------------------------


def _fail_on(given: "FailOn | None", *, strict: bool, exit_zero: bool) -> "FailOn":
    from wheelfix.settings import FailOn

    asked = [given] if given is not None else []
    asked += [FailOn.WARNING] if strict else []
    asked += [FailOn.NEVER] if exit_zero else []
    if len(set(asked)) > 1:
        raise SettingsError(
            "--strict, --exit-zero and --fail-on contradict each other", hint="give one of them"
        )
    return asked[0]


def _exit_code(checked: "SetReport", configuration: "Configuration") -> ExitCode:
    from wheelfix.findings import Severity
    from wheelfix.settings import FailOn

    if checked.unreadable:
        return ExitCode.ERROR
    limit = configuration.settings.fail_on
    failing = limit is not FailOn.NEVER and checked.fails(Severity[limit.upper()])
    return ExitCode.FINDINGS if failing else ExitCode.OK
