"""Objects that are only ever loaded through others, or that nothing imports."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.build import executable, extension, make_wheel, shared_object
from tests.support.naming import SUFFIX, TAG
from wheelfix.cli.app import run

Files = dict[str, bytes | str | Path]


def severities(wheel: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Return the severity of each rule with findings, by code."""
    run(["check", "--output-format", "json", str(wheel)])
    report: Any = json.loads(capsys.readouterr().out)
    (only,) = report["wheels"]
    return {finding["code"]: finding["severity"] for finding in only["findings"]}


def inheriting(folder: Path, source: str = "") -> Path:
    """Build a module with a DT_RPATH, by which its library finds a third one."""
    inner = shared_object(folder / "libinner.so", "int i(void) { return 1; }", soname="libinner.so")
    outer = shared_object(
        folder / "libouter.so",
        "int i(void); int o(void) { return i(); }",
        soname="libouter.so",
        needed=[inner],
    )
    module = extension(folder / "_m", "_m", needed=[outer], calls=["o"], rpath="$ORIGIN/lib")
    files: Files = {
        "demo/__init__.py": source,
        f"demo/_m{SUFFIX}": module,
        "demo/lib/libouter.so": outer,
        "demo/lib/libinner.so": inner,
    }
    return make_wheel(folder / "dist", tag=TAG, files=files)


def test_a_library_that_only_others_load_may_inherit_their_search_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = severities(inheriting(tmp_path), capsys)
    assert found["WF102"] == "note"
    assert "WF101" not in found


def test_a_library_that_is_opened_by_name_has_to_find_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opens = (
        "import ctypes, pathlib\nctypes.CDLL(pathlib.Path(__file__).parent / 'lib/libouter.so')\n"
    )
    assert severities(inheriting(tmp_path, opens), capsys)["WF101"] == "error"


@pytest.mark.parametrize(
    ("source", "is_reported"),
    [
        ("", False),
        ("path = f'_inject.{abi}.so'", False),
        ("preloaded = PyDLL(library_path('_inject'))", False),
        ("from demo import _inject", True),
        ("import importlib\nimportlib.import_module('demo._inject')", True),
    ],
)
def test_a_private_module_without_pyinit_is_reported_if_a_source_names_it(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    source: str,
    is_reported: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    plugin = shared_object(
        tmp_path / "_inject.so",
        "int PyErr_Occurred(void); int f(void) { return PyErr_Occurred(); }",
    )
    files: Files = {
        "demo/__init__.py": "",
        "demo/attach.py": source,
        f"demo/_inject{SUFFIX}": plugin,
    }
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    assert ("WF311" in severities(wheel, capsys)) is is_reported


@pytest.mark.parametrize(
    ("name", "source", "is_reported"),
    [
        ("_plain", "", True),
        ("_plain", "def late():\n    from . import _plain\n", True),
        ("_plain", "load_raw_lib('demo._plain', cdefs)", False),
        ("_plain", "path = f'_plain.{abi}.so'", False),
        ("signal", "import signal\nfrom scipy import signal\nopens(CDLL, 'signal')", False),
        ("signal", "from demo import signal\nopens(CDLL, 'signal')", True),
        ("signal", "import demo.signal as s\nopens(CDLL, 'signal')", True),
        ("signal", "from .signal import s\nopens(CDLL, 'signal')", True),
        ("libplain", "", False),
    ],
)
def test_a_file_without_python_that_is_named_as_a_module_is_one_if_no_source_opens_it(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    source: str,
    is_reported: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    plain = shared_object(tmp_path / "plain.so", "int plain;")
    files: Files = {"demo/__init__.py": source, f"demo/{name}{SUFFIX}": plain}
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    assert ("WF311" in severities(wheel, capsys)) is is_reported


DATA = "demo-1.0.data/platlib/"


@pytest.mark.parametrize(
    ("module", "sources", "severity"),
    [
        (f"{DATA}demo/plain", {f"{DATA}demo/__init__.py": "import demo.plain"}, "error"),
        (f"{DATA}demo/plain", {"demo/__init__.py": "from . import plain"}, "error"),
        ("demo/plain", {"demo-1.0.data/purelib/run.py": "from demo import plain"}, "error"),
        ("demo/__init__", {"run.py": "import demo"}, "error"),
        ("demo/__init__", {"run.py": "import demo.sub"}, "error"),
        ("demo/plain", {"run.py": "try: import demo.plain\nexcept ImportError: pass"}, "warning"),
    ],
)
def test_a_file_without_python_fails_where_the_installed_source_imports_it(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    module: str,
    sources: dict[str, str],
    severity: str,
) -> None:
    plain = shared_object(tmp_path / "plain.so", "int plain;")
    files: Files = {**sources, f"{module}{SUFFIX}": plain}
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    assert severities(wheel, capsys)["WF311"] == severity


def lacking(folder: Path, source: str) -> Path:
    """Build a wheel with `libplugin.so`, which lacks `libgone.so.1`, and a Python source."""
    gone = shared_object(folder / "libgone.so.1", soname="libgone.so.1")
    plugin = shared_object(folder / "libplugin.so", "int p;", soname="libplugin.so", needed=[gone])
    files: Files = {"demo/libplugin.so": plugin, "demo/__init__.py": source}
    return make_wheel(folder / "dist", tag="py3-none-manylinux_2_28_x86_64", files=files)


@pytest.mark.parametrize(
    ("source", "severity"),
    [
        ("", "warning"),
        ("names = [f'lib{kind}.so' for kind in ('plugin',)]", "warning"),
        ("import ctypes, os\nctypes.CDLL(os.path.dirname(__file__) + '/libplugin.so')", "error"),
        ("NAME = 'libplugin.so'", "error"),
    ],
)
def test_a_plugin_that_nothing_is_seen_to_load_may_lack_its_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str, severity: str
) -> None:
    """Casadi has plug-ins for solvers that its users may have; it puts their names together."""
    assert severities(lacking(tmp_path, source), capsys)["WF805"] == severity


def test_a_library_that_a_module_needs_may_not_lack_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = shared_object(tmp_path / "libgone.so.1", soname="libgone.so.1")
    inner = shared_object(
        tmp_path / "libinner.so", "int i(void) { return 1; }", soname="libinner.so", needed=[gone]
    )
    module = extension(tmp_path / "_m", "_m", needed=[inner], calls=["i"], rpath="$ORIGIN")
    files: Files = {
        "demo/__init__.py": "",
        f"demo/_m{SUFFIX}": module,
        "demo/libinner.so": inner,
    }
    tag = TAG.replace("linux_x86_64", "manylinux_2_28_x86_64")
    wheel = make_wheel(tmp_path / "dist", tag=tag, files=files)
    assert severities(wheel, capsys)["WF805"] == "error"


@pytest.mark.parametrize(
    ("source", "severity"),
    [
        ("try:\n    from demo import _m\nexcept ImportError:\n    _m = None", "warning"),
        ("try:\n    import demo._m\nexcept (ValueError, ImportError):\n    pass", "warning"),
        ("try:\n    from demo import _m\nexcept ValueError:\n    pass", "error"),
        ("try:\n    from demo import _m\nexcept OSError:\n    pass", "error"),
        ("try:\n    from demo import _m\nexcept ModuleNotFoundError:\n    pass", "error"),
        ("try:\n    pass\nexcept ImportError:\n    from demo import _m", "error"),
        ("from demo._m import f", "error"),
        ("", "error"),
    ],
)
def test_a_module_that_is_only_tried_may_lack_a_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str, severity: str
) -> None:
    """Numba tries its module for OpenMP, and goes on without."""
    gone = shared_object(tmp_path / "libgone.so.1", "int g(void) { return 1; }")
    module = extension(tmp_path / "_m", "_m", needed=[gone], calls=["g"])
    files: Files = {"demo/__init__.py": source, f"demo/_m{SUFFIX}": module}
    tag = TAG.replace("linux_x86_64", "manylinux_2_28_x86_64")
    wheel = make_wheel(tmp_path / "dist", tag=tag, files=files)
    assert severities(wheel, capsys)["WF805"] == severity


def test_a_module_that_a_source_names_which_is_not_parsed_is_not_only_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """OpenMM tries its module on Windows; the source that imports it in any case is very large."""
    own = shared_object(tmp_path / "libown.so", "int o(void) { return 1; }", soname="libown.so")
    calls = "int o(void); int p(void) { return o(); }"
    plugin = shared_object(tmp_path / "libplugin.so", calls, needed=[own])
    module = extension(tmp_path / "_m", "_m", needed=[own], calls=["o"], runpath="$ORIGIN/lib")
    files: Files = {
        "demo/__init__.py": "try:\n    from demo import _m\nexcept ImportError:\n    pass\n",
        f"demo/_m{SUFFIX}": module,
        "demo/lib/libown.so": own,
        "demo/lib/plugins/libplugin.so": plugin,
    }
    only_tried = make_wheel(tmp_path / "tried", tag=TAG, files=files)
    assert severities(only_tried, capsys)["WF101"] == "error"
    large = {"demo/large.py": "print 1\nfrom . import _m\n"}
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files={**files, **large})
    assert severities(wheel, capsys)["WF101"] == "warning"


_SOURCE, _SCRIPT = "demo_tools/__init__.py", "demo-1.0.data/scripts/start"


@pytest.mark.parametrize(
    ("file", "text", "severity"),
    [
        (_SOURCE, "import os\nos.environ['LD_LIBRARY_PATH'] = '/demo'", "warning"),
        (_SOURCE, "import os\ne = dict(os.environ, LD_LIBRARY_PATH='/demo')", "warning"),
        (_SOURCE, "# whatever LD_LIBRARY_PATH says", "error"),
        (_SOURCE, "# LD_LIBRARY_PATH: not needed, or LD_LIBRARY_PATH=/x", "error"),
        (_SOURCE, "import os\nos.environ.pop('LD_LIBRARY_PATH', None)", "error"),
        (_SOURCE, "import os\nold = os.environ.get('LD_LIBRARY_PATH', '')", "error"),
        (_SOURCE, "import os\nif 'LD_LIBRARY_PATH' in os.environ: print(1)", "error"),
        (_SOURCE, "import os\ndel os.environ['LD_LIBRARY_PATH']", "error"),
        (_SOURCE, '"""Does not need LD_LIBRARY_PATH."""\nx = 1  # LD_LIBRARY_PATH', "error"),
        (_SOURCE, 'x = """\n"""\nimport os\nos.environ["LD_LIBRARY_PATH"] = x', "warning"),
        ("demo_tools/README.txt", "It does not need LD_LIBRARY_PATH.\n", "error"),
        ("demo_tools/env.json", '{"LD_LIBRARY_PATH": "/demo"}', "warning"),
        ("demo_tools/env.csv", "LD_LIBRARY_PATH,/demo\n", "warning"),
        ("demo_tools/env.yaml", "name: LD_LIBRARY_PATH\nvalue: /demo\n", "warning"),
        (_SOURCE, '"""LD_LIBRARY_PATH"""\nimport os\nos.environ[__doc__] = "/demo"', "warning"),
        (_SCRIPT, "#!/bin/sh\nx=$(( 16 #f )); export LD_LIBRARY_PATH=$1\n$d/tool", "warning"),
        ("demo_tools/go.sh", "#!/bin/sh\ncd x  # LD_LIBRARY_PATH is not needed\n", "error"),
        (_SCRIPT, "#!/bin/sh\nunset LD_LIBRARY_PATH LD_PRELOAD\n$d/demo_tools/tool", "error"),
        (_SOURCE, "import os\nPATH = 'LD_LIBRARY_PATH'\nos.environ[PATH] = '/demo'", "warning"),
        (_SOURCE, "import os\nos.environ.setdefault('LD_LIBRARY_PATH', '/demo')", "warning"),
        (_SOURCE, "import os\nC = '#ff'; e = dict(os.environ, LD_LIBRARY_PATH='/demo')", "warning"),
        (_SOURCE, "import os\nif x != 'unset': os.environ['LD_LIBRARY_PATH'] = x", "warning"),
        (_SOURCE, "import e\ne.get('LD_LIBRARY_PATH')", "warning"),
        (_SCRIPT, "#!/bin/sh\n[ $# -ge 0 ] && export LD_LIBRARY_PATH=$1\n$d/tool", "warning"),
        (_SCRIPT, "#!/bin/sh\nunset X && export LD_LIBRARY_PATH=$1\n$d/tool", "warning"),
        (_SCRIPT, "#!/bin/sh\nset -a; : ${LD_LIBRARY_PATH:=$d/demo}\n$d/tool", "warning"),
        ("demo_tools/go.sh", "export LD_LIBRARY_PATH=$1\n", "warning"),
        (_SCRIPT, "#!/bin/sh\nLD_LIBRARY_PATH= exec $d/demo_tools/tool", "error"),
        (_SCRIPT, "#!/bin/sh\nunset LD_LIBRARY_PATH\n$d/demo_tools/tool", "error"),
        (_SCRIPT, "#!/bin/sh\n# not tool\nLD_LIBRARY_PATH=$d exec $d/toolbox", "error"),
        (_SCRIPT, "#!/bin/sh\nLD_LIBRARY_PATH=$d/demo exec $d/demo_tools/tool", "warning"),
        (_SCRIPT, "#!/bin/csh\nsetenv LD_LIBRARY_PATH $d/demo\n$d/demo_tools/tool", "warning"),
        (_SCRIPT, "#!/bin/sh\nexec $d/demo_tools/tool", "error"),
        (_SCRIPT, "#!/bin/sh\nLD_LIBRARY_PATH=$d/demo exec $d/other", "error"),
        (_SOURCE, "", "error"),
    ],
)
def test_a_program_for_which_code_of_the_wheel_sets_the_library_path_may_find_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, text: str, severity: str
) -> None:
    """Panda3D starts its tools so."""
    inner = shared_object(tmp_path / "libinner.so", "int i(void) { return 1; }")
    tool = executable(
        tmp_path / "tool", "int i(void); int main(void) { return i(); }", needed=[inner]
    )
    files: Files = {
        "demo/__init__.py": "",
        "demo/libinner.so": inner,
        "demo_tools/tool": tool,
        file: text,
    }
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    assert severities(wheel, capsys)["WF101"] == severity
    assert run(["explain", str(wheel)]) == (severity == "error")
    assert ("sets LD_LIBRARY_PATH" in capsys.readouterr().out) is (severity == "warning")


@pytest.mark.parametrize(("source", "severity"), [("", "warning"), ("NAME = 'libb.so'", "error")])
def test_plugins_of_one_folder_may_be_loaded_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str, severity: str
) -> None:
    """OpenMM loads all of its folder `plugins`; the loader finds what is loaded by its SONAME."""
    first = shared_object(tmp_path / "liba.so", "int a(void) { return 1; }", soname="liba.so")
    second = shared_object(
        tmp_path / "libb.so", "int a(void); int b(void) { return a(); }", needed=[first]
    )
    files: Files = {
        "demo/__init__.py": source,
        "demo/plugins/liba.so": first,
        "demo/plugins/libb.so": second,
    }
    wheel = make_wheel(tmp_path / "dist", tag="py3-none-linux_x86_64", files=files)
    assert severities(wheel, capsys)["WF101"] == severity


def test_a_requirement_is_recognised_by_its_name_with_lib_at_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Eccodeslib requires `eckitlib`, which has `libeckit_geo.so`."""
    gone = shared_object(tmp_path / "libeckit_geo.so", soname="libeckit_geo.so")
    library = shared_object(tmp_path / "libplugin.so", "int p;", needed=[gone])
    wheel = make_wheel(
        tmp_path / "dist",
        tag="py3-none-manylinux_2_28_x86_64",
        files={"demo/__init__.py": "", "demo/libplugin.so": library},
        metadata="Requires-Dist: eckitlib==1.0\n",
    )
    found = severities(wheel, capsys)
    assert found["WF827"] == "note"
    assert "WF805" not in found


@pytest.mark.parametrize(("source", "status"), [("", "not known"), ("NAME = 'libplugin.so'", "no")])
def test_a_library_that_no_machine_has_counts_on_each_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str, status: str
) -> None:
    run(
        [
            "check",
            "--target",
            "debian:12-slim",
            str(lacking(tmp_path, source)),
            "--output-format=json",
        ]
    )
    report: Any = json.loads(capsys.readouterr().out)
    assert report["wheels"][0]["targets"] == {"debian:12-slim": status}
    codes = {finding["code"] for finding in report["wheels"][0]["findings"]}
    assert "WF805" in codes
    assert "WF813" not in codes, "one cause is one finding"


@pytest.mark.parametrize("is_opened", [True, False])
def test_a_soname_that_differs_from_the_file_name_fails_what_is_seen_to_be_loaded(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    is_opened: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    inner = shared_object(tmp_path / "libin.so.1", soname="libin.so.1")
    outer = shared_object(tmp_path / "libout.so", soname="libout.so", needed=[inner])
    source = "import ctypes\nctypes.CDLL(__path__[0] + '/libout.so')\n" if is_opened else ""
    files: Files = {"demo/libin.so": inner, "demo/libout.so": outer, "demo/__init__.py": source}
    wheel = make_wheel(tmp_path / "dist", tag="py3-none-manylinux_2_28_x86_64", files=files)
    assert severities(wheel, capsys)["WF313"] == ("error" if is_opened else "warning")
