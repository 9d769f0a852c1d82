"""Answers of the import probe: what an import wrote to its descriptors is not taken for one."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.build import extension
from wheelfix.errors import ToolError
from wheelfix.host.ask_import_probe import ask_probe, no_answer
from wheelfix.system.subprocesses import Completed, run

WHOLE = {"pid": 1, "code": 0, "tail": "", "answered": True, "maps": [["08:01", "5", "/x"]]}
CHANGES: tuple[Mapping[str, Any], ...] = (
    {"pid": "1"},
    {"code": None},
    {"tail": []},
    {"maps": 5},
    {"maps": [[1, 2]]},
    {"error": 5, "type": "x"},
    {"causes": "x"},
    {"origins": [5]},
    {"more": 1},
)


def ask(line: str) -> Mapping[str, Any]:
    def answered(*_: object, **_named: object) -> Completed:
        return Completed(("python",), line, "")

    [answer] = ask_probe(answered, "python", [{}], environ={}, home=Path("/"), seconds=1)
    return answer


def test_a_whole_answer_is_believed() -> None:
    assert no_answer(ask(json.dumps(WHOLE))) == ""


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_an_answer_of_other_types_is_not_believed(change: Mapping[str, Any]) -> None:
    with pytest.raises(ToolError, match="before all attempts"):
        ask(json.dumps({**WHOLE, **change}))


def test_an_answer_without_maps_is_not_believed() -> None:
    with pytest.raises(ToolError, match="before all attempts"):
        ask('{"pid": 1, "code": 0, "tail": "", "answered": true}')


def test_a_module_may_lie_below_a_link_and_a_name_with_a_newline(tmp_path: Path) -> None:
    """The probe says where: the paths of a container are not those of this machine."""
    (tmp_path / "a\nb").mkdir()
    extension(tmp_path / "a\nb/core.so", "core")
    (tmp_path / "link").symlink_to("a\nb")
    [answer] = ask_probe(
        run,
        sys.executable,
        [{"kind": "import", "what": "core"}],
        environ={**os.environ, "PYTHONPATH": str(tmp_path / "link")},
        home=tmp_path,
        seconds=30,
    )
    assert no_answer(answer) == ""
    assert answer["origins"] == [str(tmp_path / "a\nb/core.so")]


def test_the_probe_takes_no_module_from_where_the_wheel_is(tmp_path: Path) -> None:
    """Code that Python runs at its start has imported them; the import of the wheel finds them."""
    for name in ("contextlib", "types", "importlib", "ctypes"):
        (tmp_path / f"{name}.py").write_text(f"import os\nopen({name!r} + str(os.getpid()), 'w')\n")
    (tmp_path / "sitecustomize.py").write_text("import contextlib, types, importlib\n")
    (tmp_path / "demo.py").write_text("import ctypes\nassert 'demo' not in dir(ctypes)\n")
    [answer] = ask_probe(
        run,
        sys.executable,
        [{"kind": "import", "what": "demo"}],
        environ={**os.environ, "PYTHONPATH": str(tmp_path)},
        home=tmp_path,
        seconds=30,
    )
    assert (no_answer(answer), answer.get("error")) == ("", None)
    assert [path.name for path in tmp_path.glob("ctypes[0-9]*")] == [f"ctypes{answer['pid']}"]


def test_what_ended_the_probe_is_named_and_may_be_code_that_it_imports(tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text("import os\nos.kill(os.getppid(), 15)\n")
    with pytest.raises(ToolError, match=r"killed by signal 15 \(SIGTERM\)") as refused:
        ask_probe(
            run,
            sys.executable,
            [{"kind": "import", "what": "ends"}],
            environ={**os.environ, "PYTHONPATH": str(tmp_path)},
            home=tmp_path,
            seconds=30,
        )
    assert "an imported module may have killed" in str(refused.value.hint)


def test_a_limit_of_processes_or_files_is_no_traceback() -> None:
    """The limit of processes does not apply to root; that of files stands for it."""

    def under_a_limit(command: Sequence[str], **named: Any) -> Completed:
        return run(["sh", "-c", 'ulimit -n 8; exec "$@"', "sh", *command], **named)

    jobs = [{"kind": "import", "what": "json", "path": "", "timeout": 5}]
    with pytest.raises(ToolError) as refused:
        ask_probe(
            under_a_limit, sys.executable, jobs, environ=dict(os.environ), home=Path("/"), seconds=5
        )
    assert "Too many open files: raise the limit" in refused.value.message
    assert "Traceback" not in refused.value.message
