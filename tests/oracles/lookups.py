"""Symbol lookups of an object's relocations, and the PLT entries that a program offers."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from wheelfix.elf.constants import (
    R_COPY,
    STB_LOCAL,
    STB_WEAK,
    STT_FUNC,
    STT_GNU_IFUNC,
    STT_NOTYPE,
    STV_PROTECTED,
    VERSYM_INDEX,
    Dt,
)
from wheelfix.elf.dynamic_tables import Dynamic
from wheelfix.elf.exports import definition_of, first_definition, versions_of
from wheelfix.elf.image import Image
from wheelfix.elf.model import Definition, Machine

_INTERNAL, _HIDDEN = 1, 2
"""STV_INTERNAL and STV_HIDDEN."""
R_PLT: dict[int, set[int]] = {
    Machine.X86_64: {7, 16, 17, 18, 36},
    Machine.I386: {7, 14, 35, 36, 37, 41},
    Machine.AARCH64: {1026, 1028, 1029, 1030, 1031},
}
"""R_*_JUMP_SLOT and the relocations of thread-local storage: ELF_RTYPE_CLASS_PLT in glibc."""


class Lookup(NamedTuple):
    """One symbol that the loader looks up to relocate an object, defined there or not."""

    name: str
    version: str | None
    weak: bool
    """Whether it may stay without a definition: undefined, and STB_WEAK."""
    plt: bool
    """For a call or for thread-local data: another object's PLT entry is no definition then."""
    copy: bool
    """R_*_COPY: the program itself is left out of the search."""
    protected: bool = False
    """STV_PROTECTED: the object binds its own definition, unless only a PLT entry comes first."""
    file: str | None = None
    """The library that should have the version, by its Verneed record."""
    late: bool = True
    """Not in DT_JMPREL, to which musl comes first."""


def read_lookups(data: bytes, name: str) -> tuple[Lookup, ...]:
    """Return the symbols that the loader looks up to relocate an object, each once, in its order.

    That is the order of the relocations with LD_BIND_NOW (glibc's elf/do-rel.h). Symbols that the
    object defines itself are among them: another object may come first.

    `name` is for messages. Raises `BadElfError` as `read_elf` does.
    """
    dynamic = _dynamic(data, name)
    return () if dynamic is None else tuple(dict.fromkeys(_lookups(dynamic)))


def _lookups(dynamic: Dynamic) -> Iterator[Lookup]:
    machine = dynamic.image.header.machine
    wide = dynamic.image.structs.bits == 64
    shift, mask = (32, 0xFFFFFFFF) if wide else (8, 0xFF)
    named: dict[tuple[int, bool], None] = {}
    for table in dynamic.relocations():
        jumps = table.tag == Dt.JMPREL
        for entry in table.struct.iter_unpack(table.raw):
            if entry[1] > mask and entry[1] & mask:  # neither without a symbol nor R_*_NONE
                named[entry[1], jumps] = None
    count = max((info >> shift for info, _ in named), default=0) + 1
    symbols = list(dynamic.symbols(0, count)) if named else []
    indices = (dynamic.version_indices(count) if named else None) or ()
    versions = versions_of(dynamic)
    files = {v.number: file for file, some in dynamic.version_needs() for v in some}
    for info, jumps in named:
        number, kind = info >> shift, info & mask
        text, bind, other, section, *_ = symbols[number]
        if bind >> 4 == STB_LOCAL or other & 3 in {_INTERNAL, _HIDDEN}:
            continue
        yield Lookup(
            name=dynamic.string(text, "a symbol's name"),
            version=versions.get(indices[number] & VERSYM_INDEX) if indices else None,
            weak=bind >> 4 == STB_WEAK and section == 0,
            plt=kind in R_PLT[machine] if machine in R_PLT else jumps,
            copy=kind == R_COPY.get(machine, -1),
            protected=other & 3 == STV_PROTECTED,
            file=files.get(indices[number] & VERSYM_INDEX) if indices else None,
            late=not jumps,
        )


def read_plt_entries(data: bytes, name: str) -> Mapping[str, tuple[Definition, ...]]:
    """Return the functions whose address is that of the PLT entry here: undefined, with a value.

    `name` is for messages. Raises `BadElfError` as `read_elf` does.
    """
    dynamic = _dynamic(data, name)
    if dynamic is None:
        return {}
    start, count = first_definition(dynamic), dynamic.symbol_count
    indices = dynamic.version_indices(count)
    versions = versions_of(dynamic)
    found: dict[str, tuple[Definition, ...]] = {}
    for number, (text, info, other, section, value, _) in enumerate(
        dynamic.symbols(start, count), start
    ):
        if section or not value or info >> 4 == STB_LOCAL or other & 3 in {_INTERNAL, _HIDDEN}:
            continue
        if info & 0xF in {STT_NOTYPE, STT_FUNC, STT_GNU_IFUNC}:
            symbol = dynamic.string(text, "a symbol's name")
            index = None if indices is None else indices[number]
            found[symbol] = (*found.get(symbol, ()), definition_of(info, index, versions))
    return found


def _dynamic(data: bytes, name: str) -> Dynamic | None:
    dynamic = Dynamic.parse(Image.parse(memoryview(data), name))
    return dynamic if dynamic is not None and Dt.SYMTAB in dynamic.tags else None
