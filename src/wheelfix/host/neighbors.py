"""Neighbors of a wheel: what is installed beside it, of an environment, a file or its requirements.

Only the names of their files are read, and their METADATA.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from wheelfix.errors import SettingsError
from wheelfix.host.installed_files import dist_info_folders
from wheelfix.host.provider_lookup import (
    OBJECT,
    FindLibrary,
    find_providers,
    in_directory,
    in_dist_info,
    in_wheel,
)
from wheelfix.host.required_wheels import fetch
from wheelfix.providers.model import Provided, requires_dist_of
from wheelfix.providers.wheels_of_run import Part, all_requirements, applicable_requirements
from wheelfix.settings import Settings
from wheelfix.wheel.model import Wheel, WheelName
from wheelfix.wheel.requirements import each_version, read_requirement


def providers_of(
    settings: Settings,
    wheel: Wheel,
    environ: Mapping[str, str],
    find: FindLibrary | None = None,
    beside: Sequence[Provided] = (),
) -> tuple[Provided, ...]:
    """Return what provides libraries for `wheel`: what the settings name, and `beside`.

    `environ` is that of the user, for what is fetched. Raises `SettingsError` for what is not
    found, `ToolError` for what cannot be fetched.
    """
    neighbors = (*beside, *find_neighbors(settings, wheel, environ))
    return find_providers(settings.provider, wheel, find, neighbors)


def find_neighbors(
    settings: Settings, wheel: Wheel, environ: Mapping[str, str]
) -> tuple[Provided, ...]:
    """Return the neighbors that `settings` name; raises what `providers_of` does."""
    found = [one for text in settings.neighbors for one in _named(text, wheel.name, environ)]
    part = Part(wheel.name, wheel.metadata.requires_dist)
    if settings.site is not None:
        site = _in_site(Path(settings.site))
        required = all_requirements(part, requires_dist_of(site.values()))
        found += (site[name] for name in required if name in site)
    if settings.deps:
        direct = [str(requirement) for requirement in applicable_requirements(part)]
        found += (in_wheel(path, OBJECT) for path in fetch(direct, wheel.name, environ))
    required = all_requirements(part, requires_dist_of(found))
    return tuple(
        replace(one, through=required[one.name].through if one.name in required else "")
        for one in found
        if one.name != part.distribution
    )


def _named(text: str, dependent: WheelName, environ: Mapping[str, str]) -> Iterator[Provided]:
    path, wheels = Path(text), named_wheels(text)
    if wheels:
        yield from (in_wheel(wheel, OBJECT) for wheel in wheels)
    elif os.path.isdir(path):  # noqa: PTH112 - false for any other text
        if any(dist_info_folders(path)):
            yield from _in_site(path).values()
        else:
            yield in_directory(path)
    else:
        for requirement in each_version(text):
            refuse_other_text(requirement)
            fetched = fetch([requirement], dependent, environ)
            yield from (in_wheel(wheel, OBJECT) for wheel in fetched)


def named_wheels(text: str) -> list[Path]:
    """Return the wheel, or the wheels of the folder, that a text of `--with` names."""
    path = Path(text)
    if path.suffix == ".whl":
        return [path]
    is_folder = os.path.isdir(path)  # noqa: PTH112 - false for any other text
    return sorted(path.glob("*.whl")) if is_folder else []


def refuse_other_text(text: str) -> None:
    """Raise `SettingsError` for a text of `--with` that is not a requirement."""
    try:
        read_requirement(text)
    except ValueError as error:
        raise SettingsError(
            f"`--with {text}` is neither a wheel, nor a directory, nor a requirement",
            hint="--with numpy==2.0, --with dist/core-1.0-py3-none-any.whl, or --with wheelhouse/",
        ) from error


def _in_site(site: Path) -> dict[str, Provided]:
    """Return what is installed in an environment, by name. Raises `SettingsError` if nothing is."""
    found = {
        one.name: one
        for folder in dist_info_folders(site)
        if (one := in_dist_info(folder, folder.name.partition("-")[0], OBJECT)).version
    }
    if not found:
        raise SettingsError(
            f"no distribution is installed in `{site}`",
            hint="name a virtual environment, a prefix, or a site-packages folder",
        )
    return found
