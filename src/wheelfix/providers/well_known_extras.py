"""What the extras of well-known distributions require, by `well-known-extras.json`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from wheelfix.grouping import flatten, values_by_key
from wheelfix.system.packaged_text import read_text
from wheelfix.wheel.requirements import allows_from, name_of, parsed

if TYPE_CHECKING:
    from packaging.requirements import Requirement


@cache
def _tables() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    tables = json.loads(read_text("wheelfix.providers", "well-known-extras.json"))
    return values_by_key((table["name"], table) for table in tables)


@lru_cache(1 << 8)
def with_extras(requires: tuple[str, ...]) -> Sequence[str]:
    """Return some requirements, and what the extras in them require, under the same markers."""
    known = parsed(text for text in requires if name_of(text) in _tables())
    return (*requires, *dict.fromkeys(flatten(map(_required_by, known))))


def _required_by(requirement: "Requirement") -> Iterator[str]:
    extras = {*map(canonicalize_name, requirement.extras)}
    for table in _tables()[canonicalize_name(requirement.name)]:
        major = int(table["source"].split()[-1].partition(".")[0])
        for name in flatten(table["extras"].get(extra, ()) for extra in sorted(extras)):
            if allows_from(requirement, major, major + 1):
                yield f"{name}; {requirement.marker}" if requirement.marker else name
