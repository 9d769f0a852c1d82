"""Whether each object needs what its DT_NEEDED says, and says what it needs."""

import posixpath
import re
from collections.abc import Iterator

from wheelfix.analysis.unused_needed import Unused
from wheelfix.elf.model import Elf, Libc, libc_of
from wheelfix.loader.as_needed import Decision
from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.rules.context import Context, Stage
from wheelfix.rules.findings import Fix, Hit, Safety, Severity
from wheelfix.rules.rule import rule
from wheelfix.wheel.edits import AddNeeded, DropNeeded, RemoveMember, RenameNeeded
from wheelfix.wheel.model import Wheel, is_vendored

_LIBPYTHON = re.compile(r"libpython\d[\d.]*[a-z]*\.so(\.[\d.]+)?$")
_SHOWN = 8


# --- Unused ---------------------------------------------------------------------------------------


@rule("WF201", "unused-needed", Severity.WARNING, Stage.BEFORE)
def unused_needed(context: Context) -> Iterator[Hit]:
    """An object says that it needs a library of which it uses nothing.

    ## What it does
    Reports the DT_NEEDED entries that `ld --as-needed` would have left out: nothing in the object
    refers to the library other than weakly, and no other library that stays depends on it in
    silence. Versioned references count for the library that they name, whatever this machine's
    libraries define. Then every object of the wheel is loaded on paper before and after, and only
    what leaves every strong symbol bound to the same file is reported here. The C library and
    the loader are never reported.

    ## Why is this bad?
    The import fails where the library is missing, though nothing of it is used. Or it is grafted
    with all that it needs in turn: a wheel of 111 kB becomes one of 22 MB. Loading takes longer,
    and each copy is one more to keep free of security holes.

    ## Example
    CuPy 12: 577 of 714 entries unused; without CUDA 2 of its 66 modules can be loaded, and 49
    after the repair.

    ## Common causes
    - All libraries of a project are given to every object that is linked.
      **Solution**: link with `-Wl,--as-needed` before the libraries; Debian's and Ubuntu's
      compilers do so by default, those of manylinux images do not.

    ## Fix safety
    Safe: the entry goes, with its version record, as if the linker had left it out. What symbols
    cannot tell keeps an entry, and is told by WF202. A weak reference that only this library
    served becomes null, as with `--as-needed`; the note says which.
    """
    for unused in context.pruning.unused:
        if not unused.kept:
            yield Hit(
                message=f"needs `{unused.name}`, and uses nothing of it",
                member=unused.member,
                entry=unused.name,
                notes=(
                    *((f"it is `{unused.library}`",) if unused.library else ()),
                    *(f"note: {hazard}" for hazard in unused.hazards),
                ),
                severity=Severity.INFO if may_come_from_platform(unused.name) else None,
                hint="`wheelfix repair` drops the entry; linking with `-Wl,--as-needed` avoids it",
                fix=Fix(
                    title="drop what is not used",
                    edits=(DropNeeded(member=unused.member, name=unused.name),),
                ),
            )


@rule("WF202", "unused-needed-kept", Severity.INFO, Stage.BEFORE)
def unused_needed_kept(context: Context) -> Iterator[Hit]:
    """A library of which no symbol is used is kept for what symbols cannot tell.

    ## What it does
    Reports DT_NEEDED entries that `ld --as-needed` would have left out, and that stay because
    dropping them may change what the package does: the library has constructors, or brings one
    along that calls into a library that stays; its name stands as a string in the wheel, so that
    it may be opened at run time; it defines the module's entry point, or `malloc`; or another
    object gets a symbol through it.

    ## Why is this bad?
    Nothing is wrong if the library is there on purpose; if it is there by accident, it is grafted,
    loaded and shipped for nothing.

    ## Example
    A library of operators that registers itself when it is loaded: nothing refers to it, and
    without it the operators are gone.

    ## Common causes
    - The library was linked for its constructors. **Solution**: `keep-needed = ["libops.so*"]`.
    - All libraries of a project are given to every object. **Solution**: link with
      `-Wl,--as-needed`, or `--drop-needed GLOB`, or `--prune-needed=all`.

    ## Fix safety
    Not fixed unless it is asked for; an entry that another object depends on always stays.
    """
    for unused in context.pruning.unused:
        if unused.kept:
            yield Hit(
                message=f"needs `{unused.name}`, and uses nothing of it; it stays",
                member=unused.member,
                entry=unused.name,
                notes=tuple(f"because {hazard}" for hazard in unused.hazards),
                hint=_kept_hint(unused),
            )


def _kept_hint(unused: Unused) -> str:
    if not unused.forceable:
        return "nothing to do, unless the object that depends on it is linked anew"
    return f"`--drop-needed '{unused.name}'` drops it, `--keep-needed` ends this message"


@rule("WF203", "needed-not-at-hand", Severity.INFO, Stage.BEFORE)
def needed_not_at_hand(context: Context) -> Iterator[Hit]:
    """A library is not at hand, so whether it is used cannot be judged.

    ## What it does
    Reports libraries in DT_NEEDED that are neither in the wheel nor on this machine, and of which
    the object does not name a symbol version. They are never judged unused.

    ## Why is this bad?
    Nothing is known to be wrong, but an unused entry may hide among them.

    ## Example
    `libcuda.so.1`, which comes with the driver of the user's machine.

    ## Common causes
    - The library is provided by another wheel or by the user.
      **Solution**: hand it over to be looked into: `--library-path nvidia_cublas_cu12-*.whl`, or a
      directory. Where the message says that all references are served by others, `--drop-needed`
      drops the entry without.

    ## Fix safety
    Not fixed: what the library defines is not known.
    """
    for member, decisions in context.pruning.absent.items():
        unknown = [each for each in decisions if not may_come_from_platform(each.name)]
        if unknown:
            yield Hit(
                message=f"needs {_names(unknown)}, not at hand here: they may be unused",
                member=member,
                notes=tuple(f"`{each.name}` {each.reason}" for each in unknown[:_SHOWN]),
                hint="hand them over: `--library-path` takes directories and wheels",
            )


def _names(decisions: list[Decision]) -> str:
    more = f" and {len(decisions) - _SHOWN} more" if len(decisions) > _SHOWN else ""
    return ", ".join(f"`{each.name}`" for each in decisions[:_SHOWN]) + more


# --- Missing --------------------------------------------------------------------------------------


@rule("WF204", "underlinked", Severity.WARNING)
def underlinked(context: Context) -> Iterator[Hit]:
    """An object uses a library that it does not need by its own words.

    ## What it does
    Reports symbols that no library of an object's DT_NEEDED defines, and that it gets because
    another object of its group happens to bring the library along.

    ## Why is this bad?
    Opened first, or by another object, it fails with `undefined symbol`. Whether the package works
    depends on the order of its imports.

    ## Example
    `libmid.so` calls `deep()` of `libdeep.so` and needs nothing; `_core.so` needs both. Then
    `ctypes.CDLL("libmid.so")` fails, unless `_core` was imported first.

    ## Common causes
    - The library is linked without its dependencies; linkers allow that for shared libraries.
      **Solution**: link with `-Wl,-z,defs`, and add what it names; or
      `wheelfix repair --unsafe-fixes`.

    ## Fix safety
    Unsafe: the entry is added, so that the library is loaded where it was not before.
    """
    missing = sorted(context.pruning.missing, key=lambda each: (each.member, each.name))
    for each in reversed(missing):
        symbols = ", ".join(f"`{name}`" for name in each.symbols[:_SHOWN])
        more = f" and {len(each.symbols) - _SHOWN} more" if len(each.symbols) > _SHOWN else ""
        yield Hit(
            message=f"uses `{each.name}` without needing it",
            member=each.member,
            entry=each.name,
            notes=(f"{symbols}{more}", f"served only where `{each.root}` brings the library along"),
            hint=f"link it with `{each.name}`, or repair with `--unsafe-fixes`",
            fix=Fix(
                title="need what is used",
                edits=(AddNeeded(member=each.member, name=each.name),),
                safety=Safety.UNSAFE,
            ),
        )


# --- Entries that should not be -------------------------------------------------------------------


@rule("WF205", "libpython-needed", Severity.WARNING)
def libpython_needed(context: Context) -> Iterator[Hit]:
    """An extension module needs libpython.

    ## What it does
    Reports extension modules with `libpythonX.Y.so` in DT_NEEDED.

    ## Why is this bad?
    Most interpreters have no such library: the import fails. Where there is one beside a static
    interpreter, a second Python runtime is loaded into the process. PEP 513 forbids it.

    ## Example
    `ImportError: libpython3.11.so.1.0: cannot open shared object file`

    ## Common causes
    - The build links `Python::Python` in place of `Python::Module` (CMake), or takes the flags of
      `python3-config --embed`. **Solution**: link no libpython; the interpreter has the symbols.

    ## Fix safety
    Safe: the entry goes, as `auditwheel repair` removes it; the interpreter that loads the module
    defines what it uses.
    """
    for member, elf in context.wheel.elfs.items():
        for name in dict.fromkeys(elf.needed):
            if _LIBPYTHON.match(posixpath.basename(name)) and elf.module_hooks:
                yield Hit(
                    message=f"needs `{name}`; the interpreter itself gives what it uses",
                    member=member,
                    entry=name,
                    hint="`wheelfix repair` drops the entry",
                    fix=Fix(
                        title="leave libpython to the interpreter",
                        edits=(DropNeeded(member=member, name=name),),
                    ),
                )


@rule("WF206", "needed-with-slash", Severity.ERROR)
def needed_with_slash(context: Context) -> Iterator[Hit]:
    """A DT_NEEDED entry is a path.

    ## What it does
    Reports DT_NEEDED entries with a `/`.

    ## Why is this bad?
    Such an entry is opened as it is, without a search: an absolute one is a path of the build
    machine, a relative one starts at the user's current directory, where somebody else can plant
    a library. `$ORIGIN/libx.so` works on glibc, and fails on musl.

    ## Example
    `Shared library: [/build/lib/libx.so]`

    ## Common causes
    - A library without SONAME was linked by its path, `gcc … lib/libx.so`.
      **Solution**: link it with `-Wl,-soname,libx.so`, or use `-Llib -lx`.

    ## Fix safety
    Unsafe: the entry becomes the bare name, if the wheel ships a library of that name; the search
    path then leads there.
    """
    for member, elf in context.wheel.elfs.items():
        for name in dict.fromkeys(elf.needed):
            if "/" not in name:
                continue
            base = posixpath.basename(name)
            fix = Fix(
                title="need the library by its name",
                edits=(RenameNeeded(member=member, old=name, new=base),),
                safety=Safety.UNSAFE,
            )
            own = name.startswith(("$ORIGIN/", "${ORIGIN}/"))
            yield Hit(
                message=f"needs `{name}`, a path that is opened without a search",
                member=member,
                entry=name,
                severity=Severity.WARNING if own else None,
                hint="give the library a SONAME and link the object again"
                + (", or repair with `--unsafe-fixes`" if base in context.shipped else ""),
                fix=fix if base in context.shipped else None,
            )


@rule("WF207", "repeated-needed", Severity.INFO)
def repeated_needed(context: Context) -> Iterator[Hit]:
    """A DT_NEEDED entry is there twice.

    ## What it does
    Reports names that DT_NEEDED has more than once.

    ## Why is this bad?
    It does no harm by itself. It is the mark of a tool that edited the object, such as
    `patchelf --add-needed` run twice.

    ## Example
    `Shared library: [libz.so.1]`, two times

    ## Common causes
    - A build script adds an entry at every run. **Solution**: link with the library.

    ## Fix safety
    Not fixed: the loader passes over it.
    """
    for member, elf in context.wheel.elfs.items():
        for name in dict.fromkeys(elf.needed):
            if (times := elf.needed.count(name)) > 1:
                yield Hit(
                    message=f"needs `{name}` {times} times",
                    member=member,
                    entry=name,
                    hint="link the object with the library, in place of editing it",
                )


@rule("WF208", "development-name", Severity.WARNING)
def development_name(context: Context) -> Iterator[Hit]:
    """An object needs a library by the name that only developers have.

    ## What it does
    Reports DT_NEEDED entries `libx.so` where the library calls itself `libx.so.1`, unless the
    wheel ships it under the former name alone.

    ## Why is this bad?
    `libx.so` belongs to the development package: users have `libx.so.1`, and the import fails.
    Where another object needs `libx.so.1`, the same library may be loaded twice.

    ## Example
    `libcuda.so` in DT_NEEDED, on a machine that has `libcuda.so.1` only.

    ## Common causes
    - The object was linked with a stub that has no SONAME, or edited by hand.
      **Solution**: link with the real library, or repair with `--unsafe-fixes`.

    ## Fix safety
    Unsafe: another file may be loaded.
    """
    if context.definitions is None:
        return
    for member, elf in context.wheel.elfs.items():
        for name in dict.fromkeys(elf.needed):
            soname = _own_name(context, elf, name) if name.endswith(".so") else None
            served = name in context.shipped and soname not in context.shipped
            if soname is None or served or not soname.startswith(f"{name}."):
                continue
            fix = Fix(
                title="need the library by its SONAME",
                edits=(RenameNeeded(member=member, old=name, new=soname),),
                safety=Safety.UNSAFE,
            )
            yield Hit(
                message=f"needs `{name}`, which calls itself `{soname}`",
                member=member,
                entry=name,
                hint=f"link it so that DT_NEEDED says `{soname}`",
                fix=fix,
            )


def _own_name(context: Context, user: Elf, name: str) -> str | None:
    """Return the SONAME of the library behind a DT_NEEDED entry."""
    shipped = context.shipped.get(name)
    if shipped:
        return context.wheel.elfs[shipped[0]].soname
    library = context.definitions.host(name, user) if context.definitions else None
    return library.elf.soname if library else None


# --- Versions -------------------------------------------------------------------------------------


@rule("WF209", "dangling-verneed", Severity.ERROR)
def dangling_verneed(context: Context) -> Iterator[Hit]:
    """An object wants symbol versions of a library that it does not need.

    ## What it does
    Reports version records (DT_VERNEED) whose library is not in DT_NEEDED.

    ## Why is this bad?
    The loader looks for the library among those that were asked for by that name, and if there is
    none the process is aborted: `dl-version.c: Assertion 'needed != NULL' failed`. No exception
    can be caught.

    ## Example
    `patchelf --remove-needed libz.so.1` on an object with `Version needs: libz.so.1: ZLIB_1.2.0`

    ## Common causes
    - A tool removed or renamed the entry and left the record (NixOS/patchelf 214).
      **Solution**: build the object anew; `wheelfix repair` removes records that nothing uses.

    ## Fix safety
    Safe: the record is removed if no strong reference uses its versions; otherwise nothing is
    done.
    """
    for member, elf in context.wheel.elfs.items():
        for need in elf.verneed:
            if need.file in elf.needed:
                continue
            used = [each.name for each in elf.undefined if each.file == need.file and not each.weak]
            asked = libc_of(need.file) is Libc.GLIBC or _is_asked_for(context, member, need.file)
            yield Hit(
                message=f"wants versions of `{need.file}`, which it does not need",
                member=member,
                entry=need.file,
                severity=Severity.WARNING if asked else None,
                notes=(
                    f"versions: {', '.join(need.versions)}",
                    *(
                        (f"used by {', '.join(f'`{name}`' for name in used[:_SHOWN])}",)
                        * bool(used)
                    ),
                ),
                hint=f"link it again with `{need.file}`"
                if used
                else "`wheelfix repair` removes it",
                fix=None
                if used
                else Fix(
                    title="remove the version record",
                    edits=(DropNeeded(member=member, name=need.file),),
                ),
            )


def _is_asked_for(context: Context, member: str, name: str) -> bool:
    """Return whether another object asks for `name` wherever `member` is loaded."""
    for layout, loads in zip(context.layouts, context.loads, strict=True):
        path = layout.paths.get(member)
        for load in loads.values():
            if path in load.objects and name not in {each.name for each in load.requests}:
                return False
    return True


@rule("WF210", "versym-alone", Severity.ERROR)
def versym_alone(context: Context) -> Iterator[Hit]:
    """An object has symbol version numbers, and nothing that says what they mean.

    ## What it does
    Reports objects with DT_VERSYM and neither DT_VERNEED nor DT_VERDEF.

    ## Why is this bad?
    The loader takes the numbers for indices into a table that it has not made, and the process
    dies of a segmentation fault.

    ## Example
    An object whose last version record was removed, and DT_VERSYM was not.

    ## Common causes
    - A tool that edits objects. **Solution**: build the object anew.

    ## Fix safety
    Not fixed: what was removed is not known.
    """
    for member, elf in context.wheel.elfs.items():
        if elf.versym_alone:
            yield Hit(
                message="has DT_VERSYM without DT_VERNEED and DT_VERDEF: loading it crashes",
                member=member,
                hint="build the object anew, and edit it with `wheelfix repair` alone",
            )


# --- Libraries that nobody needs any more ---------------------------------------------------------


@rule("WF401", "orphaned-library", Severity.WARNING, Stage.BEFORE)
def orphaned_library(context: Context) -> Iterator[Hit]:
    """A vendored library was needed by objects of the wheel, and is not any more.

    ## What it does
    Removes libraries from the folders of vendored libraries (`*.libs`) once the last DT_NEEDED
    entry that led to them was dropped by this repair.

    ## Why is this bad?
    Dead weight in every download, and a copy to keep free of security holes.

    ## Example
    `h5py.libs/libaec-….so` was needed by nothing but an entry that nobody used.

    ## Common causes
    - The wheel was linked without `--as-needed`, and repaired. **Solution**: `wheelfix repair`.

    ## Fix safety
    Safe: it goes only if nothing in the wheel needs it, and neither Python code nor data of any
    object has its name.
    """
    if context.origin is None or context.definitions is None:
        return
    before, after = (_needed_names(wheel) for wheel in (context.origin, context.wheel))
    orphans: dict[str, frozenset[str]] = {}
    for member, elf in context.wheel.elfs.items():
        names = frozenset({posixpath.basename(member), elf.soname or ""}) - {""}
        if is_vendored(member) and names & before and not names & after:
            orphans[member] = names
    if not orphans:
        return
    mentions = context.definitions.mentions({name for names in orphans.values() for name in names})
    sizes = {each.name: each.size for each in context.wheel.members}
    for member, names in orphans.items():
        if not any(mentions[name] for name in names):
            yield Hit(
                message=f"is not needed any more: {sizes[member]:,} bytes",
                member=member,
                hint="`wheelfix repair` removes it",
                fix=Fix(title="remove what nobody needs", edits=(RemoveMember(member=member),)),
            )


def _needed_names(wheel: Wheel) -> frozenset[str]:
    return frozenset(posixpath.basename(name) for elf in wheel.elfs.values() for name in elf.needed)


RULES = (
    unused_needed,
    unused_needed_kept,
    needed_not_at_hand,
    underlinked,
    libpython_needed,
    needed_with_slash,
    repeated_needed,
    development_name,
    dangling_verneed,
    versym_alone,
    orphaned_library,
)
