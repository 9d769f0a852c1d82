"""Where a Python source looks for libraries: environment variables and its own folders, in order.

Not the loader but such code decides which copy of `libtvm.so` a process gets: it searches the
directories of a variable like PATH, and opens the first file of the name by its path. The source is
read, not run: what a function collects in a list, and then returns or opens, is what it searches,
in the order of its statements.
"""

import ast
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import NamedTuple

from wheelfix.wheel.python_source import Budget, is_too_large, parse_source

_VARIABLE = re.compile(r"PATH|LIB|_(HOME|DIR|ROOT|PREFIX)$", re.IGNORECASE)
"""Names of variables that lead to folders or files; others choose an option."""
_LIBRARY = re.compile(r"[\w.+*-]*\.so(\.[\w.*]+)?$")
_HOLE = re.compile(r"%s|\{\w*\}")
_GETTERS = frozenset({"os.environ.get", "os.getenv", "os.environ", "environ.get", "getenv"})
_OWN = re.compile(
    r"(^|\.)(distribution|resource_filename|getsitepackages|find_spec|get_path|as_file)$"
    r"|resources\.(files|path)$|metadata\.files$|^sys\.(base_|exec_)?prefix$"
)
"""Calls and constants that lead to where the package is installed."""
_OPENERS = re.compile(r"(^|\.)([cC]DLL|PyDLL|LoadLibrary|dlopen|load_library)$")
_HERE = {"sys.platform": "linux", "os.name": "posix", "platform.system": "Linux"}
_CONCERNED = re.compile(rb"[cC]DLL|PyDLL|LoadLibrary|dlopen|load_library|\.so\b")
"""Words of a source that may search for libraries."""
_MAX_DEPTH, _MAX_STEPS = 6, 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """One place of a search."""

    variable: str | None
    """The environment variable; None for the folders of the package itself."""
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What one function of a source, or the source itself, searches for libraries."""

    source: str
    function: str
    """Empty for the body of the module."""
    names: tuple[str, ...]
    """Globs of file names; none where the source does not say what it looks for."""
    stops: tuple[Stop, ...]
    """In the order of the search, each variable once."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that go before the package's own folders."""
        own = next((n for n, stop in enumerate(self.stops) if stop.variable is None), None)
        return tuple(stop.variable for stop in self.stops[:own] if stop.variable is not None)

    def concerns(self, library: str) -> bool:
        """Whether it looks for the file `library`, the path of an object below site-packages."""
        base = posixpath.basename(library)
        if self.names:
            return any(fnmatchcase(base, name) for name in self.names)
        own = any(stop.variable is None for stop in self.stops)
        return own and library.partition("/")[0] == self.source.partition("/")[0]


class Searches(NamedTuple):
    """What sources search for libraries, as far as they were followed."""

    found: tuple[Search, ...] = ()
    unfollowed: tuple[str, ...] = ()
    """Sources that were too much to follow to their ends: they may search elsewhere, too."""


MAX_SOURCE = 8 << 20
"""Bytes; what is larger is not what a person wrote, and need not be read."""


def searches(source: bytes, path: str, effort: Budget | None = None) -> Searches:
    """Return the searches of the source at `path`, below site-packages, that read a variable.

    It is followed until `effort` is spent. A file that is no Python of this version searches
    nothing that could be told.
    """
    if b"environ" not in source and b"getenv" not in source:
        return Searches()
    effort = effort or Budget()
    effort.left -= len(source) >> 4
    tree = parse_source(source) if effort.left > 0 else None
    if tree is None:
        is_whole = effort.left > 0 and not is_too_large(source)
        return Searches(unfollowed=() if is_whole or not _CONCERNED.search(source) else (path,))
    walk = _Walk(tree, min(_MAX_STEPS, effort.left))
    try:
        walk.everything()
    except (_ExhaustedError, RecursionError):  # what was found until then is true
        walk.is_whole = False
    effort.left -= walk.steps
    names = tuple(dict.fromkeys(_names(tree)))
    found = tuple(
        Search(source=path, function=function, names=names, stops=stops)
        for function, stops in walk.found.items()
        if any(stop.variable is not None for stop in stops)
    )
    return Searches(found, () if walk.is_whole or not _CONCERNED.search(source) else (path,))


def joined(many: Iterable[Searches]) -> Searches:
    """Return the searches of several sources."""
    all_ = tuple(many)
    return Searches(
        tuple(each for one in all_ for each in one.found),
        tuple(each for one in all_ for each in one.unfollowed),
    )


# --- The walk -------------------------------------------------------------------------------------


class _ExhaustedError(Exception):
    """The source is larger than is worth following."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Value:
    """What is known of an expression: where it leads, and its text if it is a constant."""

    stops: tuple[Stop, ...] = ()
    text: str | None = None
    line: int = 0
    """Of the text."""


_NOTHING = _Value()
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Names = dict[str, _Value]


class _Walk:
    """One walk through one source."""

    def __init__(self, tree: ast.Module, most: int) -> None:
        self.found: dict[str, tuple[Stop, ...]] = {}
        self.is_whole = True
        """Whether no call was too deep to follow."""
        self.steps = 0
        self._tree = tree
        self._functions = {n.name: n for n in ast.walk(tree) if isinstance(n, _Function)}
        self._globals: _Names = {}
        self._results: list[Stop] = []
        self._callers: list[str] = []
        self._unsure = 0
        self._most = most

    def everything(self) -> None:
        """Walk the module, then every function for itself; keep what no other one includes."""
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

    def _spend(self) -> None:
        self.steps += 1
        if self.steps > self._most:
            raise _ExhaustedError

    def _keep(self, function: str) -> None:
        stops = _once(self._results)
        if stops:
            self.found[function] = stops

    def _block(self, body: Iterable[ast.stmt], names: _Names) -> None:
        for statement in body:
            self._spend()
            self._statement(statement, names)

    def _statement(  # noqa: C901, PLR0912 - one for each kind
        self, node: ast.stmt, names: _Names
    ) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                found = self._value(value, names)
                for target in targets:
                    self._bind(target, found, names)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._bind(target, self._value(value, names), names)
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                self._grow(name, self._value(value, names).stops, names)
            case ast.Return(value=ast.expr() as value):
                self._results += self._value(value, names).stops
            case ast.If(test=test, body=body, orelse=orelse):
                holds = _decided(test)
                self._value(test, names)
                self._branches([each for each, out in ((body, False), (orelse, True))
                                if holds is not out], names, sure=holds is not None)  # fmt: skip
            case ast.Try() | ast.TryStar():
                parts = [node.body, *(each.body for each in node.handlers), node.orelse]
                self._branches(parts, names, sure=False)
                self._block(node.finalbody, names)
            case ast.For() | ast.AsyncFor():
                self._bind(node.target, self._value(node.iter, names), names)
                self._branches([node.body, node.orelse], names, sure=False)
            case ast.While() | ast.With() | ast.AsyncWith():
                for item in [] if isinstance(node, ast.While) else node.items:
                    found = self._value(item.context_expr, names)
                    if item.optional_vars is not None:
                        self._bind(item.optional_vars, found, names)
                self._block(node.body, names)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                pass
            case ast.ClassDef(body=body):
                self._block(body, dict(names))
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self._value(child, names)

    def _branches(self, blocks: Sequence[Sequence[ast.stmt]], names: _Names, *, sure: bool) -> None:
        """Walk blocks as if each were run: what one assigns comes after what was there."""
        self._unsure += not sure
        for block in blocks:
            self._block(block, names)
        self._unsure -= not sure

    def _bind(self, target: ast.expr, value: _Value, names: _Names) -> None:
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                before = names.get(node.id, _NOTHING).stops if self._unsure else ()
                names[node.id] = replace(value, stops=_once((*before, *value.stops)))

    def _grow(self, name: str, more: Sequence[Stop], names: _Names) -> None:
        names[name] = _Value(stops=_once((*names.get(name, _NOTHING).stops, *more)))

    # --- Expressions

    def _value(  # noqa: C901, PLR0911, PLR0912 - one for each kind
        self, node: ast.expr | None, names: _Names
    ) -> _Value:
        self._spend()
        match node:
            case ast.Constant(value=str() as text):
                return _Value(text=text, line=node.lineno)
            case ast.Name(id="__file__"):
                return _Value(stops=(Stop(variable=None, line=node.lineno),))
            case ast.Name(id=name):
                return names.get(name, self._globals.get(name, _NOTHING))
            case ast.Call():
                return self._call(node, names)
            case ast.Subscript(value=value, slice=index) if _dotted(value) in _GETTERS:
                return self._variable(self._value(index, names))
            case ast.Subscript(value=value):
                return self._value(value, names)
            case ast.Attribute(value=value):
                own = _OWN.search(_dotted(node)) is not None
                return self._own(node) if own else self._value(value, names)
            case ast.IfExp(body=body, orelse=orelse):
                return self._joined([body, orelse], names)
            case ast.Compare():
                self._joined([node.left, *node.comparators], names)
                return _NOTHING
            case ast.NamedExpr(target=target, value=value):
                found = self._value(value, names)
                self._bind(target, found, names)
                return found
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                inner = dict(names)
                for each in node.generators:
                    self._bind(each.target, self._value(each.iter, inner), inner)
                return self._value(node.elt, inner)
            case None:
                return _NOTHING
            case _:
                children = [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]
                return self._joined(children, names)

    def _joined(self, nodes: Iterable[ast.expr], names: _Names) -> _Value:
        return _Value(stops=_once(s for node in nodes for s in self._value(node, names).stops))

    def _own(self, node: ast.expr) -> _Value:
        return _Value(stops=(Stop(variable=None, line=node.lineno),))

    def _variable(self, name: _Value, default: _Value = _NOTHING) -> _Value:
        if name.text is None or not _VARIABLE.search(name.text):
            return default
        return _Value(stops=(Stop(variable=name.text, line=name.line), *default.stops))

    def _call(self, node: ast.Call, names: _Names) -> _Value:
        function = _dotted(node.func)
        given = [self._value(each, names) for each in node.args]
        named = {each.arg: self._value(each.value, names) for each in node.keywords if each.arg}
        if function in _GETTERS and given:
            default = given[1] if len(given) > 1 else named.get("default", _NOTHING)
            return self._variable(given[0], default)
        if _OWN.search(function):
            return self._own(node)
        stops = _once(s for value in (*given, *named.values()) for s in value.stops)
        if _OPENERS.search(function):
            self._results += stops
            return _NOTHING
        if isinstance(node.func, ast.Name) and function in self._functions:
            return self._followed(self._functions[function], given, named)
        if isinstance(node.func, ast.Attribute):
            return self._method(node, node.func, stops, names)
        return _Value(stops=stops)

    def _method(
        self, node: ast.Call, function: ast.Attribute, given: Sequence[Stop], names: _Names
    ) -> _Value:
        """Follow a call of a method: lists grow, of all else what is called passes through."""
        if isinstance(function.value, ast.Name):
            name = function.value.id
            if function.attr in {"append", "extend", "add"}:
                self._grow(name, given, names)
                return _NOTHING
            if function.attr in {"insert", "appendleft"}:
                front = function.attr != "insert" or _is_zero(node.args[0] if node.args else None)
                old = names.get(name, _NOTHING).stops
                names[name] = _Value(stops=_once((*given, *old) if front else (*old, *given)))
                return _NOTHING
        return _Value(stops=_once((*self._value(function.value, names).stops, *given)))

    def _followed(
        self, function: _Function, given: Sequence[_Value], named: Mapping[str, _Value]
    ) -> _Value:
        """Return what a function of the same source returns for these arguments."""
        if self._callers.count(function.name) > 1:
            return _NOTHING  # a recursion, which finds no more than before
        if len(self._callers) >= _MAX_DEPTH:
            self.is_whole = False
            return _NOTHING
        arguments = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        names = {**dict(zip(arguments, given, strict=False)), **named}
        results, unsure = self._results, self._unsure
        self._results, self._unsure = [], 0
        self._callers.append(function.name)
        try:
            self._block(function.body, names)
            return _Value(stops=_once(self._results))
        finally:
            self._results, self._unsure = results, unsure
            self._callers.pop()


def _once(stops: Iterable[Stop]) -> tuple[Stop, ...]:
    """Keep the first stop of each variable."""
    first: dict[str | None, Stop] = {}
    for stop in stops:
        first.setdefault(stop.variable, stop)
    return tuple(first.values())


def _is_zero(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _dotted(node: ast.expr) -> str:
    """Return a name with its attributes as it is written, empty if it is none."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


def _decided(test: ast.expr) -> bool | None:
    """Return whether a test of the platform holds on Linux, None for any other test."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _decided(operand)
            return None if inner is None else not inner
        case ast.BoolOp(op=op, values=values):
            some, ends = [_decided(each) for each in values], isinstance(op, ast.Or)
            return ends if ends in some else (None if None in some else not ends)
        case ast.Call(
            func=ast.Attribute(value=value, attr="startswith"),
            args=[ast.Constant(value=str() as prefix)],
        ) if _dotted(value) == "sys.platform":
            return "linux".startswith(prefix)
        case ast.Compare(
            left=left, ops=[ast.Eq() | ast.NotEq() as op], comparators=[ast.Constant(value=text)]
        ):
            here = _HERE.get(_dotted(left.func if isinstance(left, ast.Call) else left))
            return None if here is None else (here == text) is isinstance(op, ast.Eq)
        case _:
            return None


def _names(tree: ast.Module) -> Iterator[str]:
    """Yield the file names of libraries that the source has as text, holes in it as `*`."""
    said = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}  # docstrings
    for node in ast.walk(tree):
        text = ""
        if isinstance(node, ast.JoinedStr):
            said |= {id(each) for each in node.values}
            text = "".join(
                str(each.value) if isinstance(each, ast.Constant) else "*" for each in node.values
            )
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said
        ):
            text = _HOLE.sub("*", node.value)
        base = posixpath.basename(text)
        if _LIBRARY.fullmatch(base) and base != ".so":
            yield base
