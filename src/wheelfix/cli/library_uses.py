"""What needs the libraries of a wheel, and how a repair brings them in: for `why` and `explain`."""

import os
import posixpath
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path

from wheelfix.analysis.graph import Graph, Loads, Node, graph_of
from wheelfix.analysis.left_to_requirements import LeftToRequirements, left_to_requirements
from wheelfix.analysis.needed_chains import chains_to, nodes_of_name, objects_needing, openers_of
from wheelfix.analysis.never_bundled import reason_not_to_bundle
from wheelfix.analysis.ungraftable_libraries import UnlocatedLibrariesError, UnlocatedLibrary
from wheelfix.analysis.world import Provenance
from wheelfix.budget import BudgetError
from wheelfix.cli.installation_options import world_of
from wheelfix.cli.options import current_folder
from wheelfix.elf.model import names_of
from wheelfix.errors import WheelfixError
from wheelfix.frozen import frozen
from wheelfix.grouping import flatten
from wheelfix.host.library_search import library_paths
from wheelfix.host.neighbors import providers_of
from wheelfix.named_tuple import NamedTuple
from wheelfix.pipelines.ask_auditwheel import Auditwheel
from wheelfix.pipelines.graft import GraftedLibrary
from wheelfix.pipelines.hinted_command import with_wheel, with_words
from wheelfix.pipelines.output_claims import Outputs
from wheelfix.pipelines.repair import Job, RepairTask, draft, open_job, rehearse
from wheelfix.pipelines.repair_refusals import refuse_other_system
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.pipelines.sbom import listed_packages
from wheelfix.providers.model import Provided
from wheelfix.providers.well_known import (
    SEARCH,
    options_of,
    options_to_search,
    possible_wheels,
    way_of_build,
    well_known_provider,
    with_options,
)
from wheelfix.reports.why import Use
from wheelfix.rules.run_rules import stopping
from wheelfix.settings import DataLibraries, Settings, matches_any
from wheelfix.text import join_some
from wheelfix.wheel.grafted_name import original_name, short_names
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.names_in_code import CodeNames
from wheelfix.wheel.platform_tags import has_local_tag
from wheelfix.wheel.reader import Archive
from wheelfix.wheel.requirements import name_of

_MOVE = f"--data-libraries={DataLibraries.MOVE}"
"""The option for a library that some installers drop where it is."""


class Answer(NamedTuple):
    """What needs a library in one wheel."""

    path: Path
    uses: Sequence[Use]
    names: frozenset[str]
    """The libraries that the question could be about."""
    openers: tuple[str, ...]
    note: str
    """Why a repair writes nothing; empty if it does, or does not matter."""
    providers: Sequence[Provided]
    """What was found beside the wheel, or not."""


@frozen(eq=False, kw_only=False)
class _State:
    """The wheel as it is, or as a repair would make it, beside its providers."""

    wheel: Wheel
    providers: tuple[Provided, ...]
    target: str | None
    scheme: str | None

    @cached_property
    def graph(self) -> Graph:
        """What it loads. The neighbors' wheels are read for it."""
        target, scheme, providers = self.target, self.scheme, self.providers
        world = world_of(self.wheel, target=target, scheme=scheme, providers=providers)
        of_all = Loads(needing={*world.members, *world.others})
        return graph_of(world, str(self.wheel.name), self.wheel.sizes, of_all)


class _Subject(NamedTuple):
    """What an answer is about."""

    state: _State
    left: LeftToRequirements
    grafted: tuple[GraftedLibrary, ...] = ()
    """The libraries that the repair would graft."""
    leave: str = ""
    """The options with which it leaves these to their wheels; empty if it cannot."""
    obstacle: str = ""
    """What to do about a wheel that cannot be repaired."""
    note: str = ""
    """Why a repair writes nothing."""
    before: _State | None = None
    """The wheel before the repair; None if that is `state`."""
    move: str = ""
    """The option of the repair that moves what it brings in."""
    unlocated: Sequence[UnlocatedLibrary] = ()
    """The libraries that a repair would graft, and does not find."""
    stopped: str = ""
    """Why a repair writes nothing, or no search path to a library of another wheel."""


class _AfterRepair(NamedTuple):
    """What a repair makes of the uses of a library."""

    repaired: _Subject
    uses: Sequence[Use]
    brought_in: Collection[str]
    """The ids of the nodes that are found only after it."""


@frozen(kw_only=False)
class LibraryUses:
    """The libraries of one wheel. A repair is planned, and judged, where an answer needs it."""

    archive: Archive
    path: Path
    """As the user named it."""
    target: str | None
    settings: Settings
    scheme: str | None = None
    env: Sequence[str] = ()
    """The variables of the question: `NAME=VALUE`."""
    words: Sequence[str] = ()
    """The flags with which a repair has the same settings."""

    def of(self, library: str) -> Answer:
        """Return what needs `library`, also without hash and version."""
        is_local = has_local_tag(self.archive.wheel.name.platforms)
        subject = self._planned if is_local else self._as_built
        after = self._after_repair(subject, library)
        uses = [self._in_full(use, subject, after) for use in after.uses]
        names = frozenset(original_name(node.name) for node in subject.state.graph.nodes)
        asked = (
            u for u in uses if _is_missing(u) or u.is_planned or (u.obstacle and u.is_brought_in)
        )
        is_asked = any(u.requirement is None and not reason_not_to_bundle(u.name) for u in asked)
        note = after.repaired.note if is_asked else ""
        openers = openers_of(subject.state.wheel, library)
        return Answer(self.path, uses, names, openers, note, subject.state.providers)

    def _after_repair(self, subject: _Subject, library: str) -> _AfterRepair:
        """Return what a repair makes of the uses of a library in `subject`."""
        uses = _with_copies_in_the_wheel(_uses(subject, library))
        missing = frozenset(use.node.id for use in uses if _is_missing(use))
        if all(not _is_missing(use) or use.is_dropped or use.is_of_neighbor for use in uses):
            found = _found_before(subject, library)
            new = () if found is None else {use.node.id for use in uses}.difference(found)
            return _AfterRepair(subject, uses, new)
        repaired, brought_in = subject, frozenset[str]()
        if subject is self._as_built:
            repaired = self._repaired(uses, library)
            renamed = flatten(self._renamed(use.node.name, repaired.state.wheel) for use in uses)
            after = (*flatten(_nodes(repaired, name) for name in {library, *renamed}),)
            if not any(node.provenance is Provenance.MISSING for node in after):
                brought_in = missing
            if not any(_is_needed(repaired.state, node) for node in after):
                uses = [use._replace(is_dropped=True) for use in uses]
        if not brought_in and self._is_found_moved(uses, library):
            return _AfterRepair(self._moved, uses, missing)
        return _AfterRepair(repaired, uses, brought_in)

    def _renamed(self, library: str, repaired: Wheel) -> Iterator[str]:
        """Yield the names that a repair gives to entries for a library; none of those it drops."""
        for member, elf in self.archive.wheel.elfs.items():
            new = repaired.elfs[member].needed if member in repaired.elfs else ()
            if library in elf.needed and library not in new and len(new) == len(elf.needed):
                yield from {*new} - {*elf.needed}

    def _options_to_ask(self, left: LeftToRequirements, library: str) -> str:
        """Return the options that fetch what may bring a library, and those of the question.

        Empty for a requirement by URL, which is not followed, and for one that was asked for.
        """
        name = left.libraries.get(library, "")
        required = dict(zip(left.requirements, left.required, strict=True)).get(name, name)
        text = required.partition(";")[0].strip()
        asked = {each.name for each in self._as_built.state.providers if each.unknown}
        if "@" in text or (name_of(text) in asked if text else self.settings.deps):
            return ""
        options = [("--with", text), ("--target", self.target), ("--scheme", self.scheme)]
        options += [("--env", variable) for variable in self.env]
        words = flatten((flag, value) for flag, value in options if value)
        return shlex.join(words if text else ("--deps", *words))

    def _in_full(self, use: Use, subject: _Subject, after: _AfterRepair) -> Use:
        """Return `use` with what a repair and the requirements have to do with it."""
        name, wheel, left = use.node.name, self.archive.wheel, subject.left
        is_grafted = any(graft.original == use.name for graft in after.repaired.grafted)
        is_included = use.name in map(posixpath.basename, self.settings.include)
        to = well_known_provider(use.name, wheel)  # a graft is found, a path may lead nowhere
        is_elsewhere = not to or (_is_missing(use) and SEARCH in options_to_search(to, use.name))
        full = use._replace(
            openers=openers_of(subject.state.wheel, name),
            obstacle=_obstacle(after.repaired, name),
            is_brought_in=use.node.id in after.brought_in,
            leave=self._planned.leave if is_grafted and not is_elsewhere else "",
            where=possible_wheels(use.name, wheel.name.distribution),
            of_build="" if is_included else way_of_build(use.name, subject.state.wheel),
            move=after.repaired.move,
            is_included=is_included,
            excluded=next((g for g in self.settings.exclude if matches_any(use.name, [g])), ""),
            requirement=left.libraries.get(name),
            by=" only by an extra" * (left.libraries.get(name) in left.of_extras),
            ask=self._options_to_ask(left, name),
            search=_options_to_search(left, use, wheel),
            is_led=any(name in wheel.elfs[member].needed for member, _ in left.entries),
            is_unreached=name in left.unreached,
        )
        is_other = full.is_led or (full.obstacle and full.requirement is None)
        is_asked = full.search and _is_missing(full) and (full.is_unreached or not is_other)
        return full._replace(stopped=self._with(full.search).stopped) if is_asked else full

    def _repaired(self, uses: Iterable[Use], library: str) -> _Subject:
        """Return the repaired wheel, judged where an obstacle may keep a library out.

        None does so with what is left to requirements, nor with a driver that the wheel has not.
        """
        left = self._as_built.left.libraries
        is_left = all(
            use.node.name in left or (reason_not_to_bundle(use.name) and not use.node.unreached)
            for use in uses
            if _is_missing(use)
        )
        return self._drafted if is_left and _nodes(self._drafted, library) else self._planned

    def _is_found_moved(self, uses: Iterable[Use], library: str) -> bool:
        """Return whether a library is in the wheel, and found once it is in site-packages."""
        own = self.archive.wheel.object_names
        if not any(_is_missing(use) and use.node.name in own for use in uses) or self._moved.note:
            return False
        found = _nodes(self._moved, library)
        return bool(found) and all(node.provenance is not Provenance.MISSING for node in found)

    @cached_property
    def _as_built(self) -> _Subject:
        wheel = self.archive.wheel
        refuse_other_system(wheel)
        providers = providers_of(self.settings, wheel, os.environ)
        code = CodeNames(self.archive)
        left = left_to_requirements(wheel, self.settings, providers, code)
        return _Subject(_State(wheel, providers, self.target, self.scheme), left)

    @cached_property
    def _with(self) -> Callable[[str], _Subject]:
        """The plan of a repair with options that leave libraries to wheels."""

        def planned(options: str) -> _Subject:
            return self._plan(with_options(self.settings, options), rehearse)

        return cache(planned)

    @cached_property
    def _planned(self) -> _Subject:
        return self._plan(self.settings, rehearse)

    @cached_property
    def _drafted(self) -> _Subject:
        """The same without a judgement, which takes several times as long."""
        return self._plan(self.settings, draft)

    @cached_property
    def _moved(self) -> _Subject:
        settings = replace(self.settings, data_libraries=DataLibraries.MOVE)
        return self._plan(settings, rehearse)._replace(move=_MOVE)

    def _whole(self, hint: str) -> str:
        """Return a hint with whole commands."""
        return with_wheel(with_words(hint, self.words), str(self.path))

    def _plan(self, settings: Settings, outcome_of: Callable[[Job], Outcome]) -> _Subject:
        folder = current_folder()
        task = RepairTask(self.path, settings, folder, archive=self.archive)
        outputs = Outputs([self.path], folder)
        try:
            with (
                Auditwheel({**os.environ, **library_paths(os.environ, folder)}) as auditwheel,
                open_job(task, auditwheel, outputs) as job,
            ):
                read = job.planner.read
                outcome = outcome_of(job)
                left = replace(read, wheel=outcome.after or read.wheel).left
        except BudgetError:
            raise
        except WheelfixError as error:
            subject = self._as_built
            refuse_other_system(subject.state.wheel)
            note = f"a repair cannot be planned: {error.lines[0]}"
            hint = self._whole(error.hint or "")
            told = error.libraries if isinstance(error, UnlocatedLibrariesError) else ()
            unlocated = [each._replace(advice=self._whole(each.advice)) for each in told]
            return subject._replace(obstacle=hint, note=note, unlocated=unlocated, stopped=note)
        obstacle, note, stopped = "", "", outcome.unsearched
        if outcome.status is Status.REJECTED:
            wrong, *_ = stopping(outcome.remaining, outcome.found)
            of = f", for `{wrong.member}`" if wrong.member in read.wheel.elfs else ""
            note = stopped = f"a repair writes nothing{of}: {wrong.message}"
            obstacle = self._whole(wrong.hint or wrong.message)
        before = _State(read.wheel, read.providers, self.target, self.scheme)
        after = before if outcome.after is None else replace(before, wheel=outcome.after)
        options, grafted = outcome.to_leave.options, outcome.grafted
        return _Subject(after, left, grafted, options, obstacle, note, before, stopped=stopped)


def _options_to_search(left: LeftToRequirements, use: Use, wheel: Wheel) -> str:
    """Return the options for a library and for each that no search path leads to.

    A repair writes nothing without the options for all of them.
    """
    own = {use.name: left.libraries.get(use.node.name, well_known_provider(use.name, wheel))}
    return options_of({at: to for at, to in {**left.unreached, **own}.items() if to}, wheel)


def _found_before(subject: _Subject, library: str) -> Collection[str] | None:
    """Return what some object finds in the wheel before the repair; None if none lacks it."""
    if subject.before is None:
        return None
    graph = subject.before.graph
    before = nodes_of_name(graph, library)
    lacks = any(node.provenance is Provenance.MISSING for node in before)
    return {edge.target for edge in graph.edges} if lacks else None


def _nodes(subject: _Subject, library: str) -> tuple[Node, ...]:
    """Return what `library` means; a graft has the name of its file, not that of its SONAME."""
    graph = subject.state.graph
    grafts = {graft.member for graft in subject.grafted if graft.original == library}
    grafted = tuple(node for node in graph.nodes if node.id in grafts)
    return grafted or nodes_of_name(graph, library)


def _uses(subject: _Subject, library: str) -> Sequence[Use]:
    state, before = subject.state, subject.before
    planned = {graft.member: graft for graft in subject.grafted}
    packages = listed_packages(state.wheel)
    nodes = _nodes(subject, library)
    if not nodes and subject.unlocated:
        return [*_uses_of_grafts(subject, library)]
    uses = [_use(state, node, planned.get(node.id), packages.get(node.id, "")) for node in nodes]
    if before is None or any(_is_needed(state, node) for node in nodes):
        return uses
    dropped = [
        _use(before, node, None, packages.get(node.id, ""))._replace(is_dropped=True)
        for node in nodes_of_name(before.graph, library)
    ]
    return dropped if any(use.dependents for use in dropped) else uses


def _uses_of_grafts(subject: _Subject, library: str) -> Iterator[Use]:
    """Yield what is not found, and only libraries to graft need."""
    graph = subject.state.graph
    for name, users, _ in subject.unlocated:
        if library in {name, *short_names(name)}:
            grafts = flatten(nodes_of_name(graph, user) for user in users)
            chains = [(*chain, name) for graft in grafts for chain in chains_to(graph, graft)]
            direct = [(user, name) for user in users]
            missing = Node(name, Provenance.MISSING, "library")
            yield Use(name, missing, tuple(chains or direct), tuple(users))


def _is_needed(state: _State, node: Node) -> bool:
    """Return whether an object needs it, of the wheel or of a neighbor."""
    is_found = any(edge.target == node.id for edge in state.graph.edges)
    return is_found or bool(objects_needing(state.wheel, node))


def _obstacle(subject: _Subject, library: str) -> str:
    """Return what to do about a library that a repair does not bring in."""
    own = (each.advice for each in subject.unlocated if each.name == library)
    others = join_some(each.name for each in subject.unlocated)
    first = f"once it finds or leaves {others}" if others else "once it can be planned"
    is_whole = not subject.obstacle or subject.before is not None
    return next(own, subject.obstacle if is_whole else f"a repair, {first}:\n{subject.obstacle}")


def _with_copies_in_the_wheel(uses: Sequence[Use]) -> list[Use]:
    """Name, for what is not found, the copies in the wheel, but not one that nothing leads to."""
    own = [use for use in uses if use.node.provenance is Provenance.WHEEL]
    if not own or not any(map(_is_missing, uses)):
        return list(uses)
    named = [(use.node.id, names_of(use.node.id, use.node.soname)) for use in own]
    shown = [use for use in uses if use.chains or use not in own]
    for index, use in enumerate(shown):
        copies = tuple(member for member, names in named if use.node.name in names)
        if _is_missing(use) and copies:
            shown[index] = use._replace(node=use.node._replace(unreached=copies))
    return shown


def _is_missing(use: Use) -> bool:
    return use.node.provenance is Provenance.MISSING


def _use(state: _State, node: Node, planned: GraftedLibrary | None, package: str) -> Use:
    """Return what needs `node`; `package` is what it was copied from, if it is in the wheel."""
    return Use(
        name=planned.original if planned else original_name(node.name),
        node=node,
        chains=tuple(chains_to(state.graph, node)),
        dependents=tuple(objects_needing(state.wheel, node)),
        source=str(planned.host.source) if planned else "",
        package=planned.package_label if planned else package,
        is_planned=planned is not None,
        tag=".".join(state.wheel.name.platforms),
    )
