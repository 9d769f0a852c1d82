"""Stripped objects and debug files, judged by loaders, readelf, elfutils and binutils."""

import ctypes
import io
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.support.build import shared_object
from tests.support.compiled import require_linking
from tests.support.tools import tool
from wheelfix.elf.compare import differences
from wheelfix.elf.image import Image
from wheelfix.elf.model import Elf
from wheelfix.elf.reader import read_elf
from wheelfix.elf.strip import DebugLink, write_debug_file, write_stripped
from wheelfix.errors import BadElfError

SOURCE = """
static __thread int local = 3;
static int zeros[100000];
static __attribute__((noinline)) int secret(int x) { zeros[x] = 2; return x + local; }
int f(void) { return secret(4) + zeros[4]; }
"""
LINK = DebugLink("0123.debug", 0x12345678)
LINKERS: Mapping[str, Sequence[str]] = {
    "bfd": [],
    "gold": ["-fuse-ld=gold"],
    "lld": ["-fuse-ld=lld"],
    "mold": ["-fuse-ld=mold"],
    "2 MiB pages": ["-Wl,-z,max-page-size=0x200000"],
    "compressed": ["-gz=zlib"],
    "relocations": ["-Wl,--emit-relocs"],
    "section symbols": ["-Wl,--build-id=none", "-Wl,-z,noseparate-code"],
}


def patched(path: Path) -> None:
    subprocess.run(["patchelf", "--set-rpath", "/far/away/" * 40, str(path)], check=True)


def linked_and_patched(path: Path) -> None:
    """Give the object a .gnu_debuglink, which `write_stripped` replaces."""
    path.with_name("old.debug").write_bytes(b"old")
    command = ["objcopy", f"--add-gnu-debuglink={path.with_name('old.debug')}", str(path)]
    subprocess.run(command, check=True)
    patched(path)


EDITS: Mapping[str, Callable[[Path], None]] = {
    "as linked": lambda _: None,
    "by patchelf": patched,
    "linked before": linked_and_patched,
}

some_libraries = pytest.mark.each_run("bfd, *", "*, as linked*")


@pytest.fixture(
    scope="module", params=[f"{linker}, {edit}" for linker in LINKERS for edit in EDITS]
)
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    linker, edit = str(request.param).split(", ")
    require_linking("gcc", *LINKERS[linker])
    path = tmp_path_factory.mktemp("linked") / "libx.so"
    shared_object(path, SOURCE, flags=["-g", *LINKERS[linker]])
    EDITS[edit](path)
    return path


def stripped(data: bytes, *, keeps_symtab: bool, link: DebugLink | None = None) -> bytes:
    file = io.BytesIO()
    write_stripped(memoryview(data), "libx.so", file, keeps_symtab=keeps_symtab, link=link)
    return file.getvalue()


def predicted(data: bytes, *, keeps_symtab: bool) -> Elf:
    elf = read_elf(data, "libx.so")
    if keeps_symtab:
        return elf._replace(debug_size=0)
    return elf._replace(debug_size=0, symtab=False, symtab_size=0)


def lint(path: Path) -> set[str]:
    done = subprocess.run(
        ["eu-elflint", "--gnu-ld", str(path)], capture_output=True, text=True, check=False
    )
    return set(re.sub(r"\[ *\d+\]", "", done.stdout).splitlines()) - {"No errors"}


def names(path: Path, program: str = "readelf") -> dict[str, str]:
    """Return address and size of the symbols that a linker or debugger reads."""
    done = subprocess.run([program, "-sW", str(path)], capture_output=True, text=True, check=True)
    rows = [line.split() for line in done.stdout.split(".symtab")[-1].splitlines()]
    return {row[7]: f"{row[1]} {row[2]}" for row in rows if len(row) == 8 and row[3] in "FUNC TLS"}


@some_libraries
@pytest.mark.parametrize("link", [None, LINK], ids=["", "linked"])
@pytest.mark.parametrize("keeps_symtab", [True, False], ids=["debug", "all"])
def test_it_loads_the_same_and_is_smaller(
    library: Path, tmp_path: Path, keeps_symtab: object, link: DebugLink | None
) -> None:
    data, keeps = library.read_bytes(), bool(keeps_symtab)
    made = stripped(data, keeps_symtab=keeps, link=link)
    assert differences(data, made, predicted(data, keeps_symtab=keeps), "libx.so") == ()
    assert read_elf(made, "libx.so") == predicted(data, keeps_symtab=keeps)._replace(
        segments=read_elf(made, "libx.so").segments
    )
    assert len(data) - len(made) >= read_elf(data, "libx.so").debug_size - 4096
    path = tmp_path.joinpath("made.so")
    path.write_bytes(made)
    assert ctypes.CDLL(str(path)).f() == 9
    done = subprocess.run(["readelf", "-aW", path], capture_output=True, text=True, check=True)
    assert "Warning" not in done.stderr
    links = [line for line in done.stdout.splitlines() if "] .gnu_debuglink" in line]
    assert len(links) == (link is not None or b"old.debug\0" in data)
    assert (b"0123.debug\0" in made) == (link is not None)
    assert not (link and b"old.debug\0" in made)
    assert ("secret" in names(path)) == keeps
    if keeps:
        assert names(path) == names(library)
    if shutil.which("eu-elflint"):
        assert lint(path) <= lint(library)


@some_libraries
@pytest.mark.parametrize("keeps_symtab", [True, False], ids=["debug", "all"])
def test_a_second_time_changes_nothing(library: Path, keeps_symtab: object) -> None:
    keeps = bool(keeps_symtab)
    once = stripped(library.read_bytes(), keeps_symtab=keeps, link=LINK)
    assert stripped(once, keeps_symtab=keeps, link=LINK) == once


@some_libraries
@pytest.mark.parametrize("command", [["strip", "-s"], ["patchelf", "--set-rpath", "/x" * 300]])
def test_other_tools_accept_the_stripped_object(
    library: Path, tmp_path: Path, command: Sequence[str]
) -> None:
    made = tmp_path.joinpath("made.so")
    made.write_bytes(stripped(library.read_bytes(), keeps_symtab=True, link=LINK))
    subprocess.run([*command, str(made)], check=True)
    assert ctypes.CDLL(str(made)).f() == 9


@some_libraries
@pytest.mark.parametrize("keeps_symtab", [True, False], ids=["debug", "all"])
def test_the_debug_file_restores_what_was_stripped(
    library: Path, tmp_path: Path, keeps_symtab: object
) -> None:
    """eu-unstrip joins the two, and the result has the symbols and the DWARF of the original."""
    tool("eu-unstrip")
    data = library.read_bytes()
    file = io.BytesIO()
    write_debug_file(memoryview(data), "libx.so", file)
    debug, bare, whole = (tmp_path.joinpath(name) for name in ("x.debug", "bare.so", "whole.so"))
    debug.write_bytes(file.getvalue())
    link = DebugLink.to("x.debug", memoryview(file.getvalue()))
    bare.write_bytes(stripped(data, keeps_symtab=bool(keeps_symtab), link=link))
    subprocess.run(["eu-unstrip", str(bare), str(debug), "-o", str(whole)], check=True)
    assert names(whole) == names(library)
    assert _dwarf(whole) == _dwarf(debug) == _dwarf(library)
    assert not read_elf(debug.read_bytes(), "x.debug").dynamic


def _dwarf(path: Path) -> str:
    command = ["readelf", "--debug-dump=info,decodedline", "-wN", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "secret" in done.stdout
    return done.stdout.replace(str(path), "")


def test_the_proof_notices_what_else_is_gone(tmp_path: Path) -> None:
    path = shared_object(tmp_path / "libx.so", SOURCE, flags=["-g"])
    data = path.read_bytes()
    wanted = predicted(data, keeps_symtab=True)
    for arguments in (["-g", "-R", ".comment"], ["-g", "-N", "secret"], ["-S"]):
        subprocess.run(["objcopy", *arguments, str(path), str(tmp_path / "other.so")], check=True)
        assert differences(data, (tmp_path / "other.so").read_bytes(), wanted, "libx.so")
    made = bytearray(stripped(data, keeps_symtab=True))
    at = made.rindex(b"\0secret\0")
    made[at + 1] = ord("z")
    assert differences(data, bytes(made), wanted, "libx.so")
    made[0x28:0x30] = bytes(8)  # e_shoff
    assert "the section headers are gone" in differences(data, bytes(made), wanted, "libx.so")


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [(32, 1 << 40, "past the end"), (24, 1 << 40, "past the end"), (32, 0x3000, "overlap")],
)
def test_sections_that_are_not_in_the_file_are_an_error(
    tmp_path: Path, field: int, value: int, text: str
) -> None:
    data = bytearray(shared_object(tmp_path / "libx.so", SOURCE, flags=["-g"]).read_bytes())
    for name in (".comment", ".debug_info", ".debug_line", ".debug_str", ".symtab"):
        at = header_of(data, name)
        if text == "overlap":
            data[at + 24 : at + 32] = bytes(8)  # sh_offset
        data[at + field : at + field + 8] = value.to_bytes(8, "little")
    with pytest.raises(BadElfError, match=text):
        stripped(bytes(data), keeps_symtab=True)


def test_a_huge_alignment_takes_no_room(tmp_path: Path) -> None:
    data = bytearray(shared_object(tmp_path / "libx.so", SOURCE, flags=["-g"]).read_bytes())
    at = header_of(data, ".comment")
    data[at + 48 : at + 56] = (1 << 40).to_bytes(8, "little")
    assert len(stripped(bytes(data), keeps_symtab=True)) < len(data) + 4096


def header_of(data: bytearray, name: str) -> int:
    """Return the offset of a section header."""
    with memoryview(bytes(data)) as view:
        image = Image.parse(view, "libx.so")
        names = [image.section_name(section).decode() for section in image.sections]
    return image.header.shoff + 64 * names.index(name)


def test_appended_data_stays_at_the_end(tmp_path: Path) -> None:
    data = shared_object(tmp_path / "libx.so", SOURCE, flags=["-g"]).read_bytes()
    made = stripped(data + b"PK\3\4 payload", keeps_symtab=False, link=LINK)
    assert made == stripped(data, keeps_symtab=False, link=LINK) + b"PK\3\4 payload"


@pytest.mark.parametrize(
    "compiler",
    [
        "aarch64-linux-gnu-gcc",
        "s390x-linux-gnu-gcc",
        "arm-linux-gnueabihf-gcc",
        "i686-linux-gnu-gcc",
    ],
)
def test_objects_of_other_machines(tmp_path: Path, compiler: str) -> None:
    require_linking(compiler, "-shared", "-nostdlib")
    path = tmp_path / "libx.so"
    command = [compiler, "-xc", "-", "-g", "-shared", "-fPIC", "-nostdlib", "-o", str(path)]
    subprocess.run(command, input=SOURCE, text=True, check=True)
    data = path.read_bytes()
    for keeps in (True, False):
        made = stripped(data, keeps_symtab=keeps, link=LINK)
        assert differences(data, made, predicted(data, keeps_symtab=keeps), "libx.so") == ()
        (tmp_path / "made.so").write_bytes(made)
        done = subprocess.run(
            ["readelf", "-aW", tmp_path / "made.so"], capture_output=True, text=True, check=True
        )
        assert "Warning" not in done.stderr
        assert ("secret" in names(tmp_path / "made.so")) == keeps
        if shutil.which("eu-elflint"):
            assert lint(tmp_path / "made.so") <= lint(path)
