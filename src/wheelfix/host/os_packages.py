"""Packages of the Linux distribution (dpkg, apk, rpm) that own files, with their licences.

The databases of dpkg and apk are read; that of rpm needs its program.
"""

import os
import re
import shlex
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import quote

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from wheelfix.grouping import grouped
from wheelfix.system.subprocesses import run

_RPM_FORMAT = (
    r"package\t%{NAME}\t%|EPOCH?{%{EPOCH}}:{}|\t%{VERSION}-%{RELEASE}\t%{ARCH}\t%{LICENSE}"
    r"[\t%{FILENAMES}]\n"
)
"""One line for each package, with its files: a file may have several owners, or none."""


class Package(NamedTuple):
    """A package of a Linux distribution, as its database describes it."""

    type: Literal["deb", "rpm", "apk"]
    name: str
    version: str
    """With the release, as in `5.4.1-1`, without the epoch of an rpm."""
    arch: str
    """As the distribution names it: `amd64`, `x86_64`."""
    distro: str = ""
    """ID of os-release(5)."""
    distro_version: str = ""
    """VERSION_ID of os-release(5), if there is one."""
    epoch: str = ""
    """Of an rpm; empty if it has none."""
    licence: str | None = None
    """An SPDX expression, or the distribution's own text."""

    @property
    def purl(self) -> str:
        """Its package URL (PURL-TYPES: deb, rpm, apk)."""
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
        partial(_owners_in_dpkg, root=root),
        partial(_owners_in_apk, root=root),
        partial(_owners_in_rpm, environ=environ),
    )
    spellings = {path: tuple(_spellings(path)) for path in paths}
    found: dict[Path, Package] = {}
    for read_owners in readers:
        left = [path for path in spellings if path not in found]
        if not left:
            break
        known: dict[str, Package] = {}
        for name, package in read_owners({name for path in left for name in spellings[path]}):
            known.setdefault(name, package._replace(distro=distro, distro_version=version))
        for path in left:
            if names := [name for name in spellings[path] if name in known]:
                found[path] = known[names[0]]
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
                licence = _debian_licence(root / f"usr/share/doc/{name}/copyright")
                version, machine = fields["Version"], fields["Architecture"]
                package = Package("deb", name, version, machine, licence=licence)
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
            licence = fields.get("L") or None
            package = Package("apk", fields["P"], fields["V"], fields["A"], licence=licence)
            yield from ((file, package) for file in files)


def _apk_files(lines: Collection[tuple[str, str]]) -> Iterator[str]:
    """Yield the files of a package: `F:` is a folder, and each `R:` after it a file in it."""
    folder = ""
    for key, value in lines:
        if key == "F":
            folder = value
        elif key == "R":
            yield f"/{folder}/{value}"


# --- rpm ----------------------------------------------------------------------------------------


def _owners_in_rpm(
    names: Collection[str], environ: Mapping[str, str]
) -> Iterator[tuple[str, Package]]:
    """Run rpm, once; its exit code is the number of files without an owner."""
    program = shutil.which("rpm", path=environ.get("PATH", os.defpath))
    if program is None:
        return
    completed = run(
        [program, "-qf", "--queryformat", _RPM_FORMAT, *sorted(names)],
        env={**environ, "LC_ALL": "C"},
        timeout=60,
        accepted=range(256),
    )
    for line in completed.stdout.splitlines():
        word, *fields = line.split("\t")
        if word != "package" or len(fields) < 5:
            continue
        name, epoch, version, arch, licence, *files = fields
        package = Package("rpm", name, version, arch, epoch=epoch, licence=licence or None)
        yield from ((file, package) for file in files if file in names)
