"""Fresh environments: find a Python, make an empty place, install a wheel there, find it again."""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from wheelfix.errors import SettingsError, ToolError
from wheelfix.host.installed_files import File, by_record, find_dist_info, find_file
from wheelfix.loader.install_schemes import ENV, Key, Scheme, split
from wheelfix.loader.install_schemes import installed as installed_path
from wheelfix.system.subprocesses import run
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.reader import open_wheel

INSTALLER_SCHEMES = ("venv", "prefix", "user", "target")
"""The install schemes that an installer makes here without being root; uv does if it is there.

`-pip` or `-uv` after one chooses the installer: `target-pip`.
"""
UNPACKED_SCHEMES = ("conda", "debian-system", "debian-prefix-pip", "lib64")
"""The schemes of other systems: the files are put where an installer would put them there."""
ALL_SCHEMES = ("venv", "prefix", "user", "target-pip", "target-uv", *UNPACKED_SCHEMES)
"""All that differ; the wheel's tags may allow fewer of them."""
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
class FreshEnvironment:
    """One environment: where it is, and how its Python is run."""

    root: Path
    python: str
    environ: Mapping[str, str]
    arguments: tuple[str, ...]
    """Options of the installer."""
    installer: str | None = None
    """`pip` or `uv`; without one uv, if it is there."""
    scheme: Scheme | None = None
    """Where to put the files without an installer."""
    paths: tuple[str, ...] = ()
    """Folders that its Python does not search by itself."""


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


def make(
    scheme: str, python: Interpreter, root: Path, environ: Mapping[str, str]
) -> FreshEnvironment:
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
    kind, _, last = scheme.rpartition("-")
    kind, installer = (
        (kind, last) if kind in INSTALLER_SCHEMES and last in {"pip", "uv"} else (scheme, None)
    )
    arguments: tuple[str, ...] = (f"--{kind}", str(env))
    match kind:
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
                hint=f"choose among {', '.join((*INSTALLER_SCHEMES, *UNPACKED_SCHEMES))}, or all",
            )
    return FreshEnvironment(
        root=env, python=executable, environ=clean, arguments=arguments, installer=installer
    )


def make_spread(
    scheme: Scheme, python: Interpreter, root: Path, environ: Mapping[str, str]
) -> FreshEnvironment:
    """Make an empty environment in the shape of `scheme`, a scheme of another system."""
    place = make("prefix", python, root, environ)
    libraries = dict.fromkeys((scheme.platlib, scheme.purelib))
    paths = tuple(str(place.root) + each.removeprefix(ENV) for each in libraries)
    beside = str(root / "dependencies")
    arguments = ("--target", beside)
    return replace(place, scheme=scheme, paths=(*paths, beside), arguments=arguments)


def install(  # noqa: PLR0913 - one for each thing that is chosen
    path: Path,
    wheel: Wheel,
    place: FreshEnvironment,
    environ: Mapping[str, str],
    *,
    dependencies: bool = False,
    beside: Iterable[Path] = (),
) -> None:
    """Install the wheel with uv or pip, whichever is there; `--user` is pip's alone.

    Where the scheme is another system's, the wheel is spread, and an installer is asked for the
    dependencies only: what comes along stands where Python looks last.
    `beside` are other wheels that are installed in the same way.
    """
    if place.scheme is not None:
        spread(path, wheel, place, place.scheme)
        for each in beside:
            with open_wheel(each) as archive:
                other = archive.wheel
            spread(each, other, place, place.scheme)
        if not dependencies:
            return
    source = path.absolute()
    if path.name != str(wheel.name):  # not published yet: installers go by the name
        source = place.root.parent / "tmp" / str(wheel.name)
        source.symlink_to(path.absolute())
    given = {**place.environ, **(_configured(environ) if dependencies else {})}
    others = [str(each.absolute()) for each in beside]
    offline = () if dependencies else ("--no-deps", "--no-index")
    uv = shutil.which("uv") or _beside("uv")
    if uv is None and place.installer == "uv":
        raise ToolError("uv was not found", hint="pip install uv")
    if uv is not None and place.installer != "pip" and "--user" not in place.arguments:
        command = [uv, "pip", "install", "-q", "--link-mode", "copy"]
        command += ["--python", place.python, "--break-system-packages"]
        command += ["--no-cache", "--no-config", "--offline"] if not dependencies else []
    else:
        command = [*_pip(place.python), "install", "-q", "--no-warn-script-location"]
        command += ["--no-compile", "--ignore-installed"]
        given |= {"PIP_BREAK_SYSTEM_PACKAGES": "1", "PIP_ROOT_USER_ACTION": "ignore"}
        given |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    run([*command, *offline, *place.arguments, str(source), *others], env=given, cwd=place.root)


def _configured(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what says where the installers get distributions, by variables and by files."""
    home = Path(environ.get("HOME", "/nonexistent"))
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    files = {
        "UV_CONFIG_FILE": [config / "uv" / "uv.toml"],
        "PIP_CONFIG_FILE": [config / "pip" / "pip.conf", home / ".pip" / "pip.conf"],
    }
    found = {
        variable: str(path)
        for variable, paths in files.items()
        for path in reversed(paths)
        if path.is_file()
    }
    given = {k: v for k, v in environ.items() if k.startswith(("PIP_", "UV_"))}
    return {**found, **given}


def spread(path: Path, wheel: Wheel, place: FreshEnvironment, scheme: Scheme) -> None:
    """Put the members of a wheel where `scheme` has them, with a RECORD of what went where."""
    targets = {
        member.name: place.root / installed.removeprefix(f"{ENV}/")
        for member in wheel.members
        if (installed := installed_path(member.name, wheel, scheme)) is not None
    }
    record = f"{wheel.dist_info}/RECORD"
    site = targets[record].parent.parent
    with open_wheel(path, name=wheel.name) as archive:
        for member in wheel.members:
            target = targets.get(member.name)
            if target is None:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            place_of = split(member.name, wheel)
            is_script = place_of is not None and place_of[0] is Key.SCRIPTS
            with target.open("wb") as file:
                for number, piece in enumerate(archive.inflated(member.name)):
                    mend = is_script and not number and piece.startswith(b"#!python")
                    # PEP 427: installers put the interpreter in its place
                    head = f"#!{place.python}".encode() if mend else b""
                    file.write(head + piece[len(b"#!python") if mend else 0 :])
            target.chmod(0o755 if is_script or member.mode & 0o111 else 0o644)
    rows = (os.path.relpath(target, site) for target in targets.values())
    targets[record].write_text("".join(f"{row},,\n" for row in rows), encoding="utf-8")


def is_there(scheme: str) -> bool:
    """Whether the installer that `scheme` needs is there."""
    if scheme.endswith("-uv"):
        return (shutil.which("uv") or _beside("uv")) is not None
    return (
        scheme in UNPACKED_SCHEMES
        or scheme not in {"user", "target-pip"}
        or find_spec("pip") is not None
    )


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


def find(root: Path, wheel: Wheel, scheme: Scheme | None = None) -> tuple[Path, dict[str, File]]:
    """Return the folder that the wheel's packages are in, and where its files are.

    Where RECORD leads to nothing, as `pip --target` writes it, `scheme` tells.
    """
    members = [member.name for member in wheel.members]
    for folder, names, _ in os.walk(root):
        if any(name.endswith(".dist-info") for name in names):
            found = find_dist_info(Path(folder), wheel.dist_info)
            if found is not None:
                files = by_record(found, members)
                unknown = [member for member in members if member not in files]
                return Path(folder), files | _by_scheme(root, wheel, scheme, unknown)
    raise ToolError(
        f"`{wheel.name}` was installed, but no {wheel.dist_info} is below {root}",
        hint="please report this, with the installer's version",
    )


def _by_scheme(
    root: Path, wheel: Wheel, scheme: Scheme | None, members: Sequence[str]
) -> dict[str, File]:
    found: dict[str, File] = {}
    for member in members if scheme else ():
        place = installed_path(member, wheel, scheme) if scheme else None
        file = find_file(f"{root}{place.removeprefix(ENV)}") if place else None
        if file is not None:
            found[member] = file
    return found
