"""The tables of dynamic symbols: .dynsym, hash tables, symbol versions, relocations.

All are found by the tags of the dynamic section, as the loader finds them. No count in them is
trusted: no loop is longer than the file can hold, and each spends the budget of the image.
"""

from array import array
from collections.abc import Iterator
from functools import cached_property
from struct import Struct
from sys import byteorder
from typing import Self

from wheelfix.elf.constants import (
    EM_ALPHA,
    VER_FLG_BASE,
    VER_FLG_WEAK,
    VERSYM_INDEX,
    Dt,
    Pt,
    Sht,
)
from wheelfix.elf.image import Image
from wheelfix.elf.model import Machine
from wheelfix.frozen import frozen
from wheelfix.named_tuple import NamedTuple
from wheelfix.text import count

LONGEST_NAME = 4096
"""Bytes of the name of a file (limits.h: PATH_MAX) or of a version."""
_STRING_SIZE = 60
"""Bytes in memory of a string besides its text."""
_MAX_DYNAMIC = 1 << 20
"""Bytes."""


class Version(NamedTuple):
    """A defined version."""

    name: str
    base: bool
    """VER_FLG_BASE: the entry is the library's own name, not a version."""


class NeededVersion(NamedTuple):
    """A version that is needed of a library."""

    number: int
    """The index by which symbols refer to it."""
    name: str
    weak: bool
    """VER_FLG_WEAK."""


class NeedRecord(NamedTuple):
    """One Verneed record and its Vernaux records, as offsets and raw fields."""

    offset: int
    """File offset of the Verneed record; the `auxiliaries` may be anywhere after it."""
    file: int
    """vn_file, as an offset into .dynstr."""
    auxiliaries: tuple[tuple[int, int, int, int, int], ...]
    """(file offset, vna_hash, vna_flags, vna_other, vna_name) of each."""

    @property
    def indices(self) -> frozenset[int]:
        """The version indices of its symbols: vna_other without the hidden bit."""
        return frozenset(index & VERSYM_INDEX for _, _, _, index, _ in self.auxiliaries)


@frozen(kw_only=False)
class Dynamic:
    """The dynamic section of an image (gABI chapter 5), with the tables that it points to."""

    image: Image
    entries: tuple[tuple[int, int], ...]
    """(d_tag, d_val) in order, without the DT_NULL that ends them."""
    tags: dict[int, int]
    """The last value of each tag, as the loader keeps it."""
    strings: bytes
    """.dynstr"""

    @classmethod
    def parse(cls, image: Image) -> Self | None:
        """Read PT_DYNAMIC; return None if it is missing, or empty in a library.

        Loaders do not look at p_filesz of a program's (glibc, elf/rtld.c and elf/dl-load.c).
        """
        segment = image.segment(Pt.DYNAMIC)
        if segment is None or (segment.filesz == 0 and image.segment(Pt.INTERP) is None):
            return None
        # Loaders read up to DT_NULL, whatever the sizes of the segment.
        at, room = image.extent(segment.vaddr, "the dynamic section")
        size = min(room, _MAX_DYNAMIC)
        raw = image.read(at, size - size % image.structs.dyn.size, "the dynamic section")
        entries: list[tuple[int, int]] = []
        for tag, value in image.structs.dyn.iter_unpack(raw):
            if tag == Dt.NULL:
                break
            entries.append((tag, value))
        image.spend(len(entries), "the dynamic section", memory=150 * len(entries))
        tags = dict(entries)
        strings = b""
        if Dt.STRTAB in tags:
            size, what = tags.get(Dt.STRSZ, 0), "the dynamic string table"
            strings = image.loaded(tags[Dt.STRTAB], size, what)
        return cls(image=image, entries=tuple(entries), tags=tags, strings=strings)

    def string(self, offset: int, what: str) -> str:
        """Read one string of .dynstr; undecodable bytes become surrogates."""
        end = self.strings.find(b"\0", offset)
        if end < 0:
            raise self.image.bad(f"{what} is not in the dynamic string table")
        size = end - offset
        self.image.spend(1 + (size >> 10), what, memory=_STRING_SIZE + size)
        return self.strings[offset:end].decode("utf-8", "surrogateescape")

    def name(self, offset: int, what: str) -> str:
        """Read the name of a file or of a version."""
        name = self.string(offset, what)
        if len(name) > LONGEST_NAME:
            raise self.image.bad(f"{what} is a name of more than {count(LONGEST_NAME, 'byte')}")
        return name

    def tag_string(self, tag: Dt) -> str | None:
        """Read the string that a tag refers to, None if the tag is missing."""
        return self.string(self.tags[tag], f"DT_{tag.name}") if tag in self.tags else None

    # --- versions (LSB core, "Symbol Versioning") ------------------------------------------------

    def version_needs(self) -> Iterator[tuple[str, list[NeededVersion]]]:
        """Yield the file of each Verneed record, and its versions."""
        for record in self.need_records():
            yield (
                self.name(record.file, "the file of a version need"),
                [
                    NeededVersion(
                        number=index & VERSYM_INDEX,
                        name=self.name(name, "a needed version"),
                        weak=bool(flags & VER_FLG_WEAK),
                    )
                    for _, _, flags, index, name in record.auxiliaries
                ],
            )

    def need_records(self) -> Iterator[NeedRecord]:
        """Yield each Verneed record with the offsets of its strings.

        The chains are followed by their `next` links, as in glibc's `_dl_check_map_versions`.
        """
        if Dt.VERNEED not in self.tags:
            return
        image, structs = self.image, self.image.structs
        at, _ = image.extent(self.tags[Dt.VERNEED], "DT_VERNEED")
        while True:
            version, _, file, aux, step = image.unpack(structs.verneed, at, "a Verneed record")
            if version != 1:
                raise image.bad(f"a Verneed record has the unknown version {version}")
            auxiliaries: list[tuple[int, int, int, int, int]] = []
            where = at + aux
            while True:
                hashed, flags, index, name, more = image.unpack(
                    structs.vernaux, where, "a Vernaux record"
                )
                auxiliaries.append((where, hashed, flags, index, name))
                if not more:
                    break
                where += more
            image.spend(2 * len(auxiliaries), "the needed versions", memory=150 * len(auxiliaries))
            yield NeedRecord(offset=at, file=file, auxiliaries=tuple(auxiliaries))
            if not step:
                return
            at += step

    def version_definitions(self) -> Iterator[tuple[int, Version]]:
        """Yield each Verdef record's index and name."""
        for index, flags, names in self.definition_records():
            if names:
                text = self.name(names[0], "a defined version")
                yield index & VERSYM_INDEX, Version(text, base=bool(flags & VER_FLG_BASE))

    def definition_records(self) -> Iterator[tuple[int, int, list[int]]]:
        """Yield vd_ndx, vd_flags and every vda_name of each Verdef record, its own first."""
        if Dt.VERDEF not in self.tags:
            return
        image, structs = self.image, self.image.structs
        at, _ = image.extent(self.tags[Dt.VERDEF], "DT_VERDEF")
        while True:
            version, flags, index, count, _, aux, step = image.unpack(
                structs.verdef, at, "a Verdef record"
            )
            if version != 1:
                raise image.bad(f"a Verdef record has the unknown version {version}")
            names: list[int] = []
            where = at + aux
            for _ in range(count):
                name, more = image.unpack(structs.verdaux, where, "a Verdaux record")
                names.append(name)
                where += more
            yield index, flags, names
            if not step:
                return
            at += step

    def version_indices(self, count: int) -> "array[int] | None":
        """Read DT_VERSYM for the first `count` symbols; None without such a table."""
        if Dt.VERSYM not in self.tags:
            return None
        raw = self.image.loaded(self.tags[Dt.VERSYM], 2 * count, "DT_VERSYM")
        return self.image.structs.words("H", raw)

    # --- symbols (gABI chapter 4, "Symbol Table") ------------------------------------------------

    def symbols(self, start: int, stop: int) -> Iterator[tuple[int, ...]]:
        """Yield (name, info, other, section, value, size) for entries `start` to `stop` - 1."""
        return self.image.structs.symbols(self.symbol_bytes(start, stop))

    def symbol_bytes(self, start: int, stop: int) -> bytes:
        """Copy the entries `start` to `stop` - 1."""
        if stop <= start:
            return b""
        size = self.image.structs.sym.size
        at = self.tags[Dt.SYMTAB] + start * size
        raw = self.image.loaded(at, (stop - start) * size, "the symbol table")
        self.image.spend(stop - start, "the dynamic symbols")
        return raw

    @cached_property
    def symbol_count(self) -> int:
        """The number of entries of .dynsym, which no tag holds.

        DT_HASH has a chain word for each (64-bit words on s390x and Alpha). DT_GNU_HASH ends with
        the last defined symbol. If none is defined, GNU ld writes `symoffset` 1 however many are
        undefined; then the count is that of the section header, or the highest number in the
        relocations.
        """
        if Dt.SYMTAB not in self.tags:
            return 0
        if Dt.HASH in self.tags:
            _, chains, _ = self._sysv_counts()
            return chains
        table = self.gnu_hash
        if table is not None and (last := table.last_symbol()) is not None:
            return last + 1
        entsize = self.image.structs.sym.size
        for section in self.image.sections:
            if section.type == Sht.DYNSYM and section.addr == self.tags[Dt.SYMTAB]:
                return section.size // entsize
        return max(self._relocated_symbols(), default=-1) + 1

    @cached_property
    def gnu_hash(self) -> "GnuHash | None":
        """DT_GNU_HASH, None without one."""
        if Dt.GNU_HASH not in self.tags:
            return None
        at, room = self.image.extent(self.tags[Dt.GNU_HASH], "DT_GNU_HASH")
        buckets, symoffset, bloom, _ = self.image.unpack(
            self.image.structs.gnu_hash, at, "DT_GNU_HASH"
        )
        start = 16 + bloom * self.image.structs.addr.size
        if start + 4 * buckets > room:
            raise self.image.bad("DT_GNU_HASH is larger than the segment that holds it")
        return GnuHash(
            image=self.image,
            symoffset=symoffset,
            count=buckets,
            buckets=at + start,
            chains=at + start + 4 * buckets,
            chain_count=(room - start - 4 * buckets) // 4,
        )

    def _sysv_counts(self) -> tuple[int, int, int]:
        """Return DT_HASH's number of buckets, number of chain words, and word size."""
        image = self.image
        wide = image.structs.bits == 64 and image.header.machine in {Machine.S390, EM_ALPHA}
        word = image.structs.addr if wide else image.structs.word
        at, _ = image.extent(self.tags[Dt.HASH], "DT_HASH")
        (buckets,) = image.unpack(word, at, "DT_HASH")
        (chains,) = image.unpack(word, at + word.size, "DT_HASH")
        return buckets, chains, word.size

    def hash_tables(self) -> Iterator[tuple[Dt, int]]:
        """Yield the tag and the size in bytes of each hash table."""
        if Dt.HASH in self.tags:
            buckets, chains, word = self._sysv_counts()
            yield Dt.HASH, (2 + buckets + chains) * word
        table = self.gnu_hash
        if table is not None:
            at, _ = self.image.extent(self.tags[Dt.GNU_HASH], "DT_GNU_HASH")
            last = table.last_symbol()
            chains = 0 if last is None else last + 1 - table.symoffset
            yield Dt.GNU_HASH, table.chains + 4 * chains - at

    def _relocated_symbols(self) -> Iterator[int]:
        for table in self.relocations():
            yield from table.symbols

    def relocations(self) -> Iterator["Relocations"]:
        """Read the tables of DT_RELA, DT_REL and DT_JMPREL."""
        for tag, struct, size in self.relocation_tables():
            raw = self.image.loaded(self.tags[tag], size, f"DT_{tag.name}")
            self.image.spend(size // struct.size, "the relocations")
            yield Relocations(tag=tag, struct=struct, raw=raw)

    def relocation_tables(self) -> Iterator[tuple[Dt, Struct, int]]:
        """Yield tag, entry format and size in bytes of each relocation table."""
        structs, tags = self.image.structs, self.tags
        plt = structs.rela if tags.get(Dt.PLTREL) == Dt.RELA else structs.rel
        for tag, size_tag, struct in (
            (Dt.RELA, Dt.RELASZ, structs.rela),
            (Dt.REL, Dt.RELSZ, structs.rel),
            (Dt.JMPREL, Dt.PLTRELSZ, plt),
        ):
            size = tags.get(size_tag, 0)
            size -= size % struct.size
            if tag in tags and size:
                yield tag, struct, size


class Relocations(NamedTuple):
    """One relocation table."""

    tag: Dt
    struct: Struct
    raw: bytes

    @property
    def symbols(self) -> frozenset[int]:
        """The numbers of the entries of .dynsym to which it refers."""
        shift = 32 if self._is_wide else 8
        return frozenset([info >> shift for info in self._infos])

    def symbols_of(self, kind: int) -> frozenset[int]:
        """Return the numbers of the entries to which relocations of one type refer, 0 for none."""
        mask, shift = (0xFFFFFFFF, 32) if self._is_wide else (0xFF, 8)
        return frozenset([info >> shift for info in self._infos if info & mask == kind])

    @property
    def _is_wide(self) -> bool:
        return self.struct.size in {16, 24}

    @property
    def _infos(self) -> set[int]:
        # Two words an entry, or three with an addend; r_info is the second (gABI, "Relocation").
        words = array("Q" if self._is_wide else "I", self.raw)
        if self.struct.format[0] != ("<" if byteorder == "little" else ">"):
            words.byteswap()
        return set(words[1 :: self.struct.size // words.itemsize])


@frozen
class GnuHash:
    """The DT_GNU_HASH table; places are file offsets."""

    image: Image
    symoffset: int
    """The number of the first symbol in the table; all undefined symbols lie below."""
    count: int
    """Number of buckets."""
    buckets: int
    chains: int
    chain_count: int
    """Number of chain words that fit into the segment."""

    def last_symbol(self) -> int | None:
        """Return the highest symbol number in the table, None if it is empty."""
        image = self.image
        raw = image.read(self.buckets, 4 * self.count, "DT_GNU_HASH")
        image.spend(self.count >> 4, "DT_GNU_HASH", memory=4 * self.count)
        last = max(image.structs.words("I", raw), default=0)
        if last < self.symoffset:
            return None
        word = image.structs.word
        for index in range(last, self.symoffset + self.chain_count):
            (value,) = image.unpack(word, self.chains + 4 * (index - self.symoffset), "a chain")
            if value & 1:
                return index
        raise image.bad("a chain of DT_GNU_HASH does not end")

    @cached_property
    def is_empty(self) -> bool:
        """Whether it has no symbol; `symoffset` is meaningless then."""
        buckets = self.image.read(self.buckets, 4 * self.count, "DT_GNU_HASH")
        return not buckets.strip(b"\0")
