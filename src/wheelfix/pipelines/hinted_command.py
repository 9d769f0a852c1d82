"""Commands of wheelfix in hints: between backticks, with the options and the wheel of the run."""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from wheelfix.providers.model import Provided
from wheelfix.rules.findings import Finding, Fix, Safety
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.text import operand
from wheelfix.wheel.model import WheelName
from wheelfix.wheel.platform_tags import has_local_tag

_REPAIR = "`wheelfix repair"
_REPLACED = {
    "--locked": ("--write-lock", 1),
    "--only-plat": ("--plat", 1),
    "--plat": ("--plat", 2),
    "--add-requires": ("--add-requires", 1),
}
"""Options with the one that stands for them in a hint, and the number of their words.

`--write-lock` compares nothing, and a hint that says a tag means that one.
"""
DONE = " fixes it: "
"""What stands between a command and what it does about a finding."""
_TAKES_WHEEL = lazy_pattern(r"`(wheelfix (?:repair|check|show|verify)\b[^`]*)`")
"""The commands whose hints do not say the wheel."""
_WITH_OPTIONS = lazy_pattern(f"{_REPAIR}([^`]*)")


def names_repair(text: str) -> bool:
    """Return whether a hint, or a part of one, has a `wheelfix repair`."""
    return _REPAIR in text


def with_wheel(hint: str, path: str) -> str:
    """Append the path of the wheel to the commands in `hint` that take one; none if it is empty."""
    quoted = shlex.quote(operand(path))
    return _TAKES_WHEEL.sub(lambda command: f"`{command[1]} {quoted}`", hint) if path else hint


def as_options(hint: str) -> str:
    """Return `hint` with the options of its `wheelfix repair` alone, which are no whole command."""
    return hint.replace(f"{_REPAIR} --", "a repair with `--")


def command_of(fix: Fix) -> str:
    """Return the command that makes a fix."""
    return "wheelfix repair" + " --unsafe-fixes" * (fix.safety is Safety.UNSAFE)


def done_by(fix: Fix) -> str:
    """Return the hint that a command makes a fix."""
    return f"`{command_of(fix)}`{DONE}{fix.title}"


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
    return replace(finding, hint=hint and with_words(hint, words))


def with_words(hint: str, words: Sequence[str]) -> str:
    """Return `hint` with `words` in each `wheelfix repair`, but those that it replaces."""

    def named(command: re.Match[str]) -> str:
        dropped: set[int] = set()
        for at, word in enumerate(words):
            other, number = _REPLACED.get(word, ("", 0))
            dropped |= {at + i for i in range(number) if f" {other} " in f"{command[1]} "}
        used = (shlex.quote(word) for at, word in enumerate(words) if at not in dropped)
        return " ".join((_REPAIR, *used)) + command[1]

    return _WITH_OPTIONS.sub(named, hint)
