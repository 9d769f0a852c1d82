"""Dask clusters of this machine, whose workers are forks of one process that imported all of it.

A worker that is started anew, as Dask does by default and after each that is killed, takes two
seconds of CPU for its imports.
"""

import logging
import multiprocessing
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

dask: Any = pytest.importorskip("dask", reason="the extra `dask` is not installed")
distributed: Any = pytest.importorskip("distributed", reason="the extra `dask` is not installed")


@contextmanager
def cluster(workers: int, **settings: object) -> Generator[str]:
    """Give the address of a scheduler with `workers` processes, under these settings of Dask.

    Dask sets variables, such as PYTHONHASHSEED: with them, a `warm_program` is no fork.
    """
    method = "forkserver"
    with (
        patch.dict(os.environ),
        dask.config.set({"distributed.worker.multiprocessing-method": method, **settings}),
    ):
        distributed.utils.get_mp_context()  # it would set what is imported, later
        imported = ["distributed", "wheelfix.cli.dask_workers", "wheelfix.pipelines.check_many"]
        multiprocessing.get_context(method).set_forkserver_preload(imported)
        with distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        ) as local:
            yield local.scheduler_address
