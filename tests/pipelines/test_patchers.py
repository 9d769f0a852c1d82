"""`--patcher`: patchelf, lief-patchelf, and none."""

import os
import shutil
import zipfile
from pathlib import Path

import pytest

from tests.support.build import make_wheel, shared_object
from tests.support.repairing import repair
from wheelfix.errors import ToolError
from wheelfix.pipelines.patchelf import find_patchelf
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.settings import Patcher, Settings, StripLevel

MACHINE = os.uname().machine
LINUX = f"py3-none-linux_{MACHINE}"
MEMBER = "demo/libx.so"


def repaired(wheel: Path, patcher: Patcher, **settings: object) -> Outcome:
    out = wheel.parent / f"out-{patcher}"
    chosen = Settings(wheel_dir=out, patcher=patcher, **settings)  # type: ignore[arg-type]
    return repair(wheel, chosen, {"PATH": os.environ["PATH"]})


def content(wheel: Path | None, member: str = MEMBER) -> bytes:
    assert wheel is not None
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(member)


def test_none_writes_a_wheel_whose_objects_need_no_edit(tmp_path: Path) -> None:
    library = shared_object(tmp_path / "libx.so", "int x;")
    wheel = make_wheel(tmp_path, tag=LINUX, files={MEMBER: library})
    done = repaired(wheel, Patcher.NONE)
    assert (done.status, done.error) == (Status.REPAIRED, None)
    assert done.output is not None
    assert "manylinux" in done.output.name
    assert content(done.output) == library.read_bytes()


def test_none_leaves_out_edits_that_are_not_needed(tmp_path: Path) -> None:
    unused = shared_object(tmp_path / "libunused.so", "int u;", soname="libm.so.6")
    library = shared_object(
        tmp_path / "libx.so",
        "int x;",
        needed=[unused],
        rpath="/nowhere",
        flags=["-Wl,--no-as-needed"],
    )
    wheel = make_wheel(tmp_path, tag=LINUX, files={MEMBER: library})
    done = repaired(wheel, Patcher.NONE)
    assert done.status is Status.REPAIRED
    assert content(done.output) == library.read_bytes()
    assert "absolute-entry" in {finding.name for finding in done.remaining}
    assert content(repaired(wheel, Patcher.PATCHELF).output) != library.read_bytes()


def test_none_strips_as_auditwheel_does(tmp_path: Path) -> None:
    library = shared_object(tmp_path / "libx.so", "int x;")
    wheel = make_wheel(tmp_path, tag=LINUX, files={MEMBER: library})
    done = repaired(wheel, Patcher.NONE, strip=StripLevel.ALL)
    assert done.status is Status.REPAIRED
    assert len(content(done.output)) < library.stat().st_size


@pytest.mark.parametrize("is_grafted", [True, False])
def test_none_refuses_a_wheel_that_needs_an_edit(tmp_path: Path, is_grafted: object) -> None:
    other = shared_object(tmp_path / "lib/libother.so", "int other(void) { return 1; }")
    library = shared_object(
        tmp_path / "libx.so",
        "int other(void); int x(void) { return other(); }",
        needed=[other],
        rpath=str(other.parent) if is_grafted else None,
    )
    files = {MEMBER: library} if is_grafted else {MEMBER: library, "demo/sub/libother.so": other}
    done = repaired(make_wheel(tmp_path, tag=LINUX, files=files), Patcher.NONE)
    assert (done.status, done.output) == (Status.FAILED, None)
    assert isinstance(done.error, ToolError)
    assert "the patcher `none` cannot edit" in done.error.message
    assert f"`{MEMBER}`" in done.error.message
    assert "1 edits" not in done.error.message
    assert "--patcher auto" in (done.error.hint or "")


@pytest.fixture
def grafting(tmp_path: Path) -> Path:
    """A wheel whose object needs a library and a long search path: more room than it has."""
    other = shared_object(tmp_path / "l/libother.so", "int other(void) { return 1; }")
    library = shared_object(
        tmp_path / "libx.so",
        "int other(void); int x(void) { return other(); }",
        needed=[other],
        rpath=str(other.parent),
    )
    return make_wheel(tmp_path, tag=LINUX, files={MEMBER: library})


def test_lief_patchelf_edits_where_it_is_installed(
    grafting: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any program with patchelf's options will do: the edited objects are proved."""
    tools = grafting.parent / "tools"
    tools.mkdir()
    log = tools / "log"
    program = tools / "lief-patchelf"
    program.write_text(f'#!/bin/sh\necho "$@" >>"{log}"\nexec {find_patchelf().program} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    done = repaired(grafting, Patcher.LIEF_PATCHELF)
    assert (done.status, done.error) == (Status.REPAIRED, None)
    assert "--set-soname" in log.read_text()
    assert content(done.output) == content(repaired(grafting, Patcher.PATCHELF).output)


@pytest.mark.skipif(shutil.which("lief-patchelf") is not None, reason="it is installed")
def test_lief_patchelf_is_named_where_it_is_not_installed(grafting: Path) -> None:
    done = repaired(grafting, Patcher.LIEF_PATCHELF)
    assert done.status is Status.FAILED
    assert done.error is not None
    assert done.error.message == "`lief-patchelf` is not installed"
