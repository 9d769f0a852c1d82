"""The part of a member's name that is the same in every build and release."""

from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.wheel.grafted_name import original_name

_OF_DISTRIBUTION = lazy_pattern(r"^[^/]+-[^/-]+\.(dist-info|data)(?=/|$)")


def stable_name(member: str) -> str:
    """Return a member's name without what differs between builds and releases.

    This is the hash of a graft, and the name and version of the distribution: `*.data/lib/libx.so`.
    """
    folder, slash, base = _OF_DISTRIBUTION.sub(r"*.\1", member).rpartition("/")
    return folder + slash + original_name(base)
