"""Licence texts and expressions of grafted libraries, in the wheel's metadata (PEP 639).

The texts go to `*.dist-info/licenses/bundled/`, in a folder for each package.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from wheelfix.errors import SettingsError
from wheelfix.host.os_packages import LicenceFile, Package
from wheelfix.pipelines.graft import GraftedLibrary
from wheelfix.settings import Component, Licenses
from wheelfix.wheel.dist_info import has_license_files, license_expression
from wheelfix.wheel.edits import (
    AddLicenseFile,
    AddMember,
    Edit,
    MoveMember,
    NewFile,
    SetLicenseExpression,
)
from wheelfix.wheel.model import Wheel, is_licence

ReadMember = Callable[[str], bytes]


class Text(NamedTuple):
    """A licence text for the wheel."""

    path: str
    """Relative to `*.dist-info/licenses`."""
    content: bytes


# --- What is known of the libraries ---------------------------------------------------------------


def described(
    libraries: Iterable[GraftedLibrary],
    packages: Mapping[Path, Package],
    components: Sequence[Component],
) -> tuple[dict[Path, Package], tuple[Package, ...]]:
    """Return the package of each library's file, and the components without a library.

    What the user states of a library completes what a package database knows, or replaces it.
    """
    found = dict(packages)
    for library in libraries:
        source = library.host.source
        for component in components:
            names = {library.original, source.name}
            if any(fnmatchcase(name, glob) for glob in component.libraries for name in names):
                stated = _package(component)
                known = found.get(source, stated)
                found[source] = known._replace(
                    licence=stated.licence or known.licence,
                    licence_files=stated.licence_files or known.licence_files,
                )
    return found, tuple(_package(part) for part in components if not part.libraries)


def _package(component: Component) -> Package:
    folder = re.sub(r"[^\w.+-]", "_", component.name).lstrip(".") or "component"
    files = (Path(path) for path in component.license_files)
    return Package(
        "generic",
        component.name,
        component.version,
        licence=component.license or None,
        licence_files=tuple(LicenceFile(f"{folder}/{file.name}", file) for file in files),
    )


# --- Texts ----------------------------------------------------------------------------------------


def licence_texts(
    packages: Iterable[Package], wheel: Wheel, read: ReadMember
) -> dict[LicenceFile, Text]:
    """Return the licence texts of `packages`; `read` reads a member of `wheel`.

    Different texts of one name get a part of their hash into the name.

    Raises `SettingsError` if one cannot be read.
    """
    present = {member.name for member in wheel.members}
    taken: dict[str, bytes] = {}
    texts: dict[LicenceFile, Text] = {}
    for file in sorted({file for package in packages for file in package.licence_files}):
        content = _content(file.path)
        path = f"bundled/{file.name}"
        member = f"{wheel.dist_info}/licenses/{path}"
        if path not in taken and member in present:
            taken[path] = read(member)
        if taken.get(path, content) != content:
            folder, _, name = path.rpartition("/")
            path = f"{folder}/{hashlib.sha256(content).hexdigest()[:8]}-{name}"
        taken[path] = content
        texts[file] = Text(path, content)
    return texts


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(
            f"cannot read `{path}`: {error.strerror}",
            hint='correct its path in the configuration; `licenses = "off"` adds no licences',
        ) from error


def licence_edits(
    texts: Iterable[Text], packages: Iterable[Package], wheel: Wheel, mode: Licenses
) -> Iterator[Edit]:
    """Yield the edits that add `texts` to `wheel`, and the expressions of `packages` if asked for.

    Raising Metadata-Version gives the `License-File` lines that are there a new meaning: their
    files are moved to `licenses`, and so are the project's other licences, which get such lines:
    once there are some, readers look for no others. Where one is missing, or there is no
    Metadata-Version, the texts are added without such lines.
    """
    present = {member.name for member in wheel.members}
    metadata, folder = wheel.metadata, f"{wheel.dist_info}/licenses"
    new = dict.fromkeys(texts)
    for text in new:
        if f"{folder}/{text.path}" not in present:
            source, size = NewFile(content=text.content), len(text.content)
            yield AddMember(member=f"{folder}/{text.path}", source=source, size=size, mode=0o100644)
    if metadata.problem is not None or not metadata.metadata_version:
        return
    missing = [path for path in metadata.license_files if f"{folder}/{path}" not in present]
    movable = not has_license_files(metadata) and all(
        f"{wheel.dist_info}/{path}" in present for path in missing
    )
    stated = [text.path for text in new if text.path not in metadata.license_files]
    if stated and (movable or not missing):
        unstated = () if has_license_files(metadata) else tuple(_unstated_licences(wheel))
        for path in (*missing, *unstated):
            yield MoveMember(member=f"{wheel.dist_info}/{path}", new=f"{folder}/{path}")
        for path in (*unstated, *stated):
            yield AddLicenseFile(path=path)
    own = license_expression(metadata)
    if mode is Licenses.EXPRESSION and own:
        joined = joined_expression(own, (package.licence for package in packages))
        if joined != own:
            yield SetLicenseExpression(expression=joined)


def _unstated_licences(wheel: Wheel) -> Iterator[str]:
    """Yield the licences directly in the dist-info folder that no `License-File` line names."""
    present = {member.name for member in wheel.members}
    for name in sorted(present):
        path = name.removeprefix(f"{wheel.dist_info}/")
        if (
            "/" not in path
            and is_licence(name, wheel.dist_info)
            and path not in wheel.metadata.license_files
            and f"{wheel.dist_info}/licenses/{path}" not in present
        ):
            yield path


def joined_expression(own: str, others: Iterable[str | None]) -> str:
    """Return the SPDX expression `own` with the valid ones of `others` joined by AND.

    It stays as it is if it is not valid, or if AND joins all of them already.
    """
    canonical = _canonical(own)
    known = _operands(canonical)
    valid = filter(None, (_canonical(other or "") for other in others))
    parts = dict.fromkeys([*known, *(part for other in valid for part in _operands(other))])
    if not canonical or len(parts) == len(set(known)):
        return own
    return " AND ".join(f"({part})" if " OR " in part else part for part in parts)


def _canonical(expression: str) -> str:
    """Return an SPDX expression in its canonical spelling; empty if it is not valid."""
    try:
        return str(canonicalize_license_expression(expression))
    except InvalidLicenseExpression:
        return ""


def _operands(expression: str) -> list[str]:
    """Return what AND joins in a canonical SPDX expression, without brackets around it.

    OR binds looser than AND (SPDX 3.0, annex "SPDX license expressions").
    """
    operands: list[list[str]] = [[]]
    depth = 0
    for word in expression.split():
        if depth == 0 and word == "OR":
            return [expression]
        if depth == 0 and word == "AND":
            operands.append([])
        else:
            operands[-1].append(word)
        depth += word.count("(") - word.count(")")
    found: list[str] = []
    for operand in map(" ".join, operands):
        found += _operands(operand[1:-1]) if operand.startswith("(") else [operand]
    return found
