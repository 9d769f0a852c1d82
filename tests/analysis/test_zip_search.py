"""The libraries that auditwheel finds in the zip: held against its own function."""

import random
from collections.abc import Mapping
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from tests.support.values import elf, wheel
from wheelfix.analysis.zip_search import ZipSearch
from wheelfix.budget import Budget
from wheelfix.elf.constants import Dt
from wheelfix.elf.model import Elf
from wheelfix.elf.stub_for_auditwheel import build_stub

FOLDERS = ("", "demo", "demo/sub", "demo.libs", "demo-1.0.data/scripts", "demo-1.0.data/data/lib")
ldd: Any = import_module("auditwheel.lddtree").ldd
NAMES = (*(f"lib{letter}.so" for letter in "abcde"), "libpython3.11.so.1.0")
ENTRIES = (
    "$ORIGIN",
    "$ORIGIN/",
    "${ORIGIN}/../demo.libs",
    "$ORIGIN/../demo.libs",
    "$ORIGIN/../../demo.libs",
    "$ORIGIN/../../../demo.libs",
    "$ORIGIN/sub",
    "$ORIGIN/none",
    "$ORIGIN/../demo/./sub//",
    "$ORIGIN/../..",
    "",
    "/$ORIGIN",
    "./$ORIGIN",
    "/usr/..$ORIGIN/sub",
    "$ORIGIN/$ORIGIN",
    "demo.libs",
    "/nowhere/at/all",
)


def drawn(dice: random.Random) -> dict[str, Elf]:
    """Draw objects with a few DT_NEEDED entries and search paths."""
    members = {
        f"{folder}/{name}".lstrip("/")
        for folder, name in (
            (dice.choice(FOLDERS), dice.choice(NAMES)) for _ in range(dice.randint(2, 9))
        )
    }
    return {
        member: elf(
            *dice.sample((*NAMES, "sub/liba.so", "/liba.so"), dice.randint(0, 3)),
            **{
                tag: ":".join(dice.sample(ENTRIES, dice.randint(1, 3)))
                for tag in dice.choice([(), ("rpath",), ("runpath",), ("rpath", "runpath")])
            },
        )
        for member in sorted(members)
    }


def unpack(objects: Mapping[str, Elf], root: Path) -> None:
    """Write the objects as files, with as much in them as auditwheel reads."""
    for member, value in objects.items():
        place = root / member
        place.parent.mkdir(parents=True, exist_ok=True)
        entries = value.needed if value.runpath is None else (*value.needed, value.runpath)
        stub = build_stub(value, needed=entries, search_path=value.rpath)
        place.write_bytes(stub if value.runpath is None else with_runpath(stub))


def with_runpath(stub: bytes) -> bytes:
    """Make DT_RUNPATH of the last DT_NEEDED entry of a stub."""
    (dynamic,) = (s for s in ELFFile(BytesIO(stub)).iter_segments() if s["p_type"] == "PT_DYNAMIC")
    place = dynamic["p_offset"]
    while int.from_bytes(stub[place + 16 : place + 24], "little") == Dt.NEEDED:
        place += 16
    return stub[:place] + Dt.RUNPATH.to_bytes(8, "little") + stub[place + 8 :]


@pytest.mark.parametrize("seed", range(150))
def test_the_libraries_found_are_those_that_auditwheel_finds(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = drawn(random.Random(seed))  # noqa: S311 - a seeded test
    unpack(objects, tmp_path)
    monkeypatch.chdir(tmp_path)  # as auditwheel's InWheel does
    search = ZipSearch(wheel(objects), Budget.of_files())
    for member in objects:
        tree = ldd(tmp_path / member, ldpaths={"conf": [], "env": [], "interp": []})
        theirs = {
            name: library.realpath and str(library.realpath.relative_to(tmp_path.resolve()))
            for name, library in tree.libraries.items()
        }
        assert search.tree(member) == theirs, (member, objects)
