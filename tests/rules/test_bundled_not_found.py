"""Every object finds the wheel's own libraries where an installer puts them."""

import os
import py_compile
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.build import executable, extension, make_wheel, shared_object
from tests.support.installers import PURE, install
from tests.support.values import apply_fixes, elf, findings, wheel
from wheelfix import check
from wheelfix.elf.model import DF_1_PIE, Elf, Libc
from wheelfix.rules.bundled_not_found import (
    inherited_search_path,
    lost_by_installer,
    no_common_path,
    runpath_blocks_inheritance,
    unreachable_library,
)
from wheelfix.rules.context import Context
from wheelfix.rules.findings import PlannedEdit, Severity
from wheelfix.rules.registry import RULES, fixing_rules
from wheelfix.settings import DataLibraries, SearchPathTag, Settings
from wheelfix.wheel.edits import AddEntry, AddMember, MoveMember
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.reader import open_wheel

LIBRARY = "demo.libs/libfoo-1a2b3c4d.so.1"
NAME = "libfoo-1a2b3c4d.so.1"
DATA = "demo-1.0.data/data/demo/libdata.so"
TOOL = "demo-1.0.data/scripts/demo-tool"


def fixed(subject: Wheel, **settings: Any) -> tuple[Wheel, tuple[PlannedEdit, ...]]:
    after, edits = apply_fixes(subject, RULES, Settings(**settings))
    context = Context(wheel=after, settings=Settings(**settings))
    for world in context.worlds:
        for member, load in world.loads.items():
            lost = [r for r in load.requests if r.name in context.shipped and r.result is None]
            assert not lost, (member, world.where)
    return after, edits


@pytest.mark.parametrize(
    ("member", "entry"),
    [
        ("demo/_core.so", "$ORIGIN/../demo.libs"),
        ("_core.so", "$ORIGIN/demo.libs"),
        ("demo/deep/er/_core.so", "$ORIGIN/../../../demo.libs"),
        ("demo-1.0.data/platlib/demo/_core.so", "$ORIGIN/../demo.libs"),
        ("demo-1.0.data/platlib/demo/sub/_core.so", "$ORIGIN/../../demo.libs"),
        ("demo.libs/libbar.so", "$ORIGIN"),
    ],
)
def test_one_entry_leads_to_a_library_that_always_lies_alike(member: str, entry: str) -> None:
    subject = wheel({member: elf(NAME), LIBRARY: elf(soname=NAME)})
    (found,) = findings(unreachable_library, subject)
    assert (found.member, found.severity) == (member, Severity.ERROR)
    after, _ = fixed(subject)
    assert after.elfs[member].rpath == entry


@pytest.mark.parametrize("folder", ["lib:x", "$LIB", "a${ORIGIN}"])
def test_no_entry_leads_to_a_folder_whose_name_the_loader_would_cut_or_expand(folder: str) -> None:
    objects = {"pkg/m.so": elf("libx.so.1"), f"pkg/{folder}/libx.so.1": elf(soname="libx.so.1")}
    [found] = findings(unreachable_library, wheel(objects))
    assert found.fix is None
    assert found.hint == f"rename the folder: no search path can have `$ORIGIN/{folder}`"


def test_a_library_that_is_reached_is_no_finding() -> None:
    subject = wheel({"demo/a.so": elf(NAME, rpath="$ORIGIN/../demo.libs"), LIBRARY: elf()})
    assert not findings(unreachable_library, subject)


def test_the_zip_relative_path_of_auditwheel_is_wrong_once_installed() -> None:
    member = "demo-1.0.data/platlib/demo/_core.so"
    subject = wheel({member: elf(NAME, rpath="$ORIGIN/../../../demo.libs"), LIBRARY: elf()})
    assert findings(unreachable_library, subject)
    after, _ = fixed(subject)
    assert after.elfs[member].rpath == "$ORIGIN/../demo.libs"


def test_the_platform_may_give_what_it_promises() -> None:
    subject = wheel({"demo/a.so": elf("libstdc++.so.6"), "other/libstdc++.so.6": elf()})
    assert not findings(unreachable_library, subject)


def test_a_library_of_another_machine_is_not_the_answer() -> None:
    subject = wheel({"demo/a.so": elf("libfoo.so"), "arm/libfoo.so": elf(machine=183)})
    assert not findings(unreachable_library, subject)


def test_a_program_of_that_name_is_not_searched_for() -> None:
    """No search path helps: a repair that adds one would never end."""
    program = elf(dt_flags_1=DF_1_PIE, interpreter="/lib64/ld-linux-x86-64.so.2")
    subject = wheel({"demo/a.so": elf(NAME), LIBRARY: program})
    (found,) = findings(unreachable_library, subject)
    assert found.fix is None
    assert "is a program" in (found.hint or "")


def test_the_nearest_of_several_copies_is_taken() -> None:
    subject = wheel(
        {"demo/x/a.so": elf("libfoo.so"), "far/away/libfoo.so": elf(), "demo/libfoo.so": elf()}
    )
    after, _ = fixed(subject)
    assert after.elfs["demo/x/a.so"].rpath == "$ORIGIN/.."


def test_the_entry_comes_last_and_in_dt_rpath() -> None:
    subject = wheel(
        {
            "demo/a.so": elf("libown.so", NAME, runpath="$ORIGIN/own"),
            "demo/own/libown.so": elf(),
            LIBRARY: elf(),
        }
    )
    after, _ = fixed(subject)
    assert after.elfs["demo/a.so"].rpath == "$ORIGIN/own:$ORIGIN/../demo.libs"
    assert after.elfs["demo/a.so"].runpath is None


def test_dt_runpath_on_request() -> None:
    subject = wheel({"demo/a.so": elf(NAME), LIBRARY: elf()})
    after, _ = fixed(subject, search_path_tag=SearchPathTag.RUNPATH)
    assert after.elfs["demo/a.so"].runpath == "$ORIGIN/../demo.libs"


def test_a_vendored_library_that_inherits_its_path_is_only_mentioned() -> None:
    second = "demo.libs/libsecond.so"
    subject = wheel(
        {
            "demo/a.so": elf(NAME, rpath="$ORIGIN/../demo.libs"),
            LIBRARY: elf("libsecond.so"),
            second: elf(),
        }
    )
    (found,) = findings(inherited_search_path, subject)
    assert (found.member, found.severity, found.fix) == (LIBRARY, Severity.NOTE, None)
    assert not findings(unreachable_library, subject)


@pytest.mark.parametrize("folder", ["demo_deps", "demo/_deps"])
@pytest.mark.parametrize("name", [NAME, "libkept.so.1"])
def test_a_vendored_library_is_known_in_the_folder_of_another_suffix(
    folder: str, name: str
) -> None:
    subject = wheel(
        {
            "demo/a.so": elf(name, "libsecond.so", rpath=f"$ORIGIN/../{folder}"),
            f"{folder}/{name}": elf("libsecond.so"),
            f"{folder}/libsecond.so": elf(),
        }
    )
    lib_sdir = folder.removeprefix("demo")
    (found,) = findings(inherited_search_path, subject, lib_sdir=lib_sdir)
    assert found.member == f"{folder}/{name}"
    assert not findings(unreachable_library, subject, lib_sdir=lib_sdir)


def test_a_useless_runpath_on_a_vendored_library_blocks_inheritance() -> None:
    second = "demo.libs/libsecond.so"
    subject = wheel(
        {
            "demo/a.so": elf(NAME, rpath="$ORIGIN/../demo.libs"),
            LIBRARY: elf("libsecond.so", runpath="/build/only/here"),
            second: elf(),
        }
    )
    (found,) = findings(runpath_blocks_inheritance, subject)
    assert found.member == LIBRARY
    after, _ = fixed(subject)
    assert after.elfs[LIBRARY].rpath == "$ORIGIN"


def test_musl_inherits_in_spite_of_a_runpath() -> None:
    def musl(*needed: str, **fields: str) -> Elf:
        return elf(needed=(*needed, "libc.musl-x86_64.so.1"), **fields)

    subject = wheel(
        {
            "demo/a.so": musl(NAME, rpath="$ORIGIN/../demo.libs"),
            LIBRARY: musl("libsecond.so", runpath="$ORIGIN/x"),
            "demo.libs/libsecond.so": musl(),
        },
        name="demo-1.0-cp311-cp311-musllinux_1_2_x86_64.whl",
    )
    assert subject.elfs[LIBRARY].libc is Libc.MUSL
    assert not findings(runpath_blocks_inheritance, subject)


# --- no single path -------------------------------------------------------------------------------


def data_wheel(**fields: Any) -> Wheel:
    return wheel({DATA: elf(NAME), LIBRARY: elf("libsecond.so"), SECOND: elf()}, **fields)


SECOND = "demo.libs/libsecond.so"


def test_a_data_file_has_no_single_path_to_site_packages() -> None:
    (found,) = findings(no_common_path, data_wheel())
    assert found.member == DATA
    assert any("debian-system" in note for note in found.notes)


def test_colocate_copies_the_library_and_what_it_needs_to_the_data_scheme() -> None:
    after, edits = fixed(data_wheel())
    added = [step.edit.member for step in edits if isinstance(step.edit, AddMember)]
    folder = "demo-1.0.data/data/demo.data-libs"
    assert added == [f"{folder}/{NAME}", f"{folder}/libsecond.so"]
    assert after.elfs[DATA].rpath == "$ORIGIN/../demo.data-libs"
    assert after.elfs[f"{folder}/{NAME}"].rpath == "$ORIGIN"


def test_an_executable_shares_the_copies_of_the_data_scheme() -> None:
    tool = elf(NAME, interpreter="/lib64/ld-linux-x86-64.so.2")
    after, _ = fixed(wheel({TOOL: tool, DATA: elf(NAME), LIBRARY: elf()}))
    assert after.elfs[TOOL].rpath == "$ORIGIN/../demo.data-libs"
    assert after.elfs[DATA].rpath == "$ORIGIN/../demo.data-libs"
    assert sum("data-libs" in member for member in after.elfs) == 1


def test_headers_keep_their_copies_beside_them() -> None:
    header = "demo-1.0.data/headers/libplugin.so"
    after, _ = fixed(wheel({header: elf(NAME), LIBRARY: elf()}))
    assert after.elfs[header].rpath == "$ORIGIN/demo.data-libs"
    assert f"demo-1.0.data/headers/demo.data-libs/{NAME}" in after.elfs


def test_search_lists_every_scheme_and_python_that_the_tags_allow() -> None:
    name = "demo-1.0-cp310.cp311-none-linux_x86_64.whl"
    after, edits = fixed(data_wheel(name=name), data_libraries=DataLibraries.SEARCH)
    entries = after.elfs[DATA].entries
    for python in ("python3.10", "python3.11"):
        assert f"$ORIGIN/../lib/{python}/site-packages/demo.libs" in entries
        assert f"$ORIGIN/../lib64/{python}/site-packages/demo.libs" in entries
        assert f"$ORIGIN/../lib/{python}/dist-packages/demo.libs" in entries
    assert "$ORIGIN/../demo.libs" in entries
    assert not any("python3.12" in entry for entry in entries)
    assert not any(isinstance(step.edit, AddMember) for step in edits)


def test_move_takes_the_file_to_platlib() -> None:
    after, edits = fixed(data_wheel(), data_libraries=DataLibraries.MOVE)
    moves = [step.edit for step in edits if isinstance(step.edit, MoveMember)]
    assert moves == [MoveMember(member=DATA, new="demo/libdata.so")]
    assert after.elfs["demo/libdata.so"].rpath == "$ORIGIN/../demo.libs"


@pytest.mark.parametrize(
    ("folder", "new"),
    [("lib", "demo.libs"), ("lib64/deep", "demo.libs/deep"), ("share/demo", "demo.libs/demo")],
)
def test_move_takes_a_file_of_a_folder_of_all_to_the_grafted_libraries(
    folder: str, new: str
) -> None:
    """`lib` in site-packages would be that of all distributions (WF518)."""
    data = f"demo-1.0.data/data/{folder}/libdata.so"
    subject = wheel({"demo/a.so": elf("libdata.so"), data: elf("libinner.so"), INNER: elf()})
    after, edits = apply_fixes(subject, RULES, Settings(data_libraries=DataLibraries.MOVE))
    moves = [step.edit for step in edits if isinstance(step.edit, MoveMember)]
    assert [move.new for move in moves] == [f"{new}/libdata.so", "demo.libs/libinner.so"]
    assert after.elfs["demo/a.so"].rpath == f"$ORIGIN/../{new}"


def test_move_takes_no_program() -> None:
    program = "demo-1.0.data/data/bin/prog"
    subject = wheel(
        {program: elf("libdata.so", interpreter="/lib64/ld.so"), "demo/libdata.so": elf()}
    )
    _, edits = apply_fixes(subject, RULES, Settings(data_libraries=DataLibraries.MOVE))
    assert edits
    assert not any(isinstance(step.edit, MoveMember) for step in edits)


def test_move_never_overwrites_a_file() -> None:
    taken = wheel({DATA: elf(NAME), LIBRARY: elf(), "demo/libdata.so": elf()})
    (found,) = findings(no_common_path, taken, data_libraries=DataLibraries.MOVE)
    assert found.fix is None


def test_a_package_that_needs_a_data_library_reaches_out_for_it() -> None:
    subject = wheel({"demo/a.so": elf("libdata.so"), DATA: elf()})
    after, edits = apply_fixes(subject, RULES, Settings())
    assert after.elfs["demo/a.so"].entries == ("$ORIGIN/../../../../demo", "$ORIGIN")
    assert {type(step.edit) for step in edits} == {AddEntry}


def test_what_pip_target_drops_is_said() -> None:
    (found,) = findings(lost_by_installer, wheel({DATA: elf()}, "demo/__init__.py"))
    assert found.severity is Severity.NOTE, "nothing that is installed needs it"
    assert "target-pip" in found.notes[0]
    needing = {"demo/a.so": elf(needed=(DATA.rpartition("/")[2],)), DATA: elf()}
    (found,) = findings(lost_by_installer, wheel(needing, "demo/__init__.py"))
    assert found.severity is Severity.WARNING
    assert not findings(lost_by_installer, wheel({"demo/a.so": elf()}))


def test_scripts_beside_a_package_named_bin_are_dropped_as_by_pip(tmp_path: Path) -> None:
    script = {"demo-1.0.data/scripts/demo": b"#!python\n"}
    whole = make_wheel(tmp_path, "demo", tag=PURE, files={"bin/__init__.py": b"", **script})
    assert install(whole, tmp_path / "there").returncode == 0
    assert not (tmp_path / "there/bin/demo").exists()
    with open_wheel(whole) as archive:
        (found,) = findings(lost_by_installer, archive.wheel)
    assert found.member == "demo-1.0.data/scripts/demo"
    assert "target-pip" in found.notes[0]
    other = make_wheel(tmp_path, "demo", tag=PURE, files=script)
    assert install(other, tmp_path / "here").returncode == 0
    assert (tmp_path / "here/bin/demo").exists()
    with open_wheel(other) as archive:
        assert not findings(lost_by_installer, archive.wheel)


INNER = "demo-1.0.data/data/lib/libinner.so"
FOLDERS = [
    "",
    "demo/",
    "demo/deep/",
    "demo-1.0.data/platlib/",
    "demo-1.0.data/purelib/demo/",
    "demo-1.0.data/data/",
    "demo-1.0.data/data/lib/",
    "demo-1.0.data/scripts/",
    "demo-1.0.data/headers/",
]


@pytest.mark.parametrize(
    ("folder", "libraries", "data_libraries"),
    [
        (folder, libraries, list(DataLibraries)[(row + column) % len(DataLibraries)])
        for row, folder in enumerate(FOLDERS)
        for column, libraries in enumerate(FOLDERS)
    ],
)
def test_any_folder_may_hold_the_library_also_the_root(
    folder: str, libraries: str, data_libraries: DataLibraries
) -> None:
    member, library = f"{folder}thing.so", f"{libraries}{NAME}"
    inner = f"{libraries}libinner.so"
    subject = wheel({member: elf(NAME), library: elf("libinner.so", soname=NAME), inner: elf()})
    settings = Settings(data_libraries=data_libraries)
    after, _ = apply_fixes(subject, RULES, settings)
    assert not findings(unreachable_library, after, data_libraries=data_libraries)
    again, edits = apply_fixes(after, RULES, settings)
    assert (again, edits) == (after, ())


@pytest.mark.parametrize("tag", SearchPathTag)
def test_no_entry_helps_where_the_loader_refuses_the_library(tag: SearchPathTag) -> None:
    subject = wheel(
        {
            "demo/m.so": elf("libone.so", rpath="$ORIGIN/../demo.libs", module_hooks=("PyInit_m",)),
            "demo.libs/libone.so": elf("libbad.so", runpath="$ORIGIN"),
            "demo.libs/libbad.so": elf(soname="libbad.so", valid_header=False),
        }
    )
    asked = Settings(search_path_tag=tag)
    fixed, _ = apply_fixes(subject, fixing_rules(asked, RULES), asked)
    rules = (unreachable_library, runpath_blocks_inheritance)
    found = [f for rule in rules for f in findings(rule, fixed, search_path_tag=tag)]
    assert [f.member for f in found] == ["demo.libs/libone.so"]
    assert "the loader refuses `demo.libs/libbad.so`" in (found[0].hint or "")


# --- Plug-ins -------------------------------------------------------------------------------------


@pytest.mark.parametrize("opens", [True, False])
def test_a_plugin_of_the_library_that_it_misses_is_for_information(
    tmp_path: Path, *, opens: bool
) -> None:
    """`libhost.so` opens `libplug.so`, which needs it: the loader finds it by its SONAME."""
    host = shared_object(
        tmp_path / "libhost.so",
        "#include <dlfcn.h>\nint host(void){return 1;} void *start(const char *p)"
        "{return dlopen(p, RTLD_NOW);}"
        + ('const char *const plugin = "libplug.so";' if opens else ""),
        soname="libhost.so",
    )
    plug = shared_object(
        tmp_path / "plugins" / "libplug.so",
        "int host(void); int plug(void){return host();}",
        needed=[host],
    )
    made = make_wheel(
        tmp_path,
        tag="py3-none-manylinux_2_34_x86_64",
        files={"demo/libhost.so": host, "demo/plugins/libplug.so": plug},
    )
    found = check(made, Settings(select=("WF101",))).findings
    assert [f.severity for f in found] == [Severity.NOTE if opens else Severity.ERROR]
    alone = subprocess.run(
        [sys.executable, "-c", f"import ctypes; ctypes.CDLL({str(plug)!r})"],
        stderr=subprocess.DEVNULL,
        check=False,
    )
    assert alone.returncode != 0
    after = f"import ctypes; h = ctypes.CDLL({str(host)!r}); assert h.start({str(plug).encode()!r})"
    subprocess.run([sys.executable, "-c", after], check=True)


def test_a_plugin_of_a_program_that_loads_what_it_misses_is_for_information(
    tmp_path: Path,
) -> None:
    """As libPySidePlugin.so of PySide6, which only Qt Designer opens."""
    host = shared_object(
        tmp_path / "lib/libhost.so", "int host(void){return 1;}", soname="libhost.so"
    )
    plug = shared_object(
        tmp_path / "plugins/libplug.so",
        "int host(void); int plug(void){return host();}",
        needed=[host],
    )
    tool = executable(
        tmp_path / "tool",
        "#include <dlfcn.h>\nint host(void); int main(int n, char **a){host();"
        "return !dlopen(a[1], RTLD_NOW);}",
        needed=[host],
        rpath="$ORIGIN/lib",
    )
    assert subprocess.run([tool, plug], check=False).returncode == 0
    files: dict[str, Path | str | bytes] = {
        "demo/lib/libhost.so": host, "demo/plugins/libplug.so": plug, "demo/tool": tool
    }  # fmt: skip
    opener = {"demo/__init__.py": "import ctypes; ctypes.CDLL('libplug.so')"}
    for more, severity in (({}, Severity.NOTE), (opener, Severity.ERROR)):
        made = make_wheel(tmp_path, tag="py3-none-manylinux_2_34_x86_64", files={**files, **more})
        (found,) = check(made, Settings(select=("WF101",))).findings
        assert found.severity is severity


def test_a_program_is_no_plugin_of_a_library_that_contains_its_name(tmp_path: Path) -> None:
    """The library may start it, but in a process of its own, where nothing is loaded before."""
    host = shared_object(
        tmp_path / "libhost.so",
        'const char *const program = "tool"; int host(void){return program != 0;}',
        soname="libhost.so",
    )
    tool = executable(
        tmp_path / "bin" / "tool", "int host(void); int main(void){return !host();}", needed=[host]
    )
    made = make_wheel(
        tmp_path,
        tag="py3-none-manylinux_2_34_x86_64",
        files={"demo/libhost.so": host, "demo/bin/tool": tool},
    )
    (found,) = check(made, Settings(select=("WF101",))).findings
    assert found.severity is Severity.ERROR
    start = (
        f"import ctypes, subprocess as s; ctypes.CDLL({str(host)!r}); s.check_call({str(tool)!r})"
    )
    alone = subprocess.run([sys.executable, "-c", start], stderr=subprocess.DEVNULL, check=False)
    assert alone.returncode != 0


@pytest.mark.parametrize(
    ("hooks", "soname", "severity"),
    [
        ((), "_core.abi3.so", Severity.NOTE),
        (("PyInit_plug",), "_core.abi3.so", Severity.ERROR),
        ((), None, Severity.ERROR),
    ],
)
def test_a_plugin_of_an_extension_module_is_for_information(
    hooks: tuple[str, ...], soname: str | None, severity: Severity
) -> None:
    """Python loads the module first, unless the object that needs it is itself a module."""
    subject = wheel(
        {
            "demo/_core.abi3.so": elf(soname=soname, module_hooks=("PyInit__core",)),
            "demo/plugins/plug.so": elf("_core.abi3.so", module_hooks=hooks),
        }
    )
    (found,) = findings(unreachable_library, subject)
    assert found.severity is severity


HERE = (
    "import ctypes, os\n"
    "def load(name): ctypes.CDLL(os.path.join(os.path.dirname(__file__), name))\n"
)


@pytest.mark.parametrize(
    "sources",
    [
        {"__init__": HERE + "load('lib/libcore.so.2')\nload('bin/libtop.so')"},
        {"__init__": HERE + "for n in 'lib/libcore.so.2', 'bin/libtop.so': load(n)"},
        {"__init__": HERE + "[load(n) for n in ('lib/libcore.so.2', 'bin/libtop.so')]"},
        {"__init__": "from . import a, b", "a": HERE + "load('lib/libcore.so.2')",
         "b": HERE + "load('bin/libtop.so')"},
        {"__init__": HERE + "for n in 'bin/libtop.so', 'lib/libcore.so.2': load(n)"},
        {"__init__": "from . import b, a", "a": HERE + "load('lib/libcore.so.2')",
         "b": HERE + "load('bin/libtop.so')"},
    ],
)  # fmt: skip
def test_a_library_that_python_opens_after_what_it_needs_is_for_information(
    sources: dict[str, str], tmp_path: Path
) -> None:
    core = shared_object(tmp_path / "core.so", "int c(void){return 1;}", soname="libcore.so.2")
    top = shared_object(tmp_path / "top.so", "int c(void); int t(void){return c();}", needed=[core])
    files: dict[str, Path | str | bytes] = {f"q/{name}.py": text for name, text in sources.items()}
    files |= {"q/lib/libcore.so.2": core, "q/bin/libtop.so": top}
    made = make_wheel(tmp_path, name="q", tag="py3-none-manylinux_2_34_x86_64", files=files)
    with zipfile.ZipFile(made) as archive:
        archive.extractall(tmp_path / "site")
    run = [sys.executable, "-c", "import q"]
    real = subprocess.run(run, cwd=tmp_path / "site", check=False, stderr=subprocess.DEVNULL)
    (found,) = check(made, Settings(select=("WF101",))).findings
    assert (found.severity is Severity.NOTE) == (real.returncode == 0)


DEEP = (
    "import ctypes, os\nctypes.CDLL(os.path.join(os.path.dirname(__file__), 'lib/libdeep.so.1'))\n"
)


@pytest.mark.parametrize(
    ("source", "severity"),
    [
        (f"{DEEP}from . import _core\n", Severity.NOTE),
        (f"from . import _core\n{DEEP}", Severity.ERROR),
        (f"from . import other\n{DEEP}from . import _core\n", Severity.ERROR),
        (f"def load():\n    {DEEP.partition(chr(10))[2]}from . import _core\n", Severity.WARNING),
        ("from . import _core\n", Severity.ERROR),
    ],
)
def test_what_a_library_of_a_module_needs_is_opened_before_every_module_that_loads_it(
    tmp_path: Path, source: str, severity: Severity
) -> None:
    deep = shared_object(tmp_path / "libdeep.so.1", "int d(void){return 1;}", soname="libdeep.so.1")
    top = shared_object(
        tmp_path / "libtop.so.1",
        "int d(void); int t(void){return d();}",
        soname="libtop.so.1",
        needed=[deep],
    )
    module = extension(tmp_path / "m.so", "_core", needed=[top], calls=["t"], runpath="$ORIGIN/lib")
    files: dict[str, Path | str | bytes] = {
        "q/__init__.py": source,
        "q/other.py": "from . import _core\n",
        "q/_core.abi3.so": module,
        "q/lib/libtop.so.1": top,
        "q/lib/libdeep.so.1": deep,
    }
    made = make_wheel(tmp_path, name="q", tag="cp311-abi3-manylinux_2_34_x86_64", files=files)
    with zipfile.ZipFile(made) as archive:
        archive.extractall(tmp_path / "site")
    run = [sys.executable, "-c", "import q"]
    real = subprocess.run(run, cwd=tmp_path / "site", check=False, stderr=subprocess.DEVNULL)
    (found,) = check(made, Settings(select=("WF101",))).findings
    assert (found.severity, real.returncode) == (severity, severity is not Severity.NOTE)


@pytest.mark.parametrize(
    ("call", "severity"),
    [
        ("torch.ops.load_library(path)", Severity.WARNING),
        ("ctypes.CDLL(path)", Severity.WARNING),
        ("ctypes.CDLL(os.path.dirname(__file__) + '/lib/libcore.so')", Severity.WARNING),
        ("ctypes.CDLL('libm.so.6')", Severity.ERROR),
        ("ctypes.CDLL(None)", Severity.ERROR),
        ("ctypes.CDLL('libcore.so')", Severity.ERROR),
        ("ctypes.CDLL('./libcore.so')", Severity.ERROR),
        ("print(path)", Severity.ERROR),
    ],
)
def test_a_source_that_may_open_the_library_before_makes_it_a_warning(
    tmp_path: Path, call: str, severity: Severity
) -> None:
    """Torchaudio opens `libtorchaudio.so` by a path that it puts together, and then its module."""
    core = shared_object(tmp_path / "c.so", "int c(void){return 1;}", soname="libcore.so")
    module = extension(tmp_path / "m.so", "_m", needed=[core], calls=["c"])
    files: dict[str, Path | str | bytes] = {
        "q/__init__.py": "from q import load",
        "q/load.py": f"import ctypes, os, torch\ndef load(path):\n    {call}\n",
        "q/_m.abi3.so": module,
        "q/lib/libcore.so": core,
    }
    made = make_wheel(tmp_path, name="q", tag="cp311-abi3-manylinux_2_34_x86_64", files=files)
    (found,) = check(made, Settings(select=("WF101",))).findings
    assert found.severity is severity


@pytest.mark.parametrize("name", ["boot.pyc", "boot.abi3.so", "../q-boot.pth"])
def test_code_that_is_not_read_may_open_the_library_before(tmp_path: Path, name: str) -> None:
    """As bytecode without its source, a compiled module that has its name, and a .pth file."""
    source = tmp_path / "boot.py"
    opens = "os.path.join(os.path.dirname(__file__), 'lib', 'libcore.so')"
    source.write_text(f"import ctypes, os\nctypes.CDLL({opens})\n")
    py_compile.compile(str(source), cfile=str(tmp_path / "boot.pyc"), doraise=True)
    core = shared_object(tmp_path / "c.so", "int c(void){return 1;}", soname="libcore.so")
    native = 'const char *path = "libcore.so"; void *PyInit_boot(void) { return (void *)path; }'
    contents: dict[str, Path | str] = {
        "boot.pyc": tmp_path / "boot.pyc",
        "boot.abi3.so": shared_object(tmp_path / "b.so", native),
        "../q-boot.pth": "import q.opener\n",
    }
    files: dict[str, Path | str | bytes] = {
        "q/__init__.py": "from q import boot, _m",
        "q/_m.abi3.so": extension(tmp_path / "m.so", "_m", needed=[core], calls=["c"]),
        "q/lib/libcore.so": core,
        os.path.normpath(f"q/{name}"): contents[name],
    }
    made = make_wheel(tmp_path, name="q", tag="cp311-abi3-manylinux_2_34_x86_64", files=files)
    (found,) = check(made, Settings(select=("WF101",))).findings
    assert found.severity is Severity.WARNING
    assert Path(name).name in found.notes[0]


@pytest.mark.parametrize("order", ["'libbar.so.2', 'libfoo.so.1'", "'libfoo.so.1', 'libbar.so.2'"])
def test_libraries_that_a_loop_opens_in_turn_serve_each_other_and_the_module(
    tmp_path: Path, order: str
) -> None:
    bar = shared_object(tmp_path / "libbar.so.2", "int b(void){return 1;}", soname="libbar.so.2")
    code = "int b(void); int f(void){return b();}"
    foo = shared_object(tmp_path / "libfoo.so.1", code, soname="libfoo.so.1", needed=[bar])
    loop = f"for name in ({order}):\n    ctypes.CDLL(os.path.join(os.path.dirname(__file__), name))"
    files: dict[str, Path | str | bytes] = {
        "q/__init__.py": f"import ctypes, os\n{loop}\nfrom . import _core\n",
        "q/_core.abi3.so": extension(tmp_path / "m.so", "_core", needed=[foo], calls=["f"]),
        "q/libfoo.so.1": foo,
        "q/libbar.so.2": bar,
    }
    made = make_wheel(tmp_path, name="q", tag="cp311-abi3-manylinux_2_34_x86_64", files=files)
    with zipfile.ZipFile(made) as archive:
        archive.extractall(tmp_path / "site")
    run = [sys.executable, "-c", "import q"]
    real = subprocess.run(run, cwd=tmp_path / "site", check=False, stderr=subprocess.DEVNULL)
    found = check(made, Settings(select=("WF101",))).findings
    works = all(finding.severity is Severity.NOTE for finding in found)
    assert works == (real.returncode == 0) == order.startswith("'libbar")
