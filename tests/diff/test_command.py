"""`wheelfix diff` on the command line: formats, exit codes, directories."""

import json
from pathlib import Path

import pytest

from tests.support.build import make_wheel, shared_object
from tests.support.providers import unpacked
from tests.support.schemas import errors
from wheelfix.cli.app import run

TAG = "py3-none-manylinux_2_35_x86_64"


@pytest.fixture
def releases(tmp_path: Path) -> tuple[Path, Path]:
    """Two releases; the second lacks seven functions."""
    found: list[Path] = []
    for folder, version, functions in (("old", "1.0", 8), ("new", "2.0", 1)):
        source = "".join(f"int f{n}(void){{return {n};}}" for n in range(functions))
        library = shared_object(tmp_path / f"{folder}.so", source, soname="libdemo.so")
        files: dict[str, bytes | str | Path] = {"demo/libdemo.so": library}
        found.append(make_wheel(tmp_path / folder, version=version, tag=TAG, files=files))
    return found[0], found[1]


def test_removed_exports_fail_and_can_be_accepted(
    releases: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["diff", *map(str, releases)]
    assert run(command) == 1
    out = capsys.readouterr().out
    assert "`demo/libdemo.so` lacks 7 exports of the old release" in out
    assert "-f1\n" in out
    assert "and 2 more: -v" in out
    assert out.splitlines()[-1].startswith("1 error, ")
    assert run([*command, "-v"]) == 1
    assert "-f7" in capsys.readouterr().out
    assert run([*command, "--accept", "removed-export"]) == 0
    assert run([*command, "--fail-on", "never"]) == 0
    assert run([*command, "--accept", "everything"]) == 2


def test_a_wheel_compared_with_itself_has_no_differences(
    releases: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["diff", str(releases[0]), str(releases[0])]) == 0
    assert capsys.readouterr().out.count("no differences") == 2


def test_json_has_a_schema(
    releases: tuple[Path, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["diff", *map(str, releases), "--output-format", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert errors("diff", report) == []
    [pair] = report["wheels"]
    assert (pair["old"], pair["new"]) == tuple(path.name for path in releases)
    assert pair["changes"][0]["kind"] == "removed-export"
    assert len(pair["changes"][0]["items"]) == 7
    make_wheel(tmp_path / "new", version="2.0", tag="cp311-cp311-musllinux_1_2_x86_64")
    folders = [str(path.parent) for path in releases]
    assert run(["diff", *folders, "--output-format", "json", "-o", str(tmp_path / "x")]) == 1
    report = json.loads((tmp_path / "x").read_text(encoding="utf-8"))
    assert errors("diff", report) == []
    assert sorted(pair["old"] is None for pair in report["wheels"]) == [False, True]


@pytest.mark.parametrize("side", ["old", "new"])
def test_a_wheel_that_cannot_be_read_does_not_stop_the_others(
    releases: tuple[Path, Path], capsys: pytest.CaptureFixture[str], side: str
) -> None:
    old, new = (release.parent for release in releases)
    for folder, version in ((old, "1.0"), (new, "2.0")):
        for tag in ("py2", "py3"):
            make_wheel(folder, version=version, tag=f"{tag}-none-any", files={"demo.py": b""})
    folder = old if side == "old" else new
    next(folder.glob("*-py2-none-any.whl")).write_bytes(b"PK")
    (folder / "misnamed.whl").write_bytes(b"PK")
    assert run(["diff", str(old), str(new)]) == 2
    out, err = capsys.readouterr()
    assert "lacks 7 exports" in out
    assert out.count("+++ ") == 2
    assert err.count("error: ") == 2
    assert f"`demo-{'1' if side == 'old' else '2'}.0-py2-none-any.whl`" in err
    assert "`misnamed.whl` is not the name of a wheel" in err
    for wheel in folder.glob("demo-*"):
        wheel.unlink()
    assert run(["diff", str(old), str(new)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("error: ") == 1


def test_names_of_wheels_with_control_characters_are_refused_and_escaped(
    releases: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for path in releases:
        path.rename(path.with_name(path.name.replace("demo-", "demo\x1b[2J-")))
    assert run(["diff", *(str(path.parent) for path in releases)]) == 2
    said = capsys.readouterr().err
    assert "demo" in said
    assert all(line.isprintable() for line in said.splitlines())


def test_markdown_folds_long_lists(
    releases: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["diff", *map(str, releases), "--output-format", "markdown"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("## wheelfix diff\n")
    assert "| error | removed-export | `demo/libdemo.so` lacks 7 exports" in out
    assert "<details><summary>removed-export" in out
    assert "- `-f7`" in out


@pytest.mark.parametrize("arguments", [("none.whl", "none.whl"), (".", ".")])
def test_what_is_no_wheel_is_an_error(
    arguments: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["diff", *arguments]) == 2


@pytest.mark.parametrize(
    ("brought", "answer"),
    [
        (("demo", 8), ("`demo/libdemo.so` is gone: core, which is required, installs it", 0)),
        (("demo", 7), ("`demo/libdemo.so` lacks 1 export of the old release", 1)),
        (("core", 8), ("`demo/libdemo.so` moved to `core/libdemo.so` of core", 0)),
        (("", 0), ("`demo/libdemo.so` is gone: what is linked with `libdemo.so` does not load", 1)),
    ],
)
def test_what_a_requirement_brings_is_not_lost(
    brought: tuple[str, int],
    answer: tuple[str, int],
    releases: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As sherpa-onnx-core has the library of sherpa_onnx."""
    place, functions = brought
    source = "".join(f"int f{n}(void){{return {n};}}" for n in range(functions))
    library = shared_object(tmp_path / "libdemo.so", source, soname="libdemo.so")
    files: dict[str, bytes | str | Path] = {f"{place}/libdemo.so": library} if place else {"a": ""}
    core = make_wheel(tmp_path / "index", "core", "1.0", TAG, files)
    about = "Requires-Dist: core>=1\n"
    new = make_wheel(tmp_path / "x", version="2.0", tag=TAG, files={"a": ""}, metadata=about)
    site = unpacked(tmp_path / "site", core)
    for given in (["--with", str(core)], *([["--site", str(site)]] if place else [])):
        code = run(["diff", str(releases[0]), str(new), *given])
        out = capsys.readouterr().out
        assert answer[0] in out
        assert answer[1] == code
    free = make_wheel(tmp_path / "y", version="2.0", tag=TAG, files={"a": ""})
    assert run(["diff", str(releases[0]), str(free), "--with", str(core)]) == 1
    assert "is gone: what is linked" in capsys.readouterr().out
