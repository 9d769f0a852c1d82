"""What Python sources search for libraries, in the order of their statements."""

import json
import os
import zipfile
from pathlib import Path

import pytest

from tests.support.build import make_wheel, shared_object
from wheelfix.budget import Budget
from wheelfix.cli.app import run
from wheelfix.python_sources.parsing import STEPS_PER_EXPRESSION
from wheelfix.python_sources.searched_places import LibrarySearch, LibrarySearches, searches

CLASSIC = '''
import os, sys

def split_env_var(name, split):
    """Not `libdocstring.so`."""
    if os.environ.get(name, None):
        return [each.strip() for each in os.environ[name].split(split)]
    return []

def get_dll_directories():
    here = os.path.dirname(os.path.realpath(os.path.expanduser(__file__)))
    folders = []
    if os.environ.get("TVM_LIBRARY_PATH", None):
        folders.append(os.environ["TVM_LIBRARY_PATH"])
    if sys.platform.startswith("linux") or sys.platform.startswith("freebsd"):
        folders.extend(split_env_var("LD_LIBRARY_PATH", ":"))
        folders.extend(split_env_var("PATH", ":"))
    elif sys.platform.startswith("darwin"):
        folders.extend(split_env_var("DYLD_LIBRARY_PATH", ":"))
    folders.append(here)
    folders.append(os.path.join(here, "..", "build"))
    return [os.path.realpath(each) for each in folders if os.path.isdir(each)]

def find_lib_path():
    names = ["libtvm.so", "libtvm_runtime.so"]
    paths = [os.path.join(folder, name) for name in names for folder in get_dll_directories()]
    return [path for path in paths if os.path.exists(path)]
'''


def one(source: str, path: str = "tvm/libinfo.py") -> LibrarySearch:
    (found,) = searches(source.encode(), path).found
    return found


def order(source: str) -> list[str | None]:
    return [stop.variable for stop in one(source).stops]


def test_the_search_of_the_report_is_read_in_its_order() -> None:
    found = one(CLASSIC)
    assert found.function == "find_lib_path"
    assert found.names == ("libtvm.so", "libtvm_runtime.so")
    assert [(s.variable, s.line) for s in found.stops] == [
        ("TVM_LIBRARY_PATH", 14),
        ("LD_LIBRARY_PATH", 7),
        ("PATH", 7),
        (None, None),
    ]
    assert found.variables == ("TVM_LIBRARY_PATH", "LD_LIBRARY_PATH", "PATH")


HEAD = "import ctypes, os, pathlib\nhere = pathlib.Path(__file__).parent\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("ctypes.CDLL(os.environ.get('X_LIB') or str(here / 'libx.so'))", ["X_LIB", None]),
        ("ctypes.CDLL(os.getenv('X_LIB', str(here / 'libx.so')))", ["X_LIB", None]),
        ("ctypes.CDLL(os.getenv('X_DATA', str(here / 'libx.so')))", ["X_DATA", None]),
        (
            (
                "dirs = [here]\ndirs.insert(0, os.environ['X_HOME'])\n"
                "for d in dirs:\n    if d: ctypes.CDLL(d / 'libx.so')"
            ),
            ["X_HOME", None],
        ),
        (
            (
                "dirs = [here] + os.environ['PATH'].split(':')\n"
                "for d in dirs:\n    ctypes.CDLL(d / 'libx.so')"
            ),
            [None, "PATH"],
        ),
        (
            (
                "path = os.environ.get('X_PATH')\nif path is None:\n    path = here / 'libx.so'\n"
                "ctypes.CDLL(path)"
            ),
            ["X_PATH", None],
        ),
        (
            (
                "import importlib.metadata as im\n"
                "def find():\n"
                "    for line in im.distribution('x').read_text('RECORD').splitlines():\n"
                "        return line\n"
                "    return os.environ['LD_LIBRARY_PATH'] + '/libx.so'"
            ),
            [None, "LD_LIBRARY_PATH"],
        ),
        (
            (
                "def find():\n    if (given := os.environ.get('X_PATH')):\n        return given\n"
                "    try:\n        return here / 'libx.so'\n    except OSError:\n        pass"
            ),
            ["X_PATH", None],
        ),
    ],
)
def test_the_usual_ways_to_search_are_followed(body: str, expected: list[str | None]) -> None:
    assert order(HEAD + body) == expected


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos.environ['PATH']",  # nothing comes of it
        "import os\ndef level():\n    return os.environ['X_LEVEL']",  # no folder
        "import os\ndef f():\n    if os.name == 'nt':\n        return os.environ['PATH']",
        "def f(:",
        "import os\ndef f():\n    return f() + os.environ['X_LEVEL']",
        # numpy.distutils: the folder of .ini files
        "import os\ndef f():\n    return os.environ.get('X_CONFIG_PATH', __file__) + '/x.ini'",
    ],
)
def test_what_is_no_search_is_none(source: str) -> None:
    assert searches(source.encode(), "x.py") == LibrarySearches()


def test_which_libraries_a_search_concerns() -> None:
    named = one(CLASSIC)
    assert named.concerns("tvm/lib/libtvm.so")
    assert named.concerns("elsewhere/libtvm.so")
    assert not named.concerns("tvm/lib/libother.so")
    holes = one(HEAD + "def f(n):\n    return os.environ['PATH'] + f'/lib{n}.so'\n")
    assert holes.names == ("lib*.so",)
    nameless = "def paths():\n    return [os.environ['X_PATH'], here]\n"
    assert one(HEAD + nameless).concerns("tvm/lib/libany.so")
    assert not one(HEAD + nameless).concerns("other/lib/libany.so")
    tool = "def which():\n    return os.environ['PATH'].split(':')\n"
    assert not one("import os, ctypes\n" + tool).concerns("tvm/lib/libany.so")
    assert not searches(f"import os\n{tool}".encode(), "tvm/which.py").found


# --- What is too much to follow -------------------------------------------------------------------

READS = "import ctypes, os\nctypes.CDLL(os.environ['X_LIB'] + '/libx.so')\n"
MANY = "\n".join(f"def f{n}(): return {' + '.join(f'f{m}()' for m in range(9))}" for n in range(9))
TOO_MUCH = {
    "steps": READS + MANY,
    "words": READS + "x = 1 + 2 * 3\n" * 20_000,
    "depth": READS + "x = " + "[" * 90 + "y" + ".z" * 900 + "]" * 90,
}


@pytest.mark.parametrize("source", TOO_MUCH.values(), ids=TOO_MUCH)
def test_a_source_that_is_not_followed_to_its_end_is_named(source: str) -> None:
    assert searches(source.encode(), "x/y.py").unfollowed == ("x/y.py",)


def test_what_was_found_before_the_limit_is_kept() -> None:
    (found,) = searches((READS + MANY).encode(), "x/y.py").found
    assert found.variables == ("X_LIB",)


@pytest.mark.parametrize(
    "source",
    [
        READS,
        CLASSIC,
        READS + "def f(n): return f(n - 1) or g(n)\ndef g(n): return f(n)\n",
        READS + "x = 1 + 2 * 3\n" * 2_000,
        "x = 1 + 2 * 3\n" * 20_000,
        "import os\nprint os.environ",
    ],
)
def test_other_sources_are_followed_to_their_ends(source: str) -> None:
    """A recursion too, and those that read no variable, or are of another Python."""
    assert not searches(source.encode(), "x/y.py").unfollowed


def test_the_sources_of_a_package_share_what_may_be_spent() -> None:
    budget = Budget("the sources", 1000 * STEPS_PER_EXPRESSION)
    found = [searches(READS.encode(), f"x/{n}.py", budget) for n in range(100)]
    assert found[0].found
    assert found[-1] == LibrarySearches(unfollowed=("x/99.py",))
    assert budget.steps < 50 * STEPS_PER_EXPRESSION


@pytest.mark.large
def test_explain_names_what_was_too_much(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = shared_object(tmp_path / "libx.so", soname="libx.so")
    files: dict[str, bytes | str | Path] = {
        "x/libx.so": library,
        "x/a.py": READS,
        "x/b.py": READS + MANY,
        "z/c.py": READS + MANY,
    }
    files["x/vast.py"] = "#" * 9_000_000
    wheel = make_wheel(tmp_path, tag=f"py3-none-linux_{os.uname().machine}", files=files)
    assert run(["explain", str(wheel), "x/libx.so"]) == 0
    assert "not fully evaluated: `x/b.py`, `x/vast.py`; their" in capsys.readouterr().out
    assert run(["explain", "--output-format=json", str(wheel), "x/libx.so"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["explanations"]
    assert found["not_followed"] == ["x/b.py", "x/vast.py"]
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    assert (
        run(["explain", "--output-format=json", "--site", str(tmp_path / "site"), "x/libx.so"]) == 0
    )
    (found,) = json.loads(capsys.readouterr().out)["explanations"]
    assert found["not_followed"] == ["x/b.py", "x/vast.py"]
