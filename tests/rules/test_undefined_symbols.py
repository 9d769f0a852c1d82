"""Undefined symbols: found exactly where Python fails to import the module."""

import os
import py_compile
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import wheelfix
from tests.oracles.installations import objects
from tests.oracles.installations.objects import LIBRARY, Code, Symbol
from tests.support.build import executable, extension, extension_source, make_wheel, shared_object
from tests.support.repairing import repair
from wheelfix.cli import app
from wheelfix.host.library_search import GivenLibraries, HostLibraries
from wheelfix.loader import python_api
from wheelfix.loader.platform_libraries import defines, first_versions
from wheelfix.rules import python_c_api
from wheelfix.rules import undefined_symbols as symbols
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Finding, Severity
from wheelfix.rules.registry import rules_in
from wheelfix.rules.rule import Rule
from wheelfix.rules.run_rules import run_rules
from wheelfix.settings import Settings
from wheelfix.wheel.reader import open_wheel

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
MINOR = sys.version_info.minor
TAG = f"cp3{MINOR}-cp3{MINOR}-linux_x86_64"
LAZY = ["-Wl,--unresolved-symbols=ignore-all"]


LIBRARIES: type[GivenLibraries] = HostLibraries


@pytest.fixture(params=[HostLibraries, GivenLibraries], autouse=True)
def around(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every test hold with this machine's libraries, and without any."""
    monkeypatch.setattr(sys.modules[__name__], "LIBRARIES", request.param)


def found(path: Path, **settings: Any) -> list[Finding]:
    """What the rules of symbols say of a wheel."""
    asked = Settings(**settings)
    with open_wheel(path) as archive:
        definitions = LIBRARIES(archive=archive, library_path=asked.library_path)
        context = Context(wheel=archive.wheel, settings=asked, definitions=definitions)
        return list(run_rules(context, rules_in(Rule, symbols, python_c_api)))


def said(path: Path, **settings: Any) -> list[tuple[str, Severity, str | None]]:
    return [(finding.code, finding.severity, finding.entry) for finding in found(path, **settings)]


def packed(tmp_path: Path, files: Mapping[str, Path | str], tag: str = TAG) -> Path:
    return make_wheel(tmp_path / "dist", tag=tag, files={"pkg/__init__.py": "", **files})


def run(path: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Install the wheel beside itself, and run `code` there."""
    site = path.parent / "site"
    with zipfile.ZipFile(path) as archive:
        archive.extractall(site)
    return subprocess.run(
        [sys.executable, "-c", code], cwd=site, capture_output=True, text=True, check=False
    )


# --- WF301: no library defines it -----------------------------------------------------------------


def test_an_undefined_symbol_is_named_as_in_the_error_of_python(tmp_path: Path) -> None:
    library = shared_object(tmp_path / "libcodec.so", "int codec_compress2(void) { return 1; }")
    built = extension(
        tmp_path / "m.so", "m", needed=[library], calls=["codec_compress"], rpath="$ORIGIN",
        flags=LAZY,
    )  # fmt: skip
    path = packed(tmp_path, {f"pkg/m{SUFFIX}": built, "pkg/libcodec.so": library})
    [finding] = found(path)
    assert (finding.code, finding.severity) == ("WF301", Severity.ERROR)
    assert finding.entry == "codec_compress"
    assert "a similar symbol is defined: `codec_compress2`" in finding.notes
    assert "undefined symbol: codec_compress" in run(path, "import pkg.m").stderr


def test_what_was_not_linked_is_one_finding_however_many_symbols_it_has(tmp_path: Path) -> None:
    calls = ["one", "two", "three", "four", "five", "six", "deflate", "inflate"]
    built = extension(tmp_path / "m.so", "m", calls=calls, flags=LAZY)
    path = packed(tmp_path, {f"pkg/m{SUFFIX}": built})
    findings = [finding for finding in found(path) if finding.code == "WF301"]
    said = {finding.message.partition(" and ")[2]: finding.notes for finding in findings}
    assert len(findings) == 2
    in_none, in_zlib = said["5 other symbols"], said["1 other symbol"]
    assert in_none[-1].endswith(" and 2 more")
    assert "`libz.so.1` defines them, but is not in DT_NEEDED" in in_zlib


def test_what_an_object_is_linked_with_is_not_to_be_linked_again(tmp_path: Path) -> None:
    """It has a copy of zlib, of an earlier repair, that lacks one of its functions."""
    name = "libz-abcdef01.so.1"
    code = "const char *zlibVersion(void) { return 0; }"
    library = shared_object(tmp_path / name, code, soname=name)
    calls = ["zlibVersion", "inflate"]
    built = extension(
        tmp_path / "m.so", "m", needed=[library], calls=calls, rpath="$ORIGIN", flags=LAZY
    )
    path = packed(tmp_path, {f"pkg/m{SUFFIX}": built, f"pkg/{name}": library})
    [finding] = [finding for finding in found(path) if finding.code == "WF301"]
    assert (finding.entry, "DT_NEEDED" in str(finding.notes)) == ("inflate", False)
    assert f"if that is `pkg/{name}`, ship the build that it was linked with" in str(finding.hint)


def test_a_library_that_only_a_module_loads_is_held_to_it_too(tmp_path: Path) -> None:
    library = shared_object(
        tmp_path / "liba.so", "int gone(void); int a(void) { return gone(); }", flags=LAZY
    )
    built = extension(
        tmp_path / "m.so", "m", needed=[library], calls=["a"], rpath="$ORIGIN", flags=LAZY
    )
    path = packed(tmp_path, {f"pkg/m{SUFFIX}": built, "pkg/liba.so": library})
    [finding] = found(path)
    assert (finding.member, finding.entry) == ("pkg/liba.so", "gone")
    assert f"loaded by `pkg/m{SUFFIX}`" in finding.notes
    assert "undefined symbol: gone" in run(path, "import pkg.m").stderr


def test_what_a_sibling_defines_is_found_and_noted_for_who_loads_the_library_alone(
    tmp_path: Path,
) -> None:
    """pyhdf: libmfhdf takes symbols of libdf, with which only the module is linked."""
    giver = shared_object(tmp_path / "libgiver.so", "int given(void) { return 3; }")
    taker = shared_object(
        tmp_path / "libtaker.so", "int given(void); int taken(void) { return given(); }", flags=LAZY
    )
    built = extension(
        tmp_path / "m.so", "m", needed=[giver, taker], calls=["taken"], rpath="$ORIGIN"
    )
    files = {f"pkg/m{SUFFIX}": built, "pkg/libgiver.so": giver, "pkg/libtaker.so": taker}
    path = packed(tmp_path, files)
    assert said(path) == [("WF301", Severity.NOTE, "given")]
    assert run(path, "import pkg.m; print(pkg.m.value())").stdout == "3\n"
    alone = run(path, "import ctypes, pkg; ctypes.CDLL(pkg.__path__[0] + '/libtaker.so')")
    assert "undefined symbol: given" in alone.stderr


_RUNS = "int PyRun_SimpleString(char *); int run(void) { return PyRun_SimpleString(0); } "
_OPENS = "void *dlopen(const char *, int); void *p(void) { return dlopen(0, 258); } "


@pytest.mark.parametrize(
    ("init", "native", "is_needed", "severity"),
    [
        ("", "", False, Severity.ERROR),
        ("import ctypes\nctypes.CDLL('core.so', 258)\n", "", False, Severity.WARNING),
        ("", _OPENS, False, Severity.WARNING),
        ("", _RUNS, False, Severity.WARNING),
        ("exec(open('any').read())\n", "", False, Severity.WARNING),
        ("import sys\nsys.setdlopenflags(258)\n", "", True, Severity.WARNING),
    ],
)
def test_what_another_library_defines_is_an_error_unless_it_may_be_loaded_before(
    init: str,
    native: str,
    is_needed: bool,  # noqa: FBT001 - a parameter of the test
    severity: Severity,
    tmp_path: Path,
) -> None:
    shared = shared_object(tmp_path / "core.so", f"{native}int shared(void) {{ return 3; }}")
    built = extension(tmp_path / "m.so", "m", calls=["shared"], flags=LAZY)
    files: dict[str, Path | str] = {
        "pkg/__init__.py": init,
        f"pkg/m{SUFFIX}": built,
        "pkg/core.so": shared,
    }
    if is_needed:
        files[f"pkg/n{SUFFIX}"] = extension(
            tmp_path / "n.so", "n", needed=[shared], calls=["shared"], rpath="$ORIGIN"
        )
    path = packed(tmp_path, files)
    (finding,) = (finding for finding in found(path) if finding.code == "WF301")
    assert finding.severity is severity
    assert any("`pkg/core.so` defines it" in note for note in finding.notes)
    if severity is Severity.ERROR:
        code = "import ctypes\nctypes.CDLL('pkg/core.so')\nimport pkg.m"
        assert "undefined symbol: shared" in run(path, code).stderr
    if is_needed:
        assert run(path, "import pkg.n, pkg.m; print(pkg.m.value())").stdout == "3\n"


_OPENED = "import ctypes, os\nctypes.CDLL(os.path.join(os.path.dirname(__file__), 'core.so'){})\n"
_IMPORTED = "import sys, os\nsys.setdlopenflags({})\nfrom pkg import core\n"


@pytest.mark.parametrize(
    ("init", "works"),
    [
        (_OPENED.format(""), False),
        (_OPENED.format(", ctypes.RTLD_GLOBAL"), True),
        (_OPENED.format(", mode=ctypes.RTLD_LOCAL | os.RTLD_NOW"), False),
        (_IMPORTED.format("os.RTLD_GLOBAL | os.RTLD_NOW"), True),
        (_IMPORTED.format("258"), True),
        ("from pkg import core\n", False),
    ],
)
def test_what_is_surely_opened_for_all_before_defines_symbols(
    init: str,
    works: bool,  # noqa: FBT001 - a parameter of the test
    tmp_path: Path,
) -> None:
    """A library or a module that is opened for itself alone does not."""
    source = extension_source("core") + "int shared(void) { return 3; }"
    include = ["-I", sysconfig.get_path("include")]
    files: dict[str, Path | str] = {
        "pkg/__init__.py": f"{init}from pkg import m\n",
        f"pkg/m{SUFFIX}": extension(tmp_path / "m.so", "m", calls=["shared"]),
        "pkg/core.so": shared_object(tmp_path / "core.so", source, flags=include),
    }
    path = packed(tmp_path, files)
    done = run(path, "import pkg.m; print(pkg.m.value())")
    assert (done.stdout == "3\n") is works
    severities = [f.severity for f in found(path) if f.code == "WF301"]
    assert severities == ([] if works else [Severity.ERROR])


def test_any_source_may_load_another_library_before_not_the_package_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = shared_object(tmp_path / "core.so", "int shared(void) { return 3; }")
    built = extension(tmp_path / "m.so", "m", calls=["shared"])
    boot = "import ctypes, glob, os\nhere = os.path.dirname(__file__)\n"
    boot += "for name in glob.glob(here + '/co*'): ctypes.CDLL(name, 258)\n"
    files: dict[str, Path | str] = {
        "pkg/__init__.py": "from pkg import boot",
        "pkg/boot.py": boot,
        f"pkg/m{SUFFIX}": built,
        "pkg/core.so": shared,
    }
    path = packed(tmp_path, files)
    assert run(path, "import pkg.m; print(pkg.m.value())").stdout == "3\n"
    assert {f.severity for f in found(path) if f.code == "WF301"} == {Severity.WARNING}
    (hint,) = (f.hint for f in found(path) if f.code == "WF301")
    assert hint is not None
    unless_loaded = "; nothing to do if code loads what is missing before"
    assert hint.startswith("link it with `pkg/core.so`")
    assert hint.endswith(unless_loaded)
    app.run(["explain", str(path), "pkg.m"])
    said = " ".join(capsys.readouterr().out.split())
    assert (
        f"`shared`: its authors must link `pkg/m{SUFFIX}` with `pkg/core.so`{unless_loaded}" in said
    )


def test_a_plug_in_is_left_to_the_program_whose_symbols_it_uses(tmp_path: Path) -> None:
    """A linker refuses a program as a library."""
    plugin = shared_object(
        tmp_path / "plug.so", "int shared(void); int use(void) { return shared(); }", flags=LAZY
    )
    source = "int shared(void) { return 3; } int main(void) { return 0; }"
    program = executable(tmp_path / "host", source, flags=["-rdynamic"])
    files: dict[str, Path | str] = {"pkg/plug.so": plugin, "demo-1.0.data/scripts/host": program}
    (finding,) = (f for f in found(packed(tmp_path, files)) if f.code == "WF301")
    assert finding.hint == (
        "leave it to `demo-1.0.data/scripts/host`: only that program can load it"
    )


def test_one_finding_says_one_way(tmp_path: Path) -> None:
    built = extension(tmp_path / "m.so", "m", calls=["GOMP_barrier", "cblas_d"], flags=LAZY)
    hints = {f.entry: f.hint for f in found(packed(tmp_path, {f"pkg/m{SUFFIX}": built}))}
    assert hints == {
        "GOMP_barrier": "compile and link it with `-fopenmp`",
        "cblas_d": "link the library, or compile the source, that defines it",
    }


def test_a_path_file_may_load_another_library_before(tmp_path: Path) -> None:
    shared = shared_object(tmp_path / "core.so", "int shared(void) { return 3; }")
    built = extension(tmp_path / "m.so", "m", calls=["shared"])
    boot = "import ctypes, os; ctypes.CDLL(os.path.join(sitedir, 'pkg/core.so'), 258)\n"
    files: dict[str, Path | str] = {"pkg/core.so": shared, "boot.pth": boot}
    path = packed(tmp_path, {**files, f"pkg/m{SUFFIX}": built})
    code = "import os, site; site.addsitedir(os.getcwd())\n"
    assert run(path, f"{code}import pkg.m; print(pkg.m.value())").stdout == "3\n"
    assert {f.severity for f in found(path) if f.code == "WF301"} == {Severity.WARNING}


def test_bytecode_may_load_another_library_before(tmp_path: Path) -> None:
    shared = shared_object(tmp_path / "core.so", "int shared(void) { return 3; }")
    built = extension(tmp_path / "m.so", "m", calls=["shared"])
    source = tmp_path / "boot.py"
    source.write_text(
        "import ctypes, os\nctypes.CDLL(os.path.dirname(__file__) + '/core.so', 258)\n"
    )
    py_compile.compile(str(source), cfile=str(tmp_path / "boot.pyc"), doraise=True)
    files: dict[str, Path | str] = {
        "pkg/boot.pyc": tmp_path / "boot.pyc",
        f"pkg/m{SUFFIX}": built,
        "pkg/core.so": shared,
    }
    path = packed(tmp_path, files)
    assert run(path, "import pkg.boot, pkg.m; print(pkg.m.value())").stdout == "3\n"
    assert {f.severity for f in found(path) if f.code == "WF301"} == {Severity.WARNING}


def test_a_module_that_is_linked_as_its_finding_says_is_repaired(tmp_path: Path) -> None:
    shared = shared_object(tmp_path / "libcore.so", "int shared(void) { return 3; }")
    built = extension(tmp_path / "m.so", "m", calls=["shared"], flags=LAZY)
    files: dict[str, Path | str] = {
        "pkg/__init__.py": "",
        f"pkg/m{SUFFIX}": built,
        "pkg/lib/libcore.so": shared,
    }
    (finding,) = found(packed(tmp_path, files))
    assert finding.hint == (
        "link it with `pkg/lib/libcore.so`; a repair then writes the search path that leads there"
    )
    extension(built, "m", needed=[shared], calls=["shared"])
    path = packed(tmp_path, files)
    assert app.run(["repair", "-w", str(tmp_path / "out"), str(path)]) == 0
    (repaired,) = (tmp_path / "out").iterdir()
    assert run(repaired, "import pkg.m; print(pkg.m.value())").stdout == "3\n"


def test_what_the_shipped_build_of_a_library_lacks_is_said_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    linked = shared_object(folder / "libcalc.so.1", "int add(void) { return 3; }")
    built = extension(tmp_path / "m.so", "m", needed=[linked], calls=["add"], rpath="$ORIGIN")
    shipped = shared_object(tmp_path / "libcalc.so.1", "int other(void) { return 3; }")
    path = packed(tmp_path, {f"pkg/m{SUFFIX}": built, "pkg/libcalc.so.1": shipped})
    (finding,) = found(path)
    assert "if that is `pkg/libcalc.so.1`, ship the build that it was linked" in str(finding.hint)


@pytest.mark.parametrize("is_module", [True, False])
def test_a_library_that_a_program_opens_may_have_its_symbols_of_that(
    tmp_path: Path, *, is_module: bool
) -> None:
    """As those of cocotb, which simulators open."""
    own = shared_object(tmp_path / "libgpi.so", "int gpi(void) { return 1; }", soname="libgpi.so")
    options: dict[str, Any] = {"needed": [own], "rpath": "$ORIGIN", "flags": LAZY}
    built = (
        extension(tmp_path / "m.so", "m", calls=["gpi", "vpi_scan"], **options)
        if is_module
        else shared_object(
            tmp_path / "libvpi.so",
            "int gpi(void), vpi_scan(void); int all(void) { return gpi() + vpi_scan(); }",
            **options,
        )
    )
    name = f"m{SUFFIX}" if is_module else "libvpi.so"
    (finding,) = found(packed(tmp_path, {f"pkg/{name}": built, "pkg/libgpi.so": own}))
    host = "nothing to do if the program that opens it defines it; otherwise, link what does"
    assert (finding.hint == host) is not is_module
    assert ("nothing in the wheel is seen to load it" in finding.notes) is not is_module


def test_a_function_of_c_that_was_declared_as_one_of_cxx_is_told(tmp_path: Path) -> None:
    giver = shared_object(
        tmp_path / "libcalc.so.1", "int calc_add(int a) { return a; } int used(void) { return 1; }"
    )
    built = extension(
        tmp_path / "m.so",
        "m",
        needed=[giver],
        calls=["used", "_Z8calc_addi"],
        rpath="$ORIGIN",
        flags=LAZY,
    )
    (finding,) = found(packed(tmp_path, {f"pkg/m{SUFFIX}": built, "pkg/libcalc.so.1": giver}))
    assert finding.hint == (
        'declare `calc_add` as `extern "C"` wherever it is used: `pkg/libcalc.so.1` defines it as '
        "`calc_add`, a function of C"
    )
    extension(built, "m", needed=[giver], calls=["_Z8calc_addi"], rpath="$ORIGIN", flags=LAZY)
    path = packed(tmp_path, {f"pkg/m{SUFFIX}": built, "pkg/libcalc.so.1": giver})
    outcome = repair(path, Settings(wheel_dir=tmp_path / "out"), os.environ)
    hints = [one.hint for one in outcome.remaining if one.code == "WF301"]
    assert hints == [finding.hint], "the repair does not take the library away that has it"


@pytest.mark.parametrize(
    ("name", "there", "hint"),
    [
        (
            "_ZNK3lib4takeERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
            "_ZNK3lib4takeERKSs",
            "compile both with the same `-D_GLIBCXX_USE_CXX11_ABI`: `pkg/libcalc.so.1` defines it",
        ),
        ("_Z4namev", "_Z4nameB5cxx11v", "compile both with the same `-D_GLIBCXX_USE_CXX11_ABI`"),
        ("_Z4namev", "_Z4nameB5cxx11i", "compile both with the same `-D_GLIBCXX_USE_CXX11_ABI`"),
        (
            "_Z4namev",
            "_Z4namei",
            "compile both with the same declaration: `pkg/libcalc.so.1` defines",
        ),
        (
            "_ZN2ph2goEi",
            "_ZN2ph2goEl",
            "compile both with the same declaration: `pkg/libcalc.so.1`",
        ),
        ("_ZN2phC1Ei", "_ZN2phC2Ei", "link the library, or compile the source, that defines it"),
        ("GOMP_parallel", "GOMP_parallel", ""),
    ],
)
def test_what_was_compiled_otherwise_is_told(
    tmp_path: Path, name: str, there: str, hint: str
) -> None:
    source = f"int {there}(void) {{ return 1; }} int used(void) {{ return 1; }}"
    giver = shared_object(tmp_path / "libcalc.so.1", source)
    built = extension(
        tmp_path / "m.so", "m", needed=[giver], calls=["used", name], rpath="$ORIGIN", flags=LAZY
    )
    hints = [
        f.hint or ""
        for f in found(packed(tmp_path, {f"pkg/m{SUFFIX}": built, "pkg/libcalc.so.1": giver}))
    ]
    assert [each[: len(hint)] for each in hints] == ([hint] if hint else [])


def test_a_function_of_c_plus_plus_that_nothing_defines_may_be_one_of_c(tmp_path: Path) -> None:
    built = extension(tmp_path / "m.so", "m", calls=["_Z3addii"], flags=LAZY)
    [finding] = (f for f in found(packed(tmp_path, {f"pkg/m{SUFFIX}": built})) if f.code == "WF301")
    assert finding.message == "no loaded library defines `add`"
    assert finding.hint is not None
    assert finding.hint.endswith('; if it is a function of C, declare it as `extern "C"`')


def test_a_graft_is_named_as_authors_link_with_it(tmp_path: Path) -> None:
    giver = shared_object(tmp_path / "libadd-1a2b3c4d.so.1", "int add(void) { return 1; }")
    calls = {"m": "add", "n": "_Z3addii"}
    built = {
        f"pkg/{name}{SUFFIX}": extension(tmp_path / f"{name}.so", name, calls=[call], flags=LAZY)
        for name, call in calls.items()
    }
    findings = found(packed(tmp_path, {**built, "pkg.libs/libadd-1a2b3c4d.so.1": giver}))
    plain, mangled = (f.hint or "" for f in findings if f.code == "WF301")
    assert plain.startswith("link it with `libadd.so.1`")
    assert mangled.endswith(": `libadd.so.1` defines it as `add`, a function of C")


def test_libraries_to_link_with_together_are_for_information(tmp_path: Path) -> None:
    giver = shared_object(tmp_path / "libgiver.so", "int given(void) { return 3; }")
    taker = shared_object(
        tmp_path / "libtaker.so", "int given(void); int taken(void) { return given(); }", flags=LAZY
    )
    path = packed(tmp_path, {"pkg/lib/libgiver.so": giver, "pkg/lib/libtaker.so": taker})
    assert said(path) == [("WF301", Severity.NOTE, "given")]


def test_the_interpreters_own_libraries_serve_what_was_not_linked(tmp_path: Path) -> None:
    """`sin` without `-lm`: every CPython has libm in its global scope."""
    source = "double sin(double); double f(double x) { return sin(x); }"
    built = shared_object(tmp_path / "f.so", source, flags=["-fno-builtin"])
    path = packed(tmp_path, {"pkg/f.so": built})
    assert said(path) == []
    assert run(path, "import ctypes; ctypes.CDLL('./pkg/f.so')").returncode == 0


def test_a_weak_reference_needs_no_definition(tmp_path: Path) -> None:
    source = "__attribute__((weak)) int maybe(void); int f(void) { return maybe ? 1 : 0; }"
    path = packed(tmp_path, {"pkg/f.so": shared_object(tmp_path / "f.so", source)})
    assert said(path) == []


def test_a_reference_without_a_relocation_needs_no_definition(tmp_path: Path) -> None:
    """The loader does not look it up; what is used is, beside it."""
    source = '__asm__(".globl nowhere"); int f(void) { return 1; }'
    path = packed(tmp_path, {"pkg/f.so": shared_object(tmp_path / "f.so", source)})
    assert said(path) == []
    assert run(path, "import ctypes, os; ctypes.CDLL('./pkg/f.so', os.RTLD_NOW)").returncode == 0


def test_a_forgotten_platform_library_is_named(tmp_path: Path) -> None:
    """`operator delete` without libstdc++: a plug-in whose program has it, or a mistake."""
    source = "void _ZdlPv(void *); void f(void *p) { _ZdlPv(p); }"
    built = shared_object(tmp_path / "f.so", source, flags=LAZY)
    path = packed(tmp_path, {"pkg/f.so": built})
    [finding] = found(path)
    if not any("libstdc++.so.6" in note for note in finding.notes):
        pytest.skip("this machine has no libstdc++")
    assert finding.severity is Severity.WARNING
    assert (
        "undefined symbol: _ZdlPv" in run(path, "import ctypes; ctypes.CDLL('./pkg/f.so')").stderr
    )


# --- WF302: the library is not available ----------------------------------------------------------


def test_symbols_of_an_unavailable_library_are_not_judged_until_it_is_given(tmp_path: Path) -> None:
    library = shared_object(tmp_path / "other/libother9.so.1", "int other(void) { return 1; }")
    built = extension(
        tmp_path / "m.so", "m", needed=[library], calls=["other", "another"], flags=LAZY
    )
    path = packed(tmp_path, {f"pkg/m{SUFFIX}": built})
    [finding] = found(path)
    assert (finding.code, finding.severity) == ("WF302", Severity.NOTE)
    assert finding.message == "not judged: `another`, `other` may be of `libother9.so.1`"
    handed = said(path, library_path=(str(library.parent),))
    assert [(code, entry) for code, _, entry in handed] == [("WF301", "another")]


# --- WF303: Python's names ------------------------------------------------------------------------


def python_module(path: Path, *names: str) -> Path:
    calls = "".join(f"extern char {name}; char *p_{name} = &{name};" for name in names)
    return shared_object(path, f"{calls} void *PyInit_m(void) {{ return 0; }}", libc=False)


@pytest.mark.parametrize(
    ("tag", "name", "expected"),
    [
        ("cp38-cp38", "PyList_New", []),
        ("cp38-cp38", "PyModule_AddObjectRef", [("WF303", Severity.ERROR)]),
        ("cp310-cp310", "PyModule_AddObjectRef", []),
        ("cp311-cp311", "_PyUnicode_Ready", []),
        ("cp312-cp312", "PyUnicode_AsUnicode", [("WF303", Severity.ERROR)]),
        ("cp311-cp311", "PyUnicode_AsUnicode", []),
        ("cp38-abi3", "PyList_New", []),
        ("cp38-abi3", "PyModule_AddObjectRef", [("WF303", Severity.ERROR)]),
        ("cp310-abi3", "PyModule_AddObjectRef", []),
        ("cp38-abi3", "PyBuffer_FillInfo", [("WF308", Severity.WARNING)]),
        ("cp311-abi3", "PyBuffer_FillInfo", []),
        ("cp38-abi3", "PyType_GetModuleByDef", [("WF303", Severity.ERROR)]),
        ("cp315-abi3t", "PyList_New", []),
        ("cp315-abi3t", "PyModule_Create2", [("WF308", Severity.WARNING)]),
        ("cp315-abi3.abi3t", "PyModuleDef_Init", [("WF308", Severity.WARNING)]),
        ("cp315-abi3", "PyModule_Create2", []),
        ("cp315-cp315", "PyUnicode_AsUnicode", [("WF303", Severity.ERROR)]),
        ("cp319-cp319", "PyUnicode_AsUnicode", []),
        ("cp313-cp313t", "_Py_DecRefShared", []),
        ("pp310-pypy310_pp73", "PyPyList_New", []),
        ("cp311-cp311", "PyList_Neu", [("WF301", Severity.ERROR)]),
        ("cp315-cp315", "PyBrand_New", [("WF301", Severity.ERROR)]),
        ("cp319-cp319", "PyBrand_New", []),
    ],
)
def test_python_is_held_to_what_each_version_exports(
    tmp_path: Path, tag: str, name: str, expected: list[tuple[str, Severity]]
) -> None:
    suffix = ".abi3.so" if tag.endswith("abi3") else ".so"
    files = {f"pkg/m{suffix}": python_module(tmp_path / "m.so", name)}
    path = packed(tmp_path, files, f"{tag}-linux_x86_64")
    assert [(code, severity) for code, severity, _ in said(path)] == expected


def test_python_names_of_a_module_that_may_fail_are_a_warning(tmp_path: Path) -> None:
    """Its import is tried: the package loads on each of the machines."""
    module = python_module(tmp_path / "m.so", "PyModule_AddObjectRef")
    tried = "try:\n    from . import m\nexcept ImportError:\n    m = None\n"
    files: dict[str, Path | str] = {"pkg/__init__.py": tried, "pkg/m.so": module}
    path = packed(tmp_path, files, "cp38-cp38-manylinux_2_17_x86_64")
    assert [(f.code, f.severity) for f in found(path) if f.code == "WF303"] == [
        ("WF303", Severity.WARNING)
    ]


def test_the_oldest_python_that_has_all_names_is_one_line(tmp_path: Path) -> None:
    """abi3audit's "needs": one finding for each module, not one for each name."""
    newer = ["PyModule_AddObjectRef", "PyType_GetModuleByDef", "PyType_GetName"]
    module = python_module(tmp_path / "m.so", "PyList_New", *newer)
    path = packed(tmp_path, {"pkg/m.abi3.so": module}, "cp38-abi3-linux_x86_64")
    (hit,) = found(path)
    assert hit.message == (
        "uses `PyModule_AddObjectRef`, `PyType_GetModuleByDef`, `PyType_GetName` of the Python C "
        "API, which python3.8 to 3.10 lack"
    )
    assert hit.notes == ("CPython has all of them since 3.11",)
    assert hit.hint == (
        "tag the wheel for the first Python that has it, or do not use it: with "
        "`Py_LIMITED_API` as 0x03080000, compilers warn, or refuse it"
    )


def test_names_that_no_version_has_together(tmp_path: Path) -> None:
    module = python_module(tmp_path / "m.so", "PyUnicode_AsUnicode", "PyType_GetDict")
    path = packed(tmp_path, {"pkg/m.abi3.so": module}, "cp38-abi3-linux_x86_64")
    assert [hit.notes for hit in found(path)] == [("no version has all of them",)]


def test_the_stable_abi_that_the_names_need_is_one_line(tmp_path: Path) -> None:
    names = ["PyBuffer_FillInfo", "PyBuffer_Release", "PyVectorcall_NARGS"]
    module = python_module(tmp_path / "m.so", *names[:2])
    path = packed(tmp_path, {"pkg/m.abi3.so": module}, "cp39-abi3-linux_x86_64")
    (hit,) = found(path)
    assert hit.code == "WF308"
    assert hit.message == (
        "needs `cp311`, as it uses `PyBuffer_FillInfo`, `PyBuffer_Release`, in the stable ABI only "
        "since 3.11; the tag promises 3.9"
    )
    limit = "do not use it: with `Py_LIMITED_API` as 0x03090000, compilers warn, or refuse it"
    assert hit.hint == f"tag the wheel for it, or {limit}"
    module = python_module(tmp_path / "n.so", names[0], "_PyLong_Sign")  # for which no tag helps
    (hit,) = found(packed(tmp_path, {"pkg/n.abi3.so": module}, "cp39-abi3-linux_x86_64"))
    assert hit.hint == limit


def module_in(folder: Path, *names: str, beside: Path | None = None) -> Path:
    calls = "".join(f"extern char {name}; char *p_{name} = &{name};" for name in names)
    needed = [] if beside is None else [beside]
    source = f"{calls} void *PyInit_m(void) {{ return 0; }}"
    return shared_object(folder / "m.so", source, needed=needed, rpath="$ORIGIN")


SET_GIL = "extern char PyUnstable_Module_SetGIL; char *set = &PyUnstable_Module_SetGIL;"


@pytest.mark.parametrize(
    ("tag", "names", "is_noted"),
    [
        ("cp313-cp313t", ["PyModule_Create2"], True),
        ("cp314-cp314t", ["PyModule_Create2", "PyList_New"], True),
        ("cp313-cp313t", ["PyModule_Create2", "PyUnstable_Module_SetGIL"], False),
        ("cp313-cp313t", ["PyModule_Create2", "PyModuleDef_Init"], False),
        ("cp313-cp313t", ["PyModuleDef_Init"], False),
        ("cp313-cp313t", ["PyList_New"], False),
        ("cp313-cp313", ["PyModule_Create2"], False),
        ("cp313-abi3", ["PyModule_Create2"], False),
        ("py3-none", ["PyModule_Create2"], False),
    ],
)
def test_a_module_that_certainly_enables_the_gil_is_noted(
    tmp_path: Path, tag: str, names: list[str], *, is_noted: bool
) -> None:
    files = {"pkg/m.so": module_in(tmp_path, *names)}
    hits = found(packed(tmp_path, files, f"{tag}-linux_x86_64"))
    assert ("WF309" in [hit.code for hit in hits]) == is_noted


MODULE_DEF = """
typedef struct { int slot; void *value; } Slot;  /* Include/moduleobject.h */
static int exec(void *module) { return 0; }
%(slots)s
static struct {
    void *thread; short flags; char mutex, bits; unsigned local; void *shared, *type;
    void *init; long index; void *copy;
    char *name, *doc; long size; void *methods; Slot *slots; void *traverse, *clear, *free;
} module = {.local = -1u, .name = "m", .slots = %(address)s};
extern void *PyModuleDef_Init(void *);
void *PyInit_m(void) { %(code)s return PyModuleDef_Init(&module); }
"""


@pytest.mark.parametrize("flags", [[], ["-Wl,-z,pack-relative-relocs"]])
@pytest.mark.parametrize(
    ("slots", "code", "is_noted"),
    [
        ("static Slot slots[] = {{2, exec}, {0, 0}};", "", True),
        ("static Slot slots[] = {{2, exec}, {4, (void *)0}, {0, 0}};", "", True),
        ("static Slot slots[] = {{2, exec}, {4, (void *)1}, {0, 0}};", "", False),
        ("static Slot slots[] = {{4, (void *)1}, {2, exec}, {0, 0}};", "", False),
        ("static Slot slots[] = {{2, exec}, {77, exec}, {0, 0}};", "", False),
        ("Slot slots[] = {{2, exec}, {0, 0}};", "", False),  # by a symbol: another may define it
        ("static Slot slots[3];", "slots[0].slot = 2; slots[0].value = exec;", False),
        ("static Slot *slots;", "module.slots = slots;", False),
        ("extern void *PyUnstable_Module_SetGIL; static Slot slots[] = {{2, exec}, {0, 0}};",
         "if (!PyUnstable_Module_SetGIL) return 0;", False),
    ],
)  # fmt: skip
def test_slots_without_py_mod_gil_enable_the_gil_where_the_file_has_them(
    tmp_path: Path, slots: str, code: str, flags: list[str], *, is_noted: bool
) -> None:
    address = "0" if "*slots;" in slots else "slots"
    source = MODULE_DEF % {"slots": slots, "address": address, "code": code}
    module = shared_object(tmp_path / "m.so", source, flags=flags)
    hits = found(packed(tmp_path, {"pkg/m.so": module}, "cp313-cp313t-linux_x86_64"))
    assert ("WF309" in [hit.code for hit in hits]) == is_noted


@pytest.mark.parametrize("ships", [True, False])
def test_a_library_may_say_that_the_module_needs_no_gil(tmp_path: Path, *, ships: bool) -> None:
    library = shared_object(tmp_path / "libbind.so.1", SET_GIL, soname="libbind.so.1")
    files = {"pkg/m.so": module_in(tmp_path, "PyModule_Create2", beside=library)}
    files |= {"pkg/libbind.so.1": library} if ships else {}
    hits = found(packed(tmp_path, files, "cp313-cp313t-linux_x86_64"))
    assert "WF309" not in [hit.code for hit in hits]


def test_a_name_that_the_wheels_own_library_defines_is_no_matter_of_pythons(tmp_path: Path) -> None:
    compat = shared_object(tmp_path / "libcompat.so", "char PyUnicode_AsUnicode;")
    built = shared_object(
        tmp_path / "m.so",
        "extern char PyUnicode_AsUnicode; char *p = &PyUnicode_AsUnicode; void PyInit_m(void) {}",
        needed=[compat],
        rpath="$ORIGIN",
    )
    path = packed(
        tmp_path, {"pkg/m.so": built, "pkg/libcompat.so": compat}, "cp313-cp313-linux_x86_64"
    )
    assert said(path) == []


def test_the_list_of_names_is_that_of_this_interpreter() -> None:
    """The running Python is one of those in the list: what ctypes finds in it is there."""
    import ctypes

    if MINOR not in python_api.minor_versions() or os.environ.get("PYTHON_GIL"):
        pytest.skip("this Python is too new to be known")
    python = f"python3.{MINOR}"
    listed = [name for name in python_api.names() if python_api.exports(python, name)]
    # A patch release adds private names; what has no underscore is the same in all of them.
    lacking = [name for name in listed if name[0] != "_" and not hasattr(ctypes.pythonapi, name)]
    assert len(listed) > 1500
    assert lacking == []


def test_nothing_is_said_of_pythons_that_are_not_known() -> None:
    newest = max(python_api.minor_versions())
    assert python_api.exports(f"python3.{newest + 1}", "PyList_New") is True
    assert python_api.exports(f"python3.{newest + 1}", "_PyNever") is None
    assert python_api.exports("pypy3.10", "PyList_New") is None
    assert python_api.exports(f"python3.{newest}t", "_PyNever") is None
    assert python_api.exports(f"python3.{newest}", "_PyNever") is False


def test_what_may_be_of_an_unlisted_library_of_the_platform_each_command_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether this machine has libX11 or not: other machines have another."""
    library = shared_object(tmp_path / "x/libX11.so.6", "int XFooBar(void) { return 1; }")
    built = extension(tmp_path / "m.so", "m", needed=[library], calls=["XFooBar"], flags=LAZY)
    path = packed(tmp_path, {f"pkg/m{SUFFIX}": built}, tag=TAG.replace("linux", "manylinux_2_17"))
    said = "`XFooBar`{} may be of `libX11.so.6`"
    [finding] = found(path)
    assert (finding.code, finding.message) == ("WF302", f"not judged: {said.format('')}")
    for command in (["check", "-v"], ["repair", "-v", "-w", str(tmp_path / "out")]):
        assert app.run([*command, str(path)]) == 0
        assert said.format("") in "".join(capsys.readouterr())
    assert app.run(["explain", str(path)]) == 0
    assert f"ok; not known: `pkg/m{SUFFIX}` refers to {said.format(', which')}" in (
        capsys.readouterr().out
    )


# --- WF304: versions ------------------------------------------------------------------------------


def test_a_version_that_the_wheels_library_lacks_is_reported(tmp_path: Path) -> None:
    def versioned(folder: str, *versions: str) -> Path:
        script = tmp_path / f"{folder}.map"
        script.write_text("\n".join(f"{v} {{ global: f{n}; }};" for n, v in enumerate(versions)))
        body = "\n".join(f"int f{n}(void) {{ return {n}; }}" for n, _ in enumerate(versions))
        flags = [f"-Wl,--version-script,{script}"]
        return shared_object(tmp_path / folder / "libv.so.1", body, soname="libv.so.1", flags=flags)

    new, old = versioned("new", "V_1", "V_2"), versioned("old", "V_1")
    built = extension(tmp_path / "m.so", "m", needed=[new], calls=["f0", "f1"], rpath="$ORIGIN")
    good = make_wheel(
        tmp_path / "good", tag=TAG, files={f"pkg/m{SUFFIX}": built, "pkg/libv.so.1": new}
    )
    assert said(good) == []
    bad = packed(tmp_path, {f"pkg/m{SUFFIX}": built, "pkg/libv.so.1": old})
    assert said(bad) == [("WF304", Severity.ERROR, "V_2")]
    [local] = (finding for finding in wheelfix.check(bad).findings if finding.code == "WF804")
    assert (local.hint or "").endswith("\nit leaves WF304, and exits with 1")
    assert app.run(["repair", "-w", str(tmp_path / "out"), str(bad)]) == 1
    assert "version `V_2' not found" in run(bad, "import pkg.m").stderr


def weakly_versioned(bind: int, libc: str) -> dict[str, bytes]:
    """An object with a weak version of a library, as lld 23 writes it, and a library without it."""
    wanted = Symbol(
        name="f",
        defined=False,
        bind=bind,
        version="V_2",
        file="libv.so.1",
        optional=True,
        relocations=(6,),
    )
    user = LIBRARY._replace(needed=("libv.so.1", libc), rpath="$ORIGIN")
    old = LIBRARY._replace(soname="libv.so.1", needed=(libc,))
    older = Code(symbols=(Symbol(name="f", defined=True, version="V_1"),), nodes=("V_1",))
    return {
        "pkg/libuse.so": objects.shared_object(user, Code(symbols=(wanted,))),
        "pkg/libv.so.1": objects.shared_object(old, older),
    }


@pytest.mark.parametrize(("bind", "code"), [(1, "WF301"), (2, None)])
def test_a_weak_version_is_needed_only_by_strong_references(
    tmp_path: Path, bind: int, code: str | None
) -> None:
    files: dict[str, str | bytes | Path] = {"pkg/__init__.py": ""}
    files |= weakly_versioned(bind, "libc.so.6")
    path = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    assert [finding.code for finding in found(path)] == ([code] if code else [])
    outcome = run(path, "import ctypes, pkg; ctypes.CDLL(f'{pkg.__path__[0]}/libuse.so')")
    assert ("undefined symbol: f, version V_2" in outcome.stderr) == bool(code)
    assert (outcome.returncode != 0) == bool(code)


def test_musl_asks_for_no_version(tmp_path: Path) -> None:
    tag = "py3-none-musllinux_1_2_x86_64"
    files = weakly_versioned(1, "libc.musl-x86_64.so.1")
    assert not found(make_wheel(tmp_path, tag=tag, files=files))


@pytest.mark.parametrize(
    "name",
    [
        "_ZNKSt4hashI3FooEclERKS0_",  # of a type of one's own, declared and not compiled
        "_ZSt4zorkB5cxx11i",
    ],
)
@pytest.mark.parametrize("is_linked", [False, True])
def test_what_no_release_of_libstdcxx_has_a_build_has_to_define(
    tmp_path: Path, name: str, *, is_linked: bool
) -> None:
    cxx = shared_object(tmp_path / "libstdc++.so.6", soname="libstdc++.so.6")
    built = extension(tmp_path / "m.so", "m", needed=[cxx] * is_linked, calls=[name], flags=LAZY)
    path = packed(tmp_path, {"pkg/__init__.py": "", f"pkg/m{SUFFIX}": built})
    (finding,) = (finding for finding in found(path) if finding.code == "WF301")
    assert finding.severity is Severity.ERROR
    assert finding.hint == "link the library, or compile the source, that defines it"
    assert f"undefined symbol: {name}" in run(path, "import pkg.m; pkg.m.value()").stderr


def test_the_list_of_libstdcxx_has_what_that_of_this_machine_defines() -> None:
    path = subprocess.run(
        ["gcc", "-print-file-name=libstdc++.so.6"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if "/" not in path:
        pytest.skip("needs libstdc++.so.6")
    listed = {*first_versions().values()}
    shown = subprocess.run(
        ["readelf", "-W", "--dyn-syms", path], capture_output=True, text=True, check=True
    ).stdout
    defined = [line.split()[-1].split("@@") for line in shown.splitlines() if "@@" in line]
    names = {name for name, version in defined if version in {"GLIBCXX_3.4", *listed}}
    assert len(names) > 1000
    assert not {name for name in names if not defines("libstdc++.so.6", name, None)}


def test_requirements_that_may_define_a_symbol_are_named(tmp_path: Path) -> None:
    """So a core that opens its library for all is looked into with `--with`."""
    module = extension(tmp_path / "m.so", "m", calls=["core_api"], flags=LAZY)
    files: dict[str, Path | str] = {"pkg/__init__.py": "import core", f"pkg/m{SUFFIX}": module}
    path = make_wheel(tmp_path, tag=TAG, files=files, metadata="Requires-Dist: core\n")
    (hit,) = (hit for hit in found(path) if hit.code == "WF301")
    assert hit.severity is Severity.ERROR
    assert "not looked into, as `--deps` or `--with` does: `core`" in hit.notes
    library = shared_object(tmp_path / "libcore.so", "int core_api(void) { return 1; }")
    opening = "import ctypes, os\nhere = os.path.dirname(__file__)\n"
    opening += "ctypes.CDLL(os.path.join(here, 'libcore.so'), ctypes.RTLD_GLOBAL)\n"
    of_core: dict[str, Path | str] = {"core/__init__.py": opening, "core/libcore.so": library}
    core = make_wheel(tmp_path / "core", name="core", tag=TAG, files=of_core)
    assert app.run(["check", "--select=WF301", str(path)]) == 1
    assert app.run(["check", "--select=WF301", "--with", str(core), str(path)]) == 0


def test_a_path_file_may_load_a_library_of_a_requirement_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its code is not read: WF301 and WF827 are not sure, nor is `explain`.

    Paths, the lines of setuptools for namespace packages, and models of PyTorch load nothing.
    """
    namespace = "import sys, types, os;p = os.path.join(sys._getframe(1).f_locals['sitedir'], 'n')"
    soname = "libcudart.so.12"
    cuda = shared_object(tmp_path / soname, "int shared(void) { return 3; }", soname=soname)
    files: dict[str, Path | str] = {
        "pkg/__init__.py": "from . import n",
        f"pkg/m{SUFFIX}": extension(tmp_path / "m.so", "m", calls=["shared"], flags=LAZY),
        f"pkg/n{SUFFIX}": extension(tmp_path / "n.so", "n", calls=["shared"], needed=[cuda]),
    }
    metadata = "Requires-Dist: nvidia-cuda-runtime-cu12\n"
    for name, text, may in (
        ("boot.pth", "", False),
        ("boot.pth", "pkg/vendor\n# import x\nimported\n", False),
        ("pkg-nspkg.pth", f"{namespace}\n", False),
        ("pkg/model.pth", "import x\n", False),
        ("boot.pth", "import x\n", True),
        ("boot.pth", "pkg/vendor\n\nimport\tx\n", True),
        ("boot.pth", "#c\rimport x\r", True),
        ("boot.pth", "import sys, types, os;p = __import__('x')\n", True),
        ("pkg-nspkg.pth", f"{namespace}\r\nimport x\r\n", True),
        ("demo-1.0.data/platlib/boot.pth", "import x\n", True),
        ("demo-1.0.data/data/lib/python3.11/site-packages/boot.pth", "import x\n", True),
    ):
        severity = Severity.WARNING if may else Severity.ERROR
        path = make_wheel(tmp_path, tag=TAG, files={**files, name: text}, metadata=metadata)
        assert {f.severity for f in found(path) if f.code == "WF301"} == {severity}
        assert app.run(["check", "--select=WF301,WF827", str(path)]) == (not may)
        assert f"{severity.name.lower()}[WF827]" in capsys.readouterr().out
        assert app.run(["explain", str(path)]) == (not may)
        said = f"`{name}`, which runs before, is not read"
        assert (said in capsys.readouterr().out) == may
