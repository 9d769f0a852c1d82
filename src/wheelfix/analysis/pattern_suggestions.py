"""What was probably meant by a pattern of library names that matches nothing."""

from collections.abc import Collection
from difflib import get_close_matches
from fnmatch import fnmatchcase
from glob import escape


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
    globs += [escape(name) for name in get_close_matches(pattern, names, n=1, cutoff=0.85)]
    unmatched = [name for name in names if not fnmatchcase(name, pattern)]
    matches = ((glob, tuple(n for n in unmatched if fnmatchcase(n, glob))) for glob in globs)
    return next(((glob, found) for glob, found in matches if found), None)
