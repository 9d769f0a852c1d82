"""The releases of other tools that wheelfix needs, as its own metadata name them."""

from functools import cache
from importlib import metadata

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version


@cache
def required(distribution: str) -> SpecifierSet:
    """Return the releases of `distribution` that wheelfix's metadata require (PEP 508)."""
    listed = map(Requirement, metadata.requires("wheelfix") or ())
    return next(found.specifier for found in listed if found.name == distribution)


def is_supported(distribution: str, version: str) -> bool:
    """Return whether `version` is among the releases that are required; False for no version."""
    try:
        return required(distribution).contains(Version(version), prereleases=True)
    except InvalidVersion:
        return False
