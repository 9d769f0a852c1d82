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
from collections.abc import Iterable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from wheelfix.system.signal_mask import hold_signals, set_handler

if TYPE_CHECKING:
    from wheelfix.errors import WheelfixError

LIMITED = frozenset({"check", "diff", "doctor", "explain", "repair", "show", "why"})
"""The commands that work in one process."""
REPORTING = frozenset({"check"})
"""Those whose reports say it of a wheel that ended the process: the supervisor writes them."""
CHANNEL: ContextVar[int] = ContextVar("CHANNEL", default=-1)
"""The descriptor by which the child says until when it may work; -1 without a supervisor."""
LOST: ContextVar[Exception | None] = ContextVar("LOST", default=None)
"""How the process ended that checked the only wheel; None if it did not."""
_GRACE = 2.0
"""Seconds after a limit in which the child may still end itself, which leaves nothing behind."""
_LONGEST = 1000
"""Characters of a name that are sent, so that each line is written at once (pipe(7), PIPE_BUF)."""


def supervise(arguments: Sequence[str]) -> None:
    """Go on in a child, if the command has a limit of time; the caller's process waits for it.

    It goes on itself if the child ends by its limit or by a crash, and the command reports that.
    """
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
        is_reported = not REPORTING.isdisjoint(arguments[:2])
        LOST.set(_wait(child, receive, came, writer, is_reported=is_reported))
        any(map(os.close, (receive, life, came, writer)))
        return
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


def _wait(child: int, receive: int, came: int, writer: int, *, is_reported: bool) -> Exception:
    """Wait for the child, and end as it does, or end it when its time is over.

    If that, and a crash of it, `is_reported`, return it as workers do (`system.workers`).

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
    pending = b""
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        first = min(limits.values(), default=None)
        grace = 0 if is_reported else _GRACE
        left = None if first is None else first[0] + grace - time.monotonic()
        if left is not None and left <= 0 and first is not None:
            _clean_up(child)
            if is_reported:
                break
            _say_late(float(first[1]), first[2].decode("utf-8", "replace"))
        ready = select.select([receive, came], [], [], left)[0]
        if came in ready:
            os.read(came, 1)
        if receive not in ready:
            continue
        *lines, pending = (pending + os.read(receive, 1 << 16)).split(b"\n")
        _note(lines, limits)
    status = ended[1]
    if is_reported and (not ended[0] or os.WIFSIGNALED(status)):
        return _lost(is_late=not ended[0])
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) == signal.SIGKILL:  # no handler can be set for it
            from wheelfix.errors import process_killed_error  # noqa: PLC0415 - seldom

            _sweep()
            _fail(process_killed_error())
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


def _note(lines: Iterable[bytes], limits: dict[bytes, tuple[float, bytes, bytes]]) -> None:
    """Note until when the child may work, as it has told."""
    for line in lines:
        key, end, seconds, name = line.split(b" ", 3)
        limits.pop(key, None)
        if float(end):
            limits[key] = float(end), seconds, name


def _wake(_number: int, _frame: FrameType | None) -> None:
    """Handle a signal, so that it is written to the descriptor that wakes select()."""


def _lost(*, is_late: bool) -> Exception:
    """Return how the child ended, and be as this process was before it."""
    from wheelfix.system.workers import WorkerDiedError, WorkerTimeoutError  # noqa: PLC0415 - seldom

    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    return WorkerTimeoutError() if is_late else WorkerDiedError()


def _clean_up(child: int) -> None:
    """End the child and what it has started, and remove its files."""
    from wheelfix.system.subprocesses import end_tree  # noqa: PLC0415 - seldom

    end_tree(child)
    os.waitpid(child, 0)
    _sweep()


def _sweep() -> None:
    """Remove the files that processes left which have ended."""
    from wheelfix.host.wheel_cache import sweep_cache  # noqa: PLC0415 - not at each start
    from wheelfix.system.tempfiles import PREFIX, sweep_folders, tmpdir  # noqa: PLC0415 - seldom

    sweep_folders(tmpdir(), PREFIX)
    sweep_cache(os.environ)


def _say_late(seconds: float, name: str) -> NoReturn:
    from wheelfix.errors import time_limit_error  # noqa: PLC0415 - seldom
    from wheelfix.reports.printable import printable  # noqa: PLC0415 - seldom

    _fail(time_limit_error(printable(name), seconds))


def _fail(error: "WheelfixError") -> NoReturn:
    from wheelfix.cli.console import Terminal  # noqa: PLC0415 - not at each start
    from wheelfix.errors import ExitCode  # noqa: PLC0415 - seldom

    Terminal(verbosity=0).fail(error)
    sys.stderr.flush()
    os._exit(ExitCode.ERROR)
