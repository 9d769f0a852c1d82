"""Every format counts the same findings: those of JSON, each with its member and entry."""

import json
import re
from pathlib import Path

import pytest

from tests.rules.cases import CASES, FileCase
from tests.support.build import make_wheel, shared_object
from wheelfix.cli.app import run
from wheelfix.reports.check_formats import Format

SEVERITIES = ("error", "warning", "note")
Counts = dict[str, int]


def tallied(text: str) -> Counts:
    """The numbers of `Found 2 errors, 1 warning in 10 wheels.`"""
    (line,) = re.findall(r"Found [^<.]+ in \d+ wheels", text)
    numbers = {
        word: int(number) for number, word in re.findall(r"(\d+) (error|warning|note)", line)
    }
    return {severity: numbers.get(severity, 0) for severity in SEVERITIES}


def of_levels(levels: list[str]) -> Counts:
    return {severity: levels.count(severity) for severity in SEVERITIES}


@pytest.fixture(scope="module")
def ten_wheels(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Wheels of ten releases, one of which has causes with several files and entries."""
    folder = tmp_path_factory.mktemp("ten")
    files = [case for case in CASES.values() if isinstance(case, FileCase)][:9]
    made = [case.faulty(folder / str(number)) for number, case in enumerate(files)]
    bad = shared_object(folder / "b.so", "int a(); int f() { return a(); }", rpath="/x/lib:/y/lib")
    many = {f"demo/lib{n}.so": bad for n in range(5)} | {"demo/core.so": bad}
    made.append(make_wheel(folder / "many", tag="py3-none-linux_x86_64", files=many))
    for number, path in enumerate(made):
        made[number] = path.rename(folder / path.name.replace("1.0-", f"1.0-{number}-", 1))
    return [str(path) for path in made]


def test_every_format_counts_the_same_findings(
    ten_wheels: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reports = {form: tmp_path / form for form in Format}
    options = [f"--report={form}={path}" for form, path in reports.items()]
    assert run(["check", "-v", *options, *ten_wheels]) == 1
    printed = capsys.readouterr().out
    texts = {form: path.read_text() for form, path in reports.items()}
    document = json.loads(texts[Format.JSON])
    wheels = [*document["wheels"], document]
    expected = of_levels([one["severity"] for part in wheels for one in part["findings"]])
    assert min(expected.values()) > 0
    summary = document["summary"]
    counts = {"summary": {severity: summary[f"{severity}s"] for severity in SEVERITIES}}
    counts["printed"] = tallied(printed)
    for form in (Format.FULL, Format.CONCISE, Format.MARKDOWN, Format.HTML):
        counts[form] = tallied(texts[form])
    results = json.loads(texts[Format.SARIF])["runs"][0]["results"]
    counts[Format.SARIF] = of_levels([result["level"] for result in results])
    assert counts == dict.fromkeys(counts, expected)
    total = sum(expected.values())
    assert len(json.loads(texts[Format.GITLAB])) == total
    lines = [json.loads(line)["findings"] for line in texts[Format.JSONL].splitlines()]
    assert sum(map(len, lines)) + len(document["findings"]) == total
    baseline = str(tmp_path / "baseline.json")
    assert run(["check", "--write-baseline", "--baseline", baseline, *ten_wheels]) == 0
    assert f"{total} findings written" in capsys.readouterr().err
    assert run(["check", "--baseline", baseline, *ten_wheels]) == 0
    assert f"Not counted: {total} in the baseline." in capsys.readouterr().out


def test_the_rows_of_markdown_have_the_numbers_of_json(
    ten_wheels: list[str], tmp_path: Path
) -> None:
    for form in ("json", "markdown"):
        run(["check", "-v", "--output-format", form, "-o", str(tmp_path / form), *ten_wheels])
    text = (tmp_path / "markdown").read_text()
    for wheel in json.loads((tmp_path / "json").read_text())["wheels"]:
        numbers = of_levels([one["severity"] for one in wheel["findings"]])
        row = "|".join(rf"\s*{numbers[severity]}\s*" for severity in SEVERITIES)
        assert re.search(rf"{re.escape(wheel['name'])}.*\|{row}\|", text)
