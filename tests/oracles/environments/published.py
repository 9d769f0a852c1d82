"""Compare doctor's bindings with those of the real loader, in environments of published wheels.

    python -m tests.oracles.environments.published VENV...

Each environment's packages are imported in two orders, under the loader's log. Compared is every
binding to the file of another distribution. Exits with 1 if anything differs. The packages are
executed: name only environments that you trust.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.oracles.environments.compare import Edge, logged
from wheelfix.analysis.installed_bindings import Opened, bindings
from wheelfix.analysis.installed_modules import InstalledModules
from wheelfix.budget import Budget
from wheelfix.host.installed_environment import read_modules, site_of
from wheelfix.loader.file_system import FileSystem
from wheelfix.loader.load_values import Dlopen
from wheelfix.loader.loading import load_in_turn

_OPENED = re.compile(r"file=(\S+) \[0\];  dynamically loaded by (\S+) \[0\]")
_PROMOTED = re.compile(r"add (\S+) \[0\] to global scope")
_IMPORT_EACH = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except BaseException as error:
        print(f"failed {name}: {type(error).__name__}: {error}".splitlines()[0])
    else:
        print(f"imported {name}")
"""
_LONGEST = 600
"""Seconds of one process."""


def main(folders: Sequence[str]) -> int:
    """Compare the environments in `folders`."""
    found = [line for folder in folders for line in differences(Path(folder))]
    print(f"{len(folders)} environments, {len(found)} differences")
    return int(bool(found))


def differences(folder: Path) -> Iterator[str]:
    """Yield where the log of the loader is not as predicted, and print the figures."""
    modules = read_modules(site_of(folder))
    names = sorted({name.partition(".")[0] for name in modules.modules.values()})
    for order in (names, names[::-1]):
        out, log = run(folder, order)
        want, seen = predicted(modules, log), _between(modules, logged(log, modules.libraries))
        failed = [line for line in out.splitlines() if line.startswith("failed")]
        print(
            f"{folder.name}: {len(order)} imports, {len(seen)} bindings between distributions",
            *failed,
        )
        for what, edges in (("not seen", want - seen), ("not predicted", seen - want)):
            for edge in sorted(edges, key=str)[:5]:
                print(f"{folder.name}: {what} ({len(edges)}): {edge}", flush=True)
            yield from (f"{edge}" for edge in edges)


def run(folder: Path, names: Sequence[str]) -> tuple[str, str]:
    """Import packages in turn; return what was printed, and the loader's log."""
    environ = {
        key: value for key, value in os.environ.items() if not key.startswith(("LD_", "PYTHON"))
    }
    with tempfile.TemporaryDirectory() as logs:
        done = subprocess.run(
            [folder / "bin/python3", "-I", "-c", _IMPORT_EACH, *names],
            env=environ
            | {
                "LD_BIND_NOW": "1",
                "LD_DEBUG": "bindings,files,scopes",
                "LD_DEBUG_OUTPUT": f"{logs}/log",
                "QT_QPA_PLATFORM": "offscreen",
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=_LONGEST,
        )
        largest = max(Path(logs).iterdir(), key=lambda path: path.stat().st_size)
        return f"{done.stdout}", largest.read_text(errors="replace")


def predicted(modules: InstalledModules, log: str) -> set[Edge]:
    """Return the bindings that doctor predicts for the files that were opened."""
    main = modules.world.environment.main
    roots: list[Dlopen | str] = []
    for name, caller in _OPENED.findall(log):
        by = os.path.realpath(caller)
        path = os.path.realpath(name) if "/" in name else name
        if path in modules.libraries or "/" not in name:
            roots.append(path if by == main or by not in modules.libraries else Dlopen(path, by))
    promoted = {os.path.realpath(path) for path in _PROMOTED.findall(log)}
    loads = load_in_turn(roots, FileSystem(modules.world.environment, Budget.of_files()))
    opened = [
        Opened(load, for_all=load.objects[0] in promoted) for load in loads if not load.missing
    ]
    return _between(
        modules,
        {
            Edge(user, symbol.name, symbol.version, provider)
            for user, symbol, provider in bindings(modules, opened)
        },
    )


def _between(modules: InstalledModules, edges: set[Edge]) -> set[Edge]:
    """Return the edges to files of distributions, from files of others or of none."""
    return {
        edge
        for edge in edges
        if modules.distribution(edge.provider)
        and modules.distribution(edge.provider) != modules.distribution(edge.user)
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
