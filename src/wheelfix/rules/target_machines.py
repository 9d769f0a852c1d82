"""Whether the wheel loads on the machines of `--target`.

The libraries of a machine are data (`loader.targets`). Loading is simulated as installed
by the first scheme, and each problem is reported once per machine and cause.
"""

from collections.abc import Iterable, Iterator, Mapping

from wheelfix.analysis.load_failures import LoadJudge
from wheelfix.analysis.never_bundled import reason_not_to_bundle, reason_to_leave_out
from wheelfix.analysis.unresolved_symbols import newer_symbols
from wheelfix.analysis.world import World
from wheelfix.elf.demangle import demangle
from wheelfix.elf.model import Elf
from wheelfix.grouping import flatten, values_by_key
from wheelfix.loader.platform_libraries import DEFINERS
from wheelfix.loader.symbol_versions import GNU2_TLS, WITHOUT_GNU2_TLS, prefix_of
from wheelfix.loader.targets import is_page, page_size
from wheelfix.rules.context import Context, SetContext, applicable
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.loader_acceptance import fitting_pages, possible_pages
from wheelfix.rules.rule import rule, set_rule
from wheelfix.settings import matches_any
from wheelfix.text import FEW, by_number, count, join_some
from wheelfix.wheel.platform_tags import has_local_tag, other_system


def targets_of(context: Context) -> tuple[str, ...]:
    """Return the machines of `target` that the wheel is for, as named in the settings."""
    elfs = context.wheel.elfs.values()
    pages = set(flatten(map(possible_pages, elfs)))
    sized = [name for name in context.settings.target if is_page(name)]
    return (
        *(target.name for target in context.targets),
        *(name for name in sized if page_size(name) in pages),
    )


@rule("WF811", "target-not-offered", Severity.ERROR)
def target_not_offered(context: Context) -> Iterator[Hit]:
    """Wheel cannot be installed on a target machine.

    ## What it does
    Compares the platform tags with the C library of each machine in `target`, by PEP 600 and PEP
    656. Machines with another C library than the wheel's are left out: they need another wheel.

    ## Why is this bad?
    pip silently skips the wheel, and builds from source, installs an older release, or fails with
    `No matching distribution found`.

    ## Example
    `--target debian:11`, which has glibc 2.31, and a wheel tagged `manylinux_2_34_x86_64`.

    ## Common causes
    - The wheel was built in an unnecessarily new image. **Solution**: `manylinux-x86_64-image` of
      cibuildwheel.
    - The machine is no longer supported. **Solution**: remove it from `target`.

    ## Fix safety
    Not fixed: the wheel must be built on an older system.
    """
    for target in context.targets:
        for refused in target.why_refused(context.wheel):
            yield Hit(
                message=refused,
                entry=target.name,
                targets=(target.name,),
                hint="build in an older image, or remove the machine from `target`",
            )


@rule("WF812", "target-lacks-version", Severity.ERROR)
def target_lacks_version(context: Context) -> Iterator[Hit]:
    """Library on a target machine is too old: symbol version not found.

    ## What it does
    Simulates loading each object on each machine in `target`, and compares the symbol versions that
    it requires of the machine's libraries with the newest that these define; of libstdc++ also what
    is referred to without a version, by the first GLIBCXX that has it. It is a warning for
    versions without a number that an update of the machine may have brought (GLIBC_ABI_GNU2_TLS).

    ## Why is this bad?
    The loader refuses the object: `version … not found`, or `undefined symbol` for a reference
    without a version. One symbol is enough, even if it is never called.

    ## Example
    `--target rhel:8` and an object with `pthread_create@GLIBC_2.34`.

    ## Common causes
    - The wheel was built on a newer system than the machine. **Solution**: build in an older image.
    - TLS descriptors, the default of some compilers, need GLIBC_ABI_GNU2_TLS. **Solution**:
      `-mtls-dialect=gnu`.
    - The compiler's runtime library is newer there. **Solution**: build with the toolset of the
      manylinux image, which links the newer part of libstdc++ statically.

    ## Fix safety
    Not fixed: only a build on an older system uses the older symbol.
    """
    for world in context.target_worlds:
        wanted: dict[tuple[str, str, bool], dict[str, list[str]]] = {}
        judge = LoadJudge(world=world)
        lacks = set(flatten(map(judge.version_lacks, world.first_loads.values())))
        by_member = values_by_key((world.members.get(lack.requester), lack) for lack in lacks)
        for member, elf in context.wheel.elfs.items():
            for lack in sorted(lack for lack in by_member.get(member, ()) if lack.there):
                dependents = wanted.setdefault((lack.library, lack.there, lack.is_known), {})
                symbols = (_symbols(elf, lack.library, version) for version in lack.versions)
                dependents.setdefault(member, []).extend(symbols)
        loaded = context.loaded_wheel
        promised = world.versions
        for member, name, first in newer_symbols(loaded, promised) if loaded else ():
            prefix = prefix_of(first)
            there = f"{prefix}_{promised[prefix]}"
            dependents = wanted.setdefault((DEFINERS[prefix][0], there, True), {})
            dependents.setdefault(member, []).append(f"{demangle(name)}, which {first} has")
        for (file, there, missing), dependents in wanted.items():
            number = len(dependents)
            first = next(iter(dependents))
            who = f"{count(number, 'object')} do" if number > 1 else f"`{first}` does"
            asked = any(GNU2_TLS in what for what in flatten(dependents.values()))
            yield Hit(
                message=f"`{world.name}` has no version newer than {there} in `{file}`: "
                f"{who} not load there"
                + ("" if missing else ", unless an update has brought what it needs"),
                severity=None if missing else Severity.WARNING,
                member=next(iter(dependents)),
                entry=world.name,
                targets=(world.name,),
                notes=tuple(
                    f"`{dependent}` needs {', '.join(what)}"
                    for dependent, what in dependents.items()
                ),
                hint=WITHOUT_GNU2_TLS
                if asked
                else "build in an older image, or remove the machine from `target`",
            )


def _symbols(elf: Elf, file: str, version: str) -> str:
    asked = (file, version)
    names = [f"{s.name}@{version}" for s in elf.undefined if (s.file, s.version) == asked]
    return join_some(names or [version], 4)


@rule("WF813", "target-lacks-library", Severity.ERROR)
def target_lacks_library(context: Context) -> Iterator[Hit]:
    """Library is missing on a target machine.

    ## What it does
    Simulates loading each object on each machine in `target`: a distribution's minimal image with
    its Python, or what the platform tags promise (`glibc`, `musl`). It is a warning if a package of
    the distribution provides the library. Excluded libraries are not checked, nor are those of
    drivers: whether the user's machine has them is not known.

    ## Why is this bad?
    The import fails: `cannot open shared object file: No such file or directory`. The
    libraries that a platform tag allows exist on every *desktop* of the time, but not in every
    container.

    ## Example
    `--target debian:12` and an object that needs `libGL.so.1`.

    ## Common causes
    - The tag allows the library, so it was not grafted. **Solution**: document which package users
      must install, or open the library at run time.
    - The wheel was not repaired. **Solution**: `wheelfix repair`.

    ## Fix safety
    Not fixed here: `repair` grafts the libraries that the platform tag does not allow, and drops
    the DT_NEEDED entries of those that no object uses (WF201).
    """
    for library, cases in _absences(context).items():
        targets = {world.name: world for world, _ in cases}
        packages = {name: p for name, t in targets.items() if (p := t.packages.get(library))}
        may_have = reason_to_leave_out(library)
        without = () if may_have else tuple(name for name in targets if name not in packages)
        dependents = (f"needed by {join_some((dependent for _, dependent in cases), FEW)}",)
        if without:
            names = ", ".join(f"`{name}`" for name in without)
            yield Hit(
                message=f"{names} {by_number(without, 'has', 'have')} no `{library}`",
                member=cases[0][1],
                entry=library,
                targets=without,
                notes=dependents,
                hint="ship it in the wheel; if another package provides it, add it to `exclude`",
            )
        if packages:
            listed = packages_with(library, targets.values())
            yield Hit(
                message=f"`{library}` requires a package of the distribution: {listed}",
                member=cases[0][1],
                entry=library,
                targets=tuple(packages),
                notes=dependents,
                hint="document which package to install"
                + ", or ship the library" * (not reason_not_to_bundle(library)),
                severity=Severity.WARNING,
            )


def packages_with(library: str, worlds: Iterable[World]) -> str:
    """Return the packages of distributions that have a library; empty where none is known."""
    named = ((world.packages.get(library), world.name) for world in worlds)
    return ", ".join(f"`{package}` of `{name}`" for package, name in named if package)


def _absences(context: Context) -> dict[str, list[tuple[World, str]]]:
    """Return the libraries missing on targets: on which, and for which object.

    Those that other rules report are left out.
    """
    verdict, known = context.verdict, _own(context) | context.left.libraries.keys()
    known |= {use.library for use in context.provider_uses}
    if verdict is not None and not has_local_tag(context.wheel.name.platforms):
        known |= {*verdict.external}
    return values_by_key(
        (name, (world, dependent))
        for world in context.target_worlds
        for name, dependent in _missing(world)
        if name not in known and not matches_any(name, context.settings.exclude)
    )


def _own(context: Context) -> set[str | None]:
    return {elf.soname for elf in context.wheel.elfs.values()} | context.shipped.keys()


def lacking_targets(context: Context) -> Mapping[str, list[str]]:
    """Return the targets without libraries that the wheel neither has nor finds there."""
    own, without = _own(context), targets_without(context).items()
    return values_by_key((name, lib) for lib, names in without if lib not in own for name in names)


def targets_without(context: Context) -> dict[str, dict[str, None]]:
    """Return for each library that a target lacks the names of these targets."""
    return {
        library: dict.fromkeys(names)
        for library, names in values_by_key(
            (library, world.name)
            for world in context.target_worlds
            for library, _ in _missing(world)
        ).items()
    }


def _missing(world: World) -> Iterator[tuple[str, str]]:
    """Yield the DT_NEEDED entries that are not found, each with the member that has it."""
    for load in world.first_loads.values():
        for request in load.missing:
            dependent = world.members.get(request.requester or "")
            if dependent is not None:
                yield request.name, dependent


@rule("WF814", "target-page-size", Severity.ERROR)
def target_page_size(context: Context) -> Iterator[Hit]:
    """Object is not aligned for the page size of a target machine.

    ## What it does
    Compares the alignment of each PT_LOAD with the page sizes in `target`, for architectures with
    several page sizes: aarch64, ppc64le and loongarch64.

    ## Why is this bad?
    The loader cannot map the object: `ELF load command alignment not page-aligned`. RHEL 8 on
    aarch64 has pages of 64 KiB, Asahi Linux and Android 15 of 16 KiB.

    ## Example
    `--target page:64k` and an aarch64 object linked with `-z max-page-size=4096`.

    ## Common causes
    - `-z max-page-size=4096` for smaller files. **Solution**: remove it; the linker's default is
      right.
    - A linker other than GNU ld with a smaller default. **Solution**: `-z max-page-size=65536`.
    - patchelf used the wrong page size. **Solution**: `patchelf --page-size 65536`.

    ## Fix safety
    Not fixed: the object must be linked again.
    """
    for name in filter(is_page, context.settings.target):
        size = page_size(name)
        for member, elf in context.wheel.elfs.items():
            small = fitting_pages(elf)
            if elf.dynamic and size in possible_pages(elf) and small % size:
                yield Hit(
                    message=f"is aligned for pages of {_kib(small)}: it does not load with pages "
                    f"of {_kib(size)}",
                    member=member,
                    entry=name,
                    targets=(name,),
                    hint=f"link with `-z max-page-size={size}`",
                )


def _kib(size: int) -> str:
    return f"{size // 1024} KiB" if size % 1024 == 0 else f"{count(size, 'byte')}"


@rule("WF815", "target-executable-stack", Severity.ERROR)
def target_executable_stack(context: Context) -> Iterator[Hit]:
    """Object requires an executable stack, which a target machine refuses.

    ## What it does
    Reports shared objects whose PT_GNU_STACK is executable, or missing where that means the same,
    for each machine in `target` with glibc 2.41 or later.

    ## Why is this bad?
    Since glibc 2.41, `dlopen` no longer makes the stack executable: `cannot enable executable stack
    as shared object requires: Invalid argument`.

    ## Example
    `--target glibc:2.41`, and an object with a hand-written assembly file.

    ## Common causes
    - Assembly without `.note.GNU-stack`. **Solution**: add the section, or link with
      `-z noexecstack`.
    - Nested functions of GNU C whose address is taken. **Solution**: write them as ordinary
      functions.

    ## Fix safety
    Not fixed here: see WF603.
    """
    refusing = values_by_key(
        (world.members.get(lack.requester), world.name)
        for world in context.target_worlds
        for load in world.first_loads.values()
        for lack in LoadJudge(world=world).stack_lacks(load)
    )
    for member in filter(refusing.__contains__, context.wheel.elfs):
        names = tuple(dict.fromkeys(refusing[member]))
        yield Hit(
            message="requires an executable stack, and does not load on "
            + ", ".join(f"`{name}`" for name in names),
            member=member,
            entry=names[0],
            targets=names,
            hint="link with `-z noexecstack`, or add `.note.GNU-stack` to assembly files",
        )


@set_rule("WF816", "unmatched-target", Severity.WARNING)
def unmatched_target(context: SetContext) -> Iterator[Hit]:
    """Machine of `--target` applies to none of the wheels.

    ## What it does
    Reports machines in `target` whose C library none of the wheels is for.

    ## Why is this bad?
    Nothing was checked for the machine: its users get another wheel, or none.

    ## Example
    `--target alpine:3.20`, which has musl, and only `manylinux` wheels.

    ## Common causes
    - Wheels are missing in this run. **Solution**: check all wheels of a release in one run.
    - The machine is not supported. **Solution**: remove it from `target`.

    ## Fix safety
    Not fixed.
    """
    if not context.wheels:
        return
    linux = [wheel for wheel in context.wheels if other_system(wheel.name.platforms) is None]
    applying = set(flatten(applicable(wheel, context.settings) for wheel in linux))
    for name in context.settings.target:
        if not is_page(name) and name not in applying:
            yield Hit(
                message=f"`--target {name}` applies to none of the wheels",
                entry=name,
                hint="check the wheels for its C library as well, or remove it from `target`",
            )
