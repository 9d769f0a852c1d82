"""The command `wheelfix repair` as hints print it: with the options of the run that prints it."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from wheelfix.pipelines.repair_result import Outcome
from wheelfix.providers.model import Provided
from wheelfix.rules.findings import Finding, Fix, Safety
from wheelfix.text import operand
from wheelfix.wheel.model import WheelName
from wheelfix.wheel.platform_tags import has_local_tag


def command_of(fix: Fix) -> str:
    """Return the command that makes a fix."""
    return "wheelfix repair" + " --unsafe-fixes" * (fix.safety is Safety.UNSAFE)


def done_by(fix: Fix) -> str:
    """Return the hint that a command makes a fix."""
    return f"`{command_of(fix)}` fixes it: {fix.title}"


def wheels_beside(beside: Iterable[Provided], folder: Path) -> Iterator[str]:
    """Yield the words that name the other wheels of the run, relative to `folder` where below it.

    A wheel of this build is repaired, too; a published one is only read.
    """
    for wheel in filter(None, (provided.wheel for provided in beside)):
        if not has_local_tag(WheelName.parse(Path(wheel).name).platforms):
            yield "--with"
        is_below = Path(wheel).is_relative_to(folder)
        yield operand(Path(wheel).relative_to(folder)) if is_below else wheel


def name_command(finding: Finding, words: Sequence[str]) -> Finding:
    """Return `finding` with a hint whose `wheelfix repair` has `words`, to be planned alike."""
    hint, fix = finding.hint, finding.fix
    if not words:
        return finding
    if hint is None and fix is not None:
        hint = done_by(fix)
    return replace(finding, hint=hint and _with_words(hint, words))


def name_commands(outcome: Outcome, words: Sequence[str]) -> Outcome:
    """Return the outcome of a repair with hints whose `wheelfix repair` has `words`, too."""
    error = outcome.error
    return replace(
        outcome,
        error=error and error.with_hint(error.hint and _with_words(error.hint, words)),
        remaining=tuple(name_command(finding, words) for finding in outcome.remaining),
    )


def _with_words(hint: str, words: Sequence[str]) -> str:
    return hint.replace("`wheelfix repair", f"`{shlex.join(('wheelfix', 'repair', *words))}")
