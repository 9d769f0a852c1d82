"""Constants of the ELF format, under the names of the gABI and of its GNU extensions."""

from enum import IntEnum

from wheelfix.elf.model import Machine

MAGIC = b"\x7fELF"
MODULE_HOOKS = ("PyInit_", "PyInitU_", "PyModExport_", "PyModExportU_", "_cffi_pypyinit_")
"""How the names of functions begin that make an object an extension module (PEP 489, PEP 793)."""
EV_CURRENT = 1
EM_ALPHA = 0x9026
PN_XNUM = 0xFFFF
"""`e_phnum` of a file with more program headers than fit into it."""
NT_GNU_BUILD_ID = 3
NT_GNU_PROPERTY_TYPE_0 = 5
NT_DLOPEN = 0x407C0C0A
NT_ANDROID_IDENT = 1
"""`.note.dlopen`, uapi-group.org, "dlopen() Metadata for ELF Files"."""


class Pt(IntEnum):
    """`p_type`, gABI chapter 5, "Program Header", and the GNU ones."""

    NULL = 0
    LOAD = 1
    DYNAMIC = 2
    INTERP = 3
    NOTE = 4
    PHDR = 6
    TLS = 7
    GNU_EH_FRAME = 0x6474E550
    GNU_STACK = 0x6474E551
    GNU_RELRO = 0x6474E552
    GNU_PROPERTY = 0x6474E553
    GNU_SFRAME = 0x6474E554


class Sht(IntEnum):
    """`sh_type`, gABI chapter 4, "Sections"."""

    NULL = 0
    PROGBITS = 1
    SYMTAB = 2
    STRTAB = 3
    RELA = 4
    HASH = 5
    DYNAMIC = 6
    NOTE = 7
    NOBITS = 8
    REL = 9
    DYNSYM = 11
    SYMTAB_SHNDX = 18
    GNU_HASH = 0x6FFFFFF6
    GNU_VERDEF = 0x6FFFFFFD
    GNU_VERNEED = 0x6FFFFFFE
    GNU_VERSYM = 0x6FFFFFFF


class Dt(IntEnum):
    """`d_tag`, gABI chapter 5, "Dynamic Section", and the GNU ones."""

    NULL = 0
    NEEDED = 1
    PLTRELSZ = 2
    PLTGOT = 3
    HASH = 4
    STRTAB = 5
    SYMTAB = 6
    RELA = 7
    RELASZ = 8
    STRSZ = 10
    SYMENT = 11
    INIT = 12
    FINI = 13
    SONAME = 14
    RPATH = 15
    SYMBOLIC = 16
    REL = 17
    RELSZ = 18
    PLTREL = 20
    TEXTREL = 22
    JMPREL = 23
    BIND_NOW = 24
    INIT_ARRAY = 25
    FINI_ARRAY = 26
    INIT_ARRAYSZ = 27
    FINI_ARRAYSZ = 28
    RUNPATH = 29
    FLAGS = 30
    PREINIT_ARRAY = 32
    PREINIT_ARRAYSZ = 33
    RELRSZ = 35
    RELR = 36
    GNU_HASH = 0x6FFFFEF5
    GNU_LIBLIST = 0x6FFFFEF9
    CONFIG = 0x6FFFFEFA
    DEPAUDIT = 0x6FFFFEFB
    AUDIT = 0x6FFFFEFC
    VERSYM = 0x6FFFFFF0
    FLAGS_1 = 0x6FFFFFFB
    VERDEF = 0x6FFFFFFC
    VERNEED = 0x6FFFFFFE
    VERNEEDNUM = 0x6FFFFFFF
    AUXILIARY = 0x7FFFFFFD
    FILTER = 0x7FFFFFFF


TABLE_TAGS = frozenset(
    {
        Dt.STRTAB,
        Dt.SYMTAB,
        Dt.HASH,
        Dt.GNU_HASH,
        Dt.VERSYM,
        Dt.VERNEED,
        Dt.VERDEF,
        Dt.RELA,
        Dt.REL,
        Dt.JMPREL,
        Dt.RELR,
    }
)
"""Tags whose values are addresses of tables that only `.dynamic` refers to: these may move."""

STRING_TAGS = frozenset(
    {
        Dt.NEEDED,
        Dt.SONAME,
        Dt.RPATH,
        Dt.RUNPATH,
        Dt.CONFIG,
        Dt.DEPAUDIT,
        Dt.AUDIT,
        Dt.AUXILIARY,
        Dt.FILTER,
    }
)
"""Tags whose values are offsets into .dynstr."""

VERSION_TAGS: dict[int, Dt] = {Sht.GNU_VERNEED: Dt.VERNEED, Sht.GNU_VERSYM: Dt.VERSYM}
"""The tag of each table that may go with the last needed version, by section type."""
VERSION_RECORD = 16
"""Bytes of an Elf_Verneed and of an Elf_Vernaux record, in both classes (LSB core, 10.7.2)."""

SHF_WRITE = 1
SHF_ALLOC = 2
SHF_EXECINSTR = 4
SHF_INFO_LINK = 1 << 6
SHF_TLS = 1 << 10

DEBUG_LINK = b".gnu_debuglink"
"""Name of the section that leads to a debug file (gdb, "Separate Debug Files")."""

SHN_ABS = 0xFFF1
SHN_XINDEX = 0xFFFF
SHN_LORESERVE = 0xFF00

STB_LOCAL = 0
STB_GLOBAL = 1
STB_WEAK = 2
STB_GNU_UNIQUE = 10

STT_NOTYPE = 0
STT_OBJECT = 1
STT_FUNC = 2
STT_COMMON = 5
STT_TLS = 6
STT_GNU_IFUNC = 10

STV_DEFAULT = 0
STV_PROTECTED = 3

VER_NDX_GLOBAL = 1
VERSYM_HIDDEN = 0x8000
VERSYM_INDEX = 0x7FFF
"""The bits of a DT_VERSYM entry without VERSYM_HIDDEN."""
VER_FLG_BASE = 1
VER_FLG_WEAK = 2

DF_SYMBOLIC = 2
DF_TEXTREL = 4
DF_BIND_NOW = 8
DF_STATIC_TLS = 0x10
DF_1_NOW = 1
DF_1_NODEFLIB = 0x800

PF_X = 1
PF_W = 2
PF_R = 4

R_COPY: dict[int, int] = {
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
R_AARCH64_TLS_TPREL = 1030
"""The offset of thread data from the thread pointer."""
R_TLSDESC: dict[int, int] = {Machine.X86_64: 36, Machine.AARCH64: 1031}
"""Descriptors of thread data, which may lie anywhere, but are faster beside the program's."""
