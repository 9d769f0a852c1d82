"""What the benchmark refuses before it measures."""

import sys
from pathlib import Path

import pytest

import bench


@pytest.mark.parametrize("text", ["# Notes\n", ""])
def test_a_file_without_the_mark_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
) -> None:
    file = tmp_path / "notes.md"
    monkeypatch.setattr(sys, "argv", ["bench.py", "--markdown", str(file)])
    assert bench.parse_arguments().markdown == file, "a new file may be written"
    file.write_text(f"{text}{bench.MARK}\nold tables\n", encoding="utf-8")
    assert bench.parse_arguments().markdown == file
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit) as left:
        bench.parse_arguments()
    assert left.value.code == 2
    assert f"`{file}` has no line {bench.MARK}" in capsys.readouterr().err
