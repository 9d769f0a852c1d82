"""Check of several wheels in one run, each beside those that it requires.

The command line with all its formats and executors, and the Python API, use it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from wheelfix.errors import (
    WheelfixError,
    process_killed_error,
    time_limit_error,
    unexpected_error,
)
from wheelfix.host.library_search import library_paths
from wheelfix.host.provider_lookup import libraries_of_required_wheels, parts_in
from wheelfix.pipelines.check import NO_BASELINE, CheckTask, check
from wheelfix.pipelines.check_result import Report
from wheelfix.providers.requirements_between_wheels import required_wheels
from wheelfix.rules.baseline import Baseline
from wheelfix.rules.rule_plugins import load_rules
from wheelfix.settings import Settings
from wheelfix.system.workers import InProcess, WorkerDiedError, Workers, WorkerTimeoutError
from wheelfix.wheel.reader import ProgressWatch

WORKER_MEMORY = 2 << 30
"""Bytes that one of several wheels may take: several times what the largest published ones do."""

SettingsFor = Callable[[str], Settings]
"""The settings for the wheel of a file name, with absolute paths of what is read."""
IN_PROCESS = InProcess()


def check_tasks(
    wheels: Sequence[Path],
    settings_for: SettingsFor,
    folder: Path,
    environ: Mapping[str, str],
    words: Sequence[str] = (),
) -> tuple[CheckTask, ...]:
    """Return the task for each of `wheels`.

    `folder` is where their relative paths start, and those of library paths in `environ`, the
    user's variables; `words` are the flags of the run that a repair takes, too.
    """
    paths = library_paths(environ, folder)
    files = [folder / wheel for wheel in wheels]
    return tuple(
        CheckTask(
            wheel=wheel,
            settings=(settings := settings_for(wheel.name)),
            folder=folder,
            beside=libraries_of_required_wheels(required, files.__getitem__),
            environ={**environ, **paths} if settings.deps or settings.neighbors else paths,
            words=tuple(words),
        )
        for wheel, required in zip(wheels, required_wheels(parts_in(files)), strict=True)
    )


def check_many(
    tasks: Iterable[CheckTask],
    baseline: Baseline = NO_BASELINE,
    workers: Workers = IN_PROCESS,
    watch: ProgressWatch | None = None,
) -> Iterator[Report]:
    """Yield the report of each wheel, in their order.

    `watch` gets the fraction of each wheel that was read, in the process that checks it. A wheel
    does not stop the others, even if its check ends its worker process.
    """
    load_rules()  # once: workers that are forked have them, and reports list them
    work = partial(_check, baseline=baseline, watch=watch)
    for task, report in workers.map_in_order(work, tasks):
        yield _report_of_error(task, report) if isinstance(report, Exception) else report


def _check(task: CheckTask, baseline: Baseline, watch: ProgressWatch | None) -> Report:
    """Check one wheel in a worker, which gets this function by its name."""
    return check(task, baseline, watch)


def _report_of_error(task: CheckTask, error: Exception) -> Report:
    """Return the report of a wheel whose check ended with `error` (`Workers.map_in_order`)."""
    match error:
        case WorkerTimeoutError():
            late = time_limit_error(task.wheel.name, task.settings.timeout)
            return Report(source=task.wheel, error=late)
        case WorkerDiedError():
            what = f"`{task.wheel.name}`: the process that checked it ended abruptly"
            return Report(source=task.wheel, error=process_killed_error(what))
        case MemoryError():
            what = f"`{task.wheel.name}`: there is not enough memory to check it"
            hint = "check it by itself, on a machine with more memory"
            return Report(source=task.wheel, error=WheelfixError(what, hint=hint))
        case _:
            return Report(source=task.wheel, error=unexpected_error(error))
