"""Whether the loader accepts the objects: file format, segments, and required features.

The quoted error messages are those of glibc (elf/dl-load.c, elf/dl-reloc.c, elf/dl-version.c) and
musl (ldso/dynlink.c).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from posixpath import basename, normpath

from wheelfix.analysis.policy_reasons import isa_level
from wheelfix.elf.constants import Pt
from wheelfix.elf.image import last_of, loads_among
from wheelfix.elf.machine_page_sizes import SMALLEST_PAGE
from wheelfix.elf.model import DF_1_PIE, Elf, Libc, Segment
from wheelfix.grouping import flatten
from wheelfix.loader.loader_demands import page_sizes
from wheelfix.loader.platform_libraries import FIRST_RELR, RELR_SINCE, RELR_VERSION
from wheelfix.loader.python_api import MODULE_SUFFIX
from wheelfix.loader.static_tls import SURPLUS, fits, required_bytes
from wheelfix.loader.symbol_versions import newer
from wheelfix.loader.targets import Target
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Hit, Severity, other_members
from wheelfix.rules.rule import rule
from wheelfix.text import count
from wheelfix.wheel.file_likeness import LINKER_SCRIPT
from wheelfix.wheel.platform_tags import FAMILIES, has_local_tag, oldest_promised, only_promised
from wheelfix.wheel.variant import promised_isa

_HEADER = 64
"""Bytes of an ELF64 header; the loader calls shorter files "too short"."""
_NOT_CONGRUENT = (2, 35)
"""The glibc from which only the system's page size matters, not p_align (glibc bug 28676)."""
_SHOWN = 4


def _oldest(context: Context, libc: Libc) -> tuple[int, ...] | None:
    return oldest_promised(libc, context.wheel.name.platforms)


def severity_by_promise(context: Context) -> Severity:
    """Return error if the tags promise glibc, or a repair makes them do so, and else warning."""
    platforms = context.wheel.name.platforms
    will = context.settings.update_tags and has_local_tag(platforms)
    is_promised = _oldest(context, Libc.GLIBC) or (will and context.wheel.libc is Libc.GLIBC)
    return Severity.ERROR if is_promised else Severity.WARNING


@rule("WF601", "broken-elf", Severity.WARNING)
def broken_elf(context: Context) -> Iterator[Hit]:
    """Corrupt or truncated ELF file.

    ## What it does
    Reports files with the ELF magic number and inconsistent headers or tables: truncated files, a
    dynamic section or string table that no segment loads. It is an error if an object of the wheel
    needs the file, or if Python imports it as a module.

    ## Why is this bad?
    The loader refuses them (`file too short`, `invalid ELF header`, `object file has no dynamic
    section`), or the process crashes with SIGBUS on a truncated one.

    ## Example
    A library that was truncated because the disk was full.

    ## Common causes
    - A failed copy in the build. **Solution**: build again.
    - A tool edited the object and lost a table. **Solution**: build again; run strip before
      patchelf, never after it.
    - Test data of a package that reads ELF. **Solution**: ignore the rule.

    ## Fix safety
    Not fixed.
    """
    yield from _refusals(context, context.wheel.broken_elfs, "build the wheel again")


@rule("WF602", "not-elf", Severity.WARNING)
def not_elf(context: Context) -> Iterator[Hit]:
    """Shared object is not an ELF file: invalid ELF header.

    ## What it does
    Checks the first bytes of every `*.so` and `*.so.N`, and reports what files other than ELF look
    like. It is an error if an object of the wheel needs the file, or if Python imports it as a
    module; it is for information if a linker script, which the linker reads as `libx.so`, lies
    beside a `libx.so.N`.

    ## Why is this bad?
    The loader stops at the first file of the name, whatever its content: `invalid ELF header`, or
    `file too short` below 64 bytes. A correct library later in the search path is not found.

    ## Example
    `pkg/libz.so` with the content `version https://git-lfs.github.com/spec/v1`.

    ## Common causes
    - Git LFS files were not fetched. **Solution**: `git lfs pull` before the build.
    - A linker script (`GROUP ( libx.so.1 )`) was mistaken for the library. **Solution**: ship the
      library that it names.
    - A symbolic link was converted to a text file. **Solution**: copy the library itself.

    ## Fix safety
    Not fixed.
    """
    sizes = context.wheel.sizes
    for_linkers = {member.partition(".so.")[0] + ".so" for member in context.wheel.elfs}
    for_linkers -= {m for m, what in context.wheel.impostors.items() if what != LINKER_SCRIPT}
    messages: dict[str, str] = {}
    for member, what in context.wheel.impostors.items():
        said = "file too short" if sizes.get(member, 0) < _HEADER else "invalid ELF header"
        messages[member] = (
            f"is named like a shared object, but is {what}: the loader reports `{said}`"
        )
    hint = "ship the library itself, or give the file another name"
    for hit in _refusals(context, messages, hint):
        is_for_linkers = not hit.severity and hit.member in for_linkers
        yield replace(hit, severity=Severity.NOTE) if is_for_linkers else hit


def _refusals(context: Context, messages: Mapping[str, str], hint: str) -> Iterator[Hit]:
    """Report members that the loader refuses: as errors if something needs them."""
    dependents = _dependents(context, messages)
    for member, message in messages.items():
        wanted = dependents.get(member)
        yield Hit(
            message=message,
            member=member,
            severity=Severity.ERROR if wanted else None,
            notes=(wanted,) if wanted else (),
            hint=hint,
        )


def _dependents(context: Context, members: Iterable[str]) -> dict[str, str]:
    """Return what needs each of `members`, for those that something needs."""
    wanted = {member: "Python imports it" for member in members if MODULE_SUFFIX.search(member)}
    if not members:
        return wanted
    for world in context.worlds:
        requests = [r for r in flatten(load.requests for load in world.loads.values()) if r.fatal]
        for request in requests:
            member = world.members.get(normpath(request.candidates[-1].path))
            if member is not None and member in members:
                dependent = world.members.get(request.requester or "", request.requester)
                wanted.setdefault(member, f"`{dependent}` needs it")
    return wanted


@rule("WF606", "static-tls", Severity.ERROR)
def static_tls(context: Context) -> Iterator[Hit]:
    """Too much static TLS: cannot allocate memory in static TLS block.

    ## What it does
    Adds up the thread-local data (PT_TLS) of all objects with DF_STATIC_TLS that one import loads,
    and compares it with the 1,664 bytes that glibc reserves and rounds up. musl reserves none, so
    any such data is too much, always an error. For glibc, it is one if an extension module loads
    them. On ARM64, where GNU ld does not set the flag, relocations tell. A library that defines
    `malloc` and that no other object needs is left out: it is made for LD_PRELOAD, which has room
    for it.

    ## Why is this bad?
    Such data must be allocated next to that of the program, in a small area shared by the libraries
    of all packages: `cannot allocate memory in static TLS block`. musl has no such area:
    `initial-exec TLS resolves to dynamic definition`.

    ## Example
    A bundled jemalloc, built with 3 KiB of initial-exec TLS.

    ## Common causes
    - `-ftls-model=initial-exec`, or `__attribute__((tls_model("initial-exec")))`. **Solution**:
      build for the global-dynamic model; for jemalloc, `--disable-initial-exec-tls`.
    - Code compiled with `-fPIE` or without `-fPIC` in a shared library. **Solution**: `-fPIC`.

    ## Fix safety
    Not fixed: the machine code depends on the TLS model.
    """
    elfs = context.wheel.elfs
    sizes = {member: size for member, elf in elfs.items() if (size := required_bytes(elf))}
    if not sizes:
        return
    musl = Libc.GLIBC not in {context.wheel.libc, only_promised(context.wheel.name.platforms)}
    reported: set[frozenset[str]] = set()
    for root, members in _groups(context):
        group = frozenset(member for member in members if member in sizes)
        total = sum(sizes[member] for member in group)
        has_room = not total if musl else fits(total)
        if has_room or group in reported or _is_preloaded(context, root):
            continue
        reported.add(group)
        listed = sorted(group, key=lambda member: (-sizes[member], member))
        yield Hit(
            message=f"requires {count(total, 'byte')} of static TLS, but "
            + (
                "musl has none"
                if musl
                else f"glibc has only {SURPLUS:,} for all libraries together"
            ),
            member=listed[0],
            # musl always refuses it; of glibc's room another process has enough.
            severity=None if musl or elfs[root].module_hooks else Severity.WARNING,
            notes=tuple(f"`{member}`: {count(sizes[member], 'byte')}" for member in listed[:_SHOWN])
            + (f"loaded by `{root}`",) * (root != listed[0]),
            hint="build it with `-fPIC` and without `-ftls-model=initial-exec`",
        )


def _is_preloaded(context: Context, root: str) -> bool:
    """Return whether a library is made for LD_PRELOAD: it replaces `malloc`, and none needs it."""
    elf = context.wheel.elfs[root]
    if elf.module_hooks or (elf.soname or basename(root)) in context.dependents:
        return False
    read = context.definitions.reader(root) if context.definitions else None
    return read is not None and "malloc" in read().definitions


def _groups(context: Context) -> Iterator[tuple[str, list[str]]]:
    """Yield each object that Python may open, with the members that it loads; modules first."""
    elfs = context.wheel.elfs
    for world in context.worlds:
        loads, members = world.loads, world.members
        roots = [root for root in loads if not elfs[root].is_executable]
        for root in sorted(roots, key=lambda root: not elfs[root].module_hooks):
            yield root, [members[o] for o in loads[root].objects if o in members]


_PACKED = "has packed relocations (DT_RELR)"
_UNPACK = "link it with `-Wl,-z,nopack-relative-relocs`"
_MUSL_MINOR = RELR_SINCE[Libc.MUSL].rpartition(".")[0]
"""The minor version of musl that knows DT_RELR only from a later release on."""
_SOME_WITHOUT = [f"{FAMILIES[Libc.MUSL]}_{_MUSL_MINOR.replace('.', '_')}"]


@rule("WF607", "packed-relocations", Severity.ERROR)
def packed_relocations(context: Context) -> Iterator[Hit]:
    """Packed relocations (DT_RELR) need a newer C library than the tag promises.

    ## What it does
    Reports objects with DT_RELR in wheels whose tags allow a glibc before 2.36 or a musl before
    1.2.4, and those that no newer glibc loads. For musllinux_1_2 it is one note: libraries of the
    musllinux_1_2 image itself have DT_RELR, and only Alpine 3.17 and older have such a musl. With
    such a `target` (`musl:1.2.3`) it is a warning.

    ## Why is this bad?
    glibc refuses the object with ``version `GLIBC_ABI_DT_RELR' not found``, if it requires that
    version. Otherwise, and with musl, which skips what it does not know, pointers are not relocated
    and the process crashes. An object that requires other versions and libc.so.6 but not that
    version is refused by glibc 2.36 and newer, too: `DT_RELR without GLIBC_ABI_DT_RELR dependency`.

    ## Example
    A library linked with `-Wl,-z,pack-relative-relocs` in a `manylinux_2_17` wheel.

    ## Common causes
    - The default of a distribution or toolchain. **Solution**: `-Wl,-z,nopack-relative-relocs`.

    ## Fix safety
    Not fixed: unpacked relocations need more space in the file.
    """
    unaware = [
        f"{FAMILIES[libc]}_{oldest[0]}_{oldest[1]}"
        for libc, first in FIRST_RELR.items()
        if (oldest := _oldest(context, libc)) is not None and oldest < first
    ]
    asked = any(_is_musl_without_relr(target) for target in context.targets)
    if unaware == _SOME_WITHOUT and not asked:
        packed = [member for member, elf in context.wheel.elfs.items() if _needs_relr(elf)]
        if packed:
            yield Hit(
                message=f"{_PACKED}, which musl before {RELR_SINCE[Libc.MUSL]} (Alpine 3.17 and "
                "older) skips: there it crashes",
                member=packed[0],
                notes=other_members(packed),
                severity=Severity.NOTE,
                hint=f"{_UNPACK} if it is for such machines",
            )
        unaware = []
    for member, elf in context.wheel.elfs.items():
        if _oldest(context, Libc.GLIBC) and _lacks_relr_version(elf):
            yield Hit(
                message=f"{_PACKED} and does not need the version `{RELR_VERSION}` of libc.so.6: "
                f"glibc {RELR_SINCE[Libc.GLIBC]} and newer do not load it",
                member=member,
                hint=f"{_UNPACK}, or with another linker",
            )
        elif unaware and _needs_relr(elf):
            yield Hit(
                message=f"{_PACKED}, which the C library of {' and '.join(unaware)} may not "
                "support",
                member=member,
                severity=Severity.WARNING if unaware == _SOME_WITHOUT else None,
                hint=_UNPACK,
            )


def _needs_relr(elf: Elf) -> bool:
    relocates_itself = elf.dt_flags_1 & DF_1_PIE and elf.interpreter is None
    return elf.relr and not relocates_itself


def _is_musl_without_relr(target: Target) -> bool:
    """Return whether a target is a musl without DT_RELR; `1.2` is not known to be."""
    version = target.versions.get("MUSL", "")
    return version != _MUSL_MINOR and newer(RELR_SINCE[Libc.MUSL], version)


def _lacks_relr_version(elf: Elf) -> bool:
    """Return whether glibc refuses the object (elf/dl-version.c, _dl_check_map_versions)."""
    versions = flatten(need.versions for need in elf.verneed)
    needs_libc = any(name.startswith("libc.so.") for name in elf.needed)
    return elf.relr and bool(elf.verneed) and needs_libc and RELR_VERSION not in versions


@rule("WF608", "isa-level", Severity.ERROR)
def isa(context: Context) -> Iterator[Hit]:
    """Object requires a newer x86-64 ISA level than the platform tag promises.

    ## What it does
    Reads the required x86 ISA level from the note `.note.gnu.property`. Objects below a
    `glibc-hwcaps` directory are left out: the loader selects among those by the processor. So are
    those of a variant wheel whose property `x86_64 :: level` promises the level (PEP 825). It is a
    warning with `isa-ext-check = false`, and if the tags promise nothing.

    ## Why is this bad?
    With glibc 2.33 and later, the loader refuses the object: `CPU ISA level is lower than
    required`. Otherwise the process crashes with an illegal instruction.

    ## Example
    `Properties: x86 ISA needed: x86-64-v3` in `readelf -n`.

    ## Common causes
    - `-march=x86-64-v3 -mneeded`, or `-Wl,-z,x86-64-v3`. **Solution**: build for the baseline and
      select fast functions at run time. A library that others need may be there a second time,
      below `glibc-hwcaps/x86-64-v3/` beside the one for the baseline.

    ## Fix safety
    Not fixed.
    """
    promised = promised_isa(context.wheel)
    for member, elf in context.wheel.elfs.items():
        level = isa_level(elf)
        if level is None or level <= (promised or "") or "glibc-hwcaps" in member.split("/"):
            continue
        what = f"variant label, {promised}," if promised else "platform tag"
        yield Hit(
            message=f"requires a processor of {level}, more than the {what} promises",
            member=member,
            severity=None
            if context.settings.isa_ext_check and _oldest(context, Libc.GLIBC)
            else Severity.WARNING,
            hint="build it without `-march` and `-z x86-64-v…`",
        )


@rule("WF604", "misaligned-segment", Severity.ERROR)
def misaligned_segment(context: Context) -> Iterator[Hit]:
    """Misaligned segment: ELF load command not page-aligned.

    ## What it does
    Compares file offset and address of each PT_LOAD segment, modulo the page size and modulo
    p_align. What only glibc before 2.35 checks is reported if the tags allow such a version.

    ## Why is this bad?
    `ELF load command address/offset not page-aligned`; before glibc 2.35 also `ELF load command
    address/offset not properly aligned` and `ELF load command alignment not page-aligned`.

    ## Example
    `LOAD 0x005000 0x0000000000408000 … RW 0x200000`

    ## Common causes
    - patchelf 0.18.0 on a library aligned to more than a page (NixOS/patchelf 492, 528).
      **Solution**: patchelf 0.19 or newer.
    - `strip` or `objcopy` after patchelf (pypa/auditwheel 716). **Solution**: strip first.

    ## Fix safety
    Not fixed: the content would have to be moved. Build the object again.
    """
    glibc = _oldest(context, Libc.GLIBC)
    old = glibc is not None and glibc < _NOT_CONGRUENT
    for member, elf in context.wheel.elfs.items():
        for load in loads_among(elf.segments):
            words = _misalignment(load, old=old and not elf.is_executable)
            if words is not None:
                yield Hit(
                    message=f"the segment for address {load.vaddr:#x} is at offset"
                    f" {load.offset:#x}, aligned to {load.align:#x}: `{words}`",
                    member=member,
                    hint="link it without `-z max-page-size`"
                    if 1 < load.align < SMALLEST_PAGE
                    else "build the object again; strip before patchelf, and use patchelf 0.19 or "
                    "newer",
                )
                break


def _misalignment(load: Segment, *, old: bool) -> str | None:
    """Return the loader's error message; `old` means glibc before 2.35."""
    shift = load.vaddr - load.offset
    if shift % SMALLEST_PAGE:
        return "ELF load command address/offset not page-aligned"
    if old and load.align % SMALLEST_PAGE:
        return "ELF load command alignment not page-aligned"
    if old and load.align and shift % load.align:
        return "ELF load command address/offset not properly aligned"
    return None


@rule("WF605", "small-alignment", Severity.ERROR)
def small_alignment(context: Context) -> Iterator[Hit]:
    """Object is linked for a smaller page size than kernels use.

    ## What it does
    Reports AArch64 and POWER objects whose segments are aligned to less than 64 KiB, and LoongArch
    objects aligned to less than 16 KiB. Other architectures of platform tags have 4 KiB pages.
    Without a manylinux tag it is a warning.

    ## Why is this bad?
    With kernels of that page size, opening the object fails: `ELF load command address/offset not
    page-aligned` or `ELF load command alignment not page-aligned` (pypa/auditwheel 251).

    ## Example
    An AArch64 library linked with `-Wl,-z,max-page-size=4096`.

    ## Common causes
    - `-z max-page-size` or `common-page-size` in the flags. **Solution**: remove it.
    - Rust, Go or Zig with their own linker. **Solution**: `-C link-arg=-Wl,-z,max-page-size=65536`.
    - patchelf before 0.18 was run on another architecture. **Solution**: `--page-size 65536`.

    ## Fix safety
    Not fixed: only the linker can change the layout of the segments.
    """
    for member, elf in context.wheel.elfs.items():
        sizes = page_sizes(elf)
        if sizes is None or sizes.in_use == SMALLEST_PAGE:
            continue
        page = sizes.in_use
        pages = fitting_pages(elf)
        if pages >= page or pages < SMALLEST_PAGE:
            continue  # segments that fit no page size are left to WF604
        yield Hit(
            message=f"is linked for pages of at most {pages // 1024} KiB, but kernels have up to"
            f" {page // 1024} KiB",
            member=member,
            severity=severity_by_promise(context),
            notes=(sizes.large,),
            hint=f"link it with `-Wl,-z,max-page-size={page}`",
        )


def possible_pages(elf: Elf) -> tuple[int, ...]:
    """Return the page sizes in bytes between which kernels for this machine can choose."""
    pages = page_sizes(elf)
    return pages.kernels if pages else ()


def fitting_pages(elf: Elf) -> int:
    """Return the largest page size in bytes that all segments can be mapped with; 0 for none."""
    shifts = ((load.align, load.vaddr - load.offset) for load in loads_among(elf.segments))
    return min((min(a, shift & -shift) if shift else a for a, shift in shifts), default=0)


@rule("WF609", "disordered-segments", Severity.ERROR)
def disordered_segments(context: Context) -> Iterator[Hit]:
    """ELF segments overlap, are out of order, or do not hold their tables.

    ## What it does
    Reports PT_LOAD segments that are not in ascending order of address or overlap in memory (gABI
    chapter 5, "Program Header"), and PT_DYNAMIC, PT_TLS or PT_GNU_RELRO outside of all PT_LOAD
    segments.

    ## Why is this bad?
    The loader reserves memory from the first segment to the last: it fails with `failed to map
    segment from shared object`, or one segment overwrites another and the process crashes.

    ## Example
    `LOAD 0x002e08 0x0000000000003e08 …` before `LOAD 0x000000 0x0000000000000000 …`

    ## Common causes
    - A tool added or moved a segment without keeping the order. **Solution**: build the object
      again, and edit it with another version of the tool.

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
    loads = loads_among(elf.segments)
    if not loads:
        yield "no segment is loaded: `object file has no loadable segments`"
        return
    for first, second in pairwise(loads):
        if first.vaddr > second.vaddr:
            yield f"the segments for {first.vaddr:#x} and {second.vaddr:#x} are out of order"
        elif first.vaddr + first.memsz > second.vaddr and not _maps_the_same(first, second):
            yield f"the segments for {first.vaddr:#x} and {second.vaddr:#x} overlap"
    for kind in (Pt.DYNAMIC, Pt.TLS, Pt.GNU_RELRO):
        part = last_of(elf.segments, kind)
        if part is None or not (part.filesz if kind is Pt.TLS else part.memsz):
            continue  # thread-local data without initial values has no address
        if not any(_holds(load, part.vaddr) for load in loads):
            yield f"PT_{kind.name} at {part.vaddr:#x} is in no loaded segment"


def _maps_the_same(first: Segment, second: Segment) -> bool:
    """Return whether both segments map the same bytes of the file where they overlap."""
    same_place = first.vaddr - first.offset == second.vaddr - second.offset
    return same_place and first.memsz == first.filesz


def _holds(load: Segment, address: int) -> bool:
    """Return whether an address is in a page of the segment, as whole pages are loaded."""
    first, last = load.vaddr // SMALLEST_PAGE, (load.vaddr + load.memsz - 1) // SMALLEST_PAGE
    return first <= address // SMALLEST_PAGE <= last


@rule("WF610", "no-hash-table", Severity.WARNING)
def no_hash_table(context: Context) -> Iterator[Hit]:
    """Object has no symbol hash table (DT_HASH or DT_GNU_HASH).

    ## What it does
    Reports shared objects with a symbol table and neither DT_HASH nor DT_GNU_HASH. It is an error
    for extension modules.

    ## Why is this bad?
    Without these tables the loader finds no symbol, nor Python the init function of a module:
    `dynamic module does not define module export function`.

    ## Example
    An object that lost its `.gnu.hash` section when a tool rewrote its dynamic section.

    ## Common causes
    - A tool removed the section. **Solution**: build the object again.

    ## Fix safety
    Not fixed.
    """
    for member, elf in context.wheel.elfs.items():
        if elf.is_library and not elf.hashed:
            is_module = elf.module_hooks or MODULE_SUFFIX.search(member)
            yield Hit(
                message="has symbols, but no hash table (DT_HASH, DT_GNU_HASH) to find them",
                member=member,
                severity=Severity.ERROR if is_module else None,
                hint="build the object again",
            )
