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
    output = os.memfd_create("output")  # not `tempfile`, which may bring OpenSSL
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(receive)
        child(job, send, output)
    os.close(send)
    text, status = wait(
        pid, receive, time.monotonic() + job["timeout"], traces=job["kind"] != "run"
    )
    os.close(receive)
    kill(pid)
    answer: dict[str, Any] = json.loads(text) if text.endswith(b"\n") else {}
    if status is None:
        answer["hang"] = True
    else:
        answer["code"] = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else status >> 8
    answer["tail"] = tail(output)
    os.close(output)
    return answer


def wait(
    pid: int, receive: int, deadline: float, *, traces: bool = True
) -> tuple[bytes, int | None]:
    """Return what the child has written and its status; None and its end if time is up.

    A child that `traces` prints where it stands when it is aborted, by its fault handler.
    """
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
    if traces:
        os.kill(pid, signal.SIGABRT)
        end = time.monotonic() + 1
        while time.monotonic() < end:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return text, None
            time.sleep(0.01)
    kill(pid)
    os.waitpid(pid, 0)
    return text, None


def kill(group: int) -> None:
    """End what the child has started, and the child."""
    with contextlib.suppress(OSError):
        os.killpg(group, signal.SIGKILL)


def tail(output: int) -> str:
    """Return the end of what the child has printed."""
    size = os.lseek(output, 0, os.SEEK_END)
    return os.pread(output, TAIL, max(0, size - TAIL)).decode("utf-8", "replace")


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
            "error": str(error),
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
