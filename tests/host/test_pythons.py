"""Pythons of this machine."""

import os
import sys
from pathlib import Path

import pytest

from wheelfix.errors import ToolError
from wheelfix.host.pythons import interpreter


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
