"""`wheelfix check --output-format jsonl`: a record a wheel, as soon as it is ready."""

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from wheelfix import __version__
from wheelfix.cli.check_records import Record, Task, records, tasks
from wheelfix.cli.config.files import Configuration
from wheelfix.cli.console import Terminal
from wheelfix.cli.report_output import checkout
from wheelfix.cli.resume_file import Journal, begun, continued
from wheelfix.errors import ExitCode
from wheelfix.reports.render import RenderOptions
from wheelfix.rules.baseline import Baseline
from wheelfix.rules.findings import Severity
from wheelfix.settings import FailOn
from wheelfix.system.crew import Crew

BESIDE = "what shows only beside other wheels (WF85x, WF901) was not looked for"


@dataclass(slots=True, kw_only=True)
class Progress:
    """What a run has come to so far."""

    wheels: int
    """Of the whole run."""
    limit: Severity | None
    """From here on a finding fails the run."""
    done: int = 0
    kept: int = 0
    """How many of `done` an earlier run has left."""
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
    def code(self) -> ExitCode:
        """The exit code, as far as it is known."""
        if self.unreadable:
            return ExitCode.ERROR
        return ExitCode.FINDINGS if self.failing else ExitCode.OK

    @property
    def text(self) -> str:
        """`12 of 5,000 wheels, 3 with errors, 31.2 a second`."""
        rate = (self.done - self.kept) / max(monotonic() - self.began, 1e-6)
        limit = self.limit.label if self.limit is not None else "error"
        parts = [f"{self.done:,} of {self.wheels:,} wheels"]
        parts += [f"{self.kept:,} of them kept"] if self.kept else []
        parts += [f"{self.failing:,} with {limit}s" + (" or worse" if limit != "error" else "")]
        parts += [f"{self.unreadable:,} not judged"] if self.unreadable else []
        return ", ".join([*parts, f"{rate:.1f} a second"])


def streamed(
    wheels: Sequence[Path],
    configuration: Configuration,
    baseline: Baseline,
    terminal: Terminal,
    crew: Crew | None,
    *,
    output: Path | None,
    resume: bool,
) -> ExitCode:
    """Check `wheels`, write a record of each to `output` or stdout, and return the exit code."""
    folder = Path.cwd()
    options = RenderOptions(version=__version__, folder=folder, root=checkout(os.environ, folder))
    everything = tasks(wheels, configuration.settings_for, options, baseline)
    fail_on = configuration.settings.fail_on
    limit = None if fail_on is FailOn.NEVER else Severity[fail_on.upper()]
    tally = Progress(wheels=len(wheels), limit=limit)
    with _journal(output, everything, resume=resume) as (journal, todo):
        for kept in journal.kept.values() if journal else ():
            tally.add(kept)
        tally.kept = tally.done
        for record in records(todo, crew):
            if journal is None:
                terminal.result(record.text)
            else:
                journal.write(record)
            tally.add(record)
            terminal.counted(tally.text)
    if len(wheels) > 1:
        terminal.say(f"{tally.text}; {BESIDE}")
    return tally.code


@contextmanager
def _journal(
    output: Path | None, everything: Iterator[Task], *, resume: bool
) -> Generator[tuple[Journal | None, Iterator[Task]]]:
    """Yield where the records go, and what is left to do."""
    if output is None:
        yield None, everything
    elif not resume:
        with begun(output) as journal:
            yield journal, everything
    else:
        todo = {task.path: task for task in everything}
        wanted = {path: task.made_from for path, task in todo.items()}
        with continued(output, wanted) as journal:
            yield journal, _left(todo, journal.kept)


def _left(todo: Mapping[str, Task], kept: Mapping[str, Record]) -> Iterator[Task]:
    return (task for path, task in todo.items() if path not in kept)
