"""Section headers of an edited object, and what only these lead to, compared with the original's.

Loaders need none of it; strip, objcopy, debuggers, readelf and the next edit do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import islice

from wheelfix.elf.compare_segments import offset_of
from wheelfix.elf.constants import (
    DEBUG_LINK,
    SHF_ALLOC,
    SHF_INFO_LINK,
    VERSION_RECORD,
    VERSION_TAGS,
    Dt,
    Pt,
    Sht,
)
from wheelfix.elf.dynamic_tables import Dynamic
from wheelfix.elf.image import Image, Section
from wheelfix.named_tuple import NamedTuple
from wheelfix.system.mapped_files import first_difference
from wheelfix.text import FEW

_LINKED = {Sht.REL, Sht.RELA}
"""Sections whose `sh_info` is the number of another."""


class Compared(NamedTuple):
    """An object before and after an edit."""

    old: Image
    new: Image
    was: Dynamic | None
    now: Dynamic | None
    moved: Mapping[int, int]
    """The new addresses of tables, by the old ones."""

    def leads(self, old: int, new: int) -> bool:
        """Return whether an address is the old one, or that of the same thing."""
        return old == new or self.moved.get(old) == new

    def is_same_symbol(self, old: tuple[int, ...], new: tuple[int, ...]) -> bool:
        """Compare all but the name: values may follow what moved."""
        return (
            (old[1], old[2], old[5]) == (new[1], new[2], new[5])
            and self.is_same_section(old[3], new[3])
            and self.is_same_value(old, new)
        )

    def is_same_value(self, old: tuple[int, ...], new: tuple[int, ...]) -> bool:
        """Return whether a symbol has its value, or its place in a section that moved."""
        if self.leads(old[4], new[4]):
            return True
        first, second = self.old.sections, self.new.sections
        if not (0 < old[3] < len(first) and 0 < new[3] < len(second)):
            return False
        return old[4] - first[old[3]].addr == new[4] - second[new[3]].addr

    def is_same_section(self, old: int, new: int) -> bool:
        """Compare the `st_shndx` of a symbol: editors may renumber sections."""
        first, second = self.old.sections, self.new.sections
        if old == new or not (0 < old < len(first) and 0 < new < len(second)):
            return old == new
        return self.old.section_name(first[old]) == self.new.section_name(second[new])


def section_differences(both: Compared) -> Iterator[str]:
    """Yield what changed in section headers, and in sections that are not loaded.

    patchelf reorders sections: they are paired by name.
    """
    if not both.old.sections:
        return
    if not both.new.sections:
        yield "the section headers are gone"
        return
    old_faults = set(_section_faults(both.old))
    faults = (fault for fault in _section_faults(both.new) if fault not in old_faults)
    yield from islice(faults, FEW)
    was, now = _by_name(both.old), _by_name(both.new)
    stripped = _stripped_sections(both.old, both.new)
    gone = {number for number, section in enumerate(both.old.sections) if section in stripped}
    come = {name for name, _ in now.keys() - was.keys()} - ({DEBUG_LINK} if stripped else set())
    yield from (f"section {_name(name)} is new" for name in sorted(come)[:FEW])
    for key, section in was.items():
        if section in stripped:
            continue
        other = now.get(key)
        if other is None:
            yield f"section {_name(key[0])} is gone"
        elif what := _header_difference(both, section, other):
            yield f"section {_name(key[0])} has another {what}"
        elif section.type == Sht.SYMTAB and not _has_same_symbols(both, section, other, gone):
            yield f"the symbols of section {_name(key[0])} changed"
        elif section.type != Sht.SYMTAB and not _has_same_content(both, section, other):
            yield f"the content of section {_name(key[0])} changed"


def _section_faults(image: Image) -> Iterator[str]:
    """Yield the sections whose address and offset are of different places, by name alone."""
    for section in image.sections:
        is_loaded = section.flags & SHF_ALLOC and section.is_filled
        if is_loaded and offset_of(image, section.addr) != section.offset:
            name = _name(image.section_name(section))
            yield f"section {name} has an offset that is not loaded to its address"


def _by_name(image: Image) -> dict[tuple[bytes, int], Section]:
    """Return the sections by name and number among those of that name."""
    by_name: dict[tuple[bytes, int], Section] = {}
    count: Counter[bytes] = Counter()
    for section in image.sections:
        name = image.section_name(section)
        by_name[name, count[name]] = section
        count[name] += 1
    return by_name


def _stripped_sections(old: Image, new: Image) -> AbstractSet[Section]:
    """Return the sections that `elf.strip` drops, and the names of sections, which may get one.

    It drops all debug sections or none. Whether it was to drop them is compared by their sizes.
    """
    was, now = (
        [s for s in image.sections if s.type != Sht.NULL and not s.flags & SHF_ALLOC]
        for image in (old, new)
    )
    stripped = {section for section in was if old.is_debug_section(section)}
    if any(new.is_debug_section(section) for section in now):
        return frozenset()
    tables = {section for section in was if section.type == Sht.SYMTAB}
    if not any(section.type == Sht.SYMTAB for section in now):
        stripped |= tables | {old.sections[s.link] for s in tables if old.has(s.link)}
    if not stripped:
        return frozenset()
    kinds = {Sht.REL, Sht.RELA, Sht.SYMTAB_SHNDX}
    stripped |= {s for s in was if s.type in kinds or old.section_name(s) == DEBUG_LINK}
    return (
        stripped | {old.sections[old.header.shstrndx]} if old.has(old.header.shstrndx) else stripped
    )


def _name(name: bytes) -> str:
    return f"`{name.decode(errors='backslashreplace')}`"


def _header_difference(both: Compared, old: Section, new: Section) -> str:
    """Return the names of the fields of a section header that are not as they must be."""
    tag = VERSION_TAGS.get(old.type)
    if tag is not None and both.was and both.now and tag in both.was.tags.keys() - both.now.tags:
        return "" if new.type == Sht.PROGBITS else "sh_type"
    was, now = _attributes(both.old, old), _attributes(both.new, new)
    if old.addr != new.addr and new.align == both.new.structs.addr.size:
        now["sh_addralign"] = old.align  # patchelf aligns all that it moves alike
    if _has_true_size(both.was, old):  # as edits change it
        if not _has_true_size(both.now, new):
            return "sh_size or sh_info than the loader sees"
        was["sh_size"] = now["sh_size"]
        was["sh_info"] = now["sh_info"] if old.type == Sht.GNU_VERNEED else was["sh_info"]
    is_note = old.type == Sht.NOTE and old.flags & SHF_ALLOC
    if not is_note and not both.leads(old.addr, new.addr):
        return "sh_addr"
    return ", ".join(name for name in was if was[name] != now[name])


def _attributes(image: Image, section: Section) -> dict[str, int | bytes]:
    """Return what no edit changes; sections by name instead of number."""
    is_section = section.type in _LINKED or section.flags & SHF_INFO_LINK
    return {
        "sh_type": section.type,
        "sh_flags": section.flags,
        "sh_addralign": section.align,
        "sh_entsize": section.entsize,
        "sh_link": _name_of(image, section.link),
        "sh_info": _name_of(image, section.info) if is_section else section.info,
        "sh_size": section.size,
    }


def _name_of(image: Image, number: int) -> bytes:
    if not image.has(number):
        return b"%d" % number
    return image.section_name(image.sections[number])


def _has_true_size(dynamic: Dynamic | None, section: Section) -> bool:
    """Return whether a table that edits change has the size that the loader sees."""
    if dynamic is None:
        return False
    tags = dynamic.tags
    match section.type:
        case Sht.STRTAB if section.addr == tags.get(Dt.STRTAB):
            return section.size == tags.get(Dt.STRSZ)
        case Sht.DYNAMIC:
            segment = dynamic.image.segment(Pt.DYNAMIC)
            return segment is not None and section.size == segment.filesz
        case Sht.GNU_VERNEED if section.addr == tags.get(Dt.VERNEED):
            counts = [1 + len(need.auxiliaries) for need in dynamic.need_records()]
            return (section.size, section.info) == (VERSION_RECORD * sum(counts), len(counts))
        case _:
            return False


def _has_same_content(both: Compared, old: Section, new: Section) -> bool:
    """Compare a section that is not loaded, or has moved with no table."""
    is_loaded = old.flags & SHF_ALLOC and both.leads(old.addr, new.addr)
    if is_loaded or old.type in {Sht.NULL, Sht.NOBITS}:
        return True
    both.old.spend(1 + (old.size >> 12), "the sections")
    first, second = (
        image.view[section.offset : section.offset + section.size]
        for image, section in ((both.old, old), (both.new, new))
    )
    return first_difference(first, second) is None


def _has_same_symbols(both: Compared, old: Section, new: Section, gone: AbstractSet[int]) -> bool:
    """Compare tables of symbols of the same size; those of sections that are gone are zeros."""
    first, second = (
        image.read(section.offset, section.size, "the symbols")
        for image, section in ((both.old, old), (both.new, new))
    )
    if first == second:
        return True
    structs = both.old.structs
    whole = len(first) - len(first) % structs.sym.size
    both.old.spend(whole // structs.sym.size, "the symbols")
    pairs = zip(structs.symbols(first[:whole]), structs.symbols(second[:whole]), strict=True)
    return first[whole:] == second[whole:] and all(
        (a[0] == b[0] and both.is_same_symbol(a, b)) or (a[3] in gone and not any(b))
        for a, b in pairs
        if a != b
    )
