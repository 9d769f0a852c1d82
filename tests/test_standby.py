"""auditwheel that waits for its work."""

import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from wheelfix.errors import ToolError
from wheelfix.tools.standby import Standby


def test_what_was_prepared_does_the_work_where_and_as_it_is_told(tmp_path: Path) -> None:
    with Standby(os.environ) as standby, _children() as started:
        standby.prepare()
        assert len(started()) == 1
        env = {"PATH": os.environ["PATH"], "AUDITWHEEL_PLAT": "nonsense"}
        with pytest.raises(ToolError, match="nonsense"):
            standby.run(["repair", "none.whl"], cwd=tmp_path, env=env)
        assert not started()
        said = standby.run(["--version"], cwd=tmp_path, env={})
        assert said.stdout.startswith("auditwheel 6")


def test_it_is_started_once_however_often_it_is_prepared() -> None:
    with Standby(os.environ) as standby, _children() as started:
        standby.prepare()
        standby.prepare()
        assert len(started()) == 1


def test_what_got_no_work_is_gone_at_the_end() -> None:
    with _children() as started:
        with Standby(os.environ) as standby:
            standby.prepare()
        assert not started()


def test_one_that_died_while_it_waited_is_an_error_and_no_hang(tmp_path: Path) -> None:
    with Standby(os.environ) as standby, _children() as started:
        standby.prepare()
        os.kill(started().pop(), signal.SIGKILL)
        with pytest.raises(ToolError, match="killed by signal 9"):
            standby.run(["--version"], cwd=tmp_path, env={})


@contextmanager
def _children() -> Generator[Callable[[], set[int]]]:
    before = _of_this_process()
    yield lambda: _of_this_process() - before


def _of_this_process() -> set[int]:
    tasks = Path("/proc/self/task").glob("*/children")
    return {int(number) for task in tasks for number in task.read_text().split()}
