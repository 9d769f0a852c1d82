"""Processes of this machine that check wheels: they end with the run, however it ends."""

import faulthandler
import os
import resource
import signal
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import active_children, parent_process
from pathlib import Path
from typing import ParamSpec, TypeVar

from wheelfix.crew import Crew
from wheelfix.heap import share

Params = ParamSpec("Params")
Result = TypeVar("Result")

_WAITING = 2
"""Calls per process that wait in its queue, so that it never has nothing to do."""
_GRACE = 10
"""Seconds that a call gets, after its time is up, to end by itself."""
MEMORY = 2 << 30
"""Bytes that a process may ask for: several times what the largest published wheels take."""


@contextmanager
def processes(count: int, timeout: int) -> Generator[Crew]:
    """Yield a crew of `count` processes, which end at once when it is left, whatever they do.

    A process whose call goes on for long after `timeout` seconds, if that is not 0, ends with it.
    """
    pools: list[ProcessPoolExecutor] = []

    def start() -> Executor:
        _end(pools)
        pools[:] = [_Pool(count, timeout)]
        return pools[0]

    try:
        yield Crew(start=start, at_once=count * (1 + _WAITING), is_cancelling=False)
    finally:
        _end(pools)


def _end(pools: Iterable[Executor]) -> None:
    """End processes: all at once, or a shutdown would wait for what keeps one of them."""
    for child in active_children():
        child.kill()
    for pool in pools:
        pool.shutdown()


class _Pool(ProcessPoolExecutor):
    """Processes that end where a call does not."""

    def __init__(self, count: int, timeout: int) -> None:
        super().__init__(count, initializer=_settle_in)
        self._most = timeout + _GRACE if timeout else 0

    def submit(
        self, fn: Callable[Params, Result], /, *args: Params.args, **kwargs: Params.kwargs
    ) -> "Future[Result]":
        if not self._most:
            return super().submit(fn, *args, **kwargs)
        return super().submit(_bounded, self._most, partial(fn, *args, **kwargs))


def _bounded(seconds: int, work: Callable[[], Result]) -> Result:
    """Call `work`; after `seconds` end the process, whatever keeps Python from being heard."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)
        try:
            return work()
        finally:
            faulthandler.cancel_dump_traceback_later()


def _settle_in() -> None:
    """Bound what one wheel can take, and end with the parent even if it is killed.

    Signals are the parent's, who ends its workers.
    """
    for number in (signal.SIGINT, signal.SIGTERM):  # a terminal sends them to all of a group
        signal.signal(number, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    least = min((each for each in (soft, hard) if each != resource.RLIM_INFINITY), default=MEMORY)
    resource.setrlimit(resource.RLIMIT_DATA, (min(least, MEMORY), hard))
    share()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
