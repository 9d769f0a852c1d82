"""What a rule may look at: the wheel, the settings, and the analyses of the wheel."""

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

from packaging.utils import canonicalize_name

from wheelfix.analysis.opened_libraries import libraries_called
from wheelfix.analysis.policy_verdict import Verdict
from wheelfix.analysis.preload_plan import PreloadPlan, plan_own_preloads, plan_preloads
from wheelfix.analysis.providers import ProviderUse, provider_uses
from wheelfix.analysis.simulated_loads import Definitions, LoadedWheel
from wheelfix.analysis.unresolved_symbols import Unresolved, find_unresolved
from wheelfix.analysis.unused_needed import Pruning, judge_needed
from wheelfix.budget import Budget
from wheelfix.elf.model import Elf, Libc
from wheelfix.grouping import grouped, values_by_key
from wheelfix.loader.as_needed import Library
from wheelfix.loader.install_schemes import Layout, Scheme, layouts, site_path
from wheelfix.loader.load_values import Environment, Load
from wheelfix.loader.loading import load_each
from wheelfix.loader.target_machines import Target, abi_of, environment_of, find, is_page, populate
from wheelfix.settings import Provider, Settings
from wheelfix.wheel.edits import Edit, predict
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.platform_tags import promised_libcs


class Stage(IntEnum):
    """When in a repair a rule runs."""

    BEFORE = 0
    """Before the graft, to remove what must not be grafted. Only rules of this stage run."""
    AFTER = 1
    """After the graft, for what depends on where files are installed. All rules run."""


class TargetLoads(NamedTuple):
    """What the wheel's objects load on one target machine."""

    target: Target
    loads: Mapping[str, Load]
    """By member."""
    members: Mapping[str, str]
    """Installed path -> member."""


@dataclass(frozen=True)
class Context:
    """Everything that a rule may look at; each analysis is computed once, on first use."""

    wheel: Wheel
    settings: Settings
    stage: Stage = Stage.AFTER
    verdict: Verdict | None = None
    """The platform tags that the wheel satisfies, by auditwheel's policies, where computed."""
    unmatched_excludes: tuple[str, ...] = ()
    """`--exclude` patterns that matched no library, known after the graft."""
    definitions: Definitions | None = None
    """Reads the definitions of the objects and of libraries around them; without it, DT_NEEDED and
    symbols are not judged."""
    origin: Wheel | None = None
    """The wheel before the edits of this stage."""
    budget: Budget = field(default_factory=Budget.of_files, compare=False)
    """What the analyses of the wheel spend."""

    def at_stage(self, stage: Stage) -> "Context":
        """Return the context in which `stage` of a repair starts, with the analyses made so far."""
        start = replace(self, stage=stage, origin=self.wheel)
        vars(start).update(vars(self) | vars(start))  # no analysis depends on the stage
        return start

    def after(self, edits: Sequence[Edit]) -> "Context":
        """Return the context of the wheel that `edits` make; it has no analyses yet."""
        if not edits:
            return self
        definitions = None if self.definitions is None else self.definitions.including(edits)
        return replace(self, wheel=predict(self.wheel, edits), definitions=definitions)

    @cached_property
    def layouts(self) -> tuple[Layout, ...]:
        """The ways in which installers may arrange the files."""
        return layouts(self.wheel)

    def schemes_of(self, member: str) -> list[Scheme]:
        """Return the install schemes that install `member`."""
        present = (layout for layout in self.layouts if member in layout.paths)
        return [scheme for layout in present for scheme in layout.schemes]

    @cached_property
    def loads(self) -> tuple[Mapping[str, Load], ...]:
        """For each layout, what each installed object loads when it is opened first."""
        return tuple(
            _loads(self.wheel, layout, environment_of(self.wheel, layout), self.budget)
            for layout in self.layouts
        )

    @cached_property
    def needed_found(self) -> tuple[Mapping[tuple[str, str], bool], ...]:
        """For each layout, whether each object, opened first, finds each DT_NEEDED entry."""
        return tuple(
            {
                (member, request.name): request.result is not None
                for member, load in loads.items()
                for request in load.requests
                if request.requester == layout.paths[member]
            }
            for layout, loads in zip(self.layouts, self.loads, strict=True)
        )

    @cached_property
    def needed_found_by_others(self) -> Mapping[tuple[str, str], bool]:
        """Whether each object finds each DT_NEEDED entry in every load of another object."""
        found: dict[tuple[str, str], bool] = {}
        for layout, loads in zip(self.layouts, self.loads, strict=True):
            for root, load in loads.items():
                for request in load.requests:
                    member = layout.members.get(request.requester or "")
                    if member is not None and member != root:
                        key = member, request.name
                        found[key] = found.get(key, True) and request.result is not None
        return found

    @cached_property
    def shipped(self) -> Mapping[str, Sequence[str]]:
        """File name -> the shared objects of that name in the wheel."""
        objects = (member for member, elf in self.wheel.elfs.items() if elf.dynamic)
        return grouped(objects, posixpath.basename)

    @cached_property
    def top_levels(self) -> Mapping[str, Sequence[str]]:
        """The members that are installed into site-packages, by their top-level names there."""
        names = (member.name for member in self.wheel.members)
        paths = ((site_path(name, self.wheel), name) for name in names)
        return values_by_key((path.partition("/")[0], name) for path, name in paths if path)

    @cached_property
    def dependents(self) -> Mapping[str, Sequence[str]]:
        """DT_NEEDED entry -> the objects of the wheel that have it."""
        elfs = self.wheel.elfs.items()
        return values_by_key(
            (name, member) for member, elf in elfs for name in dict.fromkeys(elf.needed)
        )

    @cached_property
    def provider_uses(self) -> tuple[ProviderUse, ...]:
        """The DT_NEEDED entries that providers serve."""
        return tuple(provider_uses(self.wheel, self.settings.provider))

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
    def target_loads(self) -> tuple[TargetLoads, ...]:
        """What the objects load on each of `targets`, in the most common layout."""
        if not self.targets or not self.layouts:
            return ()
        wheel, layout = self.wheel, self.layouts[0]
        bare = environment_of(wheel, layout)
        return tuple(
            TargetLoads(
                target=target,
                loads=_loads(
                    wheel, layout, populate(bare, target, layout.scheme, abi_of(wheel)), self.budget
                ),
                members=layout.members,
            )
            for target in self.targets
        )

    @cached_property
    def preload_plan(self) -> PreloadPlan:
        """Which libraries of providers a shim opens, or could open, before which modules."""
        providers = self.settings.provider
        if not providers or not self.layouts:
            return PreloadPlan()
        layout, loads = self.layouts[0], self.loads[0]
        return plan_preloads(self.wheel, providers, layout, loads, self._of_provider)

    @cached_property
    def included(self) -> Mapping[str, Sequence[str]]:
        """Name of each library of `include` -> the members with that file name or SONAME."""
        names = dict.fromkeys(map(posixpath.basename, self.settings.include))
        return {name: libraries_called(self.wheel, name) for name in names}

    @cached_property
    def own_preloads(self) -> PreloadPlan:
        """Which libraries of `include` a shim opens, or could open, before which sources."""
        elfs = self.wheel.elfs
        known = {
            name: next((m for m in some if elfs[m].soname == name), None)
            for name, some in self.included.items()
        }
        libraries = {name: member for name, member in known.items() if member is not None}
        found = self.definitions
        mentions: Mapping[str, tuple[str, ...]] = found.mentions({*libraries}) if found else {}
        return plan_own_preloads(self.wheel, libraries, mentions, self.layouts)

    def _of_provider(self, library: str, dependent: Elf, provider: Provider) -> Library | None:
        """Return `library` if it is in the wheel or directory given for `provider`."""
        found = self.definitions.host(library, dependent) if self.definitions is not None else None
        within = provider.path and found and found.path.startswith(f"{provider.path}/")
        return found if within else None

    @cached_property
    def loaded_wheel(self) -> LoadedWheel | None:
        """The wheel in its most common layout, among the libraries around it."""
        if self.definitions is None or not self.layouts:
            return None
        layout = self.layouts[0]
        return LoadedWheel.around(
            self.wheel,
            layout,
            environment_of(self.wheel, layout),
            self.definitions,
            self.budget,
        )

    @cached_property
    def unresolved_symbols(self) -> tuple[Unresolved, ...]:
        """The symbols that bind to no definition."""
        if self.loaded_wheel is None or self.definitions is None:
            return ()
        return find_unresolved(self.loaded_wheel, self.definitions)

    @cached_property
    def needed_verdicts(self) -> Pruning:
        """The DT_NEEDED entries that are unused, and those that are missing."""
        if self.loaded_wheel is None or self.definitions is None:
            return Pruning()
        return judge_needed(self.loaded_wheel, self.settings, self.definitions)


def applicable(wheel: Wheel, settings: Settings) -> dict[str, Target]:
    """Return the machines of `target` that have the wheel's C library, by their names there.

    Raises `SettingsError` for an unknown one.
    """
    libcs = _libcs(wheel)
    found = {name: find(name, wheel) for name in settings.target if not is_page(name)}
    return {name: target for name, target in found.items() if target.libc in libcs}


def _libcs(wheel: Wheel) -> frozenset[Libc]:
    """Return the C libraries that the wheel's tags name, or else those that its objects need."""
    promised = promised_libcs(wheel.name.platforms)
    needed = {libc for elf in wheel.elfs.values() if (libc := elf.libc) is not None}
    return frozenset(promised or needed or Libc)


def _loads(wheel: Wheel, layout: Layout, around: Environment, budget: Budget) -> dict[str, Load]:
    roots = [member for member, elf in wheel.elfs.items() if elf.dynamic and member in layout.paths]
    loads = load_each([layout.paths[member] for member in roots], around, budget)
    return dict(zip(roots, loads, strict=True))


@dataclass(frozen=True)
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
        found: dict[tuple[str, str], dict[str, Wheel]] = {}
        for wheel in self.wheels:
            name = wheel.name
            release = found.setdefault((canonicalize_name(name.distribution), name.version), {})
            release.setdefault(str(name), wheel)
        return tuple(tuple(wheels.values()) for wheels in found.values() if len(wheels) > 1)
