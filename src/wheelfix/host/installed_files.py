"""Installed files of a wheel: found by RECORD, identified by device and inode."""

import hashlib
import json
import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name

from wheelfix.frozen import frozen
from wheelfix.grouping import flatten, grouped
from wheelfix.host.machine_files import (
    MAX_TEXT,
    LinksOut,
    closed_folders,
    open_regular,
    read_regular,
    trusted_path,
)
from wheelfix.loader.install_schemes import SITE_FOLDERS, SITE_GLOBS
from wheelfix.named_tuple import NamedTuple
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.system.paths import is_file, is_folder, is_there
from wheelfix.text import FEW, join_plain
from wheelfix.wheel.model import RecordRow
from wheelfix.wheel.record import hash_field, in_base64, parse_record

_WITH_SYSTEM = rb"(?mi)^include-system-site-packages *= *true *$"
_OWN_ABI = lazy_pattern(rb"(?m)^Tag: *cp3(\d+)-cp3\1(t?)-")
_OF_INSTALLERS = {"_virtualenv", "_distutils_hack"}
"""Their hooks change how distutils is imported, and nothing else."""


class Owner(NamedTuple):
    """A distribution whose RECORD lists a file."""

    distribution: str
    """`numpy 2.1.0`, from the name of the dist-info folder."""
    hash: str
    """As RECORD spells it; empty without one."""
    size: int | None = None
    """Bytes."""


def writers(path: str, owners: Sequence[Owner]) -> list[str] | None:
    """Return the distributions whose file is there, by their hashes; None if that is not known."""
    is_known = all(owner.hash.startswith("sha256=") for owner in owners)
    with suppress(OSError), open_regular(path) as file:
        there = hash_field("sha256", hashlib.file_digest(file, "sha256").digest())
        of = [owner.distribution for owner in owners if in_base64(owner.hash) == there]
        return of if of or is_known else None
    return None


@frozen
class File:
    """A file by its identity: a path may lead to another file a moment later."""

    path: str
    """The canonical path; of a `mapped` file as the kernel prints it, without ` (deleted)`."""
    device: int
    """`st_dev` of stat(2)."""
    inode: int
    mapped: bool
    """Whether it was seen in /proc/PID/maps. If not, its path was looked up."""
    deleted: bool = False
    """Whether the path had been removed, or replaced by another file, when it was seen."""

    @property
    def id(self) -> tuple[int, int]:
        """Device and inode."""
        return self.device, self.inode


def find_file(path: str) -> File | None:
    """Return the regular file at `path`, None if there is none."""
    try:
        there = os.stat(path)  # noqa: PTH116 - the path is text, as the loader spells it
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(there.st_mode):
        return None
    real = os.path.realpath(path)
    return File(path=real, device=there.st_dev, inode=there.st_ino, mapped=False)


def find_files(paths: Mapping[str, str]) -> dict[str, File]:
    """Return the regular files at `paths`, under the same keys; those not found are left out."""
    there = ((key, find_file(path)) for key, path in paths.items())
    return {key: file for key, file in there if file is not None}


def find_dist_info(site: Path, name: str) -> Path | None:
    """Return the folder `name` (`demo-1.0.dist-info`) in `site`, as the installer spelled it.

    None if there is none, or if `site` cannot be read.
    """
    wanted = canonicalize_name(name)
    with suppress(OSError):
        for entry in site.iterdir():
            if entry.name.endswith(".dist-info") and canonicalize_name(entry.name) == wanted:
                return entry
    return None


def site_folders_of(prefix: Path) -> Iterator[Path]:
    """Yield the folders of a prefix that hold distributions, such as site-packages."""
    return flatten(sorted(prefix.glob(pattern)) for pattern in SITE_GLOBS)


def data_folder(dist_info: Path) -> Path:
    """Return where the files of a distribution's data scheme are: its prefix.

    Of a folder that `pip --target` filled, it is that folder.
    """
    site = dist_info.parent
    return Path(os.path.normpath(site / "../../.." if site.name in SITE_FOLDERS else site))


def dist_info_folders(environment: Path, pattern: str = "*.dist-info") -> Iterator[Path]:
    """Yield the dist-info folders of a site-packages folder, or of the environment around some."""
    seen: set[str] = set()  # lib64 of a virtual environment is a link to lib
    for folder in (environment, *site_folders_of(environment)):
        for path in sorted(folder.glob(pattern)):
            real = os.path.realpath(path)
            if real not in seen:
                seen.add(real)
                yield path


def recorded_files(dist_info: Path) -> Iterator[str]:
    """Yield the normalised paths of the files in RECORD; none if it cannot be read."""
    return _paths(dist_info, _record(dist_info))


def owners_of_files(environment: Path) -> dict[str, tuple[Owner, ...]]:
    """Return the distributions whose RECORDs list each file of `environment`, by its path.

    Byte code and what is in dist-info folders are left out.
    """
    owners: dict[str, tuple[Owner, ...]] = {}
    for dist_info in dist_info_folders(Path(os.path.realpath(environment))):
        distribution = _distribution_of(dist_info)
        for path, row in _rows(dist_info, _record(dist_info)):
            if not path.endswith(".pyc") and ".dist-info/" not in row.name:
                owner, others = Owner(distribution, row.hash, row.size), owners.get(path, ())
                owners[path] = others if owner in others else (*others, owner)
    return owners


def top_levels(environment: Path) -> dict[str, str]:
    """Return the distributions without RECORD by the top-level names of their modules.

    Packages of Debian and of RPM have none, and what old installers made (egg-info). top_level.txt
    has the names; without it, the name of the distribution is taken for one.
    """
    root = Path(os.path.realpath(environment))
    folders = (root, *site_folders_of(root))
    tops: dict[str, str] = {}
    for path in flatten(sorted(folder.glob("*.*-info")) for folder in folders):
        if path.suffix in {".dist-info", ".egg-info"} and not is_there(path / "RECORD"):
            distribution, names = _distribution_of(path), b""
            with suppress(OSError):
                names = read_regular(path / "top_level.txt", MAX_TEXT)
            listed = os.fsdecode(names).split() or [distribution.partition(" ")[0]]
            tops |= dict.fromkeys(listed, distribution)
    return tops


def added_folders(environment: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield in words what Python finds beside what is read of an environment's distributions.

    Those are the folders that `.pth` files add, import hooks that they install (as editable
    installs do, PEP 660), the system's distributions (`include-system-site-packages`, PEP 405),
    links to what others can change, or to more than is followed, what this user may not read, and
    the folders of the user (PEP 370) and of PYTHONPATH in `environ`.
    """
    root = Path(os.path.realpath(environment))
    folders = (root, *site_folders_of(root))
    settings = b""
    with suppress(OSError):
        settings = read_regular(root / "pyvenv.cfg", MAX_TEXT)
    of_system = re.search(_WITH_SYSTEM, settings)
    if of_system:
        yield "the system's distributions (pyvenv.cfg)"
    if of_system or not settings:
        yield from _of_user(folders[1:], environ)
    for path in filter(is_folder, filter(None, environ.get("PYTHONPATH", "").split(":"))):
        if not f"{os.path.realpath(path)}/".startswith(f"{root}/"):
            yield f"{path} (PYTHONPATH)"
    yield from _added_by_files(root, folders)
    yield from _not_followed(folders)


def _added_by_files(root: Path, folders: Sequence[Path]) -> Iterator[str]:
    files = {os.path.realpath(file) for file in flatten(folder.glob("*.pth") for folder in folders)}
    for path in map(Path, sorted(files)):
        with suppress(OSError, ValueError):  # of a path with a NUL
            for line in os.fsdecode(read_regular(path, MAX_TEXT)).splitlines():
                added = os.path.realpath(path.parent / line)
                is_code = line.startswith(("import ", "import\t"))
                hook = _hook(path.parent, line) if is_code else None
                is_editable = is_code and "__editable__" in line
                if hook is not None or is_editable:
                    where = join_plain(_places_outside(root, hook or b""), FEW)
                    what = "an editable install" if is_editable else "what an import hook finds"
                    yield f"{what}{f' in {where}' * bool(where)} ({path.name})"
                is_inside = is_code or f"{added}/".startswith(f"{root}/")
                if line.strip() and not is_inside and is_folder(added):
                    yield f"{added} ({path.name})"


def _places_outside(root: Path, source: bytes) -> Sequence[str]:
    """Return the folders outside of `root` that a source names, or that have files which it names.

    So do the import hooks of editable installs of setuptools, scikit-build-core and meson-python.
    """
    named = {os.fsdecode(path) for path in re.findall(rb"""["'](/[^"'\n]+)["']""", source)}
    there = {
        path if is_folder(path) else str(Path(path).parent) for path in filter(is_there, named)
    }
    return sorted(path for path in there if not f"{path}/".startswith(f"{root}/"))


def _not_followed(folders: Sequence[Path]) -> Iterator[str]:
    tops = list(map(str, folders[1:] or folders))
    followed = LinksOut(*tops)
    if closed := closed_folders(tops, followed):
        yield f"{join_plain(closed, FEW)}, which you may not read"
    if followed.left < 0:
        yield "most of what links lead to, as it is too much"
    links = filter(Path.is_symlink, flatten(folder.glob("*") for folder in folders))
    for link in sorted({place.resolve() for place in links if is_folder(place)}):
        try:
            trusted_path(link)
        except OSError:
            yield f"{link}, as others can change it"


def _of_user(sites: Sequence[Path], environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the folder of the user's distributions for each Python with a folder of `sites`."""
    base = environ.get("PYTHONUSERBASE") or f"{environ.get('HOME', '')}/.local"
    names = () if environ.get("PYTHONNOUSERSITE") else {site.parent.name for site in sites}
    for folder in (f"{base}/lib/{name}/site-packages" for name in sorted(names)):
        if is_folder(folder) and os.path.realpath(folder) not in map(os.path.realpath, sites):
            yield f"{folder} (of the user)"


def _hook(folder: Path, line: str) -> bytes | None:
    """Return the source of what a line of a `.pth` file imports, if it finds modules for Python."""
    name = re.split(r"[\s;,.]+", line)[1]
    for path in (folder / f"{name}.py", folder / name / "__init__.py"):
        with suppress(OSError):
            source = read_regular(path, MAX_TEXT)
            is_one = re.search(rb"\b(meta_path|path_hooks)\b", source)
            return source if is_one and name not in _OF_INSTALLERS else None
    return None


def _distribution_of(dist_info: Path) -> str:
    """Return `numpy 2.1.0` for `numpy-2.1.0.dist-info`, or `numpy-2.1.0-py3.11.egg-info`."""
    return " ".join(dist_info.stem.split("-")[:2]).replace("_", "-")


def to_install(environment: Path, distribution: str) -> str:
    """Return what pip installs of a distribution: the URL it came from (PEP 610), or its version.

    It is empty for a local version, which may be several builds, for what was built from a URL, and
    for a file that is gone.
    """
    folders = dist_info_folders(environment)
    texts = (_record(d, "direct_url.json") for d in folders if _distribution_of(d) == distribution)
    if text := b"".join(texts):
        return _url_of_archive(text)
    is_version = "+" not in distribution and distribution[:1].isalnum()  # no option: `-rfoo 1.0`
    return distribution.replace(" ", "==") if is_version else ""


def _url_of_archive(text: bytes) -> str:
    with suppress(ValueError, RecursionError):
        match json.loads(text):
            case {"url": str(url), "archive_info": _}:
                is_known = url.startswith(("https://", "http://"))
                path = unquote(urlsplit(url).path) if url.startswith("file:///") else ""
                return url if is_known or is_file(path) else ""
            case _:
                pass
    return ""


def recorded_among(dist_info: Path, wanted: Collection[str]) -> list[str]:
    """Return those of the normalised paths `wanted` that RECORD lists."""
    data = _record(dist_info)
    # To parse a hundred RECORDs takes a second, and hardly any of them has one of the names.
    names = {os.fsencode(path.rpartition("/")[2].replace('"', '""')) for path in wanted}
    if not any(name in data for name in names):
        return []
    return [path for path in _paths(dist_info, data) if path in wanted]


def python_of_tags(environment: Path) -> str:
    """Return the Python that all distributions with CPython's own ABI are for, by WHEEL.

    `python3` if there are several, or none.
    """
    texts = (_record(dist_info, "WHEEL") for dist_info in dist_info_folders(environment))
    pythons = {b"python3.%s%s" % found for text in texts for found in _OWN_ABI.findall(text)}
    return min(pythons).decode() if len(pythons) == 1 else "python3"


def _record(dist_info: Path, name: str = "RECORD") -> bytes:
    with suppress(OSError):
        return read_regular(dist_info / name, MAX_TEXT)
    return b""


def _paths(dist_info: Path, record: bytes) -> Iterator[str]:
    return (path for path, _ in _rows(dist_info, record))


def _rows(dist_info: Path, record: bytes) -> Iterator[tuple[str, RecordRow]]:
    folder = str(dist_info.parent)
    rows, _ = parse_record(record, "RECORD")
    named = (row for row in rows if "\0" not in row.name)  # no file has such a name
    return ((os.path.normpath(f"{folder}/{row.name}"), row) for row in named)


def distributions(site: Path, wanted: Collection[str]) -> dict[str, str]:
    """Return which distribution in `site` each of the paths `wanted` belongs to, by RECORD.

    The paths are canonical; the value is `name version`, from the name of the dist-info folder.
    """
    owners: dict[str, str] = {}
    for dist_info in Path(os.path.realpath(site)).glob("*.dist-info"):
        owner = _distribution_of(dist_info)
        owners |= dict.fromkeys(recorded_among(dist_info, wanted), owner)
    return owners


def by_record(dist_info: Path, members: Sequence[str]) -> dict[str, File]:
    """Return the installed files of the `members` of a wheel; those not found are left out.

    A member of a `*.data` folder is found by the end of its row in RECORD.
    """
    named = grouped(sorted(recorded_files(dist_info)), os.path.basename)
    if not named:
        return {}
    return find_files(
        {m: _path(m, dist_info.parent, named.get(m.rpartition("/")[2], ())) for m in members}
    )


def _path(member: str, site: Path, rows: Sequence[str]) -> str:
    """Return the path of `member`; `rows` are the paths in RECORD with its file name."""
    top, _, rest = member.partition("/")
    if top.endswith(".data"):
        inner = rest.partition("/")[2]
        return next((path for path in rows if path.endswith(f"/{inner}")), "")
    return f"{site}/{member}"


_RUNS = lazy_pattern(rb"(?<![\w.])exec\(")


def runs_unread_code(path: str, name: str) -> bool:
    """Return whether the package of the file at `path`, `name` in its folder, runs what is unread.

    That is bytecode without its source, and texts.
    """
    for file in Path(path.removesuffix(name), name.partition("/")[0]).rglob("*.py*"):
        if file.suffix == ".pyc" and file.parent.name != "__pycache__":
            return True
        with suppress(OSError):
            if file.suffix == ".py" and _RUNS.search(read_regular(file, MAX_TEXT)):
                return True
    return False
