"""Platform tags, parsed and compared."""

import pytest

from wheelfix.elf.model import Libc
from wheelfix.wheel.platform_tags import (
    Family,
    PlatformTag,
    may_coexist,
    oldest_promised,
    parse_platform_tag,
    promised_libcs,
    satisfies,
)

X86 = "x86_64"


@pytest.mark.parametrize(
    ("tag", "parsed"),
    [
        ("manylinux_2_17_x86_64", PlatformTag(Family.MANYLINUX, (2, 17), X86)),
        ("manylinux_2_34_x86_64_v2", PlatformTag(Family.MANYLINUX, (2, 34), "x86_64_v2")),
        ("manylinux1_i686", PlatformTag(Family.MANYLINUX, (2, 5), "i686")),
        ("manylinux2010_x86_64", PlatformTag(Family.MANYLINUX, (2, 12), X86)),
        ("manylinux2014_aarch64", PlatformTag(Family.MANYLINUX, (2, 17), "aarch64")),
        ("musllinux_1_2_armv7l", PlatformTag(Family.MUSLLINUX, (1, 2), "armv7l")),
        ("linux_x86_64", PlatformTag(Family.LINUX, (), X86)),
        ("android_24_arm64_v8a", PlatformTag(Family.ANDROID, (24,), "arm64_v8a")),
        ("android_arm64_v8a", PlatformTag(Family.OTHER)),
    ],
)
def test_a_tag_is_parsed(tag: str, parsed: PlatformTag) -> None:
    assert parse_platform_tag(tag) == parsed


@pytest.mark.parametrize(
    "tag", ["any", "manylinux3_x86_64", "manylinux_2_x86_64", "win_amd64", "", "linux", "linuxen_x"]
)
def test_other_tags_promise_nothing(tag: str) -> None:
    assert parse_platform_tag(tag) == PlatformTag(Family.OTHER)
    assert promised_libcs([tag]) == frozenset()


@pytest.mark.parametrize(
    ("tag", "spelled"),
    [
        ("manylinux2014_x86_64", "manylinux_2_17_x86_64"),
        ("musllinux_1_1_i686", "musllinux_1_1_i686"),
        ("linux_armv7l", "linux_armv7l"),
    ],
)
def test_a_tag_is_spelled_as_in_pep_600(tag: str, spelled: str) -> None:
    assert str(parse_platform_tag(tag)) == spelled


def test_the_oldest_version_counts_for_each_c_library() -> None:
    tags = ["manylinux_2_28_x86_64", "manylinux2014_x86_64", "musllinux_1_2_x86_64", "linux_x86_64"]
    assert promised_libcs(tags) == {Libc.GLIBC, Libc.MUSL}
    assert oldest_promised(Libc.GLIBC, tags) == (2, 17)
    assert oldest_promised(Libc.MUSL, tags) == (1, 2)
    assert oldest_promised(Libc.MUSL, tags[:2]) is None


def test_32_bit_architectures_are_known() -> None:
    narrow = ["linux_i686", "manylinux2014_armv7l", "linux_armv8l"]
    wide = ["linux_x86_64", "manylinux2014_aarch64", "any"]
    assert all(parse_platform_tag(tag).is_32_bit for tag in narrow)
    assert not any(parse_platform_tag(tag).is_32_bit for tag in wide)


@pytest.mark.parametrize(
    ("overall", "platforms", "left"),
    [
        ("manylinux_2_17_x86_64", ["manylinux_2_17_x86_64", "manylinux2014_x86_64"], []),
        ("manylinux_2_17_x86_64", ["manylinux1_x86_64"], ["manylinux1_x86_64"]),
        ("manylinux_2_17_x86_64", ["manylinux_2_28_x86_64", "linux_x86_64"], []),
        ("manylinux_2_17_x86_64", ["manylinux_2_28_aarch64"], ["manylinux_2_28_aarch64"]),
        ("linux_x86_64", ["manylinux_2_28_x86_64"], ["manylinux_2_28_x86_64"]),
        ("linux_x86_64", ["linux_x86_64"], []),
        ("manylinux_2_17_x86_64", ["linux_aarch64"], ["linux_aarch64"]),
        ("musllinux_1_2_x86_64", ["musllinux_1_1_x86_64"], []),
        ("manylinux_2_17_x86_64", ["musllinux_1_2_x86_64"], ["musllinux_1_2_x86_64"]),
        (
            "linux_x86_64",
            ["any", "win_amd64", "manylinux_2_x86_64"],
            ["any", "win_amd64", "manylinux_2_x86_64"],
        ),
    ],
)
def test_which_tags_objects_may_carry(overall: str, platforms: list[str], left: list[str]) -> None:
    assert [tag for tag in platforms if not satisfies(overall, tag)] == left


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("any", "manylinux_2_17_x86_64"),
        ("any", "win_amd64"),
        ("linux_x86_64", "manylinux_2_17_x86_64"),
        ("linux_x86_64", "musllinux_1_2_x86_64"),
        ("musllinux_1_2_x86_64", "musllinux_1_1_x86_64"),
        ("win_amd64", "win_amd64"),
    ],
)
def test_a_machine_may_accept_both_tags_of_one_platform(one: str, other: str) -> None:
    assert may_coexist(one, other)
    assert may_coexist(other, one)


@pytest.mark.parametrize("other", ["musllinux_1_2_x86_64", "manylinux_2_17_i686", "win_amd64"])
def test_no_machine_accepts_tags_of_different_platforms(other: str) -> None:
    assert not may_coexist("manylinux_2_17_x86_64", other)
    assert not may_coexist(other, "manylinux_2_17_x86_64")
    assert not may_coexist(other, "macosx_11_0_arm64")
