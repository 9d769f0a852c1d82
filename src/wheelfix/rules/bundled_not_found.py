"""Whether every object finds the bundled libraries that it needs, once installed."""

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from wheelfix.elf.model import Abi, Elf, PathTag, names_of
from wheelfix.grouping import flatten, values_by_key
from wheelfix.loader.glibc_search import is_shared_object
from wheelfix.loader.install_schemes import (
    Layout,
    Scheme,
    describe,
    entries_between,
    lost_members,
    schemes,
    split,
)
from wheelfix.loader.loading import expands
from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.named_tuple import NamedTuple
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Finding, Fix, Hit, Severity
from wheelfix.rules.rule import rule
from wheelfix.settings import DataLibraries, SearchPathTag
from wheelfix.text import are
from wheelfix.wheel.edits import AddEntry, AddMember, CopyOf, Edit, MoveMember, SetPathTag
from wheelfix.wheel.model import LIBRARY_KEYS, PROGRAM_MODE, Key, Wheel
from wheelfix.wheel.platform_tags import RUNPATH_SINCE, reads_runpath


class Gap(NamedTuple):
    """Bundled libraries that one object of the wheel does not find."""

    dependent: str
    libraries: Mapping[str, str]
    """DT_NEEDED name -> the member that should satisfy it."""
    entries: tuple[str, ...]
    """The search path entries that lead there: several if no single one fits all schemes."""
    layouts: tuple[Layout, ...]
    """The layouts in which a library is not found."""
    inherited: bool
    """Whether an inherited DT_RPATH finds them whenever another object loads this one."""

    @property
    def schemes(self) -> tuple[Scheme, ...]:
        """The install schemes in which a library is not found."""
        return tuple(flatten(layout.schemes for layout in self.layouts))

    @property
    def names(self) -> str:
        """The libraries, for messages."""
        return ", ".join(f"`{name}`" for name in self.libraries)


def gaps(context: Context) -> tuple[Gap, ...]:
    """Return the libraries that are not found: one gap per object and set of entries."""
    return context.shared(_every_gap)


def _every_gap(context: Context) -> tuple[Gap, ...]:
    return tuple(_gaps(context))


def _gaps(context: Context) -> Iterator[Gap]:
    answers = context.needed_found

    for dependent, elf in context.wheel.elfs.items():
        ways: dict[tuple[tuple[str, ...], bool], dict[str, str]] = {}
        missing: dict[tuple[tuple[str, ...], bool], dict[int, None]] = {}
        for name in dict.fromkeys(elf.needed):
            failing = [n for n, seen in enumerate(answers) if seen.get((dependent, name)) is False]
            provider = _provider(context, dependent, name) if failing else None
            if provider is None:
                continue
            failing = [n for n in failing if provider in context.layouts[n].paths]
            if not failing:
                continue
            way = (_entries(context, dependent, provider), _is_inherited(context, dependent, name))
            ways.setdefault(way, {})[name] = provider
            missing.setdefault(way, {}).update(dict.fromkeys(failing))
        for (entries, inherited), libraries in ways.items():
            yield Gap(
                dependent=dependent,
                libraries=libraries,
                entries=entries,
                layouts=tuple(context.layouts[n] for n in missing[entries, inherited]),
                inherited=inherited,
            )


def _is_inherited(context: Context, dependent: str, name: str) -> bool:
    """Return whether a dependent finds `name` whenever another object loads it.

    Only for one that is vendored, or that nothing opens by itself.
    """
    is_vendored = context.settings.is_vendored(dependent, context.wheel)
    if not is_vendored and dependent not in context.only_needed:
        return False
    return context.needed_found_by_others.get((dependent, name), False)


def _provider(context: Context, dependent: str, name: str) -> str | None:
    """Return the member that should satisfy `name`; None if the platform or no member does."""
    if may_come_from_platform(name, context.wheel.libc):
        return None
    nearest = context.shared(_libraries_by_folder)
    abi, place = context.wheel.elfs[dependent].abi, split(dependent, context.wheel)
    for key in (place and place[0], None):
        ways = (
            (depth - 2 * common, library)
            for common, folder in enumerate(_folders(context, dependent))
            for depth, library in nearest.get((name, abi, key, folder), ())
            if library != dependent
        )
        _, provider = min(ways, default=(0, None))
        if provider is not None:
            return provider
    return None


_LibrariesByFolder = Mapping[tuple[str, Abi, Key | None, str], Sequence[tuple[int, str]]]
"""Name, ABI, install scheme path (None: any) and folder -> the two members below it with the
shortest paths, after the number of folders that each is in: one may be the dependent itself."""


def _libraries_by_folder(context: Context) -> _LibrariesByFolder:
    by_folder: dict[tuple[str, Abi, Key | None, str], list[tuple[int, str]]] = {}
    for name, members in context.shipped.items():
        for member in members:
            folders, place = _folders(context, member), split(member, context.wheel)
            abi = context.wheel.elfs[member].abi
            for key in {place and place[0], None}:
                for folder in folders:
                    best = by_folder.setdefault((name, abi, key, folder), [])
                    best.append((len(folders) - 1, member))
                    best.sort()
                    del best[2:]
    return by_folder


def _folders(context: Context, member: str) -> list[str]:
    """Return the folders above `member`, the outermost first."""
    names = member.split("/")[:-1]
    size = (len(names) + 1) * len(member)
    context.budget.spend(size >> 4, "the folders", member, memory=size)
    return ["/".join(names[:depth]) for depth in range(len(names) + 1)]


def _entries(context: Context, dependent: str, provider: str) -> tuple[str, ...]:
    """Return the entries from `dependent` to `provider`, for all schemes that install it."""
    wheel, place = context.wheel, split(posixpath.dirname(provider), context.wheel)
    return entries_between(dependent, place, wheel, context.schemes_of(dependent))


def add_entries(context: Context, dependent: str, entries: Sequence[str]) -> tuple[Edit, ...]:
    """Return the edits that add `entries` to the search path, in the requested tag."""
    tag = tag_for_new_entry(context, dependent)
    retag = (SetPathTag(member=dependent, tag=tag),) if tag is not None else ()
    return (*(AddEntry(member=dependent, entry=entry) for entry in entries), *retag)


def tag_for_new_entry(context: Context, dependent: str) -> PathTag | None:
    """Return the tag that an object with a new entry must change to; None to keep it."""
    elf = context.wheel.elfs[dependent]
    wants_runpath = context.settings.search_path_tag is SearchPathTag.RUNPATH
    tag = elf.path_tag_for(PathTag.RUNPATH if wants_runpath else PathTag.RPATH)
    only = elf.rpath is None or elf.runpath is None
    is_default = tag is PathTag.RPATH and elf.path_tag is None
    return None if only and (is_default or elf.path_tag is tag) else tag


def gaps_of_repair(context: Context, before: Wheel) -> tuple[Finding, ...]:
    """Return the gaps of what this repair added, moved, or took a search path from.

    `before` is the wheel as read. No setting selects, ignores or softens these findings: a repair
    must not publish a library that is not found. An object that found its libraries when it was
    opened first, as built or by the graft, still does: one that others load finds them, too.
    """
    new = context.wheel.elfs.keys() - before.elfs.keys()
    unserved = _unserved(context, before)
    return tuple(
        Finding(
            code="graft",
            name="graft",
            severity=Severity.NOTE if gap.inherited else Severity.ERROR,
            member=gap.dependent,
            message=f"{gap.names} cannot be found once installed",
            notes=_gap_notes(context, gap),
            fix=_fix(context, gap),
        )
        for gap in (gaps(context) if new or unserved else ())
        if gap.dependent in new
        or not new.isdisjoint(gap.libraries.values())
        or any((gap.dependent, name) in unserved for name in gap.libraries)
    )


def _unserved(context: Context, before: Wheel) -> frozenset[tuple[str, str]]:
    """Return objects with the DT_NEEDED entries that a dropped search path may have served.

    An absolute entry led to the folders of the build, which this machine need not have. An object
    and all that it loads searched there; what is still found in its load needs no other way.
    """
    lost = [
        member
        for member, elf in context.wheel.elfs.items()
        if member in before.elfs and _has_lost_entries(before.elfs[member], elf)
    ]
    pairs = ((gap.dependent, name) for gap in gaps(context) for name in gap.libraries)
    lacking = values_by_key(pairs)
    found_pairs: set[tuple[str, str]] = set()
    for member in lost if lacking else ():
        loaded = [other for other in _closure(context, (member,)) if other in lacking]
        for world in context.worlds if loaded else ():
            requests = world.loads[member].requests if member in world.loads else ()
            context.budget.spend(1 + len(requests), "the load", member)
            served = {(r.requester, r.name) for r in requests if r.result is not None}
            for other in loaded:
                place = world.paths.get(other)
                found_pairs.update((other, n) for n in lacking[other] if (place, n) not in served)
    return frozenset(found_pairs)


def _has_lost_entries(before: Elf, after: Elf) -> bool:
    """Return whether the object, or what it loads, searched where it no longer does."""
    no_longer_inherited = before.path_tag is PathTag.RPATH and after.path_tag is PathTag.RUNPATH
    return no_longer_inherited or not {*before.entries} <= {*after.entries}


def _programs(context: Context, gap: Gap) -> list[str]:
    """Return the members that are named like a library and are a program."""
    elfs = context.wheel.elfs
    return [name for name in gap.libraries.values() if not is_shared_object(elfs[name])]


def _unnamed(gap: Gap) -> str:
    """Return an entry for the libraries that the loader would cut or expand; empty without one."""
    entries = ((entry, entry.removeprefix("$ORIGIN")) for entry in gap.entries)
    return next((entry for entry, rest in entries if not {":", "$"}.isdisjoint(rest)), "")


def _is_refused(context: Context, gap: Gap) -> bool:
    """Return whether the search path leads to the libraries, so that the loader refuses them."""
    elf = context.wheel.elfs[gap.dependent]
    is_read = all(expands(entry, elf.libc) for entry in elf.entries)
    return is_read and set(gap.entries) <= set(elf.entries)


def _fix(context: Context, gap: Gap) -> Fix | None:
    """Return the fix for a gap: one entry where that is enough."""
    is_read = reads_runpath(context.wheel.name.platforms)
    if not is_read or _programs(context, gap) or _is_refused(context, gap) or _unnamed(gap):
        return None  # no search path helps
    if len(gap.entries) != 1:
        return _bridge(context, gap)
    edits = add_entries(context, gap.dependent, gap.entries)
    return Fix(title="add an entry for the library", edits=edits)


def _bridge(context: Context, gap: Gap) -> Fix | None:
    """Return the fix for a gap between two install scheme paths.

    From site-packages, a few entries reach the library for all Python versions, and the library
    remains a single file, which the package may also open by its path.
    """
    match how := context.settings.data_libraries:
        case DataLibraries.MOVE:
            return _move(context, gap)
        case DataLibraries.COLOCATE if _stays_outside(context, gap.dependent):
            return _colocate(context, gap)
        case DataLibraries.SEARCH | DataLibraries.COLOCATE:
            edits = add_entries(context, gap.dependent, gap.entries)
            return Fix(title="search the paths of all install schemes", edits=edits)
        case _:
            assert_never(how)


def _move(context: Context, gap: Gap) -> Fix | None:
    """Move members of the data scheme to site-packages; executables get copies instead."""
    moves = [
        MoveMember(member=member, new=new)
        for member in (gap.dependent, *gap.libraries.values())
        if (new := _in_platlib(context, member)) is not None
    ]
    taken = context.wheel.member_names
    if not moves:
        return _colocate(context, gap)
    if any(move.new in taken for move in moves):
        return None
    return Fix(title="move to platlib", edits=tuple(moves))


def _in_platlib(context: Context, member: str) -> str | None:
    """Return the name in platlib for a library of the data scheme, None for any other member.

    A folder that is not the wheel's own, such as `lib`, would be one of all distributions there.
    """
    wheel = context.wheel
    place = split(member, wheel)
    if place is None or place[0] is not Key.DATA or wheel.elfs[member].is_executable:
        return None
    new, distribution = place[1], wheel.name.distribution
    folder, _, rest = new.partition("/")
    if folder not in {distribution, *context.top_levels}:
        new = f"{context.settings.graft_folder(distribution)}/{rest or folder}"
    return f"{wheel.data_dir}/platlib/{new}" if wheel.root_is_purelib else new


def _colocate(context: Context, gap: Gap) -> Fix:
    """Copy the libraries and their dependencies to a path relative to the dependent.

    Those that this repair grafted, and that no other object may need, are moved there. What was in
    the wheel stays where it was: a name that is made when Python runs, or a glob, may open it.
    """
    wheel = context.wheel
    folder = _folder_beside(context, gap.dependent)
    members = {member.name: member for member in wheel.members}
    closure = _closure(context, gap.libraries.values())
    moves = [
        MoveMember(member=library, new=f"{folder}/{posixpath.basename(library)}")
        for library in _needed_only_beside(context, folder, closure)
        if f"{folder}/{posixpath.basename(library)}" not in members
    ]
    if moves:
        return Fix(
            title="move the libraries to the install scheme that needs them", edits=tuple(moves)
        )
    copies = [
        AddMember(
            member=f"{folder}/{posixpath.basename(library)}",
            source=CopyOf(member=library),
            size=members[library].size,
            mode=members[library].mode or PROGRAM_MODE,
        )
        for library in closure
        if f"{folder}/{posixpath.basename(library)}" not in members
    ]
    entries = entries_between(gap.dependent, split(folder, wheel), wheel, schemes(wheel.name))
    return Fix(
        title="copy the libraries to the file's own install scheme",
        edits=(*copies, *add_entries(context, gap.dependent, entries)),
    )


COPIES = ".data-libs"
"""How the names of folders end that hold such copies."""


def _folder_beside(context: Context, dependent: str) -> str:
    """Return the directory for copies with the same path relative to `dependent` in every scheme.

    In every scheme, `bin` has the same path relative to the data: executables use the data's.
    """
    wheel = context.wheel
    place = split(dependent, wheel)
    key = Key.HEADERS if place and place[0] is Key.HEADERS else Key.DATA
    return f"{wheel.data_dir}/{key}/{wheel.name.distribution}{COPIES}"


def _needed_only_beside(
    context: Context, folder: str, libraries: Collection[str]
) -> tuple[str, ...]:
    """Return those grafted `libraries` that only objects with `folder` beside them need.

    No Python source and no code of an object has their names.
    """
    if context.definitions is None or context.origin is None:
        return ()
    grafted = set(libraries) - context.origin.elfs.keys()
    beside = {
        member
        for member in context.wheel.elfs
        if _stays_outside(context, member) and _folder_beside(context, member) == folder
    }
    elsewhere = (member for member in context.wheel.elfs if member not in grafted)
    # What these need in turn, they find by their own search path, whatever loads them.
    alone = grafted - set(_closure(context, elsewhere, beside))
    mentions = context.definitions.code.mentions({posixpath.basename(library) for library in alone})
    return tuple(
        library
        for library in libraries
        if library in alone and not mentions[posixpath.basename(library)]
    )


def _stays_outside(context: Context, member: str) -> bool:
    """Return whether a member is installed outside site-packages after this repair."""
    place = split(member, context.wheel)
    if place is None or place[0] in LIBRARY_KEYS:
        return False
    moves = context.settings.data_libraries is DataLibraries.MOVE
    return not moves or _in_platlib(context, member) is None


def _closure(
    context: Context, libraries: Iterable[str], apart: Collection[str] = ()
) -> tuple[str, ...]:
    """Return `libraries` and their dependencies in the wheel, each once, without those `apart`."""
    closed: dict[str, None] = {}
    waiting = list(libraries)
    while waiting:
        library = waiting.pop(0)
        if library in closed or library in apart:
            continue
        closed[library] = None
        needed = context.wheel.elfs[library].needed
        context.budget.spend(2 + 2 * len(needed), f"the dependencies of `{library}`")
        providers = (_provider(context, library, name) for name in needed)
        waiting.extend(provider for provider in providers if provider is not None)
    return tuple(closed)


def search_path_note(elf: Elf) -> str:
    """Return a note on the search path of an object."""
    tag = elf.path_tag
    return f"{tag} is `{elf.search_path}`" if tag else "it has no search path of its own"


def _gap_hit(context: Context, gap: Gap, message: str, hint: str) -> Hit:
    programs = _programs(context, gap)
    if programs:
        hint = f"`{programs[0]}` is a program, which the loader refuses: give it another name"
    elif not reads_runpath(context.wheel.name.platforms):
        hint = f"build the wheel for API level {RUNPATH_SINCE}, whose loader reads DT_RUNPATH"
    elif entry := _unnamed(gap):
        hint = f"rename the folder: no search path can have `{entry}`"
    elif _is_refused(context, gap):
        hint = f"the loader refuses `{next(iter(gap.libraries.values()))}`: build it again"
    return Hit(
        message=message,
        member=gap.dependent,
        notes=_gap_notes(context, gap),
        hint=hint,
        fix=_fix(context, gap),
    )


def _gap_notes(context: Context, gap: Gap) -> tuple[str, ...]:
    return (
        search_path_note(context.wheel.elfs[gap.dependent]),
        f"the wheel has it as `{next(iter(gap.libraries.values()))}`",
        f"fails in: {describe(gap.schemes)}",
    )


def _without_entry(context: Context, gap: Gap, message: str) -> Hit:
    return _gap_hit(context, gap, message, f"`wheelfix repair` adds the entry `{gap.entries[0]}`")


@rule("WF101", "unreachable-library", Severity.ERROR)
def unreachable_library(context: Context) -> Iterator[Hit]:
    """Bundled library is not found once installed: cannot open shared object file.

    ## What it does
    Simulates the installation in every scheme that the tags allow, and the loader's search for each
    ELF object, as if that object were opened first. Reports the bundled libraries that the search
    does not find. It is for information if the object is a plug-in of these libraries: they contain
    its name, or are extension modules, so that they are loaded before it; or a program of the wheel
    loads them, and nothing in the wheel is known to open the object. It is a warning for a
    plug-in that nothing in the wheel is seen to load, if the libraries are loaded by something else
    or are beside it, for a program whose package names LD_LIBRARY_PATH, and where a Python source
    of the package opens the libraries by their paths, maybe before, or others by names that are not
    known, as by `torch.ops.load_library(path)`. What runs only once the import of the object has
    begun is too late.

    ## Why is this bad?
    The import or the `dlopen` fails with `cannot open shared object file`, or loads another library
    of that name on the user's machine.

    ## Example
    `pkg-1.0.data/platlib/pkg/sub/_core.so` with DT_RPATH `$ORIGIN/../../../../pkg.libs`: correct in
    the zip, but the installed file is `pkg/sub/_core.so`, and needs `$ORIGIN/../../pkg.libs`.

    ## Common causes
    - The search path was computed from paths in the zip (pypa/auditwheel 257). **Solution**:
      `wheelfix repair`.
    - The library was added after linking, without a search path. **Solution**: link with
      `-Wl,-rpath,'$ORIGIN/…'`, or `wheelfix repair`.
    - A tool wrote DT_RUNPATH instead of DT_RPATH, which is not inherited. **Solution**: `patchelf
      --force-rpath`, or `wheelfix repair`.

    ## Fix safety
    Safe: one `$ORIGIN`-relative entry is added that is correct in every install scheme. It comes
    last, so that libraries found today are found in the same place. The entry goes into DT_RPATH,
    as with auditwheel, unless `search-path-tag` says otherwise.
    """
    for gap in gaps(context):
        if len(gap.entries) == 1 and not gap.inherited and not _is_blocked(context, gap):
            hit = _without_entry(context, gap, f"{gap.names} cannot be found once installed")
            if _is_plugin(context, gap):
                yield replace(hit, severity=Severity.NOTE)
            elif _may_be_loaded_with_them(context, gap):
                notes = ("nothing in the wheel is seen to load it without them", *hit.notes)
                yield replace(hit, severity=Severity.WARNING, notes=notes)
            elif opener := _possible_opener(context, gap):
                yield replace(hit, severity=Severity.WARNING, notes=(opener, *hit.notes))
            else:
                yield hit


def _possible_opener(context: Context, gap: Gap) -> str:
    """Return a note on what of the package may open the libraries before; empty if nothing may."""
    wheel = context.wheel
    if wheel.elfs[gap.dependent].is_executable or any(
        wheel.elfs[library].soname != name for name, library in gap.libraries.items()
    ):
        return ""
    names = {posixpath.basename(library) for library in gap.libraries.values()}
    users = [] if wheel.elfs[gap.dependent].module_hooks else _modules_with(context, gap.dependent)
    ways = [context.import_order.possible_opener(m, names) for m in users or [gap.dependent]]
    return ways[0] if all(ways) else ""


def _may_be_loaded_with_them(context: Context, gap: Gap) -> bool:
    """Return whether something that is not seen may load the object and the libraries it misses.

    The package of a program names LD_LIBRARY_PATH. The host of plug-ins loads all of a folder,
    where the rest of the wheel loads what else they need.
    """
    seen, folder = context.objects_in_use, posixpath.dirname(gap.dependent)
    if gap.dependent in seen:
        return False
    return context.wheel.elfs[gap.dependent].is_executable or all(
        library in seen or posixpath.dirname(library) == folder
        for library in gap.libraries.values()
    )


def _is_plugin(context: Context, gap: Gap) -> bool:
    """Return whether the libraries are surely loaded before the object that misses them.

    The loader finds a loaded library by its SONAME. They are loaded if they open the object, whose
    name they contain, if Python opens them before it, or if they are extension modules, and the
    object is none. A program starts a process of its own; a plug-in of one is nothing that Python
    or another object opens.
    """
    elfs = context.wheel.elfs
    if elfs[gap.dependent].is_executable:
        return False
    if any(elfs[library].soname != name for name, library in gap.libraries.items()):
        return False
    is_module = bool(elfs[gap.dependent].module_hooks)
    if not is_module and all(elfs[library].module_hooks for library in gap.libraries.values()):
        return True
    order, libraries = context.import_order, gap.libraries.values()
    modules = [gap.dependent] if is_module else _modules_with(context, gap.dependent)
    is_before = bool(modules) and all(order.opened_before_import(m, libraries) for m in modules)
    if is_before or (not is_module and order.opened_first(gap.dependent, libraries)):
        return True
    if context.definitions is None:
        return False
    name = posixpath.basename(gap.dependent)
    mentions = context.definitions.code.mentions({name})[name]
    return set(gap.libraries.values()) <= set(mentions) or (
        not (
            mentions or is_module or {name, elfs[gap.dependent].soname} & context.dependents.keys()
        )
        and _has_program_with(context, gap.libraries.values())
    )


def _modules_with(context: Context, library: str) -> list[str]:
    """Return the modules that load a library; none if something opens it by itself."""
    world, elfs = context.world, context.wheel.elfs
    path = world.paths.get(library)
    if path is None or context.named_libraries.is_opened_by_path(library):
        return []
    loads = world.loads.items()
    return [m for m, load in loads if path in load.objects and elfs[m].module_hooks]


def _has_program_with(context: Context, libraries: Iterable[str]) -> bool:
    """Return whether a program of the wheel loads all `libraries`."""
    world = context.world
    paths = {world.paths.get(library, "") for library in libraries}
    for load in world.program_loads:
        context.budget.spend(1 + len(load.objects), "the loads of its programs")
        if paths <= set(load.objects):
            return True
    return False


@rule("WF102", "inherited-search-path", Severity.NOTE)
def inherited_search_path(context: Context) -> Iterator[Hit]:
    """Bundled library relies on an inherited DT_RPATH.

    ## What it does
    Reports vendored libraries, and others that nothing is known to open by themselves, that need
    another library of the wheel and have no search path of their own, where every object that loads
    them has a DT_RPATH that leads there.

    ## Why is this bad?
    It works, but is fragile: a DT_RPATH is inherited by dependencies, a DT_RUNPATH is not
    (ld.so(8)). If a tool converts one to the other, or if the library is opened directly, its
    dependency is not found.

    ## Example
    `numpy.libs/libscipy_openblas.so` needs `libgfortran.so.5` in the same directory, and has no
    `$ORIGIN`.

    ## Common causes
    - auditwheel before 6.7 gave grafted libraries no search path.
      **Solution**: repair the unrepaired wheel again with a newer auditwheel, or link the
      library with `-Wl,-rpath,'$ORIGIN'`.

    ## Fix safety
    Not fixed: nothing is broken, and the fix would rewrite large libraries for no benefit. A repair
    that drops an entry which may have led to the library adds one to the object itself.
    """
    for gap in gaps(context):
        if gap.inherited:
            yield Hit(
                message=f"{gap.names} {are(gap.libraries)} found only by an inherited DT_RPATH",
                member=gap.dependent,
                notes=(search_path_note(context.wheel.elfs[gap.dependent]),),
            )


@rule("WF103", "no-common-path", Severity.ERROR)
def no_common_path(context: Context) -> Iterator[Hit]:
    """No single RPATH leads to the library in every install scheme.

    ## What it does
    Reports objects in `*.data/data`, `*.data/scripts` or `*.data/headers` that need a library in
    site-packages, and the reverse, where the relative path depends on the install scheme or the
    Python version.

    ## Why is this bad?
    Files of the data scheme go to `<prefix>`, the package to
    `<prefix>/lib/python3.X/site-packages`, on Debian to `dist-packages`, with `--target` to the
    same directory. An entry that is correct for one of these is wrong for the others, and may even
    lead out of the environment, where an attacker could plant a library.

    ## Example
    CyFES: `*.data/data/cyfes/libcufes.so` gets `$ORIGIN/../../../cyfes.libs` from auditwheel, and
    the process crashes after `pip install`.

    ## Common causes
    - `data_files` of setuptools, or a CMake install into `${SKBUILD_DATA_DIR}`, puts a library
      outside the package. **Solution**: ship it as package data; or choose a policy with
      `data-libraries`:
      - `colocate` (default): the libraries are copied to the file's own scheme; one that the
        repair grafts goes there if only files of that scheme need it; a package that needs a
        library of the data scheme gets entries, as with `search`;
      - `search`: adds one entry for each scheme and Python version;
      - `move`: moves the file to platlib, from a folder that is not the wheel's own, such as `lib`,
        to that of grafted libraries; the code that opens it must look there.
    - An executable in `scripts` needs a vendored library. **Solution**: as above; executables are
      never moved or replaced by a Python wrapper.

    ## Fix safety
    Safe: the same libraries are loaded. `colocate` makes the wheel larger by the copies; a library
    that is loaded from both paths exists twice in the process, which matters if it has state. What
    was in the wheel stays where it was.
    """
    for gap in gaps(context):
        if len(gap.entries) != 1 and not gap.inherited:
            message = f"no single RPATH entry leads to {gap.names} in every install scheme"
            yield _gap_hit(context, gap, message, "`wheelfix repair` adds entries or copies")


def _is_blocked(context: Context, gap: Gap) -> bool:
    """Return whether the object's own DT_RUNPATH disables an inherited DT_RPATH."""
    elf = context.wheel.elfs[gap.dependent]
    return elf.runpath is not None and context.settings.is_vendored(gap.dependent, context.wheel)


@rule("WF104", "runpath-blocks-inheritance", Severity.ERROR)
def runpath_blocks_inheritance(context: Context) -> Iterator[Hit]:
    """DT_RUNPATH disables the inherited DT_RPATH of a vendored library.

    ## What it does
    Reports vendored libraries with a DT_RUNPATH that does not lead to the libraries they need.

    ## Why is this bad?
    An object with a DT_RUNPATH, even a wrong one, does not inherit the DT_RPATH of the object that
    loads it (ld.so(8), glibc elf/dl-load.c). A library in the same directory is not found.

    ## Example
    A library built with `-Wl,-rpath,/build/lib` was grafted by auditwheel before 6.7, which kept
    its DT_RUNPATH: `libb-4e504812.so.1: cannot open shared object file`.

    ## Common causes
    - A grafted library kept the search path of the build machine. **Solution**: `wheelfix repair`.
    - `patchelf --set-rpath` without `--force-rpath` converted DT_RPATH to DT_RUNPATH. **Solution**:
      add `--force-rpath`, or `wheelfix repair`.

    ## Fix safety
    Safe: the correct entry is added, in DT_RPATH unless `search-path-tag` says otherwise.
    """
    for gap in gaps(context):
        if len(gap.entries) == 1 and not gap.inherited and _is_blocked(context, gap):
            message = f"its DT_RUNPATH disables the inherited DT_RPATH that leads to {gap.names}"
            yield _without_entry(context, gap, message)


@rule("WF105", "lost-by-installer", Severity.WARNING)
def lost_by_installer(context: Context) -> Iterator[Hit]:
    """File is dropped by `pip install --target`.

    ## What it does
    Reports ELF objects and scripts that `pip install --target` does not install. An ELF object is
    for information unless an object that it does install needs it.

    ## Why is this bad?
    With `--target`, pip installs into a temporary directory and moves the top-level items from
    there. A directory of `*.data/data` with the same name as the package already exists, and is
    dropped with at most a warning; so are all scripts, where the wheel has a top-level `bin`.
    Everything below `*.data/data/lib` is dropped silently (pypa/pip 8799, 10399). Objects that need
    the file then fail to load.

    ## Example
    `cyfes-4.5.data/data/cyfes/libcufes.so`, where the package is also named `cyfes`.

    ## Common causes
    - `data_files` installs libraries outside the package. **Solution**: ship them as package data,
      or `wheelfix repair --data-libraries=move`, if the code looks for them in the package.
    - A package is named `bin`, as the directory of scripts. **Solution**: rename it.

    ## Fix safety
    Not fixed: moving the file would change the path that the code must use.
    """
    for member in context.wheel.elfs:
        lost = [layout for layout in context.layouts if member not in layout.paths]
        place = split(member, context.wheel)
        if lost and place is not None:
            yield Hit(
                message="is not installed by `pip install --target`",
                member=member,
                notes=("lost in: " + describe(flatten(layout.schemes for layout in lost)),),
                hint="ship it as package data",
                severity=None if _is_missed(context, member, lost) else Severity.NOTE,
            )
    for member, losing in lost_members(context.wheel).items():
        place = split(member, context.wheel)
        if place is not None and place[0] is Key.SCRIPTS and member not in context.wheel.elfs:
            yield Hit(
                message="is not installed by `pip install --target`: the wheel has a top-level "
                "`bin` of its own",
                member=member,
                notes=(f"lost in: {describe(losing)}",),
                hint="rename the top-level `bin`",
            )


def _is_missed(context: Context, member: str, layouts: Iterable[Layout]) -> bool:
    """Return whether an object that one of `layouts` installs needs `member`, which it does not."""
    names = names_of(member, context.wheel.elfs[member].soname)
    dependents = set(flatten(context.dependents.get(name, ()) for name in names))
    return any(dependents & layout.paths.keys() for layout in layouts)
