"""The world: what is installed, and what a load there can reach."""

import random

import pytest

from tests.support.values import elf, wheel, world_on
from wheelfix.analysis.world import Installed, Neighbor, Origin, Provenance, World
from wheelfix.elf.model import Elf
from wheelfix.loader.targets import find
from wheelfix.rules.context import Context
from wheelfix.settings import Settings
from wheelfix.wheel.edits import AddEntry, ClearExecstack, Edit
from wheelfix.wheel.model import Key, Wheel

SITE = "/env/lib/python3.11/site-packages"
PRO = Neighbor(name="pro", elfs={(Key.PLATLIB, "pro/libpro.so.1"): elf(soname="libpro.so.1")})


def plugin() -> Wheel:
    """A module that needs a library beside it, one of a neighbor, and one of the platform."""
    return wheel(
        {
            "p/a.so": elf("libb.so", "libpro.so.1", "libz.so.1", runpath="$ORIGIN:$ORIGIN/../pro"),
            "p/libb.so": elf(soname="libb.so"),
            "p/c.so": elf("libb.so", runpath="$ORIGIN"),
        }
    )


def lacking(world: World, root: str) -> set[str]:
    return {request.name for request in world.load(root).missing}


def test_the_machine_and_the_neighbors_decide_what_is_found() -> None:
    bare = Installed(wheel=plugin()).worlds[0]
    assert lacking(bare, "p/a.so") == {"libpro.so.1", "libz.so.1", "libc.so.6"}
    assert lacking(world_on(plugin()), "p/a.so") == {"libpro.so.1"}
    assert lacking(world_on(plugin(), neighbors=(PRO,)), "p/a.so") == set()
    with_python = bare.on(find("debian:12"))
    assert lacking(with_python, "p/a.so") == {"libpro.so.1"}
    assert (bare.name, with_python.name) == ("", "debian:12")


def test_a_file_belongs_to_the_wheel_a_neighbor_python_or_the_platform() -> None:
    world = world_on(plugin(), "debian:12", neighbors=(PRO,))
    program = world.environment.main or ""
    assert world.origin(f"{SITE}/p/a.so") == Origin(Provenance.WHEEL, "p/a.so")
    assert world.origin(f"{SITE}/pro/libpro.so.1") == Origin(
        Provenance.OTHER, "pro!pro/libpro.so.1"
    )
    assert world.origin(program) == Origin(Provenance.PYTHON, program)
    assert world.origin("/lib/x86_64-linux-gnu/libz.so.1").provenance is Provenance.PLATFORM
    assert world.label(None) == "the program"


def test_a_file_of_the_wheel_takes_the_place_of_a_neighbor_s() -> None:
    twin = Neighbor(name="twin", elfs={(Key.PLATLIB, "p/libb.so"): elf("libgone.so")})
    world = world_on(plugin(), neighbors=(twin, PRO))
    assert lacking(world, "p/a.so") == set()
    assert world.origin(f"{SITE}/p/libb.so").provenance is Provenance.WHEEL


def test_a_machine_has_the_scheme_that_it_prefers_and_the_others_are_elsewhere() -> None:
    data = {"demo-1.0.data/data/lib/libd.so": elf(), "p/a.so": elf()}
    world = world_on(wheel(data), "conda")
    assert [scheme.name for scheme in world.schemes] == ["conda"]
    assert world.elsewhere
    assert all(other.name == world.name for other in world.elsewhere)
    assert not any(world.schemes[0] in other.schemes for other in world.elsewhere)


def test_objects_that_need_each_other_in_a_circle_are_loaded_first() -> None:
    ring = {f"p/lib{n}.so": elf(f"lib{1 - n}.so", soname=f"lib{n}.so") for n in range(2)}
    world = world_on(wheel({"p/a.so": elf("libx.so"), "p/libx.so": elf(), **ring}))
    roots = {world.label(path) for path in world.first_loads}
    assert roots == {"p/a.so", "p/libx.so", "p/lib0.so", "p/lib1.so"}


# --- Loads of a world that follows another --------------------------------------------------------


def context(subject: Wheel) -> Context:
    return Context(wheel=subject, settings=Settings())


def kept(before: Context, edit: Edit) -> set[str]:
    """Return the members whose loads are not computed again after `edit`."""
    loads = dict(before.world.loads)
    after = before.after([edit])
    return {member for member, load in after.world.loads.items() if loads.get(member) is load}


def test_an_edit_keeps_the_loads_that_it_does_not_touch() -> None:
    everything = {"p/a.so", "p/libb.so", "p/c.so"}
    start = context(plugin())
    assert kept(start, ClearExecstack(member="p/a.so")) == everything
    start = context(plugin())
    assert kept(start, AddEntry(member="p/c.so", entry="$ORIGIN/x")) == everything - {"p/c.so"}
    start = context(plugin())
    assert kept(start, AddEntry(member="p/libb.so", entry="$ORIGIN/x")) == set()


def test_a_new_file_may_be_found_by_every_load() -> None:
    subject = wheel({"p/a.so": elf("libb.so", runpath="$ORIGIN")})
    before = Installed(wheel=subject).worlds[0]
    assert "libb.so" in lacking(before, "p/a.so")
    elfs = {**subject.elfs, "p/libb.so": elf(soname="libb.so")}
    after = Installed(wheel=wheel(elfs)).worlds[0]
    after.keep_loads(before)
    assert "libb.so" not in lacking(after, "p/a.so")


def test_a_file_that_was_refused_may_be_taken() -> None:
    strange = elf(soname="libb.so", osabi=200)
    elfs = {"p/a.so": elf("libb.so", runpath="$ORIGIN"), "p/libb.so": strange}
    before = Installed(wheel=wheel(elfs)).worlds[0]
    assert "libb.so" in lacking(before, "p/a.so")
    after = Installed(wheel=wheel({**elfs, "p/libb.so": strange._replace(osabi=0)})).worlds[0]
    after.keep_loads(before)
    assert "libb.so" not in lacking(after, "p/a.so")


@pytest.mark.parametrize("seed", range(40))
def test_loads_that_are_kept_are_those_that_would_be_computed(seed: int) -> None:
    source = random.Random(seed)  # noqa: S311 - no secret
    before = wheel(random_objects(source))
    changed = dict(before.elfs)
    for member in source.sample(sorted(changed), source.randint(0, 3)):
        changed[member] = random_object(source, member)
    old, new = (Installed(wheel=each).worlds[0] for each in (before, wheel(changed)))
    assert old.loads
    new.keep_loads(old)
    assert new.loads == Installed(wheel=wheel(changed)).worlds[0].loads


def random_objects(source: random.Random) -> dict[str, Elf]:
    members = [f"{folder}/lib{n}.so" for folder in ("p", "q") for n in range(4)]
    return {member: random_object(source, member) for member in members}


def random_object(source: random.Random, member: str) -> Elf:
    names = [f"lib{n}.so" for n in range(5)]
    path = ":".join(source.sample(["$ORIGIN", "$ORIGIN/../p", "$ORIGIN/../q"], 2))
    tag = source.choice(["rpath", "runpath"])
    return elf(
        *source.sample(names, source.randint(0, 2)),
        soname=source.choice([member.rpartition("/")[2], source.choice(names), None]),
        osabi=source.choice([0, 0, 0, 200]),
        **{tag: source.choice([path, None])},
    )


def test_new_metadata_keeps_the_loads_unless_a_search_path_leads_through_it() -> None:
    folder = "demo-1.0.dist-info/sboms"
    for entry, kept_all in (("$ORIGIN", True), (f"$ORIGIN/../{folder}/../../p", False)):
        objects = {"p/a.so": elf("libb.so", runpath=entry), "p/libb.so": elf(soname="libb.so")}
        before, after = (
            Installed(wheel=wheel(objects, *files)).worlds[0]
            for files in ((), (f"{folder}/auditwheel.cdx.json",))
        )
        loads = dict(before.loads)
        after.keep_loads(before)
        assert (after.loads["p/a.so"] is loads["p/a.so"]) == kept_all
        assert ("libb.so" in lacking(after, "p/a.so")) is False
        assert ("libb.so" in lacking(before, "p/a.so")) is not kept_all
