"""Remedies for libraries that an installed environment does not find."""

import posixpath
from collections.abc import Iterator

from wheelfix.analysis.load_tree import Step
from wheelfix.analysis.world import World
from wheelfix.elf.model import names_of
from wheelfix.text import join_some
from wheelfix.wheel.grafted_name import original_name, remove_hash


def remedies(world: World, missing: tuple[Step, ...]) -> Iterator[str]:
    """Yield for each library that is not found what a user of the environment can do."""
    for step in {step.request.name: step for step in missing}.values():
        yield f"`{step.request.name}`: {_remedy(world, step)}"


def _remedy(world: World, step: Step) -> str:
    name, requester = step.request.name, world.label(step.request.requester)
    elsewhere = [
        path
        for path, elf in world.environment.files.items()
        if path in world.members and name in names_of(path, elf.soname)
    ]
    if elsewhere:
        where = join_some(map(world.label, elsewhere), 2)
        return (
            f"it is installed as {where}, which no search path of `{requester}` contains: its "
            "wheel needs `wheelfix repair`; until then, "
            f"LD_LIBRARY_PATH={posixpath.dirname(elsewhere[0])}"
        )
    if step.wheels:
        return f"pip install {' or '.join(step.wheels)}"
    if remove_hash(name) is not None:
        return (
            f"the copy of `{original_name(name)}` that the wheel of `{requester}` had is gone: "
            "install that wheel again with pip install --force-reinstall --no-cache-dir"
        )
    if step.package:
        return f"install the system package `{step.package}`"
    return (
        f"the wheel of `{requester}` does not contain it: install the system package that has it, "
        "and report it to the authors, who can graft it with `wheelfix repair`"
    )
