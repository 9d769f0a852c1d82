"""Threads beside the main one, and the signals that it holds."""

import os
import signal
from threading import Event, Thread

import pytest

from wheelfix.system.signal_mask import hold_signals, start_without_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_held_signal_waits_though_another_thread_runs(number: signal.Signals) -> None:
    """Otherwise its handler raises in what a fork calls afterwards, where exceptions are lost."""
    came: list[int] = []
    end = Event()
    thread = Thread(target=end.wait, daemon=True)
    before = signal.signal(number, lambda number, _frame: came.append(number))
    try:
        start_without_signals(thread)
        with hold_signals():
            os.kill(os.getpid(), number)
            thread.join(0.01)  # time for the handler
            assert came == []
        assert came == [number]
    finally:
        end.set()
        thread.join()
        signal.signal(number, before)
