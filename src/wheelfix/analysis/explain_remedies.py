"""Remedies for libraries that an installed environment does not find."""

import posixpath
import shlex
from collections.abc import Callable, Iterator, Sequence

from wheelfix.analysis.load_tree import Step
from wheelfix.analysis.never_bundled import reason_not_to_bundle
from wheelfix.analysis.world import World
from wheelfix.elf.model import names_of
from wheelfix.providers.well_known import possible_wheels
from wheelfix.text import join_some
from wheelfix.wheel.grafted_name import original_name, remove_hash

Requirements = Callable[[str], Sequence[str]]
"""Return what the distribution of an installed file requires, and is not installed (PEP 508)."""


def remedies(world: World, requirements: Requirements, missing: tuple[Step, ...]) -> Iterator[str]:
    """Yield for each library that is not found what a user of the environment can do."""
    for step in {step.request.name: step for step in missing}.values():
        name, is_root = step.request.name, step.request.requester in {None, world.environment.main}
        if is_root:
            yield f"`{world.label(name)}`: install the distribution that it is of again"
        else:
            yield f"`{name}`: {_remedy(world, requirements, step)}"


def _remedy(world: World, requirements: Requirements, step: Step) -> str:
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
    if remove_hash(name) is not None:
        return (
            f"the copy of `{original_name(name)}` that the wheel of `{requester}` had is gone: "
            "install that wheel again with pip install --force-reinstall --no-cache-dir"
        )
    return _from_others(requirements, step, name, requester)


def _from_others(requirements: Requirements, step: Step, name: str, requester: str) -> str:
    """Return who brings a library that neither the wheel had nor the environment has."""
    if step.versions:
        there = join_some(step.versions, 2)
        return f"another version is installed, {there}: install releases that belong together"
    if step.package:
        return f"install the system package `{step.package}`"
    if lacking := requirements(step.request.requester or ""):
        them = "it" if len(lacking) == 1 else "them"
        return (
            f"{join_some(lacking, 3)} {'is' if len(lacking) == 1 else 'are'} not installed, and "
            f"the wheel of `{requester}` requires {them}: pip install {shlex.join(lacking)}"
        )
    if known := possible_wheels(name):
        return f"it is {known}"
    if reason := reason_not_to_bundle(name):
        return f"it must come from the machine: {reason}"
    return (
        f"neither the wheel of `{requester}` nor this machine has it: its authors can graft it "
        "with `wheelfix repair`; a system package may have it"
    )
