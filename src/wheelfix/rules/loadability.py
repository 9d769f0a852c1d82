"""Whether the loader takes the objects at all: what they ask of it, and what a botched edit leaves.

The loader's words are those of glibc (elf/dl-load.c, elf/dl-reloc.c, elf/dl-version.c) and musl
(ldso/dynlink.c).
"""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from posixpath import normpath

from wheelfix.analysis.policy_reasons import isa_level
from wheelfix.elf.constants import DF_1_PIE, DF_STATIC_TLS, Pt
from wheelfix.elf.model import Elf, Libc, Machine, Segment
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.rule import rule
from wheelfix.wheel.platform_tags import Family, oldest_promised

_PF_X = 1
_HEADER = 64
"""Bytes of an ELF64 header: of fewer the loader says that the file is too short."""
_MODULE = re.compile(r"\.(?:cpython-\d+[a-z]*-[\w-]+|pypy\d+-\w+-[\w-]+|abi3t?)\.so$")
"""The suffixes that only an extension module has (PEP 3149, PEP 384, PEP 803)."""
_STACK_BY_DEFAULT: set[int] = {Machine.X86_64, Machine.I386, Machine.ARM, Machine.S390}
"""Machines on which an object without PT_GNU_STACK wants an executable stack.

DEFAULT_STACK_PERMS in glibc's sysdeps/*/stackinfo.h; AArch64, 64-bit POWER, RISC-V and LoongArch
want none.
"""
_PAGE = 4096
_PAGES: dict[int, tuple[int, str]] = {
    Machine.AARCH64: (0x10000, "64 KiB pages on RHEL 7 and 8, 16 KiB on Raspberry Pi OS and Asahi"),
    Machine.PPC64: (0x10000, "64 KiB pages on RHEL, Debian, Ubuntu and SUSE"),
    Machine.LOONGARCH: (0x4000, "16 KiB pages on most distributions"),
}
"""The largest pages that kernels in use have; other machines of platform tags have 4 KiB."""
_SURPLUS = 1664
"""Bytes of static TLS for all objects opened later: glibc's `_dl_tls_static_surplus_init`."""
_NOT_CONGRUENT = (2, 35)
"""The glibc from which only the system's page size matters, not p_align (glibc bug 28676)."""
_RELR = ((Family.MANYLINUX, Libc.GLIBC, (2, 36)), (Family.MUSLLINUX, Libc.MUSL, (1, 3)))
"""The first platform tags whose every C library knows DT_RELR: glibc 2.36, musl 1.2.4."""
_SHOWN = 4


def _loads(elf: Elf) -> list[Segment]:
    return [segment for segment in elf.segments if segment.type == Pt.LOAD]


def _last(elf: Elf, kind: Pt) -> Segment | None:
    return next((s for s in reversed(elf.segments) if s.type == kind), None)


def _oldest(context: Context, libc: Libc) -> tuple[int, ...] | None:
    return oldest_promised(libc, context.wheel.name.platforms)


def _where_promised(context: Context) -> Severity:
    """An error on what the tags promise glibc for, a warning where nothing is promised."""
    return Severity.ERROR if _oldest(context, Libc.GLIBC) else Severity.WARNING


# --- Files that are no objects --------------------------------------------------------------------


@rule("WF601", "broken-elf", Severity.WARNING)
def broken_elf(context: Context) -> Iterator[Hit]:
    """A file begins like an ELF object and is none that can be loaded.

    ## What it does
    Reports files with ELF's magic number whose headers or tables do not hold together: truncated
    files, a dynamic section or string table that no segment loads. It is an error where an object
    of the wheel needs the file, or Python imports it by its name.

    ## Why is this bad?
    The loader refuses them (`file too short`, `invalid ELF header`,
    `object file has no dynamic section`), or the process dies of SIGBUS on a truncated one.

    ## Example
    A library that was cut off when the disk was full.

    ## Common causes
    - A failed copy in the build. **Solution**: build again.
    - A tool edited the object and lost a table. **Solution**: build again, and strip before
      patchelf, never after it.
    - Test data of a package that reads ELF. **Solution**: ignore the rule.

    ## Fix safety
    Not fixed.
    """
    broken = context.wheel.broken_elfs
    users = _users(context, broken)
    for member, message in broken.items():
        wanted = users.get(member)
        yield Hit(
            message=message,
            member=member,
            severity=Severity.ERROR if wanted else None,
            notes=(wanted,) if wanted else (),
            hint="build the wheel again",
        )


@rule("WF602", "not-elf", Severity.WARNING)
def not_elf(context: Context) -> Iterator[Hit]:
    """A file is named like a shared object, and is something else.

    ## What it does
    Looks at the first bytes of every `*.so` and `*.so.N` that is no ELF object, and says what it
    looks like. It is an error where an object of the wheel needs the file, or Python imports it
    by its name.

    ## Why is this bad?
    The loader ends its search at the first file of the name, whatever is in it: `invalid ELF
    header`, or `file too short` below 64 bytes. A good library further down the search path is
    not reached.

    ## Example
    `pkg/libz.so` with `version https://git-lfs.github.com/spec/v1`.

    ## Common causes
    - Large files were not fetched. **Solution**: `git lfs pull` before the build.
    - A linker script (`GROUP ( libx.so.1 )`) was taken for the library. **Solution**: ship the
      library that it names.
    - A symbolic link became a text file on the way. **Solution**: copy the library itself.

    ## Fix safety
    Not fixed.
    """
    impostors = context.wheel.impostors
    users = _users(context, impostors)
    sizes = {member.name: member.size for member in context.wheel.members}
    for member, what in impostors.items():
        wanted = users.get(member)
        said = "file too short" if sizes.get(member, 0) < _HEADER else "invalid ELF header"
        yield Hit(
            message=f"is named like a shared object, but is {what}: the loader says `{said}`",
            member=member,
            severity=Severity.ERROR if wanted else None,
            notes=(wanted,) if wanted else (),
            hint="ship the library itself, or give the file another name",
        )


def _users(context: Context, members: Iterable[str]) -> dict[str, str]:
    """Return who wants each of some files that are no objects, for those that somebody wants."""
    wanted = {member: "Python imports it" for member in members if _MODULE.search(member)}
    if not members:
        return wanted
    for layout, loads in zip(context.layouts, context.loads, strict=True):
        requests = [r for load in loads.values() for r in load.requests if r.fatal]
        for request in requests:
            member = layout.members.get(normpath(request.candidates[-1].path))
            if member is not None and member in members:
                user = layout.members.get(request.requester or "", request.requester)
                wanted.setdefault(member, f"`{user}` needs it")
    return wanted


# --- What the object asks for ---------------------------------------------------------------------


@rule("WF603", "executable-stack", Severity.ERROR)
def executable_stack(context: Context) -> Iterator[Hit]:
    """An object wants an executable stack, which glibc 2.41 refuses.

    ## What it does
    Reports objects whose PT_GNU_STACK has PF_X. Objects without PT_GNU_STACK want an executable
    stack on x86, 32-bit ARM and s390x, and are reported there; on the other machines they want
    none. For programs, and where the tags promise no glibc, it is less than an error.

    ## Why is this bad?
    From glibc 2.41 on (Debian 13, Ubuntu 25.04, Fedora 42) opening it fails: `cannot enable
    executable stack as shared object requires: Invalid argument`. Earlier ones make the stack of
    the whole process executable, or fail under SELinux, systemd's `MemoryDenyWriteExecute` and
    the like with `Permission denied`. musl does not look; code on the stack crashes there.

    ## Example
    `GNU_STACK 0x000000 … RWE 0x10` in `readelf -lW pkg/_core.so`.

    ## Common causes
    - A source in assembler without `.section .note.GNU-stack,"",@progbits`. **Solution**: add the
      line, or link with `-Wl,-z,noexecstack`.
    - Nested functions in C, or contained procedures passed as arguments in Fortran, whose
      trampolines are on the stack. **Solution**: write them otherwise, or
      `-ftrampoline-impl=heap` (GCC 14).
    - A vendored binary. **Solution**: `patchelf --clear-execstack`, if its code does not need it.

    ## Fix safety
    Not fixed: only who knows the code knows whether it runs code on its stack.
    """
    for member, elf in context.wheel.elfs.items():
        stack = _last(elf, Pt.GNU_STACK)
        if not _loads(elf) or (stack is not None and not stack.flags & _PF_X):
            continue
        if stack is None and elf.machine not in _STACK_BY_DEFAULT:
            continue
        why = "it has no PT_GNU_STACK header" if stack is None else "its PT_GNU_STACK has PF_X"
        yield Hit(
            message=f"wants an executable stack: {why}, and glibc 2.41 and later refuse to open it",
            member=member,
            severity=_stack_severity(context, elf),
            hint="link it with `-Wl,-z,noexecstack`"
            + ("" if stack is None else ", or `patchelf --clear-execstack` it"),
        )


def _stack_severity(context: Context, elf: Elf) -> Severity:
    if elf.is_executable:
        return Severity.WARNING  # allowed to the program itself: glibc.rtld.execstack
    if _oldest(context, Libc.MUSL) and not _oldest(context, Libc.GLIBC):
        return Severity.INFO
    return _where_promised(context)


@rule("WF606", "static-tls", Severity.ERROR)
def static_tls(context: Context) -> Iterator[Hit]:
    """Objects want more static TLS than is left once Python runs.

    ## What it does
    Adds up the thread-local data (PT_TLS) of all objects that one import loads and that have
    DF_STATIC_TLS, and compares it with the 1,664 bytes that glibc sets aside. In a musllinux wheel
    every byte is too much. It is an error if an extension module or what it needs is among them.

    ## Why is this bad?
    Such data must lie beside the program's own, where little room is left, for the libraries of
    all packages together: `cannot allocate memory in static TLS block`. musl has none:
    `initial-exec TLS resolves to dynamic definition`.

    ## Example
    A vendored jemalloc, built with initial-exec TLS of 3 KiB.

    ## Common causes
    - `-ftls-model=initial-exec`, or `__attribute__((tls_model("initial-exec")))`.
      **Solution**: build for the global-dynamic model: jemalloc `--disable-initial-exec-tls`.
    - Code compiled with `-fPIE` or without `-fPIC` in a shared library. **Solution**: `-fPIC`.

    ## Fix safety
    Not fixed: the code itself has the addresses.
    """
    elfs = context.wheel.elfs
    sizes = {member: _static_tls(elf) for member, elf in elfs.items() if _static_tls(elf)}
    if not sizes:
        return
    musl = _oldest(context, Libc.MUSL) is not None and _oldest(context, Libc.GLIBC) is None
    room = 0 if musl else _SURPLUS
    reported: set[frozenset[str]] = set()
    for root, members in _groups(context):
        group = frozenset(member for member in members if member in sizes)
        total = sum(sizes[member] for member in group)
        if total <= room or group in reported:
            continue
        reported.add(group)
        listed = sorted(group, key=lambda member: -sizes[member])
        yield Hit(
            message=f"wants {total:,} bytes of static TLS when opened, where "
            + ("musl has none" if musl else f"glibc has {room:,} for all libraries together"),
            member=listed[0],
            severity=None if elfs[root].module_hooks else Severity.WARNING,
            notes=tuple(f"`{member}`: {sizes[member]:,} bytes" for member in listed[:_SHOWN])
            + (f"opened with `{root}`",) * (root != listed[0]),
            hint="build it with `-fPIC` and without `-ftls-model=initial-exec`",
        )


def _static_tls(elf: Elf) -> int:
    """Return the bytes of static TLS that opening the object takes."""
    tls = _last(elf, Pt.TLS)
    if tls is None or not elf.dt_flags & DF_STATIC_TLS or elf.is_executable:
        return 0
    return tls.memsz


def _groups(context: Context) -> Iterator[tuple[str, list[str]]]:
    """Yield what each object that Python may open loads; modules first."""
    elfs = context.wheel.elfs
    for layout, loads in zip(context.layouts, context.loads, strict=True):
        roots = [root for root in loads if not elfs[root].is_executable]
        for root in sorted(roots, key=lambda root: not elfs[root].module_hooks):
            yield root, [layout.members[o] for o in loads[root].objects if o in layout.members]


@rule("WF607", "packed-relocations", Severity.ERROR)
def packed_relocations(context: Context) -> Iterator[Hit]:
    """An object has packed relocations that the oldest promised C library does not know.

    ## What it does
    Reports objects with DT_RELR in wheels whose tags let them be installed with a glibc before
    2.36 or a musl before 1.2.4. For musllinux_1_2 it is a warning: the image that such wheels are
    built in gives its own libraries DT_RELR, and only Alpine 3.17 and older has such a musl.

    ## Why is this bad?
    glibc refuses with ``version `GLIBC_ABI_DT_RELR' not found``, if the object has that version
    among its needs. Otherwise, and on musl, pointers are left without relocation: the process
    crashes.

    ## Example
    A library linked with `-Wl,-z,pack-relative-relocs` in a `manylinux_2_17` wheel.

    ## Common causes
    - A distribution's or a toolchain's default. **Solution**: `-Wl,-z,nopack-relative-relocs`.

    ## Fix safety
    Not fixed: the relocations would need more room.
    """
    unaware = {
        f"{family}_{oldest[0]}_{oldest[1]}"
        for family, libc, first in _RELR
        if (oldest := _oldest(context, libc)) is not None and oldest < first
    }
    mild = set(unaware) == {"musllinux_1_2"}
    for member, elf in context.wheel.elfs.items():
        static = elf.dt_flags_1 & DF_1_PIE and elf.interpreter is None  # it relocates itself
        if unaware and elf.relr and not static:
            yield Hit(
                message="has packed relocations (DT_RELR), which a C library of "
                f"{' and '.join(unaware)} need not know",
                member=member,
                severity=Severity.WARNING if mild else None,
                hint="link it with `-Wl,-z,nopack-relative-relocs`",
            )


@rule("WF608", "isa-level", Severity.ERROR)
def isa(context: Context) -> Iterator[Hit]:
    """An object says that it needs a newer processor than the platform tag promises.

    ## What it does
    Reads the x86 ISA level needed from the note `.note.gnu.property`. Objects below a
    `glibc-hwcaps` directory are left out: the loader chooses among those by the processor. It is a
    warning with `isa-ext-check = false`, and where the tags promise nothing.

    ## Why is this bad?
    From glibc 2.33 on the loader refuses: `CPU ISA level is lower than required`. Elsewhere the
    process dies of an illegal instruction.

    ## Example
    `Properties: x86 ISA needed: x86-64-v3` in `readelf -n`.

    ## Common causes
    - `-march=x86-64-v3 -mneeded`, or `-Wl,-z,x86-64-v3`. **Solution**: build for the baseline and
      choose fast functions at run time; or ship it under `glibc-hwcaps/x86-64-v3/`.

    ## Fix safety
    Not fixed.
    """
    for member, elf in context.wheel.elfs.items():
        level = isa_level(elf)
        if level is None or "glibc-hwcaps" in member.split("/"):
            continue
        yield Hit(
            message=f"needs a processor of {level}, more than the platform tag promises",
            member=member,
            severity=None
            if context.settings.isa_ext_check and _oldest(context, Libc.GLIBC)
            else Severity.WARNING,
            hint="build it without `-march` and `-z x86-64-v…`, or ship it below"
            f" `glibc-hwcaps/{level}/`",
        )


# --- Segments -------------------------------------------------------------------------------------


@rule("WF604", "misaligned-segment", Severity.ERROR)
def misaligned_segment(context: Context) -> Iterator[Hit]:
    """A segment does not lie in the file as its alignment says.

    ## What it does
    Compares file offset and address of each PT_LOAD segment, modulo the page size and modulo
    p_align. What only glibc before 2.35 minds is reported where the tags promise such a one.

    ## Why is this bad?
    `ELF load command address/offset not page-aligned`; before glibc 2.35 also `ELF load command
    address/offset not properly aligned` and `ELF load command alignment not page-aligned`.

    ## Example
    `LOAD 0x005000 0x0000000000408000 … RW 0x200000`

    ## Common causes
    - patchelf 0.18.0 on a library with an alignment above a page (NixOS/patchelf 492, 528).
      **Solution**: patchelf 0.19 or newer.
    - `strip` or `objcopy` after patchelf (pypa/auditwheel 716). **Solution**: strip first.

    ## Fix safety
    Not fixed: the contents would have to move. Build the object again.
    """
    glibc = _oldest(context, Libc.GLIBC)
    old = glibc is not None and glibc < _NOT_CONGRUENT
    for member, elf in context.wheel.elfs.items():
        for load in _loads(elf):
            words = _misalignment(load, old=old and not elf.is_executable)
            if words is not None:
                yield Hit(
                    message=f"the segment for address {load.vaddr:#x} lies at offset"
                    f" {load.offset:#x}, aligned to {load.align:#x}: `{words}`",
                    member=member,
                    hint="build the object again; strip before patchelf, and use patchelf 0.19",
                )
                break


def _misalignment(load: Segment, *, old: bool) -> str | None:
    """Return the loader's words; `old` is glibc before 2.35."""
    shift = load.vaddr - load.offset
    if shift % _PAGE:
        return "ELF load command address/offset not page-aligned"
    if old and load.align % _PAGE:
        return "ELF load command alignment not page-aligned"
    if old and load.align and shift % load.align:
        return "ELF load command address/offset not properly aligned"
    return None


@rule("WF605", "small-alignment", Severity.ERROR)
def small_alignment(context: Context) -> Iterator[Hit]:
    """An object is linked for smaller pages than kernels of its machine have.

    ## What it does
    Reports AArch64 and POWER objects whose segments fit pages of less than 64 KiB, and LoongArch
    ones of less than 16 KiB. Other machines of platform tags have 4 KiB pages. Without a manylinux
    tag it is a warning.

    ## Why is this bad?
    On such kernels opening it fails: `ELF load command address/offset not page-aligned` or `ELF
    load command alignment not page-aligned` (pypa/auditwheel 251).

    ## Example
    An AArch64 library linked with `-Wl,-z,max-page-size=4096`.

    ## Common causes
    - `-z max-page-size` or `common-page-size` in the flags, for smaller files. **Solution**: leave
      it out: linkers choose 64 KiB by themselves.
    - Rust, Go or Zig with a linker of their own. **Solution**:
      `-C link-arg=-Wl,-z,max-page-size=65536`.
    - patchelf before 0.18 run on another machine. **Solution**: `--page-size 65536`.

    ## Fix safety
    Not fixed: only the linker can lay the segments out anew.
    """
    for member, elf in context.wheel.elfs.items():
        wanted, where = _PAGES.get(elf.machine, (0, ""))
        pages = min((_pages(load) for load in _loads(elf)), default=wanted)
        if pages >= wanted or pages < _PAGE:
            continue  # what fits no page at all is WF604's
        yield Hit(
            message=f"is linked for pages of at most {pages // 1024} KiB, where kernels have up to"
            f" {wanted // 1024} KiB",
            member=member,
            severity=_where_promised(context),
            notes=(where,),
            hint=f"link it with `-Wl,-z,max-page-size={wanted}`",
        )


def _pages(load: Segment) -> int:
    """Return the largest page size that the segment can be mapped with."""
    shift = load.vaddr - load.offset
    return min(load.align, shift & -shift) if shift else load.align


@rule("WF609", "disordered-segments", Severity.ERROR)
def disordered_segments(context: Context) -> Iterator[Hit]:
    """The segments of an object overlap, are out of order, or lack what lies in them.

    ## What it does
    Reports PT_LOAD segments that do not ascend by address or overlap in memory (gABI chapter 5,
    "Program Header"), and PT_DYNAMIC, PT_TLS or PT_GNU_RELRO that begin outside of all of them.

    ## Why is this bad?
    The loader reserves memory from the first segment to the last one: `failed to map segment from
    shared object`, or one segment overwrites another and the process crashes.

    ## Example
    `LOAD 0x002e08 0x0000000000003e08 …` before `LOAD 0x000000 0x0000000000000000 …`

    ## Common causes
    - A tool added a segment, or moved one, and did not keep them in order. **Solution**: build the
      object again, and edit it with another version of the tool.

    ## Fix safety
    Not fixed.
    """
    for member, elf in context.wheel.elfs.items():
        if not elf.dynamic or not elf.segments:
            continue
        fault = next(_disorder(elf), None)
        if fault is not None:
            yield Hit(message=fault, member=member, hint="build the object again")


def _disorder(elf: Elf) -> Iterator[str]:
    loads = _loads(elf)
    if not loads:
        yield "no segment is loaded: `object file has no loadable segments`"
        return
    for first, second in pairwise(loads):
        if first.vaddr > second.vaddr:
            yield f"the segments for {first.vaddr:#x} and {second.vaddr:#x} are out of order"
        elif first.vaddr + first.memsz > second.vaddr:
            yield f"the segments for {first.vaddr:#x} and {second.vaddr:#x} overlap"
    for kind in (Pt.DYNAMIC, Pt.TLS, Pt.GNU_RELRO):
        part = _last(elf, kind)
        if part is None or not part.memsz:
            continue
        if not any(load.vaddr <= part.vaddr <= load.vaddr + load.memsz for load in loads):
            yield f"PT_{kind.name} at {part.vaddr:#x} lies in no segment that is loaded"


@rule("WF610", "no-hash-table", Severity.WARNING)
def no_hash_table(context: Context) -> Iterator[Hit]:
    """An object has symbols that nobody can look up.

    ## What it does
    Reports shared objects with a symbol table and neither DT_HASH nor DT_GNU_HASH. It is an error
    for extension modules.

    ## Why is this bad?
    The loader finds symbols by these tables alone: all that the object defines is missing, its
    module's init function too (`dynamic module does not define module export function`).

    ## Example
    An object without a `.gnu.hash` section after a tool has rewritten its dynamic section.

    ## Common causes
    - A tool removed the section. **Solution**: build the object again.

    ## Fix safety
    Not fixed.
    """
    for member, elf in context.wheel.elfs.items():
        if elf.dynamic and not elf.hashed and not elf.is_executable:
            yield Hit(
                message="has symbols, and no hash table by which the loader could find them",
                member=member,
                severity=Severity.ERROR if elf.module_hooks or _MODULE.search(member) else None,
                hint="build the object again",
            )


RULES = (
    broken_elf,
    not_elf,
    executable_stack,
    misaligned_segment,
    small_alignment,
    static_tls,
    packed_relocations,
    isa,
    disordered_segments,
    no_hash_table,
)
