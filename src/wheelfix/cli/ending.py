"""How a run ends before its time."""

import ctypes
import sys
import threading
import time

from wheelfix.tools.run import stop_children

_PAUSE = 0.05
"""Seconds after which is seen what has been started since."""


def stop_everything() -> None:
    """Make the threads that work for this run leave, and end all that it has started.

    Without that, who waits for a thread waits for the program that the thread waits for. A thread
    may be about to start a program, or another thread, so this goes on until the process ends.
    """
    if "concurrent.futures" in sys.modules:
        import logging

        logging.disable()  # an idle thread of a pool would log that it had to leave
    told: set[threading.Thread] = set()
    _stop(told)
    threading.Thread(target=_go_on, args=(told,), daemon=True).start()


def _go_on(told: set[threading.Thread]) -> None:
    while True:
        time.sleep(_PAUSE)
        _stop(told)


def _stop(told: set[threading.Thread]) -> None:
    """End programs, and the threads that were not `told` yet: once, so that they can clean up."""
    for thread in threading.enumerate():
        if thread in told or thread.ident is None:
            continue
        if thread.name.startswith("ThreadPoolExecutor"):
            told.add(thread)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit)
            )
    stop_children()
