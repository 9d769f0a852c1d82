"""The vocabulary of the rules: what is wrong, and the edits that would mend it, as data.

A rule yields findings; a finding may carry a fix; a fix is a tuple of edits. Nothing here acts.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from wheelfix.elf import Elf, PathTag


class Severity(IntEnum):
    """How bad a finding is, comparable; only errors and warnings make `check` fail."""

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


# --- Where the bytes of a new member come from -------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOf:
    """The (repaired) bytes of another member."""

    member: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFile:
    """A file on this machine, private to the run: a library that auditwheel grafted."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Bytes written by wheelfix or auditwheel: metadata, an SBOM, a shim."""

    content: bytes


Source = CopyOf | HostFile | Text


# --- Edits: one change each, so that rules compose and the plan can name who asked for what -----


@dataclass(frozen=True, slots=True, kw_only=True)
class DropEntry:
    """Remove every occurrence of `entry` from the object's search path.

    With `repeats`, the first occurrence stays.
    """

    member: str
    entry: str
    repeats: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MendEntry:
    """Spell `old` as `new`, in its place in the search path."""

    member: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddEntry:
    """Append `entry` to the object's search path, unless it is there; with `first`, before all."""

    member: str
    entry: str
    first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPathTag:
    """Carry the search path in `tag`."""

    member: str
    tag: PathTag


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSoname:
    """Set DT_SONAME."""

    member: str
    soname: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameNeeded:
    """Change the DT_NEEDED entry `old`, and the Verneed record that goes with it, to `new`."""

    member: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DropNeeded:
    """Remove the DT_NEEDED entry `name`; only for a library that no Verneed record names."""

    member: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """Remove symbols and debug sections that the loader does not need (`strip -s`)."""

    member: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddMember:
    """Put a new file into the wheel."""

    member: str
    source: Source
    size: int
    """Bytes, before any edit."""
    mode: int = 0o100755
    elf: Elf | None = None
    """What the bytes say of themselves, for ELF objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveMember:
    """Give a file another name in the wheel."""

    member: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveMember:
    """Take a file out of the wheel."""

    member: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Retag:
    """Set the platform tags, in the file name and in WHEEL."""

    platforms: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRootIsPurelib:
    """Set `Root-Is-Purelib` in WHEEL."""

    value: bool


ElfEdit = (
    DropEntry
    | MendEntry
    | AddEntry
    | SetPathTag
    | SetSoname
    | RenameNeeded
    | DropNeeded
    | Strip
)
MemberEdit = AddMember | MoveMember | RemoveMember
WheelEdit = Retag | SetRootIsPurelib
Edit = ElfEdit | MemberEdit | WheelEdit


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """What would make a finding go away."""

    title: str
    edits: tuple[Edit, ...]
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
