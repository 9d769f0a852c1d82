"""How a run ends before its time."""

import ctypes
import sys
import threading

from wheelfix.tools.run import stop_children


def stop_everything() -> None:
    """Make the threads that work for this run leave, and end all that it has started.

    Without that, who waits for a thread waits for the program that the thread waits for.
    """
    if "concurrent.futures" in sys.modules:
        import logging

        logging.disable()  # an idle thread of a pool would log that it had to leave
    for thread in threading.enumerate():
        if thread.name.startswith("ThreadPoolExecutor") and thread.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit)
            )
    stop_children()
