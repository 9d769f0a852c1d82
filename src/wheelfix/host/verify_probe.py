"""A program of its own: load objects and import modules, each in a forked child, and tell.

It runs under the interpreter of the environment under test (Python 3.8 or later), which has no
wheelfix, and imports little, so that what it has loaded itself helps no library of the wheel.

Jobs come as lines of JSON on stdin: `kind` (load, import, run), `what` (path, module name, argv)
and `timeout` in seconds. The answers are lines of JSON on stdout, in the same order.
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
"""Bytes of the output that are told."""
ANSWER = 8 << 20
"""Bytes that an answer may have; the paths of thousands of libraries are a fraction of it."""
PIPE = 1 << 20
"""Bytes that a pipe may hold (fs.pipe-max-size of proc(5))."""
PIECE = 1 << 16

TYPE_CHECKING = False  # `typing` is too much to import here
if TYPE_CHECKING:
    from typing import Any


def serve() -> None:
    """Answer each job on stdin, on what was stdout."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="surrogateescape")
    for line in sys.stdin:
        answer = attempt(json.loads(line))
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def attempt(job: dict[str, Any]) -> dict[str, Any]:
    """Do one job in a child, wait for it as long as it may take, and tell how it ended."""
    receive, send = os.pipe()
    output, prints = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(receive)
        os.close(output)
        child(job, send, prints)
    os.close(send)
    os.close(prints)
    heard = Heard(receive, output)
    status = wait(pid, heard, time.monotonic() + job["timeout"], traces=job["kind"] != "run")
    kill(pid)
    heard.rest()
    os.close(receive)
    os.close(output)
    answer = heard.answer()
    if status is None:
        answer["hang"] = True
    else:
        answer["code"] = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else status >> 8
    answer["tail"] = heard.tail.decode("utf-8", "replace")
    return answer


class Heard:
    """What a child says: its answer, and the end of what it prints, however much that is."""

    def __init__(self, receive: int, output: int) -> None:
        self.open = [receive, output]
        self.receive = receive
        self.text = bytearray()
        self.tail = bytearray()

    def listen(self, seconds: float) -> bool:
        """Wait so long for something to be said; return whether something was."""
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
        """Hear what waits in the pipes; no more, though somebody may still print."""
        for _ in range(PIPE // PIECE):
            if not self.open or not self.listen(0):
                return

    def answer(self) -> dict[str, Any]:
        """Return what the child has answered; nothing if that is not whole."""
        try:
            return dict(json.loads(self.text))
        except (TypeError, ValueError):
            return {}


def wait(pid: int, heard: Heard, deadline: float, *, traces: bool = True) -> int | None:
    """Hear the child, and return its status; None and its end if time is up.

    A child that `traces` prints where it stands when it is aborted, by its fault handler.
    """
    while time.monotonic() < deadline:
        if heard.open and heard.listen(0.02):
            continue
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        if not heard.open:
            time.sleep(0.002)
    if traces:
        os.kill(pid, signal.SIGABRT)
        end = time.monotonic() + 1
        while time.monotonic() < end:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return None
            heard.rest()
            time.sleep(0.01)
    kill(pid)
    os.waitpid(pid, 0)
    return None


def kill(group: int) -> None:
    """End what the child has started, and the child."""
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
    try:
        if job["kind"] == "load":
            import _ctypes  # noqa: PLC0415 - it brings libffi: not before it is needed

            _ctypes.dlopen(job["what"], os.RTLD_NOW | os.RTLD_LOCAL)
        else:
            importlib.import_module(job["what"])
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the result
        result = {
            "error": str(error)[:TAIL],
            "type": type(error).__name__,
            "absent": absent(error),
        }
    result["maps"] = mapped()
    data = (json.dumps(result) + "\n").encode()
    while data:
        data = data[os.write(send, data) :]
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def absent(error: BaseException | None) -> list[str]:
    """Return the modules that were not found, by the exceptions that led to `error`."""
    found: list[str] = []
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        if isinstance(error, ModuleNotFoundError) and error.name:
            found.append(error.name)
        error = error.__cause__ or error.__context__
    return found


def execute(command: list[str]) -> None:
    """Become the program `command`."""
    try:
        os.execv(command[0], command)  # noqa: S606 - the program under test, without a shell
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(126)


def mapped() -> list[tuple[str, str, str]]:
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
