"""The libraries that platform tags promise."""

import pytest

from tests.support.values import elf
from wheelfix.elf.model import Libc
from wheelfix.host.policy_tables import read_policies
from wheelfix.loader.platform_libraries import MANYLINUX_LIBRARIES, symbols_of, to_be_linked


def test_the_promised_libraries_are_those_of_auditwheels_policies() -> None:
    lists = [p.whitelist for p in read_policies() if p.name.startswith("manylinux")]
    assert frozenset[str]().union(*lists) == MANYLINUX_LIBRARIES


@pytest.mark.parametrize("soname", ["libc.musl-armv7.so.1", "libc.musl-x86_64.so.1"])
@pytest.mark.parametrize(
    "name", ["__gmtime64_r", "__stat_time64", "__clock_gettime64", "__aeabi_memcpy", "gmtime_r"]
)
def test_musl_of_32_bit_has_other_names_for_64_bit_times(soname: str, name: str) -> None:
    """As lxml 6.1.3 for musllinux_1_2_armv7l uses them; names of all machines are together."""
    known = symbols_of(soname)
    assert known is not None
    assert name in known
    assert "no_such_time64" not in known


def test_a_function_of_a_later_glibc_is_in_no_library_that_was_forgotten() -> None:
    assert to_be_linked("shm_open") == "librt.so.1"
    assert to_be_linked("deflate") == "libz.so.1"
    assert to_be_linked("strlcpy") is None


def test_what_needs_the_linker_script_of_glibc_by_mistake_is_still_for_glibc() -> None:
    assert elf("libc.so").libc is Libc.GLIBC
    assert elf("libc.so", "libm.so")._replace(needed=("libc.so", "libm.so")).libc is Libc.MUSL
    assert elf("libc.so", interpreter="/lib/ld-musl-x86_64.so.1").libc is Libc.MUSL
