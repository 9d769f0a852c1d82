"""Wheels for systems other than Linux, and files that are no wheels."""

from pathlib import Path

import pytest

from tests.support.build import make_wheel
from wheelfix import check
from wheelfix.cli.app import run
from wheelfix.settings import Settings

MACH_O = b"\xcf\xfa\xed\xfe" + bytes(60)
TAGS = {
    "macosx_11_0_arm64": "macOS; delocate",
    "macosx_10_9_x86_64.macosx_11_0_arm64": "macOS; delocate",
    "win_amd64": "Windows; delvewheel",
    "win32": "Windows; delvewheel",
    "ios_13_0_arm64_iphoneos": "iOS",
    "pyodide_2024_0_wasm32": "Pyodide; pyodide auditwheel",
    "emscripten_3_1_58_wasm32": "Pyodide; pyodide auditwheel",
}


def foreign(folder: Path, platform: str, **more: bytes) -> Path:
    files = {"demo/__init__.py": b"", "demo/_x.cpython-311-darwin.so": MACH_O}
    more = {name.replace("__", "/"): content for name, content in more.items()}
    return make_wheel(folder, "demo", tag=f"cp311-cp311-{platform}", files=files | more)


@pytest.mark.parametrize(("platform", "words"), TAGS.items())
def test_check_skips_the_rules_about_elf_objects_and_says_so(
    tmp_path: Path, platform: str, words: str
) -> None:
    report = check(foreign(tmp_path, platform), Settings())
    assert report.skipped.startswith(f"rules about ELF objects skipped: a wheel for {words}")
    assert report.findings == ()
    assert report.verdict is None
    assert report.error is None


def test_check_runs_the_rules_about_the_archive(tmp_path: Path) -> None:
    wheel = foreign(tmp_path, "macosx_11_0_arm64", **{"demo__.DS_Store": b""})
    assert {finding.code for finding in check(wheel, Settings()).findings} == {"WF516"}


@pytest.mark.parametrize("platform", ["macosx_11_0_arm64", "win_amd64"])
def test_check_reports_entry_points_that_installers_refuse(tmp_path: Path, platform: str) -> None:
    """pip and uv refuse them on every system."""
    entry_points = {"demo-1.0.dist-info__entry_points.txt": b"[console_scripts]\ndemo = demo\n"}
    wheel = foreign(tmp_path, platform, **entry_points)
    assert {finding.code for finding in check(wheel, Settings()).findings} == {"WF519"}


@pytest.mark.parametrize("platform", ["any", "macosx_11_0_arm64.manylinux_2_17_x86_64", "beos"])
def test_check_of_other_wheels_is_whole(tmp_path: Path, platform: str) -> None:
    report = check(foreign(tmp_path, platform), Settings())
    assert report.skipped == ""
    assert "WF602" in {finding.code for finding in report.findings}


@pytest.mark.parametrize(("platform", "words"), TAGS.items())
def test_repair_names_the_right_tool(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], platform: str, words: str
) -> None:
    assert run(["repair", "-w", str(tmp_path / "out"), str(foreign(tmp_path, platform))]) == 2
    err = capsys.readouterr().err
    system, _, tool = words.partition("; ")
    assert f"is a wheel for {system}: wheelfix is for Linux" in err
    assert (f"hint: for a repair: {tool}" in err) == bool(tool)


@pytest.mark.parametrize("command", ["check", "repair", "show", "explain", "verify"])
@pytest.mark.parametrize("name", ["demo-1.0.tar.gz", "demo-1.0.zip"])
def test_an_sdist_is_named_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, name: str
) -> None:
    sdist = tmp_path / name
    sdist.write_bytes(b"\x1f\x8b")
    assert run([command, str(sdist)]) == 2
    err = capsys.readouterr().err
    assert f"`{name}` is an sdist or another archive, not a wheel" in err
    assert f"hint: build the wheel first: pip wheel --no-deps {name}" in err


@pytest.mark.parametrize("command", ["check", "repair", "show", "explain", "verify"])
def test_a_directory_without_wheels_is_named_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert run([command, str(tmp_path)]) == 2
    assert "no wheel was found in" in capsys.readouterr().err


def test_an_unpacked_wheel_is_no_wheel_of_a_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "demo-1.0-py3-none-any.whl").mkdir()
    assert run(["check", str(tmp_path)]) == 2
    assert "no wheel was found in" in capsys.readouterr().err
