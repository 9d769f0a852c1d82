"""ELF objects as frozen values: header, dynamic section, version needs, symbols.

Names follow the gABI (System V Application Binary Interface, chapters 4 and 5) and the GNU
extensions described in the LSB core specification.
"""

from collections.abc import Collection, Mapping
from dataclasses import field
from enum import IntEnum, StrEnum
from functools import lru_cache
from itertools import accumulate

from wheelfix.frozen import frozen
from wheelfix.named_tuple import NamedTuple
from wheelfix.system.lazy_patterns import lazy_pattern

DF_1_PIE = 0x08000000
"""DT_FLAGS_1: a program, which loaders refuse to open."""


EF_RISCV_FLOAT_ABI = 0x6
EF_RISCV_FLOAT_ABI_DOUBLE = 0x4
"""RISC-V ELF psABI, "File Header": the floating-point ABI in `e_flags`."""
_RISCV_FLOATS = ("", "f", "d", "q")
_EF_PPC64_ABI = 0x3
"""64-Bit ELF V2 ABI Specification (Power), "e_flags"."""


class ElfType(IntEnum):
    """`e_type`, gABI chapter 4, "ELF Header"."""

    REL = 1
    EXEC = 2
    DYN = 3
    CORE = 4


class Machine(IntEnum):
    """The `e_machine` values for which platform tags exist."""

    I386 = 3
    PPC64 = 21
    S390 = 22
    ARM = 40
    X86_64 = 62
    AARCH64 = 183
    RISCV = 243
    LOONGARCH = 258


class Libc(StrEnum):
    """The C library that an object was built for."""

    GLIBC = "glibc"
    MUSL = "musl"
    BIONIC = "bionic"
    """Android's."""


LIBC_SONAMES: Mapping[Libc, str] = {
    Libc.GLIBC: "libc.so.6",
    Libc.MUSL: "libc.so",
    Libc.BIONIC: "libc.so",
}
"""Of upstream: Alpine's musl has a name of its own (`loader.machine_names.musl_soname`)."""


def libc_of(name: str) -> Libc | None:
    """Return the C library whose SONAME, or whose dynamic loader, is `name`; None for others.

    It stands here rather than in `loader.platform_libraries` because `Elf.libc` needs it.
    """
    if name == LIBC_SONAMES[Libc.MUSL] or name.startswith(("ld-musl-", "libc.musl-")):
        return Libc.MUSL
    if name == LIBC_SONAMES[Libc.GLIBC] or name.startswith(("ld-linux", "ld64.so")):
        return Libc.GLIBC
    return None


@lru_cache(64)  # it is asked again for each entry of an object
def _first_libc(interpreter: str | None, needed: tuple[str, ...]) -> Libc | None:
    names = [name.rpartition("/")[2] for name in (interpreter or "", *needed)]
    names.sort(key=LIBC_SONAMES[Libc.MUSL].__eq__)  # of glibc, a text for linkers
    return next(filter(None, map(libc_of, names)), None)


def names_of(path: str, soname: str | None) -> frozenset[str]:
    """Return the names by which others may need an object: of its file, and its SONAME."""
    return frozenset({path.rpartition("/")[2], *([soname] if soname else [])})


ORIGIN = lazy_pattern(r"\$ORIGIN|\$\{ORIGIN\}")
"""The folder of an object, in a path of its dynamic section: as musl's loader and auditwheel read
it. glibc's (`loader.glibc_search`) takes the first only as a whole word."""


def starts_at_origin(entry: str) -> bool:
    """Return whether a path in the dynamic section starts in the folder of its object."""
    return ORIGIN.match(entry) is not None


_OF_COMPILER = ("_ITM_", "_ZGTt", "__cxa_", "_Jv_RegisterClasses", "__gmon_start__")
"""How the names begin of what the crt files of gcc and a static libstdc++ refer to weakly:
transactional memory, the C++ ABI, Java, gprof."""


class PathTag(StrEnum):
    """The dynamic tag that carries the search path."""

    RPATH = "DT_RPATH"
    RUNPATH = "DT_RUNPATH"


class Abi(NamedTuple):
    """The properties that all objects of one process share."""

    machine: int
    """`e_machine`; see `Machine` for the ones with a platform tag."""
    bits: int
    """32 or 64, from EI_CLASS."""
    little_endian: bool
    """EI_DATA."""


class Segment(NamedTuple):
    """One program header, fields in the order of ELF64; offsets, addresses and sizes in bytes."""

    type: int
    flags: int
    offset: int
    vaddr: int
    paddr: int
    filesz: int
    memsz: int
    align: int

    @property
    def end(self) -> int:
        """File offset of the first byte behind it."""
        return self.offset + self.filesz

    def has_offset(self, offset: int) -> bool:
        """Return whether the byte at a file offset is in it."""
        return self.offset <= offset < self.end


class Filtee(NamedTuple):
    """One DT_FILTER or DT_AUXILIARY entry: a library that glibc searches before the object."""

    name: str
    required: bool
    """DT_FILTER: without the library the load fails, as for DT_NEEDED."""
    position: int
    """Number of DT_NEEDED entries before it in the dynamic section."""


class VersionNeed(NamedTuple):
    """One Verneed record: versions that the object needs from `file`, in file order."""

    file: str
    versions: tuple[str, ...]
    weak: tuple[str, ...] = ()
    """Those of `versions` with VER_FLG_WEAK: the library may be without them."""


class Undefined(NamedTuple):
    """One undefined entry of .dynsym: a symbol that another object must define."""

    name: str
    version: str | None
    """The needed version, from Vernaux; None for an unversioned reference."""
    file: str | None
    """The library that the static linker bound it to: vn_file of its Verneed record."""
    type: int
    """STT_*, the low four bits of st_info."""
    weak: bool


def is_of_compiler(symbol: Undefined) -> bool:
    """Return whether a weak reference is of the compiler: usually no library defines the symbol."""
    return symbol.weak and symbol.name.startswith(_OF_COMPILER)


class Elf(NamedTuple):
    """One ELF object: header, segments, dynamic section, version needs, undefined symbols."""

    bits: int
    """32 or 64, from EI_CLASS."""
    little_endian: bool
    machine: int
    """`e_machine`; see `Machine` for the ones with a platform tag."""
    osabi: int
    flags: int
    """`e_flags`, processor specific."""
    type: int
    """`e_type`; see `ElfType`."""
    abi_version: int = 0
    """EI_ABIVERSION."""
    valid_header: bool = True
    """Whether EI_VERSION and e_version are EV_CURRENT, and the padding of e_ident is zero."""
    segments: tuple[Segment, ...] = ()
    interpreter: str | None = None
    """PT_INTERP, on executables."""
    dynamic: bool = True
    """Whether it has a PT_DYNAMIC; a static executable or a `.o` has none."""
    soname: str | None = None
    needed: tuple[str, ...] = ()
    """DT_NEEDED, in link order, duplicates included."""
    filtees: tuple[Filtee, ...] = ()
    rpath: str | None = None
    """DT_RPATH as written; the empty string is a tag with an empty value."""
    runpath: str | None = None
    verneed: tuple[VersionNeed, ...] = ()
    verdef: tuple[str, ...] = ()
    """The defined versions, without the base version (its own name)."""
    undefined: tuple[Undefined, ...] = ()
    module_hooks: tuple[str, ...] = ()
    """Defined functions that CPython or cffi look up: `PyInit_x`, `PyInitU_x`, `initx`, ..."""
    slots_enable_gil: bool = False
    """Whether it has slots of modules for a free-threaded Python, none with `Py_mod_gil` to say
    that no GIL is needed; also false where that is not known."""
    build_id: bytes = b""
    """What the linker made of the content (ld, `--build-id`), empty without it."""
    gnu_properties: bytes = b""
    """The raw NT_GNU_PROPERTY_TYPE_0 descriptor (x86 ISA level), empty without one."""
    dlopen_notes: tuple[str, ...] = ()
    """Libraries that it opens with dlopen, as JSON (`.note.dlopen`, uapi-group.org)."""
    dt_flags: int = 0
    """DT_FLAGS, with DT_SYMBOLIC, DT_TEXTREL and DT_BIND_NOW folded in, as glibc does.

    On ARM64 also with DF_STATIC_TLS, where relocations have its effect.
    """
    dt_flags_1: int = 0
    tls_descriptors: bool = False
    """Whether its relocations want descriptors of its own thread data (R_*_TLSDESC)."""
    constructors: bool = False
    """Whether it runs code when it is loaded, that of the compiler's crt files aside."""
    destructors: bool = False
    """Whether it runs code when the process ends, as for `constructors`."""
    versym_alone: bool = False
    """Whether it has a DT_VERSYM, but neither DT_VERNEED nor DT_VERDEF."""
    symtab: bool = False
    """Whether it has a .symtab, which only linkers and debuggers read (`strip -s` removes it)."""
    relr: bool = False
    """Whether it has packed relative relocations (DT_RELR)."""
    hashed: bool = True
    """Whether its symbols can be looked up: DT_HASH or DT_GNU_HASH, or no symbols at all."""
    unique_symbols: int = 0
    """Number of its STB_GNU_UNIQUE symbols: a process has one definition for each such name."""
    symtab_size: int = 0
    """Bytes of .symtab and of its string table."""
    trampolines: bool | None = False
    """Whether its code writes trampolines to the stack; None on a machine where that is unknown.

    It is looked for only where PT_GNU_STACK is executable.
    """
    debug_size: int = 0
    """Bytes of the sections that only debuggers read: `.debug_*` (DWARF 5, appendix G), stabs."""
    for_bionic: bool = False
    """Whether it is for Android, whose C library has the name of musl's: `.note.android.ident` of
    the NDK says so, or the tag of its wheel."""

    @property
    def abi(self) -> Abi:
        """Machine, class and byte order: other objects of the process must have the same."""
        return Abi(self.machine, self.bits, self.little_endian)

    @property
    def convention(self) -> str:
        """The calling convention that `e_flags` names; empty on machines with one, and on ARM.

        What glibc compares (`elf_machine_matches_host` in sysdeps/*/dl-machine.h): on RISC-V the
        floating-point ABI, on 64-bit PowerPC the version of the ELF ABI, where objects without one
        fit as well. On ARM only ldconfig compares.
        """
        if self.machine == Machine.RISCV:
            base = "lp64" if self.bits == 64 else "ilp32"
            return base + _RISCV_FLOATS[(self.flags & EF_RISCV_FLOAT_ABI) >> 1]
        if self.machine == Machine.PPC64:
            version = self.flags & _EF_PPC64_ABI
            return f"ELFv{version or (2 if self.little_endian else 1)}"
        return ""

    @property
    def search_path(self) -> str | None:
        """The search path in use: DT_RUNPATH hides DT_RPATH (ld.so(8)), bionic has no other."""
        if self.for_bionic or self.runpath is not None:
            return self.runpath
        return self.rpath

    @property
    def path_tag(self) -> PathTag | None:
        """The tag of `search_path`."""
        if self.runpath is not None:
            return PathTag.RUNPATH
        return PathTag.RPATH if self.search_path is not None else None

    def path_tag_for(self, asked: PathTag) -> PathTag:
        """Return the tag for a search path where `asked` is wanted: one that its loader reads."""
        return PathTag.RUNPATH if self.for_bionic else asked

    @property
    def entries(self) -> tuple[str, ...]:
        """The elements of the search path, split at `:` as glibc's `decompose_rpath` does."""
        path = self.search_path
        return tuple(path.split(":")) if path else ()

    @property
    def is_executable(self) -> bool:
        """Whether the kernel starts it: ET_EXEC, or ET_DYN with an interpreter (PIE) or DF_1_PIE.

        A static PIE has only the latter, and loaders refuse to open what has it. A library or
        module may have an interpreter, to print its version (libc, Qt5Core).
        """
        is_opened = bool(self.soname or self.module_hooks)
        is_pie = bool(self.dt_flags_1 & DF_1_PIE) or (bool(self.interpreter) and not is_opened)
        return self.type == ElfType.EXEC or is_pie

    @property
    def is_module(self) -> bool:
        """Whether CPython can import it: `module_hooks` has an init function for CPython."""
        return any(hook.startswith("Py") for hook in self.module_hooks)

    @property
    def is_library(self) -> bool:
        """Whether a process can open it: an object for the dynamic loader, and no program."""
        return self.dynamic and not self.is_executable

    @property
    def libc(self) -> Libc | None:
        """The C library it needs, by interpreter or DT_NEEDED; None if it needs none."""
        if self.for_bionic:
            return Libc.BIONIC
        return _first_libc(self.interpreter, self.needed)


class Definition(NamedTuple):
    """One definition of a symbol in .dynsym."""

    version: str | None
    """From Verdef; None for an unversioned definition."""
    version_index: int | None
    """The version index without the hidden bit; None where the object has no DT_VERSYM."""
    hidden: bool
    """Not the default version: only references to this version bind to it."""
    weak: bool
    type: int
    """STT_*, the low four bits of st_info."""
    unique: bool = False
    """STB_GNU_UNIQUE: the whole process uses one definition, in whatever scope it was loaded."""


@frozen(eq=False)
class Exports:
    """The symbols that one object defines for others, and its copies of others' data.

    Equal is only the same value: to compare definitions would read all of them.
    """

    definitions: Mapping[str, tuple[Definition, ...]] = field(
        default_factory=dict[str, tuple[Definition, ...]]
    )
    """By symbol name, in the order of .dynsym."""
    copies: tuple[Undefined, ...] = ()
    """The targets of R_*_COPY relocations: defined here, as copies of a library's symbols."""


def shared_object(abi: Abi, soname: str | None = None, *, osabi: int = 0, flags: int = 0) -> Elf:
    """Return a shared object with nothing but a SONAME."""
    machine, bits, little_endian = abi
    return Elf(
        bits=bits,
        little_endian=little_endian,
        machine=machine,
        osabi=osabi,
        flags=flags,
        type=ElfType.DYN,
        soname=soname,
    )


def without_needed(elf: Elf, names: Collection[str]) -> Elf:
    """Return `elf` without the DT_NEEDED entries `names`, as `ld --as-needed` would write it.

    Their Verneed records go too, since the loader aborts on one whose library is not loaded
    (glibc, `_dl_check_map_versions`), and weak references that had their versions become
    unversioned. A strong reference keeps its version: it shows that the library is used.
    """
    left = [0, *accumulate(name not in names for name in elf.needed)]
    return elf._replace(
        needed=tuple(name for name in elf.needed if name not in names),
        filtees=tuple(f._replace(position=left[f.position]) for f in elf.filtees),
        verneed=tuple(need for need in elf.verneed if need.file not in names),
        undefined=tuple(
            symbol._replace(version=None, file=None)
            if symbol.weak and symbol.file in names
            else symbol
            for symbol in elf.undefined
        ),
    )
