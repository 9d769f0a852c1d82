"""Which DT_NEEDED entries of a wheel its providers serve."""

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from wheelfix.elf.model import Elf, starts_at_origin
from wheelfix.grouping import flatten, grouped, values_by_key
from wheelfix.loader.install_schemes import SITE_FOLDERS, site_path
from wheelfix.loader.loading import entry_directory
from wheelfix.named_tuple import NamedTuple
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


def every_provider_of(library: str, providers: Iterable[Provided]) -> list[Provided]:
    """Return of each distribution the first version that has `library`."""
    having = (provider for provider in providers if provider.folder_with(library))
    return [versions[0] for versions in grouped(having, lambda provider: provider.called).values()]


def other_versions(library: str, providers: Iterable[Provided]) -> Iterator[tuple[Provided, str]]:
    """Yield the providers that have `library` in another version, with its name there."""
    stem, so, _ = library.partition(".so")
    for provider in providers:
        names = flatten(folder.libraries for folder in provider.folders if folder.path)
        versions = [name for name in names if name.startswith(f"{stem}{so}")]
        if so and versions and not provider.folder_with(library):
            yield provider, versions[-1]


def provider_uses(wheel: Wheel, providers: tuple[Provided, ...]) -> Iterator[ProviderUse]:
    """Yield each DT_NEEDED entry that a provider serves; a library in the wheel is its own.

    Of several providers, it is the first to which the search path of the object leads.
    """
    shipped = wheel.object_names
    for member, elf in wheel.elfs.items() if providers else ():
        for library in dict.fromkeys(elf.needed):
            having = [
                (provider, folder)
                for provider in every_provider_of(library, providers)
                for folder in provider.folders
                if folder.has(library)
            ]
            if having and library not in shipped:
                searched = set(site_folders(member, elf, wheel)) if len(having) > 1 else ()
                leading = (both for both in having if both[1].directory in searched)
                yield ProviderUse(member, elf, library, *next(leading, having[0]))


def site_folders(member: str, elf: Elf, wheel: Wheel) -> Iterator[str]:
    """Yield the folders below site-packages that the search path of `member` leads to."""
    here = posixpath.dirname(site_path(member, wheel) or "") or "."
    for entry in elf.entries:
        parts = PurePosixPath(entry).parts
        if (below := below_site(parts)) is not None:
            yield below
        elif starts_at_origin(entry):
            yield entry_directory(entry, here)


def below_site(parts: Sequence[str]) -> str | None:
    """Return what follows the last folder like site-packages; None if there is none."""
    at = max((n for n, part in enumerate(parts) if part in SITE_FOLDERS), default=None)
    return None if at is None else "/".join(parts[at + 1 :])


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
