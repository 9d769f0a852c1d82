"""What a wheel uses from its providers."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from packaging.requirements import Requirement

from wheelfix.analysis.providers import provider_of
from wheelfix.elf.model import Elf
from wheelfix.settings import Provider, name_of
from wheelfix.wheel.model import Wheel

_LONGEST = 4000
"""Characters of a requirement that a person may have written."""


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
    found: dict[str, list[ProviderUse]] = {}
    for use in uses:
        if use.provider.name:
            found.setdefault(use.provider.name, []).append(use)
    return found


def requirements_on(wheel: Wheel, distribution: str) -> list[Requirement]:
    """Return the `Requires-Dist` entries for `distribution`, those of extras included."""
    found: list[Requirement] = []
    for text in wheel.metadata.requires_dist:
        if len(text) < _LONGEST and name_of(text) == distribution:
            with suppress(ValueError, RecursionError):
                found.append(Requirement(text))
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
