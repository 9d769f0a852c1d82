"""Explanations of loads, computed on values."""

import sys
from dataclasses import replace
from typing import Any

import pytest

from tests.support.values import elf, wheel, world_on
from wheelfix.analysis.explain import Explanation, explain
from wheelfix.analysis.graph import graph_of_wheel
from wheelfix.analysis.load_conditions import Factor
from wheelfix.analysis.load_failures import LoadJudge
from wheelfix.analysis.load_tree import Step, describe_search, needed_names, resolutions
from wheelfix.analysis.world import (
    PlantedLibraries,
    Provenance,
    World,
    find_subject,
    neighbor,
)
from wheelfix.budget import BudgetError
from wheelfix.elf.model import ElfType, Machine, VersionNeed
from wheelfix.errors import SettingsError
from wheelfix.loader.load_values import SearchOutcome
from wheelfix.reports.explain_text_and_json import (
    explanation_text,
    remedies_text,
    resolutions_text,
    roots_text,
)
from wheelfix.reports.printable import Style
from wheelfix.wheel.model import Wheel

SITE = "/env/lib/python3.11/site-packages"


def explained(
    subject: Wheel, member: str, target: str = "glibc:2.28", **fields: Any
) -> tuple[World, Explanation]:
    world = world_on(subject, target, **fields)
    (path,) = find_subject(world, member)
    return world, explain(LoadJudge(world=world), path)


def trees_of(world: World) -> dict[str, tuple[Step, ...]]:
    return {root: explain(LoadJudge(world=world), root).steps for root in world.first_loads}


def reasons(world: World, explanation: Explanation) -> dict[str, str]:
    return {step.request.name: describe_search(world, step) for step in explanation.steps[1:]}


def tvm(**path: str) -> Wheel:
    """A library that finds its runtime beside it, by DT_RPATH or DT_RUNPATH."""
    return wheel(
        {
            "tvm/libtvm.so": elf("libtvm_runtime.so", soname="libtvm.so", **path),
            "tvm/libtvm_runtime.so": elf(soname="libtvm_runtime.so"),
        }
    )


# --- The tree -------------------------------------------------------------------------------------


def test_each_step_has_the_file_and_the_entry_that_led_to_it() -> None:
    inner = "libc-01234567.so"
    subject = wheel(
        {
            "pkg/a.so": elf("libb-01234567.so", "libm.so.6", rpath="$ORIGIN/../demo.libs"),
            "demo.libs/libb-01234567.so": elf(inner, "libz.so.1"),
            f"demo.libs/{inner}": elf(),
        }
    )
    world, found = explained(subject, "pkg.a")
    assert explanation_text(world, found).splitlines() == [
        "pkg/a.so  on glibc:2.28, in venv (python3.11)",
        "  libb-01234567.so => demo.libs/libb-01234567.so  [rpath $ORIGIN/../demo.libs]",
        f"    {inner} => demo.libs/{inner}  [inherited from pkg/a.so: $ORIGIN/../demo.libs]",
        "      libc.so.6  [platform glibc:2.28]",
        "    libz.so.1, libc.so.6  [platform glibc:2.28]",
        "  libm.so.6, libc.so.6  [platform glibc:2.28]",
    ]
    assert found.ok


def test_the_requests_of_an_object_are_listed_once() -> None:
    subject = wheel(
        {
            "pkg/a.so": elf("libx.so", "liby.so", rpath="$ORIGIN"),
            "pkg/libx.so": elf("liby.so", soname="libx.so"),
            "pkg/liby.so": elf("libx.so", soname="liby.so"),
        }
    )
    world, found = explained(subject, "pkg/a.so")
    names = [(step.depth, step.request.name, step.repeated) for step in found.steps]
    assert [row for row in names if row[1].startswith("lib") and row[1] != "libc.so.6"] == [
        (1, "libx.so", False),
        (2, "liby.so", True),
        (1, "liby.so", False),
        (2, "libx.so", True),
    ]
    assert describe_search(world, found.steps[2]) == "already loaded by pkg/a.so"


def test_a_very_long_chain_is_explained() -> None:
    objects = {
        f"p/l{n}.so": elf(f"l{n + 1}.so", soname=f"l{n}.so", rpath="$ORIGIN") for n in range(300)
    }
    objects["p/l300.so"] = elf(soname="l300.so")
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(300)
    try:
        world, found = explained(wheel(objects), "p/l0.so")
        text = explanation_text(world, found, Style(verbose=True))
    finally:
        sys.setrecursionlimit(limit)
    assert found.ok
    assert text
    assert max(step.depth for step in found.steps) > 290


def test_a_missing_library_lists_every_candidate_and_the_package() -> None:
    subject = wheel({"pkg/a.so": elf("libGL.so.1", "libno.so", runpath="$ORIGIN/lib:$ORIGIN")})
    world, found = explained(subject, "pkg/a.so", "debian:12")
    text = explanation_text(world, found)
    assert [step.request.name for step in found.missing] == ["libGL.so.1", "libno.so"]
    assert "libGL.so.1  [not found]  (package libgl1)" in text
    assert f"{SITE}/pkg/lib: no such directory" in text
    assert f"{SITE}/pkg/libno.so: absent" in text
    assert text.index("RUNPATH of ") < text.index("default directories")
    assert not found.ok


def test_a_search_in_the_same_folders_is_told_once() -> None:
    """Whoever has the search path; another search is told, and with `-v` all are."""
    objects = {
        "p/a.so": elf("libno.so", "libb.so", "libc.so", rpath="$ORIGIN"),
        "p/libb.so": elf("libno.so", soname="libb.so", rpath="$ORIGIN"),
        "p/libc.so": elf("libno.so", soname="libc.so", rpath="$ORIGIN/x"),
    }
    world, found = explained(wheel(objects), "p/a.so")
    text = explanation_text(world, found)
    lines = [line.strip() for line in text.splitlines() if "libno.so  [" in line]
    assert lines == ["libno.so  [not found]", "libno.so  [not found, as above]", lines[0]]
    whole = explanation_text(world, found, Style(verbose=True))
    assert whole.count("libno.so  [not found]\n") == 3
    served = resolutions_text(
        world, "libno.so", resolutions(world, "libno.so", {found.root: found.steps})
    )
    assert served.count("[not found]") == 2
    assert "    in the same folders for `p/libb.so`\n" in served


def test_a_wheel_for_another_machine_is_explained_as_well() -> None:
    name = "demo-1.0-cp311-cp311-manylinux_2_28_aarch64.whl"
    subject = wheel(
        {
            "pkg/a.so": elf("libb.so", machine=Machine.AARCH64, rpath="$ORIGIN"),
            "pkg/libb.so": elf(soname="libb.so"),
        },
        name=name,
    )
    _, found = explained(subject, "pkg/a.so", "debian:12")
    (missing,) = found.missing
    assert missing.request.candidates[0].outcome is SearchOutcome.WRONG_MACHINE
    assert missing.request.candidates[-1].path == "/usr/lib/libb.so"
    assert "/lib/aarch64-linux-gnu/libb.so" in [c.path for c in missing.request.candidates]


def test_a_program_starts_with_its_own_search_path() -> None:
    program = elf(
        "libb.so",
        interpreter="/lib64/ld-linux-x86-64.so.2",
        rpath="$ORIGIN/../lib",
        type=ElfType.DYN,
    )
    subject = wheel(
        {
            "demo-1.0.data/scripts/tool": program,
            "demo-1.0.data/data/lib/libb.so": elf(soname="libb.so"),
        }
    )
    world, found = explained(subject, "tool")
    assert reasons(world, found)["libb.so"] == "rpath $ORIGIN/../lib"
    assert found.steps[0].origin == (Provenance.WHEEL, "demo-1.0.data/scripts/tool")


def test_hostile_names_cannot_move_the_cursor() -> None:
    subject = wheel({"pkg/a.so": elf("lib\x1b[2J\n::error::.so", rpath="\x1b]0;x")})
    world, found = explained(subject, "pkg/a.so")
    text = explanation_text(world, found, Style(verbose=True))
    assert "\x1b" not in text
    assert not any(line.lstrip().startswith("::") for line in text.splitlines())


# --- Alternatives ---------------------------------------------------------------------------------


def depends(found: Explanation, kind: Factor) -> list[tuple[str, str]]:
    return [(one.when, one.then) for one in found.alternatives if one.factor is kind]


def test_ld_library_path_wins_over_runpath_and_loses_to_rpath() -> None:
    planted = PlantedLibraries(files={"/fake/libtvm_runtime.so": elf(soname="libtvm_runtime.so")})
    given: dict[str, Any] = {"library_path": ("/fake",), "planted": planted}
    world, found = explained(tvm(runpath="$ORIGIN"), "libtvm.so", **given)
    assert found.steps[1].origin == (Provenance.VARIABLE, "/fake/libtvm_runtime.so")
    assert reasons(world, found)["libtvm_runtime.so"] == "LD_LIBRARY_PATH /fake"
    assert depends(found, Factor.ENVIRONMENT) == [
        ("without this LD_LIBRARY_PATH", "it is `tvm/libtvm_runtime.so`")
    ]
    world, found = explained(tvm(rpath="$ORIGIN"), "libtvm.so", **given)
    assert found.steps[1].origin == (Provenance.WHEEL, "tvm/libtvm_runtime.so")
    assert not depends(found, Factor.ENVIRONMENT)


def test_a_runpath_depends_on_ld_library_path() -> None:
    _, found = explained(tvm(runpath="$ORIGIN"), "libtvm.so")
    ((when, then),) = depends(found, Factor.ENVIRONMENT)
    assert when.startswith("LD_LIBRARY_PATH names a directory")
    assert then.endswith("LD_LIBRARY_PATH comes before DT_RUNPATH")


def test_musl_searches_ld_library_path_before_all_else() -> None:
    name = "demo-1.0-cp311-cp311-musllinux_1_2_x86_64.whl"
    libc = "libc.musl-x86_64.so.1"
    objects = {
        "tvm/a.so": elf("libr.so", needed=("libr.so", libc), rpath="$ORIGIN"),
        "tvm/libr.so": elf(needed=(libc,), soname="libother.so"),
    }
    planted = PlantedLibraries(files={"/fake/libr.so": elf(needed=(libc,))})
    world, found = explained(wheel(objects, name=name), "tvm/a.so", "alpine:3.20")
    assert reasons(world, found) == {"libr.so": "rpath $ORIGIN", libc: "the loader itself"}
    assert depends(found, Factor.ENVIRONMENT)
    world, found = explained(
        wheel(objects, name=name),
        "tvm/a.so",
        "alpine:3.20",
        library_path=("/fake",),
        planted=planted,
    )
    assert reasons(world, found)["libr.so"] == "LD_LIBRARY_PATH /fake"


def test_an_unhashed_soname_depends_on_the_order_of_imports_and_a_hashed_one_does_not() -> None:
    subject = wheel(
        {
            "p/a.so": elf("libz.so.1", "libq-0a1b2c3d.so", rpath="$ORIGIN/../demo.libs"),
            "demo.libs/libz.so.1": elf(soname="libz.so.1"),
            "demo.libs/libq-0a1b2c3d.so": elf(soname="libq-0a1b2c3d.so"),
            "p/deep/libz.so.1": elf(soname="libz.so.1"),
        }
    )
    _, found = explained(subject, "p/a.so")
    names = {other.names for other in found.alternatives if other.factor is Factor.ORDER}
    assert names == {("libz.so.1",)}
    when = "one of `/lib64/libz.so.1`, `p/deep/libz.so.1` is loaded before"
    assert (when, "that file is used") in depends(found, Factor.ORDER)


def test_of_many_files_with_one_soname_a_few_are_named() -> None:
    """As many alternatives for each of as many objects would take all time."""
    objects = {f"p{n}/libz.so.1": elf(soname="libz.so.1") for n in range(9)}
    _, found = explained(
        wheel({"p0/a.so": elf("libz.so.1", rpath="$ORIGIN"), **objects}), "p0/a.so"
    )
    (when, _), *others = depends(found, Factor.ORDER)
    few = "`/lib64/libz.so.1`, `p1/libz.so.1`, `p2/libz.so.1`"
    assert when == f"one of {few} and 6 more is loaded before"
    assert len(others) == 1


def test_a_library_that_was_loaded_before_is_used() -> None:
    subject = wheel(
        {
            "p/a.so": elf("libz.so.1", rpath="$ORIGIN/../demo.libs"),
            "p/b.so": elf("libz.so.1", rpath="$ORIGIN"),
            "p/libz.so.1": elf(soname="libz.so.1"),
            "demo.libs/libz.so.1": elf(soname="libz.so.1"),
        }
    )
    world = world_on(subject)
    found = explain(LoadJudge(world=world), f"{SITE}/p/a.so", [f"{SITE}/p/b.so"])
    assert found.steps[1].origin == (Provenance.WHEEL, "p/libz.so.1")
    assert reasons(world, found)["libz.so.1"] == "already loaded by p/b.so"
    assert ("without `p/b.so` before it", "it is `demo.libs/libz.so.1`") in depends(
        found, Factor.ORDER
    )


def test_debians_python_loads_its_own_zlib() -> None:
    subject = wheel(
        {
            "p/a.so": elf("libz.so.1", rpath="$ORIGIN"),
            "p/libz.so.1": elf(soname="libz.so.1"),
        }
    )
    world, found = explained(subject, "p/a.so", "debian:12")
    assert reasons(world, found)["libz.so.1"] == "already loaded by /usr/bin/python3.11"
    world, found = explained(subject, "p/a.so", "rhel:9")
    assert reasons(world, found)["libz.so.1"] == "rpath $ORIGIN"


def test_condas_rpath_is_inherited_by_everything() -> None:
    subject = wheel({"p/a.so": elf("libstdc++.so.6", runpath=None)})
    world, found = explained(subject, "p/a.so", "conda")
    assert found.where == "conda (python3.11)"
    assert reasons(world, found)["libstdc++.so.6"] == (
        "inherited from /env/bin/python3.11: $ORIGIN/../lib"
    )


def test_a_library_of_another_wheel_that_was_loaded_before_is_used() -> None:
    ffi = wheel(
        {
            "ffi/core.so": elf("libffi_x.so", runpath="$ORIGIN"),
            "ffi/libffi_x.so": elf(soname="libffi_x.so"),
        },
        name="ffi-1.0-cp311-cp311-linux_x86_64.whl",
    )
    subject = wheel({"tvm/libtvm.so": elf("libffi_x.so", runpath="$ORIGIN")})
    world = world_on(subject, neighbors=(neighbor(ffi),))
    alone = explain(LoadJudge(world=world), f"{SITE}/tvm/libtvm.so")
    assert [step.request.name for step in alone.missing] == ["libffi_x.so"]
    label = "ffi-1.0-cp311-cp311-linux_x86_64.whl!ffi/libffi_x.so"
    assert (f"`{label}` is loaded before", "that file is used") in depends(alone, Factor.ORDER)
    found = explain(
        LoadJudge(world=world),
        f"{SITE}/tvm/libtvm.so",
        find_subject(world, f"{ffi.name}!ffi/core.so"),
    )
    assert found.ok
    assert found.steps[1].origin == (Provenance.OTHER, label)


def in_data() -> Wheel:
    return wheel(
        {
            "demo-1.0.data/data/share/libplug.so": elf(
                "libr.so", rpath="$ORIGIN/../lib/python3.11/site-packages/p"
            ),
            "p/libr.so": elf(soname="libr.so"),
        }
    )


def test_a_result_that_depends_on_the_install_scheme_has_alternatives() -> None:
    _, found = explained(in_data(), "libplug.so")
    assert found.ok
    lost = [when for when, then in depends(found, Factor.SCHEME) if then == "it is not found"]
    assert any("target-pip" in when for when in lost)
    assert any("debian-system" in when for when in lost)
    assert not any("venv" in when for when in lost)


def test_the_scheme_can_be_chosen() -> None:
    world, found = explained(in_data(), "libplug.so", scheme="target-pip")
    assert [step.request.name for step in found.missing] == ["libr.so"]
    assert found.root == "/env/share/libplug.so"
    assert any(then == "it is `p/libr.so`" for _, then in depends(found, Factor.SCHEME))
    assert world_on(in_data(), scheme="venv/python3.11").schemes[0].name == "venv"
    with pytest.raises(SettingsError, match="never installed with the scheme `nowhere`") as caught:
        world_on(in_data(), scheme="nowhere")
    assert "target-pip" in (caught.value.hint or "")
    assert world.name == "glibc:2.28"


def test_symbol_versions_newer_than_the_platform_are_a_problem() -> None:
    need = VersionNeed(file="libc.so.6", versions=("GLIBC_2.2.5", "GLIBC_2.34", "GLIBC_PRIVATE"))
    subject = wheel({"p/a.so": elf(verneed=(need,))})
    _, found = explained(subject, "p/a.so", "debian:11")
    assert found.problems == (
        "`p/a.so` needs `GLIBC_2.34` of `libc.so.6`; debian:11 has GLIBC_2.31",
    )
    way = "its authors must build it on an older system"
    assert [advice.text for advice in found.remedies] == [f"`GLIBC_2.34`: {way}"]
    assert not found.ok
    assert explained(subject, "p/a.so", "debian:12")[1].ok
    need = VersionNeed(file="libc.so.6", versions=("GLIBC_2.33", "GLIBC_2.34"))
    _, both = explained(wheel({"p/a.so": elf(verneed=(need,))}), "p/a.so", "debian:11")
    assert [advice.text for advice in both.remedies] == [f"`GLIBC_2.33`, `GLIBC_2.34`: {way}"]
    assert remedies_text([*found.remedies, *both.remedies])[1:] == [
        f"  each of `GLIBC_2.34`, `GLIBC_2.33`: {way}"
    ]


# --- Names and overviews --------------------------------------------------------------------------


def test_a_subject_may_be_a_member_a_module_a_file_name_or_a_soname() -> None:
    subject = wheel(
        {
            "p/_core.cpython-311-x86_64-linux-gnu.so": elf("libz-0.so"),
            "demo.libs/libz-0.so.1.2": elf(soname="libz-0.so"),
        }
    )
    world = world_on(subject)
    core = (f"{SITE}/p/_core.cpython-311-x86_64-linux-gnu.so",)
    for text in ("p/_core.cpython-311-x86_64-linux-gnu.so", "p._core", "_core", core[0]):
        assert find_subject(world, text) == core
    assert find_subject(world, "libz-0.so.1.2") == (f"{SITE}/demo.libs/libz-0.so.1.2",)
    assert find_subject(world, "libz-0.so") == (f"{SITE}/demo.libs/libz-0.so.1.2",)
    assert find_subject(world, "nothing") == ()


def test_without_a_subject_each_load_root_has_a_line_and_failures_come_first() -> None:
    subject = wheel(
        {
            "p/a.so": elf("libx.so", rpath="$ORIGIN"),
            "p/b.so": elf("libgone.so"),
            "p/libx.so": elf(soname="libx.so"),
        }
    )
    world = world_on(subject)
    roots = world.roots
    assert [world.label(path) for path in roots] == ["p/a.so", "p/b.so"]
    found = [explain(LoadJudge(world=world), path) for path in roots]
    lines = roots_text(found).splitlines()
    assert lines[1] == "  p/b.so: 1 from the platform  not found: `libgone.so`"
    assert lines[2] == "  p/a.so: 1 from the wheel, 1 from the platform  ok"
    assert lines[3].startswith("depends on the")


def test_a_library_outside_the_wheel_that_a_search_path_names_is_not_of_the_platform() -> None:
    world = world_on(wheel({"p/a.so": elf("libc.so.6", "libx.so", runpath="/opt/lib")}))
    files = {**world.environment.files, "/opt/lib/libx.so": elf(soname="libx.so")}
    world = replace(world, environment=replace(world.environment, files=files))
    short = roots_text([explain(LoadJudge(world=world), world.roots[0])]).splitlines()
    outside = "1 from folders of the machine that a search path names"
    assert short[1] == f"  p/a.so: 1 from the platform, {outside}  ok"


def test_modules_with_the_same_result_share_a_line() -> None:
    world = world_on(wheel({f"p/m{number}.so": elf("libc.so.6") for number in range(9)}))
    found = [explain(LoadJudge(world=world), path) for path in world.roots]
    short = roots_text(found).splitlines()
    assert short[1] == "  p/m0.so, p/m1.so, p/m2.so, and 6 more: 1 from the platform  ok"
    assert len(roots_text(found, Style(verbose=True)).splitlines()) == 1 + 9


def test_a_name_that_the_wheel_lacks_is_listed_with_its_requesters() -> None:
    subject = wheel(
        {
            "p/a.so": elf("libx.so", rpath="$ORIGIN"),
            "p/libx.so": elf("libcuda.so.1", soname="libx.so"),
            "p/b.so": elf("libcuda.so.1"),
        }
    )
    world = world_on(subject)
    asked = resolutions(world, "libcuda.so.1", trees_of(world))
    requesters = {name for resolution in asked for name in resolution.requesters}
    assert requesters == {"p/libx.so", "p/b.so"}
    text = resolutions_text(world, "libcuda.so.1", asked)
    assert "not found" in text
    assert "for `p/b.so`" in text


def test_objects_that_find_a_library_by_the_same_entry_are_one_result() -> None:
    files = {f"p/m{number}.so": elf("libx.so", runpath="$ORIGIN/../x.libs") for number in range(5)}
    files["p/other.so"] = elf("libx.so", runpath="$ORIGIN/libs")
    files |= {"x.libs/libx.so": elf(soname="libx.so"), "p/libs/libx.so": elf(soname="libx.so")}
    world = world_on(wheel(files))
    asked = resolutions(world, "libx.so", trees_of(world))
    assert [len(resolution.requesters) for resolution in asked] == [5, 1]
    text = resolutions_text(world, "libx.so", asked)
    assert text.count("x.libs/libx.so  [runpath $ORIGIN/../x.libs]") == 1


def all_in_a_circle(count: int) -> Wheel:
    """Return a wheel of libraries that all need each other."""
    names = [f"lib{number}.so" for number in range(count)]
    return wheel({f"p/{name}": elf(*names, soname=name, runpath="$ORIGIN") for name in names})


def test_the_questions_about_a_wheel_spend_one_budget() -> None:
    data = "demo-1.0.data/data/lib/libb.so"
    subject = wheel({"p/liba.so": elf("libb.so", runpath="$ORIGIN"), data: elf()})
    world = world_on(subject)
    assert {id(other.budget) for other in world.elsewhere} == {id(world.budget)}
    before = world.budget.steps
    explain(LoadJudge(world=world), f"{SITE}/p/liba.so")
    assert world.budget.steps < before


def test_a_graph_that_takes_too_much_work_is_refused() -> None:
    subject = all_in_a_circle(200)
    with pytest.raises(BudgetError, match="exceeds the work limit for its size"):
        graph_of_wheel(subject, world_on(subject))


def test_the_budget_grows_with_the_wheels() -> None:
    large = replace(wheel({}), size=1 << 25)
    small = world_on(wheel({})).budget
    assert world_on(large).budget.steps > small.steps
    assert world_on(wheel({}), neighbors=(neighbor(large),)).budget.steps > small.steps


def test_a_library_that_several_modules_lead_to_is_one_result() -> None:
    graft = "libx-1a2b3c4d.so.1"
    files = {f"p/m{n}.so": elf("liba.so", rpath="$ORIGIN/../x.libs") for n in range(3)}
    files["x.libs/liba.so"] = elf(graft, soname="liba.so")
    files[f"x.libs/{graft}"] = elf(soname=graft)
    world = world_on(wheel(files))
    assert needed_names(world, "libx.so.1") == (graft,)
    text = resolutions_text(world, graft, resolutions(world, graft, trees_of(world)))
    assert text.count("for `x.libs/liba.so`") == 1
    assert "[inherited from p/m0.so: $ORIGIN/../x.libs and 2 more]" in text


def test_the_name_that_a_graft_had_before_means_the_graft() -> None:
    files = {"p/a.so": elf(), "p.libs/libx-1a2b3c4d.so.1": elf(soname="libx-1a2b3c4d.so.1")}
    world = world_on(wheel(files))
    assert find_subject(world, "libx.so.1") == (world.paths["p.libs/libx-1a2b3c4d.so.1"],)
