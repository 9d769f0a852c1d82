"""Neighbors of a wheel: what is installed beside it, of an environment, a file or its requirements.

Only the names of their files are read, and their METADATA.
"""

import os
import shlex
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelfix.elf.object_file_names import is_object_name
from wheelfix.errors import SettingsError
from wheelfix.frozen import frozen
from wheelfix.grouping import flatten
from wheelfix.host.installed_files import (
    Owner,
    dist_info_folders,
    owners_of_files,
    to_install,
    writers,
)
from wheelfix.host.prefixes import name_environment
from wheelfix.host.provider_lookup import (
    find_providers,
    in_directory,
    in_dist_info,
    in_wheel,
    metadata_in,
    misfit,
)
from wheelfix.host.required_wheels import Fetched, fetch
from wheelfix.loader.install_schemes import python_version
from wheelfix.providers.markers import surely_applies
from wheelfix.providers.model import Provided, requires_dist_of
from wheelfix.providers.requirements_between_wheels import (
    Part,
    all_requirements,
    applicable_requirements,
)
from wheelfix.settings import Settings
from wheelfix.system.paths import is_folder, is_named_folder, is_there
from wheelfix.wheel.model import Wheel, WheelName
from wheelfix.wheel.requirements import each_version, name_of, parsed, read_requirement

if TYPE_CHECKING:
    from packaging.requirements import Requirement


def providers_of(
    settings: Settings, wheel: Wheel, environ: Mapping[str, str]
) -> tuple[Provided, ...]:
    """Return what provides libraries for `wheel`: what the settings name.

    `environ` is that of the user, for what is fetched. Raises `SettingsError` for what is not
    found, `ToolError` for what cannot be fetched.
    """
    neighbors = find_neighbors(settings, wheel, environ)
    return find_providers(settings.provider, wheel, None, neighbors)


def find_neighbors(
    settings: Settings, wheel: Wheel, environ: Mapping[str, str]
) -> tuple[Provided, ...]:
    """Return the neighbors that `settings` name; raises what `providers_of` does."""
    named = (_named(text, wheel.name, environ) for text in settings.neighbors)
    neighbors = list(chain.from_iterable(named))
    part = Part(wheel.name, wheel.metadata.requires_dist)
    if settings.site is not None:
        site = _in_site(Path(settings.site))
        required = all_requirements(part, requires_dist_of(site.values()))
        neighbors += (site[name] for name in required if name in site)
    if settings.deps:
        direct = [str(requirement) for requirement in applicable_requirements(part)]
        given = [neighbor.name for neighbor in neighbors if neighbor.version]
        fetched = fetch(direct, wheel.name, environ, given)
        neighbors += _beside(fetched)
    required = all_requirements(part, requires_dist_of(neighbors))
    return tuple(
        replace(each, through=required[each.name].through if each.name in required else "")
        for each in neighbors
        if each.name != part.distribution
    )


@frozen(kw_only=False)
class Unmet:
    """A requirement that nothing installed meets."""

    by: str
    """The distribution that has it: `beta 1.0`."""
    through: str
    """The distribution in between that requires it; empty without one."""
    name: str
    requirement: str
    """As in METADATA, with extras and marker."""
    version: str | None
    """What is installed of it; None if nothing is."""

    def __str__(self) -> str:
        """Return who requires what, and what is installed, as a sentence."""
        there = f"{self.name} {self.version} is" if self.version else "it is not"
        by = self.by + f", through {self.through}," * bool(self.through)
        return f"{by} requires `{self.requirement}`: {there} installed"


class InstalledDistributions:
    """The distributions of an environment: whose a file is, and what they require and lack.

    It is read on the first question, and kept.
    """

    def __init__(self, site: Path, python: str, *linked: Path) -> None:
        """`python` is the interpreter of the environment: `python3.11`.

        `linked` are environments that `site` has links into.
        """
        self._site, self._linked = site, linked
        version = python_version(python).replace(".", "")
        tag = f"cp{version}" if version[1:] else "py3"
        # Of the wheels that were installed, the names of directories need not be valid.
        self._wheel = WheelName.parse(f"any-0-{tag}-none-linux_{os.uname().machine}.whl")

    def distribution(self, path: str) -> str:
        """Return the distribution of a file, `numpy 2.1.0`; empty without one."""
        return next((owner.distribution for owner in self.owners.get(path, ())), "")

    def requirement(self, path: str, name: str) -> str:
        """Return what the distribution of a file requires of `name`, as in METADATA."""
        own = canonicalize_name(self.distribution(path).partition(" ")[0])
        texts = self.requires_dist.get(own, ())
        return next((text for text in texts if name_of(text) == canonicalize_name(name)), "")

    def not_installed(self, path: str) -> tuple[str, ...]:
        """Return what the distribution of a file surely requires, directly or not."""
        names = (owner.distribution.partition(" ")[0] for owner in self.owners.get(path, ()))
        texts = (self.requires_dist.get(canonicalize_name(name), ()) for name in names)
        part = Part(self._wheel, tuple(flatten(texts)))
        required = all_requirements(part, self.requires_dist).items()
        absent = (each.requirement for name, each in required if name not in self._versions)
        lacking = (each for each in absent if surely_applies(each, self._wheel))
        return tuple(str(each).partition(";")[0].strip() for each in lacking)

    def lost(self, paths: Iterable[str], own: str) -> str:
        """Return the distribution, `own` if it can be, whose RECORD lists a path that is gone."""
        gone = flatten(self.owners.get(path, ()) for path in paths if not is_there(path))
        owners = [owner.distribution for owner in gone]
        return own if own in owners else "".join(owners[:1])

    def to_install(self, distribution: str) -> str:
        """Return what pip installs of a distribution; empty if that is not known."""
        return to_install(self._site, distribution)

    def overwriting(self, path: str, own: str) -> str:
        """Return the distribution that wrote its file over that of `own`; empty for none."""
        hashes = {owner.distribution: owner.hash for owner in self.owners.get(path, ())}
        is_another = own in hashes and len({*hashes.values()}) > 1
        there = (writers(path, self.owners[path]) if is_another else None) or [own]
        return "" if own in there else there[0]

    @property
    def not_met(self) -> Iterator[Unmet]:
        """Yield what distributions require, without extras, and what is installed does not meet.

        Left out is what the release of Python or of the kernel decides.
        """
        for name, texts in self.requires_dist.items():
            sure = (each for each in parsed(texts) if surely_applies(each, self._wheel))
            by = f"{name} {self._versions.get(name, '')}".rstrip()
            yield from filter(None, (self.unmet(by, each) for each in sure))

    def unmet(self, by: str, required: "Requirement", through: str = "") -> Unmet | None:
        """Return a requirement of the distribution `by`; None if what is installed meets it."""
        version = self._versions.get(canonicalize_name(required.name))
        with suppress(ValueError):  # a version may be anything
            known = Version(version) if version is not None else None  # of an egg it may be ""
            if known and required.specifier.contains(known, prereleases=True):
                return None
            return Unmet(by, through, required.name, str(required), version)
        return None

    @cached_property
    def _versions(self) -> Mapping[str, str]:
        # Of what old installers made (egg-info, egg-link), `1.0-py3.11` is not a version.
        paths = (dist_info_folders(self._site, pattern) for pattern in ("*.egg*", "*.dist-info"))
        names = (path.stem.partition("-") for path in flatten(paths))
        return {canonicalize_name(name): version for name, _, version in names}

    @property
    def owners(self) -> Mapping[str, Sequence[Owner]]:
        """The distributions whose RECORDs list a file, by its path."""
        return self._owners

    @cached_property
    def _owners(self) -> Mapping[str, Sequence[Owner]]:
        return ChainMap(*map(owners_of_files, (self._site, *self._linked)))

    @cached_property
    def requires_dist(self) -> Mapping[str, tuple[str, ...]]:
        """The Requires-Dist entries of each distribution, by its normalized name."""
        folders = dist_info_folders(self._site)
        about = ((folder.name, metadata_in(folder)) for folder in folders)
        return {canonicalize_name(n.partition("-")[0]): m.requires_dist for n, m in about}


def _named(text: str, dependent: WheelName, environ: Mapping[str, str]) -> Iterator[Provided]:
    path, wheels = Path(text), named_wheels(text)
    if wheels:
        named = (in_wheel(wheel, is_object_name) for wheel in wheels)
        # A folder may have the wheels of a release for all Pythons, and others.
        yield from (
            provider
            for provider in named
            if wheels == [path] or not misfit(WheelName.parse(Path(provider.wheel).name), dependent)
        )
    elif is_named_folder(text):
        if any(dist_info_folders(path)):
            yield from _in_site(path).values()
        else:
            yield in_directory(path)
    else:
        for requirement in each_version(text):
            refuse_other_text(requirement)
            fetched = fetch([requirement], dependent, environ, named=[name_of(requirement)])
            yield from _beside(fetched)


def _beside(fetched: Fetched) -> Iterator[Provided]:
    yield from (in_wheel(wheel, is_object_name) for wheel in fetched.wheels)
    yield from fetched.unknown


def named_wheels(text: str) -> list[Path]:
    """Return the wheel, or the wheels of the folder, that a text of `--with` names."""
    path = Path(text)
    if path.suffix == ".whl":
        return [path]
    return sorted(path.glob("*.whl")) if is_folder(path) else []


def refuse_other_text(text: str) -> None:
    """Raise `SettingsError` for a text of `--with` that is not a requirement by version."""
    try:
        url = read_requirement(text).url
    except ValueError as error:
        raise SettingsError(
            f"`--with {text}` is neither a wheel, nor a directory, nor a requirement",
            hint="--with numpy==2.0, --with dist/core-1.0-py3-none-any.whl, or --with wheelhouse/",
        ) from error
    if url is not None:
        raise SettingsError(
            f"`--with {text}`: URLs are not followed, and nothing is built",
            hint=f"`{shlex.join(['pip', 'wheel', '-w', 'wheels', text])}` may build it and so "
            "execute its code; then `--with wheels`",
        )


def _in_site(site: Path) -> dict[str, Provided]:
    """Return what is installed in an environment, by name. Raises `SettingsError` if nothing is."""
    installed = {
        provider.name: provider
        for folder in dist_info_folders(site)
        if (provider := in_dist_info(folder, folder.name.partition("-")[0], is_object_name)).version
    }
    if not installed:
        raise SettingsError(
            f"no distribution is installed in `{site}`",
            hint=name_environment(site),
        )
    return installed
