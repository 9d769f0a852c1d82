"""Symbols that the real dynamic loader binds for an object."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.oracles.link_graphs.graphs import SYMBOLS
from wheelfix.elf.model import Elf
from wheelfix.elf.reader import read_elf


@dataclass(frozen=True, kw_only=True)
class Load:
    """What the dynamic loader made of an object."""

    complete: bool
    bindings: frozenset[tuple[str, str, str]]
    """User, symbol and provider; the object itself is `""`. None counts if it is incomplete."""


_BINDING = re.compile(r"binding file (\S+) \[0\] to (\S+) \[0\]: normal symbol `(\w+)'")


_TROUBLE = re.compile(r"undefined symbol|symbol lookup error|version `|cannot open|not found")


def load(path: Path, elf: Elf) -> Load:
    """Load an object in a process of its own, with everything bound at once; glibc only.

    A library comes in as LD_PRELOAD; a program, which has no code to run, is taken as far as
    `ldd -r` does, which relocates everything.
    """
    if not elf.dynamic:
        return Load(complete=True, bindings=frozenset())
    variables = {**os.environ, "LD_BIND_NOW": "1", "LD_DEBUG": "bindings"}
    command = [shutil.which("true") or "true"]
    if elf.is_executable:
        variables |= {"LD_TRACE_LOADED_OBJECTS": "1", "LD_WARN": "1"}
        loader = read_elf(Path(command[0]).read_bytes(), command[0]).interpreter
        command = [str(loader), str(path)]
    else:
        variables["LD_PRELOAD"] = str(path)
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    complete = done.returncode == 0 and not _TROUBLE.search(said)
    found = {
        (_base(user, path), symbol, _base(provider, path))
        for user, provider, symbol in _BINDING.findall(said)
        if symbol in SYMBOLS
    }
    return Load(complete=complete, bindings=frozenset(found) if complete else frozenset())


def _base(file: str, path: Path) -> str:
    name = file.rpartition("/")[2]
    return "" if name == path.name else name
