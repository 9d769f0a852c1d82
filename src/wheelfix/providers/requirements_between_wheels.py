"""Which wheels of one run require which others.

A wheel can use libraries of the wheels that its METADATA requires: they are installed wherever it
is. Everything here is computed from file names and requirements.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain, product
from typing import TYPE_CHECKING, TypeVar

from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelfix.elf.model import Libc
from wheelfix.grouping import flatten, values_by_key
from wheelfix.loader.install_schemes import interpreters
from wheelfix.named_tuple import NamedTuple
from wheelfix.providers.markers import applies, extras_of
from wheelfix.wheel.model import WheelName
from wheelfix.wheel.platform_tags import may_coexist, parse_platform_tag
from wheelfix.wheel.requirements import name_of, parsed

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_Node = TypeVar("_Node", bound=Hashable)
_ByExtra = Mapping[str, Sequence[tuple[_Node, "Requirement"]]]
"""What serves requirements, by the extra that adds them; "" for those that apply in any case."""


class Part(NamedTuple):
    """One wheel of a run: its file name and its requirements."""

    name: WheelName
    requires_dist: tuple[str, ...] = ()
    """The Requires-Dist entries of METADATA (PEP 508)."""

    @property
    def distribution(self) -> str:
        """The normalized name (PEP 503)."""
        return canonicalize_name(self.name.distribution)


class RequiredWheel(NamedTuple):
    """A wheel of the run that is installed wherever a certain other one is."""

    place: int
    """Its place among the wheels of the run."""
    through: str = ""
    """The distribution that requires it, for an indirect requirement; else empty."""


def required_wheels(parts: Sequence[Part]) -> tuple[tuple[RequiredWheel, ...], ...]:
    """Return for each of `parts` the others that it requires, directly or not, the nearest first.

    Wheels that require each other in a circle are left out of each other's. So whatever a wheel
    requires itself requires fewer wheels.
    """
    run = _Run(
        parts=parts,
        reach=tuple(_reach(part.name) for part in parts),
        present=values_by_key((part.distribution, index) for index, part in enumerate(parts)),
    )
    direct = [_direct_requirements(run, index) for index in range(len(parts))]
    reachable = [_walk(of_extras.get("", ()), direct.__getitem__) for of_extras in direct]
    return tuple(
        tuple(
            RequiredWheel(other, requirement.through)
            for other, requirement in reached.items()
            if index not in reachable[other]
        )
        for index, reached in enumerate(reachable)
    )


@lru_cache(16)
def applicable_requirements(part: Part) -> tuple["Requirement", ...]:
    """Return what a wheel requires of others on all Pythons of its tags.

    Of its extras, those count that it requires of itself: `demo[all]`.
    """
    by_extra, extras = _by_extra(part.requires_dist, part.name), [""]
    others: list[Requirement] = []
    for requirement in flatten(by_extra.get(extra, ()) for extra in extras):  # which grow
        if canonicalize_name(requirement.name) == part.distribution:
            asked = map(canonicalize_name, sorted(requirement.extras))
            extras += [extra for extra in asked if extra not in extras]
        else:
            others.append(requirement)
    return tuple(others)


@lru_cache(16)
def requirements_of_extras(part: Part) -> tuple["Requirement", ...]:
    """Return what a wheel requires of others only for one of its extras."""
    by_extra = _by_extra(part.requires_dist, part.name)
    return tuple(chain.from_iterable(by_extra[extra] for extra in by_extra if extra))


class IndirectRequirement(NamedTuple):
    """A requirement of a wheel, or of what the wheel requires."""

    requirement: "Requirement"
    through: str = ""
    """The distribution that the wheel requires for it; empty for a direct requirement."""


def all_requirements(
    part: Part, requires_dist: Mapping[str, Sequence[str]]
) -> Mapping[str, IndirectRequirement]:
    """Return what a wheel requires, directly or not, by name, the nearest first.

    `requires_dist` has the Requires-Dist entries of the distributions that are there, by name.
    """
    requirements: dict[str, IndirectRequirement] = {}
    for name, requirement in each_requirement(part, requires_dist):
        requirements.setdefault(name, requirement)
    return requirements


def each_requirement(
    part: Part, requires_dist: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, IndirectRequirement]]:
    """Yield all that `all_requirements` follows: several requirements may name a distribution."""

    @cache
    def below(name: str) -> _ByExtra[str]:
        of_name = _by_extra(requires_dist.get(name, ()), part.name)
        return {extra: list(map(_named, requirements)) for extra, requirements in of_name.items()}

    return _edges(map(_named, applicable_requirements(part)), below)


def _named(requirement: "Requirement") -> tuple[str, "Requirement"]:
    return canonicalize_name(requirement.name), requirement


class _Reach(NamedTuple):
    """The Pythons and machines that the tags of a wheel allow."""

    pythons: frozenset[str]
    tags: tuple[str, ...]
    """The platform tags for Linux."""
    machines: frozenset[str]
    libcs: frozenset[Libc | None]
    """None for a `linux` tag, which promises neither."""


class _Run(NamedTuple):
    """The wheels of a run."""

    parts: Sequence[Part]
    reach: Sequence[_Reach]
    present: Mapping[str, Sequence[int]]
    """Distribution -> the places of its wheels."""


def _reach(name: WheelName) -> _Reach:
    tags = {tag: parse_platform_tag(tag) for tag in name.platforms}
    linux = {tag: parsed for tag, parsed in tags.items() if parsed.has_objects}
    return _Reach(
        pythons=frozenset(interpreters(name)),
        tags=tuple(linux),
        machines=frozenset(parsed.arch for parsed in linux.values()),
        libcs=frozenset(parsed.libc for parsed in linux.values()),
    )


def _direct_requirements(run: _Run, index: int) -> _ByExtra[int]:
    """Return the wheels that a wheel requires directly."""
    part, reach = run.parts[index], run.reach[index]
    present = run.present.keys() - {part.distribution}
    by_extra: dict[str, list[tuple[int, Requirement]]] = {}
    texts = (text for text in part.requires_dist if name_of(text) in present)
    always = {"": applicable_requirements(part)}
    for extra, requirements in {**_by_extra(texts, part.name), **always}.items():
        for requirement in requirements:
            fitting = [
                other
                for other in run.present.get(canonicalize_name(requirement.name), ())
                if _contains(requirement, run.parts[other].name.version)
                and _covers(run.reach[other], reach)
            ]
            best = _best(run, fitting, index)
            if best is not None:
                by_extra.setdefault(extra, []).append((best, requirement))
    return by_extra


def _by_extra(requires_dist: Iterable[str], wheel: WheelName) -> dict[str, list["Requirement"]]:
    """Return the entries that apply in any case, as "", and those that an extra adds, by name."""
    by_extra: dict[str, list[Requirement]] = {}
    for requirement in parsed(requires_dist):
        for extra in [""] if applies(requirement, wheel) else extras_of(requirement):
            if applies(requirement, wheel, extra):
                by_extra.setdefault(extra, []).append(requirement)
    return by_extra


def _walk(
    direct: Iterable[tuple[_Node, "Requirement"]], below: Callable[[_Node], _ByExtra[_Node]]
) -> dict[_Node, IndirectRequirement]:
    """Return what is reached from `direct`, the nearest first."""
    reached: dict[_Node, IndirectRequirement] = {}
    for node, requirement in _edges(direct, below):
        reached.setdefault(node, requirement)
    return reached


def _edges(
    direct: Iterable[tuple[_Node, "Requirement"]], below: Callable[[_Node], _ByExtra[_Node]]
) -> Iterator[tuple[_Node, IndirectRequirement]]:
    """Yield what is reached from `direct`, breadth first; `below` is what each of them requires.

    Of that apply the entries without an extra, and those of the extras that are asked for.
    """
    asked: set[tuple[_Node, str]] = set()
    waiting = [(node, requirement, "") for node, requirement in direct]
    for node, requirement, through in waiting:  # grows during the walk
        yield node, IndirectRequirement(requirement, through)
        first = through or canonicalize_name(requirement.name)
        for extra in ("", *map(canonicalize_name, requirement.extras)):
            if (node, extra) not in asked:
                asked.add((node, extra))
                waiting += ((*other, first) for other in below(node).get(extra, ()))


def _covers(provider: _Reach, dependent: _Reach) -> bool:
    """Return whether the tags of `provider` allow all Pythons and machines of `dependent`."""
    return (
        provider.pythons >= dependent.pythons
        and provider.machines >= dependent.machines
        and any(may_coexist(*tags) for tags in product(provider.tags, dependent.tags))
    )


def _contains(requirement: "Requirement", version: str) -> bool:
    try:
        return requirement.specifier.contains(version, prereleases=True)
    except ValueError:  # InvalidVersion, or a number with thousands of digits
        return False


def _best(run: _Run, candidates: Sequence[int], dependent: int) -> int | None:
    """Return the newest of `candidates`, among several the one with tags most like `dependent`.

    None if there is none, or if two are equally good.
    """
    if not candidates:
        return None

    def rank(index: int) -> tuple[object, ...]:
        name, own = run.parts[index].name, run.parts[dependent].name
        digits = re.match(r"\d+", name.build or "")
        return (
            Version(name.version),
            int(digits[0]) if digits else -1,
            name.platforms == own.platforms,
            run.reach[index].libcs == run.reach[dependent].libcs,
            (name.pythons, name.abis) == (own.pythons, own.abis),
            -len(run.reach[index].pythons),
        )

    ranks = sorted(((rank(index), index) for index in candidates), reverse=True)
    return None if len(ranks) > 1 and ranks[0][0] == ranks[1][0] else ranks[0][1]
