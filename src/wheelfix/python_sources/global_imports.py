"""Modules that Python sources import with RTLD_GLOBAL: `sys.setdlopenflags`.

Such a module, and all that it loads, is searched for the symbols of everything that is loaded after
it. The statements at the top of a source are followed in their order, into functions of the same
package; what is not known to run is left out. No code is executed.
"""

import ast
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache

from wheelfix.budget import Budget, BudgetError
from wheelfix.named_tuple import NamedTuple
from wheelfix.python_sources.parsing import (
    STEPS_PER_EXPRESSION,
    Sources,
    import_origin,
    parse_source,
)
from wheelfix.python_sources.values import CONSTANTS, OPERATORS, READS_VARIABLE, RTLD_GLOBAL
from wheelfix.system.lazy_patterns import lazy_pattern

_MAX_DEPTH = 8
"""Functions and modules that are followed into each other."""
_DEFINITION = lazy_pattern(rb"^[ \t]*def[ \t]+(\w+)", re.MULTILINE)
_FLAG, _SETTER = b"RTLD_GLOBAL", b"setdlopenflags"
_UNKNOWN = object()
_KNOWN: dict[str, object] = {**CONSTANTS, "platform.system": "Linux"}
"""What is known of Linux; a call returns the value of its function."""


class GlobalImport(NamedTuple):
    """One import while RTLD_GLOBAL was set."""

    module: str
    """The dotted name of what is imported."""
    source: str
    """The source that imports it, below site-packages."""
    line: int


def opens_for_all(source: bytes) -> bool:
    """Return whether a source may open or import an object for all others."""
    return _FLAG in source or _SETTER in source


def may_set_flags(source: bytes) -> bool:
    """Return whether a source may set the flags for imports, also by their number."""
    return _SETTER in source


def functions_that_set_flags(source: bytes) -> frozenset[bytes]:
    """Return the functions of a source that may set the flags."""
    _, *parts = _DEFINITION.split(source)
    return frozenset(
        name for name, text in zip(parts[::2], parts[1::2], strict=True) if _SETTER in text
    )


def global_imports(modules: Iterable[str], sources: Sources, budget: Budget) -> list[GlobalImport]:
    """Return what the import of each of `modules`, by dotted name, imports with RTLD_GLOBAL."""
    trees = _Trees(sources, budget)
    imports: dict[GlobalImport, None] = {}
    for module in modules:
        process = _Process(sources, trees, budget)
        # What was found until then is true, also if the import fails.
        with suppress(BudgetError, RecursionError, _NotFoundError):
            process.run(module)
        imports.update(dict.fromkeys(process.found))
    return list(imports)


class _Trees:
    """What is known of the sources, for all processes. Mutable: each is read once."""

    def __init__(self, sources: Sources, budget: Budget) -> None:
        self._sources = sources
        self._budget = budget
        self.tree = cache(self._parse)
        self.is_generator = cache(self._yields)
        self.assigned = cache(self._assigned)

    def _parse(self, path: str) -> ast.Module | None:
        source = self._sources.read(path)
        self._budget.spend(STEPS_PER_EXPRESSION * (len(source) >> 4), "a Python source", path)
        return parse_source(source)

    @staticmethod
    def _yields(function: ast.FunctionDef) -> bool:
        return any(isinstance(node, ast.Yield) for node in ast.walk(function))

    @staticmethod
    def _assigned(statement: ast.stmt) -> frozenset[str]:
        """Return the names that a statement and those in it assign."""
        names = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
        return frozenset(name.id for name in names if isinstance(name.ctx, ast.Store))


class _Dotted(str):
    """The dotted name that a name was imported from."""

    __slots__ = ()


class _Module:
    """One module that is being imported."""

    def __init__(self, name: str, path: str) -> None:
        self.path = path
        is_package = path.endswith("/__init__.py")
        self.package = name if is_package else name.rpartition(".")[0]
        self.names: dict[str, object] = {}
        """Values of its names."""
        self.functions: dict[str, ast.FunctionDef] = {}


class _NotFoundError(Exception):
    """An import raised ImportError."""


class _Process:
    """One process that imports a module. Mutable."""

    def __init__(self, sources: Sources, trees: _Trees, budget: Budget) -> None:
        self._sources = sources
        self._trees = trees
        self._budget = budget
        self._modules: dict[str, _Module | None] = {}
        self._flags: object = CONSTANTS["os.RTLD_NOW"]
        """Those for imports."""
        self._depth = 0
        self._bodies: list[tuple[_Module, Sequence[ast.stmt]]] = []
        """Bodies of the `with` statements whose generators run."""
        self._before: set[str] = set()
        """Modules that were imported while RTLD_GLOBAL was not set."""
        self.found: list[GlobalImport] = []

    def run(self, name: str) -> _Module | None:
        """Import a module, once; return None if it has no source or is too deep."""
        if name in self._modules or self._depth == _MAX_DEPTH:
            return self._modules.get(name)
        path = self._sources.paths(name)
        tree = None if path is None else self._trees.tree(path)
        if path is None or tree is None:
            return None
        module = self._modules[name] = _Module(name, path)
        self._depth += 1
        try:
            self._block(tree.body, module, module.names)
        finally:
            self._depth -= 1
        return module

    # --- Statements ---

    def _block(self, body: Iterable[ast.stmt], module: _Module, names: dict[str, object]) -> bool:
        """Run statements; return whether one of them ends the function."""
        return any(self._statement(statement, module, names) for statement in body)

    def _statement(  # noqa: C901, PLR0912 - one case for each kind of statement
        self, node: ast.stmt, module: _Module, names: dict[str, object]
    ) -> bool:
        self._budget.spend(STEPS_PER_EXPRESSION, "a Python source", module.path)
        match node:
            case ast.Import():
                for alias in node.names:
                    self._import(alias.name, module, node.lineno)
                    bound = alias.name if alias.asname else alias.name.partition(".")[0]
                    names[alias.asname or bound] = _Dotted(bound)
            case ast.ImportFrom():
                self._import_from(node, module, names)
            case ast.FunctionDef(name=name):
                module.functions[name] = node
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                names[name] = self._value(value, module, names)
            case ast.Assign(value=value) | ast.Expr(value=ast.Yield(value=ast.expr() as value)):
                self._value(value, module, names)
                if isinstance(node, ast.Expr):
                    self._yield()
            case ast.Expr(value=ast.Yield()):
                self._yield()
            case ast.Expr(value=value):
                self._value(value, module, names)
            case ast.If(test=test, body=body, orelse=orelse):
                holds = self._value(test, module, names)
                if holds is not _UNKNOWN:
                    return self._block(body if holds else orelse, module, names)
                changed = self._trees.assigned(node)
                self._budget.spend(len(changed), "a Python source", module.path)
                names |= dict.fromkeys(changed, _UNKNOWN)
            case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=last):
                try:
                    ends = self._block([*body, *orelse], module, names)
                except _NotFoundError:
                    ends = self._block(handlers[0].body if handlers else (), module, names)
                return self._block(last, module, names) or ends
            case ast.With(items=[item], body=body):
                return self._with(item.context_expr, body, module, names)
            case ast.Return() | ast.Raise():
                return True
            case _:
                pass
        return False

    def _with(
        self,
        manager: ast.expr,
        body: Sequence[ast.stmt],
        module: _Module,
        names: dict[str, object],
    ) -> bool:
        """Run the body of a `with`; a generator with one `yield` runs around it."""
        called = (
            self._function(manager.func, module, names) if isinstance(manager, ast.Call) else None
        )
        if called is None or not self._trees.is_generator(called[1]):
            return self._block(body, module, names)
        self._bodies.append((module, body))
        depth = len(self._bodies)
        self._call(*called)
        del self._bodies[depth - 1 :]
        return False

    def _yield(self) -> None:
        if self._bodies:
            module, body = self._bodies.pop()
            self._block(body, module, module.names)

    # --- Imports ---

    def _import(self, name: str, module: _Module, line: int) -> None:
        if not isinstance(self._flags, int) or not self._flags & RTLD_GLOBAL:
            self._before.add(name)
        elif name not in self._before:
            self.found.append(GlobalImport(name, module.path, line))
            self.run(name)

    def _import_from(self, node: ast.ImportFrom, module: _Module, names: dict[str, object]) -> None:
        origin = import_origin(node, module.package)
        self._import(origin, module, node.lineno)
        for alias in node.names:
            name = f"{origin}.{alias.name}"
            if alias.name != "*":
                self._check(origin, alias.name)
                self._import(name, module, node.lineno)
                names[alias.asname or alias.name] = _Dotted(name)

    def _check(self, origin: str, name: str) -> None:
        """Raise if a package has neither a module of the name nor the word in its source."""
        path = self._sources.paths(origin)
        if path is None or not path.endswith("/__init__.py"):
            return
        full = f"{origin}.{name}"
        is_there = self._sources.is_extension(full) or self._sources.paths(full) is not None
        source = self._sources.read(path)
        self._budget.spend(1 + (len(source) >> 8), "a Python source", path)
        if not is_there and name.encode() not in source:
            raise _NotFoundError

    # --- Expressions ---

    def _value(  # noqa: C901, PLR0911, PLR0912 - one case for each kind of expression
        self, node: ast.expr, module: _Module, names: dict[str, object]
    ) -> object:
        """Return the value of an expression, `_UNKNOWN` if it is not known; run its calls."""
        self._budget.spend(STEPS_PER_EXPRESSION, "a Python source", module.path)
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                bound = names.get(name, module.names.get(name, _UNKNOWN))
                return _KNOWN.get(bound, _UNKNOWN) if isinstance(bound, _Dotted) else bound
            case ast.Attribute():
                return _KNOWN.get(_dotted(node, module, names), _UNKNOWN)
            case ast.Call():
                return self._called(node, module, names)
            case ast.BoolOp(op=op, values=values):
                ends_by = isinstance(op, ast.Or)
                each = [self._value(value, module, names) for value in values]
                known = [value for value in each if value is not _UNKNOWN]
                if any(bool(value) is ends_by for value in known):
                    return ends_by
                return each[-1] if len(known) == len(each) else _UNKNOWN
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                negated = self._value(operand, module, names)
                return _UNKNOWN if negated is _UNKNOWN else not negated
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                inverted = self._value(operand, module, names)
                return int.__invert__(inverted) if isinstance(inverted, int) else _UNKNOWN
            case ast.BinOp(left=left, op=ast.BitOr() | ast.BitXor() | ast.BitAnd() as op):
                sides = [self._value(side, module, names) for side in (left, node.right)]
                flags = [bits for bits in sides if isinstance(bits, int)]
                if isinstance(op, ast.BitOr) and any(bits & RTLD_GLOBAL for bits in flags):
                    return RTLD_GLOBAL  # whatever the others are
                return OPERATORS[type(op)](*flags) if len(flags) == 2 else _UNKNOWN
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as op], comparators=[right]):
                first, other = (self._value(side, module, names) for side in (left, right))
                if first is _UNKNOWN or other is _UNKNOWN:
                    return _UNKNOWN
                return (first == other) is isinstance(op, ast.Eq)
            case _:
                return _UNKNOWN

    def _called(self, node: ast.Call, module: _Module, names: dict[str, object]) -> object:
        dotted = _dotted(node.func, module, names)
        given = [self._value(argument, module, names) for argument in node.args]
        if dotted == "sys.setdlopenflags":
            self._flags = given[0] if given else _UNKNOWN
            return None
        if dotted in READS_VARIABLE:
            return given[1] if len(given) > 1 else None  # a variable that is not set
        if isinstance(node.func, ast.Name) and node.func.id == "hasattr":
            is_sys = _dotted(node.args[0], module, names) == "sys" if node.args else False
            return True if is_sys else _UNKNOWN
        if dotted in (known := {**_KNOWN, "sys.getdlopenflags": self._flags}):
            return known[dotted]
        if dotted == "importlib.import_module" and given and isinstance(given[0], str):
            self._import(given[0], module, node.lineno)
            return _UNKNOWN
        called = self._function(node.func, module, names)
        if called is not None:
            self._call(*called)
        return _UNKNOWN

    def _function(
        self, node: ast.expr, module: _Module, names: dict[str, object]
    ) -> tuple[_Module, ast.FunctionDef] | None:
        """Return the function that a call names, and its module, if it may set the flags."""
        if isinstance(node, ast.Name) and node.id in module.functions:
            return module, module.functions[node.id]
        origin, _, name = _dotted(node, module, names).rpartition(".")
        path = self._sources.paths(origin) if origin else None
        if path is None or not may_set_flags(self._sources.read(path)):
            return None
        there = self.run(origin)
        function = there.functions.get(name) if there else None
        return None if there is None or function is None else (there, function)

    def _call(self, module: _Module, function: ast.FunctionDef) -> None:
        if self._depth < _MAX_DEPTH:
            self._depth += 1
            try:
                self._block(function.body, module, {})
            finally:
                self._depth -= 1


def _dotted(node: ast.expr, module: _Module, names: dict[str, object]) -> str:
    """Return the dotted name that an expression stands for; empty for anything else."""
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value, module, names)
        return f"{base}.{node.attr}" if base else ""
    value = names.get(node.id, module.names.get(node.id)) if isinstance(node, ast.Name) else None
    return value if isinstance(value, _Dotted) else ""
