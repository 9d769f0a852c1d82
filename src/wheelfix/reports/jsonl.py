"""What `check` found, as JSON lines: `data/schemas/check-record.schema.json` describes each."""

from wheelfix.pipelines.check_result import Report, SetReport
from wheelfix.reports.json_report import wheel_value
from wheelfix.reports.printable import json_text
from wheelfix.reports.render_options import NAME, RenderOptions

VERSION = 1
"""Goes up when something is removed or changes its meaning; additions leave it."""


def render(found: SetReport, options: RenderOptions) -> str:
    """Return the record of each wheel; what shows only beside other wheels has no place here."""
    return "\n".join(record(report, options) for report in found.reports)


def record(report: Report, options: RenderOptions, made_from: str = "") -> str:
    """Return what was found in one wheel as one line; `made_from` says what it depends on."""
    value = {
        "version": VERSION,
        "tool": {"name": NAME, "version": options.version},
        **wheel_value(report, options),
        "made_from": made_from,
    }
    return json_text(value, indent=None)
