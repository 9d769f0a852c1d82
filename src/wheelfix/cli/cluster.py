"""Workers of a Dask cluster (`wheelfix[dask]`).

Each worker has the same version of wheelfix, and the wheels under the same paths. Scheduling, time
limits, and what becomes of a killed worker's tasks are Dask's.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from logging import CRITICAL, getLogger
from pathlib import Path
from typing import Any, cast

from wheelfix import __version__
from wheelfix.errors import SettingsError, ToolError
from wheelfix.system.workers import InExecutor

PATIENCE = 10.0
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
    client = _connected(distributed, address)
    getLogger("distributed.client").setLevel(CRITICAL)  # tracebacks of errors that are reported
    try:
        _prove(client, address, sample)
        yield InExecutor(client.get_executor(pure=False))
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


def _about(sample: str) -> tuple[str, bool]:
    """Return what a worker has: its version of wheelfix, and whether it sees the file."""
    return __version__, Path(sample).is_file()
