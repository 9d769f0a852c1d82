"""Replacements of programs and packages."""

from importlib.machinery import PathFinder
from pathlib import Path


def fake_auditwheel(folder: Path, code: str) -> Path:
    """Write an `auditwheel` that runs `code` as soon as its analysis is imported.

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
    (package / "wheel_abi.py").write_text(f"import os, subprocess, sys, time\n{code}\n")
    return folder
