"""The signals that end a run, and the mask that lets them wait."""

import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def set_handler(handler: Callable[[int, FrameType | None], None]) -> None:
    """Let `handler` get the signals that are not ignored (nohup, `&`)."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def start_without_signals(start: Callable[[], None]) -> None:
    """Call the `start` of a thread, so that it gets no signal: what the main thread holds waits.

    The system gives a signal to any thread, and Python then runs its handler in the main one.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        start()  # the thread inherits the mask
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def hold_signals() -> Generator[None]:
    """Let `SIGNALS` wait: their handlers raise exceptions between any two instructions."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
