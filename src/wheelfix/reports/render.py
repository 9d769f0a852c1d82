"""What the output formats of `check` share: how to draw, and every finding with its place."""

from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from wheelfix.errors import WheelfixError
from wheelfix.pipelines.check_result import Report, SetReport
from wheelfix.rules.baseline import known
from wheelfix.rules.findings import Finding, Safety, Severity, Suppressed, SuppressionReason
from wheelfix.rules.rule import AnyRule

NAME = "wheelfix"


class RenderOptions(NamedTuple):
    """Everything a format may know besides what was found."""

    version: str
    """wheelfix's own."""
    rules: tuple[AnyRule, ...] = ()
    """The rules that were asked: their documentation, and what passed."""
    folder: Path = Path()
    """The folder of the run."""
    root: Path = Path()
    """The folder of the checkout: wheels below it are named relative to it."""
    colour: bool = False
    verbose: bool = False
    limit: Severity = Severity.ERROR
    """From here on a finding makes the check fail."""
    documentation: str = ""
    """The address of docs/rules.md, where the project has one."""


class LocatedFinding(NamedTuple):
    """One finding, and where it is."""

    finding: Finding
    path: str
    """The wheel's file, relative to the root; empty for what is about no single wheel."""
    fingerprint: str
    """The same for the same problem of the next version; unique in a report."""

    @property
    def place(self) -> str:
        """`dist/x.whl!member`."""
        if self.finding.member is None:
            return self.path or "all wheels"
        return f"{self.path}!{self.finding.member}" if self.path else self.finding.member


def shown_path(source: Path, options: RenderOptions) -> str:
    """Return `source` as seen from the checkout where it is below it."""
    whole = options.folder / source
    is_below = whole.is_relative_to(options.root)
    return (whole.relative_to(options.root) if is_below else source).as_posix()


def placed(found: SetReport, options: RenderOptions) -> tuple[LocatedFinding, ...]:
    """Return every finding that counts: those of the set first, then wheel by wheel."""
    return _placed(found.all_findings, options)


def of_wheel(report: Report, options: RenderOptions) -> tuple[LocatedFinding, ...]:
    """Return the findings of one wheel."""
    return _placed(((report, finding) for finding in report.findings), options)


def of_set(found: SetReport, options: RenderOptions) -> tuple[LocatedFinding, ...]:
    """Return what shows only beside the other wheels."""
    return _placed(islice(found.all_findings, len(found.findings)), options)


def _placed(
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
    """Sort by severity, and leave the order as it is otherwise."""
    return sorted(findings, key=lambda each: -each.finding.severity)


def _identity(finding: Finding, report: Report | None) -> str:
    """Return what stays the same when the package's version goes up, for wheels of these tags."""
    name = report.source.name if report is not None else ""
    distribution, *rest = name.split("-")
    message = "" if finding.entry else finding.message
    return "\0".join((*known(distribution, finding), message, *rest[1:]))


def _hashed(text: str) -> str:
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]


# --- Sums -----------------------------------------------------------------------------------------


def all_suppressed(found: SetReport) -> Iterator[Suppressed]:
    """Yield what does not count, of the set and of every wheel."""
    return chain(found.suppressed, *(report.suppressed for report in found.reports))


def suppressed_text(found: SetReport) -> str:
    """Say how many findings do not count, and why; nothing if all do."""
    by = Counter(each.because for each in all_suppressed(found))
    if not by:
        return ""
    words = {
        SuppressionReason.IGNORE: "ignored",
        SuppressionReason.PER_FILE: "ignored for their file",
        SuppressionReason.BASELINE: "in the baseline",
    }
    kinds = ", ".join(
        f"{by[because]:,} {words[because]}" for because in SuppressionReason if by[because]
    )
    return f"Not counted: {kinds}."


def counts(found: SetReport) -> dict[str, int]:
    """Return the sums that machines ask for."""
    findings = [finding for _, finding in found.all_findings]
    fixes = [finding.fix for finding in findings if finding.fix is not None]
    return {
        "wheels": len(found.reports) - len(found.unreadable),
        "unreadable": len(found.unreadable),
        "errors": sum(finding.severity is Severity.ERROR for finding in findings),
        "warnings": sum(finding.severity is Severity.WARNING for finding in findings),
        "infos": sum(finding.severity is Severity.INFO for finding in findings),
        "suppressed": sum(1 for _ in all_suppressed(found)),
        "mended_by_repair": sum(fix.safety is Safety.SAFE for fix in fixes),
        "mended_by_unsafe_fixes": sum(fix.safety is Safety.UNSAFE for fix in fixes),
    }


# --- Words ----------------------------------------------------------------------------------------


def spans(text: str) -> Iterator[tuple[bool, str]]:
    """Split a message at its backticks: whether a piece is a literal, and the piece.

    A name that holds backticks itself shifts what is literal; no piece ever holds one.
    """
    for number, piece in enumerate(text.split("`")):
        if piece:
            yield number % 2 == 1, piece


def advice(finding: Finding) -> str:
    """Return what to do: the rule's own hint, else a command."""
    if finding.hint is not None:
        return finding.hint
    if finding.fix is None:
        return f"`wheelfix rule {finding.code}` has the common causes, solved"
    is_safe = finding.fix.safety is Safety.SAFE
    command = "wheelfix repair" if is_safe else "wheelfix repair --unsafe-fixes"
    return f"`{command}` mends it: {finding.fix.title}"


def error_words(error: WheelfixError) -> str:
    """Return message and hint of `error` as one text of several lines."""
    return "\n".join([error.message, *([error.hint] if error.hint else [])])


def titled(finding: Finding) -> str:
    """Return `unreachable-library (WF101)`."""
    return f"{finding.name} ({finding.code})"
