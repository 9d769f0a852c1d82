"""Bindings between the files of an environment: what doctor predicts, held to the loader's log."""

import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.oracles.environments.random_environment import Import
from tests.support.waiting import HANGS
from wheelfix.elf.constants import DF_SYMBOLIC
from wheelfix.environments.bindings import Opened, bindings
from wheelfix.environments.modules import InstalledModules
from wheelfix.loader.process_bindings import Binding

_LINE = re.compile(
    r"binding file (\S+) \[0\] to (\S+) \[0\]: \w+ symbol `([^']*)'(?: \[(.*)\])?$", re.MULTILINE
)


def predicted(modules: InstalledModules, imports: Sequence[Import]) -> set[Binding]:
    """Return the bindings between files of the environment, by doctor."""
    paths = [os.path.realpath(each.path) for each in imports]
    process = modules.world.start_process()
    loads = [process.dlopen(path) for path in paths]
    opened = [Opened(load, each.for_all) for load, each in zip(loads, imports, strict=True)]
    members = modules.world.members
    return {
        edge
        for edge in bindings(modules, opened)
        if edge.user in members and edge.provider in members
    }


def logged(log: str, members: Iterable[str]) -> set[Binding]:
    """Return the bindings between `members` in a log of the loader."""
    known = set(members)
    found = (
        Binding(symbol, os.path.realpath(user), os.path.realpath(provider), version or None)
        for user, provider, symbol, version in _LINE.findall(log)
    )
    return {edge for edge in found if edge.user in known and edge.provider in known}


def compared(edges: Iterable[Binding], modules: InstalledModules) -> set[Binding]:
    """Return the bindings without those that objects with DT_SYMBOLIC find in themselves.

    Nothing else can define these, so they are not looked up in the model.
    """
    files = modules.world.environment.files
    return {
        edge
        for edge in edges
        if edge.user != edge.provider or not files[edge.user].dt_flags & DF_SYMBOLIC
    }


def open_in_turn(program: Path, imports: Sequence[Import]) -> tuple[str, str]:
    """Run the program, which opens files in turn; return its output, and the loader's log."""
    words = [
        word for each in imports for word in ("g" if each.for_all else "n", "", str(each.path))
    ]
    done = subprocess.run(
        [program, *words],
        env={"LD_BIND_NOW": "1", "LD_DEBUG": "bindings"},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
    )
    return done.stdout, done.stderr
