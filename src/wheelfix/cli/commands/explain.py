"""`wheelfix explain`: which libraries an object loads, and why."""

import os
import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from wheelfix.analysis.explain import Explanation, explain_everywhere, explain_installed
from wheelfix.analysis.installation import Installation, find_subject, installations_of, load_roots
from wheelfix.analysis.load_tree import resolutions
from wheelfix.analysis.why_not_used import why_not
from wheelfix.cli import installation_options, options
from wheelfix.cli.console import Terminal, Verbose
from wheelfix.cli.installation_options import (
    absolute_directories,
    library_path,
    parse_variables,
    question_of,
    read_wheel,
    target_of,
)
from wheelfix.cli.options import TextOrJson, require_file
from wheelfix.errors import ExitCode, SettingsError
from wheelfix.host.installed_environment import read_searches, read_site
from wheelfix.host.provider_lookup import with_providers
from wheelfix.reports.explain_formats import (
    explanation_text,
    explanation_value,
    resolutions_text,
    resolutions_value,
    roots_text,
    why_not_text,
    why_not_value,
)
from wheelfix.reports.printable import json_text
from wheelfix.settings import Group, Settings
from wheelfix.text import join_some
from wheelfix.wheel.grafted_name import original_name
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.python_library_searches import MAX_SOURCE, LibrarySearches, joined, searches
from wheelfix.wheel.python_source import STEPS_PER_WHEEL
from wheelfix.wheel.reader import Archive, open_wheel

_Arguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[WHEEL] [MEMBER|MODULE|SONAME]",
        help="The wheel (not with --site), and what to explain; by default all load roots.",
    ),
]
_WhyNot = Annotated[
    str | None,
    typer.Option(
        metavar="PATH", help="Explain why this file is not loaded.", rich_help_panel=Group.WHEELS
    ),
]
_After = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODULE|WHEEL[!MEMBER]",
        help="A module or library that the process has loaded before; repeatable, in order.",
        rich_help_panel=Group.MACHINES,
    ),
]


@options.with_settings
def explain(
    context: typer.Context,
    arguments: _Arguments = None,
    site: installation_options.Site = None,
    why_not: _WhyNot = None,
    after: _After = None,
    beside: options.With = None,
    scheme: installation_options.Scheme = None,
    target: installation_options.TargetName = None,
    env: installation_options.Variables = None,
    output_format: options.OutputFormat = TextOrJson.TEXT,
    config: options.Config = None,
    verbose: Verbose = 0,
    **given: object,
) -> None:
    """Explain which libraries an object loads, and why.

    Each is shown with its path, the search path entry that finds it, and the candidates before it.
    Nothing is executed, so a wheel for another machine or C library can be explained too.
    """
    words = list(arguments or [])
    how = _Options(
        beside=beside or (),
        scheme=scheme,
        target=target,
        variables=parse_variables(env or []),
        after=after or (),
    )
    if site is not None:
        if len(words) > 1:
            raise SettingsError("with --site, name one module, file or SONAME")
        provider = given["provider"] and not options.by_environment(context, "provider")
        if scheme or beside or provider:
            raise SettingsError("--scheme, --with and --provider are for wheels, not for --site")
        subject = words[0] if words else None
        process = _in_site(site, subject, how)
    else:
        path, subject = _wheel_and_subject(words)
        settings = options.configuration_of(context, given, config).settings_for(path.name)
        process = _in_wheel(path, subject, how, settings)
    terminal = Terminal(verbosity=verbose)
    if why_not is not None:
        answer = _why_not(process, subject, why_not, terminal)
    elif subject is not None:
        answer = _subject(process, subject, terminal)
    else:
        answer = _roots(process, terminal)
    terminal.result(
        json_text({"version": 1, **answer.value})
        if output_format is TextOrJson.JSON
        else answer.text
    )
    raise typer.Exit(ExitCode.OK if answer.is_found else ExitCode.FINDINGS)


class _Options(NamedTuple):
    """How the wheel is installed, and the process that loads it."""

    beside: Sequence[Path]
    scheme: str | None
    target: str | None
    variables: Mapping[str, str]
    after: Sequence[str]


class _Process(NamedTuple):
    """A process that has opened some files, and loads others."""

    installation: Installation
    opened: Sequence[str]
    explain: Callable[[str], Explanation]
    """Explain what opening a path loads."""


class _Answer(NamedTuple):
    """An explanation as text and as JSON types."""

    text: str
    value: Mapping[str, object]
    is_found: bool
    """Whether everything that it explains is found."""


# --- Options --------------------------------------------------------------------------------------


def _wheel_and_subject(words: Sequence[str]) -> tuple[Path, str | None]:
    if not words or len(words) > 2:
        raise SettingsError(
            "name one wheel, and at most one member, module or SONAME of it",
            hint="wheelfix explain demo-1.0-cp311-cp311-linux_x86_64.whl demo._core",
        )
    path = Path(words[0])
    if not path.exists() and path.suffix != ".whl":
        raise SettingsError(
            f"`{path}` is not a file",
            hint="name the wheel first, or with --site the environment that has it",
        )
    require_file(path)
    return path, words[1] if len(words) == 2 else None


# --- A wheel --------------------------------------------------------------------------------------


def _in_wheel(path: Path, subject: str | None, how: _Options, settings: Settings) -> _Process:
    others = [read_wheel(other) for other in how.beside]
    after = [_after(word, others) for word in how.after]
    with open_wheel(path) as archive:
        question = question_of(
            archive.wheel,
            target=how.target,
            scheme=how.scheme,
            others=others,
            settings=with_providers(settings, Path.cwd(), archive.wheel),
            library_path=library_path(how.variables),
            directories=absolute_directories(how.variables),
        )
        worlds = installations_of(archive.wheel, question)
        here = replace(
            worlds.here, searches=_searches(archive, subject, worlds.here), variables=how.variables
        )
    opened = [file for prefix, name in after for file in _opened_before(here, prefix, name)]
    explain_path = partial(explain_everywhere, replace(worlds, here=here), after=opened)
    return _Process(here, opened, explain_path)


def _after(word: str, others: list[Wheel]) -> tuple[str, str]:
    """Return the label of the wheel and the member of one `--after`; add the wheel to `others`."""
    file, _, member = word.partition("!")
    if not (file.endswith(".whl") and Path(file).is_file()):
        return "", word
    wheel = read_wheel(Path(file))
    if wheel.name not in [other.name for other in others]:
        others.append(wheel)
    return f"{wheel.name}!", member


def _searches(archive: Archive, subject: str | None, installation: Installation) -> LibrarySearches:
    """Return the directories searched by the Python sources of the subject's packages."""
    if subject is None:
        return LibrarySearches()
    members = installation.members
    names = [members[path] for path in find_subject(installation, subject) if path in members]
    packages = tuple(f"{name.partition('/')[0]}/" for name in names if "/" in name)
    budget = archive.budget.share(STEPS_PER_WHEEL)
    return joined(
        searches(archive.read(member), member, budget)
        if entry.size <= MAX_SOURCE
        else LibrarySearches(unfollowed=(member,))
        for member, entry in archive.entries.items()
        if member.endswith(".py") and member.startswith(packages)
    )


def _opened_before(installation: Installation, prefix: str, name: str) -> tuple[str, ...]:
    """Return the files that one `--after` opens."""
    if prefix and not name:
        files = installation.environment.files
        return tuple(
            path
            for path, label in installation.others.items()
            if label.startswith(prefix) and files[path].dynamic and not files[path].is_executable
        )
    found = find_subject(installation, prefix + name)
    if not found:
        raise SettingsError(f"`--after {name}`: not found")
    return found


# --- An installed environment ---------------------------------------------------------------------


def _in_site(directory: Path, subject: str | None, how: _Options) -> _Process:
    world = read_site(
        directory,
        target=None if how.target is None else target_of(how.target, None),
        library_path=library_path(how.variables) or (),
        directories=absolute_directories(how.variables),
    )
    packages = {
        (Path(path.removesuffix(f"/{member}")), member.partition("/")[0])
        for path in (find_subject(world, subject) if subject else ())
        if "/" in (member := world.members.get(path, ""))
    }
    searches = read_searches(sorted(packages))
    installation = replace(world, searches=searches, variables=how.variables)
    opened = [file for name in how.after for file in _opened_before(installation, "", name)]
    return _Process(installation, opened, partial(explain_installed, installation, after=opened))


# --- Answers --------------------------------------------------------------------------------------


def _roots(process: _Process, terminal: Terminal) -> _Answer:
    world = process.installation
    found = [process.explain(path) for path in load_roots(world) if path in world.members]
    return _Answer(
        text=roots_text(found, colour=terminal.colours_results),
        value={"explanations": [explanation_value(world, root) for root in found]},
        is_found=all(explanation.ok for explanation in found),
    )


def _subject(process: _Process, subject: str, terminal: Terminal) -> _Answer:
    world, colour = process.installation, terminal.colours_results
    paths = find_subject(world, subject)
    served = resolutions(world, subject, process.opened) if "/" not in subject else ()
    if not paths and not served:
        raise SettingsError(
            f"there is no `{subject}`, and nothing needs it",
            hint=_meant(world, subject) or "name a member, a module such as pkg._core, or a SONAME",
        )
    explained = [process.explain(path) for path in paths]
    choices = [choice for explanation in explained for choice in explanation.choices]
    elsewhere = dict.fromkeys(choice.path for choice in choices if choice.elsewhere)
    explained += [process.explain(path) for path in elsewhere if path in world.environment.files]
    texts = [
        explanation_text(world, explanation, verbose=terminal.verbosity > 0, colour=colour)
        for explanation in explained
    ]
    if served:
        texts.append(resolutions_text(world, subject, served, colour=colour))
    return _Answer(
        text="\n\n".join(texts),
        value={
            "explanations": [explanation_value(world, found) for found in explained],
            "asked_for": resolutions_value(world, served),
        },
        is_found=not any(resolution.step.request.failed for resolution in served)
        and all(explanation.ok for explanation in explained),
    )


def _meant(world: Installation, subject: str) -> str | None:
    """Return a hint on what `subject` probably means: a package, a grafted library, a typo."""
    objects = [m for path, m in world.members.items() if path in world.environment.files]
    folder = subject.replace(".", "/") + "/"
    inside = [member for member in objects if member.startswith(folder)]
    grafted = [m for m in objects if original_name(posixpath.basename(m)).startswith(subject)]
    if inside or grafted:
        return f"did you mean {join_some(inside or grafted, 3)}?"
    modules = {member.partition(".")[0].replace("/", "."): member for member in objects}
    near = get_close_matches(subject, [*objects, *modules], n=1)
    return f"did you mean `{near[0]}`?" if near else None


def _why_not(process: _Process, subject: str | None, wanted: str, terminal: Terminal) -> _Answer:
    world = process.installation
    found = find_subject(world, wanted)
    if not found and wanted.startswith("/"):
        found = (os.path.normpath(wanted),)
    if not found:
        raise SettingsError(f"`--why-not {wanted}`: not found")
    roots = find_subject(world, subject) if subject is not None else ()
    if not roots:
        raise SettingsError("--why-not needs a member, module or library that is loaded")
    answers = [why_not(world, root, path, process.opened) for root in roots for path in found]
    colour = terminal.colours_results
    return _Answer(
        text="\n".join(why_not_text(answer, colour=colour) for answer in answers),
        value={"why_not": [why_not_value(answer) for answer in answers]},
        is_found=True,
    )
