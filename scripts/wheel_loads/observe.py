"""Result of loading an object with the real loader."""

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from wheel_loads.model import Edge, LoadResult, identity, label
from wheelfix.host.ld_debug_log import Log, LoggedRequest

OPEN = "import sys, _ctypes\n_ctypes.dlopen(sys.argv[1], 2)"
BINDING = re.compile(
    r"binding file (.*) \[0\] to (.*) \[0\]: \w+ symbol `([^']*)'(?: \[(.*)\])?$", re.MULTILINE
)
UNDEFINED = re.compile(r"undefined symbol: ([^\s,]+)(?:, version (\S+))?")
NO_VERSION = re.compile(r"version `([^']*)' not found")


def observe(
    path: str, python: str, log: Path, *, is_program: bool, symbols: bool
) -> tuple[LoadResult, str]:
    """Load the object at `path`; return the result from LD_DEBUG, and the last line of output."""
    command = [python, "-I", "-S", "-c", OPEN, path]
    variables = {"LD_DEBUG": "libs,files"}
    if symbols:
        variables = {"LD_DEBUG": "libs,files,bindings", "LD_BIND_NOW": "1"}
    if is_program:  # the loader prints its libraries instead of running it
        command, variables = [path], {**variables, "LD_TRACE_LOADED_OBJECTS": "1"}
        variables |= {"LD_WARN": "1"} if symbols else {}
    variables["LD_DEBUG_OUTPUT"] = str(log / "log")
    process = subprocess.Popen(
        command, env=variables, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    output, _ = process.communicate()
    file = log / f"log.{process.pid}"
    text = until_constructors(file.read_bytes(), path, is_program=is_program)
    parser = Log(process.pid)
    parser.feed(text)
    file.unlink()
    requests = [request for image in parser.finish() for request in image.requests]
    if not is_program:
        starts = [
            number
            for number, request in enumerate(requests)
            if request.dlopen and request.name == path
        ]
        requests = requests[starts[0] :] if starts else []
    return LoadResult(
        opened=tuple(request.path for request in requests if request.path is not None),
        tried=tuple(tried(requests)),
        blamed=blame(output, path),
        bound=frozenset(logged_bindings(os.fsdecode(text), path, is_program=is_program)),
        unbound=blamed_symbols(output) if symbols else (),
    ), output.strip().splitlines()[-1] if output.strip() else ""


def until_constructors(log: bytes, path: str, *, is_program: bool) -> bytes:
    """Return the log up to the object's constructors, which may open other libraries."""
    start = 0
    if not is_program:
        start = log.find(b"\tfile=%b [0];  dynamically loaded" % os.fsencode(path))
    end = log.find(b"\tcalling init: ", max(start, 0))
    return log[: log.rfind(b"\n", 0, end) + 1] if end >= 0 else log


def logged_bindings(log: str, path: str, *, is_program: bool) -> Iterator[Edge]:
    """Yield the bindings in a log of LD_DEBUG."""
    start = 0 if is_program else log.find(f"\tfile={path} [0];  dynamically loaded")
    for dependent, provider, symbol, version in BINDING.findall(log, max(start, 0)):
        if dependent != "linux-vdso.so.1":
            yield identity(dependent), symbol, version or None, identity(provider)


def blamed_symbols(output: str) -> tuple[str, ...]:
    """Return the undefined symbols or missing versions in the loader's messages."""
    versions = [f"version {version}" for version in NO_VERSION.findall(output)]
    names = [label(*found) for found in UNDEFINED.findall(output)]
    return tuple(dict.fromkeys(versions or names))


def tried(requests: Sequence[LoggedRequest]) -> Iterator[str]:
    """Yield the candidates that exist."""
    for request in requests:
        for candidate in request.tried:
            if os.path.lexists(candidate.path):
                yield candidate.path


def blame(output: str, path: str) -> str | None:
    """Return the library that the message says is missing or invalid, None if there is none."""
    match = re.search(r"([^\s:]+): cannot open shared object file", output)
    if match is None:
        match = re.search(r"(\S+) => not found", output)
    if match is None:
        match = re.search(
            r"([^\s:]+): (?:invalid ELF|file too short|wrong ELF class|cannot |only ET_DYN)", output
        )
    return match[1] if match is not None and match[1] != path else None
