"""auditwheel, started before there is work for it: most of a short run is its imports.

It imports once, and does each task but the last in a fork of itself, which takes a fifth of the
time that another start would. Little is imported here: the sooner it is started, the more of its
imports go on beside our own.
"""

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from wheelfix.errors import ToolError
from wheelfix.system.subprocesses import Completed, completed, end, late, limit, read

_MAIN = """\
import gc
gc.set_threshold(50_000)
import contextlib, importlib, json, logging, os, runpy, sys
for module in "main", "main_repair", "main_show", "wheel_abi", "repair":
    with contextlib.suppress(ImportError):
        importlib.import_module("auditwheel." + module)
gc.freeze()
while task := json.loads(sys.stdin.readline() or "null"):
    child = 0 if task["last"] else os.fork()
    if not child:
        break
    os.write(3, b"%d\\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
else:
    sys.exit()
os.chdir(task["cwd"])
os.environ.clear()
os.environ.update(task["env"])
sys.argv[1:] = task["arguments"]
logging.getLogger("auditwheel.repair").setLevel(logging.DEBUG)
try:
    runpy.run_module("auditwheel", run_name="__main__", alter_sys=True)
except SystemExit as end:
    if end.code:
        raise
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
"""
"""auditwheel, and the one module's debug messages that tell where a library was found: all modules'
(`-v`) are a megabyte and hide the cause of a failure. What is imported is no garbage: nobody has to
look for it there, nor to take it apart at the end."""
# -P: it changes into the wheel, from which nothing shall be imported.
_COMMAND = (sys.executable, "-P", "-c", _MAIN)
_FIXED = {
    "PYTHONHASHSEED": "0",  # it iterates over sets
    "PYTHONUTF8": "1",
}
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_ANSWERS = 3
"""The descriptor to which it writes the exit code of each task."""
_NAME = "auditwheel"
TIMEOUT = 600
"""Seconds for a task."""


class Standby:
    """Programs that wait for a task each. Use it as a context manager; safe to share by threads."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Start none yet; `environ` is the user's environment, in which they are started."""
        self.environ = environ
        self.stays = False
        """Whether more tasks will come, whatever those say that give one."""
        self._waiting: list[_Program] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        while self._waiting:
            self._waiting.pop().stop()

    def prepare(self) -> None:
        """Start one, unless one waits."""
        if not self._waiting:
            self._waiting.append(_started(self.environ))

    def run(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        last: bool = True,
        meanwhile: Callable[[], object] | None = None,
    ) -> Completed:
        """Run auditwheel in `cwd` with all of `env` as its environment.

        It is started anew for a task that comes after the `last`. `meanwhile` is called while it
        works. Raises `ToolError` as `wheelfix.system.subprocesses.run` does.
        """
        try:
            program = self._waiting.pop()
        except IndexError:
            program = _started(self.environ)
        task = {
            "arguments": list(arguments),
            "cwd": str(cwd),
            "env": {**env, **_FIXED},
            "last": last and not self.stays,
        }
        exchange = _Exchange(program, f"{json.dumps(task)}\n".encode())
        try:
            if meanwhile is not None:
                meanwhile()
            exchange.finish(TIMEOUT)
        except BaseException:
            program.stop()
            raise
        code = exchange.code
        if code is None:
            code = program.stop()
        else:
            self._waiting.append(program)
        return completed(("auditwheel", *arguments), code, exchange.said, name=_NAME)


class _Program(NamedTuple):
    """A process, and our ends of its pipes."""

    pid: int
    tasks: int
    answers: int
    stdout: int
    stderr: int

    def stop(self) -> int:
        """End it, with all that it has started, and return its exit code."""
        end(self.pid)
        for descriptor in self[1:]:
            os.close(descriptor)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def _started(environ: Mapping[str, str]) -> _Program:
    """Start one, in a process group of its own. Raises `ToolError` if that is not possible."""
    pipes = [os.pipe() for _ in range(4)]
    (answers, answering), (asked, tasks), (stdout, said), (stderr, complained) = pipes
    duplicated = ((asked, 0), (said, 1), (complained, 2), (answering, _ANSWERS))
    try:
        pid = os.posix_spawn(
            sys.executable,
            _COMMAND,
            {**environ, **_FIXED},
            file_actions=[(os.POSIX_SPAWN_DUP2, ours, its) for ours, its in duplicated],
            setpgroup=0,
            setsigdef=_IGNORED_BY_PYTHON,
        )
    except OSError as error:
        for descriptor in (tasks, answers, stdout, stderr):
            os.close(descriptor)
        raise ToolError(f"`auditwheel` cannot be run: {error}") from error
    finally:
        for descriptor, _ in duplicated:
            os.close(descriptor)
    for descriptor in (tasks, stdout, stderr):
        os.set_blocking(descriptor, False)
    return _Program(pid=pid, tasks=tasks, answers=answers, stdout=stdout, stderr=stderr)


class _Exchange:
    """A task, and what comes of it."""

    def __init__(self, program: _Program, task: bytes) -> None:
        """Hand it over, as much of it as the pipe takes."""
        self.said = bytearray(), bytearray()
        self.code: int | None = None
        """The exit code of the task; None if the program ended with it, or before."""
        self._program = program
        self._task = task
        self._write()

    def finish(self, timeout: float) -> None:
        """Wait for the end of the task, or of the program.

        Raises `ToolError` if that takes too long, or if too much is printed.
        """
        kept = dict(zip((self._program.stdout, self._program.stderr), self.said, strict=True))
        end = time.monotonic() + timeout
        waiting = select.poll()
        for descriptor in (*kept, self._program.answers):
            waiting.register(descriptor, select.POLLIN)
        waiting.register(self._program.tasks, select.POLLOUT)
        while (left := end - time.monotonic()) > 0:
            for descriptor, _ in waiting.poll(1000 * left):
                if descriptor == self._program.tasks:
                    if not self._write():
                        waiting.unregister(descriptor)
                elif descriptor == self._program.answers:
                    self._end()
                    return
                elif not read(descriptor, kept[descriptor]):
                    waiting.unregister(descriptor)
            limit(_NAME, self.said)
        raise late(_NAME, timeout, self.said)

    def _write(self) -> bool:
        """Write what there is room for, and return whether there is more."""
        try:
            self._task = self._task[os.write(self._program.tasks, self._task) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:  # it ended before; its exit code says why
            self._task = b""
        return bool(self._task)

    def _end(self) -> None:
        """Read what was printed last, and the answer."""
        pipes = (self._program.stdout, self._program.stderr)
        for descriptor, kept in zip(pipes, self.said, strict=True):
            with suppress(BlockingIOError):
                read(descriptor, kept)
        answer = os.read(self._program.answers, 100)
        self.code = int(answer) if answer else None
