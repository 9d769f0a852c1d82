"""Whether libraries that Python code opens (ctypes, cffi, dlopen) are found."""

import posixpath
from collections.abc import Collection, Container, Iterable, Iterator
from dataclasses import replace
from fnmatch import filter as filter_names

from wheelfix.analysis.opened_libraries import names_in_note, openings, place_of, present
from wheelfix.analysis.preload_plan import shim_libraries
from wheelfix.elf.object_file_names import is_library_name
from wheelfix.grouping import flatten
from wheelfix.loader.install_schemes import ENV, Scheme, describe, installed_path, site_path, split
from wheelfix.loader.load_values import Dlopen
from wheelfix.loader.loading import load_all
from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.python_sources.imported_modules import namings
from wheelfix.python_sources.parsing import parse_source
from wheelfix.python_sources.source_facts import LookupPlace, PythonOpening
from wheelfix.rules.bundled_drivers import libraries_provided_elsewhere
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Fix, Hit, Severity, other_members
from wheelfix.rules.rule import rule
from wheelfix.settings import matches_any
from wheelfix.text import count, join_some, toml_pattern, toml_string
from wheelfix.wheel.grafted_name import original_name
from wheelfix.wheel.model import Wheel


def _severity_of(opening: PythonOpening) -> Severity:
    """Return the severity of a missing library: fails on import, fails later, or is handled."""
    if not opening.sure:
        return Severity.NOTE
    return Severity.ERROR if opening.on_import else Severity.WARNING


@rule("WF317", "opened-library-missing", Severity.ERROR)
def opened_library_missing(context: Context) -> Iterator[Hit]:
    """Library opened by Python code (ctypes, cffi) does not exist.

    ## What it does
    Reads, in the Python sources of the wheel, the names that are passed to `ctypes.CDLL`,
    `ctypes.cdll.LoadLibrary`, `PyDLL`, `ctypes.util.find_library`, cffi's `dlopen` and
    `numpy.ctypeslib.load_library`, and searches for each as the code will do once installed. Code
    for other systems, and names that cannot be determined without running the code, are left out.

    It is an error if the call runs on import and no handler catches its failure, a warning if it
    runs in a function or leads out of site-packages, and otherwise for information. Code that tries
    several places may find the library in any of them. A path below `sys.prefix` is judged where
    the wheel has a file of that name in another place alone. A repair that moves a file away from
    where a source surely opens it is refused. `find_library` is a warning, unless the same function
    has opened a library by a name that could not be determined before.

    ## Why is this bad?
    `OSError: cannot open shared object file` when the package is imported or used.

    ## Example
    `CDLL(os.path.join(os.path.dirname(__file__), "libx.so"))`, and the wheel has `pkg/lib/libx.so`.
    `CDLL("libx.so")` finds only libraries of the system and those already loaded, never a file next
    to the source. It fails in the `__init__.py` of a top-level package that has imported nothing of
    the wheel before.

    ## Common causes
    - The build installs the library elsewhere. **Solution**: use the same path in the build and the
      code.
    - It is a library of the build machine. **Solution**: `include = ["libx.so"]` grafts it there.
    - A bare name, or a path from the current directory. **Solution**:
      `CDLL(str(Path(__file__).parent / "libx.so"))`.
    - `find_library`, which searches only the system. **Solution**: as above.

    ## Fix safety
    Not fixed: wheelfix does not change code.
    """
    wheel = context.wheel
    opened = list(openings(wheel))
    shimmed = shim_libraries(wheel) if opened else {}
    files = frozenset(p[1] for m in wheel.members if opened and (p := split(m.name, wheel)))
    present_ones = {
        (source, posixpath.basename(opening.name))
        for source, opening in opened
        if opening.where is LookupPlace.SOURCE
        and (place := place_of(wheel, source, opening))
        and place[1] in files
    }
    names = frozenset(posixpath.basename(opening.name) for _, opening in opened)
    for source, opening in opened:
        match opening.where:
            case LookupPlace.SOURCE:
                if opening.sure or (source, posixpath.basename(opening.name)) not in present_ones:
                    yield from _missing_path(context, source, opening, files)
            case LookupPlace.ABSOLUTE if not opening.is_of_current:
                pass  # a place of the user's machine
            case LookupPlace.SEARCH | LookupPlace.ABSOLUTE:
                if opening.name not in {*context.included, *shimmed.get(source, ())}:
                    yield from _missing_name(context, source, opening)
            case LookupPlace.FIND:
                yield from _not_findable(context, source, opening, names)
            case LookupPlace.PREFIX:
                yield from _outside(context, source, opening)


def _missing_path(
    context: Context, source: str, opening: PythonOpening, files: frozenset[str]
) -> Iterator[Hit]:
    """Check a path below site-packages; `files` are all files there."""
    wheel = context.wheel
    if ".so" not in opening.name and not opening.suffixes:
        return  # the name of another system's library
    place = place_of(wheel, source, opening)
    if place is None:
        yield from _outside(context, source, opening)
        return
    top = place[1].partition("/")[0]
    wanted = [place[1] + suffix for suffix in opening.suffixes or ("",)]
    # A top folder without `__init__.py` is shared with other distributions (PEP 420).
    if place[1] in files or f"{top}/__init__.py" not in files:
        return
    context.budget.spend(len(files) * len(wanted), "the libraries that are opened by path")
    if any(filter_names(files, glob) for glob in wanted):
        return
    name = posixpath.basename(place[1])
    near = _elsewhere(context, name)
    is_graftable = is_library_name(name) and not near
    if name in map(posixpath.basename, context.settings.include):
        hint, fix = None, Fix(title=f"graft `{name}` there", edits=())
    else:
        graft = (
            f"; or graft it there: `include = [{toml_string(name)}]` in [tool.wheelfix], and "
            "the folder that has it in `library-path`"
        )
        hint, fix = "use the same path in the build and the code" + graft * is_graftable, None
    yield Hit(
        message=f"{opening.text} opens `{place[1]}`, which the wheel does not have",
        member=source,
        entry=opening.name,
        notes=near,
        hint=hint,
        fix=fix,
        severity=_severity_of(opening),
    )


def _elsewhere(context: Context, name: str) -> tuple[str, ...]:
    stem, elfs, known = name.partition(".")[0], context.wheel.elfs, context.named_libraries
    near = [*known.grafts_of(name), *known.called(name)]
    if not near:
        context.budget.spend(len(elfs), "the libraries that are opened by path")
        near = [m for m in elfs if posixpath.basename(m).startswith(f"{stem}.")]
    return (f"the wheel has {join_some(dict.fromkeys(near), 3)}",) if near else ()


def _outside(context: Context, source: str, opening: PythonOpening) -> Iterator[Hit]:
    """Check a path out of site-packages, which depends on the install scheme.

    The folder is one of the environment or of the machine, which others may fill, also code of the
    wheel; but what a repair moves away from where it is opened was there.
    """
    schemes = list(flatten(layout.schemes for layout in context.layouts))
    lost, mine = _lost(context.wheel, source, opening, schemes)
    moved = {*lost}.difference(_lost(context.origin or context.wheel, source, opening, schemes)[0])
    is_of_prefix, everywhere = opening.where is LookupPlace.PREFIX, len(lost) == len(schemes)
    if not lost or (is_of_prefix and not moved and not (mine and everywhere)):
        return
    where = f"leads out of site-packages, but not to the wheel's {join_some(mine, 3)}"
    if not mine:
        where = f"opens `{opening.name}`, out of site-packages, where the wheel has no such file"
    worst = Severity.NOTE if not mine and context.left.requirements else Severity.WARNING
    worst = Severity.ERROR if mine and everywhere and not is_of_prefix else worst
    yield Hit(
        message=f"{opening.text} {where}",
        member=source,
        entry=opening.name,
        notes=(f"fails in: {describe(lost)}",) * bool(mine),
        hint="keep the library in the package, next to the code that opens it",
        severity=Severity.ERROR if moved and opening.sure else min(_severity_of(opening), worst),
    )


def _lost(
    wheel: Wheel, source: str, opening: PythonOpening, schemes: Iterable[Scheme]
) -> tuple[list[Scheme], list[str]]:
    """Return the install schemes in which a path leads to none of a wheel's files of its name."""
    lost, name = list[Scheme](), posixpath.basename(opening.name)
    mine = [m.name for m in wheel.members if posixpath.basename(m.name) == name]
    for scheme in schemes:
        folder = posixpath.dirname(installed_path(source, wheel, scheme) or "")
        folder = ENV if opening.where is LookupPlace.PREFIX else folder
        path = posixpath.normpath(posixpath.join(folder, opening.name))
        if path not in {installed_path(member, wheel, scheme) for member in mine}:
            lost.append(scheme)
    return lost, mine


_BARE = "a bare name is searched only in the system"


def _missing_name(context: Context, source: str, opening: PythonOpening) -> Iterator[Hit]:
    name, known = opening.name, context.named_libraries
    libraries = known.called(posixpath.basename(name))
    if not libraries or may_come_from_platform(name, context.wheel.libc):
        return
    if not opening.is_of_current and any(map(known.is_opened_by_path, libraries)):
        return  # once loaded, a library is found by its SONAME
    needed, what = context.dependents.get(name, ()), f"the wheel's `{libraries[0]}`"
    is_first = bool(needed) and _is_first(context, source, opening)
    hint = "open the library by its path, made from `__file__`"
    if is_first:
        words = f"does not find {what}: no import before this line loads what needs it"
        hint = f"import what needs it before this line, or {hint}"
    elif needed:
        words = f"finds {what} only after an object that needs it is loaded"
        hint = "import that first, or open the library by its path"
    else:
        words = "the path is from the current directory" if opening.is_of_current else _BARE
        words = f"does not find {what}: {words}"
    alone = ["no object of the wheel needs it, so it is not loaded already"]
    yield Hit(
        message=f"{opening.text} {words}",
        member=source,
        entry=name,
        notes=(f"needed by {join_some(needed, 3)}",)
        if needed
        else tuple(alone * (not opening.is_of_current)),
        hint=hint,
        severity=Severity.NOTE if needed and not is_first else _severity_of(opening),
    )


def _is_first(context: Context, source: str, opening: PythonOpening) -> bool:
    """Return whether a top-level package surely opens a library before it loads any of the wheel.

    Only for a statement of the module itself; what stands before it is known if it can be parsed.
    """
    wheel = context.wheel
    top = (site_path(source, wheel) or "").removesuffix("/__init__.py")
    text = wheel.sources.get(source, b"")
    opens = any(
        opener == source and other.line < opening.line and other.where is not LookupPlace.SEARCH
        for opener, other in openings(wheel)
    )
    line = b"".join(text.splitlines()[opening.line - 1 : opening.line])
    is_own = opening.on_import and line != b"" and not line[:1].isspace()
    if "/" in top or top.endswith(".py") or opens or not is_own or parse_source(text) is None:
        return False
    own = {(site_path(m, wheel) or "").partition("/")[0] for m in (*wheel.sources, *wheel.elfs)}
    modules = {name.partition(".")[0] for name in own} - {""}
    before = (naming for naming in namings(text, top) if naming.line < opening.line)
    return modules.isdisjoint(naming.name.partition(".")[0] for naming in before)


def _not_findable(
    context: Context, source: str, opening: PythonOpening, opened: frozenset[str]
) -> Iterator[Hit]:
    """Check a search of the system; `opened` are the names of all openings."""
    wheel, stem = context.wheel, f"lib{opening.name}"
    context.budget.spend(len(wheel.elfs) + len(opened), "the libraries that are searched")
    mine = [
        member
        for member, elf in wheel.elfs.items()
        if elf.dynamic and original_name(posixpath.basename(member)).startswith(f"{stem}.so")
    ]
    if mine and not any(name.startswith(stem) for name in opened):
        yield Hit(
            message=f"{opening.text} never finds the wheel's `{mine[0]}`: it searches only "
            "the system",
            member=source,
            entry=opening.name,
            hint="open the library by its path, made from `__file__`",
            severity=Severity.WARNING if opening.sure else Severity.NOTE,
        )


@rule("WF318", "opened-library-renamed", Severity.ERROR)
def opened_library_renamed(context: Context) -> Iterator[Hit]:
    """Library opened by name in Python code is renamed by the graft.

    ## What it does
    Reports names that a Python source opens, where the library of that name will be grafted (before
    a repair), or was (after one), and so is named `libfoo-1a2b3c4d.so.1`. Libraries of drivers and
    of providers are not grafted. The severity depends on how certain the failure is, as for WF317;
    it is a warning of a source or an object that has the name, and is not seen to open it. Not
    looked at are names in UTF-16, in strings that a compiler has packed (Cython), and in bytecode
    without its source (WF320).

    ## Why is this bad?
    The code finds no library: `OSError`. Or the system has a copy, and the process then has two,
    each with its own state.

    ## Example
    `ext.so` needs `libfoo.so.1`, and `pkg/__init__.py` calls `ctypes.CDLL("libfoo.so.1")`.

    ## Common causes
    - A package both links with a library and opens it by name. **Solution**: `keep-names =
      ["libfoo.so.*"]` grafts it under its own name; once the extension module is imported, the
      loader finds it by that name: the import must stand before the call (WF317). Other copies in
      the process then have the same name (WF315).

    ## Fix safety
    Not fixed: the project must choose between `keep-names` and a change of its code.
    """
    wheel, known = context.wheel, context.named_libraries
    elsewhere = libraries_provided_elsewhere(context)
    external = {
        name
        for name in context.dependents
        if name not in {*context.shipped, *elsewhere}
        and not may_come_from_platform(name, context.wheel.libc)
    }
    spared = (*context.settings.keep_names, *context.settings.exclude, *context.included)
    going = {name for name in external if not matches_any(name, spared)}
    told: set[tuple[str, str]] = set()
    for source, opening in openings(wheel):
        name = posixpath.basename(opening.name)
        if opening.where is LookupPlace.SOURCE and source not in wheel.opening_unknown:
            told.add((source, name))  # WF317 judges paths, and what is opened only where they lead
        if opening.where is not LookupPlace.SEARCH or known.called(name):
            continue
        new = next(iter(known.grafts_of(name)), None)
        if new is None and name not in going:
            continue
        told.add((source, name))
        # A handler, or another name, may be for other machines: here, the library is in the wheel.
        severity = max(_severity_of(opening), Severity.WARNING)
        file = name if new is None else posixpath.basename(new)
        if new is not None:
            message = f"{opening.text} does not find the library, which is now named `{file}`"
        else:
            message = f"{opening.text} opens a library that the graft will rename"
            severity = min(severity, Severity.WARNING)  # nothing is broken yet
        yield Hit(
            message=message,
            member=source,
            entry=name,
            notes=(f"needed by {join_some(context.dependents.get(file, ()), 3)}",),
            hint=f"`keep-names = [{toml_pattern(name)}]` grafts it under its own name"
            + "; import what needs it before this line" * _is_first(context, source, opening),
            severity=severity,
        )
    yield from _names_as_texts(context, going, told)


def _names_as_texts(
    context: Context, going: Collection[str], told: Container[tuple[str, str]]
) -> Iterator[Hit]:
    """Yield the members with a name that the graft changes as a text, but where that is `told`."""
    known = context.named_libraries
    renamed = {name for name in {*going, *known.earlier_names} if not known.called(name)}
    mentions = context.code.mentions(renamed) if context.code else dict[str, tuple[str, ...]]()
    for name in sorted(renamed):
        own = known.grafts_of(name)
        others = [m for m in mentions.get(name, ()) if (m, name) not in told and m not in own]
        if others:
            yield Hit(
                message=f"has the text `{name}`: if it opens the library by that name, it does not "
                f"find it, which the graft {'renamed' if own else 'will rename'}",
                member=others[0],
                entry=name,
                notes=other_members(others),
                hint=f"`keep-names = [{toml_pattern(name)}]` grafts it under its own name",
                severity=Severity.WARNING,
            )


@rule("WF319", "noted-library-missing", Severity.WARNING)
def noted_library_missing(context: Context) -> Iterator[Hit]:
    """Library named in an object's dlopen note is not found.

    ## What it does
    Reads `.note.dlopen` (ELF dlopen metadata of the UAPI group): names that the object passes to
    `dlopen`. Reports those of bundled libraries, perhaps renamed by a graft, that the object's own
    search path does not lead to.

    ## Why is this bad?
    Required libraries cause a failure; recommended or suggested ones are silently missing.

    ## Example
    A note asks for `libzstd.so.1`, and the wheel has `pkg.libs/libzstd-1a2b3c4d.so.1`.

    ## Common causes
    - The library was grafted for another object and renamed. **Solution**:
      `keep-names = ["libzstd.so.*"]`, and a search path entry for the object.

    ## Fix safety
    Not fixed.
    """
    for member, elf in context.wheel.elfs.items():
        for note in elf.dlopen_notes:
            for names, priority in names_in_note(note):
                yield from _unfound(context, member, names, priority)


def _unfound(context: Context, member: str, names: tuple[str, ...], priority: str) -> Iterator[Hit]:
    if any(context.included.get(name) for name in names):
        return  # WF322 judges these
    known = context.named_libraries
    mine = list(flatten((*known.grafts_of(n), *known.called(n)) for n in names))
    if not mine or any(may_come_from_platform(name, context.wheel.libc) for name in names):
        return
    if any(finds_by_name(context, member, name) for name in names):
        return
    yield Hit(
        message=f"opens {join_some(names, 3)} by its dlopen note, but does not find the "
        f"wheel's `{mine[0]}`",
        member=member,
        entry=names[0],
        notes=(f"priority: {priority}",),
        hint=f"`keep-names = [{toml_pattern(names[0])}]` grafts it under its own name",
        severity=Severity.ERROR if priority == "required" else None,
    )


def finds_by_name(context: Context, member: str, name: str) -> bool:
    """Return whether `member`, once loaded, opens `name` in every layout that installs it."""
    for world in context.worlds:
        path = world.paths.get(member)
        if path is not None:
            environment = world.environment
            alone = {path: context.wheel.elfs[member]._replace(needed=())}
            there = replace(environment, files={**environment.files, **alone})
            if alone[path].is_executable:
                roots: list[str | Dlopen] = [name]
                there = replace(there, main=path)
            else:
                roots = [path, Dlopen(name=name, caller=path)]
            *_, load = load_all(roots, there, context.budget)
            if load.requests[0].result is None:
                return False
    return True


@rule("WF320", "openings-not-judged", Severity.NOTE)
def openings_not_judged(context: Context) -> Iterator[Hit]:
    """Python code was not read completely, and may open other libraries than those found.

    ## What it does
    Reports Python sources that were not evaluated completely, because they are too long, too
    complex, or too many, and bytecode without its source, which is not read. What was found up to
    that point is used as usual.

    ## Why is this bad?
    It was not checked whether the libraries they open exist (WF317) or are renamed by the graft
    (WF318); and a copy that only they open counts as unused (WF515).

    ## Example
    A generated module of several megabytes that contains `ctypes.CDLL(name)`.

    ## Common causes
    - Generated code, or data in the form of code. **Solution**: open the libraries in a short
      module of their own, and import that.

    ## Fix safety
    Not fixed: nothing is known to be wrong.
    """
    wheel = context.wheel
    bytecode = (member for member in context.import_order.unread if member.endswith(".pyc"))
    given_up = [*present(wheel, wheel.unfollowed), *bytecode]
    if given_up:
        yield Hit(
            message=f"{count(len(given_up), 'Python file')} not evaluated completely: "
            "libraries opened by name there may have been missed",
            member=given_up[0],
            notes=(f"in {join_some(given_up, 3)}",),
            hint="open libraries in a short module of their own, or check these calls yourself",
        )
