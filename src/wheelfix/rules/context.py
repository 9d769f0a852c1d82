"""What a rule is: a pure function from a wheel in its context to findings."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

from wheelfix.analysis.preload_plan import Preloading, preloading
from wheelfix.analysis.unresolved_symbols import Unresolved, unresolved
from wheelfix.analysis.unused_needed import Definitions, LoadedWheel, Pruning, judge
from wheelfix.analysis.verdict import Verdict
from wheelfix.elf.model import Elf, Libc
from wheelfix.loader.as_needed import Library
from wheelfix.loader.install_schemes import Layout, layouts
from wheelfix.loader.installed_wheel import environment
from wheelfix.loader.model import Environment, Load
from wheelfix.loader.search import load_each
from wheelfix.loader.targets import Target, abi_of, find, is_page, populate
from wheelfix.settings import Provider, Settings
from wheelfix.wheel.model import Wheel, normalized
from wheelfix.wheel.platform_tags import promised_libcs


class Stage(IntEnum):
    """Where in the pipeline the rules stand."""

    BEFORE = 0
    """Before the graft: what must not be grafted goes. Only rules of this stage run."""
    AFTER = 1
    """After it: every object gets the search path that is right where it is installed."""


class Trial(NamedTuple):
    """One machine of `target`, and what the wheel's objects load there."""

    target: Target
    loads: Mapping[str, Load]
    """By member."""
    places: Mapping[str, str]
    """Installed path -> member."""


@dataclass(frozen=True)
class Context:
    """Everything a rule may look at. Derived views are computed once and shared by all rules."""

    wheel: Wheel
    settings: Settings
    stage: Stage = Stage.AFTER
    verdict: Verdict | None = None
    """auditwheel's verdict on this very wheel, where it was asked."""
    unmatched_excludes: tuple[str, ...] = ()
    """`--exclude` patterns that no library matched, known once the graft is done."""
    definitions: Definitions | None = None
    """What the objects and the libraries around them define; without it, NEEDED is not judged."""
    origin: Wheel | None = None
    """The wheel before the edits of this stage."""
    against: tuple[Wheel, ...] = ()
    """Wheels of an earlier release, to compare sizes with."""

    @cached_property
    def layouts(self) -> tuple[Layout, ...]:
        """The ways in which an installer may arrange the files."""
        return layouts(self.wheel)

    @cached_property
    def loads(self) -> tuple[Mapping[str, Load], ...]:
        """For each layout, what each installed object loads when it is the first to be opened."""
        return tuple(
            _loads(self.wheel, layout, environment(self.wheel, layout)) for layout in self.layouts
        )

    @cached_property
    def shipped(self) -> Mapping[str, tuple[str, ...]]:
        """File name -> the shared objects of that name in the wheel."""
        shipped: dict[str, tuple[str, ...]] = {}
        for member, elf in self.wheel.elfs.items():
            if elf.dynamic:
                name = member.rpartition("/")[2]
                shipped[name] = (*shipped.get(name, ()), member)
        return shipped

    @cached_property
    def targets(self) -> tuple[Target, ...]:
        """The machines of `target` with a C library that the wheel is for.

        Raises `SettingsError` for an unknown one.
        """
        libcs = _libcs(self.wheel)
        found = (find(name, self.wheel) for name in self.settings.target if not is_page(name))
        return tuple(target for target in found if target.libc in libcs)

    @cached_property
    def trials(self) -> tuple[Trial, ...]:
        """What the objects load on each of `targets`, as most installers lay the wheel."""
        if not self.targets or not self.layouts:
            return ()
        wheel, layout = self.wheel, self.layouts[0]
        bare = environment(wheel, layout)
        machine = abi_of(wheel)

        def loads(target: Target) -> Mapping[str, Load]:
            return _loads(wheel, layout, populate(bare, target, layout.scheme, machine))

        return tuple(
            Trial(target=target, loads=loads(target), places=layout.members)
            for target in self.targets
        )

    @cached_property
    def preloading(self) -> Preloading:
        """Which libraries of providers a shim opens, or could open, before which modules."""
        providers = self.settings.provider
        if not providers or not self.layouts:
            return Preloading()
        return preloading(self.wheel, providers, self.layouts[0], self.loads[0], self._of_provider)

    def _of_provider(self, library: str, user: Elf, provider: Provider) -> Library | None:
        """Return a library of a provider that is at hand."""
        found = self.definitions.host(library, user) if self.definitions is not None else None
        within = provider.at_hand and found and found.path.startswith(f"{provider.at_hand}/")
        return found if within else None

    @cached_property
    def world(self) -> LoadedWheel | None:
        """The wheel among the libraries of this machine, as most installers lay it."""
        if self.definitions is None or not self.layouts:
            return None
        layout = self.layouts[0]
        return LoadedWheel.around(
            self.wheel, layout, environment(self.wheel, layout), self.definitions
        )

    @cached_property
    def unresolved(self) -> tuple[Unresolved, ...]:
        """The symbols that bind to nothing."""
        if self.world is None or self.definitions is None:
            return ()
        return unresolved(self.wheel, self.world, self.definitions)

    @cached_property
    def pruning(self) -> Pruning:
        """What could go from DT_NEEDED, and what is missing there, as most installers lay it."""
        if self.definitions is None:
            return Pruning()
        return judge(self.wheel, lambda: self.world, self.settings, self.definitions)


def _libcs(wheel: Wheel) -> frozenset[Libc]:
    """Return the C libraries that the wheel's tags promise, or else that its objects need."""
    promised = promised_libcs(wheel.name.platforms)
    needed = {libc for elf in wheel.elfs.values() if (libc := elf.libc) is not None}
    return frozenset(promised or needed or Libc)


def _loads(wheel: Wheel, layout: Layout, world: Environment) -> dict[str, Load]:
    roots = [member for member, elf in wheel.elfs.items() if elf.dynamic and member in layout.paths]
    loads = load_each([layout.paths[member] for member in roots], world)
    return dict(zip(roots, loads, strict=True))


@dataclass(frozen=True)
class SetContext:
    """Everything a rule about several wheels may look at."""

    wheels: tuple[Wheel, ...]
    settings: Settings
    stale: frozenset[tuple[str, str]] = frozenset()
    """Ignores that kept nothing from counting: the selector, and the glob of the files or none."""

    @cached_property
    def releases(self) -> tuple[tuple[Wheel, ...], ...]:
        """The wheels by distribution and version; a wheel that stands alone is left out.

        Of files of one name, which are one wheel in several states, it is the first.
        """
        found: dict[tuple[str, str], dict[str, Wheel]] = {}
        for wheel in self.wheels:
            name = wheel.name
            release = found.setdefault((normalized(name.distribution), name.version), {})
            release.setdefault(str(name), wheel)
        return tuple(tuple(wheels.values()) for wheels in found.values() if len(wheels) > 1)
