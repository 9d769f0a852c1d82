"""`wheelfix doctor --against`: two environments of which one fails never load the same."""

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.integration.test_doctor import SUFFIX, Environment, lib, package
from tests.support.build import extension, shared_object
from wheelfix.cli.app import run

_OPENS = """
import ctypes, os
def find():
    folders = os.environ.get("ALPHA_LIBRARY_PATH", "").split(":") + [os.path.dirname(__file__)]
    return [path for path in (f"{one}/libfoo.so.1" for one in folders) if os.path.exists(path)]
LIBRARY = ctypes.CDLL(find()[0])
"""


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Environment, Path]:
    """An environment with `alpha`, and the site-packages folder of another one like it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    site = Environment(tmp_path)
    library = lib(tmp_path, "one", "two")
    files = package(tmp_path, "alpha", library, "one", imports="from . import util, _core")
    site.install(tmp_path, "alpha", **files, alpha__util__py=b"x = 1\n")
    (site.site / "alpha/util__py").rename(site.site / "alpha/util.py")
    (site.site / "alpha-1.0.dist-info/RECORD").write_text(
        "".join(
            f"alpha/{path.name},,{path.stat().st_size}\n"
            for path in (site.site / "alpha").iterdir()
        )
    )
    shutil.copytree(site.root, tmp_path / "other", symlinks=True)
    (there,) = (tmp_path / "other").glob("lib/python*/site-packages")
    return site, there


def _replace_module(
    there: Path,
    folder: Path,
    name: str = "_core",
    *,
    calls: Sequence[str] = (),
    flags: Sequence[str] = (),
) -> None:
    made = extension(folder / "made.so", name, calls=calls, flags=flags)
    shutil.copy(made, there / f"alpha/_core{SUFFIX}")


def _another_python(there: Path, _: Path) -> None:
    core = there / f"alpha/_core{SUFFIX}"
    core.rename(core.with_name("_core.cpython-38-x86_64-linux-gnu.so"))
    (there / "alpha-1.0.dist-info/RECORD").unlink()


def _editable(there: Path, folder: Path) -> None:
    (folder / "src").mkdir()
    (there / "alpha").rename(folder / "src/alpha")
    (folder / "src/alpha/libfoo.so.1").unlink()
    (there / "alpha-1.0.dist-info/RECORD").write_text("alpha.pth,,\n")
    (there / "alpha.pth").write_text(f"{folder}/src\n")


def _static_tls(there: Path, folder: Path) -> None:
    code = '__thread char room[9000] __attribute__((tls_model("initial-exec")));'
    shutil.copy(shared_object(folder / "libfoo.so.1", f"{code} int one(void) {{ return room[0]; }}",
                              soname="libfoo.so.1"), there / "alpha")  # fmt: skip


_CHANGES: dict[str, Callable[[Path, Path], object]] = {
    "a library is gone": lambda there, _: (there / "alpha/libfoo.so.1").unlink(),
    "a module is gone": lambda there, _: (there / f"alpha/_core{SUFFIX}").unlink(),
    "a source is gone": lambda there, _: (there / "alpha/util.py").unlink(),
    "a package is gone": lambda there, _: shutil.rmtree(there / "alpha"),
    "another build": lambda there, folder: shutil.copy(lib(folder / "less"), there / "alpha"),
    "another symbol": lambda there, folder: _replace_module(
        there, folder, calls=["nowhere"], flags=["-Wl,--unresolved-symbols=ignore-all"]
    ),
    "no init function": lambda there, folder: _replace_module(there, folder, "_other"),
    "cut off": lambda there, _: os.truncate(there / f"alpha/_core{SUFFIX}", 20),
    "another Python": _another_python,
    "another source": lambda there, _: (there / "alpha/__init__.py").write_text(
        "import ctypes, os\nctypes.CDLL(os.path.dirname(__file__) + '/libz.so')\n"
    ),
    "an editable install": _editable,
    "static TLS": _static_tls,
}


@pytest.mark.each_run("a module is gone")
@pytest.mark.parametrize("change", _CHANGES)
def test_what_fails_in_one_environment_alone_is_a_difference(
    both: tuple[Environment, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: str,
) -> None:
    site, there = both
    assert run(["doctor", "venv", "--against", "other"]) == 0
    _CHANGES[change](there, tmp_path)
    done = subprocess.run(
        [tmp_path / "other/bin/python", "-c", "import alpha"],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    assert "Error" in done.stderr
    assert not site.imports("alpha")
    capsys.readouterr()
    for names in (["venv", "other"], ["other", "venv"]):
        assert run(["doctor", names[0], "--against", names[1]]) == 1
        out = capsys.readouterr().out
        assert "alpha" in out
        assert "load the same libraries" not in out


def test_an_editable_install_of_other_sources_is_not_the_same(
    both: tuple[Environment, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = [tmp_path / name for name in ("first", "second")]
    finder = "import sys\nMAPPING = {'beta': '%s'}\nsys.meta_path.append(0)\n"
    for site, folder in zip((both[0].site, both[1]), sources, strict=True):
        folder.mkdir()
        (site / "__editable__.beta.pth").write_text("import __editable___beta_finder; x()\n")
        (site / "__editable___beta_finder.py").write_text(finder % sources[0])
    capsys.readouterr()
    assert run(["doctor", "venv", "--against", "other"]) == 0
    (both[1] / "__editable___beta_finder.py").write_text(finder % sources[1])
    assert run(["doctor", "venv", "--against", "other"]) == 1
    out = capsys.readouterr().out
    assert f"an editable install in {sources[0]} (__editable__.beta.pth)" in out
    assert f"an editable install in {sources[1]} (__editable__.beta.pth)" in out


def test_a_variable_leads_the_first_environment_to_another_library(
    both: tuple[Environment, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site, there = both
    for folder in (site.site, there):
        (folder / "alpha/__init__.py").write_text(_OPENS)
    build = lib(tmp_path / "build", "three").parent
    capsys.readouterr()
    asked = ["doctor", "venv", "--against", "other", "--env"]
    idle = "no Python source is seen to search it for libraries"
    assert run([*asked, f"ALPHA_LIBRARY_PATH={tmp_path}/nothing"]) == 0
    assert idle not in capsys.readouterr().err
    assert run([*asked, "FOO=1"]) == 0
    assert f"`--env FOO`: {idle}\n" in capsys.readouterr().err
    assert run([*asked, f"ALPHA_LIBRARY_PATH={build}"]) == 1
    assert capsys.readouterr().out == (
        "venv and other: what opens `alpha/libfoo.so.1` loads other libraries\n"
        "  `alpha/__init__.py` needs `libfoo.so.1`:\n"
        f"    venv: `{build}/libfoo.so.1`, by ALPHA_LIBRARY_PATH (alpha/__init__.py:4)\n"
        "    other: `alpha/libfoo.so.1` of alpha 1.0, without the variable\n"
        f"  only in `venv`, ALPHA_LIBRARY_PATH has `{build}`\n"
    )


def test_nothing_is_the_same_where_one_was_not_read_or_nothing_is_in_both(
    both: tuple[Environment, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site, there = both
    (there / "more.pth").write_text(f"{tmp_path}/src\n")
    (tmp_path / "src").mkdir()
    capsys.readouterr()
    assert run(["doctor", "venv", "--against", "other"]) == 1
    assert capsys.readouterr().out.endswith(f"; not read of other: {tmp_path}/src (more.pth)\n")
    for folder in (site.site, there):
        shutil.rmtree(folder / "alpha")
        (folder / "alpha-1.0.dist-info/RECORD").unlink()
    (there / "more.pth").unlink()
    assert run(["doctor", "venv", "--against", "other"]) == 1
    assert capsys.readouterr().out == "venv and other: no module is in both\n"


def test_another_build_is_told_without_a_hash_of_it(
    both: tuple[Environment, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(lib(tmp_path / "more", "one", "two", "three"), both[1] / "alpha")
    assert run(["doctor", "venv", "--against", "other"]) == 1
    assert "alpha 1.0 is there in two builds: the files differ\n" in capsys.readouterr().out


def test_an_auxiliary_library_that_is_in_neither_is_no_difference(
    both: tuple[Environment, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site, there = both
    for folder in (site.site, there):
        flags = ["-Wl,--auxiliary=libgone.so"] if folder == there else []
        _replace_module(folder, tmp_path, flags=flags)
    assert run(["doctor", str(site.root), "--against", str(there)]) in {0, 1}
    said = capsys.readouterr()
    assert "libgone.so" not in said.out
    assert said.err == ""


def test_what_is_not_there_is_told_from_what_does_not_fail(
    both: tuple[Environment, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two modules that do not go together, the other environment has one."""
    site, there = both
    library = lib(tmp_path / "new", "one", "two", "three")
    site.install(tmp_path, "beta", **package(tmp_path, "beta", library, "three"))
    assert run(["doctor", str(site.root), "--against", str(there)]) == 1
    out = capsys.readouterr().out
    assert "after `import alpha._core`, `import beta._core` fails" in out
    assert f"{there}: `beta` is not there" in out
