"""How a run ends before its time."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from wheelfix.system.scratch import remove_own
from wheelfix.system.subprocesses import stop_children

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def install_signal_handlers() -> Callable[[], None]:
    """From now on, end the run at SIGINT and SIGTERM, except where they are ignored (nohup, `&`).

    The main thread leaves what it does. A thread of its own ends the rest: a handler of Python runs
    in the main thread, and not at all while that waits for a lock, if the signal came just before.
    Return what the main thread calls at its end, to leave the rest to the other.
    """
    came: list[int] = []

    def leave(number: int, _frame: FrameType | None) -> None:
        if not came:  # once, so that what it leaves can clean up
            came.append(number)
            sys.exit(128 + number)

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, leave)
    thread = threading.Thread(target=_wait, args=(reader,), daemon=True)
    # It inherits the mask: a signal that `trace` waits for must not go to a thread that lets it in.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    thread.start()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return lambda: thread.join() if came else None


def _wait(reader: int) -> None:
    while came := os.read(reader, 1):
        if came[0] in _SIGNALS:
            end_now(128 + came[0])


def end_now(code: int) -> NoReturn:
    """End this process with all that it has started, and leave no temporary folder behind.

    Threads are not asked: one may wait for a program, or for a lock whose owner would have to
    leave first. What they write is nowhere but in the temporary folders, or has no name yet.
    """
    for _ in range(2):  # a thread may have started something meanwhile
        _stop_children()
        _remove_folders()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)


def _stop_children() -> None:
    if "wheelfix.system.subprocesses" in sys.modules:  # or nothing was started
        stop_children()


def _remove_folders() -> None:
    if "wheelfix.system.scratch" in sys.modules:  # or none was made
        remove_own()
