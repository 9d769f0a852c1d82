"""Does it load? `check`, `explain`, `doctor` and `verify` say the same, and the real loader agrees.

Each case is an extension module and the libraries beside it, as a wheel and installed.
"""

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.oracles.binding import GLIBC_HERE
from tests.oracles.judged_loads import campaign
from tests.support.build import extension, make_wheel, shared_object, stub_library_with_versions
from tests.support.environment import ENVIRON
from wheelfix.cli.app import run
from wheelfix.elf.model import Libc
from wheelfix.loader.loading import split_library_path
from wheelfix.loader.symbol_versions import ACCEPTS_UNVERSIONED, newer

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
TAG = f"cp3{sys.version_info.minor}-cp3{sys.version_info.minor}-linux_x86_64"
Files = dict[str, Path]
TAKES_LOST_VERSIONS = not newer(ACCEPTS_UNVERSIONED, GLIBC_HERE)
LAZY = ("-Wl,--allow-shlib-undefined", "-Wl,--unresolved-symbols=ignore-all")


def versioned(folder: Path, *names: str, version: str = "V_1") -> Path:
    return stub_library_with_versions(folder / "libver.so.1", "libver.so.1", {version: names})


def plain(folder: Path, *names: str) -> Path:
    source = "".join(f"int {name}(void) {{ return 1; }}\n" for name in names)
    return shared_object(folder / "libver.so.1", source, soname="libver.so.1", libc=False)


def module(folder: Path, *calls: str, needed: tuple[Path, ...] = (), name: str = "_core") -> Path:
    return extension(
        folder / f"_core{SUFFIX}",
        name,
        calls=calls,
        needed=needed,
        runpath="$ORIGIN",
        flags=LAZY,
    )


def _sound(folder: Path) -> Files:
    library = versioned(folder / "new", "one", "two")
    return {"_core": module(folder, "one", "two", needed=(library,)), "libver.so.1": library}


def _version_gone(folder: Path) -> Files:
    linked = versioned(folder / "new", "two", version="V_2")
    return {
        "_core": module(folder, "two", needed=(linked,)),
        "libver.so.1": versioned(folder, "two"),
    }


def _symbol_of_a_version_gone(folder: Path) -> Files:
    linked = versioned(folder / "new", "one", "two")
    return {
        "_core": module(folder, "two", needed=(linked,)),
        "libver.so.1": versioned(folder, "one"),
    }


def _versions_lost(folder: Path) -> Files:
    linked = versioned(folder / "new", "one")
    return {"_core": module(folder, "one", needed=(linked,)), "libver.so.1": plain(folder, "one")}


def _versions_come(folder: Path) -> Files:
    linked = plain(folder / "old", "one")
    return {
        "_core": module(folder, "one", needed=(linked,)),
        "libver.so.1": versioned(folder, "one"),
    }


def _undefined(folder: Path) -> Files:
    return {"_core": module(folder, "nowhere_fn")}


def _undefined_in_a_library(folder: Path) -> Files:
    source = "int nowhere_fn(void); int one(void) { return nowhere_fn(); }"
    library = shared_object(
        folder / "libver.so.1", source, soname="libver.so.1", flags=LAZY, libc=False
    )
    return {"_core": module(folder, "one", needed=(library,)), "libver.so.1": library}


def _unknown_of_python(folder: Path) -> Files:
    return {"_core": module(folder, "PyNowhere_Function")}


def _another_name(folder: Path) -> Files:
    return {"_core": module(folder, name="_other")}


def _library_gone(folder: Path) -> Files:
    return {"_core": module(folder, "one", needed=(plain(folder, "one"),))}


CASES: dict[str, tuple[Callable[[Path], Files], str]] = {
    "sound": (_sound, ""),
    "version gone": (_version_gone, "V_2"),
    "symbol of a version gone": (_symbol_of_a_version_gone, "two"),
    "versions lost": (_versions_lost, "one"),
    "versions come": (_versions_come, ""),
    "undefined": (_undefined, "nowhere_fn"),
    "undefined in a library": (_undefined_in_a_library, "nowhere_fn"),
    "unknown of Python": (_unknown_of_python, "PyNowhere_Function"),
    "another name": (_another_name, "PyInit__core"),
    "library gone": (_library_gone, "libver.so.1"),
}
"""The files, and the word that each answer has; empty where all loads."""


def made(folder: Path, files: Files) -> tuple[Path, Path]:
    """Write the wheel, and install it; return both."""
    members: dict[str, bytes | str | Path] = {
        f"p/{name}{SUFFIX}" if name == "_core" else f"p/{name}": path
        for name, path in files.items()
    }
    wheel = make_wheel(folder, tag=TAG, files={"p/__init__.py": b"from . import _core\n"} | members)
    home = folder / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    (site,) = home.glob("lib/python*/site-packages")
    zipfile.ZipFile(wheel).extractall(site)
    return wheel, home


@pytest.mark.parametrize("name", CASES)
def test_all_commands_say_what_the_loader_does(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "versions lost" and TAKES_LOST_VERSIONS:
        pytest.skip("this glibc takes them, and the tags allow older ones")
    build, word = CASES[name]
    wheel, home = made(tmp_path, build(tmp_path / "made"))
    real = subprocess.run(
        [home / "bin/python", "-c", "import p"], env=ENVIRON, capture_output=True, check=False
    )
    fails = real.returncode != 0
    assert fails is bool(word), real.stderr

    def says(*command: str | Path) -> str:
        code = run([*map(str, command)])
        out = capsys.readouterr().out
        assert (code == 1) is fails, f"{command}: {code}\n{out}"
        assert word in out, command
        return out

    for subject in (("--site", home), (wheel,)):
        found = json.loads(says("explain", *subject, "p._core", "--output-format", "json"))
        assert [one["ok"] for one in found["explanations"]] == [not fails]
    says("doctor", home)
    says("check", wheel, *(() if fails else ("--ignore", "WF804")))
    if name != "versions lost":  # a crash names no symbol
        says("verify", wheel)


def installed(folder: Path, *wheels: Path) -> Path:
    for wheel in wheels:
        zipfile.ZipFile(wheel).extractall(folder)
    return folder


def test_a_package_with_a_name_of_the_standard_library_is_never_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files: dict[str, Path | str] = {f"json/_core{SUFFIX}": module(tmp_path), "json/__init__.py": ""}
    wheel = make_wheel(tmp_path, "demo", tag=TAG, files=files)
    home = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    installed(next(home.glob("lib/python*/site-packages")), wheel)
    real = subprocess.run(
        [home / "bin/python", "-c", "import json._core"],
        env=ENVIRON,
        capture_output=True,
        check=False,
    )
    assert b"No module named 'json._core'" in real.stderr
    commands = {
        ("check", "--select", "WF518", str(wheel)): 1,
        ("explain", str(wheel), "json._core"): 1,
        ("verify", str(wheel)): 1,
        ("verify", "--scheme", "user", str(wheel)): 1,
        ("explain", "--site", str(home), "json._core"): 1,
        ("doctor", "-v", str(home)): 0,  # nothing there imports it
    }
    for command, code in commands.items():
        assert run(command) == code
        out = " ".join(capsys.readouterr().out.split())
        assert "the standard library has its top-level name" in out, command


def test_a_module_with_a_name_of_the_standard_library_is_never_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor is there a package to speak of."""
    core = module(tmp_path, name="json")
    wheel = make_wheel(tmp_path, "demo", tag=TAG, files={f"json{SUFFIX}": core})
    home = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    installed(next(home.glob("lib/python*/site-packages")), wheel)
    real = [str(home / "bin/python"), "-c", "import json; print(json.__file__)"]
    shown = subprocess.run(real, env=ENVIRON, capture_output=True, check=True).stdout
    assert b"json/__init__.py" in shown
    for command in (
        ("check", "--select", "WF518", str(wheel)),
        ("explain", str(wheel), "json"),
        ("verify", str(wheel)),
        ("explain", "--site", str(home), "json"),
        ("doctor", str(home)),
        ("doctor", "--prove", str(home)),
    ):
        assert run(command) == 1
        out = " ".join(capsys.readouterr().out.split())
        assert "the standard library has its top-level name" in out, command
        assert "package" not in out.replace("site-packages", ""), command


def test_what_another_package_imports_of_a_package_that_is_never_imported_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And of any package: not the package of a module alone imports it."""
    gone = module(tmp_path / "gone", "one", needed=(plain(tmp_path, "one"),))
    for name, core in {"json": module(tmp_path), "other": gone}.items():
        files: dict[str, Path | str] = {f"{name}/_core{SUFFIX}": core, f"{name}/__init__.py": ""}
        files["demo/__init__.py"] = f"import {name}._core\n"
        wheel = make_wheel(tmp_path / name, "demo", tag=TAG, files=files)
        home = tmp_path / name / "env"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
        installed(next(home.glob("lib/python*/site-packages")), wheel)
        real = [str(home / "bin/python"), "-c", "import demo"]
        assert subprocess.run(real, env=ENVIRON, capture_output=True, check=False).returncode
        assert run(["doctor", str(home)]) == 1
        assert f"error[WF952]: importing `{name}._core` fails" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "fails"), [("json", 0), ("importlib", 0), ("os", 1), ("stat", 1), ("time", 1)]
)
def test_a_package_of_a_folder_in_pythonpath_comes_before_the_standard_library(
    tmp_path: Path, name: str, fails: int
) -> None:
    """But not before what is built in or frozen: `sys.meta_path` has these first."""
    core = module(tmp_path)
    files: dict[str, Path | str] = {f"{name}/_core{SUFFIX}": core, f"{name}/__init__.py": ""}
    wheel = make_wheel(tmp_path, "demo", tag=TAG, files=files)
    home = installed(tmp_path / "target", wheel)
    real = subprocess.run(
        [sys.executable, "-c", f"import {name}._core"],
        env={**ENVIRON, "PYTHONPATH": str(home)},
        check=False,
    )
    assert real.returncode == fails
    if name != "importlib":  # what tries it needs that
        assert run(["verify", "--scheme", "target-pip", str(wheel)]) == fails
    assert run(["explain", "--scheme", "target-pip", str(wheel), f"{name}._core"]) == fails
    assert run(["explain", "--site", str(home), f"{name}._core"]) == fails


def test_a_bare_folder_is_for_the_python_of_its_wheels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = f".cpython-3{sys.version_info.minor - 1}-x86_64-linux-gnu.so"
    files: dict[str, Path | str] = {f"p/_core{other}": module(tmp_path), "p/__init__.py": ""}
    site = installed(tmp_path / "site", make_wheel(tmp_path, "p", tag=TAG, files=files))
    real = subprocess.run(
        [sys.executable, "-c", "import p._core"], cwd=site, capture_output=True, check=False
    )
    assert b"No module named 'p._core'" in real.stderr
    for word in ("p", "p._core"):
        assert run(["explain", "--site", str(site), word]) == 1
        assert "it is for another Python" in " ".join(capsys.readouterr().out.split())
    older = TAG.replace(f"3{sys.version_info.minor}", f"3{sys.version_info.minor - 1}")
    installed(site, make_wheel(tmp_path, "older", tag=older, files={"older/a.py": ""}))
    assert run(["explain", "--site", str(site), "p"]) == 0  # for which one is not known


def test_what_is_installed_is_named_by_its_package_or_its_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files: dict[str, Path | str] = {f"big/_core{SUFFIX}": module(tmp_path), "big/__init__.py": ""}
    files["big/_gone" + SUFFIX] = extension(tmp_path / "_gone.so", "_gone")
    files["big/__init__.py"] = "from . import _core, _gone\n"
    wheel = make_wheel(tmp_path, "Other_Name", tag=TAG, files=files)
    home = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    site = installed(next(home.glob("lib/python*/site-packages")), wheel)
    monkeypatch.chdir(site.parent)
    for word in ("big", "other-name", f"./site-packages/big/_core{SUFFIX}", "big._gone"):
        assert run(["explain", "--site", str(home), word]) == 0
        assert f"big/_core{SUFFIX}" in capsys.readouterr().out or "gone" in word
    (site / f"big/_gone{SUFFIX}").unlink()
    for word in ("big", "other-name", "big._gone", f"big/_gone{SUFFIX}"):
        assert run(["explain", "--site", str(home), word]) == 1
        out = " ".join(capsys.readouterr().out.split())
        assert f"big/_gone{SUFFIX}: is not there" in out
        assert "install Other-Name 1.0 again" in out.replace("_", "-")
    assert run(["explain", "--site", str(home), "big._other"]) == 2


def test_glibc_2_41_takes_a_symbol_from_a_library_that_lost_its_versions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel, _ = made(tmp_path, _versions_lost(tmp_path / "made"))
    for target, code in (("debian:12", 1), ("debian:13", 0), ("fedora:42", 0), ("glibc:2.41", 0)):
        assert run(["explain", str(wheel), "p._core", "--target", target]) == code, target
        words = " ".join(capsys.readouterr().out.split())
        assert ("this ends a process of glibc before 2.41" in words) is (code == 1)


def test_an_executable_stack_is_refused_where_glibc_is_new(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    core = extension(tmp_path / "core.so", "_core", flags=["-Wl,-z,execstack"])
    wheel, _ = made(tmp_path, {"_core": core})
    for target, code in (("debian:12", 0), ("fedora:42", 1)):
        assert run(["explain", str(wheel), "p._core", "--target", target]) == code, target
        assert ("executable stack" in capsys.readouterr().out) is (code == 1)
        assert run(["check", str(wheel), "--target", target, "--select", "WF815"]) == code
        capsys.readouterr()


def test_what_nothing_defines_is_known_on_a_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its Python loads libexpat.so.1, whose symbols are not listed; the module does not."""
    wheel, _ = made(tmp_path, _undefined(tmp_path / "made"))
    for subject in ([], ["p._core"]):
        assert run(["explain", str(wheel), *subject, "--target", "debian:12"]) == 1
        out = " ".join(capsys.readouterr().out.split())
        assert "not defined" in out
        assert "maybe" not in out
        assert "needs nothing `" not in out


def test_musl_itself_defines_what_no_request_is_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    musl = shared_object(
        tmp_path / "libc.so",
        "int issetugid(void){return 1;}",
        soname="libc.musl-x86_64.so.1",
        libc=False,
    )
    for name, code in (("issetugid", 0), ("nowhere_fn", 1)):
        core = module(tmp_path / name, name, needed=(musl,))
        tag = TAG.replace("linux_", "musllinux_1_2_")
        wheel = make_wheel(tmp_path, "p", tag=tag, files={f"p/_core{SUFFIX}": core})
        for target in ([], ["--target", "alpine:3.20"]):
            assert run(["explain", str(wheel), *target]) == code, capsys.readouterr()


def test_a_problem_names_the_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel, _ = made(tmp_path, _undefined(tmp_path / "made"))
    assert run(["explain", str(wheel), "p._core"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "its authors must link the library, or compile the source, that defines it" in out


# --- Environment variables ------------------------------------------------------------------------


def test_ld_library_path_of_the_shell_counts_in_an_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """explain and doctor take it, as the process does that a shell starts, and say so."""
    wheel, home = made(tmp_path, _library_gone(tmp_path / "made"))
    folder = str(tmp_path / "made")

    def says(*words: str | Path) -> tuple[int, bool]:
        code = run([*map(str, words)])
        return code, f"LD_LIBRARY_PATH={folder}" in " ".join(capsys.readouterr().out.split())

    asked: list[str | Path] = ["explain", "--site", home, "p._core"]
    assert says(*asked) == (1, False)
    assert says(*asked, "--env", f"LD_LIBRARY_PATH={folder}") == (0, True)
    monkeypatch.setenv("LD_LIBRARY_PATH", folder)
    assert says(*asked) == says("doctor", home) == (0, True)
    assert says(*asked, "--env", "LD_LIBRARY_PATH=/nowhere") == (1, False)
    assert says("doctor", home, "--env", "LD_LIBRARY_PATH=/nowhere") == (1, False)
    assert says(*asked, "--target", "debian:12") == (1, False)
    assert says("explain", wheel, "p._core") == (1, False)
    given = {**ENVIRON, "LD_LIBRARY_PATH": folder}
    subprocess.run([home / "bin/python", "-c", "import p"], env=given, check=True)


def test_each_loader_splits_ld_library_path_in_its_way() -> None:
    assert split_library_path("a;b:c", Libc.GLIBC) == ("a", "b", "c")
    assert split_library_path("a;b:c\nd", Libc.MUSL) == ("a;b", "c", "d")
    assert split_library_path("", Libc.MUSL) == ()


# --- Random wheels --------------------------------------------------------------------------------


@pytest.mark.skipif(TAKES_LOST_VERSIONS, reason="check judges for older glibc, too")
def test_random_libraries_are_judged_as_the_loader_does() -> None:
    assert list(campaign(range(4))) == []


@pytest.mark.parametrize(
    ("python", "tag", "suffix"),
    [
        ("pypy3.10", "pp310-pypy310_pp73", "pypy310-pp73"),
        ("python3.11", "cp311-cp311", "cpython-311"),
    ],
)
def test_a_module_of_cffi_is_one_for_pypy_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], python: str, tag: str, suffix: str
) -> None:
    """PyPy calls a function of cffi's own, in place of PyInit."""
    built = shared_object(tmp_path / "_core.so", "void _cffi_pypyinit__core(void *p) { (void) p; }")
    machine = os.uname().machine
    files: dict[str, Path | str] = {
        "pkg/__init__.py": "from . import _core",
        f"pkg/_core.{suffix}-{machine}-linux-gnu.so": built,
    }
    wheel = make_wheel(tmp_path, "pkg", tag=f"{tag}-linux_{machine}", files=files)
    site = tmp_path / "venv" / "lib" / python / "site-packages"
    zipfile.ZipFile(wheel).extractall(site)
    code = 0 if python.startswith("pypy") else 1
    assert run(["check", "--select", "WF311", str(wheel)]) == code
    assert run(["explain", str(wheel), "pkg._core"]) == code
    assert run(["doctor", str(tmp_path / "venv")]) == code
    assert ("PyInit__core" in capsys.readouterr().out) == bool(code)


def test_a_source_that_does_not_find_what_it_opens_is_told_by_explain_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = shared_object(tmp_path / "libfoo.so.1", soname="libfoo.so.1")
    source = 'import ctypes\nctypes.CDLL("libfoo.so.1")\n'
    wheel = make_wheel(
        tmp_path, "byname", files={"byname/__init__.py": source, "byname/lib/libfoo.so.1": library}
    )
    for words in (["check"], ["explain"], ["explain", "byname"]):
        assert run([words[0], str(wheel), *words[1:]]) == 1
        assert "does not find the wheel's `byname/lib/libfoo.so.1`" in capsys.readouterr().out
    assert run(["explain", str(wheel), "byname/lib/libfoo.so.1"]) == 0


def test_wheels_of_one_call_are_explained_beside_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = shared_object(tmp_path / "libbase.so.1", "int b(void){return 1;}", soname="libbase.so.1")
    code = "int b(void); int m(void){return b();}"
    built, path = tmp_path / "libmid.so.1", "$ORIGIN/../base"
    mid = shared_object(built, code, soname=built.name, needed=[base], runpath=path)
    top = extension(tmp_path / "t.so", "t", needed=[mid], calls=["m"], runpath="$ORIGIN/../mid")
    there = {
        "base": ("libbase.so.1", base, ""),
        "mid": ("libmid.so.1", mid, "Requires-Dist: base\n"),
    }
    there["top"] = ("t.so", top, "Requires-Dist: mid\n")
    wheels = [
        str(make_wheel(tmp_path, name, files={f"{name}/{file}": path}, metadata=lines))
        for name, (file, path, lines) in reversed(there.items())
    ]
    assert run(["explain", *wheels, "top.t"]) == 0
    assert "base/libbase.so.1" in (text := capsys.readouterr().out)
    assert "not known" not in text
    for words in (wheels[:2], [wheels[0], "--with", wheels[1]]):
        assert run(["explain", *words]) == 0
        assert "not known: whether base has `libbase.so.1`" in (text := capsys.readouterr().out)
        assert "not found" not in text.partition("mid-1.0")[0]


@pytest.mark.parametrize(
    ("opened", "is_searched"),
    [
        ('"libfoo.so.1"', True),
        ('"./libfoo.so.1"', False),
        ('os.path.join(os.path.dirname(__file__), "libfoo.so.1")', False),
    ],
)
def test_a_folder_of_ld_library_path_helps_what_is_opened_by_name_alone(
    opened: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_searched: bool
) -> None:
    library = shared_object(tmp_path / "opt" / "libfoo.so.1", soname="libfoo.so.1")
    (tmp_path / "empty").mkdir()
    source = f"import ctypes, os\nctypes.CDLL({opened})\n"
    files: dict[str, str | Path] = {"byname/__init__.py": source, "byname/lib/libfoo.so.1": library}
    wheel = make_wheel(tmp_path, "byname", files=files)
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    for folder in ("opt", "empty"):
        path = f"LD_LIBRARY_PATH={tmp_path / folder}"
        python = [sys.executable, "-c", "import byname"]
        environ = ["env", path, f"PYTHONPATH={tmp_path / 'site'}"]
        loaded = subprocess.run([*environ, *python], capture_output=True, check=False)
        assert run(["explain", str(wheel), "--env", path]) == loaded.returncode
        assert loaded.returncode == (0 if folder == "opt" and is_searched else 1)
        assert ("`ctypes.CDLL(" in capsys.readouterr().out) == bool(loaded.returncode)


@pytest.mark.parametrize(
    "folders", ["other", "bits", "text", "cut", "other:fine", "text:fine", "gone:fine", "$ORIGIN"]
)
def test_a_file_in_ld_library_path_helps_if_the_loader_takes_it(
    folders: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It skips a library for another machine, and stops at what is none."""
    library = shared_object(tmp_path / "fine" / "libfoo.so.1", soname="libfoo.so.1")
    data = library.read_bytes()
    other, bits = data[:18] + b"\xf3\0" + data[20:], data[:4] + b"\1" + data[5:]
    for name, content in {"other": other, "bits": bits, "text": b"0", "cut": data[:100]}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / library.name).write_bytes(content)
    source = 'import ctypes\nctypes.CDLL("libfoo.so.1")\n'
    files: dict[str, str | Path] = {"byname/__init__.py": source, "byname/lib/libfoo.so.1": library}
    wheel, site = make_wheel(tmp_path, "byname", files=files), tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    paths = ":".join(f"{tmp_path}/{folder}" for folder in folders.split(":"))
    for path in {folders, paths.replace(f"{tmp_path}/$", "$")}:
        environ = {**ENVIRON, "LD_LIBRARY_PATH": path, "PYTHONPATH": str(site)}
        loaded = subprocess.run([sys.executable, "-c", source], env=environ, check=False)
        for words in (["explain", wheel], ["explain", "--site", site], ["doctor", site]):
            told = run([*map(str, words), "--env", f"LD_LIBRARY_PATH={path}"])
            assert told == loaded.returncode, (words, path)


def test_a_short_name_is_the_library_and_an_import_name_the_package(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`libz9`, `z9` as `libz9.so`, with all its problems; `z9` as the import of a package `z9`."""
    library = shared_object(tmp_path / "libz9.so", "int z9(void) { return 1; }", soname="libz9.so")
    module = extension(tmp_path / "a.so", "_a", needed=[library], calls=["z9"])
    said = dict[str, str]()
    for package in ("demo", "z9"):
        files: dict[str, str | Path] = {f"{package}/__init__.py": ""}
        files[f"{package}/_a{SUFFIX}"] = module
        files[f"{package}/lib/libz9.so"] = library
        wheel = make_wheel(tmp_path / package, "demo", tag=TAG, files=files)
        for name in ("libz9.so", "libz9", "z9"):
            assert run(["explain", str(wheel), name]) == 1
            said[name] = capsys.readouterr().out
        assert said["libz9.so"] == said["libz9"] != ""
        assert (said["libz9.so"] == said["z9"]) is (package == "demo")
    assert f"z9/_a{SUFFIX}: 1 from the platform  not found: `libz9.so`" in said["z9"]


def test_the_cache_of_the_loader_is_among_the_places_that_were_searched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = shared_object(tmp_path / "libz9.so", "int z9(void) { return 1; }", soname="libz9.so")
    module = extension(tmp_path / "a.so", "_a", needed=[library], calls=["z9"])
    wheel = make_wheel(tmp_path, "demo", tag=TAG, files={f"demo/_a{SUFFIX}": module})
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    assert run(["explain", "--site", str(tmp_path / "site"), "demo._a"]) == 1
    assert "ld.so.cache: no entry default directories" in " ".join(capsys.readouterr().out.split())
    assert run(["explain", str(wheel), "demo._a", "--target", "debian:12"]) == 1
    assert "ld.so.cache" not in capsys.readouterr().out


@pytest.mark.parametrize("importing", ["", "from . import m\ndef f():\n    from . import n\n"])
def test_a_module_that_only_a_sibling_could_serve_fails_where_no_source_imports_that(
    importing: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`import pkg.n` fails, and after `pkg.m` it works: so all say, unless a source does that."""
    library = shared_object(tmp_path / "libz9.so", "int z9(void) { return 1; }", soname="libz9.so")
    files: dict[str, str | Path] = {"pkg/__init__.py": "", "pkg/lib/libz9.so": library}
    files["pkg/api.py"] = importing
    for name, path in {"m": "$ORIGIN/lib", "n": None}.items():
        module = tmp_path / f"{name}.so"
        extension(module, name, needed=[library], calls=["z9"], runpath=path)
        files[f"pkg/{name}{SUFFIX}"] = module
    wheel = make_wheel(tmp_path, "pkg", tag=TAG.replace("linux", "manylinux_2_34"), files=files)
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    for text, code in {"pkg.n": 1, "pkg.m, pkg.n": 0}.items():
        command = [sys.executable, "-c", f"import {text}"]
        environ = {**ENVIRON, "PYTHONPATH": str(site)}
        assert subprocess.run(command, env=environ, check=False).returncode == code
    fails = 0 if importing else 1
    for words in (
        ["check", wheel],
        ["explain", wheel, "pkg.n"],
        ["explain", "--site", site, "pkg.n"],
    ):
        assert run([*map(str, words)]) == fails, words
    capsys.readouterr()
    run(["doctor", str(site), "-v"])
    assert ("`pkg.n` fails unless another import has" in capsys.readouterr().out) == bool(fails)


@pytest.mark.parametrize(
    "files",
    [
        {"__init__.py": "__all__ = [chr(c) for c in (109, 110)]\nfrom . import *\n"},
        {
            "__init__.py": "from .util import go\ngo()\n",
            "util.py": "import importlib\ndef go():\n    get = importlib.import_module\n"
            "    for c in 109, 110:\n        get('pkg.' + chr(c))\n",
        },
    ],
)
def test_what_a_package_imports_by_a_computed_name_may_serve_a_module(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also by another name of `import_module`, in another source, and by `__all__`."""
    library = shared_object(tmp_path / "libz9.so", "int z9(void) { return 1; }", soname="libz9.so")
    package = tmp_path / "site/pkg"
    (package / "lib").mkdir(parents=True)
    (package / "lib/libz9.so").write_bytes(library.read_bytes())
    for name, path in {"m": "$ORIGIN/lib", "n": None}.items():
        built = package / f"{name}{SUFFIX}"
        extension(built, name, needed=[library], calls=["z9"], runpath=path)
    for name, text in files.items():
        (package / name).write_text(text)
    environ = {**ENVIRON, "PYTHONPATH": str(package.parent)}
    subprocess.run([sys.executable, "-c", "import pkg.n"], env=environ, check=True)
    assert run(["explain", "--site", str(package.parent), "pkg.n"]) == 0
    capsys.readouterr()
    assert run(["doctor", str(package.parent)]) == 0
    assert "fails" not in capsys.readouterr().out


def test_of_two_copies_of_a_soname_the_first_lacks_what_the_second_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The package imports them in the order that fails: all commands name one that works."""
    copies = {"x": plain(tmp_path / "x", "one"), "y": plain(tmp_path / "y", "one", "two")}
    files: dict[str, Path | str | bytes] = {"q/__init__.py": "from . import x, y\n"}
    for name, call in (("x", "one"), ("y", "two")):
        files[f"q/{name}/__init__.py"] = "from . import _core\n"
        files[f"q/{name}/libver.so.1"] = copies[name]
        files[f"q/{name}/_core{SUFFIX}"] = module(
            tmp_path / name, "one", call, needed=(copies[name],)
        )
    wheel = make_wheel(tmp_path, "q", tag=TAG, files=files)
    second = f"q/y/_core{SUFFIX}"
    taken = "`q/x/libver.so.1` takes the place of `q/y/libver.so.1`: load"

    def said(*words: str) -> str:
        assert run([words[0], str(wheel), *words[1:]]) == 1
        return " ".join(capsys.readouterr().out.split())

    for words in (["explain"], ["explain", "libver.so.1"], ["verify"]):
        assert f"{taken} `{second}` before `" in said(*words)
    lacks = f"problem: `{second}` refers to `two`, which is only in `q/y/libver.so.1`"
    assert lacks in said("explain", "libver.so.1")
    order = "import `q.y._core` before `q.x._core`"
    way = f"hint: the authors of q 1.0 can {order}, or give each library its own SONAME"
    assert way in said("doctor")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    (tmp_path / "site/q/__init__.py").write_text("")
    for names, works in (("q.x, q.y", False), ("q.y, q.x", True)):
        command = [sys.executable, "-c", f"import {names}"]
        done = subprocess.run(command, cwd=tmp_path / "site", check=False, capture_output=True)
        assert (b"undefined symbol: two" not in done.stderr) is works is (not done.returncode)


def test_a_module_that_is_truncated_is_seen_to_crash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    core = shared_object(tmp_path / "c.so", "char big[500000] = {1}; void *PyInit__core(void);")
    files: dict[str, Path | str | bytes] = {"q/__init__.py": "from . import _core\n"}
    files[f"q/_core{SUFFIX}"] = core.read_bytes()[:40000]
    wheel = make_wheel(tmp_path, "q", tag=TAG, files=files)
    assert run(["doctor", "--prove", str(wheel)]) == 1
    assert "  proof: seen\n" in capsys.readouterr().out
