"""License texts and expressions of grafted libraries, in the wheel's metadata (PEP 639).

The texts go to `*.dist-info/licenses/bundled/`, in a folder for each package.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from wheelfix.errors import SettingsError
from wheelfix.grouping import flatten
from wheelfix.host.machine_files import MAX_TEXT, read_trusted
from wheelfix.host.os_packages import LicenseText, Package
from wheelfix.named_tuple import NamedTuple
from wheelfix.pipelines.graft import GraftedLibrary
from wheelfix.settings import Component, Licenses, matches_any
from wheelfix.system import deferred
from wheelfix.wheel.dist_info import has_license_files, license_expression
from wheelfix.wheel.edits import (
    AddLicenseFile,
    AddMember,
    Edit,
    MoveMember,
    NewFile,
    SetLicenseExpression,
)
from wheelfix.wheel.model import FILE_MODE, Wheel, is_license

ReadMember = Callable[[str], bytes]


class Text(NamedTuple):
    """A license text for the wheel."""

    path: str
    """Relative to `*.dist-info/licenses`."""
    content: bytes
    origin: Path
    """The file on this machine."""


# --- What is known of the libraries ---------------------------------------------------------------


def package_of(
    library: GraftedLibrary, package: Package | None, components: Sequence[Component]
) -> Package | None:
    """Return the `package` that owns the file of `library`, with what `components` state of it.

    What the user states of a library completes what a package database knows, or replaces it.
    """
    for component in components:
        names = {library.original, library.host.source.name}
        if any(matches_any(name, component.libraries) for name in names):
            stated = _package(component)
            known = package or stated
            package = known._replace(
                license=stated.license or known.license,
                license_files=stated.license_files or known.license_files,
            )
    return package


def other_parts(components: Sequence[Component]) -> tuple[Package, ...]:
    """Return the components that are in the wheel without a library of their own."""
    return tuple(_package(part) for part in components if not part.libraries)


def _package(component: Component) -> Package:
    folder = re.sub(r"[^\w.+-]", "_", component.name).lstrip(".") or "component"
    files = (Path(path) for path in component.license_files)
    return Package(
        "generic",
        component.name,
        component.version,
        license=component.license or None,
        license_files=tuple(LicenseText(f"{folder}/{file.name}", file) for file in files),
    )


# --- Texts ----------------------------------------------------------------------------------------


def license_texts(
    packages: Iterable[Package], wheel: Wheel, read: ReadMember
) -> dict[LicenseText, Text]:
    """Return the license texts of `packages`, equal ones as one; `read` reads a member of `wheel`.

    Different texts of one name get a part of their hash into the name. A text that `wheel` has
    stays where it is.

    Raises `SettingsError` if one cannot be read.
    """
    files = sorted(set(flatten(package.license_files for package in packages)))
    contents = {file: _content(file.path) for file in files}
    sizes = {len(content) for content in contents.values()}
    folder = f"{wheel.dist_info.licenses}/"
    paths = {member.name.removeprefix(folder) for member in wheel.members}
    place_of = {
        read(member.name): member.name.removeprefix(folder)
        for member in wheel.members
        if member.name.startswith(folder) and member.size in sizes
    }
    texts: dict[LicenseText, Text] = {}
    for file, content in contents.items():
        path = place_of.get(content, f"bundled/{file.name}")
        if path in paths and content not in place_of:
            parent, _, name = path.rpartition("/")
            path = f"{parent}/{hashlib.sha256(content).hexdigest()[:8]}-{name}"
        place_of[content] = path
        paths.add(path)
        texts[file] = Text(path, content, file.path)
    return texts


def _content(path: Path) -> bytes:
    try:
        return read_trusted(path, MAX_TEXT)
    except OSError as error:
        raise SettingsError(
            f"cannot read `{path}`: {error.strerror}",
            hint='correct its path in the configuration; `licenses = "off"` adds no licenses',
        ) from error


def license_edits(
    texts: Iterable[Text], licenses: Sequence[str | None], wheel: Wheel, mode: Licenses
) -> Iterator[Edit]:
    """Yield the edits that add `texts` to `wheel`, and what METADATA says of them if asked for.

    `licenses` are the SPDX expressions of what the wheel bundles, None or an invalid one where it
    is not known: then the `License-Expression` stays as it is.

    Raising Metadata-Version gives the `License-File` lines that are there a new meaning: their
    files are moved to `licenses`, and so are the project's other licenses, which get such lines:
    once there are some, readers look for no others. Where one is missing, or there is no
    Metadata-Version, the texts are added without such lines.
    """
    present = wheel.member_names
    metadata, folder = wheel.metadata, wheel.dist_info.licenses
    new = {text.path: text for text in texts}.values()
    for text in new:
        if f"{folder}/{text.path}" not in present:
            source = NewFile(content=text.content, origin=str(text.origin))
            size = len(text.content)
            yield AddMember(
                member=f"{folder}/{text.path}", source=source, size=size, mode=FILE_MODE
            )
    if mode is Licenses.TEXTS or metadata.problem is not None or not metadata.metadata_version:
        return
    missing = [path for path in metadata.license_files if f"{folder}/{path}" not in present]
    movable = not has_license_files(metadata) and all(
        f"{wheel.dist_info}/{path}" in present for path in missing
    )
    stated = [text.path for text in new if text.path not in metadata.license_files]
    if stated and (movable or not missing):
        unstated = () if has_license_files(metadata) else tuple(_unstated_licenses(wheel))
        for path in (*missing, *unstated):
            yield MoveMember(member=f"{wheel.dist_info}/{path}", new=f"{folder}/{path}")
        for path in (*unstated, *stated):
            yield AddLicenseFile(path=path)
    own = license_expression(metadata)
    if mode is Licenses.EXPRESSION and own:
        joined = join_expressions(own, licenses)
        if joined != own:
            yield SetLicenseExpression(expression=joined)


def _unstated_licenses(wheel: Wheel) -> Iterator[str]:
    """Yield the licenses directly in the dist-info folder that no `License-File` line names."""
    present = wheel.member_names
    for name in sorted(present):
        path = name.removeprefix(f"{wheel.dist_info}/")
        if (
            "/" not in path
            and is_license(name, wheel.dist_info)
            and path not in wheel.metadata.license_files
            and f"{wheel.dist_info.licenses}/{path}" not in present
        ):
            yield path


def join_expressions(own: str, others: Iterable[str | None]) -> str:
    """Return the SPDX expression `own` with `others` joined by AND.

    It stays as it is if one of them is not valid, or if AND joins all of them already.
    """
    known, *added = [_operands(_canonical(expression or "")) for expression in (own, *others)]
    parts = dict.fromkeys(chain(known, *added))
    if "" in parts or len(parts) == len(set(known)):
        return own
    return " AND ".join(f"({part})" if " OR " in part else part for part in parts)


def is_known(expression: str | None) -> bool:
    """Return whether `expression` is a valid one of SPDX."""
    return _canonical(expression or "") != ""


def _canonical(expression: str) -> str:
    """Return an SPDX expression in its canonical spelling; empty if it is not valid."""
    try:
        return str(deferred.licenses.canonicalize_license_expression(expression))
    except deferred.licenses.InvalidLicenseExpression:
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
    parts: list[str] = []
    for operand in map(" ".join, operands):
        parts += _operands(operand[1:-1]) if operand.startswith("(") else [operand]
    return parts
