"""The list of what was grafted, for those who must know what is in a wheel (PEP 770).

CycloneDX 1.6 (ECMA-424), without a serial number and without the time, so that the same wheel
gets the same list. Packages are named by package URLs (ECMA-427).
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from wheelfix.wheel import Wheel, WheelName

MEMBER = "sboms/wheelfix.cdx.json"
"""Its name in the dist-info folder (PEP 770, "Specification")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package of a Linux distribution, as its database describes it."""

    type: Literal["deb", "rpm", "apk"]
    name: str
    version: str
    """With the release, as in `5.4.1-1`; an rpm's epoch is not in it."""
    arch: str
    """In the distribution's own terms: `amd64`, `x86_64`."""
    distro: str
    """ID of os-release(5)."""
    distro_version: str = ""
    """VERSION_ID of os-release(5), where it has one."""
    epoch: str = ""
    """Of an rpm that has one."""
    licence: str | None = None
    """An SPDX expression, or what the distribution says in its own words."""

    @property
    def purl(self) -> str:
        """Its package URL (PURL-TYPES: deb, rpm, apk)."""
        qualifiers = {
            "arch": self.arch,
            "distro": "-".join(filter(None, (self.distro, self.distro_version))),
            "epoch": self.epoch,
        }
        name = self.name if self.type == "rpm" else self.name.lower()
        return _purl(self.type, [self.distro.lower(), name], self.version, qualifiers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A grafted library: what it was, and where it is."""

    file: str
    """The name of the host's file."""
    sha256: str
    """Of the host's file, in hexadecimal: editing has changed the one in the wheel."""
    package: Package | None
    members: tuple[str, ...]
    """The members that hold it, the one that auditwheel made first."""


def write_sbom(wheel: Wheel, libraries: Sequence[Library], tools: Mapping[str, str]) -> bytes:
    """List `libraries`, of which `wheel` in its final state has all members.

    `tools` are the names and the versions of the programs that made the wheel.
    """
    component = _wheel_component(wheel.name)
    listed = sorted(libraries, key=_reference)
    refs = [_reference(library) for library in listed]
    sonames = {_soname(wheel, library): _reference(library) for library in listed}
    depends = {
        _reference(library): sorted(
            {sonames[name] for name in wheel.elfs[library.members[0]].needed if name in sonames}
        )
        for library in listed
    }
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "tools": {
                "components": [
                    {"type": "application", "name": name, "version": version}
                    for name, version in sorted(tools.items())
                ]
            },
            "component": component,
        },
        "components": [_component(library) for library in listed],
        "dependencies": [
            {"ref": component["bom-ref"], "dependsOn": refs},
            *({"ref": ref, "dependsOn": needed} for ref, needed in depends.items()),
        ],
    }
    return (json.dumps(document, indent=2) + "\n").encode()


def _wheel_component(name: WheelName) -> dict[str, Any]:
    project = re.sub(r"[-_.]+", "-", name.distribution).lower()
    purl = _purl("pypi", [project], name.version, {"file_name": str(name)})
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name.distribution,
        "version": name.version,
        "purl": purl,
    }


def _component(library: Library) -> dict[str, Any]:
    package = library.package
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": _reference(library),
        "name": package.name if package else library.file,
    }
    if package:
        component["version"] = package.version
    component["hashes"] = [{"alg": "SHA-256", "content": library.sha256}]
    if package and package.licence:
        component["licenses"] = [_licence(package.licence)]
    if package:
        component["purl"] = package.purl
    component["evidence"] = {"occurrences": [{"location": name} for name in library.members]}
    return component


def _reference(library: Library) -> str:
    """Return what names the library in this list: several may come from one package."""
    return library.members[0]


def _soname(wheel: Wheel, library: Library) -> str:
    return wheel.elfs[library.members[0]].soname or library.file


def _licence(text: str) -> dict[str, Any]:
    """Say `text` as one SPDX id, as an SPDX expression, or else as a name.

    It is what the distribution declares for a package, and nobody's verdict on the one file.
    """
    declared = {"acknowledgement": "declared"}
    try:
        expression = str(canonicalize_license_expression(text))
    except InvalidLicenseExpression:
        return {"license": {"name": text, **declared}}
    if re.search(r"[^\w.-]|LicenseRef-", expression):
        return {"expression": expression, **declared}
    return {"license": {"id": expression, **declared}}


def _purl(kind: str, names: Sequence[str], version: str, qualifiers: Mapping[str, str]) -> str:
    """Compose a package URL; only letters, digits and `.-_~:` stand for themselves.

    Qualifiers without a value are left out, the others are in the order of their names.
    """
    path = "/".join(quote(part, safe=":") for part in (kind, *names))
    given = [
        f"{key}={quote(value, safe=':')}" for key, value in sorted(qualifiers.items()) if value
    ]
    return f"pkg:{path}@{quote(version, safe=':')}?{'&'.join(given)}"
