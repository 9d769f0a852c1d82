"""What `check` found, as JSON; `data/schemas/check.schema.json` describes it."""

from wheelfix.errors import WheelfixError
from wheelfix.pipelines.check_result import Report, SetReport
from wheelfix.reports.located_findings import LocatedFinding, of_set, of_wheel
from wheelfix.reports.printable import json_text
from wheelfix.reports.render_options import NAME, RenderOptions, shown_path
from wheelfix.reports.wording import counts
from wheelfix.rules.findings import Suppressed

VERSION = 1
"""Goes up when something is removed or changes its meaning; additions leave it."""


def render(found: SetReport, options: RenderOptions) -> str:
    """Return the whole report."""
    value = {
        "version": VERSION,
        "tool": {"name": NAME, "version": options.version},
        "summary": counts(found),
        "wheels": [wheel_value(report, options) for report in found.reports],
        "findings": [_finding(each) for each in of_set(found, options)],
        "suppressed": [_suppressed(each) for each in found.suppressed],
    }
    return json_text(value)


def wheel_value(report: Report, options: RenderOptions) -> dict[str, object]:
    """Return what was found in one wheel."""
    wheel, verdict = report.wheel, report.verdict
    return {
        "path": shown_path(report.source, options),
        "name": report.source.name,
        "size": report.size,
        "tags": list(wheel.tags) if wheel else [],
        "verdict": None
        if verdict is None
        else {"tag": verdict.overall, "reasons": list(verdict.reasons)},
        "error": None if report.error is None else _error(report.error),
        "findings": [_finding(each) for each in of_wheel(report, options)],
        "suppressed": [_suppressed(each) for each in report.suppressed],
    }


def _error(error: WheelfixError) -> dict[str, object]:
    return {"message": error.message, "hint": error.hint}


def _finding(each: LocatedFinding) -> dict[str, object]:
    finding, fix = each.finding, each.finding.fix
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.label,
        "message": finding.message,
        "wheel": finding.wheel,
        "member": finding.member,
        "entry": finding.entry,
        "notes": list(finding.notes),
        "hint": finding.hint,
        "fix": None
        if fix is None
        else {"title": fix.title, "safety": fix.safety.value, "edits": len(fix.edits)},
        "fingerprint": each.fingerprint,
    }


def _suppressed(each: Suppressed) -> dict[str, object]:
    finding = each.finding
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.label,
        "message": finding.message,
        "wheel": finding.wheel,
        "member": finding.member,
        "because": each.because.value,
        "reason": each.reason,
    }
