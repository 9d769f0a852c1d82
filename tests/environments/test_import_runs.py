"""Logs of the loader lie where what is imported can write."""

import os
from pathlib import Path

import pytest

from wheelfix.environments import import_runs


def test_logs_that_an_import_has_replaced_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_runs, "_MOST", 1 << 24)
    folder = tmp_path / "log"
    assert import_runs.read_logs(folder, 7, ["far"]) == []
    folder.mkdir()
    lines = "binding file /a.so [0] to /b.so [0]: normal symbol `far'\n"
    (folder / "log.10").write_text(f"         7:\t{lines}")
    os.mkfifo(folder / "log.11")
    (folder / "log.12").mkdir()
    (folder / "log.13").symlink_to("/dev/zero")
    (folder / "log.14").symlink_to("nowhere")
    (folder / "log.15").touch()
    os.truncate(folder / "log.15", 1 << 40)
    [logged] = import_runs.read_logs(folder, 7, ["far"])
    assert [one.provider for one in logged.bindings] == ["/b.so"]
