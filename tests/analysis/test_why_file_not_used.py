"""The reasons why a load does not use a certain file."""

from dataclasses import replace

from tests.support.values import elf, wheel, world_on
from wheelfix.analysis.why_file_not_used import why_not
from wheelfix.analysis.world import find_subject
from wheelfix.elf.model import Machine
from wheelfix.wheel.model import Wheel

SITE = "/env/lib/python3.11/site-packages"


def reason(subject: Wheel, root: str, path: str) -> str:
    world = world_on(subject)
    (start,), (wanted,) = find_subject(world, root), find_subject(world, path)
    answer = why_not(world, start, wanted)
    assert not answer.loaded
    return "\n".join(answer.reasons)


def test_a_file_can_be_shadowed() -> None:
    subject = wheel(
        {
            "p/a.so": elf("libz.so", rpath="$ORIGIN/one:$ORIGIN/two"),
            "p/one/libz.so": elf(soname="libz.so"),
            "p/two/libz.so": elf(soname="libz.so"),
        }
    )
    text = reason(subject, "p/a.so", "p/two/libz.so")
    assert "`p/one/libz.so` is found first (rpath $ORIGIN/one)" in text
    taken = why_not(world_on(subject), f"{SITE}/p/a.so", f"{SITE}/p/one/libz.so")
    assert taken.loaded
    assert taken.reasons == ("`p/a.so` gets it for `libz.so`",)


def test_a_file_can_be_tried_and_rejected() -> None:
    subject = wheel(
        {
            "p/a.so": elf("libz.so", rpath="$ORIGIN"),
            "p/libz.so": elf(soname="libz.so", machine=Machine.AARCH64),
        }
    )
    assert "tried and rejected: wrong machine" in reason(subject, "p/a.so", "p/libz.so")


def test_both_calling_conventions_are_named() -> None:
    riscv = {"machine": Machine.RISCV, "flags": 5}
    subject = wheel(
        {
            "p/a.so": elf("libz.so", rpath="$ORIGIN", **riscv),
            "p/libz.so": elf(soname="libz.so", **{**riscv, "flags": 1}),
        },
        name="demo-1.0-cp311-cp311-linux_riscv64.whl",
    )
    said = "tried and rejected: other calling convention (lp64, not lp64d)"
    assert said in reason(subject, "p/a.so", "p/libz.so")


def test_a_file_can_be_never_requested() -> None:
    subject = wheel({"p/a.so": elf(), "p/libz.so": elf(soname="libz.so.1")})
    text = reason(subject, "p/a.so", "p/libz.so")
    assert text == "no object of this load needs `libz.so` or `libz.so.1`"


def test_a_graft_of_the_name_is_named() -> None:
    grafted = "libz-0123abcd.so.1"
    objects = {"p/a.so": elf(grafted, rpath="$ORIGIN"), f"p/{grafted}": elf(soname=grafted)}
    subject = wheel({**objects, "p/libz.so.1": elf(soname="libz.so.1")})
    text = reason(subject, "p/a.so", "p/libz.so.1")
    assert text == f"no object of this load needs `libz.so.1`; a graft of that name is: `{grafted}`"


def test_a_folder_that_users_need_not_have_is_searched() -> None:
    world = world_on(wheel({"p/a.so": elf("libz.so", rpath="/opt/lib")}))
    answer = why_not(world, f"{SITE}/p/a.so", "/opt/lib/libz.so")
    searched = "`/opt/lib` is searched, and users need not have it on "
    assert [text.partition(": ")[2][: len(searched)] for text in answer.reasons] == [searched]
    answer = why_not(replace(world, described=frozenset()), f"{SITE}/p/a.so", "/opt/lib/libz.so")
    assert "`/opt/lib` is searched: no such directory on " in answer.reasons[0]


def test_the_loader_searches_for_file_names_not_sonames() -> None:
    subject = wheel(
        {"p/a.so": elf("libq.so.1", rpath="$ORIGIN"), "p/libq.so": elf(soname="libq.so.1")}
    )
    text = reason(subject, "p/a.so", "p/libq.so")
    assert "the loader searches for a file of that name; this one is `libq.so`" in text


def test_a_runpath_disables_inherited_search_paths() -> None:
    subject = wheel(
        {
            "p/a.so": elf("libb.so", rpath="$ORIGIN/../demo.libs"),
            "demo.libs/libb.so": elf("libc1.so", soname="libb.so", runpath="/build/lib"),
            "demo.libs/libc1.so": elf(soname="libc1.so"),
        }
    )
    text = reason(subject, "p/a.so", "demo.libs/libc1.so")
    assert f"`{SITE}/demo.libs` is not searched on " in text
    assert "the DT_RUNPATH of `demo.libs/libb.so` disables inherited paths" in text


def test_a_name_can_be_already_loaded() -> None:
    subject = wheel(
        {
            "p/a.so": elf("libb.so", "libz.so", rpath="$ORIGIN"),
            "p/libb.so": elf("libz.so", soname="libb.so", rpath="$ORIGIN/own"),
            "p/libz.so": elf(soname="libz.so"),
            "p/own/libz.so": elf(soname="libz.so"),
        }
    )
    text = reason(subject, "p/a.so", "p/own/libz.so")
    assert "`p/libb.so` needs `libz.so`: `p/libz.so` has that name and was already" in text
    assert "loaded by `p/a.so`" in text
