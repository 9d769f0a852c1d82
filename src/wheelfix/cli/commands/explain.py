"""`wheelfix explain`: which libraries an object loads, and why."""

import os
import posixpath
import shlex
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from functools import cache, partial
from pathlib import Path
from typing import Annotated

import typer

from wheelfix.analysis.explain import Before, Explanation
from wheelfix.analysis.explain_remedies import Advice
from wheelfix.analysis.graph import Graph, Loads, graph_of
from wheelfix.analysis.load_failures import Lack
from wheelfix.analysis.never_bundled import reason_to_leave_out
from wheelfix.analysis.opened_libraries import openings
from wheelfix.analysis.policies import newest_versions, policy_of
from wheelfix.analysis.world import Provenance, World, find_subject
from wheelfix.cli import installation_options, options
from wheelfix.cli.console import Terminal
from wheelfix.cli.installation_options import (
    in_shell,
    parse_variables,
    read_wheel,
    refuse_for_site,
    say_unknown,
    target_of,
    wheels_beside,
    world_of,
)
from wheelfix.cli.library_uses import LibraryUses
from wheelfix.cli.load_answers import (
    AbsentError,
    Answer,
    Process,
    absent_error,
    load_roots,
    meant,
    of_roots,
    of_subject,
    why_not_loaded,
)
from wheelfix.cli.options import Call, words_for_repair
from wheelfix.cli.output_files import Kind, write_file
from wheelfix.cli.wheel_paths import expand, names_wheels
from wheelfix.cli.wheel_time_limit import ask_each, time_limit
from wheelfix.elf.model import Libc
from wheelfix.environments.cached_facts import CachedFacts
from wheelfix.environments.read_environment import (
    libraries_of,
    of_distribution,
    read_modules,
    read_openings,
    read_searches,
    read_site,
    sizes_of,
)
from wheelfix.errors import ExitCode, SettingsError
from wheelfix.frozen import frozen
from wheelfix.grouping import flatten
from wheelfix.host.fresh_environments import fits_machine
from wheelfix.host.library_search import GivenLibraries, libraries_defining
from wheelfix.host.machine_files import has_string
from wheelfix.host.neighbors import InstalledDistributions, providers_of
from wheelfix.host.os_packages import system_package
from wheelfix.host.policy_tables import read_policies
from wheelfix.host.provider_lookup import libraries_of_required_wheels, parts_in
from wheelfix.host.sysroot import Sysroot, system_at
from wheelfix.loader.install_schemes import interpreters, name_in_site
from wheelfix.loader.load_values import How, Request
from wheelfix.loader.loading import absolute_directories
from wheelfix.pipelines.repair_plan import context_of
from wheelfix.pipelines.repair_refusals import refuse_other_system
from wheelfix.providers.requirements_between_wheels import required_wheels
from wheelfix.providers.well_known import possible_wheels
from wheelfix.python_sources.imported_modules import module_name
from wheelfix.python_sources.parsing import STEPS_PER_WHEEL
from wheelfix.python_sources.searched_places import (
    MAX_SOURCE,
    LibrarySearches,
    join_searches,
    searches,
)
from wheelfix.python_sources.source_facts import LookupPlace, PythonOpening
from wheelfix.reports.graph_formats import dot, mermaid
from wheelfix.reports.graph_page import page
from wheelfix.reports.printable import fit, json_text
from wheelfix.reports.why import advice
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Severity
from wheelfix.rules.loaded_before import loaded_before
from wheelfix.rules.opened_and_missing import opened_library_missing, opened_library_renamed
from wheelfix.rules.provider_gaps import way_beside
from wheelfix.rules.registry import enabled_rules
from wheelfix.rules.rule_plugins import load_rules
from wheelfix.rules.run_rules import run_rules
from wheelfix.rules.undefined_symbols import defined_by_providers
from wheelfix.settings import Group, Option, Settings
from wheelfix.system.paths import is_file, is_there
from wheelfix.text import operand
from wheelfix.wheel.grafted_name import short_names
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.platform_tags import parse_platform_tag
from wheelfix.wheel.reader import Archive, open_wheel
from wheelfix.wheel.required_file import require_file
from wheelfix.wheel.requirements import name_of

_Arguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[WHEEL|DIR...] [MEMBER|MODULE|LIBRARY]",
        help="The wheels, and what to explain; by default all load roots. With --site a bare "
        "name is what is there, such as a distribution.",
    ),
]


class ExplainFormat(StrEnum):
    """How an explanation is written."""

    TEXT = "text"
    JSON = "json"
    MERMAID = "mermaid"
    DOT = "dot"
    HTML = "html"


_GRAPHS: Mapping[ExplainFormat, Callable[[Sequence[Graph]], str]] = {
    ExplainFormat.MERMAID: mermaid,
    ExplainFormat.DOT: dot,
    ExplainFormat.HTML: page,
}
_KINDS = {ExplainFormat.HTML: Kind.MARKUP, ExplainFormat.JSON: Kind.REPORT}
"""What a file is that an answer in each format may replace; else text."""
_SUFFIXES = {
    ".html": ExplainFormat.HTML, ".htm": ExplainFormat.HTML, ".dot": ExplainFormat.DOT,
    ".gv": ExplainFormat.DOT, ".mmd": ExplainFormat.MERMAID, ".mermaid": ExplainFormat.MERMAID,
    ".json": ExplainFormat.JSON, ".txt": ExplainFormat.TEXT, "": ExplainFormat.TEXT,
}  # fmt: skip


@frozen
class _Options:
    """The options that are not settings."""

    why_not: str | None = Option(
        "Explain why this file is not loaded.", group=Group.WHEELS, metavar="PATH"
    ).default(None)
    after: list[str] = Option(
        "A module, package or library that the process has loaded before; repeatable, in order.",
        group=Group.MACHINES,
        metavar="MODULE|WHEEL[!MEMBER]",
    ).default([])
    scheme: str | None = installation_options.SCHEME.default(None)
    target: str | None = installation_options.TARGET.default(None)
    env: list[str] = Option(
        "An environment variable of the process: LD_LIBRARY_PATH, or one that Python code "
        "searches for libraries. In an environment of this machine, LD_LIBRARY_PATH is by default "
        "that of the shell.",
        group=Group.MACHINES,
        metavar="NAME=VALUE",
    ).default([])
    output_format: ExplainFormat | None = Option(
        "text or json; as a graph mermaid, dot or html. By default chosen by the suffix of "
        "--output.",
        group=Group.OUTPUT,
    ).default(None)
    output: Path | None = options.OUTPUT.default(None)


@options.with_options
def explain(call: Call, request: _Options, arguments: _Arguments = None) -> None:
    """Explain which libraries an object loads, and why.

    Each is shown with its path, the search path entry that finds it, and the candidates before it.
    With --site and no wheel, what is installed there is explained. Nothing is executed. Exit code 1
    if something that is explained does not load. What the imports of its package surely load before
    a module is loaded; where only code that is not known may load it before, it says so.
    """
    words, terminal = list(arguments or []), call.terminal
    form = request.output_format or _by_suffix(request.output)
    if request.why_not and form in _GRAPHS:
        raise SettingsError("--why-not is answered as text or json", hint="leave one of them out")
    variables = parse_variables(request.env)
    answers: list[tuple[str | None, Answer]] = []
    errors: list[dict[str, object]] = []
    configuration = call.read_configuration()
    if of_site := _of_site(call, request, words, variables, configuration.settings, form):
        answers.append((None, of_site))
    else:
        wheels, subject = _wheels_and_subject(words, terminal)
        absent: list[AbsentError] = []
        required = zip(wheels, required_wheels(parts_in(wheels)), strict=True)
        of = {path: libraries_of_required_wheels(o, wheels.__getitem__) for path, o in required}
        beside = {path: [each.wheel for each in others] for path, others in of.items()}
        to_repair = words_for_repair(call, configuration)

        def ask(path: Path) -> None:
            settings = configuration.settings_for(path.name)
            settings = replace(settings, neighbors=(*settings.neighbors, *beside[path]))
            all_words = (*to_repair, *flatten(("--with", other) for other in beside[path]))
            try:
                with _in_wheel(
                    path, subject, request, variables, settings, terminal, all_words
                ) as process:
                    answer = _answer(process, request.why_not, form, terminal)
            except AbsentError as error:
                absent.append(error)
            else:
                answers.append((path.name, answer if len(wheels) == 1 else answer.of(path.name)))

        _, errors = ask_each(wheels, ask, terminal, configuration.settings.timeout)
        if absent and not answers:
            raise absent[0]
    if answers:
        _write(answers, form, request.output, terminal)
    if errors:
        raise typer.Exit(ExitCode.ERROR)
    is_found = all(answer.is_found for _, answer in answers)
    raise typer.Exit(ExitCode.OK if is_found else ExitCode.FINDINGS)


def _of_site(
    call: Call,
    request: _Options,
    words: Sequence[str],
    variables: Mapping[str, str],
    settings: Settings,
    form: ExplainFormat,
) -> "Answer | None":
    """Return the answer about an environment; None if wheels are the subject.

    What is installed there comes before a folder of wheels of the same name.
    """
    are_wheels = any(map(names_wheels, words))
    is_bare = len(words) == 1 and "/" not in words[0] and not words[0].endswith(".whl")
    if settings.site is None or (are_wheels and not is_bare):
        return None
    if len(words) > 1:
        raise SettingsError("with --site, name one module, file, SONAME or distribution")
    if not are_wheels:
        refuse_for_site(call, "scheme")
    exported = in_shell(variables, os.environ, request.target)
    with time_limit(settings.timeout, settings.site):
        process = _in_site(Path(settings.site), next(iter(words), None), request, exported)
        if are_wheels and not (process.subject is None or find_subject(process.world, words[0])):
            return None
        refuse_for_site(call, "scheme")
        return _answer(process, request.why_not, form, call.terminal)


def _answer(process: Process, path: str | None, form: ExplainFormat, terminal: Terminal) -> Answer:
    """Return why `path` is not loaded, or else what is known about the subject or all roots."""
    subject, style = process.subject, terminal.result_style
    if path is not None:
        return why_not_loaded(process, subject, path, style)
    if form not in _GRAPHS:
        return of_roots(process, style) if subject is None else of_subject(process, subject, style)
    world, roots = process.world, find_subject(process.world, subject) if subject else ()
    if subject and not (roots := roots or tuple(load_roots(process, subject))):
        raise absent_error(process, subject)
    explained = process.explain(roots or tuple(world.first_loads))
    graph = graph_of(world, process.title, process.sizes(), Loads(roots, process.opened))
    return Answer("", {}, all(explanation.ok for explanation in explained), graph)


def _value(answers: Iterable[tuple[str | None, Answer]]) -> dict[str, object]:
    """Return all answers as JSON types, each with its wheel; None for an environment."""
    sections: dict[str, list[Mapping[str, object]]] = {}
    for wheel, answer in answers:
        for key, values in answer.value.items():
            sections.setdefault(key, []).extend({"wheel": wheel, **value} for value in values)
    return {"version": 1, **sections}


def _write(
    answers: Sequence[tuple[str | None, Answer]],
    form: ExplainFormat,
    output: Path | None,
    terminal: Terminal,
) -> None:
    """Print all answers, or write them to the file `output`."""
    style = terminal.result_style
    if form is ExplainFormat.JSON:
        text = json_text(_value(answers))
    elif form in _GRAPHS:
        text = _GRAPHS[form]([answer.graph for _, answer in answers if answer.graph])
    else:
        text = fit("\n\n".join(answer.text for _, answer in answers), verbose=style.verbose)
    if output is None:
        terminal.result(text)
    else:
        write_file(output, text, _KINDS.get(form, Kind.TEXT))


# --- Options --------------------------------------------------------------------------------------


def _by_suffix(output: Path | None) -> ExplainFormat:
    """Return the format that the suffix of the file `output` names; text without a file."""
    suffix = output.suffix.lower() if output else ""
    if suffix not in _SUFFIXES:
        raise SettingsError(
            f"`{output}`: there is no format for `{suffix}`",
            hint=f"known are {', '.join(filter(None, _SUFFIXES))}; or name it: --output-format",
        )
    return _SUFFIXES[suffix]


def _wheels_and_subject(words: Sequence[str], terminal: Terminal) -> tuple[list[Path], str | None]:
    """Return the wheels, and the word after them, if there is one."""
    last = words[-1] if len(words) > 1 and not names_wheels(words[-1]) else None
    wheels = [Path(word) for word in (words if last is None else words[:-1])]
    for path in wheels:
        if not is_there(path) and path.suffix != ".whl":
            raise SettingsError(
                f"`{path}` is not a file",
                hint="name the wheels first, or with --site the environment; then one member, "
                "module or library",
            )
    if not wheels:
        raise SettingsError(
            "name a wheel, and at most one member, module or library of it",
            hint="wheelfix explain demo-1.0-cp311-cp311-linux_x86_64.whl demo._core",
        )
    return expand(wheels, terminal), last


# --- A wheel --------------------------------------------------------------------------------------


@contextmanager
def _in_wheel(
    path: Path,
    subject: str | None,
    request: _Options,
    variables: Mapping[str, str],
    settings: Settings,
    terminal: Terminal,
    words: Sequence[str],
) -> Generator[Process]:
    require_file(path)
    others = wheels_beside(settings)
    after = [_after(word, others) for word in request.after]
    wheels = [text.partition("!")[0] for text in (*settings.neighbors, *request.after)]
    with open_wheel(path) as archive:
        refuse_other_system(archive.wheel)
        providers = providers_of(settings, archive.wheel, os.environ)
        say_unknown(providers, terminal)
        beside = tuple(text for text in wheels if text.endswith(".whl"))
        read = GivenLibraries(archive=archive, library_path=beside).beside(providers)
        context = context_of(archive.wheel, settings, providers, read)
        world = world_of(
            archive.wheel,
            target=request.target,
            scheme=request.scheme,
            others=others,
            providers=providers,
            variables=variables,
            whole={each.file_name for _, each, _ in defined_by_providers(context)},
            system=_system(settings, request, archive.wheel.libc),
        )
        tag = world.name.replace("glibc:", "manylinux_").replace(".", "_")
        arch = parse_platform_tag(archive.wheel.name.platforms[0]).arch
        if policy := policy_of(f"{tag}_{arch}", read_policies()):  # none for the names of images
            promised = newest_versions(policy, arch)
            world = replace(world, versions={**promised, **world.versions})
        machine = target_of(request.target, archive.wheel)
        searches = _searches(archive, subject, world)
        world = replace(world, searches=searches, variables=variables, linkable=libraries_defining)
        opened = list(flatten(_open_before(world, prefix, name) for prefix, name in after))
        by_name = tuple(openings(archive.wheel))
        question = (request.target, settings, request.scheme, request.env, words)
        asked = LibraryUses(archive, path, *question)
        command = shlex.join(("wheelfix", "repair", *words, operand(path)))

        def mentions(path: str, text: str) -> bool:
            return world.members.get(path) in read.code.mentions({text})[text]

        yield Process(
            world,
            subject,
            str(archive.wheel.name),
            lambda: archive.wheel.sizes,
            read.of_world(world),
            opened,
            partial(_opening, by_name),
            interpreters(archive.wheel.name),
            mentions,
            before=partial(loaded_before, world, context),
            advice=partial(_advice, asked, command, world, context),
            unopened=partial(_unopened, world, context),
            refused=tuple(machine.why_refused(archive.wheel)),
        )


def _unopened(world: World, context: Context) -> Iterator[Explanation]:
    """Yield the sources whose import surely does not find a library that they open."""
    every = enabled_rules(context.settings, load_rules())
    opened = [each for each in every if each in {opened_library_missing, opened_library_renamed}]
    given = {
        (source, name)
        for source, (_, _, name, where, *_) in openings(context.wheel)
        if where is LookupPlace.SEARCH and world.environment.library_path
        if world.process(name)[-1].requests[0].how is How.LIBRARY_PATH
    }
    for found in run_rules(context, opened):
        if found.severity is Severity.ERROR and (found.member, found.entry) not in given:
            source, ways = found.member or "", (Advice((), found.hint or ""),)
            alone = Explanation(source, source, world.name, world.where, (), ())
            yield alone._replace(problems=(found.message,), remedies=ways)


def _advice(
    asked: LibraryUses, command: str, world: World, context: Context, request: Request
) -> Iterator[str]:
    """Yield what a repair does about a library that is not found, or what must be required."""
    library = request.name
    if request.requester is not None and (package := _package(asked, world, context, library)):
        yield f"it is in the package `{package}` of the machine's distribution"
    answer = asked.of(library)
    names = {library, posixpath.basename(library)}
    own = (use for use in answer.uses if not use.is_of_neighbor)
    uses = [u for u in own if names & {u.name, u.node.name, u.node.soname, *short_names(u.name)}]
    missing = [use for use in uses if use.node.provenance is Provenance.MISSING]
    for use in missing or uses:
        way = use.obstacle if use.is_dropped and answer.note else advice(use, command, library)
        if way:
            yield from filter(None, (answer.note, " ".join(way.splitlines())))
    if not uses:
        yield from filter(None, [_beside_it(world, context, request)])


def _package(asked: LibraryUses, world: World, context: Context, library: str) -> str | None:
    """Return the package of the machine's distribution with a library; none if not known."""
    root = asked.settings.sysroot
    is_of_this = root is not None or fits_machine(context.wheel.name)
    if asked.target is None and is_of_this and reason_to_leave_out(library):
        return system_package(library, Path(root or "/"))
    return world.packages.get(library)


def _beside_it(world: World, context: Context, request: Request) -> str:
    """Return what to do about a library that a neighbor lacks; empty if that is not known."""
    label, known = world.others.get(request.requester or "", ""), possible_wheels(request.name)
    way = way_beside(context, label, request) if label and known else None
    return f"it is {known}: {way.of_authors or way.hint}" if way else ""


def _system(settings: Settings, request: _Options, libc: Libc | None) -> Sysroot:
    """Return the system of the answer. Raises `SettingsError` if two are named."""
    if settings.sysroot is not None and request.target is not None:
        raise SettingsError("--target and --sysroot both name a machine", hint="give one of them")
    return system_at(settings.sysroot, libc)


def _opening(
    opened: Iterable[tuple[str, PythonOpening]], library: str
) -> Iterator[tuple[str, int]]:
    return ((source, opening.line) for source, opening in opened if opening.name == library)


def _after(word: str, others: list[Wheel]) -> tuple[str, str]:
    """Return the label of the wheel and the member of one `--after`; add the wheel to `others`."""
    file, _, member = word.partition("!")
    if not (file.endswith(".whl") and is_file(file)):
        return "", word
    wheel = read_wheel(Path(file))
    if wheel.name not in [other.name for other in others]:
        others.append(wheel)
    return f"{wheel.name}!", member


def _searches(archive: Archive, subject: str | None, world: World) -> LibrarySearches:
    """Return the directories searched by the Python sources of the subject's packages."""
    if subject is None:
        return LibrarySearches()
    members = world.members
    names = [members[path] for path in find_subject(world, subject) if path in members]
    packages = tuple(f"{name.partition('/')[0]}/" for name in names if "/" in name)
    budget = archive.budget.share(STEPS_PER_WHEEL)
    return join_searches(
        searches(archive.read(member), member, budget)
        if entry.size <= MAX_SOURCE
        else LibrarySearches(unfollowed=(member,))
        for member, entry in archive.entries.items()
        if member.endswith(".py") and member.startswith(packages)
    )


def _open_before(world: World, prefix: str, name: str) -> tuple[str, ...]:
    """Return the files that one `--after` opens."""
    if prefix and not name:
        files = world.environment.files
        own = (path for path, label in world.others.items() if label.startswith(prefix))
        return tuple(path for path in own if files[path].is_library)
    paths = find_subject(world, prefix + name)
    if not paths:
        # A package: its import is taken to open all of its modules, or else its libraries.
        files, labels = world.environment.files, {**world.others, **world.members}.items()
        inside = tuple(
            path
            for path, label in labels
            if label.startswith(prefix) and path in files and files[path].is_library
            if f"{module_name(label.rpartition('!')[2])}.".startswith(f"{name}.")
        )
        paths = tuple(path for path in inside if files[path].is_module) or inside
    if not paths:
        raise SettingsError(f"`--after {name}`: not found", hint=meant(world, name))
    return paths


# --- An installed environment ---------------------------------------------------------------------


def _in_site(
    directory: Path, subject: str | None, request: _Options, variables: Mapping[str, str]
) -> Process:
    facts = CachedFacts(None, os.path.realpath(directory))
    target = None if request.target is None else target_of(request.target, None)
    library_path = variables.get("LD_LIBRARY_PATH", "")
    world = read_site(
        directory,
        target=target,
        library_path=library_path,
        directories=absolute_directories(variables),
        cache=facts,
    )
    installed = InstalledDistributions(directory, world.schemes[0].python)
    title, part = str(directory), None
    if subject and "/" in subject and not find_subject(world, subject):
        subject = _in_environment(world, subject)
    if subject and not request.why_not and not find_subject(world, subject):
        part = of_distribution(world, subject, installed.owners)
        world, subject, title = (part, None, subject) if part else (world, subject, title)
    searches = read_searches(world, find_subject(world, subject) if subject else ())
    world = replace(world, searches=searches, variables=variables)
    opened = list(flatten(_open_before(world, "", name) for name in request.after))
    folders = {Path(path.removesuffix(f"/{member}")) for path, member in world.members.items()}
    by_name = partial(read_openings, sorted(folders))
    sizes = partial(sizes_of, world.members)

    there = cache(partial(read_modules, directory, library_path, facts, target))

    def before(alone: Explanation) -> Before:
        path, modules = alone.root, there()
        if path not in modules.modules:
            return Before()
        first = modules.at(modules.names_before(path))
        if alone.ok:
            return Before(first)
        failing = (*modules.failures, *modules.lent())
        is_left = path not in {failing for failing, lack in failing if lack.is_known}
        for_all = "" if alone.missing else ", for all (RTLD_GLOBAL)"
        unknown = [f"another import, or code, may load that before{for_all}"] * is_left
        return Before(first, tuple(modules.opened_for_all(path)), unknown)

    def failures() -> Iterator[tuple[str, Lack]]:
        modules = there()
        for path, lack in modules.failures:
            is_own = f"{world.label(path)}/".startswith(f"{title.replace('.', '/')}/")
            if part is None or is_own or name_of(modules.distribution(path)) == name_of(title):
                yield path, lack

    pythons = [world.schemes[0].python]
    return Process(
        *(world, subject, title, sizes, libraries_of(world), opened, by_name, pythons),
        *(has_string, installed, failures, before),
    )


def _in_environment(world: World, text: str) -> str:
    """Return what `find_subject` finds for a path as users write it; else, its name there."""
    is_of_machine = posixpath.isabs(text) or is_there(Path(text))
    path = os.path.realpath(text) if is_of_machine else posixpath.normpath(text)
    found = find_subject(world, path)
    return path if found else name_in_site(path.removeprefix(f"{world.where}/"))
