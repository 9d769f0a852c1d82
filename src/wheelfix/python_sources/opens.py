"""Libraries that a Python source opens by name: ctypes, cffi, numpy.ctypeslib."""

import ast
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import accumulate

from wheelfix.budget import Budget, BudgetError
from wheelfix.grouping import flatten
from wheelfix.named_tuple import NamedTuple
from wheelfix.python_sources import opening_calls
from wheelfix.python_sources.opening_calls import may_open
from wheelfix.python_sources.parsing import (
    STEPS_PER_EXPRESSION,
    STEPS_PER_SOURCE,
    STEPS_PER_WHEEL,
    Sources,
    is_too_large,
    last_name,
    parse_source,
    without_annotations,
)
from wheelfix.python_sources.source_facts import (
    EnvironAssignment,
    Imported,
    LookupPlace,
    PythonOpening,
)
from wheelfix.python_sources.visitor import Function, Visitor
from wheelfix.system.lazy_patterns import lazy_pattern

_CALLS = lazy_pattern(opening_calls.CALLS.pattern + rb"(?=[ \t]*[(.\[])(?![ \t]*\( *None *[,)])")
"""What may be a call that opens a library; `CDLL(None)` is the process itself."""
_OPENERS = frozenset({"CDLL", "PyDLL", "cdll", "pydll", "LoadLibrary", "dlopen", "_dlopen"})
_TAKE_OPENERS = frozenset({"isinstance", "issubclass", "map", "partial"})
_BUILT = lazy_pattern(rb"(?<![gs]et)dlopenflags|setdl(?!openflags\b)")
"""A part of `setdlopenflags`, which is made of several."""
_WORD = lazy_pattern(rb"[^\W\d]\w*")


class Followed(NamedTuple):
    """What one source opens, as far as the visit went."""

    openings: tuple[PythonOpening, ...] = ()
    """In the order of their lines; those of one line, such as of a loop, as they are run."""
    to_its_end: bool = True
    """Whether the visit was complete."""
    assignments: tuple[EnvironAssignment, ...] = ()
    opened_unknown: bool = True
    """Whether it opens a library by a name that is not known, or may do so."""
    may_set_global: bool = True
    """Whether it may set RTLD_GLOBAL for imports (`sys.setdlopenflags`)."""


def visit_source(
    source: bytes, path: str, modules: Mapping[str, str], budget: Budget | None = None
) -> Followed:
    """Visit the source at `path`, below site-packages, for what it opens, until `budget` is spent.

    `modules` has the path of each module that may be imported from the wheel, by its dotted name.
    A file that is not Python of this version opens nothing.
    """
    own = (budget or Budget(path, STEPS_PER_WHEEL)).share(STEPS_PER_SOURCE)
    try:
        own.spend(STEPS_PER_EXPRESSION * (len(source) >> 4), "a Python source", path)
    except BudgetError:
        return Followed(to_its_end=False)
    tree = parse_source(source)
    if tree is None:
        return Followed(to_its_end=not is_too_large(source))
    visitor = Visitor(path, modules, own)
    to_its_end = False
    with suppress(BudgetError, RecursionError):  # what was found until then is true
        visitor.visit_functions(_that_may_open(visitor.visit_module(tree), source, own))
        to_its_end = True
    openings = sorted(visitor.openings.values(), key=lambda opening: opening.line)
    is_known = to_its_end and not visitor.opened_unknown
    unknown = not is_known or bool(_unseen(source, tree, visitor, openings))
    may_set = visitor.may_set_global or not to_its_end or bool(_BUILT.search(source))
    assignments = tuple(visitor.assignments.values())
    return Followed(tuple(openings), to_its_end, assignments, unknown, may_set)


def _unseen(
    source: bytes, tree: ast.Module, visitor: Visitor, openings: Iterable[PythonOpening]
) -> set[int]:
    """Return the lines that may open a library, and of which the visit has seen no opening."""
    calls = {source.count(b"\n", 0, call.start()) + 1 for call in _CALLS.finditer(source)}
    calls -= {opening.line for opening in openings}
    calls |= {*_values(tree)}
    return calls.difference(visitor.never_taken(tree)) if calls else calls


def _values(tree: ast.Module) -> Iterator[int]:
    """Yield the lines where a function that opens libraries is a value: its calls are not seen.

    Left out are other names of it, classes of it and calls that take it, which a visit follows.
    """
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.expr) and _is_value(node):
            yield node.lineno
        match node:
            case ast.Assign(targets=[ast.Name()], value=ast.Name() | ast.Attribute()):
                pass
            case ast.Call(func=function, args=arguments, keywords=keywords):
                is_followed = last_name(function) in _TAKE_OPENERS
                while isinstance(function, ast.Attribute):
                    function = function.value
                waiting += [] if isinstance(function, ast.Name) else [function]
                waiting += [a for a in arguments if not (is_followed and last_name(a))]
                waiting += keywords
            case ast.ClassDef(body=body):
                waiting += (s.value if isinstance(s, ast.Assign) else s for s in body)
            case _:
                waiting += without_annotations(node)


def _is_value(node: ast.expr) -> bool:
    """Return whether an expression is such a function, or code that may have one."""
    match node:
        case ast.Call(func=ast.Name(id="eval" | "exec")):
            return True
        case ast.Call(func=ast.Name(id="getattr"), args=[ast.Name(id="ctypes"), name, *_]):
            return not isinstance(name, ast.Constant)
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
            return name in _OPENERS
        case _:
            return False


def opened_on_import(
    source: bytes, path: str, sources: Sources, budget: Budget
) -> tuple[Sequence[PythonOpening], bool]:
    """Return what the import of the source at `path` surely opens by a path from its folder.

    Or by a bare name; and whether it opens something by a name that is not known.
    It is one of `sources`, below site-packages. The visit ends when `budget` is spent.
    """
    visitor = Visitor(path, {}, budget, sources)
    to_its_end = _visit_module(visitor, source)
    folder = posixpath.dirname(path)
    places = {LookupPlace.SOURCE, LookupPlace.SEARCH, LookupPlace.ABSOLUTE}
    on_import = [
        # A path from the current directory is not found by the folder of the source.
        opening if not opening.is_of_current else opening._replace(where=LookupPlace.SEARCH)
        for opening in visitor.openings.values()
        if opening.runs and opening.where in places and not opening.suffixes
        if not opening.is_of_current or sources.is_file(posixpath.join(folder, opening.name))
    ]
    unknown = visitor.opened_unknown or visitor.chose_unknown or not to_its_end
    return on_import, unknown


@lru_cache(1 << 10)
def read_imports(module: str, source: bytes, *, is_package: bool = True) -> Sequence[Imported]:
    """Return what `visit_imports` does; each state of a repair asks it of the same sources."""
    budget = Budget(module, STEPS_PER_SOURCE)
    return tuple(visit_imports(module, source, budget, is_package=is_package))


def visit_imports(
    module: str, source: bytes, budget: Budget, *, is_package: bool
) -> Sequence[Imported]:
    """Return what the source of a module surely begins to import, as far as a visit of it comes.

    That does not count which is in a branch that may not be taken.
    """
    path = f"{module.replace('.', '/')}{'/__init__' if is_package else ''}.py"
    visitor = Visitor(path, {}, budget)
    _visit_module(visitor, source)
    return visitor.imports


def _visit_module(visitor: Visitor, source: bytes) -> bool:
    """Visit what the import of a source runs; return whether the visit came to the end."""
    with suppress(BudgetError, RecursionError):  # what was found until then is true
        visitor.spend(len(source) >> 4)
        tree = parse_source(source)
        visitor.visit_module(tree or ast.Module([], []))
        return tree is not None or not is_too_large(source)
    return False


def _that_may_open(
    functions: Sequence[Function], source: bytes, budget: Budget
) -> Iterable[Function]:
    """Return the functions that name an opener, or what may stand for one, by their words.

    Most functions of a large source do neither, and to visit them all takes most of the time.
    """
    lines = source.splitlines(keepends=True)
    starts = [0, *accumulate(map(len, lines))]  # to cut is a hundred times as fast as to join lines
    changes = [0] * (len(lines) + 2)
    """By how much the functions around a line are more than those around the one before."""
    texts: list[bytes] = []
    for function in functions:
        # Decoded by the source's own codec, such as UTF-7, it may have more lines than its bytes.
        first, last = (
            min(number or 0, len(lines)) for number in (function.lineno, function.end_lineno)
        )
        text = source[starts[first - 1] : starts[last]]
        budget.spend(STEPS_PER_EXPRESSION * (len(text) >> 8), "a Python source")
        texts.append(text)
        changes[first] += 1
        changes[last + 1] -= 1
    outside = (
        line for line, depth in zip(lines, accumulate(changes[1:]), strict=False) if not depth
    )
    waiting = set(flatten(_WORD.findall(line) for line in outside if may_open(line)))
    users: dict[bytes, list[int]] = {}
    chosen: set[int] = set()
    for number, text in enumerate(texts):
        if may_open(text):
            chosen.add(number)
            waiting.add(functions[number].name.encode())
        for word in set(_WORD.findall(text)):
            users.setdefault(word, []).append(number)
    while waiting:
        new = {*users.pop(waiting.pop(), ())} - chosen
        chosen |= new
        waiting |= {functions[number].name.encode() for number in new}
    return (function for number, function in enumerate(functions) if number in chosen)
