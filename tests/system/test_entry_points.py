"""Entry points are those that importlib.metadata finds."""

import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from wheelfix.system.entry_points import entry_points

TEXT = "[acme.rules]\nsize = acme:SIZE\n"


def found() -> list[tuple[str, str]]:
    points = [(point.name, point.value) for point in entry_points("acme.rules")]
    judged = metadata.entry_points(group="acme.rules")
    assert points == [(point.name, point.value) for point in judged]
    return points


@pytest.mark.parametrize("info", ["acme-1.0.dist-info", "acme.egg-info", "acme.egg/EGG-INFO"])
def test_a_folder_with_entry_points_is_found(
    info: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / info
    folder.mkdir(parents=True)
    name = "METADATA" if info.endswith("dist-info") else "PKG-INFO"
    (folder / name).write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(TEXT)
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
