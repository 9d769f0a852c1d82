"""The steps of a real process."""

import errno
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.oracles.installations.case import CWD, NAMES, Case
from tests.support.waiting import HANGS


@dataclass(kw_only=True)
class ObservedStep:
    """The start, or one dlopen."""

    maps: list[str] = field(default_factory=list[str])
    """All objects in load order, by the path they were opened with."""
    places: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])
    """User, symbol, and the object that the relocated place points into."""
    error: str | None = None


Edge = tuple[str, str, str | None, str]
_BINDING = re.compile(
    r"binding file (.*) \[0\] to (.*) \[0\]: \w+ symbol `(s\d)'(?: \[(.*)\])?$", re.MULTILINE
)


def observe(case: Case) -> list[ObservedStep]:
    """Run the program; return what its steps did."""
    environment = case.environment
    assert environment.main is not None
    variables = {
        "LD_BIND_NOW": "1",
        "LD_DEBUG": "libs,bindings",
        "LD_DEBUG_OUTPUT": f"{case.root}/debug",
    }
    if environment.library_path:
        variables["LD_LIBRARY_PATH"] = ":".join(environment.library_path)
    done = subprocess.run(
        [environment.main, *(w for s in case.steps for w in (s.mode, s.caller, s.name))],
        env=variables,
        cwd=environment.cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
    )
    steps: list[ObservedStep] = []
    for line in done.stdout.splitlines():
        word, _, rest = line.partition(" ")
        if word == "map":
            steps[-1].maps.append(rest)
        elif word == "bind":
            user, symbol, provider = rest.split("|")
            steps[-1].places.add((identity(case, user), symbol, identity(case, provider)))
        elif word != "skip":
            steps.append(ObservedStep(error=rest or None))
    if done.returncode:
        steps.append(ObservedStep(error=done.stderr or str(done.returncode)))
    return steps


def in_cwd(cwd: str, path: str) -> Path:
    """Return where `path` leads in a process with the current directory `cwd`."""
    return Path(cwd, path.replace(f"{CWD}/", ""))


def identity(case: Case, path: str) -> str:
    """Return what all names of a file have in common."""
    if path in {"", "?"}:
        return path
    environment = case.environment
    main = path in {"main", environment.main}
    real = "main" if main else os.path.realpath(in_cwd(environment.cwd or "/", path))
    return environment.hard_links.get(real, real)


def tried(case: Case, log: str) -> Iterator[str]:
    """Yield the existing files that glibc tried."""
    for path in re.findall(r"trying file=(.*)", log):
        name = path.rpartition("/")[2]
        if name in NAMES and exists(f"{case.root}/d2/", path):
            yield path


def exists(cwd: str, path: str) -> bool:
    """Whether there is something, be it a loop of links."""
    try:
        in_cwd(cwd, path).stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return True


def logged_bindings(case: Case, log: str) -> list[Edge]:
    """Return what glibc says that it binds, in order, each once."""
    return list(
        dict.fromkeys(
            (identity(case, user), symbol, version or None, identity(case, provider))
            for user, provider, symbol, version in _BINDING.findall(log)
        )
    )
