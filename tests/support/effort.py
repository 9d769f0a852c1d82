"""CPU time of a piece of work, for comparisons of two sizes of it in one process."""

import gc
import time
from collections.abc import Callable

_TRIES = 3


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the least CPU time of a few tries, without the garbage collection of what was before.

    That takes time in proportion to all objects of the process, which tests before may have made.
    """
    return min(_once(work) for _ in range(_TRIES))


def _once(work: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()
    try:
        started = time.process_time()
        work()
        return time.process_time() - started
    finally:
        gc.enable()
