"""The repair of one wheel, as the command and the Python API do it."""

from collections.abc import Mapping
from pathlib import Path

from wheelfix.host.setting_paths import below
from wheelfix.pipelines.repair_many import repair_many
from wheelfix.pipelines.repair_plan import Progress, silent
from wheelfix.pipelines.repair_result import Outcome
from wheelfix.settings import Settings


def repair(  # noqa: PLR0913 - what `repair_many` takes for one wheel
    path: Path,
    settings: Settings,
    environ: Mapping[str, str],
    *,
    progress: Progress = silent,
    publish: bool = True,
    folder: Path | None = None,
) -> Outcome:
    """Repair the wheel at `path`; relative paths start at `folder`, or the current directory."""
    start = folder or Path.cwd()
    located = below(start, settings)
    (outcome,) = repair_many(
        [path],
        lambda _: located,
        environ,
        start,
        publish=publish,
        progress=lambda _: progress,
    )
    return outcome
