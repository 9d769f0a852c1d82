"""`wheelfix check`."""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wheelfix.cli import options
from wheelfix.cli.verbosity import Verbose
from wheelfix.errors import ExitCode, SettingsError
from wheelfix.reports.formats import Format

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from wheelfix.cli.terminal import Terminal
    from wheelfix.config import Configuration
    from wheelfix.report import Report, SetReport
    from wheelfix.settings import FailOn


def check(
    context: typer.Context,
    wheels: options.Wheels,
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
    output_format: options.OutputFormat = Format.FULL,
    output_file: options.OutputFile = None,
    more_reports: options.MoreReports = None,
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
    report = _checked(_expanded(wheels), configuration, terminal, write_baseline)
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


def _expanded(paths: Sequence[Path]) -> list[Path]:
    """Return the wheels, those of a directory in its place, each once."""
    found: dict[Path, None] = {}
    for path in paths:
        inside = sorted(path.glob("*.whl")) if path.is_dir() else [path]
        if not inside:
            raise SettingsError(f"there is no wheel in `{path}`", hint="build one, or name a file")
        found |= dict.fromkeys(inside)
    return list(found)


# --- Work -----------------------------------------------------------------------------------------


def _checked(
    wheels: Sequence[Path],
    configuration: "Configuration",
    terminal: "Terminal",
    write_baseline: bool,
) -> "SetReport":
    from wheelfix import baseline as baselines
    from wheelfix.checking import NOTHING, check_each, check_set

    file = configuration.settings.baseline
    if write_baseline and file is None:
        raise SettingsError(
            "--write-baseline needs a file to write to",
            hint="--baseline wheelfix-baseline.json, or `baseline` in [tool.wheelfix]",
        )
    known = NOTHING if file is None or write_baseline else baselines.read(Path(file))
    with _executor(min(configuration.settings.jobs, len(wheels))) as executor:
        reports: list[Report] = []
        for wheel, report in zip(
            wheels, check_each(wheels, configuration.settings_for, known, executor), strict=True
        ):
            terminal.progress(wheel)("checked")
            reports.append(report)
    checked = check_set(reports, configuration.settings_for, known)
    if file is None or not write_baseline:
        return checked
    return _written_off(checked, Path(file), terminal)


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


@contextmanager
def _executor(jobs: int) -> "Generator[Executor | None]":
    if jobs <= 1:
        yield None
        return
    from concurrent.futures import ProcessPoolExecutor

    from wheelfix.cli.ending import leave_signals_to_the_parent

    with ProcessPoolExecutor(jobs, initializer=leave_signals_to_the_parent) as executor:
        try:
            yield executor
        except (KeyboardInterrupt, SystemExit):
            executor.shutdown(wait=False, cancel_futures=True)
            raise


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
