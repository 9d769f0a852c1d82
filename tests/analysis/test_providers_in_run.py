"""Sets of wheels: which wheels of a run are providers of which others."""

import pytest

from wheelfix.analysis.providers_in_run import Part, SetMember, set_members
from wheelfix.wheel.model import WheelName


def part(name: str, *requires: str) -> Part:
    tag = "" if name.count("-") > 1 else "-cp311-cp311-linux_x86_64"
    return Part(name=WheelName.parse(f"{name}{tag}.whl"), requires_dist=requires)


def providers(*parts: Part) -> list[list[int]]:
    """Return for each wheel the places of its provider wheels."""
    return [[provider.index for provider in one.providers] for one in set_members(parts)]


def last(*parts: Part) -> SetMember:
    return set_members(parts)[-1]


def test_a_required_wheel_is_the_provider_in_any_order() -> None:
    assert providers(part("core-1.0"), part("plug-1.0", "core")) == [[], [0]]
    assert providers(part("plug-1.0", "Core==1.0"), part("core-1.0")) == [[1], []]


def test_wheels_that_do_not_require_each_other_are_left_alone() -> None:
    assert providers(part("one-1.0"), part("two-1.0", "three")) == [[], []]
    one = [part(f"one-1.0-cp3{n}-cp3{n}-linux_x86_64", "one") for n in (11, 12)]
    assert providers(*one) == [[], []]


def test_several_pythons_and_platforms_are_matched_up() -> None:
    tags = [
        f"cp3{minor}-cp3{minor}-{platform}"
        for minor in (11, 12)
        for platform in ("manylinux_2_28_x86_64", "manylinux_2_28_aarch64", "musllinux_1_2_x86_64")
    ]
    cores = [part(f"core-1.0-{tag}") for tag in tags]
    plugs = [part(f"plug-1.0-{tag}", "core==1.0") for tag in tags]
    n = len(tags)
    assert providers(*cores, *plugs) == [[]] * n + [[index] for index in range(n)]


def test_a_provider_supports_all_pythons_of_its_dependent_or_is_none() -> None:
    plug = part("plug-1.0-cp312-cp312-linux_x86_64", "core")
    for tag in ("cp38-abi3", "py3-none", "cp312-cp312"):
        assert providers(part(f"core-1.0-{tag}-linux_x86_64"), plug) == [[], [0]]
    both = [part("core-1.0-cp38-abi3-linux_x86_64"), part("core-1.0-cp312-cp312-linux_x86_64")]
    assert last(*both, plug).providers[0].index == 1
    stable = part("plug-1.0-cp311-abi3-linux_x86_64", "core")
    assert not last(part("core-3.0"), stable).messages, "nothing would be shared anyway"
    alone = last(part("core-1.0"), stable)
    assert not alone.providers
    assert "does not support all Pythons" in alone.messages[0]
    assert not last(part("core-1.0-cp310-cp310-linux_x86_64"), part("plug-1.0", "core")).messages


@pytest.mark.parametrize(
    ("requirement", "is_provider"),
    [
        ("core>=1,<2", True),
        ("core[fast]", True),
        ("core; python_version >= '3.8'", True),
        ("core; python_version < '3.8'", False),
        ("core; sys_platform == 'win32'", False),
        ("core; platform_machine == 'x86_64'", True),
        ("core; extra == 'fast'", False),
        ("core>=2", False),
        ("core @ file:///core.whl", True),
        ("core ===", False),
    ],
)
def test_only_a_wheel_that_is_always_installed_is_a_provider(
    requirement: str, *, is_provider: bool
) -> None:
    assert bool(last(part("core-1.0"), part("plug-1.0", requirement)).providers) is is_provider


def test_a_version_that_is_not_required_is_reported() -> None:
    (said,) = last(part("core-1.0"), part("plug-1.0", "core>=2")).messages
    assert "`core-1.0-cp311-cp311-linux_x86_64.whl` does not satisfy METADATA's requirement" in said


def test_the_newest_of_several_versions_is_the_provider() -> None:
    cores = [part("core-1.9"), part("core-1.10"), part("core-2.0")]
    assert last(*cores, part("plug-1.0", "core<2")).providers[0].index == 1
    builds = [part(f"core-1.0-{n}-cp311-cp311-linux_x86_64") for n in (2, 10)]
    assert last(*builds, part("plug-1.0", "core")).providers[0].index == 1


def test_one_product_is_pinned_or_of_one_version() -> None:
    def same(user: str, *requires: str) -> bool:
        return last(part("core-1.0"), part(user, *requires)).providers[0].same_product

    assert same("plug-1.0", "core>=1")
    assert same("plug-3.0", "core==1.0")
    assert not same("plug-3.0", "core==1.*")
    assert not same("plug-3.0", "core>=1")


def test_a_chain_includes_indirect_providers_and_names_the_direct_ones() -> None:
    core, mid = part("core-1.0"), part("mid-1.0", "core==1.0")
    member = last(core, mid, part("top-1.0", "mid==1.0"))
    assert [(one.index, one.through) for one in member.providers] == [(1, ""), (0, "mid")]
    assert member.depth == 2
    assert all(one.same_product for one in member.providers)
    direct = last(core, mid, part("top-1.0", "mid", "core"))
    assert [(one.index, one.through) for one in direct.providers] == [(1, ""), (0, "")]
    loose = last(part("core-1.0"), part("mid-2.0", "core"), part("top-2.0", "mid"))
    assert [one.same_product for one in loose.providers] == [True, False]


def test_wheels_in_a_circle_are_no_providers_of_each_other_but_of_others() -> None:
    found = set_members([part("a-1", "b"), part("b-1", "c"), part("c-1", "a"), part("d-1", "a")])
    assert [[provider.index for provider in one.providers] for one in found] == [[], [], [], [0]]
    assert "in a circle" in found[0].messages[0]
    assert not found[3].messages


def test_a_long_chain_needs_no_recursion() -> None:
    chain = [part(f"n{n}-1", f"n{n + 1}") for n in range(1500)]
    assert set_members(chain[-40:])[0].depth == 39
    assert max(one.depth for one in set_members(chain)) == 1499
