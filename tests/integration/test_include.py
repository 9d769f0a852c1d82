"""Libraries of `include`: opened by name from repaired wheels, where nothing else has them."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.build import extension, make_wheel, shared_object
from tests.support.environment import ENVIRON
from tests.support.installers import install
from tests.support.repairing import repair
from tests.support.tools import needs
from wheelfix import check
from wheelfix.cli.app import run as wheelfix
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.reports.repair_text import summary
from wheelfix.rules.findings import Severity
from wheelfix.settings import Settings

MACHINE = os.uname().machine
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
PYTHON = f"cp3{sys.version_info.minor}"
TAG = f"{PYTHON}-{PYTHON}-linux_{MACHINE}"
NAME = "libwfinc.so.1"
OPENER = f"""
#include <dlfcn.h>
int opened(void) {{
    void *library = dlopen("{NAME}", RTLD_NOW);
    int (*inc)(void) = library ? (int (*)(void))dlsym(library, "inc") : 0;
    return inc ? inc() : -1;
}}
"""
NOTE = rf"""
__asm__(".section .note.dlopen, \"a\", %note\n .balign 4\n .long 4, 2f - 1f, 0x407c0c0a\n"
        " .asciz \"FDO\"\n1: .asciz \"[{{\\\"soname\\\": [\\\"{NAME}\\\"]}}]\"\n2: .balign 4\n"
        " .previous");
"""
BY_NAME = f"import ctypes\nvalue = ctypes.CDLL('{NAME}').inc\n"
LAZILY = f"import ctypes\ndef value():\n    return ctypes.CDLL('{NAME}').inc()\n"
BY_PATH = f"""
import ctypes
from pathlib import Path
value = ctypes.CDLL(str(Path(__file__).parent / "lib" / "{NAME}")).inc
"""


@pytest.fixture
def sdk(tmp_path: Path) -> Path:
    """Build the library, and one that it needs, in a folder that only the build knows."""
    folder = tmp_path / "sdk"
    dep = shared_object(
        folder / "libwfdep.so.2", "int dep(void){return 7;}", soname="libwfdep.so.2"
    )
    source = "int dep(void); static int n; int inc(void) { return dep() + n++; }"
    shared_object(folder / NAME, source, soname=NAME, needed=[dep], runpath="$ORIGIN")
    return folder


def native(folder: Path, source: str = OPENER, **options: Any) -> Path:
    """Build an extension module with a helper library that calls dlopen."""
    opener = shared_object(folder / "libopener.so", source, soname="libopener.so")
    return extension(
        folder / f"_core{SUFFIX}",
        "_core",
        needed=[opener],
        calls=["opened"],
        runpath="$ORIGIN",
        **options,
    )


def native_files(folder: Path, source: str = OPENER) -> dict[str, Any]:
    core = native(folder, source)
    return {
        "demo/__init__.py": "from demo._core import value\n",
        f"demo/{core.name}": core,
        "demo/libopener.so": folder / "libopener.so",
    }


def repaired(path: Path, to: Path, sdk: Path | None, *names: str, **settings: Any) -> Outcome:
    environ = dict(ENVIRON)
    if sdk is not None:
        environ["LD_LIBRARY_PATH"] = str(sdk)
    return repair(path, Settings(wheel_dir=to, include=names, **settings), environ)


def imported(wheel: Path, folder: Path, code: str = "import demo; print(demo.value())") -> str:
    """Return what `code` prints last where pip has installed the wheel into `folder`."""
    done = install(wheel, folder)
    assert done.returncode == 0, done.stderr
    path = f"import sys; sys.path.insert(0, {str(folder)!r})\n"
    done = subprocess.run(
        [sys.executable, "-I", "-c", path + code],
        capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip
    return (done.stdout or done.stderr).strip().splitlines()[-1]


def errors(outcome: Outcome) -> list[str]:
    return [found.code for found in outcome.remaining if found.severity is Severity.ERROR]


ROUNDABOUT = f"""
import ctypes
from ctypes.util import find_library
def candidates():
    yield find_library("wfinc")
    yield from ["{NAME}"]
def load():
    for name in candidates():
        if name is not None:
            return ctypes.CDLL(name)
value = load().inc
"""
"""As python-magic opens libmagic: what reaches the call is not followed."""
PURE: Mapping[str, Mapping[str, str]] = {
    "ctypes, on import": {"demo/__init__.py": BY_NAME},
    "ctypes, in a function": {"demo/__init__.py": LAZILY},
    "ctypes, in a module": {
        "demo/__init__.py": "from demo.sub.inner import value\n",
        "demo/sub/__init__.py": "",
        "demo/sub/inner.py": BY_NAME,
    },
    "ctypes, roundabout, on import": {
        "demo/__init__.py": "from demo.loader import value\n",
        "demo/loader.py": ROUNDABOUT,
    },
    "ctypes, by path": {"demo/__init__.py": BY_PATH},
}


@pytest.mark.each_run("ctypes, on import", "ctypes, roundabout*")
@pytest.mark.parametrize("opener", PURE)
def test_python_code_opens_the_included_library(tmp_path: Path, sdk: Path, opener: str) -> None:
    tag = "py3-none-any" if "import" in opener else f"py3-none-linux_{MACHINE}"
    files = PURE[opener]
    path = make_wheel(tmp_path / "dist", tag=tag, files=files, root_is_purelib="any" in tag)
    outcome = repaired(path, tmp_path / "out", sdk, NAME)
    assert outcome.status is Status.REPAIRED, outcome
    assert outcome.output
    assert outcome.after
    assert any("manylinux" in platform for platform in outcome.after.name.platforms)
    assert not outcome.after.root_is_purelib
    place = f"demo/lib/{NAME}" if "by path" in opener else f"demo.libs/{NAME}"
    assert outcome.grafted[0].member == place
    assert len(outcome.grafted) == 2
    shutil.rmtree(sdk)
    assert imported(outcome.output, tmp_path / "after") == "7"
    for names in ((), (NAME,)):
        again = repaired(outcome.output, tmp_path / "again", None, *names)
        assert again.status is Status.UNCHANGED, (names, again)


@pytest.mark.each_run("note")
@pytest.mark.parametrize(
    ("source", "tag"), [(OPENER, "auto"), (NOTE + OPENER, "runpath")], ids=["dlopen", "note"]
)
def test_compiled_code_opens_the_included_library(
    tmp_path: Path, sdk: Path, source: str, tag: str
) -> None:
    path = make_wheel(tmp_path / "dist", tag=TAG, files=native_files(tmp_path, source))
    outcome = repaired(path, tmp_path / "out", sdk, NAME, search_path_tag=tag)
    assert outcome.status is Status.REPAIRED, outcome
    assert outcome.output
    shutil.rmtree(sdk)
    assert imported(path, tmp_path / "before") == "-1"
    assert imported(outcome.output, tmp_path / "after") == "7"
    again = repaired(outcome.output, tmp_path / "again", None, NAME, search_path_tag=tag)
    assert again.status is Status.UNCHANGED, again


def test_what_is_linked_and_opened_is_one_copy(tmp_path: Path, sdk: Path) -> None:
    core = extension(
        tmp_path / f"_core{SUFFIX}", "_core", needed=[sdk / NAME], calls=["inc"], runpath=str(sdk)
    )
    files: dict[str, Any] = {"demo/__init__.py": BY_NAME, f"demo/{core.name}": core}
    path = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    outcome = repaired(path, tmp_path / "out", sdk, NAME)
    assert outcome.output, outcome
    shutil.rmtree(sdk)
    code = "import demo, demo._core as m; print(demo.value(), m.value(), demo.value())"
    assert imported(outcome.output, tmp_path / "after", code) == "7 8 9"


def test_a_library_is_opened_by_another_name_than_its_soname(tmp_path: Path, sdk: Path) -> None:
    """As code opens the link that is for the linker; the linked copy must be the same."""
    (sdk / "libwfinc.so").symlink_to(NAME)
    core = extension(
        tmp_path / f"_core{SUFFIX}", "_core", needed=[sdk / NAME], calls=["inc"], runpath=str(sdk)
    )
    source = BY_NAME.replace(NAME, "libwfinc.so")
    files: dict[str, Any] = {"demo/__init__.py": source, f"demo/{core.name}": core}
    path = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    outcome = repaired(path, tmp_path / "out", sdk, "libwfinc.so")
    assert outcome.output, outcome
    shutil.rmtree(sdk)
    code = "import demo, demo._core as m; print(demo.value(), m.value(), demo.value())"
    assert imported(outcome.output, tmp_path / "after", code) == "7 8 9"


@pytest.mark.each_run("sdk*")
@pytest.mark.parametrize("given", [f"sdk/{NAME}", "{}/" + NAME])
def test_a_library_is_given_by_its_path(
    tmp_path: Path, sdk: Path, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = make_wheel(tmp_path, tag="py3-none-any", files={"demo/__init__.py": BY_NAME})
    outcome = repaired(path, tmp_path / "out", None, given.format(sdk))
    assert outcome.output, outcome
    shutil.rmtree(sdk)
    assert imported(outcome.output, tmp_path / "after") == "7"


def test_a_library_that_is_not_found_is_an_error_with_advice(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, tag="py3-none-any", files={"demo/__init__.py": BY_NAME})
    outcome = repaired(path, tmp_path / "out", None, NAME)
    assert outcome.status is Status.FAILED
    assert outcome.error
    assert f"`{NAME}` is not among this machine's libraries" in str(outcome.error)
    assert "--library-path" in (outcome.error.hint or "")


def test_a_name_that_no_code_opens_is_reported(tmp_path: Path, sdk: Path) -> None:
    path = make_wheel(tmp_path, tag=TAG, files=native_files(tmp_path))
    outcome = repaired(path, tmp_path / "out", sdk, NAME, "libwfdep.so.2")
    assert outcome.output, outcome
    found = [f for f in outcome.remaining if f.code == "WF322"]
    assert found == []  # the other library needs it
    shared_object(sdk / "libwfelse.so", "int other;")
    outcome = repaired(path, tmp_path / "out", sdk, "libwfelse.so")
    assert outcome.output, outcome
    (named,) = (f for f in outcome.remaining if f.code == "WF322")
    assert "no code names it" in named.message
    assert named.severity is Severity.WARNING


def test_no_rule_has_to_be_selected(tmp_path: Path, sdk: Path) -> None:
    path = make_wheel(tmp_path, tag=TAG, files=native_files(tmp_path))
    outcome = repaired(path, tmp_path / "out", sdk, NAME, select=("WF7",))
    assert outcome.output, outcome
    shutil.rmtree(sdk)
    assert imported(outcome.output, tmp_path / "after") == "7"


def test_a_top_level_module_cannot_open_it_by_name(tmp_path: Path, sdk: Path) -> None:
    path = make_wheel(tmp_path, tag="py3-none-any", files={"demo.py": BY_NAME})
    outcome = repaired(path, tmp_path / "out", sdk, NAME)
    assert errors(outcome) == ["WF322"], outcome
    (found,) = (f for f in outcome.remaining if f.severity is Severity.ERROR)
    assert "`demo.py`: it is in no package with an `__init__.py`" in found.notes[0]
    assert "Path(__file__)" in (found.hint or "")


UNFOUND = {
    "as libarchive-c": (
        "py3",
        "find_library",
        BY_NAME.replace(f"'{NAME}'", "find_library('wfinc')"),
    ),
    "as python-magic": ("py2.py3", "Python 2", ROUNDABOUT),
}


@pytest.mark.parametrize("case", UNFOUND)
def test_what_no_code_can_find_is_not_published(tmp_path: Path, sdk: Path, case: str) -> None:
    python, why, source = UNFOUND[case]
    source = f"from ctypes.util import find_library\n{source}"
    path = make_wheel(tmp_path, tag=f"{python}-none-any", files={"demo/__init__.py": source})
    outcome = repaired(path, tmp_path / "out", sdk, NAME)
    assert outcome.status is Status.REJECTED
    assert errors(outcome) == ["WF322"]
    (found,) = (f for f in outcome.remaining if f.severity is Severity.ERROR)
    assert "no code of the wheel can find it" in found.message
    assert any(why in note for note in found.notes)
    assert "Path(__file__)" in (found.hint or "")


def test_no_single_path_leads_from_the_package_to_the_library(tmp_path: Path, sdk: Path) -> None:
    """The package goes to purelib, and the library to platlib."""
    files = {f"demo-1.0.data/purelib/demo/{n}.py": t for n, t in (("__init__", ""), ("a", BY_NAME))}
    path = make_wheel(tmp_path, tag=f"py3-none-linux_{MACHINE}", files=files)
    outcome = repaired(path, tmp_path / "out", sdk, NAME)
    assert errors(outcome) == ["WF322"]
    (found,) = (f for f in outcome.remaining if f.severity is Severity.ERROR)
    assert "no single relative path" in found.notes[0]


def test_code_that_handles_a_missing_library_is_no_error(tmp_path: Path, sdk: Path) -> None:
    source = f"import ctypes\ntry:\n    ctypes.CDLL('{NAME}')\nexcept OSError:\n    pass\n"
    files = {**native_files(tmp_path), "other.py": source}
    outcome = repaired(make_wheel(tmp_path, tag=TAG, files=files), tmp_path / "out", sdk, NAME)
    assert outcome.output, outcome
    (found,) = (f for f in outcome.remaining if f.code == "WF322")
    assert (found.member, found.severity) == ("other.py", Severity.WARNING)


def test_the_hint_of_what_is_outside_can_be_pasted(tmp_path: Path, sdk: Path) -> None:
    note = NOTE.replace(NAME, "libwfdep.so.2")
    files = {**native_files(tmp_path, note + OPENER), "demo/other.py": BY_NAME}
    path = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    outcome = repaired(path, tmp_path / "out", sdk)
    hints = {f.entry or "": f.hint for f in outcome.remaining if f.code == "WF321"}
    assert hints == {
        name: f'to graft it, add `include = ["{name}"]` to [tool.wheelfix], and its folder to '
        "`library-path` if the system has it elsewhere"
        for name in (NAME, "libwfdep.so.2")
    }
    including = repaired(path, tmp_path / "out", sdk, *hints)
    assert including.output, including
    assert "WF321" not in {f.code for f in including.remaining}


@pytest.mark.parametrize(
    ("source", "severity"),
    [
        (BY_NAME, Severity.WARNING),
        (
            f"import ctypes\ntry:\n    ctypes.CDLL('{NAME}')\nexcept OSError:\n    pass\n",
            Severity.NOTE,
        ),
        (
            f"import ctypes\ntry:\n    ctypes.CDLL('{NAME}')\nexcept OSError:\n    pass\n"
            + BY_NAME,
            Severity.WARNING,
        ),
    ],
    ids=["unguarded", "guarded", "both"],
)
def test_a_library_that_nothing_brings_is_one_warning_unless_guarded(
    tmp_path: Path, source: str, severity: Severity
) -> None:
    path = make_wheel(tmp_path, tag=TAG, files={**native_files(tmp_path), "demo/other.py": source})
    outcome = repaired(path, tmp_path / "out", None)
    assert [f.severity for f in outcome.remaining if f.code == "WF321"] == [severity]
    is_shown = f'`ctypes.CDLL("{NAME}")` in line ' in summary(outcome)
    assert is_shown is (severity is Severity.WARNING)


def test_what_a_vendored_source_opens_that_nothing_imports_is_for_information(
    tmp_path: Path,
) -> None:
    """prophet: `stan_math/lib/tbb_2020.3/python/tbb/__init__.py`, of which only C++ is used."""
    files = {**native_files(tmp_path), "demo/vendor/tbb-2020.3/__init__.py": BY_NAME}
    report = check(make_wheel(tmp_path, tag=TAG, files=files))
    assert [f.severity for f in report.findings if f.code == "WF321"] == [Severity.NOTE]


def test_explain_knows_what_is_only_opened_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {**native_files(tmp_path), "demo/other.py": BY_NAME}
    path = make_wheel(tmp_path, tag=TAG, files=files)
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "site")
    for where in ([str(path)], ["--site", str(tmp_path / "site")]):
        assert wheelfix(["explain", *where, NAME]) == 2
        assert (
            f"`{NAME}` is not found, but opened by name: `demo/other.py:2`"
            in capsys.readouterr().err
        )


def test_the_summary_says_what_is_added_to_python_sources(tmp_path: Path, sdk: Path) -> None:
    files = {**native_files(tmp_path), "demo/other.py": BY_NAME}
    outcome = repaired(make_wheel(tmp_path, tag=TAG, files=files), tmp_path / "out", sdk, NAME)
    text = summary(outcome)
    assert f"python   added `demo/_wheelfix_preload.py`, which opens `{NAME}`" in text
    assert "edited `demo/__init__.py`, which imports `_wheelfix_preload` first" in text


SYSTEM = (
    "libc.so.6",
    "libm.so",
    "libcuda.so.1",
    "libX11.so.6",
    "libpython3.so",
    "foo.dll",
    "libfoo.dylib",
)


def test_a_path_to_what_is_not_there_names_include(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, tag=TAG, files={**native_files(tmp_path), "demo/b.py": BY_PATH})
    outcome = repaired(path, tmp_path / "out", None)
    (found,) = (f for f in outcome.remaining if f.code == "WF317")
    assert f'`include = ["{NAME}"]`' in (found.hint or "")


@pytest.mark.parametrize("name", SYSTEM)
def test_what_belongs_to_the_machine_is_no_candidate(tmp_path: Path, name: str) -> None:
    files = {**native_files(tmp_path), "demo/other.py": BY_NAME.replace(NAME, name)}
    outcome = repaired(make_wheel(tmp_path, tag=TAG, files=files), tmp_path / "out", None)
    assert "WF321" not in {f.code for f in outcome.remaining}


# --- musl -----------------------------------------------------------------------------------------

PROGRAM = """
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **paths) {
    void *module = dlopen(paths[1], RTLD_NOW);
    int (*opened)(void) = module ? (int (*)(void))dlsym(module, "opened") : 0;
    printf("%d\\n", opened ? opened() : -2);
}
"""


@needs("musl-gcc")
def test_on_musl_the_object_that_opens_it_needs_it(tmp_path: Path) -> None:
    """musl never uses the search path of the object that calls dlopen."""
    libc = f"libc.musl-{MACHINE}.so.1"
    stub = shared_object(tmp_path / libc, soname=libc, libc=False)
    sdk = tmp_path / "sdk"
    shared_object(sdk / NAME, "int inc(void) { return 7; }", soname=NAME, needed=[stub], libc=False)
    opener = shared_object(tmp_path / "opener.so", OPENER, needed=[stub], libc=False)
    files: dict[str, Any] = {"demo/__init__.py": "", "demo/opener.so": opener}
    path = make_wheel(tmp_path, tag=f"py3-none-linux_{MACHINE}", files=files)
    outcome = repaired(path, tmp_path / "out", sdk, NAME, plat=f"musllinux_1_2_{MACHINE}")
    assert outcome.output, outcome
    shutil.rmtree(sdk)
    (tmp_path / "program.c").write_text(PROGRAM)
    program = tmp_path / "program"
    subprocess.run(["musl-gcc", "-o", program, tmp_path / "program.c"], check=True)
    said = [
        subprocess.run(
            [program, site / "demo/opener.so"], capture_output=True, text=True, check=False
        ).stdout.strip()
        for site in unpacked(tmp_path, path, outcome.output)
    ]
    assert said == ["-1", "7"]


def unpacked(folder: Path, *wheels: Path) -> Iterable[Path]:
    for number, wheel in enumerate(wheels):
        site = folder / f"site-{number}"
        shutil.unpack_archive(wheel, site, "zip")
        yield site


def test_on_musl_python_cannot_open_it_by_name(tmp_path: Path) -> None:
    library = shared_object(tmp_path / "sdk" / NAME, soname=NAME, libc=False)
    files: dict[str, Any] = {"demo/__init__.py": BY_NAME, f"demo/lib/{NAME}": library}
    path = make_wheel(tmp_path, tag=f"py3-none-musllinux_1_2_{MACHINE}", files=files)
    outcome = repaired(path, tmp_path / "out", None, NAME)
    (found,) = (f for f in outcome.remaining if f.severity is Severity.ERROR)
    assert found.code == "WF322"
    assert "musl" in found.notes[0]
