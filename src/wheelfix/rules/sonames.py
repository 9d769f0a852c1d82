"""Whether SONAMEs, file names and DT_NEEDED agree."""

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from glob import escape

from wheelfix.analysis.load_failures import Failure, LoadJudge, gets_otherwise
from wheelfix.elf.demangle import join_symbols
from wheelfix.elf.model import Abi, Elf, Libc
from wheelfix.elf.object_file_names import stem_of
from wheelfix.grouping import flatten
from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.loader.targets import default_name, find
from wheelfix.providers.markers import requirements_on
from wheelfix.providers.provider_uses import provider_of
from wheelfix.providers.well_known import well_known_providers_of
from wheelfix.python_sources.open_flags import line_for_all
from wheelfix.rules.context import Context, Stage
from wheelfix.rules.findings import Fix, Hit, Severity
from wheelfix.rules.rule import rule
from wheelfix.settings import matches_any
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.text import FEW, join_some
from wheelfix.wheel.edits import RenameNeeded
from wheelfix.wheel.grafted_name import original_name, repaired_without
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.platform_tags import only_promised


@rule("WF313", "soname-differs", Severity.ERROR, Stage.BEFORE)
def soname_differs(context: Context) -> Iterator[Hit]:
    """File name of a bundled library differs from its SONAME.

    ## What it does
    Reports DT_NEEDED entries that match no file name in the wheel, but the SONAME of a bundled
    library. It is a warning where a library of that SONAME may be loaded before: Python code opens
    it by its path, or a requirement has it, or one that may have it has another library that the
    objects need, or nothing in the wheel is seen to load them.

    ## Why is this bad?
    The loader searches for *file names*; it compares SONAMEs only with libraries that are already
    loaded. The dependent object fails to load, or loads a copy of the system; and auditwheel says
    that the library `could not be located`, or grafts that of the build machine.

    ## Example
    The file `libin.so` has the SONAME `libin.so.2`, and `user.so` needs `libin.so.2`.

    ## Common causes
    - The symbolic link `libin.so.2 -> libin.so` is not in the wheel, because wheels cannot hold
      links. **Solution**: ship the file under its SONAME, or `wheelfix repair`.

    ## Fix safety
    Safe: DT_NEEDED of the dependents changes to the file name, with the corresponding Verneed
    records. Path and SONAME of the library stay: code that opens it by path, or relies on its being
    loaded, still finds it. Not fixed where a requirement may load a library of that SONAME before:
    the process would have two.
    """
    wheel = context.wheel
    for name, dependents in context.dependents.items():
        if name in context.shipped or may_come_from_platform(name, context.wheel.libc):
            continue
        library = _with_soname(wheel, name, wheel.elfs[dependents[0]])
        if library is None:
            continue
        file = library.rpartition("/")[2]
        edits = tuple(
            RenameNeeded(member=dependent, old=name, new=file)
            for dependent in dependents
            if dependent != library
        )
        is_elsewhere = _comes_with_a_requirement(name, dependents, context)
        is_known = (
            is_elsewhere
            or context.named_libraries.is_opened_by_path(library)
            or context.objects_in_use.isdisjoint(dependents)
        )
        yield Hit(
            message=f"has the SONAME `{name}`, but the file name `{file}`: objects that need the "
            "SONAME do not find the file",
            member=library,
            entry=name,
            notes=(f"needed by {join_some(dependents, 3)}",),
            hint=_of_requirement(name, file, context)
            if is_elsewhere
            else "`wheelfix repair` changes their DT_NEEDED to the file name",
            fix=Fix(title="use the file name in DT_NEEDED", edits=edits)
            if edits and not is_elsewhere
            else None,
            severity=Severity.WARNING if is_known else None,
        )


def _of_requirement(name: str, file: str, context: Context) -> str:
    """Return what to do about a library that a requirement may load before."""
    if not (provider_of(name, context.providers) or well_known_providers_of(name)):
        return "build the wheel with the file under its SONAME"
    is_named = file in context.dependents
    way = repaired_without(name) if is_named else "leave it out of the wheel"
    return f"{way}, if a requirement loads its own copy before"


def _comes_with_a_requirement(name: str, dependents: Iterable[str], context: Context) -> bool:
    """Return whether what loads before the dependents, such as torch, may load the name."""
    left, needed = context.left, flatten(context.wheel.elfs[each].needed for each in dependents)
    may_bring = left.of_extras or left.that_may_bring([name])
    if provider_of(name, context.providers) or (may_bring and {*needed} & left.libraries.keys()):
        return True
    serving = {u.provider.file_name for u in context.provider_uses if u.member in dependents}
    read = {neighbor.name: neighbor for neighbor in context.beside if neighbor.name in serving}
    if serving > read.keys() or not all(neighbor.platforms for neighbor in read.values()):
        return True  # of a distribution that is known by its name alone, more may be loaded
    return any(name in elf.needed for elf in flatten(n.elfs.values() for n in read.values()))


def _with_soname(wheel: Wheel, name: str, dependent: Elf) -> str | None:
    for member, elf in wheel.elfs.items():
        fits = elf.abi == dependent.abi
        if elf.soname == name and elf.is_library and fits:
            return member
    return None


@rule("WF314", "duplicate-soname", Severity.WARNING)
def duplicate_soname(context: Context) -> Iterator[Hit]:
    """Two different bundled libraries have the same SONAME.

    ## What it does
    Reports libraries that have the same SONAME, but differ in symbols, needed libraries or
    build-id, if an object of the wheel needs that name. Those for other processors, below
    `glibc-hwcaps`, are not compared with the library that they replace. It is an error if a module
    surely fails: what is imported before it loads the one, and it uses what only the other has.

    ## Why is this bad?
    A process loads only one library for a SONAME: the first one satisfies all later requests for
    the name. Which one that is depends on the order of imports.

    ## Example
    `pkg/a/libcore.so.1` and `pkg/b/libcore.so.1`, two versions of a library.

    ## Common causes
    - Two parts of a package bundle different builds of a library. **Solution**: build both with the
      same one, or give each its own SONAME.

    ## Fix safety
    Not fixed: it is unknown which object is meant to use which library.
    """
    groups: dict[tuple[str, Abi], list[str]] = {}
    for member, elf in context.wheel.elfs.items():
        soname = elf.soname or ""
        if soname in context.dependents and elf.is_library:
            groups.setdefault((soname, elf.abi), []).append(member)
    for (soname, _), members in groups.items():
        first, *others = members
        failures = list(_failures(context, soname)) if others else []
        for other in others:
            if _for_any_processor(other) == _for_any_processor(first):
                continue
            failing = [note for copies, note in failures if other in copies][:1]
            if failing or _content(context.wheel.elfs[first]) != _content(
                context.wheel.elfs[other]
            ):
                yield Hit(
                    message=f"has the same SONAME `{soname}` as another library: the one that is "
                    "loaded first is used for both",
                    member=other,
                    entry=soname,
                    notes=(f"the other one is `{first}`", *failing),
                    hint="ship only one of them, or give each its own SONAME",
                    severity=Severity.ERROR if failing else None,
                )


def _failures(context: Context, soname: str) -> Iterator[tuple[Sequence[str], str]]:
    """Yield a note on each module that surely gets one of two copies, and fails without the other.

    It comes with the copies.
    """
    wheel, order, loaded = context.wheel, context.import_order, context.loaded_wheel
    if loaded is None:
        return
    world = context.world.on(find(default_name(wheel), wheel))
    judge = LoadJudge(world=world, index=loaded.index)
    for module in (m for m in loaded.paths if wheel.elfs[m].is_module):
        alone = world.load(module)
        *earlier, load = world.process(alone.root, context.opened_before(world, module))
        lacks = [lack for lack in judge.lacks_beside(load, alone) if lack.is_known]
        lost = [n for k in lacks if k.failure is not Failure.UNVERSIONED for n in k.names]
        for request, usual in gets_otherwise(load, alone):
            roots = (each.root for each in earlier if request.result in each.objects)
            by, *copies = map(world.label, (next(roots, load.root), request.result, usual))
            is_unsure = (
                not order.is_done_before(by, module)
                or order.possible_opener(by, [posixpath.basename(copies[1])])
                or any(order.may_run_before(module, line_for_all))
            )
            if lost and request.name == soname and not is_unsure:
                why = f"which loads `{copies[0]}`: that lacks {join_symbols(lost, FEW)}"
                yield copies, f"`{module}` fails after the import of `{by}`, {why}"


def _for_any_processor(member: str) -> str:
    """Return the place of the library that `member`, below `glibc-hwcaps`, may stand for."""
    return re.sub(r"(?<![^/])glibc-hwcaps/[^/]+/", "", member)


def _content(elf: Elf) -> Elf:
    """Return `elf` without what a repair may change, to compare two builds."""
    return elf._replace(rpath=None, runpath=None, segments=())


_COMMON = lazy_pattern(
    r"lib(?:z|ssl|crypto|stdc\+\+|gomp|gcc_s|gfortran|quadmath|jpeg|turbojpeg|png\d*|sqlite3|curl|"
    r"lzma|bz2|zstd|lz4|ffi|xml2|xslt|freetype|tiff|webp|expat|openblas|blas|lapack|ncursesw?|"
    r"tinfo|readline|pq|ssh2|nghttp2|protobuf|hdf5|iconv|pcre2?(?:-8)?|uuid|krb5|gssapi_krb5)"
    r"\.so(?:\.\d+)*"
)
"""SONAMEs that many systems and other wheels have as well."""


@rule("WF315", "common-soname", Severity.WARNING)
def common_soname(context: Context) -> Iterator[Hit]:
    """Bundled library keeps a common SONAME such as libz.so.1.

    ## What it does
    Reports bundled libraries with a widespread SONAME, such as `libz.so.1` or `libssl.so.3`, or
    with that of a well-known wheel that METADATA requires, instead of a unique one like
    `libz-1a2b3c4d.so.1`, unless `include` or `keep-names` asks for the name.

    ## Why is this bad?
    A process loads only one library for a SONAME: the first one. If that is the copy of the system
    or of another wheel, this wheel uses it, although it may lack a symbol or a version; and the
    other way round.

    ## Example
    `pkg/lib/libssl.so.3`: after `import ssl`, the wheel's own modules use the system's OpenSSL.

    ## Common causes
    - The library was copied into the package by hand. **Solution**: leave it out, and let `wheelfix
      repair` graft it under a unique name, unless the platform tag promises it; or link it
      statically.
    - The library is meant to be shared (`libgomp` of a family of wheels). **Solution**: ignore the
      rule, with a reason.

    ## Fix safety
    Not fixed: code that opens the library by its path or name would have to change as well.
    """
    asked = (*context.settings.keep_names, *map(escape, context.included))
    for member, elf in context.wheel.elfs.items():
        name = elf.soname or member.rpartition("/")[2]
        if not elf.is_library or matches_any(name, asked):
            continue
        required = [p for p in well_known_providers_of(name) if requirements_on(context.wheel, p)]
        if _COMMON.fullmatch(name) or required:
            dependents = context.dependents.get(name, ())
            yield Hit(
                message=f"has the common SONAME `{name}`: the first copy loaded in the process "
                "is used by all, whether this one or another",
                member=member,
                entry=name,
                notes=(f"needed by {join_some(dependents, 3)}",) if dependents else (),
                hint=f"build the wheel without it: METADATA requires {required[0]}, which has it"
                if required
                else "build the wheel without it: a repair grafts it under a unique name, unless "
                "the platform tag promises it",
            )


_RUNTIMES = {
    "libstdc++": "types, locales and exceptions of the two copies do not mix, and an older copy "
    "that is loaded first lacks `GLIBCXX` versions that others need",
    "libgcc_s": "an exception or a `pthread_cancel` that one unwinder starts cannot pass frames "
    "that only the other knows",
    "libgomp": "each copy has its own thread pool: together they start more threads than there are "
    "processors, and settings such as `omp_set_num_threads` affect only one of them",
}


@rule("WF316", "second-runtime", Severity.WARNING)
def second_runtime(context: Context) -> Iterator[Hit]:
    """Wheel bundles a compiler runtime: libstdc++, libgcc_s or libgomp.

    ## What it does
    Reports libstdc++, libgcc_s and libgomp in the wheel, also when renamed by a graft.

    ## Why is this bad?
    Other modules of the process use the system's copy, or that of another wheel. State that should
    exist once per process then exists twice: thread pools (libgomp), unwinder tables (libgcc_s),
    locales and type identity (libstdc++).

    ## Example
    `scikit_learn.libs/libgomp-a34b3233.so.1.0.0`.

    ## Common causes
    - libstdc++ and libgcc_s are allowed by all manylinux tags. **Solution**: leave them out; build
      on an older system if the promised version is too old.
    - libgomp is allowed by none, so auditwheel grafts it. **Solution**: there is none that is
      better in general; `OMP_NUM_THREADS` affects all copies.

    ## Fix safety
    Not fixed.
    """
    for member, elf in context.wheel.elfs.items():
        name = member.rpartition("/")[2]
        original = original_name(name)
        consequence = _RUNTIMES.get(stem_of(original))
        musl = only_promised(context.wheel.name.platforms) not in {None, Libc.GLIBC}
        if consequence is None or not elf.dynamic or (musl and "gomp" not in original):
            continue
        yield Hit(
            message=f"bundles its own copy of the runtime `{original}`",
            member=member,
            entry=original,
            notes=(consequence,),
            severity=Severity.NOTE if "gomp" in original else None,
        )
