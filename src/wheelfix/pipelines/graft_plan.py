"""What to graft into a wheel and how to tag it, as it follows from auditwheel's analysis.

Names, references and tags are those of auditwheel's repair.py (`repair_wheel`, `copylib`) and
wheeltools.py (`add_platforms`).
"""

import hashlib
import mmap
import posixpath
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import NamedTuple

from wheelfix.elf.model import Elf
from wheelfix.elf.reader import read_elf
from wheelfix.errors import BadElfError, ToolError
from wheelfix.pipelines.auditwheel_view import View
from wheelfix.wheel.grafted_name import hashed
from wheelfix.wheel.model import Wheel

Externals = Mapping[str, Mapping[str, Path]]
"""Object of the view -> name in DT_NEEDED -> the library of this machine that is to be grafted."""


class HostLibrary(NamedTuple):
    """A library of this machine."""

    source: Path
    """The file, with symbolic links resolved."""
    path: Path
    """A private copy."""
    mode: int
    """`st_mode` of the file, with write permission for its owner."""
    sha256: str
    """In hexadecimal."""
    elf: Elf

    @property
    def hashed_name(self) -> str:
        """The file name with the hash in it: `libfoo.so.1` -> `libfoo-1a2b3c4d.so.1`."""
        return hashed(self.source.name, self.sha256)


class GraftedLibrary(NamedTuple):
    """A library of this machine that belongs into the wheel."""

    member: str
    """Its name in the wheel: `pkg.libs/libfoo-1a2b3c4d.so.1`."""
    host: HostLibrary
    soname: str
    """The SONAME that it is to get."""
    original: str
    """The name in DT_NEEDED by which it was found."""
    renames: tuple[tuple[str, str], ...] = ()
    """Its own DT_NEEDED entries that are to change, old and new."""


class Tags(NamedTuple):
    """What a wheel says of its platforms."""

    platforms: tuple[str, ...]
    """The platform tags of the file name."""
    tags: tuple[str, ...]
    """The `Tag:` lines of WHEEL."""
    root_is_purelib: bool
    """`Root-Is-Purelib` of WHEEL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graft:
    """What auditwheel decided, in terms of the real wheel."""

    tags: Tags
    """As they are to be."""
    libraries: tuple[GraftedLibrary, ...] = ()
    """Sorted by member."""
    renames: Mapping[str, tuple[tuple[str, str], ...]] = field(
        default_factory=dict[str, tuple[tuple[str, str], ...]]
    )
    """Member -> DT_NEEDED entries, old and new; only entries that the member has."""
    dropped: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Member -> DT_NEEDED entries that no policy allows at all: libpython."""
    excluded: frozenset[str] = frozenset()
    """Names, and paths of this machine, that an exclude pattern kept out."""
    messages: tuple[str, ...] = ()
    """What the user should know, in terms of the real wheel."""


# --- Libraries ------------------------------------------------------------------------------------


def copy_libraries(externals: Externals, workdir: Path) -> dict[Path, HostLibrary]:
    """Copy the libraries of this machine to `workdir`; return them by their places.

    Raises `ToolError` for a file that is no ELF object.
    """
    sources = sorted({path for found in externals.values() for path in found.values()})
    return {
        source: _copy(source, workdir / f"grafted-{number}")
        for number, source in enumerate(sources)
    }


def _copy(source: Path, path: Path) -> HostLibrary:
    shutil.copyfile(source, path)
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        try:
            elf = read_elf(data, source.name)
        except BadElfError as error:
            raise ToolError(f"`{source}` cannot be grafted: {error}", hint=error.hint) from error
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    mode = source.stat().st_mode | stat.S_IWUSR
    return HostLibrary(source=source, path=path, mode=mode, sha256=sha256, elf=elf)


def grafted_libraries(
    externals: Externals,
    hosts: Mapping[Path, HostLibrary],
    wheel: Wheel,
    view: View,
    folder: str,
) -> tuple[GraftedLibrary, ...]:
    """Return what the wheel's objects need, and what that needs in its turn.

    `folder` is where the libraries are to stand in the wheel. Under a name that the wheel ships,
    a grafted library gets what is shipped. Where two objects find different libraries under one
    name, a grafted library gets those of the first object that needs it.
    """
    shipped = {posixpath.basename(member) for member, elf in wheel.elfs.items() if elf.dynamic}
    found: dict[str, GraftedLibrary] = {}
    for place, sources in externals.items():
        waiting = [n for m in view.represented[place] for n in wheel.elfs[m].needed if n in sources]
        while waiting:
            name = waiting.pop()
            host = hosts[sources[name]]
            if host.hashed_name in found:
                continue
            inner = [n for n in host.elf.needed if n in sources and n not in shipped]
            found[host.hashed_name] = GraftedLibrary(
                member=f"{folder}/{host.hashed_name}",
                host=host,
                soname=host.hashed_name,
                original=name,
                renames=tuple((n, hosts[sources[n]].hashed_name) for n in dict.fromkeys(inner)),
            )
            waiting += inner
    return tuple(sorted(found.values(), key=lambda library: library.member))


def renames(
    externals: Externals, hosts: Mapping[Path, HostLibrary], wheel: Wheel, view: View
) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return by member the DT_NEEDED entries that are to change, old and new."""
    found = {
        member: tuple(
            (name, hosts[sources[name]].hashed_name)
            for name in dict.fromkeys(wheel.elfs[member].needed)
            if name in sources
        )
        for place, sources in externals.items()
        for member in view.represented[place]
    }
    return {member: pairs for member, pairs in found.items() if pairs}


# --- Tags -----------------------------------------------------------------------------------------


def retagged(wheel: Wheel, platforms: Sequence[str], replaced: str) -> Tags:
    """Return the tags of `wheel` with `platforms` added, in place of `replaced` and `any`.

    `replaced` is the tag that promises nothing: `linux_x86_64`.
    """
    before = sorted({tag.lower() for tag in wheel.name.platforms})  # as `packaging` reads them
    after = dict.fromkeys((*(tag for tag in before if tag != replaced), *platforms))
    gone = [replaced]
    if "any" in after and len(after) > 1:
        del after["any"]
        gone.append("any")
    # Each pair of a Python and an ABI gets all platforms (PEP 425, "Compressed Tag Sets").
    pairs = dict.fromkeys("-".join(tag.split("-")[:2]) for tag in wheel.tags)
    kept = [tag for tag in wheel.tags if tag not in set(map("-".join, product(pairs, gone)))]
    new = [tag for tag in map("-".join, product(pairs, platforms)) if tag not in wheel.tags]
    tags = (*kept, *new)
    is_purelib = wheel.root_is_purelib and not ("any" in gone and tags != wheel.tags)
    return Tags(platforms=tuple(sorted(after)), tags=tags, root_is_purelib=is_purelib)


def tags_of(wheel: Wheel) -> Tags:
    """Return the tags that `wheel` has."""
    return Tags(wheel.name.platforms, wheel.tags, wheel.root_is_purelib)
