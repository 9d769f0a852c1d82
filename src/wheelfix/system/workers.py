"""Calls of one function with many items: in this process, in an executor, or in worker processes.

Results come in the order of the items. The number of calls and results that are kept is bounded.
"""

import atexit
import os
import resource
import signal
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import suppress
from functools import partial
from itertools import islice
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from wheelfix.errors import ToolError, WheelfixError, note_place
from wheelfix.frozen import frozen
from wheelfix.named_tuple import NamedTuple
from wheelfix.system import deferred
from wheelfix.system.signal_mask import SIGNALS, hold_signals
from wheelfix.system.subprocesses import end_tree

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Item = TypeVar("Item")
Result = TypeVar("Result")

_WINDOW = 1024
"""Calls that an executor gets ahead of the result that is due."""
_ANSWERS_PER_PROCESS = 16
"""Answers of worker processes that wait for an earlier one."""


class WorkerDiedError(Exception):
    """The worker process ended before the call returned."""


class WorkerTimeoutError(Exception):
    """The call exceeded its time limit, and its worker process was killed."""


class Workers(Protocol):
    """A way to call a function with many items."""

    def map_in_order(
        self, work: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[tuple[Item, Result | Exception]]:
        """Yield each item with `work(item)`, or with why there is no result.

        That is what `work` raised, `WorkerDiedError` or `WorkerTimeoutError`. A `WheelfixError` of
        `work` is raised, and so is `ToolError` if no worker is left.
        """
        ...


class InProcess:
    """Calls in this process, one after the other, without a time limit."""

    def map_in_order(
        self, work: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[tuple[Item, Result | Exception]]:
        """Call `work` for each item (`Workers`)."""
        for item in items:
            yield item, _unless_fatal(_answer(work, item))


class Lost(NamedTuple):
    """Calls that a process before this one has begun, and that have ended it."""

    how: Exception

    def map_in_order(
        self, work: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[tuple[Item, Result | Exception]]:
        """Call nothing (`Workers`)."""
        del work
        return ((item, self.how) for item in items)


def _answer(work: Callable[[Item], Result], item: Item) -> Result | Exception:
    try:
        return work(item)
    except Exception as error:  # noqa: BLE001 - a call may raise anything; it is reported
        note_place(error)
        return error


def _unless_fatal(answer: Result | Exception) -> Result | Exception:
    if isinstance(answer, WheelfixError):
        raise answer
    return answer


@frozen(kw_only=False)
class InExecutor:
    """Calls in an executor, whose time limits and lost workers are its own affair."""

    executor: Executor
    window: int = _WINDOW

    def map_in_order(
        self, work: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[tuple[Item, Result | Exception]]:
        """Submit at most `window` calls ahead (`Workers`)."""
        remaining = iter(items)
        calls: deque[tuple[Item, Future[Result]]] = deque()
        try:
            while True:
                for item in islice(remaining, self.window - len(calls)):
                    calls.append((item, _submit(self.executor, work, item)))
                if not calls:
                    return
                item, future = calls.popleft()
                answer = _future_answer(future)
                yield item, _unless_fatal(answer)
        finally:
            for _, future in calls:
                future.cancel()


def _submit(executor: Executor, work: Callable[[Item], Result], item: Item) -> "Future[Result]":
    """Submit a call; if the executor is broken, the calls before may still have results."""
    try:
        return executor.submit(work, item)
    except RuntimeError as error:  # `BrokenExecutor`, or it was shut down
        failed: Future[Result] = Future()
        failed.set_exception(error)
        return failed


def _future_answer(future: "Future[Result]") -> Result | Exception:
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
            hint="start them again",
        ) from error
    except Exception as error:  # noqa: BLE001 - a call may raise anything; it is reported
        return error


class WorkerProcess:
    """A process that makes one call after the other, each with a time limit."""

    def __init__(self, prepare: Callable[[], object] = lambda: None) -> None:
        """Fork the process, which calls `prepare` first. Raises `OSError`.

        Start methods other than fork import the caller's main module again (multiprocessing).
        """
        fork = deferred.multiprocessing.get_context("fork")
        self.connection, its = fork.Pipe()
        self._process = fork.Process(target=_answer_calls, args=(its, prepare))
        with hold_signals(), warnings.catch_warnings():
            # Python 3.12 warns that other threads may hold locks. The worker uses only locks that
            # Python makes anew after a fork.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
        its.close()
        # Python would wait for it at the end of this process (`multiprocessing.util`).
        atexit.register(self.kill)

    def is_alive(self) -> bool:
        """Return whether the process still runs."""
        return self._process.is_alive()

    def start_call(self, work: Callable[[Item], Result], item: Item) -> None:
        """Let the process call `work(item)`."""
        with suppress(BrokenPipeError):  # the process has ended, which `answer` says
            self.connection.send((work, item))

    def answer(self, timeout: float | None) -> Any:  # noqa: ANN401 - what `work` returns
        """Return the answer of the call, or why there is none after `timeout` seconds.

        Without a timeout, it waits for the answer.

        That is what `work` raised, `WorkerDiedError` or `WorkerTimeoutError`. With these two, the
        process is gone.
        """
        try:
            if self.connection.poll(timeout):
                return self.connection.recv()
        except (EOFError, OSError):
            self.kill()
            return WorkerDiedError()
        except Exception as error:  # noqa: BLE001 - an answer that cannot be unpickled
            return error
        self.kill()
        return WorkerTimeoutError()

    def kill(self) -> None:
        """Kill the process, which has nothing to lose, and what it has started.

        At the end of this process that happens by itself.
        """
        atexit.unregister(self.kill)
        if self._process.pid is not None and self._process.is_alive():
            end_tree(self._process.pid)
        self._process.join()
        self.connection.close()


class _Call(NamedTuple):
    """A call that a worker makes."""

    worker: WorkerProcess
    number: int
    item: Any
    deadline: float


class WorkerProcesses:
    """Calls in forked processes, which are killed if a call takes too long, and in the end."""

    def __init__(
        self,
        count: int,
        *,
        timeout: float,
        memory: int | None,
    ) -> None:
        """Use up to `count` processes, which are started as they are needed.

        `timeout` limits each call (seconds; 0 for no limit), `memory` each process (bytes;
        RLIMIT_DATA of getrlimit(2)).
        """
        self._count = count
        self._timeout = timeout or inf
        self._prepare = partial(_limit_memory, memory)
        self._idle: list[WorkerProcess] = []
        self._calls: list[_Call] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in (*self._idle, *(call.worker for call in self._calls)):
            worker.kill()

    def map_in_order(
        self, work: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[tuple[Item, Result | Exception]]:
        """Give each process one call at a time (`Workers`)."""
        numbered = enumerate(items)
        answers: dict[int, tuple[Item, Result | Exception]] = {}
        following = 0
        while True:
            if len(answers) < _ANSWERS_PER_PROCESS * self._count:
                for number, item in islice(numbered, self._count - len(self._calls)):
                    self._start(work, number, item)
            if not self._calls:
                return
            for call in _wait(self._calls):
                self._calls.remove(call)
                answers[call.number] = call.item, self._receive(call)
            while following in answers:
                item, answer = answers.pop(following)
                yield item, _unless_fatal(answer)
                following += 1

    def _start(self, work: Callable[[Item], Result], number: int, item: Item) -> None:
        worker = self._living_worker()
        self._calls.append(_Call(worker, number, item, monotonic() + self._timeout))
        worker.start_call(work, item)

    def _living_worker(self) -> WorkerProcess:
        while self._idle:
            worker = self._idle.pop()
            if worker.is_alive():
                return worker
            worker.kill()
        return WorkerProcess(self._prepare)

    def _receive(self, call: _Call) -> Any:  # noqa: ANN401 - what `work` returns
        """Return the answer of a call that ended, or why there is none."""
        answer = call.worker.answer(0)
        if not isinstance(answer, WorkerDiedError | WorkerTimeoutError):
            self._idle.append(call.worker)
        return answer


def _wait(calls: list[_Call]) -> list[_Call]:
    """Wait until a call has an answer or exceeds its time limit; return all that do."""
    left = min(call.deadline for call in calls) - monotonic()
    answered = deferred.connection.wait(
        [call.worker.connection for call in calls], None if left == inf else left
    )
    now = monotonic()
    return [call for call in calls if call.worker.connection in answered or call.deadline <= now]


def _answer_calls(connection: "Connection", prepare: Callable[[], object]) -> None:
    for number in SIGNALS:  # a terminal sends them to the whole group
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    prepare()
    while True:
        work, item = connection.recv()
        try:
            connection.send(_answer(work, item))
        except Exception as error:  # noqa: BLE001 - a result that cannot be pickled
            connection.send(error)


def _limit_memory(size: int | None) -> None:
    if size is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [limit for limit in (soft, hard, size) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))


def _end_with_parent() -> None:
    parent = deferred.multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
