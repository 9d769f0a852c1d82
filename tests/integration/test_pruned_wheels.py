"""What works as built works after a repair: what uses a library without a symbol of it keeps it.

Each wheel has a module that was linked with a library of the build machine, of which it calls
nothing that a linker sees. The wheel as built, and the repaired one without the build machine's
libraries, say the same.
"""

import os
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.build import executable, extension_source, make_wheel, shared_object
from tests.support.repairing import repair
from wheelfix.elf.reader import read_elf
from wheelfix.settings import Settings

TAG = f"cp311-cp311-linux_{os.uname().machine}"
E = "int e(void) { return 5; }"
HI = "#include <stdio.h>\nvoid say(const char *text) { puts(text); fflush(stdout); }\n"
DLSYM = "#define _GNU_SOURCE\n#include <dlfcn.h>\n"
ASK = 'int (*f)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "e"); return f ? f() : -1;'


@dataclass(frozen=True)
class Case:
    """A module `demo._m`, whose `value()` is `g`, and what it was linked with."""

    library: str = E
    """The code of `libe.so.1`, outside the wheel."""
    behind: str = ""
    """The code of a library that only `libe.so.1` needs."""
    module: str = "int g(void) { return 1; }"
    sibling: str = ""
    """The code of a library of the wheel that the module calls."""
    plug: str = ""
    """The code of an object that Python opens."""
    python: str = "from demo import _m\n"
    says: str = "demo._m.value()"
    other: str = ""
    """The code of `demo.other`, another Python source."""
    flags: Sequence[str] = ()


CASES = {
    "a constructor": Case(library=HI + '__attribute__((constructor)) void a(void) { say("a"); }'),
    "a constructor behind": Case(
        behind=HI
        + "int b(void) { return 0; }"
        + '__attribute__((constructor)) void a(void) { say("a"); }',
        library="int b(void); int e(void) { return b(); }",
    ),
    "a destructor": Case(library=HI + '__attribute__((destructor)) void a(void) { say("a"); }'),
    "DT_INIT": Case(library=HI + 'void a(void) { say("a"); }', flags=["-Wl,-init,a"]),
    "DT_FINI": Case(library=HI + 'void a(void) { say("a"); }', flags=["-Wl,-fini,a"]),
    "dlsym in the module": Case(module=f"{DLSYM} int g(void) {{ {ASK} }}"),
    "dlsym in another object": Case(
        module="int s(void); int g(void) { return s(); }",
        sibling=f"{DLSYM} int s(void) {{ {ASK} }}",
    ),
    "a weak reference": Case(
        module="__attribute__((weak)) int e(void); int g(void) { return e ? e() : -1; }"
    ),
    "a weak reference to data": Case(
        library="int e = 5;",
        module="extern __attribute__((weak)) int e; int g(void) { return &e ? e : -1; }",
    ),
    "a weak reference of another object": Case(
        module="int s(void); int g(void) { return s(); }",
        sibling="__attribute__((weak)) int e(void); int s(void) { return e ? e() : -1; }",
    ),
    "a module that is opened for all": Case(
        python="import ctypes, os, sys\nsys.setdlopenflags(258)\nfrom demo import _m\n"
        "plug = ctypes.CDLL(os.path.join(os.path.dirname(__file__), 'plug.so'))\n",
        plug="int e(void); int p(void) { return e(); }",
        says="demo.plug.p()",
    ),
    "a module that is opened as a library": Case(
        python="import ctypes\nfrom demo import _m\nlibrary = ctypes.PyDLL(_m.__file__)\n",
        says="demo.library.e()",
    ),
    "a module that is found by glob and opened as a library": Case(
        python="import ctypes, glob, os\nfolder = os.path.dirname(__file__)\n"
        "library = ctypes.CDLL(glob.glob(os.path.join(folder, '*.so'))[0])\n",
        says="demo.library.e()",
    ),
    "a module that another source opens as a library": Case(
        python="from demo import other\n",
        other="import ctypes, os\nfile = os.path.join(os.path.dirname(__file__), '_m.so')\n"
        "library = ctypes.CDLL(file)\n",
        says="demo.other.library.e()",
    ),
    "a module whose name is built when Python opens it": Case(
        python="import ctypes, os\nfolder, ends = os.path.dirname(__file__), ('_', 'm.so')\n"
        "library = ctypes.CDLL(os.path.join(folder, ''.join(ends)))\n",
        says="demo.library.e()",
    ),
}


def built(case: Case, folder: Path) -> Path:
    """Write the wheel; the library of the build machine is in `folder / "build"`."""
    build, lib = folder / "build", folder / "lib"
    behind = [shared_object(build / "libb.so.1", case.behind, soname="libb.so.1")]
    needed = behind if case.behind else []
    library = shared_object(
        build / "libe.so.1", case.library, soname="libe.so.1", needed=needed, rpath="$ORIGIN",
        flags=case.flags,
    )  # fmt: skip
    siblings = [shared_object(lib / "libs.so", case.sibling, soname="libs.so")]
    module = shared_object(
        lib / "_m.so",
        extension_source("_m", ["g"]) + case.module,
        needed=[*(siblings if case.sibling else []), library],
        rpath=f"{build}:$ORIGIN",
        flags=["-w", f"-I{include()}"],
    )
    files: dict[str, Path | str | bytes] = {"demo/__init__.py": case.python, "demo/_m.so": module}
    if case.other:
        files["demo/other.py"] = case.other
    if case.sibling:
        files["demo/libs.so"] = siblings[0]
    if case.plug:
        files["demo/plug.so"] = shared_object(lib / "plug.so", case.plug)
    return make_wheel(folder / "dist", tag=TAG, files=files)


def include() -> str:
    return subprocess.run(
        [sys.executable, "-c", "import sysconfig; print(sysconfig.get_path('include'))"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip


def said(wheel: Path, folder: Path, code: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_uses_a_library_without_a_symbol_of_it_keeps_it(case: Case, tmp_path: Path) -> None:
    wheel = built(case, tmp_path)
    code = f"import demo; print({case.says})"
    before = said(wheel, tmp_path / "before", code)
    assert "Error" not in before
    outcome = repair(wheel, Settings(wheel_dir=tmp_path / "out", verdict=False), os.environ)
    assert outcome.output is not None, outcome
    (tmp_path / "build").rename(tmp_path / "gone")
    assert said(outcome.output, tmp_path / "after", code) == before


def test_a_library_that_nothing_can_use_is_not_grafted(tmp_path: Path) -> None:
    wheel = built(Case(), tmp_path)
    outcome = repair(wheel, Settings(wheel_dir=tmp_path / "out", verdict=False), os.environ)
    assert outcome.output is not None, outcome
    with zipfile.ZipFile(outcome.output) as archive:
        assert not [name for name in archive.namelist() if "libe" in name]
        assert "libe.so.1" not in read_elf(archive.read("demo/_m.so"), "_m.so").needed


def test_a_program_loads_without_an_excluded_library_that_it_does_not_call(tmp_path: Path) -> None:
    library = shared_object(tmp_path / "build/libe.so.1", E, soname="libe.so.1")
    program = executable(tmp_path / "tool", needed=[library], flags=["-Wl,--no-as-needed"])
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files={"demo-1.0.data/scripts/tool": program})
    settings = Settings(wheel_dir=tmp_path / "out", verdict=False, exclude=("libe.so.1",))
    outcome = repair(wheel, settings, os.environ)
    assert outcome.output is not None, outcome
    with zipfile.ZipFile(outcome.output) as archive:
        name = next(name for name in archive.namelist() if name.endswith("/tool"))
        assert "libe.so.1" not in read_elf(archive.read(name), "tool").needed
