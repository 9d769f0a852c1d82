"""The processes that auditwheel works in: isolated, reused, and ended with their user."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import build
from tests.support.fakes import use_fake_auditwheel
from wheelfix.errors import ToolError
from wheelfix.pipelines.auditwheel_analysis import Analysis, Auditwheel, Question, Refusal


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return build.shared_object(
        tmp_path / "lib" / "libb.so.2", "int b(void) { return 1; }", soname="libb.so.2"
    )


@pytest.fixture
def wheel(tmp_path: Path, library: Path) -> Path:
    x = build.extension(tmp_path / "x.so", "x", needed=[library], calls=["b"])
    return build.make_wheel(tmp_path / "wheel", files={"p/x.so": x})


def question(wheel: Path, environ: Mapping[str, str] | None = None, **fields: Any) -> Question:
    values: dict[str, Any] = {
        "exclude": frozenset[str](), "platform": "auto", "ldpaths": None, "isa_ext_check": True,
    }  # fmt: skip
    return Question(wheel=wheel, environ=environ or {}, **{**values, **fields})


def analysis(auditwheel: Auditwheel, asked: Question) -> Analysis:
    found = auditwheel.analyze(asked)
    assert isinstance(found, Analysis)
    return found


def test_each_question_has_its_own_environment_alone(wheel: Path, library: Path) -> None:
    with Auditwheel({}) as auditwheel:
        searching = {"LD_LIBRARY_PATH": str(library.parent)}
        for environ in (searching, {}, searching):
            found = analysis(auditwheel, question(wheel, environ)).policies[-1].external
            assert found == {"libb.so.2": library if environ else None}


def test_libc_and_architecture_come_from_the_objects_where_no_name_has_them(
    wheel: Path, tmp_path: Path
) -> None:
    with Auditwheel({}) as auditwheel:
        for plat in ("auto", "manylinux_2_28_x86_64"):
            found = analysis(auditwheel, question(wheel, platform=plat))
            assert found.policies[0].name == f"linux_{os.uname().machine}"
        foreign = wheel.rename(wheel.with_name("demo-1.0-cp311-cp311-linux_s390x.whl"))
        assert auditwheel.analyze(question(foreign)) is Refusal.NO_OBJECT
        bare = build.shared_object(
            tmp_path / "m.so", "int PyInit_m(void) { return 1; }", libc=False
        )
        unknown = build.make_wheel(tmp_path / "bare", files={"p/m.so": bare})
        assert auditwheel.analyze(question(unknown)) is Refusal.LIBC_UNKNOWN
        named = question(unknown, platform="manylinux_2_28_x86_64")
        assert analysis(auditwheel, named).overall.startswith("manylinux")


def test_one_process_does_the_work_of_all_questions(wheel: Path) -> None:
    with _children() as started:
        with Auditwheel({}) as auditwheel:
            before = started()
            for _ in range(2):
                analysis(auditwheel, question(wheel))
            assert len(before) == 1
            assert started() == before
        assert not started()


def test_a_wheel_that_auditwheel_cannot_read_is_an_error_and_the_process_goes_on(
    wheel: Path, tmp_path: Path
) -> None:
    broken = tmp_path / wheel.name
    broken.write_bytes(b"PK no zip")
    with _children() as started, Auditwheel({}) as auditwheel:
        before = started()
        with pytest.raises(ToolError, match=r"auditwheel failed: BadZipFile"):
            auditwheel.analyze(question(broken))
        analysis(auditwheel, question(wheel))
        assert started() == before


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("sys.exit('cannot do that')", "cannot do that"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise MemoryError", "MemoryError"),
        ("os.kill(os.getpid(), 9)", "ended abruptly"),
        ("subprocess.Popen(['sleep', '99']); time.sleep(99)", "did not end within 2 seconds"),
        ("pass", "ModuleNotFoundError"),
    ],
)
def test_an_auditwheel_that_misbehaves_is_an_error(
    code: str, words: str, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake_auditwheel(monkeypatch, tmp_path / "fake", code)
    monkeypatch.setattr("wheelfix.pipelines.auditwheel_analysis.TIMEOUT", 2)
    with _children() as started:
        with Auditwheel({}) as auditwheel, pytest.raises(ToolError, match=words) as caught:
            auditwheel.analyze(question(wheel))
        assert caught.value.hint
        assert not started()


def test_a_process_that_died_while_it_waited_is_an_error_and_the_next_question_gets_another(
    wheel: Path,
) -> None:
    with _children() as started, Auditwheel({}) as auditwheel:
        os.kill(started().pop(), signal.SIGKILL)
        with pytest.raises(ToolError, match="ended abruptly"):
            auditwheel.analyze(question(wheel))
        assert analysis(auditwheel, question(wheel)).policies


def test_the_process_ends_with_a_parent_that_is_killed() -> None:
    code = (
        "import time\nfrom wheelfix.pipelines.auditwheel_analysis import Auditwheel\n"
        "with Auditwheel({}): print(flush=True); time.sleep(99)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        (worker,) = _children_of(parent.pid)
        parent.kill()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{worker}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_script_without_a_guard_is_not_run_twice(wheel: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from wheelfix import Settings, repair\n"
        "print('begun')\n"
        f"print(repair({str(wheel)!r}, Settings(exclude=('libb.so*',)), dry_run=True).status)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout == "begun\nplanned\n"


@contextmanager
def _children() -> Generator[Callable[[], set[int]]]:
    before = _children_of(os.getpid())
    yield lambda: _children_of(os.getpid()) - before


def _children_of(pid: int) -> set[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return {int(number) for task in tasks for number in task.read_text().split()}
