"""Installed files of a wheel: found by RECORD, identified by device and inode."""

import csv
import os
import stat
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name


@dataclass(frozen=True, slots=True, kw_only=True)
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


def distributions(site: Path, wanted: Collection[str]) -> dict[str, str]:
    """Return which distribution in `site` each of the paths `wanted` belongs to, by RECORD.

    The paths are canonical; the value is `name version`, from the name of the dist-info folder.
    """
    found: dict[str, str] = {}
    names = {path.rpartition("/")[2] for path in wanted}
    base = os.path.realpath(site)
    for record in sorted(site.glob("*.dist-info/RECORD")):
        with suppress(OSError, UnicodeDecodeError):
            text = record.read_text(encoding="utf-8")
            if not any(name in text for name in names):
                continue
            rows = (row[0] for row in csv.reader(text.splitlines()) if row)
            owner = record.parent.name.removesuffix(".dist-info").replace("-", " ")
            paths = (os.path.normpath(f"{base}/{row}") for row in rows)
            found |= {path: owner for path in paths if path in wanted}
    return found


def by_record(dist_info: Path, members: Sequence[str]) -> dict[str, File]:
    """Return the installed files of the `members` of a wheel; those not found are left out.

    A member of a `*.data` folder is found by the end of its row in RECORD.
    """
    try:
        text = (dist_info / "RECORD").read_text(encoding="utf-8")
    except OSError:
        return {}
    site = dist_info.parent
    rows = {os.path.normpath(site / row[0]) for row in csv.reader(text.splitlines()) if row}
    named: dict[str, list[str]] = {}
    for path in sorted(rows):
        named.setdefault(path.rpartition("/")[2], []).append(path)
    found: dict[str, File] = {}
    for member in members:
        file = find_file(_installed_path(member, site, named.get(member.rpartition("/")[2], ())))
        if file is not None:
            found[member] = file
    return found


def _installed_path(member: str, site: Path, rows: Sequence[str]) -> str:
    """Return the path of `member`; `rows` are the paths in RECORD with its file name."""
    top, _, rest = member.partition("/")
    if top.endswith(".data"):
        inner = rest.partition("/")[2]
        return next((path for path in rows if path.endswith(f"/{inner}")), "")
    return f"{site}/{member}"
