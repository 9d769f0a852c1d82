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
from wheelfix.host.library_search import HostLibraries
from wheelfix.host.machine_files import Trust
from wheelfix.pipelines.analyst import Analyst
from wheelfix.pipelines.ask_auditwheel import Auditwheel, Question
from wheelfix.settings import Settings
from wheelfix.wheel.reader import open_wheel


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


def shown(auditwheel: Auditwheel, question: Question) -> Mapping[str, Any]:
    with auditwheel.show(question) as answer:
        return answer()


def question(wheel: Path, timeout: int = 60) -> Question:
    return Question(wheel, isa_ext_check=True, timeout=timeout)


def test_what_this_machine_has_makes_no_difference(
    wheel: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LD_LIBRARY_PATH", "AUDITWHEEL_LD_LIBRARY_PATH"):
        monkeypatch.setenv(name, str(library.parent))
    monkeypatch.setenv("AUDITWHEEL_ZIP_COMPRESSION_LEVEL", "eleven")
    with Auditwheel(os.environ) as auditwheel:
        assert shown(auditwheel, question(wheel))["external_libs"] == {"libb.so.2": None}


def test_the_process_starts_before_it_is_asked(wheel: Path) -> None:
    with _children() as started:
        with Auditwheel({}) as auditwheel:
            auditwheel.prepare()
            auditwheel.prepare()
            before = started()
            assert len(before) == 1
            shown(auditwheel, question(wheel))
            assert started() == before
        assert not started()


def test_one_process_does_the_work_of_all_questions(wheel: Path) -> None:
    with _children() as started:
        with Auditwheel({}) as auditwheel:
            assert not started()
            shown(auditwheel, question(wheel))
            before = started()
            shown(auditwheel, question(wheel))
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
            shown(auditwheel, question(broken))
        before = started()
        shown(auditwheel, question(wheel))
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
        ("pass", "AttributeError"),
    ],
)
def test_an_auditwheel_that_misbehaves_is_an_error(
    code: str, words: str, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake_auditwheel(monkeypatch, tmp_path / "fake", code)
    with _children() as started:
        with Auditwheel({}) as auditwheel, pytest.raises(ToolError, match=words) as caught:
            shown(auditwheel, question(wheel, timeout=2 if "sleep" in code else 600))
        assert caught.value.hint
        assert not started()


def test_a_process_that_died_while_it_waited_is_an_error_and_the_next_question_gets_another(
    wheel: Path,
) -> None:
    with _children() as started, Auditwheel({}) as auditwheel:
        shown(auditwheel, question(wheel))
        os.kill(started().pop(), signal.SIGKILL)
        with pytest.raises(ToolError, match="ended abruptly"):
            shown(auditwheel, question(wheel))
        assert shown(auditwheel, question(wheel))


def test_a_process_whose_answer_is_not_waited_for_ends(wheel: Path) -> None:
    with _children() as started, Auditwheel({}) as auditwheel:
        with auditwheel.show(question(wheel)):
            assert len(started()) == 1
        assert not started()
        assert shown(auditwheel, question(wheel))


def test_the_process_ends_with_a_parent_that_is_killed(wheel: Path) -> None:
    code = (
        "import time\nfrom pathlib import Path\n"
        "from wheelfix.pipelines.ask_auditwheel import Auditwheel\n"
        "from tests.pipelines.test_auditwheel_worker import question, shown\n"
        "with Auditwheel({}) as auditwheel:\n"
        f"    shown(auditwheel, question(Path({str(wheel)!r})))\n"
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


# --- Files that no search for a library opens -----------------------------------------------------


def analysis(wheel: Path, environ: Mapping[str, str] | None = None) -> Analysis:
    with open_wheel(wheel) as archive:
        host = HostLibraries(archive=archive, library_path=(), environ=environ or {})
        return Analyst(host).analyze(archive.wheel, Settings(), ())


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
    found = analysis(wheel).policies[-1].external
    name = str(folder / "libb.so.2") if is_absolute else "libb.so.2"
    assert found == {name: None if is_absolute else library}


def test_a_library_of_another_user_is_passed_over(
    wheel: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"LD_LIBRARY_PATH": str(library.parent)}
    assert not analysis(wheel, environ).untrusted
    nobody = Trust(frozenset({library.stat().st_uid + 1}), None)
    monkeypatch.setattr(Trust, "of_process", lambda: nobody)
    found = analysis(wheel, environ)
    assert found.policies[-1].external == {"libb.so.2": None}
    (passed,) = found.untrusted
    assert passed.name == "libb.so.2"
    assert passed.reason.startswith(f"`{library}` is not used, as `/` belongs to ")
    sudo = "sudo " if os.geteuid() else ""
    assert passed.remedy == f"{sudo}chown -h root /"


@pytest.mark.parametrize("name", ["n" * 300, "/" + "n" * 300, "a\nb"])
def test_a_needed_name_that_is_not_a_file_name_is_not_found(tmp_path: Path, name: str) -> None:
    needed = build.shared_object(tmp_path / "libb.so", "int b(void) { return 1; }", soname=name)
    x = build.extension(tmp_path / "x.so", "x", needed=[needed], calls=["b"], rpath=str(tmp_path))
    wheel = build.make_wheel(tmp_path / "wheel", files={"p/x.so": x})
    assert analysis(wheel).policies[-1].external == {name: None}
    outcome = repairing.repair(wheel, Settings(wheel_dir=tmp_path / "out", exclude=(name,)), {})
    assert outcome.verdict is not None, outcome.error


def test_a_failure_of_auditwheel_is_one_sentence(wheel: Path, tmp_path: Path) -> None:
    broken = tmp_path / wheel.name
    broken.write_bytes(b"PK no zip")
    with Auditwheel({}) as auditwheel, pytest.raises(ToolError) as caught:
        shown(auditwheel, question(broken))
    assert re.fullmatch(
        r"auditwheel failed: BadZipFile: File is not a zip file \(\w+\.py, line \d+\)",
        caught.value.message,
    )


def test_a_file_name_that_packaging_refuses_is_no_matter(tmp_path: Path, library: Path) -> None:
    x = build.extension(tmp_path / "x.so", "x", needed=[library], calls=["b"])
    many = ".".join(map(chr, range(97, 123)))
    tag = f"py3.{many}-a.b-linux_{os.uname().machine}"
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
