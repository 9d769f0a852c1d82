"""Libraries of `include`: found on this machine, and put where the code that opens them looks."""

import posixpath
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from wheelfix.analysis.loaded_wheel import Definitions
from wheelfix.analysis.opened_libraries import NamedLibraries, openings, place_of
from wheelfix.elf.model import Elf
from wheelfix.elf.revision import Revision
from wheelfix.errors import ToolError
from wheelfix.host.reachable_files import read_file
from wheelfix.loader.install_schemes import split
from wheelfix.loader.loading import entry_directory
from wheelfix.pipelines.graft import GraftedLibrary, HostLibrary, library_edits
from wheelfix.python_sources.source_facts import LookupPlace
from wheelfix.settings import Settings
from wheelfix.system.paths import is_file
from wheelfix.wheel.edits import Edit, RenameNeeded
from wheelfix.wheel.model import Wheel


def included_libraries(
    wheel: Wheel,
    settings: Settings,
    definitions: Definitions,
    read: Callable[[Path], HostLibrary],
) -> tuple[GraftedLibrary, ...]:
    """Return the libraries of `include` that `wheel` lacks.

    Each is found as a graft is found: in `library-path`, in the search path of an object of the
    wheel, in LD_LIBRARY_PATH, or in the system. Raises `ToolError` for one that is not found.
    """
    names = {posixpath.basename(text): text for text in settings.include}
    known = NamedLibraries(wheel)
    return tuple(
        GraftedLibrary(
            member=_member(name, wheel, settings),
            host=read(_find(text, wheel, definitions)),
            original=name,
        )
        for name, text in names.items()
        if not known.called(name)
    )


def _find(text: str, wheel: Wheel, definitions: Definitions) -> Path:
    """Return the file of this machine for an item of `include`, without links."""
    for dependent in (*wheel.elfs.values(), *_python(wheel)):
        library = definitions.host(text, dependent)
        if library is not None and is_file(library.path):
            return Path(library.path).resolve()
    raise ToolError(
        f"`include`: `{text}` is not among this machine's libraries",
        hint="correct the path"
        if "/" in text
        else "`wheelfix repair --library-path FOLDER`, if FOLDER has it; or give its path",
    )


def _python(wheel: Wheel) -> Iterator[Elf]:
    """Yield the running Python for a wheel without objects: its libraries are for this machine."""
    elf = None if wheel.elfs else read_file(sys.executable)
    if elf is not None:
        yield elf


def _member(name: str, wheel: Wheel, settings: Settings) -> str:
    """Return where the library goes: to the path that a source opens, or to the grafts."""
    for source, opening in openings(wheel):
        if opening.where is LookupPlace.SOURCE and posixpath.basename(opening.name) == name:
            place, own = place_of(wheel, source, opening), split(source, wheel)
            if place is not None and own is not None:
                return source.removesuffix(own[1]) + place[1]
    return f"{settings.graft_folder(wheel.name.distribution)}/{name}"


def inclusion_edits(libraries: Iterable[GraftedLibrary], wheel: Wheel) -> Iterator[Edit]:
    """Yield the edits that add `libraries` under the names by which they are opened.

    These become their SONAMEs, too, and objects that need one by another name use this copy.
    """
    added = tuple(libraries)
    for library in added:
        yield from library_edits(library)
    elfs = {**wheel.elfs, **{library.member: library.host.elf for library in added}}
    for library in added:
        old = library.host.elf.soname or library.host.source.name
        for member, elf in elfs.items():
            if old != library.soname and old in elf.needed:
                yield RenameNeeded(member=member, old=old, new=library.soname)


def keep_search_paths(wheel: Wheel, libraries: Iterable[GraftedLibrary]) -> Wheel:
    """Return `wheel` with the search paths that `libraries` have on this machine.

    They lead to what these need themselves.
    """
    elfs = dict(wheel.elfs)
    for library in libraries:
        folder = str(library.host.source.parent)
        entries = [entry_directory(entry, folder) for entry in library.host.elf.entries]
        elfs[library.member] = Revision.of(elfs[library.member]).set_entries(entries).after
    return replace(wheel, elfs=elfs)
