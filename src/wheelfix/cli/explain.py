"""`wheelfix explain`."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from wheelfix.analysis.explain import (
    Explanation,
    World,
    asked_for,
    explain_everywhere,
    find_subject,
    load_roots,
    why_not,
    worlds_of,
)
from wheelfix.analysis.explain import explain as explain_one
from wheelfix.cli import load_options as circumstances
from wheelfix.cli import options
from wheelfix.cli.console import Terminal
from wheelfix.cli.load_options import (
    directories_of,
    library_path,
    question_of,
    read_wheel,
    settings_of,
    target_of,
    variables_of,
)
from wheelfix.cli.verbosity import Verbose
from wheelfix.errors import ExitCode, SettingsError
from wheelfix.host.site import read_searches, read_site
from wheelfix.reports import explain_text as tree
from wheelfix.reports.terminal_text import json_text
from wheelfix.settings import Settings
from wheelfix.wheel.python_searches import MAX_SOURCE, Searches, joined, searches
from wheelfix.wheel.python_source import Budget
from wheelfix.wheel.reader import Archive, open_wheel


def explain(
    context: typer.Context,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WHEEL] [MEMBER|MODULE|SONAME]",
            help="The wheel (not with --site), and what to explain; all load roots without.",
            show_default=False,
        ),
    ] = None,
    site: Annotated[
        Path | None,
        typer.Option(
            "--site",
            metavar="DIR",
            help="Explain an installed environment: a venv, a prefix, a site-packages folder.",
            show_default=False,
        ),
    ] = None,
    why_not: Annotated[
        str | None,
        typer.Option("--why-not", metavar="PATH", help="Say why this file is not loaded."),
    ] = None,
    after: Annotated[
        list[str] | None,
        typer.Option(
            "--after",
            metavar="MODULE|WHEEL[!MEMBER]",
            help="What the process has loaded before; repeatable, in order.",
            show_default=False,
        ),
    ] = None,
    beside: circumstances.With = None,
    provider: options.ProviderOf = None,
    config: options.Config = None,
    scheme: circumstances.Scheme = None,
    target: circumstances.TargetName = None,
    env: circumstances.Variables = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
    verbose: Verbose = 0,
) -> None:
    """Say what an object loads once installed: from where, by which entry, and why not another.

    Nothing is executed: a wheel for another machine or C library is explained as well as any.
    """
    terminal = Terminal(verbosity=verbose + int(context.obj or 0))
    given = list(arguments or [])
    asked = _Asked(
        after=tuple(after or []), why_not=why_not, as_json=as_json, subject=None, terminal=terminal
    )
    variables = variables_of(env or [])
    if site is not None:
        if len(given) > 1:
            raise SettingsError("with --site, name one module, file or SONAME")
        if scheme or beside or provider:
            raise SettingsError(
                "--scheme, --with and --provider say how a wheel is installed: not for --site"
            )
        asked.subject = given[0] if given else None
        ok = _explain_site(site, target, variables, asked)
    else:
        if not given or len(given) > 2:
            raise SettingsError(
                "name one wheel, and at most one member, module or SONAME of it",
                hint="wheelfix explain demo-1.0-cp311-cp311-linux_x86_64.whl demo._core",
            )
        asked.subject = given[1] if len(given) == 2 else None
        path = Path(given[0])
        installed = _Installed(
            beside=tuple(beside or []),
            scheme=scheme,
            target=target,
            settings=settings_of(context, provider, config)(path.name),
        )
        ok = _explain_wheel(path, installed, variables, asked)
    raise typer.Exit(ExitCode.OK if ok else ExitCode.FINDINGS)


class _Asked:
    """What was asked for, as the options say it."""

    def __init__(
        self,
        *,
        after: tuple[str, ...],
        why_not: str | None,
        as_json: bool,
        subject: str | None,
        terminal: Terminal,
    ) -> None:
        self.after = after
        self.why_not = why_not
        self.as_json = as_json
        self.subject = subject
        self.terminal = terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class _Installed:
    """How a wheel is installed, as the options say it."""

    beside: tuple[Path, ...]
    scheme: str | None
    target: str | None
    settings: Settings


def _explain_wheel(
    path: Path, how: _Installed, variables: Mapping[str, str], asked: _Asked
) -> bool:
    if not path.is_file():
        raise SettingsError(f"`{path}` is not a file")
    with open_wheel(path) as archive:
        return _explain_opened(archive, how, variables, asked)


def _explain_opened(
    archive: Archive, how: _Installed, variables: Mapping[str, str], asked: _Asked
) -> bool:
    wheel = archive.wheel
    others = [read_wheel(each) for each in how.beside]
    before: list[tuple[str, str]] = []
    for each in asked.after:
        file, _, member = each.partition("!")
        if file.endswith(".whl") and Path(file).is_file():
            other = read_wheel(Path(file))
            if other.name not in [known.name for known in others]:
                others.append(other)
            before.append((f"{other.name}!", member))
        else:
            before.append(("", each))
    question = question_of(
        wheel,
        target=how.target,
        scheme=how.scheme,
        others=others,
        settings=how.settings,
        library_path=library_path(variables),
        directories=directories_of(variables),
    )
    worlds = worlds_of(wheel, question)
    world = worlds.here
    searches = _searches(archive, asked.subject, world)
    world = replace(world, searches=searches, variables=variables)
    worlds = replace(worlds, here=world)
    first = [path for prefix, name in before for path in _opened_before(world, prefix, name)]

    def one(path: str) -> Explanation:
        return explain_everywhere(worlds, path, first)

    return _answer(world, asked, first, one)


def _searches(archive: Archive, subject: str | None, world: World) -> Searches:
    """Return what the sources beside the subject search, which alone are read for it."""
    if subject is None:
        return Searches()
    names = [world.members[each] for each in find_subject(world, subject) if each in world.members]
    packages = tuple(f"{name.partition('/')[0]}/" for name in names if "/" in name)
    effort = Budget()
    return joined(
        searches(archive.read(member), member, effort)
        if entry.size <= MAX_SOURCE
        else Searches(unfollowed=(member,))
        for member, entry in archive.entries.items()
        if member.endswith(".py") and member.startswith(packages)
    )


def _opened_before(world: World, prefix: str, name: str) -> tuple[str, ...]:
    """Return the files that are opened first, for one `--after`."""
    if prefix and not name:
        files = world.environment.files
        return tuple(
            path
            for path, label in world.others.items()
            if label.startswith(prefix) and files[path].dynamic and not files[path].is_executable
        )
    found = find_subject(world, prefix + name)
    if not found:
        raise SettingsError(f"`--after {name}`: there is nothing of that name")
    return found


def _explain_site(
    directory: Path, target: str | None, variables: Mapping[str, str], asked: _Asked
) -> bool:
    described = None if target is None else target_of(target, None)
    world = read_site(
        directory,
        target=described,
        library_path=library_path(variables) or (),
        directories=directories_of(variables),
    )
    packages = {
        (Path(path.removesuffix(f"/{member}")), member.partition("/")[0])
        for path in (find_subject(world, asked.subject) if asked.subject else ())
        if "/" in (member := world.members.get(path, ""))
    }
    searches = read_searches(sorted(packages))
    world = replace(world, searches=searches, variables=variables)
    first = [path for name in asked.after for path in _opened_before(world, "", name)]

    def one(path: str) -> Explanation:
        return explain_one(world, path, first)

    return _answer(world, asked, first, one)


def _answer(
    world: World, asked: _Asked, first: Sequence[str], one: Callable[[str], Explanation]
) -> bool:
    """Explain what was asked for; return whether everything is found."""
    terminal = asked.terminal
    colour = terminal.colours_results
    if asked.subject is None:
        if asked.why_not is not None:
            raise SettingsError("--why-not needs a member, module or library that is loaded")
        found = [one(path) for path in load_roots(world) if path in world.members]
        if asked.as_json:
            _json(terminal, {"explanations": [tree.explanation_value(world, e) for e in found]})
        else:
            terminal.result(tree.roots_text(found, colour=colour))
        return all(each.ok for each in found)
    paths = find_subject(world, asked.subject)
    served = asked_for(world, asked.subject, first) if "/" not in asked.subject else ()
    if not paths and not served:
        raise SettingsError(
            f"there is no `{asked.subject}`, and nothing asks for it",
            hint="name a member, a module such as pkg._core, or a SONAME",
        )
    if asked.why_not is not None:
        return _why_not(world, asked, first, paths)
    explained = [one(path) for path in paths]
    instead = dict.fromkeys(
        choice.path for each in explained for choice in each.choices if choice.elsewhere
    )
    explained += [one(path) for path in instead if path in world.environment.files]
    if asked.as_json:
        value: dict[str, object] = {
            "explanations": [tree.explanation_value(world, each) for each in explained],
            "asked_for": tree.asked_value(world, served),
        }
        _json(terminal, value)
    else:
        texts = [
            tree.explanation_text(world, each, verbose=terminal.verbosity > 0, colour=colour)
            for each in explained
        ]
        if served:
            texts.append(tree.asked_text(world, asked.subject, served, colour=colour))
        terminal.result("\n\n".join(texts))
    return all(each.ok for each in explained) and not any(e.step.request.failed for e in served)


def _why_not(world: World, asked: _Asked, first: Sequence[str], paths: Sequence[str]) -> bool:
    wanted = asked.why_not or ""
    found = find_subject(world, wanted) or (
        (os.path.normpath(wanted),) if wanted.startswith("/") else ()
    )
    if not found:
        raise SettingsError(f"`--why-not {wanted}`: there is nothing of that name")
    if not paths:
        raise SettingsError("--why-not needs a member, module or library that is loaded")
    answers = [why_not(world, root, path, first) for root in paths for path in found]
    if asked.as_json:
        _json(asked.terminal, {"why_not": [tree.why_not_value(each) for each in answers]})
    else:
        colour = asked.terminal.colours_results
        asked.terminal.result("\n".join(tree.why_not_text(each, colour=colour) for each in answers))
    return True


def _json(terminal: Terminal, value: dict[str, object]) -> None:
    terminal.result(json_text({"version": 1, **value}))
