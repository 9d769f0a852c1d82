"""Edits of an ELF object: in its own bytes as far as there is room, else with a segment more.

A DT_NEEDED entry is dropped together with its Verneed record. Names and search paths are changed in
place if .dynstr has the new string already, or has room for it in a string that nothing else uses.
What needs more room gets it at the end of the object (`elf.growth`). Tables are found as the loader
finds them, so an object without section headers can be edited as well; section headers are kept
correct.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from wheelfix.budget import Budget
from wheelfix.elf.constants import STB_WEAK, VER_NDX_GLOBAL, VERSYM_INDEX, Dt, Pt, Sht
from wheelfix.elf.dynamic_tables import Dynamic, NeedRecord
from wheelfix.elf.growth import NoRoomError, capacity, write_dynamic
from wheelfix.elf.image import Buffer, Image
from wheelfix.elf.model import Elf, Filtee, Segment, with_needed_renamed, without_needed
from wheelfix.elf.patch import Patch, PatchDraft
from wheelfix.errors import PlanConflictError

_RECORD = 16
"""Bytes of a Verneed and of a Vernaux record, in both classes."""
_P_FLAGS = {32: 24, 64: 4}
"""Offset of p_flags in Elf32_Phdr and Elf64_Phdr."""
_PATHS = (Dt.RPATH, Dt.RUNPATH)
_STRING_TAGS = {
    Dt.NEEDED,
    Dt.SONAME,
    *_PATHS,
    Dt.CONFIG,
    Dt.DEPAUDIT,
    Dt.AUDIT,
    Dt.AUXILIARY,
    Dt.FILTER,
}
_AMBIGUOUS = "renamed entries cannot be distinguished from entries that were dropped and added"


class Edited(NamedTuple):
    """An edited object."""

    elf: Elf
    """What the object says after the edit."""
    patch: Patch
    declined: str = ""
    """Why the edit is not all that was asked for, in words that follow "because"; else empty."""


def edit(data: Buffer, before: Elf, after: Elf, name: str, budget: Budget | None = None) -> Edited:
    """Change the object `before` to `after`.

    They differ in names, search paths, versions, and the flags of PT_GNU_STACK.

    `data` is its content; without `budget`, it has one of its own. If the resulting `Elf` is not
    `after` in all but its segments, `declined` says why; the changes that fit are made all the
    same. DT_NEEDED entries can always be dropped: their Verneed records are dropped with them, and
    weak references to those versions become unversioned.

    Raises `PlanConflictError` if a strong reference needs a version to be dropped, or a version
    would be needed from a library without DT_NEEDED; `BadElfError` for broken tables.
    """
    try:
        edited = _edited(data, before, after, name, budget, may_grow=True)
    except NoRoomError as error:
        return edit_in_place(data, before, after, name, budget)._replace(declined=str(error))
    is_done = edited.elf == replace(after, segments=edited.elf.segments)
    return edited if is_done else edited._replace(declined=_AMBIGUOUS)


def edit_in_place(
    data: Buffer, before: Elf, after: Elf, name: str, budget: Budget | None = None
) -> Edited:
    """Change `before` to `after` as `edit` does, as far as the size of the object stays."""
    return _edited(data, before, after, name, budget, may_grow=False)


def _edited(  # noqa: PLR0913 - the arguments of `edit`
    data: Buffer, before: Elf, after: Elf, name: str, budget: Budget | None, *, may_grow: bool
) -> Edited:
    with memoryview(data) as view:
        image = Image.parse(view, name, budget)
        dynamic = Dynamic.parse(image)
        patch = PatchDraft(view)
        if dynamic is None or before == after:
            return Edited(before, patch.finished())
        now, draft = before, replace(_Draft.of(dynamic), may_grow=may_grow)
        for step in (
            _with_needed_dropped,
            _with_needed_renamed,
            _with_needed_added,
            _with_soname,
            _with_paths,
        ):
            now, draft = step(now, after, draft)
        segments = _with_stack(image, _write(draft.wiped(), patch), after, patch)
        now = replace(now, segments=segments, trampolines=after.trampolines)
        return Edited(now, patch.finished())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """The edited dynamic section, with its strings and version needs."""

    dynamic: Dynamic
    """The original."""
    entries: tuple[tuple[int, int], ...]
    needs: tuple[NeedRecord, ...]
    strings: bytes
    fixed: frozenset[int]
    """The offsets into `strings` that symbols and version definitions use."""
    capacity: int
    """Number of entries that fit into the dynamic section, not counting the final DT_NULL."""
    unversioned: tuple[int, ...] = ()
    """Numbers of the symbols that lose their version."""
    vacated: tuple[int, ...] = ()
    """Offsets into `strings` that tags and version needs no longer use."""
    may_grow: bool = False
    """Whether the object may get a segment for what does not fit."""

    @classmethod
    def of(cls, dynamic: Dynamic) -> _Draft:
        """Return a draft without changes."""
        return cls(
            dynamic=dynamic,
            entries=dynamic.entries,
            needs=tuple(dynamic.need_records()),
            strings=dynamic.strings,
            fixed=_fixed_strings(dynamic),
            capacity=capacity(dynamic),
        )

    def text(self, offset: int) -> str:
        """Read one string."""
        end = self.strings.find(b"\0", offset)
        if end < 0:
            raise self.dynamic.image.bad("a name is no string of the dynamic string table")
        return self.strings[offset:end].decode("utf-8", "surrogateescape")

    def place(self, text: str) -> tuple[_Draft, int] | None:
        """Find `text` among the strings, or put it in; None without room."""
        raw = text.encode("utf-8", "surrogateescape") + b"\0"
        at = self.strings.find(raw)
        if at >= 0:
            return self, at
        for start, stop in self._free():
            if len(raw) <= stop - start:
                return self._overwritten(start, stop, raw), start
        if self.may_grow:
            return replace(self, strings=self.strings + raw), len(self.strings)
        return None

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another entry."""
        return len(self.entries) >= self.capacity and not self.may_grow

    def wiped(self) -> _Draft:
        """Fill unused strings with zeros: they may name build directories."""
        draft = self
        for start, stop in self._free():
            draft = draft._overwritten(start, stop, b"")
        return draft

    def _overwritten(self, start: int, stop: int, raw: bytes) -> _Draft:
        padded = raw.ljust(stop - start, b"\0")
        with memoryview(self.strings) as view:  # a single copy of a large table
            return replace(self, strings=b"".join((view[:start], padded, view[stop:])))

    def _free(self) -> Iterator[tuple[int, int]]:
        """Yield start and end of each vacated string, as far as nothing else uses it.

        Linkers merge tails: a string may be the tail of a longer one, and its own tail may be used.
        """
        used = self.fixed.union(
            (value for tag, value in self.entries if tag in _STRING_TAGS),
            (need.file for need in self.needs),
            (name for need in self.needs for *_, name in need.auxiliaries),
        )
        for start in dict.fromkeys(self.vacated):
            head = self.strings.rfind(b"\0", 0, start) + 1
            end = self.strings.find(b"\0", start)
            if end >= 0 and not any(at in used for at in range(head, start + 1)):
                yield start, next((at for at in range(start, end + 1) if at in used), end + 1)


def _fixed_strings(dynamic: Dynamic) -> frozenset[int]:
    """Return the offsets into .dynstr that symbols and version definitions use."""
    place = dynamic.tags.get(Dt.SYMTAB)
    table = dynamic.gnu_hash
    structs = dynamic.image.structs
    counts = [
        section.size // structs.sym.size
        for section in dynamic.image.sections
        if section.type == Sht.DYNSYM and section.addr == place
    ]
    known = Dt.HASH in dynamic.tags or (table is not None and not table.is_empty) or counts
    if place is None or not known or Dt.GNU_LIBLIST in dynamic.tags:
        return frozenset(range(len(dynamic.strings)))  # any of them may be in use
    count = max([dynamic.symbol_count, *counts])
    # st_name comes first in both classes.
    names = structs.words("I", dynamic.symbol_bytes(0, count))[:: structs.sym.size // 4]
    definitions = (name for _, _, names in dynamic.definition_records() for name in names)
    return frozenset(chain(names, definitions))


def _with_needed_dropped(now: Elf, after: Elf, draft: _Draft) -> tuple[Elf, _Draft]:
    """Drop the DT_NEEDED entries and Verneed records that `after` does not have."""
    pairs = _pairs(now, after)
    kept = [number for number in range(len(now.needed)) if number in pairs]
    renamed = {now.needed[old]: after.needed[new] for old, new in pairs.items()}
    wanted = {need.file for need in after.verneed}
    gone = {need.file for need in now.verneed if renamed.get(need.file, need.file) not in wanted}
    needed = tuple(now.needed[number] for number in kept)
    for need in now.verneed:
        if need.file in now.needed and need.file not in {*needed, *gone}:
            raise PlanConflictError(
                f"DT_NEEDED `{need.file}` cannot be dropped while versions are needed from it:"
                f" {', '.join(need.versions)}",
                hint="the loader would abort; drop its Verneed record too, or keep the entry",
            )
    if len(needed) == len(now.needed) and not gone:
        return now, draft
    draft = _without_entries(draft, set(range(len(now.needed))).difference(kept))
    draft = _without_records(draft, gone) if gone else draft
    now = replace(without_needed(now, gone), needed=needed)
    return replace(now, filtees=_filtees(now, draft)), draft


def _filtees(elf: Elf, draft: _Draft) -> tuple[Filtee, ...]:
    """Return the filtees of `elf` with their places among the DT_NEEDED entries of `draft`."""
    tags = [tag for tag, _ in draft.entries if tag in {Dt.NEEDED, Dt.FILTER, Dt.AUXILIARY}]
    places = (tags[:at].count(Dt.NEEDED) for at, tag in enumerate(tags) if tag != Dt.NEEDED)
    pairs = zip(elf.filtees, places, strict=True)
    return tuple(filtee._replace(position=place) for filtee, place in pairs)


def _without_entries(draft: _Draft, dropped: Collection[int]) -> _Draft:
    """Drop DT_NEEDED entries, given by their number among the DT_NEEDED entries."""
    places = [place for place, (tag, _) in enumerate(draft.entries) if tag == Dt.NEEDED]
    gone = {places[number] for number in dropped}
    return replace(
        draft,
        entries=tuple(entry for place, entry in enumerate(draft.entries) if place not in gone),
        vacated=(*draft.vacated, *(draft.entries[place][1] for place in gone)),
    )


def _without_records(draft: _Draft, files: Collection[str]) -> _Draft:
    """Drop the Verneed records of these libraries, and the tags of an empty table.

    glibc's loader crashes on a DT_VERSYM without DT_VERNEED and DT_VERDEF.
    """
    gone = [need for need in draft.needs if draft.text(need.file) in files]
    needs = tuple(need for need in draft.needs if need not in gone)
    tags = {Dt.VERNEED, Dt.VERNEEDNUM}
    if Dt.VERDEF not in draft.dynamic.tags:
        tags.add(Dt.VERSYM)
    entries = (
        (tag, len(needs) if tag == Dt.VERNEEDNUM else value)
        for tag, value in draft.entries
        if needs or tag not in tags
    )
    return replace(
        draft,
        entries=tuple(entries),
        needs=needs,
        unversioned=_losing_version(draft.dynamic, gone),
        vacated=(
            *draft.vacated,
            *(need.file for need in gone),
            *(name for need in gone for *_, name in need.auxiliaries),
        ),
    )


def _losing_version(dynamic: Dynamic, gone: Iterable[NeedRecord]) -> tuple[int, ...]:
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


def _with_needed_renamed(now: Elf, after: Elf, draft: _Draft) -> tuple[Elf, _Draft]:
    """Rename DT_NEEDED entries and their Verneed records, as far as there is room."""
    names = [(now.needed[old], after.needed[new]) for old, new in _pairs(now, after).items()]
    for old, new in dict.fromkeys(names):
        if old == new or {b for a, b in names if a == old} != {new}:
            continue
        bare = _repointed(draft, old, 0)
        placed = bare.place(new)
        if placed is None:
            continue
        draft = _repointed(draft, old, placed[1], placed[0].strings)
        now = with_needed_renamed(now, old, new)
    return now, draft


def _with_needed_added(now: Elf, after: Elf, draft: _Draft) -> tuple[Elf, _Draft]:
    """Add the DT_NEEDED entries that only `after` has, as far as there is room for all of them."""
    old_of = {new: old for old, new in _pairs(now, after).items()}
    if len(old_of) != len(now.needed) or len(old_of) == len(after.needed):
        return now, draft
    grown = draft
    for number, name in enumerate(after.needed):
        if number in old_of:
            continue
        placed = grown.place(name)
        if placed is None or grown.is_full:
            return now, draft
        grown, at = placed
        needed = [place for place, (tag, _) in enumerate(grown.entries) if tag == Dt.NEEDED]
        end = needed[-1] + 1 if needed else 0
        place = needed[number] if 0 < number < len(needed) else end if number else 0
        entries = (*grown.entries[:place], (int(Dt.NEEDED), at), *grown.entries[place:])
        grown = replace(grown, entries=entries)
    names = (
        now.needed[old_of[number]] if number in old_of else name
        for number, name in enumerate(after.needed)
    )
    now = replace(now, needed=tuple(names))
    return replace(now, filtees=_filtees(now, grown)), grown


def _repointed(draft: _Draft, name: str, offset: int, strings: bytes | None = None) -> _Draft:
    """Set the name of the library `name` in DT_NEEDED and Verneed to the string at `offset`."""
    entries = [
        (tag, offset) if tag == Dt.NEEDED and draft.text(value) == name else (tag, value)
        for tag, value in draft.entries
    ]
    needs = [
        need._replace(file=offset) if draft.text(need.file) == name else need
        for need in draft.needs
    ]
    old = {value for _, value in set(draft.entries).difference(entries)}
    old.update(need.file for need in draft.needs if draft.text(need.file) == name)
    return replace(
        draft,
        entries=tuple(entries),
        needs=tuple(needs),
        strings=draft.strings if strings is None else strings,
        vacated=(*draft.vacated, *sorted(old)),
    )


def _pairs(before: Elf, after: Elf) -> dict[int, int]:
    """Return which DT_NEEDED entry of `before` became which of `after`, by number.

    Entries keep their order, and new ones are at the front, so the search is from the end. A
    library with versioned references is known by these; any other took the name of the next new
    one, if the same versions are needed from it.
    """
    old, new = before.needed, after.needed
    references = zip(before.undefined, after.undefined, strict=True)
    bound = {was.file: now.file for was, now in references if was.file}
    was, then = ({need.file: need.versions for need in elf.verneed} for elf in (before, after))
    free = set(new).difference(old, bound.values())
    added = len(new) - len(old)
    kept = zip(old, new[added:], strict=True) if added >= 0 else None
    if kept and all(bound.get(a, b) == b and (a == b or b in free or a in bound) for a, b in kept):
        return {number: number + added for number in range(len(old))}  # none was dropped
    pairs: dict[int, int] = {}
    end = len(new)
    for number, name in reversed(list(enumerate(old))):
        known = next((n for n in (bound.get(name), name) if n in new[:end]), None)
        if known is not None:
            end -= 1 + new[:end][::-1].index(known)
        elif (
            name not in bound
            and end
            and new[end - 1] in free
            and was.get(name) == then.get(new[end - 1])
        ):
            end -= 1
        else:
            continue
        pairs[number] = end
    return dict(sorted(pairs.items()))


def _with_soname(now: Elf, after: Elf, draft: _Draft) -> tuple[Elf, _Draft]:
    changed = None
    if now.soname != after.soname:
        changed = _with_tags(draft, {Dt.SONAME: after.soname})
    return (now, draft) if changed is None else (replace(now, soname=after.soname), changed)


def _with_paths(now: Elf, after: Elf, draft: _Draft) -> tuple[Elf, _Draft]:
    changed = None
    if (now.rpath, now.runpath) != (after.rpath, after.runpath):
        changed = _with_tags(draft, {Dt.RPATH: after.rpath, Dt.RUNPATH: after.runpath})
    if changed is None:
        return now, draft
    return replace(now, rpath=after.rpath, runpath=after.runpath), changed


def _with_tags(draft: _Draft, texts: Mapping[int, str | None]) -> _Draft | None:
    """Set each of these tags to its text, or remove it; None without room for them."""
    places = [place for place, (tag, _) in enumerate(draft.entries) if tag in texts]
    entries = [entry for entry in draft.entries if entry[0] not in texts]
    place = places[0] if places else len(entries)
    draft = replace(
        draft,
        entries=tuple(entries),
        vacated=(*draft.vacated, *(draft.entries[place][1] for place in places)),
    )
    for tag, text in texts.items():
        if text is None:
            continue
        placed = draft.place(text)
        if placed is None or draft.is_full:
            return None
        entries.insert(place, (tag, placed[1]))
        draft = replace(placed[0], entries=tuple(entries))
    return draft


def _write(draft: _Draft, patch: PatchDraft) -> tuple[Segment, ...]:
    """Write each change; return the segments.

    Raises `NoRoomError` if the object cannot grow.
    """
    dynamic, image = draft.dynamic, draft.dynamic.image
    if draft.unversioned:
        half, size = image.structs.half, 2 * (max(draft.unversioned) + 1)
        versions = bytearray(image.loaded(dynamic.tags[Dt.VERSYM], size, "DT_VERSYM"))
        for number in draft.unversioned:
            half.pack_into(versions, 2 * number, VER_NDX_GLOBAL)
        at = image.offset(dynamic.tags[Dt.VERSYM], size, "DT_VERSYM")
        patch.write(at, bytes(versions))
    for at, raw in chain(_need_writes(draft), _section_writes(draft)):
        patch.write(at, raw)
    return write_dynamic(patch, dynamic, draft.entries, draft.strings)


def _with_stack(
    image: Image, segments: tuple[Segment, ...], after: Elf, patch: PatchDraft
) -> tuple[Segment, ...]:
    """Write the flags of PT_GNU_STACK that `after` has; return the segments."""
    flags = [segment.flags for segment in after.segments if segment.type == Pt.GNU_STACK]
    written = list(segments)
    for number, segment in enumerate(segments):
        if segment.type == Pt.GNU_STACK and flags and segment.flags != flags[-1]:
            written[number] = segment._replace(flags=flags[-1])
            at = image.program_headers[0] + number * image.structs.phdr.size
            at += _P_FLAGS[image.structs.bits]
            patch.write(at, image.structs.word.pack(flags[-1]))
    return tuple(written)


def _need_writes(draft: _Draft) -> Iterator[tuple[int, bytes]]:
    """Yield the new Verneed table, without holes."""
    old = tuple(draft.dynamic.need_records())
    if old == draft.needs:
        return
    places = {need.offset for need in old} | {at for need in old for at, *_ in need.auxiliaries}
    records = sum(1 + len(need.auxiliaries) for need in old)
    start = old[0].offset
    if places != set(range(start, start + _RECORD * records, _RECORD)):
        raise draft.dynamic.image.bad("its Verneed records overlap or have holes between them")
    structs = draft.dynamic.image.structs
    raw = b""
    for need in draft.needs:
        count = len(need.auxiliaries)
        step = 0 if need is draft.needs[-1] else _RECORD * (1 + count)
        raw += structs.verneed.pack(1, count, need.file, _RECORD, step)
        for left, (_, hashed, flags, index, name) in zip(
            reversed(range(count)), need.auxiliaries, strict=True
        ):
            raw += structs.vernaux.pack(hashed, flags, index, name, _RECORD if left else 0)
    yield start, raw.ljust(_RECORD * records, b"\0")


def _section_writes(draft: _Draft) -> Iterator[tuple[int, bytes]]:
    """Yield the changed section headers of .gnu.version_r and .gnu.version.

    Tools read versions by section, the loader by tag. A section whose tag is gone becomes
    SHT_PROGBITS, because tools reject an empty table of versions.
    """
    image, tags = draft.dynamic.image, draft.dynamic.tags
    left = dict(draft.entries)
    tag_of: dict[int, Dt] = {Sht.GNU_VERNEED: Dt.VERNEED, Sht.GNU_VERSYM: Dt.VERSYM}
    shdr = image.structs.shdr
    for number, section in enumerate(image.sections):
        tag = tag_of.get(section.type)
        if tag is None or section.addr != tags.get(tag):
            continue
        at = image.section_headers + number * shdr.size
        fields = list(shdr.unpack_from(image.view, at))
        if tag not in left:
            fields[1], fields[6], fields[7], fields[9] = Sht.PROGBITS, 0, 0, 0
        elif tag == Dt.VERNEED:
            fields[5] = _RECORD * sum(1 + len(need.auxiliaries) for need in draft.needs)
            fields[7] = len(draft.needs)
        yield at, shdr.pack(*fields)
