"""Every command that reads wheels ends when one takes longer than --timeout."""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.build import make_wheel, shared_object
from tests.support.forged import forged
from tests.support.fork_server import warm_program, warm_python
from tests.support.waiting import HANGS, wait_until
from wheelfix.system.subprocesses import children_of

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


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        ("while True: time.sleep(0.01)", "it took longer than 1 s"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "the process that checked it ended abruptly"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "the process that checked it ended abruptly"),
    ],
)
@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_a_check_that_ends_its_process_is_reported(
    form: str, ends: str, message: str, tmp_path: Path
) -> None:
    """The only wheel is checked in the process of the command."""
    wheel = make_wheel(tmp_path, "one", files={"a.so": forged(needed=["libc.so.6"])})
    program = PROGRAM.replace("import sys", "import os, signal, sys").replace(
        "while True:\n            time.sleep(0.01)", ends
    )
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        [*warm_python(program), "check", "--timeout", "1", "--output-format", form, wheel],
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
    )
    *_, last = done.stdout.splitlines() if form == "jsonl" else [done.stdout]
    told = json.loads(last)
    told = told["wheels"][0] if form == "json" else told
    assert (done.returncode, told["error"]["message"]) == (2, f"`{wheel.name}`: {message}")
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("command", ["explain", "repair"])
def test_a_command_whose_process_is_killed_ends_with_an_error(command: str, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, files={"a.so": forged(needed=["libc.so.6"])})
    program = PROGRAM.replace("import sys", "import os, signal, sys").replace(
        "while True:\n            time.sleep(0.01)", "os.kill(os.getpid(), signal.SIGKILL)"
    )
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        [*warm_python(program), command, wheel],
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
    )
    assert (done.returncode, done.stdout) == (2, "")
    first, hint = done.stderr.splitlines()
    assert first == "error: the process of this command was killed"
    assert hint.startswith("hint: it may have taken too much memory")
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_limit_of_zero_is_none(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, files={"a.so": forged(needed=["libc.so.6"])})
    command = [warm_program(), "show", "--timeout", "0", str(wheel)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


STUCK = """
import re, sys
from wheelfix.__main__ import main
from wheelfix.wheel.reader import Archive

def search(*_):
    from wheelfix.system.tempfiles import scratch
    with scratch():
        print("stuck", flush=True)
        re.search("(a|a)*b" * 9, "a" * 4000)  # keeps the interpreter's lock, and looks at no signal

Archive.__init__ = search
sys.argv[0] = "wheelfix"
main()
"""


def stuck(folder: Path, *words: str) -> subprocess.Popen[str]:
    wheel = make_wheel(folder, files={"a.so": forged(needed=["libc.so.6"])})
    (folder / "tmp").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK, *words, str(wheel)],
        env={**os.environ, "TMPDIR": str(folder / "tmp")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "stuck\n"
    return process


@pytest.mark.parametrize("command", ["check", "show"])
def test_a_command_ends_although_its_interpreter_is_stuck(command: str, tmp_path: Path) -> None:
    process = stuck(tmp_path, command, "--timeout", "1")
    _, said = process.communicate(timeout=HANGS)
    assert process.returncode == 2
    assert "-1.0-cp311-cp311-linux_x86_64.whl`: it took longer than 1" in said
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_reaches_the_process_that_works(number: signal.Signals, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, files={"a.so": forged(needed=["libc.so.6"])})
    code = PROGRAM.replace("while True:", "print(os.getpid(), flush=True)\n        while True:")
    process = subprocess.Popen(
        [sys.executable, "-c", f"import os\n{code}", "show", str(wheel)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    worker = int(process.stdout.readline())
    assert worker != process.pid
    process.send_signal(number)
    process.communicate(timeout=HANGS)
    assert process.returncode == 128 + number
    assert not Path(f"/proc/{worker}").exists()
    assert not list(tmp_path.glob("wheelfix-run-*"))


def test_the_process_that_works_ends_with_a_killed_parent(tmp_path: Path) -> None:
    process = stuck(tmp_path, "show")
    (worker,) = children_of(process.pid)
    process.kill()
    process.communicate(timeout=HANGS)
    wait_until(lambda: not Path(f"/proc/{worker}/exe").exists())


def test_where_the_end_of_children_is_ignored_a_command_ends_as_elsewhere(tmp_path: Path) -> None:
    """Of a child whose parent ignores SIGCHLD, no exit code is left (wait(2))."""
    wheel = make_wheel(tmp_path, files={"a.so": forged(needed=["libc.so.6"])})
    command = [sys.executable, "-m", "wheelfix", "why", str(wheel)]
    for library, code in (("libc.so.6", 0), ("libnone.so", 2)):
        done = subprocess.run(
            [*command, library],
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
        )
        assert done.returncode == code, done.stderr


@pytest.mark.parametrize("command", ["check", "show"])
def test_a_limit_of_open_files_is_an_error_of_its_own(command: str, tmp_path: Path) -> None:
    """With a few less, Python itself does not start."""
    wheel = make_wheel(tmp_path, files={"a.so": forged(needed=["libc.so.6"])})

    def at_most(files: int) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "wheelfix", command, str(wheel)],
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)),
        )
        return done.returncode, done.stderr

    for files in (8, 10, 12):
        code, said = at_most(files)
        assert (code == 2) == ("Too many open files" in said), (files, code, said)
        assert code == 2 or not said, (files, code, said)


BEFORE_SELECT = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <sys/select.h>

int select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *t) {
    static int calls;
    int (*real)(int, fd_set *, fd_set *, fd_set *, struct timeval *) = dlsym(RTLD_NEXT, "select");
    if (calls++ == WHICH) raise(SIGTERM);
    return real(n, r, w, e, t);
}
"""


@pytest.mark.parametrize("call", [0, 1])
def test_a_signal_that_comes_right_before_the_wait_is_not_lost(call: int, tmp_path: Path) -> None:
    """To a child that has just begun, and to one that works."""
    shim = shared_object(tmp_path / "shim.so", BEFORE_SELECT, flags=[f"-DWHICH={call}"])
    wheel = make_wheel(tmp_path, files={"a.so": forged(needed=["libc.so.6"])})
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "show", str(wheel)],
        env={**os.environ, "TMPDIR": str(tmp_path), "LD_PRELOAD": str(shim)},
        timeout=HANGS,
        check=False,
    )
    assert done.returncode == 128 + signal.SIGTERM


TWO_ENDS = """
import threading, time
from wheelfix.cli import signals

calls = []
def stop_children():
    calls.append(0)
    time.sleep(1 if len(calls) == 1 else 0)

signals.stop_children = stop_children
threading.Thread(target=signals.end_now, args=(2,), daemon=True).start()
while not calls:
    time.sleep(0.01)
signals.end_now(0)
"""


def test_a_limit_that_has_passed_decides_the_exit_code() -> None:
    """The thread that works sees its program killed, and would end with what it knows."""
    done = subprocess.run([sys.executable, "-c", TWO_ENDS], timeout=HANGS, check=False)
    assert done.returncode == 2
