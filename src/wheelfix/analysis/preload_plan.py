"""Before which modules of a wheel a shim can open libraries of other wheels, and where it stands.

What a process loads it has loaded by an extension module, a program, or a library that somebody
opens by its path. Of these, Python runs code of ours before extension modules alone; a library
behind them is served if nothing else leads to it.
"""

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from wheelfix.analysis.preload_shim import Shim, Source, has_hook, read_shim, with_hook
from wheelfix.analysis.providers import provider_of
from wheelfix.elf.exports import among
from wheelfix.elf.model import Elf, Libc
from wheelfix.loader.as_needed import Library
from wheelfix.loader.install_schemes import Key, Layout, split
from wheelfix.loader.model import Load
from wheelfix.settings import Provider, name_of
from wheelfix.wheel.model import PRELOAD, Wheel, Where
from wheelfix.wheel.platform_tags import promised_libcs

AtHand = Callable[[str, Elf, Provider], Library | None]
"""Gives a provider's library where it can be looked into; asked with its name and its user."""

_SITE = (Key.PURELIB, Key.PLATLIB)
_MUSL = "musl does not take a library that was opened by its path for one that is asked for by name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """Where Python runs a shim before it imports a module."""

    init: str
    """The `__init__.py` of a package above the module."""
    module: str
    """The module, relative to that package: `._core`; empty for the package itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preloading:
    """What shims open before the modules of a wheel, and what they could open."""

    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Member -> the libraries that it takes from providers itself."""
    entry_modules: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Member -> the objects by which a process comes to load it, itself among them."""
    hooks: Mapping[str, Hook] = field(default_factory=dict[str, Hook])
    """Extension module, or source that opens libraries -> where a shim can run before it."""
    outside: Mapping[str, str] = field(default_factory=dict[str, str])
    """Member that takes from providers -> why no shim comes before all that loads it."""
    before: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Module of `hooks` -> what it needs of the providers, itself or by other libraries."""
    wanted: Mapping[str, Shim] = field(default_factory=dict[str, Shim])
    """`__init__.py` member -> the shim that its package should have."""
    there: Mapping[str, Shim] = field(default_factory=dict[str, Shim])
    """`__init__.py` member -> the shim that it runs as it is."""

    def can_open(self, member: str) -> bool:
        """Return whether a shim can come before all that loads `member`."""
        return member in self.needs and member not in self.outside

    def opens(self, member: str, libraries: Iterable[str]) -> bool:
        """Return whether the wheel's shims open `libraries` before all that loads `member`."""
        wanted = tuple(libraries)
        return self.can_open(member) and all(
            self._opens(self.hooks[entrance], wanted) for entrance in self.entry_modules[member]
        )

    def _opens(self, hook: Hook, libraries: tuple[str, ...]) -> bool:
        shim = self.there.get(hook.init)
        return shim is not None and shim.opens(hook.module, libraries)

    @property
    def lacking(self) -> Mapping[str, tuple[str, ...]]:
        """`__init__.py` member -> the modules before which its shim does not open everything."""
        found: dict[str, list[str]] = {}
        for module, libraries in self.before.items():
            if not self._opens(self.hooks[module], libraries):
                found.setdefault(self.hooks[module].init, []).append(module)
        return {init: tuple(modules) for init, modules in found.items()}


def preloading(
    wheel: Wheel,
    providers: tuple[Provider, ...],
    layout: Layout,
    loads: Mapping[str, Load],
    at_hand: AtHand,
) -> Preloading:
    """Find out what a shim can open before what, as `layout` installs the wheel.

    As far as the providers' libraries are at hand, what others need is opened before them, and
    those that do not load alone are known.
    """
    needs = dict(_needs(wheel, providers))
    if not needs:
        return Preloading()
    closures = {
        member: tuple(layout.members[path] for path in load.objects if path in layout.members)
        for member, load in loads.items()
    }
    openers = _openers(wheel)
    for source, opened in openers.items():
        behind = (member for library in opened for member in closures.get(library, ()))
        closures[source] = tuple(dict.fromkeys(behind))
    entry_modules = _entrances(wheel, closures, needs)
    never = _never(wheel)
    import_points = dict.fromkeys(door for each in entry_modules.values() for door in each)
    modules = {
        door: place for door in import_points if (place := module_name(door, wheel)) is not None
    }
    shims = _Shims(wheel=wheel, providers=providers, needs=needs, at_hand=at_hand)
    taken = {} if never else {module: shims.libraries(closures[module]) for module in modules}
    reasons = {
        module: why
        for module, found in taken.items()
        if (why := shims.cannot_preload_reason(found))
    }
    hooks = _hooks(wheel, {module: modules[module] for module in taken if module not in reasons})
    outside: dict[str, str] = {}
    for member in needs:
        bad = next((door for door in entry_modules[member] if door not in hooks), None)
        if never or not entry_modules[member]:
            outside[member] = never or "nothing tells what loads it"
        elif bad is not None:
            who = "it" if bad == member else f"`{bad}`, which loads it,"
            outside[member] = f"{who} {_why_not(bad, wheel, modules, reasons)}"
    return Preloading(
        needs=needs,
        entry_modules=entry_modules,
        hooks=hooks,
        outside=outside,
        before={
            module: tuple(
                dict.fromkeys(name for user in closures[module] for name in needs.get(user, ()))
            )
            for module in hooks
        },
        wanted=_wanted(hooks, taken),
        there=dict(_there(wheel)),
    )


# --- Who needs what, and how it comes to be loaded ------------------------------------------------


def _needs(wheel: Wheel, providers: tuple[Provider, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    shipped = {member.rpartition("/")[2] for member, elf in wheel.elfs.items() if elf.dynamic}
    for member, elf in wheel.elfs.items() if providers else ():
        taken = tuple(
            name
            for name in dict.fromkeys(elf.needed)
            if name not in shipped
            and (provider := provider_of(name, providers)) is not None
            and provider.directory is not None
        )
        if taken:
            yield member, taken


def _entrances(
    wheel: Wheel, closures: Mapping[str, tuple[str, ...]], needs: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """Return for each member the modules and programs that load it, or else the member itself.

    `closures` has also the sources that open libraries, and all that is loaded then.
    """
    users: dict[str, list[str]] = {}
    for root, closure in closures.items():
        for member in closure:
            users.setdefault(member, []).append(root)

    def is_entrance(root: str) -> bool:
        elf = wheel.elfs.get(root)
        first = elf is None or elf.is_executable or module_name(root, wheel) is not None
        return first or users.get(root) == [root]

    return {member: tuple(filter(is_entrance, users.get(member, ()))) for member in needs}


def _openers(wheel: Wheel) -> dict[str, tuple[str, ...]]:
    """Return the Python sources that open libraries of the wheel when they are imported."""
    places = {split(member, wheel): member for member in wheel.elfs}
    found: dict[str, tuple[str, ...]] = {}
    for source, openings in wheel.openings.items():
        key, place = split(source, wheel) or (Key.DATA, "")
        folder = place.rpartition("/")[0]
        paths = (
            posixpath.normpath(f"{folder}/{opening.name}").lstrip("/")
            for opening in openings
            if opening.on_import and opening.where is Where.SOURCE
        )
        opened = (
            places.get((other, path)) for path in paths for other in dict.fromkeys((key, *_SITE))
        )
        members = tuple(dict.fromkeys(member for member in opened if member is not None))
        if members and key in _SITE:
            found[source] = members
    return found


def module_name(member: str, wheel: Wheel) -> tuple[str, ...] | None:
    """Return the parts of the name by which Python imports a file, None where it does not.

    A package's own source is called `__init__` in it.
    """
    elf, place = wheel.elfs.get(member), split(member, wheel)
    if place is None or place[0] not in _SITE:
        return None
    *folders, name = place[1].split("/")
    stem = name.partition(".")[0]
    own = stem == "__init__" and elf is not None
    parts = tuple(folders) if own else (*folders, stem)
    if not parts or not all(part.isidentifier() for part in parts):
        return None
    if elf is None:
        return parts if name.endswith(".py") else None
    hooks = {f"PyInit_{parts[-1]}", f"PyModExport_{parts[-1]}"}
    known = hooks.intersection(elf.module_hooks) or not parts[-1].isascii()
    return parts if elf.module_hooks and known and not elf.is_executable else None


def _never(wheel: Wheel) -> str | None:
    """Return why no shim serves any object of the wheel."""
    libcs = {elf.libc for elf in wheel.elfs.values()}
    if Libc.MUSL in libcs | promised_libcs(wheel.name.platforms):
        return _MUSL
    if any(python.startswith(("py2", "cp2", "pp2")) for python in wheel.name.pythons):
        return "Python 2 does not run it"
    return None


def _why_not(
    door: str,
    wheel: Wheel,
    modules: Mapping[str, tuple[str, ...]],
    reasons: Mapping[str, str],
) -> str:
    """Return why no shim comes before an object, as what is said of it."""
    if door in wheel.elfs and wheel.elfs[door].is_executable:
        return "is a program"
    if door not in modules:
        return "is no extension module: whoever opens it does so by its path"
    return reasons.get(door, "is in no package with an `__init__.py` of the wheel's own")


# --- Where a shim stands --------------------------------------------------------------------------


def _hooks(wheel: Wheel, modules: Mapping[str, tuple[str, ...]]) -> dict[str, Hook]:
    """Choose packages that Python imports before these modules: few, and as far down as that goes.

    One package for all modules that have it in common. The outermost would do as well, but may be
    a folder that several distributions share, each with an `__init__.py` of its own.
    """
    places = ((member, split(member, wheel)) for member in wheel.sources)
    inits = {
        tuple(place[1].split("/")[:-1]): member
        for member, place in places
        if place is not None and place[0] in _SITE and place[1].endswith("/__init__.py")
    }

    @cache
    def serves(folder: tuple[str, ...]) -> bool:
        source = wheel.sources[inits[folder]] if folder in inits else None
        return source is not None and (has_hook(source) or with_hook(source) is not None)

    return {
        member: Hook(init=inits[folder], module=_relative(modules[member][len(folder) :]))
        for member, folder in _chosen(0, modules, serves)
    }


def _chosen(
    depth: int,
    modules: Mapping[str, tuple[str, ...]],
    serves: Callable[[tuple[str, ...]], bool],
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the package for each of `modules`, whose names are the same up to `depth`."""
    tops: dict[tuple[str, ...], dict[str, tuple[str, ...]]] = {}
    for member, parts in modules.items():
        if len(parts) > depth + 1:  # what is left is a module of the package above
            tops.setdefault(parts[: depth + 1], {})[member] = parts
    for top, below in tops.items():
        common = _common([parts[:-1] for parts in below.values()])
        above = (common[:n] for n in range(len(common), len(top) - 1, -1))
        package = next(filter(serves, above), None)
        if package is None:
            yield from _chosen(len(common), below, serves)
        else:
            yield from ((member, package) for member in below)


def _relative(parts: tuple[str, ...]) -> str:
    """`("sub", "_core")` -> `.sub._core`; for a package's own source `.sub`, or nothing."""
    return "".join(f".{part}" for part in parts).removesuffix(".__init__")


def _common(folders: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    shared: list[str] = []
    for parts in zip(*folders, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return tuple(shared)


def shim_of(init: str) -> str:
    """Return the member that is the shim of the package with this `__init__.py`."""
    return f"{init.removesuffix('__init__.py')}{PRELOAD}.py"


def _there(wheel: Wheel) -> Iterator[tuple[str, Shim]]:
    for member, source in wheel.sources.items():
        if member.endswith("/__init__.py") and shim_of(member) in wheel.sources:
            shim = read_shim(wheel.sources[shim_of(member)])
            if shim is not None and has_hook(source):
                yield member, shim


def opened_first(wheel: Wheel) -> dict[str, tuple[str, ...]]:
    """Return extension modules, and the libraries that shims of `wheel` open before each."""
    shims = {
        tuple((split(init, wheel) or ("", ""))[1].split("/")[:-1]): shim
        for init, shim in _there(wheel)
    }
    found: dict[str, tuple[str, ...]] = {}
    for member in wheel.elfs if shims else ():
        parts = module_name(member, wheel) or ()
        opened: dict[str, None] = {}
        for depth in range(1, len(parts) + 1):
            shim = shims.get(parts[:depth])
            if shim is not None:
                opened |= dict.fromkeys(shim.modules.get(_relative(parts[depth:]), ()))
        if opened:
            found[member] = tuple(opened)
    return found


# --- What it opens --------------------------------------------------------------------------------


class _Opened(NamedTuple):
    """A library that a shim opens."""

    source: Source
    library: Library | None
    """The library itself, where it is at hand."""


def _wanted(
    hooks: Mapping[str, Hook], opened: Mapping[str, Mapping[str, _Opened]]
) -> dict[str, Shim]:
    """Return the shim for each `__init__.py` of `hooks`."""
    wanted: dict[str, Shim] = {}
    for member, hook in hooks.items():
        libraries = {name: each.source for name, each in opened[member].items()}
        shim = Shim(modules={hook.module: tuple(libraries)}, libraries=libraries)
        wanted[hook.init] = wanted.get(hook.init, Shim()).including(shim)
    return wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shims:
    """What shims are made from."""

    wheel: Wheel
    providers: tuple[Provider, ...]
    needs: Mapping[str, tuple[str, ...]]
    at_hand: AtHand

    def libraries(self, closure: Iterable[str]) -> dict[str, _Opened]:
        """Return what objects of the wheel take from providers, in the order to open it in."""
        found: dict[str, _Opened] = {}
        for user in closure:
            for name in self.needs.get(user, ()):
                self._add(name, self.wheel.elfs[user], found, frozenset())
        return found

    def _add(self, name: str, user: Elf, found: dict[str, _Opened], above: frozenset[str]) -> None:
        """Add a library after those that it needs of the providers."""
        provider = provider_of(name, self.providers)
        if provider is None or provider.directory is None or name in {*found, *above}:
            return
        library = self.at_hand(name, user, provider)
        for each in library.elf.needed if library is not None else ():
            self._add(each, user, found, above | {name})
        source = Source(
            distribution=provider.name,
            requirement=self._asked(provider),
            scheme=provider.scheme,
            folder=provider.directory,
        )
        found[name] = _Opened(source=source, library=library)

    def cannot_preload_reason(self, found: Mapping[str, _Opened]) -> str | None:
        """Return why one of the libraries does not load alone, None where that is not known.

        Each is opened for itself, with RTLD_NOW as `ctypes` does it: a symbol of another one that
        it does not say it needs is not found then.
        """
        at_hand = {name: each.library for name, each in found.items() if each.library is not None}
        for name, library in at_hand.items() if len(at_hand) > 1 else ():
            own = _closure(name, at_hand)
            wanted = {
                symbol.name
                for symbol in library.elf.undefined
                if not symbol.weak and symbol.version is None
            }
            for each in own:
                wanted -= among(at_hand[each].exports.definitions, wanted)
            for other, another in at_hand.items():
                given = among(another.exports.definitions, wanted) if wanted else None
                if given:
                    return (
                        f"needs `{name}`, which does not load alone: it lacks `{min(given)}` of "
                        f"`{other}`"
                    )
        return None

    def _asked(self, provider: Provider) -> str:
        """Return what METADATA asks for where it says which versions, else what it could ask."""
        for text in self.wheel.metadata.requires_dist:
            asked = text.partition(";")[0].strip()
            if name_of(asked) == provider.name and set("<>=~!") & set(asked):
                return asked
        return provider.to_require


def _closure(name: str, libraries: Mapping[str, Library]) -> frozenset[str]:
    """Return the libraries that are loaded with one of them, itself among them."""
    found = {name}
    waiting = [name]
    while waiting:
        for each in libraries[waiting.pop()].elf.needed:
            if each in libraries and each not in found:
                found.add(each)
                waiting.append(each)
    return frozenset(found)
