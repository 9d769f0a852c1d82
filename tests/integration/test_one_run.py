"""Every way to check or to repair several wheels gives the same: command, formats, workers, API."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import wheelfix
from tests.support.build import extension, make_wheel, shared_object
from tests.support.environment import ENVIRON
from tests.support.naming import SUFFIX, TAG
from wheelfix.cli.app import run
from wheelfix.errors import SettingsError
from wheelfix.host.setting_paths import below
from wheelfix.pipelines.check import check_set
from wheelfix.pipelines.check_many import check_many, check_tasks
from wheelfix.pipelines.check_result import SetReport
from wheelfix.pipelines.repair_many import repair_many
from wheelfix.pipelines.repair_result import Outcome
from wheelfix.settings import ProviderSetting, Settings, Show

WHEELS = ["dist/core-1.0-{tag}.whl", "dist/plug-1.0-{tag}.whl"]
Found = tuple[int, Counter[tuple[str, str, str]]]
"""Exit code, and how often each wheel, code and severity is reported."""


def library(folder: Path, name: str, function: str) -> Path:
    source = f"int {function}(void) {{ return 1; }}"
    return shared_object(folder / f"{name}.so.1", source, soname=f"{name}.so.1")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder with two wheels that need each other, a provider, and a library.

    The plug-in needs a function that the library in `libs` lacks.
    """
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PWD", "/")  # as a program that changes the directory may leave it
    monkeypatch.chdir(tmp_path)
    core, pro = (library(tmp_path / "sdk", f"lib{name}", name) for name in ("core", "pro"))
    host = library(tmp_path / "sdk", "libhost", "host")
    library(tmp_path / "libs", "libhost", "old")
    module = extension(
        tmp_path / "build/_m.so",
        "_m",
        needed=[core, pro, host],
        calls=["core", "pro", "host"],
        runpath="$ORIGIN/../core/lib:$ORIGIN/../pro/lib",
    )
    content = {
        "core": ("", {f"core/lib/{core.name}": core}),
        "pro": ("", {f"pro/lib/{pro.name}": pro}),
        "plug": ("Requires-Dist: core==1.0\nRequires-Dist: pro\n", {f"plug/_m{SUFFIX}": module}),
    }
    for name, (metadata, files) in content.items():
        place = tmp_path / ("providers" if name == "pro" else "dist")
        package: dict[str, bytes | str | Path] = {f"{name}/__init__.py": "", **files}
        make_wheel(place, name, "1.0", TAG, package, metadata=metadata)
    return tmp_path


# --- Check ----------------------------------------------------------------------------------------

OPTIONS = [
    *("--show", "notes", "--library-path", "libs", "--target", "debian:12"),
    *("--provider", f"providers/pro-1.0-{TAG}.whl", "--severity", "WF624=error"),
]
SETTINGS = Settings(
    library_path=("libs",),
    target=("debian:12",),
    provider=(ProviderSetting(source=f"providers/pro-1.0-{TAG}.whl"),),
    severity={"WF624": "error"},
    show=Show.NOTES,
)
OVERRIDES = """
[[overrides]]
select = "core-*"
ignore = ["WF624"]
[[overrides]]
select = "plug-*"
severity = { WF201 = "error" }
"""


def of_wheels(code: int, wheels: Any) -> Found:
    found: Counter[tuple[str, str, str]] = Counter()
    for wheel in wheels:
        assert wheel["error"] is None, wheel["error"]
        for finding in wheel["findings"]:
            found[wheel["name"], finding["code"], finding["severity"]] += 1
    return code, found


def of_report(report: SetReport) -> Found:
    pairs = [(source, finding) for source, finding in report.all_findings]
    found = Counter(
        (source.source.name if source else "", finding.code, finding.severity.label)
        for source, finding in pairs
    )
    return int(report.fails()), found


class Run:
    """Runs of the command with the same wheels and options."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def text(self, *more: str) -> Found:
        code = run(["check", "dist", *OPTIONS, "--output-format", "concise", *more])
        lines = self._capsys.readouterr().out.splitlines()
        shown = [re.match(r"dist/([^!:]+\.whl)[^:]*: (\w+)\[(WF\d+)\]", line) for line in lines]
        assert any(shown), lines
        return code, Counter((hit[1], hit[3], hit[2]) for hit in shown if hit)

    def json(self, *more: str) -> Found:
        code = run(["check", "dist", *OPTIONS, "--output-format", "json", *more])
        report = json.loads(self._capsys.readouterr().out)
        assert report["findings"] == [], "none is about several wheels: jsonl has none of these"
        return of_wheels(code, report["wheels"])

    def jsonl(self, *more: str) -> Found:
        code = run(["check", "dist", *OPTIONS, "--output-format", "jsonl", *more])
        lines = self._capsys.readouterr().out.splitlines()
        return of_wheels(code, [json.loads(line) for line in lines])

    def report(self, *more: str) -> Found:
        code = run(["check", "dist", *OPTIONS, "-q", "--report", "jsonl=records", *more])
        lines = Path("records").read_text("ascii").splitlines()
        self._capsys.readouterr()
        return of_wheels(code, [json.loads(line) for line in lines])


@pytest.mark.each_run("False")
@pytest.mark.parametrize("overrides", [False, True])
def test_all_ways_to_check_report_the_same(
    folder: Path, capsys: pytest.CaptureFixture[str], *, overrides: bool
) -> None:
    if overrides:
        (folder / "wheelfix.toml").write_text(OVERRIDES)
    of = Run(capsys)
    expected = of.json()
    code, found = expected
    assert code == 1
    codes = {rule for _, rule, _ in found}
    assert "WF824" in codes, "libs is read"
    assert "WF107" in codes, "the wheel that is required counts"
    assert not codes & {"WF805", "WF203"}
    core = f"core-1.0-{TAG}.whl"
    assert ((core, "WF624", "error") in found) is not overrides
    assert of.text() == expected
    assert of.jsonl() == expected
    assert of.report() == expected
    for way in (of.text, of.json, of.jsonl, of.report):
        assert way("-j2") == expected
    if not overrides:
        assert of_report(wheelfix.check_all(sorted(folder.glob("dist/*")), SETTINGS)) == expected


def test_a_check_does_not_depend_on_the_directory_of_the_process(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels = [Path(wheel.format(tag=TAG)) for wheel in WHEELS]
    here = wheelfix.check_all(wheels, SETTINGS)
    monkeypatch.chdir("/")
    located = below(folder, SETTINGS)
    tasks = check_tasks(wheels, lambda _: located, folder, {})
    assert check_set(tuple(check_many(tasks)), lambda _: located) == here


# --- Repair ---------------------------------------------------------------------------------------


def repaired(out: Path, wheels: list[Path], settings: Settings) -> list[Outcome]:
    return wheelfix.repair_all(
        wheels,
        Settings(wheel_dir=out, library_path=("sdk",), provider=settings.provider),
        environ=ENVIRON,
    )


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_command_and_api_repair_to_the_same_bytes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels = [Path(wheel.format(tag=TAG)) for wheel in WHEELS]
    outcomes = repaired(Path("api"), wheels, SETTINGS)
    assert [outcome.error for outcome in outcomes] == [None, None]
    expected = files_in(folder / "api")
    assert len(expected) == 2
    provider = SETTINGS.provider[0].source
    options = ["--provider", provider, "--library-path", "sdk"]
    for jobs in ("1", "2"):
        names = list(map(str, reversed(wheels)))
        assert run(["repair", *names, *options, "-w", f"command{jobs}", "-j", jobs]) == 0
        assert files_in(folder / f"command{jobs}") == expected
    monkeypatch.chdir("/")
    settings = below(folder, Settings(provider=SETTINGS.provider, library_path=("sdk",)))
    assert all(one.output for one in repair_many(wheels, lambda _: settings, ENVIRON, folder))
    assert files_in(folder / "wheelhouse") == expected


def test_command_and_api_refuse_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    core, plug = (folder / wheel.format(tag=TAG) for wheel in WHEELS)
    (written,) = repaired(folder / "out", [core], SETTINGS)
    assert written.output is not None
    again = folder / "again" / core.name
    again.parent.mkdir()
    again.write_bytes(core.read_bytes())
    given = folder / "dist" / written.output.name
    given.write_bytes(written.output.read_bytes())
    for wheels, out in (
        ([core, folder / "missing.whl"], "new"),
        ([core, again], "new"),
        ([core, given], "dist"),
        ([core, given], "both"),
    ):
        before = files_in(folder / "dist")
        try:
            outcomes = repaired(folder / out, wheels, SETTINGS)
            errors = [outcome.error for outcome in outcomes if outcome.error]
        except SettingsError as error:
            errors = [error]
        api = files_in(folder / out) if (folder / out).exists() else {}
        assert errors, wheels
        if out == "both":
            for path in (folder / out).iterdir():
                path.unlink()
        assert run(["repair", "-v", *map(str, wheels), "-w", str(folder / out)]) == 2
        said = capsys.readouterr().err
        assert all(error.message in said for error in errors)
        assert (files_in(folder / out) if (folder / out).exists() else {}) == api
        assert files_in(folder / "dist") == before
    assert plug.exists()


@pytest.mark.usefixtures("folder")
def test_why_finds_providers_whatever_the_variable_of_the_directory_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    core, plug = (wheel.format(tag=TAG) for wheel in WHEELS)
    others = ["--provider", core, "--provider", SETTINGS.provider[0].source]
    Path("wheelfix.toml").write_text('library-path = ["sdk"]')
    assert run(["why", *others, plug, "libpro.so.1"]) == 0
    assert capsys.readouterr().err == ""
