"""An ELF file as raw tables: headers, dynamic section, strings, symbols, versions, hash tables.

Everything that the loader uses is found as the loader finds it: through the program headers and
PT_DYNAMIC, addresses mapped by PT_LOAD. Section headers may be missing and are never trusted where
something better is there. No header is believed: every access is checked against the file's
size, and no count makes a loop longer than the file can hold.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from struct import Struct
from sys import byteorder
from typing import NamedTuple, Self

from wheelfix.elf.model import Machine, Segment
from wheelfix.errors import BadElfError
from wheelfix.system.mmap_io import Text, copied

MAGIC = b"\x7fELF"
MAX_SYMBOLS = 1 << 20
"""More dynamic symbols than any real library has; a larger table is a lie."""
MAX_VERSIONS = 1 << 15
"""Version indices have 15 bits (LSB core, "Symbol Version Table")."""
MAX_CHAIN = 1 << 16
_LARGE = 2 * 2**20
"""Bytes of a string table that is not copied."""
EM_ALPHA = 0x9026
PN_XNUM = 0xFFFF
_SHN_XINDEX = 0xFFFF
NT_GNU_PROPERTY_TYPE_0 = 5


class Pt(IntEnum):
    """`p_type`, gABI chapter 5, "Program Header", and the GNU ones."""

    LOAD = 1
    DYNAMIC = 2
    INTERP = 3
    NOTE = 4
    TLS = 7
    GNU_STACK = 0x6474E551
    GNU_RELRO = 0x6474E552
    GNU_PROPERTY = 0x6474E553


class Sht(IntEnum):
    """`sh_type`, gABI chapter 4, "Sections"."""

    NULL = 0
    PROGBITS = 1
    SYMTAB = 2
    STRTAB = 3
    NOTE = 7
    NOBITS = 8
    DYNSYM = 11
    X86_64_UNWIND = 0x70000001
    GNU_VERNEED = 0x6FFFFFFE
    GNU_VERSYM = 0x6FFFFFFF


class Dt(IntEnum):
    """`d_tag`, gABI chapter 5, "Dynamic Section", and the GNU ones."""

    NULL = 0
    NEEDED = 1
    PLTRELSZ = 2
    PLTGOT = 3
    HASH = 4
    STRTAB = 5
    SYMTAB = 6
    RELA = 7
    RELASZ = 8
    STRSZ = 10
    INIT = 12
    FINI = 13
    SONAME = 14
    RPATH = 15
    SYMBOLIC = 16
    REL = 17
    RELSZ = 18
    PLTREL = 20
    TEXTREL = 22
    JMPREL = 23
    BIND_NOW = 24
    INIT_ARRAY = 25
    FINI_ARRAY = 26
    INIT_ARRAYSZ = 27
    FINI_ARRAYSZ = 28
    RUNPATH = 29
    FLAGS = 30
    PREINIT_ARRAY = 32
    PREINIT_ARRAYSZ = 33
    RELRSZ = 35
    RELR = 36
    GNU_HASH = 0x6FFFFEF5
    CONFIG = 0x6FFFFEFA
    DEPAUDIT = 0x6FFFFEFB
    AUDIT = 0x6FFFFEFC
    VERSYM = 0x6FFFFFF0
    FLAGS_1 = 0x6FFFFFFB
    VERDEF = 0x6FFFFFFC
    VERNEED = 0x6FFFFFFE
    VERNEEDNUM = 0x6FFFFFFF
    AUXILIARY = 0x7FFFFFFD
    FILTER = 0x7FFFFFFF


def words(raw: bytes, order: str) -> "array[int]":
    """Return words of 32 bits in the byte order of this machine."""
    found = array("I", raw)
    if (order == "<") != (byteorder == "little"):
        found.byteswap()
    return found


class Layout:
    """The structures of one ELF class and byte order, as `Struct`s."""

    __slots__ = (
        "addr",
        "bits",
        "dyn",
        "ehdr",
        "half",
        "note",
        "order",
        "phdr",
        "rel",
        "rela",
        "shdr",
        "sym",
    )

    def __init__(self, bits: int, order: str) -> None:
        wide = bits == 64
        self.bits = bits
        self.order = order
        self.addr = Struct(order + ("Q" if wide else "I"))
        self.ehdr = Struct(order + ("HHIQQQIHHHHHH" if wide else "HHIIIIIHHHHHH"))
        self.phdr = Struct(order + ("IIQQQQQQ" if wide else "IIIIIIII"))
        self.shdr = Struct(order + ("IIQQQQIIQQ" if wide else "IIIIIIIIII"))
        self.half = Struct(order + "H")
        self.note = Struct(order + "III")
        self.dyn = Struct(order + ("qQ" if wide else "iI"))
        self.sym = Struct(order + ("IBBHQQ" if wide else "IIIBBH"))
        self.rel = Struct(order + ("QQ" if wide else "II"))
        self.rela = Struct(order + ("QQq" if wide else "IIi"))


_LAYOUTS = {
    (cls, data): Layout(32 * cls, "<" if data == 1 else ">") for cls in (1, 2) for data in (1, 2)
}
_WORDS = {order: Struct(order + "I") for order in "<>"}
_HASHES = {order: Struct(order + "IIII") for order in "<>"}
VERNEED = {order: Struct(order + "HHIII") for order in "<>"}
VERNAUX = {order: Struct(order + "IHHII") for order in "<>"}
_VERDEF = {order: Struct(order + "HHHHIII") for order in "<>"}
_VERDAUX = {order: Struct(order + "II") for order in "<>"}


class Section(NamedTuple):
    """One section header."""

    name: int
    """`sh_name`: where its name begins in the string table of section names."""
    type: int
    flags: int
    addr: int
    offset: int
    size: int
    link: int
    """`sh_link`, as a section's number: for a symbol table its strings."""
    entsize: int


class Version(NamedTuple):
    """What one version index stands for: a need (with the library's name) or a definition."""

    name: str
    file: str | None
    """vn_file for a Vernaux entry, None for a Verdef entry."""
    base: bool = False
    """VER_FLG_BASE: the entry is the library's own name, not a version."""


class NeedRecord(NamedTuple):
    """One Verneed record and its Vernaux records, as offsets and raw fields."""

    offset: int
    """Where in the file the Verneed record is; the `auxiliaries` may be anywhere after it."""
    file: int
    """vn_file, as an offset into .dynstr."""
    auxiliaries: tuple[tuple[int, int, int, int, int], ...]
    """(file offset, vna_hash, vna_flags, vna_other, vna_name) of each."""

    @property
    def indices(self) -> frozenset[int]:
        """The version indices that symbols refer to it by: vna_other without the hidden bit."""
        return frozenset(index & 0x7FFF for _, _, _, index, _ in self.auxiliaries)


@dataclass(frozen=True, slots=True)
class Image:
    """One ELF file and the checked ways to look into it. `view` belongs to the caller."""

    view: memoryview
    name: str
    layout: Layout
    osabi: int
    type: int
    machine: int
    flags: int
    entry: int
    """`e_entry`, where a program starts."""
    header_size: int
    program_headers: tuple[int, int]
    """File offset and size of the program header table."""
    segments: tuple[Segment, ...]
    sections: tuple[Section, ...]
    """Empty where the table is missing or not wholly in the file: the loader needs none."""
    section_headers: int
    """File offset of the section header table, which `sections` has in its order."""
    section_names: int
    """`e_shstrndx`: the number of the section with the names of the others."""

    @classmethod
    def parse(cls, view: memoryview, name: str) -> Self:
        """Read the header, the program headers and the section headers.

        Raises `BadElfError` for headers that are no ELF header or reach past the file's end.
        """
        if bytes(view[:4]) != MAGIC:
            raise BadElfError(f"`{name}` does not start with ELF's magic number")
        layout = _LAYOUTS.get((view[4], view[5])) if len(view) > 16 else None
        if layout is None or len(view) < 16 + layout.ehdr.size:
            raise BadElfError(
                f"`{name}` has a broken ELF header",
                hint="the file is truncated or not an ELF object; build it again",
            )
        (
            kind,
            machine,
            _,
            entry,
            phoff,
            shoff,
            flags,
            _,
            phentsize,
            phnum,
            shentsize,
            shnum,
            names,
        ) = layout.ehdr.unpack_from(view, 16)
        sections = _sections(view, layout, (shoff, shentsize, shnum))
        if phnum == PN_XNUM and shoff:
            phnum = _extended_count(view, layout, shoff)
        return cls(
            view=view,
            name=name,
            layout=layout,
            osabi=view[7],
            type=kind,
            machine=machine,
            flags=flags,
            entry=entry,
            header_size=16 + layout.ehdr.size,
            program_headers=(phoff, phentsize * phnum),
            segments=_segments(view, name, layout, (phoff, phentsize, phnum)),
            sections=sections,
            section_headers=shoff,
            section_names=names,
        )

    def bad(self, what: str) -> BadElfError:
        """Make the error for a table that does not hold together."""
        return BadElfError(
            f"`{self.name}` is not a sound ELF object: {what}",
            hint=f"look at it with `readelf -ldW`, and rebuild or exclude `{self.name}`",
        )

    def require_whole(self) -> None:
        """Raise `BadElfError` unless the file holds the contents of every PT_LOAD segment."""
        for segment in self.segments:
            if segment.type == Pt.LOAD and segment.offset + segment.filesz > len(self.view):
                end = segment.offset + segment.filesz
                raise BadElfError(
                    f"`{self.name}` is truncated: a segment ends at byte {end},"
                    f" the file at {len(self.view)}",
                    hint="it was not copied whole; build or download it again",
                )

    @property
    def is_debug_companion(self) -> bool:
        """Whether its contents were moved out: `objcopy --only-keep-debug` leaves NOBITS."""
        dynamic = self.segment(Pt.DYNAMIC)
        at = dynamic.vaddr if dynamic is not None else None
        return any(
            section.type == Sht.NOBITS and (section.flags & 4 or section.addr == at)
            for section in self.sections
            if section.flags & 2 and section.size  # SHF_ALLOC; 4 is SHF_EXECINSTR
        )

    def section_name(self, section: Section) -> bytes:
        """Return the name of a section, empty where the table of names is not to be found."""
        number = self.section_names
        if number == _SHN_XINDEX and self.sections:
            number = self.sections[0].link
        if not 0 < number < len(self.sections):
            return b""
        start = self.sections[number].offset + section.name
        return bytes(self.view[start : start + 64]).partition(b"\0")[0]

    def segment(self, kind: Pt) -> Segment | None:
        """Return the last segment of a type, the one that glibc's loader keeps."""
        return next((s for s in reversed(self.segments) if s.type == kind), None)

    def offset(self, address: int, size: int, what: str) -> int:
        """Map `size` bytes at a virtual address to their place in the file."""
        for segment in self.segments:
            start = address - segment.vaddr
            if segment.type == Pt.LOAD and start >= 0 and start + size <= segment.filesz:
                return segment.offset + start
        raise self.bad(f"{what} lies outside of the loaded segments")

    def extent(self, address: int, what: str) -> tuple[int, int]:
        """Return file offset and length of what is loaded from a virtual address on."""
        for segment in self.segments:
            start = address - segment.vaddr
            if segment.type == Pt.LOAD and 0 <= start < segment.filesz:
                return segment.offset + start, segment.filesz - start
        raise self.bad(f"{what} lies outside of the loaded segments")

    def read(self, offset: int, size: int, what: str) -> bytes:
        """Copy bytes out of the file, so that nothing keeps the caller's buffer alive."""
        if offset < 0 or size < 0 or offset + size > len(self.view):
            raise self.bad(f"{what} reaches past the end of the file")
        return copied(self.view, offset, offset + size)

    def loaded(self, address: int, size: int, what: str) -> bytes:
        """Copy bytes that are loaded to a virtual address."""
        return self.read(self.offset(address, size, what), size, what)

    def place(self, address: int, size: int, what: str) -> int:
        """Return where bytes that are loaded to a virtual address stand in the file."""
        offset = self.offset(address, size, what)
        if offset < 0 or size < 0 or offset + size > len(self.view):
            raise self.bad(f"{what} reaches past the end of the file")
        return offset

    def notes(self, offset: int, size: int) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield (type, owner, descriptor) of the notes in a segment or section.

        The descriptor of a property note is padded to 8 in ELF64, all others to 4 whatever the
        class: the gABI's "Note Section" as practised.
        """
        raw = self.read(offset, min(size, 1 << 16), "a note")
        at = 0
        while at + 12 <= len(raw):
            name_size, size, kind = self.layout.note.unpack_from(raw, at)
            start = at + 12 + (name_size + 3) // 4 * 4
            owner = raw[at + 12 : at + 12 + name_size]
            if start + size > len(raw):
                return
            yield kind, owner, raw[start : start + size]
            wide = self.layout.bits == 64 and (kind, owner) == (NT_GNU_PROPERTY_TYPE_0, b"GNU\0")
            unit = 8 if wide else 4
            at = start + (size + unit - 1) // unit * unit

    def unpack(self, struct: Struct, offset: int, what: str) -> tuple[int, ...]:
        """Read one structure."""
        if offset < 0 or offset + struct.size > len(self.view):
            raise self.bad(f"{what} reaches past the end of the file")
        return struct.unpack_from(self.view, offset)


@dataclass(frozen=True, slots=True)
class NotingImage(Image):
    """An image that notes which parts of the file were looked at."""

    noted: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """File offset and size of each part."""

    def read(self, offset: int, size: int, what: str) -> bytes:
        """Copy bytes out of the file, and note them."""
        self.noted.append((offset, size))
        return Image.read(self, offset, size, what)

    def place(self, address: int, size: int, what: str) -> int:
        """Return where bytes stand, and note them."""
        offset = Image.place(self, address, size, what)
        self.noted.append((offset, size))
        return offset

    def unpack(self, struct: Struct, offset: int, what: str) -> tuple[int, ...]:
        """Read one structure, and note it."""
        self.noted.append((offset, struct.size))
        return Image.unpack(self, struct, offset, what)


@dataclass(frozen=True)
class Dynamic:
    """The dynamic section of an image and the tables that it points to."""

    image: Image
    entries: tuple[tuple[int, int], ...]
    """(d_tag, d_val) in order, without the DT_NULL that ends them."""
    tags: dict[int, int]
    """The last value of each tag, the one that the loader keeps."""
    text: bytes | Text
    """.dynstr, to be looked into; of a large one, nothing is in memory."""

    @cached_property
    def strings(self) -> bytes:
        """All of .dynstr."""
        return self.text if isinstance(self.text, bytes) else self.text[:]

    @classmethod
    def parse(cls, image: Image) -> Self | None:
        """Read PT_DYNAMIC, None where there is none or it holds nothing."""
        segment = image.segment(Pt.DYNAMIC)
        if segment is None or segment.filesz == 0:
            return None
        size = min(segment.filesz, 1 << 20)
        size -= size % image.layout.dyn.size
        raw = image.loaded(segment.vaddr, size, "the dynamic section")
        entries: list[tuple[int, int]] = []
        for tag, value in image.layout.dyn.iter_unpack(raw):
            if tag == Dt.NULL:
                break
            entries.append((tag, value))
        tags = dict(entries)
        text: bytes | Text = b""
        if Dt.STRTAB in tags:
            size = tags.get(Dt.STRSZ, 0)
            at = image.place(tags[Dt.STRTAB], size, "the dynamic string table")
            if size <= _LARGE:
                text = image.read(at, size, "the dynamic string table")
            else:
                text = Text(image.view, at, at + size)
        return cls(image=image, entries=tuple(entries), tags=tags, text=text)

    def string(self, offset: int, what: str) -> str:
        """Read one string of .dynstr; undecodable bytes become surrogates."""
        end = self.text.find(b"\0", offset)
        if end < 0:
            raise self.image.bad(f"{what} is no string of the dynamic string table")
        return self.text[offset:end].decode("utf-8", "surrogateescape")

    def tag_string(self, tag: Dt) -> str | None:
        """Read the string that a tag names, None where the tag is missing."""
        return self.string(self.tags[tag], f"DT_{tag.name}") if tag in self.tags else None

    # --- versions (LSB core, "Symbol Versioning") ------------------------------------------------

    def version_needs(self) -> Iterator[tuple[str, list[tuple[int, str]]]]:
        """Yield each Verneed record: its file, its versions with their indices."""
        for record in self.need_records():
            yield (
                self.string(record.file, "the file of a version need"),
                [
                    (index & 0x7FFF, self.string(name, "a needed version"))
                    for _, _, _, index, name in record.auxiliaries
                ],
            )

    def need_records(self) -> Iterator[NeedRecord]:
        """Yield each Verneed record, undecoded.

        The chains are followed by their `next` links, as glibc's `_dl_check_map_versions` does.
        """
        if Dt.VERNEED not in self.tags:
            return
        image, order = self.image, self.image.layout.order
        at, _ = image.extent(self.tags[Dt.VERNEED], "DT_VERNEED")
        budget = MAX_VERSIONS
        while True:
            version, _, file, aux, step = image.unpack(VERNEED[order], at, "a Verneed record")
            if version != 1:
                raise image.bad(f"a Verneed record has the unknown version {version}")
            auxiliaries: list[tuple[int, int, int, int, int]] = []
            where = at + aux
            while True:
                budget -= 1
                if budget < 0:
                    raise image.bad("its version needs do not end")
                hashed, flags, index, name, more = image.unpack(
                    VERNAUX[order], where, "a Vernaux record"
                )
                auxiliaries.append((where, hashed, flags, index, name))
                if not more:
                    break
                where += more
            yield NeedRecord(offset=at, file=file, auxiliaries=tuple(auxiliaries))
            if not step:
                return
            at += step

    def version_definitions(self) -> Iterator[tuple[int, Version]]:
        """Yield each Verdef record's index and name."""
        for index, flags, names in self.definition_records():
            if names:
                text = self.string(names[0], "a defined version")
                yield index & 0x7FFF, Version(name=text, file=None, base=bool(flags & 1))

    def definition_records(self) -> Iterator[tuple[int, int, list[int]]]:
        """Yield vd_ndx, vd_flags and every vda_name of each Verdef record, its own first."""
        if Dt.VERDEF not in self.tags:
            return
        image, order = self.image, self.image.layout.order
        at, _ = image.extent(self.tags[Dt.VERDEF], "DT_VERDEF")
        budget = 2 * MAX_VERSIONS
        while budget > 0:
            version, flags, index, count, _, aux, step = image.unpack(
                _VERDEF[order], at, "a Verdef record"
            )
            if version != 1:
                raise image.bad(f"a Verdef record has the unknown version {version}")
            names: list[int] = []
            where = at + aux
            for _ in range(min(count, budget)):
                name, more = image.unpack(_VERDAUX[order], where, "a Verdaux record")
                names.append(name)
                where += more
            yield index, flags, names
            if not step:
                return
            at += step
            budget -= max(count, 1)
        raise image.bad("its version definitions do not end")

    def version_indices(self, count: int) -> tuple[int, ...] | None:
        """Read DT_VERSYM for the first `count` symbols; None where there is no such table."""
        if Dt.VERSYM not in self.tags:
            return None
        raw = self.image.loaded(self.tags[Dt.VERSYM], 2 * count, "DT_VERSYM")
        return Struct(f"{self.image.layout.order}{count}H").unpack(raw)

    def place_of_indices(self, count: int) -> int | None:
        """Return where DT_VERSYM stands in the file, for the first `count` symbols."""
        if Dt.VERSYM not in self.tags:
            return None
        return self.image.place(self.tags[Dt.VERSYM], 2 * count, "DT_VERSYM")

    # --- symbols (gABI chapter 4, "Symbol Table") ------------------------------------------------

    def symbols(self, start: int, stop: int) -> Iterator[tuple[int, ...]]:
        """Yield (name, info, other, section, value, size) for entries `start` to `stop` - 1."""
        image, sym = self.image, self.image.layout.sym
        if stop <= start:
            return iter(())
        at, size = self.place_of_symbols(start, stop), (stop - start) * sym.size
        entries = sym.iter_unpack(image.read(at, size, "the symbol table"))
        if image.layout.bits == 64:
            return entries
        return ((n, i, o, x, v, s) for n, v, s, i, o, x in entries)

    def place_of_symbols(self, start: int, stop: int) -> int:
        """Return where entries `start` to `stop` - 1 stand in the file, which has to have them."""
        image, size = self.image, self.image.layout.sym.size
        if stop - start > MAX_SYMBOLS:
            raise image.bad(f"it says that it has {stop} dynamic symbols")
        at = self.tags[Dt.SYMTAB] + start * size
        return image.place(at, (stop - start) * size, "the symbol table")

    def symbol_count(self) -> int:
        """Return the number of entries of .dynsym."""
        return self._symbol_count

    @cached_property
    def _symbol_count(self) -> int:
        """Count the entries of .dynsym; no tag says how many there are.

        DT_HASH has a chain word for each (64-bit words on s390x and Alpha). DT_GNU_HASH ends with
        the last defined symbol, unless none is defined: GNU ld then says `symoffset` 1 whatever
        is undefined, and the section header or the relocations must tell.
        """
        if Dt.SYMTAB not in self.tags:
            return 0
        if Dt.HASH in self.tags:
            return self._sysv_chains()
        table = self.gnu_hash()
        if table is not None and (last := table.last_symbol()) is not None:
            return last + 1
        entsize = self.image.layout.sym.size
        for section in self.image.sections:
            if section.type == Sht.DYNSYM and section.addr == self.tags[Dt.SYMTAB]:
                return section.size // entsize
        return max(self._relocated_symbols(), default=-1) + 1

    def gnu_hash(self) -> "GnuHash | None":
        """Return DT_GNU_HASH, None where there is none."""
        return self._gnu_hash

    @cached_property
    def _gnu_hash(self) -> "GnuHash | None":
        if Dt.GNU_HASH not in self.tags:
            return None
        at, room = self.image.extent(self.tags[Dt.GNU_HASH], "DT_GNU_HASH")
        buckets, symoffset, bloom, _ = self.image.unpack(
            _HASHES[self.image.layout.order], at, "DT_GNU_HASH"
        )
        start = 16 + bloom * self.image.layout.addr.size
        if start + 4 * buckets > room:
            raise self.image.bad("DT_GNU_HASH is larger than the segment that holds it")
        return GnuHash(
            image=self.image,
            symoffset=symoffset,
            count=buckets,
            buckets=at + start,
            chains=at + start + 4 * buckets,
            chain_count=(room - start - 4 * buckets) // 4,
        )

    def find(self, name: bytes) -> tuple[int, ...] | None:
        """Look a symbol up in DT_GNU_HASH; return its entry as `symbols` yields it."""
        table = self.gnu_hash()
        for index in table.candidates(name) if table is not None else ():
            (entry,) = self.symbols(index, index + 1)
            if self.text.startswith(name + b"\0", entry[0]):
                return entry
        return None

    def _sysv_chains(self) -> int:
        return self._sysv_counts()[1]

    def _sysv_counts(self) -> tuple[int, int, int]:
        """Return DT_HASH's number of buckets, number of chain words, and word size."""
        image = self.image
        wide = image.layout.bits == 64 and image.machine in {Machine.S390, EM_ALPHA}
        word = image.layout.addr if wide else _WORDS[image.layout.order]
        at, _ = image.extent(self.tags[Dt.HASH], "DT_HASH")
        (buckets,) = image.unpack(word, at, "DT_HASH")
        (chains,) = image.unpack(word, at + word.size, "DT_HASH")
        return buckets, chains, word.size

    def hash_tables(self) -> Iterator[tuple[Dt, int]]:
        """Yield each hash table that is there, and its size in bytes."""
        if Dt.HASH in self.tags:
            buckets, chains, word = self._sysv_counts()
            yield Dt.HASH, (2 + buckets + chains) * word
        table = self.gnu_hash()
        if table is not None:
            at, _ = self.image.extent(self.tags[Dt.GNU_HASH], "DT_GNU_HASH")
            last = table.last_symbol()
            chains = 0 if last is None else last + 1 - table.symoffset
            yield Dt.GNU_HASH, table.chains + 4 * chains - at

    def _relocated_symbols(self) -> Iterator[int]:
        shift = 32 if self.image.layout.bits == 64 else 8
        for table in self.relocations():
            for entry in table.struct.iter_unpack(table.raw):
                yield entry[1] >> shift

    def relocations(self) -> Iterator["Relocations"]:
        """Yield the tables of DT_RELA, DT_REL and DT_JMPREL that are there, read."""
        for tag, struct, size in self.relocation_tables():
            raw = self.image.loaded(self.tags[tag], size, f"DT_{tag.name}")
            yield Relocations(tag=tag, struct=struct, raw=raw)

    def relocation_tables(self) -> Iterator[tuple[Dt, Struct, int]]:
        """Yield the tag of each such table, its entry's structure, and its size in bytes."""
        layout, tags = self.image.layout, self.tags
        plt = layout.rela if tags.get(Dt.PLTREL) == Dt.RELA else layout.rel
        for tag, size_tag, struct in (
            (Dt.RELA, Dt.RELASZ, layout.rela),
            (Dt.REL, Dt.RELSZ, layout.rel),
            (Dt.JMPREL, Dt.PLTRELSZ, plt),
        ):
            size = tags.get(size_tag, 0)
            size -= size % struct.size
            if tag in tags and size:
                yield tag, struct, size


class Relocations(NamedTuple):
    """One relocation table, undecoded."""

    tag: Dt
    struct: Struct
    raw: bytes


@dataclass(frozen=True, kw_only=True)
class GnuHash:
    """The DT_GNU_HASH table: Bloom filter, buckets, chains; all places are file offsets."""

    image: Image
    symoffset: int
    """The first symbol that can be looked up; all undefined ones lie below."""
    count: int
    """Number of buckets."""
    buckets: int
    chains: int
    chain_count: int
    """How many chain words fit into the segment."""

    def last_symbol(self) -> int | None:
        """Return the highest index in the table, None where it is empty."""
        image = self.image
        raw = image.read(self.buckets, 4 * self.count, "DT_GNU_HASH")
        last = max(words(raw, image.layout.order), default=0)
        if last < self.symoffset:
            return None
        word = _WORDS[image.layout.order]
        for index in range(last, min(last + MAX_CHAIN, self.symoffset + self.chain_count)):
            (value,) = image.unpack(word, self.chains + 4 * (index - self.symoffset), "a chain")
            if value & 1:
                return index
        raise image.bad("a chain of DT_GNU_HASH does not end")

    @cached_property
    def is_empty(self) -> bool:
        """Whether no symbol can be looked up; `symoffset` means nothing then."""
        buckets = self.image.read(self.buckets, 4 * self.count, "DT_GNU_HASH")
        return not buckets.strip(b"\0")

    def candidates(self, name: bytes) -> Iterator[int]:
        """Yield the symbols whose hash is that of `name`, but for its last bit."""
        image, word = self.image, _WORDS[self.image.layout.order]
        wanted = gnu_hash(name)
        if not self.count:
            return
        (first,) = image.unpack(word, self.buckets + 4 * (wanted % self.count), "a bucket")
        if first < self.symoffset:
            return
        for index in range(first, min(first + MAX_CHAIN, self.symoffset + self.chain_count)):
            (value,) = image.unpack(word, self.chains + 4 * (index - self.symoffset), "a chain")
            if value | 1 == wanted | 1:
                yield index
            if value & 1:
                return
        raise image.bad("a chain of DT_GNU_HASH does not end")


def gnu_hash(name: bytes) -> int:
    """Hash a symbol name for DT_GNU_HASH (glibc, `_dl_new_hash`)."""
    value = 5381
    for byte in name:
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


def _segments(
    view: memoryview, name: str, layout: Layout, table: tuple[int, int, int]
) -> tuple[Segment, ...]:
    offset, entsize, count = table
    if not count:
        return ()
    if entsize != layout.phdr.size or offset + count * entsize > len(view):
        raise BadElfError(
            f"`{name}` is truncated or broken: its program headers are not all in the file",
            hint="it was not copied whole; build or download it again",
        )
    raw = layout.phdr.iter_unpack(bytes(view[offset : offset + count * entsize]))
    if layout.bits == 64:
        return tuple(
            Segment(type=t, flags=f, offset=o, vaddr=v, filesz=fs, memsz=ms, align=a)
            for t, f, o, v, _, fs, ms, a in raw
        )
    return tuple(
        Segment(type=t, flags=f, offset=o, vaddr=v, filesz=fs, memsz=ms, align=a)
        for t, o, v, _, fs, ms, f, a in raw
    )


def _sections(view: memoryview, layout: Layout, table: tuple[int, int, int]) -> tuple[Section, ...]:
    offset, entsize, count = table
    if not offset or entsize != layout.shdr.size or offset + entsize > len(view):
        return ()
    if not count:  # too many for e_shnum: the first header's sh_size tells
        count = layout.shdr.unpack_from(view, offset)[5]
    if offset + count * entsize > len(view):
        return ()
    raw = layout.shdr.iter_unpack(bytes(view[offset : offset + count * entsize]))
    return tuple(Section(n, t, f, a, o, s, k, e) for n, t, f, a, o, s, k, _, _, e in raw)


def _extended_count(view: memoryview, layout: Layout, offset: int) -> int:
    """Read the number of program headers where e_phnum is PN_XNUM: sh_info of section 0."""
    if offset + layout.shdr.size > len(view):
        return PN_XNUM
    count: int = layout.shdr.unpack_from(view, offset)[7]
    return count
