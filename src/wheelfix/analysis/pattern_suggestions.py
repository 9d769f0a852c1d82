"""Patterns of library names: what one that matches nothing was to match, and few for many names."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection
from difflib import get_close_matches
from fnmatch import fnmatchcase
from glob import escape
from itertools import takewhile

_BEGINNING = 5
"""Characters that names have in common for one pattern: `libQt`."""


def suggest_pattern(pattern: str, names: Collection[str]) -> tuple[str, tuple[str, ...]] | None:
    """Return a pattern that was probably meant by `pattern`, and the names that only it matches.

    The likeliest mistake is tried first: no asterisk for the version, no `lib`, another version, a
    typing error. None if no pattern like that matches any of `names`.
    """
    stem, dot_so, _ = pattern.partition(".so")
    bare = pattern.rstrip("*")
    if not bare or not stem.strip("*"):
        return None
    globs = [f"{bare}*", f"lib{bare}*", *([f"{stem}.so*"] if dot_so else [])]
    globs += [escape(name) for name in get_close_matches(pattern, names, n=1, cutoff=0.9)]
    unmatched = [name for name in names if not fnmatchcase(name, pattern)]
    matches = ((glob, tuple(n for n in unmatched if fnmatchcase(n, glob))) for glob in globs)
    return next(((glob, matched) for glob, matched in matches if matched), None)


def common_patterns(names: Collection[str], others: Collection[str]) -> list[str]:
    """Return globs that together match all of `names`, and none of `others`.

    Names that begin alike have one, unless one of `others` does, too.
    """
    left, there = sorted(names), sorted(others)

    def is_of_others(start: str) -> bool:
        after = there[bisect_left(there, start) :][:1]
        return any(name.startswith(start) for name in after)

    patterns: list[str] = []
    while left:
        starts = (left[0][:end] for end in range(_BEGINNING, len(left[0]) + 1))
        start = next((text for text in starts if not is_of_others(text)), left[0])
        alike = left[: bisect_right(left, start, key=lambda name: name[: len(start)])]
        first, last = alike[0], alike[-1]  # sorted: what these two share, all share
        pairs = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
        shared = escape("".join(letter for letter, _ in pairs))
        patterns.append(f"{shared}*" if len(alike) > 1 else shared)
        del left[: len(alike)]
    return patterns
