"""`wheelfix check --output-format jsonl`: records of reports, written as they arrive."""

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from wheelfix import __version__
from wheelfix.cli.config.configuration import Configuration
from wheelfix.cli.console import Terminal
from wheelfix.cli.options import current_folder
from wheelfix.cli.report_writer import checkout
from wheelfix.cli.resume_file import ResumeFile, new_file, open_resume_file
from wheelfix.pipelines.check import CheckTask
from wheelfix.pipelines.check_digest import digest_of
from wheelfix.pipelines.check_many import check_many
from wheelfix.reports.check_content import RenderOptions, lowest_failing, shown_path
from wheelfix.reports.printable import Style
from wheelfix.reports.resumable_records import Record, record_of
from wheelfix.rules.baseline import Baseline
from wheelfix.rules.findings import Severity
from wheelfix.rules.plugins import all_rules
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
    kept: int = 0
    """How many of `done` were checked by an earlier run."""
    failing: int = 0
    unreadable: int = 0
    began: float = field(default_factory=monotonic)

    def add(self, record: Record) -> None:
        """Count one wheel."""
        self.done += 1
        self.unreadable += not record.is_judged
        if record.worst is not None and self.limit is not None:
            self.failing += record.worst >= self.limit

    @property
    def text(self) -> str:
        """`12 of 5,000 wheels, 3 with errors, 31.2 per second`."""
        rate = (self.done - self.kept) / max(monotonic() - self.began, 1e-6)
        limit = self.limit.label if self.limit is not None else "error"
        parts = [f"{self.done:,} of {count(self.wheels, 'wheel')}"]
        parts += [f"{self.kept:,} of them kept"] if self.kept else []
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
    resume: bool,
) -> JsonlProgress:
    """Check the wheels, write the record of each to `output` or stdout, and return the counts."""
    folder, rules = current_folder(), all_rules()
    options = RenderOptions(
        version=__version__,
        folder=folder,
        root=checkout(os.environ, folder),
        style=Style(documentation=documentation_site()),
    )
    by_path = {shown_path(task.wheel, options): task for task in tasks}
    digests = {path: digest_of(task, baseline, rules) for path, task in by_path.items()}
    limit = lowest_failing(configuration.settings.fail_on)
    progress = JsonlProgress(wheels=len(by_path), limit=limit)
    with _open_records(output, digests, resume=resume) as file:
        kept: Mapping[str, Record] = file.kept if file else {}
        for record in kept.values():
            progress.add(record)
        progress.kept = progress.done
        left = {path: task for path, task in by_path.items() if path not in kept}
        reports = check_many(left.values(), baseline, workers)
        for path, report in zip(left, reports, strict=True):
            record = record_of(report, digests[path], options)
            if file is None:
                terminal.result(record.text)
            else:
                file.write(record)
            progress.add(record)
            terminal.show_progress(progress.text)
    if len(by_path) > 1:
        terminal.say(f"{progress.text}; {SKIPPED}")
    return progress


def _open_records(
    output: Path | None, digests: Mapping[str, str], *, resume: bool
) -> AbstractContextManager[ResumeFile | None]:
    """Return the file for the records, None for stdout."""
    if output is None:
        return nullcontext()
    return open_resume_file(output, digests) if resume else new_file(output)
