"""Entry points are those that importlib.metadata finds."""

import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from wheelfix.errors import WheelfixError
from wheelfix.system.entry_points import entry_points

TEXT = "[acme.rules]\nsize = acme:SIZE\n"


def found() -> list[tuple[str, str]]:
    points = [(point.name, point.value) for point in entry_points("acme.rules")]
    judged = metadata.entry_points(group="acme.rules")
    assert points == [(point.name, point.value) for point in judged]
    return points


def installed(folder: Path, text: bytes) -> None:
    folder.mkdir(parents=True)
    name = "METADATA" if folder.suffix == ".dist-info" else "PKG-INFO"
    (folder / name).write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_bytes(text)


@pytest.mark.parametrize("info", ["acme-1.0.dist-info", "acme.egg-info", "acme.egg/EGG-INFO"])
def test_a_folder_with_entry_points_is_found(
    info: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / info
    installed(folder, TEXT.encode())
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder.parent)])
    assert found() == [("size", "acme:SIZE")]


def test_an_archive_with_entry_points_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "acme.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("acme-1.0.dist-info/METADATA", "Name: acme\nVersion: 1.0\n")
        file.writestr("acme-1.0.dist-info/entry_points.txt", TEXT)
    monkeypatch.setattr(sys, "path", [*sys.path, str(archive)])
    assert found() == [("size", "acme:SIZE")]


def test_what_is_not_a_folder_or_has_none_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other-1.0.dist-info").mkdir()
    (tmp_path / "acme-1.0.dist-info").write_text("not a folder")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path), str(tmp_path / "gone")])
    assert found() == []


def test_what_a_finder_of_distributions_knows_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program of one file has one, and no folders."""

    class Finder:
        @staticmethod
        def find_spec(*_: object) -> None:
            """Find no module."""

        @staticmethod
        def find_distributions(*_: object) -> list[metadata.Distribution]:
            return [metadata.Distribution.at(tmp_path / "acme-1.0.dist-info")]

    installed(tmp_path / "acme-1.0.dist-info", TEXT.encode())
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    assert found() == [("size", "acme:SIZE")]


@pytest.mark.parametrize("text", [b"[other]\n\xe4 = a:b\n", b"[other]\nnonsense\n"])
def test_a_file_that_cannot_be_read_is_named_where_there_are_plugins(
    text: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path / "other-1.0.dist-info", text)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    installed(tmp_path / "site" / "acme-1.0.dist-info", TEXT.encode())
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "site")])
    with pytest.raises(WheelfixError, match=r"/other-1\.0\.dist-info/"):
        entry_points("acme.rules")
