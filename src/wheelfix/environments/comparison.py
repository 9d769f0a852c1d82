"""Why the same import loads other libraries in another environment: the first difference."""

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

from wheelfix.analysis.explain import python_choices
from wheelfix.analysis.load_failures import Failure, Lack, lack_text
from wheelfix.analysis.load_tree import describe_search, flat_steps, visible_requests
from wheelfix.analysis.world import Provenance, World
from wheelfix.environments.modules import InstalledModules
from wheelfix.environments.run_environment_rules import find_in_environment
from wheelfix.loader.load_values import Candidate, How, Load, Request, SearchOutcome
from wheelfix.loader.python_api import MODULE_SUFFIX
from wheelfix.named_tuple import NamedTuple
from wheelfix.rules.findings import Severity
from wheelfix.settings import Settings
from wheelfix.text import are, join_some

_ORDER = list(How)
"""The steps of the search are declared in the loader's order."""
_BETWEEN_MODULES = frozenset({"WF953", "WF954", "WF955", "WF956"})
"""The rules on modules that do not go together."""


class Side(NamedTuple):
    """What one environment loads for a name."""

    file: str | None
    """By its name in site-packages, or its path; None if it is not found or not asked for."""
    distribution: str
    """Empty for none."""
    hash: str
    """As RECORD spells it; empty without one."""
    how: str
    """The step of the search that found it, in words."""


class LoadDifference(NamedTuple):
    """The first request of an import that is answered otherwise in another environment."""

    module: str
    requester: str
    name: str
    sides: tuple[Side, Side]
    cause: str
    others: int
    """So many other modules load something else, too."""
    fails: str = ""
    """The environment in which the import fails; empty if it does not."""


class Compared(NamedTuple):
    """Two environments, and the places that their loader is configured at."""

    here: InstalledModules
    there: InstalledModules
    names: tuple[str, str]
    """As the user names them."""
    configured: Mapping[str, str]
    """Directory of ld.so.conf -> the file and line that names it."""

    not_read: tuple[Sequence[str], Sequence[str]] = ((), ())
    """What Python finds beside what was read of each, in words."""

    @property
    def environments(self) -> Sequence[InstalledModules]:
        """Both."""
        return self.here, self.there

    @property
    def failing(self) -> Sequence[Mapping[str, tuple[str, Lack]]]:
        """What does not load in each: by its name, with path and lack."""
        return [
            {
                _name(modules, path): (path, lack)
                for path, lack in (*modules.failures, *modules.undefined_anywhere())
            }
            for modules in self.environments
        ]

    @property
    def twins(self) -> Mapping[str, tuple[str, str]]:
        """What is imported or opened in both environments -> its paths."""
        here, there = map(_imported, self.environments)
        return {module: (path, there[module]) for module, path in here.items() if module in there}

    @property
    def is_known(self) -> bool:
        """Whether something was compared, and what was not read is the same for both."""
        return bool(self.twins) and self.not_read[0] == self.not_read[1]


def first_difference(compared: Compared) -> LoadDifference | None:
    """Return the first difference in what the modules of both environments load.

    None if all that both have load the same files of the same distributions.
    """
    loads = (_compare(compared, module, *paths) for module, paths in compared.twins.items())
    differing = [
        *_failures_of_one(compared),
        *_findings_of_one(compared),
        *_chosen(compared),
        *(difference for difference in loads if difference is not None),
        *_of_one(compared),
    ]
    return differing[0]._replace(others=len(differing) - 1) if differing else None


def _failures_of_one(compared: Compared) -> Iterator[LoadDifference]:
    """Yield what fails in one environment, and loads in the other one, or is not opened there."""
    failing, twins = compared.failing, compared.twins
    for number, (modules, other) in enumerate(_each_first(compared)):
        there = {_name(other, path): path for path in (*other.modules, *other.world.members)}
        for name, (path, lack) in failing[number].items():
            is_search = lack.failure is Failure.FILE and lack.library != path and name in twins
            if name in failing[1 - number] or is_search:
                continue
            mine = Side(None, modules.distribution(path), "", lack_text(modules.world, lack))
            twin = there.get(name)
            text = "it loads" if twin else _without(other, [modules.modules.get(path, name)])
            its = Side(None, other.distribution(twin or ""), "", text)
            cause = _definers(compared, number, _definer(other, twin, lack) if twin else "")
            requester = modules.world.label(lack.requester)
            what, sides = "" if lack.library == path else lack.what, _in_turn(number, mine, its)
            yield LoadDifference(name, requester, what, sides, cause, 0, compared.names[number])


def _in_turn(number: int, mine: Side, its: Side) -> tuple[Side, Side]:
    return (mine, its) if number == 0 else (its, mine)


def _each_first(compared: Compared) -> Sequence[tuple[InstalledModules, InstalledModules]]:
    return (compared.here, compared.there), (compared.there, compared.here)


def _definers(compared: Compared, number: int, definer: str) -> str:
    """Return what the one environment, and the other one, have of a distribution."""
    own, names = definer.partition(" ")[0], (compared.names[number], compared.names[1 - number])
    all_of = compared.environments[number].distributions
    same = next((d for d in all_of if d.partition(" ")[0] == own), "none" if own else "")
    return f"`{names[1]}` has {definer}, `{names[0]}` has {same}" if same != definer else ""


def _findings_of_one(compared: Compared) -> Iterator[LoadDifference]:
    """Yield what goes wrong between modules of one environment: by order, space or sharing."""
    found = [
        {
            (finding.code, _plain(finding.member or ""), _plain(finding.entry or "")): finding
            for finding in find_in_environment(modules, Settings())
            if finding.code in _BETWEEN_MODULES and finding.severity > Severity.NOTE
        }
        for modules in compared.environments
    ]
    for number, key in product((0, 1), dict.fromkeys((*found[0], *found[1]))):
        finding = found[number].get(key)
        if finding is not None and key not in found[1 - number]:
            module = finding.prediction.imports[-1] if finding.prediction else key[1]
            asked = finding.prediction.imports if finding.prediction else [module]
            text = _without(compared.environments[1 - number], asked)
            mine, its = Side(None, "", "", finding.message), Side(None, "", "", text)
            is_failing = finding.prediction and finding.prediction.error
            cause = "; ".join(finding.notes)
            sides = _in_turn(number, mine, its)
            fails = compared.names[number] if is_failing else ""
            yield LoadDifference(module, key[1], "", sides, cause, 0, fails)


def _without(modules: InstalledModules, names: Iterable[str]) -> str:
    """Return what is to be said of an environment in which the import of `names` does not fail."""
    tops = {name.replace("/", ".").partition(".")[0] for name in names} - {""}
    there = {module.partition(".")[0] for module in modules.modules.values()}
    absent = sorted(top for top in tops - there if not modules.symbols.contents.has_source(top))
    return f"{join_some(absent)} {are(absent)} not there" if absent else "nothing of this kind"


def _chosen(compared: Compared) -> Iterator[LoadDifference]:
    """Yield the libraries that a variable of the first environment leads its sources to."""
    here = compared.here
    for path, label in here.world.members.items():
        for (source, *_), name, chosen, stop, folder in python_choices(here.world, path):
            if stop is not None:
                mine = Side(chosen, "", "", f"by {stop.variable} ({source}:{stop.line})")
                own = Side(label, here.distribution(path), "", "without the variable")
                cause = f"only in `{compared.names[0]}`, {stop.variable} has `{folder}`"
                yield LoadDifference(label, source, name, (mine, own), cause, 0)


def _of_one(compared: Compared) -> Iterator[LoadDifference]:
    """Yield the modules and libraries that only one of the environments has."""
    names = [_there(modules) for modules in compared.environments]
    for number, (modules, _) in enumerate(_each_first(compared)):
        for name, path in names[number].items():
            if name not in names[1 - number]:
                owner, file = modules.distribution(path), _plain(modules.world.label(path))
                mine = Side(file, owner, "", "it is there")
                sides = _in_turn(number, mine, Side(None, "", "", "it is not there"))
                cause = _definers(compared, 1 - number, owner)
                yield LoadDifference(name, file, "", sides, cause, 0)


def _imported(modules: InstalledModules) -> Mapping[str, str]:
    """Return what is imported or opened, by its name, for the Python of the environment."""
    return {_name(modules, path): path for path in modules.modules if modules.fits(path)}


def _there(modules: InstalledModules) -> Mapping[str, str]:
    """Return all objects, by their names; where the order is known, what is imported in it."""
    world = modules.world
    names = {} if modules.order else {_plain(name): path for path, name in world.members.items()}
    for path in modules.modules:
        names.pop(_plain(world.label(path)), None)
    return {
        name: path
        for name, path in (names | dict(_imported(modules))).items()
        if path in world.environment.files and path not in modules.interpreter
    }


def _definer(modules: InstalledModules, path: str, lack: Lack) -> str:
    """Return the distribution of the file that gives the object at `path` what another lacks."""
    load = modules.usual(path)
    defined = dict(modules.symbols.bindings(load, path))
    results = {request.name: request.result for request in load.requests}
    definer = defined.get(lack.symbols[0]) if lack.symbols else None
    return modules.distribution(definer or results.get(lack.library) or path)


def _name(modules: InstalledModules, path: str) -> str:
    """Return what an object is called in both environments: as it is imported, or its place."""
    is_module = path in modules.modules and path not in modules.opened
    return modules.modules[path] if is_module else modules.in_site(path)


def _compare(compared: Compared, module: str, path: str, twin: str) -> LoadDifference | None:
    mine = _requests(compared.here.world, path)
    theirs = _requests(compared.there.world, twin)
    for key in dict.fromkeys((*mine, *theirs)):
        request, other = mine.get(key), theirs.get(key)
        sides = _side(compared, 0, request), _side(compared, 1, other)
        if sides[0][:3] != sides[1][:3] or _is_rebuilt(compared, request, other):
            cause = _cause(compared, request, other, sides)
            return LoadDifference(module, key[0], key[1], sides, cause, 0)
    return None


def _is_rebuilt(compared: Compared, *requests: Request | None) -> bool:
    """Return whether two files of one name, without a hash in a RECORD, differ."""
    paths = [(asked and asked.result) or "" for asked in requests]
    both = zip(compared.environments, paths, strict=True)
    unknown = all(path in m.world.members and m.content(path) == path for m, path in both)
    return unknown and not compared.here.symbols.contents.are_equal(*paths)


def _requests(world: World, path: str) -> dict[tuple[str, str], Request]:
    """Return the requests of a load by the requester, without the tag of a Python, and the name."""
    requests: dict[tuple[str, str], Request] = {}
    for request in visible_requests(world.load(path))[1:]:
        requests.setdefault((_plain(world.label(request.requester)), request.name), request)
    return requests


def _side(compared: Compared, number: int, request: Request | None) -> Side:
    modules = compared.environments[number]
    if request is None:
        return Side(None, "", "", "not needed")
    world, result = modules.world, request.result
    (step,) = flat_steps(world, Load(request.name, (), (request,)))
    how = describe_search(world, step)
    if result is None:
        return Side(None, "", "", how)
    last = request.candidates[-1] if request.candidates else None
    if last and last.how is How.CACHE:
        place = compared.configured.get(posixpath.dirname(last.path))
        how = f"ld.so.cache, {place}" if place else "ld.so.cache"
    # Each environment may have a Python of its own, whose libraries are not in question.
    is_python = world.origin(result).provenance is Provenance.PYTHON
    file = posixpath.basename(result) if is_python else _plain(world.label(result))
    owners = modules.owners.get(result, ())
    return Side(file, modules.distribution(result), owners[0].hash if owners else "", how)


def _plain(name: str) -> str:
    """Return the name of a file without the tag of a Python."""
    return MODULE_SUFFIX.sub(".so", name)


# --- Causes ---------------------------------------------------------------------------------------

_Step = tuple[How, str | None, str | None]
"""A step of a search: how, the entry, and the object that has it, by its name."""


def _cause(
    compared: Compared, first: Request | None, other: Request | None, sides: tuple[Side, Side]
) -> str:
    """Return what makes the answers to one request differ."""
    if first is None or other is None:
        return _only_one_needs(compared, first, other)
    if sides[0].file == sides[1].file:
        return _other_build(compared, sides)
    searches = [
        _steps(modules.world, request)
        for modules, request in zip(compared.environments, (first, other), strict=True)
    ]
    winners = [
        (number, *search[-1])
        for number, search in enumerate(searches)
        if search and search[-1][1].outcome is SearchOutcome.FOUND
    ]
    winners.sort(key=lambda winner: _ORDER.index(winner[1][0]))
    for number, step, candidate in winners:
        if step in [other_step for other_step, _ in searches[1 - number]]:
            file = _plain(compared.environments[number].world.label(candidate.path))
            return (
                f"`{posixpath.normpath(file)}` is there in `{compared.names[number]}`, and not in "
                f"`{compared.names[1 - number]}`"
            )
    for number, step, candidate in winners:
        return _led_by(compared, number, step, candidate)
    return "another import, or another library of it, has loaded the name before"


def _steps(world: World, request: Request) -> list[tuple[_Step, Candidate]]:
    """Return the steps of a search, each with its last candidate."""
    steps: dict[_Step, Candidate] = {}
    for candidate in request.candidates:
        owner = _plain(world.label(candidate.owner)) if candidate.owner else None
        steps[candidate.how, candidate.entry, owner] = candidate
    return list(steps.items())


def _led_by(compared: Compared, number: int, step: _Step, candidate: Candidate) -> str:
    """Return the configuration that only one of the environments has."""
    how, entry, owner = step
    name, modules = compared.names[number], compared.environments[number]
    match how:
        case How.RPATH | How.RUNPATH | How.INHERITED:
            tag = "RUNPATH" if how is How.RUNPATH else "RPATH"
            of = modules.distribution(candidate.owner or "")
            return f"only in `{name}`, `{owner}`{f' of {of}' if of else ''} has the {tag} `{entry}`"
        case How.LIBRARY_PATH:
            return f"only in `{name}`, LD_LIBRARY_PATH has `{entry}`"
        case How.CACHE:
            place = compared.configured.get(posixpath.dirname(candidate.path), "/etc/ld.so.cache")
            return f"`{name}` finds it by {place}; the loader of the other one does not read that"
        case _:
            return f"only in `{name}`, the search comes to `{candidate.path}`"


def _only_one_needs(compared: Compared, first: Request | None, other: Request | None) -> str:
    """Return which of the objects needs a name, and which does not."""
    number, request = (0, first) if first else (1, other)
    requester = (request.requester if request else None) or ""
    modules = compared.environments[number]
    owner = modules.distribution(requester)
    of = f" of {owner}" if owner else ""
    label = _plain(modules.world.label(requester))
    return f"`{label}`{of} in `{compared.names[number]}` needs it, the other one does not"


def _other_build(compared: Compared, sides: tuple[Side, Side]) -> str:
    owners = [side.distribution or "no distribution" for side in sides]
    if owners[0] == owners[1]:
        return f"{owners[0]} is there in two builds: the files differ"
    return f"`{compared.names[0]}` has {owners[0]}, `{compared.names[1]}` has {owners[1]}"
