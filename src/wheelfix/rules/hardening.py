"""Whether objects are hardened against attacks, and load under security policies."""

from collections.abc import Callable, Iterator

from wheelfix.elf.constants import DF_1_NOW, DF_BIND_NOW, DF_TEXTREL, PF_W, PF_X, Pt
from wheelfix.elf.image import loads_among
from wheelfix.elf.model import Elf, Libc
from wheelfix.loader.loader_demands import demands_of
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.rule import rule
from wheelfix.text import count, join_some
from wheelfix.wheel.platform_tags import only_promised

_SHOWN = 8


@rule("WF621", "text-relocations", Severity.WARNING)
def text_relocations(context: Context) -> Iterator[Hit]:
    """Object has text relocations (DT_TEXTREL).

    ## What it does
    Reports objects with DT_TEXTREL or DF_TEXTREL. It is an error for Android.

    ## Why is this bad?
    The loader makes the code writable while it relocates it. If a policy forbids that (SELinux
    `execmod`, systemd's `MemoryDenyWriteExecute`, PR_SET_MDWE), opening the object fails: `cannot
    make segment writable for relocation: Permission denied`. Processes do not share the pages.
    Android loads no such object: `has text relocations`.

    ## Example
    `0x0000000000000016 (TEXTREL) 0x0` in `readelf -d`.

    ## Common causes
    - Code compiled without `-fPIC`. **Solution**: `-fPIC`, also for static libraries; `-Wl,-z,text`
      makes it a link error.
    - Assembly code with absolute addresses, mostly on i686. **Solution**: use the GOT, or configure
      the library without assembly code.

    ## Fix safety
    Not fixed: the code must be compiled again.
    """
    for member, elf in context.wheel.elfs.items():
        if elf.dt_flags & DF_TEXTREL:
            is_taken = demands_of(elf.libc).text_relocations
            where = "where policies forbid writable code" if is_taken else f"with {elf.libc}"
            yield Hit(
                message=f"has text relocations (DT_TEXTREL): it fails to load {where}",
                member=member,
                severity=None if is_taken else Severity.ERROR,
                hint="compile it with `-fPIC`, and link with `-Wl,-z,text` to see where",
            )


@rule("WF622", "writable-code", Severity.WARNING)
def writable_code(context: Context) -> Iterator[Hit]:
    """Segment is both writable and executable.

    ## What it does
    Reports objects with a PT_LOAD segment that has PF_W and PF_X.

    ## Why is this bad?
    An attacker who can write there can execute code. If a policy forbids such memory (SELinux,
    systemd's `MemoryDenyWriteExecute`, PR_SET_MDWE), opening the object fails: `failed to map
    segment from shared object`.

    ## Example
    `LOAD 0x000000 … RWE 0x1000` in `readelf -lW`.

    ## Common causes
    - `-Wl,-N` (`--omagic`), or a linker script that puts code and data into one segment.
      **Solution**: remove it.
    - A packed or protected library. **Solution**: ask its vendor for another version.

    ## Fix safety
    Not fixed: some of the code may change itself.
    """
    for member, elf in context.wheel.elfs.items():
        for segment in loads_among(elf.segments):
            if segment.flags & PF_X and segment.flags & PF_W:
                yield Hit(
                    message=f"the segment for address {segment.vaddr:#x} is writable and executable"
                    " at once",
                    member=member,
                    hint="link it without `-N` and without a linker script",
                )
                break


@rule("WF623", "no-relro", Severity.NOTE)
def no_relro(context: Context) -> Iterator[Hit]:
    """Object lacks RELRO (PT_GNU_RELRO).

    ## What it does
    Counts the dynamic objects without PT_GNU_RELRO.

    ## Why is this bad?
    The address tables stay writable: an attacker who can write one word can redirect calls.

    ## Example
    No line `GNU_RELRO` in `readelf -lW`.

    ## Common causes
    - A linker without RELRO by default, or `-Wl,-z,norelro`. **Solution**: `-Wl,-z,relro`.

    ## Fix safety
    Not fixed: only the linker can lay out the tables for it.
    """
    yield from _count(
        context,
        lambda elf: all(segment.type != Pt.GNU_RELRO for segment in elf.segments),
        "no RELRO (PT_GNU_RELRO): address tables stay writable",
        "link with `-Wl,-z,relro,-z,now`",
    )


@rule("WF624", "lazy-binding", Severity.NOTE)
def lazy_binding(context: Context) -> Iterator[Hit]:
    """Object lacks full RELRO, because of lazy binding.

    ## What it does
    Counts the dynamic objects with PT_GNU_RELRO and without DF_BIND_NOW or DF_1_NOW.

    ## Why is this bad?
    Python binds all symbols on import anyway, and the function table (`.got.plt`) stays writable.

    ## Example
    No `NOW` among the FLAGS of `readelf -d`.

    ## Common causes
    - The linker's default on most distributions. **Solution**: `-Wl,-z,now`.

    ## Fix safety
    Not fixed: only the linker can move the table into the protected part.
    """
    yield from _count(
        context,
        lambda elf: (
            any(segment.type == Pt.GNU_RELRO for segment in elf.segments)
            and not elf.dt_flags & DF_BIND_NOW
            and not elf.dt_flags_1 & DF_1_NOW
        ),
        "partial RELRO only: functions are bound lazily, and their table stays writable",
        "link with `-Wl,-z,now`",
    )


@rule("WF625", "unique-symbols", Severity.NOTE)
def unique_symbols(context: Context) -> Iterator[Hit]:
    """Object exports STB_GNU_UNIQUE symbols.

    ## What it does
    Counts the dynamic objects that define STB_GNU_UNIQUE symbols. musl treats them as ordinary
    symbols, so musllinux wheels are left out.

    ## Why is this bad?
    glibc binds all references in the process to the first definition, across RTLD_LOCAL: two
    packages with different versions of a C++ library share its static data and may crash. A library
    with such symbols is never unloaded.

    ## Example
    `nm -D pkg/_core.so | grep ' u '`: a static variable of an inline function or of a template.

    ## Common causes
    - The default of GCC for C++. **Solution**: `-fvisibility=hidden`, a version script that exports
      only the module's init function, or `-fno-gnu-unique`.

    ## Fix safety
    Not fixed: other objects may rely on sharing the symbols.
    """
    if only_promised(context.wheel.name.platforms) not in {None, Libc.GLIBC}:
        return
    yield from _count(
        context,
        lambda elf: elf.unique_symbols > 0,
        "STB_GNU_UNIQUE symbols, shared with all other libraries of the process",
        "compile with `-fvisibility=hidden` or `-fno-gnu-unique`",
    )


def _share(number: int, whole: int) -> str:
    if number == whole:
        return "all objects" if whole > 1 else "the only object"
    return f"{number} of {count(whole, 'object')}"


def _count(context: Context, holds: Callable[[Elf], bool], what: str, hint: str) -> Iterator[Hit]:
    """Yield one hit for all dynamic objects of the wheel that satisfy `holds`."""
    objects = {m: elf for m, elf in context.wheel.elfs.items() if elf.dynamic and elf.segments}
    members = [member for member, elf in objects.items() if holds(elf)]
    if not members:
        return
    yield Hit(
        message=f"{what}: {_share(len(members), len(objects))}",
        member=members[0] if len(members) == 1 else None,
        notes=(join_some(members, _SHOWN),) if members[1:] else (),
        hint=hint,
    )
