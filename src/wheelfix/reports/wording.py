"""Counts and phrases that several output formats share."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from wheelfix.errors import WheelfixError
from wheelfix.pipelines.check_result import SetReport
from wheelfix.rules.findings import Finding, Safety, Severity, Suppressed, SuppressionReason


def all_suppressed(found: SetReport) -> Iterator[Suppressed]:
    """Yield what does not count, of the set and of every wheel."""
    return chain(found.suppressed, *(report.suppressed for report in found.reports))


def suppressed_text(found: SetReport) -> str:
    """Say how many findings do not count, and why; nothing if all do."""
    by = Counter(each.because for each in all_suppressed(found))
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
    """Return the sums that machines ask for."""
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


def spans(text: str) -> Iterator[tuple[bool, str]]:
    """Split a message at its backticks: whether a piece is a literal, and the piece.

    A name that holds backticks itself shifts what is literal; no piece ever holds one.
    """
    for number, piece in enumerate(text.split("`")):
        if piece:
            yield number % 2 == 1, piece


def advice(finding: Finding) -> str:
    """Return what to do: the rule's own hint, else a command."""
    if finding.hint is not None:
        return finding.hint
    if finding.fix is None:
        return f"`wheelfix rule {finding.code}` has the common causes, solved"
    is_safe = finding.fix.safety is Safety.SAFE
    command = "wheelfix repair" if is_safe else "wheelfix repair --unsafe-fixes"
    return f"`{command}` mends it: {finding.fix.title}"


def error_words(error: WheelfixError) -> str:
    """Return message and hint of `error` as one text of several lines."""
    return "\n".join([error.message, *([error.hint] if error.hint else [])])


def titled(finding: Finding) -> str:
    """Return `unreachable-library (WF101)`."""
    return f"{finding.name} ({finding.code})"
