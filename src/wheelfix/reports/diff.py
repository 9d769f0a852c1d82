"""The output of `wheelfix diff`: text, Markdown, JSON (`schemas/diff.schema.json`)."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from wheelfix.pipelines.compare_releases import Comparison
from wheelfix.reports.markdown import code_span, folded, prose
from wheelfix.reports.printable import Colour, json_text, paint, printable
from wheelfix.rules.findings import Severity
from wheelfix.rules.release_comparison import Change, ChangeKind
from wheelfix.text import counted, join_some

_ITEMS, _MEMBERS = 5, 3
_MANY_ITEMS = 100
"""Items of a folded list; a comment on GitHub has at most 65,536 characters."""
_LARGEST_COMMENT = 60_000
_COLOURS = {Severity.ERROR: Colour.RED, Severity.WARNING: Colour.YELLOW}


class Judged(NamedTuple):
    """The comparisons of a run, and the kinds of change that are intended."""

    comparisons: Sequence[Comparison]
    accepted: Collection[ChangeKind] = ()

    def severity(self, change: Change) -> Severity:
        """Return how severe a change is, once those that are intended no longer count."""
        return Severity.INFO if change.kind in self.accepted else change.severity

    def number(self, severity: Severity) -> int:
        """Return the number of changes of one severity."""
        changes = (change for found in self.comparisons for change in found.changes)
        return sum(self.severity(change) is severity for change in changes)

    @property
    def totals(self) -> str:
        """The numbers of changes, in words."""
        words = ((s, self.number(s)) for s in reversed(Severity))
        return ", ".join(counted(n, s.word) for s, n in words if n) or "no differences"


def text(judged: Judged, *, verbose: bool, colour: bool) -> str:
    """Return a paragraph for each pair of wheels; all items if `verbose`."""
    lines: list[str] = []
    for found in judged.comparisons:
        lines += [f"--- {found.old or '(none)'}", f"+++ {found.new or '(none)'}"]
        for change in found.changes or ():
            lines += _change_lines(judged, change, verbose=verbose)
        if not found.changes:
            lines.append("no differences")
    lines.append(judged.totals)
    return "\n".join(_painted(printable(line), colour=colour) for line in lines)


def _change_lines(judged: Judged, change: Change, *, verbose: bool) -> Iterator[str]:
    severity = judged.severity(change)
    where = _where(change, len(change.members) if verbose else _MEMBERS)
    yield f"  {severity.word:8} {change.kind}: {change.message}{where}"
    items = change.items if verbose else change.items[:_ITEMS]
    yield from (f"             {item}" for item in items)
    if len(items) < len(change.items):
        yield f"             and {len(change.items) - len(items):,} more: -v"


def _where(change: Change, most: int) -> str:
    """Return the files of a change, unless its message names them."""
    named = any(member in change.message for member in change.members)
    return f": {join_some(change.members, most)}" if change.members and not named else ""


def _painted(line: str, *, colour: bool) -> str:
    for severity, tone in _COLOURS.items():
        if line.startswith(f"  {severity.word}"):
            return line.replace(severity.word, paint(severity.word, tone, on=colour), 1)
    return paint(line, Colour.BOLD, on=colour) if line.startswith(("--- ", "+++ ")) else line


def markdown(judged: Judged) -> str:
    """Return a comment for a code host: a table for each pair, longer lists folded.

    It is short enough for a comment on GitHub: lists are left out if they do not fit.
    """
    full = _document(judged, _lists)
    return full if len(full) <= _LARGEST_COMMENT else _document(judged, lambda _: ())


def _document(judged: Judged, lists: Callable[[Change], Iterable[str]]) -> str:
    blocks = ["## wheelfix diff", prose(judged.totals)]
    for found in judged.comparisons:
        blocks.append(f"{code_span(found.old or '(none)')} → {code_span(found.new or '(none)')}")
        rows = [
            f"| {judged.severity(change).word} | {change.kind} | {_cell(change)} |"
            for change in found.changes
        ]
        if rows:
            blocks.append("\n".join(["| | change | |", "|---|---|---|", *rows]))
        blocks += [block for change in found.changes for block in lists(change)]
    return "\n\n".join(blocks)


def _cell(change: Change) -> str:
    where = _where(change, _MEMBERS)
    few = change.items if len(change.items) <= _ITEMS else ()
    return prose(change.message + where) + "".join(f"<br>{code_span(item)}" for item in few)


def _lists(change: Change) -> Iterator[str]:
    if len(change.items) > _ITEMS:
        rows = [f"- {code_span(item)}" for item in change.items[:_MANY_ITEMS]]
        left = len(change.items) - len(rows)
        rows += [f"- and {left:,} more"] if left else []
        title = f"{change.kind}: {prose(change.message)}"
        yield folded(title, "\n".join(rows))


def as_json(judged: Judged) -> str:
    """Return all changes; `version` changes when the meaning of a key does."""
    value = {
        "version": 1,
        "summary": {
            "errors": judged.number(Severity.ERROR),
            "warnings": judged.number(Severity.WARNING),
            "infos": judged.number(Severity.INFO),
        },
        "wheels": [
            {
                "old": found.old or None,
                "new": found.new or None,
                "changes": [_change(judged, change) for change in found.changes],
            }
            for found in judged.comparisons
        ],
    }
    return json_text(value)


def _change(judged: Judged, change: Change) -> dict[str, Any]:
    return {
        "kind": change.kind.value,
        "severity": judged.severity(change).label,
        "accepted": change.kind in judged.accepted,
        "message": change.message,
        "members": list(change.members),
        "items": list(change.items),
    }
