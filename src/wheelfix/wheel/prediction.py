"""The predicted wheel: its members and tables while edits are applied to them."""

from dataclasses import replace

from wheelfix.elf.revision import Revision
from wheelfix.errors import PlanConflictError
from wheelfix.wheel.model import FILE_MODE, PROGRAM_MODE, Member, Wheel


class Draft:
    """A wheel under edit: one mutable copy of its tables for a whole sequence of edits."""

    def __init__(self, wheel: Wheel) -> None:
        """Begin with `wheel` as it is."""
        self.header = wheel
        """Name, tags, metadata; its tables of members and objects are those of the beginning."""
        self.revisions = {member: Revision.of(elf) for member, elf in wheel.elfs.items()}
        """Member -> its object, before and after the edits."""
        self.sources = dict(wheel.sources)
        self.texts = dict(wheel.texts)
        self._members = {member.name: member for member in wheel.members}
        self._added: dict[str, Member] = {}

    def set_mode(self, name: str, mode: int) -> None:
        """Set the `st_mode` of a member."""
        self._members[name] = self._members[name]._replace(mode=mode)

    def add(self, member: Member, revision: Revision | None = None) -> None:
        """Add a member, with its `revision` if it is an object.

        Raises `PlanConflictError` if the wheel has it already.
        """
        if member.name in self._members:
            raise PlanConflictError(f"`{member.name}` is in the wheel already; it is not replaced")
        self._added[member.name] = member
        if revision is not None:
            self.revisions[member.name] = revision

    def write_source(self, name: str, content: bytes) -> None:
        """Replace or add a Python source."""
        new = Member(name=name, size=len(content), compressed_size=0, mode=FILE_MODE)
        table = self._members if name in self._members else self._added
        table[name] = table.get(name, new)._replace(size=new.size, compressed_size=0)
        self.sources[name] = content

    def write_text(self, name: str, content: bytes) -> None:
        """Set what a text of the dist-info folder says."""
        if name.startswith(f"{self.header.dist_info}/"):
            self.texts[name] = content.decode("utf-8", "replace")

    def move(self, old: str, new: str) -> None:
        """Rename a member. Raises `PlanConflictError` if the wheel has `new` already."""
        if new in self._members:
            raise PlanConflictError(f"`{old}` cannot move to `{new}`: that file exists already")
        self._members = {
            (new if name == old else name): member._replace(name=new) if name == old else member
            for name, member in self._members.items()
        }
        if old in self.revisions:
            self.revisions[new] = self.revisions.pop(old)
        if old in self.sources:
            self.sources[new] = self.sources.pop(old)
        if old in self.texts:
            self.texts[new] = self.texts.pop(old)

    def remove(self, name: str) -> None:
        """Remove a member, if it is there."""
        for table in (self._members, self._added, self.revisions, self.sources, self.texts):
            table.pop(name, None)

    def normalize(self) -> None:
        """Sort the members, dist-info and RECORD last; only the bit for execution is kept."""
        folder = f"{self.header.dist_info}/"

        def place(member: Member) -> tuple[bool, bool, str]:
            name = member.name
            return name.startswith(folder), name == f"{folder}RECORD", name

        self._members = {
            member.name: member._replace(mode=PROGRAM_MODE if member.mode & 0o111 else FILE_MODE)
            for member in sorted((*self._members.values(), *self._added.values()), key=place)
        }
        self._added = {}

    def finish(self) -> Wheel:
        """Return the edited wheel, with new members before the metadata.

        PEP 427, "Recommended archiver features": `.dist-info` at the end of the archive.
        """
        names = list(self._members)
        metadata = (n for n, name in enumerate(names) if name.startswith(self.header.dist_info))
        place = next(metadata, len(names))
        old = tuple(self._members.values())
        members = (*old[:place], *self._added.values(), *old[place:])
        if members == self.header.members:
            members = self.header.members  # the same value tells that no file came or went
        revisions = self.revisions
        return replace(
            self.header,
            members=members,
            elfs={m.name: revisions[m.name].after for m in members if m.name in revisions},
            sources=self.sources,
            texts=self.texts,
        )
