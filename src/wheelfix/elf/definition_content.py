"""What definitions of an object contain: the bytes of the file that are the same in equal builds.

Words to which relocations apply are left out, since they differ with every layout of the object,
and so are displacements of x86-64's code.
"""

from bisect import bisect_left
from collections.abc import Iterator
from hashlib import sha256

from wheelfix.elf.constants import STT_TLS, Dt, Pt
from wheelfix.elf.dynamic_tables import Dynamic
from wheelfix.elf.exports import CODE
from wheelfix.elf.image import Buffer, Image
from wheelfix.elf.model import Machine
from wheelfix.errors import BadElfError
from wheelfix.system.lazy_patterns import lazy_pattern

_LARGEST = 1 << 16
"""Bytes of a definition that are compared: larger tables are data, which their users know."""
_DISPLACEMENTS = lazy_pattern(
    rb"(?s)(\xe8|\xe9|\x0f[\x80-\x8f]|[\x05\x0d\x15\x1d\x25\x2d\x35\x3d]).{4}"
)
"""call, jmp, jcc, and a ModRM byte of RIP-relative addressing, each with four bytes."""


def definition_contents(data: Buffer, name: str, names: frozenset[str]) -> dict[str, bytes]:
    """Return a digest of what each definition of `names` in the object `data` contains.

    Of what is larger than 64 KiB, and of code for other machines than x86-64, where displacements
    are not whole bytes, it is empty. Raises `BadElfError` as `read_elf` does.
    """
    with memoryview(data) as view:
        image = Image.parse(view, name)
        dynamic = Dynamic.parse(image)
        if dynamic is None or Dt.SYMTAB not in dynamic.tags:
            return {}
        places = sorted(_relocated(dynamic))
        blocks = [segment.vaddr for segment in image.segments if segment.type == Pt.TLS]
        digests: dict[str, bytes] = {}
        for at, info, _, section, value, size in dynamic.symbols(0, dynamic.symbol_count):
            symbol = dynamic.string(at, "a symbol's name") if section and at else ""
            if symbol in names:
                kind, is_x86 = info & 0xF, image.header.machine == Machine.X86_64
                is_known = size <= _LARGEST and (is_x86 or kind not in CODE)
                address = value + blocks[0] if kind == STT_TLS and blocks else value
                content = _content(image, address, size, places) if is_known else b""
                if kind in CODE:
                    content = _DISPLACEMENTS.sub(lambda match: match[1], content)
                digests[symbol] = sha256(content).digest()[:16] if content else b""
        return digests


def _content(image: Image, address: int, size: int, places: list[int]) -> bytes:
    """Return what a definition contains, with zeros where a relocation writes."""
    content, word = bytearray(_loaded(image, address, size)), image.structs.addr.size
    for place in places[bisect_left(places, address) : bisect_left(places, address + size)]:
        content[place - address : place - address + word] = bytes(word)
    return bytes(content[:size])


def _relocated(dynamic: Dynamic) -> Iterator[int]:
    """Yield the addresses to which relocations apply (gABI, "Relocation" and "DT_RELR")."""
    for table in dynamic.relocations():
        yield from (fields[0] for fields in table.struct.iter_unpack(table.raw))
    if Dt.RELR not in dynamic.tags:
        return
    addresses = dynamic.image.structs.addr
    size = dynamic.tags.get(Dt.RELRSZ, 0) // addresses.size * addresses.size
    raw = dynamic.image.loaded(dynamic.tags[Dt.RELR], size, "DT_RELR")
    place, word = 0, addresses.size
    for (entry,) in addresses.iter_unpack(raw):
        if entry & 1:
            bits = range(1, 8 * word)
            yield from (place + (bit - 1) * word for bit in bits if entry >> bit & 1)
            place += (8 * word - 1) * word
        else:
            yield entry
            place = entry + word


def _loaded(image: Image, address: int, size: int) -> bytes:
    """Return bytes as they are loaded to an address: zeros where the file has none (.bss)."""
    for load in image.loads:
        if load.vaddr <= address < load.vaddr + load.memsz:
            start = address - load.vaddr
            there = max(0, min(size, load.filesz - start))
            read = image.read(load.offset + start, there, "a definition") if there else b""
            return read + bytes(size - there)
    raise BadElfError(f"`{image.name}` defines a symbol outside of its segments")
