"""ELF objects without what only debuggers and linkers read, and the debug files that keep it.

What is loaded keeps its bytes and addresses. binutils' strip lays out the segments anew, which
objects that patchelf has edited do not survive (pypa/auditwheel 716), and it knows few machines.
A debug file has the headers of its object and the sections that are not loaded (gdb, "Separate
Debug Files").
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable
from typing import BinaryIO, Self
from zlib import crc32

from wheelfix.elf.constants import DEBUG_LINK, SHF_ALLOC, SHF_INFO_LINK, SHN_LORESERVE, Pt, Sht
from wheelfix.elf.image import Image, Section
from wheelfix.elf.machine_page_sizes import SMALLEST_PAGE
from wheelfix.elf.model import Segment
from wheelfix.elf.ranges import merge_ranges
from wheelfix.named_tuple import NamedTuple
from wheelfix.system.mapped_files import pieces

_NOTE_UNIT = 16
"""A multiple of the alignment of notes."""
_SYMBOLS = 1 << 16
"""Symbols that are read at once."""


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
    ranges = [(s.offset, s.end) for s in image.segments if s.filesz]
    ranges += [(s.offset, s.end) for s in image.sections if s.flags & SHF_ALLOC and s.is_filled]
    kept = _place(image, ranges, unit)
    dropped = _dropped_sections(image, keeps_symtab=keeps_symtab, replaces_link=link is not None)
    _Writer(image, file, kept, dropped).write(link)
    file.writelines(pieces(view[_end(image) :]))


def write_debug_file(view: memoryview, name: str, file: BinaryIO) -> None:
    """Write the debug file of an object: of what is loaded, only the notes have content.

    Raises `BadElfError` for broken headers.
    """
    image = Image.parse(view, name)
    notes = [(s.offset, s.end) for s in image.segments if s.type == Pt.NOTE]
    links = [n for n, s in enumerate(image.sections) if image.section_name(s) == DEBUG_LINK]
    _Writer(image, file, _place(image, notes, _NOTE_UNIT), links).write(None)


def _end(image: Image) -> int:
    """Return where the object ends: a program may read what was appended, from the file's end."""
    segments = (s.end for s in image.segments if s.filesz)
    sections = (s.end for s in image.sections if s.is_filled)
    return max(image.end_of_section_headers, *segments, *sections)


def _dropped_sections(image: Image, *, keeps_symtab: bool, replaces_link: bool) -> set[int]:
    """Return the numbers of the sections that are left out."""
    sections = dict(enumerate(image.sections))
    dropped = {n for n, section in sections.items() if image.is_debug_section(section)}
    if not keeps_symtab:
        tables = {n for n, s in sections.items() if s.type in {Sht.SYMTAB, Sht.SYMTAB_SHNDX}}
        strings = {s.link for s in sections.values() if s.type == Sht.SYMTAB and image.has(s.link)}
        dropped |= tables | strings - {image.header.shstrndx}
    if replaces_link:
        dropped |= {
            n for n, section in sections.items() if image.section_name(section) == DEBUG_LINK
        }
    for number, section in sections.items():
        if section.type in {Sht.REL, Sht.RELA} and {section.link, section.info} & dropped:
            dropped.add(number)
    return {number for number in dropped if not sections[number].flags & SHF_ALLOC}


def _place(image: Image, ranges: Iterable[tuple[int, int]], unit: int) -> list[_Kept]:
    """Return the ranges of the file with its headers, merged, and moved up by multiples of `unit`.

    Raises `BadElfError` for one past the end of the file.
    """
    offset, size = image.program_headers
    parts = merge_ranges([(0, image.structs.header_size), (offset, offset + size), *ranges])
    if parts[-1][1] > len(image.view):
        raise image.bad("a segment or section reaches past the end of the file")
    kept: list[_Kept] = []
    end = 0
    for start, stop in parts:
        place = start - (start - end) // unit * unit
        kept.append(_Kept(start, stop, place))
        end = place + stop - start
    return kept


def _alignment(section: Section) -> int:
    """Return the alignment of a section in the new file: what it has in the old one.

    So an object with many sections that ask for more does not become large.
    """
    unit = max(min(section.align, SMALLEST_PAGE), 1)
    return unit if section.offset % unit == 0 else 1


class _Writer:
    """An object without some of its sections, as it is written."""

    def __init__(
        self, image: Image, file: BinaryIO, kept: list[_Kept], dropped: Collection[int]
    ) -> None:
        names = image.header.shstrndx
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
        unloaded = [s for s in image.sections if s.is_filled and not s.flags & SHF_ALLOC]
        if any(section.end > len(image.view) for section in unloaded):
            raise image.bad("a section reaches past the end of the file")
        self.unloaded = merge_ranges((section.offset, section.end) for section in unloaded)
        if sum(s.size for s in unloaded) > sum(stop - start for start, stop in self.unloaded):
            raise image.bad("its sections overlap")
        self.size = 0
        """Bytes written so far."""

    def write(self, link: DebugLink | None) -> None:
        """Write the object, and a .gnu_debuglink if there is a `link`."""
        for before, part in zip([_Kept(0, 0, 0), *self.kept], self.kept, strict=False):
            self._write_gap(before, part)
            self._write(self.image.view[part.start : part.stop])
        image, structs = self.image, self.image.structs
        sections = self._write_sections(link)
        self._align(8)
        header = image.header._replace(
            phoff=self._place(image.program_headers[0]),
            shoff=self.size,
            shnum=len(sections),
            shstrndx=self.number[image.header.shstrndx],
        )
        self._write(b"".join(structs.shdr.pack(*section) for section in sections))
        self._overwrite(16, structs.ehdr.pack(*header))
        segments = map(self._segment, image.segments)
        self._overwrite(header.phoff, b"".join(map(structs.pack_segment, segments)))

    def _write_gap(self, before: _Kept, part: _Kept) -> None:
        """Fill what is between two ranges: with the old bytes, unless a section was there."""
        has_moved = before.start - before.place != part.start - part.place
        after = bisect_left(self.unloaded, (part.start, 0))
        has_section = after > 0 and self.unloaded[after - 1][1] > before.stop
        if has_moved or has_section:
            self._write(bytes(part.place - self.size))
        else:
            self._write(self.image.view[before.stop : part.start])

    def _write_sections(self, link: DebugLink | None) -> list[Section]:
        """Write the sections that are not loaded; return the new section headers."""
        image = self.image
        names = image.sections[image.header.shstrndx]
        text = image.read(names.offset, names.size, "the names of sections")
        name_at = text.find(DEBUG_LINK + b"\0")
        headers = {number: self._renumber(image.sections[number]) for number in self.number}
        for number in sorted(headers, key=lambda number: image.sections[number].offset):
            section = image.sections[number]
            new = headers[number]
            has_new_name = section is names and link is not None and name_at < 0
            if self._is_kept(section) and not has_new_name:
                new = new._replace(offset=self._place(section.offset))
            elif section.flags & SHF_ALLOC and not has_new_name:
                new = new._replace(type=Sht.NOBITS, offset=self._place(section.offset))
            else:
                self._align(_alignment(section))
                new = new._replace(offset=self.size)
                self._write(image.view[section.offset : section.end])
            if has_new_name:
                name_at = new.size
                new = new._replace(size=new.size + len(DEBUG_LINK) + 1)
                self._write(DEBUG_LINK + b"\0")
            if new.type in {Sht.SYMTAB, Sht.DYNSYM}:
                self._write_symbols(section, new.offset)
            headers[number] = new
        sections = list(headers.values())
        if link is not None:
            self._align(4)
            raw = link.name.encode("utf-8", "surrogateescape") + b"\0"
            raw = raw.ljust(-(-len(raw) // 4) * 4, b"\0") + image.structs.word.pack(link.crc)
            kind = Sht.PROGBITS
            sections.append(Section(name_at, kind, 0, 0, self.size, len(raw), 0, 0, 4, 0))
            self._write(raw)
        return sections

    def _renumber(self, section: Section) -> Section:
        """Return a section header with the new numbers of the sections that it names."""
        new = section._replace(link=self.number.get(section.link, 0))
        if section.type in {Sht.REL, Sht.RELA} or section.flags & SHF_INFO_LINK:
            return new._replace(info=self.number.get(section.info, 0))
        return new

    def _is_kept(self, section: Section) -> bool:
        """Return whether the section's bytes, if it has any, were written with the ranges."""
        return not section.is_filled or self._part(section.offset).holds(
            section.offset, section.size
        )

    def _write_symbols(self, section: Section, place: int) -> None:
        """Renumber the sections of symbols; those of a dropped section become empty entries."""
        structs, changed = self.image.structs, self.renumbered
        size = structs.sym.size
        for start in range(0, section.size // size * size, size * _SYMBOLS):
            count = min(section.size // size - start // size, _SYMBOLS)
            raw = self.image.read(section.offset + start, count * size, "the symbols")
            for entry, number in enumerate(structs.section_numbers(raw)):
                if number not in changed:
                    continue
                to = place + start + entry * size
                if changed[number]:
                    self._overwrite(to + structs.st_shndx, structs.half.pack(changed[number]))
                else:
                    self._overwrite(to, bytes(size))

    def _segment(self, segment: Segment) -> Segment:
        """Return a program header; what was not kept has no bytes in the file."""
        is_kept = self._part(segment.offset).holds(segment.offset, segment.filesz)
        return segment._replace(
            offset=self._place(segment.offset), filesz=segment.filesz if is_kept else 0
        )

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
