"""The Python API: the commands as functions that return values, and the types of plug-ins.

`wheelfix` has the names in `__all__` too.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor
from pathlib import Path

from wheelfix.errors import WheelfixError
from wheelfix.host.setting_paths import below
from wheelfix.pipelines.check import check_set
from wheelfix.pipelines.check_many import SettingsFor, check_many, check_tasks
from wheelfix.pipelines.check_result import Report, SetReport
from wheelfix.pipelines.repair_many import repair_many
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.rules.findings import Finding, Fix, Hit, Safety, Severity
from wheelfix.rules.rule import Rule, rule
from wheelfix.rules.rule_plugin_view import WheelView
from wheelfix.settings import Settings
from wheelfix.system.workers import InExecutor, InProcess

__all__ = [  # noqa: RUF022 - functions, then results, then what rules are made of
    "check",
    "check_all",
    "check_each",
    "repair",
    "repair_all",
    "Settings",
    "Report",
    "SetReport",
    "Outcome",
    "Status",
    "Finding",
    "Severity",
    "WheelfixError",
    "rule",
    "Rule",
    "WheelView",
    "Hit",
    "Fix",
    "Safety",
]

DEFAULTS = Settings()


def check(path: str | os.PathLike[str], settings: Settings = DEFAULTS) -> Report:
    """Return what is wrong with the wheel at `path`; nothing is changed.

    Nothing is run, unless `settings` ask for neighbors that pip must fetch (`deps`, `neighbors`).
    A failure to read the wheel is not raised, but in `Report.error`. Raises `RuleError` for a
    plug-in that cannot be loaded. `[tool.wheelfix]` is not read.
    """
    (report,) = check_each([path], settings)
    return report


def check_each(
    paths: Iterable[str | os.PathLike[str]],
    settings: Settings = DEFAULTS,
    *,
    executor: Executor | None = None,
) -> Iterator[Report]:
    """Yield the report of each wheel, in their order, as soon as it and those before it are ready.

    With an `executor` they are checked there, several at a time, also in other processes or on
    other machines that have the wheels under the same paths and the same wheelfix. No wheel stops
    the others; `ToolError` is raised if the executor itself fails. `settings.timeout` is not
    applied: only the command has processes of its own to kill.
    """
    workers = InProcess() if executor is None else InExecutor(executor)
    tasks = check_tasks([Path(path) for path in paths], *_here(settings), os.environ)
    yield from check_many(tasks, workers=workers)


def check_all(
    paths: Iterable[str | os.PathLike[str]],
    settings: Settings = DEFAULTS,
    *,
    executor: Executor | None = None,
) -> SetReport:
    """Return what is wrong with each wheel, and with all of them together.

    `executor` is as in `check_each`.
    """
    reports = tuple(check_each(paths, settings, executor=executor))
    return check_set(reports, lambda _: settings)


def repair(
    path: str | os.PathLike[str],
    settings: Settings = DEFAULTS,
    *,
    environ: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> Outcome:
    """Write a wheel that works once installed to `settings.wheel_dir`.

    Failures are in `Outcome.error` and `Outcome.remaining`; raises `SettingsError` if `path` is not
    a file. `environ` has library paths and SOURCE_DATE_EPOCH; by default it is that of this
    process. With `dry_run` nothing is written.
    """
    (outcome,) = repair_all([path], settings, environ=environ, dry_run=dry_run)
    return outcome


def repair_all(
    paths: Iterable[str | os.PathLike[str]],
    settings: Settings = DEFAULTS,
    *,
    environ: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> list[Outcome]:
    """Write each wheel as `repair` does, `settings.jobs` wheels at a time.

    Wheels that others require are repaired first, and are providers for them. Raises
    `SettingsError`, before any is repaired, if a wheel is not a file, or if two have one name.
    """
    settings_for, folder = _here(settings)
    outcomes = repair_many(
        [Path(path) for path in paths],
        settings_for,
        os.environ if environ is None else environ,
        folder,
        jobs=settings.jobs,
        publish=not dry_run,
    )
    return list(outcomes)


def _here(settings: Settings) -> tuple[SettingsFor, Path]:
    """Return `settings` for every wheel, and the current directory, where their paths start."""
    folder = Path.cwd()
    located = below(folder, settings)
    return lambda _: located, folder
