"""What a rule may look at: the wheel, the settings, and the analyses of the wheel."""

import posixpath
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import IntEnum
from functools import cached_property
from glob import escape
from itertools import product
from typing import Any, TypeVar, cast

from packaging.utils import canonicalize_name

from wheelfix.analysis.import_order import ImportOrder
from wheelfix.analysis.left_to_requirements import (
    LeftToRequirements,
    left_to_requirements,
    opened_for_all,
)
from wheelfix.analysis.load_failures import fits_python
from wheelfix.analysis.loaded_wheel import Definitions, LoadedWheel
from wheelfix.analysis.needed_judgement import RUNTIMES, Pruning, judge_needed
from wheelfix.analysis.never_bundled import never_globs
from wheelfix.analysis.objects_in_use import objects_in_use
from wheelfix.analysis.opened_libraries import NamedLibraries
from wheelfix.analysis.policy_verdict import Verdict
from wheelfix.analysis.preload_plan import PreloadPlan, plan_preloads
from wheelfix.analysis.unresolved_symbols import Unresolved, find_unresolved, without_defined
from wheelfix.analysis.world import Installed, Linkable, Neighbor, World
from wheelfix.budget import Budget
from wheelfix.elf.model import Elf, names_of
from wheelfix.frozen import frozen
from wheelfix.grouping import flatten, grouped, values_by_key
from wheelfix.loader.as_needed import Library
from wheelfix.loader.install_schemes import Layout, Scheme, layouts, site_path
from wheelfix.loader.load_values import Request
from wheelfix.loader.python_api import LIBPYTHON_GLOBS
from wheelfix.loader.targets import Target, find, is_page
from wheelfix.providers.model import Provided
from wheelfix.providers.provider_uses import ProviderUse, provider_uses
from wheelfix.python_sources.opening_calls import takes_a_module
from wheelfix.settings import Settings
from wheelfix.wheel.edits import Edit, predict
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.names_in_code import CodeNames
from wheelfix.wheel.platform_tags import has_local_tag
from wheelfix.wheel.requirements import name_of

_Result = TypeVar("_Result")


class Stage(IntEnum):
    """When in a repair a rule runs."""

    BEFORE = 0
    """Before the graft, to remove what must not be grafted. Only rules of this stage run."""
    AFTER = 1
    """After the graft, for what depends on where files are installed. All rules run."""


class Memory:
    """What the contexts of one repair have computed last, for those that follow. Mutable."""

    def __init__(self) -> None:
        self._files: tuple[Wheel, dict[object, Any]] | None = None
        self._worlds: dict[tuple[str, str], World] = {}
        self._loaded: tuple[World, Definitions, LoadedWheel] | None = None
        self._pruned: tuple[tuple[object, ...], Pruning] | None = None
        self._unresolved: tuple[tuple[object, ...], tuple[Unresolved, ...]] | None = None

    def fork(self) -> "Memory":
        """Return a memory that starts with the same results, and forgets them on its own."""
        made = Memory()
        made._files, made._worlds = self._files, {**self._worlds}
        made._loaded, made._pruned = self._loaded, self._pruned
        made._unresolved = self._unresolved
        return made

    def of_files(self, wheel: Wheel, make: Callable[[Wheel], _Result], *more: object) -> _Result:
        """Return `make(wheel)`, which depends on where the files go, and on `more`.

        The last result if no file came or went since, and all go where they went.
        """
        last, known = self._files or (None, dict[object, Any]())
        if (
            last is None
            or last.members is not wheel.members
            or (last.dist_info, last.root_is_purelib) != (wheel.dist_info, wheel.root_is_purelib)
        ):
            known = {}
        self._files = wheel, known
        if (make, more) not in known:
            known[make, more] = make(wheel)
        return cast("_Result", known[make, more])

    def with_loads(self, world: World) -> World:
        """Return `world` with the loads that are the same in the last world of that place."""
        place = world.name, world.where
        if place in self._worlds:
            world.keep_loads(self._worlds[place])
        self._worlds[place] = world
        return world

    def loaded(self, world: World, wheel: Wheel, definitions: Definitions) -> LoadedWheel:
        """Return the loaded wheel of `world`: the last one if its objects are the same."""
        before = None
        if self._loaded is not None:
            last, read, before = self._loaded
            if read == definitions and world.has_objects_of(last):
                return before
        loaded = LoadedWheel.around(world, wheel, definitions, before)
        self._loaded = world, definitions, loaded
        return loaded

    def unresolved(
        self, loaded: LoadedWheel, definitions: Definitions, opened: frozenset[str]
    ) -> tuple[Unresolved, ...]:
        """Return `find_unresolved`, as `pruning` does: a tenth of a repair of large libraries."""
        if self._unresolved is None or self._unresolved[0] != (loaded, opened):
            symbols = find_unresolved(loaded, definitions, opened)
            self._unresolved = (loaded, opened), symbols
        return self._unresolved[1]

    def pruning(
        self,
        loaded: LoadedWheel,
        settings: Settings,
        definitions: Definitions,
        elsewhere: tuple[str, ...],
        *,
        is_asked: bool,
    ) -> Pruning:
        """Return `judge_needed`: the last answer if it is asked again of the same loaded wheel.

        It is the dearest analysis: a tenth of the time of a repair that grafts nothing.
        """
        key = loaded, settings, elsewhere, is_asked
        if self._pruned is None or self._pruned[0] != key:
            judged = judge_needed(loaded, settings, definitions, elsewhere, is_asked=is_asked)
            self._pruned = key, judged
        return self._pruned[1]


@frozen(kw_only=False)
class Context:
    """Everything that a rule may look at; each analysis is computed once, on first use."""

    wheel: Wheel
    settings: Settings
    providers: tuple[Provided, ...] = ()
    """What was found of the providers; of several versions the highest comes first."""
    stage: Stage = Stage.AFTER
    verdict: Verdict | None = None
    """The platform tags that the wheel satisfies, by auditwheel's policies, where computed."""
    unmatched_excludes: tuple[str, ...] = ()
    """`--exclude` patterns that matched no library, known after the graft."""
    definitions: Definitions | None = None
    """Reads the definitions of the objects and of libraries around them; without it, DT_NEEDED and
    symbols are not judged."""
    origin: Wheel | None = None
    """The wheel before the edits of a repair, with the libraries that the settings include."""
    neighbors: Callable[[frozenset[str]], tuple[Neighbor, ...]] = field(
        default=lambda _: (), compare=False
    )
    """Reads what the providers install beside the wheel: those that it needs, and some by name."""
    linkable: Linkable = field(default=lambda _, __: (), compare=False)
    """As in `World`."""
    budget: Budget = field(default_factory=Budget.of_files, compare=False)
    """What the analyses of the wheel spend."""

    memory: Memory = field(default_factory=Memory, compare=False, repr=False)
    """Shared by all contexts of one repair."""

    @cached_property
    def _shared(self) -> dict[object, Any]:
        """Results of functions that several rules call. Mutable."""
        return {}

    def shared(self, make: Callable[["Context"], _Result]) -> _Result:
        """Return what `make`, a function of a module, returns for this context; called once."""
        if make not in self._shared:
            self._shared[make] = make(self)
        return cast("_Result", self._shared[make])

    def at_stage(self, stage: Stage) -> "Context":
        """Return the context in which `stage` of a repair starts."""
        return replace(self, stage=stage, origin=self.origin or self.wheel)

    def after(self, edits: Sequence[Edit]) -> "Context":
        """Return the context of the wheel that `edits` make.

        Analyses that depend on nothing of what was edited are not made again.
        """
        if not edits:
            return self
        definitions = None if self.definitions is None else self.definitions.including(edits)
        return replace(self, wheel=predict(self.wheel, edits), definitions=definitions)

    @cached_property
    def layouts(self) -> tuple[Layout, ...]:
        """The ways in which installers may arrange the files."""
        return self.memory.of_files(self.wheel, layouts, self.wheel.name)

    @cached_property
    def worlds(self) -> tuple[World, ...]:
        """The wheel by itself as each of `layouts` installs it, without a machine."""
        return tuple(map(self.memory.with_loads, map(self._alone.world_in, self.layouts)))

    @property
    def world(self) -> World:
        """The first of `worlds`: that of the most common layout."""
        return self.worlds[0]

    @cached_property
    def _alone(self) -> Installed:
        return Installed(wheel=self.wheel, budget=self.budget)

    def schemes_of(self, member: str) -> list[Scheme]:
        """Return the install schemes that install `member`."""
        present = (layout for layout in self.layouts if member in layout.paths)
        return list(flatten(layout.schemes for layout in present))

    @cached_property
    def needed_found(self) -> tuple[Mapping[tuple[str, str], bool], ...]:
        """For each layout, whether each object, opened first, finds each DT_NEEDED entry."""
        return tuple(
            {
                (member, request.name): request.result is not None
                for member, load in world.loads.items()
                for request in load.requests
                if request.requester == world.paths[member]
            }
            for world in self.worlds
        )

    @cached_property
    def found_by_path(self) -> frozenset[str]:
        """The DT_NEEDED entries with a path, `$ORIGIN/…`, that lead each dependent to a member."""
        paths = {name: members for name, members in self.dependents.items() if "/" in name}
        return frozenset(
            name
            for name, members in paths.items()
            if all(n.get((m, name), True) for n, m in product(self.needed_found, members))
        )

    @cached_property
    def needed_found_by_others(self) -> Mapping[tuple[str, str], bool]:
        """Whether each object finds each DT_NEEDED entry in every load of another object.

        What is itself only loaded by others is not opened first.
        """
        answers: dict[tuple[str, str], bool] = {}
        for world in self.worlds:
            opened = (root for root in world.loads if root not in self.only_needed)
            for root, load in ((root, world.loads[root]) for root in opened):
                for request in load.requests:
                    member = world.members.get(request.requester or "")
                    if member is not None and member != root:
                        key = member, request.name
                        answers[key] = answers.get(key, True) and request.result is not None
        return answers

    @cached_property
    def _opened(self) -> frozenset[str]:
        """The file names of the libraries that Python sources of the wheel open."""
        opened = flatten(self.wheel.openings.values())
        return frozenset(posixpath.basename(opening.name) for opening in opened)

    @cached_property
    def only_needed(self) -> frozenset[str]:
        """The libraries that other objects need, and that nothing else is known to open."""
        if self.definitions is None:
            return frozenset()
        names = {
            member: names_of(member, elf.soname)
            for member, elf in self.wheel.elfs.items()
            if elf.is_library and not elf.module_hooks
        }
        needed = {m: own for m, own in names.items() if own & self.dependents.keys()}
        mentions = self.definitions.code.mentions(set(flatten(needed.values())))
        return frozenset(
            member
            for member, own in needed.items()
            if not own & self._opened and not any(mentions.get(name) for name in own)
        )

    @cached_property
    def objects_in_use(self) -> frozenset[str]:
        """The objects that something in the wheel is seen to load; all if nothing can be read."""
        if self.definitions is None:
            return frozenset(self.wheel.elfs)
        return objects_in_use(self.wheel, self.definitions)

    @cached_property
    def shipped(self) -> Mapping[str, Sequence[str]]:
        """File name -> the shared objects of that name in the wheel."""
        objects = (member for member, elf in self.wheel.elfs.items() if elf.dynamic)
        return grouped(objects, posixpath.basename)

    @cached_property
    def top_levels(self) -> Mapping[str, Sequence[str]]:
        """The members that are installed into site-packages, by their top-level names there."""
        return self.memory.of_files(self.wheel, _top_levels)

    @cached_property
    def dependents(self) -> Mapping[str, Sequence[str]]:
        """DT_NEEDED entry -> the objects of the wheel that have it."""
        return self.wheel.dependents

    @cached_property
    def provider_uses(self) -> tuple[ProviderUse, ...]:
        """The DT_NEEDED entries that providers serve."""
        return tuple(provider_uses(self.wheel, self.providers))

    @property
    def code(self) -> CodeNames | None:
        """What the objects and Python sources of the wheel name; None where they are not read."""
        return None if self.definitions is None else self.definitions.code

    @cached_property
    def import_order(self) -> ImportOrder:
        """What is begun before each module of the wheel."""
        return ImportOrder(self.wheel, self.code, self._loaded_with)

    def opened_before(self, world: World, member: str) -> list[str]:
        """Return the paths of the objects that are surely opened before a module, in turn."""
        opened, pythons = self.import_order.opened_before(member), [world.schemes[0].python]
        return [world.paths[m] for m in opened if m in world.paths and fits_python(m, pythons)]

    def _loaded_with(self, opened: Sequence[str]) -> Collection[str]:
        """Return the members that opening some in turn loads; of one that lacks a file, none."""
        world, found, names = self.world if self.worlds else None, set[str](), set[str | None]()
        for load in (world.load(m) for m in opened if m in world.paths) if world else ():
            lacking = {request.name for request in load.missing} - names
            if world and lacking.isdisjoint(world.carriers):
                found |= {world.members[path] for path in load.objects if path in world.members}
                names = {self.wheel.elfs[member].soname for member in found}
        return found

    @cached_property
    def left(self) -> LeftToRequirements:
        """What the wheel leaves to requirements that were not looked into."""
        return left_to_requirements(self.wheel, self.settings, self.providers, self.code)

    @cached_property
    def targets(self) -> tuple[Target, ...]:
        """The machines of `target` that have the wheel's C library, named as in the settings.

        Raises `SettingsError` for an unknown one.
        """
        return tuple(
            replace(target, name=name)
            for name, target in applicable(self.wheel, self.settings).items()
        )

    @cached_property
    def target_worlds(self) -> tuple[World, ...]:
        """The wheel beside its neighbors on each of `targets`."""
        if not self.targets:
            return ()
        installed = replace(self._alone, neighbors=self.neighbors(frozenset()))
        return tuple(self.memory.with_loads(installed.on(target)) for target in self.targets)

    @cached_property
    def included(self) -> Mapping[str, Sequence[str]]:
        """Name of each library of `include` -> the members with that file name or SONAME."""
        names = dict.fromkeys(map(posixpath.basename, self.settings.include))
        return {name: self.named_libraries.called(name) for name in names}

    @cached_property
    def named_libraries(self) -> NamedLibraries:
        """The libraries of the wheel by the names that code may open them by."""
        return NamedLibraries(self.wheel)

    @cached_property
    def preload_plan(self) -> PreloadPlan:
        """Which libraries of `include` a shim opens, or could open, before which sources."""
        elfs = self.wheel.elfs
        known = {
            name: next((m for m in members if elfs[m].soname == name), None)
            for name, members in self.included.items()
        }
        libraries = {name: member for name, member in known.items() if member is not None}
        code = self.code
        mentions = code.mentions({*libraries}) if code else dict[str, tuple[str, ...]]()
        return plan_preloads(self.wheel, libraries, mentions, self.layouts)

    @cached_property
    def loaded_wheel(self) -> LoadedWheel | None:
        """The wheel in its most common layout, among the libraries around it."""
        if self.definitions is None or not self.worlds:
            return None
        return self.memory.loaded(self.world, self.wheel, self.definitions)

    @cached_property
    def unresolved_symbols(self) -> tuple[Unresolved, ...]:
        """The symbols that bind to no definition."""
        unresolved = [symbols for symbols in self._unresolved if not symbols.in_others]
        opened = {symbols.root: self._opened_before(symbols.root) for symbols in unresolved}
        return tuple(
            symbols._replace(absent=(*symbols.absent, *self._absent_before(symbols.root)))
            for symbols in without_defined(unresolved, opened)
        )

    @property
    def unresolved_alone(self) -> tuple[Unresolved, ...]:
        """The symbols of libraries that bind only in the loads of other objects."""
        return tuple(symbols for symbols in self._unresolved if symbols.in_others)

    @property
    def _unresolved(self) -> tuple[Unresolved, ...]:
        if self.loaded_wheel is None or self.definitions is None:
            return ()
        return self.memory.unresolved(self.loaded_wheel, self.definitions, self._opened)

    def _opened_before(self, root: str) -> Iterator[Library]:
        """Yield what is opened with RTLD_GLOBAL before `root`.

        Of the wheel, what surely is; and the objects of providers that the package of `root` opens.
        """
        loaded = self.loaded_wheel
        if loaded is None:
            return
        for member in self.import_order.opened_for_all(root) if self.code else ():
            objects = loaded.loads[member].objects if member in loaded.loads else ()
            yield from (loaded.libraries[path] for path in objects if path in loaded.libraries)
        package, elf = (site_path(root, self.wheel) or "").partition("/")[0], self.wheel.elfs[root]
        for provider in self.providers_opened_for_all.get(package, ()):
            yield from self.libraries_of(provider, elf)

    def _absent_before(self, root: str) -> Iterator[str]:
        """Yield the libraries not found for what sources open with RTLD_GLOBAL before `root`."""
        loaded = self.loaded_wheel
        if loaded is None or self.code is None:
            return
        for member in self.import_order.opened_for_all(root):
            missing = loaded.loads[member].missing if member in loaded.loads else ()
            names = (request.name for request in missing)
            yield from (name for name in names if not loaded.promises(name))

    def libraries_of(self, provider: Provided, dependent: Elf) -> Iterator[Library]:
        """Yield the libraries of a provider that can be read, and that `dependent` can load."""
        if self.definitions is None:
            return
        find = self.definitions.provider_library
        for folder in provider.folders:
            found = (find(name, dependent, provider, folder.directory) for name in folder.libraries)
            yield from filter(None, found)

    @cached_property
    def providers_opened_for_all(self) -> Mapping[str, Sequence[Provided]]:
        """Top-level package -> the providers whose modules its sources open with RTLD_GLOBAL."""
        there = {provider.name: provider for provider in self.providers if provider.places}
        opened = opened_for_all(self.wheel, there, self.code) if there else ()
        return values_by_key((package, there[name]) for package, name in opened)

    @cached_property
    def beside(self) -> tuple[Neighbor, ...]:
        """The neighbors whose libraries objects need, and those that sources import."""
        packages = {member.partition("/")[0] for member in self.wheel.elfs}
        return self.neighbors(frozenset[str]().union(*map(self._imported_by, packages)))

    @cached_property
    def _beside(self) -> tuple[World, ...]:
        """As `worlds`, beside the neighbors."""
        installed = replace(self._alone, neighbors=self.beside)
        return tuple(map(installed.world_in, self.layouts))

    @cached_property
    def lacking_beside(self) -> Mapping[tuple[str, str], tuple[Request, str, str]]:
        """What objects of neighbors do not find in loads of the wheel's objects.

        Object and DT_NEEDED entry -> one request, by a member's load, and the install schemes.
        Nothing is loaded if no provider's library is used.
        """
        lacking: dict[tuple[str, str], tuple[Request, str, str]] = {}
        for world in self._beside if self.provider_uses else ():
            for path, load in world.first_loads.items():
                before = self._loaded_before(world, world.members[path])
                for request in load.missing:
                    other = world.others.get(request.requester or "")
                    if other is not None and request.name not in before:
                        place = request, world.members[path], world.where
                        lacking.setdefault((other, request.name), place)
        return lacking

    def is_found_beside(self, member: str, library: str) -> bool:
        """Return whether `member` finds `library` of a provider in each layout.

        It is loaded as those objects load it that are opened first.
        """
        answers = [
            request.result is not None
            or library in self._loaded_before(world, world.members[opened])
            for world in self._beside
            for opened, load in world.first_loads.items()
            for request in load.requests
            if (request.requester, request.name) == (world.paths.get(member), library)
        ]
        return bool(answers) and all(answers)

    def _loaded_before(self, world: World, member: str) -> frozenset[str]:
        """Return the names of the libraries that neighbors load which are imported before a member.

        Each of their modules is imported, and each library opened if one of their sources or
        objects opens any. A library of the machine may be missing: their own fault.
        """
        files = world.environment.files
        if self.wheel.elfs[member].is_module:
            imported = self._imported_before(member)
        else:
            imported = self._imported_by(member.partition("/")[0])
        opening = self._opening | {
            label.partition("!")[0]
            for path, label in world.others.items()
            if any(symbol.name == "dlopen" for symbol in files[path].undefined)
        }
        opened = (
            path
            for path, label in world.others.items()
            if (neighbor := label.partition("!")[0]) in imported
            and files[path].is_library
            and (files[path].module_hooks or neighbor in opening)
        )
        loaded = set(flatten(world.load(opening).objects for opening in opened))
        names = {files[path].soname for path in loaded if path in files}
        return frozenset(filter(None, names)) | {posixpath.basename(path) for path in loaded}

    @cached_property
    def _opening(self) -> frozenset[str]:
        """The neighbors whose sources may open libraries, as they are called."""
        code = self.code
        return frozenset(p.file_name for p in self.providers if code is None or code.opens(p.wheel))

    def _imported_before(self, member: str) -> frozenset[str]:
        """Return the neighbors that are surely imported before a module, as they are called."""
        before = {name.partition(".")[0] for name in self.import_order.before(member)}
        return self._with_imports(lambda module: module in before)

    def unread_import(self, member: str) -> str:
        """Return a note on what runs before a member, and is not read: a .pth file, or a module."""
        tops = {name.partition(".")[0] for name in self.import_order.before(member)}
        tops -= {"", *sys.stdlib_module_names, *flatten(p.modules for p in self.providers)}
        tops -= {name.partition(".")[0] for name in self.top_levels}
        other = next(iter((*self.import_order.unread, *sorted(tops))), "")
        return f"`{other}`, which runs before, is not read, and may load it" if other else ""

    def _imported_by(self, package: str) -> frozenset[str]:
        """Return the neighbors that sources of a top-level package import, as they are called."""
        own, code = f"{package}/", self.code

        def is_imported(module: str) -> bool:
            sources = code.importers(module) if code else ()
            return any(source.startswith(own) for source in sources)

        return self._with_imports(is_imported)

    def _with_imports(self, is_imported: Callable[[str], bool]) -> frozenset[str]:
        """Return the neighbors with a module that is imported, and those that these import."""
        code = self.code
        neighbors = [provider for provider in self.providers if provider.setting is None]
        imported = [provider for provider in neighbors if any(map(is_imported, provider.modules))]
        for opened in imported:  # grows during the loop
            required = set(map(name_of, opened.metadata.requires_dist))
            imported += (
                other
                for other in neighbors
                if (other.name in required or opened.wheel)
                and other not in imported
                and code
                and any(code.imports(opened.wheel, module) for module in other.modules)
            )
        return frozenset(provider.file_name for provider in imported)

    @cached_property
    def needed_verdicts(self) -> Pruning:
        """The DT_NEEDED entries that are unused, and those that are missing."""
        if self.loaded_wheel is None or self.definitions is None:
            return Pruning()
        elsewhere = self.never_grafted
        if not has_local_tag(self.wheel.name.platforms):
            # The graft of an unused one costs more than bytes: the tag that the wheel has.
            elsewhere += RUNTIMES
        code = self.definitions.code
        is_asked = any(
            code.opens(provider.wheel, takes_a_module)
            and any(code.imports(provider.wheel, top) for top in self.top_levels)
            for provider in self.providers
            if provider.wheel
        )
        return self.memory.pruning(
            self.loaded_wheel, self.settings, self.definitions, elsewhere, is_asked=is_asked
        )

    @cached_property
    def never_grafted(self) -> tuple[str, ...]:
        """The patterns of the libraries of others, of the machine, and of its interpreters."""
        folders = flatten(provider.folders for provider in self.providers)
        provided = flatten(folder.libraries for folder in folders)
        return (
            *provided,
            *map(escape, self.left.expected),
            *map(escape, self.found_by_path),
            *LIBPYTHON_GLOBS,
            *(() if self.settings.graft_drivers else never_globs()),
        )


def _top_levels(wheel: Wheel) -> Mapping[str, Sequence[str]]:
    data = f"{wheel.data_dir}/"
    paths = ((site_path(n, wheel) if n.startswith(data) else n, n) for n in wheel.sizes)
    return values_by_key((path.partition("/")[0], name) for path, name in paths if path)


def applicable(wheel: Wheel, settings: Settings) -> dict[str, Target]:
    """Return the machines of `target` that have the wheel's C library, by their names there.

    Raises `SettingsError` for an unknown one.
    """
    targets = {name: find(name, wheel) for name in settings.target if not is_page(name)}
    return {name: target for name, target in targets.items() if target.libc in wheel.libcs}


@frozen(kw_only=False)
class SetContext:
    """Everything that a rule about several wheels may look at."""

    wheels: tuple[Wheel, ...]
    settings: Settings
    unused_ignores: frozenset[tuple[str, str]] = frozenset()
    """Ignores that match no finding: the selector, and the glob of the files or ""."""

    @cached_property
    def releases(self) -> tuple[tuple[Wheel, ...], ...]:
        """The wheels by distribution and version; a release of one wheel is left out.

        Of several files with the same name, only the first counts.
        """
        by_version: dict[tuple[str, str], dict[str, Wheel]] = {}
        for wheel in self.wheels:
            key = canonicalize_name(wheel.name.distribution), wheel.name.version
            by_version.setdefault(key, {}).setdefault(str(wheel.name), wheel)
        return tuple(tuple(wheels.values()) for wheels in by_version.values() if len(wheels) > 1)
