"""The fraction that a worker process writes and its parent reads, also where files cannot grow."""

import os
import resource
from pathlib import Path

import pytest

from wheelfix.system.shared_fraction import SharedFraction, shared_fraction
from wheelfix.system.workers import WorkerProcesses


def test_a_worker_stores_what_its_parent_loads() -> None:
    with shared_fraction() as fraction, WorkerProcesses(1, timeout=60, memory=None) as workers:
        assert fraction.load() == 0
        assert list(workers.map_in_order(fraction.store, [0.25, 0.5])) == [
            (0.25, None),
            (0.5, None),
        ]
        assert fraction.load() == 0.5


def test_a_full_disk_keeps_the_fraction_as_it_is() -> None:
    with Path("/dev/full").open("r+b", buffering=0) as full:
        fraction = SharedFraction(full.fileno())
        fraction.store(0.5)
        assert fraction.load() == 0


def test_a_file_that_cannot_grow_keeps_the_fraction_as_it_is() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with shared_fraction() as fraction:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        try:
            fraction.store(0.5)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert fraction.load() == 0


def test_where_no_file_can_be_made_nothing_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("wheelfix.system.shared_fraction.unnamed_file", refuse)
    with shared_fraction() as fraction:
        fraction.store(0.5)
        assert fraction.load() == 0
