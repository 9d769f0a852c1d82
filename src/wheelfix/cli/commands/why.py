"""`wheelfix why`: what needs a library, and why it is or would be grafted."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from wheelfix.analysis.graph import Graph, Node, graph_of_wheel
from wheelfix.analysis.left_to_requirements import left_to_requirements
from wheelfix.analysis.needed_chains import chains_to, nodes_of_name, openers_of
from wheelfix.analysis.world import Provenance
from wheelfix.budget import BudgetError
from wheelfix.cli import installation_options, options
from wheelfix.cli.config.values import suggestion
from wheelfix.cli.console import Terminal
from wheelfix.cli.installation_options import read_wheel, say_unknown, world_of
from wheelfix.cli.options import Call, TextOrJson, current_folder
from wheelfix.cli.wheel_paths import Wheels, expand
from wheelfix.cli.wheel_time_limit import ask_each
from wheelfix.errors import ExitCode, SettingsError, WheelfixError
from wheelfix.grouping import flatten
from wheelfix.host.library_search import library_paths
from wheelfix.host.neighbors import providers_of
from wheelfix.pipelines.ask_auditwheel import Auditwheel
from wheelfix.pipelines.graft import GraftedLibrary
from wheelfix.pipelines.output_claims import Outputs
from wheelfix.pipelines.repair import RepairTask, open_job, plan_repair
from wheelfix.pipelines.repair_refusals import refuse_other_system
from wheelfix.pipelines.sbom import listed_packages
from wheelfix.providers.model import Provided
from wheelfix.reports import why as reports
from wheelfix.reports.printable import json_text, printable
from wheelfix.rules.context import Context
from wheelfix.settings import Settings, matches_any
from wheelfix.text import count, operand
from wheelfix.wheel.grafted_name import original_name
from wheelfix.wheel.model import Wheel, WheelName
from wheelfix.wheel.platform_tags import has_local_tag
from wheelfix.wheel.required_file import require_file


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """The options that are not settings."""

    target: str | None = installation_options.TARGET.default(None)
    output_format: TextOrJson = options.OUTPUT_FORMAT.default(TextOrJson.TEXT)


@options.with_options
def why(
    call: Call,
    paths: Wheels,
    library: Annotated[
        str,
        typer.Argument(
            metavar="LIBRARY",
            help="A SONAME, a file name or a member; without hash and version, too: `liblzma`.",
        ),
    ],
    request: _Options,
) -> None:
    """Say what needs a library, and why it is or would be grafted.

    For a wheel with a `linux` tag, the repair is planned with the libraries of this machine, and
    nothing is written.
    """
    if library.endswith(".whl"):
        raise SettingsError(
            "name the library after the wheels",
            hint=f"wheelfix why {shlex.quote(operand(library))} libfoo",
        )
    configuration, terminal = call.read_configuration(), call.terminal
    wheels = expand(paths, terminal)

    def ask(path: Path) -> _Answer:
        settings = configuration.settings_for(path.name)
        return _answer(path, library, request.target, settings, terminal)

    answers, is_complete = ask_each(wheels, ask, terminal, configuration.settings.timeout)
    opened = list(flatten(answer.openers for answer in answers))
    if opened and not any(answer.uses for answer in answers):
        heads = (f"{library}: no object needs it, and it is not in the wheel", *opened)
        terminal.report("\n  opened by  ".join(map(printable, heads)))
    elif answers and not any(answer.uses for answer in answers):
        names = set(flatten(answer.names for answer in answers))
        asked = f"`{wheels[0].name}`" if len(wheels) == 1 else f"all {count(len(answers), 'wheel')}"
        raise SettingsError(
            f"{asked}: no object needs or is `{library}`", hint=suggestion(library, names)
        )
    if request.output_format is TextOrJson.JSON:
        terminal.result(json_text(reports.as_json([(a.path.name, a.uses) for a in answers])))
    else:
        words = options.words_for_repair(call, configuration)
        terminal.report(reports.text([(a.path, a.uses) for a in answers], words))
    raise typer.Exit(ExitCode.OK if is_complete else ExitCode.ERROR)


class _Answer(NamedTuple):
    """What needs the library in one wheel."""

    path: Path
    uses: Sequence[reports.Use]
    names: frozenset[str]
    """The libraries that the question could be about."""
    openers: tuple[str, ...]


def _answer(
    path: Path, library: str, target: str | None, settings: Settings, terminal: Terminal
) -> _Answer:
    platforms = WheelName.parse(path.name).platforms
    is_local = has_local_tag(platforms)
    subject = _planned(path, settings, terminal) if is_local else _as_built(path, settings)
    say_unknown(subject.providers, terminal)
    wheel, providers, grafted, obstacle, read = subject
    graph = _graph(subject, target)
    nodes = nodes_of_name(graph, library)
    is_brought_in = False
    if not is_local and any(node.provenance is Provenance.MISSING for node in nodes):
        repaired = _planned(path, settings, terminal)
        obstacle = repaired.obstacle
        after = nodes_of_name(_graph(repaired, target), library)
        is_brought_in = all(node.provenance is not Provenance.MISSING for node in after)
    planned = {library.member: library for library in grafted}
    packages = listed_packages(wheel)
    uses = [
        _use(wheel, graph, node, planned.get(node.id), packages.get(node.id, "")) for node in nodes
    ]
    if not uses and read is not None:
        before = _graph(_Subject(read, providers), target)
        nodes = nodes_of_name(before, library)
        uses = [_use(read, before, node, None, "")._replace(is_dropped=True) for node in nodes]
    left = left_to_requirements(wheel, settings, providers).libraries
    uses = [
        use._replace(
            openers=openers_of(wheel, use.node.name),
            obstacle=obstacle,
            is_brought_in=is_brought_in,
            requirement=left.get(use.node.name),
            excluded=next((glob for glob in settings.exclude if matches_any(use.name, [glob])), ""),
        )
        for use in uses
    ]
    names = frozenset(original_name(node.name) for node in graph.nodes)
    return _Answer(path, uses, names, openers_of(wheel, library))


def _use(
    wheel: Wheel, graph: Graph, node: Node, planned: GraftedLibrary | None, package: str
) -> reports.Use:
    """Return what needs `node`; `package` is what it was copied from, if it is in the wheel."""
    return reports.Use(
        name=planned.original if planned else original_name(node.name),
        node=node,
        chains=tuple(chains_to(graph, node)),
        source=str(planned.host.source) if planned else "",
        package=planned.package_label if planned else package,
        is_planned=planned is not None,
        tag=".".join(wheel.name.platforms),
    )


class _Subject(NamedTuple):
    """The wheel that a repair would make; as it is if there is nothing to repair, or no plan."""

    wheel: Wheel
    providers: tuple[Provided, ...]
    grafted: tuple[GraftedLibrary, ...] = ()
    """The libraries that the repair would graft."""
    obstacle: str = ""
    """What to do about a wheel that cannot be repaired."""
    read: Wheel | None = None
    """The wheel before the repair; None if that is `wheel`."""


def _graph(subject: _Subject, target: str | None) -> Graph:
    wheel = subject.wheel
    return graph_of_wheel(wheel, world_of(wheel, target=target, providers=subject.providers))


def _planned(path: Path, settings: Settings, terminal: Terminal) -> _Subject:
    require_file(path)
    folder = current_folder()
    task = RepairTask(wheel=path, settings=settings, folder=folder)
    outputs = Outputs([path], folder)
    read: Context | None = None
    try:
        with (
            Auditwheel({**os.environ, **library_paths(os.environ, folder)}) as auditwheel,
            open_job(task, auditwheel, outputs) as job,
        ):
            read = job.planner.read
            plan = plan_repair(job)
    except BudgetError:
        raise
    except WheelfixError as error:
        subject = _Subject(read.wheel, read.providers) if read else _as_built(path, settings)
        refuse_other_system(subject.wheel)
        terminal.say(f"note: a repair cannot be planned: {printable(error.lines[0])}")
        return subject._replace(obstacle=error.hint or "")
    return _Subject(plan.after.wheel, plan.after.providers, plan.grafted, read=read.wheel)


def _as_built(path: Path, settings: Settings) -> _Subject:
    wheel = read_wheel(path)
    refuse_other_system(wheel)
    return _Subject(wheel, providers_of(settings, wheel, os.environ))
