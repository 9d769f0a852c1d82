"""The releases of other tools that wheelfix needs, as its own metadata name them."""

from functools import cache
from importlib import metadata

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet


@cache
def required(distribution: str) -> SpecifierSet:
    """Return the releases of `distribution` that wheelfix's metadata require (PEP 508)."""
    listed = map(Requirement, metadata.requires("wheelfix") or ())
    return next(each.specifier for each in listed if each.name == distribution)
