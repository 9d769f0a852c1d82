"""An object edited in its own bytes is what its linker would have made, and no larger."""

# ruff: noqa: S311 -- dice that fall the same way each time are the point

import random
import shutil
import subprocess
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from tests.support import build
from tests.support.build import executable, shared_object, stub_library_with_versions
from tests.support.compiled import require_linking
from wheelfix.elf.compare import differences
from wheelfix.elf.constants import Dt, Pt
from wheelfix.elf.dynamic_tables import Dynamic
from wheelfix.elf.editor import edit
from wheelfix.elf.growth import NoRoomError
from wheelfix.elf.image import Image
from wheelfix.elf.model import Elf, PathTag
from wheelfix.elf.reader import read_elf
from wheelfix.elf.revision import Revision
from wheelfix.errors import BadElfError, PlanConflictError, ToolError, WheelfixError
from wheelfix.pipelines import apply_edits as applying
from wheelfix.pipelines.patchelf import find_patchelf, split
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


@pytest.fixture(params=TARGETS, ids=lambda target: target.machine)
def target(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Target:
    found: Target = request.param
    require_linking(found.compiler, *found.flags)
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


def pruning(elf: Elf, names: Iterable[str]) -> Revision:
    revision = Revision.of(elf)
    for name in names:
        revision = revision.drop_needed(name)
    return revision


def pruned(content: bytes, names: set[str]) -> bytes:
    revision = pruning(read_elf(content, "lib.so"), names)
    data = bytearray(content)
    assert in_place(data, revision) == revision.after
    check(content, data, revision.after)
    return bytes(data)


def in_place(data: bytearray, revision: Revision) -> Elf:
    """Edit `data` in place if all fits; return what it says then."""
    try:
        patch = edit(data, revision, "lib.so", may_grow=False)
    except NoRoomError:
        return revision.before
    data[:] = patch.content(bytes(data))
    return revision.after


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
        if image.header.shoff:
            yield image.header.shoff, len(content)


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


@pytest.mark.each_run("?")
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
        in_place(data, pruning(before, ["libb.so.1"]))
    assert data == content


# --- strings --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An object with a RUNPATH, three libraries with versions, and no versions of its own."""
    folder = tmp_path_factory.mktemp("plain")
    return three(["a1"], ["b2", "c1"]).link(folder, "lib.so", as_needed=False).read_bytes()


def edited(content: bytes, **changes: object) -> tuple[Elf, Elf, bytes]:
    """Return what was wanted, what the object says now, and its bytes."""
    before = read_elf(content, "lib.so")
    wanted = before._replace(**changes)  # type: ignore[arg-type] # of many types
    data = bytearray(content)
    now = in_place(data, Revision(before, wanted))
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


def test_a_change_that_fits_is_not_made_beside_one_that_does_not(plain: bytes) -> None:
    _, _, data = edited(plain, runpath="$ORIGIN", soname="libown-12345678.so.1")
    assert data == plain


def test_a_new_path_takes_the_bytes_of_a_dropped_name(tmp_path: Path) -> None:
    graph = GRAPHS["first record"]
    content = graph.link(tmp_path, "lib.so", as_needed=False).read_bytes()
    _, bare, content = edited(content, runpath=None)
    revision = pruning(bare, graph.unused).set_paths("$ORIGIN", None)
    data = bytearray(content)
    assert in_place(data, revision) == revision.after
    check(content, data, revision.after)
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
        revision = Revision.of(before).rename_needed("liba.so.1", new)
        data = bytearray(plain)
        assert in_place(data, revision) == revision.after
        check(plain, data, revision.after)
        assert b"liba" not in bytes(data)[: data.find(b".symtab")]
    data = bytearray(plain)
    hashed = Revision.of(before).rename_needed("liba.so.1", "liba-0123abcd.so.1")
    assert in_place(data, hashed) == before
    assert data == plain


def test_libraries_are_dropped_and_renamed_at_once(tmp_path: Path) -> None:
    graph = GRAPHS["all but one"]
    path = graph.link(tmp_path, "lib.so", as_needed=False)
    content = path.read_bytes()
    pruned = pruning(read_elf(content, "lib.so"), graph.unused)
    longer = pruned.rename_needed("libb.so.1", "libb-0123abcd.so.1")
    assert in_place(bytearray(content), longer) == pruned.before
    first, rest = split(longer)
    data = bytearray(content)
    assert in_place(data, first) == pruned.after
    check(content, data, pruned.after)
    path.write_bytes(data)
    find_patchelf().patch(path, rest)
    assert differences(content, path.read_bytes(), longer.after, "lib.so") == ()
    shorter = pruned.rename_needed("libb.so.1", "libb-z.so")
    data = bytearray(content)
    assert in_place(data, shorter) == shorter.after
    check(content, data, shorter.after)


def test_libraries_swap_their_names(plain: bytes) -> None:
    revision = Revision.of(read_elf(plain, "lib.so"))
    for old, new in (("liba.so.1", "x"), ("libc.so.1", "liba.so.1"), ("x", "libc.so.1")):
        revision = revision.rename_needed(old, new)
    assert revision.after.needed == ("libc.so.1", "libb.so.1", "liba.so.1")
    data = bytearray(plain)
    assert in_place(data, revision) == revision.after
    check(plain, data, revision.after)


def test_an_object_without_section_headers_can_be_edited(tmp_path: Path) -> None:
    graph = GRAPHS["first record"]
    path = graph.link(tmp_path, "lib.so", as_needed=False)
    bare = bytearray(path.read_bytes())
    bare[0x28:0x30] = bytes(8)  # e_shoff
    bare[0x3C:0x40] = bytes(4)  # e_shnum, e_shstrndx
    before = read_elf(bare, "lib.so")
    revision = pruning(before, graph.unused).set_paths(None, "$ORIGIN")
    data = bytearray(bare)
    assert in_place(data, revision) == revision.after
    check(bytes(bare), data, revision.after)
    path.write_bytes(data)
    opener = executable(tmp_path / "opener", OPENER, flags=["-w", "-ldl"])
    assert opened(opener, path) < 255
    with pytest.raises(ToolError, match="no section headers"):
        find_patchelf().patch(path, Revision.of(revision.after).set_paths(None, LONG))


# --- any edit -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Graph, bytes]]:
    made: list[tuple[Graph, bytes]] = []
    for number in range(100, 112):
        graph = random_graph(number)
        folder = tmp_path_factory.mktemp("object")
        made.append((graph, graph.link(folder, "lib.so", as_needed=False).read_bytes()))
    return made


def random_edit(elf: Elf, graph: Graph, dice: random.Random) -> Revision:
    unused = sorted(graph.unused & set(elf.needed))
    revision = pruning(elf, dice.sample(unused, dice.randint(0, len(unused))))
    for name in revision.after.needed:
        if dice.random() < 0.3:
            new = dice.choice([name[3:], name + ".2", "q" + name[1:], "x-" + name[-4:]])
            if new not in revision.after.needed:
                revision = revision.rename_needed(name, new)
    texts = ["$ORIGIN", "$ORIGIN/../lib", "/build/tree/lib", "lib", "", LONG, None]
    if dice.random() < 0.7:
        revision = revision.set_paths(dice.choice(texts), dice.choice(texts))
    if dice.random() < 0.4:
        revision = revision.set_soname(
            dice.choice(["libown.so.1", "own.so.1", "o.so", "libown-1234.so.1", None])
        )
    return revision


@pytest.mark.each_run("[0-5]")
@pytest.mark.parametrize("seed", range(20))
def test_any_edit_is_made_or_nothing_is(objects: list[tuple[Graph, bytes]], seed: int) -> None:
    dice = random.Random(seed)
    for graph, original in objects:
        content, before = original, read_elf(original, "lib.so")
        for _ in range(2):
            data = bytearray(content)
            now = in_place(data, random_edit(before, graph, dice))
            check(content, data, now)
            assert now != before or data == content
            content, before = bytes(data), now


@pytest.mark.each_run("[0-4]")
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
        revision = random_edit(before, three(["a1"], ["b2", "c1"]), dice)
        try:
            in_place(damaged, revision)
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


@pytest.mark.parametrize("behind", [b"MAGIC!!", b"q" * 4096 + b"MAGIC!!"])
def test_what_is_appended_is_found_from_the_start_and_from_the_end(
    plain: bytes, behind: bytes, tmp_path: Path
) -> None:
    done = applied(tmp_path, plain + behind, NEEDING_ROOM)
    written = done.content["pkg/lib.so"]
    assert isinstance(written, Path)
    content = written.read_bytes()
    assert content.endswith(behind)
    assert content[len(plain) :].startswith(behind)


def test_an_archive_that_is_appended_is_read(plain: bytes, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(plain)
    with zipfile.ZipFile(program, "a") as archive:  # its offsets are from the start of the file
        archive.writestr("data.txt", "x" * 500)
    done = applied(tmp_path, program.read_bytes(), NEEDING_ROOM)
    with zipfile.ZipFile(cast("Path", done.content["pkg/lib.so"])) as archive:
        assert archive.read("data.txt") == b"x" * 500


@pytest.mark.parametrize(
    ("patcher", "hint"),
    [(Patcher.AUTO, "build it again"), (Patcher.PATCHELF, "leave out `--patcher`")],
)
def test_patchelf_is_not_given_what_takes_too_much_memory(
    plain: bytes,
    tmp_path: Path,
    patcher: Patcher,
    hint: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(applying, "_LARGEST_FOR_PATCHELF", len(plain))
    with pytest.raises(ToolError, match="patchelf would take") as caught:
        applied(tmp_path, plain + b"appended, for example by zip", NEEDING_ROOM, patcher)
    assert hint in (caught.value.hint or "")
