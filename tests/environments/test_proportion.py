"""Very many statements, files and distributions of an environment take time in proportion."""

import sysconfig
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.oracles.fuzzing.bombs import MEMORY, SECONDS, cost_of
from tests.oracles.fuzzing.forge import NAME, Files, library, wheel
from tests.support.build import extension_source, shared_object
from tests.support.effort import cpu_time, slowness, spends_at_most, takes_at_most
from tests.support.memory import peak
from wheelfix.environments.read_environment import read_modules
from wheelfix.environments.run_environment_rules import find_in_environment
from wheelfix.settings import Settings

SMALL, LARGE = 60, 960
MOST = 16 * 3
"""Times longer that the large environment may take: n log n is 27, and quadratic 256."""
SITE = "lib/python3.11/site-packages"
SUFFIX = ".cpython-311-x86_64-linux-gnu.so"
SETS = "import sys, os\ndef f():\n sys.setdlopenflags(os.RTLD_GLOBAL)\n"
OPENS = f"""import ctypes, os
ctypes.CDLL(os.path.join(os.path.dirname(__file__), '_core{SUFFIX}'))
"""


def body(text: str) -> Files:
    return {f"{SITE}/pkg/__init__.py": text}


def in_a_package(text: Callable[[int], str]) -> Callable[[int], Files]:
    return lambda count: body(text(count))


def many_modules(text: Callable[[int, int], str]) -> Callable[[int], Files]:
    return lambda count: {
        f"{SITE}/pkg/__init__.py": "import pkg.m0\n",
        **{f"{SITE}/pkg/m{n}.py": text(n, count) for n in range(count)},
    }


def long_function(count: int) -> str:
    return SETS + " x = 1\n" * count


def generator(count: int) -> str:
    return f"{long_function(count)} yield\n"


def activation(count: int) -> Files:
    return {
        "etc/conda/activate.d/x.sh": "export LD_LIBRARY_PATH=/a\n" * count,
        "conda-meta/history": "",
    }


def activation_of_many(count: int) -> Files:
    lines = "".join(f"LD_LIBRARY_PATH=$CONDA_PREFIX/lib/{n}:/lib\n" for n in range(count))
    return {"etc/conda/activate.d/x.sh": lines, "conda-meta/history": ""}


def path_lines(count: int) -> Files:
    lines = "".join(f"import os; os.environ['X_PATH'] = '/a{n}'\n" for n in range(count))
    return {f"{SITE}/x.pth": lines}


def distributions(count: int) -> Files:
    found: dict[str, str | bytes] = {}
    for n in range(count):
        found[f"{SITE}/d{n}/__init__.py"] = OPENS + f"import d{n + 1}\n"
        found[f"{SITE}/d{n}-1.dist-info/METADATA"] = (
            f"Metadata-Version: 2.1\nName: d{n}\nVersion: 1\n"
        )
        found[f"{SITE}/d{n}-1.dist-info/RECORD"] = f"d{n}/__init__.py,,\nd0/__init__.py,,\n"
        found[f"{SITE}/d{n}-1.dist-info/entry_points.txt"] = "[console_scripts]\nx=x:x\n" * 10
    return found


def rows(count: int) -> Files:
    return {
        f"{SITE}/d-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: d\nVersion: 1\n",
        f"{SITE}/d-1.dist-info/RECORD": "".join(
            f"pkg/../pkg/{n}.so,,\n" for n in range(10 * count)
        ),
    }


MAKERS: dict[str, Callable[[int], Files]] = {
    "with": in_a_package(lambda n: generator(n) + "with f(): pass\n" * n),
    "with of no generator": in_a_package(lambda n: long_function(n) + "with f(): pass\n" * n),
    "nested with": in_a_package(lambda n: generator(n) + "with f():\n with f():\n  f()\n" * n),
    "with of several": in_a_package(lambda n: generator(n) + "with f(), f(): pass\n" * n),
    "async with": in_a_package(
        lambda n: generator(n) + "async def g():\n" + " async with f(): pass\n" * n
    ),
    "decorators": in_a_package(lambda n: generator(n) + "@f()\ndef g(): pass\n" * n),
    "calls": in_a_package(lambda n: long_function(n) + "f()\n" * n),
    "calls of conditions": in_a_package(
        lambda n: SETS + " if u:\n" + "  x = 1\n" * n + "f()\n" * n
    ),
    "class bodies": in_a_package(lambda n: long_function(n) + "class C:\n f()\n" * n),
    "functions that set flags": in_a_package(
        lambda n: (
            "import sys, os\n"
            + "".join(f"def f{m}(): sys.setdlopenflags(os.RTLD_GLOBAL)\n" for m in range(n))
            + "".join(f"f{m}()\n" for m in range(n))
        )
    ),
    "functions of another source": lambda n: {
        f"{SITE}/pkg/__init__.py": "import sys\nfrom pkg.m import f\n#RTLD_GLOBAL setdlopenflags\n"
        + "f()\n" * n,
        f"{SITE}/pkg/m.py": "def f(): pass\n" + "x = 1\n" * n,
    },
    "names of a package": lambda n: {
        f"{SITE}/pkg/__init__.py": "import sys\nsys.setdlopenflags(256) # RTLD_GLOBAL\n"
        + "".join(f"from pkg import x{m}\n" for m in range(n)),
    },
    "callers": lambda n: {
        f"{SITE}/pkg/__init__.py": SETS,
        **{f"{SITE}/pkg/m{m}.py": "from pkg import f\nf()\nimport pkg.m0\n" for m in range(n)},
    },
    "imports in a line": in_a_package(lambda n: OPENS + "from " + "import " * 9 * n + "\n"),
    "from in a line": in_a_package(lambda n: OPENS + "#" + "from " * 9 * n + "\n"),
    "openers": many_modules(lambda _n, _of: OPENS),
    "openers in a chain": many_modules(lambda n, _of: OPENS + f"import pkg.m{n + 1}\n"),
    "openers of all": many_modules(
        lambda _n, of: (
            OPENS + f"from pkg import {', '.join(f'm{m}' for m in range(min(of, 200)))}\n"
        )
    ),
    "openers that import each other": lambda n: many_modules(
        lambda _n, of: OPENS + f"from pkg import {', '.join(f'm{m}' for m in range(of))}\n"
    )(int(n**0.5) * 8),
    "openers that import one module often": many_modules(
        lambda _n, of: f"{OPENS}from pkg import {'m0, ' * 9 * min(of, 200)}m0\n"
    ),
    "openers that import a large one": lambda n: {
        f"{SITE}/pkg/large.py": "def g(x): return x\n" + "g(1)\n" * n,
        **many_modules(lambda _m, _of: f"from pkg.large import g\n{OPENS}g(2)\n")(n),
    },
    "dotted imports": in_a_package(lambda n: OPENS + f"import {'a.' * n}b\n"),
    "long names": in_a_package(lambda n: OPENS + f"from {'a' * 9 * n} import {'b, ' * n}c\n"),
    "attributes": in_a_package(lambda n: SETS + f"os.environ['A_PATH'] = a{'.b' * n}\n" * 9),
    "assignments to environ": in_a_package(
        lambda n: "import os\n" + "".join(f"os.environ['P{m}_PATH'] = '/a{m}'\n" for m in range(n))
    ),
    "one variable of environ": in_a_package(
        lambda n: (
            "import os\n"
            + "".join(f"os.environ['A_PATH'] = os.environ['A_PATH'] + ':/a{m}'\n" for m in range(n))
        )
    ),
    "constants": in_a_package(lambda n: OPENS + f"x = '{'/lib' * 99 * n}'\nctypes.CDLL(x)\n"),
    "constants that are joined": in_a_package(
        lambda n: "import ctypes\nx = 'a'\n" + "x = x + x\n" * n + "ctypes.CDLL(x)\n"
    ),
    "parentheses": in_a_package(lambda n: SETS + f"f({'(' * n}1{')' * n})\n"),
    "definitions": in_a_package(lambda n: OPENS + "def g(): ctypes.CDLL(x)\n" * n + "g()\n" * n),
    "activation": activation,
    "activation of many": activation_of_many,
    "path lines": path_lines,
    "distributions": distributions,
    "rows of RECORD": rows,
}


@cache
def module() -> bytes:
    """Return an extension module that defines a symbol of its own."""
    with TemporaryDirectory() as folder:
        source = extension_source("_core") + "int shared_(void) { return 1; }"
        flags = ["-I", sysconfig.get_path("include")]
        return shared_object(Path(folder) / f"_core{SUFFIX}", source, flags=flags).read_bytes()


def environment(folder: Path, files: Files) -> Path:
    core = module()
    for name, content in {
        "pyvenv.cfg": "home = /usr/bin\n",
        f"{SITE}/pkg/_core{SUFFIX}": core,
        f"{SITE}/qkg/_core{SUFFIX}": core,
        **files,
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def diagnose(root: Path) -> None:
    modules = read_modules(root)
    find_in_environment(modules, Settings())
    contents = modules.symbols.contents
    for found in (contents.openings, contents.promotions, contents.variables):
        assert found is not None
    contents.may_import("pkg", "qkg")


@pytest.mark.each_run(
    "with", "activation of many", "imports in a line", "openers of all", "names of a package"
)
@pytest.mark.parametrize("kind", MAKERS)
def test_an_environment_takes_time_in_proportion(kind: str, tmp_path: Path) -> None:
    def at(count: int) -> Callable[[], None]:
        return partial(diagnose, environment(tmp_path / str(count), MAKERS[kind](count)))

    at(2)()  # imports, and tables that are read once
    assert takes_at_most(MOST, at(LARGE), at(SMALL))


SMALL_PACKED = {
    "imports of one module": "from pkg import " + "m0, " * 20_000 + "m0\n",
    "with": "with f(): x\n" * 5000,
    "openings": OPENS * 300,
}
"""Each in 800 modules is a wheel of 300 kB, and 30 to 70 MB once installed."""


@pytest.mark.large
@pytest.mark.parametrize("kind", SMALL_PACKED)
def test_what_a_small_wheel_installs_takes_seconds_and_512_mb(kind: str, tmp_path: Path) -> None:
    root = environment(
        tmp_path / "env", many_modules(lambda _n, _of: OPENS + SMALL_PACKED[kind])(800)
    )
    assert spends_at_most(SECONDS, lambda: cpu_time(partial(diagnose, root)))
    used, code = peak("doctor", root, XDG_CACHE_HOME=tmp_path)
    assert code == 0
    assert used < MEMORY


def module_that_needs(count: int) -> bytes:
    """It searches as many libraries, that are not there, in as many folders."""
    names = [f"l{n}.so" for n in range(count)]
    return library(names, runpath=":".join(f"$ORIGIN/../q{n}" for n in range(count)))


OBJECTS: dict[str, Callable[[int], Files]] = {
    "missing libraries in folders": lambda n: {
        f"{SITE}/q{m}/_m{SUFFIX}": module_that_needs(n) for m in range(n)
    },
    "libraries in a circle": lambda n: {
        f"{SITE}/q/l{m}.so": library([f"l{(m + 1) % n}.so"], soname=f"l{m}.so", runpath="$ORIGIN")
        for m in range(n)
    },
    "copies of one library": lambda n: {
        f"{SITE}/q{m}/{name}": library(needed, soname=soname, runpath="$ORIGIN")
        for m in range(n)
        for name, soname, needed in (
            ("libz.so.1", "libz.so.1", []),
            (f"_m{SUFFIX}", "", ["libz.so.1"]),
        )
    },
    "objects of no bytes": lambda n: {f"{SITE}/q{m}/_m{SUFFIX}": library() for m in range(n)},
}
COUNTS = {
    "missing libraries in folders": (40, 160),
    "libraries in a circle": (120, 1_000),
    "copies of one library": (150, 1_100),
    "objects of no bytes": (1_000, 4_000),
}
"""The larger ones are environments of 1 MB."""


@pytest.mark.each_run("libraries in*-large-doctor")
@pytest.mark.parametrize("command", ["doctor", "explain --site"])
@pytest.mark.parametrize("size", ["small", "large"])
@pytest.mark.parametrize("kind", OBJECTS)
def test_an_environment_of_1_mb_takes_seconds_and_512_mb(
    kind: str, size: str, command: str, tmp_path: Path
) -> None:
    """Each module loads by itself, so that objects that lead to each other cost a square."""
    files = OBJECTS[kind](COUNTS[kind][size == "large"])
    assert sum(map(len, files.values())) < 1_100_000
    root = environment(tmp_path / "env", files)

    def seconds() -> float:
        spent = cost_of([*command.split(), str(root)])
        assert spent.code in {0, 1, 2}, spent.output
        assert "internal error" not in spent.output
        assert "exceeds" not in spent.output or size == "large"
        assert spent.memory < MEMORY
        return spent.seconds

    assert spends_at_most(SECONDS, seconds)


@pytest.mark.large
def test_objects_that_are_packed_well_buy_a_wheel_no_work(tmp_path: Path) -> None:
    """Each is 20 kB once installed, and 400 bytes in the wheel."""
    path = tmp_path / NAME
    names = [f"l{n}{SUFFIX}" for n in range(900)]
    after = [*names[1:], names[0]]
    path.write_bytes(
        wheel(
            {
                f"q/{name}": library([other], soname=name, runpath="$ORIGIN") + bytes(20_000)
                for name, other in zip(names, after, strict=True)
            }
        )
    )
    assert path.stat().st_size < 400_000
    spent = cost_of(["doctor", str(path)], most=2 * SECONDS * slowness())
    assert (spent.code, "exceeds the work limit" in spent.output) == (2, True)
