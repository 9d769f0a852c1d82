"""Calls of one function with many items: in this process, in an executor, or in worker processes.

Results come in the order of the items. Only a bounded number of calls and results is kept, as the
memory that one takes is not known beforehand.
"""

import os
import resource
import signal
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from dataclasses import dataclass
from itertools import islice
from math import inf
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from time import monotonic
from typing import Any, Generic, Protocol, Self, TypeVar

from wheelfix.errors import ToolError, WheelfixError

Item = TypeVar("Item")
Result = TypeVar("Result")

_WINDOW = 1024
"""Calls of an executor that are submitted and whose result was not yielded."""
_RESULTS_PER_PROCESS = 16
"""Results that wait for an earlier one."""


class WorkerDiedError(Exception):
    """The worker process ended before the call returned."""


class WorkerTimeoutError(Exception):
    """The call exceeded its time limit, and its worker process was killed."""


class Workers(Protocol):
    """What calls a function with many items."""

    def map_in_order(
        self,
        work: Callable[[Item], Result],
        items: Iterable[Item],
        on_failure: Callable[[Item, Exception], Result],
    ) -> Iterator[Result]:
        """Yield `work(item)` for each of `items`, in their order.

        `on_failure(item, error)` is the result of a call that raised `error`, or that did not
        return: `WorkerDiedError`, `WorkerTimeoutError`. Raises each `WheelfixError` that `work`
        raises, and `ToolError` if no worker is left.
        """
        ...


class InProcess:
    """Calls in this process, without a time limit."""

    def map_in_order(
        self,
        work: Callable[[Item], Result],
        items: Iterable[Item],
        on_failure: Callable[[Item, Exception], Result],
    ) -> Iterator[Result]:
        """Call `work` for one item after the other."""
        for item in items:
            try:
                yield work(item)
            except WheelfixError:
                raise
            except Exception as error:  # noqa: BLE001 - a call may raise anything; it is reported
                yield on_failure(item, error)


# --- Executors ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InExecutor:
    """Calls in an executor of someone else, such as that of a Dask client."""

    executor: Executor
    window: int = _WINDOW

    def map_in_order(
        self,
        work: Callable[[Item], Result],
        items: Iterable[Item],
        on_failure: Callable[[Item, Exception], Result],
    ) -> Iterator[Result]:
        """Submit at most `window` calls ahead."""
        remaining = iter(items)
        calls: deque[tuple[Item, Future[Result]]] = deque()
        try:
            while True:
                for item in islice(remaining, self.window - len(calls)):
                    calls.append((item, _submit(self.executor, work, item)))
                if not calls:
                    return
                item, future = calls.popleft()
                yield _result(item, future, on_failure)
        finally:
            for _, future in calls:
                future.cancel()


def _submit(executor: Executor, work: Callable[[Item], Result], item: Item) -> "Future[Result]":
    """Submit a call; the calls before it still have results if the executor is broken."""
    try:
        return executor.submit(work, item)
    except RuntimeError as error:  # `BrokenExecutor`, or it was shut down
        failed: Future[Result] = Future()
        failed.set_exception(error)
        return failed


def _result(
    item: Item, future: "Future[Result]", on_failure: Callable[[Item, Exception], Result]
) -> Result:
    try:
        return future.result()
    except BrokenExecutor as error:
        raise ToolError(
            "the executor broke: a worker of it ended abruptly",
            hint="was it out of memory? start another, and go on with the wheels that are left",
        ) from error
    except CancelledError as error:
        raise ToolError(
            "the workers are gone: a call was cancelled by the executor",
            hint="start them again; a run that writes records to a file goes on with --resume",
        ) from error
    except WheelfixError:
        raise
    except Exception as error:  # noqa: BLE001 - a call may raise anything; it is reported
        is_dead = type(error).__name__ == "KilledWorker"  # Dask's
        return on_failure(item, WorkerDiedError() if is_dead else error)


# --- Processes ------------------------------------------------------------------------------------


class WorkerProcesses:
    """Calls in forked processes of this one, each of which is killed if its call takes too long.

    Leaving the context kills all of them.
    """

    def __init__(self, count: int, *, timeout: float, memory: int | None) -> None:
        """Use up to `count` processes, started when there is work for them.

        `timeout` is the limit of a call in seconds, 0 for none; `memory` that of a process in bytes
        (RLIMIT_DATA of getrlimit(2)).
        """
        self._count = count
        self._timeout = timeout or inf
        self._memory = memory
        self._idle: list[_Worker] = []
        self._calls: list[_Call[Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in (*self._idle, *(call.worker for call in self._calls)):
            worker.kill()

    def map_in_order(
        self,
        work: Callable[[Item], Result],
        items: Iterable[Item],
        on_failure: Callable[[Item, Exception], Result],
    ) -> Iterator[Result]:
        """Give each process one call at a time."""
        numbered = enumerate(items)
        results: dict[int, Result] = {}
        following = 0
        while True:
            free = self._count - len(self._calls)
            if len(results) < _RESULTS_PER_PROCESS * self._count:
                for number, item in islice(numbered, free):
                    self._start(work, number, item)
            if not self._calls:
                return
            for call in _ended(self._calls):
                self._calls.remove(call)
                results[call.number] = self._outcome(call, on_failure)
            while following in results:
                yield results.pop(following)
                following += 1

    def _start(self, work: Callable[[Item], Result], number: int, item: Item) -> None:
        worker = self._worker()
        self._calls.append(_Call(worker, number, item, monotonic() + self._timeout))
        worker.connection.send((work, item))

    def _worker(self) -> "_Worker":
        """Return an idle worker that is still alive, or a new one."""
        while self._idle:
            worker = self._idle.pop()
            if worker.process.is_alive():
                return worker
            worker.kill()
        return _fork(self._memory)

    def _outcome(
        self, call: "_Call[Item]", on_failure: Callable[[Item, Exception], Result]
    ) -> Result:
        try:
            answer: _Answer[Result] = call.worker.answer()
        except Exception as error:  # noqa: BLE001 - an answer that cannot be unpickled, too
            call.worker.kill()
            return on_failure(call.item, error)
        self._idle.append(call.worker)
        if isinstance(answer, _Returned):
            return answer.result
        if isinstance(answer.error, WheelfixError):
            raise answer.error
        return on_failure(call.item, answer.error)


@dataclass(frozen=True, slots=True)
class _Returned(Generic[Result]):
    result: Result


@dataclass(frozen=True, slots=True)
class _Raised:
    error: Exception


_Answer = _Returned[Result] | _Raised


@dataclass(frozen=True, slots=True, eq=False)
class _Worker:
    """A process that answers one call after the other."""

    process: BaseProcess
    connection: Connection

    def answer(self) -> Any:  # noqa: ANN401 - as unpickled
        """Receive the answer of a call that has ended.

        Raises `WorkerTimeoutError` if there is none yet, and `WorkerDiedError`.
        """
        if not self.connection.poll():
            raise WorkerTimeoutError
        try:
            return self.connection.recv()
        except (EOFError, OSError) as error:
            raise WorkerDiedError from error

    def kill(self) -> None:
        """Kill the process, whatever it does."""
        self.process.kill()
        self.process.join()
        self.connection.close()


@dataclass(frozen=True, slots=True, eq=False)
class _Call(Generic[Item]):
    worker: _Worker
    number: int
    item: Item
    deadline: float


def _ended(calls: list[_Call[Any]]) -> list[_Call[Any]]:
    """Wait for the first calls that have an answer or exceed their time limit; return them."""
    left = min(call.deadline for call in calls) - monotonic()
    answered = wait([call.worker.connection for call in calls], None if left == inf else left)
    now = monotonic()
    return [call for call in calls if call.worker.connection in answered or call.deadline <= now]


def _fork(memory: int | None) -> _Worker:
    """Start a worker.

    It is forked: other start methods import the caller's main module again (multiprocessing).
    """
    ours, its = get_context("fork").Pipe()
    process = get_context("fork").Process(target=_answer_calls, args=(its, memory))
    with warnings.catch_warnings():
        # Python 3.12 warns that other threads may hold locks. The worker uses only locks that
        # Python makes anew after a fork.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    its.close()
    return _Worker(process, ours)


# --- In a worker process --------------------------------------------------------------------------


def _answer_calls(connection: Connection, memory: int | None) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # a terminal sends them to the whole group
        signal.signal(number, signal.SIG_IGN)
    if memory is not None:
        _limit_memory(memory)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        work, item = connection.recv()
        try:
            connection.send(_Returned(work(item)))
        except Exception as error:  # noqa: BLE001 - the parent reports it
            connection.send(_Raised(error))


def _limit_memory(size: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [limit for limit in (soft, hard, size) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
