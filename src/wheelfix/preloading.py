"""Before which modules of a wheel a shim can open libraries of other wheels, and where it stands.

What a process loads it has loaded by an extension module, a program, or a library that somebody
opens by its path. Of these, Python runs code of ours before extension modules alone; a library
behind them is served if nothing else leads to it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from wheelfix.elf import Elf, Libc
from wheelfix.layout import Key, Layout, split
from wheelfix.loader import Load
from wheelfix.preload import Shim, has_hook, read_shim, with_hook
from wheelfix.providers import Provider, provider_of
from wheelfix.wheel import PRELOAD, Wheel

Needs = Callable[[str, Elf, Provider], tuple[str, ...]]
"""What a library needs itself: asked with its name, its user, and the provider that has it."""

_SITE = (Key.PURELIB, Key.PLATLIB)
_MUSL = (
    "musl does not take a library that was opened by its path for one that is asked for by name"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """Where Python runs a shim before it imports a module."""

    init: str
    """The `__init__.py` of a package above the module."""
    module: str
    """The module, relative to that package: `._core`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preloading:
    """What shims open before the modules of a wheel, and what they could open."""

    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Member -> the libraries that it takes from providers itself."""
    entrances: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Member -> the objects by which a process comes to load it, itself among them."""
    hooks: Mapping[str, Hook] = field(default_factory=dict[str, Hook])
    """Extension module -> where a shim can run before it."""
    beyond: Mapping[str, str] = field(default_factory=dict[str, str])
    """Member that takes from providers -> why no shim comes before it."""
    wanted: Mapping[str, Shim] = field(default_factory=dict[str, Shim])
    """`__init__.py` member -> the shim that its package should have."""
    there: Mapping[str, Shim] = field(default_factory=dict[str, Shim])
    """`__init__.py` member -> the shim that it runs as it is."""

    def can_open(self, member: str) -> bool:
        """Return whether a shim can come before all that loads `member`."""
        return member in self.needs and member not in self.beyond

    def opens(self, member: str, libraries: Iterable[str]) -> bool:
        """Return whether the wheel's shims open `libraries` before all that loads `member`."""
        if not self.can_open(member):
            return False
        wanted = tuple(libraries)
        hooks = (self.hooks[entrance] for entrance in self.entrances[member])
        shims = ((self.there.get(hook.init), hook.module) for hook in hooks)
        return all(shim is not None and shim.opens(module, wanted) for shim, module in shims)


def preloading(
    wheel: Wheel,
    providers: tuple[Provider, ...],
    layout: Layout,
    loads: Mapping[str, Load],
    needs_of: Needs,
) -> Preloading:
    """Find out what a shim can open before what, as `layout` installs the wheel.

    `needs_of` tells what a provider's library needs itself, as far as that is at hand: what
    others need is opened before them.
    """
    needs = dict(_needs(wheel, providers))
    if not needs:
        return Preloading()
    closures = {
        member: tuple(layout.members[path] for path in load.objects if path in layout.members)
        for member, load in loads.items()
    }
    entrances = {member: tuple(_entrances(member, wheel, closures)) for member in needs}
    never = _never(wheel)
    doors = dict.fromkeys(door for each in entrances.values() for door in each)
    modules = {door: place for door in doors if (place := _module(door, wheel)) is not None}
    hooks = {} if never else _hooks(wheel, modules)
    beyond = {
        member: why
        for member in needs
        if (why := never or _beyond(member, entrances[member], wheel, modules, hooks))
    }
    return Preloading(
        needs=needs,
        entrances=entrances,
        hooks=hooks,
        beyond=beyond,
        wanted=_wanted(wheel, providers, hooks, needs, closures, needs_of),
        there=dict(_there(wheel)),
    )


# --- Who needs what, and how it comes to be loaded ------------------------------------------------


def _needs(
    wheel: Wheel, providers: tuple[Provider, ...]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    shipped = {member.rpartition("/")[2] for member, elf in wheel.elfs.items() if elf.dynamic}
    for member, elf in wheel.elfs.items() if providers else ():
        taken = tuple(
            name
            for name in dict.fromkeys(elf.needed)
            if name not in shipped and provider_of(name, providers) is not None
        )
        if taken:
            yield member, taken


def _entrances(
    member: str, wheel: Wheel, closures: Mapping[str, tuple[str, ...]]
) -> Iterator[str]:
    """Yield the modules and programs that load `member`, or the libraries that nobody loads."""
    users = [root for root, closure in closures.items() if member in closure]
    for root in users:
        if wheel.elfs[root].is_executable or _module(root, wheel) is not None:
            yield root
        elif not any(root in closures[other] for other in closures if other != root):
            yield root


def _module(member: str, wheel: Wheel) -> tuple[str, ...] | None:
    """Return the parts of the name by which Python imports an object, None where it does not."""
    elf, place = wheel.elfs[member], split(member, wheel)
    if place is None or place[0] not in _SITE or elf.is_executable or not elf.module_hooks:
        return None
    *folders, name = place[1].split("/")
    stem = name.partition(".")[0]
    parts = (*folders, *([] if stem == "__init__" else [stem]))
    named = any(hook.endswith(f"_{stem}") or not stem.isascii() for hook in elf.module_hooks)
    return parts if parts and named and all(part.isidentifier() for part in parts) else None


def _never(wheel: Wheel) -> str | None:
    """Return why no shim serves any object of the wheel."""
    if any(elf.libc is Libc.MUSL for elf in wheel.elfs.values()) or any(
        platform.startswith("musllinux") for platform in wheel.name.platforms
    ):
        return _MUSL
    if any(python.startswith(("py2", "cp2", "pp2")) for python in wheel.name.pythons):
        return "Python 2 does not run it"
    return None


def _beyond(
    member: str,
    entrances: Sequence[str],
    wheel: Wheel,
    modules: Mapping[str, tuple[str, ...]],
    hooks: Mapping[str, Hook],
) -> str | None:
    """Return why no shim comes before `member`, None where one does."""
    for entrance in entrances:
        itself = "it" if entrance == member else f"`{entrance}`, which loads it,"
        if wheel.elfs[entrance].is_executable:
            return f"{itself} is a program"
        if entrance not in modules:
            return f"{itself} is no extension module: whoever opens it does so by its path"
        if entrance not in hooks:
            return f"{itself} is in no package with an `__init__.py` of the wheel's own"
    return None if entrances else "nothing tells what loads it"


# --- Where a shim stands --------------------------------------------------------------------------


def _hooks(wheel: Wheel, modules: Mapping[str, tuple[str, ...]]) -> dict[str, Hook]:
    """Choose packages that Python imports before these modules: few, and as far down as that goes.

    One package for all modules that have it in common. The outermost would do as well, but may be
    a folder that several distributions share, each with an `__init__.py` of its own.
    """
    inits: dict[tuple[str, ...], str] = {}
    for member, source in wheel.sources.items():
        place = split(member, wheel)
        if place is None or place[0] not in _SITE or not member.endswith("/__init__.py"):
            continue
        if has_hook(source) or with_hook(source) is not None:
            inits[tuple(place[1].split("/")[:-1])] = member
    return dict(_hooked(0, dict(modules), inits))


def _hooked(
    depth: int, modules: Mapping[str, tuple[str, ...]], inits: Mapping[tuple[str, ...], str]
) -> Iterator[tuple[str, Hook]]:
    """Yield the hooks of modules whose names are the same up to `depth`."""
    tops: dict[tuple[str, ...], dict[str, tuple[str, ...]]] = {}
    for member, parts in modules.items():
        if len(parts) > depth + 1:  # what is left is a module of the package above
            tops.setdefault(parts[: depth + 1], {})[member] = parts
    for top, below in tops.items():
        common = _common([parts[:-1] for parts in below.values()])
        above = [common[:n] for n in range(len(common), len(top) - 1, -1)]
        found = next((folder for folder in above if folder in inits), None)
        if found is None:
            yield from _hooked(len(common), below, inits)
            continue
        for member, parts in below.items():
            yield member, Hook(init=inits[found], module="." + ".".join(parts[len(found) :]))


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


# --- What it opens --------------------------------------------------------------------------------


def _wanted(  # noqa: PLR0913, PLR0917 - what was found out before, each once
    wheel: Wheel,
    providers: tuple[Provider, ...],
    hooks: Mapping[str, Hook],
    needs: Mapping[str, tuple[str, ...]],
    closures: Mapping[str, tuple[str, ...]],
    needs_of: Needs,
) -> dict[str, Shim]:
    wanted: dict[str, Shim] = {}
    for member, hook in hooks.items():
        libraries: dict[str, tuple[str, str, str, str]] = {}
        for user in closures[member]:
            for name in needs.get(user, ()):
                _add(name, wheel.elfs[user], providers, libraries, needs_of, frozenset())
        if libraries:
            shim = Shim(modules={hook.module: tuple(libraries)}, libraries=libraries)
            known = wanted.get(hook.init)
            wanted[hook.init] = shim if known is None else known.including(shim)
    return wanted


def _add(  # noqa: PLR0913, PLR0917 - a walk, with what it carries along
    library: str,
    user: Elf,
    providers: tuple[Provider, ...],
    libraries: dict[str, tuple[str, str, str, str]],
    needs_of: Needs,
    above: frozenset[str],
) -> None:
    """Add a library after those that it needs of the providers."""
    provider = provider_of(library, providers)
    if provider is None or provider.directory is None or library in libraries or library in above:
        return
    for each in needs_of(library, user, provider):
        _add(each, user, providers, libraries, needs_of, above | {library})
    libraries[library] = (
        provider.name,
        provider.label,
        provider.scheme,
        provider.directory,
    )
