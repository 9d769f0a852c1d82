"""Results in the order of the items, a bounded number of calls, and workers that die or hang."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from multiprocessing import active_children
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from tests.support.build import make_wheel
from tests.support.waiting import HANGS, wait_until, with_more_time
from wheelfix.errors import BadWheelError, ToolError
from wheelfix.system.workers import (
    InExecutor,
    InProcess,
    WorkerProcesses,
    Workers,
)


def outcomes(found: Iterator[tuple[int, Any]]) -> Generator[Any]:
    """Yield results, and the item and class of each error."""
    for item, result in found:
        yield f"{item}: {type(result).__name__}" if isinstance(result, Exception) else result


def double(item: int) -> Any:
    if item == 7:
        raise ValueError("seven")
    return 2 * item


def double_slowly(item: int) -> Any:
    time.sleep(0.02 if item % 5 == 0 else 0.001)
    return double(item)


def refuse_two(item: int) -> Any:
    if item == 2:
        raise BadWheelError("all are", hint="go on")
    return item


def die_or_hang(item: int) -> Any:
    if item % 10 == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if item % 10 == 4:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        ctypes.PyDLL(None).pause()  # it never ends, and keeps the interpreter
    return double(item)


def lock_for_one(item: int) -> Any:
    return Lock() if item == 1 else item


def wait_for(file: Path) -> Any:
    wait_until(file.exists)


def own_id(_: int) -> Any:
    return os.getpid()


def leave_trace(folder: Path, item: int) -> Any:
    (folder / str(item)).touch()
    time.sleep(0.5 if item == 0 else 0)
    return item


@contextmanager
def threads() -> Generator[Workers]:
    with ThreadPoolExecutor(3) as pool:
        yield InExecutor(pool)


def processes(timeout: float = 0) -> WorkerProcesses:
    return WorkerProcesses(3, timeout=timeout, memory=None)


@pytest.mark.parametrize("make", [lambda: nullcontext(InProcess()), threads, processes])
def test_results_come_in_the_order_of_the_items(
    make: Callable[[], AbstractContextManager[Workers]],
) -> None:
    with make() as workers:
        results = list(outcomes(workers.map_in_order(double_slowly, range(100))))
    assert results == [2 * item if item != 7 else "7: ValueError" for item in range(100)]
    assert not active_children()


@pytest.mark.parametrize("make", [lambda: nullcontext(InProcess()), threads, processes])
def test_an_error_of_the_whole_run_is_raised(
    make: Callable[[], AbstractContextManager[Workers]],
) -> None:
    with make() as workers:
        found = outcomes(workers.map_in_order(refuse_two, range(6)))
        assert [next(found), next(found)] == [0, 1]
        with pytest.raises(BadWheelError, match="all are") as caught:
            next(found)
    assert caught.value.hint == "go on"


# --- Processes ------------------------------------------------------------------------------------


def test_a_worker_that_dies_or_hangs_loses_only_its_item() -> None:
    expected = {7: "7: ValueError"}
    expected |= {item: f"{item}: WorkerDiedError" for item in (3, 13)}
    expected |= {item: f"{item}: WorkerTimeoutError" for item in (4, 14)}

    def attempt(limit: int) -> None:
        with processes(timeout=limit) as workers:
            results = list(outcomes(workers.map_in_order(die_or_hang, range(20))))
        assert results == [expected.get(item, 2 * item) for item in range(20)]

    with_more_time(attempt)


def test_a_result_that_cannot_be_pickled_is_a_failure() -> None:
    with processes() as workers:
        assert list(outcomes(workers.map_in_order(lock_for_one, range(3)))) == [
            0,
            "1: TypeError",
            2,
        ]


def test_a_worker_that_dies_while_idle_loses_nothing() -> None:
    with WorkerProcesses(1, timeout=0, memory=None) as workers:
        found = outcomes(workers.map_in_order(own_id, range(2)))
        first = int(next(found))
        os.kill(first, signal.SIGKILL)
        os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
        assert isinstance(next(found), int)


def test_a_worker_that_nobody_ends_does_not_keep_the_program_alive() -> None:
    program = "from wheelfix.system.workers import WorkerProcess\nkept = WorkerProcess()\n"
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=HANGS)
    assert done.returncode == 0


@pytest.mark.parametrize("count", [1, 2])
def test_a_slow_item_does_not_pile_up_results_of_processes(count: int, tmp_path: Path) -> None:
    with WorkerProcesses(count, timeout=0, memory=None) as workers:
        found = outcomes(workers.map_in_order(partial(leave_trace, tmp_path), range(1000)))
        assert next(found) == 0
        assert len(list(tmp_path.iterdir())) <= 16 * count + count


# --- Executors ------------------------------------------------------------------------------------


def test_items_are_submitted_a_few_at_a_time() -> None:
    lock, running, most, taken = Lock(), 0, 0, 0

    def work(item: int) -> Any:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02 if item % 5 == 0 else 0.001)
        with lock:
            running -= 1
        return double(item)

    def items() -> Iterator[int]:
        nonlocal taken
        for item in range(100):
            taken += 1
            yield item

    with ThreadPoolExecutor(50) as pool:
        results: list[int | str] = []
        for result in outcomes(InExecutor(pool, window=4).map_in_order(work, items())):
            results.append(result)
            assert taken <= len(results) + 4
    assert results == [2 * item if item != 7 else "7: ValueError" for item in range(100)]
    assert most <= 4


def test_a_slow_first_item_does_not_pile_up_results() -> None:
    made = 0

    def work(item: int) -> Any:
        nonlocal made
        time.sleep(0.5 if item == 0 else 0)
        made += 1
        return item

    with ThreadPoolExecutor(2) as pool:
        found = outcomes(InExecutor(pool, window=32).map_in_order(work, range(1000)))
        assert next(found) == 0
        assert made <= 32
        found.close()
    assert made < 1000


class Broken(Executor):
    """An executor that breaks at its third call."""

    def __init__(self) -> None:
        self.calls = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.calls += 1
        if self.calls >= 3:
            raise BrokenExecutor("gone")
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def test_an_executor_that_breaks_is_an_error() -> None:
    found = outcomes(InExecutor(Broken()).map_in_order(double, range(6)))
    assert [next(found), next(found)] == [0, 2]
    with pytest.raises(ToolError, match="ended abruptly"):
        next(found)


def test_a_call_that_the_executor_cancels_is_an_error() -> None:
    cancelled: Future[Any] = Future()
    cancelled.cancel()

    class Gone(Executor):
        def submit(self, *_: Any, **__: Any) -> Future[Any]:
            return cancelled

    with pytest.raises(ToolError, match="the workers are gone"):
        list(outcomes(InExecutor(Gone()).map_in_order(double, range(3))))


@pytest.mark.each_run("spawn")
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_nothing_of_the_current_directory_is_imported(method: str, tmp_path: Path) -> None:
    """The default start method of Python 3.14, forkserver, runs `python -c` in that directory."""
    here = tmp_path / "here"
    here.mkdir()
    for name in ("multiprocessing", "json", "zipfile", "auditwheel", "uuid", "tomllib", "typer"):
        (here / f"{name}.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\n")
    wheels = [str(make_wheel(tmp_path, name)) for name in ("one", "two")]
    script = tmp_path / "bin" / "wheelfix"
    script.parent.mkdir()
    script.write_text(
        f"import multiprocessing, sys\nmultiprocessing.set_start_method({method!r})\n"
        "from wheelfix.__main__ import main\nfrom wheelfix.cli.app import run\n"
        "if __name__ == '__main__':\n"
        "    assert run(['check', '-j2', *sys.argv[1:]]) in {0, 1}\n"
        "    sys.argv[1:1] = ['repair', '-j2']\n    main()\n"
    )
    arguments = [sys.executable, str(script), *wheels]
    environ = {**os.environ, "WHEELFIX_WHEEL_DIR": str(tmp_path / "out")}
    done = subprocess.run(
        arguments, cwd=here, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode in {0, 1}, done.stderr
    assert not (tmp_path / "executed").exists()
