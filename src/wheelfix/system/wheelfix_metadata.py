"""What the metadata of wheelfix itself say: its requirements, and its documentation site."""

import re
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from wheelfix.system import deferred

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet


def required_versions(distribution: str) -> "SpecifierSet":
    """Return the versions of `distribution` that the metadata allow (PEP 508)."""
    # Our own requirements are a name, versions, and perhaps a marker: a parser takes 4 ms.
    texts = (text.partition(";")[0] for text in deferred.metadata.requires("wheelfix") or ())
    parts = (re.split("(?=[<>=!~])", text, maxsplit=1) for text in texts)
    return next(
        deferred.specifiers.SpecifierSet("".join(versions))
        for name, *versions in parts
        if name == distribution
    )


def is_supported(distribution: str, version: str) -> bool:
    """Return whether `version` is one that wheelfix allows (PEP 440)."""
    try:
        return required_versions(distribution).contains(Version(version), prereleases=True)
    except InvalidVersion:
        return False


def documentation_site() -> str:
    """Return the URL `Documentation` of the project, with a slash at its end.

    It is empty if the project has none, or if wheelfix is not installed.
    """
    try:
        urls = deferred.metadata.metadata("wheelfix").get_all("Project-URL") or []
    except deferred.metadata.PackageNotFoundError:
        return ""
    pairs = (url.partition(", ") for url in urls)
    sites = (address for label, _, address in pairs if label == "Documentation")
    site = next(sites, "")
    return f"{site.rstrip('/')}/" if site else ""
