"""`strip` and `debug-symbols`: debuggers find what was stripped, and nothing is left on failure."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.support import build
from wheelfix.elf.reader import read_elf
from wheelfix.errors import OutputError, SettingsError
from wheelfix.pipelines import repair as repairing
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.settings import Settings, StripLevel
from wheelfix.system.tempfiles import PendingFile

INNER = """
static __attribute__((noinline)) int secret(int x) { return x + 41; }
int inner(void) { return secret(1); }
"""
MODULE = "demo/_core.cpython-311-x86_64-linux-gnu.so"
needs_gdb = pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")


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


def test_the_file_with_more_debug_information_stays(tmp_path: Path) -> None:
    """The same library, with and without DWARF: they have one build-id."""
    wheel = wheel_of(tmp_path, "-Wl,--build-id=sha1")
    library = tmp_path / "lib" / "libinner.so.1"
    whole = library.read_bytes()
    found: list[dict[str, bytes]] = []
    for folder, order in (("one", (whole, b"")), ("two", (b"", whole))):
        for content in order:
            library.write_bytes(whole)
            if not content:
                subprocess.run(["strip", "-g", str(library)], check=True)
            assert repaired(wheel, tmp_path / folder).status is Status.REPAIRED
        found.append(files_below(tmp_path / folder / "symbols"))
    assert found[0] == found[1]
    assert len(found[0]) == 2


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
