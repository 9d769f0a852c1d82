"""auditwheel's verdict on a wheel, as a value."""

from collections.abc import Mapping
from typing import NamedTuple


class Verdict(NamedTuple):
    """Which platform tag the objects of a wheel allow, and what forbids a better one."""

    overall: str
    """The best tag, such as `manylinux_2_17_x86_64`; `linux_x86_64` where none is met."""
    external: Mapping[str, str | None]
    """Libraries that neither the wheel nor the policy provides -> where this host has them."""
    reasons: tuple[str, ...]
    """Why not better, in plain words: which symbol version or library, in which member."""
    near: tuple[str, ...] = ()
    """The better tags that only a few symbols forbid: which symbol, in which member."""
    libraries_alone: bool = False
    """Whether `external` is all that forbids the tag: with these given, it is met."""
