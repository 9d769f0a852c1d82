"""The signals that end a run."""

import signal
from collections.abc import Generator
from contextlib import contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@contextmanager
def hold_signals() -> Generator[None]:
    """Let `SIGNALS` wait: their handlers raise exceptions between any two instructions."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
