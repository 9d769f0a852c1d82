"""The lock of what is grafted: written by one repair, held by the next."""

import re
import shlex
from pathlib import Path

import pytest

from tests.support.build import extension, make_wheel, shared_object
from wheelfix.cli.app import run

TAG = "cp311-cp311-linux_x86_64"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with libraries to graft in `lib`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "lib"))
    return tmp_path


def library(here: Path, name: str, value: int = 1) -> Path:
    source = f"int {name}(void) {{ return {value}; }}"
    return shared_object(here / "lib" / f"lib{name}.so.1", source, soname=f"lib{name}.so.1")


def wheel_of(here: Path, *libraries: Path, module: str = "m", python: str = "311") -> Path:
    calls = [each.name[3:].partition(".")[0] for each in libraries]
    built = extension(here / f"{module}.so", module, needed=libraries, calls=calls)
    name = f"demo/{module}.cpython-{python}-x86_64-linux-gnu.so"
    tag = TAG.replace("311", python)
    return make_wheel(here / "dist", tag=tag, files={"demo/__init__.py": "", name: built})


def test_a_lock_is_not_written_through_a_link(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "home").mkdir()
    (here / "wheelfix.lock").symlink_to(here / "home" / ".profile")
    assert run(["repair", "--write-lock", str(wheel_of(here, library(here, "foo")))]) == 2
    assert "wheelfix.lock` is a symbolic link" in capsys.readouterr().err
    assert not (here / "home" / ".profile").exists()


def test_a_lock_allows_what_was_grafted_and_nothing_else(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foo = library(here, "foo")
    wheel = wheel_of(here, foo)
    assert run(["repair", "--locked", str(wheel)]) == 1
    assert "`wheelfix.lock` is absent or empty" in capsys.readouterr().err
    assert run(["repair", "--write-lock", str(wheel)]) == 0
    written = (here / "wheelfix.lock").read_text()
    assert 'name = "libfoo.so.1"' in written
    assert 'needed-by = ["demo/m"]' in written
    (here / "wheelfix.toml").write_text("locked = true\n")
    again = ["repair", "--locked", "-w", "again"]
    assert run([*again, str(wheel)]) == 0

    library(here, "foo", 22)
    capsys.readouterr()
    assert run([*again, str(wheel)]) == 1
    said = capsys.readouterr().err
    assert "`libfoo.so.1` has sha256 `" in said
    (here / "wheelfix.lock").write_text(re.sub("(sha256|size) = .*\n", "", written))
    assert run([*again, str(wheel)]) == 0, "what the lock does not fix is free"

    bar = library(here, "bar")
    more = wheel_of(here, foo, bar, module="n")
    capsys.readouterr()
    assert run([*again, str(more)]) == 1
    said = capsys.readouterr().err
    assert "`libbar.so.1` (" in said
    assert "is not in it" in said
    assert "`libfoo.so.1` is needed by `demo/n`, too" in said
    (command,) = re.findall("`wheelfix (repair [^`]*)`", said)
    assert shlex.split(command) == ["repair", "--wheel-dir", "again", "--write-lock", str(more)]
    assert run(shlex.split(command)) == 0
    assert run([*again, str(more)]) == 0


def test_a_library_that_is_gone_is_a_difference(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foo, bar = library(here, "foo"), library(here, "bar")
    assert run(["repair", "--write-lock", str(wheel_of(here, foo, bar))]) == 0
    capsys.readouterr()
    assert run(["repair", "--locked", "-w", "again", str(wheel_of(here, foo))]) == 1
    assert "`libbar.so.1` is not grafted any more" in capsys.readouterr().err
    assert not (here / "again").exists()


def test_a_lock_is_of_the_wheels_that_were_written(here: Path) -> None:
    """A failed run leaves no lock of wheels that it did not write."""
    broken, lock = here / "demo-2-py3-none-any.whl", here / "wheelfix.lock"
    broken.write_bytes(b"x")
    assert run(["repair", "--write-lock", str(broken)]) == 2
    assert not lock.exists()
    wheel = wheel_of(here, library(here, "foo"))
    assert run(["repair", "--write-lock", str(wheel), str(broken)]) == 2
    assert 'name = "libfoo.so.1"' in lock.read_text()
    assert run(["repair", "--locked", "-w", "again", str(wheel)]) == 0


def test_wheels_of_several_pythons_share_a_table_and_others_keep_theirs(here: Path) -> None:
    foo = library(here, "foo")
    other = '[[graft]]\nwheel = "other"\nplatform = "linux_x86_64"\nname = "libx.so"\n'
    (here / "wheelfix.lock").write_text(other)
    wheels = [wheel_of(here, foo), wheel_of(here, foo, module="n", python="312")]
    assert run(["repair", "--write-lock", *map(str, wheels)]) == 0
    written = (here / "wheelfix.lock").read_text()
    assert written.count("[[graft]]") == 2
    assert 'needed-by = ["demo/m", "demo/n"]' in written
    assert 'name = "libx.so"' in written
    for wheel in wheels:
        assert run(["repair", "--locked", "-w", "again", str(wheel)]) == 0


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel in `dist`, beside the folder `lib` with its library."""
    folder = tmp_path_factory.mktemp("wheel")
    return wheel_of(folder, library(folder, "foo"))


TABLE = '[[graft]]\nwheel = "other"\nplatform = "linux_x86_64"\nname = "libx.so"\n'


@pytest.mark.parametrize(
    "text",
    [
        *("[", "graft = 1", "other = 1", "[[graft]]\nname = 1", '[[graft]]\nname = "x"', TABLE * 2),
        *(f"{TABLE}needed-by = {value}" for value in ("5", "[5]", '"x"', "{a = 1}")),
        *(f"{TABLE}{row}" for row in ("size = 1979-05-27", "sha256 = []", '"a b" = 1', "x = nan")),
    ],
)
@pytest.mark.parametrize("option", ["--locked", "--write-lock"])
def test_a_broken_lock_is_an_error_of_one_line(  # noqa: PLR0913, PLR0917 - fixtures
    here: Path,
    wheel: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    option: str,
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(wheel.parents[1] / "lib"))
    (here / "wheelfix.lock").write_text(text)
    assert run(["repair", option, str(wheel)]) == 2
    said = capsys.readouterr().err
    assert "wheelfix.lock" in said
    assert "internal error" not in said
    assert "delete it; the same repair with `--write-lock` writes it anew" in said
    if (text, option) == ("[", "--locked"):  # what follows does not depend on what was deleted
        (here / "wheelfix.lock").unlink()
        assert run(["repair", "--write-lock", "-w", "again", str(wheel)]) == 0


def test_only_allowed_libraries_are_grafted(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = str(wheel_of(here, library(here, "foo"), library(here, "bar")))
    assert run(["repair", "--graft", "libfoo*", wheel]) == 1
    assert "`libbar.so.1` is grafted, and `grafts` does not list it" in capsys.readouterr().err
    assert run(["repair", "--graft", "libfoo*", "--graft", "libbar*", wheel]) == 0


def test_files_that_must_be_there_and_no_others(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = str(wheel_of(here, library(here, "foo")))
    for lists, wrong in (
        ('only = ["demo/*"]', ""),
        ('only = ["demo/*.so"]', "1 file that `only` of `files` does not list: `demo/__init__.py`"),
        ('must = ["demo/*.py", "*.dist-info/METADATA"]', ""),
        ('must = ["*/LICENSE"]', "has no file `*/LICENSE`"),
    ):
        (here / "wheelfix.toml").write_text(f"[files]\n{lists}\n")
        assert run(["check", "--select", "WF526", wheel]) == bool(wrong)
        assert wrong in capsys.readouterr().out
