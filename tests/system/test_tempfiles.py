"""The folder for temporary files."""

import errno
import os
import tempfile
from pathlib import Path

import pytest

from wheelfix.system.tempfiles import remove_own, scratch, tmpdir


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", None)


@pytest.mark.parametrize(
    "named",
    [
        {},
        {"TMPDIR": "a", "TEMP": "b"},
        {"TMPDIR": "", "TEMP": "b"},
        {"TMPDIR": "missing", "TMP": "a"},
        {"TMPDIR": "file", "TMP": "a"},
        {"TEMP": "b", "TMP": "a"},
    ],
)
def test_the_folder_is_that_of_pythons_tempfile(
    named: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").touch()
    for name, place in named.items():
        monkeypatch.setenv(name, place)
    assert str(tmpdir()) == tempfile.gettempdir()


def test_nothing_is_written_to_find_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is written to try a folder stays if the process is killed in that moment."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = tmp_path.stat().st_mtime_ns
    assert tmpdir() == tmp_path
    assert tmp_path.stat().st_mtime_ns == before
    tempfile.gettempdir()
    assert tmp_path.stat().st_mtime_ns != before, "this test can fail"


def test_what_cannot_be_looked_at_when_it_is_removed_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails must not end a run in a traceback."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with scratch() as folder:
        monkeypatch.setattr(os, "stat", fails)
        remove_own()
    monkeypatch.undo()
    assert folder.is_dir()
