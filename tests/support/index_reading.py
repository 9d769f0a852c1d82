"""What PyPI refuses of a wheel: a reading of the same rules that shares no code with wheelfix.

It goes through the zip from its first byte, as the index does, with the standard library and
`packaging` for all else.
"""

import configparser
import csv
import re
import struct
import tarfile
import zipfile
from email.utils import parseaddr
from pathlib import Path
from typing import Any, cast

from packaging.metadata import Metadata, parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

FLAT = {
    "any", "win32", "win_arm64", "win_amd64", "win_ia64", "linux_armv6l", "linux_armv7l",
    "manylinux1_x86_64", "manylinux1_i686", "manylinux2010_x86_64", "manylinux2010_i686",
    *(f"manylinux2014_{a}" for a in "x86_64 i686 aarch64 armv7l ppc64 ppc64le s390x".split()),
}  # fmt: skip
LINUX = {"x86_64", "i686", "aarch64", "armv7l", "ppc64le", "s390x", "riscv64"}


def refusal(path: Path) -> str | None:
    """Return why the index refuses the wheel at `path`; None if it takes it."""
    try:
        with zipfile.ZipFile(path) as archive:
            return (
                _zip(archive, path)
                or _name(path.name)
                or _contents(archive, path.name)
                or _entry_points(archive, path.name)
            )
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, struct.error) as error:
        return f"no zip: {error}"


def is_mailed(path: Path) -> bool:
    """Return whether the index takes the wheel, and complains of RECORD by e-mail."""
    info = "-".join(path.name.split("-", 2)[:2]) + ".dist-info"
    with zipfile.ZipFile(path) as archive:
        rows = csv.reader(archive.read(f"{info}/RECORD").decode().splitlines())
        listed = {row[0].replace("\\", "/") for row in rows}
        exempt = {f"{info}/RECORD.jws", f"{info}/RECORD.p7s"}
        files = {name for name in archive.namelist() if name[-1] not in "/\\"}
    return listed != files - exempt


def _zip(archive: zipfile.ZipFile, path: Path) -> str | None:
    data = path.read_bytes()
    total = sum(entry.file_size for entry in archive.infolist())
    if len(data) > 100 * 2**20:
        return "too large"
    if total > 64 * 2**20 and total / len(data) > 50:
        return "ratio"
    if any(entry.compress_type not in (0, 8) for entry in archive.infolist()):
        return "method"
    if tarfile.is_tarfile(path):
        return "a tar, too"
    return _stream(archive, data)


def _stream(  # noqa: C901, PLR0911, PLR0912 - the records of a zip, one after another
    archive: zipfile.ZipFile, data: bytes
) -> str | None:
    """Read record after record."""
    stated = {e.orig_filename: (e.compress_size, e.file_size) for e in archive.filelist}
    at = 0
    seen: set[bytes] = set()
    central: set[bytes] = set()
    directory_at: int | None = None
    directory_size = 0
    wide: tuple[int, int, int] | None = None
    has_locator = False
    while True:
        kind, at = data[at : at + 4], at + 4
        if kind == b"PK\3\4":
            flags, method, packed, size, names, extras = struct.unpack_from("<2xHH8xLLHH", data, at)
            name = data[at + 26 : at + 26 + names]
            extra = data[at + 26 + names : at + 26 + names + extras]
            if flags & 8 or name in seen or _odd(name):
                return "local header"
            read = _extra(extra, method, packed, size)
            if read is None or stated.get(name.decode("utf-8", "replace")) != read:
                return "local sizes"
            seen.add(name)
            at += 26 + names + extras + read[0]
        elif kind == b"PK\1\2":
            directory_at = at - 4 if directory_at is None else directory_at
            names, extras, comment = struct.unpack_from("<24xHHH", data, at)
            name = data[at + 42 : at + 42 + names]
            if comment or name in central or name not in seen:
                return "central header"
            central.add(name)
            at += 42 + names + extras
            directory_size += 46 + names + extras
        elif kind == b"PK\6\6":
            length, here, count, size, offset = struct.unpack_from("<Q12xQQQQ", data, at)
            if here != count or length != 44:
                return "zip64 end"
            wide = count, size, offset
            at += 52
        elif kind == b"PK\6\7":
            has_locator = True
            at += 16
        elif kind == b"PK\5\6":
            here, count, size, offset, comment = struct.unpack_from("<4xHHLLH", data, at)
            if here != count or (wide and not has_locator):
                return "end"
            end = wide or (count, size, offset)
            begin = at - 4 if directory_at is None else directory_at
            if end != (len(central), directory_size, begin):
                return "end"
            return None if at + 18 + comment == len(data) and central == seen else "trailing"
        else:
            return "unknown record"


def _odd(name: bytes) -> bool:
    return any(byte < 32 or byte == 127 for byte in name)


def _extra(extra: bytes, method: int, packed: int, size: int) -> tuple[int, int] | None:
    """Return the sizes that a local header states; None for an extra field that is refused."""
    kinds: list[int] = []
    while extra:
        if len(extra) < 4:
            return None
        kind, length = struct.unpack("<HH", extra[:4])
        value, extra = extra[4 : 4 + length], extra[4 + length :]
        if len(value) != length or (kind in (1, 0x7075) and kind in kinds):
            return None
        kinds.append(kind)
        if kind == 1:
            if length not in (0, 8, 16, 24, 28) or (length == 8 and method):
                return None
            if length == 0 and 0xFFFFFFFF in (packed, size):
                return None
            if length == 8:
                (packed,) = struct.unpack("<Q", value)
                size = packed if size == 0xFFFFFFFF else size
            elif length:
                size = struct.unpack("<Q", value[:8])[0] if size == 0xFFFFFFFF else size
                packed = struct.unpack("<Q", value[8:16])[0]
    return packed, size


def _name(filename: str) -> str | None:
    try:
        tags = parse_wheel_filename(filename)[3]
    except InvalidWheelFilename:
        return "name"
    return None if all(_taken(tag.platform) for tag in tags) else "platform"


def _taken(platform: str) -> bool:
    if platform in FLAT:
        return True
    match = re.match(r"(many|musl)linux_\d+_\d+_(.*)", platform)
    if match:
        return match[2] in LINUX | ({"ppc64"} if match[1] == "many" else set())
    match = re.match(r"macosx_(\d+)_(\d+)_(.*)", platform)
    return match is not None and (
        match[3] in "ppc ppc64 i386 x86_64 arm64 intel fat fat3 fat64 universal universal2".split()
        and (match[1] == "10" or (match[1] in "11 12 13 14 15 26".split() and match[2] == "0"))
    )


def _contents(  # noqa: PLR0911 - one check after another
    archive: zipfile.ZipFile, filename: str
) -> str | None:
    spelled, version, _ = filename.split("-", 2)
    info = f"{spelled}-{version}.dist-info"
    names = set(archive.namelist())
    for name in ("WHEEL", "METADATA", "RECORD"):
        if f"{info}/{name}" not in names:
            return f"no {name}"
    try:
        list(csv.reader(archive.read(f"{info}/RECORD").decode().splitlines()))
        raw, unparsed = parse_email(archive.read(f"{info}/METADATA"))
        if raw.get("metadata_version") in {"1.0", "1.1", "1.2", "2.1", "2.2", "2.3"}:
            raw.pop("license_expression", None)  # as twine does before it uploads
            raw.pop("license_files", None)
        metadata = Metadata.from_raw(raw)
    except (ExceptionGroup, UnicodeError, csv.Error):
        return "METADATA or RECORD"
    parsed_name, parsed_version, _, _ = parse_wheel_filename(filename)
    normalized = canonicalize_name(metadata.name)
    if normalized != parsed_name or spelled != normalized.replace("-", "_"):
        return "project name"
    if metadata.version != parsed_version:
        return "version"
    if any(f"{info}/licenses/{path}" not in names for path in metadata.license_files or ()):
        return "license file"
    if any(parse_email(f"{key}: x")[0] for key in unparsed):
        return "field twice"
    return _fields(metadata)


def _fields(metadata: Any) -> str | None:
    """Apply the index's own rules for fields; addresses and URLs are judged loosely."""
    wrong = [
        metadata.version.local,
        metadata.summary and len(metadata.summary) > 512,
        metadata.license and metadata.license_expression,
        any(requirement.url for requirement in metadata.requires_dist or ()),
        *(not _is_url(url) for url in (metadata.home_page, metadata.download_url) if url),
        *(
            not (0 < len(label) <= 32 and _is_url(url))
            for label, url in cast("dict[str, str]", metadata.project_urls or {}).items()
        ),
        *(
            "@" not in parseaddr(value)[1]
            for value in (metadata.author_email, metadata.maintainer_email)
            if value and parseaddr(value)[1]
        ),
    ]
    for text in (*(metadata.provides_dist or ()), *(metadata.obsoletes_dist or ())):
        try:
            wrong.append(Requirement(text).url)
        except InvalidRequirement:
            wrong.append(True)
    return "a field" if any(wrong) else None


def _is_url(text: str) -> bool:
    return text.lower().startswith(("http:", "https:"))


def _entry_points(archive: zipfile.ZipFile, filename: str) -> str | None:
    name = "-".join(filename.split("-", 2)[:2]) + ".dist-info/entry_points.txt"
    if name not in archive.namelist():
        return None
    parser = configparser.ConfigParser(delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(archive.read(name).decode())
    except (UnicodeError, configparser.Error):
        return "entry points"
    groups = [parser[group] for group in ("console_scripts", "gui_scripts") if group in parser]
    try:
        scripts = [name for group in groups for name in group]
    except configparser.Error:
        return "entry points"
    return None if all(re.fullmatch(r"[\w.-]+", name) for name in scripts) else "entry points"
