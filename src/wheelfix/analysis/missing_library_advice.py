"""Remedies for libraries that an installed environment does not find."""

import posixpath
from collections.abc import Iterator

from wheelfix.analysis.installation import Installation
from wheelfix.analysis.load_tree import Step
from wheelfix.text import join_some
from wheelfix.wheel.grafted_name import original_name, unhashed


def remedies(installation: Installation, missing: tuple[Step, ...]) -> Iterator[str]:
    """Yield for each library that is not found what a user of the environment can do."""
    for step in {step.request.name: step for step in missing}.values():
        yield f"`{step.request.name}`: {_remedy(installation, step)}"


def _remedy(installation: Installation, step: Step) -> str:
    name, requester = step.request.name, installation.label(step.request.requester)
    package = requester.partition("/")[0]
    elsewhere = [
        path
        for path, elf in installation.environment.files.items()
        if path in installation.members and name in {posixpath.basename(path), elf.soname}
    ]
    if elsewhere:
        where = join_some(map(installation.label, elsewhere), 2)
        return (
            f"it is installed as {where}, which no search path of `{requester}` contains: its "
            "wheel needs `wheelfix repair`; until then, "
            f"LD_LIBRARY_PATH={posixpath.dirname(elsewhere[0])}"
        )
    if step.wheels:
        return f"pip install {' or '.join(step.wheels)}"
    if unhashed(name) is not None:
        return (
            f"the copy of `{original_name(name)}` in the wheel of `{package}` is gone: install "
            "that wheel again with pip install --force-reinstall --no-cache-dir"
        )
    if step.package:
        return f"install the system package `{step.package}`"
    return (
        f"the wheel of `{package}` does not contain it: install the system package that has it, "
        "and report it to the authors, who can graft it with `wheelfix repair`"
    )
