"""The edits a repair is made of: one change each, as data.

Rules compose because edits are small: two rules may each drop an entry of one search path, and
the plan still knows who asked for what. An edit knows its effect on a *value*; nothing here acts.

Edits are tuples, for a dataclass takes ten times longer to make, and all are made at each start;
`kind` keeps those apart that have the same fields.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from wheelfix.elf.model import Elf, PathTag

# --- Where the bytes of a new member come from ----------------------------------------------------


class CopyOf(NamedTuple):
    """The repaired bytes of another member."""

    member: str
    kind: Literal["copy-of"] = "copy-of"

    def __str__(self) -> str:
        return f"copy of `{self.member}`"


class HostFile(NamedTuple):
    """A file on this machine, private to the run: a library that auditwheel grafted."""

    path: str
    kind: Literal["host-file"] = "host-file"

    def __str__(self) -> str:
        return "grafted"


class Text(NamedTuple):
    """Bytes written by wheelfix: an SBOM, a shim."""

    content: bytes
    kind: Literal["text"] = "text"

    def __str__(self) -> str:
        return "written"


Source = CopyOf | HostFile | Text


# --- Edits of one object's dynamic section -------------------------------------------------------


class DropEntry(NamedTuple):
    """Remove `entry` from the object's search path, wherever it stands."""

    member: str
    entry: str
    kind: Literal["drop-entry"] = "drop-entry"

    @property
    def decides(self) -> tuple[str, ...]:
        """What two edits must agree on."""
        return ("entry", self.member, self.entry)

    def apply(self, elf: Elf) -> Elf:
        """Return what the object says afterwards."""
        return with_entries(elf, [entry for entry in elf.entries if entry != self.entry])

    def change(self, elf: Elf) -> tuple[str, str]:
        """Say what changes from what to what."""
        return f"{elf.path_tag} entry `{self.entry}`", "dropped"


class DropRepeats(NamedTuple):
    """Keep only the first `entry` of the object's search path."""

    member: str
    entry: str
    kind: Literal["drop-repeats"] = "drop-repeats"

    @property
    def decides(self) -> tuple[str, ...]:
        """What two edits must agree on."""
        return ("repeats", self.member, self.entry)

    def apply(self, elf: Elf) -> Elf:
        """Return what the object says afterwards."""
        if self.entry not in elf.entries:
            return elf
        first = elf.entries.index(self.entry)
        kept = [e for n, e in enumerate(elf.entries) if e != self.entry or n == first]
        return with_entries(elf, kept)

    def change(self, elf: Elf) -> tuple[str, str]:
        """Say what changes from what to what."""
        times = elf.entries.count(self.entry)
        return f"{elf.path_tag} entry `{self.entry}` {times} times", "once"


class MendEntry(NamedTuple):
    """Spell `old` as `new`, in its place in the search path."""

    member: str
    old: str
    new: str
    kind: Literal["mend-entry"] = "mend-entry"

    @property
    def decides(self) -> tuple[str, ...]:
        """What two edits must agree on."""
        return ("entry", self.member, self.old)

    def apply(self, elf: Elf) -> Elf:
        """Return what the object says afterwards."""
        return with_entries(elf, [self.new if e == self.old else e for e in elf.entries])

    def change(self, elf: Elf) -> tuple[str, str]:
        """Say what changes from what to what."""
        return f"{elf.path_tag} entry `{self.old}`", f"`{self.new}`"


class AddEntry(NamedTuple):
    """Append `entry` to the object's search path, unless it is there."""

    member: str
    entry: str
    kind: Literal["add-entry"] = "add-entry"

    @property
    def decides(self) -> tuple[str, ...]:
        """What two edits must agree on."""
        return ("entry", self.member, self.entry)

    def apply(self, elf: Elf) -> Elf:
        """Return what the object says afterwards."""
        return elf if self.entry in elf.entries else with_entries(elf, [*elf.entries, self.entry])

    def change(self, elf: Elf) -> tuple[str, str]:
        """Say what changes from what to what."""
        return "no such search path entry", f"{elf.path_tag or 'DT_RPATH'} entry `{self.entry}`"


class PrependEntry(NamedTuple):
    """Put `entry` before all others of the object's search path."""

    member: str
    entry: str
    kind: Literal["prepend-entry"] = "prepend-entry"

    @property
    def decides(self) -> tuple[str, ...]:
        """What two edits must agree on."""
        return ("entry", self.member, self.entry)

    def apply(self, elf: Elf) -> Elf:
        """Return what the object says afterwards."""
        return with_entries(elf, [self.entry, *(e for e in elf.entries if e != self.entry)])

    def change(self, elf: Elf) -> tuple[str, str]:
        """Say what changes from what to what."""
        first = elf.entries[0] if elf.entries else ""
        return f"first search path entry `{first}`", f"`{self.entry}` before it"


class SetPathTag(NamedTuple):
    """Carry the search path in `tag`, and in no other."""

    member: str
    tag: PathTag
    kind: Literal["set-path-tag"] = "set-path-tag"

    @property
    def decides(self) -> tuple[str, ...]:
        """What two edits must agree on."""
        return ("tag", self.member)

    def apply(self, elf: Elf) -> Elf:
        """Return what the object says afterwards."""
        return with_entries(elf, elf.entries, self.tag)

    def change(self, elf: Elf) -> tuple[str, str]:
        """Say what changes from what to what."""
        both = elf.rpath is not None and elf.runpath is not None
        return "DT_RPATH and DT_RUNPATH" if both else str(elf.path_tag), str(self.tag)


class SetSoname(NamedTuple):
    """Set DT_SONAME."""

    member: str
    soname: str
    kind: Literal["set-soname"] = "set-soname"

    @property
    def decides(self) -> tuple[str, ...]:
        """What two edits must agree on."""
        return ("soname", self.member)

    def apply(self, elf: Elf) -> Elf:
        """Return what the object says afterwards."""
        return replace(elf, soname=self.soname)

    def change(self, elf: Elf) -> tuple[str, str]:
        """Say what changes from what to what."""
        return f"DT_SONAME `{elf.soname or ''}`", f"`{self.soname}`"


class RenameNeeded(NamedTuple):
    """Change the DT_NEEDED entry `old`, and the Verneed record that goes with it, to `new`.

    The loader finds the library of a Verneed record by that name (glibc, elf/dl-version.c).
    """

    member: str
    old: str
    new: str
    kind: Literal["rename-needed"] = "rename-needed"

    @property
    def decides(self) -> tuple[str, ...]:
        """What two edits must agree on."""
        return ("needed", self.member, self.old)

    def apply(self, elf: Elf) -> Elf:
        """Return what the object says afterwards."""
        return replace(
            elf,
            needed=tuple(self._renamed(name) for name in elf.needed),
            verneed=tuple(need._replace(file=self._renamed(need.file)) for need in elf.verneed),
            undefined=tuple(
                symbol if symbol.file != self.old else symbol._replace(file=self.new)
                for symbol in elf.undefined
            ),
        )

    def _renamed(self, name: str) -> str:
        return self.new if name == self.old else name

    def change(self, elf: Elf) -> tuple[str, str]:  # noqa: ARG002 - one signature for all edits
        """Say what changes from what to what."""
        return f"DT_NEEDED `{self.old}`", f"`{self.new}`"


class DropNeeded(NamedTuple):
    """Remove the DT_NEEDED entry `name`, and what the object needs of the library's versions."""

    member: str
    name: str
    kind: Literal["drop-needed"] = "drop-needed"

    @property
    def decides(self) -> tuple[str, ...]:
        """What two edits must agree on."""
        return ("needed", self.member, self.name)

    def apply(self, elf: Elf) -> Elf:
        """Return what the object says afterwards."""
        return without_needed(elf, {self.name})

    def change(self, elf: Elf) -> tuple[str, str]:  # noqa: ARG002 - one signature for all edits
        """Say what changes from what to what."""
        return f"DT_NEEDED `{self.name}`", "dropped"


class AddNeeded(NamedTuple):
    """Put the DT_NEEDED entry `name` before all others, where patchelf puts it."""

    member: str
    name: str
    kind: Literal["add-needed"] = "add-needed"

    @property
    def decides(self) -> tuple[str, ...]:
        """What two edits must agree on."""
        return ("needed", self.member, self.name)

    def apply(self, elf: Elf) -> Elf:
        """Return what the object says afterwards."""
        return elf if self.name in elf.needed else replace(elf, needed=(self.name, *elf.needed))

    def change(self, elf: Elf) -> tuple[str, str]:  # noqa: ARG002 - one signature for all edits
        """Say what changes from what to what."""
        return "no such DT_NEEDED", f"DT_NEEDED `{self.name}`"


class Strip(NamedTuple):
    """Remove symbols and debug sections that the loader does not need (`strip -s`)."""

    member: str
    kind: Literal["strip"] = "strip"

    @property
    def decides(self) -> tuple[str, ...]:
        """What two edits must agree on."""
        return ("strip", self.member)

    def apply(self, elf: Elf) -> Elf:
        """Return what the object says afterwards: the loader's view is unchanged."""
        return replace(elf, symtab=False, symtab_size=0, debug_size=0)

    def change(self, elf: Elf) -> tuple[str, str]:  # noqa: ARG002 - one signature for all edits
        """Say what changes from what to what."""
        return "all symbols", "those that the loader needs"


# --- Edits of the wheel's files -------------------------------------------------------------------


class AddMember(NamedTuple):
    """Put a new file into the wheel."""

    member: str
    source: Source
    size: int
    """Bytes, before any edit."""
    mode: int = 0o100755
    elf: Elf | None = None
    """What the bytes say of themselves, for ELF objects."""
    kind: Literal["add-member"] = "add-member"

    @property
    def decides(self) -> tuple[str, ...]:
        """What two edits must agree on."""
        return ("member", self.member)


class MoveMember(NamedTuple):
    """Give a file another name in the wheel."""

    member: str
    new: str
    kind: Literal["move-member"] = "move-member"

    @property
    def decides(self) -> tuple[str, ...]:
        """What two edits must agree on."""
        return ("member", self.member)


class SetMode(NamedTuple):
    """Give a file other permissions once installed."""

    member: str
    old: int
    new: int
    """`st_mode`, as in `Member.mode`."""
    kind: Literal["set-mode"] = "set-mode"

    @property
    def decides(self) -> tuple[str, ...]:
        """What two edits must agree on."""
        return ("mode", self.member)


class RemoveMember(NamedTuple):
    """Take a file out of the wheel."""

    member: str
    kind: Literal["remove-member"] = "remove-member"

    @property
    def decides(self) -> tuple[str, ...]:
        """What two edits must agree on."""
        return ("member", self.member)


class WriteSource(NamedTuple):
    """Give a Python source of `Wheel.sources` these bytes; a file that is not there is new."""

    member: str
    content: bytes
    what: str
    """What the file does then, for people."""
    kind: Literal["write-source"] = "write-source"

    @property
    def decides(self) -> tuple[str, ...]:
        """What two edits must agree on."""
        return ("member", self.member)


# --- Edits of the wheel's metadata ----------------------------------------------------------------


class Retag(NamedTuple):
    """Set the platform tags of the file name, and the `Tag:` lines of WHEEL."""

    platforms: tuple[str, ...]
    tags: tuple[str, ...]
    kind: Literal["retag"] = "retag"

    @property
    def decides(self) -> tuple[str, ...]:
        """What two edits must agree on."""
        return ("platforms",)


class SetRootIsPurelib(NamedTuple):
    """Set `Root-Is-Purelib` in WHEEL."""

    value: bool
    kind: Literal["set-root-is-purelib"] = "set-root-is-purelib"

    @property
    def decides(self) -> tuple[str, ...]:
        """What two edits must agree on."""
        return ("root",)


class AddRequirement(NamedTuple):
    """Add a `Requires-Dist` line to METADATA, after those that are there."""

    requirement: str
    kind: Literal["add-requirement"] = "add-requirement"

    @property
    def decides(self) -> tuple[str, ...]:
        """What two edits must agree on."""
        return ("requirement", self.requirement)


PathEdit = DropEntry | DropRepeats | MendEntry | AddEntry | PrependEntry | SetPathTag
ElfEdit = PathEdit | SetSoname | RenameNeeded | DropNeeded | AddNeeded | Strip
MemberEdit = AddMember | MoveMember | SetMode | RemoveMember | WriteSource
WheelEdit = Retag | SetRootIsPurelib | AddRequirement
Edit = ElfEdit | MemberEdit | WheelEdit


def without_needed(elf: Elf, names: Collection[str]) -> Elf:
    """Return `elf` without the DT_NEEDED entries `names`, as `ld --as-needed` would write it.

    Their Verneed records go too, since the loader aborts on one whose library nobody asked for
    (glibc, `_dl_check_map_versions`), and weak references that had their versions become
    unversioned. A strong reference keeps its version: it says that the library is not unused.
    """
    return replace(
        elf,
        needed=tuple(name for name in elf.needed if name not in names),
        verneed=tuple(need for need in elf.verneed if need.file not in names),
        undefined=tuple(
            symbol._replace(version=None, file=None)
            if symbol.weak and symbol.file in names
            else symbol
            for symbol in elf.undefined
        ),
    )


def with_entries(elf: Elf, entries: Sequence[str], tag: PathTag | None = None) -> Elf:
    """Return `elf` with this search path, in one tag; without entries, with none."""
    tag = tag or elf.path_tag or PathTag.RPATH
    path = ":".join(entries) if entries else None
    return replace(
        elf,
        rpath=path if tag is PathTag.RPATH else None,
        runpath=path if tag is PathTag.RUNPATH else None,
    )
