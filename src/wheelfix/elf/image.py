"""ELF headers and the dynamic section, with checked access to the bytes behind them.

Everything that the loader uses is found as the loader finds it: through the program headers and
PT_DYNAMIC, with addresses mapped by PT_LOAD. Section headers may be missing, and are used only for
what nothing else says. No header is trusted: each access is checked against the file's size.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from mmap import mmap
from struct import Struct
from sys import byteorder
from typing import Self

from wheelfix.budget import Budget
from wheelfix.elf.constants import (
    EV_CURRENT,
    MAGIC,
    NT_GNU_PROPERTY_TYPE_0,
    PN_XNUM,
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHF_TLS,
    SHN_XINDEX,
    Pt,
    Sht,
)
from wheelfix.elf.machine_page_sizes import SMALLEST_PAGE
from wheelfix.elf.model import ElfType, Segment
from wheelfix.errors import BadElfError, TruncatedElfError
from wheelfix.named_tuple import NamedTuple

_DEBUG_SECTIONS = (
    b".debug", b".zdebug", b".stab", b".line", b".gdb_index",
    b".gnu.linkonce.wi.", b".gnu.debuglto_.debug_",
)  # fmt: skip
"""How the names of debug sections begin (binutils, `_bfd_elf_make_section_from_shdr`)."""

Buffer = bytes | bytearray | memoryview | mmap


class Structs:
    """The record formats of one ELF class and byte order, as `struct.Struct`s."""

    def __init__(self, bits: int, order: str) -> None:
        wide = bits == 64
        self.bits = bits
        self.order = order
        self.half = Struct(order + "H")
        self.word = Struct(order + "I")
        self.addr = Struct(order + ("Q" if wide else "I"))
        self.ehdr = Struct(order + ("HHIQQQIHHHHHH" if wide else "HHIIIIIHHHHHH"))
        self.header_size = 16 + self.ehdr.size
        self.phdr = Struct(order + ("IIQQQQQQ" if wide else "IIIIIIII"))
        self.shdr = Struct(order + ("IIQQQQIIQQ" if wide else "IIIIIIIIII"))
        self.note = Struct(order + "III")
        self.dyn = Struct(order + ("qQ" if wide else "iI"))
        self.sym = Struct(order + ("IBBHQQ" if wide else "IIIBBH"))
        self.rel = Struct(order + ("QQ" if wide else "II"))
        self.rela = Struct(order + ("QQq" if wide else "IIi"))
        self.gnu_hash = Struct(order + "IIII")
        self.verneed = Struct(order + "HHIII")
        self.vernaux = Struct(order + "IHHII")
        self.verdef = Struct(order + "HHHHIII")
        self.verdaux = Struct(order + "II")
        self.st_info = 4 if wide else 12
        self.st_shndx = 6 if wide else 14
        self.st_value = 8 if wide else 4

    def pack_segment(self, segment: Segment) -> bytes:
        """Return a program header."""
        if self.bits == 64:
            return self.phdr.pack(*segment)
        kind, flags, *places, align = segment
        return self.phdr.pack(kind, *places, flags, align)

    def section_numbers(self, raw: bytes) -> "array[int]":
        """Return the st_shndx of each entry of a symbol table."""
        whole = raw[: len(raw) // self.sym.size * self.sym.size]
        return self.words("H", whole)[self.st_shndx // 2 :: self.sym.size // 2]

    def symbols(self, raw: bytes) -> Iterator[tuple[int, ...]]:
        """Yield (name, info, other, section, value, size) of the entries of a symbol table."""
        entries = self.sym.iter_unpack(raw)
        if self.bits == 64:
            return entries
        return ((n, i, o, x, v, s) for n, v, s, i, o, x in entries)

    def words(self, code: str, raw: bytes) -> "array[int]":
        """Read the numbers of an `array` type code, in this machine's byte order."""
        numbers = array(code, raw)
        if (self.order == "<") != (byteorder == "little"):
            numbers.byteswap()
        return numbers


_MOST_PADDING = 16
"""Zeros behind an object that mean nothing."""
_HEADER_SIZE = 300
"""Bytes in memory of a `Segment` or a `Section`."""

STRUCTS = {
    (cls, data): Structs(32 * cls, "<" if data == 1 else ">")
    for cls, data in product((1, 2), repeat=2)
}
"""By EI_CLASS and EI_DATA."""


class Section(NamedTuple):
    """One section header, fields in the order of the file."""

    name: int
    """`sh_name`, an offset into the section that holds the section names."""
    type: int
    flags: int
    addr: int
    offset: int
    size: int
    link: int
    """`sh_link`, as a section's number: for a symbol table its strings."""
    info: int
    """`sh_info`; its meaning depends on the type (gABI chapter 4)."""
    align: int
    """`sh_addralign`, bytes."""
    entsize: int
    """Bytes of one entry of a table."""

    @property
    def is_filled(self) -> bool:
        """Whether it has bytes in the file."""
        return self.size > 0 and self.type not in {Sht.NULL, Sht.NOBITS}

    @property
    def end(self) -> int:
        """File offset of the first byte behind it."""
        return self.offset + self.size


class Header(NamedTuple):
    """The ELF header behind e_ident, fields in the order of the file."""

    type: int
    machine: int
    version: int
    entry: int
    """`e_entry`, the address of a program's first instruction."""
    phoff: int
    shoff: int
    flags: int
    ehsize: int
    phentsize: int
    phnum: int
    shentsize: int
    shnum: int
    shstrndx: int


class Mapped(NamedTuple):
    """Addresses to which the loader maps bytes of the file."""

    start: int
    stop: int
    shift: int
    """The address of each byte less its file offset."""


class Image(NamedTuple):
    """The headers of one ELF file, with checked access to its content.

    `view` belongs to the caller. Each method that takes `what` raises `BadElfError` naming it if
    the file does not have the bytes asked for.
    """

    view: memoryview
    name: str
    budget: Budget
    """What the reading of the file spends."""
    structs: Structs
    osabi: int
    abi_version: int
    valid_header: bool
    header: Header
    program_headers: tuple[int, int]
    """File offset and size of the program header table."""
    segments: tuple[Segment, ...]
    mapped: tuple[Mapped, ...]
    """What the PT_LOAD segments map, in order of addresses, without overlaps."""
    sections: tuple[Section, ...]
    """Empty if the table is missing or not wholly in the file: the loader needs none."""

    @classmethod
    def parse(cls, view: memoryview, name: str, budget: Budget | None = None) -> Self:
        """Read the header, the program headers and the section headers.

        Without `budget`, the object has one of its own.

        Raises `BadElfError` for a broken ELF header and for tables past the end of the file.
        """
        budget = budget or Budget.of_file(name, len(view))
        if bytes(view[:4]) != MAGIC:
            raise BadElfError(f"`{name}` does not start with ELF's magic number")
        structs = STRUCTS.get((view[4], view[5])) if len(view) > 16 else None
        if structs is None or len(view) < structs.header_size:
            raise BadElfError(
                f"`{name}` has a broken ELF header",
                hint="the file is truncated or not an ELF object; build it again",
            )
        header = Header._make(structs.ehdr.unpack_from(view, 16))
        segments = _segments(view, name, budget, structs, header)
        return cls(
            view=view,
            name=name,
            budget=budget,
            structs=structs,
            osabi=view[7],
            abi_version=view[8],
            valid_header=(view[6], header.version) == (EV_CURRENT, EV_CURRENT)
            and not any(view[9:16]),
            header=header,
            program_headers=(header.phoff, header.phentsize * len(segments)),
            segments=segments,
            mapped=_mapped(segments, len(view)),
            sections=_sections(view, name, budget, structs, header),
        )

    def bad(self, what: str) -> BadElfError:
        """Return the error for a broken table."""
        return BadElfError(
            f"`{self.name}` is not a sound ELF object: {what}",
            hint=f"look at it with `readelf -ldW`, and rebuild or exclude `{self.name}`",
        )

    def spend(self, steps: int, what: str, *, memory: int = 0) -> None:
        """Count steps and bytes. Raises `BudgetError` if they are not left."""
        self.budget.spend(steps, what, self.name, memory=memory)

    def require_whole(self) -> None:
        """Raise `TruncatedElfError` unless the file holds the contents of every PT_LOAD segment."""
        for segment in self.loads:
            if segment.offset + segment.filesz > len(self.view):
                end = segment.offset + segment.filesz
                raise TruncatedElfError(
                    f"`{self.name}` is truncated: a segment ends at byte {end},"
                    f" the file at {len(self.view)}",
                    hint="it was not copied whole; build or download it again",
                )

    @property
    def loads(self) -> list[Segment]:
        """The segments that are mapped."""
        return loads_among(self.segments)

    @property
    def is_program(self) -> bool:
        """Whether the kernel can start it: ET_EXEC, or ET_DYN with an interpreter (PIE)."""
        return self.header.type == ElfType.EXEC or self.segment(Pt.INTERP) is not None

    @property
    def is_debug_companion(self) -> bool:
        """Whether it has only debug information left: `objcopy --only-keep-debug`.

        Such a file has no bytes for .dynamic, or, without PT_DYNAMIC, for any of its code.
        """
        dynamic = self.segment(Pt.DYNAMIC)
        at = None if dynamic is None else dynamic.vaddr
        # .tbss has no room in memory: its address is that of the section after it.
        sized = [s for s in self.sections if s.flags & SHF_ALLOC and s.size]
        kept = [s for s in sized if s.type != Sht.NOBITS or not s.flags & SHF_TLS]
        contents = [s for s in kept if s.addr == at] or [s for s in kept if s.flags & SHF_EXECINSTR]
        return bool(contents) and all(section.type == Sht.NOBITS for section in contents)

    @property
    def end_of_section_headers(self) -> int:
        """The offset behind the table of section headers."""
        return self.header.shoff + len(self.sections) * self.structs.shdr.size

    @property
    def end_of_content(self) -> int:
        """The end of all that the headers speak of; the file's end without section headers."""
        if not self.sections:
            return len(self.view)
        filled = (s for s in self.sections if s.type not in {Sht.NULL, Sht.NOBITS})
        return max(
            self.end_of_section_headers,
            *(section.offset + section.size for section in filled),
            *(segment.offset + segment.filesz for segment in self.segments),
        )

    @property
    def appended(self) -> memoryview:
        """What is behind the object, such as an archive; empty if it is padding."""
        behind = self.view[self.end_of_content :]
        return behind if len(behind) > _MOST_PADDING or any(behind) else behind[:0]

    def has(self, number: int) -> bool:
        """Return whether `number` is that of a section: 0 is SHN_UNDEF."""
        return 0 < number < len(self.sections)

    def is_debug_section(self, section: Section) -> bool:
        """Return whether only debuggers read a section: `strip --strip-debug` removes it."""
        is_loaded = section.flags & SHF_ALLOC
        return not is_loaded and self.section_name(section).startswith(_DEBUG_SECTIONS)

    def section_name(self, section: Section) -> bytes:
        """Return the name of a section, empty if the table of section names is missing."""
        number = self.header.shstrndx
        if number == SHN_XINDEX and self.sections:
            number = self.sections[0].link
        if not self.has(number):
            return b""
        start = self.sections[number].offset + section.name
        return bytes(self.view[start : start + 64]).partition(b"\0")[0]

    def segment(self, kind: Pt) -> Segment | None:
        """As `last_of`."""
        return last_of(self.segments, kind)

    def offset(self, address: int, size: int, what: str) -> int:
        """Return the file offset of `size` bytes that are mapped to a virtual address."""
        offset, room = self.extent(address, what)
        if size > room:
            raise self.bad(f"{what} reaches past the end of the loaded segments")
        return offset

    def extent(self, address: int, what: str) -> tuple[int, int]:
        """Return the file offset of a virtual address, and the number of bytes mapped there."""
        self.spend(1, what)
        number = bisect_right(self.mapped, address, key=lambda part: part.start) - 1
        if number >= 0 and address < self.mapped[number].stop:
            _, stop, shift = self.mapped[number]
            return address - shift, stop - address
        raise self.bad(f"{what} lies outside of the loaded segments")

    def read(self, offset: int, size: int, what: str) -> bytes:
        """Copy bytes out of the file: the copy does not keep the caller's buffer alive."""
        if offset < 0 or size < 0 or offset + size > len(self.view):
            raise self.bad(f"{what} reaches past the end of the file")
        self.spend(1 + (size >> 12), what, memory=size)
        return bytes(self.view[offset : offset + size])

    def loaded(self, address: int, size: int, what: str) -> bytes:
        """Copy `size` bytes that are loaded to a virtual address."""
        return self.read(self.offset(address, size, what), size, what)

    def notes(self, offset: int, size: int) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield (type, owner, descriptor) of the notes in a segment or section.

        The descriptor of a property note is padded to 8 in ELF64, all others to 4 whatever the
        class: the gABI's "Note Section" as practised.
        """
        end = offset + size
        while offset + 12 <= end:
            name_size, size, kind = self.unpack(self.structs.note, offset, "a note")
            start = offset + 12 + (name_size + 3) // 4 * 4
            if start + size > end:
                return
            owner = self.read(offset + 12, name_size, "the owner of a note")
            yield kind, owner, self.read(start, size, "a note")
            wide = self.structs.bits == 64 and (kind, owner) == (NT_GNU_PROPERTY_TYPE_0, b"GNU\0")
            unit = 8 if wide else 4
            offset = start + (size + unit - 1) // unit * unit

    def unpack(self, struct: Struct, offset: int, what: str) -> tuple[int, ...]:
        """Read one structure."""
        self.spend(1, what)
        if offset < 0 or offset + struct.size > len(self.view):
            raise self.bad(f"{what} reaches past the end of the file")
        return struct.unpack_from(self.view, offset)


def _segments(
    view: memoryview, name: str, budget: Budget, structs: Structs, header: Header
) -> tuple[Segment, ...]:
    count, offset = header.phnum, header.phoff
    first = _first_section(view, structs, header)
    if count == PN_XNUM and first is not None:
        count = first.info
    if not count:
        return ()
    end = offset + count * structs.phdr.size
    if header.phentsize != structs.phdr.size or end > len(view):
        raise BadElfError(
            f"`{name}` is truncated or broken: its program headers are not all in the file",
            hint="it was not copied whole; build or download it again",
        )
    budget.spend(count, "the program headers", name, memory=_HEADER_SIZE * count)
    raw = structs.phdr.iter_unpack(bytes(view[offset:end]))
    if structs.bits == 32:
        raw = ((t, f, o, v, p, fs, ms, a) for t, o, v, p, fs, ms, f, a in raw)
    return tuple(Segment(*fields) for fields in raw)


def last_of(segments: Sequence[Segment], kind: Pt) -> Segment | None:
    """Return the last segment of a type: the one that glibc's loader keeps."""
    return next((segment for segment in reversed(segments) if segment.type == kind), None)


def loads_among(segments: Iterable[Segment]) -> list[Segment]:
    """Return those of `segments` that are mapped (PT_LOAD)."""
    return [segment for segment in segments if segment.type == Pt.LOAD]


def _mapped(segments: tuple[Segment, ...], size: int) -> tuple[Mapped, ...]:
    """Return what a kernel and a loader map of a file of `size` bytes: whole pages.

    So a table may lie before or behind the bytes of its segment, or in two of them (glibc,
    `_dl_map_segments`; Linux, `elf_map`). What follows p_filesz is zero if p_memsz is larger.
    """
    parts: list[Mapped] = []
    for load in sorted(loads_among(segments), key=lambda s: s.vaddr):
        start, stop, shift = load.vaddr, load.vaddr + load.filesz, load.vaddr - load.offset
        if shift % SMALLEST_PAGE == 0:  # which loaders require
            start -= start % SMALLEST_PAGE
            stop += -stop % SMALLEST_PAGE if load.memsz <= load.filesz else 0
        stop = min(stop, size + shift)
        if parts and parts[-1].shift == shift and start <= parts[-1].stop:
            start, stop = parts[-1].start, max(stop, parts.pop().stop)
        elif parts and start < parts[-1].stop:  # the later segment is mapped over the earlier
            parts.append(parts.pop()._replace(stop=start))
        if start < stop:
            parts.append(Mapped(start, stop, shift))
    return tuple(parts)


def _sections(
    view: memoryview, name: str, budget: Budget, structs: Structs, header: Header
) -> tuple[Section, ...]:
    first = _first_section(view, structs, header)
    if first is None or header.shentsize != structs.shdr.size:
        return ()
    count = header.shnum or first.size
    end = header.shoff + count * structs.shdr.size
    if end > len(view):
        return ()
    budget.spend(count, "the section headers", name, memory=_HEADER_SIZE * count)
    raw = structs.shdr.iter_unpack(bytes(view[header.shoff : end]))
    return tuple(Section(*fields) for fields in raw)


def _first_section(view: memoryview, structs: Structs, header: Header) -> Section | None:
    """Return section header 0: its sh_size and sh_info are what e_shnum and e_phnum cannot hold."""
    if not header.shoff or header.shoff + structs.shdr.size > len(view):
        return None
    return Section._make(structs.shdr.unpack_from(view, header.shoff))
