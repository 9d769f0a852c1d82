"""The process that the shell waits for, while a child of it does the work.

A limit of time ends a command although its interpreter does not run: a regular expression keeps the
interpreter's lock, so that no thread and no signal handler of the process comes to it. The exit
code is then still 2, which a process that is killed could not have.

Until a limit has passed, this module needs only what each start imports.
"""

import fcntl
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from contextvars import ContextVar
from types import FrameType
from typing import NoReturn

from wheelfix.system.signal_mask import hold_signals, set_handler

LIMITED = frozenset({"check", "diff", "doctor", "explain", "repair", "show", "why"})
"""The commands that work in one process. That of `check` ends its workers for several wheels."""
CHANNEL: ContextVar[int] = ContextVar("CHANNEL", default=-1)
"""The descriptor by which the child says until when it may work; -1 without a supervisor."""
_GRACE = 2.0
"""Seconds after a limit in which the child may still end itself, which leaves nothing behind."""
_LONGEST = 1000
"""Characters of a name that are sent, so that each line is written at once (pipe(7), PIPE_BUF)."""


def supervise(arguments: Sequence[str]) -> None:
    """Go on in a child, if the command has a limit of time; the caller's process waits for it."""
    if LIMITED.isdisjoint(arguments[:2]):
        return
    pipes: list[int] = []
    try:
        for _ in range(3):
            pipes += os.pipe()
        # Python forgets the signals that come to a child that it is still setting up.
        with hold_signals():
            child = os.fork()
    except OSError:  # the limit of processes or files: a thread keeps the limit of time alone
        any(map(os.close, pipes))
        return
    receive, send, alive, life, came, writer = pipes
    if child:
        os.close(send)
        os.close(alive)
        _wait(child, receive, came, writer)
    for descriptor in (receive, life, came, writer):
        os.close(descriptor)
    # The kernel ends the child with its parent: at the end of this pipe it sends the signal.
    fcntl.fcntl(alive, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(alive, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(alive, fcntl.F_SETFL, fcntl.fcntl(alive, fcntl.F_GETFL) | os.O_ASYNC)
    CHANNEL.set(send)


def tell(key: object, seconds: float, name: str) -> None:
    """Say that the work on `name` ends in so many seconds; 0 if it has ended."""
    if (channel := CHANNEL.get()) >= 0:
        end = time.monotonic() + seconds if seconds else 0
        shown = name[:_LONGEST].replace("\n", " ")
        line = f"{os.getpid()}.{key} {end} {seconds} {shown}\n"
        os.write(channel, line.encode("utf-8", "backslashreplace"))


def _wait(child: int, receive: int, came: int, writer: int) -> NoReturn:
    """Wait for the child, and end as it does, or end it when its time is over.

    Signals are written to `writer`, and read from `came`: one that comes right before select()
    waits, the end of the child too, would be seen only when that ends.
    """

    def forward(number: int, _frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):  # it has ended
            os.kill(child, number)

    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    set_handler(forward)
    signal.signal(signal.SIGCHLD, _wake)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    limits: dict[bytes, tuple[float, bytes, bytes]] = {}
    pending = bytearray()
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        first = min(limits.values(), default=None)
        left = None if first is None else first[0] + _GRACE - time.monotonic()
        if left is not None and left <= 0 and first is not None:
            _end(child, float(first[1]), first[2].decode("utf-8", "replace"))
        ready = select.select([receive, came], [], [], left)[0]
        if came in ready:
            os.read(came, 1)
        if receive not in ready:
            continue
        pending += os.read(receive, 1 << 16)
        *lines, rest = pending.split(b"\n")
        pending = bytearray(rest)
        for line in lines:
            key, end, seconds, name = bytes(line).split(b" ", 3)
            limits.pop(key, None)
            if float(end):
                limits[key] = float(end), seconds, name
    status = ended[1]
    if os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


def _wake(_number: int, _frame: FrameType | None) -> None:
    """Handle a signal, so that it is written to the descriptor that wakes select()."""


def _end(child: int, seconds: float, name: str) -> NoReturn:
    """End the child and what it has started, and say why."""
    from wheelfix.cli.console import Terminal  # noqa: PLC0415 - not at each start
    from wheelfix.errors import ExitCode, time_limit_error  # noqa: PLC0415
    from wheelfix.host.wheel_cache import sweep_cache  # noqa: PLC0415
    from wheelfix.reports.printable import printable  # noqa: PLC0415
    from wheelfix.system.subprocesses import end_tree  # noqa: PLC0415
    from wheelfix.system.tempfiles import PREFIX, sweep_folders, tmpdir  # noqa: PLC0415

    end_tree(child)
    os.waitpid(child, 0)
    sweep_folders(tmpdir(), PREFIX)
    sweep_cache(os.environ)
    Terminal(verbosity=0).fail(time_limit_error(printable(name), seconds))
    sys.stderr.flush()
    os._exit(ExitCode.ERROR)
