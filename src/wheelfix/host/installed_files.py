"""Files of a wheel once installed: by identity, by RECORD, and what they say."""

import csv
import mmap
import os
import stat
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from wheelfix.elf.model import Elf
from wheelfix.elf.reader import read_elf
from wheelfix.errors import BadElfError
from wheelfix.host.trace_model import File


def read_file(path: str | Path) -> Elf | None:
    """Read the ELF object at `path`; None if there is none that can be read."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - the path is text
            if file.read(4) != b"\x7fELF":
                return None
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return read_elf(data, os.fspath(path))
    except (OSError, ValueError, BadElfError):
        return None


def find_file(path: str) -> File | None:
    """Return the regular file that `path` leads to now."""
    try:
        there = os.stat(path)  # noqa: PTH116 - the path is text, as the loader spells it
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(there.st_mode):
        return None
    real = os.path.realpath(path)
    return File(path=real, device=there.st_dev, inode=there.st_ino, mapped=False)


def find_dist_info(site: Path, name: str) -> Path | None:
    """Return the folder `name` (`demo-1.0.dist-info`) in `site`, as the installer spelled it."""
    wanted = _normal(name)
    with suppress(OSError):
        for entry in site.iterdir():
            if entry.name.endswith(".dist-info") and _normal(entry.name) == wanted:
                return entry
    return None


def distributions(site: Path, wanted: Collection[str]) -> dict[str, str]:
    """Return for the paths `wanted` that a RECORD in `site` lists the name and version it is of.

    The paths are canonical. `METADATA` is not read: the folder is called `name-version.dist-info`.
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


def _normal(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")


def by_record(dist_info: Path, members: Sequence[str]) -> dict[str, File]:
    """Return where the `members` of a wheel are installed; those that are lost are left out.

    Members of `*.data` folders are known by the end of their rows in RECORD.
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
        file = find_file(_place(member, site, named.get(member.rpartition("/")[2], ())))
        if file is not None:
            found[member] = file
    return found


def _place(member: str, site: Path, rows: Sequence[str]) -> str:
    """Return the path of `member`, of whose name there are `rows` in RECORD."""
    top, _, rest = member.partition("/")
    if top.endswith(".data"):
        inner = rest.partition("/")[2]
        return next((path for path in rows if path.endswith(f"/{inner}")), "")
    return f"{site}/{member}"
