"""Libraries that Python sources open by name or path."""

import posixpath
from collections.abc import Collection, Iterable, Iterator

from wheelfix.loader.install_schemes import split
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
