"""Signal handling: end the run and everything it has started."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from wheelfix.system.signal_mask import SIGNALS, set_handler, start_without_signals
from wheelfix.system.subprocesses import stop_children
from wheelfix.system.tempfiles import remove_own

_ENDING = threading.Lock()
"""Held by the thread that ends the process: the exit code is that of the first."""


def install_signal_handlers() -> Callable[[], None]:
    """Make the signals that end a run clean up first, unless they are ignored (nohup, `&`).

    The handler raises SystemExit in the main thread. A second thread ends the process, as Python
    runs no handler while the main thread waits for a lock. Return a function that waits for the
    second thread if there was a signal; the main thread calls it before it ends.
    """
    came: list[int] = []

    def leave(number: int, _frame: FrameType | None) -> None:
        if not came:  # only once, so that a second signal does not interrupt the cleanup
            came.append(number)
            sys.exit(128 + number)

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    set_handler(leave)
    thread = threading.Thread(target=_wait, args=(reader,), daemon=True)
    start_without_signals(thread.start)  # nor those that `trace` waits for
    return lambda: thread.join() if came else None


def _wait(reader: int) -> None:
    while came := os.read(reader, 1):
        if came[0] in SIGNALS:
            end_now(128 + came[0])


def end_now(code: int) -> NoReturn:
    """End this process and all its children, and remove its temporary folders.

    Threads are not joined, as they may wait for a program or a lock. They write only to temporary
    folders and to files without a name. A thread that sees its program killed may end the process,
    too: it waits here.
    """
    _ENDING.acquire()  # until the process is gone
    for _ in range(2):  # a thread may start a program meanwhile
        stop_children()
        remove_own()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)
