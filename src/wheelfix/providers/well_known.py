"""Well-known distributions that have libraries for others, by `well-known.toml`."""

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain

from wheelfix.grouping import values_by_key
from wheelfix.providers.model import Folder
from wheelfix.system.packaged_text import read_text
from wheelfix.wheel.model import Key, Wheel
from wheelfix.wheel.requirements import requirements_on


@cache
def well_known_folders() -> Mapping[str, Sequence[Folder]]:
    """Return the folders of each well-known distribution, by its normalized name."""
    tables = tomllib.loads(read_text("wheelfix.providers", "well-known.toml"))["provider"]
    return values_by_key(
        (
            table["name"],
            Folder(
                scheme=Key(table["scheme"]),
                directory=table["directory"],
                libraries=tuple(table["libraries"]),
            ),
        )
        for table in tables
    )


@lru_cache(1 << 12)
def well_known_providers_of(library: str) -> tuple[str, ...]:
    """Return the names of the well-known wheels that contain `library`."""
    return tuple(
        name
        for name, folders in well_known_folders().items()
        if any(folder.has(library) for folder in folders)
    )


def well_known_provider(library: str, wheel: Wheel) -> str:
    """Return the well-known distribution with `library` that `wheel` is for; empty for none.

    That is one that METADATA requires, or to which a search path leads.
    """
    names = well_known_providers_of(library)
    required = (name for name in names if requirements_on(wheel, name))
    paths = {entry.rstrip("/") for elf in wheel.elfs.values() for entry in elf.entries}
    searched = (
        name
        for name in names
        for folder in well_known_folders()[name]
        if any(path.endswith(f"/{folder.directory}") for path in paths)
    )
    return next(chain(required, searched, names), "")


def provider_option(library: str, wheel: Wheel) -> str:
    """Return the `--provider` option for `well_known_provider`; empty for none."""
    name = well_known_provider(library, wheel)
    return f"--provider {name}" if name else ""
