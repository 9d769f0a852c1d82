"""In which order the imports of a wheel's modules begin, and what opens libraries before them."""

import posixpath
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, KeysView, Mapping, Sequence
from functools import cache, cached_property, partial

from wheelfix.analysis.opened_libraries import openings, place_of, present
from wheelfix.budget import Budget
from wheelfix.elf.object_file_names import stem_of
from wheelfix.grouping import flatten, values_by_key
from wheelfix.loader.install_schemes import site_path, split
from wheelfix.python_sources.global_imports import global_imports, may_set_flags
from wheelfix.python_sources.imported_modules import Naming, by_part, module_name, namings
from wheelfix.python_sources.open_flags import line_for_all
from wheelfix.python_sources.opening_calls import AT_START, CALLS, EXECUTES, IMPORTS_ANY, line_of
from wheelfix.python_sources.opens import read_imports
from wheelfix.python_sources.parsing import STEPS_PER_WHEEL, Sources
from wheelfix.python_sources.source_facts import Imported, LookupPlace, PythonOpening
from wheelfix.python_sources.sure_imports import Turns, sure_imports
from wheelfix.wheel.model import Key, Wheel
from wheelfix.wheel.names_in_code import CodeNames


class ImportOrder:
    """What is surely begun before a module of one wheel, and what may be. Mutable: sources read."""

    def __init__(
        self,
        wheel: Wheel,
        code: CodeNames | None,
        loaded: Callable[[tuple[str, ...]], Collection[str]],
    ) -> None:
        """Read the sources of `wheel`: without `code`, those alone that a repair may write to.

        `loaded` returns the members that opening some in turn loads.
        """
        self._wheel = wheel
        self._code = code
        self._loaded = cache(loaded)
        self.begun = cache(self._read_begun)
        """Module -> what its import surely begins to import, or opens by its path."""
        self._turns = Turns(self.begun, self._importers)
        self._done = Turns(
            lambda name: [begun for begun in self.begun(name) if not begun.caught], self._importers
        )
        self._namings = cache(self._read_namings)
        self._by_part = cache(self._read_by_part)
        self._brought = cache(self._read_brought)
        self.before = cache(self._read_before)
        """Member -> the modules that are begun before it in each process, and paths opened."""

    # --- What is surely before -----------------------------------------------------------------

    def _read_before(self, member: str) -> KeysView[str]:
        name = self._name(member)
        return dict.fromkeys(self._turns.before(name) if name else ()).keys()

    def opens_before(self, member: str, places: Iterable[tuple[Key, str] | None]) -> bool:
        """Return whether what is at `places` is surely opened before a module."""
        before = self.before(member)
        return all(f"/{place}" in before for place in places)

    def opened_before(self, member: str) -> Iterator[str]:
        """Yield the objects that are surely opened before a module, in turn."""
        places = ((m, {self._name(m), f"/{split(m, self._wheel)}"}) for m in self._wheel.elfs)
        objects = values_by_key((name, m) for m, names in places for name in names)
        return flatten(objects.get(name, ()) for name in self.before(member))

    def is_done_before(self, first: str, member: str) -> bool:
        """Return whether a module is surely imported before another, where no `try` catches it."""
        return self._name(first) in self._done.before(self._name(member))

    def opened_before_import(self, member: str, libraries: Iterable[str]) -> bool:
        """Return whether `libraries` of the wheel are surely loaded before a module."""
        return {*libraries} <= {*self._loaded((*self.opened_before(member),))}

    def opened_for_all(self, member: str) -> Iterator[str]:
        """Yield the objects that sources surely open with RTLD_GLOBAL before a module."""
        wheel, places = self._wheel, self._places_for_all
        if not places and not self._setters:
            return
        before = self.before(member)
        setters = [name for name in self._setters if name in before]
        names = {self._name(library): library for library in wheel.elfs}
        sources = Sources(self.sources.get, self.read, names.__contains__)
        budget = Budget("the imports of a wheel", STEPS_PER_WHEEL)
        imported = {found.module for found in global_imports(setters, sources, budget)} & before
        for name, library in names.items():
            place = split(library, wheel)
            if name in imported or (place in places and f"/{place}" in before):
                yield library

    @cached_property
    def _places_for_all(self) -> frozenset[tuple[Key, str] | None]:
        """What imports surely open with RTLD_GLOBAL by its path."""
        return frozenset(
            place_of(self._wheel, source, opening)
            for source, opening in openings(self._wheel)
            if opening.for_all and opening.runs and opening.where is LookupPlace.SOURCE
        )

    @cached_property
    def _setters(self) -> Sequence[str]:
        """The modules whose sources may set the flags for imports."""
        sources = self._code.opening_sources() if self._code else ()
        return [self._name(source) for source, text in sources if may_set_flags(text)]

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
        opened = {
            name: by
            for by, brought in self._openers(member, libraries)
            for name in brought.intersection(libraries)
        }
        if {*libraries} <= opened.keys():
            return f"`{opened[min(libraries)]}` opens it, maybe before"
        for source in wheel.opening_unknown:
            if not self._is_late(member, source, line_of(CALLS, self.read(source))):
                return f"`{source}` opens libraries under names that are not known, maybe this one"
        mentions = code.mentions(libraries) if code else dict[str, tuple[str, ...]]()
        naming = wheel.elfs.keys() - {member}
        naming = naming.intersection(*(mentions.get(name, ()) for name in libraries))
        others = (m for m in sorted(naming) if posixpath.basename(m) not in libraries)
        if other := next(iter((*self.unread, *others)), ""):
            return f"`{other}` is not read, and may open the library before"
        words = IMPORTS_ANY if modules or any(self._lenders(member, libraries)) else EXECUTES
        for source in self.may_run_before(member, partial(line_of, words)):
            return f"`{source}` has code or imports that are not known, and may open it before"
        names = set(map(_top, (*modules, *map(stem_of, libraries))))
        texts = names_in_code(names)
        for source in code.sources_that(texts.search) if code and modules else ():
            named = (n for n in self._namings(source) if _top(n.name) in names)
            if any(not self._is_late(member, source, naming.line) for naming in named):
                return f"`{source}` names it, and may load it before"
        return ""

    def may_run_before(self, member: str, line_in: Callable[[bytes], int]) -> Iterator[str]:
        """Yield the sources that may come to a line, the first of its kind, before a module."""
        for source in self._code.sources_that(line_in) if self._code else ():
            if not self._is_late(member, source, line_in(self.read(source))):
                yield source

    def opened_outside(self, member: str) -> Mapping[str, str]:
        """Return the files that sources may open by absolute paths before a module is begun.

        By their names, each with the source. The loader finds a loaded library by its SONAME.
        """
        return {
            posixpath.basename(opening.name): source
            for source, opening in openings(self._wheel)
            if opening.where is LookupPlace.ABSOLUTE and not opening.is_of_current
            if not self._is_late(member, source, opening.statement or opening.line)
        }

    def may_open_for_all(self, member: str, known: Collection[str]) -> Iterator[str]:
        """Yield the sources that may open a library with RTLD_GLOBAL before a module is begun.

        Or set that flag for imports. Left out are those that open only `known` members.
        """
        wheel = self._wheel
        places = {split(library, wheel) for library in known}
        for source, text in self._code.opening_sources() if self._code else ():
            is_known = source not in wheel.opening_unknown and all(
                place_of(wheel, source, opening) in places
                for opening in wheel.openings.get(source, ())
            )
            line = line_for_all(text)
            if line and not (
                (is_known and not may_set_flags(text)) or self._is_late(member, source, line)
            ):
                yield source

    def may_import(self, member: str, module: str) -> Iterator[str]:
        """Yield the sources that may import a top-level module before `member` is begun.

        What no source names runs only after its packages, unless any module may be imported.
        """
        name = self._name(member)
        is_any = any(self.may_run_before(member, partial(line_of, IMPORTS_ANY)))
        for importer, naming in self._importers(module):
            parents = (importer.rsplit(".", n)[0] for n in range(1, importer.count(".") + 1))
            is_named = is_any or any(by != importer for by, _ in self._importers(importer))
            places = [(importer, naming.line)]
            places += [] if is_named else [(parent, sys.maxsize) for parent in parents]
            if not any(self._turns.is_late(name, place) for place in places):
                yield self.sources[importer]

    def _openers(
        self, member: str, libraries: Collection[str]
    ) -> Iterator[tuple[str, frozenset[str]]]:
        """Yield what may load some of `libraries` before `member`: sources, and other modules."""
        for source, opening in openings(self._wheel):
            brought = self._brought(posixpath.basename(opening.name))
            place = source, opening.statement or opening.line
            is_path = opening.where is not LookupPlace.SEARCH and not opening.is_of_current
            if is_path and brought.intersection(libraries) and not self._is_late(member, *place):
                yield source, brought
        for other, brought in self._lenders(member, libraries):
            name = self._name(other)
            is_tried = self._code is not None and self._code.is_only_tried(name.rpartition(".")[2])
            is_named = any(self._importers(name)) and not is_tried
            is_late = self.is_done_before(member, other) or self._is_late(member, other, 0)
            if is_named and not is_late:
                yield other, brought

    def _lenders(
        self, member: str, libraries: Collection[str]
    ) -> Iterator[tuple[str, frozenset[str]]]:
        """Yield the other modules that load some of `libraries`, each with what it loads."""
        for other, elf in self._wheel.elfs.items():
            brought = self._brought(posixpath.basename(other)) if elf.module_hooks else None
            if other != member and brought and brought.intersection(libraries):
                yield other, brought

    def _read_brought(self, name: str) -> frozenset[str]:
        """Return the names of the libraries that opening one of a name loads."""
        elfs = self._wheel.elfs
        members = (m for m in elfs if name in {posixpath.basename(m), elfs[m].soname})
        loaded = {*flatten(self._loaded((member,)) for member in members)}
        sonames = filter(None, (elfs[m].soname for m in loaded))
        return frozenset({name, *map(posixpath.basename, loaded), *sonames})

    def _is_late(self, member: str, source: str, line: int) -> bool:
        """Return whether a line of a source runs only once a module is begun."""
        return self._turns.is_late(self._name(member), (self._name(source), line))

    # --- Sources ---------------------------------------------------------------------------------

    def _name(self, member: str) -> str:
        return module_name(site_path(member, self._wheel) or "")

    @cached_property
    def always_imported(self) -> KeysView[str]:
        """What importing one of the top-level packages surely imports."""
        sources = self.sources.items()
        tops = (name for name, source in sources if source.endswith("/__init__.py"))
        return sure_imports([name for name in tops if "." not in name], self.begun)

    @cached_property
    def sources(self) -> Mapping[str, str]:
        """Dotted name -> source. A package is imported before a module of its name."""
        known = (member for member in self._wheel.member_names if member.endswith(".py"))
        packages_last = sorted(known, key=lambda member: member.endswith("/__init__.py"))
        return {self._name(member): member for member in packages_last}

    def read(self, source: str) -> bytes:
        """Return the text of a source; without a reader, of those alone that are known."""
        known = self._wheel.sources.get(source)
        return known or (self._code.read(source) if self._code else b"")

    @cached_property
    def unread(self) -> Sequence[str]:
        """What Python runs and is not read: bytecode without its source, and code in .pth files."""
        return [*filter(self._is_unread, self._wheel.sizes)]

    def _is_unread(self, member: str) -> bool:
        if member.endswith(".pth") and "/" not in (site_path(member, self._wheel) or ""):
            return self._code is None or bool(AT_START.search(self.read(member)))
        return member.endswith(".pyc") and "__pycache__/" not in member

    def _importers(self, module: str) -> Iterator[tuple[str, Naming]]:
        """Yield the modules whose sources name another one, each time that they do."""
        last = module.rpartition(".")[2]
        for source in self._code.naming.get(last, ()) if self._code else ():
            for naming in self._by_part(source).get(last, ()):
                if naming.is_of(module):
                    yield self._name(source), naming

    def _read_by_part(self, source: str) -> Mapping[str, Sequence[Naming]]:
        """Return where a source names modules by each part of their names."""
        return by_part(self._namings(source))

    def _read_namings(self, source: str) -> Sequence[Naming]:
        name = self._name(source)
        package = name if source.endswith("/__init__.py") else name.rpartition(".")[0]
        return namings(self.read(source), package)

    def _read_begun(self, module: str) -> Sequence[Imported]:
        source = self.sources.get(module)
        if source is None:
            return ()
        is_package = source.endswith("/__init__.py")
        imported = read_imports(module, self.read(source), is_package=is_package)
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


def _top(name: str) -> str:
    """Return the first part of the name of a module or library, as a source may spell it."""
    return name.partition(".")[0].removeprefix("lib").lower()


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
