"""The Python API: the commands as functions that return values, and the types of plug-ins.

`wheelfix` has the names in `__all__` too.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor
from pathlib import Path

from wheelfix.errors import WheelfixError
from wheelfix.pipelines import check as checking
from wheelfix.pipelines import repair as repairing
from wheelfix.pipelines.auditwheel_analysis import Auditwheel
from wheelfix.pipelines.check_result import Report, SetReport
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.pipelines.repair_set import repair_each
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Finding, Fix, Hit, Safety, Severity
from wheelfix.rules.rule import Rule, rule
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
    "Context",
    "Hit",
    "Fix",
    "Safety",
]

DEFAULTS = Settings()


def check(path: str | os.PathLike[str], settings: Settings = DEFAULTS) -> Report:
    """Return what is wrong with the wheel at `path`; nothing is changed or run.

    A failure to read the wheel is not raised, but in `Report.error`. Raises `RuleError` for a
    plug-in that cannot be loaded. `[tool.wheelfix]` is not read.
    """
    return checking.check(Path(path), settings)


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
    wheels = [Path(path) for path in paths]
    yield from checking.check_each(wheels, lambda _: settings, workers=workers)


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
    return checking.check_set(reports, lambda _: settings)


def repair(
    path: str | os.PathLike[str],
    settings: Settings = DEFAULTS,
    *,
    environ: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> Outcome:
    """Write a wheel that works once installed to `settings.wheel_dir`.

    Failures are not raised, but in `Outcome.error` and `Outcome.remaining`. `environ` is the
    environment for auditwheel, with SOURCE_DATE_EPOCH; by default it is that of this process.
    With `dry_run` nothing is written.
    """
    where = _own_environment() if environ is None else environ
    return repairing.repair(Path(path), settings, where, publish=not dry_run)


def _own_environment() -> dict[str, str]:
    """Return the environment of this process; its PWD may be that of the process before it."""
    return {**os.environ, "PWD": str(Path.cwd())}


def repair_all(
    paths: Iterable[str | os.PathLike[str]],
    settings: Settings = DEFAULTS,
    *,
    environ: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> list[Outcome]:
    """Write each wheel as `repair` does; those of one product share libraries.

    Wheels that others require are repaired first, and `settings.jobs` wheels at a time.
    """
    where = _own_environment() if environ is None else environ
    files = [Path(path) for path in paths]
    with Auditwheel(where, min(settings.jobs, len(files))) as auditwheel:

        def attempt(path: Path, chosen: Settings, /, *, publish: bool) -> Outcome:
            return repairing.repair_with(auditwheel, path, chosen, publish=publish)

        return list(
            repair_each(files, lambda _: settings, attempt, publish=not dry_run, jobs=settings.jobs)
        )
