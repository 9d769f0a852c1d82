"""What an installed object loads, and what the answer depends on: on values."""

from typing import Any

import pytest

from tests.support.values import elf, wheel
from wheelfix.analysis.explain import (
    Explanation,
    Kind,
    PlantedLibraries,
    Provenance,
    Question,
    World,
    asked_for,
    choose_scheme,
    explain,
    explain_everywhere,
    find_subject,
    how_found,
    load_roots,
    why_not,
    world_of,
    worlds_of,
)
from wheelfix.elf.model import ElfType, Machine, VersionNeed
from wheelfix.errors import SettingsError
from wheelfix.loader.model import SearchOutcome
from wheelfix.loader.targets import find
from wheelfix.reports.explain_text import asked_text, explanation_text, roots_text
from wheelfix.wheel.model import Wheel

SITE = "/env/lib/python3.11/site-packages"


def asking(subject: Wheel, target: str = "glibc:2.28", **fields: Any) -> Question:
    return Question(target=find(target, subject), **fields)


def explained(
    subject: Wheel, member: str, target: str = "glibc:2.28", **fields: Any
) -> tuple[World, Explanation]:
    worlds = worlds_of(subject, asking(subject, target, **fields))
    (path,) = find_subject(worlds.here, member)
    return worlds.here, explain_everywhere(worlds, path)


def reasons(world: World, explanation: Explanation) -> dict[str, str]:
    return {step.request.name: how_found(world, step) for step in explanation.steps[1:]}


def tvm(**path: str) -> Wheel:
    """A library that finds its runtime beside it, by DT_RPATH or DT_RUNPATH."""
    return wheel(
        {
            "tvm/libtvm.so": elf("libtvm_runtime.so", soname="libtvm.so", **path),
            "tvm/libtvm_runtime.so": elf(soname="libtvm_runtime.so"),
        }
    )


# --- The tree -------------------------------------------------------------------------------------


def test_each_line_says_where_the_file_was_found_and_by_which_entry() -> None:
    inner = "libc-01234567.so"
    subject = wheel(
        {
            "pkg/a.so": elf("libb-01234567.so", "libm.so.6", rpath="$ORIGIN/../demo.libs"),
            "demo.libs/libb-01234567.so": elf(inner, "libz.so.1"),
            f"demo.libs/{inner}": elf(),
        }
    )
    world, found = explained(subject, "pkg.a")
    assert explanation_text(world, found, verbose=False, colour=False).splitlines() == [
        "pkg/a.so  on glibc:2.28, in venv (python3.11)",
        "  libb-01234567.so => demo.libs/libb-01234567.so  [rpath $ORIGIN/../demo.libs]",
        f"    {inner} => demo.libs/{inner}  [inherited from pkg/a.so: $ORIGIN/../demo.libs]",
        "      libc.so.6  [platform glibc:2.28]",
        "    libz.so.1, libc.so.6  [platform glibc:2.28]",
        "  libm.so.6, libc.so.6  [platform glibc:2.28]",
    ]
    assert found.ok


def test_an_object_is_opened_once_and_named_again() -> None:
    subject = wheel(
        {
            "pkg/a.so": elf("libx.so", "liby.so", rpath="$ORIGIN"),
            "pkg/libx.so": elf("liby.so", soname="libx.so"),
            "pkg/liby.so": elf("libx.so", soname="liby.so"),
        }
    )
    world, found = explained(subject, "pkg/a.so")
    names = [(step.depth, step.request.name, step.repeated) for step in found.steps]
    assert [each for each in names if each[1].startswith("lib") and each[1] != "libc.so.6"] == [
        (1, "libx.so", False),
        (2, "liby.so", True),
        (1, "liby.so", False),
        (2, "libx.so", True),
    ]
    assert how_found(world, found.steps[2]) == "already loaded by pkg/a.so"


def test_a_very_long_chain_is_explained() -> None:
    objects = {
        f"p/l{n}.so": elf(f"l{n + 1}.so", soname=f"l{n}.so", rpath="$ORIGIN") for n in range(1500)
    }
    objects["p/l1500.so"] = elf(soname="l1500.so")
    world, found = explained(wheel(objects), "p/l0.so")
    assert found.ok
    assert max(step.depth for step in found.steps) > 1490
    assert explanation_text(world, found, verbose=True, colour=False)


def test_a_miss_lists_every_candidate_and_names_the_package_that_helps() -> None:
    subject = wheel({"pkg/a.so": elf("libGL.so.1", "libno.so", runpath="$ORIGIN/lib:$ORIGIN")})
    world, found = explained(subject, "pkg/a.so", "debian:12")
    text = explanation_text(world, found, verbose=False, colour=False)
    assert [step.request.name for step in found.missing] == ["libGL.so.1", "libno.so"]
    assert "libGL.so.1  [not found]  (package libgl1)" in text
    assert f"{SITE}/pkg/lib: no such directory" in text
    assert f"{SITE}/pkg/libno.so: absent" in text
    assert text.index("its own search path (DT_RUNPATH)") < text.index("the default directories")
    assert not found.ok


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
    assert found.steps[0].place == (Provenance.WHEEL, "demo-1.0.data/scripts/tool")


def test_hostile_names_cannot_move_the_cursor() -> None:
    subject = wheel({"pkg/a.so": elf("lib\x1b[2J\n::error::.so", rpath="\x1b]0;x")})
    world, found = explained(subject, "pkg/a.so")
    text = explanation_text(world, found, verbose=True, colour=False)
    assert "\x1b" not in text
    assert not any(line.lstrip().startswith("::") for line in text.splitlines())


# --- What it depends on ---------------------------------------------------------------------------


def depends(found: Explanation, kind: Kind) -> list[tuple[str, str]]:
    return [(each.when, each.then) for each in found.alternatives if each.kind is kind]


def test_ld_library_path_wins_over_runpath_and_loses_to_rpath() -> None:
    planted = PlantedLibraries(files={"/fake/libtvm_runtime.so": elf(soname="libtvm_runtime.so")})
    given: dict[str, Any] = {"library_path": ("/fake",), "planted": planted}
    world, found = explained(tvm(runpath="$ORIGIN"), "libtvm.so", **given)
    assert found.steps[1].place == (Provenance.GIVEN, "/fake/libtvm_runtime.so")
    assert reasons(world, found)["libtvm_runtime.so"] == "LD_LIBRARY_PATH /fake"
    assert depends(found, Kind.ENVIRONMENT) == [
        ("without this LD_LIBRARY_PATH", "it is `tvm/libtvm_runtime.so`")
    ]
    world, found = explained(tvm(rpath="$ORIGIN"), "libtvm.so", **given)
    assert found.steps[1].place == (Provenance.WHEEL, "tvm/libtvm_runtime.so")
    assert not depends(found, Kind.ENVIRONMENT)


def test_a_runpath_says_that_it_depends_on_the_environment() -> None:
    _, found = explained(tvm(runpath="$ORIGIN"), "libtvm.so")
    ((when, then),) = depends(found, Kind.ENVIRONMENT)
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
    assert depends(found, Kind.ENVIRONMENT)
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
    names = {each.names for each in found.alternatives if each.kind is Kind.ORDER}
    assert names == {("libz.so.1",)}
    assert ("`p/deep/libz.so.1` is loaded before", "that file serves") in depends(found, Kind.ORDER)


def test_what_is_loaded_before_serves() -> None:
    subject = wheel(
        {
            "p/a.so": elf("libz.so.1", rpath="$ORIGIN/../demo.libs"),
            "p/b.so": elf("libz.so.1", rpath="$ORIGIN"),
            "p/libz.so.1": elf(soname="libz.so.1"),
            "demo.libs/libz.so.1": elf(soname="libz.so.1"),
        }
    )
    world = world_of(subject, asking(subject))
    found = explain(world, f"{SITE}/p/a.so", [f"{SITE}/p/b.so"])
    assert found.steps[1].place == (Provenance.WHEEL, "p/libz.so.1")
    assert reasons(world, found)["libz.so.1"] == "already loaded by p/b.so"
    assert ("without `p/b.so` before it", "it is `demo.libs/libz.so.1`") in depends(
        found, Kind.ORDER
    )


def test_debians_python_brings_its_own_zlib() -> None:
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


def test_condas_rpath_serves_whatever_is_loaded() -> None:
    subject = wheel({"p/a.so": elf("libstdc++.so.6", runpath=None)})
    world, found = explained(subject, "p/a.so", "conda")
    assert found.where == "conda (python3.11)"
    assert reasons(world, found)["libstdc++.so.6"] == (
        "inherited from /env/bin/python3.11: $ORIGIN/../lib"
    )


def test_another_wheel_serves_what_it_has_loaded() -> None:
    ffi = wheel(
        {
            "ffi/core.so": elf("libffi_x.so", runpath="$ORIGIN"),
            "ffi/libffi_x.so": elf(soname="libffi_x.so"),
        },
        name="ffi-1.0-cp311-cp311-linux_x86_64.whl",
    )
    subject = wheel({"tvm/libtvm.so": elf("libffi_x.so", runpath="$ORIGIN")})
    question = asking(subject, others=(ffi,))
    world = world_of(subject, question)
    alone = explain(world, f"{SITE}/tvm/libtvm.so")
    assert [step.request.name for step in alone.missing] == ["libffi_x.so"]
    label = "ffi-1.0-cp311-cp311-linux_x86_64.whl!ffi/libffi_x.so"
    assert (f"`{label}` is loaded before", "that file serves") in depends(alone, Kind.ORDER)
    found = explain(world, f"{SITE}/tvm/libtvm.so", find_subject(world, f"{ffi.name}!ffi/core.so"))
    assert found.ok
    assert found.steps[1].place == (Provenance.OTHER, label)


def in_data() -> Wheel:
    return wheel(
        {
            "demo-1.0.data/data/share/libplug.so": elf(
                "libr.so", rpath="$ORIGIN/../lib/python3.11/site-packages/p"
            ),
            "p/libr.so": elf(soname="libr.so"),
        }
    )


def test_an_answer_that_depends_on_the_install_scheme_says_so() -> None:
    _, found = explained(in_data(), "libplug.so")
    assert found.ok
    lost = [when for when, then in depends(found, Kind.SCHEME) if then == "it is not found"]
    assert any("target-pip" in when for when in lost)
    assert any("debian-system" in when for when in lost)
    assert not any("venv" in when for when in lost)


def test_the_scheme_can_be_chosen() -> None:
    world, found = explained(in_data(), "libplug.so", scheme="target-pip")
    assert [step.request.name for step in found.missing] == ["libr.so"]
    assert found.root == "/env/share/libplug.so"
    assert any(then == "it is `p/libr.so`" for _, then in depends(found, Kind.SCHEME))
    assert choose_scheme(in_data(), asking(in_data(), scheme="venv/python3.11")).name == "venv"
    with pytest.raises(SettingsError, match="`nowhere` is no install scheme") as caught:
        choose_scheme(in_data(), asking(in_data(), scheme="nowhere"))
    assert "target-pip" in (caught.value.hint or "")
    assert world.name == "glibc:2.28"


def test_symbol_versions_that_the_platform_is_too_old_for_are_a_problem() -> None:
    need = VersionNeed(file="libc.so.6", versions=("GLIBC_2.2.5", "GLIBC_2.34", "GLIBC_PRIVATE"))
    subject = wheel({"p/a.so": elf(verneed=(need,))})
    _, found = explained(subject, "p/a.so", "debian:11")
    assert found.problems == ("`p/a.so` wants GLIBC_2.34 of libc.so.6; debian:11 has GLIBC_2.31",)
    assert not found.ok
    assert explained(subject, "p/a.so", "debian:12")[1].ok


# --- Why not --------------------------------------------------------------------------------------


def reason(subject: Wheel, root: str, path: str, **fields: Any) -> str:
    world = world_of(subject, asking(subject, **fields))
    (start,), (wanted,) = find_subject(world, root), find_subject(world, path) or (path,)
    answer = why_not(world, start, wanted)
    assert not answer.loaded
    return "\n".join(answer.reasons)


def test_why_not_says_shadowed_and_by_whom() -> None:
    subject = wheel(
        {
            "p/a.so": elf("libz.so", rpath="$ORIGIN/one:$ORIGIN/two"),
            "p/one/libz.so": elf(soname="libz.so"),
            "p/two/libz.so": elf(soname="libz.so"),
        }
    )
    text = reason(subject, "p/a.so", "p/two/libz.so")
    assert "gets `p/one/libz.so` first (rpath $ORIGIN/one)" in text
    assert "it is shadowed: without the file before it, it would be taken" in text
    world = world_of(subject, asking(subject))
    taken = why_not(world, f"{SITE}/p/a.so", f"{SITE}/p/one/libz.so")
    assert taken.loaded
    assert "it is loaded" in taken.reasons[0]


def test_why_not_says_passed_over() -> None:
    subject = wheel(
        {
            "p/a.so": elf("libz.so", rpath="$ORIGIN"),
            "p/libz.so": elf(soname="libz.so", machine=Machine.AARCH64),
        }
    )
    assert "tried and passed over: wrong machine" in reason(subject, "p/a.so", "p/libz.so")


def test_why_not_says_never_asked_for() -> None:
    subject = wheel({"p/a.so": elf(), "p/libz.so": elf(soname="libz.so.1")})
    text = reason(subject, "p/a.so", "p/libz.so")
    assert text == "nothing in this tree asks for `libz.so` nor `libz.so.1`"


def test_why_not_says_that_the_soname_is_no_file_name() -> None:
    subject = wheel(
        {"p/a.so": elf("libq.so.1", rpath="$ORIGIN"), "p/libq.so": elf(soname="libq.so.1")}
    )
    text = reason(subject, "p/a.so", "p/libq.so")
    assert "the loader looks for a file of that name; this one is called `libq.so`" in text


def test_why_not_names_the_runpath_that_switches_inheritance_off() -> None:
    subject = wheel(
        {
            "p/a.so": elf("libb.so", rpath="$ORIGIN/../demo.libs"),
            "demo.libs/libb.so": elf("libc1.so", soname="libb.so", runpath="/build/lib"),
            "demo.libs/libc1.so": elf(soname="libc1.so"),
        }
    )
    text = reason(subject, "p/a.so", "demo.libs/libc1.so")
    assert f"no directory that is searched is `{SITE}/demo.libs`" in text
    assert "the DT_RUNPATH of `demo.libs/libb.so` switches inherited paths off" in text


def test_why_not_says_that_something_answered_to_the_name_already() -> None:
    subject = wheel(
        {
            "p/a.so": elf("libb.so", "libz.so", rpath="$ORIGIN"),
            "p/libb.so": elf("libz.so", soname="libb.so", rpath="$ORIGIN/own"),
            "p/libz.so": elf(soname="libz.so"),
            "p/own/libz.so": elf(soname="libz.so"),
        }
    )
    text = reason(subject, "p/a.so", "p/own/libz.so")
    assert "`p/libb.so` asks for `libz.so`, and `p/libz.so` answers to that name already" in text
    assert "loaded by `p/a.so`" in text


# --- Names and overviews --------------------------------------------------------------------------


def test_a_subject_may_be_a_member_a_module_a_file_name_or_a_soname() -> None:
    subject = wheel(
        {
            "p/_core.cpython-311-x86_64-linux-gnu.so": elf("libz-0.so"),
            "demo.libs/libz-0.so.1.2": elf(soname="libz-0.so"),
        }
    )
    world = world_of(subject, asking(subject))
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
    world = world_of(subject, asking(subject))
    roots = load_roots(world)
    assert [world.label(path) for path in roots] == ["p/a.so", "p/b.so"]
    lines = roots_text([explain(world, path) for path in roots], colour=False).splitlines()
    assert lines[1] == "  p/b.so: 1 from the platform  not found: `libgone.so`"
    assert lines[2] == "  p/a.so: 1 from the wheel, 1 from the platform  ok"
    assert lines[3].startswith("depends on the")


def test_a_name_that_the_wheel_lacks_is_answered_by_who_asks() -> None:
    subject = wheel(
        {
            "p/a.so": elf("libx.so", rpath="$ORIGIN"),
            "p/libx.so": elf("libcuda.so.1", soname="libx.so"),
            "p/b.so": elf("libcuda.so.1"),
        }
    )
    world = world_of(subject, asking(subject))
    asked = asked_for(world, "libcuda.so.1")
    assert {name for each in asked for name in each.requesters} == {"p/libx.so", "p/b.so"}
    text = asked_text(world, "libcuda.so.1", asked, colour=False)
    assert "not found" in text
    assert "for `p/b.so`" in text
