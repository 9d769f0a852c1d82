"""An object that needs more room gets it at its end, and is the same object for every tool."""

import io
import mmap
import re
import shutil
import struct
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.bionic import refusals
from tests.support.build import executable, shared_object, stub_library_with_versions
from tests.support.compiled import require_linking
from tests.support.effort import slowness
from tests.support.tools import needs
from wheelfix.budget import Budget, BudgetError
from wheelfix.elf.compare import differences
from wheelfix.elf.constants import Dt, Pt, Sht
from wheelfix.elf.dynamic_tables import Dynamic
from wheelfix.elf.editor import edit
from wheelfix.elf.growth import NoRoomError
from wheelfix.elf.image import Buffer, Image
from wheelfix.elf.machine_page_sizes import PAGE_SIZES
from wheelfix.elf.model import Elf
from wheelfix.elf.patch import Copy, Patch, PatchDraft
from wheelfix.elf.reader import read_elf
from wheelfix.elf.revision import Revision
from wheelfix.elf.strip import write_stripped
from wheelfix.errors import ToolError
from wheelfix.pipelines.patchelf import find_patchelf

SOURCE = """
static int data[3] = {1, 2, 3}; int *where = data; int zeros[3000]; int a(void);
__thread int own = 5;
__attribute__((constructor)) static void start(void) { zeros[7] = 30; }
int f(void) { return zeros[7] + *where + own + a(); }
"""
ANSWER = 42
CODE_FIRST = """
PHDRS { text PT_LOAD FILEHDR PHDRS FLAGS(5); ro PT_LOAD FLAGS(4); rw PT_LOAD FLAGS(6);
  dynamic PT_DYNAMIC FLAGS(6); tls PT_TLS FLAGS(4); stack 0x6474e551 FLAGS(6); }
SECTIONS {
  . = SIZEOF_HEADERS;
  .init : { KEEP (*(.init)) } :text .plt : { *(.plt) } .plt.got : { *(.plt.got) }
  .text : { *(.text .text.*) } .fini : { KEEP (*(.fini)) }
  . = ALIGN(CONSTANT(MAXPAGESIZE));
  .gnu.hash : { *(.gnu.hash) } :ro .dynsym : { *(.dynsym) } .dynstr : { *(.dynstr) }
  .gnu.version : { *(.gnu.version) } .gnu.version_r : { *(.gnu.version_r) }
  .rela.dyn : { *(.rela.*) } .rela.plt : { *(.rela.plt) } .rodata : { *(.rodata .rodata.*) }
  . = ALIGN(CONSTANT(MAXPAGESIZE));
  .tdata : { *(.tdata) } :rw :tls
  .init_array : { KEEP (*(.init_array)) } :rw .fini_array : { KEEP (*(.fini_array)) }
  .dynamic : { *(.dynamic) } :rw :dynamic .got : { *(.got) } :rw .got.plt : { *(.got.plt) }
  .data : { *(.data .data.*) } .bss : { *(.bss) *(COMMON) }
  /DISCARD/ : { *(.note.*) *(.eh_frame) *(.comment) }
}
"""
LAYOUTS = {
    "bfd": [],
    "bfd, no notes": ["-Wl,--build-id=none,-z,norelro"],
    "bfd, one segment": ["-Wl,-z,noseparate-code", "-s"],
    "gold": ["-fuse-ld=gold"],
    "lld": ["-fuse-ld=lld"],
    "mold": ["-fuse-ld=mold"],
    "pages of 64 KiB": ["-fuse-ld=lld", "-Wl,-z,max-page-size=65536"],
    # NixOS/patchelf 492, 528: libraries aligned to 2 MiB, such as libcudart
    "pages of 2 MiB": ["-Wl,-z,max-page-size=0x200000"],
    # tenstorrent/tt-xla 5172, maplibre/maplibre-native-ffi 571, NixOS/patchelf 639: .init is
    # directly behind the program headers; patchelf moves it, and DT_INIT leads nowhere
    "code first": ["-T", "{script}", "-Wl,--build-id=none"],
    "packed relocations": ["-Wl,-z,pack-relative-relocs"],
    "IBT and SHSTK": ["-fcf-protection=full", "-Wl,-z,ibt,-z,shstk"],
}
STRIPS = [["strip", "-s"], ["strip", "-g"], ["objcopy"], ["eu-strip"], ["llvm-strip"]]
OPENER = """
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int bad, seen;
static int one(struct dl_phdr_info *info, size_t size, void *path) {
    int loads = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) loads += info->dlpi_phdr[i].p_type == PT_LOAD;
    bad |= !loads;
    if (strcmp(info->dlpi_name, path)) return 0;
    FILE *file = fopen(path, "rb");
    ElfW(Ehdr) header;
    fread(&header, sizeof header, 1, file);
    size_t length = header.e_phnum * sizeof(ElfW(Phdr));
    void *table = malloc(length);
    fseek(file, header.e_phoff, SEEK_SET);
    fread(table, length, 1, file);
    bad |= info->dlpi_phnum != header.e_phnum || memcmp(table, info->dlpi_phdr, length);
    seen = 1;
    return 0;
}
int main(int count, char **words) {
    void *handle = dlopen(words[1], RTLD_NOW);
    if (!handle) { puts(dlerror()); return 255; }
    dl_iterate_phdr(one, words[1]);
    return bad || !seen ? 254 : ((int (*)(void))dlsym(handle, "f"))();
}
"""
"""Opens an object, and holds dl_iterate_phdr's headers to those of the file."""
PATH = "$ORIGIN/../somewhere/very/far/away/from/here/that/has/no/room"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program that opens objects, and the libraries that these need."""
    found = tmp_path_factory.mktemp("grown")
    flags = ["-w", "-D_GNU_SOURCE", "-ldl"]
    executable(found / "opener", OPENER, flags=flags)
    names = ("liba.so.1", "liba-0123abcd.so.1", "liba-0123abcdef0123456789.so.1")
    source = "int a(void) { return 6; }"
    (found / "map").write_text("A_1 { *; };")
    for name in names:
        script = [f"-Wl,--version-script={found / 'map'}"]
        shared_object(found / name, source, soname=name, libc=False, flags=script)
    (found / "code-first.ld").write_text(CODE_FIRST)
    return found


@pytest.fixture(scope="module", params=LAYOUTS)
def library(request: pytest.FixtureRequest, folder: Path) -> bytes:
    name = str(request.param)
    flags = [flag.format(script=folder / "code-first.ld") for flag in LAYOUTS[name]]
    require_linking("gcc", "-shared", "-fPIC", *flags)
    path = shared_object(
        folder / f"{name}.so",
        SOURCE,
        soname="lib.so",
        needed=[folder / "liba.so.1"],
        runpath="$ORIGIN",
        flags=flags,
    )
    return path.read_bytes()


def answer(folder: Path, content: bytes) -> int:
    """Open an object with everything bound, and return what its `f` returns; 255 for failure."""
    path = folder / "opened.so"
    path.write_bytes(content)
    environ = {"LD_BIND_NOW": "1", "LD_LIBRARY_PATH": str(folder)}
    return subprocess.run([str(folder / "opener"), str(path)], env=environ, check=False).returncode


def proved(content: bytes, revision: Revision) -> bytes:
    """Edit an object, hold the result to the prediction, and return it."""
    written = edit(content, revision, "lib.so").content(content)
    assert differences(content, written, revision.after, "lib.so") == ()
    return written


def revised(content: Buffer) -> Revision:
    return Revision.of(read_elf(content, "lib.so"))


def longer(elf: Elf) -> Revision:
    """Give an object a name and a path that are longer; no tag is new."""
    return Revision.of(elf).set_soname("lib-0123abcd.so.1.2.3").set_paths(elf.rpath, PATH)


def fuller(elf: Elf) -> Revision:
    """Give it more entries than .dynamic has room for, and a longer library name."""
    revision = longer(elf).rename_needed("liba.so.1", "liba-0123abcd.so.1")
    added = ("libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1")
    for name in reversed(added):
        revision = revision.add_needed(name)
    return revision.set_paths(f"{PATH}/lib", PATH)


@pytest.mark.each_run(
    "bfd-*",
    "gold-longer",
    "pages of 64 KiB-fuller",
    "packed relocations-longer",
    "code first-fuller",
)
@pytest.mark.parametrize("change", [longer, fuller])
def test_it_loads_edited_stripped_and_edited_again(
    library: bytes, folder: Path, change: object
) -> None:
    assert answer(folder, library) == ANSWER
    before = read_elf(library, "lib.so")
    once = proved(library, fuller(before) if change is fuller else longer(before))
    assert answer(folder, once) == ANSWER
    elf = read_elf(once, "lib.so")
    new = "liba-0123abcdef0123456789.so.1"
    old = next(name for name in elf.needed if name.startswith("liba"))
    again = Revision.of(elf).set_paths(elf.rpath, f"{PATH}/even/further")
    twice = proved(once, again.rename_needed(old, new))
    assert answer(folder, twice) == ANSWER
    for tool in STRIPS:
        if shutil.which(tool[0]) is None:
            continue
        for content in (once, twice):
            bare = folder / "bare.so"
            bare.write_bytes(content)
            done = subprocess.run([*tool, str(bare)], capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr) == (0, ""), tool
            assert answer(folder, bare.read_bytes()) == ANSWER, tool
            stripped = bare.read_bytes()
            third = proved(stripped, revised(stripped).set_soname("x" * 300))
            assert answer(folder, third) == ANSWER, tool


@needs("eu-elflint")
def test_elfutils_and_gdb_find_no_fault_that_was_not_there(library: bytes, folder: Path) -> None:
    once = proved(library, fuller(read_elf(library, "lib.so")))
    twice = proved(once, revised(once).set_soname("z" * 500))
    path = folder / "lint.so"
    for command in (["eu-elflint", "--gnu-ld"], ["gdb", "-nx", "-batch", "-ex", "info files"]):
        if shutil.which(command[0]) is None:
            continue
        said: list[set[str]] = []
        for content in (library, once, twice):
            path.write_bytes(content)
            done = subprocess.run([*command, path], capture_output=True, text=True, check=False)
            lines = done.stdout if command[0] == "eu-elflint" else done.stderr
            said.append({re.sub(r"0x[0-9a-f]+|\d+", "#", line) for line in lines.splitlines()})
        assert said[1] | said[2] <= said[0] | {"No errors"}, command


def test_readers_of_sections_and_of_segments_agree(library: bytes, folder: Path) -> None:
    path = folder / "read.so"
    path.write_bytes(proved(library, fuller(read_elf(library, "lib.so"))))
    command = ["readelf", "-aW", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "arning" not in done.stdout
    assert PATH in done.stdout


def test_bionic_refuses_no_more_than_before(library: bytes) -> None:
    """Android's loader reads .dynamic by its section header, and looks for PT_PHDR or offset 0."""
    known = set(refusals(library))
    elf = read_elf(library, "lib.so")
    for change in (longer, fuller):
        once = proved(library, change(elf))
        assert set(refusals(once)) <= known
        rpath = read_elf(once, "lib.so").rpath
        again = revised(once).set_soname("z" * 500).set_paths(rpath, None)
        assert set(refusals(proved(once, again))) <= known


def test_bionic_finds_program_headers_without_a_segment_at_offset_0(folder: Path) -> None:
    """There PT_PHDR is the only way to them: it is not given away for a new segment."""
    script = folder / "from-page-1.ld"
    text = CODE_FIRST.replace("PHDRS { text", "PHDRS { phdr PT_PHDR PHDRS FLAGS(4); text")
    script.write_text(text.replace("text PT_LOAD FILEHDR PHDRS", "text PT_LOAD PHDRS"))
    flags = ["-T", str(script)]
    path = shared_object(folder / "from.so", "int zeros[99], f;", soname="x.so", flags=flags)
    content = path.read_bytes()
    known = set(refusals(content))
    assert next(s for s in read_elf(content, "").segments if s.type == Pt.LOAD).offset
    assert "the program headers cannot be found" not in known
    edited = edited_path(content)
    assert set(refusals(edited.content(content))) <= known


def test_patchelf_makes_the_same_object_or_none_that_loads(library: bytes, folder: Path) -> None:
    """patchelf is the second opinion on what the edited object says."""
    wanted = longer(read_elf(library, "lib.so"))
    own = read_elf(proved(library, wanted), "lib.so")
    path = folder / "patched.so"
    path.write_bytes(library)
    with suppress(ToolError):
        find_patchelf().patch(path, wanted)
    if path.read_bytes() != library and answer(folder, path.read_bytes()) == ANSWER:
        other = read_elf(path.read_bytes(), "lib.so")
        assert own._replace(segments=()) == other._replace(segments=())


def test_only_what_the_patch_lists_is_changed(library: bytes) -> None:
    before = read_elf(library, "lib.so")
    edited = edit(library, longer(before), "lib.so")
    at = 0
    for piece in edited.pieces:
        is_loaded = any(
            s.type == Pt.LOAD and isinstance(piece, Copy) and piece.start < s.offset + s.filesz
            for s in before.segments
        )
        if isinstance(piece, Copy):
            assert piece.start == at or not is_loaded  # debug information may move
        at += piece.stop - piece.start if isinstance(piece, Copy) else len(piece)
    assert at == edited.size > len(library)


@pytest.mark.large
def test_scattered_writes_take_time_in_proportion() -> None:
    with memoryview(bytes(334_000)) as view:
        patch = PatchDraft(view)
        for at in range(0, 330_000, 10):
            patch.write(at, b"abc")
            patch.write(at + 1, b"xy")
            patch.write(at, b"z")
        started = time.process_time()
        finished = patch.finish()
        spent = time.process_time() - started
        assert spent < 3 * slowness()  # half a minute, if each were held against all others
        assert finished.content(view)[:12] == b"zxy\0\0\0\0\0\0\0zx"


# --- Where the program header comes from ----------------------------------------------------------


def loads(elf: Elf) -> int:
    return sum(segment.type == Pt.LOAD for segment in elf.segments)


@pytest.fixture(scope="module")
def plain(folder: Path) -> bytes:
    flags = ["-Wl,--build-id=sha1"]
    return shared_object(folder / "plain.so", "int f;", soname="x.so", flags=flags).read_bytes()


def header_at(content: bytes, kind: Pt) -> int:
    number = next(n for n, s in enumerate(read_elf(content, "").segments) if s.type == kind)
    return 64 + 56 * number


def edited_path(content: Buffer) -> Patch:
    return edit(content, revised(content).set_paths(None, PATH), "lib.so")


def with_path(content: bytes) -> Elf:
    """Return what an object says after the edit."""
    return read_elf(edited_path(content).content(content), "lib.so")


def test_a_spare_header_is_used(plain: bytes) -> None:
    content = bytearray(plain)
    at = header_at(plain, Pt.NOTE)
    content[at : at + 56] = bytes(56)
    elf = with_path(bytes(content))
    assert len(elf.segments) == len(read_elf(plain, "").segments)
    assert not any(segment.type == 0 for segment in elf.segments)


def test_a_library_gives_its_phdr_and_a_program_keeps_it(folder: Path) -> None:
    path = executable(folder / "program", flags=["-w"])
    before = read_elf(path.read_bytes(), "lib.so")
    elf = with_path(path.read_bytes())
    assert sum(segment.type == Pt.PHDR for segment in elf.segments) == 1
    assert len(elf.segments) == len(before.segments) + 1
    size = next(s.memsz for s in elf.segments if s.type == Pt.PHDR)
    assert size == 56 * len(elf.segments)


def test_notes_make_room_and_code_does_not(plain: bytes, folder: Path) -> None:
    elf = with_path(plain)
    note = next(s for s in elf.segments if s.type == Pt.NOTE)
    last = [s for s in elf.segments if s.type == Pt.LOAD][-1]
    assert last.vaddr <= note.vaddr < last.vaddr + last.memsz
    flags = ["-T", str(folder / "code-first.ld")]
    path = shared_object(folder / "first.so", "int zeros[99], f;", flags=flags)
    before, after = read_elf(path.read_bytes(), ""), with_path(path.read_bytes())
    assert loads(before) == loads(after)
    first, second = before.segments[0], after.segments[0]
    assert first == second


NOTE = """
struct note { unsigned owner, size, kind; char name[4]; char text[200]; };
__attribute__((section("NAME"), used, aligned(8))) static const volatile struct note
    note = {4, 200, 0x74510001, "qt!", "x"};
int f(void) { return note.text[0] == 'x' ? 42 : 1; }
"""


def test_notes_that_code_reads_stay(folder: Path) -> None:
    """Qt plugins read .note.qt.metadata by its address; the edit then needs another place."""
    source = NOTE.replace("NAME", ".note.qt.metadata")
    for flags in ([], ["-Wl,--build-id=none"], ["-fuse-ld=lld"]):
        content = shared_object(folder / "qt.so", source, soname="x.so", flags=flags).read_bytes()
        assert answer(folder, content) == ANSWER
        edited = edited_path(content)
        assert answer(folder, edited.content(content)) == ANSWER, flags


def test_a_program_header_over_code_is_named(folder: Path) -> None:
    flags = ["-T", str(folder / "code-first.ld"), "-Wl,--build-id=none"]
    path = shared_object(folder / "over.so", "int f(void) { return 42; }", flags=flags)
    content = bytearray(path.read_bytes())
    before = read_elf(bytes(content), "lib.so")
    count = len(before.segments)
    assert answer(folder, bytes(content)) == ANSWER
    original = bytes(content)
    content[64 + 56 * count : 64 + 56 * (count + 1)] = bytes(56)  # PT_NULL
    content[0x38] = count + 1
    assert answer(folder, bytes(content)) != ANSWER
    (found,) = differences(original, bytes(content), before, "lib.so")
    assert found.startswith("the byte loaded to ")


def test_a_second_edit_makes_the_same_segment_longer(plain: bytes) -> None:
    once = edited_path(plain).content(plain)
    twice = proved(once, revised(once).set_soname("y" * 500))
    first, second = read_elf(once, ""), read_elf(twice, "")
    assert loads(second) == loads(first) == loads(read_elf(plain, "")) + 1


def test_a_new_segment_is_aligned_for_the_largest_page(plain: bytes) -> None:
    last = [s for s in with_path(plain).segments if s.type == Pt.LOAD][-1]
    assert last.align == PAGE_SIZES[read_elf(plain, "").machine].linked
    assert (last.vaddr - last.offset) % last.align == 0
    assert last.flags & 2 == 0  # .dynamic did not move: loaders write to nothing in it


# --- Programs ------------------------------------------------------------------------------------

PROGRAMS = {
    "pie": ["-pie"],
    "fixed addresses": ["-no-pie", "-fno-pie"],
    "pie by lld": ["-pie", "-fuse-ld=lld"],
    "fixed addresses by gold": ["-no-pie", "-fno-pie", "-fuse-ld=gold"],
}


@pytest.mark.parametrize("case", PROGRAMS)
@pytest.mark.parametrize("change", [longer, fuller])
def test_a_program_runs(case: str, change: object, folder: Path) -> None:
    source = SOURCE + "extern char **environ; int main(void) { return environ ? f() : 1; }"
    needed = [folder / "liba.so.1"]
    path = executable(
        folder / "run", source, needed=needed, runpath="$ORIGIN", flags=PROGRAMS[case]
    )
    content = path.read_bytes()
    before = read_elf(content, "lib.so")
    wanted = fuller(before) if change is fuller else longer(before)
    path.write_bytes(proved(content, wanted))
    environ = {"LD_LIBRARY_PATH": str(folder), "LD_BIND_NOW": "1"}
    assert subprocess.run([str(path)], env=environ, check=False).returncode == ANSWER
    subprocess.run(["strip", "-s", str(path)], check=True)
    assert subprocess.run([str(path)], env=environ, check=False).returncode == ANSWER


def test_a_program_with_many_libraries_runs(folder: Path) -> None:
    """A replay of NixOS/patchelf 558: a program that segfaults after auditwheel's calls.

    patchelf 0.17.2 breaks this one: fixed addresses, code and tables in one segment, both hash
    tables, exported symbols, many names that become longer, RPATH removed and then set.
    """
    needed: list[Path] = []
    for number in range(24):
        name = f"liblal{number}.so.1"
        versions = {f"LAL_{number}": [f"lal{number}"]}
        needed.append(stub_library_with_versions(folder / name, name, versions))
        (folder / f"liblal{number}-0123abcd.so.1.2.3").symlink_to(name)
    calls = "".join(f"int lal{number}(void);" for number in range(24))
    total = "+".join(f"lal{number}()" for number in range(24))
    flags = ["-no-pie", "-fno-pie", "-rdynamic", "-Wl,-z,noseparate-code,--hash-style=both"]
    source = f"{calls} int main(void) {{ int sum = {total}; return sum * 0 + {ANSWER}; }}"
    path = executable(folder / "lal", source, needed=needed, runpath="/usr/lib", flags=flags)
    content = path.read_bytes()
    wanted = revised(content).set_paths(f"{PATH}:{folder}", None)
    for library in needed:
        new = library.name.replace(".so.1", "-0123abcd.so.1.2.3")
        wanted = wanted.rename_needed(library.name, new)
    path.write_bytes(proved(content, wanted))
    assert subprocess.run([str(path)], check=False).returncode == ANSWER
    subprocess.run(["strip", "-s", str(path)], check=True)
    assert subprocess.run([str(path)], check=False).returncode == ANSWER


# --- Odd objects ---------------------------------------------------------------------------------


def test_an_object_without_section_headers_grows(folder: Path) -> None:
    flags = ["-fuse-ld=lld", "-Wl,-z,separate-loadable-segments"]
    path = shared_object(folder / "bare.so", "int f(void) { return 42; }", flags=flags)
    content = bytearray(path.read_bytes())
    content[0x28:0x30], content[0x3C:0x40] = bytes(8), bytes(4)  # e_shoff, e_shnum, e_shstrndx
    revision = revised(content).set_paths(None, PATH).set_soname("s" * 99)
    grown = proved(bytes(content), revision)
    assert answer(folder, grown) == ANSWER


def test_what_is_appended_stays_where_it_is(plain: bytes) -> None:
    """Programs find such data by its distance from the end, or from the start."""
    with pytest.raises(NoRoomError, match="appended"):
        edited_path(plain + b"PK\5\6" + bytes(60) + b"archive")
    padded = plain + bytes(10)
    once = edited_path(padded).content(padded)
    proved(once, revised(once).set_soname("z" * 200))


def test_section_headers_are_not_taken_for_free_space(folder: Path) -> None:
    """The first one is all zeros."""
    script = folder / "hole.ld"
    start = ". = SIZEOF_HEADERS;"
    hole = f"{start} .hole : {{ QUAD(0) . += 4096; }} :text"
    # No section of the hole is left, so that nothing seems to be behind the program headers.
    script.write_text(CODE_FIRST.replace(start, hole))
    flags = ["-T", str(script), "-Wl,--build-id=none"]
    path = shared_object(folder / "hole.so", "int zeros[3000000], f;", soname="x.so", flags=flags)
    content = bytearray(path.read_bytes())
    at = int.from_bytes(content[0x28:0x30], "little")
    count = int.from_bytes(content[0x3C:0x3E], "little")
    end = 64 + 56 * int.from_bytes(content[0x38:0x3A], "little")
    content[at + 64 + 32 : at + 64 + 40] = bytes(8)  # sh_size of .hole
    assert not any(content[end : end + 64 * count])
    content[end : end + 64 * count] = content[at:]
    content[0x28:0x30] = end.to_bytes(8, "little")
    del content[at:]
    with pytest.raises(NoRoomError, match="cannot grow where it is"):
        edited_path(bytes(content))


def test_musl_needs_the_whole_table_of_program_headers_in_one_segment(folder: Path) -> None:
    """It finds the table by the PT_LOAD that holds it (ldso/dynlink.c, map_library)."""
    alone = CODE_FIRST.replace("PHDRS { text PT_LOAD FILEHDR PHDRS FLAGS(5);", "PHDRS { headers")
    alone = alone.replace("PHDRS { headers", "PHDRS { headers PT_LOAD FILEHDR PHDRS FLAGS(4); ")
    alone = alone.replace(" FLAGS(4);  ", " FLAGS(4); text PT_LOAD FLAGS(5); ")
    alone = alone.replace(". = SIZEOF_HEADERS;", ". = CONSTANT(MAXPAGESIZE);")
    script = folder / "headers-alone.ld"
    script.write_text(alone)
    flags = ["-T", str(script), "-Wl,--build-id=none"]
    path = shared_object(folder / "headers.so", "int zeros[3000000], f;", soname="x", flags=flags)
    content = bytearray(path.read_bytes())
    count = int.from_bytes(content[0x38:0x3A], "little")
    end = 64 + 56 * count
    assert read_elf(bytes(content), "").segments[0].filesz == end
    content[64 + 32 : 64 + 48] = 2 * (end + 28).to_bytes(8, "little")  # half a header more
    with pytest.raises(NoRoomError, match="cannot grow where it is"):
        edited_path(bytes(content))


def crafted(content: bytes, loads: int, sections: int) -> bytes:
    """Add empty PT_LOAD headers, a PT_NULL and sections; both tables move to the end."""
    elf = read_elf(content, "lib.so")
    last = max(n for n, s in enumerate(elf.segments) if s.type == Pt.LOAD)
    top = elf.segments[last].vaddr + elf.segments[last].memsz
    own = [content[64 + 56 * n : 120 + 56 * n] for n in range(len(elf.segments))]
    added = [
        struct.pack("<IIQQQQQQ", 1, 4, 0, (top // 4096 + 1 + n) * 4096, 0, 0, 16, 4096)
        for n in range(loads)
    ]
    headers = [*own[: last + 1], *added, *own[last + 1 :], bytes(56)]
    start, count = struct.unpack_from("<Q", content, 40)[0], content[60] + 256 * content[61]
    section = struct.pack("<IIQQQQIIQQ", 0, 1, 2, 4096, 4096, 1, 0, 0, 1, 0)
    table = content[start : start + 64 * count] + sections * section
    made = bytearray(content + bytes(-len(content) % 64) + b"".join(headers))
    struct.pack_into("<QQ", made, 32, len(content) + -len(content) % 64, len(made))
    count += sections
    struct.pack_into("<H", made, 56, min(len(headers), 0xFFFF))
    struct.pack_into("<H", made, 60, count if count < 0xFF00 else 0)
    made += table
    at = len(made) - len(table)
    struct.pack_into("<Q", made, at + 32, count if count >= 0xFF00 else 0)
    struct.pack_into("<I", made, at + 44, len(headers) if len(headers) >= 0xFFFF else 0)
    return bytes(made)


@pytest.mark.each_run("0-65300")
@pytest.mark.parametrize(("loads", "sections"), [(65_600, 10), (65_530, 0), (0, 65_300)])
def test_too_many_headers_are_declined(plain: bytes, loads: int, sections: int) -> None:
    with pytest.raises(NoRoomError, match="too many headers"):
        edited_path(crafted(plain, loads, sections))


def test_many_segments_and_sections_use_up_the_budget(plain: bytes) -> None:
    with pytest.raises(BudgetError):
        edited_path(crafted(plain, 4_000, 40_000))


def test_an_edit_spends_the_budget_that_it_is_given(plain: bytes) -> None:
    revision = longer(read_elf(plain, "lib.so"))
    budget = Budget("a wheel")
    steps = budget.steps
    edit(plain, revision, "lib.so", budget)
    assert budget.steps < steps
    with pytest.raises(BudgetError):
        edit(plain, revision, "lib.so", Budget("a wheel", steps=10))


@pytest.mark.large
def test_many_symbol_tables_use_up_the_budget(plain: bytes) -> None:
    """All of these are in the same place."""
    size = 8 << 20
    at = int.from_bytes(plain[0x28:0x30], "little")
    count = int.from_bytes(plain[0x3C:0x3E], "little")
    place = len(plain) + -len(plain) % 64
    table = struct.pack("<IIQQQQIIQQ", 0, Sht.SYMTAB, 0, 0, place, size, 0, 0, 8, 24)
    content = bytearray(plain.ljust(place, b"\0") + bytes(size))
    content[0x28:0x30] = len(content).to_bytes(8, "little")
    content[0x3C:0x3E] = (count + 500).to_bytes(2, "little")
    content += plain[at : at + 64 * count] + 500 * table
    before = read_elf(bytes(content), "lib.so")
    with pytest.raises(BudgetError):
        edit(bytes(content), fuller(before), "lib.so")


def test_a_machine_without_known_pages_is_declined(plain: bytes) -> None:
    content = bytearray(plain)
    content[18:20] = (8).to_bytes(2, "little")  # EM_MIPS
    with pytest.raises(NoRoomError, match="machine 8"):
        edited_path(bytes(content))


def test_thirty_two_bits_grow(folder: Path) -> None:
    flags = ["-m32", "-nostdlib", "-nostartfiles"]
    source = "int own(void) { return 1; }"
    path = shared_object(folder / "m32.so", source, soname="x", libc=False, flags=flags)
    content = path.read_bytes()
    before = read_elf(content, "lib.so")
    assert before.bits == 32
    revision = Revision.of(before).set_soname("y" * 100)
    for number in range(9):
        revision = revision.add_needed(f"{number}.so")
    proved(content, revision)


def test_offsets_beyond_four_gigabytes(plain: bytes, folder: Path) -> None:
    """Section headers of a huge object; only what an edit changes is ever in memory."""
    far = 5 << 30
    at = int.from_bytes(plain[0x28:0x30], "little")
    path = folder / "huge.so"
    with path.open("wb") as file:
        file.write(plain[:0x28] + far.to_bytes(8, "little") + plain[0x30:])
        file.seek(far)
        file.write(plain[at:])
    with path.open("rb") as read, mmap.mmap(read.fileno(), 0, prot=mmap.PROT_READ) as content:
        edited = edited_path(content)
        assert edited.size > far
        new = [piece for piece in edited.pieces if not isinstance(piece, Copy)]
        assert sum(map(len, new)) < 10_000
    path.unlink()


def test_the_dynamic_symbol_follows(folder: Path) -> None:
    """_DYNAMIC and the first word of the GOT say where .dynamic is."""
    source = "extern char _DYNAMIC[]; void *where(void) { return _DYNAMIC; }"
    flags = ["-fuse-ld=lld"]
    content = shared_object(folder / "d.so", source, flags=flags).read_bytes()
    before = read_elf(content, "lib.so")
    grown = proved(content, fuller(before._replace(needed=("libc.so.6",))))
    with memoryview(grown) as view:
        image = Image.parse(view, "lib.so")
        dynamic = Dynamic.parse(image)
        segment = image.segment(Pt.DYNAMIC)
        assert dynamic is not None
        assert segment is not None
        word = image.loaded(dynamic.tags[Dt.PLTGOT], 8, "the GOT")
        assert int.from_bytes(word, "little") in {0, segment.vaddr}
        assert segment.vaddr not in {s.vaddr for s in before.segments}


def test_versions_can_be_renamed_and_dropped_while_the_object_grows(folder: Path) -> None:
    b = stub_library_with_versions(folder / "libb.so.1", "libb.so.1", {"B_1": ["b"]})
    source = "int a(void); __attribute__((weak)) int b(void); int f(void) { return a() + 36; }"
    path = shared_object(
        folder / "v.so",
        source + "int g(void) { return b ? b() : 0; }",
        needed=[folder / "liba.so.1", b],
    )
    content = path.read_bytes()
    revision = revised(content).drop_needed("libb.so.1").set_paths(None, PATH)
    revision = revision.rename_needed("liba.so.1", "liba-0123abcd.so.1")
    assert answer(folder, proved(content, revision)) == ANSWER


def test_the_old_name_of_a_renamed_library_can_be_added(folder: Path) -> None:
    flags = ["-Wl,-soname,own.so"]
    needed = [folder / "liba.so.1"]
    path = shared_object(folder / "w.so", SOURCE, needed=needed, flags=flags)
    content = path.read_bytes()
    renamed = revised(content).rename_needed("liba.so.1", "liba-0123abcd.so.1")
    proved(content, renamed.add_needed("liba.so.1"))


def test_old_names_can_be_added_where_versions_do_not_tell_which_was_renamed(folder: Path) -> None:
    needed = [folder / name for name in ("liba.so.1", "libu.so", "libv.so")]
    for path in needed[1:]:
        shared_object(path, f"int {path.stem};", soname=path.name, libc=False)
    flags = ["-Wl,--no-as-needed"]
    content = shared_object(folder / "y.so", SOURCE, needed=needed, flags=flags).read_bytes()
    revision = revised(content).rename_needed("liba.so.1", "liba-0123abcd.so.1")
    revision = revision.rename_needed("libv.so", "libv-0123abcd.so")
    proved(content, revision.add_needed("libv.so").add_needed("liba.so.1"))


def test_a_library_is_dropped_beside_a_renamed_one_and_added_again(folder: Path) -> None:
    """What each became does not follow from the names before and after."""
    needed = [folder / name for name in ("libu.so", "libv.so")]
    for path in needed:
        shared_object(path, f"int {path.stem};", soname=path.name, libc=False)
    flags = ["-Wl,--no-as-needed"]
    path = shared_object(folder / "z.so", "int f;", needed=needed, libc=False, flags=flags)
    revision = revised(path.read_bytes()).drop_needed("libv.so")
    for name in ("libw.so", "libv.so", "libx.so"):
        revision = revision.add_needed(name)
    assert revision.after.needed == ("libx.so", "libv.so", "libw.so", "libu.so")
    proved(path.read_bytes(), revision)


def test_filters_keep_their_place_among_the_libraries(folder: Path) -> None:
    flags = ["-Wl,-f,libfilter.so.1", "-Wl,-f,libother.so.1"]
    source = "int f(void) { return 42; }"
    path = shared_object(folder / "x.so", source, needed=[folder / "liba.so.1"], flags=flags)
    content = path.read_bytes()
    before = read_elf(content, "lib.so")
    assert len(before.filtees) == 2
    proved(content, longer(before).add_needed("libm.so.6"))
    proved(content, longer(before).add_needed("libm.so.6").add_needed("libdl.so.2"))
    proved(content, longer(before).drop_needed("liba.so.1"))
    missing = Revision.of(before).add_needed("x" * 9 + ".so")
    assert answer(folder, proved(content, missing)) == 255


def test_no_segment_is_left_without_sections(folder: Path) -> None:
    """strip writes a broken segment in the place of an empty one, such as one made by patchelf."""
    alone = CODE_FIRST.replace(".dynamic : { *(.dynamic) } :rw :dynamic .got", ".got")
    alone = alone.replace(" rw PT_LOAD", " own PT_LOAD FLAGS(6); rw PT_LOAD")
    place = ".dynamic : { *(.dynamic) } :own :dynamic . = ALIGN(CONSTANT(MAXPAGESIZE)); .tdata :"
    script = folder / "dynamic-alone.ld"
    script.write_text(alone.replace(".tdata :", place))
    flags = ["-T", str(script)]
    source = "int x[9]; int f(void) { return x[3] + 42; }"
    content = shared_object(folder / "alone.so", source, flags=flags).read_bytes()
    assert answer(folder, content) == ANSWER
    before = read_elf(content, "lib.so")
    assert answer(folder, proved(content, Revision.of(before).set_soname("y" * 99))) == ANSWER
    grown = proved(content, fuller(before))
    assert loads(read_elf(grown, "")) <= loads(before)
    path = folder / "stripped-alone.so"
    for made in (grown, proved(grown, revised(grown).set_soname("z" * 999))):
        for tool in (["strip", "-s"], ["objcopy"], ["eu-strip"]):
            if shutil.which(tool[0]) is None:
                continue
            path.write_bytes(made)
            subprocess.run([*tool, str(path)], check=True)
            assert answer(folder, path.read_bytes()) == ANSWER, tool
    # So is what an edit left in its segment, when .dynamic leaves it, too.
    once = proved(grown, revised(grown).set_soname("z" * 999))
    assert loads(read_elf(once, "")) <= loads(before)
    # PT_GNU_RELRO in the place of PT_GNU_STACK would protect addresses that are gone.
    dynamic = next(s for s in before.segments if s.type == Pt.DYNAMIC)
    relro = dynamic._replace(type=Pt.GNU_RELRO, memsz=4096)
    changed = bytearray(content)
    struct.pack_into("<IIQQQQQQ", changed, header_at(content, Pt.GNU_STACK), *relro)
    before = read_elf(bytes(changed), "lib.so")
    with pytest.raises(NoRoomError, match="without sections"):
        edit(bytes(changed), fuller(before), "lib.so")


@pytest.mark.parametrize("kind", [Sht.PROGBITS, 0x6FFFFFF4], ids=["binutils 2.40", "2.46"])
def test_stack_trace_tables_stay_where_they_are_loaded(folder: Path, kind: int) -> None:
    """glibc 2.42 finds .sframe by PT_GNU_SFRAME; binutils 2.45 gave it a section type."""
    source = "int f(void) { return 42; }"
    try:
        path = shared_object(folder / "sf.so", source, flags=["-Wa,--gsframe"])
    except AssertionError:
        pytest.skip("no assembler that writes .sframe")
    content = bytearray(path.read_bytes())
    with memoryview(path.read_bytes()) as view:
        image = Image.parse(view, "lib.so")
        number = next(
            n for n, s in enumerate(image.sections) if image.section_name(s) == b".sframe"
        )
    at = image.header.shoff + 64 * number + 4
    content[at : at + 4] = kind.to_bytes(4, "little")
    grown = proved(bytes(content), fuller(read_elf(content, "lib.so")).set_soname("y" * 5000))
    bare = io.BytesIO()
    write_stripped(memoryview(grown), "lib.so", bare, keeps_symtab=False)
    stripped = Revision.of(read_elf(grown, "lib.so")).strip(keeps_symtab=False)
    assert differences(grown, bare.getvalue(), stripped.after, "lib.so") == ()
    for made in (bytes(content), grown, bare.getvalue()):
        with memoryview(made) as view:
            image = Image.parse(view, "lib.so")
            segment = image.segment(Pt.GNU_SFRAME)
            assert segment is not None
            (section,) = (s for s in image.sections if image.section_name(s) == b".sframe")
            assert (section.type, section.addr, section.offset) == (
                kind,
                segment.vaddr,
                segment.offset,
            )
            table = image.loaded(segment.vaddr, segment.filesz, "the table")
        assert table[:2] == b"\xe2\xde"  # SFRAME_MAGIC
        assert table == path.read_bytes()[segment.vaddr :][: segment.filesz]
        assert answer(folder, made) == ANSWER
    moved = bytearray(grown)
    at = header_at(grown, Pt.GNU_SFRAME)
    moved[at + 16] ^= 8  # p_vaddr
    assert differences(grown, bytes(moved), read_elf(bytes(moved), "lib.so"), "lib.so")
