"""Installed trees: a wheel put in place by pip, by uv, or by the few lines of `spread`.

They judge what wheelfix believes of install schemes, so nothing here asks wheelfix.
"""

import functools
import json
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pip
from uv import find_uv_bin

BASE_PYTHON = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
"""The interpreter below the virtual environment: `--user` is refused inside one."""

DEBIAN_PYTHON = Path("/usr/bin/python3")

_HERE = sysconfig.get_python_version()
_LOAD_EACH = """
import ctypes, json, os, sys
found = []
for path in sys.argv[1:]:
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(theirs, 1)
        os.dup2(theirs, 2)
        ctypes.CDLL(path)
        print(open("/proc/self/maps").read())
        sys.exit()
    os.close(theirs)
    with open(ours, errors="replace") as stream:
        text = stream.read()
    found.append([os.waitpid(pid, 0)[1] == 0, text])
print(json.dumps(found))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a program said, and whether it went well."""

    ok: bool
    said: str
    """The last line."""
    output: str = ""


def _outcome(ok: bool, output: str) -> Outcome:  # noqa: FBT001 - as the program says it
    lines = output.strip().splitlines()
    return Outcome(ok=ok, said=lines[-1] if lines else "", output=output)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A folder that an installer filled, and how to run what is in it."""

    root: Path
    environment: Mapping[str, str]

    def elf_files(self) -> tuple[Path, ...]:
        """List every ELF file that was installed."""
        found = (
            Path(folder, name) for folder, _, names in os.walk(self.root) for name in sorted(names)
        )
        return tuple(path for path in found if not path.is_symlink() and _is_elf(path))

    def site_packages(self, package: str) -> Path:
        """Find the folder that holds the Python package."""
        (found,) = (path.parent.parent for path in self.root.rglob(f"{package}/__init__.py"))
        return found

    def scripts(self) -> dict[str, Path]:
        """Map the names of the installed programs to their files; a venv's own are left out."""
        folders = [path for path in self.root.rglob("bin") if path.is_dir()]
        return {
            path.name: path
            for folder in folders
            for path in folder.iterdir()
            if not path.name.lower().startswith(("activate", "deactivate", "pydoc", "python"))
        }

    def load_all(self) -> dict[Path, Outcome]:
        """Load every shared object, and run every program, each in a process of its own.

        What one file has loaded cannot help the next.
        """
        files = self.elf_files()
        loaded = self._load_each([path for path in files if ".so" in path.name])
        return {path: loaded[path] if path in loaded else self.run([path]) for path in files}

    def _load_each(self, paths: Sequence[Path]) -> dict[Path, Outcome]:
        """Load shared objects with every symbol bound, as `dlopen` finds their libraries."""
        done = self.run([BASE_PYTHON, "-I", "-S", "-c", _LOAD_EACH, *paths])
        assert done.ok, done.output
        each = zip(paths, json.loads(done.output), strict=True)
        return {path: _outcome(ok, text) for path, (ok, text) in each}

    def own_files(self, output: str) -> frozenset[str]:
        """Return the files of the tree that a listing names, relative to its root."""
        root = re.escape(os.path.realpath(self.root))
        return frozenset(
            os.path.relpath(path, os.path.realpath(self.root))
            for path in map(os.path.realpath, re.findall(rf"(?<!\S){root}/\S+", output))
        )

    def use(self, package: str, code: str) -> Outcome:
        """Run Python code that can import the package."""
        return self.run(
            [BASE_PYTHON, "-S", "-B", "-c", code],
            {"PYTHONPATH": str(self.site_packages(package))},
        )

    def run(
        self, command: Sequence[str | Path], environment: Mapping[str, str] | None = None
    ) -> Outcome:
        """Run a program without any search path from outside; return its last line."""
        clean = {"LD_BIND_NOW": "1", "PATH": "/usr/bin:/bin", **self.environment}
        done = subprocess.run(
            command,
            env={**clean, **(environment or {})},
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
        return _outcome(done.returncode == 0, done.stdout + done.stderr)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """Where a simulated system keeps each folder of a wheel, relative to its root."""

    platlib: str
    purelib: str
    data: str
    scripts: str
    headers: str
    """Without the distribution's name, which installers append."""


SIMULATED: Mapping[str, Scheme] = {
    "debian": Scheme(
        platlib=f"usr/local/lib/python{_HERE}/dist-packages",
        purelib=f"usr/local/lib/python{_HERE}/dist-packages",
        data="usr/local",
        scripts="usr/local/bin",
        headers=f"usr/include/python{_HERE}",
    ),
    "lib64": Scheme(
        platlib=f"usr/lib64/python{_HERE}/site-packages",
        purelib=f"usr/lib/python{_HERE}/site-packages",
        data="usr",
        scripts="usr/bin",
        headers=f"usr/include/python{_HERE}",
    ),
    "free-threaded": Scheme(
        platlib="lib/python3.13t/site-packages",
        purelib="lib/python3.13t/site-packages",
        data="",
        scripts="bin",
        headers="include/site/python3.13",
    ),
    "pypy": Scheme(
        platlib="lib/pypy3.9/site-packages",
        purelib="lib/pypy3.9/site-packages",
        data="",
        scripts="bin",
        headers="include/site/python3.9",
    ),
}

REAL = (
    "venv-pip",
    "venv-uv",
    "prefix-pip",
    "prefix-uv",
    "user-pip",
    "target-pip",
    "target-uv",
    "debian-pip",
)


def install(wheel: Path, name: str, root: Path) -> Tree:
    """Install `wheel` below `root` in the way of one name of `REAL` or `SIMULATED`."""
    if name in SIMULATED:
        return spread(wheel, SIMULATED[name], root)
    kind, installer = name.split("-")
    environment = {"PYTHONUSERBASE": str(root)} if kind == "user" else {}
    python, options = BASE_PYTHON, [f"--{kind}", str(root)]
    match kind:
        case "venv":
            _call([find_uv_bin(), "venv", "-q", "--no-config", "-p", python, root])
            python, options = root / "bin" / "python", []
        case "user":
            options = ["--user"]
        case "debian":
            python, options = DEBIAN_PYTHON, ["--prefix", str(root)]
        case _:
            pass
    (_pip if installer == "pip" else _uv)(python, [*options, str(wheel)], environment)
    return Tree(root=root, environment=environment)


def spread(wheel: Path, scheme: Scheme, root: Path) -> Tree:
    """Spread a wheel by the scheme: unpack, and move each folder of `*.data` to its place."""
    with zipfile.ZipFile(wheel) as archive:
        (record,) = (n for n in archive.namelist() if n.endswith(".dist-info/RECORD"))
        stem = record.split("/")[0].removesuffix(".dist-info")
        text = archive.read(f"{stem}.dist-info/WHEEL").decode().lower()
        site = scheme.purelib if "root-is-purelib: true" in text else scheme.platlib
        places = {
            "platlib": scheme.platlib,
            "purelib": scheme.purelib,
            "data": scheme.data,
            "scripts": scheme.scripts,
            "headers": f"{scheme.headers}/{stem.split('-')[0]}",
        }
        for member in archive.infolist():
            folder, _, rest = member.filename.partition("/")
            place = site
            if folder == f"{stem}.data" and rest:
                key, _, rest = rest.partition("/")
                place = places[key]
            else:
                rest = member.filename
            if member.is_dir() or not rest:
                continue
            target = root / place / rest
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(_with_interpreter(archive.read(member)))
            target.chmod(member.external_attr >> 16 & 0o777 | 0o600)
    return Tree(root=root, environment={})


@functools.cache
def has_debian_python() -> bool:
    """Tell whether this machine's own Python installs below `local/`, as Debian's does."""
    if not DEBIAN_PYTHON.exists():
        return False
    code = "import sysconfig; print('posix_local' in sysconfig.get_scheme_names())"
    done = subprocess.run([DEBIAN_PYTHON, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() == "True"


@functools.cache
def debian_python_version() -> str:
    """Return the version of Debian's Python, such as 3.11."""
    code = "import sysconfig; print(sysconfig.get_python_version())"
    done = subprocess.run([DEBIAN_PYTHON, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _with_interpreter(content: bytes) -> bytes:
    """Give a script the interpreter, as installers do with `#!python` (PEP 427)."""
    if not content.startswith(b"#!python"):
        return content
    return b"#!" + os.fsencode(BASE_PYTHON) + content.removeprefix(b"#!python")


def _pip(python: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    # What `pip --python` starts, without the process that starts it (pip's main_parser.py).
    command: list[str | Path] = [python, Path(pip.__file__).with_name("__pip-runner__.py"), "-q"]
    options = ["--no-deps", "--no-index", "--no-warn-script-location", "--no-compile"]
    # Debian's Python is marked as externally managed (PEP 668), also against a prefix.
    extra = {"PIP_BREAK_SYSTEM_PACKAGES": "1", "PIP_ROOT_USER_ACTION": "ignore", **environment}
    command += ["--disable-pip-version-check", "install", "--ignore-installed"]
    _call([*command, *options, *arguments], extra)


def _uv(python: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    command = [find_uv_bin(), "pip", "install", "-q", "--no-config", "--no-cache"]
    options = ["--offline", "--no-deps", "--no-index", "--link-mode", "copy", "-p", str(python)]
    _call([*command, *options, *arguments], environment)


def _call(
    command: Sequence[str | Path], environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **(environment or {})}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"
