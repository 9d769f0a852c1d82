"""The plan of preload shims: which libraries a shim opens before which sources of a wheel."""

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from wheelfix.analysis.opened_libraries import openings
from wheelfix.analysis.preload_shim import has_hook, read_shim, with_hook
from wheelfix.elf.model import Libc
from wheelfix.frozen import frozen
from wheelfix.grouping import flatten
from wheelfix.loader.install_schemes import Layout, Scheme, entries_between, site_path, split
from wheelfix.python_sources.source_facts import LookupPlace
from wheelfix.wheel.model import PRELOAD, Wheel
from wheelfix.wheel.platform_tags import promised_libcs

_MUSL = "musl does not use a library that was opened by its path for a DT_NEEDED name"
_NO_PACKAGE = "it is in no package with an `__init__.py` of the wheel's own"
_NO_PATH = "no single relative path leads there in all install schemes"


@frozen
class PreloadPlan:
    """What shims open before the Python sources of a wheel, and what they could open."""

    needs: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Source -> the libraries that it opens by name."""
    outside: Mapping[str, str] = field(default_factory=dict[str, str])
    """Source of `needs` -> why no shim can run before it."""
    shims: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """`__init__.py` member -> the libraries that its shim should open, with their folders."""
    lacking: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """`__init__.py` member -> the sources before which its shim does not open everything now."""


def plan_preloads(
    wheel: Wheel,
    libraries: Mapping[str, str],
    mentions: Mapping[str, Iterable[str]],
    layouts: Iterable[Layout],
) -> PreloadPlan:
    """Plan the shims for the Python sources that open libraries of their own wheel by name.

    `libraries` are members by the names to open, and `mentions` the members with such a name as a
    string: it may reach the call in a way that is not followed. A bare name is searched for as the
    module of `ctypes` searches, so never in the wheel; but a loaded library with that SONAME is
    used.
    """
    needs = _needs(wheel, libraries, mentions)
    if not needs:
        return PreloadPlan()
    never = _reason_for_none(wheel)
    schemes = list(flatten(layout.schemes for layout in layouts))
    packages, present = package_sources(wheel), dict(_present_shims(wheel))
    outside: dict[str, str] = {}
    shims: dict[str, Mapping[str, str]] = {}
    lacking: dict[str, list[str]] = {}
    for source, names in needs.items():
        place = tuple((site_path(source, wheel) or "").split("/")[:-1])
        package = None if never else _package(place, packages, wheel)
        if package is None:
            outside[source] = never or _NO_PACKAGE
            continue
        init = packages[package]
        folders = _folders(init, {name: libraries[name] for name in names}, wheel, schemes)
        if folders is None:
            outside[source] = _NO_PATH
            continue
        opened = present.get(init, {})
        shims[init] = {**shims.get(init, opened), **folders}
        if not opened.keys() >= folders.keys():
            lacking.setdefault(init, []).append(source)
    return PreloadPlan(needs=needs, outside=outside, shims=shims, lacking=lacking)


def _needs(
    wheel: Wheel, libraries: Mapping[str, str], mentions: Mapping[str, Iterable[str]]
) -> dict[str, tuple[str, ...]]:
    """Return the sources that open `libraries` by name, or mention them, each with the names."""
    needs: dict[str, dict[str, None]] = {}
    for source, opening in openings(wheel):
        if opening.where is LookupPlace.SEARCH and opening.name in libraries:
            needs.setdefault(source, {})[opening.name] = None
    for library in libraries:
        for member in mentions.get(library, ()):
            if member.endswith(".py") and not member.endswith(f"/{PRELOAD}.py"):
                needs.setdefault(member, {})[library] = None
    return {source: tuple(names) for source, names in needs.items()}


def _package(
    folders: tuple[str, ...], packages: Mapping[tuple[str, ...], str], wheel: Wheel
) -> tuple[str, ...] | None:
    """Return the innermost package of `folders` that can import a shim.

    The outermost one would also do, but several distributions may share it, each with its own
    `__init__.py`.
    """
    is_package = all(map(str.isidentifier, folders))
    around = (folders[:depth] for depth in range(len(folders) * is_package, 0, -1))
    for package in around:
        source = wheel.sources[packages[package]] if package in packages else None
        if source is not None and (has_hook(source) or with_hook(source) is not None):
            return package
    return None


def _folders(
    init: str, libraries: Mapping[str, str], wheel: Wheel, schemes: Sequence[Scheme]
) -> dict[str, str] | None:
    """Return the folders of `libraries` relative to that of `init`, None if one has not just one.

    `libraries` are members by name.
    """
    folders: dict[str, str] = {}
    for name, member in libraries.items():
        place = split(posixpath.dirname(member), wheel)
        entries = entries_between(init, place, wheel, schemes)
        if len(entries) != 1:
            return None
        folders[name] = entries[0].removeprefix("$ORIGIN").removeprefix("/") or "."
    return folders


def package_sources(wheel: Wheel) -> dict[tuple[str, ...], str]:
    """Return the `__init__.py` of each package of the wheel, by the parts of the package's name."""
    paths = {member: site_path(member, wheel) or "" for member in wheel.sources}
    return {
        tuple(path.split("/")[:-1]): member
        for member, path in paths.items()
        if path.endswith("/__init__.py")
    }


def _reason_for_none(wheel: Wheel) -> str | None:
    """Return why no shim works for any object of the wheel."""
    libcs = {elf.libc for elf in wheel.elfs.values()}
    if Libc.MUSL in libcs | promised_libcs(wheel.name.platforms):
        return _MUSL
    if any(python.startswith(("py2", "cp2", "pp2")) for python in wheel.name.pythons):
        return "the tags allow Python 2, which cannot run a shim"
    return None


def shim_of(init: str) -> str:
    """Return the member that is the shim of the package with this `__init__.py`."""
    return f"{init.removesuffix('__init__.py')}{PRELOAD}.py"


def _present_shims(wheel: Wheel) -> Iterator[tuple[str, Mapping[str, str]]]:
    for member, source in wheel.sources.items():
        if member.endswith("/__init__.py") and shim_of(member) in wheel.sources:
            shim = read_shim(wheel.sources[shim_of(member)])
            if shim is not None and has_hook(source):
                yield member, shim


def shim_libraries(wheel: Wheel) -> dict[str, Sequence[str]]:
    """Return the Python sources of `wheel` and the libraries that shims open before each."""
    opened = {
        init.removesuffix("__init__.py"): libraries for init, libraries in _present_shims(wheel)
    }
    return {
        source: list(flatten(opened[folder] for folder in opened if source.startswith(folder)))
        for source in (wheel.openings if opened else ())
    }
