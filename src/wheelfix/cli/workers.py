"""Processes of this machine that check wheels: they end with the run, however it ends."""

import os
import signal
import threading
from collections.abc import Generator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, parent_process

from wheelfix.crew import Crew

_WAITING = 2
"""Calls per process that wait in its queue, so that it never has nothing to do."""


@contextmanager
def processes(count: int) -> Generator[Crew]:
    """Yield a crew of `count` processes. Left by an exception, whatever they do ends at once."""
    pools: list[ProcessPoolExecutor] = []

    def start() -> Executor:
        for broken in pools:
            broken.shutdown()
        pools[:] = [ProcessPoolExecutor(count, initializer=_settle_in)]
        return pools[0]

    try:
        yield Crew(start=start, at_once=count * (1 + _WAITING), is_cancelling=False)
    except BaseException:
        for child in active_children():
            child.kill()  # the pool breaks, and ends its calls; a shutdown would wait for them
        raise
    finally:
        for pool in pools:
            pool.shutdown()


def _settle_in() -> None:
    """Leave signals to the parent, who ends its workers; end with it even if it is killed."""
    for number in (signal.SIGINT, signal.SIGTERM):  # a terminal sends them to all of a group
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
