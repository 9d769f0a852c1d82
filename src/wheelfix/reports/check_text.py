"""Reports of `check` for a terminal: `full`, and `concise` with one line per finding."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from wheelfix.grouping import grouped
from wheelfix.pipelines.check_result import Report, SetReport
from wheelfix.reports.check_content import (
    FEW,
    LocatedFinding,
    RenderOptions,
    all_suppressed,
    finding_text,
    locate,
    of_set,
    of_wheel,
    shown_path,
    unreadable,
)
from wheelfix.reports.printable import Colour, paint, printable
from wheelfix.reports.rule_docs import why_briefly
from wheelfix.rules.findings import Finding, Safety, Severity, SuppressionReason
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
    if left_out := _suppressed_text(found):
        yield left_out
    if found.unreadable:
        names = join_some([printable(report.source.name) for report in found.unreadable], FEW)
        yield f"{counted(len(found.unreadable), 'file')} could not be judged: {names}."


def _suppressed_text(found: SetReport) -> str:
    """Return how many findings are suppressed, and why; empty if none are."""
    by = Counter(suppressed.because for suppressed in all_suppressed(found))
    if not by:
        return ""
    words = {
        SuppressionReason.IGNORE: "ignored",
        SuppressionReason.PER_FILE: "ignored for their file",
        SuppressionReason.BASELINE: "in the baseline",
    }
    kinds = ", ".join(
        f"{by[because]:,} {words[because]}" for because in SuppressionReason if by[because]
    )
    return f"Not counted: {kinds}."


def tally(findings: Sequence[Finding], wheels: int) -> str:
    """Return the totals of a list of findings, and how many `repair` would fix."""
    if not findings:
        return f"All checks passed for {counted(wheels, 'wheel')}."
    safe = sum(f.fix is not None and f.fix.safety is Safety.SAFE for f in findings)
    unsafe = sum(f.fix is not None and f.fix.safety is Safety.UNSAFE for f in findings)
    total = counted(len(findings), "problem")
    found = f"Found {total} in {counted(wheels, 'wheel')} ({_kinds(findings)})."
    return f"{found} {_fixed(safe, unsafe)}".rstrip()


def _fixed(safe: int, unsafe: int) -> str:
    """Return how many findings a repair certainly fixes; the graft may fix more."""
    if safe:
        more = f", and {unsafe:,} more with `--unsafe-fixes`" if unsafe else ""
        return f"`wheelfix repair` fixes {safe:,}{more}."
    return f"`wheelfix repair --unsafe-fixes` fixes {unsafe:,}." if unsafe else ""


def _kinds(findings: Sequence[Finding]) -> str:
    """Return `2 errors, 1 warning`."""
    return ", ".join(
        counted(number, severity.label) if severity is not Severity.INFO else f"{number:,} info"
        for severity in sorted(Severity, reverse=True)
        if (number := sum(finding.severity is severity for finding in findings))
    )


def _wheel(
    report: Report, reasons: dict[str, str], options: RenderOptions, *, alone: bool
) -> Iterator[str]:
    path = printable(shown_path(report.source, options))
    if report.error is None and not alone and (report.findings or options.verbose):
        head = paint(path, Colour.BOLD, on=options.colour)
        yield f"{head}: {_kinds(report.findings) or 'nothing to report'}"
    yield from _groups(of_wheel(report, options), reasons, options)
    if report.skipped:
        yield printable(f"{path}: {report.skipped}")
    if options.verbose and report.verdict is not None:
        yield printable(f"{path}: its objects allow {report.verdict.overall}")


def _groups(
    findings: tuple[LocatedFinding, ...], reasons: dict[str, str], options: RenderOptions
) -> Iterator[str]:
    """Yield the findings by rule; the first of a rule in the report has the reason.

    A reason that was printed is removed from `reasons`.
    """
    for code, group in grouped(findings, lambda located: located.finding.code).items():
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
    advised = replace(finding, hint=located.advice)
    return finding_text(advised, place, colour=options.colour, more=more)


def _suppressed(found: SetReport) -> Iterator[str]:
    lines = [
        f"{some.finding.code} {some.finding.member or ''} [{some.because}] {some.reason}"
        for some in all_suppressed(found)
    ]
    if lines:
        yield "\n".join(["not counted:", *(f"  {' '.join(printable(x).split())}" for x in lines)])


def render_concise(found: SetReport, options: RenderOptions) -> str:
    """Return `wheel!member: WF101 error message` for each finding, and the totals."""
    lines = [
        f"{located.place}: {finding.code} {finding.severity.label} {finding.message}"
        for located in locate(found.all_findings, options)
        for finding in [located.finding]
    ]
    for path, error in unreadable(found, options):
        lines.append(f"{path}: unreadable {' '.join(error.message.splitlines())}")
    return "\n".join([*(printable(line) for line in lines), *totals(found)])
