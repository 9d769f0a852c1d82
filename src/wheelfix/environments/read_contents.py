"""What is in the files of an installed environment: symbols, versions, Python sources."""

import hashlib
import os
import posixpath
import re
import stat
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property, lru_cache, partial
from itertools import accumulate, chain, product
from pathlib import Path
from typing import Any, TypeVar, cast

from wheelfix.analysis.world import PlantedLibraries, World
from wheelfix.budget import Budget, BudgetError
from wheelfix.elf.definition_content import definition_contents
from wheelfix.elf.exports import (
    Names,
    SizedDefinition,
    SymbolDefinitions,
    SymbolPlaces,
    SymbolTables,
    lazy_exports,
    read_symbol_places,
    symbol_tables_at,
)
from wheelfix.elf.model import Exports, Undefined
from wheelfix.elf.object_file_names import stem_of
from wheelfix.environments.cached_facts import CachedFacts, Facts
from wheelfix.environments.global_openings import read_promotions
from wheelfix.environments.read_sources import (
    OPENS,
    SiteSources,
    path_files,
    read_variables,
    sources_in,
)
from wheelfix.environments.read_values import Opening, Promotion, Variable
from wheelfix.errors import BadElfError
from wheelfix.grouping import flatten, values_by_key
from wheelfix.host.machine_files import map_regular
from wheelfix.host.reachable_files import read_file, read_planted
from wheelfix.loader.install_schemes import name_in_site
from wheelfix.loader.load_values import SearchOutcome
from wheelfix.loader.loading import library_path_directories
from wheelfix.python_sources.imported_modules import (
    Naming,
    bound_names,
    by_part,
    failing_imports,
    module_name,
    namings,
)
from wheelfix.python_sources.opening_calls import (
    CALLS,
    COMPUTES,
    EXECUTES,
    IMPORTS_ALL,
    IMPORTS_ANY,
    line_of,
    may_open,
    opens,
)
from wheelfix.python_sources.opens import read_imports, visit_source
from wheelfix.python_sources.parsing import STEPS_PER_SOURCE
from wheelfix.python_sources.source_facts import Imported, LookupPlace
from wheelfix.python_sources.sure_imports import Turns, begun_imports, sure_imports
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.system.paths import is_file, is_there

_PACKAGES, _MODULES = ("/__init__.py",), ("/__init__.py", ".py")
"""Where sources of packages are, and of all modules: to read all would take seconds."""
_STEPS_AN_IMPORT = 10
_QUESTIONS = 2
"""Questions of each kind whose answers are kept: one of the symbols of all, one of the few that
differ."""
_Answer = TypeVar("_Answer")
_TEXT = lazy_pattern(rb"[\"']([\w.]+)[\"']")
_WORD = lazy_pattern(rb"[\w\x80-\xff]+")
"""A text that may be the name of a module."""
_KEPT = 64
"""Objects whose symbol tables are kept: what is asked of one is asked at about the same time."""


class InstalledContents:
    """What is in the files of an environment. Mutable: what was read is kept."""

    def __init__(
        self,
        world: World,
        objects: CachedFacts,
        folders: Collection[str],
        standard: Path | None = None,
        suffix: str = "",
    ) -> None:
        """Read the files of `world`, but for what `objects` knows; Python sources in `folders`.

        Of the standard library in `standard`, what its modules import is read, too. `suffix` is
        that of the interpreter's extension modules.
        Those of a described machine are not read: others are at their paths here.
        """
        self._world = world
        self._objects = objects
        self._sources = SiteSources(world, objects, folders, suffix)
        self._standard = (f"{standard}/",) if standard else ()
        self.tables = lru_cache(_KEPT)(self._read_tables)
        self._imports = cache(self._read_imports)
        self.sure_imports = cache(self._read_sure_imports)
        """Module, maybe a line -> what it surely imports before that line, in turn, and itself.

        The libraries that these open by a path are among them, by this path. None without a source.
        """
        self.needed = cache(partial(self._with_own, sure_imports))
        """Module -> what `sure_imports` does, where all sources of the own package are read."""
        self._namings = cache(self._read_namings)
        self._by_part = cache(self._read_by_part)
        self._turns = cache(self._read_turns)
        self._texts = cache(self._read_texts)
        self.before = cache(self._read_before)
        """Module -> what is begun before it in each process."""
        self.begun = cache(partial(self._with_own, begun_imports))
        """Module -> what it surely begins to import, where all of the own package are read."""
        self._opened = cache(self._read_opened)
        self._importers_in = cache(self._sources.importers)
        self._imported_by = cache(self._read_imported_by)
        self.importing = cache(self._read_importing)
        """Top-level module -> the packages and modules that may import it, at any time."""
        self.reached = cache(self._read_reached)
        """Packages, and one that counts for itself alone -> they, and what they may import."""

    def save(self) -> None:
        """Keep what was read for later runs."""
        self._objects.save()

    def exports(self, path: str) -> Exports:
        """Return what an object defines, read by name; nothing if it cannot be read."""
        with suppress(OSError, BadElfError):
            return lazy_exports(partial(_KeptDefinitions, self, path))
        return Exports()

    def names(self, path: str) -> frozenset[str]:
        """Return the names of what an object defines."""
        with suppress(OSError, BadElfError):
            return self.tables(path).names()
        return frozenset()

    def own_lookups(self, path: str, names: frozenset[str]) -> Mapping[str, SizedDefinition]:
        """Return those definitions of `names` in an object that its own relocations look up."""
        return self._sizes(path, b"own lookups", names, lambda of: of.own_lookups(names))

    def unique_lookups(self, path: str) -> Mapping[str, SizedDefinition]:
        """Return the STB_GNU_UNIQUE definitions of an object that its own relocations look up."""
        return self._sizes(path, b"unique lookups", frozenset(), SymbolTables.unique_lookups)

    def sizes(self, path: str, names: frozenset[str]) -> Mapping[str, SizedDefinition]:
        """Return the definitions of some names in an object."""
        return self._sizes(path, b"sizes", names, lambda of: of.sizes(names))

    def _sizes(
        self,
        path: str,
        kind: bytes,
        names: frozenset[str],
        read: Callable[[SymbolTables], Mapping[str, SizedDefinition]],
    ) -> Mapping[str, SizedDefinition]:
        with suppress(OSError, BadElfError):
            return self.answer(path, kind, _digest(names), read)
        return {}

    def values(self, path: str, names: frozenset[str]) -> Mapping[str, bytes]:
        """Return what `definition_contents` does of some names in an object."""
        facts, question = self._objects.facts(path), b"values" + _digest(names)
        with suppress(OSError, BadElfError):
            if path not in self._world.described and question not in facts:
                with map_regular(path) as data:
                    facts[question] = definition_contents(data, path, names)
            return cast("Mapping[str, bytes]", facts.get(question, {}))
        return {}

    def hashes(self, path: str) -> Collection[int]:
        """Return hashes of the names of what an object defines."""
        with suppress(OSError, BadElfError):
            stored = self.symbols(path).hashes
            return array("I", stored) if isinstance(stored, bytes) else stored or ()
        return ()

    def own_sizes(self, path: str, hashes: frozenset[int]) -> Mapping[str, int]:
        """Return the bytes of definitions that others have no copies of, by hashes of names."""
        about = b"%x" % hash(hashes)  # of numbers it is the same in every process
        with suppress(OSError, BadElfError):
            return self.answer(path, b"own sizes", about, lambda of: of.own_sizes(hashes))
        return {}

    def symbols(self, path: str) -> SymbolPlaces | SymbolTables:
        """Return what takes time to read of an object. Raises `OSError` and `BadElfError`."""
        known = self._facts(path).get(b"symbols")
        return SymbolPlaces(*cast("tuple[Any, ...]", known)) if known else self.tables(path)

    def answer(
        self, path: str, kind: bytes, about: bytes, read: Callable[[SymbolTables], _Answer]
    ) -> _Answer:
        """Return what `read` says of the symbols of an object; `about` is what it asks for.

        It is kept: the same is asked again, as long as the environment does not change. Of a kind
        of question only the last few are. Raises `OSError` and `BadElfError`.
        """
        facts, question = self._facts(path), kind + about
        if question not in facts:
            content = read(self.tables(path))
            for older in [key for key in facts if key.startswith(kind)][: 1 - _QUESTIONS]:
                del facts[older]
            facts[question] = content
        return cast("_Answer", facts[question])

    def _facts(self, path: str) -> Facts:
        """Return the facts on an object. Raises `OSError` for one of another machine."""
        if path in self._world.described:
            raise FileNotFoundError(path)
        return self._objects.facts(path)

    def has_source(self, top: str) -> bool:
        """Return whether a top-level name is a package with `__init__.py`, or a source."""
        folders = (*self._sources.folders, *self._standard)
        paths = (f"{folder}{top}{ending}" for folder, ending in product(folders, _MODULES))
        return any(map(is_file, paths))

    def version(self, path: str, pattern: re.Pattern[bytes]) -> str:
        """Return the first group of the first match in a file; empty without one."""
        facts, question = self._objects.facts(path), b"version " + pattern.pattern
        with suppress(OSError):
            if question not in facts:
                match = pattern.search(map_regular(path))
                facts[question] = match[1].decode("utf-8", "replace") if match else ""
            return cast("str", facts[question])
        return ""

    def size(self, path: str) -> int | None:
        """Return the bytes of a regular file; None if there is none."""
        with suppress(OSError):
            status = os.stat(path)  # noqa: PTH116 - text
            return status.st_size if stat.S_ISREG(status.st_mode) else None
        return None

    @cached_property
    def promotions(self) -> Sequence[Promotion]:
        """Return the objects that enter the global scope when a Python source opens them."""
        promotions = {p.path: p for p in read_promotions(self._world, self._sources)}
        for opening in (o for o in self.openings if o.for_all and "/" in o.path):
            source = f"{self._openers[opening.module][1]}:{opening.line}"
            promotions.setdefault(opening.path, Promotion(opening.path, source))
        return list(promotions.values())

    @cached_property
    def openings(self) -> Sequence[Opening]:
        """Return the libraries that sources open which the import of their packages imports."""
        run = {*self._imported, *self._path_files}
        openers = ((m, *place) for m, place in self._openers.items() if m in run)
        return [*flatten(self._opened(*opener) for opener in openers)]

    @cached_property
    def opens_unknown(self) -> Sequence[str]:
        """The modules that open libraries by names that are not known, when they are imported."""
        return [
            module
            for module, (folder, path) in self._openers.items()
            if module in self._imported and self._opens_unknown(folder, path)
        ]

    def _opens_unknown(self, folder: str, path: str) -> bool:
        """Return whether a source opens what is not known, or tries paths where nothing is."""
        rows, unknown = self._sources.opened(folder, path)
        place = posixpath.join(folder, posixpath.dirname(path))
        tried = [name for _, name, sure, is_bare, _ in rows if not sure and not is_bare]
        return unknown or bool(tried and not any(is_there(f"{place}/{name}") for name in tried))

    @cached_property
    def _imported(self) -> Collection[str]:
        """What the packages with openers surely import."""
        tops = sorted({module.partition(".")[0] for module in self._openers})
        return sure_imports(tops, lambda module: self._imports_of(module) or ())

    @cached_property
    def _openers(self) -> Mapping[str, tuple[str, str]]:
        """The modules whose sources may open libraries, or call those that do.

        With the folder, and the path in it.
        """
        own = self._own_openers
        callers = {
            (folder, caller)
            for module, (folder, path) in own.items()
            if "." in module and not path.endswith(_PACKAGES)
            for caller in self._naming(module, folder)
        }
        by_name = {module_name(caller[1]): caller for caller in sorted(callers)}
        return {**by_name, **own, **self._path_files}

    @cached_property
    def _path_files(self) -> Mapping[str, tuple[str, str]]:
        """The `.pth` files whose lines Python runs when it starts, as `_openers`."""
        return {path: (folder, path) for folder, path, _ in self._pth_lines}

    @cached_property
    def _pth_lines(self) -> Sequence[tuple[str, str, bytes]]:
        """The lines of `.pth` files that Python runs, as `_opening`."""
        folders = self._sources.site_folders
        return [(folder, *of_file) for folder in folders for of_file in path_files(folder)]

    @cached_property
    def _start(self) -> Sequence[Imported]:
        """What Python imports and opens when it starts (site)."""
        imports = [Imported(name, 0) for name in ("sitecustomize", "usercustomize")]
        for folder, path, source in self._pth_lines:
            imports += read_imports("site", source, is_package=False)
            imports += (Imported(o.path, 0) for o in self._opened(path, folder, path))
        return imports

    @cached_property
    def _own_openers(self) -> Mapping[str, tuple[str, str]]:
        """Those that open libraries themselves: most of the others do nothing with these."""
        return {
            module_name(path): (folder, path)
            for folder, path, source in self._opening
            if folder in self._sources.site_folders and opens(source)
        }

    @cached_property
    def _importers(self) -> Collection[str]:
        """The modules that surely open libraries, and those by which packages come to them."""
        importers = {
            module
            for module, (folder, path) in self._own_openers.items()
            if self._opened(module, folder, path)
        }
        waiting = list(importers)
        for module in (parent for parent in waiting if "." in parent):  # grows during the loop
            new = [importer for importer in self.that_import(module) if importer not in importers]
            importers.update(new)
            waiting += new
        return importers

    def that_import(self, module: str) -> Iterator[str]:
        """Yield the modules whose sources surely import another one."""
        for folder in self._sources.site_folders:
            for path in self._naming(module, folder):
                if module in self._imported_by(folder, path):
                    yield module_name(path)

    def _naming(self, module: str, folder: str) -> Collection[str]:
        """Return the sources that may import a module: of its package, of a top-level one all."""
        top, dot, _ = module.partition(".")
        return self._having(module, self._importers_in(folder, top if dot else ""))

    def others_that_import(self, module: str) -> Iterator[str]:
        """Yield the modules of any package that surely import a module of a package by its name."""
        package, dot, _ = os.fsencode(module).partition(b".")
        for folder in self._sources.site_folders if dot else ():
            importers = self._importers_in(folder, "")
            for path in {*importers.get(package, ())}.intersection(self._having(module, importers)):
                if module in self._imported_by(folder, path):
                    yield module_name(path)

    def _having(self, module: str, importers: Mapping[bytes, Sequence[str]]) -> Collection[str]:
        """Return those of some sources that have the last part of a module's name."""
        name = os.fsencode(module.rpartition(".")[2])
        naming = {*importers.get(name, ()), *importers.get(b"." + name, ())}
        with suppress(BudgetError):
            self._sources.budget.spend(len(naming), "the imports", module)
            return naming
        return ()

    def is_tried(self, module: str) -> bool:
        """Return whether a source does without a module, or without one that imports it."""
        waiting = [module]
        for name in waiting:  # grows during the loop
            last = name.rpartition(".")[2]
            for folder in self._sources.site_folders:
                for path in self._naming(name, folder):
                    source = sources_in(folder).read(path)
                    is_caught = (failing_imports(source) or {}).get(last)
                    if is_caught:
                        return True
                    importer = module_name(path)
                    if is_caught is False and "." in importer and importer not in waiting:
                        waiting.append(importer)
        return False

    def _read_imported_by(self, folder: str, path: str) -> Collection[str]:
        with suppress(OSError):
            is_package = path.endswith(_PACKAGES)
            imports = self._sources.imports(module_name(path), folder + path, is_package=is_package)
            return frozenset(imported.name for imported in imports if not imported.caught)
        return ()

    def may_import(self, top: str, other: str) -> bool:
        """Return whether a source of the package `top` imports another one, at any time."""
        name = os.fsencode(other)
        return any(name in self._importers_in(folder, top) for folder in self._sources.site_folders)

    def _read_importing(self, module: str) -> frozenset[str]:
        named = (self._importers_in(folder, "") for folder in self._sources.site_folders)
        paths = flatten(sources.get(os.fsencode(module), ()) for sources in named)
        return frozenset(map(_top_of, paths))

    def _read_reached(self, tops: frozenset[str], but: str) -> frozenset[str]:
        waiting, left = [*tops], {*self.tops} - tops - {but}
        for top in waiting:  # grows during the loop
            found = {other for other in left if top in self.importing(other)}
            left -= found
            waiting += found
        return frozenset(waiting)

    def imported_early(self, module: str, lenders: Iterable[str]) -> Iterator[str]:
        """Yield the top-level modules that the package of a module may import before it.

        By statements, and by texts those of `lenders`.
        """
        top, tops = module.partition(".")[0], {*self.tops}
        tops.discard(top)
        words = {*map(os.fsencode, lenders)}
        for folder in self._sources.site_folders:
            importers = self._importers_in(folder, top).items()
            naming = {*flatten(paths for name, paths in importers if os.fsdecode(name) in tops)}
            naming.update(*(self._texts(folder, top).get(word, ()) for word in words))
            for path, named in ((p, n) for p in naming for n in self._namings(folder, p)):
                other, place = named.name.partition(".")[0], (module_name(path), named.line)
                if other in tops and not self.is_late(module, place):
                    tops.remove(other)
                    yield other

    def imports_any_early(self, module: str, lenders: Collection[str]) -> bool:
        """Return whether the package of a module may import what is not known before it.

        So may text that a `.pth` file runs, if it names one of `lenders`: coverage has one, too.
        """
        top, folders = module.partition(".")[0], self._sources.site_folders
        words = {*flatten(_WORD.findall(of) for *_, of in self._pth_lines if EXECUTES.search(of))}
        if not words.isdisjoint(map(os.fsencode, lenders)):
            return True
        return any(
            not self.is_late(module, (module_name(path), line_of(IMPORTS_ANY, source)))
            for folder in folders
            for path, source in self._sources.that(IMPORTS_ANY.search, b"any", folder, top)
        )

    def _read_texts(self, folder: str, top: str) -> Mapping[bytes, Sequence[str]]:
        """Return the sources of a package by the words of their texts that may name modules."""
        return values_by_key(
            (word, path)
            for path, source in self._sources.that(bool, b"all", folder, top)
            for text in {*_TEXT.findall(source)}
            for word in text.split(b".")
        )

    def is_late(self, module: str, place: tuple[str, int]) -> bool:
        """Return whether a line of a source runs only once the import of a module has begun."""
        return self._turns(module.partition(".")[0]).is_late(module, place)

    def is_named(self, module: str) -> bool:
        """Return whether a source of its package may import a module: by a name, or by `*`."""
        top, sources = module.partition(".")[0], self._sources
        all_in = partial(sources.that, IMPORTS_ALL.search, b"all of", below=top)
        return any(self._importers_of(module)) or any(flatten(map(all_in, sources.site_folders)))

    def _importers_of(self, module: str) -> Iterator[tuple[str, Naming]]:
        """Yield the modules whose sources name another one, each time that they do."""
        top, dot, _ = module.partition(".")
        last = module.rpartition(".")[2]
        for folder in self._sources.site_folders:
            texts = self._texts(folder, top).get(os.fsencode(last), ()) if dot else ()
            for path in {*self._naming(module, folder), *texts}:
                for named in self._by_part(folder, path).get(last, ()):
                    if named.is_of(module):
                        yield module_name(path), named

    def _read_by_part(self, folder: str, path: str) -> Mapping[str, Sequence[Naming]]:
        return by_part(self._namings(folder, path))

    def _read_namings(self, folder: str, path: str) -> Sequence[Naming]:
        name = module_name(path)
        package = name if path.endswith(_PACKAGES) else name.rpartition(".")[0]
        return namings(sources_in(folder).read(path) or b"", package)

    def _read_turns(self, top: str) -> Turns:
        return Turns(self._of_package(top), self._importers_of)

    @cached_property
    def variables(self) -> Sequence[Variable]:
        """Return the environment variables with directories that files of the environment set."""
        return tuple(read_variables(self._world, self._sources))

    def planted(self, directories: Collection[str]) -> PlantedLibraries:
        """Return the libraries in some directories."""
        return read_planted(directories)

    def are_equal(self, first: str, other: str) -> bool:
        """Return whether two files have the same content."""
        with suppress(OSError):
            return map_regular(first) == map_regular(other)
        return False

    def mentions(self, path: str, words: frozenset[str]) -> Collection[str]:
        """Return which of some texts a file has."""
        facts = self._objects.facts(path)
        question = os.fsencode("\0".join(["mentions", *sorted(words)]))
        with suppress(OSError):
            if question not in facts:
                with map_regular(path) as data:
                    whole = cast("bytes", data.obj)  # several times as fast as a pattern
                    mentioned = (word for word in words if whole.find(os.fsencode(word)) >= 0)
                    facts[question] = tuple(sorted(mentioned))
            return cast("tuple[str, ...]", facts[question])
        return ()

    def may_open(
        self,
        library: str,
        packages: Collection[str],
        loaded: Collection[str],
        how: Callable[[bytes], object] = may_open,
        before: str | None = None,
    ) -> bool:
        """Return whether a source, or one of the `loaded`, of top-level `packages` may open it.

        Or a source of another one that has the name of `library`. Sources open it as asked. With
        `before`, neither another one counts, nor what comes only once this module has begun. Text
        that a `.pth` file runs, and that is not known, may open anything.
        """
        stem, names = os.fsencode(stem_of(library)), frozenset({"dlopen", "CDLL", "PyRun_"})
        members = self._world.members
        objects = (p for p in loaded if members.get(p, "\0").partition("/")[0] in packages)
        if any(COMPUTES.search(source) for *_, source in self._pth_lines):
            return True
        return any(
            self._may_lead(library, path, source, before, is_for_all=how is not may_open)
            if _top_of(path) in packages
            else before is None and stem in source
            for _, path, source in self._opening
            if how(source)
        ) or any(self.mentions(path, names) for path in objects)

    def opened_outside(self, module: str) -> Mapping[str, bool]:
        """Return the names of files that sources open by absolute paths before a module is begun.

        Each with whether it is opened for all others.
        """
        openers = {*self.before(module), module.partition(".")[0]} & self._openers.keys()
        return {
            posixpath.basename(name): for_all
            for opener in openers
            for line, name, _, _, for_all in self._sources.opened(*self._openers[opener])[0]
            if name[:1] == "/" and not self.is_late(module, (opener, line)) and self._is_there(name)
        }

    def that_name(self, library: str) -> Iterator[str]:
        """Yield the top-level modules with a source that may open libraries, and names this one."""
        stem = os.fsencode(stem_of(library))
        yield from (_top_of(path) for _, path, source in self._opening if stem in source)

    def _may_lead(
        self, library: str, path: str, source: bytes, before: str | None, *, is_for_all: bool
    ) -> bool:
        """Return whether a source may open what needs `library`, or it: a name is not known.

        For all others, it may also import that.
        """
        budget = Budget(path, STEPS_PER_SOURCE)
        followed = visit_source(source, path, {}, budget)
        # What is loaded already may be opened by its bare name, and it alone.
        openings = [o for o in followed.openings if o.where is not LookupPlace.SEARCH]
        if before is not None:
            lines = [o.statement or o.line for o in openings]
            lines.append(line_of(CALLS, source))
            if self.is_late(before, (module_name(path), min(lines))):
                return False
        names = {posixpath.basename(opening.name) for opening in openings}
        stems = {stem_of(name) for name in names}
        objects = (member for member in self._world.members if posixpath.basename(member) in names)
        requests = flatten(self._world.load(member).requests for member in objects)
        finds = (request.name for request in requests if request.result)
        is_open = followed.opened_unknown or (is_for_all and followed.may_set_global)
        return is_open or stem_of(library) in stems or library in finds

    @cached_property
    def _opening(self) -> Sequence[tuple[str, str, bytes]]:
        """The sources that may open libraries, with the folder, and the path in it."""
        return [
            (folder, path, source)
            for folder in self._sources.folders
            for path, source in self._sources.that(may_open, OPENS, folder)
        ]

    def _read_sure_imports(self, name: str, line: int | None = None) -> Collection[str]:
        def imports_of(module: str) -> Sequence[Imported] | None:
            is_all = module == name and line is not None
            return self._imports(module, _MODULES) if is_all else self._imports_of(module)

        parents = accumulate(name.split("."), "{}.{}".format)
        is_known = any(imports_of(parent) is not None for parent in parents)
        own = sure_imports([name], lambda other: imports_of(other) or (), line) if is_known else ()
        imports = dict.fromkeys((*self.at_start, *own))
        self._world.budget.spend(_STEPS_AN_IMPORT * len(imports), "the imports", name)
        return imports

    @cached_property
    def at_start(self) -> Collection[str]:
        """What is imported, and opened by its path, before any other import."""
        return sure_imports(["site"], lambda module: self._imports_of(module) or ()) - {"site"}

    @cached_property
    def tops(self) -> Sequence[str]:
        """The top-level modules with a source, and folders."""
        places = (Path(folder).glob("*") for folder in self._sources.site_folders)
        names = sorted({place.name.removesuffix(".py") for place in chain.from_iterable(places)})
        return [*filter(str.isidentifier, names)]

    def _read_before(self, module: str) -> Sequence[str]:
        before = self._turns(module.partition(".")[0]).before(module)
        return [*dict.fromkeys((*self.at_start, *before))]

    def _with_own(self, in_turn: Callable[..., Collection[str]], name: str) -> Collection[str]:
        imports = dict.fromkeys((*self.at_start, *in_turn([name], self._of_package(name))))
        self._world.budget.spend(_STEPS_AN_IMPORT * len(imports), "the imports", name)
        return imports

    def _of_package(self, name: str) -> Callable[[str], Sequence[Imported]]:
        """Return what reads the imports of modules: of all sources in the package of one."""
        top = name.partition(".")[0]

        def imports_of(module: str) -> Sequence[Imported]:
            is_own = module.partition(".")[0] == top
            return (self._imports(module, _MODULES) if is_own else self._imports_of(module)) or ()

        return imports_of

    def missing(self, tops: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield the modules that packages surely import of their own and that are not there.

        Each with the place where it would be, without a suffix.
        """
        for top, folder in product(tops, self._sources.site_folders):
            needed = (name.rpartition(".") for name in self.needed(top))
            for parent, names in values_by_key(
                (parent, last) for parent, _, last in needed
            ).items():
                place = parent.replace(".", "/")
                is_own = parent.partition(".")[0] == top
                source = is_own and sources_in(folder).read(f"{place}/__init__.py")
                bound = bound_names(source, parent) if source else None
                if bound is not None:
                    files = os.listdir(folder + place)  # noqa: PTH208 - `folder` is text
                    there = bound.union(file.partition(".")[0] for file in files)
                    for name in names:
                        if name not in there:
                            yield f"{folder}{place}/{name}", f"{parent}.{name}"

    def _imports_of(self, module: str) -> Sequence[Imported] | None:
        is_read = "." not in module or module in self._openers or module in self._importers
        imports = self._imports(module, _MODULES if is_read else _PACKAGES)
        self._world.budget.spend(len(imports or ()), "the imports", module)
        return imports

    def _read_imports(self, module: str, endings: Sequence[str]) -> Sequence[Imported] | None:
        """Return what the source of a module surely imports; None without a source."""
        if module == "site":
            return self._start
        places = (*product(endings, self._sources.folders), *product(_MODULES, self._standard))
        for ending, folder in places:
            path = f"{folder}{module.replace('.', '/')}{ending}"
            with suppress(OSError):
                imports = self._sources.imports(module, path, is_package=ending in _PACKAGES)
                if module not in self._openers:
                    return imports
                opened = self._opened(module, *self._openers[module])
                both = (*imports, *(Imported(opening.path, opening.line) for opening in opened))
                return sorted(both, key=lambda imported: imported.line)
        return None

    def _read_opened(self, module: str, folder: str, path: str) -> Sequence[Opening]:
        """Return the objects that the import of a source surely opens by their paths."""
        world, is_path_file = self._world, module in self._path_files
        files, broken = world.environment.files, world.environment.broken
        truncated = SearchOutcome.TRUNCATED  # it crashes: no handler helps
        places = (
            (
                name
                if is_bare
                else self._member_at(posixpath.join(folder, posixpath.dirname(path), name)),
                line,
                sure,
                for_all,
            )
            for line, name, sure, is_bare, for_all in self._sources.opened(folder, path)[0]
        )
        return [
            Opening(place, module, folder + path, line, sure and not is_path_file, for_all)
            for place, line, sure, for_all in places
            if (place in world.members and (place in files or broken.get(place) is truncated))
            or (sure and not self._is_there(place))
        ]

    def _member_at(self, path: str) -> str:
        """Return the canonical path of a file, but of a link of the environment its own path."""
        folder, _, name = path.rpartition("/")
        linked = f"{os.path.realpath(folder)}/{name}"
        return linked if linked in self._world.members else os.path.realpath(path)

    def _is_there(self, name: str) -> bool:
        """Return whether there is a file at a path, or one that dlopen loads by a bare name.

        The loader skips what is for another machine, and stops at what is no object.
        """
        environment = self._world.environment
        if "/" in name or self._world.described:
            return bool(self._world.described) or is_there(name)
        prefix = posixpath.dirname(posixpath.dirname(environment.main or ""))
        folders = (*library_path_directories(environment), *environment.default_directories)
        paths = (f"{folder}/{name}" for folder in (*folders, f"{prefix}/lib"))
        files = map(read_file, filter(is_file, paths))
        found = next((elf for elf in files if not elf or elf.abi == self._world.abi), None)
        return found is not None or name in environment.cache

    def _read_tables(self, path: str) -> SymbolTables:
        """Read the symbols of an object. Raises `OSError` and `BadElfError`."""
        facts = self._facts(path)
        with map_regular(path) as data:
            if b"symbols" not in facts:
                facts[b"symbols"] = tuple(read_symbol_places(data, path))
            places = SymbolPlaces(*cast("tuple[Any, ...]", facts[b"symbols"]))
            return symbol_tables_at(places, data, path, Budget.of_file(path, len(data)))


def _top_of(path: str) -> str:
    return name_in_site(path).partition("/")[0].removesuffix(".py")


class _KeptDefinitions:
    """The `Definitions` of an object in an environment: what is known, or else read again."""

    def __init__(self, contents: InstalledContents, path: str) -> None:
        self._contents = contents
        self._path = path

    @property
    def copies(self) -> tuple[Undefined, ...]:
        """As in `Exports`."""
        return self._contents.symbols(self._path).copies

    def definitions(self, names: Names | None = None) -> dict[str, SymbolDefinitions]:
        """Return the definitions of `names`, by default all."""
        if names is None:
            return self._contents.tables(self._path).definitions()
        about = frozenset(names)
        return self._contents.answer(
            self._path, b"definitions", _digest(about), lambda of: of.definitions(about)
        )

    @property
    def idle(self) -> tuple[str, ...]:
        """As in `SymbolTables`."""
        return self._contents.symbols(self._path).idle

    def preemptible(self) -> Iterator[str]:
        """Yield what `SymbolTables.preemptible` does."""
        return self._contents.tables(self._path).preemptible()


@lru_cache(_QUESTIONS)
def _digest(names: frozenset[str]) -> bytes:
    return hashlib.sha256(repr(sorted(names)).encode()).digest()
