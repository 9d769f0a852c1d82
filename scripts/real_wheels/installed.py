"""Wheels as installed: whether their objects load, and what a real use maps."""

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from real_wheels.archives import unhashed
from real_wheels.listed import Published
from real_wheels.programs import run


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What one real use of an installed wheel came to."""

    error: str
    grafted: frozenset[str]
    """Libraries mapped from a `.libs` folder of the environment, by file name."""
    leaked: frozenset[str]
    """Grafted libraries whose fellows outside the environment were mapped, by path."""


# Runs in the environment that is looked at. Each file is loaded in a fork, so that one library
# neither helps nor harms the next. The loader's own --list judges executables: it runs nothing.
LOAD = """
import ctypes, json, os, subprocess, sys
answer, *paths = sys.argv[1:]
maps = [line.split()[-1] for line in open("/proc/self/maps")]
loader = next((path for path in maps if "/ld-" in path), "")

def load(path):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            ctypes.CDLL(path, os.RTLD_NOW)
        except OSError as error:
            os.write(write, str(error).encode()[:4000])
        os._exit(0)
    os.close(write)
    with open(read, errors="replace") as pipe:
        text = pipe.read()
    status = os.waitpid(child, 0)[1]
    return text or (f"died with status {status}" if status else "")

def list_needed(path):
    strict = {**os.environ, "LD_BIND_NOW": "1", "LD_WARN": "1"}
    done = subprocess.run([loader, "--list", path], env=strict, capture_output=True, text=True)
    wrong = [s for s in (done.stdout + done.stderr).splitlines() if "not found" in s or "undefined" in s]
    return "; ".join(wrong) or ("not loadable" if done.returncode else "")

results = {}
for path in paths:
    results[path] = load(path)
    if "cannot dynamically load" in results[path] and loader:
        results[path] = list_needed(path)
json.dump(results, open(answer, "w"))
"""  # noqa: E501 - a program of its own


# Runs a use and tells what was mapped then, and which extensions of the standard library were in.
USE = """
import json, os, sys, traceback
answer, source = sys.argv[1:]
error = ""
try:
    exec(compile(source, "use", "exec"), {"__name__": "__main__"})
except BaseException as caught:
    error = "".join(traceback.format_exception_only(caught)).strip()
standard = [name for name, module in sys.modules.items()
            if "/lib-dynload/" in (getattr(module, "__file__", None) or "")]
maps = sorted({line.split(None, 5)[-1].strip() for line in open("/proc/self/maps") if "/" in line})
json.dump({"error": error, "standard": standard, "maps": maps}, open(answer, "w"))
sys.stdout.flush()
os._exit(0)
"""


@contextlib.contextmanager
def fresh_environment(needs: Sequence[str], tools: Path) -> Generator[Path]:
    """Make a virtual environment that holds only `needs`; it goes away afterwards."""
    with tempfile.TemporaryDirectory(prefix="corpus-") as folder:
        root = Path(folder).resolve() / "env"
        run(sys.executable, "-m", "venv", "--without-pip", root)
        if needs:
            install(root, tools, *needs)
        yield root


def install(root: Path, tools: Path, *requirements: str | Path) -> None:
    """Install into the environment `root`, without dependencies."""
    python = root / "bin" / "python"
    run(tools, "-m", "pip", "--python", python, "install", "-q", "--no-deps", *requirements)


def uninstall(root: Path, tools: Path, name: str) -> None:
    """Take a distribution out of the environment `root`."""
    run(tools, "-m", "pip", "--python", root / "bin" / "python", "uninstall", "-q", "-y", name)


def elf_files(root: Path) -> set[Path]:
    """Find the ELF files below `root`, by their magic number."""
    return {
        Path(folder, name)
        for folder, _, names in os.walk(root)
        for name in names
        if is_elf(Path(folder, name))
    }


def is_elf(path: Path) -> bool:
    """Tell whether a file, not a link, begins with ELF's magic number."""
    if path.is_symlink():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def ask(root: Path, program: str, *arguments: str) -> Any:  # noqa: ANN401 - JSON
    """Run `program` by the environment's interpreter in an empty folder; return its answer."""
    with tempfile.TemporaryDirectory(prefix="corpus-") as folder:
        answer = Path(folder, "answer.json")
        python = root / "bin" / "python"
        run(python, "-I", "-c", program, str(answer), *arguments, cwd=Path(folder))
        return json.loads(answer.read_text())


def load_results(root: Path, files: Iterable[Path]) -> dict[str, str]:
    """Load each file in a child process; the loader's complaint by file, empty if it loaded."""
    results = ask(root, LOAD, *sorted(map(str, files)))
    return {str(Path(path).relative_to(root)): text for path, text in results.items()}


def try_use(root: Path, source: str) -> Use:
    """Run a use in the environment `root` and look at what the loader mapped for it.

    What Python's own extension modules map (libssl for `_ssl`) is no leak: a second process that
    imports only those shows which files these are.
    """
    seen = ask(root, USE, source)
    imports = "\n".join(f"import {name}" for name in seen["standard"])
    pythons_own = set(ask(root, USE, imports)["maps"])
    inside = {Path(path).name for path in seen["maps"] if f"{root}/" in path and ".libs/" in path}
    stems = {unhashed(name).partition(".so")[0] for name in inside}
    return Use(
        error=seen["error"],
        grafted=frozenset(inside),
        leaked=frozenset(
            path
            for path in set(seen["maps"]) - pythons_own
            if f"{root}/" not in path and Path(path).name.partition(".so")[0] in stems
        ),
    )


def use_installed(wheel: Path, needs: Sequence[str], source: str, tools: Path) -> Use:
    """Install `wheel` into a fresh environment and use it there."""
    with fresh_environment(needs, tools) as root:
        install(root, tools, wheel)
        return try_use(root, source)


def load_before_and_after(
    original: Path, repaired: Path, item: Published, tools: Path
) -> tuple[dict[str, str], dict[str, str], str]:
    """Load every ELF file of both wheels at the same place; also the error of the use after."""
    with fresh_environment(item.needs, tools) as root:
        others = elf_files(root)
        install(root, tools, original)
        before = load_results(root, elf_files(root) - others)
        uninstall(root, tools, item.requirement.partition("==")[0])
        install(root, tools, repaired)
        after = load_results(root, elf_files(root) - others)
        error = try_use(root, item.use).error if item.use else ""
    return before, after, error


def load_problems(
    before: Mapping[str, str], after: Mapping[str, str], removed: Collection[str]
) -> list[str]:
    """Complain of each file that loaded before and does not load after, nor was to be removed."""
    return [
        f"{name} loaded before: {after.get(name, 'it is gone')}"
        for name, text in before.items()
        if not text
        and after.get(name, "gone")
        and not (name not in after and any(name.endswith(f"/{member}") for member in removed))
    ]
