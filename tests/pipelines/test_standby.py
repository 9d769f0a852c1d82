"""auditwheel that waits for its work."""

import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from wheelfix.errors import ToolError
from wheelfix.pipelines.standby import Standby


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


def test_no_task_leaves_anything_to_the_next(tmp_path: Path) -> None:
    """Neither what it made of its environment, nor a program that it started."""
    places = [tmp_path / "first", tmp_path / "second"]
    code = (
        "import os, subprocess, sys\n"
        "print(os.getcwd(), sorted(os.environ), sys.argv[1:], hasattr(os, 'mark'))\n"
        "os.mark = os.environ['MARK'] = 'left'\n"
        "subprocess.Popen(['sleep', '99'])\n"
    )
    fake = tmp_path / "fake" / "auditwheel"
    fake.mkdir(parents=True)
    (fake / "__init__.py").write_text("")
    (fake / "__main__.py").write_text(code)
    with _children() as started:
        with Standby({**os.environ, "PYTHONPATH": str(fake.parent)}) as standby:
            for place in places:
                place.mkdir()
                env = {"PATH": os.defpath}
                said = standby.run([place.name], cwd=place, env=env, last=False)
                known = "['PATH', 'PYTHONHASHSEED', 'PYTHONUTF8']"
                assert said.stdout == f"{place} {known} ['{place.name}'] False\n"
            (program,) = started()
            assert len(_of_group(program)) == 3
        assert not _of_group(program)


def test_a_task_may_be_longer_than_a_pipe_and_so_may_what_it_says(tmp_path: Path) -> None:
    with Standby(os.environ) as standby, pytest.raises(ToolError, match=r"x{1000}"):
        standby.run(["x" * 100_000], cwd=tmp_path, env={"PATH": "y" * 100_000})


def test_where_more_wheels_are_to_come_it_stays(tmp_path: Path) -> None:
    with Standby(os.environ) as standby, _children() as started:
        standby.stays = True
        standby.run(["--version"], cwd=tmp_path, env={})
        before = started()
        standby.run(["--version"], cwd=tmp_path, env={})
        assert len(before) == 1
        assert started() == before


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


def _of_group(leader: int) -> list[int]:
    """Return the processes of a process group that still run."""
    found: list[int] = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, group = each.read_text().rpartition(")")[2].split()[:3]
            found += [int(each.parent.name)] if int(group) == leader and state != "Z" else []
    return found


def _of_this_process() -> set[int]:
    tasks = Path("/proc/self/task").glob("*/children")
    return {int(number) for task in tasks for number in task.read_text().split()}
