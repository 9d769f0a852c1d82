"""Some hundreds of cases of the fuzzer: damaged input raises only our own errors.

Each target runs in its own process, whose memory is limited; the cases kept in fixtures/fuzz are
tried unchanged, and damaged further.
"""

import subprocess

import pytest

from tests.oracles.fuzzing import judge, targets
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
