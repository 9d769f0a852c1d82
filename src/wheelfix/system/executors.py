"""What `spread` does with an executor: calls handed out, and what was lost with a dead worker."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    wait,
)
from itertools import islice
from typing import TypeVar, cast

from wheelfix.errors import ToolError, WheelfixError
from wheelfix.system.crew import Crew

Item = TypeVar("Item")
Result = TypeVar("Result")

_RESULTS_AHEAD = 16
"""How many results, for each call at once, may wait for an earlier one that takes its time."""


def handed_out(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    crew: Crew,
    lost: Callable[[Item, Exception], Result],
) -> Iterator[Result]:
    """Yield `work(item)` for each of `items`, as `spread` does with a crew."""
    executor, rest = crew.start(), iter(items)
    queue: deque[tuple[Item, Future[Result]]] = deque()
    running: set[Future[Result]] = set()
    try:
        while True:
            running = {future for future in running if not future.done()}
            room = min(crew.at_once - len(running), _RESULTS_AHEAD * crew.at_once - len(queue))
            for item in islice(rest, max(room, 0)):
                queue.append((item, _submitted(executor, work, item)))
                running.add(queue[-1][1])
            if not queue:
                return
            item, future = queue[0]
            if not future.done():
                wait(running, return_when=FIRST_COMPLETED)
            elif _is_killed(future):
                executor = yield from _one_by_one(work, queue, crew, executor, lost)
            else:
                queue.popleft()
                yield _result(item, future, lost)
    except GeneratorExit:  # nobody wants the rest
        for _, future in queue if crew.is_cancelling else ():
            future.cancel()
        raise


def _one_by_one(
    work: Callable[[Item], Result],
    queue: deque[tuple[Item, Future[Result]]],
    crew: Crew,
    broken: Executor,
    lost: Callable[[Item, Exception], Result],
) -> Generator[Result, None, Executor]:
    """Empty the `queue` of an executor that lost workers; return a sound one."""
    wait([future for _, future in queue])
    executor = _replaced(crew, broken, [future for _, future in queue])
    while queue:
        item, future = queue.popleft()
        if _is_killed(future):
            future = _submitted(executor, work, item)
            if _is_killed(future):
                executor = _replaced(crew, executor, [future])
                yield lost(item, cast("Exception", future.exception()))
                continue
        yield _result(item, future, lost)
    return executor


def _is_killed(future: "Future[Result]") -> bool:
    """Return whether a call has ended with its worker, for which another call may be to blame."""
    if future.cancelled():
        return False
    error = future.exception()
    return isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker"  # Dask's


def _replaced(crew: Crew, broken: Executor, ended: "Iterable[Future[Result]]") -> Executor:
    """Return a sound executor: the same one, unless it has broken with calls that `ended`."""
    if not any(isinstance(_failure(future), BrokenExecutor) for future in ended):
        return broken
    executor = crew.start()
    if executor is broken:
        raise ToolError(
            "the executor broke: a worker of it ended abruptly",
            hint="was it out of memory? start another, and go on with the wheels that are left",
        )
    return executor


def _submitted(executor: Executor, work: Callable[[Item], Result], item: Item) -> "Future[Result]":
    """Submit a call; what keeps it from being submitted is its failure."""
    try:
        return executor.submit(work, item)
    except RuntimeError as error:  # `BrokenExecutor` is one; so is a shutdown
        failed: Future[Result] = Future()
        failed.set_exception(error)
        return failed


def _failure(future: "Future[Result]") -> BaseException | None:
    """Return what a finished call ended with."""
    return None if future.cancelled() else future.exception()


def _result(
    item: Item, future: "Future[Result]", lost: Callable[[Item, Exception], Result]
) -> Result:
    try:
        return future.result()
    except CancelledError as error:
        raise ToolError(
            "the workers are gone: a call was cancelled that nobody here has cancelled",
            hint="start them again; a run that writes records to a file goes on with --resume",
        ) from error
    except WheelfixError:
        raise
    except Exception as error:  # noqa: BLE001 - an executor may raise anything; it is told
        return lost(item, error)
