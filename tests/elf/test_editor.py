"""An object edited in its own bytes is what its linker would have made, and no larger."""

# ruff: noqa: S311 -- dice that fall the same way each time are the point

import random
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from tests.support import build
from tests.support.build import executable, shared_object, stub_library_with_versions
from wheelfix.elf.compare import differences
from wheelfix.elf.constants import Dt, Pt
from wheelfix.elf.dynamic_tables import Dynamic
from wheelfix.elf.editor import edit_in_place
from wheelfix.elf.image import Image
from wheelfix.elf.model import Elf, PathTag, without_needed
from wheelfix.elf.reader import read_elf
from wheelfix.errors import BadElfError, PlanConflictError, ToolError, WheelfixError
from wheelfix.pipelines import apply_edits as applying
from wheelfix.pipelines.patchelf import find_patchelf
from wheelfix.settings import Patcher, Settings
from wheelfix.wheel.edits import (
    AddEntry,
    DropEntry,
    DropNeeded,
    Edit,
    RenameNeeded,
    SetPathTag,
    predict,
)
from wheelfix.wheel.reader import open_wheel

OPENER = """
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **words) {
    void *handle = dlopen(words[1], RTLD_NOW);
    if (!handle) { puts(dlerror()); return 255; }
    return ((int (*)(void))dlsym(handle, "f"))();
}
"""
LONG = "$ORIGIN/../somewhere/very/far/away/from/here/that/has/no/room"
TOOLS = [
    ["strip"],
    ["objcopy"],
    ["eu-strip"],
    [find_patchelf().program, "--set-rpath", LONG],
    [find_patchelf().program, "--set-soname", "libsomething-with-a-long-name.so.123"],
]


@dataclass(frozen=True)
class Target:
    """A machine to build for, and the program that runs its programs."""

    machine: str
    compiler: str = "gcc"
    flags: tuple[str, ...] = ()
    runner: tuple[str, ...] = ()


def cross(machine: str, triplet: str) -> Target:
    runner = (f"qemu-{machine}-static", "-L", f"/usr/{triplet}")
    return Target(machine, f"{triplet}-gcc", (), runner)


TARGETS = [
    Target("x86_64"),
    Target("i686", flags=("-m32",)),
    cross("aarch64", "aarch64-linux-gnu"),
    cross("ppc64le", "powerpc64le-linux-gnu"),
    cross("s390x", "s390x-linux-gnu"),
]


@cache
def can_build(target: Target) -> bool:
    command = [target.compiler, *target.flags, "-xc", "-", "-o", "/dev/null"]
    try:
        done = subprocess.run(command, input=b"int main(void){}", capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return done.returncode == 0


@pytest.fixture(params=TARGETS, ids=lambda target: target.machine)
def target(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Target:
    found: Target = request.param
    if not can_build(found):
        pytest.skip(f"no compiler for {found.machine}")
    monkeypatch.setattr(build, "GCC", found.compiler)
    return found


def opened(opener: Path, library: Path, runner: Sequence[str] = ()) -> int:
    """Open `library` with everything bound, and return what its `f` returns; 255 for failure."""
    command = [*runner, str(opener), str(library)]
    environ = {"LD_BIND_NOW": "1", "LD_LIBRARY_PATH": str(library.parent), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, env=environ, check=False).returncode


def run_clean(*command: str | Path) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stderr)
    assert done.stderr == ""
    assert "arning" not in done.stdout
    return done.stdout


# --- pruning, beside the real linker --------------------------------------------------------------


@dataclass(frozen=True)
class Graph:
    """An object to link: its libraries, and how it uses their functions."""

    libraries: dict[str, dict[str, list[str]]]
    """SONAME -> version -> functions."""
    strong: tuple[str, ...]
    weak: tuple[str, ...]
    defines_versions: bool = False

    @property
    def unused(self) -> set[str]:
        return {
            soname
            for soname, versions in self.libraries.items()
            if not any(name in self.strong for names in versions.values() for name in names)
        }

    def source(self) -> str:
        names = [*self.strong, *self.weak]
        return "\n".join(
            [
                *(f"int {name}(void);" for name in self.strong),
                *(f"__attribute__((weak)) int {name}(void);" for name in self.weak),
                "int f(void) { return 7",
                *(f"+ ({name} ? {name}() : 0)" for name in names),
                "; }",
            ]
        )

    def link(self, folder: Path, name: str, *, as_needed: bool, flags: Sequence[str] = ()) -> Path:
        libraries = [
            folder / soname
            if (folder / soname).exists()
            else stub_library_with_versions(folder / soname, soname, versions, flags=flags)
            for soname, versions in self.libraries.items()
        ]
        if self.defines_versions:
            (folder / "map").write_text("OWN_1 { global: f; };")
            flags = [*flags, f"-Wl,--version-script={folder / 'map'}"]
        return shared_object(
            folder / name,
            self.source(),
            soname="libown.so.1",
            needed=libraries,
            libc=False,
            as_needed=as_needed,
            runpath="$ORIGIN:/build/tree/lib",
            flags=["-fno-builtin", "-w", *flags],
        )


def three(strong: Sequence[str], weak: Sequence[str] = (), *, own: bool = False) -> Graph:
    libraries = {
        f"lib{c}.so.1": {f"{c.upper()}_1": [f"{c}1"], f"{c.upper()}_2": [f"{c}2"]} for c in "abc"
    }
    return Graph(libraries, tuple(strong), tuple(weak), own)


GRAPHS = {
    "first record": three(["b1", "c1", "c2"], ["a1"]),
    "middle record": three(["a2", "c1"], ["b1", "b2"]),
    "last record": three(["a1", "b1"], ["c2"]),
    "all but one": three(["b2"], ["a1", "c1", "c2"]),
    "all records": three([], ["a1", "b2", "c1"]),
    "all records, own versions": three([], ["a1", "b2", "c1"], own=True),
    "no record": three(["a1"]),
}


def random_graph(number: int) -> Graph:
    dice = random.Random(number)
    libraries = {
        f"lib{c}{'x' * dice.randrange(9)}.so.1": {
            f"{c.upper()}_{v}": [f"{c}{v}{n}" for n in range(dice.randint(1, 3))]
            for v in range(dice.randint(1, 4))
        }
        for c in "abcdefg"[: dice.randint(1, 7)]
    }
    strong: list[str] = []
    weak: list[str] = []
    unused: list[str] = []
    for versions in libraries.values():
        uses = dice.choice([[strong, weak], [weak], [weak, unused], [unused]])
        for name in (name for names in versions.values() for name in names):
            dice.choice([*uses, unused]).append(name)
    return Graph(libraries, tuple(strong), tuple(weak), dice.random() < 0.3)


def says(elf: Elf) -> object:
    """What is compared with a relink: not the order of symbols, nor STT_*, which only ld knows."""
    versions = [(need.file, sorted(need.versions)) for need in elf.verneed]
    symbols = sorted((s.name, s.version or "", s.file or "", s.weak) for s in elf.undefined)
    return elf.needed, versions, symbols, elf.soname, elf.verdef, elf.runpath


def pruned(content: bytes, names: set[str]) -> bytes:
    before = read_elf(content, "lib.so")
    after = without_needed(before, names)
    data = bytearray(content)
    assert in_place(data, before, after, "lib.so") == after
    check(content, data, after)
    return bytes(data)


def in_place(data: bytearray, before: Elf, after: Elf, name: str) -> Elf:
    """Edit `data` in place; return what it says then."""
    now, patch, _ = edit_in_place(data, before, after, name)
    data[:] = patch.content(bytes(data))
    return now


def check(old: bytes, new: bytes | bytearray, predicted: Elf) -> None:
    """Hold an edited object to the promises of an edit in place."""
    assert read_elf(new, "lib.so") == predicted
    assert differences(old, new, predicted, "lib.so") == ()
    assert len(old) == len(new)
    places = list(editable(old))
    outside = [
        at
        for at, (a, b) in enumerate(zip(old, new, strict=True))
        if a != b and not any(start <= at < stop for start, stop in places)
    ]
    assert not outside


def editable(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield the file ranges of the dynamic section, .dynstr, version tables, section headers."""
    with memoryview(content) as view:
        image = Image.parse(view, "lib.so")
        dynamic = Dynamic.parse(image)
        segment = image.segment(Pt.DYNAMIC)
        assert dynamic is not None
        assert segment is not None
        yield segment.offset, segment.offset + segment.filesz
        needs = sum(16 * (1 + len(versions)) for _, versions in dynamic.version_needs())
        sizes = {
            Dt.STRTAB: dynamic.tags[Dt.STRSZ],
            Dt.VERSYM: 2 * dynamic.symbol_count,
            Dt.VERNEED: needs,
        }
        for tag, size in sizes.items():
            if tag in dynamic.tags:
                start = image.offset(dynamic.tags[tag], size, tag.name)
                yield start, start + size
        if image.section_headers:
            yield image.section_headers, len(content)


@pytest.mark.parametrize("case", GRAPHS)
def test_pruning_is_relinking_as_needed(case: str, target: Target, tmp_path: Path) -> None:
    graph = GRAPHS[case]
    path = graph.link(tmp_path, "pruned.so", as_needed=False, flags=target.flags)
    relinked = graph.link(tmp_path, "relinked.so", as_needed=True, flags=target.flags)
    assert graph.unused
    path.write_bytes(pruned(path.read_bytes(), graph.unused))
    assert says(read_elf(path.read_bytes(), "")) == says(read_elf(relinked.read_bytes(), ""))
    run_clean("readelf", "-aW", path)
    if target.runner and shutil.which(target.runner[0]) is None:
        return
    opener = executable(tmp_path / "opener", OPENER, flags=["-w", "-ldl", *target.flags])
    assert opened(opener, path, target.runner) == opened(opener, relinked, target.runner) < 255


@pytest.mark.parametrize("number", range(30))
def test_random_objects_are_pruned_as_the_linker_would(number: int, tmp_path: Path) -> None:
    graph = random_graph(number)
    path = graph.link(tmp_path, "pruned.so", as_needed=False)
    relinked = graph.link(tmp_path, "relinked.so", as_needed=True)
    path.write_bytes(pruned(path.read_bytes(), graph.unused))
    assert says(read_elf(path.read_bytes(), "")) == says(read_elf(relinked.read_bytes(), ""))
    run_clean("readelf", "-aW", path)


@pytest.mark.parametrize("case", GRAPHS)
def test_other_tools_take_a_pruned_object_for_sound(case: str, tmp_path: Path) -> None:
    graph = GRAPHS[case]
    path = graph.link(tmp_path, "pruned.so", as_needed=False)
    content = pruned(path.read_bytes(), graph.unused)
    opener = executable(tmp_path / "opener", OPENER, flags=["-w", "-ldl"])
    path.write_bytes(content)
    answer = opened(opener, path)
    assert answer < 255
    tools = [tool for tool in TOOLS if shutil.which(tool[0])]
    for first in tools:
        for second in tools:
            path.write_bytes(content)
            run_clean(*first, path)
            run_clean(*second, path)
            run_clean("readelf", "-aW", path)
            assert opened(opener, path) == answer, (first, second)


def test_what_is_in_use_is_never_pruned(tmp_path: Path) -> None:
    content = GRAPHS["first record"].link(tmp_path, "lib.so", as_needed=False).read_bytes()
    before = read_elf(content, "lib.so")
    data = bytearray(content)
    with pytest.raises(PlanConflictError, match=r"`lib\.so` needs `b1` with a version"):
        in_place(data, before, without_needed(before, {"libb.so.1"}), "lib.so")
    dangling = replace(before, needed=before.needed[1:])
    with pytest.raises(PlanConflictError, match=r"`liba\.so\.1` cannot be dropped while versions"):
        in_place(data, before, dangling, "lib.so")
    assert data == content


def test_one_of_two_equal_entries_goes_without_its_versions(tmp_path: Path) -> None:
    content = GRAPHS["no record"].link(tmp_path, "lib.so", as_needed=False).read_bytes()
    content = content.replace(b"\0libb.so.1\0", b"\0liba.so.1\0")
    before = read_elf(content, "lib.so")
    assert before.needed == ("liba.so.1", "liba.so.1", "libc.so.1")
    wanted = replace(before, needed=("liba.so.1", "libc.so.1"))
    data = bytearray(content)
    assert in_place(data, before, wanted, "lib.so") == wanted
    check(content, data, wanted)
    assert wanted.verneed


# --- strings --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An object with a RUNPATH, three libraries with versions, and no versions of its own."""
    folder = tmp_path_factory.mktemp("plain")
    return three(["a1"], ["b2", "c1"]).link(folder, "lib.so", as_needed=False).read_bytes()


def edited(content: bytes, **changes: object) -> tuple[Elf, Elf, bytes]:
    """Return what was wanted, what the object says now, and its bytes."""
    before = read_elf(content, "lib.so")
    wanted = replace(before, **changes)  # type: ignore[arg-type] # of many types
    data = bytearray(content)
    now = in_place(data, before, wanted, "lib.so")
    check(content, data, now)
    return wanted, now, bytes(data)


FITS: dict[str, dict[str, object]] = {
    "shorter path": {"runpath": "$ORIGIN"},
    "path of the same length": {"runpath": "$ORIGIN:/build/tree/bin"},
    "empty path": {"runpath": ""},
    "no path": {"runpath": None},
    "other tag": {"rpath": "$ORIGIN:/build/tree/lib", "runpath": None},
    "other tag, shorter": {"rpath": "$ORIGIN", "runpath": None},
    "both tags": {"rpath": "$ORIGIN:/build/tree/lib"},
    "both tags, one the tail": {"rpath": "lib"},
    "shorter SONAME": {"soname": "own.so"},
    "SONAME a tail of itself": {"soname": "own.so.1"},
    "no SONAME": {"soname": None},
}
NEEDS_ROOM: dict[str, dict[str, object]] = {
    "longer path": {"runpath": LONG},
    "longer other tag": {"rpath": LONG, "runpath": None},
    "two new texts for one": {"rpath": "$ORIGIN/bbbbbbbbbbbb", "runpath": "$ORIGIN/aaaaaaaaaaaa"},
    "longer SONAME": {"soname": "libown-12345678.so.1"},
}


@pytest.mark.parametrize("case", FITS)
def test_a_text_that_fits_is_changed_in_place(plain: bytes, case: str) -> None:
    wanted, now, data = edited(plain, **FITS[case])
    assert now == wanted
    if "tree" not in f"{wanted.rpath}{wanted.runpath}":
        assert b"/build/tree" not in data


@pytest.mark.parametrize("case", NEEDS_ROOM)
def test_a_text_that_does_not_fit_is_left_alone(plain: bytes, case: str) -> None:
    _, now, data = edited(plain, **NEEDS_ROOM[case])
    assert now == read_elf(plain, "lib.so")
    assert data == plain


def test_a_change_that_fits_is_made_beside_one_that_does_not(plain: bytes) -> None:
    wanted, now, _ = edited(plain, runpath="$ORIGIN", soname="libown-12345678.so.1")
    assert now == replace(wanted, soname="libown.so.1")


def test_a_new_path_takes_the_bytes_of_a_dropped_name(tmp_path: Path) -> None:
    graph = GRAPHS["first record"]
    content = graph.link(tmp_path, "lib.so", as_needed=False).read_bytes()
    _, bare, content = edited(content, runpath=None)
    wanted = replace(without_needed(bare, graph.unused), rpath="$ORIGIN")
    data = bytearray(content)
    assert in_place(data, bare, wanted, "lib.so") == wanted
    check(content, data, wanted)
    assert b"liba.so.1" not in data
    assert differences(content, content, bare, "lib.so") == ()


def test_a_tag_needs_a_spare_slot(plain: bytes) -> None:
    """GNU ld leaves some; lld leaves none."""
    with memoryview(plain) as view:
        image = Image.parse(view, "lib.so")
        dynamic = Dynamic.parse(image)
        assert dynamic is not None
        size = 16 * (len(dynamic.entries) + 1)
        headers = image.program_headers[0]
        number = next(n for n, s in enumerate(image.segments) if s.type == Pt.DYNAMIC)
    full = bytearray(plain)
    at = headers + 56 * number + 32  # p_filesz
    full[at : at + 8] = size.to_bytes(8, "little")
    _, now, _ = edited(bytes(full), rpath="$ORIGIN:/build/tree/lib")
    assert now.rpath is None
    wanted, now, _ = edited(bytes(full), rpath="$ORIGIN:/build/tree/lib", runpath=None)
    assert now == wanted


SHARING = {
    "with a symbol": ("int shared_name(void) { return 1; }", "x/shared_name", "shared_name"),
    "with the SONAME": ("int f;", "/usr/libown.so.1", "libown.so.1"),
}


@pytest.mark.parametrize("case", SHARING)
def test_the_tail_that_another_name_uses_stays(tmp_path: Path, case: str) -> None:
    """Linkers keep a string that is the tail of a longer one only once."""
    source, path, tail = SHARING[case]
    library = shared_object(
        tmp_path / "lib.so", source, soname="libown.so.1", runpath=path, libc=False
    )
    content = library.read_bytes()
    assert content.count(tail.encode()) == 1 + (case == "with a symbol")  # once more in .strtab
    head = len(path) - len(tail)
    wanted, now, data = edited(content, runpath="y" * (head - 1))
    assert now == wanted
    assert tail.encode() in data
    _, now, data = edited(content, runpath="y" * head)
    assert data == content
    wanted, now, data = edited(content, runpath=None)
    assert now == wanted
    assert path.encode() not in data
    assert tail.encode() in data


def test_the_head_that_another_name_uses_stays(tmp_path: Path) -> None:
    """The path is a symbol's tail: nothing of it may be written over."""
    library = shared_object(
        tmp_path / "lib.so", "int my_lib(void) { return 1; }", runpath="lib", libc=False
    )
    content = library.read_bytes()
    _, now, data = edited(content, runpath="bin")
    assert (now.runpath, data) == ("lib", content)
    wanted, now, _ = edited(content, runpath=None)
    assert now == wanted
    wanted, now, _ = edited(content, runpath="ib")
    assert now == wanted


def test_a_renamed_library_takes_its_versions_along(plain: bytes) -> None:
    before = read_elf(plain, "lib.so")
    for new in ("libz.so.1", "a.so", "a.so.1"):
        wanted = RenameNeeded(member="m", old="liba.so.1", new=new).on_elf(before)
        data = bytearray(plain)
        assert in_place(data, before, wanted, "lib.so") == wanted
        check(plain, data, wanted)
        assert b"liba" not in bytes(data)[: data.find(b".symtab")]
    hashed = RenameNeeded(member="m", old="liba.so.1", new="liba-0123abcd.so.1").on_elf(before)
    data = bytearray(plain)
    assert in_place(data, before, hashed, "lib.so") == before
    assert data == plain


def test_dropping_and_renaming_at_once_are_distinguished(tmp_path: Path) -> None:
    graph = GRAPHS["all but one"]
    path = graph.link(tmp_path, "lib.so", as_needed=False)
    content = path.read_bytes()
    before = read_elf(content, "lib.so")
    kept = without_needed(before, graph.unused)
    wanted = RenameNeeded(member="m", old="libb.so.1", new="libb-0123abcd.so.1").on_elf(kept)
    data = bytearray(content)
    now = in_place(data, before, wanted, "lib.so")
    assert now == kept
    check(content, data, kept)
    path.write_bytes(data)
    find_patchelf().patch(path, now, wanted)
    assert differences(content, path.read_bytes(), wanted, "lib.so") == ()
    shorter = RenameNeeded(member="m", old="libb.so.1", new="libb-z.so").on_elf(kept)
    data = bytearray(content)
    assert in_place(data, before, shorter, "lib.so") == shorter
    check(content, data, shorter)


def test_an_object_without_section_headers_can_be_edited(tmp_path: Path) -> None:
    graph = GRAPHS["first record"]
    path = graph.link(tmp_path, "lib.so", as_needed=False)
    bare = bytearray(path.read_bytes())
    bare[0x28:0x30] = bytes(8)  # e_shoff
    bare[0x3C:0x40] = bytes(4)  # e_shnum, e_shstrndx
    before = read_elf(bare, "lib.so")
    wanted = replace(without_needed(before, graph.unused), runpath="$ORIGIN")
    data = bytearray(bare)
    assert in_place(data, before, wanted, "lib.so") == wanted
    check(bytes(bare), data, wanted)
    path.write_bytes(data)
    opener = executable(tmp_path / "opener", OPENER, flags=["-w", "-ldl"])
    assert opened(opener, path) < 255
    with pytest.raises(ToolError, match="no section headers"):
        find_patchelf().patch(path, wanted, replace(wanted, runpath=LONG))


# --- any edit -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Graph, bytes]]:
    made: list[tuple[Graph, bytes]] = []
    for number in range(100, 112):
        graph = random_graph(number)
        folder = tmp_path_factory.mktemp("object")
        made.append((graph, graph.link(folder, "lib.so", as_needed=False).read_bytes()))
    return made


def random_edit(elf: Elf, graph: Graph, dice: random.Random) -> Elf:
    unused = sorted(graph.unused & set(elf.needed))
    elf = without_needed(elf, dice.sample(unused, dice.randint(0, len(unused))))
    for name in elf.needed:
        if dice.random() < 0.3:
            new = dice.choice([name[3:], name + ".2", "q" + name[1:], "x-" + name[-4:]])
            if new not in elf.needed:
                elf = RenameNeeded(member="m", old=name, new=new).on_elf(elf)
    texts = ["$ORIGIN", "$ORIGIN/../lib", "/build/tree/lib", "lib", "", LONG, None]
    if dice.random() < 0.7:
        elf = replace(elf, rpath=dice.choice(texts), runpath=dice.choice(texts))
    if dice.random() < 0.4:
        soname = dice.choice(["libown.so.1", "own.so.1", "o.so", "libown-1234.so.1", None])
        elf = replace(elf, soname=soname)
    return elf


@pytest.mark.parametrize("seed", range(20))
def test_any_edit_returns_what_was_written(objects: list[tuple[Graph, bytes]], seed: int) -> None:
    dice = random.Random(seed)
    for graph, original in objects:
        content, before = original, read_elf(original, "lib.so")
        for _ in range(2):
            wanted = random_edit(before, graph, dice)
            data = bytearray(content)
            now = in_place(data, before, wanted, "lib.so")
            check(content, data, now)
            again = bytearray(data)
            assert in_place(again, now, wanted, "lib.so") == now
            assert again == data
            content, before = bytes(data), now


@pytest.mark.parametrize("seed", range(10))
def test_a_damaged_object_is_refused_or_edited_without_a_crash(plain: bytes, seed: int) -> None:
    dice = random.Random(seed)
    spots = [range(*place) for place in editable(plain)]
    for _ in range(60):
        damaged = bytearray(plain)
        for _ in range(dice.randint(1, 3)):
            damaged[dice.choice(dice.choice(spots))] = dice.choice([0, 1, 15, 29, 127, 255])
        content = bytes(damaged)
        try:
            before = read_elf(content, "lib.so")
        except BadElfError:
            continue
        wanted = random_edit(before, three(["a1"], ["b2", "c1"]), dice)
        try:
            in_place(damaged, before, wanted, "lib.so")
        except WheelfixError:
            assert damaged == content
        else:
            assert len(damaged) == len(content)


# --- in a wheel -----------------------------------------------------------------------------------

IN_PLACE: dict[str, list[Edit]] = {
    "an absolute entry dropped": [DropEntry(member="pkg/lib.so", entry="/build/tree/lib")],
    "RUNPATH to RPATH": [SetPathTag(member="pkg/lib.so", tag=PathTag.RPATH)],
    "unused libraries dropped": [
        DropNeeded(member="pkg/lib.so", name="libb.so.1"),
        DropNeeded(member="pkg/lib.so", name="libc.so.1"),
    ],
    "a shorter name": [RenameNeeded(member="pkg/lib.so", old="libc.so.1", new="libz.so")],
}


def applied(
    folder: Path, content: bytes, edits: list[Edit], patcher: Patcher = Patcher.AUTO
) -> applying.Applied:
    wheel = build.make_wheel(folder, files={"pkg/lib.so": content})
    with open_wheel(wheel) as archive:
        after = predict(archive.wheel, edits)
        return applying.apply(archive, after, edits, folder, Settings(patcher=patcher))


@pytest.mark.parametrize("case", IN_PLACE)
def test_patchelf_is_not_asked_for_what_fits(
    plain: bytes, case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise AssertionError(case)

    monkeypatch.setattr(applying, "find_patchelf", missing)
    done = applied(tmp_path, plain, IN_PLACE[case])
    assert done.ways == {"pkg/lib.so": "in place"}
    written = done.content["pkg/lib.so"]
    assert isinstance(written, Path)
    assert written.stat().st_size == len(plain)


NEEDING_ROOM: list[Edit] = [
    DropNeeded(member="pkg/lib.so", name="libb.so.1"),
    RenameNeeded(member="pkg/lib.so", old="liba.so.1", new="liba-0123abcd.so.1"),
    AddEntry(member="pkg/lib.so", entry="$ORIGIN/../demo.libs"),
]


def test_patchelf_is_asked_for_what_needs_room_where_it_is_chosen(
    plain: bytes, tmp_path: Path
) -> None:
    done = applied(tmp_path, plain, NEEDING_ROOM, Patcher.PATCHELF)
    assert done.ways == {"pkg/lib.so": "patchelf"}


def test_what_needs_room_gets_it_without_patchelf(
    plain: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise AssertionError

    monkeypatch.setattr(applying, "find_patchelf", missing)
    assert applied(tmp_path, plain, NEEDING_ROOM).ways == {"pkg/lib.so": "with room at its end"}


def test_patchelf_gets_what_is_declined_with_the_reason(plain: bytes, tmp_path: Path) -> None:
    done = applied(tmp_path, plain + b"appended, for example by zip", NEEDING_ROOM)
    (way,) = done.ways.values()
    assert way.startswith("patchelf, because bytes are appended to it")
