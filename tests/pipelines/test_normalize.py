"""`normalize`: wheels of builds with the same files are the same."""

import hashlib
import os
import random
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import build
from tests.support.installers import install
from tests.support.naming import TAG
from tests.support.repairing import repair
from wheelfix.pipelines.repair_result import Status
from wheelfix.settings import Settings

NORMAL = Settings(normalize=True)


def _other_build(wheel: Path, folder: Path, seed: int) -> Path:
    """Write the same files with other dates, modes, order, levels, and zip fields."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    folder.mkdir()
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(folder / wheel.name, "w") as new:
        entries = old.infolist()
        dice.shuffle(entries)
        for entry in entries:
            date = (dice.randint(1980, 2100), dice.randint(1, 12), 3, 4, 5, 6)
            fresh = zipfile.ZipInfo(entry.filename, date)
            fresh.compress_type = dice.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED))
            umask = dice.choice((0, 0o022, 0o077))
            fresh.external_attr = (entry.external_attr >> 16 & ~umask) << 16
            content = old.read(entry)
            if entry.filename.endswith("/RECORD"):
                lines = content.splitlines(keepends=True)
                dice.shuffle(lines)
                content = b"".join(lines)
            new.writestr(fresh, content, compresslevel=dice.randint(1, 9))
    return folder / wheel.name


def _hashes(wheels: Sequence[Path], out: Path, settings: Settings, **environ: str) -> set[str]:
    found: set[str] = set()
    for number, wheel in enumerate(wheels):
        options = replace(settings, wheel_dir=out / str(number))
        outcome = repair(wheel, options, {"PATH": os.defpath, **environ})
        assert outcome.output is not None, (outcome.error, outcome.remaining)
        found.add(hashlib.sha256(outcome.output.read_bytes()).hexdigest())
    return found


@pytest.fixture
def builds(tmp_path: Path) -> list[Path]:
    library = build.shared_object(tmp_path / "libin.so", soname="libin.so")
    x = build.extension(tmp_path / "x.so", "x", needed=[library], calls=["f"], runpath="$ORIGIN:/a")
    files: dict[str, bytes | str | Path] = {
        "demo/__init__.py": b"", "demo/x.so": x, "demo/libin.so": library, "demo/data": b"1" * 9999,
        "demo-1.0.data/scripts/run": b"#!python\n",
    }  # fmt: skip
    wheel = build.make_wheel(
        tmp_path, tag=TAG, files=files, modes={"demo-1.0.data/scripts/run": 0o755}
    )
    return [wheel, *(_other_build(wheel, tmp_path / str(seed), seed) for seed in range(4))]


def test_builds_that_differ_in_the_zip_only_give_one_wheel(
    builds: list[Path], tmp_path: Path
) -> None:
    assert len(_hashes(builds, tmp_path / "as-is", Settings())) == len(builds)
    assert len(_hashes(builds, tmp_path / "out", NORMAL)) == 1


def test_the_date_is_source_date_epoch(builds: list[Path], tmp_path: Path) -> None:
    assert len(_hashes(builds, tmp_path / "out", NORMAL, SOURCE_DATE_EPOCH="1700000000")) == 1
    (wheel,) = (tmp_path / "out/0").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        entries = archive.infolist()
    assert {entry.date_time[:3] for entry in entries} == {(2023, 11, 14)}
    assert [entry.filename for entry in entries][-1] == "demo-1.0.dist-info/RECORD"
    modes = {entry.filename: entry.external_attr >> 16 for entry in entries}
    assert modes.pop("demo-1.0.data/scripts/run") == 0o100755
    assert modes.pop("demo/x.so") & 0o111
    assert modes["demo/data"] == 0o100644


def test_a_second_run_changes_nothing_and_pip_installs_the_wheel(
    builds: list[Path], tmp_path: Path
) -> None:
    first = repair(
        builds[1], Settings(wheel_dir=tmp_path / "a", normalize=True), {"PATH": os.defpath}
    )
    assert first.output is not None
    again = repair(
        first.output, Settings(wheel_dir=tmp_path / "b", normalize=True), {"PATH": os.defpath}
    )
    assert again.status is Status.UNCHANGED
    assert again.output is not None
    assert again.output.read_bytes() == first.output.read_bytes()
    install(first.output, tmp_path / "site").check_returncode()
    loaded = "import demo.x; assert demo.x.value() == 1"
    subprocess.run([sys.executable, "-c", loaded], cwd=tmp_path / "site", check=True)


def test_a_wheel_is_normalized_into_another_folder_only_unless_it_is_normal(
    builds: list[Path], tmp_path: Path
) -> None:
    """A normalized wheel keeps its name, and an input is never replaced."""
    environ = {"PATH": os.defpath}
    wheel = repair(builds[0], Settings(wheel_dir=tmp_path / "wheelhouse"), environ).output
    assert wheel is not None
    before = wheel.read_bytes()
    refused = repair(wheel, replace(NORMAL, wheel_dir=wheel.parent), environ)
    assert refused.error is not None
    assert "the output would overwrite the input" in refused.error.message
    assert "-w repaired" in str(refused.error.hint)
    assert wheel.read_bytes() == before
    settings = replace(NORMAL, wheel_dir=tmp_path / "normal")
    normal = repair(wheel, settings, environ).output
    assert normal is not None
    inode = normal.stat().st_ino
    again = repair(normal, settings, environ)
    assert (again.status, again.output, again.edits) == (Status.UNCHANGED, normal, ())
    assert normal.stat().st_ino == inode
    assert list(normal.parent.iterdir()) == [normal]


def test_a_pure_wheel_is_normalized_too(tmp_path: Path) -> None:
    wheel = build.make_wheel(tmp_path, tag="py3-none-any", files={"a.py": b"", "b.py": b""})
    wheels = [wheel, _other_build(wheel, tmp_path / "other", 5)]
    found = _hashes(wheels, tmp_path / "out", replace(NORMAL, allow_pure_python_wheel=True))
    assert len(found) == 1
