"""ELF objects written from bytes, for x86-64."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from wheelfix.elf.constants import R_AARCH64_TLS_TPREL, R_TLSDESC, VER_FLG_WEAK, Pt
from wheelfix.elf.model import Elf, ElfType, Machine

LIBRARY = Elf(
    bits=64,
    little_endian=True,
    machine=Machine.X86_64,
    osabi=0,
    flags=0,
    type=ElfType.DYN,
)
PROGRAM = LIBRARY._replace(interpreter="/lib64/ld-linux-x86-64.so.2")


@dataclass(frozen=True, kw_only=True)
class Symbol:
    """One entry of .dynsym, and the relocations that name it."""

    name: str
    defined: bool
    bind: int = 1
    """STB_GLOBAL, STB_WEAK 2, STB_GNU_UNIQUE 10."""
    kind: int = 1
    """STT_OBJECT; NOTYPE 0, FUNC 2."""
    protected: bool = False
    version: str | None = None
    file: str | None = None
    """The library that an undefined symbol's version should come from."""
    optional: bool = False
    """Whether the loader goes on without that version (VER_FLG_WEAK, set by lld 23)."""
    hidden: bool = False
    relocations: tuple[int, ...] = ()
    """R_X86_64_64 1, GLOB_DAT 6, JUMP_SLOT 7."""


@dataclass(frozen=True, kw_only=True)
class Code:
    """Definitions and references of an object, and the hash tables to find them by."""

    symbols: tuple[Symbol, ...] = ()
    nodes: tuple[str, ...] = ()
    """The versions that it defines."""
    symbolic: bool = False
    hashes: tuple[int, ...] = (4,)
    """DT_HASH 4, DT_GNU_HASH."""


INVALID_BYTES = (6, 9, 15, 20)
"""File offsets of EI_VERSION, of the padding and of e_version. x86-64 has no e_flags: in an object
with an invalid header it is the index of one of these."""
GNU_HASH = 0x6FFFFEF5
JUMP_SLOT = 7
TPOFF64 = 18
_OPENER = bytes.fromhex("4883ec08 ff15 00000000 4883c408 c3".replace(" ", ""))
"""Call the function that a relocated slot points to, so that this object is the caller."""


def shared_object(elf: Elf, code: Code | None = None) -> bytes:
    """Return a shared object with the given contents; its function `wopen` calls dlopen."""
    return _Writer(elf, code or Code()).build()


class _Writer:
    """Writes the tables of one object, one after the other; addresses are file offsets."""

    def __init__(self, elf: Elf, code: Code) -> None:
        self.elf = elf
        self.code = code
        self.content = bytearray(64 + 4 * 56)
        self.strings = bytearray(b"\0")
        self.tags: list[tuple[int, int]] = []
        self.tls = [segment for segment in elf.segments if segment.type == Pt.TLS]
        opener = Symbol(name="dlopen", defined=False, relocations=(6,))
        symbols = [*code.symbols, opener, Symbol(name="wopen", defined=True, kind=2)]
        undefined = [symbol for symbol in symbols if not symbol.defined]
        defined = [symbol for symbol in symbols if symbol.defined]
        self.undefined = len(undefined)
        self.buckets = max(1, len(defined) // 2)
        defined.sort(key=lambda each: _gnu_hash(each.name.encode()) % self.buckets)
        self.symbols = [*undefined, *defined]

    def build(self) -> bytes:
        elf = self.elf
        self.tags += self._libraries()
        for tag, value in ((14, elf.soname), (15, elf.rpath), (29, elf.runpath)):
            self.tags += [] if value is None else [(tag, self._text(value))]
        flags = elf.dt_flags | (2 if self.code.symbolic else 0)
        self.tags += [(30, flags)] if flags else []
        self.tags += [(0x6FFFFFFB, elf.dt_flags_1)] if elf.dt_flags_1 else []
        self._symbol_tables()
        self.tags += [(5, 0), (10, 0), (11, 24), (0, 0)]
        dynamic = self._add(bytes(16 * len(self.tags)))
        strings = self._add(bytes(self.strings))
        places = {5: strings, 10: len(self.strings)}
        tags = [(tag, places.get(tag, value)) for tag, value in self.tags]
        raw = b"".join(struct.pack("<QQ", *each) for each in tags)
        self.content[dynamic : dynamic + len(raw)] = raw
        self._headers(dynamic, len(raw))
        return bytes(self.content)

    def _libraries(self) -> Iterator[tuple[int, int]]:
        filtees = list(self.elf.filtees)
        for position, name in enumerate([*self.elf.needed, None]):
            while filtees and filtees[0].position == position:
                filtee = filtees.pop(0)
                yield 0x7FFFFFFF if filtee.required else 0x7FFFFFFD, self._text(filtee.name)
            if name is not None:
                yield 1, self._text(name)

    def _headers(self, dynamic: int, size: int) -> None:
        elf, whole = self.elf, len(self.content)
        header = struct.pack(
            "<16sHHIQQQIHHHHHH",
            bytes([*b"\x7fELF\x02\x01\x01", elf.osabi, elf.abi_version]),
            *(elf.type, elf.machine, 1, 0, 64, 0, elf.flags, 64, 56, 3 + len(self.tls), 64, 0, 0),
        )
        segments = [
            (1, 7, 0, 0, 0, whole, whole, 0x1000),  # PT_LOAD
            (2, 6, dynamic, dynamic, dynamic, size, size, 8),
            (0x6474E551, 6, 0, 0, 0, 0, 0, 16),  # PT_GNU_STACK
            *((Pt.TLS, 4, 0, 0, 0, 0, segment.memsz, segment.align) for segment in self.tls),
        ]
        packed = header + b"".join(struct.pack("<IIQQQQQQ", *each) for each in segments)
        self.content[: len(packed)] = packed
        if not elf.valid_header:
            self.content[INVALID_BYTES[elf.flags]] = 2

    def _text(self, value: str) -> int:
        self.strings += value.encode() + b"\0"
        return len(self.strings) - len(value.encode()) - 1

    def _add(self, data: bytes) -> int:
        self.content += bytes(-len(self.content) % 16)
        at = len(self.content)
        self.content += data
        return at

    def _symbol_tables(self) -> None:
        names = [self._text(each.name) for each in self.symbols]
        slots = [kind for each in self.symbols for kind in each.relocations]
        slots_at = self._add(bytes(8 * (len(slots) + 2 * len(self.tls))))
        data_at = self._add(bytes(16 * len(self.symbols)))
        slot_of_dlopen = slots_at + 8 * sum(
            len(each.relocations) for each in self.symbols[: self._number("dlopen") - 1]
        )
        code = bytearray(_OPENER)
        code_at = self._add(bytes(code))
        struct.pack_into("<i", self.content, code_at + 6, slot_of_dlopen - (code_at + 10))
        raw = bytearray(24)
        for number, (each, name) in enumerate(zip(self.symbols, names, strict=True)):
            value = data_at + 16 * number if each.name != "wopen" else code_at
            info = each.bind << 4 | (each.kind if each.defined else 0)
            other = 3 if each.protected else 0
            section, value = (1, value) if each.defined else (0, 0)
            raw += struct.pack("<IBBHQQ", name, info, other, section, value, 4)
        self.tags.append((6, self._add(bytes(raw))))
        self._hash_tables()
        self._versions()
        self._relocations(slots_at)

    def _number(self, name: str) -> int:
        return 1 + next(n for n, each in enumerate(self.symbols) if each.name == name)

    def _hash_tables(self) -> None:
        count = len(self.symbols) + 1
        if 4 in self.code.hashes:
            chain = list(range(count - 1))  # one bucket: each symbol is followed by the one before
            raw = struct.pack(f"<{3 + count}I", 1, count, count - 1, 0, *chain)
            self.tags.append((4, self._add(raw)))
        if GNU_HASH in self.code.hashes:
            self.tags.append((GNU_HASH, self._add(self._gnu_table())))

    def _gnu_table(self) -> bytes:
        first = self.undefined + 1
        hashes = [_gnu_hash(each.name.encode()) for each in self.symbols[self.undefined :]]
        buckets = [0] * self.buckets
        chain: list[int] = []
        for number, value in enumerate(hashes):
            bucket = value % self.buckets
            buckets[bucket] = buckets[bucket] or first + number
            last = number + 1 == len(hashes) or hashes[number + 1] % self.buckets != bucket
            chain.append(value | 1 if last else value & ~1)
        words = [*buckets, *chain]
        filled = struct.pack("<IIIIQ", self.buckets, first, 1, 6, (1 << 64) - 1)
        return filled + struct.pack(f"<{len(words)}I", *words)

    def _versions(self) -> None:
        needs: dict[str, dict[str, int]] = {}
        nodes = {name: number for number, name in enumerate(self.code.nodes, 2)}
        free = len(nodes) + 2
        for each in self.symbols:
            if each.file and each.version and each.version not in needs.setdefault(each.file, {}):
                needs[each.file][each.version] = free
                free += 1
        if not needs and not nodes:
            return
        raw = b"\0\0"
        for each in self.symbols:
            if each.defined:
                index = nodes.get(each.version or "", 1)
            else:
                index = needs[each.file][each.version] if each.file and each.version else 1
            raw += struct.pack("<H", index | (0x8000 if each.hidden else 0))
        self.tags.append((0x6FFFFFF0, self._add(raw)))
        if nodes:
            self._version_definitions(nodes)
        if needs:
            self._version_needs(needs)

    def _version_definitions(self, nodes: dict[str, int]) -> None:
        raw = b""
        for name, index in {"base": 1, **nodes}.items():
            more = 28 if index <= len(nodes) else 0
            flags = int(index == 1)
            raw += struct.pack("<HHHHIII", 1, flags, index, 1, _sysv_hash(name), 20, more)
            raw += struct.pack("<II", self._text(name), 0)
        self.tags += [(0x6FFFFFFC, self._add(raw)), (0x6FFFFFFD, len(nodes) + 1)]

    def _version_needs(self, needs: dict[str, dict[str, int]]) -> None:
        raw = b""
        optional = {(each.file, each.version) for each in self.symbols if each.optional}
        for number, (file, versions) in enumerate(needs.items(), 1):
            more = 16 + 16 * len(versions) if number < len(needs) else 0
            raw += struct.pack("<HHIII", 1, len(versions), self._text(file), 16, more)
            for place, (name, index) in enumerate(versions.items(), 1):
                step = 16 if place < len(versions) else 0
                flags = VER_FLG_WEAK if (file, name) in optional else 0
                raw += struct.pack("<IHHII", _sysv_hash(name), flags, index, self._text(name), step)
        self.tags += [(0x6FFFFFFE, self._add(raw)), (0x6FFFFFFF, len(needs))]

    def _relocations(self, slots_at: int) -> None:
        data, jumps = b"", b""
        at = slots_at
        for number, each in enumerate(self.symbols, 1):
            for kind in each.relocations:
                entry = struct.pack("<QQq", at, number << 32 | kind, 0)
                data, jumps = (data, jumps + entry) if kind == JUMP_SLOT else (data + entry, jumps)
                at += 8
        if self.tls:  # by which the loader learns where they must or may lie
            is_arm64 = self.elf.machine == Machine.AARCH64
            static = R_AARCH64_TLS_TPREL if is_arm64 else TPOFF64
            kind = R_TLSDESC[self.elf.machine] if self.elf.tls_descriptors else static
            data += struct.pack("<QQq", at, kind, 0)
        if data:
            self.tags += [(7, self._add(data)), (8, len(data)), (9, 24)]
        if jumps:
            self.tags += [(23, self._add(jumps)), (2, len(jumps)), (20, 7)]


def _sysv_hash(name: str) -> int:
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        value = (value ^ (value & 0xF0000000) >> 24) & 0x0FFFFFFF
    return value


def elf32_header(elf: Elf) -> bytes:
    """Return an object of ELF class 32: only the header, for loaders refuse it there."""
    return (
        b"\x7fELF\x01\x01\x01".ljust(16, b"\0")
        + struct.pack("<HHI", 3, elf.machine, 1)
        + bytes(200)
    )


def _gnu_hash(name: bytes) -> int:
    """Hash a symbol name for DT_GNU_HASH (glibc, `_dl_new_hash`)."""
    value = 5381
    for byte in name:
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value
