"""ELF objects that the providers of a wheel install.

An available provider is read. A provider known only by name gets an object for each DT_NEEDED name
that it provides: enough to see whether a search path leads there.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from wheelfix.analysis.installation import ProviderFiles
from wheelfix.analysis.providers import provider_of
from wheelfix.elf.model import Elf, ElfType
from wheelfix.host.reachable_files import read_file
from wheelfix.loader.install_schemes import split
from wheelfix.settings import Provider
from wheelfix.wheel.model import Key, Wheel
from wheelfix.wheel.reader import open_wheel


def provider_files_of(wheel: Wheel, providers: Iterable[Provider]) -> tuple[ProviderFiles, ...]:
    """Return the objects that the looked up `providers` install next to `wheel`.

    Only providers that `wheel` needs, directly or not, are read; of several versions the first,
    which is the highest. Raises `WheelfixError` for a wheel that cannot be read.
    """
    known = tuple(providers)
    first = {p.name: p.version for p in reversed(known) if p.name and p.path}
    found: dict[str, ProviderFiles] = {}
    waiting = [(name, elf) for elf in wheel.elfs.values() for name in elf.needed]
    names: set[str] = set()
    for name, dependent in waiting:  # grows during the loop
        provider = provider_of(name, known)
        if name in names or provider is None:
            continue
        names.add(name)
        if first.get(provider.name, provider.version) != provider.version:
            continue  # only the lowest version provides it
        key = provider.path or f"{provider.label} {provider.scheme} {provider.directory}"
        if not provider.path:
            before = found.get(key, ProviderFiles(name=provider.name))
            elfs = {**before.elfs, **_stub(name, dependent, provider)}
            found[key] = replace(before, elfs=elfs)
        elif key not in found:
            found[key] = _read(provider)
            needs = found[key].elfs.values()
            waiting += [(needed, elf) for elf in needs for needed in elf.needed]
    return tuple(found.values())


def _read(provider: Provider) -> ProviderFiles:
    path = Path(provider.path)
    if path.suffix == ".whl":
        with open_wheel(path) as archive:
            wheel = archive.wheel
        places = ((split(member, wheel), elf) for member, elf in wheel.elfs.items())
        return ProviderFiles(
            name=str(wheel.name),
            elfs={place: elf for place, elf in places if place is not None},
            platforms=wheel.name.platforms,
        )
    return ProviderFiles(
        name=provider.name or provider.source, elfs=dict(_in_directory(path, provider))
    )


def _in_directory(path: Path, provider: Provider) -> Iterator[tuple[tuple[Key, str], Elf]]:
    for file in sorted(path.iterdir()) if provider.directory is not None else ():
        elf = read_file(file) if provider.has(file.name) else None
        if elf is not None:
            yield (Key(provider.scheme), f"{provider.directory}/{file.name}"), elf


def _stub(name: str, dependent: Elf, provider: Provider) -> Mapping[tuple[Key, str], Elf]:
    """Return an object with the SONAME `name`, and nothing else."""
    if provider.directory is None:
        return {}
    elf = Elf(
        bits=dependent.bits,
        little_endian=dependent.little_endian,
        machine=dependent.machine,
        osabi=dependent.osabi,
        flags=dependent.flags,
        type=ElfType.DYN,
        soname=name,
    )
    return {(Key(provider.scheme), f"{provider.directory}/{name}"): elf}
