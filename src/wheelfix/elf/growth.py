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
from dataclasses import dataclass, replace
from typing import NamedTuple

from wheelfix.elf.constants import (
    DF_1_PIE,
    PF_R,
    PF_W,
    PF_X,
    PN_XNUM,
    SHF_ALLOC,
    SHN_LORESERVE,
    TABLE_TAGS,
    Dt,
    Pt,
    Sht,
)
from wheelfix.elf.dynamic_tables import Dynamic
from wheelfix.elf.image import Image, Section
from wheelfix.elf.model import ElfType, Segment
from wheelfix.elf.page_sizes import PAGE_SIZES
from wheelfix.elf.patch import PatchDraft

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
_MOVED_HEADERS = {Pt.NOTE, Pt.INTERP, Pt.GNU_PROPERTY}
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
# Indices of the fields in the records of `image.Structs`.
_E_SHOFF, _E_PHNUM = 5, 9
_SH_ADDR, _SH_OFFSET, _SH_SIZE = 3, 4, 5


class NoRoomError(Exception):
    """Why an object cannot grow, in words that follow "because"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Move:
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
    vaddr: int = 0

    def holds(self, vaddr: int, size: int) -> bool:
        return (
            self.old_vaddr <= vaddr < self.old_vaddr + self.old_size
            and vaddr + size <= self.old_vaddr + self.old_size
        )

    def moved(self, header: Segment) -> Segment:
        """Return the program header of something in the range, with its new place."""
        step = header.vaddr - self.old_vaddr
        return header._replace(
            offset=self.offset + step, vaddr=self.vaddr + step, paddr=self.vaddr + step
        )


class _Room(NamedTuple):
    """The segment that gets the tables."""

    gap: int
    """File offset at which bytes are inserted."""
    start: int
    """File offset from which tables are written."""
    shift: int
    """The address of each byte less its file offset."""
    headers: tuple[Segment, ...]
    """All program headers, sizes and places of what moves aside."""
    number: int
    """The number of its own."""
    block: _Move | None = None
    """What moves away for its program header."""


def write_dynamic(
    patch: PatchDraft, dynamic: Dynamic, entries: Sequence[tuple[int, int]], strings: bytes
) -> tuple[Segment, ...]:
    """Write .dynamic and .dynstr, in their places or, if one has no room, in a segment for both.

    Return the segments. Raises `NoRoomError` where a segment cannot be had safely; the patch is
    then of no use.
    """
    growth = _Growth(
        patch=patch,
        dynamic=dynamic,
        entries=tuple(entries),
        strings=strings,
        moves_strings=len(strings) > len(dynamic.strings),
        moves_dynamic=len(entries) > capacity(dynamic),
    )
    if growth.moves_strings or growth.moves_dynamic:
        return growth.written()
    growth.write_tables(())
    return dynamic.image.segments


@dataclass(frozen=True, slots=True, kw_only=True)
class _Growth:
    patch: PatchDraft
    dynamic: Dynamic
    entries: tuple[tuple[int, int], ...]
    strings: bytes
    moves_strings: bool
    moves_dynamic: bool

    @property
    def image(self) -> Image:
        return self.dynamic.image

    @property
    def is_program(self) -> bool:
        return (
            self.image.type == ElfType.EXEC
            or self.image.segment(Pt.INTERP) is not None
            or bool(self.dynamic.tags.get(Dt.FLAGS_1, 0) & DF_1_PIE)
        )

    @property
    def added_flags(self) -> int:
        """PF_W if the segment gets a .dynamic that loaders write to (glibc, l_ld_readonly)."""
        dynamic = self.image.segment(Pt.DYNAMIC)
        return dynamic.flags & PF_W if self.moves_dynamic and dynamic is not None else 0

    def written(self) -> tuple[Segment, ...]:
        """Write all with a segment for what moves; return the segments."""
        room = self._room()
        moves = self._placed(room, [m for m in (room.block, *self._tables()) if m is not None])
        end = max(move.offset + move.size for move in moves)
        if max(end, end + room.shift) >= 1 << (self.image.structs.bits - 1):
            raise NoRoomError("its addresses are used up")
        headers = self._final_headers(room, moves, end)
        behind = len(self.patch.view) - room.gap
        moved = (s for s in self.image.sections if s.offset >= room.gap and _fills(s))
        unit = _UNIT if all(section.align <= _UNIT for section in moved) else _LARGE_UNIT
        size = end - room.gap
        self.patch.open_gap(room.gap, -(-size // unit) * unit if behind else size)
        self.write_tables(moves)
        self._write_sections(moves)
        self._write_headers(headers)
        return headers

    def _is_emptied(self, load: Segment, moves: Sequence[_Move]) -> bool:
        """Return whether all sections of a segment move away, as of one that patchelf made."""
        inside = [
            section
            for section in self.image.sections
            if section.flags & SHF_ALLOC
            and section.size
            and load.vaddr <= section.addr < load.vaddr + load.memsz
        ]
        left = (s for s in inside if not any(move.holds(s.addr, s.size) for move in moves))
        return bool(inside) and next(left, None) is None

    def _is_unused(self, load: Segment, moves: Sequence[_Move], headers: Sequence[Segment]) -> bool:
        """Return whether only filler is left of a segment of tables, and nothing refers to it."""
        stop = load.vaddr + load.filesz
        has_tables = any(_within(at, load) for at in (0, self.image.program_headers[0]))
        if has_tables or load.memsz != load.filesz:
            return False
        if any(
            header.type not in {Pt.LOAD, Pt.NULL}
            and header.vaddr < stop
            and load.vaddr < header.vaddr + header.memsz
            for header in headers
        ):
            return False
        if not holds_tables_only(self.image, load):
            return False
        raw = bytearray(self.patch.view[load.offset : load.offset + load.filesz])
        for move in moves:
            start = move.old_vaddr - load.vaddr
            if 0 <= start < len(raw):
                raw[start : start + move.old_size] = bytes(move.old_size)
        return set(raw) <= FILLER

    # --- where -----------------------------------------------------------------------------------

    def _room(self) -> _Room:
        """Choose the segment for the tables."""
        pages = PAGE_SIZES.get(self.image.machine)
        if pages is None:
            raise NoRoomError(f"the page sizes of machine {self.image.machine} are not known")
        segments = self.image.segments
        if len(segments) >= PN_XNUM - 1 or len(self.image.sections) >= SHN_LORESERVE:
            raise NoRoomError("it has too many headers")
        if Dt.STRTAB not in self.dynamic.tags:
            raise NoRoomError("it has no string table")
        loads = [segment for segment in segments if segment.type == Pt.LOAD]
        if not loads or [h.vaddr for h in loads] != sorted(h.vaddr for h in loads):
            raise NoRoomError("its segments are not in the order of their addresses")
        if self.moves_dynamic and self.is_program and self.image.segment(Pt.INTERP) is None:
            raise NoRoomError("it relocates itself, from the place of its dynamic section")
        if self.image.has_appended:
            raise NoRoomError("bytes are appended to it, which may be found by their place")
        longer = self._longer(loads[-1])
        if longer is not None and loads[-1].memsz == loads[-1].filesz:
            return longer
        new = self._new(loads[-1], pages.linked)
        if new is not None:
            return new
        if longer is not None and loads[-1].memsz - loads[-1].filesz <= _LARGEST_BSS:
            return longer
        raise NoRoomError("its table of program headers cannot grow where it is")

    def _longer(self, last: Segment) -> _Room | None:
        """Return the last segment if it can be made longer, and what is behind it can move."""
        gap = last.offset + last.filesz
        flags = last.flags | self.added_flags
        if last.flags & PF_X or (flags != last.flags and not holds_tables_only(self.image, last)):
            return None
        ends = [
            sum(self.image.program_headers),
            *(segment.offset + segment.filesz for segment in self.image.segments),
            *(s.offset + s.size for s in self.image.sections if s.flags & SHF_ALLOC and _fills(s)),
        ]
        if max(ends) > gap:
            return None
        size = len(self.patch.view)
        if last.memsz == last.filesz and self.image.end_of_content <= gap:
            gap = size  # what is behind the segment is padding
        start = -(-max(gap, last.offset + last.memsz) // _UNIT) * _UNIT
        headers = list(self.image.segments)
        number = headers.index(last)
        headers[number] = last._replace(flags=flags)
        return _Room(gap, start, last.vaddr - last.offset, tuple(headers), number)

    def _new(self, last: Segment, page: int) -> _Room | None:
        """Return a new segment; None without a place for its program header."""
        headers = list(self.image.segments)
        first = next(h for h in headers if h.type == Pt.LOAD)
        # Without PT_PHDR, bionic looks for the table behind offset 0 of the first PT_LOAD.
        spare = {Pt.NULL} if self.is_program or first.offset else {Pt.NULL, Pt.PHDR}
        unused = next((n for n, h in enumerate(headers) if h.type in spare), None)
        block = None
        if unused is not None:
            del headers[unused]
        elif (freed := self._freed()) is not None:
            block = freed if freed.size else None
        else:
            return None
        size = len(self.patch.view)
        start = -(-size // _UNIT) * _UNIT
        end = -(-(last.vaddr + last.memsz) // page) * page
        shift = end + start % page - start
        vaddr = start + shift
        flags = PF_R | self.added_flags
        header = Segment(Pt.LOAD, flags, start, vaddr, vaddr, 0, 0, page)
        number = 1 + max(n for n, h in enumerate(headers) if h.type == Pt.LOAD)
        headers.insert(number, header)
        return _Room(size, start, shift, tuple(headers), number, block)

    def _freed(self) -> _Move | None:
        """Return what moves from behind the program headers, so that one more has room there.

        That may be nothing, a move of size 0; None if they cannot be extended.
        """
        offset, size = self.image.program_headers
        end = offset + size
        last = end + self.image.structs.phdr.size - 1  # musl needs the whole table in one segment
        loads = (s for s in self.image.segments if s.type == Pt.LOAD and _within(last, s))
        load = next(loads, None)
        if load is None:
            return None
        block = self._block(end, end + self.image.structs.phdr.size, load)
        return None if block is None else self._block_move(*block, load)

    def _block(self, start: int, wanted: int, load: Segment) -> tuple[int, int] | None:
        """Return the range of file offsets to be vacated, so that `start` to `wanted` is free."""
        image = self.image
        sections = sorted(filter(_fills, image.sections), key=lambda section: section.offset)
        behind = [s for s in sections if s.offset + s.size > start]
        first = stop = behind[0].offset if behind else 0
        if first < start or any(self.patch.view[start : min(first, wanted)]):
            return None
        free = first
        for section in behind:
            image.spend(1 + (len(image.segments) >> 4), "the sections")
            wanted = max([wanted, *self._cut_segments(first, stop)])
            if section.offset >= wanted:
                free = max(free, wanted)
                break
            free = max(free, section.offset + section.size)
            if self._is_vacated(section):
                break
            if not self._is_movable(section) or not _within(section.offset, load):
                return None
            stop = free
        is_whole = not any(self._cut_segments(first, stop))
        end_of_headers = image.section_headers + len(image.sections) * image.structs.shdr.size
        if image.section_headers < max(wanted, stop) and end_of_headers > start:
            return None  # section header 0 is 64 zeros, and looks free
        fits = free >= wanted and stop - first <= _LARGEST_BLOCK
        return (first, stop) if fits and is_whole else None

    def _cut_segments(self, start: int, stop: int) -> Iterator[int]:
        """Yield the ends of the segments that begin before `stop` and end behind it."""
        for header in self.image.segments:
            end = header.offset + header.filesz
            if header.type not in {Pt.LOAD, Pt.GNU_RELRO} and header.offset < stop < end:
                if header.offset >= start:
                    yield end
                else:
                    yield len(self.patch.view)  # more than can be moved

    def _is_vacated(self, section: Section) -> bool:
        at, end = self.dynamic.tags.get(Dt.STRTAB), section.offset + section.size
        is_moved = self.moves_strings and section.type == Sht.STRTAB and section.addr == at
        return is_moved and not any(
            other.offset < end and section.offset < other.offset + other.size
            for other in self.image.sections
            if other is not section and _fills(other)
        )

    def _is_movable(self, section: Section) -> bool:
        if not section.flags & SHF_ALLOC:
            return False
        if section.type in {Sht.REL, Sht.RELA} and self.is_program:
            return False
        if section.type == Sht.NOTE:
            return self.image.section_name(section) in _MOVABLE_NOTES
        interpreter = self.image.segment(Pt.INTERP)
        is_interpreter = interpreter is not None and interpreter.vaddr == section.addr
        return section.type in _MOVABLE_SECTIONS or is_interpreter

    def _block_move(self, start: int, stop: int, load: Segment) -> _Move:
        inside = [
            n for n, s in enumerate(self.image.sections) if _fills(s) and start <= s.offset < stop
        ]
        return _Move(
            old_offset=start,
            old_vaddr=start - load.offset + load.vaddr,
            old_size=stop - start,
            size=stop - start,
            align=64,
            order=min(inside, default=0),
        )

    def _tables(self) -> Iterator[_Move]:
        tags, image = self.dynamic.tags, self.image
        if self.moves_strings:
            at = tags[Dt.STRTAB]
            yield _Move(
                old_offset=image.offset(at, len(self.dynamic.strings), "the string table"),
                old_vaddr=at,
                old_size=len(self.dynamic.strings),
                size=len(self.strings),
                align=16,
                order=self._section_number(Sht.STRTAB, at),
            )
        segment = image.segment(Pt.DYNAMIC)
        if self.moves_dynamic and segment is not None:
            size = (len(self.entries) + 1 + _SPARE) * image.structs.dyn.size
            yield _Move(
                old_offset=segment.offset,
                old_vaddr=segment.vaddr,
                old_size=max(segment.memsz, 1),
                size=size,
                align=16,
                order=self._section_number(Sht.DYNAMIC, segment.vaddr),
            )

    def _section_number(self, kind: Sht, vaddr: int) -> int:
        found = (n for n, s in enumerate(self.image.sections) if s.type == kind and s.addr == vaddr)
        return next(found, len(self.image.sections))

    @staticmethod
    def _placed(room: _Room, moves: Sequence[_Move]) -> list[_Move]:
        at, placed = room.start, list[_Move]()
        for move in sorted(moves, key=lambda move: move.order):
            at += (move.old_vaddr - at - room.shift) % move.align
            placed.append(replace(move, offset=at, vaddr=at + room.shift))
            at += move.size
        return placed

    # --- what is written -------------------------------------------------------------------------

    def _final_headers(self, room: _Room, moves: Sequence[_Move], end: int) -> tuple[Segment, ...]:
        """Return the program headers, without those of segments that lose all their sections.

        strip and objcopy write a broken segment in the place of one without sections.
        """
        loads = [n for n, h in enumerate(room.headers) if h.type == Pt.LOAD and n != room.number]
        self.image.spend(len(loads) * len(self.image.sections) >> 4, "the sections")
        emptied = {n for n in loads if self._is_emptied(room.headers[n], moves)}
        count = len(room.headers) - len(emptied)
        headers = [self._changed(header, moves, count) for header in room.headers]
        if not all(self._is_unused(room.headers[n], moves, headers) for n in emptied):
            raise NoRoomError("a segment would be left without sections, which strip breaks")
        size = end - room.headers[room.number].offset
        headers[room.number] = room.headers[room.number]._replace(filesz=size, memsz=size)
        return tuple(header for n, header in enumerate(headers) if n not in emptied)

    def _changed(self, header: Segment, moves: Sequence[_Move], count: int) -> Segment:
        """Return one of `count` program headers as it is after the edit."""
        if header.type == Pt.PHDR:
            size = self.image.structs.phdr.size * count
            return header._replace(filesz=size, memsz=size)
        if header.type == Pt.GNU_RELRO:
            return self._relro(header)
        if header.type == Pt.DYNAMIC and self.moves_dynamic:
            found = [m for m in moves if m.old_vaddr == header.vaddr]
            if not found:
                raise NoRoomError("it has two dynamic sections")
            move = found[-1]
            return move.moved(header)._replace(filesz=move.size, memsz=move.size)
        if header.type in _MOVED_HEADERS and header.filesz:
            into = [m for m in moves if m.holds(header.vaddr, header.filesz)]
            return into[0].moved(header) if into else header
        return header

    def _relro(self, header: Segment) -> Segment:
        """Let PT_GNU_RELRO begin with a section, as strip and objcopy take that for its start.

        Where .dynamic was the first, they would move the end of the range as far as its start.
        """
        dynamic = self.image.segment(Pt.DYNAMIC)
        if not self.moves_dynamic or dynamic is None or header.vaddr != dynamic.vaddr:
            return header
        after = dynamic.vaddr + dynamic.memsz
        inside = [
            section.addr
            for section in self.image.sections
            if section.flags & SHF_ALLOC
            and section.size
            and after <= section.addr < header.vaddr + header.memsz
        ]
        step = min(inside, default=header.vaddr) - header.vaddr
        return header._replace(
            offset=header.offset + step,
            vaddr=header.vaddr + step,
            paddr=header.vaddr + step,
            filesz=max(header.filesz - step, 0),
            memsz=header.memsz - step,
        )

    def write_tables(self, moves: Sequence[_Move]) -> None:
        """Write the tables, and zeros where those that moved were: a wheel packs these well."""
        self._move_symbols(moves)
        raw_of: dict[int, bytes] = {}
        segment = self.image.segment(Pt.DYNAMIC)
        at = self.dynamic.tags.get(Dt.STRTAB) if self.moves_strings else None
        dynamic_at = segment.vaddr if segment is not None else 0
        for move in moves:
            if move.old_vaddr == at:
                raw_of[move.offset] = self.strings
            elif not (self.moves_dynamic and move.old_vaddr == dynamic_at):
                raw_of[move.offset] = self.patch.read(move.old_offset, move.old_size)
            else:
                self._move_global_offset_table(move)
                continue
            if not self._is_shared(move):
                self.patch.write(move.old_offset, bytes(move.old_size))
        for offset, raw in raw_of.items():
            self.patch.write(offset, raw)
        if not self.moves_strings and self.strings != self.dynamic.strings:
            start = self.image.offset(
                self.dynamic.tags[Dt.STRTAB], len(self.strings), "the string table"
            )
            self.patch.write(start, self.strings)
        self._write_dynamic(moves)

    def _is_shared(self, move: _Move) -> bool:
        """Return whether another section uses bytes of this range."""
        stop = move.old_offset + move.old_size
        return any(
            section.offset < stop
            and move.old_offset < section.offset + section.size
            and not move.holds(section.addr, section.size)
            for section in self.image.sections
            if _fills(section)
        )

    def _write_dynamic(self, moves: Sequence[_Move]) -> None:
        image, dyn = self.image, self.image.structs.dyn
        segment = image.segment(Pt.DYNAMIC)
        if segment is None:
            raise NoRoomError("it has no dynamic section")
        raw = b"".join(dyn.pack(tag, self._value(tag, value, moves)) for tag, value in self.entries)
        if self.moves_dynamic:
            move = next(m for m in moves if m.old_vaddr == segment.vaddr)
            self.patch.write(move.offset, raw.ljust(move.size, b"\0"))
        elif self.entries != self.dynamic.entries or self.moves_strings or moves:
            raw = raw.ljust(len(self.dynamic.entries) * dyn.size, b"\0")
            self.patch.write(image.offset(segment.vaddr, len(raw), "the dynamic section"), raw)

    def _value(self, tag: int, value: int, moves: Sequence[_Move]) -> int:
        if tag == Dt.STRSZ:
            return len(self.strings)
        if tag not in TABLE_TAGS:
            return value
        into = [m for m in moves if m.holds(value, 1)]
        return value + into[0].vaddr - into[0].old_vaddr if into else value

    def _move_global_offset_table(self, move: _Move) -> None:
        """Let the first word of the GOT follow .dynamic."""
        image, word = self.image, self.image.structs.addr
        got = self.dynamic.tags.get(Dt.PLTGOT)
        if got is not None and any(
            m.start <= got and got + word.size <= m.stop for m in image.mapped
        ):
            at = image.offset(got, word.size, "DT_PLTGOT")
            if self.patch.read(at, word.size) == word.pack(move.old_vaddr):
                self.patch.write(at, word.pack(move.vaddr))

    def _move_symbols(self, moves: Sequence[_Move]) -> None:
        """Let the symbols of sections that move follow these, and _DYNAMIC follow .dynamic."""
        for number, section in enumerate(self.image.sections):
            if not section.flags & SHF_ALLOC or not _fills(section):
                continue
            into = next((m for m in moves if m.holds(section.addr, section.size)), None)
            if into is not None:
                new = section.addr + into.vaddr - into.old_vaddr
                self._replace_value(number, section.addr, new)

    def _replace_value(self, number: int, old: int, new: int) -> None:
        """Change the value of all symbols for the address `old` in section `number`."""
        image = self.image
        word, sym = image.structs.addr, image.structs.sym
        place = 8 if image.structs.bits == 64 else 4  # of st_value
        index = 6 if image.structs.bits == 64 else 14  # of st_shndx
        key, own = word.pack(old), image.structs.half.pack(number)
        for section in image.sections:
            is_whole = section.offset + section.size <= len(image.view)
            if section.type not in {Sht.DYNSYM, Sht.SYMTAB} or not is_whole:
                continue
            raw = image.read(section.offset, section.size, "the symbols")
            at = raw.find(key)
            while at >= 0:
                image.spend(1, "the symbols")
                start = at - place
                if start % sym.size == 0 and raw[start + index : start + index + 2] == own:
                    self.patch.write(self.patch.place(section.offset) + at, word.pack(new))
                at = raw.find(key, at + 1)

    def _write_sections(self, moves: Sequence[_Move]) -> None:
        image, shdr = self.image, self.image.structs.shdr
        start = self.patch.place(image.section_headers)
        table = bytearray(self.patch.read(start, len(image.sections) * shdr.size))
        for number, section in enumerate(image.sections):
            fields = list(shdr.unpack_from(table, number * shdr.size))
            into = [m for m in moves if m.holds(section.addr, section.size)]
            if section.flags & SHF_ALLOC and _fills(section) and into:
                move = into[0]
                fields[_SH_ADDR] += move.vaddr - move.old_vaddr
                fields[_SH_OFFSET] = move.offset + section.addr - move.old_vaddr
                if move.size != move.old_size:
                    fields[_SH_SIZE] = move.size
            elif not section.flags & SHF_ALLOC and section.type != Sht.NULL:
                fields[_SH_OFFSET] = self.patch.place(section.offset)
            shdr.pack_into(table, number * shdr.size, *fields)
        self.patch.write(start, bytes(table))

    def _write_headers(self, headers: Sequence[Segment]) -> None:
        image, ehdr = self.image, self.image.structs.ehdr
        fields = list(ehdr.unpack(self.patch.read(16, ehdr.size)))
        fields[_E_SHOFF] = self.patch.place(fields[_E_SHOFF])
        fields[_E_PHNUM] = len(headers)
        self.patch.write(16, ehdr.pack(*fields))
        raw = b"".join(_packed(image, header) for header in headers)
        at, size = image.program_headers
        self.patch.write(at, raw.ljust(size, b"\0"))


def holds_tables_only(image: Image, load: Segment) -> bool:
    """Return whether a segment has no section but those that an edit puts into one of its own."""
    stop = load.offset + load.filesz
    inside = [
        section
        for section in image.sections
        if _fills(section) and section.flags & SHF_ALLOC and load.offset <= section.offset < stop
    ]
    kinds = _MOVABLE_SECTIONS | {Sht.STRTAB, Sht.DYNAMIC}
    return bool(inside) and all(section.type in kinds for section in inside)


def capacity(dynamic: Dynamic) -> int:
    """Count the entries in use and the zeroed ones after them, without the final DT_NULL."""
    segment = dynamic.image.segment(Pt.DYNAMIC)
    used, size = len(dynamic.entries), dynamic.image.structs.dyn.size
    if segment is None or segment.filesz < used * size:
        return used
    at, room = dynamic.image.extent(segment.vaddr, "the dynamic section")
    end = at + min(segment.filesz, room)
    raw = bytes(dynamic.image.view[at + used * size : end])
    zeros = len(raw) - len(raw.lstrip(b"\0"))
    return used + max(zeros // size - 1, 0)


def _packed(image: Image, header: Segment) -> bytes:
    if image.structs.bits == 64:
        return image.structs.phdr.pack(*header)
    kind, flags, *places, align = header
    return image.structs.phdr.pack(kind, *places, flags, align)


def _within(offset: int, header: Segment) -> bool:
    return header.offset <= offset < header.offset + header.filesz


def _fills(section: Section) -> bool:
    """Return whether the section has bytes in the file."""
    return section.size > 0 and section.type not in {Sht.NULL, Sht.NOBITS}
