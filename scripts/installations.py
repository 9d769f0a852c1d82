"""Random installations, opened by the real loader and by the model: glibc's and musl's.

An installation is a handful of directories with libraries in them, which say anything about
SONAMEs, search paths, links, versions and symbols that can be said, and a program that opens some
of them. The objects are written from bytes: thousands are needed, and a compiler takes 30 ms.

Compared are, for the start and each dlopen: whether it fails, and whom the message blames; what is
loaded, in order; with glibc, the files that were tried, in order, and every symbol that was bound,
with its version, in order; with musl, which says nothing, what stands in each relocated place.
"""

import errno
import os
import random
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from oracle.binding import LoadBindings, MissingVersion, ProcessBinder, Symbols
from oracle.lookups import Lookup, read_lookups, read_plt_entries
from wheelfix.elf.exports import read_exports
from wheelfix.elf.model import Definition, Elf, ElfType, Exports, Libc, Machine
from wheelfix.elf.reader import read_elf
from wheelfix.host.disk import read_process
from wheelfix.loader.file_system import FileSystem
from wheelfix.loader.model import Environment, How, Load, SearchOutcome
from wheelfix.loader.search import load, start_process

# ruff: noqa: S311 -- dice need no secrecy

NAMES = [f"libw{letter}.so" for letter in "abcdef"]
SYMBOLS = [f"s{number}" for number in range(8)]
LIB = "lib/x86_64-linux-gnu"
DIRECTORIES = ["d0", "d1", "d1/sub", "d2", "glibc", "d1/glibc-hwcaps/x86-64-v2", LIB]
LIBRARY = Elf(
    bits=64,
    little_endian=True,
    machine=Machine.X86_64,
    osabi=0,
    flags=0,
    type=ElfType.DYN,
)
PROGRAM = replace(LIBRARY, interpreter="/lib64/ld-linux-x86-64.so.2")


# --- Objects from bytes ---------------------------------------------------------------------------


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
    hidden: bool = False
    relocations: tuple[int, ...] = ()
    """R_X86_64_64 1, GLOB_DAT 6, JUMP_SLOT 7."""


@dataclass(frozen=True, kw_only=True)
class Code:
    """What an object defines and refers to, and how it is searched."""

    symbols: tuple[Symbol, ...] = ()
    nodes: tuple[str, ...] = ()
    """The versions that it defines."""
    symbolic: bool = False
    hashes: tuple[int, ...] = (4,)
    """DT_HASH 4, DT_GNU_HASH."""


GNU_HASH = 0x6FFFFEF5
_JUMP_SLOT = 7
_OPENER = bytes.fromhex("4883ec08 ff15 00000000 4883c408 c3".replace(" ", ""))
"""Call what the next slot points to, and return: the call comes from this object."""


def shared_object(elf: Elf, code: Code | None = None) -> bytes:
    """Return an object that says what `elf` and `code` say; each can call dlopen (`wopen`)."""
    return _Writer(elf, code or Code()).written()


class _Writer:
    """Puts the tables of one object one after the other; addresses are offsets."""

    def __init__(self, elf: Elf, code: Code) -> None:
        self.elf = elf
        self.code = code
        self.content = bytearray(64 + 3 * 56)
        self.strings = bytearray(b"\0")
        self.tags: list[tuple[int, int]] = []
        opener = Symbol(name="dlopen", defined=False, relocations=(6,))
        symbols = [*code.symbols, opener, Symbol(name="wopen", defined=True, kind=2)]
        undefined = [each for each in symbols if not each.defined]
        defined = [each for each in symbols if each.defined]
        self.undefined = len(undefined)
        self.buckets = max(1, len(defined) // 2)
        defined.sort(key=lambda each: _gnu_hash(each.name.encode()) % self.buckets)
        self.symbols = [*undefined, *defined]

    def written(self) -> bytes:
        elf = self.elf
        self.tags += [(1, self._text(name)) for name in elf.needed]
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

    def _headers(self, dynamic: int, size: int) -> None:
        elf, whole = self.elf, len(self.content)
        header = struct.pack(
            "<16sHHIQQQIHHHHHH",
            b"\x7fELF\x02\x01\x01",
            *(elf.type, elf.machine, 1, 0, 64, 0, elf.flags, 64, 56, 3, 64, 0, 0),
        )
        segments = [
            (1, 7, 0, 0, 0, whole, whole, 0x1000),  # PT_LOAD
            (2, 6, dynamic, dynamic, dynamic, size, size, 8),
            (0x6474E551, 6, 0, 0, 0, 0, 0, 16),  # PT_GNU_STACK
        ]
        packed = header + b"".join(struct.pack("<IIQQQQQQ", *each) for each in segments)
        self.content[: len(packed)] = packed

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
        slots_at = self._add(bytes(8 * len(slots)))
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
        for number, (file, versions) in enumerate(needs.items(), 1):
            more = 16 + 16 * len(versions) if number < len(needs) else 0
            raw += struct.pack("<HHIII", 1, len(versions), self._text(file), 16, more)
            for place, (name, index) in enumerate(versions.items(), 1):
                step = 16 if place < len(versions) else 0
                raw += struct.pack("<IHHII", _sysv_hash(name), 0, index, self._text(name), step)
        self.tags += [(0x6FFFFFFE, self._add(raw)), (0x6FFFFFFF, len(needs))]

    def _relocations(self, slots_at: int) -> None:
        data, jumps = b"", b""
        at = slots_at
        for number, each in enumerate(self.symbols, 1):
            for kind in each.relocations:
                entry = struct.pack("<QQq", at, number << 32 | kind, 0)
                data, jumps = (data, jumps + entry) if kind == _JUMP_SLOT else (data + entry, jumps)
                at += 8
        if data:
            self.tags += [(7, self._add(data)), (8, len(data)), (9, 24)]
        if jumps:
            self.tags += [(23, self._add(jumps)), (2, len(jumps)), (20, 7)]


def _gnu_hash(name: bytes) -> int:
    """Hash a symbol name for DT_GNU_HASH (glibc, `_dl_new_hash`)."""
    value = 5381
    for byte in name:
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


def _sysv_hash(name: str) -> int:
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        value = (value ^ (value & 0xF0000000) >> 24) & 0x0FFFFFFF
    return value


def misfit(elf: Elf) -> bytes:
    """Write a 32-bit header; nobody reads further."""
    return (
        b"\x7fELF\x01\x01\x01".ljust(16, b"\0")
        + struct.pack("<HHI", 3, elf.machine, 1)
        + bytes(200)
    )


# --- The program ----------------------------------------------------------------------------------

PROBE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
SYMBOLS
static const char *provider;
static ElfW(Addr) wanted;
static int first;
static int covers(struct dl_phdr_info *info, size_t size, void *data) {
    int is_main = first; first = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *each = &info->dlpi_phdr[i];
        if (each->p_type == PT_LOAD && wanted - info->dlpi_addr - each->p_vaddr < each->p_memsz)
            provider = is_main ? "main" : info->dlpi_name;
    }
    return 0;
}
static void table(const char *user, ElfW(Addr) base, ElfW(Rela) *rela, size_t size,
                  ElfW(Sym) *symbols, const char *strings) {
    for (; size >= sizeof *rela; size -= sizeof *rela, rela++) {
        ElfW(Sym) *symbol = &symbols[ELF64_R_SYM(rela->r_info)];
        const char *name = strings + symbol->st_name;
        if (ELF64_R_TYPE(rela->r_info) == R_X86_64_COPY || name[0] != 's' ||
            name[1] < '0' || name[1] > '9' || name[2])
            continue;
        wanted = *(ElfW(Addr) *)(base + rela->r_offset);
        provider = wanted ? "?" : "";
        first = 1;
        if (wanted) dl_iterate_phdr(covers, 0);
        printf("bind %s|%s|%s\n", user, name, provider);
    }
}
static ElfW(Addr) at(ElfW(Addr) base, ElfW(Addr) value) {
    return value < base ? value + base : value;
}
static int shown;
static int show(struct dl_phdr_info *info, size_t size, void *data) {
    int is_main = !shown++;
    if (!is_main && !strstr(info->dlpi_name, "libw")) return 0;
    if (!is_main) printf("map %s\n", info->dlpi_name);
    ElfW(Dyn) *dynamic = 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    ElfW(Addr) base = info->dlpi_addr, symbols = 0, strings = 0, rela = 0, jumps = 0;
    size_t rela_size = 0, jumps_size = 0;
    for (; dynamic && dynamic->d_tag; dynamic++) {
        ElfW(Addr) value = dynamic->d_un.d_ptr;
        switch (dynamic->d_tag) {
        case DT_SYMTAB: symbols = at(base, value); break;
        case DT_STRTAB: strings = at(base, value); break;
        case DT_RELA: rela = at(base, value); break;
        case DT_JMPREL: jumps = at(base, value); break;
        case DT_RELASZ: rela_size = value; break;
        case DT_PLTRELSZ: jumps_size = value; break;
        }
    }
    const char *user = is_main ? "main" : info->dlpi_name;
    table(user, base, (void *)rela, rela_size, (void *)symbols, (void *)strings);
    table(user, base, (void *)jumps, jumps_size, (void *)symbols, (void *)strings);
    return 0;
}
static void report(void) { shown = 0; dl_iterate_phdr(show, 0); }
int main(int count, char **words) {
    setvbuf(stdout, 0, _IOLBF, 0);
    puts("start");
    report();
    for (int i = 1; i + 2 < count; i += 3) {
        int mode = RTLD_NOW;
        if (words[i][0] == 'g') mode |= RTLD_GLOBAL;
#ifdef RTLD_DEEPBIND
        if (words[i][0] == 'd') mode |= RTLD_DEEPBIND;
#endif
        void *(*open)(const char *, int) = dlopen, *handle;
        if (words[i + 1][0]) {
            handle = dlopen(words[i + 1], RTLD_NOW | RTLD_NOLOAD);
            open = handle ? (void *(*)(const char *, int))dlsym(handle, "wopen") : 0;
            dlerror();
            if (!open) { puts("skip"); continue; }
        }
        handle = open(words[i + 2], mode);
        if (handle) puts("open"); else printf("fail %s\n", dlerror());
        report();
    }
    return 0;
}
"""

PROGRAMS = [
    (PROGRAM, "int s0; int *p = &s0; extern int s1 __attribute__((weak)); int *q = &s1;"),
    (replace(PROGRAM, rpath="$ORIGIN/../d0:$ORIGIN/../d2"), ""),
    (replace(PROGRAM, runpath="$ORIGIN/../d0:$ORIGIN/../d2"), "int s3; int s4(void) {return 1;}"),
    (
        replace(PROGRAM, rpath="$ORIGIN/../d1", needed=("libwa.so",)),
        "extern int s1, s2(void); int p(void) { return s1; } void *q(void) { return s2; }",
    ),
    (
        replace(PROGRAM, runpath="$ORIGIN/../d2:$ORIGIN/../d1", needed=("libwb.so", "libwa.so")),
        "extern int s5 __attribute__((weak)); int *p = &s5; int s6;",
    ),
]
"""Search path, what is needed, and symbols: own ones, weak ones, data to copy, a PLT entry."""


def build_programs(folder: Path, compiler: str) -> list[tuple[Path, Elf]]:
    """Compile the programs that open libraries."""
    for name, defined in (("libwa.so", "int s1; int s2(void) { return 0; }"), ("libwb.so", "")):
        command = ["gcc", "-shared", "-fPIC", "-nostdlib", "-xc", "-", "-o", str(folder / name)]
        subprocess.run([*command, f"-Wl,-soname,{name}"], input=defined, text=True, check=True)
    built: list[tuple[Path, Elf]] = []
    for number, (elf, source) in enumerate(PROGRAMS):
        tags = "--enable-new-dtags" if elf.runpath is not None else "--disable-new-dtags"
        path = [] if elf.search_path is None else [f"-Wl,-rpath,{elf.search_path}"]
        target, text = folder / f"probe{number}", folder / "probe.c"
        text.write_text(PROBE.replace("SYMBOLS", source))
        kind = ["-fno-pic", "-no-pie"] if "s2(void)" in source else ["-fPIE", "-pie"]
        libraries = [str(folder / name) for name in elf.needed]
        command = [compiler, *kind, "-w", "-o", str(target), str(text), "-rdynamic"]
        command += [f"-Wl,--no-as-needed,{tags}", *path, *libraries, "-ldl"]
        command += ["-Wl,--allow-shlib-undefined,-z,dynamic-undefined-weak"]
        subprocess.run(command, check=True)
        built.append((target, read_elf(target.read_bytes(), target.name)))
    return built


def programs(libc: Libc, folder: Path) -> list[tuple[Path, Elf]] | str:
    """Build the programs for `libc`; if that is not possible here, say why."""
    if os.uname().machine != "x86_64":
        return "the objects are written for x86-64"
    if libc is Libc.GLIBC and os.confstr("CS_GNU_LIBC_VERSION") is not None:
        return build_programs(folder, "gcc")
    if libc is Libc.MUSL and shutil.which("musl-gcc") and Path("/lib/ld-musl-x86_64.so.1").exists():
        return build_programs(folder, "musl-gcc")
    return "needs glibc" if libc is Libc.GLIBC else "needs musl and musl-gcc (Debian: musl-tools)"


# --- Random installations -------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Step:
    """One dlopen of the program's."""

    name: str
    mode: str = "n"
    """`g` with RTLD_GLOBAL, `d` with RTLD_DEEPBIND."""
    caller: str = ""
    """The library that makes the call, if it is loaded; otherwise nothing happens."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One installation on disk, and the same as an `Environment`."""

    root: Path
    environment: Environment
    steps: tuple[Step, ...] = ()


@cache
def _machine() -> Environment:
    return read_process(os.path.realpath(sys.executable), [])


def random_case(seed: int, root: Path, libc: Libc, programs: Sequence[tuple[Path, Elf]]) -> Case:
    """Throw the dice for an installation, and make it; the same seed gives the same one."""
    dice = random.Random(seed)
    root = root.resolve()
    directories = {f"{root}/{each}" for each in [*DIRECTORIES, "bin", "d1/sub/deep"]}
    files: dict[str, Elf] = {}
    codes: dict[str, Code] = {}
    broken: dict[str, SearchOutcome] = {}
    links: dict[str, str] = {}
    hard_links: dict[str, str] = {}
    if dice.random() < 0.4:
        links[f"{root}/linked"] = dice.choice(["d1", f"{root}/d2", "d1/../d0"])
    places = [f"{root}/{folder}/{name}" for folder in DIRECTORIES for name in NAMES]
    program, main = dice.choice(programs)
    first = [f"{root}/{each}" for each in _wanted(main)]
    chosen = dice.sample(places, dice.randint(8, 32))
    for path in dict.fromkeys([*first, *chosen]):
        kind = dice.random() * (0.9 if path in first else 1)
        if kind < 0.82 or not files:
            files[path] = random_library(dice, path, str(root))
            codes[path] = random_code(dice, path, files[path].needed)
        elif kind < 0.87:
            links[path] = dice.choice([*files, "/nowhere/x.so", "../d0/libwb.so", path])
        elif kind < 0.92:
            original = dice.choice([each for each in files if each not in hard_links])
            files[path], hard_links[path] = files[original], original
        elif kind < 0.97:
            files[path] = random_misfit(dice)
        elif kind < 0.985:
            broken[path] = SearchOutcome.NOT_ELF
        else:
            directories.add(path)
    files[f"{root}/bin/probe"] = main
    search = random_entries(dice, str(root)) if dice.random() < 0.4 else []
    here = _machine()
    environment = Environment(
        libc=libc,
        files=files,
        broken=broken,
        directories=frozenset(directories),
        links=links,
        hard_links=hard_links,
        cwd=f"{root}/d2",
        main=f"{root}/bin/probe",
        loaded={"libc.so.6": "/lib/libc.so.6"} if libc is Libc.GLIBC else {},
        library_path=tuple(search) if search != [""] else (),
        lib=here.lib,
        platform=here.platform,
        subdirectories=here.subdirectories if libc is Libc.GLIBC else (),
    )
    steps: list[Step] = []
    for _ in range(6):
        steps.append(random_step(dice, str(root), list(files), steps))
    written = write(environment, codes, program)
    return Case(root=root, environment=written, steps=tuple(steps))


def _wanted(program: Elf) -> list[str]:
    """Return where the program's libraries must be, so that it starts more often than not."""
    folders = [each.rpartition("/")[2] for each in (program.search_path or "").split(":")]
    return [f"{folders[-1]}/{name}" for name in program.needed if name in NAMES]


def write(environment: Environment, codes: dict[str, Code], program: Path) -> Environment:
    """Make the files that `environment` describes, and return it with what was made."""
    for each in environment.directories:
        Path(each).mkdir(parents=True, exist_ok=True)
    files = dict(environment.files)
    for path, elf in environment.files.items():
        if path == environment.main:
            shutil.copy(program, path)
        elif path not in environment.hard_links:
            data = misfit(elf) if elf.bits == 32 else shared_object(elf, codes.get(path))
            Path(path).write_bytes(data)
            if path in codes:
                files[path] = read_elf(data, path)
    for path, original in environment.hard_links.items():
        Path(path).hardlink_to(original)
        files[path] = files[original]
    for path in environment.broken:
        Path(path).write_text("INPUT(libz.so)\n" * 10)
    for path, target in environment.links.items():
        Path(path).symlink_to(target)
    return replace(environment, files=files)


def random_library(dice: random.Random, path: str, root: str) -> Elf:
    """Throw the dice for what a library says of files."""
    name = path.rpartition("/")[2]
    soname = dice.choice([name, name, name, None, dice.choice(NAMES)])
    needed = dice.sample(NAMES, dice.choice([0, 0, 0, 1, 1, 2, 3]))
    if dice.random() < 0.15:
        other = dice.choice(NAMES)
        needed.append(
            dice.choice([f"$ORIGIN/{other}", f"{root}/d1/{other}", f"./{other}", "libnone.so"])
        )
    paths = [None, ":".join(random_entries(dice, root)), ":".join(random_entries(dice, root))]
    rpath, runpath = dice.choice(
        [(None, None), (paths[1], None), (paths[1], None), (None, paths[1]), (paths[1], paths[2])]
    )
    return replace(LIBRARY, soname=soname, needed=tuple(needed), rpath=rpath, runpath=runpath)


def random_code(dice: random.Random, path: str, needed: Sequence[str]) -> Code:
    """Throw the dice for what a library says of symbols."""
    nodes = dice.choice([(), (), (), ("V1", "V2"), ("V1", "V2"), ("V1", "V2", "V3")])
    names = dice.sample(SYMBOLS, len(SYMBOLS))
    split = dice.randint(0, 5)
    defined = {*names[:split], *(("s1", "s2") if "libwa" in path else ())}
    symbols: list[Symbol] = []
    for name in sorted(defined):
        symbols += random_definitions(dice, name, nodes)
    bare = [each for each in needed if "/" not in each and each != "libnone.so"]
    for name in [each for each in names if each not in defined][: dice.randint(0, 5)]:
        labelled = bool(bare) and dice.random() < 0.4
        symbols.append(
            Symbol(
                name=name,
                defined=False,
                bind=dice.choice([1, 2, 2, 2, 2, 2]),
                version=dice.choice(["V1", "V1", "V1", "V2", "V2", "V2", "V2", "V3"])
                if labelled
                else None,
                file=dice.choice(bare) if labelled else None,
                relocations=random_relocations(dice),
            )
        )
    return Code(
        symbols=tuple(symbols),
        nodes=nodes,
        symbolic=dice.random() < 0.1,
        hashes=dice.choice([(4,), (GNU_HASH,), (4, GNU_HASH)]),
    )


def random_definitions(dice: random.Random, name: str, nodes: Sequence[str]) -> Iterator[Symbol]:
    """Yield one definition of a symbol, or two in different versions."""
    version = dice.choice([*nodes, *nodes, None]) if nodes else None
    newest = Symbol(
        name=name,
        defined=True,
        bind=dice.choice([1, 1, 1, 1, 2, 10]),
        kind=dice.choice([0, 1, 1, 2]),
        protected=dice.random() < 0.1,
        version=version,
        hidden=version is not None and dice.random() < 0.15,
        relocations=random_relocations(dice) if dice.random() < 0.7 else (),
    )
    yield newest
    older = [each for each in nodes if version is not None and each < version]
    if older and dice.random() < 0.5:
        yield replace(newest, version=dice.choice(older), hidden=True)


def random_relocations(dice: random.Random) -> tuple[int, ...]:
    """Choose how a symbol is referred to: by address, through the GOT, by a call."""
    return tuple(dice.sample([1, 6, _JUMP_SLOT], dice.choice([1, 1, 1, 2])))


def random_entries(dice: random.Random, root: str) -> list[str]:
    """Throw the dice for a search path."""
    choices = [
        "$ORIGIN",
        "${ORIGIN}/../d0",
        "$ORIGIN/../d1",
        "$ORIGIN/../d1/sub/",
        "$ORIGIN/../d2//",
        "$ORIGIN/../d1/../d2",
        "$ORIGIN/../nowhere/../d1",
        "$ORIGIN/../linked",
        "$ORIGIN/../linked/../d2",
        "$ORIGIN/../../d0",
        "$ORIGIN/../d1/sub/deep/../../../d0",
        f"{root}/d0",
        f"{root}/d2/",
        f"{root}/linked",
        "/nowhere",
        "$ORIGIN/../$LIB",
        f"{root}/${{LIB}}/",
        "",
        "sub",
        "../d1",
        "$ORIGINAL/d0",
        "'$ORIGIN/../d1'",
        "$LIB",
        "$ORIGIN/../$PLATFORM",
        "${LIB}c/x",
    ]
    weights = [6] * 13 + [1] * (len(choices) - 13)
    return dice.choices(choices, weights=weights, k=dice.choice([1, 1, 2, 3, 5]))


def random_misfit(dice: random.Random) -> Elf:
    """Choose an object that cannot be loaded."""
    return dice.choice(
        [
            replace(LIBRARY, bits=32, machine=Machine.I386),
            replace(LIBRARY, machine=Machine.AARCH64),
            replace(LIBRARY, type=ElfType.REL),
        ]
    )


def random_step(
    dice: random.Random, root: str, files: Sequence[str], before: Sequence[Step]
) -> Step:
    """Throw the dice for one dlopen, by the program or by a library opened before."""
    name, folder = dice.choice(NAMES), dice.choice([*DIRECTORIES, "linked"])
    libraries = [each for each in files if not each.endswith("/probe")]
    callers = [each.name for each in before if each.name in libraries]
    if callers and dice.random() < 0.3:
        return Step(name=name, mode=dice.choice("nng"), caller=dice.choice(callers))
    spelled = [name, f"{root}/{folder}/{name}", f"{root}/bin/../{folder}/{name}"]
    spelled += [f"../{folder}/{name}", *([dice.choice(libraries)] * 4)]
    return Step(name=dice.choice(spelled), mode=dice.choice("nnnnggd"))


# --- What happens ---------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Happened:
    """The start, or one dlopen."""

    maps: list[str] = field(default_factory=list[str])
    """All objects in load order, by the path they were opened with."""
    places: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])
    """User, symbol, and the object that the relocated place points into."""
    error: str | None = None


Edge = tuple[str, str, str | None, str]
_BINDING = re.compile(
    r"binding file (.*) \[0\] to (.*) \[0\]: \w+ symbol `(s\d)'(?: \[(.*)\])?$", re.MULTILINE
)


def observe(case: Case) -> list[Happened]:
    """Run the program; return what its steps did."""
    environment = case.environment
    assert environment.main is not None
    variables = {
        "LD_BIND_NOW": "1",
        "LD_DEBUG": "libs,bindings",
        "LD_DEBUG_OUTPUT": f"{case.root}/debug",
    }
    if environment.library_path:
        variables["LD_LIBRARY_PATH"] = ":".join(environment.library_path)
    done = subprocess.run(
        [environment.main, *(w for s in case.steps for w in (s.mode, s.caller, s.name))],
        env=variables,
        cwd=environment.cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    steps: list[Happened] = []
    for line in done.stdout.splitlines():
        word, _, rest = line.partition(" ")
        if word == "map":
            steps[-1].maps.append(rest)
        elif word == "bind":
            user, symbol, provider = rest.split("|")
            steps[-1].places.add((identity(case, user), symbol, identity(case, provider)))
        elif word != "skip":
            steps.append(Happened(error=rest or None))
    if done.returncode:
        steps.append(Happened(error=done.stderr or str(done.returncode)))
    return steps


def identity(case: Case, path: str) -> str:
    """Return what all names of a file have in common."""
    if path in {"", "?"}:
        return path
    environment = case.environment
    main = path in {"main", environment.main}
    real = "main" if main else os.path.realpath(Path(environment.cwd or "/", path))
    return environment.hard_links.get(real, real)


def tried(case: Case, log: str) -> Iterator[str]:
    """Yield the existing files that glibc tried."""
    for path in re.findall(r"trying file=(.*)", log):
        name = path.rpartition("/")[2]
        if name in NAMES and exists(f"{case.root}/d2/", path):
            yield path


def exists(cwd: str, path: str) -> bool:
    """Whether there is something, be it a loop of links."""
    try:
        Path(cwd, path).stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return True


def said_bound(case: Case, log: str) -> list[Edge]:
    """Return what glibc says that it binds, in order, each once."""
    return list(
        dict.fromkeys(
            (identity(case, user), symbol, version or None, identity(case, provider))
            for user, provider, symbol, version in _BINDING.findall(log)
        )
    )


# --- What the model says --------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Foretold:
    """One step of the model's."""

    load: Load
    binding: LoadBindings | None = None
    """None if a file is missing."""

    @property
    def fails(self) -> bool:
        """Whether the step fails, for a file or for a symbol."""
        return self.binding is None or self.binding.failure is not None

    @property
    def aborts(self) -> bool:
        """Whether glibc ends the process."""
        failure = self.binding.failure if self.binding else None
        if isinstance(failure, MissingVersion):
            return failure.library is None
        return failure is not None and failure.aborts


def predict(case: Case) -> list[Foretold]:
    """Ask the model for the start, and for each dlopen until the process ends."""
    environment = case.environment
    assert environment.main is not None
    process = ProcessBinder(environment.files, _symbols(), environment.libc)
    started = load(environment.main, environment)
    if started.missing:
        return [Foretold(load=started)]
    found = [Foretold(load=started, binding=process.start(started))]
    return found if found[0].fails else [*found, *_Run(case, process, started).steps()]


class _Run:
    """The steps of one process, as the model takes them."""

    def __init__(self, case: Case, process: ProcessBinder, started: Load) -> None:
        self._case = case
        self._process = process
        self._step = Step(name="")
        self._bindings: dict[int, LoadBindings] = {}
        self._loaded = {identity(case, each) for each in started.objects}

    def steps(self) -> Iterator[Foretold]:
        process = start_process(FileSystem(self._case.environment))
        loads: list[Load] = []
        for name, caller in self._roots():
            one = process.dlopen(name, caller)
            if not one.missing and not self._accepts(one):
                process.undo(one)
            loads.append(one)
        for one in loads:
            yield (foretold := Foretold(load=one, binding=self._bindings.get(id(one))))
            if foretold.aborts:
                return

    def _roots(self) -> Iterator[tuple[str, str | None]]:
        for step in self._case.steps:
            self._step = step
            if not step.caller:
                yield step.name, None
            elif identity(self._case, step.caller) in self._loaded:
                yield step.name, step.caller

    def _accepts(self, one: Load) -> bool:
        mode = self._step.mode
        binding = self._process.open(one, promote=mode == "g", deep=mode == "d")
        self._bindings[id(one)] = binding
        if binding.failure is None:
            self._loaded.update(identity(self._case, each) for each in one.objects)
        return binding.failure is None


def _symbols() -> Symbols:
    """Read the symbols of the files, of those that were made here."""

    @cache
    def exports(path: str) -> Exports:
        return read_exports(Path(path).read_bytes(), path) if Path(path).exists() else Exports()

    @cache
    def lookups(path: str) -> tuple[Lookup, ...]:
        if not Path(path).exists():
            return ()
        found = read_lookups(Path(path).read_bytes(), path)
        return tuple(each for each in found if each.name in SYMBOLS)

    @cache
    def plt_entries(path: str) -> Mapping[str, tuple[Definition, ...]]:
        return read_plt_entries(Path(path).read_bytes(), path) if Path(path).exists() else {}

    return Symbols(exports=exports, plt_entries=plt_entries, lookups=lookups)


def opened(one: Load) -> list[str]:
    """Return the paths of the objects that this load brought into the process."""
    new = {How.LOADED, How.SAME_FILE, How.LIBC, None}
    return [each.candidates[-1].path for each in one.requests if each.how not in new]


def existing(one: Load) -> Iterator[str]:
    """Yield the files that the search finds, up to the failure."""
    absent = {SearchOutcome.ABSENT, SearchOutcome.NO_DIRECTORY}
    for request in one.requests:
        for candidate in request.candidates:
            if candidate.outcome not in absent and candidate.how is not How.PATH:
                yield candidate.path
        if request.failed:
            return


# --- Both -----------------------------------------------------------------------------------------


def differences(case: Case) -> list[str]:
    """Return where the model and the loader disagree, none if they agree."""
    return compare(case, observe(case), predict(case))


def compare(case: Case, happened: Sequence[Happened], foretold: Sequence[Foretold]) -> list[str]:
    """Hold what happened to what was foretold."""
    found = list(_steps(case, happened, foretold))
    log = "".join(each.read_text() for each in case.root.glob("debug.*"))
    if case.environment.libc is Libc.GLIBC and not found:
        wanted = [path for each in foretold for path in existing(each.load)]
        if wanted != (seen := list(tried(case, log))):
            found.append(f"tried {seen}, foretold {wanted}")
        edges = list(_edges(case, foretold))
        if edges != (said := said_bound(case, log)):
            found.append(f"bound {_beside(said, edges)}, foretold {_beside(edges, said)}")
    return found


def _beside(some: list[Edge], others: list[Edge]) -> object:
    return [each for each in some if each not in others] or [
        (n, each) for n, each in enumerate(some) if each != others[n]
    ]


def _steps(case: Case, happened: Sequence[Happened], foretold: Sequence[Foretold]) -> Iterator[str]:
    if len(happened) != len(foretold):
        yield f"{len(happened)} steps, {len(foretold)} foretold: {happened[-1].error}"
    maps: list[str] = []
    places: set[tuple[str, str, str]] = set()
    for did, one in zip(happened, foretold, strict=False):
        root = one.load.root
        libc = case.environment.libc
        if bool(did.error) != one.fails or (did.error and not blamed(did.error, one, libc)):
            yield f"{root}: {did.error!r}, foretold {_failure(one)}"
        if not one.fails and one.binding is not None:
            maps += opened(one.load)
            places |= {
                (identity(case, each.user), each.symbol, identity(case, each.provider or ""))
                for each in one.binding.lookups
                if not each.copied
            }
        if not did.error and did.maps != maps:
            yield f"{root}: loaded {did.maps}, foretold {maps}"
        if not did.error and did.places != places:
            yield f"{root}: places {did.places - places}, foretold {places - did.places}"


def _edges(case: Case, foretold: Sequence[Foretold]) -> Iterator[Edge]:
    """Yield what the model says is bound, each once."""
    yield from dict.fromkeys(
        (identity(case, each.user), each.symbol, each.version, identity(case, each.provider or ""))
        for one in foretold
        if one.binding is not None
        for each in one.binding.bound
    )


def outcome(one: Foretold) -> str:
    """Return what came of one step, in a few words."""
    if one.binding is None:
        return "fail for a file"
    if one.aborts:
        return "abort"
    if not one.fails:
        return "load"
    version = isinstance(one.binding.failure, MissingVersion)
    return "fail for a version" if version else "fail for a symbol"


def _failure(one: Foretold) -> object:
    return one.binding.failure if one.binding else one.load.missing[:1]


def blamed(message: str, one: Foretold, libc: Libc) -> bool:
    """Whether the loader's message names what the model says is missing first."""
    if one.binding is not None:
        failure = one.binding.failure
        if one.aborts:
            return "Inconsistency detected by ld.so" in message
        if isinstance(failure, MissingVersion):
            return f"version `{failure.version}' not found" in message
        assert failure is not None
        name = failure.symbol
        if libc is Libc.MUSL:
            return f": {name}: symbol not found" in message.partition("\n")[0]
        name += f", version {failure.version}" if failure.version else ""
        return bool(re.search(f"undefined symbol: {name}$", message.strip(), re.MULTILINE))
    first = one.load.missing[0]
    last = first.candidates[-1].path if first.candidates else first.name
    names = [last] if first.fatal and libc is Libc.GLIBC else [first.name.rpartition("/")[2]]
    return any(name in message for name in names)
