"""The explanation of one load: what is loaded, from where and why, and what it depends on."""

import posixpath
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from wheelfix.analysis.explain_remedies import Requirements, remedies
from wheelfix.analysis.load_conditions import Alternative, alternatives
from wheelfix.analysis.load_tree import Step, tree_of
from wheelfix.analysis.world import World
from wheelfix.elf.model import Elf
from wheelfix.loader.file_system import FileSystem
from wheelfix.loader.load_values import Load
from wheelfix.python_sources.searched_folders import LibrarySearch, SearchedPlace

_STEPS_A_REQUEST = 10
"""What its step, its alternatives and its text take."""


class PythonChoice(NamedTuple):
    """The file that a Python source opens for a library, by its own search."""

    search: LibrarySearch
    name: str
    """The file name of the library."""
    path: str
    """The first file of that name in the order of the search."""
    stop: SearchedPlace | None
    """The variable that led there; None for the library itself."""
    directory: str | None = None
    """The directory of the variable."""

    @property
    def elsewhere(self) -> bool:
        """Whether it is another file than the requested one."""
        return self.stop is not None


class Explanation(NamedTuple):
    """The load of one object."""

    root: str
    """The installed path."""
    name: str
    target: str
    where: str
    """The install schemes."""
    steps: tuple[Step, ...]
    """The tree in depth-first order; each object's requests are listed once."""
    objects: tuple[str, ...]
    """The files in the order of symbol search."""
    alternatives: tuple[Alternative, ...] = ()
    problems: tuple[str, ...] = ()
    """Reasons why it does not load although every file is found."""
    choices: tuple[PythonChoice, ...] = ()
    """Files that Python sources open in its place."""
    remedies: tuple[str, ...] = ()
    """In an installed environment: what to do about each library that is not found."""

    @property
    def missing(self) -> tuple[Step, ...]:
        """The steps that fail."""
        return tuple(step for step in self.steps if step.request.failed)

    @property
    def ok(self) -> bool:
        """Whether it loads."""
        return not self.missing and not self.problems


def explain(world: World, root: str, after: Sequence[str] = ()) -> Explanation:
    """Explain the load of the file `root`, once the files `after` are loaded."""
    loads = world.process(root, after)
    world.budget.spend(_STEPS_A_REQUEST * len(loads[-1].requests), "the explanations", root)
    steps = tuple(tree_of(world, loads))
    return Explanation(
        root=root,
        name=world.label(root),
        target=world.name,
        where=world.where,
        steps=steps,
        objects=loads[-1].objects,
        alternatives=alternatives(world, root, after, loads[-1], steps),
        problems=tuple(_version_problems(world, loads[-1])),
        choices=tuple(python_choices(world, root)),
    )


def explain_installed(
    world: World, requirements: Requirements, root: str, after: Sequence[str] = ()
) -> Explanation:
    """Explain the load of the file `root` in an installed environment, with remedies."""
    found = explain(world, root, after)
    return found._replace(remedies=tuple(remedies(world, requirements, found.missing)))


def _version_problems(world: World, load: Load) -> Iterator[str]:
    """Yield the symbol versions that objects need and that are newer than the platform's."""
    for path, lacking in world.lacking_versions([load]):
        if lacking.is_missing:
            yield (
                f"`{world.label(path)}` needs {lacking.version} of {lacking.library}; "
                f"{world.name} has {lacking.newest}"
            )


def python_choices(world: World, root: str) -> Iterator[PythonChoice]:
    """Yield what Python sources open for the library `root`, if they read variables."""
    member = world.members.get(root)
    if member is None:
        return
    name = posixpath.basename(root)
    for search in world.searches.found:
        if search.concerns(member) and search.variables:
            yield _choice(world, search, root, name)


def _choice(world: World, search: LibrarySearch, root: str, name: str) -> PythonChoice:
    files = FileSystem(world.environment, world.budget)
    chosen = PythonChoice(search=search, name=name, path=root, stop=None)
    for stop in search.stops:
        if stop.variable is None:
            break
        for directory in world.variables.get(stop.variable, "").split(":"):
            folder = directory.strip()
            found, there = files.file(f"{folder}/{name}")
            if directory and (isinstance(there, Elf) or found in world.environment.broken):
                elsewhere = chosen._replace(path=found, stop=stop, directory=folder)
                return chosen if found == root else elsewhere
    return chosen
