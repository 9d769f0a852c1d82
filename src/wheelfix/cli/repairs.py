"""What `wheelfix repair` does with wheels and settings, whoever has read them."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from wheelfix.cli.config.files import Configuration
from wheelfix.cli.console import Terminal
from wheelfix.errors import ExitCode, SettingsError, WheelfixError, internal_error
from wheelfix.pipelines.auditwheel_worker import Auditwheel
from wheelfix.pipelines.repair import repair_with
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.pipelines.repair_set import repair_each
from wheelfix.reports import diff
from wheelfix.reports import terminal_text as text
from wheelfix.settings import Settings
from wheelfix.system.heap import spare

PATCHER = "patchelf"


def repair_wheels(
    wheels: Sequence[Path],
    configuration: Configuration,
    auditwheel: Auditwheel,
    *,
    verbosity: int = 0,
    as_plan: bool = False,
    as_diff: bool = False,
) -> ExitCode:
    """Repair `wheels`, say what comes of each, and return the exit code.

    Nothing is written where the plan or what would differ is all that was asked for.
    """
    spare(wheels)
    terminal = Terminal(verbosity=verbosity)
    if os.environ.get("AUDITWHEEL_PATCHER", PATCHER) != PATCHER:
        terminal.say("note: AUDITWHEEL_PATCHER is not used: wheelfix patches with patchelf")
    show = partial(_show, terminal=terminal, as_plan=as_plan, as_diff=as_diff)
    publish = not (as_plan or as_diff)
    return _shown(_repaired(wheels, configuration, terminal, auditwheel, publish=publish), show)


def _repaired(
    wheels: Sequence[Path],
    configuration: Configuration,
    terminal: Terminal,
    auditwheel: Auditwheel,
    *,
    publish: bool,
) -> Iterator[Outcome]:
    """Yield what becomes of each wheel, in their order."""

    def attempt(path: Path, settings: Settings, /, *, publish: bool) -> Outcome:
        return _attempt(auditwheel, path, settings, terminal.progress(path), publish=publish)

    jobs = configuration.settings.jobs
    return repair_each(wheels, configuration.settings_for, attempt, publish=publish, jobs=jobs)


def _attempt(
    auditwheel: Auditwheel,
    wheel: Path,
    settings: Settings,
    progress: Callable[[str], None],
    *,
    publish: bool,
) -> Outcome:
    """Repair one wheel; a bug that shows on it must not stop the others."""
    try:
        return repair_with(auditwheel, wheel, settings, progress=progress, publish=publish)
    except WheelfixError as error:
        return Outcome(source=wheel, status=Status.FAILED, error=error)
    except Exception as error:  # noqa: BLE001 - see above; it is reported, and the exit code is 2
        return Outcome(source=wheel, status=Status.FAILED, error=internal_error(error))


# --- Words ----------------------------------------------------------------------------------------


def _shown(outcomes: Iterator[Outcome], show: Callable[[Outcome], None]) -> ExitCode:
    """Show each outcome as it comes, and return the worst exit code of all."""
    worst = ExitCode.OK
    written: set[Path] = set()
    for outcome in outcomes:
        show(outcome)
        worst = max(worst, _exit_code(outcome))
        if outcome.output is not None and outcome.output in written:
            raise SettingsError(
                f"two of the wheels were both written to `{outcome.output}`",
                hint="repair them in two runs, each with a -w of its own",
            )
        written.update([outcome.output] if outcome.output else [])
    return worst


def _exit_code(outcome: Outcome) -> ExitCode:
    match outcome.status:
        case Status.REPAIRED | Status.UNCHANGED | Status.PLANNED:
            return ExitCode.OK
        case Status.REJECTED:
            return ExitCode.FINDINGS
        case Status.FAILED:
            return ExitCode.ERROR


def _show(outcome: Outcome, *, terminal: Terminal, as_plan: bool, as_diff: bool) -> None:
    terminal.show(outcome)
    if outcome.status is Status.FAILED:
        return
    if as_plan:
        terminal.result(text.plan(outcome, colour=terminal.colours_results))
    if as_diff:
        terminal.result(diff.diff(outcome, colour=terminal.colours_results))
    if outcome.output is not None:
        terminal.result(text.printable(str(outcome.output)))


# --- Refusals -------------------------------------------------------------------------------------


def refuse_wheels(wheels: Sequence[Path]) -> None:
    """Raise `SettingsError` for wheels that are not there, or would be written to one name."""
    for wheel in wheels:
        if wheel.is_file():
            continue
        if set("*?[").intersection(str(wheel)) and not wheel.exists():
            raise SettingsError(
                f"no file matches `{wheel}`",
                hint="the shell found nothing to put in its place; build the wheel first",
            )
        problem = "is not a file" if wheel.exists() else "does not exist"
        problem = "is a directory" if wheel.is_dir() else problem
        hint = f"name the wheels in it: {wheel}/*.whl" if wheel.is_dir() else None
        raise SettingsError(f"`{wheel}` {problem}", hint=hint)
    names = Counter(wheel.name for wheel in wheels)
    name, times = names.most_common(1)[0]
    if times > 1:
        raise SettingsError(
            f"{times} of the wheels are called `{name}`; they would be written to one file",
            hint="repair them in several runs, each with a -w of its own",
        )
