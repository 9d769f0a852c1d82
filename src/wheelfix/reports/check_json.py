"""Report of `check` as JSON, and as JSON lines (`schemas/check*.schema.json`)."""

from wheelfix.analysis.policy_verdict import Verdict
from wheelfix.pipelines.check_result import Report, SetReport
from wheelfix.reports.check_content import (
    NAME,
    LocatedFinding,
    RenderOptions,
    of_set,
    of_wheel,
    shown_path,
    suppressed_findings,
    target_statuses,
)
from wheelfix.reports.printable import error_value, json_text
from wheelfix.reports.rule_excerpts import rule_address
from wheelfix.rules.findings import Finding, Safety, Severity, Suppressed

VERSION = 1
"""Increases if a key is removed or changes its meaning, not if one is added."""


def render(set_report: SetReport, options: RenderOptions) -> str:
    """Return the whole report."""
    value = {
        "version": VERSION,
        "tool": {"name": NAME, "version": options.version},
        "summary": _counts(set_report),
        "wheels": [_wheel(report, options) for report in set_report.reports],
        "findings": [_finding(located, options) for located in of_set(set_report, options)],
        "suppressed": [_suppressed_finding(located, options) for located in set_report.suppressed],
    }
    return json_text(value)


def render_jsonl(set_report: SetReport, options: RenderOptions) -> str:
    """Return the record of each wheel; findings of cross-wheel rules are left out."""
    return "\n".join(record(report, options) for report in set_report.reports)


def record(report: Report, options: RenderOptions) -> str:
    """Return the report of one wheel as one line."""
    value = {
        "version": VERSION,
        "tool": {"name": NAME, "version": options.version},
        **_wheel(report, options),
    }
    return json_text(value, indent=None)


def _counts(set_report: SetReport) -> dict[str, int]:
    """Return the counts of the summary."""
    findings = [finding for _, finding in set_report.all_findings]
    fixes = [finding.fix for finding in findings if finding.fix is not None]
    return {
        "wheels": len(set_report.reports) - len(set_report.unreadable),
        "unreadable": len(set_report.unreadable),
        "errors": sum(finding.severity is Severity.ERROR for finding in findings),
        "warnings": sum(finding.severity is Severity.WARNING for finding in findings),
        "notes": sum(finding.severity is Severity.NOTE for finding in findings),
        "suppressed": sum(1 for _ in suppressed_findings(set_report)),
        "fixed_by_repair": sum(fix.safety is Safety.SAFE for fix in fixes),
        "fixed_by_unsafe_fixes": sum(fix.safety is Safety.UNSAFE for fix in fixes),
    }


def verdict_value(verdict: Verdict | None) -> dict[str, object] | None:
    """Return a verdict, None if there is none."""
    if verdict is None:
        return None
    return {"tag": verdict.overall, "reasons": list(verdict.reasons)}


def _wheel(report: Report, options: RenderOptions) -> dict[str, object]:
    """Return the report of one wheel."""
    wheel = report.wheel
    return {
        "path": shown_path(report.source, options),
        "name": report.source.name,
        "size": report.size,
        "tags": list(wheel.tags) if wheel else [],
        "verdict": verdict_value(report.verdict),
        "skipped": report.skipped or None,
        "targets": target_statuses(report),
        "error": report.error and error_value(report.error),
        "findings": [_finding(located, options) for located in of_wheel(report, options)],
        "suppressed": [_suppressed_finding(located, options) for located in report.suppressed],
    }


def _finding(located: LocatedFinding, options: RenderOptions) -> dict[str, object]:
    finding, fix = located.finding, located.finding.fix
    return {
        **finding_value(finding, options.style.documentation),
        "hint": located.hint,
        "fix": None
        if fix is None
        else {"title": fix.title, "safety": fix.safety.value, "edits": len(fix.edits)},
        "fingerprint": located.fingerprint,
    }


def _suppressed_finding(located: Suppressed, options: RenderOptions) -> dict[str, object]:
    because, reason = located.because.value, located.reason
    about = problem(located.finding, options.style.documentation)
    return {**about, "because": because, "reason": reason}


def finding_value(finding: Finding, documentation: str) -> dict[str, object]:
    """Return a finding with what it tells people."""
    about = problem(finding, documentation)
    notes = list(finding.notes)
    return {**about, "entry": finding.entry, "notes": notes, "hint": finding.hint}


def problem(finding: Finding, documentation: str) -> dict[str, object]:
    """Return what every report says of a finding; `documentation` is the address of the site."""
    return {
        "code": finding.code,
        "name": finding.name,
        "url": rule_address(finding.code, finding.name, documentation) or None,
        "severity": finding.severity.label,
        "message": finding.message,
        "wheel": finding.wheel,
        "member": finding.member,
    }
