"""The edits that carry out a graft."""

import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from wheelfix.analysis.providers import provider_of
from wheelfix.elf.model import Elf, PathTag
from wheelfix.loader.install_schemes import Key, split
from wheelfix.pipelines.graft_plan import Graft, GraftedLibrary, Tags
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
from wheelfix.wheel.model import Wheel


def edits(graft: Graft, wheel: Wheel) -> Iterator[Edit]:
    """Yield the edits that carry out what auditwheel decided, without search paths.

    Those are set by rules, which know where the files are installed.
    """
    for library in graft.libraries:
        yield from _library(library)
    for member in wheel.elfs:
        for old, new in graft.renames.get(member, ()):
            yield RenameNeeded(member=member, old=old, new=new)
        for name in graft.dropped.get(member, ()):
            yield DropNeeded(member=member, name=name)
    yield from _metadata(graft.tags, wheel)


def with_names_kept(graft: Graft, patterns: Sequence[str]) -> Graft:
    """Return `graft` without the renaming of the libraries that the globs `patterns` match.

    They get the name in DT_NEEDED by which they were found, and all references stay.
    """
    kept = {
        library.soname: library.original
        for library in graft.libraries
        if any(fnmatchcase(library.original, pattern) for pattern in patterns)
    }
    if not kept:
        return graft

    def still(renames: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        return tuple((old, kept.get(new, new)) for old, new in renames if kept.get(new) != old)

    libraries = [
        library._replace(
            member=posixpath.join(
                posixpath.dirname(library.member),
                kept.get(library.soname, posixpath.basename(library.member)),
            ),
            soname=kept.get(library.soname, library.soname),
            renames=still(library.renames),
        )
        for library in graft.libraries
    ]
    renames = {member: still(pairs) for member, pairs in graft.renames.items()}
    return replace(graft, libraries=tuple(libraries), renames=renames)


def borrowed(
    wheel: Wheel, settings: Settings, host: Callable[[str, Elf], object | None]
) -> Iterator[Edit]:
    """Yield the edits that let objects need what only the provider's own build has found.

    A build may leave the search path to a library in one of its wheels, and not in the others.
    `host` finds a library on this machine.
    """
    names = {old: new for each in sharing(settings) for old, new in each.grafted}
    shipped = {posixpath.basename(member) for member in wheel.elfs} if names else frozenset[str]()
    for member, elf in wheel.elfs.items() if names else ():
        for name in dict.fromkeys(elf.needed):
            if name in names and name not in shipped and host(name, elf) is None:
                yield RenameNeeded(member=member, old=name, new=names[name])


def without_owned(
    graft: Graft, wheel: Wheel, settings: Settings
) -> tuple[Graft, tuple[GraftedLibrary, ...]]:
    """Return `graft` without the libraries that a provider shares, and these.

    auditwheel puts a hash of a library's bytes into its name: the same name is the same file. All
    references keep the new name. What only such a library needs is left out, too; what an object
    outside site-packages may load stays, since no search path leads from there to the provider.
    """
    shared = sharing(settings)
    owned = {each.soname for each in graft.libraries if provider_of(each.soname, shared)}
    if owned and settings.data_libraries is not DataLibraries.SEARCH:
        owned -= _reached(graft, wheel, _outside(wheel))
    if not owned:
        return graft, ()
    left = replace(graft, libraries=tuple(e for e in graft.libraries if e.soname not in owned))
    reached = _reached(left, wheel, wheel.elfs)
    kept = tuple(each for each in left.libraries if each.soname in reached)
    gone = tuple(each for each in graft.libraries if each.soname in owned)
    return replace(graft, libraries=kept), gone


def sharing(settings: Settings) -> tuple[Provider, ...]:
    """Return the providers from which the wheel takes what both would graft."""
    anyone = settings.share is Share.REQUIRED
    return tuple(each for each in settings.provider if each.shared or anyone)


def _outside(wheel: Wheel) -> Iterator[str]:
    """Yield the objects that are installed outside site-packages."""
    for member in wheel.elfs:
        place = split(member, wheel)
        if place is not None and place[0] not in {Key.PURELIB, Key.PLATLIB}:
            yield member


def _reached(graft: Graft, wheel: Wheel, members: Iterable[str]) -> set[str]:
    """Return the new names of what `members` need, and of what that needs in its turn."""
    grafted = {each.soname: [new for _, new in each.renames] for each in graft.libraries}
    shipped: dict[str, list[str]] = {}
    for member in wheel.elfs:
        shipped.setdefault(posixpath.basename(member), []).append(member)

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
            waiting += (each for member in shipped.get(name, ()) for each in needs(member))
    return found


def _library(library: GraftedLibrary) -> Iterator[Edit]:
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
