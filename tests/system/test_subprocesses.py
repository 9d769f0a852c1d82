"""Programs: input, output, limits, and the end of all that they have started."""

import sys
from pathlib import Path

import pytest

from tests.support.waiting import LIMITS, wait_until
from wheelfix.errors import ToolError
from wheelfix.system import subprocesses as module
from wheelfix.system.subprocesses import run

PYTHON = (sys.executable, "-I", "-S", "-c")


def test_output_is_text_with_unix_newlines() -> None:
    code = r"import os; os.write(1, b'a\r\nb\rc\xff'); os.write(2, b'\xc3\xa9'); os._exit(3)"
    done = run([*PYTHON, code], accepted=(3,))
    assert (done.stdout, done.stderr) == ("a\nb\nc\udcff", "\u00e9")


@pytest.mark.parametrize("reads", ["sys.stdin.read()", "time.sleep(0.3) or sys.stdin.read()", "''"])
def test_input_of_any_size_is_written_while_output_is_read(reads: str) -> None:
    """No pipe holds as much, and there is no deadlock."""
    task = "task" * 1_000_000
    code = f"import sys, time; sys.stdout.write('x' * 4000000); sys.stdout.write({reads})"
    done = run([*PYTHON, code], stdin=task, timeout=60)
    assert done.stdout == "x" * 4_000_000 + ("" if reads == "''" else task)


@pytest.mark.parametrize("stream", [1, 2])
def test_a_program_that_prints_without_end_is_killed(stream: int) -> None:
    code = f"import os\nwhile True: os.write({stream}, b'for ever' * 99 + b'and a day')"
    with pytest.raises(ToolError, match=r"`python.*` printed more than 32 MiB") as caught:
        run([*PYTHON, code])
    assert "and a day" in caught.value.message
    assert len(caught.value.message) < 3 * module.TAIL
    assert caught.value.hint


def test_output_within_the_limit_is_complete() -> None:
    size = module.MOST // 2
    code = f"import os, sys; sys.stdout.write('x' * {size}); sys.stderr.write('y' * {size})"
    done = run([*PYTHON, code])
    assert (len(done.stdout), len(done.stderr)) == (size, size)


@pytest.mark.parametrize("ending", ["time.sleep(999)", "while True: print('x' * 9999)"])
def test_all_that_a_program_has_started_is_killed_with_it(ending: str, tmp_path: Path) -> None:
    """Also in a session of its own, with the pipes open."""
    note = tmp_path / "pid"
    code = f"""if True:
        import os, sys, time
        far = os.posix_spawn('/bin/sleep', ['sleep', '999'], {{}}, setsid=True)
        os.write(os.open({str(note)!r}, os.O_WRONLY | os.O_CREAT), str(far).encode())
        {ending}
    """
    for limit in LIMITS:
        with pytest.raises(ToolError):
            run([*PYTHON, code], timeout=limit)
        if note.exists() and note.read_text():
            break
    pid = int(note.read_text())
    wait_until(lambda: not _runs(pid))


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def test_an_error_quotes_what_was_printed_before_the_time_limit() -> None:
    message = ""
    for limit in LIMITS:
        with pytest.raises(ToolError, match=f"did not end within {limit} seconds") as caught:
            run(["sh", "-c", "echo so far >&2; exec sleep 999"], timeout=limit)
        message = str(caught.value)
        if "stderr" in message:
            break
    assert message.endswith("seconds\nstderr:\nso far")


def test_no_descriptor_stays_open() -> None:
    before = set(Path("/proc/self/fd").iterdir())
    run([*PYTHON, ""])
    with pytest.raises(ToolError):
        run([*PYTHON, "import time; time.sleep(9)"], timeout=0.1)
    assert set(Path("/proc/self/fd").iterdir()) == before
