"""Single texts of unverified wheels, damaged ones among them."""

import zipfile
from pathlib import Path

import pytest

from wheelfix.errors import BadWheelError, SettingsError
from wheelfix.wheel.metadata_reader import member_text, open_unverified


def test_a_text_is_read_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("short", "caf\xe9".encode())
        archive.writestr("wrong", b"caf\xe9")
        archive.writestr("long", bytes(5 << 20))
    with open_unverified(path) as archive:
        assert member_text(archive, "short") == "caf\xe9"
        assert member_text(archive, "wrong") == "caf\N{REPLACEMENT CHARACTER}"
        assert len(member_text(archive, "long")) == 4 << 20


def test_what_is_no_wheel_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.whl"
    text.write_text("no zip")
    for path, reason in (
        (tmp_path / "none.whl", "No such file"),
        (tmp_path, "Is a directory"),
    ):
        with pytest.raises(SettingsError, match=reason), open_unverified(path):
            pass
    with pytest.raises(BadWheelError, match="not a zip file"), open_unverified(text):
        pass


def test_damage_that_shows_while_reading_is_the_same_error(tmp_path: Path) -> None:
    path = tmp_path / "a.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("text", "some text")
    path.write_bytes(path.read_bytes().replace(b"some text", b"same text"))
    with pytest.raises(BadWheelError, match="wrong checksum"), open_unverified(path) as archive:
        member_text(archive, "text")
