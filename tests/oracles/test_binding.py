"""Symbol binding in whole processes: the oracle's model compared with the real loaders."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.oracles.binding import GLIBC_HERE, Bound, MissingVersion
from tests.oracles.installations.case import Case, Step, write_files
from tests.oracles.installations.compare import differences
from tests.oracles.installations.objects import LIBRARY, Code, Symbol
from tests.oracles.installations.predict import predict
from tests.oracles.installations.programs import programs_for
from tests.oracles.lookups import read_lookups, read_plt_entries
from tests.support.exports import read_exports
from wheelfix.elf.model import Elf, Libc
from wheelfix.loader.load_values import Environment
from wheelfix.loader.symbol_versions import ACCEPTS_UNVERSIONED, newer

ADDRESS, GOT, CALL = 1, 6, 7

Agreed = Callable[..., list[Any]]
"""Writes libraries, opens some, and returns the prediction after comparing it with the loader."""


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[Libc, Any]:
    made: dict[Libc, Any] = {
        libc: programs_for(libc, tmp_path_factory.mktemp(libc)) for libc in (Libc.GLIBC, Libc.MUSL)
    }
    if isinstance(made[Libc.GLIBC], str) and isinstance(made[Libc.MUSL], str):
        pytest.skip(made[Libc.GLIBC])
    return made


@pytest.fixture
def agreed(tmp_path: Path, programs: dict[Libc, Any]) -> Agreed:
    runs = count()

    def agree(
        libraries: dict[str, Any],
        *steps: Any,
        libc: Libc = Libc.GLIBC,
        program: int = 1,
        links: dict[str, str] | None = None,
        **fields: Any,
    ) -> list[Any]:
        made = programs[libc]
        if isinstance(made, str):
            pytest.skip(made)
        root = tmp_path.resolve() / str(next(runs))
        source, main = made[program]
        files: dict[str, Elf] = {f"{root}/bin/probe": main}
        codes: dict[str, Any] = {}
        for name, (elf, code) in libraries.items():
            files[f"{root}/{name}"] = elf
            codes[f"{root}/{name}"] = code
        folders = {f"{root}/{each}" for each in ("bin", "d0", "d1", "d2")}
        environment = Environment(
            libc=libc,
            files=files,
            directories=frozenset(folders | {path.rpartition("/")[0] for path in files}),
            cwd=f"{root}/d2",
            main=f"{root}/bin/probe",
            links={f"{root}/{path}": target for path, target in (links or {}).items()},
            loaded={"libc.so.6": "/lib/libc.so.6"} if libc is Libc.GLIBC else {},
            **fields,
        )
        written = write_files(environment, codes, source)
        case = Case(root=root, environment=written, steps=steps)
        assert differences(case) == []
        return predict(case)

    return agree


def library(name: str, *symbols: Any, needed: tuple[str, ...] = (), **fields: Any) -> Any:
    elf = LIBRARY._replace(soname=name, needed=needed, rpath="$ORIGIN")
    return elf, Code(symbols=symbols, **fields)


def defines(name: str, **fields: Any) -> Any:
    return Symbol(name=name, defined=True, **fields)


def refers(name: str, *relocations: int, **fields: Any) -> Any:
    return Symbol(name=name, defined=False, relocations=relocations or (GOT,), **fields)


def providers(step: Any) -> dict[tuple[str, str], str | None]:
    """User and symbol to provider, by the names of the files."""
    lookups: tuple[Bound, ...] = step.binding.lookups
    base = {each: each.rpartition("/")[2] for each in [*(x.provider or "" for x in lookups)]}
    return {
        (each.user.rpartition("/")[2], each.symbol): base[each.provider or ""] or None
        for each in lookups
    }


def test_only_a_global_group_is_in_scope_for_the_next_load(agreed: Agreed) -> None:
    libraries = {
        "d0/libwa.so": library("libwa.so", defines("s7")),
        "d0/libwb.so": library("libwb.so", refers("s7")),
    }
    *_, failed = agreed(libraries, Step(name="libwa.so"), Step(name="libwb.so"))
    assert failed.binding.failure.symbol == "s7"


@pytest.mark.parametrize("libc", [Libc.GLIBC, Libc.MUSL])
def test_a_promoted_object_is_in_scope_for_later_loads(agreed: Agreed, libc: Libc) -> None:
    libraries = {
        "d0/libwa.so": library("libwa.so", defines("s7")),
        "d0/libwb.so": library("libwb.so", refers("s7")),
    }
    steps = Step(name="libwa.so", mode="g"), Step(name="libwb.so")
    *_, last = agreed(libraries, *steps, libc=libc)
    assert providers(last)["libwb.so", "s7"] == "libwa.so"


def test_deep_binding_searches_the_group_before_the_global_scope(agreed: Agreed) -> None:
    libraries = {
        "d0/libwa.so": library("libwa.so", defines("s7")),
        "d0/libwb.so": library("libwb.so", defines("s7", relocations=(GOT,))),
    }
    first = Step(name="libwa.so", mode="g")
    assert providers(agreed(libraries, first, Step(name="libwb.so", mode="d"))[-1]) == {
        ("libwb.so", "s7"): "libwb.so"
    }


def test_without_deep_binding_the_global_symbol_interposes(agreed: Agreed) -> None:
    libraries = {
        "d0/libwa.so": library("libwa.so", defines("s7")),
        "d0/libwb.so": library("libwb.so", defines("s7", relocations=(GOT,))),
    }
    first = Step(name="libwa.so", mode="g")
    assert providers(agreed(libraries, first, Step(name="libwb.so"))[-1]) == {
        ("libwb.so", "s7"): "libwa.so"
    }


@pytest.mark.parametrize(("libc", "provider"), [(Libc.GLIBC, "libwa.so"), (Libc.MUSL, "libwb.so")])
def test_a_unique_symbol_is_one_for_all_groups_of_glibc(
    agreed: Agreed, libc: Libc, provider: str
) -> None:
    unique = defines("s7", bind=10, relocations=(GOT,))
    libraries = {name: library(name[3:], unique) for name in ("d0/libwa.so", "d0/libwb.so")}
    *_, last = agreed(libraries, Step(name="libwa.so"), Step(name="libwb.so"), libc=libc)
    assert providers(last)["libwb.so", "s7"] == provider


@pytest.mark.parametrize(("libc", "provider"), [(Libc.GLIBC, "libwb.so"), (Libc.MUSL, "libwa.so")])
@pytest.mark.parametrize("how", ["symbolic", "protected"])
def test_an_object_with_dt_symbolic_is_searched_first_by_glibc(
    agreed: Agreed, libc: Libc, provider: str, how: str
) -> None:
    own = defines("s7", relocations=(GOT,), protected=how == "protected")
    libraries = {
        "d0/libwa.so": library("libwa.so", defines("s7"), needed=("libwb.so",)),
        "d0/libwb.so": library("libwb.so", own, symbolic=how == "symbolic"),
    }
    *_, last = agreed(libraries, Step(name="libwa.so"), libc=libc)
    assert providers(last)["libwb.so", "s7"] == provider


@pytest.mark.parametrize("libc", [Libc.GLIBC, Libc.MUSL])
def test_a_program_s_copy_and_plt_entry_serve_its_libraries(agreed: Agreed, libc: Libc) -> None:
    own = defines("s1", relocations=(GOT,)), defines("s2", kind=2, relocations=(GOT, CALL))
    libraries = {"d1/libwa.so": library("libwa.so", *own)}
    (start,) = agreed(libraries, libc=libc, program=3)
    bound = {
        (each.user.rpartition("/")[2], each.symbol, (each.provider or "").rpartition("/")[2])
        for each in start.binding.lookups
    }
    assert bound >= {
        ("probe", "s1", "libwa.so"),
        ("probe", "s2", "libwa.so"),
        ("libwa.so", "s1", "probe"),
        ("libwa.so", "s2", "probe"),  # its address
        ("libwa.so", "s2", "libwa.so"),  # a call
    }


@pytest.mark.parametrize(
    ("kind", "relocation", "provider"),
    [(2, GOT, "probe"), (2, CALL, "libwa.so"), (1, GOT, "libwa.so"), (1, ADDRESS, "libwa.so")],
)
def test_only_a_plt_entry_takes_precedence_over_a_protected_symbol(
    agreed: Agreed, kind: int, relocation: int, provider: str
) -> None:
    name = "s2" if kind == 2 else "s1"
    own = [
        defines(each, kind=1 + number, protected=each == name, relocations=(relocation,))
        for number, each in enumerate(("s1", "s2"))
    ]
    (start,) = agreed({"d1/libwa.so": library("libwa.so", *own)}, program=3)
    assert providers(start)["libwa.so", name] == provider


def test_the_copy_of_a_unique_symbol_is_the_one_of_the_process(agreed: Agreed) -> None:
    own = defines("s1", bind=10), defines("s2", kind=2)
    libraries = {
        "d1/libwa.so": library("libwa.so", *own),
        "d2/libwb.so": library("libwb.so", defines("s1", bind=10, relocations=(GOT,))),
    }
    start, last = agreed(libraries, Step(name="./libwb.so", mode="d"), program=3)
    assert providers(start)["probe", "s1"] == "libwa.so"
    assert providers(last)["libwb.so", "s1"] == "probe"


def test_glibc_reports_the_undefined_symbol_of_the_deepest_library(agreed: Agreed) -> None:
    libraries = {
        "d0/libwa.so": library("libwa.so", refers("s6"), needed=("libwb.so", "libwc.so")),
        "d0/libwb.so": library("libwb.so", refers("s5"), needed=("libwc.so",)),
        "d0/libwc.so": library("libwc.so", refers("s4")),
    }
    *_, failed = agreed(libraries, Step(name="libwa.so"))
    assert failed.binding.failure.symbol == "s4"
    *_, failed = agreed(libraries, Step(name="libwa.so"), libc=Libc.MUSL)
    assert failed.binding.failure.symbol == "s6"


def test_musl_relocates_calls_first(agreed: Agreed) -> None:
    both = refers("s6", GOT), refers("s5", CALL)
    libraries = {"d0/libwa.so": library("libwa.so", *both)}
    for libc, blamed in ((Libc.GLIBC, "s6"), (Libc.MUSL, "s5")):
        *_, failed = agreed(libraries, Step(name="libwa.so"), libc=libc)
        assert failed.binding.failure.symbol == blamed


def test_musl_does_not_find_a_hidden_weak_definition(agreed: Agreed) -> None:
    hidden = defines("s6", bind=2, version="V1", hidden=True, relocations=(GOT,))
    libraries = {"d0/libwa.so": library("libwa.so", hidden, nodes=("V1",))}
    *_, failed = agreed(libraries, Step(name="libwa.so"), libc=Libc.MUSL)
    assert failed.binding.failure.symbol == "s6"
    *_, fine = agreed(libraries, Step(name="libwa.so"))
    assert providers(fine) == {("libwa.so", "s6"): "libwa.so"}


def test_a_missing_version_is_reported_before_symbols_are_bound(agreed: Agreed) -> None:
    wanted = refers("s6", version="V2", file="libwb.so")
    libraries = {
        "d0/libwa.so": library("libwa.so", wanted, needed=("libwb.so",)),
        "d0/libwb.so": library("libwb.so", defines("s6", version="V1"), nodes=("V1",)),
    }
    *_, failed = agreed(libraries, Step(name="libwa.so"))
    assert isinstance(failed.binding.failure, MissingVersion)
    assert (failed.binding.failure.version, failed.binding.bound) == ("V2", ())
    *_, fine = agreed(libraries, Step(name="libwa.so"), libc=Libc.MUSL)  # musl does not ask
    assert not fine.fails


@pytest.mark.parametrize(("bind", "fails"), [(1, True), (2, False)])
def test_a_weak_version_may_be_missing(agreed: Agreed, bind: int, *, fails: bool) -> None:
    wanted = refers("s6", version="V2", file="libwb.so", optional=True, bind=bind)
    libraries = {
        "d0/libwa.so": library("libwa.so", wanted, needed=("libwb.so",)),
        "d0/libwb.so": library("libwb.so", defines("s6", version="V1"), nodes=("V1",)),
    }
    *_, step = agreed(libraries, Step(name="libwa.so"))
    assert (step.fails, isinstance(step.binding.failure, Bound)) == (fails, fails)


def test_a_library_that_lost_its_versions_ends_the_process_before_glibc_2_41(
    agreed: Agreed,
) -> None:
    wanted = refers("s6", version="V1", file="libwb.so")
    libraries = {
        "d0/libwa.so": library("libwa.so", wanted, needed=("libwb.so",)),
        "d0/libwb.so": library("libwb.so", defines("s6")),
    }
    *_, failed = agreed(libraries, Step(name="libwa.so"))
    assert failed.aborts is newer(ACCEPTS_UNVERSIONED, GLIBC_HERE)


def test_a_unique_symbol_of_a_library_without_versions_is_used(agreed: Agreed) -> None:
    # Another library is found first; that it hands over to this one is not held against it.
    libraries = {
        "d0/libwa.so": library("libwa.so", defines("s1", bind=10, relocations=(GOT,))),
        "d0/libwc.so": library("libwc.so", defines("s1", bind=10, version="V1"), nodes=("V1",)),
        "d0/libwb.so": library(
            "libwb.so", refers("s1", version="V1", file="libwa.so"), needed=("libwa.so",)
        ),
    }
    steps = [Step(name="libwa.so"), Step(name="libwc.so", mode="g"), Step(name="libwb.so")]
    assert providers(agreed(libraries, *steps)[-1])["libwb.so", "s1"] == "libwa.so"


def test_a_load_that_fails_for_a_symbol_is_undone(agreed: Agreed) -> None:
    libraries = {
        "d0/libwa.so": library("libwa.so", refers("s7"), needed=("libwb.so",)),
        "d0/libwb.so": library("libwb.so"),
        "d1/libwb.so": library("libwb.so"),
    }
    root = Step(name="libwa.so")
    for libc in (Libc.GLIBC, Libc.MUSL):
        *_, failed, last = agreed(libraries, root, Step(name="../d1/libwb.so"), libc=libc)
        assert failed.binding.failure.symbol == "s7"
        assert last.load.objects[0].endswith("/d1/libwb.so")


@pytest.mark.parametrize(
    ("libc", "folders"), [(Libc.GLIBC, ["d2", "d1"]), (Libc.MUSL, ["d1", "d2"])]
)
def test_a_name_that_a_failed_load_gave_to_another_object_stays(
    agreed: Agreed, libc: Libc, folders: list[str]
) -> None:
    # The failed load finds d1/libwb.so once more, by a link with another name. musl lets it answer
    # to its own file name from then on, glibc to that of the link; the other name is found in d2.
    libraries = {
        "d1/libwb.so": library("libwb1.so"),
        "d0/libwa.so": library("libwa.so", refers("s7"), needed=("libwb.so", "libwd.so")),
        "d0/libwb.so": library("libwb0.so"),
        "d2/libwb.so": library("libwb2.so"),
        "d2/libwc.so": library("libwc.so", needed=("libwb.so", "libwd.so")),
    }
    steps = Step(name="../d1/libwb.so"), Step(name="libwa.so"), Step(name="./libwc.so")
    links = {"d0/libwd.so": "../d1/libwb.so", "d2/libwd.so": "libwb.so"}
    *_, failed, last = agreed(libraries, *steps, libc=libc, links=links)
    assert failed.binding.failure.symbol == "s7"
    wanted = {each.name: each.result.split("/")[-2:] for each in last.load.requests[1:]}
    assert wanted == {
        "libwb.so": [folders[0], "libwb.so"],
        "libwd.so": [folders[1], "libwb.so"],
    }


@pytest.mark.parametrize(("libc", "folder"), [(Libc.GLIBC, "d0"), (Libc.MUSL, "d1")])
def test_of_two_objects_with_one_name_the_first_loaded_is_used(
    agreed: Agreed, libc: Libc, folder: str
) -> None:
    libraries = {
        "d1/libwb.so": library("libwb1.so"),
        "d0/libwb.so": library("libwb0.so"),
        "d0/libwa.so": library("libwa.so", needed=("libwb.so", "libwd.so")),
        "d0/libwc.so": library("libwc.so", needed=("libwb.so",)),
    }
    steps = Step(name="../d1/libwb.so"), Step(name="libwa.so"), Step(name="libwc.so")
    links = {"d0/libwd.so": "../d1/libwb.so"}  # musl: d1/libwb.so answers to "libwb.so" then
    *_, last = agreed(libraries, *steps, libc=libc, links=links)
    assert last.load.objects[1].endswith(f"/{folder}/libwb.so")


def test_two_default_versions_do_not_resolve_an_unversioned_reference(agreed: Agreed) -> None:
    twice = [defines("s7", version=version) for version in ("V2", "V3")]
    libraries = {
        "d0/libwa.so": library("libwa.so", refers("s7"), needed=("libwb.so",)),
        "d0/libwb.so": library("libwb.so", *twice, nodes=("V1", "V2", "V3")),
    }
    *_, failed = agreed(libraries, Step(name="libwa.so"))
    assert failed.binding.failure.symbol == "s7"
    libraries["d0/libwb.so"] = library("libwb.so", twice[0], nodes=("V1", "V2"))
    assert not agreed(libraries, Step(name="libwa.so"))[-1].fails


def test_lookups_and_plt_entries_are_read_from_the_program(programs: dict[Libc, Any]) -> None:
    made = next(each for each in programs.values() if not isinstance(each, str))
    data = made[3][0].read_bytes()
    lookups = {each.name: each for each in read_lookups(data, "probe")}
    assert lookups["s1"].copy
    assert lookups["s2"].plt
    exports = read_exports(data, "probe")
    assert "s1" in exports.definitions
    assert "s2" in read_plt_entries(data, "probe")
    assert "s2" not in exports.definitions
