"""Report of `check` as SARIF 2.1.0 (OASIS), for code scanning.

Suppressed findings are left out: GitHub shows results with `suppressions` like any other. Fixes
are in `properties`: SARIF's own fixes are replacements of text, ours edit binaries.
"""

from collections.abc import Mapping
from inspect import cleandoc
from urllib.parse import quote

from wheelfix.errors import WheelfixError
from wheelfix.pipelines.check_result import SetReport
from wheelfix.reports.check_content import (
    NAME,
    LocatedFinding,
    RenderOptions,
    locate,
    path_for_all,
    unreadable,
    worst_first,
)
from wheelfix.reports.printable import error_words, json_text, printable
from wheelfix.reports.rule_excerpts import rule_address, why
from wheelfix.rules.findings import Severity
from wheelfix.rules.rule import AnyRule

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_LEVEL = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
_PROBLEM = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "recommendation"}
"""GitHub's terms ("SARIF support for code scanning")."""
_ESCAPES = str.maketrans({"\\": r"\\", "[": r"\[", "]": r"\]", "{": "{{", "}": "}}"})


def render(set_report: SetReport, options: RenderOptions) -> str:
    """Return one run: every rule that was run, every finding, every unreadable file."""
    findings = worst_first(locate(set_report.all_findings, options))
    rules = {rule.code: rule for rule in options.rules}
    numbers = {code: number for number, code in enumerate(rules)}
    fallback = path_for_all(set_report, options)
    run = {
        "tool": {
            "driver": {
                "name": NAME,
                "version": options.version,
                "semanticVersion": options.version,
                **(
                    {"informationUri": options.style.documentation}
                    if options.style.documentation
                    else {}
                ),
                "rules": [_rule(rule, options) for rule in rules.values()],
            }
        },
        "invocations": [
            {
                "executionSuccessful": not set_report.unreadable,
                "toolExecutionNotifications": [
                    _notification(path, error) for path, error in unreadable(set_report, options)
                ],
            }
        ],
        "results": [_result(located, numbers, located.path or fallback) for located in findings],
    }
    return json_text({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule(rule: AnyRule, options: RenderOptions) -> dict[str, object]:
    text = cleandoc(rule.explanation)
    address = rule_address(rule.code, rule.name, options.style.documentation)
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary or rule.name},
        "fullDescription": {"text": why(rule.explanation) or rule.summary or rule.name},
        "help": {"text": text or rule.name, "markdown": text or rule.name},
        **({"helpUri": address} if address else {}),
        "defaultConfiguration": {"level": _LEVEL[rule.severity]},
        "properties": {"tags": ["wheel"], "problem.severity": _PROBLEM[rule.severity]},
    }


def _notification(path: str, error: WheelfixError) -> dict[str, object]:
    location = {"physicalLocation": {"artifactLocation": _artifact(path)}}
    message = {"text": _literal(error_words(error))}
    return {"level": "error", "message": message, "locations": [location]}


def _result(located: LocatedFinding, numbers: Mapping[str, int], path: str) -> dict[str, object]:
    finding = located.finding
    words = [finding.message, *finding.notes, *([located.hint] if located.hint else [])]
    number = numbers.get(finding.code)
    return {
        "ruleId": finding.code,
        **({} if number is None else {"ruleIndex": number}),
        "level": _LEVEL[finding.severity],
        "message": {"text": _literal("\n".join(words))},
        "locations": [_location(located, path)],
        "partialFingerprints": {
            # GitHub identifies an alert by this one alone.
            "primaryLocationLineHash": located.fingerprint,
            "wheelfixFinding/v1": located.fingerprint,
        },
        "properties": _properties(located),
    }


def _location(located: LocatedFinding, path: str) -> dict[str, object]:
    member = located.finding.member
    # A binary has no lines, but GitHub shows no alert without one.
    physical = {"artifactLocation": _artifact(path), "region": {"startLine": 1}}
    if member is None:
        return {"physicalLocation": physical}
    logical = {
        "name": printable(member),
        "fullyQualifiedName": printable(located.place),
        "kind": "resource",
    }
    return {"physicalLocation": physical, "logicalLocations": [logical]}


def _properties(located: LocatedFinding) -> dict[str, object]:
    finding, fix = located.finding, located.finding.fix
    known = {
        "wheel": located.path or None,
        "member": finding.member,
        "entry": finding.entry,
        "hint": located.hint,
        "fix": None if fix is None else {"title": fix.title, "safety": fix.safety.value},
    }
    return {name: value for name, value in known.items() if value is not None}


def _artifact(path: str) -> dict[str, object]:
    """Return a file's address: relative to the checkout, else absolute."""
    address = quote(path, safe="/", errors="backslashreplace")
    if path.startswith("/"):
        return {"uri": f"file://{address}"}
    return {"uri": address, "uriBaseId": "%SRCROOT%"}


def _literal(text: str) -> str:
    """Escape what would be a link or a placeholder in a message (SARIF 2.1.0, 3.11.5, 3.11.6)."""
    lines = (printable(line) for line in text.splitlines())
    return "\n".join(lines).translate(_ESCAPES)
