"""Shrunken ELF objects for patchelf, which reads a whole object into memory.

patchelf moves tables but no code, and ignores the names of .symtab. So most of each large section
is left out of the file that it edits, and put back afterwards. Objects of a gigabyte are edited in
less than 128 MB this way.
"""

from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import BinaryIO, NamedTuple

from wheelfix.elf.constants import SHF_ALLOC, Sht
from wheelfix.elf.image import Image, Section
from wheelfix.elf.model import ElfType, Machine
from wheelfix.system.mapped_pieces import pieces

_LARGE = 1 << 20
"""Bytes; smaller sections are kept whole."""
_LEFT = 64
"""Bytes kept at both ends of a section, so that nothing else begins or ends at a cut."""
# Indices of the fields in the records of `image.Structs`.
_E_PHOFF, _E_SHOFF = 4, 5
_P_OFFSET, _P_FILESZ = {32: 1, 64: 2}, {32: 4, 64: 5}
_SH_OFFSET, _SH_SIZE = 4, 5


class Cut(NamedTuple):
    """A range of a file that is left out, in bytes."""

    start: int
    size: int


def removable_ranges(view: memoryview, name: str) -> tuple[Cut, ...]:
    """Return the ranges of an object that can be left out, in order; none without large sections.

    Raises `BadElfError` for broken headers.
    """
    image = Image.parse(view, name)
    if image.type != ElfType.DYN:  # patchelf makes room before the code of programs
        return ()
    unit = max([1 << 16, *(segment.align for segment in image.segments)])
    filled = [section for section in image.sections if section.type != Sht.NOBITS and section.size]
    taken = sorted((section.offset, section.offset + section.size) for section in filled)
    found = [
        Cut(start=section.offset + _LEFT, size=(section.size - 2 * _LEFT) // unit * unit)
        for section in filled
        if section.size >= _LARGE and _is_only_carried(image, section)
    ]
    places = [(s.offset, s.offset + s.filesz) for s in image.segments] + taken
    return tuple(
        cut
        for cut in sorted(found, key=lambda cut: cut.start)
        if cut.size
        and all(_apart_or_around(cut, *place) for place in places)
        and sum(start <= cut.start < stop for start, stop in taken) == 1
    )


def _is_only_carried(image: Image, section: Section) -> bool:
    """Return whether patchelf neither changes nor moves the section."""
    match section.type:
        case Sht.PROGBITS:
            return True
        case Sht.STRTAB:  # that of .symtab; the loaded one is .dynstr
            return not section.flags & SHF_ALLOC
        case Sht.X86_64_UNWIND:  # psABI, table 4.11; another type on other machines
            return image.machine == Machine.X86_64
        case _:
            return False


def _apart_or_around(cut: Cut, start: int, stop: int) -> bool:
    end = cut.start + cut.size
    return stop <= cut.start or end <= start or (start < cut.start and end < stop)


def write_shrunken(view: memoryview, left_out: Sequence[Cut], file: BinaryIO) -> None:
    """Write an object without its cuts, with adapted headers."""
    at = 0
    for cut in left_out:
        file.writelines(pieces(view[at : cut.start]))
        at = cut.start + cut.size
    file.writelines(pieces(view[at:]))
    image = Image.parse(view, "the object")
    for place, raw in _moved_headers(image, lambda offset: _without(left_out, offset)):
        file.seek(_without(left_out, place))
        file.write(raw)


def restore(shrunken: memoryview, left_out: Sequence[Cut], file: BinaryIO) -> None:
    """Write an edited shrunken object over the original, around what was cut out of it.

    If patchelf has moved a table of headers, the old one keeps offsets of the shrunken object;
    nothing refers to it.
    """
    at = removed = 0
    for cut in left_out:
        file.seek(at + removed)
        file.writelines(pieces(shrunken[at : cut.start - removed]))
        at = cut.start - removed
        removed += cut.size
    file.seek(at + removed)
    file.writelines(pieces(shrunken[at:]))
    image = Image.parse(shrunken, "the edited object")
    for place, raw in _moved_headers(image, lambda offset: _with(left_out, offset)):
        file.seek(_with(left_out, place))
        file.write(raw)


def _without(left_out: Sequence[Cut], offset: int) -> int:
    return offset - sum(cut.size for cut in left_out if cut.start < offset)


def _with(left_out: Sequence[Cut], offset: int) -> int:
    for cut in left_out:
        offset += cut.size if cut.start < offset else 0
    return offset


def _moved_headers(image: Image, moved: Callable[[int], int]) -> Iterator[tuple[int, bytes]]:
    """Yield file offset and new content of each header, with offsets mapped by `moved`."""
    structs, view = image.structs, image.view
    header = list(structs.ehdr.unpack_from(view, 16))
    header[_E_PHOFF], header[_E_SHOFF] = moved(header[_E_PHOFF]), moved(header[_E_SHOFF])
    yield 16, structs.ehdr.pack(*header)
    offset, size = _P_OFFSET[structs.bits], _P_FILESZ[structs.bits]
    start, length = image.program_headers
    for place in range(start, start + length, structs.phdr.size):
        yield place, _moved(structs.phdr, view, place, (offset, size), moved)
    for number, section in enumerate(image.sections):
        place = image.section_headers + number * structs.shdr.size
        filled = section.type not in {Sht.NULL, Sht.NOBITS}
        fields = (_SH_OFFSET, _SH_SIZE if filled else None)
        yield place, _moved(structs.shdr, view, place, fields, moved)


def _moved(
    struct: Struct,
    view: memoryview,
    place: int,
    fields: tuple[int, int | None],
    moved: Callable[[int], int],
) -> bytes:
    """Return the header at `place` with its offset and size in the file mapped by `moved`."""
    values = list(struct.unpack_from(view, place))
    offset, size = fields
    start = values[offset]
    values[offset] = moved(start)
    if size is not None and values[size]:
        values[size] = moved(start + values[size]) - values[offset]
    return struct.pack(*values)
