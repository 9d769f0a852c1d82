"""What the loader refuses is reported, and what it takes is not: the loaders are asked."""

import os
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.build import executable, extension, make_wheel, shared_object
from tests.support.compiled import require_linking
from tests.support.tools import tool
from tests.support.values import elf, findings, wheel
from tests.support.waiting import HANGS
from wheelfix import check
from wheelfix.elf.constants import DF_STATIC_TLS, Pt
from wheelfix.elf.model import Elf, Machine, Segment
from wheelfix.elf.reader import read_elf
from wheelfix.rules import executable_stack, hardening
from wheelfix.rules import loader_acceptance as loadability
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Finding, Severity
from wheelfix.rules.registry import rules_in
from wheelfix.rules.rule import Rule
from wheelfix.rules.run_rules import run_rules
from wheelfix.settings import Settings
from wheelfix.wheel.file_likeness import likeness
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.reader import open_wheel

MANYLINUX = "manylinux_2_17_x86_64"
ARM = "manylinux_2_17_aarch64"
LOAD, DYNAMIC, STACK, TLS, RELRO = 1, 2, 0x6474E551, 7, 0x6474E552
POINTERS = "static int here; int *pointers[3] = {&here, &here, &here};"
OPENER = """
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **words) {
    puts(dlopen(words[1], RTLD_NOW) ? "opened" : dlerror());
    return 0;
}
"""
REFUSE_EXEC_GAIN = "import ctypes; assert not ctypes.CDLL(None).prctl(65, 1, 0, 0, 0)"
"""PR_SET_MDWE (Linux 6.3): no memory may become executable that was or is writable."""

pytestmark = pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="the objects are written for x86-64"
)


def judged(subject: Wheel, **settings: Any) -> list[Finding]:
    context = Context(wheel=subject, settings=Settings(**settings))
    return list(run_rules(context, rules_in(Rule, loadability, executable_stack, hardening)))


def said(
    objects: dict[str, Elf] | Elf, platform: str = MANYLINUX, **settings: Any
) -> dict[str, Severity]:
    """Return code -> severity of what is more than information."""
    many = {"pkg/m.so": objects} if isinstance(objects, Elf) else objects
    subject = wheel(many, name=f"demo-1.0-cp311-cp311-{platform}.whl")
    return {f.code: f.severity for f in judged(subject, **settings) if f.severity > Severity.NOTE}


def informed(*objects: Elf, platform: str = MANYLINUX) -> dict[str, str]:
    many = {f"pkg/m{number}.so": each for number, each in enumerate(objects)}
    subject = wheel(many, name=f"demo-1.0-cp311-cp311-{platform}.whl")
    return {f.code: f.message for f in judged(subject) if f.severity is Severity.NOTE}


def read(path: Path) -> Elf:
    return read_elf(path.read_bytes(), path.name)


def linked(tmp_path: Path, *flags: str, source: str = POINTERS, **options: Any) -> Path:
    return shared_object(tmp_path / "m.so", source, flags=flags, **options)


def opened(path: Path, first: str = "pass") -> str:
    """Return what the loader of this machine says; a crash is its signal."""
    code = f"{first}\nimport ctypes\ntry: ctypes.CDLL({str(path)!r})\nexcept OSError as e: print(e)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=HANGS
    )
    return done.stdout + done.stderr if done.returncode >= 0 else f"signal {-done.returncode}"


def opened_by(command: Sequence[str], opener: Path, path: Path) -> str:
    done = subprocess.run(
        [*command, str(opener), str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
    )
    return done.stdout + done.stderr if done.returncode >= 0 else f"signal {-done.returncode}"


def opener(path: Path, compiler: str = "gcc") -> Path:
    subprocess.run(
        [compiler, "-xc", "-", "-o", str(path), "-ldl"], input=OPENER, text=True, check=True
    )
    return path


def rewritten(path: Path, change: Callable[[list[list[int]]], None]) -> Path:
    """Change program headers: [type, flags, offset, vaddr, paddr, filesz, memsz, align]."""
    data = bytearray(path.read_bytes())
    (start,), (count,) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<H", data, 56)
    places = range(start, start + 56 * count, 56)
    headers = [list(struct.unpack_from("<IIQQQQQQ", data, at)) for at in places]
    change(headers)
    for at, header in zip(places, headers, strict=True):
        struct.pack_into("<IIQQQQQQ", data, at, *header)
    path.write_bytes(data)
    return path


def loads(headers: list[list[int]]) -> list[list[int]]:
    return [header for header in headers if header[0] == LOAD]


def needs_mdwe() -> None:
    done = subprocess.run(
        [sys.executable, "-c", REFUSE_EXEC_GAIN], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("the kernel does not know PR_SET_MDWE")


# --- What is good ---------------------------------------------------------------------------------


@pytest.mark.parametrize("platform", [MANYLINUX, "linux_x86_64", "musllinux_1_2_x86_64"])
def test_what_the_compiler_makes_is_fine(tmp_path: Path, platform: str) -> None:
    module = read(extension(tmp_path / "m.so", "m"))
    program = read(executable(tmp_path / "tool"))
    assert said({"pkg/m.so": module, "demo-1.0.data/scripts/tool": program}, platform) == {}


def test_objects_of_other_kinds_are_left_alone(tmp_path: Path) -> None:
    relocatable = tmp_path / "m.o"
    command = ["gcc", "-c", "-xc", "-", "-o", str(relocatable)]
    subprocess.run(command, input=POINTERS, text=True, check=True)
    assert said({"pkg/m.o": read(relocatable)}) == {}


# --- WF601, WF602 ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "what", "words"),
    [
        (b"", "an empty file", "file too short"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n" * 2,
            "Git LFS",
            "inv",
        ),
        (b"/* GNU ld script */\nGROUP ( /lib/libx.so.1 )\n" * 2, "a linker script", "invalid ELF"),
        (b"libx.so.1.2\n", "symbolic link", "file too short"),
        (b"\xcf\xfa\xed\xfe" + bytes(80), "macOS", "invalid ELF header"),
        (b"\xffno text\0" * 20, "no format that is known", "invalid ELF header"),
    ],
)
def test_a_needed_file_that_is_no_elf_is_an_error_in_the_loaders_words(
    tmp_path: Path, content: bytes, what: str, words: str
) -> None:
    good = shared_object(tmp_path / "libx.so.1", soname="libx.so.1", libc=False)
    user = linked(tmp_path / "u", needed=[good], runpath="$ORIGIN")
    files: dict[str, bytes | str | Path] = {
        "pkg/libx.so.1": content,
        "pkg/m.so": user,
        "pkg/other.so": content,
    }
    with open_wheel(make_wheel(tmp_path, files=files)) as archive:
        found = [f for f in judged(archive.wheel) if f.code == "WF602"]
    assert {f.member: f.severity for f in found} == {
        "pkg/libx.so.1": Severity.ERROR,
        "pkg/other.so": Severity.WARNING,
    }
    assert "`pkg/m.so` needs it" in found[0].notes
    assert what in found[0].message
    assert words in found[0].message
    (user.parent / "libx.so.1").write_bytes(content)
    assert words in opened(user)


def test_a_linker_script_beside_its_library_is_for_linkers(tmp_path: Path) -> None:
    files: dict[str, bytes | str | Path] = {
        "pkg/libx.so": "/* GNU ld script */\nINPUT ( libx.so.1 )\n",
        "pkg/libx.so.1": shared_object(tmp_path / "libx.so.1", soname="libx.so.1", libc=False),
    }
    with open_wheel(make_wheel(tmp_path, files=files)) as archive:
        (found,) = (f for f in judged(archive.wheel) if f.code == "WF602")
    assert (found.member, found.severity) == ("pkg/libx.so", Severity.NOTE)


def test_a_module_that_is_no_elf_is_an_error_and_other_files_are_no_matter(tmp_path: Path) -> None:
    module = "pkg/m.cpython-311-x86_64-linux-gnu.so"
    files = {module: "text", "pkg/a.txt": "text", "pkg/libx.so.txt": "text"}
    with open_wheel(make_wheel(tmp_path, files=files)) as archive:
        found = judged(archive.wheel)
    assert [(f.code, f.member, f.severity) for f in found] == [("WF602", module, Severity.ERROR)]


def test_a_truncated_library_that_is_needed_is_an_error(tmp_path: Path) -> None:
    good = shared_object(tmp_path / "libx.so.1", soname="libx.so.1", libc=False)
    user = linked(tmp_path / "u", needed=[good], runpath="$ORIGIN")
    cut = good.read_bytes()[:3000]
    files: dict[str, bytes | str | Path] = {"pkg/libx.so.1": cut, "pkg/m.so": user}
    with open_wheel(make_wheel(tmp_path, files={**files, "pkg/data.bin": cut})) as archive:
        found = {f.member: f.severity for f in judged(archive.wheel) if f.code == "WF601"}
    assert found == {"pkg/libx.so.1": Severity.ERROR, "pkg/data.bin": Severity.WARNING}


def test_text_that_is_cut_within_a_character_is_still_text() -> None:
    assert likeness(("a" + "ä" * 4000).encode()) == "a text file"


# --- WF603 ----------------------------------------------------------------------------------------


def test_an_executable_stack_is_an_error(tmp_path: Path) -> None:
    needs_mdwe()
    path = linked(tmp_path, "-Wl,-z,execstack")
    assert said(read(path)) == {"WF603": Severity.ERROR}
    assert said(read(path), "linux_x86_64") == {"WF603": Severity.ERROR}, "a repair promises glibc"
    assert said(read(path), "linux_x86_64", update_tags=False) == {"WF603": Severity.WARNING}
    assert said(read(path), "musllinux_1_2_x86_64") == {}
    assert "cannot enable executable stack as shared object requires" in opened(
        path, REFUSE_EXEC_GAIN
    )


def test_without_a_stack_header_the_stack_is_executable_on_some_machines(tmp_path: Path) -> None:
    needs_mdwe()

    def without(headers: list[list[int]]) -> None:
        for header in headers:
            header[0] = 0 if header[0] == STACK else header[0]

    path = rewritten(linked(tmp_path), without)
    assert said(read(path)) == {"WF603": Severity.ERROR}
    assert "cannot enable executable stack" in opened(path, REFUSE_EXEC_GAIN)
    for machine in (Machine.AARCH64, Machine.PPC64, Machine.RISCV):
        assert "WF603" not in said(read(path)._replace(machine=machine))


def test_a_program_may_have_an_executable_stack(tmp_path: Path) -> None:
    path = executable(tmp_path / "tool", flags=["-Wl,-z,execstack"])
    assert said(read(path)) == {"WF603": Severity.WARNING}


# --- WF604, WF605, WF609, WF610 -------------------------------------------------------------------


def test_a_segment_that_lies_off_its_page_is_an_error(tmp_path: Path) -> None:
    def moved(headers: list[list[int]]) -> None:
        loads(headers)[1][2] -= 8  # the code: no table that is read lies there

    path = rewritten(linked(tmp_path), moved)
    assert said(read(path)) == {"WF604": Severity.ERROR}
    assert "ELF load command address/offset not page-aligned" in opened(path)


def test_an_object_for_pages_of_1_kib_is_linked_anew(tmp_path: Path) -> None:
    path = linked(tmp_path, "-Wl,-z,max-page-size=1024")
    (found,) = findings(loadability.misaligned_segment, wheel({"demo/m.so": read(path)}))
    assert found.hint == "link it without `-z max-page-size`"
    assert "ELF load command" in opened(path)
    assert said(read(linked(tmp_path))) == {}


def test_what_only_an_old_glibc_minds_depends_on_the_tag(tmp_path: Path) -> None:
    def enlarged(headers: list[list[int]]) -> None:
        loads(headers)[-1][7] = 0x200000

    path = rewritten(linked(tmp_path), enlarged)
    assert said(read(path)) == {"WF604": Severity.ERROR}
    assert said(read(path), "manylinux_2_35_x86_64") == {}


@pytest.mark.parametrize(("size", "refused"), [(0x1000, True), (0x4000, True), (0x10000, False)])
def test_an_arm_library_must_fit_pages_of_64_kib(
    tmp_path: Path, size: int, *, refused: bool
) -> None:
    compiler, emulator = "aarch64-linux-gnu-gcc", tool("qemu-aarch64-static")
    require_linking(compiler)
    path = tmp_path / "m.so"
    flags = ["-shared", "-fPIC", f"-Wl,-z,max-page-size={size}", "-xc", "-", "-o", str(path)]
    subprocess.run([compiler, *flags], input=POINTERS, text=True, check=True)
    assert said(read(path), ARM) == ({"WF605": Severity.ERROR} if refused else {})
    emulated = [emulator, "-p", "65536", "-L", "/usr/aarch64-linux-gnu"]
    words = opened_by(emulated, opener(tmp_path / "opener", compiler), path)
    assert ("not page-aligned" in words) == refused, words


def test_small_pages_are_fine_where_there_are_no_others() -> None:
    segment = Segment(
        type=LOAD, flags=6, offset=0, vaddr=0, paddr=0, filesz=1, memsz=1, align=0x1000
    )
    stack = Segment(type=STACK, flags=6, offset=0, vaddr=0, paddr=0, filesz=0, memsz=0, align=16)
    for machine in Machine:
        found = said(elf(segments=(segment, stack), machine=machine))
        large = machine in {Machine.AARCH64, Machine.PPC64, Machine.LOONGARCH}
        assert ("WF605" in found) == large, machine


def test_segments_out_of_order_do_not_load(tmp_path: Path) -> None:
    def swapped(headers: list[list[int]]) -> None:
        first, last = (headers.index(loads(headers)[index]) for index in (0, -1))
        headers[first], headers[last] = headers[last], headers[first]

    path = rewritten(linked(tmp_path), swapped)
    assert said(read(path)) == {"WF609": Severity.ERROR}
    assert "failed to map segment" in opened(path)


def test_segments_that_overlap_are_an_error(tmp_path: Path) -> None:
    def longer(headers: list[list[int]]) -> None:
        loads(headers)[0][6] += 0x10000

    path = rewritten(linked(tmp_path), longer)
    assert said(read(path)) == {"WF609": Severity.ERROR}


def test_a_part_outside_of_all_segments_is_an_error(tmp_path: Path) -> None:
    def astray(headers: list[list[int]]) -> None:
        for header in headers:
            header[3] += 1 << 50 if header[0] == RELRO else 0

    path = rewritten(linked(tmp_path), astray)
    assert said(read(path)) == {"WF609": Severity.ERROR}
    assert "cannot apply additional memory protection" in opened(path)


@pytest.mark.parametrize(("at", "loads_it"), [(0xFF8, True), (0x1000, False)])
def test_the_page_behind_a_segment_that_ends_with_a_page_is_not_loaded(
    tmp_path: Path, at: int, *, loads_it: bool
) -> None:
    """With large pages, nothing is mapped there: the loader copies initial values from it."""

    def shortened(headers: list[list[int]]) -> None:
        loads(headers)[0][5:7] = [0x1000, 0x1000]
        for header in headers:
            header[3] = at if header[0] == TLS else header[3]

    source = "static __thread int x = 1; int *f(void) { return &x; }"
    flags = ["-ftls-model=initial-exec", "-Wl,-z,max-page-size=0x200000"]
    path = rewritten(shared_object(tmp_path / "tls.so", source, flags=flags), shortened)
    assert opened(path) == ("" if loads_it else "signal 11")
    assert ("WF609" in said(read(path))) != loads_it


@pytest.mark.parametrize(("value", "code"), [("", None), (" = 1", "WF609")])
def test_thread_local_data_without_initial_values_may_be_anywhere(
    tmp_path: Path, value: str, code: str | None
) -> None:
    """The programs of Go have PT_TLS at 0: without initial values, nothing is read there."""

    def astray(headers: list[list[int]]) -> None:
        for header in headers:
            header[3] += 1 << 50 if header[0] == Pt.TLS else 0

    source = f"static __thread int x{value}; int *f(void) {{ return &x; }}"
    path = rewritten(shared_object(tmp_path / "tls.so", source), astray)
    assert list(said(read(path))) == ([code] if code else [])
    use = f"import ctypes; assert ctypes.CDLL({str(path)!r}).f()"
    done = subprocess.run([sys.executable, "-c", use], stderr=subprocess.DEVNULL, check=False)
    assert (done.returncode == 0) == (code is None)


def test_a_part_in_the_last_page_of_a_segment_is_loaded(tmp_path: Path) -> None:
    def cut(headers: list[list[int]]) -> None:
        last = loads(headers)[-1]
        (dynamic,) = (header for header in headers if header[0] == DYNAMIC)
        assert last[5] == last[6]
        last[5] = last[6] = dynamic[3] - last[3] - 1

    flags = ["-nostartfiles", "-Wl,-z,norelro"]
    path = rewritten(linked(tmp_path, *flags, source="__thread int own = 1;"), cut)
    assert said(read(path)) == {}
    assert opened(path) == ""


def test_segments_may_share_bytes_of_the_file(tmp_path: Path) -> None:
    def longer(headers: list[list[int]]) -> None:
        code, after = loads(headers)[1:3]
        assert code[3] - code[2] == after[3] - after[2]
        code[5] = code[6] = after[3] - code[3] + 16

    path = rewritten(linked(tmp_path), longer)
    assert said(read(path)) == {}
    assert opened(path) == ""


def test_without_a_hash_table_python_does_not_find_the_module(tmp_path: Path) -> None:
    path = extension(tmp_path / "m.so", "m", flags=["-Wl,--hash-style=gnu"])
    data = path.read_bytes()
    path.write_bytes(data.replace(struct.pack("<q", 0x6FFFFEF5), struct.pack("<q", 0x6FFFFDF0)))
    assert said({"pkg/m.abi3.so": read(path)}) == {"WF610": Severity.ERROR}
    done = subprocess.run(
        [sys.executable, "-c", "import m"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "does not define module export function" in done.stderr


# --- WF606, WF607, WF608 --------------------------------------------------------------------------


def tls(path: Path, size: int, model: str, compiler: str = "gcc") -> Path:
    data = f"static __thread char b[{size}] __attribute__((aligned(16)));"
    source = f"{data} char *f(void) {{ return b; }}"
    flags = ["-shared", "-fPIC", f"-ftls-model={model}", "-xc", "-", "-o", str(path)]
    subprocess.run([compiler, *flags], input=source, text=True, check=True)
    return path


def test_static_tls_has_little_room(tmp_path: Path) -> None:
    large = tls(tmp_path / "large.so", 1 << 20, "initial-exec")
    assert said(read(large)) == {"WF606": Severity.WARNING}
    assert said(read(large)._replace(module_hooks=("PyInit_m",))) == {"WF606": Severity.ERROR}
    assert "cannot allocate memory in static TLS block" in opened(large)
    for size, model in (1000, "initial-exec"), (1 << 20, "global-dynamic"):
        good = tls(tmp_path / "good.so", size, model)
        assert said(read(good)) == {}
        assert opened(good) == ""


def test_a_library_for_ld_preload_may_have_much_static_tls(tmp_path: Path) -> None:
    """LD_PRELOAD loads it with the program, which has room for it."""
    data = "static __thread char b[1 << 20]; char *f(void) { return b; }"
    path = tmp_path / "libmymalloc.so"
    flags = ["-shared", "-fPIC", "-ftls-model=initial-exec", "-xc", "-", "-o", str(path)]
    source = f"{data} void *__libc_malloc(unsigned long);"
    for replaced in ("", "void *malloc(unsigned long n) { return __libc_malloc(n); }"):
        subprocess.run(["gcc", *flags], input=source + replaced, text=True, check=True)
        made = make_wheel(
            tmp_path, tag="py3-none-manylinux_2_17_x86_64", files={"demo/libmymalloc.so": path}
        )
        report = check(made, Settings(select=("WF606",)))
        assert [f.severity for f in report.findings] == ([] if replaced else [Severity.WARNING])
    subprocess.run([sys.executable, "-c", ""], env={"LD_PRELOAD": str(path)}, check=True)


def test_static_tls_of_all_libraries_of_one_import_adds_up(tmp_path: Path) -> None:
    parts = [tls(tmp_path / f"lib{name}.so", 1000, "initial-exec") for name in "ab"]
    root = extension(tmp_path / "m.so", "m", needed=parts, runpath="$ORIGIN")
    objects = {f"pkg/{path.name}": read(path) for path in (root, *parts)}
    assert said(objects) == {"WF606": Severity.ERROR}
    assert "cannot allocate memory in static TLS block" in opened(root)


def test_musl_has_no_room_for_static_tls(tmp_path: Path) -> None:
    compiler = tool("musl-gcc")
    path = tls(tmp_path / "m.so", 16, "initial-exec", compiler)
    assert said(read(path), "musllinux_1_2_x86_64") == {"WF606": Severity.ERROR}
    words = opened_by([], opener(tmp_path / "opener", compiler), path)
    assert "initial-exec TLS resolves to dynamic definition" in words


def test_packed_relocations_need_a_c_library_that_knows_them(tmp_path: Path) -> None:
    path = linked(tmp_path, "-Wl,-z,pack-relative-relocs", "-nostdlib")
    if not read(path).relr:
        pytest.skip("the linker does not know pack-relative-relocs")
    assert said(read(path)) == {"WF607": Severity.ERROR}
    assert said(read(path), "musllinux_1_1_x86_64") == {"WF607": Severity.ERROR}
    for target, meant in (((), {}), (("musl:1.2.3",), {"WF607": Severity.WARNING})):
        assert said(read(path), "musllinux_1_2_x86_64", target=target) == meant
    for newer in ("musl:1.2.5", "musl:1.2"):
        assert said(read(path), "musllinux_1_2_x86_64", target=(newer,)) == {}
    objects = [read(path), read(path)]
    assert "musl before 1.2.4" in informed(*objects, platform="musllinux_1_2_x86_64")["WF607"]
    assert said(read(path), "manylinux_2_36_x86_64") == {}
    assert said(read(linked(tmp_path, "-nostdlib"))) == {}


def test_packed_relocations_without_their_version_are_refused(tmp_path: Path) -> None:
    """mold 1.10 writes such objects; other linkers add the version to the needs of libc.so.6."""
    source = POINTERS + ' int puts(const char *); int say(void) { return puts(""); }'
    path = linked(tmp_path, "-Wl,-z,pack-relative-relocs", source=source)
    asked = {version for need in read(path).verneed for version in need.versions}
    if "GLIBC_ABI_DT_RELR" not in asked:
        pytest.skip("the linker does not know pack-relative-relocs")
    assert said(read(path), "manylinux_2_36_x86_64") == {}
    assert opened(path) == ""
    content = path.read_bytes().replace(b"GLIBC_ABI_DT_RELR\0", b"GLIBC_2.3.4\0".ljust(18, b"\0"))
    hashes = (0xFD0E42).to_bytes(4, "little"), (0x9691974).to_bytes(4, "little")
    path.write_bytes(content.replace(*hashes))
    assert said(read(path), "manylinux_2_36_x86_64") == {"WF607": Severity.ERROR}
    assert said(read(path), "musllinux_1_3_x86_64") == {}
    assert "DT_RELR without GLIBC_ABI_DT_RELR dependency" in opened(path)


def write_hits() -> None:
    """Write the hits for equally large TLS areas, and for packed relocations with both libcs."""
    tls = Segment(TLS, 4, 0, 0, 0, filesz=0, memsz=2000, align=8)
    names = [f"libown{letter}.so" for letter in "abcdef"]
    objects = {
        f"pkg/{name}": elf(segments=(tls,), dt_flags=DF_STATIC_TLS, relr=True) for name in names
    }
    objects["pkg/m.so"] = elf(*names, runpath="$ORIGIN", module_hooks=("PyInit_m",))
    subject = wheel(objects, name=f"demo-1.0-cp311-cp311-{MANYLINUX}.musllinux_1_1_x86_64.whl")
    for finding in judged(subject, select=("WF606", "WF607")):
        sys.stdout.write(f"{finding.message} {finding.member} {finding.notes}\n")


@pytest.mark.large
def test_hits_do_not_depend_on_the_order_of_sets() -> None:
    code = "from tests.rules import test_loader_acceptance as t; t.write_hits()"
    said = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in "1234"
    ]  # fmt: skip
    assert said[0].splitlines()[0].startswith("requires 12,000 bytes of static TLS")
    assert "`pkg/libowna.so`: 2,000 bytes" in said[0]
    assert f"C library of {MANYLINUX.removesuffix('_x86_64')} and musllinux_1_1 may" in said[0]
    assert set(said) == {said[0]}


def test_a_newer_processor_may_not_be_needed(tmp_path: Path) -> None:
    path = linked(tmp_path, "-Wl,-z,x86-64-v3")
    assert said(read(path)) == {"WF608": Severity.ERROR}
    assert said(read(path), isa_ext_check=False) == {"WF608": Severity.WARNING}
    assert said({"pkg/glibc-hwcaps/x86-64-v3/m.so": read(path)}) == {}
    emulator = [tool("qemu-x86_64-static"), "-cpu", "qemu64"]
    assert "CPU ISA level is lower than required" in opened_by(
        emulator, opener(tmp_path / "opener"), path
    )


# --- WF62x ----------------------------------------------------------------------------------------


def test_relocations_in_the_code_fail_where_policies_forbid_them(tmp_path: Path) -> None:
    needs_mdwe()
    flags = ["-fno-pic", "-mcmodel=large", "-Wl,-z,notext"]
    path = linked(tmp_path, *flags, source="int y; int *f(void) { return &y; }")
    assert said(read(path)) == {"WF621": Severity.WARNING}
    words = opened(path, REFUSE_EXEC_GAIN)
    assert "cannot make segment writable for relocation: Permission denied" in words


def test_writable_code_fails_where_policies_forbid_it(tmp_path: Path) -> None:
    needs_mdwe()

    def both(headers: list[list[int]]) -> None:
        for header in loads(headers):
            header[1] |= 3

    path = rewritten(linked(tmp_path), both)
    assert said(read(path)) == {"WF622": Severity.WARNING}
    assert "failed to map segment from shared object" in opened(path, REFUSE_EXEC_GAIN)


def test_relro_is_counted_over_the_wheel(tmp_path: Path) -> None:
    full = read(linked(tmp_path, "-Wl,-z,relro,-z,now"))
    part = read(linked(tmp_path, "-Wl,-z,relro,-z,lazy"))
    none = read(linked(tmp_path, "-Wl,-z,norelro,-z,lazy"))
    assert informed(full) == {}
    found = informed(full, part, part, none)
    assert set(found) == {"WF623", "WF624"}
    assert found["WF623"].endswith(": 1 of 4 objects")
    assert found["WF624"].endswith(": 2 of 4 objects")
    assert informed(part)["WF624"].endswith(": the only object")
    assert informed(part, part)["WF624"].endswith(": all objects")
    [named_once] = [f for f in judged(wheel({"pkg/m.so": part})) if f.code == "WF624"]
    assert (named_once.member, named_once.notes) == ("pkg/m.so", ())


def test_unique_symbols_are_those_that_nm_shows(tmp_path: Path) -> None:
    source = 'int v = 1; __asm__(".type v, %gnu_unique_object");'
    flags = ["-Wl,-z,relro,-z,now", "-nostdlib"]
    path = linked(tmp_path, *flags, source=source)
    names = subprocess.run(["nm", "-D", path], capture_output=True, text=True, check=True).stdout
    assert read(path).unique_symbols == names.count(" u ") == 1
    assert set(informed(read(path))) == {"WF625"}
    assert informed(read(path), platform="musllinux_1_2_x86_64") == {}
    other = linked(tmp_path, *flags, source="int v = 1;")
    assert read(other).unique_symbols == 0
    assert informed(read(other)) == {}
