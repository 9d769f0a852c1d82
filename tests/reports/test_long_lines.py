"""Reports for people have no long lines, whatever a wheel says; commands stay whole."""

import re
import zipfile
from pathlib import Path

import pytest

from tests.support.build import make_wheel
from wheelfix.cli import console
from wheelfix.cli.app import run
from wheelfix.cli.console import SlowProgress, Terminal
from wheelfix.reports.check_content import shorten_finding
from wheelfix.reports.printable import (
    LONGEST,
    Color,
    Style,
    fit,
    hint_lines,
    link,
    paint,
    shorten,
    wrap,
)
from wheelfix.rules.findings import Finding, Severity

LONG = "x" * 50_000
MANGLED = "_ZNSt3__112basic_string" + "IcNS_11char_traitsIcEENS_9allocatorIcEE" * 6


def test_a_long_name_loses_its_middle_and_the_sentence_stays() -> None:
    text = shorten(f"no loaded library defines `{MANGLED}`")
    assert re.fullmatch(r"no loaded library defines `_ZNSt3__\w+…\w+`", text)
    assert len(text) <= LONGEST


def test_a_long_sentence_stays_whole() -> None:
    """What went wrong may stand anywhere in it: platform, file and cause of a refusal."""
    text = "the objects of the wheel are for another platform than the one of its name; " * 10
    assert shorten(text) == text
    assert fit(text, verbose=False) == text
    quoting = f"`a` {text} `b`"
    assert shorten(quoting) == quoting
    assert shorten("a" * LONGEST) == "a" * LONGEST
    assert re.fullmatch(r"a+…a+ the end", shorten("a" * 300 + " the end"))


def test_a_text_without_end_stops_behind_a_word() -> None:
    for text in (shorten("word " * 5000), fit("word " * 5000, verbose=False)):
        assert re.fullmatch(r"(word ?)+ …; -v shows the rest", text)
        assert len(text) < 2100


def test_escapes_do_not_count_and_are_kept() -> None:
    painted = paint("a" * 150, Color.RED, on=True) + link("b" * 50, "https://example.org/")
    assert fit(painted, verbose=False) == painted
    cut = fit(painted + paint("c" * 9, Color.BOLD, on=True), verbose=False)
    assert cut.count("\x1b") == painted.count("\x1b") + 2
    assert cut.endswith(f"{'c' * 9}\x1b[0m")
    assert re.search("a…a", cut)


def test_a_command_stays_whole() -> None:
    command = "hint: `wheelfix repair " + "/folder" * 60 + "/x.whl`"
    assert fit(command, verbose=False) == command
    assert fit(LONG, verbose=True) == LONG


@pytest.mark.parametrize("width", [0, 80])
def test_a_hint_is_broken_around_its_commands(width: int) -> None:
    commands = [f"`wheelfix check --target {name}:12 a.whl`" for name in ("debian", "x" * 250)]
    words = "where the libraries of the system are of another release than these, "
    hint = words * 3 + f"{commands[0]} or {commands[1]} says so. " + words * 3
    lines = "\n".join(hint_lines(hint, Style(width=width))).splitlines()
    assert " ".join(line.removeprefix("hint:").strip() for line in lines) == hint.strip()
    most = width or LONGEST
    assert [commands[1] in line for line in lines if len(line) > most] == [True]
    assert any(commands[0] in line for line in lines)


@pytest.mark.parametrize("width", [0, 80])
@pytest.mark.parametrize(
    ("before", "command"),
    [
        ("", f"wheelfix why {'a-1.0-py3-none-linux_x86_64.whl ' * 9}libfoo.so.1"),
        ("build the wheel first: ", f"pip wheel --no-deps {'x' * 250}-1.0.tar.gz"),
        ("`libfoo.so.1`: install that wheel again: ", f"pip install -U file:///{'f/' * 125}a.whl"),
    ],
)
def test_a_command_is_not_broken(before: str, command: str, width: int) -> None:
    for text in (
        "\n".join(hint_lines(before + command, Style(width=width))),
        wrap("  = note: ", before + command, width),
    ):
        assert fit(text, verbose=False) == text
        assert text.endswith(command)


@pytest.mark.parametrize(("number", "is_shown"), [(1, True), (45, True), (450, False)])
def test_a_command_of_a_hint_is_shown_whole_or_not_at_all(number: int, *, is_shown: bool) -> None:
    hint = "`wheelfix repair" + " --exclude libfoo.so.1" * number + "` writes it"
    finding = Finding(
        code="WF101", name="x", severity=Severity.ERROR, message="m", member=None, hint=hint
    )
    assert shorten_finding(finding).hint == (hint if is_shown else None)


def test_a_long_hint_with_a_command_is_whole() -> None:
    """A sentence without its end says nothing: which distributions may have the library."""
    hint = f"`wheelfix check --deps a.whl` says whether it is in {'`numpy`, ' * 30}or `scipy`"
    finding = Finding(
        code="WF101", name="x", severity=Severity.ERROR, message="m", member=None, hint=hint
    )
    assert shorten_finding(finding).hint == hint


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A wheel that is not valid, whose METADATA has lines of 50,000 characters."""
    wheel = make_wheel(tmp_path, "hostile", tag="py3-none-any", files={"hostile.py": ""})
    with zipfile.ZipFile(wheel) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in members.items():
            if name.endswith("/METADATA"):
                more = f"Requires-Dist: {LONG}!\nRequires-Python: {LONG}\n"
                archive.writestr(name, content + more.encode())
            else:
                archive.writestr(name, content)
    return wheel


@pytest.mark.parametrize("form", ["full", "markdown", "github"])
def test_a_hostile_line_is_cut_in_each_report_for_people(
    form: str, hostile: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hostile.parent)
    hostile = Path(hostile.name)
    assert run(["check", "--output-format", form, str(hostile)]) == 1
    out = capsys.readouterr().out
    assert "WF506" in out
    assert max(map(len, re.split(r"\n|%0A|\|", out))) <= LONGEST + 400
    if form == "full":
        assert max(len(line) for line in out.splitlines() if "wheelfix " not in line) <= 2 * LONGEST
        assert run(["check", "-v", "--output-format", form, str(hostile)]) == 1
        assert LONG in capsys.readouterr().out


def test_a_report_for_programs_has_whole_names(
    hostile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "/".join(["a-long-folder-name" * 5] * 4)
    folder.mkdir(parents=True)
    wheel = hostile.rename(folder / hostile.name)
    assert run(["check", "--output-format", "concise", str(wheel)]) == 1
    out = capsys.readouterr().out
    assert LONG in out
    *findings, _total = out.splitlines()
    assert findings
    assert all(line.startswith((f"{wheel}: ", f"{wheel}!")) for line in findings), "no …"


@pytest.mark.each_run("check", "diff")
@pytest.mark.parametrize("command", ["check", "repair --allow-pure-python-wheel", "verify", "diff"])
def test_quiet_is_never_longer_than_the_default(
    command: str, tmp_path: Path, hostile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken-1.0-py3-none-any.whl"
    files = {f"p/m{number}.py": "" for number in range(40)}
    with zipfile.ZipFile(make_wheel(tmp_path / "many", tag="py3-none-any", files=files)) as archive:
        names = archive.namelist()
        with zipfile.ZipFile(broken, "w") as other:
            for name in names:
                other.writestr(name.replace("demo-", "broken-"), archive.read(name) + b"#")
    wheels = [str(wheel) for wheel in (broken, hostile)]
    for subject in [wheels] if command == "diff" else [wheels[:1], wheels[1:], wheels]:
        lines: list[int] = []
        for option in ([], ["-q"]):
            run([*command.split(), *option, *subject])
            captured = capsys.readouterr()
            lines.append(len((captured.out + captured.err).splitlines()))
        assert lines[1] <= lines[0], subject


def test_without_a_terminal_slow_work_is_said_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "INTERVAL", 0.01)
    with SlowProgress() as progress:
        Terminal(verbosity=-1).show_progress("quiet")
        Terminal(verbosity=0).show_progress("x.whl: reading")
        while not (said := capsys.readouterr().err):
            pass
    assert re.fullmatch(r"(x\.whl: reading \(0 s\)\n)+", said)
    assert progress is not None


def test_quick_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with SlowProgress():
        Terminal(verbosity=0).show_progress("x.whl: reading")
    assert capsys.readouterr().err == ""
