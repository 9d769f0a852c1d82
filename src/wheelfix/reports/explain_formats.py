"""The output of `wheelfix explain`: load trees as text, like those of libtree, and as JSON."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from wheelfix.analysis.explain import Explanation, PythonChoice
from wheelfix.analysis.installation import Installation, Provenance
from wheelfix.analysis.load_conditions import Factor
from wheelfix.analysis.load_tree import Resolution, Step, how_found
from wheelfix.analysis.why_not_used import WhyNot
from wheelfix.grouping import grouped
from wheelfix.loader.load_values import How, SearchOutcome
from wheelfix.reports.printable import Colour, paint, printable
from wheelfix.text import join_some

FEW = 4
"""Names in a line before the rest is only counted."""

PROVENANCE_COLOURS = {
    Provenance.WHEEL: Colour.GREEN,
    Provenance.OTHER: Colour.BLUE,
    Provenance.VARIABLE: Colour.YELLOW,
    Provenance.PYTHON: Colour.DIM,
    Provenance.PLATFORM: Colour.DIM,
    Provenance.MISSING: Colour.RED,
}


# --- Text -----------------------------------------------------------------------------------------


def explanation_text(
    installation: Installation, explanation: Explanation, *, verbose: bool, colour: bool
) -> str:
    """Return the tree, all attempts for missing libraries, and what the result depends on."""
    name = paint(printable(explanation.name), Colour.BOLD, on=colour)
    lines = [f"{name}  {_where(explanation)}"]
    lines += _tree(installation, explanation.steps, verbose=verbose, colour=colour)
    if len(explanation.steps) == 1 and explanation.ok:
        lines.append("  needs nothing")
    lines += [
        f"{paint('problem', Colour.RED, on=colour)}: {printable(problem)}"
        for problem in explanation.problems
    ]
    lines += _choices(installation, explanation.choices, colour=colour)
    lines += _incomplete(installation)
    lines += _alternatives(explanation, verbose=verbose, colour=colour)
    if explanation.remedies:
        lines.append(paint("what to do", Colour.BOLD, on=colour))
        lines += [f"  {printable(remedy)}" for remedy in explanation.remedies]
    return "\n".join(lines)


def _choices(
    installation: Installation, choices: Sequence[PythonChoice], *, colour: bool
) -> Iterator[str]:
    """Yield the files that Python code opens; the loader's search does not apply to them."""
    if choices:
        yield paint("opened by Python code", Colour.BOLD, on=colour)
    for choice in choices:
        search = choice.search
        body = f"{search.function}() of {search.source}" if search.function else search.source
        places = ", ".join(
            f"{stop.variable or 'its own folders'} (line {stop.line})" for stop in search.stops
        )
        yield printable(f"  {body} looks for it in {places}: the first one wins")
        how = f"{choice.stop.variable} {choice.directory}" if choice.stop else "its own folders"
        where = printable(f"`{choice.name}` => {installation.label(choice.path)}  [{how}]")
        yield f"    {paint(where, Colour.YELLOW if choice.elsewhere else Colour.GREEN, on=colour)}"
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


def _incomplete(installation: Installation) -> Iterator[str]:
    """Yield a note if some Python sources were too complex to evaluate."""
    names = installation.searches.unfollowed
    if names:
        yield printable(
            f"not fully evaluated: {join_some(names, FEW)}; their library searches may be "
            "incomplete here"
        )


def _where(explanation: Explanation) -> str:
    return printable(f"on {explanation.target}, in {explanation.where}")


def _tree(
    installation: Installation, steps: Sequence[Step], *, verbose: bool, colour: bool
) -> Iterator[str]:
    """Yield a line for each step; the platform's libraries of one object share a line."""
    shown = groupby(_visible(steps), lambda step: (step.depth, not verbose and _is_plain(step)))
    for (depth, is_plain), group in shown:
        if is_plain:
            names = ", ".join(step.request.name for step in group)
            text = printable(f"{names}  [platform {installation.name}]")
            yield "  " * depth + paint(text, Colour.DIM, on=colour)
            continue
        for step in group:
            yield from _step(installation, step, verbose=verbose, colour=colour)


def _visible(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield the steps, except what libraries of the platform need."""
    hidden: int | None = None
    for step in steps:
        if hidden is None or step.depth <= hidden:
            hidden = step.depth if _is_platform(step) else None
            yield step


def _is_platform(step: Step) -> bool:
    is_given = step.origin is not None and step.origin.provenance is Provenance.PLATFORM
    return is_given and step.depth > 0


def _is_plain(step: Step) -> bool:
    usual = {How.DEFAULT, How.LOADED, How.LIBC, How.CACHE, None}
    return _is_platform(step) and step.request.how in usual


def _step(installation: Installation, step: Step, *, verbose: bool, colour: bool) -> Iterator[str]:
    indent = "  " * step.depth
    if step.depth == 0:
        if step.request.failed:
            yield f"  {paint('cannot be loaded', Colour.RED, on=colour)}"
            yield from _candidates(installation, step, indent, colour=colour)
        return
    name = printable(step.request.name)
    how = printable(f"[{how_found(installation, step)}]")
    if step.origin is None:
        providers = printable(possible_providers(step.package, step.wheels))
        yield f"{indent}{paint(f'{name}  {how}{providers}', Colour.RED, on=colour)}"
        yield from _candidates(installation, step, indent, colour=colour)
        return
    where = "" if step.origin.name == step.request.name else f" => {printable(step.origin.name)}"
    again = "  (see above)" if step.repeated and step.request.how is not How.LOADED else ""
    painted = paint(name, PROVENANCE_COLOURS[step.origin.provenance], on=colour)
    yield f"{indent}{painted}{where}  {paint(how, Colour.DIM, on=colour)}{again}"
    if verbose:
        yield from _candidates(installation, step, indent, colour=colour)


def possible_providers(package: str | None, wheels: Sequence[str]) -> str:
    """Return what contains a missing library: the platform's package, other wheels."""
    system = f"  (package {package})" if package else ""
    return system + (f"  (in {' or '.join(wheels)}: pip install {wheels[0]})" if wheels else "")


def _candidates(
    installation: Installation, step: Step, indent: str, *, colour: bool
) -> Iterator[str]:
    """Yield all paths that were tried, in order, below the list that each is from."""
    if not step.request.candidates:
        if step.origin is None:
            yield f"{indent}    nothing was searched: there is no list of directories"
        return
    for (how, owner), group in groupby(
        step.request.candidates, lambda tried: (tried.how, tried.owner)
    ):
        yield f"{indent}    {printable(_list_name(installation, how, owner))}"
        for candidate in group:
            good = candidate.outcome is SearchOutcome.FOUND
            shown = printable(f"{candidate.path}: {candidate.outcome}")
            yield f"{indent}      {paint(shown, Colour.GREEN if good else Colour.DIM, on=colour)}"


def _list_name(installation: Installation, how: How, owner: str | None) -> str:
    """Return the name of the search list `how` of the object `owner`."""
    words = {
        How.RPATH: "its own search path (DT_RPATH)",
        How.RUNPATH: "its own search path (DT_RUNPATH)",
        How.INHERITED: f"the search path of {installation.label(owner)}",
        How.LIBRARY_PATH: "LD_LIBRARY_PATH",
        How.CACHE: "/etc/ld.so.cache",
        How.DEFAULT: "the default directories",
    }
    return words.get(how, "the path as written")


def _alternatives(explanation: Explanation, *, verbose: bool, colour: bool) -> Iterator[str]:
    if not explanation.alternatives:
        return
    yield paint("depends on", Colour.BOLD, on=colour)
    for factor in Factor:
        for other in explanation.alternatives:
            if other.factor is factor:
                names = join_some(other.names, len(other.names) if verbose else FEW)
                yield printable(f"  {factor}: {names}: if {_clause(other.when)}, {other.then}")


def _clause(when: str) -> str:
    for word in ("without ", "on ", "installed "):
        if when.startswith(word):
            return f"it runs {when}" if word != "installed " else f"it is {when}"
    return when


def roots_text(explanations: Sequence[Explanation], *, colour: bool) -> str:
    """Return a line for each load root, those that fail first."""
    if not explanations:
        return "no ELF object in it is loaded"
    lines = [_where(explanations[0])]
    for explanation in sorted(explanations, key=lambda explanation: explanation.ok):
        found = _counts(explanation) or ("" if explanation.missing else "needs nothing")
        words = [found, _verdict(explanation, colour=colour)]
        lines.append(f"  {printable(explanation.name)}: {'  '.join(filter(None, words))}")
    lines += _factors(explanations)
    return "\n".join(lines)


def _counts(explanation: Explanation) -> str:
    counts = Counter(
        step.origin.provenance
        for step in explanation.steps[1:]
        if step.origin and not step.repeated
    )
    return ", ".join(
        f"{counts[given]} from {words}" for given, words in _SOURCES.items() if counts[given]
    )


_SOURCES = {
    Provenance.WHEEL: "the wheel",
    Provenance.OTHER: "other wheels",
    Provenance.PYTHON: "python",
    Provenance.PLATFORM: "the platform",
    Provenance.VARIABLE: "LD_LIBRARY_PATH",
}


def _verdict(explanation: Explanation, *, colour: bool) -> str:
    if explanation.ok:
        return paint("ok", Colour.GREEN, on=colour)
    names = dict.fromkeys(f"`{step.request.name}`" for step in explanation.missing)
    missing = [f"not found: {', '.join(names)}"] if names else []
    return paint(printable("; ".join((*missing, *explanation.problems))), Colour.RED, on=colour)


def _factors(explanations: Sequence[Explanation]) -> Iterator[str]:
    others = [other for explanation in explanations for other in explanation.alternatives]
    for factor, some in grouped(others, lambda other: other.factor).items():
        names = [name for other in some for name in other.names]
        yield printable(f"depends on the {factor}: {join_some(names, FEW)}")


def resolutions_text(
    installation: Installation, name: str, found: Sequence[Resolution], *, colour: bool
) -> str:
    """Return the results for the library `name`, each with the objects that get it."""
    title = paint(printable(name), Colour.BOLD, on=colour)
    lines = [title + printable(f"  on {installation.name}")]
    if not found:
        lines.append("  no object needs it")
    for resolution in found:
        step = resolution.step
        how = f"[{how_found(installation, step)}]"
        providers = possible_providers(step.package, step.wheels)
        text = f"{step.origin.name}  {how}" if step.origin else f"{how}{providers}"
        lines.append(f"  {printable(text)}")
        lines.append(f"    for {printable(join_some(resolution.requesters, FEW))}")
        if step.origin is None:
            lines += _candidates(installation, step, "", colour=colour)
    return "\n".join(lines)


def why_not_text(answer: WhyNot, *, colour: bool) -> str:
    """Return the reasons, one a line."""
    head = "it is loaded" if answer.loaded else "why not"
    lines = [paint(f"{head}: {printable(answer.name)}", Colour.BOLD, on=colour)]
    return "\n".join([*lines, *(f"  {printable(reason)}" for reason in answer.reasons)])


# --- JSON -----------------------------------------------------------------------------------------


def explanation_value(installation: Installation, explanation: Explanation) -> dict[str, object]:
    """Return the explanation as JSON types; requests in the order of the tree, with their depth."""
    return {
        "root": explanation.name,
        "path": explanation.root,
        "target": explanation.target,
        "installed": explanation.where,
        "ok": explanation.ok,
        "objects": [installation.label(path) for path in explanation.objects],
        "requests": [_request_value(installation, step) for step in explanation.steps],
        "problems": list(explanation.problems),
        "remedies": list(explanation.remedies),
        "opened_by_python": [_choice_value(installation, choice) for choice in explanation.choices],
        "not_followed": list(installation.searches.unfollowed),
        "alternatives": [
            {
                "kind": other.factor.value,
                "names": list(other.names),
                "when": other.when,
                "then": other.then,
            }
            for other in explanation.alternatives
        ],
    }


def _choice_value(installation: Installation, choice: PythonChoice) -> dict[str, object]:
    return {
        "source": choice.search.source,
        "function": choice.search.function or None,
        "searches": [
            {"variable": stop.variable, "line": stop.line} for stop in choice.search.stops
        ],
        "name": choice.name,
        "path": choice.path,
        "file": installation.label(choice.path),
        "variable": choice.stop.variable if choice.stop else None,
        "directory": choice.directory,
    }


def _request_value(installation: Installation, step: Step) -> dict[str, object]:
    request = step.request

    def label(path: str | None) -> str | None:
        return None if path is None else installation.label(path)

    return {
        "depth": step.depth,
        "requester": label(request.requester),
        "name": request.name,
        "path": request.result,
        "file": step.origin.name if step.origin else None,
        "given_by": (step.origin.provenance if step.origin else Provenance.MISSING).value,
        "how": request.how.value if request.how else None,
        "entry": step.via.entry if step.via else None,
        "found": how_found(installation, step),
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


def resolutions_value(
    installation: Installation, found: Sequence[Resolution]
) -> list[dict[str, object]]:
    """Return the results for one library name as JSON types."""
    return [
        {
            **_request_value(installation, resolution.step),
            "roots": list(resolution.roots),
            "requesters": list(resolution.requesters),
        }
        for resolution in found
    ]


def why_not_value(answer: WhyNot) -> dict[str, object]:
    """Return the reasons as JSON types."""
    return {"file": answer.name, "loaded": answer.loaded, "reasons": list(answer.reasons)}
