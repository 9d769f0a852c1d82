"""Which DT_NEEDED entries of a wheel its providers serve."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from wheelfix.elf.model import Elf
from wheelfix.grouping import grouped, values_by_key
from wheelfix.providers.model import Folder, Provided
from wheelfix.wheel.model import Wheel


class ProviderUse(NamedTuple):
    """One object of the wheel, and one library that it needs from a provider."""

    member: str
    elf: Elf
    library: str
    provider: Provided
    """Of several versions with the library, the highest."""
    folder: Folder
    """The folder of the provider that has the library."""


def provider_of(library: str, providers: Iterable[Provided]) -> Provided | None:
    """Return the first of `providers` that has `library`."""
    return next((provider for provider in providers if provider.folder_with(library)), None)


def provider_uses(wheel: Wheel, providers: tuple[Provided, ...]) -> Iterator[ProviderUse]:
    """Yield each DT_NEEDED entry that a provider serves; a library in the wheel is its own."""
    shipped = {member.rpartition("/")[2] for member, elf in wheel.elfs.items() if elf.dynamic}
    for member, elf in wheel.elfs.items() if providers else ():
        for library in dict.fromkeys(elf.needed):
            provider = provider_of(library, providers)
            folder = provider.folder_with(library) if provider else None
            if provider and folder and library not in shipped:
                yield ProviderUse(member, elf, library, provider, folder)


def by_provider(uses: Iterable[ProviderUse]) -> Mapping[str, list[ProviderUse]]:
    """Return the uses by distribution; providers that are mere directories are left out."""
    named = (use for use in uses if use.provider.name)
    return grouped(named, lambda use: use.provider.name)


def versions_of(provider: Provided, providers: Iterable[Provided]) -> tuple[Provided, ...]:
    """Return the versions of `provider` that can be read, the highest first."""
    readable = (other for other in providers if other.places)
    if not provider.name:
        return tuple(other for other in readable if other == provider)
    return tuple(other for other in readable if other.name == provider.name)


def wheels_of(providers: Iterable[Provided]) -> tuple[str, ...]:
    """Return the paths of the providers' wheels, only the first of each distribution."""
    wheels = ((provider.name, provider.wheel) for provider in providers if provider.wheel)
    return tuple(paths[0] for paths in values_by_key(wheels).values())
