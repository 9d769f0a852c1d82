"""The model of the loader against the loader itself: random installations, really dlopened."""

import errno
import os
import random
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from wheelfix.elf import Elf, ElfType, Libc, Machine
from wheelfix.loader import (
    Environment,
    How,
    Load,
    Opening,
    Outcome,
    expand,
    hwcaps,
    load,
    load_all,
    load_each,
    search_directories,
)

NAMES = [f"libw{letter}.so" for letter in "abcdef"]
DIRECTORIES = ["d0", "d1", "d1/sub", "d2", "glibc"]
LIBRARY = Elf(
    bits=64,
    little_endian=True,
    machine=Machine.X86_64,
    osabi=0,
    flags=0,
    type=ElfType.DYN,
)
PROGRAM = replace(LIBRARY, interpreter="/lib64/ld-linux-x86-64.so.2")

# ruff: noqa: RUF005, S311 -- commands read better in two halves; dice need no secrecy

pytestmark = pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="the objects are written for x86-64"
)


# --- Objects from bytes: thousands are needed, and the compiler takes 30 ms for one -------------


def shared_object(elf: Elf) -> bytes:
    """Return an object that says what `elf` says, and holds no code."""
    strings = bytearray(b"\0")

    def text(value: str) -> int:
        strings.extend(value.encode() + b"\0")
        return len(strings) - len(value.encode()) - 1

    tags = [(1, text(name)) for name in elf.needed]
    for tag, value in ((14, elf.soname), (15, elf.rpath), (29, elf.runpath)):
        tags += [] if value is None else [(tag, text(value))]
    hash_at = 64 + 3 * 56
    symbols_at = hash_at + 16
    dynamic_at = symbols_at + 24
    strings_at = dynamic_at + 16 * (len(tags) + 6)
    tags += [(4, hash_at), (5, strings_at), (6, symbols_at), (10, len(strings)), (11, 24), (0, 0)]
    size = strings_at + len(strings)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01",
        *(elf.type, elf.machine, 1, 0, 64, 0, elf.flags, 64, 56, 3, 64, 0, 0),
    )
    segments = [
        (1, 6, 0, 0, 0, size, size, 0x1000),  # PT_LOAD
        (2, 6, dynamic_at, dynamic_at, dynamic_at, 16 * len(tags), 16 * len(tags), 8),
        (0x6474E551, 6, 0, 0, 0, 0, 0, 16),  # PT_GNU_STACK
    ]
    content = header + b"".join(struct.pack("<IIQQQQQQ", *each) for each in segments)
    content += struct.pack("<4I", 1, 1, 0, 0) + bytes(24)
    content += b"".join(struct.pack("<QQ", *each) for each in tags)
    return content + bytes(strings)


PROBE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
static int show(struct dl_phdr_info *info, size_t size, void *data) {
    if (strstr(info->dlpi_name, "lib") && !strstr(info->dlpi_name, "libc.") &&
        !strstr(info->dlpi_name, "ld-"))
        printf("map %s\n", info->dlpi_name);
    return 0;
}
int main(int count, char **names) {
    puts("start");
    dl_iterate_phdr(show, 0);
    for (int i = 1; i < count; i++) {
        void *handle = dlopen(names[i], RTLD_NOW);
        if (handle) puts("open"); else printf("fail %s\n", dlerror());
        dl_iterate_phdr(show, 0);
    }
    return 0;
}
"""

PROGRAMS = [
    PROGRAM,
    replace(PROGRAM, rpath="$ORIGIN/../d0:$ORIGIN/../d2"),
    replace(PROGRAM, runpath="$ORIGIN/../d0:$ORIGIN/../d2"),
    replace(PROGRAM, rpath="$ORIGIN/../d1", needed=("libwa.so",)),
    replace(PROGRAM, runpath="$ORIGIN/../d2:$ORIGIN/../d1", needed=("libwb.so", "libwa.so")),
]


def build_programs(folder: Path, compiler: str, libc: str) -> list[tuple[Path, Elf]]:
    (folder / "probe.c").write_text(PROBE)
    for name in ("libwa.so", "libwb.so"):
        subprocess.run(
            ["gcc", "-shared", "-nostdlib", f"-Wl,-soname,{name}"]
            + ["-o", str(folder / name), "-x", "c", "/dev/null"],
            check=True,
        )
    built: list[tuple[Path, Elf]] = []
    for number, elf in enumerate(PROGRAMS):
        tags = "--enable-new-dtags" if elf.runpath is not None else "--disable-new-dtags"
        path = [] if elf.search_path is None else [f"-Wl,-rpath,{elf.search_path}"]
        libraries = [str(folder / name) for name in elf.needed]
        target = folder / f"probe{number}"
        subprocess.run(
            [
                compiler,
                "-o",
                str(target),
                str(folder / "probe.c"),
                f"-Wl,--no-as-needed,{tags}",
                *path,
            ]
            + [*libraries, "-ldl", "-Wl,--allow-shlib-undefined"],
            check=True,
        )
        built.append((target, replace(elf, needed=(*elf.needed, libc))))
    return built


@pytest.fixture(scope="session")
def glibc_programs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, Elf]]:
    if os.confstr("CS_GNU_LIBC_VERSION") is None:
        pytest.skip("the C library here is not glibc")
    return build_programs(tmp_path_factory.mktemp("glibc"), "gcc", "libc.so.6")


@pytest.fixture(scope="session")
def musl_programs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, Elf]]:
    if shutil.which("musl-gcc") is None or not Path("/lib/ld-musl-x86_64.so.1").exists():
        pytest.skip("needs musl and musl-gcc (Debian: musl-tools)")
    return build_programs(tmp_path_factory.mktemp("musl"), "musl-gcc", "libc.so")


# --- Random installations -----------------------------------------------------------------------


@dataclass
class Case:
    """One installation on disk, and the same as an `Environment`."""

    root: Path
    environment: Environment
    openings: list[str] = field(default_factory=list[str])


def random_case(seed: int, root: Path, libc: Libc, programs: list[tuple[Path, Elf]]) -> Case:
    dice = random.Random(seed)
    root = root.resolve()
    directories = {f"{root}/{each}" for each in [*DIRECTORIES, "bin", "d1/sub/deep"]}
    files: dict[str, Elf] = {}
    broken: dict[str, Outcome] = {}
    links: dict[str, str] = {}
    hard_links: dict[str, str] = {}
    if dice.random() < 0.4:
        links[f"{root}/linked"] = dice.choice(["d1", f"{root}/d2", "d1/../d0"])
    places = [f"{root}/{folder}/{name}" for folder in DIRECTORIES for name in NAMES]
    for path in dice.sample(places, dice.randint(6, 24)):
        kind = dice.random()
        if kind < 0.82 or not files:
            files[path] = random_library(dice, path, str(root))
        elif kind < 0.87:
            links[path] = dice.choice([*files, "/nowhere/x.so", "../d0/libwb.so", path])
        elif kind < 0.92:
            original = dice.choice([each for each in files if each not in hard_links])
            files[path], hard_links[path] = files[original], original
        elif kind < 0.97:
            files[path] = random_misfit(dice)
        elif kind < 0.985:
            broken[path] = Outcome.NOT_ELF
        else:
            directories.add(path)
    program, files[f"{root}/bin/probe"] = dice.choice(programs)
    search = random_entries(dice, str(root)) if dice.random() < 0.4 else []
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
        lib="lib/x86_64-linux-gnu",
        platform="x86_64",
    )
    write(environment, program)
    return Case(root, environment, [random_opening(dice, str(root)) for _ in range(4)])


def write(environment: Environment, program: Path) -> None:
    """Make the files that `environment` describes."""
    for each in environment.directories:
        Path(each).mkdir(parents=True, exist_ok=True)
    for path, elf in environment.files.items():
        if path == environment.main:
            shutil.copy(program, path)
        elif path not in environment.hard_links:
            Path(path).write_bytes(misfit(elf) if elf.bits == 32 else shared_object(elf))
    for path in environment.broken:
        Path(path).write_text("INPUT(libz.so)\n" * 10)
    for path, original in environment.hard_links.items():
        Path(path).hardlink_to(original)
    for path, target in environment.links.items():
        Path(path).symlink_to(target)


def random_library(dice: random.Random, path: str, root: str) -> Elf:
    name = path.rpartition("/")[2]
    soname = dice.choice([name, name, name, None, dice.choice(NAMES)])
    needed = dice.sample(NAMES, dice.choice([0, 0, 1, 1, 2, 3]))
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


def random_entries(dice: random.Random, root: str) -> list[str]:
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
        "",
        "sub",
        "../d1",
        "$ORIGINAL/d0",
        "'$ORIGIN/../d1'",
        "$LIB",
        "$ORIGIN/../$PLATFORM",
        "${LIB}c/x",
    ]
    return dice.choices(choices, weights=[6] * 13 + [1] * 10, k=dice.choice([1, 1, 2, 3, 5]))


def random_misfit(dice: random.Random) -> Elf:
    return dice.choice(
        [
            replace(LIBRARY, bits=32, machine=Machine.I386),
            replace(LIBRARY, machine=Machine.AARCH64),
            replace(LIBRARY, type=ElfType.REL),
        ]
    )


def misfit(elf: Elf) -> bytes:
    """A 32-bit header; nobody reads further."""
    return (
        b"\x7fELF\x01\x01\x01".ljust(16, b"\0")
        + struct.pack("<HHI", 3, elf.machine, 1)
        + bytes(200)
    )


def random_opening(dice: random.Random, root: str) -> str:
    name, folder = dice.choice(NAMES), dice.choice([*DIRECTORIES, "linked"])
    return dice.choice(
        [name, f"{root}/{folder}/{name}", f"{root}/bin/../{folder}/{name}", f"../{folder}/{name}"]
    )


# --- What happens, and what the model says ------------------------------------------------------


@dataclass
class Step:
    """One dlopen, or the start."""

    maps: list[str] = field(default_factory=list[str])
    """All objects in load order, by the path they were opened with."""
    error: str | None = None


def observe(case: Case) -> tuple[list[Step], list[str]]:
    """Run the program; return its steps, and the existing files that glibc tried."""
    environment = case.environment
    assert environment.main is not None
    variables = {"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": f"{case.root}/debug"}
    if environment.library_path:
        variables["LD_LIBRARY_PATH"] = ":".join(environment.library_path)
    result = subprocess.run(
        [environment.main, *case.openings],
        env=variables,
        cwd=environment.cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    steps: list[Step] = []
    for line in result.stdout.splitlines():
        word, _, rest = line.partition(" ")
        if word == "map":
            steps[-1].maps.append(rest)
        else:
            steps.append(Step(error=rest or None))
    if not steps:
        steps = [Step(error=result.stderr)]
    return steps, list(tried(case))


def tried(case: Case) -> Iterator[str]:
    for log in case.root.glob("debug.*"):
        for path in re.findall(r"trying file=(.*)", log.read_text()):
            name = path.rpartition("/")[2]
            if name in NAMES and "hwcaps" not in path and exists(f"{case.root}/d2/", path):
                yield path


def exists(cwd: str, path: str) -> bool:
    """Whether there is something, be it a loop of links."""
    try:
        Path(cwd, path).stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return True


def predict(case: Case) -> list[Load]:
    environment = case.environment
    assert environment.main is not None
    started = load(environment.main, environment)
    return [started] if started.missing else [started, *load_all(case.openings, environment)]


def opened(one: Load) -> list[str]:
    """Return the paths of the objects that this load brought into the process."""
    new = {How.LOADED, How.SAME_FILE, How.LIBC, None}
    return [each.candidates[-1].path for each in one.requests if each.how not in new]


def differences(case: Case) -> list[str]:
    """Return where the model and the loader disagree, none if they agree."""
    steps, files_tried = observe(case)
    loads = predict(case)
    found = [] if len(steps) == len(loads) else [f"{len(steps)} steps, {len(loads)} foretold"]
    maps: list[str] = []
    for step, one in zip(steps, loads, strict=False):
        if bool(step.error) != bool(one.missing):
            found.append(f"{one.root}: {step.error!r}, foretold {one.missing[:1]}")
        elif step.error and not blamed(step.error, one, case.environment.libc):
            found.append(f"{one.root}: {step.error!r}, foretold {one.missing[0]}")
        maps += [] if one.missing else opened(one)
        if not step.error and step.maps != maps:
            found.append(f"{one.root}: loaded {step.maps}, foretold {maps}")
    if case.environment.libc is Libc.GLIBC and not found:
        foretold = [path for one in loads for path in existing(one)]
        if foretold != files_tried:
            found.append(f"tried {files_tried}, foretold {foretold}")
    return found


def existing(one: Load) -> Iterator[str]:
    """Yield the files that the search finds, up to the failure."""
    absent = {Outcome.ABSENT, Outcome.NO_DIRECTORY}
    for request in one.requests:
        for candidate in request.candidates:
            if candidate.outcome not in absent and candidate.how is not How.PATH:
                yield candidate.path
        if request.failed:
            return


def blamed(message: str, one: Load, libc: Libc) -> bool:
    """Whether the loader's message names what the model says is missing first."""
    first = one.missing[0]
    last = first.candidates[-1].path if first.candidates else first.name
    names = [last] if first.fatal and libc is Libc.GLIBC else [first.name.rpartition("/")[2]]
    return any(name in message for name in names)


@pytest.mark.parametrize("seed", range(100))
def test_glibc_loads_what_the_model_says(
    seed: int, tmp_path: Path, glibc_programs: list[tuple[Path, Elf]]
) -> None:
    case = random_case(seed, tmp_path, Libc.GLIBC, glibc_programs)
    assert differences(case) == []


@pytest.mark.parametrize("seed", range(100))
def test_musl_loads_what_the_model_says(
    seed: int, tmp_path: Path, musl_programs: list[tuple[Path, Elf]]
) -> None:
    case = random_case(seed, tmp_path, Libc.MUSL, musl_programs)
    assert differences(case) == []


# --- What random installations do not reach ------------------------------------------------------


def described(files: dict[str, Elf], libc: Libc = Libc.GLIBC, **fields: Any) -> Environment:
    return Environment(libc=libc, files=files, **fields)


def library(*needed: str, **fields: Any) -> Elf:
    return replace(LIBRARY, needed=needed, **fields)


def test_the_candidates_are_kept_in_order_with_their_entries() -> None:
    user = library("libz.so.1", rpath="$ORIGIN/nowhere:$ORIGIN/../p.libs")
    files = {
        "/env/p/m.so": user,
        "/env/p.libs/libz.so.1": library(machine=Machine.AARCH64),
        "/usr/lib/libz.so.1": library(soname="libz.so.1"),
    }
    one = load("/env/p/m.so", described(files, default_directories=("/usr/lib",)))
    request = one.requests[1]
    assert request.result == "/usr/lib/libz.so.1"
    assert request.how is How.DEFAULT
    assert [(each.path, each.outcome, each.entry) for each in request.candidates] == [
        ("/env/p/nowhere", Outcome.NO_DIRECTORY, "$ORIGIN/nowhere"),
        ("/env/p/../p.libs/libz.so.1", Outcome.WRONG_MACHINE, "$ORIGIN/../p.libs"),
        ("/usr/lib/libz.so.1", Outcome.FOUND, "/usr/lib"),
    ]
    assert {each.owner for each in request.candidates[:2]} == {"/env/p/m.so"}


def test_a_miss_that_the_platform_serves_is_none_but_a_fatal_file_is() -> None:
    user = library("libm.so.6", "libz.so.1", rpath="$ORIGIN")
    files = {"/env/m.so": user}
    known = frozenset({"libm.so.6", "libz.so.1"})
    assert not load("/env/m.so", described(files, provided=known)).missing
    broken = {"/env/libz.so.1": Outcome.NOT_ELF}
    (request,) = load("/env/m.so", described(files, provided=known, broken=broken)).missing
    assert request.name == "libz.so.1"
    assert request.fatal


def test_all_that_is_missing_is_named_at_once() -> None:
    files = {"/env/m.so": library("liba.so", "libb.so", "libc.so.6")}
    one = load("/env/m.so", described(files, provided=frozenset({"libc.so.6"})))
    assert [each.name for each in one.missing] == ["liba.so", "libb.so"]


def test_a_library_asks_with_its_own_search_path_when_it_calls_dlopen() -> None:
    files = {
        "/env/p/m.so": library(runpath="$ORIGIN/../libs"),
        "/env/libs/libx.so": library("liby.so"),
        "/env/libs/liby.so": library(),
    }
    openings: list[str | Opening] = ["/env/p/m.so", Opening(name="libx.so", caller="/env/p/m.so")]
    first, second = load_all(openings, described(files))
    assert first.objects == ("/env/p/m.so",)
    # The caller's path serves the name, but what was opened does not inherit it.
    assert second.objects == ("/env/libs/libx.so",)
    assert [each.name for each in second.missing] == ["liby.so"]
    # musl does not ask the caller at all.
    _, third = load_all(openings, described(files, Libc.MUSL))
    assert [each.name for each in third.missing] == ["libx.so"]


def test_an_executable_is_started_with_its_own_search_path_inherited_by_all() -> None:
    files = {
        "/env/bin/tool": replace(PROGRAM, rpath="$ORIGIN/../libs", needed=("liba.so",)),
        "/env/libs/liba.so": library("libb.so"),
        "/env/libs/libb.so": library(),
    }
    one = load("/env/bin/tool", described(files))
    assert one.objects == ("/env/bin/tool", "/env/libs/liba.so", "/env/libs/libb.so")
    assert [each.how for each in one.requests] == [How.RPATH, How.INHERITED]
    files["/env/bin/tool"] = replace(PROGRAM, runpath="$ORIGIN/../libs", needed=("liba.so",))
    assert [each.name for each in load("/env/bin/tool", described(files)).missing] == ["libb.so"]


def test_the_cache_stands_between_runpath_and_default_directories() -> None:
    files = {
        "/env/m.so": library("libz.so.1", runpath="$ORIGIN/libs"),
        "/opt/libz.so.1": library(),
        "/usr/lib/libz.so.1": library(),
    }
    environment = described(
        files, cache={"libz.so.1": "/opt/libz.so.1"}, default_directories=("/usr/lib",)
    )
    assert load("/env/m.so", environment).objects[1] == "/opt/libz.so.1"
    stale = replace(environment, cache={"libz.so.1": "/gone/libz.so.1"})
    assert load("/env/m.so", stale).objects[1] == "/usr/lib/libz.so.1"


def test_a_hwcaps_directory_comes_first_in_every_directory() -> None:
    files = {
        "/env/m.so": library("libz.so.1", rpath="$ORIGIN/libs"),
        "/env/libs/libz.so.1": library(),
        "/env/libs/glibc-hwcaps/x86-64-v3/libz.so.1": library(),
    }
    assert load("/env/m.so", described(files)).objects[1] == "/env/libs/libz.so.1"
    fast = described(files, subdirectories=hwcaps(4))
    assert load("/env/m.so", fast).objects[1].endswith("x86-64-v3/libz.so.1")


def test_each_root_gets_a_process_of_its_own() -> None:
    files = {
        "/a/m.so": library("libz.so", rpath="$ORIGIN"),
        "/a/libz.so": library(soname="libz.so"),
        "/b/m.so": library("libz.so", rpath="$ORIGIN"),
        "/b/libz.so": library(soname="libz.so"),
    }
    apart = load_each(["/a/m.so", "/b/m.so"], described(files))
    assert [one.objects[1] for one in apart] == ["/a/libz.so", "/b/libz.so"]
    together = load_all(["/a/m.so", "/b/m.so"], described(files))
    assert [one.objects[1] for one in together] == ["/a/libz.so", "/a/libz.so"]


def test_a_failed_load_leaves_no_names_behind() -> None:
    files = {
        "/a/old.so": library(),
        "/b/m.so": library("gone.so", "libz.so", rpath="$ORIGIN"),
        "/b/libz.so": library(),
        "/c/libz.so": library(),
        "/c/n.so": library("libz.so", rpath="$ORIGIN"),
    }
    # The search for libz.so finds /a/old.so once more, but the real loader never gets there.
    for libc in Libc:
        environment = described(files, libc, hard_links={"/b/libz.so": "/a/old.so"})
        _, failed, last = load_all(["/a/old.so", "/b/m.so", "/c/n.so"], environment)
        assert [each.name for each in failed.missing] == ["gone.so"]
        assert last.objects == ("/c/n.so", "/c/libz.so")


@pytest.mark.parametrize(
    ("entry", "expanded"),
    [
        ("$ORIGIN/../x.libs", "/o/../x.libs"),
        ("${ORIGIN}x", "/ox"),
        ("$ORIGINx", "$ORIGINx"),
        ("'$ORIGIN'", "'/o'"),
        ("/a/$LIB/b", "/a/lib64/b"),
        ("/a/$PLATFORM", None),
        ("\\$ORIGIN", "\\/o"),
        ("$HOME/lib", "$HOME/lib"),
    ],
)
def test_tokens(entry: str, expanded: str | None) -> None:
    assert expand(entry, "/o") == expanded


@pytest.mark.parametrize(
    ("path", "glibc", "musl"),
    [
        ("$ORIGIN::/a/", ["/o", "", "/a"], ["/o", "/a/"]),
        ("/a:/a/", ["/a"], ["/a", "/a/"]),
        ("/a:$LIB", ["/a", "lib64"], []),
        ("$ORIGINx", ["$ORIGINx"], ["/ox"]),
        ("", [], []),
    ],
)
def test_search_paths(path: str, glibc: list[str], musl: list[str]) -> None:
    for libc, expected in ((Libc.GLIBC, glibc), (Libc.MUSL, musl)):
        found = search_directories(path, "/o", described({}, libc))
        assert [directory for _, directory in found] == expected
