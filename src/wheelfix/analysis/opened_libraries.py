"""Libraries that Python sources and objects open by name or path."""

import json
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from itertools import takewhile
from typing import Any, cast

from wheelfix.elf.object_file_names import stem_of
from wheelfix.grouping import values_by_key
from wheelfix.loader.install_schemes import site_path, split
from wheelfix.python_sources.imported_modules import module_name
from wheelfix.python_sources.opens import read_imports
from wheelfix.python_sources.source_facts import Imported, LookupPlace, PythonOpening
from wheelfix.python_sources.sure_imports import sure_imports
from wheelfix.wheel.grafted_name import remove_hash
from wheelfix.wheel.model import Key, Wheel
from wheelfix.wheel.names_in_code import CodeNames


def openings(wheel: Wheel) -> Iterator[tuple[str, PythonOpening]]:
    """Yield each opening of a library by a Python source of the wheel, with the source."""
    for source in present(wheel, wheel.openings):
        yield from ((source, opening) for opening in wheel.openings[source])


def present(wheel: Wheel, sources: Collection[str]) -> Iterable[str]:
    """Return those of `sources` that no edit has removed."""
    members = wheel.member_names if sources else ()
    return (source for source in sources if source in members)


def unread_code(wheel: Wheel) -> Iterator[str]:
    """Yield what Python runs and is not read: bytecode without its source, and .pth files."""
    return (m for m in wheel.sizes if m.endswith((".pyc", ".pth")) and "__pycache__/" not in m)


def place_of(wheel: Wheel, source: str, opening: PythonOpening) -> tuple[Key, str] | None:
    """Return the install scheme's key and the path below it that `opening` leads to.

    None if the source is not installed, or if the path leads out of that directory.
    """
    origin = split(source, wheel)
    if origin is None:
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(origin[1]), opening.name))
    return None if path.startswith("..") else (origin[0], path)


def opened_first(wheel: Wheel, library: str, before: Collection[str]) -> bool:
    """Return whether Python opens all of `before` by their paths whenever it opens `library`.

    In one source, in a statement, line or turn of a loop before; in `__init__.py` of a package
    above it, when that is imported; or by what the import of the source surely imports first. A
    library whose path no source is seen to open has none before it.
    """
    users = [
        (source, turn, opening)
        for source in present(wheel, wheel.openings)
        for turn, opening in enumerate(wheel.openings[source])
        if opening.where is LookupPlace.SOURCE
    ]
    places = values_by_key((place_of(wheel, user[0], user[2]), user) for user in users)
    opens = places.get(split(library, wheel), ())
    return bool(opens) and all(
        any(_precedes(earlier, later) for earlier in places.get(split(other, wheel), ()))
        or opened_before_import(wheel, later[0], [other])
        for later in opens
        for other in before
    )


def opened_before_import(wheel: Wheel, module: str, libraries: Iterable[str]) -> bool:
    """Return whether each import of a module surely opens `libraries` by path before it runs."""
    return opens_before(wheel, module, (split(library, wheel) for library in libraries))


def opens_before(wheel: Wheel, module: str, places: Iterable[tuple[Key, str] | None]) -> bool:
    """Return whether each import of a module surely opens what is at `places` before it runs."""
    path = site_path(module, wheel)
    if path is None:
        return False
    known = (*wheel.sources, *present(wheel, wheel.openings))
    sources = {module_name(site_path(member, wheel) or ""): member for member in known}

    def imports_of(name: str) -> Iterator[Imported]:
        source = sources.get(name)
        if source is None:
            return iter(())
        is_package = source.endswith("/__init__.py")
        code = wheel.sources.get(source, b"")
        imported = read_imports(name, code, is_package=is_package)
        opened = (
            Imported(f"/{place}", opening.statement or opening.line)
            for opening in wheel.openings.get(source, ())
            if opening.runs and opening.where is LookupPlace.SOURCE
            if (place := place_of(wheel, source, opening)) is not None
        )
        return iter(sorted((*imported, *opened), key=lambda imported_: imported_.line))

    name = module_name(path)
    before = frozenset(takewhile(name.__ne__, sure_imports([name], imports_of)))
    return all(f"/{place}" in before for place in places)


def possible_opener(
    wheel: Wheel,
    code: CodeNames | None,
    member: str,
    libraries: Collection[str],
    modules: Collection[str] = (),
) -> str:
    """Return a note on what may open `libraries` before `member`; empty if nothing is seen to.

    They are named as their files. `modules` are those of another wheel that has them: then a source
    may have it done by their name. The loader finds a loaded library by its SONAME.
    """
    package = package_of(member, wheel)
    opened = {
        posixpath.basename(opening.name): source
        for source, opening in openings(wheel)
        if opening.where is not LookupPlace.SEARCH and not opening.is_of_current
        if package_of(source, wheel) == package
    }
    if {*libraries} <= opened.keys():
        return f"`{opened[min(libraries)]}` opens it: whether before is not known"
    for source in wheel.opening_unknown:
        if package_of(source, wheel) == package:
            return (
                f"`{source}` opens libraries under names that are not known: maybe this one, before"
            )
    mentions = code.mentions(libraries) if code else dict[str, tuple[str, ...]]()
    naming = wheel.elfs.keys() - {member}
    naming = naming.intersection(*(mentions.get(name, ()) for name in libraries))
    others = (m for m in sorted(naming) if posixpath.basename(m) not in libraries)
    for other in (*unread_code(wheel), *others):
        if other.endswith(".pth") or package_of(other, wheel) == package:
            return f"`{other}` is not read: maybe it opens the library before"
    texts = names_as_texts((*modules, *map(stem_of, libraries)))
    for source in code.sources_that(texts.search) if code and modules else ():
        if package_of(source, wheel) == package:
            return f"`{source}` names it, and may open it before"
    return ""


def names_as_texts(names: Iterable[str]) -> re.Pattern[bytes]:
    """Return what matches `names` of libraries and modules in quotes, with and without `lib`."""
    each = "|".join(re.escape(name.removeprefix("lib")) for name in names)
    text = rf"(?i)[\"'](?:lib)?(?:{each})[\"'.]"
    return re.compile(text.encode("utf-8", "surrogateescape"))


def package_of(member: str, wheel: Wheel) -> str:
    """Return the top-level folder below site-packages that a member is in; empty for none."""
    return (site_path(member, wheel) or "").partition("/")[0]


def _precedes(
    earlier: tuple[str, int, PythonOpening], later: tuple[str, int, PythonOpening]
) -> bool:
    (source, turn, first), (user, next_turn, second) = earlier, later
    if source != user:
        folder, _, name = source.rpartition("/")
        return name == "__init__.py" and user.startswith(f"{folder}/") and first.on_import
    if first.on_import is not second.on_import:
        return first.on_import
    if (first.statement, first.line) == (second.statement, second.line):  # or one of two is opened
        return turn < next_turn and (first.runs or first.sure)
    return (first.statement, first.line) < (second.statement, second.line)


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
