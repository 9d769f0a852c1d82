"""What is read of this machine is what its own tools say, and the model goes by it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.build import make_wheel, shared_object
from wheelfix.elf.model import Libc
from wheelfix.host.installed_files import read_file
from wheelfix.host.machine import describe
from wheelfix.loader.model import How, SearchOutcome
from wheelfix.loader.search import load_all

PYTHON = os.path.realpath(sys.executable)
SCRIPT = Path(__file__).parents[2] / "scripts" / "fidelity.py"
HERE = read_file(PYTHON)
pytestmark = pytest.mark.skipif(
    HERE is None or HERE.libc is not Libc.GLIBC, reason="this Python is not of glibc"
)


def test_the_cache_is_read_as_ldconfig_prints_it() -> None:
    ldconfig = shutil.which("ldconfig", path=f"{os.environ['PATH']}:/sbin:/usr/sbin")
    if ldconfig is None:
        pytest.skip("no ldconfig")
    printed = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=True).stdout
    first: dict[str, str] = {}
    line = re.compile(r"^\t(\S+) \(libc6,x86-64(?:, OS.*?)?\) => (\S+)$", re.MULTILINE)
    for name, path in line.findall(printed):
        first.setdefault(name, path)
    if not first:
        pytest.skip("not an x86-64 machine")
    assert describe(PYTHON, []).cache == first


def test_the_loader_itself_is_loaded() -> None:
    described = describe(PYTHON, [])
    assert HERE is not None
    assert HERE.interpreter is not None
    assert os.path.realpath(HERE.interpreter) in described.loaded.values()


def test_what_the_objects_reach_is_read_with_links_and_misfits(tmp_path: Path) -> None:
    inner = shared_object(tmp_path / "real" / "libinner.so.1.0", soname="libinner.so.1")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "libinner.so.1").symlink_to(inner)
    (tmp_path / "bad").mkdir()
    text = tmp_path / "bad" / "libinner.so.1"
    user = shared_object(tmp_path / "libuser.so", "int g;", needed=[inner], runpath="$ORIGIN/links")
    one = load_all([str(user)], describe(PYTHON, [str(user)]))[0]
    request = next(each for each in one.requests if each.name == "libinner.so.1")
    assert (request.result, request.how) == (os.path.realpath(inner), How.RUNPATH)
    assert not one.missing
    text.write_text("GROUP ( libinner.so )")
    bad = describe(PYTHON, [str(user)], library_path=(str(text.parent),))
    (missing,) = load_all([str(user)], bad)[0].missing
    assert missing.candidates[-1].outcome is SearchOutcome.NOT_ELF


def test_the_model_is_held_to_the_real_loader_by_a_script(tmp_path: Path) -> None:
    inner = shared_object(tmp_path / "libinner.so", soname="libinner.so")
    files: dict[str, bytes | str | Path] = {
        "demo/libinner.so": inner,
        "demo/libfound.so": shared_object(
            tmp_path / "found.so", "int g;", needed=[inner], runpath="$ORIGIN"
        ),
        "demo/libmissing.so": shared_object(tmp_path / "miss.so", "int g;", needed=[inner]),
        "demo-1.0.data/data/lib/libdata.so": shared_object(
            tmp_path / "data.so", "int g;", needed=[inner], rpath="$ORIGIN/nowhere"
        ),
    }
    wheel = make_wheel(tmp_path, tag="py3-none-any", files=files)
    done = subprocess.run(
        [sys.executable, SCRIPT, wheel],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"1 wheels, 4 objects, .* 2 failures and 0 for symbols, 0 diff", done.stdout)
