"""Requirements on other distributions: PEP 508, and the `Requires-Dist` entries of a wheel."""

from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelfix.system import deferred
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.text import count

if TYPE_CHECKING:
    from packaging.requirements import Requirement

DISTRIBUTION_NAME = lazy_pattern(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
"""The name of a distribution (Core metadata specifications, "Name")."""
_LONGEST = 4000
"""Characters of the longest field of METADATA that is parsed."""


def name_of(requirement: str) -> str:
    """Return the normalized name that a requirement begins with (PEP 508, "Names")."""
    match = DISTRIBUTION_NAME.match(requirement.strip())
    return canonicalize_name(match[0]) if match else ""


def name_in_file_names(name: str) -> str:
    """Return the name of a distribution as the names of its wheels spell it (PEP 427)."""
    return canonicalize_name(name).replace("-", "_")


def limit_length(text: str) -> str:
    """Return `text`. Raises `ValueError` if it is too long to parse in reasonable time."""
    if len(text) > _LONGEST:
        raise ValueError(f"it has {count(len(text), 'character')}")
    return text


@lru_cache(1 << 15)
def read_requirement(text: str) -> "Requirement":
    """Parse a requirement (PEP 508). Raises `ValueError` if it is invalid, or too long.

    Equal texts give the same object: it is not to be changed.
    """
    try:
        return deferred.requirements.Requirement(limit_length(text))
    except RecursionError as error:
        raise ValueError(str(error)) from error


def parsed(texts: Iterable[str]) -> Iterator["Requirement"]:
    """Yield the valid ones of some requirements: the rules about METADATA report the others."""
    for text in texts:
        with suppress(ValueError):
            yield read_requirement(text)


def is_for_extra(requirement: "Requirement") -> bool:
    """Return whether only an extra asks for it."""
    return requirement.marker is not None and "extra" in str(requirement.marker)


def allows_from(requirement: "Requirement", first: int, end: int) -> bool:
    """Return whether a requirement allows a version from `first` on, and before `end`."""
    specifier = requirement.specifier
    versions = _by_version(probes([str(first), *(str(clause.version) for clause in specifier)]))
    between = (text for v, text in versions.items() if first <= v.major < end)
    return any(specifier.contains(text, prereleases=True) for text in between)


def probes(bounds: Iterable[str]) -> Iterator[str]:
    """Yield versions around each bound: different specifiers differ for one of these."""
    yield from ("0", "99999")
    for bound in bounds:
        plain = bound.removesuffix(".*")
        release = plain.split(".")
        yield plain
        yield f"{plain}.99999"
        if release[-1].isdigit() and len(release[-1]) < 10:
            yield ".".join([*release[:-1], str(int(release[-1]) + 1)])
            if int(release[-1]):
                yield ".".join([*release[:-1], str(int(release[-1]) - 1), "99999"])


def in_order(versions: Iterable[str]) -> tuple[str, ...]:
    """Return `versions`, the lowest first. Invalid ones are left out."""
    return tuple(text for _, text in sorted(_by_version(versions).items()))


def _by_version(versions: Iterable[str]) -> dict[Version, str]:
    texts: dict[Version, str] = {}
    for text in versions:
        with suppress(ValueError):  # InvalidVersion, or a number with thousands of digits
            texts.setdefault(Version(text), text)
    return texts


def each_version(requirement: str) -> tuple[str, ...]:
    """Return `core==1` and `core==2` for `core==1,2`, and any other text as it is."""
    name, _, listed = requirement.partition("==")
    versions = [version.strip() for version in listed.split(",")]
    if len(versions) > 1 and len(_by_version(versions)) == len(versions):
        return tuple(f"{name}=={version}" for version in versions)
    return (requirement,)


def specifier_of(versions: Sequence[str], allowed: Container[str]) -> str:
    """Return the version specifier that of `versions`, the lowest first, allows those.

    It has a bound (PEP 440) only where one of `versions` is excluded. One of them is allowed.
    """
    public = {text: Version(text).public for text in versions}
    places = [place for place, version in enumerate(versions) if version in allowed]
    first, last = places[0], places[-1]
    parts = [f">={public[versions[first]]}"] if first else []
    parts += [f"<{public[text]}" for text in versions[last + 1 : last + 2]]
    parts += [f"!={public[text]}" for text in versions[first:last] if text not in allowed]
    return ",".join(parts)


def allows_python(requires_python: str, versions: Iterable[str]) -> bool:
    """Return whether Requires-Python allows one of `versions`, or cannot be parsed."""
    try:
        wanted = deferred.specifiers.SpecifierSet(limit_length(requires_python))
    except ValueError:
        return True
    return any(wanted.contains(version, prereleases=True) for version in versions)


def allowed_versions(versions: Iterable[str], requirements: Iterable[str]) -> tuple[str, ...]:
    """Return which of `versions` any of the `requirements` allows, the lowest first.

    A pre-release counts if the requirement names one, or if there is no other version (PyPA,
    "Version specifiers"). Invalid versions and requirements are ignored.
    """
    texts = _by_version(versions)
    allowed: set[Version] = set()
    for text in requirements:
        with suppress(ValueError):
            allowed.update(read_requirement(text).specifier.filter(sorted(texts)))
    return tuple(texts[version] for version in sorted(allowed))
