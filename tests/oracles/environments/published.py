"""Judge environments of published wheels, and compare doctor's bindings with the real loader's.

    python -m tests.oracles.environments.published [--prove] [NAME|VENV...]

A NAME is one of `published.toml`, by default all: the environment is made with uv below TMPDIR, and
removed. They work, so an error or a warning of doctor is wrong. Then each environment's packages
are imported in two orders, under the loader's log. Compared is every binding to the file of another
distribution. Exits with 1 if anything differs. The packages are executed: name only environments
that you trust.
"""

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from tests.oracles.environments.compare import logged
from wheelfix.budget import Budget
from wheelfix.environments.bindings import Opened, bindings
from wheelfix.environments.modules import InstalledModules
from wheelfix.environments.read_environment import read_modules
from wheelfix.environments.symbols import InstalledSymbols
from wheelfix.host.reachable_files import read_file
from wheelfix.loader.file_system import FileSystem
from wheelfix.loader.load_values import Dlopen
from wheelfix.loader.loading import load_in_turn
from wheelfix.loader.process_bindings import Binding

_EVENT = re.compile(
    r"file=(?P<new>\S+) \[0\];  dynamically loaded by (?P<caller>\S+) \[0\]"
    r"|add (?P<added>\S+) \[0\] to global scope"
    r"|opening file="  # the end of a dlopen
)
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


def main() -> int:
    """Judge and compare the environments that are asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME|VENV", help="by default all of the list")
    parser.add_argument("--prove", action="store_true", help="doctor proves its predictions")
    options = parser.parse_args()
    made = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    number = 0
    for name in options.names or made:
        with tempfile.TemporaryDirectory(prefix="wheelfix-published-") as folder:
            venv = Path(folder, name) if name in made else Path(name)
            if name in made:
                _make(venv, made[name])
            number += _judge(venv, Path(folder), prove=options.prove)
            number += sum(1 for _ in differences(venv))
    print(f"{len(options.names or made)} environments, {number} differences")
    return int(number > 0)


def _make(venv: Path, requirements: Sequence[str]) -> None:
    install = ["uv", "pip", "install", "-q", "--only-binary", ":all:", "--python", str(venv)]
    subprocess.run(["uv", "venv", "-q", "--python", sys.executable, venv], check=True)
    subprocess.run([*install, *requirements], check=True)


def _judge(venv: Path, cache: Path, *, prove: bool) -> int:
    """Print what doctor says; return the number of errors and warnings."""
    command = [sys.executable, "-m", "wheelfix", "doctor", str(venv), "--every-order"]
    command += ["--output-format", "json", *(["--prove"] if prove else [])]
    environ = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=False)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    answer = json.loads(done.stdout)
    found = answer["findings"]
    counts = Counter(one["severity"] for one in found)
    outcomes = Counter(
        one["proof"]["outcome"] for one in (*found, *answer["orders"]) if one["proof"]
    )
    read = ", ".join(f"{answer[key]} {key}" for key in ("distributions", "objects", "modules"))
    print(f"{venv.name}: {read}, {dict(counts)}, {dict(outcomes)}, {seconds:.1f} s", flush=True)
    for one in found:
        if one["severity"] != "note" or _is_wrong(one["proof"]):
            print("  ", one["severity"], one["code"], one["message"], *one["notes"], one["proof"])
    for one in answer["orders"]:
        if _is_wrong(one["proof"]):
            print("  ", *one["imports"], one["proof"])
    return counts["error"] + counts["warning"]


def _is_wrong(proof: Mapping[str, str] | None) -> bool:
    return proof is not None and proof["outcome"] == "not seen"


def differences(folder: Path) -> Iterator[str]:
    """Yield where the log of the loader is not as predicted, and print the figures."""
    modules = read_modules(folder)
    names = sorted({name.partition(".")[0] for name in modules.modules.values()})
    for order in (names, names[::-1]):
        out, log = run(folder, order)
        modules = _with_opened(modules, log)
        want, seen = (
            predicted(modules, log),
            _between(modules, logged(log, modules.symbols.libraries)),
        )
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


def predicted(modules: InstalledModules, log: str) -> set[Binding]:
    """Return the bindings that doctor predicts for the files that were opened."""
    opens = _opens(modules, log)
    loads = load_in_turn(
        [Dlopen(one.name, one.caller) if one.caller else one.name for one in opens],
        FileSystem(modules.world.environment, Budget.of_files()),
    )
    opened = [
        Opened(load, for_all=one.for_all)
        for load, one in zip(loads, opens, strict=True)
        if not load.missing
    ]
    return _between(modules, bindings(modules, opened))


def _with_opened(modules: InstalledModules, log: str) -> InstalledModules:
    """Add the objects that were opened outside of the environment: modules of the interpreter.

    What they load is bound before: zlib by Python's own module, not beside tensorflow's copy.
    """
    world, contents = modules.world, modules.symbols.contents
    opened = {os.path.realpath(event["new"]) for event in _EVENT.finditer(log) if event["new"]}
    more = {path: elf for path in sorted(opened) if (elf := read_file(path)) is not None}
    environment = replace(world.environment, files={**more, **world.environment.files})
    there = replace(world, environment=environment)
    return replace(modules, symbols=InstalledSymbols(world=there, contents=contents))


class _Open(NamedTuple):
    """A call of dlopen in a log."""

    name: str
    caller: str | None = None
    """By whose search path; None for the program's."""
    for_all: bool = False


def _opens(modules: InstalledModules, log: str) -> list[_Open]:
    """Return the calls of dlopen that load something, or that open it for all.

    A file may be opened for all long after it was loaded.
    """
    main, known = modules.world.environment.main, modules.symbols.libraries
    opens: list[_Open] = []
    is_adding = False
    for event in _EVENT.finditer(log):
        name = event["new"] or event["added"] or ""
        path = os.path.realpath(name) if "/" in name else name
        if event["new"]:
            caller = os.path.realpath(event["caller"])
            opens.append(_Open(path, None if caller == main or caller not in known else caller))
        elif event["added"] and not is_adding:
            is_new = bool(opens) and opens[-1].name in {path, path.rpartition("/")[2]}
            last = opens.pop() if is_new else _Open(path)
            opens.append(last._replace(for_all=True))
        is_adding = event["added"] is not None
    return [one for one in opens if one.name in known or "/" not in one.name]


def _between(modules: InstalledModules, edges: Iterable[Binding]) -> set[Binding]:
    """Return the edges to files of distributions, from files of others or of none."""
    return {
        edge
        for edge in edges
        if modules.distribution(edge.provider)
        and modules.distribution(edge.provider) != modules.distribution(edge.user)
    }


if __name__ == "__main__":
    sys.exit(main())
