"""One function over many items, on any executor: in their order, and only some handed out at once.

What an item costs in memory is known to nobody, so neither all calls nor all results are kept.
Where a worker dies, which breaks a pool of processes for every call that it has, and which Dask
lays to all that the worker had, the calls in hand are made again, each alone: the item that is to
blame is then known, and it alone is lost.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from wheelfix.errors import WheelfixError
from wheelfix.system.crew import Crew
from wheelfix.system.executors import handed_out

Item = TypeVar("Item")
Result = TypeVar("Result")


def spread(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    crew: Crew | None,
    lost: Callable[[Item, Exception], Result],
) -> Iterator[Result]:
    """Yield `work(item)` for each of `items`, in their order; without a crew, here and now.

    `lost` says what stands for an item whose call raised something, or took its worker with it.
    Raises `ToolError` when the executor is gone, and what `work` raises of `WheelfixError`.
    """
    if crew is None:
        yield from (_called(work, item, lost) for item in items)
        return
    yield from handed_out(work, items, crew, lost)


def _called(
    work: Callable[[Item], Result], item: Item, lost: Callable[[Item, Exception], Result]
) -> Result:
    try:
        return work(item)
    except WheelfixError:
        raise
    except Exception as error:  # noqa: BLE001 - a call may raise anything; it is told
        return lost(item, error)
