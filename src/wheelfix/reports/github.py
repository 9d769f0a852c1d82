"""Report of `check` as GitHub annotations (workflow commands of the runner).

GitHub shows ten annotations of each kind per step, and drops the others silently. So all findings
of a rule in a wheel share one annotation, and the tenth says how many more there are.
"""

from collections.abc import Iterator, Sequence

from wheelfix.grouping import grouped
from wheelfix.named_tuple import NamedTuple
from wheelfix.pipelines.check_result import SetReport
from wheelfix.reports.check_content import (
    LocatedFinding,
    RenderOptions,
    advice,
    causes_in_wheel,
    locate,
    message_with_place,
    unreadable,
    visible_report,
)
from wheelfix.reports.check_text import totals
from wheelfix.reports.printable import error_words, printable
from wheelfix.rules.findings import Severity
from wheelfix.text import FEW, count, first_of

LIMIT = 10
"""Annotations of one kind that GitHub shows per step."""
_LONGEST = 1000
"""Characters per line."""
_COMMAND = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


class _Note(NamedTuple):
    """One annotation, not yet escaped."""

    severity: Severity
    path: str
    title: str
    lines: tuple[str, ...]


def render(set_report: SetReport, options: RenderOptions) -> str:
    """Return at most ten annotations of each kind, errors first, and the totals as plain text."""
    notes = [
        _Note(Severity.ERROR, path, "wheel not judged", tuple(error_words(error).splitlines()))
        for path, error in unreadable(set_report, options)
    ]
    notes += _notes(locate(visible_report(set_report, options).all_findings, options))
    lines: list[str] = []
    for severity in sorted(Severity, reverse=True):
        lines += _limit([note for note in notes if note.severity is severity])
    return "\n".join([*lines, *totals(set_report, options)])


def _notes(findings: Sequence[LocatedFinding]) -> Iterator[_Note]:
    """Yield an annotation for each rule in each wheel."""
    groups = grouped(findings, lambda a: (a.finding.severity, a.path, a.finding.code))
    for (severity, path, _), group in groups.items():
        found = [located.finding for located in group]
        lines = first_of([message_with_place(finding) for finding in found], FEW)
        told = advice(causes_in_wheel(found)[0].finding, path)
        yield _Note(severity, path, group[0].title, (*lines, *told.splitlines()))


def _limit(notes: Sequence[_Note]) -> Iterator[str]:
    if len(notes) <= LIMIT:
        yield from map(_command, notes)
        return
    yield from map(_command, notes[: LIMIT - 1])
    rest = notes[LIMIT - 1 :]
    kind = count(len(rest), rest[0].severity.label)
    lines = (f"{kind} more, by rule and wheel:", *(f"{n.path}: {n.title}" for n in rest[:LIMIT]))
    yield _command(_Note(severity=rest[0].severity, path="", title="and more", lines=lines))


def _command(note: _Note) -> str:
    place = f"file={_property(note.path)}," if note.path else ""
    message = _data("\n".join(_truncate(printable(line)) for line in note.lines))
    title = _property(f"wheelfix: {note.title}")
    return f"::{_COMMAND[note.severity]} {place}title={title}::{message}"


def _truncate(line: str) -> str:
    """Truncate a line: GitHub truncates an annotation at 64 KiB."""
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def _data(text: str) -> str:
    """Escape a message, as `escapeData` of the runner's toolkit does."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escape a property, as `escapeProperty` of the runner's toolkit does."""
    return _data(printable(text)).replace(":", "%3A").replace(",", "%2C")
