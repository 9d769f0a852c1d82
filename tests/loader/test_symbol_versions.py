"""Symbol versions: what the loader refuses, and which release has one."""

import pytest

from tests.support.values import elf
from wheelfix.elf.model import Libc, Undefined, VersionNeed
from wheelfix.loader.symbol_versions import (
    refused_versions,
    release_of,
    required_versions,
    versions_too_new,
)

NEED = VersionNeed("libv.so.1", ("V_1", "V_2", "V_3"), weak=("V_3",))


def test_a_library_must_define_the_versions_that_are_not_weak() -> None:
    library = elf(verdef=("V_1",))
    assert refused_versions(NEED, library, Libc.GLIBC) == ("V_2",)
    assert not refused_versions(NEED, library, Libc.MUSL)
    assert not refused_versions(NEED, elf(), Libc.GLIBC)
    assert not refused_versions(NEED, None, Libc.GLIBC)


@pytest.mark.parametrize("weak", [True, False])
def test_a_weak_version_is_required_by_a_strong_reference(*, weak: bool) -> None:
    reference = Undefined("f", "GLIBC_2.34", "libc.so.6", type=2, weak=weak)
    need = VersionNeed("libc.so.6", ("GLIBC_2.2.5", "GLIBC_2.34"), weak=("GLIBC_2.34",))
    user = elf(verneed=(need,), undefined=(reference,))
    versions = [version for _, version in required_versions(user)]
    assert versions == ["GLIBC_2.2.5", *([] if weak else ["GLIBC_2.34"])]
    assert bool([*versions_too_new(user, {"GLIBC": "2.31"})]) != weak


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("GLIBC_2.3.4", (2, 3, 4)),
        ("GLIBC_ABI_DT_RELR", (2, 36)),
        ("CXXABI_FLOAT128", (1, 3, 9)),
        ("CXXABI_1.3.15", (1, 3, 15)),
        ("GLIBCXX_IEEE128_3.4.30", (3, 4, 30)),
        ("GLIBC_ABI_UNHEARD_OF", ()),
    ],
)
def test_a_version_has_the_release_of_its_library(version: str, release: tuple[int, ...]) -> None:
    assert release_of(version) == release
