"""Libraries that Python sources and objects open by name or path."""

import json
import posixpath
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from typing import Any, cast

from wheelfix.grouping import values_by_key
from wheelfix.loader.install_schemes import split
from wheelfix.python_sources.source_facts import LookupPlace, PythonOpening
from wheelfix.wheel.grafted_name import remove_hash
from wheelfix.wheel.model import Key, Wheel


def openings(wheel: Wheel) -> Iterator[tuple[str, PythonOpening]]:
    """Yield each opening of a library by a Python source of the wheel, with the source."""
    for source in present(wheel, wheel.openings):
        yield from ((source, opening) for opening in wheel.openings[source])


def present(wheel: Wheel, sources: Collection[str]) -> Iterable[str]:
    """Return those of `sources` that no edit has removed."""
    members = wheel.member_names if sources else ()
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


def names_in_note(note: str) -> Iterator[tuple[tuple[str, ...], str]]:
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


class NamedLibraries:
    """The libraries of a wheel by the names that code may open them by."""

    def __init__(self, wheel: Wheel) -> None:
        self._wheel = wheel
        names = [
            (member, {member.rpartition("/")[2], elf.soname or ""} - {""})
            for member, elf in wheel.elfs.items()
            if elf.dynamic
        ]
        self._known = values_by_key((name, member) for member, own in names for name in own)
        self._grafts = values_by_key(
            (name, member) for member, own in names for name in set(map(remove_hash, own))
        )

    def called(self, name: str) -> tuple[str, ...]:
        """Return the libraries that the loader knows as `name` once they are loaded."""
        return tuple(self._known.get(name, ()))

    def grafts_of(self, name: str) -> tuple[str, ...]:
        """Return the libraries that were called `name` before the graft."""
        return tuple(self._grafts.get(name, ()))

    @property
    def earlier_names(self) -> Iterable[str]:
        """The names that libraries had before the graft."""
        return filter(None, self._grafts)

    def is_opened_by_path(self, library: str) -> bool:
        """Return whether a source opens `library` by its path, which makes its SONAME known."""
        return split(library, self._wheel) in self._opened

    @cached_property
    def _opened(self) -> set[tuple[Key, str] | None]:
        """The places that sources open by their paths."""
        places = (
            place_of(self._wheel, source, opening)
            for source, opening in openings(self._wheel)
            if opening.where is LookupPlace.SOURCE
        )
        return {*places} - {None}
