"""Objects that ask for an executable stack, and when the flag may be cleared."""

import shlex
from collections.abc import Iterator
from glob import escape
from posixpath import basename

from wheelfix.elf.image import loads_among
from wheelfix.elf.model import Elf, Libc
from wheelfix.loader.executable_stack import REFUSING_GLIBC, requires_executable_stack, stack_flags
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Fix, Hit, Severity
from wheelfix.rules.loader_acceptance import severity_by_promise
from wheelfix.rules.rule import rule
from wheelfix.settings import Settings, matches_any
from wheelfix.text import pasteable
from wheelfix.wheel.edits import ClearExecstack
from wheelfix.wheel.grafted_name import original_name
from wheelfix.wheel.platform_tags import only_promised


@rule("WF603", "executable-stack", Severity.ERROR)
def executable_stack(context: Context) -> Iterator[Hit]:
    """Object requires an executable stack, which glibc 2.41 refuses.

    ## What it does
    Reports objects whose PT_GNU_STACK has PF_X. Objects without PT_GNU_STACK require an executable
    stack on x86, 32-bit ARM and s390x, and are reported there, but not on other machines. For
    programs, and where the tags promise no glibc, it is not an error.

    ## Why is this bad?
    With glibc 2.41 and later (Debian 13, Ubuntu 25.04, Fedora 42), opening it fails: `cannot enable
    executable stack as shared object requires: Invalid argument`. Earlier versions make the stack
    of the whole process executable, or fail under SELinux, systemd's `MemoryDenyWriteExecute` and
    the like with `Permission denied`. musl ignores the flag; code on the stack crashes. Since glibc
    2.42, a user can allow it with `GLIBC_TUNABLES=glibc.rtld.execstack=2` (NEWS of 2.42), for all
    that the process loads.

    ## Example
    `GNU_STACK 0x000000 … RWE 0x10` in `readelf -lW pkg/_core.so`.

    ## Common causes
    - An assembly source without `.section .note.GNU-stack,"",@progbits`. **Solution**: add the
      line, or link with `-Wl,-z,noexecstack`.
    - Nested functions in C, or contained procedures passed as arguments in Fortran, whose
      trampolines are on the stack. **Solution**: avoid them, or use `-ftrampoline-impl=heap` (GCC
      14).
    - A third-party binary. **Solution**: `wheelfix repair --clear-execstack NAME`, if its code does
      not need the executable stack; the repair clears the flag, and `--verify` loads the result.

    ## Fix safety
    Not fixed unless `clear-execstack` names the object, as only a test can show whether code is
    executed on the stack. Refused where the code writes GCC's trampolines for nested functions to
    the stack (x86-64, AArch64, 32-bit ARM, s390x), on other machines, where these are not
    recognized, and without a PT_GNU_STACK header, which has no place to be added.
    """
    objects = {
        member: (elf, _needs_stack(elf))
        for member, elf in context.wheel.elfs.items()
        if loads_among(elf.segments) and requires_executable_stack(elf)
    }
    bases = (original_name(basename(m)) for m, (_, reason) in objects.items() if not reason)
    names = dict.fromkeys(shlex.quote(pasteable(escape(base))) for base in bases)
    clearing = " ".join(f"--clear-execstack {name}" for name in names)
    for member, (elf, reason) in objects.items():
        stack = stack_flags(elf)
        why = "it has no PT_GNU_STACK header" if stack is None else "its PT_GNU_STACK has PF_X"
        is_asked = _is_asked(member, elf, context.settings)
        yield Hit(
            message=f"requires an executable stack, which glibc {REFUSING_GLIBC} and later refuse "
            f"({why})",
            member=member,
            severity=_stack_severity(context, elf),
            notes=(f"`clear-execstack` is refused: {reason}",) if is_asked and reason else (),
            hint=_stack_hint(elf, reason, clearing),
            fix=Fix(title="clear the flag", edits=(ClearExecstack(member=member),))
            if is_asked and not reason
            else None,
        )


def _needs_stack(elf: Elf) -> str:
    """Return why the flag is not cleared, empty if it may be."""
    if stack_flags(elf) is None or not elf.dynamic:
        return "there is no PT_GNU_STACK header, or no dynamic section"
    if elf.trampolines is None:
        return "trampolines of nested functions are not recognized on this machine"
    if elf.trampolines:
        return "the code writes trampolines of nested functions to the stack"
    return ""


def _is_asked(member: str, elf: Elf, settings: Settings) -> bool:
    name = basename(member)
    names = {name, original_name(name), elf.soname or name}
    return any(matches_any(known, settings.clear_execstack) for known in names)


def _stack_hint(elf: Elf, reason: str, clearing: str) -> str:
    """Return the hint; `clearing` are the options for all objects whose flag can be cleared."""
    if elf.trampolines:
        return (
            "avoid nested functions, or compile with `-ftrampoline-impl=heap` (GCC 14): the code "
            "writes trampolines to the stack; on the user's machine, glibc 2.42 and later allow it "
            "with `GLIBC_TUNABLES=glibc.rtld.execstack=2`"
        )
    link = "link it with `-Wl,-z,noexecstack`"
    if not reason:
        return f"{link}; third-party objects: `wheelfix repair {clearing}`"
    if elf.trampolines is None:
        return f"{link}; a third-party object: `patchelf --clear-execstack`, and try it"
    return link


def _stack_severity(context: Context, elf: Elf) -> Severity:
    if elf.is_executable:
        return Severity.WARNING  # allowed to the program itself: glibc.rtld.execstack
    if only_promised(context.wheel.name.platforms) not in {None, Libc.GLIBC}:
        return Severity.NOTE
    return severity_by_promise(context)
