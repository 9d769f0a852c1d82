"""A wheel beside what it requires: an environment, wheels, or what pip fetches."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.build import extension, make_wheel, shared_object
from tests.support.environment import ENVIRON
from tests.support.providers import MACHINE, SUFFIX, TAG, imported, pro_library, unpacked
from tests.support.repairing import repair
from wheelfix import Settings, Status, check, check_all
from wheelfix.cli.app import run
from wheelfix.host.required_wheels import fetch
from wheelfix.rules.findings import Finding, Severity
from wheelfix.settings import ProviderSetting
from wheelfix.wheel.model import WheelName

MANYLINUX = TAG.replace("linux_", "manylinux_2_17_")
PRO = "int pro(void) { return 7; }"
PURE = f"py3-none-linux_{MACHINE}"
Folder = Callable[[str], Path]


def pro(
    folder: Path, version: str = "2.0", source: str = PRO, name: str = "pro", init: str = ""
) -> Path:
    """Make the wheel with `libpro.so.3`, or with another library."""
    built = folder / "built" / version / f"lib{name}.so.3"
    library = shared_object(built, source, soname=built.name)
    files: dict[str, str | Path] = {
        f"{name}/__init__.py": init,
        f"{name}/lib/{built.name}": library,
    }
    return make_wheel(folder / "index", name, version, PURE, files)


def demo(
    folder: Path,
    *,
    source: str = "",
    requires: str = "pro>=1",
    tag: str = MANYLINUX,
    named: str = "",
    **built: object,
) -> Path:
    """Make the wheel with a module that needs `libpro.so.3`."""
    options = {"needed": [pro_library(folder)], "runpath": "$ORIGIN/../pro/lib", **built}
    module = extension(folder / f"_core{SUFFIX}", "_core", calls=["pro"], **options)  # type: ignore[arg-type]
    files: dict[str, str | Path] = {"demo/__init__.py": source, f"demo/_core{SUFFIX}": module}
    files |= {"demo/named.py": named} if named else {}
    metadata = f"Requires-Dist: {requires}\n" if requires else ""
    return make_wheel(folder / "dist", tag=tag, files=files, metadata=metadata)


def findings(path: Path, **settings: object) -> list[Finding]:
    report = check(path, Settings(**settings))  # type: ignore[arg-type]
    assert report.error is None, report.error
    shown = [finding for finding in report.findings if finding.code < "WF5" or finding.code > "WF8"]
    return [finding for finding in shown if finding.code != "WF107"]


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of wheels in which pip looks, and the cache of the user."""
    folder = tmp_path / "index"
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    for name, value in {
        "PIP_FIND_LINKS": str(folder),
        "PIP_NO_INDEX": "1",
        "PIP_CONFIG_FILE": os.devnull,
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(name, value)
    return folder


def test_alone_it_is_not_known_and_beside_it_all_is_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, other = demo(tmp_path), pro(tmp_path)
    assert run(["explain", str(path)]) == 0
    assert "not known: whether pro has `libpro.so.3`" in capsys.readouterr().out
    assert [found.code for found in findings(path)] == ["WF827"]
    site = unpacked(tmp_path / "env" / "lib" / "python3.11" / "site-packages", other)
    for given in (str(other), str(other.parent), str(site), str(tmp_path / "env")):
        assert not findings(path, neighbors=(given,)), given
    pro(tmp_path, "3.0")
    assert run(["explain", str(path), "--with", str(other.parent)]) == 0
    assert capsys.readouterr().err == "note: pro 3.0 is taken; `check` judges `2.0`, too\n"
    assert not findings(path, site=str(site))
    assert not findings(path, site=str(tmp_path / "env"))
    assert imported(unpacked(site, path)) == "7"


def test_the_error_of_a_repair_that_lacks_a_library_leads_to_the_requirements(
    tmp_path: Path, index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, words = demo(tmp_path, tag=TAG, requires="core>=1", runpath=None), ["repair", "-w"]
    pro(tmp_path, name="core")
    wheel = demo(tmp_path / "found", tag=TAG)
    assert run([*words, str(tmp_path / "failed"), str(path)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"--deps {path}` looks for what `core` may bring, or `--with FILE.whl` in its" in said
    beside = ["--with", str(pro(tmp_path / "found"))]
    assert run([*words, str(tmp_path / "beside"), *beside, str(wheel)]) == 0
    assert run([*words, str(tmp_path / "failed"), "--deps", str(path)]) == 2
    assert "`--deps`" not in capsys.readouterr().err
    del index


def test_a_requirement_for_another_cuda_is_not_looked_into(
    tmp_path: Path, index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "libcudart.so.12"
    library = shared_object(tmp_path / name, "int f(void) { return 1; }", soname=name)
    module = extension(tmp_path / "c.so", "_c", needed=[library], calls=["f"])
    files = {f"gpu/_c{SUFFIX}": module}
    requires = "Requires-Dist: nvidia-cuda-runtime\n"
    path = make_wheel(tmp_path / "dist", "gpu", tag=TAG, files=files, metadata=requires)
    assert run(["repair", "-w", str(tmp_path / "out"), str(path)]) == 2
    said = capsys.readouterr().err
    assert "`--deps`" not in said
    assert "(METADATA requires `nvidia-cuda-runtime`, which does not have it)" in said
    _, command, _ = said.partition("machine has it:")[2].split("`", 2)
    option = "--provider nvidia-cuda-runtime-cu12 --add-requires"
    assert command == f"wheelfix repair --wheel-dir {tmp_path / 'out'} {option} {path}"
    assert run(command.split()[1:]) == 0
    del index


@pytest.mark.each_run("check", "repair")
@pytest.mark.parametrize("command", ["why", "explain", "repair", "check", "verify"])
def test_what_is_named_and_not_known_is_an_error(
    command: str, tmp_path: Path, index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, other = demo(tmp_path, runpath=None), pro(tmp_path)
    beside = ["--with", "nowhere", "--with", str(other), "--with", "nowhere"]
    words = ["libpro.so.3"] if command in {"why", "explain"} else []
    assert run([command, *beside, str(path), *words]) == 2
    assert capsys.readouterr().err.count("error: `nowhere` is not known: ") == 1
    del index


@pytest.mark.parametrize("command", ["why", "explain"])
def test_what_is_required_and_not_known_is_said_once(
    command: str, tmp_path: Path, index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = demo(tmp_path, requires="nowhere", runpath=None)
    run([command, "--deps", str(path), "libpro.so.3"])
    assert capsys.readouterr().err.count("`nowhere` is not known") == 1
    del index


@pytest.mark.parametrize("command", ["why", "show"])
def test_a_library_of_a_neighbor_to_which_no_search_path_leads_is_named(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, other = demo(tmp_path, runpath=None), pro(tmp_path)
    words = ["libpro"] if command == "why" else []
    assert run([command, "--with", str(other), str(path), *words]) == 0
    printed = capsys.readouterr().out
    assert f"no search path leads to `{other.name}!pro/lib/libpro.so.3`" in printed
    if command == "why":
        assert f"  bring in   `wheelfix repair --with {other} {path}`" in printed


def test_the_folder_of_a_neighbor_is_known_however_its_path_is_spelled(tmp_path: Path) -> None:
    """A configuration file in another folder names the environment as `cfg/../env`."""
    path, other = demo(tmp_path, runpath=None), pro(tmp_path)
    unpacked(tmp_path / "env" / "lib" / "python3.11" / "site-packages", other)
    (found,) = (
        one
        for one in findings(path, site=str(tmp_path / "dist" / ".." / "env"))
        if one.code == "WF106"
    )
    assert found.notes == ("the missing entry is `$ORIGIN/../pro/lib`",)


def test_a_free_threaded_wheel_gets_requirements_of_its_own_abi(index: Path) -> None:
    abis = ["cp313", "cp313t"]
    for abi in abis:
        make_wheel(index, "pro", "2.0", f"cp313-{abi}-linux_{MACHINE}", {"pro/__init__.py": abi})
    for abi in abis:
        wheel = WheelName.parse(f"demo-1.0-cp313-{abi}-manylinux_2_17_{MACHINE}.whl")
        (fetched,) = fetch(["pro"], wheel, os.environ).wheels
        assert f"-cp313-{abi}-" in fetched.name


def test_requirements_are_fetched_once(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = demo(tmp_path)
    pro(tmp_path)
    left = tmp_path / "cache/wheelfix/fetch-abcd1234"  # by a run that was killed
    left.mkdir(parents=True)
    assert not findings(path, deps=True)
    assert not left.exists()
    assert not findings(path, neighbors=("pro",))
    with monkeypatch.context() as patched:
        patched.setattr("wheelfix.host.required_wheels.run", None)
        assert not findings(path, deps=True)
    assert [file.name for file in (tmp_path / "cache/wheelfix/wheels").glob("*/*")] == [
        f"pro-2.0-{PURE}.whl"
    ]
    del index
    assert run(["check", "--with", "pro==9", str(path)]) == 2


def test_versions_of_a_requirement_are_fetched_and_judged_one_by_one(
    tmp_path: Path, index: Path
) -> None:
    path = demo(tmp_path, requires="pro<3")
    for version, source in {"1.0": "int old(void) { return 7; }", "3.0": ""}.items():
        pro(tmp_path, version, source) if source else pro(tmp_path, version)
    pro(tmp_path)
    (bounds,) = (
        found for found in findings(path, neighbors=("pro==1.0, 2.0,3.0",)) if found.code == "WF829"
    )
    assert "`pro>=2.0`" in bounds.message
    assert bounds.notes[1:3] == ("2.0: loads", "3.0: loads")
    assert len(list((tmp_path / "cache/wheelfix/wheels").iterdir())) == 3
    del index


def test_nothing_is_fetched_for_a_wheel_without_requirements(tmp_path: Path, index: Path) -> None:
    del index
    path = demo(tmp_path, requires="")
    assert "WF805" in [found.code for found in findings(path, deps=True)]
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("source", "code", "said"),
    [
        ("int other(void) { return 7; }", "WF824", "needs `pro`, not defined in `libpro.so.3`"),
        ("", "WF823", "needs `libpro.so.3`, which pro 1.0 does not have"),
    ],
)
def test_a_version_that_does_not_serve_is_named(
    tmp_path: Path, source: str, code: str, said: str
) -> None:
    path, good = demo(tmp_path), pro(tmp_path)
    if source:
        bad = pro(tmp_path, "1.0", source)
    else:
        bad = make_wheel(tmp_path / "index", "pro", "1.0", PURE, {"pro/__init__.py": ""})
    found = [one for one in findings(path, neighbors=(str(bad), str(good))) if one.code == code]
    assert [one.severity for one in found] == [Severity.ERROR]
    assert said in found[0].message
    assert "1.0" in f"{found[0].message} {found[0].notes}"
    assert not findings(path, neighbors=(str(good),))
    alone = findings(path, neighbors=(str(bad),))
    assert "WF301" not in {one.code for one in alone}, "one cause is one finding"


def test_an_unused_entry_for_what_a_requirement_brings_is_for_information(tmp_path: Path) -> None:
    source = "int other(void) { return 7; }"
    other = shared_object(tmp_path / "libother.so.3", source, soname="libother.so.3")
    path = demo(
        tmp_path,
        needed=[pro_library(tmp_path), other],
        requires="pro>=1\nRequires-Dist: other",
        runpath="$ORIGIN/../pro/lib:$ORIGIN/../other/lib",
    )
    beside = (str(pro(tmp_path)), str(pro(tmp_path, source=source, name="other")))
    (found,) = (one for one in findings(path, neighbors=beside) if one.code == "WF201")
    assert (found.entry, found.severity) == (other.name, Severity.NOTE)


def test_what_a_requirement_requires_is_found(tmp_path: Path) -> None:
    far = make_wheel(
        tmp_path / "index", "near", "1.0", PURE, {"near.py": ""}, metadata="Requires-Dist: pro\n"
    )
    path = demo(tmp_path, requires="near")
    site = unpacked(tmp_path / "env", far, pro(tmp_path))
    assert not findings(path, site=str(site))
    (found,) = findings(path, neighbors=(str(pro(tmp_path)),))
    assert (found.code, found.severity) == ("WF821", Severity.NOTE), "near may require it"


def test_a_repair_that_makes_the_way_to_a_provider_has_it_required(tmp_path: Path) -> None:
    """Whether another requirement brings it is not known: nothing led there before."""
    path, other = demo(tmp_path, requires="near", runpath=None), pro(tmp_path)
    given = Settings(neighbors=(str(other),), wheel_dir=tmp_path / "out")
    refused = repair(path, given, ENVIRON)
    assert {f.code for f in refused.remaining if f.severity is Severity.ERROR} == {"WF821"}
    written = repair(path, replace(given, add_requires=True), ENVIRON).output
    assert written is not None
    assert not findings(written, neighbors=(str(other),))
    reached = demo(tmp_path / "reached", requires="near", tag=TAG)
    assert repair(reached, given, ENVIRON).status is Status.REPAIRED


GLOBAL = """import ctypes
from pro import _pro
ctypes.CDLL(_pro.__file__, mode=ctypes.RTLD_GLOBAL)
from demo._core import value
"""


@pytest.mark.parametrize(("defined", "codes"), [("pro", []), ("other", ["WF301"])])
def test_symbols_of_a_neighbor_that_is_opened_for_all(
    tmp_path: Path, defined: str, codes: list[str]
) -> None:
    (tmp_path / "more.c").write_text(f"int {defined}(void) {{ return 7; }}\n")
    module = extension(tmp_path / f"_pro{SUFFIX}", "_pro", flags=[str(tmp_path / "more.c")])
    files: dict[str, str | Path] = {"pro/__init__.py": "", f"pro/_pro{SUFFIX}": module}
    other = make_wheel(tmp_path, "pro", "1.0", TAG, files)
    path = demo(tmp_path, source=GLOBAL, needed=[], runpath=None)
    found = findings(path, neighbors=(str(other),))
    assert [one.code for one in found] == codes
    assert all("opens pro 1.0 with RTLD_GLOBAL" in str(one.notes) for one in found)
    both = check_all([path, other]).reports[0].findings
    assert [one.code for one in both if one.severity is Severity.ERROR] == codes
    said = imported(unpacked(tmp_path / "site", path, other))
    assert "undefined symbol" in said if codes else said == "7"


OPENS = """
import ctypes, pathlib
ctypes.CDLL(pathlib.Path(__file__).parent / "lib" / "libpro.so.3")
"""


@pytest.mark.parametrize(
    ("source", "init", "codes"),
    [
        ("import pro", OPENS, []),
        ("import pro", "", ["WF106"]),
        ("import prometheus", OPENS, ["WF106"]),
    ],
)
def test_a_library_that_an_import_has_loaded(
    tmp_path: Path, source: str, init: str, codes: list[str]
) -> None:
    path, other = demo(tmp_path, source=source, runpath=None), pro(tmp_path, init=init)
    found = findings(path, neighbors=(str(other),))
    assert [one.code for one in found] == codes
    if source == "import pro":
        said = imported(unpacked(tmp_path / "site", path, other))
        assert ("libpro.so.3: cannot open" in said) == bool(codes)


FOR_ALL = OPENS.replace('o.3")', 'o.3", ctypes.RTLD_GLOBAL)')
CORE = "from . import _core\n"
GLOBBED = "import ctypes, glob, pro\nfor f in glob.glob(pro.__path__[0] + '/lib/*.so*'):"
FOUND = "import ctypes, glob, sys\nfor f in glob.glob(sys.path[0] + '/*/lib/libpro.so*'):"


@pytest.mark.parametrize(
    ("source", "init", "way", "alone"),
    [
        (f"import pro\n{CORE}", FOR_ALL, "works", "fails"),
        (f"def load():\n    import pro\nload()\n{CORE}", FOR_ALL, "works", "fails"),
        (f"import importlib\nimportlib.import_module('pro')\n{CORE}", FOR_ALL, "works", "fails"),
        (f"from .named import *\n{CORE}", FOR_ALL, "works", "fails"),
        (f"{GLOBBED} ctypes.CDLL(f, 258)\n{CORE}", "", "works", "maybe"),
        (f"{FOUND} ctypes.CDLL(f, ctypes.RTLD_GLOBAL)\n{CORE}", "", "works", "maybe"),
        (f"{CORE}import pro\n", FOR_ALL, "fails", "fails"),
        (f"{CORE}{GLOBBED} ctypes.CDLL(f, 258)\n", "", "fails", "fails"),
        (f"{GLOBBED} ctypes.CDLL(f)\n{CORE}", "", "fails", "fails"),
        (f"import pro\n{CORE}", OPENS, "fails", "fails"),
        (CORE, FOR_ALL, "fails", "fails"),
    ],
)
def test_a_symbol_that_a_library_of_a_neighbor_may_have_defined_before(
    tmp_path: Path, source: str, init: str, way: str, alone: str
) -> None:
    """What is not shown to fail is not known; what comes after the module is too late."""
    path = demo(tmp_path, source=source, needed=[], runpath=None, named="import pro\n")
    other = pro(tmp_path, init=init)
    given = ["--with", str(other)]
    said = imported(unpacked(tmp_path / "site", path, other))
    assert ("undefined symbol" in said) is (way == "fails")
    for beside, end in ((given, way), ([], alone)):
        neighbors = (str(other),) if beside else ()
        (found,) = (f for f in findings(path, neighbors=neighbors) if f.code != "WF827")
        assert found.code == "WF301"
        assert found.severity is (Severity.ERROR if end == "fails" else Severity.WARNING)
        assert ("not known" in found.message) is (end != "fails")
        assert run(["explain", str(path), *beside]) == int(end == "fails")


AT = "'pro', 'lib', 'libpro.so.3'"


@pytest.mark.parametrize(
    ("source", "severity", "said"),
    [
        ("import os, pro", None, ""),
        (
            f"import ctypes, os.path as p\nctypes.CDLL(p.join(p.dirname(__file__), '..', {AT}))",
            None,
            "",
        ),
        (
            f"import ctypes, os, sys\nctypes.CDLL(os.path.join(sys.path[0], {AT}))",
            Severity.WARNING,
            "`demo/__init__.py` opens libraries under names that are not known",
        ),
        ("import opener\nopener.load('Pro')", Severity.WARNING, "`demo/__init__.py` names it"),
        ("__import__('pro')", None, ""),
        ("import sys, profile", Severity.ERROR, "the missing entry"),
    ],
)
def test_a_source_that_may_open_the_library_of_a_neighbor_before(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    source: str,
    severity: Severity | None,
    said: str,
) -> None:
    """With ctypes from where Python finds it, as the documentation recommends, or by others."""
    path = demo(tmp_path, source=f"{source}\nfrom demo import _core", runpath=None)
    other = pro(tmp_path, init=OPENS)
    found = findings(path, neighbors=(str(other),))
    assert [one.severity for one in found] == [severity] * (severity is not None)
    assert all(said in one.notes[0] for one in found)
    assert run(["explain", str(path), "--with", str(other)]) == int(severity is Severity.ERROR)
    told = capsys.readouterr().out
    assert ("  ok" in told, "not known whether it gets `libpro.so.3`: " in told) == (
        not found,
        severity is Severity.WARNING,
    )
    site = unpacked(tmp_path / "site", path, other)
    (site / "opener.py").write_text("def load(name):\n    import pro\n")
    assert ("cannot open" in imported(site)) == (severity is Severity.ERROR)


DLOPEN = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
__attribute__((constructor)) static void load(void) {
    Dl_info here;
    char path[4096];
    dladdr((void *)load, &here);
    int folder = strrchr(here.dli_fname, '/') - here.dli_fname;
    snprintf(path, sizeof path, "%.*s/lib/libpro.so.3", folder, here.dli_fname);
    dlopen(path, RTLD_NOW);
}
"""


def test_a_neighbor_whose_module_calls_dlopen_may_have_opened_its_libraries(tmp_path: Path) -> None:
    (tmp_path / "more.c").write_text(DLOPEN)
    module = extension(tmp_path / f"_pro{SUFFIX}", "_pro", flags=[str(tmp_path / "more.c")])
    files: dict[str, str | Path] = {
        "pro/__init__.py": "import pro._pro",
        f"pro/_pro{SUFFIX}": module,
        "pro/lib/libpro.so.3": pro_library(tmp_path),
    }
    other = make_wheel(tmp_path, "pro", "2.0", TAG, files)
    path = demo(tmp_path, source="import pro", runpath=None)
    assert not findings(path, neighbors=(str(other),))
    assert "libpro.so.3: cannot open" not in imported(unpacked(tmp_path / "site", path, other))


def test_a_provider_is_any_distribution_that_is_found(tmp_path: Path) -> None:
    path, other = demo(tmp_path, runpath=None), pro(tmp_path)
    (found,) = findings(path, neighbors=(str(other),), provider=(ProviderSetting(source="pro"),))
    assert found.code == "WF106"
    report = check(path, Settings(provider=(ProviderSetting(source="pro"),)))
    assert report.error is not None
    assert "--with NAME" in (report.error.hint or "")


@pytest.mark.parametrize("asks", ["kit[lib, other]==1.0", "kit[LIB]", "kit[all]"])
def test_what_an_extra_of_a_requirement_adds_is_required(tmp_path: Path, asks: str) -> None:
    """As torch requires the runtime of CUDA: `cuda-toolkit[cudart]`."""
    path, other = demo(tmp_path, requires="near"), pro(tmp_path)
    near = make_wheel(tmp_path / "index", "near", "1.0", PURE, metadata=f"Requires-Dist: {asks}\n")
    extras = "Requires-Dist: pro>=1; extra == 'lib'\nRequires-Dist: kit[lib]; extra == 'all'\n"
    kit = make_wheel(tmp_path / "index", "kit", "1.0", PURE, metadata=extras)
    beside = tuple(map(str, (other, near, kit)))
    assert "WF821" not in {found.code for found in findings(path, neighbors=beside)}
    alone = make_wheel(tmp_path / "other", "near", "1.0", PURE, metadata="Requires-Dist: kit\n")
    unasked = tuple(map(str, (other, alone, kit)))
    errors = {f.code: f.severity for f in findings(path, neighbors=unasked)}
    assert errors["WF821"] is Severity.ERROR


def test_what_an_extra_adds_is_left_to_it_where_it_is_not_installed(tmp_path: Path) -> None:
    """In the environment of torch 2.15, `cuda-toolkit[curand]` of 2.14 brought no curand."""
    path, other = demo(tmp_path, requires="kit[lib]==1.*"), pro(tmp_path)
    extras = "Requires-Dist: pro>=1; extra == 'lib' and sys_platform == 'linux'\n"
    kits = {
        version: make_wheel(tmp_path / version, "kit", version, PURE, metadata=extras)
        for version in ("1.0", "2.0")
    }
    said = {
        "1.0": "whether `pro` has `libpro.so.3`",
        "2.0": "whether a requirement has `libpro.so.3`",
    }
    for version, message in said.items():
        (found,) = (
            one for one in findings(path, neighbors=(str(kits[version]),)) if one.code == "WF827"
        )
        assert found.message.startswith(message)
    assert not findings(path, neighbors=(str(kits["1.0"]), str(other)))
    report, *_ = check_all([path, kits["1.0"], other]).reports
    assert not [one for one in report.findings if one.code in {"WF827", "WF821", "WF805"}]


def test_a_library_of_two_neighbors_is_that_where_the_search_path_leads(tmp_path: Path) -> None:
    """triton, too, has the libcupti that torch finds in nvidia/cu13/lib."""
    path, right = demo(tmp_path, requires="pro>=1\nRequires-Dist: also<2"), pro(tmp_path)
    also = pro_library(tmp_path / "other")
    files: dict[str, str | Path] = {"also/libpro.so.3": also}
    other = make_wheel(tmp_path / "index", "also", "2.0", PURE, files)
    for given in ((right, other), (other, right)):
        found = findings(path, neighbors=tuple(map(str, given)))
        assert not [one for one in found if one.severity > Severity.NOTE], found


def test_a_repair_beside_neighbors_grafts_nothing(tmp_path: Path, index: Path) -> None:
    pro(tmp_path)
    path = demo(tmp_path, tag=TAG)
    environ = {**ENVIRON, "LD_LIBRARY_PATH": str(tmp_path / "sdk")}
    for name in ("PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_CONFIG_FILE", "XDG_CACHE_HOME"):
        environ[name] = os.environ[name]
    settings = Settings(wheel_dir=tmp_path / "out", deps=True)
    outcome = repair(path, settings, environ, folder=tmp_path)
    assert not outcome.grafted
    assert outcome.output is not None
    site = unpacked(tmp_path / "site", outcome.output, *index.iterdir())
    assert imported(site) == "7"


def test_every_command_has_the_same_neighbors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, other = demo(tmp_path), pro(tmp_path)
    site = unpacked(tmp_path / "site", other)
    for given in (["--with", str(other)], ["--site", str(site)]):
        assert run(["explain", str(path), "demo._core", *given]) == 0
        assert "libpro.so.3" in capsys.readouterr().out
        assert run(["explain", str(path), "--output-format", "dot", *given]) == 0
        assert run(["why", str(path), "libpro", *given]) == 0
        assert run(["show", str(path), *given]) == 0
        shown = capsys.readouterr().out
        assert "missing" not in shown
    assert run(["verify", str(path), "--with", str(other)]) == 0
    capsys.readouterr()
    assert run(["explain", "--site", str(site), "--with", "x"]) == 2
    assert "--with is for wheels" in capsys.readouterr().err
    assert run(["check", str(path), "--with", "no such thing!"]) == 2
    assert "neither a wheel, nor a directory" in capsys.readouterr().err
    assert run(["check", str(path), "--site", str(tmp_path / "none")]) == 2
    assert "no distribution is installed" in capsys.readouterr().err


def test_a_folder_that_may_be_the_sources_of_a_requirement_is_named_with_a_slash(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = demo(tmp_path)
    pro(index.parent)
    here = tmp_path / "here"
    shared_object(here / "pro" / "libpro.so.3", "int f(void);", soname="libpro.so.3")
    monkeypatch.chdir(here)
    for command in ("explain", "check", "verify"):
        assert run([command, str(path), "--with", "pro"]) == 0
    assert run(["doctor", str(path), "--with", "pro"]) == 0
    assert run(["explain", str(path), "--with", "./pro"]) == 1
    pro(here)
    assert run(["explain", str(path), "--with", "index"]) == 0


@pytest.mark.parametrize("version", ["not a version", f"1{'9' * 6000}", ""])
def test_a_neighbor_may_have_any_version(tmp_path: Path, version: str) -> None:
    """METADATA of an environment is not checked by an installer alone."""
    path, other = demo(tmp_path), pro(tmp_path)
    site = unpacked(tmp_path / "site", other)
    about = next(site.glob("pro-*.dist-info")) / "METADATA"
    about.write_text(f"Metadata-Version: 2.1\nName: pro\nVersion: {version}\n")
    findings(path, neighbors=(str(site / "pro"), str(other)))
    if version:
        findings(path, site=str(site))


def test_a_library_that_only_record_lists_is_not_there(tmp_path: Path) -> None:
    path, other = demo(tmp_path), pro(tmp_path)
    site = unpacked(tmp_path / "site", other)
    shutil.rmtree(site / "pro")
    report = check(path, Settings(site=str(site)))
    assert report.error is not None
    assert f"`{site / 'pro/lib'}` holds no libraries" in report.error.message


def test_a_cache_that_another_user_can_change_is_not_used(tmp_path: Path, index: Path) -> None:
    """Neither its wheels nor its lists, which could name any file."""
    del index
    path = demo(tmp_path)
    pro(tmp_path)
    assert not findings(path, deps=True)
    resolved = tmp_path / "cache/wheelfix/resolved"
    answer = next(resolved.iterdir())
    made = answer.read_bytes()
    wheels = [["../../..", "other-1.0-py3-none-any.whl"]]
    answer.write_text(json.dumps({**json.loads(made), "wheels": wheels}))
    assert not findings(path, deps=True), "it leads out of the cache: fetched again"
    assert json.loads(answer.read_bytes())["wheels"] == json.loads(made)["wheels"]
    resolved.chmod(0o777)
    report = check(path, Settings(deps=True))
    assert report.error is not None
    assert (
        report.error.message
        == f"cannot write to the cache `{resolved}`: can be changed by other users"
    )
    assert "XDG_CACHE_HOME" in (report.error.hint or "")
