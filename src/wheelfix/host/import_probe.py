"""Probe of a verification: load objects, import modules and run programs in forked children.

A standalone program. It runs under the Python under test (3.8 or later), which has no wheelfix,
and imports little: libraries loaded by the probe itself would hide missing ones of the wheel.

Jobs are lines of JSON on stdin: `kind` (load, import, imports, run), `what` (path, module name,
module names in turn, argv) and `timeout` in seconds. Answers are lines of JSON on stdout, in the
same order: `pid`, `code` (exit code, or negative signal) or `hang`, `tail` (end of the output),
`maps` (device, inode, path), and after an exception `error`, `type`, `causes` (the texts of the
error and of those before it) and `absent` (modules not found); of several errors, the last one.
`gil` says that an import has enabled the GIL of a free-threaded Python (PEP 703).
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import os
import select
import signal
import sys
import time

TAIL = 4000
"""Bytes of the output in the answer."""
ANSWER = 8 << 20
"""Maximum bytes of an answer; the paths of thousands of libraries are a fraction of it."""
PIPE = 1 << 20
"""Maximum bytes in a pipe (fs.pipe-max-size of proc(5))."""
PIECE = 1 << 16

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from typing import Any


def serve() -> None:
    """Read jobs from stdin, and write the answers to the original stdout."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="surrogateescape")
    for line in sys.stdin:
        answer = attempt(json.loads(line))
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def attempt(job: dict[str, Any]) -> dict[str, Any]:
    """Do one job in a child process with a time limit, and return the answer."""
    receive, send = os.pipe()
    output, prints = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(receive)
        os.close(output)
        child(job, send, prints)
    os.close(send)
    os.close(prints)
    child_output = ProbeOutput(receive, output)
    status = wait(pid, child_output, time.monotonic() + job["timeout"], traces=job["kind"] != "run")
    kill(pid)
    child_output.rest()
    os.close(receive)
    os.close(output)
    answer = child_output.answer()
    if status is None:
        answer["hang"] = True
    else:
        answer["code"] = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else status >> 8
    answer["pid"] = pid
    answer["tail"] = child_output.tail.decode("utf-8", "replace")
    return answer


class ProbeOutput:
    """What a child process writes: its answer, and the end of its output."""

    def __init__(self, receive: int, output: int) -> None:
        self.open = [receive, output]
        self.receive = receive
        self.text = bytearray()
        self.tail = bytearray()

    def listen(self, seconds: float) -> bool:
        """Wait so many seconds for output; return whether there was any."""
        ready = select.select(self.open, [], [], seconds)[0]
        for source in ready:
            piece = os.read(source, PIECE)
            if not piece:
                self.open.remove(source)
            elif source == self.receive:
                self.text += piece[: max(0, ANSWER - len(self.text))]
            else:
                self.tail += piece
                del self.tail[:-TAIL]
        return bool(ready)

    def rest(self) -> None:
        """Read what is in the pipes, but not for ever: other processes may still write."""
        for _ in range(PIPE // PIECE):
            if not self.open or not self.listen(0):
                return

    def answer(self) -> dict[str, Any]:
        """Return the answer of the child; nothing if it is incomplete."""
        try:
            return dict(json.loads(self.text))
        except (TypeError, ValueError):
            return {}


def wait(
    pid: int, child_output: ProbeOutput, deadline: float, *, traces: bool = True
) -> int | None:
    """Read the output of the child, and return its status; None, after killing it, at the deadline.

    A child that `traces` is aborted first, so that its fault handler prints a traceback.
    """
    while time.monotonic() < deadline:
        if child_output.open and child_output.listen(0.02):
            continue
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        if not child_output.open:
            time.sleep(0.002)
    if traces:
        os.kill(pid, signal.SIGABRT)
        end = time.monotonic() + 1
        while time.monotonic() < end:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return None
            child_output.rest()
            time.sleep(0.01)
    kill(pid)
    os.waitpid(pid, 0)
    return None


def kill(group: int) -> None:
    """Kill the child and all that it has started."""
    with contextlib.suppress(OSError):
        os.killpg(group, signal.SIGKILL)


def child(job: dict[str, Any], send: int, output: int) -> None:
    """Do the job, in this process; never return."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if job["kind"] == "run":
        execute(job["what"])
    faulthandler.enable(2)
    result: dict[str, Any] = {}
    is_free = not has_gil()
    for what in job["what"] if job["kind"] == "imports" else [job["what"]]:
        try:
            if job["kind"] == "load":
                import _ctypes  # noqa: PLC0415 - loads libffi

                _ctypes.dlopen(what, os.RTLD_NOW | os.RTLD_LOCAL)
            else:
                importlib.import_module(what)
        except BaseException as error:  # noqa: BLE001 - any exception is the result
            before = result.get("causes", [])
            result = {
                "error": str(error)[:TAIL],
                "type": type(error).__name__,
                "causes": [*before, *(str(one)[:TAIL] for one in causes(error))],
                "absent": absent(error),
            }
    if is_free and has_gil():
        result["gil"] = True
    result["maps"] = mapped_files()
    data = (json.dumps(result) + "\n").encode()
    while data:
        data = data[os.write(send, data) :]
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def has_gil() -> bool:
    """Return whether the GIL is enabled (`sys._is_gil_enabled`, Python 3.13)."""
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def absent(error: BaseException) -> list[str]:
    """Return the modules not found, according to `error` and the exceptions that caused it."""
    return [one.name for one in causes(error) if isinstance(one, ModuleNotFoundError) and one.name]


def causes(error: BaseException | None) -> list[BaseException]:
    """Return `error`, and the exceptions that caused it."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        error = error.__cause__ or error.__context__
    return seen


def execute(command: list[str]) -> None:
    """Replace this process by the program `command`."""
    try:
        os.execv(command[0], command)  # noqa: S606 - the program under test, without a shell
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(126)


def mapped_files() -> list[tuple[str, str, str]]:
    """Return device, inode and path of every file with executable code in this process."""
    found: dict[tuple[str, str], str] = {}
    with open("/proc/self/maps", errors="surrogateescape") as maps:  # noqa: PTH123 - no pathlib
        for line in maps:
            fields = line.rstrip("\n").split(None, 5)
            if len(fields) == 6 and fields[1][2] == "x" and fields[5].startswith("/"):
                found[fields[3], fields[4]] = fields[5]
    return [(device, inode, path) for (device, inode), path in found.items()]


if __name__ == "__main__":
    serve()
