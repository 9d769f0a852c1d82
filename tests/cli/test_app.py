"""The command line: options in, streams and exit codes out."""

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import pytest
import typer
from typer.core import TyperGroup
from wheelfix.cli.ahead import ahead
from wheelfix.pipelines.standby import Standby

import wheelfix
from tests.support.build import make_wheel, shared_object
from wheelfix import cli
from wheelfix.cli import commands, front
from wheelfix.cli.front import plain_repair
from wheelfix.errors import BadWheelError
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.rules import RULES, SET_RULES
from wheelfix.rules.findings import Finding, Severity
from wheelfix.rules.plugins import all_rules
from wheelfix.rules.rule import AnyRule
from wheelfix.settings import DataLibraries, SacrificialEntry, SearchPathTag, Settings

Progress = Callable[[str], None]

LEFT = Finding(code="WF101", name="unreachable-library", severity=Severity.ERROR, message="bad")


class Repairs:
    """A `wheelfix.pipelines.repair` that does nothing: file names choose the outcome."""

    def __init__(self) -> None:
        self.settings: list[Settings] = []
        self.published: list[bool] = []

    def repair(
        self,
        standby: Standby,
        path: Path,
        settings: Settings,
        *,
        progress: Progress,
        publish: bool = True,
    ) -> Outcome:
        assert standby.environ is os.environ
        progress("reading")
        self.settings.append(settings)
        self.published.append(publish)
        kind = path.name.partition("-")[0]
        if kind == "crash":
            raise ZeroDivisionError("division by zero")
        if kind == "failed":
            error = BadWheelError("it is cut in two", hint="build it again")
            return Outcome(source=path, status=Status.FAILED, error=error)
        if kind == "rejected":
            return Outcome(source=path, status=Status.REJECTED, found=(LEFT,), remaining=(LEFT,))
        output = settings.wheel_dir / path.name.replace("linux_x86_64", "manylinux_2_17_x86_64")
        status = Status(kind) if kind in set(Status) else Status.REPAIRED
        if not publish:
            return Outcome(source=path, status=Status.PLANNED, found=(LEFT,))
        return Outcome(source=path, status=status, output=output, found=(LEFT,))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Repairs:
    """Repairs that are recorded, in an empty directory and environment."""
    repairs = Repairs()
    module = ModuleType("wheelfix.pipelines.repair")
    module.__dict__["repair_with"] = repairs.repair
    monkeypatch.setitem(sys.modules, "wheelfix.pipelines.repair", module)
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith(("WHEELFIX_", "AUDITWHEEL_")) or name in {"NO_COLOR", "FORCE_COLOR"}:
            monkeypatch.delenv(name)
    return repairs


def wheels(*kinds: str) -> list[str]:
    names = [f"{kind}-1.0-py3-none-linux_x86_64.whl" for kind in kinds]
    for name in names:
        Path(name).touch()
    return names


def output(kind: str, directory: str = "wheelhouse") -> str:
    return f"{directory}/{kind}-1.0-py3-none-manylinux_2_17_x86_64.whl"


# --- Streams and exit codes -----------------------------------------------------------------------


def test_stdout_carries_the_paths_and_nothing_else(
    fake: Repairs, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["repair", *wheels("a", "unchanged")]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [output("a"), output("unchanged")]
    assert "a-1.0-py3-none-linux_x86_64.whl: repaired" in err
    assert "unreachable-library" in err
    assert "\x1b" not in err, "no colour and no progress line where there is no terminal"
    assert fake.published == [True, True]


@pytest.mark.parametrize("jobs", ["1", "4"])
@pytest.mark.parametrize(
    ("kinds", "code"),
    [
        (["a"], 0),
        (["unchanged"], 0),
        (["rejected", "a"], 1),
        (["failed", "a"], 2),
        (["crash", "a"], 2),
        (["rejected", "failed", "a", "unchanged"], 2),
    ],
)
def test_one_bad_wheel_does_not_stop_the_others(
    fake: Repairs, capsys: pytest.CaptureFixture[str], kinds: list[str], code: int, jobs: str
) -> None:
    assert cli.run(["repair", "-j", jobs, *wheels(*kinds)]) == code
    out, err = capsys.readouterr()
    good = [kind for kind in kinds if kind in {"a", "unchanged"}]
    assert out.splitlines() == [output(kind) for kind in good], "in the order that was given"
    assert [line.partition("-1.0-")[0] for line in err.splitlines() if ".whl: " in line] == kinds
    assert len(fake.settings) == len(kinds)


def test_a_failure_says_why_and_what_to_do(
    fake: Repairs, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.run(["repair", *wheels("failed")])
    assert "error: it is cut in two\nhint: build it again\n" in capsys.readouterr().err
    assert fake.settings


def test_a_crash_is_a_short_message_and_a_traceback_with_v(
    fake: Repairs, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.run(["repair", *wheels("crash")])
    short = capsys.readouterr().err
    assert "error: internal error: ZeroDivisionError: division by zero" in short
    assert "Traceback" not in short
    cli.run(["repair", "-v", *wheels("crash")])
    assert "Traceback" in capsys.readouterr().err
    assert fake.settings


def test_quiet_leaves_only_paths_and_errors(
    fake: Repairs, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["repair", "-q", *wheels("a")]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == (output("a") + "\n", "")
    assert cli.run(["repair", "-q", *wheels("rejected", "failed")]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "rejected-1.0-py3-none-linux_x86_64.whl: rejected",
        "error[unreachable-library]: bad",
        "  --> rejected-1.0-py3-none-linux_x86_64.whl",
        "failed-1.0-py3-none-linux_x86_64.whl: failed",
        "error: it is cut in two",
        "hint: build it again",
    ]
    assert fake.settings


@pytest.mark.parametrize("arguments", [["-v", "repair"], ["repair", "-v"], ["repair", "--verbose"]])
def test_verbose_stands_before_or_after_the_command(
    fake: Repairs, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    cli.run([*arguments, *wheels("a")])
    assert "a-1.0-py3-none-linux_x86_64.whl: reading\n" in capsys.readouterr().err
    assert fake.settings


def test_colour_is_for_terminals_and_can_be_forced_or_forbidden(
    fake: Repairs, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    coloured: dict[tuple[str, str], bool] = {}
    for force, no in (("", ""), ("1", ""), ("1", "1"), ("", "1")):
        monkeypatch.setenv("FORCE_COLOR", force)
        monkeypatch.setenv("NO_COLOR", no)
        cli.run(["repair", *wheels("a")])
        coloured[force, no] = "\x1b[" in capsys.readouterr().err
    assert coloured == {("", ""): False, ("1", ""): True, ("1", "1"): False, ("", "1"): False}
    assert fake.settings


def test_the_progress_line_is_for_terminals_and_erased() -> None:
    program = (
        "import sys\nfrom pathlib import Path\nfrom wheelfix.cli.console import Terminal\n"
        "t = Terminal(verbosity=int(sys.argv[1]))\n"
        "t.progress(Path('x.whl'))('reading')\nt.result('done')\n"
    )
    assert on_a_terminal(program, "0") == "\r\x1b[Kx.whl: reading\r\x1b[Kdone\r\n"
    assert on_a_terminal(program, "-1") == "done\r\n"
    assert on_a_terminal(program, "1") == "x.whl: reading\r\ndone\r\n"


def on_a_terminal(program: str, *arguments: str) -> str:
    """Run `program` with a terminal for its output, and return what it wrote there."""
    import pty

    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    command = [sys.executable, "-c", program, *arguments]
    subprocess.run(command, stdout=theirs, stderr=theirs, check=True, env=environment)
    os.close(theirs)
    with os.fdopen(ours, "rb") as reader:
        return reader.read1(10000).decode()


# --- Dry runs -------------------------------------------------------------------------------------


def test_a_dry_run_prints_the_plan_and_publishes_nothing(
    fake: Repairs, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["repair", "--dry-run", *wheels("a")]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("plan for a-1.0-py3-none-linux_x86_64.whl\n")
    assert "planned" in err
    assert cli.run(["repair", "--diff", *wheels("a")]) == 0
    assert cli.run(["repair", "--dry-run", *wheels("rejected")]) == 1
    assert fake.published == [False, False, False]


# --- Refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dist/*.whl"], "no file matches `dist/*.whl`"),
        (["nothing.whl"], "`nothing.whl` does not exist"),
        (["."], "`.` is a directory"),
        (["a.whl", "other/a.whl"], "2 of the wheels are called `a.whl`"),
        (["a.whl", "--patcher", "lief-patchelf"], "wheelfix patches with patchelf alone"),
        (["a.whl", "--select", "WF9999"], "no rule has the code, prefix or name `WF9999`"),
        (["a.whl", "--ignore", "WF1,"], "`ignore`, item 2 is ``"),
        (["a.whl", "--jobs", "0"], "--jobs"),
        (["a.whl", "-z", "10"], "--zip-compression-level"),
        (["a.whl", "--data-libraries", "x"], "--data-libraries"),
        (["a.whl", "--no-such-option"], "--no-such-option"),
        (["a.whl", "--config", "none.toml"], "cannot read `none.toml`"),
    ],
)
def test_wrong_usage_is_refused_before_anything_is_done(
    fake: Repairs, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    Path("other").mkdir()
    Path("a.whl").touch()
    Path("other/a.whl").touch()
    assert cli.run(["repair", *arguments]) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert "Traceback" not in err
    assert out == ""
    assert fake.settings == []


def test_auditwheels_patcher_variable_is_answered(
    fake: Repairs, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUDITWHEEL_PATCHER", "lief-patchelf")
    assert cli.run(["repair", "--patcher", "patchelf", *wheels("a")]) == 0
    assert "AUDITWHEEL_PATCHER is not used" in capsys.readouterr().err
    assert fake.settings


# --- Options --------------------------------------------------------------------------------------


def settings_of(fake: Repairs, *arguments: str) -> Settings:
    assert cli.run(["repair", *arguments, *wheels("a")]) == 0
    return fake.settings[-1]


def test_the_defaults_are_those_of_settings(fake: Repairs) -> None:
    assert settings_of(fake) == Settings()


def test_every_setting_has_its_flag(fake: Repairs) -> None:
    line = (
        "-w out --plat manylinux_2_28_x86_64 -L .so --exclude a.so --exclude b.so.* --only-plat "
        "--no-update-tags --strip -z 3 --ldpaths /x:/y --disable-isa-ext-check "
        "--no-allow-pure-python-wheel --select WF1,WF2 --select WF501 --extend-select WF8 "
        "--ignore WF116,dead-entry --unsafe-fixes --data-libraries move --search-path-tag runpath "
        "--sacrificial-entry remove --keep-entry /opt/* --no-verdict --jobs 2"
    )
    expected = Settings(
        wheel_dir=Path("out"),
        plat="manylinux_2_28_x86_64",
        lib_sdir=".so",
        exclude=("a.so", "b.so.*"),
        only_plat=True,
        update_tags=False,
        strip=True,
        zip_level=3,
        ldpaths="/x:/y",
        isa_ext_check=False,
        allow_pure_python_wheel=False,
        select=("WF1", "WF5", "WF501"),
        extend_select=("WF8",),
        ignore={"WF116": "", "dead-entry": ""},
        unsafe_fixes=True,
        data_libraries=DataLibraries.MOVE,
        search_path_tag=SearchPathTag.RUNPATH,
        sacrificial_entry=SacrificialEntry.REMOVE,
        keep_entries=("/opt/*",),
        verdict=False,
        jobs=2,
    )
    assert settings_of(fake, *line.replace("WF2", "WF5").split()) == expected


def test_flag_over_environment_over_auditwheels_over_file(
    fake: Repairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings_of(fake).plat == "auto"
    Path("wheelfix.toml").write_text("plat = 'file'\nstrip = true\nignore = ['WF1']\n", "utf-8")
    assert settings_of(fake).plat == "file"
    monkeypatch.setenv("AUDITWHEEL_PLAT", "auditwheel")
    assert settings_of(fake).plat == "auditwheel"
    monkeypatch.setenv("WHEELFIX_PLAT", "wheelfix")
    assert settings_of(fake).plat == "wheelfix"
    assert settings_of(fake, "--plat", "flag").plat == "flag"
    assert settings_of(fake).strip
    assert not settings_of(fake, "--no-strip").strip, "a flag can undo what the file says"
    assert settings_of(fake, "--ignore", "WF5").ignore == {"WF1": "", "WF5": ""}


@pytest.mark.parametrize(
    ("given", "field", "expected"),
    [
        ("AUDITWHEEL_ZIP_COMPRESSION_LEVEL=7", "zip_level", 7),
        ("WHEELFIX_ZIP_LEVEL=8", "zip_level", 8),
        ("WHEELFIX_EXCLUDE=a.so b.so", "exclude", ("a.so", "b.so")),
        ("WHEELFIX_SELECT=WF1,WF5", "select", ("WF1", "WF5")),
        ("WHEELFIX_STRIP=1", "strip", True),
        ("WHEELFIX_UPDATE_TAGS=0", "update_tags", False),
        ("WHEELFIX_SEARCH_PATH_TAG=rpath", "search_path_tag", SearchPathTag.RPATH),
        ("WHEELFIX_WHEEL_DIR=out", "wheel_dir", Path("out")),
        ("AUDITWHEEL_PLAT=", "plat", "auto"),
    ],
)
def test_environment_variables(
    fake: Repairs, monkeypatch: pytest.MonkeyPatch, given: str, field: str, expected: object
) -> None:
    monkeypatch.setenv(*given.split("=", 1))
    assert getattr(settings_of(fake), field) == expected


def test_every_option_of_auditwheel_repair_is_taken(fake: Repairs) -> None:
    """auditwheel's own help names them: what a new version adds, this test asks for."""
    environment = {**os.environ, "COLUMNS": "200"}
    command = [sys.executable, "-m", "auditwheel", "repair", "--help"]
    help_text = subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment
    ).stdout
    options = re.findall(
        r"^  (?:(-\w)(?: \w+)?, )?(--[\w-]+)(?: ([A-Z_]+))?", help_text, re.MULTILINE
    )
    assert len(options) >= 11, help_text
    values = {"ZIP_COMPRESSION_LEVEL": "5", "PATCHER": "patchelf"}
    for short, long, metavar in options:
        if long == "--help":
            continue
        value = [values.get(metavar, "x")] if metavar else []
        for flag in filter(None, (short, long)):
            assert cli.run(["repair", flag, *value, *wheels("a")]) == 0, flag
    assert fake.settings


def test_help_says_what_the_settings_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["repair", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Do not graft libraries whose SONAME or path matches this glob; repeatable." in shown
    assert "AUDITWHEEL_PLAT" in shown


def test_every_setting_is_documented_and_has_an_option() -> None:
    from dataclasses import fields
    from inspect import signature

    from wheelfix.cli import options
    from wheelfix.cli.check import check
    from wheelfix.cli.repair import repair

    names = {field.name for field in fields(Settings)}
    assert names <= set(options.DOCS)
    assert names <= {*signature(repair).parameters, *signature(check).parameters}


# --- rule -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["WF101", "wf101", "unreachable-library"])
def test_rule_prints_the_docstring(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["rule", name]) == 0
    out = capsys.readouterr().out
    assert out.startswith("# unreachable-library (WF101, error)\n\nA library in the wheel")
    assert "\n## What it does\n" in out


@pytest.mark.parametrize("arguments", [["rule"], ["rule", "--all"]])
def test_rule_lists_all_rules(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    every: list[AnyRule] = [*RULES, *SET_RULES]
    assert sorted(line.split()[0] for line in lines) == sorted(rule.code for rule in every)
    for line, rule in zip(lines, sorted(every, key=lambda rule: rule.code), strict=True):
        assert rule.name in line
        assert line.endswith(rule.summary)


def test_each_rule_says_first_whether_its_fix_is_safe() -> None:
    """The list of rules reads it there."""
    for rule in RULES:
        words = rule.explanation.partition("## Fix safety")[2].split()
        assert words[0].strip(":.,") in {"Safe", "Unsafe", "Not", "Never"}, rule.code


def test_unknown_rules_get_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["rule", "unreachable-libs"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "no rule has the code or name `unreachable-libs`" in err
    assert "hint: did you mean `unreachable-library`?" in err


def test_without_docstrings_rule_says_so() -> None:
    whole = ["rule", "WF101", "--output-format", "text"]  # read from the docstring, not the source
    command = [sys.executable, "-OO", "-m", "wheelfix", *whole]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "-OO" in shown


# --- check ----------------------------------------------------------------------------------------


def test_check_passes_a_sound_wheel(fake: Repairs, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = make_wheel(Path(), tag="py3-none-any", files={"ok.py": b"x = 1\n"})
    assert cli.run(["check", str(wheel)]) == 0
    assert capsys.readouterr().out == "All checks passed for 1 wheel.\n"
    assert fake.settings == []


def test_check_reports_and_goes_on(fake: Repairs, capsys: pytest.CaptureFixture[str]) -> None:
    bad = make_wheel(Path(), "bad", tag="py3-none-any", files={"bad.py": b""})
    with zipfile.ZipFile(bad, "a") as archive:
        archive.writestr("unlisted.py", b"")
    Path("cut-1.0-py3-none-any.whl").write_bytes(b"PK")
    assert cli.run(["check", str(bad)]) == 1
    out, err = capsys.readouterr()
    assert "error[record-mismatch]: " in out
    assert "  --> bad-1.0-py3-none-any.whl!unlisted.py" in out
    assert "Found " in out
    assert err == ""
    assert cli.run(["check", "--ignore", "WF501", str(bad)]) == 0
    capsys.readouterr()
    assert cli.run(["check", "cut-1.0-py3-none-any.whl", "none.whl", str(bad)]) == 2
    out, err = capsys.readouterr()
    assert "record-mismatch" in out
    assert "`none.whl` is not a file" in err
    assert "cut-1.0-py3-none-any.whl" in err
    assert fake.settings == []


# --- The rest -------------------------------------------------------------------------------------


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    from wheelfix import __version__

    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out == f"wheelfix {__version__}\n"


def test_interrupt_exits_with_130(fake: Repairs, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> Outcome:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["wheelfix.pipelines.repair"], "repair_with", interrupted)
    assert cli.run(["repair", *wheels("a")]) == 130
    assert cli.run(["repair", "-j2", *wheels("a", "b")]) == 130
    assert fake.settings == []


HEAVY = (
    *("auditwheel", "elftools", "rich", "pydantic", "packaging", "zipfile", "hashlib", "email"),
    *(
        "concurrent.futures",
        "tomllib",
        "wheelfix.pipelines.repair",
        "wheelfix.wheel.reader",
        "wheelfix.cli.config.files",
    ),
    *("wheelfix.rules", "wheelfix.wheel.edits"),
)
AT_ONCE = (["--help"], ["--version"], ["rule", "WF101"], ["rule", "broken-elf"], ["rule"])


def imported_by(arguments: list[str], code: int = 0, cwd: Path | None = None) -> set[str]:
    """The modules that a command line imports, in a process of its own."""
    program = (
        "import sys, json\nfrom wheelfix import cli\n"
        f"assert cli.run({arguments!r}) == {code}\n"
        "print('', json.dumps(sorted(sys.modules)), sep='\\n', file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=cwd)
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("arguments", [*AT_ONCE, ["repair", "--help"], ["rule", "--help"]])
def test_light_commands_load_nothing_heavy(arguments: list[str]) -> None:
    assert set(HEAVY).isdisjoint(imported_by(arguments))


@pytest.mark.parametrize("arguments", AT_ONCE)
def test_what_is_answered_at_once_needs_no_typer(arguments: list[str]) -> None:
    found = imported_by(arguments)
    assert not {"typer", "subprocess", "shutil", "dataclasses", "wheelfix.rules.findings"} & found
    assert sum(name.startswith("wheelfix") for name in found) < 8


def test_what_is_answered_at_once_is_what_the_commands_would_say(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = [rule.code for rule in all_rules()]
    names = [rule.name for rule in all_rules()]
    asked = [["--version"], ["rule"], *(["rule", each] for each in (*codes, *names, "wf101"))]
    at_once = {tuple(words): front.answer(words) for words in asked}
    assert None not in at_once.values()

    def nothing(_: Sequence[str]) -> None:
        pass

    monkeypatch.setattr(front, "answer", nothing)
    for words in (["--help"], *asked[:2], *asked[2::10]):
        assert cli.run(words) == 0
        assert capsys.readouterr().out == (at_once.get(tuple(words)) or front.HELP)
    assert [code for code in codes if f"({code}, " not in str(at_once["rule", code])] == []


@pytest.mark.parametrize(
    ("words", "environ"),
    [
        (["check"], {}),
        (["check", "a.whl", "-q"], {}),
        (["check", "--", "a.whl"], {}),
        (["repair", "a.whl"], {}),
        (["-v", "check", "a.whl"], {}),
        ([], {}),
        (["check", "a.whl"], {"WHEELFIX_STRICT": "1"}),
        (["check", "a.whl"], {"_WHEELFIX_COMPLETE": "complete_bash"}),
    ],
)
def test_where_more_is_said_the_options_are_read(words: list[str], environ: dict[str, str]) -> None:
    assert front.plain_check(["check", "a.whl", "b"], {"PATH": "/bin"}) == ("a.whl", "b")
    assert front.plain_check(words, environ) == ()


def test_a_check_without_options_says_what_it_says_by_way_of_the_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    library = shared_object(tmp_path / "libx.so", "int x;")
    files = {"demo/libx.so": library}
    wheel = make_wheel(tmp_path, tag="py3-none-linux_x86_64", files=files)
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("WHEELFIX_")]:
        monkeypatch.delenv(name)
    asked = (["check", wheel.name], ["check", "."], ["check", "none.whl"], ["check", "none", "."])

    def told() -> list[object]:
        return [(cli.run(words), capsys.readouterr()) for words in asked]

    def nothing(*_: object) -> tuple[str, ...]:
        return ()

    def bare_and_by_options() -> tuple[object, object]:
        bare = told()
        with monkeypatch.context() as patch:
            patch.setattr(front, "plain_check", nothing)
            return bare, told()

    bare, by_options = bare_and_by_options()
    assert bare == by_options
    Path("wheelfix.toml").write_text('ignore = ["ALL"]\n', encoding="utf-8")
    ignoring, by_options = bare_and_by_options()
    assert ignoring == by_options != bare
    Path("wheelfix.toml").write_text('no-such-key = ["ALL"]\n', encoding="utf-8")
    refused, by_options = bare_and_by_options()
    assert refused == by_options != ignoring


def test_the_help_names_every_command_and_option() -> None:
    group = typer.main.get_command(commands.app)
    assert isinstance(group, TyperGroup)
    context = typer.Context(group, help_option_names=["-h", "--help"])
    listed = re.findall(r"^  ([a-z]+)  ", front.HELP.partition("Commands:")[2], re.MULTILINE)
    assert listed == group.list_commands(context)
    options = {flag for each in group.get_params(context) for flag in each.opts}
    assert options == set(re.findall(r"(?<!\w)--?[a-zA-Z][a-z-]*", front.HELP))
    assert max(map(len, front.HELP.splitlines())) < 80


def test_a_rule_of_nobody_or_without_a_source_is_looked_up_the_long_way(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert front.answer(["rule", "WF000"]) is None
    assert front.answer(["rule", "--output-format=markdown"]) is None
    monkeypatch.setattr(wheelfix, "__file__", str(tmp_path / "__init__.py"))
    assert front.answer(["rule", "WF101"]) is None
    assert front.answer(["rule"]) is None


def test_rules_of_others_are_listed_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    brought = tmp_path / "acme-1.dist-info" / "entry_points.txt"
    brought.parent.mkdir()
    brought.write_text("[wheelfix.rules]\nacme = acme:RULES\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    assert front.answer(["rule"]) is None


def test_an_answer_that_nobody_reads_is_no_error() -> None:
    command = f"{sys.executable} -m wheelfix --help | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode in {0, 141}


NOT_FOR_EVERY_WHEEL = (
    *("packaging", "concurrent.futures", "logging", "tomllib", "zipfile", "email", "statistics"),
    *("typer", "subprocess", "tempfile", "shutil", "difflib", "random"),
    *(
        "importlib.resources",
        "importlib.metadata",
        "wheelfix.pipelines.sbom",
        "wheelfix.system.executors",
    ),
    *(
        "wheelfix.analysis.preload_plan",
        "wheelfix.pipelines.repair",
        "wheelfix.pipelines.auditwheel",
    ),
)


def test_a_check_imports_only_what_the_wheel_needs(tmp_path: Path) -> None:
    library = shared_object(tmp_path / "libx.so", "int x;")
    wheel = make_wheel(tmp_path, tag="py3-none-linux_x86_64", files={"demo/libx.so": library})
    assert set(NOT_FOR_EVERY_WHEEL).isdisjoint(imported_by(["check", str(wheel)], 1, tmp_path))


def test_large_members_and_plain_metadata_need_no_more(tmp_path: Path) -> None:
    """Two that are read side by side, one of them by way of a file."""
    source = "static const char data[9 << 20] = {1}; const char *x = data;"
    library = shared_object(tmp_path / "libx.so", source)
    data = bytes(range(256)) * 4096
    files: dict[str, bytes | str | Path] = {"demo/a.bin": data, "demo/libx.so": library}
    metadata = "Requires-Python: >=3.8, !=3.9.0, <4\nRequires-Dist: numpy>=1.2,<3\n"
    metadata += "Requires-Dist: pytest ; extra == 'test'\n"
    tag = "py3-none-linux_x86_64"
    wheel = make_wheel(tmp_path, tag=tag, files=files, metadata=metadata)
    assert set(NOT_FOR_EVERY_WHEEL).isdisjoint(imported_by(["check", str(wheel)], 1, tmp_path))


def test_auditwheel_is_started_before_anything_that_takes_long_is_imported() -> None:
    program = (
        "import sys\nfrom wheelfix import cli\nfrom wheelfix.tools import standby\n"
        "standby._started = lambda *_, **__: sys.exit(f'started: {sorted(sys.modules)}')\n"
        "sys.argv[1:] = ['-v', 'repair', 'x.whl']\ncli.main()\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr.startswith("started: ")
    heavy = ("typer", "inspect", "json", "subprocess", "wheelfix.settings", "wheelfix.rules")
    assert not [name for name in heavy if f"'{name}'" in done.stderr]


@pytest.mark.parametrize("words", [[], ["repair"], ["repair", "x.whl", "-h"], ["check", "repair"]])
def test_auditwheel_is_not_started_for_anything_else(words: list[str]) -> None:
    with ahead(words, os.environ) as standby:
        assert standby is None


@pytest.mark.parametrize(
    ("words", "wheels", "place"),
    [
        ("a.whl", ("a.whl",), None),
        ("-w out a.whl b.whl", ("a.whl", "b.whl"), "out"),
        ("a.whl --wheel-dir out", ("a.whl",), "out"),
    ],
)
def test_a_plain_repair_needs_no_parser(
    words: str, wheels: tuple[str, ...], place: str | None
) -> None:
    environ = {"PATH": "/bin", "AUDITWHEEL_LD_LIBRARY_PATH": "/lib"}
    assert plain_repair(["repair", *words.split()], environ) == (wheels, place)


@pytest.mark.parametrize(
    "words",
    [
        *("repair", "check a.whl", "-v repair a.whl", "repair -w out", "repair a.whl -w"),
        *("repair a.whl --strip", "repair a.whl -h", "repair -- -w", "repair -w -w a.whl"),
        *("repair a.whl -w out -v", "repair -w a -w b c.whl", "repair a.whl -w out b.whl"),
    ],
)
def test_any_other_command_line_goes_to_the_parser(words: str) -> None:
    assert plain_repair(words.split(), {}) is None


@pytest.mark.parametrize(
    "name", ["WHEELFIX_STRIP", "_WHEELFIX_COMPLETE", "AUDITWHEEL_PLAT", "AUDITWHEEL_PATCHER"]
)
def test_a_variable_may_stand_for_an_option_of_a_repair(name: str) -> None:
    assert plain_repair(["repair", "a.whl"], {name: "1"}) is None


def test_a_plain_repair_does_what_the_parser_asks_for(tmp_path: Path) -> None:
    """Both with a configuration, and both in a process of their own."""
    library = shared_object(tmp_path / "libx.so", "int x;")
    wheel = make_wheel(tmp_path, tag="py3-none-linux_x86_64", files={"demo/libx.so": library})
    (tmp_path / "pyproject.toml").write_text("[tool.wheelfix]\nonly-plat = true\n")
    program = (
        "import sys\nfrom wheelfix.cli import main\n"
        "try:\n    main()\nfinally:\n    print('typer' in sys.modules)\n"
    )

    def repaired(*words: str) -> tuple[str, str, list[bytes]]:
        out = tmp_path / "out" / str(len(words))
        given = [sys.executable, "-c", program, "repair", "-w", f"{out}/", *words, str(wheel)]
        done = subprocess.run(given, capture_output=True, text=True, check=True, cwd=tmp_path)
        *said, parsed = done.stdout.replace(str(out), "OUT").splitlines()
        assert (parsed == "True") == bool(words)
        return "".join(said), done.stderr, [each.read_bytes() for each in out.iterdir()]

    assert repaired() == repaired("--no-strip")


def test_what_carries_a_graft_out_is_imported_while_auditwheel_works(tmp_path: Path) -> None:
    library = shared_object(tmp_path / "libx.so", "int x;")
    wheel = make_wheel(tmp_path, tag="py3-none-linux_x86_64", files={"demo/libx.so": library})
    program = (
        "import os, sys\nfrom wheelfix import cli, repairing\nfrom wheelfix.tools import standby\n"
        "def run(self, *_, meanwhile, **__):\n"
        "    before = sorted(set(repairing._LATER) & sys.modules.keys())\n"
        "    meanwhile()\n"
        "    print(before, sorted(set(repairing._LATER) - sys.modules.keys()), flush=True)\n"
        "    os._exit(0)\n"
        "standby.Standby.run = run\n"
        f"cli.run(['repair', {str(wheel)!r}])\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[] []\n"


def test_the_module_runs_as_a_program() -> None:
    command = [sys.executable, "-m", "wheelfix", "repair", "--no-such-option"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
