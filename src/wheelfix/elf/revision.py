"""Edits of one ELF object as a value: for the prediction, for the editor, and for patchelf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Self

from wheelfix.elf.constants import PF_X, Pt
from wheelfix.elf.model import Elf, PathTag, Undefined, without_needed
from wheelfix.frozen import frozen


@frozen(kw_only=False)
class Revision:
    """An object before and after its edits, and what became of each library that it names.

    `after` alone does not tell whether a library was renamed, or dropped and another one added.
    """

    before: Elf
    draft: Elf
    """`after`, but with the undefined symbols of `before`: these may be many."""
    names: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    """The new names of libraries in DT_NEEDED and Verneed, None for one that was dropped.

    All libraries that are not in it keep their names.
    """
    added: tuple[str, ...] = ()
    """The new DT_NEEDED entries, which come before all others."""

    @classmethod
    def of(cls, elf: Elf) -> Self:
        """Return the revision that changes nothing."""
        return cls(elf, elf)

    @cached_property
    def after(self) -> Elf:
        """What the object says after the edits."""
        if not self.names:
            return self.draft
        return self.draft._replace(undefined=tuple(map(self._bound, self.before.undefined)))

    @property
    def dropped(self) -> frozenset[str]:
        """The libraries whose DT_NEEDED entries and Verneed records are dropped."""
        return frozenset(old for old, new in self.names.items() if new is None)

    @property
    def renamed(self) -> dict[str, str]:
        """The new names of libraries that have another, by the old ones, in their order."""
        libraries = dict.fromkeys((*self.before.needed, *(v.file for v in self.before.verneed)))
        pairs = ((old, self.names.get(old)) for old in libraries)
        return {old: new for old, new in pairs if new is not None and old != new}

    def rename_needed(self, old: str, new: str) -> Self:
        """Change `old` to `new` in DT_NEEDED and Verneed.

        The loader finds the library of a Verneed record by that name (glibc, elf/dl-version.c).
        """
        elf = self.draft
        after = elf._replace(
            needed=tuple(new if name == old else name for name in elf.needed),
            verneed=tuple(v._replace(file=new) if v.file == old else v for v in elf.verneed),
        )
        return replace(
            self,
            draft=after,
            names=self._names_with(old, new),
            added=tuple(new if name == old else name for name in self.added),
        )

    def drop_needed(self, name: str) -> Self:
        """Remove the DT_NEEDED entries `name`, and what is needed of the library's versions."""
        elf = without_needed(self.draft._replace(undefined=()), {name})
        return replace(
            self,
            draft=elf._replace(undefined=self.before.undefined),
            names=self._names_with(name, None),
            added=tuple(other for other in self.added if other != name),
        )

    def add_needed(self, name: str) -> Self:
        """Put the DT_NEEDED entry `name` before all others, unless it is there."""
        elf = self.draft
        if name in elf.needed:
            return self
        filtees = tuple(f._replace(position=f.position + 1) for f in elf.filtees)
        after = elf._replace(needed=(name, *elf.needed), filtees=filtees)
        return replace(self, draft=after, added=(name, *self.added))

    def set_soname(self, soname: str | None) -> Self:
        """Set DT_SONAME; None removes it."""
        return replace(self, draft=self.draft._replace(soname=soname))

    def set_paths(self, rpath: str | None, runpath: str | None) -> Self:
        """Set DT_RPATH and DT_RUNPATH; None removes the tag."""
        return replace(self, draft=self.draft._replace(rpath=rpath, runpath=runpath))

    def set_entries(self, entries: Sequence[str], tag: PathTag | None = None) -> Self:
        """Set the search path, in one tag; without entries, remove it."""
        tag = tag or self.draft.path_tag or self.draft.path_tag_for(PathTag.RPATH)
        path = ":".join(entries) if entries else None
        return self.set_paths(*((path, None) if tag is PathTag.RPATH else (None, path)))

    def clear_execstack(self) -> Self:
        """Clear PF_X in PT_GNU_STACK."""
        segments = (
            segment._replace(flags=segment.flags & ~PF_X)
            if segment.type == Pt.GNU_STACK
            else segment
            for segment in self.draft.segments
        )
        after = self.draft._replace(segments=tuple(segments), trampolines=False)
        return replace(self, draft=after)

    def strip(self, *, keeps_symtab: bool) -> Self:
        """Remove the debug sections, and .symtab unless it is kept."""
        after = self.draft._replace(debug_size=0)
        if not keeps_symtab:
            after = after._replace(symtab=False, symtab_size=0)
        return replace(self, draft=after)

    @property
    def unstripped(self) -> Self:
        """The same edits without those of `strip`."""
        before = self.before
        after = self.draft._replace(
            symtab=before.symtab,
            symtab_size=before.symtab_size,
            debug_size=before.debug_size,
        )
        return replace(self, draft=after)

    def _names_with(self, now: str, new: str | None) -> dict[str, str | None]:
        """Return the names, where each library that is called `now` gets another name."""
        libraries = {*self.before.needed, *(need.file for need in self.before.verneed)}
        called = {old for old in libraries if self.names.get(old, old) == now}
        return {**self.names, **dict.fromkeys(called, new)}

    def _bound(self, symbol: Undefined) -> Undefined:
        """Return an undefined symbol after the edits, as `without_needed` does for dropped ones."""
        if symbol.file is None or symbol.file not in self.names:
            return symbol
        new = self.names[symbol.file]
        if new is not None:
            return symbol._replace(file=new)
        return symbol._replace(version=None, file=None) if symbol.weak else symbol
