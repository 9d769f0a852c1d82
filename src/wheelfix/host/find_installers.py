"""The installers on this machine: uv, and a pip that can install for a Python or download."""

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from wheelfix.errors import ToolError
from wheelfix.host.pythons import Interpreter


def find_uv() -> str | None:
    """Return the path of uv: on PATH, or beside the Python that runs wheelfix."""
    return shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))


def pip_for(python: Interpreter) -> list[str] | None:
    """Return the command of a pip that can install for `python`; None if there is none.

    It is that of the Python that runs wheelfix, or of `python`.
    """
    if python.image is None and (own := _own_pip()):
        return own
    return [python.path, "-I", "-m", "pip"] if python.has_pip else None


def any_pip() -> list[str]:
    """Return the command of a pip, for whatever Python; raises `ToolError` if there is none."""
    if pip := _own_pip():
        return pip
    uv = find_uv()
    if uv is None:
        raise ToolError("pip was not found", hint="pip install pip, or uv")
    return [uv, "tool", "run", "pip"]


def _own_pip() -> list[str] | None:
    """Return the command of the pip of the Python that runs wheelfix."""
    return [sys.executable, "-I", "-m", "pip"] if find_spec("pip") is not None else None
