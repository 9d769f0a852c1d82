"""Processes of this machine that check wheels: they end with the run, however it ends."""

import os
import resource
import signal
import threading
from collections.abc import Generator, Iterable
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, parent_process

from wheelfix.cli.call_timeout import Watched, bounded
from wheelfix.system.crew import Crew

_WAITING = 2
"""Calls per process that wait in its queue, so that it never has nothing to do."""
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
        pools[:] = [ProcessPoolExecutor(count, initializer=_settle_in)]
        return Watched(pools[0], timeout, bounded)

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


def _settle_in() -> None:
    """Bound what one wheel can take, and end with the parent even if it is killed.

    Signals are the parent's, who ends its workers.
    """
    for number in (signal.SIGINT, signal.SIGTERM):  # a terminal sends them to all of a group
        signal.signal(number, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    least = min((each for each in (soft, hard) if each != resource.RLIM_INFINITY), default=MEMORY)
    resource.setrlimit(resource.RLIMIT_DATA, (min(least, MEMORY), hard))
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
