"""Names of libraries in Python sources, found by reading and held to what the code would do."""

import ast
import subprocess
import sys
from textwrap import dedent

import pytest

from wheelfix.budget import Budget
from wheelfix.python_sources.opening_calls import IMPORTS_ANY
from wheelfix.python_sources.opens import opened_on_import, visit_source
from wheelfix.python_sources.parsing import STEPS_PER_EXPRESSION, STEPS_PER_WHEEL, Sources
from wheelfix.python_sources.source_facts import LookupPlace, PythonOpening


def read_nothing(_path: str) -> bytes:
    return b""


NO_SOURCES = Sources(dict[str, str]().get, read_nothing, frozenset[str]().__contains__)
MODULES = {"pkg": "pkg/__init__.py", "pkg.core": "pkg/core.cpython-311-x86_64-linux-gnu.so"}


def opened(source: str, path: str = "pkg/mod.py") -> tuple[PythonOpening, ...]:
    return visit_source(dedent(source).encode(), path, MODULES).openings


def names(source: str, path: str = "pkg/mod.py") -> list[tuple[str, LookupPlace]]:
    return [(opening.name, opening.where) for opening in opened(source, path)]


# --- Ways to open ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "import ctypes\nctypes.CDLL('libx.so')",
        "import ctypes as c\nc.CDLL('libx.so')",
        "from ctypes import CDLL\nCDLL('libx.so', mode=1)",
        "from ctypes import CDLL\nCDLL(name='libx.so')",
        "import ctypes\nctypes.PyDLL('libx.so')",
        "import ctypes\nctypes.cdll.LoadLibrary('libx.so')",
        "from ctypes import cdll\ncdll.LoadLibrary('libx.so')",
        "from cffi import FFI\nffi = FFI()\nffi.dlopen('libx.so')",
        "from pkg._x import ffi\nlib = ffi.dlopen('libx.so')",
        "import cffi\ncffi.FFI().dlopen('libx.so')",
    ],
)
def test_the_usual_calls_are_known(source: str) -> None:
    assert names(source) == [("libx.so", LookupPlace.SEARCH)]


def test_find_library_has_its_own_kind_of_search() -> None:
    source = "from ctypes.util import find_library\nimport ctypes\nctypes.CDLL(find_library('x'))"
    assert names(source) == [("x", LookupPlace.FIND)]


@pytest.mark.parametrize(
    ("before", "sure"),
    [
        ("", True),
        ("CDLL(sys.argv[1])", False),
        ("for p in glob(where):\n        CDLL(p)", False),
        ("CDLL('liby.so')", True),
        ("CDLL(None)", True),
    ],
)
def test_find_library_after_an_attempt_of_unknown_name(before: str, *, sure: bool) -> None:
    source = (
        "import sys\nfrom ctypes import CDLL\nfrom ctypes.util import find_library\n"
        f"def load():\n    {before}\n    return CDLL(find_library('x'))\n"
    )
    [found] = [opening for opening in opened(source) if opening.name == "x"]
    assert found.sure == sure


def test_numpy_tries_suffixes() -> None:
    [found] = opened("import numpy as np\nnp.ctypeslib.load_library('_x', __file__)")
    assert (found.name, found.where) == ("_x", LookupPlace.SOURCE)
    assert ".so" in found.suffixes


@pytest.mark.parametrize(
    "source",
    [
        "import ctypes\nctypes.WinDLL('x.dll')",
        "import ctypes\nctypes.CDLL(None)",
        "import ctypes\nctypes.CDLL('')",
        "import ctypes\nctypes.CDLL(unknown())",
        "def CDLL(x): ...\nCDLL('libx.so')",
        "import ctypes\ndef f(CDLL):\n    CDLL('libx.so')",
        "'ctypes.CDLL(\"libx.so\")'",
        "not python at all: CDLL(",
    ],
)
def test_what_opens_nothing_here_is_left_out(source: str) -> None:
    assert names(source) == []


# --- Ways to build a path -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression",
    [
        "os.path.join(os.path.dirname(__file__), 'lib', 'libx.so')",
        "os.path.join(os.path.abspath(os.path.dirname(__file__)), 'lib/libx.so')",
        "os.path.dirname(os.path.realpath(__file__)) + '/lib/libx.so'",
        "os.path.dirname(__file__) + os.sep + 'lib' + os.sep + 'libx.so'",
        "f'{os.path.dirname(__file__)}/lib/libx.so'",
        "'%s/lib/libx.so' % os.path.dirname(__file__)",
        "'{}/lib/{}.so'.format(os.path.dirname(__file__), 'libx')",
        "str(Path(__file__).parent / 'lib' / 'libx.so')",
        "Path(__file__).resolve().parent.joinpath('lib', 'libx.so')",
        "os.fspath(Path(__file__).parents[0] / 'lib/libx.so')",
        "str(Path(__file__).with_name('lib') / 'libx.so')",
        "str(files('pkg') / 'lib' / 'libx.so')",
        "str(files(__package__).joinpath('lib/libx.so'))",
        "os.path.join(os.path.dirname(pkg.__file__), 'lib', 'libx.so')",
        "os.path.join(pkg.__path__[0], 'lib', 'libx.so')",
        "os.path.join(HERE, SUB, NAMES['linux'])",
        "os.path.join(HERE, SUB, NAMES[sys.platform])",
        "os.path.join(HERE, SUB, NAMES.get(platform.system().lower(), 'x'))",
        "where('libx.so')",
        "os.path.join(HERE, SUB, 'libx.so')",
    ],
)
def test_a_path_beside_the_source_is_followed(expression: str) -> None:
    source = f"""
    import ctypes, os, platform, sys, pkg
    from importlib.resources import files
    from pathlib import Path
    HERE = os.path.dirname(__file__)
    SUB = "lib"
    NAMES = {{"linux": "libx.so", "win32": "x.dll"}}
    def where(name):
        return os.path.join(HERE, SUB, name)
    ctypes.CDLL({expression})
    """
    assert names(source) == [("lib/libx.so", LookupPlace.SOURCE)]


def test_a_path_may_leave_the_folder() -> None:
    source = """
    import ctypes, os
    ctypes.CDLL(os.path.join(os.path.dirname(__file__), "..", "..", "pkg.libs", "libx.so"))
    """
    assert names(source, "pkg/sub/mod.py") == [("../../pkg.libs/libx.so", LookupPlace.SOURCE)]


def test_sys_prefix_is_a_place_of_the_environment() -> None:
    source = "import ctypes, os, sys\nctypes.CDLL(os.path.join(sys.prefix, 'lib', 'libx.so'))"
    assert names(source) == [("lib/libx.so", LookupPlace.PREFIX)]


def test_a_resource_as_a_file() -> None:
    source = """
    import ctypes
    from importlib.resources import as_file, files
    with as_file(files("pkg") / "libx.so") as path:
        ctypes.CDLL(str(path))
    """
    assert names(source) == [("libx.so", LookupPlace.SOURCE)]


def test_a_resource_kept_as_a_file_on_an_exit_stack() -> None:
    source = """
    import ctypes
    from contextlib import ExitStack
    from importlib.resources import as_file, files
    stack = ExitStack()
    path = stack.enter_context(as_file(files("pkg").joinpath("lib", "libx.so")))
    ctypes.CDLL(str(path))
    """
    assert names(source) == [("lib/libx.so", LookupPlace.SOURCE)]


def test_the_file_of_an_extension_module_is_where_the_wheel_has_it() -> None:
    source = "import ctypes\nfrom pkg import core\nctypes.CDLL(core.__file__)"
    assert names(source, "other.py") == [(MODULES["pkg.core"], LookupPlace.SOURCE)]


# --- What is run, and what is sure ----------------------------------------------------------------


def test_code_for_other_systems_is_not_followed() -> None:
    source = """
    import ctypes, os, platform, sys
    if sys.platform == "win32":
        name = "x.dll"
    elif sys.platform.startswith("darwin"):
        name = "libx.dylib"
    else:
        name = "libx.so"
    ctypes.CDLL(name)
    if os.name == "nt":
        ctypes.CDLL("y.so")
    ext = ".dylib" if platform.system() == "Darwin" else ".so"
    ctypes.CDLL("libz" + ext)
    def windows():
        if sys.platform != "win32":
            return
        ctypes.CDLL("w.so")
    """
    assert names(source) == [("libx.so", LookupPlace.SEARCH), ("libz.so", LookupPlace.SEARCH)]


@pytest.mark.parametrize(
    ("source", "sure"),
    [
        ("ctypes.CDLL('libx.so')", True),
        ("try:\n    ctypes.CDLL('libx.so')\nexcept OSError:\n    pass", False),
        (
            "try:\n    ctypes.CDLL('libx.so')\nexcept OSError as e:\n    raise ImportError from e",
            True,
        ),
        ("try:\n    ctypes.CDLL('libx.so')\nfinally:\n    done = 1", True),
        ("with contextlib.suppress(OSError):\n    ctypes.CDLL('libx.so')", False),
        ("if debug():\n    ctypes.CDLL('libx.so')", False),
        ("if os.path.exists('libx.so'):\n    ctypes.CDLL('libx.so')", False),
        ("for name in ['libx.so']:\n    ctypes.CDLL(name)", True),
        ("for name in found():\n    ctypes.CDLL('libx.so')", False),
        ("x = ctypes.CDLL('libx.so') if debug() else None", False),
        ("x = debug() or ctypes.CDLL('libx.so')", False),
    ],
)
def test_only_what_nothing_tests_or_catches_is_sure(source: str, sure: bool) -> None:  # noqa: FBT001 - a parameter of the test
    [found] = opened(f"import contextlib, ctypes, os\n{source}")
    assert (found.name, found.sure, found.on_import) == ("libx.so", sure, True)


@pytest.mark.parametrize(
    "expression",
    [
        "os.path.join(os.path.dirname(unknown()), 'libx.so')",
        "NAMES.get(unknown(), 'libx.so')",
        "'libx.so' if unknown().startswith('x') else f'lib{unknown()}.so'",
        "os.path.join(os.path.dirname(__file__), unknown(), 'libx.so')",
        "str(next(pathlib.Path(__file__).parent.glob('libx*.so')))",
    ],
)
def test_what_an_unknown_value_decides_is_never_sure(expression: str) -> None:
    source = f"import ctypes, os, pathlib\nNAMES = {{}}\nctypes.CDLL({expression})"
    assert [opening for opening in opened(source) if opening.sure] == []


def test_alternatives_are_not_sure() -> None:
    loop = "import ctypes\nfor n in ('libx.so.1', 'libx.so'):\n    "
    first, second = ("libx.so.1", True), ("libx.so", True)
    tried = [(name, False) for name, _ in (first, second)]
    for body, expected in (
        ("ctypes.CDLL(n)", [first, second]),
        ("try:\n        ctypes.CDLL(n)\n        break\n    except OSError: pass", tried),
        ("if unknown():\n        ctypes.CDLL(n)\n        break", tried),
        ("ctypes.CDLL(n)\n    break", [first]),  # which Python never comes past
    ):
        found = [(opening.name, opening.sure) for opening in opened(loop + body)]
        assert found == expected


def test_what_a_set_has_is_known() -> None:
    found = opened("import ctypes\nif 'a.so' in {'a.so', 'b.so'}:\n    ctypes.CDLL('x.so')\n")
    assert [opening.sure for opening in found] == [True]


@pytest.mark.parametrize(
    ("elements", "is_sure"),
    [
        ("['a.so', 'b.so']", True),
        ("{'a.so', 'b.so'}", False),
        ("{n for n in ('a.so', 'b.so')}", False),
        ("[n for n in {'a.so', 'b.so'}]", False),
        ("{'a.so'}", True),
    ],
)
def test_the_order_of_a_set_is_not_known(elements: str, *, is_sure: bool) -> None:
    found = opened(f"import ctypes\nfor n in {elements}:\n    ctypes.CDLL(n)\n")
    assert {opening.name for opening in found} == {"a.so", "b.so"}.intersection(elements.split("'"))
    assert [(o.sure, o.runs) for o in found] == [(is_sure, is_sure)] * len(found)


@pytest.mark.parametrize(
    "source",
    [
        "list(map(CDLL, ['libx.so']))",
        "pool.map(CDLL, ['libx.so'])",
        "load = functools.partial(CDLL, mode=1)\nload('libx.so')",
        "functools.partial(CDLL, 'libx.so')()",
        "_ctypes.dlopen('libx.so', 2)",
        "exec('lib = CDLL(\"libx.so\")')",
        "exec(compile('import ctypes as c\\nc.CDLL(\"libx.so\")', 'x', 'exec'))",
        "while True:\n    CDLL('libx.so')\n    break",
        "ctypes.LibraryLoader(CDLL).LoadLibrary('libx.so')",
        "getattr(ctypes, 'CDLL')('libx.so')",
        "__import__('ctypes').CDLL('libx.so')",
        "class Own(CDLL): pass\nOwn('libx.so')",
        "class Loader:\n    def load(self): CDLL('libx.so')\nLoader().load()",
        "class Loader:\n    def load(self): CDLL('libx.so')\nloader = Loader()\nloader.load()",
        "if platform.python_implementation() == 'CPython': CDLL('libx.so')",
    ],
)
def test_calls_by_way_of_other_tools_are_sure(source: str) -> None:
    before = "import _ctypes, ctypes, functools, platform\nfrom ctypes import CDLL\n"
    [found] = opened(before + source)
    assert (found.name, found.sure, found.on_import) == ("libx.so", True, True)


@pytest.mark.parametrize(
    ("test", "opens"),
    [
        ("sys.version_info >= (3, 8)", True),
        ("sys.version_info[:2] > (3, 12)", False),
        ("sys.version_info[0] == 3", True),
        ("sys.version_info.minor < 12", False),
        ("platform.machine() == 'aarch64'", False),
        ("platform.machine() in ('x86_64', 'AMD64')", True),
        ("sys.implementation.name == 'cpython'", True),
    ],
)
def test_what_python_it_is_decides_in_an_environment(test: str, *, opens: bool) -> None:
    source = f"import ctypes, platform, sys\nif {test}:\n    ctypes.CDLL('libx.so')\n".encode()
    there = NO_SOURCES._replace(suffix=".cpython-312-x86_64-linux-gnu.so")
    found, _ = opened_on_import(source, "pkg/__init__.py", there, Budget("", STEPS_PER_WHEEL))
    assert [one.sure for one in found] == [True] * opens


@pytest.mark.parametrize(
    ("test", "never"),
    [
        ("False", True),
        ("sys.platform == 'win32'", True),
        ("TYPE_CHECKING or os.name not in ('posix', 'java')", True),
        ("not (platform.system() == 'Linux' and sys.platform.startswith('lin'))", True),
        ("USE", False),
        ("sys.prefix == sys.base_prefix", False),
        ("platform.python_implementation() != 'CPython'", False),
        ("sys.maxsize < 2**32", False),
        ("struct.calcsize('P') == 4", False),
        ("platform.architecture()[0] == '32bit'", False),
    ],
)
def test_a_branch_that_linux_never_takes_opens_nothing(test: str, *, never: bool) -> None:
    """What a variable of the source is, other code may change; and Python may be another."""
    assert opens_unknown(test, "USE = False") is not never


@pytest.mark.parametrize(
    "bound",
    [
        "from .names import *",
        "from . import fake as sys",
        "def f(sys): pass",
        "for sys in (): pass",
        "sys.platform = 'win32'",
        "try: pass\nexcept OSError as sys: pass",
    ],
)
def test_a_branch_may_be_taken_if_the_name_is_bound_elsewhere(bound: str) -> None:
    assert opens_unknown("sys.platform == 'win32'", bound)


def opens_unknown(test: str, before: str) -> bool:
    imports = "import ctypes, os, platform, struct, sys\nfrom typing import TYPE_CHECKING"
    source = f"{before}\n{imports}\nif {test}:\n    ctypes.CDLL(name())\n"
    return visit_source(source.encode(), "pkg/__init__.py", {}).opened_unknown


@pytest.mark.parametrize(
    ("statement", "unknown"),
    [
        ("load = ctypes.CDLL if os.name != 'nt' else ctypes.PyDLL\nload('liba.so')", True),
        ("load = getattr(ctypes, 'OleDLL', None) or ctypes.CDLL\nload('liba.so')", True),
        ("load = getattr(ctypes, 'CD' + 'LL')\nload('liba.so')", True),
        ("def run(path, loader=ctypes.CDLL):\n    loader(path)\nrun('liba.so')", True),
        ("def run(loader, path):\n    loader(path)\nrun(ctypes.CDLL, 'liba.so')", True),
        ("class A:\n    loader = ctypes.CDLL\nA().loader('liba.so')", True),
        ("def loader():\n    return ctypes.CDLL\nloader()('liba.so')", True),
        ("a, b = ctypes.CDLL, 1\na('liba.so')", True),
        ("type('T', (ctypes.CDLL,), {})('liba.so')", True),
        ("vars(ctypes)['CDLL']('liba.so')", True),
        ("exec('ctypes.CDLL(path)')", True),
        ("load = ctypes.CDLL\nload('liba.so')", False),
        ("class A(ctypes.CDLL): ...\nA('liba.so')", False),
        ("def load(path: str) -> ctypes.CDLL: ...", False),
        ("isinstance(a, ctypes.CDLL)", False),
        ("ctypes._dlopen('liba.so', 2)", False),
        ("getattr(ctypes, 'c_int')", False),
    ],
)
def test_what_is_done_with_an_opener_is_not_known_unless_it_is_followed(
    statement: str, *, unknown: bool
) -> None:
    source = f"import ctypes, os\n{statement}\n".encode()
    assert visit_source(source, "pkg/__init__.py", {}).opened_unknown is unknown


def test_an_opener_that_is_given_to_unknown_code_may_open_anything() -> None:
    for call, unknown in (
        ("run(ctypes.CDLL, name())", True),
        ("isinstance(x, ctypes.CDLL)", False),
    ):
        source = f"import ctypes\n{call}".encode()
        budget = Budget("", STEPS_PER_WHEEL)
        found = opened_on_import(source, "pkg/__init__.py", NO_SOURCES, budget)
        assert found == ([], unknown)


def test_a_search_after_all_paths_that_were_tried_is_not_sure() -> None:
    """As gmsh has it: the library is in one of the places."""
    search = "from ctypes.util import find_library\npath = find_library('x')"
    assert [opening.sure for opening in opened(search)] == [True]
    last = (
        "import os\nfrom ctypes.util import find_library\npath = None\n"
        "for each in ('lib/x', 'bin/x'):\n    if os.path.exists(each):\n"
        "        path = each\n        break\nif not path:\n    path = find_library('x')"
    )
    assert [opening.sure for opening in opened(last)] == [False]


def test_a_call_in_a_function_is_made_later_unless_the_module_calls_it() -> None:
    later = "import ctypes\ndef load():\n    return ctypes.CDLL('libx.so')\n"
    assert [opening.on_import for opening in opened(later)] == [False]
    assert [opening.on_import for opening in opened(later + "load()")] == [True]


def test_a_parameter_is_known_by_the_calls_of_the_same_source() -> None:
    source = """
    import ctypes, os
    def load(name, folder="lib"):
        return ctypes.CDLL(os.path.join(os.path.dirname(__file__), folder, name))
    A = load("liba.so")
    B = load("libb.so", folder="other")
    """
    assert names(source) == [
        ("lib/liba.so", LookupPlace.SOURCE),
        ("other/libb.so", LookupPlace.SOURCE),
    ]


def test_an_endless_recursion_ends() -> None:
    source = "import ctypes\ndef f(x):\n    return f(x + 'a')\nctypes.CDLL(f('b'))"
    assert names(source) == []


def test_a_source_is_never_run() -> None:
    source = "import ctypes\nctypes.CDLL(__import__('os').system('false') or 'libx.so')\n1/0"
    ast.parse(source)
    assert names(source) in ([], [("libx.so", LookupPlace.SEARCH)])


def test_a_source_may_have_more_lines_than_its_bytes() -> None:
    source = (
        b"# coding: utf-7\nimport ctypes+AAoACg-def f(): ctypes.CDLL('libx.so')\n"
        b"+AAoACg-def g():+AAoACgAK- ctypes.CDLL('liby.so')\n"
    )
    openings = visit_source(source, "a.py", {}).openings
    assert [(opening.line, opening.name) for opening in openings] == [
        (4, "libx.so"),
        (10, "liby.so"),
    ]


# --- Within bounds --------------------------------------------------------------------------------


def test_warnings_of_a_source_are_not_printed() -> None:
    """Python 3.12 warns of `"\\d"` with a SyntaxWarning, 3.11 with a hidden DeprecationWarning."""
    code = (
        "from wheelfix.python_sources.opens import visit_source\n"
        "found = visit_source(b'import ctypes\\nctypes.CDLL(\"\\\\d.so\")', 'a.py', {})\n"
        "print(found.openings[0].name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "\\d.so\n"
    assert "escape" not in done.stderr


def test_a_format_does_not_look_into_objects() -> None:
    source = "import ctypes\nctypes.CDLL('{0.__class__}{1:>5000}.so'.format('a', 'b'))"
    assert opened(source) == ()
    source = "import ctypes\nctypes.CDLL('{0}-{b}{:>3}.so'.format('a', 'b'))"
    assert opened(source) == ()
    source = "import ctypes\nctypes.CDLL('%0999999999d.so' % 1)"
    assert opened(source) == ()
    assert names("import ctypes\nctypes.CDLL('{}{}.so'.format('a', 'b'))")[0][0] == "ab.so"


def test_effort_ends_for_all_sources_of_a_wheel_together() -> None:
    budget = Budget("the sources", 60 * STEPS_PER_EXPRESSION)
    source = b"import ctypes\nctypes.CDLL('libx.so')\n"
    found = [visit_source(source, f"{n}.py", {}, budget) for n in range(30)]
    assert found[0].openings
    assert found[0].to_its_end
    assert not found[-1].openings
    ends = [walk.to_its_end for walk in found]
    assert ends == sorted(ends, reverse=True), "once it is spent, all the rest is given up"
    assert not ends[-1]


def test_what_was_found_before_effort_ended_is_kept() -> None:
    source = "import ctypes\nctypes.CDLL('libx.so')\n" + "ctypes.CDLL(a + b)\n" * 30
    cut = visit_source(
        source.encode(), "a.py", {}, Budget("the sources", 80 * STEPS_PER_EXPRESSION)
    )
    assert [opening.name for opening in cut.openings] == ["libx.so"]
    assert not cut.to_its_end
    assert visit_source(source.encode(), "a.py", {}).to_its_end


def test_a_source_that_is_not_python_is_complete() -> None:
    assert visit_source(b"print 'CDLL'", "a.py", {})[:2] == ((), True)


def test_a_source_of_too_many_tokens_is_not_parsed() -> None:
    opens = b"import ctypes\nctypes.CDLL('libx.so')\n"
    assert visit_source(opens + b"[" + b"0," * 20_000 + b"]", "a.py", {}).openings
    assert visit_source(opens + b"[" + b"0," * 60_000 + b"]", "a.py", {})[:2] == ((), False)
    one_word = visit_source(opens + b"#" + b"x" * 1_000_000, "a.py", {})
    assert one_word.openings
    assert one_word.to_its_end


def test_functions_that_open_nothing_are_not_visited() -> None:
    idle = "def idle{0}(n):\n    a = [n, n + 1, str(n)]\n    return idle{1}(a)\n"
    many = "".join(idle.format(n, n + 1) for n in range(300))
    used = "def use(name):\n    load(name)\ndef main():\n    use('libx.so')\n"
    source = f"from ctypes import CDLL as load\n{many}{used}"
    budget = Budget("pkg/mod.py", STEPS_PER_EXPRESSION * (len(source) >> 3))
    followed = visit_source(source.encode(), "pkg/mod.py", MODULES, budget)
    assert followed.to_its_end
    assert [opening.name for opening in followed.openings] == ["libx.so"]


# --- Variables ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "directories"),
    [
        ("os.environ['X'] = os.path.join(os.path.dirname(__file__), 'lib')", ("pkg/lib",)),
        ("os.environ['X'] = '/opt/lib:' + os.environ.get('X', '')", ("/opt/lib",)),
        ("os.environ['X'] += f':{sys.prefix}/lib'", ("../../../lib",)),
        ("os.environ['X'] = unknown() + ':relative'", ()),
        ("def f():\n  os.environ['X'] = '/opt/lib'", None),  # not when it is imported
        ("os.environ['X']", None),
    ],
)
@pytest.mark.parametrize("imports", ["import os, sys", ""])  # cv2 runs a file with its own names
def test_variables_that_an_import_sets(
    source: str, directories: tuple[str, ...] | None, imports: str
) -> None:
    found = visit_source(f"{imports}\n{source}".encode(), "pkg/mod.py", {}).assignments
    assert [(one.variable, one.line, one.directories) for one in found] == (
        [] if directories is None else [("X", 2, directories)]
    )


@pytest.mark.parametrize(
    ("source", "may"),
    [
        (b"import_module(name)", True),
        (b"get = importlib.import_module", True),
        (b"list(map(import_module, names))", True),
        (b"from importlib import import_module", False),
        (b"from importlib import (import_module,)", True),  # it may be a call
    ],
)
def test_a_function_that_imports_by_a_name_may_have_another_name(
    source: bytes, *, may: bool
) -> None:
    assert bool(IMPORTS_ANY.search(source)) is may
