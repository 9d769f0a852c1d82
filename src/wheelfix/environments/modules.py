"""Modules of an installed environment: whose they are, which load, and what an order changes."""

import posixpath
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field, replace
from functools import cache, cached_property
from itertools import accumulate, takewhile
from operator import itemgetter
from pathlib import Path

from wheelfix.analysis.explain_remedies import taken_from_machine
from wheelfix.analysis.load_failures import (
    HIDDEN,
    OF_OTHER_PYTHON,
    Failure,
    Lack,
    LoadJudge,
    fits_python,
    gets_otherwise,
    hidden_at,
)
from wheelfix.analysis.world import World
from wheelfix.elf.exports import among
from wheelfix.elf.model import Libc
from wheelfix.elf.object_file_names import is_library_name, is_name_to_link
from wheelfix.environments.read_values import Opening, Promotion
from wheelfix.environments.symbols import InstalledSymbols
from wheelfix.frozen import frozen
from wheelfix.grouping import flatten, values_by_key
from wheelfix.host.installed_files import Owner, runs_unread_code
from wheelfix.host.neighbors import InstalledDistributions, Unmet
from wheelfix.loader.install_schemes import name_in_site
from wheelfix.loader.load_values import Load, Request, SearchOutcome
from wheelfix.loader.python_api import MODULE_SUFFIX
from wheelfix.loader.symbol_versions import refused_versions
from wheelfix.named_tuple import NamedTuple
from wheelfix.providers.model import Provided
from wheelfix.python_sources.imported_modules import module_name
from wheelfix.python_sources.open_flags import line_for_all


class Meeting(NamedTuple):
    """Two modules of which the second does not load after the first, but does alone."""

    first: str
    second: str
    lack: Lack
    other: str
    """The file that `first` loads for the SONAME."""
    usual: str
    """The file that `second` gets alone for the same name."""
    reverse: Lack | None
    """What `first` lacks after `second`; None if that works."""
    importer: str = ""
    """A top-level module that imports one after the other; empty if none is seen to."""


class Clash(NamedTuple):
    """Objects whose unique data of the same names have other sizes, or begin with other values."""

    first: str
    second: str
    modules: tuple[str, str]
    """Modules that load them."""
    sizes: Mapping[str, tuple[int, int]]
    """Symbol -> its bytes in `first`, and in `second`."""


_Loads = Mapping[str, Load]
_STEPS_A_COPY = 25
"""To compare what an object finds in another copy of a library."""


@frozen
class InstalledModules:
    """What imports open in an installed environment, and all that it loads.

    These are its extension modules, and libraries that Python sources open by their paths.
    """

    symbols: InstalledSymbols
    owners: Mapping[str, tuple[Owner, ...]]
    """The distributions whose RECORDs list an object or another file, by its path."""
    top_levels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Top-level name -> distribution, for those without RECORD."""
    interpreter: Mapping[str, str] = field(default_factory=dict[str, str])
    """Path -> name, for the interpreter's own modules whose libraries the environment has, too."""
    suffix: str = ""
    """That of the interpreter's extension modules (`EXT_SUFFIX`); empty if it is not known."""
    order: tuple[str, ...] = ()
    """The modules that are imported, by path, in turn; none if any may be, in any order."""
    unknown: tuple[Provided, ...] = ()
    """What is required, and is not there, as it has no wheel: it might have what is not found."""
    any_order: "InstalledModules | None" = field(default=None, compare=False, repr=False)
    """The same without `order`; None if it has none."""

    named: tuple[str, ...] = ()
    """The names in whose imports `order` consists."""

    def in_order(self, order: Iterable[str], named: Sequence[str] = ()) -> "InstalledModules":
        """Return the modules at the paths `order`, which importing `named` opens in turn."""
        any_order = self.any_order or self
        return replace(self, order=tuple(order), any_order=any_order, named=tuple(named))

    @property
    def world(self) -> World:
        """All that is installed there."""
        return self.symbols.world

    def distribution(self, path: str) -> str:
        """Return the distribution of a file; empty for one that is not of the environment.

        Without RECORD, as in packages of Debian and of RPM, it is the one with metadata for its
        top-level name; without these, what stands for one is the package, or else the file.
        """
        if path in self.interpreter:
            return "Python"
        opening = self.opened.get(path)
        owners = self.owners.get(path) or (opening and self.owners.get(opening.source))
        return owners[0].distribution if owners else self._unrecorded.get(path, "")

    def not_installed(self, path: str) -> Sequence[str]:
        """Return what the distribution of a file requires, and is not installed."""
        return self._installed.not_installed(path)

    def requirement(self, path: str, name: str) -> str:
        """Return what the distribution of a file requires of `name`."""
        return self._installed.requirement(path, name)

    def lost(self, paths: Iterable[str], own: str) -> str:
        """Return the distribution, `own` if it can be, whose RECORD lists a path that is gone."""
        return self._installed.lost(paths, own)

    def to_install(self, distribution: str) -> str:
        """Return what pip installs of a distribution; empty if that is not known."""
        return self._installed.to_install(distribution)

    def overwriting(self, path: str, own: str) -> str:
        """Return the distribution that wrote its file over that of `own`; empty for none."""
        return self._installed.overwriting(path, own)

    @property
    def not_met(self) -> Iterator[Unmet]:
        """Yield what distributions require, and what is installed does not meet."""
        return self._installed.not_met

    @cached_property
    def _installed(self) -> InstalledDistributions:
        return InstalledDistributions(Path(self.world.where), self.world.schemes[0].python)

    @cached_property
    def distributions(self) -> frozenset[str]:
        """All distributions: those with RECORD or other metadata, and those of modules without."""
        recorded = {owner.distribution for owner in flatten(self.owners.values())}
        others = map(self.distribution, self.modules.keys() - self.interpreter.keys())
        return frozenset({*recorded, *self.top_levels.values(), *others})

    @property
    def is_environment(self) -> bool:
        """Whether anything there has the metadata of a distribution."""
        return bool(self.top_levels or self._installed.requires_dist)

    @cached_property
    def _unrecorded(self) -> Mapping[str, str]:
        """The distributions of the objects that no RECORD lists."""
        members = self.world.members.items()
        return {path: self._owner_of(name) for path, name in members if path not in self.owners}

    def _owner_of(self, name: str) -> str:
        """Return whose an object without RECORD is, by its name in site-packages."""
        top = name.partition("/")[0].partition(".")[0]
        packages = filter(self._has_source, _packages(module_name(name)))
        return self.top_levels.get(top) or next(packages, name)

    def in_site(self, path: str) -> str:
        """Return the path of an installed file as in site-packages."""
        return name_in_site(path.removeprefix(f"{self.world.where}/"))

    def content(self, path: str) -> str:
        """Return what files of the same content have in common: the hash in RECORD, or the path."""
        return next((owner.hash for owner in self.owners.get(path, ()) if owner.hash), path)

    @cached_property
    def modules(self) -> Mapping[str, str]:
        """Path -> dotted name of the module that opens it, for all, or for those of `order`."""
        if self.any_order is not None:
            return {path: self.any_order.modules[path] for path in self.order}
        files, members = self.world.environment.files, self.world.members.items()
        named = {
            path: module_name(member)
            for path, member in members
            if (
                files[path].is_module or MODULE_SUFFIX.search(path) is not None
                if path in files and files[path].is_library
                else self._is_importable(path)
            )
        }
        fitting = {name for path, name in named.items() if self.fits(path)}
        extensions = {
            path: name for path, name in named.items() if self.fits(path) or name not in fitting
        }
        opened = {path: opening.module for path, opening in self.opened.items()}
        others = {**self._missing, **self.interpreter}
        return dict(sorted((extensions | opened | others).items()))

    @cached_property
    def _missing(self) -> Mapping[str, str]:
        """The modules that packages without RECORD import of their own, and that are not there."""
        recorded = {self.in_site(path).partition("/")[0].partition(".")[0] for path in self.owners}
        contents = self.symbols.contents
        return dict(contents.missing(top for top in contents.tops if top not in recorded))

    def _is_importable(self, path: str) -> bool:
        """Return whether a file that is gone, or no process can open, has the name of a module.

        What one is that was not read, such as for its size, is not known.
        """
        environment, name = self.world.environment, path.rpartition("/")[2]
        is_there, is_source = self.symbols.contents.size(path) is not None, name.endswith(".py")
        is_read = path in environment.files or (path in environment.broken and not is_source)
        if is_there and not is_read:
            return False
        is_module = is_source or MODULE_SUFFIX.search(name) is not None
        return is_module or (is_library_name(name) and not is_name_to_link(name))

    def fits(self, path: str) -> bool:
        """Return whether the name of a module is not one for another Python."""
        suffix = MODULE_SUFFIX.search(path)
        if suffix is None or suffix["abi3"] or suffix[0] == self.suffix:
            return True
        return not self.suffix and fits_python(path, [self.world.schemes[0].python])

    def _not_looked_for(self, path: str) -> str:
        """Return why Python does not look for a module; empty if it does."""
        why = hidden_at(path, self.modules[path], self.world.schemes[0].python)
        return why * (path not in self.opened) if self.fits(path) else OF_OTHER_PYTHON

    @cached_property
    def opened(self) -> Mapping[str, Opening]:
        """The libraries that Python sources open when they are imported, by path: the first one."""
        files = self.world.environment.files
        openings = {each.path: each for each in reversed(self.symbols.contents.openings)}
        return {
            path: opening
            for path, opening in openings.items()
            if path not in files or not files[path].is_module
        }

    def also_opening(self, path: str) -> Sequence[str]:
        """Return the other sources whose import fails if what is at `path` cannot be opened."""
        openings = (each for each in self.symbols.contents.openings if each.path == path)
        return sorted({o.module for o in openings if o.sure} - {self.modules[path]})

    @cached_property
    def unopened(self) -> Sequence[str]:
        """The objects that no import is seen to load: code may open them by names not known."""
        files, members = self.world.environment.files, self.world.members
        loaded = self.loaded.keys() | self.modules.keys()
        return [
            path
            for path in members
            if path in self.symbols.libraries and path not in loaded
            if not files[path].is_executable
        ]

    def usual(self, path: str) -> Load:
        """Return the load of the module at `path` by itself, or else after `before`."""
        load = self.world.load(path)
        is_there = path in self.world.environment.files
        return self.before(path)[1] if load.missing and is_there else load

    def load_after(self, others: Iterable[str], path: str) -> Load:
        """Return the load of the module at `path` once those at `others` are opened."""
        return self.world.process(path, (*others, *self.before(path)[0]))[-1]

    def before(self, path: str) -> tuple[Sequence[str], Load]:
        """Return what is opened before the module at `path` in any order, and its load then.

        That is what its package surely imports, and where a library is still missing then, one of
        another import, if there is one that fits.
        """
        if self.any_order is not None:
            return self.any_order.before(path)
        world = self.world
        if path not in self._before:
            before, load = self._after_sure(path)
            # What a distribution has lost is not to be taken of another one.
            own = self.distribution(path)
            names = ((request.name, request.requester or path) for request in load.missing)
            left = (name for name in names if not own or self.lost(world.places(*name), own) != own)
            lenders = (world.lenders(*name) for name in left)
            if others := [self._best(places, path) for places in lenders if places]:
                before = (*before, *others)
                load = world.process(path, before)[-1]
            self._before[path] = before, load
        return self._before[path]

    def _after_sure(self, path: str) -> tuple[Sequence[str], Load]:
        """Return what the package of the module at `path` surely opens before, and its load."""
        if path not in self._sure:
            before = self.at(self.names_before(path)) if path in self.modules else ()
            load = self.world.process(path, before)[-1] if before else self.world.load(path)
            self._sure[path] = before, load
        return self._sure[path]

    def _best(self, places: Sequence[str], module: str) -> str:
        """Return the copy of a library with which a module lacks fewest symbols, its own first."""

        def lacking(place: str) -> tuple[int, bool, str]:
            lacks = self._judge.symbol_lacks(self.world.process(module, (place,))[-1])
            is_other = self.distribution(place) != self.distribution(module)
            return sum(len(lack.symbols) for lack in lacks), is_other, place

        return min(places, key=lacking) if len(places) > 1 else places[0]

    @cached_property
    def _sure(self) -> dict[str, tuple[Sequence[str], Load]]:
        """Module -> `_after_sure`. Mutable."""
        return {}

    @cached_property
    def _before(self) -> dict[str, tuple[Sequence[str], Load]]:
        """Module -> `before`. Mutable."""
        return {}

    @cached_property
    def imports(self) -> Mapping[str, Sequence[str]]:
        """Top-level name -> what modules below it open, by path."""
        return values_by_key(
            (module.partition(".")[0], path) for path, module in self.modules.items()
        )

    @cached_property
    def loaded(self) -> Mapping[str, str]:
        """The objects that modules load, each with the first module that does."""
        importers: dict[str, str] = {}
        incomplete = {path for path, lack in self.failures if lack.failure is Failure.FILE}
        for module in self.modules:
            load = self.usual(module)
            for path in () if load.missing or module in incomplete else load.objects:
                importers.setdefault(path, module)
        return importers

    @cached_property
    def _loaded_alone(self) -> frozenset[str]:
        """The objects that modules load which find all libraries by themselves."""
        loads = map(self.world.load, self.modules)
        return frozenset(flatten(load.objects for load in loads if not load.missing))

    def imported_after(self, distribution: str) -> Iterator[str]:
        """Yield the modules that can be imported after one of a distribution: all without order."""
        is_after = not self.order
        for path in self.modules:
            if is_after:
                yield path
            is_after |= self.distribution(path) == distribution

    def is_surely_imported(self, path: str) -> bool:
        """Return whether the import of its package fails if that at `path` does.

        That is the outermost one with a source: folders of a namespace package have none.
        """
        module = self.modules[path]
        if path in self.opened:
            return self.opened[path].sure
        if module in self.named or ("." not in module and module[:1] != "_"):
            return True
        importers = self.symbols.contents.that_import(module)
        package = self._package_of(module)
        if package is None:
            return any(map(self._is_run, importers))
        # To follow all imports of a package takes long.
        is_imported = path.endswith("/__init__.py") or any(importers)
        return is_imported and module in self.symbols.contents.needed(package)

    def _is_run(self, source: str) -> bool:
        """Return whether a source is imported by itself, or surely with the package it is in."""
        package = self._package_of(source)
        return package in {None, source} or source in self.symbols.contents.needed(package or "")

    def _package_of(self, module: str) -> str | None:
        """Return the outermost package with a source that a module is in."""
        return next(filter(self._has_source, _packages(module)), None)

    def fails_surely(self, path: str, lack: Lack) -> bool:
        """Return whether the import of the module at `path` fails, and no source expects that.

        A library that is not found may be of another machine, unless the environment has another
        version of it, and a module outside of folders with `__init__.py` of another Python. A file
        that is damaged itself stays so: it fails for each source that imports it.
        """
        module = self.modules[path]
        is_own = lack.library == path or lack.failure is Failure.INIT
        broken = self.world.environment.broken
        crashes = broken.get(path) is SearchOutcome.TRUNCATED and self._is_imported(path)
        others = self.symbols.contents.others_that_import(module)
        if self.is_surely_imported(path) or crashes or any(map(self._is_run, others)):
            return True
        if is_own and self._is_asked_for(module):
            return not self.symbols.contents.is_tried(module)
        is_there = lack.failure is not Failure.FILE or self.world.other_versions(lack.library)
        is_lasting = is_there and not lack.definers
        is_open = path in self.opened or not is_lasting or not self.is_of_python(path)
        is_open |= lack.failure is Failure.INIT  # a debugger may inject it
        return not is_open and not self.symbols.contents.is_tried(module)

    def _is_imported(self, path: str) -> bool:
        """Return whether a source imports or opens what is at `path`, or tries to."""
        module = self.modules[path]
        return path in self.opened or self.is_surely_imported(path) or self._is_named(module)

    def _is_named(self, module: str) -> bool:
        """Return whether a user, or a source, imports a module by its name, or tries to."""
        contents = self.symbols.contents
        is_imported = module in self.named or any(contents.that_import(module))
        return is_imported or contents.is_tried(module)

    def _is_asked_for(self, module: str) -> bool:
        """Return whether a source, or an object that has its name as a text, imports a module."""
        text, contents = frozenset({f"\0{module}\0"}), self.symbols.contents
        return any(contents.that_import(module)) or any(
            contents.mentions(path, text) for path in self.modules
        )

    def is_of_package(self, path: str) -> bool:
        """Return whether that at `path` is top-level, in a folder with `__init__.py`, or opened."""
        packages = tuple(_packages(self.modules[path]))
        return not packages or path in self.opened or any(map(self._has_source, packages))

    def is_of_python(self, path: str) -> bool:
        """Return whether that at `path` is one `of_package`, or has the suffix of its Python.

        Python's own ones are there for frozen programs, as panda3d's deploy_libs.
        """
        name = self.modules[path].rpartition(".")[2]
        is_named = MODULE_SUFFIX.search(path) is not None and name not in sys.stdlib_module_names
        return is_named or self.is_of_package(path)

    def _has_source(self, package: str) -> bool:
        return self.symbols.contents.has_source(package.replace(".", "/"))

    def names_before(self, path: str) -> Sequence[str]:
        """Return what the import of the module at `path` surely begins before it."""
        contents, name = self.symbols.contents, self.modules[path]
        if path not in self.opened:
            return contents.before(name)
        return tuple(takewhile(path.__ne__, contents.begun(name)))

    def _name(self, path: str) -> str:
        """Return how `sure_imports` calls what is at `path`."""
        return path if path in self.opened else self.modules[path]

    def imported_until(self, source: str) -> Sequence[str]:
        """Return the modules that are surely imported before a line of a source (`a/b.py:7`)."""
        path, _, line = source.rpartition(":")
        return self.at(self.symbols.contents.sure_imports(module_name(path), int(line)))

    def at(self, names: Iterable[str]) -> Sequence[str]:
        """Return what is opened for some of `sure_imports`; nothing where the order is known."""
        return () if self.order else list(flatten(self._paths.get(name, ()) for name in names))

    @cached_property
    def _paths(self) -> Mapping[str, Sequence[str]]:
        return values_by_key((self._name(path), path) for path in self.modules)

    def changed_files(self) -> Iterator[tuple[str, str]]:
        """Yield the objects that are not as large as their only distribution says, with it."""
        for path in self.world.members:
            owners = self.owners.get(path, ())
            if len(owners) == 1 and owners[0].size is not None:
                size = self.symbols.contents.size(path)
                if size not in {None, owners[0].size}:
                    yield owners[0].distribution, path

    # --- What does not load ---

    @cached_property
    def failures(self) -> Sequence[tuple[str, Lack]]:
        """Each module that loads in no order of imports, and what it lacks.

        A library that it does not find may be loaded by another import; a symbol may be defined by
        a file that another import opens for all. Where one of the environment that may be loaded
        has the SONAME, or one that may be opened so defines the symbol, it is left out.
        """
        if self.any_order is not None:
            failing = {path: lack for path, lack in self._missing_in_turn() if lack.is_known}
            known = {path: lack for path, lack in self.any_order.failures if path in self.modules}
            return tuple((failing | known).items())
        return tuple((path, lack) for path, lack, may_work in self.judged if not may_work)

    def _missing_in_turn(self) -> Iterator[tuple[str, Lack]]:
        """Yield the modules of `order` for which nothing before loads a library, or may load it."""
        for path, load in self.in_turn[2].items():
            named = (name.partition(".")[0] for name in self.named)
            yield from self._lent(load, takewhile(self._top(path).__ne__, named))

    def lent(self) -> Iterator[tuple[str, Lack]]:
        """Yield modules that fail unless another import, or code, has loaded a library before.

        It is known that they do where no source there is seen to combine the two.
        """
        for path, lack, may_work in (self.any_order or self).judged:
            load = self.world.load(path)
            if may_work and path in self.modules and not self._is_served(lack.definers, load):
                yield path, lack._replace(is_known=False)
        modules, contents = self.any_order or self, self.symbols.contents
        failing = dict(self.failures)
        for path in self.modules:
            if path not in failing and self.world.load(path).missing:
                first = (name.partition(".")[0] for name in self.named)
                named = [*takewhile(self._top(path).__ne__, first)] if self.order else ()
                begun = {name.partition(".")[0] for top in named for name in contents.begun(top)}
                earlier = takewhile(path.__ne__, self.order)
                before = modules.at(modules.names_before(path))
                opened = (*(p for p in earlier if self._top(p) in begun), *before)
                load = self.world.process(path, opened)[-1]
                others = named if self.order else contents.importing(self._top(path))
                yield from self._lent(load, others) if load.missing else ()

    def _lent(self, load: Load, others: Iterable[str]) -> Iterator[tuple[str, Lack]]:
        """Yield the first library that other files are; known if `others` may not load it."""
        module, contents = (self.any_order or self).modules[load.root], self.symbols.contents
        names = (name.partition(".")[0] for name in self.names_before(load.root))
        lenders = {*flatten(self._lenders(request.name) for request in load.missing)}
        early = contents.imported_early(module, lenders)
        before = {*others, *names, *early} - {self._top(load.root)}
        tops = contents.reached(frozenset(before), self._top(load.root))
        for lack in self._judge.file_lacks(load):
            if self.world.lenders(lack.library, lack.requester):
                yield load.root, lack._replace(is_known=not self._may_be_lent(lack, load, tops))
                break

    def _lenders(self, library: str) -> Iterator[str]:
        """Yield the top-level names of what has a library, and of what may import that."""
        for path in self.world.carriers.get(library, ()):
            top = self.world.label(path).partition("/")[0]
            yield from (top, *self.symbols.contents.importing(top))

    def _may_be_lent(self, lack: Lack, load: Load, tops: AbstractSet[str]) -> bool:
        """Return whether packages `tops`, or that of the module, may load a library for it."""
        modules, contents, root = self.any_order or self, self.symbols.contents, load.root
        module, own = modules.modules[root], self._top(root)
        carriers = {*self.world.lenders(lack.library, lack.requester)} - {lack.result}
        named = (p for p in modules.imports[own] if contents.is_named(modules.modules[p]))
        opened = [path for path in named if self._is_early(path, module)]
        opened += flatten(modules.imports.get(top, ()) for top in tops)
        loaded = frozenset(flatten(self.world.load(path).objects for path in opened))
        places = {path: self.world.label(path) for path in (*carriers, root)}
        return (
            not carriers.isdisjoint(loaded)
            or contents.may_open(lack.library, {*tops, own}, loaded, before=module)
            or contents.imports_any_early(module, {*self._lenders(lack.library)})
            or any(
                runs_unread_code(*place)
                for place in places.items()
                if place[1].partition("/")[0] in {*tops, own}
            )
        )

    def _is_early(self, path: str, module: str) -> bool:
        """Return whether what is at `path` may be opened before a module is begun."""
        opening = self.opened.get(path)
        name = opening.module if opening else (self.any_order or self).modules[path]
        place = name, opening.line if opening else 0
        return name != module and not self.symbols.contents.is_late(module, place)

    def _top(self, path: str) -> str:
        return self.modules[path].partition(".")[0]

    @cached_property
    def judged(self) -> Sequence[tuple[str, Lack, bool]]:
        """What modules lack, and whether code that is not surely run may open it for all before."""
        return tuple(self._judge_all())

    def _judge_all(self) -> Iterator[tuple[str, Lack, bool]]:
        for path in self.modules:
            if path in self.interpreter:
                continue
            if there := self._not_looked_for(path):
                if "." in self.modules[path] or there == HIDDEN:
                    yield path, Lack(Failure.FILE, path, path, there=there), False
                continue
            file, load = self.world.environment.files.get(path), self.usual(path)
            sure = self._after_sure(path)[1] if file and self.world.load(path).missing else load
            lacks = (*self._judge.file_lacks(sure), *self._judge.lacks(load))
            has_init = file is not None and file.is_module
            if path not in self.opened and (has_init or self._is_named(self.modules[path])):
                lacks += tuple(self._judge.init_lack(load))
            left = (lack for lack in lacks if self._is_left(lack, load))
            found = (
                (lack, bool(lack.definers) and self._may_serve(lack.definers, load))
                for lack in left
            )
            for lack, may_work in sorted(found, key=itemgetter(1))[:1]:
                opening = self.opened.get(path) if lack.library == path else None
                requester = opening.source if opening else lack.requester
                yield path, lack._replace(requester=requester, is_known=True), may_work

    def of_machine(self) -> Iterator[tuple[str, Lack]]:
        """Yield the modules that load a library of the machine in place of a requirement's."""
        for load in map(self.usual, self.modules):
            lacks = taken_from_machine(self.world, self, load)
            yield from ((load.root, lack) for lack in lacks if self._is_left(lack, load))

    def _is_left(self, lack: Lack, load: Load) -> bool:
        """Return whether no other import, and no code, can give an object what it lacks.

        What is found depends on a library that another import may load; too much static TLS is
        what the rules about orders tell.
        """
        if lack.failure is Failure.FILE:
            is_path = lack.library == load.root and "/" in load.root
            return is_path or not self._may_be_loaded(lack, load)
        is_told = lack.failure is Failure.STATIC_TLS or not lack.is_known or load.missing
        if is_told or lack.definers or lack.failure is not Failure.SYMBOL:
            return not is_told and not (lack.definers and self._is_served(lack.definers, load))
        return not any(self.symbols.contents.opened_outside(self.modules[load.root]).values())

    @property
    def _judge(self) -> LoadJudge:
        return self.symbols.judge

    def _may_be_loaded(self, lack: Lack, usual: Load) -> bool:
        """Return whether something loads a library, or code may open it before a module.

        A copy with which the module fails, too, is not one for it.
        """
        module, lenders = usual.root, self.world.lenders(lack.library, lack.requester)
        carriers = {*lenders} - {lack.result}
        if usual.missing:
            carriers = {path for path in carriers if self._may_load_with(path, module)}
        places = {path: self.world.label(path) for path in (*carriers, module)}
        tops = {name.partition("/")[0] for name in places.values()}
        imported = self.symbols.contents.sure_imports(self.modules[module])
        tops |= {name.partition(".")[0] for name in imported}
        if "." not in self.modules[module]:  # its package is who imports it, as flash_attn
            tops |= self.symbols.contents.importing(self.modules[module])
        if not carriers:
            return lack.library in self.symbols.contents.opened_outside(self.modules[module])
        return (
            not carriers.isdisjoint(self._loaded_alone)
            or self.symbols.contents.may_open(lack.library, tops, self._loaded_alone)
            or any(runs_unread_code(*p) for p in places.items() if p[1].partition("/")[0] in tops)
        )

    def _may_load_with(self, carrier: str, module: str) -> bool:
        """Return whether it is not known that a module fails with a library from another place."""
        load = self.world.process(module, (carrier,))[-1]
        lacks = () if load.missing else self._judge.lacks(load)
        kinds = {Failure.VERSION, Failure.SYMBOL, Failure.UNVERSIONED}
        return not any(one.is_known and not one.definers and one.failure in kinds for one in lacks)

    def opened_for_all(self, path: str) -> Iterator[str]:
        """Yield the objects that are surely opened for all others before the module at `path`."""
        earlier = takewhile(path.__ne__, self.order)
        before = {*self.names_before(path), *map(self._name, earlier)}
        for promotion in self.symbols.contents.promotions:
            if promotion.path in self.modules and self._name(promotion.path) in before:
                yield from self.world.load(promotion.path).objects

    def _is_served(self, paths: Sequence[str], load: Load) -> bool:
        """Return whether one of `paths` is surely opened for all before, or displaced (WF959)."""
        has_displaced = not self.world.of_variables.isdisjoint(load.objects)
        is_displaced = has_displaced and self.are_asked_for(paths, load)
        return is_displaced or not {*self.opened_for_all(load.root)}.isdisjoint(paths)

    def _may_serve(self, paths: Sequence[str], load: Load) -> bool:
        """Return whether code may open one of `paths` for all before `load`."""
        contents, names = self.symbols.contents, {*map(posixpath.basename, paths)}
        before = None if load.root in self.opened else self.modules[load.root]
        early = (p for p in contents.promotions if not (before and self._is_after(p, before)))
        opened = flatten(self.world.load(promotion.path).objects for promotion in early)
        tops = {self.world.label(path).partition("/")[0] for path in (*paths, load.root)}
        tops |= {name.partition(".")[0] for name in self.names_before(load.root)}
        tops.update(*map(contents.that_name, names))
        how = tops, self._loaded_alone, line_for_all, before
        is_open = self.are_asked_for(paths, load) or not {*opened}.isdisjoint(paths)
        return is_open or any(contents.may_open(name, *how) for name in names)

    def are_asked_for(self, paths: Sequence[str], load: Load) -> bool:
        """Return whether one of `paths` would serve in `load` if another import had loaded it."""
        names, files = {request.name for request in load.requests}, self.world.environment.files
        return any(files[path].soname in names for path in paths)

    def _is_after(self, promotion: Promotion, module: str) -> bool:
        path, _, line = promotion.source.rpartition(":")
        return self.symbols.contents.is_late(module, (module_name(path), int(line)))

    def undefined_anywhere(self) -> Iterator[tuple[str, Lack]]:
        """Yield the `unopened` objects with what they need and nothing there is or defines.

        Whatever opens such an object, and whatever is loaded before: it does not load. Where a
        library is not found, that may define what is lacking.
        """
        for path in self.unopened:
            load = self.usual(path)
            is_whole = not load.missing
            lacks = self._judge.undefined(path) if is_whole else self._judge.file_lacks(load)
            lent = self.world.lenders
            left = (each for each in lacks if is_whole or not lent(each.library, each.requester))
            lack = next((lack for lack in left if lack.is_known), None)
            if lack is not None:
                yield path, lack

    @cached_property
    def not_judged(self) -> Sequence[str]:
        """The `unopened` objects that are not judged: a library is not found for them."""
        return [path for path in self.unopened if self.usual(path).missing]

    # --- What an order of imports changes ---

    def can_be_first(self, first: str, second: str) -> bool:
        """Return whether it is known that what is at `first` can be opened before `second`.

        A package runs much before a source of it opens a library: what it tries to import, too.
        """
        top, other = (self.modules[path].partition(".")[0] for path in (first, second))
        is_of_source = first in self.opened and top != other
        return not is_of_source or not self.symbols.contents.may_import(top, other)

    def meetings(self) -> Iterator[Meeting]:
        """Yield pairs of modules of two distributions, where the order of imports decides.

        The loader searches for a SONAME once in a process: the first file serves all that need
        the name. Yielded is whoever needs a version or symbol that the other copy lacks, once for
        two distributions, and again if both orders fail; where the order is known, once for each
        module that fails in it.
        """
        if self.order:
            yield from self._meetings_in_turn()
            return

        @cache
        def lack_of(first: str, second: str) -> Lack | None:
            return self.lack_after((*self.before(first)[0], first), second)

        met: dict[tuple[str, str], bool] = {}
        """Pairs of distributions, and whether both orders were seen to fail."""
        for first, second, request, other in self._contests():
            owners = self.distribution(first), self.distribution(second)
            usual = request.result or ""
            if met.get(owners) or not any(
                self.lacking(request.requester or "", request.name, usual, other)
            ):
                continue
            lack = lack_of(first, second)
            reverse = lack and lack_of(second, first)
            importer = self._importer(first, second) if lack else ""
            if lack is not None and (reverse or importer or owners not in met):
                met[owners] = bool(reverse or importer)
                if reverse:
                    met[owners[1], owners[0]] = True
                yield Meeting(first, second, lack, other, usual, reverse, importer)

    def _importer(self, first: str, second: str) -> str:
        """Return a top-level module that surely imports `first`, and then `second`."""
        names, contents = (self._name(first), self._name(second)), self.symbols.contents
        for top in dict.fromkeys((self.modules[second].partition(".")[0], *contents.tops)):
            needed = contents.needed(top)
            before = self.at(takewhile(names[1].__ne__, needed))
            if first in before and second in self.at(needed) and self.lack_after(before, second):
                return top
        return ""

    def _contests(self) -> Iterator[tuple[str, str, Request, str]]:
        """Yield two modules, a request of the second, and the file that the first loads for it.

        Each request and file is yielded once, for what Python imports when it starts, then for
        modules of packages if there are such.
        """
        start = self.symbols.contents.at_start
        paths = sorted(
            self.modules,
            key=lambda file: (self._name(file) not in start, not self.is_of_package(file)),
        )
        importers: dict[str, dict[str, str]] = {}
        """File -> distributions with modules that load it, each with the first of them."""
        for path in paths:
            for result in self.usual(path).objects:
                if self.world.environment.files[result].soname in self.symbols.contested:
                    importers.setdefault(result, {}).setdefault(self.distribution(path), path)
        asked: set[tuple[str | None, str, str]] = set()
        for path in paths:
            load, own = self.usual(path), self.distribution(path)
            for request in () if load.missing else load.requests[1:]:
                copies = self.symbols.contested.get(request.name, ())
                steps = _STEPS_A_COPY * len(copies)
                self.world.budget.spend(steps, "the copies of libraries", request.name)
                for other in copies:
                    key = request.requester, request.name, other
                    if request.result not in {None, other} and key not in asked:
                        asked.add(key)
                        users = importers.get(other, {})
                        others = sorted(users.items(), key=lambda user: user[0] == own)
                        first = next((o for _, o in others if self.can_be_first(o, path)), None)
                        if first is not None:
                            yield first, path, request, other

    def _meetings_in_turn(self) -> Iterator[Meeting]:
        """Yield the modules that fail in `order`, with the one that has loaded the other file."""
        for path, (load, lack) in self.in_turn[1].items():
            for request, usual in self.otherwise(load) if self.is_order_known(load) else ():
                other, requester = request.result or "", request.requester or ""
                if not any(self.lacking(requester, request.name, usual, other)):
                    continue
                first = self.first_with.get(other, path)
                reverse = None if first == path else self.lack_after((path,), first)
                yield Meeting(first, path, lack, other, usual, reverse)
                break

    @cached_property
    def in_turn(self) -> tuple[_Loads, Mapping[str, tuple[Load, Lack]], _Loads]:
        """The loads of the modules in `order` in one process, and of those that fail in it.

        And those that do not find a library in it. A module that fails leaves nothing loaded.
        """
        loads: dict[str, Load] = {}
        lacks: dict[str, tuple[Load, Lack]] = {}
        missing: dict[str, Load] = {}
        process = self.world.start_process()
        for path in self.order:
            load = process.dlopen(path)
            if load.missing:
                missing[path] = load
                for other in self.before(path)[0]:
                    process.dlopen(other)
                load = process.dlopen(path)
            if load.missing:
                continue
            lack = self.lack_in(load)
            if lack is None:
                loads[path] = load
            else:
                lacks[path] = load, lack
                process.undo(load)
        return loads, lacks, missing

    @cached_property
    def first_with(self) -> Mapping[str, str]:
        """The objects that are loaded in `order`, each with the module that has loaded it."""
        first: dict[str, str] = {}
        for path, load in self.in_turn[0].items():
            for result in load.objects:
                first.setdefault(result, path)
        return first

    def is_order_known(self, load: Load) -> bool:
        """Return whether all that a load in `order` gets otherwise is known to come before it."""
        results = (request.result or "" for request, _ in self.otherwise(load))
        return all(
            self.can_be_first(self.first_with.get(result, load.root), load.root)
            for result in results
        )

    def otherwise(self, load: Load) -> Iterator[tuple[Request, str]]:
        """Yield the requests that get another file than in a load of the same module alone."""
        return gets_otherwise(load, self.usual(load.root))

    def lack_after(self, before: Sequence[str], path: str) -> Lack | None:
        """Return what the module at `path` lacks once the modules `before` are imported.

        None if it loads, or does not for another reason.
        """
        return self.lack_in(self.load_after(before, path))

    def lack_in(self, load: Load) -> Lack | None:
        """Return what `load` lacks, and a load of the same module alone does not.

        None if it loads, or if a library is not found.
        """
        if load.missing:
            return None
        for lack in self._judge.lacks_beside(load, self.usual(load.root)):
            if lack.versions or lack.is_known:
                return lack._replace(is_known=True)
        return None

    def lacking(self, requester: str, name: str, usual: str, other: str) -> Iterator[str]:
        """Yield the versions and symbols of one copy that an object uses and the other lacks."""
        files, libc = self.world.environment.files, self.world.environment.libc
        for need in files[requester].verneed:
            if need.file == name:
                is_lost = other in self.world.unversioned
                yield from need.versions if is_lost else refused_versions(need, files[other], libc)
        used = {symbol.name for symbol in self.symbols.references(requester)}
        mine, others = (self.symbols.libraries[path].exports.definitions for path in (usual, other))
        lacking = sorted(among(mine, used) - among(others, used))
        yield from self.symbols.looked_up(requester, lacking)

    # --- What all share ---

    def clashes(self) -> Iterator[Clash]:
        """Yield the objects that share data which they see differently.

        A process has one definition of each STB_GNU_UNIQUE name, that of the object which was
        bound first, also for objects that are loaded with RTLD_LOCAL (`do_lookup_unique` in
        elf/dl-lookup.c).
        """
        if self.world.environment.libc is Libc.MUSL:
            return
        importers, files = self.loaded, self.world.environment.files
        first_with: dict[str, dict[int, str]] = {}
        clashes: dict[tuple[str, str], dict[str, tuple[int, int]]] = {}
        for path in importers:
            if path not in self.world.members or not files[path].unique_symbols:
                continue
            for name, (_, size) in self.symbols.contents.unique_lookups(path).items():
                for other_size, other in first_with.setdefault(name, {}).items():
                    clashes.setdefault((other, path), {})[name] = other_size, size
                first_with[name].setdefault(size, path)
        clashes = {
            pair: shared
            for pair, shared in clashes.items()
            if len({*map(self.content, pair)}) > 1 or any(a != b for a, b in shared.values())
        }
        equal = values_by_key(
            (path, name)
            for pair, shared in clashes.items()
            for path in pair
            for name, (size, other) in shared.items()
            if size == other
        )
        contents = self.symbols.contents
        values = {path: contents.values(path, frozenset(names)) for path, names in equal.items()}
        for (first, second), shared in clashes.items():
            sizes = {
                name: (size, other)
                for name, (size, other) in shared.items()
                if size != other or values[first].get(name) != values[second].get(name)
            }
            if sizes:
                yield Clash(first, second, (importers[first], importers[second]), sizes)

    def two_runtimes(self, paths: Iterable[str]) -> bool:
        """Return whether different versions of libstdc++ are among files with other names.

        Both are loaded then, and `std::locale::id` is one variable for both.
        """
        files = self.world.environment.files
        by_file = {
            files[path].soname: frozenset(v for v in files[path].verdef if v.startswith("GLIBCXX_"))
            for path in paths
            if files[path].unique_symbols
        }
        versions = list(filter(None, by_file.values()))
        return len(set(versions)) > 1 and self.world.environment.libc is Libc.GLIBC


def _packages(module: str) -> Iterator[str]:
    """Yield the packages that a module is in, the outermost first."""
    return accumulate(module.split(".")[:-1], "{}.{}".format)
