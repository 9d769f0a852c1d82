"""Records of `wheelfix check --output-format jsonl`: one line of JSON for each wheel.

A worker makes a record from a task, which has all that it needs, even on another machine.
`--resume` keeps the records of an earlier run whose wheel, settings and rules are unchanged.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from wheelfix import __version__
from wheelfix.errors import BadElfError, BadWheelError, SettingsError
from wheelfix.pipelines.check import NO_BASELINE, check, unfinished
from wheelfix.pipelines.check_result import Report
from wheelfix.reports.check_content import RenderOptions, digest, shown_path
from wheelfix.reports.check_json import VERSION, record
from wheelfix.rules.baseline import Baseline
from wheelfix.rules.findings import Severity
from wheelfix.rules.plugins import all_rules
from wheelfix.settings import SETTING_FIELDS, Settings
from wheelfix.system.workers import Workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One wheel to check."""

    wheel: Path
    settings: Settings
    baseline: Baseline
    options: RenderOptions
    made_from: str
    """Digest of everything the record depends on; a record with the same digest is still valid."""

    @property
    def path(self) -> str:
        """The path of the wheel in its record."""
        return shown_path(self.wheel, self.options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The findings of one wheel as text, and what the run needs of them."""

    text: str
    path: str
    made_from: str
    """As in `Task`."""
    worst: Severity | None = None
    """The worst severity of the findings that count."""
    is_judged: bool = True
    """Whether the wheel could be read."""


def tasks(
    wheels: Iterable[Path],
    settings_for: Callable[[str], Settings],
    options: RenderOptions,
    baseline: Baseline = NO_BASELINE,
) -> Iterator[Task]:
    """Yield the task for each wheel; relative paths are relative to `options.folder`."""
    rules = [(rule.code, rule.plugin or "") for rule in all_rules()]
    shared = digest(repr((VERSION, options.version, sorted(baseline.findings), rules)))
    for wheel in wheels:
        path = options.folder / wheel
        settings = _portable(settings_for(wheel.name), options.folder)
        yield Task(
            wheel=path,
            settings=settings,
            baseline=baseline,
            options=options,
            made_from=digest(repr((_state(path), shared, *_decisive(settings)))),
        )


def records(todo: Iterable[Task], workers: Workers) -> Iterator[Record]:
    """Yield the record of each task, in their order. Raises `ToolError` if all workers are gone.

    The record of a wheel that crashes its worker says so; the other records are not affected.
    """
    for task, made in workers.map_in_order(record_of, todo):
        if isinstance(made, Exception):
            yield _recorded(unfinished(task.wheel, task.settings, made), task)
        else:
            yield made


def record_of(task: Task) -> Record:
    """Check the wheel of `task`. Runs in a worker.

    Raises `SettingsError` if the worker has another version of wheelfix than the task.
    """
    if task.options.version != __version__:
        raise SettingsError(
            f"a worker has wheelfix {__version__}, and this is wheelfix {task.options.version}",
            hint=f"on every worker: `pip install wheelfix=={task.options.version}`",
        )
    return _recorded(check(task.wheel, task.settings, task.baseline), task)


def _recorded(report: Report, task: Task) -> Record:
    lasts = report.error is None or isinstance(report.error, BadWheelError | BadElfError)
    made_from = task.made_from if lasts else ""
    return Record(
        text=record(report, task.options, made_from),
        path=task.path,
        made_from=made_from,
        worst=max((finding.severity for finding in report.findings), default=None),
        is_judged=report.error is None,
    )


def _portable(settings: Settings, folder: Path) -> Settings:
    """Return `settings` with absolute paths of all files."""
    return replace(
        settings,
        library_path=tuple(str(folder / path) for path in settings.library_path),
        provider=tuple(
            replace(provider, source=str(folder / provider.source))
            if provider.source and (folder / provider.source).exists()
            else provider
            for provider in settings.provider
        ),
    )


def _decisive(settings: Settings) -> tuple[object, ...]:
    """Return the settings that a record depends on, with the state of the files they name."""
    rest = [
        getattr(settings, field.name)
        for field in SETTING_FIELDS
        if not field.setting.is_run_wide and field.name not in {"wheel_dir", "verify"}
    ]
    providers = (provider.source for provider in settings.provider)
    named = (*settings.library_path, *providers)
    return rest, [_state(Path(path)) for path in named]


def _state(file: Path) -> tuple[int, int] | None:
    """Return the size in bytes and the mtime in nanoseconds; None if there is no file."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def parse_record(line: str) -> Record:
    """Parse the text of a record. Raises `ValueError` for anything but one of this version."""
    value: object = json.loads(line)
    table = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    path, made_from, findings = (table.get(key) for key in ("path", "made_from", "findings"))
    if (
        table.get("version") != VERSION
        or not isinstance(path, str)
        or not isinstance(made_from, str)
        or not isinstance(findings, list)
    ):
        raise ValueError("not a record")
    found = cast("list[dict[str, str]]", findings)
    try:
        worst = max((Severity[finding["severity"].upper()] for finding in found), default=None)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("malformed finding") from error
    is_judged = table.get("error") is None
    return Record(text=line, path=path, made_from=made_from, worst=worst, is_judged=is_judged)
