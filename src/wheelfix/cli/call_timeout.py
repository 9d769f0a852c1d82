"""Calls that end with their process where nothing else can end them.

Neither a thread nor a signal's handler in Python is heard while one call in C keeps the interpreter
to itself. The timer of `faulthandler` is no thread of Python's: it ends the process all the same.
"""

import faulthandler
import os
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from threading import Lock
from time import monotonic
from typing import ParamSpec, Protocol, TypeVar

Params = ParamSpec("Params")
Result = TypeVar("Result")

GRACE = 10
"""Seconds that a call gets, after its time is up, to end by itself."""


class Bounded(Protocol):
    """How a call is made in its process."""

    def __call__(self, seconds: float, work: Callable[[], Result], /) -> Result:
        """Return what `work` returns, if that ends within `seconds`."""
        ...


class Watched(Executor):
    """An executor of processes whose calls end, with their process, when time is up for long."""

    def __init__(self, executor: Executor, timeout: int, bounded: Bounded) -> None:
        """Give each call `timeout` seconds, 0 for no limit; `bounded` makes it in its process."""
        self._executor = executor
        self._most = timeout + GRACE if timeout else 0
        self._bounded = bounded

    def submit(
        self, fn: Callable[Params, Result], /, *args: Params.args, **kwargs: Params.kwargs
    ) -> "Future[Result]":
        """Submit the call, as `Executor.submit` does."""
        if not self._most:
            return self._executor.submit(fn, *args, **kwargs)
        return self._executor.submit(self._bounded, self._most, partial(fn, *args, **kwargs))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Shut the executor down."""
        self._executor.shutdown(wait, cancel_futures=cancel_futures)


def bounded(seconds: float, work: Callable[[], Result]) -> Result:
    """Call `work`; after `seconds` end the process, whatever keeps Python from being heard."""
    end = monotonic() + seconds
    _ALARM.add(end)
    try:
        return work()
    finally:
        _ALARM.remove(end)


class _Alarm:
    """The timer of the process, of which there is one, for the calls of all its threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._ends: list[float] = []
        self._nowhere: int | None = None

    def add(self, end: float) -> None:
        with self._lock:
            self._ends.append(end)
            self._set()

    def remove(self, end: float) -> None:
        with self._lock:
            self._ends.remove(end)
            self._set()

    def _set(self) -> None:
        faulthandler.cancel_dump_traceback_later()
        if self._ends:
            if self._nowhere is None:
                self._nowhere = os.open(os.devnull, os.O_WRONLY)
            left = max(min(self._ends) - monotonic(), 0.01)
            faulthandler.dump_traceback_later(left, exit=True, file=self._nowhere)
        elif self._nowhere is not None:
            os.close(self._nowhere)
            self._nowhere = None


_ALARM = _Alarm()
