"""Files and search directories of this machine, against its own ldconfig and loader."""

import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.oracles.installations.compare import differences
from tests.oracles.installations.dice import random_case
from tests.oracles.installations.predict import read_from_disk
from tests.oracles.installations.programs import programs_for
from tests.support.build import make_wheel, shared_object
from tests.support.loads import load_all
from wheelfix.elf.model import Elf, ElfType, Libc, Machine
from wheelfix.host.loader_config import loader_environment, loader_of, parse_cache
from wheelfix.host.reachable_files import Disk, read_file, read_process
from wheelfix.loader.load_values import How, SearchOutcome

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
    assert read_process(PYTHON, []).cache == first


def test_a_cut_cache_is_no_cache() -> None:
    assert parse_cache(b"", (64, Machine.X86_64)) == {}
    cut = b"glibc-ld.so.cache1.1" + struct.pack("=I", 1000) + bytes(30)
    assert parse_cache(cut, (64, Machine.X86_64)) == {}


def test_the_loader_itself_is_loaded() -> None:
    assert HERE is not None
    assert HERE.interpreter is not None
    loaded = read_process(PYTHON, []).loaded
    assert os.path.realpath(HERE.interpreter) in loaded.values()


def test_the_default_directories_and_hwcaps_are_those_the_loader_prints() -> None:
    assert HERE is not None
    assert HERE.interpreter is not None
    printed = subprocess.run(
        [HERE.interpreter, "--help"], capture_output=True, text=True, check=False
    ).stdout
    directories = re.findall(r"^  (/\S*) \(system search path\)$", printed, re.MULTILINE)
    if not directories:
        pytest.skip("before 2.33 the loader does not print its search path")
    levels = re.findall(r"^  (x86-64-v\d) \(supported, searched\)$", printed, re.MULTILINE)
    found = loader_environment(HERE)
    assert found.default_directories == tuple(directories)
    hwcaps = tuple(f"glibc-hwcaps/{level}" for level in levels)
    assert found.subdirectories[: len(hwcaps)] == hwcaps


def test_the_subdirectories_are_those_the_loader_searches(tmp_path: Path) -> None:
    log = tmp_path / "ld"
    variables = {"LD_LIBRARY_PATH": "/nowhere", "LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": str(log)}
    subprocess.run([PYTHON, "-c", ""], env=variables, check=False)
    text = "".join(file.read_text() for file in tmp_path.glob("ld.*"))
    searched = re.search(r"search path=(\S+)\s+\(LD_LIBRARY_PATH\)", text)
    assert searched is not None
    expected = [f"/nowhere/{sub}" for sub in read_process(PYTHON, []).subdirectories]
    assert searched[1].split(":") == [*expected, "/nowhere"]


def _elf(machine: int, *, bits: int = 64, interpreter: str | None = None) -> Elf:
    return Elf(
        bits=bits,
        little_endian=True,
        machine=machine,
        osabi=0,
        flags=0,
        type=ElfType.DYN,
        interpreter=interpreter,
    )


def test_each_byte_order_of_ppc64_has_its_own_loader() -> None:
    little = _elf(Machine.PPC64)
    assert loader_of(little) == "/lib64/ld64.so.2"
    assert loader_of(little._replace(little_endian=False)) == "/lib64/ld64.so.1"


def test_a_loader_on_an_unknown_machine_searches_the_usual_directories() -> None:
    unknown = _elf(0x1234)
    assert loader_of(unknown) is None
    found = loader_environment(unknown)
    assert found.default_directories == ("/lib64", "/usr/lib64", "/lib", "/usr/lib")
    assert (found.lib, found.platform, found.subdirectories) == ("lib64", None, ())
    narrow = loader_environment(_elf(0x1234, bits=32))
    assert narrow.default_directories == ("/lib", "/usr/lib")


def test_the_default_directories_are_those_compiled_into_the_loader(tmp_path: Path) -> None:
    loader = tmp_path / "ld.so"
    loader.write_bytes(b"\x7fELF%s/a/b/\0\0/nix/store/x-glibc-2.38/lib/\0/gnu/lib/\0/etc/x\0")
    found = loader_environment(_elf(Machine.X86_64, interpreter=str(loader)))
    assert found.default_directories == ("/nix/store/x-glibc-2.38/lib", "/gnu/lib")
    assert found.subdirectories == ()


def test_musl_reads_the_path_file_beside_its_loader(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    loader = str(tmp_path / "lib" / "ld-musl-x86_64.so.1")
    elf = _elf(Machine.X86_64, interpreter=loader)._replace(needed=("libc.so",))
    assert elf.libc is Libc.MUSL
    assert loader_environment(elf).default_directories == ("/lib", "/usr/local/lib", "/usr/lib")
    (tmp_path / "etc" / "ld-musl-x86_64.path").write_text("/one:/two\n/three\n")
    assert loader_environment(elf).default_directories == ("/one", "/two", "/three")


def test_a_file_that_cannot_be_opened_is_absent(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "libfifo.so")
    (tmp_path / "libtext.so").write_text("GROUP ( libinner.so )")
    (tmp_path / "libempty.so").touch()
    (tmp_path / "libloop.so").symlink_to("libloop.so")
    disk = Disk()
    disk.add_files(str(tmp_path), ["libfifo.so", "libtext.so", "libempty.so", "libloop.so"])
    root = os.path.realpath(tmp_path)
    assert disk.files == {}
    assert disk.broken == {
        f"{root}/libtext.so": SearchOutcome.NOT_ELF,
        f"{root}/libempty.so": SearchOutcome.NOT_ELF,
    }
    for path in ("none", "libtext.so"):
        assert disk.listing(str(tmp_path / path)) == frozenset()
    assert disk.resolve("relative") is None
    assert read_file(tmp_path / "libfifo.so") is None
    assert read_process(str(tmp_path / "libtext.so"), []).main is None


def test_a_file_with_broken_tables_is_absent(tmp_path: Path) -> None:
    path = shared_object(tmp_path / "lib.so", soname="lib.so")
    data = path.read_bytes()
    strsz = data.index(struct.pack("<q", 10), data.index(struct.pack("<q", 5)))
    path.write_bytes(data[: strsz + 8] + struct.pack("<Q", 1 << 40) + data[strsz + 16 :])
    assert read_file(path) is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_directory_is_empty(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    assert Disk().listing(str(closed)) == frozenset()


def test_parent_directories_are_those_of_the_link_target(tmp_path: Path) -> None:
    shared_object(tmp_path / "real" / "libx.so")
    (tmp_path / "real" / "deep").mkdir()
    (tmp_path / "link").symlink_to("real/deep")
    disk = Disk()
    root = os.path.realpath(tmp_path)
    assert disk.add(f"{tmp_path}/link/../libx.so") == f"{root}/real/libx.so"
    assert disk.links[f"{root}/link"] == "real/deep"


def test_what_the_objects_reach_is_read_with_links_and_misfits(tmp_path: Path) -> None:
    inner = shared_object(tmp_path / "real" / "libinner.so.1.0", soname="libinner.so.1")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "libinner.so.1").symlink_to(inner)
    (tmp_path / "bad").mkdir()
    text = tmp_path / "bad" / "libinner.so.1"
    user = shared_object(tmp_path / "libuser.so", "int g;", needed=[inner], runpath="$ORIGIN/links")
    one = load_all([str(user)], read_process(PYTHON, [str(user)]))[0]
    request = next(request for request in one.requests if request.name == "libinner.so.1")
    assert (request.result, request.how) == (os.path.realpath(inner), How.RUNPATH)
    assert not one.missing
    text.write_text("GROUP ( libinner.so )")
    disk = Disk()
    real = disk.add(str(user))
    assert real is not None
    bad = disk.process(disk.files[real], None, (str(text.parent),))
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
        env={**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"1 wheels, 4 objects, .* 2 failures and 0 for symbols, 0 diff", done.stdout)


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = programs_for(Libc.GLIBC, tmp_path_factory.mktemp("programs"))
    return pytest.skip(made) if isinstance(made, str) else made


@pytest.mark.each_run("500?", "501[0-5]")
@pytest.mark.parametrize("seed", range(5000, 5040))
def test_random_installations_are_read_as_the_loader_finds_them(
    seed: int, tmp_path: Path, programs: Any
) -> None:
    case = read_from_disk(random_case(seed, tmp_path, Libc.GLIBC, programs))
    assert differences(case) == []
