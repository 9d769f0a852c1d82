"""Room for tables of an object that grow: a segment behind all others.

.dynstr and .dynamic get their new place there, and no other byte of the loaded image moves. The
segment is, in this order,

- the last one, made longer, if nothing but bytes of the file is loaded there (no .bss): an earlier
  edit made it. What is not loaded, such as debug information, moves behind it;
- a new one at the end of the file, if its program header finds a place: that of a PT_NULL, that of
  the PT_PHDR of a library, which only programs need (gABI chapter 5) and bionic unless a segment
  begins with the ELF header (linker_phdr.cpp, ElfReader::FindPhdr), or the bytes behind the
  table of program headers. These are unused, or those of hash tables, notes that no code reads and
  the like, which then move to the new segment, too;
- the last one, made longer, with the zeros of .bss in the file.

The table of program headers stays behind the ELF header. binutils' strip and objcopy always write
it there (bfd/elf.c, assign_file_positions_for_load_sections), eu-strip writes over one that no
section covers, Linux before 5.18 looks for a program's there (fs/binfmt_elf.c, AT_PHDR),
and glibc takes it for a part of any segment whose last page reaches as far (elf/dl-load.c).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import product

from wheelfix.elf.constants import (
    PF_R,
    PF_W,
    PF_X,
    PN_XNUM,
    SHF_ALLOC,
    SHN_LORESERVE,
    Dt,
    Pt,
    Sht,
)
from wheelfix.elf.dynamic_tables import Dynamic
from wheelfix.elf.image import Image, Section
from wheelfix.elf.machine_page_sizes import PAGE_SIZES
from wheelfix.elf.model import DF_1_PIE, Segment
from wheelfix.frozen import frozen
from wheelfix.named_tuple import NamedTuple

_MOVABLE_NOTES = {
    b".note.gnu.build-id",
    b".note.gnu.property",
    b".note.ABI-tag",
    b".note.package",
    b".note.dlopen",
    b".note.go.buildid",
}
"""Notes that are found by PT_NOTE or by their section. Code may read any other note by its address,
as Qt plugins read .note.qt.metadata, and no proof can find such a reference."""
_MOVABLE_SECTIONS = {
    Sht.NOTE,
    Sht.HASH,
    Sht.GNU_HASH,
    Sht.DYNSYM,
    Sht.GNU_VERSYM,
    Sht.GNU_VERNEED,
    Sht.GNU_VERDEF,
    Sht.REL,
    Sht.RELA,
}
_MOVABLE_HEADERS = {Pt.NOTE, Pt.INTERP, Pt.GNU_PROPERTY}
"""Program headers of what may move."""
FILLER = {0, *b"XZ"}
"""Bytes without a meaning: patchelf fills the former places of sections with X or Z."""
_UNIT = 64
"""Bytes; few sections need more alignment in the file."""
_LARGE_UNIT = 1 << 12
"""Bytes; no section that is not loaded needs more."""
_LARGEST_BSS = 1 << 20
"""Bytes of zeros that are written to the file rather than to have the object refused."""
_SPARE = 4
"""Entries left empty at the end of a moved .dynamic, as GNU ld does, for the next edit."""
_LARGEST_BLOCK = 1 << 24
"""Bytes that may move to make room for one program header."""


class NoRoomError(Exception):
    """Why an edit does not fit into an object, in words that follow "because"."""


@frozen(kw_only=False)
class Tables:
    """The tables of an object that an edit changes, as they are to be written."""

    dynamic: Dynamic
    """The dynamic section as it is."""
    entries: tuple[tuple[int, int], ...]
    """(d_tag, d_val), without the final DT_NULL; addresses are those from before the edit."""
    strings: bytes
    """.dynstr"""
    sections: tuple[Section, ...]
    """The section headers, with the old places."""

    @property
    def image(self) -> Image:
        """The object as it is."""
        return self.dynamic.image

    @property
    def moves_strings(self) -> bool:
        """Whether .dynstr has no room in its place."""
        return len(self.strings) > len(self.dynamic.strings)

    @cached_property
    def moves_dynamic(self) -> bool:
        """Whether .dynamic has no room in its place: zeroed entries behind it are room."""
        image, used = self.image, len(self.dynamic.entries)
        segment, size = image.segment(Pt.DYNAMIC), image.structs.dyn.size
        if segment is None or segment.filesz < used * size:
            return len(self.entries) > used
        at, mapped = image.extent(segment.vaddr, "the dynamic section")
        raw = bytes(image.view[at + used * size : at + min(segment.filesz, mapped)])
        zeros = (len(raw) - len(raw.lstrip(b"\0"))) // size
        return len(self.entries) > used + max(zeros - 1, 0)  # the last one is the final DT_NULL

    @property
    def is_program(self) -> bool:
        """Whether the kernel starts the object, also as a program that relocates itself."""
        return self.image.is_program or bool(self.dynamic.tags.get(Dt.FLAGS_1, 0) & DF_1_PIE)


class Move(NamedTuple):
    """A range of the loaded image that gets a new place, and perhaps a new size."""

    old_offset: int
    old_vaddr: int
    old_size: int
    size: int
    align: int
    """The new address is the old one modulo this."""
    order: int
    """Number of its first section: binutils expect addresses in that order."""
    offset: int = 0
    """The new place, as a file offset and as an address."""
    vaddr: int = 0

    @property
    def step(self) -> int:
        """The new address less the old one."""
        return self.vaddr - self.old_vaddr

    def holds(self, vaddr: int, size: int) -> bool:
        """Return whether `size` bytes from an address are in the old range."""
        return (
            self.old_vaddr <= vaddr < self.old_vaddr + self.old_size
            and vaddr + size <= self.old_vaddr + self.old_size
        )

    def relocate(self, header: Segment) -> Segment:
        """Return the program header of something in the range, with its new place."""
        vaddr = header.vaddr + self.step
        offset = self.offset + header.vaddr - self.old_vaddr
        return header._replace(offset=offset, vaddr=vaddr, paddr=vaddr)


class TableLayout(NamedTuple):
    """Where the tables of an object go."""

    headers: tuple[Segment, ...]
    """All program headers of the new object."""
    moves: tuple[Move, ...] = ()
    """What gets a new place."""
    gap: range = range(0)
    """The bytes that are inserted, as offsets in the new file."""


class _Room(NamedTuple):
    """The segment that gets the tables."""

    gap: int
    """File offset at which bytes are inserted."""
    start: int
    """File offset from which tables are written."""
    shift: int
    """The address of each byte less its file offset."""
    headers: tuple[Segment, ...]
    """All program headers, but for the size of this segment and for what moves."""
    number: int
    """Index of the segment in `headers`."""
    block: tuple[Move, ...] = ()
    """What moves away for its program header, if anything does."""


def lay_out(tables: Tables) -> TableLayout:
    """Find places for the tables: where they are, or in a segment for those that have no room.

    Raises `NoRoomError` where such a segment cannot be had safely.
    """
    image = tables.image
    if not tables.moves_strings and not tables.moves_dynamic:
        return TableLayout(image.segments)
    reason = next(_refusals(tables), None)
    if reason is not None:
        raise NoRoomError(reason)
    room = _room(tables)
    moves = tuple(_places(room, [*room.block, *_moves(tables)]))
    end = max(move.offset + move.size for move in moves)
    if max(end, end + room.shift) >= 1 << (image.structs.bits - 1):
        raise NoRoomError("its addresses are used up")
    headers = _headers(tables, room, moves, end)
    return TableLayout(headers, moves, range(room.gap, room.gap + _gap_size(image, room, end)))


def _refusals(tables: Tables) -> Iterator[str]:
    """Yield why an object cannot get a segment, whatever its layout."""
    image = tables.image
    if image.header.machine not in PAGE_SIZES:
        yield f"the page sizes of machine {image.header.machine} are not known"
    if len(image.segments) >= PN_XNUM - 1 or len(image.sections) >= SHN_LORESERVE:
        yield "it has too many headers"
    if Dt.STRTAB not in tables.dynamic.tags:
        yield "it has no string table"
    addresses = [segment.vaddr for segment in image.loads]
    if not addresses or addresses != sorted(addresses):
        yield "its segments are not in the order of their addresses"
    if tables.moves_dynamic and tables.is_program and image.segment(Pt.INTERP) is None:
        yield "it relocates itself, from the place of its dynamic section"
    if image.appended:
        yield "bytes are appended to it, which may be found by their place"


# --- The segment ----------------------------------------------------------------------------------


def _room(tables: Tables) -> _Room:
    """Choose the segment for the tables, in the order of the module's description."""
    last = tables.image.loads[-1]
    longer = _longer_segment(tables, last)
    if longer is not None and last.memsz == last.filesz:
        return longer
    new = _new_segment(tables, last)
    if new is not None:
        return new
    if longer is not None and last.memsz - last.filesz <= _LARGEST_BSS:
        return longer
    raise NoRoomError("its table of program headers cannot grow where it is")


def _added_flags(tables: Tables) -> int:
    """Return PF_W if the segment gets a .dynamic that loaders write to (glibc, l_ld_readonly)."""
    dynamic = tables.image.segment(Pt.DYNAMIC)
    return dynamic.flags & PF_W if tables.moves_dynamic and dynamic is not None else 0


def _longer_segment(tables: Tables, last: Segment) -> _Room | None:
    """Return the last segment if it can be made longer, and what is behind it can move."""
    image = tables.image
    gap = last.offset + last.filesz
    flags = last.flags | _added_flags(tables)
    if last.flags & PF_X or (flags != last.flags and not holds_tables_only(image, last)):
        return None
    ends = [
        sum(image.program_headers),
        *(segment.offset + segment.filesz for segment in image.segments),
        *(s.offset + s.size for s in image.sections if s.flags & SHF_ALLOC and s.is_filled),
    ]
    if max(ends) > gap:
        return None
    size = len(image.view)
    if last.memsz == last.filesz and image.end_of_content <= gap:
        gap = size  # what is behind the segment is padding
    start = _up(max(gap, last.offset + last.memsz), _UNIT)
    headers = list(image.segments)
    number = headers.index(last)
    headers[number] = last._replace(flags=flags)
    return _Room(gap, start, last.vaddr - last.offset, tuple(headers), number)


def _new_segment(tables: Tables, last: Segment) -> _Room | None:
    """Return a new segment behind all others; None without a place for its program header."""
    image = tables.image
    headers = list(image.segments)
    unused = _unused_header(tables)
    block = _block_behind_headers(tables) if unused is None else ()
    if block is None:
        return None
    if unused is not None:
        del headers[unused]
    page = PAGE_SIZES[image.header.machine].linked
    size = len(image.view)
    start = _up(size, _UNIT)
    # An address in a page of its own, congruent to the file offset as loaders require.
    vaddr = _up(last.vaddr + last.memsz, page) + start % page
    header = Segment(Pt.LOAD, PF_R | _added_flags(tables), start, vaddr, vaddr, 0, 0, page)
    number = 1 + max(n for n, h in enumerate(headers) if h.type == Pt.LOAD)
    headers.insert(number, header)
    return _Room(size, start, vaddr - start, tuple(headers), number, block)


def _unused_header(tables: Tables) -> int | None:
    """Return the index of a program header that can be replaced, None without one."""
    segments = tables.image.segments
    first = tables.image.loads[0]
    # Without PT_PHDR, bionic looks for the table behind offset 0 of the first PT_LOAD.
    kinds = {Pt.NULL} if tables.is_program or first.offset else {Pt.NULL, Pt.PHDR}
    return next((n for n, segment in enumerate(segments) if segment.type in kinds), None)


# --- What moves to make room for one more program header ------------------------------------------


def _block_behind_headers(tables: Tables) -> tuple[Move, ...] | None:
    """Return what moves from behind the program headers, so that one more has room there.

    That may be nothing; None if they cannot be extended.
    """
    image = tables.image
    start = sum(image.program_headers)
    need = start + image.structs.phdr.size
    # musl needs the whole table in one segment.
    load = next((load for load in image.loads if load.has_offset(need - 1)), None)
    block = None if load is None else _block(tables, start, need, load)
    if load is None or block is None:
        return None
    inside = [n for n, s in enumerate(image.sections) if s.is_filled and s.offset in block]
    move = Move(
        old_offset=block.start,
        old_vaddr=block.start - load.offset + load.vaddr,
        old_size=len(block),
        size=len(block),
        align=64,
        order=min(inside, default=0),
    )
    return (move,) if block else ()


def _block(tables: Tables, start: int, need: int, load: Segment) -> range | None:
    """Return the file offsets that have to be vacated so that `start` to `need` is free.

    The block begins with the first section behind `start`, and takes one section after the other
    until it ends behind `need`. None if something in it must stay.
    """
    image = tables.image
    sections = sorted((s for s in image.sections if s.is_filled), key=lambda s: s.offset)
    sections = [section for section in sections if section.end > start]
    first = stop = free = sections[0].offset if sections else 0
    # Bytes before the block that are not zero belong to something that no section header names.
    if first < start or any(image.view[start : min(first, need)]):
        return None
    for section in sections:
        image.spend(1 + (len(image.segments) >> 4), "the sections")
        # A segment that begins in the block, such as PT_NOTE, must end in it.
        need = max([need, *(s.end for s in _whole(image) if s.offset < stop < s.end)])
        if section.offset >= need:
            free = need  # only padding is left before this section
            break
        free = max(free, section.end)
        if _is_vacated(tables, section):
            break  # it goes anyway, and is not a part of the block
        if not _is_movable(tables, section) or not load.has_offset(section.offset):
            return None
        stop = free
    is_cut = any(s.offset < at < s.end for s, at in product(_whole(image), {first, stop}))
    # Section header 0 is 64 zeros, and looks free.
    is_over_headers = image.header.shoff < max(need, stop) and start < image.end_of_section_headers
    is_free = free >= need and not is_cut and not is_over_headers
    return range(first, stop) if is_free and stop - first <= _LARGEST_BLOCK else None


def _whole(image: Image) -> Iterator[Segment]:
    """Yield the segments that move as a whole or not at all, where a part of them moves."""
    return (s for s in image.segments if s.type not in {Pt.LOAD, Pt.GNU_RELRO})


def _is_vacated(tables: Tables, section: Section) -> bool:
    """Return whether a section is the .dynstr that moves, and no other uses its bytes."""
    is_moved = (
        tables.moves_strings
        and section.type == Sht.STRTAB
        and section.addr == tables.dynamic.tags.get(Dt.STRTAB)
    )
    return is_moved and not any(
        other.offset < section.end and section.offset < other.end
        for other in tables.image.sections
        if other is not section and other.is_filled
    )


def _is_movable(tables: Tables, section: Section) -> bool:
    """Return whether a section is found by a tag or a program header alone, never by code."""
    if not section.flags & SHF_ALLOC:
        return False
    if section.type in {Sht.REL, Sht.RELA} and tables.is_program:
        return False  # static programs know its ends by symbols
    if section.type == Sht.NOTE:
        return tables.image.section_name(section) in _MOVABLE_NOTES
    interpreter = tables.image.segment(Pt.INTERP)
    is_interpreter = interpreter is not None and interpreter.vaddr == section.addr
    return section.type in _MOVABLE_SECTIONS or is_interpreter


# --- Places in the segment ------------------------------------------------------------------------


def _moves(tables: Tables) -> Iterator[Move]:
    """Yield the tables that have no room in their places."""
    image, vaddr = tables.image, tables.dynamic.tags[Dt.STRTAB]
    if tables.moves_strings:
        size = len(tables.dynamic.strings)
        yield Move(
            old_offset=image.offset(vaddr, size, "the string table"),
            old_vaddr=vaddr,
            old_size=size,
            size=len(tables.strings),
            align=16,
            order=_section_number(image, Sht.STRTAB, vaddr),
        )
    segment = image.segment(Pt.DYNAMIC)
    if tables.moves_dynamic and segment is not None:
        yield Move(
            old_offset=segment.offset,
            old_vaddr=segment.vaddr,
            old_size=max(segment.memsz, 1),
            size=(len(tables.entries) + 1 + _SPARE) * image.structs.dyn.size,
            align=16,
            order=_section_number(image, Sht.DYNAMIC, segment.vaddr),
        )


def _section_number(image: Image, kind: Sht, vaddr: int) -> int:
    numbers = (n for n, s in enumerate(image.sections) if s.type == kind and s.addr == vaddr)
    return next(numbers, len(image.sections))


def _places(room: _Room, moves: Sequence[Move]) -> Iterator[Move]:
    """Yield the moves with their places in the segment, one behind the other."""
    at = room.start
    for move in sorted(moves, key=lambda move: move.order):
        at += (move.old_vaddr - at - room.shift) % move.align
        yield move._replace(offset=at, vaddr=at + room.shift)
        at += move.size


def _gap_size(image: Image, room: _Room, end: int) -> int:
    """Return the bytes to insert so that the segment reaches to `end`.

    What is behind the gap keeps its alignment.
    """
    size = end - room.gap
    if room.gap == len(image.view):
        return size
    moved = (s for s in image.sections if s.offset >= room.gap and s.is_filled)
    return _up(size, _UNIT if all(section.align <= _UNIT for section in moved) else _LARGE_UNIT)


# --- The program headers --------------------------------------------------------------------------


def _headers(tables: Tables, room: _Room, moves: Sequence[Move], end: int) -> tuple[Segment, ...]:
    """Return the program headers, without those of segments that lose all their sections.

    strip and objcopy write a broken segment in the place of one without sections.
    """
    image = tables.image
    loads = [n for n, h in enumerate(room.headers) if h.type == Pt.LOAD and n != room.number]
    image.spend(len(loads) * len(image.sections) >> 4, "the sections")
    emptied = {n for n in loads if _is_emptied(image, room.headers[n], moves)}
    count = len(room.headers) - len(emptied)
    headers = [_header(tables, header, moves, count) for header in room.headers]
    if not all(_is_unused(image, room.headers[n], moves, headers) for n in emptied):
        raise NoRoomError("a segment would be left without sections, which strip breaks")
    size = end - headers[room.number].offset
    headers[room.number] = headers[room.number]._replace(filesz=size, memsz=size)
    return tuple(header for n, header in enumerate(headers) if n not in emptied)


def _header(tables: Tables, header: Segment, moves: Sequence[Move], count: int) -> Segment:
    """Return one of `count` program headers as it is after the edit."""
    if header.type == Pt.PHDR:
        size = tables.image.structs.phdr.size * count
        return header._replace(filesz=size, memsz=size)
    if header.type == Pt.GNU_RELRO and tables.moves_dynamic:
        return _relro(tables.image, header)
    if header.type == Pt.DYNAMIC and tables.moves_dynamic:
        move = next((m for m in reversed(moves) if m.old_vaddr == header.vaddr), None)
        if move is None:
            raise NoRoomError("it has two dynamic sections")
        return move.relocate(header)._replace(filesz=move.size, memsz=move.size)
    if header.type in _MOVABLE_HEADERS and header.filesz:
        move = next((m for m in moves if m.holds(header.vaddr, header.filesz)), None)
        return header if move is None else move.relocate(header)
    return header


def _relro(image: Image, header: Segment) -> Segment:
    """Let PT_GNU_RELRO begin with a section, as strip and objcopy take that for its start.

    Where .dynamic was the first, they would move the end of the range as far as its start.
    """
    dynamic = image.segment(Pt.DYNAMIC)
    if dynamic is None or header.vaddr != dynamic.vaddr:
        return header
    after = dynamic.vaddr + dynamic.memsz
    left = range(after, header.vaddr + header.memsz)
    inside = [s.addr for s in image.sections if s.flags & SHF_ALLOC and s.size and s.addr in left]
    step = min(inside, default=header.vaddr) - header.vaddr
    return header._replace(
        offset=header.offset + step,
        vaddr=header.vaddr + step,
        paddr=header.vaddr + step,
        filesz=max(header.filesz - step, 0),
        memsz=header.memsz - step,
    )


def _is_emptied(image: Image, load: Segment, moves: Sequence[Move]) -> bool:
    """Return whether all sections of a segment move away, as of one that patchelf made."""
    addresses = range(load.vaddr, load.vaddr + load.memsz)
    inside = [s for s in image.sections if s.flags & SHF_ALLOC and s.size and s.addr in addresses]
    return bool(inside) and all(any(m.holds(s.addr, s.size) for m in moves) for s in inside)


def _is_unused(
    image: Image, load: Segment, moves: Sequence[Move], headers: Sequence[Segment]
) -> bool:
    """Return whether only filler is left of a segment of tables, and nothing refers to it."""
    has_headers = any(load.has_offset(at) for at in (0, image.program_headers[0]))
    if has_headers or load.memsz != load.filesz or not holds_tables_only(image, load):
        return False
    stop = load.vaddr + load.filesz
    if any(
        header.type not in {Pt.LOAD, Pt.NULL}
        and header.vaddr < stop
        and load.vaddr < header.vaddr + header.memsz
        for header in headers
    ):
        return False
    raw = bytearray(image.view[load.offset : load.end])
    for move in moves:
        start = move.old_vaddr - load.vaddr
        if 0 <= start < len(raw):
            raw[start : start + move.old_size] = bytes(move.old_size)
    return set(raw) <= FILLER


def holds_tables_only(image: Image, load: Segment) -> bool:
    """Return whether a segment has no section but those that an edit puts into one of its own."""
    inside = [
        section
        for section in image.sections
        if section.is_filled and section.flags & SHF_ALLOC and load.has_offset(section.offset)
    ]
    kinds = _MOVABLE_SECTIONS | {Sht.STRTAB, Sht.DYNAMIC}
    return bool(inside) and all(section.type in kinds for section in inside)


def _up(value: int, unit: int) -> int:
    """Round up to a multiple of `unit`."""
    return -(-value // unit) * unit
