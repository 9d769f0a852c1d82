"""The SBOM of a wheel: grafted libraries, and distributions that provide libraries (PEP 770).

CycloneDX 1.6 (ECMA-424), without a serial number and a time, so that the same wheel gets the same
list. Packages are named by package URLs (ECMA-427).
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import reduce
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

import wheelfix
from wheelfix.errors import SettingsError
from wheelfix.frozen import frozen
from wheelfix.grouping import flatten
from wheelfix.host.machine_files import MAX_DATABASE, read_regular
from wheelfix.host.os_packages import LicenseText, Package, package_url
from wheelfix.host.wheel_cache import sha256_of
from wheelfix.pipelines.bundled_licenses import Text
from wheelfix.pipelines.graft import GraftedLibrary, places_of
from wheelfix.providers.markers import requirements_on
from wheelfix.providers.model import Provided
from wheelfix.providers.provider_uses import ProviderUse, by_provider, provider_uses
from wheelfix.system import deferred
from wheelfix.wheel.dist_info import declared_license
from wheelfix.wheel.edits import AddMember, Edit, NewFile, RemoveMember
from wheelfix.wheel.model import FILE_MODE, Wheel, WheelName
from wheelfix.wheel.requirements import is_for_extra
from wheelfix.wheel.sbom_places import license_reference, occurrences

_Components = dict[str, dict[str, Any]]
"""Components by their references (`bom-ref`)."""
_NAME = "wheelfix.cdx.json"
"""Its name in the dist-info folder (PEP 770, "Specification")."""
_MARGIN = 100
"""How much deeper a list may be nested where it is written."""
_AUDITWHEEL = "auditwheel.cdx.json"
"""The name of auditwheel's own list."""
_EXTERNAL = "wheelfix:external"
"""The property of a component that is not in the wheel (CycloneDX 1.7 has a field for it)."""
_LIBRARY = "wheelfix:library"
"""The property that names a library of such a component, as DT_NEEDED does."""


@frozen
class Bundled:
    """The code of others that is in a wheel."""

    libraries: Sequence[GraftedLibrary] = ()
    parts: Sequence[Package] = ()
    """Code that is in the wheel without a library of its own."""
    texts: Mapping[LicenseText, Text] = field(default_factory=dict[LicenseText, Text])
    """The license texts that are in the wheel."""

    def text_references(self, package: Package | None) -> list[dict[str, str]]:
        """Return the references to the texts of a package, relative to the folder of the list."""
        files = package.license_files if package else ()
        paths = [self.texts[file].path for file in files if file in self.texts]
        return [license_reference(path) for path in paths]


def sbom_edits(
    bundled: Bundled,
    providers: tuple[Provided, ...],
    wheel: Wheel,
    edits: Iterable[Edit],
) -> Iterator[Edit]:
    """Yield the edits that put an SBOM into `wheel`, the wheel after `edits`.

    It lists what is `bundled`, the distributions whose libraries it uses, and the components in
    the lists of earlier repairs and of auditwheel, which it replaces.
    """
    edits = tuple(edits)
    present = wheel.member_names

    def places(member: str) -> tuple[str, ...]:
        return tuple(place for place in places_of(member, edits) if place in present)

    theirs, member = (f"{wheel.dist_info.sboms}/{name}" for name in (_AUDITWHEEL, _NAME))
    read = {name: read_sbom(wheel.texts.get(name, ""), places) for name in (theirs, member)}
    earlier = {name: component for name, component in read.items() if component is not None}
    uses = by_provider(provider_uses(wheel, providers))
    if not (bundled.libraries or bundled.parts or uses or member in earlier):
        return
    tools = {
        "auditwheel": deferred.metadata.version("auditwheel"),
        "wheelfix": wheelfix.__version__,
    }
    components = dict(flatten(listed.items() for listed in earlier.values()))
    content = write_sbom(wheel, bundled, tools, providers=providers, earlier=components)
    if theirs not in earlier and wheel.texts.get(member, "").encode() == content:
        return
    for name in dict.fromkeys((*earlier, member)):
        if name in present:
            yield RemoveMember(member=name)
    yield AddMember(
        member=member, source=NewFile(content=content), size=len(content), mode=FILE_MODE
    )


# --- The list ------------------------------------------------------------------------------------


def write_sbom(
    wheel: Wheel,
    bundled: Bundled,
    tools: Mapping[str, str],
    *,
    providers: tuple[Provided, ...] = (),
    earlier: _Components | None = None,
) -> bytes:
    """Return the SBOM of what is `bundled` in `wheel`, and of the `providers` that it uses.

    A package is listed once, with the places of all its libraries. `tools` are the names and
    versions of the programs that made the wheel. Components of `earlier`, the lists of earlier
    repairs, stay if they have another reference.
    """
    own = _wheel_component(wheel.name)
    expected = _provider_components(wheel, providers)
    components = {
        ref: component
        for ref, component in (earlier or {}).items()
        if _holds(component, expected, wheel)
    }
    grafted = (_grafted_component(library, bundled) for library in bundled.libraries)
    components |= {component["bom-ref"]: component for component in grafted}
    components |= expected
    components |= {part.purl: _part_component(part, bundled) for part in bundled.parts}
    components = _one_for_each_package(components)
    refs = sorted(components)
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
            "component": own,
        },
        "components": [components[ref] for ref in refs],
        "dependencies": [{"ref": own["bom-ref"], "dependsOn": refs}],
    }
    return (json.dumps(document, indent=2) + "\n").encode()


# --- SBOMs of others ------------------------------------------------------------------------------


def included_sboms(
    files: Iterable[str], wheel: Wheel, read: Callable[[str], bytes]
) -> Iterator[Edit]:
    """Yield the edits that copy the SBOMs `files` into `wheel` (PEP 770); `read` reads a member.

    Raises `SettingsError` for a file that cannot be read, is not an SBOM in JSON, or whose name
    another SBOM has.
    """
    present = wheel.member_names
    taken: dict[str, NewFile] = {}
    for path in map(Path, files):
        source = NewFile(content=_content(path), origin=str(path))
        if path.name in {_NAME, _AUDITWHEEL}:
            raise SettingsError(
                f"`{path}`: `{path.name}` is the name of the list of grafted libraries, which a "
                "repair replaces",
                hint="give the file of `sbom-include` another name",
            )
        if taken.setdefault(path.name, source).content != source.content:
            raise SettingsError(
                f"two different files of `sbom-include` are called `{path.name}`",
                hint="give them different names: they go into one folder of the wheel",
            )
    for name, source in taken.items():
        member = f"{wheel.dist_info.sboms}/{name}"
        if member in present and read(member) == source.content:
            continue
        if member in present:
            yield RemoveMember(member=member)
        yield AddMember(member=member, source=source, size=len(source.content), mode=FILE_MODE)


def _content(path: Path) -> bytes:
    """Return an SBOM. Raises `SettingsError` if the file is none, or cannot be read."""
    try:
        content = read_regular(path, MAX_DATABASE)
    except OSError as error:
        raise SettingsError(
            f"cannot read `{path}`: {error.strerror}",
            hint="correct its path in `sbom-include`",
        ) from error
    try:
        document: Any = json.loads(content)
    except (ValueError, RecursionError):
        document = None
    keys = ("bomFormat", "spdxVersion", "@context")
    if not isinstance(document, dict) or not any(key in document for key in keys):
        raise SettingsError(
            f"`{path}` is not an SBOM in JSON, by CycloneDX or SPDX",
            hint="for Rust: cargo cyclonedx --format json",
        )
    return content


# --- Earlier lists -----------------------------------------------------------------------


def read_sbom(text: str, places: Callable[[str], Sequence[str]]) -> _Components | None:
    """Return the components that still hold; None if the list is not CycloneDX with components.

    `places` returns the present names of a former member. Components whose members are gone are
    left out; a component without a place, as auditwheel writes it, stays.
    """
    try:
        document: Any = json.loads(text)
        json.dumps(reduce(lambda inner, _: [inner], range(_MARGIN), document), allow_nan=False)
        own = document["metadata"]["component"]["bom-ref"]
        listed = [part for part in document["components"] if _reference_of(part) != own]
        kept = filter(None, (_move(component, places) for component in listed))
        return {component["bom-ref"]: component for component in kept}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def listed_packages(wheel: Wheel) -> dict[str, str]:
    """Return for each member that the wheel's SBOM lists the package it was copied from."""
    listed = read_sbom(
        wheel.texts.get(f"{wheel.dist_info.sboms}/{_NAME}", ""), lambda name: (name,)
    )
    components = listed.values() if listed else ()
    return {
        place["location"]: f"{component['name']} {component['version']}"
        for component in components
        if "purl" in component and "version" in component
        for place in occurrences(component)
    }


def _move(
    component: dict[str, Any], places: Callable[[str], Sequence[str]]
) -> dict[str, Any] | None:
    """Return a component with its places of today, None if no member holds it any more."""
    before = occurrences(component)
    if before == []:
        return component
    locations = [place["location"] for place in before]
    moved = [
        {**place, "location": name} for place in before for name in places(str(place["location"]))
    ]
    if not moved:
        return None
    ref = component["bom-ref"]
    new = moved[0]["location"] if ref in locations else ref
    return {**component, "bom-ref": new, "evidence": {"occurrences": moved}}


def _reference_of(component: dict[str, Any]) -> str:
    """Return the reference of a component.

    Raises `TypeError` or `KeyError` if a field that is read has another type than CycloneDX says.
    """
    ref, hashes = component["bom-ref"], component.get("hashes", [])
    texts = [ref, component["name"], *(component.get(key, "") for key in ("version", "purl"))]
    texts += list(flatten((digest["alg"], digest["content"]) for digest in hashes))
    if not isinstance(hashes, list) or not all(isinstance(text, str) for text in texts):
        raise TypeError(ref)
    _properties(component)
    return str(ref)


def _properties(component: Mapping[str, Any]) -> set[tuple[str, str]]:
    listed = component.get("properties", ())
    return {(str(entry["name"]), str(entry["value"])) for entry in listed}


def _holds(component: Mapping[str, Any], expected: _Components, wheel: Wheel) -> bool:
    """Return whether a component still holds: its library is used, and it is not listed anew."""
    properties = _properties(component)
    if (_EXTERNAL, "true") not in properties:
        return True
    needed = wheel.needed
    used = any(value in needed for name, value in properties if name == _LIBRARY)
    return used and component["name"] not in {other["name"] for other in expected.values()}


# --- Components ----------------------------------------------------------------------------------


def _component(ref: str, name: str, **known: object) -> dict[str, Any]:
    """Return a component with the fields `known`, in this order, without empty ones."""
    given = {key: value for key, value in known.items() if value}
    return {"type": "library", "bom-ref": ref, "name": name, **given}


def _wheel_component(name: WheelName) -> dict[str, Any]:
    project = canonicalize_name(name.distribution)
    purl = package_url("pypi", [project], name.version, {"file_name": str(name)})
    return _component(purl, name.distribution, version=name.version, purl=purl)


def _grafted_component(library: GraftedLibrary, bundled: Bundled) -> dict[str, Any]:
    package, places = library.package, (library.member, *library.copies)
    return _component(
        library.member,
        package.name if package else library.host.source.name,
        version=package and package.version,
        hashes=_hashes(library.host.sha256),
        licenses=_licenses(package and package.license),
        purl=package and package.purl,
        externalReferences=bundled.text_references(package),
        evidence={"occurrences": [{"location": name} for name in places]},
    )


def _part_component(package: Package, bundled: Bundled) -> dict[str, Any]:
    return _component(
        package.purl,
        package.name,
        version=package.version,
        licenses=_licenses(package.license),
        purl=package.purl,
        externalReferences=bundled.text_references(package),
    )


def _one_for_each_package(components: _Components) -> _Components:
    """Return one component for each package URL.

    It has the places of all, each with the hash of the file that was copied there.
    """
    kept: dict[object, str] = {}
    merged: _Components = {}
    for ref in sorted(components):
        component = components[ref]
        first = kept.setdefault(component.get("purl", ref), ref)
        merged[first] = _both(merged[first], component) if first != ref else component
    return merged


def _both(component: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return two components of the same package as one."""
    places = {
        place["location"]: place for part in (component, other) for place in _places_with_hash(part)
    }
    merged = {**other, **{key: value for key, value in component.items() if key != "hashes"}}
    merged.pop("hashes", None)
    if places:
        merged["evidence"] = {"occurrences": [places[name] for name in sorted(places)]}
    return merged


def _places_with_hash(component: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    hashes = [f"{digest['alg']} {digest['content']}" for digest in component.get("hashes", ())]
    for place in occurrences(component):
        yield (
            {**place, "additionalContext": f"copied from a file with {hashes[0]}"}
            if hashes
            else place
        )


def _hashes(sha256: str) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": sha256}] if sha256 else []


def _licenses(text: str | None) -> list[dict[str, Any]]:
    """Return `text` as an SPDX id, as an SPDX expression, or else as a name.

    It is what the distribution declares for the package, not for this one file.
    """
    if not text:
        return []
    declared = {"acknowledgement": "declared"}
    try:
        expression = str(deferred.licenses.canonicalize_license_expression(text))
    except deferred.licenses.InvalidLicenseExpression:
        return [{"license": {"name": text, **declared}}]
    if re.search(r"[^\w.-]|LicenseRef-", expression):
        return [{"expression": expression, **declared}]
    return [{"license": {"id": expression, **declared}}]


# --- Providers -----------------------------------------------------------------------------------


def _provider_components(wheel: Wheel, providers: tuple[Provided, ...]) -> _Components:
    """Return the distributions that must be installed with `wheel`, by reference.

    With the hash of the wheel of each, if that was found, and the license in its METADATA.
    """
    uses = by_provider(provider_uses(wheel, providers))
    components = (_provider_component(wheel, own) for own in uses.values())
    return {component["bom-ref"]: component for component in components}


def _provider_component(wheel: Wheel, uses: Sequence[ProviderUse]) -> dict[str, Any]:
    provider = uses[0].provider
    required = requirements_on(wheel, provider.name)
    file = Path(provider.wheel) if provider.wheel else None
    purl = package_url(
        "pypi", [provider.name], provider.version, {"file_name": file.name} if file else {}
    )
    properties = [
        (_EXTERNAL, "true"),
        *(("wheelfix:requirement", str(text)) for text in required or (provider.requirement,)),
        *((_LIBRARY, name) for name in sorted({use.library for use in uses})),
    ]
    return _component(
        purl,
        provider.name,
        version=provider.version,
        scope="optional" if required and all(map(is_for_extra, required)) else "required",
        hashes=_hashes(sha256_of(file) if file else ""),
        licenses=_licenses(declared_license(provider.metadata)),
        purl=purl,
        properties=[{"name": name, "value": value} for name, value in properties],
    )
