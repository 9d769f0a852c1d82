"""An object edited without its middle is the object edited as a whole."""

import ctypes
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.build import shared_object
from wheelfix.elf.compare import differences
from wheelfix.elf.reader import read_elf
from wheelfix.elf.shrink_for_patchelf import removable_ranges, restore, write_shrunken
from wheelfix.pipelines.patchelf import find_patchelf

SOURCE = """
__asm__(".section .rodata\\n.globl block\\nblock: .incbin \\"{data}\\"\\n.text");
extern const unsigned char block[];
int f(void) {{ return 42; }}
int *where = &(int){{7}};
int byte(long at) {{ return block[at]; }}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("abridge")
    data = folder / "data"
    data.write_bytes(os.urandom(9 << 20))
    return shared_object(folder / "libbig.so", SOURCE.format(data=data), soname="libbig.so")


def test_patchelf_sees_a_small_object_and_edits_the_large_one(
    library: Path, tmp_path: Path
) -> None:
    original = library.read_bytes()
    left_out = removable_ranges(memoryview(original), "libbig.so")
    before = read_elf(original, "libbig.so")
    wanted = replace(before, runpath="$ORIGIN/" + "x" * 500, soname="another-name.so.12345")
    abridged = tmp_path / "abridged"
    with abridged.open("wb") as file:
        write_shrunken(memoryview(original), left_out, file)
    assert abridged.stat().st_size < 300_000
    assert read_elf(abridged.read_bytes(), "libbig.so").needed == before.needed
    find_patchelf().patch(abridged, before, wanted)
    result = Path(shutil.copy(library, tmp_path / "result.so"))
    with result.open("r+b") as file:
        restore(memoryview(abridged.read_bytes()), left_out, file)
    assert differences(original, result.read_bytes(), wanted, "libbig.so") == ()
    whole = Path(shutil.copy(library, tmp_path / "whole.so"))
    find_patchelf().patch(whole, before, wanted)
    assert result.stat().st_size == whole.stat().st_size
    loaded, known = ctypes.CDLL(str(result)), ctypes.CDLL(str(library))
    assert loaded.f() == 42
    places = range(0, 9 << 20, 100_003)
    assert [loaded.byte(ctypes.c_long(at)) for at in places] == [
        known.byte(ctypes.c_long(at)) for at in places
    ]


def test_the_names_of_local_symbols_are_left_out_and_come_back(tmp_path: Path) -> None:
    names = [f"{'n' * 1000}{number}" for number in range(5000)]
    code = "".join(f"{name}: .byte 0\n" for name in names)
    source = tmp_path / "names.s"
    source.write_text(f".text\n.globl f\nf: ret\n{code}")
    library = tmp_path / "libnames.so"
    subprocess.run(["gcc", "-shared", "-nostdlib", "-o", library, source], check=True)
    original = library.read_bytes()
    left_out = removable_ranges(memoryview(original), "libnames.so")
    abridged = tmp_path / "abridged"
    with abridged.open("wb") as file:
        write_shrunken(memoryview(original), left_out, file)
    assert abridged.stat().st_size < len(original) // 10
    before = read_elf(original, "libnames.so")
    wanted = replace(before, runpath="$ORIGIN/" + "x" * 500)
    find_patchelf().patch(abridged, before, wanted)
    with library.open("r+b") as file:
        restore(memoryview(abridged.read_bytes()), left_out, file)
    assert differences(original, library.read_bytes(), wanted, "libnames.so") == ()
    said = subprocess.run(["nm", library], check=True, capture_output=True, text=True).stdout
    assert {line.split()[-1] for line in said.splitlines()} >= {"f", *names}


def test_small_objects_stay_whole(tmp_path: Path) -> None:
    small = shared_object(tmp_path / "small.so", soname="small.so")
    assert removable_ranges(memoryview(small.read_bytes()), "small.so") == ()


def test_a_section_that_others_share_stays_whole(library: Path) -> None:
    data = bytearray(library.read_bytes())
    (cut,) = removable_ranges(memoryview(bytes(data)), "libbig.so")
    sections = int.from_bytes(data[40:48], "little")
    # The second section header says that it lies in the middle of what would be cut out.
    data[sections + 64 + 24 : sections + 64 + 32] = (cut.start + 100).to_bytes(8, "little")
    assert removable_ranges(memoryview(bytes(data)), "libbig.so") == ()
