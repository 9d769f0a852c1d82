"""Preload shims in a wheel."""

from collections.abc import Mapping

from wheelfix.analysis.preload_shim import read_shim
from wheelfix.wheel.model import PRELOAD, Wheel


def shims(subject: Wheel) -> dict[str, Mapping[str, str]]:
    """Return for each shim of a wheel the libraries that it opens, with their folders."""
    found: dict[str, Mapping[str, str]] = {}
    for member, source in subject.sources.items():
        if member.endswith(f"{PRELOAD}.py"):
            shim = read_shim(source)
            assert shim is not None
            found[member] = shim
    return found
