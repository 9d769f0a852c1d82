"""Files of a wheel: what each rule reports, and what pip and Python do."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.support.build import executable, make_wheel, shared_object
from tests.support.installers import PURE, found, install, pip
from tests.support.repairing import repair
from tests.support.values import elf, findings, wheel
from wheelfix.pipelines.repair_result import Status
from wheelfix.rules import files_as_installed
from wheelfix.rules.findings import Safety, Severity
from wheelfix.settings import Settings
from wheelfix.wheel.edits import RemoveMember
from wheelfix.wheel.model import RecordRow


def test_a_plain_wheel_has_nothing_to_report(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, tag=PURE, files={"demo/__init__.py": b""}, root_is_purelib=True)
    assert found(path) == {}


def test_elf_in_purelib() -> None:
    member = "demo-1.0.data/purelib/pkg/a.so"
    [finding] = findings(files_as_installed.elf_in_purelib, wheel({member: elf()}))
    assert finding.member == member
    assert not findings(
        files_as_installed.elf_in_purelib, wheel({"demo-1.0.data/platlib/a.so": elf()})
    )


def test_second_metadata_shows_up_as_a_distribution(tmp_path: Path) -> None:
    info, data = "other-3.dist-info", "demo-1.0.data"
    files = {
        f"{data}/purelib/{info}/METADATA": "Metadata-Version: 2.1\nName: other\nVersion: 3\n",
        "demo/_vendor/x-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: x\nVersion: 1\n",
    }
    path = make_wheel(tmp_path, tag=PURE, files=files)
    assert found(path)["WF512"].entry == info
    assert install(path, tmp_path / "target").returncode == 0
    listed = pip("list", "--path", tmp_path / "target").stdout.split()
    assert "other" in listed
    assert "x" not in listed


def test_a_script_of_a_pure_wheel_gets_its_run_bit(tmp_path: Path) -> None:
    member = "demo-1.0.data/scripts/run"
    files = {"demo/__init__.py": "", member: "#!/bin/sh\n"}
    path = make_wheel(tmp_path, tag=PURE, files=files, modes={member: 0o644})
    settings = Settings(wheel_dir=tmp_path / "out", allow_pure_python_wheel=True)
    outcome = repair(path, settings, os.environ)
    assert outcome.output is not None
    assert outcome.status is Status.REPAIRED
    with ZipFile(outcome.output) as fixed, ZipFile(path) as built:
        assert fixed.getinfo(member).external_attr >> 16 == 0o100755
        assert fixed.read("demo-1.0.dist-info/RECORD") == built.read("demo-1.0.dist-info/RECORD")
    again = replace(settings, wheel_dir=tmp_path / "2")
    assert repair(outcome.output, again, os.environ).status is Status.UNCHANGED


def test_pip_drops_the_run_bit_of_a_mode_without_a_file_type(tmp_path: Path) -> None:
    member = "demo-1.0.data/scripts/run"
    files = {"demo/__init__.py": "", member: "#!/bin/sh\n"}
    whole = make_wheel(tmp_path / "whole", tag=PURE, files=files)
    path = tmp_path / whole.name
    with ZipFile(whole) as old, ZipFile(path, "w") as new:
        for entry in old.infolist():
            content = old.read(entry)
            entry.external_attr = 0o755 << 16
            new.writestr(entry, content)
    assert install(path, tmp_path / "target").returncode == 0
    assert not (tmp_path / "target" / "bin" / "run").stat().st_mode & 0o111
    assert "S_IFREG" in found(path)["WF513"].message


def runs_after_repair(wheel: Path, place: Path, tmp_path: Path) -> None:
    fixed = repair(wheel, Settings(wheel_dir=tmp_path / "out"), os.environ).output
    assert fixed is not None
    place.unlink()
    assert install(fixed, tmp_path / "after").returncode == 0
    there = tmp_path / "after" / place.relative_to(tmp_path / "target420")
    assert subprocess.run([there], check=False).returncode == 0
    assert "WF513" not in found(fixed)


@pytest.mark.parametrize("severity", [Severity.WARNING, Severity.ERROR])
def test_a_program_without_run_bit_cannot_be_started(tmp_path: Path, severity: Severity) -> None:
    program = executable(tmp_path / "program")
    member = "demo/bin/run" if severity is Severity.WARNING else "demo-1.0.data/scripts/run"
    for mode in (0o644, 0o755):
        path = make_wheel(
            tmp_path, tag="py3-none-linux_x86_64", files={member: program}, modes={member: mode}
        )
        target = tmp_path / f"target{mode}"
        assert install(path, target).returncode == 0
        place = target / member.replace("demo-1.0.data/scripts", "bin")
        if mode == 0o644:
            assert (found(path)["WF513"].member, found(path)["WF513"].severity) == (
                member,
                severity,
            )
            with pytest.raises(PermissionError):
                subprocess.run([place], check=False)
            runs_after_repair(path, place, tmp_path)
        else:
            assert "WF513" not in found(path)
            assert subprocess.run([place], check=False).returncode == 0


def test_flattened_links_are_loaded_twice(tmp_path: Path) -> None:
    library = shared_object(
        tmp_path / "libx.so.1", "int n; int *f(void){return &n;}", soname="libx.so.1"
    )
    files = {f"demo/{name}": library for name in ("libx.so", "libx.so.1", "libx.so.1.2")}
    path = make_wheel(tmp_path, files=files)
    finding = found(path)["WF515"]
    assert finding.member == "demo/libx.so.1"
    assert finding.fix is not None
    assert finding.fix.safety is Safety.UNSAFE
    assert finding.fix.edits == tuple(
        RemoveMember(member=f"demo/{name}") for name in ("libx.so", "libx.so.1.2")
    )
    (tmp_path / "libx.so").write_bytes(library.read_bytes())
    code = "import ctypes,sys; a,b=map(ctypes.CDLL,sys.argv[1:]); print(a._handle==b._handle)"
    names = [tmp_path / "libx.so.1", tmp_path / "libx.so"]
    done = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, check=True)
    assert done.stdout == b"False\n"


def test_libraries_under_other_names_are_no_links() -> None:
    objects = {"pkg/libx.so": elf(), "pkg/liby.so": elf(), "sub/libx.so.1": elf()}
    record = tuple(RecordRow(name=name, hash="sha256=x", size=1) for name in objects)
    assert not findings(files_as_installed.flattened_links, wheel(objects, record=record))
