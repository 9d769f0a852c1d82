"""Members that are compressed as BZIP2 or LZMA: pip reads them, uv does not; a repair deflates."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from hashlib import shake_128
from pathlib import Path

import pytest

from tests.support.build import extension, make_wheel, shared_object
from tests.support.environment import ENVIRON
from tests.support.installers import install, uv_install
from tests.support.naming import SUFFIX, TAG
from tests.support.repairing import repair
from wheelfix import check
from wheelfix.errors import BadWheelError
from wheelfix.pipelines.repair_result import Status
from wheelfix.settings import Settings
from wheelfix.wheel.zip_reader import ZipReader

BZIP2, LZMA = zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA
METHODS = pytest.mark.parametrize("method", [BZIP2, LZMA], ids=["bzip2", "lzma"])
MEMBER = f"demo/_m{SUFFIX}"


def packed(wheel: Path, method: int, *, only: str = "") -> Path:
    """Return `wheel` with the members whose names hold `only` compressed by `method`."""
    other = wheel.parent / "packed" / wheel.name
    other.parent.mkdir()
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(other, "w") as new:
        for info in old.infolist():
            data = old.read(info)
            info.compress_type = method if only in info.filename else zipfile.ZIP_DEFLATED
            new.writestr(info, data)
    return other


def noise(size: int) -> bytes:
    return shake_128(b"noise").digest(size)


def methods(wheel: Path) -> set[int]:
    with zipfile.ZipFile(wheel) as archive:
        return {info.compress_type for info in archive.infolist()}


def contents(wheel: Path) -> Mapping[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.each_run("-*", ".so-*", "RECORD-*")
@METHODS
@pytest.mark.parametrize("only", ["", ".so", "RECORD", "METADATA", "WHEEL", "__init__"])
def test_a_repair_grafts_and_writes_what_each_installer_reads(
    method: int, only: str, tmp_path: Path
) -> None:
    library = shared_object(tmp_path / "libe.so.1", "int e(void){return 5;}", soname="libe.so.1")
    module = extension(tmp_path / "_m", "_m", needed=[library], calls=["e"], rpath=str(tmp_path))
    files: Mapping[str, str | Path] = {"demo/__init__.py": "x = 1\n" * 9, MEMBER: module}
    wheel = packed(make_wheel(tmp_path / "dist", tag=TAG, files=files), method, only=only)
    outcome = repair(wheel, Settings(wheel_dir=tmp_path / "out"), ENVIRON)
    assert outcome.output is not None, (outcome.error, outcome.remaining)
    assert methods(outcome.output) == {zipfile.ZIP_DEFLATED}
    assert contents(outcome.output)["demo/__init__.py"] == b"x = 1\n" * 9
    library.unlink()
    assert install(outcome.output, tmp_path / "pip").returncode == 0
    done = uv_install(outcome.output, tmp_path / "uv")
    assert done.returncode == 0, done.stderr
    for site in ("pip", "uv"):
        code = "import demo._m; print(demo._m.value())"
        command = [sys.executable, "-c", code]
        said = subprocess.run(
            command, cwd=tmp_path / site, capture_output=True, text=True, check=False
        )
        assert said.stdout == "5\n", said.stderr


@METHODS
@pytest.mark.parametrize("only", ["", "RECORD", "__init__"])
def test_a_wheel_with_nothing_else_wrong_is_reported_and_deflated(
    method: int, only: str, tmp_path: Path
) -> None:
    plain = make_wheel(tmp_path / "dist", tag="py3-none-any", files={"demo/__init__.py": "x = 1"})
    wheel = packed(plain, method, only=only)
    assert uv_install(wheel, tmp_path / "uv").returncode != 0
    (finding,) = (one for one in check(wheel, Settings()).findings if one.code == "WF520")
    assert "BZIP2 or LZMA" in finding.message
    settings = Settings(wheel_dir=tmp_path / "out", allow_pure_python_wheel=True)
    outcome = repair(wheel, settings, ENVIRON)
    assert outcome.output is not None, (outcome.error, outcome.remaining)
    assert contents(outcome.output) == contents(plain)
    assert methods(outcome.output) == {zipfile.ZIP_DEFLATED}
    again = Settings(wheel_dir=tmp_path / "again", allow_pure_python_wheel=True)
    assert repair(outcome.output, again, ENVIRON).status is Status.UNCHANGED


@METHODS
@pytest.mark.each_run("*-0-*", "*-1048576-*", "*-1048577-*")
@pytest.mark.parametrize("size", [0, 1, 2**16, 2**20, 2**20 + 1, 3 * 2**20 + 7])
@pytest.mark.parametrize("kind", ["noise", "text"])
def test_members_are_read_as_zipfile_reads_them(
    method: int, size: int, kind: str, tmp_path: Path
) -> None:
    data = noise(size) if kind == "noise" else (noise(20_011) * (size // 20_011 + 1))[:size]
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("demo/data", data)
    with ZipReader(os.open(path, os.O_RDONLY)) as reader:
        assert reader.read("demo/data") == data


@METHODS
def test_damaged_members_are_refused(method: int, tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("demo/data", noise(500) * 20)
    whole = path.read_bytes()
    start, end = whole.index(b"demo/data") + 9, whole.index(b"PK\1\2")
    refused = 0
    for at in range(start, end, 7):
        damaged = bytearray(whole)
        damaged[at] ^= 0x55
        path.write_bytes(damaged)
        try:
            with ZipReader(os.open(path, os.O_RDONLY)) as reader:
                assert reader.read("demo/data") == noise(500) * 20, "a bit that says nothing"
        except BadWheelError:
            refused += 1
    assert refused > len(range(start, end, 7)) * 0.9


@METHODS
def test_bombs_are_refused(method: int, tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("demo/data", bytes(2**26))
    with pytest.raises(BadWheelError, match="cannot hold"):
        ZipReader(os.open(path, os.O_RDONLY))
