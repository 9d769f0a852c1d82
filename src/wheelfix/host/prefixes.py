"""Prefixes: folders with a Python and what is installed for it (venv, conda, the system)."""

import os
from collections.abc import Iterator
from pathlib import Path

NAME_ENVIRONMENT = "name a virtual environment, a prefix, or a site-packages folder"


def prefixes_around(folder: Path) -> Iterator[Path]:
    """Yield the folders that may be the prefix of what is in `folder`, the nearest first.

    `prefix/local/lib/python3.11/dist-packages`, of Debian, is the deepest.
    """
    yield folder
    yield from folder.parents[:-1][:5]


def is_venv(prefix: Path) -> bool:
    """Return whether `prefix` is a virtual environment (PEP 405)."""
    return (prefix / "pyvenv.cfg").is_file()


def is_conda(prefix: Path) -> bool:
    """Return whether `prefix` is an environment of conda."""
    return (prefix / "conda-meta").is_dir()


def python_around(folder: Path) -> Path | None:
    """Return the Python of the prefix that `folder` is, or is in."""
    programs = (
        prefix / "bin" / name
        for prefix in prefixes_around(folder)
        for name in ("python3", "python")
    )
    return next((program for program in programs if os.access(program, os.X_OK)), None)
