"""`wheelfix explain`: which libraries an object loads, and why."""

import os
import posixpath
import shlex
from collections import ChainMap
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from enum import StrEnum
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Annotated

import typer

from wheelfix.analysis.explain import Before, Explanation
from wheelfix.analysis.explain import explain as explain_load
from wheelfix.analysis.explain_remedies import Installed, failure_remedy
from wheelfix.analysis.graph import Graph, Loads, graph_of
from wheelfix.analysis.load_failures import (
    HIDDEN,
    OF_OTHER_PYTHON,
    UNLESS_LOADED,
    Failure,
    Lack,
    LoadJudge,
    fits_python,
    hidden_at,
)
from wheelfix.analysis.load_tree import Resolution, needed_names, resolutions
from wheelfix.analysis.opened_libraries import openings
from wheelfix.analysis.policies import newest_versions, policy_of
from wheelfix.analysis.why_file_not_used import why_not
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
from wheelfix.cli.options import Call, words_for_repair
from wheelfix.cli.output_files import Kind, write_file
from wheelfix.cli.wheel_paths import expand, names_wheels
from wheelfix.cli.wheel_time_limit import ask_each, time_limit
from wheelfix.elf.model import Libc
from wheelfix.elf.object_file_names import is_object_name
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
from wheelfix.host.library_search import GivenLibraries
from wheelfix.host.machine_files import has_string
from wheelfix.host.neighbors import InstalledDistributions, providers_of
from wheelfix.host.policy_tables import read_policies
from wheelfix.host.sysroot import Sysroot, system_at
from wheelfix.loader.as_needed import Library
from wheelfix.loader.install_schemes import interpreters, name_in_site
from wheelfix.loader.load_values import Request
from wheelfix.loader.loading import absolute_directories
from wheelfix.loader.python_api import MODULE_SUFFIX
from wheelfix.named_tuple import NamedTuple
from wheelfix.pipelines.repair_plan import context_of
from wheelfix.pipelines.repair_refusals import refuse_other_system
from wheelfix.providers.well_known import possible_wheels
from wheelfix.python_sources.imported_modules import module_name
from wheelfix.python_sources.parsing import STEPS_PER_WHEEL
from wheelfix.python_sources.searched_places import (
    MAX_SOURCE,
    LibrarySearches,
    join_searches,
    searches,
)
from wheelfix.python_sources.source_facts import PythonOpening
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
from wheelfix.reports.graph_formats import dot, mermaid
from wheelfix.reports.graph_page import page
from wheelfix.reports.printable import fit, json_text, printable
from wheelfix.reports.why import advice
from wheelfix.rules.context import Context
from wheelfix.rules.loaded_before import loaded_before
from wheelfix.rules.provider_gaps import way_beside
from wheelfix.rules.undefined_symbols import defined_by_providers
from wheelfix.settings import Group, Option, Settings
from wheelfix.system.paths import is_file, is_there
from wheelfix.text import join_some, operand, quote, toml_string
from wheelfix.wheel.grafted_name import original_name
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
    answers: list[tuple[str | None, _Answer]] = []
    errors: list[dict[str, object]] = []
    configuration = call.read_configuration()
    if of_site := _of_site(call, request, words, variables, configuration.settings, form):
        answers.append((None, of_site))
    else:
        wheels, subject = _wheels_and_subject(words, terminal)
        absent: list[_AbsentError] = []
        to_repair = words_for_repair(call, configuration)

        def ask(path: Path) -> None:
            settings = configuration.settings_for(path.name)
            try:
                with _in_wheel(
                    path, subject, request, variables, settings, terminal, to_repair
                ) as process:
                    answer = _answer(process, request.why_not, form, terminal)
            except _AbsentError as error:
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
) -> "_Answer | None":
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


class _Process(NamedTuple):
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

    def explain(self, paths: Sequence[str], *, is_import: bool = False) -> list[Explanation]:
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
        first = (
            how(path, is_import=is_import).with_problem(self.world, unfit.get(path), self.installed)
            for path in paths
        )
        explained = [*map(self._with_imports, first)]
        missing = [{step.request.name: step.request for step in each.missing} for each in explained]
        ways = {name: self.ways(request) for name, request in ChainMap(*missing).items()}
        return [
            each._replace(remedies=(*flatten(map(ways.__getitem__, names)), *each.remedies))
            for each, names in zip(explained, missing, strict=True)
        ]

    def _with_imports(self, alone: Explanation) -> Explanation:
        """Return what is explained with all that the imports of a module load before it."""
        alike = self._replace(before=None)
        if alone.ok:
            return alone
        without = alike._replace(world=self.world.without_path)
        is_of_path = without.world is not self.world and without.explain([alone.root])[0].ok
        if is_of_path or not alone.lacks_lent or self.before is None:
            return alone
        if self.opened and alike._replace(opened=()).explain([alone.root])[0].ok:
            return alone  # the order that was asked for is at fault
        first, for_all, unknown = self.before(alone)
        if first or for_all:
            opened = tuple(dict.fromkeys((*self.opened, *first)))
            (alone,) = alike._replace(opened=opened, for_all=for_all).explain([alone.root])
        if alone.ok or not unknown:
            return alone
        every = tuple(dict.fromkeys((*unknown, *alone.unknown)))
        remedies = tuple(f"{remedy}{UNLESS_LOADED}" for remedy in alone.remedies)
        return alone._replace(may_load=True, unknown=every, remedies=remedies)

    def ways(self, request: Request) -> Sequence[str]:
        """Return the remedies for a library that is not found."""
        return [f"{quote(request.name)}: {way}" for way in self.advice(request)]


class _Answer(NamedTuple):
    """An explanation as text and as JSON types."""

    text: str
    value: Mapping[str, Sequence[Mapping[str, object]]]
    is_found: bool
    """Whether everything that it explains is found."""
    graph: Graph | None = None
    """What it explains, where that is to be drawn."""

    def of(self, wheel: str) -> "_Answer":
        """Return the answer as one of several, with the name of its wheel."""
        return self._replace(text=f"{printable(wheel)}\n{self.text}")


def _answer(
    process: _Process, path: str | None, form: ExplainFormat, terminal: Terminal
) -> _Answer:
    """Return why `path` is not loaded, or else what is known about the subject or all roots."""
    subject = process.subject
    if path is not None:
        return _why_not(process, subject, path, terminal)
    if form not in _GRAPHS:
        return (
            _roots(process, terminal) if subject is None else _subject(process, subject, terminal)
        )
    world, roots = process.world, find_subject(process.world, subject) if subject else ()
    if subject and not roots:
        raise _absent(process, subject)
    explained = process.explain(roots or tuple(world.first_loads))
    graph = graph_of(world, process.title, process.sizes(), Loads(roots, process.opened))
    return _Answer("", {}, all(explanation.ok for explanation in explained), graph)


def _value(answers: Iterable[tuple[str | None, _Answer]]) -> dict[str, object]:
    """Return all answers as JSON types, each with its wheel; None for an environment."""
    sections: dict[str, list[Mapping[str, object]]] = {}
    for wheel, answer in answers:
        for key, values in answer.value.items():
            sections.setdefault(key, []).extend({"wheel": wheel, **value} for value in values)
    return {"version": 1, **sections}


def _write(
    answers: Sequence[tuple[str | None, _Answer]],
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
) -> Generator[_Process]:
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
        libc = world.environment.libc
        if request.target and archive.wheel.elfs and archive.wheel.libc is not libc:
            terminal.say(
                f"note: `{request.target}` has {libc}, and the wheel is for {archive.wheel.libc}: "
                "it is not installed there"
            )
        searches = _searches(archive, subject, world)
        world = replace(world, searches=searches, variables=variables)
        opened = list(flatten(_open_before(world, prefix, name) for prefix, name in after))
        by_name = tuple(openings(archive.wheel))
        asked = LibraryUses(path, request.target, settings, request.scheme, request.env)
        command = shlex.join(("wheelfix", "repair", *words, operand(path)))
        beside_it = partial(_beside_it, world, context)

        def mentions(path: str, text: str) -> bool:
            return world.members.get(path) in read.code.mentions({text})[text]

        yield _Process(
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
            advice=partial(_advice, asked, command, beside_it),
        )


def _advice(
    asked: LibraryUses, command: str, beside_it: Callable[[Request], str], request: Request
) -> Iterator[str]:
    """Yield what a repair does about a library that is not found, or what must be required."""
    library = request.name
    answer, names = asked.of(library), {library, posixpath.basename(library)}
    uses = [u for u in answer.uses if names & {u.name, u.node.name} and not u.is_of_neighbor]
    missing = [use for use in uses if use.node.provenance is Provenance.MISSING]
    for use in missing or uses:
        way = use.obstacle if use.is_dropped and answer.note else advice(use, command)
        if way:
            yield _in_short(answer.note, way, library) if answer.note else way
    if not uses:
        yield from filter(None, [beside_it(request)])


def _beside_it(world: World, context: Context, request: Request) -> str:
    """Return what to do about a library that a neighbor lacks; empty if that is not known."""
    label, known = world.others.get(request.requester or "", ""), possible_wheels(request.name)
    way = way_beside(context, label, request) if label and known else None
    return f"it is {known}: {way.of_authors or way.hint}" if way else ""


def _in_short(note: str, way: str, library: str) -> str:
    """Return that a repair writes nothing, and the first way out of several; `why` has all."""
    lines = " ".join(way.splitlines()).removeprefix("a repair, once it can be planned: ")
    ways = lines.split("; or, ")
    first = next((one for one in ways if "--provider" in one), ways[0])
    why = note.partition(": ")[0] if "cannot be planned" in note and library in note else note
    return f"{why}; {first}; `wheelfix why` says more"


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
        return tuple(
            path
            for path, label in world.others.items()
            if label.startswith(prefix) and files[path].is_library
        )
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
        raise SettingsError(f"`--after {name}`: not found", hint=_meant(world, name))
    return paths


# --- An installed environment ---------------------------------------------------------------------


def _in_site(
    directory: Path, subject: str | None, request: _Options, variables: Mapping[str, str]
) -> _Process:
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
    title, part = str(directory), None
    if subject and "/" in subject and not find_subject(world, subject):
        subject = _in_environment(world, subject)
    if subject and not request.why_not and not find_subject(world, subject):
        part = of_distribution(world, subject)
        world, subject, title = (part, None, subject) if part else (world, subject, title)
    searches = read_searches(world, find_subject(world, subject) if subject else ())
    world = replace(world, searches=searches, variables=variables)
    opened = list(flatten(_open_before(world, "", name) for name in request.after))
    installed = InstalledDistributions(directory, world.schemes[0].python)
    folders = {Path(path.removesuffix(f"/{member}")) for path, member in world.members.items()}
    by_name = partial(read_openings, sorted(folders))
    sizes = partial(sizes_of, world.members)

    there = cache(partial(read_modules, directory, library_path, facts, target))

    def before(alone: Explanation) -> Before:
        path, modules = alone.root, there()
        if path not in modules.modules:
            return Before()
        failing = (*modules.failures, *modules.lent())
        is_left = path not in {failing for failing, lack in failing if lack.is_known}
        for_all = "" if alone.missing else ", for all (RTLD_GLOBAL)"
        unknown = [f"another import, or code, may load that before{for_all}"] * is_left
        first = modules.at(modules.names_before(path))
        return Before(first, tuple(modules.opened_for_all(path)), unknown)

    def failures() -> Iterator[tuple[str, Lack]]:
        modules = there()
        for path, lack in modules.failures:
            is_own = f"{world.label(path)}/".startswith(f"{title.replace('.', '/')}/")
            if part is None or is_own or name_of(modules.distribution(path)) == name_of(title):
                yield path, lack

    pythons = [world.schemes[0].python]
    return _Process(
        *(world, subject, title, sizes, libraries_of(world), opened, by_name, pythons),
        *(has_string, installed, failures, before),
    )


def _in_environment(world: World, text: str) -> str:
    """Return what `find_subject` finds for a path as users write it; else, its name there."""
    is_of_machine = posixpath.isabs(text) or is_there(Path(text))
    path = os.path.realpath(text) if is_of_machine else posixpath.normpath(text)
    found = find_subject(world, path)
    return path if found else name_in_site(path.removeprefix(f"{world.where}/"))


# --- Answers --------------------------------------------------------------------------------------


def _roots(process: _Process, terminal: Terminal) -> _Answer:
    world, failures = process.world, dict(process.failures())
    roots = [path for path in world.first_loads if path in world.members]
    if process.installed is None:
        broken = (path for path in world.environment.broken if MODULE_SUFFIX.search(path))
        roots += (path for path in broken if path in world.members)
    roots += (path for path in failures if path not in roots and not path.endswith(".py"))
    explanations = [
        explanation.with_problem(world, failures.get(explanation.root), process.installed)
        for explanation in process.explain(roots)
    ]
    return _Answer(
        text=roots_text(explanations, terminal.result_style),
        value={"explanations": [explanation_value(world, root) for root in explanations]},
        is_found=all(explanation.ok for explanation in explanations),
    )


def _subject(process: _Process, subject: str, terminal: Terminal) -> _Answer:
    world, style = process.world, terminal.result_style
    paths = find_subject(world, subject)
    served = _served(process, [subject] if "/" not in subject else [])
    if not paths and not served:
        served = _served(process, needed_names(world, subject))
    if not paths and not served:
        gone = [failure for failure in process.failures() if _is_gone(world, subject, failure[0])]
        if not gone:
            raise _absent(process, subject)
        return _roots(
            process._replace(world=replace(world, members={}), failures=lambda: gone), terminal
        )
    is_import = "/" not in subject and not is_object_name(subject)
    explained = process.explain(paths, is_import=is_import)
    choices = list(flatten(explanation.choices for explanation in explained))
    elsewhere = dict.fromkeys(choice.path for choice in choices if choice.elsewhere)
    explained += process.explain([path for path in elsewhere if path in world.environment.files])
    texts = [explanation_text(world, explanation, style) for explanation in explained]
    served_here = list(flatten(served.values()))
    texts += [resolutions_text(world, name, answers, style) for name, answers in served.items()]
    missing = tuple(resolution.step for resolution in served_here if resolution.step.request.failed)
    installed = process.installed
    lacking = [] if explained else [step.request for step in missing]
    lacks = (Lack(Failure.FILE, request.requester or "", request.name) for request in lacking)
    todo = [failure_remedy(world, installed, lack) for lack in lacks if installed]
    todo += flatten(map(process.ways, {request.name: request for request in lacking}.values()))
    return _Answer(
        text="\n".join(["\n\n".join(texts), *remedies_text(todo, style)]),
        value={
            "explanations": [explanation_value(world, explanation) for explanation in explained],
            "asked_for": resolutions_value(world, served_here),
        },
        is_found=not missing and all(explanation.ok for explanation in explained),
    )


def _is_gone(world: World, subject: str, path: str) -> bool:
    """Return whether the subject is a file that a RECORD lists, or its package, and it is gone."""
    label = world.label(path)
    is_inside = f"{label}/".startswith(f"{subject}/") or f"{module_name(label)}.".startswith(
        f"{subject}."
    )
    return path not in world.members and (is_inside or label.endswith(f"/{subject}"))


def _served(process: _Process, names: Iterable[str]) -> dict[str, tuple[Resolution, ...]]:
    """Return what objects get for each library that is asked for."""
    answers = ((name, resolutions(process.world, name, process.opened)) for name in names)
    return {name: answer for name, answer in answers if answer}


class _AbsentError(SettingsError):
    """No file of a wheel has the name that was asked about, and nothing needs it."""


def _absent(process: _Process, subject: str) -> _AbsentError:
    places = [f"{source}:{line}" for source, line in process.openings(subject)]
    if places:
        way = f"`include = [{toml_string(subject)}]` in [tool.wheelfix] grafts it into the wheel"
        return _AbsentError(
            f"`{subject}` is not found, but opened by name: {join_some(places, 3)}",
            hint=way,
        )
    return _AbsentError(
        f"no object is or needs `{subject}`",
        hint=_meant(process.world, subject)
        or "name a member, a module such as pkg._core, or a library",
    )


def _meant(world: World, subject: str) -> str | None:
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


def _why_not(process: _Process, subject: str | None, text: str, terminal: Terminal) -> _Answer:
    world = process.world
    paths = find_subject(world, text)
    if not paths and (text.startswith("/") or is_there(Path(text))):
        paths = (os.path.normpath(Path.cwd() / text),)
    if not paths:
        raise SettingsError(
            f"no file that `--why-not` can be about is named `{text}`",
            hint="name a member or the path of a file: what a repair grafts is not there yet",
        )
    roots = find_subject(world, subject) if subject is not None else ()
    if not roots:
        loaded = [world.members[path] for path in world.first_loads if path in world.members]
        raise SettingsError(
            "--why-not needs a member, module or library that is loaded",
            hint=f"name it, too, such as {join_some(loaded, 2)}" if loaded else None,
        )
    answers = [why_not(world, *pair, process.opened) for pair in product(roots, paths)]
    style = terminal.result_style
    return _Answer(
        text="\n".join(why_not_text(answer, style) for answer in answers),
        value={"why_not": [why_not_value(answer) for answer in answers]},
        is_found=True,
    )
