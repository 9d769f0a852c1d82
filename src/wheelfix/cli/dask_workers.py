"""Workers of a Dask cluster (`wheelfix[dask]`).

Each worker has the same version of wheelfix, and the wheels under the same paths. Scheduling, time
limits, and what becomes of a killed worker's tasks are Dask's.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from functools import partial
from logging import CRITICAL, getLogger
from pathlib import Path
from typing import Any, ParamSpec, cast

from wheelfix import __version__
from wheelfix.errors import SettingsError, ToolError
from wheelfix.system.workers import InExecutor, Item, Result

P = ParamSpec("P")
CONNECT_TIMEOUT = 10.0
"""Seconds to wait for the scheduler, and for a first worker."""


@contextmanager
def dask_workers(address: str, sample: Path) -> Generator[InExecutor]:
    """Yield the workers of the cluster whose scheduler is at `address`.

    `sample` is a wheel that each of them must have. Raises `SettingsError` if `distributed` is not
    installed, and `ToolError` if the cluster cannot be used.
    """
    try:
        import distributed
    except ImportError as error:
        raise SettingsError(
            "--dask needs the package `distributed`", hint='`pip install "wheelfix[dask]"`'
        ) from error
    client = _connect(distributed, address)
    getLogger("distributed.client").setLevel(CRITICAL)  # tracebacks of errors that are reported
    try:
        _check_workers(client, address, sample)
        yield _Cluster(_Calls(client))
    finally:
        client.close(timeout=CONNECT_TIMEOUT)


class _Calls(Executor):
    """Submits calls to a cluster, and returns Dask's futures.

    The executor of Dask (`distributed/cfexecutor.py`) asks for the state of a future after it has
    its result. If the worker dies in between, it takes the result for a traceback, and fails.
    """

    def __init__(self, client: Any) -> None:  # noqa: ANN401 - it ships no types
        self._client = client

    def submit(
        self, fn: Callable[P, Result], /, *args: P.args, **kwargs: P.kwargs
    ) -> "Future[Result]":
        """Call `fn` on a worker; no call is taken for a repetition of another."""
        return cast("Future[Result]", self._client.submit(fn, *args, pure=False, **kwargs))


class _Cluster(InExecutor):
    """The workers of a cluster; some may join it later."""

    def map_in_order(
        self, work: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[tuple[Item, Result | Exception]]:
        """Submit the calls, and let each worker refuse them if it has another wheelfix."""
        return super().map_in_order(partial(_call, __version__, work), items)


def _call(version: str, work: Callable[[Item], Result], item: Item) -> Result:
    """Return `work(item)`. Raises `ToolError` for another version of wheelfix. Runs in a worker."""
    if version != __version__:
        raise _other_version("a Dask worker", __version__, version)
    return work(item)


def _connect(distributed: Any, address: str) -> Any:  # noqa: ANN401 - it ships no types
    from distributed.comm.addressing import get_address_host_port

    try:
        get_address_host_port(address)  # `Client` would wait forever for an invalid address
        return distributed.Client(address, timeout=CONNECT_TIMEOUT, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise ToolError(
            f"no Dask scheduler answers at `{address}`: {error}",
            hint="`dask scheduler` prints its address, such as tcp://10.0.0.7:8786",
        ) from error


def _check_workers(client: Any, address: str, sample: Path) -> None:  # noqa: ANN401 - as above
    """Raise `ToolError` unless there are workers, and each has this wheelfix and the wheels."""
    try:
        client.wait_for_workers(1, timeout=CONNECT_TIMEOUT)
    except TimeoutError as error:
        raise ToolError(
            f"the Dask cluster at `{address}` has no workers",
            hint=f"start some: `dask worker {address}`",
        ) from error
    answers = cast("Mapping[str, object]", client.run(_describe, str(sample), on_error="return"))
    for worker, answer in answers.items():
        match answer:
            case (str() as version, bool() as has_sample):
                _check_worker(worker, version, sample, has_sample=has_sample)
            case _:
                raise ToolError(
                    f"the Dask worker {worker} cannot run wheelfix: {answer}",
                    hint=_install_hint(__version__),
                )


def _check_worker(worker: str, version: str, sample: Path, *, has_sample: bool) -> None:
    if version != __version__:
        raise _other_version(f"the Dask worker {worker}", version, __version__)
    if not has_sample:
        raise ToolError(
            f"the Dask worker {worker} does not see `{sample}`",
            hint="the wheels must be on a file system that all workers have at the same place",
        )


def _other_version(worker: str, version: str, expected: str) -> ToolError:
    return ToolError(
        f"{worker} has wheelfix {version}, and this is {expected}",
        hint=_install_hint(expected),
    )


def _install_hint(version: str) -> str:
    return f"on every worker: `pip install wheelfix=={version}`"


def _describe(sample: str) -> tuple[str, bool]:
    """Return the version of wheelfix, and whether the file `sample` exists. Runs in a worker."""
    return __version__, Path(sample).is_file()
