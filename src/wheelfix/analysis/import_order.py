"""In which order the imports of a wheel's modules begin, and what opens libraries before them."""

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import takewhile

from wheelfix.analysis.opened_libraries import openings, place_of, present, unread_code
from wheelfix.elf.object_file_names import stem_of
from wheelfix.grouping import values_by_key
from wheelfix.loader.install_schemes import site_path, split
from wheelfix.python_sources.imported_modules import line_of_import, module_name
from wheelfix.python_sources.opening_calls import CALLS
from wheelfix.python_sources.opens import read_imports
from wheelfix.python_sources.source_facts import Imported, LookupPlace, PythonOpening
from wheelfix.python_sources.sure_imports import begun_imports, is_late
from wheelfix.wheel.model import Key, Wheel
from wheelfix.wheel.names_in_code import CodeNames


class ImportOrder:
    """What is surely begun before a module of one wheel, and what may be. Mutable: sources read."""

    def __init__(self, wheel: Wheel, code: CodeNames | None) -> None:
        """Read the sources of `wheel`: without `code`, those alone that a repair may write to."""
        self._wheel = wheel
        self._code = code
        self._begun_by = cache(self._read_begun)

    # --- What is surely before -----------------------------------------------------------------

    def before(self, member: str) -> frozenset[str]:
        """Return the modules that are begun before a module in each process, and the paths opened.

        In the order of its own import, or of all sources that import it.
        """
        name = self._name(member)
        alone = takewhile(name.__ne__, begun_imports([name], self._begun_by)) if name else ()
        later = (begun_imports([by], self._begun_by, line) for by, line in self._importers(name))
        of_all = [frozenset(begun) for begun in later] or [frozenset[str]()]
        return frozenset.intersection(*of_all).union(alone)

    def opens_before(self, member: str, places: Iterable[tuple[Key, str] | None]) -> bool:
        """Return whether what is at `places` is surely opened before a module."""
        before = self.before(member)
        return all(f"/{place}" in before for place in places)

    def opened_before_import(self, member: str, libraries: Iterable[str]) -> bool:
        """Return whether `libraries` of the wheel are surely opened by path before a module."""
        return self.opens_before(member, (split(library, self._wheel) for library in libraries))

    def opened_first(self, library: str, before: Collection[str]) -> bool:
        """Return whether Python opens all of `before` by their paths whenever it opens `library`.

        In one source, in a statement, line or turn of a loop before; in `__init__.py` of a package
        above it, when that is imported; or by what the import of the source surely imports first.
        A library whose path no source is seen to open has none before it.
        """
        wheel = self._wheel
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
            or self.opened_before_import(later[0], [other])
            for later in opens
            for other in before
        )

    # --- What may be before ----------------------------------------------------------------------

    def possible_opener(
        self, member: str, libraries: Collection[str], modules: Collection[str] = ()
    ) -> str:
        """Return a note on what may open `libraries` before `member`; empty if nothing may.

        They are named as their files. `modules` are those of another wheel that has them: then a
        source may have it done by their name. The loader finds a loaded library by its SONAME. What
        a source names only once the import of `member` has begun comes too late.
        """
        wheel, code = self._wheel, self._code
        package = package_of(member, wheel)
        opened = {
            posixpath.basename(opening.name): source
            for source, opening in openings(wheel)
            if opening.where is not LookupPlace.SEARCH and not opening.is_of_current
            if package_of(source, wheel) == package
            if not self._is_late(member, source, opening.statement or opening.line)
        }
        if {*libraries} <= opened.keys():
            return f"`{opened[min(libraries)]}` opens it: whether before is not known"
        for source in wheel.opening_unknown:
            if package_of(source, wheel) == package and self._names_early(member, source, CALLS):
                return (
                    f"`{source}` opens libraries under names that are not known: maybe this one, "
                    "before"
                )
        mentions = code.mentions(libraries) if code else dict[str, tuple[str, ...]]()
        naming = wheel.elfs.keys() - {member}
        naming = naming.intersection(*(mentions.get(name, ()) for name in libraries))
        others = (m for m in sorted(naming) if posixpath.basename(m) not in libraries)
        for other in (*unread_code(wheel), *others):
            if other.endswith(".pth") or package_of(other, wheel) == package:
                return f"`{other}` is not read: maybe it opens the library before"
        words = names_in_code((*modules, *map(stem_of, libraries)))
        for source in code.sources_that(words.search) if code and modules else ():
            if package_of(source, wheel) == package and self._names_early(member, source, words):
                return f"`{source}` names it, and may load it before"
        return ""

    def _names_early(self, member: str, source: str, words: re.Pattern[bytes]) -> bool:
        """Return whether a source may name something before a module is begun."""
        text = self._read(source)
        found = words.search(text)
        line = 0 if found is None else text.count(b"\n", 0, found.end()) + 1
        return not self._is_late(member, source, line)

    def _is_late(self, member: str, source: str, line: int) -> bool:
        """Return whether a line of a source runs only once a module is begun."""
        place = self._name(source), line
        return is_late(self._name(member), place, self._begun_by, self._importers)

    # --- Sources ---------------------------------------------------------------------------------

    def _name(self, member: str) -> str:
        return module_name(site_path(member, self._wheel) or "")

    @cached_property
    def _sources(self) -> Mapping[str, str]:
        """Dotted name -> source. A package is imported before a module of its name."""
        known = (member for member in self._wheel.member_names if member.endswith(".py"))
        packages_last = sorted(known, key=lambda member: member.endswith("/__init__.py"))
        return {self._name(member): member for member in packages_last}

    def _read(self, source: str) -> bytes:
        known = self._wheel.sources.get(source)
        return known or (self._code.read(source) if self._code else b"")

    def _importers(self, module: str) -> Iterator[tuple[str, int]]:
        """Yield the sources that import a module, each with the first line that does."""
        last = re.compile(
            rb"\b%s\b" % re.escape(module.rpartition(".")[2].encode("utf-8", "surrogateescape"))
        )
        for source in self._code.sources_that(last.search) if self._code and module else ():
            name = self._name(source)
            package = name if source.endswith("/__init__.py") else name.rpartition(".")[0]
            line = line_of_import(self._read(source), package, module)
            if line is not None:
                yield name, line

    def _read_begun(self, module: str) -> Sequence[Imported]:
        """Return what the import of a module surely begins to import, or opens by its path."""
        source = self._sources.get(module)
        if source is None:
            return ()
        is_package = source.endswith("/__init__.py")
        imported = read_imports(module, self._read(source), is_package=is_package)
        opened = (
            Imported(f"/{place}", opening.statement or opening.line)
            for opening in self._wheel.openings.get(source, ())
            if opening.runs and opening.where is LookupPlace.SOURCE
            if (place := place_of(self._wheel, source, opening)) is not None
        )
        return sorted((*imported, *opened), key=lambda imported_: imported_.line)


def names_in_code(names: Iterable[str]) -> re.Pattern[bytes]:
    """Return what matches `names` of libraries and modules in imports and in quotes."""
    each = "|".join(re.escape(name.removeprefix("lib")) for name in names)
    text = rf"(?im)^[ \t]*(?:import|from)[ \t][^\n#]*\b(?:{each})\b|[\"'](?:lib)?(?:{each})[\"'.]"
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
