"""Several wheels in one run."""

import os
import sys
from pathlib import Path

import wheelfix
from tests.support.build import extension, make_wheel
from tests.support.environment import ENVIRON
from wheelfix.settings import Settings

PYTHON = f"cp3{sys.version_info.minor}"
TAG = f"{PYTHON}-{PYTHON}-linux_{os.uname().machine}"


def a_wheel(folder: Path) -> Path:
    module = extension(folder / "build" / "_m.so", "_m")
    files: dict[str, bytes | str | Path] = {"pkg/__init__.py": b"", "pkg/_m.so": module}
    return make_wheel(folder / "dist", "pkg", "1.0", TAG, files)


def test_no_wheel_of_the_run_is_replaced_by_the_output_of_another(tmp_path: Path) -> None:
    linux = a_wheel(tmp_path)
    alone = wheelfix.repair(linux, Settings(wheel_dir=tmp_path / "out"), environ=ENVIRON)
    assert alone.output is not None
    other = linux.with_name(alone.output.name)
    other.write_bytes(linux.read_bytes())
    before = other.read_bytes()
    outcomes = wheelfix.repair_all(
        [linux, other], Settings(wheel_dir=tmp_path / "dist"), environ=ENVIRON
    )
    assert other.read_bytes() == before
    assert outcomes[0].output is None
    assert "is an input of this run" in str(outcomes[0].error)
