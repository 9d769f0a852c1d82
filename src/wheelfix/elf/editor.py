"""Edits of an ELF object: in its own bytes as far as there is room, else with a segment more.

A DT_NEEDED entry is dropped together with its Verneed record. Names and search paths are changed in
place if .dynstr has the new string already, or has room for it in a string that nothing else uses.
What needs more room gets it at the end of the object (`elf.growth`). Tables are found as the loader
finds them, so an object without section headers can be edited as well; section headers are kept
correct.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from wheelfix.budget import Budget
from wheelfix.elf.constants import (
    STB_WEAK,
    STRING_TAGS,
    VER_NDX_GLOBAL,
    VERSION_RECORD,
    VERSION_TAGS,
    VERSYM_INDEX,
    Dt,
    Pt,
    Sht,
)
from wheelfix.elf.dynamic_strings import DynamicStrings
from wheelfix.elf.dynamic_tables import Dynamic, NeedRecord
from wheelfix.elf.growth import NoRoomError, TableLayout, Tables, lay_out
from wheelfix.elf.image import Buffer, Image, Section, last_of
from wheelfix.elf.moved_tables import write_tables
from wheelfix.elf.patch import Patch, PatchDraft
from wheelfix.elf.revision import Revision
from wheelfix.errors import PlanConflictError
from wheelfix.grouping import flatten


def edit(
    data: Buffer,
    revision: Revision,
    name: str,
    budget: Budget | None = None,
    *,
    may_grow: bool = True,
) -> Patch:
    """Carry out the edits of an object with the content `data`; those of `strip` are not made here.

    Without `budget`, the object has one of its own. Weak references to the versions of a library
    that is dropped become unversioned. The caller has to compare the result with what `revision`
    predicts: see `wheelfix.elf.compare`.

    Raises `NoRoomError` if the edits do not fit into the object, and it may or can not grow;
    `PlanConflictError` if a strong reference needs a version of a library that is to be dropped;
    `BadElfError` for broken tables.
    """
    with memoryview(data) as view:
        image = Image.parse(view, name, budget)
        dynamic = Dynamic.parse(image)
        patch = PatchDraft(view)
        if dynamic is None or revision.unstripped.after == revision.before:
            return patch.finish()
        draft = _Draft(dynamic)
        draft.drop_libraries(revision.dropped)
        draft.rename_libraries(revision.renamed)
        draft.add_libraries(revision.added)
        was, now = revision.before, revision.after
        if was.soname != now.soname:
            draft.set_strings({Dt.SONAME: now.soname})
        if (was.rpath, was.runpath) != (now.rpath, now.runpath):
            draft.set_strings({Dt.RPATH: now.rpath, Dt.RUNPATH: now.runpath})
        tables = draft.tables()
        if not may_grow and (tables.moves_strings or tables.moves_dynamic):
            raise NoRoomError("its tables are full")
        layout = _with_stack(lay_out(tables), revision)
        for at, raw in draft.version_writes():
            patch.write(at, raw)
        write_tables(patch, tables, layout)
        return patch.finish()


def _with_stack(layout: TableLayout, revision: Revision) -> TableLayout:
    """Return the layout with the flags of PT_GNU_STACK after the edits."""
    stack = last_of(revision.after.segments, Pt.GNU_STACK)
    headers = (
        header._replace(flags=stack.flags) if stack and header.type == Pt.GNU_STACK else header
        for header in layout.headers
    )
    return layout._replace(headers=tuple(headers))


class _Draft:
    """The dynamic section, the version needs and the strings of an object while it is edited."""

    def __init__(self, dynamic: Dynamic) -> None:
        self.dynamic = dynamic
        self.entries = list(dynamic.entries)
        self.needs = list(dynamic.need_records())
        self.unversioned: Sequence[int] = ()
        """Numbers of the symbols that lose their version."""
        users = (value for tag, value in self.entries if tag in STRING_TAGS)
        self.strings = DynamicStrings(dynamic, chain(users, *map(_strings_of, self.needs)))

    def drop_libraries(self, libraries: Collection[str]) -> None:
        """Drop DT_NEEDED entries and Verneed records."""
        if not libraries:
            return
        dropped = {
            place
            for place, (tag, value) in enumerate(self.entries)
            if tag == Dt.NEEDED and self.strings.text(value) in libraries
        }
        for place in dropped:
            self.strings.release(self.entries[place][1])
        self.entries = [entry for n, entry in enumerate(self.entries) if n not in dropped]
        gone = [need for need in self.needs if self.strings.text(need.file) in libraries]
        if gone:
            self._drop_records(gone)

    def _drop_records(self, gone: Collection[NeedRecord]) -> None:
        """Drop Verneed records, and the tags of an empty table.

        glibc's loader crashes on a DT_VERSYM without DT_VERNEED and DT_VERDEF.
        """
        self.unversioned = _symbols_of_versions(self.dynamic, gone)
        places = {need.offset for need in gone}
        self.needs = [need for need in self.needs if need.offset not in places]
        empty = set[Dt]() if self.needs else {Dt.VERNEED, Dt.VERNEEDNUM}
        if empty and Dt.VERDEF not in self.dynamic.tags:
            empty.add(Dt.VERSYM)
        self.entries = [
            (tag, len(self.needs) if tag == Dt.VERNEEDNUM else value)
            for tag, value in self.entries
            if tag not in empty
        ]
        names = (name for *_, name in flatten(need.auxiliaries for need in gone))
        for at in chain((need.file for need in gone), names):
            self.strings.release(at)

    def rename_libraries(self, names: Mapping[str, str]) -> None:
        """Give libraries new names in DT_NEEDED and Verneed, all at once."""
        entries: dict[str, list[int]] = {}
        records: dict[str, list[int]] = {}
        for place, (tag, value) in enumerate(self.entries if names else ()):
            if tag == Dt.NEEDED:
                entries.setdefault(self.strings.text(value), []).append(place)
        for place, need in enumerate(self.needs if names else ()):
            records.setdefault(self.strings.text(need.file), []).append(place)
        for old, new in names.items():
            changed, followers = entries.get(old, []), records.get(old, [])
            before = [self.entries[n][1] for n in changed] + [self.needs[n].file for n in followers]
            for offset in sorted(before):
                self.strings.release(offset)
            at = self.strings.place(new, uses=len(before))
            for place in changed:
                self.entries[place] = (Dt.NEEDED, at)
            for place in followers:
                self.needs[place] = self.needs[place]._replace(file=at)

    def add_libraries(self, names: Sequence[str]) -> None:
        """Put DT_NEEDED entries before all others."""
        # One begins the section, and the others stand directly before the libraries that are there.
        entries = [(Dt.NEEDED, self.strings.place(name)) for name in names]
        kinds = {Dt.NEEDED, Dt.FILTER, Dt.AUXILIARY}
        first = next((n for n, (tag, _) in enumerate(self.entries) if tag in kinds), 0)
        self.entries[first:first] = entries[1:]
        self.entries[:0] = entries[:1]

    def set_strings(self, texts: Mapping[Dt, str | None]) -> None:
        """Set each of these tags to its text, or remove it."""
        places = [place for place, (tag, _) in enumerate(self.entries) if tag in texts]
        place = places[0] if places else len(self.entries)
        for _, value in (self.entries[n] for n in places):
            self.strings.release(value)
        self.entries = [entry for entry in self.entries if entry[0] not in texts]
        for tag, text in texts.items():
            if text is not None:
                self.entries.insert(place, (tag, self.strings.place(text)))

    def tables(self) -> Tables:
        """Return what is to be written, without the strings that are no longer used."""
        self.strings.wipe()
        return Tables(
            dynamic=self.dynamic,
            entries=tuple(self.entries),
            strings=bytes(self.strings.data),
            sections=tuple(self._sections()),
        )

    def _sections(self) -> Iterator[Section]:
        """Yield the section headers; only those of .gnu.version_r and .gnu.version change.

        Tools read versions by section, the loader by tag. A section whose tag is gone becomes
        SHT_PROGBITS, because tools reject an empty table of versions.
        """
        tags, size = {tag for tag, _ in self.entries}, VERSION_RECORD * _count(self.needs)
        for section in self.dynamic.image.sections:
            tag = VERSION_TAGS.get(section.type)
            if tag is None or section.addr != self.dynamic.tags.get(tag):
                yield section
            elif tag not in tags:
                yield section._replace(type=Sht.PROGBITS, link=0, info=0, entsize=0)
            elif tag == Dt.VERNEED:
                yield section._replace(size=size, info=len(self.needs))
            else:
                yield section

    def version_writes(self) -> Iterator[tuple[int, bytes]]:
        """Yield offsets and new content: of DT_VERSYM, and of the Verneed table, without holes.

        Raises `BadElfError` for a Verneed table that has holes.
        """
        dynamic, image = self.dynamic, self.dynamic.image
        if self.unversioned:
            half, size = image.structs.half, 2 * (max(self.unversioned) + 1)
            at = image.offset(dynamic.tags[Dt.VERSYM], size, "DT_VERSYM")
            for number in self.unversioned:
                yield at + 2 * number, half.pack(VER_NDX_GLOBAL)
        old = list(dynamic.need_records())
        if old == self.needs:
            return
        auxiliaries = flatten(need.auxiliaries for need in old)
        places = {need.offset for need in old} | {at for at, *_ in auxiliaries}
        start, size = old[0].offset, VERSION_RECORD * _count(old)
        if places != set(range(start, start + size, VERSION_RECORD)):
            raise image.bad("its Verneed records overlap or have holes between them")
        yield start, b"".join(_pack(self.needs, image)).ljust(size, b"\0")


def _strings_of(need: NeedRecord) -> Iterator[int]:
    """Yield the offsets of the strings of a Verneed record."""
    yield need.file
    for *_, name in need.auxiliaries:
        yield name


def _count(needs: Iterable[NeedRecord]) -> int:
    """Count the Verneed and Vernaux records."""
    return sum(1 + len(need.auxiliaries) for need in needs)


def _pack(needs: Sequence[NeedRecord], image: Image) -> Iterator[bytes]:
    """Yield the records, each Verneed record before its Vernaux records."""
    structs = image.structs
    for need in needs:
        count = len(need.auxiliaries)
        step = 0 if need is needs[-1] else VERSION_RECORD * (1 + count)
        yield structs.verneed.pack(1, count, need.file, VERSION_RECORD, step)
        for left, (_, hashed, flags, index, name) in zip(
            reversed(range(count)), need.auxiliaries, strict=True
        ):
            more = VERSION_RECORD if left else 0
            yield structs.vernaux.pack(hashed, flags, index, name, more)


def _symbols_of_versions(dynamic: Dynamic, gone: Iterable[NeedRecord]) -> tuple[int, ...]:
    """Return the numbers of the symbols with versions of these records.

    Raises `PlanConflictError` unless all are weak references.
    """
    indices = frozenset[int]().union(*(need.indices for need in gone))
    count = dynamic.symbol_count
    versions = dynamic.version_indices(count) or ()
    numbers = tuple(n for n, version in enumerate(versions) if version & VERSYM_INDEX in indices)
    for number in numbers:
        ((name, info, _, section, *_),) = dynamic.symbols(number, number + 1)
        if section != 0 or info >> 4 != STB_WEAK:
            raise PlanConflictError(
                f"`{dynamic.image.name}` needs `{dynamic.string(name, 'a symbol')}` with a version"
                " from a library that is to be dropped from DT_NEEDED",
                hint="the library is in use: keep the entry",
            )
    return numbers
