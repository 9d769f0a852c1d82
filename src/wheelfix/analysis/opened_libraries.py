"""Libraries that Python sources and objects open by name or path."""

import json
import posixpath
from collections.abc import Collection, Iterable, Iterator
from typing import Any, cast

from wheelfix.loader.install_schemes import split
from wheelfix.wheel.grafted_name import unhashed
from wheelfix.wheel.model import Key, LookupPlace, PythonOpening, Wheel


def openings(wheel: Wheel) -> Iterator[tuple[str, PythonOpening]]:
    """Yield each opening of a library by a Python source of the wheel, with the source."""
    for source in present(wheel, wheel.openings):
        yield from ((source, opening) for opening in wheel.openings[source])


def present(wheel: Wheel, sources: Collection[str]) -> Iterable[str]:
    """Return those of `sources` that no edit has removed."""
    members = {member.name for member in wheel.members} if sources else ()
    return (source for source in sources if source in members)


def place_of(wheel: Wheel, source: str, opening: PythonOpening) -> tuple[Key, str] | None:
    """Return the install scheme's key and the path below it that `opening` leads to.

    None if the source is not installed, or if the path leads out of that directory.
    """
    origin = split(source, wheel)
    if origin is None:
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(origin[1]), opening.name))
    return None if path.startswith("..") else (origin[0], path)


def opened_by_path(wheel: Wheel, library: str) -> bool:
    """Return whether a source opens `library` by its path, which makes its SONAME known."""
    place = split(library, wheel)
    return place is not None and any(
        opening.where is LookupPlace.SOURCE and place_of(wheel, source, opening) == place
        for source, opening in openings(wheel)
    )


def noted_names(note: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield alternative names of a library in a `.note.dlopen`, with the priority.

    Malformed entries are left out.
    """
    try:
        entries: object = json.loads(note)
    except (ValueError, RecursionError):
        return
    for entry in cast("list[object]", entries) if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            table = cast("dict[str, Any]", entry)
            names = table.get("soname")
            if isinstance(names, list):
                shown = tuple(str(name) for name in cast("list[object]", names))
                yield shown, str(table.get("priority", "recommended"))


def libraries_called(wheel: Wheel, name: str) -> tuple[str, ...]:
    """Return the libraries that the loader knows as `name` once they are loaded."""
    return tuple(
        member
        for member, elf in wheel.elfs.items()
        if elf.dynamic and name in {elf.soname, member.rpartition("/")[2]}
    )


def grafted_as(wheel: Wheel, name: str) -> tuple[str, ...]:
    """Return the libraries of the wheel that were called `name` before the graft."""
    return tuple(
        member
        for member, elf in wheel.elfs.items()
        if elf.dynamic and name in {unhashed(member.rpartition("/")[2]), unhashed(elf.soname or "")}
    )
