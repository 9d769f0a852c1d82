"""Which wheels of a run require which others."""

import inspect
import sys

import pytest

from wheelfix.providers.requirements_between_wheels import (
    Part,
    RequiredWheel,
    all_requirements,
    required_wheels,
)
from wheelfix.wheel.model import WheelName


def part(name: str, *requires: str) -> Part:
    tag = "" if name.count("-") > 1 else "-cp311-cp311-linux_x86_64"
    return Part(name=WheelName.parse(f"{name}{tag}.whl"), requires_dist=requires)


def required(*parts: Part) -> list[list[int]]:
    """Return for each wheel the places of those that it requires."""
    return [[wheel.place for wheel in wheels] for wheels in required_wheels(parts)]


def last(*parts: Part) -> tuple[RequiredWheel, ...]:
    return required_wheels(parts)[-1]


def test_a_required_wheel_is_the_provider_in_any_order() -> None:
    assert required(part("core-1.0"), part("plug-1.0", "core")) == [[], [0]]
    assert required(part("plug-1.0", "Core==1.0"), part("core-1.0")) == [[1], []]


def test_wheels_that_do_not_require_each_other_are_left_alone() -> None:
    assert required(part("one-1.0"), part("two-1.0", "three")) == [[], []]
    one = [part(f"one-1.0-cp3{n}-cp3{n}-linux_x86_64", "one") for n in (11, 12)]
    assert required(*one) == [[], []]


def test_several_pythons_and_platforms_are_matched_up() -> None:
    tags = [
        f"cp3{minor}-cp3{minor}-{platform}"
        for minor in (11, 12)
        for platform in ("manylinux_2_28_x86_64", "manylinux_2_28_aarch64", "musllinux_1_2_x86_64")
    ]
    cores = [part(f"core-1.0-{tag}") for tag in tags]
    plugs = [part(f"plug-1.0-{tag}", "core==1.0") for tag in tags]
    n = len(tags)
    assert required(*cores, *plugs) == [[]] * n + [[index] for index in range(n)]


def test_a_provider_supports_all_pythons_of_its_dependent_or_is_none() -> None:
    plug = part("plug-1.0-cp312-cp312-linux_x86_64", "core")
    for tag in ("cp38-abi3", "py3-none", "cp312-cp312"):
        assert required(part(f"core-1.0-{tag}-linux_x86_64"), plug) == [[], [0]]
    both = [part("core-1.0-cp38-abi3-linux_x86_64"), part("core-1.0-cp312-cp312-linux_x86_64")]
    assert last(*both, plug)[0].place == 1
    assert not last(part("core-1.0"), part("plug-1.0-cp311-abi3-linux_x86_64", "core"))


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
    assert bool(last(part("core-1.0"), part("plug-1.0", requirement))) is is_provider


def test_the_newest_of_several_versions_is_the_provider() -> None:
    cores = [part("core-1.9"), part("core-1.10"), part("core-2.0")]
    assert last(*cores, part("plug-1.0", "core<2"))[0].place == 1
    builds = [part(f"core-1.0-{n}-cp311-cp311-linux_x86_64") for n in (2, 10)]
    assert last(*builds, part("plug-1.0", "core"))[0].place == 1


def test_a_chain_includes_indirect_requirements_and_names_the_direct_ones() -> None:
    core, mid = part("core-1.0"), part("mid-1.0", "core==1.0")
    assert last(core, mid, part("top-1.0", "mid==1.0")) == ((1, ""), (0, "mid"))
    assert last(core, mid, part("top-1.0", "mid", "core")) == ((1, ""), (0, ""))


def test_wheels_in_a_circle_are_required_by_others_and_not_by_each_other() -> None:
    parts = part("a-1", "b"), part("b-1", "c"), part("c-1", "a"), part("d-1", "a")
    assert required(*parts) == [[], [], [], [0, 1, 2]]


def test_a_long_chain_needs_no_recursion() -> None:
    chain = [part(f"n{n}-1", f"n{n + 1}") for n in range(400)]
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 200)
    try:
        found = required_wheels(chain)
    finally:
        sys.setrecursionlimit(limit)
    assert [len(wheels) for wheels in found] == list(range(399, -1, -1))


@pytest.mark.parametrize(
    ("asked", "marker", "is_provider"),
    [
        ("kit[lib]", "extra == 'lib'", True),
        ("Kit[LIB,other]==1.0", "extra == 'lib' and sys_platform == 'linux'", True),
        ("kit[my_lib]", "extra == 'My-Lib'", True),
        ("kit[all]", "extra == 'lib' or extra == 'all'", True),
        ("kit", "extra == 'lib'", False),
        ("kit[other]", "extra == 'lib'", False),
        ("kit[lib]", "extra == 'lib' and platform_machine == 'aarch64'", False),
        ("kit[lib]", "extra == 'lib' and python_version < '3.11'", False),
        ("kit[lib]; extra == 'fast'", "extra == 'lib'", False),
    ],
)
def test_a_requirement_brings_what_the_extras_add_that_it_names(
    asked: str, marker: str, *, is_provider: bool
) -> None:
    kit, plug = part("kit-1.0", f"core; {marker}"), part("plug-1.0", asked)
    wheels = last(part("core-1.0"), kit, plug)
    assert (RequiredWheel(0, through="kit") in wheels) is is_provider
    assert ("core" in all_requirements(plug, {"kit": kit.requires_dist})) is is_provider


@pytest.mark.parametrize(
    ("asked", "is_provider"),
    [
        ("plug[lib]", True),
        ("Plug[all]", True),
        ("plug[other]", False),
        ("plug[lib]; sys_platform == 'win32'", False),
        ("plug[lib]; extra == 'fast'", False),
    ],
)
def test_an_extra_that_a_wheel_requires_of_itself_is_always_installed(
    asked: str, *, is_provider: bool
) -> None:
    plug = part("plug-1.0", asked, "core; extra == 'lib'", "plug[lib]; extra == 'all'")
    assert (last(part("core-1.0"), plug) == ((0, ""),)) is is_provider
    assert [*all_requirements(plug, {})] == ["core"] * is_provider
    beside = all_requirements(part("top-1.0", "plug"), {"plug": plug.requires_dist})
    assert ("core" in beside) is is_provider


def test_extras_are_followed_through_others_and_in_circles() -> None:
    kit = part("kit-1.0", "base[x]; extra == 'lib'", "kit[lib]; extra == 'all'")
    base = part("base-1.0", "core>=2; extra == 'x'", "kit[all]")
    plug = part("plug-1.0", "kit[all]")
    there = {"kit": kit.requires_dist, "base": base.requires_dist}
    found = all_requirements(plug, there)
    assert {name: one.through for name, one in found.items()} == {
        "kit": "",
        "base": "kit",
        "core": "kit",
    }
    assert str(found["core"].requirement.specifier) == ">=2"
    assert all_requirements(plug, {}).keys() == {"kit"}
