"""Well-known distributions that have libraries for others, by `well-known.json`."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from wheelfix.grouping import flatten, values_by_key
from wheelfix.named_tuple import NamedTuple
from wheelfix.providers.markers import extras_of, may_hold, requirements_on, with_extras
from wheelfix.providers.model import Folder
from wheelfix.settings import DataLibraries, ProviderSetting, Settings, matches_any
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.system.packaged_text import read_text
from wheelfix.text import FEW, by_number, join_plain, join_some, quote
from wheelfix.wheel.model import Key, Wheel
from wheelfix.wheel.requirements import (
    allows_from,
    is_for_extra,
    name_of,
    parsed,
    read_requirement,
)

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_WITHOUT_LIBSTDCXX = lazy_pattern(r"nvidia-(?!cufile).*|apache-tvm-ffi|tbb")
"""Those whose libraries define no symbol of libstdc++: `nm -D` of all for CUDA 13, tvm-ffi 0.1.15
and tbb 2023.2. Later releases of it are linked into those of cufile 1.15.1, pyarrow 25.0.1,
tensorflow-cpu 2.21.0, torch 1.10.2 and 2.14.1, without a version; the others are not known."""
_BELOW_OTHERS = {"nvidia-cublas", "nvidia-cuda-nvrtc", "nvidia-cusparse", "nvidia-nvjitlink"}
"""Which distributions of NVIDIA others require, for the same CUDA: by METADATA of all in the list,
and of their newest versions, in November 2026."""
CUDA_BUILD = lazy_pattern(r"-(cu\d+)$")
"""How the normalized names of distributions end that are for one version of CUDA: `-cu12`."""
_OWN_BUILD = lazy_pattern(r"[-+ ]cu(?:da)?(\d\d)")
"""In the name or the version of a release for one version of CUDA."""
SEARCH = f"--data-libraries={DataLibraries.SEARCH}"
"""The option for a library of a wheel's data files."""
OPTIONS_OF_BUILD = "`--add-requires --provider` with that of the wheel's build"
"""The options that leave a library to one of several wheels that METADATA does not require."""
OF_SOME = "by an extra if other modules load without it"
"""How METADATA must require what only some modules need (WF821)."""


@cache
def _tables() -> Sequence[Mapping[str, Any]]:
    tables: Sequence[Mapping[str, Any]]
    tables = json.loads(read_text("wheelfix.providers", "well-known.json"))
    return tables


@cache
def well_known_folders() -> Mapping[str, Sequence[Folder]]:
    """Return the folders of each well-known distribution, by its normalized name."""
    return values_by_key(
        (
            table["name"],
            Folder(
                scheme=Key(table["scheme"]),
                directory=table["directory"],
                libraries=tuple(table["libraries"]),
            ),
        )
        for table in _tables()
    )


@cache
def well_known_libraries() -> frozenset[str]:
    """Return the well-known distributions that are libraries alone: their import loads nothing."""
    return frozenset(name for name in well_known_folders() if name.startswith("nvidia-"))


def releases_with(provider: str, library: str) -> tuple[int, int] | None:
    """Return the major version of a well-known provider that has `library`, and the next one.

    None if it is not known: where the number of the SONAME is not that of the release.
    """
    number = library.partition(".so.")[2].partition(".")[0]
    start = f"{provider} {number}."
    own = (table for table in _tables() if f"{table['source']}.".startswith(start) and number)
    is_known = any(matches_any(library, table["libraries"]) for table in own)
    return (int(number), int(number) + 1) if is_known else None


@lru_cache(1 << 12)
def well_known_providers_of(library: str, besides: str = "") -> tuple[str, ...]:
    """Return the names of the well-known wheels that contain `library`.

    That is without the distribution `besides`: what it lacks, it cannot require of itself.
    """
    own, known = canonicalize_name(besides), well_known_folders().items()
    return tuple(n for n, at in known if n != own and any(folder.has(library) for folder in at))


def lacks_libstdcxx(library: str) -> bool:
    """Return whether `library` is one of a well-known wheel, and defines no symbol of libstdc++."""
    names = well_known_providers_of(library)
    return bool(names) and all(map(_WITHOUT_LIBSTDCXX.fullmatch, names))


def possible_wheels(library: str, besides: str = "") -> str:
    """Return which well-known wheels have `library`, without `besides`; empty if none has."""
    return in_wheels(library, well_known_providers_of(library, besides))


def in_wheels(library: str, names: Sequence[str]) -> str:
    """Return that well-known wheels of these `names` have `library`; empty for none."""
    listed = " or ".join(names)
    if is_listed(library, names):
        return f"in {listed}"
    return listed and f"perhaps in a release of {listed}"


def is_listed(library: str, names: Iterable[str]) -> bool:
    """Return whether a well-known wheel of `names` has `library`, by more than its pattern."""
    folders = flatten(well_known_folders()[name] for name in names)
    return any(library in folder.libraries for folder in folders)


def well_known_provider(library: str, wheel: Wheel) -> str:
    """Return the well-known distribution with `library` that `wheel` is for; empty if not known.

    That is one that METADATA requires, or to which a search path leads.
    """
    names = _for_wheel(library, wheel)
    paths = {entry.rstrip("/") for entry in flatten(elf.entries for elf in wheel.elfs.values())}
    searched = [
        name
        for name in names
        for folder in well_known_folders()[name]
        if any(path.endswith(f"/{folder.directory}") for path in paths)
    ]
    providers = dict.fromkeys(searched or names)
    return next(iter(providers)) if len(providers) == 1 else ""


@lru_cache(1 << 14)
def brings(requirement: str, library: str) -> bool | None:
    """Return whether what is required has `library`, or requires what has it; None: not known.

    The marker is not judged.
    """
    try:
        required = read_requirement(requirement)
    except ValueError:  # reported by the rules about METADATA
        return None
    name, having = canonicalize_name(required.name), well_known_providers_of(library)
    releases = releases_with(name, library)
    if releases and not allows_from(required, *releases):
        return False
    if not having or name in having:
        return True if having else None
    having_for = {(CUDA_BUILD.sub("", other), _cuda_build(other)) for other in having}
    is_known = name in well_known_libraries()
    below = having_for.intersection((base, _cuda_build(name)) for base in _BELOW_OTHERS)
    is_other = any(base == CUDA_BUILD.sub("", name) for base, _ in having_for)
    return False if is_other or (is_known and not below) else None


def bringing(wheel: Wheel, names: Iterable[str], libraries: Collection[str]) -> list["Requirement"]:
    """Return what METADATA requires of `names` that may bring all of `libraries`."""
    required = flatten(requirements_on(wheel, name) for name in names)
    return [r for r in required if all(brings(str(r), at) is not False for at in libraries)]


def lacking(library: str, wheel: Wheel) -> list[str]:
    """Return what METADATA requires that has `library` in another version, such as for its CUDA."""
    bases = {CUDA_BUILD.sub("", name) for name in well_known_providers_of(library)}
    texts = (
        t
        for t in with_extras(wheel.metadata.requires_dist)
        if CUDA_BUILD.sub("", name_of(t)) in bases
    )
    without = (text for text in texts if brings(text, library) is False)
    return [text for text in without if may_hold(read_requirement(text), wheel.name)]


def where_required(library: str, wheel: Wheel) -> str:
    """Return in which well-known wheels `library` is, and whether METADATA requires one."""
    required = bringing(wheel, (names := _for_wheel(library, wheel)), [library])
    every = [t for t in with_extras(wheel.metadata.requires_dist) if name_of(t) in names]
    texts = [text for text in every if brings(text, library) is not False]
    if command := by_extra(library, wheel):
        how = f"requires only by an extra: {command}"
    elif any(one.marker is None for one in required):
        how = "requires"
    else:
        absent = "requires in another version" if every else "does not require"
        how = f"requires only as {quote(texts[0])}" if texts else absent
    where = in_wheels(library, names)
    return where and f"{where}, which METADATA {how}"


def by_extra(library: str, wheel: Wheel) -> str:
    """Return the command that installs `library` by an extra of `wheel`, if no other way does."""
    required = bringing(wheel, _for_wheel(library, wheel), [library])
    extras = [*flatten(map(extras_of, required))] if all(map(is_for_extra, required)) else []
    name = canonicalize_name(wheel.name.distribution)
    return f"`pip install '{name}[{extras[0]}]'`" if extras else ""


def how_to_require(library: str, wheel: Wheel) -> str:
    """Return how METADATA of `wheel` gets the well-known wheel that has `library`."""
    name, *others = _for_wheel(library, wheel)
    bounds = releases_with(name, library)
    line = name + (f">={bounds[0]},<{bounds[1]}" if bounds else "")
    which = f"{join_plain((name, *others), FEW)}, for the same CUDA," if others else f'"{line}"'
    old = "".join(f', in place of "{text}",' for text in lacking(library, wheel))
    return f"add {which}{old} to `dependencies` in pyproject.toml"


def way_of_authors(
    library: str,
    owner: str,
    requires: Iterable[str],
    directories: Iterable[str],
    lacking: Mapping[str, str],
) -> str:
    """Return what the authors of another wheel must change, where it does not find a library.

    `owner` is what `requires` some, and searches `directories`; `lacking` are the providers of all
    that the object does not find, empty where not known. Empty if it finds the library of a
    well-known wheel once that is installed, or if that is not known.
    """
    every, requires = well_known_providers_of(library), tuple(requires)
    required = [text for text in requires if name_of(text) in every]
    if required and not any(brings(text, library) for text in required):
        old = f"{owner} requires `{required[0]}`, which does not have it"
        return f"{old}, so its authors must change that"
    names = tuple(dict.fromkeys(map(name_of, required))) or every
    folders = flatten(well_known_folders()[name] for name in names)
    ends = tuple(f"/{folder.directory}" for folder in folders)
    if not is_listed(library, names) or any(at.endswith(ends) for at in directories):
        return ""
    own = "" if names[1:] else names[0]  # for which CUDA is not known
    meant = {**lacking, library: lacking.get(library) or own}
    options = options_for(meant, requires)
    way = f"`wheelfix repair {options}`" if all(meant.values()) else "one"
    some = f"; METADATA must require it {OF_SOME}" * ("--add-requires" in way and not required)
    return f"no search path of {owner} leads there, so its wheel needs {way}{some}"


def lacking_notes(library: str, wheel: Wheel) -> list[str]:
    """Return a note on each of those that are `lacking`."""
    return [f"METADATA requires `{r}`, which does not have it" for r in lacking(library, wheel)]


def _cuda_build(name: str) -> str:
    """Return the version of CUDA that a distribution is for: `cu12`; empty if it names none.

    Since CUDA 13, those of NVIDIA have no suffix.
    """
    build = CUDA_BUILD.search(name)
    return build[1] if build else "cu13" * name.startswith("nvidia-")


def providers_for(
    library: str, release: str, requires: Collection[str], needed: Iterable[str]
) -> tuple[str, ...]:
    """Return the well-known wheels with `library` that a release may mean.

    That is first of all what it `requires`, or else those of one version of CUDA: of its other
    `needed` libraries, or else of what it requires and of its own name, as in `cupy-cuda12x 14.0`
    or `torch 2.6.0+cu124`. Where nothing is known, it may mean any.
    """
    names = well_known_providers_of(library, release.partition(" ")[0])
    known = well_known_folders().keys() & {*map(name_of, requires)}
    having = ({*map(_cuda_build, well_known_providers_of(name))} for name in needed)
    builds = {*chain.from_iterable(same for same in having if len(same) == 1)} - {""}
    own = (f"cu{number}" for number in _OWN_BUILD.findall(canonicalize_name(release)))
    builds = builds or {*own, *map(_cuda_build, known)} - {""}
    required = {name_of(text) for text in requires if brings(text, library)}
    meant = tuple(filter(required.__contains__, names))
    return meant or tuple(name for name in names if _cuda_build(name) in builds) or names


def _for_wheel(library: str, wheel: Wheel) -> tuple[str, ...]:
    """Return the same for a wheel."""
    every = with_extras(wheel.metadata.requires_dist)
    known = (text for text in every if name_of(text) in well_known_folders())
    texts = [str(each) for each in parsed(known) if may_hold(each, wheel.name)]
    return providers_for(
        library, f"{wheel.name.distribution} {wheel.name.version}", texts, wheel.needed
    )


def way_of_build(library: str, wheel: Wheel) -> str:
    """Return where `library` is, if not known which well-known wheel `wheel` is for; or empty."""
    known = well_known_provider(library, wheel)
    where = "" if known else in_wheels(library, _for_wheel(library, wheel))
    return where and f"{quote(library)} is {where}: to leave it there, {OPTIONS_OF_BUILD}"


class Leaving(NamedTuple):
    """How a repair leaves libraries to the other wheels that have them."""

    libraries: tuple[str, ...] = ()
    options: str = ""
    of_build: tuple[str, ...] = ()
    """For others, which of several wheels is meant depends on what the wheel was built for."""

    def lines(self, command: str = "") -> Iterator[str]:
        """Yield the ways, each with its options of `command`."""
        if names := self.libraries:
            have = by_number(names, "wheel that has it", "wheels that have them")
            yield f"to leave {join_some(names, FEW)} to the other {have}: `{command}{self.options}`"
        yield from self.of_build


def ways_to_leave(
    libraries: Collection[str],
    wheel: Wheel,
    unreached: Mapping[str, str],
    is_left: Callable[[Collection[str], str], bool],
) -> Leaving:
    """Return how to leave libraries to the other wheels that have them.

    The options lead to the `unreached` libraries of requirements, too. Only those are offered with
    which the plan of a repair leaves them (`is_left`); of several wheels, the first is tried.
    """
    owners = {library: well_known_provider(library, wheel) for library in libraries}
    known = {library: name for library, name in owners.items() if name}
    options = options_of({**unreached, **known}, wheel)
    is_known = bool(known) and is_left(known, options)
    ways = Leaving(tuple(known), options) if is_known else Leaving()
    of_build = {library: way for library in libraries if (way := way_of_build(library, wheel))}
    first = {library: _for_wheel(library, wheel)[0] for library in of_build}
    known |= first
    if of_build and is_left(known, options_of({**unreached, **known}, wheel)):
        return ways._replace(of_build=tuple(of_build.values()))
    return ways


def with_options(settings: Settings, options: str) -> Settings:
    """Return the settings with the options that `options_of` returns."""
    words = options.split()
    named = (ProviderSetting(source=of) for at, of in pairwise(words) if at == "--provider")
    return replace(
        settings,
        provider=(*settings.provider, *named),
        add_requires=settings.add_requires or "--add-requires" in words,
        data_libraries=DataLibraries.SEARCH if SEARCH in words else settings.data_libraries,
    )


def sole_providers(libraries: Iterable[str]) -> dict[str, str]:
    """Return the well-known wheels of the libraries that only one has, by library."""
    known = ((library, well_known_providers_of(library)) for library in libraries)
    return {library: names[0] for library, names in known if len(names) == 1}


def options_of(providers: Mapping[str, str], wheel: Wheel) -> str:
    """Return the options that leave each library to its provider, which METADATA must require.

    A requirement that a repair does not add must be there before. Empty for none.
    """
    pairs = providers.items()
    unmet = {to for library, to in pairs if not bringing(wheel, [name_of(to)], [library])}
    is_left = any(is_optional(library, to, wheel) for library, to in pairs)
    return _options(providers, () if is_left else unmet)


def is_optional(library: str, provider: str, wheel: Wheel) -> bool:
    """Return whether METADATA must get a requirement that a repair does not add.

    So where only some modules need the provider (WF821).
    """
    modules = (elf for elf in wheel.elfs.values() if elf.is_module)
    needed = all(library in elf.needed for elf in modules)
    return not needed and not bringing(wheel, [provider], [library])


def options_for(providers: Mapping[str, str], requires: Iterable[str]) -> str:
    """Return the same for a wheel that `requires` some."""
    return _options(providers, {*providers.values()} - {*map(name_of, requires)})


def _options(providers: Mapping[str, str], unmet: Collection[str]) -> str:
    options = dict.fromkeys(options_to_search(to, library) for library, to in providers.items())
    return " ".join((*options, *["--add-requires"] * bool(unmet)))


def options_to_search(provider: str, library: str) -> str:
    """Return the options with which a repair writes the search path to a library of a provider.

    To a folder of the environment, no one entry leads in each install scheme.
    """
    known = well_known_folders().get(canonicalize_name(provider), ())
    is_data = any(folder.scheme is Key.DATA for folder in known if folder.has(library))
    return f"--provider {provider}" + f" {SEARCH}" * is_data
