"""Report of `check` for a terminal, with all details."""

from collections.abc import Iterator
from dataclasses import replace

from wheelfix.pipelines.check_result import Report, SetReport
from wheelfix.reports.located_findings import LocatedFinding, of_set, of_wheel
from wheelfix.reports.printable import Colour, paint, printable
from wheelfix.reports.render_options import RenderOptions, shown_path
from wheelfix.reports.rule_docs import why_briefly
from wheelfix.reports.terminal_text import FEW, finding_text, tally
from wheelfix.reports.wording import advice, all_suppressed, suppressed_text
from wheelfix.rules.findings import Severity
from wheelfix.text import counted, join_some


def render(found: SetReport, options: RenderOptions) -> str:
    """Return each finding with its place, evidence, reason and remedy, and the totals.

    Of many findings of one rule in one wheel only a few are shown, unless `verbose`. Errors of
    unreadable files are not included: they go to stderr.
    """
    hit = {finding.code for _, finding in found.all_findings}
    reasons = {rule.code: why_briefly(rule) for rule in options.rules if rule.code in hit}
    blocks: list[str] = []
    if found.findings:
        title = f"{counted(len(found.reports), 'wheel')} side by side"
        blocks += [paint(title, Colour.BOLD, on=options.colour)]
        blocks += _groups(of_set(found, options), reasons, options)
    for report in found.reports:
        blocks += _wheel(report, reasons, options, alone=len(found.reports) == 1)
    if options.verbose:
        blocks += _suppressed(found)
    return "\n\n".join([*blocks, "\n".join(totals(found))])


def totals(found: SetReport) -> Iterator[str]:
    """Yield the totals: findings, fixes by `repair`, suppressed findings, unreadable files."""
    judged = len(found.reports) - len(found.unreadable)
    if judged:
        yield tally([finding for _, finding in found.all_findings], judged)
    if left_out := suppressed_text(found):
        yield left_out
    if found.unreadable:
        names = join_some([printable(report.source.name) for report in found.unreadable], FEW)
        yield f"{counted(len(found.unreadable), 'file')} could not be judged: {names}."


def _wheel(
    report: Report, reasons: dict[str, str], options: RenderOptions, *, alone: bool
) -> Iterator[str]:
    path = printable(shown_path(report.source, options))
    if report.error is None and not alone and (report.findings or options.verbose):
        head = paint(path, Colour.BOLD, on=options.colour)
        yield f"{head}: {_kinds(report) or 'nothing to report'}"
    yield from _groups(of_wheel(report, options), reasons, options)
    if options.verbose and report.verdict is not None:
        yield printable(f"{path}: its objects allow {report.verdict.overall}")


def _kinds(report: Report) -> str:
    numbers = [
        (severity, sum(finding.severity is severity for finding in report.findings))
        for severity in sorted(Severity, reverse=True)
    ]
    return ", ".join(
        f"{number:,} info" if severity is Severity.INFO else counted(number, severity.label)
        for severity, number in numbers
        if number
    )


def _groups(
    findings: tuple[LocatedFinding, ...], reasons: dict[str, str], options: RenderOptions
) -> Iterator[str]:
    """Yield the findings by rule; the first of a rule in the report has the reason.

    A reason that was printed is removed from `reasons`.
    """
    by_rule: dict[str, list[LocatedFinding]] = {}
    for located in findings:
        by_rule.setdefault(located.finding.code, []).append(located)
    for code, group in by_rule.items():
        shown = group if options.verbose else group[:FEW]
        for located in shown:
            yield _finding(located, reasons.pop(code, ""), options)
        if len(shown) < len(group):
            finding = shown[0].finding
            yield (
                f"  … and {len(group) - len(shown):,} more {printable(finding.name)} here: "
                f"-v shows them, `wheelfix rule {code}` explains"
            )


def _finding(located: LocatedFinding, reason: str, options: RenderOptions) -> str:
    finding = located.finding
    more: dict[str, str] = {}
    if finding.entry and finding.entry not in finding.message:
        more["entry"] = f"`{finding.entry}`"
    if reason:
        more["why"] = reason
    place = located.path or "all wheels"
    advised = replace(finding, hint=advice(finding))
    return finding_text(advised, place, colour=options.colour, more=more)


def _suppressed(found: SetReport) -> Iterator[str]:
    lines = [
        " ".join(
            (
                located.finding.code,
                located.finding.member or "",
                f"[{located.because}]",
                located.reason,
            )
        )
        for located in all_suppressed(found)
    ]
    if lines:
        yield "\n".join(["not counted:", *(f"  {' '.join(printable(x).split())}" for x in lines)])
