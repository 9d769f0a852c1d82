"""Whether the objects of the wheel are for the machine and C library of its platform tags."""

import posixpath
from collections.abc import Iterator, Mapping

from wheelfix.analysis.policy_analysis import libc_of_object
from wheelfix.elf.model import Elf, ElfType, Libc, Machine
from wheelfix.grouping import flatten, values_by_key
from wheelfix.rules.auditwheel_verdict import tag_fix
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Hit, Safety, Severity, other_members
from wheelfix.rules.module_names import extension_modules
from wheelfix.rules.rule import rule
from wheelfix.text import FEW, count, join_some
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.platform_tags import (
    CONVENTIONS,
    PlatformTag,
    architectures_of,
    parse_platform_tag,
    promised_libcs,
)

_KNOWN = frozenset(Machine)
_OF_OTHERS = (".dll", ".dylib", ".exe", ".pyd", ".so")
"""How the names of libraries and programs of other systems end; those of macOS may have `.so`."""
_TAKE_NONE = "and only Linux takes a wheel with a tag for Linux"
_TESTS = frozenset({"test", "tests", "testdata"})


@rule("WF509", "elf-for-any-platform", Severity.WARNING)
def elf_for_any_platform(context: Context) -> Iterator[Hit]:
    """Platform tag is `any`, but the wheel holds ELF objects.

    ## What it does
    Reports wheels with the platform tag `any` that contain shared objects or programs. It is an
    error if one of them is an extension module and all are for the same architecture.

    ## Why is this bad?
    `any` includes Windows, macOS and every other architecture. Installers accept the wheel there,
    and the import fails: "invalid ELF header", "cannot open shared object file".

    ## Example
    `demo-1.0-py3-none-any.whl` with `demo/libdemo.so`.

    ## Common causes
    - A library listed as package data. **Solution**: configure the build backend for a platform
      wheel: `has_ext_modules` for setuptools, `pure-python = false` or `infer_tag` elsewhere.
    - A package that selects one of many architectures at run time. **Solution**: ignore the rule.

    ## Fix safety
    Safe: `repair` writes the best tag that the objects satisfy. Several architectures have none:
    ignore the rule, or split the wheel. Unsafe if the wheel has programs or libraries for other
    systems, or if its only ELF objects are programs in packages, or files of tests: it may work
    on other systems, whose installers do not take a wheel with that tag.
    """
    wheel, verdict = context.wheel, context.verdict
    programs = {m: elf for m, elf in wheel.elfs.items() if runs(elf)}
    if not programs or set(wheel.name.platforms) != {"any"}:
        return
    machines = {elf.abi for elf in programs.values()}
    modules = [module.member for module in extension_modules(wheel) if module.elf.module_hooks]
    is_tagged = len(machines) == 1 and context.settings.update_tags
    fix = tag_fix(verdict) if verdict and is_tagged else None
    others = why_for_other_systems(wheel)
    yield Hit(
        message=f"tagged `any`, with {count(len(programs), 'ELF object')} for "
        f"{count(len(machines), 'architecture')}",
        member=(modules or list(programs))[0],
        notes=(*other_members(list(programs)), *filter(None, [others])),
        hint="build a wheel for each platform" if others else "build a platform wheel",
        fix=fix._replace(safety=Safety.UNSAFE) if fix and others else fix,
        severity=Severity.ERROR if modules and len(machines) == 1 and not others else None,
    )


def why_for_other_systems(wheel: Wheel) -> str:
    """Return why a wheel for `any` platform may be of use without Linux; empty if it is not."""
    if set(wheel.name.platforms) != {"any"}:
        return ""
    names = (name for name in wheel.sizes if name.lower().endswith(_OF_OTHERS))
    if others := [name for name in names if name not in wheel.elfs]:
        return f"has {join_some(others, FEW)} for other systems, {_TAKE_NONE}"
    if any(map(_is_used, wheel.elfs, wheel.elfs.values())):
        return ""
    return f"has no ELF library or script but in tests: may be for all systems, {_TAKE_NONE}"


def _is_used(member: str, elf: Elf) -> bool:
    """Return whether an object is surely no data of a package for all systems."""
    return (elf.is_library or ".data/scripts/" in member) and _TESTS.isdisjoint(member.split("/"))


@rule("WF510", "wrong-machine", Severity.ERROR)
def wrong_machine(context: Context) -> Iterator[Hit]:
    """ELF object is for a different architecture than the platform tag.

    ## What it does
    Compares class, byte order and `e_machine` of each shared object and program with the
    architecture in the platform tags. For glibc that includes the calling convention in `e_flags`:
    on RISC-V the floating-point ABI, on 64-bit PowerPC the version of the ELF ABI. It is an error
    for extension modules, for libraries that objects of the right architecture need, and if no
    object is for the architecture of the tag; otherwise it is for information, as the package may
    select an object at run time.

    ## Why is this bad?
    The loader skips or refuses it. The message is "wrong ELF class: ELFCLASS32" or "cannot open
    shared object file".

    ## Example
    A wheel tagged `manylinux_2_17_aarch64` with an x86-64 `_core.cpython-311.so`.

    ## Common causes
    - A cross build used the build machine's compiler for some parts. **Solution**: set `CC` etc.
    - A prebuilt library for the wrong architecture. **Solution**: download the one for the target.
    - A build directory shared by several architectures. **Solution**: use one for each.

    ## Fix safety
    Not fixed.
    """
    wheel = context.wheel
    tags = map(parse_platform_tag, wheel.name.platforms)
    known = {tag: tag.arch for tag in tags if tag.abi}
    if known:
        wrong = {
            member: elf
            for member, elf in wheel.elfs.items()
            if runs(elf) and not any(_is_for(tag, elf) for tag in known)
        }
        wanted = {tag.abi for tag in known}
        has_convention = any(elf.abi in wanted for elf in wrong.values())
        arches = "/".join(
            f"{arch} ({CONVENTIONS[arch]})" if has_convention and arch in CONVENTIONS else arch
            for arch in dict.fromkeys(known.values())
        )
        said = {
            member: f"{_describe(elf)} ({elf.convention})" if elf.abi in wanted else _describe(elf)
            for member, elf in wrong.items()
        }
        yield from _misplaced_hits(
            wheel, said, f"but the tag is for {arches}", "build it for that architecture"
        )


@rule("WF511", "wrong-libc", Severity.ERROR)
def wrong_libc(context: Context) -> Iterator[Hit]:
    """ELF object is for a different C library (glibc or musl) than the platform tag.

    ## What it does
    Compares the C library that each object needs (`libc.so.6`, `libc.musl-*.so.1`, the program
    interpreter), or else has in its file name (`.cpython-311-x86_64-linux-musl.so`), with the tags:
    manylinux is glibc (PEP 600), musllinux is musl (PEP 656). It is an error for extension modules,
    for libraries that objects for the right C library need, and if no object is for the C library
    of the tag; otherwise it is for information. Of tags for both, each module has to be there for
    both; one for which no object is goes in a repair (WF801).

    ## Why is this bad?
    The C library that it needs does not exist on the user's machine. The message is
    "libc.musl-x86_64.so.1: cannot open shared object file", or for programs "no such file or
    directory".

    ## Example
    A wheel tagged `manylinux_2_17_x86_64`, built on Alpine Linux.

    ## Common causes
    - A prebuilt library or program for the other C library. **Solution**: build it in the
      container, or link programs statically.
    - The wheel was renamed. **Solution**: build one wheel for each C library, in its own container.

    ## Fix safety
    Not fixed.
    """
    wheel = context.wheel
    kinds = promised_libcs(wheel.name.platforms)
    if kinds:
        libcs = {member: libc_of_object(member, elf) for member, elf in wheel.elfs.items()}
        there = values_by_key((_import_path(member), libc) for member, libc in libcs.items())
        # One for which no object is goes in a repair.
        each = _modules(wheel) if kinds <= {*libcs.values()} else frozenset[str]()
        single = {m for m in each if not {*there[_import_path(m)]} >= kinds}
        wrong = {
            member: f"for {libc}"
            for member, libc in libcs.items()
            if libc is not None and (libc not in kinds or member in single)
        }
        said = " and ".join(sorted(kinds))
        yield from _misplaced_hits(
            wheel,
            wrong,
            f"but the tag is for {said}",
            "build one wheel for each C library" if single else "build it for that C library",
        )


def runs(elf: Elf) -> bool:
    """Return whether the object can be loaded or run; objects for GPUs are ELF as well."""
    return elf.machine in _KNOWN and (elf.dynamic or elf.type == ElfType.EXEC)


def _is_for(tag: PlatformTag, elf: Elf) -> bool:
    """Return whether the loader of a platform takes the object."""
    if elf.abi != tag.abi:
        return False
    if not {tag.libc, elf.libc} <= {None, Libc.GLIBC}:
        return True
    return elf.convention == CONVENTIONS.get(tag.arch, elf.convention)


def _describe(elf: Elf) -> str:
    names = architectures_of(elf.abi)
    order = "little" if elf.little_endian else "big"
    other = f"{count(elf.bits, 'bit')}, {order} endian, machine {elf.machine}"
    return f"for {names[-1] if names else other}"


def _misplaced_hits(wheel: Wheel, wrong: Mapping[str, str], tag: str, hint: str) -> Iterator[Hit]:
    """Report objects that do not fit the tag: each important one, and the others together."""
    fitting = {m: elf for m, elf in wheel.elfs.items() if runs(elf) and m not in wrong}
    served = {_import_path(member) for member in fitting}
    needed = set(flatten(elf.needed for elf in fitting.values()))
    needed -= {posixpath.basename(member) for member in fitting}
    modules = _modules(wheel)
    chosen: list[str] = []
    for member, what in wrong.items():
        unserved = member in modules and _import_path(member) not in served
        if fitting and not unserved and posixpath.basename(member) not in needed:
            chosen.append(member)
        else:
            yield Hit(message=f"is {what}, {tag}", member=member, hint=hint)
    if chosen:
        yield Hit(
            message=f"is {wrong[chosen[0]]}, {tag}: fine if the package selects one at run time",
            member=chosen[0],
            notes=other_members(chosen),
            severity=Severity.NOTE,
        )


def _modules(wheel: Wheel) -> frozenset[str]:
    modules = extension_modules(wheel)
    return frozenset(module.member for module in modules if module.elf.module_hooks)


def _import_path(member: str) -> str:
    folder, _, name = member.rpartition("/")
    return f"{folder}/{name.partition('.')[0]}"
