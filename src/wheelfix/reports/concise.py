"""Report of `check` with one line per finding, for grep and editors."""

from wheelfix.pipelines.check_result import SetReport
from wheelfix.reports.full import totals
from wheelfix.reports.located_findings import LocatedFinding, locate
from wheelfix.reports.printable import printable
from wheelfix.reports.render_options import RenderOptions, shown_path


def render(found: SetReport, options: RenderOptions) -> str:
    """Return `wheel!member: WF101 error message` for each finding, and the totals."""
    lines = [_line(located) for located in locate(found, options)]
    for report in found.unreadable:
        message = report.error.message if report.error else ""
        path = shown_path(report.source, options)
        lines.append(f"{path}: unreadable {message.replace(chr(10), ' ')}")
    return "\n".join([*(printable(line) for line in lines), *totals(found)])


def _line(located: LocatedFinding) -> str:
    finding = located.finding
    return f"{located.place}: {finding.code} {finding.severity.label} {finding.message}"
