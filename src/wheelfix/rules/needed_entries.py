"""Whether DT_NEEDED and DT_VERNEED of each object are right."""

import posixpath
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from glob import escape

from wheelfix.analysis.lddtree_search import members_by_name
from wheelfix.analysis.needed_judgement import Unused, opens_by_name
from wheelfix.depth_first import postorder
from wheelfix.elf.demangle import join_symbols
from wheelfix.elf.model import Elf, Libc, libc_of, names_of, starts_at_origin
from wheelfix.elf.object_file_names import stem_of
from wheelfix.grouping import flatten, grouped, values_by_key
from wheelfix.loader.install_schemes import Scheme, describe
from wheelfix.loader.loader_demands import demands_of
from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.loader.python_api import is_libpython, is_python_name
from wheelfix.named_tuple import NamedTuple
from wheelfix.providers.provider_uses import provider_of
from wheelfix.rules.context import Context, Stage
from wheelfix.rules.findings import Fix, Hit, Safety, Severity
from wheelfix.rules.rule import rule
from wheelfix.settings import matches_any
from wheelfix.text import count, join_some, pasteable
from wheelfix.wheel.edits import AddNeeded, DropNeeded, RemoveMember, RenameNeeded
from wheelfix.wheel.grafted_name import remove_hash
from wheelfix.wheel.model import Wheel

_SHOWN = 8
_LISTS = (b"glob", b"listdir", b"scandir", b"iterdir", b"walk")
"""The words by which a Python source finds files without their names."""


@rule("WF201", "unused-needed", Severity.WARNING, Stage.BEFORE)
def unused_needed(context: Context) -> Iterator[Hit]:
    """Unused DT_NEEDED entry: the object uses no symbol of the library.

    ## What it does
    Reports the DT_NEEDED entries that `ld --as-needed` would have left out, and that nothing else
    is known to use: the object has no reference to the library, and no other library that stays
    depends on it implicitly. Versioned references count for the library that they name, whatever
    this machine's libraries define. Loading of every object is then simulated with and without the
    entry, among the libraries of the oldest glibc that can load the wheel: before 2.34, symbols of
    `libpthread`, `libdl`, `librt`, `libutil`, `libanl` and `libresolv` were not in `libc.so.6`. The
    entry is reported only if every symbol binds to the same file.

    If the library is not available, the object itself is judged: the entry is unused if everything
    that the objects of its load refer to is defined by what they need otherwise, by the platform,
    or by Python.

    What else must hold depends on where the library is after a repair. If it stays outside the
    wheel (excluded, of a provider, of a driver, not found), the entry of an extension module or a
    program is reported unless an object of its load calls dlsym and not dlopen, or Python code
    imports it with RTLD_GLOBAL. If it is or goes into the wheel, WF202 says what keeps the entry.

    The C library and the loader are never reported. The other libraries of glibc (`libm.so.6`,
    `libpthread.so.0`, `libdl.so.2`, ...) are only reported with `--prune-needed=all` or
    `--drop-needed`: they are installed wherever `libc.so.6` is, so that dropping them gains
    nothing. Libraries that are in the wheel, that a provider brings, or that the platform may have,
    are for information.

    ## Why is this bad?
    The object does not load without the library, although it does not use it. Outside of the wheel
    it may be missing; or it is grafted with all of its dependencies: a wheel of 111 kB becomes one
    of 22 MB. Loading takes longer, and each copy needs its own security updates.

    ## Example
    CuPy 12: 577 of 714 entries unused; without CUDA, 2 of its 66 modules can be loaded, and 49
    after the repair.

    ## Common causes
    - Every object is linked with all libraries of the project. **Solution**: link with
      `-Wl,--as-needed` before the libraries; Debian's and Ubuntu's compilers do so by default,
      those of manylinux images do not.

    ## Fix safety
    Safe: the entry is removed, with its version record, as if the linker had left it out. An entry
    that may matter for reasons other than symbols is kept and reported by WF202. With
    `--prune-needed=all` or `--drop-needed`, weak references that only the library resolved become
    null, as with `--as-needed`; the note and the summary of the repair name them.
    """
    unused = [entry for entry in context.needed_verdicts.unused if not entry.kept]
    elfs = context.wheel.elfs
    costly = [entry for entry in unused if entry.outside and not _is_there(context, entry.name)]
    without = {
        name: _failing(elfs[entry.member] for entry in same)
        for name, same in _by_name(costly).items()
    }
    every = _failing(elfs[m] for m in dict.fromkeys(entry.member for entry in costly))
    for entry in unused:
        hit = _unused_hit(context, entry)
        # It is outside, and no object loads where it is missing: that is what the user will see.
        if failing := without.get(entry.name) if entry.outside else None:
            hit = replace(
                hit,
                message=f"no symbol of `{entry.name}` is used, and {failing.text} without it",
                several=f"no symbol of {{}} is used, and {every.text} without them",
                notes=(*([failing.objects] if len(without) > 1 else []), *hit.notes),
            )
        yield hit


def _unused_hit(context: Context, entry: Unused) -> Hit:
    name = entry.name
    installed = context.layouts[0].members if context.layouts else dict[str, str]()
    inside = installed.get(entry.library or "")
    return Hit(
        message=f"has an unused DT_NEEDED entry `{name}`",
        member=entry.member,
        entry=name,
        notes=(
            *((f"it is `{inside or entry.library}`",) if entry.library else ()),
            *(f"note: {hazard}" for hazard in entry.hazards),
        ),
        # What is there anyway costs nothing but the time to load it.
        severity=Severity.NOTE if inside or _is_there(context, name) else None,
        hint="`wheelfix repair` drops the entry; linking with `-Wl,--as-needed` avoids it",
        fix=Fix(
            title="drop the unused entry",
            edits=(DropNeeded(member=entry.member, name=name),),
            effects=tuple(f"`{name}` is dropped, though {hazard}" for hazard in entry.hazards),
        ),
    )


def _by_name(entries: Iterable[Unused]) -> Mapping[str, Sequence[Unused]]:
    return grouped(entries, lambda entry: entry.name)


def _is_there(context: Context, library: str) -> bool:
    """Return whether a library outside of the wheel comes with it, or with its platform."""
    return (
        may_come_from_platform(library, context.wheel.libc)
        or provider_of(library, context.providers) is not None
        or library in context.left.expected
    )


class _Failing(NamedTuple):
    """Objects that do not load without a library, in words."""

    objects: str
    text: str


def _failing(elfs: Iterable[Elf]) -> _Failing:
    objects = list(elfs)
    is_module = all(elf.is_module for elf in objects)
    number = count(len(objects), "module" if is_module else "object")
    return _Failing(number, f"{number} cannot be {'imported' if is_module else 'loaded'}")


@rule("WF202", "unused-needed-kept", Severity.NOTE, Stage.BEFORE)
def unused_needed_kept(context: Context) -> Iterator[Hit]:
    """Unused DT_NEEDED entry is kept: without it the package may behave differently.

    ## What it does
    Reports, once for each library, the DT_NEEDED entries that `ld --as-needed` would have left out,
    and that are kept because something else may use them. Those for libraries that platform tags
    allow are not reported.

    Whatever the library: another object gets a symbol through it, if only for a weak reference; it
    defines the module's entry point, `malloc`, or a symbol in place of another object (symbol
    interposition); a library of the wheel that comes with it takes symbols from the object, and
    does not load by itself; the object is a plain library, so that what loads it may reach the
    other one through it.

    If the library is or goes into the wheel, where keeping it costs only its size: the object is
    not an extension module that Python imports; the library, or one that only it brings, has
    constructors or destructors; an object of the load calls dlsym; Python code opens objects with
    RTLD_GLOBAL; its name is a string in the wheel, or code of the wheel opens libraries, and may
    build its name when it runs.

    If it stays outside: an object of the load calls dlsym and not dlopen, or Python code imports
    modules with RTLD_GLOBAL.

    ## Why is this bad?
    Nothing is wrong if the library is linked on purpose; otherwise it is grafted, loaded and
    shipped for nothing.

    ## Example
    A library of operators that registers itself when it is loaded: no symbol of it is used, and
    without it the operators are missing.

    ## Common causes
    - The library was linked for its constructors. **Solution**: `keep-needed = ["libops.so*"]`.
    - Every object is linked with all libraries of the project. **Solution**: link with
      `-Wl,--as-needed`, or `--drop-needed GLOB`, or `--prune-needed=all`.

    ## Fix safety
    Not fixed unless requested; an entry that another object depends on is always kept.
    """
    unused = context.needed_verdicts.unused
    # What the platform has costs nothing.
    libc = context.wheel.libc
    kept = [e for e in unused if e.kept and not may_come_from_platform(e.name, libc)]
    for name, entries in _by_name(kept).items():
        forceable = [entry for entry in entries if entry.forceable]
        reasons = values_by_key((hazard, e.member) for e in entries for hazard in e.hazards)
        yield Hit(
            message=f"no symbol of `{name}` is used; its DT_NEEDED entry is kept",
            member=entries[0].member,
            entry=name,
            notes=tuple(
                f"because {hazard}" + (f" ({count(len(members), 'object')})" if members[1:] else "")
                for hazard, members in reasons.items()
            ),
            hint=_kept_hint((forceable or entries)[0]),
        )


def _kept_hint(unused: Unused) -> str:
    if not unused.forceable:
        return "nothing to do, unless the object that depends on it is linked again"
    before = remove_hash(unused.name)
    pattern = f"{escape(stem_of(before))}*.so*" if before else escape(unused.name)
    name = shlex.quote(pasteable(pattern))
    repair = "a repair of the wheel as it was built with `" if before else "`wheelfix repair "
    return f"{repair}--drop-needed {name}` drops it; `--keep-needed {name}` silences this message"


@rule("WF203", "needed-not-available", Severity.NOTE, Stage.BEFORE)
def needed_not_available(context: Context) -> Iterator[Hit]:
    """Library was not read, so its DT_NEEDED entry is not judged.

    ## What it does
    Reports libraries in DT_NEEDED that are neither in the wheel nor available here, whose symbol
    versions the object does not name, and that may define symbols that nothing else is known to
    define. They are not considered unused. `wheelfix check` does not look at the libraries of the
    machine, and `wheelfix repair` does: it may drop these entries (WF201).

    ## Why is this bad?
    Possibly nothing is wrong, but some of the entries may be unused.

    ## Example
    `libcuda.so.1`, which comes with the driver of the user's machine.

    ## Common causes
    - The library is provided by another wheel or by the user. **Solution**: pass it for inspection:
      `--library-path nvidia_cublas_cu12-*.whl`, or a directory.

    ## Fix safety
    Not fixed: the symbols of the library are not known.
    """
    libc = context.wheel.libc
    for member, decisions in context.needed_verdicts.absent.items():
        unknown = [
            decision.name
            for decision in decisions
            if not may_come_from_platform(decision.name, libc)
            and decision.name not in context.left.libraries
        ]
        if unknown:
            left = join_some(decisions[0].open_references)
            yield Hit(
                message=f"needs {join_some(unknown, _SHOWN)}, not read here and maybe unused",
                member=member,
                notes=(f"may define {left}",),
                hint="pass directories or wheels that have them with `--library-path`; "
                "`wheelfix repair` also looks among the libraries of this machine",
            )


@rule("WF204", "underlinked", Severity.WARNING)
def underlinked(context: Context) -> Iterator[Hit]:
    """Object uses a library missing from its DT_NEEDED (underlinked).

    ## What it does
    Reports symbols that no library of an object's DT_NEEDED defines, and that are resolved only
    because another object in the process loads the library.

    ## Why is this bad?
    If the object is opened first, or by another object, loading fails with `undefined symbol`.
    Whether the package works depends on the order of imports.

    ## Example
    `libmid.so` calls `deep()` of `libdeep.so` and has no DT_NEEDED; `_core.so` needs both. Then
    `ctypes.CDLL("libmid.so")` fails, unless `_core` was imported first.

    ## Common causes
    - The library was linked without its dependencies, which linkers allow for shared libraries.
      **Solution**: link with `-Wl,-z,defs`, and add the libraries it asks for; or `wheelfix repair
      --unsafe-fixes`.

    ## Fix safety
    Unsafe: the entry is added, and the library is then loaded where it was not before.
    """
    missing = context.needed_verdicts.missing
    for entry in sorted(missing, key=lambda entry: (entry.member, entry.name), reverse=True):
        yield Hit(
            message=f"uses symbols of `{entry.name}`, which is not in its DT_NEEDED",
            member=entry.member,
            entry=entry.name,
            notes=(
                join_symbols(entry.symbols),
                f"resolved only where `{entry.root}` loads the library",
            ),
            hint=f"link it with `{entry.name}`; or, `wheelfix repair --unsafe-fixes`",
            fix=Fix(
                title="add the DT_NEEDED entry",
                edits=(AddNeeded(member=entry.member, name=entry.name),),
                safety=Safety.UNSAFE,
            ),
        )


@rule("WF205", "libpython-needed", Severity.WARNING)
def libpython_needed(context: Context) -> Iterator[Hit]:
    """Object needs libpython, or for Android, lacks it.

    ## What it does
    Reports objects with the library of an interpreter in DT_NEEDED: `libpython3.14t.so.1.0`,
    `libpython3.so`, `libpypy3.11-c.so`. Not programs that find it in the wheel. For Android, it
    reports modules that call Python and do not load libpython.

    ## Why is this bad?
    Most interpreters do not come with this library, so the import fails. With a static interpreter
    that has the library as well, a second Python runtime is loaded into the process. PEP 513
    forbids it. An app for Android has no interpreter to start: it loads libpython as a library,
    whose symbols other libraries find only if they need it (PEP 738).

    ## Example
    `ImportError: libpython3.11.so.1.0: cannot open shared object file`

    ## Common causes
    - The build links `Python::Python` instead of `Python::Module` (CMake), or uses the flags of
      `python3-config --embed`. **Solution**: do not link libpython; the interpreter defines the
      symbols.
    - A program embeds Python. **Solution**: start the interpreter from it, or link `libpython*.a`.

    ## Fix safety
    Safe: the entry is removed, as `auditwheel repair` does; the interpreter that loads the object
    defines the symbols. A program, and a library that only programs of the wheel load, keep it.
    """
    if demands_of(context.wheel.libc).libpython:
        yield from _lacking_libpython(context)
        return
    libraries = {name for name in context.dependents if is_libpython(posixpath.basename(name))}
    embedding = _embedding(context.wheel) if libraries else frozenset[str]()
    for member, elf in context.wheel.elfs.items() if libraries else ():
        for name in dict.fromkeys(name for name in elf.needed if name in libraries):
            if member not in embedding:
                yield Hit(
                    message=f"links `{name}`, though the interpreter already provides its symbols",
                    member=member,
                    entry=name,
                    hint="`wheelfix repair` drops the entry",
                    fix=Fix(title="drop libpython", edits=(DropNeeded(member=member, name=name),)),
                )
            elif not all(is_found.get((member, name), True) for is_found in context.needed_found):
                yield Hit(
                    message=f"embeds Python with `{name}`, which most interpreters do not have",
                    member=member,
                    entry=name,
                    hint="start the interpreter from it, or link the static library of Python",
                )


def _lacking_libpython(context: Context) -> Iterator[Hit]:
    for member, load in context.world.loads.items():
        elf = context.wheel.elfs[member]
        loads_it = any(is_libpython(request.name) for request in load.requests)
        if elf.is_module and not loads_it:
            called = [symbol.name for symbol in elf.undefined if not symbol.weak]
            if names := list(filter(is_python_name, called)):
                yield Hit(
                    message=f"calls {join_some(names, 1)} and does not load libpython, in which "
                    f"alone the loader of {context.wheel.libc} finds it",
                    member=member,
                    hint="link it with `-lpython3.X` of the Python that it is for",
                )


def _embedding(wheel: Wheel) -> frozenset[str]:
    """Return programs, and libraries that programs of the wheel need and its modules do not.

    By name: whether each library is found is another question, which a repair answers.
    """
    elfs, members = wheel.elfs, members_by_name(wheel.elfs)

    def edges(member: str) -> Iterator[str]:
        return (members[name] for name in elfs[member].needed if name in members)

    programs = (member for member, elf in elfs.items() if elf.is_executable)
    modules = (member for member, elf in elfs.items() if elf.module_hooks)
    of_programs, of_modules = (frozenset(postorder(roots, edges)) for roots in (programs, modules))
    return of_programs - of_modules


@rule("WF206", "needed-with-slash", Severity.ERROR)
def needed_with_slash(context: Context) -> Iterator[Hit]:
    """DT_NEEDED entry is a path.

    ## What it does
    Reports DT_NEEDED entries with a `/`.

    ## Why is this bad?
    Such an entry is opened without a search: an absolute path is one of the build machine; a
    relative path starts at the current directory, where an attacker can plant a library.
    `$ORIGIN/libx.so` works with glibc, and fails with musl.

    ## Example
    `Shared library: [/build/lib/libx.so]`

    ## Common causes
    - A library without a SONAME was linked by its path, `gcc … lib/libx.so`. **Solution**: link it
      with `-Wl,-soname,libx.so`, or use `-Llib -lx`.

    ## Fix safety
    Unsafe: the entry becomes the bare name if the wheel has a library of that name; an RPATH entry
    is then added.
    """
    for member, elf in context.wheel.elfs.items():
        for name in dict.fromkeys(elf.needed):
            if "/" not in name:
                continue
            base = posixpath.basename(name)
            fix = Fix(
                title="replace the path by the name",
                edits=(RenameNeeded(member=member, old=name, new=base),),
                safety=Safety.UNSAFE,
            )
            own = starts_at_origin(name)
            yield Hit(
                message=f"has the path `{name}` in DT_NEEDED, which is opened without a search",
                member=member,
                entry=name,
                severity=Severity.WARNING if own else None,
                hint="give the library a SONAME and link the object again"
                + ("; or, `wheelfix repair --unsafe-fixes`" if base in context.shipped else ""),
                fix=fix if base in context.shipped else None,
            )


@rule("WF207", "repeated-needed", Severity.NOTE)
def repeated_needed(context: Context) -> Iterator[Hit]:
    """Duplicate DT_NEEDED entry.

    ## What it does
    Reports names that occur more than once in DT_NEEDED.

    ## Why is this bad?
    It is harmless in itself, but a sign of a tool that edited the object, such as `patchelf
    --add-needed` run twice.

    ## Example
    `Shared library: [libz.so.1]`, two times

    ## Common causes
    - A build script adds an entry on every run. **Solution**: link with the library instead.

    ## Fix safety
    Not fixed: the loader ignores it.
    """
    for member, elf in context.wheel.elfs.items():
        for name in dict.fromkeys(elf.needed):
            if (times := elf.needed.count(name)) > 1:
                yield Hit(
                    message=f"has `{name}` {count(times, 'time')} in DT_NEEDED",
                    member=member,
                    entry=name,
                    hint="link the object with the library, instead of editing it",
                )


@rule("WF208", "development-name", Severity.WARNING)
def development_name(context: Context) -> Iterator[Hit]:
    """DT_NEEDED entry has the development name of a library: libx.so, not libx.so.1.

    ## What it does
    Reports DT_NEEDED entries `libx.so` where the SONAME of the library is `libx.so.1`, unless the
    wheel has only a file of the former name.

    ## Why is this bad?
    The name without a version belongs to the development package: users have only the one with a
    version, and the import fails. If another object needs `libx.so.1` besides `libx.so`, the same
    library may be loaded twice.

    ## Example
    `libcuda.so` in DT_NEEDED, on a machine that has only `libcuda.so.1`.

    ## Common causes
    - The object was linked with a stub without a SONAME, or edited by hand. **Solution**: link with
      the real library, or repair with `--unsafe-fixes`.

    ## Fix safety
    Unsafe: another file may be loaded.
    """
    if context.definitions is None:
        return
    for member, elf in context.wheel.elfs.items():
        for name in dict.fromkeys(elf.needed):
            soname = _soname_of(context, elf, name) if name.endswith(".so") else None
            served = name in context.shipped and soname not in context.shipped
            if soname is None or served or not soname.startswith(f"{name}."):
                continue
            fix = Fix(
                title="use the SONAME",
                edits=(RenameNeeded(member=member, old=name, new=soname),),
                safety=Safety.UNSAFE,
            )
            yield Hit(
                message=f"needs `{name}`, but the library has the SONAME `{soname}`",
                member=member,
                entry=name,
                hint=f"link it so that DT_NEEDED has `{soname}`",
                fix=fix,
            )


def _soname_of(context: Context, dependent: Elf, name: str) -> str | None:
    """Return the SONAME of the library that a DT_NEEDED entry names."""
    shipped = context.shipped.get(name)
    if shipped:
        return context.wheel.elfs[shipped[0]].soname
    library = context.definitions.host(name, dependent) if context.definitions else None
    return library.elf.soname if library else None


@rule("WF209", "dangling-verneed", Severity.ERROR)
def dangling_verneed(context: Context) -> Iterator[Hit]:
    """Object requires symbol versions (DT_VERNEED) of a library not in its DT_NEEDED.

    ## What it does
    Reports version records (DT_VERNEED) whose library is not in DT_NEEDED.

    ## Why is this bad?
    The loader looks for the library among those loaded by that name, and if there is none, the
    process aborts: `dl-version.c: Assertion 'needed != NULL' failed`. Python cannot catch this.

    ## Example
    `patchelf --remove-needed libz.so.1` on an object with `Version needs: libz.so.1: ZLIB_1.2.0`

    ## Common causes
    - A tool removed or renamed the entry and left the record (NixOS/patchelf 214). **Solution**:
      build the object again; `wheelfix repair` removes unused records.

    ## Fix safety
    Safe: the record is removed if no strong reference uses its versions, and kept otherwise.
    """
    for member, elf in context.wheel.elfs.items():
        for need in elf.verneed:
            if need.file in elf.needed:
                continue
            used = [s.name for s in elf.undefined if s.file == need.file and not s.weak]
            asked = libc_of(need.file) is Libc.GLIBC or _is_asked_for(context, member, need.file)
            drop = DropNeeded(member=member, name=need.file)
            yield Hit(
                message=f"has symbol versions from `{need.file}` without DT_NEEDED on it",
                member=member,
                entry=need.file,
                severity=Severity.WARNING if asked else None,
                notes=(
                    f"versions: {', '.join(need.versions)}",
                    *([f"used by {join_some(used, _SHOWN)}"] if used else []),
                ),
                hint=f"link it again with `{need.file}`"
                if used
                else "`wheelfix repair` removes it",
                fix=None if used else Fix(title="remove the version record", edits=(drop,)),
            )


def _is_asked_for(context: Context, member: str, name: str) -> bool:
    """Return whether another object needs `name` wherever `member` is loaded."""
    for world in context.worlds:
        path = world.paths.get(member)
        for load in world.loads.values():
            if path in load.objects and name not in {request.name for request in load.requests}:
                return False
    return True


@rule("WF210", "versym-alone", Severity.ERROR)
def versym_alone(context: Context) -> Iterator[Hit]:
    """Object has DT_VERSYM, but neither DT_VERNEED nor DT_VERDEF.

    ## What it does
    Reports objects with DT_VERSYM and neither DT_VERNEED nor DT_VERDEF.

    ## Why is this bad?
    The loader uses the version numbers as indices into a table that does not exist, and the process
    crashes with a segmentation fault.

    ## Example
    An object whose last version record was removed, but not its DT_VERSYM.

    ## Common causes
    - A tool edited the object. **Solution**: build the object again.

    ## Fix safety
    Not fixed: the removed records are not known.
    """
    for member, elf in context.wheel.elfs.items():
        if elf.versym_alone:
            yield Hit(
                message="has DT_VERSYM without DT_VERNEED and DT_VERDEF: loading it crashes",
                member=member,
                hint="build the object again",
            )


@rule("WF211", "empty-needed", Severity.WARNING, Stage.BEFORE)
def empty_needed(context: Context) -> Iterator[Hit]:
    """DT_NEEDED entry without a name.

    ## What it does
    Reports DT_NEEDED entries that are the empty string.

    ## Why is this bad?
    glibc takes it for the program, whose name is empty in its list of loaded objects
    (`_dl_map_object`), and loads nothing. musl refuses to load the object: `Invalid argument`.
    auditwheel fails with a traceback.

    ## Example
    `Shared library: []`

    ## Common causes
    - A build script calls `patchelf --add-needed` or `--replace-needed` with a variable that is not
      set. **Solution**: correct the script.

    ## Fix safety
    Safe: the entry is dropped, which loads no library.
    """
    for member, elf in context.wheel.elfs.items():
        if "" in elf.needed:
            is_fatal = elf.libc not in {None, Libc.GLIBC}
            yield Hit(
                message="has a DT_NEEDED entry without a name"
                + (
                    f": {elf.libc} refuses to load the object"
                    if is_fatal
                    else ", which loads nothing"
                ),
                member=member,
                entry="",
                severity=Severity.ERROR if is_fatal else None,
                hint="correct the build script that adds it, or let `wheelfix repair` drop it",
                fix=Fix(title="drop it", edits=(DropNeeded(member=member, name=""),)),
            )


@rule("WF212", "filtee-missing", Severity.ERROR)
def filtee_missing(context: Context) -> Iterator[Hit]:
    """Library of DT_FILTER or DT_AUXILIARY is not found.

    ## What it does
    Reports libraries in DT_FILTER and DT_AUXILIARY that are neither found once installed nor
    expected from the platform. It is for information for DT_AUXILIARY.

    ## Why is this bad?
    glibc loads such a library before the object, and takes its symbols first. Without the one of
    DT_FILTER it refuses to load the object: `cannot open shared object file`. Without the one of
    DT_AUXILIARY the object's own symbols are used. musl ignores both.

    ## Example
    A grafted `libfoo-1a2b3c4d.so.1` with `Filter library: [libfoo-impl.so.1]`: auditwheel follows
    only DT_NEEDED, and leaves the filtee out.

    ## Common causes
    - A library was linked with `-Wl,--filter` or `-Wl,--auxiliary`. **Solution**: link without it,
      or ship the filtee in the wheel where the object's search path finds it.

    ## Fix safety
    Not fixed: it is not known whether the filtee belongs in the wheel.
    """
    for member, elf in context.wheel.elfs.items():
        for filtee in elf.filtees:
            schemes = _without_filtee(context, member, filtee.name)
            if not schemes:
                continue
            tag = "DT_FILTER" if filtee.required else "DT_AUXILIARY"
            effect = "glibc refuses to load it" if filtee.required else "its own symbols are used"
            yield Hit(
                message=f"names `{filtee.name}` in {tag}, which is not found: {effect}",
                member=member,
                entry=filtee.name,
                severity=None if filtee.required else Severity.NOTE,
                notes=(f"not found in: {describe(schemes)}",),
                hint=f"ship `{filtee.name}` where the search path of the object finds it, "
                f"or link the object without {tag}",
            )


def _without_filtee(context: Context, member: str, name: str) -> list[Scheme]:
    """Return the install schemes in which glibc does not find a filtee of `member`."""
    if may_come_from_platform(name, context.wheel.libc) or matches_any(
        name, context.settings.exclude
    ):
        return []
    return [
        scheme
        for world in context.worlds
        if (load := world.loads.get(member)) is not None
        and any(
            request.requester == world.paths[member]
            and request.name == name
            and request.result is None
            for request in load.requests
        )
        for scheme in world.schemes
    ]


@rule("WF401", "orphaned-library", Severity.WARNING, Stage.BEFORE)
def orphaned_library(context: Context) -> Iterator[Hit]:
    """Vendored library is no longer needed.

    ## What it does
    Removes libraries from the folders of vendored libraries (`*.libs`) once the last DT_NEEDED
    entry that led to them was dropped by this repair.

    ## Why is this bad?
    It makes every download larger, and needs security updates.

    ## Example
    `h5py.libs/libaec-….so` was needed only through an unused DT_NEEDED entry.

    ## Common causes
    - The wheel was linked without `--as-needed`, and repaired. **Solution**: `wheelfix repair`.

    ## Fix safety
    Safe: the library is removed only if nothing in the wheel needs it, neither Python code nor the
    data of any object contains its name, and neither opens libraries, by names that it may build,
    or lists files.
    """
    if context.origin is None or context.definitions is None:
        return
    before, after = (_needed_names(wheel) for wheel in (context.origin, context.wheel))
    orphans: dict[str, frozenset[str]] = {}
    for member, elf in context.wheel.elfs.items():
        names = names_of(member, elf.soname)
        is_orphan = names & before and not names & after
        if is_orphan and context.settings.is_vendored(member, context.wheel):
            orphans[member] = names
    if not orphans or orphans.keys() == context.wheel.elfs.keys():
        return  # a wheel of nothing but orphans was made for them
    code = context.definitions.code
    if opens_by_name(context.wheel.elfs.values(), code) or any(code.sources_that(_lists_files)):
        return
    mentions = code.mentions(set(flatten(orphans.values())))
    sizes = context.wheel.sizes
    for member, names in orphans.items():
        if not any(mentions[name] for name in names):
            yield Hit(
                message=f"is no longer needed: {count(sizes[member], 'byte')}",
                member=member,
                hint="`wheelfix repair` removes it",
                fix=Fix(title="remove the library", edits=(RemoveMember(member=member),)),
            )


def _lists_files(source: bytes) -> bool:
    return any(word in source for word in _LISTS)


def _needed_names(wheel: Wheel) -> frozenset[str]:
    elfs = wheel.elfs.values()
    names = flatten((*elf.needed, *(f.name for f in elf.filtees)) for elf in elfs)
    return frozenset(map(posixpath.basename, names))
