"""`--target` and `--against` that apply to none of the wheels."""

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


@pytest.mark.parametrize(
    ("name", "tags", "is_unmatched"),
    [
        ("other", [LINUX], True),
        ("demo", [LINUX.replace("311", "312")], False),  # the only one of the distribution
        ("demo", [LINUX.replace("311", "312"), LINUX], True),
        ("demo", [LINUX], False),
    ],
)
def test_an_earlier_wheel_without_a_counterpart_is_reported(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    tags: list[str],
    is_unmatched: object,
) -> None:
    (tmp_path / "old").mkdir()
    against = [f"--against={built(tmp_path / 'old', name, tag)}" for tag in tags]
    assert run(["check", *against, built(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.count("has no counterpart among the wheels") == is_unmatched
