"""ELF objects that the providers of a wheel install.

What was found of a provider is read. A provider known only by name gets an object for each
DT_NEEDED name that it provides: enough to see whether a search path leads there.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from pathlib import Path

from wheelfix.analysis.world import Neighbor, neighbor
from wheelfix.elf.model import Elf, shared_object
from wheelfix.grouping import flatten
from wheelfix.host.reachable_files import read_file
from wheelfix.providers.model import Folder, Provided
from wheelfix.providers.provider_uses import every_provider_of, versions_of
from wheelfix.wheel.model import Key, Wheel
from wheelfix.wheel.reader import open_wheel


def neighbors_of(
    wheel: Wheel, providers: tuple[Provided, ...], imported: Collection[str] = ()
) -> tuple[Neighbor, ...]:
    """Return the objects that `providers` install next to `wheel`.

    Only providers that `wheel` needs, directly or not, are read; of several versions the highest;
    and those with the names `imported`, of wheels or else of distributions. Raises `WheelfixError`
    for a wheel that cannot be read.
    """
    neighbors = {
        provider.wheel or provider.label: _whole(provider)
        for provider in providers
        if provider.places and provider.file_name in imported
    }
    beside = chain.from_iterable(each.elfs.values() for each in neighbors.values())
    elfs = [*wheel.elfs.values(), *beside]
    waiting = [(name, elf) for elf in elfs for name in elf.needed]
    names: set[str] = set()
    for name, dependent in waiting:  # grows during the loop
        having = [] if name in names else every_provider_of(name, providers)
        names.add(name)
        for provider in having:
            highest = next(iter(versions_of(provider, providers)), provider)
            if highest.wheel:
                if highest.wheel not in neighbors:
                    neighbors[highest.wheel] = neighbor(wheel_beside(highest.wheel))
                    needs = neighbors[highest.wheel].elfs.values()
                    waiting += [(needed, elf) for elf in needs for needed in elf.needed]
                continue
            before = neighbors.get(highest.label, _installed(highest))
            added = _files(name, dependent, highest)
            new = {place: elf for place, elf in added.items() if place not in before.elfs}
            neighbors[highest.label] = replace(before, elfs={**before.elfs, **new})
            waiting += [(needed, elf) for elf in new.values() for needed in elf.needed]
    return tuple(neighbors.values())


def _whole(provider: Provided) -> Neighbor:
    """Return all objects of a provider that was found."""
    if not provider.wheel:
        places = flatten(map(_in_folder, provider.folders))
        return replace(_installed(provider), elfs=dict(places))
    return neighbor(wheel_beside(provider.wheel))


def wheel_beside(path: str) -> Wheel:
    """Read a wheel that is only looked at; the last ones are kept until their files change."""
    changed = 0
    with suppress(OSError):  # the reader says what is wrong
        changed = Path(path).stat().st_mtime_ns
    return _read(path, changed)


@lru_cache(64)
def _read(path: str, changed: int) -> Wheel:
    del changed  # it tells apart the wheels that a file has had
    with open_wheel(Path(path)) as archive:
        return archive.wheel


def _installed(provider: Provided) -> Neighbor:
    name = provider.file_name or provider.called
    return Neighbor(name=name, platforms=provider.platforms)


def _files(name: str, dependent: Elf, provider: Provided) -> Mapping[tuple[Key, str], Elf]:
    """Return the objects in the folders of `provider` that have the library `name`."""
    folders = [folder for folder in provider.folders if folder.has(name)]
    if provider.places:
        return dict(flatten(map(_in_folder, folders)))
    return _stub(name, dependent, folders[0]) if folders else {}


def _in_folder(folder: Folder) -> Iterator[tuple[tuple[Key, str], Elf]]:
    readable = folder.path and folder.directory is not None
    names: list[str] = []
    with suppress(OSError):  # RECORD may list what is not there
        names = sorted(os.listdir(folder.path)) if readable else []  # noqa: PTH208 - names
    for name in filter(folder.has, names):
        elf = read_file(f"{folder.path}/{name}")
        if elf is not None:
            yield (folder.scheme, f"{folder.directory}/{name}"), elf


def _stub(name: str, dependent: Elf, folder: Folder) -> Mapping[tuple[Key, str], Elf]:
    """Return an object with the SONAME `name`, and nothing else."""
    if folder.directory is None:
        return {}
    elf = shared_object(dependent.abi, name, osabi=dependent.osabi, flags=dependent.flags)
    return {(folder.scheme, f"{folder.directory}/{name}"): elf}
