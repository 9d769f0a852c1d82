"""WHEEL and METADATA of a dist-info folder: read, and edited in place (PEP 427, "File Contents").

An edit keeps every byte that it does not concern: build backends add lines of their own.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from wheelfix.errors import BadWheelError
from wheelfix.wheel.model import Metadata

_REBUILD = "build the wheel again: a build backend writes this file"


class WheelMetadata(NamedTuple):
    """The fields of WHEEL that an installer acts on."""

    root_is_purelib: bool
    tags: tuple[str, ...]
    """The `Tag:` lines, in file order."""


_VERSION = re.compile(r"1\.[0-9]+")
"""What both pip and uv take for a Wheel-Version 1.x."""


def read_metadata(text: str) -> WheelMetadata:
    """Read WHEEL; `BadWheelError` without a Wheel-Version, or with one other than 1.x (PEP 427)."""
    headers = [(key, value) for key, value in map(_header, _head(text)) if key]
    version = next((value for key, value in headers if key == "wheel-version"), None)
    if not version:
        raise BadWheelError("the WHEEL file has no `Wheel-Version`", hint=_REBUILD)
    if not _VERSION.fullmatch(version):
        raise BadWheelError(
            f"the WHEEL file has `Wheel-Version: {version}`, and wheelfix knows 1.x",
            hint="upgrade wheelfix, or build the wheel for Wheel-Version 1.0",
        )
    # pip and installer read a missing Root-Is-Purelib as false.
    purelib = next((value for key, value in headers if key == "root-is-purelib"), "false")
    return WheelMetadata(
        root_is_purelib=purelib.lower() == "true",
        tags=tuple(value for key, value in headers if key == "tag"),
    )


def edit_metadata(text: str, *, tags: Sequence[str], root_is_purelib: bool) -> str:
    """Set the tags and Root-Is-Purelib in WHEEL; lines that need no change stay as they are."""
    now = read_metadata(text)
    if tuple(tags) != now.tags:
        text = _set_lines(text, "Tag", tags)
    if root_is_purelib != now.root_is_purelib:
        text = _set_lines(text, "Root-Is-Purelib", [str(root_is_purelib).lower()])
    return text


def _set_lines(text: str, key: str, values: Sequence[str]) -> str:
    """Write one line for each value in place of the first line with `key`, or after the headers."""
    head = list(_head(text))
    rest = text[sum(map(len, head)) :]
    end = "\r\n" if head and head[0].endswith("\r\n") else "\n"
    places = [i for i, line in enumerate(head) if _header(line)[0] == key.lower()]
    at = places[0] if places else len(head)
    if head and not places and not head[-1].endswith("\n"):
        head[-1] += end
    gone = set(places)
    kept = [line for i, line in enumerate(head) if i not in gone]
    kept[at:at] = [f"{key}: {value}{end}" for value in values]
    return "".join(kept) + rest


def _head(text: str) -> Iterator[str]:
    """Yield the lines before the first empty one, line ends included."""
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        line = text[start:end]
        if not line.strip("\r\n"):
            return
        yield line
        start = end


def _header(line: str) -> tuple[str, str]:
    key, colon, value = line.partition(":")
    return (key.strip().lower(), value.strip()) if colon else ("", "")


MAX_FIELDS = 20_000
"""Some twenty times what the largest published wheels have; several rules go through all."""
_LINE = re.compile(r"([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_REQUIRES = "Requires-Dist"
_FIELD = re.compile(r"([!-9;-~]+):(.*)", re.DOTALL)


def read_core_metadata(text: str) -> Metadata:
    """Read the header of METADATA as Python's `email` does."""
    fields = tuple(islice(_fields(text), MAX_FIELDS + 1))
    if len(fields) > MAX_FIELDS:
        return Metadata(problem=f"METADATA has more than {MAX_FIELDS:,} fields")
    return Metadata(
        metadata_version=_one(fields, "metadata-version") or "",
        name=_one(fields, "name") or "",
        version=_one(fields, "version") or "",
        requires_python=_one(fields, "requires-python"),
        requires_dist=_all(fields, "requires-dist"),
        license_files=_all(fields, "license-file"),
        fields=fields,
    )


def with_requirement(metadata: Metadata, requirement: str) -> Metadata:
    """Return METADATA with one more `Requires-Dist` line."""
    fields = metadata.fields
    last = [at for at, (name, _) in enumerate(fields, start=1) if name == _REQUIRES.lower()]
    at = last[-1] if last else len(fields)
    return metadata._replace(
        requires_dist=(*metadata.requires_dist, requirement),
        fields=(*fields[:at], (_REQUIRES.lower(), requirement), *fields[at:]),
    )


def edit_core_metadata(text: str, requires_dist: Sequence[str]) -> str:
    """Add the lines of `requires_dist` that METADATA lacks; all other bytes stay.

    They go after the last `Requires-Dist` line, or to the end of the header.
    """
    present = read_core_metadata(text).requires_dist
    missing = [requirement for requirement in requires_dist if requirement not in present]
    if not missing:
        return text
    at = end = 0
    newline = "\r\n" if "\r\n" in text.partition("\n")[0] + "\n" else "\n"
    key = ""
    for match in _LINE.finditer(text):
        line = match[1]
        if line[:1] not in {" ", "\t"}:
            field = _FIELD.fullmatch(line)
            if field is None:
                break
            key = field[1].lower()
        end = match.end()
        if key == _REQUIRES.lower():
            at = end
    at = at or end
    before = text[:at] if not at or text[:at].endswith(("\n", "\r")) else text[:at] + newline
    return before + "".join(f"{_REQUIRES}: {new}{newline}" for new in missing) + text[at:]


def _fields(text: str) -> Iterator[tuple[str, str]]:
    """Yield (name, value) up to the empty line, or to one that is neither field nor continued."""
    name: str | None = None
    parts: list[str] = []
    for match in _LINE.finditer(text):
        line = match[1]
        if line[:1] in {" ", "\t"}:
            parts.append(line.strip())  # RFC 822, 3.1.1: a folded field
            continue
        if name is not None:
            yield name, " ".join(filter(None, parts))
        field = _FIELD.fullmatch(line)
        if field is None:
            return
        name, parts = field[1].lower(), [field[2].strip()]


def _one(fields: Sequence[tuple[str, str]], name: str) -> str | None:
    return next((value for key, value in fields if key == name), None)


def _all(fields: Sequence[tuple[str, str]], name: str) -> tuple[str, ...]:
    return tuple(value for key, value in fields if key == name)
