"""What bionic's loader asks of a 64-bit library (linker_phdr.cpp, linker.cpp; API level 26 on)."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

LOAD, DYNAMIC, PHDR = 1, 2, 6
SHT_STRTAB, SHT_DYNAMIC = 3, 6


class Program(NamedTuple):
    """A program header."""

    type: int
    flags: int
    offset: int
    vaddr: int
    paddr: int
    filesz: int
    memsz: int
    align: int


class Header(NamedTuple):
    """A section header."""

    name: int
    type: int
    flags: int
    addr: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entsize: int


def refusals(content: bytes, page: int = 1 << 14) -> Iterator[str]:
    """Yield why bionic refuses a library on a machine with pages of `page` bytes."""
    fields = struct.unpack_from("<HHIQQQIHHHHHH", content, 16)
    kind, phoff, shoff, phnum, shentsize, shnum, shstrndx = (
        fields[n] for n in (0, 4, 5, *range(9, 13))
    )
    if kind != 3:
        yield "e_type"
    if shentsize != 64 or not shstrndx:
        yield "e_shentsize or e_shstrndx"
    if not 1 <= phnum <= 65536 // 56 or not in_file(content, phoff, 56 * phnum):
        yield "place of the program headers"
        return
    programs = [
        Program(*struct.unpack_from("<IIQQQQQQ", content, phoff + 56 * n)) for n in range(phnum)
    ]
    if not shnum or not in_file(content, shoff, 64 * shnum):
        yield "place of the section headers"
        return
    sections = [
        Header(*struct.unpack_from("<IIQQQQIIQQ", content, shoff + 64 * n)) for n in range(shnum)
    ]
    yield from of_dynamic(content, programs, sections)
    yield from of_segments(content, programs, phoff, page)


def in_file(content: bytes, offset: int, size: int) -> bool:
    """ElfReader::CheckFileRange."""
    return 0 < offset < len(content) and offset + size <= len(content) and not offset % 8


def of_dynamic(content: bytes, programs: list[Program], sections: list[Header]) -> Iterator[str]:
    """ElfReader::ReadDynamicSection."""
    section = next((s for s in sections if s.type == SHT_DYNAMIC), None)
    segment = [p for p in programs if p.type == DYNAMIC][-1]
    if section is None:
        yield "no section .dynamic"
        return
    if (section.offset, section.size) != (segment.offset, segment.filesz):
        yield ".dynamic is not PT_DYNAMIC"
    if not in_file(content, section.offset, section.size):
        yield "place of .dynamic"
    if section.link >= len(sections) or sections[section.link].type != SHT_STRTAB:
        yield "sh_link of .dynamic"
        return
    strings = sections[section.link]
    if not strings.offset > 0 or strings.offset + strings.size > len(content):
        yield "place of .dynstr"
    raw = content[section.offset : section.offset + section.size]
    entries = [(tag, value) for tag, value in struct.iter_unpack("<qQ", raw)]
    yield from of_entries(entries, content, strings)


def of_entries(entries: list[tuple[int, int]], content: bytes, strings: Header) -> Iterator[str]:
    """soinfo::prelink_image. It reads some names by DT_STRTAB, some by the section."""
    table = content[strings.offset : strings.offset + strings.size]
    if not any(tag == 0 for tag, _ in entries):
        yield "no DT_NULL in .dynamic"
        return
    entries = entries[: [tag for tag, _ in entries].index(0)]
    tags = dict(entries)
    if not {4, 0x6FFFFEF5} & tags.keys() or not {5, 6} <= tags.keys():
        yield "no hash table, strings or symbols"
    if (tags.get(5), tags.get(10)) != (strings.addr, strings.size):
        yield "DT_STRTAB is not the section of .dynamic"
    if any(tag in {1, 14, 15, 29} and b"\0" not in table[value:] for tag, value in entries):
        yield "a name outside of .dynstr"


def of_segments(content: bytes, programs: list[Program], phoff: int, page: int) -> Iterator[str]:
    """ElfReader::LoadSegments, FindPhdr and CheckPhdr."""
    loads = [p for p in programs if p.type == LOAD]
    for load in loads:
        if load.align & (load.align - 1):
            yield "p_align is no power of two"
        if 1 < load.align < page:
            yield "program alignment is smaller than the page"
        if (load.vaddr - load.offset) % page:
            yield "a segment cannot be mapped"
        if load.offset + load.filesz > len(content):
            yield "a segment past the end of the file"
        if load.flags & 3 == 3:
            yield "a segment is writable and executable"
    own = next((p.vaddr for p in programs if p.type == PHDR), None)
    if own is None and loads[0].offset == 0:
        own = loads[0].vaddr + phoff
    end = 56 * len(programs)
    if own is None:
        yield "the program headers cannot be found"
    elif not any(p.vaddr <= own and own + end <= p.vaddr + p.filesz for p in loads):
        yield "the program headers are not loaded"
