"""The explanation of one load: what is loaded, from where and why, and what it depends on."""

import posixpath
from collections.abc import Iterable, Iterator, Sequence

from wheelfix.analysis.explain_remedies import (
    Advice,
    Installed,
    advices,
    of_order,
    taken_from_machine,
)
from wheelfix.analysis.load_conditions import Alternative, alternatives
from wheelfix.analysis.load_failures import Failure, Lack, LoadJudge, is_source, lack_text
from wheelfix.analysis.load_tree import Step, tree_of
from wheelfix.analysis.never_bundled import reason_to_leave_out
from wheelfix.analysis.world import World
from wheelfix.elf.model import Elf
from wheelfix.grouping import flatten
from wheelfix.loader.load_values import Load
from wheelfix.named_tuple import NamedTuple
from wheelfix.python_sources.searched_places import LibrarySearch, SearchedPlace
from wheelfix.text import FEW, join_some

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
    """The install schemes, and LD_LIBRARY_PATH."""
    steps: tuple[Step, ...]
    """The tree in depth-first order; each object's requests are listed once."""
    objects: tuple[str, ...]
    """The files in the order of symbol search."""
    alternatives: tuple[Alternative, ...] = ()
    problems: tuple[str, ...] = ()
    """Reasons why it does not load although every file is found."""
    unknown: tuple[str, ...] = ()
    """What a file may lack that was not read: it is described, or of another machine."""
    choices: tuple[PythonChoice, ...] = ()
    """Files that Python sources open in its place."""
    remedies: tuple[Advice, ...] = ()
    """What to do about each problem, and in an installed environment about missing libraries."""

    lacks_lent: bool = False
    """Whether it lacks no more than libraries, and symbols that other files define, or may."""
    lacks_unread: bool = False
    """Whether it lacks symbols that only files which were not read may define."""
    may_load: bool = False
    """Whether what it lacks may be loaded before: `unknown` says how."""
    drivers: frozenset[str] = frozenset()
    """The libraries that it lacks, and that only a machine can have."""
    defective: frozenset[str] = frozenset()
    """Those that it has, and that lack versions or symbols."""

    @property
    def missing(self) -> tuple[Step, ...]:
        """The steps that fail."""
        return tuple(step for step in self.steps if step.request.failed)

    @property
    def lacking(self) -> frozenset[str]:
        """The libraries that it lacks, or that lack something."""
        return self.defective.union(step.request.name for step in self.missing)

    @property
    def ok(self) -> bool:
        """Whether it loads, or may."""
        return self.may_load or not (self.missing or self.problems)

    def with_problem(
        self, world: World, lack: Lack | None, installed: Installed | None
    ) -> "Explanation":
        """Return it with what else is known to fail, unless it has a problem already.

        What a Python source opens is a problem of that source.
        """
        is_itself = lack is not None and lack.library == self.root
        if lack is None or not (self.ok or is_itself):
            return self
        return self._replace(
            name=world.label(lack.requester) if is_source(lack.requester) else self.name,
            steps=() if is_itself else self.steps,
            alternatives=() if is_itself else self.alternatives,
            problems=(lack_text(world, lack),),
            lacks_lent=False,
            remedies=(*advices(world, installed, lack),),
        )


class Before(NamedTuple):
    """What imports load before an object."""

    opened: Sequence[str] = ()
    """What is surely loaded, as far as it was asked for."""
    for_all: Sequence[str] = ()
    """The objects that are surely opened for all others (RTLD_GLOBAL)."""
    unknown: Sequence[str] = ()
    """What may be, or why it is not known."""


def explain(
    judge: LoadJudge,
    root: str,
    after: Sequence[str] = (),
    installed: Installed | None = None,
    *,
    is_import: bool = False,
) -> Explanation:
    """Explain the load of the file `root`, once the files `after` are loaded.

    Of an environment, `installed` tells what is there, for remedies.
    Of an import, and of a file with any init function, its init function is asked for, too.
    """
    world = judge.world
    loads = world.process(root, after)
    world.budget.spend(_STEPS_A_REQUEST * len(loads[-1].requests), "the explanations", root)
    steps = tuple(tree_of(world, loads))
    elements = world.environment.library_path
    library_path = f"with LD_LIBRARY_PATH={':'.join(elements)}" if elements else ""
    every = list(judge.lacks(loads[-1]))
    lacks = [lack for lack in every if lack.failure is not Failure.FILE]
    files = {lack.library: lack for lack in every if lack.failure is Failure.FILE}.values()
    if is_import or (root in world.environment.files and world.environment.files[root].is_module):
        lacks += judge.init_lack(loads[-1])
    undefined = (lack for lack in lacks if lack.is_known and lack.failure is Failure.SYMBOL)
    nowhere = [lack for lack in undefined if not lack.definers]
    taken = taken_from_machine(world, installed, loads[-1]) if installed else ()
    # Where another import may load one of these, it may be that one.
    there = {*world.members, *world.others}
    of_machine = [m for m in taken if there.isdisjoint(world.carriers.get(m.library, ()))]
    drivers = frozenset[str]() if installed else drivers_among(world, [f.library for f in files])
    return Explanation(
        root=root,
        name=world.label(root),
        target=world.name,
        where=", ".join(filter(None, (world.where, library_path))),
        steps=steps,
        objects=loads[-1].objects,
        alternatives=alternatives(world, root, after, loads[-1], steps),
        problems=tuple(lack_text(world, lack) for lack in lacks if lack.is_known),
        unknown=(
            *(lack_text(world, lack) for lack in lacks if not lack.is_known),
            *(f"whether it loads on another machine: {lack_text(world, m)}" for m in of_machine),
            *of_drivers(drivers),
        ),
        drivers=drivers,
        defective=_defective(loads[-1], lacks, world),
        choices=tuple(python_choices(world, root)),
        lacks_lent=all(lack.definers or lack in nowhere for lack in lacks if lack.is_known),
        lacks_unread=bool(nowhere),
        remedies=(
            *flatten(
                advices(world, installed, lack, loads[-1].objects)
                for lack in (*files, *of_machine)
                if installed
            ),
            *flatten(
                of_order(judge, loads, lack, installed) or advices(world, installed, lack)
                for lack in lacks
                if lack.is_known
            ),
        ),
    )


def _defective(load: Load, lacks: Sequence[Lack], world: World) -> frozenset[str]:
    """Return the libraries that lack versions, or a symbol that an installed one should have."""
    every = ((lack, request) for lack in lacks if lack.is_known for request in load.requests)
    asked = [(lack, request) for lack, request in every if request.requester == lack.requester]
    own = {request.name for lack, request in asked if request.name == lack.library}
    nowhere = (
        (lack, request)
        for lack, request in asked
        if lack.failure is Failure.SYMBOL and not lack.library
        if not lack.definers or {*lack.definers}.intersection(world.carriers.get(request.name, ()))
    )
    paths = {*world.members, *world.others}
    return frozenset(own).union(request.name for _, request in nowhere if request.result in paths)


def drivers_among(world: World, missing: Iterable[str]) -> frozenset[str]:
    """Return the libraries of drivers that a machine may have, or not.

    The image of a target lacks those that a package of its distribution has.
    """
    return frozenset(n for n in missing if reason_to_leave_out(n) and n not in world.packages)


def of_drivers(drivers: Iterable[str]) -> Sequence[str]:
    """Return that it is not known whether a machine has the libraries of drivers."""
    names = join_some(sorted(drivers), FEW)
    return [f"whether the machine has {names}"] if names else []


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
    files = world.file_system
    chosen = PythonChoice(search=search, name=name, path=root, stop=None)
    for stop in search.stops:
        if stop.variable is None:
            break
        for directory in world.variables.get(stop.variable, "").split(":"):
            folder = directory.strip()
            path, there = files.file(f"{folder}/{name}")
            if directory and (isinstance(there, Elf) or path in world.environment.broken):
                elsewhere = chosen._replace(path=path, stop=stop, directory=folder)
                return chosen if path == root else elsewhere
    return chosen
