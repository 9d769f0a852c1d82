"""Replacements of programs and packages."""

from pathlib import Path


def fake_auditwheel(folder: Path, code: str) -> Path:
    """Write an `auditwheel` that runs `code` as soon as its analysis is imported.

    Return the folder in which Python finds it.
    """
    package = folder / "auditwheel"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "wheel_abi.py").write_text(f"import os, subprocess, sys, time\n{code}\n")
    return folder
