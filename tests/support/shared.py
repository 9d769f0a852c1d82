"""What is expensive and the same for all tests of a run: made by the first worker that asks."""

import pickle
from collections.abc import Callable
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import TypeVar

import pytest

Result = TypeVar("Result")


def shared(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Result]) -> Result:
    """Return what `make` returned for a new folder, to which it may refer.

    Nobody changes that folder. Other workers wait meanwhile; if it fails, the next one tries.
    """
    base = factory.getbasetemp()
    run = base.parent if base.name.startswith("popen-") else base
    answer = run / f"{name}.pickle"
    with (run / f"{name}.lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if not answer.exists():
            answer.write_bytes(pickle.dumps(make(factory.mktemp(name))))
        result: Result = pickle.loads(answer.read_bytes())  # noqa: S301 - a worker of this run wrote it
        return result
