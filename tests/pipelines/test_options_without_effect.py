"""Values of options that apply to nothing in the wheels."""

from pathlib import Path

import pytest

from tests.support.build import ONE_FUNCTION, make_wheel, shared_object
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


def test_a_drop_of_entries_that_drops_none_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    used = shared_object(tmp_path / "libused.so", ONE_FUNCTION, soname="libused.so", libc=False)
    user = shared_object(
        tmp_path / "libuser.so",
        "int f(void); int g(void) { return f(); }",
        needed=[used],
        runpath="$ORIGIN",
        libc=False,
    )
    files = {"demo/libused.so": used, "demo/libuser.so": user}
    wheel = make_wheel(tmp_path, tag=LINUX, files=files)
    call = ["repair", "--dry-run", str(wheel)]
    assert run([*call, "--drop-needed", "libused*", "--drop-needed", "libtypo*"]) == 0
    err = capsys.readouterr().err
    assert "`drop-needed`: no DT_NEEDED entry that matches `libused*` is unused" in err
    assert "`drop-needed`: no DT_NEEDED entry that matches `libtypo*` is in the wheel" in err
