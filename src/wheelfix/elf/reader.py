"""Bytes to `Elf`: what one object says of itself.

Written with `struct` alone: pyelftools costs more to import than a whole check takes, and a
hundred times the time for each object. With DT_GNU_HASH the defined symbols are looked at as one
string of bytes, never one by one.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from wheelfix.elf.image import (
    MAX_SYMBOLS,
    NT_GNU_PROPERTY_TYPE_0,
    Dt,
    Dynamic,
    Image,
    NotingImage,
    Pt,
    Section,
    Sht,
)
from wheelfix.elf.model import (
    Definition,
    Elf,
    ElfType,
    Exports,
    Lookup,
    Machine,
    Undefined,
    VersionNeed,
)
from wheelfix.errors import BadElfError
from wheelfix.system.mmap_io import PIECE, Text, forget

_STB_LOCAL, _STB_WEAK, _STB_GNU_UNIQUE = 0, 2, 10
_UNIQUE = bytes(range(0xA0, 0xB0))  # STB_GNU_UNIQUE, 10, with any type
_INFO = {32: 12, 64: 4}  # where st_info stands in Elf32_Sym and Elf64_Sym
_SYMBOLS = 1 << 15
"""Entries of the symbol table that are in memory at once."""
_FUNCTIONS = {0, 2, 10}  # STT_NOTYPE, STT_FUNC, STT_GNU_IFUNC: what dlsym hands out as code
_HOOKS = (b"PyInit_", b"PyInitU_", b"PyModExport_", b"PyModExportU_", b"_cffi_pypyinit_")
_MAX_HOOKS = 4096
_OVERLAP = 512
_NT_DLOPEN = 0x407C0C0A
_BOUND = {0, 1, 2, 5, 6, 10}  # STT_*: what the loader lets a reference bind to
_EXPORTED = {0, 3}  # STV_DEFAULT, STV_PROTECTED
_STV_PROTECTED = 3
_INNER = {1, 2}  # STV_INTERNAL, STV_HIDDEN: bound without looking
_STT_TLS, _SHN_ABS = 6, 0xFFF1
_SHF_ALLOC = 2
_DEBUG = (b".debug_", b".zdebug_", b".stab", b".gdb_index")
_COPY: dict[int, int] = {
    Machine.I386: 5,
    Machine.PPC64: 19,
    Machine.S390: 9,
    Machine.ARM: 20,
    Machine.X86_64: 5,
    Machine.AARCH64: 1024,
    Machine.RISCV: 4,
    Machine.LOONGARCH: 4,
}
"""R_*_COPY of each processor supplement."""
_PLT: dict[int, set[int]] = {
    Machine.X86_64: {7, 16, 17, 18, 36},
    Machine.I386: {7, 14, 35, 36, 37, 41},
    Machine.AARCH64: {1026, 1028, 1029, 1030, 1031},
}
"""R_*_JUMP_SLOT and those of thread-local storage: ELF_RTYPE_CLASS_PLT in glibc."""
_FOLDED_FLAGS = {Dt.SYMBOLIC: 2, Dt.TEXTREL: 4, Dt.BIND_NOW: 8}  # as DF_* of DT_FLAGS


_MOST = 1000
"""Of a thing that no linker's input has a hundred of, and that the loader tries each of each."""


def read_elf(data: bytes | bytearray | memoryview | mmap.mmap, name: str) -> Elf:
    """Read one ELF object (gABI chapters 4 and 5).

    `name` is for messages, and its stem says which hook `init<stem>` to look for. Nothing refers
    to `data` afterwards. An object that the dynamic loader has no business with (`.o`, core file,
    static program, debug companion) comes back with `dynamic` false.

    Raises `BadElfError` for a truncated file and for tables that do not hold together.
    """
    with memoryview(data) as view:
        image = Image.parse(view, name)
        return _read(image, _loadable(image))


class Tables(NamedTuple):
    """Where the tables of an object stand in the file."""

    places: tuple[tuple[int, int], ...] = ()
    """Offset and size of each part that its exports are read from; they may overlap. Empty for an
    object whose tables do not hold together, and for one that exports nothing."""
    strings: range = range(0)
    """.dynstr"""


def read_elf_and_tables(data: memoryview, name: str) -> tuple[Elf, Tables]:
    """Read one ELF object, and say where its tables stand.

    Raises `BadElfError` as `read_elf` does.
    """
    image = NotingImage.parse(data, name)
    dynamic = _loadable(image)
    elf = _read(image, dynamic)
    if dynamic is None:
        return elf, Tables()
    strings = _strings(dynamic)
    try:
        _look_at_exports(dynamic)
    except BadElfError:
        return elf, Tables(strings=strings)
    headers = (0, image.header_size), image.program_headers
    sections = image.section_headers, len(image.sections) * image.layout.shdr.size
    return elf, Tables(places=(*headers, sections, *image.noted), strings=strings)


def _look_at_exports(dynamic: Dynamic) -> None:
    """Look at all that `read_exports` looks at and `read_elf` does not."""
    if Dt.SYMTAB not in dynamic.tags:
        return
    count = dynamic.symbol_count()
    if count > 0:
        dynamic.place_of_symbols(0, count)
    dynamic.place_of_indices(count)
    first_defined(dynamic)
    if _may_copy(dynamic.image):
        for _ in dynamic.relocations():
            pass


def dynamic_strings(data: memoryview, name: str) -> range:
    """Return where .dynstr stands in the file, an empty range where it has none."""
    try:
        dynamic = Dynamic.parse(Image.parse(data, name))
        return range(0) if dynamic is None else _strings(dynamic)
    except BadElfError:
        return range(0)


def _strings(dynamic: Dynamic) -> range:
    if Dt.STRTAB not in dynamic.tags:
        return range(0)
    start, _ = dynamic.image.extent(dynamic.tags[Dt.STRTAB], "the dynamic string table")
    return range(start, start + len(dynamic.text))


def _loadable(image: Image) -> Dynamic | None:
    """Return the dynamic section of an object that the loader has business with."""
    if not _is_loadable(image):
        return None
    image.require_whole()
    return Dynamic.parse(image)


def _is_loadable(image: Image) -> bool:
    return image.type in {ElfType.EXEC, ElfType.DYN} and not image.is_debug_companion


def _read(image: Image, dynamic: Dynamic | None) -> Elf:
    loadable = _is_loadable(image)
    interpreter = _interpreter(image) if loadable else None
    if dynamic is None:
        return Elf(
            bits=image.layout.bits,
            little_endian=image.layout.order == "<",
            machine=image.machine,
            osabi=image.osabi,
            flags=image.flags,
            type=image.type,
            segments=image.segments,
            interpreter=interpreter,
            dynamic=False,
            gnu_properties=_gnu_properties(image) if loadable else b"",
            symtab_size=_symtab_size(image) if loadable else 0,
            debug_size=_debug_size(image) if loadable else 0,
        )
    needs = list(dynamic.version_needs())
    needed = tuple(
        dynamic.string(value, "DT_NEEDED") for tag, value in dynamic.entries if tag == Dt.NEEDED
    )
    paths = [dynamic.tag_string(tag) for tag in (Dt.RPATH, Dt.RUNPATH)]
    if len(needed) > _MOST or any(path and path.count(":") > _MOST for path in paths):
        raise image.bad(f"it has more than {_MOST} DT_NEEDED or search path entries")
    program = interpreter is not None or image.type == ElfType.EXEC
    return Elf(
        bits=image.layout.bits,
        little_endian=image.layout.order == "<",
        machine=image.machine,
        osabi=image.osabi,
        flags=image.flags,
        type=image.type,
        segments=image.segments,
        interpreter=interpreter,
        soname=dynamic.tag_string(Dt.SONAME),
        needed=needed,
        rpath=paths[0],
        runpath=paths[1],
        verneed=tuple(
            VersionNeed(file=file, versions=tuple(version for _, version in versions))
            for file, versions in needs
        ),
        verdef=tuple(v.name for _, v in dynamic.version_definitions() if not v.base),
        undefined=tuple(_undefined(dynamic, needs, program=program)),
        module_hooks=_module_hooks(dynamic),
        gnu_properties=_gnu_properties(image),
        dlopen_notes=tuple(_dlopen_notes(image)),
        dt_flags=_flags(dynamic),
        dt_flags_1=dynamic.tags.get(Dt.FLAGS_1, 0),
        has_init=Dt.INIT in dynamic.tags,
        init_array=dynamic.tags.get(Dt.INIT_ARRAYSZ, 0) * 8 // image.layout.bits,
        versym_alone=Dt.VERSYM in dynamic.tags
        and Dt.VERNEED not in dynamic.tags
        and Dt.VERDEF not in dynamic.tags,
        symtab=any(section.type == Sht.SYMTAB for section in image.sections),
        relr=Dt.RELR in dynamic.tags,
        hashed=bool(dynamic.tags.keys() & {Dt.HASH, Dt.GNU_HASH}) or Dt.SYMTAB not in dynamic.tags,
        unique_symbols=_unique_symbols(dynamic),
        symtab_size=_symtab_size(image),
        debug_size=_debug_size(image),
    )


def _symtab_size(image: Image) -> int:
    """Sum up .symtab and the strings that it links to (gABI chapter 4, "sh_link")."""
    tables = [section for section in image.sections if section.type == Sht.SYMTAB]
    strings = {table.link for table in tables if 0 < table.link < len(image.sections)}
    return sum(_inside(image, s) for s in (*tables, *(image.sections[n] for n in strings)))


def _debug_size(image: Image) -> int:
    return sum(
        _inside(image, section)
        for section in image.sections
        if section.type == Sht.PROGBITS
        and not section.flags & _SHF_ALLOC
        and image.section_name(section).startswith(_DEBUG)
    )


def _inside(image: Image, section: Section) -> int:
    """Return the section's size, 0 if that cannot be true."""
    return section.size if section.offset + section.size <= len(image.view) else 0


def _interpreter(image: Image) -> str | None:
    segment = image.segment(Pt.INTERP)
    if segment is None:
        return None
    size = min(segment.filesz, 4096)  # PATH_MAX: the kernel refuses more
    raw = image.read(segment.offset, size, "PT_INTERP")
    return raw.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _flags(dynamic: Dynamic) -> int:
    flags = dynamic.tags.get(Dt.FLAGS, 0)
    for tag, bit in _FOLDED_FLAGS.items():
        if tag in dynamic.tags:
            flags |= bit
    return flags


# --- undefined symbols ---------------------------------------------------------------------------


def _undefined(
    dynamic: Dynamic, needs: list[tuple[str, list[tuple[int, str]]]], *, program: bool
) -> Iterator[Undefined]:
    wanted = {index: (version, file) for file, versions in needs for index, version in versions}
    count = _undefined_bound(dynamic, program=program)
    indices = dynamic.version_indices(count) if count else None
    strings, nothing = dynamic.text, (None, None)
    for number, (name, info, _, section, _, _) in enumerate(dynamic.symbols(0, count)):
        bind = info >> 4
        if section != 0 or name == 0 or bind == _STB_LOCAL:
            continue
        index = indices[number] & 0x7FFF if indices else 0
        version, file = wanted.get(index, nothing)
        end = strings.find(b"\0", name)
        if end < 0:
            raise dynamic.image.bad("a symbol's name is no string of the dynamic string table")
        text = strings[name:end].decode("utf-8", "surrogateescape")
        yield Undefined(text, version, file, info & 0xF, bind == _STB_WEAK)


def _undefined_bound(dynamic: Dynamic, *, program: bool) -> int:
    """Return an index that all undefined symbols lie below.

    Linkers sort what DT_GNU_HASH finds to the end. In a program that includes undefined functions
    whose address is taken, because their PLT entry stands for them, so there all must be read.
    """
    if Dt.SYMTAB not in dynamic.tags:
        return 0
    table = dynamic.gnu_hash()
    if table is not None and not program and not table.is_empty:
        return table.symoffset
    return dynamic.symbol_count()


def _unique_symbols(dynamic: Dynamic) -> int:
    """Count the STB_GNU_UNIQUE symbols; 0 where the table cannot be read, as nothing needs them."""
    image, size = dynamic.image, dynamic.image.layout.sym.size
    try:
        start, stop = first_defined(dynamic), dynamic.symbol_count()
        if not start < stop <= MAX_SYMBOLS:
            return 0
        at, end = dynamic.place_of_symbols(start, stop), (stop - start) * size
    except BadElfError:
        return 0
    found = 0
    for first in range(0, end, _SYMBOLS * size):
        raw = image.read(at + first, min(_SYMBOLS * size, end - first), "the symbol table")
        forget(image.view)
        info = raw[_INFO[image.layout.bits] :: size]
        found += len(info) - len(info.translate(None, _UNIQUE))
    return found


# --- definitions ---------------------------------------------------------------------------------


def read_exports(data: bytes | bytearray | memoryview | mmap.mmap, name: str) -> Exports:
    """Read what an object defines for others (glibc's `do_lookup_x` says what counts).

    `name` is for messages; nothing refers to `data` afterwards. Raises `BadElfError` as `read_elf`
    does; an object without a dynamic section exports nothing.
    """
    with memoryview(data) as view:
        dynamic = Dynamic.parse(Image.parse(view, name))
        return Exports() if dynamic is None else exports_in(dynamic)


def exports_in(dynamic: Dynamic) -> Exports:
    """Return what an object with this dynamic section defines for others."""
    if Dt.SYMTAB not in dynamic.tags:
        return Exports()
    definitions, plt_entries = _definitions(dynamic)
    copies = tuple(copies_of(dynamic))
    return Exports(definitions=definitions, copies=copies, plt_entries=plt_entries)


_Definitions = dict[str, tuple[Definition, ...]]


def _definitions(dynamic: Dynamic) -> tuple[_Definitions, _Definitions]:
    """Return what the object defines, and what only its PLT entries stand for."""
    start, count = first_defined(dynamic), dynamic.symbol_count()
    indices = dynamic.version_indices(count)
    versions = versions_of(dynamic)
    strings = dynamic.strings
    made: dict[tuple[int, int | None], tuple[Definition, ...]] = {}
    defined: _Definitions = {}
    entries: _Definitions = {}
    for number, (name, info, other, section, value, _) in enumerate(
        dynamic.symbols(start, count), start
    ):
        if not is_offered(info, other, section, value):
            continue
        version = indices[number] if indices is not None else None
        definition = made.get((info, version))
        if definition is None:
            definition = made[info, version] = (definition_of(info, version, versions),)
        text = strings[name : strings.find(b"\0", name)].decode("utf-8", "surrogateescape")
        found = defined if section else entries
        found[text] = found[text] + definition if text in found else definition
    return defined, entries


def is_offered(info: int, other: int, section: int, value: int) -> bool:
    """Return whether the loader binds others to a symbol: to itself, or to its PLT entry."""
    kind = info & 0xF
    if info < 0x10 or kind not in _BOUND or other & 3 not in _EXPORTED:
        return False
    return bool(value) or (section != 0 and (kind == _STT_TLS or section == _SHN_ABS))


def versions_of(dynamic: Dynamic) -> dict[int, str | None]:
    """Return the version of each index; None for the object's own name, which is no version.

    Data that a program has copied has an index of its version needs.
    """
    found = {
        index: version for _, versions in dynamic.version_needs() for index, version in versions
    }
    defined = {n: None if v.base else v.name for n, v in dynamic.version_definitions()}
    return {**found, **defined}


def first_defined(dynamic: Dynamic) -> int:
    """Return an index that all defined symbols lie at or above."""
    table = dynamic.gnu_hash()
    return table.symoffset if table is not None and not table.is_empty else 0


def definition_of(info: int, version: int | None, versions: Mapping[int, str | None]) -> Definition:
    """Return what an entry of .dynsym with this `st_info` and version index says."""
    index = None if version is None else version & 0x7FFF
    return Definition(
        version=None if index is None else versions.get(index),
        version_index=index,
        hidden=version is not None and (version >= 0x8000 or version == 0),
        weak=info >> 4 == _STB_WEAK,
        type=info & 0xF,
        unique=info >> 4 == _STB_GNU_UNIQUE,
    )


def copies_of(dynamic: Dynamic) -> Iterator[Undefined]:
    """Yield the data that a program took over from its libraries (R_*_COPY)."""
    kind = _COPY.get(dynamic.image.machine, -1)
    wide = dynamic.image.layout.bits == 64
    shift, mask = (32, 0xFFFFFFFF) if wide else (8, 0xFF)
    numbers: list[int] = sorted(
        {
            entry[1] >> shift
            for table in dynamic.relocations()
            for entry in table.struct.iter_unpack(table.raw)
            if entry[1] & mask == kind
        }
        if _may_copy(dynamic.image)
        else ()
    )
    if not numbers:
        return
    wanted = {
        index: (version, file)
        for file, versions in dynamic.version_needs()
        for index, version in versions
    }
    indices = dynamic.version_indices(numbers[-1] + 1) or ()
    for number in numbers:
        ((name, info, *_),) = dynamic.symbols(number, number + 1)
        index = indices[number] & 0x7FFF if indices else 0
        version, file = wanted.get(index, (None, None))
        yield Undefined(
            name=dynamic.string(name, "a symbol's name"),
            version=version,
            file=file,
            type=info & 0xF,
            weak=False,
        )


def _may_copy(image: Image) -> bool:
    return image.type == ElfType.EXEC or image.segment(Pt.INTERP) is not None


# --- what relocations name -----------------------------------------------------------------------


def read_lookups(data: bytes | bytearray | memoryview | mmap.mmap, name: str) -> tuple[Lookup, ...]:
    """Return the symbols that the loader looks up for an object, each once, in its order.

    That order is the order of the relocations (glibc's elf/do-rel.h), all bound at once. Symbols
    that the object defines itself are among them: another object may come first.

    `name` is for messages. Raises `BadElfError` as `read_elf` does.
    """
    with memoryview(data) as view:
        dynamic = Dynamic.parse(Image.parse(view, name))
        if dynamic is None or Dt.SYMTAB not in dynamic.tags:
            return ()
        return tuple(dict.fromkeys(_lookups(dynamic)))


def _lookups(dynamic: Dynamic) -> Iterator[Lookup]:
    machine = dynamic.image.machine
    wide = dynamic.image.layout.bits == 64
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
    files = {index: file for file, some in dynamic.version_needs() for index, _ in some}
    for info, jumps in named:
        number, kind = info >> shift, info & mask
        text, bind, other, section, *_ = symbols[number]
        if bind >> 4 == _STB_LOCAL or other & 3 in _INNER:
            continue
        yield Lookup(
            name=dynamic.string(text, "a symbol's name"),
            version=versions.get(indices[number] & 0x7FFF) if indices else None,
            weak=bind >> 4 == _STB_WEAK and section == 0,
            plt=kind in _PLT[machine] if machine in _PLT else jumps,
            copy=kind == _COPY.get(machine, -1),
            protected=other & 3 == _STV_PROTECTED,
            file=files.get(indices[number] & 0x7FFF) if indices else None,
            late=not jumps,
        )


# --- module hooks --------------------------------------------------------------------------------


def _module_hooks(dynamic: Dynamic) -> tuple[str, ...]:
    """Find the functions that make an object a Python module.

    Their names are found as text in .dynstr, which is quick whatever its size, and then looked up
    as symbols: text may as well be the name of an undefined one.
    """
    if Dt.SYMTAB not in dynamic.tags:
        return ()
    names = _hook_names(dynamic)
    if not names:
        return ()
    if dynamic.gnu_hash() is None:
        found = {
            name
            for entry in dynamic.symbols(0, dynamic.symbol_count())
            for name in [dynamic.text[entry[0] : entry[0] + 256].partition(b"\0")[0]]
            if name in names and _is_function(entry)
        }
    else:
        found = {name for name in names if _is_function(dynamic.find(name))}
    return tuple(sorted(name.decode("utf-8", "surrogateescape") for name in found))


def _hook_names(dynamic: Dynamic) -> set[bytes]:
    stem = dynamic.image.name.rpartition("/")[2].partition(".")[0]
    old = b"init" + stem.encode("utf-8", "surrogateescape")
    names: set[bytes] = set()
    strings = dynamic.text
    for start, text in _pieces(strings):
        if b"\0" + old + b"\0" in text:
            names.add(old)
        for prefix in _HOOKS:
            at = text.find(prefix)
            while at >= 0 and len(names) < _MAX_HOOKS:
                end = strings.find(b"\0", start + at)
                names.add(strings[start + at : end if end >= 0 else len(strings)])
                at = text.find(prefix, at + 1)
    return names


def _pieces(text: bytes | Text) -> Iterator[tuple[int, bytes]]:
    """Yield a string table in pieces with their places; they overlap by more than a hook's name."""
    if isinstance(text, bytes):
        yield 0, text
        return
    for start in range(0, len(text), PIECE):
        yield start, text[start : start + PIECE + _OVERLAP]


def _is_function(entry: tuple[int, ...] | None) -> bool:
    if entry is None:
        return False
    _, info, _, section, *_ = entry
    return section != 0 and info >> 4 != _STB_LOCAL and info & 0xF in _FUNCTIONS


# --- notes ---------------------------------------------------------------------------------------


def _gnu_properties(image: Image) -> bytes:
    """Find the NT_GNU_PROPERTY_TYPE_0 descriptor (Linux gABI extensions, "Program Property").

    A note that does not hold together is skipped, as the loader does.
    """
    properties = [s for s in image.segments if s.type == Pt.GNU_PROPERTY]
    notes = [s for s in image.segments if s.type == Pt.NOTE]
    places = [(s.offset, s.filesz) for s in (*properties, *notes)]
    if not places:
        places = [(s.offset, s.size) for s in image.sections if s.type == Sht.NOTE]
    for kind, owner, descriptor in _notes(image, places):
        if kind == NT_GNU_PROPERTY_TYPE_0 and owner == b"GNU\0":
            return descriptor
    return b""


def _dlopen_notes(image: Image) -> Iterator[str]:
    """Yield the descriptors of dlopen metadata (uapi-group.org, "dlopen() Metadata")."""
    places = [(s.offset, s.filesz) for s in image.segments if s.type == Pt.NOTE]
    for kind, owner, descriptor in _notes(image, places):
        if kind == _NT_DLOPEN and owner == b"FDO\0":
            yield descriptor.rstrip(b"\0").decode("utf-8", "replace")


def _notes(image: Image, places: list[tuple[int, int]]) -> Iterator[tuple[int, bytes, bytes]]:
    for offset, size in places:
        if offset + size <= len(image.view):
            yield from image.notes(offset, size)
