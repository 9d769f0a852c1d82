"""Demangling of C++ symbols."""

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.exports import read_exports
from tests.support.tools import needs
from wheelfix.elf.demangle import demangle, join_symbols, join_with_mangled
from wheelfix.elf.reader import read_elf


def test_of_many_symbols_two_are_named_and_the_others_counted() -> None:
    names = [f"_ZN3pkg{len(name)}{name}Ev" for name in ("one", "two", "three", "four")]
    assert join_symbols(names) == "`pkg::one`, `pkg::two` and 2 more"


def test_overloads_have_one_name_and_are_counted() -> None:
    names = ["_Z1ai", "_Z1ad", "_Z1bi", "_Z1bd"]
    assert join_symbols(names) == "`a`, `b` and 2 more"
    assert join_symbols(names[:3]) == "`a`, `b`, `_Z1ad`"
    assert join_with_mangled(names) == "`a` (`_Z1ai`), `b` (`_Z1bi`) and 2 more"
    assert join_with_mangled(names[:3]) == "`a` (`_Z1ai`), `b` (`_Z1bi`), `a` (`_Z1ad`)"


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_ZN3foo3barEv", "foo::bar"),
        ("_ZNK3foo6Reader4readEPci", "foo::Reader::read"),
        ("_ZN3foo6ReaderC1Ev", "foo::Reader::Reader"),
        ("_ZN3foo6ReaderD2Ev", "foo::Reader::~Reader"),
        ("_Z3runi", "run"),
        ("_ZTI6Reader", "typeinfo for Reader"),
        ("_ZTVN3foo6ReaderE", "vtable for foo::Reader"),
        ("_ZNSt6vectorIiE4sizeEv", "std::vector<int>::size"),
        ("_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back"),
        ("_ZNSs7reserveEm", "std::string::reserve"),
        ("_ZN1aIPFvicEE1bE", "a<void (*)(int, char)>::b"),
        ("_ZN1aIA3_iE1bE", "a<int [3]>::b"),
        ("_ZN1aILb1ELj2ELln3EE1bE", "a<true, 2u, -3l>::b"),
        ("_ZN1aIJidEE1bE", "a<int, double>::b"),
        ("_ZlsR1aS0_", "operator<<"),
        ("_ZN1acvbEv", "a::operator bool"),
        ("_ZSt4cout", "std::cout"),
        ("_ZZ3foovE1x", "_ZZ3foovE1x"),
        ("_Zmagic", "_Zmagic"),
        ("plain", "plain"),
    ],
)
def test_plain_and_nested_names_are_demangled(symbol: str, name: str) -> None:
    assert demangle(symbol) == name


@pytest.mark.parametrize("symbol", ["_ZTI" + 5000 * "TI", "_Z" + 5000 * "N", "_ZTI" * 5000])
def test_names_that_nest_deeply_stay_mangled(symbol: str) -> None:
    assert demangle(symbol) == symbol


@needs("c++filt")
def test_the_symbols_of_libstdcxx_are_spelled_as_by_binutils() -> None:
    """With `-p`, c++filt leaves out the parameters, too. It spells what `So` and the like mean."""
    command = ["gcc", "-print-file-name=libstdc++.so.6"]
    library = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    elf = read_elf(Path(library).read_bytes(), "libstdc++.so.6")
    exported = read_exports(Path(library).read_bytes(), elf.soname or "").definitions
    symbols = [name for name in exported if name.startswith("_Z")]
    filtered = subprocess.run(
        ["c++filt", "-p"], input="\n".join(symbols), capture_output=True, text=True, check=True
    )
    spelled = [
        (demangle(symbol).replace(" ", ""), name.replace(" ", ""))
        for symbol, name in zip(symbols, filtered.stdout.splitlines(), strict=True)
        if demangle(symbol) != symbol and not re.search("S[bsiod]", symbol)
    ]
    assert len(spelled) > 0.6 * len(symbols) > 1000
    assert [pair for pair in spelled if pair[0] != pair[1]] == []


def test_a_name_that_stands_for_millions_stays_mangled() -> None:
    """Each part has the one before twice."""
    places = "0123456789ABCDEFGHIJKLMNOP"
    arguments = "1AIiiE" + "".join(f"S_IS{place}_S{place}_E" for place in places)
    assert demangle(f"_Z1f{arguments}") == "f"
    for symbol in (f"_Z1fI{arguments}EvT_", f"_ZN1fI{arguments}E1gEv"):
        assert demangle(symbol) == symbol


@pytest.mark.parametrize("symbol", ["_ZNS" + "Z" * 5000 + "_E", "_Z1fIiEvT" + "9" * 5000 + "_"])
def test_a_number_of_thousands_of_digits_refers_to_nothing(symbol: str) -> None:
    assert demangle(symbol) in {symbol, "f<int>", "f"}


@given(st.text(alphabet="_ZNTIVSKrRO0123456789aEC\n\u0663", min_size=1))
@example("NE")
def test_any_text_is_demangled_or_stays(symbol: str) -> None:
    assert demangle(symbol)
    assert demangle("_Z" + symbol)
