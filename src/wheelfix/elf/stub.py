"""Stub ELF objects: small files for auditwheel to read in place of the real objects.

auditwheel reads the header, PT_INTERP, the dynamic section, `.dynsym`, `.gnu.version_r` and the
GNU property note, and never any code. So a stub of a few kilobytes, built from an `Elf`, gives the
same verdict. It cannot be loaded.

Formats are those of the gABI, chapters 4 and 5; Verneed is in the LSB core specification, 10.7.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from wheelfix.elf.constants import (
    MAGIC,
    NT_GNU_PROPERTY_TYPE_0,
    PF_R,
    SHF_ALLOC,
    SHN_ABS,
    STB_GLOBAL,
    STB_WEAK,
    STT_FUNC,
    Dt,
    Pt,
    Sht,
)
from wheelfix.elf.model import Elf, ElfType, VersionNeed

_MAX_SEGMENTS = 3


@dataclass(slots=True)
class _Strings:
    """A string table under construction."""

    data: bytearray = field(default_factory=lambda: bytearray(1))
    offsets: dict[str, int] = field(default_factory=lambda: {"": 0})

    def add(self, text: str) -> int:
        """Return the offset of `text`, appended if it is new."""
        if text not in self.offsets:
            self.offsets[text] = len(self.data)
            # Names need not be UTF-8: the reader decoded them with surrogateescape.
            self.data += text.encode("utf-8", "surrogateescape") + b"\0"
        return self.offsets[text]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Packer:
    """The record formats of one ELF class and byte order, for writing."""

    bits: int
    order: str

    @property
    def word(self) -> int:
        """Bytes of an address."""
        return self.bits // 8

    def pack(self, format_: str, *values: object) -> bytes:
        """Pack `values`; `A` in the format is an address."""
        return struct.pack(
            self.order + format_.replace("A", "Q" if self.bits == 64 else "I"), *values
        )

    def segment(self, kind: int, offset: int, size: int) -> bytes:
        """Pack a read-only program header whose address is its file offset."""
        wide = self.bits == 64
        flags = (PF_R,)
        return self.pack(
            "IIAAAAAA" if wide else "8I",
            *(kind, *(flags if wide else ()), offset, offset, offset, size, size),
            *(() if wide else flags),
            self.word,
        )

    def symbol(self, name: int, binding: int, type_: int, section: int) -> bytes:
        """Pack a symbol without value and size."""
        info = binding << 4 | type_
        if self.bits == 64:
            return self.pack("IBBHQQ", name, info, 0, section, 0, 0)
        return self.pack("IIIBBH", name, 0, 0, info, 0, section)


@dataclass(slots=True, kw_only=True)
class _Builder:
    """An ELF file under construction: room for the headers, then the sections."""

    packer: _Packer
    body: bytearray
    names: _Strings = field(default_factory=_Strings)
    sections: list[tuple[int, ...]] = field(default_factory=lambda: [(0,) * 10])
    segments: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])

    def add(  # noqa: PLR0913 - the fields of a section header
        self,
        name: str,
        type_: int,
        data: bytes,
        *,
        link: int = 0,
        info: int = 0,
        align: int = 1,
        entry_size: int = 0,
        segment: int | None = None,
        loaded: bool = True,
    ) -> int:
        """Append a section, and a segment for it if given, and return its offset."""
        self.body += bytes(-len(self.body) % align)
        offset = len(self.body)
        self.body += data
        address, flags = (offset, SHF_ALLOC) if loaded else (0, 0)
        self.sections.append(
            (
                *(self.names.add(name), type_, flags, address, offset),
                *(len(data), link, info, align, entry_size),
            )
        )
        if segment is not None:
            self.segments.append((segment, offset, len(data)))
        return offset

    @property
    def next_index(self) -> int:
        """The index of the next section."""
        return len(self.sections)


def build_stub(
    elf: Elf,
    *,
    needed: Sequence[str],
    search_path: str | None = None,
    hook: str | None = None,
    soname: str | None = None,
) -> bytes:
    """Build an object with the given dynamic section, and the rest that auditwheel reads of `elf`.

    `search_path` becomes DT_RPATH, `hook` a defined function. Class, byte order, machine, flags,
    OS ABI, interpreter, version needs, undefined symbols and the GNU property note are from `elf`.
    """
    packer = _Packer(order="<" if elf.little_endian else ">", bits=elf.bits)
    header_size, segment_size = (64, 56) if elf.bits == 64 else (52, 32)
    file = _Builder(packer=packer, body=bytearray(header_size + _MAX_SEGMENTS * segment_size))
    _add_notes(file, elf)
    if elf.dynamic:
        strings = _Strings()
        entries = [(Dt.NEEDED, strings.add(name)) for name in needed]
        named = ((Dt.SONAME, soname), (Dt.RPATH, search_path))
        entries += [(tag, strings.add(text)) for tag, text in named if text is not None]
        _add_dynamic(file, elf, strings, entries, hook)
    return _finish(file, elf, header_size, segment_size)


def _add_notes(file: _Builder, elf: Elf) -> None:
    packer = file.packer
    if elf.interpreter is not None:
        interpreter = elf.interpreter.encode("utf-8", "surrogateescape") + b"\0"
        file.add(".interp", Sht.PROGBITS, interpreter, segment=Pt.INTERP)
    if elf.gnu_properties:
        size = len(elf.gnu_properties)
        note = packer.pack("III4s", 4, size, NT_GNU_PROPERTY_TYPE_0, b"GNU\0")
        file.add(".note.gnu.property", Sht.NOTE, note + elf.gnu_properties, align=packer.word)


def _add_dynamic(
    file: _Builder,
    elf: Elf,
    strings: _Strings,
    entries: Iterable[tuple[int, int]],
    hook: str | None,
) -> None:
    """Add .dynsym, .gnu.version_r, .dynstr, and .dynamic with `entries` and their addresses."""
    packer = file.packer
    needs = [need for need in elf.verneed if need.versions]
    strings_index = file.next_index + (2 if needs else 1)
    symbols = b"".join(_symbols(elf, packer, strings, hook))
    symbol_size = 24 if packer.bits == 64 else 16
    at_symbols = file.add(
        ".dynsym", Sht.DYNSYM, symbols,
        link=strings_index, info=1, align=packer.word, entry_size=symbol_size,
    )  # fmt: skip
    entries = [*entries, (Dt.SYMTAB, at_symbols), (Dt.SYMENT, symbol_size)]
    if needs:
        records = b"".join(_version_needs(needs, packer, strings))
        at_needs = file.add(
            ".gnu.version_r", Sht.GNU_VERNEED, records,
            link=strings_index, info=len(needs), align=packer.word,
        )  # fmt: skip
        entries += [(Dt.VERNEED, at_needs), (Dt.VERNEEDNUM, len(needs))]
    at_strings = file.add(".dynstr", Sht.STRTAB, bytes(strings.data))
    entries += [(Dt.STRTAB, at_strings), (Dt.STRSZ, len(strings.data)), (Dt.NULL, 0)]
    file.add(
        ".dynamic",
        Sht.DYNAMIC,
        b"".join(packer.pack("AA", *entry) for entry in entries),
        link=strings_index,
        align=packer.word,
        entry_size=2 * packer.word,
        segment=Pt.DYNAMIC,
    )


def _symbols(elf: Elf, packer: _Packer, strings: _Strings, hook: str | None) -> Iterator[bytes]:
    yield packer.symbol(0, 0, 0, 0)
    if hook is not None:
        yield packer.symbol(strings.add(hook), STB_GLOBAL, STT_FUNC, SHN_ABS)
    for symbol in elf.undefined:
        binding = STB_WEAK if symbol.weak else STB_GLOBAL
        yield packer.symbol(strings.add(symbol.name), binding, symbol.type, 0)


def _version_needs(
    needs: Sequence[VersionNeed], packer: _Packer, strings: _Strings
) -> Iterator[bytes]:
    """Pack Verneed records of 16 bytes, each followed by its Vernaux records of 16 bytes."""
    index = 2  # 0 and 1 are VER_NDX_LOCAL and VER_NDX_GLOBAL
    for need in needs:
        count = len(need.versions)
        after = 0 if need is needs[-1] else 16 * (count + 1)
        yield packer.pack("HHIII", 1, count, strings.add(need.file), 16, after)
        for left, version in zip(reversed(range(count)), need.versions, strict=True):
            hashed, name = _elf_hash(version), strings.add(version)
            yield packer.pack("IHHII", hashed, 0, index, name, 16 if left else 0)
            index += 1


def _elf_hash(name: str) -> int:
    """Return the hash of `name` for vna_hash (gABI chapter 5, "Hash Table")."""
    value = 0
    for byte in name.encode("utf-8", "surrogateescape"):
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value


def _finish(file: _Builder, elf: Elf, header_size: int, segment_size: int) -> bytes:
    """Add the section names and all headers, and return the content."""
    packer = file.packer
    loaded = len(file.body)
    names_index = file.next_index
    file.names.add(".shstrtab")
    file.add(".shstrtab", Sht.STRTAB, bytes(file.names.data), loaded=False)
    file.body += bytes(-len(file.body) % packer.word)
    section_table = len(file.body)
    for header in file.sections:
        file.body += packer.pack("IIAAAAIIAA", *header)

    # A relocatable object has no segments (gABI chapter 4).
    segments = [] if elf.type == ElfType.REL else [(Pt.LOAD, 0, loaded), *file.segments]
    order = 1 if elf.little_endian else 2
    ident = MAGIC + bytes([elf.bits // 32, order, 1, elf.osabi]) + bytes(8)
    head = packer.pack(
        "16sHHIAAAIHHHHHH",
        *(ident, elf.type, elf.machine, 1, 0, header_size if segments else 0, section_table),
        *(elf.flags, header_size, segment_size if segments else 0, len(segments)),
        *(64 if elf.bits == 64 else 40, len(file.sections), names_index),
    )
    # PT_INTERP precedes the loadable segments (gABI chapter 5, "Program Header").
    segments.sort(key=lambda segment: segment[0] != Pt.INTERP)
    head += b"".join(packer.segment(*segment) for segment in segments)
    file.body[: len(head)] = head
    return bytes(file.body)
