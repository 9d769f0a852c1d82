"""Promises of loaded wheels: what is kept from before an edit is what is computed anew after it."""

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from tests.analysis.test_needed_judgement import Defined, uses
from tests.support.values import elf, wheel
from wheelfix.analysis.loaded_wheel import LoadedWheel
from wheelfix.analysis.needed_judgement import judge_needed
from wheelfix.analysis.world import Installed
from wheelfix.elf.model import Elf
from wheelfix.settings import Settings
from wheelfix.wheel.model import Wheel

NAMES = [f"lib{letter}.so" for letter in "abcdef"]
PATHS = ("$ORIGIN", "$ORIGIN/../q", "/nowhere", None)


def some_object(name: str, random: Random) -> Elf:
    needed = random.sample(NAMES, random.randrange(4))
    symbols = uses(*random.sample("abcdefg", random.randrange(4)), weak=random.random() < 0.2)
    path = random.choice(PATHS)
    how: dict[str, Any] = {random.choice(("rpath", "runpath")): path} if path else {}
    return elf(*needed, soname=name, undefined=symbols, **how)


def edited(objects: Mapping[str, Elf], random: Random) -> dict[str, Elf]:
    """Return the objects after an edit of one or two: entries, paths, names or symbols."""
    after = dict(objects)
    for member in random.sample(sorted(after), random.randrange(1, 3)):
        other = some_object(after[member].soname or "", random)
        field = random.choice(("needed", "rpath", "runpath", "undefined", "soname"))
        changed: dict[str, Any] = {field: getattr(other, field)}
        if field == "soname":
            changed[field] = random.choice(NAMES)
        after[member] = after[member]._replace(**changed)
    return after


def answers(loaded: LoadedWheel, definitions: Defined) -> object:
    own = {
        member: (each.load, each.results, each.decisions, tuple(each.unbound))
        for member, each in loaded.own.items()
    }
    return own, judge_needed(loaded, Settings(), definitions)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_kept_from_before_an_edit_is_what_is_computed_anew(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - not for cryptography
    folders = [random.choice("pq") for _ in NAMES]
    objects = {
        f"{folder}/{name}": some_object(name, random)
        for folder, name in zip(folders, NAMES, strict=True)
    }
    defined = {member: random.sample("abcdefg", random.randrange(4)) for member in objects}
    definitions = Defined(defined, ())

    def around(subject: Wheel, before: LoadedWheel | None) -> LoadedWheel:
        world = Installed(wheel=subject).worlds[0]
        return LoadedWheel.around(world, subject, definitions, before)

    kept: LoadedWheel | None = None
    for _ in range(5):
        subject = wheel(objects)
        kept = around(subject, kept)
        assert answers(kept, definitions) == answers(around(subject, None), definitions)
        objects = edited(objects, random)


def test_the_loads_without_an_edited_object_are_kept() -> None:
    objects = {"p/liba.so": elf("libb.so", soname="liba.so"), "p/libb.so": elf(soname="libb.so")}
    definitions = Defined({}, ())
    before = LoadedWheel.around(
        Installed(wheel=wheel(objects)).worlds[0], wheel(objects), definitions
    )
    after = wheel(objects | {"p/liba.so": elf(soname="liba.so")})
    loaded = LoadedWheel.around(Installed(wheel=after).worlds[0], after, definitions, before)
    assert loaded.own["p/libb.so"] is before.own["p/libb.so"]
    assert loaded.own["p/liba.so"] is not before.own["p/liba.so"]
