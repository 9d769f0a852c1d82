"""Report of `check` as JUnit XML, with a suite per wheel and a case per rule."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from wheelfix.pipelines.check_result import Report, SetReport
from wheelfix.reports.printable import printable
from wheelfix.reports.render_options import NAME, RenderOptions, shown_path
from wheelfix.reports.terminal_text import finding_text
from wheelfix.reports.wording import error_words
from wheelfix.rules.findings import Finding, Severity
from wheelfix.rules.rule import AnyRule, Rule, SetRule


def render(found: SetReport, options: RenderOptions) -> str:
    """Return the suites; findings that do not fail the check go to `system-out`."""
    suites = [_suite(report, options) for report in found.reports]
    asked = _names(rule for rule in options.rules if isinstance(rule, SetRule))
    if found.findings or (asked and len(found.reports) > 1):
        suites.append(_judged("all wheels", found.findings, options, asked))
    head = _tag(
        "testsuites",
        name=NAME,
        tests=sum(suite.tests for suite in suites),
        failures=sum(suite.failures for suite in suites),
        errors=sum(suite.errors for suite in suites),
    )
    lines = [line for suite in suites for line in _lines(suite)]
    return "\n".join(
        ['<?xml version="1.0" encoding="UTF-8"?>', f"<{head}>", *lines, "</testsuites>"]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Suite:
    """One suite: its totals, and the cases as XML."""

    name: str
    tests: int
    failures: int = 0
    errors: int = 0
    cases: tuple[str, ...]


def _lines(suite: _Suite) -> Iterator[str]:
    head = _tag(
        "testsuite",
        name=suite.name,
        tests=suite.tests,
        failures=suite.failures,
        errors=suite.errors,
        skipped=0,
        time=0,
    )
    yield f"  <{head}>"
    yield from suite.cases
    yield "  </testsuite>"


def _suite(report: Report, options: RenderOptions) -> _Suite:
    path = shown_path(report.source, options)
    if report.error is not None:
        case = _tag("testcase", classname=path, name="readable", time=0)
        message = report.error.message.partition("\n")[0]
        error = _tag("error", type=type(report.error).__name__, message=message)
        body = f"      <{error}>{_text(error_words(report.error))}</error>"
        cases = (f"    <{case}>", body, "    </testcase>")
        return _Suite(name=path, tests=1, errors=1, cases=cases)
    asked = _names(rule for rule in options.rules if isinstance(rule, Rule))
    return _judged(path, report.findings, options, asked)


def _names(rules: Iterable[AnyRule]) -> dict[str, str]:
    return {rule.code: f"{rule.code} {rule.name}" for rule in rules}


def _judged(
    path: str, findings: Sequence[Finding], options: RenderOptions, asked: Mapping[str, str]
) -> _Suite:
    by_rule: dict[str, list[Finding]] = {code: [] for code in asked}
    for finding in findings:
        by_rule.setdefault(finding.code, []).append(finding)
    cases: list[str] = []
    for code, group in by_rule.items():
        name = asked.get(code) or f"{code} {group[0].name}"
        case = _tag("testcase", classname=path, name=name, time=0)
        body = list(_case(path, group, options.limit))
        cases += [f"    <{case}>", *body, "    </testcase>"] if body else [f"    <{case}/>"]
    return _Suite(
        name=path,
        tests=len(by_rule),
        failures=sum(any(f.severity >= options.limit for f in group) for group in by_rule.values()),
        cases=tuple(cases),
    )


def _case(path: str, group: Sequence[Finding], limit: Severity) -> Iterator[str]:
    bad = [finding for finding in group if finding.severity >= limit]
    mild = [finding for finding in group if finding.severity < limit]
    if bad:
        message = bad[0].message if len(bad) == 1 else f"{len(bad):,} times"
        failure = _tag("failure", type=bad[0].severity.label, message=message)
        yield f"      <{failure}>{_found(path, bad)}</failure>"
    if mild:
        yield f"      <system-out>{_found(path, mild)}</system-out>"


def _found(path: str, findings: Sequence[Finding]) -> str:
    return _text(
        "\n\n".join(
            finding_text(finding, finding.wheel or path, colour=False) for finding in findings
        )
    )


def _tag(element: str, /, **attributes: object) -> str:
    written = (f'{key}="{_attribute(str(value))}"' for key, value in attributes.items())
    return " ".join([element, *written])


def _attribute(text: str) -> str:
    return _text(printable(text)).replace('"', "&quot;")


def _text(text: str) -> str:
    """Escape markup, characters that XML 1.0 does not allow, and the end of a CDATA section."""
    lines = "\n".join(printable(line) for line in text.splitlines())
    return lines.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
