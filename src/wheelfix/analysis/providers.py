"""Libraries that live in another wheel: which distribution has them, and in which folder.

Nothing is looked at here; `provided` reads wheels, installed distributions and directories.
"""

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from glob import escape
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from wheelfix.settings import Provider
from wheelfix.system.resources import read_text
from wheelfix.wheel.grafted_name import original_name


def provider_of(library: str, providers: Iterable[Provider]) -> Provider | None:
    """Return the first of `providers` that has `library`."""
    return next((provider for provider in providers if provider.has(library)), None)


def folder_of(path: str, place: str) -> str:
    """Return the folder of the library at `path` in `place`, relative to its install scheme."""
    inside = path.removeprefix(f"{place}/").rpartition("/")[0]
    return _DATA.sub("", f"{inside}/").rstrip("/")


_DATA = re.compile(r"^[^/]+\.data/[^/]+/")


# --- Several versions -----------------------------------------------------------------------------


def allowed(versions: Iterable[str], requirements: Iterable[str]) -> tuple[str, ...]:
    """Return which of `versions` any of the `requirements` allows, the lowest first.

    A pre-release counts as it does for installers: where it is asked for, or nothing else is there
    (PyPA, "Version specifiers"). What is no version at all, or no requirement, allows nothing.
    """
    known: dict[Version, str] = {}
    for text in versions:
        with suppress(InvalidVersion):
            known.setdefault(Version(text), text)
    good: set[Version] = set()
    for text in requirements:
        with suppress(InvalidRequirement):
            good.update(Requirement(text).specifier.filter(sorted(known)))
    return tuple(known[each] for each in sorted(good))


def wheels_at_hand(providers: Iterable[Provider]) -> tuple[str, ...]:
    """Return the paths of the providers' wheels, of several versions the first."""
    found: dict[str, str] = {}
    for each in providers:
        if each.at_hand.endswith(".whl"):
            found.setdefault(each.name, each.at_hand)
    return tuple(found.values())


def editions(provider: Provider, among: Iterable[Provider]) -> tuple[Provider, ...]:
    """Return `provider` in each version at hand that is to be judged, the highest first."""
    found: dict[str, Provider] = {}
    for each in among:
        if each.name != provider.name or not each.at_hand:
            continue
        if not each.name and each.source != provider.source:
            continue
        here = (each.scheme, each.directory) == (provider.scheme, provider.directory)
        if each.version not in found or here:
            found[each.version] = replace(
                provider, version=each.version, at_hand=each.at_hand, source=each.source
            )
    return tuple(found.values())


def suggest_pattern(pattern: str, names: Collection[str]) -> tuple[str, tuple[str, ...]] | None:
    """Return what `pattern`, which matches too little, was probably to be, and what that matches.

    A version or its asterisk is forgotten first of all, then `lib`, then comes another version
    and a typing error. None where none of `names` comes near.
    """
    stem, dot_so, _ = pattern.partition(".so")
    bare = pattern.rstrip("*")
    tries = [f"{bare}*", f"lib{bare}*", *([f"{stem}.so*"] if dot_so else [])]
    tries += [escape(name) for name in get_close_matches(pattern, names, n=1, cutoff=0.85)]
    for glob in tries:
        found = tuple(n for n in names if fnmatchcase(n, glob) and not fnmatchcase(n, pattern))
        if found and bare and stem.strip("*"):
            return glob, found
    return None


# --- Shipped knowledge ----------------------------------------------------------------------------


@cache
def presets() -> Mapping[str, tuple[Provider, ...]]:
    """Return the well-known providers, by name (`data/providers.toml`)."""
    found: dict[str, list[Provider]] = {}
    for table in _read("providers.toml")["provider"]:
        provider = Provider(
            requirement=table["name"],
            libraries=tuple(table["libraries"]),
            directory=table["directory"],
            scheme=table["scheme"],
            source=f"as of {table['source']}",
        )
        found.setdefault(provider.name, []).append(provider)
    return {name: tuple(each) for name, each in found.items()}


def known_providers(library: str) -> tuple[str, ...]:
    """Return the names of the well-known wheels that have `library`."""
    return tuple(
        name for name, found in presets().items() if any(each.has(library) for each in found)
    )


def provider_known_for(library: str) -> str:
    """Say which well-known wheels have `library`, and how they are installed; empty for none."""
    names = known_providers(library)
    return f"`{library}` is in {' or '.join(names)}: pip install {names[0]}" if names else ""


def known_for(library: str) -> str:
    """Return the options by which well-known wheels would give `library`; empty for none."""
    return " or ".join(f"--provider {name}" for name in known_providers(library))


def never_bundled(library: str) -> str | None:
    """Return why a wheel must not bring `library`, None where it may.

    The list is `data/never-bundled.txt`; the name may be as auditwheel grafts it.
    """
    name = original_name(library)
    for globs, reason in _never():
        # Most begin otherwise, and then no glob need be made a pattern.
        near = (glob for glob in globs if name.startswith(glob.partition("*")[0]))
        if any(fnmatchcase(name, glob) for glob in near):
            return reason
    return None


def never_globs() -> tuple[str, ...]:
    """Return the patterns of all libraries that a wheel must not bring."""
    return tuple(glob for globs, _ in _never() for glob in globs)


@cache
def _never() -> tuple[tuple[tuple[str, ...], str], ...]:
    """Return globs and reasons; the list is read for every wheel, and TOML is slow to start."""
    text = read_text("wheelfix.analysis", "never-bundled.txt")
    lines = (line.partition(": ") for line in text.splitlines() if line and line[0] != "#")
    return tuple((tuple(globs.split()), reason) for globs, _, reason in lines)


@cache
def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(read_text("wheelfix.analysis", name))
