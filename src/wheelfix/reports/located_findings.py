"""Findings with the path of their wheel and a fingerprint."""

from collections import Counter
from collections.abc import Iterable
from hashlib import sha256
from itertools import islice
from typing import NamedTuple

from wheelfix.pipelines.check_result import Report, SetReport
from wheelfix.reports.render_options import RenderOptions, shown_path
from wheelfix.rules.baseline import known
from wheelfix.rules.findings import Finding


class LocatedFinding(NamedTuple):
    """A finding with the path of its wheel."""

    finding: Finding
    path: str
    """The path of the wheel, relative to the root; empty if it concerns no single wheel."""
    fingerprint: str
    """Stable across versions of the package; unique in a report."""

    @property
    def place(self) -> str:
        """`dist/x.whl!member`."""
        if self.finding.member is None:
            return self.path or "all wheels"
        return f"{self.path}!{self.finding.member}" if self.path else self.finding.member


def locate(found: SetReport, options: RenderOptions) -> tuple[LocatedFinding, ...]:
    """Return every finding that counts: first those of the set, then wheel by wheel."""
    return _located(found.all_findings, options)


def of_wheel(report: Report, options: RenderOptions) -> tuple[LocatedFinding, ...]:
    """Return the findings of one wheel."""
    return _located(((report, finding) for finding in report.findings), options)


def of_set(found: SetReport, options: RenderOptions) -> tuple[LocatedFinding, ...]:
    """Return the findings of the cross-wheel rules."""
    return _located(islice(found.all_findings, len(found.findings)), options)


def _located(
    findings: Iterable[tuple[Report | None, Finding]], options: RenderOptions
) -> tuple[LocatedFinding, ...]:
    seen: Counter[str] = Counter()
    everything: list[LocatedFinding] = []
    for report, finding in findings:
        key = _identity(finding, report)
        seen[key] += 1
        path = "" if report is None else shown_path(report.source, options)
        everything.append(
            LocatedFinding(finding=finding, path=path, fingerprint=_hashed(f"{key}\0{seen[key]}"))
        )
    return tuple(everything)


def worst_first(findings: tuple[LocatedFinding, ...]) -> list[LocatedFinding]:
    """Sort by severity; findings of one severity keep their order."""
    return sorted(findings, key=lambda located: -located.finding.severity)


def _identity(finding: Finding, report: Report | None) -> str:
    """Return the parts of a finding that do not change with the version of the package."""
    name = report.source.name if report is not None else ""
    distribution, *rest = name.split("-")
    message = "" if finding.entry else finding.message
    return "\0".join((*known(distribution, finding), message, *rest[1:]))


def _hashed(text: str) -> str:
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]
