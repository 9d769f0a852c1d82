"""Common parts of the formats of `check`: options, located findings, counts, fingerprints."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from wheelfix.errors import WheelfixError
from wheelfix.pipelines.check_result import Report, SetReport
from wheelfix.reports.printable import Colour, hint_lines, paint, printable
from wheelfix.rules.baseline import known
from wheelfix.rules.findings import Finding, Safety, Severity, Suppressed
from wheelfix.rules.rule import AnyRule
from wheelfix.settings import FailOn

NAME = "wheelfix"
"""The tool's name in reports."""
FEW = 3
"""The number of items of one kind that a summary shows."""


class RenderOptions(NamedTuple):
    """Everything a format needs besides the findings."""

    version: str
    """The version of wheelfix."""
    rules: tuple[AnyRule, ...] = ()
    """The rules that were run."""
    folder: Path = Path()
    """The working directory of the run."""
    root: Path = Path()
    """The folder of the checkout; paths below it are relative to it."""
    colour: bool = False
    verbose: bool = False
    limit: Severity = Severity.ERROR
    """The lowest severity that fails the check."""
    documentation: str = ""
    """The URL of docs/rules.md; empty if the project has none."""


def lowest_failing(fail_on: FailOn) -> Severity | None:
    """Return the lowest severity that fails a check; None if none does."""
    return None if fail_on is FailOn.NEVER else Severity[fail_on.upper()]


def shown_path(source: Path, options: RenderOptions) -> str:
    """Return the path of a wheel, relative to the checkout if it is below it."""
    whole = options.folder / source
    is_below = whole.is_relative_to(options.root)
    return (whole.relative_to(options.root) if is_below else source).as_posix()


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

    @property
    def title(self) -> str:
        """`unreachable-library (WF101)`."""
        return f"{self.finding.name} ({self.finding.code})"

    @property
    def advice(self) -> str:
        """The hint of the finding, or a command that helps."""
        finding = self.finding
        if finding.hint is not None:
            return finding.hint
        if finding.fix is None:
            return f"`wheelfix rule {finding.code}` explains common causes and fixes"
        is_safe = finding.fix.safety is Safety.SAFE
        command = "wheelfix repair" if is_safe else "wheelfix repair --unsafe-fixes"
        return f"`{command}` fixes it: {finding.fix.title}"


def of_wheel(report: Report, options: RenderOptions) -> tuple[LocatedFinding, ...]:
    """Return the findings of one wheel."""
    return locate(((report, finding) for finding in report.findings), options)


def of_set(found: SetReport, options: RenderOptions) -> tuple[LocatedFinding, ...]:
    """Return the findings of the cross-wheel rules."""
    return locate(islice(found.all_findings, len(found.findings)), options)


def locate(
    findings: Iterable[tuple[Report | None, Finding]], options: RenderOptions
) -> tuple[LocatedFinding, ...]:
    """Return the findings with the paths of their wheels; `SetReport.all_findings` has them all."""
    seen: Counter[str] = Counter()
    everything: list[LocatedFinding] = []
    for report, finding in findings:
        key = _identity(finding, report)
        seen[key] += 1
        path = "" if report is None else shown_path(report.source, options)
        everything.append(
            LocatedFinding(finding=finding, path=path, fingerprint=digest(f"{key}\0{seen[key]}"))
        )
    return tuple(everything)


def unreadable(found: SetReport, options: RenderOptions) -> Iterator[tuple[str, WheelfixError]]:
    """Yield the path of each file that could not be read, and why."""
    for report in found.reports:
        if report.error is not None:
            yield shown_path(report.source, options), report.error


def worst_first(findings: tuple[LocatedFinding, ...]) -> list[LocatedFinding]:
    """Sort by severity; findings of one severity keep their order."""
    return sorted(findings, key=lambda located: -located.finding.severity)


def _identity(finding: Finding, report: Report | None) -> str:
    """Return the parts of a finding that do not change with the version of the package."""
    name = report.source.name if report is not None else ""
    distribution, *rest = name.split("-")
    message = "" if finding.entry else finding.message
    return "\0".join((*known(distribution, finding), message, *rest[1:]))


def digest(text: str) -> str:
    """Return a digest of `text` in 32 hexadecimal digits."""
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]


def all_suppressed(found: SetReport) -> Iterator[Suppressed]:
    """Yield the suppressed findings of the set and of every wheel."""
    return chain(found.suppressed, *(report.suppressed for report in found.reports))


def finding_text(
    finding: Finding, wheel: str, *, colour: bool, more: Mapping[str, str] | None = None
) -> str:
    """Return one finding with its place, notes, the labelled lines `more`, and hint."""
    head = f"{finding.severity.label}[{finding.name}]"
    place = f"{wheel}!{finding.member}" if finding.member is not None else wheel
    lines = [
        f"{paint(head, _SEVERITY[finding.severity], on=colour)}: {printable(finding.message)}",
        f"  {paint('-->', Colour.BLUE, on=colour)} {printable(place)}",
        *(f"  = note: {printable(note)}" for note in finding.notes),
        *(f"  = {label}: {printable(text)}" for label, text in (more or {}).items()),
        *hint_lines(finding.hint, colour=colour),
    ]
    return "\n".join(lines)


_SEVERITY = {
    Severity.ERROR: Colour.RED,
    Severity.WARNING: Colour.YELLOW,
    Severity.INFO: Colour.BLUE,
}
