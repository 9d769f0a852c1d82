"""`wheelfix check --output-format jsonl`: records of reports, written as they arrive."""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TextIO

from wheelfix import __version__
from wheelfix.cli.check_report_writer import checkout
from wheelfix.cli.config.configuration import Configuration
from wheelfix.cli.console import Terminal
from wheelfix.cli.options import current_folder
from wheelfix.cli.output_files import Kind, open_file
from wheelfix.errors import OutputError
from wheelfix.pipelines.check import CheckTask
from wheelfix.pipelines.check_many import check_many
from wheelfix.pipelines.check_result import Report
from wheelfix.reports.check_content import RenderOptions, lowest_failing, shown_path
from wheelfix.reports.check_json import record
from wheelfix.reports.printable import Style
from wheelfix.rules.baseline import Baseline
from wheelfix.rules.findings import Severity
from wheelfix.rules.registry import SET_RULES
from wheelfix.system.wheelfix_metadata import documentation_site
from wheelfix.system.workers import Workers
from wheelfix.text import count

SKIPPED = f"cross-wheel rules ({', '.join(sorted(rule.code for rule in SET_RULES))}) were skipped"


@dataclass(slots=True, kw_only=True)
class JsonlProgress:
    """The counts of a run so far."""

    wheels: int
    """Of the whole run."""
    limit: Severity | None
    """The lowest severity that fails the run; None if none does."""
    done: int = 0
    failing: int = 0
    unreadable: int = 0
    began: float = field(default_factory=monotonic)

    def add(self, report: Report) -> None:
        """Count one wheel."""
        self.done += 1
        self.unreadable += report.error is not None
        worst = max((finding.severity for finding in report.findings), default=None)
        if worst is not None and self.limit is not None:
            self.failing += worst >= self.limit

    @property
    def text(self) -> str:
        """`12 of 5,000 wheels, 3 with errors, 31.2 per second`."""
        rate = self.done / max(monotonic() - self.began, 1e-6)
        limit = self.limit.label if self.limit is not None else "error"
        parts = [f"{self.done:,} of {count(self.wheels, 'wheel')}"]
        parts += [f"{self.failing:,} with {limit}s" + (" or worse" if limit != "error" else "")]
        parts += [f"{self.unreadable:,} unreadable"] if self.unreadable else []
        return ", ".join([*parts, f"{rate:.1f} per second"])


def write_records(
    tasks: Sequence[CheckTask],
    configuration: Configuration,
    baseline: Baseline,
    terminal: Terminal,
    workers: Workers,
    *,
    output: Path | None,
    inputs: Sequence[Path],
) -> JsonlProgress:
    """Check the wheels, write the record of each to `output` or stdout, and return the counts."""
    folder = current_folder()
    options = RenderOptions(
        version=__version__,
        folder=folder,
        root=checkout(os.environ, folder),
        style=Style(documentation=documentation_site()),
    )
    by_path = {shown_path(task.wheel, options): task for task in tasks}
    limit = lowest_failing(configuration.settings.fail_on)
    progress = JsonlProgress(wheels=len(by_path), limit=limit)
    file: AbstractContextManager[TextIO | None] = (
        open_file(output, Kind.RECORDS, inputs) if output else nullcontext()
    )
    with file as stream:
        for report in check_many(by_path.values(), baseline, workers):
            text = record(report, options)
            if output is None or stream is None:
                terminal.result(text)
            else:
                _write(stream, text, output)
            progress.add(report)
            terminal.show_progress(progress.text)
    if len(by_path) > 1:
        terminal.say(f"{progress.text}; {SKIPPED}")
    return progress


def _write(stream: TextIO, text: str, file: Path) -> None:
    """Write a record; it may be truncated if the process is killed. Raises `OutputError`."""
    try:
        stream.write(f"{text}\n")
        stream.flush()
    except OSError as error:
        raise OutputError(
            f"cannot write to `{file}`: {error.strerror}", hint="choose another file"
        ) from error
