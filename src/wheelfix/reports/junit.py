"""Report of `check` as JUnit XML, with a suite per wheel and a case per rule."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from xml.etree import ElementTree as ET

from wheelfix.grouping import flatten, grouped
from wheelfix.pipelines.check_result import Report, SetReport
from wheelfix.reports.check_content import ALL_WHEELS, NAME, RenderOptions, finding_text, shown_path
from wheelfix.reports.printable import error_words, printable
from wheelfix.reports.rule_excerpts import rule_address
from wheelfix.rules.findings import Finding
from wheelfix.rules.registry import is_for_any_system
from wheelfix.rules.rule import AnyRule, Rule, SetRule
from wheelfix.text import count

_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>'


def render(set_report: SetReport, options: RenderOptions) -> str:
    """Return the suites; findings that do not fail the check go to `system-out`."""
    suites = [_suite_of(report, options) for report in set_report.reports]
    asked = _names(rule for rule in options.rules if isinstance(rule, SetRule))
    if set_report.findings or (asked and len(set_report.reports) > 1):
        suites.append(_test_case(ALL_WHEELS, set_report.findings, options, asked))
    root = _element("testsuites", suites, name=NAME, **_totals(suites))
    ET.indent(root)
    return f"{_DECLARATION}\n{ET.tostring(root, encoding='unicode')}"


def _suite_of(report: Report, options: RenderOptions) -> ET.Element:
    path = shown_path(report.source, options)
    if report.error is not None:
        message = report.error.lines[0]
        error = _element("error", type=type(report.error).__name__, message=message)
        error.text = _text(error_words(report.error))
        return _suite(path, [_case(path, "readable", [error])])
    rules = [rule for rule in options.rules if isinstance(rule, Rule)]
    left_out = [rule for rule in rules if report.skipped and not is_for_any_system(rule)]
    skipped = dict.fromkeys((rule.code for rule in left_out), report.skipped)
    return _test_case(path, report.findings, options, _names(rules), skipped)


def _names(known: Iterable[AnyRule | Finding]) -> dict[str, str]:
    """Return the names of the cases by the code of the rule."""
    return {rule.code: f"{rule.code} {rule.name}" for rule in known}


def _test_case(
    path: str,
    findings: Sequence[Finding],
    options: RenderOptions,
    asked: Mapping[str, str],
    skipped: Mapping[str, str] = MappingProxyType({}),
) -> ET.Element:
    """Return the suite of a wheel; `skipped` has why a rule was not run, by its code."""
    by_rule = grouped(findings, lambda finding: finding.code)
    names = {**asked, **_names(findings)}
    cases = [
        _case(path, name, [_element("skipped", message=skipped[code])])
        if code in skipped
        else _case(path, name, _results(path, by_rule.get(code, []), options))
        for code, name in names.items()
    ]
    return _suite(path, cases)


def _results(path: str, group: Sequence[Finding], options: RenderOptions) -> Iterator[ET.Element]:
    bad = [finding for finding in group if finding.severity >= options.limit]
    mild = [finding for finding in group if finding.severity < options.limit]
    if bad:
        message = bad[0].message if len(bad) == 1 else count(len(bad), "time")
        failure = _element("failure", type=bad[0].severity.label, message=message)
        failure.text = _finding_text(path, bad, options)
        yield failure
    if mild:
        output = _element("system-out")
        output.text = _finding_text(path, mild, options)
        yield output


def _finding_text(path: str, findings: Sequence[Finding], options: RenderOptions) -> str:
    """Return findings of one rule, and the address of its page."""
    texts = [
        finding_text(finding, wheel=path, places=[finding.member or finding.wheel or path])
        for finding in findings
    ]
    first = findings[0]
    if address := rule_address(first.code, first.name, options.style.documentation):
        texts.append(f"see {address}")
    return _text("\n\n".join(texts))


def _suite(name: str, cases: Sequence[ET.Element]) -> ET.Element:
    return _element(
        "testsuite", cases, name=name, **_totals(cases), skipped=_count(cases, "skipped"), time=0
    )


def _case(path: str, name: str, results: Iterable[ET.Element]) -> ET.Element:
    return _element("testcase", results, classname=path, name=name, time=0)


def _totals(elements: Sequence[ET.Element]) -> dict[str, int]:
    counted = (("tests", "testcase"), ("failures", "failure"), ("errors", "error"))
    return {name: _count(elements, tag) for name, tag in counted}


def _count(elements: Sequence[ET.Element], tag: str) -> int:
    return sum(1 for _ in flatten(element.iter(tag) for element in elements))


def _element(tag: str, children: Iterable[ET.Element] = (), **attributes: object) -> ET.Element:
    element = ET.Element(tag, {name: printable(str(given)) for name, given in attributes.items()})
    element.extend(children)
    return element


def _text(text: str) -> str:
    """Escape the characters that XML 1.0 does not allow."""
    return "\n".join(printable(line) for line in text.splitlines())
