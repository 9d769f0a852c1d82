"""Comparison of an edited ELF object with the original.

The edited object must read as predicted, and everything else must load to the same bytes at the
same addresses: code, data, symbols, relocations, constructors.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, islice, zip_longest
from typing import cast

from wheelfix.elf.compare_sections import Compared, section_differences
from wheelfix.elf.compare_segments import PADDING, load_name, segment_differences, stack_differences
from wheelfix.elf.constants import (
    PF_W,
    STB_WEAK,
    STRING_TAGS,
    TABLE_TAGS,
    VER_NDX_GLOBAL,
    VERSION_RECORD,
    VERSYM_INDEX,
    Dt,
    Pt,
)
from wheelfix.elf.dynamic_tables import Dynamic
from wheelfix.elf.growth import FILLER, holds_tables_only
from wheelfix.elf.image import Buffer, Image
from wheelfix.elf.model import Elf, Segment
from wheelfix.elf.ranges import gaps, merge_ranges
from wheelfix.elf.reader import read_elf
from wheelfix.errors import BadElfError
from wheelfix.grouping import grouped
from wheelfix.named_tuple import NamedTuple
from wheelfix.system.mapped_files import first_difference, pieces
from wheelfix.text import FEW

_EDITED = {Dt.NEEDED, Dt.SONAME, Dt.RPATH, Dt.RUNPATH}
_STRINGS = STRING_TAGS - _EDITED - {Dt.FILTER, Dt.AUXILIARY}
"""Tags of strings that no edit changes; those of filters are compared as parts of `Elf`."""


def differences(before: Buffer, after: Buffer, predicted: Elf, name: str) -> tuple[str, ...]:
    """Return the differences of `after` from the object `before` with the predicted edit.

    Empty if `after` reads as `predicted` (segments but PT_GNU_STACK aside, as an edit may add one)
    and loads the rest of `before` unchanged. Each text gives the expected and the found value.
    Raises `BadElfError` if `before` cannot be read.
    """
    try:
        actual = read_elf(after, name)._replace(for_bionic=predicted.for_bionic)  # or its tag is
    except BadElfError as error:
        return (f"it cannot be read after the edit: {error.message}",)
    with memoryview(before) as old_view, memoryview(after) as new_view:
        old, new = Image.parse(old_view, name), Image.parse(new_view, name)
        return tuple(dict.fromkeys(_all_differences(predicted, actual, old, new)))


def _all_differences(predicted: Elf, actual: Elf, old: Image, new: Image) -> Iterator[str]:
    yield from _unlike(predicted, actual)
    try:
        yield from _image_differences(old, new)
    except BadElfError as error:
        yield f"its tables cannot be compared: {error.message}"


def _unlike(predicted: Elf, actual: Elf) -> Iterator[str]:
    yield from stack_differences(predicted.segments, actual.segments)
    for name in Elf._fields:
        values = (_items(getattr(elf, name)) for elf in (predicted, actual))
        pairs = zip_longest(*values) if name != "segments" else ()
        unlike = ((want, got) for want, got in pairs if want != got)
        for want, got in islice(unlike, FEW):
            yield f"{name}: predicted {want!r}, found {got!r}"


def _items(value: object) -> tuple[object, ...]:
    """Return the items of a field that has several, else the one that it has."""
    return cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)


def _image_differences(old: Image, new: Image) -> Iterator[str]:
    was, now = Dynamic.parse(old), Dynamic.parse(new)
    if was is None or now is None:
        if (was is None) != (now is None):
            yield "the dynamic section was added or removed"
        both = Compared(old=old, new=new, was=was, now=now, moved={})
        rewritten = list(_header_ranges(old, new))
    else:
        moved = {at: now.tags.get(tag, at) for tag, at in was.tags.items() if tag in TABLE_TAGS}
        for kind in (Pt.DYNAMIC, Pt.INTERP):
            moved[_address(old, kind)] = _address(new, kind)
        rewritten = [*_header_ranges(old, new), *_table_ranges(was, now)]
        both = Compared(old=old, new=new, was=was, now=now, moved=moved)
        yield from _table_differences(was, now, both)
    if sorted(_notes(old)) != sorted(_notes(new)):
        yield "the contents of the PT_NOTE segments changed"
    places = {*both.moved.values(), *(s.vaddr for s in new.segments if s.type == Pt.NOTE)}
    places.update(_addresses(new, new.program_headers[0]))
    yield from segment_differences(old, new, places)
    yield from section_differences(both)
    behind = old.appended
    if behind and first_difference(behind, new.view[-len(behind) :]) is not None:
        yield "the bytes behind the object changed or moved: programs find them by their place"
    yield from _memory_differences(old, new, rewritten)


def _table_differences(was: Dynamic, now: Dynamic, both: Compared) -> Iterator[str]:
    yield from _tag_differences(was, now)
    yield from _version_differences(was, now)
    yield from _symbol_differences(was, now, both)
    yield from _relocation_differences(was, now)
    yield from _hash_differences(was, now)


def _tag_differences(was: Dynamic, now: Dynamic) -> Iterator[str]:
    expected = _version_tags(was, now)
    movable = TABLE_TAGS
    if was.tags.get(Dt.STRTAB) != now.tags.get(Dt.STRTAB):
        movable |= {Dt.STRSZ}
    for tag in sorted({*was.tags, *now.tags} - _EDITED):
        old, new = expected.get(tag, was.tags.get(tag)), now.tags.get(tag)
        if (old is None) != (new is None) or (old != new and tag not in movable):
            yield f"{_tag(tag)} changed from {_hex(old)} to {_hex(new)}"
    counts, new_counts = (Counter(tag for tag, _ in d.entries) for d in (was, now))
    for tag, times in new_counts.items():
        if tag != Dt.NEEDED and times > max(counts[tag], 1):
            yield f"{_tag(tag)} occurs more than once"
    kept = {tag for tag, times in counts.items() if times > 1} - _EDITED
    had, has = (sorted(e for e in d.entries if e[0] in kept) for d in (was, now))
    if had != has:
        yield f"entries of {_tag(next(iter(kept)))} changed"
    for tag in _STRINGS & was.tags.keys() & now.tags.keys():
        texts = [d.string(d.tags[tag], _tag(tag)) for d in (was, now)]
        if texts[0] != texts[1]:
            yield f"{_tag(tag)} changed from `{texts[0]}` to `{texts[1]}`"


def _version_tags(was: Dynamic, now: Dynamic) -> dict[int, int | None]:
    """Return the values that the tags of version needs must have after records were dropped.

    Without records they are all gone, and DT_VERSYM too unless versions are defined: glibc's loader
    crashes on a DT_VERSYM without either.
    """
    if Dt.VERNEED not in was.tags:
        return {}
    count = sum(1 for _ in now.need_records())
    if count == sum(1 for _ in was.need_records()):
        return {}
    if count:
        return {Dt.VERNEEDNUM: count}
    gone = {Dt.VERNEED, Dt.VERNEEDNUM, *([] if Dt.VERDEF in was.tags else [Dt.VERSYM])}
    return dict.fromkeys(gone)


def _tag(tag: int) -> str:
    return f"DT_{Dt(tag).name}" if tag in set(Dt) else f"the dynamic tag {tag:#x}"


def _hex(value: int | None) -> str:
    return "nothing" if value is None else hex(value)


def _version_differences(was: Dynamic, now: Dynamic) -> Iterator[str]:
    old, new = list(was.version_needs()), list(now.version_needs())
    rest = iter(_version_records(was))
    if not all(record in rest for record in _version_records(now)):
        yield "the needed versions or their indices changed"
    old_needed, new_needed = _needed(was), _needed(now)
    dangling = {file for file, _ in old} - old_needed
    for file, _ in new:
        if file not in new_needed and file not in dangling:
            yield f"versions are needed from `{file}`, which is not in DT_NEEDED"
    if list(_defined_versions(was)) != list(_defined_versions(now)):
        yield "the defined versions changed"


def _version_records(dynamic: Dynamic) -> Iterator[tuple[object, ...]]:
    """Yield what is in each Verneed record but the library's name."""
    for record in dynamic.need_records():
        _, count, *_ = dynamic.image.unpack(
            dynamic.image.structs.verneed, record.offset, "a Verneed record"
        )
        names = (dynamic.name(name, "a needed version") for *_, name in record.auxiliaries)
        numbers = (fields[1:4] for fields in record.auxiliaries)
        yield count, *zip(numbers, names, strict=True)


def _defined_versions(dynamic: Dynamic) -> Iterator[tuple[object, ...]]:
    for index, flags, names in dynamic.definition_records():
        yield index, flags, *(dynamic.name(name, "a defined version") for name in names)


def _needed(dynamic: Dynamic) -> set[str]:
    return {dynamic.string(v, "DT_NEEDED") for tag, v in dynamic.entries if tag == Dt.NEEDED}


def _symbol_differences(was: Dynamic, now: Dynamic, both: Compared) -> Iterator[str]:
    count = was.symbol_count
    if now.symbol_count != count:
        yield f"the dynamic symbols changed in number from {count} to {now.symbol_count}"
        return
    if count:
        yield from islice(_unlike_symbols(both, was, now, count), FEW)
        yield from _version_index_differences(was, now, count)


def _version_index_differences(was: Dynamic, now: Dynamic, count: int) -> Iterator[str]:
    """Compare DT_VERSYM; weak references may lose a version that is no longer needed."""
    old, new = was.version_indices(count), now.version_indices(count)
    if old == new:
        return
    kept = frozenset[int]().union(*(record.indices for record in now.need_records()))
    gone = frozenset[int]().union(*(record.indices for record in was.need_records())) - kept
    lost = [n for n, index in enumerate(old or ()) if index & VERSYM_INDEX in gone]
    for number in lost:
        ((name, info, _, section, *_),) = was.symbols(number, number + 1)
        if section != 0 or info >> 4 != STB_WEAK:
            yield f"`{was.string(name, 'a symbol')}` lost its version although it is not weak"
    expected = list(old or ())
    for number in lost:
        expected[number] = VER_NDX_GLOBAL
    if list(new or ()) != expected and not (new is None and max(expected) <= VER_NDX_GLOBAL):
        yield "the version indices of the symbols changed"


def _unlike_symbols(both: Compared, was: Dynamic, now: Dynamic, count: int) -> Iterator[str]:
    changed = first_difference(memoryview(was.strings), memoryview(now.strings))
    pairs = zip(was.symbols(0, count), now.symbols(0, count), strict=True)
    for old, new in pairs:
        if old == new and (changed is None or was.strings.find(b"\0", old[0], changed) >= 0):
            continue  # its name ends before the first change of .dynstr
        name, other = _symbol_name(was, old), _symbol_name(now, new)
        if name != other:
            yield f"symbol `{name}` changed its name to `{other}`"
        if not both.is_same_symbol(old, new):
            yield f"symbol `{name}` changed from {_symbol(old)} to {_symbol(new)}"


def _symbol(entry: tuple[int, ...]) -> str:
    _, info, other, section, value, size = entry
    return f"(info {info:#x}, other {other}, section {section:#x}, value {value:#x}, size {size})"


def _symbol_name(dynamic: Dynamic, entry: tuple[int, ...]) -> str:
    return dynamic.string(entry[0], "a symbol's name")


def _address(image: Image, kind: Pt) -> int:
    segment = image.segment(kind)
    return segment.vaddr if segment is not None else 0


def _relocation_differences(was: Dynamic, now: Dynamic) -> Iterator[str]:
    old_tables, new_tables = ({t.tag: t for t in d.relocations()} for d in (was, now))
    for tag in sorted({*old_tables, *new_tables}):
        old, new = old_tables.get(tag), new_tables.get(tag)
        if old is None or new is None or len(old.raw) != len(new.raw):
            yield f"the relocations of DT_{tag.name} changed in number"
            continue
        if old.struct.size != new.struct.size:
            yield f"the relocations of DT_{tag.name} have another format"
            continue
        pairs = zip(old.struct.iter_unpack(old.raw), new.struct.iter_unpack(new.raw), strict=True)
        unlike = ((a, b) for a, b in pairs if a != b) if old.raw != new.raw else iter(())
        for a, b in islice(unlike, FEW):
            yield f"a relocation of DT_{tag.name} changed from {_relocation(a)} to {_relocation(b)}"
    if _relr(was) != _relr(now):
        yield "the relocations of DT_RELR changed"


def _relocation(entry: tuple[int, ...]) -> str:
    offset, info, *addends = entry
    addend = "".join(f", addend {value:#x}" for value in addends)
    return f"(offset {offset:#x}, info {info:#x}{addend})"


def _relr(dynamic: Dynamic) -> bytes:
    if Dt.RELR not in dynamic.tags:
        return b""
    size = dynamic.tags.get(Dt.RELRSZ, 0)
    return dynamic.image.loaded(dynamic.tags[Dt.RELR], size, "DT_RELR")


def _hash_differences(was: Dynamic, now: Dynamic) -> Iterator[str]:
    sizes = dict(now.hash_tables())
    for tag, size in was.hash_tables():
        old = was.image.loaded(was.tags[tag], size, f"DT_{tag.name}")
        if tag in sizes and old != now.image.loaded(now.tags[tag], sizes[tag], f"DT_{tag.name}"):
            yield f"the hash table of DT_{tag.name} changed"


def _notes(image: Image) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield single notes: patchelf splits PT_NOTE segments into one for each section."""
    for segment in image.segments:
        if segment.type == Pt.NOTE:
            yield from image.notes(segment.offset, segment.filesz)


def _header_ranges(old: Image, new: Image) -> Iterator[tuple[int, int]]:
    """Yield the addresses of the headers, and of PT_INTERP and notes that moved."""
    old_sections = (old.header.shoff, len(old.sections) * old.structs.shdr.size)
    for offset, size in ((0, old.structs.header_size), old.program_headers, old_sections):
        for start in _addresses(old, offset):
            yield start, start + size
    now = {s.vaddr for s in new.segments if s.type in {Pt.INTERP, Pt.NOTE}}
    for segment in old.segments:
        if segment.type in {Pt.INTERP, Pt.NOTE} and segment.vaddr not in now:
            yield segment.vaddr, segment.vaddr + segment.filesz


def _addresses(image: Image, offset: int) -> Iterator[int]:
    """Yield the addresses that a byte of the file is loaded to."""
    for load in image.loads:
        if load.has_offset(offset):
            yield load.vaddr + offset - load.offset


def _is_free(old: Image, low: int, high: int, rewritten: Sequence[tuple[int, int]]) -> bool:
    """Return whether only `rewritten` or filler was in a range of the file."""
    return all(set(old.view[a:b]) <= FILLER for a, b in gaps(low, high, rewritten))


def _table_ranges(was: Dynamic, now: Dynamic) -> Iterator[tuple[int, int]]:
    """Yield the addresses in `was` of tables that an edit rewrites or moves.

    All of these are compared by content.
    """
    image, tags = was.image, was.tags
    dynamic = image.segment(Pt.DYNAMIC)
    if dynamic is not None:
        size = len(was.entries) * image.structs.dyn.size
        yield dynamic.vaddr, dynamic.vaddr + max(dynamic.memsz, size)
    if Dt.STRTAB in tags:
        yield tags[Dt.STRTAB], tags[Dt.STRTAB] + tags.get(Dt.STRSZ, 0)
    count = was.symbol_count
    if count:
        yield tags[Dt.SYMTAB], tags[Dt.SYMTAB] + count * image.structs.sym.size
    if Dt.VERNEED in tags:
        records = sum(1 + len(versions) for _, versions in was.version_needs())
        yield tags[Dt.VERNEED], tags[Dt.VERNEED] + VERSION_RECORD * records
    sizes = dict(was.hash_tables())
    if Dt.VERSYM in tags:
        yield tags[Dt.VERSYM], tags[Dt.VERSYM] + 2 * count
    sizes[Dt.RELR] = tags.get(Dt.RELRSZ, 0)
    sizes.update((tag, size) for tag, _, size in was.relocation_tables())
    for tag, size in sizes.items():
        if tag in tags and tags[tag] != now.tags.get(tag):
            yield tags[tag], tags[tag] + size
    yield from _global_offset_table(was, now)


def _global_offset_table(was: Dynamic, now: Dynamic) -> Iterator[tuple[int, int]]:
    """Yield the first word of the GOT if it has followed .dynamic to its new address."""
    word = was.image.structs.addr
    at = was.tags.get(Dt.PLTGOT)
    if at is None or at != now.tags.get(Dt.PLTGOT):
        return
    try:
        (old,) = word.unpack(was.image.loaded(at, word.size, "DT_PLTGOT"))
        (new,) = word.unpack(now.image.loaded(at, word.size, "DT_PLTGOT"))
    except BadElfError:
        return  # in .bss on some machines: not in the file
    if (old, new) == tuple(_address(image, Pt.DYNAMIC) for image in (was.image, now.image)):
        yield at, at + word.size


def _memory_differences(
    old: Image, new: Image, rewritten: Iterable[tuple[int, int]]
) -> Iterator[str]:
    # By file offset: a byte may be loaded to several addresses.
    ranges = merge_ranges(_file_ranges(old, rewritten))
    start, size = new.program_headers
    headers = set(_file_ranges(old, ((at, at + size) for at in _addresses(new, start))))
    ranges = merge_ranges([*ranges, *(place for place in headers if _is_free(old, *place, ranges))])
    loads = _loads_by_flags(new)
    for load in old.segments:
        if load.type != Pt.LOAD:
            continue
        same_flags = loads.get(load.flags, _Loads())
        if load.memsz > load.filesz and not _keeps_zeros(load, new, same_flags):
            yield f"the zeros at the end of {load_name(load)} are gone"
        for gap in gaps(load.offset, load.end, ranges):
            text = next(_gap_differences(load, gap, old, new, loads), None)
            if text is not None:
                yield text
                break


class _Loads(NamedTuple):
    """PT_LOAD segments with the same flags."""

    segments: Sequence[Segment] = ()
    """In the order of their addresses; they may overlap."""
    ends: Sequence[int] = ()
    """For each, the last address of the file bytes of it and of those before it."""


def _loads_by_flags(image: Image) -> Mapping[int, _Loads]:
    segments = sorted(image.loads, key=lambda segment: segment.vaddr)
    return {
        flags: _Loads(alike, [*accumulate((load.vaddr + load.filesz for load in alike), max)])
        for flags, alike in grouped(segments, lambda segment: segment.flags).items()
    }


def _file_ranges(image: Image, addresses: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the file offsets of these addresses, without those that no file bytes are mapped to."""
    for start, stop in addresses:
        with suppress(BadElfError):
            at, room = image.extent(start, "a table")
            yield at, at + min(room, stop - start)


def _gap_differences(
    load: Segment,
    gap: tuple[int, int],
    old: Image,
    new: Image,
    loads: Mapping[int, _Loads],
) -> Iterator[str]:
    """Compare a part of a segment with what `loads`, the segments of `new`, have there."""
    shift = load.vaddr - load.offset
    for start, stop, segment in _loaded_parts(gap[0] + shift, gap[1] + shift, load, old, loads):
        at, size = start - shift, stop - start
        before = old.view[at : at + size]
        if segment is not None:
            other = start - segment.vaddr + segment.offset
            place = first_difference(before, new.view[other : other + size])
            if place is not None:
                yield f"the byte loaded to {start + place:#x} changed"
        elif holds_tables_only(old, load) and set(before) <= FILLER:
            continue  # left from an earlier edit
        elif size >= PADDING or any(before):
            yield (
                f"{start:#x} to {stop:#x} of {load_name(load)} with flags {load.flags:#x}"
                " is gone or has other flags"
            )


def _loaded_parts(
    start: int, stop: int, load: Segment, old: Image, loads: Mapping[int, _Loads]
) -> Iterator[tuple[int, int, Segment | None]]:
    """Split the addresses by the segment that loads them with the flags of `load`.

    Segments with other flags may overlap it. A segment of tables may get .dynamic, which loaders
    write to.
    """
    for low, high, segment in _split_by_segment(start, stop, loads.get(load.flags, _Loads())):
        if segment is None and holds_tables_only(old, load):
            yield from _split_by_segment(low, high, loads.get(load.flags | PF_W, _Loads()))
        else:
            yield low, high, segment


def _split_by_segment(
    start: int, stop: int, loads: _Loads
) -> Iterator[tuple[int, int, Segment | None]]:
    """Split the addresses by the segment that loads them; None for a part without one."""
    for number in range(bisect_right(loads.ends, start), len(loads.segments)):
        segment = loads.segments[number]
        if segment.vaddr >= stop:
            break
        low, high = max(segment.vaddr, start), min(segment.vaddr + segment.filesz, stop)
        if low < high:
            if start < low:
                yield start, low, None
            yield low, high, segment
            start = high
    if start < stop:
        yield start, stop, None


def _keeps_zeros(load: Segment, new: Image, loads: _Loads) -> bool:
    """Return whether one of `loads`, segments of `new`, has the zeros (.bss) of `load`.

    They may have come into the file.
    """
    start, stop = load.vaddr + load.filesz, load.vaddr + load.memsz
    number = bisect_right(loads.segments, start, key=lambda segment: segment.vaddr) - 1
    if number < 0:
        return False
    segment = loads.segments[number]
    if start > segment.vaddr + segment.filesz:
        return False
    at = start - segment.vaddr + segment.offset
    filled = min(stop, segment.vaddr + segment.filesz) - start
    is_loaded = stop <= segment.vaddr + segment.memsz
    return is_loaded and not any(map(any, pieces(new.view[at : at + filled])))
