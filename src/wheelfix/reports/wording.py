"""Counts and phrases that several output formats share."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from wheelfix.errors import WheelfixError
from wheelfix.pipelines.check_result import SetReport
from wheelfix.rules.findings import Finding, Safety, Severity, Suppressed, SuppressionReason


def all_suppressed(found: SetReport) -> Iterator[Suppressed]:
    """Yield the suppressed findings of the set and of every wheel."""
    return chain(found.suppressed, *(report.suppressed for report in found.reports))


def suppressed_text(found: SetReport) -> str:
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


def counts(found: SetReport) -> dict[str, int]:
    """Return the counts for machine-readable reports."""
    findings = [finding for _, finding in found.all_findings]
    fixes = [finding.fix for finding in findings if finding.fix is not None]
    return {
        "wheels": len(found.reports) - len(found.unreadable),
        "unreadable": len(found.unreadable),
        "errors": sum(finding.severity is Severity.ERROR for finding in findings),
        "warnings": sum(finding.severity is Severity.WARNING for finding in findings),
        "infos": sum(finding.severity is Severity.INFO for finding in findings),
        "suppressed": sum(1 for _ in all_suppressed(found)),
        "mended_by_repair": sum(fix.safety is Safety.SAFE for fix in fixes),
        "mended_by_unsafe_fixes": sum(fix.safety is Safety.UNSAFE for fix in fixes),
    }


def backtick_spans(text: str) -> Iterator[tuple[bool, str]]:
    """Split a message at its backticks into pieces, each with whether it is a literal.

    A name with a backtick inverts the rest; no piece contains a backtick.
    """
    for number, piece in enumerate(text.split("`")):
        if piece:
            yield number % 2 == 1, piece


def advice(finding: Finding) -> str:
    """Return the hint of the finding, or a command that helps."""
    if finding.hint is not None:
        return finding.hint
    if finding.fix is None:
        return f"`wheelfix rule {finding.code}` explains common causes and fixes"
    is_safe = finding.fix.safety is Safety.SAFE
    command = "wheelfix repair" if is_safe else "wheelfix repair --unsafe-fixes"
    return f"`{command}` fixes it: {finding.fix.title}"


def error_words(error: WheelfixError) -> str:
    """Return the message and the hint of `error`, on lines of their own."""
    return "\n".join([error.message, *([error.hint] if error.hint else [])])


def titled(finding: Finding) -> str:
    """Return `unreachable-library (WF101)`."""
    return f"{finding.name} ({finding.code})"
