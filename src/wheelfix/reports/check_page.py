"""Report of `check` as a self-contained HTML page.

The page is complete without its script, which only hides what the filter excludes. Its Content
Security Policy allows this script and this style by their hashes, and nothing else.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from wheelfix.grouping import grouped
from wheelfix.pipelines.check_result import Report, SetReport
from wheelfix.reports.check_content import (
    Cause,
    RenderOptions,
    advice,
    causes_in_wheel,
    causes_of_set,
    objects_text,
    shown_path,
)
from wheelfix.reports.check_text import kinds_of, totals
from wheelfix.reports.fill_template import fill_template
from wheelfix.reports.printable import backtick_spans, error_words, printable
from wheelfix.reports.rule_excerpts import why
from wheelfix.rules.findings import Safety, Severity
from wheelfix.text import FEW, count, in_units


def render(set_report: SetReport, options: RenderOptions) -> str:
    """Return the page: a section per wheel, in it an article per rule, in it the causes.

    Wheels with errors come first; of many wheels, each is folded.
    """
    hit = {finding.code for _, finding in set_report.all_findings}
    reasons = {rule.code: why(rule.explanation) for rule in options.rules if rule.code in hit}
    sections: list[str] = []
    if set_report.findings:
        beside = causes_of_set(set_report, options)
        heading = "<h2>all wheels side by side</h2>"
        sections += _section(heading, _articles(beside, "", reasons), is_open=True)
    set_report = set_report._replace(reports=tuple(sorted(set_report.reports, key=_rank)))
    is_open = len(set_report.reports) <= FEW
    for number, report in enumerate(set_report.reports):
        sections += _wheel(number, report, options, reasons, is_open=is_open)
    values = {
        "TITLE": escape(f"wheelfix check: {count(len(set_report.reports), 'wheel')}"),
        "SUMS": "<br>".join(_rich(line) for line in totals(set_report, options)),
        "VERSION": escape(options.version),
        "OVERVIEW": _overview(set_report, options) if len(set_report.reports) > 1 else "",
        "SECTIONS": "\n".join(sections),
    }
    return fill_template("check_page.html", values)


def _rank(report: Report) -> int:
    """Return the place of a wheel in the page: unreadable ones first, then those with errors."""
    worst = max((finding.severity for finding in report.findings), default=-1)
    return -len(Severity) if report.error is not None else -worst


def _overview(set_report: SetReport, options: RenderOptions) -> str:
    """Return a table of the wheels: a row each, with the numbers of findings by severity."""
    severities = sorted(Severity, reverse=True)
    head = "".join(f"<th>{text}</th>" for text in ("wheel", *(f"{s.label}s" for s in severities)))
    rows = [head]
    for number, report in enumerate(set_report.reports):
        name = f'<a href="#wheel-{number}">{_escape(shown_path(report.source, options))}</a>'
        by = Counter(finding.severity for finding in report.findings)
        cells = "".join(
            f'<td class="{severity.label}"><b>{by[severity]}</b></td>'
            if by[severity]
            else "<td>0</td>"
            for severity in severities
        )
        if report.error is not None:
            cells = f'<td colspan="{len(severities)}" class="error"><b>not judged</b></td>'
        rows.append(f"<td>{name}</td>{cells}")
    return f'<div class="scroll"><table><tr>{"</tr><tr>".join(rows)}</tr></table></div>'


def _wheel(
    number: int,
    report: Report,
    options: RenderOptions,
    reasons: dict[str, str],
    *,
    is_open: bool,
) -> Iterator[str]:
    path = shown_path(report.source, options)
    if report.error is not None:
        heading = f'<h2 id="wheel-{number}">{_escape(path)}</h2>'
        article = (
            '<article class="error"><h3><b>not judged</b></h3>',
            f'<div class="cause"><p>{_lines(error_words(report.error))}</p></div></article>',
        )
        yield from _section(heading, article, is_open=is_open)
        return
    facts = [
        *filter(None, [kinds_of(report.findings)]),
        *([f"its objects allow {report.verdict.overall}"] if report.verdict is not None else []),
        report.skipped or objects_text(report),
        *([in_units(report.size)] if report.size else []),
    ]
    small = f"<small>{_escape(', '.join(facts))}</small>"
    heading = f'<h2 id="wheel-{number}">{_escape(path)} {small}</h2>'
    articles = _articles(causes_in_wheel(report.findings), path, reasons)
    yield from _section(heading, articles, is_open=is_open)


def _section(heading: str, content: Iterable[str], *, is_open: bool) -> Iterator[str]:
    yield f'<details class="wheel"{" open" if is_open else ""}><summary>{heading}</summary>'
    yield from content
    yield "</details>"


def _articles(causes: Sequence[Cause], wheel: str, reasons: dict[str, str]) -> Iterator[str]:
    if not causes:
        yield '<p class="fine">nothing to report</p>'
    by_rule = grouped(causes, lambda cause: (cause.finding.severity, cause.finding.code))
    for (_, code), group in sorted(by_rule.items(), key=lambda item: -item[0][0]):
        yield from _article(group, wheel, reasons.get(code, ""))


def _article(group: Sequence[Cause], wheel: str, reason: str) -> Iterator[str]:
    first = group[0].finding
    yield f'<article class="{first.severity.label}">'
    yield f"<h3><b>{first.severity.label}</b> {_escape(f'{first.code} {first.name}')}</h3>"
    if reason:
        yield f'<p class="why">{_rich(reason)}</p>'
    for cause in group:
        yield from _cause(cause, wheel)
    yield "</article>"


_FIXED = {
    Safety.SAFE: "[*] repair fixes it",
    Safety.UNSAFE: "[+] repair --unsafe-fixes fixes it",
}


def _cause(cause: Cause, wheel: str) -> Iterator[str]:
    finding = cause.finding
    fixed = f' <span class="fixed">{_FIXED[finding.fix.safety]}</span>' if finding.fix else ""
    yield f'<div class="cause"><p>{_rich(finding.message)}{fixed}</p>'
    said = " ".join((finding.message, *finding.notes))
    new = cause.places if len(cause.places) > 1 else [p for p in cause.places if p not in said]
    places = [f"<code>{_escape(place)}</code>" for place in new]
    if len(places) > FEW:
        items = "".join(f"<li>{place}</li>" for place in places)
        number = count(len(places), "file")
        yield f"<details><summary>{number}</summary><ul>{items}</ul></details>"
    elif places:
        yield f'<p class="place">{", ".join(places)}</p>'
    rows = [
        *([("entry", f"`{finding.entry}`")] if finding.entry and finding.entry not in said else []),
        *(("note", note) for note in finding.notes),
        ("what to do", advice(finding, wheel)),
    ]
    list_items = (f"<dt>{label}</dt><dd>{_lines(text)}</dd>" for label, text in rows)
    yield f"<dl>{''.join(list_items)}</dl></div>"


def _lines(text: str) -> str:
    return "<br>".join(_rich(line) for line in text.splitlines())


def _rich(text: str) -> str:
    """Return a message with its literals as code."""
    return "".join(
        f"<code>{_escape(piece)}</code>" if literal else _escape(piece)
        for literal, piece in backtick_spans(text)
    )


def _escape(text: str) -> str:
    return escape(printable(text))
