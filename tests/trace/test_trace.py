"""`wheelfix trace`: loaded files of real processes, and an undisturbed command."""

import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.build import executable, make_wheel, shared_object
from tests.support.fork_server import warm_program
from tests.support.tools import needs
from tests.support.waiting import HANGS, wait_until, with_more_time
from wheelfix.loader.load_values import How
from wheelfix.loader.machine_names import MACHINES
from wheelfix.trace.reading import keep_bindings
from wheelfix.trace.run import trace
from wheelfix.trace.values import Loaded, Process, Trace, copies

PYTHON = sys.executable
OPEN = "import ctypes, sys; [ctypes.CDLL(path) for path in sys.argv[1:]]"
SLEEPS = """
#include <stdlib.h>
#include <unistd.h>
int main(int count, char **words) { sleep(atoi(words[count - 1])); return 3; }
"""
"""Sleeps for as many seconds as it is told."""
LIVES = (1, 4, 16)
"""Seconds for which a process lives until its memory maps were seen."""


ON_A_TERMINAL = """
import os, pty, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
os.write(terminal, b"\\x03")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
"""Runs a command on a terminal of its own, and types Ctrl-C once the file exists."""


def environment(**more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, **more}


def watched(*command: str | Path, symbols: Sequence[str] = (), **environ: str) -> Trace:
    return trace([str(word) for word in command], environment(**environ), symbols=symbols)


def run(*arguments: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run `wheelfix trace` itself."""
    command = [warm_program(), "trace", *map(str, arguments)]
    return subprocess.run(
        command,
        env=environment(**environ),
        capture_output=True,
        text=True,
        check=False,
    )


def all_loaded(seen: Trace) -> list[Loaded]:
    return [library for process in seen.processes for library in process.loaded]


def find(seen: Trace, name: str) -> Loaded:
    (found,) = (library for library in all_loaded(seen) if library.path.rpartition("/")[2] == name)
    return found


def real(path: Path) -> str:
    return os.path.realpath(path)


# --- What is seen ---------------------------------------------------------------------------------


def test_a_loaded_library_is_reported_with_file_rule_and_requester(tmp_path: Path) -> None:
    inner = shared_object(tmp_path / "deep" / "libinner.so", soname="libinner.so")
    outer = shared_object(
        tmp_path / "libouter.so", "int g;", needed=[inner], runpath="$ORIGIN/deep"
    )

    def attempt(seconds: int) -> None:
        seen = watched(PYTHON, "-c", OPEN + f"; import time; time.sleep({seconds})", outer)
        found, opened = find(seen, "libinner.so"), find(seen, "libouter.so")
        assert found.file is not None
        assert (found.file.path, found.file.inode) == (real(inner), inner.stat().st_ino)
        assert found.file.mapped
        assert (found.how, found.owner, found.requester) == (How.RUNPATH, str(outer), str(outer))
        assert not found.dlopen
        assert opened.dlopen
        assert opened.how is How.PATH
        assert "_ctypes" in opened.requester

    with_more_time(attempt, LIVES)


def test_the_owner_of_a_search_path_is_right_where_glibc_logs_another(tmp_path: Path) -> None:
    one = shared_object(tmp_path / "lib" / "libone.so", soname="libone.so")
    deep = shared_object(tmp_path / "lib" / "libdeep.so", soname="libdeep.so")
    two = shared_object(tmp_path / "lib" / "libtwo.so", "int g;", soname="libtwo.so", needed=[deep])
    first = shared_object(tmp_path / "first.so", "int g;", needed=[one], rpath="$ORIGIN/lib")
    second = shared_object(tmp_path / "second.so", "int g;", needed=[two], rpath="$ORIGIN/lib")
    seen = watched(PYTHON, "-c", OPEN, first, second)
    found = find(seen, "libtwo.so")
    assert (found.how, found.owner) == (How.RPATH, str(second))  # LD_DEBUG says: first.so
    below = find(seen, "libdeep.so")
    assert (below.how, below.owner) == (How.INHERITED, str(second))


def test_lib_in_a_search_path_is_the_directory_that_the_loader_uses(tmp_path: Path) -> None:
    inner = shared_object(tmp_path / "lib64" / "libinner.so", soname="libinner.so")
    for folder in ("lib", *(f"lib/{names.triplet}" for names in MACHINES.values())):
        (tmp_path / folder).mkdir()
        shutil.copy(inner, tmp_path / folder)
    outer = shared_object(tmp_path / "outer.so", "int g;", needed=[inner], rpath="$ORIGIN/$LIB")
    found = find(watched(PYTHON, "-c", OPEN, outer), "libinner.so")
    assert (found.how, found.owner) == (How.RPATH, str(outer))


def test_a_link_is_distinguished_from_its_target(tmp_path: Path) -> None:
    library = shared_object(tmp_path / "real" / "libreal.so.1.2", soname="libreal.so.1")
    link = tmp_path / "libalias.so"
    link.symlink_to(library)
    found = find(watched(PYTHON, "-c", OPEN, link), "libalias.so")
    assert found.file is not None
    assert found.file.path == real(library)
    assert found.soname == "libreal.so.1"


def test_the_children_are_followed_through_fork_and_exec(tmp_path: Path) -> None:
    early = shared_object(tmp_path / "libearly.so")
    late = shared_object(tmp_path / "liblate.so")
    code = f"""
import ctypes, os
ctypes.CDLL({str(early)!r})
if os.fork() == 0:
    ctypes.CDLL({str(late)!r})
    os._exit(0)
os.wait()
if os.fork() == 0:
    os.execv({PYTHON!r}, [{PYTHON!r}, "-c", "import ctypes; ctypes.CDLL({str(early)!r})"])
os.wait()
os.execv({PYTHON!r}, [{PYTHON!r}, "-c", "import ctypes; ctypes.CDLL({str(late)!r})"])
"""
    seen = watched(PYTHON, "-c", code)
    names = {"libearly.so", "liblate.so"}

    def own(process: Process) -> set[str]:
        return {library.name.rpartition("/")[2] for library in process.loaded} & names

    ours = [process for process in seen.processes if own(process)]
    by_kind = sorted((p.forked_from is not None, sorted(own(p))) for p in ours)
    assert by_kind == [
        (False, ["libearly.so"]),
        (False, ["libearly.so"]),
        (False, ["liblate.so"]),
        (True, ["liblate.so"]),
    ]
    first, after_exec = (p for p in ours if p.pid == ours[0].pid)
    assert own(first) == {"libearly.so"}
    assert own(after_exec) == {"liblate.so"}


def test_a_missing_library_is_reported_with_all_candidates(tmp_path: Path) -> None:
    user = shared_object(
        tmp_path / "libuser.so",
        needed=[shared_object(tmp_path / "gone" / "libgone.so", soname="libgone.so")],
        runpath="$ORIGIN/nearby",
    )
    shutil.rmtree(tmp_path / "gone")
    (tmp_path / "nearby").mkdir()
    seen = watched(PYTHON, "-c", OPEN, user)
    (missed,) = (request for process in seen.processes for request in process.missed)
    assert seen.exit_code == 1
    assert (missed.name, missed.requester) == ("libgone.so", str(user))
    assert str(tmp_path / "nearby" / "libgone.so") in missed.tried


def test_two_copies_of_one_soname_are_reported(tmp_path: Path) -> None:
    one = shared_object(tmp_path / "one" / "libtwin.so", soname="libtwin.so.1")
    other = shared_object(tmp_path / "other" / "libtwin.so", soname="libtwin.so.1")
    alias = tmp_path / "libtwin-alias.so"
    alias.symlink_to(one)
    seen = watched(PYTHON, "-c", OPEN, one, other, alias)
    (found,) = (copies(process.loaded) for process in seen.processes)
    paths = [copy.file.path for copy in found["libtwin.so.1"] if copy.file]
    assert paths == [real(one), real(other)]
    assert not copies(watched(PYTHON, "-c", OPEN, one, alias).processes[0].loaded)


def test_a_file_for_another_machine_is_reported_as_skipped(tmp_path: Path) -> None:
    library = shared_object(tmp_path / "right" / "libany.so", soname="libany.so")
    foreign = bytearray(library.read_bytes())
    foreign[18] = 183  # e_machine: aarch64
    planted = tmp_path / "wrong" / "libany.so"
    planted.parent.mkdir()
    planted.write_bytes(foreign)
    user = shared_object(
        tmp_path / "libuser.so", "int g;", needed=[library], runpath="$ORIGIN/wrong:$ORIGIN/right"
    )
    found = find(watched(PYTHON, "-c", OPEN, user), "libany.so")
    (skipped,) = found.passed
    assert (skipped.path, skipped.reason) == (str(planted), "wrong machine")


def test_bindings_are_selected_by_plain_and_demangled_name(tmp_path: Path) -> None:
    names = "int tvmPlain(void) { return 1; } int _ZN3tvm3runEv(void) { return 2; }"
    library = shared_object(tmp_path / "libtvm.so", names + "int other(void) { return 3; }")
    user = shared_object(
        tmp_path / "libuser.so",
        "int tvmPlain(void); int _ZN3tvm3runEv(void); int other(void);"
        "int f(void) { return tvmPlain() + _ZN3tvm3runEv() + other(); }",
        needed=[library],
        runpath="$ORIGIN",
    )
    seen = watched(PYTHON, "-c", OPEN, user, symbols=["tvm*"], LD_BIND_NOW="1")
    bound = {
        (b.symbol, b.user, b.provider)
        for process in keep_bindings(seen, ["tvm*"]).processes
        for b, _ in process.bindings
    }
    assert bound == {(name, str(user), str(library)) for name in ("tvmPlain", "tvm::run")}


def test_a_static_program_is_reported_without_a_log(tmp_path: Path) -> None:
    program = executable(tmp_path / "static", SLEEPS, flags=["-static", "-no-pie", "-fno-pie"])

    def attempt(seconds: int) -> None:
        seen = watched(program, str(seconds))
        (process,) = seen.processes
        assert process.silent is not None
        assert "static" in process.silent
        assert seen.exit_code == 3

    with_more_time(attempt, LIVES)


def test_a_program_that_executes_a_static_one_keeps_its_own_log(tmp_path: Path) -> None:
    library = shared_object(tmp_path / "libbefore.so")
    program = executable(tmp_path / "static", SLEEPS, flags=["-static", "-no-pie", "-fno-pie"])

    def attempt(seconds: int) -> None:
        code = f"{OPEN}; import os; os.execv({str(program)!r}, ['static', '{seconds}'])"
        seen = watched(PYTHON, "-c", code, library)
        assert seen.exit_code == 3
        before, after = seen.processes
        assert before.pid == after.pid
        assert find(seen, "libbefore.so").file is not None
        assert after.executable == str(program)
        assert after.silent == "it is static: no loader runs in it"

    with_more_time(attempt, LIVES)


def test_a_program_started_without_ld_debug_is_reported() -> None:
    def attempt(seconds: int) -> None:
        command = f"{PYTHON} -c 'import time; time.sleep({seconds})'"
        silent = [process.silent for process in watched("env", "-i", "sh", "-c", command).processes]
        assert any("without LD_DEBUG" in reason for reason in silent if reason is not None)

    with_more_time(attempt, LIVES)


@needs("musl-gcc")
def test_a_musl_program_is_known_by_its_maps_alone(tmp_path: Path) -> None:
    program = tmp_path / "musl"
    subprocess.run(["musl-gcc", "-xc", "-", "-o", program], input=SLEEPS.encode(), check=True)

    def attempt(seconds: int) -> None:
        (process,) = watched(program, str(seconds)).processes
        assert process.silent is not None
        assert "musl" in process.silent
        assert any("musl" in file.path for file in process.mapped)

    with_more_time(attempt, LIVES)


# --- The command is left alone --------------------------------------------------------------------


def test_streams_and_exit_code_are_those_of_the_command(tmp_path: Path) -> None:
    code = "import sys; print(sys.stdin.read()); print('err', file=sys.stderr); sys.exit(7)"
    report = tmp_path / "report"
    command = [PYTHON, "-m", "wheelfix", "trace", "--output", str(report)]
    command += ["--", PYTHON, "-c", code]
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        command,
        input="in",
        env=environment(PYTHONPATH=path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("in\n", "err\n", 7)
    assert "exit code 7" in report.read_text()


def test_open_descriptors_folder_and_signal_settings_are_those_of_the_caller(
    tmp_path: Path,
) -> None:
    code = (
        "import os, signal; print(os.getcwd(), os.path.exists('/proc/self/fd/9'),"
        "open('/proc/self/status').read().split('SigBlk:')[1].split()[0],"
        "sorted(set(os.environ) - {'LC_CTYPE'}))"
    )
    shell = f'exec 9</dev/null; exec {PYTHON} -m wheelfix trace -o {tmp_path}/r -- "$@"'
    path = os.pathsep.join(entry for entry in sys.path if entry)
    variables = environment(PYTHONPATH=path)
    done = subprocess.run(
        ["sh", "-c", shell, "sh", PYTHON, "-c", code],
        env=variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    names = sorted({*variables, "LD_DEBUG", "LD_DEBUG_OUTPUT", "PWD"})
    assert done.stdout.split(maxsplit=3) == [
        str(tmp_path), "True", "0000000000000000", f"{names}\n",
    ], done.stderr  # fmt: skip


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["sh", "-c", "kill -SEGV $$"], 139),
        (["sh", "-c", "kill -KILL $$"], 137),
        (["sh", "-c", "exit 3"], 3),
        (["/nonexistent/program"], 127),
        (["/etc/passwd"], 126),
    ],
)
def test_the_exit_code_is_that_of_a_shell(command: list[str], code: int) -> None:
    assert run("--", *command).returncode == code


def test_the_files_of_a_killed_process_are_reported(tmp_path: Path) -> None:
    library = shared_object(tmp_path / "libshort.so")
    code = OPEN + "; import os; os.kill(os.getpid(), 9)"
    seen = watched(PYTHON, "-c", code, library)
    assert seen.exit_code == 137
    found = find(seen, "libshort.so")
    assert found.file is not None
    assert found.file.path == real(library)


def test_a_child_that_is_killed_does_not_end_the_others(tmp_path: Path) -> None:
    early, late = shared_object(tmp_path / "libearly.so"), shared_object(tmp_path / "liblate.so")
    code = f"""
import ctypes, os, signal
if (pid := os.fork()) == 0:
    ctypes.CDLL({str(early)!r})
    os.kill(os.getpid(), signal.SIGSEGV)
assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGSEGV
ctypes.CDLL({str(late)!r})
os.abort()
"""
    seen = watched(PYTHON, "-c", code)
    assert seen.exit_code == 128 + signal.SIGABRT
    child = next(process for process in seen.processes if process.forked_from is not None)
    assert [library.path for library in child.loaded] == [str(early)]
    assert find(seen, "liblate.so") not in child.loaded


@pytest.mark.each_run("2")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_reported(tmp_path: Path, number: signal.Signals) -> None:
    library = shared_object(tmp_path / "liblong.so")
    code = (
        "import ctypes, signal, sys, time\n"
        "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
        f"ctypes.CDLL({str(library)!r})\n"
        f"open({str(tmp_path / 'ready')!r}, 'w').close()\n"
        "time.sleep(999)"
    )
    path = os.pathsep.join(entry for entry in sys.path if entry)
    process = subprocess.Popen(
        [
            PYTHON,
            "-m",
            "wheelfix",
            "trace",
            "--output-format=json",
            "-o",
            tmp_path / "r",
            "--",
            PYTHON,
            "-c",
            code,
        ],
        env=environment(PYTHONPATH=path),
    )
    wait_until((tmp_path / "ready").exists, process)
    process.send_signal(number)
    assert process.wait(HANGS) == 128 + number
    report = json.loads((tmp_path / "r").read_text())
    assert report["exit_code"] == 128 + number
    loaded = [library["path"] for library in report["processes"][0]["loaded"]]
    assert str(library) in loaded


def test_a_terminals_interrupt_reaches_the_command_once(tmp_path: Path) -> None:
    code = (
        "import signal, sys, time\n"
        "count = []\n"
        "signal.signal(signal.SIGINT, lambda *_: count.append(1))\n"
        f"open({str(tmp_path / 'ready')!r}, 'w').close()\n"
        "while not count: time.sleep(0.1)\n"
        "time.sleep(0.5)\n"
        "sys.exit(40 + len(count))"
    )
    path = os.pathsep.join(entry for entry in sys.path if entry)
    words = [PYTHON, "-m", "wheelfix", "trace", "-o", str(tmp_path / "r"), "--", PYTHON, "-c", code]
    done = subprocess.run(
        [PYTHON, "-c", ON_A_TERMINAL, tmp_path / "ready", *words],
        env=environment(PYTHONPATH=path),
        timeout=HANGS,
        check=False,
    )
    assert done.returncode == 41


def test_a_signal_is_passed_on(tmp_path: Path) -> None:
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        f"open({str(tmp_path / 'ready')!r}, 'w').close()\n"
        "time.sleep(999)"
    )
    path = os.pathsep.join(entry for entry in sys.path if entry)
    process = subprocess.Popen(
        [PYTHON, "-m", "wheelfix", "trace", "-o", tmp_path / "r", "--", PYTHON, "-c", code],
        env=environment(PYTHONPATH=path),
    )
    wait_until((tmp_path / "ready").exists, process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(HANGS) == 5


MEASURE = """
import os, sys
child = os.spawnv(os.P_NOWAIT, sys.argv[2], sys.argv[2:])
_, status, usage = os.wait4(child, 0)
with open(sys.argv[1], "w") as file:
    file.write(str(usage.ru_maxrss // 1024))
sys.exit(os.waitstatus_to_exitcode(status))
"""
"""A small parent process: the peak RSS of a child begins with the size of its parent."""


def peak(report: Path, *command: str, out: int = subprocess.DEVNULL) -> tuple[int, int]:
    """Trace a command that is small itself; return the exit code, and the largest RSS in MiB."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    size = report.with_suffix(".size")
    words = [PYTHON, "-m", "wheelfix", "trace", "-o", str(report), "--", *command]
    measured = [PYTHON, "-S", "-c", MEASURE, str(size), *words]
    done = subprocess.run(measured, env=environment(PYTHONPATH=path), stdout=out, check=False)
    return done.returncode, int(size.read_text())


@pytest.mark.large
def test_a_hundred_megabytes_of_output_pass_without_being_kept(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        code, most = peak(tmp_path / "r", "head", "-c", "100000000", "/dev/zero", out=out.fileno())
    assert (tmp_path / "out").stat().st_size == 100_000_000
    assert code == 0
    assert most <= peak(tmp_path / "r", "true")[1] + 5


@pytest.mark.large
def test_memory_is_bounded_for_many_requests(tmp_path: Path) -> None:
    source = """
    #include <dlfcn.h>
    #include <stdio.h>
    int main(void) {
        for (int i = 0; i < 25000; i++) {
            char name[32];
            sprintf(name, "libnone%d.so", i);
            dlopen(name, RTLD_LAZY);
        }
        return 4;
    }
    """
    program = executable(tmp_path / "asks", source, flags=["-ldl"])
    code, most = peak(tmp_path / "r", str(program))
    assert code == 4
    assert most < 100
    assert "bindings, not recorded" in (tmp_path / "r").read_text()


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    done = run("--", "true", TMPDIR=str(tmp_path))
    assert done.returncode == 0
    assert not list(tmp_path.iterdir())


def test_a_process_that_goes_on_keeps_its_log_and_is_named(tmp_path: Path) -> None:
    # Without its folder the loader would write to the stdout of what that process executes.
    code = f"sleep 999 >/dev/null 2>&1 & echo $! > {tmp_path}/pid"
    done = run("--", "sh", "-c", code, TMPDIR=str(tmp_path))
    pid = int((tmp_path / "pid").read_text())
    os.kill(pid, signal.SIGKILL)
    assert f"still running: {pid}" in done.stderr
    assert list(tmp_path.glob("wheelfix-trace-*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_files_that_another_user_puts_beside_the_logs_are_not_opened(tmp_path: Path) -> None:
    """Only root traces commands of another user, who must get nothing by root's rights."""
    secret = tmp_path / "secret"
    secret.write_bytes(os.urandom(3 << 20))
    secret.chmod(0o600)
    before = secret.read_bytes()
    script = (
        f"cd ${{LD_DEBUG_OUTPUT%/*}}; ln -s {secret} log.99999; ln -s {secret} log.1; "
        "mkfifo log.77777; mkdir log.88888; : > log.x; : > other; : > log.; : > log.-1; : > log.٣"
    )
    done = run("--", "setpriv", "--reuid=65534", "--clear-groups", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert secret.read_bytes() == before
    assert "internal error" not in done.stderr
    for name in ("log.99999", "log.1", "log.77777", "log.88888", "log.x", "other"):
        assert f"ignored {name}: not written" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_modes_of_roots_files_are_not_changed_by_the_removal_of_logs(tmp_path: Path) -> None:
    """A folder that another user replaces by a link while it is removed must change nothing."""
    target = tmp_path / "target"
    target.mkdir(mode=0o755)
    script = f"cd ${{LD_DEBUG_OUTPUT%/*}}; mkdir a; ln -s {target} a/b; ln -s {target} c"
    done = run("--", "setpriv", "--reuid=65534", "--clear-groups", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert target.stat().st_mode & 0o777 == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_the_log_of_a_command_of_another_user_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TMPDIR", "/tmp")  # noqa: S108 - other users may enter it

    def attempt(seconds: int) -> None:
        script = f"os.fork() or (os.setuid(65534), os.execl('/bin/sleep', 'sleep', '{seconds}'))"
        seen = watched(PYTHON, "-c", f"import os; {script}; os.wait()")
        assert seen.notes == ()
        names = [library.name for process in seen.processes for library in process.loaded]
        assert names.count("libc.so.6") == 2

    with_more_time(attempt, LIVES)


def cmdline(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def test_the_folder_of_a_killed_trace_is_removed_when_its_command_has_ended(
    tmp_path: Path,
) -> None:
    begun = tmp_path / "begun"
    command = ["--", "sh", "-c", f"echo $$ > {begun}; exec sleep 999"]
    environ = environment(PYTHONPATH=os.pathsep.join(sys.path), TMPDIR=str(tmp_path))
    with subprocess.Popen([PYTHON, "-m", "wheelfix", "trace", *command], env=environ) as process:
        wait_until(lambda: begun.exists() and begun.read_text(), process)
        process.kill()
    sleeper = int(begun.read_text())
    run("--", "true", TMPDIR=str(tmp_path))
    assert list(tmp_path.glob("wheelfix-trace-*")), "its command still writes there"
    os.kill(sleeper, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{sleeper}").exists() or b"sleep" not in cmdline(sleeper))
    run("--", "true", TMPDIR=str(tmp_path))
    assert not list(tmp_path.glob("wheelfix-trace-*"))


def test_a_process_that_closes_the_log_is_named_with_what_its_maps_show(tmp_path: Path) -> None:
    library = shared_object(tmp_path / "liblate.so")

    def attempt(seconds: int) -> None:
        code = f"import ctypes, os, time; os.closerange(3, 50); time.sleep({seconds});"
        opens = f"ctypes.CDLL({str(library)!r}); time.sleep({seconds})"
        done = run("--", PYTHON, "-c", f"{code} {opens}")
        assert done.returncode == 0
        assert "closed the loader's log" in done.stderr
        assert f"{real(library)}\n    in the memory maps, not in the log" in done.stderr

    with_more_time(attempt, LIVES)


def test_the_json_report_says_the_same(tmp_path: Path) -> None:
    library = shared_object(tmp_path / "liba.so", soname="liba.so")
    done = run("--output-format=json", "--", PYTHON, "-c", OPEN, library)
    report = json.loads(done.stderr)
    assert report["version"] == 1
    (process,) = report["processes"]
    (found,) = (entry for entry in process["loaded"] if entry["name"] == str(library))
    assert found["file"]["path"] == real(library)


# --- The TVM report, in small ---------------------------------------------------------------------


def tvm(root: Path, *, rpath: str | None = None, runpath: str | None = None) -> Path:
    """A wheel with a library that needs another one in the same folder."""
    build = root / "build"
    runtime = shared_object(build / "libtvm_runtime.so", soname="libtvm_runtime.so")
    compiler = shared_object(
        build / "libtvm.so",
        "int g;",
        soname="libtvm.so",
        needed=[runtime],
        rpath=rpath,
        runpath=runpath,
    )
    return make_wheel(
        root,
        name="tvm",
        files={
            "tvm/__init__.py": "",
            "tvm/lib/libtvm.so": compiler,
            "tvm/lib/libtvm_runtime.so": runtime,
        },
    )


@pytest.mark.parametrize(
    ("search_path", "planted_wins"),
    [({"runpath": "$ORIGIN"}, True), ({"rpath": "$ORIGIN"}, False)],
    ids=["runpath-loses", "rpath-wins"],
)
def test_a_library_planted_by_ld_library_path_is_reported(
    tmp_path: Path, search_path: dict[str, str], *, planted_wins: bool
) -> None:
    wheel = tvm(tmp_path, **search_path)
    site = tmp_path / "site-packages"
    zipfile.ZipFile(wheel).extractall(site)
    planted = shared_object(tmp_path / "planted" / "libtvm_runtime.so", soname="libtvm_runtime.so")
    lib = site / "tvm" / "lib"
    seen = watched(PYTHON, "-c", OPEN, lib / "libtvm.so", LD_LIBRARY_PATH=str(planted.parent))
    (variable,) = (variable for variable in seen.variables if variable.name == "LD_LIBRARY_PATH")
    assert variable.served == ((str(planted),) if planted_wins else ())
    loaded = find(seen, "libtvm_runtime.so")
    assert loaded.path == str(planted if planted_wins else lib / "libtvm_runtime.so")
    assert loaded.how is (How.LIBRARY_PATH if planted_wins else How.RPATH)


def test_a_library_that_was_loaded_before_is_reported(tmp_path: Path) -> None:
    wheel = tvm(tmp_path, rpath="$ORIGIN")
    site = tmp_path / "site-packages"
    zipfile.ZipFile(wheel).extractall(site)
    other = shared_object(tmp_path / "sbin" / "libother.so", soname="libtvm_runtime.so")
    seen = watched(PYTHON, "-c", OPEN, other, site / "tvm" / "lib" / "libtvm.so")
    assert find(seen, "libother.so").soname == "libtvm_runtime.so"
    assert not [found for found in all_loaded(seen) if found.path.endswith("/libtvm_runtime.so")]


def test_a_library_found_through_path_is_reported(tmp_path: Path) -> None:
    wheel = tvm(tmp_path, rpath="$ORIGIN")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site-packages")
    planted = shared_object(tmp_path / "sbin" / "libtvm.so", soname="libtvm.so")
    code = """
import ctypes, os
for folder in os.environ["PATH"].split(":"):
    if os.path.exists(folder + "/libtvm.so"):
        ctypes.CDLL(folder + "/libtvm.so")
        break
"""
    seen = trace(
        [PYTHON, "-c", code],
        {
            "PATH": f"{planted.parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(tmp_path / "site-packages"),
        },
    )
    (variable,) = (variable for variable in seen.variables if variable.name == "PATH")
    assert variable.served == (str(planted),)


def test_no_other_thread_of_ours_takes_the_signals_that_are_passed_on(tmp_path: Path) -> None:
    """The kernel gives a signal to any thread that lets it in; `trace` waits in the main thread."""
    mark = tmp_path / "runs"
    code = f"import time; open({str(mark)!r}, 'w'); time.sleep(999)"
    command = [sys.executable, "-m", "wheelfix", "trace", "--", sys.executable, "-c", code]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(mark.exists, process)
        tasks = list(Path(f"/proc/{process.pid}/task").iterdir())
        others = [task for task in tasks if task.name != str(process.pid)]
        assert others
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            bit = 1 << number - 1
            assert all(_blocked(task) & bit for task in others)
    finally:
        process.terminate()
        process.wait()


def _blocked(task: Path) -> int:
    lines = (task / "status").read_text().splitlines()
    return next(int(line.split()[1], 16) for line in lines if line.startswith("SigBlk:"))


def test_a_name_that_is_then_opened_by_its_path_is_not_missing(tmp_path: Path) -> None:
    library = shared_object(tmp_path / "libthen.so.1", "int then;", soname="libthen.so.1")
    code = (
        "import contextlib, ctypes\n"
        "with contextlib.suppress(OSError):\n    ctypes.CDLL('libthen.so.1')\n"
        f"ctypes.CDLL({str(library)!r})"
    )
    said = run("--", sys.executable, "-c", code)
    assert "libthen.so.1" in said.stderr
    assert "not found: libthen.so.1" not in said.stderr
