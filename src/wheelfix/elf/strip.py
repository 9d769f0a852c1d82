"""ELF objects without what only debuggers and linkers read, and the debug files that keep it.

What is loaded keeps its bytes and addresses. binutils' strip lays out the segments anew, which
objects that patchelf has edited do not survive (pypa/auditwheel 716), and it knows few machines.
A debug file has the headers of its object and the sections that are not loaded (gdb, "Separate
Debug Files").
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator
from typing import BinaryIO, NamedTuple, Self
from zlib import crc32

from wheelfix.elf.constants import DEBUG_LINK, SHF_ALLOC, SHF_INFO_LINK, SHN_LORESERVE, Pt, Sht
from wheelfix.elf.image import Image, Section
from wheelfix.elf.page_sizes import SMALLEST_PAGE
from wheelfix.system.mapped_pieces import pieces

_NOTE_UNIT = 16
"""A multiple of the alignment of notes."""
_SYMBOLS = 1 << 16
"""Symbols that are read at once."""
# Indices of the fields in the records of `image.Structs`.
_E_PHOFF, _E_SHOFF, _E_SHNUM, _E_SHSTRNDX = 4, 5, 11, 12
_P_OFFSET, _P_FILESZ = {32: 1, 64: 2}, {32: 4, 64: 5}
_SH_TYPE, _SH_OFFSET, _SH_SIZE, _SH_LINK, _SH_INFO = 1, 4, 5, 6, 7
_ST_SHNDX = {32: 14, 64: 6}
"""Offset of st_shndx in Elf32_Sym and Elf64_Sym, in bytes."""


class DebugLink(NamedTuple):
    """The content of .gnu_debuglink (gdb, "Separate Debug Files")."""

    name: str
    """The file name of the debug file, without a folder."""
    crc: int
    """Its CRC-32."""

    @classmethod
    def to(cls, name: str, data: memoryview) -> Self:
        """Return the link to a debug file with the content `data`."""
        crc = 0
        for piece in pieces(data):
            crc = crc32(piece, crc)
        return cls(name, crc)


class _Kept(NamedTuple):
    """A range of the old file, and where it starts in the new one."""

    start: int
    stop: int
    place: int

    def holds(self, offset: int, size: int) -> bool:
        return self.start <= offset and offset + size <= self.stop


def write_stripped(
    view: memoryview,
    name: str,
    file: BinaryIO,
    *,
    keeps_symtab: bool,
    link: DebugLink | None = None,
) -> None:
    """Write an object without its debug sections, and without .symtab unless it is kept.

    With a `link`, it gets that .gnu_debuglink in the place of any other.
    Raises `BadElfError` for broken headers.
    """
    image = Image.parse(view, name)
    unit = max([SMALLEST_PAGE, *(segment.align for segment in image.segments)])
    loaded = [s for s in image.sections if s.flags & SHF_ALLOC and _is_filled(s)]
    ranges = [(s.offset, s.offset + s.filesz) for s in image.segments if s.filesz]
    ranges += [(s.offset, s.offset + s.size) for s in loaded]
    kept = _placed(image, ranges, unit)
    dropped = _dropped(image, keeps_symtab=keeps_symtab, replaces_link=link is not None)
    _Writer(image, file, kept, dropped).write(link)
    file.writelines(pieces(view[_end(image) :]))


def write_debug_file(view: memoryview, name: str, file: BinaryIO) -> None:
    """Write the debug file of an object: of what is loaded, only the notes have content.

    Raises `BadElfError` for broken headers.
    """
    image = Image.parse(view, name)
    notes = [(s.offset, s.offset + s.filesz) for s in image.segments if s.type == Pt.NOTE]
    links = [n for n, s in enumerate(image.sections) if image.section_name(s) == DEBUG_LINK]
    _Writer(image, file, _placed(image, notes, _NOTE_UNIT), links).write(None)


def _end(image: Image) -> int:
    """Return where the object ends: a program may read what was appended, from the file's end."""
    table = image.section_headers + len(image.sections) * image.structs.shdr.size
    segments = (s.offset + s.filesz for s in image.segments if s.filesz)
    sections = (s.offset + s.size for s in image.sections if _is_filled(s))
    return max(table, *segments, *sections)


def _is_filled(section: Section) -> bool:
    return section.size > 0 and section.type not in {Sht.NULL, Sht.NOBITS}


def _dropped(image: Image, *, keeps_symtab: bool, replaces_link: bool) -> set[int]:
    """Return the numbers of the sections that are left out."""
    sections = dict(enumerate(image.sections))
    found = {n for n, section in sections.items() if image.is_debug_section(section)}
    if not keeps_symtab:
        tables = {n for n, s in sections.items() if s.type in {Sht.SYMTAB, Sht.SYMTAB_SHNDX}}
        strings = {s.link for s in sections.values() if s.type == Sht.SYMTAB and image.has(s.link)}
        found |= tables | strings - {image.section_names}
    if replaces_link:
        found |= {n for n, section in sections.items() if image.section_name(section) == DEBUG_LINK}
    for number, fields in enumerate(_fields(image)):
        if fields[_SH_TYPE] in {Sht.REL, Sht.RELA} and {fields[_SH_LINK], fields[_SH_INFO]} & found:
            found.add(number)
    return {number for number in found if not sections[number].flags & SHF_ALLOC}


def _fields(image: Image) -> Iterator[tuple[int, ...]]:
    start, shdr = image.section_headers, image.structs.shdr
    return shdr.iter_unpack(bytes(image.view[start : start + len(image.sections) * shdr.size]))


def _placed(image: Image, ranges: Iterable[tuple[int, int]], unit: int) -> list[_Kept]:
    """Return the ranges of the file with its headers, merged, and moved up by multiples of `unit`.

    Raises `BadElfError` for one past the end of the file.
    """
    offset, size = image.program_headers
    merged = _merged([(0, image.header_size), (offset, offset + size), *ranges])
    if merged[-1][1] > len(image.view):
        raise image.bad("a segment or section reaches past the end of the file")
    kept: list[_Kept] = []
    end = 0
    for start, stop in merged:
        place = start - (start - end) // unit * unit
        kept.append(_Kept(start, stop, place))
        end = place + stop - start
    return kept


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges in order, those that touch as one."""
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(stop, merged[-1][1])
        else:
            merged.append((start, stop))
    return merged


class _Writer:
    """An object without some of its sections, as it is written."""

    def __init__(
        self, image: Image, file: BinaryIO, kept: list[_Kept], dropped: Collection[int]
    ) -> None:
        names = image.section_names
        if not image.has(names) or names in dropped or len(image.sections) >= SHN_LORESERVE:
            raise image.bad("its sections have no names, or are too many")
        self.image = image
        self.file = file
        self.kept = kept
        left = [n for n in range(len(image.sections)) if n not in dropped]
        self.number = {old: new for new, old in enumerate(left)}
        """The number of each section that stays."""
        changed = {n: self.number.get(n, 0) for n in range(len(image.sections))}
        self.renumbered = {old: new for old, new in changed.items() if old != new}
        self.starts = [part.start for part in kept]
        unloaded = [s for s in image.sections if _is_filled(s) and not s.flags & SHF_ALLOC]
        if any(s.offset + s.size > len(image.view) for s in unloaded):
            raise image.bad("a section reaches past the end of the file")
        if sum(s.size for s in unloaded) > len(image.view):
            raise image.bad("its sections overlap")
        self.unloaded = _merged((s.offset, s.offset + s.size) for s in unloaded)
        self.size = 0
        """Bytes written so far."""

    def write(self, link: DebugLink | None) -> None:
        """Write the object, and a .gnu_debuglink if there is a `link`."""
        for before, part in zip([_Kept(0, 0, 0), *self.kept], self.kept, strict=False):
            self._write_gap(before, part)
            self._write(self.image.view[part.start : part.stop])
        headers = self._write_sections(link)
        self._align(8)
        table, shdr = self.size, self.image.structs.shdr
        self._write(b"".join(shdr.pack(*fields) for fields in headers))
        ehdr = self.image.structs.ehdr
        header = list(ehdr.unpack_from(self.image.view, 16))
        header[_E_PHOFF] = self._place(header[_E_PHOFF])
        header[_E_SHOFF], header[_E_SHNUM] = table, len(headers)
        header[_E_SHSTRNDX] = self.number[self.image.section_names]
        self._overwrite(16, ehdr.pack(*header))
        self._overwrite(header[_E_PHOFF], b"".join(self._program_headers()))

    def _write_gap(self, before: _Kept, part: _Kept) -> None:
        """Fill what is between two ranges: with the old bytes, unless a section was there."""
        has_moved = before.start - before.place != part.start - part.place
        after = bisect_left(self.unloaded, (part.start, 0))
        has_section = after > 0 and self.unloaded[after - 1][1] > before.stop
        if has_moved or has_section:
            self._write(bytes(part.place - self.size))
        else:
            self._write(self.image.view[before.stop : part.start])

    def _write_sections(self, link: DebugLink | None) -> list[list[int]]:
        """Write the sections that are not loaded; return the new section headers."""
        image = self.image
        names = image.sections[image.section_names]
        known = image.read(names.offset, names.size, "the names of sections")
        name_at = known.find(DEBUG_LINK + b"\0")
        rows = enumerate(_fields(image))
        headers = [self._renumbered(fields) for number, fields in rows if number in self.number]
        by_place = sorted(self.number, key=lambda number: image.sections[number].offset)
        for number in by_place:
            section, fields = image.sections[number], headers[self.number[number]]
            has_new_name = section is names and link is not None and name_at < 0
            if self._is_kept(section) and not has_new_name:
                fields[_SH_OFFSET] = self._place(section.offset)
            elif section.flags & SHF_ALLOC and not has_new_name:
                fields[_SH_TYPE], fields[_SH_OFFSET] = Sht.NOBITS, self._place(section.offset)
            else:
                self._align(min(section.align, SMALLEST_PAGE))
                fields[_SH_OFFSET] = self.size
                self._write(image.view[section.offset : section.offset + section.size])
            if has_new_name:
                name_at = fields[_SH_SIZE]
                fields[_SH_SIZE] += len(DEBUG_LINK) + 1
                self._write(DEBUG_LINK + b"\0")
            if fields[_SH_TYPE] in {Sht.SYMTAB, Sht.DYNSYM}:
                self._write_symbols(section, fields[_SH_OFFSET])
        if link is not None:
            self._align(4)
            raw = link.name.encode("utf-8", "surrogateescape") + b"\0"
            raw = raw.ljust(-(-len(raw) // 4) * 4, b"\0") + image.structs.word.pack(link.crc)
            headers.append([name_at, Sht.PROGBITS, 0, 0, self.size, len(raw), 0, 0, 4, 0])
            self._write(raw)
        return headers

    def _renumbered(self, fields: tuple[int, ...]) -> list[int]:
        """Return a section header with the new numbers of the sections that it names."""
        new = list(fields)
        new[_SH_LINK] = self.number.get(fields[_SH_LINK], 0)
        if fields[_SH_TYPE] in {Sht.REL, Sht.RELA} or fields[2] & SHF_INFO_LINK:
            new[_SH_INFO] = self.number.get(fields[_SH_INFO], 0)
        return new

    def _is_kept(self, section: Section) -> bool:
        """Return whether the section's bytes, if it has any, were written with the ranges."""
        return not _is_filled(section) or self._part(section.offset).holds(
            section.offset, section.size
        )

    def _write_symbols(self, section: Section, place: int) -> None:
        """Renumber the sections of symbols; those of a dropped section become empty entries."""
        structs, changed = self.image.structs, self.renumbered
        size, at = structs.sym.size, _ST_SHNDX[structs.bits]
        for start in range(0, section.size // size * size, size * _SYMBOLS):
            count = min(section.size // size - start // size, _SYMBOLS)
            raw = self.image.read(section.offset + start, count * size, "the symbols")
            words = structs.words("H", raw)
            for entry, number in enumerate(words[at // 2 :: size // 2]):
                if number not in changed:
                    continue
                to = place + start + entry * size
                if changed[number]:
                    self._overwrite(to + at, structs.half.pack(changed[number]))
                else:
                    self._overwrite(to, bytes(size))

    def _program_headers(self) -> Iterator[bytes]:
        """Yield the program headers; what was not kept has no bytes in the file."""
        phdr, bits = self.image.structs.phdr, self.image.structs.bits
        offset, filesz = _P_OFFSET[bits], _P_FILESZ[bits]
        start, length = self.image.program_headers
        for fields in phdr.iter_unpack(bytes(self.image.view[start : start + length])):
            new = list(fields)
            if not self._part(fields[offset]).holds(fields[offset], fields[filesz]):
                new[filesz] = 0
            new[offset] = self._place(fields[offset])
            yield phdr.pack(*new)

    def _place(self, offset: int) -> int:
        """Return where an offset of the old file is in the new one."""
        part = self._part(offset)
        return offset - part.start + part.place

    def _part(self, offset: int) -> _Kept:
        """Return the last range that starts at `offset` or before; the first starts at 0."""
        return self.kept[bisect_right(self.starts, offset) - 1]

    def _align(self, unit: int) -> None:
        if unit > 1:
            self._write(bytes(-self.size % unit))

    def _write(self, data: bytes | memoryview) -> None:
        if isinstance(data, memoryview):
            self.file.writelines(pieces(data))
        else:
            self.file.write(data)
        self.size += len(data)

    def _overwrite(self, place: int, raw: bytes) -> None:
        self.file.seek(place)
        self.file.write(raw)
        self.file.seek(self.size)
