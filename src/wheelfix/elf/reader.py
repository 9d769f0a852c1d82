"""Reader of ELF objects: bytes to `Elf` and `Exports`.

Written with `struct` alone: pyelftools takes a hundred times the time for each object. With
DT_GNU_HASH the names of defined symbols are searched as one string of bytes, never one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from sys import intern

from wheelfix.budget import Budget
from wheelfix.elf.constants import (
    DF_BIND_NOW,
    DF_STATIC_TLS,
    DF_SYMBOLIC,
    DF_TEXTREL,
    MODULE_HOOKS,
    NT_ANDROID_IDENT,
    NT_DLOPEN,
    NT_GNU_BUILD_ID,
    NT_GNU_PROPERTY_TYPE_0,
    PF_X,
    R_AARCH64_TLS_TPREL,
    R_TLSDESC,
    SHF_WRITE,
    STB_GNU_UNIQUE,
    STB_LOCAL,
    STB_WEAK,
    STT_FUNC,
    STT_GNU_IFUNC,
    STT_NOTYPE,
    VERSYM_INDEX,
    Dt,
    Pt,
    Sht,
)
from wheelfix.elf.dynamic_tables import Dynamic, NeededVersion
from wheelfix.elf.exports import SymbolTables, first_definition, symbol_tables
from wheelfix.elf.image import Buffer, Image, Section
from wheelfix.elf.model import Elf, ElfType, Filtee, Machine, Undefined, VersionNeed
from wheelfix.elf.module_slots import slots_enable_gil
from wheelfix.elf.stack_trampolines import has_trampolines
from wheelfix.errors import BadElfError
from wheelfix.named_tuple import NamedTuple

_UNIQUE = bytes(STB_GNU_UNIQUE << 4 | kind for kind in range(16))
_FUNCTIONS = {STT_NOTYPE, STT_FUNC, STT_GNU_IFUNC}
"""What dlsym returns as code."""
_HOOKS = tuple(hook.encode() for hook in MODULE_HOOKS)
_MAX_HOOKS = 4096
_UNDEFINED_SIZE = 200
"""Bytes in memory of an undefined symbol besides its name."""
_BATCH = 1 << 14
"""Bytes of undefined symbols that are counted at once."""
_FLAG_TAGS = {Dt.SYMBOLIC: DF_SYMBOLIC, Dt.TEXTREL: DF_TEXTREL, Dt.BIND_NOW: DF_BIND_NOW}
_MAX_ENTRIES = 1000
"""DT_NEEDED, Verneed and search path entries; real objects have fewer than a hundred.

The loader tries each name in each directory."""


def read_elf(data: Buffer, name: str, budget: Budget | None = None) -> Elf:
    """Read one ELF object (gABI chapters 4 and 5).

    `name` is for messages, and its stem is that of the hook `init<stem>`. Nothing refers to `data`
    afterwards. An object that is not for the dynamic loader (`.o`, core file, static program,
    debug companion) has `dynamic` false. Without `budget`, the object has one of its own.

    Raises `BadElfError` for a truncated file and for broken tables.
    """
    with memoryview(data) as view:
        image = Image.parse(view, name, budget)
        return _read(image, _loadable(image))


class ReadObject(NamedTuple):
    """An object, and what else is read of it in the same pass."""

    elf: Elf
    tables: SymbolTables | None
    """None for an object with broken tables, and for one that is not for the dynamic loader."""
    strings: range
    """The file offsets of .dynstr."""


def read_object(data: memoryview, name: str, budget: Budget) -> ReadObject:
    """Read one ELF object and its symbol tables.

    Raises `BadElfError` as `read_elf` does.
    """
    image = Image.parse(data, name, budget)
    dynamic = _loadable(image)
    elf = _read(image, dynamic)
    if dynamic is None:
        return ReadObject(elf, None, range(0))
    strings = _strings(dynamic)
    with suppress(BadElfError):
        return ReadObject(elf, symbol_tables(image, dynamic), strings)
    return ReadObject(elf, None, strings)


def dynamic_strings(data: memoryview, name: str, budget: Budget) -> range:
    """Return the file offsets of .dynstr, an empty range without one."""
    try:
        dynamic = Dynamic.parse(Image.parse(data, name, budget))
        return range(0) if dynamic is None else _strings(dynamic)
    except BadElfError:
        return range(0)


def _strings(dynamic: Dynamic) -> range:
    if Dt.STRTAB not in dynamic.tags:
        return range(0)
    start, _ = dynamic.image.extent(dynamic.tags[Dt.STRTAB], "the dynamic string table")
    return range(start, start + len(dynamic.strings))


def build_id(data: Buffer, name: str) -> bytes:
    """Return the build-id of an object (ld, `--build-id`), empty if it has none.

    Raises `BadElfError` for broken headers.
    """
    with memoryview(data) as view:
        return _build_id(Image.parse(view, name))


def _build_id(image: Image) -> bytes:
    segments = [(s.offset, s.filesz) for s in image.segments if s.type == Pt.NOTE]
    places = segments or [(s.offset, s.size) for s in image.sections if s.type == Sht.NOTE]
    notes = _notes(image, places)
    return next((text for *kind, text in notes if kind == [NT_GNU_BUILD_ID, b"GNU\0"]), b"")


def _loadable(image: Image) -> Dynamic | None:
    """Return the dynamic section of an object for the dynamic loader."""
    if not _is_loadable(image):
        return None
    image.require_whole()
    return Dynamic.parse(image)


def _is_loadable(image: Image) -> bool:
    return image.header.type in {ElfType.EXEC, ElfType.DYN} and not image.is_debug_companion


def _read(image: Image, dynamic: Dynamic | None) -> Elf:
    loadable = _is_loadable(image)
    elf = Elf(
        bits=image.structs.bits,
        little_endian=image.structs.order == "<",
        machine=image.header.machine,
        osabi=image.osabi,
        abi_version=image.abi_version,
        valid_header=image.valid_header,
        flags=image.header.flags,
        type=image.header.type,
        segments=image.segments,
        interpreter=_interpreter(image) if loadable else None,
        dynamic=dynamic is not None,
        build_id=_build_id(image),
        gnu_properties=_gnu_properties(image) if loadable else b"",
        symtab_size=_symtab_size(image) if loadable else 0,
        debug_size=_debug_size(image) if loadable else 0,
        trampolines=has_trampolines(image) if loadable and _has_executable_stack(image) else False,
    )
    return elf if dynamic is None else _with_dynamic(elf, dynamic)


def _has_executable_stack(image: Image) -> bool:
    stack = image.segment(Pt.GNU_STACK)
    return stack is not None and bool(stack.flags & PF_X)


def _with_dynamic(elf: Elf, dynamic: Dynamic) -> Elf:
    """Return `elf` with what the dynamic section and its tables hold."""
    image, tags = dynamic.image, dynamic.tags
    needs = list(dynamic.version_needs())
    needed = tuple(
        dynamic.name(value, "DT_NEEDED") for tag, value in dynamic.entries if tag == Dt.NEEDED
    )
    filtees = tuple(_filtees(dynamic))
    rpath, runpath = (dynamic.tag_string(tag) for tag in (Dt.RPATH, Dt.RUNPATH))
    if any(
        count > _MAX_ENTRIES
        for count in (
            len(needed),
            len(filtees),
            len(needs),
            (rpath or "").count(":"),
            (runpath or "").count(":"),
        )
    ):
        raise image.bad(
            f"it has more than {_MAX_ENTRIES} DT_NEEDED, DT_FILTER, Verneed or search path entries"
        )
    return elf._replace(
        soname=dynamic.tag_string(Dt.SONAME),
        needed=needed,
        filtees=filtees,
        rpath=rpath,
        runpath=runpath,
        verneed=tuple(
            VersionNeed(
                file=file,
                versions=tuple(version.name for version in versions),
                weak=tuple(version.name for version in versions if version.weak),
            )
            for file, versions in needs
        ),
        verdef=tuple(v.name for _, v in dynamic.version_definitions() if not v.base),
        undefined=tuple(_undefined_symbols(dynamic, needs, is_program=elf.is_executable)),
        module_hooks=_module_hooks(dynamic),
        slots_enable_gil=slots_enable_gil(dynamic),
        dlopen_notes=tuple(dict.fromkeys(_dlopen_notes(image))),
        for_bionic=any(note[:2] == _ANDROID for note in _loaded_notes(image)),
        dt_flags=_flags(dynamic),
        tls_descriptors=_has_tls_descriptors(dynamic),
        dt_flags_1=tags.get(Dt.FLAGS_1, 0),
        constructors=_runs_code(dynamic, Dt.INIT, Dt.INIT_ARRAYSZ, (b".init", b".ctors")),
        destructors=_runs_code(dynamic, Dt.FINI, Dt.FINI_ARRAYSZ, (b".fini", b".dtors")),
        versym_alone=Dt.VERSYM in tags and not tags.keys() & {Dt.VERNEED, Dt.VERDEF},
        symtab=any(section.type == Sht.SYMTAB for section in image.sections),
        relr=Dt.RELR in tags,
        hashed=bool(tags.keys() & {Dt.HASH, Dt.GNU_HASH}) or Dt.SYMTAB not in tags,
        unique_symbols=_unique_symbols(dynamic),
    )


def _runs_code(dynamic: Dynamic, function: Dt, array: Dt, names: tuple[bytes, bytes]) -> bool:
    """Return whether an object has constructors, or destructors, beside those of its crt files.

    crti.o makes a function of the section `.init`, crtbegin.o the first entry of DT_INIT_ARRAY
    (gcc, libgcc/crtstuff.c). Before gcc 4.7 the function called those listed in `.ctors`, of which
    the first and the last are marks. A function anywhere else was asked for (`ld -init`); without
    section headers it is not known, and may be one.
    """
    image, tags = dynamic.image, dynamic.tags
    word = image.structs.bits // 8
    entries = tags.get(array, 0) // word
    if not tags.get(function):
        return entries > 0
    own, listed = names
    is_own = any(s.addr == tags[function] and image.section_name(s) == own for s in image.sections)
    is_list = any(
        section.size > 2 * word and section.addr and image.section_name(section) == listed
        for section in image.sections
        if section.type == Sht.PROGBITS and section.flags & SHF_WRITE
    )
    return not is_own or is_list or entries > 1


def _filtees(dynamic: Dynamic) -> Iterator[Filtee]:
    position = 0
    for tag, value in dynamic.entries:
        if tag == Dt.NEEDED:
            position += 1
        elif tag in {Dt.FILTER, Dt.AUXILIARY}:
            required = tag == Dt.FILTER
            yield Filtee(dynamic.name(value, Dt(tag).name), required, position)


def _symtab_size(image: Image) -> int:
    """Return the bytes of .symtab and of the strings it links to (gABI chapter 4, "sh_link")."""
    tables = [section for section in image.sections if section.type == Sht.SYMTAB]
    strings = {table.link for table in tables if image.has(table.link)}
    return sum(_inside(image, s) for s in (*tables, *(image.sections[n] for n in strings)))


def _debug_size(image: Image) -> int:
    return sum(
        _inside(image, section)
        for section in image.sections
        if section.type == Sht.PROGBITS and image.is_debug_section(section)
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
    return flags | (DF_STATIC_TLS if _has_static_tls(dynamic) else 0)


def _has_static_tls(dynamic: Dynamic) -> bool:
    """Return whether relocations want its thread data beside the program's, on ARM64.

    GNU ld leaves out DF_STATIC_TLS there, and glibc looks at the relocations alone.
    """
    is_arm64 = dynamic.image.header.machine == Machine.AARCH64
    return is_arm64 and _wants_own_tls(dynamic, R_AARCH64_TLS_TPREL)


def _has_tls_descriptors(dynamic: Dynamic) -> bool:
    """Return whether relocations want descriptors of its own thread data.

    On x86 code has them in the place of calls of `__tls_get_addr`, with `-mtls-dialect=gnu2`.
    """
    machine = dynamic.image.header.machine
    kind = R_TLSDESC.get(machine)
    if kind is None or (machine == Machine.X86_64 and b"\0__tls_get_addr\0" in dynamic.strings):
        return False
    return _wants_own_tls(dynamic, kind)


def _wants_own_tls(dynamic: Dynamic, kind: int) -> bool:
    """Return whether relocations of a type refer to thread data of the object itself."""
    if dynamic.image.segment(Pt.TLS) is None:
        return False
    with suppress(BadElfError):  # where they cannot be read, nothing is known
        numbers = (table.symbols_of(kind) for table in dynamic.relocations())
        return any(
            number == 0 or section != 0
            for number in chain.from_iterable(numbers)
            for _, _, _, section, *_ in dynamic.symbols(number, number + 1)
        )
    return False


def _undefined_symbols(
    dynamic: Dynamic, needs: list[tuple[str, list[NeededVersion]]], *, is_program: bool
) -> Iterator[Undefined]:
    needed = {v.number: (v.name, file) for file, versions in needs for v in versions}
    count = _undefined_limit(dynamic, is_program=is_program)
    image = dynamic.image
    indices = dynamic.version_indices(count) if count else None
    strings, unversioned = dynamic.strings, (None, None)
    taken = 0
    for number, (name, info, _, section, _, _) in enumerate(dynamic.symbols(0, count)):
        binding = info >> 4
        if section != 0 or name == 0 or binding == STB_LOCAL:
            continue
        index = indices[number] & VERSYM_INDEX if indices else 0
        version, file = needed.get(index, unversioned)
        end = strings.find(b"\0", name)
        if end < 0:
            raise image.bad("a symbol's name is not in the dynamic string table")
        taken += _UNDEFINED_SIZE + end - name
        if taken > _BATCH:
            image.spend(taken >> 7, "the undefined symbols", memory=taken)
            taken = 0
        text = intern(strings[name:end].decode("utf-8", "surrogateescape"))
        yield Undefined(text, version, file, info & 0xF, binding == STB_WEAK)
    image.spend(taken >> 7, "the undefined symbols", memory=taken)


def _undefined_limit(dynamic: Dynamic, *, is_program: bool) -> int:
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
        start, stop = first_definition(dynamic), dynamic.symbol_count
        if not start < stop:
            return 0
        info = dynamic.symbol_bytes(start, stop)[image.structs.st_info :: size]
    except BadElfError:
        return 0
    return len(info) - len(info.translate(None, _UNIQUE))


def _module_hooks(dynamic: Dynamic) -> tuple[str, ...]:
    """Find the functions that make an object a Python module.

    Their names are searched for in .dynstr, which is quick whatever its size, and then looked up
    in .dynsym: the text can be the name of an undefined symbol as well.
    """
    names = _hook_names(dynamic) if Dt.SYMTAB in dynamic.tags else {}
    if not names:
        return ()
    symbols = dynamic.symbols(first_definition(dynamic), dynamic.symbol_count)
    hooks = {
        names[name]
        for name, info, _, section, *_ in symbols
        if name in names and section and info >> 4 != STB_LOCAL and info & 0xF in _FUNCTIONS
    }
    return tuple(sorted(name.decode("utf-8", "surrogateescape") for name in hooks))


def _hook_names(dynamic: Dynamic) -> dict[int, bytes]:
    """Return the names in .dynstr that a hook has, by their offsets."""
    stem = dynamic.image.name.rpartition("/")[2].partition(".")[0]
    old = b"init" + stem.encode("utf-8", "surrogateescape")
    strings = dynamic.strings
    names: dict[int, bytes] = {}
    if (at := strings.find(b"\0" + old + b"\0")) >= 0:
        names[at + 1] = old
    for prefix in _HOOKS:
        at = strings.find(prefix)
        while at >= 0 and len(names) < _MAX_HOOKS:
            end = strings.find(b"\0", at)
            size = max(end, at) - at
            dynamic.image.spend(1 + (size >> 10), "the strings", memory=_UNDEFINED_SIZE + size)
            names[at] = strings[at : end if end >= 0 else len(strings)]
            at = strings.find(prefix, at + 1)
    return names


def _gnu_properties(image: Image) -> bytes:
    """Find the NT_GNU_PROPERTY_TYPE_0 descriptor (Linux gABI extensions, "Program Property").

    A broken note is skipped, as the loader does.
    """
    properties = [s for s in image.segments if s.type == Pt.GNU_PROPERTY]
    notes = [s for s in image.segments if s.type == Pt.NOTE]
    places = dict.fromkeys((s.offset, s.filesz) for s in (*properties, *notes))
    if not places:
        places = dict.fromkeys((s.offset, s.size) for s in image.sections if s.type == Sht.NOTE)
    for kind, owner, descriptor in _notes(image, places):
        if kind == NT_GNU_PROPERTY_TYPE_0 and owner == b"GNU\0":
            image.spend(len(descriptor) >> 3, "the properties")
            return descriptor
    return b""


def _dlopen_notes(image: Image) -> Iterator[str]:
    """Yield the dlopen metadata, as JSON (uapi-group.org, "dlopen() Metadata for ELF Files")."""
    for kind, owner, descriptor in _loaded_notes(image):
        if kind == NT_DLOPEN and owner == b"FDO\0":
            image.spend(len(descriptor) >> 6, "the dlopen notes", memory=8 * len(descriptor))
            yield descriptor.rstrip(b"\0").decode("utf-8", "replace")


_ANDROID = NT_ANDROID_IDENT, b"Android\0"
"""`.note.android.ident`, of the crt files of Android's NDK (bionic, libc/arch-common/bionic)."""


def _loaded_notes(image: Image) -> Iterator[tuple[int, bytes, bytes]]:
    places = dict.fromkeys((s.offset, s.filesz) for s in image.segments if s.type == Pt.NOTE)
    return _notes(image, places)


def _notes(image: Image, places: Iterable[tuple[int, int]]) -> Iterator[tuple[int, bytes, bytes]]:
    for offset, size in places:
        if offset + size <= len(image.view):
            yield from image.notes(offset, size)
