"""What one ELF object says of itself, as frozen values.

Names follow the gABI (System V Application Binary Interface, chapters 4 and 5) and the GNU
extensions described in the LSB core specification.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import NamedTuple


class ElfType(IntEnum):
    """`e_type`, gABI chapter 4, "ELF Header"."""

    NONE = 0
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


class PathTag(StrEnum):
    """The dynamic tag that carries the search path."""

    RPATH = "DT_RPATH"
    RUNPATH = "DT_RUNPATH"


class Segment(NamedTuple):
    """One program header; offsets, addresses and sizes in bytes."""

    type: int
    flags: int
    offset: int
    vaddr: int
    filesz: int
    memsz: int
    align: int


class VersionNeed(NamedTuple):
    """One Verneed record: versions that the object wants from `file`, in file order."""

    file: str
    versions: tuple[str, ...]


class Undefined(NamedTuple):
    """One undefined entry of .dynsym: a symbol that another object must define.

    A tuple, since a wheel has ten thousands.
    """

    name: str
    version: str | None
    """The version asked for, from Vernaux; None for an unversioned reference."""
    file: str | None
    """The library that the static linker took it from: vn_file of its Verneed record."""
    type: int
    """STT_*, the low four bits of st_info."""
    weak: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Elf:
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
    segments: tuple[Segment, ...] = ()
    interpreter: str | None = None
    """PT_INTERP, on executables."""
    dynamic: bool = True
    """Whether there is a PT_DYNAMIC at all: a static executable or a `.o` has none."""
    soname: str | None = None
    needed: tuple[str, ...] = ()
    """DT_NEEDED, in link order, duplicates included."""
    rpath: str | None = None
    """DT_RPATH as written; the empty string is a tag with an empty value."""
    runpath: str | None = None
    verneed: tuple[VersionNeed, ...] = ()
    verdef: tuple[str, ...] = ()
    """Versions that the object defines, the base version (its own name) left out."""
    undefined: tuple[Undefined, ...] = ()
    module_hooks: tuple[str, ...] = ()
    """Defined functions that CPython or cffi look up: `PyInit_x`, `PyInitU_x`, `initx`, ..."""
    gnu_properties: bytes = b""
    """The raw NT_GNU_PROPERTY_TYPE_0 descriptor (x86 ISA level), empty where there is none."""
    dlopen_notes: tuple[str, ...] = ()
    """What the object says that it opens by name, as JSON (FDO ".note.dlopen" specification)."""
    dt_flags: int = 0
    """DT_FLAGS, with DT_SYMBOLIC, DT_TEXTREL and DT_BIND_NOW folded in, as glibc does."""
    dt_flags_1: int = 0
    has_init: bool = False
    """Whether there is a DT_INIT: then the first entry of DT_INIT_ARRAY is the compiler's own."""
    init_array: int = 0
    """Number of entries in DT_INIT_ARRAY."""
    versym_alone: bool = False
    """Whether there is a DT_VERSYM, and neither DT_VERNEED nor DT_VERDEF to give it a meaning."""
    symtab: bool = False
    """Whether there is a .symtab, which only linkers and debuggers read: `strip -s` removes it."""
    relr: bool = False
    """Whether it has packed relative relocations (DT_RELR)."""
    hashed: bool = True
    """Whether its symbols can be looked up: DT_HASH or DT_GNU_HASH, or no symbols at all."""
    unique_symbols: int = 0
    """Number of its STB_GNU_UNIQUE symbols, of which a process has one for each name."""
    symtab_size: int = 0
    """Bytes of .symtab and of its string table."""
    debug_size: int = 0
    """Bytes of the sections that only debuggers read: `.debug_*` (DWARF 5, appendix G) and kin."""

    @property
    def has_constructors(self) -> bool:
        """Whether code of its own runs when it is loaded, besides the compiler's crt file."""
        return self.init_array > (1 if self.has_init else 0)

    @property
    def search_path(self) -> str | None:
        """The search path that glibc honours: DT_RUNPATH hides DT_RPATH (ld.so(8))."""
        return self.runpath if self.runpath is not None else self.rpath

    @property
    def path_tag(self) -> PathTag | None:
        """The tag of `search_path`."""
        if self.runpath is not None:
            return PathTag.RUNPATH
        return PathTag.RPATH if self.rpath is not None else None

    @property
    def entries(self) -> tuple[str, ...]:
        """The elements of the search path, split at `:` as glibc's `decompose_rpath` does."""
        path = self.search_path
        return tuple(path.split(":")) if path else ()

    @property
    def is_executable(self) -> bool:
        """Whether the kernel can start it: ET_EXEC, or ET_DYN with an interpreter (PIE)."""
        return self.type == ElfType.EXEC or self.interpreter is not None

    @property
    def libc(self) -> Libc | None:
        """The C library it asks for, by interpreter or DT_NEEDED; None where it asks for none."""
        for name in (self.interpreter or "", *self.needed):
            base = name.rpartition("/")[2]
            if base.startswith(("ld-musl-", "libc.musl-")) or base == "libc.so":
                return Libc.MUSL
            if base == "libc.so.6" or base.startswith(("ld-linux", "ld64.so")):
                return Libc.GLIBC
        return None


class Definition(NamedTuple):
    """One definition of a symbol in .dynsym; a library has thousands, with few different values."""

    version: str | None
    """From Verdef; None for an unversioned definition."""
    version_index: int | None
    """The version index without the hidden bit; None where the object has no DT_VERSYM."""
    hidden: bool
    """Not the default version: only references that ask for it by version bind to it."""
    weak: bool
    type: int
    """STT_*, the low four bits of st_info."""
    unique: bool = False
    """STB_GNU_UNIQUE: one definition serves the whole process, whatever group it came with."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Exports:
    """What one object offers to others, and the copies that it made of others' data."""

    definitions: Mapping[str, tuple[Definition, ...]] = field(
        default_factory=dict[str, tuple[Definition, ...]]
    )
    """By symbol name, in the order of .dynsym."""
    copies: tuple[Undefined, ...] = ()
    """The targets of R_*_COPY relocations: defined here, but they stand for a library's symbol."""
    plt_entries: Mapping[str, tuple[Definition, ...]] = field(
        default_factory=dict[str, tuple[Definition, ...]]
    )
    """Functions of others whose address is that of the PLT entry here: undefined, with a value."""
