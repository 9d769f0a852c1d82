"""Versions of other distributions that wheelfix requires (PEP 508)."""

from importlib import metadata

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version


def required(distribution: str) -> SpecifierSet:
    """Return the versions of `distribution` that the metadata of wheelfix allow."""
    requirements = map(Requirement, metadata.requires("wheelfix") or ())
    return next(found.specifier for found in requirements if found.name == distribution)


def is_supported(distribution: str, version: str) -> bool:
    """Return whether `version` is one that wheelfix allows (PEP 440)."""
    try:
        return required(distribution).contains(Version(version), prereleases=True)
    except InvalidVersion:
        return False
