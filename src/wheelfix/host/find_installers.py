"""The installers on this machine: uv, and a pip that can install for a Python or download."""

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from wheelfix.errors import ToolError
from wheelfix.host.prefixes import is_venv


def find_uv() -> str | None:
    """Return the path of uv: on PATH, or beside the Python that runs wheelfix."""
    return shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))


def pip_for(python: str) -> list[str]:
    """Return the command of a pip that can install for `python`."""
    if find_spec("pip") is not None:
        return [sys.executable, "-I", "-m", "pip", "--python", python]
    if not is_venv(Path(python).parent.parent):
        return [python, "-I", "-m", "pip"]
    raise ToolError("no installer was found", hint="pip install uv")


def any_pip() -> list[str]:
    """Return the command of a pip, for whatever Python; raises `ToolError` if there is none."""
    if find_spec("pip") is not None:
        return [sys.executable, "-I", "-m", "pip"]
    uv = find_uv()
    if uv is None:
        raise ToolError("pip was not found", hint="pip install pip, or uv")
    return [uv, "tool", "run", "pip"]
