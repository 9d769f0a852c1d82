"""Pythons of this machine: found, and asked for their version, platform and paths."""

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from wheelfix.errors import ToolError
from wheelfix.host.containers import Image
from wheelfix.loader.install_schemes import interpreters_of
from wheelfix.named_tuple import NamedTuple
from wheelfix.system.subprocesses import NOT_EXECUTED, run
from wheelfix.text import join_plain

_DESCRIBE_PYTHON = """
import json, platform, sys, sysconfig
try:
    import _ctypes
except ImportError:
    _ctypes = None
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
name = {"CPython": "python", "PyPy": "pypy", "GraalVM": "graalpy"}[platform.python_implementation()]
made = sys.implementation.version
level = "%.1s%d" % made[3:]
free = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
print(json.dumps([
    "%s%d.%d%s" % (name, sys.version_info[0], sys.version_info[1], free),
    getattr(sys, "_base_executable", sys.executable),  # below any virtual environment
    EXTENSION_SUFFIXES, _ctypes is not None, getattr(_ctypes, "__file__", None),
    find_spec("pip") is not None, {
        "platform_release": platform.release(), "platform_version": platform.version(),
        "python_full_version": platform.python_version(),
        "implementation_version": "%d.%d.%d" % made[:3] + level * (made[3] != "final"),
    },
]))
"""


class Interpreter(NamedTuple):
    """One Python of this machine, or of an image."""

    path: str
    """Its executable, below any virtual environment."""
    name: str
    """As in `loader.install_schemes`: `python3.11`, `python3.13t`, `pypy3.9`."""
    suffixes: tuple[str, ...]
    """The file name suffixes of extension modules (PEP 3149)."""
    ctypes: str | None
    """The file of `_ctypes`, the module with dlopen; None if it is built in."""
    has_pip: bool
    """Whether pip is installed for it."""
    markers: Mapping[str, str]
    """The markers of requirements that no tag decides (PEP 508)."""
    image: Image | None = None
    """The image of a container that has it; None for this machine."""

    def environ(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that its programs begin with; `environ` is that of the user."""
        return {} if self.image else without_python_settings(environ)


def interpreter(path: str, environ: Mapping[str, str], image: Image | None = None) -> Interpreter:
    """Run the Python at `path`, here or in `image`, to describe it.

    Raises `ToolError` if it is not a Python, or has no `_ctypes`.
    """
    command = [path, "-I", "-c", _DESCRIBE_PYTHON]
    runner, env = (image.runner(), {}) if image else (run, without_python_settings(environ))
    output = runner(command, env=env, timeout=30, accepted=range(-64, 256))
    try:
        name, executable, suffixes, has_ctypes, ctypes, has_pip, markers = json.loads(output.stdout)
    except (ValueError, TypeError) as error:
        lines = (output.stderr or output.stdout).strip().splitlines()
        # Such as a shim that chooses one of several.
        line = lines[0 if output.code in NOT_EXECUTED else -1] if lines else ""
        what = f": it printed {line[:200]!r}" if lines else ""
        raise ToolError(
            f"`{path}` is not a Python that works{what}", hint="name another one with --python"
        ) from error
    if not has_ctypes:
        raise ToolError(
            f"`{path}` has no module `_ctypes`, with which libraries are loaded",
            hint="name another Python with --python; one that is built where the headers of libffi"
            " are installed has it",
        )
    return Interpreter(
        path=executable,
        name=name,
        suffixes=tuple(suffixes),
        ctypes=ctypes,
        has_pip=has_pip,
        markers=markers,
        image=image,
    )


def named_python(text: str, environ: Mapping[str, str], image: Image | None = None) -> Interpreter:
    """Return the Python at a path, or of this machine that of a version, or of such a name.

    `3.12`, `3.12.1`, `python3.12`. Raises `ToolError`, which names those that wheels may be for.
    """
    try:
        is_version = text[:1].isdigit() and os.sep not in text
        return interpreter(f"python{text}" if is_version else text, environ, image)
    except ToolError as error:
        there = () if image else all_pythons(environ)
        known = {python.name for python in there}
        names = [n.removeprefix("python") for n in interpreters_of("py3", "none") if n in known]
        for python in there:
            full = python.markers["python_full_version"]
            if text.removeprefix("python") in {python.name.removeprefix("python"), full}:
                return python
        takes = f"`--python` takes {join_plain(names, len(names))}, or a path" if names else None
        raise error.with_hint("; ".join(filter(None, (error.hint, takes))) or None) from error


def home_of(environ: Mapping[str, str]) -> Path:
    """Return the home of the user; without one, a folder that is not there."""
    return Path(environ.get("HOME", "/nonexistent"))


def all_pythons(environ: Mapping[str, str]) -> tuple[Interpreter, ...]:
    """Return every Python 3 on PATH, of pyenv, of uv, and of the manylinux images."""
    home = home_of(environ)
    folders = [Path(entry) for entry in environ.get("PATH", "").split(":") if entry.startswith("/")]
    folders += [*(home / ".pyenv" / "versions").glob("*/bin"), *Path("/opt/python").glob("*/bin")]
    folders += (home / ".local" / "share" / "uv" / "python").glob("*/bin")
    pythons: dict[str, Interpreter] = {}
    names = re.compile(r"(python3(\.\d+t?)?|pypy3(\.\d+)?)$")
    for folder in folders:
        with suppress(OSError):
            for path in sorted(folder.iterdir()):
                is_known = os.path.realpath(path) in pythons
                if not is_known and names.match(path.name) and os.access(path, os.X_OK):
                    with suppress(ToolError, ValueError, KeyError):
                        known = interpreter(str(path), environ)
                        pythons.setdefault(os.path.realpath(known.path), known)
    return tuple(pythons.values())


def without_python_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` without variables that affect the loader, Python, or an installer."""
    return {
        name: value
        for name, value in environ.items()
        if not name.startswith(("LD_", "PYTHON", "PIP_", "UV_", "VIRTUAL_ENV", "CONDA", "XDG_"))
        and not name.endswith(("_LIBRARY_PATH", "_HOME"))
    }
