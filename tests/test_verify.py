"""`wheelfix verify` tries everything, and blames the right object."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from build import executable, extension, make_wheel, shared_object
from wheelfix.environments import interpreter
from wheelfix.errors import ToolError, WheelfixError
from wheelfix.outcome import Status as Outcome
from wheelfix.repairing import repair
from wheelfix.settings import Settings
from wheelfix.verify import Check, Kind, Options, Status, Verified, verify

VERSION = f"cp3{sys.version_info.minor}"
TAG = f"{VERSION}-{VERSION}-linux_x86_64"
CRASH = "__attribute__((constructor)) static void f(void) { *(volatile int *)0 = 1; }"
HANG = "__attribute__((constructor)) static void f(void) { for (;;) ; }"


def verified(wheel: Path, **options: object) -> Verified:
    defaults = {"timeout": 20.0, **options}
    (result,) = verify(wheel, Options(**defaults), os.environ)  # type: ignore[arg-type]
    return result


def by_member(result: Verified, kind: Kind = Kind.LOAD) -> dict[str, Check]:
    return {check.member: check for check in result.checks if check.kind is kind}


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Verified:
    """A wheel with one object of each kind, good and bad, verified once."""
    folder = tmp_path_factory.mktemp("broken")
    library = shared_object(folder / "libgood.so", "int one(void) { return 1; }")
    gone = shared_object(folder / "gone" / "libgone.so", soname="libgone.so")
    files: dict[str, bytes | str | Path] = {
        "demo/__init__.py": "",
        "demo/good.so": extension(
            folder / "good.so", "good", needed=[library], calls=["one"], runpath="$ORIGIN"
        ),
        "demo/libgood.so": library,
        "demo/libmissing.so": shared_object(
            folder / "libmissing.so", "int g;", needed=[gone], runpath="$ORIGIN/lib"
        ),
        "demo/libsymbol.so": shared_object(
            folder / "libsymbol.so", "int absent(void); int g(void) { return absent(); }"
        ),
        "demo/libcrash.so": shared_object(folder / "libcrash.so", CRASH),
        "demo/libhang.so": shared_object(folder / "libhang.so", HANG),
        "demo/libexit.so": shared_object(
            folder / "libexit.so",
            "#include <unistd.h>\n__attribute__((constructor)) static void f(void) { _exit(0); }",
        ),
        "demo/foreign.so": extension(folder / "foreign.so", "foreign"),
        "demo/picky.so": extension(folder / "picky.so", "picky"),
        "demo-1.0.data/scripts/tool": executable(
            folder / "tool",
            "#include <stdio.h>\nint main(int c, char **v) { puts(v[1]); return c == 3 ? 9 : 0; }",
        ),
        "demo-1.0.data/scripts/lost-tool": executable(
            folder / "lost-tool", needed=[gone], flags=[]
        ),
    }
    wheel = make_wheel(folder / "dist", tag=TAG, files=files)
    return verified(wheel, timeout=2.0)


def test_what_is_right_is_said_to_be_so(broken: Verified) -> None:
    loads, imports = by_member(broken), by_member(broken, Kind.IMPORT)
    assert loads["demo/good.so"].status is Status.OK
    assert set(loads["demo/good.so"].loaded) == {"demo/good.so", "demo/libgood.so"}
    assert imports["demo/good.so"].status is Status.OK
    assert imports["demo/good.so"].what == "demo.good"
    run = by_member(broken, Kind.RUN)["demo-1.0.data/scripts/tool"]
    assert (run.status, run.tail) == (Status.OK, "--version\n")


def test_every_object_is_tried(broken: Verified) -> None:
    assert len(by_member(broken)) == 9
    assert not broken.lost


def test_a_missing_library_is_explained(broken: Verified) -> None:
    check = by_member(broken)["demo/libmissing.so"]
    assert check.status is Status.MISSING
    assert "libgone.so" in check.message
    assert "libgone.so is needed by" in check.explanation[0]
    assert any("$ORIGIN/lib" in line for line in check.explanation)
    program = by_member(broken, Kind.RUN)["demo-1.0.data/scripts/lost-tool"]
    assert program.status is Status.MISSING


def test_a_missing_symbol_is_named_with_its_object(broken: Verified) -> None:
    check = by_member(broken)["demo/libsymbol.so"]
    assert check.status is Status.UNDEFINED
    assert "libsymbol.so" in check.message
    assert "absent" in check.message


def test_a_crash_is_told_by_its_signal(broken: Verified) -> None:
    check = by_member(broken)["demo/libcrash.so"]
    assert check.status is Status.CRASHED
    assert "SIGSEGV" in check.message
    assert "Segmentation fault" in check.tail


def test_an_exit_from_a_constructor_is_no_success(broken: Verified) -> None:
    assert by_member(broken)["demo/libexit.so"].status is Status.CRASHED


def test_a_hang_is_ended_in_time(broken: Verified) -> None:
    check = by_member(broken)["demo/libhang.so"]
    assert check.status is Status.HUNG
    assert "2 seconds" in check.message


def test_the_wheel_as_a_whole_has_failed(broken: Verified) -> None:
    assert broken.failed


def test_a_module_of_another_distribution_is_not_the_wheels_fault(tmp_path: Path) -> None:
    module = extension(tmp_path / "ext.so", "ext")
    files: dict[str, bytes | str | Path] = {
        "demo/__init__.py": "import no_such_distribution.part",
        "demo/ext.so": module,
    }
    result = verified(make_wheel(tmp_path / "dist", tag=TAG, files=files))
    (check,) = by_member(result, Kind.IMPORT).values()
    assert (check.status, check.message) == (Status.NEEDS, "no_such_distribution")
    assert not result.failed


def test_a_library_that_its_package_brings_first_is_fine(tmp_path: Path) -> None:
    library = shared_object(
        tmp_path / "libfirst.so", "int one(void) { return 1; }", soname="libfirst.so"
    )
    module = extension(tmp_path / "ext.so", "ext", needed=[library], calls=["one"])
    preload = "import ctypes, os; ctypes.CDLL(os.path.dirname(__file__) + '/lib/libfirst.so')"
    files: dict[str, bytes | str | Path] = {
        "demo/__init__.py": preload,
        "demo/ext.so": module,
        "demo/lib/libfirst.so": library,
    }
    result = verified(make_wheel(tmp_path / "dist", tag=TAG, files=files))
    check = by_member(result)["demo/ext.so"]
    assert check.status is Status.OK
    assert "libfirst.so" in check.message
    assert not result.failed


@pytest.mark.parametrize("scheme", ["prefix", "user", "target"])
def test_the_schemes_put_data_where_they_should(tmp_path: Path, scheme: str) -> None:
    library = shared_object(tmp_path / "libdata.so", soname="libdata.so")
    module = extension(
        tmp_path / "ext.so", "ext", needed=[library], runpath="$ORIGIN/../../../../lib/demo"
    )
    files: dict[str, bytes | str | Path] = {
        "demo/__init__.py": "",
        "demo/ext.so": module,
        "demo-1.0.data/data/lib/demo/libdata.so": library,
    }
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    result = verified(
        wheel, schemes=(scheme,), pythons=(interpreter(sys.executable, os.environ).path,)
    )
    found = by_member(result)["demo/ext.so"]
    expected = Status.MISSING if scheme == "target" else Status.OK
    assert found.status is expected, found


def test_what_is_run_can_be_chosen(tmp_path: Path) -> None:
    source = "#include <stdio.h>\nint main(int c, char **v) { puts(v[1]); return c == 3 ? 9 : 0; }"
    files: dict[str, bytes | str | Path] = {
        "demo-1.0.data/scripts/tool": executable(tmp_path / "tool", source)
    }
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    (check,) = verified(wheel, runs=(("tool", "a", "b"),)).checks
    assert (check.status, check.tail) == (Status.EXITED, "a\n")
    assert not check.failed


def test_a_wheel_for_another_python_is_refused(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, tag="cp38-cp38-linux_x86_64", files={"demo.py": ""})
    with pytest.raises(WheelfixError, match="cannot be installed for"):
        verified(wheel, pythons=(sys.executable,))


def test_a_python_that_is_none_is_refused(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, tag=TAG, files={"demo.py": ""})
    with pytest.raises(ToolError):
        verified(wheel, pythons=("/bin/false",))


def test_nothing_outside_the_environment_is_touched(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, tempfile; pathlib.Path('here').touch();"
        "pathlib.Path.home().joinpath('.config').mkdir(); tempfile.mkdtemp()"
    )
    module = extension(tmp_path / "ext.so", "ext")
    wheel = make_wheel(
        tmp_path / "dist", tag=TAG, files={"demo/__init__.py": code, "demo/ext.so": module}
    )
    home, temporary = tmp_path / "home", tmp_path / "tmp"
    home.mkdir()
    temporary.mkdir()
    path = os.pathsep.join(each for each in sys.path if each)
    variables = {"HOME": str(home), "TMPDIR": str(temporary), "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-m", "wheelfix", "verify", wheel],
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 module: 1 ok" in done.stdout
    assert not [*home.iterdir(), *temporary.iterdir()]


def test_the_exit_codes_are_those_of_the_other_commands(tmp_path: Path) -> None:
    bad = make_wheel(
        tmp_path, tag=TAG, files={"demo/libcrash.so": shared_object(tmp_path / "c.so", CRASH)}
    )
    path = os.pathsep.join(each for each in sys.path if each)

    def code(*arguments: str | Path) -> int:
        command = [sys.executable, "-m", "wheelfix", "verify", *arguments]
        environ = {**os.environ, "PYTHONPATH": path}
        return subprocess.run(command, env=environ, capture_output=True, check=False).returncode

    assert code(bad) == 1
    assert code(tmp_path / "absent.whl") == 2


@pytest.mark.parametrize("good", [True, False])
def test_repair_publishes_what_it_has_verified(tmp_path: Path, *, good: bool) -> None:
    library = shared_object(tmp_path / "build" / "lib.so", *([] if good else [CRASH]))
    module = extension(tmp_path / "ext.so", "ext")
    files: dict[str, bytes | str | Path] = {"demo/ext.so": module, "demo/lib.so": library}
    wheel = make_wheel(tmp_path, tag=TAG, files=files)
    settings = Settings(wheel_dir=tmp_path / "out", verify=True)
    outcome = repair(wheel, settings, os.environ)
    assert outcome.error is None
    if good:
        assert outcome.output is not None
        assert outcome.output.is_file()
        return
    assert outcome.status is Outcome.REJECTED
    assert not list((tmp_path / "out").glob("*.whl"))
    assert [(each.name, each.member) for each in outcome.remaining if each.name == "verify"] == [
        ("verify", "demo/lib.so")
    ]
