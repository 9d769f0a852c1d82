"""Records made by a Dask cluster of this machine: the same bytes, also if a worker is killed."""

import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import wheelfix
from tests.support.build import make_wheel
from tests.support.clusters import cluster, distributed
from tests.support.waiting import HANGS, wait_until, with_more_time
from wheelfix.cli import dask_workers
from wheelfix.cli.app import run
from wheelfix.pipelines.check import CheckTask, check
from wheelfix.pipelines.check_result import Report

STREAM = ("check", "--output-format", "jsonl")
WHEELS = 40


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The scheduler of two worker processes, which gives up a task that has killed two."""
    settings = {
        "distributed.scheduler.allowed-failures": 1,
        "distributed.comm.timeouts.connect": HANGS,
        "distributed.comm.timeouts.tcp": HANGS,
    }
    with cluster(2, **settings) as of_scheduler:
        yield of_scheduler


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(dask_workers, "CONNECT_TIMEOUT", HANGS)
        yield


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder with many wheels in `dist`, one of them truncated."""
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    files = {"demo/one.so": b"\x7fELF", "demo/__init__.py": b"x = 1\n" * 1000}
    wheel = make_wheel(tmp_path / "dist", files=files)
    for number in range(WHEELS - 2):
        os.link(wheel, tmp_path / "dist" / f"demo-1.0-{number}-cp311-cp311-linux_x86_64.whl")
    (tmp_path / "dist" / "torn-1.0-py3-none-any.whl").write_bytes(b"PK torn")
    return tmp_path


@pytest.mark.large
def test_a_cluster_writes_the_same_bytes_even_if_a_worker_is_killed(
    address: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run([*STREAM, "dist", "-o", "here"]) == 2
    assert run([*STREAM, "dist", "-o", "there", "--dask", address]) == 2
    assert (folder / "there").read_bytes() == (folder / "here").read_bytes()
    original, killed = check, folder / "killed"

    def patient(task: CheckTask, *more: Any, **named: Any) -> Report:
        while "-1.0-30-" in task.wheel.name and not killed.exists():
            time.sleep(0.01)
        return original(task, *more, **named)

    def kill_one() -> None:
        with distributed.Client(address, set_as_default=False) as client:
            victim = min(client.run(os.getpid).values())
            wait_until(lambda: _lines(folder / "again") >= 10)
            os.kill(victim, signal.SIGKILL)
        killed.touch()

    monkeypatch.setattr("wheelfix.pipelines.check_many._check", patient)
    killer = Thread(target=kill_one)
    killer.start()
    assert run([*STREAM, "dist", "-o", "again", "--dask", address]) == 2
    killer.join()
    records = [(folder / name).read_text().splitlines() for name in ("again", "here")]
    assert [one for one in zip(*records, strict=True) if one[0] != one[1]] == []


def test_a_worker_may_die_once_its_result_was_fetched(
    address: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler then reports the result as lost, and Dask's own executor fails."""
    original = distributed.Future._result

    async def lose(future: Any, *, raiseit: bool = True) -> Any:
        result = await original(future, raiseit)
        future._state.lose()
        return result

    assert run([*STREAM, "dist", "-o", "here"]) == 2
    monkeypatch.setattr(distributed.Future, "_result", lose)
    assert run([*STREAM, "dist", "-o", "there", "--dask", address]) == 2
    assert (folder / "there").read_bytes() == (folder / "here").read_bytes()


def _lines(file: Path) -> int:
    return file.read_bytes().count(b"\n") if file.exists() else 0


def test_other_reports_and_python_programs_use_the_cluster_too(
    address: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["check", "dist", "--output-format", "json"]
    assert run(arguments) == 2
    here = capsys.readouterr().out
    assert run([*arguments, "--dask", address]) == 2
    there = json.loads(capsys.readouterr().out)
    assert there == json.loads(here)
    wheels = sorted((folder / "dist").iterdir())[:5]
    with distributed.Client(address, set_as_default=False) as client:
        found = wheelfix.check_all(wheels, executor=client.get_executor(pure=False))
    assert [report.source for report in found.reports] == wheels
    assert found == wheelfix.check_all(wheels)


def test_a_wheel_that_kills_its_worker_does_not_end_the_run(
    address: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dask gives up a task after `allowed-failures`; the nanny starts the worker again."""

    original = check

    def deadly(task: CheckTask, *more: Any, **named: Any) -> Report:
        if "-1.0-7-" in task.wheel.name:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(task, *more, **named)

    assert run([*STREAM, "dist", "-o", "here"]) == 2
    monkeypatch.setattr("wheelfix.pipelines.check_many._check", deadly)
    options = ["--dask", address]
    assert run([*STREAM, "dist", "-o", "there", *options]) == 2
    pairs = list(zip(_records(folder / "here"), _records(folder / "there"), strict=True))
    lost = {there["name"]: there["error"] for here, there in pairs if here != there}
    error = lost["demo-1.0-7-cp311-cp311-linux_x86_64.whl"]
    assert "ended abruptly" in error["message"]
    assert all(other == error | {"message": other["message"]} for other in lost.values())
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert run([*STREAM, "dist", "-o", "there", *options]) == 2
    assert sorted((folder / "there").read_bytes().splitlines()) == sorted(
        (folder / "here").read_bytes().splitlines()
    )


def _records(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_bytes().splitlines()]


# --- Errors say what to do ------------------------------------------------------------------------


@pytest.mark.usefixtures("folder")
def test_a_missing_distributed_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert run([*STREAM, "dist", "--dask", "tcp://127.0.0.1:1"]) == 2
    assert 'pip install "wheelfix[dask]"' in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("where", ["not listening", "no address", "http://127.0.0.1:1"])
def test_a_scheduler_that_does_not_answer_is_an_error(
    where: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dask_workers, "CONNECT_TIMEOUT", 0.5)
    with socket.socket() as taken:  # bound, and not listening
        taken.bind(("127.0.0.1", 0))
        asked = f"tcp://127.0.0.1:{taken.getsockname()[1]}" if where == "not listening" else where
        assert run([*STREAM, "dist", "--dask", asked]) == 2
    said = capsys.readouterr().err
    assert f"no Dask scheduler answers at `{asked}`" in said
    assert "hint: `dask scheduler`" in said


@pytest.mark.usefixtures("folder")
def test_a_cluster_without_workers_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with distributed.LocalCluster(
        n_workers=0, dashboard_address=":0", silence_logs=logging.CRITICAL
    ) as local:

        def attempt(seconds: int) -> None:
            monkeypatch.setattr(dask_workers, "CONNECT_TIMEOUT", seconds)
            assert run([*STREAM, "dist", "--dask", local.scheduler_address]) == 2
            assert "has no workers" in capsys.readouterr().err

        with_more_time(attempt, (1, 8, 30))


def test_workers_with_another_version_or_without_the_wheels_are_an_error(
    address: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def errors_with(**changed: Any) -> str:
        for name, value in changed.items():
            monkeypatch.setattr(dask_workers, name, value)
        assert run([*STREAM, "dist", "--dask", address]) == 2
        monkeypatch.undo()
        monkeypatch.chdir(folder)
        return capsys.readouterr().err

    assert f"has wheelfix {wheelfix.__version__}, and this is 99" in errors_with(__version__="99")

    def cannot(_: str) -> None:
        raise ModuleNotFoundError("No module named 'wheelfix'")

    said = errors_with(_describe=cannot)
    assert "cannot run wheelfix: No module named 'wheelfix'" in said
    assert f"pip install wheelfix=={wheelfix.__version__}" in said

    def sees_nothing(_: str) -> tuple[str, bool]:
        return wheelfix.__version__, False

    assert "on a file system that all workers have" in errors_with(_describe=sees_nothing)
