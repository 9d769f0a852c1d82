"""The contract of symbols: what objects may export and import, by the project's settings."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import wheelfix
from tests.oracles.fuzzing import forge
from tests.support.build import extension, make_wheel, shared_object
from tests.support.effort import cpu_time, spends_at_most
from wheelfix.cli.app import run
from wheelfix.cli.config.values import settings_from
from wheelfix.rules.findings import Finding
from wheelfix.settings import Settings

CODES = {"WF305", "WF306", "WF307"}
SUFFIX = ".cpython-311-x86_64-linux-gnu.so"
FOO = """
int foo_open(void) { return 1; }
int foo_close(void) { return 2; }
int ZSTD_compress(void) { return 3; }
static int foo_hidden(void) { return 4; }
int (*used)(void) = foo_hidden;
"""
FOREIGN = """
int aoti_torch_new(void); int _ZN2at5emptyEv(void); int other(void);
int PyInit_m(void) { return aoti_torch_new() + _ZN2at5emptyEv() + other(); }
int left_visible(void) { return 5; }
"""


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel with a library and a module, which calls two libraries outside of it."""
    torch = shared_object(
        tmp_path / "torch" / "libtorch_cpu.so",
        "int aoti_torch_new(void) { return 1; } int _ZN2at5emptyEv(void) { return 1; }",
        soname="libtorch_cpu.so",
    )
    other = shared_object(tmp_path / "other" / "libother.so", "int other(void) { return 1; }")
    foo = shared_object(tmp_path / "libfoo.so.1", FOO, soname="libfoo-1a2b3c4d.so.1")
    module = shared_object(tmp_path / f"m{SUFFIX}", FOREIGN, needed=[torch, other])
    files = {f"demo/m{SUFFIX}": module, "demo.libs/libfoo-1a2b3c4d.so.1": foo}
    return make_wheel(tmp_path, tag="cp311-cp311-linux_x86_64", files=files)


def judge(wheel: Path, *contracts: Mapping[str, Any], **more: Any) -> list[Finding]:
    settings = settings_from({"symbols": list(contracts), **more}, Settings(), "test")
    return [found for found in wheelfix.check(wheel, settings).findings if found.code in CODES]


def said(wheel: Path, *contracts: Mapping[str, Any], **more: Any) -> list[tuple[str, str | None]]:
    found = judge(wheel, *contracts, **more)
    return [(each.code, each.entry) for each in found if each.code != "WF307"]


NAMES_OF_FOO = ("libfoo.so*", "libfoo.so.1", "demo.libs/*", "grafted", "*/libfoo-*")


@pytest.mark.parametrize("name", NAMES_OF_FOO)
def test_exports_are_held_to_the_contract(wheel: Path, name: str) -> None:
    [found] = judge(wheel, {"objects": [name], "exports": ["foo_*", "used"]}, ignore=["WF307"])
    assert (found.code, found.member) == ("WF305", "demo.libs/libfoo-1a2b3c4d.so.1")
    assert found.message == "exports 1 symbol that `exports` does not list: `ZSTD_compress`"
    assert said(wheel, {"objects": [name], "exports": ["foo_*", "used", "ZSTD_*"]}) == []
    assert said(wheel, {"objects": [name], "never-exports": ["*ZSTD*"]}) == [
        ("WF305", "ZSTD_compress")
    ]
    assert said(wheel, {"objects": [name], "must-export": ["foo_*", "foo_hidden"]}) == [
        ("WF305", "foo_hidden")
    ]


def test_the_init_function_may_always_be_exported(wheel: Path) -> None:
    modules = {"objects": ["extension-modules"], "exports": []}
    assert said(wheel, modules) == [("WF305", "left_visible")]
    assert said(wheel, {**modules, "exports": ["left_*"]}) == []
    assert said(wheel, {**modules, "exports": ["left_*", "PyInit_*"]}) == []
    assert said(wheel, {**modules, "exports": ["*"], "must-export": ["PyInit_m"]}) == []
    assert said(wheel, {**modules, "exports": ["*"], "must-export": ["PyInit_n"]}) == [
        ("WF305", "PyInit_n")
    ]


def test_a_pattern_matches_the_name_as_it_is_or_demangled(wheel: Path) -> None:
    for pattern in ("at::*", "_ZN2at*", "*empty*"):
        imports = {"objects": ["demo/m.*"], "never-imports": [pattern]}
        assert said(wheel, imports) == [("WF305", "_ZN2at5emptyEv")]


@pytest.mark.parametrize("source", ["torch", "libtorch*.so"])
@pytest.mark.parametrize("folders", [["other"], ["torch", "other"]], ids=len)
def test_imports_of_a_distribution(wheel: Path, source: str, folders: list[str]) -> None:
    contract = {"objects": ["demo/*"], "imports-of": source, "imports": ["aoti_torch_*"]}
    places = {"library-path": [str(wheel.parent / folder) for folder in folders]}
    assert said(wheel, contract, **places) == [("WF305", "_ZN2at5emptyEv")]
    assert said(wheel, {**contract, "imports": ["aoti_torch_*", "at::*"]}, **places) == []


def test_what_several_missing_libraries_may_define_is_not_claimed(wheel: Path) -> None:
    contract = {"objects": ["demo/*"], "imports-of": "torch", "imports": ["aoti_torch_*"]}
    [found] = judge(wheel, contract, ignore=["WF307"])
    assert (found.severity.label, found.code) == ("warning", "WF305")
    assert "libother.so" in " ".join((found.message, *found.notes))


@pytest.mark.large
def test_a_pattern_of_a_contract_has_its_price(wheel: Path) -> None:
    names = [f"f{number}" for number in range(15_000)]
    cheap = {"objects": ["demo/*"], "exports": [*names, *(f"{name}_*" for name in names)]}
    found = said(wheel, cheap)
    assert len([code for code, _ in found if code == "WF306"]) == 30_000
    many = {"objects": ["*"], "exports": [f"{name}?x*" for name in names]}
    settings = settings_from({"symbols": [many]}, Settings(), "test")
    error = wheelfix.check(wheel, settings).error
    assert error is not None
    assert "the symbols of [[tool.wheelfix.symbols]]" in error.message
    assert error.hint == "write names, or their beginnings and `*`, which are matched at once"


def test_entries_that_match_nothing(wheel: Path) -> None:
    library = {"objects": ["libfoo.so*", "libgone.so"], "exports": ["foo_*", "fooo_*", "[ZUu]*"]}
    assert said(wheel, library) == [("WF306", "libgone.so"), ("WF306", "fooo_*")]
    assert said(wheel, {"objects": ["libgone.so"], "exports": []}) == [("WF305", "libgone.so")]
    module = {"objects": ["demo/*"], "imports-of": "nvidia-nccl-cu12", "never-imports": ["nccl*"]}
    assert said(wheel, module) == [("WF306", "nvidia-nccl-cu12")]


def test_a_contract_of_what_a_repair_grafts_holds_afterwards(wheel: Path, tmp_path: Path) -> None:
    contract = {"objects": ["libother.so"], "exports": ["other"]}
    [external] = judge(wheel, contract, ignore=["WF307"])
    assert external.notes == ("needed, but outside the wheel: `libother.so`",)
    assert "check the wheel that `wheelfix repair" in str(external.hint)
    folders = [f"--library-path={tmp_path / name}" for name in ("torch", "other")]
    assert run(["repair", "-w", str(tmp_path / "out"), *folders, str(wheel)]) == 0
    [written] = (tmp_path / "out").glob("*.whl")
    assert not judge(written, contract, ignore=["WF307"])
    [gone] = judge(written, {**contract, "objects": ["libgone.so"]}, ignore=["WF307"])
    assert (gone.notes, "correct `objects`" in str(gone.hint)) == ((), True)


def test_modules_that_export_more_are_counted_without_a_contract(wheel: Path) -> None:
    [found] = judge(wheel)
    assert found.code == "WF307"
    assert found.message == "1 symbol exported by 1 extension module besides the init functions"
    assert judge(wheel, {"objects": ["extension-modules"], "exports": ["left_*"]}) == []


def test_show_writes_a_contract_that_the_wheel_fulfills(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    functions = "".join(f"int many_{number}(void) {{ return 1; }}" for number in range(40))
    many = shared_object(tmp_path / "libmany.so.1", functions, soname="libmany.so.1")
    clean = extension(tmp_path / "clean.so", "clean")
    files = {"demo/lib/libmany.so.1": many, f"demo/clean{SUFFIX}": clean}
    files[f"demo/m{SUFFIX}"] = wheel.parent / f"m{SUFFIX}"
    more = make_wheel(tmp_path / "more", tag="cp311-cp311-linux_x86_64", files=files)
    two = {
        f"demo/{n}/libtwo.so": shared_object(tmp_path / n / "l.so", f"int of_{n};") for n in "ab"
    }
    short = {"demo/lib.so": shared_object(tmp_path / "s.so", "int of_s;"), **two}
    start = make_wheel(tmp_path / "start", tag="cp311-cp311-linux_x86_64", files=short)
    twice = make_wheel(tmp_path / "two", tag="cp311-cp311-linux_x86_64", files=two)
    tables: list[dict[str, Any]] = []
    for each in (wheel, start, twice, more):
        assert run(["show", "--symbols", str(each)]) == 0
        tables = tomllib.loads(capsys.readouterr().out)["tool"]["wheelfix"]["symbols"]
        assert judge(each, *tables) == []
        if each is twice:
            assert tables == [{"objects": ["libtwo*"], "exports": ["of_a", "of_b"]}]
    assert {"objects": ["libmany*"], "exports": ["many_*"]} in tables
    assert {"objects": ["demo/clean.*"], "exports": []} in tables


def test_what_show_writes_for_pyproject_has_another_header_in_a_file_of_its_own(
    wheel: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["show", "--symbols", str(wheel)]) == 0
    written = capsys.readouterr().out
    Path("wheelfix.toml").write_text(written)
    assert run(["check", str(wheel)]) == 2
    hint = "here `[[tool.wheelfix.symbols]]` is `[[symbols]]`"
    assert hint in " ".join(capsys.readouterr().err.split())
    Path("wheelfix.toml").write_text(written.replace("[[tool.wheelfix.symbols]]", "[[symbols]]"))
    assert run(["check", "--select", "WF305,WF306,WF307", str(wheel)]) == 0


@pytest.mark.large
@pytest.mark.parametrize("key", ["exports", "never-exports", "must-export"])
@pytest.mark.parametrize(("count", "parts"), [(300, 150), (5_000, 150), (20, 50_000), (5_000, 8)])
def test_a_contract_costs_what_the_characters_cost(
    count: int, parts: int, key: str, tmp_path: Path
) -> None:
    """Names of 300 to 100,000 characters: minutes, where only their number was counted."""
    strings = forge.Strings()
    names = [strings.add(f"_ZN{'1a' * parts}5x{n:04}Ev") for n in range(count)]
    tables = {"symbols": forge.symbols(names, section=1), "hash": forge.sysv_hash(len(names) + 1)}
    entries = [(forge.SYMTAB, "symbols"), (forge.HASH, "hash")]
    path = tmp_path / forge.NAME
    path.write_bytes(forge.wheel({"p/a.so": forge.with_strings(entries, tables, strings)}))
    contract = {"symbols": [{"objects": ["*"], key: ["a::*b*c"]}]}
    settings = settings_from(contract, Settings(), "test")

    assert spends_at_most(5, lambda: cpu_time(lambda: wheelfix.check(path, settings)))
    is_small = count * parts <= 45_000
    assert (wheelfix.check(path, settings).error is None) is is_small
