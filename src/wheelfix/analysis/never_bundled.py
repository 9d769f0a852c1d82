"""Libraries that must come from the user's machine: drivers, and what belongs to its display."""

from functools import cache, lru_cache

from wheelfix.settings import matches_any
from wheelfix.system.packaged_text import read_lines
from wheelfix.wheel.grafted_name import original_name


@lru_cache(1 << 12)
def reason_not_to_bundle(library: str) -> str | None:
    """Return the reason why a wheel must not contain `library`, None if it may.

    The list is `never-bundled.txt`. The name may have the hash of a graft.
    """
    name = original_name(library)
    return next((reason for globs, reason in _lines() if matches_any(name, globs)), None)


def never_globs() -> tuple[str, ...]:
    """Return the patterns of all libraries that a wheel must not contain."""
    return tuple(glob for globs, _ in _lines() for glob in globs)


@cache
def _lines() -> tuple[tuple[tuple[str, ...], str], ...]:
    """Return the patterns of each line of the list, and their reason."""
    lines = (line.partition(": ") for line in read_lines("wheelfix.analysis", "never-bundled.txt"))
    return tuple((tuple(globs.split()), reason) for globs, _, reason in lines)
