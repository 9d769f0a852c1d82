"""Definitions looked up by name equal those read all at once."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.bindings import bindings
from tests.support.build import shared_object
from tests.support.exports import read_exports
from tests.support.loads import load
from wheelfix.elf.dynamic_tables import Dynamic
from wheelfix.elf.exports import (
    LazyDefinitions,
    SymbolTables,
    among,
    announce,
    idle,
    lazy_exports,
    preemptible,
    read_symbol_tables,
    with_changes,
)
from wheelfix.elf.image import Image
from wheelfix.elf.model import Exports, Libc
from wheelfix.elf.reader import read_elf
from wheelfix.loader.as_needed import Library
from wheelfix.loader.load_values import Environment
from wheelfix.loader.symbol_lookup import Reference, SymbolIndex, undefined_names

MANY = "\n".join(f"int function_{number}(void) {{ return {number}; }}" for number in range(600))


def both(data: bytes) -> tuple[Exports, Exports]:
    """Return the exports read at once, and those looked up by name."""
    asked = lazy_exports(partial(read_symbol_tables, data, "x.so"))
    assert isinstance(asked.definitions, LazyDefinitions)
    return read_exports(data, "x.so"), asked


def libraries() -> Iterator[Path]:
    """Yield libraries of this machine, with and without symbol versions."""
    for folder in ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64"):
        for name in ("libc.so.6", "libm.so.6", "libstdc++.so.6", "libcrypto.so.3"):
            if os.path.isfile(f"{folder}/{name}"):  # noqa: PTH113 - as it stands
                yield Path(folder, name)


@pytest.mark.parametrize("path", list(libraries())[:5], ids=lambda path: str(path.name))
def test_lookup_by_name_finds_what_reading_all_finds(path: Path) -> None:
    data = path.read_bytes()
    whole, asked = both(data)
    some = {*sorted(whole.definitions)[::10], "no_such_name", ""}
    assert among(asked.definitions, some) == some & whole.definitions.keys()
    assert {name: asked.definitions[name] for name in some & whole.definitions.keys()} == {
        name: whole.definitions[name] for name in some & whole.definitions.keys()
    }
    announce(asked, frozenset(whole.definitions))
    assert {name: asked.definitions[name] for name in whole.definitions} == whole.definitions
    assert (asked.definitions, asked.copies) == (whole.definitions, whole.copies)


def test_a_name_that_is_the_end_of_another_is_found(tmp_path: Path) -> None:
    source = MANY + "\nint xfree(void) { return 1; }\nint free(void) { return 2; }"
    data = shared_object(tmp_path / "x.so", source, libc=False, flags=["-w"]).read_bytes()
    whole, asked = both(data)
    dynamic = Dynamic.parse(Image.parse(memoryview(data), "x.so"))
    assert dynamic is not None
    assert b"\0free\0" not in dynamic.strings  # the linker lets both have one string
    assert among(asked.definitions, {"free", "ree", "xfree"}) == {"free", "xfree"}
    assert asked.definitions["free"] == whole.definitions["free"]


def test_own_symbols_that_others_may_define_come_in_the_order_of_the_table(tmp_path: Path) -> None:
    calls = " + ".join(f"function_{number}()" for number in range(600))
    source = f"{MANY}\nint all_of_them(void) {{ return {calls}; }}"
    whole, asked = both(shared_object(tmp_path / "x.so", source).read_bytes())
    called = [name for name in whole.definitions if name.startswith("function_")]
    assert [name for name in preemptible(asked) if name in called] == called


@pytest.mark.parametrize("hashes", ["gnu", "sysv"])
def test_an_undefined_symbol_without_a_relocation_is_idle(tmp_path: Path, hashes: str) -> None:
    source = (
        '__asm__(".globl for_the_linker"); extern int gone(void), datum;'
        "int uses(void) { return gone() + datum; }"
    )
    flags = [f"-Wl,--hash-style={hashes}"]
    path = shared_object(tmp_path / "x.so", source, libc=False, flags=flags)
    assert read_symbol_tables(path.read_bytes(), "x.so").idle == ("for_the_linker",)
    assert idle(lazy_exports(partial(read_symbol_tables, path.read_bytes(), "x.so"))) == {
        "for_the_linker"
    }


def test_all_versions_of_a_name_come_in_their_order(tmp_path: Path) -> None:
    source = MANY + (
        '\n__asm__(".symver f_1, f@V_1"); __asm__(".symver f_2, f@@V_2");'
        "int f_1(void) { return 1; } int f_2(void) { return 2; }"
    )
    script = tmp_path / "map"
    script.write_text("V_1 { global: *; }; V_2 { global: f; } V_1;")
    flags = [f"-Wl,--version-script={script}"]
    data = shared_object(tmp_path / "x.so", source, libc=False, flags=flags).read_bytes()
    whole, asked = both(data)
    assert {definition.version for definition in asked.definitions["f"]} == {"V_1", "V_2"}
    assert asked.definitions["f"] == whole.definitions["f"]


def test_names_are_found_without_looking_them_up_before(tmp_path: Path) -> None:
    data = shared_object(tmp_path / "x.so", MANY, libc=False).read_bytes()
    whole, asked = both(data)
    for number in range(100):
        assert asked.definitions.get(f"no_function_{number}") is None
        assert f"function_{number}" in asked.definitions
    assert dict(asked.definitions) == whole.definitions
    with pytest.raises(KeyError):
        _ = asked.definitions["no_function"]


def test_changes_are_the_same_whether_read_at_once_or_by_name(tmp_path: Path) -> None:
    data = shared_object(tmp_path / "x.so", MANY, libc=False).read_bytes()
    whole, _ = both(data)
    other = whole.definitions["function_3"]
    changes = {"function_1": (), "no_such_name": (), "function_2": other * 2, "new": other}
    expected = {**whole.definitions, "function_2": other * 2, "new": other}
    del expected["function_1"]
    names = frozenset(("function_1", "function_2", "function_4", "new", "no_such_name"))
    for definitions in (with_changes(one, changes).definitions for one in both(data)):
        assert among(definitions, names) == {"function_2", "function_4", "new"}
        assert {name: definitions.get(name) for name in names} == {
            name: expected.get(name) for name in names
        }
        assert list(definitions.items()) == list(expected.items())


def test_tables_are_read_once_for_all_names(tmp_path: Path) -> None:
    path = shared_object(tmp_path / "libmany.so", MANY, libc=False)
    calls = "".join(f"int function_{number}(void);" for number in range(0, 600, 7))
    used = " + ".join(f"function_{number}()" for number in range(0, 600, 7))
    user = shared_object(
        tmp_path / "user.so", f"{calls} int x(void) {{ return {used}; }}", needed=[path], libc=False
    )
    opened: list[str] = []

    def read(path: Path) -> SymbolTables:
        opened.append(path.name)
        return read_symbol_tables(path.read_bytes(), path.name)

    known = {
        str(file): Library(
            path=str(file),
            elf=read_elf(file.read_bytes(), file.name),
            read=partial(lazy_exports, partial(read, file)),
        )
        for file in (user, path)
    }
    environment = Environment(
        libc=Libc.GLIBC,
        files={file: library.elf for file, library in known.items()},
        default_directories=(str(tmp_path),),
    )
    found = bindings(load(str(user), environment), SymbolIndex(known, undefined_names(known)))
    assert found[Reference(str(user), "function_7", None, weak=False)] == str(path)
    assert len(found) == 86
    assert set(found.values()) == {str(path)}
    assert sorted(opened) == ["libmany.so", "libmany.so", "user.so", "user.so"]
