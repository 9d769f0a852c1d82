"""The last lines of a run over several wheels: how many ended how, and which ones failed."""

from collections import Counter
from collections.abc import Iterable, Sequence

from wheelfix.grouping import grouped
from wheelfix.named_tuple import NamedTuple
from wheelfix.reports.printable import printable
from wheelfix.text import FEW, count, join_plain


class WheelResult(NamedTuple):
    """How one wheel ended."""

    name: str
    status: str
    cause: str
    """Why it is listed; empty for a wheel with which all is well."""


def run_totals(results: Iterable[WheelResult], statuses: Sequence[str]) -> str:
    """Return the count of each of `statuses`, and a line a cause with its wheels; empty for one.

    `statuses` are ordered from the best to the worst; the wheels with the worst come first.
    """
    every = list(results)
    if len(every) < 2:
        return ""
    by = Counter(result.status for result in every)
    counts = ", ".join(f"{by[status]:,} {status}" for status in statuses if by[status])
    listed = sorted(
        (result for result in every if result.cause),
        key=lambda result: -statuses.index(result.status),
    )
    widest = max((len(result.status) for result in listed), default=0)
    lines = [f"{count(len(every), 'wheel')}: {counts}"]
    for (status, cause), same in grouped(listed, lambda result: result[1:]).items():
        names = join_plain((result.name for result in same), FEW)
        text = " ".join(f"{names}: {cause}".split())
        lines.append(f"  {status:{widest}} {printable(text)}")
    return "\n".join(lines)
