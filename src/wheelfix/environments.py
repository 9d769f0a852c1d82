"""Fresh environments: find a Python, make an empty place, install a wheel there, find it again."""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from wheelfix.errors import SettingsError, ToolError
from wheelfix.installed import by_record, find_dist_info
from wheelfix.testimony import File
from wheelfix.tools.run import run
from wheelfix.wheel import Wheel

SCHEMES = ("venv", "prefix", "user", "target")
"""The install schemes that can be made here without being root."""
_TELL = """
import _ctypes, json, platform, sys, sysconfig
from importlib.machinery import EXTENSION_SUFFIXES
name = {"CPython": "python", "PyPy": "pypy", "GraalVM": "graalpy"}[platform.python_implementation()]
free = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
print(json.dumps([
    "%s%d.%d%s" % (name, sys.version_info[0], sys.version_info[1], free),
    EXTENSION_SUFFIXES, sys.executable, sys.prefix != sys.base_prefix,
    getattr(sys, "_base_executable", sys.executable), getattr(_ctypes, "__file__", None),
]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """One Python of this machine."""

    path: str
    """Its executable, below any virtual environment."""
    name: str
    """`python3.11`, `python3.13t`, `pypy3.9`: as `layout` names them."""
    suffixes: tuple[str, ...]
    """Of extension modules (PEP 3149)."""
    ctypes: str | None
    """Where `_ctypes` is, which has dlopen; None if it is built in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One environment: where it is, and how its Python is run."""

    root: Path
    python: str
    environ: Mapping[str, str]
    arguments: tuple[str, ...]
    """Options of the installer."""


# --- Interpreters ---------------------------------------------------------------------------------


def interpreter(path: str, environ: Mapping[str, str]) -> Interpreter:
    """Ask the Python at `path` what it is; `ToolError` if it is none."""
    said = run([path, "-I", "-c", _TELL], env=_clean(environ), timeout=30).stdout
    name, suffixes, executable, is_virtual, base, ctypes = json.loads(said)
    real = str(base if is_virtual else executable)
    return Interpreter(path=real, name=name, suffixes=tuple(suffixes), ctypes=ctypes)


def all_pythons(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return every Python 3 that is found: on PATH, of pyenv, of uv, of the manylinux images."""
    home = Path(environ.get("HOME", "/nonexistent"))
    folders = [Path(each) for each in environ.get("PATH", "").split(":") if each]
    folders += [*(home / ".pyenv" / "versions").glob("*/bin"), *Path("/opt/python").glob("*/bin")]
    folders += (home / ".local" / "share" / "uv" / "python").glob("*/bin")
    found: dict[str, str] = {}
    names = re.compile(r"(python3(\.\d+t?)?|pypy3(\.\d+)?)$")
    for folder in folders:
        with suppress(OSError):
            for path in sorted(folder.iterdir()):
                if names.match(path.name) and os.access(path, os.X_OK):
                    with suppress(ToolError, ValueError, KeyError):
                        known = interpreter(str(path), environ)
                        found.setdefault(os.path.realpath(known.path), known.path)
    return tuple(found.values())


# --- Places --------------------------------------------------------------------------------------


def _clean(environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` without what would reach into a loader or a Python."""
    return {
        name: value
        for name, value in environ.items()
        if not name.startswith(("LD_", "PYTHON", "PIP_", "UV_", "VIRTUAL_ENV", "CONDA"))
        and not name.endswith(("_LIBRARY_PATH", "_HOME"))
    }


def make(scheme: str, python: Interpreter, root: Path, environ: Mapping[str, str]) -> Place:
    """Make an empty environment; its home and its temporary folder are in it."""
    for name in ("home", "tmp", "env"):
        (root / name).mkdir()
    clean = {
        **_clean(environ),
        "HOME": str(root / "home"),
        "TMPDIR": str(root / "tmp"),
        "LD_BIND_NOW": "1",
    }
    clean = {name: value for name, value in clean.items() if not name.startswith("XDG_")}
    env = root / "env"
    executable = python.path
    arguments: tuple[str, ...] = (f"--{scheme}", str(env))
    match scheme:
        case "venv":
            run([python.path, "-I", "-m", "venv", "--without-pip", str(env)], env=clean)
            executable = str(env / "bin" / "python")
            arguments = ()
        case "user":
            clean["PYTHONUSERBASE"] = str(env)
            arguments = ("--user",)
        case "prefix" | "target":
            pass
        case _:
            raise SettingsError(
                f"the scheme `{scheme}` cannot be made here",
                hint=f"choose among {', '.join(SCHEMES)}",
            )
    return Place(root=env, python=executable, environ=clean, arguments=arguments)


def install(  # noqa: PLR0913 - one for each thing that is chosen
    path: Path,
    wheel: Wheel,
    place: Place,
    environ: Mapping[str, str],
    *,
    dependencies: bool = False,
    beside: Iterable[Path] = (),
) -> None:
    """Install the wheel with uv or pip, whichever is there; `--user` is pip's alone.

    `beside` are other wheels that are installed by the same command.
    """
    source = path.absolute()
    if path.name != str(wheel.name):  # not published yet: installers go by the name
        source = place.root.parent / "tmp" / str(wheel.name)
        source.symlink_to(path.absolute())
    network = {k: v for k, v in environ.items() if k.startswith(("PIP_", "UV_"))}
    given = {**place.environ, **(network if dependencies else {})}
    others = [str(each.absolute()) for each in beside]
    offline = () if dependencies else ("--no-deps", "--no-index")
    uv = shutil.which("uv") or _beside("uv")
    if uv is not None and "--user" not in place.arguments:
        command = [uv, "pip", "install", "-q", "--no-config", "--link-mode", "copy"]
        command += ["--python", place.python, "--break-system-packages"]
        command += ["--no-cache", "--offline"] if not dependencies else []
    else:
        command = [*_pip(place.python), "install", "-q", "--no-warn-script-location"]
        command += ["--no-compile", "--ignore-installed"]
        given |= {"PIP_BREAK_SYSTEM_PACKAGES": "1", "PIP_ROOT_USER_ACTION": "ignore"}
        given |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    run([*command, *offline, *place.arguments, str(source), *others], env=given, cwd=place.root)


def _beside(name: str) -> str | None:
    program = Path(sys.executable).with_name(name)
    return str(program) if os.access(program, os.X_OK) else None


def _pip(python: str) -> list[str]:
    """Return the command of a pip that installs for `python`: ours, or its own."""
    if find_spec("pip") is not None:
        return [sys.executable, "-I", "-m", "pip", "--python", python]
    if not Path(python).parent.with_name("pyvenv.cfg").exists():
        return [python, "-I", "-m", "pip"]
    raise ToolError("no installer was found", hint="pip install uv")


def find(root: Path, wheel: Wheel) -> tuple[Path, dict[str, File]]:
    """Return the folder that the wheel's packages are in, and where its files are."""
    members = [member.name for member in wheel.members]
    for folder, names, _ in os.walk(root):
        if any(name.endswith(".dist-info") for name in names):
            found = find_dist_info(Path(folder), wheel.dist_info)
            if found is not None:
                return Path(folder), by_record(found, members)
    raise ToolError(
        f"`{wheel.name}` was installed, but no {wheel.dist_info} is below {root}",
        hint="please report this, with the installer's version",
    )
