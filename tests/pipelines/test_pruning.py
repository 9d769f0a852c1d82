"""A repair does not reject itself for an entry that it dropped: the entry stays."""

import os
import sysconfig
from pathlib import Path

import pytest

from tests.support.build import extension, extension_source, make_wheel, shared_object
from tests.support.naming import SUFFIX, TAG, installed, run
from tests.support.repairing import repair
from wheelfix.analysis.needed_judgement import Unused
from wheelfix.loader.as_needed import Decision, Library, Why
from wheelfix.pipelines.repair_result import Status
from wheelfix.settings import PruneNeeded, Settings


def test_an_entry_without_which_a_symbol_is_undefined_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The judgement is made wrong: it takes each entry for unused, and no binding for moved."""

    def all_unused(own: Library, found: dict[str, Library | None]) -> tuple[Decision, ...]:
        del own
        return tuple(Decision(name, Why.UNUSED) for name in found)

    def nothing(*_: object) -> dict[Unused, list[str]]:
        return {}

    monkeypatch.setattr("wheelfix.analysis.loaded_wheel.decide", all_unused)
    monkeypatch.setattr("wheelfix.analysis.needed_judgement._Trial._rebound", nothing)
    used = shared_object(
        tmp_path / "libused.so.1", "int f(void) { return 7; }", soname="libused.so.1"
    )
    module = extension(
        tmp_path / "_m.so", "_m", needed=[used], calls=["f"], rpath="$ORIGIN/../demo.libs"
    )
    wheel = make_wheel(
        tmp_path / "dist",
        tag=f"cp311-cp311-linux_{os.uname().machine}",
        files={"demo/_m.so": module, "demo.libs/libused.so.1": used},
    )
    settings = Settings(wheel_dir=tmp_path / "out", verdict=False)
    outcome = repair(wheel, settings, os.environ)
    assert outcome.status is not Status.REJECTED
    assert "WF301" not in {finding.code for finding in outcome.remaining}
    assert "DT_NEEDED keeps `libused.so.1`: `f` may need it" in outcome.messages


def test_entries_are_kept_under_their_old_and_new_names_not_in_turn(tmp_path: Path) -> None:
    """Two objects need a library by its SONAME, and are led to its file only while that is kept."""
    gone = shared_object(
        tmp_path / "libgone.so", "int gone(void) { return 1; }", soname="libgone.so"
    )
    named = shared_object(tmp_path / "libnamed.so", soname="libnamed.so")
    library = shared_object(
        tmp_path / "libfile.so",
        "int gone(void); int g(void) { return gone(); }",
        soname="libnamed.so",
        needed=[gone, named],
    )
    user = shared_object(tmp_path / "libuser.so", needed=[named], rpath="$ORIGIN")
    wheel = make_wheel(
        tmp_path / "dist",
        tag=f"cp311-cp311-linux_{os.uname().machine}",
        files={"demo/libuser.so": user, "demo-1.0.data/data/lib/libfile.so": library},
    )
    settings = Settings(wheel_dir=tmp_path / "out", prune_needed=PruneNeeded.ALL)
    error = repair(wheel, settings, os.environ).error
    assert error is not None
    assert "`libgone.so` is neither in the wheel" in error.message


@pytest.mark.parametrize(
    ("name", "platform", "grafted"),
    [
        ("libgomp.so.1", "manylinux_2_17", False),
        ("libother.so.1", "manylinux_2_17", True),
        ("libgomp.so.1", "linux", True),
    ],
)
def test_an_unused_library_of_the_compiler_costs_no_tag(
    tmp_path: Path, name: str, platform: str, *, grafted: bool
) -> None:
    """CuPy's modules need libgomp and call nothing of it; that of this machine is too new."""
    source = "static int ready; __attribute__((constructor)) void start(void) { ready = 1; }"
    library = shared_object(tmp_path / "build" / name, source, soname=name)
    module = extension(tmp_path / "_m.so", "_m", needed=[library], rpath=str(library.parent))
    wheel = make_wheel(
        tmp_path / "dist",
        tag=f"cp311-cp311-{platform}_{os.uname().machine}",
        files={"demo/_m.so": module},
    )
    outcome = repair(wheel, Settings(wheel_dir=tmp_path / "out"), os.environ)
    assert bool(outcome.grafted) is grafted


def test_an_unused_library_of_the_compiler_stays_where_something_asks_by_dlsym(
    tmp_path: Path,
) -> None:
    library = shared_object(
        tmp_path / "build" / "libgomp.so.1", "int f(void) { return 7; }", soname="libgomp.so.1"
    )
    asking = """
        #include <dlfcn.h>
        int ask(void) { return dlopen("libm.so.6", RTLD_NOW) && dlsym(0, "f"); }"""
    module = shared_object(
        tmp_path / "_m.so",
        extension_source("_m") + asking,
        needed=[library],
        rpath=str(library.parent),
        flags=["-I", sysconfig.get_path("include")],
    )
    wheel = make_wheel(
        tmp_path / "dist",
        tag=f"cp311-cp311-manylinux_2_34_{os.uname().machine}",
        files={"demo/_m.so": module},
    )
    outcome = repair(wheel, Settings(wheel_dir=tmp_path / "out"), os.environ)
    assert [one.original for one in outcome.grafted] == ["libgomp.so.1"]


@pytest.mark.parametrize(
    ("source", "grafted"),
    [
        ("handle = ctypes.CDLL(_m.__file__)", True),
        ("handle = ctypes.CDLL(name=os.path.abspath(_m.__file__))", True),
        ("path: str = _m.__file__  # built\r\nhandle = ctypes.CDLL(path)", True),
        ("handle = ctypes.CDLL(\n    find_spec('demo._m').origin\n)", True),
        ("path = find_spec('demo._m').origin\nhandle = ctypes.CDLL(path)", True),
        ("opener = getattr(__import__('cty' + 'pes'), 'CD' + 'LL')\nopener(_m.__file__)", True),
        ("import other\nhandle = other.opened(_m.__file__)", True),
        ("folder = os.path.dirname(_m.__file__)\nhandle = ctypes.CDLL('libm.so.6')", False),
    ],
)
def test_an_unused_library_of_the_compiler_stays_where_python_asks_the_module(
    tmp_path: Path, source: str, *, grafted: bool
) -> None:
    """What it asks for may be a name that is built when it runs."""
    library = shared_object(
        tmp_path / "build" / "libgomp.so.1", "int f(void) { return 7; }", soname="libgomp.so.1"
    )
    module = extension(tmp_path / "_m.so", "_m", needed=[library], rpath=str(library.parent))
    ask = (
        f"import ctypes, os\nfrom demo import _m\n{source}\ndef ask(n): return getattr(handle, n)()"
    )
    wheel = make_wheel(
        tmp_path / "dist",
        tag=f"cp311-cp311-manylinux_2_34_{os.uname().machine}",
        files={"demo/_m.so": module, "demo/ask.py": ask},
    )
    outcome = repair(wheel, Settings(wheel_dir=tmp_path / "out"), os.environ)
    assert bool(outcome.grafted) is grafted


@pytest.mark.parametrize(
    ("source", "grafted"),
    [
        ("import ctypes, demo._m\nctypes.CDLL(demo._m.__file__, ctypes.RTLD_GLOBAL)", True),
        ("import ctypes, other._m\nctypes.CDLL(other._m.__file__, ctypes.RTLD_GLOBAL)", False),
        ("import demo._m", False),
    ],
)
def test_an_unused_library_stays_where_a_neighbor_asks_the_module(
    tmp_path: Path, source: str, *, grafted: bool
) -> None:
    library = shared_object(
        tmp_path / "build" / "libun.so.1", "int f(void) { return 7; }", soname="libun.so.1"
    )
    module = extension(tmp_path / "_m.so", "_m", needed=[library], rpath=str(library.parent))
    wheel = make_wheel(tmp_path / "dist", files={"demo/_m.so": module})
    other = make_wheel(tmp_path / "with", name="near", files={"near/__init__.py": source})
    options = Settings(wheel_dir=tmp_path / "out", neighbors=(str(other),))
    assert bool(repair(wheel, options, os.environ).grafted) is grafted


def test_an_unused_library_stays_that_loads_only_among_symbols_of_the_module(
    tmp_path: Path,
) -> None:
    """`_b` is imported once `_a` has loaded the library: on its own it lacks `host`."""
    library = shared_object(
        tmp_path / "build" / "libplug.so.1",
        "int host(void); int plug(void) { return host(); }",
        soname="libplug.so.1",
    )
    flags = ["-Wl,--allow-shlib-undefined"]
    first = shared_object(
        tmp_path / "_a",
        extension_source("_a") + "int host(void) { return 7; }",
        needed=[library],
        rpath=str(library.parent),
        flags=["-I", sysconfig.get_path("include"), *flags],
    )
    second = extension(
        tmp_path / "_b",
        "_b",
        needed=[library],
        calls=["plug"],
        rpath=str(library.parent),
        flags=flags,
    )
    files: dict[str, Path | str] = {"demo/__init__.py": ""}
    files |= {f"demo/_a{SUFFIX}": first, f"demo/_b{SUFFIX}": second}
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    outcome = repair(wheel, Settings(wheel_dir=tmp_path / "out"), os.environ)
    assert outcome.output is not None, outcome.error
    printed = run(
        installed(outcome.output, tmp_path / "site"),
        "import demo._a, demo._b as b; print(b.value())",
    )
    assert printed.stdout == "7\n"


@pytest.mark.parametrize("inside", [False, True])
def test_an_unused_library_stays_that_defines_what_a_plug_in_lacks(
    tmp_path: Path, *, inside: bool
) -> None:
    """The flags with which the first module is opened have names that are built when it runs."""
    folder = tmp_path / ("demo" if inside else "build")
    library = shared_object(folder / "libe.so.1", "int e(void) { return 5; }", soname="libe.so.1")
    rpath = "$ORIGIN" if inside else str(folder)
    first = extension(tmp_path / "_m.so", "_m", needed=[library], rpath=rpath)
    second = extension(tmp_path / "_p.so", "_p", calls=["e"])
    source = (
        "import sys, os\nfor_all = getattr(os, 'RTLD_' + 'GLOBAL') | getattr(os, 'RTLD_' + 'NOW')\n"
        "getattr(sys, 'setdl' + 'openflags')(for_all)\nfrom demo import _m, _p\n"
    )
    files: dict[str, str | Path] = {"demo/__init__.py": source}
    files |= {f"demo/_m{SUFFIX}": first, f"demo/_p{SUFFIX}": second}
    if inside:
        files["demo/libe.so.1"] = library
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    outcome = repair(wheel, Settings(wheel_dir=tmp_path / "out"), os.environ)
    assert outcome.output is not None, outcome.error
    assert any("its DT_NEEDED entry is kept" in finding.message for finding in outcome.remaining)
    library.unlink()
    place = installed(outcome.output, tmp_path / "site")
    assert run(place, "import demo; print(demo._p.value())").stdout == "5\n"


def test_an_entry_is_kept_by_the_name_that_its_library_had_before_the_graft(
    tmp_path: Path,
) -> None:
    library = shared_object(tmp_path / "build" / "libe.so.1", soname="libe.so.1")
    module = extension(tmp_path / "_m.so", "_m", needed=[library], rpath=str(library.parent))
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files={f"demo/_m{SUFFIX}": module})
    settings = Settings(wheel_dir=tmp_path / "out", keep_needed=("libe.so.1",))
    outcome = repair(wheel, settings, os.environ)
    assert [one.original for one in outcome.grafted] == ["libe.so.1"]
    assert "WF201" not in {edit.code for edit in outcome.edits}
