"""The installers on this machine: uv, and the pip that installs for a Python or downloads."""

import sys
from pathlib import Path

from wheelfix.host.pythons import Interpreter
from wheelfix.system.subprocesses import find_program


def find_uv() -> str | None:
    """Return the path of uv: on PATH, or beside the Python that runs wheelfix."""
    return find_program("uv") or find_program("uv", [str(Path(sys.executable).parent)])


def pip_for(python: Interpreter) -> list[str] | None:
    """Return the command of a pip that can install for `python`; None if its image has none."""
    if python.image is None:
        return own_pip()
    return [python.path, "-I", "-m", "pip"] if python.has_pip else None


def own_pip() -> list[str]:
    """Return the command of wheelfix's own pip, which it depends on."""
    return [sys.executable, "-I", "-m", "pip"]
