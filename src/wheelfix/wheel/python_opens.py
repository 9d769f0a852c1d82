"""Which libraries a Python source opens by name, read from its syntax tree.

The source is walked as Python on Linux would run it: tests of `sys.platform` and `os.name` are
decided, the usual ways to build a path (`os.path`, `pathlib`, `importlib.resources`, f-strings,
constants, functions of the same file) are followed, and what cannot be known stays unknown. The
walk executes nothing.
"""

import ast
import math
import operator
import posixpath
import re
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from itertools import product
from typing import Any, Final, NamedTuple, cast

from wheelfix.wheel.model import Opening, Where
from wheelfix.wheel.sniff import may_open

# Deep enough for any `..` that a source writes. A name with NUL is no path of a real file.
_SITE = "/\0/" + "/".join("abcdefghijkl") + "/site"
_PREFIX = "/\0prefix"
_MAX_ALTERNATIVES = 8
_MAX_COMBINATIONS = 64
_MAX_DEPTH = 4
_MAX_STEPS = 60_000
_MAX_TOKENS = 100_000
"""More than any source has that a person wrote; the tree of so many takes up to 100 MB."""
_MAX_TEXT = 4096
"""Characters; PATH_MAX of Linux. What is longer is no path, nor becomes one."""
_MAX_WEIGHT = 8192

_FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def parsed(source: bytes) -> ast.Module | None:
    """Parse a source in little memory, and in silence; None for what is no Python of this version.

    What is larger than any source that a person writes counts as none: a tree takes some hundred
    times as much memory as its source.
    """
    if is_too_large(source):
        return None
    # Python 3.12 warns of `"\d"`; the file name makes the filter one for such sources alone.
    warnings.filterwarnings("ignore", module=re.escape(_MEMBER))
    try:
        tree = compile(source, _MEMBER, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree if isinstance(tree, ast.Module) else None


_MEMBER = "<a member of the wheel>"


def is_too_large(source: bytes) -> bool:
    """Return whether `parsed` does not try: a source has more words than any person writes."""
    return len(source) > _MAX_TOKENS and _tokens(source) > _MAX_TOKENS


def _tokens(source: bytes) -> int:
    return sum(1 for _ in re.finditer(rb"\w+|[^\w\s]", source))


class Budget:
    """What may yet be spent on the sources of one wheel: 20 times what SciPy's take."""

    def __init__(self, left: int = 1_000_000) -> None:
        self.left = left
        """Steps of the walk, each some 5 microseconds; 16 bytes of source count as one."""


class Followed(NamedTuple):
    """What one source opens, as far as it was followed."""

    openings: tuple[Opening, ...] = ()
    """In source order."""
    to_its_end: bool = True
    """Whether there is surely no more that could be told."""


def followed(
    source: bytes, path: str, modules: Mapping[str, str], effort: Budget | None = None
) -> Followed:
    """Follow the source at `path`, below site-packages, to what it opens, until `effort` is spent.

    `modules` has the path of each module that may be imported from the wheel, by its dotted name.
    A file that is no Python of this version opens nothing that could be told.
    """
    effort = effort or Budget()
    effort.left -= len(source) >> 4
    if effort.left <= 0:
        return Followed(to_its_end=False)
    tree = parsed(source)
    if tree is None:
        return Followed(to_its_end=not is_too_large(source))
    most = min(_MAX_STEPS, effort.left)
    scan = _Scan(path, modules, _Relevance(source.splitlines()), most)
    to_its_end = False
    with suppress(_ExhaustedError, RecursionError):  # what was found until then is true
        scan.module(tree)
        to_its_end = True
    effort.left -= scan.steps
    found = sorted(scan.found.values(), key=lambda each: (each.line, each.name))
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
        inside = {n for each in functions for n in range(each.lineno - 1, each.end_lineno or 0)}
        relevant: set[_FunctionNode] = set()
        users: dict[bytes, list[_FunctionNode]] = {}
        size = 8 * sum(map(len, self._lines)) + 1000
        for each in functions:
            text = self._text(each)
            size -= len(text)
            if size < 0:  # functions in functions in functions
                return list(functions)
            if may_open(text):
                relevant.add(each)
            for word in set(_WORD.findall(text)):
                users.setdefault(word, []).append(each)
        names = {
            word
            for n, line in enumerate(self._lines)
            if n not in inside and may_open(line)
            for word in _WORD.findall(line)
        }
        waiting = [*names, *(each.name.encode() for each in relevant)]
        while waiting:
            more = [each for each in users.pop(waiting.pop(), ()) if each not in relevant]
            relevant.update(more)
            waiting += [each.name.encode() for each in more]
        return [each for each in functions if each in relevant]

    def _text(self, function: _FunctionNode) -> bytes:
        return b"\n".join(self._lines[function.lineno - 1 : function.end_lineno])


# --- Values -------------------------------------------------------------------------------------


class _Unknown:
    """A value that cannot be told."""

    def __repr__(self) -> str:
        return "UNKNOWN"


_UNKNOWN: Final = _Unknown()
_Values = tuple[object, ...]
"""What an expression may be: one of these."""
_ANY: Final[_Values] = (_UNKNOWN,)
_Environment = dict[str, _Values]
_Function = Callable[..., object]


class _ExhaustedError(Exception):
    """The source is larger than is worth following."""


def _either(*some: _Values) -> _Values:
    merged: list[object] = []
    for value in (value for values in some for value in values):
        if not any(value is each or _same(value, each) for each in merged):
            if len(merged) == _MAX_ALTERNATIVES:
                return _ANY
            merged.append(value)
    return tuple(merged) or _ANY


def _same(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other


def _truth(values: _Values) -> bool | None:
    """Return whether a test holds, None if that is not known."""
    truths = {None if value is _UNKNOWN else bool(value) for value in values}
    return truths.pop() if len(truths) == 1 else None


def _strings(values: _Values) -> Iterator[str]:
    return (value for value in values if isinstance(value, str))


def _weight(value: object) -> int:
    """Return how much there is of a value, in pieces of 16 characters; it may be shared inside."""
    weight = 0
    waiting = [value]
    while waiting and weight <= _MAX_WEIGHT:
        each = waiting.pop()
        weight += 1
        if isinstance(each, str):
            weight += len(each) >> 4 if len(each) <= _MAX_TEXT else _MAX_WEIGHT
        elif isinstance(each, tuple):
            waiting += cast("tuple[object, ...]", each)
        elif isinstance(each, dict):
            waiting += cast("dict[object, object]", each).values()
    return weight


# --- What the standard library makes of known values ---------------------------------------------

_CONSTANTS: Mapping[str, object] = {
    "sys.platform": "linux",
    "os.name": "posix",
    "os.sep": "/",
    "os.path.sep": "/",
    "os.altsep": None,
    "os.pathsep": ":",
    "os.curdir": ".",
    "os.pardir": "..",
    "sys.prefix": _PREFIX,
    "sys.exec_prefix": _PREFIX,
    "typing.TYPE_CHECKING": False,
    "sys.maxsize": 2**63 - 1,
}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _on_text(function: Callable[[str], object]) -> _Function:
    """Make a function of text one that refuses all else, and ignores options like `strict`."""

    def call(value: object, *_options: object) -> object:
        return function(_text(value))

    return call


def _method(name: str) -> _Function:
    """Return the method `name` of `str`."""

    def call(value: object, *arguments: object) -> object:
        found: object = getattr(_text(value), name)(*arguments)
        return tuple(cast("list[object]", found)) if isinstance(found, list) else found

    return call


def _resource(package: object, *parts: object) -> str:
    return posixpath.join(_SITE, _text(package).replace(".", "/"), *map(_text, parts))


def _joined(*parts: object) -> str:
    return posixpath.join(*map(_text, parts)) if parts else "."


def _path(*parts: object) -> str:
    """`pathlib.PurePosixPath`: as `_joined`, and `.` falls away."""
    joined = _joined(*parts)
    return "/" if joined == "/" else "/".join(p for p in joined.split("/") if p != ".") or "."


def _with_suffix(path: object, suffix: object) -> str:
    return posixpath.splitext(_text(path))[0] + _text(suffix)


def _with_name(path: object, name: object) -> str:
    return posixpath.join(posixpath.dirname(_text(path)), _text(name))


def _looked_up(table: object, *arguments: object) -> object:
    if not isinstance(table, dict):
        raise TypeError
    return cast("dict[object, object]", table).get(*arguments)


def _sequence(value: object) -> tuple[object, ...]:
    if not isinstance(value, tuple):
        raise TypeError
    return cast("tuple[object, ...]", value)


def _linux() -> str:
    return "Linux"


def _tuple(*values: object) -> object:
    return values


def _concatenated(*values: object) -> object:
    return "".join(map(str, values))


def _at(some: object, index: object) -> object:
    return operator.getitem(cast("Any", some), cast("Any", index))


_WIDE = re.compile(r"%(?:\(\w*\))?[-+ #0-9.]*(?:\*|\d{4})")
_PLAIN = re.compile(r"(?:[^{}]|\{\{|\}\}|\{\w*(?:![rsa])?(?::(?![^{}]*\d{4})[^{}]*)?\})*")


def _percent(template: object, values: object) -> object:
    """`%`, without fields that are padded to thousands of characters."""
    if _WIDE.search(_text(template)):
        raise ValueError
    return operator.mod(_text(template), cast("Any", values))


def _format(template: object, *values: object) -> str:
    """`str.format`, without such fields and those that look into an object."""
    if not _PLAIN.fullmatch(_text(template)):
        raise ValueError
    return _text(template).format(*values)


_FUNCTIONS: Mapping[str, _Function] = {
    "os.path.join": _joined,
    "os.path.dirname": _on_text(posixpath.dirname),
    "os.path.basename": _on_text(posixpath.basename),
    "os.path.abspath": _on_text(posixpath.normpath),
    "os.path.realpath": _on_text(posixpath.normpath),
    "os.path.normpath": _on_text(posixpath.normpath),
    "os.path.split": _on_text(posixpath.split),
    "os.path.splitext": _on_text(posixpath.splitext),
    "os.fspath": _text,
    "os.fsencode": _text,
    "os.fsdecode": _text,
    "str": str,
    "tuple": _sequence,
    "list": _sequence,
    "pathlib.Path": _path,
    "pathlib.PurePath": _path,
    "pathlib.PosixPath": _path,
    "pathlib.PurePosixPath": _path,
    "platform.system": _linux,
    "sys.platform.startswith": "linux".startswith,
    "importlib.resources.files": _resource,
    "importlib_resources.files": _resource,
    "importlib.resources.path": _resource,
    "importlib.resources.as_file": _text,
    "importlib_resources.as_file": _text,
    "pkg_resources.resource_filename": _resource,
}
_METHODS: Mapping[str, _Function] = {
    "joinpath": _joined,
    "resolve": _on_text(posixpath.normpath),
    "absolute": _text,
    "as_posix": _text,
    "with_name": _with_name,
    "with_suffix": _with_suffix,
    "__str__": _text,
    "__fspath__": _text,
    "encode": _on_text(str),
    "get": _looked_up,
    "format": _format,
    **{
        name: _method(name)
        for name in (
            "lower", "strip", "replace", "join", "startswith", "endswith", "split",
            "rsplit", "removesuffix", "removeprefix",
        )
    },
}  # fmt: skip
_ATTRIBUTES: Mapping[str, _Function] = {
    "parent": _on_text(posixpath.dirname),
    "name": _on_text(posixpath.basename),
    "stem": _on_text(lambda path: posixpath.splitext(posixpath.basename(path))[0]),
    "suffix": _on_text(lambda path: posixpath.splitext(path)[1]),
    "parents": _on_text(lambda path: tuple(_parents(path))),
}


def _parents(path: str) -> Iterator[str]:
    while (parent := posixpath.dirname(path)) != path and len(path) > 1:
        yield parent
        path = parent


def _is_in(value: object, some: object) -> object:
    return operator.contains(cast("Any", some), value)


def _is_not_in(value: object, some: object) -> object:
    return not _is_in(value, some)


_OPERATORS: Mapping[type[ast.operator], _Function] = {
    ast.Add: operator.add,
    ast.Div: _joined,
    ast.Mod: _percent,
}
_COMPARISONS: Mapping[type[ast.cmpop], _Function] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: _is_in,
    ast.NotIn: _is_not_in,
    ast.Is: operator.eq,
    ast.IsNot: operator.ne,
}

# --- Calls that open ------------------------------------------------------------------------------

_BY_NAME = frozenset(
    {
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
_FIND = "ctypes.util.find_library"
_ASKING = frozenset({"exists", "isfile", "is_file", "access", "lexists", "stat"})
"""Calls by which a source asks whether a file is there, before it opens it."""
_FORGIVING = frozenset({"contextlib.suppress", "suppress"})


class _Scope:
    """Where the walk stands."""

    def __init__(self, *, on_import: bool, sure: bool = True, depth: int = 0) -> None:
        self.on_import = on_import
        self.sure = sure
        self.depth = depth
        self.returned: list[_Values] = []


class _Scan:
    """One walk through one source."""

    def __init__(
        self, path: str, modules: Mapping[str, str], relevance: "_Relevance", most: int
    ) -> None:
        self.steps = 0
        self.found: dict[tuple[int, str, Where], Opening] = {}
        self._modules = modules
        self._relevance = relevance
        self._files = frozenset(modules.values())
        self._file = f"{_SITE}/{path}"
        package = posixpath.dirname(path).replace("/", ".")
        stem = posixpath.basename(path).removesuffix(".py")
        self._special: dict[str, object] = {
            "__file__": self._file,
            "__package__": package,
            "__name__": package if stem == "__init__" else f"{package}.{stem}".lstrip("."),
        }
        self._imported: dict[str, str] = {}
        self._functions: dict[str, _FunctionNode] = {}
        self._later: list[_FunctionNode] = []
        self._scope: _Scope = _Scope(on_import=True)
        self._most = most

    def _spend(self, steps: int) -> None:
        self.steps += steps
        if self.steps > self._most:
            raise _ExhaustedError

    def _each(self, function: _Function, *arguments: _Values) -> _Values:
        """Apply `function` to every combination of known alternatives.

        What is too large to be a path, or a list of some, counts as unknown.
        """
        if math.prod(map(len, arguments)) > _MAX_COMBINATIONS:
            return _ANY
        results: list[_Values] = []
        for chosen in product(*arguments):
            results.append(_ANY)
            weight = sum(map(_weight, chosen))
            self._spend(weight)
            if weight > _MAX_WEIGHT or any(value is _UNKNOWN for value in chosen):
                continue
            try:
                result = function(*chosen)
            except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError):
                continue
            weight = _weight(result)
            self._spend(weight)
            if weight <= _MAX_WEIGHT:
                results[-1] = (result,)
        return _either(*results) if results else _ANY

    # --- Statements

    def module(self, tree: ast.Module) -> None:
        for node in _statements(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._import(node)
            elif isinstance(node, _FunctionNode):
                self._functions.setdefault(node.name, node)
                self._later.append(node)
        environment: _Environment = {}
        self._block(tree.body, environment)
        for function in self._relevance.of(self._later):
            self._scope = _Scope(on_import=False)
            self._body(function, self._branch(environment), self._parameters(function, (), {}))

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.Import):
            for each in node.names:
                top = each.name.partition(".")[0]
                self._imported[each.asname or top] = each.name if each.asname else top
            return
        parts = posixpath.dirname(self._file.removeprefix(f"{_SITE}/")).split("/")
        above = parts[: len(parts) - node.level + 1] if node.level else []
        module = ".".join([*filter(None, above), *([node.module] if node.module else [])])
        for each in node.names:
            self._imported[each.asname or each.name] = f"{module}.{each.name}"

    def _block(self, body: Sequence[ast.stmt], environment: _Environment) -> bool:
        """Walk statements; return whether the last of them is surely never passed."""
        before = self._scope.sure
        for statement in body:
            if self._statement(statement, environment):
                self._scope.sure = before
                return True
        self._scope.sure = before
        return False

    def _statement(  # noqa: C901 - one case for each kind of statement
        self, node: ast.stmt, environment: _Environment
    ) -> bool:
        """Walk one statement; return whether what follows it is surely not reached."""
        match node:
            case ast.Return():
                self._scope.returned.append(self._value(node.value, environment))
                return True
            case ast.Raise() | ast.Break() | ast.Continue():
                self._values([*ast.iter_child_nodes(node)], environment)
                return True
            case ast.If():
                return self._if(node, environment)
            case ast.Try() | ast.TryStar():
                return self._try(node, environment)
            case ast.For() | ast.AsyncFor():
                self._for(node, environment)
            case ast.While():
                self._value(node.test, environment)
                self._maybe(node.body, environment)
                self._block(node.orelse, environment)
            case ast.With() | ast.AsyncWith():
                return self._with(node, environment)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Import() | ast.ImportFrom():
                pass
            case ast.ClassDef():
                self._block(node.body, self._branch(environment))
            case ast.Match():
                self._value(node.subject, environment)
                for case in node.cases:
                    self._maybe(case.body, environment)
            case _:
                self._simple(node, environment)
        return False

    def _simple(self, node: ast.stmt, environment: _Environment) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                found = self._value(value, environment)
                for target in targets:
                    self._bind(target, found, environment)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._bind(target, self._value(value, environment), environment)
            case ast.AugAssign(target=target, op=op, value=value):
                old = self._value(target, environment)
                new = self._operate(op, old, self._value(value, environment))
                self._bind(target, new, environment)
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append" | "extend")) as call):
                self._value(call, environment)
                self._forget(call.func, environment)
            case _:
                self._values([*ast.iter_child_nodes(node)], environment)

    def _forget(self, function: ast.expr, environment: _Environment) -> None:
        """Hold a list that grows for unknown."""
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            environment[function.value.id] = _ANY

    def _bind(self, target: ast.expr, values: _Values, environment: _Environment) -> None:
        match target:
            case ast.Name(id=name):
                environment[name] = values
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                for n, element in enumerate(elements):
                    part = self._each(_at, values, (n,))
                    self._bind(element, part, environment)
            case ast.Starred(value=inner):
                self._bind(inner, _ANY, environment)
            case _:
                pass

    def _if(self, node: ast.If, environment: _Environment) -> bool:
        truth = _truth(self._value(node.test, environment))
        if truth is not None:
            return self._block(node.body if truth else node.orelse, environment)
        asks = _asks(node.test)
        other = self._branch(environment)
        ends = (self._maybe(node.body, environment), self._maybe(node.orelse, other))
        if ends[0] and not ends[1]:
            environment.clear()
            environment.update(other)
        elif not ends[0] and not ends[1]:
            _merge(environment, other)
        # What follows a guard is reached only sometimes.
        self._scope.sure = self._scope.sure and not any(ends) and not asks
        return all(ends)

    def _branch(self, environment: _Environment) -> _Environment:
        """Return what is known, to go on with by another way."""
        self._spend(len(environment) >> 4)
        return dict(environment)

    def _maybe(self, body: Sequence[ast.stmt], environment: _Environment) -> bool:
        """Walk what is run only sometimes."""
        with self._unsure():
            return self._block(body, environment)

    @contextmanager
    def _unsure(self) -> Generator[None]:
        before, self._scope.sure = self._scope.sure, False
        try:
            yield
        finally:
            self._scope.sure = before

    def _try(self, node: ast.Try | ast.TryStar, environment: _Environment) -> bool:
        handlers = [handler.body for handler in node.handlers]
        forgiven = any(not isinstance(body[-1], ast.Raise) for body in handlers)
        start = self._branch(environment)
        if forgiven:
            ends = self._maybe([*node.body, *node.orelse], environment)
        else:
            ends = self._block([*node.body, *node.orelse], environment)
        for handler in node.handlers:
            other = self._branch(start)
            if handler.name:
                other[handler.name] = _ANY
            if not self._maybe(handler.body, other):
                if ends:
                    environment.clear()
                    environment.update(other)
                else:
                    _merge(environment, other)
                ends = False
        return self._block(node.finalbody, environment) or ends

    def _for(self, node: ast.For | ast.AsyncFor, environment: _Environment) -> None:
        values = self._value(node.iter, environment)
        known = values[0] if len(values) == 1 else _UNKNOWN
        elements = cast("_Values", known) if isinstance(known, tuple) else _ANY
        self._bind(node.target, _either(elements) if elements else _ANY, environment)
        if len(elements) == 1 and elements != _ANY:
            self._block(node.body, environment)
        else:
            self._maybe(node.body, environment)
        self._block(node.orelse, environment)

    def _with(self, node: ast.With | ast.AsyncWith, environment: _Environment) -> bool:
        forgiven = False
        for item in node.items:
            values = self._value(item.context_expr, environment)
            if item.optional_vars is not None:
                self._bind(item.optional_vars, values, environment)
            call = item.context_expr
            forgiven |= isinstance(call, ast.Call) and self._dotted(call.func) in _FORGIVING
        walk = self._maybe if forgiven else self._block
        return walk(node.body, environment) and not forgiven

    # --- Expressions

    def _values(self, nodes: Iterable[ast.AST], environment: _Environment) -> None:
        """Walk expressions for what they open."""
        for node in nodes:
            if isinstance(node, ast.expr):
                self._value(node, environment)
            elif not isinstance(node, ast.stmt):
                self._values(ast.iter_child_nodes(node), environment)

    def _value(  # noqa: PLR0911 - one case for each kind of expression
        self, node: ast.expr | None, environment: _Environment
    ) -> _Values:
        self._spend(1)
        match node:
            case None:
                return (None,)
            case ast.Constant(value=bytes() as value):
                return (value[: _MAX_TEXT + 1].decode(errors="replace"),)
            case ast.Constant(value=value):
                return (value,)
            case ast.Name(id=name):
                return self._name(name, environment)
            case ast.Attribute():
                return self._attribute(node, environment)
            case ast.Call():
                return self._call(node, environment)
            case ast.Subscript():
                return self._subscript(node, environment)
            case _:
                return self._composed(node, environment)

    def _composed(  # noqa: C901, PLR0911, PLR0912 - one case for each kind of expression
        self, node: ast.expr, environment: _Environment
    ) -> _Values:
        match node:
            case ast.JoinedStr(values=parts):
                some = [self._value(part, environment) for part in parts]
                return self._each(_concatenated, *some)
            case ast.FormattedValue(value=value, format_spec=None):
                return self._value(value, environment)
            case ast.BinOp(left=left, op=op, right=right):
                one, other = (self._value(side, environment) for side in (left, right))
                return self._operate(op, one, other)
            case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
                some = [self._value(element, environment) for element in elements]
                return self._each(_tuple, *some)
            case ast.Dict(keys=keys, values=values):
                names = [self._value(key, environment) for key in keys]
                things = [self._value(value, environment) for value in values]
                self._spend(len(names))
                return _table(names, things)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._choice(test, body, orelse, environment)
            case ast.BoolOp():
                return self._boolean(node, environment)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                truth = _truth(self._value(operand, environment))
                return _ANY if truth is None else (not truth,)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                function = _COMPARISONS.get(type(op))
                some = [self._value(side, environment) for side in (left, right)]
                return self._each(function, *some) if function else _ANY
            case ast.NamedExpr(target=target, value=value):
                found = self._value(value, environment)
                self._bind(target, found, environment)
                return found
            case ast.Lambda():
                return _ANY
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node, environment)
            case _:
                self._values(ast.iter_child_nodes(node), environment)
                return _ANY

    def _comprehension(
        self,
        node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp,
        environment: _Environment,
    ) -> _Values:
        inner = self._branch(environment)
        for generator in node.generators:
            values = self._value(generator.iter, inner)
            known = values[0] if len(values) == 1 else _UNKNOWN
            elements = _either(cast("_Values", known)) if isinstance(known, tuple) else _ANY
            self._bind(generator.target, elements, inner)
        with self._unsure():
            self._values(
                [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt], inner
            )
        return _ANY

    def _operate(self, op: ast.operator, one: _Values, other: _Values) -> _Values:
        function = _OPERATORS.get(type(op))
        return self._each(function, one, other) if function else _ANY

    def _choice(
        self, test: ast.expr, body: ast.expr, orelse: ast.expr, environment: _Environment
    ) -> _Values:
        truth = _truth(self._value(test, environment))
        if truth is not None:
            return self._value(body if truth else orelse, environment)
        with self._unsure():
            return _either(self._value(body, environment), self._value(orelse, environment))

    def _boolean(self, node: ast.BoolOp, environment: _Environment) -> _Values:
        ends_by = isinstance(node.op, ast.Or)
        open_ones: list[_Values] = []
        values = _ANY
        with self._unsure():
            for operand in node.values:
                values = self._value(operand, environment)
                truth = _truth(values)
                if truth is ends_by:
                    break
                if truth is None:
                    open_ones.append(values)
        return _either(*open_ones, values)

    def _name(self, name: str, environment: _Environment) -> _Values:
        if name in environment:
            return environment[name]
        if name in self._special:
            return (self._special[name],)
        dotted = self._imported.get(name)
        return (_CONSTANTS[dotted],) if dotted and dotted in _CONSTANTS else _ANY

    def _attribute(self, node: ast.Attribute, environment: _Environment) -> _Values:
        dotted = self._dotted(node)
        if dotted is not None:
            if dotted in _CONSTANTS:
                return (_CONSTANTS[dotted],)
            if node.attr in {"__file__", "__path__"}:
                return self._place_of(dotted.rpartition(".")[0], node.attr)
            if match := _LOADER_ATTRIBUTE.match(dotted):
                self._note(node, match[0], (match[1],))
            return _ANY
        function = _ATTRIBUTES.get(node.attr)
        values = self._value(node.value, environment)
        return self._each(function, values) if function else _ANY

    def _place_of(self, module: str, attribute: str) -> _Values:
        path = self._modules.get(module)
        if path is None:
            return _ANY
        file = f"{_SITE}/{path}"
        return (file,) if attribute == "__file__" else ((posixpath.dirname(file),),)

    def _subscript(self, node: ast.Subscript, environment: _Environment) -> _Values:
        index = self._value(node.slice, environment)
        dotted = self._dotted(node.value)
        if dotted in _LOADERS:
            self._note(node, dotted, index)
            return _ANY
        table = self._value(node.value, environment)
        return self._each(_at, table, index)

    def _dotted(self, node: ast.expr) -> str | None:
        """Return the name of what is imported, or of a builtin: `ctypes.cdll.LoadLibrary`."""
        if isinstance(node, ast.Name):
            return self._imported.get(node.id)
        if isinstance(node, ast.Attribute):
            base = self._dotted(node.value)
            return f"{base}.{node.attr}" if base else None
        return None

    # --- Calls

    def _call(self, node: ast.Call, environment: _Environment) -> _Values:
        given = [
            _ANY if isinstance(each, ast.Starred) else self._value(each, environment)
            for each in node.args
        ]
        named = {k.arg: self._value(k.value, environment) for k in node.keywords if k.arg}
        if isinstance(node.func, ast.Attribute) and node.func.attr in _ASKING:
            self._value(node.func.value, environment)
            return _ANY
        function = _shadowed(node.func, environment) or self._dotted(node.func)
        if function is None and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
            function = node.func.id
        if function is not None and self._opens(node, function, given, named):
            return _ANY
        if function is not None and function in _FUNCTIONS:
            return self._each(_FUNCTIONS[function], *given)
        if isinstance(node.func, ast.Name) and node.func.id in self._functions:
            return self._inlined(self._functions[node.func.id], given, named, environment)
        if isinstance(node.func, ast.Attribute):
            return self._of_method(node, node.func, given, environment)
        self._value(node.func, environment)
        return _ANY

    def _opens(
        self,
        node: ast.Call,
        function: str,
        given: Sequence[_Values],
        named: Mapping[str, _Values],
    ) -> bool:
        """Note what a call opens; return whether it is one that does."""
        first = given[0] if given else named.get("name", _ANY)
        if function in _BY_NAME:
            self._note(node, function, first)
        elif function == _FIND:
            self._found(node, first)
        elif function in _NUMPY:
            name = given[0] if given else named.get("libname", _ANY)
            place = given[1] if len(given) > 1 else named.get("loader_path", _ANY)
            self._numpy(node, name, place)
        else:
            return False
        return True

    def _of_method(
        self,
        node: ast.Call,
        function: ast.Attribute,
        given: Sequence[_Values],
        environment: _Environment,
    ) -> _Values:
        if function.attr == "dlopen" and _is_ffi(function.value):
            self._note(node, "ffi.dlopen", given[0] if given else _ANY)
            return _ANY
        owner = self._value(function.value, environment)
        method = _METHODS.get(function.attr)
        if method is None or node.keywords:
            return _ANY
        return self._each(method, owner, *given)

    def _inlined(
        self,
        function: _FunctionNode,
        given: Sequence[_Values],
        named: Mapping[str, _Values],
        environment: _Environment,
    ) -> _Values:
        """Follow a call of a function of the same source."""
        caller = self._scope
        if caller.depth >= _MAX_DEPTH or isinstance(function, ast.AsyncFunctionDef):
            return _ANY
        self._scope = _Scope(on_import=caller.on_import, sure=caller.sure, depth=caller.depth + 1)
        try:
            parameters = self._parameters(function, given, named)
            return self._body(function, self._branch(environment), parameters)
        finally:
            self._scope = caller

    def _parameters(
        self,
        function: _FunctionNode,
        given: Sequence[_Values],
        named: Mapping[str, _Values],
    ) -> _Environment:
        """Bind what is given; a default counts only where a call leaves its parameter out."""
        arguments = function.args
        called = bool(given or named)
        names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
        bound: _Environment = dict.fromkeys([*names, *(a.arg for a in arguments.kwonlyargs)], _ANY)
        bound |= {each.arg: _ANY for each in (arguments.vararg, arguments.kwarg) if each}
        defaults = [
            *zip(reversed(names), reversed(arguments.defaults), strict=False),
            *zip((a.arg for a in arguments.kwonlyargs), arguments.kw_defaults, strict=True),
        ]
        for name, default in defaults:
            if default is not None and (called or self._scope.depth):
                bound[name] = self._value(default, {})
        bound |= dict(zip(names, given, strict=False))
        return bound | {name: values for name, values in named.items() if name in bound}

    def _body(
        self,
        function: _FunctionNode,
        environment: _Environment,
        parameters: _Environment,
    ) -> _Values:
        ends = self._block(function.body, environment | parameters)
        returned = self._scope.returned
        return _either(*returned, *([] if ends else [(None,)])) if returned else _ANY

    # --- What was found

    def _found(self, node: ast.expr, names: _Values) -> None:
        for name in _strings(names):
            self._add(node, _FIND, name, Where.FIND, sure=False)

    def _numpy(self, node: ast.expr, names: _Values, places: _Values) -> None:
        """`load_library(name, folder or file in it)`: a name without suffix gets some."""
        for name, place in product(_strings(names), _strings(places)):
            is_file = place == self._file or place.removeprefix(f"{_SITE}/") in self._files
            folder = posixpath.dirname(place) if is_file else place
            path = posixpath.join(folder, name)
            suffixes = () if posixpath.splitext(name)[1] else (".so", ".cpython-*.so", ".abi3.so")
            self._note(node, "numpy.ctypeslib.load_library", (path,), suffixes)

    def _note(
        self, node: ast.expr, function: str, names: _Values, suffixes: tuple[str, ...] = ()
    ) -> None:
        with self._unsure() if len(names) > 1 else nullcontext():
            for name in filter(None, _strings(names)):
                path, where = self._place(name)
                self._add(node, function, path, where, sure=self._scope.sure, suffixes=suffixes)

    def _place(self, name: str) -> tuple[str, Where]:
        if name.startswith("/\0/"):
            folder = posixpath.dirname(self._file)
            return posixpath.relpath(posixpath.normpath(name), folder), Where.SOURCE
        if name.startswith(_PREFIX):
            return posixpath.normpath(name).removeprefix(f"{_PREFIX}/"), Where.PREFIX
        return name, Where.ABSOLUTE if "/" in name else Where.SEARCH

    def _add(  # noqa: PLR0913 - all that an opening says
        self,
        node: ast.expr,
        function: str,
        name: str,
        where: Where,
        *,
        sure: bool,
        suffixes: tuple[str, ...] = (),
    ) -> None:
        if "\0" in name or "\n" in name:
            return
        new = Opening(
            line=node.lineno,
            function=function,
            name=name,
            where=where,
            sure=sure,
            on_import=self._scope.on_import,
            suffixes=suffixes,
        )
        # The first walk that came here knew most: the import comes before the functions.
        self.found.setdefault((node.lineno, name, where), new)


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield all statements, those of a level before what is in them; expressions hold none."""
    waiting: list[ast.AST] = [tree]
    for node in waiting:  # grows while it is walked
        for field_ in ("body", "handlers", "orelse", "finalbody", "cases"):
            inner = getattr(node, field_, ())
            if isinstance(inner, list):  # a lambda has a body, too
                waiting += inner
        if isinstance(node, ast.stmt):
            yield node


def _merge(environment: _Environment, other: _Environment) -> None:
    for name in [*environment, *other]:
        one, two = environment.get(name, _ANY), other.get(name, _ANY)
        environment[name] = one if one is two else _either(one, two)


def _table(names: Sequence[_Values], things: Sequence[_Values]) -> _Values:
    if all(len(each) == 1 for each in (*names, *things)):
        try:
            return ({name[0]: thing[0] for name, thing in zip(names, things, strict=True)},)
        except TypeError:
            return _ANY
    return _ANY


def _asks(test: ast.expr) -> bool:
    """Whether a test asks for a file."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _ASKING
        for node in ast.walk(test)
    )


def _shadowed(function: ast.expr, environment: _Environment) -> str | None:
    """Return the empty name for a local one that hides what is imported under it."""
    hides = isinstance(function, ast.Name) and function.id in environment
    return "" if hides else None


def _is_ffi(node: ast.expr) -> bool:
    """Whether `node` looks like a `cffi.FFI`: by its name, or made on the spot."""
    if isinstance(node, ast.Call):
        return _is_ffi(node.func)
    name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
    return "ffi" in name.lower()
