"""The plan of preload shims: which libraries a shim opens before which modules of a wheel.

Python can run a shim only before it imports a module. A library is covered if all its dependents
are loaded by extension modules, and none by a program or as a library opened by its path.
"""

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from wheelfix.analysis.opened_libraries import openings, place_of
from wheelfix.analysis.preload_shim import OWN, Shim, Source, has_hook, read_shim, with_hook
from wheelfix.analysis.providers import provider_of, provider_uses
from wheelfix.elf.exports import among
from wheelfix.elf.model import Elf, Libc
from wheelfix.grouping import grouped, values_by_key
from wheelfix.loader.as_needed import Library
from wheelfix.loader.install_schemes import Layout, entries_between, site_path, split
from wheelfix.loader.load_values import Load
from wheelfix.loader.python_api import init_functions
from wheelfix.settings import Provider, name_of
from wheelfix.wheel.model import LIBRARY_KEYS, PRELOAD, Key, LookupPlace, Wheel
from wheelfix.wheel.platform_tags import promised_libcs

FindLibrary = Callable[[str, Elf, Provider], Library | None]
"""Find a provider's library by its name for a dependent; None if its exports cannot be read."""

_MUSL = "musl does not use a library that was opened by its path for a DT_NEEDED name"
_NO_PACKAGE = "is in no package with an `__init__.py` of the wheel's own"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A place where Python runs a shim before it imports a module."""

    init: str
    """The `__init__.py` of a package that contains the module."""
    module: str
    """The module relative to that package: `._core`; empty for the package itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreloadPlan:
    """What shims open before the modules of a wheel, and what they could open.

    A *module* here is an extension module, or a Python source that opens libraries on import.
    """

    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Member -> the libraries of providers in its own DT_NEEDED, or that it opens by name."""
    entry_modules: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Member -> the modules and programs whose load includes it, perhaps itself."""
    hooks: Mapping[str, Hook] = field(default_factory=dict[str, Hook])
    """Module -> where a shim can run before it."""
    outside: Mapping[str, str] = field(default_factory=dict[str, str])
    """Member of `needs` -> why no shim can run before everything that loads it."""
    before: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Module of `hooks` -> the libraries of `needs` that its load needs."""
    wanted_shims: Mapping[str, Shim] = field(default_factory=dict[str, Shim])
    """`__init__.py` member -> the shim that its package should have."""
    present_shims: Mapping[str, Shim] = field(default_factory=dict[str, Shim])
    """`__init__.py` member -> the shim that it imports now."""

    def can_open(self, member: str) -> bool:
        """Return whether a shim can run before everything that loads `member`."""
        return member in self.needs and member not in self.outside

    def opens(self, member: str, libraries: Iterable[str]) -> bool:
        """Return whether the wheel's shims open `libraries` before everything that loads `member`.

        Shims that are only wanted do not count.
        """
        wanted = tuple(libraries)
        return self.can_open(member) and all(
            self._opens(self.hooks[module], wanted) for module in self.entry_modules[member]
        )

    def _opens(self, hook: Hook, libraries: tuple[str, ...]) -> bool:
        shim = self.present_shims.get(hook.init)
        return shim is not None and shim.opens(hook.module, libraries)

    @property
    def lacking(self) -> Mapping[str, Sequence[str]]:
        """`__init__.py` member -> the modules before which its shim does not open everything."""
        lacking = (m for m, wanted in self.before.items() if not self._opens(self.hooks[m], wanted))
        return grouped(lacking, lambda module: self.hooks[module].init)


def plan_preloads(
    wheel: Wheel,
    providers: tuple[Provider, ...],
    layout: Layout,
    loads: Mapping[str, Load],
    find_library: FindLibrary,
) -> PreloadPlan:
    """Plan the shims for `wheel` as `layout` installs it; `loads` are by member.

    If `find_library` finds the providers' libraries, their own dependencies are opened before
    them, and those that cannot be opened alone are left out.
    """
    needs = _needs(wheel, providers)
    if not needs:
        return PreloadPlan()
    closures = _closures(wheel, layout, loads)
    entry_modules = _entry_modules(wheel, closures, needs)
    never = _reason_for_none(wheel)
    modules = _module_names(wheel, entry_modules)
    opening = _Opening(wheel, providers, find_library)
    opened = {module: opening.libraries(closures[module], needs) for module in modules if not never}
    reasons = {
        module: why
        for module, libraries in opened.items()
        if (why := _cannot_preload_reason(libraries))
    }
    hooks = _hooks(wheel, {module: modules[module] for module in opened if module not in reasons})

    def why_outside(member: str) -> str | None:
        if never or not entry_modules[member]:
            return never or "no module or program of the wheel is known to load it"
        bad = next((entry for entry in entry_modules[member] if entry not in hooks), None)
        if bad is None:
            return None
        subject = "it" if bad == member else f"`{bad}`, which loads it,"
        return f"{subject} {_why_no_hook(bad, wheel, modules, reasons)}"

    return PreloadPlan(
        needs=needs,
        entry_modules=entry_modules,
        hooks=hooks,
        outside={member: why for member in needs if (why := why_outside(member)) is not None},
        before={
            module: tuple(
                dict.fromkeys(name for member in closures[module] for name in needs.get(member, ()))
            )
            for module in hooks
        },
        wanted_shims=_wanted_shims(hooks, opened),
        present_shims=dict(_present_shims(wheel)),
    )


def plan_own_preloads(
    wheel: Wheel,
    libraries: Mapping[str, str],
    mentions: Mapping[str, Iterable[str]],
    layouts: Iterable[Layout],
) -> PreloadPlan:
    """Plan the shims for the Python sources that open libraries of their own wheel by name.

    `libraries` are members by the names to open, and `mentions` the members with such a name as a
    string: it may reach the call in a way that is not followed. A bare name is searched for as the
    module of `ctypes` searches, so never in the wheel; but a loaded library with that SONAME is
    used.
    """
    found: dict[str, dict[str, None]] = {}
    for source, opening in openings(wheel):
        if opening.where is LookupPlace.SEARCH and opening.name in libraries:
            found.setdefault(source, {})[opening.name] = None
    for library in libraries:
        for member in mentions.get(library, ()):
            if member.endswith(".py") and not member.endswith(f"/{PRELOAD}.py"):
                found.setdefault(member, {})[library] = None
    if not found:
        return PreloadPlan()
    needs = {source: tuple(names) for source, names in found.items()}
    never = _reason_for_none(wheel)
    modules = {source: name for source in needs if (name := module_name(source, wheel)) is not None}
    hooks = {} if never else _hooks(wheel, modules)
    schemes = [scheme for layout in layouts for scheme in layout.schemes]
    outside = {source: never or f"it {_NO_PACKAGE}" for source in needs if source not in hooks}
    opened: dict[str, dict[str, _Opened]] = {}
    for source, hook in hooks.items():
        places = [split(posixpath.dirname(libraries[name]), wheel) for name in needs[source]]
        entries = [entries_between(hook.init, place, wheel, schemes) for place in places]
        if any(len(ways) != 1 for ways in entries):
            outside[source] = "no single relative path leads there in all install schemes"
            continue
        opened[source] = {
            name: _Opened(source=_own_source(entry), library=None)
            for name, (entry,) in zip(needs[source], entries, strict=True)
        }
    return PreloadPlan(
        needs=needs,
        entry_modules={source: (source,) for source in needs},
        hooks={source: hooks[source] for source in opened},
        outside=outside,
        before={source: needs[source] for source in opened},
        wanted_shims=_wanted_shims({source: hooks[source] for source in opened}, opened),
        present_shims=dict(_present_shims(wheel)),
    )


def _own_source(entry: str) -> Source:
    """Return the folder of the search path entry `entry` of a package's `__init__.py`."""
    folder = entry.removeprefix("$ORIGIN").removeprefix("/") or "."
    return Source(distribution="", requirement="", scheme=OWN, folder=folder)


def _needs(wheel: Wheel, providers: tuple[Provider, ...]) -> dict[str, tuple[str, ...]]:
    needs: dict[str, tuple[str, ...]] = {}
    for use in provider_uses(wheel, providers):
        if use.provider.directory is not None:
            needs[use.member] = (*needs.get(use.member, ()), use.library)
    return needs


def _closures(
    wheel: Wheel, layout: Layout, loads: Mapping[str, Load]
) -> dict[str, tuple[str, ...]]:
    """Return the members loaded by each object, and by each source that opens libraries."""
    closures = {
        member: tuple(layout.members[path] for path in load.objects if path in layout.members)
        for member, load in loads.items()
    }
    for source, opened in _opening_sources(wheel).items():
        members = (member for library in opened for member in closures.get(library, ()))
        closures[source] = tuple(dict.fromkeys(members))
    return closures


def _entry_modules(
    wheel: Wheel, closures: Mapping[str, tuple[str, ...]], needs: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """Return the modules and programs that load each member; the member itself if none does."""
    roots_of = values_by_key(
        (member, root) for root, closure in closures.items() for member in closure
    )

    def is_entry(root: str) -> bool:
        elf = wheel.elfs.get(root)
        first = elf is None or elf.is_executable or module_name(root, wheel) is not None
        return first or roots_of.get(root) == [root]

    return {member: tuple(filter(is_entry, roots_of.get(member, ()))) for member in needs}


def _opening_sources(wheel: Wheel) -> dict[str, tuple[str, ...]]:
    """Return the Python sources that open libraries of the wheel on import, with these."""
    places = {split(member, wheel): member for member in wheel.elfs}
    found: dict[str, dict[str, None]] = {}
    for source, opening in openings(wheel):
        key, path = place_of(wheel, source, opening) or (Key.DATA, "")
        if key in LIBRARY_KEYS and opening.on_import and opening.where is LookupPlace.SOURCE:
            opened = (places.get((other, path)) for other in dict.fromkeys((key, *LIBRARY_KEYS)))
            found.setdefault(source, {}).update(dict.fromkeys(filter(None, opened)))
    return {source: tuple(members) for source, members in found.items() if members}


def _module_names(
    wheel: Wheel, entry_modules: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    entries = dict.fromkeys(entry for some in entry_modules.values() for entry in some)
    return {entry: name for entry in entries if (name := module_name(entry, wheel)) is not None}


def module_name(member: str, wheel: Wheel) -> tuple[str, ...] | None:
    """Return the parts of the name by which Python imports `member`, None if it does not.

    The last part for a package's own source is `__init__`.
    """
    elf, path = wheel.elfs.get(member), site_path(member, wheel)
    if path is None:
        return None
    *folders, name = path.split("/")
    stem = name.partition(".")[0]
    own = stem == "__init__" and elf is not None
    parts = tuple(folders) if own else (*folders, stem)
    if not parts or not all(part.isidentifier() for part in parts):
        return None
    if elf is None:
        return parts if name.endswith(".py") else None
    hooks = set(init_functions(parts[-1])).intersection(elf.module_hooks)
    return parts if hooks and not elf.is_executable else None


def package_sources(wheel: Wheel) -> dict[tuple[str, ...], str]:
    """Return the `__init__.py` of each package of the wheel, by the parts of the package's name."""
    paths = {member: site_path(member, wheel) or "" for member in wheel.sources}
    return {
        tuple(path.split("/")[:-1]): member
        for member, path in paths.items()
        if path.endswith("/__init__.py")
    }


def _reason_for_none(wheel: Wheel) -> str | None:
    """Return why no shim works for any object of the wheel."""
    libcs = {elf.libc for elf in wheel.elfs.values()}
    if Libc.MUSL in libcs | promised_libcs(wheel.name.platforms):
        return _MUSL
    if any(python.startswith(("py2", "cp2", "pp2")) for python in wheel.name.pythons):
        return "the tags allow Python 2, which cannot run a shim"
    return None


def _why_no_hook(
    entry: str, wheel: Wheel, modules: Mapping[str, tuple[str, ...]], reasons: Mapping[str, str]
) -> str:
    """Return why no shim runs before `entry`, as a predicate of it."""
    if entry in wheel.elfs and wheel.elfs[entry].is_executable:
        return "is a program"
    if entry not in modules:
        return "is no extension module: it can only be opened by its path"
    return reasons.get(entry, _NO_PACKAGE)


def _hooks(wheel: Wheel, modules: Mapping[str, tuple[str, ...]]) -> dict[str, Hook]:
    """Choose packages that Python imports before these modules: few, and as deep as possible.

    Modules share the deepest package that contains them all. The outermost package would also do,
    but several distributions may share it, each with its own `__init__.py`.
    """
    inits = package_sources(wheel)

    @cache
    def can_import_shim(folder: tuple[str, ...]) -> bool:
        source = wheel.sources[inits[folder]] if folder in inits else None
        return source is not None and (has_hook(source) or with_hook(source) is not None)

    return {
        member: Hook(init=inits[folder], module=_relative(modules[member][len(folder) :]))
        for member, folder in _packages(0, modules, can_import_shim)
    }


def _packages(
    depth: int,
    modules: Mapping[str, tuple[str, ...]],
    can_import_shim: Callable[[tuple[str, ...]], bool],
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the package for each of `modules`, whose names are the same up to `depth`."""
    tops: dict[tuple[str, ...], dict[str, tuple[str, ...]]] = {}
    for member, parts in modules.items():
        if len(parts) > depth + 1:  # otherwise it is a module of the package above
            tops.setdefault(parts[: depth + 1], {})[member] = parts
    for top, below in tops.items():
        common = tuple(posixpath.commonprefix([parts[:-1] for parts in below.values()]))
        candidates = (common[:length] for length in range(len(common), len(top) - 1, -1))
        package = next(filter(can_import_shim, candidates), None)
        if package is None:
            yield from _packages(len(common), below, can_import_shim)
        else:
            yield from ((member, package) for member in below)


def _relative(parts: tuple[str, ...]) -> str:
    """`("sub", "_core")` -> `.sub._core`; for a package's own source `.sub`, or nothing."""
    return "".join(f".{part}" for part in parts).removesuffix(".__init__")


def shim_of(init: str) -> str:
    """Return the member that is the shim of the package with this `__init__.py`."""
    return f"{init.removesuffix('__init__.py')}{PRELOAD}.py"


def _present_shims(wheel: Wheel) -> Iterator[tuple[str, Shim]]:
    for member, source in wheel.sources.items():
        if member.endswith("/__init__.py") and shim_of(member) in wheel.sources:
            shim = read_shim(wheel.sources[shim_of(member)])
            if shim is not None and has_hook(source):
                yield member, shim


def opened_by_shims(wheel: Wheel) -> dict[str, tuple[str, ...]]:
    """Return the modules before which shims of `wheel` open libraries, with these.

    They are extension modules, and sources that open libraries by name.
    """
    present = dict(_present_shims(wheel))
    packages = package_sources(wheel).items() if present else ()
    shims = {package: present[init] for package, init in packages if init in present}
    found: dict[str, tuple[str, ...]] = {}
    for member in (*wheel.elfs, *wheel.openings) if shims else ():
        parts = module_name(member, wheel) or ()
        opened: dict[str, None] = {}
        for depth in range(1, len(parts) + 1):
            shim = shims.get(parts[:depth])
            if shim is not None:
                opened |= dict.fromkeys(shim.modules.get(_relative(parts[depth:]), ()))
        if opened:
            found[member] = tuple(opened)
    return found


class _Opened(NamedTuple):
    """A library that a shim opens."""

    source: Source
    library: Library | None
    """The library itself, if its exports can be read."""


def _wanted_shims(
    hooks: Mapping[str, Hook], opened: Mapping[str, Mapping[str, _Opened]]
) -> dict[str, Shim]:
    """Return the shim for each `__init__.py` of `hooks`."""
    wanted: dict[str, Shim] = {}
    for member, hook in hooks.items():
        libraries = {name: library.source for name, library in opened[member].items()}
        shim = Shim(modules={hook.module: tuple(libraries)}, libraries=libraries)
        wanted[hook.init] = wanted.get(hook.init, Shim()).including(shim)
    return wanted


class _Opening(NamedTuple):
    """The search for the libraries that shims open."""

    wheel: Wheel
    providers: tuple[Provider, ...]
    find_library: FindLibrary

    def libraries(
        self, closure: Iterable[str], needs: Mapping[str, tuple[str, ...]]
    ) -> dict[str, _Opened]:
        """Return the providers' libraries that `closure` needs, in the order to open them."""
        found: dict[str, _Opened] = {}
        for member in closure:
            for name in needs.get(member, ()):
                self._add(name, self.wheel.elfs[member], found, frozenset())
        return found

    def _add(
        self, name: str, dependent: Elf, found: dict[str, _Opened], above: frozenset[str]
    ) -> None:
        """Add the library `name` after the providers' libraries that it needs itself."""
        provider = provider_of(name, self.providers)
        if provider is None or provider.directory is None or name in {*found, *above}:
            return
        library = self.find_library(name, dependent, provider)
        for needed in library.elf.needed if library is not None else ():
            self._add(needed, dependent, found, above | {name})
        source = Source(
            distribution=provider.name,
            requirement=self._requirement(provider),
            scheme=provider.scheme,
            folder=provider.directory,
        )
        found[name] = _Opened(source=source, library=library)

    def _requirement(self, provider: Provider) -> str:
        """Return the requirement in METADATA if it names versions, otherwise a suitable one."""
        for text in self.wheel.metadata.requires_dist:
            requirement = text.partition(";")[0].strip()
            if name_of(requirement) == provider.name and set("<>=~!") & set(requirement):
                return requirement
        return provider.to_require


def _cannot_preload_reason(opened: Mapping[str, _Opened]) -> str | None:
    """Return why one of the libraries cannot be opened alone, None if all can.

    A shim opens each with RTLD_NOW, the default of `ctypes`: this fails for a library that
    uses symbols of another one without DT_NEEDED on it.
    """
    readable = {name: found.library for name, found in opened.items() if found.library is not None}
    for name, library in readable.items() if len(readable) > 1 else ():
        wanted = {
            symbol.name
            for symbol in library.elf.undefined
            if not symbol.weak and symbol.version is None
        }
        for loaded in _needed_with(name, readable):
            wanted -= among(readable[loaded].exports.definitions, wanted)
        for other, another in readable.items():
            provided = among(another.exports.definitions, wanted) if wanted else None
            if provided:
                return (
                    f"needs `{name}`, which does not load alone: it lacks `{min(provided)}` of "
                    f"`{other}`"
                )
    return None


def _needed_with(name: str, libraries: Mapping[str, Library]) -> frozenset[str]:
    """Return which of `libraries` are loaded with `name`, itself among them."""
    found = {name}
    waiting = [name]
    while waiting:
        for needed in libraries[waiting.pop()].elf.needed:
            if needed in libraries and needed not in found:
                found.add(needed)
                waiting.append(needed)
    return frozenset(found)
