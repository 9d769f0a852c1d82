"""The vocabulary of the rules: what is wrong, and the edits that would mend it, as data.

A rule yields hits; the engine makes findings of them; a finding may carry a fix; a fix is a tuple
of edits. Nothing here acts.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple

from wheelfix.wheel.edits import Edit


class Severity(IntEnum):
    """How bad a finding is, comparable; errors make `check` fail, with `--strict` warnings too."""

    INFO = 0
    WARNING = 1
    ERROR = 2

    @property
    def label(self) -> str:
        """The word for messages."""
        return self.name.lower()


class Safety(StrEnum):
    """Whether a fix is applied without being asked for."""

    SAFE = "safe"
    """What loads today loads the same file afterwards."""
    UNSAFE = "unsafe"
    """May change which file is loaded, or what the package ships; needs `--unsafe-fixes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """What would make a finding go away."""

    title: str
    edits: tuple[Edit, ...]
    """Empty where the graft does it: tags are written by what auditwheel decides."""
    safety: Safety = Safety.SAFE


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong with one wheel."""

    code: str
    """The rule's code, `WF101`."""
    name: str
    """The rule's name, `unreachable-library`."""
    severity: Severity
    message: str
    """What is wrong and what it means: lower case, no full stop, literals in backticks."""
    member: str | None = None
    entry: str | None = None
    """The search path entry, symbol, or RECORD row that the finding is about."""
    notes: tuple[str, ...] = ()
    """Evidence: what was searched, in which schemes, by whom."""
    hint: str | None = None
    """What to do: a command where there is one."""
    fix: Fix | None = None
    wheel: str | None = None
    """The file name of the wheel, where the rule has looked at several side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """What a rule yields; the engine adds the rule's code, name and severity."""

    message: str
    member: str | None = None
    entry: str | None = None
    notes: tuple[str, ...] = ()
    hint: str | None = None
    fix: Fix | None = None
    wheel: str | None = None
    severity: Severity | None = None
    """Where one case is worse or milder than the rule's own severity."""


class PlannedEdit(NamedTuple):
    """One edit of the plan: what it changes from, to what, and who asked for it."""

    edit: Edit
    code: str
    """The rule's code, or `graft` for what auditwheel decided."""
    name: str
    title: str
    member: str
    """The file that changes; WHEEL for the wheel's own tags."""
    old: str
    new: str


class SuppressionReason(StrEnum):
    """What keeps a finding from counting."""

    IGNORE = "ignore"
    """The rule is ignored."""
    PER_FILE = "per-file-ignores"
    """The rule is ignored for this member."""
    BASELINE = "baseline"
    """The finding was there when the project took wheelfix up."""


class Suppressed(NamedTuple):
    """A finding that does not count, and why."""

    finding: Finding
    because: SuppressionReason
    selector: str = ""
    """What names the rule in the settings: a code, a prefix of one, or a name."""
    glob: str = ""
    """For `PER_FILE`, the key that the member matches."""
    reason: str = ""
    """The project's own words, where it gave any."""
