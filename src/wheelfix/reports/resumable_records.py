"""Records of `wheelfix check --output-format jsonl`: one line of JSON for each wheel."""

import json
from typing import NamedTuple, cast

from wheelfix.errors import BadElfError, BadWheelError
from wheelfix.pipelines.check_result import Report
from wheelfix.reports.check_content import RenderOptions, shown_path
from wheelfix.reports.check_json import VERSION, record
from wheelfix.rules.findings import Severity


class Record(NamedTuple):
    """The report of one wheel as text, and what the run needs of it."""

    text: str
    path: str
    """Of the wheel, relative to the checkout."""
    made_from: str
    """Digest of everything that the report depends on; empty if a later run may report another."""
    worst: Severity | None = None
    """The worst severity of the findings that count."""
    is_judged: bool = True
    """Whether the wheel could be read."""


def record_of(report: Report, made_from: str, options: RenderOptions) -> Record:
    """Return the record of a wheel. One that was not checked to the end is checked again."""
    lasts = report.error is None or isinstance(report.error, BadWheelError | BadElfError)
    made_from = made_from if lasts else ""
    return Record(
        text=record(report, options, made_from),
        path=shown_path(report.source, options),
        made_from=made_from,
        worst=max((finding.severity for finding in report.findings), default=None),
        is_judged=report.error is None,
    )


def parse_record(line: str) -> Record:
    """Parse the text of a record. Raises `ValueError` for anything but one of this version."""
    try:
        value: object = json.loads(line)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    table = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    path, made_from, findings = (table.get(key) for key in ("path", "made_from", "findings"))
    if (
        table.get("version") != VERSION
        or not isinstance(path, str)
        or not isinstance(made_from, str)
        or not isinstance(findings, list)
    ):
        raise ValueError("not a record")
    found = cast("list[dict[str, str]]", findings)
    try:
        worst = max((Severity[finding["severity"].upper()] for finding in found), default=None)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("malformed finding") from error
    is_judged = table.get("error") is None
    return Record(text=line, path=path, made_from=made_from, worst=worst, is_judged=is_judged)
