"""Demangling of C++ symbols."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wheelfix.elf.demangle import demangle


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
        ("_ZNSt6vectorIiE4sizeEv", "_ZNSt6vectorIiE4sizeEv"),
        ("_Zmagic", "_Zmagic"),
        ("plain", "plain"),
    ],
)
def test_plain_and_nested_names_are_demangled(symbol: str, name: str) -> None:
    assert demangle(symbol) == name


@pytest.mark.parametrize("symbol", ["_ZTI" + 5000 * "TI", "_Z" + 5000 * "N", "_ZTI" * 5000])
def test_names_that_nest_deeply_stay_mangled(symbol: str) -> None:
    assert demangle(symbol) == symbol


@given(st.text(alphabet="_ZNTIVSKrRO0123456789aEC\n\u0663", min_size=1))
def test_any_text_is_demangled_or_stays(symbol: str) -> None:
    assert demangle(symbol)
    assert demangle("_Z" + symbol)
