"""Providers looked up on this machine: wheels, installed distributions, directories.

Only the names of their libraries are read; `available_libraries` reads the libraries themselves.
"""

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from glob import escape
from importlib import metadata
from itertools import islice
from pathlib import Path, PurePosixPath

from packaging.utils import canonicalize_name

from wheelfix.analysis.providers import allowed_versions, presets
from wheelfix.analysis.providers_in_run import Part
from wheelfix.elf.model import Elf
from wheelfix.errors import BadWheelError, SettingsError, WheelfixError
from wheelfix.grouping import grouped
from wheelfix.host.available_libraries import canonical
from wheelfix.host.installed_files import recorded
from wheelfix.loader.as_needed import Library
from wheelfix.loader.install_schemes import SITE_FOLDERS, interpreters, site_path
from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.settings import AUTO, SCHEMES, Provider, Settings, name_of
from wheelfix.wheel.dist_info import read_core_metadata
from wheelfix.wheel.grafted_name import unhashed
from wheelfix.wheel.model import Wheel, WheelName
from wheelfix.wheel.platform_tags import may_coexist, parse_platform_tag
from wheelfix.wheel.unverified_reader import member_text, open_unverified

_LIBRARY = re.compile(r"lib(?![^/]*\.(?:cpython|pypy|abi3))[^/]*\.so(?:\.[^/]*)?")
_METADATA = re.compile(r"[^/]+\.dist-info/METADATA")

FindLibrary = Callable[[str, Elf], Library | None]
"""Find a library of this machine by its DT_NEEDED name, for an object."""


def with_providers(
    settings: Settings, base: Path, wheel: Wheel | None = None, find: FindLibrary | None = None
) -> Settings:
    """Return `settings` with all providers looked up, and the available ones in `library_path`.

    `base` is the folder of relative paths. Of several available versions, the highest and the
    lowest that METADATA of `wheel` allows remain, in this order. For `auto`, `find` finds libraries
    that no search path of the wheel leads to. Raises `SettingsError` for a provider that is not
    found, or that cannot be installed together with `wheel`.
    """
    if not settings.provider:
        return settings
    named = [given for given in settings.provider if given.source != AUTO]
    candidates = [found for given in named for found in _look_up(given, base)]
    if wheel is not None and len(named) < len(settings.provider):
        candidates += _automatic(wheel, candidates, find)
    fitting = list(_for_wheel(candidates, None if wheel is None else wheel.name))
    requirements = () if wheel is None else wheel.metadata.requires_dist
    # A directory without a distribution is a group of its own.
    groups = grouped(fitting, lambda p: (p.name, "" if p.name else f"{p.source} {p.directory}"))
    usable = [p for same in groups.values() for p in _allowed(same, requirements)]
    first: dict[str, Provider] = {}
    for provider in usable:
        if provider.name and (provider.path or provider.refused):
            first.setdefault(provider.name, provider)
    providers = tuple(_merged(provider, first.get(provider.name), usable) for provider in usable)
    places = (*settings.library_path, *(known.path for known in providers if known.path))
    return replace(settings, provider=providers, library_path=tuple(dict.fromkeys(places)))


def _merged(provider: Provider, known: Provider | None, among: Iterable[Provider]) -> Provider:
    """Return `provider` merged with the other settings of the same distribution.

    `known` is the first available, or refused, one of them.
    """
    same = (other.requirement for other in among if other.name and other.name == provider.name)
    longest = max(same, key=len, default=provider.requirement)
    if known is None or provider.path or provider.refused:
        return replace(provider, requirement=longest)
    return replace(
        provider,
        requirement=longest,
        path=known.path,
        version=known.version,
        refused=known.refused,
    )


def _look_up(given: Provider, base: Path) -> tuple[Provider, ...]:
    if given.libraries:
        return (given,)
    text = given.requirement or given.source
    path = base / text
    if not given.requirement and path.suffix == ".whl":
        return _not_empty(in_wheel(path), f"the wheel `{path}`")
    if not given.requirement and os.path.isdir(path):  # noqa: PTH112 - false for any other text
        wheels = [found for wheel in sorted(path.glob("*.whl")) for found in in_wheel(wheel)]
        return _not_empty((*wheels, *in_directory(path)), f"the directory `{path}`")
    found = in_distribution(text) or presets().get(name_of(text), ())
    if not found:
        raise SettingsError(
            f"the provider `{text}` is neither a wheel nor a directory, is not installed, and "
            "wheelfix does not know it",
            hint="give its wheel: `--provider FILE.whl`; or `libraries` and `directory` in "
            "[[tool.wheelfix.provider]]",
        )
    return tuple(replace(provider, requirement=text) for provider in found)


# --- Found by the linker --------------------------------------------------------------------------


def _automatic(
    wheel: Wheel, known: Sequence[Provider], find: FindLibrary | None
) -> Iterator[Provider]:
    """Yield the libraries of the required distributions in whose folders the wheel's were found.

    A search path may lead to the site-packages of a build environment that is gone, and that of a
    repaired wheel leads to where both will be installed. So a folder below site-packages that a
    distribution beside wheelfix has, or a well-known one, is sufficient. What METADATA does not
    require is left out: it was only there for the build.
    """
    own = canonicalize_name(wheel.name.distribution)
    texts = (text.partition(";")[0].strip() for text in wheel.metadata.requires_dist)
    required = {name: text for text in texts if (name := name_of(text)) not in {"", own}}
    beside = [
        replace(provider, requirement=text)
        for name, text in required.items()
        for provider in in_distribution(name) or presets().get(name, ())
    ]
    shipped = {member.rpartition("/")[2] for member in wheel.elfs}
    sites = _Sites()
    taken = list(known)
    for member, elf in wheel.elfs.items() if required else ():
        folders = set(_site_folders(member, elf, wheel))
        for library in dict.fromkeys(elf.needed):
            if library in shipped or may_come_from_platform(library):
                continue
            if any(provider.has(library) for provider in taken):
                continue
            new = [p for p in beside if p.has(library) and p.directory in folders]
            if not new:
                owners = filter(None, map(sites.owner, _places(library, elf, find)))
                new = [
                    provider
                    for owner in owners
                    if (text := required.get(canonicalize_name(owner.name))) is not None
                    for provider in _of_distribution(owner, text)
                ]
            chosen = {provider.name for provider in new}
            whole = [p for p in dict.fromkeys((*beside, *new)) if p.name in chosen]
            taken += whole
            yield from whole


def _places(library: str, elf: Elf, find: FindLibrary | None) -> Iterator[str]:
    """Yield the path of a library by the first search path entry that has it, and by `find`."""
    paths = (f"{entry}/{library}" for entry in elf.entries if entry.startswith("/"))
    yield from islice(filter(os.path.isfile, paths), 1)
    found = find(library, elf) if find else None
    if found is not None:
        yield found.path


def _site_folders(member: str, elf: Elf, wheel: Wheel) -> Iterator[str]:
    """Yield the folders below site-packages that the search path of `member` leads to."""
    here = posixpath.dirname(site_path(member, wheel) or "")
    for entry in elf.entries:
        parts = PurePosixPath(entry).parts
        at = max((n for n, part in enumerate(parts) if part in SITE_FOLDERS), default=None)
        if at is not None:
            yield "/".join(parts[at + 1 :])
        elif parts[:1] == ("$ORIGIN",):
            yield posixpath.normpath(posixpath.join(here, *parts[1:]))


class _Sites:
    """The distributions in folders like site-packages, read once. Mutable."""

    def __init__(self) -> None:
        self._owners: dict[Path, dict[str, metadata.Distribution]] = {}

    def owner(self, path: str) -> metadata.Distribution | None:
        """Return the distribution with the file at `path` in its RECORD."""
        file = canonical(Path(path))
        for folder in file.parents:
            if folder.name in SITE_FOLDERS:
                if folder not in self._owners:
                    self._owners[folder] = {
                        place: metadata.PathDistribution(info)
                        for info in sorted(folder.glob("*.dist-info"))
                        for place in recorded(info)
                    }
                return self._owners[folder].get(str(file))
        return None


# --- Choice of a version --------------------------------------------------------------------------


def _allowed(providers: list[Provider], requires_dist: Iterable[str]) -> Iterator[Provider]:
    """Yield the unavailable providers, and the highest and the lowest allowed version.

    `providers` are of one distribution. Where METADATA does not require it, the requirement in
    the settings decides.
    """
    name = providers[0].name
    available = [provider for provider in providers if provider.path]
    versions = dict.fromkeys(provider.version for provider in available if name)
    required = [text for text in requires_dist if name_of(text) == name]
    good = allowed_versions(
        versions, required or [max((provider.requirement for provider in providers), key=len)]
    )
    refused = tuple(version for version in versions if version not in good)
    yield from (provider for provider in providers if not provider.path)
    if not versions:
        yield from available
    elif not good:
        # No available version is allowed; the libraries are still not to be grafted.
        last = list(versions)[-1]
        own = (provider for provider in available if provider.version == last)
        yield from (replace(provider, path="", refused=refused) for provider in own)
    for version in dict.fromkeys((good[-1], good[0])) if good else ():
        own = (provider for provider in available if provider.version == version)
        yield from (replace(provider, refused=refused) for provider in own)


def _for_wheel(providers: Iterable[Provider], wheel: WheelName | None) -> Iterator[Provider]:
    """Yield the providers that can be installed with `wheel`, one wheel for each version.

    Raises `SettingsError` if no wheel of a distribution can.
    """
    taken: dict[tuple[str, str], str] = {}
    misfits: dict[str, str] = {}
    kept: list[Provider] = []
    for provider in providers:
        is_wheel = provider.path.endswith(".whl")
        problem = _misfit(WheelName.parse(Path(provider.path).name), wheel) if is_wheel else None
        if problem is not None:
            misfits.setdefault(provider.name, f"the provider `{provider.source}` is {problem}")
            continue
        key = (provider.name, provider.version)
        if not is_wheel or taken.setdefault(key, provider.path) == provider.path:
            kept.append(provider)
    fitting = {name for name, _ in taken}
    for name, problem in misfits.items():
        if name not in fitting:
            raise SettingsError(
                f"{problem}: it is never installed beside `{wheel}`",
                hint="give the provider's wheel for the same platform and Python",
            )
    yield from kept


def _misfit(provider: WheelName, wheel: WheelName | None) -> str | None:
    """Return why `provider` cannot be installed with `wheel`; None if it can."""
    if wheel is None:
        return None
    if not any(may_coexist(one, other) for one in provider.platforms for other in wheel.platforms):
        theirs, ours = (
            " or ".join(sorted({*map(_platform, name.platforms)})) for name in (provider, wheel)
        )
        return f"for {theirs}, and the wheel for {ours}"
    pythons = interpreters(provider)
    if not set(pythons).intersection(interpreters(wheel)):
        return f"for {', '.join(pythons)}, and the wheel for {', '.join(interpreters(wheel))}"
    return None


def _platform(tag: str) -> str:
    """Return the C library and the architecture of a tag for Linux, any other tag as it is."""
    parsed = parse_platform_tag(tag)
    return f"{parsed.libc or ''} {parsed.arch}".strip() if parsed.is_linux else tag


# --- Wheels, distributions, directories -----------------------------------------------------------


def in_wheel_beside(path: Path) -> tuple[Provider, ...]:
    """Return the libraries of another wheel of the run; nothing if it cannot be read."""
    try:
        return in_wheel(path)
    except WheelfixError:
        return ()


def in_wheel(path: Path) -> tuple[Provider, ...]:
    """Return the libraries of the wheel at `path`, one provider for each of its folders.

    Only the zip's directory and WHEEL are read. Raises `SettingsError`, `BadWheelError`.
    """
    path = canonical(path)
    with open_unverified(path) as archive:
        members = archive.namelist()
        texts = [member_text(archive, m) for m in members if m.endswith(".dist-info/WHEEL")]
    name = WheelName.parse(path.name)
    root = _root("\n".join(texts))
    data = f"{name.distribution}-{name.version}.data/"
    places = (_place_in_wheel(member, data, root) for member in members)
    return _providers(
        (place for place in places if place is not None),
        Provider(
            requirement=name.distribution.replace("_", "-"),
            source=path.name,
            path=str(path),
            version=name.version,
        ),
    )


def parts_in(paths: Sequence[Path]) -> tuple[Part, ...]:
    """Return for each wheel its name and the distributions that it requires.

    A wheel that cannot be read requires nothing: reading it whole reports the fault. Wheels of one
    distribution are not read.
    """
    names = [_wheel_name(path) for path in paths]
    if len({canonicalize_name(name.distribution) for name in names}) < 2:
        return tuple(Part(name=name) for name in names)
    return tuple(
        Part(name=name, requires_dist=_required_by(path))
        for name, path in zip(names, paths, strict=True)
    )


def _wheel_name(path: Path) -> WheelName:
    try:
        return WheelName.parse(path.name)
    except BadWheelError:
        name = WheelName.parse("unnamed-0-none-none-none.whl")
        return name._replace(distribution=path.name)


def _required_by(path: Path) -> tuple[str, ...]:
    with suppress(SettingsError):
        return read_core_metadata(metadata_text(path)).requires_dist
    return ()


def metadata_text(path: Path) -> str:
    """Return METADATA of a wheel, empty if it has none. Raises `SettingsError`."""
    with open_unverified(path) as archive:
        found = (m for m in archive.namelist() if _METADATA.fullmatch(m))
        return next((member_text(archive, member) for member in found), "")


def _root(wheel_file: str) -> str:
    """Return the scheme path of the root of a wheel, by its WHEEL."""
    return "purelib" if "root-is-purelib: true" in wheel_file.lower() else "platlib"


def _place_in_wheel(member: str, data: str, root: str) -> tuple[str, str] | None:
    """Return the scheme path of `member`, and its path below it; None for other data folders."""
    if not member.startswith(data):
        return root, member
    scheme, _, rest = member.removeprefix(data).partition("/")
    return (scheme, rest) if scheme in SCHEMES else None


def in_distribution(requirement: str) -> tuple[Provider, ...]:
    """Return the libraries of a distribution beside wheelfix, by its RECORD.

    Nothing if it is not installed, or has no RECORD.
    """
    try:
        distribution = metadata.distribution(name_of(requirement))
    except (metadata.PackageNotFoundError, ValueError):
        return ()
    return _of_distribution(distribution, requirement)


def _of_distribution(distribution: metadata.Distribution, requirement: str) -> tuple[Provider, ...]:
    root = _root(distribution.read_text("WHEEL") or "")
    own = Provider(
        requirement=requirement,
        source=f"{distribution.name} {distribution.version}, installed",
        version=distribution.version,
    )
    places: list[tuple[str, str]] = []
    folders: dict[tuple[str, str | None], Path] = {}
    for file in distribution.files or ():
        # A file outside of site-packages is from the data scheme: `../../../lib/libx.so`.
        scheme = "data" if ".." in file.parts else root
        inside = PurePosixPath(*(part for part in file.parts if part != ".."))
        places.append((scheme, str(inside)))
        folders[scheme, str(inside.parent)] = Path(str(distribution.locate_file(file))).parent
    return tuple(
        replace(found, path=str(folders[found.scheme, found.directory or "."].resolve()))
        for found in _providers(places, own)
    )


def in_directory(path: Path) -> tuple[Provider, ...]:
    """Return the libraries in the directory at `path`.

    Search paths can lead there if it is in site-packages.
    """
    path = canonical(path)
    names = sorted(file.name for file in path.iterdir() if _LIBRARY.fullmatch(file.name))
    parts = path.parts
    at = max((n for n, part in enumerate(parts) if part in SITE_FOLDERS), default=None)
    own = Provider(
        libraries=tuple(escape(name) for name in names),
        directory=None if at is None else "/".join(parts[at + 1 :]),
        source=str(path),
        path=str(path),
    )
    return (own,) if names else ()


def _providers(places: Iterable[tuple[str, str]], own: Provider) -> tuple[Provider, ...]:
    """Return `own` once for each folder with libraries that others may need."""
    found = ((scheme, *place.rpartition("/")[::2]) for scheme, place in places)
    libraries = [place for place in found if _LIBRARY.fullmatch(place[2]) or unhashed(place[2])]
    # A library in site-packages is preferred to a copy in the data scheme.
    libraries.sort(key=lambda place: place[0] == "data")
    return tuple(
        replace(
            own,
            libraries=tuple(sorted(escape(name) for _, _, name in same)),
            directory=folder,
            scheme=scheme,
        )
        for (scheme, folder), same in grouped(libraries, lambda place: place[:2]).items()
    )


def _not_empty(found: tuple[Provider, ...], what: str) -> tuple[Provider, ...]:
    if not found:
        raise SettingsError(f"{what} provides no library", hint="libraries are called lib*.so*")
    return found
