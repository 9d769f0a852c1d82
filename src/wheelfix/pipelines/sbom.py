"""The SBOM of grafted libraries, and of the distributions that others come from (PEP 770).

CycloneDX 1.6 (ECMA-424), without a serial number and without the time, so that the same wheel
gets the same list. Packages are named by package URLs (ECMA-427).
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from wheelfix.host.os_packages import Package, package_url
from wheelfix.wheel.model import Wheel, WheelName

MEMBER = "sboms/wheelfix.cdx.json"
"""Its name in the dist-info folder (PEP 770, "Specification")."""
AUDITWHEEL = "sboms/auditwheel.cdx.json"
"""The name of auditwheel's own list."""


class Library(NamedTuple):
    """A grafted library: what it was, and where it is."""

    file: str
    """The name of the host's file."""
    sha256: str
    """Of the host's file, in hexadecimal: editing has changed the one in the wheel."""
    package: Package | None
    members: tuple[str, ...]
    """The members that hold it, the one that auditwheel made first."""


class Expected(NamedTuple):
    """A distribution that has to be installed, too, for the libraries that it has."""

    name: str
    """In its normal form (PEP 503)."""
    requirements: tuple[str, ...]
    """What the wheel requires of it (PEP 508)."""
    libraries: tuple[str, ...]
    """The DT_NEEDED entries that it satisfies."""
    optional: bool = False
    """Whether only an extra requires it."""
    version: str = ""
    """The version that was found; empty for none."""
    file: str = ""
    """The name of its wheel, if that was found."""
    sha256: str = ""
    """Of this wheel, in hexadecimal."""
    licence: str | None = None

    @property
    def reference(self) -> str:
        """Its package URL, with the version if that is known."""
        given = {"file_name": self.file} if self.file else {}
        return package_url("pypi", [self.name], self.version, given)


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """The list of an earlier repair, by us or by auditwheel, as far as it still holds."""

    components: tuple[dict[str, Any], ...] = ()
    depends: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """By reference."""
    tools: frozenset[tuple[str, str]] = frozenset()
    """Names and versions."""


def write_sbom(
    wheel: Wheel,
    libraries: Sequence[Library],
    tools: Mapping[str, str],
    *,
    expected: Sequence[Expected] = (),
    earlier: Earlier | None = None,
) -> bytes:
    """Return the SBOM of `libraries`, whose members are all in `wheel`, and of what else it uses.

    `tools` are the names and the versions of the programs that made the wheel. What `earlier` has
    under another reference stays.
    """
    own = _wheel_component(wheel.name)
    before = earlier or Earlier()
    still = (each for each in before.components if _holds(each, expected, wheel))
    found = {each["bom-ref"]: each for each in still}
    found |= {_reference(library): _component(library) for library in libraries}
    found |= {each.reference: _expected_component(each) for each in expected}
    refs = sorted(found)
    sonames = {name: each.reference for each in expected for name in each.libraries}
    sonames |= {_soname(wheel, library): _reference(library) for library in libraries}
    depends = {ref: before.depends.get(ref, ()) for ref in refs}
    depends |= {
        _reference(library): tuple(
            sonames[name] for name in wheel.elfs[library.members[0]].needed if name in sonames
        )
        for library in libraries
    }
    used = sorted({*tools.items(), *before.tools})
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "tools": {
                "components": [
                    {"type": "application", "name": name, "version": version}
                    for name, version in used
                ]
            },
            "component": own,
        },
        "components": [found[ref] for ref in refs],
        "dependencies": [
            {"ref": own["bom-ref"], "dependsOn": refs},
            *(
                {"ref": ref, "dependsOn": sorted({each for each in depends[ref] if each in found})}
                for ref in refs
            ),
        ],
    }
    return (json.dumps(document, indent=2) + "\n").encode()


# --- Earlier lists -----------------------------------------------------------------------


def read_sbom(text: str, places: Callable[[str], Sequence[str]]) -> Earlier | None:
    """Return what is still true of a list; None if it is no CycloneDX with components.

    `places` returns where a member of that time is now. Components whose members are gone are left
    out; a component without a place, as auditwheel writes it, stays.
    """
    try:
        document: Any = json.loads(text)
        own = document["metadata"]["component"]["bom-ref"]
        listed = [each for each in document["components"] if _reference_of(each) != own]
        kept = [moved for each in listed if (moved := _moved(each, places)) is not None]
        refs = {old["bom-ref"]: new["bom-ref"] for old, new in kept}
        depends = {
            refs[each["ref"]]: tuple(refs[ref] for ref in each.get("dependsOn", ()) if ref in refs)
            for each in document.get("dependencies", ())
            if each["ref"] in refs
        }
        programs: Any = document["metadata"].get("tools", ())
        if "components" in programs:  # CycloneDX 1.4, which auditwheel writes, has a mere list
            programs = programs["components"]
        named = frozenset((str(each["name"]), str(each["version"])) for each in programs)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return Earlier(components=tuple(new for _, new in kept), depends=depends, tools=named)


def joined(lists: Iterable[Earlier]) -> Earlier:
    """Return several lists as one; what a later one has replaces what an earlier one has."""
    found = Earlier()
    for each in lists:
        refs = {component["bom-ref"] for component in each.components}
        before = (one for one in found.components if one["bom-ref"] not in refs)
        found = Earlier(
            components=(*before, *each.components),
            depends={**found.depends, **each.depends},
            tools=found.tools | each.tools,
        )
    return found


def _moved(
    component: dict[str, Any], places: Callable[[str], Sequence[str]]
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return a component as it was and as it is, None if no member holds it any more."""
    occurrences = component.get("evidence", {}).get("occurrences", ())
    if not occurrences:
        return component, component
    members = [place for each in occurrences for place in places(str(each["location"]))]
    if not members:
        return None
    ref = component["bom-ref"]
    is_member = any(each["location"] == ref for each in occurrences)
    return component, {
        **component,
        "bom-ref": members[0] if is_member else ref,
        "evidence": {"occurrences": [{"location": name} for name in members]},
    }


def _reference_of(component: dict[str, Any]) -> str:
    """Return the reference of a component that we could have written; `TypeError` otherwise."""
    ref, name = component["bom-ref"], component["name"]
    if not isinstance(ref, str) or not isinstance(name, str):
        raise TypeError(ref)
    _properties(component)
    return ref


def _properties(component: Mapping[str, Any]) -> set[tuple[str, str]]:
    return {(str(each["name"]), str(each["value"])) for each in component.get("properties", ())}


def _holds(component: Mapping[str, Any], expected: Sequence[Expected], wheel: Wheel) -> bool:
    """Return whether a component still holds: its library is used, and it is not listed anew."""
    properties = _properties(component)
    if (_EXTERNAL, "true") not in properties:
        return True
    needed = {name for elf in wheel.elfs.values() for name in elf.needed}
    used = any(value in needed for name, value in properties if name == _LIBRARY)
    return used and component["name"] not in {each.name for each in expected}


_EXTERNAL = "wheelfix:external"
"""The property of a component that is not in the wheel (CycloneDX 1.7 has a field for it)."""
_LIBRARY = "wheelfix:library"
"""The property that names a library of such a component, as DT_NEEDED does."""


# --- Components -----------------------------------------------------------------------------------


def _expected_component(expected: Expected) -> dict[str, Any]:
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": expected.reference,
        "name": expected.name,
    }
    if expected.version:
        component["version"] = expected.version
    component["scope"] = "optional" if expected.optional else "required"
    if expected.sha256:
        component["hashes"] = [{"alg": "SHA-256", "content": expected.sha256}]
    if expected.licence:
        component["licenses"] = [_licence(expected.licence)]
    component["purl"] = expected.reference
    properties = [(_EXTERNAL, "true")]
    properties += [("wheelfix:requirement", text) for text in expected.requirements]
    properties += [(_LIBRARY, name) for name in sorted(expected.libraries)]
    component["properties"] = [{"name": name, "value": value} for name, value in properties]
    return component


def _wheel_component(name: WheelName) -> dict[str, Any]:
    project = re.sub(r"[-_.]+", "-", name.distribution).lower()
    purl = package_url("pypi", [project], name.version, {"file_name": str(name)})
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
    """Return the reference of the library in this list: several may be of one package."""
    return library.members[0]


def _soname(wheel: Wheel, library: Library) -> str:
    return wheel.elfs[library.members[0]].soname or library.file


def _licence(text: str) -> dict[str, Any]:
    """Return `text` as an SPDX id, as an SPDX expression, or else as a name.

    It is what the distribution declares for the package, not for this one file.
    """
    declared = {"acknowledgement": "declared"}
    try:
        expression = str(canonicalize_license_expression(text))
    except InvalidLicenseExpression:
        return {"license": {"name": text, **declared}}
    if re.search(r"[^\w.-]|LicenseRef-", expression):
        return {"expression": expression, **declared}
    return {"license": {"id": expression, **declared}}
