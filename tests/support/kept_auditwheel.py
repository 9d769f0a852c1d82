"""One process of auditwheel for all tests of a process, as one serves all wheels of a run.

A test that changes what such a process imports, or counts processes, calls `keep_none`.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import process
from typing import Any

import pytest

from wheelfix.pipelines import ask_auditwheel
from wheelfix.pipelines.ask_auditwheel import Auditwheel
from wheelfix.system.workers import WorkerProcess

_MODULE: Any = ask_auditwheel
_CLASS: Any = Auditwheel
_CHILDREN: Any = process
_start: Callable[[], WorkerProcess] = _MODULE._start
_end: Callable[[Auditwheel], None] = _CLASS.__exit__


def keep_one() -> None:
    """Start the process, before a test changes limits or the user, and lend it from now on.

    It belongs to this process: what is forked from it does not talk to it.
    """
    owner, kept = os.getpid(), WorkerProcess()
    idle = [kept]
    _CHILDREN._children.discard(vars(kept)["_process"])  # tests ask which children are left

    def start() -> WorkerProcess:
        if os.getpid() == owner and kept.is_alive():
            with suppress(IndexError):  # another thread may have taken it
                return idle.pop()
        return _start()

    def end(auditwheel: Any, *_: object) -> None:
        if os.getpid() == owner and kept in auditwheel._idle:
            auditwheel._idle.remove(kept)
            idle.append(kept)
        _end(auditwheel)

    _MODULE._start, _CLASS.__exit__ = start, end


def keep_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each `Auditwheel` of this test start and end its own processes."""
    monkeypatch.setattr(_MODULE, "_start", _start)
    monkeypatch.setattr(_CLASS, "__exit__", _end)
