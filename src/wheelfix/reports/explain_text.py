"""Explanations as text, in the manner of libtree, and as JSON values."""

from collections.abc import Iterator, Sequence

from wheelfix.analysis.explain import (
    Asked,
    Choice,
    Explanation,
    Kind,
    Provenance,
    Step,
    WhyNot,
    World,
    how_found,
)
from wheelfix.loader.model import Candidate, How, SearchOutcome
from wheelfix.reports.printable import Colour, paint, printable
from wheelfix.text import join_some

FEW = 4
"""How many names a line lists before it counts the rest."""

_GIVER = {
    Provenance.WHEEL: Colour.GREEN,
    Provenance.OTHER: Colour.BLUE,
    Provenance.GIVEN: Colour.YELLOW,
    Provenance.PYTHON: Colour.DIM,
    Provenance.PLATFORM: Colour.DIM,
    Provenance.NOBODY: Colour.RED,
}


# --- Text -----------------------------------------------------------------------------------------


def explanation_text(world: World, explanation: Explanation, *, verbose: bool, colour: bool) -> str:
    """Return the tree, what is missing with all that was tried, and what it all depends on."""
    head = printable(explanation.name)
    lines = [f"{paint(head, Colour.BOLD, on=colour)}  {_circumstances(explanation)}"]
    lines += _tree(world, explanation.steps, verbose=verbose, colour=colour)
    if len(explanation.steps) == 1 and explanation.ok:
        lines.append("  needs nothing")
    lines += [
        f"{paint('problem', Colour.RED, on=colour)}: {printable(problem)}"
        for problem in explanation.problems
    ]
    lines += _chosen(world, explanation.choices, colour=colour)
    lines += _unfollowed(world)
    lines += _depends(explanation, verbose=verbose, colour=colour)
    return "\n".join(lines)


def _chosen(world: World, choices: Sequence[Choice], *, colour: bool) -> Iterator[str]:
    """Say which file Python code opens under the name: there no rule of the loader counts."""
    if choices:
        yield paint("opened by Python code", Colour.BOLD, on=colour)
    for each in choices:
        search = each.search
        body = f"{search.function}() of {search.source}" if search.function else search.source
        places = ", ".join(
            f"{stop.variable or 'its own folders'} (line {stop.line})" for stop in search.stops
        )
        yield printable(f"  {body} looks for it in {places}: the first one wins")
        how = f"{each.stop.variable} {each.directory}" if each.stop else "its own folders"
        where = printable(f"`{each.name}` => {world.label(each.path)}  [{how}]")
        yield f"    {paint(where, Colour.YELLOW if each.elsewhere else Colour.GREEN, on=colour)}"
        names = " or ".join(search.variables)
        if each.stop is None:
            yield printable(f"    another one if a directory of {names} holds `{each.name}`")
            continue
        yield "    it is opened by its path: DT_RPATH and DT_RUNPATH have no say in that"
        before = search.variables[: search.variables.index(each.stop.variable or "")]
        advice = f"take {each.directory} out of {each.stop.variable}"
        if before:
            advice += f", or have {before[0]} name the folder of the right one"
        yield printable(f"    to change that, {advice}")


def _unfollowed(world: World) -> Iterator[str]:
    """Say whose searches are not all known."""
    names = world.searches.unfollowed
    if names:
        yield printable(
            f"not followed to the end: {join_some(names)}; where Python code "
            "looks for libraries is not all known"
        )


def _circumstances(explanation: Explanation) -> str:
    return printable(f"on {explanation.target}, in {explanation.where}")


def _tree(world: World, steps: Sequence[Step], *, verbose: bool, colour: bool) -> Iterator[str]:
    """Yield a line for each step; what the platform gives is one line for each object."""
    hidden: int | None = None
    quiet: list[str] = []
    depth = 0
    for step in steps:
        if hidden is not None and step.depth > hidden:
            continue
        hidden = None
        if quiet and step.depth != depth:
            yield _platform(world, depth, quiet, colour=colour)
            quiet = []
        depth = step.depth
        outside = step.place is not None and step.place.giver is Provenance.PLATFORM and depth > 0
        if outside:
            hidden = depth
        if outside and not verbose and _is_plain(step):
            quiet.append(step.request.name)
            continue
        if quiet:
            yield _platform(world, depth, quiet, colour=colour)
            quiet = []
        yield from _step(world, step, verbose=verbose, colour=colour)
    if quiet:
        yield _platform(world, depth, quiet, colour=colour)


def _is_plain(step: Step) -> bool:
    return step.request.how in {How.DEFAULT, How.LOADED, How.LIBC, How.CACHE, None}


def _platform(world: World, depth: int, names: Sequence[str], *, colour: bool) -> str:
    text = printable(f"{', '.join(names)}  [platform {world.name}]")
    return "  " * depth + paint(text, Colour.DIM, on=colour)


def _step(world: World, step: Step, *, verbose: bool, colour: bool) -> Iterator[str]:
    indent = "  " * step.depth
    if step.depth == 0:
        if step.request.failed:
            yield f"  {paint('cannot be loaded', Colour.RED, on=colour)}"
            yield from _candidates(world, step, indent, colour=colour)
        return
    name = printable(step.request.name)
    how = printable(f"[{how_found(world, step)}]")
    if step.place is None:
        giver = printable(possible_providers(step.package, step.wheels))
        yield f"{indent}{paint(f'{name}  {how}{giver}', Colour.RED, on=colour)}"
        yield from _candidates(world, step, indent, colour=colour)
        return
    where = "" if step.place.name == step.request.name else f" => {printable(step.place.name)}"
    again = "  (see above)" if step.repeated and step.request.how is not How.LOADED else ""
    painted = paint(name, _GIVER[step.place.giver], on=colour)
    yield f"{indent}{painted}{where}  {paint(how, Colour.DIM, on=colour)}{again}"
    if verbose:
        yield from _candidates(world, step, indent, colour=colour)


def possible_providers(package: str | None, wheels: Sequence[str]) -> str:
    """Return what would bring a library that is missing: a system's package, another wheel."""
    system = f"  (package {package})" if package else ""
    return system + (f"  (in {' or '.join(wheels)}: pip install {wheels[0]})" if wheels else "")


def _candidates(world: World, step: Step, indent: str, *, colour: bool) -> Iterator[str]:
    """Yield all that was tried, in order, list by list."""
    if not step.request.candidates:
        if step.place is None:
            yield f"{indent}    nothing was searched: there is no list of directories"
        return
    heading: tuple[object, ...] = ()
    for each in step.request.candidates:
        if heading != (each.how, each.owner):
            heading = (each.how, each.owner)
            yield f"{indent}    {printable(list_name(world, each))}"
        good = each.outcome is SearchOutcome.FOUND
        shown = printable(f"{each.path}: {each.outcome}")
        yield f"{indent}      {paint(shown, Colour.GREEN if good else Colour.DIM, on=colour)}"


def list_name(world: World, candidate: Candidate) -> str:
    """Return the name of the list that the candidate is from."""
    words = {
        How.RPATH: "its own search path (DT_RPATH)",
        How.RUNPATH: "its own search path (DT_RUNPATH)",
        How.INHERITED: f"the search path of {world.label(candidate.owner)}",
        How.LIBRARY_PATH: "LD_LIBRARY_PATH",
        How.CACHE: "/etc/ld.so.cache",
        How.DEFAULT: "the default directories",
    }
    return words.get(candidate.how, "the path as written")


def _depends(explanation: Explanation, *, verbose: bool, colour: bool) -> Iterator[str]:
    if not explanation.alternatives:
        return
    yield paint("depends on", Colour.BOLD, on=colour)
    for kind in Kind:
        for each in explanation.alternatives:
            if each.kind is kind:
                names = join_some(each.names, len(each.names) if verbose else FEW)
                yield printable(f"  {kind}: {names}: if {_clause(each.when)}, {each.then}")


def _clause(when: str) -> str:
    for word in ("without ", "on ", "installed "):
        if when.startswith(word):
            return f"it runs {when}" if word != "installed " else f"it is {when}"
    return when


def roots_text(explanations: Sequence[Explanation], *, colour: bool) -> str:
    """Return a line for each object that may be loaded first, those that fail at the top."""
    if not explanations:
        return "no ELF object in it is loaded"
    first = explanations[0]
    lines = [_circumstances(first)]
    for each in sorted(explanations, key=lambda each: each.ok):
        counts = dict.fromkeys(Provenance, 0)
        for step in each.steps[1:]:
            if step.place is not None and not step.repeated:
                counts[step.place.giver] += 1
        found = ", ".join(
            f"{number} from {_source(giver)}" for giver, number in counts.items() if number
        )
        verdict = paint("ok", Colour.GREEN, on=colour)
        if not each.ok:
            names = dict.fromkeys(f"`{step.request.name}`" for step in each.missing)
            trouble = [f"not found: {', '.join(names)}"] if names else []
            verdict = paint(printable("; ".join((*trouble, *each.problems))), Colour.RED, on=colour)
        lines.append(f"  {printable(each.name)}: {found or 'needs nothing'}  {verdict}")
    lines += _all_depend(explanations)
    return "\n".join(lines)


def _source(giver: Provenance) -> str:
    return {
        Provenance.WHEEL: "the wheel",
        Provenance.OTHER: "other wheels",
        Provenance.PYTHON: "python",
        Provenance.PLATFORM: "the platform",
        Provenance.GIVEN: "LD_LIBRARY_PATH",
    }.get(giver, "nobody")


def _all_depend(explanations: Sequence[Explanation]) -> Iterator[str]:
    kinds: dict[Kind, dict[str, None]] = {}
    for each in explanations:
        for alternative in each.alternatives:
            kinds.setdefault(alternative.kind, {}).update(dict.fromkeys(alternative.names))
    for kind, names in kinds.items():
        yield printable(f"depends on the {kind}: {join_some(names, FEW)}")


def asked_text(world: World, name: str, asked: Sequence[Asked], *, colour: bool) -> str:
    """Return who asks for `name`, and what each gets."""
    lines = [paint(printable(name), Colour.BOLD, on=colour) + printable(f"  on {world.name}")]
    if not asked:
        lines.append("  nothing asks for it")
    for each in asked:
        step = each.step
        how = f"[{how_found(world, step)}]"
        giver = possible_providers(step.package, step.wheels)
        text = f"{step.place.name}  {how}" if step.place else f"{how}{giver}"
        lines.append(f"  {printable(text)}")
        lines.append(f"    for {printable(join_some(each.requesters, FEW))}")
        if step.place is None:
            lines += _candidates(world, step, "", colour=colour)
    return "\n".join(lines)


def why_not_text(answer: WhyNot, *, colour: bool) -> str:
    """Return the reasons, one a line."""
    head = "it is the one" if answer.loaded else "why not"
    lines = [paint(f"{head}: {printable(answer.name)}", Colour.BOLD, on=colour)]
    return "\n".join([*lines, *(f"  {printable(reason)}" for reason in answer.reasons)])


# --- JSON -----------------------------------------------------------------------------------------


def explanation_value(world: World, explanation: Explanation) -> dict[str, object]:
    """Return the explanation as JSON types; requests in the order of the tree, with their depth."""
    return {
        "root": explanation.name,
        "path": explanation.root,
        "target": explanation.target,
        "installed": explanation.where,
        "ok": explanation.ok,
        "objects": [world.label(path) for path in explanation.objects],
        "requests": [_request_value(world, step) for step in explanation.steps],
        "problems": list(explanation.problems),
        "opened_by_python": [_choice_value(world, each) for each in explanation.choices],
        "not_followed": list(world.searches.unfollowed),
        "alternatives": [
            {
                "kind": each.kind.value,
                "names": list(each.names),
                "when": each.when,
                "then": each.then,
            }
            for each in explanation.alternatives
        ],
    }


def _choice_value(world: World, choice: Choice) -> dict[str, object]:
    return {
        "source": choice.search.source,
        "function": choice.search.function or None,
        "searches": [
            {"variable": stop.variable, "line": stop.line} for stop in choice.search.stops
        ],
        "name": choice.name,
        "path": choice.path,
        "file": world.label(choice.path),
        "variable": choice.stop.variable if choice.stop else None,
        "directory": choice.directory,
    }


def _request_value(world: World, step: Step) -> dict[str, object]:
    request = step.request
    return {
        "depth": step.depth,
        "requester": None if request.requester is None else world.label(request.requester),
        "name": request.name,
        "path": request.result,
        "file": step.place.name if step.place else None,
        "given_by": step.place.giver.value if step.place else Provenance.NOBODY.value,
        "how": request.how.value if request.how else None,
        "entry": step.via.entry if step.via else None,
        "found": how_found(world, step),
        "loaded_by": None if step.loaded_by is None else world.label(step.loaded_by),
        "repeated": step.repeated,
        "package": step.package,
        "wheels": list(step.wheels),
        "candidates": [
            {
                "path": each.path,
                "how": each.how.value,
                "outcome": each.outcome.value,
                "owner": None if each.owner is None else world.label(each.owner),
                "entry": each.entry,
            }
            for each in request.candidates
        ],
    }


def asked_value(world: World, asked: Sequence[Asked]) -> list[dict[str, object]]:
    """Return the answers to one name as JSON types."""
    return [
        {
            **_request_value(world, each.step),
            "roots": list(each.roots),
            "requesters": list(each.requesters),
        }
        for each in asked
    ]


def why_not_value(answer: WhyNot) -> dict[str, object]:
    """Return the reasons as JSON types."""
    return {"file": answer.name, "loaded": answer.loaded, "reasons": list(answer.reasons)}
