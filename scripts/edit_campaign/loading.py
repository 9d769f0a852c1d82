"""The real loaders, asked about many objects at once."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

_NATIVE = """
import ctypes, json, os, signal, sys
walk = ctypes.CDLL(sys.argv[1]).walk
null = os.open(os.devnull, os.O_WRONLY)
said = []
for path in json.load(sys.stdin):
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(null, 1); os.dup2(null, 2)
        signal.alarm(30)
        try:
            if path.endswith(".program"):
                os.execv(path, [path])
            ctypes.CDLL(path, os.RTLD_NOW)
            os.write(writer, b"" if walk() > 1 else b"no program headers")
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
json.dump(said, sys.stdout)
"""
_WALK = """
#define _GNU_SOURCE
#include <link.h>
static int one(struct dl_phdr_info *info, size_t size, void *data) {
    int loads = 0, dynamic = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = info->dlpi_phdr + i;
        loads += header->p_type == PT_LOAD;
        if (header->p_type == PT_DYNAMIC) {
            const ElfW(Dyn) *entry = (const void *)(info->dlpi_addr + header->p_vaddr);
            while (entry->d_tag != DT_NULL) entry++;
            dynamic++;
        }
    }
    if (!loads || !dynamic) *(int *)data = -1000000;
    *(int *)data += 1;
    return 0;
}
int walk(void) { int count = 0; dl_iterate_phdr(one, &count); return count; }
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
    """Opens objects of one machine, each in a process of its own."""

    def __init__(self, machine: Machine, work: Path) -> None:
        self._machine = machine
        self._walk = work / "walk.so"
        self._musl = work / "musl-opener"
        if not machine.runner:
            _compiled("gcc", _WALK, self._walk, "-shared", "-fPIC")
            _compiled("musl-gcc", _MUSL, self._musl)

    def answers(
        self, paths: Sequence[Path], folders: Sequence[Path], *, musl: bool = False
    ) -> Mapping[Path, str]:
        """Return why each object does not load; empty where it does."""
        places = ":".join(map(str, folders))
        if self._machine.runner:
            with ThreadPoolExecutor(1) as pool:
                return dict(zip(paths, pool.map(partial(self._preloaded, places), paths)))
        if musl:
            return {path: self._opened_by_musl(places, path) for path in paths}
        done = subprocess.run(
            [sys.executable, "-c", _NATIVE, str(self._walk)],
            input=json.dumps([str(path) for path in paths]),
            env={**os.environ, "LD_LIBRARY_PATH": places, "LD_BIND_NOW": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        return dict(zip(paths, json.loads(done.stdout), strict=True))

    def _preloaded(self, places: str, path: Path) -> str:
        root = self._machine.root or Path("/")
        settings = ["LD_BIND_NOW=1", f"LD_LIBRARY_PATH={places}", f"LD_PRELOAD={path}"]
        words = [word for setting in settings for word in ("-E", setting)]
        command = [*self._machine.runner, *words, str(root / "bin/true")]
        return _said(command, 0)

    def _opened_by_musl(self, places: str, path: Path) -> str:
        return _said([str(self._musl), str(path)], 42, {**os.environ, "LD_LIBRARY_PATH": places})


def _said(command: list[str], expected: int, env: Mapping[str, str] | None = None) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, check=False, timeout=60, env=env, errors="replace"
        )
    except subprocess.TimeoutExpired:
        return "no answer in 60 s"
    said = (done.stdout + done.stderr).strip()
    if done.returncode == expected and not (said and not env):
        return ""
    return f"status {done.returncode} {said[:300]}"


def _compiled(compiler: str, source: str, path: Path, *flags: str) -> None:
    command = [compiler, "-xc", "-", "-o", str(path), *flags]
    subprocess.run(command, input=source.encode(), capture_output=True, check=False)
