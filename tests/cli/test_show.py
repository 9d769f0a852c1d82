"""`wheelfix show`: a wheel in about ten lines."""

import sys
from pathlib import Path

import pytest

from tests.support.build import extension, make_wheel, shared_object
from tests.support.providers import dependent_wheel, provider_wheel
from wheelfix.cli.app import run

TAG = f"cp3{sys.version_info.minor}-cp3{sys.version_info.minor}-linux_x86_64"


def shown(capsys: pytest.CaptureFixture[str], wheel: Path, *options: str) -> dict[str, str]:
    """Run the command; return its lines by their labels."""
    assert run(["show", str(wheel), *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == wheel.name
    return {line[2:12].strip(): line[13:] for line in lines[1:] if line[2] != " "}


def test_the_libraries_of_a_wheel_are_bundled_expected_or_not_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = shared_object(tmp_path / "libone.so.1", "int one(void){return 1;}", soname="libone.so.1")
    two = shared_object(tmp_path / "libtwo.so.2", "int two(void){return 2;}", soname="libtwo.so.2")
    module = extension(
        tmp_path / "a.so", "a", needed=[one, two], calls=["one", "two"], runpath="$ORIGIN"
    )
    wheel = make_wheel(
        tmp_path / "dist",
        tag=TAG,
        files={"p/__init__.py": "", "p/a.so": module, "p/libone.so.1": one},
    )
    lines = shown(capsys, wheel)
    assert lines["objects"] == "1 extension module, 1 library"
    assert lines["bundled"].startswith("libone.so.1 (")
    assert "libc.so.6" in lines["platform"]
    assert "ld-linux" not in lines["platform"]
    assert lines["not found"] == "libtwo.so.2, needed by `a.so`"
    assert lines["tag"].endswith("linux_x86_64, because of the libraries that are not found")


def test_a_library_of_a_provider_does_not_change_the_tag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    provider = provider_wheel(tmp_path, "int pro(void){return 1;}")
    wheel = dependent_wheel(
        tmp_path,
        shared_object(tmp_path / "libpro.so.3", "int pro(void){return 1;}", soname="libpro.so.3"),
        requires="",
    )
    assert "not found" in shown(capsys, wheel)["tag"]
    assert "not found" not in shown(capsys, wheel, "--provider", str(provider))["tag"]


def test_a_wheel_without_objects_has_no_tag_to_allow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = make_wheel(tmp_path / "dist", tag="py3-none-any", files={"p/__init__.py": ""})
    lines = shown(capsys, wheel)
    assert lines["tag"] == "any; the wheel has no ELF objects"
    assert lines["objects"] == "none"
    assert "platform" not in lines


def test_a_wheel_that_cannot_be_read_does_not_stop_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        make_wheel(tmp_path, name, tag="py3-none-any", files={f"{name}.py": ""})
    (tmp_path / "bad-1.0-py3-none-any.whl").write_bytes(b"PK")
    assert run(["show", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    heads = [line for line in out.splitlines() if line and line[0] != " "]
    assert heads == ["a-1.0-py3-none-any.whl", "b-1.0-py3-none-any.whl"]
    assert "bad-1.0-py3-none-any.whl" in err


def test_a_file_that_is_missing_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", "nowhere.whl"]) == 2
    assert "nowhere.whl" in capsys.readouterr().err
