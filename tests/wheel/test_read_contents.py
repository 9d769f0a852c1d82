"""What members are: read in one pass, and small enough to be kept."""

import mmap
import os
import random
from functools import partial
from pathlib import Path

import pytest

from tests.support.build import make_wheel, shared_object
from tests.support.exports import read_exports
from wheelfix.elf.exports import lazy_exports
from wheelfix.system.mapped_files import pieces
from wheelfix.wheel import read_contents as contents
from wheelfix.wheel.reader import open_wheel
from wheelfix.wheel.strings_in_files import CODE, DATA, Strings, strings_among

# --- Strings -------------------------------------------------------------------------------------


def strings(data: bytes, step: int, text: bytes = b".so") -> Strings:
    found = Strings(text, CODE)
    for at in range(0, len(data), step):
        found.feed(data[at : at + step])
    found.finish()
    return found


@pytest.mark.parametrize("step", [1, 2, 7, 100, 5000])
def test_strings_are_found_wherever_the_file_is_cut(step: int) -> None:
    data = b"x.so\0a/libb.so.1\0'c.so'" + bytes(1000) + b'"d.so.so"' + b"y" * 300 + b".so\0"
    # The first and the last have no end, or one that is too far away.
    found = strings(data, step)
    assert {text for _, text in found.found} == {b"libb.so.1", b"c.so", b"d.so.so"}
    assert all(data[at:].startswith(text) for at, text in found.found)
    assert found.complete


def test_a_value_of_a_data_file_is_a_string_and_the_end_of_a_sentence_is_none() -> None:
    lines = ["lib = a.so", "lib=b.so", "- c.so", "<lib>d.so</lib>", "e.so\r", "f.so,x", "(g.so)"]
    data = "\ufeffh.so\n" + "\n".join(lines) + "\nlibrary xy.so1 is\n"
    found = Strings(b".so", DATA)
    found.feed(data.encode())
    found.finish()
    names = {f"{name}.so".encode() for name in "abcdefgh"}
    assert {text for _, text in found.found if b".so" in text} == names
    assert {text for text, _ in strings_among([data.encode()], {b"a.so", b"h.so"}, DATA)} == {
        b"a.so",
        b"h.so",
    }


def test_random_cuts_find_what_one_piece_finds() -> None:
    source = random.Random(1)  # noqa: S311 - no secret
    for _ in range(300):
        data = bytes(source.choices(b"\0/'\".so", k=source.randrange(2000)))
        whole = set(strings(data, len(data) + 1).found)
        assert set(strings(data, source.randrange(1, 400)).found) == whole


def test_many_texts_are_found_where_each_is_found_alone() -> None:
    source = random.Random(2)  # noqa: S311 - no secret
    texts = {b"a.so", b"b.so", b"ab", b"a", b"so" * 9}
    for _ in range(300):
        words = source.choices([*texts, b"x", b"y" * 40, b"/", b"\0"], k=60)
        data = b"".join(source.choices([b"\0", b"/", b"'", b"x", b""])[0] + word for word in words)
        expected = {
            (text, at)
            for text in texts
            for at, found in strings(data, len(data) + 1, text).found
            if found == text
        }
        step = source.randrange(1, 90)
        cut = [data[at : at + step] for at in range(0, len(data), step)]
        assert set(strings_among(cut, texts, CODE)) == expected


def test_a_file_of_nothing_but_names_is_given_up() -> None:
    assert not strings(b"a.so\0" * 10_000, 1000).complete
    assert strings(b"a.so\0" * 1000, 1000).complete


# --- Mappings ------------------------------------------------------------------------------------


def resident(path: Path) -> int:
    """Return how many KiB of a file are mapped into this process and in its memory."""
    _, _, rest = Path("/proc/self/smaps").read_text().partition(str(path))
    return int(rest.partition("Rss:")[2].split()[0])


def test_what_was_read_of_a_mapping_does_not_stay(tmp_path: Path) -> None:
    path = tmp_path / "file"
    data = os.urandom(1 << 20) * 5 + os.urandom(12_345)
    path.write_bytes(data)
    with path.open("rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    view = memoryview(mapping)
    assert b"".join(pieces(view)) == data
    assert resident(path) < 2048
    assert bytes(view) == data
    assert resident(path) > 4096
    assert b"".join(pieces(view)) == data
    assert resident(path) == 0


# --- Members -------------------------------------------------------------------------------------


def test_symbol_tables_give_the_exports_of_the_object(tmp_path: Path) -> None:
    source = (
        "int a(void) { return 1; } __attribute__((weak)) int b; extern int c; int d() { return c; }"
    )
    library = shared_object(tmp_path / "x.so", source=source, soname="libx.so.1", libc=False)
    whole = read_exports(library.read_bytes(), "x.so")
    assert {"a", "b", "d"} <= whole.definitions.keys()
    path = make_wheel(tmp_path, files={"x.so": library})
    for room in (10_000, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(contents, "_TABLES", room)
            with open_wheel(path) as archive:
                assert (archive.contents["x.so"].tables is None) == (room == 0)
                read = lazy_exports(partial(archive.symbol_tables, "x.so"))
                assert (read.definitions, read.copies) == (whole.definitions, whole.copies)
