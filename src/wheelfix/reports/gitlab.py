"""Report of `check` as a GitLab code quality report."""

from wheelfix.errors import WheelfixError
from wheelfix.pipelines.check_result import SetReport
from wheelfix.reports.check_content import (
    LocatedFinding,
    RenderOptions,
    digest,
    locate,
    path_for_all,
    unreadable,
    worst_first,
)
from wheelfix.reports.printable import error_words, json_text, printable
from wheelfix.rules.findings import Severity

_SEVERITY = {Severity.ERROR: "critical", Severity.WARNING: "minor", Severity.NOTE: "info"}


def render(set_report: SetReport, options: RenderOptions) -> str:
    """Return the list of issues; an unreadable file is an issue too."""
    fallback = path_for_all(set_report, options)
    findings = worst_first(locate(set_report.all_findings, options))
    issues = [
        *(_unreadable(path, error) for path, error in unreadable(set_report, options)),
        *(_issue(located, fallback) for located in findings),
    ]
    return json_text(issues)


def _issue(located: LocatedFinding, fallback: str) -> dict[str, object]:
    finding = located.finding
    inside = f"{finding.member}: " if finding.member else ""
    return {
        "description": printable(f"{inside}{finding.message}"),
        "check_name": located.title,
        "fingerprint": located.fingerprint,
        "severity": _SEVERITY[finding.severity],
        "location": _location(located.path or fallback),
    }


def _unreadable(path: str, error: WheelfixError) -> dict[str, object]:
    return {
        "description": " ".join(printable(line) for line in error_words(error).splitlines()),
        "check_name": "unreadable",
        "fingerprint": digest(f"unreadable\0{path}"),
        "severity": "blocker",
        "location": _location(path),
    }


def _location(path: str) -> dict[str, object]:
    return {"path": printable(path), "lines": {"begin": 1}}
