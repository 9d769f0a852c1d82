"""Stub ELF objects: small files for auditwheel to read in place of the real objects.

auditwheel reads the header, PT_INTERP, the dynamic section, `.dynsym`, `.gnu.version_r` and the
GNU property note, and never any code. So a stub of a few kilobytes, built from an `Elf`, gives the
same verdict. It cannot be loaded.

Formats are those of the gABI, chapters 4 and 5; Verneed is in the LSB core specification, 10.7.
"""

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
    VERSION_RECORD,
    Dt,
    Pt,
    Sht,
)
from wheelfix.elf.image import STRUCTS, Structs
from wheelfix.elf.model import Elf, ElfType, Segment, VersionNeed

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


@dataclass(slots=True, kw_only=True)
class _Builder:
    """An ELF file under construction: room for the headers, then the sections."""

    structs: Structs
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


def build_stub(
    elf: Elf,
    *,
    needed: Sequence[str],
    search_path: str | None = None,
    hook: str | None = None,
) -> bytes:
    """Build an object with the given dynamic section, and the rest that auditwheel reads of `elf`.

    `search_path` becomes DT_RUNPATH if `elf` has one, or else DT_RPATH; `hook` a defined function.
    Class, byte order, machine, flags, OS ABI, interpreter, version needs, undefined symbols and the
    GNU property note are from `elf`.
    """
    structs = STRUCTS[elf.bits // 32, 1 if elf.little_endian else 2]
    headers = structs.header_size + _MAX_SEGMENTS * structs.phdr.size
    file = _Builder(structs=structs, body=bytearray(headers))
    _add_notes(file, elf)
    if elf.dynamic:
        strings = _Strings()
        entries = [(Dt.NEEDED, strings.add(name)) for name in needed]
        if search_path is not None:
            tag = Dt.RPATH if elf.runpath is None else Dt.RUNPATH
            entries.append((tag, strings.add(search_path)))
        _add_dynamic(file, elf, strings, entries, hook)
    return _finish(file, elf)


def _add_notes(file: _Builder, elf: Elf) -> None:
    structs = file.structs
    if elf.interpreter is not None:
        interpreter = elf.interpreter.encode("utf-8", "surrogateescape") + b"\0"
        file.add(".interp", Sht.PROGBITS, interpreter, segment=Pt.INTERP)
    if elf.gnu_properties:
        note = structs.note.pack(4, len(elf.gnu_properties), NT_GNU_PROPERTY_TYPE_0) + b"GNU\0"
        word = structs.addr.size
        file.add(".note.gnu.property", Sht.NOTE, note + elf.gnu_properties, align=word)


def _add_dynamic(
    file: _Builder,
    elf: Elf,
    strings: _Strings,
    entries: Iterable[tuple[int, int]],
    hook: str | None,
) -> None:
    """Add .dynsym, .gnu.version_r, .dynstr, and .dynamic with `entries` and their addresses."""
    structs = file.structs
    word = structs.addr.size
    needs = [need for need in elf.verneed if need.versions]
    strings_index = len(file.sections) + (2 if needs else 1)
    symbols = b"".join(_symbols(elf, structs, strings, hook))
    at_symbols = file.add(
        ".dynsym", Sht.DYNSYM, symbols,
        link=strings_index, info=1, align=word, entry_size=structs.sym.size,
    )  # fmt: skip
    entries = [*entries, (Dt.SYMTAB, at_symbols), (Dt.SYMENT, structs.sym.size)]
    if needs:
        records = b"".join(_version_needs(needs, structs, strings))
        at_needs = file.add(
            ".gnu.version_r", Sht.GNU_VERNEED, records,
            link=strings_index, info=len(needs), align=word,
        )  # fmt: skip
        entries += [(Dt.VERNEED, at_needs), (Dt.VERNEEDNUM, len(needs))]
    at_strings = file.add(".dynstr", Sht.STRTAB, bytes(strings.data))
    entries += [(Dt.STRTAB, at_strings), (Dt.STRSZ, len(strings.data)), (Dt.NULL, 0)]
    file.add(
        ".dynamic",
        Sht.DYNAMIC,
        b"".join(structs.dyn.pack(*entry) for entry in entries),
        link=strings_index,
        align=word,
        entry_size=structs.dyn.size,
        segment=Pt.DYNAMIC,
    )


def _symbols(elf: Elf, structs: Structs, strings: _Strings, hook: str | None) -> Iterator[bytes]:
    yield bytes(structs.sym.size)
    if hook is not None:
        yield _symbol(structs, strings.add(hook), STB_GLOBAL, STT_FUNC, SHN_ABS)
    for symbol in elf.undefined:
        binding = STB_WEAK if symbol.weak else STB_GLOBAL
        yield _symbol(structs, strings.add(symbol.name), binding, symbol.type, 0)


def _symbol(structs: Structs, name: int, binding: int, type_: int, section: int) -> bytes:
    """Pack a symbol without value and size."""
    info = binding << 4 | type_
    if structs.bits == 64:
        return structs.sym.pack(name, info, 0, section, 0, 0)
    return structs.sym.pack(name, 0, 0, info, 0, section)


def _version_needs(
    needs: Sequence[VersionNeed], structs: Structs, strings: _Strings
) -> Iterator[bytes]:
    """Pack Verneed records, each followed by its Vernaux records, without hashes of names."""
    index = 2  # 0 and 1 are VER_NDX_LOCAL and VER_NDX_GLOBAL
    for need in needs:
        count = len(need.versions)
        after = 0 if need is needs[-1] else VERSION_RECORD * (count + 1)
        yield structs.verneed.pack(1, count, strings.add(need.file), VERSION_RECORD, after)
        for left, version in zip(reversed(range(count)), need.versions, strict=True):
            more = VERSION_RECORD if left else 0
            yield structs.vernaux.pack(0, 0, index, strings.add(version), more)
            index += 1


def _finish(file: _Builder, elf: Elf) -> bytes:
    """Add the section names and all headers, and return the content."""
    structs = file.structs
    loaded = len(file.body)
    names_index = len(file.sections)
    file.names.add(".shstrtab")
    file.add(".shstrtab", Sht.STRTAB, bytes(file.names.data), loaded=False)
    file.body += bytes(-len(file.body) % structs.addr.size)
    section_table = len(file.body)
    file.body += b"".join(structs.shdr.pack(*header) for header in file.sections)

    # A relocatable object has no segments (gABI chapter 4).
    segments = [] if elf.type == ElfType.REL else [(Pt.LOAD, 0, loaded), *file.segments]
    # PT_INTERP precedes the loadable segments (gABI chapter 5, "Program Header").
    segments.sort(key=lambda segment: segment[0] != Pt.INTERP)
    header_size = structs.header_size
    head = MAGIC + bytes([elf.bits // 32, 1 if elf.little_endian else 2, 1, elf.osabi, *bytes(8)])
    head += structs.ehdr.pack(
        *(elf.type, elf.machine, 1, 0, header_size if segments else 0, section_table, elf.flags),
        *(header_size, structs.phdr.size if segments else 0, len(segments)),
        *(structs.shdr.size, len(file.sections), names_index),
    )
    for kind, at, size in segments:  # read-only, with the file offset as its address
        segment = Segment(kind, PF_R, at, at, at, size, size, structs.addr.size)
        head += structs.pack_segment(segment)
    file.body[: len(head)] = head
    return bytes(file.body)
