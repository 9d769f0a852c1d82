"""Edits of a wheel, as data.

Rules and the graft propose edits; the engine refuses contradictions and predicts the wheel that the
rest make. Everything about a kind of edit is in its class: what it contradicts (`decides`), what it
changes in words (`change`), and what it makes of the wheel (`apply`, `revise`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from wheelfix.elf.model import Elf, PathTag
from wheelfix.elf.revision import Revision
from wheelfix.frozen import frozen
from wheelfix.named_tuple import NamedTuple
from wheelfix.text import count
from wheelfix.wheel.dist_info import (
    license_expression,
    with_license_expression,
    with_license_file,
    with_requirement,
)
from wheelfix.wheel.model import PROGRAM_MODE, Member, Wheel
from wheelfix.wheel.prediction import Draft


class Change(NamedTuple):
    """What an edit changes, in words."""

    member: str
    """The file that changes."""
    old: str
    new: str


class Edit(ABC):
    """One change of a wheel."""

    question: ClassVar[str]
    """The property that the edit sets, in one word."""
    subject: ClassVar[tuple[str, ...]] = ()
    """The fields that identify the object of the question."""

    @property
    def decides(self) -> tuple[str, ...]:
        """The question and its subject; two different edits with the same ones conflict."""
        return (self.question, *(getattr(self, field) for field in self.subject))

    @abstractmethod
    def change(self, draft: Draft) -> Change:
        """Describe what the edit changes in `draft`."""

    @abstractmethod
    def apply(self, draft: Draft) -> None:
        """Apply the edit to `draft`. Raises `PlanConflictError` if it would overwrite a file."""


def predict(wheel: Wheel, edits: Iterable[Edit]) -> Wheel:
    """Return the wheel that `edits`, applied in their order, make of `wheel`.

    Raises `PlanConflictError` if one would overwrite a file.
    """
    return _draft(wheel, edits).finish()


def revisions(wheel: Wheel, edits: Iterable[Edit]) -> Mapping[str, Revision]:
    """Return what `edits` change in each object, by its member in the edited wheel.

    Raises `PlanConflictError` as `predict` does.
    """
    return _draft(wheel, edits).revisions


def sources_of(
    edits: Iterable[Edit], before: Mapping[str, str | Path | bytes]
) -> dict[str, str | Path | bytes]:
    """Return what each member is made from, if not from the member of the input of the same name.

    That is another member of the input, a file or bytes. `before` has those of earlier edits. The
    bytes of a copy are those of its original.
    """
    sources = dict(before)
    for edit in edits:
        match edit:
            case MoveMember():
                sources[edit.new] = sources.get(edit.member, edit.member)
            case AddMember(source=CopyOf(member=original)):
                sources[edit.member] = sources.get(original, original)
            case AddMember(source=HostFile(path=path)):
                sources[edit.member] = Path(path)
            case AddMember(source=NewFile(content=content)):
                sources[edit.member] = content
            case _:
                pass
    return sources


def _draft(wheel: Wheel, edits: Iterable[Edit]) -> Draft:
    draft = Draft(wheel)
    for edit in edits:
        edit.apply(draft)
    return draft


# --- Edits of one object's dynamic section -------------------------------------------------------


@frozen
class ElfEdit(Edit):
    """One change of an ELF object."""

    subject: ClassVar[tuple[str, ...]] = ("member",)
    member: str

    @abstractmethod
    def revise(self, revision: Revision) -> Revision:
        """Return the revision of the object with this edit after all that it has already."""

    @abstractmethod
    def words(self, elf: Elf) -> tuple[str, str]:
        """Describe what is in `elf` now, and what replaces it."""

    def change(self, draft: Draft) -> Change:
        old, new = self.words(draft.revisions[self.member].draft)
        return Change(self.member, old, new)

    def apply(self, draft: Draft) -> None:
        draft.revisions[self.member] = self.revise(draft.revisions[self.member])


@frozen
class _EntryEdit(ElfEdit, ABC):
    """One change of a search path entry."""

    question: ClassVar[str] = "entry"
    subject: ClassVar[tuple[str, ...]] = ("member", "entry")
    entry: str


class DropEntry(_EntryEdit):
    """Remove `entry` from the search path, at every position."""

    def revise(self, revision: Revision) -> Revision:
        entries = revision.draft.entries
        return revision.set_entries([entry for entry in entries if entry != self.entry])

    def words(self, elf: Elf) -> tuple[str, str]:
        return f"{elf.path_tag} entry `{self.entry}`", "dropped"


class DropRepeats(_EntryEdit):
    """Keep only the first `entry` of the search path."""

    question: ClassVar[str] = "repeats"

    def revise(self, revision: Revision) -> Revision:
        entries = revision.draft.entries
        if self.entry not in entries:
            return revision
        first = entries.index(self.entry)
        return revision.set_entries(
            [entry for n, entry in enumerate(entries) if entry != self.entry or n == first]
        )

    def words(self, elf: Elf) -> tuple[str, str]:
        return (
            f"{elf.path_tag} entry `{self.entry}` {count(elf.entries.count(self.entry), 'time')}",
            "once",
        )


@frozen
class ReplaceEntry(ElfEdit):
    """Write `new` in the place of the search path entry `old`."""

    question: ClassVar[str] = "entry"
    subject: ClassVar[tuple[str, ...]] = ("member", "old")
    old: str
    new: str

    def revise(self, revision: Revision) -> Revision:
        entries = revision.draft.entries
        return revision.set_entries([self.new if e == self.old else e for e in entries])

    def words(self, elf: Elf) -> tuple[str, str]:
        return f"{elf.path_tag} entry `{self.old}`", f"`{self.new}`"


class AddEntry(_EntryEdit):
    """Append `entry` to the search path, unless it is there."""

    def revise(self, revision: Revision) -> Revision:
        entries = revision.draft.entries
        return revision if self.entry in entries else revision.set_entries([*entries, self.entry])

    def words(self, elf: Elf) -> tuple[str, str]:
        return "absent", f"{elf.path_tag or 'DT_RPATH'} entry `{self.entry}`"


class PrependEntry(_EntryEdit):
    """Put `entry` before all others of the search path."""

    def revise(self, revision: Revision) -> Revision:
        others = [entry for entry in revision.draft.entries if entry != self.entry]
        return revision.set_entries([self.entry, *others])

    def words(self, elf: Elf) -> tuple[str, str]:
        first = elf.entries[0] if elf.entries else ""
        return f"first search path entry `{first}`", f"`{self.entry}` before it"


@frozen
class SetPathTag(ElfEdit):
    """Store the search path in `tag`, and in no other."""

    question: ClassVar[str] = "tag"
    tag: PathTag

    def revise(self, revision: Revision) -> Revision:
        return revision.set_entries(revision.draft.entries, self.tag)

    def words(self, elf: Elf) -> tuple[str, str]:
        both = elf.rpath is not None and elf.runpath is not None
        return "DT_RPATH and DT_RUNPATH" if both else elf.path_tag or "DT_RPATH", str(self.tag)


@frozen
class SetSoname(ElfEdit):
    """Set DT_SONAME."""

    question: ClassVar[str] = "soname"
    soname: str

    def revise(self, revision: Revision) -> Revision:
        return revision.set_soname(self.soname)

    def words(self, elf: Elf) -> tuple[str, str]:
        return f"DT_SONAME `{elf.soname or ''}`", f"`{self.soname}`"


@frozen
class _NeededEdit(ElfEdit, ABC):
    """One change of a DT_NEEDED entry."""

    question: ClassVar[str] = "needed"
    subject: ClassVar[tuple[str, ...]] = ("member", "name")
    name: str


@frozen
class RenameNeeded(ElfEdit):
    """Change the DT_NEEDED entry `old`, and the Verneed record that goes with it, to `new`."""

    question: ClassVar[str] = "needed"
    subject: ClassVar[tuple[str, ...]] = ("member", "old")
    old: str
    new: str

    def revise(self, revision: Revision) -> Revision:
        return revision.rename_needed(self.old, self.new)

    def words(self, elf: Elf) -> tuple[str, str]:
        return f"DT_NEEDED `{self.old}`", f"`{self.new}`"


class DropNeeded(_NeededEdit):
    """Remove the DT_NEEDED entry `name`, and what the object needs of the library's versions."""

    def revise(self, revision: Revision) -> Revision:
        return revision.drop_needed(self.name)

    def words(self, elf: Elf) -> tuple[str, str]:
        return f"DT_NEEDED `{self.name}`", "dropped"


class AddNeeded(_NeededEdit):
    """Put the DT_NEEDED entry `name` before all others, where patchelf puts it."""

    def revise(self, revision: Revision) -> Revision:
        return revision.add_needed(self.name)

    def words(self, elf: Elf) -> tuple[str, str]:
        return "no such DT_NEEDED", f"DT_NEEDED `{self.name}`"


@frozen
class Strip(ElfEdit):
    """Remove the debug sections, which the loader does not need, and .symtab unless it stays."""

    question: ClassVar[str] = "strip"
    keeps_symtab: bool

    def revise(self, revision: Revision) -> Revision:
        return revision.strip(keeps_symtab=self.keeps_symtab)

    def words(self, elf: Elf) -> tuple[str, str]:
        if self.keeps_symtab:
            return f"{count(elf.debug_size, 'byte')} of debug sections", "dropped"
        return "all symbols", "those that the loader needs"


class ClearExecstack(ElfEdit):
    """Clear PF_X in PT_GNU_STACK: the object does not ask for an executable stack any more."""

    question: ClassVar[str] = "stack"

    def revise(self, revision: Revision) -> Revision:
        return revision.clear_execstack()

    def words(self, elf: Elf) -> tuple[str, str]:
        return "executable stack (PT_GNU_STACK)", "not executable"


# --- Edits of the wheel's files -------------------------------------------------------------------


@frozen(kw_only=False)
class CopyOf:
    """The repaired bytes of another member."""

    member: str

    def __str__(self) -> str:
        return f"copy of `{self.member}`"


@frozen(kw_only=False)
class HostFile:
    """A file on this machine, private to the run: a library that auditwheel grafted."""

    path: str

    def __str__(self) -> str:
        return "grafted"


@frozen(kw_only=False)
class NewFile:
    """Bytes written by wheelfix, an SBOM or a shim; or those of a file of this machine."""

    content: bytes
    origin: str = ""
    """The file that they were copied from."""

    def __str__(self) -> str:
        return f"copied from `{self.origin}`" if self.origin else "written"


Source = CopyOf | HostFile | NewFile
"""Where the bytes of a new member come from."""


@frozen
class _MemberEdit(Edit, ABC):
    """One change of a file."""

    question: ClassVar[str] = "member"
    subject: ClassVar[tuple[str, ...]] = ("member",)
    member: str


@frozen
class AddMember(_MemberEdit):
    """Add a file to the wheel."""

    source: Source
    size: int
    """Bytes, before any edit."""
    mode: int = PROGRAM_MODE
    elf: Elf | None = None
    """What the bytes say of themselves, for ELF objects that are not copies of a member."""

    def change(self, draft: Draft) -> Change:
        return Change(self.member, "absent", f"{self.source}, {count(self.size, 'byte')}")

    def apply(self, draft: Draft) -> None:
        new = Member(name=self.member, size=self.size, compressed_size=0, mode=self.mode)
        match self.source:
            case CopyOf(member=original):
                draft.add(new, draft.revisions.get(original))
            case _:
                draft.add(new, None if self.elf is None else Revision.of(self.elf))
        if isinstance(self.source, NewFile):
            draft.write_text(self.member, self.source.content)


@frozen
class MoveMember(_MemberEdit):
    """Rename a file of the wheel."""

    new: str

    def change(self, draft: Draft) -> Change:
        return Change(self.member, "in place", f"moved to `{self.new}`")

    def apply(self, draft: Draft) -> None:
        draft.move(self.member, self.new)


@frozen
class SetMode(_MemberEdit):
    """Set the permissions that a file has once installed."""

    question: ClassVar[str] = "mode"
    old: int
    new: int
    """`st_mode`, as in `Member.mode`."""

    def change(self, draft: Draft) -> Change:
        old, new = (f"{mode & 0o7777:04o}" for mode in (self.old, self.new))
        return Change(self.member, f"mode {old}", new)

    def apply(self, draft: Draft) -> None:
        draft.set_mode(self.member, self.new)


class RemoveMember(_MemberEdit):
    """Remove a file from the wheel."""

    def change(self, draft: Draft) -> Change:
        return Change(self.member, "present", "removed")

    def apply(self, draft: Draft) -> None:
        draft.remove(self.member)


@frozen
class WriteSource(_MemberEdit):
    """Write a Python source of `Wheel.sources`; a file that is not there is added."""

    content: bytes
    what: str
    """What the file does afterwards, in words."""

    def change(self, draft: Draft) -> Change:
        old = "as it was" if self.member in draft.sources else "absent"
        return Change(self.member, old, self.what)

    def apply(self, draft: Draft) -> None:
        draft.write_source(self.member, self.content)


# --- Edits of the wheel's metadata ----------------------------------------------------------------


@frozen
class Retag(Edit):
    """Set the platform tags of the file name, and the `Tag:` lines of WHEEL."""

    question: ClassVar[str] = "platforms"
    platforms: tuple[str, ...]
    tags: tuple[str, ...]

    def change(self, draft: Draft) -> Change:
        old, new = (".".join(tags) for tags in (draft.header.name.platforms, self.platforms))
        return Change(draft.header.dist_info.wheel_file, f"platform tag {old}", new)

    def apply(self, draft: Draft) -> None:
        name = draft.header.name._replace(platforms=self.platforms)
        draft.header = replace(draft.header, name=name, tags=self.tags)


class WriteZip(Edit):
    """Write the zip anew, without what only some readers accept; the members stay."""

    question: ClassVar[str] = "zip"

    def change(self, draft: Draft) -> Change:
        features = ", ".join(oddity.feature for oddity in draft.header.zip_oddities)
        return Change(str(draft.header.name), f"zip with {features}", "written anew, without it")

    def apply(self, draft: Draft) -> None:
        draft.header = replace(draft.header, zip_oddities=())


@frozen
class SetRootIsPurelib(Edit):
    """Set `Root-Is-Purelib` in WHEEL."""

    question: ClassVar[str] = "root"
    value: bool

    def change(self, draft: Draft) -> Change:
        old, new = (str(value).lower() for value in (draft.header.root_is_purelib, self.value))
        return Change(draft.header.dist_info.wheel_file, f"Root-Is-Purelib: {old}", new)

    def apply(self, draft: Draft) -> None:
        draft.header = replace(draft.header, root_is_purelib=self.value)


@frozen
class AddRequirement(Edit):
    """Add a `Requires-Dist` line to METADATA, after those that are there and are not `replaced`."""

    question: ClassVar[str] = "requirement"
    subject: ClassVar[tuple[str, ...]] = ("requirement",)
    requirement: str
    replaced: tuple[str, ...] = ()

    def change(self, draft: Draft) -> Change:
        line = f"`Requires-Dist: {self.requirement}`"
        before = ", ".join(f"`Requires-Dist: {text}`" for text in self.replaced)
        return Change(draft.header.dist_info.metadata, before or "no such requirement", line)

    def apply(self, draft: Draft) -> None:
        metadata = with_requirement(draft.header.metadata, self.requirement, self.replaced)
        draft.header = replace(draft.header, metadata=metadata)


@frozen
class AddLicenseFile(Edit):
    """Add a `License-File` line to METADATA, for a file in `*.dist-info/licenses` (PEP 639)."""

    question: ClassVar[str] = "license"
    subject: ClassVar[tuple[str, ...]] = ("path",)
    path: str
    """Relative to that folder."""

    def change(self, draft: Draft) -> Change:
        line = f"`License-File: {self.path}`"
        return Change(draft.header.dist_info.metadata, "no such license", line)

    def apply(self, draft: Draft) -> None:
        draft.header = replace(
            draft.header, metadata=with_license_file(draft.header.metadata, self.path)
        )


@frozen
class SetLicenseExpression(Edit):
    """Set the `License-Expression` of METADATA (PEP 639)."""

    question: ClassVar[str] = "expression"
    expression: str
    """An SPDX license expression."""

    def change(self, draft: Draft) -> Change:
        old = license_expression(draft.header.metadata)
        return Change(
            draft.header.dist_info.metadata,
            f"License-Expression `{old}`",
            f"`{self.expression}`",
        )

    def apply(self, draft: Draft) -> None:
        metadata = with_license_expression(draft.header.metadata, self.expression)
        draft.header = replace(draft.header, metadata=metadata)


class NormalizeMembers(Edit):
    """Put the members into a fixed order, and give them one of two modes."""

    question: ClassVar[str] = "order"

    def change(self, draft: Draft) -> Change:
        return Change(
            str(draft.header.name), "dates, order and modes of the build", "the same for each build"
        )

    def apply(self, draft: Draft) -> None:
        draft.normalize()
