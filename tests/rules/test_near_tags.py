"""The symbols that alone forbid a better tag are named, with the objects that use them."""

from tests.support.values import elf, findings, wheel
from wheelfix.analysis.policies import Policy
from wheelfix.analysis.policy_reasons import near_misses
from wheelfix.analysis.policy_verdict import Verdict
from wheelfix.elf.model import Elf, Undefined, VersionNeed
from wheelfix.rules.context import Context
from wheelfix.rules.platform_tag import tag_missed_by_little
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


def test_the_symbol_and_its_user_are_named_for_each_tag_that_they_forbid() -> None:
    subject = wheel(
        {
            "demo/a.so": using(("pthread_create", "GLIBC_2.34"), ("read", "GLIBC_2.2.5")),
            "demo/b.so": using(("fcntl64", "GLIBC_2.28")),
        }
    )
    near = near_misses(subject, "manylinux_2_34_x86_64", POLICIES)
    new = f"`pthread_create@GLIBC_2.34` of `{LIBC}` in `demo/a.so`"
    older = f"`fcntl64@GLIBC_2.28` of `{LIBC}` in `demo/b.so`"
    assert near == (
        f"`manylinux_2_28_x86_64` is missed by {new}",
        f"`manylinux_2_17_x86_64` is missed by the same; {older}",
    )


def test_a_tag_that_is_missed_by_much_is_not_spelled_out() -> None:
    many = using(*((f"new{number}", "GLIBC_2.34") for number in range(9)))
    assert not near_misses(wheel({"demo/a.so": many}), "manylinux_2_34_x86_64", POLICIES)


def test_the_best_tag_leaves_nothing_to_say() -> None:
    subject = wheel({"demo/a.so": using(("read", "GLIBC_2.17"))})
    assert not near_misses(subject, "manylinux_2_17_x86_64", POLICIES)
    assert not near_misses(subject, "linux_x86_64", POLICIES)


def test_the_rule_says_what_the_verdict_knows() -> None:
    subject = wheel({"demo/a.so": elf()})
    assert not findings(tag_missed_by_little, subject)
    verdict = Verdict(
        overall="manylinux_2_34_x86_64", external=(), reasons=(), near=("`x` is missed by `y`",)
    )
    context = Context(wheel=subject, settings=Settings(), verdict=verdict)
    (found,) = run_rules(context, [tag_missed_by_little])
    assert found.message == "`x` is missed by `y`"
