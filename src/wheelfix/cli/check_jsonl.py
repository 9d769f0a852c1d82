"""`wheelfix check --output-format jsonl`: the run, its progress, and its output."""

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from wheelfix import __version__
from wheelfix.cli.check_records import Record, Task, records, tasks
from wheelfix.cli.check_reports import checkout
from wheelfix.cli.config.configuration import Configuration
from wheelfix.cli.console import Terminal
from wheelfix.cli.resume_file import ResumeFile, new_file, resumed_file
from wheelfix.reports.check_content import RenderOptions, lowest_failing
from wheelfix.rules.baseline import Baseline
from wheelfix.rules.findings import Severity
from wheelfix.rules.registry import SET_RULES
from wheelfix.system.workers import Workers

SKIPPED = f"cross-wheel rules ({', '.join(sorted(rule.code for rule in SET_RULES))}) were skipped"


@dataclass(slots=True, kw_only=True)
class Progress:
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
        parts = [f"{self.done:,} of {self.wheels:,} wheels"]
        parts += [f"{self.kept:,} of them kept"] if self.kept else []
        parts += [f"{self.failing:,} with {limit}s" + (" or worse" if limit != "error" else "")]
        parts += [f"{self.unreadable:,} unreadable"] if self.unreadable else []
        return ", ".join([*parts, f"{rate:.1f} per second"])


def write_records(
    wheels: Sequence[Path],
    configuration: Configuration,
    baseline: Baseline,
    terminal: Terminal,
    workers: Workers,
    *,
    output: Path | None,
    resume: bool,
) -> Progress:
    """Check `wheels`, write the record of each to `output` or stdout, and return the counts."""
    folder = Path.cwd()
    options = RenderOptions(version=__version__, folder=folder, root=checkout(os.environ, folder))
    todo = tasks(wheels, configuration.settings_for, options, baseline)
    limit = lowest_failing(configuration.settings.fail_on)
    progress = Progress(wheels=len(wheels), limit=limit)
    with _opened(output, todo, resume=resume) as (file, left):
        for kept in file.kept.values() if file else ():
            progress.add(kept)
        progress.kept = progress.done
        for record in records(left, workers):
            if file is None:
                terminal.result(record.text)
            else:
                file.write(record)
            progress.add(record)
            terminal.show_progress(progress.text)
    if len(wheels) > 1:
        terminal.say(f"{progress.text}; {SKIPPED}")
    return progress


@contextmanager
def _opened(
    output: Path | None, todo: Iterator[Task], *, resume: bool
) -> Generator[tuple[ResumeFile | None, Iterator[Task]]]:
    """Yield the file for the records, None for stdout, and the tasks left to do."""
    if output is None:
        yield None, todo
    elif not resume:
        with new_file(output) as file:
            yield file, todo
    else:
        by_path = {task.path: task for task in todo}
        wanted = {path: task.made_from for path, task in by_path.items()}
        with resumed_file(output, wanted) as file:
            yield file, (task for path, task in by_path.items() if path not in file.kept)
