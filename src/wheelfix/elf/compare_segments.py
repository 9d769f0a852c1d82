"""ELF header and program headers of an edited object, compared with those of the original."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from wheelfix.elf.constants import PF_R, PF_W, PF_X, Pt
from wheelfix.elf.image import Header, Image, last_of
from wheelfix.elf.machine_page_sizes import PAGE_SIZES, SMALLEST_PAGE
from wheelfix.elf.model import Segment
from wheelfix.errors import BadElfError

PADDING = 64
"""Zeros fewer than this between two tables that moved are padding, and may go."""
_PLACED = {
    Pt.DYNAMIC,
    Pt.INTERP,
    Pt.NOTE,
    Pt.PHDR,
    Pt.TLS,
    Pt.GNU_EH_FRAME,
    Pt.GNU_PROPERTY,
    Pt.GNU_RELRO,
    Pt.GNU_SFRAME,
}
"""Program headers of what is loaded: address and offset must say the same place."""
_MOVABLE = {
    Pt.DYNAMIC,
    Pt.INTERP,
    Pt.NOTE,
    Pt.PHDR,
    Pt.GNU_PROPERTY,
}
"""Program headers of what may move, or be split, and is compared by content."""
_COMPARED_OTHERWISE = {*_MOVABLE, Pt.NULL, Pt.LOAD, Pt.GNU_STACK, Pt.GNU_RELRO}


def segment_differences(old: Image, new: Image, places: Collection[int]) -> Iterator[str]:
    """Yield what changed in the ELF header and in the program headers.

    `places` are the new addresses of what may have moved.
    """
    if old.header.entry != new.header.entry:
        yield f"the entry point moved from {old.header.entry:#x} to {new.header.entry:#x}"
    if _fixed_header(old) != _fixed_header(new):
        yield "the ELF header changed"
    aligned = min((s.align for s in old.loads), default=0)
    old_faults = set(_segment_faults(old, aligned))
    yield from (fault for fault in _segment_faults(new, aligned) if fault not in old_faults)
    was, now = (
        _compared_fields(old.segment(Pt.GNU_RELRO)),
        _compared_fields(new.segment(Pt.GNU_RELRO)),
    )
    if was != now and not _is_relro_without_dynamic(old, new):
        yield f"PT_GNU_RELRO changed from {was} to {now}"
    had, has = _other_segments(old), _other_segments(new)
    for kind in sorted({segment.type for segment in (had - has) + (has - had)}):
        gone = next((s for s in had - has if s.type == kind), None)
        come = next((s for s in has - had if s.type == kind), None)
        yield f"{_type(kind)} changed from {_compared_fields(gone)} to {_compared_fields(come)}"
    yield from _movable_differences(old, new)
    yield from _load_differences(old, new, places)
    if _properties(old) != _properties(new):
        yield "the content of PT_GNU_PROPERTY changed"


def _properties(image: Image) -> list[bytes]:
    """Return what kernels and loaders read of IBT, BTI and the like."""
    return [
        image.read(s.offset, s.filesz, "PT_GNU_PROPERTY")
        for s in image.segments
        if s.type == Pt.GNU_PROPERTY
    ]


def stack_differences(predicted: Sequence[Segment], actual: Sequence[Segment]) -> Iterator[str]:
    """Compare PT_GNU_STACK, by whose flags loaders make the stack executable."""
    was, now = (
        _compared_fields(last_of(segments, Pt.GNU_STACK)) for segments in (predicted, actual)
    )
    if was != now:
        yield f"PT_GNU_STACK changed from {was} to {now}"


def offset_of(image: Image, address: int) -> int | None:
    """Return the file offset of what is loaded to an address, None if nothing is."""
    try:
        return image.extent(address, "a segment")[0]
    except BadElfError:
        return None


def load_name(segment: Segment) -> str:
    """Name a PT_LOAD segment."""
    return f"the segment loaded to {segment.vaddr:#x}"


def _fixed_header(image: Image) -> tuple[bytes, Header]:
    """Return the ELF header without counts and places of the tables of headers."""
    header = image.header._replace(entry=0, phoff=0, phnum=0, shoff=0, shnum=0, shstrndx=0)
    return bytes(image.view[:16]), header


def _other_segments(image: Image) -> Counter[Segment]:
    """Return the program headers that no edit changes, without their offsets in the file."""
    return Counter(
        s._replace(offset=0, paddr=s.paddr - s.vaddr)
        for s in image.segments
        if s.type not in _COMPARED_OTHERWISE
    )


def _type(kind: int) -> str:
    return f"PT_{Pt(kind).name}" if kind in set(Pt) else f"the program header of type {kind:#x}"


def _compared_fields(segment: Segment | None) -> str:
    if segment is None:
        return "nothing"
    if segment.type == Pt.GNU_STACK:  # its size is that of threads' stacks, with musl
        size = f", size {segment.memsz:#x}" if segment.memsz else ""
        return f"flags {segment.flags:#x}{size}"
    return (
        f"address {segment.vaddr:#x}, size {segment.memsz:#x}, flags {segment.flags:#x},"
        f" size in the file {segment.filesz:#x}, alignment {segment.align:#x}"
    )


def _is_relro_without_dynamic(old: Image, new: Image) -> bool:
    """Return whether PT_GNU_RELRO only lost .dynamic, which it began with, and which moved."""
    was, now = old.segment(Pt.GNU_RELRO), new.segment(Pt.GNU_RELRO)
    left, moved = old.segment(Pt.DYNAMIC), new.segment(Pt.DYNAMIC)
    if was is None or now is None or left is None or moved is None:
        return False
    return (
        was.vaddr == left.vaddr != moved.vaddr
        and was.vaddr + was.memsz == now.vaddr + now.memsz
        and left.vaddr <= now.vaddr <= left.vaddr + left.memsz + PADDING
        and was.vaddr + was.filesz == now.vaddr + now.filesz
        and (was.flags, was.align) == (now.flags, now.align)
    )


def _movable_differences(old: Image, new: Image) -> Iterator[str]:
    """Compare all but places and sizes, which those that compare the contents look at."""
    for kind in sorted({*_MOVABLE, Pt.GNU_RELRO}):
        had, has = (
            {(s.flags, s.align, s.paddr - s.vaddr) for s in image.segments if s.type == kind}
            for image in (old, new)
        )
        is_spare = kind == Pt.PHDR and not has and old.segment(Pt.INTERP) is None
        if had != has and not is_spare:
            yield f"{_type(kind)} has another alignment, other flags or another physical address"


def _load_differences(old: Image, new: Image, places: Collection[int]) -> Iterator[str]:
    """Compare what PT_LOAD segments reserve; the bytes that they load are compared elsewhere."""
    had = old.loads
    same = {s._replace(offset=0) for s in had}
    for load in new.loads:
        if load._replace(offset=0) in same:
            continue
        old.spend(1 + len(had), "the segments")
        start, stop = load.vaddr, load.vaddr + load.memsz
        within = [s for s in had if s.vaddr < stop and start < s.vaddr + s.memsz]
        for first, last in _outside(start, stop, within) if load.flags & PF_X else ():
            if not any(first <= place < last for place in places):
                yield f"{load_name(load)} has the new addresses {first:#x} to {last:#x}"
        flags = {s.flags for s in within} or {PF_R}
        if load.flags not in flags | {before | PF_W for before in flags}:
            yield f"{load_name(load)} has the new flags {load.flags:#x}"
        zeros = load.vaddr + load.filesz
        filled = [s._replace(vaddr=s.vaddr + s.filesz, memsz=s.memsz - s.filesz) for s in had]
        if next(_outside(zeros, stop, filled), None) is not None:
            yield f"{load_name(load)} has new zeros behind it"
        kept = {s.paddr - s.vaddr for s in within} or {0}
        if load.paddr - load.vaddr not in kept:
            yield f"{load_name(load)} has another physical address"
        if within and load.align not in {s.align for s in within}:
            yield f"{load_name(load)} has another alignment"


def _outside(start: int, stop: int, segments: Sequence[Segment]) -> Iterator[tuple[int, int]]:
    """Yield the parts of `start` to `stop` that none of these segments has in memory."""
    for segment in sorted(segments, key=lambda segment: segment.vaddr):
        if segment.vaddr >= stop:
            break
        if segment.vaddr > start:
            yield start, segment.vaddr
        start = max(start, segment.vaddr + segment.memsz)
    if start < stop:
        yield start, stop


def _segment_faults(image: Image, aligned: int) -> Iterator[str]:
    """Yield what a loader may reject; `aligned` is the least p_align before the edit."""
    loads = image.loads
    sizes = PAGE_SIZES.get(image.header.machine)
    page = min(sizes.kernels[-1] if sizes else SMALLEST_PAGE, aligned)
    for load in loads:
        if load.align > 1 and (load.vaddr - load.offset) % load.align:
            yield f"{load_name(load)} is not congruent to its offset {load.offset:#x} mod p_align"
        if load.align < page:
            yield f"{load_name(load)} is aligned to {load.align:#x}, and {page:#x} is needed"
        if load.align & (load.align - 1):
            yield f"{load_name(load)} is aligned to {load.align:#x}, not a power of two"
        if load.memsz < load.filesz:
            yield f"{load_name(load)} has more bytes in the file than in memory"
        if load.flags & PF_W and load.flags & PF_X:
            yield f"{load_name(load)} is writable and executable"
    unit = max(page, 1)
    for first, second in pairwise(loads):
        end = first.vaddr + first.memsz
        if end > second.vaddr:
            yield f"{load_name(first)} and {load_name(second)} overlap or are out of order"
        # Loaders map whole pages, and fill the last one of .bss with zeros.
        elif -(-end // unit) > second.vaddr // unit and (
            first.vaddr - first.offset != second.vaddr - second.offset or first.memsz > first.filesz
        ):
            yield f"{load_name(first)} and {load_name(second)} need different contents of one page"
    yield from _place_faults(image, loads)
    yield from _table_faults(image, loads)


def _place_faults(image: Image, loads: Sequence[Segment]) -> Iterator[str]:
    """Yield what is not loaded as its program header says; the texts have no addresses."""
    for kind in _PLACED:
        headers = [s for s in image.segments if s.type == kind and s.filesz]
        if any(offset_of(image, s.vaddr) != s.offset for s in headers):
            yield f"PT_{kind.name} has an offset that is not loaded to its address"
    for kind in _MOVABLE:
        if any(s.filesz != s.memsz for s in image.segments if s.type == kind):
            yield f"PT_{kind.name} has another size in the file than in memory"
    dynamic = image.segment(Pt.DYNAMIC)
    if dynamic is not None and dynamic.flags & PF_W:
        holding = [s for s in loads if s.vaddr <= dynamic.vaddr < s.vaddr + s.memsz]
        if not any(s.flags & PF_W for s in holding):
            yield "the dynamic section, which loaders write to, is loaded read-only"


def _table_faults(image: Image, loads: Sequence[Segment]) -> Iterator[str]:
    """Yield what keeps loaders from finding the program headers."""
    start, size = image.program_headers
    if not any(s.offset <= start and start + size <= s.end for s in loads):
        yield "no segment holds the whole table of program headers, which musl's loader needs"
    if any((s.offset, s.filesz) != (start, size) for s in image.segments if s.type == Pt.PHDR):
        yield "PT_PHDR is not the place of the program headers"
    if Pt.PHDR in [s.type for s in image.segments if s.type != Pt.NULL][1:]:
        yield "PT_PHDR is not the first program header, from which loaders know their base address"
