"""The symbols that moved into libc.so.6, and glibc's libraries as they were before.

glibc 2.34 merged libpthread and libdl into libc.so.6, and most of librt, libutil, libanl and
libresolv; some symbols moved earlier. On an older glibc, a reference to such a symbol binds only in
a process that loads its library. `glibc-moves.txt` lists them, and its sources.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from wheelfix.elf.exports import among, with_changes
from wheelfix.elf.model import LIBC_SONAMES, Definition, Elf, Libc
from wheelfix.grouping import flatten, values_by_key
from wheelfix.loader.as_needed import Library
from wheelfix.loader.symbol_versions import Release, prefix_of, release_of
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.system.packaged_text import read_lines

_LIBC = LIBC_SONAMES[Libc.GLIBC]
_VERSION = lazy_pattern(r"GLIBC_(\d{1,9})\.(\d{1,9})(?:\.\d{1,9})?")


def oldest_glibc(elfs: Iterable[Elf]) -> Release:
    """Return the oldest glibc that can load all of `elfs`, by the symbol versions they need.

    It is the oldest one that their platform tag can promise.
    """
    needs = flatten(elf.verneed for elf in elfs)
    needed = set(flatten(need.versions for need in needs))
    releases = (release_of(version)[:2] for version in needed if prefix_of(version) == "GLIBC")
    return max(filter(any, releases), default=())


def is_part(library: Library) -> bool:
    """Return whether a library is one from which or to which symbols moved."""
    return library.elf.soname in _parts()


def before_moves(libraries: Mapping[str, Library], release: Release) -> Iterator[Library]:
    """Yield those of `libraries`, by path, that were different in `release` of glibc.

    Nothing differs if they are of that release, or an older one.
    """
    by_soname = {library.elf.soname: library for library in libraries.values()}
    libc = by_soname.get(_LIBC)
    if libc is None:
        return
    present = libc.exports.definitions
    moved = {name: move for name, move in _moves().items() if move[1] > release}
    old = {
        name: definitions
        for name in among(present, frozenset(moved))
        if (definitions := tuple(_older(present[name], moved[name][1])))
    }
    if not old:
        return
    yield _with(libc, dict.fromkeys(old, ()))
    for soname, names in values_by_key((moved[name][0], name) for name in old).items():
        if (library := by_soname.get(soname)) is not None:
            yield _with(library, {name: old[name] for name in names})


def _older(definitions: Iterable[Definition], since: Release) -> Iterator[Definition]:
    """Yield the definitions that a symbol had before it moved, which libc.so.6 keeps as hidden."""
    for definition in definitions:
        release = glibc_release(definition.version or "")
        if release is not None and release < since:
            yield definition._replace(hidden=False, version_index=None)


def _with(library: Library, changes: Mapping[str, tuple[Definition, ...]]) -> Library:
    exports = with_changes(library.exports, changes)
    return Library(path=library.path, elf=library.elf, read=lambda: exports)


def glibc_release(version: str) -> Release | None:
    """Return the release of a symbol version: `GLIBC_2.3.4` is 2.3; None for other versions."""
    match = _VERSION.fullmatch(version)
    return match and (int(match[1]), int(match[2]))


@cache
def _parts() -> frozenset[str | None]:
    return frozenset({_LIBC, *(name for name, _ in _moves().values())})


@cache
def _moves() -> Mapping[str, tuple[str, Release]]:
    """Return the library that defined each symbol, and the release whose libc.so.6 has it."""
    lines = (line.split() for line in read_lines("wheelfix.loader", "glibc-moves.txt"))
    return {
        name: (library, tuple(map(int, release.split(".")))) for name, library, release in lines
    }
