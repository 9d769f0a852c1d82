"""Digests of all that the report of a wheel depends on, by which a later run knows it again."""

import hashlib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from wheelfix import __version__
from wheelfix.host.library_search import LIBRARY_PATHS
from wheelfix.pipelines.check import CheckTask
from wheelfix.rules.baseline import Baseline
from wheelfix.rules.rule import AnyRule
from wheelfix.settings import SETTING_FIELDS, Paths, Settings


def digest_of(task: CheckTask, baseline: Baseline, rules: Iterable[AnyRule]) -> str:
    """Return the digest of a task: 128 bits in hexadecimal.

    Files count by size and time of modification, programs by their version.
    """
    settings = task.settings
    named: tuple[str | Path, ...] = (
        task.folder / task.wheel,
        *settings.library_path,
        *(provider.source for provider in settings.provider),
        *settings.neighbors,
        *([settings.site] if settings.site else []),
        *(provided.wheel for provided in task.beside),
    )
    parts = (
        __version__,
        metadata.version("auditwheel"),
        sorted(baseline.findings),
        [(rule.code, rule.plugin or "") for rule in rules],
        _decisive(settings),
        [_state(Path(path)) for path in named],
        task.beside,
        [(name, task.environ.get(name)) for name in LIBRARY_PATHS],
        task.words,
        _decisive(task.repair or settings),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _decisive(settings: Settings) -> list[object]:
    """Return the settings that a report depends on."""
    return [
        getattr(settings, field.name)
        for field in SETTING_FIELDS
        if not field.setting.is_run_wide and field.setting.paths is not Paths.OUTPUT
    ]


def _state(file: Path) -> tuple[int, int] | None:
    """Return the size in bytes and the mtime in nanoseconds; None if there is no file."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
