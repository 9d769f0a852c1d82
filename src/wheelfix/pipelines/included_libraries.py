"""Libraries of `include`: found on this machine, and put where the code that opens them looks."""

import os
import posixpath
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from wheelfix.analysis.opened_libraries import libraries_called, openings, place_of
from wheelfix.analysis.providers import provider_options
from wheelfix.analysis.simulated_loads import Definitions
from wheelfix.elf.model import Elf, with_entries
from wheelfix.errors import ToolError
from wheelfix.host.reachable_files import read_file
from wheelfix.loader.install_schemes import split
from wheelfix.loader.loading import entry_directory
from wheelfix.pipelines.graft import GraftedLibrary, copy_library, library_edits
from wheelfix.settings import Settings
from wheelfix.wheel.edits import Edit, RenameNeeded
from wheelfix.wheel.model import LookupPlace, Wheel


def included_libraries(
    wheel: Wheel,
    settings: Settings,
    definitions: Definitions,
    environ: Mapping[str, str],
    workdir: Path,
) -> tuple[GraftedLibrary, ...]:
    """Return the libraries of `include` that `wheel` lacks, copied to `workdir`.

    Each is found as a graft is found: in `library-path`, in the search path of an object of the
    wheel, in LD_LIBRARY_PATH, or in the system. Raises `ToolError` for one that is not found.
    """
    names = {posixpath.basename(text): text for text in settings.include}
    return tuple(
        GraftedLibrary(
            member=_member(name, wheel, settings),
            host=copy_library(
                _found(text, wheel, definitions, environ), workdir / f"included-{number}"
            ),
            original=name,
        )
        for number, (name, text) in enumerate(names.items())
        if not libraries_called(wheel, name)
    )


def _found(text: str, wheel: Wheel, definitions: Definitions, environ: Mapping[str, str]) -> Path:
    """Return the file of this machine for an item of `include`, without links."""
    # Path would drop the `./` that makes a text a path.
    path = os.path.join(environ.get("PWD", ""), text) if "/" in text else text  # noqa: PTH118
    for dependent in (*wheel.elfs.values(), *_python(wheel)):
        library = definitions.host(path, dependent)
        if library is not None and Path(library.path).is_file():
            return Path(library.path).resolve()
    options = provider_options(text)
    raise ToolError(
        f"`include`: `{text}` is not among this machine's libraries",
        hint=(f"leave it to the wheel that has it: {options}; or " if options else "")
        + "set LD_LIBRARY_PATH to its folder, or give its path",
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


def searching_as_found(wheel: Wheel, libraries: Iterable[GraftedLibrary]) -> Wheel:
    """Return `wheel` with the search paths that `libraries` have on this machine.

    They lead to what these need themselves.
    """
    elfs = dict(wheel.elfs)
    for library in libraries:
        folder = str(library.host.source.parent)
        entries = [entry_directory(entry, folder) for entry in library.host.elf.entries]
        elfs[library.member] = with_entries(elfs[library.member], entries)
    return replace(wheel, elfs=elfs)
