"""The model of the loader against the loader itself: random installations, really dlopened."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.oracles.installations.compare import differences
from tests.oracles.installations.dice import random_case
from tests.oracles.installations.objects import LIBRARY, PROGRAM
from tests.oracles.installations.programs import programs_for
from tests.support.loads import load, load_all, load_each
from wheelfix.budget import Budget
from wheelfix.elf.constants import DF_1_NODEFLIB
from wheelfix.elf.model import Elf, Filtee, Libc, Machine
from wheelfix.loader import loading
from wheelfix.loader.file_system import FileSystem, SearchList
from wheelfix.loader.glibc_search import expand, hwcaps
from wheelfix.loader.load_values import Dlopen, Environment, How, SearchOutcome
from wheelfix.loader.loading import independent_of, search_directories
from wheelfix.loader.machine_names import legacy_subdirectories
from wheelfix.loader.process import LinkMap

pytestmark = pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="the objects are written for x86-64"
)


# --- Random installations -----------------------------------------------------------------------


@pytest.fixture(scope="session")
def glibc_programs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return built(Libc.GLIBC, tmp_path_factory)


@pytest.fixture(scope="session")
def musl_programs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return built(Libc.MUSL, tmp_path_factory)


def built(libc: Libc, tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = programs_for(libc, tmp_path_factory.mktemp(libc))
    return pytest.skip(made) if isinstance(made, str) else made


@pytest.mark.each_run("[0-9]", "1[0-5]")
@pytest.mark.parametrize("seed", range(40))
def test_glibc_loads_and_binds_what_the_model_says(
    seed: int, tmp_path: Path, glibc_programs: Any
) -> None:
    case = random_case(seed, tmp_path, Libc.GLIBC, glibc_programs)
    assert differences(case) == []


@pytest.mark.each_run("[0-9]", "1[0-5]")
@pytest.mark.parametrize("seed", range(40))
def test_musl_loads_and_binds_what_the_model_says(
    seed: int, tmp_path: Path, musl_programs: Any
) -> None:
    case = random_case(seed, tmp_path, Libc.MUSL, musl_programs)
    assert differences(case) == []


@pytest.mark.each_run("0")
@pytest.mark.parametrize("first", range(0, 12, 4))
def test_a_load_that_is_independent_of_another_is_the_same_after_it(
    first: int, tmp_path: Path, glibc_programs: Any
) -> None:
    same = 0
    for seed in range(first, first + 4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        environment = random_case(seed, folder, Libc.GLIBC, glibc_programs).environment
        libraries = [path for path, elf in environment.files.items() if not elf.is_executable]
        for before in (one for one in load_each(libraries, environment) if not one.missing):
            is_independent = independent_of(before, environment)
            for usual in load_each(libraries, environment):
                if is_independent(usual):
                    after = load_all([before.root, usual.root], environment)[-1]
                    assert after.objects == usual.objects, (seed, before.root, usual.root)
                    assert bool(after.missing) == bool(usual.missing)
                    same += 1
    assert same > 6


# --- What random installations do not reach ------------------------------------------------------


def described(files: dict[str, Elf], libc: Libc = Libc.GLIBC, **fields: Any) -> Environment:
    return Environment(libc=libc, files=files, **fields)


def library(*needed: str, **fields: Any) -> Elf:
    return LIBRARY._replace(needed=needed, **fields)


RISCV = {"machine": Machine.RISCV}
PPC64 = {"machine": Machine.PPC64}
ARM = {"machine": Machine.ARM, "bits": 32}
DOUBLE = 0x5
"""EF_RISCV_FLOAT_ABI_DOUBLE, and EF_RISCV_RVC: compressed instructions."""


@pytest.mark.parametrize(
    ("header", "own", "other", "note"),
    [
        (RISCV, DOUBLE, 0x1, "lp64, not lp64d"),
        (RISCV, DOUBLE, 0x3, "lp64f, not lp64d"),
        (RISCV, DOUBLE, 0x7, "lp64q, not lp64d"),
        (RISCV, 0, DOUBLE, "lp64d, not lp64"),
        ({**RISCV, "bits": 32}, DOUBLE, 0, "ilp32, not ilp32d"),
        (RISCV, DOUBLE, 0x4, None),
        (PPC64, 2, 1, "ELFv1, not ELFv2"),
        (PPC64, 2, 0, None),
        ({**PPC64, "little_endian": False}, 1, 2, "ELFv2, not ELFv1"),
        ({**PPC64, "little_endian": False}, 1, 0, None),
        (ARM, 0x5000400, 0x5000200, None),
    ],
)
def test_glibc_skips_a_library_with_another_calling_convention(
    header: dict[str, Any], own: int, other: int, note: str | None
) -> None:
    """As `elf_machine_matches_host` says; that of ARM looks at e_machine alone."""
    files = {
        "/env/m.so": library("libz.so.1", rpath="$ORIGIN/a:$ORIGIN/b", flags=own, **header),
        "/env/a/libz.so.1": library(flags=other, **header),
        "/env/b/libz.so.1": library(flags=own, **header),
    }
    (request,) = (r for r in load("/env/m.so", described(files)).requests if r.requester)
    assert request.result == ("/env/a/libz.so.1" if note is None else "/env/b/libz.so.1")
    assert (request.candidates[0].note or None) == note
    musl = load("/env/m.so", described(files, Libc.MUSL))
    assert "/env/a/libz.so.1" in musl.objects


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
        ("/env/p/nowhere", SearchOutcome.NO_DIRECTORY, "$ORIGIN/nowhere"),
        ("/env/p/../p.libs/libz.so.1", SearchOutcome.WRONG_MACHINE, "$ORIGIN/../p.libs"),
        ("/usr/lib/libz.so.1", SearchOutcome.FOUND, "/usr/lib"),
    ]
    assert {each.owner for each in request.candidates[:2]} == {"/env/p/m.so"}


def test_a_search_ends_at_a_file_that_is_no_elf() -> None:
    files = {"/env/m.so": library("libz.so.1", rpath="$ORIGIN")}
    (request,) = load("/env/m.so", described(files)).missing
    assert not request.fatal
    broken = {"/env/libz.so.1": SearchOutcome.NOT_ELF}
    (request,) = load("/env/m.so", described(files, broken=broken)).missing
    assert request.name == "libz.so.1"
    assert request.fatal


def test_all_that_is_missing_is_named_at_once() -> None:
    files = {"/env/m.so": library("liba.so", "libb.so")}
    one = load("/env/m.so", described(files))
    assert [each.name for each in one.missing] == ["liba.so", "libb.so"]


def test_a_library_asks_with_its_own_search_path_when_it_calls_dlopen() -> None:
    files = {
        "/env/p/m.so": library(runpath="$ORIGIN/../libs"),
        "/env/libs/libx.so": library("liby.so"),
        "/env/libs/liby.so": library(),
    }
    openings: list[str | Dlopen] = ["/env/p/m.so", Dlopen(name="libx.so", caller="/env/p/m.so")]
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
        "/env/bin/tool": PROGRAM._replace(rpath="$ORIGIN/../libs", needed=("liba.so",)),
        "/env/libs/liba.so": library("libb.so"),
        "/env/libs/libb.so": library(),
    }
    one = load("/env/bin/tool", described(files))
    assert one.objects == ("/env/bin/tool", "/env/libs/liba.so", "/env/libs/libb.so")
    assert [each.how for each in one.requests] == [How.RPATH, How.INHERITED]
    files["/env/bin/tool"] = PROGRAM._replace(runpath="$ORIGIN/../libs", needed=("liba.so",))
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


def test_subdirectories_before_glibc_237_are_all_selections_of_the_names() -> None:
    assert legacy_subdirectories(["x86_64"]) == ("tls/x86_64", "tls", "x86_64")
    intel = legacy_subdirectories(["haswell", "avx512_1", "x86_64"])
    assert intel[:5] == (
        "tls/haswell/avx512_1/x86_64",
        "tls/haswell/avx512_1",
        "tls/haswell/x86_64",
        "tls/haswell",
        "tls/avx512_1/x86_64",
    )


def test_a_filter_is_required_and_an_auxiliary_library_is_not() -> None:
    filtee = Filtee("libf.so", required=True, position=0)
    files = {
        "/env/m.so": library("liba.so", filtees=(filtee,), rpath="$ORIGIN"),
        "/env/liba.so": library(),
    }
    assert [each.name for each in load("/env/m.so", described(files)).missing] == ["libf.so"]
    assert not load("/env/m.so", described(files, Libc.MUSL)).missing
    files["/env/libf.so"] = library()
    found = load("/env/m.so", described(files))
    assert found.objects == ("/env/libf.so", "/env/m.so", "/env/liba.so")
    del files["/env/libf.so"]
    auxiliary = filtee._replace(required=False)
    files["/env/m.so"] = files["/env/m.so"]._replace(filtees=(auxiliary,))
    assert load("/env/m.so", described(files)).objects == ("/env/m.so", "/env/liba.so")
    assert not load("/env/m.so", described(files)).missing


def test_nodeflib_excludes_entries_of_the_cache_in_default_directories() -> None:
    files = {
        "/env/m.so": library("libz.so.1", dt_flags_1=DF_1_NODEFLIB),
        "/usr/lib/libz.so.1": library(),
        "/opt/libz.so.1": library(),
    }
    environment = described(
        files, cache={"libz.so.1": "/usr/lib/libz.so.1"}, default_directories=("/usr/lib",)
    )
    assert load("/env/m.so", environment).missing
    other = replace(environment, cache={"libz.so.1": "/opt/libz.so.1"})
    assert load("/env/m.so", other).objects[1] == "/opt/libz.so.1"


def test_musl_keeps_the_dependencies_of_a_loaded_library() -> None:
    """Later loads give `liby.so` to another object, as a name of the file that `libx.so` is."""
    files = {
        "/a/liby.so": library(),
        "/b/libx.so": library(),
        "/b/liby.so": library(),
        "/b/m.so": library("liby.so", "libx.so", rpath="$ORIGIN"),
        "/b/n.so": library("m.so", rpath="$ORIGIN"),
    }
    environment = described(files, Libc.MUSL, hard_links={"/b/libx.so": "/a/liby.so"})
    _, first, second = load_all(["/a/liby.so", "/b/m.so", "/b/n.so"], environment)
    assert first.objects == ("/b/m.so", "/b/liby.so", "/a/liby.so")
    assert second.objects == ("/b/n.so", "/b/m.so", "/b/liby.so", "/a/liby.so")


def test_a_loop_of_links_ends_a_list_only_in_the_directory_itself() -> None:
    files = {
        "/env/m.so": library("libz.so.1", rpath="$ORIGIN/a:$ORIGIN/b"),
        "/env/a/libz.so.1": library(),
        "/env/b/libz.so.1": library(),
    }
    loop = "/env/a/glibc-hwcaps/x86-64-v2/libz.so.1"
    environment = described(files, subdirectories=hwcaps(2), links={loop: loop})
    assert load("/env/m.so", environment).objects[1] == "/env/a/libz.so.1"
    del files["/env/a/libz.so.1"]
    environment = described(files, links={"/env/a/libz.so.1": "libz.so.1"})
    assert load("/env/m.so", environment).missing


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
    for libc in (Libc.GLIBC, Libc.MUSL):
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


def test_the_empty_name_is_that_of_the_program_with_glibc_only() -> None:
    files = {"/env/m.so": library("", "liba.so", runpath="/env"), "/env/liba.so": library()}
    with_glibc = load("/env/m.so", described(files))
    assert not with_glibc.missing
    assert with_glibc.objects == ("/env/m.so", "/env/liba.so")
    program = replace(described({**files, "/env/app": library()}), main="/env/app")
    assert load("/env/m.so", program).objects == ("/env/m.so", "/env/app", "/env/liba.so")
    [missing] = load("/env/m.so", described(files, Libc.MUSL)).missing
    assert missing.name == ""
    assert not missing.candidates


@pytest.mark.parametrize("libc", [Libc.GLIBC, Libc.MUSL])
def test_the_steps_after_library_path_are_those_that_are_searched_after_it(libc: Libc) -> None:
    environment = described({}, libc, cache={"libz.so.1": "/lib/libz.so.1"})
    process = loading.start_process(FileSystem(environment, Budget.of_files()))
    lists: list[list[How]] = []
    for paths in ({"rpath": "$ORIGIN"}, {"runpath": "$ORIGIN"}):
        of_program, of_module = (
            LinkMap(file=path, opened=path, origin="/env", elf=library(**paths), loader=None)
            for path in ("/env/python", "/env/m.so")
        )
        of_module.loader = of_program
        lists.append([how for how, _ in process.search_lists(of_module, "libz.so.1")])
    after = {how for found in lists for how in found[found.index(How.LIBRARY_PATH) + 1 :]}
    assert after == {how for how in How if loading.is_after_library_path(how, libc)}
    assert {How.RPATH, How.INHERITED} <= {how for found in lists for how in found}


# --- The cost of a search ------------------------------------------------------------------------


class CountedText(str):
    """A text that counts how often it is hashed."""

    __slots__ = ()
    hashed = 0

    def __hash__(self) -> int:
        CountedText.hashed += 1
        return super().__hash__()


def test_a_search_list_is_a_key_at_the_cost_of_its_owner() -> None:
    elements = [CountedText(f"$ORIGIN/{number}") for number in range(100)]
    places = SearchList("/env/a.so", tuple((element, element) for element in elements))
    assert {("libz.so.1", places): 1}["libz.so.1", places] == 1
    assert CountedText.hashed == 0


def test_what_each_object_finds_by_its_own_search_path_costs_the_same_below_many() -> None:
    def spent(depth: int) -> int:
        files = {f"/env/{n}.so": library(f"{n + 1}.so", rpath="$ORIGIN") for n in range(depth)}
        files |= {f"/env/{depth}.so": library(rpath="$ORIGIN")}
        budget = Budget.of_files()
        before = budget.steps
        loaded = loading.load("/env/0.so", described(files), budget)
        assert len(loaded.objects) == depth + 1
        return before - budget.steps

    assert spent(400) < 2.1 * spent(200)


def test_musl_spends_each_object_whose_search_path_a_request_inherits() -> None:
    depth, names = 100, [f"none{number}.so" for number in range(20)]
    files = {
        f"/env/{place}.so": library(*names, f"{place + 1}.so", rpath="$ORIGIN" * (place == 0))
        for place in range(depth)
    }
    budget = Budget.of_files()
    before = budget.steps
    assert len(loading.load("/env/0.so", described(files, Libc.MUSL), budget).objects) == depth
    assert before - budget.steps > len(names) * depth**2 / 2
