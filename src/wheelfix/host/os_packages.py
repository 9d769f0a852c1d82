"""Packages (dpkg, apk, rpm, conda, Python distributions) that own files, with their licences.

The databases are read; that of rpm needs its program.
"""

import json
import os
import re
import shlex
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.utils import canonicalize_name

from wheelfix.grouping import grouped
from wheelfix.host.installed_files import recorded
from wheelfix.system.subprocesses import run
from wheelfix.wheel.dist_info import declared_licence, read_core_metadata
from wheelfix.wheel.model import LICENCE_NAME

_RPM_FORMAT = (
    r"package\t%{NAME}\t%|EPOCH?{%{EPOCH}}:{}|\t%{VERSION}-%{RELEASE}\t%{ARCH}\t%{LICENSE}"
    r"\t%{SOURCERPM}[\t%{FILEFLAGS:fflags}\t%{FILENAMES}]\n"
)
"""One line for each package, with its files and their flags: a file may have several owners."""


class LicenceFile(NamedTuple):
    """A licence text on this machine."""

    name: str
    """The name to give it: `libgcc/COPYING`, relative and without `.` and `..`."""
    path: Path


class Package(NamedTuple):
    """A package, as its database describes it."""

    type: Literal["deb", "rpm", "apk", "conda", "pypi", "generic"]
    """The type of its package URL; `generic` for one that the configuration describes."""
    name: str
    version: str
    """With the release, as in `5.4.1-1`, without the epoch of an rpm."""
    arch: str = ""
    """As the distribution names it: `amd64`, `x86_64`, `linux-64`."""
    distro: str = ""
    """ID of os-release(5)."""
    distro_version: str = ""
    """VERSION_ID of os-release(5), if there is one."""
    epoch: str = ""
    """Of an rpm; empty if it has none."""
    licence: str | None = None
    """An SPDX expression, or the distribution's own text."""
    licence_files: tuple[LicenceFile, ...] = ()
    """The texts of its licences that are installed."""

    @property
    def purl(self) -> str:
        """Its package URL (PURL-TYPES: deb, rpm, apk, conda, pypi, generic)."""
        if self.type == "conda":
            return package_url("conda", [self.name.lower()], self.version, {"subdir": self.arch})
        if self.type == "pypi":
            return package_url("pypi", [canonicalize_name(self.name)], self.version, {})
        if self.type == "generic":
            return package_url("generic", [self.name], self.version, {})
        qualifiers = {
            "arch": self.arch,
            "distro": "-".join(filter(None, (self.distro, self.distro_version))),
            "epoch": self.epoch,
        }
        name = self.name if self.type == "rpm" else self.name.lower()
        return package_url(self.type, [self.distro.lower(), name], self.version, qualifiers)


def package_url(
    kind: str, names: Sequence[str], version: str, qualifiers: Mapping[str, str]
) -> str:
    """Compose a package URL (ECMA-427); all but letters, digits and `.-_~:` is percent-encoded.

    Qualifiers are sorted by name; those without a value are left out.
    """
    path = "/".join(quote(part, safe=":") for part in (kind, *names))
    given = [
        f"{key}={quote(value, safe=':')}" for key, value in sorted(qualifiers.items()) if value
    ]
    at = f"@{quote(version, safe=':')}" if version else ""
    return f"pkg:{path}{at}{'?' if given else ''}{'&'.join(given)}"


def owners(
    paths: Collection[Path], environ: Mapping[str, str], root: Path = Path("/")
) -> dict[Path, Package]:
    """Return the packages that own the absolute `paths`; files without an owner are left out.

    `environ` is the environment of rpm. The databases are those under `root`.

    Raises `ToolError` if rpm is killed or does not end within 60 seconds.
    """
    release = _os_release(root)
    distro, version = release.get("ID", "linux"), release.get("VERSION_ID", "")
    readers = (
        _owners_in_environments,
        partial(_owners_in_dpkg, root=root),
        partial(_owners_in_apk, root=root),
        partial(_owners_in_rpm, environ=environ, root=root),
    )
    spellings = {path: tuple(_spellings(path)) for path in paths}
    found: dict[Path, Package] = {}
    for read_owners in readers:
        left = [path for path in spellings if path not in found]
        if not left:
            break
        known: dict[str, Package] = {}
        for name, package in read_owners({name for path in left for name in spellings[path]}):
            known.setdefault(name, package)
        for path in left:
            if names := [name for name in spellings[path] if name in known]:
                owner = known[names[0]]
                is_of_distro = owner.type in {"deb", "rpm", "apk"}
                found[path] = (
                    owner._replace(distro=distro, distro_version=version) if is_of_distro else owner
                )
    return found


def _spellings(path: Path) -> Iterator[str]:
    """Yield the paths by which a database may list `path`, the best first.

    The target of a link comes first: the link may be in the -dev package. Where `/lib` is a link
    to `/usr/lib`, packages may list either (Debian's "merged /usr").
    """
    for name in dict.fromkeys((os.path.realpath(path), str(path))):
        yield name
        if re.match(r"/usr/(?:lib\w*|s?bin)/", name):
            yield name.removeprefix("/usr")
        elif re.match(r"/(?:lib\w*|s?bin)/", name):
            yield f"/usr{name}"


def _os_release(root: Path) -> dict[str, str]:
    """Read os-release(5)."""
    for place in ("etc/os-release", "usr/lib/os-release"):
        if text := _read(root / place):
            pairs = re.findall(r"(?m)^([A-Z0-9_]+)=(.*)$", text)
            return {key: " ".join(shlex.split(value)) for key, value in pairs}
    return {}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


# --- Debian -------------------------------------------------------------------------------------


def _owners_in_dpkg(names: Collection[str], root: Path) -> Iterator[tuple[str, Package]]:
    """Read the file lists and the status of dpkg (dpkg(1), "FILES")."""
    database = root / "var/lib/dpkg"
    wanted = {os.fsencode(name): name for name in names}
    owned: dict[str, list[str]] = {}
    for file in sorted(database.glob("info/*.list")):
        listing = file.read_bytes()
        if any(name in listing for name in wanted):
            owned[file.stem] = [wanted[line] for line in wanted.keys() & listing.split(b"\n")]
    if not owned:
        return
    stanzas = _dpkg_status(database / "status", {stem.partition(":")[0] for stem in owned})
    for stem, files in owned.items():
        name, _, arch = stem.partition(":")
        for fields in stanzas.get(name, ()):
            if arch in {"", fields["Architecture"]}:
                copyright_file = root / f"usr/share/doc/{name}/copyright"
                package = Package(
                    "deb",
                    name,
                    fields["Version"],
                    fields["Architecture"],
                    licence=_debian_licence(copyright_file),
                    licence_files=tuple(_debian_texts(copyright_file, root)),
                )
                yield from ((file, package) for file in files)


def _dpkg_status(path: Path, names: Collection[str]) -> dict[str, list[dict[str, str]]]:
    """Return the stanzas of the packages `names` in the status file, one for each architecture."""
    heads = ((re.match(r"\n*Package: (.+)", text), text) for text in _read(path).split("\n\n"))
    stanzas = [_fields(text) for head, text in heads if head and head[1] in names]
    whole = filter({"Package", "Version", "Architecture"}.issubset, stanzas)
    return grouped(whole, lambda fields: fields["Package"])


def _fields(stanza: str) -> dict[str, str]:
    """Split a stanza into its fields, with their continuation lines (deb822(5))."""
    return dict(re.findall(r"(?m)^([!-9;-~]+):[ \t]*(.*(?:\n[ \t].*)*)", stanza))


def _debian_licence(path: Path) -> str | None:
    """Return the licence of `Files: *` in a machine-readable copyright file (DEP 5)."""
    text = _read(path)
    if "Format:" not in text.partition("\n\n")[0]:
        return None
    for stanza in re.split(r"\n(?:[ \t]*\n)+", text):
        fields = _fields(stanza)
        if "*" in fields.get("Files", "").split():
            return _spdx(fields.get("License", "").partition("\n")[0].strip()) or None
    return None


def _debian_texts(path: Path, root: Path) -> Iterator[LicenceFile]:
    """Yield a copyright file, and the licences that it refers to in place of their text.

    Packages of one source may share a folder by a link (Debian policy 12.3, 12.5).
    """
    text = _read(path)
    if not text:
        return
    real = Path(os.path.realpath(path))
    yield LicenceFile(f"{real.parent.name}/copyright", real)
    common = root / "usr/share/common-licenses"
    named = set(re.findall(r"/usr/share/common-licenses/([A-Za-z][\w.+-]*\w)", text))
    files = {Path(os.path.realpath(common / name)) for name in named}  # `GPL` is a link to `GPL-3`
    for file in sorted(files):
        if file.is_file():
            yield LicenceFile(f"common-licenses/{file.name}", file)


def _spdx(text: str) -> str:
    """Translate a licence of DEP 5 to an SPDX expression; one unknown to SPDX is unchanged."""
    translated = " ".join(_spdx_word(word) for word in text.split())
    try:
        return str(canonicalize_license_expression(translated))
    except InvalidLicenseExpression:
        return text


def _spdx_word(word: str) -> str:
    if match := re.fullmatch(r"(A?GPL|LGPL)-(\d)(\.\d)?(\+)?", word):
        name, major, minor, later = match.groups(default="")
        return f"{name}-{major}{minor or '.0'}-{'or-later' if later else 'only'}"
    return {"or": "OR", "and": "AND", "Expat": "MIT"}.get(word, word)


# --- Alpine -------------------------------------------------------------------------------------


def _owners_in_apk(names: Collection[str], root: Path) -> Iterator[tuple[str, Package]]:
    """Read the database of installed packages of apk (apk-package(5), "Installed database")."""
    place = "lib/apk/db/installed"
    text = _read(root / place) or _read(root / "usr" / place)
    for stanza in text.split("\n\n"):
        lines = re.findall(r"(?m)^(\w):(.*)$", stanza)
        files = [name for name in _apk_files(lines) if name in names]
        fields = dict(lines)
        if files and {"P", "V", "A"} <= fields.keys():
            package = Package(
                "apk",
                fields["P"],
                fields["V"],
                fields["A"],
                licence=fields.get("L") or None,
                licence_files=tuple(_texts_in_licences(root, fields["P"], fields.get("o", ""))),
            )
            yield from ((file, package) for file in files)


def _apk_files(lines: Collection[tuple[str, str]]) -> Iterator[str]:
    """Yield the files of a package: `F:` is a folder, and each `R:` after it a file in it."""
    folder = ""
    for key, value in lines:
        if key == "F":
            folder = value
        elif key == "R":
            yield f"/{folder}/{value}"


def _texts_in_licences(root: Path, *names: str) -> Iterator[LicenceFile]:
    """Yield the texts of the first of the packages `names` with a folder of licences.

    On Alpine, that of the origin may be installed by its `-doc` package.
    """
    for name in filter(None, names):
        folder = root / "usr/share/licenses" / name
        if found := list(_files_below(folder)):
            yield from (LicenceFile(f"{name}/{file}", folder / file) for file in found)
            return


def _files_below(folder: Path) -> list[str]:
    """Return the files below `folder`, relative to it, sorted."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in found)


# --- rpm ----------------------------------------------------------------------------------------


def _owners_in_rpm(
    names: Collection[str], environ: Mapping[str, str], root: Path
) -> Iterator[tuple[str, Package]]:
    """Run rpm, once for the owners; its exit code is the number of files without an owner.

    Without a database it is not asked: it would make one, on Debian in the user's home.
    """
    program = shutil.which("rpm", path=environ.get("PATH", os.defpath))
    if program is None:
        return
    place = _run_rpm(program, environ, "--eval", "%{_dbpath}").strip()
    database = root / place.lstrip("/")
    if not place or not database.is_dir():
        return
    query = partial(_rpm_rows, program, environ, root, database)
    rows = list(query(["-f", *sorted(names)]))
    # Of several packages built from one source, often only one has the texts: libgcc's are those
    # of libgfortran.
    lacking = {row.source for row in rows if not row.texts and row.source}
    others = grouped(
        (row for row in (query(["-a"]) if lacking else ()) if row.texts), lambda row: row.source
    )
    for row in rows:
        texts = row.texts or tuple(
            text for other in others.get(row.source, ()) for text in other.texts
        )
        package = row.package._replace(licence_files=texts)
        yield from ((file, package) for file in row.files if file in names)


class _RpmRow(NamedTuple):
    """One package of rpm."""

    package: Package
    source: str
    """Its source package."""
    files: tuple[str, ...]
    texts: tuple[LicenceFile, ...]


def _rpm_rows(
    program: str, environ: Mapping[str, str], root: Path, database: Path, packages: Sequence[str]
) -> Iterator[_RpmRow]:
    found = _run_rpm(
        program, environ, "--dbpath", str(database), "-q", "--queryformat", _RPM_FORMAT, *packages
    )
    for line in found.splitlines():
        word, *fields = line.split("\t")
        if word != "package" or len(fields) < 6:
            continue
        name, epoch, version, arch, licence, source, *rest = fields
        files = list(zip(rest[::2], rest[1::2], strict=False))
        package = Package("rpm", name, version, arch, epoch=epoch, licence=licence or None)
        texts = tuple(_rpm_texts(name, files, root))
        yield _RpmRow(package, source, tuple(file for _, file in files), texts)


def _run_rpm(program: str, environ: Mapping[str, str], *arguments: str) -> str:
    completed = run(
        [program, *arguments], env={**environ, "LC_ALL": "C"}, timeout=60, accepted=range(256)
    )
    return completed.stdout


def _rpm_texts(name: str, files: Sequence[tuple[str, str]], root: Path) -> Iterator[LicenceFile]:
    """Yield the installed licence texts of the package `name`, given its files with their flags.

    They have the flag `l` (`%license`); images that leave out documents keep them. Older packages
    have them among the documents, which have the flag `d`.
    """
    licences = (file for flags, file in files if "l" in flags)
    documents = (
        file for flags, file in files if "d" in flags and LICENCE_NAME.match(Path(file).name)
    )
    prefix = "/usr/share/licenses/"
    for marked in (licences, documents):
        found = [file for file in sorted(marked) if (root / file.lstrip("/")).is_file()]
        for file in found:
            is_usual = file.startswith(prefix)
            inner = file.removeprefix(prefix) if is_usual else f"{name}/{Path(file).name}"
            yield LicenceFile(inner, root / file.lstrip("/"))
        if found:
            return


# --- Environments ---------------------------------------------------------------------------------


def _owners_in_environments(names: Collection[str]) -> Iterator[tuple[str, Package]]:
    """Search the folders above each file for the lists of conda and of Python installers."""
    folders = {str(parent): parent for name in names for parent in Path(name).parents[:-1]}
    for folder in folders.values():
        with suppress(OSError):
            for record in sorted(folder.glob("conda-meta/*.json")):
                yield from _owners_in_conda(record, folder, names)
            for dist_info in sorted(folder.glob("*.dist-info")):
                if owned := [path for path in recorded(dist_info) if path in names]:
                    package = _distribution(dist_info)
                    yield from ((path, package) for path in owned)


def _owners_in_conda(
    record: Path, prefix: Path, names: Collection[str]
) -> Iterator[tuple[str, Package]]:
    """Read the record of an installed package of conda (`PrefixRecord` in conda's models)."""
    text = _read(record)
    inner = {name: os.path.relpath(name, prefix) for name in names}
    if not any(json.dumps(path) in text for path in inner.values()):
        return
    try:
        fields: Any = json.loads(text)
        files = set(fields["files"])
        link: Any = fields.get("link") or {}
        source = fields.get("extracted_package_dir") or link.get("source") or ""
        folder = Path(str(source)) / "info/licenses"
        name = str(fields["name"])
        package = Package(
            "conda",
            name,
            str(fields["version"]),
            str(fields.get("subdir", "")),
            licence=str(fields.get("license") or "") or None,
            licence_files=tuple(
                LicenceFile(f"{name}/{file}", folder / file) for file in _files_below(folder)
            )
            if source
            else (),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return
    yield from ((path, package) for path, relative in inner.items() if relative in files)


def _distribution(dist_info: Path) -> Package:
    """Describe an installed distribution (PEP 639: `licenses`; older ones have texts beside)."""
    fields = read_core_metadata(_read(dist_info / "METADATA"))
    folder = dist_info / "licenses"
    files = [folder / file for file in _files_below(folder)] or [
        path
        for path in sorted(dist_info.iterdir())
        if LICENCE_NAME.match(path.name) and path.is_file()
    ]
    base = folder if folder.is_dir() and files and folder in files[0].parents else dist_info
    return Package(
        "pypi",
        fields.name,
        fields.version,
        licence=declared_licence(fields),
        licence_files=tuple(
            LicenceFile(
                f"{canonicalize_name(fields.name)}/{path.relative_to(base).as_posix()}", path
            )
            for path in files
        ),
    )
