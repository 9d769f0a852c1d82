"""What `check` does once its options are read; typer takes longer to import than all of it."""

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from wheelfix.cli.cluster import dask_workers
from wheelfix.cli.config.files import Configuration
from wheelfix.cli.console import Terminal
from wheelfix.cli.process_pool import processes
from wheelfix.cli.report_output import ReportWriter, reports_in
from wheelfix.errors import ExitCode, SettingsError
from wheelfix.pipelines.check import NO_BASELINE, check_each, check_set, without_baselined
from wheelfix.pipelines.check_result import Report, SetReport
from wheelfix.reports.formats import Format
from wheelfix.reports.terminal_text import counted
from wheelfix.rules import baseline as baselines
from wheelfix.rules.baseline import Baseline
from wheelfix.rules.findings import Severity
from wheelfix.settings import FailOn, Settings
from wheelfix.system.crew import Crew
from wheelfix.system.heap import spare


class Asked(NamedTuple):
    """What the options say that are no settings."""

    wheels: Sequence[Path]
    from_file: Path | None = None
    write_baseline: bool = False
    output_format: Format = Format.FULL
    output_file: Path | None = None
    more_reports: Sequence[str] = ()
    resume: bool = False
    dask: str | None = None
    verbosity: int = 0
    quiet: bool = False

    @property
    def streams(self) -> bool:
        """Whether each wheel has its record as soon as it is ready."""
        return self.output_format is Format.JSONL


def check_wheels(asked: Asked, configuration: Configuration) -> ExitCode:
    """Check the wheels, and print and write what is wrong with them."""
    files = reports_in(asked.more_reports)
    terminal = Terminal(verbosity=-1 if asked.quiet else asked.verbosity)
    known = _baseline(configuration, write_baseline=asked.write_baseline)
    wheels = _expanded([*asked.wheels, *_listed(asked.from_file)])
    spare(wheels)
    _refuse(asked)
    with _crew(wheels, configuration.settings, asked.dask, streams=asked.streams) as crew:
        if asked.streams:
            from wheelfix.cli.check_jsonl import streamed

            file, resume = asked.output_file, asked.resume
            return streamed(
                wheels, configuration, known, terminal, crew, output=file, resume=resume
            )
        report = _checked(wheels, configuration, known, terminal, crew)
    if asked.write_baseline:
        report = _written_off(report, Path(configuration.settings.baseline or ""), terminal)
    for unreadable in report.unreadable:
        if unreadable.error is not None:
            terminal.fail(unreadable.error)
    delivery = ReportWriter(found=report, settings=configuration.settings, terminal=terminal)
    if asked.output_file is not None:
        files = [(asked.output_format, asked.output_file), *files]
    elif not asked.quiet or any(report.all_findings) or asked.output_format is not Format.FULL:
        delivery.show(asked.output_format)
    for form, file in files:
        delivery.write(form, file)
    delivery.summarise(os.environ)
    return _exit_code(report, configuration)


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


def _refuse(asked: Asked) -> None:
    """Raise `SettingsError` for what does not go together."""
    if asked.resume and not (asked.streams and asked.output_file):
        raise SettingsError(
            "--resume continues a file of records, and none is named",
            hint="--output-format jsonl --output-file FILE --resume",
        )
    if asked.streams and (asked.more_reports or asked.write_baseline):
        raise SettingsError(
            "jsonl keeps no report: `--report` and `--write-baseline` need all wheels at once",
            hint="make them by a run of their own; `--report jsonl=FILE` goes with other formats",
        )


# --- Work -----------------------------------------------------------------------------------------


def _baseline(configuration: Configuration, *, write_baseline: bool) -> Baseline:
    file = configuration.settings.baseline
    if write_baseline and file is None:
        raise SettingsError(
            "--write-baseline needs a file to write to",
            hint="--baseline wheelfix-baseline.json, or `baseline` in [tool.wheelfix]",
        )
    return NO_BASELINE if file is None or write_baseline else baselines.read(Path(file))


def _checked(
    wheels: Sequence[Path],
    configuration: Configuration,
    known: Baseline,
    terminal: Terminal,
    crew: Crew | None,
) -> SetReport:
    reports: list[Report] = []
    settings_for = configuration.settings_for
    for report in check_each(wheels, settings_for, known, crew):
        terminal.progress(report.source)("checked")
        reports.append(report)
    return check_set(reports, settings_for, known)


@contextmanager
def _crew(
    wheels: Sequence[Path], settings: Settings, dask: str | None, *, streams: bool
) -> Generator[Crew | None]:
    """Yield who does the work: nobody but this process, where that is enough.

    A long run is not made in this process: a wheel that takes its process down is then no end.
    """
    if dask is not None:
        with dask_workers(dask, wheels[0].absolute(), settings.timeout) as crew:
            yield crew
    elif len(wheels) > 1 and (streams or settings.jobs > 1):
        with processes(min(settings.jobs, len(wheels)), settings.timeout) as crew:
            yield crew
    else:
        yield None


def _written_off(checked: SetReport, file: Path, terminal: Terminal) -> SetReport:
    """Write all that counts to the baseline, and return what is left of the report: nothing."""
    found = [
        ((finding.wheel or (report.source.name if report else "")).partition("-")[0], finding)
        for report, finding in checked.all_findings
    ]
    baselines.write(file, baselines.text(found))
    terminal.say(f"{counted(len(found), 'finding')} written to `{file}`: they no longer count")
    return without_baselined(checked, baselines.read(file))


# --- Words ----------------------------------------------------------------------------------------


def _exit_code(checked: SetReport, configuration: Configuration) -> ExitCode:
    if checked.unreadable:
        return ExitCode.ERROR
    limit = configuration.settings.fail_on
    failing = limit is not FailOn.NEVER and checked.fails(Severity[limit.upper()])
    return ExitCode.FINDINGS if failing else ExitCode.OK
