"""Which of several wheels form one product, and which of them has the libraries for which.

A wheel takes libraries from those that its METADATA asks for: they are installed wherever it is.
Nothing is looked at here but file names and requirements.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from wheelfix.elf.model import Libc
from wheelfix.loader.install_schemes import interpreters
from wheelfix.settings import name_of
from wheelfix.wheel.model import WheelName
from wheelfix.wheel.platform_tags import parse_platform_tag


class Part(NamedTuple):
    """One of the wheels of a run: what says whether it forms a product with others."""

    name: WheelName
    requires_dist: tuple[str, ...] = ()
    """As METADATA has them (PEP 508)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A wheel of the run that is installed wherever another one is."""

    index: int
    """Which of the wheels it is."""
    through: str = ""
    """The distribution that asks for it, where METADATA does so by way of that one only."""
    same_product: bool = False
    """Whether each requirement on the way pins a version, or names the one that asks for it."""


class Place(NamedTuple):
    """How one wheel stands to the others."""

    owners: tuple[Owner, ...] = ()
    """The nearest first."""
    depth: int = 0
    """How many wheels come before it, one after the other."""
    messages: tuple[str, ...] = ()
    """Why it is by itself, where its requirements say otherwise."""


def places(parts: Sequence[Part]) -> tuple[Place, ...]:
    """Return how each of `parts` stands to the others, in their order.

    Wheels that require each other in a circle own nothing of each other.
    """
    if len({canonicalize_name(part.name.distribution) for part in parts}) < 2:
        return (Place(),) * len(parts)
    among = _Among(
        parts=parts, reach=tuple(_reach(part.name) for part in parts), present=_by_name(parts)
    )
    asked = [_asked(among, index) for index in range(len(parts))]
    reachable = [_reachable(asked, index) for index in range(len(parts))]
    edges = [
        {other: same for other, same in each.owners.items() if index not in reachable[other]}
        for index, each in enumerate(asked)
    ]
    depths: dict[int, int] = {}
    return tuple(
        Place(
            owners=tuple(_owners(parts, edges, index)),
            depth=_depth(edges, index, depths),
            messages=(*asked[index].messages, *_circles(parts, asked[index].owners, edges[index])),
        )
        for index in range(len(parts))
    )


def meet(one: WheelName, other: WheelName) -> bool:
    """Whether there are machines and Pythons on which both wheels can be installed."""
    return _meets(_reach(one), _reach(other))


# --- Who is asked for -----------------------------------------------------------------------------


class _Reach(NamedTuple):
    """Where the tags of a wheel allow it."""

    pythons: frozenset[str]
    machines: frozenset[str]
    libcs: frozenset[Libc | None]
    """None for a `linux` tag, which promises neither."""


class _Among(NamedTuple):
    parts: Sequence[Part]
    reach: Sequence[_Reach]
    present: Mapping[str, Sequence[int]]
    """By distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The wheels that one asks for itself."""

    owners: Mapping[int, bool] = field(default_factory=dict[int, bool])
    """Which wheel -> whether it is of the same product."""
    messages: tuple[str, ...] = ()


def _reach(name: WheelName) -> _Reach:
    tags = [tag for tag in map(parse_platform_tag, name.platforms) if tag.is_linux]
    return _Reach(
        pythons=frozenset(interpreters(name)),
        machines=frozenset(tag.arch for tag in tags),
        libcs=frozenset(tag.libc for tag in tags),
    )


def _by_name(parts: Iterable[Part]) -> Mapping[str, Sequence[int]]:
    found: dict[str, list[int]] = {}
    for index, part in enumerate(parts):
        found.setdefault(canonicalize_name(part.name.distribution), []).append(index)
    return found


def _asked(among: _Among, index: int) -> _Asked:
    part = among.parts[index]
    others = among.present.keys() - {canonicalize_name(part.name.distribution)}
    owners: dict[int, bool] = {}
    messages: list[str] = []
    for requirement in _requirements(part, others):
        named = among.present[canonicalize_name(requirement.name)]
        there = [n for n in named if _meets(among.reach[n], among.reach[index])]
        if not there or not _applies(requirement, among.reach[index]):
            continue
        fit = [n for n in there if _contains(requirement, among.parts[n].name.version)]
        serving = [n for n in fit if _serves(among.reach[n], among.reach[index])]
        chosen = _best(among, serving, index)
        own = part.name.version
        if chosen is not None:
            same = _of_one(requirement, among.parts[chosen].name.version, own)
            owners[chosen] = owners.get(chosen, False) or same
        elif any(_of_one(requirement, among.parts[n].name.version, own) for n in there):
            messages.append(_alone(among, there, fit, serving, requirement))
    return _Asked(owners=owners, messages=tuple(messages))


def _requirements(part: Part, present: Container[str]) -> Iterator[Requirement]:
    for text in part.requires_dist:
        if name_of(text) not in present:
            continue
        try:
            yield Requirement(text)
        except InvalidRequirement:
            continue  # rules about METADATA say so


def _meets(owner: _Reach, user: _Reach) -> bool:
    """Whether there are machines and Pythons for both."""
    same_libc = None in owner.libcs | user.libcs or owner.libcs & user.libcs
    return bool(owner.machines & user.machines and owner.pythons & user.pythons and same_libc)


def _serves(owner: _Reach, user: _Reach) -> bool:
    """Whether `owner` can be installed wherever `user` can, as far as tags tell."""
    return owner.pythons >= user.pythons and owner.machines >= user.machines


def _applies(requirement: Requirement, user: _Reach) -> bool:
    """Whether the requirement holds on every Python of the wheel, without extras (PEP 508)."""
    marker = requirement.marker
    if marker is None:
        return True
    machine = min(user.machines, default="")
    common = {"extra": "", "sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
    try:
        return all(
            marker.evaluate({**common, "platform_machine": machine, **_described(python)})
            for python in user.pythons
        )
    except ValueError:  # a comparison that makes no sense
        return False


def _described(python: str) -> dict[str, str]:
    """Return the markers of an interpreter by its directory name: `pypy3.9`, `python3.13t`."""
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


def _of_one(requirement: Requirement, owner: str, user: str) -> bool:
    """Whether a requirement says that both wheels are released together."""
    return owner == user or any(
        each.operator == "===" or (each.operator == "==" and not each.version.endswith(".*"))
        for each in requirement.specifier
    )


def _best(among: _Among, candidates: Sequence[int], user: int) -> int | None:
    """Return the newest of `candidates`, and of those the one tagged most like `user`.

    None where there is none, or no way to tell.
    """
    if not candidates:
        return None

    def rank(index: int) -> tuple[object, ...]:
        name, own = among.parts[index].name, among.parts[user].name
        digits = re.match(r"\d+", name.build or "")
        return (
            Version(name.version),
            int(digits[0]) if digits else -1,
            name.platforms == own.platforms,
            among.reach[index].libcs == among.reach[user].libcs,
            (name.pythons, name.abis) == (own.pythons, own.abis),
            -len(among.reach[index].pythons),
        )

    ranks = sorted(((rank(index), index) for index in candidates), reverse=True)
    return None if len(ranks) > 1 and ranks[0][0] == ranks[1][0] else ranks[0][1]


def _alone(
    among: _Among,
    there: Sequence[int],
    fit: Sequence[int],
    serving: Sequence[int],
    requirement: Requirement,
) -> str:
    shown = f"`{among.parts[(fit or there)[0]].name}`"
    if not fit:
        why = f"{shown} is not what METADATA asks for: `{requirement}`"
    elif not serving:
        why = f"{shown} is not for all Pythons and machines that this wheel is for"
    else:
        why = f"there are {len(serving)} wheels of it, and no way to tell which one is meant"
    return f"nothing is shared with {canonicalize_name(requirement.name)}: {why}"


# --- Chains and circles ---------------------------------------------------------------------------


def _reachable(asked: Sequence[_Asked], start: int) -> frozenset[int]:
    found: set[int] = set()
    waiting = list(asked[start].owners)
    while waiting:
        index = waiting.pop()
        if index not in found:
            found.add(index)
            waiting.extend(asked[index].owners)
    return frozenset(found)


def _owners(
    parts: Sequence[Part], edges: Sequence[Mapping[int, bool]], start: int
) -> Iterator[Owner]:
    """Yield all that is installed with a wheel, breadth first."""
    seen = {start}
    waiting = [Owner(index=index, same_product=same) for index, same in edges[start].items()]
    for owner in waiting:  # grows as it goes
        if owner.index in seen:
            continue
        seen.add(owner.index)
        yield owner
        through = owner.through or canonicalize_name(parts[owner.index].name.distribution)
        waiting.extend(
            Owner(index=index, through=through, same_product=same and owner.same_product)
            for index, same in edges[owner.index].items()
        )


def _depth(edges: Sequence[Mapping[int, bool]], start: int, known: dict[int, int]) -> int:
    """Return the length of the longest chain above a wheel, without recursion."""
    waiting = [start]
    while waiting:
        index = waiting[-1]
        missing = [other for other in edges[index] if other not in known]
        if missing:
            waiting.extend(missing)
            continue
        known[index] = 1 + max((known[other] for other in edges[index]), default=-1)
        waiting.pop()
    return known[start]


def _circles(
    parts: Sequence[Part], asked: Iterable[int], kept: Mapping[int, bool]
) -> Iterator[str]:
    for index in asked:
        if index not in kept:
            name = canonicalize_name(parts[index].name.distribution)
            yield f"nothing is shared with {name}: the two require each other, in a circle"
