"""Providers and dependents among the wheels of one run.

A wheel can use libraries of the wheels that its METADATA requires: they are installed wherever it
is. Everything here is computed from file names and requirements.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from wheelfix.analysis.providers import read_requirement
from wheelfix.elf.model import Libc
from wheelfix.grouping import values_by_key
from wheelfix.loader.install_schemes import interpreters
from wheelfix.settings import name_of
from wheelfix.wheel.model import WheelName
from wheelfix.wheel.platform_tags import may_coexist, parse_platform_tag


class Part(NamedTuple):
    """One wheel of a run: its file name and its requirements."""

    name: WheelName
    requires_dist: tuple[str, ...] = ()
    """The Requires-Dist entries of METADATA (PEP 508)."""

    @property
    def distribution(self) -> str:
        """The normalized name (PEP 503)."""
        return canonicalize_name(self.name.distribution)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderWheel:
    """A wheel of the run that is installed wherever a certain other one is."""

    index: int
    """Its place among the wheels of the run."""
    through: str = ""
    """The distribution that requires it, for an indirect requirement; else empty."""
    same_product: bool = False
    """Whether both are released together: each requirement between them pins the version."""


class SetMember(NamedTuple):
    """The relation of one wheel to the others of the run."""

    providers: tuple[ProviderWheel, ...] = ()
    """The nearest first."""
    depth: int = 0
    """The length of the longest chain of providers above it."""
    messages: tuple[str, ...] = ()
    """Why a required wheel of the run is no provider."""


def set_members(parts: Sequence[Part]) -> tuple[SetMember, ...]:
    """Return the relation of each of `parts` to the others, in their order.

    Wheels that require each other in a circle are no providers of each other.
    """
    if len({part.distribution for part in parts}) < 2:
        return (SetMember(),) * len(parts)
    run = _Run(
        parts=parts,
        reach=tuple(_reach(part.name) for part in parts),
        present=values_by_key((part.distribution, index) for index, part in enumerate(parts)),
    )
    required = [_required(run, index) for index in range(len(parts))]
    reachable = [_reachable(required, index) for index in range(len(parts))]
    edges = [
        {other: same for other, same in providers.items() if index not in reachable[other]}
        for index, (providers, _) in enumerate(required)
    ]
    depths: dict[int, int] = {}
    for index in TopologicalSorter(dict(enumerate(edges))).static_order():
        depths[index] = 1 + max((depths[other] for other in edges[index]), default=-1)
    return tuple(
        SetMember(
            providers=tuple(_providers(parts, edges, index)),
            depth=depths[index],
            messages=(*messages, *_circles(parts, providers, edges[index])),
        )
        for index, (providers, messages) in enumerate(required)
    )


def meet(one: WheelName, other: WheelName) -> bool:
    """Return whether both wheels can be installed on some machine and Python."""
    return _meets(_reach(one), _reach(other))


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


_Required = tuple[dict[int, bool], list[str]]
"""Place of each required wheel -> whether it is of the same product; and messages."""


def _reach(name: WheelName) -> _Reach:
    tags = {tag: parse_platform_tag(tag) for tag in name.platforms}
    linux = {tag: parsed for tag, parsed in tags.items() if parsed.is_linux}
    return _Reach(
        pythons=frozenset(interpreters(name)),
        tags=tuple(linux),
        machines=frozenset(parsed.arch for parsed in linux.values()),
        libcs=frozenset(parsed.libc for parsed in linux.values()),
    )


def _required(run: _Run, index: int) -> _Required:
    """Return the wheels that a wheel requires directly, and why others are no providers."""
    part = run.parts[index]
    others = run.present.keys() - {part.distribution}
    providers: dict[int, bool] = {}
    messages: list[str] = []
    for requirement in _requirements(part, others):
        named = run.present[canonicalize_name(requirement.name)]
        there = [other for other in named if _meets(run.reach[other], run.reach[index])]
        if not there or not _applies(requirement, run.reach[index]):
            continue
        fit = [other for other in there if _contains(requirement, run.parts[other].name.version)]
        covering = [other for other in fit if _covers(run.reach[other], run.reach[index])]
        chosen = _best(run, covering, index)
        same = {
            other: _same_product(requirement, run.parts[other].name.version, part.name.version)
            for other in there
        }
        if chosen is not None:
            providers[chosen] = providers.get(chosen, False) or same[chosen]
        elif any(same.values()):
            messages.append(_not_shared(run, there, fit, covering, requirement))
    return providers, messages


def _requirements(part: Part, present: Container[str]) -> Iterator[Requirement]:
    for text in part.requires_dist:
        if name_of(text) in present:
            with suppress(ValueError):  # reported by the rules about METADATA
                yield read_requirement(text)


def _meets(one: _Reach, other: _Reach) -> bool:
    """Return whether some machine and Python accept both."""
    machines = (may_coexist(tag, theirs) for tag in one.tags for theirs in other.tags)
    return not one.pythons.isdisjoint(other.pythons) and any(machines)


def _covers(provider: _Reach, dependent: _Reach) -> bool:
    """Return whether the tags of `provider` allow all Pythons and machines of `dependent`."""
    return provider.pythons >= dependent.pythons and provider.machines >= dependent.machines


def _applies(requirement: Requirement, dependent: _Reach) -> bool:
    """Return whether the requirement holds on all Pythons of the wheel, without extras."""
    marker = requirement.marker
    if marker is None:
        return True
    machine = min(dependent.machines, default="")
    common = {"extra": "", "sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
    try:
        return all(
            marker.evaluate({**common, "platform_machine": machine, **_markers(python)})
            for python in dependent.pythons
        )
    except ValueError:  # an undefined comparison, such as `python_version < "x"`
        return False


def _markers(python: str) -> dict[str, str]:
    """Return the environment markers of an interpreter, `pypy3.9` or `python3.13t`."""
    pypy = python.startswith("pypy")
    version = python.removeprefix("pypy").removeprefix("python").removesuffix("t")
    return {
        "python_version": version,
        "python_full_version": f"{version}.0",
        "implementation_name": "pypy" if pypy else "cpython",
        "platform_python_implementation": "PyPy" if pypy else "CPython",
    }


def _contains(requirement: Requirement, version: str) -> bool:
    try:
        return requirement.specifier.contains(version, prereleases=True)
    except InvalidVersion:
        return False


def _same_product(requirement: Requirement, provider: str, dependent: str) -> bool:
    """Return whether equal versions or a pinned requirement show that both are one release."""
    return provider == dependent or any(
        clause.operator == "===" or (clause.operator == "==" and not clause.version.endswith(".*"))
        for clause in requirement.specifier
    )


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


def _not_shared(
    run: _Run,
    there: Sequence[int],
    fit: Sequence[int],
    covering: Sequence[int],
    requirement: Requirement,
) -> str:
    shown = f"`{run.parts[(fit or there)[0]].name}`"
    if not fit:
        why = f"{shown} does not satisfy METADATA's requirement `{requirement}`"
    elif not covering:
        why = f"{shown} does not support all Pythons and machines of this wheel"
    else:
        why = f"{len(covering)} of its wheels fit equally well"
    return f"nothing is shared with {canonicalize_name(requirement.name)}: {why}"


def _reachable(required: Sequence[_Required], start: int) -> frozenset[int]:
    found: set[int] = set()
    waiting = list(required[start][0])
    while waiting:
        index = waiting.pop()
        if index not in found:
            found.add(index)
            waiting.extend(required[index][0])
    return frozenset(found)


def _providers(
    parts: Sequence[Part], edges: Sequence[Mapping[int, bool]], start: int
) -> Iterator[ProviderWheel]:
    """Yield all wheels that are installed with a wheel, breadth first."""
    seen = {start}
    waiting = [
        ProviderWheel(index=index, same_product=same) for index, same in edges[start].items()
    ]
    for provider in waiting:  # grows during the walk
        if provider.index in seen:
            continue
        seen.add(provider.index)
        yield provider
        through = provider.through or parts[provider.index].distribution
        waiting.extend(
            ProviderWheel(index=index, through=through, same_product=same and provider.same_product)
            for index, same in edges[provider.index].items()
        )


def _circles(
    parts: Sequence[Part], required: Iterable[int], kept: Mapping[int, bool]
) -> Iterator[str]:
    for index in required:
        if index not in kept:
            name = parts[index].distribution
            yield f"nothing is shared with {name}: the two require each other in a circle"
