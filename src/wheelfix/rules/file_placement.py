"""Whether the files of the wheel fit its platform tags and are installed properly."""

import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from wheelfix.analysis.policy_analysis import libc_of_object
from wheelfix.elf.model import Elf, ElfType, Libc, Machine
from wheelfix.grouping import grouped
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Fix, Hit, Safety, Severity
from wheelfix.rules.module_names import extension_modules
from wheelfix.rules.rule import rule
from wheelfix.text import count, in_units, join_some
from wheelfix.wheel.edits import RemoveMember, SetMode
from wheelfix.wheel.library_names import stem_of
from wheelfix.wheel.model import PROGRAM_MODE, Wheel
from wheelfix.wheel.platform_tags import (
    ARCHITECTURES,
    CONVENTIONS,
    PlatformTag,
    architectures_of,
    parse_platform_tag,
    promised_libcs,
)

_KNOWN = frozenset(Machine)


@rule("WF508", "elf-in-purelib", Severity.WARNING)
def elf_in_purelib(context: Context) -> Iterator[Hit]:
    """ELF object in the `purelib` directory.

    ## What it does
    Reports ELF objects in `*.data/purelib`. (For the root of the wheel, see WF503.)

    ## Why is this bad?
    Where platlib and purelib differ (Fedora's `lib64`), the object is separated from the rest of
    its package, in a directory that architectures may share.

    ## Example
    `demo-1.0.data/purelib/demo/_core.cpython-311-x86_64-linux-gnu.so`

    ## Common causes
    - A build script that uses `purelib` explicitly. **Solution**: install to `platlib`, or let the
      build backend decide.

    ## Fix safety
    Not fixed: only the build knows which files belong together.
    """
    wheel = context.wheel
    inside = [member for member in wheel.elfs if member.startswith(f"{wheel.data_dir}/purelib/")]
    if inside:
        yield Hit(
            message=f"{count(len(inside), 'ELF object')} in the `purelib` directory",
            member=inside[0],
            notes=other_members(inside),
            hint="install to platlib",
        )


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
    Not fixed: the build must set the tag; `wheel tags --platform-tag` changes it.
    """
    wheel = context.wheel
    programs = {m: elf for m, elf in wheel.elfs.items() if _runs(elf)}
    if not programs or set(wheel.name.platforms) != {"any"}:
        return
    machines = {elf.abi for elf in programs.values()}
    modules = [module.member for module in extension_modules(wheel) if module.elf.module_hooks]
    yield Hit(
        message=f"tagged `any`, with {count(len(programs), 'ELF object')} for "
        f"{count(len(machines), 'architecture')}",
        member=(modules or list(programs))[0],
        notes=other_members(list(programs)),
        hint="build a platform wheel",
        severity=Severity.ERROR if modules and len(machines) == 1 else None,
    )


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
    known = {tag: tag.arch for tag in tags if tag.is_linux and tag.arch in ARCHITECTURES}
    if known:
        wrong = {
            member: elf
            for member, elf in wheel.elfs.items()
            if _runs(elf) and not any(_is_for(tag, elf) for tag in known)
        }
        wanted = {ARCHITECTURES[arch] for arch in known.values()}
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
    of the tag; otherwise it is for information.

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
        wrong = {
            member: f"for {libc}"
            for member, libc in libcs.items()
            if libc is not None and kinds != frozenset({libc})
        }
        said = " and ".join(sorted(kinds))
        yield from _misplaced_hits(
            wheel, wrong, f"but the tag is for {said}", "build it for that C library"
        )


def _runs(elf: Elf) -> bool:
    """Return whether the object can be loaded or run; objects for GPUs are ELF as well."""
    return elf.machine in _KNOWN and (elf.dynamic or elf.type == ElfType.EXEC)


def _is_for(tag: PlatformTag, elf: Elf) -> bool:
    """Return whether the loader of a platform takes the object."""
    if elf.abi != ARCHITECTURES[tag.arch]:
        return False
    if Libc.MUSL in {tag.libc, elf.libc}:
        return True
    return elf.convention == CONVENTIONS.get(tag.arch, elf.convention)


def _describe(elf: Elf) -> str:
    names = architectures_of(elf.abi)
    order = "little" if elf.little_endian else "big"
    other = f"{count(elf.bits, 'bit')}, {order} endian, machine {elf.machine}"
    return f"for {names[-1] if names else other}"


def _misplaced_hits(wheel: Wheel, wrong: Mapping[str, str], tag: str, hint: str) -> Iterator[Hit]:
    """Report objects that do not fit the tag: each important one, and the others together."""
    fitting = {m: elf for m, elf in wheel.elfs.items() if _runs(elf) and m not in wrong}
    served = {_import_path(member) for member in fitting}
    needed = {name for elf in fitting.values() for name in elf.needed}
    needed -= {posixpath.basename(member) for member in fitting}
    modules = {module.member for module in extension_modules(wheel) if module.elf.module_hooks}
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


def _import_path(member: str) -> str:
    folder, _, name = member.rpartition("/")
    return f"{folder}/{name.partition('.')[0]}"


@rule("WF512", "second-metadata", Severity.WARNING)
def second_metadata(context: Context) -> Iterator[Hit]:
    """Wheel installs the metadata of a second distribution.

    ## What it does
    Reports `*.dist-info` and `*.egg-info` other than the wheel's own that are installed into
    site-packages. (With two `*.dist-info` in the root, the file is not a valid wheel.)

    ## Why is this bad?
    Every tool then sees a second distribution as installed: `pip install` considers its requirement
    satisfied, and `pip uninstall` removes files that are not its own.

    ## Example
    `demo.egg-info/PKG-INFO` in the root.

    ## Common causes
    - A reused build directory. **Solution**: build from a clean tree, by `python -m build` through
      an sdist.
    - A vendored distribution copied with its metadata. **Solution**: put it into a subdirectory of
      the package (`demo/_vendor/`), where its metadata has no effect.

    ## Fix safety
    Unsafe: the directory is removed.
    """
    wheel = context.wheel
    for top, members in context.top_levels.items():
        if top.endswith((".dist-info", ".egg-info")) and top != wheel.dist_info:
            yield Hit(
                message=f"installs the metadata of another distribution, `{top}`",
                member=members[0],
                entry=top,
                hint="build from a clean tree",
                fix=removal(members),
            )


@rule("WF513", "program-without-run-bit", Severity.WARNING)
def program_without_run_bit(context: Context) -> Iterator[Hit]:
    """Program is not executable once installed.

    ## What it does
    Reports ELF programs without the executable bit in the zip, and all such files in
    `*.data/scripts`; the latter is an error.

    ## Why is this bad?
    pip keeps the mode of a file, and does not add the bit, not even to scripts (uv does):
    "Permission denied" when a user or the package starts the program.

    ## Example
    `demo/bin/helper` with mode 0644.

    ## Common causes
    - The wheel was packed by a script with `zipfile.writestr`. **Solution**: set
      `external_attr`, or use `wheel pack`.
    - The file came from an archive without modes. **Solution**: `chmod +x` in the build.

    ## Fix safety
    Safe: the file gets mode 0755 in the zip. Its bytes stay.
    """
    wheel = context.wheel
    scripts = wheel.dist_info.scripts
    for member in wheel.members:
        is_script = member.name.startswith(scripts)
        may_run = is_script or member.name in wheel.elfs
        if may_run and not member.mode & 0o111 and (is_script or _is_program(wheel, member.name)):
            edit = SetMode(member=member.name, old=member.mode, new=member.mode | PROGRAM_MODE)
            yield Hit(
                message=f"lacks the executable bit (mode {member.mode & 0o7777:04o})",
                member=member.name,
                hint="`chmod +x` it in the build",
                severity=Severity.ERROR if is_script else None,
                fix=Fix(title="set the executable bit", edits=(edit,)),
            )


def _is_program(wheel: Wheel, member: str) -> bool:
    elf = wheel.elfs.get(member)
    return elf is not None and elf.is_executable and _runs(elf) and ".so" not in member


@rule("WF515", "flattened-links", Severity.WARNING)
def flattened_links(context: Context) -> Iterator[Hit]:
    """Symbolic links of a library became copies.

    ## What it does
    Finds shared objects with the same content, in one directory, under names such as `libx.so`,
    `libx.so.1` and `libx.so.1.2`. It is for information unless objects of the wheel need it by more
    than one of the names.

    ## Why is this bad?
    A wheel cannot hold symbolic links, so each became a copy. The wheel is larger by the copies;
    and the loader treats copies as different libraries: if one is opened by `libx.so` after another
    object has loaded `libx.so.1`, its global data exists twice (nixl 1567: initialised twice).

    ## Example
    `pkg/libx.so`, `pkg/libx.so.1` and `pkg/libx.so.1.2.3`, 12 MB each.

    ## Common causes
    - `cmake --install` or `make install` into the package directory. **Solution**: install only the
      file that is named like the SONAME (`NAMELINK_SKIP`, and no `VERSION` property).
    - A prebuilt package unpacked there. **Solution**: delete the links before the build.

    ## Fix safety
    Unsafe: copies that no object needs and no Python source opens by name are removed, except the
    one named like the SONAME; but other code may open them.
    """
    wheel = context.wheel
    for names in same_bytes(wheel):
        for members in _link_chains(wheel, names):
            yield _flattened_hit(context, members)


def same_bytes(wheel: Wheel) -> list[list[str]]:
    """Return the sets of names of identical files."""
    hashes = {row.name: row.hash for row in wheel.record if row.hash}
    number = Counter(hashes.values())
    hashes = {name: value for name, value in hashes.items() if number[value] > 1}
    hashed = (member for member in wheel.members if member.size and member.name in hashes)
    groups = grouped(hashed, lambda member: (hashes[member.name], member.size))
    return [[member.name for member in same] for same in groups.values() if len(same) > 1]


def _link_chains(wheel: Wheel, names: Sequence[str]) -> Iterator[list[str]]:
    libraries = (name for name in names if ".so" in name and name in wheel.elfs)
    chains = grouped(libraries, stem_of).values()
    return (sorted(chain, key=len) for chain in chains if len(chain) > 1)


def _flattened_hit(context: Context, members: Sequence[str]) -> Hit:
    wheel = context.wheel
    soname = wheel.elfs[members[0]].soname
    kept = next((m for m in members if posixpath.basename(m) == soname), members[-1])
    opened = {
        posixpath.basename(opening.name)
        for openings in wheel.openings.values()
        for opening in openings
    }
    used = opened | context.dependents.keys()
    needed = {posixpath.basename(m) for m in members} & context.dependents.keys()
    going = [m for m in members if m != kept and posixpath.basename(m) not in used]
    size = next(member.size for member in wheel.members if member.name == kept)
    return Hit(
        message=f"is in the wheel {count(len(members), 'time')}, with the same bytes "
        f"({in_units(size)})",
        member=kept,
        notes=(f"as {', '.join(f'`{posixpath.basename(m)}`' for m in members)}",),
        hint="leave links out of the wheel, and keep the file named like the SONAME",
        fix=removal(going) if going else None,
        severity=None if len(needed) > 1 else Severity.NOTE,
    )


def other_members(members: Sequence[str]) -> tuple[str, ...]:
    """Return a note on all members but the first, which the finding itself names."""
    return (f"also {join_some(members[1:])}",) if members[1:] else ()


def removal(members: Iterable[str], safety: Safety = Safety.UNSAFE) -> Fix:
    """Return the fix that removes `members` from the wheel."""
    return Fix(
        title="remove the files",
        edits=tuple(RemoveMember(member=member) for member in members),
        safety=safety,
    )
