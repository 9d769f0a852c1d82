"""The output of `wheelfix diff`: text, Markdown, JSON (`schemas/diff.schema.json`)."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from wheelfix.diff.changes import ChangeKind, ReleaseChange
from wheelfix.diff.wheels_of_releases import Comparison
from wheelfix.grouping import flatten
from wheelfix.named_tuple import NamedTuple
from wheelfix.reports.check_content import COLOR_OF
from wheelfix.reports.markdown import code_span, fold, prose
from wheelfix.reports.printable import PLAIN, Color, Style, json_text, paint, printable
from wheelfix.rules.findings import Severity
from wheelfix.text import count, first_of, join_some

_ITEMS, _MEMBERS = 5, 3
_MANY_ITEMS = 100
"""Items of a folded list; a comment on GitHub has at most 65,536 characters."""
_LARGEST_COMMENT = 60_000


class Judged(NamedTuple):
    """The comparisons of a run, and the kinds of change that are intended."""

    comparisons: Sequence[Comparison]
    accepted: Collection[ChangeKind] = ()

    def severity(self, change: ReleaseChange) -> Severity:
        """Return how severe a change is, once those that are intended no longer count."""
        return Severity.NOTE if change.kind in self.accepted else change.severity

    def number(self, severity: Severity) -> int:
        """Return the number of changes of one severity."""
        changes = flatten(comparison.changes for comparison in self.comparisons)
        return sum(self.severity(change) is severity for change in changes)

    @property
    def totals(self) -> str:
        """The numbers of changes, in words."""
        words = ((s, self.number(s)) for s in reversed(Severity))
        return ", ".join(count(n, s.label) for s, n in words if n) or "no differences"


def text(judged: Judged, style: Style = PLAIN) -> str:
    """Return a paragraph for each pair of wheels; all items if `verbose`."""
    lines: list[str] = []
    for comparison in judged.comparisons:
        lines += [f"--- {comparison.old or '(none)'}", f"+++ {comparison.new or '(none)'}"]
        for change in comparison.changes or ():
            lines += _change_lines(judged, change, style)
        if not comparison.changes:
            lines.append("no differences")
    lines.append(judged.totals)
    return "\n".join(_paint(printable(line), style) for line in lines)


def _change_lines(judged: Judged, change: ReleaseChange, style: Style) -> Iterator[str]:
    severity = judged.severity(change)
    where = _where(change, len(change.members) if style.verbose else _MEMBERS)
    yield f"  {severity.label:8} {change.kind}: {change.message}{where}"
    most = len(change.items) if style.verbose else _ITEMS
    yield from (f"             {item}" for item in first_of(change.items, most, ": -v"))


def _where(change: ReleaseChange, most: int) -> str:
    """Return the files of a change, unless its message names them."""
    named = any(member in change.message for member in change.members)
    return f": {join_some(change.members, most)}" if change.members and not named else ""


def _paint(line: str, style: Style) -> str:
    for severity, tone in COLOR_OF.items():
        if line.startswith(f"  {severity.label}"):
            return line.replace(severity.label, paint(severity.label, tone, on=style.color), 1)
    return paint(line, Color.BOLD, on=style.color) if line.startswith(("--- ", "+++ ")) else line


def markdown(judged: Judged) -> str:
    """Return a comment for a code host: a table for each pair, longer lists folded.

    It is short enough for a comment on GitHub: lists are left out if they do not fit.
    """
    full = _document(judged, _lists)
    return full if len(full) <= _LARGEST_COMMENT else _document(judged, lambda _: ())


def _document(judged: Judged, lists: Callable[[ReleaseChange], Iterable[str]]) -> str:
    blocks = ["## wheelfix diff", prose(judged.totals)]
    for comparison in judged.comparisons:
        old, new = (code_span(name or "(none)") for name in (comparison.old, comparison.new))
        blocks.append(f"{old} → {new}")
        rows = [
            f"| {judged.severity(change).label} | {change.kind} | {_cell(change)} |"
            for change in comparison.changes
        ]
        if rows:
            blocks.append("\n".join(["| | change | |", "|---|---|---|", *rows]))
        blocks += list(flatten(map(lists, comparison.changes)))
    return "\n\n".join(blocks)


def _cell(change: ReleaseChange) -> str:
    where = _where(change, _MEMBERS)
    few = change.items if len(change.items) <= _ITEMS else ()
    return prose(change.message + where) + "".join(f"<br>{code_span(item)}" for item in few)


def _lists(change: ReleaseChange) -> Iterator[str]:
    if len(change.items) > _ITEMS:
        rows = first_of([code_span(item) for item in change.items], _MANY_ITEMS)
        title = f"{change.kind}: {prose(change.message)}"
        yield fold(title, "\n".join(f"- {row}" for row in rows))


def as_json(judged: Judged) -> str:
    """Return all changes; `version` changes when the meaning of a key does."""
    value = {
        "version": 1,
        "summary": {
            "errors": judged.number(Severity.ERROR),
            "warnings": judged.number(Severity.WARNING),
            "notes": judged.number(Severity.NOTE),
        },
        "wheels": [
            {
                "old": comparison.old or None,
                "new": comparison.new or None,
                "changes": [_change(judged, change) for change in comparison.changes],
            }
            for comparison in judged.comparisons
        ],
    }
    return json_text(value)


def _change(judged: Judged, change: ReleaseChange) -> dict[str, Any]:
    return {
        "kind": change.kind.value,
        "severity": judged.severity(change).label,
        "accepted": change.kind in judged.accepted,
        "message": change.message,
        "members": list(change.members),
        "items": list(change.items),
    }
