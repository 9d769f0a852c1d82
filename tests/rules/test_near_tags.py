"""The symbols that alone forbid a better tag are named, with the objects that use them."""

from configparser import ConfigParser
from importlib.resources import files

import pytest

from tests.support.values import elf, findings, wheel
from wheelfix.analysis.policies import Policy
from wheelfix.analysis.policy_reasons import NearMiss, images, near_miss, newest_symbol
from wheelfix.analysis.policy_verdict import Verdict
from wheelfix.elf.model import Elf, Undefined, VersionNeed
from wheelfix.rules.auditwheel_verdict import tag_missed_by_little
from wheelfix.rules.context import Context
from wheelfix.rules.run_rules import run_rules
from wheelfix.settings import Settings

LIBC = "libc.so.6"
VERSIONS = {
    "manylinux_2_17": ["2.2.5", "2.17"],
    "manylinux_2_28": ["2.2.5", "2.17", "2.28"],
    "manylinux_2_34": ["2.2.5", "2.17", "2.28", "2.34"],
}
POLICIES = [
    Policy(name=name, aliases=(), symbol_versions={"x86_64": {"GLIBC": known}}, blacklist={})
    for name, known in VERSIONS.items()
]


def using(*symbols: tuple[str, str]) -> Elf:
    """An object that takes these symbols, each with its version, from libc."""
    versions = tuple(dict.fromkeys(version for _, version in symbols))
    return elf(
        verneed=(VersionNeed(file=LIBC, versions=versions),),
        undefined=tuple(
            Undefined(name=name, version=version, file=LIBC, type=2, weak=False)
            for name, version in symbols
        ),
    )


def test_the_symbols_that_forbid_the_next_tag_are_named_with_their_users() -> None:
    subject = wheel(
        {
            "demo/a.so": using(("_ZN3foo3barE", "GLIBC_2.34"), ("read", "GLIBC_2.2.5")),
            "demo/b.so": using(("fcntl64", "GLIBC_2.28")),
        }
    )
    near = near_miss(subject, "manylinux_2_34_x86_64", POLICIES)
    assert near == NearMiss(
        tag="manylinux_2_28_x86_64",
        image="manylinux_2_28_x86_64",
        symbols=(f"`foo::bar@GLIBC_2.34` of `{LIBC}` in `demo/a.so`",),
    )


def test_the_next_tag_is_one_with_an_image() -> None:
    subject = wheel({"demo/a.so": using(("fcntl64", "GLIBC_2.28"))})
    near = near_miss(subject, "manylinux_2_28_x86_64", POLICIES)
    assert near is not None
    assert (near.tag, near.image) == ("manylinux_2_17_x86_64", "manylinux2014_x86_64")
    older = Policy(name="manylinux_2_12", aliases=(), symbol_versions={}, blacklist={})
    subject = wheel({"demo/a.so": using(("read", "GLIBC_2.17"))})
    assert near_miss(subject, "manylinux_2_17_x86_64", [older, *POLICIES]) is None


@pytest.mark.parametrize(
    ("versions", "newest"),
    [
        (("CXXABI_1.3.11", "CXXABI_FLOAT128"), "`f@CXXABI_1.3.11` of `libc.so.6`"),
        (("GLIBCXX_3.4.29", "GLIBCXX_LDBL_3.4.21"), "`f@GLIBCXX_3.4.29` of `libc.so.6`"),
        (("GLIBC_2.34", "GLIBCXX_3.4.29"), "`f@GLIBC_2.34` of `libc.so.6`"),
        (("GLIBC_2.34", "GLIBC_ABI_DT_RELR"), "`GLIBC_ABI_DT_RELR` of `libc.so.6`"),
    ],
)
def test_the_newest_version_is_that_of_its_library(versions: list[str], newest: str) -> None:
    known = {prefix: [""] for prefix in ("GLIBC", "CXXABI", "GLIBCXX")}
    older, newer = (
        Policy(name=name, aliases=(), symbol_versions={"x86_64": known}, blacklist={})
        for name in ("manylinux_2_17", "manylinux_2_28")
    )
    uses = [("f", version) for version in versions if "RELR" not in version]
    user = using(*uses)._replace(verneed=(VersionNeed(LIBC, tuple(versions)),))
    said = newest_symbol(wheel({"demo/a.so": user}), "manylinux_2_28_x86_64", [older, newer])
    assert said == f"{newest} in `demo/a.so`"


@pytest.mark.parametrize("arch", ["x86_64", "i686", "aarch64", "ppc64le", "armv7l", "riscv64"])
def test_the_images_are_those_that_cibuildwheel_pins(arch: str) -> None:
    resources = files(pytest.importorskip("cibuildwheel")).joinpath("resources")
    pins = ConfigParser()
    pins.read_string(resources.joinpath("pinned_docker_images.cfg").read_text(encoding="utf-8"))
    ours = {name.replace("manylinux_2_17", "manylinux2014") for name in images(arch)}
    assert ours == set(pins[arch])


def test_a_tag_that_is_missed_by_much_is_not_spelled_out() -> None:
    many = using(*((f"new{number}", "GLIBC_2.34") for number in range(9)))
    assert near_miss(wheel({"demo/a.so": many}), "manylinux_2_34_x86_64", POLICIES) is None


def test_the_best_tag_leaves_nothing_to_say() -> None:
    subject = wheel({"demo/a.so": using(("read", "GLIBC_2.17"))})
    assert near_miss(subject, "manylinux_2_17_x86_64", POLICIES) is None
    assert near_miss(subject, "linux_x86_64", POLICIES) is None


def test_the_rule_says_what_the_verdict_knows() -> None:
    subject = wheel({"demo/a.so": elf()})
    assert not findings(tag_missed_by_little, subject)
    near = NearMiss(tag="manylinux_2_28_x86_64", image="manylinux_2_28_x86_64", symbols=("`x`",))
    verdict = Verdict(overall="manylinux_2_34_x86_64", external=(), reasons=(), near=near)
    context = Context(wheel=subject, settings=Settings(), verdict=verdict)
    (found,) = run_rules(context, [tag_missed_by_little])
    assert found.message == "`manylinux_2_28_x86_64` is missed by 1 symbol"
    assert found.notes == ("`x`",)
