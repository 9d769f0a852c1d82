"""Whether the wheel loads on the machines that the project names: `--target`.

What a machine has is data (`loader.targets`). Each object is loaded on it on paper, as installed
by its first scheme, and what stands in the way is reported once for each machine and cause.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from wheelfix.elf.model import Elf, Machine
from wheelfix.loader.targets import Target, default_name, newer, page_sizes
from wheelfix.rules.context import Context, Trial
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.rule import rule
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.platform_tags import Family, parse_platform_tag

_PT_LOAD, _PT_GNU_STACK, _PF_X = 1, 0x6474E551, 1
_PAGES: Mapping[int, tuple[int, ...]] = {
    Machine.AARCH64: (4096, 16384, 65536),
    Machine.PPC64: (4096, 65536),
    Machine.LOONGARCH: (4096, 16384, 65536),
}
"""The page sizes that kernels are built with; other machines have 4 KiB and no choice."""
_REFUSES_EXECUTABLE_STACK = "2.41"
_STACK_EXECUTABLE_UNLESS_SAID = {Machine.I386, Machine.X86_64, Machine.S390, Machine.ARM}
"""DEFAULT_STACK_PERMS of glibc's stackinfo.h, by processor."""
_SINCE = {"GLIBC_ABI_DT_RELR": "2.36"}
"""Version names without a number that a release of glibc brought."""


# --- Is it installed at all ---------------------------------------------------------------------


@rule("WF811", "target-not-offered", Severity.ERROR)
def target_not_offered(context: Context) -> Iterator[Hit]:
    """Installers on a target machine do not take the wheel.

    ## What it does
    Compares the platform tags with the C library of each machine in `target`, as PEP 600 and PEP
    656 say. Machines with another C library than the wheel's are not looked at: another wheel
    is for them.

    ## Why is this bad?
    pip passes the wheel over without a word, and builds from source, takes an older release, or
    fails with `No matching distribution found`.

    ## Example
    `--target debian:11`, which has glibc 2.31, and a wheel tagged `manylinux_2_34_x86_64`.

    ## Common causes
    - Built in a newer image than needed. **Solution**: `manylinux-x86_64-image` of cibuildwheel.
    - The machine is no longer supported. **Solution**: take it out of `target`.

    ## Fix safety
    Not fixed: only a build on an older system runs on an older one.
    """
    promised = default_name(context.wheel).partition(":")[2]
    for target in context.targets:
        there = target.versions.get("GLIBC")
        if promised and there is not None and newer(promised, there):
            yield Hit(
                message=f"`{target.name}` has glibc {there}, and the wheel's tags begin at "
                f"{promised}: installers there do not take it",
                entry=target.name,
                hint="build in an older image, or take the machine out of `target`",
            )


# --- Does it load -------------------------------------------------------------------------------


@rule("WF812", "target-lacks-version", Severity.ERROR)
def target_lacks_version(context: Context) -> Iterator[Hit]:
    """A library of a target machine is too old for an object.

    ## What it does
    Loads each object on paper on each machine in `target`, and compares the symbol versions that
    it wants of the machine's libraries with the newest that these have.

    ## Why is this bad?
    The loader refuses the object: `/lib/x86_64-linux-gnu/libc.so.6: version 'GLIBC_2.34' not
    found`. One symbol is enough, whether it is ever called or not.

    ## Example
    `--target rhel:8` and an object with `pthread_create@GLIBC_2.34`.

    ## Common causes
    - Built on a system newer than the machine. **Solution**: build in an older image.
    - The compiler's runtime library is newer there. **Solution**: build with the toolset of the
      manylinux image, which links the newer part of libstdc++ statically.

    ## Fix safety
    Not fixed: only a build on an older system gives the older symbol.
    """
    for trial in context.trials:
        served = _served_by_wheel(trial)
        wanted: dict[tuple[str, str], dict[str, list[str]]] = {}
        for member in trial.loads:
            elf = context.wheel.elfs[member]
            for file, version in _missing_versions(elf, trial.target):
                if (member, file) not in served:
                    users = wanted.setdefault((file, _newest(version, trial.target)), {})
                    users.setdefault(member, []).append(_symbols(elf, file, version))
        for (file, there), users in wanted.items():
            yield Hit(
                message=f"`{trial.target.name}` has nothing newer than {there} in `{file}`: "
                f"{_do_not_load(tuple(users))}",
                member=next(iter(users)),
                entry=trial.target.name,
                notes=tuple(f"`{user}` needs {', '.join(what)}" for user, what in users.items()),
                hint="build in an older image, or take the machine out of `target`",
            )


def _missing_versions(elf: Elf, target: Target) -> Iterator[tuple[str, str]]:
    for need in elf.verneed:
        for version in need.versions:
            prefix, _, number = version.partition("_")
            there = target.versions.get(prefix)
            if there is not None and newer(_SINCE.get(version, number), there):
                yield need.file, version


def _newest(version: str, target: Target) -> str:
    prefix = version.partition("_")[0]
    return f"{prefix}_{target.versions[prefix]}"


def _symbols(elf: Elf, file: str, version: str) -> str:
    names = [
        f"`{s.name}@{version}`" for s in elf.undefined if (s.file, s.version) == (file, version)
    ]
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(names[:4]) + more if names else f"`{version}`"


def _served_by_wheel(trial: Trial) -> frozenset[tuple[str, str]]:
    """Return the names, with who asks, that lead to a library of the wheel itself."""
    return frozenset(
        (trial.places[requester], request.name)
        for load in trial.loads.values()
        for request in load.requests
        if (requester := request.requester) is not None
        and requester in trial.places
        and request.result in trial.places
    )


def _do_not_load(members: Sequence[str]) -> str:
    if len(members) == 1:
        return f"`{members[0]}` does not load there"
    return f"{len(members)} objects do not load there"


@rule("WF813", "target-lacks-library", Severity.ERROR)
def target_lacks_library(context: Context) -> Iterator[Hit]:
    """A library that an object needs is not on a target machine.

    ## What it does
    Loads each object on paper on each machine in `target`: a distribution's minimal image with
    its Python, or what the platform tags promise (`glibc`, `musl`). It is a warning where a
    package of the distribution brings the library. Excluded libraries are not looked for.

    ## Why is this bad?
    The import fails: `libGL.so.1: cannot open shared object file: No such file or directory`. The
    list of a platform tag says what every *desktop* of the time had; a container has less.

    ## Example
    `--target debian:12` and an object that needs `libGL.so.1`.

    ## Common causes
    - The tag allows the library, so it was not grafted. **Solution**: tell users which package to
      install, or open the library at run time.
    - The wheel was not repaired. **Solution**: `wheelfix repair`.

    ## Fix safety
    Not fixed here: `repair` grafts what the platform tag does not allow.
    """
    for library, absence in _absences(context).items():
        packages = {t.name: p for t in absence.targets if (p := t.packages.get(library))}
        bare = tuple(target for target in absence.targets if target.name not in packages)
        users = tuple(f"needed by `{user}`" for user in absence.users)
        if bare:
            yield Hit(
                message=f"{_names(bare)} {'have' if len(bare) > 1 else 'has'} no `{library}`",
                member=next(iter(absence.users)),
                entry=library,
                notes=users,
                hint="`wheelfix repair` grafts it; if another package brings it, `--exclude` it",
            )
        if packages:
            listed = ", ".join(f"`{p}` of `{name}`" for name, p in packages.items())
            yield Hit(
                message=f"`{library}` is there only once a package is installed: {listed}",
                member=next(iter(absence.users)),
                entry=library,
                notes=users,
                hint="tell users what to install, or ship the library",
                severity=Severity.WARNING,
            )


class _Absence(NamedTuple):
    """Where a library is missing, and who needs it."""

    targets: list[Target]
    users: dict[str, None]


def _is_linux(wheel: Wheel) -> bool:
    tags = map(parse_platform_tag, wheel.name.platforms)
    return any(tag.family is Family.LINUX for tag in tags)


def _absences(context: Context) -> dict[str, _Absence]:
    """Return what is missing on some target, but for what other rules report for every machine."""
    verdict = context.verdict
    known = {elf.soname for elf in context.wheel.elfs.values()} | context.shipped.keys()
    if verdict is not None and not _is_linux(context.wheel):
        known |= verdict.external.keys()
    found: dict[str, _Absence] = {}
    for trial in context.trials:
        for name, user in _missing(trial):
            if name not in known and not _excluded(name, context):
                absence = found.setdefault(name, _Absence(targets=[], users={}))
                absence.users[user] = None
                if trial.target not in absence.targets:
                    absence.targets.append(trial.target)
    return found


def _missing(trial: Trial) -> Iterator[tuple[str, str]]:
    """Yield the names that lead to nothing, each with the member that asks for it."""
    for load in trial.loads.values():
        for request in load.missing:
            user = trial.places.get(request.requester or "")
            if user is not None:
                yield request.name, user


def _excluded(name: str, context: Context) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in context.settings.exclude)


def _names(targets: Iterable[Target]) -> str:
    return ", ".join(f"`{target.name}`" for target in targets)


@rule("WF814", "target-page-size", Severity.ERROR)
def target_page_size(context: Context) -> Iterator[Hit]:
    """An object is not aligned for the memory pages of a target machine.

    ## What it does
    Compares the alignment of each PT_LOAD with the page sizes in `target`, for machines whose
    kernels have a choice: aarch64, ppc64le and loongarch64.

    ## Why is this bad?
    The loader cannot map the object: `ELF load command alignment not page-aligned`. RHEL 8 on
    aarch64 has pages of 64 KiB, Asahi Linux and Android 15 of 16.

    ## Example
    `--target page:64k` and an aarch64 object linked with `-z max-page-size=4096`.

    ## Common causes
    - `-z max-page-size=4096` to save bytes. **Solution**: leave it out; the linker's own is right.
    - A linker other than GNU ld with a smaller default. **Solution**: `-z max-page-size=65536`.
    - patchelf moved segments for the wrong page size. **Solution**: `patchelf --page-size 65536`.

    ## Fix safety
    Not fixed: the object must be linked again.
    """
    for size in page_sizes(context.settings.target):
        for member, elf in context.wheel.elfs.items():
            aligns = [s.align for s in elf.segments if s.type == _PT_LOAD]
            small = min(aligns, default=size)
            if elf.dynamic and size in _PAGES.get(elf.machine, ()) and small % size:
                yield Hit(
                    message=f"aligned for pages of {_kib(small)}: it does not load where they are "
                    f"of {_kib(size)}",
                    member=member,
                    entry=f"page:{size // 1024}k",
                    hint=f"link with `-z max-page-size={size}`",
                )


def _kib(size: int) -> str:
    return f"{size // 1024} KiB" if size % 1024 == 0 else f"{size} bytes"


@rule("WF815", "target-executable-stack", Severity.ERROR)
def target_executable_stack(context: Context) -> Iterator[Hit]:
    """A target machine refuses an object that wants an executable stack.

    ## What it does
    Reports shared objects whose PT_GNU_STACK is executable, or that have none where that means the
    same, for each machine in `target` with glibc 2.41 or later.

    ## Why is this bad?
    Since 2.41 `dlopen` does not make the stack executable any more: `cannot enable executable
    stack as shared object requires: Invalid argument`.

    ## Example
    `--target glibc:2.41`, and an object with a hand-written assembly file.

    ## Common causes
    - Assembly without `.note.GNU-stack`. **Solution**: add the section, or link with
      `-z noexecstack`.
    - Nested functions of GNU C whose address is taken. **Solution**: write them as functions.

    ## Fix safety
    Not fixed here: WF6xx says what can be done.
    """
    refusing = refusing_executable_stack(context)
    for member, elf in context.wheel.elfs.items() if refusing else ():
        if elf.dynamic and not elf.is_executable and wants_executable_stack(elf):
            yield Hit(
                message="wants an executable stack, and does not load on "
                + ", ".join(f"`{name}`" for name in refusing),
                member=member,
                entry=refusing[0],
                hint="link with `-z noexecstack`, or add `.note.GNU-stack` to assembly files",
            )


def refusing_executable_stack(context: Context) -> tuple[str, ...]:
    """Return the targets whose loader does not load what wants an executable stack."""
    return tuple(
        target.name
        for target in context.targets
        if not newer(_REFUSES_EXECUTABLE_STACK, target.versions.get("GLIBC", "0"))
    )


def wants_executable_stack(elf: Elf) -> bool:
    """Whether glibc makes the stack executable for it: by PT_GNU_STACK, or for want of one."""
    flags = [s.flags for s in elf.segments if s.type == _PT_GNU_STACK]
    if not flags:
        return elf.machine in _STACK_EXECUTABLE_UNLESS_SAID
    return bool(flags[-1] & _PF_X)


RULES = (
    target_not_offered,
    target_lacks_version,
    target_lacks_library,
    target_page_size,
    target_executable_stack,
)
