"""What an object finds as built, opened first, it finds after the repair; members stay in place.

The names of the libraries that Python opens are put together when it runs: no source has them.
"""

import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.build import Files, executable, extension, make_wheel, shared_object
from tests.support.environment import ENVIRON
from tests.support.naming import SUFFIX, TAG
from tests.support.repairing import repair
from tests.support.trees import SIMULATED, spread
from wheelfix.cli.app import run
from wheelfix.pipelines.repair_result import Outcome
from wheelfix.settings import DataLibraries, Settings

ANY = "py3-none-linux_x86_64"
OPENS = "import ctypes, os, sys\ndef call(path, name):\n    return ctypes.CDLL(path)[name]()\n"


def repaired(folder: Path, files: Files, tag: str = ANY, settings: Settings | None = None) -> Path:
    """Repair a wheel of `files` without its build tree; the second repair changes nothing."""
    wheel = make_wheel(folder / "dist", tag=tag, files={"demo/__init__.py": OPENS, **files})
    outcome = repaired_once(wheel, folder / "out", settings or Settings())
    assert outcome.output is not None, (outcome.error, outcome.remaining)
    again = repaired_once(outcome.output, folder / "again", settings or Settings())
    assert again.output is not None
    assert again.output.read_bytes() == outcome.output.read_bytes()
    assert not again.edits
    return outcome.output


def repaired_once(wheel: Path, to: Path, settings: Settings) -> Outcome:
    return repair(wheel, replace(settings, wheel_dir=to), ENVIRON)


def opened(wheel: Path, member: str, function: str, folder: Path) -> str:
    """Return what a function returns of a library that a new process opens first."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    code = f"import demo; print(demo.call({str(folder / member)!r}, {function!r}))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).splitlines()[-1]


# --- Search paths ---------------------------------------------------------------------------------


def inner_and_outer(folder: Path, entry: Path, *, runpath: bool = False) -> tuple[Path, Path]:
    """Build a library, and one that finds it by `entry` alone."""
    inner = shared_object(folder / "libinner.so", "int i(void) { return 5; }", soname="libinner.so")
    outer = shared_object(
        folder / "libouter.so",
        "int i(void); int o(void) { return 1 + i(); }",
        soname="libouter.so",
        needed=[inner],
        rpath=None if runpath else str(entry),
        runpath=str(entry) if runpath else None,
    )
    return inner, outer


@pytest.mark.each_run("*-runpath", "demo/libouter.so-demo/sub*")
@pytest.mark.parametrize("runpath", [False, True], ids=["rpath", "runpath"])
@pytest.mark.parametrize(
    ("outer_member", "inner_member"),
    [
        ("demo/libouter.so", "demo/sub/libinner.so"),
        ("demo/libouter.so", "demo/libinner.so"),
        ("demo.libs/libouter.so", "demo/lib/libinner.so"),
        ("demo/lib/libouter.so", "demo.libs/libinner.so"),
        ("demo/deep/er/libouter.so", "demo/libinner.so"),
    ],
)
def test_a_library_that_a_path_of_the_build_tree_served_finds_its_own_alone(
    outer_member: str,
    inner_member: str,
    runpath: bool,  # noqa: FBT001 - a parameter of the test
    tmp_path: Path,
) -> None:
    """A module that loads both finds both; nothing is seen to open the library by itself."""
    inner, outer = inner_and_outer(tmp_path, tmp_path / "gone/sub", runpath=runpath)
    lib = f"$ORIGIN/{inner_member.rpartition('/')[0].removeprefix('demo').removeprefix('/')}"
    lib = "$ORIGIN/../demo.libs" if "demo.libs" in inner_member else lib
    own = "$ORIGIN/../" + outer_member.rpartition("/")[0]
    module = extension(
        tmp_path / "_m", "_m", needed=[outer, inner], calls=["o", "i"], rpath=f"{own}:{lib}"
    )
    files: Files = {f"demo/_m{SUFFIX}": module, outer_member: outer, inner_member: inner}
    wheel = repaired(tmp_path, files, TAG)
    assert opened(wheel, outer_member, "o", tmp_path / "site") == "6"


def test_all_that_an_inherited_path_of_the_build_tree_served_is_found(tmp_path: Path) -> None:
    """Each of several levels has no search path of its own."""
    levels: list[Path] = []
    for level in range(30):
        below = f"int f{level - 1}(void);" if level else ""
        value = f"1 + f{level - 1}()" if level else "0"
        levels.append(
            shared_object(
                tmp_path / f"libl{level}.so",
                f"{below} int f{level}(void) {{ return {value}; }}",
                soname=f"libl{level}.so",
                needed=levels[-1:],
                rpath="/gone/lib" if level == 29 else None,
                flags=["-Wl,--allow-shlib-undefined"],
            )
        )
    top = levels.pop()
    module = extension(
        tmp_path / "_m", "_m", needed=[top], calls=["f29"], rpath="$ORIGIN:$ORIGIN/lib"
    )
    files: Files = {
        f"demo/_m{SUFFIX}": module,
        "demo/libl29.so": top,
        **{f"demo/lib/{level.name}": level for level in levels},
    }
    wheel = repaired(tmp_path, files, TAG)
    assert opened(wheel, "demo/libl29.so", "f29", tmp_path / "site") == "29"


@pytest.mark.parametrize("own_path", [True, False], ids=["own", "inherited"])
def test_a_library_of_the_wheel_finds_the_graft_alone(
    own_path: bool,  # noqa: FBT001 - a parameter of the test
    tmp_path: Path,
) -> None:
    """Only a module is seen to load it, and the module's DT_RPATH leads to the graft."""
    inner, _ = inner_and_outer(tmp_path / "sdk", tmp_path)
    sdk = str(inner.parent)
    outer = shared_object(
        tmp_path / "libouter.so",
        "int i(void); int o(void) { return 1 + i(); }",
        soname="libouter.so",
        needed=[inner],
        rpath=sdk if own_path else None,
    )
    module = extension(
        tmp_path / "_m",
        "_m",
        needed=[outer, inner],
        calls=["o", "i"],
        rpath=f"$ORIGIN/../demo.libs:{sdk}",
    )
    files: Files = {f"demo/_m{SUFFIX}": module, "demo.libs/libouter.so": outer}
    wheel = repaired(tmp_path, files, TAG)
    inner.unlink()
    assert opened(wheel, "demo.libs/libouter.so", "o", tmp_path / "site") == "6"


def test_a_library_that_never_found_its_own_alone_is_not_rewritten(tmp_path: Path) -> None:
    """numpy's libraries are so; no entry is dropped from anything that loads it."""
    inner = shared_object(tmp_path / "libinner.so", "int i(void){return 5;}", soname="libinner.so")
    outer = shared_object(
        tmp_path / "libouter.so",
        "int i(void); int o(void){return i();}",
        soname="libouter.so",
        needed=[inner],
    )
    module = extension(
        tmp_path / "_m", "_m", needed=[outer], calls=["o"], rpath="/gone:$ORIGIN/lib"
    )
    files: Files = {
        f"demo/_m{SUFFIX}": module,
        "demo/lib/libouter.so": outer,
        "demo/lib/libinner.so": inner,
    }
    with zipfile.ZipFile(repaired(tmp_path, files, TAG)) as archive:
        assert archive.read("demo/lib/libouter.so") == outer.read_bytes()


@pytest.mark.parametrize(("opens", "stays"), [(True, True), (False, False)])
def test_a_folder_that_the_package_may_make_stays_for_what_opens_libraries_by_name(
    opens: bool,  # noqa: FBT001 - a parameter of the test
    stays: bool,  # noqa: FBT001 - a parameter of the test
    tmp_path: Path,
) -> None:
    code = 'void *dlopen(const char *, int); int o(void) { return dlopen("libx.so", 2) != 0; }'
    outer = shared_object(
        tmp_path / "libouter.so",
        code if opens else "int o(void) { return 0; }",
        rpath="$ORIGIN/made",
        flags=["-Wl,--allow-shlib-undefined"],
    )
    wheel = repaired(tmp_path, {"demo/libouter.so": outer})
    with zipfile.ZipFile(wheel) as archive:
        assert (b"$ORIGIN/made" in archive.read("demo/libouter.so")) is stays


# --- Places ---------------------------------------------------------------------------------------


@pytest.mark.each_run("scripts-*", "data-demo.libs")
@pytest.mark.parametrize("folder", ["demo/.libs", "demo/lib", "demo.libs"])
@pytest.mark.parametrize("scheme", ["scripts", "data"])
def test_a_library_that_a_program_needs_stays_in_the_package(
    folder: str, scheme: str, tmp_path: Path
) -> None:
    library = shared_object(tmp_path / "libw.so", "int w(void) { return 7; }", soname="libw.so")
    program = executable(
        tmp_path / "tool",
        "int w(void); int main(void) { return w() - 7; }",
        needed=[library],
        rpath="/gone",
    )
    tool = f"demo-1.0.data/{scheme}/{'bin/' if scheme == 'data' else ''}tool"
    wheel = repaired(tmp_path, {f"{folder}/libw.so": library, tool: program})
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(f"{folder}/libw.so") == library.read_bytes()
    for tree in ("debian", "lib64"):
        loaded = spread(wheel, SIMULATED[tree], tmp_path / tree).load_all()
        assert {path.name for path in loaded} == {"libw.so", "tool"}
        assert all(outcome.ok for outcome in loaded.values()), loaded
    assert opened(wheel, f"{folder}/libw.so", "w", tmp_path / "site") == "7"


def test_a_graft_goes_where_it_is_needed(tmp_path: Path) -> None:
    library = shared_object(tmp_path / "libw.so.1", "int w(void){return 7;}", soname="libw.so.1")
    program = executable(
        tmp_path / "tool",
        "int w(void); int main(void) { return w() - 7; }",
        needed=[library],
        rpath=str(tmp_path),
    )
    wheel = repaired(tmp_path, {"demo-1.0.data/scripts/tool": program})
    with zipfile.ZipFile(wheel) as archive:
        libraries = [name for name in archive.namelist() if "/libw" in name]
    assert [Path(name).parent.name for name in libraries] == ["demo.data-libs"]


def test_a_file_moves_only_if_that_is_asked_for(tmp_path: Path) -> None:
    library = shared_object(tmp_path / "libw.so", "int w(void) { return 7; }", soname="libw.so")
    user = shared_object(
        tmp_path / "libu.so", "int w(void); int u(void) { return w(); }", needed=[library]
    )
    files: Files = {"demo/libw.so": library, "demo-1.0.data/data/demo/libu.so": user}
    for policy in DataLibraries:
        folder = tmp_path / policy
        folder.mkdir()
        settings = Settings(data_libraries=policy)
        with zipfile.ZipFile(repaired(folder, files, settings=settings)) as archive:
            names = set(archive.namelist())
        assert "demo/libw.so" in names
        assert ("demo-1.0.data/data/demo/libu.so" in names) is (policy is not DataLibraries.MOVE)


def test_an_object_that_lacks_a_version_as_built_keeps_no_other_from_its_repair(
    tmp_path: Path,
) -> None:
    versions = tmp_path / "versions.map"

    def library(folder: Path, text: str) -> Path:
        versions.write_text(text)
        flags = [f"-Wl,--version-script={versions}"]
        code = "int k(void) { return 1; } int k2(void) { return 2; }"
        return shared_object(folder / "libk.so.1", code, soname="libk.so.1", flags=flags)

    newer = library(tmp_path / "newer", "V_1 { global: k; }; V_2 { global: k2; } V_1;")
    older = library(tmp_path / "older", "V_1 { global: *; };")
    broken = shared_object(
        tmp_path / "libb.so", "int k2(void); int b(void) { return k2(); }", needed=[newer],
        runpath="$ORIGIN",
    )  # fmt: skip
    external = shared_object(
        tmp_path / "build/libe.so.1", "int e(void) { return 5; }", soname="libe.so.1"
    )
    works = shared_object(
        tmp_path / "liba.so", "int e(void); int a(void) { return e(); }", needed=[external],
        runpath=str(external.parent),
    )  # fmt: skip
    files = {"demo/libk.so.1": older, "demo/libb.so": broken, "demo/liba.so": works}
    wheel = repaired(tmp_path, files)
    shutil.rmtree(external.parent)
    assert opened(wheel, "demo/liba.so", "a", tmp_path / "installed") == "5"
    assert run(["repair", "-w", str(tmp_path / "last"), str(wheel)]) == 1  # the error stays
