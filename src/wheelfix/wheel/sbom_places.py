"""Where the components of an SBOM are in its wheel, and their license texts.

A component is JSON as CycloneDX says. To read one of another form raises `TypeError`, `KeyError` or
`AttributeError`.
"""

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote


def occurrences(component: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the places of a component; the `location` of each is a member."""
    places: list[dict[str, Any]] = component.get("evidence", {}).get("occurrences", [])
    return places


def license_reference(path: str) -> dict[str, str]:
    """Return the external reference to a license text.

    `path` is relative to `*.dist-info/licenses` (PEP 639), the reference to the folder of SBOMs.
    """
    return {"type": "license", "url": f"../licenses/{quote(path)}"}


def license_members(component: Mapping[str, Any], folder: str) -> Iterator[str]:
    """Yield the members to which an SBOM in `folder` refers as license texts of a component."""
    for reference in component.get("externalReferences", ()):
        if reference["type"] == "license":
            yield posixpath.normpath(f"{folder}/{unquote(reference['url'])}")
