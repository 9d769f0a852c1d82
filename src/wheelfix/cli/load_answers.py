"""What `explain` answers about the loads of a process: text, JSON types, and what to do."""

import os
import posixpath
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from itertools import product
from pathlib import Path

from packaging.utils import canonicalize_name

from wheelfix.analysis.explain import Before, Explanation
from wheelfix.analysis.explain import explain as explain_load
from wheelfix.analysis.explain_remedies import Advice, Installed
from wheelfix.analysis.graph import Graph
from wheelfix.analysis.load_failures import (
    HIDDEN,
    OF_OTHER_PYTHON,
    UNLESS_LOADED,
    Failure,
    Lack,
    LoadJudge,
    fits_python,
    gets_otherwise,
    hidden_at,
)
from wheelfix.analysis.load_tree import Resolution, needed_names, resolutions, visible_requests
from wheelfix.analysis.why_file_not_used import why_not
from wheelfix.analysis.world import World, find_subject
from wheelfix.elf.object_file_names import is_object_name
from wheelfix.errors import SettingsError
from wheelfix.grouping import flatten
from wheelfix.loader.as_needed import Library
from wheelfix.loader.load_values import Request
from wheelfix.loader.python_api import MODULE_SUFFIX
from wheelfix.named_tuple import NamedTuple
from wheelfix.python_sources.imported_modules import module_name
from wheelfix.reports.explain_text_and_json import (
    explanation_text,
    explanation_value,
    remedies_text,
    resolutions_text,
    resolutions_value,
    roots_text,
    why_not_text,
    why_not_value,
)
from wheelfix.reports.printable import Style, printable
from wheelfix.system.paths import is_there
from wheelfix.text import join_some, toml_string
from wheelfix.wheel.grafted_name import original_name, remove_hash


class Process(NamedTuple):
    """A process that has opened some files, and loads others."""

    world: World
    subject: str | None
    """What is asked about; None for all load roots."""
    title: str
    """The name of the wheel, or the folder of the environment."""
    sizes: Callable[[], Mapping[str, int]]
    """Return the bytes of the members."""
    libraries: Mapping[str, Library]
    """The files whose symbols can be read, by path."""
    opened: Sequence[str]
    """What is opened before, and `for_all` others (RTLD_GLOBAL)."""
    openings: Callable[[str], Iterable[tuple[str, int]]]
    """Return the Python sources that open a library by name, with lines."""

    pythons: Sequence[str]
    """The interpreters that may import it."""
    mentions: Callable[[str, str], bool]
    """Return whether the file at a path has a string."""
    installed: Installed | None = None
    """The distributions of an environment."""
    failures: Callable[[], Iterable[tuple[str, Lack]]] = tuple
    """In an environment: return what does not load, by path, as `doctor` finds it."""
    before: Callable[[Explanation], Before] | None = None
    """Return what is loaded before a module that lacks something."""
    advice: Callable[[Request], Iterable[str]] = lambda _: ()
    """Of a wheel: return what a repair does about a library that is not found."""
    for_all: Sequence[str] = ()
    unopened: Callable[[], Iterable[Explanation]] = tuple
    """Of a wheel: return the sources that surely do not find a library that they open."""
    refused: Sequence[str] = ()
    """Of a wheel: why installers of the machine refuse it."""

    def explain(
        self, paths: Sequence[str], asked: str | None = None, *, is_import: bool = False
    ) -> list[Explanation]:
        """Explain what opening each of `paths` loads, after all that the imports of it load.

        Where a library is `asked` about, only as far as that changes what it is.
        """
        alone = self.explain_alone(paths, is_import=is_import)
        explained = [self._with_imports(each, asked) for each in alone]
        missing = [{step.request.name: step.request for step in each.missing} for each in explained]
        ways = {
            name: [Advice((name,), way) for way in self.advice(request)]
            for name, request in ChainMap(*missing).items()
        }
        return [
            each._replace(
                problems=(*self.refused, *each.problems),
                remedies=(*flatten(map(ways.__getitem__, names)), *each.remedies),
            )
            for each, names in zip(explained, missing, strict=True)
        ]

    def explain_alone(self, paths: Sequence[str], *, is_import: bool = False) -> list[Explanation]:
        """Explain what opening each of `paths` in a new process loads."""
        every_load = [self.world.process(path, self.opened) for path in paths]
        alone = map(self.world.load, (*paths, *self.opened) if self.opened else ())
        loads = (*flatten(every_load), *alone)
        judge = LoadJudge.of(self.world, self.libraries, loads, self.mentions, self.for_all)
        how = partial(explain_load, judge, after=self.opened, installed=self.installed)
        members = self.world.members
        others = [path for path in paths if not fits_python(path, self.pythons)]
        fitting = {
            module_name(member)
            for path, member in (members.items() if others else ())
            if fits_python(path, self.pythons)
        }
        unfit = {
            path: Lack(Failure.FILE, path, path, there=OF_OTHER_PYTHON)
            for path in others
            if module_name(members.get(path, path)) not in fitting
        }
        files = self.world.environment.files
        unfit |= {
            path: Lack(Failure.FILE, path, path, there=HIDDEN)
            for path in paths
            if path in members and path in files and files[path].is_module
            if all(hidden_at(path, module_name(members[path]), p) for p in self.pythons)
        }
        lacks = flatten(map(judge.file_lacks, map(self.world.load, paths)))
        unfit |= {lack.library: lack for lack in lacks if lack.library in paths}
        return [
            how(path, is_import=is_import).with_problem(self.world, unfit.get(path), self.installed)
            for path in paths
        ]

    def _with_imports(self, alone: Explanation, asked: str | None) -> Explanation:
        """Return what is explained with all that the imports of a module load before it."""
        if self.before is None or not self._may_differ(alone, asked):
            return alone
        world, root = self.world, [alone.root]
        if not alone.ok:
            without = self._replace(world=world.without_path)
            is_of_path = without.world is not world and without.explain_alone(root)[0].ok
            if is_of_path or not alone.lacks_lent:
                return alone
            if self.opened and self._replace(opened=()).explain_alone(root)[0].ok:
                return alone  # the order that was asked for is at fault
        first, for_all, unknown = self.before(alone)
        opened = tuple(dict.fromkeys((*self.opened, *first)))
        known, usual = (world.process(alone.root, each)[-1] for each in (opened, self.opened))
        if alone.ok and not any(gets_otherwise(known, usual)):
            return alone
        if first or for_all:
            (alone,) = self._replace(opened=opened, for_all=for_all).explain_alone(root)
        if alone.ok or not unknown:
            return alone
        every = tuple(dict.fromkeys((*unknown, *alone.unknown)))
        remedies = tuple(Advice(names, f"{way}{UNLESS_LOADED}") for names, way in alone.remedies)
        return alone._replace(may_load=True, unknown=every, remedies=remedies)

    def _may_differ(self, alone: Explanation, asked: str | None) -> bool:
        """Return whether it lacks something, or another installed file has a SONAME it loads."""
        if asked in alone.lacking if asked else not alone.ok:
            return True
        there, carriers = {*self.world.members, *self.world.others}, self.world.carriers
        requests = (s.request for s in alone.steps if asked in {None, s.request.name})
        return any(there.intersection(carriers.get(r.name, ())) - {r.result} for r in requests)


class Answer(NamedTuple):
    """An explanation as text and as JSON types."""

    text: str
    value: Mapping[str, Sequence[Mapping[str, object]]]
    is_found: bool
    """Whether everything that it explains is found."""
    graph: Graph | None = None
    """What it explains, where that is to be drawn."""

    def of(self, wheel: str) -> "Answer":
        """Return the answer as one of several, with the name of its wheel."""
        return self._replace(text=f"{printable(wheel)}\n{self.text}")


def load_roots(process: Process, package: str | None = None) -> list[str]:
    """Return the load roots; of a package, those in it, and none if it is not one of the wheel."""
    world, own = process.world, process.title.partition("-")[0]
    roots = [path for path in world.first_loads if path in world.members]
    if process.installed is None:
        broken = (path for path in world.environment.broken if MODULE_SUFFIX.search(path))
        roots += (path for path in broken if path in world.members)
    if package is None or canonicalize_name(package) == canonicalize_name(own):
        return roots
    folder = f"{package.replace('.', '/')}/"
    return [path for path in roots if world.members[path].startswith(folder)]


def of_roots(process: Process, style: Style, package: str | None = None) -> Answer:
    """Return which libraries the load roots load, and what else does not load."""
    world, failures = process.world, dict(process.failures())
    is_whole = (roots := load_roots(process, package)) == load_roots(process)
    roots += (path for path in failures if path not in roots and not path.endswith(".py"))
    explanations = [
        explanation.with_problem(world, failures.get(explanation.root), process.installed)
        for explanation in process.explain(roots)
    ]
    explanations += process.unopened() if is_whole else ()
    return Answer(
        text=roots_text(explanations, style),
        value={"explanations": [explanation_value(world, root) for root in explanations]},
        is_found=all(explanation.ok for explanation in explanations),
    )


def of_subject(process: Process, subject: str, style: Style) -> Answer:
    """Return what loading the subject loads, and who gets it if it is a library.

    Raises `AbsentError` if no file is it, and none needs it.
    """
    world = process.world
    paths = find_subject(world, subject)
    users = _users(process, [subject] if "/" not in subject else [])
    if not paths and not users and load_roots(process, subject):
        return of_roots(process, style, subject)
    files = world.environment.files
    if not users and not any(files[path].is_module for path in paths if path in files):
        names = needed_names(world, subject)
        users = _users(process, names)
        # Alone, a graft need not find what it needs.
        full = [name for name in names if not remove_hash(posixpath.basename(name))]
        paths = tuple(flatten(find_subject(world, n) for n in full)) if users else paths
    if not paths and not users:
        gone = [failure for failure in process.failures() if _is_gone(world, subject, failure[0])]
        if not gone:
            raise absent_error(process, subject)
        without = process._replace(world=replace(world, members={}), failures=lambda: gone)
        return of_roots(without, style)
    is_import = "/" not in subject and not is_object_name(subject)
    explained = process.explain(paths, is_import=is_import)
    choices = list(flatten(explanation.choices for explanation in explained))
    elsewhere = dict.fromkeys(choice.path for choice in choices if choice.elsewhere)
    explained += process.explain([path for path in elsewhere if path in world.environment.files])
    # What cannot be loaded itself asks for nothing.
    explained += (each for each in flatten(users.values()) if not each.steps)
    texts = [explanation_text(world, explanation, style) for explanation in explained]
    told = {step.request.name for explanation in explained for step in explanation.missing}
    served, lacking = list[Resolution](), list[tuple[str, Explanation]]()
    for name, every in users.items():
        answers = resolutions(world, name, {each.root: each.steps for each in every})
        texts += [resolutions_text(world, name, answers, style)] * bool(answers)
        served += answers
        lacking += ((name, each) for each in every if name in each.lacking)
    maybe = [(name, each) for name, each in lacking if each.ok or name in each.drivers]
    unknown = dict.fromkeys(f"not known: {text}" for _, each in maybe for text in each.unknown)
    failing = [each for each in lacking if each not in maybe]
    left = ((n, each, advice) for n, each in lacking if n not in told for advice in each.remedies)
    todo = [advice for n, each, advice in left if n in advice.names or n in each.defective]
    of_users = flatten(each.problems for n, each in failing if n in each.defective)
    known = {*flatten(explanation.problems for explanation in explained)}
    problems = [*dict.fromkeys(p for p in (*process.refused, *of_users) if p not in known)]
    said = (f"problem: {printable(text)}" for text in problems)
    return Answer(
        text="\n".join(["\n\n".join(texts), *said, *unknown, *remedies_text(todo, style)]),
        value={
            "explanations": [explanation_value(world, explanation) for explanation in explained],
            "asked_for": resolutions_value(world, served),
            "problems": [{"problem": text} for text in problems],
        },
        is_found=not (failing or process.refused)
        and all(explanation.ok for explanation in explained),
    )


def _is_gone(world: World, subject: str, path: str) -> bool:
    """Return whether the subject is a file that a RECORD lists, or its package, and it is gone."""
    label = world.label(path)
    is_module = f"{module_name(label)}.".startswith(f"{subject}.")
    is_inside = is_module or f"{label}/".startswith(f"{subject}/")
    return path not in world.members and (is_inside or label.endswith(f"/{subject}"))


def _users(process: Process, names: Iterable[str]) -> dict[str, list[Explanation]]:
    """Return the loads of the load roots that ask for each library, as they are explained."""
    world = process.world
    loads = [world.process(root, process.opened)[-1] for root in world.first_loads]
    asked = {load.root: {request.name for request in visible_requests(load)} for load in loads}
    roots = {name: [root for root, there in asked.items() if name in there] for name in names}
    return {name: process.explain(users, name) for name, users in roots.items() if users}


class AbsentError(SettingsError):
    """No file of a wheel has the name that was asked about, and nothing needs it."""


def absent_error(process: Process, subject: str) -> AbsentError:
    """Return the error about a subject that is not there."""
    places = [f"{source}:{line}" for source, line in process.openings(subject)]
    is_asked = is_object_name(f"{subject}.so") and not places
    if is_asked and (ways := "; ".join(process.advice(Request(None, subject, None)))):
        needed = f"`{subject}` is not in the wheel, and only libraries outside of it need it"
        return AbsentError(needed, hint=ways)
    if places:
        way = f"`include = [{toml_string(subject)}]` in [tool.wheelfix] grafts it into the wheel"
        opened = f"`{subject}` is not found, but opened by name: {join_some(places, 3)}"
        return AbsentError(opened, hint=way)
    return AbsentError(
        f"no object is or needs `{subject}`",
        hint=meant(process.world, subject)
        or "name a member, a module such as pkg._core, or a library",
    )


def meant(world: World, subject: str) -> str | None:
    """Return a hint on what `subject` probably means: a package, a grafted library, a typo."""
    objects = [m for path, m in world.members.items() if path in world.environment.files]
    folder = subject.replace(".", "/") + "/"
    inside = [member for member in objects if member.startswith(folder)]
    grafted = [m for m in objects if original_name(posixpath.basename(m)).startswith(subject)]
    if inside or grafted:
        return f"did you mean {join_some(inside or grafted, 3)}?"
    modules = [module_name(member) for member in objects if member.endswith(".so")]
    near = get_close_matches(subject, [*objects, *modules], n=1)
    return f"did you mean `{near[0]}`?" if near else None


def why_not_loaded(process: Process, subject: str | None, text: str, style: Style) -> Answer:
    """Return why the file `text` is not what the subject loads.

    Raises `SettingsError` if there is no such file, or no subject.
    """
    world = process.world
    paths = find_subject(world, text)
    if not paths and (text.startswith("/") or is_there(Path(text))):
        paths = (os.path.normpath(Path.cwd() / text),)
    if not paths:
        raise SettingsError(
            f"no file that `--why-not` can be about is named `{text}`",
            hint=meant(world, text)
            or "name a member or the path of a file: what a repair grafts is not there yet",
        )
    roots = find_subject(world, subject) if subject is not None else ()
    if not roots:
        loaded = [world.members[path] for path in world.first_loads if path in world.members]
        raise SettingsError(
            "--why-not needs a member, module or library that is loaded",
            hint=f"name it, too, such as {join_some(loaded, 2)}" if loaded else None,
        )
    answers = [why_not(world, *pair, process.opened) for pair in product(roots, paths)]
    return Answer(
        text="\n".join(why_not_text(answer, style) for answer in answers),
        value={"why_not": [why_not_value(answer) for answer in answers]},
        is_found=True,
    )
