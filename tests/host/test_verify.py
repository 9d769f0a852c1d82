"""`wheelfix verify`: attempts in real environments, and the objects at fault."""

import hashlib
import json
import os
import platform
import subprocess
import sys
import sysconfig
import time
import venv
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from tests.support.build import (
    executable,
    extension,
    extension_source,
    make_wheel,
    shared_object,
)
from tests.support.memory import LIMIT, peak
from tests.support.naming import SUFFIX
from tests.support.repairing import repair
from tests.support.waiting import HANGS, LIMITS
from wheelfix.analysis.load_failures import BUILD_FOR_TAGS, HIDDEN, NAME_MODULE_ALIKE
from wheelfix.cli.app import run
from wheelfix.elf.model import Machine
from wheelfix.errors import ToolError, WheelfixError
from wheelfix.host.pythons import Interpreter, all_pythons, interpreter
from wheelfix.host.verify import verify
from wheelfix.host.verify_values import AttemptKind, Check, CheckStatus, Options, Verified
from wheelfix.loader.install_schemes import scheme_names
from wheelfix.loader.symbol_versions import ACCEPTS_UNVERSIONED, newer
from wheelfix.pipelines.repair_result import Status as Outcome
from wheelfix.reports.repair_text import summary
from wheelfix.rules.findings import Severity
from wheelfix.settings import Settings
from wheelfix.wheel.reader import open_wheel

VERSION = f"cp3{sys.version_info.minor}"
TAG = f"{VERSION}-{VERSION}-linux_x86_64"
CRASH = "__attribute__((constructor)) static void f(void) { *(volatile int *)0 = 1; }"
HANG = """
#include <unistd.h>
__attribute__((constructor)) static void f(void) { for (;;) pause(); }
"""


def verified(wheel: Path, **options: object) -> Verified:
    defaults = {"timeout": HANGS, **options}
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
        "demo/libexit.so": shared_object(
            folder / "libexit.so",
            "#include <unistd.h>\n__attribute__((constructor)) static void f(void) { _exit(0); }",
        ),
        "demo/foreign.so": extension(folder / "foreign.so", "foreign"),
        "demo/picky.so": extension(folder / "picky.so", "picky"),
        "demo-1.0.data/scripts/tool": executable(
            folder / "tool",
            "#include <stdio.h>\nint main(int c, char **v) { puts(v[1]); return c != 2; }",
        ),
        "demo-1.0.data/scripts/lost-tool": executable(
            folder / "lost-tool", needed=[gone], flags=[]
        ),
    }
    wheel = make_wheel(folder / "dist", tag=TAG, files=files)
    return verified(wheel)


def test_good_objects_are_ok(broken: Verified) -> None:
    loads, imports = by_member(broken), by_member(broken, AttemptKind.IMPORT)
    assert loads["demo/good.so"].status is CheckStatus.OK
    assert set(loads["demo/good.so"].loaded) == {"demo/good.so", "demo/libgood.so"}
    assert imports["demo/good.so"].status is CheckStatus.OK
    assert imports["demo/good.so"].what == "demo.good"
    run = by_member(broken, AttemptKind.RUN)["demo-1.0.data/scripts/tool"]
    assert (run.status, run.tail) == (CheckStatus.OK, "--version\n")


def test_every_object_is_tried(broken: Verified) -> None:
    assert len(by_member(broken)) == 8
    assert not broken.lost


def test_a_missing_library_is_explained(broken: Verified) -> None:
    check = by_member(broken)["demo/libmissing.so"]
    assert check.status is CheckStatus.MISSING
    assert "libgone.so" in check.message
    assert "libgone.so is needed by" in check.explanation[0]
    assert any("$ORIGIN/lib" in line for line in check.explanation)
    program = by_member(broken, AttemptKind.RUN)["demo-1.0.data/scripts/lost-tool"]
    assert program.status is CheckStatus.MISSING


def test_a_missing_symbol_is_named_with_its_object(broken: Verified) -> None:
    check = by_member(broken)["demo/libsymbol.so"]
    assert check.status is CheckStatus.UNDEFINED
    assert "libsymbol.so" in check.message
    assert "absent" in check.message


def test_a_crash_is_reported_with_its_signal(broken: Verified) -> None:
    check = by_member(broken)["demo/libcrash.so"]
    assert check.status is CheckStatus.CRASHED
    assert "SIGSEGV" in check.message
    assert "Segmentation fault" in check.tail


def test_an_exit_from_a_constructor_is_no_success(broken: Verified) -> None:
    """It was not killed by a signal, so that it did not crash either."""
    assert by_member(broken)["demo/libexit.so"].status is CheckStatus.NO_ANSWER


_WRITE = """
import json, os
for number in range(3, 20):
    try: os.write(number, (json.dumps(ANSWER) + "\\n").encode())
    except OSError: pass
"""
_OWN = "{'maps': [['1', '2', __file__.replace('__init__.py', '_core.so')]], 'answered': 1}"
_DAEMON = """
import subprocess, sys
code = 'import os, time\\nif not os.fork(): os.setsid(); time.sleep(987)'
subprocess.Popen([sys.executable, '-c', code], start_new_session=True).wait()
"""
_TEXTLESS = "class E(Exception):\n    def __str__(self): raise KeyError(1)\nraise E"
_ANOTHER = "import sys, types\nsys.modules['demo._core'] = types.ModuleType('demo._core')"
HOSTILE: dict[str, tuple[str, CheckStatus]] = {
    "it exits": ("import os; os._exit(0)", CheckStatus.NO_ANSWER),
    "it answers and exits": (f"{_WRITE.replace('ANSWER', _OWN)}os._exit(0)", CheckStatus.NO_ANSWER),
    "it answers": (_WRITE.replace("ANSWER", "{'maps': 5}"), CheckStatus.NO_ANSWER),
    "it forks": ("import os\nos.fork()", CheckStatus.OK),
    "it closes": ("import os\nos.closerange(3, 999)", CheckStatus.NO_ANSWER),
    "it execs": ("import os\nos.execv('/bin/true', ['true'])", CheckStatus.NO_ANSWER),
    "it has no text": (_TEXTLESS, CheckStatus.RAISED),
    "it leaves a daemon": (_DAEMON, CheckStatus.OK),
    "it is another": (_ANOTHER, CheckStatus.NO_ANSWER),
}
"""Sources of the package of an extension module, and how its import ends."""


@pytest.mark.each_run("it answers*", "it execs", "it leaves a daemon")
@pytest.mark.parametrize("how", HOSTILE)
def test_an_answer_is_believed_only_if_it_shows_the_object(how: str, tmp_path: Path) -> None:
    source, status = HOSTILE[how]
    module = extension(tmp_path / "_core.so", "_core")
    files: dict[str, str | Path] = {"demo/__init__.py": source, "demo/_core.so": module}
    start = time.monotonic()
    result = verified(make_wheel(tmp_path, tag=TAG, files=files), timeout=60.0)
    check = by_member(result, AttemptKind.IMPORT)["demo/_core.so"]
    assert check.status is status
    assert not any("PyInit" in line for line in check.explanation)
    if how == "it leaves a daemon":
        assert time.monotonic() - start < 60, "nothing waits for its end"
        running = (path.read_bytes() for path in _command_lines())
        assert not any(b"time.sleep(987)" in command for command in running)


def _command_lines() -> Iterator[Path]:
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            process.read_bytes()
            yield process


def test_a_wheel_without_metadata_is_not_installed_and_the_error_says_so(tmp_path: Path) -> None:
    whole = make_wheel(tmp_path, files={"demo/__init__.py": ""})
    (tmp_path / "lacking").mkdir()
    lacking = tmp_path / "lacking" / whole.name
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(lacking, "w") as target:
        for name in source.namelist():
            if not name.endswith("/METADATA"):
                target.writestr(name, source.read(name))
    result = verified(lacking)
    assert "cannot be installed: the wheel has no METADATA" in result.checks[0].message


@pytest.mark.parametrize("installer", ["venv-uv", "venv-pip"])
def test_a_wheel_that_the_installer_refuses_has_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], installer: str
) -> None:
    points = "[gui_scripts]\nq = demo\n"
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": ""}
    files["demo-1.0.dist-info/entry_points.txt"] = points
    wheel = make_wheel(tmp_path, tag="py3-none-any", files=files)
    assert run(["verify", "--scheme", installer, str(wheel)]) == 1
    out = capsys.readouterr().out
    assert f"{wheel.name}: failed" in out
    assert "installed 0 of 1 wheel: 1 refused by the installer" in out


@pytest.mark.parametrize("installer", ["venv-uv", "venv-pip"])
def test_the_message_of_the_installer_has_the_cause(tmp_path: Path, installer: str) -> None:
    """Not what it concludes from that, nor a caret below a text."""
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": ""}
    metadata = "Requires-Dist: other (bad\n"
    wheel = make_wheel(tmp_path, tag="py3-none-any", files=files, metadata=metadata)
    [check] = verified(wheel, schemes=(installer,)).checks
    assert check.status is CheckStatus.NOT_INSTALLED
    assert "parenthesis" in check.message.lower()


@pytest.mark.parametrize("installer", ["venv-uv", "venv-pip"])
def test_a_wheel_without_record_is_refused_by_the_installer(tmp_path: Path, installer: str) -> None:
    whole = make_wheel(tmp_path / "whole", tag="py3-none-any", files={"demo/__init__.py": ""})
    wheel = tmp_path / whole.name
    with zipfile.ZipFile(whole) as given, zipfile.ZipFile(wheel, "w") as without:
        for name in given.namelist():
            if not name.endswith("/RECORD"):
                without.writestr(name, given.read(name))
    [check] = verified(wheel, schemes=(installer,)).checks
    assert check.status is CheckStatus.NOT_INSTALLED
    assert "RECORD" in check.message


@pytest.mark.each_run("venv-uv-*", "venv-pip-a#b", "venv-pip--x")
@pytest.mark.parametrize("folder", ["a ; b", "a\nb", "a#b", "a @ b", "a[b]", "-x", "a%20b"])
@pytest.mark.parametrize("installer", ["venv-uv", "venv-pip"])
def test_the_name_of_the_folder_does_not_matter(
    tmp_path: Path, folder: str, installer: str
) -> None:
    wheel = make_wheel(tmp_path / folder, tag="py3-none-any", files={"demo/__init__.py": ""})
    other = make_wheel(tmp_path / folder, "other", tag="py3-none-any", files={"other.py": ""})
    assert not verified(wheel, schemes=(installer,), beside=(other,)).failed


@pytest.mark.parametrize("scheme", ["venv", "prefix", "user", "debian-system", "lib64"])
def test_a_module_that_the_standard_library_hides_is_not_found(tmp_path: Path, scheme: str) -> None:
    module = extension(tmp_path / "_heapq.so", "_heapq")
    wheel = make_wheel(tmp_path, tag=TAG, files={"_heapq.so": module})
    [check] = by_member(verified(wheel, schemes=(scheme,)), AttemptKind.IMPORT).values()
    assert (check.status, check.message) == (CheckStatus.NO_OBJECT, HIDDEN)
    assert check.explanation == ("its authors must give it another top-level name",)
    [ahead] = by_member(verified(wheel, schemes=("target",)), AttemptKind.IMPORT).values()
    assert ahead.status is CheckStatus.OK, "it is found by PYTHONPATH"


def test_a_hang_is_ended_in_time(tmp_path: Path) -> None:
    library = shared_object(tmp_path / "libhang.so", HANG)
    wheel = make_wheel(tmp_path, tag=TAG, files={"demo/libhang.so": library})
    check = by_member(verified(wheel, timeout=1.0))["demo/libhang.so"]
    assert check.status is CheckStatus.HUNG
    assert "1 second" in check.message


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


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("raise RuntimeError('broken on purpose')", "RuntimeError: broken on purpose"),
        ("one = 1\nassert one == 2", "AssertionError: line 2 of demo/__init__.py"),
        (
            "exec(compile('assert 0', '<made>', 'exec'))",
            "AssertionError: line 1 of demo/__init__.py",
        ),
    ],
)
def test_a_package_whose_import_fails_is_reported(
    tmp_path: Path, source: str, message: str
) -> None:
    """It has no object of its own, which the loader could have refused."""
    files: dict[str, bytes | str | Path] = {
        "demo/__init__.py": source,
        "demo/libgood.so": shared_object(tmp_path / "libgood.so", "int one(void) { return 1; }"),
    }
    checks = by_member(
        verified(make_wheel(tmp_path / "dist", tag=TAG, files=files)), AttemptKind.IMPORT
    )
    assert checks["demo/__init__.py"].status is CheckStatus.RAISED
    assert checks["demo/__init__.py"].message == message


def test_a_package_that_reads_options_is_given_none(tmp_path: Path) -> None:
    """As Kivy, which ends Python for one that it does not know."""
    source = "import sys\nif sys.argv != ['-c']:\n    sys.exit(2)\n"
    wheel = make_wheel(tmp_path, tag="py3-none-any", files={"demo/__init__.py": source})
    checks = by_member(verified(wheel), AttemptKind.IMPORT)
    assert checks["demo/__init__.py"].status is CheckStatus.OK


def test_what_a_package_prints_before_it_ends_python_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = "import sys\nprint('pip install extra')\nsys.exit(1)\n"
    wheel = make_wheel(tmp_path, tag="py3-none-any", files={"demo/__init__.py": source})
    assert run(["verify", str(wheel)]) == 1
    assert "import demo: raised an exception: SystemExit: 1: pip install extra\n" in (
        capsys.readouterr().out
    )


@pytest.mark.large
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
    tail = ""
    for limit in LIMITS:
        endless = tried(tmp_path / "prints", files, "demo/prints.so", timeout=float(limit))
        assert endless.status is CheckStatus.HUNG
        tail = endless.tail
        if "Fatal Python error" in tail:
            break
    assert "Fatal Python error: Aborted" in tail
    raised = tried(tmp_path / "speaks", files, "demo/speaks.so")
    assert raised.status is CheckStatus.RAISED
    assert len(raised.message) < 10_000


def tried(
    folder: Path, files: Mapping[str, bytes | str | Path], member: str, **options: object
) -> Check:
    """Return the import of one member, which is alone in a wheel."""
    alone = {name: files[name] for name in ("demo/__init__.py", member)}
    return by_member(
        verified(make_wheel(folder, tag=TAG, files=alone), **options), AttemptKind.IMPORT
    )[member]


def test_a_module_without_the_entry_point_of_its_name_is_imported_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    module = extension(tmp_path / "other.so", "other")
    files: dict[str, bytes | str | Path] = {
        "demo/__init__.py": "",
        f"demo/_core{suffix}": module,
        f"demo/whole/__init__{suffix}": extension(tmp_path / "whole.so", "whole"),
        "demo/libother.so": module,  # a library may have a module for those that embed Python
    }
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    imports = by_member(verified(wheel), AttemptKind.IMPORT)
    assert {member: check.status for member, check in imports.items()} == {
        f"demo/_core{suffix}": CheckStatus.NO_HOOK,
        f"demo/whole/__init__{suffix}": CheckStatus.OK,
    }
    command = ["repair", "--ignore", "WF311", "-w", str(tmp_path / "out"), str(wheel)]
    assert run([*command, "--verify"]) == 1
    assert "--no-verify" not in capsys.readouterr().err  # it would write what fails


def test_a_suffix_that_only_modules_have_makes_a_module_of_what_no_source_opens(
    tmp_path: Path,
) -> None:
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    other = suffix.replace(f"-{VERSION[2:]}", f"-3{sys.version_info.minor - 1}")
    plain = shared_object(tmp_path / "plain.so", "int plain;")
    both = extension(tmp_path / "both.so", "both")
    files: dict[str, bytes | str | Path] = {
        "demo/__init__.py": "OPENED = 'demo._opened'\ndef late():\n    from . import _lazy\n",
        f"demo/_bare{suffix}": plain,
        f"demo/_lazy{suffix}": plain,
        f"demo/_opened{suffix}": plain,
        f"demo/libplain{suffix}": plain,
        f"demo/other{other}": extension(tmp_path / "other.so", "other"),
        f"demo/both{other}": both,
        f"demo/both{suffix}": both,
    }
    result = verified(make_wheel(tmp_path / "dist", tag=TAG, files=files))
    imports = by_member(result, AttemptKind.IMPORT)
    assert {member: check.status for member, check in imports.items()} == {
        f"demo/_bare{suffix}": CheckStatus.NO_HOOK,
        f"demo/_lazy{suffix}": CheckStatus.NO_HOOK,
        f"demo/other{other}": CheckStatus.NO_OBJECT,
        f"demo/both{suffix}": CheckStatus.OK,
    }
    other_python = imports[f"demo/other{other}"]
    assert other_python.message.endswith(": it is for another Python")
    assert other_python.explanation == (f"its authors must {BUILD_FOR_TAGS}",)
    told = f"`PyInit__bare`: its authors must {NAME_MODULE_ALIKE}"
    assert imports[f"demo/_bare{suffix}"].explanation == (told,)


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
        "slow/__init__.py": "import time\n\ntime.sleep(999)\n",
        "slow/ext.so": extension(tmp_path / "ext.so", "ext"),
    }
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    blocks: list[str] = []
    limit = 0
    for limit in LIMITS:
        assert run(["verify", "-v", "--timeout", str(limit), str(wheel)]) == 1
        text = capsys.readouterr().out
        blocks = text.split("error[")[1:]
        if all(words in text for words in ("to fall", "waits for ever", ", line 3 in <module>")):
            break
    said = {block.split("`")[1]: block for block in blocks if "import `" in block}
    assert set(said) == {"demo/crash.so", "demo/hang.so", "demo/lost.so", "slow/ext.so"}
    assert "killed by signal 11 (SIGSEGV)" in said["demo/crash.so"]
    assert "note: when imported: in PyInit_crash" in said["demo/crash.so"]
    assert "| is about to fall" in said["demo/crash.so"]
    assert "most recent call first" not in said["demo/crash.so"]  # all frames are importlib's
    assert f"did not end within {limit} seconds" in said["demo/hang.so"]
    assert "| waits for ever" in said["demo/hang.so"]
    assert 'slow/__init__.py", line 3 in <module>' in said["slow/ext.so"]
    assert "most recent call first" in said["slow/ext.so"]
    assert "libgone.so: cannot open shared object file" in said["demo/lost.so"]
    assert "note: libgone.so is needed by lib/" in said["demo/lost.so"]
    assert "(RUNPATH, `$ORIGIN/lib`)" in said["demo/lost.so"]
    assert not any("import_probe.py" in block or "<frozen" in block for block in blocks)


def test_a_library_that_a_source_opens_is_not_that_of_an_object(tmp_path: Path) -> None:
    files: dict[str, bytes | str | Path] = {
        "demo/__init__.py": 'import ctypes\n\nctypes.CDLL("libextra.so.1")\n',
        "demo/ext.so": extension(tmp_path / "ext.so", "ext"),
    }
    check = tried(tmp_path / "dist", files, "demo/ext.so")
    assert check.status is CheckStatus.MISSING
    assert check.explanation == ("`demo/__init__.py`, line 3, opens it",)


@pytest.mark.each_run("venv")
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

    def tried(*, dependencies: bool) -> tuple[CheckStatus, CheckStatus]:
        options = Options(pythons=base, schemes=(scheme,), dependencies=dependencies, timeout=HANGS)
        (result,) = verify(wheel, options, environ)
        assert {check.member for check in result.checks} == {"demo/ext.so"}  # helper's are not ours
        loaded, imported = result.checks
        return loaded.status, imported.status

    assert tried(dependencies=False) == (CheckStatus.NEEDS, CheckStatus.NEEDS)
    assert tried(dependencies=True) == (CheckStatus.DEPENDENT, CheckStatus.OK)


@pytest.mark.each_run("venv")
@pytest.mark.parametrize("scheme", ["venv", "user", "target-pip", "lib64"])
def test_what_an_environment_has_is_beside_the_wheel(tmp_path: Path, scheme: str) -> None:
    """One library is in site-packages, the other in the environment's `lib`; a tool stays away."""
    inner = shared_object(tmp_path / "libinner.so", "int one(void){return 1;}")
    outer = shared_object(tmp_path / "libouter.so", "int two(void){return 2;}")
    helper = make_wheel(
        tmp_path / "shelf",
        name="helper",
        tag="py3-none-linux_x86_64",
        files={
            "helper/__init__.py": "",
            "helper/libinner.so": inner,
            "helper-1.0.data/data/lib/libouter.so": outer,
            "helper-1.0.data/scripts/tool": "#!python\n",
        },
    )
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    uv = ["uv", "pip", "install", "-q", "--offline", "--python", str(python), str(helper)]
    subprocess.run(uv, check=True, env={**os.environ, "UV_CACHE_DIR": str(tmp_path / "cache")})
    up = "../" * (1 if scheme == "target-pip" else 4)
    user = extension(
        tmp_path / "ext.so",
        "ext",
        needed=[inner, outer],
        calls=["one", "two"],
        runpath=f"$ORIGIN/../helper:$ORIGIN/{up}lib",
    )
    wheel = make_wheel(
        tmp_path / "dist",
        tag=TAG,
        files={"demo/__init__.py": "import helper", "demo/ext.so": user},
        metadata="Requires-Dist: helper\n",
    )
    base = (interpreter(sys.executable, os.environ).path,)
    alone = verified(wheel, schemes=(scheme,), pythons=base)
    assert [*map(str, alone.not_met)] == ["demo 1.0 requires `helper`: it is not installed"]
    assert [check.status for check in alone.checks] == [CheckStatus.NEEDS, CheckStatus.NEEDS]
    beside = verified(wheel, schemes=(scheme,), pythons=base, site=environment)
    assert not beside.not_met
    assert [check.status for check in beside.checks] == [CheckStatus.OK, CheckStatus.OK]
    assert run(["verify", str(wheel), "--scheme", scheme, "--site", str(environment)]) == 0
    if scheme == "venv":
        settings = Settings(verify=True, site=str(environment), wheel_dir=tmp_path / "out")
        assert repair(wheel, settings, os.environ).status is not Outcome.REJECTED


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
    assert (check.status, check.message) == (
        CheckStatus.NEEDS,
        "the module `no_such_distribution`",
    )
    assert check.is_undeclared
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
    assert check.status is CheckStatus.DEPENDENT
    assert "libfirst.so" in check.message
    assert not result.failed


@pytest.mark.each_run("target-pip", "debian-system")
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
    expected = CheckStatus.MISSING if scheme.startswith("target") else CheckStatus.OK
    assert found.status is expected, found
    if expected is CheckStatus.OK:
        assert set(found.loaded) == {"demo/ext.so", "demo-1.0.data/data/lib/demo/libdata.so"}
    assert by_member(result, AttemptKind.IMPORT)["demo/ext.so"].status is expected


@pytest.mark.parametrize("scheme", ["venv", "conda"])
def test_data_files_are_where_sys_prefix_is(tmp_path: Path, scheme: str) -> None:
    source = "import ctypes, sys\nctypes.CDLL(sys.prefix + '/lib/libdata.so')\n"
    library = shared_object(tmp_path / "libdata.so")
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": source}
    files["demo-1.0.data/data/lib/libdata.so"] = library
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    assert run(["verify", "--scheme", scheme, str(wheel)]) == 0


def test_a_data_file_that_pip_leaves_out_is_said_beside_the_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files: dict[str, bytes | str | Path] = {
        "demo/ext.so": extension(tmp_path / "ext.so", "ext"),
        "demo-1.0.data/data/lib/libdata.so": shared_object(tmp_path / "libdata.so"),
    }
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    assert run(["verify", "--scheme", "target-pip", str(wheel)]) == 0
    out = capsys.readouterr().out
    assert ": ok, but 1 object not installed (target-pip" in out
    assert "\n  not installed: demo-1.0.data/data/lib/libdata.so\n" in out


@pytest.mark.large
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
        assert [check.status for check in result.checks] == [CheckStatus.OK] * 3, result
        assert result.checks[2].tail.startswith("--version "), result


def test_a_result_comes_when_its_environment_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of a large wheel takes seconds: no progress line follows the verdict."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    wheel = make_wheel(tmp_path / "dist", files={"demo/__init__.py": "VALUE = 1"})
    for result in verify(wheel, Options(), os.environ):
        assert (result.scheme, [*scratch.iterdir()]) == ("venv", [])


@pytest.mark.large
def test_a_number_sign_in_a_path_is_no_fragment(tmp_path: Path) -> None:
    """For uv, what follows it is one of a URL."""
    module = extension(tmp_path / "ext.so", "ext")
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": "", "demo/ext.so": module}
    wheel = make_wheel(tmp_path / "c#" / "dist", tag=TAG, files=files)
    assert by_member(verified(wheel))["demo/ext.so"].status is CheckStatus.OK


def test_the_path_of_the_wheel_may_be_relative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: dict[str, bytes | str | Path] = {"demo/ext.so": extension(tmp_path / "ext.so", "ext")}
    make_wheel(tmp_path / "dist", tag=TAG, files=files)
    monkeypatch.chdir(tmp_path)
    assert run(["verify", "-q", f"dist/demo-1.0-{TAG}.whl", "--scheme", "venv,user"]) == 0


def test_a_scheme_that_the_tags_rule_out_is_refused(tmp_path: Path) -> None:
    tag = TAG.replace("linux_", "musllinux_1_2_")
    wheel = make_wheel(tmp_path, tag=tag, files={"demo.py": ""})
    with pytest.raises(WheelfixError, match="is not installed by `lib64`"):
        verified(wheel, schemes=("lib64",))
    with pytest.raises(WheelfixError, match="`nonsense` cannot be made here"):
        verified(wheel, schemes=("nonsense",))


def test_a_program_is_asked_for_its_version(tmp_path: Path) -> None:
    source = "#include <stdio.h>\nint main(int c, char **v) { puts(v[1]); return c == 2 ? 9 : 0; }"
    files: dict[str, bytes | str | Path] = {
        "demo-1.0.data/scripts/tool": executable(tmp_path / "tool", source)
    }
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    (check,) = verified(wheel).checks
    assert (check.status, check.tail) == (CheckStatus.EXITED, "--version\n")
    assert not check.failed


def test_a_wheel_for_another_python_is_refused(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, tag="cp38-cp38-linux_x86_64", files={"demo.py": ""})
    with pytest.raises(WheelfixError, match="cannot be installed for"):
        verified(wheel, pythons=(sys.executable,))


def test_a_wheel_for_a_newer_platform_is_refused_in_words_of_its_own(tmp_path: Path) -> None:
    """Not in those of the installer, with its temporary folders."""
    core = module(tmp_path, "_core", "return 0;")
    tag = f"cp311-abi3-manylinux_2_99_{os.uname().machine}"
    wheel = make_wheel(tmp_path, tag=tag, files={"demo/_core.so": core})
    with pytest.raises(ToolError, match="its platform tags do not allow this machine") as refused:
        verified(wheel)
    assert "uv" not in f"{refused.value.message} {refused.value.hint}"


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
    assert "imported 1 of 1 module\n" in done.stdout
    assert not [*home.iterdir(), *temporary.iterdir()]


def test_the_exit_codes_are_those_of_the_other_commands(tmp_path: Path) -> None:
    bad = make_wheel(
        tmp_path, tag=TAG, files={"demo/libcrash.so": shared_object(tmp_path / "c.so", CRASH)}
    )
    assert run(["verify", str(bad)]) == 1
    assert run(["verify", str(tmp_path / "absent.whl")]) == 2


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
        tried = "           verify: loaded 2 of 2 objects; imported 1 of 1 module"
        assert tried in summary(outcome).splitlines()
        return
    assert outcome.status is Outcome.REJECTED
    assert not list((tmp_path / "out").glob("*.whl"))
    assert [
        (finding.code, finding.member) for finding in outcome.remaining if finding.code == "verify"
    ] == [("verify", "demo/lib.so")]


def test_a_repair_says_what_its_verify_did_not_try(tmp_path: Path) -> None:
    raising = module(tmp_path, "x", 'PyErr_SetString(PyExc_ValueError, "no"); return 0;')
    wheel = make_wheel(tmp_path, tag=TAG, files={"demo/__init__.py": b"", "demo/x.so": raising})
    outcome = repair(wheel, Settings(wheel_dir=tmp_path / "out", verify=True), os.environ)
    assert outcome.output is not None
    [finding] = [finding for finding in outcome.remaining if finding.code == "verify"]
    assert (finding.severity, finding.message) == (
        Severity.WARNING,
        "every import raised: `ValueError: no`",
    )


def test_a_repair_after_which_code_raises_as_before_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a wheel that is named relative to where it is."""
    monkeypatch.chdir(tmp_path)
    built = extension(Path("x.so"), "x", rpath="/nowhere")
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": "raise OSError", "demo/x.so": built}
    wheel = make_wheel(Path(), tag=TAG, files=files)
    assert not wheel.is_absolute()
    outcome = repair(wheel, Settings(wheel_dir=Path("out"), verify=True), os.environ)
    assert outcome.output is not None, (outcome.error, outcome.remaining)


def test_a_repair_after_which_code_raises_is_not_written(tmp_path: Path) -> None:
    """The package compares the file of its module with what was built."""
    built = extension(tmp_path / "x.so", "x", rpath="/nowhere")
    digest = hashlib.sha256(built.read_bytes()).hexdigest()
    check = (
        "import hashlib, pathlib; found = pathlib.Path(__file__).with_name('x.so').read_bytes()\n"
        f"assert hashlib.sha256(found).hexdigest() == '{digest}'\n"
    )
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": check, "demo/x.so": built}
    wheel = make_wheel(tmp_path, tag=TAG, files=files)
    outcome = repair(wheel, Settings(wheel_dir=tmp_path / "out", verify=True), os.environ)
    assert outcome.status is Outcome.REJECTED
    [finding] = [finding for finding in outcome.remaining if finding.code == "verify"]
    assert (finding.severity, finding.hint) == (
        Severity.ERROR,
        "as built, the wheel does it without an error: the repair breaks it",
    )
    assert not list((tmp_path / "out").glob("*.whl"))


def said(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str]:
    """Return the exit code of `wheelfix verify`, and its first line."""
    code = run(["verify", *map(str, arguments)])
    return code, capsys.readouterr().out.partition("\n")[0].partition(" (")[0].partition(": ")[2]


def test_strict_says_that_it_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raising = module(tmp_path, "x", 'PyErr_SetString(PyExc_ValueError, "no"); return 0;')
    good = extension(tmp_path / "y.so", "y")
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": b"", "demo/x.so": raising}
    wheel = make_wheel(tmp_path, tag=TAG, files=files | {"demo/y.so": good})
    assert said(capsys, wheel) == (0, "ok")
    assert said(capsys, "--strict", wheel) == (1, "failed")
    alone = make_wheel(tmp_path, "alone", tag=TAG, files=files)
    assert said(capsys, alone) == (1, "every import raised")
    assert said(capsys, "--allow-untried", alone) == (0, "every import raised")


def test_a_module_that_only_the_wheel_could_have_is_not_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = extension(tmp_path / "y.so", "y")
    source = "from . import y\nfrom .missing import x\n"
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": source, "demo/y.so": good}
    lacking = make_wheel(tmp_path, tag=TAG, files=files)
    assert run(["verify", "--allow-untried", str(lacking)]) == 1
    said_of_it = "import `demo/y.so`\n  ModuleNotFoundError: No module named 'demo.missing'"
    assert f"error[not found]: {said_of_it}" in capsys.readouterr().out
    metadata = "Requires-Dist: far\n"
    other = make_wheel(tmp_path / "other", tag=TAG, files=files, metadata=metadata)
    assert said(capsys, other) == (1, "every import raised"), "what it requires may bring it"


def test_an_object_for_another_machine_is_not_a_missing_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """glibc passes over it, and says that the file is not there."""
    foreign = bytearray(extension(tmp_path / "y.so", "y").read_bytes())
    foreign[18:20] = Machine.AARCH64.to_bytes(2, "little")
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": "", "demo/y.so": bytes(foreign)}
    assert run(["verify", str(make_wheel(tmp_path, tag=TAG, files=files))]) == 1
    out = capsys.readouterr().out
    assert "error[refused by the loader]: load and import `demo/y.so`" in out
    assert "site-packages/demo/y.so: it is for another machine" in out
    assert "= note: its authors must build it for the machine of the tags\n" in out


def test_a_wheel_of_which_nothing_was_imported_is_not_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    extension_module = extension(tmp_path / "x.so", "x")
    wheel = make_wheel(
        tmp_path,
        tag=TAG,
        files={"demo/__init__.py": b"import nowhere", "demo/x.so": extension_module},
    )
    assert said(capsys, wheel) == (1, "not tried")
    assert said(capsys, "--allow-untried", wheel) == (0, "not tried")
    assert said(capsys, "--strict", wheel) == (1, "failed")
    empty = make_wheel(tmp_path, "empty", tag="py3-none-any", files={"empty.txt": b""})
    assert said(capsys, empty) == (1, "not tried")
    pure = make_wheel(tmp_path, "pure", tag="py3-none-any", files={"pure/__init__.py": b""})
    assert said(capsys, pure) == (0, "ok")
    for source, result in (("", (0, "ok")), ("1 / 0", (1, "every import raised"))):
        single = make_wheel(tmp_path, "one", tag="py3-none-any", files={"one.py": source})
        assert said(capsys, single) == result
    library = shared_object(tmp_path / "libx.so", "int x;")
    objects = make_wheel(tmp_path, "lib", tag=TAG, files={"lib/libx.so": library})
    assert said(capsys, objects) == (0, "ok")


@pytest.mark.each_run("False-demo/*", "True-space/demo.py*")
@pytest.mark.parametrize(
    ("package", "library"),
    [
        ("demo/__init__.py", "demo.libs/libx.so"),
        ("demo/__init__.py", "demo-1.0.data/data/share/libx.so"),
        ("demo-1.0.data/purelib/demo/__init__.py", "demo.libs/libx.so"),
        ("space/demo/__init__.py", "space/demo/libx.so"),
        ("space/demo.py", "demo.libs/libx.so"),
        ("demo.py", "demo.libs/libx.so"),
    ],
)
@pytest.mark.parametrize("beside", [False, True])
def test_what_opens_its_libraries_is_imported_wherever_those_are(
    package: str, library: str, *, beside: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also beside an extension module of another package."""
    source = "import ctypes\nctypes.CDLL('libgone.so.7')\n"
    files: dict[str, bytes | str | Path] = {
        package: source,
        library: shared_object(tmp_path / "libx.so", "int x;"),
    }
    if beside:
        files |= {"other/__init__.py": "", "other/y.so": extension(tmp_path / "y.so", "y")}
    assert run(["verify", str(make_wheel(tmp_path, tag=TAG, files=files))]) == 1
    assert f"error[missing library]: import `{package}`" in capsys.readouterr().out


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
    assert "loaded 2 of 3 objects: 1 loaded only with others" in out
    assert "libsecond.so: loaded only with others: alone: " in out
    assert "undefined symbol: one" in out


GIL_WARNING = (
    "The global interpreter lock (GIL) has been enabled to load module '{}', which has not"
)


def test_the_module_that_enables_the_gil_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`demo.pth` makes this Python look free-threaded, and `enabler` no longer.

    Three modules are imported: one that enables it, one whose package imports that one before, and
    one whose package imports a module of another distribution that does.
    """
    enabler = (
        "import sys, warnings\ndef enable(name):\n"
        f"    sys._is_gil_enabled = lambda: True; warnings.warn({GIL_WARNING!r}.format(name))\n"
    )
    files: dict[str, bytes | str | Path] = {
        "demo.pth": "import sys; sys._is_gil_enabled = lambda: False",
        "enabler.py": enabler,
        "demo/__init__.py": "import enabler; enabler.enable('demo.first'); import demo.first",
        "other/__init__.py": "import enabler; enabler.enable('numpy._core')",
        "sound/__init__.py": "",
    }
    for package, name in (("demo", "first"), ("demo", "second"), ("other", "a"), ("sound", "b")):
        files[f"{package}/{name}.so"] = extension(tmp_path / f"{name}.so", name)
    result = verified(make_wheel(tmp_path / "dist", tag=TAG, files=files))
    found = {c.what: (c.status, c.failed) for c in result.checks if c.kind is AttemptKind.IMPORT}
    assert found == {
        "demo.first": (CheckStatus.GIL, True),
        "demo.second": (CheckStatus.OK, False),
        "other.a": (CheckStatus.GIL_OF_OTHERS, False),
        "sound.b": (CheckStatus.OK, False),
    }
    assert run(["verify", str(tmp_path / "dist")]) == 1
    out = capsys.readouterr().out
    assert "error[enables the GIL]: import `demo/first.so`" in out
    assert "runs with the GIL: `numpy._core` of another distribution enables it" in out


@cache
def free_threaded() -> Interpreter | None:
    pythons = all_pythons(os.environ)
    return next((one for one in pythons if one.name.endswith("t")), None)


@pytest.mark.parametrize(("slot", "status"), [(True, CheckStatus.OK), (False, CheckStatus.GIL)])
def test_a_free_threaded_python_is_asked_itself(
    tmp_path: Path, status: CheckStatus, *, slot: bool
) -> None:
    python = free_threaded()
    if python is None:
        pytest.skip("no free-threaded Python is installed")
    include = subprocess.check_output(
        [python.path, "-c", "import sysconfig; print(sysconfig.get_path('include'))"], text=True
    ).strip()
    source = (
        "#include <Python.h>\nstatic PyModuleDef_Slot slots[] = {"
        + ("{Py_mod_gil, Py_MOD_GIL_NOT_USED}, " if slot else "")
        + "{0, NULL}};\nstatic struct PyModuleDef module = "
        '{PyModuleDef_HEAD_INIT, "ext", NULL, 0, NULL, slots};\n'
        "PyMODINIT_FUNC PyInit_ext(void) { return PyModuleDef_Init(&module); }"
    )
    module = shared_object(tmp_path / "ext.so", source, flags=[f"-I{include}", "-lc"])
    version = python.name.removeprefix("python").replace(".", "")
    tag = f"cp{version.removesuffix('t')}-cp{version}-linux_x86_64"
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": "", "demo/ext.so": module}
    result = verified(make_wheel(tmp_path / "dist", tag=tag, files=files), pythons=(python.path,))
    assert by_member(result, AttemptKind.IMPORT)["demo/ext.so"].status is status


def test_a_library_for_ld_preload_is_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    initial_exec = '__attribute__((tls_model("initial-exec")))'
    source = f"{initial_exec} __thread char x[1 << 20]; char *f(void) {{ return x; }}"
    library = shared_object(tmp_path / "libjemalloc.so", source)
    wheel = make_wheel(tmp_path, tag=TAG, files={"demo/libjemalloc.so": library})
    assert run(["verify", "--strict", str(wheel)]) == 0
    assert "for LD_PRELOAD: " in capsys.readouterr().out
    module_too = extension(tmp_path / "x.so", "x", needed=[library], calls=["f"], runpath="$ORIGIN")
    files = {"demo/libjemalloc.so": library, "demo/x.so": module_too}
    wheel = make_wheel(tmp_path, tag=TAG, files={"demo/__init__.py": b"", **files})
    assert run(["verify", str(wheel)]) == 1
    assert "static TLS block" in capsys.readouterr().out


@pytest.mark.parametrize("interpreter", ["", "/lib64/ld-linux-x86-64.so.2"])
def test_a_library_that_has_an_interpreter_is_loaded_and_not_run(
    tmp_path: Path, interpreter: str
) -> None:
    """So have libc and Qt5Core, to print their version; that of opencv-python is empty."""
    section = f'const char i[] __attribute__((section(".interp"))) = "{interpreter}";'
    library = shared_object(
        tmp_path / "libq.so.5", f"{section} int q(void) {{ return 5; }}", soname="libq.so.5"
    )
    module = extension(tmp_path / "m.so", "m", needed=[library], calls=["q"], runpath="$ORIGIN")
    for file in (library, module):
        file.chmod(0o755)
    files: dict[str, Path | str] = {
        "pkg/__init__.py": "from . import m",
        f"pkg/m{SUFFIX}": module,
        "pkg/libq.so.5": library,
    }
    result = verified(make_wheel(tmp_path, tag=TAG, files=files))
    assert [(check.kind, check.status) for check in result.checks] == [
        (AttemptKind.LOAD, CheckStatus.OK),
        (AttemptKind.IMPORT, CheckStatus.OK),
        (AttemptKind.LOAD, CheckStatus.OK),
    ]


def test_a_static_program_is_run_and_not_loaded(tmp_path: Path) -> None:
    program = executable(tmp_path / "tool", flags=["-static-pie"])
    files: dict[str, bytes | str | Path] = {
        "demo/__init__.py": "",
        "demo-1.0.data/scripts/tool": program,
        "demo/tool": program,
    }
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    result = verified(wheel)
    kinds = {(check.kind, check.member, check.status) for check in result.checks}
    assert kinds == {
        (AttemptKind.RUN, "demo-1.0.data/scripts/tool", CheckStatus.OK),
        (AttemptKind.RUN, "demo/tool", CheckStatus.OK),
        (AttemptKind.IMPORT, "demo/__init__.py", CheckStatus.OK),
    }
    with open_wheel(wheel) as archive:
        assert all(elf.is_executable for elf in archive.wheel.elfs.values())


def _lacking(folder: Path, number: int, metadata: str) -> Path:
    """Build a wheel of `number` modules that need a library in a folder of another wheel."""
    needed = shared_object(folder / "libother.so.1", "int one(void) { return 1; }")
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": ""}
    for name in (f"m{n}" for n in range(number)):
        user = extension(
            folder / name, name, needed=[needed], calls=["one"], runpath="$ORIGIN/../other/lib"
        )
        files[f"demo/{name}.so"] = user
    needed.unlink()
    return make_wheel(folder / "dist", tag=TAG, files=files, metadata=metadata)


def test_a_requirement_that_is_not_installed_is_named_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = _lacking(tmp_path, 6, "Requires-Dist: other\n")
    assert run(["verify", str(wheel)]) == 1
    out = capsys.readouterr().out
    assert "not tried: 6 files need other\n" in out
    assert "  demo 1.0 requires `other`: it is not installed\n" in out
    assert "  `--deps` asks the index" in out
    assert len(out.splitlines()) == 6
    helper = make_wheel(
        tmp_path / "with",
        name="other",
        tag="py3-none-linux_x86_64",
        files={
            "other/lib/libother.so.1": shared_object(
                tmp_path / "libother.so.1", "int one(void) { return 1; }"
            )
        },
    )
    assert run(["verify", "--with", str(helper), str(wheel)]) == 0


def test_the_load_and_the_import_of_an_object_are_one_block_of_few(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = _lacking(tmp_path, 6, "")
    assert run(["verify", str(wheel)]) == 1
    out = capsys.readouterr().out
    assert out.count("load and import `demo/m") == 3
    assert (out.count("error["), out.count("is needed by ")) == (1, 1)
    assert "`demo/m2.so` and 3 more\n" in out
    assert "loaded 0 of 6 objects: 6 missing libraries\n" in out
    run(["verify", "-v", str(wheel)])
    out = capsys.readouterr().out
    assert (out.count("load and import `demo/m"), out.count("is needed by ")) == (6, 6)


def test_what_a_library_lacks_is_one_block_with_the_module_that_finds_it_above_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The loader says `demo/../demo.libs/libv.so` of the second."""
    library = shared_object(
        tmp_path / "libv.so", "int nowhere(void); int v(void) { return nowhere(); }"
    )
    up = "$ORIGIN/../demo.libs"
    module = extension(tmp_path / "m.so", "m", calls=["v"], needed=[library], runpath=up)
    files: dict[str, bytes | str | Path] = {f"demo/m{SUFFIX}": module, "demo.libs/libv.so": library}
    assert run(["verify", str(make_wheel(tmp_path, tag=TAG, files=files))]) == 1
    out = capsys.readouterr().out
    assert (out.count("error["), out.count("its authors must")) == (1, 1)
    assert f"load and import `demo/m{SUFFIX}`, load `demo.libs/libv.so`\n" in out


def test_what_a_package_says_of_other_files_is_quoted_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": 'open("../data/../../model.bin")'}
    run(["verify", str(make_wheel(tmp_path, files=files, tag="py3-none-any"))])
    assert "directory: '../data/../../model.bin'" in capsys.readouterr().out


def test_a_wheel_that_metadata_does_not_allow_is_not_tried_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = _lacking(tmp_path, 1, "Requires-Dist: other>=2\n")
    library = shared_object(tmp_path / "libother.so.1", "int one(void) { return 1; }")
    files: dict[str, bytes | str | Path] = {"other/lib/libother.so.1": library}
    old, new = (
        make_wheel(tmp_path, "other", version, tag="py3-none-linux_x86_64", files=files)
        for version in ("1.0", "2.0")
    )
    assert run(["verify", str(wheel), "--with", str(old)]) == 1
    assert "other 1.0 is not installed with it: METADATA requires `other>=2`" in (
        capsys.readouterr().err
    )
    assert run(["verify", str(wheel), "--with", str(new)]) == 0
    assert "is not installed" not in "".join(capsys.readouterr())


@pytest.mark.parametrize("how", ["run", "site"])
def test_a_requirement_that_is_not_met_where_all_loads_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    """Of another wheel of the run, and of an environment: they are tried in the version there."""
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": "import other"}
    wheel = make_wheel(
        tmp_path, files=files, tag="py3-none-any", metadata="Requires-Dist: other>=2\n"
    )
    other = make_wheel(tmp_path, "other", tag="py3-none-any", files={"other/__init__.py": ""})
    site = tmp_path / "env/lib/python3.11/site-packages"
    zipfile.ZipFile(other).extractall(site)
    beside = [str(other)] if how == "run" else ["--site", str(site)]
    assert run(["verify", str(wheel), *beside]) == 0
    out = capsys.readouterr().out
    assert "\n  demo 1.0 requires `other>=2`: other 1.0 is installed\n" in out


@pytest.mark.parametrize("scheme", ["prefix", "user", "target-pip", "lib64", "venv"])
def test_what_the_base_python_may_have_is_not_said_to_be_absent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], scheme: str
) -> None:
    """A virtual environment does not find it."""
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": "import pip"}
    lines = "Requires-Dist: pip\n"
    wheel = make_wheel(tmp_path, files=files, tag="py3-none-any", metadata=lines)
    assert run(["verify", "--scheme", scheme, str(wheel)]) == (scheme == "venv")
    out = capsys.readouterr().out
    assert ("requires `pip`: it is not installed" in out) is (scheme == "venv")


@pytest.mark.parametrize("name", ["core.py", "core/__init__.py"])
def test_a_module_of_which_another_file_comes_first_is_not_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    files: dict[str, bytes | str | Path] = {
        "demo/__init__.py": "",
        f"demo/{name}": "",
        "demo/core.so": extension(tmp_path / "core.so", "core"),
    }
    if name == "core.py":  # importlib looks for extension modules first
        files["demo/core.abi3.so"] = files["demo/core.so"]
        name = "core.abi3.so"
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    assert run(["verify", str(wheel)]) == 1
    out = capsys.readouterr().out
    assert f"/site-packages/demo/{name}` has its name, and comes first\n" in out
    assert "no answer came" not in out


@pytest.mark.parametrize("how", ["is opened", "is needed", "is the module"])
def test_what_a_truncated_object_crashes_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    """The loader maps segments past the end of the file: SIGBUS."""
    code = "char big[500000] = {1}; int first(void) { return big[0]; }"
    big = shared_object(tmp_path / "libbig.so", code, soname="libbig.so")
    core = extension(tmp_path / "core", "_core", needed=[big], calls=["first"], runpath="$ORIGIN")
    big.write_bytes(big.read_bytes()[:40000])
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": "", "demo/libbig.so": big}
    name, files[f"demo/_core{SUFFIX}"] = "libbig.so", core
    if how == "is opened":
        files["demo/__init__.py"] = "import ctypes\nctypes.CDLL(__path__[0] + '/libbig.so')\n"
        files[f"demo/_core{SUFFIX}"] = extension(tmp_path / "plain", "_core")
    elif how == "is the module":
        files[name := f"demo/_core{SUFFIX}"] = files.pop("demo/libbig.so")
    assert run(["verify", str(make_wheel(tmp_path / "dist", tag=TAG, files=files))]) == 1
    out = capsys.readouterr().out
    assert "killed by signal 7 (SIGBUS)\n" in out
    assert f"{name}` is truncated: a segment ends at byte " in out
    assert "when imported" not in out
    assert "again, for this Python" not in out


def test_a_module_that_its_package_replaces_is_not_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which file of that name comes first is not the question."""
    core = extension(tmp_path / "core.so", "core")
    moved = 'import sys\nfrom .impl import core\nsys.modules["demo.core"] = core\n'
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": moved, "demo/core.so": core}
    files |= {"demo/impl/__init__.py": "", "demo/impl/core.so": core}
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    assert run(["verify", str(wheel)]) == 0
    out = capsys.readouterr().out
    assert "\n  imported 1 of 2 modules: 1 replaced by another module\n" in out
    assert "/demo/impl/core.so`\n" in out
    made = 'import sys, types\nfrom .impl import core\nsys.modules["demo.core"] = one = types.'
    made += "ModuleType('core')\none.__spec__ = type('S', (), {'origin': __path__[0] + '/core.so'})"
    native = files | {"demo/__init__.py": made}
    assert run(["verify", str(make_wheel(tmp_path / "native", tag=TAG, files=native))]) == 0
    assert "another module: an object or a source of its wheel makes one" in capsys.readouterr().out
    del files["demo/impl/core.so"]
    files["demo/impl/core.py"] = ""
    assert run(["verify", str(make_wheel(tmp_path / "py", tag=TAG, files=files))]) == 1
    assert ": not tried (" in capsys.readouterr().out


@pytest.mark.parametrize("end", ["\\n", "", "\\n{", "\\n{}\\n"])
def test_a_wheel_may_print_when_python_starts(tmp_path: Path, end: str) -> None:
    files: dict[str, bytes | str | Path] = {
        "demo/__init__.py": "",
        "demo/core.so": extension(tmp_path / "core.so", "core"),
        "sitecustomize.py": f"import sys\nsys.stdout.write('hello{end}')\n",
    }
    result = verified(make_wheel(tmp_path / "dist", tag=TAG, files=files))
    assert {check.status for check in result.checks} == {CheckStatus.OK}


def test_a_library_of_the_machine_that_a_source_opens_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = next(Path("/usr/lib").glob("*-linux-gnu*/liblzma.so.5"), None)
    if library is None:
        pytest.skip("this machine has no liblzma.so.5 in a folder of /usr/lib")
    source = "import ctypes\nctypes.CDLL('liblzma.so.5')\nctypes.CDLL('libc.so.6')\n"
    files: dict[str, bytes | str | Path] = {"demo.py": source}
    wheel = make_wheel(tmp_path, tag="py3-none-any", files=files)
    assert said(capsys, wheel) == (0, "ok")
    assert verified(wheel).of_machine == (os.path.realpath(library),)


def test_a_script_without_its_interpreter_says_which(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files: dict[str, bytes | str | Path] = {
        "demo/__init__.py": "",
        "demo-1.0.data/scripts/tool": "#!/nowhere/perl5 -w\nprint 1;\n",
    }
    wheel = make_wheel(tmp_path, tag="py3-none-any", files=files)
    assert run(["verify", str(wheel), "--output-format", "json"]) == 1
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert (result["failed"], result["result"]) == (True, "failed")
    (failed,) = (check for check in result["checks"] if check["status"] != "ok")
    assert "bin/tool: its interpreter /nowhere/perl5: No such file" in failed["message"]


def _of_versions(folder: Path) -> tuple[Path, Path]:
    """Return an extension module `_v` that refers to a version, and its library without it."""
    (folder / "map").write_text("V_2 { global: far_; };\n")
    far = "int far_(void) { return 1; }"
    flags = [f"-Wl,--version-script={folder / 'map'}"]
    library = shared_object(folder / "libfar.so", far, soname="libfar.so", flags=flags)
    module = extension(folder / "v.so", "_v", needed=[library], calls=["far_"], runpath="$ORIGIN")
    old = folder / "old" / "libfar.so"
    return module, shared_object(old, far, soname="libfar.so", libc=False)


@pytest.mark.skipif(
    not newer(ACCEPTS_UNVERSIONED, platform.libc_ver()[1]), reason="this glibc takes lost versions"
)
@pytest.mark.parametrize(
    ("is_needed", "way"), [(True, "bundle the `libfar.so`"), (False, "link the library")]
)
def test_where_the_loader_ends_the_process_its_message_and_what_to_do_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], way: str, *, is_needed: bool
) -> None:
    """A library without the versions that it had; and one that is not in DT_NEEDED any more."""
    module, library = _of_versions(tmp_path)
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": "from . import _v\n"}
    files |= {f"demo/_v{SUFFIX}": module} | ({"demo/libfar.so": library} if is_needed else {})
    if not is_needed:
        subprocess.run(["patchelf", "--remove-needed", "libfar.so", module], check=True)
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    assert run(["verify", str(wheel)]) == 1
    out = capsys.readouterr().out
    assert "error[refused by the loader]: load and import `demo/_v" in out
    assert "  it ended with exit code 127: Inconsistency detected by ld.so: " in out
    assert f"= note: `far_`: its authors must {way}" in out
    venv.create(tmp_path / "venv", symlinks=True)
    (site,) = tmp_path.glob("venv/lib/python*/site-packages")
    zipfile.ZipFile(wheel).extractall(site)
    assert run(["doctor", "--prove", str(site)]) == 1
    assert "proof: seen\n" in capsys.readouterr().out


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"no object\n"])
def test_a_damaged_module_is_imported_and_fails(tmp_path: Path, content: bytes) -> None:
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": "", f"demo/_a{SUFFIX}": content}
    result = verified(make_wheel(tmp_path, tag=TAG, files=files))
    assert [(c.kind, c.status) for c in result.checks] == [
        (AttemptKind.IMPORT, CheckStatus.REFUSED)
    ]


_BY_ANOTHER_NAME = """
import importlib.util, os, sys
file = os.path.join(os.path.dirname(__file__), "core.so")
sys.is_core = True
importlib.util.module_from_spec(importlib.util.spec_from_file_location("core", file))
del sys.is_core
"""


@pytest.mark.parametrize(
    ("source", "counts"),
    [
        (_BY_ANOTHER_NAME, "imported 1 of 2 modules: 1 raised an exception"),
        ("", "imported 0 of 1 module: 1 raised an exception"),
        ("raise OSError('no display')", "imported 0 of 1 module: 1 raised an exception"),
    ],
)
def test_a_package_all_of_whose_modules_raise_is_imported_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str, counts: str
) -> None:
    """As cv2, which loads its module under another name; an empty package shows nothing."""
    raises = 'PyErr_SetString(PyExc_ValueError, "no"); return 0;'
    refuses = f'if (!PySys_GetObject("is_core")) {{ {raises} }}'
    raising = module(tmp_path, "core", refuses)
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": source, "demo/core.so": raising}
    code = run(["verify", str(make_wheel(tmp_path / "dist", tag=TAG, files=files))])
    out = capsys.readouterr().out
    assert (code, f"  {counts}\n" in out) == (int(source != _BY_ANOTHER_NAME), True)
    assert (": every import raised (" in out) is bool(code)
    assert ("ValueError: no; the import of `demo` loads it\n" in out) is (not code)


def test_what_a_program_and_static_tls_lack_is_told_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    far = shared_object(tmp_path / "libfar.so.1", "int far_(void) { return 1; }")
    program = executable(
        tmp_path / "tool", "int far_(void); int main(void) { return far_(); }", needed=[far]
    )
    data = '__thread char x[30000] __attribute__((tls_model("initial-exec")));\n'
    source = data + extension_source("_t").replace("{", "{ x[1]++; ", 1)
    tls = shared_object(tmp_path / "t.so", source, flags=["-I", sysconfig.get_path("include")])
    files: dict[str, bytes | str | Path] = {
        "demo/__init__.py": "",
        f"demo/_t{SUFFIX}": tls,
        "demo-1.0.data/scripts/tool": program,
    }
    assert run(["verify", str(make_wheel(tmp_path / "dist", tag=TAG, files=files))]) == 1
    out = capsys.readouterr().out
    assert "= note: libfar.so.1 is needed by bin/tool\n" in out
    assert "= note: `libfar.so.1`: neither the wheel of demo 1.0 nor this machine has it" in out
    assert "= note: its authors must build it without `-ftls-model=initial-exec`\n" in out
