"""What to do about a library that an installed environment does not find."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.build import (
    extension,
    make_wheel,
    shared_object,
    stub_library_with_versions,
)
from wheelfix.cli.app import run


def installed(site: Path, soname: str) -> Path:
    """Install a module `p.a` that needs `soname`; return that library, which is elsewhere."""
    library = shared_object(site.parent / soname, "int one(void){return 1;}", soname=soname)
    (site / "p").mkdir(parents=True)
    extension(site / "p" / "a.so", "a", needed=[library], calls=["one"])
    return library


def remedy(site: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert run(["explain", "--site", str(site), "p/a.so"]) == 1
    heading, line = capsys.readouterr().out.splitlines()[-2:]
    assert heading == "what to do"
    return line.strip()


def test_a_library_outside_the_search_path_is_located(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = tmp_path / "site"
    library = installed(site, "libone.so.1")
    (site / "other").mkdir()
    library.rename(site / "other" / library.name)
    found = remedy(site, capsys)
    assert "it is installed as `other/libone.so.1`, which no search path of `p/a.so`" in found
    assert f"LD_LIBRARY_PATH={site / 'other'}" in found


@pytest.mark.parametrize("needed", ["libone.so.1", "build/libone.so.1", "libcudart.so.12"])
def test_a_library_beside_its_user_under_another_name_is_in_its_search_path(
    needed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The loader looks for a SONAME as for a file name, and for a path as it is."""
    site, file = tmp_path / "site", needed.rpartition("/")[2]
    library = shared_object(tmp_path / file, "int one(void){return 1;}", soname=needed)
    (site / "p").mkdir(parents=True)
    extension(site / "p" / "a.so", "a", needed=[library], calls=["one"], runpath="$ORIGIN")
    name = file if "/" in needed else f"{file}.2"
    library.rename(site / "p" / name)
    ask = [sys.executable, "-c", f"import ctypes; ctypes.CDLL({str(site / 'p' / 'a.so')!r})"]
    assert subprocess.run(ask, check=False).returncode == 1
    found = remedy(site, capsys)
    where = f"it is installed as `p/{name}`, which"
    assert f"{where} the loader does not look for: the wheel of `p/a.so` needs" in found
    assert ("`wheelfix repair" in found) is ("cudart" not in needed), "which others may load before"


@pytest.mark.parametrize("old", ["a_old", "z_old"])
def test_of_several_libraries_the_one_with_the_versions_that_are_needed_is_named(
    old: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loader refuses the other one."""
    site, soname = tmp_path / "site", "libone.so.1"
    versions = {"V1": ["one"], "V2": ["two"]}
    new = stub_library_with_versions(site / "new" / soname, soname, versions)
    stub_library_with_versions(site / old / soname, soname, {"V1": ["one"]})
    (site / "p").mkdir()
    module = extension(site / "p" / "a.so", "a", needed=[new], calls=["one", "two"])
    found = remedy(site, capsys)
    assert f"it is installed as `new/{soname}`, which no search path" in found
    variable, _, value = found.partition("; until then, ")[2].partition("=")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    for folder, code in ((value, 0), (str(site / old), 1)):
        monkeypatch.setenv(variable, folder)
        source = f"import ctypes; ctypes.CDLL({str(module)!r})"
        assert subprocess.run([sys.executable, "-c", source], check=False).returncode == code


@pytest.mark.parametrize(
    ("folder", "file", "value"),
    [
        ("a b", "libone.so.1", "LD_LIBRARY_PATH='{}'"),
        ("a:b", "libone.so.1", ""),
        ("ab", "libone-1.so", "LD_PRELOAD={}/libone-1.so"),
        ("a b", "libone-1.so", ""),
    ],
)
def test_a_path_that_a_variable_of_the_loader_cannot_have_is_not_advised(
    folder: str, file: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing quotes a colon in LD_LIBRARY_PATH, or a space in LD_PRELOAD."""
    site = tmp_path / "site"
    library = installed(site, "libone.so.1")
    (site / folder).mkdir()
    library.rename(site / folder / file)
    found = remedy(site, capsys)
    assert f"it is installed as `{folder}/{file}`" in found
    assert found.partition("; until then, ")[2] == value.format(site / folder)


@pytest.mark.parametrize(
    ("soname", "part"),
    [
        ("libcublas.so.12", "needs `wheelfix repair --provider nvidia-cublas-cu12 --add-requires`"),
        ("libfoo-1a2b3c4d.so.1", "neither the wheel of `p/a.so` nor this machine has it"),
        ("libarrow.so.2100", "it is perhaps in a release of pyarrow"),
        ("libnowhere.so.1", "neither the wheel of `p/a.so` nor this machine has it"),
    ],
)
def test_a_library_that_is_nowhere_has_the_likely_remedy(
    soname: str, part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = tmp_path / "site"
    installed(site, soname)
    assert part in remedy(site, capsys)


@pytest.mark.parametrize("folder", ["p", "far.libs"])
def test_a_library_that_record_lists_and_is_gone_is_to_be_installed_again(
    folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If a search path leads there: by the distribution itself, if it has it, too."""
    site = tmp_path / "site"
    library = installed(site, "libone.so.1")
    info = site / "far-1.0.dist-info"
    for each in (site / "a_other-1.0.dist-info", info):
        each.mkdir()
        (each / "RECORD").write_text(f"{folder}/libone.so.1,,\n")
    assert "nor this machine has it" in remedy(site, capsys)
    path = f"$ORIGIN/../{folder}"
    extension(site / "p" / "a.so", "a", needed=[library], calls=["one"], runpath=path)
    for wheel in ("a-other", "far"):
        found = remedy(site, capsys)
        assert f"the copy of `libone.so.1` that the wheel of {wheel} 1.0 had is gone: " in found
        (info / "RECORD").write_text(f"p/a.so,,\n{folder}/libone.so.1,,\n")


def test_a_library_of_a_driver_is_not_to_be_grafted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    installed(tmp_path / "site", "libnvoptix.so.1")
    found = remedy(tmp_path / "site", capsys)
    assert "it must come from the user's machine, as it is part of the NVIDIA driver" in found
    assert "wheelfix repair" not in found


def test_a_script_of_the_name_of_a_package_does_not_hide_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    (site / "one").mkdir(parents=True)
    extension(site / "one" / "__init__.so", "one")
    info = site / "one-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: one\nVersion: 1.0\n")
    (info / "RECORD").write_text("one/__init__.so,,\n../../../bin/one,,\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "one").write_text("#!/usr/bin/python3\n")
    run(["explain", "--site", str(tmp_path), "one"])
    out, err = capsys.readouterr()
    assert "not an ELF file" not in out + err


def test_another_version_of_the_library_is_no_cure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = tmp_path / "site"
    library = installed(site, "libarrow.so.2100")
    (site / "pyarrow").mkdir()
    library.rename(site / "pyarrow" / "libarrow.so.2600")
    shared_object(site / "pyarrow" / "libarrow.so.2600", "int one(void){return 1;}")
    found = remedy(site, capsys)
    assert "another version is installed, `pyarrow/libarrow.so.2600`" in found
    assert "pip install" not in found
    run(["explain", "--site", str(site), "p/a.so"])
    assert "(`pyarrow/libarrow.so.2600` is of another version)" in capsys.readouterr().out


@pytest.mark.parametrize("asked", [["libnowhere.so.1"], ["libnowhere"], ["nowhere"], []])
def test_the_remedy_is_said_whatever_the_name_of_the_subject(
    asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = tmp_path / "site"
    installed(site, "libnowhere.so.1")
    assert run(["explain", "--site", str(site), *asked]) == 1
    *_, heading, line = capsys.readouterr().out.splitlines()
    assert heading == "what to do"
    assert line.startswith("  `libnowhere.so.1`: neither the wheel of `p/a.so` nor")


def test_a_module_that_loads_needs_no_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = tmp_path / "site"
    library = installed(site, "libone.so.1")
    extension(site / "p" / "a.so", "a", needed=[library], calls=["one"], runpath=str(tmp_path))
    assert run(["explain", "--site", str(site), "p/a.so"]) == 0
    assert "what to do" not in capsys.readouterr().out


@pytest.mark.parametrize("before", ["alpha", "alpha.core", "{}!alpha", "{}!alpha/core.so"])
def test_what_a_wheel_beside_it_has_loaded_before_takes_the_place(
    before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheels: list[Path] = []
    for name, functions in (("alpha", ["one"]), ("beta", ["one", "two"])):
        source = "".join(f"int {function}(void) {{ return 1; }}" for function in functions)
        library = shared_object(tmp_path / name / "libq.so.1", source, soname="libq.so.1")
        core = extension(
            tmp_path / f"{name}.so", "core", needed=[library], calls=functions, runpath="$ORIGIN"
        )
        files = {f"{name}/core.so": core, f"{name}/libq.so.1": library}
        wheels.append(make_wheel(tmp_path, name, files=files))
    other, wheel = map(str, wheels)
    asked = ["explain", wheel, "beta.core", "--with", other]
    assert run(asked) == 0
    capsys.readouterr()
    for more in ([], ["--after", "beta"]):
        assert run([*asked, "--after", before.format(other), *more]) == 1
        assert "`beta/libq.so.1`: load `beta/core.so` before `alpha-1.0" in capsys.readouterr().out


def test_a_module_that_no_python_of_the_tags_imports_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    core = extension(tmp_path / "core.so", "core")
    here, there = (f"p/core.cpython-3{minor}-x86_64-linux-gnu.so" for minor in (11, 12))
    for tag, members, fails in (
        ("cp311-cp311-linux_x86_64", [there], True),
        ("cp311-cp311-linux_x86_64", [there, here], False),  # WF312 says what is left over
        ("cp312-cp312-linux_x86_64", [there], False),
        ("cp311.cp312-none-linux_x86_64", [there], False),
        ("cp311-abi3-linux_x86_64", [there], False),
    ):
        wheel = make_wheel(tmp_path, "p", tag=tag, files=dict.fromkeys(members, core))
        for asked in ([], ["p.core"]):
            assert run(["explain", str(wheel), *asked]) == int(fails), (tag, members)
            out = capsys.readouterr().out
            assert (": cannot be loaded: it is for another Python" in out, there in out) == (
                fails,
                True,
            )
            assert ("build it for the Python versions of the tags" in out) is fails


def test_a_module_for_another_machine_is_told_as_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    core = extension(tmp_path / "core.so", "core").read_bytes()
    machine = {"x86_64": 183, "aarch64": 62}[os.uname().machine]  # e_machine of the other one
    there, tag = "p/core.abi3.so", f"cp311-abi3-linux_{os.uname().machine}"
    other = core[:18] + machine.to_bytes(2, "little") + core[20:]
    wheel = make_wheel(tmp_path, "p", tag=tag, files={there: other})
    assert run(["explain", str(wheel), "p.core"]) == 1
    out = capsys.readouterr().out
    assert out.startswith(f"{there}  ")
    assert "problem: cannot be loaded: wrong machine" in out
    assert "its authors must build it for the machine of the tags" in out
    assert "wheelfix repair" not in out


@pytest.mark.parametrize(("version", "code"), [("GLIBCXX_3.4.26", 1), ("GLIBCXX_3.4.19", 0)])
def test_what_the_tag_promises_of_libstdcxx_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str, code: int
) -> None:
    """As `check` does (WF801): a module for manylinux_2_17 cannot use what GCC 9 brought."""
    (tmp_path / "map").write_text(f"{version} {{ one; }};\n")
    flags = [f"-Wl,--version-script={tmp_path / 'map'}"]
    source = "int one(void){return 1;}"
    library = shared_object(tmp_path / "l.so", source, soname="libstdc++.so.6", flags=flags)
    module = extension(tmp_path / "a.so", "a", needed=[library], calls=["one"])
    tag = "py3-none-manylinux_2_17_x86_64"
    made = make_wheel(tmp_path, tag=tag, files={"p/__init__.py": b"", "p/a.abi3.so": module})
    assert run(["explain", str(made), "p.a"]) == code
    assert ("; glibc:2.17 has GLIBCXX_3.4.19" in capsys.readouterr().out) == bool(code)


BESIDE = "import ctypes, os\nctypes.CDLL(os.path.dirname(__file__) + '/libx.so.1')\nimport q._m\n"


@pytest.mark.parametrize(
    ("place", "source", "code"),
    [
        ("q/libx.so.1", "import q._m\n", 1),
        ("q/libx.so.1", BESIDE, 0),
        ("q/libx.so.1", BESIDE.replace("/libx", "/lib' + 'xyz'[0] + '"), 0),
        ("demo-1.0.data/data/x/libx.so.1", "import q._m\n", 1),
    ],
)
def test_check_and_explain_agree_on_a_module_that_needs_a_library_of_its_wheel(
    tmp_path: Path, place: str, source: str, code: int
) -> None:
    library = shared_object(tmp_path / "libx.so.1", "int c(void){return 1;}", soname="libx.so.1")
    module = extension(tmp_path / "m.so", "_m", needed=[library], calls=["c"])
    files: dict[str, Path | str] = {"q/__init__.py": source, "q/_m.abi3.so": module, place: library}
    made = make_wheel(tmp_path, tag="cp311-abi3-manylinux_2_34_x86_64", files=files)
    assert run(["check", str(made), "--select", "WF10"]) == code
    assert run(["explain", str(made), "q._m"]) == code
