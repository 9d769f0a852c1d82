"""Grafts: the libraries of this machine to copy into a wheel, and the edits for that.

Names, references and tags are those of auditwheel's repair.py (`repair_wheel`, `copylib`) and
wheeltools.py (`add_platforms`).
"""

import hashlib
import os
import posixpath
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfix.elf.model import Elf, PathTag
from wheelfix.elf.reader import read_elf
from wheelfix.errors import BadElfError, ToolError
from wheelfix.frozen import frozen
from wheelfix.grouping import flatten, values_by_key
from wheelfix.host.machine_files import (
    MAX_LIBRARY,
    UntrustedFileError,
    open_regular,
    trusted_file,
)
from wheelfix.loader.loading import entry_directory
from wheelfix.named_tuple import NamedTuple
from wheelfix.system import deferred
from wheelfix.system.mapped_files import map_file
from wheelfix.wheel.edits import (
    AddMember,
    CopyOf,
    DropEntry,
    Edit,
    HostFile,
    MoveMember,
    RenameNeeded,
    Retag,
    SetPathTag,
    SetRootIsPurelib,
    SetSoname,
)
from wheelfix.wheel.grafted_name import add_hash
from wheelfix.wheel.model import Wheel

if TYPE_CHECKING:
    from wheelfix.host.os_packages import Package

Externals = Mapping[str, Mapping[str, Path]]
"""Member -> name in DT_NEEDED -> the library of this machine that is to be grafted."""


class HostLibrary(NamedTuple):
    """A library of this machine."""

    source: Path
    """The file, with symbolic links resolved."""
    path: Path
    """A private copy, or in a plan that is not carried out the file itself."""
    mode: int
    """`st_mode` of the file, with write permission for its owner."""
    size: int
    """In bytes."""
    sha256: str
    """In hexadecimal."""
    elf: Elf
    library_path: Sequence[str] = ()
    """The folders of LD_LIBRARY_PATH, in which a loader looks before those of its DT_RUNPATH."""

    @property
    def hashed_name(self) -> str:
        """The file name with the hash in it: `libfoo.so.1` -> `libfoo-1a2b3c4d.so.1`."""
        return add_hash(self.source.name, self.sha256)


class GraftedLibrary(NamedTuple):
    """A library of this machine that is copied into the wheel."""

    member: str
    """Its name in the wheel: `pkg.libs/libfoo-1a2b3c4d.so.1`."""
    host: HostLibrary
    original: str
    """The name in DT_NEEDED by which it was found."""
    renames: tuple[tuple[str, str], ...] = ()
    """Its own DT_NEEDED entries that are to change, old and new."""
    copies: tuple[str, ...] = ()
    """Other members that hold it, for other install schemes."""
    dependents: tuple[str, ...] = ()
    """The members that need it, after the repair."""
    package: "Package | None" = None
    """The package that owns the file, with what the configuration states of it."""

    @property
    def package_label(self) -> str:
        """The name and version of the package; empty for none."""
        package = self.package
        return f"{package.name} {package.version}".strip() if package else ""

    @property
    def soname(self) -> str:
        """The SONAME that it is to get: its file name."""
        return posixpath.basename(self.member)


class Tags(NamedTuple):
    """The platforms in the file name and in WHEEL."""

    platforms: tuple[str, ...]
    """The platform tags of the file name."""
    tags: tuple[str, ...]
    """The `Tag:` lines of WHEEL."""
    root_is_purelib: bool
    """`Root-Is-Purelib` of WHEEL."""


@frozen
class Graft:
    """auditwheel's decisions, with the names of the real wheel."""

    tags: Tags
    """After the repair."""
    libraries: tuple[GraftedLibrary, ...] = ()
    """Sorted by member."""
    renames: Mapping[str, tuple[tuple[str, str], ...]] = field(
        default_factory=dict[str, tuple[tuple[str, str], ...]]
    )
    """Member -> DT_NEEDED entries, old and new; only entries that the member has."""
    excluded: frozenset[str] = frozenset()
    """Names, and paths of this machine, that an exclude pattern kept out."""
    messages: tuple[str, ...] = ()
    """Messages for the user, with the names of the real wheel."""


# --- Libraries ------------------------------------------------------------------------------------


def _new_file(workdir: Path) -> Path:
    return Path(deferred.tempfile.mkstemp(prefix="library-", dir=workdir)[1])


def read_library(source: Path, workdir: Path | None) -> HostLibrary:
    """Read the library at `source`, without links, from a private copy in `workdir`.

    Without `workdir` it is not copied: a plan is enough. Raises `ToolError` for a file that is not
    an ELF object, or that another user could change.
    """
    try:
        real = trusted_file(source, MAX_LIBRARY)
        path = real if workdir is None else _new_file(workdir)
        with open_regular(real) as library:
            mode = os.fstat(library.fileno()).st_mode | stat.S_IWUSR
            if workdir is not None:
                with path.open("wb") as copy:
                    shutil.copyfileobj(library, copy, 1 << 20)
    except UntrustedFileError as error:
        raise ToolError(
            f"`{source}` cannot be grafted: `{error.filename}` {error.strerror}",
            hint=f"to graft it: {error.remedy}",
        ) from error
    with path.open("rb") as file, map_file(path) as data:
        try:
            elf = read_elf(data, source.name)
        except BadElfError as error:
            raise ToolError(f"`{source}` cannot be grafted: {error}", hint=error.hint) from error
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        size = len(data)
    return HostLibrary(source=source, path=path, mode=mode, size=size, sha256=sha256, elf=elf)


def grafted_libraries(
    externals: Externals,
    hosts: Mapping[Path, HostLibrary],
    wheel: Wheel,
    folder: str,
    *,
    last: bool = False,
) -> tuple[GraftedLibrary, ...]:
    """Return the libraries that the wheel's objects need, directly or not.

    `folder` is their folder in the wheel. A grafted library loads the wheel's own libraries before
    others of the same name. Where two objects find different libraries under one name, a grafted
    library loads the one to which its own search path leads, or else that of the first object; that
    of the `last` one, if so asked, as in auditwheel.
    """
    shipped = wheel.object_names
    pairs = flatten(sources.items() for sources in externals.values())
    known = values_by_key(pairs)
    libraries: dict[str, GraftedLibrary] = {}
    for member, sources in externals.items():
        waiting = [(name, sources[name]) for name in wheel.elfs[member].needed if name in sources]
        while waiting:
            name, path = waiting.pop()
            host = hosts[path]
            if host.hashed_name in libraries:
                continue
            names = [
                n for n in host.elf.needed if n in sources or (n in known and n not in shipped)
            ]
            inner = {
                n: known[n][-1]
                if last
                else path
                if n in {name, host.elf.soname}  # a loader has that one already
                else _own_choice(host, n, known[n]) or sources.get(n, known[n][0])
                for n in names
            }
            libraries[host.hashed_name] = GraftedLibrary(
                member=f"{folder}/{host.hashed_name}",
                host=host,
                original=name,
                renames=tuple((n, hosts[chosen].hashed_name) for n, chosen in inner.items()),
            )
            waiting += inner.items()
    return tuple(sorted(libraries.values(), key=lambda library: library.member))


def _own_choice(host: HostLibrary, name: str, paths: Sequence[Path]) -> Path | None:
    """Return the one of several libraries of a name that the loader finds first for `host`."""
    if len(set(paths)) == 1:
        return None
    own = [entry_directory(entry, str(host.source.parent)) for entry in host.elf.entries]
    is_first = host.elf.path_tag is PathTag.RPATH
    folders = (*own, *host.library_path) if is_first else (*host.library_path, *own)
    places = (os.path.realpath(f"{folder}/{name}") for folder in folders)
    return next(
        (path for place in places for path in paths if os.path.realpath(path) == place), None
    )


def renames(
    externals: Externals, hosts: Mapping[Path, HostLibrary], wheel: Wheel
) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return by member the DT_NEEDED entries that are to change, old and new."""
    pairs_of = {
        member: tuple(
            (name, hosts[sources[name]].hashed_name)
            for name in dict.fromkeys(wheel.elfs[member].needed)
            if name in sources
        )
        for member, sources in externals.items()
    }
    return {member: pairs for member, pairs in pairs_of.items() if pairs}


def places_of(member: str, edits: Iterable[Edit]) -> list[str]:
    """Follow a grafted library through `edits` to all the members that hold it, copies last."""
    places = [member]
    for edit in edits:
        match edit:
            case AddMember(source=CopyOf(member=original)) if original in places:
                places.append(edit.member)
            case MoveMember() if edit.member in places:
                places[places.index(edit.member)] = edit.new
            case _:
                pass
    return places


# --- Tags -----------------------------------------------------------------------------------------


def add_platforms(wheel: Wheel, platforms: Sequence[str], replaced: Collection[str]) -> Tags:
    """Return the tags of `wheel` with `platforms` added, in place of `replaced` and `any`.

    `replaced` are the tag that promises nothing, `linux_x86_64`, and those that are given up.
    """
    before = sorted({tag.lower() for tag in wheel.name.platforms})  # as `packaging` reads them
    after = dict.fromkeys((*(tag for tag in before if tag not in replaced), *platforms))
    gone = [*replaced]
    if "any" in after and len(after) > 1:
        del after["any"]
        gone.append("any")
    # Each pair of a Python and an ABI gets all platforms (PEP 425, "Compressed Tag Sets").
    pairs = dict.fromkeys("-".join(tag.split("-")[:2]) for tag in wheel.tags)
    lost = {"-".join(tag).lower() for tag in product(pairs, gone)}
    kept = [tag for tag in wheel.tags if tag.lower() not in lost]
    new = [tag for tag in map("-".join, product(pairs, platforms)) if tag not in wheel.tags]
    tags = (*kept, *new)
    is_purelib = wheel.root_is_purelib and not ("any" in gone and tags != wheel.tags)
    return Tags(platforms=tuple(sorted(after)), tags=tags, root_is_purelib=is_purelib)


def tags_of(wheel: Wheel) -> Tags:
    """Return the tags that `wheel` has."""
    return Tags(wheel.name.platforms, wheel.tags, wheel.root_is_purelib)


# --- Edits ----------------------------------------------------------------------------------------


def edits(graft: Graft, wheel: Wheel) -> Iterator[Edit]:
    """Yield the edits for auditwheel's decisions, without search paths: rules set those."""
    for library in graft.libraries:
        yield from library_edits(library)
    for member in wheel.elfs:
        for old, new in graft.renames.get(member, ()):
            yield RenameNeeded(member=member, old=old, new=new)
    yield from _metadata(graft.tags, wheel)


def library_edits(library: GraftedLibrary) -> Iterator[Edit]:
    """Yield the edits that add `library` under its new name, without its search path."""
    member, host = library.member, library.host
    yield AddMember(
        member=member,
        source=HostFile(path=str(host.path)),
        size=host.path.stat().st_size,
        mode=host.mode,
        elf=host.elf,
    )
    if host.elf.soname != library.soname:
        yield SetSoname(member=member, soname=library.soname)
    for old, new in library.renames:
        yield RenameNeeded(member=member, old=old, new=new)
    for entry in dict.fromkeys(host.elf.entries):
        yield DropEntry(member=member, entry=entry)
    if host.elf.path_tag is not None and not host.elf.entries:
        yield SetPathTag(member=member, tag=PathTag.RPATH)


def _metadata(tags: Tags, wheel: Wheel) -> Iterator[Edit]:
    if tags.platforms != wheel.name.platforms:
        yield Retag(platforms=tags.platforms, tags=tags.tags)
    if tags.root_is_purelib != wheel.root_is_purelib:
        yield SetRootIsPurelib(value=tags.root_is_purelib)


# --- Names ----------------------------------------------------------------------------------------


def keep_names(graft: Graft, patterns: Sequence[str]) -> Graft:
    """Return `graft` without the renaming of the libraries that the globs `patterns` match.

    They get the name in DT_NEEDED by which they were found, and all references stay.
    """
    kept = {
        library.soname: library.original
        for library in graft.libraries
        if any(fnmatchcase(library.original, pattern) for pattern in patterns)
    }

    def still(renames: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        return tuple((old, kept.get(new, new)) for old, new in renames if kept.get(new) != old)

    libraries = [
        library._replace(
            member=posixpath.join(
                posixpath.dirname(library.member), kept.get(library.soname, library.soname)
            ),
            renames=still(library.renames),
        )
        for library in graft.libraries
    ]
    renames = {member: still(pairs) for member, pairs in graft.renames.items()}
    return replace(graft, libraries=tuple(libraries), renames=renames)
