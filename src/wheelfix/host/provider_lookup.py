"""What providers have: read from a wheel, an installed distribution, or a directory.

Only names are read here; the symbols of their libraries are `hostlibs`' to read.
"""

import re
import zipfile
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from glob import escape
from importlib import metadata
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

from packaging.utils import canonicalize_name

from wheelfix.analysis.providers import allowed, presets
from wheelfix.analysis.wheel_sets import Part
from wheelfix.errors import BadWheelError, SettingsError, WheelfixError
from wheelfix.loader.install_schemes import interpreters
from wheelfix.settings import SCHEMES, Provider, Settings, name_of
from wheelfix.wheel.dist_info import read_core_metadata
from wheelfix.wheel.grafted_name import unhashed
from wheelfix.wheel.model import Wheel, WheelName
from wheelfix.wheel.platform_tags import parse_platform_tag

_LIBRARY = re.compile(r"lib(?![^/]*\.(?:cpython|pypy|abi3))[^/]*\.so(?:\.[^/]*)?")
_SITE = ("site-packages", "dist-packages")


def with_providers(settings: Settings, base: Path, wheel: Wheel | None = None) -> Settings:
    """Return `settings` with all providers looked up, and those at hand to be looked into.

    `base` is where relative paths count from. Of several versions at hand, the highest and the
    lowest that METADATA of `wheel` allows remain, in this order. Raises `SettingsError` for a
    provider that is not found, or that cannot be installed beside `wheel`.
    """
    if not settings.provider:
        return settings
    there = looked_up(settings, base).provider
    found = list(_for_wheel(there, None if wheel is None else wheel.name))
    requirements = () if wheel is None else wheel.metadata.requires_dist
    found = [each for some in _by_name(found) for each in _judged(some, requirements)]
    seen: dict[str, Provider] = {}
    for each in found:
        if each.name and (each.at_hand or each.refused):
            seen.setdefault(each.name, each)
    providers = tuple(_together(each, seen.get(each.name), found) for each in found)
    places = (*settings.library_path, *(each.at_hand for each in providers if each.at_hand))
    return replace(settings, provider=providers, library_path=tuple(dict.fromkeys(places)))


def looked_up(settings: Settings, base: Path) -> Settings:
    """Return `settings` with all that their providers mean, in every version at hand.

    Raises `SettingsError` for a provider that is not found.
    """
    found = (each for given in settings.provider for each in _looked_up(given, base))
    return replace(settings, provider=tuple(found))


def _together(provider: Provider, known: Provider | None, among: Iterable[Provider]) -> Provider:
    """Let what is said of one distribution in several ways be said of it as a whole."""
    asked = (each.requirement for each in among if each.name and each.name == provider.name)
    longest = max(asked, key=len, default=provider.requirement)
    if known is None or provider.at_hand or provider.refused:
        return replace(provider, requirement=longest)
    return replace(
        provider,
        requirement=longest,
        at_hand=known.at_hand,
        version=known.version,
        refused=known.refused,
    )


def _looked_up(given: Provider, base: Path) -> tuple[Provider, ...]:
    if given.libraries:
        return (given,)
    text = given.requirement or given.source
    path = base / text
    if not given.requirement and path.suffix == ".whl":
        return in_wheel(path)
    if not given.requirement and path.is_dir():
        wheels = [each for wheel in sorted(path.glob("*.whl")) for each in _in_wheel(wheel)]
        return _some((*wheels, *in_directory(path)), f"the directory `{path}`")
    found = in_distribution(text) or presets().get(name_of(text), ())
    if not found:
        raise SettingsError(
            f"the provider `{text}` is neither a wheel nor a directory, is not installed, and "
            "wheelfix does not know it",
            hint="give its wheel: `--provider FILE.whl`; or `libraries` and `directory` in "
            "[[tool.wheelfix.provider]]",
        )
    return tuple(replace(each, requirement=text) for each in found)


# --- Which of several -----------------------------------------------------------------------------


def _by_name(providers: Iterable[Provider]) -> Iterable[list[Provider]]:
    """Return the providers distribution by distribution; each mere directory stands alone."""
    found: dict[tuple[str, str], list[Provider]] = {}
    for each in providers:
        key = (each.name, "" if each.name else f"{each.source} {each.directory}")
        found.setdefault(key, []).append(each)
    return found.values()


def _judged(providers: list[Provider], requires_dist: Iterable[str]) -> Iterator[Provider]:
    """Yield the highest and the lowest allowed version of one distribution, and what is told.

    Where METADATA does not ask for it, what was asked of the provider itself decides.
    """
    name = providers[0].name
    versions = dict.fromkeys(each.version for each in providers if each.at_hand and name)
    asked = [text for text in requires_dist if name_of(text) == name]
    good = allowed(versions, asked or [max((e.requirement for e in providers), key=len)])
    refused = tuple(version for version in versions if version not in good)
    yield from (each for each in providers if not each.at_hand)
    if not versions:
        yield from (each for each in providers if each.at_hand)
    elif not good:
        # Where nothing at hand is allowed, its names still say what is not to be grafted.
        last = list(versions)[-1]
        own = (each for each in providers if each.at_hand and each.version == last)
        yield from (replace(each, at_hand="", refused=refused) for each in own)
    for version in dict.fromkeys((good[-1], good[0])) if good else ():
        own = (each for each in providers if each.at_hand and each.version == version)
        yield from (replace(each, refused=refused) for each in own)


def _for_wheel(providers: Iterable[Provider], wheel: WheelName | None) -> Iterator[Provider]:
    """Yield what can be installed beside `wheel`, one wheel for each version.

    Raises `SettingsError` for a distribution of which no wheel at hand can.
    """
    taken: dict[tuple[str, str], str] = {}
    misfits: dict[str, str] = {}
    fitting: set[str] = set()
    kept: list[Provider] = []
    for each in providers:
        if not each.at_hand.endswith(".whl"):
            kept.append(each)
            continue
        problem = _misfit(WheelName.parse(Path(each.at_hand).name), wheel)
        if problem is not None:
            misfits.setdefault(each.name, f"the provider `{each.source}` is {problem}")
            continue
        fitting.add(each.name)
        if taken.setdefault((each.name, each.version), each.at_hand) == each.at_hand:
            kept.append(each)
    for name, problem in misfits.items():
        if name not in fitting:
            raise SettingsError(
                f"{problem}: it is never installed beside `{wheel}`",
                hint="give the provider's wheel for the same platform and Python",
            )
    yield from kept


def _misfit(provider: WheelName, wheel: WheelName | None) -> str | None:
    """Say why `provider` cannot be installed where `wheel` is; None if it can."""
    if wheel is None:
        return None
    theirs, ours = ({*map(_platform, each.platforms)} for each in (provider, wheel))
    if not any(_alike(one, other) for one in theirs for other in ours):
        said = (" or ".join(sorted(" ".join(e).strip() for e in some)) for some in (theirs, ours))
        return "for {}, and the wheel for {}".format(*said)
    pythons = interpreters(provider)
    if not set(pythons).intersection(interpreters(wheel)):
        return f"for {', '.join(pythons)}, and the wheel for {', '.join(interpreters(wheel))}"
    return None


def _platform(tag: str) -> tuple[str, str]:
    """Return the C library and the machine of a platform tag; empty where it leaves them open."""
    parsed = parse_platform_tag(tag)
    if not parsed.is_linux:
        return "", "" if tag == "any" else tag
    return parsed.libc or "", parsed.arch


def _alike(one: tuple[str, str], other: tuple[str, str]) -> bool:
    return all(not a or not b or a == b for a, b in zip(one, other, strict=True))


# --- Three kinds of places ------------------------------------------------------------------------


def in_wheel(path: Path) -> tuple[Provider, ...]:
    """Return what the wheel at `path` provides, one provider for each of its folders.

    Only the zip's directory and WHEEL are read. Raises `SettingsError`, `BadWheelError`.
    """
    return _some(_in_wheel(path), f"the wheel `{path}`")


def in_wheel_beside(path: Path) -> tuple[Provider, ...]:
    """Return what another wheel of the run provides; what is wrong with it is told elsewhere."""
    try:
        return _in_wheel(path)
    except WheelfixError:
        return ()


def _in_wheel(path: Path) -> tuple[Provider, ...]:
    with zip_file(path) as archive:
        members = archive.namelist()
        texts = [text_in(archive, m).lower() for m in members if m.endswith(".dist-info/WHEEL")]
    name = WheelName.parse(path.name)
    root = "purelib" if any("root-is-purelib: true" in each for each in texts) else "platlib"
    data = f"{name.distribution}-{name.version}.data/"
    places = (_place_in_wheel(member, data, root) for member in members)
    return _providers(
        (place for place in places if place is not None),
        Provider(
            requirement=name.distribution.replace("_", "-"),
            source=path.name,
            at_hand=str(path),
            version=name.version,
        ),
    )


def parts_in(paths: Sequence[Path]) -> tuple[Part, ...]:
    """Return what each of the wheels says of itself and of those that it requires.

    A wheel that cannot be read requires nothing: whoever reads it whole says what is wrong. Wheels
    of one distribution are not looked into.
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
        nothing = ("none",)
        return WheelName(
            distribution=path.name,
            version="0",
            build=None,
            pythons=nothing,
            abis=nothing,
            platforms=nothing,
        )


def _required_by(path: Path) -> tuple[str, ...]:
    with suppress(SettingsError), zip_file(path) as archive:
        members = (m for m in archive.namelist() if m.count("/") == 1)
        member = next((m for m in members if m.endswith(".dist-info/METADATA")), None)
        return read_core_metadata(text_in(archive, member)).requires_dist if member else ()
    return ()


@contextmanager
def zip_file(path: Path) -> Generator[ZipFile]:
    """Open a wheel that nobody has verified, to read a little of it.

    Raises `SettingsError` for what cannot be opened, or turns out to be damaged.
    """
    try:
        if path.exists() and not path.is_file():
            raise OSError("it is not a file")  # noqa: TRY301 - told as the others are
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, OSError, RuntimeError, ValueError, EOFError) as error:
        raise SettingsError(
            f"the provider `{path}` cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from error


def text_in(archive: ZipFile, member: str) -> str:
    """Return the beginning of a text: what is longer than any is not for us to refuse here."""
    with archive.open(member) as file:
        return file.read(_MOST_TEXT).decode("utf-8", "replace")


_MOST_TEXT = 1 << 22
"""Bytes that are read of METADATA, or of WHEEL."""


def _place_in_wheel(member: str, data: str, root: str) -> tuple[str, str] | None:
    """Return the scheme path that `member` belongs to, and its place there."""
    if not member.startswith(data):
        return root, member
    scheme, _, rest = member.removeprefix(data).partition("/")
    return (scheme, rest) if scheme in SCHEMES else None


def in_distribution(requirement: str) -> tuple[Provider, ...]:
    """Return what the distribution provides as it is installed beside wheelfix, by its RECORD.

    Nothing where it is not installed, or has no RECORD.
    """
    try:
        distribution = metadata.distribution(name_of(requirement))
    except (metadata.PackageNotFoundError, ValueError):
        return ()
    root = "purelib" if "root-is-purelib: true" in _wheel_text(distribution) else "platlib"
    own = Provider(
        requirement=requirement,
        source=f"{distribution.name} {distribution.version}, installed",
        version=distribution.version,
    )
    places: list[tuple[str, str]] = []
    for file in distribution.files or ():
        # What lies outside site-packages came from the data scheme: `../../../lib/libx.so`.
        inside = PurePosixPath(*[part for part in file.parts if part != ".."])
        places.append(("data" if ".." in file.parts else root, str(inside)))
    site = Path(str(distribution.locate_file("")))
    return tuple(
        replace(each, at_hand=str(_on_disk(distribution.files or (), each, site)))
        for each in _providers(places, own)
    )


def _wheel_text(distribution: object) -> str:
    read = getattr(distribution, "read_text", None)
    return (read("WHEEL") or "").lower() if read else ""


def _on_disk(files: Iterable[PurePosixPath], provider: Provider, site: Path) -> Path:
    wanted = f"{provider.directory}/"
    for file in files:
        inside = str(PurePosixPath(*[part for part in file.parts if part != ".."]))
        if inside.startswith(wanted):
            return (site / file).resolve().parent
    return site / (provider.directory or "")


def in_directory(path: Path) -> tuple[Provider, ...]:
    """Return what the directory at `path` holds; an entry leads there if it is in site-packages."""
    names = sorted(each.name for each in path.iterdir() if _LIBRARY.fullmatch(each.name))
    parts = path.resolve().parts
    at = max((n for n, part in enumerate(parts) if part in _SITE), default=None)
    own = Provider(
        libraries=tuple(escape(name) for name in names),
        directory=None if at is None else "/".join(parts[at + 1 :]),
        source=str(path),
        at_hand=str(path),
    )
    return (own,) if names else ()


def _providers(places: Iterable[tuple[str, str]], own: Provider) -> tuple[Provider, ...]:
    """Return `own` once for each folder that has libraries for others."""
    folders: dict[tuple[str, str], list[str]] = {}
    for scheme, place in places:
        folder, _, name = place.rpartition("/")
        if _LIBRARY.fullmatch(name) or unhashed(name):
            folders.setdefault((scheme, folder), []).append(name)
    return tuple(
        replace(
            own,
            libraries=tuple(escape(name) for name in sorted(names)),
            directory=folder,
            scheme=scheme,
        )
        # What stands in site-packages is nearer than a copy for the data scheme.
        for (scheme, folder), names in sorted(
            folders.items(), key=lambda each: each[0][0] == "data"
        )
    )


def _some(found: tuple[Provider, ...], what: str) -> tuple[Provider, ...]:
    if not found:
        raise SettingsError(f"{what} provides no library", hint="libraries are called lib*.so*")
    return found


# --- For the list of what is used -----------------------------------------------------------------
