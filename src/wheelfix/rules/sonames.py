"""Whether SONAMEs, file names and DT_NEEDED agree."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from wheelfix.analysis.opened_libraries import opened_by_path
from wheelfix.elf.model import Elf, Libc
from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.rules.context import Context, Stage
from wheelfix.rules.findings import Fix, Hit, Severity
from wheelfix.rules.rule import rule
from wheelfix.wheel.edits import RenameNeeded
from wheelfix.wheel.grafted_name import original_name, unhashed
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.platform_tags import promised_libcs


def dependents(wheel: Wheel, name: str) -> tuple[str, ...]:
    """Return the objects of the wheel with `name` in DT_NEEDED."""
    return tuple(member for member, elf in wheel.elfs.items() if name in elf.needed)


def libraries_called(wheel: Wheel, name: str) -> tuple[str, ...]:
    """Return the objects that answer to the bare `name` once they are loaded."""
    return tuple(
        member
        for member, elf in wheel.elfs.items()
        if elf.dynamic and name in {elf.soname, member.rpartition("/")[2]}
    )


def grafted_as(wheel: Wheel, name: str) -> str | None:
    """Return the library of the wheel that was called `name` before it was grafted."""
    for member, elf in wheel.elfs.items():
        file = member.rpartition("/")[2]
        if elf.dynamic and name in {unhashed(file), unhashed(elf.soname or "")}:
            return member
    return None


def _listed(names: Iterable[str]) -> str:
    shown = [f"`{name}`" for name in names]
    more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
    return ", ".join(shown[:3]) + more


@rule("WF313", "soname-differs", Severity.ERROR, Stage.BEFORE)
def soname_differs(context: Context) -> Iterator[Hit]:
    """File name of a bundled library differs from its SONAME.

    ## What it does
    Reports DT_NEEDED entries that name no file of the wheel, where a library of the wheel has
    that name as its SONAME.

    ## Why is this bad?
    The loader looks for *files*; it compares SONAMEs only with what is loaded already. The user
    of the library does not load, or loads another copy that the system has; and auditwheel says
    that the library `could not be located`, or grafts the build machine's.

    ## Example
    The file `libin.so` has the SONAME `libin.so.2`, and `user.so` needs `libin.so.2`.

    ## Common causes
    - The symbolic link `libin.so.2 -> libin.so` is not in the wheel: a zip has no links.
      **Solution**: ship the file under its SONAME, or `wheelfix repair`.

    ## Fix safety
    Safe: DT_NEEDED of its users changes to the file name, with the Verneed records that go with
    it. The library itself stays as it is, under its path and with its SONAME: what opens it by
    path, and what relies on its being loaded, still finds it.
    """
    wheel = context.wheel
    names = dict.fromkeys(name for elf in wheel.elfs.values() for name in elf.needed)
    for name in names:
        if name in context.shipped or may_come_from_platform(name):
            continue
        users = dependents(wheel, name)
        library = _with_soname(wheel, name, wheel.elfs[users[0]])
        if library is None:
            continue
        file = library.rpartition("/")[2]
        edits = tuple(
            RenameNeeded(member=user, old=name, new=file) for user in users if user != library
        )
        yield Hit(
            message=f"has the SONAME `{name}`, but its file name is `{file}`: who needs it by the "
            "one does not find the other",
            member=library,
            entry=name,
            notes=(f"needed by {_listed(users)}",),
            hint="`wheelfix repair` lets its users ask for the file name",
            fix=Fix(title="ask for the file name", edits=edits) if edits else None,
            severity=Severity.WARNING if opened_by_path(wheel, library) else None,
        )


def _with_soname(wheel: Wheel, name: str, user: Elf) -> str | None:
    kind = (user.bits, user.machine, user.little_endian)
    for member, elf in wheel.elfs.items():
        fits = (elf.bits, elf.machine, elf.little_endian) == kind
        if elf.soname == name and elf.dynamic and not elf.is_executable and fits:
            return member
    return None


@rule("WF314", "duplicate-soname", Severity.WARNING)
def duplicate_soname(context: Context) -> Iterator[Hit]:
    """Two different bundled libraries have the same SONAME.

    ## What it does
    Reports libraries with the same SONAME and different content, if something of the wheel needs
    that name.

    ## Why is this bad?
    A process has one library for a name: the one that is loaded first serves all that ask for
    the name later. Which one that is depends on what is imported first.

    ## Example
    `pkg/a/libcore.so.1` and `pkg/b/libcore.so.1`, of two versions.

    ## Common causes
    - Two parts of a package bring different builds of one library. **Solution**: build both with
      one of them, or give each a SONAME of its own.

    ## Fix safety
    Not fixed: which of them is meant for whom is not to be seen.
    """
    groups: dict[tuple[str, int, int], list[str]] = {}
    needed = {name for elf in context.wheel.elfs.values() for name in elf.needed}
    for member, elf in context.wheel.elfs.items():
        if elf.soname and elf.soname in needed and elf.dynamic and not elf.is_executable:
            groups.setdefault((elf.soname, elf.bits, elf.machine), []).append(member)
    for (soname, *_), members in groups.items():
        first, *others = members
        for other in others:
            if _content(context.wheel.elfs[first]) != _content(context.wheel.elfs[other]):
                yield Hit(
                    message=f"has the SONAME `{soname}` of another library: the one that is "
                    "loaded first serves both kinds of users",
                    member=other,
                    entry=soname,
                    notes=(f"the other one is `{first}`",),
                    hint="ship one of them, or give each a SONAME of its own",
                )


def _content(elf: Elf) -> Elf:
    """Return what tells two builds apart, without what a repair may change."""
    return replace(elf, rpath=None, runpath=None, segments=())


_COMMON = re.compile(
    r"lib(?:z|ssl|crypto|stdc\+\+|gomp|gcc_s|gfortran|quadmath|jpeg|turbojpeg|png\d*|sqlite3|curl|"
    r"lzma|bz2|zstd|lz4|ffi|xml2|xslt|freetype|tiff|webp|expat|openblas|blas|lapack|ncursesw?|"
    r"tinfo|readline|pq|ssh2|nghttp2|protobuf|hdf5|iconv|pcre2?(?:-8)?|uuid|krb5|gssapi_krb5)"
    r"\.so(?:\.\d+)*"
)
"""SONAMEs that every other system and wheel has, too."""


@rule("WF315", "common-soname", Severity.WARNING)
def common_soname(context: Context) -> Iterator[Hit]:
    """Bundled library keeps a common SONAME such as libz.so.1.

    ## What it does
    Reports libraries of the wheel whose SONAME is a widespread one, such as `libz.so.1` or
    `libssl.so.3`, and not a private one like `libz-1a2b3c4d.so.1`.

    ## Why is this bad?
    A process has one library for a SONAME, whoever loaded it first. If that was the system or
    another wheel, this wheel runs with their copy, which may lack a symbol or a version; if it
    was this wheel, they run with this one.

    ## Example
    `pkg/lib/libssl.so.3`: after `import ssl` the wheel's own modules use the system's OpenSSL.

    ## Common causes
    - The library was copied into the package by hand. **Solution**: leave it out, and let
      `wheelfix repair` graft it under a private name; or link it statically.
    - It is wanted so, to be shared (`libgomp` of a family of wheels). **Solution**: ignore the
      rule, and say why.

    ## Fix safety
    Not fixed: code that opens the library by its path or its name would have to change, too.
    """
    for member, elf in context.wheel.elfs.items():
        name = elf.soname or member.rpartition("/")[2]
        if elf.dynamic and not elf.is_executable and _COMMON.fullmatch(name):
            users = dependents(context.wheel, name)
            yield Hit(
                message=f"ships `{name}` under its common name: the first copy in the process "
                "serves everybody, this one or another",
                member=member,
                entry=name,
                notes=(f"needed by {_listed(users)}",) if users else (),
                hint="leave it out and let `wheelfix repair` graft it under a private name",
            )


_RUNTIMES: Mapping[str, tuple[str, Severity]] = {
    "libstdc++": (
        (
            "types, locales and exceptions of the two do not mix, and an older one that is loaded "
            "first lacks `GLIBCXX` versions that others need"
        ),
        Severity.WARNING,
    ),
    "libgcc_s": (
        (
            "an exception or a `pthread_cancel` that one unwinder starts cannot pass frames that "
            "only the other knows"
        ),
        Severity.WARNING,
    ),
    "libgomp": (
        (
            "each has its own pool of threads: together they start more threads than there are "
            "processors, and settings such as `omp_set_num_threads` reach only one of them"
        ),
        Severity.INFO,
    ),
}


@rule("WF316", "second-runtime", Severity.WARNING)
def second_runtime(context: Context) -> Iterator[Hit]:
    """Wheel bundles a compiler runtime: libstdc++, libgcc_s or libgomp.

    ## What it does
    Reports libstdc++, libgcc_s and libgomp among the files of the wheel, under whatever name.

    ## Why is this bad?
    Other modules of the process use the system's copy, or that of another wheel. What a runtime
    keeps for the whole process then exists twice: thread pools (libgomp), the unwinder's tables
    (libgcc_s), locales and type identity (libstdc++).

    ## Example
    `scikit_learn.libs/libgomp-a34b3233.so.1.0.0`.

    ## Common causes
    - libstdc++ and libgcc_s are promised by all manylinux tags. **Solution**: leave them out;
      build on an older system if the promised one is too old.
    - libgomp is promised by none, so auditwheel grafts it. **Solution**: none is better in
      general; `OMP_NUM_THREADS` reaches all copies.

    ## Fix safety
    Not fixed.
    """
    for member, elf in context.wheel.elfs.items():
        name = member.rpartition("/")[2]
        own = original_name(name)
        runtime = _RUNTIMES.get(own.partition(".so")[0])
        musl = Libc.MUSL in promised_libcs(context.wheel.name.platforms)
        if runtime is None or not elf.dynamic or (musl and "gomp" not in own):
            continue
        consequence, severity = runtime
        yield Hit(
            message=f"ships a `{own}` of its own beside the one that others use",
            member=member,
            entry=own,
            notes=(consequence,),
            severity=severity,
        )


RULES = (soname_differs, duplicate_soname, common_soname, second_runtime)
