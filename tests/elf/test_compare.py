"""An edit that did anything besides what was predicted is named; a true one passes."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.build import executable, shared_object, stub_library_with_versions
from wheelfix.elf.compare import differences
from wheelfix.elf.constants import Dt, Pt, Sht
from wheelfix.elf.dynamic_tables import Dynamic
from wheelfix.elf.editor import edit
from wheelfix.elf.image import Image
from wheelfix.elf.model import Elf
from wheelfix.elf.reader import read_elf
from wheelfix.elf.revision import Revision
from wheelfix.pipelines.patchelf import find_patchelf

SOURCE = """
int a(void); static int data[3] = {1, 2, 3}; int *where = data; int zeros[100];
__thread int own = 5; int f(void) { return a() + *where + zeros[3] + own; }
__attribute__((constructor)) static void start(void) { zeros[1] = 1; }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("library")
    a = stub_library_with_versions(folder / "liba.so.1", "liba.so.1", {"A_1": ["a"]})
    path = shared_object(folder / "lib.so", SOURCE, soname="lib.so", needed=[a], libc=False)
    return path.read_bytes()


@pytest.fixture(scope="module")
def edited(library: bytes, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Elf]:
    path = tmp_path_factory.mktemp("edited") / "lib.so"
    path.write_bytes(library)
    before = read_elf(library, "lib.so")
    after = before._replace(rpath="$ORIGIN/../x.libs", soname="lib-1234.so")
    find_patchelf().patch(path, Revision(before, after))
    return path.read_bytes(), after


def place(content: bytes, tag: Dt) -> int:
    """Return the file offset of the table that a dynamic tag points to."""
    with memoryview(content) as view:
        image = Image.parse(view, "lib.so")
        dynamic = Dynamic.parse(image)
        assert dynamic is not None
        return image.offset(dynamic.tags[tag], 1, tag.name)


def program_header(content: bytes, kind: Pt, number: int = 0) -> int:
    elf = read_elf(content, "lib.so")
    found = [i for i, segment in enumerate(elf.segments) if segment.type == kind]
    return int.from_bytes(content[0x20:0x28], "little") + 56 * found[number]


def program_headers(content: bytes) -> slice:
    start = int.from_bytes(content[0x20:0x28], "little")
    return slice(start, start + 56 * int.from_bytes(content[0x38:0x3A], "little"))


def put(content: bytes, at: int, value: bytes) -> bytes:
    return content[:at] + value + content[at + len(value) :]


def flip(content: bytes, at: int) -> bytes:
    return put(content, at, bytes([content[at] ^ 1]))


def shifted_segment(content: bytes) -> bytes:
    at = program_header(content, Pt.LOAD, -1) + 8
    offset = int.from_bytes(content[at : at + 8], "little")
    return put(content, at, (offset - 8).to_bytes(8, "little"))


def in_page_of_bss(content: bytes) -> bytes:
    """Let the last segment begin 64 bytes earlier, and .bss end in the same page."""
    elf = read_elf(content, "lib.so")
    last, bss = [s for s in elf.segments if s.type == Pt.LOAD][-1:-3:-1]
    at = program_header(content, Pt.LOAD, -1)
    fields = [last.offset - 64, last.vaddr - 64, last.vaddr - 64, last.filesz + 64, last.memsz + 64]
    content = put(content, at + 8, b"".join(field.to_bytes(8, "little") for field in fields))
    size = last.vaddr - 72 - bss.vaddr
    return put(content, program_header(content, Pt.LOAD, -2) + 40, size.to_bytes(8, "little"))


def moved_sections(content: bytes, kind: Sht, step: int) -> bytes:
    """Change the offset of all section headers of a type."""
    with memoryview(content) as view:
        image = Image.parse(view, "lib.so")
    for number, section in enumerate(image.sections):
        if section.type == kind:
            at = image.header.shoff + 64 * number + 24
            content = put(content, at, (section.offset + step).to_bytes(8, "little"))
    return content


def dynamic_load(content: bytes) -> int:
    """Return the number of the PT_LOAD that holds .dynamic."""
    elf = read_elf(content, "lib.so")
    dynamic = next(s for s in elf.segments if s.type == Pt.DYNAMIC)
    loads = [s for s in elf.segments if s.type == Pt.LOAD]
    return next(n for n, s in enumerate(loads) if s.vaddr <= dynamic.vaddr < s.vaddr + s.memsz)


def test_what_patchelf_did_passes(library: bytes, edited: tuple[bytes, Elf]) -> None:
    after, predicted = edited
    assert after != library
    assert differences(library, after, predicted, "lib.so") == ()
    assert differences(library, library, read_elf(library, "lib.so"), "lib.so") == ()


def test_what_patchelf_did_to_its_own_output_passes(
    edited: tuple[bytes, Elf], tmp_path: Path
) -> None:
    """Its program headers then reach into places that it filled with X or Z."""
    path = tmp_path / "lib.so"
    before, said = edited
    for number in range(1, 6):
        path.write_bytes(before)
        wanted = said._replace(rpath="$ORIGIN/" + "x" * 5000 * number)
        find_patchelf().patch(path, Revision(said, wanted))
        after = path.read_bytes()
        assert differences(before, after, wanted, "lib.so") == ()
        before, said = after, read_elf(after, "lib.so")


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "relocation offset": (
        lambda b: flip(b, place(b, Dt.RELA) + 1),
        "a relocation of DT_RELA changed from (offset ",
    ),
    "relocation symbol": (
        lambda b: put(b, place(b, Dt.JMPREL) + 12, b"\0"),
        "a relocation of DT_JMPREL changed from (offset ",
    ),
    "symbol value": (
        lambda b: flip(b, place(b, Dt.SYMTAB) + 24 * 3 + 8),
        "symbol `f` changed from (info 0x12, other 0, section 0x",
    ),
    "symbol binding": (
        lambda b: flip(b, place(b, Dt.SYMTAB) + 24 * 3 + 4),
        "symbol `f` changed from (info 0x12, other 0, section 0x",
    ),
    "symbol name": (
        lambda b: put(b, place(b, Dt.SYMTAB) + 24 * 2, bytes(4)),
        "changed its name",
    ),
    "symbol section": (
        lambda b: put(b, place(b, Dt.SYMTAB) + 24 * 3 + 6, bytes(2)),
        "symbol `f` changed from (info 0x12, other 0, section 0x",
    ),
    "symbol version": (
        lambda b: put(b, place(b, Dt.VERSYM) + 2, b"\1\0"),
        "the version indices of the symbols changed",
    ),
    "needed version": (
        lambda b: flip(b, place(b, Dt.VERNEED) + 16 + 6),
        "the needed versions or their indices changed",
    ),
    "hash table": (
        lambda b: flip(b, place(b, Dt.GNU_HASH) + 16),
        "the hash table of DT_GNU_HASH changed",
    ),
    "constructor": (
        lambda b: flip(b, place(b, Dt.INIT_ARRAY)),
        "the byte loaded to 0x",
    ),
    "stack": (
        lambda b: put(b, program_header(b, Pt.GNU_STACK) + 4, b"\7"),
        "PT_GNU_STACK changed from flags 0x6 to flags 0x7",
    ),
    "stack lost": (
        lambda b: put(b, program_header(b, Pt.GNU_STACK), bytes(4)),
        "PT_GNU_STACK changed from flags 0x6 to nothing",
    ),
    "thread-local storage": (
        lambda b: flip(b, program_header(b, Pt.TLS) + 16),
        "PT_TLS changed from",
    ),
    "initial thread-local data": (
        lambda b: put(b, program_header(b, Pt.TLS) + 32, bytes(8)),
        "PT_TLS changed from",
    ),
    "alignment of thread-local storage": (
        lambda b: put(b, program_header(b, Pt.TLS) + 48, b"\1"),
        "PT_TLS changed from",
    ),
    "unwind table lost": (
        lambda b: put(b, program_header(b, Pt.GNU_EH_FRAME), bytes(4)),
        "PT_GNU_EH_FRAME changed from",
    ),
    "unwind table moved": (
        lambda b: flip(b, program_header(b, Pt.GNU_EH_FRAME) + 16),
        "PT_GNU_EH_FRAME changed from",
    ),
    "address of a note": (
        lambda b: put(b, program_header(b, Pt.NOTE) + 18, b"\x20"),
        "PT_NOTE has an offset that is not loaded to its address",
    ),
    "offset of the dynamic section": (
        lambda b: flip(b, program_header(b, Pt.DYNAMIC) + 9),
        "PT_DYNAMIC has an offset that is not loaded to its address",
    ),
    "dynamic section in a read-only segment": (
        lambda b: put(b, program_header(b, Pt.LOAD, dynamic_load(b)) + 4, b"\4"),
        "the dynamic section, which loaders write to, is loaded read-only",
    ),
    "segment writable and executable": (
        lambda b: put(b, program_header(b, Pt.LOAD, -1) + 4, b"\7"),
        "is writable and executable",
    ),
    "segment in a page of another": (in_page_of_bss, "need different contents of one page"),
    "program headers not loaded": (
        lambda b: put(b + b[program_headers(b)], 0x20, len(b).to_bytes(8, "little")),
        "no segment holds the whole table of program headers",
    ),
    "place of .symtab": (
        lambda b: moved_sections(b, Sht.SYMTAB, -24),
        "the symbols of section `.symtab` changed",
    ),
    "place of string tables": (
        lambda b: moved_sections(b, Sht.STRTAB, -5),
        "section `.strtab` is gone",
    ),
    "debug information": (
        lambda b: b.replace(b"GCC: (", b"Gcc: ("),
        "the content of section `.comment` changed",
    ),
    "place of .dynsym for tools": (
        lambda b: moved_sections(b, Sht.DYNSYM, 24),
        "section `.dynsym` has an offset that is not loaded to its address",
    ),
    "segment flags": (
        lambda b: put(b, program_header(b, Pt.LOAD, 1) + 4, b"\6"),
        "is gone or has other flags",
    ),
    "segment alignment": (
        lambda b: put(b, program_header(b, Pt.LOAD, 1) + 48, b"\0\2"),
        "is aligned to 0x200, and 0x1000 is needed",
    ),
    "segment place": (shifted_segment, "is not congruent to its offset"),
    "zeros": (
        lambda b: put(b, program_header(b, Pt.LOAD, 3) + 40, bytes(2)),
        "the zeros at the end of",
    ),
    "path": (
        lambda b: b.replace(b"$ORIGIN/../x.libs", b"$ORIGIN/../y.libs"),
        "rpath: predicted '$ORIGIN/../x.libs', found '$ORIGIN/../y.libs'",
    ),
    "library needed": (
        lambda b: b.replace(b"liba.so.1", b"libz.so.1"),
        "needed: predicted 'liba.so.1', found 'libz.so.1'",
    ),
    "truncated": (lambda b: b[: len(b) // 2], "it cannot be read after the edit"),
    "entry point": (lambda b: put(b, 0x18, b"\x77"), "the entry point moved"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_damage_is_named(library: bytes, edited: tuple[bytes, Elf], damage: str) -> None:
    make, message = DAMAGES[damage]
    after, predicted = edited
    damaged = make(after)
    assert damaged != after
    found = differences(library, damaged, predicted, "lib.so")
    assert any(message in text for text in found), found


def test_the_number_of_a_symbols_section_may_change_with_the_headers(library: bytes) -> None:
    """patchelf sorts section headers; what a symbol is in stays the same section."""
    predicted = read_elf(library, "lib.so")
    with memoryview(library) as view:
        headers = Image.parse(view, "lib.so").header.shoff
    symbol = place(library, Dt.SYMTAB) + 24 * 3 + 6
    number = int.from_bytes(library[symbol : symbol + 2], "little")
    wrong = put(library, symbol, (number + 1).to_bytes(2, "little"))
    (found,) = differences(library, wrong, predicted, "lib.so")
    assert f"section {number:#x}" in found
    assert f"section {number + 1:#x}" in found
    at = headers + 64 * number
    swapped = put(wrong, at, library[at + 64 : at + 128] + library[at : at + 64])
    assert differences(library, swapped, predicted, "lib.so") == ()


def test_code_and_data_are_compared_byte_by_byte(library: bytes) -> None:
    predicted = read_elf(library, "lib.so")
    for segment in predicted.segments:
        if segment.type == Pt.LOAD and segment.flags & 1:
            for at in range(segment.offset, segment.offset + segment.filesz, 7):
                found = differences(library, flip(library, at), predicted, "lib.so")
                address = at - segment.offset + segment.vaddr
                assert found == (f"the byte loaded to {address:#x} changed",)


def test_a_dangling_version_need_is_named(library: bytes, tmp_path: Path) -> None:
    """`patchelf --remove-needed` leaves one, and the loader then aborts."""
    path = tmp_path / "lib.so"
    path.write_bytes(library)
    subprocess.run([find_patchelf().program, "--remove-needed", "liba.so.1", path], check=True)
    predicted = read_elf(library, "lib.so")._replace(needed=())
    found = differences(library, path.read_bytes(), predicted, "lib.so")
    assert found == ("versions are needed from `liba.so.1`, which is not in DT_NEEDED",)


@pytest.mark.parametrize("flags", [[], ["-no-pie"]], ids=["pie", "fixed"])
def test_programs_pass_although_their_tables_move_to_the_front(
    tmp_path: Path, flags: list[str]
) -> None:
    path = executable(tmp_path / "program", flags=flags)
    content = path.read_bytes()
    before = read_elf(content, "program")
    after = before._replace(rpath="$ORIGIN/" + "x" * 500)
    find_patchelf().patch(path, Revision(before, after))
    assert differences(content, path.read_bytes(), after, "program") == ()
    assert subprocess.run([path], check=False).returncode == 0


LOSSES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "a version index that is still needed": (
        lambda b: put(b, place(b, Dt.VERSYM) + 2, b"\1\0"),
        "the version indices of the symbols changed",
    ),
    "a count that is wrong": (
        lambda b: b.replace(tag_of(Dt.VERNEEDNUM, 1), tag_of(Dt.VERNEEDNUM, 2)),
        "DT_VERNEEDNUM changed from 0x1 to 0x2",
    ),
    "a name in the string table": (
        lambda b: b.replace(b"\0strong\0", b"\0Strong\0"),
        "symbol `strong` changed its name to `Strong`",
    ),
}


def tag_of(tag: Dt, value: int) -> bytes:
    return tag.to_bytes(8, "little") + value.to_bytes(8, "little")


@pytest.fixture(scope="module")
def pruned(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes, Elf]:
    """An object, and what is left of it without the library of a weak reference."""
    folder = tmp_path_factory.mktemp("pruned")
    needed = [
        stub_library_with_versions(folder / f"lib{name}.so", f"lib{name}.so", {"V_1": [name]})
        for name in ("strong", "weak")
    ]
    source = "int strong(void); __attribute__((weak)) int weak(void);"
    source += "int f(void) { return strong() + weak(); }"
    path = shared_object(folder / "lib.so", source, needed=needed, libc=False)
    before = path.read_bytes()
    revision = Revision.of(read_elf(before, "lib.so")).drop_needed("libweak.so")
    return before, edit(before, revision, "lib.so").content(before), revision.after


def test_what_goes_with_a_dropped_library_passes(pruned: tuple[bytes, bytes, Elf]) -> None:
    before, after, predicted = pruned
    assert differences(before, after, predicted, "lib.so") == ()
    unpredicted = read_elf(before, "lib.so")
    assert any(text.startswith("verneed: ") for text in differences(before, after, unpredicted, ""))


@pytest.mark.parametrize("loss", LOSSES)
def test_what_does_not_go_with_it_is_named(loss: str, pruned: tuple[bytes, bytes, Elf]) -> None:
    make, message = LOSSES[loss]
    before, after, predicted = pruned
    damaged = make(after)
    assert damaged != after
    found = differences(before, damaged, predicted, "lib.so")
    assert any(message in text for text in found), found


def test_a_strong_reference_that_lost_its_version_is_named(
    pruned: tuple[bytes, bytes, Elf],
) -> None:
    before = pruned[0]
    symbol = next(
        at
        for at in range(place(before, Dt.SYMTAB), len(before), 24)
        if read_elf(put(before, at + 4, b"\x20"), "").undefined[0].weak
    )
    asked = put(before, symbol + 4, b"\x20")  # st_info: STB_WEAK
    said = read_elf(asked, "lib.so")
    assert said.undefined[0].name == "strong"
    edited = edit(asked, Revision.of(said).drop_needed("libstrong.so"), "lib.so")
    after = put(edited.content(asked), symbol + 4, before[symbol + 4 : symbol + 5])
    found = differences(before, after, read_elf(after, "lib.so"), "lib.so")
    assert found == ("`strong` lost its version although it is not weak",)


def test_section_headers_may_lie_in_a_segment(tmp_path: Path) -> None:
    """There patchelf puts them; the editor changes the size of .gnu.version_r."""
    b = stub_library_with_versions(tmp_path / "libb.so.1", "libb.so.1", {"B_1": ["b"]})
    source = "__attribute__((weak)) int b(void); void *f(void) { return b; }"
    path = shared_object(tmp_path / "lib.so", source, needed=[b])
    elf = read_elf(path.read_bytes(), path.name)
    find_patchelf().patch(path, Revision.of(elf).set_paths("$ORIGIN/" + "a" * 300, None))
    before = path.read_bytes()
    elf = read_elf(before, path.name)
    at = int.from_bytes(before[40:48], "little")
    assert any(s.type == Pt.LOAD and s.offset <= at < s.offset + s.filesz for s in elf.segments)
    revision = Revision.of(elf).drop_needed("libb.so.1")
    assert revision.after.needed == ("libc.so.6",)
    after = edit(before, revision, path.name, may_grow=False).content(before)
    assert differences(before, after, revision.after, path.name) == ()


# --- Every field ----------------------------------------------------------------------------------

EHDR = (
    "ident:16 type:2 machine:2 version:4 entry:8 phoff:8 shoff:8 flags:4 ehsize:2 phentsize:2"
    " phnum:2 shentsize:2 shnum:2 shstrndx:2"
)
PHDR = "type:4 flags:4 offset:8 vaddr:8 paddr:8 filesz:8 memsz:8 align:8"
SHDR = "name:4 type:4 flags:8 addr:8 offset:8 size:8 link:4 info:4 addralign:8 entsize:8"
UNREAD = {
    *(f"PT_GNU_STACK {field}" for field in ("offset", "vaddr", "paddr", "filesz", "align")),
    "section 0 offset",
    "section .bss offset",
}
"""Fields that no loader and no tool reads."""


def header_fields(content: bytes) -> dict[str, int]:
    """Return the file offset of each field of each header, by name."""
    with memoryview(content) as view:
        image = Image.parse(view, "lib.so")
        names = [image.section_name(section).decode() or "0" for section in image.sections]
    tables = [("ELF header", 0, EHDR)]
    for number, segment in enumerate(image.segments):
        tables.append((f"PT_{Pt(segment.type).name}", image.program_headers[0] + 56 * number, PHDR))
    for number, name in enumerate(names):
        tables.append((f"section {name}", image.header.shoff + 64 * number, SHDR))
    found: dict[str, int] = {}
    for owner, at, record in tables:
        start = at
        for field in record.split():
            name, _, size = field.partition(":")
            found.setdefault(f"{owner} {name}", start)
            start += int(size)
    return found


@pytest.fixture(scope="module")
def grown(library: bytes) -> tuple[bytes, Elf]:
    revision = Revision.of(read_elf(library, "lib.so")).set_soname("x" * 99)
    revision = revision.add_needed("libdl.so.2").add_needed("libm.so.6")
    return edit(library, revision, "lib.so").content(library), revision.after


def test_each_field_of_each_header_is_compared(library: bytes, grown: tuple[bytes, Elf]) -> None:
    after, wanted = grown
    assert differences(library, after, wanted, "lib.so") == ()
    fields = header_fields(after)
    assert len(fields) > 300
    passed = {
        name
        for name, at in fields.items()
        if not differences(library, flip(after, at), wanted, "lib.so")
    }
    assert passed <= UNREAD


def test_each_field_of_a_needed_version_is_compared(
    library: bytes, grown: tuple[bytes, Elf]
) -> None:
    """glibc finds a version by its hash first: another one, and it is missing."""
    after, wanted = grown
    start = place(after, Dt.VERNEED)
    for at in (0, 2, 4, 8, 16, 20, 22, 24):  # all but the links to the next records
        assert differences(library, flip(after, start + at), wanted, "lib.so"), at


def test_the_loss_of_section_headers_is_named(library: bytes, grown: tuple[bytes, Elf]) -> None:
    after, wanted = grown
    bare = put(put(after, 0x28, bytes(8)), 0x3C, bytes(4))
    found = differences(library, bare, wanted, "lib.so")
    assert "the section headers are gone" in found


def test_a_tag_twice_is_compared_each_time(library: bytes, grown: tuple[bytes, Elf]) -> None:
    """DT_HASH in the place of another tag leads nowhere."""
    after, wanted = grown
    with memoryview(after) as view:
        image = Image.parse(view, "lib.so")
        dynamic = Dynamic.parse(image)
        segment = image.segment(Pt.DYNAMIC)
    assert dynamic is not None
    assert segment is not None
    for number in range(len(dynamic.entries)):
        at = segment.offset + 16 * number
        for tag in (Dt.HASH, Dt.AUDIT, Dt.DEPAUDIT, Dt.RELR):
            assert differences(library, put(after, at, tag_of(tag, 1)), wanted, "lib.so")


def test_the_order_of_program_headers_is_compared(tmp_path: Path) -> None:
    """glibc's loader knows where a program is from PT_PHDR, once it has read that."""
    content = executable(tmp_path / "program", flags=["-pie"]).read_bytes()
    first, second = program_header(content, Pt.PHDR), program_header(content, Pt.INTERP)
    assert second == first + 56
    swapped = put(content, first, content[second : second + 56] + content[first : first + 56])
    found = differences(content, swapped, read_elf(swapped, "program"), "program")
    assert any("not the first program header" in text for text in found), found


def test_the_place_of_properties_is_compared(tmp_path: Path) -> None:
    flags = ["-fcf-protection=full", "-Wl,-z,ibt,-z,shstk"]
    content = shared_object(tmp_path / "ibt.so", "int f(void) { return 1; }", flags=flags)
    raw = content.read_bytes()
    at = program_header(raw, Pt.GNU_PROPERTY)
    fields = [int.from_bytes(raw[at + n : at + n + 8], "little") + 8 for n in (8, 16, 24)]
    moved = put(raw, at + 8, b"".join(field.to_bytes(8, "little") for field in fields))
    found = differences(raw, moved, read_elf(moved, "lib.so"), "lib.so")
    assert "the content of PT_GNU_PROPERTY changed" in found


def test_another_format_of_relocations_is_named(library: bytes) -> None:
    at = library.index(tag_of(Dt.PLTREL, Dt.RELA))
    changed = put(library, at, tag_of(Dt.PLTREL, Dt.REL))
    assert differences(library, changed, read_elf(library, "lib.so"), "lib.so")


def test_what_is_appended_is_compared(tmp_path: Path) -> None:
    """Programs find it by its place; objcopy and strip drop it."""
    path = executable(tmp_path / "program", flags=["-pie"])
    content = path.read_bytes() + b"PK\5\6 and so on, an archive"
    path.write_bytes(content)
    said = read_elf(content, "program")
    message = "the bytes behind the object changed or moved: programs find them by their place"
    assert message in differences(content, flip(content, len(content) - 2), said, "program")
    subprocess.run(["objcopy", str(path)], check=True)
    assert message in differences(content, path.read_bytes(), said, "program")
