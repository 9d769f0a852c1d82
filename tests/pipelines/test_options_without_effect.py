"""Machines of `--target` that apply to none of the wheels."""

from pathlib import Path

import pytest

from tests.support.build import make_wheel, shared_object
from wheelfix.cli.app import run

LINUX = "cp311-cp311-manylinux_2_35_x86_64"


def built(folder: Path, name: str = "demo", tag: str = LINUX) -> str:
    library = shared_object(folder / "libx.so", "int x;")
    return str(make_wheel(folder, name, tag=tag, files={f"{name}/libx.so": library}))


@pytest.mark.parametrize(
    ("target", "unmatched"),
    [
        ("alpine:3.20", "alpine:3.20"),
        ("debian:12,alpine:3.20", "alpine:3.20"),
        ("debian:12", ""),
        ("page:64k", ""),
    ],
)
def test_a_target_that_does_not_apply_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str, unmatched: str
) -> None:
    assert run(["check", "--target", target, built(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert (f"`--target {unmatched}` applies to none of the wheels" in out) == bool(unmatched)
    assert out.count("applies to none") == bool(unmatched)
    assert ("WF816" in out) == bool(unmatched)


def test_a_target_that_applies_to_one_wheel_is_not_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = built(tmp_path, tag="cp311-cp311-musllinux_1_2_x86_64")
    run(["check", "--target", "alpine:3.20,debian:12", built(tmp_path), other])
    assert "applies to none" not in capsys.readouterr().out


def test_no_target_applies_to_a_wheel_of_another_system(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = built(tmp_path, tag="cp311-cp311-win_amd64")
    assert run(["check", "--target", "debian:12", wheel]) == 0
    assert "`--target debian:12` applies to none of the wheels" in capsys.readouterr().out
