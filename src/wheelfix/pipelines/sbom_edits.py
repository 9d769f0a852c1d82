"""The SBOM of a repaired wheel, as edits."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path

import wheelfix
from wheelfix.analysis.providers import ProvidedLibraries
from wheelfix.host.os_packages import owners
from wheelfix.pipelines.graft_plan import GraftedLibrary
from wheelfix.pipelines.sbom import (
    AUDITWHEEL,
    MEMBER,
    Expected,
    Library,
    joined,
    read_sbom,
    write_sbom,
)
from wheelfix.settings import Provider
from wheelfix.wheel.dist_info import read_core_metadata
from wheelfix.wheel.edits import AddMember, CopyOf, Edit, MoveMember, NewFile, RemoveMember
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.unverified import member_text, open_unverified


def sbom_edits(
    grafted: Sequence[GraftedLibrary],
    taken: Iterable[ProvidedLibraries],
    environ: Mapping[str, str],
    wheel: Wheel,
    edits: Iterable[Edit],
) -> Iterator[Edit]:
    """Yield the edits that put an SBOM into `wheel`, which `edits` have made.

    It lists what was `grafted`, the distributions that libraries are `taken` from, and what the
    lists of earlier repairs have; auditwheel's own list becomes a part of it. `environ` says where
    the system's package managers are. Raises `ToolError` if one of them does not end.
    """
    edits = tuple(edits)
    present = {member.name for member in wheel.members}

    def places(member: str) -> tuple[str, ...]:
        return tuple(each for each in _places(member, edits) if each in present)

    packages = owners([library.host.source for library in grafted], environ) if grafted else {}
    libraries = [
        Library(
            file=library.host.source.name,
            sha256=library.host.sha256,
            package=packages.get(library.host.source),
            members=members,
        )
        for library in grafted
        if (members := places(library.member))
    ]
    expected = tuple(map(described, taken))
    names = [f"{wheel.dist_info}/{name}" for name in (AUDITWHEEL, MEMBER)]
    read = {name: read_sbom(wheel.texts.get(name, ""), places) for name in names}
    earlier = {name: found for name, found in read.items() if found is not None}
    member = names[-1]
    if not (libraries or expected or member in earlier):
        return
    tools = {"wheelfix": wheelfix.__version__, "auditwheel": metadata.version("auditwheel")}
    content = write_sbom(
        wheel, libraries, tools, expected=expected, earlier=joined(earlier.values())
    )
    for name in dict.fromkeys((*earlier, member)):
        if name in present:
            yield RemoveMember(member=name)
    yield AddMember(
        member=member, source=NewFile(content=content), size=len(content), mode=0o100644
    )


def _places(member: str, edits: Iterable[Edit]) -> list[str]:
    """Follow a grafted library through `edits` to all the members that hold it in the end."""
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


# --- Providers -----------------------------------------------------------------------------------


def described(taken: ProvidedLibraries) -> Expected:
    """Return what is known of a provider that libraries are taken from.

    Its wheel is hashed, if there is one; its licence is what its METADATA declares.
    """
    provider = taken.provider
    wheel = Path(provider.at_hand) if provider.at_hand.endswith(".whl") else None
    return Expected(
        name=provider.name,
        requirements=taken.requirements,
        libraries=taken.libraries,
        optional=taken.optional,
        version=provider.version,
        file=wheel.name if wheel else "",
        sha256=_sha256(wheel) if wheel else "",
        licence=_declared_licence(_metadata(provider, wheel)),
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _metadata(provider: Provider, wheel: Path | None) -> str:
    """Return the METADATA of the provider; empty if it was not found."""
    if wheel is not None:
        with open_unverified(wheel) as archive:
            names = (name for name in archive.namelist() if _METADATA.fullmatch(name))
            return next((member_text(archive, name) for name in names), "")
    if not provider.at_hand:
        return ""
    try:
        return metadata.distribution(provider.name).read_text("METADATA") or ""
    except metadata.PackageNotFoundError:
        return ""


_METADATA = re.compile(r"[^/]+\.dist-info/METADATA")


def _declared_licence(text: str) -> str | None:
    """Return what METADATA declares (PEP 639, and what was before it), if it is a mere name."""
    fields = read_core_metadata(text).fields
    said = [value for name in ("license-expression", "license") for n, value in fields if n == name]
    known = next((value for value in said if 0 < len(value) <= _LONGEST), None)
    classifiers = [
        value.rpartition(" :: ")[2]
        for name, value in fields
        if name == "classifier" and value.startswith("License :: ")
    ]
    return known or "; ".join(classifiers) or None


_LONGEST = 100
"""Letters of a licence's name; some write the whole text into the field."""
