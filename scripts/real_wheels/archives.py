"""Wheels as zip files: what a repair may change in them, and what not."""

import hashlib
import itertools
import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from real_wheels.programs import ProgramError, run


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One member of a zip, in the form in which it is stored."""

    raw: str
    """SHA-256 of the compressed bytes."""
    method: int
    crc: int
    date: tuple[int, ...]
    attributes: int
    """`external_attr`: the mode in the upper half."""


def entries(wheel: Path) -> dict[str, Entry]:
    """Read the members as stored, in their order. Directory entries are no members."""
    found: dict[str, Entry] = {}
    with zipfile.ZipFile(wheel) as archive, wheel.open("rb") as file:
        for info in archive.infolist():
            if not info.is_dir():
                found[info.filename] = Entry(
                    raw=raw_digest(file, info),
                    method=info.compress_type,
                    crc=info.CRC,
                    date=info.date_time,
                    attributes=info.external_attr,
                )
    return found


def raw_digest(file: IO[bytes], info: zipfile.ZipInfo) -> str:
    """Hash the compressed bytes behind the local header (APPNOTE 4.3.7: 30 bytes, name, extra)."""
    file.seek(info.header_offset + 26)
    name_and_extra = file.read(4)
    file.seek(sum(memoryview(name_and_extra).cast("H")), os.SEEK_CUR)
    return hashlib.sha256(file.read(info.compress_size)).hexdigest()


def digest(path: Path) -> str:
    """SHA-256 of a whole file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def platform_tag(wheel: Path) -> str:
    """Return the last field of the file name."""
    return wheel.stem.rpartition("-")[2]


def grafted(wheel: Path) -> frozenset[str]:
    """Names, without auditwheel's hashes, of the files in `*.libs` folders at the root."""
    with zipfile.ZipFile(wheel) as archive:
        parts = [name.split("/") for name in archive.namelist()]
    return frozenset(unhashed(p[-1]) for p in parts if p[0].endswith(".libs") and p[-1])


def unhashed(name: str) -> str:
    """Take away the eight digits that auditwheel puts into the names of grafted libraries."""
    return re.sub(r"-[0-9a-f]{8}(?=\.)", "", name)


def difference(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> set[str]:
    """Names of the members that are new, gone, or not the same to the last byte."""
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def zip_problems(original: Path, repaired: Path, plan: str) -> tuple[list[str], set[str]]:
    """Compare two wheels; return what is wrong and the members that changed.

    A member may change if `plan` has a line of its own for it (a warning that mentions it is no
    leave to change it); RECORD may if anything else does.
    """
    planned = {line.strip() for line in plan.splitlines()}
    before, after = entries(original), entries(repaired)
    changed = difference(before, after)
    record = {name for name in changed if name.endswith(".dist-info/RECORD")}
    problems = [f"{name} changed, and the plan does not name it"
                for name in sorted(changed - record) if name not in planned]  # fmt: skip
    if record and changed == record:
        problems.append("RECORD changed, and nothing else")
    kept = [name for name in before if name in after]
    if kept != [name for name in after if name in before]:
        problems.append("the order of the members changed")
    problems += [
        f"{name} has another mode"
        for name in sorted(changed & before.keys() & after.keys())
        if before[name].attributes >> 16 != after[name].attributes >> 16
    ]
    return problems, changed


def record_problems(wheel: Path, tools: Path) -> list[str]:
    """Let `installer` compare every file with RECORD."""
    code = (
        "import sys; from installer.sources import WheelFile\n"
        "from pathlib import Path\n"
        "with WheelFile.open(Path(sys.argv[1])) as wheel: wheel.validate_record()"
    )
    try:
        run(tools, "-c", code, wheel)
    except ProgramError as error:
        return [f"RECORD: {error}"]
    return []


def name_problems(original: Path, repaired: Path) -> list[str]:
    """Complain of another file name: a published wheel has its tags already."""
    return [] if original.name == repaired.name else [f"it is called {repaired.name} now"]


def removed_members(plan: str) -> set[str]:
    """Return the members that `plan` takes out of the wheel."""
    lines = plan.splitlines()
    return {
        member.strip()
        for member, change in itertools.pairwise(lines)
        if change.strip().startswith("present -> removed")
    }


def megabytes(path: Path) -> str:
    """Format the size of a file in MB of 10^6 bytes."""
    return f"{path.stat().st_size / 1e6:.2f}"
