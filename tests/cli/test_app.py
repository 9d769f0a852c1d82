"""The command line: options, streams and exit codes."""

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from errno import EMFILE
from pathlib import Path
from typing import Any, cast

import pytest
import typer
from typer.core import TyperGroup

from tests.support.build import make_wheel, shared_object
from tests.support.fork_server import warm_program, warm_python
from tests.support.forked import forked
from wheelfix.cli.app import COMMANDS, app, main, run
from wheelfix.cli.console import SlowProgress
from wheelfix.cli.options import Call
from wheelfix.environments.run_environment_rules import ENVIRONMENT_RULES
from wheelfix.errors import unexpected_error
from wheelfix.rules.registry import RULES, SET_RULES
from wheelfix.rules.rule import AnyRule
from wheelfix.settings import (
    SETTING_FIELDS,
    DataLibraries,
    FailOn,
    Index,
    Licenses,
    Patcher,
    ProviderSetting,
    PruneNeeded,
    SacrificialEntry,
    SearchPathTag,
    SettingField,
    Settings,
    Show,
    Size,
    StripLevel,
    ZipCodec,
)
from wheelfix.wheel.model import Wheel, WheelName

REJECTING = """
allow-pure-python-wheel = true
[[overrides]]
select = "rejected-*"
severity = { lazy-binding = "error" }
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with wheels; the first word of a name is the result of its repair."""
    folder = tmp_path_factory.mktemp("wheels")
    library = shared_object(folder / "libx.so", "int x;")
    for name in ("a", "b", "crash", "rejected"):
        make_wheel(folder, name, tag="py3-none-linux_x86_64", files={f"{name}/libx.so": library})
    make_wheel(folder, "unchanged", tag="py3-none-any", files={"unchanged.py": b"x = 1\n"})
    (folder / "failed-1.0-py3-none-linux_x86_64.whl").write_bytes(b"PK")
    return folder


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Change to an empty directory, with an empty environment."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith(("WHEELFIX_", "AUDITWHEEL_")) or name in {"NO_COLOR", "FORCE_COLOR"}:
            monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture
def wheels(built: Path, here: Path) -> Callable[..., list[str]]:
    """Return a function that puts wheels of some kinds into the working directory."""
    (here / "wheelfix.toml").write_text(REJECTING)

    def link(*kinds: str) -> list[str]:
        found = [next(built.glob(f"{kind}-*.whl")) for kind in kinds]
        for wheel in found:
            if not (here / wheel.name).exists():
                os.link(wheel, here / wheel.name)
        return [wheel.name for wheel in found]

    return link


Wheels = Callable[..., list[str]]


def output(kind: str) -> str:
    tag = "any" if kind == "unchanged" else "manylinux1_x86_64.manylinux_2_5_x86_64"
    return f"wheelhouse/{kind}-1.0-py3-none-{tag}.whl"


def crash_on(monkeypatch: pytest.MonkeyPatch, prefix: str, error: BaseException) -> None:
    """Let the repair of wheels whose names start with `prefix` raise `error`, as a bug would."""

    def crashing(name: WheelName, _platform: str, _wheel: Wheel) -> None:
        if str(name).startswith(prefix):
            raise error

    monkeypatch.setattr("wheelfix.pipelines.repair_plan.refuse_other_platform", crashing)


@pytest.fixture
def crashing(wheels: Wheels, monkeypatch: pytest.MonkeyPatch) -> Wheels:
    """As `wheels`; a repair of the kind `crash` meets a bug."""
    crash_on(monkeypatch, "crash-", ZeroDivisionError("division by zero"))
    return wheels


# --- Several wheels -------------------------------------------------------------------------------


def test_a_directory_stands_for_its_wheels_and_the_run_ends_with_a_count(
    wheels: Wheels, capsys: pytest.CaptureFixture[str]
) -> None:
    wheels("rejected", "failed", "a", "b", "unchanged")
    assert run(["repair", "."]) == 2
    totals = capsys.readouterr().err.splitlines()[-3:]
    assert totals[0] == "5 wheels: 2 repaired, 1 unchanged, 1 rejected, 1 failed"
    assert totals[1].startswith("  failed   failed-1.0-py3-none-linux_x86_64.whl: ")
    assert totals[2].startswith("  rejected rejected-1.0-py3-none-linux_x86_64.whl: error[WF6")


@pytest.mark.parametrize("command", ["check", "repair"])
def test_a_provider_that_is_not_found_is_said_once(
    wheels: Wheels, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    given = wheels("a", "b")
    assert run([command, *given, "--provider", "nowhere"]) == 2
    shown = capsys.readouterr()
    assert shown.err.count("error: the provider `nowhere`") == 1
    said = {
        "check": "2 wheels not judged: `a-1.0",
        "repair": "b-1.0-py3-none-linux_x86_64.whl: failed like a-1.0-py3-none-linux_x86_64.whl",
    }
    assert said[command] in shown.out + shown.err


def test_a_run_over_one_wheel_has_no_count(
    wheels: Wheels, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["repair", *wheels("a")]) == 0
    assert "1 wheel" not in capsys.readouterr().err


# --- Streams and exit codes -----------------------------------------------------------------------


def test_stdout_carries_the_paths_and_nothing_else(
    wheels: Wheels, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["repair", *wheels("a", "unchanged")]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [output("a"), output("unchanged")]
    assert all(Path(line).is_file() for line in out.splitlines())
    assert "a-1.0-py3-none-linux_x86_64.whl: repaired" in err
    assert "left     1 note: -v" in err
    assert "\x1b" not in err, "no color and no progress line without a terminal"


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
    crashing: Wheels, capsys: pytest.CaptureFixture[str], kinds: list[str], code: int, jobs: str
) -> None:
    assert run(["repair", "-j", jobs, *crashing(*kinds)]) == code
    out, err = capsys.readouterr()
    good = [kind for kind in kinds if kind in {"a", "unchanged"}]
    assert out.splitlines() == [output(kind) for kind in good], "in the order that was given"
    assert [
        line.partition("-1.0-")[0]
        for line in err.splitlines()
        if ".whl: " in line[:80] and line[0] != " " and not line.endswith(" s)")
    ] == kinds


def test_paths_are_relative_to_the_directory_whatever_pwd_says(
    wheels: Wheels, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PWD", "/")
    Path("libs").mkdir()
    Path("libs/libfoo.so.1").touch()
    assert run(["repair", "--provider", "libs/../libs", *wheels("a")]) == 0, capsys.readouterr()


def test_a_failure_has_a_message_and_a_hint(
    wheels: Wheels, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["repair", *wheels("failed")])
    assert re.search(r"^error: `failed-.*\nhint: .*\n", capsys.readouterr().err, re.MULTILINE)


def test_a_crash_is_a_short_message_and_a_traceback_with_v(
    crashing: Wheels, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["repair", *crashing("crash")])
    short = capsys.readouterr().err
    assert "error: internal error: ZeroDivisionError: division by zero (pipelines/" in short
    assert "Traceback" not in short
    run(["repair", "-v", *crashing("crash")])
    assert "Traceback" in capsys.readouterr().err


def test_a_module_that_a_limit_keeps_out_is_not_called_a_bug() -> None:
    error = unexpected_error(ImportError("x.so: failed to map segment from shared object"))
    assert (
        error.message == "a module cannot be loaded: x.so: failed to map segment from shared object"
    )
    assert "ulimit -v" in (error.hint or "")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_crash_of_check_names_its_file_and_line(
    wheels: Wheels, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, jobs: str
) -> None:
    def crashing(*_: object, **__: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("wheelfix.pipelines.check.open_wheel", crashing)
    assert run(["check", "-j", jobs, *wheels("a", "unchanged")]) == 2
    out, err = capsys.readouterr()
    message = (
        r"internal error: ZeroDivisionError: division by zero \(pipelines/check\.py, line \d+\)"
    )
    assert len(re.findall(message, out + err)) == 2


def test_quiet_leaves_only_paths_and_errors(
    wheels: Wheels, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["repair", "-q", *wheels("a")]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == (output("a") + "\n", "")
    assert run(["repair", "-q", *wheels("rejected", "failed")]) == 2
    out, err = capsys.readouterr()
    rejected, error, place, *_, failed, reason, hint = err.splitlines()
    assert out == ""
    assert rejected == "rejected-1.0-py3-none-linux_x86_64.whl: rejected"
    assert error.startswith("error[WF624] lazy-binding: ")
    assert place == "  --> rejected/libx.so"
    assert failed == "failed-1.0-py3-none-linux_x86_64.whl: failed"
    assert reason.startswith("error: ")
    assert hint.startswith("hint: ")


@pytest.mark.parametrize("arguments", [["-v", "repair"], ["repair", "-v"], ["repair", "--verbose"]])
def test_verbose_stands_before_or_after_the_command(
    wheels: Wheels, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    run([*arguments, *wheels("unchanged")])
    assert "unchanged-1.0-py3-none-any.whl: reading\n" in capsys.readouterr().err


def test_color_is_for_terminals_and_can_be_forced_or_forbidden(
    wheels: Wheels, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    colored: dict[tuple[str, str], bool] = {}
    for force, no in (("", ""), ("1", ""), ("1", "1"), ("", "1")):
        monkeypatch.setenv("FORCE_COLOR", force)
        monkeypatch.setenv("NO_COLOR", no)
        run(["repair", *wheels("unchanged")])
        colored[force, no] = "\x1b[" in capsys.readouterr().err
    assert colored == {("", ""): False, ("1", ""): True, ("1", "1"): False, ("", "1"): False}


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("choice", ["always", "never", "auto"])
def test_color_can_be_chosen_on_the_command_line(
    wheels: Wheels,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    choice: str,
    place: str,
) -> None:
    names = wheels("unchanged")
    option = ["--color", choice]
    words = [*option, "repair", *names] if place == "before" else ["repair", *option, *names]
    for forced in ("0", "1"):
        monkeypatch.setenv("CLICOLOR_FORCE", forced)
        assert run(words) == 0
        wanted = choice == "always" or (choice == "auto" and forced == "1")
        assert ("\x1b[" in capsys.readouterr().err) == wanted


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["chek"], "no such command 'chek'", "Did you mean 'check'?"),
        (["check", "--targt", "x"], "no such option: --targt", "did you mean `--target`?"),
        (["check", "--bogus", "x"], "no such option: --bogus", "`wheelfix check --help` explains"),
        (["trace", "--deps"], "no such option here: --deps", "`wheelfix repair`, `wheelfix check`"),
        (["repair", "--strict"], "no such option here: --strict", "`wheelfix verify`"),
        (["doctor", "--site", "x"], "no such option here: --site", "`wheelfix doctor .venv`"),
        (["repair"], "missing argument 'WHEEL|DIR...'", "`wheelfix repair --help` explains"),
        (["check"], "missing argument 'WHEEL|DIR...'", "`wheelfix check --help` explains"),
        (["why", "x.whl"], "missing argument: it takes `WHEEL|DIR... LIBRARY`", "wheelfix why"),
        (["repair", "-z", "12", "x"], "-z/--zip-compression-level (or WHEELFIX_ZIP_LEVEL", ""),
        (
            ["check", "x.whl", "--target", "debain:12"],
            "--target: unknown target",
            "mean `debian:12`?",
        ),
        (
            ["settings", "a.whl", "b.whl"],
            "`settings` takes one wheel, the pattern gave 2: `a.whl`, `b.whl`",
            "`wheelfix settings a.whl`",
        ),
        (
            ["diff", "d/a.whl", "d/b.whl", "w/a.whl"],
            "`diff` takes two wheels or directories, not 3",
            "`wheelfix diff d w`",
        ),
        (
            ["why", "a.whl", "b.whl"],
            "name the library after the wheels",
            "wheelfix why a.whl b.whl libfoo",
        ),
        (
            ["why", "libz.so.1", "b c.whl"],
            "name the library after the wheels",
            "wheelfix why 'b c.whl' libz.so.1",
        ),
        (
            ["check", "x.whl", "--target", "page:3"],
            "--target: invalid page size `page:3`",
            "page:64k",
        ),
    ],
)
def test_a_usage_error_says_what_was_probably_meant(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str, hint: str
) -> None:
    assert run(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {message}")
    assert hint in err
    assert err.count("error: ") == 1


@pytest.mark.usefixtures("here")
def test_check_counts_findings_by_rule(capsys: pytest.CaptureFixture[str]) -> None:
    bad = make_wheel(Path(), "bad", tag="py3-none-any", files={"bad.py": b""})
    with zipfile.ZipFile(bad, "a") as archive:
        archive.writestr("unlisted.py", b"")
    assert run(["check", "--statistics", str(bad)]) == 1
    assert capsys.readouterr().out.startswith("1  error[WF501] record-mismatch\n")
    assert run(["check", "-q", str(bad)]) == 1
    assert "Found" not in capsys.readouterr().out


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
    command = [*warm_python(program), *arguments]
    subprocess.run(command, stdout=theirs, stderr=theirs, check=True, env=environment)
    os.close(theirs)
    written = b""
    with os.fdopen(ours, "rb") as reader, suppress(OSError):  # EIO is a terminal's end of file
        while chunk := reader.read1(10000):
            written += chunk
    return written.decode()


@pytest.mark.large
def test_the_progress_of_a_large_wheel_is_in_bytes_and_erased(tmp_path: Path) -> None:
    content = bytes(1 << 20) * 250
    wheel = make_wheel(tmp_path, tag="py3-none-any", files={"demo/zeros.bin": content})
    program = "import sys\nfrom wheelfix.cli.app import run\nrun(sys.argv[1:])\n"
    shown = on_a_terminal(program, "check", str(wheel)).split("\r\x1b[K")
    stage = re.compile(r"reading [1-9]\d?% of \d+ kB: demo-1.0-py3-none-any.whl")
    assert any(map(stage.fullmatch, shown)), shown
    assert str(tmp_path) in shown[-1]
    assert "reading" not in on_a_terminal(program, "check", "-q", str(wheel))
    command = [*warm_python(program), "check", str(wheel)]
    assert subprocess.run(command, capture_output=True, check=True).stderr == b""


# --- Dry runs -------------------------------------------------------------------------------------


def test_a_dry_run_prints_the_plan_and_writes_nothing(
    wheels: Wheels, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["repair", "--dry-run", *wheels("a")]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("plan for a-1.0-py3-none-linux_x86_64.whl\n")
    assert "planned" in err
    assert run(["repair", "--dry-run", *wheels("rejected")]) == 1
    assert not Path("wheelhouse").exists()


# --- Refusals -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dist/*.whl"], "no file matches `dist/*.whl`"),
        (["nothing.whl"], "`nothing.whl` cannot be read: No such file"),
        (["empty"], "no wheel was found in `empty`"),
        (["a.whl", "other/a.whl"], "2 of the wheels are called `a.whl`"),
        (["a.whl", "--patcher", "x"], "--patcher"),
        (["a.whl", "--select", "WF9999"], "no rule has the code, prefix or name `WF9999`"),
        (["a.whl", "--ignore", "WF1,"], "`ignore`, item 2 is ``"),
        (["a.whl", "--jobs", "0"], "--jobs"),
        (["a.whl", "-z", "10"], "--zip-compression-level"),
        (["a.whl", "--data-libraries", "x"], "--data-libraries"),
        (["a.whl", "--no-such-option"], "--no-such-option"),
        (["a.whl", "--config", "none.toml"], "cannot read `none.toml`"),
        ([""], "an argument is empty"),
        (["a.whl", "-w", ""], "an argument is empty"),
    ],
)
def test_wrong_usage_is_refused_before_anything_is_done(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    Path("other").mkdir()
    Path("empty").mkdir()
    Path("a.whl").touch()
    Path("other/a.whl").touch()
    assert run(["repair", *arguments]) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert "Traceback" not in err
    assert out == ""
    assert not Path("wheelhouse").exists()


@pytest.mark.parametrize(
    "words",
    ["check", "show", "verify", "explain", "doctor", "trace", "why libx.so", "diff a.whl"],
)
def test_an_empty_word_is_not_the_current_directory(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words.split(), ""]) == 2
    assert capsys.readouterr().err.startswith("error: an argument is empty\n")


def test_the_words_of_a_traced_program_may_be_empty() -> None:
    assert run(["trace", "-o", os.devnull, "true", "", "x"]) == 0


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("command", ["check", "repair", "show", "diff", "verify"])
def test_a_wheel_that_is_called_otherwise_is_suggested(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    Path("dist").mkdir()
    Path("dist/demo-1.0-py3-none-any.whl").touch()
    Path("dist/other-1.0-py3-none-any.whl").touch()
    named = "dist/demo-1.1-py3-none-any.whl"
    assert run([command, named, *([named] if command == "diff" else [])]) == 2
    assert "did you mean `dist/demo-1.0-py3-none-any.whl`?" in capsys.readouterr().err
    assert run([command, "none/x.whl", *(["none/x.whl"] if command == "diff" else [])]) == 2
    assert "did you mean" not in capsys.readouterr().err


def test_auditwheels_patcher_variable_is_obeyed(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUDITWHEEL_PATCHER", "none")
    assert run(["settings"]) == 0
    assert 'patcher = "none"' in capsys.readouterr().out
    monkeypatch.setenv("AUDITWHEEL_PATCHER", "elfpatch")
    (here / "a.whl").touch()
    assert run(["repair", "a.whl"]) == 2
    assert "AUDITWHEEL_PATCHER): 'elfpatch' is not one of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-z", "10"], "10 is not in the range -1<=x<=9"),
        (["-z", "x"], "'x' is not a valid integer"),
    ],
)
def test_a_bad_number_is_refused_in_plain_words(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    (here / "a.whl").touch()
    assert run(["repair", *arguments, "a.whl"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    names = "-z/--zip-compression-level (or WHEELFIX_ZIP_LEVEL, "
    assert f"{names}AUDITWHEEL_ZIP_COMPRESSION_LEVEL): {message}" in said


def test_quiet_may_stand_before_the_command(
    wheels: Wheels, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["-q", "repair", *wheels("a")]) == 0
    assert capsys.readouterr().err == ""


def test_a_pure_wheel_is_refused_unless_allowed(
    wheels: Wheels, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = wheels("unchanged")
    (here / "wheelfix.toml").unlink()
    assert run(["repair", *names]) == 1
    assert "This does not look like a platform wheel" in capsys.readouterr().err
    assert not Path("wheelhouse").exists()
    assert run(["repair", "--allow-pure-python-wheel", *names]) == 0
    out, err = capsys.readouterr()
    assert "This does not look like a platform wheel" in err
    assert Path(out.strip()).read_bytes() == Path(names[0]).read_bytes()


# --- Options --------------------------------------------------------------------------------------


def settings_of(command: str, *arguments: str) -> Settings:
    """Return the settings that a command line and the environment give."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    parser = group.get_command(typer.Context(group), command)
    assert parser is not None
    context = parser.make_context(command, [*arguments, "a.whl"])
    config, typed = context.params["config"], cast("typer.Context", context)
    call = Call(context=typed, config=config, verbose=0, quiet=False, given=context.params)
    return replace(call.read_configuration(), folder=None).settings


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("command", ["repair", "check"])
def test_the_defaults_are_those_of_settings(command: str) -> None:
    assert settings_of(command) == Settings()


FLAGS: dict[str, tuple[str, Any]] = {
    "wheel_dir": ("-w out", Path("out")),
    "plat": ("--plat manylinux_2_28_x86_64", "manylinux_2_28_x86_64"),
    "lib_sdir": ("-L .so", ".so"),
    "exclude": ("--exclude a.so --exclude b.so.*", ("a.so", "b.so.*")),
    "only_plat": ("--only-plat", True),
    "update_tags": ("--no-update-tags", False),
    "strip": ("--strip=debug", StripLevel.DEBUG),
    "debug_symbols": ("--debug-symbols symbols", "symbols"),
    "clear_execstack": ("--clear-execstack libx*.so", ("libx*.so",)),
    "zip_level": ("-z 3", 3),
    "zip_codec": ("--zip-codec zlib", ZipCodec.ZLIB),
    "normalize": ("--normalize", True),
    "isa_ext_check": ("--disable-isa-ext-check", False),
    "allow_pure_python_wheel": ("--allow-pure-python-wheel", True),
    "patcher": ("--patcher none", Patcher.NONE),
    "select": ("--select WF1,WF2 --select WF501", ("WF1", "WF2", "WF501")),
    "extend_select": ("--extend-select WF8", ("WF8",)),
    "ignore": ("--ignore WF116,dead-entry", {"WF116": "", "dead-entry": ""}),
    "per_file_ignores": ("--per-file-ignores a/*:WF1,WF2", {"a/*": ("WF1", "WF2")}),
    "severity": ("--severity WF113=error --severity WF1=note", {"WF113": "error", "WF1": "note"}),
    "unfixable": ("--unfixable *:WF111 --unfixable a/*:ALL", {"*": ("WF111",), "a/*": ("ALL",)}),
    "unsafe_fixes": ("--unsafe-fixes", True),
    "data_libraries": ("--data-libraries move", DataLibraries.MOVE),
    "search_path_tag": ("--search-path-tag runpath", SearchPathTag.RUNPATH),
    "sacrificial_entry": ("--sacrificial-entry remove", SacrificialEntry.REMOVE),
    "keep_entries": ("--keep-entry /opt/*", ("/opt/*",)),
    "graft_drivers": ("--graft-drivers", True),
    "grafts": ("--graft libx* --graft liby*", ("libx*", "liby*")),
    "locked": ("--locked", True),
    "keep_names": ("--keep-name libx.so*", ("libx.so*",)),
    "include": ("--include libx.so.1 --include lib/liby.so", ("libx.so.1", "lib/liby.so")),
    "prune_needed": ("--prune-needed all", PruneNeeded.ALL),
    "keep_needed": ("--keep-needed libx*", ("libx*",)),
    "drop_needed": ("--drop-needed liby*", ("liby*",)),
    "library_path": ("--library-path /opt/lib --library-path /x:/y", ("/opt/lib", "/x", "/y")),
    "ldpaths": ("--ldpaths /x::y", "/x::y"),
    "sysroot": ("--sysroot root", "root"),
    "provider": (
        "--provider torch --provider x.whl",
        (ProviderSetting(source="torch"), ProviderSetting(source="x.whl")),
    ),
    "site": ("--site .venv", ".venv"),
    "neighbors": ("--with core.whl --with numpy>=2", ("core.whl", "numpy>=2")),
    "deps": ("--deps", True),
    "add_requires": ("--add-requires", True),
    "licenses": ("--licenses off", Licenses.OFF),
    "sbom_include": ("--sbom-include demo.cdx.json", ("demo.cdx.json",)),
    "target": ("--target debian:11,page:64k", ("debian:11", "page:64k")),
    "fail_on": ("--fail-on never", FailOn.NEVER),
    "fail_on_unknown": ("--fail-on-unknown", True),
    "show": ("--show notes", Show.NOTES),
    "baseline": ("--baseline known.json", "known.json"),
    "index": ("--index pypi", Index.PYPI),
    "max_size": ("--max-size 50MB", Size(50_000_000)),
    "max_file_size": ("--max-file-size 20MiB", Size(20 << 20)),
    "max_growth": ("--max-growth 0", 0),
    "trust_files": ("--trust-files", True),
    "verify": ("--verify", True),
    "verdict": ("--no-verdict", False),
    "jobs": ("-j 2", 2),
    "timeout": ("--timeout 0", 0),
}


WITHOUT_FLAG = ["required_version", "symbols", "component", "files"]
"""Settings that only a file can have a reason for."""
WITH_FLAG = [field for field in SETTING_FIELDS if field.name not in WITHOUT_FLAG]


def test_every_setting_has_its_flag_below() -> None:
    assert list(FLAGS) == [field.name for field in WITH_FLAG]
    assert [field.name for field in SETTING_FIELDS if not field.setting.commands] == WITHOUT_FLAG


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("field", WITH_FLAG, ids=lambda field: field.name)
def test_a_flag_sets_its_setting_and_no_other(field: SettingField) -> None:
    line, value = FLAGS[field.name]
    assert field.setting.commands
    for command in {"repair", "check"}.intersection(field.setting.commands):
        assert settings_of(command, *line.split()) == replace(Settings(), **{field.name: value})
    flag = next(word for word in line.split() if word.startswith("-"))
    for command in {"repair", "check"}.difference(field.setting.commands):
        assert run([command, *line.split(), "a.whl"]) == 2, f"{command} has {flag}"


@pytest.mark.usefixtures("here")
def test_flag_over_environment_over_auditwheels_over_file(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings_of("repair").plat == "auto"
    Path("wheelfix.toml").write_text(
        "plat = 'file'\nstrip = 'debug'\nnormalize = true\nignore = ['WF1']\n", "utf-8"
    )
    assert settings_of("repair").plat == "file"
    monkeypatch.setenv("AUDITWHEEL_PLAT", "auditwheel")
    assert settings_of("repair").plat == "auditwheel"
    monkeypatch.setenv("WHEELFIX_PLAT", "wheelfix")
    assert settings_of("repair").plat == "wheelfix"
    assert settings_of("repair", "--plat", "flag").plat == "flag"
    assert settings_of("repair").strip is StripLevel.DEBUG
    assert settings_of("repair", "--strip=off").strip is StripLevel.OFF
    assert settings_of("repair").normalize
    undone = settings_of("repair", "--no-normalize").normalize
    assert not undone, "a flag can undo what the file says"
    assert settings_of("repair", "--ignore", "WF5").ignore == {"WF1": "", "WF5": ""}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("--strip", StripLevel.ALL),  # as auditwheel's: the next word is a wheel
        ("--strip --verify", StripLevel.ALL),
        ("--strip=debug", StripLevel.DEBUG),
        ("--strip=debug --strip", StripLevel.ALL),
        ("--strip debug", StripLevel.DEBUG),
        ("-- --strip", StripLevel.OFF),
    ],
)
def test_strip_may_stand_alone(line: str, level: StripLevel) -> None:
    assert settings_of("repair", *line.split()).strip is level


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("given", "field", "expected"),
    [
        ("AUDITWHEEL_ZIP_COMPRESSION_LEVEL=7", "zip_level", 7),
        ("WHEELFIX_ZIP_LEVEL=8", "zip_level", 8),
        ("WHEELFIX_EXCLUDE=a.so b.so", "exclude", ("a.so", "b.so")),
        ("WHEELFIX_SELECT=WF1,WF5", "select", ("WF1", "WF5")),
        ("WHEELFIX_STRIP=all", "strip", StripLevel.ALL),
        ("WHEELFIX_UPDATE_TAGS=0", "update_tags", False),
        ("WHEELFIX_SEARCH_PATH_TAG=rpath", "search_path_tag", SearchPathTag.RPATH),
        ("WHEELFIX_WHEEL_DIR=out", "wheel_dir", Path("out")),
        ("AUDITWHEEL_PLAT=", "plat", "auto"),
    ],
)
def test_environment_variables(
    monkeypatch: pytest.MonkeyPatch, given: str, field: str, expected: object
) -> None:
    monkeypatch.setenv(*given.split("=", 1))
    assert getattr(settings_of("repair"), field) == expected


@pytest.fixture
def warned(here: Path) -> str:
    """The name of a wheel with a warning, so that `--fail-on warning` fails it."""
    (here / "wheelfix.toml").write_text('severity = { WF501 = "warning" }\n', "utf-8")
    wheel = make_wheel(Path(), "warned", tag="py3-none-any", files={"warned.py": b""})
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("unlisted.py", b"")
    return str(wheel)


@pytest.mark.parametrize(
    ("variables", "flags", "code"),
    [
        ("", "", 0),
        ("", "--fail-on warning", 1),
        ("WHEELFIX_FAIL_ON=error", "--fail-on warning", 1),
        ("WHEELFIX_FAIL_ON=warning", "--fail-on never", 0),
    ],
)
def test_flags_decide_before_variables_what_fails(
    warned: str, monkeypatch: pytest.MonkeyPatch, variables: str, flags: str, code: int
) -> None:
    for given in variables.split():
        monkeypatch.setenv(*given.split("=", 1))
    assert run(["check", *flags.split(), warned]) == code


@pytest.mark.parametrize(
    "flags",
    [
        "--statistics --output-format json",
        "--report json=report.json --output-format jsonl",
        "--baseline known.json --write-baseline --output-format jsonl",
    ],
)
def test_a_flag_that_excludes_the_format_of_a_flag_is_refused(warned: str, flags: str) -> None:
    assert run(["check", *flags.split(), warned]) == 2


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("WHEELFIX_FAILON", "warning: {} is not read: did you mean WHEELFIX_FAIL_ON?"),
        ("WHEELFIX_FAIL_ON", ""),
        ("WHEELFIX_CONFIG", ""),
        ("WHEELFIX_NOPE", "note: {} is not read: no setting has that name"),
    ],
)
def test_a_misspelt_variable_is_told(
    name: str,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("error").touch()
    monkeypatch.setenv(name, "error")
    run(["check", str(make_wheel(tmp_path, files={"pkg/__init__.py": ""}))])
    err = capsys.readouterr().err
    assert told.format(f"`{name}`") in err
    assert ("is not read" in err) == bool(told)


@pytest.mark.parametrize("command", ["explain"])
def test_a_provider_of_the_environment_is_not_for_an_installed_environment(
    here: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    (here / "site-packages").mkdir()
    shared_object(here / "site-packages" / "libx.so", "int x;")
    monkeypatch.setenv("WHEELFIX_PROVIDER", "other.whl")
    assert run([command, "--site", "site-packages"]) == 0
    assert run([command, "--site", "site-packages", "--provider", "other.whl"]) == 2


@pytest.mark.usefixtures("here")
def test_every_option_of_auditwheel_repair_is_accepted() -> None:
    """Take the options from auditwheel's own help, so that new ones make this test fail."""
    environment = {**os.environ, "COLUMNS": "200"}
    command = [warm_program("auditwheel"), "repair", "--help"]
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
            settings_of("repair", flag, *value)  # typer exits at an unknown option


def test_help_has_the_help_of_the_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["repair", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Do not graft libraries whose SONAME or path matches this glob, and do not" in shown
    assert "AUDITWHEEL_PLAT" in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_listed_with_the_first_line_of_its_help(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([name, "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert COMMANDS[name].summary in shown


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_and_version_import_no_rules(arguments: list[str]) -> None:
    """Keep them fast: the imports of rules and pipelines take a quarter of a second."""
    program = (
        f"import sys\nfrom wheelfix.cli.app import run\nassert run({arguments!r}) == 0\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    packages = {".".join(name.split(".")[:2]) for name in done.stderr.split()}
    assert packages.isdisjoint({"wheelfix.rules", "wheelfix.pipelines", "wheelfix.host"})
    assert "wheelfix.cli" in packages


# --- rule -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["WF101", "wf101", "unreachable-library"])
def test_rule_prints_the_docstring(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rule", name]) == 0
    out = capsys.readouterr().out
    assert out.startswith("# unreachable-library (WF101, error)\n\nBundled library is not found")
    assert "\n## What it does\n" in out


@pytest.mark.parametrize("arguments", [["rule"], ["rule", "--all"]])
def test_rule_lists_all_rules(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    every: list[AnyRule] = [*RULES, *SET_RULES, *ENVIRONMENT_RULES]
    assert sorted(line.split()[0] for line in lines) == sorted(rule.code for rule in every)
    for line, rule in zip(lines, sorted(every, key=lambda rule: rule.code), strict=True):
        assert rule.name in line
        assert line.endswith(rule.summary)


def test_the_fix_safety_section_of_each_rule_starts_with_safe_or_unsafe() -> None:
    """The list of rules takes the word from there."""
    for rule in RULES:
        words = rule.explanation.partition("## Fix safety")[2].split()
        assert words[0].strip(":.,") in {"Safe", "Unsafe", "Not", "Never"}, rule.code


def test_unknown_rules_get_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rule", "unreachable-libs"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "no rule has the code or name `unreachable-libs`" in err
    assert "hint: did you mean `unreachable-library`?" in err


@pytest.mark.large
def test_rule_reports_missing_docstrings() -> None:
    command = [sys.executable, "-OO", "-m", "wheelfix", "rule", "WF101"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "-OO" in shown


# --- check ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("here")
def test_check_passes_a_sound_wheel(capsys: pytest.CaptureFixture[str]) -> None:
    wheel = make_wheel(Path(), tag="py3-none-any", files={"ok.py": b"x = 1\n"})
    assert run(["check", str(wheel)]) == 0
    assert capsys.readouterr().out == "demo-1.0-py3-none-any.whl: ok, no ELF objects\n"


@pytest.mark.usefixtures("here")
def test_check_reports_an_unreadable_wheel_and_checks_the_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bad = make_wheel(Path(), "bad", tag="py3-none-any", files={"bad.py": b""})
    with zipfile.ZipFile(bad, "a") as archive:
        archive.writestr("unlisted.py", b"")
    Path("cut-1.0-py3-none-any.whl").write_bytes(b"PK")
    assert run(["check", str(bad)]) == 1
    out, err = capsys.readouterr()
    assert "error[WF501] record-mismatch: " in out
    assert "\n  --> unlisted.py\n" in out
    assert "Found " in out
    assert err == ""
    assert run(["check", "--ignore", "WF501", str(bad)]) == 0
    capsys.readouterr()
    assert run(["check", "cut-1.0-py3-none-any.whl", "none.whl", str(bad)]) == 2
    out, err = capsys.readouterr()
    assert "record-mismatch" in out
    assert "`none.whl` cannot be read: No such file" in err
    assert "cut-1.0-py3-none-any.whl" in err


# --- The rest -------------------------------------------------------------------------------------


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    from wheelfix import __version__

    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"wheelfix {__version__}\n"


REPORTING = ("repair", "check", "diff", "verify", "show", "why", "explain", "doctor")


@pytest.mark.parametrize("command", REPORTING)
@pytest.mark.parametrize("arguments", [["gone.whl", "x"], ["gone.whl"], ["--nope"]])
def test_json_is_written_where_a_run_ends_with_an_error(
    command: str, arguments: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del here
    assert run([command, "--output-format", "json", *arguments]) == 2
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert report["version"] == 1
    if said := report.get("error"):
        assert err.startswith(f"error: {said['message']}\n")
    assert run([command, *arguments]) == 2
    assert "version" not in capsys.readouterr().out
    assert run(["trace", "gone", "--output-format", "json"]) != 0
    assert not capsys.readouterr().out, "it belongs to the program"


def test_interrupt_exits_with_130(wheels: Wheels, monkeypatch: pytest.MonkeyPatch) -> None:
    crash_on(monkeypatch, "", KeyboardInterrupt())
    assert run(["repair", *wheels("a")]) == 130
    assert run(["repair", "-j2", *wheels("a", "b")]) == 130


def test_a_closed_pipe_is_not_an_error() -> None:
    command = f"{sys.executable} -m wheelfix --help | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode in {0, 141}


def test_the_module_runs_as_a_program() -> None:
    command = [sys.executable, "-m", "wheelfix", "repair", "--no-such-option"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("place", "error", "said"),
    [
        ("os.pipe", OSError(EMFILE, "Too many open files"), "raise the limit of open files"),
        ("threading.Thread.start", RuntimeError("can't start new thread"), "or of threads"),
    ],
)
def test_a_limit_at_the_start_is_an_error_and_no_traceback(
    place: str, error: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(place, fail)
    done = forked(lambda _: main(), [])  # in a fork, whose signal handlers it sets
    assert (done.returncode, said in done.stderr) == (2, True)
    assert "Traceback" not in done.stderr


def test_without_a_thread_for_progress_the_work_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", fail)
    with SlowProgress() as progress:
        progress.show("reading")
