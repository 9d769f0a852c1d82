"""Report of `check` as a self-contained HTML page.

The page is complete without its script, which only hides what the filter excludes. Its Content
Security Policy allows this script and this style by their hashes, and nothing else.
"""

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256
from html import escape

from wheelfix.pipelines.check_result import Report, SetReport
from wheelfix.reports.check_content import (
    LocatedFinding,
    RenderOptions,
    of_set,
    of_wheel,
    shown_path,
)
from wheelfix.reports.check_text import totals
from wheelfix.reports.printable import backtick_spans, error_words, printable
from wheelfix.reports.rule_docs import why
from wheelfix.system.resources import read_text
from wheelfix.text import counted


def render(found: SetReport, options: RenderOptions) -> str:
    """Return the page, with a section per wheel and an article per finding."""
    template = read_text("wheelfix.reports", "check_page.html")
    hit = {finding.code for _, finding in found.all_findings}
    reasons = {rule.code: why(rule) for rule in options.rules if rule.code in hit}
    sections: list[str] = []
    if found.findings:
        sections += _section("all wheels side by side", of_set(found, options), reasons)
    for report in found.reports:
        sections += _wheel(report, options, reasons)
    values = {
        "SCRIPT_HASH": _hash(template, "script"),
        "STYLE_HASH": _hash(template, "style"),
        "TITLE": escape(f"wheelfix check: {counted(len(found.reports), 'wheel')}"),
        "SUMS": "<br>".join(_rich(line) for line in totals(found, options)),
        "VERSION": escape(options.version),
        "SECTIONS": "\n".join(sections),
    }
    # In one pass: a name from a wheel may look like one of the marks.
    return re.sub(r"@@(\w+)@@", lambda mark: values[mark[1]], template).rstrip("\n")


def _hash(template: str, element: str) -> str:
    """Return the source expression that allows the inline `element` (CSP 3, 2.3.1)."""
    body = template.partition(f"<{element}>")[2].partition(f"</{element}>")[0]
    return f"'sha256-{b64encode(sha256(body.encode()).digest()).decode()}'"


def _wheel(report: Report, options: RenderOptions, reasons: dict[str, str]) -> Iterator[str]:
    path = shown_path(report.source, options)
    if report.error is not None:
        body = _lines(error_words(report.error))
        yield f"<section><h2>{_escaped(path)}</h2>"
        yield f'<article class="error"><h3><b>unreadable</b></h3><p>{body}</p></article></section>'
        return
    detail = f"its objects allow {report.verdict.overall}" if report.verdict else ""
    yield from _section(path, of_wheel(report, options), reasons, detail)


def _section(
    title: str, findings: Sequence[LocatedFinding], reasons: dict[str, str], detail: str = ""
) -> Iterator[str]:
    yield f"<section><h2>{_escaped(title)} <small>{_escaped(detail)}</small></h2>"
    if not findings:
        yield '<p class="fine">nothing to report</p>'
    for located in findings:
        yield from _article(located, reasons.get(located.finding.code, ""))
    yield "</section>"


def _article(located: LocatedFinding, reason: str) -> Iterator[str]:
    finding = located.finding
    yield f'<article class="{finding.severity.label}">'
    yield f"<h3><b>{finding.severity.word}</b> {_escaped(located.title)}</h3>"
    yield f"<p>{_rich(finding.message)}</p>"
    if finding.member is not None:
        yield f"<p><code>{_escaped(finding.member)}</code></p>"
    rows = [
        *([("entry", f"`{finding.entry}`")] if finding.entry else []),
        *(("note", note) for note in finding.notes),
        *([("why", reason)] if reason else []),
        ("what to do", located.advice),
    ]
    list_items = (f"<dt>{label}</dt><dd>{_lines(text)}</dd>" for label, text in rows)
    yield f"<dl>{''.join(list_items)}</dl></article>"


def _lines(text: str) -> str:
    return "<br>".join(_rich(line) for line in text.splitlines())


def _rich(text: str) -> str:
    """Return a message with its literals as code."""
    return "".join(
        f"<code>{_escaped(piece)}</code>" if literal else _escaped(piece)
        for literal, piece in backtick_spans(text)
    )


def _escaped(text: str) -> str:
    return escape(printable(text))
