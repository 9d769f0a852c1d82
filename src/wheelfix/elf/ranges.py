"""Ranges of numbers, such as the bytes of a file, as (start, stop)."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence


def merge_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges in order, those that overlap or touch as one."""
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(stop, joined[-1][1])
        else:
            joined.append((start, stop))
    return joined


def gaps(start: int, stop: int, ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the parts of `start` to `stop` outside of `ranges`, as `merge_ranges` returns them."""
    for number in range(max(bisect_right(ranges, (start, start)) - 1, 0), len(ranges)):
        low, high = ranges[number]
        if low >= stop:
            break
        if low > start:
            yield start, low
        start = max(start, high)
    if start < stop:
        yield start, stop
