"""What Python programs call: the same as the commands, with values in place of text."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from wheelfix import checking, repairing
from wheelfix.outcome import Outcome
from wheelfix.report import Report, SetReport
from wheelfix.settings import Settings
from wheelfix.together import repair_each
from wheelfix.tools.standby import Standby

DEFAULTS = Settings()


def check(path: str | os.PathLike[str], settings: Settings = DEFAULTS) -> Report:
    """Return what is wrong with the wheel at `path`; nothing is changed, or run.

    What keeps the wheel from being judged is in `Report.error`; nothing is raised for it. Raises
    `RuleError` for a plug-in that cannot be loaded. `[tool.wheelfix]` is not read.
    """
    return checking.check(Path(path), settings)


def check_all(paths: Iterable[str | os.PathLike[str]], settings: Settings = DEFAULTS) -> SetReport:
    """Return what is wrong with each wheel, and with all of them side by side."""
    reports = list(checking.check_each([Path(path) for path in paths], lambda _: settings))
    return checking.check_set(reports, lambda _: settings)


def repair(
    path: str | os.PathLike[str],
    settings: Settings = DEFAULTS,
    *,
    environ: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> Outcome:
    """Write a wheel that works once installed to `settings.wheel_dir`.

    What went wrong is in `Outcome.error` and `Outcome.remaining`; nothing is raised for it.
    `environ` is what auditwheel gets, and the place of SOURCE_DATE_EPOCH; it is this process's
    own by default. With `dry_run` nothing is written.
    """
    where = os.environ if environ is None else environ
    return repairing.repair(Path(path), settings, where, publish=not dry_run)


def repair_all(
    paths: Iterable[str | os.PathLike[str]],
    settings: Settings = DEFAULTS,
    *,
    environ: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> list[Outcome]:
    """Write each wheel as `repair` does; those of one product share libraries.

    What a wheel requires of the others is repaired first. `settings.jobs` work side by side.
    """
    where = os.environ if environ is None else environ

    files = [Path(path) for path in paths]
    with Standby(where) as standby:

        def attempt(path: Path, chosen: Settings, /, *, publish: bool) -> Outcome:
            return repairing.repair_with(standby, path, chosen, publish=publish)

        return list(
            repair_each(files, lambda _: settings, attempt, publish=not dry_run, jobs=settings.jobs)
        )
