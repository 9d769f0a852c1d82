"""Places where a Python source searches for libraries: environment variables, its own folders.

Such code, and not the loader, decides which copy of `libtvm.so` a process gets: it searches the
directories of a variable like PATH, and opens the first file of the name by its path. The source is
read, not run: what a function collects in a list, and then returns or opens, is what it searches,
in the order of its statements. Tests of the platform are decided by `python_evaluator`.
"""

import ast
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import NamedTuple

from wheelfix.budget import Budget, BudgetError
from wheelfix.wheel.python_evaluator import Evaluator, truth
from wheelfix.wheel.python_source import (
    MAX_CALL_DEPTH,
    STEPS_PER_EXPRESSION,
    STEPS_PER_SOURCE,
    STEPS_PER_WHEEL,
    is_too_large,
    parse_source,
)

_VARIABLE = re.compile(r"PATH|LIB|_(HOME|DIR|ROOT|PREFIX)$", re.IGNORECASE)
"""Names of variables that hold folders or files; others choose an option."""
_LIBRARY = re.compile(r"[\w.+*-]*\.so(\.[\w.*]+)?$")
_HOLE = re.compile(r"%s|\{\w*\}")
_GETTERS = frozenset({"os.environ.get", "os.getenv", "os.environ", "environ.get", "getenv"})
_OWN = re.compile(
    r"(^|\.)(distribution|resource_filename|getsitepackages|find_spec|get_path|as_file)$"
    r"|resources\.(files|path)$|metadata\.files$|^sys\.(base_|exec_)?prefix$"
)
"""Calls and constants that give the place where the package is installed."""
_OPENERS = re.compile(r"(^|\.)([cC]DLL|PyDLL|LoadLibrary|dlopen|load_library)$")
_CONCERNED = re.compile(rb"[cC]DLL|PyDLL|LoadLibrary|dlopen|load_library|[\w*})]\.so\b")
"""Words of a source that may search for libraries; others look for files that are none."""
_OPENING = re.compile(rb"\b(ctypes|cffi)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedPlace:
    """One place of a search."""

    variable: str | None
    """The environment variable; None for the folders of the package itself."""
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LibrarySearch:
    """What one function of a source, or the source itself, searches for libraries."""

    source: str
    function: str
    """Empty for the body of the module."""
    names: tuple[str, ...]
    """Globs of file names; empty where the source does not name a library."""
    stops: tuple[SearchedPlace, ...]
    """In the order of the search, each variable once."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that are searched before the package's own folders."""
        own = next((n for n, stop in enumerate(self.stops) if stop.variable is None), None)
        return tuple(stop.variable for stop in self.stops[:own] if stop.variable is not None)

    def concerns(self, library: str) -> bool:
        """Return whether it looks for `library`, the path of an object below site-packages."""
        base = posixpath.basename(library)
        if self.names:
            return any(fnmatchcase(base, name) for name in self.names)
        own = any(stop.variable is None for stop in self.stops)
        return own and library.partition("/")[0] == self.source.partition("/")[0]


class LibrarySearches(NamedTuple):
    """What sources search for libraries, as far as they were followed."""

    found: tuple[LibrarySearch, ...] = ()
    unfollowed: tuple[str, ...] = ()
    """Sources that exceeded a limit: they may search elsewhere, too."""


MAX_SOURCE = 8 << 20
"""Bytes; larger files are not written by hand, and need not be read."""


def searches(source: bytes, path: str, budget: Budget | None = None) -> LibrarySearches:
    """Return the searches of the source at `path`, below site-packages, that read a variable.

    The walk ends when `budget` is spent. A file that is not Python of this version has none.
    """
    if b"environ" not in source and b"getenv" not in source:
        return LibrarySearches()
    own = (budget or Budget(path, STEPS_PER_WHEEL)).share(STEPS_PER_SOURCE)
    is_concerned = bool(_CONCERNED.search(source))
    unfollowed = (path,) if is_concerned else ()
    try:
        own.spend(STEPS_PER_EXPRESSION * (len(source) >> 4), "a Python source", path)
    except BudgetError:
        return LibrarySearches(unfollowed=unfollowed)
    tree = parse_source(source)
    if tree is None:
        return LibrarySearches(unfollowed=unfollowed if is_too_large(source) else ())
    walk = _Walk(tree, Evaluator(path, {}, own))
    try:
        walk.everything()
    except (BudgetError, RecursionError):  # what was found until then is true
        walk.is_whole = False
    names = tuple(dict.fromkeys(_names(tree)))
    found = tuple(
        LibrarySearch(source=path, function=function, names=names, stops=stops)
        for function, stops in walk.found.items()
        if any(stop.variable is not None for stop in stops)
        and (is_concerned or _OPENING.search(source))
    )
    return LibrarySearches(found, () if walk.is_whole else unfollowed)


def joined(many: Iterable[LibrarySearches]) -> LibrarySearches:
    """Return the searches of several sources."""
    parts = tuple(many)
    return LibrarySearches(
        tuple(search for part in parts for search in part.found),
        tuple(source for part in parts for source in part.unfollowed),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Value:
    """What is known of an expression: where it leads, and its text if it is a constant."""

    stops: tuple[SearchedPlace, ...] = ()
    text: str | None = None
    line: int = 0
    """Of the text."""


_NOTHING = _Value()
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Names = dict[str, _Value]


class _Walk:
    """One walk through one source."""

    def __init__(self, tree: ast.Module, evaluator: Evaluator) -> None:
        self.found: dict[str, tuple[SearchedPlace, ...]] = {}
        self.is_whole = True
        """Whether no call was too deep to follow."""
        self._tree = tree
        self._evaluator = evaluator
        """Decides tests of the platform, resolves imported names, and counts the steps."""
        self._functions: dict[str, _Function] = {}
        self._globals: _Names = {}
        self._results: list[SearchedPlace] = []
        self._callers: list[str] = []
        self._unsure = 0

    def everything(self) -> None:
        """Walk the module, then each function by itself; leave out those that another one calls."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._evaluator.note_import(node)
            elif isinstance(node, _Function):
                self._functions[node.name] = node
        self._block(self._tree.body, self._globals)
        self._keep("")
        called: set[str] = set()
        for name, function in self._functions.items():
            self._results = []
            self._block(function.body, {})
            self._keep(name)
            if name in self.found:
                calls = (n.func for n in ast.walk(function) if isinstance(n, ast.Call))
                called |= {n.id for n in calls if isinstance(n, ast.Name)} - {name}
        for name in called:
            self.found.pop(name, None)

    def _keep(self, function: str) -> None:
        stops = _once(self._results)
        if stops:
            self.found[function] = stops

    def _block(self, body: Iterable[ast.AST], names: _Names) -> None:
        for statement in body:
            self._statement(statement, names)

    def _statement(  # noqa: C901 - one case for each kind of statement
        self, node: ast.AST, names: _Names
    ) -> None:
        """Walk a statement, or a part of one."""
        self._evaluator.spend(1)
        match node:
            case ast.expr():
                self._value(node, names)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                pass
            case ast.ClassDef(body=body):
                self._block(body, dict(names))
            case ast.Return(value=ast.expr() as value):
                self._results += self._value(value, names).stops
            case ast.Assign(targets=targets, value=value):
                found = self._value(value, names)
                for target in targets:
                    self._bind(target, found, names)
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                self._grow(name, self._value(value, names).stops, names)
            case (
                ast.AnnAssign(target=target, value=ast.expr() as value)
                | ast.withitem(context_expr=value, optional_vars=ast.expr() as target)
            ):
                self._bind(target, self._value(value, names), names)
            case ast.If():
                self._if(node, names)
            case ast.For() | ast.AsyncFor():
                self._bind(node.target, self._value(node.iter, names), names)
                self._maybe([node.body, node.orelse], names)
            case ast.Try() | ast.TryStar():
                self._maybe([node.body, node.handlers, node.orelse], names)
                self._block(node.finalbody, names)
            case _:
                self._block(ast.iter_child_nodes(node), names)

    def _if(self, node: ast.If, names: _Names) -> None:
        holds = truth(self._evaluator.evaluate(node.test, {}))
        self._value(node.test, names)
        if holds is None:
            self._maybe([node.body, node.orelse], names)
        else:
            self._block(node.body if holds else node.orelse, names)

    def _maybe(self, blocks: Iterable[Iterable[ast.AST]], names: _Names) -> None:
        """Walk blocks that may or may not run: their values come after the existing ones."""
        self._unsure += 1
        for block in blocks:
            self._block(block, names)
        self._unsure -= 1

    def _bind(self, target: ast.expr, value: _Value, names: _Names) -> None:
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                before = names.get(node.id, _NOTHING).stops if self._unsure else ()
                names[node.id] = replace(value, stops=_once((*before, *value.stops)))

    def _grow(self, name: str, more: Sequence[SearchedPlace], names: _Names) -> None:
        names[name] = _Value(stops=_once((*names.get(name, _NOTHING).stops, *more)))

    def _value(self, node: ast.expr, names: _Names) -> _Value:
        self._evaluator.spend(1)
        match node:
            case ast.Constant(value=str() as text):
                return _Value(text=text, line=node.lineno)
            case ast.Name(id="__file__"):
                return _own_folder(node)
            case ast.Name(id=name):
                return names.get(name, self._globals.get(name, _NOTHING))
            case ast.Call():
                return self._call(node, names)
            case ast.Attribute(value=value):
                return _own_folder(node) if self._is_own(node) else self._value(value, names)
            case _:
                return self._composed(node, names)

    def _composed(self, node: ast.expr, names: _Names) -> _Value:
        match node:
            case ast.Subscript(value=value, slice=index):
                reads = self._dotted(value) in _GETTERS
                return _variable(self._value(index, names)) if reads else self._value(value, names)
            case ast.IfExp(body=body, orelse=orelse):
                return self._union([body, orelse], names)
            case ast.Compare():
                self._union([node.left, *node.comparators], names)
                return _NOTHING
            case ast.NamedExpr(target=target, value=value):
                found = self._value(value, names)
                self._bind(target, found, names)
                return found
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                inner = dict(names)
                for generator in node.generators:
                    self._bind(generator.target, self._value(generator.iter, inner), inner)
                return self._value(node.elt, inner)
            case _:
                parts = ast.iter_child_nodes(node)
                return self._union((n for n in parts if isinstance(n, ast.expr)), names)

    def _union(self, nodes: Iterable[ast.expr], names: _Names) -> _Value:
        return _Value(stops=_once(s for node in nodes for s in self._value(node, names).stops))

    def _dotted(self, node: ast.expr) -> str:
        """Return the name of what is imported, any other name as it is written; else nothing."""
        return self._evaluator.dotted(node) or _as_written(node)

    def _is_own(self, node: ast.expr) -> bool:
        return _OWN.search(self._dotted(node)) is not None

    def _call(self, node: ast.Call, names: _Names) -> _Value:
        function = self._dotted(node.func)
        given = [self._value(argument, names) for argument in node.args]
        named = {k.arg: self._value(k.value, names) for k in node.keywords if k.arg}
        if function in _GETTERS and given:
            default = given[1] if len(given) > 1 else named.get("default", _NOTHING)
            return _variable(given[0], default)
        if self._is_own(node.func):
            return _own_folder(node)
        stops = _once(s for value in (*given, *named.values()) for s in value.stops)
        if _OPENERS.search(function):
            self._results += stops
            return _NOTHING
        match node.func:
            case ast.Name(id=name) if name in self._functions:
                return self._inlined(self._functions[name], given, named)
            case ast.Attribute() as method:
                return self._method(node, method, stops, names)
            case _:
                return _Value(stops=stops)

    def _method(
        self, node: ast.Call, function: ast.Attribute, given: Sequence[SearchedPlace], names: _Names
    ) -> _Value:
        """Follow a method: lists grow; of anything else, owner and arguments pass through."""
        match function:
            case ast.Attribute(value=ast.Name(id=name), attr="append" | "extend" | "add"):
                self._grow(name, given, names)
                return _NOTHING
            case ast.Attribute(value=ast.Name(id=name), attr="insert" | "appendleft" as attr):
                front = attr == "appendleft" or _is_zero(node.args[0] if node.args else None)
                old = names.get(name, _NOTHING).stops
                names[name] = _Value(stops=_once((*given, *old) if front else (*old, *given)))
                return _NOTHING
            case _:
                return _Value(stops=_once((*self._value(function.value, names).stops, *given)))

    def _inlined(
        self, function: _Function, given: Sequence[_Value], named: Mapping[str, _Value]
    ) -> _Value:
        """Return what a function of the same source returns for these arguments."""
        if self._callers.count(function.name) > 1:
            return _NOTHING  # a recursion, which finds no more than before
        if len(self._callers) >= MAX_CALL_DEPTH:
            self.is_whole = False
            return _NOTHING
        parameters = [p.arg for p in (*function.args.posonlyargs, *function.args.args)]
        results, unsure = self._results, self._unsure
        self._results, self._unsure = [], 0
        self._callers.append(function.name)
        try:
            self._block(function.body, {**dict(zip(parameters, given, strict=False)), **named})
            return _Value(stops=_once(self._results))
        finally:
            self._results, self._unsure = results, unsure
            self._callers.pop()


def _variable(name: _Value, default: _Value = _NOTHING) -> _Value:
    """Return where the environment variable `name` leads, and then `default`."""
    if name.text is None or not _VARIABLE.search(name.text):
        return default
    return _Value(stops=(SearchedPlace(variable=name.text, line=name.line), *default.stops))


def _own_folder(node: ast.expr) -> _Value:
    return _Value(stops=(SearchedPlace(variable=None, line=node.lineno),))


def _as_written(node: ast.expr) -> str:
    """Return a name with its attributes, empty for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = _as_written(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


def _once(stops: Iterable[SearchedPlace]) -> tuple[SearchedPlace, ...]:
    """Keep the first place of each variable."""
    first: dict[str | None, SearchedPlace] = {}
    for stop in stops:
        first.setdefault(stop.variable, stop)
    return tuple(first.values())


def _is_zero(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _names(tree: ast.Module) -> Iterator[str]:
    """Yield the file names of libraries in the texts of a source; fields to format become `*`."""
    skipped = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}  # docstrings
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr(values=parts):
                skipped |= {id(part) for part in parts}
                text = "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "*" for part in parts
                )
            case ast.Constant(value=str() as value) if id(node) not in skipped:
                text = _HOLE.sub("*", value)
            case _:
                continue
        base = posixpath.basename(text)
        if _LIBRARY.fullmatch(base) and base != ".so":
            yield base
