"""Libraries that a Python source opens by name: ctypes, cffi, numpy.ctypeslib.

The statements of the source are followed in the order in which Python on Linux would run them, and
`python_evaluator` evaluates their expressions. No code of the source is executed.
"""

import ast
import posixpath
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import product
from operator import attrgetter
from typing import NamedTuple

from wheelfix.budget import Budget, BudgetError
from wheelfix.wheel.content_scan import may_open
from wheelfix.wheel.model import LookupPlace, PythonOpening
from wheelfix.wheel.python_evaluator import (
    ANY,
    UNKNOWN,
    Arguments,
    Environment,
    Evaluator,
    Values,
    either,
    items_of,
    merge,
    strings,
    truth,
)
from wheelfix.wheel.python_known_functions import FUNCTIONS, PREFIX, SITE
from wheelfix.wheel.python_source import (
    MAX_CALL_DEPTH,
    STEPS_PER_EXPRESSION,
    STEPS_PER_SOURCE,
    STEPS_PER_WHEEL,
    is_too_large,
    parse_source,
)

_FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class Followed(NamedTuple):
    """What one source opens, as far as the walk went."""

    openings: tuple[PythonOpening, ...] = ()
    """In source order."""
    to_its_end: bool = True
    """Whether the walk was complete."""


def followed(
    source: bytes, path: str, modules: Mapping[str, str], budget: Budget | None = None
) -> Followed:
    """Walk the source at `path`, below site-packages, for what it opens, until `budget` is spent.

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
    walk = _Walk(path, modules, _Relevance(source.splitlines()), own)
    to_its_end = False
    with suppress(BudgetError, RecursionError):  # what was found until then is true
        walk.module(tree)
        to_its_end = True
    found = sorted(walk.found.values(), key=lambda opening: (opening.line, opening.name))
    return Followed(tuple(found), to_its_end)


_WORD = re.compile(rb"[^\W\d]\w*")


class _Relevance:
    """Which functions of a source may open something, by the words on their lines.

    Most functions of a large source cannot, and following them all takes most of the time.
    """

    def __init__(self, lines: Sequence[bytes]) -> None:
        self._lines = lines

    def of(self, functions: Sequence[_FunctionNode]) -> list[_FunctionNode]:
        """Return those that name an opener, or a name that may stand for one."""
        inside = _lines_of(functions)
        relevant: set[_FunctionNode] = set()
        users: dict[bytes, list[_FunctionNode]] = {}
        size = 8 * sum(map(len, self._lines)) + 1000
        for function in functions:
            text = self._text(function)
            size -= len(text)
            if size < 0:  # deeply nested functions
                return list(functions)
            if may_open(text):
                relevant.add(function)
            for word in set(_WORD.findall(text)):
                users.setdefault(word, []).append(function)
        names = {
            word
            for n, line in enumerate(self._lines)
            if n not in inside and may_open(line)
            for word in _WORD.findall(line)
        }
        waiting = [*names, *(function.name.encode() for function in relevant)]
        while waiting:
            more = [user for user in users.pop(waiting.pop(), ()) if user not in relevant]
            relevant.update(more)
            waiting += [function.name.encode() for function in more]
        return [function for function in functions if function in relevant]

    def _text(self, function: _FunctionNode) -> bytes:
        return b"\n".join(self._lines[function.lineno - 1 : function.end_lineno])


def _lines_of(functions: Sequence[_FunctionNode]) -> set[int]:
    """Return the lines of functions, counted from 0; those of an inner function are seen once."""
    lines: set[int] = set()
    end = 0
    for function in sorted(functions, key=attrgetter("lineno")):
        last = function.end_lineno or 0
        lines.update(range(max(function.lineno - 1, end), last))
        end = max(end, last)
    return lines


_FIND = "ctypes.util.find_library"
_BY_NAME = frozenset(
    {
        _FIND,
        "ctypes.CDLL",
        "ctypes.PyDLL",
        "ctypes.cdll.LoadLibrary",
        "ctypes.pydll.LoadLibrary",
        "ctypes.CDLL.LoadLibrary",
    }
)
_LOADERS = ("ctypes.cdll", "ctypes.pydll")
_LOADER_ATTRIBUTE = re.compile(r"ctypes\.(?:cdll|pydll)\.(?!LoadLibrary\b|_)(\w+)")
_NUMPY = ("numpy.ctypeslib.load_library", "numpy.ctypeslib._ctypeslib.load_library")
_FILE_TESTS = frozenset({"exists", "isfile", "is_file", "access", "lexists", "stat"})
"""Calls that test whether a file exists."""
_FORGIVING = frozenset({"contextlib.suppress", "suppress"})
"""Context managers that catch the error of a missing library."""


class _Frame:
    """A call of a function, or the import of the module, while it is walked."""

    def __init__(self, *, on_import: bool, depth: int = 0) -> None:
        self.on_import = on_import
        self.depth = depth
        self.returned: list[Values] = []
        self.opens_unknown = False
        """Whether a library was opened whose name could not be determined."""


class _Walk(Evaluator):
    """One walk through one source, in the order of its execution."""

    def __init__(
        self, path: str, modules: Mapping[str, str], relevance: _Relevance, budget: Budget
    ) -> None:
        super().__init__(path, modules, budget)
        self.found: dict[tuple[int, str, LookupPlace], PythonOpening] = {}
        self._relevance = relevance
        self._files = frozenset(modules.values())
        self._functions: dict[str, _FunctionNode] = {}
        self._frame: _Frame = _Frame(on_import=True)

    def module(self, tree: ast.Module) -> None:
        """Walk the module as its import runs it, then each function that may open something."""
        functions: list[_FunctionNode] = []
        for node in ast.walk(tree):  # outer statements first
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.note_import(node)
            elif isinstance(node, _FunctionNode):
                self._functions.setdefault(node.name, node)
                functions.append(node)
        environment: Environment = {}
        self._block(tree.body, environment)
        for function in self._relevance.of(functions):
            self._frame, self.sure = _Frame(on_import=False), True
            parameters = self._parameters(function, Arguments((), {}))
            self._body(function, self.branch(environment), parameters)

    def _block(self, body: Sequence[ast.stmt], environment: Environment) -> bool:
        """Walk statements; return whether what follows the block is surely not reached."""
        before = self.sure
        for statement in body:
            if self._statement(statement, environment):
                self.sure = before
                return True
        self.sure = before
        return False

    def _statement(  # noqa: C901 - one case for each kind of statement
        self, node: ast.stmt, environment: Environment
    ) -> bool:
        """Walk one statement; return whether what follows it is surely not reached."""
        match node:
            case ast.Return():
                self._frame.returned.append(self.evaluate(node.value, environment))
                return True
            case ast.Raise() | ast.Break() | ast.Continue():
                self.evaluate_all([*ast.iter_child_nodes(node)], environment)
                return True
            case ast.If():
                return self._if(node, environment)
            case ast.Try() | ast.TryStar():
                return self._try(node, environment)
            case ast.For() | ast.AsyncFor():
                self._for(node, environment)
            case ast.While():
                self.evaluate(node.test, environment)
                self._maybe(node.body, environment)
                self._block(node.orelse, environment)
            case ast.With() | ast.AsyncWith():
                return self._with(node, environment)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Import() | ast.ImportFrom():
                pass
            case ast.ClassDef():
                self._block(node.body, self.branch(environment))
            case ast.Match():
                self.evaluate(node.subject, environment)
                for case in node.cases:
                    self._maybe(case.body, environment)
            case _:
                self._simple(node, environment)
        return False

    def _simple(self, node: ast.stmt, environment: Environment) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                found = self.evaluate(value, environment)
                for target in targets:
                    self.bind(target, found, environment)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.bind(target, self.evaluate(value, environment), environment)
            case ast.AugAssign(target=target, op=op, value=value):
                old = self.evaluate(target, environment)
                new = self.operate(op, old, self.evaluate(value, environment))
                self.bind(target, new, environment)
            case ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id=name), attr="append" | "extend")
                ) as call
            ):
                self.evaluate(call, environment)
                environment[name] = ANY  # a list that grows
            case _:
                self.evaluate_all([*ast.iter_child_nodes(node)], environment)

    def _if(self, node: ast.If, environment: Environment) -> bool:
        holds = truth(self.evaluate(node.test, environment))
        if holds is not None:
            return self._block(node.body if holds else node.orelse, environment)
        other = self.branch(environment)
        ends = (self._maybe(node.body, environment), self._maybe(node.orelse, other))
        if not ends[1]:
            _join(environment, other, ends=ends[0])
        # What follows a guard is reached only sometimes.
        self.sure = self.sure and not any(ends) and not _tests_file(node.test)
        return all(ends)

    def _maybe(self, body: Sequence[ast.stmt], environment: Environment) -> bool:
        """Walk what is run only sometimes."""
        with self.unsure():
            return self._block(body, environment)

    def _try(self, node: ast.Try | ast.TryStar, environment: Environment) -> bool:
        handlers = [handler.body for handler in node.handlers]
        forgiven = any(not isinstance(body[-1], ast.Raise) for body in handlers)
        start = self.branch(environment)
        if forgiven:
            ends = self._maybe([*node.body, *node.orelse], environment)
        else:
            ends = self._block([*node.body, *node.orelse], environment)
        for handler in node.handlers:
            other = self.branch(start)
            if handler.name:
                other[handler.name] = ANY
            if not self._maybe(handler.body, other):
                _join(environment, other, ends=ends)
                ends = False
        return self._block(node.finalbody, environment) or ends

    def _for(self, node: ast.For | ast.AsyncFor, environment: Environment) -> None:
        items = items_of(self.evaluate(node.iter, environment))
        self.bind(node.target, either(items), environment)
        if len(items) == 1 and items != ANY:
            self._block(node.body, environment)
        else:
            self._maybe(node.body, environment)
        self._block(node.orelse, environment)

    def _with(self, node: ast.With | ast.AsyncWith, environment: Environment) -> bool:
        forgiven = False
        for item in node.items:
            values = self.evaluate(item.context_expr, environment)
            if item.optional_vars is not None:
                self.bind(item.optional_vars, values, environment)
            call = item.context_expr
            forgiven |= isinstance(call, ast.Call) and self.dotted(call.func) in _FORGIVING
        walk = self._maybe if forgiven else self._block
        return walk(node.body, environment) and not forgiven

    def attribute(self, node: ast.Attribute, environment: Environment) -> Values:
        """Note what `ctypes.cdll.NAME` opens."""
        if match := _LOADER_ATTRIBUTE.match(self.dotted(node) or ""):
            self._note(node, match[0], (match[1],))
            return ANY
        return super().attribute(node, environment)

    def subscript(self, node: ast.Subscript, environment: Environment) -> Values:
        """Note what `ctypes.cdll["NAME"]` opens."""
        dotted = self.dotted(node.value)
        if dotted in _LOADERS:
            self._note(node, dotted, self.evaluate(node.slice, environment))
            return ANY
        return super().subscript(node, environment)

    def special_call(
        self, node: ast.Call, function: str | None, arguments: Arguments, environment: Environment
    ) -> Values | None:
        """Note what a call opens, and follow calls of functions of the same source."""
        called = node.func
        if isinstance(called, ast.Attribute) and called.attr in _FILE_TESTS:
            self.evaluate(called.value, environment)
            return ANY
        if function in FUNCTIONS:
            return None
        if function is not None and self._note_call(node, function, arguments):
            return ANY
        if isinstance(called, ast.Name) and called.id in self._functions:
            return self._inlined(self._functions[called.id], arguments, environment)
        if isinstance(called, ast.Attribute) and called.attr == "dlopen" and _is_ffi(called.value):
            self._note(node, "ffi.dlopen", arguments.given[0] if arguments.given else ANY)
            return ANY
        return None

    def _note_call(self, node: ast.Call, function: str, arguments: Arguments) -> bool:
        """Note what a call opens; return whether it is one that does."""
        if function in _BY_NAME:
            self._note(node, function, arguments.value(0, "name"))
        elif function in _NUMPY:
            self._note_numpy(node, arguments.value(0, "libname"), arguments.value(1, "loader_path"))
        else:
            return False
        return True

    def _inlined(
        self, function: _FunctionNode, arguments: Arguments, environment: Environment
    ) -> Values:
        """Follow a call of a function of the same source."""
        caller, sure = self._frame, self.sure
        if caller.depth >= MAX_CALL_DEPTH or isinstance(function, ast.AsyncFunctionDef):
            return ANY
        self._frame = _Frame(on_import=caller.on_import, depth=caller.depth + 1)
        try:
            parameters = self._parameters(function, arguments)
            return self._body(function, self.branch(environment), parameters)
        finally:
            self._frame, self.sure = caller, sure

    def _parameters(self, function: _FunctionNode, arguments: Arguments) -> Environment:
        """Bind what is given; a default counts only where a call leaves its parameter out."""
        given, named = arguments
        declared = function.args
        called = bool(given or named)
        names = [parameter.arg for parameter in (*declared.posonlyargs, *declared.args)]
        keywords = [parameter.arg for parameter in declared.kwonlyargs]
        rest = [parameter.arg for parameter in (declared.vararg, declared.kwarg) if parameter]
        bound: Environment = dict.fromkeys([*names, *keywords, *rest], ANY)
        defaults = [
            *zip(reversed(names), reversed(declared.defaults), strict=False),
            *zip(keywords, declared.kw_defaults, strict=True),
        ]
        for name, default in defaults:
            if default is not None and (called or self._frame.depth):
                bound[name] = self.evaluate(default, {})
        bound |= dict(zip(names, given, strict=False))
        return bound | {name: values for name, values in named.items() if name in bound}

    def _body(
        self, function: _FunctionNode, environment: Environment, parameters: Environment
    ) -> Values:
        ends = self._block(function.body, environment | parameters)
        returned = self._frame.returned
        return either(*returned, *([] if ends else [(None,)])) if returned else ANY

    def _note_numpy(self, node: ast.expr, names: Values, places: Values) -> None:
        """Note `load_library(name, folder or file in it)`, which adds suffixes to a bare name."""
        for name, place in product(strings(names), strings(places)):
            is_file = place == self.file or place.removeprefix(f"{SITE}/") in self._files
            folder = posixpath.dirname(place) if is_file else place
            path = posixpath.join(folder, name)
            suffixes = () if posixpath.splitext(name)[1] else (".so", ".cpython-*.so", ".abi3.so")
            self._note(node, "numpy.ctypeslib.load_library", (path,), suffixes)

    def _note(
        self, node: ast.expr, function: str, names: Values, suffixes: tuple[str, ...] = ()
    ) -> None:
        finds = function == _FIND
        self._frame.opens_unknown |= not finds and UNKNOWN in names
        for text in filter(None, strings(names)):
            name, where = (text, LookupPlace.FIND) if finds else self._place(text)
            if "\0" in name or "\n" in name:
                continue
            opening = PythonOpening(
                line=node.lineno,
                function=function,
                name=name,
                where=where,
                sure=not self._frame.opens_unknown if finds else self.sure and len(names) == 1,
                on_import=self._frame.on_import,
                suffixes=suffixes,
            )
            # The first walk knows most: the import comes before the functions.
            self.found.setdefault((node.lineno, name, where), opening)

    def _place(self, name: str) -> tuple[str, LookupPlace]:
        if name.startswith("/\0/"):
            folder = posixpath.dirname(self.file)
            return posixpath.relpath(posixpath.normpath(name), folder), LookupPlace.SOURCE
        if name.startswith(PREFIX):
            return posixpath.normpath(name).removeprefix(f"{PREFIX}/"), LookupPlace.PREFIX
        return name, LookupPlace.ABSOLUTE if "/" in name else LookupPlace.SEARCH


def _join(environment: Environment, other: Environment, *, ends: bool) -> None:
    """Let `environment` be what holds after two ways; the first may end."""
    if ends:
        environment.clear()
        environment.update(other)
    else:
        merge(environment, other)


def _tests_file(test: ast.expr) -> bool:
    """Return whether a test asks if a file exists."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _FILE_TESTS
        for node in ast.walk(test)
    )


def _is_ffi(node: ast.expr) -> bool:
    """Return whether `node` looks like a `cffi.FFI`: its name has `ffi`, or it is such a call."""
    if isinstance(node, ast.Call):
        return _is_ffi(node.func)
    name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
    return "ffi" in name.lower()
