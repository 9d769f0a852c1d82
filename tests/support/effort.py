"""CPU time of a piece of work at two sizes of it, compared in one process."""

import gc
import time
from collections.abc import Callable

_TRIES = 3


def takes_at_most(times: float, large: Callable[[], object], small: Callable[[], object]) -> bool:
    """Tell whether `large` takes at most `times` the CPU time of `small`, or of 20 ms.

    Each counts by the least of a few tries, since other processes of the machine make some slow.
    """
    most = times * max(0.02, min(_once(small) for _ in range(_TRIES)))
    return any(_once(large) < most for _ in range(_TRIES))


def _once(work: Callable[[], object]) -> float:
    """Leave out the collection of garbage, which takes time for all that tests before have made."""
    gc.collect()
    gc.disable()
    try:
        started = time.process_time()
        work()
        return time.process_time() - started
    finally:
        gc.enable()
