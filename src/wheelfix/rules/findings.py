"""Findings, fixes and planned edits, as data.

A rule yields hits; the engine turns them into findings; a finding may have a fix; a fix is a tuple
of edits.
"""

from collections.abc import Iterable, Sequence
from enum import IntEnum, StrEnum

from wheelfix.frozen import frozen
from wheelfix.named_tuple import NamedTuple
from wheelfix.rules.predictions import Prediction
from wheelfix.text import join_some
from wheelfix.wheel.edits import Edit, RemoveMember


class Severity(IntEnum):
    """Ordered severities. Errors make `check` fail, with `fail-on` warnings, too."""

    NOTE = 0
    WARNING = 1
    ERROR = 2

    @property
    def label(self) -> str:
        """The name in settings, texts and machine formats."""
        return self.name.lower()


class Safety(StrEnum):
    """Whether a fix is applied by default."""

    SAFE = "safe"
    """What loads before the fix loads the same file after it."""
    UNSAFE = "unsafe"
    """May change which file is loaded, or what the package ships; needs `--unsafe-fixes`."""


class Fix(NamedTuple):
    """The edits that remove the cause of a finding."""

    title: str
    edits: tuple[Edit, ...]
    """Empty if the graft makes the change: it writes the tags that auditwheel determines."""
    safety: Safety = Safety.SAFE
    effects: tuple[str, ...] = ()
    """What else it changes: a repair says so."""


@frozen
class Problem:
    """One problem of one wheel, in words."""

    message: str
    """What is wrong and what it means: lower case, no full stop, literals in backticks."""
    member: str | None = None
    entry: str | None = None
    """A part of the file or the settings: a search path entry, symbol, RECORD row, tag or provider.

    Baselines compare it.
    """
    notes: tuple[str, ...] = ()
    """Evidence: what was searched, in which install schemes, by which object."""
    several: str | None = None
    """The message on several entries of one cause, with `{}` for them; None if each is its own."""
    hint: str | None = None
    """What to do: a command where there is one."""
    fix: Fix | None = None
    wheel: str | None = None
    """The file name of the wheel, if the rule checks several wheels together."""
    targets: tuple[str, ...] = ()
    """The machines of `--target` that have the problem."""
    prediction: Prediction | None = None
    """In an environment: what imports show of the problem."""


@frozen
class Finding(Problem):
    """A problem as it is reported."""

    code: str
    """The rule's code, `WF101`."""
    name: str
    """The rule's name, `unreachable-library`."""
    severity: Severity


@frozen
class Hit(Problem):
    """A problem as a rule yields it; the engine adds the rule's code, name and severity."""

    severity: Severity | None = None
    """The severity of this case, if it differs from that of the rule."""


class PlannedEdit(NamedTuple):
    """One edit of the plan, with the rule that asks for it and the change in words."""

    edit: Edit
    code: str
    """The rule's code, or `graft` for changes that auditwheel determines."""
    name: str
    title: str
    member: str
    """The file that changes; WHEEL for the platform tags."""
    old: str
    new: str
    effects: tuple[str, ...] = ()
    """What else the fix changes."""


class SuppressionReason(StrEnum):
    """Why a finding is suppressed."""

    IGNORE = "ignore"
    """The rule is ignored."""
    PER_FILE = "per-file-ignores"
    """The rule is ignored for this member."""
    BASELINE = "baseline"
    """The finding is in the project's baseline."""


class Suppressed(NamedTuple):
    """A suppressed finding, and why."""

    finding: Finding
    because: SuppressionReason
    selector: str = ""
    """The entry of the settings that matches the rule: a code, a prefix of one, or a name."""
    glob: str = ""
    """For `PER_FILE`, the glob that matches the member."""
    reason: str = ""
    """The reason given in the project's settings, if any."""


def other_members(members: Sequence[str]) -> tuple[str, ...]:
    """Return a note on all members but the first, which the finding itself names."""
    return (f"also {join_some(members[1:])}",) if members[1:] else ()


def removal(members: Iterable[str], safety: Safety = Safety.UNSAFE) -> Fix:
    """Return the fix that removes `members` from the wheel."""
    return Fix(
        title="remove the files",
        edits=tuple(RemoveMember(member=member) for member in members),
        safety=safety,
    )
