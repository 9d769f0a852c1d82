"""A skeleton tells auditwheel what the real object tells it, and readelf finds no fault with it."""

import importlib
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import build
from wheelfix.elf.model import Elf, ElfType, Machine, Undefined, VersionNeed
from wheelfix.elf.reader import read_elf
from wheelfix.elf.stub_for_auditwheel import build_stub

# auditwheel promises no Python API: what it reads is its own affair, and the point here.
elfutils: Any = importlib.import_module("auditwheel.elfutils")
lddtree: Any = importlib.import_module("auditwheel.lddtree")
elffile: Any = importlib.import_module("elftools.elf.elffile")


def _stub(directory: Path) -> Path:
    return build.stub_library_with_versions(
        directory / "libz.so.1", "libz.so.1", {"Z_1": ["one"], "Z_2": ["two", "three"]}
    )


OBJECTS: dict[str, Callable[[Path], Path]] = {
    "extension": lambda d: build.extension(d / "m.so", "m", rpath="/opt/lib:/usr/lib"),
    "library": lambda d: build.shared_object(
        d / "libx.so.1", soname="libx.so.1", runpath="/usr/lib", needed=[_stub(d)]
    ),
    "versions": lambda d: build.shared_object(
        d / "libv.so",
        "int one(void), three(void); int f(void) { return one() + three(); }",
        needed=[_stub(d)],
        libc=False,
    ),
    "weak": lambda d: build.shared_object(
        d / "libw.so",
        "__attribute__((weak)) int w(void); extern int v; int s(void);"
        "int f(void) { return v + s() + (w ? w() : 0); }",
        libc=False,
    ),
    "fpectl": lambda d: build.shared_object(
        d / "fpe.so", "extern int PyFPE_counter(void); int f(void) { return PyFPE_counter(); }"
    ),
    "program": lambda d: build.executable(d / "prog"),
    "fixed program": lambda d: build.executable(d / "fixed", flags=["-no-pie"]),
    "isa": lambda d: build.shared_object(
        d / "libi.so", flags=["-march=x86-64-v3", "-Wl,-z,x86-64-v3", "-mneeded"]
    ),
    "nothing": lambda d: build.shared_object(d / "libn.so", libc=False),
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_auditwheel_reads_the_same(kind: str, tmp_path: Path) -> None:
    try:
        real = OBJECTS[kind](tmp_path)
    except subprocess.CalledProcessError:
        if kind != "isa":
            raise
        pytest.skip("the compiler knows no x86-64 levels")
    elf = read_elf(real.read_bytes(), real.name)
    small = tmp_path / "small" / real.name
    small.parent.mkdir()
    small.write_bytes(
        build_stub(
            elf,
            needed=elf.needed,
            search_path=elf.search_path,
            hook=next(iter(elf.module_hooks), None),
        )
    )
    assert _facts(small) == _facts(real)
    assert _complaints(small) == ""


def _facts(path: Path) -> dict[str, Any]:
    """Return all that auditwheel reads of an object."""
    with path.open("rb") as file:
        elf = elffile.ELFFile(file)
        tree = lddtree.ldd(path, ldpaths={"conf": [], "env": [], "interp": []})
        return {
            "platform": lddtree._get_platform(elf),
            "versions": sorted(elfutils.elf_find_versioned_symbols(elf)),
            "extension": elfutils.elf_is_python_extension(path, elf),
            "fpectl": elfutils.elf_references_pyfpe_jbuf(elf),
            "ucs2": list(elfutils.elf_find_ucs2_symbols(elf)),
            "undefined": elfutils.get_undefined_symbols(path),
            "needed": elfutils.elf_read_dt_needed(path),
            "tree": (tree.interpreter, tree.libc, tree.needed, tree.rpath + tree.runpath),
        }


ELF = Elf(
    bits=64,
    little_endian=True,
    machine=Machine.X86_64,
    osabi=3,
    flags=0,
    type=ElfType.DYN,
    verneed=(
        VersionNeed(file="libc.so.6", versions=("GLIBC_2.2.5", "GLIBC_2.34")),
        VersionNeed(file="libm.so.6", versions=("GLIBC_2.29",)),
    ),
    undefined=(
        Undefined(name="f", version=None, file=None, type=2, weak=False),
        Undefined(name="w", version=None, file=None, type=0, weak=True),
    ),
)


@pytest.mark.parametrize(
    ("bits", "little_endian", "machine", "flags"),
    [
        (64, True, Machine.X86_64, 0),
        (64, True, Machine.AARCH64, 0),
        (32, True, Machine.I386, 0),
        (32, True, Machine.ARM, 0x5000400),
        (64, False, Machine.S390, 0),
        (32, False, Machine.PPC64, 2),
    ],
)
@pytest.mark.parametrize("interpreter", [None, "/lib/ld-linux.so.2"])
def test_every_class_and_byte_order_reads_back(  # noqa: PLR0913 - a table
    bits: int, *, little_endian: bool, machine: int, flags: int, interpreter: str | None,
    tmp_path: Path,
) -> None:  # fmt: skip
    elf = _elf(bits, machine, flags, interpreter, little_endian=little_endian)
    path = tmp_path / "m.so"
    needed = ["libc.so.6", "libm.so.6", "libc.so.6"]
    path.write_bytes(build_stub(elf, needed=needed, search_path="/a:/b", hook="PyInit_m"))
    assert _complaints(path) == ""
    facts = _facts(path)
    assert facts["needed"] == needed
    assert facts["extension"] == (True, 3)
    assert facts["undefined"] == {"", "f"}
    assert facts["versions"] == [
        ("libc.so.6", "GLIBC_2.2.5"),
        ("libc.so.6", "GLIBC_2.34"),
        ("libm.so.6", "GLIBC_2.29"),
    ]
    back = read_elf(path.read_bytes(), path.name)
    kept = ("bits", "little_endian", "machine", "osabi", "flags", "type", "interpreter", "verneed")
    assert {name: getattr(back, name) for name in kept} == {n: getattr(elf, n) for n in kept}
    assert (back.search_path, back.needed) == ("/a:/b", tuple(needed))


def _elf(
    bits: int, machine: int, flags: int, interpreter: str | None, *, little_endian: bool
) -> Elf:
    return ELF._replace(
        bits=bits,
        little_endian=little_endian,
        machine=machine,
        flags=flags,
        interpreter=interpreter,
    )


def test_an_object_without_dynamic_section_keeps_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "x.o"
    bare = Elf(
        bits=64, little_endian=True, machine=62, osabi=0, flags=0, type=ElfType.REL, dynamic=False
    )
    path.write_bytes(build_stub(bare, needed=[]))
    assert _complaints(path) == ""
    assert lddtree.ldd(path, ldpaths={"conf": [], "env": [], "interp": []}).needed == ()


def _complaints(path: Path) -> str:
    """Return what readelf has against the file."""
    done = subprocess.run(["readelf", "-aW", str(path)], capture_output=True, text=True, check=True)
    return done.stderr + "".join(line for line in done.stdout.splitlines() if "arning" in line)
