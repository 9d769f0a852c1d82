"""The output of `wheelfix explain`: load trees as text, like those of libtree, and as JSON."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from wheelfix.analysis.explain import Explanation, PythonChoice
from wheelfix.analysis.explain_remedies import Advice
from wheelfix.analysis.load_conditions import Factor
from wheelfix.analysis.load_tree import (
    Resolution,
    Step,
    describe_search,
    of_another_version,
    why_unreached,
)
from wheelfix.analysis.why_file_not_used import WhyNot
from wheelfix.analysis.world import Provenance, World
from wheelfix.elf.demangle import join_symbols
from wheelfix.grouping import flatten, grouped
from wheelfix.loader.load_values import How, SearchOutcome, search_list
from wheelfix.providers.well_known import possible_wheels
from wheelfix.reports.printable import PLAIN, Color, Style, fields_value, paint, printable
from wheelfix.text import FEW, first_of, join_plain, join_some

PROVENANCE_COLORS = {
    Provenance.WHEEL: Color.GREEN,
    Provenance.OTHER: Color.BLUE,
    Provenance.VARIABLE: Color.YELLOW,
    Provenance.PYTHON: Color.DIM,
    Provenance.PLATFORM: Color.DIM,
    Provenance.MISSING: Color.RED,
}


# --- Text -----------------------------------------------------------------------------------------


def explanation_text(world: World, explanation: Explanation, style: Style = PLAIN) -> str:
    """Return the tree, all attempts for missing libraries, and what the result depends on."""
    name = paint(printable(explanation.name), Color.BOLD, on=style.color)
    lines = [f"{name}  {_where(explanation)}"]
    lines += _tree(world, explanation.steps, style)
    if len(explanation.steps) == 1 and explanation.ok:
        lines.append("  needs nothing")
    lines += [
        f"{paint('problem', Color.RED, on=style.color)}: {printable(problem)}"
        for problem in _problems(explanation)
    ]
    lines += [f"not known: {printable(words)}" for words in explanation.unknown]
    lines += _choices(world, explanation.choices, style)
    lines += _incomplete(world)
    lines += _alternatives(explanation, style)
    return "\n".join([*lines, *remedies_text(explanation.remedies, style)])


def remedies_text(remedies: Iterable[Advice], style: Style = PLAIN) -> list[str]:
    """Return what to do, a line each below a title; nothing without remedies.

    What is to be done for the same reason is said once.
    """
    lines: list[str] = []
    for way, alike in grouped(dict.fromkeys(remedies), lambda advice: advice.way).items():
        names = join_symbols(flatten(advice.names for advice in alike), FEW)
        text = f"each of {names}: {way}" if len(alike) > 1 else alike[0].text
        lines.append(printable(f"  {text}"))
    return [paint("what to do", Color.BOLD, on=style.color), *lines] if lines else []


def _choices(world: World, choices: Sequence[PythonChoice], style: Style = PLAIN) -> Iterator[str]:
    """Yield the files that Python code opens; the loader's search does not apply to them."""
    if choices:
        yield paint("opened by Python code", Color.BOLD, on=style.color)
    for choice in choices:
        search = choice.search
        body = f"{search.function}() of {search.source}" if search.function else search.source
        places = ", ".join(
            f"{stop.variable} (line {stop.line})" if stop.variable else "its own folders"
            for stop in search.stops
        )
        yield printable(f"  {body} looks for it in {places}: the first one wins")
        how = f"{choice.stop.variable} {choice.directory}" if choice.stop else "its own folders"
        where = printable(f"`{choice.name}` => {world.label(choice.path)}  [{how}]")
        color = Color.YELLOW if choice.elsewhere else Color.GREEN
        yield f"    {paint(where, color, on=style.color)}"
        names = " or ".join(search.variables)
        if choice.stop is None:
            yield printable(f"    another file, if a directory of {names} holds `{choice.name}`")
            continue
        yield "    it is opened by its path: DT_RPATH and DT_RUNPATH do not matter"
        before = search.variables[: search.variables.index(choice.stop.variable or "")]
        advice = f"remove {choice.directory} from {choice.stop.variable}"
        if before:
            advice += f", or set {before[0]} to the folder of the right one"
        yield printable(f"    to change that, {advice}")


def _incomplete(world: World) -> Iterator[str]:
    """Yield a note if some Python sources were too complex to evaluate."""
    names = world.searches.unfollowed
    if names:
        yield printable(
            f"not fully evaluated: {join_some(names, FEW)}; their library searches may be "
            "incomplete here"
        )


def _where(explanation: Explanation) -> str:
    return printable(f"on {explanation.target}, in {explanation.where}")


def _tree(world: World, steps: Sequence[Step], style: Style = PLAIN) -> Iterator[str]:
    """Yield a line for each step; the platform's libraries of one object share a line."""
    shown = groupby(
        _visible(steps),
        lambda shown: (shown[0].depth, not (style.verbose or shown[1]) and _is_plain(shown[0])),
    )
    told = Counter[object]()
    for (depth, is_plain), group in shown:
        if is_plain:
            names = ", ".join(step.request.name for step, _ in group)
            text = printable(f"{names}  [platform {world.name}]")
            yield "  " * depth + paint(text, Color.DIM, on=style.color)
            continue
        for step, _ in group:
            told[_search(step, style)] += 1
            if told[_search(step, style)] == 1:
                yield from _step(world, step, style)
                continue
            text = printable(f"{step.request.name}  [not found, as above]")
            yield "  " * depth + paint(text, Color.RED, on=style.color)


def _search(step: Step, style: Style) -> object:
    """Return a search; for what is not found, all in the same folders are one, unless `verbose`."""
    name, tried = step.request.name, step.request.candidates
    is_own = step.origin is not None or style.verbose
    return id(step) if is_own else (name, frozenset((each.path, each.outcome) for each in tried))


def _visible(steps: Sequence[Step]) -> Iterator[tuple[Step, bool]]:
    """Yield the steps, each with whether it leads to one that fails.

    What libraries in default directories need is left out, unless it does.
    """
    leading, above, hidden = list[bool](), 0, None
    for step in reversed(steps):
        leading.append(step.request.failed or step.depth < above)
        above = step.depth if leading[-1] else above
    for step, leads in zip(steps, reversed(leading), strict=True):
        is_shown = hidden is None or step.depth <= hidden
        if is_shown:
            hidden = step.depth if _is_platform(step) else None
        if is_shown or leads:
            yield step, leads


def _is_platform(step: Step) -> bool:
    return step.depth > 0 and _source(step) == _SOURCES[Provenance.PLATFORM]


def _is_plain(step: Step) -> bool:
    usual = {How.DEFAULT, How.LOADED, How.LIBC, How.CACHE, None}
    return _is_platform(step) and step.request.how in usual


def _step(world: World, step: Step, style: Style = PLAIN) -> Iterator[str]:
    indent = "  " * step.depth
    if step.depth == 0:
        if step.request.failed:
            yield f"  {paint('cannot be loaded', Color.RED, on=style.color)}"
            yield from _candidates(world, step, indent, style)
        return
    name = printable(step.request.name)
    how = printable(f"[{describe_search(world, step)}]")
    if step.origin is None:
        providers = printable(_possible_providers(world, step))
        yield f"{indent}{paint(f'{name}  {how}{providers}', Color.RED, on=style.color)}"
        yield from _candidates(world, step, indent, style)
        return
    where = "" if step.origin.name == step.request.name else f" => {printable(step.origin.name)}"
    again = "  (see above)" if step.repeated and step.request.how is not How.LOADED else ""
    painted = paint(name, PROVENANCE_COLORS[step.origin.provenance], on=style.color)
    yield f"{indent}{painted}{where}  {paint(how, Color.DIM, on=style.color)}{again}"
    if style.verbose:
        yield from _candidates(world, step, indent, style)


def _possible_providers(world: World, step: Step) -> str:
    """Return where a missing library is, in parentheses: installed, or to be installed.

    What to do about one of the machine says where that is: a search path of others leads there.
    """
    name = step.request.name
    origins = map(world.origin, world.carriers.get(name, ()))
    if there := [each.name for each in origins if each.provenance is not Provenance.PLATFORM]:
        return f"  ({why_unreached(name, there)})"
    return possible_providers(name, step.package, step.versions)


def possible_providers(name: str, package: str | None, versions: Sequence[str]) -> str:
    """Return what contains a missing library, or another version of it, in parentheses."""
    system = f"  (package {package})" if package else ""
    known = of_another_version(versions) if versions else possible_wheels(name)
    return system + (f"  ({known})" if known else "")


def _candidates(world: World, step: Step, indent: str, style: Style = PLAIN) -> Iterator[str]:
    """Yield all paths that were tried, in order, below the list that each is from."""
    cache = world.environment.cache
    if not step.request.candidates:
        if step.origin is None:
            yield f"{indent}    nothing was searched: there is no list of directories"
        return
    for (how, owner), group in groupby(
        step.request.candidates, lambda tried: (tried.how, tried.owner)
    ):
        if how is How.DEFAULT and cache and step.request.name not in cache:
            yield f"{indent}    {search_list(How.CACHE, None)}: no entry"
        yield f"{indent}    {printable(search_list(how, owner and world.label(owner)))}"
        for candidate in group:
            color = Color.GREEN if candidate.outcome is SearchOutcome.FOUND else Color.DIM
            verdict = candidate.verdict
            if candidate.outcome is SearchOutcome.NO_DIRECTORY and world.described:
                is_fixed = (candidate.entry or "").startswith("/")
                verdict = "users need not have this directory" if is_fixed else verdict
            shown = printable(f"{candidate.path}: {verdict}")
            yield f"{indent}      {paint(shown, color, on=style.color)}"


def _alternatives(explanation: Explanation, style: Style = PLAIN) -> Iterator[str]:
    if not explanation.alternatives:
        return
    yield paint("depends on", Color.BOLD, on=style.color)
    for factor in Factor:
        for other in explanation.alternatives:
            if other.factor is factor:
                names = join_some(other.names, len(other.names) if style.verbose else FEW)
                yield printable(f"  {factor} ({names}): if {_clause(other.when)}, {other.then}")


def _clause(when: str) -> str:
    for word in ("without ", "on ", "installed "):
        if when.startswith(word):
            return f"it runs {when}" if word != "installed " else f"it is {when}"
    return when


def roots_text(explanations: Sequence[Explanation], style: Style = PLAIN) -> str:
    """Return a line for each load root, those that fail first.

    Those with one result share a line, unless `verbose`.
    """
    if not explanations:
        return "no ELF object in it is loaded"
    lines = [_where(explanations[0])]
    ordered = sorted(explanations, key=lambda explanation: explanation.ok)
    for words, alike in grouped(ordered, lambda each: _result(each, style)).items():
        names = [each.name for each in alike]
        shown = (
            [", ".join(first_of(names, FEW))] if len(names) > FEW and not style.verbose else names
        )
        lines += [f"  {printable(name)}: {words}" for name in shown]
    lines += _factors(explanations)
    remedies = list(flatten(explanation.remedies for explanation in explanations))
    return "\n".join([*lines, *remedies_text(remedies, style)])


def _result(explanation: Explanation, style: Style = PLAIN) -> str:
    """Return `2 from the wheel, 3 from the platform  ok`."""
    is_alone = explanation.ok and not explanation.may_load
    result = _counts(explanation) or ("needs nothing" if is_alone else "")
    return "  ".join(filter(None, [result, _verdict(explanation, style)]))


def _counts(explanation: Explanation) -> str:
    counts = Counter(_source(step) for step in explanation.steps[1:] if not step.repeated)
    every = (*_SOURCES.values(), _OUTSIDE)
    return ", ".join(f"{counts[words]} from {words}" for words in every if words and counts[words])


def _source(step: Step) -> str:
    """Return where a library is from; a search path alone leads to other folders of the machine."""
    provenance = step.origin.provenance if step.origin else Provenance.MISSING
    by_path = step.via is not None and step.via.how in {How.RPATH, How.INHERITED, How.RUNPATH}
    return _OUTSIDE if by_path and provenance is Provenance.PLATFORM else _SOURCES[provenance]


_SOURCES = {
    Provenance.WHEEL: "the wheel",
    Provenance.OTHER: "other wheels",
    Provenance.PYTHON: "python",
    Provenance.PLATFORM: "the platform",
    Provenance.VARIABLE: "LD_LIBRARY_PATH",
    Provenance.MISSING: "",
}
_OUTSIDE = "folders of the machine that a search path names"


def _verdict(explanation: Explanation, style: Style = PLAIN) -> str:
    missing = [step.request.name for step in explanation.missing]
    if not explanation.ok:
        missing = [name for name in missing if name not in explanation.drivers] or missing
    names, asks = join_some(missing, len(missing) if style.verbose else FEW), explanation.may_load
    unknown = list(explanation.unknown) if explanation.ok else []
    # What is not known of a library may name it.
    whether = f" whether it gets {names}" if missing and missing[0] not in "".join(unknown) else ""
    verdict = ["ok"] if explanation.ok and not asks else []
    verdict += [f"not found: {names}"] if missing and not asks else []
    verdict += _problems(explanation)
    verdict += [f"not known{whether}: {unknown.pop(0)}", *unknown] if unknown else []
    words = "; ".join(verdict if style.verbose else first_of(verdict, 2))
    color = Color.RED if not explanation.ok else Color.YELLOW if unknown else Color.GREEN
    return paint(printable(words), color, on=style.color)


def _problems(explanation: Explanation) -> list[str]:
    """Return the problems without the file's own name, with which the text begins."""
    return [problem.removeprefix(f"`{explanation.name}` ") for problem in explanation.problems]


def _factors(explanations: Sequence[Explanation]) -> Iterator[str]:
    others = list(flatten(explanation.alternatives for explanation in explanations))
    for factor, same in grouped(others, lambda other: other.factor).items():
        names = list(flatten(other.names for other in same))
        variable = " (LD_LIBRARY_PATH)" * (factor is Factor.ENVIRONMENT)
        yield printable(f"depends on the {factor}{variable}: {join_some(names, FEW)}")


def resolutions_text(
    world: World, name: str, resolutions: Sequence[Resolution], style: Style = PLAIN
) -> str:
    """Return the results for the library `name`, each with the objects that get it."""
    title = paint(printable(name), Color.BOLD, on=style.color)
    lines = [title + printable(f"  on {world.name}")]
    for same in grouped(resolutions, lambda each: _way(world, each.step, style)).values():
        step, every = same[0].step, [describe_search(world, each.step) for each in same]
        how = f"[{join_plain(every, len(every) if style.verbose else 1)}]"
        providers = _possible_providers(world, step)
        text = f"{step.origin.name}  {how}" if step.origin else f"{how}{providers}"
        lines.append(f"  {printable(text)}")
        alike = same if step.origin else same[:1]
        first, others = ([*flatten(r.requesters for r in rs)] for rs in (alike, same[len(alike) :]))
        lines.append(f"    for {printable(join_some(first, FEW))}")
        if step.origin is None:
            lines += _candidates(world, step, "", style)
        if others:
            lines.append(f"    in the same folders for {printable(join_some(others, FEW))}")
    return "\n".join(lines)


def _way(world: World, step: Step, style: Style) -> object:
    """Return how a library is found, by whichever object a search path is inherited from."""
    how = describe_search(world, step._replace(via=step.via and step.via._replace(owner=None)))
    return (step.origin, how) if step.origin else _search(step, style)


def why_not_text(answer: WhyNot, style: Style = PLAIN) -> str:
    """Return the reasons, one a line."""
    head = "it is loaded" if answer.loaded else "why not"
    lines = [paint(f"{head}: {printable(answer.name)}", Color.BOLD, on=style.color)]
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
        "not_known": list(explanation.unknown),
        "remedies": [advice.text for advice in explanation.remedies],
        "opened_by_python": [_choice_value(world, choice) for choice in explanation.choices],
        "not_followed": list(world.searches.unfollowed),
        "alternatives": [
            fields_value(other._asdict(), factor="kind") for other in explanation.alternatives
        ],
    }


def _choice_value(world: World, choice: PythonChoice) -> dict[str, object]:
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

    def label(path: str | None) -> str | None:
        return None if path is None else world.label(path)

    return {
        "depth": step.depth,
        "requester": label(request.requester),
        "name": request.name,
        "path": request.result,
        "file": step.origin.name if step.origin else None,
        "given_by": (step.origin.provenance if step.origin else Provenance.MISSING).value,
        "how": request.how.value if request.how else None,
        "entry": step.via.entry if step.via else None,
        "found": describe_search(world, step),
        "loaded_by": label(step.loaded_by),
        "repeated": step.repeated,
        "package": step.package,
        "wheels": list(step.wheels),
        "candidates": [
            {
                "path": candidate.path,
                "how": candidate.how.value,
                "outcome": candidate.outcome.value,
                "owner": label(candidate.owner),
                "entry": candidate.entry,
            }
            for candidate in request.candidates
        ],
    }


def resolutions_value(world: World, resolutions: Sequence[Resolution]) -> list[dict[str, object]]:
    """Return the results for one library name as JSON types."""
    return [
        {
            **_request_value(world, resolution.step),
            "roots": list(resolution.roots),
            "requesters": list(resolution.requesters),
        }
        for resolution in resolutions
    ]


def why_not_value(answer: WhyNot) -> dict[str, object]:
    """Return the reasons as JSON types."""
    return {"file": answer.name, "loaded": answer.loaded, "reasons": list(answer.reasons)}
