"""Providers looked up on this machine: wheels, installed distributions, directories.

Only the names of their libraries are read; `library_search` reads the libraries themselves.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from glob import escape
from itertools import islice, product
from pathlib import Path

from packaging.utils import canonicalize_name

from wheelfix.elf.model import Elf
from wheelfix.elf.object_file_names import is_name_to_link, is_object_name
from wheelfix.errors import BadWheelError, SettingsError, WheelfixError
from wheelfix.grouping import flatten, grouped, values_by_key
from wheelfix.host.installed_files import data_folder, find_dist_info, recorded_files
from wheelfix.host.library_search import canonical
from wheelfix.host.machine_files import MAX_TEXT, is_trusted, read_regular
from wheelfix.loader.as_needed import Library
from wheelfix.loader.install_schemes import SITE_FOLDERS, interpreters, split
from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.providers.model import Folder, Provided
from wheelfix.providers.provider_uses import below_site, provider_of, site_folders
from wheelfix.providers.requirements_between_wheels import Part, RequiredWheel
from wheelfix.providers.well_known import well_known_folders
from wheelfix.settings import AUTO, SCHEMES, ProviderSetting
from wheelfix.system import deferred
from wheelfix.system.paths import is_file, is_folder
from wheelfix.wheel.dist_info import is_purelib, platforms_in, read_core_metadata
from wheelfix.wheel.grafted_name import remove_hash
from wheelfix.wheel.metadata_reader import read_unverified
from wheelfix.wheel.model import Key, Metadata, Wheel, WheelName
from wheelfix.wheel.platform_tags import may_coexist, parse_platform_tag
from wheelfix.wheel.requirements import allowed_versions, in_order, name_of

FindLibrary = Callable[[str, Elf], Library | None]
"""Find a library of this machine by its DT_NEEDED name, for an object."""


def find_providers(
    settings: Sequence[ProviderSetting],
    wheel: Wheel,
    find: FindLibrary | None = None,
    beside: Sequence[Provided] = (),
) -> tuple[Provided, ...]:
    """Return what is found of `settings`, and of `beside`, the other wheels of the run.

    Of several available versions, the highest and the
    lowest that METADATA of `wheel` allows remain, in this order. For `auto`, `find` finds libraries
    that no search path of the wheel leads to. Raises `SettingsError` for a provider that is not
    found, or that cannot be installed together with `wheel`. One that is `wheel` itself provides
    nothing, as the settings may be those of several wheels.
    """
    own = canonicalize_name(wheel.name.distribution)
    named = [setting for setting in settings if setting.source != AUTO]
    candidates = list(flatten(_look_up(setting, own, beside) for setting in named))
    candidates += beside
    if len(named) < len(settings):
        candidates += _automatic(wheel, candidates, find)
    fitting = _for_wheel(candidates, wheel.name)
    distributions = grouped(fitting, lambda provider: provider.called)
    return tuple(
        flatten(
            _allowed_versions(versions, wheel.metadata.requires_dist)
            for versions in distributions.values()
        )
    )


def _look_up(setting: ProviderSetting, own: str, beside: Sequence[Provided]) -> Iterator[Provided]:
    text = setting.requirement or setting.source
    path = Path(text)
    if setting.libraries:
        folder = Folder(Key(setting.scheme), setting.directory, setting.libraries)
        versions = [Provided(requirement=text, folders=(folder,))]
    elif not setting.requirement and path.suffix == ".whl":
        versions = _not_empty([in_wheel(path)], f"the wheel `{path}`")
    elif "/" in setting.source and is_folder(path):
        wheels = map(in_wheel, sorted(path.glob("*.whl")))
        versions = _not_empty([*wheels, in_directory(path)], f"the directory `{path}`")
    else:
        versions = [p for p in beside if p.name == name_of(text) and p.folders]
        versions = [replace(p, requirement=text) for p in versions] or [_find_by_name(text)]
        if not versions[0].folders and versions[0].name != own:
            raise SettingsError(
                f"the provider `{text}` is neither a wheel nor a directory, is not installed, and "
                "wheelfix does not know it",
                hint="give its wheel: `--provider FILE.whl`; fetch it: `--with NAME`; or state "
                "`libraries` and `directory` in [[tool.wheelfix.provider]] (in wheelfix.toml, "
                "[[provider]])",
            )
    itself = Provided(requirement=own, setting=setting)
    return (itself if p.name == own else replace(p, setting=setting) for p in versions)


def _not_empty(providers: Iterable[Provided], what: str) -> list[Provided]:
    with_folders = [provider for provider in providers if provider.folders]
    if not with_folders:
        raise SettingsError(f"{what} provides no library", hint="libraries are called lib*.so*")
    return with_folders


def _find_by_name(requirement: str) -> Provided:
    """Return the distribution that is installed beside wheelfix, or else the well-known one."""
    installed = in_distribution(requirement)
    if installed.folders:
        return installed
    folders = well_known_folders().get(name_of(requirement), ())
    return Provided(requirement=requirement, folders=tuple(folders))


# --- Found by the linker --------------------------------------------------------------------------


def _automatic(
    wheel: Wheel, named: Iterable[Provided], find: FindLibrary | None
) -> Iterator[Provided]:
    """Yield the required distributions in whose folders the libraries of the wheel were found.

    A search path may lead to the site-packages of a build environment that is gone, and that of a
    repaired wheel leads to where both will be installed. So a folder below site-packages that a
    distribution beside wheelfix has, or a well-known one, is sufficient. What METADATA does not
    require is left out: it was only there for the build.
    """
    own = canonicalize_name(wheel.name.distribution)
    texts = (text.partition(";")[0].strip() for text in wheel.metadata.requires_dist)
    required = {name: text for text in texts if (name := name_of(text)) not in {"", own}}
    beside = {name: _find_by_name(text) for name, text in required.items()}
    shipped = {member.rpartition("/")[2] for member in wheel.elfs}
    sites = _Sites()
    chosen = list(named)
    for member, elf in wheel.elfs.items() if required else ():
        folders = set(site_folders(member, elf, wheel))
        for library in dict.fromkeys(elf.needed):
            if library in shipped or may_come_from_platform(library):
                continue
            if provider_of(library, chosen) is not None:
                continue
            new = [
                provider
                for provider in beside.values()
                if any(f.has(library) and f.directory in folders for f in provider.folders)
            ]
            if not new:
                owners = filter(None, map(sites.owner, _places(library, elf, find)))
                by_name = {name_of(owner.name.partition("-")[0]): owner for owner in owners}
                read = [
                    (in_dist_info(owner, required[name]), beside[name])
                    for name, owner in by_name.items()
                    if name in required
                ]
                new = [provider for provider in flatten(read) if provider.folders]
            chosen += new
            yield from (replace(provider, setting=ProviderSetting(source=AUTO)) for provider in new)


def _places(library: str, elf: Elf, find: FindLibrary | None) -> Iterator[str]:
    """Yield the path of a library by the first search path entry that has it, and by `find`."""
    paths = (f"{entry}/{library}" for entry in elf.entries if entry.startswith("/"))
    yield from islice(filter(is_file, paths), 1)
    host = find(library, elf) if find else None
    if host is not None:
        yield host.path


class _Sites:
    """The distributions in folders like site-packages, read once. Mutable."""

    def __init__(self) -> None:
        self._owners: dict[Path, dict[str, Path]] = {}

    def owner(self, path: str) -> Path | None:
        """Return the dist-info folder of the distribution with the file at `path` in RECORD."""
        file = canonical(Path(path))
        for folder in file.parents:
            if folder.name in SITE_FOLDERS:
                if folder not in self._owners:
                    self._owners[folder] = {
                        place: dist_info
                        for dist_info in sorted(folder.glob("*.dist-info"))
                        if is_trusted(dist_info / "RECORD")
                        for place in recorded_files(dist_info)
                    }
                return self._owners[folder].get(str(file))
        return None


# --- Choice of a version --------------------------------------------------------------------------


def _allowed_versions(
    versions: Sequence[Provided], requires_dist: Iterable[str]
) -> Iterator[Provided]:
    """Yield the highest and the lowest allowed version of one distribution.

    The folders that the user states, and those of well-known wheels, come first in each. Where
    METADATA does not require the distribution, the requirement in the settings decides; without a
    version there, the highest alone is left: the line to be added excludes the others.
    """
    first = versions[0]
    if not first.name:
        yield first
        return
    stated = list(flatten(each.folders for each in versions if not each.places))
    available: dict[str, Provided] = {}
    for provider in versions:
        if provider.places:
            available.setdefault(provider.version, provider)
    found = [provider for provider in versions if not provider.unknown] or versions
    requirement = max((provider.requirement for provider in found), key=len)
    required = [text for text in requires_dist if name_of(text) == first.name]
    allowed = allowed_versions(available, required or [requirement])
    is_bounded = required or first.through or canonicalize_name(requirement) != first.name
    ends = (*allowed[-1:], *allowed[:1]) if is_bounded else allowed[-1:]
    chosen = [available[version] for version in dict.fromkeys(ends)]
    if not chosen:
        # No available version is allowed; the libraries are still not to be grafted.
        unread = list(available.values())[-1] if available else replace(first, folders=())
        every = available.values() or (unread,)
        folders = tuple(f._replace(path="") for f in flatten(version.folders for version in every))
        chosen = [replace(unread, wheel="", metadata=Metadata(), folders=folders)]
    several = tuple(
        replace(available[version], requirement=requirement)
        for version in (in_order(available) if len(available) > 1 else ())
    )
    for provider in chosen:
        yield replace(
            provider,
            requirement=requirement,
            folders=(*stated, *provider.folders),
            available=several,
            refused=tuple(version for version in available if version not in allowed),
        )


def _for_wheel(providers: Iterable[Provided], wheel: WheelName) -> list[Provided]:
    """Return the providers that can be installed with `wheel`.

    Raises `SettingsError` if no wheel of a distribution can.
    """
    fitting: list[Provided] = []
    misfits: dict[str, str] = {}
    for provider in providers:
        file = Path(provider.wheel).name
        problem = misfit(WheelName.parse(file), wheel) if file else None
        if problem is None:
            fitting.append(provider)
        else:
            misfits.setdefault(provider.name, f"the provider `{file}` is {problem}")
    for name in {provider.name for provider in fitting if provider.wheel}:
        misfits.pop(name, None)
    for problem in misfits.values():
        raise SettingsError(
            f"{problem}: it is never installed beside `{wheel}`",
            hint="give the provider's wheel for the same platform and Python",
        )
    return fitting


def misfit(provider: WheelName, wheel: WheelName) -> str | None:
    """Return why `provider` cannot be installed with `wheel`; None if it can."""
    if not any(may_coexist(*tags) for tags in product(provider.platforms, wheel.platforms)):
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
    return f"{parsed.libc or ''} {parsed.arch}".strip() if parsed.has_objects else tag


# --- Wheels, distributions, directories -----------------------------------------------------------


def libraries_of_required_wheels(
    required: Iterable[RequiredWheel], file_of: Callable[[int], Path]
) -> tuple[Provided, ...]:
    """Return what the wheels provide that one of the run requires; `file_of` is by their place.

    Those that have no libraries, or cannot be read, provide nothing.
    """
    libraries: list[Provided] = []
    for place, through in required:
        path = file_of(place)
        with suppress(WheelfixError):
            libraries.append(replace(in_wheel(path, is_object_name), through=through))
    return tuple(provided for provided in libraries if provided.folders)


def in_wheel(path: Path, counts: Callable[[str], bool] = is_name_to_link) -> Provided:
    """Return the libraries of the wheel at `path`: the files whose name `counts`.

    The libraries themselves are not read. Raises `SettingsError`, `BadWheelError`.
    """
    path = canonical(path)
    wheel = read_unverified(path)
    places = ((split(member, wheel), member) for member in wheel.members)
    return Provided(
        requirement=wheel.name.distribution.replace("_", "-"),
        version=wheel.name.version,
        wheel=str(path),
        metadata=wheel.metadata,
        folders=_folders(
            (
                (*place, str((path / member).parent))
                for place, member in places
                if place is not None
            ),
            counts,
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
        Part(name=name, requires_dist=_requirements_of(path))
        for name, path in zip(names, paths, strict=True)
    )


def _wheel_name(path: Path) -> WheelName:
    try:
        return WheelName.parse(path.name)
    except BadWheelError:
        name = WheelName.parse("unnamed-0-none-none-none.whl")
        return name._replace(distribution=path.name)


def _requirements_of(path: Path) -> tuple[str, ...]:
    with suppress(WheelfixError):
        return read_unverified(path).metadata.requires_dist
    return ()


def in_distribution(requirement: str) -> Provided:
    """Return the libraries of a distribution beside wheelfix.

    There are none if it is not installed, or has no RECORD.
    """
    with suppress(deferred.metadata.PackageNotFoundError, ValueError):
        installed = deferred.metadata.distribution(name_of(requirement))
        site = canonical(Path(str(installed.locate_file("."))))
        folder = find_dist_info(site, f"{installed.name}-{installed.version}.dist-info")
        if folder is not None:
            return in_dist_info(folder, requirement)
    return Provided(requirement=requirement)


def in_dist_info(
    dist_info: Path, requirement: str, counts: Callable[[str], bool] = is_name_to_link
) -> Provided:
    """Return the libraries of the installed distribution with `dist_info`, by its RECORD.

    These are the files whose name `counts`.
    """
    about = metadata_in(dist_info)
    wheel_file = _text(dist_info / "WHEEL")
    root = Key.PURELIB if is_purelib(wheel_file) else Key.PLATLIB
    places: list[tuple[Key, str, str]] = []
    bases = {root: os.path.normpath(dist_info.parent), Key.DATA: str(data_folder(dist_info))}
    for file in recorded_files(dist_info):
        scheme = next((key for key, base in bases.items() if file.startswith(f"{base}/")), None)
        if scheme is not None:
            inside = file.removeprefix(f"{bases[scheme]}/")
            places.append((scheme, inside, file.rpartition("/")[0]))
    folders = _folders(places, counts)
    return Provided(
        requirement=requirement,
        version=about.version,
        metadata=about,
        platforms=platforms_in(wheel_file),
        folders=tuple(f._replace(path=os.path.realpath(f.path)) for f in folders),
    )


def metadata_in(dist_info: Path) -> Metadata:
    """Return METADATA of an installed distribution; an empty one if it cannot be read."""
    return read_core_metadata(_text(dist_info / "METADATA"))


def _text(path: Path) -> str:
    with suppress(OSError):
        return read_regular(path, MAX_TEXT).decode("utf-8", "replace")
    return ""


def in_directory(path: Path) -> Provided:
    """Return the libraries in the directory at `path`.

    Search paths can lead there if it is in site-packages.
    """
    path = canonical(path)
    try:
        names = sorted(file.name for file in path.iterdir() if is_name_to_link(file.name))
    except OSError as error:
        raise SettingsError(f"the directory `{path}` cannot be read: {error.strerror}") from error
    folder = Folder(Key.PLATLIB, below_site(path.parts), tuple(map(escape, names)), str(path))
    return Provided(folders=(folder,) if names else ())


def _folders(
    places: Iterable[tuple[Key, str, str]], counts: Callable[[str], bool]
) -> tuple[Folder, ...]:
    """Return the folders with libraries that others may need.

    Each place is a path of the install scheme, that of a file below it, and that of the file's
    folder on this machine.
    """
    files = ((scheme, *place.rpartition("/")[::2], path) for scheme, place, path in places)
    libraries = values_by_key(
        ((scheme, directory, path), name)
        for scheme, directory, name, path in files
        if scheme in SCHEMES and (counts(name) or remove_hash(name))
    )
    # A library in site-packages is preferred to a copy in the data scheme.
    return tuple(
        Folder(scheme, directory, tuple(map(escape, sorted(names))), path)
        for (scheme, directory, path), names in sorted(
            libraries.items(), key=lambda item: item[0][0] is Key.DATA
        )
    )
