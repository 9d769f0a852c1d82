"""Neighbors of a wheel: what is installed beside it, of an environment, a file or its requirements.

Only the names of their files are read, and their METADATA.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from packaging.utils import canonicalize_name

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
from wheelfix.providers.model import Provided
from wheelfix.providers.run import Part, applicable_requirements
from wheelfix.settings import Settings
from wheelfix.wheel.model import Wheel, WheelName
from wheelfix.wheel.requirements import each_version, name_of, read_requirement

_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")
"""The extras that a marker names, as `packaging` writes it."""


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
    required = applicable_requirements(Part(wheel.name, wheel.metadata.requires_dist))
    if settings.site is not None:
        site = _in_site(Path(settings.site))
        found += (site[name] for name in _closure(map(str, required), site) if name in site)
    if settings.deps:
        wheels = fetch([str(requirement) for requirement in required], wheel.name, environ)
        found += (in_wheel(path, OBJECT) for path in wheels)
    by_name = {one.name: one for one in found}
    own = name_of(wheel.name.distribution)
    through = _closure(map(str, required), by_name)
    return tuple(
        replace(one, through=through.get(one.name, "")) for one in found if one.name != own
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


def _closure(requirements: Iterable[str], there: Mapping[str, Provided]) -> dict[str, str]:
    """Return what is required, directly or not, of what is `there`.

    Each name comes with the name of the direct requirement that it is required through; a direct
    one with "".
    """
    found: dict[str, str] = {}
    by_extra: dict[str, dict[str, list[str]]] = {}
    waiting = [(text, "") for text in requirements]
    for text, through in waiting:  # grows during the loop
        name = name_of(text)
        found.setdefault(name, through)
        if name in there and name not in by_extra:
            by_extra[name] = _by_extra(there[name].metadata.requires_dist)
        for extra in ("", *_extras(text)):
            added = by_extra.get(name, {}).pop(extra, ())
            waiting += ((other, through or name) for other in added)
    return found


def _extras(requirement: str) -> tuple[str, ...]:
    with suppress(ValueError):
        return tuple(map(canonicalize_name, read_requirement(requirement).extras))
    return ()


def _by_extra(requirements: Iterable[str]) -> dict[str, list[str]]:
    """Return those that apply in any case, as "", and those that an extra adds, by its name."""
    found: dict[str, list[str]] = {}
    for text in requirements:
        with suppress(ValueError):
            marker = read_requirement(text).marker
            named = dict.fromkeys(map(canonicalize_name, _EXTRA.findall(str(marker))))
            for extra in ("", *named):
                if marker is None or marker.evaluate({"extra": extra}):
                    found.setdefault(extra, []).append(text)
                    if not extra:
                        break
    return found
