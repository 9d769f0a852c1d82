"""A small ELF object that tells auditwheel the same as the real one.

auditwheel reads the header, PT_INTERP, the dynamic section, `.dynsym`, `.gnu.version_r` and the
GNU property note, and never any code. What `Elf` holds is therefore enough to build an object
of a few kilobytes on which it decides alike. Nothing can load such an object.

Layouts are those of the gABI, chapters 4 and 5; Verneed is the LSB core specification's, 10.7.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from wheelfix.elf.model import Elf, ElfType, VersionNeed

_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_SHT_PROGBITS, _SHT_STRTAB, _SHT_DYNAMIC, _SHT_NOTE, _SHT_DYNSYM = 1, 3, 6, 7, 11
_SHT_GNU_VERNEED = 0x6FFFFFFE
_SHF_ALLOC = 2
_SHN_ABS = 0xFFF1
_STB_GLOBAL, _STB_WEAK = 1, 2
_STT_FUNC = 2
_DT_NULL, _DT_NEEDED, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT = 0, 1, 5, 6, 10, 11
_DT_SONAME, _DT_RPATH, _DT_VERNEED, _DT_VERNEEDNUM = 14, 15, 0x6FFFFFFE, 0x6FFFFFFF
_NT_GNU_PROPERTY_TYPE_0 = 5
_PF_R = 4
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
            # Names need not be UTF-8: whoever read them escaped the odd byte.
            self.data += text.encode("utf-8", "surrogateescape") + b"\0"
        return self.offsets[text]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """The record formats of one ELF class and byte order."""

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
        flags = (_PF_R,)
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
class _Image:
    """A file under construction: the headers' place, then section after section."""

    layout: _Layout
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
        """Append a section, and the segment that covers just it, and return its offset."""
        self.body += bytes(-len(self.body) % align)
        offset = len(self.body)
        self.body += data
        address, flags = (offset, _SHF_ALLOC) if loaded else (0, 0)
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
        """The index that the next section will have."""
        return len(self.sections)


def skeleton(
    elf: Elf,
    *,
    needed: Sequence[str],
    search_path: str | None = None,
    hook: str | None = None,
    soname: str | None = None,
) -> bytes:
    """Build an object with the dynamic section given and everything else that auditwheel reads.

    `search_path` becomes DT_RPATH, `hook` a defined function. Class, byte order, machine, flags,
    OS ABI, interpreter, version needs, undefined symbols and the GNU property note are `elf`'s.
    """
    layout = _Layout(order="<" if elf.little_endian else ">", bits=elf.bits)
    header_size, segment_size = (64, 56) if elf.bits == 64 else (52, 32)
    image = _Image(layout=layout, body=bytearray(header_size + _MAX_SEGMENTS * segment_size))
    _add_notes(image, elf)
    if elf.dynamic:
        strings = _Strings()
        entries = [(_DT_NEEDED, strings.add(name)) for name in needed]
        named = ((_DT_SONAME, soname), (_DT_RPATH, search_path))
        entries += [(tag, strings.add(text)) for tag, text in named if text is not None]
        _add_dynamic(image, elf, strings, entries, hook)
    return _finish(image, elf, header_size, segment_size)


def _add_notes(image: _Image, elf: Elf) -> None:
    layout = image.layout
    if elf.interpreter is not None:
        interpreter = elf.interpreter.encode("utf-8", "surrogateescape") + b"\0"
        image.add(".interp", _SHT_PROGBITS, interpreter, segment=_PT_INTERP)
    if elf.gnu_properties:
        size = len(elf.gnu_properties)
        note = layout.pack("III4s", 4, size, _NT_GNU_PROPERTY_TYPE_0, b"GNU\0")
        image.add(".note.gnu.property", _SHT_NOTE, note + elf.gnu_properties, align=layout.word)


def _add_dynamic(
    image: _Image,
    elf: Elf,
    strings: _Strings,
    entries: list[tuple[int, int]],
    hook: str | None,
) -> None:
    """Add .dynsym, .gnu.version_r, .dynstr, and .dynamic with `entries` and where those are."""
    layout = image.layout
    needs = [need for need in elf.verneed if need.versions]
    strings_index = image.next_index + (2 if needs else 1)
    symbols = b"".join(_symbols(elf, layout, strings, hook))
    symbol_size = 24 if layout.bits == 64 else 16
    at_symbols = image.add(
        ".dynsym", _SHT_DYNSYM, symbols,
        link=strings_index, info=1, align=layout.word, entry_size=symbol_size,
    )  # fmt: skip
    entries = [*entries, (_DT_SYMTAB, at_symbols), (_DT_SYMENT, symbol_size)]
    if needs:
        records = b"".join(_version_needs(needs, layout, strings))
        at_needs = image.add(
            ".gnu.version_r", _SHT_GNU_VERNEED, records,
            link=strings_index, info=len(needs), align=layout.word,
        )  # fmt: skip
        entries += [(_DT_VERNEED, at_needs), (_DT_VERNEEDNUM, len(needs))]
    at_strings = image.add(".dynstr", _SHT_STRTAB, bytes(strings.data))
    entries += [(_DT_STRTAB, at_strings), (_DT_STRSZ, len(strings.data)), (_DT_NULL, 0)]
    image.add(
        ".dynamic",
        _SHT_DYNAMIC,
        b"".join(layout.pack("AA", *entry) for entry in entries),
        link=strings_index,
        align=layout.word,
        entry_size=2 * layout.word,
        segment=_PT_DYNAMIC,
    )


def _symbols(elf: Elf, layout: _Layout, strings: _Strings, hook: str | None) -> Iterator[bytes]:
    yield layout.symbol(0, 0, 0, 0)
    if hook is not None:
        yield layout.symbol(strings.add(hook), _STB_GLOBAL, _STT_FUNC, _SHN_ABS)
    for symbol in elf.undefined:
        binding = _STB_WEAK if symbol.weak else _STB_GLOBAL
        yield layout.symbol(strings.add(symbol.name), binding, symbol.type, 0)


def _version_needs(
    needs: Sequence[VersionNeed], layout: _Layout, strings: _Strings
) -> Iterator[bytes]:
    """Pack Verneed records of 16 bytes, each followed by its Vernaux records of 16 bytes."""
    index = 2  # 0 and 1 are VER_NDX_LOCAL and VER_NDX_GLOBAL
    for need in needs:
        count = len(need.versions)
        after = 0 if need is needs[-1] else 16 * (count + 1)
        yield layout.pack("HHIII", 1, count, strings.add(need.file), 16, after)
        for left, version in zip(reversed(range(count)), need.versions, strict=True):
            hashed, name = _elf_hash(version), strings.add(version)
            yield layout.pack("IHHII", hashed, 0, index, name, 16 if left else 0)
            index += 1


def _elf_hash(name: str) -> int:
    """Hash `name` as vna_hash wants it (gABI chapter 5, "Hash Table")."""
    value = 0
    for byte in name.encode("utf-8", "surrogateescape"):
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value


def _finish(image: _Image, elf: Elf, header_size: int, segment_size: int) -> bytes:
    """Add the section names and all headers."""
    layout = image.layout
    loaded = len(image.body)
    names_index = image.next_index
    image.names.add(".shstrtab")
    image.add(".shstrtab", _SHT_STRTAB, bytes(image.names.data), loaded=False)
    image.body += bytes(-len(image.body) % layout.word)
    section_table = len(image.body)
    for header in image.sections:
        image.body += layout.pack("IIAAAAIIAA", *header)

    # A relocatable object has no segments (gABI chapter 4), nor anything that loads it.
    segments = [] if elf.type == ElfType.REL else [(_PT_LOAD, 0, loaded), *image.segments]
    order = 1 if elf.little_endian else 2
    ident = b"\x7fELF" + bytes([elf.bits // 32, order, 1, elf.osabi]) + bytes(8)
    head = layout.pack(
        "16sHHIAAAIHHHHHH",
        *(ident, elf.type, elf.machine, 1, 0, header_size if segments else 0, section_table),
        *(elf.flags, header_size, segment_size if segments else 0, len(segments)),
        *(64 if elf.bits == 64 else 40, len(image.sections), names_index),
    )
    # PT_INTERP precedes the loadable segments (gABI chapter 5, "Program Header").
    segments.sort(key=lambda segment: segment[0] != _PT_INTERP)
    head += b"".join(layout.segment(*segment) for segment in segments)
    image.body[: len(head)] = head
    return bytes(image.body)
