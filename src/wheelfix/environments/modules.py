"""Modules of an installed environment: whose they are, which load, and what an order changes."""

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import takewhile
from typing import NamedTuple

from wheelfix.analysis.world import World
from wheelfix.elf.exports import among
from wheelfix.elf.model import Libc
from wheelfix.environments.symbols import InstalledSymbols, Opening
from wheelfix.grouping import values_by_key
from wheelfix.host.installed_files import Owner
from wheelfix.loader.executable_stack import REFUSING_GLIBC, requires_executable_stack
from wheelfix.loader.install_schemes import name_in_site
from wheelfix.loader.load_values import Load, Request
from wheelfix.loader.platform_libraries import symbols_of
from wheelfix.loader.symbol_versions import newer, refused_versions
from wheelfix.python_sources.global_imports import opens_for_all
from wheelfix.python_sources.imported_modules import module_name

EXECUTABLE_STACK = "executable stack"
"""What some objects need, as the loader's message spells it."""


class Lack(NamedTuple):
    """What an object needs of a loaded file, and what is not there."""

    requester: str
    """The path of the object."""
    library: str
    """The name in DT_NEEDED, or `EXECUTABLE_STACK`; empty for symbols that nothing loaded defines.
    """
    result: str | None
    """The file that was loaded for `library`; None if none was found."""
    versions: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    definers: tuple[str, ...] = ()
    """The files that define `symbols`, and are not loaded for the object."""

    @property
    def words(self) -> tuple[str, ...]:
        """The message of the loader contains one of these words."""
        return self.symbols or self.versions or (self.library,)


class Meeting(NamedTuple):
    """Two modules of which the second does not load after the first, but does alone."""

    first: str
    second: str
    lack: Lack
    other: str
    """The file that `first` loads for the SONAME."""
    usual: str
    """The file that `second` gets alone for the same name."""
    fails_in_both_orders: bool


class Clash(NamedTuple):
    """Objects of two distributions, whose unique data of the same names have other sizes."""

    first: str
    second: str
    modules: tuple[str, str]
    """Modules that load them."""
    sizes: Mapping[str, tuple[int, int]]
    """Symbol -> its bytes in `first`, and in `second`."""


@dataclass(frozen=True, kw_only=True)
class InstalledModules:
    """What imports open in an installed environment, and all that it loads.

    These are its extension modules, and libraries that Python sources open by their paths.
    """

    symbols: InstalledSymbols
    owners: Mapping[str, tuple[Owner, ...]]
    """The distributions whose RECORDs list an object or another file, by its path."""
    order: tuple[str, ...] = ()
    """The modules that are imported, by path, in turn; none if any may be, in any order."""

    @property
    def world(self) -> World:
        """All that is installed there."""
        return self.symbols.world

    def distribution(self, path: str) -> str:
        """Return the distribution of a file; empty for one of none."""
        return next((owner.distribution for owner in self.owners.get(path, ())), "")

    def in_site(self, path: str) -> str:
        """Return the path of an installed file as in site-packages."""
        return name_in_site(path.removeprefix(f"{self.world.where}/"))

    def are_different(self, one: str, other: str) -> bool:
        """Return whether two files have other content, and are not of one distribution."""
        mine, its = self.owners.get(one, ()), self.owners.get(other, ())
        if {owner.distribution for owner in mine} & {owner.distribution for owner in its}:
            return False
        return self.content(one) != self.content(other)

    def content(self, path: str) -> str:
        """Return what files of the same content have in common: the hash in RECORD, or the path."""
        return next((owner.hash for owner in self.owners.get(path, ()) if owner.hash), path)

    @cached_property
    def modules(self) -> Mapping[str, str]:
        """Path -> dotted name of the module that opens it, for all, or for those of `order`."""
        files, members, opened = self.world.environment.files, self.world.members, self.opened
        return {
            path: opened[path].module if path in opened else module_name(members[path])
            for path in self.order or sorted(members)
            if self.order or path in opened or (path in files and files[path].is_module)
        }

    @cached_property
    def opened(self) -> Mapping[str, Opening]:
        """The libraries that Python sources open when they are imported, by path."""
        files = self.world.environment.files
        found = {one.path: one for one in self.symbols.contents.openings()}
        return {path: one for path, one in found.items() if not files[path].is_module}

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
        for module in self.modules:
            load = self.world.load(module)
            for path in () if load.missing else load.objects:
                importers.setdefault(path, module)
        return importers

    def imported_after(self, distribution: str) -> Iterator[str]:
        """Yield the modules that can be imported after one of a distribution: all without order."""
        is_after = not self.order
        for path in self.modules:
            if is_after:
                yield path
            is_after |= self.distribution(path) == distribution

    def is_surely_imported(self, path: str) -> bool:
        """Return whether the import of the top-level package fails if that at `path` does."""
        module = self.modules[path]
        if path in self.opened:
            return self.opened[path].sure
        top, dot, _ = module.partition(".")
        return module in self.symbols.contents.sure_imports(top) if dot else top[:1] != "_"

    def is_of_package(self, path: str) -> bool:
        """Return whether the module at `path` is top-level, or its top folder has `__init__.py`."""
        top, dot, _ = self.modules[path].partition(".")
        return not dot or self.symbols.contents.has_source(top)

    def names_before(self, path: str) -> Sequence[str]:
        """Return what the import of the module at `path` surely imports before it."""
        name, own = self.modules[path], self._name(path)
        return tuple(takewhile(own.__ne__, self.symbols.contents.sure_imports(name)))

    def _name(self, path: str) -> str:
        """Return how `sure_imports` calls what is at `path`."""
        return path if path in self.opened else self.modules[path]

    def _turn(self, path: str) -> Sequence[str]:
        """Return the extension modules that are surely opened if that at `path` is imported."""
        return (*self.at(self.names_before(path)), path)

    def imported_until(self, source: str) -> Sequence[str]:
        """Return the modules that are surely imported before a line of a source (`a/b.py:7`)."""
        path, _, line = source.rpartition(":")
        return self.at(self.symbols.contents.sure_imports(module_name(path), int(line)))

    def at(self, names: Iterable[str]) -> Sequence[str]:
        """Return what is opened for some of `sure_imports`; nothing where the order is known."""
        return () if self.order else [path for name in names for path in self._paths.get(name, ())]

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
        return tuple(self._failures())

    def _failures(self) -> Iterator[tuple[str, Lack]]:
        for path in self.modules:
            load = self._with_others(path)
            requests = (*self.world.load(path).missing, *load.missing)
            lost = [one for one in requests if not self._may_be_loaded(one.name, path)]
            if lost:
                yield path, Lack(lost[0].requester or path, lost[0].name, None)
            elif not load.missing:
                versions = next(self._lacking_versions(load), None)
                lack = versions or self._refused_stack(load) or self._undefined(load)
                if lack is not None:
                    yield path, lack

    def _may_be_loaded(self, library: str, module: str) -> bool:
        """Return whether another module loads `library`, or code may open it before `module`."""
        carriers = self.world.carriers.get(library, ())
        if not carriers or any(path in self.loaded for path in carriers):
            return bool(carriers)
        there = (self.world.label(path).partition("/")[0] for path in (*carriers, module))
        imported = self.symbols.contents.sure_imports(self.modules[module])
        before = (name.partition(".")[0] for name in imported)
        return self.symbols.contents.may_open(library, frozenset((*there, *before)))

    def _refused_stack(self, load: Load) -> Lack | None:
        """Return the first object of a load that needs an executable stack which glibc refuses."""
        files, version = self.world.environment.files, self.world.versions.get("GLIBC", "0")
        for path in () if newer(REFUSING_GLIBC, version) else load.objects:
            if path in self.world.members and requires_executable_stack(files[path]):
                return Lack(path, EXECUTABLE_STACK, path)
        return None

    def _undefined(self, load: Load) -> Lack | None:
        """Return the references of one object of a load that nothing defines for it.

        None without a main program: what it defines is not known then.
        """
        if self.world.environment.main:
            for path, definers, names in self.symbols.unbound_groups(load):
                if definers and self._may_serve(definers, load):
                    continue
                left = tuple(name for name in names if not self._may_be_defined(name, load))
                if left:
                    return Lack(path, "", None, symbols=left, definers=definers)
        return None

    def _may_serve(self, paths: Sequence[str], load: Load) -> bool:
        """Return whether code may open one of `paths` for all others, before `load` or in it.

        Or another file took the place of one in `load`.
        """
        files, module = self.world.environment.files, load.root
        names = {one.name for one in load.requests}
        if not self._global.isdisjoint(paths) or any(files[path].soname in names for path in paths):
            return True
        tops = {self.world.label(path).partition("/")[0] for path in (*paths, module)}
        tops |= {name.partition(".")[0] for name in self.names_before(module)}
        packages, may_open = frozenset(tops), self.symbols.contents.may_open
        return any(may_open(posixpath.basename(path), packages, opens_for_all) for path in paths)

    @cached_property
    def _global(self) -> frozenset[str]:
        """The objects that a Python source opens for all, with all that these load."""
        opened = {promotion.path for promotion in self.symbols.contents.promotions()}
        return frozenset(path for root in opened for path in self.world.load(root).objects)

    def _may_be_defined(self, name: str, load: Load) -> bool:
        """Return whether a library of a machine that is only described may define a symbol."""
        known = {*self.world.members, self.world.environment.main}
        described = (
            symbols_of(posixpath.basename(path))
            for path in (*self.symbols.start, *load.objects)
            if path not in known and not self.symbols.contents.names(path)
        )
        return any(names is None or name in names for names in described)

    def _with_others(self, path: str) -> Load:
        """Return the load of a module, after what another import must have loaded for it."""
        load = self.world.load(path)
        carriers = (self.world.carriers.get(request.name, ()) for request in load.missing)
        before = [min(some) for some in carriers if some]
        return self.world.process(path, before)[-1] if before else load

    def _lacking_versions(self, load: Load) -> Iterator[Lack]:
        """Yield the symbol versions that loaded files do not define, where the loader asks."""
        files, libc = self.world.environment.files, self.world.environment.libc
        results = {(request.requester, request.name): request.result for request in load.requests}
        for path in load.objects:
            elf = files.get(path)
            for need in elf.verneed if elf and path in self.world.members else ():
                result = results.get((path, need.file))
                if versions := refused_versions(need, files.get(result or ""), libc):
                    yield Lack(path, need.file, result, versions=versions)

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
            return self.lack_after((*self._turn(first), *self._turn(second)[:-1]), second)

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
            always = self.modules[first] in self.names_before(second)
            both = lack is not None and (always or lack_of(second, first) is not None)
            if lack is not None and (both or owners not in met):
                met[owners] = both
                if both:
                    met[owners[1], owners[0]] = True
                yield Meeting(first, second, lack, other, usual, both)

    def _contests(self) -> Iterator[tuple[str, str, Request, str]]:
        """Yield two modules, a request of the second, and the file that the first loads for it.

        Each request and file is yielded once, for modules of packages if there are such.
        """
        paths = sorted(self.modules, key=lambda path: not self.is_of_package(path))
        importers: dict[str, dict[str, str]] = {}
        """File -> distributions with modules that load it, each with the first of them."""
        for path in paths:
            for result in self.world.load(path).objects:
                if self.world.environment.files[result].soname in self.symbols.contested:
                    importers.setdefault(result, {}).setdefault(self.distribution(path), path)
        asked: set[tuple[str | None, str, str]] = set()
        for path in paths:
            load, own = self.world.load(path), self.distribution(path)
            for request in () if load.missing else load.requests[1:]:
                for other in self.symbols.contested.get(request.name, ()):
                    key = request.requester, request.name, other
                    if request.result not in {None, other} and key not in asked:
                        asked.add(key)
                        users = importers.get(other, {})
                        others = (one for by, one in users.items() if by != own)
                        first = next((one for one in others if self.can_be_first(one, path)), None)
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
                both = first != path and self.lack_after((path,), first) is not None
                yield Meeting(first, path, lack, other, usual, both)
                break

    @cached_property
    def in_turn(self) -> tuple[Mapping[str, Load], Mapping[str, tuple[Load, Lack]]]:
        """The loads of the modules in `order` in one process, and of those that fail in it.

        A module that fails leaves nothing loaded.
        """
        loads: dict[str, Load] = {}
        lacks: dict[str, tuple[Load, Lack]] = {}
        process = self.world.start_process()
        for path in (path for path in self.order if not self.world.load(path).missing):
            load = process.dlopen(path)
            lack = self.lack_in(load)
            if lack is None:
                loads[path] = load
            else:
                lacks[path] = load, lack
                process.undo(load)
        return loads, lacks

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
        alone = {
            (one.requester, one.name): one.result for one in self.world.load(load.root).requests
        }
        for request in load.requests:
            usual = alone.get((request.requester, request.name))
            if usual and request.result and usual != request.result:
                yield request, usual

    def lack_after(self, before: Sequence[str], path: str) -> Lack | None:
        """Return what the module at `path` lacks once the modules `before` are imported.

        None if it loads, or does not for another reason.
        """
        return self.lack_in(self.world.process(path, before)[-1])

    def lack_in(self, load: Load) -> Lack | None:
        """Return what `load` lacks, and a load of the same module alone does not.

        None if it loads, or if a library is not found.
        """
        if load.missing:
            return None
        versions = next(self._lacking_versions(load), None)
        if versions is not None:
            return versions
        alone = self.symbols.unbound(self.world.load(load.root))
        for loaded, names in self.symbols.unbound(load).items():
            known = frozenset(alone.get(loaded, ()))
            if left := tuple(name for name in names if name not in known):
                return Lack(loaded, "", None, symbols=left)
        return None

    def lacking(self, requester: str, name: str, usual: str, other: str) -> Iterator[str]:
        """Yield the versions and symbols of one copy that an object uses and the other lacks."""
        files, libc = self.world.environment.files, self.world.environment.libc
        for need in files[requester].verneed:
            if need.file == name:
                yield from refused_versions(need, files[other], libc)
        used = {one.name for one in self.symbols.references(requester)}
        mine, others = (self.symbols.libraries[path].exports.definitions for path in (usual, other))
        lacking = sorted(among(mine, used) - among(others, used))
        yield from self.symbols.looked_up(requester, lacking)

    # --- What all share ---

    def clashes(self) -> Iterator[Clash]:
        """Yield the objects of two distributions that share data which they see differently.

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
                    if other_size != size and self.distribution(other) != self.distribution(path):
                        clashes.setdefault((other, path), {})[name] = other_size, size
                first_with[name].setdefault(size, path)
        for (first, second), sizes in clashes.items():
            yield Clash(first, second, (importers[first], importers[second]), sizes)

    def two_runtimes(self, paths: Iterable[str]) -> bool:
        """Return whether different versions of libstdc++ are among files with other names.

        Both are loaded then, and `std::locale::id` is one variable for both.
        """
        files = self.world.environment.files
        found = {
            files[path].soname: frozenset(v for v in files[path].verdef if v.startswith("GLIBCXX_"))
            for path in paths
            if files[path].unique_symbols
        }
        versions = [some for some in found.values() if some]
        return len(set(versions)) > 1 and self.world.environment.libc is Libc.GLIBC
