"""The library of an interpreter is never grafted: modules find its symbols, programs keep it."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.build import Files, executable, extension, make_wheel, shared_object
from tests.support.environment import ENVIRON
from tests.support.naming import SUFFIX, TAG
from tests.support.repairing import repair
from wheelfix import check
from wheelfix.elf.reader import read_elf
from wheelfix.loader.python_api import is_libpython
from wheelfix.pipelines.repair_result import Status
from wheelfix.rules.findings import Finding, Severity
from wheelfix.settings import Settings

NAMES = (
    "libpython2.7.so.1.0",
    "libpython3.7m.so.1.0",
    "libpython3.7dm.so.1.0",
    "libpython3.11.so",
    "libpython3.11.so.1",
    "libpython3.11.so.1.0",
    "libpython3.11d.so.1.0",
    "libpython3.14t.so.1.0",
    "libpython3.14td.so.1.0",
    "libpython3.so",
    "libpython3t.so",
    "libpypy-c.so",
    "libpypy3-c.so",
    "libpypy3.11-c.so",
)


@pytest.mark.parametrize("name", NAMES)
def test_the_libraries_of_interpreters_are_known(name: str) -> None:
    assert is_libpython(name)


@pytest.mark.parametrize(
    "name", ["libpythonqt.so.3", "libboost_python311.so.1.74.0", "libpypylon.so", "libpython.so"]
)
def test_a_library_of_another_name_is_none(name: str) -> None:
    assert not is_libpython(name)


def needed(wheel: Path, member: str) -> tuple[str, ...]:
    with zipfile.ZipFile(wheel) as archive:
        return read_elf(archive.read(member), member).needed


def about_python(path: Path) -> list[Finding]:
    return [finding for finding in check(path, Settings()).findings if finding.code == "WF205"]


@pytest.mark.each_run("libpython3.14t.so.1.0", "libpypy3.11-c.so")
@pytest.mark.parametrize("name", NAMES)
def test_it_is_never_grafted_and_modules_do_not_need_it(name: str, tmp_path: Path) -> None:
    """Also what a module loads, and a graft, need it no more."""
    python = shared_object(tmp_path / "sdk" / name, "int p(void) { return 1; }", soname=name)
    sdk = str(python.parent)
    outer = shared_object(
        tmp_path / "sdk/libouter.so.1",
        "int o(void) { return 42; }",
        soname="libouter.so.1",
        needed=[python],
        rpath=sdk,
    )
    inner = shared_object(
        tmp_path / "libinner.so", "int i(void) { return 0; }", soname="libinner.so", needed=[python]
    )
    module = extension(
        tmp_path / "_m",
        "_m",
        needed=[python, outer, inner],
        calls=["o", "i"],
        rpath=f"$ORIGIN:{sdk}",
    )
    member = f"demo/_m{SUFFIX}"
    files: Files = {"demo/__init__.py": "", member: module, "demo/libinner.so": inner}
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    planned = {finding.member for finding in about_python(wheel)}
    assert planned == {member, "demo/libinner.so"}
    outcome = repair(wheel, Settings(wheel_dir=tmp_path / "out"), ENVIRON)
    assert outcome.output is not None, (outcome.error, outcome.remaining)
    assert [library.original for library in outcome.grafted] == ["libouter.so.1"]
    with zipfile.ZipFile(outcome.output) as archive:
        objects = [name for name in archive.namelist() if ".so" in name]
        archive.extractall(tmp_path / "site")
    assert len(objects) == 3
    assert not any(is_libpython(n) for one in objects for n in needed(outcome.output, one))
    assert not about_python(outcome.output)
    (tmp_path / "sdk").rename(tmp_path / "away")
    code = "import demo._m; print(demo._m.value())"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=tmp_path / "site", capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "42", done.stderr


@pytest.mark.each_run("libpython3.11.so.1.0-scripts", "libpypy3.11-c.so-package")
@pytest.mark.parametrize("place", ["scripts", "data", "package"])
@pytest.mark.parametrize("name", ["libpython3.11.so.1.0", "libpython3.14td.so.1.0", NAMES[-1]])
def test_a_program_that_embeds_python_keeps_it_with_a_finding(
    name: str, place: str, tmp_path: Path
) -> None:
    """The library that only the program loads keeps it, too: nothing else defines its symbols."""
    python = shared_object(
        tmp_path / "sdk" / name, "int Py_IsInitialized(void) { return 7; }", soname=name
    )
    sdk = str(python.parent)
    through = shared_object(
        tmp_path / "libthrough.so",
        "int Py_IsInitialized(void); int t(void) { return Py_IsInitialized(); }",
        soname="libthrough.so",
        needed=[python],
    )
    program = executable(
        tmp_path / "tool",
        "int Py_IsInitialized(void); int t(void);"
        "int main(void) { return Py_IsInitialized() - t(); }",
        needed=[python, through],
        rpath=sdk,
    )
    tool = {
        "scripts": "demo-1.0.data/scripts/tool",
        "data": "demo-1.0.data/data/bin/tool",
        "package": "demo/tool",
    }[place]
    files: Files = {"demo/__init__.py": "", tool: program, "demo/libthrough.so": through}
    wheel = make_wheel(tmp_path / "dist", tag="py3-none-linux_x86_64", files=files)
    outcome = repair(wheel, Settings(wheel_dir=tmp_path / "out"), ENVIRON)
    assert outcome.output is not None, (outcome.error, outcome.remaining)
    assert outcome.grafted == ()
    assert name in needed(outcome.output, tool)
    assert name in needed(outcome.output, "demo/libthrough.so")
    left = about_python(outcome.output)
    assert {(f.entry, f.severity) for f in left} == {(name, Severity.WARNING)}
    assert tool in {finding.member for finding in left}
    assert [f.entry for f in about_python(wheel)] == [name, name], "the same, beforehand"
    with zipfile.ZipFile(outcome.output) as archive:
        archive.extractall(tmp_path / "site")
    (tmp_path / "site" / tool).chmod(0o755)
    if place == "package":
        command = [str(tmp_path / "site" / tool)]
        assert subprocess.run(command, env={"LD_LIBRARY_PATH": sdk}, check=False).returncode == 0


def test_a_program_that_finds_it_in_the_wheel_is_not_reported(tmp_path: Path) -> None:
    python = shared_object(tmp_path / NAMES[5], "int p(void) { return 0; }", soname=NAMES[5])
    program = executable(
        tmp_path / "tool", "int p(void); int main(void) { return p(); }", needed=[python],
        rpath="$ORIGIN",
    )  # fmt: skip
    files: Files = {"demo/__init__.py": "", "demo/tool": program, f"demo/{NAMES[5]}": python}
    wheel = make_wheel(tmp_path / "dist", tag="py3-none-linux_x86_64", files=files)
    outcome = repair(wheel, Settings(wheel_dir=tmp_path / "out"), ENVIRON)
    assert outcome.status is Status.REPAIRED, (outcome.error, outcome.remaining)
    assert outcome.output is not None
    assert NAMES[5] in needed(outcome.output, "demo/tool")
    assert not about_python(outcome.output)
