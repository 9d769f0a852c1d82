"""A program of its own: load objects and import modules, each in a forked child, and tell.

It runs under the interpreter of the environment under test (Python 3.6 or later), which has no
wheelfix, and imports little, so that what it has loaded itself helps no library of the wheel.

Jobs come as lines of JSON on stdin: `kind` (load, import, run), `what` (path, module name, argv)
and `timeout` in seconds. The answers are lines of JSON on stdout, in the same order.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import select
import signal
import sys
import tempfile
import time

TAIL = 4000
"""Bytes of the output that are told."""

if False:  # pragma: no cover - for type checkers alone: `typing` is too much to import here
    from typing import Any, BinaryIO


def serve() -> None:
    """Answer each job on stdin, on what was stdout."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="surrogateescape")
    for line in sys.stdin:
        answer = attempt(json.loads(line))
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def attempt(job: dict[str, Any]) -> dict[str, Any]:
    """Do one job in a child, wait for it as long as it may take, and tell how it ended."""
    with tempfile.TemporaryFile() as output:
        receive, send = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(receive)
            child(job, send, output)
        os.close(send)
        text, status = wait(pid, receive, time.monotonic() + job["timeout"])
        os.close(receive)
        kill(pid)
        answer: dict[str, Any] = json.loads(text) if text.endswith(b"\n") else {}
        if status is None:
            answer["hang"] = True
        else:
            answer["code"] = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else status >> 8
        answer["tail"] = tail(output)
        return answer


def wait(pid: int, receive: int, deadline: float) -> tuple[bytes, int | None]:
    """Return what the child has written and its status; None and its end if time is up."""
    text = b""
    is_open = True
    while time.monotonic() < deadline:
        if is_open and select.select([receive], [], [], 0.02)[0]:
            piece = os.read(receive, 1 << 16)
            text += piece
            is_open = bool(piece)
            continue
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            while is_open and select.select([receive], [], [], 0)[0]:
                piece = os.read(receive, 1 << 16)
                text += piece
                is_open = bool(piece)
            return text, status
        if not is_open:
            time.sleep(0.002)
    kill(pid)
    os.waitpid(pid, 0)
    return text, None


def kill(group: int) -> None:
    """End what the child has started, and the child."""
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass


def tail(output: BinaryIO) -> str:
    """Return the end of what the child has printed."""
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - TAIL))
    return output.read().decode("utf-8", "replace")


def child(job: dict[str, Any], send: int, output: BinaryIO) -> None:
    """Do the job, in this process; never return."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    if job["kind"] == "run":
        execute(job["what"])
    faulthandler.enable(2)
    result: dict[str, Any] = {}
    try:
        if job["kind"] == "load":
            import _ctypes

            _ctypes.dlopen(job["what"], os.RTLD_NOW | os.RTLD_LOCAL)
        else:
            importlib.import_module(job["what"])
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the result
        result = {
            "error": str(error),
            "type": type(error).__name__,
            "name": getattr(error, "name", None),
        }
    result["maps"] = mapped()
    data = (json.dumps(result) + "\n").encode()
    while data:
        data = data[os.write(send, data) :]
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def execute(command: list[str]) -> None:
    """Become the program `command`."""
    try:
        os.execv(command[0], command)
    except OSError as error:
        os.write(2, ("%s: %s\n" % (command[0], error.strerror)).encode())
        os._exit(126)


def mapped() -> list[tuple[str, str, str]]:
    """Return device, inode and path of every file with executable code in this process."""
    found = {}
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            fields = line.rstrip("\n").split(None, 5)
            if len(fields) == 6 and fields[1][2] == "x" and fields[5].startswith("/"):
                found[fields[3], fields[4]] = fields[5]
    return [(device, inode, path) for (device, inode), path in found.items()]


if __name__ == "__main__":
    serve()
