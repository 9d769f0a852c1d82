"""Standard streams that are closed, full or non-blocking, and signals while modules load."""

import fcntl
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import wheelfix
from tests.support.build import make_wheel, shared_object
from tests.support.fork_server import warm_program
from tests.support.waiting import HANGS, wait_until

Start = Callable[[tuple[str, ...], Mapping[str, Path]], list[str]]
SOURCES = str(Path(wheelfix.__file__).parents[1])
WHEELFIX = (sys.executable, "-m", "wheelfix")
COMMANDS = (
    ("--help",),
    ("--version",),
    ("check", "--help"),
    ("rule", "--all"),
    ("rule", "WF101"),
    ("check", "--fail-on", "never", "--output-format", "sarif", "{wheel}"),
    ("init", "--stdout"),
    ("settings",),
    ("check", "{wheel}"),
    ("check", "--output-format", "json", "{wheel}"),
    ("check", "--output-format", "jsonl", "{wheel}"),
    ("check", "--output-format", "jsonl", "-j2", "{wheel}", "{other}"),
    ("explain", "--output-format", "html", "{wheel}"),
    ("explain", "{wheel}"),
    ("repair", "-q", "-w", "{out}", "{wheel}"),
)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Two wheels with findings, and a folder for output."""
    folder = tmp_path_factory.mktemp("streams")
    core = shared_object(folder / "core.so", "int f(void) { return 1; }")
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": b"", "demo/core.so": core}
    wheels = [make_wheel(folder, name, files=files) for name in ("demo", "other")]
    return {"wheel": wheels[0], "other": wheels[1], "out": folder / "out"}


def command(words: tuple[str, ...], places: Mapping[str, Path]) -> list[str]:
    return [*WHEELFIX, *(word.format(**places) for word in words)]


def warm(words: tuple[str, ...], places: Mapping[str, Path]) -> list[str]:
    return [warm_program(), *(word.format(**places) for word in words)]


RUNS = [(command, ("check", "{wheel}")), *((warm, words) for words in COMMANDS)]
some_runs = pytest.mark.each_run("command-*", *(f"warm-words{n}" for n in (1, 4, 8, 9, 12, 14, 16)))
"""What writes in other ways: help, text, settings, findings, records of workers, a page, paths."""


@some_runs
@pytest.mark.parametrize(("start", "words"), RUNS)
def test_a_closed_pipe_ends_the_run(
    start: Start, words: tuple[str, ...], places: Mapping[str, Path]
) -> None:
    """As with `| head`: the run ends as if by SIGPIPE, and prints nothing."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        start(words, places), stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    assert (done.stderr, done.returncode) == ("", 141)


@some_runs
@pytest.mark.parametrize(("start", "words"), RUNS)
def test_a_full_disk_is_an_error(
    start: Start, words: tuple[str, ...], places: Mapping[str, Path]
) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            start(words, places), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert "error: cannot write to stdout: No space left on device\nhint: " in done.stderr
    assert "Traceback" not in done.stderr
    assert "internal" not in done.stderr


def test_a_closed_pipe_ends_a_long_run(tmp_path: Path) -> None:
    """With its workers, and without the other wheels."""
    first = make_wheel(tmp_path, files={"demo/__init__.py": b""})
    for number in range(1000):
        os.link(first, tmp_path / f"demo{number}-1.0-py3-none-any.whl")
    code = (
        "import sys\nfrom wheelfix.__main__ import main\n"
        "from wheelfix.pipelines import check_many\n"
        "check, log = check_many.check, open(sys.argv.pop(1), 'ab', buffering=0)\n"
        "check_many.check = lambda *given: log.write(b'.') and check(*given)\n"
        "main()"
    )
    log = tmp_path / "log"
    run = subprocess.Popen(
        [sys.executable, "-c", code, log, "check", "--output-format=jsonl", "-j2", tmp_path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
    )
    assert run.stdout is not None
    assert run.stderr is not None
    assert run.stdout.readline().startswith(b'{"version":1')
    run.stdout.close()
    assert run.wait(HANGS) == 141
    assert run.stderr.read() == b""
    run.stderr.close()
    assert running(run.pid) == []
    assert log.stat().st_size < 500, "the pipe, which holds 65,536 bytes, stops it meanwhile"


def running(group: int) -> list[str]:
    """Return the processes of a group, without zombies."""
    found: list[str] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text(errors="replace")
        except OSError:
            continue
        state, _, its_group = text.rpartition(")")[2].split()[:3]
        if int(its_group) == group and state not in "ZX":
            found.append(text)
    return found


@pytest.mark.parametrize("form", ["concise", "jsonl"])
def test_a_closed_or_full_stderr_does_not_fail_the_run(
    form: str, places: Mapping[str, Path]
) -> None:
    words = warm(("check", "--output-format", form, "{wheel}", "{other}"), places)
    usual = subprocess.run(words, capture_output=True, check=False)
    assert usual.stdout
    reader, gone = os.pipe()
    os.close(reader)
    with Path("/dev/full").open("w") as full:
        for nowhere in (full.fileno(), gone):
            done = subprocess.run(words, stdout=subprocess.PIPE, stderr=nowhere, check=False)
            assert (done.stdout, done.returncode) == (usual.stdout, usual.returncode)
    os.close(gone)


@pytest.mark.each_run("<&- >&- *")
@pytest.mark.parametrize(
    ("closed", "code", "said"),
    [
        ("<&-", 0, "demo"),
        (">&-", 2, "cannot write to stdout: Bad file descriptor"),
        ("2>&-", 0, ""),
        ("<&- >&- 2>&-", 2, ""),
    ],
)
def test_streams_that_the_caller_has_closed(
    closed: str, code: int, said: str, places: Mapping[str, Path], tmp_path: Path
) -> None:
    """No other file gets their descriptors, and nothing crashes."""
    line = f'exec "$@" {closed}'
    subprocess.run(warm(("repair", "-q", "-w", "{out}", "{wheel}"), places), check=True)
    words = command(("repair", "-w", str(tmp_path), "{wheel}"), places)
    done = subprocess.run(["sh", "-c", line, "sh", *words], capture_output=True, check=False)
    assert done.returncode == code, done.stderr
    assert said in done.stderr.decode()
    assert b"Traceback" not in done.stderr
    (usual,) = places["out"].glob("demo-*.whl")
    assert (tmp_path / usual.name).read_bytes() == usual.read_bytes()


def test_a_non_blocking_pipe_gets_everything(places: Mapping[str, Path]) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    words = command(("check", "--fail-on", "never", "--output-format", "sarif", "{wheel}"), places)
    with subprocess.Popen(words, stdout=writer, stderr=subprocess.PIPE) as run:
        os.close(writer)
        wait_until(lambda: _unread(reader) > 1 << 15)
        with os.fdopen(reader, "rb") as stream:
            got = stream.read()
        assert run.wait() == 0
    words[: len(WHEELFIX)] = warm((), places)
    assert got == subprocess.run(words, capture_output=True, check=True).stdout
    assert len(got) > 1 << 16


def _unread(pipe: int) -> int:
    """How many bytes a pipe holds (FIONREAD of ioctl_pipe(2))."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


@pytest.mark.parametrize("stage", ["threading", "json"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_while_our_modules_are_imported_ends_quietly(
    number: signal.Signals, code: int, stage: str, tmp_path: Path
) -> None:
    stub = f"import os, time\nos.kill(os.getpid(), {number:d})\ntime.sleep(9)\n"
    (tmp_path / f"{stage}.py").write_text(stub)
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{SOURCES}"}
    script = "import sys; from wheelfix.__main__ import main; sys.exit(main())"  # as pip writes it
    done = subprocess.run(
        [sys.executable, "-c", script, "check", "x.whl"],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (code, "")


def test_signals_that_the_caller_ignores_stay_ignored(places: Mapping[str, Path]) -> None:
    """As `nohup` does, and `&` of a shell without job control."""
    stub = "import os, signal; from wheelfix.__main__ import main; import wheelfix.cli.app as app; "
    stub += (
        "run = app.main; app.main = lambda: [os.kill(os.getpid(), signal.SIGINT), run()]; main()"
    )
    line = "trap '' INT; exec \"$@\""
    words = [sys.executable, "-c", stub, "check", "-q", str(places["wheel"])]
    done = subprocess.run(["sh", "-c", line, "sh", *words], capture_output=True, check=False)
    assert b"Traceback" not in done.stderr
    assert done.returncode in {0, 1}, done.stderr


@pytest.mark.parametrize("words", [["--version"], ["repair", "x.whl"]])
def test_another_python_than_cpython_is_refused_in_one_line(words: list[str]) -> None:
    program = (
        "import gc, os, sys; sys.implementation.name = 'pypy'; del gc.set_threshold, os.O_TMPFILE\n"
        "from wheelfix.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: wheelfix needs CPython, not pypy\n"
