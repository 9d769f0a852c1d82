"""Workers of a Dask cluster (`wheelfix[dask]`). Scheduling, and what a lost worker had, is Dask's.

Each worker has wheelfix of this version, and sees the wheels under the paths they have here. One
that a nanny watches ends where a call does not, and is started again; of others that is not ours to
decide, as they may live in a process with other things.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from logging import CRITICAL, getLogger
from pathlib import Path
from typing import Any, TypeVar, cast

from wheelfix import __version__
from wheelfix.cli.call_timeout import Watched, bounded
from wheelfix.errors import SettingsError, ToolError
from wheelfix.system.crew import Crew

Result = TypeVar("Result")

PATIENCE = 10.0
"""Seconds to wait for the scheduler, and for a first worker."""
_LEAST_AT_ONCE = 64
"""Calls in flight at least: a cluster may grow."""


@contextmanager
def dask_workers(address: str, sample: Path, timeout: int) -> Generator[Crew]:
    """Yield the workers of the cluster whose scheduler is at `address` as a crew.

    `sample` is a wheel that they must see. A worker with a nanny, whose call goes on for long after
    `timeout` seconds, if that is not 0, ends with it. Raises `SettingsError` and `ToolError`.
    """
    try:
        import distributed
    except ImportError as error:
        raise SettingsError(
            "--dask needs the package `distributed`", hint='`pip install "wheelfix[dask]"`'
        ) from error
    client = _connected(distributed, address)
    getLogger("distributed.client").setLevel(CRITICAL)  # tracebacks of what `spread` tells
    try:
        _prove(client, address, sample)
        threads = sum(cast("Mapping[str, int]", client.nthreads()).values())
        executor = Watched(client.get_executor(pure=False), timeout, _bounded)
        yield Crew(start=lambda: executor, at_once=max(_LEAST_AT_ONCE, 2 * threads))
    finally:
        client.close(timeout=PATIENCE)


def _connected(distributed: Any, address: str) -> Any:  # noqa: ANN401 - it ships no types
    from distributed.comm.addressing import get_address_host_port

    try:
        get_address_host_port(address)  # a client that is given none waits in vain, twice
        return distributed.Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise ToolError(
            f"no Dask scheduler answers at `{address}`: {error}",
            hint="`dask scheduler` prints its address, such as tcp://10.0.0.7:8786",
        ) from error


def _prove(client: Any, address: str, sample: Path) -> None:  # noqa: ANN401 - as above
    """See that there are workers, that they have this wheelfix, and the wheels."""
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError as error:
        raise ToolError(
            f"the Dask cluster at `{address}` has no workers",
            hint=f"start some: `dask worker {address}`",
        ) from error
    found = cast("Mapping[str, object]", client.run(_about, str(sample), on_error="return"))
    for worker, said in found.items():
        match said:
            case (str() as version, bool() as sees):
                _accept(worker, version, sample, sees=sees)
            case _:
                raise ToolError(
                    f"the Dask worker {worker} cannot run wheelfix: {said}",
                    hint=f"on every worker: `pip install wheelfix=={__version__}`",
                )


def _accept(worker: str, version: str, sample: Path, *, sees: bool) -> None:
    if version != __version__:
        raise ToolError(
            f"the Dask worker {worker} has wheelfix {version}, and this is {__version__}",
            hint=f"on every worker: `pip install wheelfix=={__version__}`",
        )
    if not sees:
        raise ToolError(
            f"the Dask worker {worker} does not see `{sample}`",
            hint="the wheels must be on a file system that all workers have at the same place",
        )


def _bounded(seconds: float, work: Callable[[], Result]) -> Result:
    """Call `work` in a worker, which ends after `seconds` if a nanny will start it again."""
    from distributed import get_worker

    return bounded(seconds, work) if get_worker().nanny is not None else work()


def _about(sample: str) -> tuple[str, bool]:
    """Return what a worker has: its version of wheelfix, and whether it sees the file."""
    return __version__, Path(sample).is_file()
