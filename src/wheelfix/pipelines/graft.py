"""Grafts: the libraries of this machine to copy into a wheel, and the edits for that.

Names, references and tags are those of auditwheel's repair.py (`repair_wheel`, `copylib`) and
wheeltools.py (`add_platforms`).
"""

import hashlib
import mmap
import posixpath
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import NamedTuple

from wheelfix.analysis.providers import provider_of
from wheelfix.elf.model import Elf, PathTag
from wheelfix.elf.reader import read_elf
from wheelfix.errors import BadElfError, ToolError
from wheelfix.grouping import grouped
from wheelfix.loader.install_schemes import split
from wheelfix.settings import DataLibraries, Provider, Settings, Share
from wheelfix.wheel.edits import (
    AddMember,
    DropEntry,
    DropNeeded,
    Edit,
    HostFile,
    RenameNeeded,
    Retag,
    SetPathTag,
    SetRootIsPurelib,
    SetSoname,
)
from wheelfix.wheel.grafted_name import hashed
from wheelfix.wheel.model import LIBRARY_KEYS, Wheel

Externals = Mapping[str, Mapping[str, Path]]
"""Member -> name in DT_NEEDED -> the library of this machine that is to be grafted."""


class HostLibrary(NamedTuple):
    """A library of this machine."""

    source: Path
    """The file, with symbolic links resolved."""
    path: Path
    """A private copy."""
    mode: int
    """`st_mode` of the file, with write permission for its owner."""
    sha256: str
    """In hexadecimal."""
    elf: Elf

    @property
    def hashed_name(self) -> str:
        """The file name with the hash in it: `libfoo.so.1` -> `libfoo-1a2b3c4d.so.1`."""
        return hashed(self.source.name, self.sha256)


class GraftedLibrary(NamedTuple):
    """A library of this machine that is copied into the wheel."""

    member: str
    """Its name in the wheel: `pkg.libs/libfoo-1a2b3c4d.so.1`."""
    host: HostLibrary
    original: str
    """The name in DT_NEEDED by which it was found."""
    renames: tuple[tuple[str, str], ...] = ()
    """Its own DT_NEEDED entries that are to change, old and new."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
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
    dropped: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Member -> DT_NEEDED entries that no policy allows at all: libpython."""
    excluded: frozenset[str] = frozenset()
    """Names, and paths of this machine, that an exclude pattern kept out."""
    messages: tuple[str, ...] = ()
    """Messages for the user, with the names of the real wheel."""


# --- Libraries ------------------------------------------------------------------------------------


def copy_libraries(externals: Externals, workdir: Path) -> dict[Path, HostLibrary]:
    """Copy the libraries of this machine to `workdir`; return them by their places.

    Raises `ToolError` for a file that is no ELF object.
    """
    sources = sorted({path for found in externals.values() for path in found.values()})
    return {
        source: copy_library(source, workdir / f"grafted-{number}")
        for number, source in enumerate(sources)
    }


def copy_library(source: Path, path: Path) -> HostLibrary:
    """Copy the library at `source`, without links, to `path`.

    Raises `ToolError` for a file that is no ELF object.
    """
    shutil.copyfile(source, path)
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        try:
            elf = read_elf(data, source.name)
        except BadElfError as error:
            raise ToolError(f"`{source}` cannot be grafted: {error}", hint=error.hint) from error
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    mode = source.stat().st_mode | stat.S_IWUSR
    return HostLibrary(source=source, path=path, mode=mode, sha256=sha256, elf=elf)


def grafted_libraries(
    externals: Externals, hosts: Mapping[Path, HostLibrary], wheel: Wheel, folder: str
) -> tuple[GraftedLibrary, ...]:
    """Return the libraries that the wheel's objects need, directly or not.

    `folder` is their folder in the wheel. A grafted library loads the wheel's own libraries before
    others of the same name. Where two objects find different libraries under one name, a grafted
    library loads those of the first object that needs it.
    """
    shipped = {posixpath.basename(member) for member, elf in wheel.elfs.items() if elf.dynamic}
    found: dict[str, GraftedLibrary] = {}
    for member, sources in externals.items():
        waiting = [name for name in wheel.elfs[member].needed if name in sources]
        while waiting:
            name = waiting.pop()
            host = hosts[sources[name]]
            if host.hashed_name in found:
                continue
            inner = [n for n in host.elf.needed if n in sources and n not in shipped]
            found[host.hashed_name] = GraftedLibrary(
                member=f"{folder}/{host.hashed_name}",
                host=host,
                original=name,
                renames=tuple((n, hosts[sources[n]].hashed_name) for n in dict.fromkeys(inner)),
            )
            waiting += inner
    return tuple(sorted(found.values(), key=lambda library: library.member))


def renames(
    externals: Externals, hosts: Mapping[Path, HostLibrary], wheel: Wheel
) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return by member the DT_NEEDED entries that are to change, old and new."""
    found = {
        member: tuple(
            (name, hosts[sources[name]].hashed_name)
            for name in dict.fromkeys(wheel.elfs[member].needed)
            if name in sources
        )
        for member, sources in externals.items()
    }
    return {member: pairs for member, pairs in found.items() if pairs}


# --- Tags -----------------------------------------------------------------------------------------


def retagged(wheel: Wheel, platforms: Sequence[str], replaced: str) -> Tags:
    """Return the tags of `wheel` with `platforms` added, in place of `replaced` and `any`.

    `replaced` is the tag that promises nothing: `linux_x86_64`.
    """
    before = sorted({tag.lower() for tag in wheel.name.platforms})  # as `packaging` reads them
    after = dict.fromkeys((*(tag for tag in before if tag != replaced), *platforms))
    gone = [replaced]
    if "any" in after and len(after) > 1:
        del after["any"]
        gone.append("any")
    # Each pair of a Python and an ABI gets all platforms (PEP 425, "Compressed Tag Sets").
    pairs = dict.fromkeys("-".join(tag.split("-")[:2]) for tag in wheel.tags)
    kept = [tag for tag in wheel.tags if tag not in set(map("-".join, product(pairs, gone)))]
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
        for name in graft.dropped.get(member, ()):
            yield DropNeeded(member=member, name=name)
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


# --- Libraries of other wheels --------------------------------------------------------------------


def with_names_kept(graft: Graft, patterns: Sequence[str]) -> Graft:
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


def borrowed(
    wheel: Wheel, settings: Settings, host: Callable[[str, Elf], object | None]
) -> Iterator[Edit]:
    """Yield the edits that rename DT_NEEDED entries for libraries that only a provider grafted.

    A build may leave the search path to a library in one of its wheels, and not in the others:
    for these, `host` does not find the library on this machine.
    """
    names = {old: new for provider in sharing(settings) for old, new in provider.grafted}
    shipped = {posixpath.basename(member) for member in wheel.elfs} if names else frozenset[str]()
    for member, elf in wheel.elfs.items() if names else ():
        for name in dict.fromkeys(elf.needed):
            if name in names and name not in shipped and host(name, elf) is None:
                yield RenameNeeded(member=member, old=name, new=names[name])


def without_owned(
    graft: Graft, wheel: Wheel, settings: Settings
) -> tuple[Graft, tuple[GraftedLibrary, ...]]:
    """Return `graft` without the libraries that a provider shares, and these libraries.

    The same name is the same file, since auditwheel puts a hash of the bytes into it. References
    keep the new name. Libraries that only these need are left out, too. Libraries that an object
    outside site-packages may load stay: no search path leads from there to the provider.
    """
    shared = sharing(settings)
    sonames = {library.soname for library in graft.libraries}
    owned = {soname for soname in sonames if provider_of(soname, shared)}
    if owned and settings.data_libraries is not DataLibraries.SEARCH:
        owned -= _reached(graft, wheel, _outside(wheel))
    if not owned:
        return graft, ()
    gone = tuple(library for library in graft.libraries if library.soname in owned)
    left = tuple(library for library in graft.libraries if library.soname not in owned)
    reached = _reached(replace(graft, libraries=left), wheel, wheel.elfs)
    kept = tuple(library for library in left if library.soname in reached)
    return replace(graft, libraries=kept), gone


def sharing(settings: Settings) -> tuple[Provider, ...]:
    """Return the providers that share their grafted libraries with the wheel."""
    with_all = settings.share is Share.REQUIRED
    return tuple(provider for provider in settings.provider if provider.shared or with_all)


def _outside(wheel: Wheel) -> Iterator[str]:
    """Yield the objects that are installed outside site-packages."""
    for member in wheel.elfs:
        place = split(member, wheel)
        if place is not None and place[0] not in LIBRARY_KEYS:
            yield member


def _reached(graft: Graft, wheel: Wheel, members: Iterable[str]) -> set[str]:
    """Return the new names of the libraries that `members` need, directly or not."""
    grafted = {library.soname: [new for _, new in library.renames] for library in graft.libraries}
    shipped = grouped(wheel.elfs, posixpath.basename)

    def needs(member: str) -> Iterator[str]:
        renames = dict(graft.renames.get(member, ()))
        return (renames.get(name, name) for name in wheel.elfs[member].needed)

    found: set[str] = set()
    waiting = [name for member in members for name in needs(member)]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += grafted.get(name, ())
            waiting += (need for member in shipped.get(name, ()) for need in needs(member))
    return found
