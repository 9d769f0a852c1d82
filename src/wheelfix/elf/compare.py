"""Comparison of an edited ELF object with the original.

The edited object must read as predicted, and everything else must load to the same bytes at the
same addresses: code, data, symbols, relocations, constructors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import fields
from itertools import islice, pairwise, zip_longest
from typing import cast

from wheelfix.elf.constants import (
    PF_W,
    PF_X,
    SHF_ALLOC,
    SHN_LORESERVE,
    STB_WEAK,
    STT_SECTION,
    TABLE_TAGS,
    VER_NDX_GLOBAL,
    VERSYM_INDEX,
    Dt,
    Pt,
    Sht,
)
from wheelfix.elf.dynamic_tables import Dynamic
from wheelfix.elf.growth import holds_tables_only
from wheelfix.elf.image import Buffer, Image, Section
from wheelfix.elf.model import Elf, Segment
from wheelfix.elf.page_sizes import PAGE_SIZES, SMALLEST_PAGE
from wheelfix.elf.reader import read_elf
from wheelfix.errors import BadElfError
from wheelfix.system.mapped_pieces import pieces

_MOST_SHOWN = 3
_PADDING = 64
"""Zeros fewer than this between two tables that moved are padding, and may go."""
_FILLER = {0, *b"XZ"}
"""Bytes without a meaning: patchelf fills the former places of sections with X or Z."""
_PLACED = {
    Pt.DYNAMIC,
    Pt.INTERP,
    Pt.NOTE,
    Pt.PHDR,
    Pt.TLS,
    Pt.GNU_EH_FRAME,
    Pt.GNU_PROPERTY,
}
"""Program headers of what is loaded: address and offset must say the same place."""
_COMPARED_OTHERWISE = {
    Pt.NULL,
    Pt.LOAD,
    Pt.DYNAMIC,
    Pt.INTERP,
    Pt.NOTE,
    Pt.PHDR,
    Pt.GNU_STACK,
    Pt.GNU_RELRO,
    Pt.GNU_PROPERTY,
}
"""Program headers that an edit may change, or that are compared by what they mean."""
_EDITED = {Dt.NEEDED, Dt.SONAME, Dt.RPATH, Dt.RUNPATH}
_MOVABLE = TABLE_TAGS | {Dt.STRSZ}
"""Tags of tables that are compared by content, at any address."""


def differences(before: Buffer, after: Buffer, predicted: Elf, name: str) -> tuple[str, ...]:
    """Return the differences of `after` from the object `before` with the predicted edit.

    Empty if `after` reads as `predicted` (segments but PT_GNU_STACK aside, as an edit may add one)
    and loads the rest of `before` unchanged. Each text gives the expected and the found value.
    Raises `BadElfError` if `before` cannot be read.
    """
    try:
        actual = read_elf(after, name)
    except BadElfError as error:
        return (f"it cannot be read after the edit: {error.message}",)
    found = list(_unlike(predicted, actual))
    with memoryview(before) as old_view, memoryview(after) as new_view:
        old, new = Image.parse(old_view, name), Image.parse(new_view, name)
        try:
            found += _image_differences(old, new)
        except BadElfError as error:
            found.append(f"its tables cannot be compared: {error.message}")
    return tuple(found)


def _unlike(predicted: Elf, actual: Elf) -> Iterator[str]:
    for field in fields(actual):
        want: object = getattr(predicted, field.name)
        got: object = getattr(actual, field.name)
        if field.name == "segments":
            yield from _stack_differences(predicted, actual)
            continue
        if want == got:
            continue
        if isinstance(want, tuple) and isinstance(got, tuple):
            rows = cast("tuple[object, ...]", want), cast("tuple[object, ...]", got)
            yield f"{field.name}: {_unlike_tuples(*rows)}"
        else:
            yield f"{field.name}: predicted {want!r}, found {got!r}"


def _stack_differences(predicted: Elf, actual: Elf) -> Iterator[str]:
    """Compare the flags of PT_GNU_STACK, by which the loader makes the stack executable."""
    was, now = (
        next((_kept_of(s) for s in reversed(elf.segments) if s.type == Pt.GNU_STACK), "nothing")
        for elf in (predicted, actual)
    )
    if was != now:
        yield f"PT_GNU_STACK changed from {was} to {now}"


def _unlike_tuples(want: tuple[object, ...], got: tuple[object, ...]) -> str:
    if len(want) + len(got) <= 2 * _MOST_SHOWN:
        return f"predicted {want}, found {got}"
    pairs = [(w, g) for w, g in zip(want, got, strict=False) if w != g][:_MOST_SHOWN]
    lengths = f"{len(want)} predicted, {len(got)} found; " if len(want) != len(got) else ""
    return lengths + "; ".join(f"predicted {w}, found {g}" for w, g in pairs)


def _image_differences(old: Image, new: Image) -> Iterator[str]:
    if old.entry != new.entry:
        yield f"the entry point moved from {old.entry:#x} to {new.entry:#x}"
    yield from _segment_differences(old, new)
    was, now = Dynamic.parse(old), Dynamic.parse(new)
    if was is None or now is None:
        if (was is None) != (now is None):
            yield "the dynamic section came or went"
        yield from _section_differences(old, new, [], {})
        yield from _memory_differences(old, new, _header_ranges(old, new))
        return
    yield from _tag_differences(was, now)
    yield from _version_differences(was, now)
    yield from _symbol_differences(was, now)
    yield from _relocation_differences(was, now)
    yield from _hash_differences(was, now)
    if sorted(_notes(old)) != sorted(_notes(new)):
        yield "the contents of the PT_NOTE segments changed"
    rewritten = [*_header_ranges(old, new), *_table_ranges(was, now)]
    moved = {_dynamic_address(was): _dynamic_address(now)}
    yield from _section_differences(old, new, rewritten, moved)
    yield from _memory_differences(old, new, rewritten)


def _segment_differences(old: Image, new: Image) -> Iterator[str]:
    aligned = min((s.align for s in old.segments if s.type == Pt.LOAD), default=0)
    known = set(_segment_faults(old, aligned))
    yield from (fault for fault in _segment_faults(new, aligned) if fault not in known)
    was, now = _kept_of(old.segment(Pt.GNU_RELRO)), _kept_of(new.segment(Pt.GNU_RELRO))
    if was != now and not _is_relro_without_dynamic(old, new):
        yield f"PT_GNU_RELRO changed from {was} to {now}"
    had, has = _other_segments(old), _other_segments(new)
    for kind in sorted({segment.type for segment in (had - has) + (has - had)}):
        gone = next((s for s in had - has if s.type == kind), None)
        come = next((s for s in has - had if s.type == kind), None)
        yield f"{_type(kind)} changed from {_kept_of(gone)} to {_kept_of(come)}"


def _other_segments(image: Image) -> Counter[Segment]:
    """Return the program headers that no edit changes, without their offsets in the file."""
    return Counter(
        s._replace(offset=0) for s in image.segments if s.type not in _COMPARED_OTHERWISE
    )


def _type(kind: int) -> str:
    return f"PT_{Pt(kind).name}" if kind in set(Pt) else f"the program header of type {kind:#x}"


def _is_relro_without_dynamic(old: Image, new: Image) -> bool:
    """Return whether PT_GNU_RELRO only lost .dynamic, which it began with, and which moved."""
    was, now = old.segment(Pt.GNU_RELRO), new.segment(Pt.GNU_RELRO)
    left, moved = old.segment(Pt.DYNAMIC), new.segment(Pt.DYNAMIC)
    if was is None or now is None or left is None or moved is None:
        return False
    return (
        was.vaddr == left.vaddr != moved.vaddr
        and was.vaddr + was.memsz == now.vaddr + now.memsz
        and left.vaddr <= now.vaddr <= left.vaddr + left.memsz + _PADDING
        and was.flags == now.flags
    )


def _segment_faults(image: Image, aligned: int) -> Iterator[str]:
    """Yield what a loader may reject; `aligned` is the least p_align before the edit."""
    loads = [s for s in image.segments if s.type == Pt.LOAD]
    pages = PAGE_SIZES.get(image.machine)
    page = min(pages.kernels[-1] if pages else SMALLEST_PAGE, aligned)
    for load in loads:
        if load.align > 1 and (load.vaddr - load.offset) % load.align:
            yield f"{_load(load)} is not congruent to its offset {load.offset:#x} mod p_align"
        if load.align < page:
            yield f"{_load(load)} is aligned to {load.align:#x}, and {page:#x} is needed"
        if load.flags & PF_W and load.flags & PF_X:
            yield f"{_load(load)} is writable and executable"
    unit = max(page, 1)
    for first, second in pairwise(loads):
        end = first.vaddr + first.memsz
        if end > second.vaddr:
            yield f"{_load(first)} and {_load(second)} overlap or are out of order"
        # Loaders map whole pages, and fill the last one of .bss with zeros.
        elif -(-end // unit) > second.vaddr // unit and (
            first.vaddr - first.offset != second.vaddr - second.offset or first.memsz > first.filesz
        ):
            yield f"{_load(first)} and {_load(second)} need different contents of one page"
    yield from _place_faults(image, loads)


def _place_faults(image: Image, loads: Sequence[Segment]) -> Iterator[str]:
    """Yield what is not loaded as its program header says; the texts have no addresses."""
    for kind in _PLACED:
        headers = [s for s in image.segments if s.type == kind and s.filesz]
        if any(_offset_of(image, s.vaddr) != s.offset for s in headers):
            yield f"PT_{kind.name} has an offset that is not loaded to its address"
    start, size = image.program_headers
    if not any(s.offset <= start and start + size <= s.offset + s.filesz for s in loads):
        yield "no segment holds the whole table of program headers, which musl's loader needs"
    dynamic = image.segment(Pt.DYNAMIC)
    if dynamic is not None and dynamic.flags & PF_W:
        holding = [s for s in loads if s.vaddr <= dynamic.vaddr < s.vaddr + s.memsz]
        if not any(s.flags & PF_W for s in holding):
            yield "the dynamic section, which loaders write to, is loaded read-only"


def _offset_of(image: Image, address: int) -> int | None:
    try:
        return image.extent(address, "a segment")[0]
    except BadElfError:
        return None


def _load(segment: Segment) -> str:
    return f"the segment loaded to {segment.vaddr:#x}"


def _kept_of(segment: Segment | None) -> str:
    if segment is None:
        return "nothing"
    if segment.type == Pt.GNU_STACK:
        return f"flags {segment.flags:#x}"
    text = f"address {segment.vaddr:#x}, size {segment.memsz:#x}, flags {segment.flags:#x}"
    if segment.type == Pt.GNU_RELRO:
        return text
    return f"{text}, {segment.filesz:#x} bytes of the file, alignment {segment.align:#x}"


def _tag_differences(was: Dynamic, now: Dynamic) -> Iterator[str]:
    expected = _version_tags(was, now)
    for tag in sorted({*was.tags, *now.tags} - _EDITED):
        old, new = expected.get(tag, was.tags.get(tag)), now.tags.get(tag)
        if (old is None) != (new is None) or (old != new and tag not in _MOVABLE):
            yield f"{_tag(tag)} changed from {_hex(old)} to {_hex(new)}"
    counts = Counter(tag for tag, _ in was.entries)
    for tag, count in Counter(tag for tag, _ in now.entries).items():
        if tag != Dt.NEEDED and count > max(counts[tag], 1):
            yield f"{_tag(tag)} occurs {count} times"


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
    rest = iter([versions for _, versions in old])
    if not all(versions in rest for _, versions in new):
        yield "the needed versions or their indices changed"
    old_needed, new_needed = _needed(was), _needed(now)
    dangling = {file for file, _ in old} - old_needed
    for file, _ in new:
        if file not in new_needed and file not in dangling:
            yield f"versions are needed from `{file}`, which is not in DT_NEEDED"
    if list(was.version_definitions()) != list(now.version_definitions()):
        yield "the defined versions changed"


def _needed(dynamic: Dynamic) -> set[str]:
    return {dynamic.string(v, "DT_NEEDED") for tag, v in dynamic.entries if tag == Dt.NEEDED}


def _symbol_differences(was: Dynamic, now: Dynamic) -> Iterator[str]:
    count = was.symbol_count
    if now.symbol_count != count:
        yield f"the dynamic symbols changed in number from {count} to {now.symbol_count}"
        return
    if count:
        yield from islice(_unlike_symbols(was, now, count), _MOST_SHOWN)
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
            yield f"`{was.string(name, 'a symbol')}` lost its version, but is no weak reference"
    expected = list(old or ())
    for number in lost:
        expected[number] = VER_NDX_GLOBAL
    if list(new or ()) != expected and not (new is None and max(expected) <= VER_NDX_GLOBAL):
        yield "the version indices of the symbols changed"


def _unlike_symbols(was: Dynamic, now: Dynamic, count: int) -> Iterator[str]:
    moved = {_dynamic_address(was): _dynamic_address(now)}
    tables = list(_table_ranges(was, now))
    has_same_strings = now.strings.startswith(was.strings)
    pairs = zip(was.symbols(0, count), now.symbols(0, count), strict=True)
    for old, new in pairs:
        if has_same_strings and old == new:
            continue
        name, other = _symbol_name(was, old), _symbol_name(now, new)
        if name != other:
            yield f"symbol `{name}` changed its name to `{other}`"
        if _section_kind(old[3]) != _section_kind(new[3]):
            yield f"symbol `{name}` changed its section from {old[3]:#x} to {new[3]:#x}"
        if not _is_same_value(old, new, tables, moved):
            yield f"symbol `{name}` changed its value from {old[4]:#x} to {new[4]:#x}"
        if (old[1], old[2], old[5]) != (new[1], new[2], new[5]):
            yield (
                f"symbol `{name}` changed its info, other or size"
                f" from {old[1]:#x}, {old[2]:#x}, {old[5]:#x}"
                f" to {new[1]:#x}, {new[2]:#x}, {new[5]:#x}"
            )


def _is_same_value(
    old: tuple[int, ...],
    new: tuple[int, ...],
    tables: Iterable[tuple[int, int]],
    moved: Mapping[int, int],
) -> bool:
    """Return whether a symbol has its value, or follows what moved."""
    if old[4] == new[4] or moved.get(old[4]) == new[4]:
        return True
    # A section symbol moves with its table, which is compared by content.
    return old[1] & 0xF == STT_SECTION and any(a <= old[4] < b for a, b in tables)


def _section_differences(
    old: Image, new: Image, tables: Sequence[tuple[int, int]], moved: Mapping[int, int]
) -> Iterator[str]:
    """Compare what only section headers lead to, such as .symtab and debug information.

    patchelf reorders sections: they are paired by name.
    """
    if not old.sections:
        return
    if not new.sections:
        yield "the section headers are gone"
        return
    known = set(_section_faults(old))
    yield from islice((fault for fault in _section_faults(new) if fault not in known), _MOST_SHOWN)
    was, now = _unloaded_sections(old), _unloaded_sections(new)
    stripped = _stripped_sections(old, new)
    for key in [key for key, section in was.items() if section not in stripped]:
        section, other = was[key], now.get(key)
        text = _name(key[0])
        if other is None or (section.type, section.size) != (other.type, other.size):
            yield f"section {text} is gone, or has another type or size"
        elif _link(old, section) != _link(new, other):
            yield f"section {text} has another sh_link"
        elif section.type == Sht.SYMTAB:
            if not _has_same_symbols(old, new, (section, other), tables, moved):
                yield f"the symbols of section {text} changed"
        elif section.type != Sht.NOBITS:
            old.spend(1 + (section.size >> 12), "the sections")
            place = section.offset, other.offset
            if _first_difference(old.view, new.view, *place, section.size) is not None:
                yield f"the content of section {text} changed"


def _stripped_sections(old: Image, new: Image) -> AbstractSet[Section]:
    """Return the sections that `elf.strip` drops, and the names of sections, which may get one.

    It drops all debug sections or none. Whether it was to drop them is compared by their sizes.
    """
    was, now = _unloaded_sections(old).values(), _unloaded_sections(new).values()
    found = {section for section in was if old.is_debug_section(section)}
    if any(new.is_debug_section(section) for section in now):
        return frozenset()
    tables = {section for section in was if section.type == Sht.SYMTAB}
    if not any(section.type == Sht.SYMTAB for section in now):
        found |= tables | {old.sections[s.link] for s in tables if old.has(s.link)}
    if not found:
        return frozenset()
    kinds = {Sht.REL, Sht.RELA, Sht.SYMTAB_SHNDX}
    found |= {s for s in was if s.type in kinds or old.section_name(s) == b".gnu_debuglink"}
    return found | {old.sections[old.section_names]} if old.has(old.section_names) else found


def _section_faults(image: Image) -> Iterator[str]:
    """Yield the sections whose address and offset are of different places, by name alone."""
    for section in image.sections:
        is_loaded = section.flags & SHF_ALLOC and section.type not in {Sht.NULL, Sht.NOBITS}
        if is_loaded and section.size and _offset_of(image, section.addr) != section.offset:
            name = _name(image.section_name(section))
            yield f"section {name} has an offset that is not loaded to its address"


def _unloaded_sections(image: Image) -> dict[tuple[bytes, int], Section]:
    """Return the sections that are not loaded, by name and number among those of that name."""
    found: dict[tuple[bytes, int], Section] = {}
    count: Counter[bytes] = Counter()
    for section in image.sections:
        if section.type != Sht.NULL and not section.flags & SHF_ALLOC:
            name = image.section_name(section)
            found[name, count[name]] = section
            count[name] += 1
    return found


def _name(name: bytes) -> str:
    return f"`{name.decode(errors='backslashreplace')}`"


def _link(image: Image, section: Section) -> bytes:
    """Return the name of the section that `sh_link` leads to."""
    if not image.has(section.link):
        return b""
    return image.section_name(image.sections[section.link])


def _has_same_symbols(
    old: Image,
    new: Image,
    sections: tuple[Section, Section],
    tables: Sequence[tuple[int, int]],
    moved: Mapping[int, int],
) -> bool:
    """Compare tables of symbols of the same size: editors let values follow what they move."""
    first, second = (
        image.read(section.offset, section.size, "the symbols")
        for image, section in zip((old, new), sections, strict=True)
    )
    if first == second:
        return True
    whole = len(first) - len(first) % old.structs.sym.size
    old.spend(whole // old.structs.sym.size, "the symbols")
    was, now = old.structs.symbols(first[:whole]), new.structs.symbols(second[:whole])
    stripped = _stripped_sections(old, new)
    gone = {number for number, section in enumerate(old.sections) if section in stripped}
    return first[whole:] == second[whole:] and all(
        (
            (a[0], a[1], a[2], a[5]) == (b[0], b[1], b[2], b[5])
            and _section_kind(a[3]) == _section_kind(b[3])
            and _is_same_value(a, b, tables, moved)
        )
        or (a[3] in gone and not any(b))
        for a, b in zip(was, now, strict=True)
        if a != b
    )


def _symbol_name(dynamic: Dynamic, entry: tuple[int, ...]) -> str:
    return dynamic.string(entry[0], "a symbol's name")


def _section_kind(index: int) -> int:
    """Return SHN_UNDEF and reserved indices as they are, 1 for any section."""
    return index if index == 0 or index >= SHN_LORESERVE else 1


def _dynamic_address(dynamic: Dynamic) -> int:
    segment = dynamic.image.segment(Pt.DYNAMIC)
    return segment.vaddr if segment is not None else 0


def _relocation_differences(was: Dynamic, now: Dynamic) -> Iterator[str]:
    old_tables, new_tables = ({t.tag: t for t in d.relocations()} for d in (was, now))
    for tag in sorted({*old_tables, *new_tables}):
        old, new = old_tables.get(tag), new_tables.get(tag)
        if old is None or new is None or len(old.raw) != len(new.raw):
            yield f"the relocations of DT_{tag.name} changed in number"
            continue
        pairs = zip(old.struct.iter_unpack(old.raw), new.struct.iter_unpack(new.raw), strict=True)
        unlike = ((a, b) for a, b in pairs if a != b) if old.raw != new.raw else iter(())
        for a, b in islice(unlike, _MOST_SHOWN):
            yield (
                f"a relocation of DT_{tag.name} changed from {_relocation(was, a)}"
                f" to {_relocation(now, b)}"
            )
    if _relr(was) != _relr(now):
        yield "the relocations of DT_RELR changed"


def _relocation(dynamic: Dynamic, entry: tuple[int, ...]) -> str:
    offset, info, *addends = entry
    wide = dynamic.image.structs.bits == 64
    number, kind = (info >> 32, info & 0xFFFFFFFF) if wide else divmod(info, 256)
    symbol = f"the missing symbol {number}"
    if number < dynamic.symbol_count:
        for target in dynamic.symbols(number, number + 1):
            symbol = f"symbol `{_symbol_name(dynamic, target)}`"
    addend = "".join(f", addend {value:#x}" for value in addends)
    return f"(offset {offset:#x}, type {kind}, {symbol}{addend})"


def _relr(dynamic: Dynamic) -> bytes:
    if Dt.RELR not in dynamic.tags:
        return b""
    size = dynamic.tags.get(Dt.RELRSZ, 0)
    return dynamic.image.loaded(dynamic.tags[Dt.RELR], size, "DT_RELR")


def _hash_differences(was: Dynamic, now: Dynamic) -> Iterator[str]:
    for (tag, old_size), (_, new_size) in zip(was.hash_tables(), now.hash_tables(), strict=False):
        old = was.image.loaded(was.tags[tag], old_size, f"DT_{tag.name}")
        if old != now.image.loaded(now.tags[tag], new_size, f"DT_{tag.name}"):
            yield f"the hash table of DT_{tag.name} changed"


def _notes(image: Image) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield single notes: patchelf splits PT_NOTE segments into one for each section."""
    for segment in image.segments:
        if segment.type == Pt.NOTE:
            yield from image.notes(segment.offset, segment.filesz)


def _header_ranges(old: Image, new: Image) -> Iterator[tuple[int, int]]:
    """Yield the addresses of the headers, and of PT_INTERP and notes that moved."""
    old_sections = (old.section_headers, len(old.sections) * old.structs.shdr.size)
    for offset, size in ((0, old.header_size), old.program_headers, old_sections):
        for start in _addresses(old, offset):
            yield start, start + size
    now = {s.vaddr for s in new.segments if s.type in {Pt.INTERP, Pt.NOTE}}
    for segment in old.segments:
        if segment.type in {Pt.INTERP, Pt.NOTE} and segment.vaddr not in now:
            yield segment.vaddr, segment.vaddr + segment.filesz


def _addresses(image: Image, offset: int) -> Iterator[int]:
    """Yield the addresses that a byte of the file is loaded to."""
    for load in image.segments:
        if load.type == Pt.LOAD and load.offset <= offset < load.offset + load.filesz:
            yield load.vaddr + offset - load.offset


def _new_header_ranges(
    old: Image, new: Image, rewritten: Iterable[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Yield the addresses of the new program headers if only `rewritten` or filler was there."""
    offset, size = new.program_headers
    known = sorted(_file_ranges(old, rewritten))
    for start in _addresses(new, offset):
        for low, high in _file_ranges(old, [(start, start + size)]):
            if all(set(old.view[a:b]) <= _FILLER for a, b in _gaps(low, high, known)):
                yield start, start + size


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
    if Dt.VERNEED in tags:  # 16 bytes for each Verneed and Vernaux record
        records = sum(1 + len(versions) for _, versions in was.version_needs())
        yield tags[Dt.VERNEED], tags[Dt.VERNEED] + 16 * records
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
    if (old, new) == (_dynamic_address(was), _dynamic_address(now)):
        yield at, at + word.size


def _memory_differences(
    old: Image, new: Image, rewritten: Iterable[tuple[int, int]]
) -> Iterator[str]:
    # By file offset: a byte may be loaded to several addresses.
    known = list(rewritten)
    ranges = sorted(_file_ranges(old, [*known, *_new_header_ranges(old, new, known)]))
    for load in old.segments:
        if load.type != Pt.LOAD:
            continue
        if load.memsz > load.filesz and not _zeros_kept(load, new):
            yield f"the zeros at the end of {_load(load)} are gone"
        for gap in _gaps(load.offset, load.offset + load.filesz, ranges):
            text = next(_gap_differences(load, gap, old, new), None)
            if text is not None:
                yield text
                break


def _file_ranges(image: Image, addresses: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the file offsets of these addresses, without those that no file bytes are mapped to."""
    for start, stop in addresses:
        with suppress(BadElfError):
            at, room = image.extent(start, "a table")
            yield at, at + min(room, stop - start)


def _gap_differences(load: Segment, gap: tuple[int, int], old: Image, new: Image) -> Iterator[str]:
    shift = load.vaddr - load.offset
    flags = {load.flags}
    if holds_tables_only(old, load):
        flags.add(load.flags | PF_W)  # it may get .dynamic, which loaders write to
    for start, stop, segment in _loaded_by(gap[0] + shift, gap[1] + shift, flags, new):
        at, size = start - shift, stop - start
        if segment is not None:
            other = start - segment.vaddr + segment.offset
            found = _first_difference(old.view, new.view, at, other, size)
            if found is not None:
                yield f"the byte loaded to {start + found:#x} changed"
        elif size >= _PADDING or any(old.view[at : at + size]):
            yield (
                f"{start:#x} to {stop:#x} of {_load(load)} with flags {load.flags:#x}"
                " is gone or has other flags"
            )


def _loaded_by(
    start: int, stop: int, flags: AbstractSet[int], new: Image
) -> Iterator[tuple[int, int, Segment | None]]:
    """Split the addresses by the segment of `new` that loads them; None for a part without one."""
    segments = [s for s in new.segments if s.type == Pt.LOAD and s.flags in flags]
    for segment in sorted(segments, key=lambda segment: segment.vaddr):
        low, high = max(segment.vaddr, start), min(segment.vaddr + segment.filesz, stop)
        if low < high:
            if start < low:
                yield start, low, None
            yield low, high, segment
            start = high
    if start < stop:
        yield start, stop, None


def _zeros_kept(load: Segment, new: Image) -> bool:
    """Return whether a segment of `new` has the same zeros (.bss) where `load` has them.

    They may have come into the file.
    """
    start, stop = load.vaddr + load.filesz, load.vaddr + load.memsz
    for segment in new.segments:
        if segment.type != Pt.LOAD or segment.flags != load.flags:
            continue
        if segment.vaddr <= start <= segment.vaddr + segment.filesz:
            at = start - segment.vaddr + segment.offset
            filled = min(stop, segment.vaddr + segment.filesz) - start
            is_loaded = stop <= segment.vaddr + segment.memsz
            return is_loaded and not any(map(any, pieces(new.view[at : at + filled])))
    return False


def _gaps(start: int, stop: int, ranges: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the parts of `start` to `stop` outside of the sorted `ranges`."""
    for low, high in ranges:
        if low >= stop:
            break
        if low > start:
            yield start, low
        start = max(start, high)
    if start < stop:
        yield start, stop


def _first_difference(
    old: memoryview, new: memoryview, place: int, other: int, size: int
) -> int | None:
    """Return the offset of the first byte that differs, None if all are equal.

    A header may state any size: beyond the ends of both files there is nothing to compare.
    """
    old_pieces, new_pieces = pieces(old[place : place + size]), pieces(new[other : other + size])
    done = 0
    for first, second in zip_longest(old_pieces, new_pieces, fillvalue=b""):
        if first != second:
            pairs = enumerate(zip(first, second, strict=False))
            equal = min(len(first), len(second))
            return done + next((at for at, (a, b) in pairs if a != b), equal)
        done += len(first)
    return None
