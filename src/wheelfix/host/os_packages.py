"""Packages (dpkg, apk, rpm, conda, Python distributions) that own files, with their licenses.

The databases are read; that of rpm needs its program. What another user could change counts as
absent: a database, a license text.
"""

import json
import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from packaging.utils import InvalidName, canonicalize_name

from wheelfix.errors import SettingsError
from wheelfix.grouping import flatten, grouped
from wheelfix.host.installed_files import recorded_among
from wheelfix.host.machine_files import (
    MAX_DATABASE,
    MAX_TEXT,
    is_trusted,
    read_regular,
    read_trusted,
    trusted_file,
    trusted_files,
)
from wheelfix.host.sysroot import system_at
from wheelfix.loader.install_schemes import SITE_FOLDERS
from wheelfix.loader.targets import find
from wheelfix.named_tuple import NamedTuple
from wheelfix.system import deferred
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.system.subprocesses import find_program, run
from wheelfix.wheel.dist_info import declared_license, read_core_metadata
from wheelfix.wheel.model import LICENSE_NAME

_RPM_FORMAT = (
    r"package\t%{NAME}\t%|EPOCH?{%{EPOCH}}:{}|\t%{VERSION}-%{RELEASE}\t%{ARCH}\t%{LICENSE}"
    r"\t%{SOURCERPM}[\t%{FILEFLAGS:fflags}\t%{FILENAMES}]\n"
)
"""One line for each package, with its files and their flags: a file may have several owners."""
_UNFIT = lazy_pattern(r"^\.+|[^\w.+@ -]", re.ASCII)
"""What is replaced in the name of a license text for the wheel."""
_LONGEST = 200
"""Characters of such a name."""


class LicenseText(NamedTuple):
    """A license text on this machine."""

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
    license: str | None = None
    """An SPDX expression, or the distribution's own text."""
    license_files: tuple[LicenseText, ...] = ()
    """The texts of its licenses that are installed."""

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

    `environ` is the environment of rpm. The databases are those under `root`, and name a file
    below it by its path there.

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
    spellings = {path: tuple(_spellings(path, root)) for path in paths}
    packages: dict[Path, Package] = {}
    for read_owners in readers:
        left = [path for path in spellings if path not in packages]
        if not left:
            break
        known: dict[str, Package] = {}
        for name, package in read_owners(set(flatten(spellings[path] for path in left))):
            known.setdefault(name, package)
        for path in left:
            if names := [name for name in spellings[path] if name in known]:
                owner = known[names[0]]
                is_of_distro = owner.type in {"deb", "rpm", "apk"}
                packages[path] = (
                    owner._replace(distro=distro, distro_version=version) if is_of_distro else owner
                )
    return packages


def system_packages(root: Path = Path("/")) -> Mapping[str, str]:
    """Return which packages bring libraries to the system at `root`, as far as that is known."""
    release = _os_release(root)
    systems = (release.get("ID", ""), *release.get("ID_LIKE", "").split())
    version = release.get("VERSION_ID", "")
    for system in flatten((f"{name}:{version}", name) for name in systems):
        with suppress(SettingsError):
            return find(system).packages
    return {}


def system_package(library: str, root: Path = Path("/")) -> str:
    """Return the package that brings `library` to the system at `root`; empty if not known."""
    return system_packages(root).get(library, "")


def _spellings(path: Path, root: Path) -> Iterator[str]:
    """Yield the paths by which a database may list `path`, the best first.

    The target of a link comes first: the link may be in the -dev package. Where `/lib` is a link
    to `/usr/lib`, packages may list either (Debian's "merged /usr").
    """
    places = dict.fromkeys((os.path.realpath(path), str(path)))
    # Environments name files by their path on this machine, packages of a root by that in it.
    inner = [
        f"/{os.path.relpath(place, root)}" for place in places if Path(place).is_relative_to(root)
    ]
    for name in dict.fromkeys((*inner, *places)):
        yield name
        if re.match(r"/usr/(?:lib\w*|s?bin)/", name):
            yield name.removeprefix("/usr")
        elif re.match(r"/(?:lib\w*|s?bin)/", name):
            yield f"/usr{name}"


def _below(root: Path, place: str) -> Path:
    """Return where a file of the system at `root` is: its links are the system's own."""
    return Path(system_at(str(root)).place(f"/{place}"))


def _os_release(root: Path) -> dict[str, str]:
    """Read os-release(5)."""
    for place in ("etc/os-release", "usr/lib/os-release"):
        if text := _read(_below(root, place)):
            pairs = re.findall(r"(?m)^([A-Z0-9_]+)=(.*)$", text)
            return {key: _unquote(value) for key, value in pairs}
    return {}


def _unquote(value: str) -> str:
    try:
        return " ".join(shlex.split(value))
    except ValueError:
        return value


def _read(path: Path) -> str:
    try:
        return read_trusted(path, MAX_DATABASE).decode("utf-8", "replace")
    except OSError:
        return ""


def _text(folder: str, name: str, path: Path) -> LicenseText:
    """Name the license text at `path`; names from databases and disks may be unfit for a wheel."""
    parts = [folder, *name.split("/")]
    return LicenseText("/".join(_UNFIT.sub("_", part)[:_LONGEST] for part in parts), path)


def _texts_below(folder: Path, name: str) -> tuple[LicenseText, ...]:
    """Return the license texts below `folder`, sorted, to be named in a folder `name`."""
    return tuple(_text(name, inner, path) for inner, path in trusted_files(folder, MAX_TEXT))


# --- Debian -------------------------------------------------------------------------------------


def _owners_in_dpkg(names: Collection[str], root: Path) -> Iterator[tuple[str, Package]]:
    """Read the file lists and the status of dpkg (dpkg(1), "FILES")."""
    database = _below(root, "var/lib/dpkg")
    wanted = {os.fsencode(name): name for name in names}
    owned: dict[str, list[str]] = {}
    # Only trusted users can have put a file there: to ask of each takes as long as to read it.
    info = database / "info"
    lists = os.listdir(info) if is_trusted(info) else ()  # noqa: PTH208 - thousands of names
    for stem in sorted(name.removesuffix(".list") for name in lists if name.endswith(".list")):
        with suppress(OSError):
            listing = read_regular(f"{info}/{stem}.list", MAX_DATABASE)
            if any(name in listing for name in wanted):
                owned[stem] = [wanted[line] for line in wanted.keys() & listing.split(b"\n")]
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
                    license=_debian_license(copyright_file),
                    license_files=tuple(_debian_texts(copyright_file, root)),
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


def _debian_license(path: Path) -> str | None:
    """Return the license of `Files: *` in a machine-readable copyright file (DEP 5)."""
    text = _read(path)
    if "Format:" not in text.partition("\n\n")[0]:
        return None
    for stanza in re.split(r"\n(?:[ \t]*\n)+", text):
        fields = _fields(stanza)
        if "*" in fields.get("Files", "").split():
            return _spdx(fields.get("License", "").partition("\n")[0].strip()) or None
    return None


def _debian_texts(path: Path, root: Path) -> Iterator[LicenseText]:
    """Yield a copyright file, and the licenses that it refers to in place of their text.

    Packages of one source may share a folder by a link (Debian policy 12.3, 12.5).
    """
    text = _read(path)
    named = set(re.findall(r"/usr/share/common-licenses/([A-Za-z][\w.+-]*\w)", text))
    with suppress(OSError):
        real = trusted_file(path, MAX_TEXT, within=root / "usr/share")
        yield _text(real.parent.name, "copyright", real)
    common = root / "usr/share/common-licenses"
    files: set[Path] = set()
    for name in named:  # `GPL` is a link to `GPL-3`
        with suppress(OSError):
            files.add(trusted_file(common / name, MAX_TEXT, within=common))
    yield from (_text("common-licenses", file.name, file) for file in sorted(files))


def _spdx(text: str) -> str:
    """Translate a license of DEP 5 to an SPDX expression; one unknown to SPDX is unchanged."""
    translated = " ".join(_spdx_word(word) for word in text.split())
    try:
        return str(deferred.licenses.canonicalize_license_expression(translated))
    except deferred.licenses.InvalidLicenseExpression:
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
    text = _read(_below(root, place)) or _read(_below(root, f"usr/{place}"))
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
                license=fields.get("L") or None,
                license_files=tuple(_texts_in_licenses(root, fields["P"], fields.get("o", ""))),
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


def _texts_in_licenses(root: Path, *names: str) -> Iterator[LicenseText]:
    """Yield the texts of the first of the packages `names` with a folder of licenses.

    On Alpine, that of the origin may be installed by its `-doc` package.
    """
    for name in filter(None, names):
        if texts := _texts_below(root / "usr/share/licenses" / name, name):
            yield from texts
            return


# --- rpm ----------------------------------------------------------------------------------------


def _owners_in_rpm(
    names: Collection[str], environ: Mapping[str, str], root: Path
) -> Iterator[tuple[str, Package]]:
    """Run rpm, once for the owners; its exit code is the number of files without an owner.

    Without a database it is not asked: it would make one, on Debian in the user's home.
    """
    program = find_program("rpm", environ.get("PATH", os.defpath).split(":"))
    if program is None:
        return
    place = _run_rpm(program, environ, "--eval", "%{_dbpath}").strip()
    database = root / place.lstrip("/")
    if not place or not is_trusted(database):
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
        texts = row.texts or tuple(flatten(other.texts for other in others.get(row.source, ())))
        package = row.package._replace(license_files=texts)
        yield from ((file, package) for file in row.files if file in names)


class _RpmRow(NamedTuple):
    """One package of rpm."""

    package: Package
    source: str
    """Its source package."""
    files: tuple[str, ...]
    texts: tuple[LicenseText, ...]


def _rpm_rows(
    program: str, environ: Mapping[str, str], root: Path, database: Path, packages: Sequence[str]
) -> Iterator[_RpmRow]:
    rows = _run_rpm(
        program, environ, "--dbpath", str(database), "-q", "--queryformat", _RPM_FORMAT, *packages
    )
    for line in rows.splitlines():
        word, *fields = line.split("\t")
        if word != "package" or len(fields) < 6:
            continue
        name, epoch, version, arch, expression, source, *rest = fields
        files = list(zip(rest[::2], rest[1::2], strict=False))
        package = Package("rpm", name, version, arch, epoch=epoch, license=expression or None)
        texts = tuple(_rpm_texts(name, files, root))
        yield _RpmRow(package, source, tuple(file for _, file in files), texts)


def _run_rpm(program: str, environ: Mapping[str, str], *arguments: str) -> str:
    completed = run(
        [program, *arguments], env={**environ, "LC_ALL": "C"}, timeout=60, accepted=range(256)
    )
    return completed.stdout


def _rpm_texts(name: str, files: Sequence[tuple[str, str]], root: Path) -> Iterator[LicenseText]:
    """Yield the installed license texts of the package `name`, given its files with their flags.

    They have the flag `l` (`%license`); images that leave out documents keep them. Older packages
    have them among the documents, which have the flag `d`.
    """
    licenses = (file for flags, file in files if "l" in flags)
    documents = (
        file for flags, file in files if "d" in flags and LICENSE_NAME.match(Path(file).name)
    )
    for marked in (licenses, documents):
        texts = list(flatten(_rpm_text(name, file, root) for file in sorted(marked)))
        if texts:
            yield from texts
            return


def _rpm_text(package: str, file: str, root: Path) -> Iterator[LicenseText]:
    inner = file.removeprefix("/usr/share/licenses/")
    folder, _, name = inner.partition("/") if inner != file else (package, "", Path(file).name)
    with suppress(OSError):
        yield _text(folder, name, trusted_file(root / file.lstrip("/"), MAX_TEXT, within=root))


# --- Environments ---------------------------------------------------------------------------------


def _owners_in_environments(names: Collection[str]) -> Iterator[tuple[str, Package]]:
    """Read the lists of conda and of Python installers in the environments that hold the files."""
    for prefix in dict.fromkeys(filter(None, map(_conda_prefix, names))):
        for record in sorted(prefix.glob("conda-meta/*.json")):
            yield from _owners_in_conda(record, prefix, names)
    parents = flatten(Path(name).parents for name in names)
    sites = (parent for parent in parents if parent.name in SITE_FOLDERS)
    for site in dict.fromkeys(sites):
        for dist_info in sorted(site.glob("*.dist-info")) if is_trusted(site) else ():
            yield from _owners_in_distribution(dist_info, names)


def _conda_prefix(name: str) -> Path | None:
    """Return the nearest folder above a file that is an environment of conda."""
    parents = Path(name).parents
    return next((parent for parent in parents if is_trusted(parent / "conda-meta")), None)


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
        source = Path(str(fields.get("extracted_package_dir") or link.get("source") or ""))
        package = Package(
            "conda",
            str(fields["name"]),
            str(fields["version"]),
            str(fields.get("subdir", "")),
            license=str(fields.get("license") or "") or None,
        )
        "".join(filter(None, package[:8])).encode()  # JSON can have half of a surrogate pair
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return
    if source.is_absolute():
        texts = _texts_below(source / "info/licenses", package.name)
        package = package._replace(license_files=texts)
    yield from ((path, package) for path, relative in inner.items() if relative in files)


def _owners_in_distribution(
    dist_info: Path, names: Collection[str]
) -> Iterator[tuple[str, Package]]:
    """Read RECORD and METADATA of an installed distribution, if they are its own."""
    if is_trusted(dist_info / "RECORD"):
        owned = recorded_among(dist_info, names)
        package = _distribution(dist_info) if owned else None
        if package is not None:
            yield from ((path, package) for path in owned)


def _distribution(dist_info: Path) -> Package | None:
    """Describe an installed distribution (PEP 639: `licenses`; older ones have texts beside).

    None if its METADATA has no valid name.
    """
    fields = read_core_metadata(_read(dist_info / "METADATA"))
    try:
        name = canonicalize_name(fields.name, validate=True)
    except InvalidName:
        return None
    beside = (text for text in _texts_below(dist_info, name) if _is_usual(text))
    texts = _texts_below(dist_info / "licenses", name) or tuple(beside)
    return Package(
        "pypi",
        fields.name,
        fields.version,
        license=declared_license(fields),
        license_files=texts,
    )


def _is_usual(text: LicenseText) -> bool:
    """Return whether a file of a distribution is a license by its name and place."""
    _, *folders, name = text.name.split("/")
    return not folders and LICENSE_NAME.match(name) is not None
