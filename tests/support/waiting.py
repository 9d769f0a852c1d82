"""Waiting for what other processes do, on a machine under any load.

No test promises how fast something is: a limit only ends what would never end.
"""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import Popen
from typing import Any

HANGS = 300.0
"""Seconds after which a program hangs; what hangs on purpose does so for longer."""

LIMITS = (2, 8, 30)
"""Seconds until what hangs is ended: the next one, if it had not come so far under load."""


def with_more_time(attempt: Callable[[int], None], seconds: Sequence[int] = LIMITS) -> None:
    """Call `attempt` with each of `seconds` until what it asserts holds."""
    for each in seconds[:-1]:
        with suppress(AssertionError, ValueError):
            return attempt(each)
    return attempt(seconds[-1])


def wait_until(happened: Callable[[], object], process: Popen[Any] | None = None) -> None:
    """Wait until `happened` returns something true, which `process` has to do before it ends."""
    end = time.monotonic() + HANGS
    while not happened():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.01)


def processes_in(folder: Path) -> list[str]:
    """Return the processes that have `folder` as their TMPDIR, or work below it."""
    found: list[str] = []
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            try:
                text = (each / "environ").read_bytes()
            except OSError:
                continue
            if os.fsencode(folder) in text:
                found.append((each / "cmdline").read_bytes().decode(errors="replace"))
    return found
