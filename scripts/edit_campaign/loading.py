"""The real loaders, asked about many objects by one process a machine."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_OPENER = """
import ctypes, json, os, signal, struct, sys
size = struct.calcsize("P")
start, count = 2 * size, 3 * size  # of dlpi_phdr and dlpi_phnum
entry = 56 if size == 8 else 32
null = os.open(os.devnull, os.O_WRONLY)
bad = []
@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
def one(info, length, data):
    raw = ctypes.string_at(info, count + 2)
    (table,), (number,) = struct.unpack_from("P", raw, start), struct.unpack_from("H", raw, count)
    headers = ctypes.string_at(table, number * entry)
    kinds = {struct.unpack_from("I", headers, at)[0] for at in range(0, len(headers), entry)}
    bad.extend([] if {1, 2} <= kinds else ["no program headers"])
    return 0
for line in sys.stdin:
    said = []
    paths, value = json.loads(line)
    for path in paths:
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.dup2(null, 1); os.dup2(null, 2)
            signal.alarm(60)
            try:
                if path.endswith(".program"):
                    os.execv(path, [path])
                found = ctypes.CDLL(path, os.RTLD_NOW)
                if value is not None and found.value() != value:
                    bad.append("its function returns a wrong value")
                ctypes.CDLL(None).dl_iterate_phdr(one, None)
                os.write(writer, "".join(bad).encode())
            except (OSError, AttributeError) as error:
                os.write(writer, str(error).encode() or b"?")
            os._exit(0)
        os.close(writer)
        text = b"".join(iter(lambda: os.read(reader, 4096), b"")).decode("utf-8", "replace")
        os.close(reader)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if path.endswith(".program"):
            text = "" if status == 42 else f"status {status}"
        elif status and not text:
            text = f"status {status}"
        said.append(text)
    print(json.dumps(said), flush=True)
"""
_MUSL = """
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **words) {
    void *handle = dlopen(words[1], RTLD_NOW);
    if (!handle) { puts(dlerror()); return 255; }
    return ((int (*)(void))dlsym(handle, "value"))();
}
"""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine whose programs can be run here."""

    runner: tuple[str, ...] = ()
    """qemu and the folder of the machine's libraries; empty for this machine."""
    root: Path | None = None


class Loader:
    """Opens objects of one machine, each in a process of its own, forked from one that lasts."""

    def __init__(self, machine: Machine, work: Path) -> None:
        self._python = [sys.executable]
        if machine.root and machine.runner:
            found = sorted((machine.root / "usr/bin").glob("python3.*[0-9]"))
            self._python = [*machine.runner, str(found[-1])]
        self._openers: dict[str, subprocess.Popen[str]] = {}
        self._musl = work / "musl-opener"
        if shutil.which("musl-gcc"):
            command = ["musl-gcc", "-xc", "-", "-o", str(self._musl)]
            subprocess.run(command, input=_MUSL.encode(), capture_output=True, check=True)

    def answers(
        self, paths: Sequence[Path], folders: Sequence[Path], value: int | None = None
    ) -> Mapping[Path, str]:
        """Return why each object does not load; empty where it does.

        `value` is what the function of that name returns once all is relocated and initialised.
        """
        opener = self._opener(":".join(map(str, folders)))
        assert opener.stdin is not None
        assert opener.stdout is not None
        opener.stdin.write(json.dumps([[str(path) for path in paths], value]) + "\n")
        opener.stdin.flush()
        return dict(zip(paths, json.loads(opener.stdout.readline()), strict=True))

    def answers_of_musl(
        self, paths: Sequence[Path], folders: Sequence[Path], value: int
    ) -> Mapping[Path, str]:
        """Return the same of musl's loader."""
        env = {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, folders))}
        return {path: _said([str(self._musl), str(path)], value, env) for path in paths}

    def close(self) -> None:
        """End the processes."""
        for opener in self._openers.values():
            opener.communicate()

    def _opener(self, places: str) -> subprocess.Popen[str]:
        """Return the process that searches these folders, which glibc reads when that begins."""
        if places not in self._openers:
            self._openers[places] = subprocess.Popen(
                [*self._python, "-c", _OPENER],
                env={**os.environ, "LD_LIBRARY_PATH": places, "LD_BIND_NOW": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        return self._openers[places]


def _said(command: list[str], expected: int, env: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, check=False, timeout=60, env=env, errors="replace"
        )
    except subprocess.TimeoutExpired:
        return "no answer in 60 s"
    if done.returncode == expected:
        return ""
    return f"status {done.returncode} {(done.stdout + done.stderr).strip()[:300]}"
