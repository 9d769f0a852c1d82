"""Libraries that must come from the user's machine: drivers, and what belongs to its display."""

from functools import cache, lru_cache

from wheelfix.grouping import flatten
from wheelfix.settings import matches_any
from wheelfix.system.packaged_text import read_lines
from wheelfix.wheel.grafted_name import original_name, remove_hash

NEVER, WITH_DRIVERS = "never-bundled.txt", "installed-with-drivers.txt"
"""The lists: libraries that a wheel must not contain, and those that it may leave out."""

FROM_MACHINE = "must come from the user's machine, as {}"
"""What is said of a library that a wheel must not contain, with the reason."""


@lru_cache(1 << 12)
def reason_not_to_bundle(library: str) -> str | None:
    """Return the reason why a wheel must not contain `library`, None if it may.

    The list is `never-bundled.txt`. The name may have the hash of a graft.
    """
    return _reason(library, NEVER)


@lru_cache(1 << 12)
def reason_to_leave_out(library: str) -> str | None:
    """Return the reason why a wheel may leave `library` to the machine, None if it may not.

    The list is `installed-with-drivers.txt`: such a library may also be bundled. No machine has one
    with the hash of a graft.
    """
    if remove_hash(library):
        return None
    return reason_not_to_bundle(library) or _reason(library, WITH_DRIVERS)


def _reason(library: str, file: str) -> str | None:
    name = original_name(library)
    return next((reason for globs, reason in listed(file) if matches_any(name, globs)), None)


def never_globs() -> tuple[str, ...]:
    """Return the patterns of all libraries that a wheel must not contain."""
    return tuple(flatten(globs for globs, _ in listed(NEVER)))


@cache
def listed(file: str) -> tuple[tuple[tuple[str, ...], str], ...]:
    """Return the patterns of each line of the list `file`, and their reason."""
    lines = (line.partition(": ") for line in read_lines("wheelfix.analysis", file))
    return tuple((tuple(globs.split()), reason) for globs, _, reason in lines)
