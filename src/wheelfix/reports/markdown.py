"""Report of `check` as GitHub-flavoured Markdown: tables, folded details, graphs.

Literals become code spans without backticks, and everything else is escaped character by
character, so that no name from a wheel can become markup.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from wheelfix.analysis.graph import graph_of_wheel
from wheelfix.analysis.world import Installed
from wheelfix.budget import BudgetError
from wheelfix.grouping import flatten, grouped
from wheelfix.loader.targets import default_name, find
from wheelfix.named_tuple import NamedTuple
from wheelfix.pipelines.check_result import Report, SetReport
from wheelfix.reports.check_content import (
    LocatedFinding,
    RenderOptions,
    of_set,
    of_wheel,
    shown_path,
    visible_report,
)
from wheelfix.reports.check_formats import SUMMARY_LIMIT
from wheelfix.reports.check_text import totals
from wheelfix.reports.graph_formats import mermaid
from wheelfix.reports.printable import backtick_spans, error_words, printable, shorten
from wheelfix.reports.rule_excerpts import rule_address, why
from wheelfix.rules.findings import Severity

_MOST_OBJECTS = 60
_MOST_EDGES = 250
_MOST_TEXT = 40_000
"""Larger graphs are unreadable, or refused by Mermaid (50,000 characters, 500 edges)."""
_MOST_GRAPHS = 10


class _Detail(NamedTuple):
    """The level of detail."""

    rows: int | None = None
    """Findings shown per wheel; None for all."""
    advice: bool = True
    graphs: int = _MOST_GRAPHS


_DETAILS = (
    _Detail(),
    _Detail(graphs=1),
    _Detail(graphs=0),
    _Detail(graphs=0, rows=100, advice=False),
    _Detail(graphs=0, rows=10, advice=False),
    _Detail(graphs=0, rows=0, advice=False),
)


def render(set_report: SetReport, options: RenderOptions) -> str:
    """Return all findings with advice, and the graphs of the first few wheels."""
    return _document(set_report, options, _DETAILS[0])


def step_summary(set_report: SetReport, options: RenderOptions, room: int = SUMMARY_LIMIT) -> str:
    """Return the report in at most `room` bytes; graphs go first, then advice, then rows."""
    text = ""
    for detail in _DETAILS:
        text = _document(set_report, options, detail) + "\n"
        if len(text.encode()) <= room:
            return text
    whole = text.encode()[: max(room, 0)]
    return whole[: whole.rfind(b"\n") + 1].decode()


def _document(set_report: SetReport, options: RenderOptions, detail: _Detail) -> str:
    blocks = ["## wheelfix check", _overview(set_report.reports, options)]
    blocks.append("  \n".join(prose(line) for line in totals(set_report, options)))
    set_report = visible_report(set_report, options)
    if set_report.findings:
        blocks.append("### All wheels side by side")
        blocks += _findings(of_set(set_report, options), options, detail)
    graphs = detail.graphs
    for report in set_report.reports:
        graph = _graph(report) if report.findings and graphs else ""
        graphs -= bool(graph)
        blocks += _section(report, graph, options, detail)
    return "\n\n".join(block for block in blocks if block)


def _overview(reports: Iterable[Report], options: RenderOptions) -> str:
    rows = [
        (
            code_span(shown_path(report.source, options)),
            code_span(report.verdict.overall) if report.verdict else "",
            *(["not judged", "", ""] if report.error else _numbers(report)),
        )
        for report in reports
    ]
    return _table(("wheel", "objects allow", "errors", "warnings", "notes"), rows)


def _numbers(report: Report) -> list[str]:
    by = Counter(finding.severity for finding in report.findings)
    return [f"{by[severity]:,}" for severity in sorted(Severity, reverse=True)]


def _section(report: Report, graph: str, options: RenderOptions, detail: _Detail) -> Iterator[str]:
    if report.error is None and not report.findings:
        return
    yield f"### {code_span(shown_path(report.source, options))}"
    if report.error is not None:
        words = error_words(report.error).splitlines()
        yield "  \n".join(map(prose, words if options.style.verbose else map(shorten, words)))
    yield from _findings(of_wheel(report, options), options, detail)
    if graph:
        yield fold("Libraries once installed", f"```mermaid\n{graph}\n```")


def _findings(
    findings: Sequence[LocatedFinding], options: RenderOptions, detail: _Detail
) -> Iterator[str]:
    shown = findings if detail.rows is None else findings[: detail.rows]
    rows = [
        (
            located.finding.severity.label,
            prose(located.title),
            code_span(located.finding.member) if located.finding.member else "",
            prose(located.finding.message),
        )
        for located in shown
    ]
    if rows:
        yield _table(("severity", "rule", "file", "what is wrong"), rows)
    if len(shown) < len(findings):
        yield f"and {len(findings) - len(shown):,} more"
    if detail.advice and findings:
        yield fold("Why, and what to do", "\n".join(_advice(findings, options)))


def _advice(findings: Iterable[LocatedFinding], options: RenderOptions) -> Iterator[str]:
    """Yield for each rule why it matters, and for each finding its evidence and remedy."""
    rules = {rule.code: rule for rule in options.rules}
    for code, group in grouped(findings, lambda located: located.finding.code).items():
        rule = rules.get(code)
        title = prose(group[0].title)
        first = group[0].finding
        if address := rule_address(code, first.name, options.style.documentation):
            title = f"[{title}]({address})"
        reason = f": {prose(why(rule.explanation))}" if rule is not None else ""
        yield f"- **{title}**{reason}"
        for text, alike in grouped(group, _remedy).items():
            members = dict.fromkeys(located.finding.member for located in alike)
            files = ", ".join(code_span(member) for member in members if member)
            yield f"  - {files}: {text}" if files else f"  - {text}"


def _remedy(located: LocatedFinding) -> str:
    """Return the notes and the advice of a finding."""
    texts = (*located.finding.notes, located.advice)
    return "<br>".join(prose(line) for line in flatten(text.splitlines() for text in texts))


def _graph(report: Report) -> str:
    """Return the graph that `explain` draws; empty for one that is too large to read."""
    wheel, neighbors = report.wheel, report.neighbors
    if wheel is None or not wheel.elfs or len(wheel.elfs) > _MOST_OBJECTS:
        return ""
    try:
        machine = find(default_name(wheel, [neighbor.platforms for neighbor in neighbors]), wheel)
        world = Installed(wheel=wheel, neighbors=neighbors).on(machine)
        graph = graph_of_wheel(wheel, world)
    except BudgetError:
        return ""
    text = mermaid([graph])
    return text if len(graph.edges) <= _MOST_EDGES and len(text) <= _MOST_TEXT else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fold(title: str, body: str) -> str:
    """Return a block that shows `body` when `title` is clicked."""
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def code_span(text: str) -> str:
    """Return a code span; a backtick would end it, a pipe would end the table cell."""
    shown = printable(text).replace("`", r"\x60").replace("|", r"\x7c")
    return f"`{shown}`" if shown.strip() else f"`{shown!r}`"


def prose(text: str) -> str:
    """Return a message as text, its literals as code spans."""
    return "".join(
        code_span(piece) if literal else _plain(piece)
        for literal, piece in backtick_spans(printable(text))
    )


_MARKUP = str.maketrans({c: f"&#{ord(c)};" for c in "\\*_[]<>&|$#~!{}"}) | str.maketrans(
    {"@": "`@`"}  # as an entity it would still mention a user
)


def _plain(text: str) -> str:
    """Escape markup, and text that GitHub turns into links (GFM, "Autolinks")."""
    return text.translate(_MARKUP).replace("://", "&#58;//").replace("www.", "www&#46;")
