"""Tables of an object written to the places that `elf.growth` has found for them.

Each step yields offsets in the new file and the bytes to write there, and says which bytes it may
touch. Their order matters: a step reads what the ones before it have written.
"""

from __future__ import annotations

from collections.abc import Iterator

from wheelfix.elf.constants import SHF_ALLOC, TABLE_TAGS, Dt, Pt, Sht
from wheelfix.elf.growth import Move, TableLayout, Tables
from wheelfix.elf.image import Section
from wheelfix.elf.patch import PatchDraft

_Writes = Iterator[tuple[int, bytes]]


def write_tables(patch: PatchDraft, tables: Tables, layout: TableLayout) -> None:
    """Write the tables, and all headers that lead to them.

    What `patch` has written to a table already moves along with it.
    """
    patch.open_gap(layout.gap)
    for step in (
        _symbol_values,
        _moved_tables,
        _strings_in_place,
        _dynamic_section,
        _global_offset_table,
        _section_headers,
        _program_headers,
    ):
        for at, raw in step(patch, tables, layout):
            patch.write(at, raw)


def _symbol_values(patch: PatchDraft, tables: Tables, layout: TableLayout) -> _Writes:
    """Let the symbols of sections that move follow these, and _DYNAMIC follow .dynamic.

    May touch: st_value in the symbol tables, at their old places.
    """
    image, structs = tables.image, tables.image.structs
    word, size = structs.addr, structs.sym.size
    values = {
        number: (word.pack(section.addr), word.pack(section.addr + move.step))
        for number, section in enumerate(image.sections)
        if (move := _move_of(section, layout)) is not None
    }
    for table in image.sections if values else ():
        if table.type not in {Sht.DYNSYM, Sht.SYMTAB} or table.end > len(image.view):
            continue
        raw = image.read(table.offset, table.size, "the symbols")
        image.spend(table.size // size >> 4, "the symbols")
        for entry, number in enumerate(structs.section_numbers(raw)):
            if number in values:
                at = entry * size + structs.st_value
                # Other addresses in the section are of no table that moves as a whole.
                if raw[at : at + word.size] == values[number][0]:
                    yield patch.place(table.offset) + at, values[number][1]


def _moved_tables(patch: PatchDraft, tables: Tables, layout: TableLayout) -> _Writes:
    """Write what moves but .dynamic to its new place, and zeros, which pack well, to the old one.

    May touch: the new segment, and the old places but for those that another section shares.
    """
    for move in layout.moves:
        if _is_dynamic(move, tables):
            continue
        is_strings = tables.moves_strings and move.old_vaddr == tables.dynamic.tags[Dt.STRTAB]
        yield (
            move.offset,
            tables.strings if is_strings else patch.read(move.old_offset, move.old_size),
        )
        if not _is_shared(move, tables):
            yield move.old_offset, bytes(move.old_size)


def _strings_in_place(_: PatchDraft, tables: Tables, __: TableLayout) -> _Writes:
    """Write .dynstr where it is.

    May touch: .dynstr, if it does not move.
    """
    if not tables.moves_strings and tables.strings != tables.dynamic.strings:
        at = tables.dynamic.tags[Dt.STRTAB]
        yield tables.image.offset(at, len(tables.strings), "the string table"), tables.strings


def _dynamic_section(_: PatchDraft, tables: Tables, layout: TableLayout) -> _Writes:
    """Write .dynamic, with the new addresses of the tables.

    May touch: its new place; if it does not move, its entries and the zeroed ones behind them.
    """
    image, dyn = tables.image, tables.image.structs.dyn
    raw = b"".join(
        dyn.pack(tag, _value(tag, value, tables, layout)) for tag, value in tables.entries
    )
    if tables.moves_dynamic:
        move = next(move for move in layout.moves if _is_dynamic(move, tables))
        yield move.offset, raw.ljust(move.size, b"\0")
        return
    raw = raw.ljust(len(tables.dynamic.entries) * dyn.size, b"\0")
    segment = image.segment(Pt.DYNAMIC)
    if segment is not None:
        yield image.offset(segment.vaddr, len(raw), "the dynamic section"), raw


def _value(tag: int, value: int, tables: Tables, layout: TableLayout) -> int:
    """Return the d_val of an entry after the moves."""
    if tag == Dt.STRSZ:
        return len(tables.strings)
    if tag not in TABLE_TAGS:
        return value
    move = next((move for move in layout.moves if move.holds(value, 1)), None)
    return value if move is None else value + move.step


def _global_offset_table(patch: PatchDraft, tables: Tables, layout: TableLayout) -> _Writes:
    """Let the GOT say where .dynamic is, if it did so before.

    May touch: the first word of the GOT.
    """
    image, word = tables.image, tables.image.structs.addr
    got = tables.dynamic.tags.get(Dt.PLTGOT)
    # On some machines DT_PLTGOT is in .bss, which has no bytes in the file.
    if got is None or not any(m.start <= got and got + word.size <= m.stop for m in image.mapped):
        return
    at = image.offset(got, word.size, "DT_PLTGOT")
    for move in layout.moves:
        if _is_dynamic(move, tables) and patch.read(at, word.size) == word.pack(move.old_vaddr):
            yield at, word.pack(move.vaddr)


def _section_headers(patch: PatchDraft, tables: Tables, layout: TableLayout) -> _Writes:
    """Write the headers of sections that an edit or a move has changed, or the gap has moved.

    May touch: the table of section headers.
    """
    shdr, start = tables.image.structs.shdr, patch.place(tables.image.header.shoff)
    for number, (old, section) in enumerate(
        zip(tables.image.sections, tables.sections, strict=True)
    ):
        move = _move_of(section, layout)
        if move is not None:
            new = section._replace(
                addr=section.addr + move.step,
                offset=move.offset + section.addr - move.old_vaddr,
                size=section.size if move.size == move.old_size else move.size,
            )
        elif not section.flags & SHF_ALLOC and section.type != Sht.NULL:
            new = section._replace(offset=patch.place(section.offset))
        else:
            new = section
        if new != old:
            yield start + number * shdr.size, shdr.pack(*new)


def _program_headers(patch: PatchDraft, tables: Tables, layout: TableLayout) -> _Writes:
    """Write the program headers, and the ELF header that leads to the section headers.

    May touch: the table of program headers as far as it has room, e_phnum and e_shoff.
    """
    image, headers = tables.image, layout.headers
    if layout.gap:
        shoff = patch.place(image.header.shoff)
        header = image.header._replace(shoff=shoff, phnum=len(headers))
        yield 16, image.structs.ehdr.pack(*header)
    if headers != image.segments:
        at, size = image.program_headers
        yield at, b"".join(map(image.structs.pack_segment, headers)).ljust(size, b"\0")


def _move_of(section: Section, layout: TableLayout) -> Move | None:
    """Return what a section moves with, if it does."""
    if not section.flags & SHF_ALLOC or not section.is_filled:
        return None
    return next((m for m in layout.moves if m.holds(section.addr, section.size)), None)


def _is_dynamic(move: Move, tables: Tables) -> bool:
    segment = tables.image.segment(Pt.DYNAMIC)
    return tables.moves_dynamic and segment is not None and move.old_vaddr == segment.vaddr


def _is_shared(move: Move, tables: Tables) -> bool:
    """Return whether another section uses bytes of the old place."""
    stop = move.old_offset + move.old_size
    return any(
        section.offset < stop
        and move.old_offset < section.end
        and not move.holds(section.addr, section.size)
        for section in tables.image.sections
        if section.is_filled
    )
