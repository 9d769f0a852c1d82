"""The slots of extension modules with multi-phase init (PEP 489), where they stand in the file."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from wheelfix.elf.constants import PF_W, Dt
from wheelfix.elf.dynamic_tables import Dynamic
from wheelfix.elf.image import Image
from wheelfix.errors import BadElfError
from wheelfix.system.lazy_patterns import lazy_pattern

_BASE = lazy_pattern(rb"\xff\xff\xff\xff\x00{40}")
"""PyModuleDef_HEAD_INIT of a free-threaded Python: ob_ref_local, and zeros up to m_name."""
_BASE_AT, _NAME, _SLOTS = 12, 56, 88
"""Offsets in a PyModuleDef of a 64-bit, free-threaded Python (Include/object.h, moduleobject.h)."""
_GIL, _NOT_USED = 4, 1
"""Py_mod_gil, Py_MOD_GIL_NOT_USED."""
_KNOWN = range(1, 5)
"""The slots of Python 3.13 and 3.14; an array with others is not read."""
_MOST_MODULES = 64
_UNKNOWN = -1


def slots_enable_gil(dynamic: Dynamic) -> bool:
    """Return whether all slots that it has for a free-threaded Python leave the GIL enabled.

    False also where that is not known: the slots are made when it runs, or there are none.
    """
    if dynamic.image.structs.bits != 64 or b"\0PyModuleDef_Init\0" not in dynamic.strings:
        return False
    with suppress(BadElfError):
        bases = [*islice(_bases(dynamic.image), _MOST_MODULES)]
        pointers = _pointers(dynamic, {base + at for base in bases for at in (_NAME, _SLOTS)})
        tables = [
            _slots(dynamic.image, pointers[base + _SLOTS])
            for base in bases
            if pointers[base + _NAME] and pointers[base + _SLOTS]
        ]
        return bool(tables) and all(
            table and {*table} <= {*_KNOWN} and table.get(_GIL) != _NOT_USED for table in tables
        )
    return False


def _bases(image: Image) -> Iterator[int]:
    for load in (load for load in image.loads if load.flags & PF_W):
        data = image.view[load.offset : load.offset + load.filesz]
        image.spend(len(data) >> 8, "the data")
        for match in _BASE.finditer(data):
            address = load.vaddr + match.start() - _BASE_AT
            if address % 8 == 0:
                yield address


def _pointers(dynamic: Dynamic, places: set[int]) -> dict[int, int]:
    """Return the addresses at `places`: as written by relocations, or in place (DT_RELR)."""
    image = dynamic.image
    words = ((place, image.offset(place, 8, "a module")) for place in places)
    pointers = {place: image.unpack(image.structs.addr, at, "a module")[0] for place, at in words}
    for table in dynamic.relocations() if places else ():
        if table.tag == Dt.RELA:
            pointers |= {
                place: _UNKNOWN if info >> 32 else addend  # the address of a symbol
                for place, info, addend in table.struct.iter_unpack(table.raw)
                if place in places
            }
    return pointers


def _slots(image: Image, address: int) -> dict[int, int]:
    """Return the values of an array of PyModuleDef_Slot by number."""
    slots = dict[int, int]()
    for at in range(address, address + 512, 16):
        (number,) = image.structs.word.unpack(image.loaded(at, 4, "a slot"))
        if not number:
            break
        (slots[number],) = image.structs.addr.unpack(image.loaded(at + 8, 8, "a slot"))
    return slots
