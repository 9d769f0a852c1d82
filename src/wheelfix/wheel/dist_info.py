"""WHEEL and METADATA of a dist-info folder: read, and edited in place (PEP 427, "File Contents").

An edit keeps every byte that it does not concern: build backends add lines of their own.
"""

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress

from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelfix.errors import BadWheelError
from wheelfix.named_tuple import NamedTuple
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.text import count
from wheelfix.wheel.model import DistInfo, Metadata, WheelName
from wheelfix.wheel.zip_headers import quote

_REBUILD = "build the wheel again: a build backend writes this file"


class WheelMetadata(NamedTuple):
    """The fields of WHEEL that an installer acts on."""

    root_is_purelib: bool
    tags: tuple[str, ...]
    """The `Tag:` lines, in file order."""


def dist_info_folder(names: Iterable[str], wheel: WheelName) -> DistInfo:
    """Return the one dist-info folder among the members `names` of `wheel`.

    Raises `BadWheelError` for none, for several, and for that of another distribution or version.
    """
    tops = {name.partition("/")[0] for name in names if ".dist-info/" in name}
    folders = sorted(top for top in tops if top.endswith(".dist-info"))
    if len(folders) != 1:
        several = " and ".join(map(quote, folders)) or "none"
        raise BadWheelError(
            f"a wheel has one .dist-info folder, this has {several}",
            hint="build the wheel again, from a clean build folder",
        )
    distribution, _, version = folders[0].removesuffix(".dist-info").partition("-")
    if not (_same_name(distribution, wheel.distribution) and _same_version(version, wheel.version)):
        raise BadWheelError(
            f"the folder {quote(folders[0])} is not of {wheel.distribution} {wheel.version}, which "
            "the file name says",
            hint="give the wheel the name that it was built with",
        )
    return DistInfo(folders[0])


def _same_name(name: str, other: str) -> bool:
    """Compare distribution names by the rule of PEP 503."""
    return canonicalize_name(name) == canonicalize_name(other)


def _same_version(version: str, other: str) -> bool:
    """Compare versions by PEP 440; `_` stands for `-` or `+` in file names (PEP 427)."""
    if version == other:
        return True
    with suppress(ValueError):  # InvalidVersion, or a number with thousands of digits
        return Version(version.replace("_", "-")) == Version(other.replace("_", "-"))
    return _same_name(version.replace("+", "-"), other.replace("+", "-"))


_VERSION = lazy_pattern(r"1\.[0-9]+")
"""What both pip and uv take for a Wheel-Version 1.x."""


def read_metadata(text: str) -> WheelMetadata:
    """Read WHEEL; `BadWheelError` without a Wheel-Version, or with one other than 1.x (PEP 427)."""
    fields = [(field.name, field.value) for field in _fields(text)]
    version = _one(fields, "wheel-version")
    if not version:
        raise BadWheelError("the WHEEL file has no `Wheel-Version`", hint=_REBUILD)
    if not _VERSION.fullmatch(version):
        raise BadWheelError(
            f"the WHEEL file has `Wheel-Version: {version}`, and wheelfix knows 1.x",
            hint="upgrade wheelfix, or build the wheel for Wheel-Version 1.0",
        )
    return WheelMetadata(root_is_purelib=is_purelib(text), tags=_all(fields, "tag"))


def is_purelib(text: str) -> bool:
    """Return Root-Is-Purelib of WHEEL; pip and installer read a missing one as false."""
    fields = ((field.name, field.value) for field in _fields(text))
    return (_one(fields, "root-is-purelib") or "").lower() == "true"


def platforms_in(text: str) -> tuple[str, ...]:
    """Return the platform tags of WHEEL, in file order."""
    return tuple(f.value.rpartition("-")[2] for f in _fields(text) if f.name == "tag")


def edit_metadata(text: str, *, tags: Sequence[str], root_is_purelib: bool) -> str:
    """Set the tags and Root-Is-Purelib in WHEEL; lines that need no change stay as they are."""
    now = read_metadata(text)
    if tuple(tags) != now.tags:
        text = _with_lines(text, "Tag", tags)
    if root_is_purelib != now.root_is_purelib:
        text = _with_lines(text, "Root-Is-Purelib", [str(root_is_purelib).lower()])
    return text


def _with_lines(text: str, name: str, values: Sequence[str]) -> str:
    """Write a line for each value in place of the first field `name`, or after the last field."""
    fields = list(_fields(text))
    old = [field for field in fields if field.name == name.lower()]
    at = old[0].start if old else _end_of_header(text, fields)
    for field in reversed(old):
        text = text[: field.start] + text[field.end :]
    return _insert(text, at, name, values)


MAX_FIELDS = 20_000
"""Some twenty times what the largest published wheels have; several rules go through all."""
_LINE = lazy_pattern(r"([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_REQUIRES = "Requires-Dist"
_LICENSE_FILE = "License-File"
_LONGEST_LICENSE = 100
"""Letters of a license's name; some write the whole text into the field."""
_EXPRESSION = "License-Expression"
_VERSION_FIELD = "Metadata-Version"
_FIRST_WITH_LICENSES = "2.4"
_FIELD = lazy_pattern(r"([!-9;-~]+):(.*)", re.DOTALL)


def read_core_metadata(text: str) -> Metadata:
    """Read METADATA as Python's `email` does."""
    listed = list(itertools.islice(_fields(text), MAX_FIELDS + 1))
    fields = tuple((field.name, field.value) for field in listed)
    if len(fields) > MAX_FIELDS:
        return Metadata(problem=f"METADATA has more than {count(MAX_FIELDS, 'field')}")
    return Metadata(
        metadata_version=_one(fields, "metadata-version") or "",
        name=_one(fields, "name") or "",
        version=_one(fields, "version") or "",
        requires_python=_one(fields, "requires-python"),
        requires_dist=_all(fields, "requires-dist"),
        license_files=_all(fields, "license-file"),
        fields=fields,
        description=text[_end_of_header(text, listed) :].partition("\n")[2],
    )


def with_requirement(
    metadata: Metadata, requirement: str, without: Collection[str] = ()
) -> Metadata:
    """Return METADATA with one more `Requires-Dist` line, in place of those of `without`."""
    gone = {(_REQUIRES.lower(), text) for text in without}
    fields = _with_field(metadata.fields, _REQUIRES, requirement)
    return metadata._replace(
        requires_dist=(*(r for r in metadata.requires_dist if r not in without), requirement),
        fields=tuple(field for field in fields if field not in gone),
    )


def with_license_file(metadata: Metadata, path: str) -> Metadata:
    """Return METADATA with one more `License-File` line, in the version that has this field.

    `path` is relative to `*.dist-info/licenses` (PEP 639). Without a `Metadata-Version`, none is
    added.
    """
    fields = metadata.fields
    if not has_license_files(metadata):
        fields = _with_value(fields, _VERSION_FIELD, _FIRST_WITH_LICENSES)
    return metadata._replace(
        metadata_version=_one(fields, _VERSION_FIELD.lower()) or "",
        license_files=(*metadata.license_files, path),
        fields=_with_field(fields, _LICENSE_FILE, path),
    )


def has_license_files(metadata: Metadata) -> bool:
    """Return whether `License-File` is a field of this Metadata-Version (PEP 639)."""
    numbers = [int(part) for part in re.findall(r"[0-9]{1,9}", metadata.metadata_version)]
    return numbers >= [2, 4]


def with_license_expression(metadata: Metadata, expression: str) -> Metadata:
    """Return METADATA with `expression` as its `License-Expression`, if it has one."""
    return metadata._replace(fields=_with_value(metadata.fields, _EXPRESSION, expression))


def license_expression(metadata: Metadata) -> str | None:
    """Return the `License-Expression` of METADATA."""
    return _one(metadata.fields, _EXPRESSION.lower())


def declared_license(metadata: Metadata) -> str | None:
    """Return the license in METADATA (PEP 639, and its predecessors), if it is a mere name."""
    texts = (*_all(metadata.fields, _EXPRESSION.lower()), *_all(metadata.fields, "license"))
    known = next((text for text in texts if 0 < len(text) <= _LONGEST_LICENSE), None)
    classifiers = [
        value.rpartition(" :: ")[2]
        for value in _all(metadata.fields, "classifier")
        if value.startswith("License :: ")
    ]
    return known or "; ".join(classifiers) or None


_Fields = tuple[tuple[str, str], ...]


def _with_field(fields: _Fields, name: str, value: str) -> _Fields:
    """Return `fields` with one more, after the last of its name, or at the end."""
    last = [at for at, (known, _) in enumerate(fields, start=1) if known == name.lower()]
    at = last[-1] if last else len(fields)
    return (*fields[:at], (name.lower(), value), *fields[at:])


def _with_value(fields: _Fields, name: str, value: str) -> _Fields:
    """Return `fields` with another value for each field `name`; none is added."""
    return tuple((known, value if known == name.lower() else old) for known, old in fields)


def edit_core_metadata(text: str, wanted: Metadata) -> str:
    """Write into METADATA what an edit can have changed in `wanted`; all other bytes stay.

    Lines of `Requires-Dist` and `License-File` that are missing go after the last of their name,
    or to the end of the header, before those that are not wanted go; Metadata-Version and
    License-Expression get another value.
    """
    now = read_core_metadata(text)
    for name in (_VERSION_FIELD, _EXPRESSION):
        old, new = (_one(message.fields, name.lower()) for message in (now, wanted))
        spans = [field for field in _fields(text) if field.name == name.lower()]
        if old != new and new is not None:
            for field in reversed(spans):
                text = f"{text[: field.start]}{name}: {new}{_newline(text)}{text[field.end :]}"
    for name in (_REQUIRES, _LICENSE_FILE):
        present = _all(now.fields, name.lower())
        missing = [new for new in _all(wanted.fields, name.lower()) if new not in present]
        if missing:
            fields = list(_fields(text))
            same = [field for field in fields if field.name == name.lower()]
            text = _insert(text, _end_of_header(text, same or fields), name, missing)
        gone = {*present} - {*_all(wanted.fields, name.lower())}
        for field in reversed([f for f in _fields(text) if gone]):
            if field.name == name.lower() and field.value in gone:
                text = text[: field.start] + text[field.end :]
    return text


def _insert(text: str, at: int, name: str, values: Iterable[str]) -> str:
    """Insert a line for each value; the line before gets an end if it has none."""
    newline = _newline(text)
    ends = not at or text[:at].endswith(("\n", "\r"))
    lines = "".join(f"{name}: {value}{newline}" for value in values)
    return f"{text[:at]}{'' if ends else newline}{lines}{text[at:]}"


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text.partition("\n")[0] + "\n" else "\n"


def _end_of_header(text: str, fields: Sequence["_Field"]) -> int:
    """Return where the last of `fields` ends; `email` skips folded lines that follow no field."""
    if fields:
        return fields[-1].end
    lines = itertools.takewhile(lambda match: match[1][:1] in {" ", "\t"}, _LINE.finditer(text))
    return max((match.end() for match in lines), default=0)


class _Field(NamedTuple):
    """One field of a header."""

    name: str
    """In lower case."""
    value: str
    """Unfolded."""
    start: int
    """Its first position in the text, and that after its last line."""
    end: int


def _fields(text: str) -> Iterator[_Field]:
    """Yield the fields up to the empty line, or to one that is neither field nor continued."""
    name, start, end = "", 0, 0
    parts: list[str] = []
    for match in _LINE.finditer(text):
        line = match[1]
        if line[:1] in {" ", "\t"}:
            parts.append(line.strip())  # RFC 822, 3.1.1: a folded field
        else:
            if name:
                yield _Field(name, " ".join(filter(None, parts)), start, end)
            field = _FIELD.fullmatch(line)
            if field is None:
                return
            name, start, parts = field[1].lower(), match.start(), [field[2].strip()]
        end = match.end()


def _one(fields: Iterable[tuple[str, str]], name: str) -> str | None:
    return next((value for key, value in fields if key == name), None)


def _all(fields: Iterable[tuple[str, str]], name: str) -> tuple[str, ...]:
    return tuple(value for key, value in fields if key == name)
