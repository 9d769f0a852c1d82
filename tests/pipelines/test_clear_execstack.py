"""`clear-execstack`: a wheel that glibc 2.41 refuses, and the one that it loads."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.support import build, repairing
from tests.support.naming import SUFFIX, TAG
from wheelfix.elf.reader import read_elf
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.settings import Patcher, Settings, StripLevel

ASSEMBLY = """
__asm__(".section .text.asm, \\"ax\\"\\n.globl quick\\nquick: mov $42, %eax\\nret\\n.text");
int inner(void); int quick(void); int inner(void) { return quick(); }
"""
NESTED = """
static int call(int (*function)(int), int x) { return function(x); }
int inner(void) { int k = 1; int g(int x) { return x + k; } return call(g, 41); }
"""
MODULE = f"demo/_core{SUFFIX}"
REFUSING = "import ctypes; assert not ctypes.CDLL(None).prctl(65, 1, 0, 0, 0); "
"""PR_SET_MDWE (Linux 6.3): no memory becomes executable, as for glibc 2.41."""


def wheel_of(folder: Path, source: str) -> Path:
    """Return a wheel that needs a library of this machine with an executable stack."""
    inner = build.shared_object(
        folder / "lib" / "libinner.so.1",
        source,
        soname="libinner.so.1",
        flags=["-Wl,-z,execstack", "-O0"],
    )
    module = build.extension(
        folder / "_core.so", "_core", needed=[inner], calls=["inner"], rpath=str(inner.parent)
    )
    return build.make_wheel(
        folder / "dist", tag=TAG, files={MODULE: module, "demo/__init__.py": ""}
    )


def repaired(wheel: Path, folder: Path, *globs: str, **settings: Any) -> Outcome:
    asked = Settings(wheel_dir=folder / "out", clear_execstack=globs, **settings)
    return repairing.repair(wheel, asked, os.environ)


@pytest.mark.each_run("auto")
@pytest.mark.parametrize("patcher", [Patcher.AUTO, Patcher.PATCHELF])
def test_the_wheel_loads_where_no_stack_becomes_executable(
    tmp_path: Path, patcher: Patcher
) -> None:
    wheel = wheel_of(tmp_path, ASSEMBLY)
    assert repaired(wheel, tmp_path).status is Status.REJECTED
    outcome = repaired(wheel, tmp_path, "libinner.so.1", verify=True, patcher=patcher)
    assert outcome.status is Status.REPAIRED, outcome.remaining
    assert outcome.output is not None
    with zipfile.ZipFile(outcome.output) as archive:
        archive.extractall(tmp_path / "site")
    code = REFUSING + "from demo import _core; print(_core.value())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path / "site",
        capture_output=True,
        text=True,
        check=False,
    )
    if "AssertionError" in done.stderr:
        pytest.skip("the kernel has no PR_SET_MDWE")
    assert done.stdout == "42\n", done.stderr
    again = repaired(outcome.output, tmp_path / "again", "libinner.so.1")
    assert again.status is Status.UNCHANGED


def test_nested_functions_keep_the_flag(tmp_path: Path) -> None:
    outcome = repaired(wheel_of(tmp_path, NESTED), tmp_path, "*")
    assert outcome.status is Status.REJECTED
    (found,) = (finding for finding in outcome.remaining if finding.code == "WF603")
    assert "trampolines" in found.notes[0]
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_other_objects_keep_the_flag(tmp_path: Path) -> None:
    outcome = repaired(wheel_of(tmp_path, ASSEMBLY), tmp_path, "libother*")
    assert outcome.status is Status.REJECTED


def test_the_flag_goes_with_a_strip(tmp_path: Path) -> None:
    outcome = repaired(wheel_of(tmp_path, ASSEMBLY), tmp_path, "*", strip=StripLevel.ALL)
    assert outcome.output is not None
    with zipfile.ZipFile(outcome.output) as archive:
        (name,) = (name for name in archive.namelist() if "libinner" in name)
        elf = read_elf(archive.read(name), name)
    assert not elf.symtab
