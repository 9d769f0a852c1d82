"""Reader of ELF objects: bytes to `Elf` and `Exports`.

Written with `struct` alone: pyelftools takes a hundred times the time for each object. With
DT_GNU_HASH the names of defined symbols are searched as one string of bytes, never one by one.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from wheelfix.elf.constants import (
    DF_BIND_NOW,
    DF_SYMBOLIC,
    DF_TEXTREL,
    NT_DLOPEN,
    NT_GNU_PROPERTY_TYPE_0,
    R_COPY,
    SHF_ALLOC,
    SHN_ABS,
    STB_GNU_UNIQUE,
    STB_LOCAL,
    STB_WEAK,
    STT_COMMON,
    STT_FUNC,
    STT_GNU_IFUNC,
    STT_NOTYPE,
    STT_OBJECT,
    STT_TLS,
    STV_DEFAULT,
    STV_PROTECTED,
    VERSYM_HIDDEN,
    VERSYM_INDEX,
    Dt,
    Pt,
    Sht,
)
from wheelfix.elf.image import Image, RecordingImage, Section
from wheelfix.elf.model import Definition, Elf, ElfType, Exports, Undefined, VersionNeed
from wheelfix.elf.symbol_tables import MAX_SYMBOLS, Dynamic
from wheelfix.errors import BadElfError
from wheelfix.system.mmap_io import forget

_ST_INFO = {32: 12, 64: 4}
"""Offset of st_info in Elf32_Sym and Elf64_Sym."""
_UNIQUE = bytes(STB_GNU_UNIQUE << 4 | kind for kind in range(16))
_FUNCTIONS = {STT_NOTYPE, STT_FUNC, STT_GNU_IFUNC}
"""What dlsym returns as code."""
_BINDABLE = {STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_COMMON, STT_TLS, STT_GNU_IFUNC}
"""The types of symbols that the loader lets a reference bind to."""
_VISIBLE = {STV_DEFAULT, STV_PROTECTED}
_HOOKS = (b"PyInit_", b"PyInitU_", b"PyModExport_", b"PyModExportU_", b"_cffi_pypyinit_")
_MAX_HOOKS = 4096
_DEBUG_SECTIONS = (b".debug_", b".zdebug_", b".stab", b".gdb_index")
_FLAG_TAGS = {Dt.SYMBOLIC: DF_SYMBOLIC, Dt.TEXTREL: DF_TEXTREL, Dt.BIND_NOW: DF_BIND_NOW}
_MAX_ENTRIES = 1000
"""DT_NEEDED and search path entries; real objects have fewer than a hundred, and the loader tries
each name in each directory."""


def read_elf(data: bytes | bytearray | memoryview | mmap.mmap, name: str) -> Elf:
    """Read one ELF object (gABI chapters 4 and 5).

    `name` is for messages, and its stem is that of the hook `init<stem>`. Nothing refers to `data`
    afterwards. An object that is not for the dynamic loader (`.o`, core file, static program,
    debug companion) has `dynamic` false.

    Raises `BadElfError` for a truncated file and for broken tables.
    """
    with memoryview(data) as view:
        image = Image.parse(view, name)
        return _read(image, _loadable(image))


class Tables(NamedTuple):
    """The places of an object's tables in the file."""

    places: tuple[tuple[int, int], ...] = ()
    """Offset and size of each part that its exports are read from; they may overlap. Empty for an
    object with broken tables, and for one that exports nothing."""
    strings: range = range(0)
    """.dynstr"""


def read_elf_and_tables(data: memoryview, name: str) -> tuple[Elf, Tables]:
    """Read one ELF object and the places of its tables.

    Raises `BadElfError` as `read_elf` does.
    """
    image = RecordingImage.parse(data, name)
    dynamic = _loadable(image)
    elf = _read(image, dynamic)
    if dynamic is None:
        return elf, Tables()
    strings = _strings(dynamic)
    try:
        _touch_exports(dynamic)
    except BadElfError:
        return elf, Tables(strings=strings)
    headers = (0, image.header_size), image.program_headers
    sections = image.section_headers, len(image.sections) * image.structs.shdr.size
    return elf, Tables(places=(*headers, sections, *image.accesses), strings=strings)


def _touch_exports(dynamic: Dynamic) -> None:
    """Access what `read_exports` reads and `read_elf` does not."""
    if Dt.SYMTAB not in dynamic.tags:
        return
    count = dynamic.symbol_count
    if count > 0:
        dynamic.place_of_symbols(0, count)
    dynamic.place_of_indices(count)
    first_defined(dynamic)
    if _may_copy(dynamic.image):
        for _ in dynamic.relocations():
            pass


def dynamic_strings(data: memoryview, name: str) -> range:
    """Return the file offsets of .dynstr, an empty range without one."""
    try:
        dynamic = Dynamic.parse(Image.parse(data, name))
        return range(0) if dynamic is None else _strings(dynamic)
    except BadElfError:
        return range(0)


def _strings(dynamic: Dynamic) -> range:
    if Dt.STRTAB not in dynamic.tags:
        return range(0)
    start, _ = dynamic.image.extent(dynamic.tags[Dt.STRTAB], "the dynamic string table")
    return range(start, start + len(dynamic.strings))


def _loadable(image: Image) -> Dynamic | None:
    """Return the dynamic section of an object for the dynamic loader."""
    if not _is_loadable(image):
        return None
    image.require_whole()
    return Dynamic.parse(image)


def _is_loadable(image: Image) -> bool:
    return image.type in {ElfType.EXEC, ElfType.DYN} and not image.is_debug_companion


def _read(image: Image, dynamic: Dynamic | None) -> Elf:
    loadable = _is_loadable(image)
    elf = Elf(
        bits=image.structs.bits,
        little_endian=image.structs.order == "<",
        machine=image.machine,
        osabi=image.osabi,
        flags=image.flags,
        type=image.type,
        segments=image.segments,
        interpreter=_interpreter(image) if loadable else None,
        dynamic=dynamic is not None,
        gnu_properties=_gnu_properties(image) if loadable else b"",
        symtab_size=_symtab_size(image) if loadable else 0,
        debug_size=_debug_size(image) if loadable else 0,
    )
    return elf if dynamic is None else _with_dynamic(elf, dynamic)


def _with_dynamic(elf: Elf, dynamic: Dynamic) -> Elf:
    """Return `elf` with what the dynamic section and its tables hold."""
    image, tags = dynamic.image, dynamic.tags
    needs = list(dynamic.version_needs())
    needed = tuple(
        dynamic.string(value, "DT_NEEDED") for tag, value in dynamic.entries if tag == Dt.NEEDED
    )
    rpath, runpath = (dynamic.tag_string(tag) for tag in (Dt.RPATH, Dt.RUNPATH))
    if any(
        count > _MAX_ENTRIES
        for count in (len(needed), (rpath or "").count(":"), (runpath or "").count(":"))
    ):
        raise image.bad(f"it has more than {_MAX_ENTRIES} DT_NEEDED or search path entries")
    return replace(
        elf,
        soname=dynamic.tag_string(Dt.SONAME),
        needed=needed,
        rpath=rpath,
        runpath=runpath,
        verneed=tuple(
            VersionNeed(file=file, versions=tuple(version for _, version in versions))
            for file, versions in needs
        ),
        verdef=tuple(v.name for _, v in dynamic.version_definitions() if not v.base),
        undefined=tuple(_undefined(dynamic, needs, is_program=elf.is_executable)),
        module_hooks=_module_hooks(dynamic),
        dlopen_notes=tuple(_dlopen_notes(image)),
        dt_flags=_flags(dynamic),
        dt_flags_1=tags.get(Dt.FLAGS_1, 0),
        has_init=Dt.INIT in tags,
        init_array=tags.get(Dt.INIT_ARRAYSZ, 0) * 8 // image.structs.bits,
        versym_alone=Dt.VERSYM in tags and not tags.keys() & {Dt.VERNEED, Dt.VERDEF},
        symtab=any(section.type == Sht.SYMTAB for section in image.sections),
        relr=Dt.RELR in tags,
        hashed=bool(tags.keys() & {Dt.HASH, Dt.GNU_HASH}) or Dt.SYMTAB not in tags,
        unique_symbols=_unique_symbols(dynamic),
    )


def _symtab_size(image: Image) -> int:
    """Return the bytes of .symtab and of the strings it links to (gABI chapter 4, "sh_link")."""
    tables = [section for section in image.sections if section.type == Sht.SYMTAB]
    strings = {table.link for table in tables if 0 < table.link < len(image.sections)}
    return sum(_inside(image, s) for s in (*tables, *(image.sections[n] for n in strings)))


def _debug_size(image: Image) -> int:
    return sum(
        _inside(image, section)
        for section in image.sections
        if section.type == Sht.PROGBITS
        and not section.flags & SHF_ALLOC
        and image.section_name(section).startswith(_DEBUG_SECTIONS)
    )


def _inside(image: Image, section: Section) -> int:
    """Return the section's size, 0 if it reaches past the end of the file."""
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
    for tag, bit in _FLAG_TAGS.items():
        if tag in dynamic.tags:
            flags |= bit
    return flags


# --- undefined symbols ---------------------------------------------------------------------------


def _undefined(
    dynamic: Dynamic, needs: list[tuple[str, list[tuple[int, str]]]], *, is_program: bool
) -> Iterator[Undefined]:
    wanted = {index: (version, file) for file, versions in needs for index, version in versions}
    count = _undefined_bound(dynamic, is_program=is_program)
    indices = dynamic.version_indices(count) if count else None
    strings, unversioned = dynamic.strings, (None, None)
    for number, (name, info, _, section, _, _) in enumerate(dynamic.symbols(0, count)):
        binding = info >> 4
        if section != 0 or name == 0 or binding == STB_LOCAL:
            continue
        index = indices[number] & VERSYM_INDEX if indices else 0
        version, file = wanted.get(index, unversioned)
        end = strings.find(b"\0", name)
        if end < 0:
            raise dynamic.image.bad("a symbol's name is no string of the dynamic string table")
        text = strings[name:end].decode("utf-8", "surrogateescape")
        yield Undefined(text, version, file, info & 0xF, binding == STB_WEAK)


def _undefined_bound(dynamic: Dynamic, *, is_program: bool) -> int:
    """Return an index that all undefined symbols lie below.

    Linkers sort the symbols in DT_GNU_HASH to the end. In a program these include undefined
    functions whose address is taken, as their PLT entry stands for them: there all are read.
    """
    if Dt.SYMTAB not in dynamic.tags:
        return 0
    table = dynamic.gnu_hash
    if table is not None and not is_program and not table.is_empty:
        return table.symoffset
    return dynamic.symbol_count


def _unique_symbols(dynamic: Dynamic) -> int:
    """Count the STB_GNU_UNIQUE symbols; 0 for a broken table, as the loader may never read it."""
    image, size = dynamic.image, dynamic.image.structs.sym.size
    try:
        start, stop = first_defined(dynamic), dynamic.symbol_count
        if not start < stop <= MAX_SYMBOLS:
            return 0
        at = dynamic.place_of_symbols(start, stop)
    except BadElfError:
        return 0
    table = image.view[at : at + (stop - start) * size]
    info = bytes(table[_ST_INFO[image.structs.bits] :: size])
    forget(image.view)
    return len(info) - len(info.translate(None, _UNIQUE))


# --- definitions ---------------------------------------------------------------------------------


def read_exports(data: bytes | bytearray | memoryview | mmap.mmap, name: str) -> Exports:
    """Read what an object defines for others, by the rules of glibc's `do_lookup_x`.

    `name` is for messages; nothing refers to `data` afterwards. An object without a dynamic section
    exports nothing. Raises `BadElfError` as `read_elf` does.
    """
    with memoryview(data) as view:
        dynamic = Dynamic.parse(Image.parse(view, name))
        return Exports() if dynamic is None else exports_in(dynamic)


def exports_in(dynamic: Dynamic) -> Exports:
    """Return what an object with this dynamic section defines for others."""
    if Dt.SYMTAB not in dynamic.tags:
        return Exports()
    return Exports(definitions=_definitions(dynamic), copies=tuple(copies_of(dynamic)))


def _definitions(dynamic: Dynamic) -> dict[str, tuple[Definition, ...]]:
    start, count = first_defined(dynamic), dynamic.symbol_count
    indices = dynamic.version_indices(count)
    versions = versions_of(dynamic)
    strings = dynamic.strings
    shared: dict[tuple[int, int | None], tuple[Definition, ...]] = {}
    found: dict[str, tuple[Definition, ...]] = {}
    for number, (name, info, other, section, value, _) in enumerate(
        dynamic.symbols(start, count), start
    ):
        if not is_definition(info, other, section, value):
            continue
        version = indices[number] if indices is not None else None
        definition = shared.get((info, version))
        if definition is None:
            definition = shared[info, version] = (definition_of(info, version, versions),)
        text = strings[name : strings.find(b"\0", name)].decode("utf-8", "surrogateescape")
        found[text] = found[text] + definition if text in found else definition
    return found


def is_definition(info: int, other: int, section: int, value: int) -> bool:
    """Return whether the loader binds references of other objects to an entry of .dynsym."""
    kind = info & 0xF
    if section == 0 or info >> 4 == STB_LOCAL:
        return False
    if kind not in _BINDABLE or other & 3 not in _VISIBLE:
        return False
    return bool(value) or kind == STT_TLS or section == SHN_ABS


def versions_of(dynamic: Dynamic) -> dict[int, str | None]:
    """Return the version of each index, None for the base version (the object's own name).

    Needed versions are among them: a program's copies of data have their indices.
    """
    found = {
        index: version for _, versions in dynamic.version_needs() for index, version in versions
    }
    defined = {n: None if v.base else v.name for n, v in dynamic.version_definitions()}
    return {**found, **defined}


def first_defined(dynamic: Dynamic) -> int:
    """Return an index that all defined symbols lie at or above."""
    table = dynamic.gnu_hash
    return table.symoffset if table is not None and not table.is_empty else 0


def definition_of(info: int, version: int | None, versions: Mapping[int, str | None]) -> Definition:
    """Return the definition in an entry of .dynsym with this `st_info` and DT_VERSYM entry."""
    index = None if version is None else version & VERSYM_INDEX
    return Definition(
        version=None if index is None else versions.get(index),
        version_index=index,
        hidden=version is not None and (version == 0 or version & VERSYM_HIDDEN != 0),
        weak=info >> 4 == STB_WEAK,
        type=info & 0xF,
        unique=info >> 4 == STB_GNU_UNIQUE,
    )


def copies_of(dynamic: Dynamic) -> Iterator[Undefined]:
    """Yield the data that a program has copies of (R_*_COPY)."""
    kind = R_COPY.get(dynamic.image.machine, -1)
    wide = dynamic.image.structs.bits == 64
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
        index = indices[number] & VERSYM_INDEX if indices else 0
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


# --- module hooks --------------------------------------------------------------------------------


def _module_hooks(dynamic: Dynamic) -> tuple[str, ...]:
    """Find the functions that make an object a Python module.

    Their names are searched for in .dynstr, which is quick whatever its size, and then looked up
    as symbols: the text can be the name of an undefined symbol as well.
    """
    if Dt.SYMTAB not in dynamic.tags:
        return ()
    names = _hook_names(dynamic)
    if not names:
        return ()
    if dynamic.gnu_hash is None:
        found = {
            name
            for entry in dynamic.symbols(0, dynamic.symbol_count)
            for name in [dynamic.strings[entry[0] : entry[0] + 256].partition(b"\0")[0]]
            if name in names and _is_function(entry)
        }
    else:
        found = {name for name in names if _is_function(dynamic.find(name))}
    return tuple(sorted(name.decode("utf-8", "surrogateescape") for name in found))


def _hook_names(dynamic: Dynamic) -> set[bytes]:
    stem = dynamic.image.name.rpartition("/")[2].partition(".")[0]
    old = b"init" + stem.encode("utf-8", "surrogateescape")
    strings = dynamic.strings
    names = {old} if b"\0" + old + b"\0" in strings else set[bytes]()
    for prefix in _HOOKS:
        at = strings.find(prefix)
        while at >= 0 and len(names) < _MAX_HOOKS:
            end = strings.find(b"\0", at)
            names.add(strings[at : end if end >= 0 else len(strings)])
            at = strings.find(prefix, at + 1)
    return names


def _is_function(entry: tuple[int, ...] | None) -> bool:
    if entry is None:
        return False
    _, info, _, section, *_ = entry
    return section != 0 and info >> 4 != STB_LOCAL and info & 0xF in _FUNCTIONS


# --- notes ---------------------------------------------------------------------------------------


def _gnu_properties(image: Image) -> bytes:
    """Find the NT_GNU_PROPERTY_TYPE_0 descriptor (Linux gABI extensions, "Program Property").

    A broken note is skipped, as the loader does.
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
    """Yield the dlopen metadata, as JSON (uapi-group.org, "dlopen() Metadata for ELF Files")."""
    places = [(s.offset, s.filesz) for s in image.segments if s.type == Pt.NOTE]
    for kind, owner, descriptor in _notes(image, places):
        if kind == NT_DLOPEN and owner == b"FDO\0":
            yield descriptor.rstrip(b"\0").decode("utf-8", "replace")


def _notes(image: Image, places: list[tuple[int, int]]) -> Iterator[tuple[int, bytes, bytes]]:
    for offset, size in places:
        if offset + size <= len(image.view):
            yield from image.notes(offset, size)
