"""Reasons why a load does not use a given file: another name, or a directory not searched."""

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from wheelfix.analysis.explain import python_choices
from wheelfix.analysis.load_tree import Step, describe_search, tree_of
from wheelfix.analysis.world import World
from wheelfix.elf.model import Libc
from wheelfix.elf.object_file_names import stem_of
from wheelfix.loader.load_values import Candidate, How, Request, SearchOutcome
from wheelfix.loader.loading import search_directories
from wheelfix.named_tuple import NamedTuple
from wheelfix.text import join_some, quote
from wheelfix.wheel.grafted_name import remove_hash


class WhyNot(NamedTuple):
    """Whether a load uses a file, and why not."""

    name: str
    loaded: bool
    reasons: tuple[str, ...]


def why_not(world: World, root: str, path: str, after: Sequence[str] = ()) -> WhyNot:
    """Return why the load of `root` does not use the file at `path`, an absolute path."""
    steps = tuple(tree_of(world, world.process(root, after)))
    answer = partial(WhyNot, name=world.label(path))
    for choice in python_choices(world, root):
        if choice.stop and path in {choice.path, root}:
            reason = (
                f"{choice.search.source} looks in {choice.stop.variable} {choice.directory} first, "
                f"and opens `{world.label(choice.path)}` by its path"
            )
            return answer(loaded=path == choice.path, reasons=(reason,))
    step = next((step for step in steps if step.request.result == path), None)
    if step is not None:
        reason = f"`{world.label(step.request.requester)}` gets it for `{step.request.name}`"
        return answer(loaded=True, reasons=(reason,))
    reasons = tuple(dict.fromkeys(_reasons(world, steps, path)))
    return answer(loaded=False, reasons=reasons or (_reason_not_requested(world, steps, path),))


def _names_of(world: World, path: str) -> set[str]:
    """Return the names by which the loader can find the file at `path`."""
    elf = world.environment.files.get(path)
    base = path.rpartition("/")[2]
    links = {
        link.rpartition("/")[2]
        for link, target in world.environment.links.items()
        if target.rpartition("/")[2] == base
    }
    soname = elf.soname if elf and world.environment.libc is not Libc.MUSL else None
    return {path, base, *links, *([soname] if soname else [])}


def _reason_not_requested(world: World, steps: Sequence[Step], path: str) -> str:
    names = _names_of(world, path) - {path}
    needed, stems = (step.request.name for step in steps[1:]), set(map(stem_of, names))
    grafts = [name for name in needed if stem_of(remove_hash(name) or "") in stems]
    instead = f"; a graft of that name is: {join_some(grafts, 2)}" if grafts else ""
    return f"no object of this load needs {' or '.join(map(quote, sorted(names)))}{instead}"


def _reasons(world: World, steps: Iterable[Step], path: str) -> Iterator[str]:
    names = _names_of(world, path)
    base = path.rpartition("/")[2]
    for step in steps:
        request = step.request
        if request.name not in names or step.depth == 0:
            continue
        needs = f"`{world.label(request.requester)}` needs `{request.name}`"
        rejected = (candidate for candidate in request.candidates if _is_at(world, candidate, path))
        tried = next(rejected, None)
        if tried is not None:
            yield f"{needs}: the file was tried and rejected: {tried.verdict}"
        elif request.how is How.LOADED:
            yield (
                f"{needs}: `{world.label(request.result)}` has that name and was already "
                f"loaded by `{world.label(step.loaded_by)}`, so nothing was searched"
            )
        elif request.name != base and "/" not in request.name:
            yield f"{needs}: the loader searches for a file of that name; this one is `{base}`"
        elif request.result is not None:
            first = world.label(request.result)
            yield f"{needs}: `{first}` is found first ({describe_search(world, step)})"
        elif request.fatal:
            last = request.candidates[-1]
            yield f"{needs}: the search ended before, at `{last.path}` ({last.verdict})"
        else:
            folder = posixpath.dirname(path)
            is_named = folder in request.directories
            gone = ", and users need not have it" if world.described else ": no such directory"
            why = f"is searched{gone}" if is_named else "is not searched"
            yield f"{needs}: `{folder}` {why} on {world.name}"
            yield from () if is_named else _ineffective_entries(world, request, path)


def _is_at(world: World, candidate: Candidate, path: str) -> bool:
    if candidate.outcome is SearchOutcome.NO_DIRECTORY:
        return False
    spelled = posixpath.normpath(candidate.path)
    return path in {spelled, world.environment.links.get(spelled)}


def _ineffective_entries(world: World, request: Request, path: str) -> Iterator[str]:
    """Yield the search path entries for the file's directory that do not count for `request`."""
    environment, requester = world.environment, request.requester
    elf = environment.files.get(requester or "")
    if elf is None or environment.libc is Libc.MUSL:
        return
    folder = posixpath.dirname(path)
    for owner, other in environment.files.items():
        if other.search_path is None or owner == requester:
            continue
        pairs = search_directories(other.search_path, posixpath.dirname(owner), environment)
        entries = (entry for entry, text in pairs if posixpath.normpath(text) == folder)
        entry = next(entries, None)
        if entry is None:
            continue
        if other.runpath is not None:
            why = "DT_RUNPATH counts only for the object that has it"
        elif elf.runpath is not None:
            why = f"the DT_RUNPATH of `{world.label(requester)}` disables inherited paths"
        else:
            why = f"`{world.label(owner)}` did not load `{world.label(requester)}`"
        yield f"`{world.label(owner)}` has the entry `{entry}` for it, but {why}"
