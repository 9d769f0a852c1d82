"""Thousands of wheels, each looked at by itself: a record for each, that a later run can keep.

A task has all that a worker needs, also one on another machine: it holds no open file, and its
paths are absolute. What comes back is text, so that results weigh what they are printed with.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import cast

from wheelfix import __version__
from wheelfix.errors import BadElfError, BadWheelError, SettingsError
from wheelfix.pipelines.check import NO_BASELINE, check, check_in_time, unfinished_error
from wheelfix.pipelines.check_result import Report
from wheelfix.reports.jsonl import VERSION, record
from wheelfix.reports.render import RenderOptions, shown_path
from wheelfix.rules.baseline import Baseline
from wheelfix.rules.findings import Severity
from wheelfix.rules.plugins import all_rules
from wheelfix.settings import Settings
from wheelfix.system.crew import Crew
from wheelfix.system.spread import spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One wheel to look at."""

    wheel: Path
    settings: Settings
    baseline: Baseline
    options: RenderOptions
    made_from: str
    """What the record depends on; the same as long as it need not be made again."""

    @property
    def path(self) -> str:
        """The wheel as its record names it."""
        return shown_path(self.wheel, self.options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What was found in one wheel: the text, and what the run as a whole counts."""

    text: str
    worst: Severity | None = None
    """Of what counts."""
    is_judged: bool = True
    """Whether the wheel could be read."""


def tasks(
    wheels: Iterable[Path],
    settings_for: Callable[[str], Settings],
    options: RenderOptions,
    baseline: Baseline = NO_BASELINE,
) -> Iterator[Task]:
    """Yield the task for each wheel; relative paths count from `options.folder`."""
    folder = options.folder
    shared = _digest(repr((VERSION, options.version, sorted(baseline.findings), _rules())))
    seen: dict[str, tuple[Settings, str]] = {}
    for wheel in wheels:
        given = settings_for(wheel.name)
        if (key := repr(given)) not in seen:
            portable = _portable(given, folder)
            seen[key] = portable, _digest(shared + _decisive(portable))
        settings, decisive = seen[key]
        yield Task(
            wheel=folder / wheel,
            settings=settings,
            baseline=baseline,
            options=options,
            made_from=_digest(f"{_state(folder / wheel)}{decisive}"),
        )


def records(todo: Iterable[Task], crew: Crew | None = None) -> Iterator[Record]:
    """Yield the record of each task, in their order. Raises `ToolError` when all workers are gone.

    A wheel that takes its worker down costs its own record.
    """
    yield from spread(judged, todo, crew, _lost)


def judged(task: Task) -> Record:
    """Return what is wrong with the wheel of `task`: what a worker does.

    Raises `SettingsError` where the worker's wheelfix is another than that of the task.
    """
    if task.options.version != __version__:
        raise SettingsError(
            f"a worker has wheelfix {__version__}, and this is wheelfix {task.options.version}",
            hint=f"on every worker: `pip install wheelfix=={task.options.version}`",
        )
    return _recorded(check_in_time(check, task.wheel, task.settings, task.baseline), task)


def _lost(task: Task, error: Exception) -> Record:
    return _recorded(Report(source=task.wheel, error=unfinished_error(task.wheel, error)), task)


def _recorded(report: Report, task: Task) -> Record:
    lasts = report.error is None or isinstance(report.error, BadWheelError | BadElfError)
    return Record(
        text=record(report, task.options, task.made_from if lasts else ""),
        worst=max((finding.severity for finding in report.findings), default=None),
        is_judged=report.error is None,
    )


# --- What a record depends on ---------------------------------------------------------------------


def _portable(settings: Settings, folder: Path) -> Settings:
    """Return `settings` in which every file is named by an absolute path."""
    return replace(
        settings,
        library_path=tuple(str(folder / each) for each in settings.library_path),
        against=tuple(str(folder / each) for each in settings.against),
        provider=tuple(
            replace(each, source=str(folder / each.source))
            if each.source and (folder / each.source).exists()
            else each
            for each in settings.provider
        ),
    )


def _decisive(settings: Settings) -> str:
    """Return all of `settings` that a record depends on, and the state of the files they name."""
    rest = replace(
        settings,
        jobs=1,
        timeout=0,
        wheel_dir=Path(),
        fail_on=Settings().fail_on,
        baseline=None,
        verify=False,
    )
    providers = (each.source for each in settings.provider)
    named = (*settings.library_path, *settings.against, *providers)
    return repr((rest, [_state(Path(each)) for each in named]))


def _state(file: Path) -> tuple[int, int] | None:
    """Return the size and the time of the last change in nanoseconds; None if nothing is there."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _rules() -> Sequence[tuple[str, str]]:
    """Return the rules there are, plug-ins' too."""
    return [(rule.code, rule.plugin or "") for rule in all_rules()]


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]


# --- Records of an earlier run --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """A record that stands in a file."""

    path: str
    made_from: str
    record: Record


def earlier(line: str) -> Earlier:
    """Read a record. Raises `ValueError` for what is none of this version."""
    value: object = json.loads(line)
    table = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    path, made_from, findings = (table.get(key) for key in ("path", "made_from", "findings"))
    if (
        table.get("version") != VERSION
        or not isinstance(path, str)
        or not isinstance(made_from, str)
        or not isinstance(findings, list)
    ):
        raise ValueError("it is no record")
    found = cast("list[dict[str, str]]", findings)
    try:
        worst = max((Severity[each["severity"].upper()] for each in found), default=None)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("a finding of it is none") from error
    kept = Record(text=line, worst=worst, is_judged=table.get("error") is None)
    return Earlier(path=path, made_from=made_from, record=kept)
