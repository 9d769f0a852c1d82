"""Providers: the distributions that contain libraries for other wheels, and what a wheel uses.

Everything here is computed from values and the tables of this package. `host.provider_lookup`
reads wheels, installed distributions and directories.
"""

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from glob import escape
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.version import InvalidVersion, Version

from wheelfix.elf.model import Elf
from wheelfix.grouping import grouped
from wheelfix.settings import Provider, matches_any, name_of
from wheelfix.system.packaged_text import read_text
from wheelfix.wheel.grafted_name import original_name
from wheelfix.wheel.model import Wheel


def provider_of(library: str, providers: Iterable[Provider]) -> Provider | None:
    """Return the first of `providers` that contains `library`."""
    return next((provider for provider in providers if provider.has(library)), None)


def folder_of(path: str, place: str) -> str:
    """Return the folder of the library at `path` below `place`, relative to its install scheme."""
    inside = path.removeprefix(f"{place}/").rpartition("/")[0]
    return _DATA.sub("", f"{inside}/").rstrip("/")


_DATA = re.compile(r"^[^/]+\.data/[^/]+/")
_LONGEST = 4000
"""Characters of the longest field of METADATA that is parsed."""


def bounded(text: str) -> str:
    """Return `text`. Raises `ValueError` if it is too long to parse in reasonable time."""
    if len(text) > _LONGEST:
        raise ValueError(f"it has {len(text):,} characters")
    return text


def read_requirement(text: str) -> Requirement:
    """Parse a requirement (PEP 508). Raises `ValueError` if it is invalid, or too long."""
    try:
        return Requirement(bounded(text))
    except RecursionError as error:
        raise ValueError(str(error)) from error


def allowed_versions(versions: Iterable[str], requirements: Iterable[str]) -> tuple[str, ...]:
    """Return which of `versions` any of the `requirements` allows, the lowest first.

    A pre-release counts if the requirement names one, or if there is no other version (PyPA,
    "Version specifiers"). Invalid versions and requirements are ignored.
    """
    known: dict[Version, str] = {}
    for text in versions:
        with suppress(InvalidVersion):
            known.setdefault(Version(text), text)
    good: set[Version] = set()
    for text in requirements:
        with suppress(ValueError):
            good.update(read_requirement(text).specifier.filter(sorted(known)))
    return tuple(known[version] for version in sorted(good))


def provider_wheels(providers: Iterable[Provider]) -> tuple[str, ...]:
    """Return the paths of the providers' wheels, only the first of each distribution."""
    found: dict[str, str] = {}
    for provider in providers:
        if provider.path.endswith(".whl"):
            found.setdefault(provider.name, provider.path)
    return tuple(found.values())


def editions(provider: Provider, among: Iterable[Provider]) -> tuple[Provider, ...]:
    """Return `provider` in each version that can be read, in the order of `among`."""
    found: dict[str, Provider] = {}
    for other in among:
        if other.name != provider.name or not other.path:
            continue
        if not other.name and other.source != provider.source:
            continue
        same_folder = (other.scheme, other.directory) == (provider.scheme, provider.directory)
        if other.version not in found or same_folder:
            found[other.version] = replace(
                provider, version=other.version, path=other.path, source=other.source
            )
    return tuple(found.values())


def suggest_pattern(pattern: str, names: Collection[str]) -> tuple[str, tuple[str, ...]] | None:
    """Return a pattern that was probably meant by `pattern`, and the names that only it matches.

    The likeliest mistake is tried first: no asterisk for the version, no `lib`, another version, a
    typing error. None if no pattern like that matches any of `names`.
    """
    stem, dot_so, _ = pattern.partition(".so")
    bare = pattern.rstrip("*")
    if not bare or not stem.strip("*"):
        return None
    globs = [f"{bare}*", f"lib{bare}*", *([f"{stem}.so*"] if dot_so else [])]
    globs += [escape(name) for name in get_close_matches(pattern, names, n=1, cutoff=0.85)]
    unmatched = [name for name in names if not fnmatchcase(name, pattern)]
    matches = ((glob, tuple(n for n in unmatched if fnmatchcase(n, glob))) for glob in globs)
    return next(((glob, found) for glob, found in matches if found), None)


@cache
def presets() -> Mapping[str, Sequence[Provider]]:
    """Return the well-known providers by name, from `providers.toml`."""
    providers = (
        Provider(
            requirement=table["name"],
            libraries=tuple(table["libraries"]),
            directory=table["directory"],
            scheme=table["scheme"],
            source=f"as of {table['source']}",
        )
        for table in tomllib.loads(read_text("wheelfix.analysis", "providers.toml"))["provider"]
    )
    return grouped(providers, lambda provider: provider.name)


def known_providers(library: str) -> tuple[str, ...]:
    """Return the names of the well-known wheels that contain `library`."""
    return tuple(
        name for name, some in presets().items() if any(provider.has(library) for provider in some)
    )


def install_advice(library: str) -> str:
    """Return which well-known wheels contain `library`, with a command; empty for none."""
    names = known_providers(library)
    return f"`{library}` is in {' or '.join(names)}: pip install {names[0]}" if names else ""


def provider_options(library: str) -> str:
    """Return the `--provider` options for the well-known wheels with `library`; empty for none."""
    return " or ".join(f"--provider {name}" for name in known_providers(library))


def never_bundled(library: str) -> str | None:
    """Return the reason why a wheel must not contain `library`, None if it may.

    The list is `never-bundled.txt`. The name may have the hash of a graft.
    """
    name = original_name(library)
    for globs, reason in _never():
        if matches_any(name, globs):
            return reason
    return None


def never_globs() -> tuple[str, ...]:
    """Return the patterns of all libraries that a wheel must not contain."""
    return tuple(glob for globs, _ in _never() for glob in globs)


@cache
def _never() -> tuple[tuple[tuple[str, ...], str], ...]:
    """Return the patterns of each line of the list, and their reason."""
    text = read_text("wheelfix.analysis", "never-bundled.txt")
    lines = (line.partition(": ") for line in text.splitlines() if line and line[0] != "#")
    return tuple((tuple(globs.split()), reason) for globs, _, reason in lines)


class ProviderUse(NamedTuple):
    """One object of the wheel, and one library that it needs from a provider."""

    member: str
    elf: Elf
    library: str
    provider: Provider


def provider_uses(wheel: Wheel, providers: Iterable[Provider]) -> Iterator[ProviderUse]:
    """Yield each DT_NEEDED entry that a provider serves; a library in the wheel is its own."""
    known = tuple(providers)
    if not known:
        return
    shipped = {member.rpartition("/")[2] for member, elf in wheel.elfs.items() if elf.dynamic}
    for member, elf in wheel.elfs.items():
        for library in dict.fromkeys(elf.needed):
            provider = provider_of(library, known)
            if provider is not None and library not in shipped:
                yield ProviderUse(member=member, elf=elf, library=library, provider=provider)


def by_provider(uses: Iterable[ProviderUse]) -> Mapping[str, list[ProviderUse]]:
    """Return the uses by distribution; providers that are mere directories are left out."""
    named = (use for use in uses if use.provider.name)
    return grouped(named, lambda use: use.provider.name)


def requirements_on(wheel: Wheel, distribution: str) -> list[Requirement]:
    """Return the `Requires-Dist` entries for `distribution`, those of extras included."""
    found: list[Requirement] = []
    for text in wheel.metadata.requires_dist:
        if name_of(text) == distribution:
            with suppress(ValueError):
                found.append(read_requirement(text))
    return found


def is_for_extra(requirement: Requirement) -> bool:
    """Return whether only an extra asks for it."""
    return requirement.marker is not None and "extra" in str(requirement.marker)


class ProvidedLibraries(NamedTuple):
    """The libraries that a wheel uses from one distribution."""

    provider: Provider
    libraries: tuple[str, ...]
    requirements: tuple[str, ...]
    """Those of METADATA, or else that of the settings."""
    optional: bool
    """Whether only an extra asks for the distribution."""


def provided_libraries(wheel: Wheel, providers: Iterable[Provider]) -> Iterator[ProvidedLibraries]:
    """Yield what the wheel uses from each provider that is a distribution."""
    for name, uses in by_provider(provider_uses(wheel, providers)).items():
        provider = uses[0].provider
        required = requirements_on(wheel, name)
        yield ProvidedLibraries(
            provider=provider,
            libraries=tuple(dict.fromkeys(use.library for use in uses)),
            requirements=tuple(map(str, required)) or (provider.requirement,),
            optional=bool(required) and all(map(is_for_extra, required)),
        )
