"""Some hundreds of cases of the fuzzer: damaged input raises only our own errors.

Each target runs in its own process, whose memory is limited; the cases kept in fixtures/fuzz are
tried unchanged, and damaged further.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.oracles.fuzzing import judge, targets
from tests.oracles.fuzzing.campaign import CAMPAIGNS, Call, Ran, complaints
from tests.oracles.fuzzing.fuzz import minimised, run
from tests.oracles.fuzzing.judge import CORPUS, CaseError, tried
from tests.oracles.fuzzing.targets import TARGETS, Target
from tests.support.documents import ROOT
from tests.support.fork_server import warm_program

NEVER_REFUSED = {"source", "record", "wheel"}
"""Errors in these inputs are findings."""
CASES = {"wheel": 5, "source": 125, "commands": 3, "dist-info": 2}


@pytest.mark.each_run("elf", "edit", "commands")
@pytest.mark.parametrize("target", TARGETS)
def test_damaged_input_raises_only_our_own_errors(target: str) -> None:
    number = str(CASES.get(target, 250))
    command = [warm_program("tests.oracles.fuzzing.fuzz"), target, "--first", "10000000"]
    command += ["-n", number]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("target", TARGETS)
def test_kept_cases_are_still_refused(target: str) -> None:
    """Each is named after the error it raised, or after a limit that it once exceeded."""
    for path in sorted((CORPUS / target).glob("*")):
        said = tried(target, path.read_bytes())
        refused = target not in NEVER_REFUSED and not path.name.startswith("took-")
        assert bool(said) == refused, path


def a_crash(text: str) -> str:
    return text[10_000]


def a_loop(text: str) -> str:
    while text:
        pass
    return text


@pytest.mark.parametrize(
    ("reader", "error"), [(a_crash, "IndexError"), (a_loop, "more than 0.1 seconds")]
)
def test_a_crash_and_a_loop_are_detected(
    reader: object, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "read_metadata", reader)
    monkeypatch.setattr(judge, "SECONDS", 0.1)
    with pytest.raises(CaseError, match=error):
        run("metadata", first=0, cases=1)


def test_a_case_is_minimised(monkeypatch: pytest.MonkeyPatch) -> None:
    def picky(data: bytes) -> None:
        if b"x" in data:
            raise AssertionError

    monkeypatch.setitem(TARGETS, "metadata", Target(lambda _dice: b"", picky))
    assert minimised("metadata", b"some text with an x, and more") == b"x"


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_hostile_input_goes_through_every_command_without_a_trace(name: str) -> None:
    command = [warm_program("tests.oracles.fuzzing.campaign"), name, "--first", "10000000"]
    command += ["-n", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"... 3 {name}, " in done.stdout


@pytest.mark.parametrize(
    ("ran", "said"),
    [
        (Ran(0), None),
        (Ran(2, err=b"error: the wheel is broken"), None),
        (Ran(2), "code 2 without a message"),
        (Ran(3), "code 3"),
        (Ran(2, err=b"error: internal error: KeyError"), "internal error: KeyError"),
        (Ran(0, out=b"Traceback (most recent call last)"), "Traceback"),
        (Ran(0, out=b"a\x1b[2Jb"), "x1b"),
        (Ran(0, out="a\u2028b".encode()), "u2028"),
        (Ran(1, out=b"fine\n::error::x"), "::error::x"),
        (Ran(0, seconds=5.1), "5.1 s"),
        (Ran(0, memory=600 << 20), "600 MiB"),
        (Ran(0, traces=("open /etc/x",)), "open /etc/x"),
        (Ran(0, traces=("left executed",)), "left executed"),
    ],
)
def test_a_campaign_complains(ran: Ran, said: str | None) -> None:
    found = list(complaints(Call(["check"]), ran))
    assert len(found) == (said is not None)
    assert said is None or said in found[0]


def test_a_campaign_sees_what_a_call_does_outside_its_folder(tmp_path: Path) -> None:
    """In a process of its own: an audit hook stays."""
    code = f"""
from pathlib import Path
from tests.oracles.fuzzing.campaign import Call, Runner
from wheelfix.cli import app
import os, subprocess
def run(arguments):
    Path("{tmp_path}/outside").write_text("")
    Path("{tmp_path}/top/tmp/left").write_text("")
    Path(os.environ["EXECUTED"]).write_text("")
    subprocess.Popen(["sleep", "99"])
    return 0
app.run = run
top = Path("{tmp_path}/top")
for place in ("in", "tmp", "home"): (top / place).mkdir(parents=True)
print(*Runner(top).run(Call([]), top / "in").traces, file=open("{tmp_path}/said", "w"))
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
    said = (tmp_path / "said").read_text(encoding="utf-8")
    for part in (f"open {tmp_path}/outside", "left tmp/left", "left executed", "Popen sleep"):
        assert part in said
    assert "left process" in said
