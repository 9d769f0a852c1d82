"""Scripts and entry points: what an installer refuses (WF519), and what is not there (WF528)."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.build import extension, make_wheel
from tests.support.naming import SUFFIX, installed, run
from tests.support.values import findings, wheel
from wheelfix import Settings, check
from wheelfix.rules.entry_points_txt import installer_refuses, module_left_out
from wheelfix.rules.findings import Severity
from wheelfix.wheel.model import Member, Wheel


def with_entry_points(text: str) -> Wheel:
    plain = wheel({})
    return replace(plain, texts={f"{plain.dist_info}/entry_points.txt": text})


@pytest.mark.parametrize(
    "text",
    [
        "[console_scripts]\ndemo = demo.cli",
        "[console_scripts]\n../demo = demo.cli:main",
        "[console_scripts]\npython3 = demo.cli:main",
        "demo = demo.cli:main",
        "[console_scripts]\na = b:c\na = b:d",
        "# not UTF-8: \ufffd",
    ],
)
def test_an_entry_point_that_pip_or_uv_refuses_is_an_error(text: str) -> None:
    (found,) = findings(installer_refuses, with_entry_points(text))
    assert found.message == "has entry points that pip or uv refuses"


def test_a_name_with_a_space_is_installed_and_not_as_it_is_meant() -> None:
    (found,) = findings(installer_refuses, with_entry_points("[console_scripts]\na b = c:d"))
    assert found.message == "has entry points that pip and uv install differently"
    (both,) = findings(installer_refuses, with_entry_points("[console_scripts]\na b = c:d\ne = f"))
    assert both.message == "has entry points that pip or uv refuses"


@pytest.mark.parametrize(
    "text", ["", "[console_scripts]\ndemo = demo.cli:main\n\n[other]\nx = y", "# a comment"]
)
def test_other_entry_points_are_not_reported(text: str) -> None:
    assert not findings(installer_refuses, with_entry_points(text))


@pytest.mark.parametrize(
    ("script", "is_refused"), [("a/b", True), ("python3", True), ("demo", False)]
)
def test_a_script_that_uv_refuses_is_an_error(script: str, is_refused: object) -> None:
    plain = wheel({})
    member = Member(name=f"{plain.data_dir}/scripts/{script}", size=1, compressed_size=1)
    assert len(findings(installer_refuses, replace(plain, members=(member,)))) == is_refused


@pytest.mark.parametrize(
    ("value", "is_left_out"),
    [
        ("q.nope:main", True),
        ("q.typed:main", True),
        ("q.data:main", True),
        ("q.sub.nope:main", True),
        ("q.nope.deep:main", True),
        ("q:main", False),
        ("q.cli:main", False),
        ("q.native:main", False),
        ("q.sub:main", False),
        ("q.space.other:main", False),  # a namespace package may be of several distributions
        ("space.other:main", False),
        ("elsewhere.cli:main", False),
    ],
)
def test_a_script_whose_module_is_not_in_its_package_is_reported(
    value: str, *, is_left_out: bool
) -> None:
    files: tuple[str, ...] = ("q/__init__.py", "q/cli.py", "q/native.abi3.so", "q/sub/__init__.py")
    files += ("q/typed.pyi", "q/data/any.json")
    data = "demo-1.0.data/purelib/q/space/part.py"
    plain = wheel({}, *files, data, "space/part.py")
    texts = {f"{plain.dist_info}/entry_points.txt": f"[console_scripts]\nrun = {value}\n"}
    found = findings(module_left_out, replace(plain, texts=texts))
    assert len(found) == is_left_out
    plugin = {f"{plain.dist_info}/entry_points.txt": f"[plugins]\nrun = {value}\n"}
    assert not findings(module_left_out, replace(plain, texts=plugin))


@pytest.mark.parametrize(
    ("function", "source", "is_told"),
    [
        ("main", "def other(): pass\n", True),
        ("main", "def main(): pass\n", False),
        ("main", "from ._core import *\n", False),
        ("main", "def __getattr__(name): return print\n", False),
        ("main", "globals().update(found())\n", False),
        ("App.run", "class App: pass\n", False),
        ("App.run", "class Other: pass\n", True),
        ("sub.main", "", False),
    ],
)
def test_a_function_that_a_script_calls_is_in_the_source_of_its_module(
    tmp_path: Path, function: str, source: str, *, is_told: bool
) -> None:
    files: dict[str, Path | str] = {
        "p/__init__.py": f"{source}\n",
        f"p/_core{SUFFIX}": extension(tmp_path / "m.so", "_core"),
        "p/sub.py": "",
        "demo-1.0.dist-info/entry_points.txt": f"[console_scripts]\nrun = p:{function}\n",
    }
    found = check(make_wheel(tmp_path, files=files), Settings(select=("WF528",))).findings
    undefined = f"`p/__init__.py` does not define `{function.partition('.')[0]}`"
    said = f"script `run` is `p:{function}`, and {undefined}"
    assert [finding.message for finding in found] == [said] * is_told


@pytest.mark.parametrize(
    ("source", "severity"),
    [
        ("from .gone import x\n", Severity.ERROR),
        ("from p.gone import x\n", Severity.ERROR),
        ("from .sub import x\n", None),
        ("from . import gone\n", Severity.ERROR),
        ("import p.gone\n", Severity.ERROR),
        ("from .q import *\n", None),
        ("import p.api\n", Severity.ERROR),
        ("from . import api\n", Severity.ERROR),
        ("gone = 1\nfrom . import gone\n", None),
        ("from . import hook\nfrom . import gone\n", None),
        ("def __getattr__(name): return 1\nfrom . import gone\n", None),
        ("from .other import *\nfrom . import gone\n", None),
        ("try:\n    from .gone import x\nexcept ImportError:\n    x = 1\n", None),
        ("def late():\n    from .gone import x\n", None),
        ("import sys\nsys.modules['p.gone'] = sys\nfrom .gone import x\n", None),
        ("from other.gone import x\n", None),
        (
            "open(__file__.replace('__init__', 'gone'), 'w').write('x = 1')\nfrom .gone import x\n",
            None,
        ),
    ],
)
def test_a_module_that_a_package_always_imports_is_in_the_wheel(
    tmp_path: Path, source: str, severity: Severity | None
) -> None:
    files: dict[str, Path | str] = {
        "p/__init__.py": source,
        "p/sub.py": "x = 1\n",
        "p/q/__init__.py": "x = 1\n",
        "p/other.py": "gone = 1\n",
        "p/api.py": "from . import sub, gone\n",
        "p/hook.py": "import sys\nsys.modules['p.gone'] = sys\n",
        f"p/_core{SUFFIX}": extension(tmp_path / "m.so", "_core"),
    }
    chosen = Settings(select=("WF528",))
    found = check(made := make_wheel(tmp_path, files=files), chosen).findings
    assert [finding.severity for finding in found] == [severity] * (severity is not None)
    if severity is not None:
        failed = run(installed(made, tmp_path / "site"), "import p").stderr
        assert "ModuleNotFoundError" in failed or "cannot import name 'gone'" in failed
        requires = "Requires-Dist: other\n"  # it may have the module
        beside = make_wheel(tmp_path / "other", files=files, metadata=requires)
        assert [f.severity for f in check(beside, chosen).findings] == [Severity.WARNING]


def test_many_sections_cost_little() -> None:
    """`configparser` takes 6 seconds for these 1 MB."""

    def cost(sections: int) -> float:
        text = "".join(f"[s{number}]\na = b:c\n" for number in range(sections))
        subject, start = with_entry_points(text), time.process_time()
        assert not findings(installer_refuses, subject)
        return time.process_time() - start

    assert cost(50_000) < 20 * max(cost(10_000), 0.01)
