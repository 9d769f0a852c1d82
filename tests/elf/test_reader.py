"""The reader says what binutils' readelf says, and nothing makes it crash or hang."""

import contextlib
import ctypes
import gc
import itertools
import mmap
import os
import re
import struct
import subprocess
import sysconfig
import time
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.installations import objects
from tests.support.build import executable, extension, shared_object, stub_library_with_versions
from tests.support.compiled import require_linking
from tests.support.effort import cpu_time, spends_at_most
from tests.support.exports import read_exports
from wheelfix.budget import Budget, BudgetError
from wheelfix.elf.constants import DF_STATIC_TLS, Pt
from wheelfix.elf.image import Image
from wheelfix.elf.model import Abi, Elf, ElfType, Machine, Segment, Undefined, VersionNeed
from wheelfix.elf.reader import read_elf, read_object
from wheelfix.errors import BadElfError

SYMBOL = re.compile(
    r"^ +\d+: \w+ +\w+ (\w+) +(GLOBAL|WEAK|UNIQUE) +\w+ +(?:\[.*\] +)?(\w+) (\S+)", re.MULTILINE
)
HOOK = re.compile(r"(PyInitU?_|PyModExportU?_|_cffi_pypyinit_)")


def readelf(path: Path) -> dict[str, object]:
    """Say with binutils what `said` says with ours."""
    command = ["readelf", "-lhdVW", "--dyn-syms", str(path)]
    text = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"}
    ).stdout
    tags = dict(re.findall(r"\((SONAME|RPATH|RUNPATH)\)\s+Library \w+: \[(.*)\]", text))
    needs = re.findall(r"File: (.*)  Cnt|Name: (\S+)  Flags: \S+  Version:", text)
    symbols: list[tuple[str, str | None, bool]] = []
    hooks: list[str] = []
    for kind, bind, section, symbol in re.findall(
        r"^ +\d+: \w+ +\w+ (\w+) +(GLOBAL|WEAK|UNIQUE) +\w+ +(?:\[.*\] +)?(\w+) (\S+)",
        text,
        re.MULTILINE,
    ):
        name, _, version = symbol.partition("@")
        if section == "UND":
            symbols.append((name, version.lstrip("@") or None, bind == "WEAK"))
        elif HOOK.match(name) and kind in {"FUNC", "NOTYPE", "IFUNC"}:
            hooks.append(name)
    interpreter = re.search(r"program interpreter: (.*)\]", text)
    return {
        "needed": re.findall(r"\(NEEDED\)\s+Shared library: \[(.*)\]", text),
        "tags": [tags.get(name) for name in ("SONAME", "RPATH", "RUNPATH")],
        "needs": [file or version for file, version in needs],
        "definitions": re.findall(r"Flags: (?:none|WEAK)  Index: \d+  Cnt: \d+  Name: (\S+)", text),
        "symbols": symbols,
        "hooks": sorted(hooks),
        "interpreter": interpreter and interpreter[1],
        "segments": int(re.findall(r"Number of program headers:\s+(\d+)", text)[0]),
    }


def said(elf: Elf) -> dict[str, object]:
    return {
        "needed": list(elf.needed),
        "tags": [elf.soname, elf.rpath, elf.runpath],
        "needs": [name for need in elf.verneed for name in (need.file, *need.versions)],
        "definitions": list(elf.verdef),
        "symbols": [(u.name, u.version, u.weak) for u in elf.undefined],
        "hooks": [hook for hook in elf.module_hooks if HOOK.match(hook)],
        "interpreter": elf.interpreter,
        "segments": len(elf.segments),
    }


def read(path: Path) -> Elf:
    return read_elf(path.read_bytes(), path.name)


@pytest.fixture(scope="module")
def versioned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a library with every table: two version needs, a definition, undefined symbols."""
    folder = tmp_path_factory.mktemp("versioned")
    libc = stub_library_with_versions(
        folder / "libc.so.6", "libc.so.6", {"GLIBC_2.5": ["puts"], "GLIBC_9.99": ["later"]}
    )
    other = stub_library_with_versions(folder / "libo.so", "libo.so.1", {"OTHER_1": ["other"]})
    script = folder / "script.map"
    script.write_text("MINE_1 { global: mine; local: *; };")
    return shared_object(
        folder / "libmine.so",
        "int puts(void), later(void), other(void), nobody(void);"
        "__attribute__((weak)) int maybe(void);"
        "int mine(void) { return puts()+later()+other()+nobody()+(maybe ? maybe() : 0); }",
        soname="libmine.so.1",
        needed=[libc, other],
        rpath="$ORIGIN/../lib:/a,b",
        flags=["-w", "-fno-builtin", f"-Wl,--version-script={script}"],
        libc=False,
    )


def test_every_table_of_an_object_is_read(versioned: Path) -> None:
    elf = read(versioned)
    assert elf.abi == Abi(Machine.X86_64, 64, little_endian=True)
    assert elf.type == ElfType.DYN
    assert elf.dynamic
    assert elf.soname == "libmine.so.1"
    assert elf.needed == ("libc.so.6", "libo.so.1")
    assert (elf.rpath, elf.runpath) == ("$ORIGIN/../lib:/a,b", None)
    assert set(elf.verneed) == {
        VersionNeed(file="libc.so.6", versions=("GLIBC_9.99", "GLIBC_2.5")),
        VersionNeed(file="libo.so.1", versions=("OTHER_1",)),
    }
    assert elf.verdef == ("MINE_1",)
    assert {u.name: (u.version, u.file, u.weak) for u in elf.undefined} == {
        "puts": ("GLIBC_2.5", "libc.so.6", False),
        "later": ("GLIBC_9.99", "libc.so.6", False),
        "other": ("OTHER_1", "libo.so.1", False),
        "nobody": (None, None, False),
        "maybe": (None, None, True),
    }


@pytest.mark.parametrize("style", ["sysv", "gnu", "both"])
@pytest.mark.parametrize("bits", ["64", "32"])
@pytest.mark.parametrize("wanted", [[], ["g"]], ids=["complete", "wants-g"])
def test_hash_styles_and_classes_agree_with_readelf(
    tmp_path: Path, style: str, bits: str, wanted: list[str]
) -> None:
    require_linking("gcc", f"-m{bits}", "-shared", "-nostdlib")
    path = shared_object(
        tmp_path / "lib.so",
        "int g(void); int f(void) { return g(); }" if wanted else "int f(void) { return 1; }",
        flags=[f"-Wl,--hash-style={style}", f"-m{bits}"],
        libc=False,
        runpath="/x",
    )
    assert said(read(path)) == readelf(path)
    assert [u.name for u in read(path).undefined] == wanted


def test_an_object_that_defines_nothing_still_shows_what_it_wants(tmp_path: Path) -> None:
    """GNU ld writes `symoffset` 1 then, whatever is undefined."""
    script = tmp_path / "none.map"
    script.write_text("{ local: *; };")
    path = shared_object(
        tmp_path / "lib.so",
        "int g(void); __attribute__((constructor)) void f(void) { g(); }",
        flags=[f"-Wl,--version-script={script}", "-Wl,--hash-style=gnu"],
        libc=False,
    )
    wanted = [Undefined(name="g", version=None, file=None, type=0, weak=False)]
    assert list(read(path).undefined) == wanted
    content = bytearray(path.read_bytes())
    content[0x28:0x30] = bytes(8)  # e_shoff: without section headers the relocations tell
    assert list(read_elf(content, "lib.so").undefined) == wanted


@pytest.mark.parametrize("flags", [[], ["-no-pie"]], ids=["pie", "fixed"])
def test_programs_with_functions_by_address(tmp_path: Path, flags: list[str]) -> None:
    """Without PIC the undefined function's address is its PLT entry: it is in the hash table."""
    library = shared_object(tmp_path / "libf.so", libc=False)
    path = executable(
        tmp_path / "program",
        "int f(void); int (*pointer)(void) = f; int main(void) { return pointer(); }",
        needed=[library],
        flags=[*flags, "-fno-pic"] if flags else [],
    )
    assert said(read(path)) == readelf(path)
    assert "f" in {u.name for u in read(path).undefined}
    assert read(path).is_executable


@pytest.mark.parametrize("single_phase", [True, False])
def test_module_hooks_are_found_by_name(tmp_path: Path, *, single_phase: bool) -> None:
    path = extension(tmp_path / "_thing.abi3.so", "_thing", single_phase=single_phase)
    assert read(path).module_hooks == ("PyInit__thing",)


def test_an_undefined_or_hidden_hook_is_not_a_module_hook(tmp_path: Path) -> None:
    source = (
        "int PyInit_other(void); static int PyInit_local(void) { return 1; }"
        "int PyInit_thing(void) { return PyInit_other() + PyInit_local(); }"
        "int PyInitU_tda(void) { return 1; } int initthing(void) { return 1; }"
        "int initelse(void) { return 1; } int _cffi_pypyinit_thing(void) { return 1; }"
    )
    path = shared_object(tmp_path / "thing.cpython-311.so", source, libc=False)
    hooks = ("PyInitU_tda", "PyInit_thing", "_cffi_pypyinit_thing", "initthing")
    assert read(path).module_hooks == hooks


def test_objects_that_are_not_for_the_loader_are_not_dynamic(tmp_path: Path) -> None:
    obj = shared_object(tmp_path / "o.o", flags=["-c"], libc=False)
    static = executable(tmp_path / "static", flags=["-static", "-no-pie"])
    library = shared_object(tmp_path / "lib.so", flags=["-g"])
    debug = tmp_path / "lib.so.debug"
    subprocess.run(["objcopy", "--only-keep-debug", library, debug], check=True)
    assert [read(path).dynamic for path in (obj, static, library, debug)] == [
        False,
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("source", "flags"),
    [
        ("__thread int t; int f(void) { return t; }", ["-nostartfiles", "-Wl,-z,norelro"]),
        ("__thread int t; int f(void) { return t; }", ["-nostartfiles"]),
        ('__asm__(".section .code, \\"awx\\", @nobits\\n .skip 64\\n .text");', []),
    ],
    ids=["tbss", "tbss-relro", "executable-nobits"],
)
def test_what_has_no_bytes_need_not_be_a_debug_companion(
    tmp_path: Path, source: str, flags: list[str]
) -> None:
    library = shared_object(tmp_path / "lib.so", source, flags=["-g", *flags], libc=False)
    debug = tmp_path / "lib.so.debug"
    subprocess.run(["objcopy", "--only-keep-debug", library, debug], check=True)
    assert [read(path).dynamic for path in (library, debug)] == [True, False]


def test_relocations_say_on_arm64_that_thread_data_is_static() -> None:
    """GNU ld sets no DF_STATIC_TLS there: the wheels' copies of libgomp have none."""
    segment = Segment(Pt.TLS, flags=4, offset=0, vaddr=0, paddr=0, filesz=0, memsz=120, align=8)
    library = objects.LIBRARY._replace(machine=Machine.AARCH64, segments=(segment,))
    for has_descriptors, flag in ((True, 0), (False, DF_STATIC_TLS)):
        data = objects.shared_object(library._replace(tls_descriptors=has_descriptors))
        elf = read_elf(data, "lib.so")
        assert (elf.dt_flags & DF_STATIC_TLS, elf.tls_descriptors) == (flag, has_descriptors)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["-mtls-dialect=gnu2"], (0, True)),
        (["-ftls-model=initial-exec"], (DF_STATIC_TLS, False)),
        ([], (0, False)),
    ],
)
def test_descriptors_of_thread_data(
    tmp_path: Path, flags: list[str], expected: tuple[int, bool]
) -> None:
    source = "static __thread char data[100]; char *get(void) { return data; }"
    elf = read(shared_object(tmp_path / "lib.so", source, flags=flags))
    assert (elf.dt_flags & DF_STATIC_TLS, elf.tls_descriptors) == expected


def test_the_companion_of_a_static_program_is_not_dynamic(tmp_path: Path) -> None:
    program = executable(tmp_path / "static", flags=["-static", "-no-pie", "-g"])
    debug = tmp_path / "static.debug"
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    assert not read(debug).dynamic


def test_tables_behind_the_bytes_of_their_segment_are_loaded_with_its_page(tmp_path: Path) -> None:
    flags = ["-nostartfiles", "-Wl,-z,norelro", "-Wl,-soname,libcut.so"]
    path = shared_object(tmp_path / "lib.so", "__thread int own = 1;", flags=flags)
    whole = read(path)
    data = bytearray(path.read_bytes())
    table = int.from_bytes(data[32:40], "little")
    (dynamic,) = (s for s in whole.segments if s.type == 2)
    number, load = next(
        (number, segment)
        for number, segment in enumerate(whole.segments)
        if segment.type == 1 and segment.vaddr <= dynamic.vaddr < segment.vaddr + segment.filesz
    )
    cut = dynamic.vaddr - load.vaddr
    assert load.memsz == load.filesz > cut > 0
    struct.pack_into("<QQ", data, table + 56 * number + 32, cut, cut)
    path.write_bytes(data)
    ctypes.CDLL(str(path))
    assert read(path)._replace(segments=whole.segments) == whole


def test_gnu_properties_and_flags(tmp_path: Path) -> None:
    path = shared_object(
        tmp_path / "lib.so",
        flags=["-fcf-protection=full", "-Wl,-z,now,-z,x86-64-v3,-Bsymbolic"],
    )
    elf = read(path)
    assert struct.pack("<III", 0xC0008002, 4, 0b100) in elf.gnu_properties  # X86_ISA_1_NEEDED
    assert elf.dt_flags & 0b1010 == 0b1010  # DF_SYMBOLIC, DF_BIND_NOW
    assert elf.dt_flags_1 & 1
    assert not elf.constructors
    assert not elf.destructors


def test_big_endian_is_read_as_little_endian_is() -> None:
    """A hand-made big-endian object: header, two segments, a dynamic section, its strings."""
    strings = b"\0libbig.so.1\0libc.so.6\0/opt/lib\0"
    tags = [(14, 1), (1, 13), (15, 23), (5, 0x200), (10, len(strings)), (0, 0)]
    for bits in (32, 64):
        wide = bits == 64
        header = struct.pack(
            ">16sHHIQQQIHHHHHH" if wide else ">16sHHIIIIIHHHHHH",
            *(b"\x7fELF" + bytes([bits // 32, 2, 1]), 3, Machine.S390, 1, 0, 64, 0, 0),
            *(64 if wide else 52, 56 if wide else 32, 2, 0, 0, 0),
        ).ljust(64, b"\0")
        size = 0x200 + len(strings)
        dynamic = b"".join(struct.pack(">qQ" if wide else ">iI", *tag) for tag in tags)
        if wide:
            load = struct.pack(">IIQQQQQQ", 1, 5, 0, 0, 0, size, size, 4096)
            place = struct.pack(">IIQQQQQQ", 2, 6, 256, 256, 0, len(dynamic), len(dynamic), 8)
        else:
            load = struct.pack(">IIIIIIII", 1, 0, 0, 0, size, size, 5, 4096)
            place = struct.pack(">IIIIIIII", 2, 256, 256, 0, len(dynamic), len(dynamic), 6, 8)
        content = (header + load + place).ljust(256, b"\0") + dynamic
        elf = read_elf(content.ljust(0x200, b"\0") + strings, "libbig.so")
        assert elf.abi == Abi(Machine.S390, bits, little_endian=False)
        assert (elf.soname, elf.needed, elf.rpath) == ("libbig.so.1", ("libc.so.6",), "/opt/lib")


def test_real_libraries_are_read_as_readelf_reads_them() -> None:
    folders = [Path(sysconfig.get_path("purelib")), Path("/usr/lib")]
    found = [
        path
        for folder in folders
        for path in itertools.islice(sorted(folder.rglob("*.so*")), 0, 600, 119)
        if path.is_file() and not path.is_symlink()
    ]
    objects = [path for path in found if path.read_bytes().startswith(b"\x7fELF")]
    assert objects
    for path in objects:
        assert said(read(path)) == readelf(path), path


def test_a_truncated_file_is_named(versioned: Path) -> None:
    content = versioned.read_bytes()
    with pytest.raises(BadElfError, match=r"`lib\.so` is truncated"):
        read_elf(content[: len(content) // 2], "lib.so")
    for size in (4, 15, 40, 100):
        with pytest.raises(BadElfError, match=r"`lib\.so`"):
            read_elf(content[:size], "lib.so")


def test_any_buffer_will_do_and_none_is_held(versioned: Path) -> None:
    content = versioned.read_bytes()
    with versioned.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as m:
        mapped = read_elf(m, "lib.so")  # closing it raises BufferError if a view is alive
    assert mapped == read_elf(memoryview(content), "lib.so") == read_elf(content, "lib.so")
    with versioned.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as m:
        m[4] = 9
        with pytest.raises(BadElfError):
            read_elf(m, "lib.so")


def survives(content: bytes) -> None:
    def read() -> None:
        with contextlib.suppress(BadElfError):
            read_elf(content, "garbage.so")

    start = time.process_time()
    read()
    assert time.process_time() - start < 2 or spends_at_most(2, partial(cpu_time, read))


@given(st.binary(max_size=300))
def test_random_bytes_are_refused(content: bytes) -> None:
    survives(b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + content)
    survives(content)


@given(data=st.data())
def test_damaged_objects_never_crash_the_reader(versioned: Path, data: st.DataObject) -> None:
    content = bytearray(versioned.read_bytes())
    interesting = st.sampled_from([0, 1, 0x7F, 0x80, 0xFF])
    end = content.index(b"GCC: ") if b"GCC: " in content else len(content)
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(16, end - 9))
        width = data.draw(st.sampled_from([1, 2, 4, 8]))
        content[at : at + width] = bytes([data.draw(interesting)]) * width
    survives(bytes(content))


def test_every_word_of_the_tables_may_lie(versioned: Path) -> None:
    original = versioned.read_bytes()
    for at in range(16, 0x500, 4):
        for lie in (b"\xff\xff\xff\xff", b"\x10\0\0\0", b"\xff\xff\xff\x7f"):
            content = bytearray(original)
            content[at : at + 4] = lie
            survives(bytes(content))


def test_what_was_read_of_an_object_is_gone_at_once(tmp_path: Path) -> None:
    """Nothing refers to itself: no garbage collector has to find it, and a mapping with it."""
    data = extension(tmp_path / "demo.so", "demo").read_bytes()
    assert read_elf(data, "demo.so").module_hooks == ("PyInit_demo",)
    gc.collect()
    gc.disable()
    try:
        read_object(memoryview(data), "demo.so", Budget.of_files())
        read_exports(data, "demo.so")
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_segments_that_map_the_same_bytes_exceed_the_budget(tmp_path: Path) -> None:
    source = "void *PyModuleDef_Init(void *); void *PyInit_m(void) { return PyModuleDef_Init(0); }"
    path = shared_object(tmp_path / "m.so", source + "char data[1 << 20] = {1};")
    content = bytearray(path.read_bytes())
    with memoryview(bytes(content)) as view:
        image = Image.parse(view, "m.so")
    last = image.loads[-1]
    copies = [last._replace(vaddr=last.vaddr + (n << 21)) for n in range(1, 2000)]
    headers = [*image.segments, *copies]
    header = image.header._replace(phoff=len(content), phnum=len(headers))
    content += b"".join(map(image.structs.pack_segment, headers))
    struct.pack_into("<HHIQQQIHHHHHH", content, 16, *header)
    with pytest.raises(BudgetError, match=r"`m\.so` exceeds the work limit for its size: the data"):
        read_elf(content, "m.so")
