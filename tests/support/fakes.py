"""Replacements of programs and packages."""

import sys
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from tests.support.kept_auditwheel import keep_none


def fake_auditwheel(folder: Path, code: str) -> Path:
    """Write an `auditwheel` that runs `code` as soon as its command is imported.

    It has the policy tables of the real one.

    Return the folder in which Python finds it.
    """
    package = folder / "auditwheel"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    real = PathFinder.find_spec("auditwheel")
    assert real is not None
    assert real.origin is not None
    (package / "policy").symlink_to(Path(real.origin).with_name("policy"))
    (package / "main.py").write_text(f"import os, subprocess, sys, time\n{code}\n")
    return folder


def use_fake_auditwheel(monkeypatch: pytest.MonkeyPatch, folder: Path, code: str) -> None:
    """Let this process, and those that it forks, import the fake, even after the real one."""
    keep_none(monkeypatch)
    for name in [name for name in sys.modules if name.partition(".")[0] == "auditwheel"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [str(fake_auditwheel(folder, code)), *sys.path])
