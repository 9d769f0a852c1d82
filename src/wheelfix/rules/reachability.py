"""Whether every object finds the libraries that the wheel ships for it, once installed."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, assert_never

from wheelfix.elf.model import Elf, PathTag
from wheelfix.loader.install_schemes import (
    Key,
    Layout,
    Scheme,
    describe,
    entries_between,
    schemes,
    split,
)
from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Fix, Hit, Severity
from wheelfix.rules.rule import rule
from wheelfix.settings import DataLibraries, SearchPathTag
from wheelfix.wheel.edits import AddEntry, AddMember, CopyOf, Edit, MoveMember, SetPathTag
from wheelfix.wheel.model import Wheel, is_vendored

_LIBRARY_KEYS = (Key.PURELIB, Key.PLATLIB)


class Gap(NamedTuple):
    """Libraries that the wheel ships, and that one of its objects does not find by itself."""

    user: str
    libraries: Mapping[str, str]
    """DT_NEEDED name -> the member that should answer it."""
    entries: tuple[str, ...]
    """The search path entries that lead there: more than one if no single one always does."""
    layouts: tuple[Layout, ...]
    """The arrangements in which something is not found."""
    inherited: bool
    """An ancestor's DT_RPATH finds them whenever the object is loaded for another one."""

    @property
    def schemes(self) -> tuple[Scheme, ...]:
        """The install schemes in which something is not found."""
        return tuple(scheme for layout in self.layouts for scheme in layout.schemes)

    @property
    def names(self) -> str:
        """The libraries, for messages."""
        return ", ".join(f"`{name}`" for name in self.libraries)


def gaps(context: Context) -> Iterator[Gap]:
    """Yield what is not found, one gap for each object and each way to the libraries."""
    found = [_found(context, index) for index in range(len(context.layouts))]
    for user, elf in context.wheel.elfs.items():
        ways: dict[tuple[tuple[str, ...], bool], dict[str, str]] = {}
        missing: dict[tuple[tuple[str, ...], bool], dict[int, None]] = {}
        for name in dict.fromkeys(elf.needed):
            provider = _provider(context, user, name)
            if provider is None:
                continue
            failing = [
                n
                for n, seen in enumerate(found)
                if seen.get((user, name)) is False and provider in context.layouts[n].paths
            ]
            if not failing:
                continue
            way = (_entries(context, user, provider), _is_inherited(context, user, name))
            ways.setdefault(way, {})[name] = provider
            missing.setdefault(way, {}).update(dict.fromkeys(failing))
        for (entries, inherited), libraries in ways.items():
            yield Gap(
                user=user,
                libraries=libraries,
                entries=entries,
                layouts=tuple(context.layouts[n] for n in missing[entries, inherited]),
                inherited=inherited,
            )


def _found(context: Context, index: int) -> dict[tuple[str, str], bool]:
    """Return, for one layout, whether each object finds each DT_NEEDED when opened first."""
    layout, loads = context.layouts[index], context.loads[index]
    return {
        (member, request.name): request.result is not None
        for member, load in loads.items()
        for request in load.requests
        if request.requester == layout.paths[member]
    }


def _is_inherited(context: Context, user: str, name: str) -> bool:
    """Return whether a vendored `user` finds `name` whenever another object loads it."""
    if not is_vendored(user):
        return False
    results = [
        request.result is not None
        for layout, loads in zip(context.layouts, context.loads, strict=True)
        for member, load in loads.items()
        if member != user
        for request in load.requests
        if request.requester == layout.paths.get(user) and request.name == name
    ]
    return bool(results) and all(results)


def _provider(context: Context, user: str, name: str) -> str | None:
    """Return the member that should answer `name`, or None if that is not the wheel's to do."""
    if may_come_from_platform(name):
        return None
    elfs = context.wheel.elfs
    candidates = [
        member
        for member in context.shipped.get(name, ())
        if member != user and _fits(elfs[user], elfs[member])
    ]
    return min(candidates, key=lambda member: _distance(context.wheel, user, member), default=None)


def _fits(user: Elf, library: Elf) -> bool:
    """Return whether the loader would take `library` for `user` (glibc elf/dl-load.c)."""
    return user.abi == library.abi


def _distance(wheel: Wheel, user: str, library: str) -> tuple[bool, int, str]:
    """Order providers: the same install scheme path first, then the shortest way, then by name."""
    mine, theirs = split(user, wheel), split(library, wheel)
    way = posixpath.relpath(posixpath.dirname(library), posixpath.dirname(user) or ".")
    return (not mine or not theirs or mine[0] is not theirs[0], way.count("/"), library)


def _entries(context: Context, user: str, provider: str) -> tuple[str, ...]:
    """Return the entries from `user` to `provider`, over the schemes that install `user`."""
    installed = [
        scheme for layout in context.layouts if user in layout.paths for scheme in layout.schemes
    ]
    return entries_between(user, posixpath.dirname(provider), context.wheel, installed)


# --- Fixes ----------------------------------------------------------------------------------------


def add_entries(context: Context, user: str, entries: Sequence[str]) -> tuple[Edit, ...]:
    """Return the edits that put `entries` into the search path, in the tag that is asked for."""
    tag = wanted_tag(context, user)
    retag = (SetPathTag(member=user, tag=tag),) if tag is not None else ()
    return (*(AddEntry(member=user, entry=entry) for entry in entries), *retag)


def wanted_tag(context: Context, user: str) -> PathTag | None:
    """Return the tag that an object with a new entry must change to, None to leave it."""
    elf = context.wheel.elfs[user]
    runpath = context.settings.search_path_tag is SearchPathTag.RUNPATH
    tag = PathTag.RUNPATH if runpath else PathTag.RPATH
    only = elf.rpath is None or elf.runpath is None
    return None if only and elf.path_tag in {tag, *([] if runpath else [None])} else tag


def _bridge(context: Context, gap: Gap) -> Fix | None:
    """Return the fix for a gap between two install scheme paths, by the policy asked for.

    From site-packages the way out is the same for all Pythons, so that a few entries serve, and
    the library stays one file: the package may well open it by its path, too.
    """
    place = split(gap.user, context.wheel)
    match context.settings.data_libraries:
        case DataLibraries.MOVE:
            return _move(context, gap)
        case DataLibraries.COLOCATE if place and place[0] not in _LIBRARY_KEYS:
            return _colocate(context, gap)
        case DataLibraries.SEARCH | DataLibraries.COLOCATE:
            edits = add_entries(context, gap.user, gap.entries)
            return Fix(title="search every place the schemes may mean", edits=edits)
        case _:
            assert_never(context.settings.data_libraries)


def _move(context: Context, gap: Gap) -> Fix | None:
    """Move what stands outside site-packages there; executables stay, and get copies instead."""
    moves = [
        MoveMember(member=member, new=new)
        for member in (gap.user, *gap.libraries.values())
        if (new := _in_platlib(context.wheel, member)) is not None
    ]
    taken = {member.name for member in context.wheel.members}
    if not moves:
        return _colocate(context, gap)
    if any(move.new in taken for move in moves):
        return None
    return Fix(title="move to platlib, beside the package", edits=tuple(moves))


def _in_platlib(wheel: Wheel, member: str) -> str | None:
    """Return the name in platlib for a member of the data scheme, None for any other."""
    place = split(member, wheel)
    if place is None or place[0] is not Key.DATA:
        return None
    return f"{wheel.data_dir}/platlib/{place[1]}" if wheel.root_is_purelib else place[1]


def _colocate(context: Context, gap: Gap) -> Fix:
    """Copy the libraries, and what they need of the wheel, to where they move with their user."""
    wheel = context.wheel
    folder = _folder_beside(context, gap.user)
    names = {member.name for member in wheel.members}
    sizes = {member.name: member for member in wheel.members}
    copies = [
        AddMember(
            member=f"{folder}/{posixpath.basename(library)}",
            source=CopyOf(member=library),
            size=sizes[library].size,
            mode=sizes[library].mode or 0o100755,
            elf=wheel.elfs[library],
        )
        for library in _closure(context, tuple(gap.libraries.values()))
        if f"{folder}/{posixpath.basename(library)}" not in names
    ]
    entries = entries_between(gap.user, folder, wheel, schemes(wheel.name))
    return Fix(
        title="copy the libraries to the file's own install scheme",
        edits=(*copies, *add_entries(context, gap.user, entries)),
    )


def _folder_beside(context: Context, user: str) -> str:
    """Return the folder for copies that keeps one relation to `user` in every scheme.

    Executables go to `bin` beside the data in every scheme there is, so they share the data's.
    """
    wheel = context.wheel
    place = split(user, wheel)
    key = Key.HEADERS if place and place[0] is Key.HEADERS else Key.DATA
    return f"{wheel.data_dir}/{key}/{wheel.name.distribution}.data-libs"


def _closure(context: Context, libraries: tuple[str, ...]) -> tuple[str, ...]:
    """Return `libraries` and all that they need of the wheel, each once."""
    closed: dict[str, None] = {}
    waiting = list(libraries)
    while waiting:
        library = waiting.pop(0)
        if library in closed:
            continue
        closed[library] = None
        needed = context.wheel.elfs[library].needed
        providers = (_provider(context, library, name) for name in needed)
        waiting.extend(provider for provider in providers if provider is not None)
    return tuple(closed)


# --- Rules ----------------------------------------------------------------------------------------


def _searched(context: Context, gap: Gap) -> str:
    elf = context.wheel.elfs[gap.user]
    path = elf.search_path
    return f"{elf.path_tag} is `{path}`" if path else "it has no search path of its own"


@rule("WF101", "unreachable-library", Severity.ERROR)
def unreachable_library(context: Context) -> Iterator[Hit]:
    """A library in the wheel cannot be found from where its user is installed.

    ## What it does
    Installs the wheel on paper, in every scheme that its tags allow, lets each ELF object be the
    first to be opened, and follows the loader's search. Reports the libraries that the wheel
    ships and that this search does not find.

    ## Why is this bad?
    The import or the `dlopen` fails with `cannot open shared object file`, or finds another
    library of that name on the user's machine.

    ## Example
    `pkg-1.0.data/platlib/pkg/sub/_core.so` with DT_RPATH `$ORIGIN/../../../../pkg.libs`: right in
    the zip, but installed the file is `pkg/sub/_core.so`, and the entry must be
    `$ORIGIN/../../pkg.libs`.

    ## Common causes
    - The search path was computed from places in the zip (pypa/auditwheel 257).
      **Solution**: `wheelfix repair`.
    - The library came into the wheel after linking, without a search path.
      **Solution**: link with `-Wl,-rpath,'$ORIGIN/…'`, or `wheelfix repair`.
    - A tool wrote DT_RUNPATH in place of DT_RPATH, and inheritance is gone.
      **Solution**: `patchelf --force-rpath`, or `wheelfix repair`.

    ## Fix safety
    Safe: one `$ORIGIN`-relative entry is added that is right in every install scheme. It comes
    last, so that what is found today is found from the same place. The path goes into DT_RPATH,
    as auditwheel writes it, unless `search-path-tag` says otherwise.
    """
    for gap in gaps(context):
        if len(gap.entries) != 1 or gap.inherited or _blocked(context, gap):
            continue
        yield Hit(
            message=f"{gap.names} cannot be found once installed",
            member=gap.user,
            notes=(
                _searched(context, gap),
                f"it stands at `{next(iter(gap.libraries.values()))}` in the wheel",
                f"fails in: {describe(gap.schemes)}",
            ),
            hint="`wheelfix repair` adds the entry " + f"`{gap.entries[0]}`",
            fix=Fix(
                title="lead to the library",
                edits=add_entries(context, gap.user, gap.entries),
            ),
        )


@rule("WF102", "inherited-search-path", Severity.INFO)
def inherited_search_path(context: Context) -> Iterator[Hit]:
    """A vendored library is found only through the DT_RPATH of the object that loads it.

    ## What it does
    Reports vendored libraries without a search path of their own that need another vendored
    library, where every object that loads them has a DT_RPATH that leads there.

    ## Why is this bad?
    It works, but hangs on a thread: the DT_RPATH of the first object to load the library is
    inherited, a DT_RUNPATH is not (ld.so(8)). If a tool turns one into the other, or if the
    library is opened on its own, the second library is not found.

    ## Example
    `numpy.libs/libscipy_openblas.so` needs `libgfortran.so.5` beside it, and has no `$ORIGIN`.

    ## Common causes
    - auditwheel before 6.7 gave grafted libraries no search path.
      **Solution**: repair the unrepaired wheel again with a newer auditwheel, or link the
      library with `-Wl,-rpath,'$ORIGIN'`.

    ## Fix safety
    Not fixed: nothing is broken, and the change would rewrite large libraries for no gain today.
    """
    for gap in gaps(context):
        if gap.inherited:
            verb = "is" if len(gap.libraries) == 1 else "are"
            yield Hit(
                message=f"{gap.names} {verb} found only through the DT_RPATH of whoever loads it",
                member=gap.user,
                notes=(_searched(context, gap),),
            )


@rule("WF103", "no-common-path", Severity.ERROR)
def no_common_path(context: Context) -> Iterator[Hit]:
    """No single relative path leads from a file to its library in every install scheme.

    ## What it does
    Reports objects in `*.data/data`, `*.data/scripts` or `*.data/headers` that need a library in
    site-packages, and objects in site-packages that need one in those, where the way between the
    two depends on the install scheme or on the Python version.

    ## Why is this bad?
    Files of the data scheme go to `<prefix>`, the package to
    `<prefix>/lib/python3.X/site-packages`, on Debian to `dist-packages`, with `--target` to the
    same folder. An entry that is right in one of these is wrong in the others, and may even lead
    out of the environment, to a folder where somebody else can plant a library.

    ## Example
    CyFES: `*.data/data/cyfes/libcufes.so` gets `$ORIGIN/../../../cyfes.libs` from auditwheel,
    and crashes the process after `pip install`.

    ## Common causes
    - `data_files` of setuptools, or a CMake install into `${SKBUILD_DATA_DIR}`, puts a library
      outside the package. **Solution**: ship it as package data; or choose a policy with
      `data-libraries`:
      - `colocate` (default): the libraries stand once more in the file's own scheme; a package
        that needs a library of the data scheme gets entries, as with `search`;
      - `search`: one entry for each scheme and Python version;
      - `move`: the file goes to platlib; the code that opens it must look there.
    - An executable in `scripts` needs a vendored library. **Solution**: as above; executables
      are never moved, and no Python shim is put in their place.

    ## Fix safety
    Safe in what is loaded. `colocate` makes the wheel larger by the copies; a library that is
    loaded from both places exists twice in the process, which matters if it keeps state.
    """
    for gap in gaps(context):
        if len(gap.entries) == 1 or gap.inherited:
            continue
        yield Hit(
            message=f"no single path leads to {gap.names} in every install scheme",
            member=gap.user,
            notes=(
                _searched(context, gap),
                f"it stands at `{next(iter(gap.libraries.values()))}` in the wheel",
                f"fails in: {describe(gap.schemes)}",
            ),
            hint="`wheelfix repair --data-libraries=colocate`, `search` or `move`",
            fix=_bridge(context, gap),
        )


def _blocked(context: Context, gap: Gap) -> bool:
    """Return whether the object's own DT_RUNPATH keeps an ancestor's DT_RPATH from serving it."""
    elf = context.wheel.elfs[gap.user]
    return elf.runpath is not None and is_vendored(gap.user)


@rule("WF104", "runpath-blocks-inheritance", Severity.ERROR)
def runpath_blocks_inheritance(context: Context) -> Iterator[Hit]:
    """A wrong DT_RUNPATH on a vendored library switches off the search path that would serve it.

    ## What it does
    Reports vendored libraries with a DT_RUNPATH that does not lead to what they need.

    ## Why is this bad?
    An object with a DT_RUNPATH, even a useless one, no longer inherits the DT_RPATH of the
    object that loads it (ld.so(8), glibc elf/dl-load.c). The library beside it is not found.

    ## Example
    A library built with `-Wl,-rpath,/build/lib` was grafted by auditwheel before 6.7 with its
    DT_RUNPATH as it was: `libb-4e504812.so.1: cannot open shared object file`.

    ## Common causes
    - A grafted library kept the search path of the build machine.
      **Solution**: `wheelfix repair`.
    - `patchelf --set-rpath` without `--force-rpath` turned DT_RPATH into DT_RUNPATH.
      **Solution**: add `--force-rpath`, or `wheelfix repair`.

    ## Fix safety
    Safe: the right entry is added, in DT_RPATH unless `search-path-tag` says otherwise.
    """
    for gap in gaps(context):
        if len(gap.entries) != 1 or gap.inherited or not _blocked(context, gap):
            continue
        yield Hit(
            message=f"its DT_RUNPATH hides the inherited path to {gap.names}",
            member=gap.user,
            notes=(_searched(context, gap), f"fails in: {describe(gap.schemes)}"),
            hint=f"`wheelfix repair` adds the entry `{gap.entries[0]}`",
            fix=Fix(
                title="lead to the library",
                edits=add_entries(context, gap.user, gap.entries),
            ),
        )


@rule("WF105", "lost-by-installer", Severity.WARNING)
def lost_by_installer(context: Context) -> Iterator[Hit]:
    """An installer drops the file.

    ## What it does
    Reports ELF objects that `pip install --target` does not install.

    ## Why is this bad?
    With `--target`, pip installs into a temporary folder and moves what it finds there item by
    item. A file of `*.data/data` in a folder of the package's own name meets the package that is
    there already, and is dropped with a warning at most; everything below `*.data/data/lib` is
    dropped in silence (pypa/pip 8799, 10399). What needs the file then fails.

    ## Example
    `cyfes-4.5.data/data/cyfes/libcufes.so`, where the package is `cyfes` too.

    ## Common causes
    - `data_files` puts libraries outside the package. **Solution**: ship them as package data,
      or `wheelfix repair --data-libraries=move`, if the code looks for them in the package.

    ## Fix safety
    Not fixed: moving the file changes where the code must look for it.
    """
    for member in context.wheel.elfs:
        lost = [layout for layout in context.layouts if member not in layout.paths]
        place = split(member, context.wheel)
        if lost and place is not None:
            yield Hit(
                message="`pip install --target` does not install it",
                member=member,
                notes=(
                    "lost in: " + describe(scheme for layout in lost for scheme in layout.schemes),
                ),
                hint="ship it as package data, or repair with `--data-libraries=move`",
            )


RULES = (
    unreachable_library,
    inherited_search_path,
    no_common_path,
    runpath_blocks_inheritance,
    lost_by_installer,
)
