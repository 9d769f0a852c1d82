"""The outcome of a repair: status, wheel, edits, findings, loads, messages, error."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from pathlib import Path

from wheelfix.analysis.policy_verdict import Verdict
from wheelfix.errors import WheelfixError
from wheelfix.frozen import frozen
from wheelfix.host.verify_values import Verified
from wheelfix.named_tuple import NamedTuple
from wheelfix.pipelines.graft import GraftedLibrary
from wheelfix.providers.well_known import Leaving
from wheelfix.rules.findings import Finding, PlannedEdit
from wheelfix.wheel.model import Wheel


class Status(StrEnum):
    """How one wheel ended."""

    REPAIRED = "repaired"
    """Something was wrong or missing; a correct wheel was written."""
    UNCHANGED = "unchanged"
    """Nothing to do: the wheel written has the bytes of the wheel read."""
    PLANNED = "planned"
    """A dry run: there is something to do, and nothing was written."""
    REJECTED = "rejected"
    """Errors remain that wheelfix cannot fix: nothing was written."""
    FAILED = "failed"
    """The wheel could not be read, patched or written: nothing was written."""


class ObjectLoads(NamedTuple):
    """What one changed file loads once installed."""

    member: str
    libraries: tuple[tuple[str, str], ...]
    """DT_NEEDED name -> the member it finds; libraries of the platform are left out."""
    works: tuple[str, ...]
    """The install schemes in which everything is found, described; empty for none."""
    fails: tuple[str, ...]
    """The install schemes in which something is missing, or that do not install it, described."""


class Absence(StrEnum):
    """Why a library that the wheel needs is neither in it nor promised by its platform tag."""

    EXCLUDED = "excluded"
    """A pattern of `exclude` matches it."""
    PROVIDED = "provided"
    """Another wheel has it."""
    MACHINE = "machine"
    """Only the user's machine has it."""
    MISSING = "missing"


class Absent(NamedTuple):
    """A library that the wheel needs, and that must come from elsewhere."""

    library: str
    """The name in DT_NEEDED."""
    absence: Absence
    provider: str
    """The wheel that has it, or why only the user's machine does; empty for others."""
    dependents: tuple[str, ...]
    """The members that need it."""
    is_reached: bool = True
    """Whether a search path may lead to it in that wheel."""


@frozen
class Outcome:
    """The outcome of the repair of one wheel."""

    source: Path
    status: Status
    output: Path | None = None
    """The wheel that was written; None if there is none."""
    before: Wheel | None = None
    after: Wheel | None = None
    """The wheel as read, and as predicted or written."""
    found: tuple[Finding, ...] = ()
    """What was wrong with the input."""
    remaining: tuple[Finding, ...] = ()
    """What is still wrong; errors among these mean `REJECTED`."""
    edits: tuple[PlannedEdit, ...] = ()
    """The whole plan, in the order it is applied."""
    grafted: tuple[GraftedLibrary, ...] = ()
    to_leave: Leaving = Leaving()
    """How to leave what is grafted to the other wheels that have it."""
    ways: Mapping[str, str] = field(default_factory=dict[str, str])
    """Member -> how its object was edited, as in `apply_edits.Applied.ways`."""
    codec: str = ""
    """The codec that deflated the new members; another one writes other bytes."""
    loads: tuple[ObjectLoads, ...] = ()
    """For each changed object, what it will load."""
    absent: tuple[Absent, ...] = ()
    """The libraries that must come from elsewhere."""
    verified: tuple[Verified, ...] = ()
    """What was tried of the written wheel, with the setting `verify`."""
    verdict: Verdict | None = None
    messages: tuple[str, ...] = ()
    """Messages about what was dropped or left out, such as a signature."""
    bytes_before: int = 0
    bytes_after: int = 0
    """Sizes of the zip files."""
    error: WheelfixError | None = None
    """Why it `FAILED`, or was `REJECTED` since it has no object to repair."""

    @property
    def unsearched(self) -> str:
        """The first object with no search path to a library of another wheel; or empty."""
        lacking = (f"`{f.member}` {f.message}" for f in self.remaining if f.code == "WF106")
        return next(lacking, "")
