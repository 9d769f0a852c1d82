"""`check --output-format jsonl`: order, and wheels that crash or hang a worker."""

import ctypes
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import (
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from contextlib import suppress
from importlib.resources import files
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import wheelfix
from tests.support.build import make_wheel
from tests.support.fork_server import warm_program
from tests.support.waiting import HANGS, wait_until, with_more_time
from wheelfix.cli.app import run
from wheelfix.pipelines.check import CheckTask, check
from wheelfix.pipelines.check_many import check_many, check_tasks
from wheelfix.pipelines.check_result import Report
from wheelfix.reports.check_content import RenderOptions
from wheelfix.reports.check_json import record as record_text
from wheelfix.rules.registry import SET_RULES
from wheelfix.settings import Settings
from wheelfix.system.workers import InExecutor, InProcess, WorkerProcesses, Workers

BROKEN = {"demo/one.so": b"\x7fELF", "demo/__init__.py": b""}
STREAM = ("check", "--output-format", "jsonl")
SCHEMAS = files("wheelfix.reports").joinpath("schemas")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder with eight wheels in `dist`, one of them truncated."""
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WHEELFIX_SEVERITY", "WF601=error")
    monkeypatch.chdir(tmp_path)
    dist = tmp_path / "dist"
    for number in range(7):
        content = BROKEN if number % 2 else {"demo/__init__.py": b""}
        tag = "cp311-cp311-manylinux_2_17_x86_64"
        make_wheel(dist / f"part{number % 2}", f"demo{number}", tag=tag, files=content)
    (dist / "demo3x-1.0-py3-none-any.whl").write_bytes(b"PK torn")
    return tmp_path


def streamed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = run([*STREAM, *arguments])
    return code, capsys.readouterr().out


# --- Records --------------------------------------------------------------------------------------


def test_each_wheel_has_its_record_in_the_order_of_the_list(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = streamed(capsys, "dist")
    assert code == 2, "a truncated wheel is no finding"
    found = [json.loads(line) for line in text.splitlines()]
    assert [record["path"] for record in found] == sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*.whl")
    )
    assert [record["name"] for record in found if record["error"]] == [
        "demo3x-1.0-py3-none-any.whl"
    ]
    bad = [
        record["name"][:5]
        for record in found
        if any(f["code"] == "WF601" for f in record["findings"])
    ]
    assert bad == ["demo1", "demo3", "demo5"]
    schema = json.loads(SCHEMAS.joinpath("check-record.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    for record in found:
        jsonschema.validate(record, schema)
    broken = {**found[0], "error": "no object"}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schema)


@pytest.mark.usefixtures("folder")
def test_a_record_equals_the_wheel_in_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    _, text = streamed(capsys, "dist")
    assert run(["check", "--output-format", "json", "dist"]) == 2
    report = json.loads(capsys.readouterr().out)
    for line, wheel in zip(text.splitlines(), report["wheels"], strict=True):
        record = json.loads(line)
        assert {key: record[key] for key in wheel} == wheel


def test_both_schemas_define_common_keys_alike() -> None:
    whole, record = (
        json.loads(SCHEMAS.joinpath(f"{name}.schema.json").read_text("utf-8"))
        for name in ("check", "check-record")
    )
    wheel = whole["$defs"].pop("wheel")
    assert record["$defs"] == whole["$defs"]
    own = {key: record["properties"].pop(key) for key in ("version", "tool")}
    assert record["properties"] == wheel["properties"]
    assert set(record["required"]) == {*wheel["required"], *own}


@pytest.mark.parametrize("fail_on", ["error", "warning", "never"])
def test_exit_codes_are_those_of_every_check(
    fail_on: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = streamed(capsys, "dist", "--fail-on", fail_on, "--select", "WF601")
    assert code == 2
    (folder / "dist/demo3x-1.0-py3-none-any.whl").unlink()
    code, _ = streamed(capsys, "dist", "--fail-on", fail_on, "--select", "WF601")
    assert code == (0 if fail_on == "never" else 1)
    assert streamed(capsys, "dist/part0", "--fail-on", fail_on, "--select", "WF601")[0] == 0


def test_options_that_need_all_wheels_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (
        [*STREAM, "dist", "--report", "json=x"],
        [*STREAM, "dist", "--baseline", "b", "--write-baseline"],
    ):
        assert run(arguments) == 2
        assert "hint" in capsys.readouterr().err
    assert not (folder / "x").exists()


@pytest.mark.usefixtures("folder")
def test_a_terminal_shows_progress_and_a_file_does_not() -> None:
    command = [warm_program(), *STREAM, "dist", "--select", "WF601", "-o", "records"]
    master, terminal = pty.openpty()
    environ = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(command, stderr=terminal, env=environ) as run:
        os.close(terminal)
        shown = b""
        with suppress(OSError):  # EIO: the other end is closed
            while more := os.read(master, 4096):
                shown += more
    os.close(master)
    assert run.returncode == 2
    lines = re.findall(
        r"(\d+) of 8 wheels, (\d) with errors(?:, 1 unreadable)?, [\d.]+ per", shown.decode()
    )
    assert lines == [*((str(n), bad) for n, bad in enumerate("00000123", start=1)), ("8", "3")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr.count("\n") == 1
    assert "8 of 8 wheels" in done.stderr
    assert all(rule.code in done.stderr for rule in SET_RULES)
    assert subprocess.run([*command, "-q"], capture_output=True, check=False).stderr == b""


# --- Which wheels ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("folder")
def test_a_full_disk_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*STREAM, "dist", "-o", "/dev/full"]) == 2
    assert "No space left" in capsys.readouterr().err


def test_records_replace_records_and_nothing_else(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*STREAM, "dist", "-o", "records"]) == 2
    whole = (folder / "records").read_bytes()
    assert run([*STREAM, "dist", "-o", "records"]) == 2
    assert (folder / "records").read_bytes() == whole
    capsys.readouterr()
    for text in ("my thesis\n", "[]\n", '{"version":1}\n', "[" * 100_000):
        (folder / "records").write_text(text)
        assert run([*STREAM, "dist", "-o", "records"]) == 2
        assert "is not JSON Lines of wheelfix; it was not" in capsys.readouterr().err
        assert (folder / "records").read_text() == text


# --- Crashes, hangs and interrupts ----------------------------------------------------------------


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some wheels, by name, crash the process that checks them, or raise an error."""

    def perhaps(task: CheckTask, *more: Any) -> Report:
        match task.wheel.name.partition("-")[0]:
            case "demo2":
                os.kill(os.getpid(), signal.SIGKILL)
            case "demo4":
                raise ZeroDivisionError("division by zero")
            case "demo5":
                raise MemoryError
            case _:
                pass
        return check(task, *more)

    monkeypatch.setattr("wheelfix.pipelines.check_many.check", perhaps)


@pytest.mark.usefixtures("folder")
@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_wheel_that_kills_its_worker_costs_one_record(
    jobs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = streamed(capsys, "dist", "-j", jobs)
    assert code == 2
    found = {
        record["name"][:6].rstrip("-"): record for record in map(json.loads, text.splitlines())
    }
    assert len(found) == 8
    lost = {name: record["error"]["message"] for name, record in found.items() if record["error"]}
    assert "ended abruptly" in lost.pop("demo2")
    assert "internal error: ZeroDivisionError" in lost.pop("demo4")
    assert "not enough memory" in lost.pop("demo5")
    assert list(lost) == ["demo3x"]


@pytest.mark.usefixtures("folder")
def test_a_worker_that_is_killed_costs_no_other_report_either(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def perhaps(task: CheckTask, *more: Any) -> Report:
        if task.wheel.name.startswith("demo2"):
            os.kill(os.getpid(), signal.SIGKILL)
        return check(task, *more)

    monkeypatch.setattr("wheelfix.pipelines.check_many.check", perhaps)
    assert run(["check", "-j2", "--output-format", "json", "dist"]) == 2
    wheels = json.loads(capsys.readouterr().out)["wheels"]
    assert [record["name"][:6] for record in wheels if record["error"]] == ["demo3x", "demo2-"]


def loop() -> None:
    while True:
        pass


def keep_the_interpreter() -> None:
    """Wait in one call that holds the GIL, and let no signal end it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    ctypes.PyDLL(None).pause()


def wait_for_the_system() -> None:
    """Wait in a thread that Python would join at its end."""
    ThreadPoolExecutor().submit(time.sleep, 600).result()


def swallow_errors() -> None:
    while True:
        with suppress(Exception):
            loop()


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some wheels, by name, have a check that never ends."""
    ways = {
        "demo1": loop,
        "demo2": wait_for_the_system,
        "demo4": keep_the_interpreter,
        "demo5": swallow_errors,
    }

    def perhaps(task: CheckTask, *more: Any) -> Report:
        ways.get(task.wheel.name.partition("-")[0], lambda: None)()
        return check(task, *more)

    monkeypatch.setattr("wheelfix.pipelines.check_many.check", perhaps)


@pytest.mark.large
@pytest.mark.usefixtures("folder", "endless")
@pytest.mark.parametrize(("form", "jobs"), [("jsonl", "1"), ("json", "2")])
def test_a_wheel_beyond_the_time_limit_costs_one_record(
    form: str, jobs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["check", "--output-format", form, "dist", "-j", jobs, "--timeout"]

    def attempt(limit: int) -> None:
        assert run([*command, str(limit)]) == 2
        assert not active_children()
        text = capsys.readouterr().out
        found = [json.loads(line) for line in text.splitlines()] if form == "jsonl" else []
        found = found or json.loads(text)["wheels"]
        assert len(found) == 8
        errors = {record["name"][:5]: record["error"] for record in found if record["error"]}
        for late in ("demo1", "demo2", "demo4", "demo5"):
            name = f"{late}-1.0-cp311-cp311-linux_x86_64.whl"
            assert errors[late] == {
                "message": f"`{name}`: it took longer than {limit} s",
                "hint": "--timeout gives each wheel more",
            }
        assert sorted(errors) == ["demo1", "demo2", "demo3", "demo4", "demo5"]

    with_more_time(attempt, (1, 8, 30))


def test_a_run_ends_although_a_thread_of_a_check_still_waits(folder: Path) -> None:
    code = (
        "import sys, time; from concurrent.futures import ThreadPoolExecutor as Pool\n"
        "from wheelfix.pipelines import check_many\nfrom wheelfix.__main__ import main\n"
        "check_many.check = lambda *_: Pool().submit(time.sleep, 600).result()\n"
        "sys.argv = ['wheelfix', 'check', '--timeout', '1', sys.argv[1]]; main()"
    )
    wheel = next(folder.rglob("demo0-*.whl"))
    command = [sys.executable, "-c", code, str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANGS)
    assert done.returncode == 2
    assert "longer than 1 s" in done.stderr


@pytest.mark.usefixtures("folder")
def test_a_wheel_beyond_the_memory_limit_costs_one_record(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def perhaps(task: CheckTask, *more: Any) -> Report:
        if task.wheel.name.startswith("demo2"):
            hoard = [bytes(1 << 28) for _ in range(9)]
            hoard.clear()
        return check(task, *more)

    monkeypatch.setattr("wheelfix.pipelines.check_many.check", perhaps)
    code, text = streamed(capsys, "dist", "-j2")
    assert code == 2
    found = map(json.loads, text.splitlines())
    errors = {record["name"][:6]: record["error"]["message"] for record in found if record["error"]}
    assert list(errors) == ["demo3x", "demo2-"]
    assert "not enough memory" in errors["demo2-"]


def test_workers_end_with_a_parent_that_is_killed(folder: Path) -> None:
    fifo = folder / "fifo"
    os.mkfifo(fifo)
    code = (
        "import os, time\nfrom wheelfix.system.workers import WorkerProcesses\n"
        "def hang(_): open('fifo', 'w').write(str(os.getpid()) + '\\n'); time.sleep(600)\n"
        "with WorkerProcesses(2, timeout=0, memory=None) as workers:\n"
        "    list(workers.map_in_order(hang, range(2)))\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    workers: set[int] = set()
    while len(workers) < 2:
        workers.update(map(int, fifo.read_text().split()))
    parent.kill()
    parent.wait()
    wait_until(lambda: not any(map(_runs, workers)))


def _runs(process: int) -> bool:
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.each_run("2-130")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_ends_at_once_and_what_is_written_stays(
    number: signal.Signals, code: int, folder: Path
) -> None:
    for copy in range(400):
        os.link(next(folder.rglob("demo1-*.whl")), folder / f"dist/copy{copy}-1-py3-none-any.whl")
    command = [sys.executable, "-m", "wheelfix", *STREAM, "dist", "-j2", "-o", "records"]
    # As a terminal does it: to the whole group, with the signal not ignored.
    run = subprocess.Popen(command, stderr=subprocess.PIPE, process_group=0)
    records = folder / "records"
    wait_until(lambda: records.exists() and records.read_bytes().count(b"\n") >= 3)
    os.killpg(run.pid, number)
    _, said = run.communicate(timeout=HANGS)
    assert run.returncode == code
    assert said.decode() == ""
    lines = records.read_bytes().splitlines(keepends=True)
    assert 3 <= len(lines) < 408
    assert all(json.loads(line)["path"] for line in lines if line.endswith(b"\n"))


# --- Any executor ---------------------------------------------------------------------------------


def texts(folder: Path, workers: Workers) -> list[str]:
    tasks = check_tasks(sorted(folder.rglob("*.whl")), lambda _: Settings(), folder, {})
    options = RenderOptions(version=wheelfix.__version__, folder=folder, root=folder)
    return [record_text(report, options) for report in check_many(tasks, workers=workers)]


def test_every_executor_gives_the_same_records(folder: Path) -> None:
    alone = texts(folder, InProcess())
    with ThreadPoolExecutor(3) as threads:
        assert texts(folder, InExecutor(threads)) == alone
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as others:
        assert texts(folder, InExecutor(others)) == alone
    with WorkerProcesses(2, timeout=0, memory=None) as processes:
        assert texts(folder, processes) == alone


def test_the_python_api_accepts_an_executor(folder: Path) -> None:
    wheels = sorted(folder.rglob("*.whl"))
    alone = wheelfix.check_all(wheels)
    with ProcessPoolExecutor(2) as executor:
        each = list(wheelfix.check_each(wheels, executor=executor))
        found = wheelfix.check_all(wheels, executor=executor)
    assert [report.findings for report in each] == [
        report.findings for report in wheelfix.check_each(wheels)
    ]
    assert [report.findings for report in found.reports] == [
        report.findings for report in alone.reports
    ]
    assert found.findings == alone.findings
    assert str(found.unreadable[0].error) == str(alone.unreadable[0].error)
