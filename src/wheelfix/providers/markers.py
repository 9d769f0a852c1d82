"""What a wheel requires, and in which environments that holds (PEP 508, "Environment Markers").

What the extras of well-known distributions require is in `well-known-extras.json`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import product
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from wheelfix.grouping import flatten, values_by_key
from wheelfix.loader.install_schemes import interpreters, python_version
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.system.packaged_text import read_text
from wheelfix.wheel.model import Wheel, WheelName
from wheelfix.wheel.platform_tags import parse_platform_tag
from wheelfix.wheel.requirements import allows_from, name_of, parsed

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_OPEN = ("platform_release", "platform_version", "python_full_version", "implementation_version")
"""The markers that no tag decides."""
Environment = Mapping[str, str]
"""The markers of one interpreter."""
_LITERAL = lazy_pattern(r"""["']([^"']*)["']""")
_MOST = 64
"""Environments for one marker; one that names more values than these is not judged."""
_EXTRA_NAMES = lazy_pattern(r"""extra\s*==\s*["']([^"']+)["']|["']([^"']+)["']\s*==\s*extra\b""")


@lru_cache(16)
def environments(name: WheelName) -> Sequence[Environment]:
    """Return the environments on Linux that the tags of a wheel allow."""
    tags = map(parse_platform_tag, name.platforms)
    machines = sorted({tag.arch for tag in tags if tag.has_objects}) or [""]
    return [_environment(*pair) for pair in product(interpreters(name), machines)]


def _environment(python: str, machine: str) -> Environment:
    """Return the markers of an interpreter, `pypy3.9` or `python3.13t`."""
    pypy = python.startswith("pypy")
    version = python_version(python)
    return {
        "implementation_name": "pypy" if pypy else "cpython",
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "PyPy" if pypy else "CPython",
        "platform_system": "Linux",
        "python_version": version,
        "sys_platform": "linux",
    }


def extras_of(requirement: "Requirement") -> list[str]:
    """Return the normalized names of the extras that a marker names, each once."""
    found = flatten(_EXTRA_NAMES.findall(str(requirement.marker)))
    return [*dict.fromkeys(canonicalize_name(name) for name in found if name)]


def _answers(requirement: "Requirement", environment: Environment, extra: str) -> frozenset[bool]:
    """Return whether a requirement holds, with one extra or none: both if that is not decided.

    Nothing if it cannot be judged.
    """
    if requirement.marker is None:
        return frozenset({True})
    text = str(requirement.marker)
    undecided = {name: start for name, start in _undecided(environment) if name in text}
    values = [_values(text, start) for start in undecided.values()]
    if prod(map(len, values)) > _MOST:
        return frozenset({True, False})
    try:
        return frozenset(
            requirement.marker.evaluate(
                {**environment, **dict(zip(undecided, chosen, strict=True)), "extra": extra}
            )
            for chosen in product(*values)
        )
    except (ValueError, KeyError):  # an undefined comparison, or a name of lock files alone
        return frozenset()


def _undecided(environment: Environment) -> Iterator[tuple[str, str]]:
    """Yield the markers that an environment leaves open, each with how its values begin."""
    release = f"{environment['python_version']}."
    is_own = environment["implementation_name"] == "cpython"
    starts = {"python_full_version": release, "implementation_version": release * is_own}
    for name in (*_OPEN, "platform_machine"):
        if not environment.get(name):
            yield name, starts.get(name, "")


def _values(text: str, start: str) -> list[str]:
    """Return the values that a marker can tell apart: those that it names, before, and after."""
    named = {value for value in _LITERAL.findall(text) if value.startswith(start)}
    return sorted({*(v for v in named if "*" not in v), f"{start}0", f"{start}99"})


def applies(requirement: "Requirement", name: WheelName, extra: str = "") -> bool:
    """Return whether a requirement holds in all environments of a wheel.

    What the tags do not decide counts as if it held: no user is known to lack it.
    """
    return all(True in _answers(requirement, each, extra) for each in environments(name))


def surely_applies(requirement: "Requirement", name: WheelName) -> bool:
    """Return whether a requirement without extras holds in every environment of a wheel."""
    return all(_answers(requirement, each, "") == frozenset({True}) for each in environments(name))


@cache
def _well_known() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    tables = json.loads(read_text("wheelfix.providers", "well-known-extras.json"))
    return values_by_key((table["name"], table) for table in tables)


@lru_cache(1 << 8)
def with_extras(requires: tuple[str, ...]) -> Sequence[str]:
    """Return some requirements, and what the extras in them require, under the same markers."""
    known = parsed(text for text in requires if name_of(text) in _well_known())
    return (*requires, *dict.fromkeys(flatten(map(_required_by, known))))


def _required_by(requirement: "Requirement") -> Iterator[str]:
    extras = {*map(canonicalize_name, requirement.extras)}
    for table in _well_known()[canonicalize_name(requirement.name)]:
        major = int(table["source"].split()[-1].partition(".")[0])
        for name in flatten(table["extras"].get(extra, ()) for extra in sorted(extras)):
            if allows_from(requirement, major, major + 1):
                yield f"{name}; {requirement.marker}" if requirement.marker else name


def requirements_on(wheel: Wheel, distribution: str) -> list["Requirement"]:
    """Return what METADATA requires of `distribution`, by extras, too: own and well-known ones.

    One that holds in no environment of the wheel is left out.
    """
    every = with_extras(wheel.metadata.requires_dist)
    texts = (text for text in every if name_of(text) == distribution)
    return [requirement for requirement in parsed(texts) if may_hold(requirement, wheel.name)]


def may_hold(
    requirement: "Requirement", name: WheelName, known: Environment = MappingProxyType({})
) -> bool:
    """Return whether a requirement may hold in some environment of a wheel, with some extra.

    `known` are markers of one machine.
    """
    every = ({**environment, **known} for environment in environments(name))
    pairs = product(every, ("", *extras_of(requirement)))
    return any(_answers(requirement, *pair) != frozenset({False}) for pair in pairs)
