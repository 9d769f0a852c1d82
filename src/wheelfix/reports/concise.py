"""What `check` found, one line a finding: for grep, editors and long lists."""

from wheelfix.pipelines.check_result import SetReport
from wheelfix.reports.full import sums
from wheelfix.reports.located_findings import placed
from wheelfix.reports.printable import printable
from wheelfix.reports.render_options import RenderOptions, shown_path


def render(found: SetReport, options: RenderOptions) -> str:
    """Return `wheel!member: WF101 error message` for each finding, and the sums."""
    lines = [
        f"{each.place}: {each.finding.code} {each.finding.severity.label} {each.finding.message}"
        for each in placed(found, options)
    ]
    for report in found.unreadable:
        message = report.error.message if report.error else ""
        path = shown_path(report.source, options)
        lines.append(f"{path}: unreadable {message.replace(chr(10), ' ')}")
    return "\n".join([*(printable(line) for line in lines), *sums(found)])
