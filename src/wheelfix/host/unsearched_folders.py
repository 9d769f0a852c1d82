"""Folders of this machine that have a library, though no loader looks there for the wheel."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from wheelfix.analysis.ungraftable_libraries import LibraryPlace
from wheelfix.elf.model import Elf
from wheelfix.grouping import flatten
from wheelfix.host.machine_files import MAX_LIBRARY, trusted_file
from wheelfix.host.reachable_files import read_file
from wheelfix.loader.loader_demands import demands_of
from wheelfix.wheel.model import Wheel

_COMMON = (
    "usr/local/lib",
    "usr/local/lib64",
    "usr/local/cuda/lib64",
    "opt/*/lib",
    "opt/*/lib64",
)
"""Where packages that are not the distribution's are installed (FHS 3.0, /opt and /usr/local)."""


def places_of_missing(libraries: Iterable[str], wheel: Wheel) -> dict[str, LibraryPlace]:
    """Return for each of `libraries` the first folder that has it, if one does.

    The search paths of all objects of `wheel` count, also of those that do not need the library:
    a build often gives the path to one of two modules.
    """
    places = dict.fromkeys(_places(wheel))
    by_name: dict[str, LibraryPlace] = {}
    for name in (name for name in libraries if "/" not in name):
        dependents = [elf for elf in wheel.elfs.values() if name in elf.needed]
        for place in places:
            if _has(place.folder, name, dependents or list(wheel.elfs.values())):
                by_name[name] = place
                break
    return by_name


def _places(wheel: Wheel) -> Iterator[LibraryPlace]:
    if not demands_of(wheel.libc).on_builders:
        return
    for member, elf in wheel.elfs.items():
        for entry in elf.entries:
            if entry.startswith("/"):
                yield LibraryPlace(entry.rstrip("/"), f"the {elf.path_tag} of `{member}`")
    for folder in (
        f"{sys.prefix}/lib",
        *flatten(map(str, sorted(Path("/").glob(pattern))) for pattern in _COMMON),
    ):
        yield LibraryPlace(folder, f"`{folder}`")


def _has(folder: str, name: str, dependents: Iterable[Elf]) -> bool:
    try:
        library = read_file(trusted_file(Path(folder, name), MAX_LIBRARY))
    except OSError:
        return False
    return library is not None and any(library.abi == elf.abi for elf in dependents)
