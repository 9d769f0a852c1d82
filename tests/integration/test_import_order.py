"""What is loaded before a module? Its import, `check`, `explain` and `doctor` say the same."""

import json
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.build import extension, make_wheel, shared_object
from tests.support.environment import ENVIRON
from wheelfix.cli.app import run

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
TAG = f"cp3{sys.version_info.minor}-cp3{sys.version_info.minor}-linux_x86_64"
OPEN = "ctypes.CDLL(os.path.join(os.path.dirname(__file__), 'libone.so.1'))\n"
OPENS = f"import ctypes, os\n{OPEN}"
IMPORTS = "import ctypes, os, sys\nfrom typing import TYPE_CHECKING\n"
CORE = "from . import _core\n"
LENT = "import lender\n"
USE = "try:\n    from .has import USE\nexcept ImportError:\n    from typing import TYPE_CHECKING\n"
NEED = "import importlib\ndef need(name): importlib.import_module(name)\n"
GUARD = """from contextlib import contextmanager
@contextmanager
def tried():
    try: yield
    except ImportError: pass
"""
_FOR_ALL = OPENS.replace("'))", "'), ctypes.RTLD_GLOBAL)")
OF_OTHER = {
    "works": [
        {"__init__": LENT + CORE},
        {"__init__": "from . import first\n" + CORE, "first": LENT},
        {"__init__": f"try:\n    {LENT}except ImportError:\n    pass\n{CORE}"},
        {"__init__": f"def load():\n    {LENT}load()\n{CORE}"},
        {"__init__": "from . import api\n", "api": LENT + CORE},
    ],
    "maybe": [
        {"__init__": f"import os\nif not os.environ.get('P'):\n    {CORE}{LENT}"},
        {"__init__": f"from .api import load\nload()\n{LENT}", "api": f"def load():\n    {CORE}"},
        {"__init__": f"import os\nif os.environ.get('P'):\n    {LENT}{CORE}"},
        {"__init__": f"def load():\n    {LENT}{CORE}"},
    ],
    "maybe, and works": [
        {
            "__init__": "import importlib\nfor n in dict(lender=1): importlib.import_module(n)\n"
            + CORE
        },
        {"__init__": "from .first import need\nneed('lender')\n" + CORE, "first": NEED},
        {"__init__": f"exec({LENT!r})\n{CORE}"},
        {"__init__": f"{GUARD}with tried():\n    {CORE}{LENT}{CORE}"},
        {"__init__": f"try:\n    {CORE}except ImportError:\n    {LENT}    {CORE}"},
    ],
    "fails": [
        {"__init__": f"import typing\nif typing.TYPE_CHECKING:\n    {LENT}{CORE}"},
        {"__init__": CORE + LENT},
        {"__init__": f"try:\n    {CORE}except ImportError:\n    raise\n{LENT}"},
        {"__init__": CORE + "from . import late\n", "late": LENT},
        {
            "__init__": f"{CORE}def load():\n    from . import late\n",
            "late": f"def load():\n    {LENT}",
        },
        {"__init__": "from . import api\n" + LENT, "api": CORE},
    ],
}
"""The sources of a package by how its import ends, where another distribution has the library."""
OWN = {
    "works": [
        {"__init__": OPENS + CORE},
        {"__init__": "from . import first\n" + CORE, "first": OPENS},
    ],
    "maybe": [
        {
            "__init__": "import os\nif os.environ.get('P'):\n    from . import first\n" + CORE,
            "first": OPENS,
        }
    ],
    "maybe, and works": [
        {"__init__": f"{IMPORTS}{before}if {test}:\n    {OPEN}{CORE}", "has": "USE = True\n"}
        for before, test in (
            ("USE = False\n" + USE, "USE"),
            ("USE = None\ndef ask():\n    global USE\n    from .has import USE\nask()\n", "USE"),
            ("colorsys = None\nimport colorsys\n", "colorsys"),
            (USE.replace("USE", "USE as TYPE_CHECKING"), "TYPE_CHECKING"),
            ("", f"sys.prefix == {sys.prefix!r}"),
            ("", "os.path.expanduser('~') != '~'"),
            ("", "os.path.abspath('x').startswith('/')"),
        )
    ],
    "fails": [
        {"__init__": CORE + OPENS},
        {"__init__": CORE + "from . import late\n", "late": OPENS},
    ],
    "fails, whatever is imported": [
        {"__init__": f"{IMPORTS}if {test}:\n    {OPEN}{CORE}"}
        for test in ("False", "TYPE_CHECKING", "sys.platform == 'win32'")
    ],
}
"""The same, where the wheel itself has it."""
CASES = [
    (way, sources, is_own)
    for is_own, table in ((False, OF_OTHER), (True, OWN))
    for way, cases in table.items()
    for sources in cases
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A library, a module that needs it, and the wheel of a distribution that opens it."""
    folder = tmp_path_factory.mktemp("built")
    one = "int one(void) { return 1; }"
    library = shared_object(folder / "libone.so.1", one, soname="libone.so.1", libc=False)
    core = extension(folder / f"_core{SUFFIX}", "_core", calls=["one"], needed=[library])
    files: dict[str, bytes | str | Path] = {
        "lender/__init__.py": OPENS,
        "lender/libone.so.1": library,
    }
    return library, core, make_wheel(folder, name="lender", tag=TAG, files=files)


@pytest.mark.parametrize(("way", "sources", "is_own"), CASES)
def test_all_commands_follow_the_order_in_which_imports_run(  # noqa: PLR0913 - see `built`
    built: tuple[Path, Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    way: str,
    sources: dict[str, str],
    *,
    is_own: bool,
) -> None:
    library, core, lender = built
    files: dict[str, bytes | str | Path] = {
        **{f"p/{name}.py": text for name, text in sources.items()},
        f"p/_core{SUFFIX}": core,
        **({"p/libone.so.1": library} if is_own else {}),
    }
    requires = "" if is_own else "Requires-Dist: lender\n"
    wheel = make_wheel(tmp_path, name="p", tag=TAG, files=files, metadata=requires)
    site = tmp_path / "site"
    beside = [] if is_own else ["--with", str(lender)]
    for path in (wheel, *([] if is_own else [lender])):
        zipfile.ZipFile(path).extractall(site)

    def json_of(*words: str) -> dict[str, Any]:
        run([*words, "--output-format", "json"])
        return cast("dict[str, Any]", json.loads(capsys.readouterr().out))

    real = subprocess.run(
        [sys.executable, "-c", "import p"], cwd=site, env=ENVIRON, capture_output=True, check=False
    )
    assert (real.returncode == 0) is ("works" in way)
    way, _, whatever = way.partition(",")
    (checked,) = json_of("check", *beside, "--select", "WF101,WF106", str(wheel))["wheels"]
    severities = {"works": set(), "maybe": {"warning"}, "fails": {"error"}}
    told = {finding["severity"] for finding in checked["findings"]} - {"note"}
    assert told == severities[way]
    for explained in (["explain", *beside, str(wheel)], ["explain", "--site", str(site)]):
        (answer,) = json_of(*explained, "p._core")["explanations"]
        said = "maybe" if answer["not_known"] else "works" if answer["ok"] else "fails"
        assert said == way, explained
        (asked,) = json_of(*explained, "libone.so.1")["asked_for"]
        assert (asked["file"] is None) is (way != "works")
        assert run([*explained, "libone.so.1"]) == (way == "fails")
        assert ("\nnot known: " in capsys.readouterr().out) is (way == "maybe")
    fails = "error" if "whatever" in whatever else "warning"
    severities |= {"maybe": {"note"}, "fails": {fails}}
    assert {f["severity"] for f in json_of("doctor", str(site))["findings"]} == severities[way]
    ordered = json_of("doctor", str(site), "--order", "p")["findings"]
    severities |= {"maybe": {"note"}, "fails": {"error"}}
    assert {finding["severity"] for finding in ordered} == severities[way]


@pytest.mark.parametrize("required", ["", "Requires-Dist: far\n"])
def test_what_is_imported_before_and_not_read_may_load_a_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], required: str
) -> None:
    name, folder = "libcublas.so.12", "nvidia/cublas/lib"
    library = shared_object(tmp_path / name, "int one(void) { return 1; }", soname=name, libc=False)
    core = extension(tmp_path / "_core.so", "_core", calls=["one"], needed=[library])
    files: dict[str, bytes | str | Path] = {f"{folder}/{name}": library}
    lender = make_wheel(tmp_path, name="nvidia_cublas_cu12", tag=TAG, files=files)
    requires = f"Requires-Dist: nvidia-cublas-cu12\n{required}"
    for first, severity, exit_code in (("", "error", 1), ("import far\n", "warning", 0)):
        files = {"p/__init__.py": first + CORE, f"p/_core{SUFFIX}": core}
        wheel = make_wheel(tmp_path, name="p", tag=TAG, files=files, metadata=requires)
        site = tmp_path / f"site{exit_code}"
        for path in (wheel, lender):
            zipfile.ZipFile(path).extractall(site)
        opens = OPENS.replace("'libone.so.1'", f"'{folder}/{name}'")
        (site / "far.py").write_text(opens)
        command = [sys.executable, "-c", "import p"]
        real = subprocess.run(command, cwd=site, env=ENVIRON, capture_output=True, check=False)
        assert real.returncode == exit_code
        for beside in ([], ["--with", str(lender)]):
            run(
                ["check", *beside, "--select", "WF106,WF827", "--output-format", "json", str(wheel)]
            )
            (checked,) = json.loads(capsys.readouterr().out)["wheels"]
            if beside or not required:
                assert {f["severity"] for f in checked["findings"]} == {severity}
            why = "`far`, which runs before, is not read, and may load it"
            if not beside:
                assert [why in f["notes"] for f in checked["findings"]] == [bool(first)]
            assert run(["explain", *beside, str(wheel)]) == exit_code
            said = " ".join(capsys.readouterr().out.split())
            assert beside or (why in said) is bool(first)


@pytest.mark.parametrize(
    ("init", "folder"),
    [
        ("from . import _core, _snd\n", "a"),
        ("from ._core import *\nfrom ._snd import *\n", "a"),
        ("import p._core\n", "a"),
        (OPENS.replace("'lib", "'b', 'lib") + CORE, "b"),
        (OPENS.replace("'lib", "'a', 'lib"), "a"),
        ("from . import _snd, _core\n", "b"),
        ("def load():\n    from . import _core\n", "b"),
        ("", "b"),
    ],
)
def test_of_two_libraries_of_a_soname_the_one_of_an_earlier_import_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], init: str, folder: str
) -> None:
    """The loader finds a loaded library by its SONAME, whatever the search path says."""
    name, files = "libone.so.1", dict[str, bytes | str | Path]({"p/__init__.py": init})
    for there, module in (("a", "_core"), ("b", "_snd")):
        one = shared_object(
            tmp_path / there / name, "int one(void) { return 1; }", soname=name, libc=False
        )
        path = tmp_path / f"{module}{SUFFIX}"
        files[f"p/{there}/{name}"] = one
        files[f"p/{module}{SUFFIX}"] = extension(
            path, module, calls=["one"], needed=[one], runpath=f"$ORIGIN/{there}"
        )
    wheel, site = make_wheel(tmp_path, name="p", tag=TAG, files=files), tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    code = "import p._snd; print(open('/proc/self/maps').read())"
    maps = subprocess.check_output([sys.executable, "-c", code], cwd=site, env=ENVIRON, text=True)
    assert f"/p/{folder}/{name}" in maps
    for asked in (["explain", str(wheel)], ["explain", "--site", str(site)]):
        assert run([*asked, "p._snd"]) == 0
        assert f"  {name} => p/{folder}/{name}  [" in capsys.readouterr().out, asked
        assert run([*asked, name, "--output-format", "json"]) == 0
        results = json.loads(capsys.readouterr().out)["asked_for"]
        users = {user: each["file"] for each in results for user in each["requesters"]}
        assert users[f"p/_snd{SUFFIX}"] == f"p/{folder}/{name}"


_BOTH = "from . import _core, _snd\n"


@pytest.mark.parametrize(
    ("init", "fails"),
    [
        ("from . import _core\n" + _BOTH, True),
        (_BOTH, True),
        ("from . import first, _snd\n", True),
        ("from . import _snd\n" + _BOTH, False),
        (
            "try:\n    import absent9, p._core\nexcept ImportError:\n    from . import _snd\n",
            False,
        ),
        ("import importlib\nimportlib.import_module('p.' + '_' + 'snd')\n" + _BOTH, False),
        ("for n in ['snd']: exec('from . import _' + n)\n" + _BOTH, False),
        (OPENS.replace("'libone", "'b', 'libone") + _BOTH, False),
        ("from . import _core\n" + _FOR_ALL.replace("'libone", "'b', 'libone") + _BOTH, False),
    ],
)
def test_a_module_fails_with_the_other_library_of_a_soname_that_an_earlier_import_loads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], init: str, *, fails: bool
) -> None:
    name = "libone.so.1"
    files: dict[str, bytes | str | Path] = {"p/__init__.py": init, "p/first.py": CORE}
    one = "int one(void) { return 1; }"
    more = f"{one} int two(void) {{ return 2; }}"
    for there, module, source, used in (("a", "_core", one, "one"), ("b", "_snd", more, "two")):
        library = shared_object(tmp_path / there / name, source, soname=name, libc=False)
        files[f"p/{there}/{name}"] = library
        made, path = tmp_path / f"{module}{SUFFIX}", f"$ORIGIN/{there}"
        files[f"p/{made.name}"] = extension(
            made, module, calls=[used], needed=[library], runpath=path, flags=["-Wl,-z,now"]
        )
    wheel, site = make_wheel(tmp_path, name="p", tag=TAG, files=files), tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    command = [sys.executable, "-c", "import p"]
    real = subprocess.run(command, cwd=site, env=ENVIRON, capture_output=True, check=False)
    assert (real.returncode != 0) is fails
    assert (b"undefined symbol: two" in real.stderr) is fails
    core, snd = (f"`p/{module}{SUFFIX}`" for module in ("_core", "_snd"))
    assert run(["check", "--select", "WF314", str(wheel)]) == fails
    why = f"{snd} fails after the import of {core}, which loads `p/a/{name}`: that lacks `two`"
    assert (why in capsys.readouterr().out) is fails
    is_plain = init.startswith("from . import ") and "CDLL" not in init
    for asked in (["explain", str(wheel)], ["explain", "--site", str(site)]) if is_plain else ():
        assert run([*asked, "p._snd"]) == fails, asked
        said = capsys.readouterr().out
        assert (f"takes the place of `p/b/{name}`: load {snd} before {core}" in said) is fails


def test_who_ships_two_libraries_that_cannot_be_loaded_together_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "libone.so.1"
    files: dict[str, bytes | str | Path] = {"p/__init__.py": _BOTH}
    for there, module, function in (("a", "_core", "one"), ("b", "_snd", "two")):
        source = f"int {function}(void) {{ return 1; }}"
        library = shared_object(tmp_path / there / name, source, soname=name, libc=False)
        made, path = tmp_path / f"{module}{SUFFIX}", f"$ORIGIN/{there}"
        files[f"p/{there}/{name}"] = library
        files[f"p/{made.name}"] = extension(
            made, module, calls=[function], needed=[library], runpath=path
        )
    wheel, site = make_wheel(tmp_path, name="p", tag=TAG, files=files), tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    fix = "must ship only one of the two libraries, or give each its own SONAME"
    for who, asked in (("the wheel", [str(wheel)]), ("p 1.0", ["--site", str(site)])):
        assert run(["explain", *asked, "p._snd"]) == 1
        assert f"the authors of {who} {fix}" in capsys.readouterr().out
    assert run(["check", "--select", "WF314", str(wheel)]) == 1


_EACH = "for n in 'ab':\n    "
_WALK = "for m in pkgutil.walk_packages(__path__):\n"
_TOOLS = f"import importlib\ndef go(f=importlib.import_module):\n  {_EACH}  f('p._' + n)\n"
_COMPUTED = [
    f"from importlib import import_module as im\n{_EACH}im('p._' + n)\n",
    f"{_EACH}__import__(f'p._{{n}}')\n",
    f"{_EACH}exec('from . import _' + n)\n",
    "from .tools import go\ngo()\n",
    "__all__ = ['_' + n for n in 'ab']\nfrom . import *\n",
    f"import pkgutil\n{_WALK}    m.module_finder.find_spec(m.name).loader.load_module(m.name)\n",
]


@pytest.mark.parametrize(
    ("init", "fails"),
    [
        *((init, False) for init in _COMPUTED),
        *((f"from . import _b\n{i}", True) for i in _COMPUTED[:2]),
    ],
)
def test_a_module_that_a_computed_name_may_import_before_may_load_a_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], init: str, *, fails: bool
) -> None:
    name = "libone.so.1"
    library = shared_object(tmp_path / name, "int one(void) { return 1; }", soname=name, libc=False)
    files: dict[str, bytes | str | Path] = {
        "p/__init__.py": init,
        "p/tools.py": _TOOLS if ".tools" in init else "",
        f"p/libs/{name}": library,
    }
    for module, runpath in (("_a", "$ORIGIN/libs"), ("_b", None)):
        made = tmp_path / f"{module}{SUFFIX}"
        files[f"p/{made.name}"] = extension(
            made, module, calls=["one"], needed=[library], runpath=runpath
        )
    wheel, site = make_wheel(tmp_path, name="p", tag=TAG, files=files), tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    command = [sys.executable, "-c", "import p"]
    real = subprocess.run(command, cwd=site, env=ENVIRON, capture_output=True, check=False)
    assert (real.returncode != 0) is fails
    assert run(["check", "--select", "WF101", str(wheel)]) == fails
    assert ("\nwarning[WF101]" in capsys.readouterr().out) is not fails
    for asked in (["explain", str(wheel)], ["explain", "--site", str(site)]):
        assert run([*asked, "p._b"]) == fails, asked
        assert ("not known: " in capsys.readouterr().out) is not fails


@pytest.mark.parametrize("name", ["token", "p"])
def test_by_the_name_of_its_library_a_module_that_python_cannot_import_fails_too(
    built: tuple[Path, Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    """The standard library has the name of its package, or it is for another Python."""
    suffix = SUFFIX if name == "token" else ".cpython-30-x86_64-linux-gnu.so"
    files: dict[str, bytes | str | Path] = {
        f"{name}/__init__.py": "",
        f"{name}/_core{suffix}": built[1],
    }
    wheel = make_wheel(tmp_path, name="p", tag=TAG, files=files)
    for asked in (f"{name}._core", "libone.so.1"):
        assert run(["explain", str(wheel), asked]) == 1
        assert "problem: cannot be loaded: " in capsys.readouterr().out


_LOAD = "import ctypes, os\ndef load():\n    " + _FOR_ALL.partition("\n")[2]
_FLAGS = (
    "import ctypes, sys\nf = sys.getdlopenflags()\nsys.setdlopenflags(f | ctypes.RTLD_GLOBAL)\n"
)
_SET = "import sys\nsys.setdlopenflags({})\nfrom . import _first\n"
_OWN = """import ctypes, os
class Own(ctypes.CDLL):
    def __init__(self, path): super().__init__(path, mode=258)
""" + OPEN.replace("ctypes.CDLL", "Own")
_NAMED = "from ctypes import CDLL as f  # "
_FLAG = ", int('256'))"
_ALIAS = "import ctypes, os\nf = ctypes.CDLL\n" + OPEN.replace("ctypes.CDLL", "f")
_ALIAS = _ALIAS.replace("'))", f"'){_FLAG}")
_STARRED = "import ctypes, os\n" + OPEN.replace("CDLL(", "CDLL(*(").replace("'))", f"'){_FLAG})")
_OPEN_FLAG = OPEN.replace("'))", f"'){_FLAG}")
_PARTS = "getattr(sys, 'setdl' + 'openflags')"


def _computed(flags: str) -> str:
    return _FOR_ALL.replace("ctypes.RTLD_GLOBAL", flags)


OF_SYMBOLS = [
    ("works", {"__init__": _FOR_ALL + CORE}),
    ("works", {"__init__": _FLAGS + "\nfrom . import _first\nsys.setdlopenflags(f)\n" + CORE}),
    ("works", {"__init__": _SET.format("258") + CORE}),
    ("works", {"__init__": _SET.format("sys.getdlopenflags() ^ 256") + CORE}),
    ("maybe, and works", {"__init__": _SET.format("int('258')") + CORE}),
    ("maybe, and works", {"__init__": _computed("1 << 8") + CORE}),
    ("maybe, and works", {"__init__": _computed("3 * 86") + CORE}),
    ("maybe, and works", {"__init__": _computed("pow(2, 8)") + CORE}),
    ("maybe, and works", {"__init__": f"BIT = 8\n{_computed('1 << BIT')}{CORE}"}),
    ("maybe, and works", {"__init__": _computed("getattr(ctypes, 'RTLD' + '_GLOBAL')") + CORE}),
    ("maybe, and works", {"__init__": _computed("use_errno=True, mode=int('256')") + CORE}),
    ("maybe, and works", {"__init__": _ALIAS + CORE}),
    ("maybe, and works", {"__init__": _ALIAS.replace("f = ctypes.", _NAMED) + CORE}),
    ("maybe, and works", {"__init__": _STARRED + CORE}),
    *(
        (
            "maybe, and works",
            {"__init__": f"import ctypes, os\nfrom ctypes import CDLL{text}{CORE}"},
        )
        for text in (
            "\n" + _OPEN_FLAG.replace("ctypes.CDLL(", "CDLL(  # 1) the library\n"),
            "\n" + _OPEN_FLAG.replace("ctypes.CDLL(", 'CDLL("""a"b)""" and '),
            "; f = CDLL\n" + _OPEN_FLAG.replace("ctypes.CDLL", "f"),
            "\nf = {'#': CDLL}['#']\n" + _OPEN_FLAG.replace("ctypes.CDLL", "f"),
            "\nfrom functools import partial\nf = partial(\n    CDLL,\n    **{'mode': 256}\n)\n"
            + OPEN.replace("ctypes.CDLL", "f"),
        )
    ),
    ("maybe, and works", {"__init__": _computed("(((((int('256'))))))") + CORE}),
    ("maybe, and works", {"__init__": _computed("int('256' + '\\'\"'[2:])") + CORE}),
    ("maybe, and works", {"__init__": _OWN + CORE}),
    ("maybe, and works", {"__init__": _OWN.replace("258", "int('258')") + CORE}),
    (
        "maybe, and works",
        {
            "__init__": "import sys\ngetattr(sys, 'set' + 'dlopenflags')(258)\n"
            "from . import _first\n" + CORE
        },
    ),
    (
        "maybe, and works",
        {"__init__": _SET.replace("sys.setdlopenflags", _PARTS).format("258") + CORE},
    ),
    ("fails", {"__init__": _SET.format("2") + CORE}),
    ("fails", {"__init__": _computed("1") + CORE}),
    ("fails", {"__init__": CORE + _FOR_ALL}),
    ("fails", {"__init__": OPENS + CORE}),
    ("fails", {"__init__": "from . import _first\n" + CORE}),
    ("maybe", {"__init__": _LOAD + CORE}),
    ("maybe", {"__init__": f"{_LOAD}if os.environ.get('P'):\n    load()\n{CORE}"}),
    ("maybe, and works", {"__init__": f"from .a import load\nload()\n{CORE}", "a": _LOAD}),
]
"""Sources by how their import ends, where the library is not linked with, and has the symbol."""


@pytest.mark.parametrize(("way", "sources"), OF_SYMBOLS)
def test_a_symbol_is_defined_by_what_is_opened_for_all_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], way: str, sources: dict[str, str]
) -> None:
    name, path = "libone.so.1", tmp_path / f"_first{SUFFIX}"
    one = shared_object(tmp_path / name, "int one(void) { return 1; }", soname=name, libc=False)
    files: dict[str, bytes | str | Path] = {
        **{f"p/{name}.py": text for name, text in sources.items()},
        f"p/_core{SUFFIX}": extension(tmp_path / f"_core{SUFFIX}", "_core", calls=["one"]),
        f"p/_first{SUFFIX}": extension(
            path, "_first", calls=["one"], needed=[one], rpath="$ORIGIN"
        ),
        f"p/{name}": one,
    }
    wheel = make_wheel(tmp_path, name="p", tag=TAG, files=files)
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")

    def json_of(*words: str) -> dict[str, Any]:
        run([*words, "--output-format", "json"])
        return cast("dict[str, Any]", json.loads(capsys.readouterr().out))

    real = subprocess.run(
        [sys.executable, "-c", "import p"], cwd=tmp_path / "site", env=ENVIRON, check=False
    )
    assert (real.returncode == 0) is ("works" in way)
    way, known = way.partition(",")[0], {"works": set(), "maybe": {"warning"}, "fails": {"error"}}
    (checked,) = json_of("check", "--select", "WF301", str(wheel))["wheels"]
    assert {finding["severity"] for finding in checked["findings"]} == known[way]
    assert ("not known" in str(checked["findings"])) is (way == "maybe")
    doctor = json_of("doctor", str(tmp_path / "site"))["findings"]
    # Its visit follows functions of other sources.
    way = "works" if "a" in sources else way
    assert {finding["severity"] for finding in doctor} == known[way]
    (answer,) = json_of("explain", "--site", str(tmp_path / "site"), "p._core")["explanations"]
    assert ("maybe" if answer["not_known"] else "works" if answer["ok"] else "fails") == way


def test_what_is_opened_under_a_name_that_is_not_known_may_get_what_a_requirement_has(
    built: tuple[Path, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As torchvision opens its operators after torch: nothing is shown to fail."""
    library, _, lender = built
    core = shared_object(
        tmp_path / "ops.so", "int one(void); int f(void) { return one(); }", needed=[library]
    )
    init = "import ctypes, lender\ndef load(name): return ctypes.CDLL(name)\n"
    files: dict[str, bytes | str | Path] = {"p/__init__.py": init, "p/ops.so": core}
    tag = TAG.replace("-linux_", "-manylinux_2_17_")
    for metadata, code in (("Requires-Dist: lender\n", 0), ("", 1)):
        wheel = str(make_wheel(tmp_path, name="p", tag=tag, files=files, metadata=metadata))
        for beside in ([], ["--with", str(lender)]):
            assert run(["explain", *beside, wheel]) == code
            assert ("not known" in capsys.readouterr().out) is (code == 0)
            if code == 0:
                assert (
                    run(["check", "--select", "WF1,WF8", "--ignore", "WF804", *beside, wheel]) == 0
                )


_OUTSIDE = "import ctypes\nctypes.CDLL({!r}, ctypes.RTLD_GLOBAL)\n"


@pytest.mark.parametrize("is_needed", [True, False])
@pytest.mark.parametrize(
    ("source", "fails"),
    [
        (_OUTSIDE + CORE, False),
        ("from .first import *\n" + CORE, False),
        (CORE + _OUTSIDE, True),
        (CORE + "from .first import *\n", True),
    ],
)
def test_a_file_outside_is_there_for_what_comes_after_its_opening(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str, *, fails: bool, is_needed: bool
) -> None:
    name = "libone.so.1"
    one = shared_object(tmp_path / name, "int one(void) { return 1; }", soname=name, libc=False)
    core = extension(tmp_path / f"_core{SUFFIX}", "_core", calls=["one"], needed=[one] * is_needed)
    files: dict[str, bytes | str | Path] = {
        "p/__init__.py": source.format(str(one)),
        "p/first.py": _OUTSIDE.format(str(one)) if ".first" in source else "",
        f"p/_core{SUFFIX}": core,
    }
    wheel, site = make_wheel(tmp_path, name="p", tag=TAG, files=files), tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    real = subprocess.run(
        [sys.executable, "-c", "import p"], cwd=site, env=ENVIRON, capture_output=True, check=False
    )
    assert (real.returncode != 0) is fails
    for asked in (
        ["explain", str(wheel)],
        ["explain", "--site", str(site)],
        ["doctor", str(site)],
        ["doctor", str(site), "--order", "p"],
        *([] if is_needed else [["check", "--select", "WF301", str(wheel)]]),
    ):
        assert run(asked) == fails, asked
        assert capsys.readouterr().out
