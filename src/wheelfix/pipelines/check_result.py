"""The result of a check: reports of wheels, with findings, verdict and error."""

from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path

from wheelfix.analysis.policy_verdict import Verdict
from wheelfix.analysis.world import Neighbor
from wheelfix.errors import WheelfixError
from wheelfix.frozen import frozen
from wheelfix.named_tuple import NamedTuple
from wheelfix.rules.findings import Finding, Severity, Suppressed
from wheelfix.wheel.model import Wheel


class TargetFit(NamedTuple):
    """What a wheel is on a machine of `--target`, but for its findings."""

    is_for: bool
    """Whether it is for that machine's C library."""
    lacking: tuple[str, ...] = ()
    """The libraries that are not there, and that others may bring."""


@frozen
class Report:
    """What `check` found in one wheel."""

    source: Path
    findings: tuple[Finding, ...] = ()
    """What counts, worst first."""
    suppressed: tuple[Suppressed, ...] = ()
    wheel: Wheel | None = None
    """None if the file could not be read, for which `error` is the reason."""
    neighbors: tuple[Neighbor, ...] = ()
    """What providers install beside it, where an object needs a library of one."""
    verdict: Verdict | None = None
    """Which platform tag the objects allow; None for pure Python wheels."""
    error: WheelfixError | None = None
    skipped: str = ""
    """Why no rule about ELF objects was run; empty if all were."""
    size: int = 0
    """Bytes of the zip."""
    targets: Mapping[str, TargetFit] = field(default_factory=dict[str, TargetFit])
    """Those of `--target`."""

    def fails(self, limit: Severity = Severity.ERROR) -> bool:
        """Return whether a finding is at least as severe as `limit`."""
        return any(finding.severity >= limit for finding in self.findings)


class SetReport(NamedTuple):
    """What `check` found in several wheels, in each and between them."""

    reports: tuple[Report, ...]
    findings: tuple[Finding, ...] = ()
    """Findings about several wheels or about none, worst first."""
    suppressed: tuple[Suppressed, ...] = ()

    @property
    def all_findings(self) -> Iterator[tuple[Report | None, Finding]]:
        """Yield every finding that counts, with the report of its wheel."""
        by_name = {report.source.name: report for report in self.reports}
        for finding in self.findings:
            yield by_name.get(finding.wheel or ""), finding
        for report in self.reports:
            for finding in report.findings:
                yield report, finding

    def fails(self, limit: Severity = Severity.ERROR) -> bool:
        """Return whether a finding in any wheel is at least as severe as `limit`."""
        return any(finding.severity >= limit for _, finding in self.all_findings)

    @property
    def unreadable(self) -> tuple[Report, ...]:
        """The reports of files that could not be judged."""
        return tuple(report for report in self.reports if report.error is not None)
