"""`--ldpaths` names the folders of libraries, as for auditwheel: no others of the machine count."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.build import executable, extension, make_wheel, shared_object
from tests.support.naming import SUFFIX, TAG
from wheelfix.cli.app import run

MEMBER = f"demo/_m{SUFFIX}"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if "LD_LIBRARY_PATH" in name]:
        monkeypatch.delenv(name)


def library(folder: Path, value: int) -> Path:
    source = f"int e(void) {{ return {value}; }}"
    return shared_object(folder / "libe.so.1", source, soname="libe.so.1")


def wheel(folder: Path, rpath: str | None = None) -> Path:
    """Build a wheel of a module that needs a library of the folder `there`."""
    needed = library(folder / "there", 1)
    module = extension(folder / "_m", "_m", needed=[needed], calls=["e"], rpath=rpath)
    files: Mapping[str, str | Path] = {"demo/__init__.py": "", MEMBER: module}
    return make_wheel(folder / "dist", tag=TAG, files=files)


def grafted(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str | None:
    """Return the folder from which the library is grafted; None for a repair that fails."""
    capsys.readouterr()
    words = ["repair", "-w", "out", *map(str, arguments)]
    code = run([*words, "--dry-run"])
    assert run(words) == code
    said = capsys.readouterr().err
    if code:
        assert "libe.so.1" in said
        return None
    return said.partition("libe.so.1 from ")[2].partition("/libe.so.1")[0].rpartition("/")[2]


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ([], "there"),
        (["--ldpaths", "empty"], None),
        (["--ldpaths", ""], None),
        (["--ldpaths", "missing"], None),
        (["--ldpaths", "other"], "other"),
        (["--ldpaths", "empty:./other:there"], "other"),
        (["--ldpaths", "empty:there:other"], "there"),
        (["--ldpaths", "other/deeper/.."], "other"),
        (["--ldpaths", "empty", "--library-path", "other"], "other"),
        (["--ldpaths", "there", "--library-path", "other"], "other"),
        (["--library-path", "other"], "other"),
    ],
)
def test_the_folders_replace_those_of_the_machine(
    options: list[str],
    place: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Relative ones count from the current directory; LD_LIBRARY_PATH is one of the machine."""
    path = wheel(tmp_path)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "there"))
    library(tmp_path / "other", 2)
    (tmp_path / "other/deeper").mkdir()
    (tmp_path / "empty").mkdir()
    assert grafted(capsys, *options, path) == place


@pytest.mark.parametrize("options", ["", ":empty", "empty::empty", "empty:", "."])
def test_an_empty_entry_is_the_current_directory(
    options: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An empty text has no entry."""
    path = wheel(tmp_path)
    monkeypatch.chdir(tmp_path / "there")
    assert grafted(capsys, "--ldpaths", options, path) == ("there" if options else None)


def test_auditwheel_s_variable_and_the_objects_paths_add_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert grafted(capsys, "--ldpaths", "", wheel(tmp_path, str(tmp_path / "there"))) == "there"
    monkeypatch.setenv("AUDITWHEEL_LD_LIBRARY_PATH", str(tmp_path / "there"))
    assert grafted(capsys, "--ldpaths", "", wheel(tmp_path)) == "there"


def test_a_library_of_the_system_is_not_grafted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also for a program, in whose loader's folder auditwheel looks."""
    system = next(
        (
            file
            for folder in ("/lib64", "/usr/lib64", "/lib/x86_64-linux-gnu", "/usr/lib")
            for file in sorted(Path(folder).glob("lib*.so.?"))
            if file.name.startswith(("liblzma", "libbz2", "libffi", "libsqlite3"))
        ),
        None,
    )
    if system is None:
        pytest.skip("none of the usual libraries is there")
    program = executable(tmp_path / "tool", needed=[system])
    files: Mapping[str, str | Path] = {"demo/__init__.py": "", "demo/tool": program}
    path = make_wheel(tmp_path / "dist", tag="py3-none-linux_x86_64", files=files)
    assert run(["repair", "--prune-needed", "off", "--ldpaths", "", "-w", "out", str(path)]) == 2
    assert system.name in capsys.readouterr().err


def test_check_plans_the_repair_with_the_same_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = wheel(tmp_path)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "there"))
    Path("wheelfix.toml").write_text('ldpaths = "there"\n', encoding="utf-8")
    run(["check", str(path)])
    assert "[*]" in capsys.readouterr().out
    assert run(["repair", "-w", "out", str(path)]) == 0
    Path("wheelfix.toml").write_text('ldpaths = ""\n', encoding="utf-8")
    run(["check", str(path)])
    assert "[*]" not in capsys.readouterr().out
    assert run(["repair", "-w", "out", str(path)]) == 2


def test_origin_stands_for_no_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["repair", "--ldpaths", "$ORIGIN/lib", str(wheel(tmp_path))]) == 2
    assert "without `$ORIGIN`" in capsys.readouterr().err
