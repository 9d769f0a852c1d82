"""Report of `check` as a GitLab code quality report."""

from hashlib import sha256

from wheelfix.pipelines.check_result import Report, SetReport
from wheelfix.reports.check_content import (
    LocatedFinding,
    RenderOptions,
    error_words,
    locate,
    shown_path,
    titled,
    worst_first,
)
from wheelfix.reports.printable import json_text, printable
from wheelfix.rules.findings import Severity

_SEVERITY = {Severity.ERROR: "critical", Severity.WARNING: "minor", Severity.INFO: "info"}


def render(found: SetReport, options: RenderOptions) -> str:
    """Return the list of issues; an unreadable file is an issue too."""
    fallback = next((shown_path(report.source, options) for report in found.reports), ".")
    issues = [
        *(_unreadable(report, options) for report in found.unreadable),
        *(_issue(located, fallback) for located in worst_first(locate(found, options))),
    ]
    return json_text(issues)


def _issue(located: LocatedFinding, fallback: str) -> dict[str, object]:
    finding = located.finding
    inside = f"{finding.member}: " if finding.member else ""
    return {
        "description": printable(f"{inside}{finding.message}"),
        "check_name": titled(finding),
        "fingerprint": located.fingerprint,
        "severity": _SEVERITY[finding.severity],
        "location": _location(located.path or fallback),
    }


def _unreadable(report: Report, options: RenderOptions) -> dict[str, object]:
    words = error_words(report.error) if report.error else "unreadable"
    path = shown_path(report.source, options)
    return {
        "description": " ".join(printable(line) for line in words.splitlines()),
        "check_name": "unreadable",
        "fingerprint": sha256(f"unreadable\0{path}".encode("utf-8", "replace")).hexdigest()[:32],
        "severity": "blocker",
        "location": _location(path),
    }


def _location(path: str) -> dict[str, object]:
    return {"path": printable(path), "lines": {"begin": 1}}
