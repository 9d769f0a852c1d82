"""Bounded evaluation of Python sources, by their syntax trees.

Expressions are evaluated as Python on Linux would evaluate them: `sys.platform` and `os.name` are
known, and so are the usual ways to build a path (`os.path`, `pathlib`, `importlib.resources`,
f-strings, constants). An expression may have several values; what is not known stays unknown.
Nothing of the source is executed, and steps, sizes and alternatives are limited.
"""

import ast
import math
import posixpath
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, product
from typing import Final, NamedTuple, cast

from wheelfix.budget import Budget
from wheelfix.wheel.python_known_functions import (
    ATTRIBUTES,
    COMPARISONS,
    CONSTANTS,
    FUNCTIONS,
    METHODS,
    OPERATORS,
    SITE,
    as_tuple,
    concatenate,
    item,
)
from wheelfix.wheel.python_source import STEPS_PER_EXPRESSION

_MAX_ALTERNATIVES = 8
_MAX_COMBINATIONS = 64
_MAX_TEXT = 4096
"""Characters: PATH_MAX of Linux (limits.h)."""
_MAX_WEIGHT = 8192


class _Unknown:
    """A value that is not known."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()
Values = tuple[object, ...]
"""The values that an expression may have."""
ANY: Final[Values] = (UNKNOWN,)
Environment = dict[str, Values]


def either(*alternatives: Values) -> Values:
    """Return all values of `alternatives`, each once; unknown if they are many or none."""
    merged: list[object] = []
    for value in chain.from_iterable(alternatives):
        if not any(value is other or _same(value, other) for other in merged):
            if len(merged) == _MAX_ALTERNATIVES:
                return ANY
            merged.append(value)
    return tuple(merged) or ANY


def _same(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other


def truth(values: Values) -> bool | None:
    """Return whether a test holds, None if that is not known."""
    truths = {None if value is UNKNOWN else bool(value) for value in values}
    return truths.pop() if len(truths) == 1 else None


def strings(values: Values) -> Iterator[str]:
    """Return the texts among `values`."""
    return (value for value in values if isinstance(value, str))


def items_of(values: Values) -> Values:
    """Return the items of the one tuple that `values` is; unknown for anything else."""
    known = values[0] if len(values) == 1 else UNKNOWN
    return cast("Values", known) if isinstance(known, tuple) else ANY


def merge(environment: Environment, other: Environment) -> None:
    """Let each name of `environment` have the values that it has in either."""
    for name in [*environment, *other]:
        one, two = environment.get(name, ANY), other.get(name, ANY)
        environment[name] = one if one is two else either(one, two)


def _weight(value: object) -> int:
    """Return the size of a value, in pieces of 16 characters; shared parts count each time."""
    weight = 0
    waiting = [value]
    while waiting and weight <= _MAX_WEIGHT:
        part = waiting.pop()
        weight += 1
        if isinstance(part, str):
            weight += len(part) >> 4 if len(part) <= _MAX_TEXT else _MAX_WEIGHT
        elif isinstance(part, tuple):
            waiting += cast("tuple[object, ...]", part)
        elif isinstance(part, dict):
            waiting += cast("dict[object, object]", part).values()
    return weight


class Arguments(NamedTuple):
    """The values of a call's arguments."""

    given: Sequence[Values]
    named: Mapping[str, Values]

    def value(self, position: int, name: str) -> Values:
        """Return the values of the argument at `position`, or else of that called `name`."""
        if position < len(self.given):
            return self.given[position]
        return self.named.get(name, ANY)


class Evaluator:
    """Evaluates the expressions of one source.

    Raises `BudgetError` when its budget is spent. A subclass may add what its source defines, by
    `special_call`, `attribute` and `subscript`.
    """

    def __init__(self, path: str, modules: Mapping[str, str], budget: Budget) -> None:
        """Begin with nothing imported.

        `path` is that of the source, below site-packages; `modules` has the paths of those that it
        may import from there, by their dotted names.
        """
        self.sure = True
        """Whether what is evaluated now runs whenever its function does."""
        self.file = f"{SITE}/{path}"
        self._modules = modules
        self._budget = budget
        self._imported: dict[str, str] = {}
        package = posixpath.dirname(path).replace("/", ".")
        stem = posixpath.basename(path).removesuffix(".py")
        self._module_names: dict[str, object] = {
            "__file__": self.file,
            "__package__": package,
            "__name__": package if stem == "__init__" else f"{package}.{stem}".lstrip("."),
        }

    def spend(self, steps: int) -> None:
        """Count `steps`; a step takes about as long as one expression."""
        self._budget.spend(STEPS_PER_EXPRESSION * steps, "a Python source", self.file)

    def note_import(self, node: ast.Import | ast.ImportFrom) -> None:
        """Remember what the names that a statement imports stand for."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                self._imported[alias.asname or top] = alias.name if alias.asname else top
            return
        parts = posixpath.dirname(self.file.removeprefix(f"{SITE}/")).split("/")
        above = parts[: len(parts) - node.level + 1] if node.level else []
        module = ".".join([*filter(None, above), *([node.module] if node.module else [])])
        for alias in node.names:
            self._imported[alias.asname or alias.name] = f"{module}.{alias.name}"

    def dotted(self, node: ast.expr) -> str | None:
        """Return the name of what is imported: `ctypes.cdll.LoadLibrary`."""
        if isinstance(node, ast.Name):
            return self._imported.get(node.id)
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value)
            return f"{base}.{node.attr}" if base else None
        return None

    def apply(self, function: Callable[..., object], *arguments: Values) -> Values:
        """Apply `function` to every combination of known values.

        What is too large to be a path, or a list of some, counts as unknown.
        """
        if math.prod(map(len, arguments)) > _MAX_COMBINATIONS:
            return ANY
        results: list[Values] = []
        for chosen in product(*arguments):
            results.append(ANY)
            weight = sum(map(_weight, chosen))
            self.spend(weight)
            if weight > _MAX_WEIGHT or any(value is UNKNOWN for value in chosen):
                continue
            try:
                result = function(*chosen)
            except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError):
                continue
            weight = _weight(result)
            self.spend(weight)
            if weight <= _MAX_WEIGHT:
                results[-1] = (result,)
        return either(*results) if results else ANY

    def operate(self, op: ast.operator, left: Values, right: Values) -> Values:
        """Return the values of a binary operation."""
        function = OPERATORS.get(type(op))
        return self.apply(function, left, right) if function else ANY

    def bind(self, target: ast.expr, values: Values, environment: Environment) -> None:
        """Assign `values` to the names in `target`."""
        match target:
            case ast.Name(id=name):
                environment[name] = values
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                for n, element in enumerate(elements):
                    self.bind(element, self.apply(item, values, (n,)), environment)
            case ast.Starred(value=inner):
                self.bind(inner, ANY, environment)
            case _:
                pass

    def branch(self, environment: Environment) -> Environment:
        """Return a copy of `environment`, to go on with by another way."""
        self.spend(len(environment) >> 4)
        return dict(environment)

    @contextmanager
    def unsure(self) -> Generator[None]:
        """Evaluate what runs only sometimes."""
        before, self.sure = self.sure, False
        try:
            yield
        finally:
            self.sure = before

    def evaluate_all(self, nodes: Iterable[ast.AST], environment: Environment) -> None:
        """Evaluate the expressions among `nodes` and below them, for what they call."""
        for node in nodes:
            if isinstance(node, ast.expr):
                self.evaluate(node, environment)
            elif not isinstance(node, ast.stmt):
                self.evaluate_all(ast.iter_child_nodes(node), environment)

    def evaluate(  # noqa: PLR0911 - one case for each kind of expression
        self, node: ast.expr | None, environment: Environment
    ) -> Values:
        """Return the values that an expression may have."""
        self.spend(1)
        match node:
            case None:
                return (None,)
            case ast.Constant(value=value):
                return (_constant(value),)
            case ast.Name(id=name):
                return self._name(name, environment)
            case ast.Attribute():
                return self.attribute(node, environment)
            case ast.Call():
                return self._call(node, environment)
            case ast.Subscript():
                return self.subscript(node, environment)
            case _:
                return self._composed(node, environment)

    def _composed(  # noqa: PLR0911 - one case for each kind of expression
        self, node: ast.expr, environment: Environment
    ) -> Values:
        match node:
            case ast.JoinedStr(values=parts):
                return self.apply(concatenate, *self._each(parts, environment))
            case ast.FormattedValue(value=value, format_spec=None):
                return self.evaluate(value, environment)
            case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
                return self.apply(as_tuple, *self._each(elements, environment))
            case ast.Dict(keys=keys, values=values):
                self.spend(len(keys))
                return _table(self._each(keys, environment), self._each(values, environment))
            case ast.NamedExpr(target=target, value=value):
                found = self.evaluate(value, environment)
                self.bind(target, found, environment)
                return found
            case ast.Lambda():
                return ANY
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                return self._comprehension(node.generators, [node.elt], environment)
            case ast.DictComp(key=key, value=value):
                return self._comprehension(node.generators, [key, value], environment)
            case _:
                return self._operation(node, environment)

    def _operation(self, node: ast.expr, environment: Environment) -> Values:
        match node:
            case ast.BinOp(left=left, op=op, right=right):
                return self.operate(op, *self._each([left, right], environment))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._conditional(test, body, orelse, environment)
            case ast.BoolOp():
                return self._boolean(node, environment)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                holds = truth(self.evaluate(operand, environment))
                return ANY if holds is None else (not holds,)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                sides = self._each([left, right], environment)
                function = COMPARISONS.get(type(op))
                return self.apply(function, *sides) if function else ANY
            case _:
                self.evaluate_all(ast.iter_child_nodes(node), environment)
                return ANY

    def _each(
        self, nodes: Sequence[ast.expr | None] | Sequence[ast.expr], environment: Environment
    ) -> list[Values]:
        return [self.evaluate(node, environment) for node in nodes]

    def _comprehension(
        self,
        generators: Sequence[ast.comprehension],
        elements: Sequence[ast.expr],
        environment: Environment,
    ) -> Values:
        inner = self.branch(environment)
        for generator in generators:
            items = items_of(self.evaluate(generator.iter, inner))
            self.bind(generator.target, either(items), inner)
        with self.unsure():
            self.evaluate_all(elements, inner)
        return ANY

    def _conditional(
        self, test: ast.expr, body: ast.expr, orelse: ast.expr, environment: Environment
    ) -> Values:
        holds = truth(self.evaluate(test, environment))
        if holds is not None:
            return self.evaluate(body if holds else orelse, environment)
        with self.unsure():
            return either(self.evaluate(body, environment), self.evaluate(orelse, environment))

    def _boolean(self, node: ast.BoolOp, environment: Environment) -> Values:
        ends_by = isinstance(node.op, ast.Or)
        undecided: list[Values] = []
        values = ANY
        with self.unsure():
            for operand in node.values:
                values = self.evaluate(operand, environment)
                holds = truth(values)
                if holds is ends_by:
                    break
                if holds is None:
                    undecided.append(values)
        return either(*undecided, values)

    def _name(self, name: str, environment: Environment) -> Values:
        if name in environment:
            return environment[name]
        if name in self._module_names:
            return (self._module_names[name],)
        dotted = self._imported.get(name)
        return (CONSTANTS[dotted],) if dotted and dotted in CONSTANTS else ANY

    def attribute(self, node: ast.Attribute, environment: Environment) -> Values:
        """Return the values of an attribute."""
        dotted = self.dotted(node)
        if dotted is None:
            function = ATTRIBUTES.get(node.attr)
            values = self.evaluate(node.value, environment)
            return self.apply(function, values) if function else ANY
        if dotted in CONSTANTS:
            return (CONSTANTS[dotted],)
        path = self._modules.get(dotted.rpartition(".")[0])
        if path is not None and node.attr == "__file__":
            return (f"{SITE}/{path}",)
        if path is not None and node.attr == "__path__":
            return ((posixpath.dirname(f"{SITE}/{path}"),),)
        return ANY

    def subscript(self, node: ast.Subscript, environment: Environment) -> Values:
        """Return the values of an item."""
        index = self.evaluate(node.slice, environment)
        return self.apply(item, self.evaluate(node.value, environment), index)

    def _call(self, node: ast.Call, environment: Environment) -> Values:
        given = [
            ANY if isinstance(argument, ast.Starred) else self.evaluate(argument, environment)
            for argument in node.args
        ]
        named = {k.arg: self.evaluate(k.value, environment) for k in node.keywords if k.arg}
        function = self.dotted(node.func)
        if function is None and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS:
            function = node.func.id
        special = self.special_call(node, function, Arguments(given, named), environment)
        if special is not None:
            return special
        if function is not None and function in FUNCTIONS:
            return self.apply(FUNCTIONS[function], *given)
        if not isinstance(node.func, ast.Attribute):
            self.evaluate(node.func, environment)
            return ANY
        owner = self.evaluate(node.func.value, environment)
        method = METHODS.get(node.func.attr)
        return self.apply(method, owner, *given) if method and not node.keywords else ANY

    def special_call(
        self, node: ast.Call, function: str | None, arguments: Arguments, environment: Environment
    ) -> Values | None:
        """Return the values of a call that a subclass knows; None for any other call."""
        del self, node, function, arguments, environment
        return None


def _constant(value: object) -> object:
    if isinstance(value, bytes):
        return value[: _MAX_TEXT + 1].decode(errors="replace")
    return value


def _table(keys: Sequence[Values], values: Sequence[Values]) -> Values:
    if all(len(alternatives) == 1 for alternatives in (*keys, *values)):
        if not all(_is_key(key[0]) for key in keys):
            return ANY
        try:
            return ({key[0]: value[0] for key, value in zip(keys, values, strict=True)},)
        except TypeError:
            return ANY
    return ANY


def _is_key(value: object) -> bool:
    """Return whether a source cannot choose many such values with the same hash."""
    if isinstance(value, tuple):
        return all(isinstance(part, str) for part in cast("tuple[object, ...]", value))
    if isinstance(value, int):
        return 0 <= value < 1 << 32
    return not isinstance(value, float | complex)
