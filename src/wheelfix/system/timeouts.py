"""A call that gets so much time and no more."""

import ctypes
import threading
from collections.abc import Callable
from typing import TypeVar

from wheelfix.errors import WheelfixError

Result = TypeVar("Result")


class TimedOutError(WheelfixError):
    """A call has not ended in the time that it was given."""


class _Call(threading.Thread):
    """Makes a call; nobody waits for it at the end of the process."""

    def __init__(self, call: Callable[[], None]) -> None:
        super().__init__(target=call, daemon=True)


class _Stop(BaseException):
    """Nobody wants the result any more: no handler of errors shall keep it."""


def run_with_timeout(seconds: float, work: Callable[[], Result]) -> Result:
    """Return what `work` returns, which gets a thread of its own, or raise what it raises.

    Raises `TimedOutError` after `seconds`, if that is not 0. The work then ends at its next step in
    Python; where it waits for the system, as for a file server that is gone, its thread stays.
    """
    if not seconds:
        return work()
    results: list[Result] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - it is raised again by who waits
            errors.append(error)

    thread = _Call(call)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if results:
        return results[0]
    _stop(thread)
    raise TimedOutError(
        f"it took longer than {seconds:g} s", hint="--timeout gives each wheel more"
    )


def is_somebody_late() -> bool:
    """Return whether a call still goes on that nobody waits for any more."""
    return any(isinstance(thread, _Call) for thread in threading.enumerate())


def _stop(thread: threading.Thread) -> None:
    """Raise `_Stop` in another thread (PyThreadState_SetAsyncExc of Python's C API)."""
    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(_Stop)
        )
