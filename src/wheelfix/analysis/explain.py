"""The explanation of one load: what is loaded, from where and why, and what it depends on."""

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from wheelfix.analysis.installation import Installation, Installations, loads_of
from wheelfix.analysis.load_conditions import Alternative, alternatives, scheme_alternatives
from wheelfix.analysis.load_tree import Step, tree_of
from wheelfix.analysis.missing_library_advice import remedies
from wheelfix.elf.model import Elf
from wheelfix.loader.file_system import FileSystem
from wheelfix.loader.load_values import Load
from wheelfix.loader.target_machines import versions_too_new
from wheelfix.wheel.python_library_searches import LibrarySearch, SearchedPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonChoice:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
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


def explain(installation: Installation, root: str, after: Sequence[str] = ()) -> Explanation:
    """Explain the load of the file `root`, once the files `after` are loaded."""
    loads = loads_of(installation, root, after)
    steps = tuple(tree_of(installation, loads))
    return Explanation(
        root=root,
        name=installation.label(root),
        target=installation.name,
        where=installation.where,
        steps=steps,
        objects=loads[-1].objects,
        alternatives=alternatives(installation, root, after, loads[-1], steps),
        problems=tuple(_version_problems(installation, loads[-1])),
        choices=tuple(python_choices(installation, root)),
    )


def explain_installed(
    installation: Installation, root: str, after: Sequence[str] = ()
) -> Explanation:
    """Explain the load of the file `root` in an installed environment, with remedies."""
    found = explain(installation, root, after)
    return replace(found, remedies=tuple(remedies(installation, found.missing)))


def explain_everywhere(
    installations: Installations, root: str, after: Sequence[str] = ()
) -> Explanation:
    """Explain the load of the file `root`, with the differences in other install schemes."""
    found = explain(installations.here, root, after)
    elsewhere = tuple(scheme_alternatives(installations, root))
    return replace(found, alternatives=(*found.alternatives, *elsewhere))


def _version_problems(installation: Installation, load: Load) -> Iterator[str]:
    """Yield the symbol versions that objects need and that are newer than the platform's."""
    for file in load.objects:
        elf = installation.environment.files.get(file)
        too_new = versions_too_new(elf, installation.versions) if elf else ()
        for library, version, newest in too_new:
            yield (
                f"`{installation.label(file)}` needs {version} of {library}; "
                f"{installation.name} has {newest}"
            )


def python_choices(installation: Installation, root: str) -> Iterator[PythonChoice]:
    """Yield what Python sources open for the library `root`, if they read variables."""
    member = installation.members.get(root)
    if member is None:
        return
    name = posixpath.basename(root)
    for search in installation.searches.found:
        if search.concerns(member) and search.variables:
            yield _choice(installation, search, root, name)


def _choice(
    installation: Installation, search: LibrarySearch, root: str, name: str
) -> PythonChoice:
    files = FileSystem(installation.environment, installation.budget)
    chosen = PythonChoice(search=search, name=name, path=root, stop=None)
    for stop in search.stops:
        if stop.variable is None:
            break
        for directory in installation.variables.get(stop.variable, "").split(":"):
            folder = directory.strip()
            found, there = files.file(f"{folder}/{name}")
            if directory and (isinstance(there, Elf) or found in installation.environment.broken):
                elsewhere = replace(chosen, path=found, stop=stop, directory=folder)
                return chosen if found == root else elsewhere
    return chosen
