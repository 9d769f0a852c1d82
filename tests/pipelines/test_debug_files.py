"""`strip` and `debug-symbols`: debuggers find what was stripped, and nothing is left on failure."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support import build, repairing
from tests.support.tools import needs
from wheelfix.elf.reader import read_elf
from wheelfix.errors import OutputError, SettingsError
from wheelfix.pipelines import debug_files
from wheelfix.pipelines.debug_files import DebugFile, publish_debug_files
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.settings import Settings, StripLevel
from wheelfix.system.tempfiles import PendingFile

INNER = """
static __attribute__((noinline)) int secret(int x) { return x + 41; }
int inner(void) { return secret(1); }
"""
MODULE = "demo/_core.cpython-311-x86_64-linux-gnu.so"
needs_gdb = needs("gdb")


def wheel_of(folder: Path, *flags: str, name: str = "demo", source: str = INNER) -> Path:
    """Return a wheel whose module needs a library of this machine."""
    inner = build.shared_object(
        folder / "lib" / "libinner.so.1", source, soname="libinner.so.1", flags=["-g", *flags]
    )
    module = build.extension(
        folder / "_core.so",
        "_core",
        needed=[inner],
        calls=["inner"],
        rpath=str(inner.parent),
        flags=["-g", *flags],
    )
    return build.make_wheel(folder / "dist", name=name, files={MODULE: module})


def repaired(
    wheel: Path, folder: Path, strip: StripLevel = StripLevel.ALL, **settings: Any
) -> Outcome:
    asked = Settings(
        wheel_dir=folder / "out", debug_symbols=str(folder / "symbols"), strip=strip, **settings
    )
    return repairing.repair(wheel, asked, os.environ)


def installed(outcome: Outcome, site: Path) -> tuple[Path, Path]:
    """Unpack the wheel; return the module and the grafted library."""
    assert outcome.status is Status.REPAIRED, outcome.error
    assert outcome.output is not None
    with zipfile.ZipFile(outcome.output) as archive:
        archive.extractall(site)
    (library,) = (site / "demo.libs").iterdir()
    return site / MODULE, library


def files_below(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def gdb(library: Path, folder: Path) -> str:
    """Return what gdb knows of a static function of the library, with this debug directory."""
    words = [f"set debug-file-directory {folder}", f"file {library}", "info line secret"]
    commands = [word for line in words for word in ("-ex", line)]
    done = subprocess.run(
        ["gdb", "-nx", "-batch", *commands], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def link_of(library: Path) -> str:
    command = ["readelf", "--string-dump=.gnu_debuglink", str(library)]
    said = subprocess.run(command, capture_output=True, check=True).stdout
    (name,) = re.findall(rb"\]\s+(\S+\.debug)", said)
    return os.fsdecode(name)


@needs_gdb
@pytest.mark.each_run("all")
@pytest.mark.parametrize("level", [StripLevel.DEBUG, StripLevel.ALL])
def test_gdb_finds_the_symbols_by_build_id_and_by_debuglink(
    tmp_path: Path, level: StripLevel
) -> None:
    outcome = repaired(wheel_of(tmp_path, "-Wl,--build-id=sha1"), tmp_path, level)
    module, library = installed(outcome, tmp_path / "site")
    assert library.name != "libinner.so.1", "renamed by the graft"
    for path in (module, library):
        elf = read_elf(path.read_bytes(), path.name)
        assert (elf.debug_size, elf.symtab) == (0, level is StripLevel.DEBUG)
    symbols = tmp_path / "symbols"
    assert "Line 2 of" in gdb(library, symbols)
    (empty := tmp_path / "empty").mkdir()
    assert "Line 2 of" not in gdb(library, empty)
    name = link_of(library)
    (debug,) = symbols.rglob(name)
    assert debug.parent.parent == symbols / ".build-id"
    if shutil.which("eu-unstrip"):  # which needs the sections of the repaired object
        subprocess.run(["eu-unstrip", library, debug, "-o", tmp_path / "whole.so"], check=True)
        assert read_elf((tmp_path / "whole.so").read_bytes(), "whole.so").debug_size
    shutil.copy(debug, library.with_name(name))
    assert "Line 2 of" in gdb(library, empty)
    library.with_name(name).write_bytes(debug.read_bytes() + b"another CRC")
    assert "Line 2 of" not in gdb(library, empty)
    code = "import _core; print(_core.value())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=module.parent, capture_output=True, text=True, check=True
    )
    assert done.stdout == "42\n"
    assert any("what was stripped from 2 objects" in text for text in outcome.messages)


@needs_gdb
def test_without_a_build_id_the_debug_file_has_the_name_of_the_object(tmp_path: Path) -> None:
    outcome = repaired(wheel_of(tmp_path, "-Wl,--build-id=none"), tmp_path)
    _, library = installed(outcome, tmp_path / "site")
    assert outcome.output is not None
    folder = tmp_path / "symbols" / outcome.output.stem
    assert set(files_below(folder)) == {f"{MODULE}.debug", f"demo.libs/{library.name}.debug"}
    shutil.copytree(folder, tmp_path / "site", dirs_exist_ok=True)
    assert "Line 2 of" in gdb(library, tmp_path / "nowhere")
    (said,) = (text for text in outcome.messages if "without a build-id" in text)
    assert f"cp -r {folder}/. SITE_PACKAGES" in said


@pytest.mark.parametrize("build_id", ["sha1", "none"])
def test_a_second_run_gives_the_same_files(tmp_path: Path, build_id: str) -> None:
    wheel = wheel_of(tmp_path, f"-Wl,--build-id={build_id}")
    first = repaired(wheel, tmp_path)
    assert first.output is not None
    symbols, made = files_below(tmp_path / "symbols"), first.output.read_bytes()
    again = repaired(wheel, tmp_path)
    assert again.output is not None
    assert files_below(tmp_path / "symbols") == symbols
    assert again.output.read_bytes() == made
    other = repaired(wheel, tmp_path / "other")
    assert other.output is not None
    assert files_below(tmp_path / "other" / "symbols") == symbols
    assert other.output.read_bytes() == made
    assert not any(name.endswith(".debug") for name in zipfile.ZipFile(first.output).namelist())


def test_two_wheels_share_the_debug_file_of_a_library(tmp_path: Path) -> None:
    wheel = wheel_of(tmp_path, "-Wl,--build-id=sha1")
    other = build.make_wheel(tmp_path / "dist", name="other", files={MODULE: tmp_path / "_core.so"})
    for path in (wheel, other):
        assert repaired(path, tmp_path).status is Status.REPAIRED
    assert len(files_below(tmp_path / "symbols")) == 2


@pytest.mark.parametrize("is_stripped_first", [True, False])
def test_other_debug_information_for_one_build_id_is_refused(
    tmp_path: Path, *, is_stripped_first: bool
) -> None:
    """The same library with and without DWARF: which of the two tells the truth is not known."""
    wheel = wheel_of(tmp_path, "-Wl,--build-id=sha1")
    library = tmp_path / "lib" / "libinner.so.1"
    whole = library.read_bytes()
    subprocess.run(["strip", "-g", str(library)], check=True)
    bare = library.read_bytes()
    first, second = (bare, whole) if is_stripped_first else (whole, bare)
    library.write_bytes(first)
    assert repaired(wheel, tmp_path).status is Status.REPAIRED
    symbols = files_below(tmp_path / "symbols")
    library.write_bytes(second)
    outcome = repaired(wheel, tmp_path)
    assert isinstance(outcome.error, OutputError)
    assert "another object with the same build-id" in outcome.error.message
    assert any(name in outcome.error.message for name in symbols)
    assert "demo.libs/libinner" in outcome.error.message
    assert files_below(tmp_path / "symbols") == symbols


FORGED = INNER.replace("secret", "forged")


@pytest.mark.parametrize("name", ["demo", "evil"])
def test_the_debug_file_of_another_object_stays(tmp_path: Path, name: str) -> None:
    """The forged object has build-id, addresses and sizes of the other, and a larger debug file."""
    flag = "-Wl,--build-id=0x1234567890abcdef"
    victim = build.shared_object(
        tmp_path / "victim.so", INNER, soname="libinner.so.1", flags=["-g", flag]
    )
    forged = build.shared_object(
        tmp_path / "forged.so", FORGED, soname="libinner.so.1", flags=["-g3", flag]
    )
    outcomes = [
        repaired(build.make_wheel(tmp_path / "dist", name=wheel, files={MODULE: path}), tmp_path)
        for wheel, path in (("victim", victim), (name, forged))
    ]
    assert outcomes[0].status is Status.REPAIRED, outcomes[0].error
    (symbols,) = files_below(tmp_path / "symbols").values()
    assert b"secret" in symbols
    assert b"forged" not in symbols
    assert isinstance(outcomes[1].error, OutputError)
    assert MODULE in outcomes[1].error.message
    assert ".build-id/12/34567890abcdef.debug" in outcomes[1].error.message


def test_edits_of_one_link_leave_one_debug_file_whatever_their_order(tmp_path: Path) -> None:
    """Their section headers differ: the search path of a library depends on the wheel."""
    plain = wheel_of(tmp_path, "-Wl,--build-id=sha1")
    module = tmp_path / "_core.so"
    name = "other" + "_long" * 20
    deep = build.make_wheel(
        tmp_path / "dist", name=name, files={f"{name}/a/b/{MODULE.rpartition('/')[2]}": module}
    )
    found: list[dict[str, bytes]] = []
    alone: list[dict[str, bytes]] = []
    for number, order in enumerate(((plain, deep), (deep, plain))):
        for wheel in order:
            outcome = repaired(wheel, tmp_path / str(number))
            assert outcome.status is Status.REPAIRED, outcome.error
        found.append(files_below(tmp_path / str(number) / "symbols"))
        repaired(order[0], tmp_path / f"alone-{number}")
        alone.append(files_below(tmp_path / f"alone-{number}" / "symbols"))
    assert found[0] == found[1]
    assert alone[0].keys() == alone[1].keys() == found[0].keys()
    assert alone[0] != alone[1], "otherwise this tests nothing"


def test_what_was_replaced_returns_if_the_wheel_cannot_be_published(tmp_path: Path) -> None:
    one, other, symbols = tmp_path / "one", tmp_path / "other", tmp_path / "symbols"
    whole = build.shared_object(tmp_path / "a.so", INNER, flags=["-g"]).read_bytes()
    one.write_bytes(whole)
    other.write_bytes(whole + b"appended, which no debugger reads")
    place = "x/a.debug"
    files = {
        path: DebugFile(member="a.so", path=path, place=place, has_build_id=False)
        for path in (one, other)
    }
    with publish_debug_files([files[one]], symbols):
        pass
    context = publish_debug_files([files[other], files[one]._replace(place="b.debug")], symbols)
    with suppress(OutputError), context:
        assert files_below(symbols) == {place: other.read_bytes(), "b.debug": whole}
        raise OutputError("the disk is full")
    assert files_below(symbols) == {place: whole}


def test_all_debug_files_are_written_or_none(tmp_path: Path) -> None:
    """One is to be where another needs a folder."""
    wheel_of(tmp_path, "-Wl,--build-id=none")
    module = tmp_path / "_core.so"
    wheel = build.make_wheel(
        tmp_path / "dist",
        files={"demo/0.so": module, "demo/a.so": module, "demo/a.so.debug/b.so": module},
    )
    outcome = repaired(wheel, tmp_path)
    assert isinstance(outcome.error, OutputError)
    assert outcome.error.message.startswith("cannot write into"), outcome.error.message
    assert not files_below(tmp_path / "symbols")
    assert not list((tmp_path / "out").iterdir())


def test_a_folder_in_the_place_of_a_debug_file_is_named(tmp_path: Path) -> None:
    wheel = wheel_of(tmp_path, "-Wl,--build-id=sha1")
    assert repaired(wheel, tmp_path).status is Status.REPAIRED
    file = min((tmp_path / "symbols").rglob("*.debug"))
    file.unlink()
    file.mkdir()
    outcome = repaired(wheel, tmp_path)
    assert isinstance(outcome.error, OutputError)
    assert str(tmp_path / "symbols") in outcome.error.message
    assert file.is_dir()


def test_a_directory_in_use_by_another_process_is_an_error_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debug_files, "_LOCK_TRIES", 2)
    wheel = wheel_of(tmp_path, "-Wl,--build-id=sha1")
    (symbols := tmp_path / "symbols").mkdir()
    descriptor = os.open(symbols, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    outcome = repaired(wheel, tmp_path)
    os.close(descriptor)
    assert isinstance(outcome.error, OutputError)
    assert "is locked by another process" in outcome.error.message
    assert repaired(wheel, tmp_path).status is Status.REPAIRED


def test_a_file_name_has_no_room_for_the_suffix(tmp_path: Path) -> None:
    """limits.h: NAME_MAX is 255; a debugger reads the name in .gnu_debuglink."""
    wheel_of(tmp_path, "-Wl,--build-id=none")
    names = {f"demo/{'a' * 247}.so": "_core.so", f"demo/{'b' * 246}.so": "_core.so"}
    files = {name: tmp_path / file for name, file in names.items()}
    outcome = repaired(build.make_wheel(tmp_path / "dist", files=files), tmp_path)
    assert outcome.status is Status.REPAIRED, outcome.error
    assert outcome.output is not None
    debug = {path.name for path in (tmp_path / "symbols").rglob("demo/*.debug")}
    assert f"{'b' * 246}.so.debug" in debug
    with zipfile.ZipFile(outcome.output) as archive:
        archive.extractall(tmp_path / "site")
    assert {link_of(tmp_path / "site" / name) for name in names} == debug


def test_two_objects_with_one_build_id_are_refused(tmp_path: Path) -> None:
    flag = "-Wl,--build-id=0x1234567890abcdef"
    outcome = repaired(wheel_of(tmp_path, flag), tmp_path)
    assert outcome.status is Status.FAILED
    assert isinstance(outcome.error, OutputError)
    assert "another object with the same build-id" in outcome.error.message
    assert not files_below(tmp_path / "symbols")
    assert not list((tmp_path / "out").iterdir())


def test_nothing_is_left_if_the_wheel_cannot_be_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = PendingFile.publish

    def failing(pending: PendingFile) -> Path:
        if pending.name.endswith(".whl"):
            raise OutputError("the disk is full")
        return publish(pending)

    monkeypatch.setattr(PendingFile, "publish", failing)
    outcome = repaired(wheel_of(tmp_path, "-Wl,--build-id=sha1"), tmp_path)
    assert outcome.status is Status.FAILED
    assert not files_below(tmp_path / "symbols")
    assert not list((tmp_path / "out").iterdir())


def test_a_dry_run_and_a_refused_wheel_write_no_symbols(tmp_path: Path) -> None:
    wheel = wheel_of(tmp_path, "-Wl,-z,execstack")
    assert repaired(wheel, tmp_path).status is Status.REJECTED
    asked = Settings(strip=StripLevel.ALL, debug_symbols=str(tmp_path / "symbols"))
    repairing.repair(wheel, asked, os.environ, publish=False)
    assert not (tmp_path / "symbols").exists()


def test_symbols_of_nothing_are_an_error(tmp_path: Path) -> None:
    outcome = repaired(wheel_of(tmp_path), tmp_path, StripLevel.OFF)
    assert isinstance(outcome.error, SettingsError)
    assert outcome.error.hint is not None
    assert "--strip=debug" in outcome.error.hint


def test_strip_needs_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = wheel_of(tmp_path)
    monkeypatch.setenv("PATH", "")
    assert repaired(wheel, tmp_path).status is Status.REPAIRED
