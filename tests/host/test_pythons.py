"""Pythons of this machine."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from wheelfix.errors import ToolError
from wheelfix.host import pythons
from wheelfix.host.pythons import Interpreter, all_pythons, interpreter, named_python


def _python(path: Path, code: str) -> str:
    """Write a Python that runs `code` first."""
    path.write_text(
        f'#!/bin/sh\nexec {sys.executable} -c "{code}; exec(__import__(\'sys\').argv[-1])" "$3"\n'
    )
    path.chmod(0o755)
    return str(path)


def test_a_python_describes_itself() -> None:
    found = interpreter(sys.executable, os.environ)
    assert found.name == f"python{sys.version_info[0]}.{sys.version_info[1]}"


def test_a_python_is_found_by_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a shim of that name chooses none."""
    environ = {"PATH": str(tmp_path)}
    own = interpreter(sys.executable, os.environ)
    (tmp_path / "python3").symlink_to(own.path)
    version = own.name.removeprefix("python")
    shim = tmp_path / own.name
    shim.write_text(
        "#!/bin/sh\nprintf 'shim: command not found\\n\\nNote: a tip\\n' >&2; exit 127\n"
    )
    shim.chmod(0o755)
    for text in (version, own.name, own.markers["python_full_version"], own.path):
        assert Path(named_python(text, environ).path).samefile(own.path)
    (tmp_path / "3").mkdir()
    (tmp_path / "3" / "python").symlink_to(own.path)
    monkeypatch.chdir(tmp_path)
    assert Path(named_python("3/python", environ).path).samefile(own.path)
    for text, message in (
        ("3.99", "`python3.99` is not installed"),
        (str(shim), f"`{shim}` is not a Python that works: it printed 'shim: command not found'"),
        (f"{tmp_path}/none", f"`{tmp_path}/none` cannot be run: No such file or directory"),
    ):
        with pytest.raises(ToolError) as caught:
            named_python(text, environ)
        assert caught.value.message == message
        assert f"`--python` takes {version}" in (caught.value.hint or "")


def test_an_error_names_in_order_the_pythons_that_wheels_may_be_for(tmp_path: Path) -> None:
    for name in ("python3.11", "python3.9", "python3.6", "pypy3.9"):
        path = tmp_path / name
        described = json.dumps([name, str(path), [], True, None, True, {"python_full_version": ""}])
        path.write_text(f"#!/bin/sh\necho '{described}'\n")
        path.chmod(0o755)
    with pytest.raises(ToolError) as caught:
        named_python("3.99", {"PATH": str(tmp_path)})
    assert caught.value.hint == "`--python` takes 3.9, pypy3.9, 3.11, or a path"


def test_a_python_of_several_names_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def ask(path: str, environ: Mapping[str, str]) -> Interpreter:
        asked.append(path)
        return interpreter(path, environ)

    for name in ("python3", "python3.99"):
        (tmp_path / name).symlink_to(interpreter(sys.executable, os.environ).path)
    monkeypatch.setattr(pythons, "interpreter", ask)
    assert all_pythons({"PATH": str(tmp_path)})[0].path == asked[0] == str(tmp_path / "python3")
    assert [path for path in asked if Path(path).parent == tmp_path] == asked[:1]


def test_a_python_without_ctypes_is_an_error_of_one_sentence(tmp_path: Path) -> None:
    """As one that was built without libffi."""
    python = _python(tmp_path / "python3", "import sys; sys.modules['_ctypes'] = None")
    with pytest.raises(ToolError) as caught:
        interpreter(python, os.environ)
    assert caught.value.message == (
        f"`{python}` has no module `_ctypes`, with which libraries are loaded"
    )
    assert "--python" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("code", "words"),
    [("raise OSError('no such thing')", "'OSError: no such thing'"), ("exit()", "works")],
)
def test_what_is_not_a_python_that_works_is_an_error_of_one_sentence(
    tmp_path: Path, code: str, words: str
) -> None:
    with pytest.raises(ToolError) as caught:
        interpreter(_python(tmp_path / "python3", code), os.environ)
    assert caught.value.message.endswith(words)
    assert "\n" not in caught.value.message + (caught.value.hint or "")
