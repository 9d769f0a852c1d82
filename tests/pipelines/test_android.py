"""Wheels for Android (PEP 738): repaired as auditwheel does, on a machine that cannot run them.

The NDK here is forged (tests/support/android.py). Nothing was tried on a device.
"""

# ruff: noqa: FBT001 -- `ident` is a fixture

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.android import (
    MODULE,
    SUFFIX,
    Ndk,
    android_wheel,
    library,
    make_ndk,
    module,
)
from tests.support.bionic import refusals
from tests.support.build import make_wheel, shared_object
from wheelfix.cli.app import run
from wheelfix.host.policy_tables import read_policies
from wheelfix.loader import targets
from wheelfix.loader.platform_libraries import ANDROID_LIBRARIES

A = "int a(void) { return 1; }"


@pytest.fixture(params=["ident", "tag"])
def ident(request: pytest.FixtureRequest) -> bool:
    """Return whether objects have the NDK's note, or only the tag of their wheel."""
    return bool(request.param == "ident")


@pytest.fixture
def ndk(tmp_path: Path, ident: bool) -> Ndk:
    return make_ndk(tmp_path / "ndk", ident=ident)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def repaired(wheel: Path, ndk: Ndk, *options: str) -> Path:
    """Repair a wheel as cibuildwheel asks for it."""
    words = ["repair", "--ldpaths", str(ndk.folder), "-w", "out", *options, str(wheel)]
    assert run(words) == 0
    return Path("out", wheel.name)


def dynamic(wheel: Path) -> dict[str, set[tuple[str, str]]]:
    """Return what readelf says of each object: the tags of names and paths."""
    found: dict[str, set[tuple[str, str]]] = {}
    folder = Path(f"{wheel}.d")
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if ".so" in name:
                file = archive.extract(name, folder)
                said = subprocess.run(
                    ["readelf", "-dW", file], capture_output=True, text=True, check=True
                ).stdout
                entries = re.findall(r"\((NEEDED|SONAME|RPATH|RUNPATH)\).*\[(.*)\]", said)
                found[name] = {(tag, value) for tag, value in entries}
    shutil.rmtree(folder)
    return found


def by_auditwheel(wheel: Path, ndk: Ndk) -> Path:
    command = [sys.executable, "-m", "auditwheel", "repair", "--ldpaths", str(ndk.folder)]
    subprocess.run([*command, "-w", "theirs", str(wheel)], check=True, capture_output=True)
    return Path("theirs", wheel.name)


def with_grafts(folder: Path, ndk: Ndk, ident: bool, level: int = 24) -> Path:
    """Build a wheel of two modules: one finds libc++_shared.so only through libomp.so."""
    direct = module(folder / "m", ndk, ("omp", "cxx"), needed=[ndk.omp, ndk.cxx], ident=ident)
    through = module(folder / "n", ndk, ("omp",), name="_n", needed=[ndk.omp], ident=ident)
    files = {MODULE: direct, f"demo/sub/_n{SUFFIX}": through}
    return android_wheel(folder / "dist", files, level)


# --- repair


def test_the_grafts_and_search_paths_are_auditwheel_s(
    tmp_path: Path, ndk: Ndk, ident: bool
) -> None:
    """libc++_shared and libomp go into the wheel; libpython and the system's stay outside."""
    wheel = with_grafts(tmp_path, ndk, ident)
    ours, theirs = dynamic(repaired(wheel, ndk)), dynamic(by_auditwheel(wheel, ndk))
    assert ours == theirs
    assert {re.sub("-[0-9a-f]{8}", "", name) for name in ours if "libs/" in name} == {
        "demo.libs/libc++_shared.so",
        "demo.libs/libomp.so",
    }
    assert ("NEEDED", "libpython3.13.so") in ours[MODULE]
    assert ("RUNPATH", "$ORIGIN/../demo.libs") in ours[MODULE]
    assert not any(tag == "RPATH" for entries in ours.values() for tag, _ in entries)


def test_what_an_edit_writes_is_as_bionic_s_loader_asks_for(
    tmp_path: Path, ndk: Ndk, ident: bool
) -> None:
    """By a model of its checks, with pages of 4 and of 16 KiB."""
    with zipfile.ZipFile(repaired(with_grafts(tmp_path, ndk, ident), ndk)) as archive:
        contents = [archive.read(name) for name in archive.namelist() if ".so" in name]
    assert len(contents) == 4
    for content in contents:
        assert not [*refusals(content, 1 << 12), *refusals(content, 1 << 14)]


def test_a_repaired_wheel_stays_as_it_is(tmp_path: Path, ndk: Ndk, ident: bool) -> None:
    once = repaired(with_grafts(tmp_path, ndk, ident), ndk).read_bytes()
    again = tmp_path / "again" / "demo-1.0-cp313-cp313-android_24_x86_64.whl"
    again.parent.mkdir()
    again.write_bytes(once)
    assert repaired(again, ndk).read_bytes() == once


def test_no_library_of_this_machine_is_grafted(
    tmp_path: Path, ndk: Ndk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever LD_LIBRARY_PATH, and the search path of the object itself, say of one."""
    other = library(tmp_path / "here/liba.so", A)
    path = module(tmp_path / "m", ndk, ("a",), needed=[other], runpath=str(other.parent))
    wheel = android_wheel(tmp_path / "dist", {MODULE: path})
    monkeypatch.setenv("LD_LIBRARY_PATH", str(other.parent))
    assert run(["repair", "-w", "out", str(wheel)]) == 2
    err = capsys.readouterr().err
    assert "`liba.so` is neither in the wheel nor in a folder that was named" in err
    assert "--library-path FOLDER" in err
    assert str(other.parent) not in err.partition("hint:")[2]
    for option in ("--ldpaths", "--library-path"):
        assert run(["repair", option, str(other.parent), "-w", option[2:], str(wheel)]) == 0


def test_auditwheel_s_variable_adds_to_the_folders(
    tmp_path: Path, ndk: Ndk, ident: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUDITWHEEL_LD_LIBRARY_PATH", str(ndk.folder))
    assert run(["repair", "-w", "out", str(with_grafts(tmp_path, ndk, ident))]) == 0


def test_below_api_level_24_there_is_no_graft(
    tmp_path: Path, ndk: Ndk, ident: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """auditwheel says: Grafting libraries with RUNPATH requires API level 24 or higher."""
    wheel = with_grafts(tmp_path, ndk, ident, level=21)
    assert run(["repair", "--ldpaths", str(ndk.folder), "-w", "out", str(wheel)]) == 2
    assert "DT_RUNPATH, which Android reads from API level 24 on" in capsys.readouterr().err
    assert not Path("out").exists()


@pytest.mark.parametrize("level", [21, 23, 24, 27, 28, 36])
def test_a_symbol_that_the_level_lacks_is_named(
    tmp_path: Path, ndk: Ndk, level: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tag never changes; auditwheel compares no versions of bionic's libraries."""
    path = module(tmp_path / "m", ndk, ("getpid", "at28"))
    wheel = android_wheel(tmp_path / "dist", {MODULE: path}, level)
    code = run(["repair", "-w", "out", str(wheel)])
    said = capsys.readouterr().err
    if level >= 28:
        assert code == 0
        assert Path("out", wheel.name).read_bytes() == wheel.read_bytes()
    else:
        assert code == 2
        what = f"`LIBC_P` of `libc.so` (`at28`), which is newer than `android_{level}_x86_64`"
        assert what in said
        assert f"hint: build it with the NDK for API level {level}" in said
    assert run(["check", str(wheel)]) == (level < 28)
    assert ("WF801" in capsys.readouterr().out) == (level < 28)


@pytest.mark.parametrize(("level", "code"), [(24, 2), (25, 2), (26, 0), (30, 0)])
def test_the_libraries_of_the_highest_level_below_count(
    tmp_path: Path, ndk: Ndk, level: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """libaaudio.so came with API level 26."""
    audio = library(tmp_path / "libaaudio.so", A)
    path = module(tmp_path / "m", ndk, ("a",), needed=[audio])
    wheel = android_wheel(tmp_path / "dist", {MODULE: path}, level)
    assert run(["repair", "-w", "out", str(wheel)]) == code
    assert ("`libaaudio.so` is neither" in capsys.readouterr().err) == (code != 0)
    assert run(["explain", str(wheel)]) == (1 if code else 0)


def test_a_level_without_a_policy_is_refused(
    tmp_path: Path, ndk: Ndk, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = android_wheel(tmp_path / "dist", {MODULE: module(tmp_path / "m", ndk)}, level=19)
    assert run(["repair", "-w", "out", str(wheel)]) == 2
    assert "no manylinux, musllinux or Android platform" in capsys.readouterr().err
    assert findings(wheel, capsys) == {}
    run(["check", "-v", str(wheel)])
    assert "auditwheel has no policy for android_19_x86_64" in capsys.readouterr().out


def test_a_wheel_has_one_tag(tmp_path: Path, ndk: Ndk, capsys: pytest.CaptureFixture[str]) -> None:
    files = {MODULE: module(tmp_path / "m", ndk)}
    wheel = android_wheel(tmp_path / "dist", files, abi="arm64_v8a.android_24_x86_64")
    assert run(["repair", "-w", "out", str(wheel)]) == 2
    assert run(["check", "-v", str(wheel)]) == 0
    tags = "android_24_arm64_v8a.android_24_x86_64"
    assert f"auditwheel has no policy for {tags}" in capsys.readouterr().out


def test_a_wheel_of_two_levels_is_refused_as_by_auditwheel(
    tmp_path: Path, ndk: Ndk, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {MODULE: module(tmp_path / "m", ndk)}
    wheel = android_wheel(tmp_path / "dist", files, 24, abi="x86_64.android_26_x86_64")
    assert run(["repair", "-w", "out", str(wheel)]) == 2
    assert "has several platform tags" in capsys.readouterr().err


def test_a_tag_of_android_beside_any_is_refused_for_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = shared_object(tmp_path / "x.so")
    tag = "cp313-cp313-android_24_x86_64.any"
    wheel = make_wheel(tmp_path / "dist", tag=tag, files={MODULE: library})
    assert run(["repair", "-w", "out", str(wheel)]) == 2
    said = capsys.readouterr().err
    assert "has several platform tags: auditwheel judges a wheel of Android by one" in said
    assert "without the tag `any`" in said


@pytest.mark.parametrize("command", ["repair", "check", "explain"])
def test_no_system_s_folder_has_the_libraries_of_android(
    tmp_path: Path, ndk: Ndk, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = android_wheel(tmp_path / "dist", {MODULE: module(tmp_path / "m", ndk)})
    words = [*(["-w", "out"] if command == "repair" else []), str(wheel)]
    assert run([command, "--sysroot", str(tmp_path), *words]) == 2
    assert "name the folders of its libraries with `--ldpaths`" in capsys.readouterr().err


@pytest.mark.parametrize("abi", ["x86", "arm64_v8a"])
def test_objects_of_another_machine_are_named(
    tmp_path: Path, ndk: Ndk, abi: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = android_wheel(tmp_path / "dist", {MODULE: module(tmp_path / "m", ndk)}, abi=abi)
    assert run(["repair", "-w", "out", str(wheel)]) == 1  # as with auditwheel
    assert f"no ELF executable or shared library for android_24_{abi}" in capsys.readouterr().err
    assert findings(wheel, capsys).get("WF510") == "error"


def test_no_report_says_that_a_load_was_proved(
    tmp_path: Path, ndk: Ndk, ident: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    repaired(with_grafts(tmp_path, ndk, ident), ndk)
    err = capsys.readouterr().err
    assert "computed all libraries are found" in " ".join(err.split())
    assert "proved" not in err


# --- check, and the other questions


def findings(wheel: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Return the severity of each rule that is broken, notes left out."""
    capsys.readouterr()
    run(["check", "--output-format", "json", str(wheel)])
    [report] = json.loads(capsys.readouterr().out)["wheels"]
    return {f["code"]: f["severity"] for f in report["findings"] if f["severity"] != "note"}


def test_a_good_wheel_has_no_findings(
    tmp_path: Path, ndk: Ndk, ident: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may need libpython and libraries of the system that it does not use."""
    path = module(tmp_path / "m", ndk, ("getpid",), needed=[ndk.libm], ident=ident)
    wheel = android_wheel(tmp_path / "dist", {MODULE: path})
    assert findings(wheel, capsys) == {}
    assert repaired(wheel, ndk).read_bytes() == wheel.read_bytes()


def test_a_dt_rpath_is_dead(
    tmp_path: Path, ndk: Ndk, ident: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """A repair puts what is needed of it into the DT_RUNPATH."""
    bundled = library(tmp_path / "liba.so", A, ident=ident)
    path = module(tmp_path / "m", ndk, ("a",), needed=[bundled], rpath="$ORIGIN", ident=ident)
    wheel = android_wheel(tmp_path / "dist", {MODULE: path, "demo/liba.so": bundled})
    assert findings(wheel, capsys) == {"WF101": "error", "WF118": "warning"}
    assert run(["explain", str(wheel)]) == 1
    fixed = repaired(wheel, ndk, "--search-path-tag", "rpath")
    assert findings(fixed, capsys) == {}
    assert {e for e in dynamic(fixed)[MODULE] if "PATH" in e[0]} == {("RUNPATH", "$ORIGIN")}
    assert run(["explain", str(fixed)]) == 0


def test_a_dt_runpath_is_not_inherited(
    tmp_path: Path, ndk: Ndk, ident: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once loaded, a library is found by its SONAME alone, not by its file name."""
    inner = library(tmp_path / "liba.so", A, ident=ident)
    b = "int a(void); int b(void) { return a(); }"
    outer = library(tmp_path / "libb.so", b, needed=[inner], ident=ident)
    path = module(tmp_path / "m", ndk, ("b",), needed=[outer], runpath="$ORIGIN", ident=ident)
    wheel = android_wheel(
        tmp_path / "dist", {MODULE: path, "demo/libb.so": outer, "demo/liba.so": inner}
    )
    assert findings(wheel, capsys) == {"WF101": "error"}
    assert findings(repaired(wheel, ndk), capsys) == {}


def test_below_api_level_24_no_search_path_is_read(
    tmp_path: Path, ndk: Ndk, ident: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    bundled = library(tmp_path / "liba.so", A, ident=ident)
    path = module(tmp_path / "m", ndk, ("a",), needed=[bundled], runpath="$ORIGIN", ident=ident)
    files = {MODULE: path, "demo/liba.so": bundled}
    assert findings(android_wheel(tmp_path / "dist", files), capsys) == {}
    old = android_wheel(tmp_path / "dist", files, level=23)
    assert findings(old, capsys) == {"WF101": "error"}
    assert run(["check", str(old)]) == 1
    assert "hint: build the wheel for API level 24, whose loader" in capsys.readouterr().out


def test_a_module_without_libpython_is_named(
    tmp_path: Path, ident: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it loads may bring it."""
    calls = "void *PyModuleDef_Init(void *); void *PyInit__m(void) { return PyModuleDef_Init(0); }"
    path = library(tmp_path / "m", calls, soname=None, ident=ident)
    wheel = android_wheel(tmp_path / "dist", {MODULE: path})
    assert findings(wheel, capsys) == {"WF205": "warning"}
    python = library(tmp_path / "libpython3.13.so", "int p(void) { return 1; }", ident=ident)
    between = library(tmp_path / "libb.so", "int b(void) { return 1; }", needed=[python])
    path = library(
        tmp_path / "n", calls, soname=None, needed=[between], runpath="$ORIGIN", ident=ident
    )
    wheel = android_wheel(tmp_path / "dist", {MODULE: path, "demo/libb.so": between})
    assert "WF205" not in findings(wheel, capsys)


def test_a_bundled_library_may_have_the_name_of_one_of_the_system(
    tmp_path: Path, ndk: Ndk, ident: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """An object gets it by a DT_RUNPATH of its own, or else the system's, if none is loaded yet."""
    own = library(tmp_path / "libz.so", A, ident=ident)
    for runpath, place in (("$ORIGIN", "demo/libz.so"), (None, "/system/lib64/libz.so")):
        path = module(tmp_path / "m", ndk, ("a",), needed=[own], runpath=runpath, ident=ident)
        wheel = android_wheel(tmp_path / "dist", {MODULE: path, "demo/libz.so": own})
        assert "WF101" not in findings(wheel, capsys)
        run(["explain", "-v", str(wheel), MODULE])
        assert place in capsys.readouterr().out


def test_pages_have_16_kib(
    tmp_path: Path, ndk: Ndk, ident: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["-Wl,-z,max-page-size=4096"]
    path = module(tmp_path / "m", ndk, ident=ident, flags=flags)
    wheel = android_wheel(tmp_path / "dist", {MODULE: path})
    assert findings(wheel, capsys) == {"WF605": "warning"}


def test_text_relocations_are_refused(
    tmp_path: Path, ident: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    text = 'int v; __asm__(".text\\n.quad v\\n");'
    extra = library(tmp_path / "liba.so", text, ident=ident, flags=["-Wl,-z,notext"])
    wheel = android_wheel(tmp_path / "dist", {"demo/liba.so": extra})
    assert findings(wheel, capsys).get("WF621") == "error"


def test_an_object_or_a_suffix_of_linux_is_named(
    tmp_path: Path, ndk: Ndk, capsys: pytest.CaptureFixture[str]
) -> None:
    path = module(tmp_path / "m", ndk)
    wheel = android_wheel(tmp_path / "dist", {"demo/_m.cpython-313-x86_64-linux-gnu.so": path})
    assert findings(wheel, capsys) == {"WF312": "error"}
    linux = shared_object(tmp_path / "libl.so", "int getpid(void); int l(void){return getpid();}")
    wheel = android_wheel(tmp_path / "dist", {MODULE: path, "demo/libl.so": linux})
    run(["check", "-v", str(wheel)])
    assert "is for glibc, but the tag is for bionic" in capsys.readouterr().out


def test_questions_have_answers(
    tmp_path: Path, ndk: Ndk, ident: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = repaired(with_grafts(tmp_path, ndk, ident), ndk)
    capsys.readouterr()
    assert run(["show", str(wheel)]) == 0
    shown = capsys.readouterr().out
    assert "platform   libc.so, libpython3.13.so" in shown
    assert run(["explain", str(wheel)]) == 0
    assert "on android:24, in target-pip (python3.13)" in capsys.readouterr().out
    assert run(["why", str(wheel), "libpython3.13.so"]) == 0
    assert "expected from the platform, never grafted" in capsys.readouterr().out


def test_the_level_of_a_target_decides_and_not_that_of_the_tag(
    tmp_path: Path, ndk: Ndk, capsys: pytest.CaptureFixture[str]
) -> None:
    """A loader before level 24 reads no DT_RUNPATH; a level is named as its newest version is."""
    wheel = repaired(with_grafts(tmp_path, ndk, ident=True), ndk)
    assert run(["explain", "--target", "android:24", str(wheel)]) == 0
    assert run(["explain", "--target", "android:23", str(wheel)]) == 1
    assert "not found: `libc++_shared" in capsys.readouterr().out
    path = module(tmp_path / "m", ndk, ["at28"])
    newer = android_wheel(tmp_path / "newer", {MODULE: path}, level=28)
    assert run(["explain", "--target", "android:25", str(newer)]) == 1
    assert "needs `LIBC_P` of `libc.so`; android:25 has LIBC_N" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["verify", "repair --verify -w out"])
def test_only_a_device_can_verify(
    command: str, tmp_path: Path, ndk: Ndk, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = android_wheel(tmp_path / "dist", {MODULE: module(tmp_path / "m", ndk)})
    assert run([*command.split(), str(wheel)]) == 2
    assert "is for Android: only a device or its emulator can import it" in capsys.readouterr().err
    assert not list(tmp_path.glob("out/*"))


# --- tables


def test_the_described_platform_is_that_of_auditwheel_s_table() -> None:
    policies = [policy for policy in read_policies() if policy.name.startswith("android_")]
    assert {name for policy in policies for name in policy.whitelist} == ANDROID_LIBRARIES
    for policy in policies:
        target = targets.find(f"android:{policy.tag.version[0]}")
        assert {name for name in ANDROID_LIBRARIES if target.has(name)} == policy.whitelist
