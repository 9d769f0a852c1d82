"""`wheelfix verify`: attempts in real environments, and the objects at fault."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.support.build import executable, extension, make_wheel, shared_object
from tests.support.memory import LIMIT, peak
from wheelfix.cli.app import run
from wheelfix.errors import ToolError, WheelfixError
from wheelfix.host.pythons import interpreter
from wheelfix.host.verify import verify
from wheelfix.host.verify_values import AttemptKind, Check, Options, Status, Verified
from wheelfix.loader.install_schemes import scheme_names
from wheelfix.pipelines.repair import repair
from wheelfix.pipelines.repair_result import Status as Outcome
from wheelfix.settings import Settings

VERSION = f"cp3{sys.version_info.minor}"
TAG = f"{VERSION}-{VERSION}-linux_x86_64"
CRASH = "__attribute__((constructor)) static void f(void) { *(volatile int *)0 = 1; }"
HANG = "__attribute__((constructor)) static void f(void) { for (;;) ; }"


def verified(wheel: Path, **options: object) -> Verified:
    defaults = {"timeout": 20.0, **options}
    (result,) = verify(wheel, Options(**defaults), os.environ)  # type: ignore[arg-type]
    return result


def by_member(result: Verified, kind: AttemptKind = AttemptKind.LOAD) -> dict[str, Check]:
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


def test_good_objects_are_ok(broken: Verified) -> None:
    loads, imports = by_member(broken), by_member(broken, AttemptKind.IMPORT)
    assert loads["demo/good.so"].status is Status.OK
    assert set(loads["demo/good.so"].loaded) == {"demo/good.so", "demo/libgood.so"}
    assert imports["demo/good.so"].status is Status.OK
    assert imports["demo/good.so"].what == "demo.good"
    run = by_member(broken, AttemptKind.RUN)["demo-1.0.data/scripts/tool"]
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
    program = by_member(broken, AttemptKind.RUN)["demo-1.0.data/scripts/lost-tool"]
    assert program.status is Status.MISSING


def test_a_missing_symbol_is_named_with_its_object(broken: Verified) -> None:
    check = by_member(broken)["demo/libsymbol.so"]
    assert check.status is Status.UNDEFINED
    assert "libsymbol.so" in check.message
    assert "absent" in check.message


def test_a_crash_is_reported_with_its_signal(broken: Verified) -> None:
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


def module(path: Path, name: str, body: str, **linked: object) -> Path:
    """An extension module whose initialisation runs `body`."""
    source = f"""
    #include <Python.h>
    #include <unistd.h>
    static struct PyModuleDef module = {{PyModuleDef_HEAD_INIT, "{name}", 0, 0, 0, 0, 0, 0, 0}};
    PyMODINIT_FUNC PyInit_{name}(void) {{ {body} return PyModule_Create(&module); }}
    """
    flags = ["-I", sysconfig.get_path("include")]
    return shared_object(path / f"{name}.so", source, flags=flags, **linked)  # type: ignore[arg-type]


def test_endless_output_is_ended_in_time_and_fills_no_memory(tmp_path: Path) -> None:
    """The output, a forged answer, and a long exception are all bounded."""
    prints = 'for (;;) { char all[60000] = {65}; write(1, all, 60000); write(2, "the end", 7); }'
    answers = "for (int fd = 3;; fd = fd == 19 ? 3 : fd + 1) write(fd, prints, 60000);"
    speaks = 'PyErr_Format(PyExc_OSError, "%*d", 100000000, 1); return NULL;'
    files: dict[str, bytes | str | Path] = {
        "demo/__init__.py": "",
        "demo/prints.so": module(tmp_path, "prints", prints),
        "demo/answers.so": module(
            tmp_path, "answers", f"static char prints[60000] = {{10}}; {answers}"
        ),
        "demo/speaks.so": module(tmp_path, "speaks", speaks),
    }
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    size, code = peak("verify", "--timeout", "2", wheel)
    assert code in {1, 2}
    assert size < LIMIT
    del files["demo/answers.so"]
    said = by_member(
        verified(make_wheel(tmp_path / "more", tag=TAG, files=files)), AttemptKind.IMPORT
    )
    assert said["demo/prints.so"].status is Status.HUNG
    assert "Fatal Python error: Aborted" in said["demo/prints.so"].tail
    assert said["demo/speaks.so"].status is Status.RAISED
    assert len(said["demo/speaks.so"].message) < 10_000


def test_a_failed_import_is_reported_with_object_output_and_explanation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = shared_object(tmp_path / "gone" / "libgone.so", soname="libgone.so")
    wait = 'write(2, "waits for ever\\n", 15); for (;;) pause();'
    fall = 'write(2, "is about to fall\\n", 17); *(volatile int *)0 = 1;'
    files: dict[str, bytes | str | Path] = {
        "demo/__init__.py": "",
        "demo/crash.so": module(tmp_path, "crash", fall),
        "demo/hang.so": module(tmp_path, "hang", wait),
        "demo/lost.so": module(tmp_path, "lost", "", needed=[gone], runpath="$ORIGIN/lib"),
        "slow/__init__.py": "import time\n\ntime.sleep(60)\n",
        "slow/ext.so": extension(tmp_path / "ext.so", "ext"),
    }
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    code = run(["verify", "--timeout", "1", str(wheel)])
    blocks = capsys.readouterr().out.split("error[")[1:]
    assert code == 1
    said = {block.split("`")[1]: block for block in blocks if ": import `" in block}
    assert set(said) == {"demo/crash.so", "demo/hang.so", "demo/lost.so", "slow/ext.so"}
    assert "killed by signal 11 (SIGSEGV)" in said["demo/crash.so"]
    assert "note: it happened in PyInit_crash" in said["demo/crash.so"]
    assert "| is about to fall" in said["demo/crash.so"]
    assert "did not end within 1 seconds" in said["demo/hang.so"]
    assert "| waits for ever" in said["demo/hang.so"]
    assert 'slow/__init__.py", line 3 in <module>' in said["slow/ext.so"]
    assert "libgone.so: cannot open shared object file" in said["demo/lost.so"]
    assert "note: libgone.so is needed by lib/" in said["demo/lost.so"]
    assert "runpath by `$ORIGIN/lib`" in said["demo/lost.so"]
    assert not any("verify_probe.py" in block or "<frozen" in block for block in blocks)


@pytest.mark.parametrize("scheme", ["venv", "user", "target-pip", "lib64"])
def test_requirements_are_installed_on_request(tmp_path: Path, scheme: str) -> None:
    inner = shared_object(
        tmp_path / "libinner.so", "int one(void){return 1;}", soname="libinner.so"
    )
    preload = "import ctypes, os; ctypes.CDLL(os.path.dirname(__file__) + '/libinner.so')"
    shelf = tmp_path / "shelf"
    make_wheel(
        shelf,
        name="helper",
        tag="py3-none-linux_x86_64",
        files={"helper/__init__.py": preload, "helper/libinner.so": inner},
    )
    user = extension(tmp_path / "ext.so", "ext", needed=[inner], calls=["one"])
    wheel = make_wheel(
        tmp_path / "dist",
        tag=TAG,
        files={"demo/__init__.py": "import helper", "demo/ext.so": user},
        metadata="Requires-Dist: helper\n",
    )
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PIP_FIND_LINKS": str(shelf),
        "PIP_NO_INDEX": "1",
        "UV_FIND_LINKS": str(shelf),
        "UV_OFFLINE": "1",
        "UV_CACHE_DIR": str(tmp_path / "cache"),
    }
    base = (interpreter(sys.executable, os.environ).path,)

    def tried(*, dependencies: bool) -> tuple[Status, Status]:
        options = Options(pythons=base, schemes=(scheme,), dependencies=dependencies, timeout=20.0)
        (result,) = verify(wheel, options, environ)
        assert {check.member for check in result.checks} == {"demo/ext.so"}  # helper's are not ours
        loaded, imported = result.checks
        return loaded.status, imported.status

    assert tried(dependencies=False) == (Status.MISSING, Status.NEEDS)
    assert tried(dependencies=True) == (Status.DEPENDENT, Status.OK)


def test_an_unavailable_dependency_is_named(tmp_path: Path) -> None:
    wheel = make_wheel(
        tmp_path,
        tag=TAG,
        files={"demo.py": ""},
        metadata="Requires-Dist: wheelfix-has-no-such-dependency\n",
    )
    environ = {**os.environ, "PIP_NO_INDEX": "1", "UV_OFFLINE": "1"}
    with pytest.raises(ToolError, match="wheelfix-has-no-such-dependency"):
        list(verify(wheel, Options(dependencies=True), environ))


def test_a_module_of_another_distribution_is_not_the_wheels_fault(tmp_path: Path) -> None:
    module = extension(tmp_path / "ext.so", "ext")
    files: dict[str, bytes | str | Path] = {
        "demo/__init__.py": "import no_such_distribution.part",
        "demo/ext.so": module,
    }
    result = verified(make_wheel(tmp_path / "dist", tag=TAG, files=files))
    (check,) = by_member(result, AttemptKind.IMPORT).values()
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
    assert check.status is Status.DEPENDENT
    assert "libfirst.so" in check.message
    assert not result.failed


@pytest.mark.parametrize(
    "scheme",
    [
        "prefix",
        "user",
        "target",
        "target-pip",
        "conda",
        "debian-system",
        "debian-prefix-pip",
        "lib64",
    ],
)
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
    expected = Status.MISSING if scheme.startswith("target") else Status.OK
    assert found.status is expected, found
    if expected is Status.OK:
        assert set(found.loaded) == {"demo/ext.so", "demo-1.0.data/data/lib/demo/libdata.so"}
    assert by_member(result, AttemptKind.IMPORT)["demo/ext.so"].status is expected


def test_every_scheme_that_the_tags_allow_is_tried(tmp_path: Path) -> None:
    script = "#!python\nimport demo.ext, sys; print(sys.argv[1], sys.executable)\n"
    files: dict[str, bytes | str | Path] = {
        "demo/__init__.py": "",
        "demo/ext.so": extension(tmp_path / "ext.so", "ext"),
        "demo-1.0.data/purelib/demo_pure.py": "",
        "demo-1.0.data/scripts/tool": script,
        "demo-1.0.data/headers/demo.h": "",
    }
    modes = {"demo-1.0.data/scripts/tool": 0o755}
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files, modes=modes)
    options = Options(schemes=("all",), pythons=(interpreter(sys.executable, os.environ).path,))
    results = list(verify(wheel, options, os.environ))
    assert [result.scheme for result in results] == list(scheme_names())
    for result in results:
        assert [check.status for check in result.checks] == [Status.OK] * 3, result
        assert result.checks[2].tail.startswith("--version "), result


def test_the_path_of_the_wheel_may_be_relative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: dict[str, bytes | str | Path] = {"demo/ext.so": extension(tmp_path / "ext.so", "ext")}
    make_wheel(tmp_path / "dist", tag=TAG, files=files)
    monkeypatch.chdir(tmp_path)
    for scheme in ("venv", "user"):
        base = interpreter(sys.executable, os.environ).path
        result = verified(Path("dist", f"demo-1.0-{TAG}.whl"), schemes=(scheme,), pythons=(base,))
        assert [check.status for check in result.checks] == [Status.OK, Status.OK]


def test_a_scheme_that_the_tags_rule_out_is_refused(tmp_path: Path) -> None:
    tag = TAG.replace("linux_", "musllinux_1_2_")
    wheel = make_wheel(tmp_path, tag=tag, files={"demo.py": ""})
    with pytest.raises(WheelfixError, match="is not installed by `lib64`"):
        verified(wheel, schemes=("lib64",))
    with pytest.raises(WheelfixError, match="`nonsense` cannot be made here"):
        verified(wheel, schemes=("nonsense",))


def test_the_command_to_run_can_be_chosen(tmp_path: Path) -> None:
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


def test_a_program_that_is_no_python_is_refused(tmp_path: Path) -> None:
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
    path = os.pathsep.join(entry for entry in sys.path if entry)
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
    path = os.pathsep.join(entry for entry in sys.path if entry)

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
    assert [
        (finding.name, finding.member) for finding in outcome.remaining if finding.name == "verify"
    ] == [("verify", "demo/lib.so")]


def said(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str]:
    """Return the exit code of `wheelfix verify`, and its first line."""
    code = run(["verify", *map(str, arguments)])
    return code, capsys.readouterr().out.partition("\n")[0].partition(" (")[0].partition(": ")[2]


def test_strict_says_that_it_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raising = module(tmp_path, "x", 'PyErr_SetString(PyExc_ValueError, "no"); return 0;')
    wheel = make_wheel(tmp_path, tag=TAG, files={"demo/__init__.py": b"", "demo/x.so": raising})
    assert said(capsys, wheel) == (0, "ok")
    assert said(capsys, "--strict", wheel) == (1, "failed")


def test_a_wheel_of_which_nothing_was_imported_is_incomplete(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    extension_module = extension(tmp_path / "x.so", "x")
    wheel = make_wheel(
        tmp_path,
        tag=TAG,
        files={"demo/__init__.py": b"import nowhere", "demo/x.so": extension_module},
    )
    assert said(capsys, wheel) == (0, "incomplete")
    assert said(capsys, "--strict", wheel) == (1, "failed")
    pure = make_wheel(tmp_path, "pure", tag="py3-none-any", files={"pure.py": b""})
    assert said(capsys, pure) == (0, "incomplete")
    library = shared_object(tmp_path / "libx.so", "int x;")
    objects = make_wheel(tmp_path, "lib", tag=TAG, files={"lib/libx.so": library})
    assert said(capsys, objects) == (0, "ok")


def test_a_command_of_no_program_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = executable(tmp_path / "demo-tool", "int main(void) { return 0; }")
    wheel = make_wheel(tmp_path, tag=TAG, files={"demo-1.0.data/scripts/demo-tool": tool})
    assert run(["verify", "--run", "demo-tol --help", str(wheel)]) == 2
    err = capsys.readouterr().err
    assert "--run demo-tol: no wheel has a program of that name" in err
    assert "did you mean `demo-tool`?" in err
    assert run(["verify", "--run", "nosuch", str(wheel)]) == 2
    assert "hint: they have `demo-tool`" in capsys.readouterr().err
    pure = make_wheel(tmp_path, "pure", tag="py3-none-any", files={"pure.py": b""})
    assert run(["verify", "--run", "demo-tool", str(pure), str(wheel)]) == 0
    capsys.readouterr()
    (cut := tmp_path / "cut-1.0-py3-none-any.whl").write_bytes(b"PK")
    assert run(["verify", "--run", "demo-tool", str(cut), str(wheel)]) == 2
    out, err = capsys.readouterr()
    assert err.count("error: ") == 1
    assert cut.name in err
    assert f"{wheel.name}: ok" in out


def test_a_library_that_loads_only_with_its_dependents_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = shared_object(tmp_path / "libfirst.so", "int one(void) { return 1; }")
    second = shared_object(
        tmp_path / "libsecond.so", "int one(void); int two(void) { return one() + 1; }"
    )
    user = extension(
        tmp_path / "x.so", "x", needed=[first, second], calls=["one", "two"], runpath="$ORIGIN"
    )
    files = {"demo/x.so": user, "demo/libfirst.so": first, "demo/libsecond.so": second}
    wheel = make_wheel(tmp_path, tag=TAG, files={"demo/__init__.py": b"", **files})
    assert run(["verify", "--strict", str(wheel)]) == 0
    out = capsys.readouterr().out
    assert "load   3 objects: 2 ok, 1 loads only with its dependents" in out
    assert "libsecond.so: loads only with its dependents: alone: " in out
    assert "undefined symbol: one" in out


def test_a_library_for_ld_preload_is_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    initial_exec = '__attribute__((tls_model("initial-exec")))'
    source = f"{initial_exec} __thread char x[1 << 20]; char *f(void) {{ return x; }}"
    library = shared_object(tmp_path / "libjemalloc.so", source)
    wheel = make_wheel(tmp_path, tag=TAG, files={"demo/libjemalloc.so": library})
    assert run(["verify", "--strict", str(wheel)]) == 0
    assert "needs LD_PRELOAD: " in capsys.readouterr().out
    module_too = extension(tmp_path / "x.so", "x", needed=[library], calls=["f"], runpath="$ORIGIN")
    files = {"demo/libjemalloc.so": library, "demo/x.so": module_too}
    wheel = make_wheel(tmp_path, tag=TAG, files={"demo/__init__.py": b"", **files})
    assert run(["verify", str(wheel)]) == 1
    assert "static TLS block" in capsys.readouterr().out
