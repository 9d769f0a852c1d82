"""pyelftools, LIEF and wheel read what wheelfix reads and writes."""

import io
import zipfile
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from elftools.elf.elffile import ELFFile

from tests.support.example_wheels import example_wheels
from wheelfix.cli.app import run
from wheelfix.elf.reader import read_elf


class Dynamic(NamedTuple):
    """What the dynamic section of an object says."""

    needed: tuple[str, ...]
    soname: str | None
    rpath: str | None
    runpath: str | None


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A wheel as built and repaired, and the one with a library in `*.data`, both ways, too."""
    folder = tmp_path_factory.mktemp("second")
    example_wheels(folder)
    built = [*folder.glob("dist/demo-*.whl"), *folder.glob("dist/data/*.whl")]
    for option in ([], ["--strip"]):
        out = folder / f"out{len(option)}"
        assert run(["repair", "-q", "-w", str(out), *option, *map(str, built)]) == 0
    return [*built, *folder.glob("out*/*.whl")]


def objects(wheels: list[Path]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        found |= {f"{wheel}!{n}": data for n, data in members.items() if data[:4] == b"\x7fELF"}
    assert len(found) > 10
    return found


def own(data: bytes) -> Dynamic:
    elf = read_elf(data, "object")
    return Dynamic(tuple(elf.needed), elf.soname, elf.rpath, elf.runpath)


def by_pyelftools(data: bytes) -> Dynamic:
    tags: list[Any] = []
    for segment in ELFFile(io.BytesIO(data)).iter_segments("PT_DYNAMIC"):
        tags += cast("Any", segment).iter_tags()

    def texts(kind: str) -> list[str]:
        return [getattr(tag, kind) for tag in tags if tag.entry.d_tag == f"DT_{kind.upper()}"]

    return Dynamic(
        tuple(texts("needed")),
        *(next(iter(texts(kind)), None) for kind in ("soname", "rpath", "runpath")),
    )


def by_lief(data: bytes) -> Dynamic:
    lief: Any = pytest.importorskip("lief", reason="LIEF is not installed")
    binary = lief.parse(data)
    found = {str(entry.tag).rpartition(".")[2]: entry for entry in binary.dynamic_entries}

    def text(tag: str, attribute: str) -> str | None:
        return getattr(found[tag], attribute) if tag in found else None

    return Dynamic(
        tuple(binary.libraries),
        text("SONAME", "name"),
        text("RPATH", "rpath"),
        text("RUNPATH", "runpath"),
    )


@pytest.mark.parametrize("judge", [by_pyelftools, by_lief])
def test_the_dynamic_section_is_read_alike_before_and_after_a_repair(
    judge: Any, wheels: list[Path]
) -> None:
    for name, data in objects(wheels).items():
        assert own(data) == judge(data), name


def test_wheel_reads_every_member_by_record(wheels: list[Path]) -> None:
    wheelfile: Any = pytest.importorskip("wheel.wheelfile", reason="wheel is not installed")
    for wheel in wheels:
        with wheelfile.WheelFile(wheel) as archive:
            for name in archive.namelist():
                archive.read(name)  # raises WheelError if the hash is not RECORD's
