"""Every command that reads wheels ends when one takes longer than --timeout."""

import os
import subprocess
from pathlib import Path

from tests.support.build import make_wheel
from tests.support.forged import forged
from tests.support.fork_server import warm_program, warm_python
from tests.support.waiting import HANGS

PROGRAM = """
import sys, time
from wheelfix.__main__ import main
from wheelfix.system.tempfiles import scratch
from wheelfix.wheel.reader import Archive

def wait(*_):
    with scratch():
        while True:
            time.sleep(0.01)

Archive.__init__ = wait
sys.argv[0] = "wheelfix"
main()
"""

COMMANDS = {
    "repair": ["repair", "--timeout", "1"],
    "repair of two": ["repair", "-j2", "--timeout", "1"],
    "diff": ["diff", "--timeout", "1"],
    "show": ["show", "--timeout", "1"],
    "why": ["why", "--timeout", "1"],
    "explain": ["explain", "--timeout", "1"],
    "tree": ["tree", "--timeout", "1"],
    "verify": ["verify", "--config", "wheelfix.toml"],
}


def test_a_wheel_that_takes_too_long_ends_the_command(tmp_path: Path) -> None:
    first, second = (
        make_wheel(tmp_path / name, name, files={"a.so": forged(needed=["libc.so.6"])})
        for name in ("one", "two")
    )
    (tmp_path / "wheelfix.toml").write_text("timeout = 1\n")
    more: dict[str, list[Path | str]] = {
        "diff": [first],
        "why": ["libc.so.6"],
        "repair of two": [second],
    }
    runs: dict[str, subprocess.Popen[str]] = {}
    for name, words in COMMANDS.items():  # all at once: they wait
        (tmp_path / name).mkdir()
        runs[name] = subprocess.Popen(
            [*warm_python(PROGRAM), *words, first, *more.get(name, [])],
            cwd=tmp_path,
            env={**os.environ, "TMPDIR": str(tmp_path / name)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    for name, process in runs.items():
        out, said = process.communicate(timeout=HANGS)
        assert (process.returncode, out) == (2, ""), (name, said)
        assert "-1.0-cp311-cp311-linux_x86_64.whl`: it took longer than 1 s\n" in said
        assert "hint: --timeout gives each wheel more\n" in said
        assert list((tmp_path / name).iterdir()) == []


def test_a_limit_of_zero_is_none(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, files={"a.so": forged(needed=["libc.so.6"])})
    command = [warm_program(), "show", "--timeout", "0", str(wheel)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
