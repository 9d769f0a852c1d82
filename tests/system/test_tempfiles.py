"""The folder for temporary files."""

import tempfile
from pathlib import Path

import pytest

from wheelfix.system.tempfiles import tmpdir


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
