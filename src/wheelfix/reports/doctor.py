"""The output of `wheelfix doctor`: what goes wrong where installed distributions meet."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from wheelfix.reports.printable import Color, Style, hint_lines, paint, printable
from wheelfix.rules.findings import Finding, Severity
from wheelfix.text import count

_MOST = 5
"""The number of findings that the text shows without -v."""
_COLORS = {Severity.ERROR: Color.RED, Severity.WARNING: Color.YELLOW, Severity.NOTE: Color.BLUE}


class Diagnosis(NamedTuple):
    """What was read of an environment, and found in it."""

    environment: str
    """As the user names it."""
    distributions: int
    objects: int
    modules: int
    findings: Sequence[Finding]
    """The worst come first."""


def text(diagnosis: Diagnosis, style: Style) -> str:
    """Return the verdict, and the worst findings; all of them, with their notes, if verbose."""
    lines = [_verdict(diagnosis, style)]
    findings = [
        found for found in diagnosis.findings if style.verbose or found.severity > Severity.NOTE
    ]
    shown = findings if style.verbose else findings[:_MOST]
    for finding in shown:
        lines += ["", *_finding(finding, style)]
    if len(shown) < len(findings):
        lines += ["", f"and {count(len(findings) - len(shown), 'more finding')} (-v)"]
    return "\n".join(lines)


def _verdict(diagnosis: Diagnosis, style: Style) -> str:
    numbers = Counter(finding.severity for finding in diagnosis.findings)
    found = [count(numbers[severity], severity.label) for severity in _COLORS if numbers[severity]]
    read = (
        f"{count(diagnosis.distributions, 'distribution')}, {count(diagnosis.objects, 'object')}, "
        f"{count(diagnosis.modules, 'extension module')}"
    )
    name = paint(printable(diagnosis.environment), Color.BOLD, on=style.color)
    more = " (-v)" if numbers[Severity.NOTE] and not style.verbose else ""
    return f"{name}: {', '.join(found) or 'no findings'}{more}; {read}"


def _finding(finding: Finding, style: Style) -> Iterator[str]:
    label = paint(finding.severity.label, _COLORS[finding.severity], on=style.color)
    yield f"{label}[{finding.code}]: {printable(finding.message)}"
    yield from (f"  {printable(note)}" for note in finding.notes)
    yield from (f"  {line}" for line in hint_lines(finding.hint, style))


def value(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the diagnosis as JSON types; `version` changes when the meaning of a key does."""
    return {
        "version": 1,
        "environment": diagnosis.environment,
        "distributions": diagnosis.distributions,
        "objects": diagnosis.objects,
        "modules": diagnosis.modules,
        "findings": [
            {
                "code": finding.code,
                "name": finding.name,
                "severity": finding.severity.label,
                "message": finding.message,
                "file": finding.member,
                "notes": list(finding.notes),
                "hint": finding.hint,
            }
            for finding in diagnosis.findings
        ],
    }
