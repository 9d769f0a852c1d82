"""The SBOM of a wheel: grafted libraries, and distributions that provide libraries (PEP 770).

CycloneDX 1.6 (ECMA-424), without a serial number and a time, so that the same wheel gets the same
list. Packages are named by package URLs (ECMA-427).
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.utils import canonicalize_name

import wheelfix
from wheelfix.analysis.providers import ProvidedLibraries
from wheelfix.errors import SettingsError
from wheelfix.host.os_packages import LicenceFile, Package, package_url
from wheelfix.host.provider_lookup import metadata_text
from wheelfix.pipelines.graft import GraftedLibrary
from wheelfix.pipelines.licences import Text
from wheelfix.settings import Provider
from wheelfix.wheel.dist_info import declared_licence, read_core_metadata
from wheelfix.wheel.edits import AddMember, CopyOf, Edit, MoveMember, NewFile, RemoveMember
from wheelfix.wheel.model import Wheel, WheelName

_MEMBER = "sboms/wheelfix.cdx.json"
"""Its name in the dist-info folder (PEP 770, "Specification")."""
_AUDITWHEEL = "sboms/auditwheel.cdx.json"
"""The name of auditwheel's own list."""
_EXTERNAL = "wheelfix:external"
"""The property of a component that is not in the wheel (CycloneDX 1.7 has a field for it)."""
_LIBRARY = "wheelfix:library"
"""The property that names a library of such a component, as DT_NEEDED does."""


class Library(NamedTuple):
    """A grafted library: its origin, and its members."""

    file: str
    """The name of the host's file."""
    sha256: str
    """Of the host's file, in hexadecimal: editing has changed the one in the wheel."""
    package: Package | None
    members: tuple[str, ...]
    """The members that hold it, the one that auditwheel made first."""
    licences: tuple[str, ...] = ()
    """Its licence texts in the wheel, relative to `*.dist-info/licenses`."""

    @property
    def reference(self) -> str:
        """Its reference in the list: several libraries may be of one package."""
        return self.members[0]


class Expected(NamedTuple):
    """A distribution that has to be installed with the wheel, for its libraries."""

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
    """The list of an earlier repair, by wheelfix or by auditwheel, as far as it still holds."""

    components: Mapping[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """By reference (`bom-ref`); so for the following."""
    depends: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    tools: frozenset[tuple[str, str]] = frozenset()
    """Names and versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origins:
    """What is known of the origin of the code in a wheel."""

    packages: Mapping[Path, Package] = field(default_factory=dict[Path, Package])
    """The packages that own the files that libraries were copied from."""
    parts: Sequence[Package] = ()
    """Code that is in the wheel without a library of its own."""
    texts: Mapping[LicenceFile, Text] = field(default_factory=dict[LicenceFile, Text])
    """The licence texts that are in the wheel."""

    def texts_of(self, package: Package | None) -> tuple[str, ...]:
        """Return the texts of a package, relative to `*.dist-info/licenses`."""
        files = package.licence_files if package else ()
        return tuple(self.texts[file].path for file in files if file in self.texts)


def sbom_edits(
    grafted: Sequence[GraftedLibrary],
    origins: Origins,
    taken: Iterable[ProvidedLibraries],
    wheel: Wheel,
    edits: Iterable[Edit],
) -> Iterator[Edit]:
    """Yield the edits that put an SBOM into `wheel`, the wheel after `edits`.

    It lists the `grafted` libraries with their `origins`, the distributions of libraries `taken`
    from others, and the components in the lists of earlier repairs and of auditwheel, which it
    replaces.
    """
    edits = tuple(edits)
    present = {member.name for member in wheel.members}

    def places(member: str) -> tuple[str, ...]:
        return tuple(place for place in places_of(member, edits) if place in present)

    libraries = [
        Library(
            file=library.host.source.name,
            sha256=library.host.sha256,
            package=(package := origins.packages.get(library.host.source)),
            members=members,
            licences=origins.texts_of(package),
        )
        for library in grafted
        if (members := places(library.member))
    ]
    expected = tuple(map(described, taken))
    theirs, member = (f"{wheel.dist_info}/{name}" for name in (_AUDITWHEEL, _MEMBER))
    read = {name: read_sbom(wheel.texts.get(name, ""), places) for name in (theirs, member)}
    earlier = {name: found for name, found in read.items() if found is not None}
    if not (libraries or expected or origins.parts or member in earlier):
        return
    tools = {"wheelfix": wheelfix.__version__, "auditwheel": metadata.version("auditwheel")}
    content = write_sbom(
        wheel,
        libraries,
        tools,
        expected=expected,
        parts=[(part, origins.texts_of(part)) for part in origins.parts],
        earlier=joined(earlier.values()),
    )
    if theirs not in earlier and wheel.texts.get(member, "").encode() == content:
        return
    for name in dict.fromkeys((*earlier, member)):
        if name in present:
            yield RemoveMember(member=name)
    yield AddMember(
        member=member, source=NewFile(content=content), size=len(content), mode=0o100644
    )


def places_of(member: str, edits: Iterable[Edit]) -> list[str]:
    """Follow a grafted library through `edits` to all the members that hold it, copies last."""
    places = [member]
    for edit in edits:
        match edit:
            case AddMember(source=CopyOf(member=original)) if original in places:
                places.append(edit.member)
            case MoveMember() if edit.member in places:
                places[places.index(edit.member)] = edit.new
            case _:
                pass
    return places


_NOTHING = Earlier()

# --- The list ------------------------------------------------------------------------------------


def write_sbom(  # noqa: PLR0913 - each kind of component
    wheel: Wheel,
    libraries: Sequence[Library],
    tools: Mapping[str, str],
    *,
    expected: Sequence[Expected] = (),
    parts: Sequence[tuple[Package, Sequence[str]]] = (),
    earlier: Earlier = _NOTHING,
) -> bytes:
    """Return the SBOM of `libraries`, all of them in `wheel`, and of the `expected` distributions.

    `parts` are other code in the wheel, with its licence texts. A package is listed once, with the
    places of all its libraries. `tools` are the names and versions of the programs that made the
    wheel. Components of `earlier` with another reference stay.
    """
    own = _wheel_component(wheel.name)
    found = {
        ref: component
        for ref, component in earlier.components.items()
        if _holds(component, expected, wheel)
    }
    found |= {library.reference: _grafted_component(library) for library in libraries}
    found |= {provider.reference: _expected_component(provider) for provider in expected}
    found |= {part.purl: _part_component(part, texts) for part, texts in parts}
    objects = {library.reference: wheel.elfs[library.reference] for library in libraries}
    sonames = {name: provider.reference for provider in expected for name in provider.libraries}
    sonames |= {
        objects[library.reference].soname or library.file: library.reference
        for library in libraries
    }
    depends = dict(earlier.depends)
    for ref, elf in objects.items():
        depends[ref] = tuple(sonames[name] for name in elf.needed if name in sonames)
    used = sorted({*tools.items(), *earlier.tools})
    found, depends = _one_for_each_package(found, depends)
    refs = sorted(found)
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
                {"ref": ref, "dependsOn": sorted({*depends.get(ref, ())} & found.keys())}
                for ref in refs
            ),
        ],
    }
    return (json.dumps(document, indent=2) + "\n").encode()


# --- SBOMs of others ------------------------------------------------------------------------------


def included_sboms(
    files: Iterable[str], wheel: Wheel, read: Callable[[str], bytes]
) -> Iterator[Edit]:
    """Yield the edits that copy the SBOMs `files` into `wheel` (PEP 770); `read` reads a member.

    Raises `SettingsError` for a file that cannot be read, that is no SBOM in JSON, or whose name
    another SBOM has.
    """
    present = {member.name for member in wheel.members}
    taken: dict[str, bytes] = {}
    for path in map(Path, files):
        content = _content(path)
        inner = f"sboms/{path.name}"
        if inner in {_MEMBER, _AUDITWHEEL}:
            raise SettingsError(
                f"`{path}`: `{path.name}` is the name of the list of grafted libraries, which a "
                "repair replaces",
                hint="give the file of `sbom-include` another name",
            )
        if taken.setdefault(inner, content) != content:
            raise SettingsError(
                f"two different files of `sbom-include` are called `{path.name}`",
                hint="give them different names: they go into one folder of the wheel",
            )
    for inner, content in taken.items():
        member = f"{wheel.dist_info}/{inner}"
        if member in present and read(member) == content:
            continue
        if member in present:
            yield RemoveMember(member=member)
        yield AddMember(
            member=member, source=NewFile(content=content), size=len(content), mode=0o100644
        )


def _content(path: Path) -> bytes:
    """Return an SBOM. Raises `SettingsError` if the file is none, or cannot be read."""
    try:
        content = path.read_bytes()
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


def read_sbom(text: str, places: Callable[[str], Sequence[str]]) -> Earlier | None:
    """Return the part of a list that still holds; None if it is no CycloneDX with components.

    `places` returns the present names of a former member. Components whose members are gone are
    left out; a component without a place, as auditwheel writes it, stays.
    """
    try:
        document: Any = json.loads(text)
        own = document["metadata"]["component"]["bom-ref"]
        listed = [part for part in document["components"] if _reference_of(part) != own]
        kept = {
            component["bom-ref"]: moved
            for component in listed
            if (moved := _moved(component, places)) is not None
        }
        refs = {ref: moved["bom-ref"] for ref, moved in kept.items()}
        depends = {
            refs[row["ref"]]: tuple(refs[ref] for ref in row.get("dependsOn", ()) if ref in refs)
            for row in document.get("dependencies", ())
            if row["ref"] in refs
        }
        programs: Any = document["metadata"].get("tools", ())
        if "components" in programs:  # CycloneDX 1.4, which auditwheel writes, has a mere list
            programs = programs["components"]
        tools = frozenset((str(program["name"]), str(program["version"])) for program in programs)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return Earlier(
        components={moved["bom-ref"]: moved for moved in kept.values()},
        depends=depends,
        tools=tools,
    )


def listed_packages(wheel: Wheel) -> dict[str, str]:
    """Return for each member that the wheel's SBOM lists the package it was copied from."""
    listed = read_sbom(wheel.texts.get(f"{wheel.dist_info}/{_MEMBER}", ""), lambda name: (name,))
    components = listed.components.values() if listed else ()
    return {
        place["location"]: f"{component['name']} {component['version']}"
        for component in components
        if "purl" in component and "version" in component
        for place in component.get("evidence", {}).get("occurrences", ())
    }


def joined(lists: Iterable[Earlier]) -> Earlier:
    """Return several lists as one; later components replace earlier ones."""
    found = Earlier()
    for later in lists:
        found = Earlier(
            components={**found.components, **later.components},
            depends={**found.depends, **later.depends},
            tools=found.tools | later.tools,
        )
    return found


def _moved(
    component: dict[str, Any], places: Callable[[str], Sequence[str]]
) -> dict[str, Any] | None:
    """Return a component with its places of today, None if no member holds it any more."""
    occurrences: list[dict[str, Any]] = component.get("evidence", {}).get("occurrences", [])
    if occurrences == []:
        return component
    locations = [found["location"] for found in occurrences]
    moved = [
        {**found, "location": place}
        for found in occurrences
        for place in places(str(found["location"]))
    ]
    if not moved:
        return None
    ref = component["bom-ref"]
    new = moved[0]["location"] if ref in locations else ref
    return {**component, "bom-ref": new, "evidence": {"occurrences": moved}}


def _reference_of(component: dict[str, Any]) -> str:
    """Return the reference of a component. Raises `TypeError` if that or its name is no text."""
    ref, name = component["bom-ref"], component["name"]
    if not isinstance(ref, str) or not isinstance(name, str):
        raise TypeError(ref)
    _properties(component)
    return ref


def _properties(component: Mapping[str, Any]) -> set[tuple[str, str]]:
    listed = component.get("properties", ())
    return {(str(entry["name"]), str(entry["value"])) for entry in listed}


def _holds(component: Mapping[str, Any], expected: Sequence[Expected], wheel: Wheel) -> bool:
    """Return whether a component still holds: its library is used, and it is not listed anew."""
    properties = _properties(component)
    if (_EXTERNAL, "true") not in properties:
        return True
    needed = {name for elf in wheel.elfs.values() for name in elf.needed}
    used = any(value in needed for name, value in properties if name == _LIBRARY)
    return used and component["name"] not in {provider.name for provider in expected}


# --- Components ----------------------------------------------------------------------------------


def _component(ref: str, name: str, **known: object) -> dict[str, Any]:
    """Return a component with the fields `known`, in this order, without empty ones."""
    given = {key: value for key, value in known.items() if value}
    return {"type": "library", "bom-ref": ref, "name": name, **given}


def _expected_component(expected: Expected) -> dict[str, Any]:
    properties = [
        (_EXTERNAL, "true"),
        *(("wheelfix:requirement", text) for text in expected.requirements),
        *((_LIBRARY, name) for name in sorted(expected.libraries)),
    ]
    return _component(
        expected.reference,
        expected.name,
        version=expected.version,
        scope="optional" if expected.optional else "required",
        hashes=_hashes(expected.sha256),
        licenses=_licences(expected.licence),
        purl=expected.reference,
        properties=[{"name": name, "value": value} for name, value in properties],
    )


def _wheel_component(name: WheelName) -> dict[str, Any]:
    project = canonicalize_name(name.distribution)
    purl = package_url("pypi", [project], name.version, {"file_name": str(name)})
    return _component(purl, name.distribution, version=name.version, purl=purl)


def _grafted_component(library: Library) -> dict[str, Any]:
    package = library.package
    return _component(
        library.reference,
        package.name if package else library.file,
        version=package and package.version,
        hashes=_hashes(library.sha256),
        licenses=_licences(package and package.licence),
        purl=package and package.purl,
        externalReferences=_text_references(library.licences),
        evidence={"occurrences": [{"location": name} for name in library.members]},
    )


def _part_component(package: Package, texts: Sequence[str]) -> dict[str, Any]:
    return _component(
        package.purl,
        package.name,
        version=package.version,
        licenses=_licences(package.licence),
        purl=package.purl,
        externalReferences=_text_references(texts),
    )


def _text_references(texts: Sequence[str]) -> list[dict[str, str]]:
    """Return the references to licence texts, relative to the folder of the list."""
    return [{"type": "license", "url": f"../licenses/{quote(text)}"} for text in texts]


_Components = dict[str, dict[str, Any]]


def _one_for_each_package(
    found: _Components, depends: Mapping[str, Sequence[str]]
) -> tuple[_Components, dict[str, tuple[str, ...]]]:
    """Return one component for each package URL, and the dependencies of those that are left.

    It has the places of all, each with the hash of the file that was copied there.
    """
    refs = {ref: ref for ref in found}
    kept: dict[object, str] = {}
    merged: _Components = {}
    for ref in sorted(found):
        component = found[ref]
        first = kept.setdefault(component.get("purl", ref), ref)
        refs[ref] = first
        merged[first] = _both(merged[first], component) if first != ref else component
    links: dict[str, tuple[str, ...]] = {}
    for ref in found:
        others = (refs[other] for other in depends.get(ref, ()) if other in refs)
        links[refs[ref]] = tuple(
            dict.fromkeys((*links.get(refs[ref], ()), *(o for o in others if o != refs[ref])))
        )
    return merged, links


def _both(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return two components of the same package as one."""
    places = {
        place["location"]: place for part in (one, other) for place in _places_with_hash(part)
    }
    merged = {**other, **{key: value for key, value in one.items() if key != "hashes"}}
    merged.pop("hashes", None)
    if places:
        merged["evidence"] = {"occurrences": [places[name] for name in sorted(places)]}
    return merged


def _places_with_hash(component: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    hashes = [f"{found['alg']} {found['content']}" for found in component.get("hashes", ())]
    for place in component.get("evidence", {}).get("occurrences", ()):
        yield (
            {**place, "additionalContext": f"copied from a file with {hashes[0]}"}
            if hashes
            else place
        )


def _hashes(sha256: str) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": sha256}] if sha256 else []


def _licences(text: str | None) -> list[dict[str, Any]]:
    """Return `text` as an SPDX id, as an SPDX expression, or else as a name.

    It is what the distribution declares for the package, not for this one file.
    """
    if not text:
        return []
    declared = {"acknowledgement": "declared"}
    try:
        expression = str(canonicalize_license_expression(text))
    except InvalidLicenseExpression:
        return [{"license": {"name": text, **declared}}]
    if re.search(r"[^\w.-]|LicenseRef-", expression):
        return [{"expression": expression, **declared}]
    return [{"license": {"id": expression, **declared}}]


# --- Providers -----------------------------------------------------------------------------------


def described(taken: ProvidedLibraries) -> Expected:
    """Describe a provider: with the hash of its wheel, if found, and the licence in METADATA."""
    provider = taken.provider
    wheel = Path(provider.path) if provider.path.endswith(".whl") else None
    return Expected(
        name=provider.name,
        requirements=taken.requirements,
        libraries=taken.libraries,
        optional=taken.optional,
        version=provider.version,
        file=wheel.name if wheel else "",
        sha256=_sha256(wheel) if wheel else "",
        licence=declared_licence(read_core_metadata(_metadata(provider, wheel))),
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _metadata(provider: Provider, wheel: Path | None) -> str:
    """Return the METADATA of the provider; empty if it was not found."""
    if wheel is not None:
        return metadata_text(wheel)
    if not provider.path:
        return ""
    try:
        return metadata.distribution(provider.name).read_text("METADATA") or ""
    except metadata.PackageNotFoundError:
        return ""
