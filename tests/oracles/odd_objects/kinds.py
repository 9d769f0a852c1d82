"""Changes that make an object odd, and leave it valid.

Each takes an object of this machine's class and byte order, and returns it changed, or None where
it does not apply. What the loader thinks of the result is for the judge to say.
"""

import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from wheelfix.elf.constants import Dt, Pt, Sht
from wheelfix.elf.image import STRUCTS
from wheelfix.pipelines.patchelf import find_patchelf

_PAGE = 4096
_STRUCTS = STRUCTS[2, 1]
_PATCHELF = find_patchelf().program
_PT_NULL, _PT_PHDR = 0, 6
_TYPE, _FLAGS, _OFFSET, _VADDR, _PADDR, _FILESZ, _MEMSZ, _ALIGN = range(8)
_SPARE_TAGS = (0x6000_0001, 0x6FFF_FDF5, 0x6FFF_FDF8, 0x15, 0x7FFF_FFFE)
"""An unknown one, DT_GNU_PRELINKED, DT_CHECKSUM, DT_DEBUG, and one of Sun's."""
_SECTION_TAGS: Mapping[int, Dt] = {
    Sht.STRTAB: Dt.STRTAB,
    Sht.DYNSYM: Dt.SYMTAB,
    Sht.GNU_VERNEED: Dt.VERNEED,
    Sht.GNU_VERSYM: Dt.VERSYM,
}


@dataclass
class Object:
    """An object taken apart."""

    data: bytearray
    header: list[int]
    segments: list[list[int]]

    @classmethod
    def parse(cls, data: bytes) -> "Object":
        """Take apart the headers of `data`."""
        header = list(_STRUCTS.ehdr.unpack_from(data, 16))
        at, size, count = header[4], header[8], header[9]
        table = data[at : at + size * count]
        return cls(bytearray(data), header, [list(s) for s in _STRUCTS.phdr.iter_unpack(table)])

    def loads(self) -> list[list[int]]:
        """Return the PT_LOAD segments."""
        return [segment for segment in self.segments if segment[_TYPE] == Pt.LOAD]

    def one(self, kind: Pt) -> list[int]:
        """Return the segment of a type."""
        return next(segment for segment in self.segments if segment[_TYPE] == kind)

    def place(self, address: int) -> int:
        """Return the file offset of an address."""
        for load in self.loads():
            start = load[_VADDR] - load[_VADDR] % _PAGE
            if start <= address < load[_VADDR] + max(load[_FILESZ], 1) + _PAGE:
                offset = address - load[_VADDR] + load[_OFFSET]
                if address < load[_VADDR] + load[_FILESZ] or load[_MEMSZ] == load[_FILESZ]:
                    return offset
        raise LookupError(hex(address))

    def tags(self) -> list[tuple[int, int]]:
        """Return the entries of .dynamic up to DT_NULL."""
        at, found = self.place(self.one(Pt.DYNAMIC)[_VADDR]), list[tuple[int, int]]()
        for tag, value in _STRUCTS.dyn.iter_unpack(self.data[at : at + 1024]):
            if not tag:
                break
            found.append((tag, value))
        return found

    def spare(self) -> int:
        """Return how many entries the dynamic section has room for, DT_NULL aside."""
        dynamic = self.one(Pt.DYNAMIC)
        at = self.place(dynamic[_VADDR])
        used = len(self.tags())
        rest = bytes(self.data[at + 16 * used : at + dynamic[_MEMSZ]])
        return (len(rest) - len(rest.lstrip(b"\0"))) // 16 - 1

    def set_tags(self, tags: Iterable[tuple[int, int]]) -> None:
        """Write the entries of .dynamic."""
        at = self.place(self.one(Pt.DYNAMIC)[_VADDR])
        raw = b"".join(_STRUCTS.dyn.pack(*entry) for entry in tags)
        self.data[at : at + len(raw)] = raw

    def sections(self) -> list[list[int]]:
        """Return the section headers."""
        at, size, count = self.header[5], self.header[10], self.header[11]
        table = self.data[at : at + size * count] if at and size else b""
        return [list(section) for section in _STRUCTS.shdr.iter_unpack(table)]

    def append(self, content: bytes, flags: int = 6) -> int:
        """Append a segment with `content`; return its address."""
        self.data += bytes(-len(self.data) % _PAGE)
        end = max(load[_VADDR] + load[_MEMSZ] for load in self.loads())
        address = end + -end % _PAGE
        last = max(n for n, s in enumerate(self.segments) if s[_TYPE] == Pt.LOAD)
        size = len(content)
        segment = [Pt.LOAD, flags, len(self.data), address, address, size, size, _PAGE]
        self.segments.insert(last + 1, segment)
        self.data += content
        return address

    def write(self, *, move: bool = False) -> bytes:
        """Put it together, with the program headers at the end if they grew."""
        raw = b"".join(_STRUCTS.phdr.pack(*segment) for segment in self.segments)
        if move or len(self.segments) > self.header[9]:
            self.data += bytes(-len(self.data) % 8)
            self.header[4] = len(self.data)
            for segment in self.segments:  # no longer in memory
                segment[_TYPE] = _PT_NULL if segment[_TYPE] == _PT_PHDR else segment[_TYPE]
        self.header[9] = len(self.segments)
        at = self.header[4]
        self.data[at : at + len(raw)] = raw
        self.data[16 : 16 + _STRUCTS.ehdr.size] = _STRUCTS.ehdr.pack(*self.header)
        return bytes(self.data)


def _no_section_headers(made: Object, dice: Random) -> bytes | None:
    made.header[5] = made.header[11] = made.header[12] = 0
    if dice.random() < 0.5 and made.header[4] < _PAGE:  # as sstrip does
        del made.data[max(load[_OFFSET] + load[_FILESZ] for load in made.loads()) :]
    return made.write()


def _broken_section_headers(made: Object, dice: Random) -> bytes | None:
    field, value = dice.choice([(5, 1 << 40), (5, len(made.data) - 8), (10, 0), (11, 60_000)])
    made.header[field] = value
    return made.write()


def _section_headers_in_a_segment(made: Object, dice: Random) -> bytes | None:
    del dice
    at, size = made.header[5], made.header[10] * made.header[11]
    if not size or at + size > len(made.data):
        return None
    address = made.append(bytes(made.data[at : at + size]), 4)
    made.header[5] = made.place(address)
    return made.write()


def _moved_program_headers(made: Object, dice: Random) -> bytes | None:
    made.data += dice.randbytes(dice.randrange(40))
    return made.write(move=True)


def _shuffled_program_headers(made: Object, dice: Random) -> bytes | None:
    loads = iter(made.loads())
    unknown = [0x6500_0000 + dice.randrange(100), 4, 0, 0, 0, 0, 0, 1]
    made.segments += dice.sample([[_PT_NULL, 0, 0, 0, 0, 0, 0, 0], unknown], dice.randint(0, 2))
    dice.shuffle(made.segments)
    made.segments = [
        next(loads) if segment[_TYPE] == Pt.LOAD else segment for segment in made.segments
    ]
    return made.write()


def _shorter_file_size(made: Object, dice: Random) -> bytes | None:
    """Leave bytes out that the loader maps all the same, with their page."""
    load = dice.choice(made.loads())
    least = (load[_VADDR] + load[_FILESZ] - 1) % _PAGE
    if load[_MEMSZ] != load[_FILESZ] or load[_FILESZ] <= least + 1 or not least:
        return None
    load[_FILESZ] -= dice.randint(1, least)
    load[_MEMSZ] = load[_FILESZ]
    return made.write()


def _cut_before_dynamic(made: Object, dice: Random) -> bytes | None:
    del dice
    at = made.one(Pt.DYNAMIC)[_VADDR]
    for load in made.loads():
        end = load[_VADDR] + load[_FILESZ]
        if load[_VADDR] < at < end and (end - 1) // _PAGE == at // _PAGE:
            if load[_MEMSZ] != load[_FILESZ]:
                return None
            load[_FILESZ] = load[_MEMSZ] = at - load[_VADDR]
            return made.write()
    return None


def _longer_file_size(made: Object, dice: Random) -> bytes | None:
    load = dice.choice(made.loads())
    room = min(
        -(load[_VADDR] + load[_FILESZ]) % _PAGE, len(made.data) - load[_OFFSET] - load[_FILESZ]
    )
    if load[_MEMSZ] != load[_FILESZ] or room <= 0:
        return None
    load[_FILESZ] += dice.randint(1, room)
    load[_MEMSZ] = load[_FILESZ]
    return made.write()


def _later_start(made: Object, dice: Random) -> bytes | None:
    load = dice.choice(made.loads()[1:] or made.loads())
    room = min(_PAGE - 1 - load[_VADDR] % _PAGE, load[_FILESZ] - 1)
    if room < 8 or load is made.loads()[0]:
        return None
    cut = dice.randint(1, room)
    for field, sign in ((_OFFSET, 1), (_VADDR, 1), (_PADDR, 1), (_FILESZ, -1), (_MEMSZ, -1)):
        load[field] += sign * cut
    return made.write()


def _split_segment(made: Object, dice: Random) -> bytes | None:
    load = dice.choice([load for load in made.loads() if load[_FILESZ] > 16] or [[]])
    if not load:
        return None
    at = dice.randrange(1, load[_FILESZ])
    second = list(load)
    for field, sign in ((_OFFSET, 1), (_VADDR, 1), (_PADDR, 1), (_FILESZ, -1), (_MEMSZ, -1)):
        second[field] += sign * at
    load[_FILESZ] = load[_MEMSZ] = at
    made.segments.insert(made.segments.index(load) + 1, second)
    return made.write()


def _odd_dynamic_segment(made: Object, dice: Random) -> bytes | None:
    dynamic = made.one(Pt.DYNAMIC)
    field = dice.choice([_OFFSET, _FILESZ, _MEMSZ, _ALIGN, _PADDR])
    dynamic[field] = dice.choice([0, 1, 8, 16, 24, dynamic[field] + 16, dynamic[field] + 4096])
    return made.write()


def _shuffled_tags(made: Object, dice: Random) -> bytes | None:
    tags = made.tags()
    needed = iter([entry for entry in tags if entry[0] == Dt.NEEDED])
    dice.shuffle(tags)
    made.set_tags(next(needed) if entry[0] == Dt.NEEDED else entry for entry in tags)
    return made.write()


def _spare_tags(made: Object, dice: Random) -> bytes | None:
    if made.spare() < 1:
        return None
    tags = made.tags()
    for _ in range(dice.randint(1, made.spare())):
        tags.insert(dice.randint(0, len(tags)), (dice.choice(_SPARE_TAGS), dice.randrange(1 << 30)))
    made.set_tags(tags)
    return made.write()


def _empty_names(made: Object, dice: Random) -> bytes | None:
    if made.spare() < 1:
        return None
    tags = made.tags()
    known = {tag for tag, _ in tags}
    tag = dice.choice(
        [t for t in (Dt.NEEDED, Dt.RPATH, Dt.SONAME) if t == Dt.NEEDED or t not in known]
    )
    made.set_tags([*tags, (tag, 0)])
    return made.write()


def _repeated_needed(made: Object, dice: Random) -> bytes | None:
    needed = [entry for entry in made.tags() if entry[0] == Dt.NEEDED]
    if made.spare() < 1 or not needed:
        return None
    made.set_tags([*made.tags(), dice.choice(needed)])
    return made.write()


def _one_hash_table(made: Object, dice: Random) -> bytes | None:
    tags = made.tags()
    if not {Dt.HASH, Dt.GNU_HASH} <= {tag for tag, _ in tags}:
        return None
    gone = dice.choice([Dt.HASH, Dt.GNU_HASH])
    made.set_tags((0x6000_0002, 0) if tag == gone else (tag, value) for tag, value in tags)
    return made.write()


def _wrong_counts(made: Object, dice: Random) -> bytes | None:
    """Change what no loader reads: it follows the links of the records."""
    made.set_tags(
        (tag, dice.randrange(9) if tag == Dt.VERNEEDNUM else value) for tag, value in made.tags()
    )
    return made.write()


def _moved_table(made: Object, dice: Random) -> bytes | None:
    """Move a table into a segment at the end."""
    tags = made.tags()
    known = [
        (number, section)
        for number, section in enumerate(made.sections())
        if (_SECTION_TAGS.get(section[1]), section[3]) in tags
    ]
    if not known:
        return None
    number, section = dice.choice(known)
    moved, size = _SECTION_TAGS[section[1]], section[5]
    at = made.place(section[3])
    section[3] = made.append(bytes(made.data[at : at + size]))
    section[4] = made.place(section[3])
    if dice.random() < 0.5:
        made.data[at : at + size] = bytes(size)
    header = made.header[5] + number * _STRUCTS.shdr.size
    made.data[header : header + _STRUCTS.shdr.size] = _STRUCTS.shdr.pack(*section)
    made.set_tags((tag, section[3] if tag == moved else value) for tag, value in tags)
    return made.write()


def _moved_dynamic(made: Object, dice: Random) -> bytes | None:
    dynamic = made.one(Pt.DYNAMIC)
    raw = b"".join(_STRUCTS.dyn.pack(*entry) for entry in [*made.tags(), (0, 0)])
    dynamic[_VADDR] = dynamic[_PADDR] = made.append(raw + bytes(16 * dice.randrange(9)))
    dynamic[_OFFSET] = made.place(dynamic[_VADDR])
    dynamic[_FILESZ] = dynamic[_MEMSZ] = len(made.data) - dynamic[_OFFSET]
    return made.write()


def _small_alignment(made: Object, dice: Random) -> bytes | None:
    for load in made.loads():
        load[_ALIGN] = dice.choice([_PAGE, load[_ALIGN]])
    return made.write()


def _large_alignment(made: Object, dice: Random) -> bytes | None:
    load = dice.choice(made.loads())
    load[_ALIGN] = dice.choice([1 << 14, 1 << 16, 1 << 21, 1 << 30])
    return made.write()


def _osabi(made: Object, dice: Random) -> bytes | None:
    made.data[7] = dice.choice([0, 3])
    if not any(segment[_TYPE] == Pt.INTERP for segment in made.segments):
        made.header[3] = dice.randrange(1 << 20)  # e_entry
    return made.write()


def _trailing_bytes(made: Object, dice: Random) -> bytes | None:
    made.data += dice.randbytes(dice.randrange(5000))
    return made.write()


def _by_tool(command: list[str]) -> Callable[[Object, Random], bytes | None]:
    def run(made: Object, dice: Random) -> bytes | None:
        del dice
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "odd.so"
            file.write_bytes(made.data)
            done = subprocess.run([*command, str(file)], capture_output=True, check=False)
            return file.read_bytes() if not done.returncode and file.is_file() else None

    return run


ODDITIES: Mapping[str, Callable[[Object, Random], bytes | None]] = {
    "no section headers": _no_section_headers,
    "broken section headers": _broken_section_headers,
    "section headers in a segment": _section_headers_in_a_segment,
    "moved program headers": _moved_program_headers,
    "shuffled program headers": _shuffled_program_headers,
    "shorter file size": _shorter_file_size,
    "cut before .dynamic": _cut_before_dynamic,
    "longer file size": _longer_file_size,
    "later start": _later_start,
    "split segment": _split_segment,
    "odd PT_DYNAMIC": _odd_dynamic_segment,
    "shuffled tags": _shuffled_tags,
    "spare tags": _spare_tags,
    "empty names": _empty_names,
    "repeated DT_NEEDED": _repeated_needed,
    "one hash table": _one_hash_table,
    "wrong counts": _wrong_counts,
    "moved table": _moved_table,
    "moved .dynamic": _moved_dynamic,
    "small alignment": _small_alignment,
    "large alignment": _large_alignment,
    "OS ABI": _osabi,
    "trailing bytes": _trailing_bytes,
}
TOOLS: Mapping[str, Callable[[Object, Random], bytes | None]] = {
    "patchelf --set-rpath": _by_tool([_PATCHELF, "--set-rpath", "$ORIGIN/" + "a" * 200]),
    "patchelf --add-needed": _by_tool([_PATCHELF, "--add-needed", "libone.so.1"]),
    "patchelf --set-soname": _by_tool([_PATCHELF, "--set-soname", "libodd.so." + "7" * 90]),
    "patchelf --page-size": _by_tool(
        [_PATCHELF, "--page-size", "65536", "--force-rpath", "--set-rpath", "/b" * 300]
    ),
    "strip": _by_tool(["strip"]),
    "strip --strip-unneeded": _by_tool(["strip", "--strip-unneeded"]),
    "objcopy": _by_tool(["objcopy", "--remove-section", ".comment"]),
    "objcopy --only-keep-debug": _by_tool(["objcopy", "--only-keep-debug"]),
}


def odd(data: bytes, seed: int, *, tools: bool) -> tuple[bytes, tuple[str, ...]]:
    """Make `data` odd in one to four ways; the same seed does the same. Return their names too."""
    dice = Random(seed)  # noqa: S311 - no secrecy
    known = {**ODDITIES, **TOOLS} if tools else ODDITIES
    done: list[str] = []
    names = dice.choices(list(known), k=dice.randint(1, 4))
    # First the tools: they take the object apart by its section headers.
    for name in sorted(names, key=lambda name: name not in TOOLS):
        changed = None
        with suppress(LookupError, StopIteration, struct.error):  # an earlier one stands in the way
            changed = known[name](Object.parse(data), dice)
        if changed is not None:
            data = changed
            done.append(name)
    return data, tuple(done)
