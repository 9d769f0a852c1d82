"""The processes that auditwheel works in: isolated, reused, and ended with their user."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import build, repairing
from tests.support.fakes import use_fake_auditwheel
from tests.support.kept_auditwheel import keep_none
from tests.support.waiting import wait_until
from wheelfix.analysis.auditwheel_answer import Analysis
from wheelfix.errors import ToolError
from wheelfix.host.machine_files import Trust
from wheelfix.pipelines.auditwheel_worker import Auditwheel, AuditwheelRefusal, Question
from wheelfix.settings import Settings


@pytest.fixture(autouse=True)
def _own_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_none(monkeypatch)


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
        "trust": Trust.of_process(), "timeout": 60,
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
        assert auditwheel.analyze(question(foreign)) is AuditwheelRefusal.NO_OBJECT
        bare = build.shared_object(
            tmp_path / "m.so", "int PyInit_m(void) { return 1; }", libc=False
        )
        unknown = build.make_wheel(tmp_path / "bare", files={"p/m.so": bare})
        assert auditwheel.analyze(question(unknown)) is AuditwheelRefusal.LIBC_UNKNOWN
        named = question(unknown, platform="manylinux_2_28_x86_64")
        assert analysis(auditwheel, named).overall.startswith("manylinux")


def test_one_process_does_the_work_of_all_questions(wheel: Path) -> None:
    with _children() as started:
        with Auditwheel({}) as auditwheel:
            assert not started()
            analysis(auditwheel, question(wheel))
            before = started()
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
        with pytest.raises(ToolError, match=r"auditwheel failed: BadZipFile"):
            auditwheel.analyze(question(broken))
        before = started()
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
        ("subprocess.Popen(['sleep', '999']); time.sleep(999)", "did not end within 2 seconds"),
        ("pass", "ModuleNotFoundError"),
    ],
)
def test_an_auditwheel_that_misbehaves_is_an_error(
    code: str, words: str, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake_auditwheel(monkeypatch, tmp_path / "fake", code)
    with _children() as started:
        with Auditwheel({}) as auditwheel, pytest.raises(ToolError, match=words) as caught:
            auditwheel.analyze(question(wheel, timeout=2 if "sleep" in code else 600))
        assert caught.value.hint
        assert not started()


def test_a_process_that_died_while_it_waited_is_an_error_and_the_next_question_gets_another(
    wheel: Path,
) -> None:
    with _children() as started, Auditwheel({}) as auditwheel:
        analysis(auditwheel, question(wheel))
        os.kill(started().pop(), signal.SIGKILL)
        with pytest.raises(ToolError, match="ended abruptly"):
            auditwheel.analyze(question(wheel))
        assert analysis(auditwheel, question(wheel)).policies


def test_the_process_ends_with_a_parent_that_is_killed(wheel: Path) -> None:
    code = (
        "import time\nfrom pathlib import Path\n"
        "from wheelfix.pipelines.auditwheel_worker import Auditwheel\n"
        "from tests.pipelines.test_auditwheel_worker import question\n"
        "with Auditwheel({}) as auditwheel:\n"
        f"    auditwheel.analyze(question(Path({str(wheel)!r})))\n"
        "    print(flush=True); time.sleep(999)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        (worker,) = _children_of(parent.pid)
        parent.kill()
    wait_until(lambda: not Path(f"/proc/{worker}").exists())


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


# --- Files that auditwheel must not open ----------------------------------------------------------


def _fifo(path: Path, library: Path) -> None:
    del library
    os.mkfifo(path)


def _device(path: Path, library: Path) -> None:
    del library
    path.symlink_to("/dev/zero")


def _loop(path: Path, library: Path) -> None:
    del library
    path.symlink_to(path.name)


def _text(path: Path, library: Path) -> None:
    del library
    path.write_text("GROUP ( libb.so.2 )")


def _sparse(path: Path, library: Path) -> None:
    path.write_bytes(library.read_bytes())
    os.truncate(path, 40 << 30)


@pytest.mark.parametrize("make", [_fifo, _device, _loop, _text, _sparse])
@pytest.mark.parametrize("is_absolute", [True, False])
def test_what_is_not_a_library_is_passed_over(
    tmp_path: Path, library: Path, make: Callable[[Path, Path], None], *, is_absolute: bool
) -> None:
    """As by its name in DT_NEEDED, or in a folder of the search path."""
    folder = tmp_path / "x"
    needed = build.shared_object(
        tmp_path / "own" / "libb.so.2",
        "int b(void) { return 1; }",
        soname=str(folder / "libb.so.2") if is_absolute else "libb.so.2",
    )
    rpath = None if is_absolute else f"{folder}:{library.parent}"
    x = build.extension(tmp_path / "x.so", "x", needed=[needed], calls=["b"], rpath=rpath)
    wheel = build.make_wheel(tmp_path / "wheel", files={"p/x.so": x})
    folder.mkdir()
    make(folder / "libb.so.2", library)
    with Auditwheel({}) as auditwheel:
        found = analysis(auditwheel, question(wheel)).policies[-1].external
    name = str(folder / "libb.so.2") if is_absolute else "libb.so.2"
    assert found == {name: None if is_absolute else library}


def test_a_library_of_another_user_is_passed_over(wheel: Path, library: Path) -> None:
    environ = {"LD_LIBRARY_PATH": str(library.parent)}
    everyone = library.stat().st_uid
    with Auditwheel({}) as auditwheel:
        asked = question(wheel, environ, trust=Trust(frozenset({everyone + 1}), None))
        found = analysis(auditwheel, asked)
        assert found.policies[-1].external == {"libb.so.2": None}
        (passed,) = (other for other in found.untrusted if other.name == "libb.so.2")
        assert passed.reason.startswith(f"`{library}` is not used, as `/` belongs to ")
        sudo = "sudo " if os.geteuid() else ""
        assert passed.remedy == f"{sudo}chown -h root /"
        assert not analysis(auditwheel, question(wheel, environ)).untrusted


@pytest.mark.parametrize("name", ["n" * 300, "n" * 5000, "/" + "n" * 300, "a\nb"])
def test_a_needed_name_that_is_not_a_file_name_is_not_found(tmp_path: Path, name: str) -> None:
    needed = build.shared_object(tmp_path / "libb.so", "int b(void) { return 1; }", soname=name)
    x = build.extension(tmp_path / "x.so", "x", needed=[needed], calls=["b"], rpath=str(tmp_path))
    wheel = build.make_wheel(tmp_path / "wheel", files={"p/x.so": x})
    with Auditwheel({}) as auditwheel:
        assert analysis(auditwheel, question(wheel)).policies[-1].external == {name: None}


def test_a_failure_of_auditwheel_is_one_sentence(wheel: Path, tmp_path: Path) -> None:
    broken = tmp_path / wheel.name
    broken.write_bytes(b"PK no zip")
    with Auditwheel({}) as auditwheel, pytest.raises(ToolError) as caught:
        auditwheel.analyze(question(broken))
    assert re.fullmatch(
        r"auditwheel failed: BadZipFile: File is not a zip file \(\w+\.py, line \d+\)",
        caught.value.message,
    )


@pytest.mark.parametrize("tags", ["cp3²-none", f"py3.{'.'.join(map(chr, range(97, 123)))}-a.b"])
def test_a_file_name_that_packaging_refuses_is_no_matter(
    tmp_path: Path, tags: str, library: Path
) -> None:
    x = build.extension(tmp_path / "x.so", "x", needed=[library], calls=["b"])
    tag = f"{tags}-linux_{os.uname().machine}"
    wheel = build.make_wheel(tmp_path / "wheel", tag=tag, files={"p/x.so": x})
    asked = Settings(wheel_dir=tmp_path / "out", library_path=(str(library.parent),))
    outcome = repairing.repair(wheel, asked, {})
    assert [graft.host.source for graft in outcome.grafted] == [library], outcome.error


@pytest.mark.parametrize("make", [_fifo, _loop, _device])
def test_a_program_whose_loader_is_not_a_file_is_repaired(
    tmp_path: Path, library: Path, make: Callable[[Path, Path], None]
) -> None:
    """auditwheel follows PT_INTERP, and takes it for a library if DT_NEEDED has its name."""
    loader = tmp_path / "libb.so.2"
    make(loader, library)
    program = build.executable(
        tmp_path / "program",
        "int b(void); int main(void) { return b(); }",
        needed=[library],
        flags=[f"-Wl,--dynamic-linker={loader}"],
        rpath=str(library.parent),
    )
    wheel = build.make_wheel(tmp_path / "wheel", files={"p/program": program})
    outcome = repairing.repair(wheel, Settings(wheel_dir=tmp_path / "out"), {})
    assert [graft.host.source for graft in outcome.grafted] == [library], outcome.error
