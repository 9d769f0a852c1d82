"""Destinations of the reports of `check`: stdout, files, the summary of a GitHub step."""

import json
import os
import pty
import resource
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from email.message import Message
from functools import partial
from importlib.metadata import requires
from pathlib import Path

import pytest

from tests.support.build import make_wheel, shared_object
from tests.support.fork_server import warm_program, warm_python
from wheelfix.cli.app import run
from wheelfix.reports.check_formats import SUMMARY_LIMIT, Format


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to an empty folder, without the variables of any pipeline."""
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def a_bad_wheel(folder: Path) -> str:
    bad = shared_object(folder / "bad.so", runpath=":$ORIGIN")
    wheel = make_wheel(folder / "dist", files={"demo/bad.so": bad})
    return str(wheel.relative_to(folder))


@pytest.mark.parametrize("form", list(Format))
def test_each_format_goes_to_stdout_and_to_a_file(
    form: Format, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = a_bad_wheel(here)
    assert run(["check", wheel, "--output-format", form]) == 1
    shown = capsys.readouterr()
    assert "demo/bad.so" in shown.out
    assert not shown.err
    assert run(["check", wheel, "--output-format", form, "-o", "report"]) == 1
    assert capsys.readouterr().out == ""
    assert Path("report").read_text(encoding="utf-8") == shown.out


def test_statistics_go_where_the_report_goes(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = a_bad_wheel(here)
    assert run(["check", wheel, "--statistics"]) == 1
    shown = capsys.readouterr().out
    more = ["-o", "counts", "--report", "json=all.json"]
    assert run(["check", wheel, "--statistics", *more]) == 1
    assert capsys.readouterr().out == ""
    assert Path("counts").read_text(encoding="utf-8") == shown
    assert "empty-entry" in Path("all.json").read_text()


def test_one_run_writes_many_reports(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = a_bad_wheel(here)
    more = [word for form in Format for word in ("--report", f"{form}=out.{form}")]
    assert run(["check", wheel, "--output-format", "concise", *more]) == 1
    assert f"{wheel}!demo/bad.so: error[WF112] empty-entry [*]: " in capsys.readouterr().out
    assert all("empty-entry" in Path(f"out.{f}").read_text() for f in Format if f != "concise")
    assert json.loads(Path("out.json").read_text())["wheels"][0]["path"] == wheel


@pytest.mark.parametrize("text", ["sarif", "=x", "pdf=x", "json="])
def test_a_report_needs_a_format_and_a_file(
    text: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", a_bad_wheel(here), "--report", text]) == 2
    assert "sarif" in capsys.readouterr().err.partition("hint")[2]


def test_a_report_that_cannot_be_written_fails(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", a_bad_wheel(here), "-o", "none/report"]) == 2
    assert "cannot write `none/report`: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["full", "link", "pipe"])
def test_a_report_is_written_whole_or_not_at_all(
    here: Path, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Links such as /dev/stdout, and pipes, are written to as they are."""
    wheel, file = a_bad_wheel(here), here / "report"
    file.write_text('{"version": "2.1.0", "runs": []}')
    if place == "full":
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        try:
            assert run(["check", wheel, "--report", f"sarif={file}"]) == 2
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert "File too large" in capsys.readouterr().err
        assert file.read_text() == '{"version": "2.1.0", "runs": []}'
        assert sorted(path.name for path in here.iterdir()) == ["bad.so", "dist", "report"]
    elif place == "link":
        (here / "link").symlink_to(file)
        assert run(["check", wheel, "--report", f"sarif={here / 'link'}"]) == 1
        assert json.loads(file.read_text())["version"] == "2.1.0"
        assert (here / "link").is_symlink()
    else:
        reader, writer = os.pipe()
        assert run(["check", wheel, "--report", f"concise=/dev/fd/{writer}"]) == 1
        os.close(writer)
        with os.fdopen(reader, encoding="utf-8") as stream:
            assert "WF112" in stream.read()


def test_files_are_named_as_in_the_checkout(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = a_bad_wheel(here)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(here))
    monkeypatch.chdir(here / "dist")
    assert run(["check", Path(wheel).name, "--output-format", "github"]) == 1
    assert f"::error file={wheel},title=" in capsys.readouterr().out
    assert run(["check", Path(wheel).name]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{Path(wheel).name}: ")
    assert "  --> demo/bad.so" in lines
    monkeypatch.setenv("GITHUB_WORKSPACE", "/elsewhere")
    assert run(["check", str(here / wheel), "--output-format", "github"]) == 1
    assert f"::error file={Path(wheel).name},title=" in capsys.readouterr().out


def test_a_github_step_gets_the_report_in_its_summary(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = here / "summary.md"
    summary.write_text("what others wrote\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert run(["check", a_bad_wheel(here)]) == 1
    text = summary.read_text()
    assert text.startswith("what others wrote\n\n## wheelfix check\n")
    assert "| error | WF112 empty-entry | `demo/bad.so` |" in text
    assert "\n```mermaid\nflowchart LR\n" in text
    summary.write_text("x" * (SUMMARY_LIMIT - 300))
    assert run(["check", a_bad_wheel(here)]) == 1
    assert SUMMARY_LIMIT - 300 < summary.stat().st_size <= SUMMARY_LIMIT
    capsys.readouterr()


def test_a_step_summary_that_cannot_be_written_does_not_fail_the_run(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(here))
    assert run(["check", a_bad_wheel(here), "--fail-on", "never"]) == 0
    assert "the step summary is left out: cannot write `" in capsys.readouterr().err


def test_an_unreadable_wheel_is_in_stderr_and_in_every_report(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torn = here / "torn-1.0-py3-none-any.whl"
    torn.write_bytes(b"PK")
    more = [word for form in Format for word in ("--report", f"{form}=out.{form}")]
    assert run(["check", torn.name, *more]) == 2
    shown = capsys.readouterr()
    assert torn.name in shown.err
    assert shown.out == f"1 wheel not judged: `{torn.name}`.\n"
    assert all(torn.name in Path(f"out.{form}").read_text() for form in Format)


def test_quiet_prints_nothing_without_findings(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = make_wheel(here, tag="py3-none-any", files={"one.py": b""})
    assert run(["check", "-q", good.name]) == 0
    assert capsys.readouterr().out == ""
    assert run(["check", "-q", good.name, "--output-format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["summary"]["wheels"] == 1
    assert run(["check", "-q", a_bad_wheel(here)]) == 1
    assert "empty-entry" in capsys.readouterr().out


def test_rules_are_linked_to_the_url_in_the_metadata(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    described = Message()
    described["Project-URL"] = "Source, https://example.org"
    described["Project-URL"] = "Documentation, https://example.org/docs"
    monkeypatch.setattr("importlib.metadata.metadata", {"wheelfix": described}.__getitem__)
    page = "https://example.org/docs/rules/empty-entry/"
    wheel = a_bad_wheel(here)
    assert run(["check", wheel, "--output-format", "sarif"]) == 1
    [sarif] = json.loads(capsys.readouterr().out)["runs"]
    links = {rule["id"]: rule["helpUri"] for rule in sarif["tool"]["driver"]["rules"]}
    assert links["WF112"] == page
    assert run(["check", wheel, "--select", "WF112", "--output-format", "json"]) == 1
    [report] = json.loads(capsys.readouterr().out)["wheels"]
    assert [finding["url"] for finding in report["findings"]] == [page]
    for form in ("junit", "markdown"):
        assert run(["check", wheel, "--output-format", form]) == 1
        assert page in capsys.readouterr().out, form
    for arguments in ([], ["--color", "always"], ["--output-format", "concise"]):
        assert run(["check", wheel, *arguments]) == 1
        assert "example.org" not in capsys.readouterr().out, "a pipe is not a terminal"


@pytest.mark.parametrize(
    ("arguments", "code", "name"),
    [
        (["check", "--select", "WF112"], "WF112", "empty-entry"),
        (["repair", "--unfixable", "*:WF112"], "WF112", "empty-entry"),
    ],
)
def test_a_terminal_gets_links(here: Path, arguments: list[str], code: str, name: str) -> None:
    """Another distribution's metadata comes first on sys.path, with the URL of a site."""
    metadata = here / "first" / "wheelfix-0.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    required = "".join(f"Requires-Dist: {line}\n" for line in requires("wheelfix") or ())
    metadata.write_text(
        "Metadata-Version: 2.4\nName: wheelfix\nVersion: 0\n"
        f"Project-URL: Documentation, https://example.org\n{required}"
    )
    wheel = a_bad_wheel(here)
    link = f"\x1b]8;;https://example.org/rules/{name}/\x1b\\{code}\x1b]8;;\x1b\\".encode()
    for color, expected in (("always", True), ("never", False)):
        shown = on_a_terminal([*arguments, wheel, "--color", color], here / "first")
        assert code.encode() in shown
        assert (link in shown) is expected


def test_a_full_disk_costs_the_progress_line_and_not_the_check(here: Path) -> None:
    """No file can grow, as on a full disk (setrlimit(2))."""
    wheel = a_bad_wheel(here)
    no_room = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (0, 0))
    arguments = [warm_program(), "check", wheel]
    piped = subprocess.run(arguments, preexec_fn=no_room, capture_output=True, check=False)
    assert piped.returncode == 1
    assert b"WF112" in piped.stdout
    assert b"WF112" in on_a_terminal(["check", wheel], here, no_room)


def on_a_terminal(
    arguments: Sequence[str | Path], path: Path, confine: Callable[[], None] | None = None
) -> bytes:
    """Return what wheelfix writes to a terminal, with `path` first on the search path."""
    code = "import sys\nsys.path.insert(0, sys.argv.pop(1))\n"
    code += "from wheelfix.__main__ import main\nmain()"
    master, terminal = pty.openpty()
    with subprocess.Popen(
        [*warm_python(code), path, *arguments],
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm"},
        preexec_fn=confine,  # noqa: PLW1509 - no other thread holds a lock here
    ):
        os.close(terminal)
        shown = b""
        with suppress(OSError):  # EIO: the other end is closed
            while more := os.read(master, 4096):
                shown += more
    os.close(master)
    return shown


def test_without_a_site_there_are_no_links(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.metadata.metadata", {"wheelfix": Message()}.__getitem__)
    wheel = a_bad_wheel(here)
    assert run(["check", wheel, "--output-format", "sarif"]) == 1
    assert "helpUri" not in capsys.readouterr().out
    assert run(["check", wheel, "--select", "WF112", "--output-format", "json"]) == 1
    [report] = json.loads(capsys.readouterr().out)["wheels"]
    assert [finding["url"] for finding in report["findings"]] == [None]
