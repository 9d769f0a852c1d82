"""`wheelfix doctor`: what it predicts of environments is what their imports do."""

import base64
import contextlib
import json
import os
import py_compile
import re
import shlex
import shutil
import struct
import subprocess
import sys
import sysconfig
import venv
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.oracles.fuzzing import forge
from tests.oracles.fuzzing.forge import sysv_hash
from tests.oracles.installations import objects
from tests.support.build import (
    extension,
    extension_source,
    make_wheel,
    record_text,
    shared_object,
    stub_library_with_versions,
)
from tests.support.installers import pip
from tests.support.schemas import errors
from wheelfix.cli.app import run
from wheelfix.elf import exports
from wheelfix.elf.constants import Pt
from wheelfix.elf.demangle import demangle
from wheelfix.elf.model import Machine, Segment
from wheelfix.environments import read_contents as installed_contents
from wheelfix.environments import read_sources as installed_sources
from wheelfix.host.reachable_files import read_file

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
TAG = f"cp3{sys.version_info.minor}-cp3{sys.version_info.minor}-linux_x86_64"

_TRIES = "try:\n    from . import _core\nexcept ImportError:\n    _core = None\n"


class Environment:
    """A virtual environment, in which imports are predicted and run."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder / "venv", symlinks=True)
        self.root = folder / "venv"
        (self.site,) = self.root.glob("lib/python*/site-packages")
        self.asked: Any = []
        """The orders of imports of the last report."""

    def install(self, folder: Path, name: str, **files: Path | str | bytes) -> None:
        """Install a wheel; `__` in the name of a file is a slash."""
        named = {key.replace("__", "/", 1): content for key, content in files.items()}
        wheel = make_wheel(folder / "wheels", name=name, tag=TAG, files=named)
        zipfile.ZipFile(wheel).extractall(self.site)

    def says(self, capsys: pytest.CaptureFixture[str], code: int, *words: str) -> Any:
        assert run(["doctor", str(self.root), "--output-format", "json", *words]) == code
        report = json.loads(capsys.readouterr().out)
        assert errors("doctor", report) == []
        self.asked = report["orders"]
        return report["findings"]

    def imports(self, *modules: str) -> str:
        """Import the modules in this order in a new process; return the last line of stderr."""
        environ = {key: value for key, value in os.environ.items() if not key.startswith("LD_")}
        done = subprocess.run(
            [self.root / "bin/python", "-c", f"import {', '.join(modules)}"],
            capture_output=True,
            text=True,
            check=False,
            env=environ,
        )
        return (done.stderr.strip().splitlines() or [""])[-1]

    def bindings(self, *modules: str) -> set[tuple[str, str, str]]:
        """Import the modules; return symbols, the package that refers, and the one bound to."""
        done = subprocess.run(
            [self.root / "bin/python", "-c", f"import {', '.join(modules)}"],
            capture_output=True,
            text=True,
            check=True,
            env={"LD_DEBUG": "bindings"},
        )
        line = r"binding file \S+/(\w+)/[^/]+ \[0\] to \S+/(\w+)/[^/]+ \[0\]: normal symbol `(\w+)'"
        return {(symbol, user, to) for user, to, symbol in re.findall(line, done.stderr)}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Environment(tmp_path)


IMPORTS = b"from . import _core\n"
IF_ANY = "that has it, if there is one"


def package(
    folder: Path, name: str, library: Path, *calls: str, imports: str = "from . import _core"
) -> dict[str, Any]:
    """Return the files of a package whose module `_core` needs the library beside it."""
    flags = ["-Wl,--allow-shlib-undefined", "-Wl,--unresolved-symbols=ignore-all"]
    path = folder / name / "_core.so"
    core = extension(path, "_core", needed=[library], calls=calls, runpath="$ORIGIN", flags=flags)
    return {
        f"{name}____init__.py": imports + "\n",
        f"{name}___core{SUFFIX}": core,
        f"{name}__{library.name}": library,
    }


def lib(folder: Path, *functions: str, name: str = "libfoo.so.1") -> Path:
    source = "".join(f"int {function}(void) {{ return 1; }}\n" for function in functions)
    return shared_object(folder / name, source, soname=name)


def test_the_first_library_of_a_soname_serves_both(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = lib(tmp_path / "old", "one"), lib(tmp_path / "new", "one", "foo_new")
    site.install(tmp_path, "alpha", **package(tmp_path, "alpha", old, "one"))
    site.install(tmp_path, "beta", **package(tmp_path, "beta", new, "one", "foo_new"))
    (finding,) = site.says(capsys, 0)
    assert (finding["code"], finding["severity"]) == ("WF953", "warning")
    assert finding["message"].startswith(
        "after `import alpha._core`, `import beta._core` fails: "
        f"`beta/_core{SUFFIX}` refers to `foo_new`"
    )
    assert "`alpha/libfoo.so.1` first" in finding["notes"][0]
    assert "alpha 1.0" in finding["notes"][0]
    assert finding["hint"] == "import `beta._core` before `alpha._core`"
    assert site.imports("alpha", "beta").endswith("undefined symbol: foo_new")
    assert site.imports("beta", "alpha") == ""
    for before in ("alpha", "alpha._core"):  # explain knows the same cause, and no way to link
        asked = ["explain", "--site", str(site.root), "--after", before, "beta._core"]
        assert run(asked) == 1
        assert capsys.readouterr().out.endswith(
            "what to do\n  `alpha/libfoo.so.1` takes the place of `beta/libfoo.so.1`: load "
            f"`beta/_core{SUFFIX}` before `alpha/_core{SUFFIX}`\n"
        )
    site.says(capsys, 1, "--fail-on", "warning")
    assert run(["doctor", str(site.root)]) == 0
    out = capsys.readouterr().out
    assert "1 warning; 2 distributions, 4 objects, 2 extension modules\n\nwarning[WF953]: " in out


def test_orders_of_imports(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = lib(tmp_path / "old", "one"), lib(tmp_path / "new", "one", "foo_new")
    site.install(tmp_path, "alpha", **package(tmp_path, "alpha", old, "one"))
    site.install(tmp_path, "beta", **package(tmp_path, "beta", new, "one", "foo_new"))
    other = package(tmp_path, "gamma", lib(tmp_path / "own", "one"), "one")
    site.install(tmp_path, "gamma_wheel", **other)
    (site.site / "pure.py").write_text("import beta, alpha\n")
    assert site.says(capsys, 0, "--order", "beta,alpha") == []
    assert site.asked[0] == {
        "imports": ["beta", "alpha"],
        "fails": [],
        "proof": None,
        "copies": [
            {
                "soname": "libfoo.so.1",
                "file": "beta/libfoo.so.1",
                "distribution": "beta 1.0",
                "module": "beta._core",
                "others": ["alpha/libfoo.so.1", "gamma/libfoo.so.1"],
                "served": [
                    {
                        "distribution": "alpha 1.0",
                        "files": [f"alpha/_core{SUFFIX}"],
                        "usual": "alpha/libfoo.so.1",
                        "proof": None,
                    }
                ],
            }
        ],
    }
    assert ("one", "alpha", "beta") in site.bindings("beta", "alpha")
    assert site.says(capsys, 0, "--order", "pure") == []
    assert site.asked[0]["copies"][0]["module"] == "beta._core"
    (finding,) = site.says(capsys, 1, "--order", "gamma,alpha,beta")
    assert (finding["code"], finding["severity"]) == ("WF953", "error")
    assert finding["message"].startswith("after `import gamma._core`, `import beta._core` fails: ")
    assert site.asked[0]["fails"] == ["beta._core"]
    assert site.imports("gamma", "alpha", "beta").endswith("undefined symbol: foo_new")
    assert {finding["severity"] for finding in site.says(capsys, 1, "--every-order")} == {"error"}
    fails = {",".join(order["imports"]): order["fails"] for order in site.asked}
    assert len(fails) == 6
    assert {name for name in fails if fails[name]} == {"alpha,beta", "gamma,beta"}
    assert run(["doctor", str(site.root), "--order", "beta,alpha"]) == 0
    assert capsys.readouterr().out.endswith(
        "no findings; 3 distributions, 6 objects, 3 extension modules\n\n"
        "import beta, alpha\n"
        "  libfoo.so.1: `beta/libfoo.so.1` of beta 1.0 comes first, by `beta._core`\n"
        f"    it serves `alpha/_core{SUFFIX}` of alpha 1.0, which alone gets `alpha/libfoo.so.1`\n"
    )
    for words, said in (
        (["--order", "alpha,gamma-wheel"], "did you mean `gamma`?"),
        (["--order", "absent.core"], "is imported as `absent.core`"),
        (["--order", "alpha", "--every-order"], "leave one out"),
    ):
        assert run(["doctor", str(site.root), *words]) == 2
        assert said in capsys.readouterr().err


def test_predictions_are_proved_by_imports(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = lib(tmp_path / "old", "one"), lib(tmp_path / "new", "one", "foo_new")
    site.install(tmp_path, "alpha", **package(tmp_path, "alpha", old, "one"))
    site.install(tmp_path, "beta", **package(tmp_path, "beta", new, "one", "foo_new"))
    quick = package(tmp_path, "quick", lib(tmp_path, "two", name="libtwo.so"), "gone")
    site.install(tmp_path, "quick", **quick)
    (site.site / "quick/__init__.py").write_text("from . import _core\nraise ValueError('other')")
    seen = {"outcome": "seen", "text": ""}
    for finding in site.says(capsys, 1, "--prove"):
        assert finding["proof"] == seen
        assert finding["imports"] in (["alpha._core", "beta._core"], ["quick._core"])
    site.says(capsys, 1, "--every-order", "--prove")
    assert [order["proof"] for order in site.asked] == [seen, seen]
    (copy,) = next(order["copies"] for order in site.asked if order["imports"] == ["beta", "alpha"])
    assert copy["served"][0]["proof"] == seen

    # It opens its own copy by its path before the other package can, in code that is not read.
    (site.site / "alpha/__init__.py").write_text("from . import _core\n")
    early = f"import ctypes; vars(ctypes)['CDLL'](\"{site.site / 'beta/libfoo.so.1'}\")\n"
    (site.site / "alpha/__init__.py").write_text(f"{early}from . import _core\n")
    (finding, _) = sorted(site.says(capsys, 1, "--prove"), key=lambda one: one["code"])[::-1]
    assert (finding["code"], finding["proof"]) == (
        "WF953",
        {"outcome": "not seen", "text": "all imports succeeded"},
    )
    lonely = tmp_path / "lonely"
    shutil.copytree(site.site, lonely)
    assert run(["doctor", str(lonely), "--prove"]) == 2
    assert "or leave out --prove" in capsys.readouterr().err
    assert run(["doctor", str(site.root), "--prove", "--order", "quick"]) == 1
    out = capsys.readouterr().out
    assert "; predictions: 2 seen\n" in out
    assert "import quick (`quick._core` fails)\n  proof: seen\n" in out
    (site.site / "quick/__init__.py").write_text("raise ValueError('other')")
    assert run(["doctor", str(site.root), "--prove", "--order", "quick"]) == 1
    assert "import quick\n  proof: not tried: ValueError: other\n" in capsys.readouterr().out
    (site.site / "quick/__init__.py").write_text("import os; os._exit(0)")
    assert run(["doctor", str(site.root), "--prove", "--order", "quick"]) == 1
    said = "  proof: not tried: no answer came: it ended with exit code 0\n"
    assert said in capsys.readouterr().out


FINDS_TVM = """
import ctypes, os
def candidates():
    places = os.environ.get("TVM_LIBRARY_PATH", "").split(":") + os.environ["PATH"].split(":")
    return [os.path.join(one, "libtvm.so") for one in [*places, os.path.dirname(__file__)] if one]
LIB = ctypes.CDLL(next(filter(os.path.exists, candidates())))
"""


def test_the_story_of_tvm(
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The one release works with the release of tvm-ffi from its own days, not with the newest."""
    symbol = "_ZN3tvm3ffi4json9StringifyEv"
    ffi = lib(tmp_path / "old", "one", symbol, name="libtvm_ffi.so")
    newer = lib(tmp_path / "new", "one", name="libtvm_ffi.so")
    library = shared_object(
        tmp_path / "libtvm.so",
        f"int {symbol}(void); int run(void) {{ return {symbol}(); }}",
        needed=[ffi],
        runpath="$ORIGIN/../tvm_ffi/lib",
    )
    files: dict[str, str | Path] = {"tvm____init__.py": FINDS_TVM, "tvm__libtvm.so": library}
    site.install(tmp_path, "tvm", **files)
    other = tmp_path / "other"
    shutil.copytree(site.root, other, symlinks=True)
    (there,) = other.glob("lib/python*/site-packages")
    for place, copy, version in ((site.site, newer, "0.1.15"), (there, ffi, "0.1.0")):
        (place / "tvm_ffi/lib").mkdir(parents=True)
        shutil.copy(copy, place / "tvm_ffi/lib/libtvm_ffi.so")
        info = place / f"tvm_ffi-{version}.dist-info"
        info.mkdir()
        (info / "RECORD").write_text("tvm_ffi/lib/libtvm_ffi.so,,\n")
    assert "Stringify" in site.imports("tvm")
    monkeypatch.chdir(tmp_path)
    assert run(["doctor", "venv", "--against", "other"]) == 1
    assert capsys.readouterr().out == (
        "venv and other: what opens `tvm/libtvm.so` fails in venv\n"
        f"  `tvm/libtvm.so` needs `{symbol}`:\n"
        f"    venv: `tvm/libtvm.so` refers to `{demangle(symbol)}` (`{symbol}`), not defined\n"
        "    other: it loads\n"
        "  `other` has tvm-ffi 0.1.0, `venv` has tvm-ffi 0.1.15\n"
    )
    assert run(["doctor", "venv"]) == 1
    out = capsys.readouterr().out
    assert "libraries are opened by names that are not known in `tvm`" in out
    assert "it loads libraries of tvm-ffi 0.1.15" in out
    assert "error[WF952]: what opens `tvm/libtvm.so` fails" in out


@pytest.mark.large
def test_why_another_environment_loads_other_libraries(
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    library = lib(tmp_path, "one")
    site.install(tmp_path, "alpha", **package(tmp_path, "alpha", library, "one"))
    other = tmp_path / "other"
    shutil.copytree(site.root, other, symlinks=True)
    (there,) = other.glob("lib/python*/site-packages")
    core, copy = there / f"alpha/_core{SUFFIX}", there / "alpha/libfoo.so.1"

    def compare(code: int, *words: str) -> Any:
        told = ["doctor", "venv", "--against", "other", *words]
        assert run([*told, "--output-format", "json"]) == code
        report = json.loads(capsys.readouterr().out)
        assert errors("doctor-against", report) == []
        assert report["modules"] == 1
        return report["difference"]

    assert compare(0) is None
    assert run(["doctor", "venv", "--against", "other", "--order", "alpha"]) == 0
    out = capsys.readouterr().out
    assert out == "venv and other: 1 module of both load the same libraries\n"

    first = compare(1, "--env", f"LD_LIBRARY_PATH={tmp_path}")
    assert first["cause"] == f"only in `venv`, LD_LIBRARY_PATH has `{tmp_path}`"
    assert [side["file"] for side in first["sides"]] == [str(library), "alpha/libfoo.so.1"]

    copy.rename(tmp_path / "kept")
    assert compare(1)["cause"] == ("`alpha/libfoo.so.1` is there in `venv`, and not in `other`")
    assert run(["doctor", "other", "--against", "venv"]) == 1
    assert capsys.readouterr().out == (
        "other and venv: `import alpha._core` loads other libraries; 1 more difference\n"
        "  `alpha/_core.so` needs `libfoo.so.1`:\n"
        "    other: not found\n"
        "    venv: `alpha/libfoo.so.1` of alpha 1.0, runpath $ORIGIN\n"
        "  `alpha/libfoo.so.1` is there in `venv`, and not in `other`\n"
    )
    (tmp_path / "kept").rename(copy)

    flags = ["-Wl,--unresolved-symbols=ignore-all"]
    bare = extension(tmp_path / "bare.so", "_core", needed=[library], calls=["one"], flags=flags)
    shutil.copy(bare, core)
    first = compare(1)
    assert first["cause"] == (
        "only in `venv`, `alpha/_core.so` of alpha 1.0 has the RUNPATH `$ORIGIN`"
    )
    shutil.copy(extension(tmp_path / "less.so", "_core", flags=flags), core)
    assert compare(1)["cause"] == (
        "`alpha/_core.so` of alpha 1.0 in `venv` needs it, the other one does not"
    )
    shutil.copy(site.site / f"alpha/_core{SUFFIX}", core)
    (there / "alpha-1.0.dist-info").rename(there / "alpha-2.0.dist-info")
    assert compare(1)["cause"] == "`venv` has alpha 1.0, `other` has alpha 2.0"
    for words in (["--prove"], ["--every-order"]):
        assert run(["doctor", "venv", "--against", "other", *words]) == 2
        assert "hint: leave out --every-order, --prove and wheels" in capsys.readouterr().err


def test_a_pair_that_fails_in_both_orders_is_an_error(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, function in (("alpha", "foo_a"), ("beta", "foo_b")):
        library = lib(tmp_path / name / "lib", function)
        site.install(tmp_path, name, **package(tmp_path, name, library, function))
    findings = site.says(capsys, 1)
    assert {(finding["code"], finding["severity"]) for finding in findings} == {("WF953", "error")}
    assert site.imports("alpha", "beta").endswith("undefined symbol: foo_b")
    assert site.imports("beta", "alpha").endswith("undefined symbol: foo_a")
    assert run(["explain", "--site", str(site.root), "--after", "alpha", "beta._core"]) == 1
    cause = "they cannot be {} into one process: install versions that belong together"
    assert cause.format("loaded") in capsys.readouterr().out
    assert findings[0]["hint"] == cause.format("imported")


@pytest.mark.parametrize(
    ("alpha", "beta", "severity"),
    [
        ("import beta\n", "", None),  # beta has its own library before alpha's is loaded
        ("", "import alpha\n", "error"),
        ("", "", "warning"),
    ],
)
def test_what_a_package_always_imports_first_decides(  # noqa: PLR0913, PLR0917 - cases
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    alpha: str,
    beta: str,
    severity: str | None,
) -> None:
    for name, functions, text in (("alpha", ["foo"], alpha), ("beta", ["foo", "foo_new"], beta)):
        library = lib(tmp_path / name, *functions)
        imports = f"{text}from . import _core"
        site.install(
            tmp_path, name, **package(tmp_path, name, library, *functions, imports=imports)
        )
    findings = site.says(capsys, 1 if severity == "error" else 0)
    assert [(one["code"], one["severity"]) for one in findings] == (
        [("WF953", severity)] if severity else []
    )
    assert bool(site.imports("alpha", "beta")) is bool(severity)
    assert bool(site.imports("beta", "alpha")) is (severity == "error")


def test_a_folder_that_is_no_package_is_hardly_imported(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """So panda3d brings Python's modules and their libraries, to copy them into programs."""
    for name, functions in (("alpha", ["foo"]), ("beta", ["foo", "foo_new"])):
        library = lib(tmp_path / name, *functions)
        files = package(tmp_path, name, library, *functions)
        del files[f"{name}____init__.py"]
        site.install(tmp_path, name, **files)
    found = {(finding["code"], finding["severity"]) for finding in site.says(capsys, 0)}
    assert found == {("WF953", "note")}


def test_a_package_whose_source_is_gone_is_empty(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python imports it, as a namespace package: what is missing are its names."""
    files = package(tmp_path, "alpha", lib(tmp_path, "one"), "one")
    site.install(tmp_path, "alpha", **files)
    (site.site / "alpha/__init__.py").unlink()
    (finding,) = site.says(capsys, 1)
    assert (finding["code"], finding["severity"]) == ("WF952", "error")
    assert finding["message"].startswith("importing `alpha` finds nothing in it: ")
    assert site.imports("alpha") == ""
    assert "AttributeError" in site.imports("alpha; alpha._core")


def test_a_package_may_be_an_extension_module(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As apsw."""
    module = extension(tmp_path / "alpha.so", "alpha")
    site.install(tmp_path, "alpha", **{f"alpha____init__{SUFFIX}": module})
    assert site.imports("alpha") == ""
    assert site.says(capsys, 0, "-v") == []
    assert run(["explain", "--site", str(site.root), "alpha"]) == 0
    shutil.copy(extension(tmp_path / "beta.so", "beta"), site.site / f"alpha/__init__{SUFFIX}")
    assert "PyInit_alpha" in site.imports("alpha")
    assert run(["explain", "--site", str(site.root), "alpha"]) == 1
    assert "does not define `PyInit_alpha`" in capsys.readouterr().out


def test_a_module_that_no_package_is_seen_to_import_needs_its_function_only_then(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As memray's, which a debugger injects: `explain` is asked about the import."""
    other = extension(tmp_path / "other.so", "other")
    for source, severity in (("", "note"), ("from . import _core", "error")):
        files: dict[str, Path | str] = {f"alpha___core{SUFFIX}": other}
        site.install(tmp_path, "alpha", **files)
        (site.site / "alpha/__init__.py").write_text(source)
        (finding,) = site.says(capsys, int(severity == "error"))
        assert (finding["code"], finding["severity"]) == ("WF952", severity)
        assert "does not define `PyInit__core`" in finding["message"]
    assert run(["explain", "--site", str(site.root), "alpha._core"]) == 1
    assert "PyInit__core" in site.imports("alpha")
    capsys.readouterr()
    shutil.copy(lib(tmp_path, "one"), site.site / f"alpha/_core{SUFFIX}")
    (finding,) = (one for one in site.says(capsys, 1) if one["code"] == "WF952")
    assert "does not define `PyInit__core`" in finding["message"]
    (site.site / "alpha/__init__.py").write_text("")  # it may be a library for ctypes
    assert [one["code"] for one in site.says(capsys, 0)] == ["WF958"]


def test_a_library_beside_the_packages_is_a_module_only_if_something_imports_it(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As galpy's `libgalpy`, which it opens by a path that it puts together."""
    site.install(tmp_path, "alpha", **{f"libalpha{SUFFIX}": lib(tmp_path, "a")})
    (site.site / "alpha").mkdir()
    (site.site / "alpha/__init__.py").touch()
    assert site.says(capsys, 0) == []
    (site.site / "alpha/__init__.py").write_text("import libalpha")
    assert "PyInit_libalpha" in site.imports("alpha")
    found = [one["message"] for one in site.says(capsys, 1) if one["code"] == "WF952"]
    assert "does not define `PyInit_libalpha`" in found[0]


@pytest.mark.parametrize(
    ("source", "fails"),
    [
        ("from . import _core", True),
        ("from alpha._core import one", True),
        ("import alpha._core as one", True),
        ("from .api import one", True),
        ("try:\n    from . import _core\nexcept ImportError:\n    pass", False),
        ("_core = 1\nfrom . import _core", False),
        ("import sys\nsys.modules['alpha._core'] = sys\nfrom . import _core", False),
    ],
)
def test_a_module_that_is_gone_is_told_without_record(
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    source: str,
    fails: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    beta = package(tmp_path, "beta", lib(tmp_path, "one"), "one")
    site.install(tmp_path, "beta", **beta)
    (site.site / "alpha").mkdir()
    (site.site / "alpha/__init__.py").write_text(f"{source}\n")
    (site.site / "alpha/api.py").write_text("from ._core import *\n")
    for record in site.site.glob("*.dist-info/RECORD"):
        record.unlink()
    found = site.says(capsys, 1 if fails else 0)
    assert [one["severity"] for one in found] == ["error"] * fails
    assert all("`alpha/_core` is not there" in one["message"] for one in found)
    assert all(one["hint"] == "install alpha again, for this Python" for one in found)
    assert bool(site.imports("alpha")) is fails


def test_another_version_of_a_library_is_what_does_not_fit(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As PySide6 6.5 with shiboken6 6.6, whose modules the package itself does not import."""
    files = package(
        tmp_path, "alpha", lib(tmp_path, "one", name="libbind.so.6.5"), "one", imports=""
    )
    del files["alpha__libbind.so.6.5"]
    site.install(tmp_path, "alpha", **files)
    (finding,) = site.says(capsys, 0)
    assert finding["severity"] == "note"
    other: dict[str, Path | str] = {
        "beta____init__.py": "",
        "beta__libbind.so.6.6": lib(tmp_path, "one", name="libbind.so.6.6"),
    }
    site.install(tmp_path, "beta", **other)
    (finding,) = site.says(capsys, 1)
    assert finding["severity"] == "error"
    assert "libbind.so.6.5" in finding["message"]
    assert "libbind.so.6.5" in site.imports("alpha._core")


def test_the_opener_of_another_package_may_open_a_library_by_a_name_not_known(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `tvm_ffi.libinfo` opens the libraries of apache-tvm."""
    code = "int _ZN3tvm4jsonEv(void); int go(void) { return _ZN3tvm4jsonEv(); }"
    user = shared_object(tmp_path / "libuser.so", code)
    opener = "import ctypes, os\nctypes.CDLL(os.environ.get('X') or os.sep.join(find()))\n"
    find = "def find():\n    import alpha\n    return [*alpha.__path__, 'libuser.so']\n"
    files: dict[str, Path | str] = {
        "alpha____init__.py": "import gamma\n",
        "alpha__libuser.so": user,
        "gamma____init__.py": find + opener,
    }
    site.install(tmp_path, "alpha", **files)
    (finding,) = site.says(capsys, 1)
    assert (finding["code"], finding["severity"]) == ("WF952", "error")
    assert "`tvm::json`" in finding["message"]
    assert "_ZN3tvm4jsonEv" in site.imports("alpha")


def test_a_private_module_is_imported_with_what_surely_imports_it(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `_yaml`, or `_cffi_backend`: a top-level module, or one of a namespace package."""
    gone = lib(tmp_path, "one", name="libgone.so.1")
    module = extension(tmp_path / "_core.so", "_core", needed=[gone], calls=["one"])
    for folder in ("", "names/"):
        key = folder.replace("/", "__")
        some: dict[str, Path | str] = {f"{key}_core{SUFFIX}": module, f"{key}alpha.py": ""}
        site.install(tmp_path, "alpha", **some)
        place = site.site / folder
        for source, severity in (("import json\n", "note"), ("from _core import *\n", "error")):
            text = source.replace("_core", f"{folder.replace('/', '.')}_core")
            (place / "alpha.py").write_text(text)
            (finding,) = site.says(capsys, int(severity == "error"))
            assert finding["severity"] == severity
            is_broken = bool(site.imports(f"{folder.replace('/', '.')}alpha"))
            assert is_broken is (severity == "error")
        (place / f"_core{SUFFIX}").unlink()
        (place / "alpha.py").unlink()
        shutil.rmtree(next(site.site.glob("alpha*.dist-info")))


@pytest.mark.parametrize("stored", [True, False])
def test_a_linked_source_that_asks_where_it_is_opens_what_is_beside_it_there(
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    stored: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """As `uv --link-mode symlink` installs: `$ORIGIN` is the folder of the store."""
    beside = lib(tmp_path, "one", name="libone.so")
    user = shared_object(
        tmp_path / "libuser.so", "int one(void); int go(void) { return one(); }",
        needed=[beside], runpath="$ORIGIN/../other",
    )  # fmt: skip
    source = (
        "import ctypes, pathlib\n"
        "ctypes.CDLL(str(pathlib.Path(__file__).resolve().parent / 'libuser.so'))\n"
    )
    files: dict[str, Path | str] = {"alpha____init__.py": source, "alpha__libuser.so": user}
    site.install(tmp_path, "alpha", **files)
    store = tmp_path / "store/alpha"
    store.mkdir(parents=True)
    for name in ("__init__.py", "libuser.so"):
        shutil.move(site.site / "alpha" / name, store / name)
        (site.site / "alpha" / name).symlink_to(store / name)
    there = (store if stored else site.site / "alpha").parent / "other"
    there.mkdir()
    shutil.copy(beside, there)
    found = site.says(capsys, 0 if stored else 1)
    assert ["libone.so" in one["message"] for one in found] == [True] * (not stored)
    assert ("libone.so" in site.imports("alpha")) is not stored


def test_a_version_that_the_first_library_lacks(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, versions in (
        ("alpha", {"FOO_1": ["one"]}),
        ("beta", {"FOO_1": ["one"], "FOO_2": ["two"]}),
    ):
        library = stub_library_with_versions(
            tmp_path / name / "lib/libfoo.so.1", "libfoo.so.1", versions
        )
        calls = [function for some in versions.values() for function in some]
        site.install(tmp_path, name, **package(tmp_path, name, library, *calls))
    (finding,) = site.says(capsys, 0)
    assert "needs `FOO_2` of `libfoo.so.1`" in finding["message"]
    assert "version `FOO_2' not found" in site.imports("alpha", "beta")
    assert run(["explain", "--site", str(site.root), "--after", "alpha", "beta._core"]) == 1
    assert f": load `beta/_core{SUFFIX}` before `alpha" in capsys.readouterr().out
    assert site.imports("beta", "alpha") == ""


@pytest.mark.parametrize("fitting", [(), ("gamma",)])
def test_only_a_copy_with_the_versions_that_are_needed_is_taken_of_another_import(
    fitting: tuple[str, ...],
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("alpha", "beta", *fitting):
        versions = {"FOO_1": ["one"], **({} if name == "beta" else {"FOO_2": ["two"]})}
        library = stub_library_with_versions(
            tmp_path / name / "lib/libfoo.so.1", "libfoo.so.1", versions
        )
        files = package(tmp_path, name, library, *(f for some in versions.values() for f in some))
        if name == "alpha":
            del files["alpha__libfoo.so.1"]
        site.install(tmp_path, name, **files)
    found = site.says(capsys, 0 if fitting else 1, "--prove")
    (finding,) = (each for each in found if each["code"] == "WF952")
    assert "`libfoo.so.1`, which `alpha/_core" in finding["message"]
    assert finding["proof"]["outcome"] == "seen"
    where = "it is installed as `gamma/libfoo.so.1`" if fitting else "has one that fits"
    assert where in finding["hint"]
    assert "beta/libfoo" not in finding["hint"]
    assert all("after `import beta._core`" in each["message"] for each in found if each != finding)
    assert "libfoo.so.1: cannot open shared object" in site.imports("alpha")
    assert "version `FOO_2' not found" in site.imports("beta", "alpha")
    assert [site.imports(name, "alpha") for name in fitting] == [""] * len(fitting)


PLAIN = "int one(void) { return 1; } int two(void) { return 1; }"
"""A library without symbol versions, also of the C library."""


def without_own_copy(
    site: Environment, folder: Path, imports: str, copies: dict[str, dict[str, list[str]] | None]
) -> None:
    """Install alpha, which needs `FOO_2` and has no copy, and others with copies: None has none."""
    versions = {"FOO_1": ["one"], "FOO_2": ["two"]}
    for name, given in {"alpha": versions, **copies}.items():
        path = folder / name / "lib/libfoo.so.1"
        library = (
            shared_object(path, PLAIN, soname="libfoo.so.1", libc=False)
            if given is None
            else stub_library_with_versions(path, "libfoo.so.1", given)
        )
        calls = ["one", "two"] if name == "alpha" else ["one"]
        text = f"{imports}from . import _core" if name == "alpha" else "from . import _core"
        files = package(folder, name, library, *calls, imports=text)
        if name == "alpha":
            del files["alpha__libfoo.so.1"]
        site.install(folder, name, **files)


def test_a_copy_that_is_surely_imported_before_and_lacks_a_version_is_named(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    without_own_copy(site, tmp_path, "import beta\n", {"beta": {"FOO_1": ["one"]}})
    finding = next(each for each in site.says(capsys, 1, "--prove") if each["code"] == "WF952")
    assert "needs `FOO_2` of `libfoo.so.1`, and `beta/libfoo.so.1` does" in finding["message"]
    assert finding["proof"]["outcome"] == "seen"
    assert "version `FOO_2' not found" in site.imports("alpha")


def test_a_copy_that_lost_its_versions_is_a_failure_in_the_orders_where_it_comes_first(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    versions = {"FOO_1": ["one"], "FOO_2": ["two"]}
    without_own_copy(site, tmp_path, "", {"beta": None, "gamma": versions})
    has_ended = bool(site.imports("beta", "alpha"))  # as of glibc before 2.41
    found = site.says(capsys, int(has_ended), "--order", "beta,alpha")
    said = [(each["code"], each["severity"]) for each in found]
    assert said == ([("WF953", "error")] if has_ended else [])
    assert all("with a version, and `beta/libfoo.so.1` has none" in f["message"] for f in found)
    site.says(capsys, int(has_ended), "--every-order")
    lent = next(each for each in site.says(capsys, 0) if each["code"] == "WF952")
    first = "gamma" if has_ended else "beta"
    assert f"it is installed as `{first}/libfoo.so.1`" in lent["hint"]
    assert site.imports("gamma", "alpha") == ""


def test_a_copy_that_lost_its_versions_is_none_for_a_module_that_needs_one(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    without_own_copy(site, tmp_path, "", {"beta": None})
    has_ended = bool(site.imports("beta", "alpha"))  # as of glibc before 2.41
    found = site.says(capsys, int(has_ended), "--prove")
    (finding,) = (each for each in found if each["code"] == "WF952")
    assert "`libfoo.so.1`, which `alpha/_core" in finding["message"]
    assert ("has one that fits" in finding["hint"]) is has_ended
    assert finding["proof"]["outcome"] == "seen"
    assert "libfoo.so.1: cannot open shared object" in site.imports("alpha")


@pytest.mark.parametrize(
    ("imports", "works"),
    [
        ("import beta\n", False),
        ("import beta, gamma\n", False),
        ("import gamma, beta\n", True),
    ],
)
def test_the_first_import_of_a_package_decides_which_copy_its_module_gets(
    imports: str,
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    works: bool,
) -> None:
    for name, functions in {"alpha": ["one", "two"], "beta": ["one"], "gamma": ["two"]}.items():
        library = lib(tmp_path / name, *{"one", *functions})
        text = f"{imports}from . import _core" if name == "alpha" else "from . import _core"
        files = package(tmp_path, name, library, *functions, imports=text)
        if name == "alpha":
            del files["alpha__libfoo.so.1"]
        site.install(tmp_path, name, **files)
    found = [each for each in site.says(capsys, 0) if f"alpha/_core{SUFFIX}" == each["file"]]
    assert {(each["code"], each["severity"]) for each in found} == {
        ("WF953" if works else "WF952", "warning")
    }
    assert all("RTLD_GLOBAL" not in each["message"] for each in found)
    assert ("undefined symbol: two" in site.imports("alpha")) is not works
    assert "undefined symbol: two" in site.imports("beta", "alpha")
    assert site.imports("gamma", "alpha") == ""


def test_of_copies_without_versions_the_one_with_the_symbols_is_taken_of_another_import(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, functions in {"alpha": ["one", "two"], "beta": ["one"], "gamma": ["two"]}.items():
        library = lib(tmp_path / name, *{"one", *functions})
        files = package(tmp_path, name, library, *functions)
        if name == "alpha":
            del files["alpha__libfoo.so.1"]
        site.install(tmp_path, name, **files)
    messages = [each["message"] for each in site.says(capsys, 0) if each["code"] == "WF953"]
    assert all("after `import beta._core`" in message for message in messages)
    assert len(messages) == 2
    assert "undefined symbol: two" in site.imports("beta", "alpha")
    assert site.imports("gamma", "alpha") == ""


def test_copies_that_serve_each_other_and_other_names_are_silent(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("alpha", "beta"):
        library = lib(tmp_path / name / "lib", "one", f"of_{name}")
        site.install(tmp_path, name, **package(tmp_path, name, library, "one"))
    own = lib(tmp_path / "own", "foo_new", name="libfoo-1a2b3c4d.so.1")
    site.install(tmp_path, "gamma", **package(tmp_path, "gamma", own, "foo_new"))
    assert site.says(capsys, 0) == []
    assert site.imports("alpha", "beta", "gamma") == site.imports("gamma", "beta", "alpha") == ""
    assert run(["doctor", str(site.root)]) == 0
    assert ": no findings; 3 distributions, 6 objects" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("imports", "severity", "code"),
    [
        ("from . import _core", "error", 1),
        ("try:\n    from . import _core\nexcept ImportError:\n    pass", "note", 0),
    ],
)
def test_a_library_that_is_nowhere(  # noqa: PLR0913, PLR0917 - fixtures and cases
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    imports: str,
    severity: str,
    code: int,
) -> None:
    files = package(tmp_path, "alpha", lib(tmp_path, "one"), "one", imports=imports)
    del files["alpha__libfoo.so.1"]
    site.install(tmp_path, "alpha", **files)
    (finding,) = site.says(capsys, code)
    assert (finding["code"], finding["severity"]) == ("WF952", severity)
    assert "`libfoo.so.1`" in finding["message"]
    assert finding["hint"].startswith("`libfoo.so.1`: neither the wheel of alpha 1.0 nor")
    assert "libfoo.so.1: cannot open shared object" in site.imports("alpha._core")


def test_versions_of_a_library_without_a_name_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No linker writes such a record."""
    strings = forge.Strings()
    names = [strings.add(name) for name in ("", "GLIBC_9.9", "libc.so.6", "PyInit__core")]
    needs = struct.pack("<2H3L", 1, 1, names[0], 16, 0) + struct.pack(
        "<L2H2L", 0, 0, 2, names[1], 0
    )
    tables = {"needs": needs, "symbols": forge.symbols(names[3:], section=1), "hash": sysv_hash(2)}
    tags: list[tuple[int, int | str]] = [(forge.NEEDED, names[2]), (forge.VERNEED, "needs")]
    tags += [(forge.SYMTAB, "symbols"), (forge.HASH, "hash")]
    package = tmp_path / "lib/python3.11/site-packages/alpha"
    package.mkdir(parents=True)
    (package / "_core.abi3.so").write_bytes(forge.with_strings(tags, tables, strings))
    assert run(["doctor", str(tmp_path)]) == 1
    assert "`alpha/_core.abi3.so` needs `GLIBC_9.9`, not defined" in capsys.readouterr().out


def test_a_module_that_was_built_for_another_version(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It needs a library that the other distribution's import has loaded before (flash-attn)."""
    site.install(tmp_path, "tensor", **package(tmp_path, "tensor", lib(tmp_path, "one"), "one"))
    files = package(
        tmp_path, "attn", lib(tmp_path, "one"), "one", imports="import tensor\nfrom . import _core"
    )
    del files["attn__libfoo.so.1"]
    site.install(tmp_path, "attn", **files)
    assert site.says(capsys, 0) == []
    assert site.imports("attn") == ""
    files = package(
        tmp_path,
        "flash",
        lib(tmp_path, "one"),
        "gone",
        imports="import tensor\nfrom . import _core",
    )
    del files["flash__libfoo.so.1"]
    site.install(tmp_path, "flash", **files)
    (finding,) = site.says(capsys, 1)
    assert f"`flash/_core{SUFFIX}` refers to `gone`" in finding["message"]
    other = f"install another release of tensor {IF_ANY}"
    assert finding["hint"] == f"`gone`: {other}: tensor 1.0 lacks it"
    assert site.imports("flash").endswith("undefined symbol: gone")


@pytest.mark.each_run("*-True")
@pytest.mark.parametrize(
    ("source", "loads"),
    [
        ("", False),
        ("import ctypes, os\nctypes.CDLL(os.path.dirname(__file__) + '/libfoo.so.1')", True),
    ],
)
def test_a_package_that_is_imported_opens_its_libraries_only_if_its_code_opens_any(
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    source: str,
    *,
    loads: bool,
) -> None:
    library = lib(tmp_path, "one")
    core: dict[str, Path | bytes] = {
        "core____init__.py": source.encode(),
        "core__libfoo.so.1": library,
    }
    site.install(tmp_path, "core", **core)
    imports = "import core\nfrom . import _core"
    files = package(tmp_path, "alpha", library, "one", imports=imports)
    del files["alpha__libfoo.so.1"]
    site.install(tmp_path, "alpha", **files)
    found = site.says(capsys, 0 if loads else 1)
    assert [finding["code"] for finding in found] == ([] if loads else ["WF952"])
    assert ("cannot open shared object" in site.imports("alpha")) == (not loads)
    explain = ["explain", "--site", str(site.root), "alpha._core"]
    assert (run(explain), run([*explain, "--after", "core"])) == (int(not loads), 0)


def test_a_symbol_without_a_relocation_does_not_fail(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The loader does not look it up (`_ZSt21ios_base_library_initv`, which GCC 13 refers to)."""
    header = tmp_path / "alone.h"
    header.write_text('__asm__(".globl nowhere");')
    core = tmp_path / f"_core{SUFFIX}"
    extension(core, "_core", flags=["-include", str(header)])
    files: dict[str, Path | bytes] = {f"alpha___core{SUFFIX}": core, "alpha____init__.py": IMPORTS}
    site.install(tmp_path, "alpha", **files)
    assert site.says(capsys, 0) == []
    assert site.imports("alpha") == ""


@pytest.mark.parametrize(("is_package", "severity"), [(True, "warning"), (False, "note")])
def test_a_module_that_its_folder_does_not_import(
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    is_package: bool,
    severity: str,
) -> None:
    tried = "try:\n    from . import _core\nexcept ImportError:\n    pass\n"
    files = package(tmp_path, "alpha", lib(tmp_path, "one"), "gone", imports=tried)
    if not is_package:  # as panda3d's deploy_libs, which are of the Python of frozen programs
        del files["alpha____init__.py"]
        files[f"alpha___ssl{SUFFIX}"] = files.pop(f"alpha___core{SUFFIX}")
    site.install(tmp_path, "alpha", **files)
    site.install(tmp_path, "beta", **package(tmp_path, "beta", lib(tmp_path / "b", "one"), "one"))
    (finding,) = site.says(capsys, 0, "--every-order")
    assert (finding["code"], finding["severity"]) == ("WF952", severity)
    assert len(site.asked) == 2 * is_package


def test_code_that_is_not_read_may_open_what_a_module_needs(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bytecode without its source, and a text: that is not known. The import of `none` fails."""
    text = base64.b64encode(BESIDE.replace("foo", "text").encode()).decode()
    (tmp_path / "pre.py").write_text(BESIDE.replace("foo", "byte"))
    py_compile.compile(str(tmp_path / "pre.py"), cfile=str(tmp_path / "pre.pyc"))
    for name, before in (
        ("text", f"import base64\nexec(base64.b64decode('{text}'))\n"),
        ("byte", "from . import _pre\n"),
        ("none", ""),
    ):
        library = lib(tmp_path, name, name=f"lib{name}.so.1")
        core = extension(tmp_path / f"{name}.so", "_core", needed=[library], calls=[name])
        files: dict[str, Any] = {f"{name}___core{SUFFIX}": core, f"{name}__{library.name}": library}
        files[f"{name}____init__.py"] = f"{before}from . import _core\n"
        files |= {f"{name}___pre.pyc": tmp_path / "pre.pyc"} if name == "byte" else {}
        site.install(tmp_path, name, **files)
        assert ("cannot open shared" in site.imports(name)) is (name == "none")
    none, *others = site.says(capsys, 1)
    assert none["message"].startswith("importing `none._core` fails: `libnone.so.1`, which ")
    unless = "._core` fails unless code of its package, or another import, has loaded a library"
    assert [unless in other["message"] for other in others] == [True, True]
    assert {other["severity"] for other in others} == {"note"}


@pytest.mark.each_run("*-True", "import lender*")
@pytest.mark.parametrize(
    ("source", "order", "fails"),
    [
        ("", "user", True),
        ("", "user,lender", True),
        ("", "lender,user", False),
        ("import lender\n", "user", False),
        ("def late(): import lender\nlate()\n", "user", False),
        ("try: import other\nexcept ImportError: pass\n", "user", False),
    ],
)
def test_a_library_that_nothing_loads_before_in_the_order_that_is_asked_for(  # noqa: PLR0913
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    source: str,
    order: str,
    *,
    fails: bool,
) -> None:
    """In any order, another import may load it, where a source imports both: else, a warning."""
    library = lib(tmp_path, "one")
    site.install(tmp_path, "lender", **package(tmp_path, "lender", library, "one"))
    other: dict[str, Path | bytes] = {"other____init__.py": b"def f(): import lender\nf()\n"}
    site.install(tmp_path, "other", **other)
    files = package(tmp_path, "user", library, "one", imports=f"{source}from . import _core")
    del files["user__libfoo.so.1"]
    site.install(tmp_path, "user", **files)
    alone = site.says(capsys, 0)
    unless = "importing `user._core` fails unless another import has loaded a library before: "
    assert [f["message"].startswith(unless) for f in alone] == [True] * (not source)
    explain = ["explain", "--site", str(site.root), "user._core"]
    assert run(explain) == int(not source)
    assert run([*explain, "--after", "lender._core"]) == 0
    (site.site / "app.py").write_text("def run(): import lender, user\n")
    assert run(explain) == 0
    capsys.readouterr()
    assert [f["severity"] for f in site.says(capsys, 0)] == ["note"] * (not source)
    found = site.says(capsys, int(fails), "--order", order, "--prove")
    assert not any("other module" in finding["message"] for finding in found)
    assert [finding["code"] for finding in found] == ["WF952"] * fails
    assert ("cannot open shared object" in site.imports(*order.split(","))) is fails


@pytest.mark.parametrize(("there", "is_error"), [(["one"], True), (["one", "foo_new"], False)])
def test_a_library_of_which_another_copy_does_not_serve_is_missing_in_each_order(
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    there: list[str],
    *,
    is_error: bool,
) -> None:
    """Another import loads a library of that name, and the module still fails."""
    other = lib(tmp_path / "other", *there)
    site.install(tmp_path, "alpha", **package(tmp_path, "alpha", other, "one"))
    own = lib(tmp_path / "own", "one", "foo_new")
    site.install(tmp_path, "beta", **package(tmp_path, "beta", own, "one", "foo_new"))
    (site.site / "beta/libfoo.so.1").unlink()
    assert "libfoo.so.1: cannot open" in site.imports("beta")
    after = site.imports("alpha", "beta")
    assert ("undefined symbol: foo_new" in after, after == "") == (is_error, not is_error)
    (found,) = site.says(capsys, int(is_error), "--prove")
    assert ("fails unless another import" in found["message"]) is not is_error
    assert found["severity"] == ("error" if is_error else "warning")
    assert found["proof"]["outcome"] == "seen"


def test_what_loads_in_no_order_is_told_once_of_one_order(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = lib(tmp_path, "one")
    core = extension(tmp_path / "m.so", "_core", needed=[library], calls=["one"])
    files: dict[str, Any] = {f"user___core{SUFFIX}": core, "user__libfoo.so.1": library}
    site.install(tmp_path, "user", **files, **{"user____init__.py": IMPORTS})
    assert site.says(capsys, 1, "--order", "user") == site.says(capsys, 1)


BESIDE = "import ctypes, os\nctypes.CDLL(os.path.join(os.path.dirname(__file__), 'libfoo.so.1'))\n"


@pytest.mark.parametrize(
    ("beta", "requires", "told"),
    [("", "beta", True), ("", "gamma", False), (BESIDE, "beta", False)],
)
def test_a_library_of_the_machine_in_place_of_that_of_a_requirement_is_a_warning(
    site: Environment,
    capsys: pytest.CaptureFixture[str],
    beta: str,
    requires: str,
    *,
    told: bool,
) -> None:
    tmp_path = site.root.parent
    library = lib(tmp_path / "machine", "one")
    of_beta: dict[str, Path | str] = {"beta____init__.py": beta, "beta__libfoo.so.1": library}
    site.install(tmp_path, "beta", **of_beta)
    here = str(library.parent)
    core = extension(tmp_path / "_core.so", "_core", needed=[library], calls=["one"], runpath=here)
    source = "import beta\nfrom . import _core\n" if beta else "from . import _core\n"
    files: dict[str, Any] = {f"alpha___core{SUFFIX}": core, "alpha____init__.py": source}
    site.install(tmp_path, "alpha", **files)
    metadata = site.site / "alpha-1.0.dist-info/METADATA"
    metadata.write_text(f"{metadata.read_text()}Requires-Dist: {requires}\n")
    found = [f for f in site.says(capsys, 0) if f["code"] == "WF952"]
    assert [finding["severity"] for finding in found] == ["warning"] * told
    assert site.imports("alpha") == ""
    for finding in found:
        assert "importing `alpha._core` depends on this machine: " in finding["message"]
        assert finding["message"].endswith(f"is only found as `{library}`")
        assert "it is installed as `beta/libfoo.so.1`" in finding["hint"]
        library.unlink()
        assert "libfoo.so.1: cannot open shared object file" in site.imports("alpha")


@pytest.mark.parametrize(
    ("name", "requires", "told"),
    [
        ("libcufft.so.12", "nvidia-cufft-cu12", True),
        ("libcufft.so.12", "nvidia-cufft-cu11", True),
        ("libcufft.so.12", "nvidia-cufft>=12; sys_platform == 'win32'", True),
        ("libcufft.so.12", "numpy", True),
        ("libcufft.so.12", "nvidia-cufft", True),
        ("libmine.so.12", "nvidia-cufft", False),
    ],
)
def test_a_library_of_the_machine_in_place_of_that_of_a_well_known_wheel_is_a_warning(
    site: Environment, capsys: pytest.CaptureFixture[str], name: str, requires: str, *, told: bool
) -> None:
    tmp_path = site.root.parent
    library = lib(tmp_path / "machine", "one", name=name)
    here = str(library.parent)
    core = extension(tmp_path / "_core.so", "_core", needed=[library], calls=["one"], runpath=here)
    files: dict[str, Any] = {f"alpha___core{SUFFIX}": core, "alpha____init__.py": IMPORTS}
    site.install(tmp_path, "alpha", **files)
    metadata = site.site / "alpha-1.0.dist-info/METADATA"
    metadata.write_text(f"{metadata.read_text()}Requires-Dist: {requires}\n")
    found = [f for f in site.says(capsys, 0) if f["code"] == "WF952"]
    assert [finding["severity"] for finding in found] == ["warning"] * told
    for finding in found:
        assert finding["message"].endswith(f"is only found as `{library}`")


def test_modules_that_fail_for_one_reason_are_one_finding(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As PyQt6 with an older PyQt6-Qt6: the package itself imports none of them."""
    files = package(tmp_path, "alpha", lib(tmp_path, "one"), "gone", imports="")
    core = files[f"alpha___core{SUFFIX}"]
    site.install(tmp_path, "alpha", **files, **{f"alpha___more{SUFFIX}": core})
    (finding,) = site.says(capsys, 1)
    assert (finding["code"], finding["severity"]) == ("WF952", "error")
    assert finding["message"].startswith("importing `alpha._core` fails: ")
    assert finding["message"].endswith("refers to `gone`, not defined; so does 1 other module")
    assert site.imports("alpha") == ""
    assert site.imports("alpha._core").endswith("undefined symbol: gone")


def test_a_symbol_that_a_package_opens_for_all_is_not_judged(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opener = (
        "import ctypes, os\n"
        "path = os.path.join(os.path.dirname(__file__), 'libg.so')\n"
        "ctypes.CDLL(path, ctypes.RTLD_GLOBAL)\n"
    )
    library = lib(tmp_path, "shared", name="libg.so")
    files: dict[str, Any] = {"opener____init__.py": opener, "opener__libg.so": library}
    site.install(tmp_path, "opener", **files)
    files = package(
        tmp_path,
        "user",
        lib(tmp_path, "one"),
        "shared",
        imports="import opener\nfrom . import _core",
    )
    site.install(tmp_path, "user", **files)
    assert site.says(capsys, 0) == []
    assert site.imports("user") == ""


def test_a_symbol_that_only_a_library_which_nothing_opens_defines(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = "import ctypes\n# unlike libfoo.so.1\nctypes.CDLL('libc.so.6')\n"
    site.install(tmp_path, "other", **{"other____init__.py": other.encode()})
    files = package(tmp_path, "user", lib(tmp_path, "one"))
    files[f"user___core{SUFFIX}"] = extension(tmp_path / "_core.so", "_core", calls=["one"])
    site.install(tmp_path, "user", **files)
    (finding,) = site.says(capsys, 1)
    assert (finding["code"], finding["severity"]) == ("WF952", "error")
    said = "refers to `one`, which is only in `user/libfoo.so.1`, not loaded for it"
    assert finding["message"].endswith(said)
    assert site.imports("user").endswith("undefined symbol: one")


def with_unique_data(  # noqa: PLR0913, PLR0917 - each says one thing of the symbol
    folder: Path,
    name: str,
    size: int,
    symbol: str = "shared_data",
    flags: tuple[str, ...] = (),
    content: str = "",
) -> Path:
    """Link a library whose function `NAME_data` returns a byte of unique data."""
    content = content or f".zero {size}"
    source = f"""
    __asm__(".data\\n.globl {symbol}\\n.type {symbol}, @gnu_unique_object\\n"
            ".size {symbol}, {size}\\n{symbol}: {content}\\n.text\\n");
    extern char {symbol}[];
    int {name}_data(void) {{ return {symbol}[0]; }}
    """
    return shared_object(folder / f"lib{name}.so", source, soname=f"lib{name}.so", flags=flags)


@pytest.mark.parametrize(("size", "flags"), [(16, ()), (8, ()), (16, ("-Wl,-Bsymbolic",))])
def test_unique_data_of_another_size_is_shared_in_every_order(
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    size: int,
    flags: tuple[str, ...],
) -> None:
    """Also by those that look into themselves first, as libx265 of pillow_heif."""
    for name, number in (("alpha", 8), ("beta", size)):
        library = with_unique_data(tmp_path, name, number, flags=flags)
        site.install(tmp_path, name, **package(tmp_path, name, library, f"{name}_data"))
    own = with_unique_data(tmp_path, "gamma", 32, "own_data")
    site.install(tmp_path, "gamma", **package(tmp_path, "gamma", own, "gamma_data"))
    findings = site.says(capsys, int(size != 8))
    if size != 8:
        (finding,) = findings
        assert (finding["code"], finding["severity"]) == ("WF954", "error")
        assert finding["message"] == (
            "`alpha/libalpha.so` and `beta/libbeta.so` share `shared_data`: it has 8 and 16 bytes"
        )
    else:
        assert findings == []
    for order in (("alpha", "beta"), ("beta", "alpha")):
        assert ("shared_data", *order[::-1]) in site.bindings(*order)
        assert ("own_data", "gamma", "gamma") in site.bindings(*order, "gamma")


IMPORT_TRIED = """import importlib
try:
    importlib.import_module("user.core")
except ImportError:
    pass
"""


@pytest.mark.parametrize(
    ("init", "names", "fails"),
    [
        ("", {f"core{SUFFIX}": "core"}, "core"),
        ("", {f"core{SUFFIX}": "core", "api.py": "from . import core\n"}, "api"),
        ("def use():\n    from . import core\n", {f"core{SUFFIX}": "core"}, "core"),
        (
            "try:\n    from . import core\nexcept ImportError: 0\n",
            {f"core{SUFFIX}": "core"},
            "core",
        ),
        (IMPORT_TRIED, {f"core{SUFFIX}": "core"}, "core"),
        ("", {f"core{SUFFIX}": "good", "core.abi3.so": "core"}, ""),
        ("", {f"core{SUFFIX}": "core", "core/__init__.py": ""}, ""),
        ("", {"libcore.so": "core"}, "libcore"),
    ],
)
def test_a_module_that_nothing_is_seen_to_import_is_a_note_whatever_its_name(  # noqa: PLR0913, PLR0917
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    init: str,
    names: dict[str, str],
    fails: str,
) -> None:
    """Whether a user imports it is not known. That of `--order` is imported."""
    library = lib(tmp_path, "far_", name="libfar.so.1")
    objects = {
        "core": extension(tmp_path / "core.so", "core", needed=[library], calls=["far_"]),
        "good": extension(tmp_path / "good.so", "core"),
    }
    files = {f"user__{name}": objects.get(content, content) for name, content in names.items()}
    site.install(tmp_path, "user", **{"user____init__.py": init}, **files)
    assert not site.imports("user")
    (finding,) = site.says(capsys, 0)
    assert (finding["code"], finding["severity"]) == ("WF952", "note")
    assert ("libfar.so.1: cannot open" in site.imports(f"user.{fails or 'core'}")) is bool(fails)
    if fails == "core":
        (asked,) = site.says(capsys, 1, "--order", "user.core")
        assert (asked["code"], asked["severity"]) == ("WF952", "error")


@pytest.mark.parametrize(
    ("folder", "suffix", "severity"),
    [("user", SUFFIX, "warning"), ("names", SUFFIX, "warning"), ("names", ".so", "note")],
)
def test_a_symbol_of_what_another_package_opens_for_all_is_a_dependency(  # noqa: PLR0913, PLR0917
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    folder: str,
    suffix: str,
    severity: str,
) -> None:
    """Alone, the import fails. A folder without `__init__.py` may be for another Python."""
    library = lib(tmp_path, "far_")
    opens = f"import ctypes\nctypes.CDLL(__path__[0] + '/{library.name}', ctypes.RTLD_GLOBAL)\n"
    opening: dict[str, Path | str] = {"far____init__.py": opens, f"far__{library.name}": library}
    site.install(tmp_path, "far", **opening)
    flags = ["-Wl,--unresolved-symbols=ignore-all"]
    core = extension(tmp_path / "core.so", "core", calls=["far_"], flags=flags)
    files: dict[str, Path | str] = {f"{folder}__core{suffix}": core}
    if folder == "user":
        files["user____init__.py"] = ""
    site.install(tmp_path, "user", **files)
    (finding,) = site.says(capsys, 0)
    assert (finding["code"], finding["severity"]) == ("WF952", severity)
    assert "has loaded a library before for all (RTLD_GLOBAL)" in finding["message"]
    assert site.imports(f"{folder}.core").endswith("undefined symbol: far_")
    assert site.imports("far", f"{folder}.core") == ""


@pytest.mark.parametrize("needed", ["", "libbar.so.9"])
def test_an_object_that_another_distribution_has_overwritten_is_named(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str], needed: str
) -> None:
    """Its authors linked it well; put back, it breaks the other one. No other lack is of it."""
    for name, functions in (("alpha", ["one", "two"]), ("beta", ["one", "three"])):
        library = lib(tmp_path / name, *functions)
        others = [lib(tmp_path, "bar", name=needed)] if needed and name == "alpha" else []
        core = extension(
            tmp_path / f"{name}.so",
            "_core",
            needed=[library, *others],
            calls=[*functions, *["bar"] * len(others)],
            runpath="$ORIGIN/../shared",
        )
        files: dict[str, Path | bytes] = {f"{name}____init__.py": IMPORTS}
        files[f"{name}___core{SUFFIX}"] = core
        site.install(tmp_path, name, **files, **{"shared__libfoo.so.1": library})
    found = {finding["code"]: finding for finding in site.says(capsys, 1)}
    assert {*found} == {"WF951", "WF952"}
    assert site.imports("alpha").endswith(
        "cannot open shared object file: No such file or directory"
        if needed
        else "undefined symbol: two"
    )
    hint = "`shared/libfoo.so.1` was overwritten by that of beta 1.0: only one of both can be "
    hint += "installed"
    assert (hint in str(found)) is not bool(needed)
    assert run(["explain", "--site", str(site.root), "alpha._core"]) == 1
    assert (hint in capsys.readouterr().out) is not bool(needed)
    zipfile.ZipFile(next(tmp_path.glob("wheels/alpha-*.whl"))).extractall(site.site)
    assert site.imports("beta").endswith("undefined symbol: three")


def test_what_no_object_shows_is_said_too(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A source of two, a module for another Python, a requirement: each import fails."""
    for name in ("cola", "colb"):
        source = f"WHO = {name!r}\n"
        user = f"import shared\nassert shared.WHO == {name!r}\n"
        site.install(
            tmp_path, name, **{"shared____init__.py": source, f"{name}____init__.py": user}
        )
    other = f"two___c.cpython-3{sys.version_info.minor - 1}-x86_64-linux-gnu.so"
    built = extension(tmp_path / "c.so", "_c")
    files: dict[str, Path | str] = {"two____init__.py": "", other: built}
    site.install(tmp_path, "two", **files)
    old = 'Requires-Dist: cola>=2\nRequires-Dist: far; extra == "x"\nRequires-Dist: near\n'
    old += 'Requires-Dist: other; platform_release == "0"\n'
    old += 'Requires-Dist: pinned[fast] @ https://example.org/p.whl ; os_name == "posix"\n'
    old += "Requires-Dist: egg>=1\nRequires-Dist: Old.Egg>=1\nRequires-Dist: linked>=1\n"
    for egg in ("egg-1.0-py3.11.egg-info", "old_egg.egg-info", "linked.egg-link"):
        (site.site / egg).touch()
    metadata = site.site / "two-1.0.dist-info/METADATA"
    metadata.write_text(f"{metadata.read_text()}{old}")
    found = {finding["code"]: finding for finding in site.says(capsys, 0)}
    assert found["WF951"]["severity"] == "warning"
    assert found["WF951"]["file"].endswith("/shared/__init__.py")
    assert found["WF952"]["severity"] == "note"
    assert "`two._c` fails, and its package is not seen to need it" in found["WF952"]["message"]
    assert "it is for another Python" in found["WF952"]["message"]
    assert found["WF952"]["hint"].endswith(
        "; if it has its tag, the authors must build it for its tags"
    )
    assert run(["doctor", str(site.root)]) == 0
    line, *others = capsys.readouterr().out.splitlines()
    assert line.endswith("1 object, 0 extension modules")
    pinned = 'pinned[fast] @ https://example.org/p.whl ; os_name == "posix"'
    assert others[:4] == [
        "  two 1.0 requires `cola>=2`: cola 1.0 is installed",
        "  two 1.0 requires `near`: it is not installed",
        f"  two 1.0 requires `{pinned}`: it is not installed",
        "",
    ]
    assert run(["doctor", "-q", str(site.root)]) == 0
    assert capsys.readouterr().out == ""
    assert run(["doctor", str(site.root), "--order", "cola", "--prove"]) == 1
    assert "proof: not tried: AssertionError" in capsys.readouterr().out


def test_a_source_of_two_that_a_package_imports_is_a_warning(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether a package surely imports it decides: the other one's import fails."""
    for name, function in (("gam", "f"), ("delt", "g")):
        files = {"common____init__.py": "", "common__util.py": f"def {function}(): return 1\n"}
        later = f"def later():\n    from common.util import {function}\n"
        site.install(tmp_path, name, **files, **{f"{name}____init__.py": later})
    (finding,) = site.says(capsys, 0)
    assert (finding["code"], finding["severity"]) == ("WF951", "note")
    site.install(tmp_path, "eps", **{"eps____init__.py": "from common.util import f\n"})
    (finding,) = site.says(capsys, 0)
    assert finding["severity"] == "warning"
    assert finding["file"].endswith("/common/util.py")
    assert "cannot import name 'f' from 'common.util'" in site.imports("eps")


def test_one_file_of_two_distributions(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common: dict[str, Any] = {"shared__notes.txt": "same"}
    files = common
    for name, function in (("alpha", "one"), ("beta", "two")):
        core = extension(tmp_path / name / "_core.so", "_core", flags=[f"-D{function}"])
        core.write_bytes(core.read_bytes() + name.encode())
        files = {f"shared___core{SUFFIX}": core, **common}
        site.install(tmp_path, name, **files)
    (finding,) = site.says(capsys, 0)
    assert (finding["code"], finding["severity"]) == ("WF951", "warning")
    assert finding["message"] == (
        f"`alpha 1.0`, `beta 1.0` write 2 files, `shared/_core{SUFFIX}` with different "
        "content: the file is that of `beta 1.0`"
    )
    there, alpha = site.site / f"shared/_core{SUFFIX}", (tmp_path / "alpha/_core.so").read_bytes()
    for content, whose in ((alpha, "`alpha 1.0`"), (alpha + b"edited", "neither")):
        there.write_bytes(content)
        message = site.says(capsys, 0)[0]["message"]
        assert message.endswith(f"with different content: the file is that of {whose}")
    assert finding["file"] == f"shared/_core{SUFFIX}"
    command, _, rest = finding["hint"].removeprefix("`").partition("`")
    assert rest == ", and install the one that is wanted"
    python = site.root / "bin/python"
    done = pip("--python", python, *shlex.split(command)[1:], "--yes")
    assert done.returncode == 0, done.stderr
    assert not (site.site / "shared").exists()
    site.install(tmp_path, "beta", **files)
    assert site.says(capsys, 0) == []
    assert site.imports("shared._core") == ""


def test_the_same_content_twice_is_a_note(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    core = extension(tmp_path / "_core.so", "_core")
    for name in ("alpha", "beta"):
        site.install(tmp_path, name, **{f"shared___core{SUFFIX}": core})
    (finding,) = site.says(capsys, 0)
    assert finding["severity"] == "note"


def test_an_environment_for_another_machine_is_judged_on_a_described_one(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, function in (("alpha", "dladdr"), ("beta", "no_such_function")):
        path = tmp_path / name / "_core.so"
        core = extension(path, "_core", calls=[function], flags=["-nostdlib"])
        foreign = bytearray(core.read_bytes())
        foreign[18:20] = Machine.AARCH64.to_bytes(2, "little")
        files: dict[str, Any] = {f"{name}____init__.py": IMPORTS}
        site.install(tmp_path, name, **files, **{f"{name}___core{SUFFIX}": bytes(foreign)})
    folder = shutil.copytree(site.site, tmp_path / "site")
    assert run(["doctor", str(folder)]) == 2
    said = capsys.readouterr().err
    assert "is for aarch64: this machine has no C library for that" in said
    assert "--target debian:12" in said
    assert run(["doctor", str(folder), "--target", "glibc:2.36"]) == 1
    said = capsys.readouterr().out
    assert "refers to `no_such_function`, not defined" in said
    assert "dladdr" not in said
    assert run(["doctor", str(folder), "--target", "debian:12", "--prove"]) == 2


def test_the_active_environment_is_the_default(
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site.install(tmp_path, "alpha", **package(tmp_path, "alpha", lib(tmp_path, "one"), "one"))
    monkeypatch.setenv("VIRTUAL_ENV", str(site.root))
    assert run(["doctor"]) == 0
    assert capsys.readouterr().out.startswith(f"{site.root}: no findings; 1 distribution, ")
    monkeypatch.delenv("VIRTUAL_ENV")
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    monkeypatch.setenv("PATH", str(site.root / "bin"))
    assert run(["doctor"]) == 0
    shims = tmp_path / "pyenv" / "shims"
    shims.mkdir(parents=True)
    (shims / "python3").touch(0o755)
    for folder in (tmp_path, shims):
        monkeypatch.setenv("PATH", str(folder))
        capsys.readouterr()
        assert run(["doctor"]) == 2
        assert "hint: name one: `wheelfix doctor .venv`" in capsys.readouterr().err
    (tmp_path / ".venv").symlink_to(site.root)
    monkeypatch.chdir(tmp_path)
    assert run(["doctor", ".venv"]) == 0


def test_hostile_environments_are_read_within_limits(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site.install(tmp_path, "alpha", **package(tmp_path, "alpha", lib(tmp_path, "one"), "one"))
    os.mkfifo(site.site / "alpha/libpipe.so")
    os.mkfifo(site.site / "alpha/RECORD")
    (site.site / "fifo-1.0.dist-info").mkdir()
    os.mkfifo(site.site / "fifo-1.0.dist-info/RECORD")
    (site.site / "out-1.0.dist-info").mkdir()
    rows = {"../../../../../../../../etc/passwd": b"x", "alpha/libfoo.so.1": b"\x1b[31m"}
    (site.site / "out-1.0.dist-info/RECORD").write_text(record_text(rows, "RECORD"))
    (site.site / "out.so").symlink_to("/dev/zero")
    (site.site / "loop.so").symlink_to("loop.so")
    with (site.site / "sparse.so").open("wb") as file:
        file.truncate(1 << 36)
    (site.site / "alpha" / os.fsdecode(b"\xff.py")).write_text(
        "import os\nos.environ['LD_LIBRARY_PATH'] = '/usr/lib'\n"
    )
    (finding,) = site.says(capsys, 0)
    assert finding["code"] == "WF951"
    assert finding["file"] == "alpha/libfoo.so.1"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of wheels in which pip looks, with a cache of its own."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "index"


def wheel_with(
    folder: Path, name: str, files: dict[str, Any], requires: str = "", version: str = "1.0"
) -> Path:
    """Return a wheel; `__` in the name of a file is a slash."""
    named = {key.replace("__", "/", 1): content for key, content in files.items()}
    lines = f"Requires-Dist: {requires}\n" if requires else ""
    return make_wheel(folder, name=name, tag=TAG, files=named, metadata=lines, version=version)


def test_a_wheel_is_judged_with_what_it_requires_and_what_is_named(
    index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = lib(tmp_path / "old", "one"), lib(tmp_path / "new", "one", "foo_new")
    alpha = package(tmp_path, "alpha", old, "one")
    wheel_with(index, "alpha", alpha, requires="beta")  # an older one of what is judged
    newer = wheel_with(tmp_path / "dist", "alpha", alpha, requires="beta", version="2.0")
    wheel_with(index, "beta", package(tmp_path, "beta", new, "one", "foo_new"), requires="alpha")
    assert run(["doctor", str(newer), "--output-format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert errors("doctor", report) == []
    assert report["distributions"] == 2
    (finding,) = report["findings"]
    assert finding["code"] == "WF953"
    assert "of alpha 2.0 loads `alpha/libfoo.so.1` first" in finding["notes"][0]

    newest = lib(tmp_path / "newest", "one", "foo_new", "foo_3")
    gamma = package(tmp_path, "gamma", newest, "one", "foo_3")
    beside = wheel_with(tmp_path / "dist", "gamma", gamma)
    for other in (beside, tmp_path / "dist"):
        assert run(["doctor", "-v", str(newer), "--with", str(other)]) == 0
        out = capsys.readouterr().out
        assert out.startswith(f"{newer} with {other}: ")
        assert "3 distributions, 6 objects" in out
        assert f"`gamma/_core{SUFFIX}` refers to `foo_3`" in out
    beside.rename(index / beside.name)
    assert run(["doctor", str(newer), "--with", "gamma", "--fail-on", "warning"]) == 1
    assert f"{newer} with gamma: " in capsys.readouterr().out

    asked = ["--with", "gamma", "--every-order", "--prove", "--output-format", "json"]
    assert run(["doctor", str(newer), *asked]) == 1
    report = json.loads(capsys.readouterr().out)
    orders = {tuple(order["imports"]): order for order in report["orders"]}
    assert {pair for pair in orders if "alpha" in pair} >= {("alpha", "gamma"), ("gamma", "alpha")}
    assert orders["alpha", "gamma"]["fails"] == ["gamma._core"]
    assert orders["gamma", "alpha"]["fails"] == []
    assert {order["proof"]["outcome"] for order in orders.values()} == {"seen"}


def test_a_wheel_that_is_named_in_a_version_that_another_excludes_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beta = wheel_with(tmp_path, "beta", {"beta__a.py": ""})
    for requires in ("beta>=2", "beta"):
        files = package(tmp_path, "alpha", lib(tmp_path, "one"), "one")
        alpha = wheel_with(tmp_path / "dist", "alpha", files, requires=requires)
        assert run(["doctor", str(alpha), "--with", str(beta)]) == 0
        told = "alpha 1.0 requires `beta>=2`: beta 1.0 is installed\n" in capsys.readouterr().out
        assert told is (requires != "beta")


def test_what_cannot_be_put_beside_a_wheel(
    site: Environment, index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = wheel_with(tmp_path, "demo", {"demo____init__.py": ""})
    index.mkdir()
    assert run(["doctor", str(wheel)]) == 0
    assert "no findings; 1 distribution, 0 objects" in capsys.readouterr().out
    for command in ("check", "explain"):
        assert run([command, str(wheel), "--with", "absent"]) == 2
        assert "error: `absent` is not known: " in capsys.readouterr().err
    for words, message in (
        ([str(wheel), "--with", "absent", "--every-order"], "`absent` is not known: "),
        ([str(wheel), "--with", "a b"], "`--with a b` is neither a wheel, nor a directory, nor"),
        ([str(wheel), "--with", str(index)], f"no wheel was found in `{index}`"),
        ([str(wheel), "--with", "core==1.0,1.1"], "hint: choose one: `--with core==1.0`"),
        ([str(wheel), "--with", "absent.whl"], "`absent.whl` cannot be read: No such file"),
        ([str(site.root), "--with", str(wheel)], "--with is for wheels"),
        ([str(tmp_path / "absent.whl")], "absent.whl` cannot be read: No such file"),
    ):
        assert run(["doctor", *words]) == 2
        out, err = capsys.readouterr()
        assert message in err
        assert out == ""


def test_an_environment_without_objects_has_no_findings(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site.install(tmp_path, "alpha", alpha____init__="")
    assert run(["doctor", str(site.root)]) == 0
    assert "no findings; 1 distribution, 0 objects, 0 extension" in capsys.readouterr().out
    assert run(["explain", "--site", str(site.root)]) == 0
    assert run(["explain", "--site", str(site.root)]) == 0


@pytest.mark.each_run("-True", "*site-packages-False")
@pytest.mark.parametrize("has_pip", [False, True])
@pytest.mark.parametrize("folder", ["", "lib/python3.{}/site-packages"])
def test_a_new_environment_is_healthy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], folder: str, *, has_pip: bool
) -> None:
    venv.create(tmp_path / "env", symlinks=True, with_pip=has_pip)
    place = tmp_path / "env" / folder.format(sys.version_info.minor)
    assert run(["doctor", str(place)]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    told = "no findings; nothing was looked at: no distribution is installed there"
    assert (line == f"{place}: {told}") is not has_pip
    assert (" distribution" in line, "0 objects" in line) == (True, has_pip)


def test_packages_in_each_other_more_deeply_than_python_calls(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site.install(tmp_path, "alpha", **package(tmp_path, "alpha", lib(tmp_path, "one"), "one"))
    with contextlib.chdir(site.site / "alpha"):
        for _ in range(1_200):
            os.mkdir("a")  # noqa: PTH102 - the whole path is too long
            os.chdir("a")
    for words in (["doctor", str(site.root)], ["explain", "--site", str(site.root)]):
        assert run(words) == 0
    assert "Recursion" not in capsys.readouterr().err
    subprocess.run(["rm", "-rf", site.root], check=True)  # shutil.rmtree calls itself


def test_what_is_not_an_environment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", str(tmp_path / "absent")]) == 2
    assert run(["doctor", str(tmp_path)]) == 2
    assert "there is no ELF object below" in capsys.readouterr().err


def test_of_a_python_its_environment_is_named(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The path is told as it was typed, and what the hint names can be asked about."""
    site.install(tmp_path, "alpha", **package(tmp_path, "alpha", lib(tmp_path, "one"), "one"))
    program = site.root / "bin/python"
    for words in (["doctor"], ["explain", "--site"]):
        assert run([*words, str(program)]) == 2
        said = capsys.readouterr().err
        assert f"`{program}` is not a directory" in said
        assert f"hint: name its environment: `{site.root}`" in said
        assert run([*words, str(site.root)]) == 0
    assert run(["doctor", str(site.root / "pyvenv.cfg")]) == 2
    assert "hint: name a virtual environment" in capsys.readouterr().err


@pytest.mark.parametrize("folder", ["all", "all/one"])
def test_a_folder_of_environments_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], folder: str
) -> None:
    """A project has modules of its own."""
    site = Environment(tmp_path / "all" / "one")
    site.install(tmp_path, "alpha", **package(tmp_path, "alpha", lib(tmp_path, "one"), "one"))
    for source in ("setup.py", "tests/__init__.py"):
        (tmp_path / folder / source).parent.mkdir(exist_ok=True)
        (tmp_path / folder / source).touch()
    wheel = make_wheel(tmp_path, "any", tag=TAG)
    for words in (["doctor"], ["explain", "--site"], ["check", str(wheel), "--site"]):
        assert run([*words, str(tmp_path / folder)]) == 2
        assert f"name one of its environments: `{site.root}`" in capsys.readouterr().err


def test_a_folder_with_settings_and_no_python_is_not_an_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `pip --target` fills may have one, and no dist-info folders."""
    files = package(tmp_path, "alpha", lib(tmp_path, "one"), "one")
    site = Environment(tmp_path / "env")
    site.install(tmp_path, "alpha", **files)
    (site.site / "tool").mkdir()
    (site.site / "tool" / "pyvenv.cfg").write_text("home = /x\n")
    shutil.rmtree(next(site.site.glob("alpha-*.dist-info")))
    assert run(["doctor", str(site.site)]) == 0
    line = ": no findings; no distribution is installed there, 2 objects"
    assert line in capsys.readouterr().out


C_FUNCTION, CXX_FUNCTION, DATA = "shared_code", "_ZN3foo6sharedEv", "shared_data"


def defining(folder: Path, name: str, kind: str, size: int, version: str = "") -> Path:
    """Link a library whose function `NAME_uses` uses a symbol of its own, which others may have."""
    if kind == DATA:
        source = f"char {kind}[{size}]; int {name}_uses(void) {{ return {kind}[0]; }}"
    else:
        body = " ".join(f"x += {number} * x;" for number in range(size))
        source = f"""
        volatile int x; int {kind}(void) {{ {body} return x; }}
        int {name}_uses(void) {{ return {kind}(); }}
        """.replace("volatile int x;", "static volatile int x;")
    flags = ["-O1"]
    if version:
        script = folder / f"{name}.map"
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(f"{version} {{ global: *; }};")
        flags.append(f"-Wl,--version-script={script}")
    library = folder / f"lib{name}.so"
    return shared_object(library, source, soname=library.name, flags=flags)


WITH_FLAGS = """
import os, sys
from alpha import flags
flags.set_flags()
from . import _core
flags.reset_flags()
"""
FLAGS = """
import ctypes, sys
_is_known = hasattr(sys, "getdlopenflags")
if _is_known:
    _before = sys.getdlopenflags()

def set_flags():
    if _is_known:
        sys.setdlopenflags(_before | ctypes.RTLD_GLOBAL)

def reset_flags():
    if _is_known:
        sys.setdlopenflags(_before)
"""
WITH_CTYPES = """
import ctypes, pathlib
ctypes.CDLL(str(pathlib.Path(__file__).parent / "libalpha.so"), mode=ctypes.RTLD_GLOBAL)
from . import _core
"""


@pytest.mark.parametrize(
    ("imports", "kind", "size", "version", "severity"),
    [
        (WITH_FLAGS, DATA, 16, "", "error"),
        (WITH_CTYPES, DATA, 16, "", "error"),
        (WITH_CTYPES, CXX_FUNCTION, 4, "", "warning"),
        (WITH_FLAGS, C_FUNCTION, 4, "", "note"),
        (WITH_CTYPES, DATA, 16, "V_1", None),  # the library promises that it stays compatible
        (WITH_CTYPES, DATA, 8, "", None),
        ("from . import _core", DATA, 16, "", None),
    ],
)
def test_symbols_of_a_library_that_is_opened_for_all(  # noqa: PLR0913, PLR0917 - cases
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    imports: str,
    kind: str,
    size: int,
    version: str,
    severity: str | None,
) -> None:
    base = 8 if kind == DATA else 1
    for name, own, text in (("alpha", base, imports), ("beta", size, "from . import _core")):
        library = defining(tmp_path, name, kind, own, version)
        files = package(tmp_path, name, library, f"{name}_uses", imports=text)
        site.install(tmp_path, name, **files, **{f"{name}__flags.py": FLAGS})
    (site.site / "bin").mkdir()  # as below a folder of `pip install --target`
    (site.site / "bin/alpha").write_text("#!/bin/sh\n")
    findings = site.says(capsys, 1 if severity == "error" else 0)
    assert [(one["code"], one["severity"]) for one in findings] == (
        [("WF955", severity)] if severity else []
    )
    if severity:
        asked = site.says(capsys, int(severity == "error"), "--order", "alpha,beta")
        shown = "warning" if severity == "note" else severity
        assert [(one["code"], one["severity"]) for one in asked] == [("WF955", shown)]
        run(["doctor", str(site.root), "--order", "alpha,beta"])
        assert capsys.readouterr().out.endswith(
            "  no copy of a library takes the place of another one\n"
        )
    is_moved = ("RTLD" in imports or "flags" in imports, kind, "beta")
    assert ((kind, "beta", "alpha") in site.bindings("alpha", "beta")) is is_moved[0]
    assert (kind, "beta", "beta") in site.bindings("beta", "alpha")
    if severity:
        line = "3" if "ctypes.CDLL" in imports else "5"
        opened = "libalpha.so" if line == "3" else f"_core{SUFFIX}"
        assert findings[0]["message"].startswith(
            f"after `alpha/__init__.py` (line {line}) has opened `alpha/{opened}` for all, "
            "`import beta._core` uses 1 symbol of alpha 1.0 instead of its own: "
        )
        assert findings[0]["hint"].startswith("import `beta._core` first")


AFTER_BETA, BEFORE_BETA = f"import beta\n{WITH_CTYPES}", f"{WITH_CTYPES}\nimport beta"
AFTER_ALPHA = "import alpha\nfrom . import _core"
NO_OTHER = "from . import _core"


@pytest.mark.parametrize(
    ("alpha", "beta", "hint"),
    [
        (AFTER_BETA, NO_OTHER, None),
        (BEFORE_BETA, NO_OTHER, "import `beta._core` first, or use them in two processes"),
        (WITH_CTYPES, AFTER_ALPHA, ""),  # no order helps
    ],
)
def test_only_orders_that_imports_can_come_in(  # noqa: PLR0913, PLR0917 - cases
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    alpha: str,
    beta: str,
    hint: str | None,
) -> None:
    for name, size, text in (("alpha", 8, alpha), ("beta", 16, beta)):
        library = defining(tmp_path, name, DATA, size)
        site.install(
            tmp_path, name, **package(tmp_path, name, library, f"{name}_uses", imports=text)
        )
    findings = site.says(capsys, 0 if hint is None else 1)
    assert [one["code"] for one in findings] == ["WF955"] * (hint is not None)
    assert [one["hint"] or "" for one in findings] == [hint] * (hint is not None)
    assert (
        "no order helps: to `import beta._core` is to `import alpha` first" in str(findings)
    ) is (hint == "")
    moved = {
        (DATA, "beta", "alpha") in site.bindings(*order) for order in (["alpha", "beta"], ["beta"])
    }
    assert moved == {hint is not None, hint == ""}


@pytest.mark.parametrize(
    ("first", "size", "severity"), [(900, 900, "error"), (800, 800, None), (2500, 900, "error")]
)
def test_static_tls_of_two_modules(  # noqa: PLR0913, PLR0917 - fixtures and cases
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    first: int,
    size: int,
    severity: str | None,
) -> None:
    """With the room of the hint all are imported, also those after one that fails alone."""
    for name, own in (("alpha", first), ("beta", size)):
        source = f"""
        static __attribute__((tls_model("initial-exec"))) __thread char of_thread[{own}];
        int {name}_uses(void) {{ return of_thread[0]; }}
        """
        library = shared_object(tmp_path / f"lib{name}.so", source, soname=f"lib{name}.so")
        site.install(tmp_path, name, **package(tmp_path, name, library, f"{name}_uses"))
    findings = site.says(capsys, 1 if severity else 0)
    assert [(one["code"], one["severity"]) for one in findings] == (
        [("WF956", severity)] if severity else []
    )
    for order in (("alpha", "beta"), ("beta", "alpha")):
        failed = "cannot allocate memory in static TLS block" in site.imports(*order)
        assert failed is bool(severity)
    if severity:
        variable, _, value = findings[0]["hint"].split("`")[1].partition("=")
        monkeypatch.setenv(variable, value)
        assert site.imports("alpha", "beta") == ""
        monkeypatch.delenv(variable)
        lacking = site.site / findings[0]["notes"][0].split("`")[1]  # the hint for an older glibc
        command = [str(site.root / "bin/python"), "-c", "import alpha, beta"]
        subprocess.run(command, env={"LD_PRELOAD": str(lacking)}, check=True)


@pytest.mark.parametrize("size", [500, 512])
def test_static_tls_that_a_failed_import_keeps(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str], size: int
) -> None:
    """glibc takes the room of a failed import back, but for gaps left by an alignment."""
    fails = size < 512

    def library(name: str, number: int, *needed: Path) -> Path:
        source = f"""
        __attribute__((tls_model("initial-exec"), aligned(64))) __thread char of_{name}[{number}];
        int {name}_uses(void) {{ return of_{name}[0]; }}
        """
        path = tmp_path / f"lib{name}.so"
        flags = ["-Wl,--no-as-needed"]
        return shared_object(
            path, source, soname=path.name, needed=needed, runpath="$ORIGIN", flags=flags
        )

    low = library("low", size)
    middle = library("middle", size, low)
    for name, last in (("alpha", library("high", 1200, middle)), ("beta", library("beta", 1500))):
        files = package(tmp_path, name, last, f"{last.stem.removeprefix('lib')}_uses")
        more = {f"alpha__{path.name}": path for path in (low, middle)} if name == "alpha" else {}
        site.install(tmp_path, name, **files, **more)
    findings = site.says(capsys, 1, "--order", "alpha,beta")
    assert [(one["code"], one["message"].partition(" fails")[0]) for one in findings] == [
        ("WF956", "`import alpha._core`"),
        *([("WF956", "after `import alpha._core`, `import beta._core`")] if fails else []),
    ]
    caught = "contextlib\nwith contextlib.suppress(ImportError): import alpha\nimport beta"
    seen = site.imports(caught)
    assert ("cannot allocate memory in static TLS block" in seen) is fails


@pytest.mark.parametrize(("size", "takes_room"), [(480, True), (600, False)])
def test_descriptors_take_static_tls_up_to_a_limit(  # noqa: PLR0913, PLR0917 - fixtures, cases
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    takes_room: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    for name, flag, number in (
        ("alpha", "-mtls-dialect=gnu2", size),
        ("beta", "-ftls-model=initial-exec", 1300),
    ):
        source = f"""
        static __thread char of_thread[{number}];
        int {name}_uses(void) {{ return of_thread[0]; }}
        """
        path = tmp_path / f"lib{name}.so"
        library = shared_object(path, source, soname=path.name, flags=[flag])
        site.install(tmp_path, name, **package(tmp_path, name, library, f"{name}_uses"))
    findings = site.says(capsys, 1 if takes_room else 0)
    expected = [("WF956", "error")] * takes_room
    assert [(one["code"], one["severity"]) for one in findings] == expected
    failed = "cannot allocate memory in static TLS block" in site.imports("alpha", "beta")
    assert failed is takes_room
    assert site.imports("beta", "alpha") == ""
    if takes_room:
        assert findings[0]["message"].startswith("after `import alpha._core`, `import beta._core`")
        variable, _, value = findings[0]["hint"].split("`")[1].partition("=")
        monkeypatch.setenv(variable, value)
        assert site.imports("alpha", "beta") == ""


LOADS = """
import ctypes
from .paths import find_library
def load():
    for path in find_library():
        try:
            return ctypes.cdll.LoadLibrary(path)
        except OSError as error:
            continue
    return None
LIBRARY = load()
"""
FINDS = """
import os, sys
def find_library():
    folder = os.path.dirname(os.path.abspath(__file__))
    places = [os.path.join(folder, "lib"), os.path.join(sys.base_prefix, "lib")]
    return [p for p in [os.path.join(q, "libbeta.so") for q in places] if os.path.exists(p)]
"""


@pytest.mark.parametrize(
    ("source", "severity"),
    [
        (LOADS, "warning"),
        (LOADS.replace("continue", "raise"), "error"),
        (LOADS.replace("LIBRARY", "if False: LIBRARY"), None),
    ],
)
def test_a_library_that_a_source_opens_when_it_is_imported(
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    source: str,
    severity: str | None,
) -> None:
    """As `xgboost/core.py` does, which `xgboost/__init__.py` imports by way of another source."""
    text = """
    static __attribute__((tls_model("initial-exec"))) __thread char of_thread[900];
    int uses(void) { return of_thread[0]; }
    """
    other, library = (
        shared_object(tmp_path / name, text, soname=name) for name in ("libalpha.so", "libbeta.so")
    )
    site.install(tmp_path, "alpha", **package(tmp_path, "alpha", other, "uses"))
    files: dict[str, str | Path] = {
        "beta____init__.py": "from .api import LIBRARY\n" if severity else "",
        "beta__api.py": "from .core import LIBRARY\n",
        "beta__core.py": source,
        "beta__paths.py": FINDS,
        "beta__lib/libbeta.so": library,
    }
    site.install(tmp_path, "beta", **files)
    findings = site.says(capsys, 1 if severity == "error" else 0)
    assert [(one["code"], one["severity"]) for one in findings] == (
        [("WF956", severity)] if severity else []
    )
    if severity:
        assert "`import beta.core` fails" in findings[0]["message"]
        assert findings[0]["notes"][0] == "`beta/lib/libbeta.so` finds no room"
        loaded = "alpha\nimport beta.core\nif beta.core.LIBRARY is None: raise OSError"
        assert site.imports(loaded).startswith("OSError")
        found = site.says(capsys, 1 if severity == "error" else 0, "--order", "alpha,beta")
        assert [(one["code"], one["severity"]) for one in found] == [("WF956", severity)]
    assert site.says(capsys, 0, "--order", "beta") == []


OPENS = """
import ctypes, os
ctypes.CDLL(os.path.join(os.path.dirname(__file__), "libfoo.so.1"))
"""


@pytest.mark.parametrize(
    ("before", "error"),
    [("", "undefined symbol: foo_new"), ("try: import beta\nexcept ImportError: pass\n", "")],
)
def test_what_a_package_may_import_before_it_opens_a_library_is_not_after_it(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str], before: str, error: str
) -> None:
    """xgboost tries to import scikit-learn, and then opens its library."""
    old, new = lib(tmp_path / "old", "one"), lib(tmp_path / "new", "one", "foo_new")
    files: dict[str, str | Path] = {"alpha____init__.py": before + OPENS, "alpha__libfoo.so.1": old}
    site.install(tmp_path, "alpha", **files)
    site.install(tmp_path, "beta", **package(tmp_path, "beta", new, "one", "foo_new"))
    assert [one["code"] for one in site.says(capsys, 0)] == ["WF953"] * bool(error)
    assert site.imports("alpha", "beta").endswith(error)
    site.says(capsys, int(bool(error)), "--order", "alpha,beta")
    (asked,) = site.asked
    assert [one for copy in asked["copies"] for one in copy["served"]] == []
    assert asked["fails"] == ["beta._core"] * bool(error)


HERE = "import ctypes, os\nhere = os.path.dirname(os.path.abspath(__file__))\n"
WAYS = {
    "a loop over names": HERE
    + "for n in ('libok.so', 'libu.so'): ctypes.CDLL(os.path.join(here, n))",
    "glob": HERE
    + "import glob\nl = [ctypes.CDLL(p) for p in glob.glob(os.path.join(here, 'lib*'))]",
    "listdir": HERE + "for n in os.listdir(here):\n    if n.endswith('.so'):\n"
    "        ctypes.CDLL(os.path.join(here, n))",
    "Path.glob": "import ctypes, pathlib\nfor one in pathlib.Path(__file__).parent.glob('*.so'):\n"
    "    ctypes.CDLL(str(one))",
    "find_spec": "import ctypes, importlib.util, os\n"
    "origin = importlib.util.find_spec('other').origin\n"
    "ctypes.CDLL(os.path.join(os.path.dirname(origin), 'libu.so'))",
    "__path__": "import ctypes, os, other\nctypes.CDLL(os.path.join(other.__path__[0], 'libu.so'))",
    "__file__": "import ctypes, os, other\n"
    "ctypes.CDLL(os.path.join(os.path.dirname(other.__file__), 'libu.so'))",
    "sysconfig": "import ctypes, os, sysconfig\n"
    "ctypes.CDLL(os.path.join(sysconfig.get_path('purelib'), 'other', 'libu.so'))",
    "a context manager": HERE + "from contextlib import contextmanager\n@contextmanager\n"
    "def place():\n    yield here\nwith place() as p: ctypes.CDLL(os.path.join(p, 'libu.so'))",
    "chdir": HERE + "before = os.getcwd()\nos.chdir(here)\nctypes.CDLL('./libu.so')",
    "a class": HERE + "class Library:\n    def __init__(self):\n"
    "        self.lib = ctypes.CDLL(os.path.join(here, 'libu.so'))\nLibrary()",
    "a helper": "from .core import LIBRARY",
    "a name for the call": HERE + "load = ctypes.CDLL\nload(os.path.join(here, 'libu.so'))",
    "all names of ctypes": "from ctypes import *\ncdll.LoadLibrary(__path__[0] + '/libu.so')",
    "an element of cdll": "import ctypes\nctypes.cdll[__file__.rsplit('/', 1)[0] + '/libu.so']",
    "a lambda": HERE + "load = lambda n: ctypes.CDLL(os.path.join(here, n))\nload('libu.so')",
    "a static method": HERE + "class L:\n    @staticmethod\n    def load(n):\n"
    "        return ctypes.CDLL(os.path.join(here, n))\nL.load('libu.so')",
    "a dictionary": HERE + "for k, n in {'u': 'libu.so'}.items(): ctypes.CDLL(f'{here}/{n}')",
    "a numbered loop": HERE + "for i, n in enumerate(['libu.so']): ctypes.CDLL(f'{here}/{n}')",
    "scandir": HERE + "for e in os.scandir(here):\n    if e.name == 'libu.so':\n"
    "        ctypes.CDLL(e.path)",
    "sys.modules": "import ctypes, os, sys\n"
    "ctypes.CDLL(os.path.dirname(sys.modules[__name__].__file__) + '/libu.so')",
    "sys.prefix": "import ctypes, sys\nv = 'python%d.%d' % sys.version_info[:2]\n"
    f"ctypes.CDLL(sys.prefix + '/lib/python3.{sys.version_info[1]}/site-packages/other/libu.so')",
    "an import in a function": "def go():\n    from . import core\ngo()",
    "an import that may not fail": "try:\n    from . import core\nexcept ImportError:\n    raise",
    "import_module": "import importlib\nimportlib.import_module('.core', __name__)",
    "candidates": HERE + "for n in ('libno.so', 'libu.so'):\n    p = os.path.join(here, n)\n"
    "    if os.path.exists(p):\n        ctypes.CDLL(p)\n        break\nelse:\n"
    "    raise ImportError('none')",
    "a method": HERE + "class L:\n    def load(self):\n"
    "        return ctypes.CDLL(os.path.join(here, 'libu.so'))\none = L()\none.load()",
    "the version": HERE + "import sys\nif sys.version_info < (3, 8): raise ImportError\n"
    "ctypes.CDLL(os.path.join(here, 'libu.so'))",
    "hexversion": HERE + "import sys\nname = 'libu.so' if sys.hexversion >= 0x3080000 else 'no'\n"
    "ctypes.CDLL(os.path.join(here, name))",
    "maxsize": HERE
    + "import sys\nctypes.CDLL(f'{here}/lib{\"u\" if sys.maxsize > 2**32 else 3}.so')",
    "calcsize": HERE + "import struct\nbits = struct.calcsize('P') * 8\n"
    "ctypes.CDLL(f'{here}/libnowhere{bits}.so.7'.replace('64', ''))",
    "match": HERE + "import platform\nmatch platform.system():\n    case 'Windows' | 'Darwin':\n"
    "        name = 'no'\n    case _:\n        name = 'libu.so'\nctypes.CDLL(f'{here}/{name}')",
    "reduce": HERE + "from functools import reduce\nparts = here, 'libu.so'\n"
    "ctypes.CDLL(reduce(os.path.join, parts))",
    "arguments": HERE + "parts = [here, 'libu.so']\nctypes.CDLL(os.path.join(*parts))",
    "a list in a list": HERE + "ctypes.CDLL('/'.join([*__path__, 'libu.so']))",
    "a spec": HERE + "import importlib.util as util\n"
    "util.module_from_spec(util.spec_from_file_location('libu', here + '/libu.so'))",
    "a loader": HERE + "from importlib import machinery, util\n"
    "loader = machinery.ExtensionFileLoader('libu', here + '/libu.so')\n"
    "util.module_from_spec(util.spec_from_loader('libu', loader))",
    "runpy": "import runpy\nrunpy.run_module('alpha.core')",
    "a bare name": "import ctypes\nctypes.CDLL('libnowhere.so.7')",
    "what is not there": HERE + "ctypes.CDLL(os.path.join(here, 'libnowhere.so.7'))",
}
"""Sources that open `libu.so`, which refers to `nowhere`, or what is not there."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.each_run("glob", "a helper", "a method", "an import in a function", "a bare name")
def test_each_way_to_open_a_library_is_known(
    way: str, site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = shared_object(tmp_path / "libu.so", "int nowhere(void); int go(void){return nowhere();}")
    files: dict[str, str | Path] = {
        "alpha____init__.py": "",
        "alpha__core.py": "from .tools import load\nLIBRARY = load('libu.so')\n",
        "alpha__tools.py": HERE + "def load(name): return ctypes.CDLL(os.path.join(here, name))\n",
        "alpha__libok.so": shared_object(tmp_path / "libok.so", ""),
        "alpha__libu.so": bad,
        "other____init__.py": "",
        "other__libu.so": bad,
    }
    site.install(tmp_path, "alpha", **files)
    source = WAYS[way]
    (site.site / "alpha/__init__.py").write_text(source + "\n")
    word = "libnowhere.so.7" if "nowhere" in source else "nowhere"
    found = site.says(capsys, 1)
    assert [word in one["message"] for one in found if one["severity"] == "error"] == [True]
    # Since 3.13, an element of `cdll` is an attribute that is not there: no word of the loader.
    said = site.imports("alpha")
    assert word in said or ("cdll[" in source and said.startswith("AttributeError"))


UNKNOWN_WAYS = {
    "candidates, each tried": HERE + "for n in ('libno.so', 'libnowhere.so.7'):\n    try:\n"
    "        lib = ctypes.CDLL(os.path.join(here, n))\n        break\n"
    "    except OSError as caught:\n        error = caught\nelse:\n    raise error",
    "one of two": HERE + "name = 'libno.so' if os.getpid() < 0 else 'libnowhere.so.7'\n"
    "ctypes.CDLL(os.path.join(here, name))",
    "a table of loaders": HERE + "import sys\n"
    "{'linux': ctypes.CDLL}[sys.platform](os.path.join(here, 'libnowhere.so.7'))",
    "_imp": "import _imp, importlib.machinery\n"
    "_imp.create_dynamic(importlib.machinery.ModuleSpec('x', None, origin='/libnowhere.so.7'))",
    "after more than is parsed": "x = 1\n" * 40_000
    + HERE
    + "ctypes.CDLL(os.path.join(here, 'libnowhere.so.7'))",
    "a path that is run": HERE + "import runpy\nrunpy.run_path(os.path.join(here, 'core.txt'))",
}
"""Sources that open what is not there by names that are not known."""


def test_what_opens_libraries_by_names_that_are_not_known_is_told(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files: dict[str, str | Path] = {
        "alpha____init__.py": "",
        "alpha__core.txt": "import ctypes\nctypes.CDLL('/libnowhere.so.7')\n",
        "alpha__libok.so": shared_object(tmp_path / "libok.so", ""),
    }
    site.install(tmp_path, "alpha", **files)
    for way, source in UNKNOWN_WAYS.items():
        (site.site / "alpha/__init__.py").write_text(source + "\n")
        assert "libnowhere.so.7" in site.imports("alpha"), way
        assert run(["doctor", str(site.root)]) == 0
        assert (
            "libraries are opened by names that are not known in `alpha`" in capsys.readouterr().out
        ), way


def test_a_folder_that_a_source_lists_may_be_closed(
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = "import ctypes, os\nfor name in os.listdir(os.path.dirname(__file__) + '/closed'):\n"
    source += "    ctypes.CDLL(os.path.dirname(__file__) + '/closed/' + name)\n"
    files: dict[str, str | Path] = {"alpha____init__.py": source, "alpha__closed/libx.so": ""}
    files |= {"alpha__libok.so": shared_object(tmp_path / "libok.so", "")}
    site.install(tmp_path, "alpha", **files)
    listed = os.listdir

    def refuse(folder: str) -> list[str]:
        if str(folder).endswith("/closed"):
            raise PermissionError(13, "Permission denied", folder)
        return listed(folder)

    monkeypatch.setattr(os, "listdir", refuse)
    assert run(["doctor", str(site.site)]) == 0
    assert "libraries are opened by names that are not known in `alpha`" in capsys.readouterr().out


@pytest.mark.each_run("gone", "text", "link", "machine", "another Python")
@pytest.mark.parametrize(
    "damage",
    [
        *("gone", "empty", "text", "link", "machine", "class", "object", "folder"),
        *("another Python", "no init function"),
    ],
)
def test_a_module_that_is_damaged_is_an_error_however_its_package_imports_it(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    files = package(tmp_path, "alpha", lib(tmp_path, "one"), "one", imports="from .api import one")
    site.install(tmp_path, "alpha", **files, alpha__api__py="")
    (site.site / "alpha/api.py").write_text("from ._core import *\none = 1\n")
    core = site.site / f"alpha/_core{SUFFIX}"
    data = core.read_bytes()
    core.unlink()
    contents = {
        "empty": b"",
        "text": b"version https://git-lfs.github.com/spec/v1\n",
        "machine": data[:18] + b"\xb7\0" + data[20:],
        "class": data[:4] + b"\x01" + data[5:],
        "object": data[:16] + b"\x01" + data[17:],
        "no init function": shared_object(tmp_path / "other.so", "").read_bytes(),
    }
    match damage:
        case "link":
            core.symlink_to("nowhere")
        case "folder":
            core.mkdir()
        case "another Python":
            core.with_name("_core.cpython-36m-x86_64-linux-gnu.so").write_bytes(data)
        case "gone":
            pass
        case _:
            core.write_bytes(contents[damage])
    (finding,) = (one for one in site.says(capsys, 1) if one["code"] == "WF952")
    assert finding["severity"] == "error"
    assert f"alpha/_core{SUFFIX}" in finding["message"]
    assert site.imports("alpha")
    explain = ["explain", "--site", str(site.root)]
    assert run(explain) == 1
    assert f"alpha/_core{SUFFIX}" in capsys.readouterr().out
    if damage in {"empty", "text"}:
        assert run([*explain, "alpha._core"]) == 1
        assert "not an ELF file" in capsys.readouterr().out


_VARIABLE = "__thread int number;"
_DEFINES = f"{_VARIABLE} int value(void) {{ number = 1; return number; }}"


def sharing(site: Environment, folder: Path, alpha: str = "", beta: str = "") -> None:
    """Install a library with a thread-local variable, `alpha` with one, and `beta` that uses it."""
    shared = _VARIABLE + "int get(void) { return number; }"
    libfoo = shared_object(folder / "libfoo.so", shared, soname="libfoo.so")
    files: dict[str, Path | str] = {"foo____init__.py": "", "foo__libfoo.so": libfoo}
    site.install(folder, "foo", **files)
    uses = f"int get(void); extern {_VARIABLE} int value(void) {{ number = 2; return get() == 2; }}"
    opens = "import ctypes, os\nlib = ctypes.CDLL(os.path.dirname(__file__) + '/lib.so')\n"
    opens += "assert lib.value(), 'another variable'\n"
    for name, source, first in (("alpha", _DEFINES, alpha), ("beta", uses, beta)):
        own = folder / name / "lib.so"
        made = shared_object(own, source, needed=[libfoo], runpath="$ORIGIN/../foo")
        files = {f"{name}____init__.py": first + opens, f"{name}__lib.so": made}
        site.install(folder, name, **files)


def test_a_shared_library_is_bound_to_the_variables_of_what_loads_it_first(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sharing(site, tmp_path)
    (finding,) = site.says(capsys, 0)
    assert (finding["code"], finding["severity"]) == ("WF955", "warning")
    assert finding["hint"].startswith("import `beta` first")
    (finding,) = site.says(capsys, 1, "--order", "alpha,beta", "--prove")  # the order does not work
    assert (
        finding["severity"] == "error"
    )  # the file does not tell when beta uses it; the proof does
    assert finding["proof"]["outcome"] == "seen"
    assert "another variable" in finding["proof"]["text"]
    assert "another variable" in site.imports("alpha", "beta")
    assert site.says(capsys, 0, "--order", "beta,alpha") == []
    assert not site.imports("beta", "alpha")


def test_a_package_that_is_imported_after_the_other_variable_in_any_order(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sharing(site, tmp_path, beta="import alpha\n")
    (finding,) = site.says(capsys, 0)
    assert finding["hint"] is None
    assert "no order helps: to `import beta` is to `import alpha` first" in finding["notes"]
    assert "another variable" in site.imports("beta")


def test_a_shared_library_that_is_loaded_before_the_other_variable(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sharing(site, tmp_path, alpha="import beta\n")
    assert site.says(capsys, 0) == []
    assert not site.imports("alpha", "beta")


@pytest.mark.parametrize("imports", ["alpha.sip", "alpha.other"])
def test_a_module_that_is_gone_and_another_one_imports(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str], imports: str
) -> None:
    code = f'const char *imported = "{imports}"; const char *all = "alpha.sip and others";'
    source = extension_source("_core") + code
    core = shared_object(tmp_path / "_core.so", source, flags=["-I", sysconfig.get_path("include")])
    gone = extension(tmp_path / "sip.so", "sip")
    files = {f"alpha___core{SUFFIX}": core, f"alpha__sip{SUFFIX}": gone}
    site.install(tmp_path, "alpha", **files, **{"alpha____init__.py": ""})
    (site.site / f"alpha/sip{SUFFIX}").unlink()
    is_error = imports == "alpha.sip"
    (finding,) = site.says(capsys, int(is_error))
    assert finding["severity"] == ("error" if is_error else "note")
    assert "importing `alpha.sip` " in finding["message"]


@pytest.mark.parametrize("damage", ["empty", "gone", "replaced"])
@pytest.mark.parametrize("imports", ["from . import _core\n", _TRIES])
def test_a_damaged_module_fails_for_the_subpackage_that_imports_it(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str, imports: str
) -> None:
    core = extension(tmp_path / "_core.so", "_core")
    site.install(
        tmp_path, "alpha",
        **{"alpha____init__.py": "", "alpha__sub/__init__.py": imports},
        **{f"alpha__sub/_core{SUFFIX}": core},
    )  # fmt: skip
    damaged = site.site / f"alpha/sub/_core{SUFFIX}"
    damaged.unlink()
    if damage == "empty":
        damaged.touch()
    elif damage == "replaced":
        shared_object(damaged, "int nothing_of_python;")
    fails = imports != _TRIES
    (finding,) = (one for one in site.says(capsys, int(fails)) if one["code"] == "WF952")
    assert finding["severity"] == ("error" if fails else "note")
    assert bool(site.imports("alpha.sub")) is fails
    assert not site.imports("alpha")


def test_a_library_outside_of_site_packages_is_opened(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opens = "import ctypes, os, sys\nctypes.CDLL(os.path.join(sys.prefix, 'lib', 'libown.so'))\n"
    site.install(tmp_path, "alpha", **{"alpha____init__.py": opens})
    shared_object(site.root / "lib/libown.so", "void away(void); void *needs = away;")
    (finding,) = site.says(capsys, 1)
    assert "importing `alpha` fails: " in finding["message"]
    assert site.imports("alpha")


@pytest.mark.parametrize(("text", "severity"), [("from . import api\n", "error"), ("", "note")])
def test_a_source_of_record_that_is_not_there(
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    severity: str,
) -> None:
    files: dict[str, str | Path] = {"alpha____init__.py": text, "alpha__api.py": "one = 1\n"}
    site.install(tmp_path, "alpha", **files)
    (site.site / "alpha/api.py").unlink()
    (finding,) = site.says(capsys, 1 if severity == "error" else 0)
    assert (finding["code"], finding["severity"]) == ("WF952", severity)
    assert "`alpha/api.py` is not there" in finding["message"]
    assert bool(site.imports("alpha")) is (severity == "error")


def test_what_a_library_that_a_source_opens_lacks_is_explained(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = lib(tmp_path / "gone", "one", name="libgone.so")
    opened = shared_object(tmp_path / "libfoo.so.1", "", soname="libfoo.so.1", needed=[gone])
    files: dict[str, str | Path] = {"alpha____init__.py": OPENS, "alpha__libfoo.so.1": opened}
    site.install(tmp_path, "alpha", **files)
    (finding,) = site.says(capsys, 1)
    assert (finding["code"], finding["severity"]) == ("WF952", "error")
    assert finding["message"].startswith("importing `alpha` fails: `libgone.so`, which")
    assert finding["hint"].startswith("`libgone.so`: neither the wheel of alpha 1.0 nor")
    assert run(["explain", "--site", str(site.root)]) == 1
    assert f"  {finding['hint']}\n" in capsys.readouterr().out
    assert "libgone.so" in site.imports("alpha")


def test_descriptors_take_all_static_tls_of_an_older_glibc(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As TensorFlow's libraries do on ARM64, so that no library with libgomp can be imported."""
    site = tmp_path / "site"
    for name, size, has_descriptors in (("alpha", 1640, True), ("beta", 120, False)):
        values = {**dict.fromkeys(Segment._fields, 0), "type": Pt.TLS, "memsz": size, "align": 8}
        elf = objects.LIBRARY._replace(
            machine=Machine.AARCH64,
            segments=(Segment(**values),),
            tls_descriptors=has_descriptors,
        )
        hook = objects.Symbol(name="PyInit__core", defined=True, kind=2)
        core = objects.shared_object(elf, objects.Code(symbols=(hook,)))
        files = {f"{name}/__init__.py": IMPORTS, f"{name}/_core.so": core}
        wheel = make_wheel(tmp_path / "wheels", name=name, tag=TAG, files=files)
        zipfile.ZipFile(wheel).extractall(site)
    for target, code in (("ubuntu:20.04", 1), ("glibc:2.28", 0), ("debian:11", 0)):
        asked = ["doctor", str(site), "--target", target, "--output-format", "json"]
        for order in ([], ["--order", "alpha,beta"]):
            assert run([*asked, *order]) == code
            findings = json.loads(capsys.readouterr().out)["findings"]
            assert [one["code"] for one in findings] == ["WF956"] * code
            if findings:
                assert findings[0]["severity"] == "error"
                assert "after `import alpha._core`, `import beta._core`" in findings[0]["message"]
                assert findings[0]["notes"][0] == "`beta/_core.so` finds no room"
                assert f"`LD_PRELOAD={site}/beta/_core.so`" in findings[0]["hint"]
        assert run([*asked, "--order", "beta,alpha"]) == 0
        capsys.readouterr()


def test_a_product_under_two_names_is_a_note(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, version in (("alpha", "1.14.4"), ("beta", "1.14.5"), ("gamma", "1.14.5")):
        owner = "beta" if name == "gamma" else name
        source = f"""
        const char text[] = "HDF5 library version: {version}";
        int H5get_libversion(void) {{ return text[0]; }}
        """
        library = shared_object(
            tmp_path / owner / f"lib{owner}.so", source, soname=f"lib{owner}.so"
        )
        site.install(tmp_path, name, **package(tmp_path, name, library, "H5get_libversion"))
    (finding,) = site.says(capsys, 0)
    assert (finding["code"], finding["severity"]) == ("WF957", "note")
    assert finding["message"] == "HDF5 is there 2 times: from alpha 1.0, beta 1.0"
    assert finding["notes"] == ["`alpha/libalpha.so` 1.14.4", "`beta/libbeta.so` 1.14.5"]


@pytest.mark.parametrize(("newest", "severity"), [("GLIBCXX_3.4.30", "warning"), ("", "note")])
def test_two_versions_of_the_cxx_runtime_share_variables(
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    newest: str,
    severity: str,
) -> None:
    for name, extra in (("alpha", ""), ("beta", newest)):
        script = tmp_path / f"{name}.map"
        more = f"{extra} {{ global: more; }} GLIBCXX_3.4;" if extra else ""
        script.write_text(f"GLIBCXX_3.4 {{ global: *; }}; {more}")
        source = """
        __asm__(".data\\n.globl facet_id\\n.type facet_id, @gnu_unique_object\\n"
                ".size facet_id, 8\\nfacet_id: .zero 8\\n.text\\n");
        extern char facet_id[];
        int more(void) { return 0; }
        int _ZNSt6locale7classicEv(void) { return facet_id[0]; }
        """
        library = shared_object(
            tmp_path / f"libstdc++-{name}.so.6",
            source,
            soname=f"libstdc++-{name}.so.6",
            flags=[f"-Wl,--version-script={script}"],
        )
        site.install(tmp_path, name, **package(tmp_path, name, library, "_ZNSt6locale7classicEv"))
    (finding,) = site.says(capsys, 0)
    assert (finding["code"], finding["severity"]) == ("WF957", severity)
    assert ("facet_id", "beta", "alpha") in site.bindings("alpha", "beta")


def test_an_object_that_was_edited_after_its_installation_is_a_note(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site.install(tmp_path, "alpha", **package(tmp_path, "alpha", lib(tmp_path, "one"), "one"))
    with (site.site / "alpha/libfoo.so.1").open("ab") as library:
        library.write(b"edited")
    (finding,) = site.says(capsys, 0)
    assert (finding["code"], finding["severity"]) == ("WF958", "note")
    assert finding["message"] == (
        "1 object of alpha 1.0 changed since the installation: `alpha/libfoo.so.1`"
    )


SETS_FOR_CHILDREN = """
import os
os.environ["LD_LIBRARY_PATH"] = os.path.join(os.path.dirname(__file__), "../../../../opt")
from . import _core
"""


def returning(path: Path, number: int, name: str = "foo") -> Path:
    return shared_object(path, f"int {name}(void) {{ return {number}; }}", soname=path.name)


@pytest.mark.parametrize(
    ("set_by", "tags", "other", "severity"),
    [
        ("shell", "runpath", 2, "warning"),
        ("shell", "rpath", 2, None),
        ("shell", "runpath", 1, None),  # a copy of the same build
        ("bin/activate", "runpath", 2, "warning"),
        ("bin/activate", "rpath", 2, None),
        ("beta/__init__.py", "runpath", 2, "note"),
        ("beta/__init__.py", "rpath", 2, None),
        ("conda-meta/state", "runpath", 2, "warning"),
        ("set.pth", "runpath", 2, "note"),
    ],
)
def test_library_path_comes_before_runpath(  # noqa: PLR0913, PLR0917 - fixtures and cases
    site: Environment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    set_by: str,
    tags: str,
    other: int,
    severity: str | None,
) -> None:
    library = returning(tmp_path / "libfoo.so.1", 1)
    where: dict[str, Any] = {tags: "$ORIGIN"}
    core = extension(tmp_path / "_core.so", "_core", needed=[library], calls=["foo"], **where)
    text = SETS_FOR_CHILDREN if set_by == "beta/__init__.py" else "from . import _core\n"
    files: dict[str, Any] = {
        "beta____init__.py": text,
        f"beta___core{SUFFIX}": core,
        "beta__libfoo.so.1": library,
    }
    site.install(tmp_path, "beta", **files)
    opt = site.root / "opt"
    returning(opt / "libfoo.so.1", other)
    value, python = "import beta; print(beta._core.value())", str(site.root / "bin/python")
    command = [python, "-c", value]
    if set_by == "shell":
        monkeypatch.setenv("LD_LIBRARY_PATH", str(opt))
    elif set_by == "bin/activate":
        with (site.root / set_by).open("a") as script:
            before = "${LD_LIBRARY_PATH:+:${LD_LIBRARY_PATH}}"
            script.write(f'export LD_LIBRARY_PATH="$VIRTUAL_ENV/opt{before}"\n')
        command = ["bash", "-c", f". {site.root}/bin/activate; {shlex.join(command)}"]
    elif set_by == "conda-meta/state":  # as `conda env config vars set` writes it
        (site.root / "conda-meta").mkdir()
        state = {"env_vars": {"LD_LIBRARY_PATH": str(opt)}}
        (site.root / set_by).write_text(json.dumps(state))
        command = ["env", f"LD_LIBRARY_PATH={opt}", *command]
    else:
        if set_by == "set.pth":
            (site.site / set_by).write_text(f"import os; os.environ['LD_LIBRARY_PATH'] = '{opt}'\n")
        code = f"import subprocess, beta; subprocess.run({command!r})"
        command = [python, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(2 if severity else 1)
    findings = [one for one in site.says(capsys, 0) if one["code"] != "WF958"]
    assert [(one["code"], one["severity"]) for one in findings] == (
        [("WF959", severity)] if severity else []
    )
    if severity:
        message = findings[0]["message"]
        assert "`opt/libfoo.so.1`, and not `beta/libfoo.so.1` of beta 1.0" in message
        assert set_by == "shell" or f"`{set_by}` (line " in message
        assert findings[0]["hint"].startswith("`env -u LD_LIBRARY_PATH python3`")
        without = ["env", "-u", "LD_LIBRARY_PATH", python, "-c", value]
        done = subprocess.run(without, capture_output=True, text=True, check=True)
        assert done.stdout == "1\n"


@pytest.mark.each_run("False")
@pytest.mark.parametrize("versions", [False, True])
def test_library_path_with_a_library_that_lacks_something(
    site: Environment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    versions: bool,
) -> None:
    """It fails in this process, and otherwise in one with the variable: one finding each."""
    if versions:
        make, own, other = (
            stub_library_with_versions,
            {"V1": ["one"], "V2": ["two"]},
            {"V1": ["one"]},
        )
        library = make(tmp_path / "own/libfoo.so.1", "libfoo.so.1", own)
        opt = make(tmp_path / "opt/libfoo.so.1", "libfoo.so.1", other).parent
    else:
        library = lib(tmp_path / "own", "one", "two")
        opt = lib(tmp_path / "opt", "one").parent
    site.install(tmp_path, "beta", **package(tmp_path, "beta", library, "one", "two"))
    lacking, code = ("V2", "WF952") if versions else ("two", "WF959")
    with monkeypatch.context() as here:
        here.setenv("LD_LIBRARY_PATH", str(opt))
        (failing,) = site.says(capsys, 1)
        assert (failing["code"], failing["severity"]) == (code, "error")
        done = subprocess.run(
            [site.root / "bin/python", "-c", "import beta"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert lacking in done.stderr.splitlines()[-1]
        assert run(["explain", "--site", str(site.root), "beta._core"]) == 1
        said = capsys.readouterr().out
        assert said.endswith(
            "what to do\n  `env -u LD_LIBRARY_PATH python3` starts Python without it\n"
        )
        assert "not known" not in said
    assert f"`{opt}/libfoo.so.1`" in " ".join([failing["message"], *failing["notes"]])
    assert site.says(capsys, 0) == []
    with (site.root / "bin/activate").open("a") as script:
        script.write(f"export LD_LIBRARY_PATH={opt}\n")
    (set_later,) = site.says(capsys, 0)
    assert (set_later["code"], set_later["severity"]) == ("WF959", "warning")
    assert f"which lacks `{lacking}`" in set_later["message"]
    assert site.says(capsys, 0, "--env", "LD_LIBRARY_PATH=")


@pytest.mark.parametrize("entry", ["lib", "../{}/lib", ":lib"])
def test_relative_folders_of_the_environment_are_those_of_the_shell(
    entry: str,
    site: Environment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A proof runs in another folder; `explain` says the same."""
    files = package(tmp_path, "alpha", lib(tmp_path / "lib", "fun", name="libfun.so.1"), "fun")
    site.install(tmp_path, "alpha", **dict(list(files.items())[:2]))
    (failing,) = site.says(capsys, 1, "--prove")
    assert failing["code"] == "WF952"
    monkeypatch.chdir(tmp_path)
    value = entry.format(tmp_path.name)
    explained = ["explain", "--site", str(site.root), "alpha._core"]
    words = ["--env", f"LD_LIBRARY_PATH={value}"]
    assert site.says(capsys, 0, "--prove", *words) == []
    assert run([*explained, *words]) == 0
    assert f"LD_LIBRARY_PATH {tmp_path}/" in capsys.readouterr().out
    monkeypatch.setenv("LD_LIBRARY_PATH", value)
    assert site.says(capsys, 0, "--prove") == []
    assert run(explained) == 0
    assert f"LD_LIBRARY_PATH {tmp_path}/" in capsys.readouterr().out


@pytest.mark.parametrize(("symbol", "severity"), [("qVersion", "warning"), ("other", "note")])
def test_a_variable_of_another_package(
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    symbol: str,
    severity: str,
) -> None:
    """So `cv2` sets QT_QPA_PLATFORM_PLUGIN_PATH, and PyQt5 takes the plug-in of another Qt."""
    opens = """
    #include <dlfcn.h>
    #include <stdio.h>
    #include <stdlib.h>
    int qVersion(void) { return 5; }
    int plugin(void) {
        char path[4096];
        if (!getenv("GUI5_PLUGIN_PATH")) return 0;
        snprintf(path, sizeof path, "%s/plugin.so", getenv("GUI5_PLUGIN_PATH"));
        int (*second)(void) = dlsym(dlopen(path, RTLD_NOW), "SECOND");
        return second();
    }
    """.replace("SECOND", symbol)
    reader = shared_object(tmp_path / "libgui.so.5", opens, soname="libgui.so.5")
    site.install(tmp_path, "beta", **package(tmp_path, "beta", reader, "plugin"))
    second = returning(tmp_path / "libgui-1a2b.so.5", 6, symbol)
    plugin = shared_object(tmp_path / "plugin.so", needed=[second], runpath="$ORIGIN")
    sets = "import os\nos.environ['GUI5_PLUGIN_PATH'] = os.path.dirname(__file__)\n"
    files: dict[str, Any] = {"alpha____init__.py": sets, f"alpha__{second.name}": second}
    files["alpha__plugin.so"] = plugin
    site.install(tmp_path, "alpha", **files)
    findings = [one for one in site.says(capsys, 0, "-v") if one["code"] == "WF960"]
    assert [one["severity"] for one in findings] == [severity]
    assert "`alpha/__init__.py` (line 2) sets GUI5_PLUGIN_PATH" in findings[0]["message"]
    removing = findings[0]["hint"].removeprefix("after the import, `").removesuffix("`")
    for after, number in (("pass", 6), (removing, 0)):  # of the second one, and of none
        code = f"import alpha; {after}; import beta; print(beta._core.value())"
        python = site.root / "bin/python"
        done = subprocess.run([python, "-c", code], capture_output=True, check=True)
        assert int(done.stdout) == number
    site.install(tmp_path, "gamma", **package(tmp_path, "gamma", reader, "plugin"))
    (one,) = [one for one in site.says(capsys, 0, "-v") if one["code"] == "WF960"]
    assert "; so does 1 other distribution" in one["message"]
    assert one["notes"][1:] == ["also of gamma 1.0"]


def test_symbols_are_read_once_until_an_object_changes(
    site: Environment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Tests beside this one fill the common cache, which keeps the newest files.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, own, text in (("alpha", 8, WITH_CTYPES), ("beta", 16, "from . import _core")):
        library = defining(tmp_path, name, DATA, own)
        files = package(tmp_path, name, library, f"{name}_uses", imports=text)
        site.install(tmp_path, name, **files, **{f"{name}__flags.py": FLAGS})
    for path in (*site.site.rglob("*.so*"), *site.site.rglob("*.py")):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    first = site.says(capsys, 1)
    read: list[str] = []

    def noting(data: memoryview, path: str) -> exports.SymbolPlaces:
        read.append(path)
        return exports.read_symbol_places(data, path)

    def refusing(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(installed_contents, "read_symbol_places", noting)
    with monkeypatch.context() as again:
        again.setattr(installed_contents, "symbol_tables_at", refusing)
        again.setattr(installed_sources, "visit_source", refusing)
        again.setattr(installed_sources, "visit_imports", refusing)
        assert site.says(capsys, 1) == first
    assert read == []
    library = defining(tmp_path / "again", "beta", DATA, 8)
    shutil.copy(library, site.site / "beta/libbeta.so")
    os.utime(site.site / "beta/libbeta.so", (1_000_000_001, 1_000_000_001))
    assert [one["code"] for one in site.says(capsys, 0)] in ([], ["WF958"])
    assert {Path(path).name for path in read} >= {"libbeta.so"}


def test_a_library_that_an_earlier_import_loads_is_part_of_every_answer(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`alpha._core` finds `libhelp.so` since a module of another distribution has loaded it."""
    helper = lib(tmp_path / "helper", "assist", name="libhelp.so")
    site.install(tmp_path, "helper", **package(tmp_path, "helper", helper, "assist"))
    old, new = lib(tmp_path / "old", "one"), lib(tmp_path / "new", "one", "foo_new")
    flags = ["-Wl,--allow-shlib-undefined", "-Wl,--unresolved-symbols=ignore-all"]
    core = extension(
        tmp_path / "_core.so",
        "_core",
        needed=[old, helper],
        calls=["one", "assist"],
        runpath="$ORIGIN",
        flags=flags,
    )
    source = "try:\n    import helper\nexcept ImportError:\n    pass\nfrom . import _core\n"
    files: dict[str, Path | str] = {
        "alpha____init__.py": source,
        f"alpha___core{SUFFIX}": core,
        "alpha__libfoo.so.1": old,
    }
    site.install(tmp_path, "alpha", **files)
    assert site.imports("alpha") == ""
    assert site.says(capsys, 0) == site.says(capsys, 0, "--order", "alpha") == []
    site.install(tmp_path, "beta", **package(tmp_path, "beta", new, "one", "foo_new"))
    assert site.imports("alpha", "beta").endswith("undefined symbol: foo_new")
    assert [one["code"] for one in site.says(capsys, 0)] == ["WF953"]
    assert [one["code"] for one in site.says(capsys, 1, "--every-order")] == ["WF953"]
    assert [order["fails"] for order in site.asked if order["imports"] == ["alpha", "beta"]] == [
        ["beta._core"]
    ]
    assert site.says(capsys, 0, "--order", "beta,alpha") == []


@pytest.mark.parametrize(
    ("metadata", "owners"),
    [
        ("", ("alpha", "beta")),
        ("alpha-1.0.egg-info/top_level.txt", ("alpha 1.0", "beta")),
        ("alpha-1.0-py3.11.egg-info/PKG-INFO", ("alpha 1.0", "beta")),
    ],
)
def test_distributions_without_record_are_told_apart(
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    metadata: str,
    owners: tuple[str, str],
) -> None:
    for name, functions in (("alpha", ["one"]), ("beta", ["one", "foo_new"])):
        library = lib(tmp_path / name, *functions)
        site.install(tmp_path, name, **package(tmp_path, name, library, *functions))
        shutil.rmtree(site.site / f"{name}-1.0.dist-info")
    if metadata:
        path = site.site / metadata
        path.parent.mkdir()
        path.write_text("alpha\n" if path.name == "top_level.txt" else "Name: alpha\n")
    (finding,) = site.says(capsys, 0)
    assert finding["code"] == "WF953"
    assert all(f" of {owner} " in finding["notes"][0] for owner in owners)


def test_packages_of_one_namespace_without_record_are_two_distributions(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, functions in (("alpha", ["one"]), ("beta", ["one", "foo_new"])):
        library = lib(tmp_path / name, *functions)
        files = package(tmp_path, name, library, *functions)
        for file, content in files.items():
            path = site.site / "space" / file.replace("__", "/", 1)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(
                content.read_bytes() if isinstance(content, Path) else content.encode()
            )
    (finding,) = site.says(capsys, 0)
    assert "of space.alpha loads" in finding["notes"][0]
    assert site.imports("space.alpha", "space.beta").endswith("undefined symbol: foo_new")


def test_a_module_of_the_interpreter_that_loads_the_library_first(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `import ssl` does before a package with a newer OpenSSL."""
    modules = sorted(Path(sysconfig.get_config_var("DESTSHARED")).glob("_*.so"))
    elfs = ((path, read_file(path)) for path in modules)
    found = ((path, name) for path, elf in elfs if elf for name in elf.needed)
    usual = (pair for pair in found if pair[1].startswith(("libssl", "libsqlite3", "liblzma")))
    module, soname = next(usual, (None, ""))
    if module is None:
        pytest.skip("this Python has no module that needs such a library")
    library, name = lib(tmp_path, "only_here", name=soname), module.name.partition(".")[0]
    site.install(tmp_path, "beta", **package(tmp_path, "beta", library, "only_here"))
    assert site.imports(name, "beta").endswith("undefined symbol: only_here")
    fails_first = site.imports("beta", name) != ""
    findings = site.says(capsys, 1 if fails_first else 0)
    assert all(f"`import {one}`" in findings[0]["message"] for one in (name, "beta._core"))
    site.says(capsys, 1, "--order", f"{name},beta")
    site.says(capsys, 1 if fails_first else 0, "--order", f"beta,{name}")
    (site.site / "beta/__init__.py").write_text(f"import {name}\nfrom . import _core\n")
    assert site.imports("beta").endswith("undefined symbol: only_here")
    assert site.says(capsys, 1)[0]["severity"] == "error"


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "is not there"), (b"", "not an ELF file"), (b"\x7fELF", "not an ELF")],
)
def test_a_module_that_is_gone_or_cut_off(
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: bytes | None,
    says: str,
) -> None:
    site.install(tmp_path, "alpha", **package(tmp_path, "alpha", lib(tmp_path, "one"), "one"))
    module = site.site / f"alpha/_core{SUFFIX}"
    module.unlink()
    if content is not None:
        module.write_bytes(content)
    finding, *_ = site.says(capsys, 1)
    assert (finding["code"], finding["severity"]) == ("WF952", "error")
    assert f"`alpha/_core{SUFFIX}` " in finding["message"]
    assert says in finding["message"]
    assert "Error" in site.imports("alpha")


def test_no_handler_of_an_error_helps_where_a_truncated_module_crashes(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site.install(tmp_path, "alpha", **package(tmp_path, "alpha", lib(tmp_path, "one"), "one"))
    (site.site / "alpha/__init__.py").write_text(_TRIES)
    module = site.site / f"alpha/_core{SUFFIX}"
    content = module.read_bytes()
    module.write_bytes(content[:20])
    assert {finding["severity"] for finding in site.says(capsys, 0)} == {"note"}
    assert not site.imports("alpha")
    module.write_bytes(content[: len(content) // 4])
    finding, *_ = site.says(capsys, 1)
    assert finding["message"].endswith(f"`alpha/_core{SUFFIX}` cannot be loaded: truncated")
    command = [str(site.root / "bin/python"), "-c", "import alpha"]
    assert subprocess.run(command, check=False, capture_output=True).returncode < 0


def test_no_handler_of_an_error_helps_where_a_truncated_library_crashes(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = f"{OPENS.replace('ctypes.CDLL', 'try: ctypes.CDLL')}except OSError: pass\n"
    files: dict[str, Path | str] = {
        "alpha____init__.py": source,
        "alpha__libfoo.so.1": lib(tmp_path, "one"),
    }
    site.install(tmp_path, "alpha", **files)
    library = site.site / "alpha/libfoo.so.1"
    content = library.read_bytes()
    library.write_bytes(content[: len(content) // 4])
    finding, *_ = site.says(capsys, 1)
    assert finding[
        "message"
    ] == "importing `alpha` fails: `alpha/libfoo.so.1` cannot be loaded: " + ("truncated")
    command = [str(site.root / "bin/python"), "-c", "import alpha"]
    assert subprocess.run(command, check=False, capture_output=True).returncode < 0


@pytest.mark.parametrize(
    ("symbol", "severity"), [("_ZN3tvm4jsonEv", "error"), ("from_the_program", "note")]
)
def test_a_library_opened_by_a_name_that_is_not_known_refers_to_what_nothing_defines(
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    symbol: str,
    severity: str,
) -> None:
    """As apache-tvm 0.25.0 with a tvm-ffi that is newer than it."""
    ffi = lib(tmp_path, "stays", name="libffi_.so")
    full = lib(tmp_path / "full", "stays", symbol, name="libffi_.so")
    code = f"int {symbol}(void); int stays(void); int go(void) {{ return {symbol}() + stays(); }}"
    user = shared_object(tmp_path / "libuser.so", code, needed=[full], runpath="$ORIGIN")
    source = "import ctypes, os\nctypes.CDLL(os.environ.get('LIBRARY') or os.sep.join(find()))\n"
    files: dict[str, Path | str] = {
        "alpha____init__.py": f"find = lambda: sorted({{*__path__, 'libuser.so'}})\n{source}",
        "alpha__libuser.so": user,
        "alpha__libffi_.so": ffi,
    }
    site.install(tmp_path, "alpha", **files)
    (finding,) = site.says(capsys, int(severity == "error"))
    assert (finding["code"], finding["severity"]) == ("WF952", severity)
    assert finding["message"].startswith("what opens `alpha/libuser.so` fails: ")
    assert demangle(symbol) in finding["message"]
    assert "undefined symbol" in site.imports("alpha")


@pytest.mark.each_run("flags0-*", "flags1-values4-*")
@pytest.mark.parametrize(
    ("values", "is_told"),
    [
        ((".quad 1", ".quad 2"), True),
        ((".quad 0", ".quad 2"), True),
        ((".quad 1", ".quad 1"), False),
        ((".quad alpha_data", ".quad beta_data"), False),  # a relocation writes it
        ((".quad alpha_data + 4", ".quad beta_data"), False),
    ],
)
@pytest.mark.parametrize("flags", [(), ("-Wl,-z,pack-relative-relocs",)])
def test_unique_data_of_equal_size_and_another_value(  # noqa: PLR0913 - cases
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    values: tuple[str, str],
    flags: tuple[str, ...],
    *,
    is_told: bool,
) -> None:
    for name, value in zip(("alpha", "beta"), values, strict=True):
        library = with_unique_data(tmp_path, name, 8, flags=flags, content=value)
        site.install(tmp_path, name, **package(tmp_path, name, library, f"{name}_data"))
    findings = site.says(capsys, 1 if is_told else 0)
    assert [one["code"] for one in findings] == (["WF954"] if is_told else [])
    assert all("begins with two different values" in one["message"] for one in findings)


@pytest.mark.each_run("int pack_(void) { return 2; }-*", "int pack_(void) { return 1; }-*")
@pytest.mark.parametrize(
    ("definition", "severity"),
    [
        ("int pack_(void) { return 2; }", "note"),
        ("int pack_(void) { return 1; }", None),
        ("int pack_(void) { return 1; } int pad(void) { return 4; }", None),
        ("__attribute__((weak)) int pack_(void) { return 2; }", "note"),
    ],
)
def test_a_function_of_equal_size_and_other_code(
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    definition: str,
    severity: str | None,
) -> None:
    user = f"{definition} int go(void) {{ return pack_(); }}"
    sources = {"ga": ("int pack_(void) { return 1; }", "RTLD_GLOBAL"), "gb": (user, "RTLD_LOCAL")}
    for name, (source, mode) in sources.items():
        library = shared_object(tmp_path / f"lib{name}.so", source)
        path = f"os.path.dirname(__file__) + '/lib{name}.so'"
        files: dict[str, Path | str] = {
            f"{name}____init__.py": f"import ctypes, os\nctypes.CDLL({path}, mode=ctypes.{mode})\n",
            f"{name}__lib{name}.so": library,
        }
        site.install(tmp_path, name, **files)
    findings = [one for one in site.says(capsys, 0) if one["code"] == "WF955"]
    assert [one["severity"] for one in findings] == ([severity] if severity else [])
    assert run(["doctor", str(site.root), "--prove"]) == 0
    assert ("note[WF955]" in capsys.readouterr().out) is (severity is not None)


@pytest.mark.parametrize(
    ("accepted", "severity"), [("{2}", "error"), ("{1, 2}", "note"), ("set()", "note")]
)
def test_what_is_seen_to_break_an_import_is_an_error(
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    accepted: str,
    severity: str,
) -> None:
    """It works alone, and raises after the other one; what raises alone has another reason."""
    check = f"if lib.go() not in {accepted}: raise ImportError('other code')\n"
    user = "int pack_(void) { return 2; } int go(void) { return pack_(); }"
    for name, source, mode, then in (
        ("ga", "int pack_(void) { return 1; }", "RTLD_GLOBAL", ""),
        ("gb", user, "RTLD_LOCAL", check),
    ):
        library = shared_object(tmp_path / f"lib{name}.so", source)
        path = f"os.path.dirname(__file__) + '/lib{name}.so'"
        opening = f"import ctypes, os\nlib = ctypes.CDLL({path}, mode=ctypes.{mode})\n"
        files: dict[str, Path | str] = {
            f"{name}____init__.py": opening + then,
            f"{name}__lib{name}.so": library,
        }
        site.install(tmp_path, name, **files)
    assert run(["doctor", str(site.root), "--prove", "-v"]) == int(severity == "error")
    text = capsys.readouterr().out
    assert f"{severity}[WF955]" in text
    assert ("proof: seen: ImportError: other code" in text) is ("1" not in accepted)


@pytest.mark.parametrize("requires", ["", "beta>=0"])
def test_a_symbol_that_a_requirement_defines_is_to_be_linked_from_there(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str], requires: str
) -> None:
    """In what is not required, the name is there by coincidence."""
    core = extension(tmp_path / "_core.so", "_core", calls=["one"])
    files: dict[str, Any] = {f"alpha___core{SUFFIX}": core, "alpha____init__.py": IMPORTS}
    site.install(tmp_path, "alpha", **files)
    site.install(tmp_path, "beta", **{"beta__libone.so": lib(tmp_path, "one")})
    metadata = site.site / "alpha-1.0.dist-info/METADATA"
    metadata.write_text(metadata.read_text() + f"Requires-Dist: {requires}\n" * bool(requires))
    (finding,) = site.says(capsys, 1)
    way = f"must link `alpha/_core{SUFFIX}` with `beta/libone.so`"
    assert (way in finding["hint"]) is bool(requires)


@pytest.mark.parametrize("mode", ["", ", 258", ", ctypes.RTLD_LOCAL", ", ctypes.RTLD_GLOBAL"])
def test_only_what_is_opened_for_all_gives_others_its_symbols(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    core = extension(tmp_path / "_core.so", "_core", calls=["one"])
    path = "os.path.join(os.path.dirname(__file__), 'libone.so')"
    opening = f"import ctypes, os\nctypes.CDLL({path}{mode})\nfrom . import _core\n"
    files: dict[str, Path | str] = {"one____init__.py": opening, f"one___core{SUFFIX}": core}
    files["one__libone.so"] = lib(tmp_path, "one", name="libone.so")
    site.install(tmp_path, "one", **files)
    fails = bool(site.imports("one"))
    assert fails is ("LOCAL" in mode or not mode)
    codes = [finding["code"] for finding in site.says(capsys, int(fails))]
    assert codes == ["WF952"] * fails


def test_a_linked_package_folder_is_read_and_leads_where_its_target_is(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in profiles of Nix, and in Bazel: `$ORIGIN/..` is not site-packages."""
    core = lib(tmp_path, "one", name="libcore.so.4")
    source = "extern int one(void); int two(void) { return one(); }"
    user = shared_object(
        tmp_path / "libuse.so", source, needed=[core], runpath="$ORIGIN/../corelib/lib"
    )
    files: dict[str, Path | bytes] = {"corelib____init__.py": b""}
    site.install(tmp_path, "corelib", **files)
    (site.site / "corelib/lib").mkdir()
    shutil.copy(core, site.site / "corelib/lib")
    text = (
        b"import ctypes, pathlib\nctypes.CDLL(str(pathlib.Path(__file__).parent / 'libuse.so'))\n"
    )
    files = {"plain____init__.py": text, "plain__libuse.so": user}
    site.install(tmp_path, "plain", **files)
    assert site.imports("plain") == ""
    assert site.says(capsys, 0) == []
    (tmp_path / "store").mkdir()
    shutil.move(site.site / "plain", tmp_path / "store/hash-plain")
    (site.site / "plain").symlink_to(tmp_path / "store/hash-plain")
    assert "libcore.so.4: cannot open" in site.imports("plain")
    (finding,) = site.says(capsys, 1)
    assert (finding["code"], finding["file"]) == ("WF952", "plain/libuse.so")
    assert finding["notes"] == ["of plain 1.0"]


def test_the_verdict_says_what_was_not_looked_at(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = lib(tmp_path, "away", name="libaway.so")
    source = "int away(void); int go(void) { return away(); }"
    plugin = shared_object(tmp_path / "libplugin.so", source, needed=[gone])
    site.install(tmp_path, "alpha", **package(tmp_path, "alpha", lib(tmp_path, "one"), "one"))
    files: dict[str, Path | bytes] = {"beta____init__.py": b"", "beta__libplugin.so": plugin}
    site.install(tmp_path, "beta", **files)
    assert run(["doctor", str(site.root)]) == 0
    assert "1 object not judged, which no import is seen to open: " in capsys.readouterr().out
    (tmp_path / "src").mkdir()
    (site.site / "own.pth").write_text(f"# sources\n{tmp_path / 'src'}\nalpha\n")
    (site.site / "__editable__.demo.pth").write_text("import __editable___demo_finder; x()\n")
    (site.site / "hook.pth").write_text("import finds, alpha; finds.all()\n")
    (site.site / "finds.py").write_text("import sys\ndef all(): sys.meta_path.append(None)\n")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (site.site / "linked").symlink_to(tmp_path / "open")
    settings = site.root / "pyvenv.cfg"
    settings.write_text(settings.read_text().replace("packages = false", "packages = true"))
    assert run(["doctor", str(site.root)]) == 0
    assert "; not read: the system's distributions (pyvenv.cfg), " in capsys.readouterr().out
    assert run(["doctor", str(site.root), "--output-format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["not_read"] == [
        "the system's distributions (pyvenv.cfg)",
        "an editable install (__editable__.demo.pth)",
        "what an import hook finds (hook.pth)",
        f"{tmp_path / 'src'} (own.pth)",
        f"{tmp_path / 'open'}, as others can change it",
    ]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("alpha.pth", "import alpha"),
        ("opens.pth", "import ctypes, sys; ctypes.CDLL({folder!r} + '/alpha/libfoo.so.1')"),
        ("sitecustomize.py", "from alpha import _core"),
    ],
)
def test_what_python_runs_when_it_starts_comes_before_every_import(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str, text: str
) -> None:
    if path == "sitecustomize.py" and find_spec("sitecustomize"):
        pytest.skip("this Python brings its own, as Debian's does")
    for name, functions in (("alpha", ["foo"]), ("beta", ["foo", "foo_new"])):
        library = lib(tmp_path / name, *functions)
        imports = "from . import _core"
        files = package(tmp_path, name, library, *functions, imports=imports)
        site.install(tmp_path, name, **files)
    (site.site / path).write_text(text.format(folder=str(site.site)) + "\n")
    found = [one for one in site.says(capsys, 1) if one["severity"] == "error"]
    assert [one["code"] for one in found] == ["WF953"]
    assert "foo_new" in found[0]["message"]
    assert site.imports("beta").endswith("undefined symbol: foo_new")


def test_text_that_python_runs_when_it_starts_may_load_a_library(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = lib(tmp_path, "foo")
    alpha = package(tmp_path / "alpha", "alpha", library, "foo", imports="from . import _core")
    del alpha["alpha__libfoo.so.1"]
    site.install(tmp_path, "alpha", **alpha)
    beta = package(tmp_path / "beta", "beta", library, "foo", imports="from . import _core")
    site.install(tmp_path, "beta", **beta)
    texts = {"": 1, "exec('import coverage')": 1, "exec('import beta')": 0}
    for text, exit_code in texts.items():
        (site.site / "start.pth").write_text(f"import sys; {text}\n")
        (found,) = (one for one in site.says(capsys, 0) if one["code"] == "WF952")
        assert found["severity"] == ("warning" if exit_code else "note")
        assert run(["explain", "--site", str(site.root), "alpha._core"]) == exit_code
        capsys.readouterr()
        assert bool(site.imports("alpha")) is bool(exit_code)


@pytest.mark.parametrize(
    "call",
    [
        "exec(open(sys.prefix + '/text').read())",
        "exec(compile(open(sys.prefix + '/text').read(), '', 'exec'))",
        "eval(sys.implementation.name[:0] + '__import__(\"beta\")')",
        "__import__(''.join(['be', 'ta']))",
    ],
)
def test_text_that_is_not_known_may_open_anything_when_python_starts(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str], call: str
) -> None:
    """A text, or a name, that stands in the line is known."""
    library = lib(tmp_path, "foo")
    alpha = package(tmp_path / "alpha", "alpha", library, "foo", imports="from . import _core")
    del alpha["alpha__libfoo.so.1"]
    site.install(tmp_path, "alpha", **alpha)
    beta: dict[str, Path | str | bytes] = {"beta__libfoo.so.1": library, "beta____init__.py": ""}
    site.install(tmp_path, "beta", **beta)
    where = str(site.site / "beta/libfoo.so.1")
    (site.root / "text").write_text(f"import ctypes; ctypes.CDLL({where!r})")
    start = site.site / "start.pth"
    for known in ("exec('import beta')", """exec('if "A" in sys.path: import beta')"""):
        start.write_text(f"import sys; {known}\n")
        assert [one["severity"] for one in site.says(capsys, 1)] == ["error"]
        assert site.imports("alpha")
    start.write_text(f"import sys; {call}\n")
    if "text" not in call:
        (site.site / "beta/__init__.py").write_text((site.root / "text").read_text())
    assert "error" not in [one["severity"] for one in site.says(capsys, 0)]
    assert not site.imports("alpha")


def test_a_folder_without_python_is_judged(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, functions in (("alpha", ["foo"]), ("beta", ["foo", "foo_new"]), ("gone", ["one"])):
        library = lib(
            tmp_path / name, *functions, name="libgone.so" if name == "gone" else "libfoo.so.1"
        )
        files = package(
            tmp_path,
            name,
            library,
            *functions,
            *["two"] * (name == "gone"),
            imports="from . import _core",
        )
        site.install(tmp_path, name, **files)
    target = tmp_path / "target"
    shutil.copytree(site.site, target)
    assert run(["doctor", str(target), "-v"]) == 1
    out = capsys.readouterr().out
    assert "importing `gone._core` fails" in out
    assert "`import beta._core` fails" in out


def test_a_library_that_is_installed_where_no_search_path_leads(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A warning where no source is seen to import the module, an error where an order names it."""
    files = package(tmp_path, "gpu", lib(tmp_path, "one"), "one", imports="")
    lender: dict[str, str | Path] = {"cuda__libfoo.so.1": files.pop("gpu__libfoo.so.1")}
    site.install(tmp_path, "cuda", **lender)
    site.install(tmp_path, "gpu", **files)
    (finding,) = site.says(capsys, 0)
    assert (finding["code"], finding["severity"]) == ("WF952", "warning")
    assert "it is installed as `cuda/libfoo.so.1`" in finding["hint"]
    assert "libfoo.so.1: cannot open shared object" in site.imports("gpu._core")
    (finding,) = site.says(capsys, 1, "--order", "gpu._core")
    assert finding["severity"] == "error"
    assert site.says(capsys, 0, "--order", "gpu")[0]["severity"] == "warning"


def test_two_libraries_of_one_distribution_that_differ(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files: dict[str, str | Path] = {}
    for name, functions in (("alpha", ["foo"]), ("beta", ["foo", "foo_new"])):
        library = lib(tmp_path / name, *functions)
        files |= package(tmp_path, name, library, *functions, imports="from . import _core")
    site.install(tmp_path, "alpha", **files)
    (finding,) = site.says(capsys, 0)
    assert (finding["code"], finding["severity"]) == ("WF953", "warning")
    assert site.imports("alpha", "beta").endswith("undefined symbol: foo_new")


@pytest.mark.parametrize(
    ("requires", "hint"),
    [
        ("beta>=0.5", f"`two`: install another release of beta {IF_ANY}: beta 1.0 lacks it"),
        ("beta>=2", "`two`: beta 1.0 is installed, alpha 1.0 requires beta>=2: install that"),
        (
            "beta>=",
            f"`two`: install another release of beta {IF_ANY}: beta 1.0 lacks it",
        ),
        (
            "",
            f"`two`: install another release of beta {IF_ANY}: beta 1.0 lacks it",
        ),
    ],
)
def test_the_hint_names_the_requirement_and_what_is_installed(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str], requires: str, hint: str
) -> None:
    full, rest = (lib(tmp_path / str(n), *["one", "two"][:n], name="libb.so") for n in (2, 1))
    core = shared_object(
        tmp_path / "_core.so",
        "int one(void), two(void); int PyInit__core(void) { return one() + two(); }",
        needed=[full],
        runpath="$ORIGIN/../beta",
    )
    lender: dict[str, str | Path] = {"beta____init__.py": "", "beta__libb.so": rest}
    site.install(tmp_path, "beta", **lender)
    user: dict[str, str | Path] = {"alpha____init__.py": "from . import _core\n"}
    site.install(tmp_path, "alpha", **{**user, f"alpha___core{SUFFIX}": core})
    metadata = next(site.site.glob("alpha-*.dist-info")) / "METADATA"
    metadata.write_text(
        metadata.read_text().rstrip() + f"\nRequires-Dist: {requires}\n" * bool(requires)
    )
    (finding,) = (one for one in site.says(capsys, 1) if one["severity"] == "error")
    assert finding["hint"] == hint
    assert site.imports("alpha").endswith("undefined symbol: two")


def test_nothing_is_fine_where_no_object_was_judged(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    user = shared_object(tmp_path / "libu.so", "", needed=[lib(tmp_path, "one", name="libaway.so")])
    files: dict[str, str | Path] = {"alpha____init__.py": "", "alpha__libu.so": user}
    site.install(tmp_path, "alpha", **files)
    assert run(["doctor", str(site.root), "-v"]) == 1
    out = capsys.readouterr().out
    assert "note[WF952]: what opens `alpha/libu.so` fails: `libaway.so`" in out
    assert "1 object not judged, which no import is seen to open" in out
    unknown = "import ctypes, os\nos.environ['X'] = ''\nctypes.CDLL(os.environ['X'] or input())\n"
    (site.site / "alpha/__init__.py").write_text(unknown)
    assert run(["doctor", str(site.root)]) == 1
    assert "warning[WF952]: what opens `alpha/libu.so` fails" in capsys.readouterr().out


def test_another_wheel_with_the_symbol_does_not_hide_the_own_library(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, symbol in (("mine", "_Z10helper_addii"), ("other", "helper_add")):
        source = f"int {symbol}(int a, int b) {{ return a + b; }}"
        library = shared_object(tmp_path / name / "libhelp.so.1", source)
        core = extension(tmp_path / name / "_core.so", "_core", calls=["helper_add"])
        files: dict[str, Any] = {f"{name}___core{SUFFIX}": core, f"{name}__libhelp.so.1": library}
        files[f"{name}____init__.py"] = IMPORTS
        site.install(tmp_path, name, **files)
    assert "undefined symbol: helper_add" in site.imports("mine._core")
    own = "`mine/libhelp.so.1` defines it as `_Z10helper_addii`, a function of C++"
    hints = {finding["file"]: finding["hint"] for finding in site.says(capsys, 1)}
    assert own in hints[f"mine/_core{SUFFIX}"]
    assert "with `other/libhelp.so.1`" in hints[f"other/_core{SUFFIX}"]
    assert run(["explain", "--site", str(site.root), "mine._core"]) == 1
    assert own in capsys.readouterr().out


def test_a_library_that_two_distributions_write_is_not_told_to_be_of_one(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = lib(tmp_path / "lib", "one")
    flags = ["-Wl,--unresolved-symbols=ignore-all"]
    for name, calls in (("alpha", ["one"]), ("beta", ["one", "two"])):
        how: Any = {"calls": calls, "runpath": "$ORIGIN/../shared", "flags": flags}
        core = extension(tmp_path / f"{name}.so", "_core", needed=[library], **how)
        files: dict[str, Any] = {"shared__libfoo.so.1": library, f"{name}___core{SUFFIX}": core}
        site.install(tmp_path, name, **files, **{f"{name}____init__.py": IMPORTS})
    assert "undefined symbol: two" in site.imports("beta")
    finding = next(each for each in site.says(capsys, 1) if each["code"] == "WF952")
    assert finding["notes"] == ["of beta 1.0"]
    assert "alpha" not in finding["hint"]


@pytest.mark.parametrize("is_of_file", [False, True])
def test_a_library_that_is_gone_is_not_taken_of_another_distribution(
    site: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_of_file: bool
) -> None:
    for name, function in (("alpha", "foo_a"), ("beta", "foo_b")):
        library = lib(tmp_path / name / "lib", function)
        site.install(tmp_path, name, **package(tmp_path, name, library, function))
    (wheel,) = (tmp_path / "wheels").glob("beta*")
    direct = json.dumps({"url": wheel.as_uri(), "archive_info": {}})
    if is_of_file:
        (next(site.site.glob("beta-*.dist-info")) / "direct_url.json").write_text(direct)
    (site.site / "beta/libfoo.so.1").unlink()
    assert "libfoo.so.1: cannot open" in site.imports("beta")
    (finding,) = (one for one in site.says(capsys, 1) if one["code"] == "WF952")
    assert "`libfoo.so.1`, which `beta/" in finding["message"]
    _, _, command = finding["hint"].rpartition("is gone: install that wheel again: pip ")
    folder = ["--no-index", *([] if is_of_file else ["--find-links", str(tmp_path / "wheels")])]
    pip_there = [sys.executable, "-m", "pip", "--python", str(site.root / "bin/python"), "-q"]
    subprocess.run([*pip_there, *shlex.split(command), *folder], check=True)
    assert site.imports("beta") == ""


@pytest.mark.parametrize(
    ("version", "direct"),
    [
        ("1.0+cu12", ""),
        ("1.0", '{"url": "file:///gone/beta-1.0-py3-none-any.whl", "archive_info": {}}'),
        ("1.0", '{"url": "-rhttps://example.org/beta.txt", "archive_info": {}}'),
        ("1.0", '{"url": "beta", "archive_info": {}}'),
        ("1.0", '{"url": "file:///src/beta", "dir_info": {"editable": true}}'),
        ("1.0", '{"url": "https://example.org/beta", "vcs_info": {"vcs": "git"}}'),
    ],
)
def test_no_command_installs_again_what_an_index_has_otherwise(
    version: str,
    direct: str,
    site: Environment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    site.install(tmp_path, "beta", **package(tmp_path, "beta", lib(tmp_path, "one"), "one"))
    folder = next(site.site.glob("beta-*.dist-info"))
    folder = folder.rename(folder.with_name(f"beta-{version}.dist-info"))
    text = (folder / "RECORD").read_text().replace("beta-1.0.dist-info", folder.name)
    (folder / "RECORD").write_text(text)
    if direct:
        (folder / "direct_url.json").write_text(direct)
    (site.site / "beta/libfoo.so.1").unlink()
    (finding,) = (one for one in site.says(capsys, 1) if one["code"] == "WF952")
    assert finding["hint"].endswith("is gone: install that wheel again, from where it came")
