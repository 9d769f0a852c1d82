"""CPU time of a piece of work, compared with that of another in the same moments.

Seconds say nothing by themselves: a machine that is shared takes two or three times as long for
the same instructions, for moments or for good. So work is held against other work that is done
beside it, and what seems to take too much is measured again: of other processes, the least that
was measured has the least.
"""

import gc
import time
from collections.abc import Callable
from statistics import median

TRIES = 4
_SECONDS_OF_YARDSTICK = 0.16
"""What `_yardstick` takes at its best where the bounds of tests were chosen."""


def takes_at_most(times: float, large: Callable[[], object], small: Callable[[], object]) -> bool:
    """Tell whether `large` takes at most `times` the CPU time of `small`, or of 20 ms."""
    for _ in range(TRIES):
        of_small = median(cpu_time(small) for _ in range(3))
        if cpu_time(large) < times * max(0.02 * slowness(), of_small):
            return True
    return False


def spends_at_most(seconds: float, spent: Callable[[], float]) -> bool:
    """Tell whether `spent`, which works and returns its CPU time, returns at most `seconds`.

    They are seconds of a machine that does nothing else, and become more where it is slower.
    """
    return any(spent() <= seconds * slowness() for _ in range(TRIES))


def cpu_time(work: Callable[[], object]) -> float:
    """Leave out the collection of garbage, which takes time for all that tests before have made."""
    gc.disable()
    try:
        started = time.process_time()
        work()
        return time.process_time() - started
    finally:
        gc.enable()


def slowness() -> float:
    """Return how many times as long this machine takes for the same instructions, at least 1."""
    return max(1, cpu_time(_yardstick) / _SECONDS_OF_YARDSTICK)


def _yardstick() -> None:
    """Do what the program does: small steps of Python, and tables that no cache holds."""
    counts: dict[int, str] = {}
    for number in range(200_000):
        counts[number * 7919 & 0x3FFFF] = str(number)
    text = "\n".join(counts.values())
    assert len(set(text.split("\n"))) == len(counts)
