"""Processes of this machine that check wheels: they end with the run, however it ends."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import active_children, parent_process

from wheelfix.spread import Crew

_WAITING = 2
"""Calls per process that wait in its queue, so that it never has nothing to do."""


@contextmanager
def processes(count: int) -> Iterator[Crew]:
    """Yield a crew of `count` processes. Left by an exception, whatever they do ends at once."""
    with ExitStack() as stack:
        try:
            yield Crew(start=_starter(stack, count), at_once=count * (1 + _WAITING))
        except BaseException:
            for child in active_children():
                child.terminate()
            raise


def _starter(stack: ExitStack, count: int) -> Callable[[], Executor]:
    def start() -> Executor:
        stack.close()  # the pool before this one, which broke
        return stack.enter_context(ProcessPoolExecutor(count, initializer=_settle_in))

    return start


def _settle_in() -> None:
    """Leave signals to the parent, who ends its workers; end with it even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
