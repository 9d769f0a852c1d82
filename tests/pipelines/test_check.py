"""What counts of what a check finds, and what does not: ignores, severities, baselines."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

import wheelfix
from tests.support.build import make_wheel, shared_object
from wheelfix import check
from wheelfix.cli.app import run
from wheelfix.errors import SettingsError
from wheelfix.rules import baseline
from wheelfix.rules.findings import Finding, Severity, SuppressionReason
from wheelfix.settings import Settings

ALARMED = Settings(severity={"WF601": "error"})
BROKEN = {"demo/one.so": b"\x7fELF", "demo/two.so": b"\x7fELF", "demo/__init__.py": b""}


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHEELFIX_SEVERITY", "WF601=error")
    return make_wheel(tmp_path, files=BROKEN)


def members(found: tuple[Finding, ...]) -> list[str | None]:
    return [finding.member for finding in found if finding.code == "WF601"]


def test_what_is_found_is_sorted_by_severity(wheel: Path) -> None:
    report = check(wheel, ALARMED)
    assert members(report.findings) == ["demo/one.so", "demo/two.so"]
    assert list(report.findings) == sorted(report.findings, key=lambda finding: -finding.severity)
    assert report.fails()


def test_an_ignored_rule_is_remembered_with_its_reason(wheel: Path) -> None:
    report = check(wheel, Settings(ignore={"WF601": "test data"}))
    assert members(report.findings) == []
    suppressed = [(entry.because, entry.selector, entry.reason) for entry in report.suppressed]
    assert suppressed == [(SuppressionReason.IGNORE, "WF601", "test data")] * 2


def test_an_ignore_for_some_files_leaves_the_others(wheel: Path) -> None:
    report = check(wheel, Settings(per_file_ignores={"demo/o*": ("WF601",), "*.py": ("WF6",)}))
    assert members(report.findings) == ["demo/two.so"]
    assert [(entry.finding.member, entry.glob) for entry in report.suppressed] == [
        ("demo/one.so", "demo/o*")
    ]


def test_the_longest_selector_says_how_bad_it_is(wheel: Path) -> None:
    mild = check(wheel, Settings(select=("WF601",), severity={"WF6": "error", "WF601": "note"}))
    assert {finding.severity for finding in mild.findings} == {Severity.NOTE}
    assert not mild.fails()
    assert mild.fails(Severity.NOTE)


def test_a_wheel_that_cannot_be_read_is_a_report_too(tmp_path: Path) -> None:
    report = wheelfix.check(tmp_path / "none-1.0-py3-none-any.whl")
    assert report.error is not None
    assert report.wheel is None


def test_the_function_of_the_package_is_not_hidden_by_its_modules(wheel: Path) -> None:
    assert wheelfix.check(wheel, ALARMED).fails()
    outcome = wheelfix.repair(wheel, Settings(wheel_dir=wheel.parent / "out"), dry_run=True)
    assert outcome.status is wheelfix.Status.REJECTED
    assert "no ELF executable or shared library" in str(outcome.error)
    assert len(wheelfix.check_all([wheel, wheel]).reports) == 2


@pytest.mark.parametrize("name", wheelfix.__all__)
def test_public_names_are_there(name: str) -> None:
    assert getattr(wheelfix, name) is not None


# --- The exit code --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("--select WF601", 1),
        ("--select WF601 --fail-on never", 0),
        ("--select WF601 --severity WF601=warning", 0),
        ("--select WF601 --severity WF601=warning --fail-on warning", 1),
        ("--select WF601 --severity WF601=note --fail-on note", 1),
        ("--select WF601 --ignore WF601 --fail-on note", 0),
        ("--select WF601 --per-file-ignores demo/*:WF601", 0),
        ("--strict", 2),
    ],
)
def test_exit_codes(wheel: Path, arguments: str, code: int) -> None:
    assert run(["check", *arguments.split(), str(wheel)]) == code


def test_the_project_says_when_a_check_fails(wheel: Path) -> None:
    Path("wheelfix.toml").write_text(
        'fail-on = "never"\n[[overrides]]\nselect = "demo*"\nignore = ["WF601"]\n', "utf-8"
    )
    assert run(["check", "--select", "WF601", str(wheel)]) == 0
    assert run(["check", "--select", "WF601", "--fail-on", "note", str(wheel)]) == 0


def test_wheels_are_checked_side_by_side_in_order(
    wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = make_wheel(wheel.parent, "zother", files=BROKEN)
    assert run(["check", "--select", "WF601", str(wheel.parent)]) == 1
    one_by_one = capsys.readouterr().out
    assert one_by_one.index(wheel.name) < one_by_one.index(other.name)
    assert run(["check", "-j2", "--select", "WF601", str(wheel), str(other)]) == 1
    assert capsys.readouterr().out == one_by_one


def test_an_empty_directory_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(tmp_path)]) == 2
    assert "no wheel was found in" in capsys.readouterr().err


# --- Baseline -------------------------------------------------------------------------------------


def test_what_was_there_before_does_not_count(
    wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["check", "--select", "WF601", "--baseline", "known.json"]
    assert run([*arguments, "--write-baseline", str(wheel)]) == 0
    assert "2 findings written to `known.json`" in capsys.readouterr().err
    assert run([*arguments, str(wheel)]) == 0
    later = make_wheel(
        wheel.parent,
        version="2.0",
        tag="cp312-cp312-linux_x86_64",
        files=BROKEN | {"x.so": b"\x7fELF"},
    )
    capsys.readouterr()
    assert run([*arguments, str(later)]) == 1
    out = capsys.readouterr().out
    assert "x.so" in out
    assert "one.so" not in out, "it was there in version 1.0"


def test_versions_and_hashes_do_not_make_a_finding_new() -> None:
    def known(member: str) -> baseline.Known:
        finding = Finding(code="WF1", name="x", severity=Severity.ERROR, message="", member=member)
        return baseline.fingerprint("De_mo", finding)

    assert known("demo.libs/libz-0a1b2c3d.so.1") == known("demo.libs/libz-99999999.so.1")
    assert known("demo-1.0.data/data/x") == known("demo-2.0.data/data/x")
    assert known("demo/a.so") != known("demo/b.so")
    assert known("demo/a.so").distribution == "de-mo"


def test_another_folder_of_the_build_does_not_make_a_finding_new(tmp_path: Path) -> None:
    known = str(tmp_path / "k.json")
    arguments = ["check", "--select", "WF111", "--fail-on", "warning", "--baseline", known]
    first, second = (
        shared_object(tmp_path / f"{number}.so", rpath=f"/build/env-{number}x") for number in "12"
    )
    made = make_wheel(tmp_path, files={"demo/m.so": first})
    assert run([*arguments, "--write-baseline", str(made)]) == 0
    later = make_wheel(tmp_path, files={"demo/m.so": second})
    assert run([*arguments, str(later)]) == 0
    other = make_wheel(tmp_path, files={"demo/m.so": second, "demo/n.so": second})
    assert run([*arguments, str(other)]) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a baseline of version 1"),
        ('{"version": 2, "findings": []}', "is not a baseline of version 1"),
        ('{"version": 1, "findings": [{"code": "WF1", "x": 1}]}', "has an invalid row"),
        ('{"version": 1, "findings": [1]}', "has an invalid row"),
    ],
)
def test_baselines_that_cannot_be_used_are_named(
    tmp_path: Path, content: str, message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        baseline.parse(content.encode(), tmp_path / "known.json")


def test_a_baseline_is_sorted_and_has_a_version(wheel: Path) -> None:
    run(["check", "--baseline", "known.json", "--write-baseline", str(wheel)])
    document = json.loads(Path("known.json").read_text("utf-8"))
    assert document["version"] == 1
    rows = [tuple(row.values()) for row in document["findings"]]
    assert rows == sorted(rows)
    assert any(row[1] == "WF601" for row in rows)


def test_writing_a_baseline_needs_a_name(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--write-baseline", str(wheel)]) == 2
    assert "--write-baseline needs a file" in capsys.readouterr().err
    assert run(["check", "--baseline", "none.json", str(wheel)]) == 2
    assert "cannot read the baseline `none.json`" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["/dev/zero", "fifo"])
def test_a_baseline_is_a_regular_file(
    wheel: Path, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An untrusted checkout may have a link to a device."""
    os.mkfifo("fifo")
    Path("known.json").symlink_to(target)
    assert run(["check", "--baseline", "known.json", str(wheel)]) == 2
    assert "cannot read the baseline `known.json`: not a regular file" in capsys.readouterr().err


# --- Stale ignores --------------------------------------------------------------------------------


def stale(*wheels: Path, **settings: Any) -> set[str | None]:
    found = wheelfix.check_all(wheels, Settings(**settings)).findings
    return {finding.entry for finding in found if finding.code == "WF901"}


def test_an_ignore_that_fits_nothing_is_reported(wheel: Path) -> None:
    assert stale(wheel, ignore={"WF601": "why", "WF118": "gone"}) == {"WF118"}
    per_file = {"demo/*": ("WF601", "WF118"), "other/*": ("WF6",)}
    assert stale(wheel, per_file_ignores=per_file) == {"WF118", "WF6"}
    assert stale(wheel) == set()


def test_of_two_ignores_that_fit_the_same_neither_is_stale(wheel: Path) -> None:
    assert stale(wheel, ignore={"WF6": "", "WF601": "", "broken-elf": ""}) == set()


def test_an_ignored_rule_about_sets_is_not_stale(wheel: Path) -> None:
    files = {**BROKEN, "demo/three.py": b""}
    more = [
        make_wheel(wheel.parent, tag=f"cp3{minor}-cp3{minor}-linux_x86_64", files=files)
        for minor in (10, 12, 13)
    ]
    assert any(f.code == "WF852" for f in wheelfix.check_all([wheel, *more]).findings)
    assert stale(wheel, *more, ignore={"WF852": "three came later"}) == set()
    assert stale(wheel, ignore={"WF852": "three came later"}) == {"WF852"}
