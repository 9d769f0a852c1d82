"""Objects with very many headers take time in proportion to them, whatever is done with them."""

import io
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.support.build import make_wheel, shared_object
from tests.support.effort import takes_at_most
from tests.support.forged import forged
from wheelfix.elf.compare import differences
from wheelfix.elf.constants import SHF_ALLOC, Pt, Sht
from wheelfix.elf.editor import edit
from wheelfix.elf.image import Image, Section
from wheelfix.elf.model import Segment, Undefined
from wheelfix.elf.reader import read_elf
from wheelfix.elf.revision import Revision
from wheelfix.elf.strip import write_debug_file, write_stripped
from wheelfix.errors import VerificationError
from wheelfix.pipelines.apply_edits import apply
from wheelfix.settings import Settings
from wheelfix.wheel.edits import SetSoname, predict
from wheelfix.wheel.reader import open_wheel

SMALL, LARGE = 1_000, 16_000
"""Numbers of headers."""
MOST = 16 * 3
"""Times longer that the large object may take: n log n is 22, and quadratic 256."""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Image:
    folder = tmp_path_factory.mktemp("plain")
    source = "int zeros[99]; int f(void) { return zeros[3]; }"
    path = shared_object(folder / "lib.so", source, soname="x.so", runpath="/a", libc=False)
    return Image.parse(memoryview(path.read_bytes()), "lib.so")


def with_sections(plain: Image, added: list[Section]) -> bytes:
    shdr = plain.structs.shdr
    sections = (*plain.sections, *added)
    content = bytearray(bytes(plain.view) + bytes(-len(plain.view) % 8))
    content += b"".join(shdr.pack(*section) for section in sections)
    header = plain.header._replace(shoff=len(content) - shdr.size * len(sections))
    struct.pack_into("<" + "HHIQQQIHHHHHH", content, 16, *header._replace(shnum=len(sections)))
    return bytes(content)


def sections_in_dynstr(plain: Image, count: int) -> bytes:
    strings = next(s for s in plain.sections if s.type == Sht.STRTAB and s.flags & SHF_ALLOC)
    inside = [number % strings.size for number in range(count)]
    added = [
        Section(0, Sht.PROGBITS, SHF_ALLOC, strings.addr + at, strings.offset + at, 1, 0, 0, 1, 0)
        for at in inside
    ]
    return with_sections(plain, added)


def small_sections(plain: Image, count: int) -> bytes:
    """Each asks for the alignment of 1 MiB."""
    start = len(plain.view)
    padded = Image.parse(memoryview(bytes(plain.view) + bytes(count)), "lib.so")
    added = [
        Section(0, Sht.PROGBITS, 0, 0, start + number, 1, 0, 0, 1 << 20, 0)
        for number in range(count)
    ]
    return with_sections(padded, added)


def segments(plain: Image, count: int) -> bytes:
    """Add PT_LOAD segments, each with a byte of the file, and zeros behind it."""
    last = max(n for n, s in enumerate(plain.segments) if s.type == Pt.LOAD)
    top = (plain.segments[last].vaddr + plain.segments[last].memsz) // 4096 + 1
    start = len(plain.view) // 4096 + 1
    added = [
        Segment(Pt.LOAD, 4, (start + n) * 4096, (top + n) * 4096, 0, 1, 16, 4096)
        for n in range(count // 8)
    ]
    headers = [*plain.segments[: last + 1], *added, *plain.segments[last + 1 :]]
    content = bytearray(bytes(plain.view).ljust((start + len(added)) * 4096, b"\1"))
    header = plain.header._replace(phoff=len(content), phnum=len(headers))
    content += b"".join(map(plain.structs.pack_segment, headers))
    struct.pack_into("<" + "HHIQQQIHHHHHH", content, 16, *header)
    return bytes(content)


def edited(content: bytes) -> None:
    revision = Revision.of(read_elf(content, "lib.so")).set_paths(None, "x" * 3000)
    revision = revision.add_needed("libm.so.6").set_soname("y" * 99)
    written = edit(content, revision, "lib.so").content(content)
    differences(content, written, revision.after, "lib.so")


def shortened(content: bytes) -> None:
    revision = Revision.of(read_elf(content, "lib.so")).set_paths(None, None)
    written = edit(content, revision, "lib.so").content(content)
    assert differences(content, written, revision.after, "lib.so") == ()


def stripped(content: bytes) -> None:
    bare, debug = io.BytesIO(), io.BytesIO()
    write_stripped(memoryview(content), "lib.so", bare, keeps_symtab=True)
    write_debug_file(memoryview(content), "lib.so", debug)
    assert len(bare.getvalue()) < 2 * len(content) + 5000
    assert len(debug.getvalue()) < 2 * len(content) + 5000
    wanted = read_elf(content, "lib.so")
    assert differences(content, bare.getvalue(), wanted, "lib.so") == ()


@pytest.mark.each_run("sections_in_dynstr-edited", "segments-shortened")
@pytest.mark.parametrize(
    ("make", "work"),
    [
        (sections_in_dynstr, edited),
        (sections_in_dynstr, shortened),
        (sections_in_dynstr, stripped),
        (small_sections, edited),
        (small_sections, shortened),
        (small_sections, stripped),
        (segments, shortened),
        (segments, stripped),
    ],
)
def test_many_headers_take_time_in_proportion(
    plain: Image, make: Callable[[Image, int], bytes], work: Callable[[bytes], None]
) -> None:
    large, small = (partial(work, make(plain, count)) for count in (LARGE, SMALL))
    assert takes_at_most(MOST, large, small)


@pytest.mark.large
def test_many_strings_are_released_and_placed_in_proportion() -> None:
    def work(count: int) -> Callable[[], object]:
        versions, libraries = (
            [f"V_{n}" for n in range(count)],
            [f"lib{n:04}.so" for n in range(900)],
        )
        content = forged(needed=["libc.so.6", *libraries], soname="x.so", versions=versions)
        revision = Revision.of(read_elf(content, "lib.so")).drop_needed("libc.so.6")
        for name in libraries:
            revision = revision.rename_needed(name, f"{name}-longer")
        return partial(edit, content, revision, "lib.so")

    assert takes_at_most(MOST, work(8_000), work(500))


def test_an_error_lists_few_of_many_differences(plain: Image, tmp_path: Path) -> None:
    content = bytearray(sections_in_dynstr(plain, 400))
    with memoryview(content) as view:
        image = Image.parse(view, "lib.so")
    shdr = plain.structs.shdr.size
    for number in range(len(plain.sections), len(image.sections)):  # sh_name
        name = number % image.sections[image.header.shstrndx].size
        struct.pack_into("<I", content, image.header.shoff + shdr * number, name)
    wheel = make_wheel(tmp_path, files={"pkg/lib.so": bytes(content)})
    edits = [SetSoname(member="pkg/lib.so", soname="x" * 999)]
    with open_wheel(wheel) as archive, pytest.raises(VerificationError) as caught:
        apply(archive, predict(archive.wheel, edits), edits, tmp_path, Settings())
    assert len(caught.value.message) < 2000
    assert " more" in caught.value.message


@pytest.mark.parametrize("edits", [Revision.drop_needed, partial(Revision.rename_needed, new="x")])
def test_edits_of_many_libraries_do_not_read_all_symbols_each(
    edits: Callable[[Revision, str], Revision],
) -> None:
    names = [f"lib{number}.so" for number in range(500)]
    elf = read_elf(forged(needed=names), "lib.so")

    def work(count: int) -> None:
        symbol = Undefined("f", "V_1", "lib0.so", type=0, weak=True)
        revision = Revision.of(elf._replace(undefined=(symbol,) * count))
        for name in names:
            revision = edits(revision, name)
        assert len(revision.after.undefined) == count

    # All symbols read for each library: 15 s and more.
    assert takes_at_most(100, partial(work, 100_000), partial(work, 1_000))
