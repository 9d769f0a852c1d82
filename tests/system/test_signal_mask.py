"""Threads beside the main one, and the signals that it holds."""

import subprocess
import sys

PROGRAM = """
import os, signal, threading
from wheelfix.system.signal_mask import hold_signals, start_without_signals

came = []
signal.signal(signal.SIGTERM, lambda number, _frame: came.append(number))
thread = threading.Thread(target=threading.Event().wait, daemon=True)
start_without_signals(thread.start)
with hold_signals():
    os.kill(os.getpid(), signal.SIGTERM)
    thread.join(0.01)  # time for the handler
    print(came)
print(came)
"""


def test_a_held_signal_waits_though_another_thread_runs() -> None:
    """Otherwise its handler raises in what a fork calls afterwards, where exceptions are lost."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n[15]\n"
