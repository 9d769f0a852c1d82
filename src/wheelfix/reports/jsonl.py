"""Report of `check` as JSON lines (`schemas/check-record.schema.json`)."""

from wheelfix.pipelines.check_result import Report, SetReport
from wheelfix.reports.json_report import wheel_value
from wheelfix.reports.printable import json_text
from wheelfix.reports.render_options import NAME, RenderOptions

VERSION = 1
"""Increases if a key is removed or changes its meaning, not if one is added."""


def render(found: SetReport, options: RenderOptions) -> str:
    """Return the record of each wheel; findings of cross-wheel rules are left out."""
    return "\n".join(record(report, options) for report in found.reports)


def record(report: Report, options: RenderOptions, made_from: str = "") -> str:
    """Return the report of one wheel as one line; `made_from` is a digest of its inputs."""
    value = {
        "version": VERSION,
        "tool": {"name": NAME, "version": options.version},
        **wheel_value(report, options),
        "made_from": made_from,
    }
    return json_text(value, indent=None)
