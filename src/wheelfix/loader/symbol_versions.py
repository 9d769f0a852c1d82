"""Symbol versions: those that a load needs of a library, and the release that has each.

glibc's loader compares the Verneed records of an object with the Verdef records of the library that
was loaded for each, before it looks up any symbol (elf/dl-version.c). musl has no such check.
"""

import re
from collections.abc import Iterator, Mapping

from wheelfix.elf.model import Elf, Libc, VersionNeed
from wheelfix.loader.platform_libraries import RELR_SINCE, RELR_VERSION, first_versions
from wheelfix.named_tuple import NamedTuple
from wheelfix.system.lazy_patterns import lazy_pattern

Release = tuple[int, ...]

ACCEPTS_UNVERSIONED = "2.41"
"""The first glibc that takes a symbol without a version from the library that should have it.

Older ones end the process when they bind a reference with a version to a symbol of the library that
Verneed names and that has no DT_VERSYM: an assertion of `check_match` in elf/dl-lookup.c, which
commit bdaf50035354 removed. The check of versions before it accepts a library without any Verdef.
"""


def refused_versions(need: VersionNeed, library: Elf | None, libc: Libc | None) -> tuple[str, ...]:
    """Return the versions of `need` for which the loader refuses `library` (`match_symbol`).

    glibc accepts a library without any Verdef, with a warning, and goes on without a version that
    has VER_FLG_WEAK: a reference with it that is not weak is then an undefined symbol.
    """
    if library is None or not library.verdef or libc is Libc.MUSL:
        return ()
    accepted = {*library.verdef, *need.weak}
    return tuple(version for version in need.versions if version not in accepted)


def required_versions(elf: Elf) -> Iterator[tuple[str, str]]:
    """Yield the versions without which `elf` does not load, each after its library.

    One with VER_FLG_WEAK is among them if a reference that is not weak has it.
    """
    for need in elf.verneed:
        for version in need.versions:
            if version not in need.weak or _has_reference(elf, need.file, version):
                yield need.file, version


def _has_reference(elf: Elf, file: str, version: str) -> bool:
    """Return whether a reference that is not weak has a version of a library."""
    return any((s.file, s.version, s.weak) == (file, version, False) for s in elf.undefined)


# --- Which release has a version ---


def newer(release: str, there: str) -> bool:
    """Return whether `release` is newer than `there`; False for names such as PRIVATE."""
    parts, known = release.split("."), there.split(".")
    if not all(part.isdecimal() and len(part) < 10 for part in (*parts, *known)):
        return False
    return [int(part) for part in parts] > [int(part) for part in known]


def came_later(symbol: str, releases: Mapping[str, str]) -> bool:
    """Return whether a symbol is newer than the release that is there, by the prefix of versions.

    Of those that `first_versions` lists.
    """
    prefix, _, release = first_versions().get(symbol, "").partition("_")
    return prefix in releases and newer(release, releases[prefix])


GNU2_TLS = "GLIBC_ABI_GNU2_TLS"
"""The version of libc.so.6 that says that its TLS descriptors keep all registers."""
WITHOUT_GNU2_TLS = "compile with `-mtls-dialect=gnu`"
"""The hint for an object that needs it."""
_ANY, _NEVER = "0", "999999999"
BIONIC_VERSIONS = {
    "": "21", "_N": "24", "_O": "26", "_OMR1": "27", "_P": "28", "_Q": "29", "_R": "30",
    "_S": "31", "_T": "33", "_U": "34", "_V": "35",
}  # fmt: skip
"""What follows `LIBC` in the versions of bionic's libraries, and the API level that brought each
(bionic, libc/libc.map.txt and libdl/libdl.map.txt; the level of a release's letter is in
docs/status.md, "New libc functions in V (API level 35)")."""
_SINCE = {
    RELR_VERSION: (RELR_SINCE[Libc.GLIBC], RELR_SINCE[Libc.GLIBC]),
    GNU2_TLS: ("2.38", "2.43"),  # glibc bug 33129, of August 2025
    "GLIBC_PRIVATE": (_ANY, _ANY),
    **{f"LIBC{name}": (level, level) for name, level in BIONIC_VERSIONS.items()},
    "CXXABI_FLOAT128": ("1.3.9", "1.3.9"),
    "GLIBCXX_DEBUG_MESSAGE_LENGTH": (_ANY, _ANY),
}
"""Version names without a number, with the first release that may have it, by an update of the
distribution, and the first that has it; in the numbers of their prefix."""
_NUMBER = lazy_pattern(r"(?:.*_)?(\d{1,9}(?:\.\d{1,9})*)", re.DOTALL | re.ASCII)


class TooNew(NamedTuple):
    """A symbol version that a platform does not have, or may not have."""

    library: str
    version: str
    newest: str
    """The newest one of its prefix there: `GLIBC_2.28`."""
    is_missing: bool
    """Whether it is missing for sure: otherwise an update of the platform may have brought it."""


def versions_too_new(elf: Elf, known: Mapping[str, str]) -> Iterator[TooNew]:
    """Yield the versions that `elf` requires and that are newer than those of a platform.

    `known` has the newest number of each prefix. A version without a number that is not known here
    may be missing.
    """
    for file, version in required_versions(elf):
        prefix = prefix_of(version)
        if prefix in known:
            first, surely = _releases(version)
            if newer(surely, known[prefix]):
                missing = newer(first, known[prefix])
                yield TooNew(file, version, _newest(prefix, known[prefix]), missing)


def _newest(prefix: str, release: str) -> str:
    """Return the newest version of a prefix in a release, the level of Android's API for `LIBC`."""
    there = [name for name, first in BIONIC_VERSIONS.items() if not newer(first, release)]
    return f"LIBC{there[-1]}" if prefix == "LIBC" and there else f"{prefix}_{release}"


def prefix_of(version: str) -> str:
    """Return the prefix of a version, whose numbers can be compared: `GLIBC` of `GLIBC_2.34`."""
    return version.partition("_")[0]


def release_of(version: str) -> Release:
    """Return the first release that surely has a version: (2, 34) for `GLIBC_2.34`.

    In the numbers of its prefix; empty if it is not known.
    """
    surely = _releases(version)[1]
    return () if surely == _NEVER else tuple(map(int, surely.split(".")))


def _releases(version: str) -> tuple[str, str]:
    """Return the first release that may have a version, and the first that has it."""
    if version in _SINCE:
        return _SINCE[version]
    match = _NUMBER.fullmatch(version)
    return (match[1], match[1]) if match else (_ANY, _NEVER)
