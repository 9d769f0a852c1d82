"""Well-known distributions that have libraries for others, by `well-known.json`."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import Any

from packaging.utils import canonicalize_name

from wheelfix.grouping import flatten, values_by_key
from wheelfix.providers.model import Folder
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.system.packaged_text import read_text
from wheelfix.wheel.model import Key, Wheel
from wheelfix.wheel.requirements import name_of, requirements_on

_WITHOUT_LIBSTDCXX = lazy_pattern(r"nvidia-(?!cufile).*|apache-tvm-ffi|tbb")
"""Those whose libraries define no symbol of libstdc++: `nm -D` of all for CUDA 13, tvm-ffi 0.1.15
and tbb 2023.2. Later releases of it are linked into those of cufile 1.15.1, pyarrow 25.0.1,
tensorflow-cpu 2.21.0, torch 1.10.2 and 2.14.1, without a version; the others are not known."""
CUDA_BUILD = lazy_pattern(r"-(cu\d+)$")
"""How the normalized names of distributions end that are for one version of CUDA: `-cu12`."""


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


def releases_with(provider: str, library: str) -> tuple[int, int] | None:
    """Return the major version of a well-known provider that has `library`, and the next one.

    None if it is not known: where the number of the SONAME is not that of the release.
    """
    number = library.partition(".so.")[2].partition(".")[0]
    start = f"{provider} {number}."
    own = (table for table in _tables() if f"{table['source']}.".startswith(start) and number)
    is_known = any(library in table["libraries"] for table in own)
    return (int(number), int(number) + 1) if is_known else None


@lru_cache(1 << 12)
def well_known_providers_of(library: str) -> tuple[str, ...]:
    """Return the names of the well-known wheels that contain `library`."""
    return tuple(
        name
        for name, folders in well_known_folders().items()
        if any(folder.has(library) for folder in folders)
    )


def lacks_libstdcxx(library: str) -> bool:
    """Return whether `library` is one of a well-known wheel, and defines no symbol of libstdc++."""
    names = well_known_providers_of(library)
    return bool(names) and all(map(_WITHOUT_LIBSTDCXX.fullmatch, names))


def possible_wheels(library: str) -> str:
    """Return which well-known wheels have `library`; empty if none has."""
    names = well_known_providers_of(library)
    listed = " or ".join(names)
    folders = flatten(well_known_folders()[name] for name in names)
    if any(library in folder.libraries for folder in folders):  # not of one release alone
        return f"in {listed}"
    return listed and f"perhaps in a release of {listed}"


def well_known_provider(library: str, wheel: Wheel) -> str:
    """Return the well-known distribution with `library` that `wheel` is for; empty if not known.

    That is one that METADATA requires, or to which a search path leads. Of those for several
    versions of CUDA with the same library, it is that of the wheel's other libraries.
    """
    names = well_known_providers_of(library)
    if not names:
        return ""
    required = [name for name in names if requirements_on(wheel, name)]
    if required:
        return required[0]
    builds = _cuda_builds(wheel) if names[1:] else frozenset[str]()
    names = tuple(name for name in names if _cuda_build(name) in builds) or names
    paths = {entry.rstrip("/") for entry in flatten(elf.entries for elf in wheel.elfs.values())}
    searched = [
        name
        for name in names
        for folder in well_known_folders()[name]
        if any(path.endswith(f"/{folder.directory}") for path in paths)
    ]
    providers = dict.fromkeys(searched or names)
    return next(iter(providers)) if len(providers) == 1 else ""


def is_of_other_cuda(requirement: str, libraries: Iterable[str]) -> bool:
    """Return whether what is required has other versions of `libraries`, for another CUDA."""
    name = name_of(requirement)
    having = {*flatten(map(well_known_providers_of, libraries))}
    return name not in having and CUDA_BUILD.sub("", name) in {
        CUDA_BUILD.sub("", other) for other in having
    }


@lru_cache(1 << 12)
def others_of_cuda(library: str) -> tuple[str, ...]:
    """Return the well-known distributions that have `library` in the version of another CUDA."""
    return tuple(name for name in well_known_folders() if is_of_other_cuda(name, [library]))


def of_other_cuda(library: str, wheel: Wheel) -> Iterator[str]:
    """Yield what METADATA requires that has `library` in another version, for another CUDA."""
    for text in wheel.metadata.requires_dist:
        if is_of_other_cuda(text, [library]):
            yield f"METADATA requires `{text}`, for another CUDA"


def _cuda_build(name: str) -> str:
    """Return the version of CUDA that a distribution is for: `cu12`; empty if it names none.

    Since CUDA 13, those of NVIDIA have no suffix.
    """
    build = CUDA_BUILD.search(name)
    return build[1] if build else "cu13" * name.startswith("nvidia-")


def _cuda_builds(wheel: Wheel) -> frozenset[str]:
    """Return the versions of CUDA whose libraries the wheel needs, where only one has a library."""
    builds = ({*map(_cuda_build, well_known_providers_of(name))} for name in wheel.needed)
    return frozenset(filter(None, chain.from_iterable(same for same in builds if len(same) == 1)))


def provider_option(library: str, wheel: Wheel) -> str:
    """Return the options for `well_known_provider`; empty for none."""
    name = well_known_provider(library, wheel)
    return options_to_search(name, library) if name else ""


def options_to_leave(libraries: Iterable[str]) -> str:
    """Return the options that leave each library to the only wheel that has it; empty for none."""
    known = ((library, well_known_providers_of(library)) for library in libraries)
    options = [options_to_search(names[0], at) for at, names in known if len(names) == 1]
    return " ".join((*dict.fromkeys(options), "--add-requires")) if options else ""


def options_to_search(provider: str, library: str) -> str:
    """Return the options with which a repair writes the search path to a library of a provider.

    To a folder of the environment, no one entry leads in each install scheme.
    """
    known = well_known_folders().get(canonicalize_name(provider), ())
    is_data = any(folder.scheme is Key.DATA for folder in known if folder.has(library))
    return f"--provider {provider}" + " --data-libraries=search" * is_data
