"""Patterns over what a stranger wrote: twice the text takes about twice the time."""

from collections.abc import Callable
from types import ModuleType

import pytest

from tests.support.effort import takes_at_most
from tests.support.values import elf
from wheelfix.analysis.policy_analysis import libc_of_object
from wheelfix.host import loader_config, verify_diagnosis
from wheelfix.host.ld_debug_log import Log
from wheelfix.wheel.file_likeness import likeness


def _log(line: str) -> object:
    log = Log(1, ["f"])
    log.feed(f"1:\t{line}\n".encode())
    return log.finish()


def _found(module: ModuleType, name: str, text: str | bytes) -> object:
    return vars(module)[name].findall(text)


PATTERNS: dict[str, Callable[[int], object]] = {
    "requests": lambda n: _log("file=" + " [1];  needed by " * n),
    "lists": lambda n: _log(" search path=" + "\t\t(a from file " * n),
    "bindings": lambda n: _log("binding file " + "x [0] to " * n),
    "names of modules": lambda n: libc_of_object("-cpython-312-" * n + ".so", elf()),
    "folders of a loader": lambda n: _found(loader_config, "_SYSTEM_DIRECTORIES", b"a/" * 4 * n),
    "errors of imports": lambda n: _found(verify_diagnosis, "_MISSING", "a" * 4 * n),
    "empty lines": lambda n: likeness(b"\n" * 4 * n),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_takes_time_in_proportion(name: str) -> None:
    work = PATTERNS[name]
    assert takes_at_most(9, lambda: work(32_000), lambda: work(8_000))
