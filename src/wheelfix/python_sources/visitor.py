"""A visitor of Python sources: which libraries they open, and from where.

The statements are visited in the order in which Python on Linux runs them. Paths are followed where
they are made of `__file__`, `os.path`, `pathlib`, constants, `sys.platform`, and functions of the
same source; an expression may have several values, and any other is unknown. No code is executed.
"""

import ast
import builtins
import fnmatch
import math
import operator
import posixpath
import sys
from collections import ChainMap
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain, product
from pathlib import PurePosixPath
from typing import cast

from wheelfix.budget import Budget
from wheelfix.grouping import flatten
from wheelfix.python_sources import opening_calls
from wheelfix.python_sources.parsing import (
    STEPS_PER_EXPRESSION,
    Sources,
    always_raises,
    blocks_in,
    import_origin,
    parse_source,
)
from wheelfix.python_sources.source_facts import (
    EnvironAssignment,
    Imported,
    LookupPlace,
    PythonOpening,
)
from wheelfix.python_sources.values import (
    ANY,
    BASE,
    CONSTANTS,
    FUNCTIONS,
    OPERATORS,
    PREFIX,
    READS_VARIABLE,
    RTLD_GLOBAL,
    SITE,
    UNKNOWN,
    Values,
    attribute,
    call_method,
    concatenate,
    either,
    is_unknown,
    items,
    of_python,
    size,
    some_of,
    text,
    truth,
    variable,
)

_MAX_CALL_DEPTH = 3
"""Calls of functions of the same source that are followed into each other."""
_MAX_COMBINATIONS = 64
_ASKS_FOR_FILE = frozenset({"os.path.exists", "os.path.isfile"})
_IMPORTS = frozenset({"importlib.import_module", "__import__", "runpy.run_module"})
_LOADER = "ctypes.LibraryLoader"
_ASK_FOR_CLASS = frozenset({"isinstance", "issubclass"})
_LONGEST = 500
"""Characters of a module's name: each of its parts is a module, whose name is nearly as long."""
_OF_LINUX = frozenset(
    {
        *("os", "os.name", "sys", "sys.platform", "sys.platform.startswith"),
        *("platform", "platform.system", "typing", "typing.TYPE_CHECKING"),
    }
)
"""All that a test may ask which has the same answer in each Python on Linux."""
_MAX_SIZE = 1024
_MAX_NAMES = 100
"""In a folder that a source lists."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
_Exit = type[ast.stmt] | None
"""How a block is surely left: return, raise, break, continue."""
_Names = ChainMap[str, Values]
_KNOWN_GUARDS = sys.stdlib_module_names | {"open"}
"""Whose context managers catch no error of an import, but for `contextlib.suppress`."""


class _Module:
    """What is known of a module while it is visited. Mutable."""

    def __init__(self, path: str) -> None:
        self.file = f"{SITE}/{path}"
        self.package = posixpath.dirname(path).replace("/", ".")
        self.globals: _Names = ChainMap()
        self.imported = {"os": "os", "sys": "sys"}  # also in files that are run by others (cv2)
        self.rebound: set[object] = set()
        """Names that are imported from several places; `*` if any may be."""
        self.functions: dict[str, Function] = {}
        self.ambiguous: set[str] = set()
        """Functions that are defined more than once: which one is called is not known."""
        self.made: dict[str, ast.Call] = {}
        """What names stand for that a call has made: an object of a class, a `partial`."""


class Visitor:
    """One visit of one source."""

    def __init__(
        self, path: str, modules: Mapping[str, str], budget: Budget, sources: Sources | None = None
    ) -> None:
        """Begin with nothing imported.

        `path` is that of the source, below site-packages; `modules` has the paths of those that it
        may import from there, by their dotted names. With `sources`, those of the environment,
        functions of other modules of the package are followed, files are there or not, and no
        environment variable is set.
        """
        self.openings: dict[tuple[int, str, LookupPlace], PythonOpening] = {}
        self.assignments: dict[int, EnvironAssignment] = {}
        """By line, those of `os.environ` that the import of the module runs."""
        self.imports: list[Imported] = []
        """What the import of the module surely begins to import."""
        self.results: dict[str, list[object]] = {"": []}
        """What each function opens or returns; an empty name stands for the module itself."""
        self.calls: dict[str, set[str]] = {"": set()}
        """The functions of the same source that each one calls."""
        self._own = self._module = _Module(path)
        """The visited module, and that of the function which is visited now."""
        self._others: dict[str, _Module | None] = {}
        self._modules = modules
        self._sources = sources
        self._constants = {**CONSTANTS, **of_python(sources.suffix if sources else "")}
        self._budget = budget
        self._known_functions: Mapping[str, Callable[..., object]] = {
            **FUNCTIONS,
            **dict.fromkeys(_ASKS_FOR_FILE, self._is_file),
            "glob.glob": self._glob,
            "os.listdir": self._names_in,
            "os.scandir": self._glob_in,
            "os.walk": self._walk,
            "importlib.util.find_spec": self._find_spec,
            "sysconfig.get_config_var": self._config_variable,
            "os.chdir": self._change_folder,
            "contextlib.chdir": self._change_folder,
            "platform.machine": lambda: self._constants["os.uname.machine"],
        }
        self._folder = ""
        """The current directory, if the source has set it."""
        self._depth = 0
        self._line = 0
        """Of the module's own statement that is visited now."""
        self._on_import = True
        self._sure = True
        """Whether what is visited now runs whenever its function does, and no error is caught."""
        self._runs = True
        """The same, but an error may be caught."""
        self._guarded = False
        """Whether a context manager that is not known may catch the error of an import."""
        self._may_leave = False
        """Whether a `break` or `return` may have left the loop that is visited now."""
        self.opened_unknown: bool = False
        """Whether any function opened a library whose name could not be determined."""
        self.chose_unknown: bool = False
        """Whether the import surely opened one of several, and which is not known."""
        self._left: list[tuple[ast.expr, Sequence[ast.stmt]]] = []
        """Branches that are not taken, each after its test."""
        self.may_set_global: bool = False
        """Whether any statement may set RTLD_GLOBAL for imports (`sys.setdlopenflags`)."""
        self._opened_unknown: bool = False
        """Whether the function opened a library whose name could not be determined."""
        self._results: list[object] = self.results[""]
        self._calls: set[str] = self.calls[""]

    def visit_module(self, tree: ast.Module) -> Sequence[Function]:
        """Visit the module as its import runs it; return its functions.

        Raises `BudgetError` when the budget is spent.
        """
        functions = self._visit(tree)
        self._on_import = False
        return functions

    def _visit(self, tree: ast.Module) -> Sequence[Function]:
        functions: list[Function] = []
        module = self._module
        nodes: list[ast.AST] = [tree]
        for node in nodes:  # grows during the loop; outer statements first
            nodes += blocks_in(node)
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._import(node)
            elif isinstance(node, Function):
                functions.append(node)
                module.ambiguous.update({node.name} & module.functions.keys())
                module.functions.setdefault(node.name, node)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
                self._name_lambda(node.targets[0], node.value)
            elif isinstance(node, ast.ClassDef):
                openers = filter(opening_calls.CTYPES.fullmatch, map(self._dotted_name, node.bases))
                module.imported |= dict.fromkeys([node.name], next(openers, ""))
                for method in (child for child in node.body if isinstance(child, Function)):
                    is_init = method.name == "__init__"
                    self.opened_unknown |= is_init and bool(module.imported[node.name])
                    name = node.name if is_init else f"{node.name}.{method.name}"
                    module.functions[name] = method
        stem = posixpath.basename(module.file).removesuffix(".py")
        name = module.package if stem == "__init__" else f"{module.package}.{stem}".lstrip(".")
        module.globals |= {
            "__file__": (module.file,),
            "__path__": ((posixpath.dirname(module.file),),),
            "__spec__": self._apply(self._module_at, (module.file,)),
            "__package__": (module.package,),
            "__name__": (name,),
        }
        if module.file.endswith(".pth"):
            module.globals["sitedir"] = (posixpath.dirname(module.file),)
        self._block(tree.body, module.globals)
        return functions

    def visit_functions(self, functions: Iterable[Function]) -> None:
        """Visit functions of the visited module, each by itself.

        Raises `BudgetError` when the budget is spent.
        """
        for function in functions:
            self._sure, self._opened_unknown = True, False
            self._results, self._calls = [], set[str]()
            self.results[function.name], self.calls[function.name] = self._results, self._calls
            self._block(function.body, self._own.globals.new_child(_parameters(function)))

    def never_taken(self, tree: ast.Module) -> Iterator[int]:
        """Yield the lines of branches that no Python on Linux takes, once `tree` is visited."""
        of_linux = [(test, body) for test, body in self._left if self._is_of_linux(test)]
        if not of_linux:
            return
        bound = self._own.rebound.union(*map(_bound_by, ast.walk(tree)))
        for test, body in of_linux:
            names = {"*", *(node.id for node in ast.walk(test) if isinstance(node, ast.Name))}
            if bound.isdisjoint(names):
                yield from range(body[0].lineno, (body[-1].end_lineno or 0) + 1)

    def _is_of_linux(self, test: ast.expr) -> bool:
        asked = (n for n in ast.walk(test) if isinstance(n, ast.Name | ast.Attribute))
        return _OF_LINUX.issuperset(map(self._dotted_name, asked))

    def _name_lambda(self, target: ast.expr, value: ast.Lambda) -> None:
        if isinstance(target, ast.Name):
            code: list[ast.stmt] = [ast.Return(value.body)]
            function = ast.FunctionDef(target.id, value.args, code, [], lineno=value.lineno)
            self._module.functions[target.id] = function

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        module = self._module
        origin = import_origin(node, module.package) if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            if alias.name == "*" and origin == "ctypes":
                module.imported |= {name: f"ctypes.{name}" for name in opening_calls.OF_CTYPES}
            else:
                top = alias.name if origin or alias.asname else alias.name.partition(".")[0]
                name, dotted = alias.asname or top, f"{origin}.{top}".lstrip(".")
                if name == "*" or module.imported.get(name, dotted) != dotted:
                    module.rebound.add(name)
                module.imported[name] = dotted

    # --- Statements -------------------------------------------------------------------------------

    def _block(self, body: Iterable[ast.stmt], names: _Names) -> _Exit:
        """Visit statements; return the kind of the one that surely leaves the block, if any."""
        before = self._sure, self._runs
        end: _Exit = None
        for statement in body:
            if end := self._statement(statement, names):
                break
            self._runs = self._runs and (self._sure or not self._may_raise(statement))
        self._sure, self._runs = before
        return end

    def _may_raise(self, statement: ast.stmt) -> bool:
        """Return whether a statement of a `try` raises, or calls a function of the source."""
        is_definition = isinstance(statement, Function | ast.ClassDef)
        functions = self._module.functions
        return any(
            isinstance(node, ast.Raise | ast.Assert)
            or (isinstance(node, ast.Name) and node.id in functions)
            for node in (() if is_definition else ast.walk(statement))
        )

    def _statement(  # noqa: C901, PLR0911, PLR0912 - one case for each kind of statement
        self, node: ast.stmt, names: _Names
    ) -> _Exit:
        """Visit one statement; return by which kind what follows it is surely not reached."""
        if not self._depth:
            self._line = node.lineno
        match node:
            case ast.Import() | ast.ImportFrom():
                self._note_imports(_imported_names(node, self._module.package))
                self._runs = self._sure
            case ast.Return(value=value):
                self._results += self._evaluate(value, names) if value else (None,)
                return ast.Return
            case ast.Raise() | ast.Break() | ast.Continue():
                return type(node)
            case ast.If():
                return self._if(node, names)
            case ast.Try() | ast.TryStar():
                return self._try(node, names)
            case ast.For() | ast.AsyncFor():
                return self._for(node, names)
            case ast.While(test=test, body=body):
                holds = truth(self._evaluate(test, names))
                ends = self._block(body, names) if holds else None
                if ends not in {None, ast.Continue}:
                    return None if ends is ast.Break else ends
                self._branches([[], body], names)
            case ast.Match(subject=subject, cases=cases):
                return self._block(_as_if(subject, cases), names)
            case ast.With() | ast.AsyncWith():
                return self._with(node, names)
            case ast.ClassDef(body=body):
                self._block(body, names.new_child())
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                pass
            case ast.Assign(targets=targets, value=value):
                values = self._evaluate(value, names)
                dotted = self._dotted_name(value)
                for target in targets:
                    self._bind(target, values, names)
                    if isinstance(target, ast.Name) and isinstance(value, ast.Call):
                        self._module.made[target.id] = value
                    if dotted and isinstance(target, ast.Name) and is_unknown(values[0]):
                        self._module.imported[target.id] = dotted
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._bind(target, self._evaluate(value, names), names)
            case ast.AugAssign(target=target, op=op, value=value):
                sum_of = self._evaluate(ast.BinOp(target, op, value), names)
                self._bind(target, sum_of, names)
            case _:
                self._evaluate_children(node, names)
        return None

    def _for(self, node: ast.For | ast.AsyncFor, names: _Names) -> _Exit:
        """Visit a loop: for each element, where these are known, until one surely leaves it."""
        values = self._evaluate(node.iter, names)
        is_known = len(values) == 1 and isinstance(values[0], tuple)
        elements = cast("Values", values[0]) if is_known else items(values)
        outer, self._may_leave = self._may_leave, False
        ends: _Exit = None
        if is_known or (len(elements) == 1 and elements != ANY):
            for element in elements:
                self._bind(node.target, (element,), names)
                with self._maybe() if self._may_leave else nullcontext():
                    ends = self._block(node.body, names)
                ends = ends if is_known else None  # it may not run at all
                if ends not in {None, ast.Continue}:
                    break
        else:
            self._bind(node.target, elements, names)
            self._branches([[], node.body], names)
        with self._maybe() if self._may_leave else nullcontext():
            ends = self._block(node.orelse, names) if ends in {None, ast.Continue} else ends
        self._may_leave |= outer
        return None if ends is ast.Break else ends

    def _if(self, node: ast.If, names: _Names) -> _Exit:
        holds = truth(self._evaluate(node.test, names))
        if holds is not None:
            left = node.orelse if holds else node.body
            self._left += [(node.test, left)] if left else ()
            return self._block(node.body if holds else node.orelse, names)
        bodies = [node.body, node.orelse] if node.orelse else [[], node.body]
        ends = self._branches(bodies, names)
        if any(ends):  # what follows a guard is reached only sometimes
            self._sure = self._runs = False
        return self._common(ends)

    def _common(self, ends: Sequence[_Exit]) -> _Exit:
        """Return how all of some ways leave a block; note that a loop may be left by some."""
        self._may_leave |= not {ast.Break, ast.Return}.isdisjoint(ends) and len({*ends}) > 1
        return ends[0] if all(ends) else None

    def _branches(
        self, bodies: Sequence[Sequence[ast.stmt]], names: _Names, tried: Sequence[ast.stmt] = ()
    ) -> list[_Exit]:
        """Visit what is run only sometimes; a name then has the values of all ways that go on.

        Return for each body how it surely ends the block. One that is `tried` begins surely.
        """
        ways = [names.new_child() for _ in bodies]  # a copy of many names for each branch is slow
        ends: list[_Exit] = []
        for body, way in zip(bodies, ways, strict=True):
            with self._maybe(runs=self._runs and body is tried):
                ends.append(self._block(body, way))
        on = [
            not end or isinstance(body[-1], ast.Break)
            for body, end in zip(bodies, ends, strict=True)
        ]
        ways = [way for way, goes_on in zip(ways, on, strict=True) if goes_on]
        for name in set(flatten(way.maps[0] for way in ways)):
            values = [way.get(name, ANY) for way in ways]
            same = all(value is values[0] for value in values)
            names[name] = values[0] if same else either(*values)
        return ends

    def _try(self, node: ast.Try | ast.TryStar, names: _Names) -> _Exit:
        body = [*node.body, *node.orelse]
        handlers = [handler.body for handler in node.handlers]
        match node.body, handlers:  # `try: __SETUP__`, `except NameError: __SETUP__ = False`
            case [ast.Expr(value=ast.Name(id=name))], [handler] if not self._is_defined(
                name, names
            ):
                return self._block([*handler, *node.finalbody], names)
            case _:
                pass
        if all(map(always_raises, handlers)):
            ends = self._block(body, names)
            self._branches([*handlers, []], names)
        else:
            ends = self._common(self._branches([body, *handlers], names, body))
        return self._block(node.finalbody, names) or ends

    def _is_defined(self, name: str, names: _Names) -> bool:
        module = self._module
        return name in names or name in module.imported | module.functions or name in dir(builtins)

    def _with(self, node: ast.With | ast.AsyncWith, names: _Names) -> _Exit:
        suppresses, outer = False, self._guarded
        for item in node.items:
            values = self._evaluate(item.context_expr, names)
            if item.optional_vars is not None:
                self._bind(item.optional_vars, values, names)
            call = item.context_expr
            name = self._dotted_name(call.func if isinstance(call, ast.Call) else call)
            suppresses |= isinstance(call, ast.Call) and "suppress" in name
            self._guarded |= name.partition(".")[0] not in _KNOWN_GUARDS
        try:
            if suppresses:
                self._common(self._branches([node.body, []], names, node.body))
                return None
            return self._block(node.body, names)
        finally:
            self._guarded = outer

    def _bind(self, target: ast.expr, values: Values, names: _Names) -> None:
        match target:
            case ast.Name(id=name):
                names[name] = values
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                for n, element in enumerate(elements):
                    self._bind(element, self._apply(operator.getitem, values, (n,)), names)
            case ast.Subscript(value=value, slice=ast.Constant(value=str(name))):
                if self._dotted_name(value) == "os.environ" and self._on_import:
                    directories = dict.fromkeys(chain.from_iterable(map(_directories, values)))
                    assigned = EnvironAssignment(target.lineno, name, tuple(directories))
                    self.assignments[target.lineno] = assigned
            case _:
                pass

    @contextmanager
    def _maybe(self, *, runs: bool = False) -> Generator[None]:
        before = self._sure, self._runs
        self._sure, self._runs = False, runs
        try:
            yield
        finally:
            self._sure, self._runs = before

    # --- Expressions ------------------------------------------------------------------------------

    def _evaluate(  # noqa: C901, PLR0911, PLR0912 - one case for each kind of expression
        self, node: ast.expr, names: _Names
    ) -> Values:
        """Return the values that an expression may have."""
        self.spend(1)
        match node:
            case ast.Constant(value=value):
                return (value.decode(errors="replace") if isinstance(value, bytes) else value,)
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.Name() | ast.Attribute() if dotted := self._dotted_name(node):
                return self._imported_value(dotted)
            case ast.Attribute(value=value, attr=attr):
                return self._apply(attribute, self._evaluate(value, names), (attr,))
            case ast.Call():
                return self._call(node, names)
            case ast.Subscript():
                return self._subscript(node, names)
            case ast.JoinedStr(values=parts):
                return self._apply(concatenate, *self._each(parts, names))
            case ast.FormattedValue(value=value, format_spec=None):
                return self._evaluate(value, names)
            case ast.Tuple(elts=elements) | ast.List(elts=elements) if any(
                isinstance(element, ast.Starred) for element in elements
            ):
                return self._joined(elements, names)
            case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
                each = self._each(elements, names)
                if all(len(values) == 1 for values in each):
                    return _in_order(tuple(values[0] for values in each), node)
                return some_of(either(*each))
            case ast.Dict(keys=keys, values=values):
                self.opened_unknown |= self._names_opener(values)
                pairs = zip(keys, values, strict=True)
                table = [self._each([key, value], names) for key, value in pairs if key]
                return self._apply(lambda: {key[0]: value[0] for key, value in table})
            case (
                ast.BinOp(left=left, op=op, right=right)
                | ast.Compare(left=left, ops=[op], comparators=[right])
            ) if type(op) in OPERATORS:
                return self._apply(OPERATORS[type(op)], *self._each([left, right], names))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                holds = truth(self._evaluate(test, names))
                if holds is not None:
                    return self._evaluate(body if holds else orelse, names)
                with self._maybe():
                    return either(*self._each([body, orelse], names))
            case ast.BoolOp():
                return self._boolean(node, names)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                holds = truth(self._evaluate(operand, names))
                return ANY if holds is None else (not holds,)
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return self._apply(int.__invert__, self._evaluate(operand, names))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                return self._comprehension(node, names.new_child())
            case ast.NamedExpr(target=target, value=value):
                self._bind(target, self._evaluate(value, names), names)
                return names[target.id]
            case ast.Yield(value=ast.expr() as value):
                self._results += self._evaluate(value, names)
                return ANY
            case ast.Slice(lower=lower, upper=upper, step=None):
                ends = [self._evaluate(end, names) if end else (None,) for end in (lower, upper)]
                return self._apply(slice, *ends)
            case ast.Lambda():
                return ANY
            case _:
                self._evaluate_children(node, names)
                return ANY

    def _joined(self, elements: Iterable[ast.expr], names: _Names) -> Values:
        """Return the lists that `[*a, b]` may be."""
        joined: Values = ((),)
        for element in elements:
            if isinstance(element, ast.Starred):
                parts = self._evaluate(element.value, names)
            else:
                parts = tuple((value,) for value in self._evaluate(element, names))
            joined = self._apply(operator.add, joined, parts)
        return joined

    def _arguments(self, nodes: Sequence[ast.expr], names: _Names) -> Sequence[Values]:
        """Return the values of each argument; of a list in their place, if it is known."""
        if any(isinstance(node, ast.Starred) for node in nodes):
            joined = self._joined(nodes, names)
            if len(joined) == 1 and isinstance(joined[0], tuple):
                return [(value,) for value in cast("Values", joined[0])]
        return self._each(nodes, names)

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, names: _Names
    ) -> Values:
        known = self._elements(node, names)
        if known is not None:
            return _in_order(known, node)
        for generator in node.generators:
            self._bind(generator.target, items(self._evaluate(generator.iter, names)), names)
        with self._maybe():
            return some_of(self._evaluate(node.elt, names))

    def _elements(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, names: _Names
    ) -> Values | None:
        """Return the elements of a comprehension, None if they are not known."""
        generator, *others = node.generators
        known, *alternatives = self._evaluate(generator.iter, names)
        if (
            others
            or alternatives
            or not isinstance(known, tuple)
            or is_unknown(cast("Values", known))
        ):
            return None
        elements: list[object] = []
        for element in cast("Values", known):
            self._bind(generator.target, (element,), names)
            tests = [truth(self._evaluate(test, names)) for test in generator.ifs]
            if False not in tests:
                values = self._evaluate(node.elt, names)
                if None in tests or len(values) > 1:
                    return None
                elements += values
        return tuple(elements)

    def _subscript(self, node: ast.Subscript, names: _Names) -> Values:
        match self._dotted_name(node.value):
            case "os.environ":
                return self._apply(variable, self._evaluate(node.slice, names), (node.lineno,))
            case "sys.modules":
                return self._apply(self._find_spec, self._evaluate(node.slice, names))
            case "ctypes.cdll" | "ctypes.pydll":
                return self._note(node, "ctypes.CDLL", self._evaluate(node.slice, names))
            case _:
                return self._apply(operator.getitem, *self._each([node.value, node.slice], names))

    def _evaluate_children(self, node: ast.AST, names: _Names) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._evaluate(child, names)

    def _each(self, nodes: Iterable[ast.expr], names: _Names) -> list[Values]:
        return [self._evaluate(node, names) for node in nodes]

    def spend(self, steps: int) -> None:
        """Take the steps of expressions. Raises `BudgetError` if they are not left."""
        self._budget.spend(STEPS_PER_EXPRESSION * steps, "a Python source", self._own.file)

    def _apply(self, function: Callable[..., object], *arguments: Values) -> Values:
        """Apply `function` to every combination of values; what is too large is unknown."""
        if math.prod(map(len, arguments)) > _MAX_COMBINATIONS:
            return ANY
        results: list[object] = []
        for chosen in product(*arguments):
            try:
                result = function(*chosen)
            except (TypeError, ValueError, LookupError, AttributeError):
                result = UNKNOWN
            if any(UNKNOWN in text(value) for value in chosen) and not is_unknown(result):
                result = UNKNOWN
            steps = size(result)
            self.spend(steps)
            results.append(result if steps <= _MAX_SIZE else UNKNOWN)
        return either(results)

    def _boolean(self, node: ast.BoolOp, names: _Names) -> Values:
        ends_by = isinstance(node.op, ast.Or)
        undecided: list[Values] = []
        values = ANY
        with self._maybe():
            for operand in node.values:
                values = self._evaluate(operand, names)
                holds = truth(values)
                if holds is ends_by:
                    break
                if holds is None:
                    undecided.append(values)
        return either(*undecided, values)

    def _dotted_name(self, node: ast.expr) -> str:
        """Return the name of what is imported: `ctypes.cdll.LoadLibrary`; else nothing."""
        match node:
            case ast.Name(id=name):
                return self._module.imported.get(name, "")
            case (
                ast.Attribute(value=value, attr=name)
                | ast.Call(
                    func=ast.Name(id="getattr"), args=[value, ast.Constant(value=str(name)), *_]
                )
            ) if base := self._dotted_name(value):
                return f"{base}.{name}"
            case ast.Call(func=ast.Name(id="__import__"), args=[ast.Constant(value="ctypes")]):
                return "ctypes"
            case ast.Call(func=maker, args=[of]) if self._dotted_name(maker) == _LOADER:
                return self._dotted_name(of)
            case _:
                return ""

    def _imported_value(self, dotted: str) -> Values:
        module, _, name = dotted.rpartition(".")
        origin = self._origin(module) if name in {"__file__", "__path__"} else ""
        if origin:
            return (origin if name == "__file__" else (posixpath.dirname(origin),),)
        return (self._constants.get(dotted, UNKNOWN),)

    def _origin(self, module: str) -> str:
        """Return the place of the source of a module; empty if it is not known."""
        path = self._modules.get(module) or (self._sources and self._sources.paths(module))
        return f"{SITE}/{path}" if path else ""

    def _find_spec(self, module: object, *_: object) -> object:
        origin = self._origin(text(module))
        if not origin:
            raise TypeError
        return self._module_at(origin)

    def _module_at(self, origin: object) -> object:
        folders = (posixpath.dirname(text(origin)),)
        file = dict.fromkeys(("origin", "__file__"), origin)
        return {**file, **dict.fromkeys(("submodule_search_locations", "__path__"), folders)}

    # --- Calls ------------------------------------------------------------------------------------

    def _call(  # noqa: C901, PLR0911, PLR0912 - one case for each kind of function
        self, node: ast.Call, names: _Names
    ) -> Values:
        if plain := self._without_tools(node):
            return self._evaluate(plain, names)
        function = node.func
        arguments = self._arguments(node.args, names)
        named = {k.arg: self._evaluate(k.value, names) for k in node.keywords if k.arg}
        called = self._called(function)
        if called in self._module.functions:
            self._calls.add(called)
            return self._inline(self._module.functions[called], arguments, named, names)
        dotted = self._dotted_name(function)
        module, _, name = dotted.rpartition(".")
        if other := self._other(module):
            return self._call_there(other, name, arguments, named)
        if isinstance(function, ast.Name) and not dotted:
            dotted = function.id  # a built-in function
        if dotted in self._known_functions:
            return self._apply(self._known_functions[dotted], *arguments)
        if dotted in {"exec", "eval"} and arguments:
            return self._execute(node, arguments[0], names)
        if dotted in _IMPORTS and arguments:
            return self._import_module(*arguments[:2])
        if dotted in READS_VARIABLE and arguments:
            return self._variable(arguments, node.lineno)
        if opening_calls.CTYPES.fullmatch(dotted) or dotted == opening_calls.FIND_LIBRARY:
            modes = arguments[1] if len(arguments) > 1 else named.get("mode", ())
            return self._note(
                node,
                dotted,
                arguments[0] if arguments else named.get("name", ANY),
                for_all=any(isinstance(m, int) and m > 0 and bool(m & RTLD_GLOBAL) for m in modes),
            )
        if dotted == "sys.setdlopenflags":
            flags = arguments[0] if arguments else ANY
            self.may_set_global |= any(not isinstance(f, int) or f & RTLD_GLOBAL for f in flags)
        if opening_calls.NUMPY.fullmatch(dotted):
            return self._note_numpy(node, arguments)
        if opening_calls.OF_MODULES.fullmatch(dotted):
            paths = arguments[1] if len(arguments) > 1 else named.get("location", ANY)
            modules = (p for p in paths if is_unknown(p) or text(p).endswith(".so"))
            return self._note(node, dotted, tuple(modules))
        is_asked = dotted in _ASK_FOR_CLASS
        self.opened_unknown |= dotted in opening_calls.UNKNOWN or (
            not is_asked and self._names_opener(node.args)
        )
        if not isinstance(function, ast.Attribute):
            return (
                ANY if isinstance(function, ast.Name) else self._evaluate(function, names) and ANY
            )
        if function.attr == opening_calls.CFFI and arguments and _is_ffi(function.value):
            return self._note(node, "ffi.dlopen", arguments[0])
        if self._sources and (asks := self._of_paths.get(function.attr)):
            return self._apply(asks, self._evaluate(function.value, names), *arguments)
        if function.attr == "enter_context" and arguments:
            return arguments[0]
        if function.attr in {"append", "extend", "insert"} and arguments:
            return self._grow(function, arguments, names)
        return self._apply(
            call_method, (function.attr,), self._evaluate(function.value, names), *arguments
        )

    def _names_opener(self, nodes: Iterable[ast.expr]) -> bool:
        return any(map(opening_calls.CTYPES.fullmatch, map(self._dotted_name, nodes)))

    def _without_tools(self, node: ast.Call) -> ast.expr | None:
        """Return what a call by way of `functools.partial` or `map` amounts to; None for others."""
        function = node.func
        made = function
        if isinstance(function, ast.Name):
            made = self._module.made.get(function.id, function)
        match made:
            case ast.Call(func=maker, args=[first, *given]) if (
                self._dotted_name(maker) == "functools.partial"
                and getattr(first, "id", "") != getattr(function, "id", None)  # not of itself
            ):
                keywords = [*made.keywords, *node.keywords]
                return ast.copy_location(ast.Call(first, [*given, *node.args], keywords), node)
            case _ if self._dotted_name(made) == "functools.reduce" and len(node.args) > 1:
                joins, parts, *start = node.args
                if self._dotted_name(joins) != "os.path.join":
                    return None
                joined = ast.Call(joins, [*start, ast.Starred(parts)], [])
                return ast.copy_location(joined, node)
            case ast.Name(id="map") | ast.Attribute(attr="map"):
                pass
            case _:
                return None
        match node.args:
            case [ast.Name() | ast.Attribute() as mapped, iterable]:
                element = ast.Name("\0element")
                call = ast.copy_location(ast.Call(mapped, [element], []), node)
                return ast.ListComp(call, [ast.comprehension(element, iterable, [], 0)])
            case _:
                return None

    def _called(self, function: ast.expr) -> str:
        """Return the name of a function of the same source: `load`, `Loader.load`; or nothing."""
        if not isinstance(function, ast.Attribute):
            return function.id if isinstance(function, ast.Name) else ""
        owner = function.value
        made = self._module.made.get(owner.id) if isinstance(owner, ast.Name) else owner
        owner = made.func if isinstance(made, ast.Call) else owner
        return f"{owner.id}.{function.attr}" if isinstance(owner, ast.Name) else ""

    def _execute(self, node: ast.Call, codes: Values, names: _Names) -> Values:
        """Follow `exec` of a text that may open libraries."""
        code = text(codes[0]).encode(errors="replace") if len(codes) == 1 else b""
        tree = parse_source(code) if opening_calls.CALLS.search(code) else None
        for inner in ast.walk(tree) if tree else ():
            self.spend(1)
            if isinstance(inner, ast.stmt | ast.expr):
                inner.lineno = node.lineno
            if isinstance(inner, ast.Import | ast.ImportFrom):
                self._import(inner)
        self._block(tree.body if tree else (), names)
        return ANY

    def _note_imports(self, names: Iterable[str]) -> None:
        if self._runs and self._on_import:
            known = [name for name in names if 0 < len(name) <= _LONGEST]
            self.spend(len(known))
            self.imports += (
                Imported(name, self._line, not self._sure or self._guarded) for name in known
            )

    def _import_module(self, names: Values, packages: Values = ()) -> Values:
        """Note what a call imports by its name, which begins with dots in a package (PEP 328)."""
        name, package = (text(v[0]) if len(v) == 1 else "" for v in (names, packages))
        module = name.lstrip(".")
        node = ast.ImportFrom(module, [], len(name) - len(module))
        if module.replace(".", "").isidentifier():
            self._note_imports([import_origin(node, package or self._module.package)])
        return ANY

    def _variable(self, given: Sequence[Values], line: int) -> Values:
        """Return the value of an environment variable, or its default."""
        if self._sources:
            return given[1] if len(given) > 1 else (None,)
        return either(self._apply(variable, given[0], (line,)), *given[1:])

    def _other(self, name: str) -> _Module | None:
        """Return another module of the same package that may know of files, once it has run."""
        top = self._own.package.partition(".")[0]
        if self._sources is None or not name or name.partition(".")[0] != top:
            return None
        if name not in self._others:
            self._others[name] = None
            path = self._sources.paths(name)
            source = b"" if path is None else self._sources.read(path)
            self.spend(len(source) >> 8)
            is_followed = b"__file__" in source or opening_calls.SEARCHING.search(source)
            self.spend(len(source) >> 4 if is_followed else 0)
            tree = parse_source(source) if is_followed else None
            if path is not None and tree is not None:
                noted = self.openings, self.imports
                self.openings, self.imports = {}, []
                self._others[name] = other = _Module(path)
                with self._inside(other):
                    self._visit(tree)
                self.openings, self.imports = noted
        return self._others[name]

    @contextmanager
    def _inside(self, module: _Module) -> Generator[None]:
        """Visit the statements of a module, or of a function of it, that another one runs."""
        before, self._module = self._module, module
        noted, self.assignments = self.assignments, {}
        self._depth += 1
        try:
            yield
        finally:
            self._module, self.assignments = before, noted
            self._depth -= 1

    def _call_there(
        self, module: _Module, name: str, given: Sequence[Values], named: dict[str, Values]
    ) -> Values:
        if name not in module.functions or self._depth >= _MAX_CALL_DEPTH:
            return ANY
        with self._inside(module):
            return self._inline(module.functions[name], given, named, module.globals)

    @property
    def _of_paths(self) -> Mapping[str, Callable[..., object]]:
        """The methods of paths that ask what is there."""
        return {
            "exists": self._is_file,
            "is_file": self._is_file,
            "glob": self._glob_in,
            "iterdir": self._glob_in,
        }

    def _glob_in(self, folder: object, pattern: object = "*") -> object:
        return self._glob(PurePosixPath(text(folder), text(pattern)))

    def _is_file(self, path: object) -> object:
        """Return whether a file is there; raise `TypeError` if the path is not known."""
        place = self._from_site(path)
        return self._sources is not None and self._sources.is_file(place)

    def _names_in(self, folder: object) -> Values:
        """Return the names in a folder; raise `TypeError` if it is not known, or large."""
        names = self._sources.names(self._from_site(folder)) if self._sources else ()
        if not 0 < len(names) <= _MAX_NAMES:
            raise TypeError
        return tuple(names)

    def _walk(self, folder: object, *_options: object) -> Values:
        """Return what `os.walk` yields of a folder without others in it."""
        names = self._names_in(folder)
        if not all(map(self._is_file, (f"{text(folder)}/{text(name)}" for name in names))):
            raise TypeError
        return ((text(folder), (), names),)

    def _glob(self, pattern: object, *_options: object) -> Values:
        """Return the paths that a pattern for names in one folder matches."""
        folder, _, name = text(pattern).rpartition("/")
        matching = fnmatch.filter(map(text, self._names_in(folder)), name)
        paths = [f"{folder}/{name}" for name in matching]
        return tuple(map(PurePosixPath, paths) if isinstance(pattern, PurePosixPath) else paths)

    def _config_variable(self, name: object) -> object:
        suffix = self._sources.suffix if self._sources else ""
        if not suffix:
            raise TypeError
        return {"EXT_SUFFIX": suffix, "SOABI": suffix[1:-3], "SHLIB_SUFFIX": ".so"}[text(name)]

    def _change_folder(self, folder: object) -> None:
        self._folder = text(folder)

    def _from_site(self, path: object) -> str:
        """Return a path from site-packages; raise `TypeError` if it is not known."""
        prefix = posixpath.normpath(f"{SITE}/../../..")
        known = text(path).replace(PREFIX, prefix, 1).replace(BASE, prefix, 1)
        if self._sources is None or UNKNOWN in known or not known.startswith("/\0/"):
            raise TypeError
        return posixpath.relpath(posixpath.normpath(known), SITE)

    def _grow(self, function: ast.Attribute, arguments: Sequence[Values], names: _Names) -> Values:
        """Follow a call that adds to a list."""
        old = items(self._evaluate(function.value, names))
        new = items(arguments[0]) if function.attr == "extend" else arguments[-1]
        at_front = function.attr == "insert" and arguments[0] == (0,)
        self._bind(
            function.value, some_of(either(new, old) if at_front else either(old, new)), names
        )
        return (None,)

    def _inline(
        self, function: Function, given: Sequence[Values], named: dict[str, Values], names: _Names
    ) -> Values:
        """Follow a call of a function of the same source."""
        if self._depth == _MAX_CALL_DEPTH:
            return ANY
        declared = function.args
        positional = [*declared.posonlyargs, *declared.args]
        defaults = [
            *zip(reversed(positional), reversed(declared.defaults), strict=False),
            *zip(declared.kwonlyargs, declared.kw_defaults, strict=True),
        ]
        is_of_class = bool(positional) and positional[0].arg in {"self", "cls"}
        given = (ANY, *given) if is_of_class else given
        bound = names.new_child(_parameters(function))
        bound |= {p.arg: self._evaluate(default, names) for p, default in defaults if default}
        bound |= dict(zip((p.arg for p in positional), given, strict=False)) | named
        outer = self._sure, self._runs, self._opened_unknown, self._results
        self._results = []
        self._depth += 1
        yields = any(isinstance(node, ast.Yield) for node in ast.walk(function))
        is_async = isinstance(function, ast.AsyncFunctionDef)
        if yields or is_async or function.name in self._module.ambiguous:
            self._sure = self._runs = False  # its body runs later, or not at all
        try:
            ends = self._block(function.body, bound)
            return either(self._results, () if ends or yields else (None,))
        finally:
            self._sure, self._runs, self._opened_unknown, self._results = outer
            self._depth -= 1

    def _note_numpy(self, node: ast.Call, given: Sequence[Values]) -> Values:
        """Note `load_library(name, folder or file in it)`, which adds suffixes to a bare name."""
        files = {f"{SITE}/{path}" for path in self._modules.values()} | {self._own.file}
        for name, place in product(*(map(text, values) for values in given[:2])):
            path = posixpath.join(posixpath.dirname(place) if place in files else place, name)
            suffixes = () if posixpath.splitext(name)[1] else (".so", ".cpython-*.so", ".abi3.so")
            if name and place:
                self._note(node, "numpy.ctypeslib.load_library", (path,), suffixes)
        return ANY

    def _note(
        self,
        node: ast.expr,
        function: str,
        names: Values,
        suffixes: tuple[str, ...] = (),
        *,
        for_all: bool = False,
    ) -> Values:
        """Note what a call opens."""
        self._results += names
        self.chose_unknown |= len(names) > 1 and self._runs and self._on_import
        finds = function == opening_calls.FIND_LIBRARY
        for value in names:
            name, where = (text(value), LookupPlace.FIND) if finds else self._place(text(value))
            if "\0" in name:
                self._opened_unknown |= not finds
                self.opened_unknown |= not finds
            elif name and "\n" not in name:
                opening = PythonOpening(
                    line=node.lineno if self._module is self._own else self._line,
                    function=function,
                    name=name,
                    where=where,
                    sure=self._sure and (not self._opened_unknown if finds else len(names) == 1),
                    on_import=self._on_import,
                    suffixes=suffixes,
                    for_all=for_all,
                    runs=self._on_import and self._runs and len(names) == 1,
                    statement=self._line if self._on_import else 0,
                )
                # The first visit knows most: the import comes before the functions.
                self.openings.setdefault((node.lineno, name, where), opening)
        return ANY

    def _place(self, name: str) -> tuple[str, LookupPlace]:
        if "/" in name and self._folder:
            name = posixpath.join(self._folder, name)
        if self._sources:
            name = name.replace(PREFIX, posixpath.normpath(f"{SITE}/../../.."), 1)
        if name.startswith("/\0/"):
            folder = posixpath.dirname(self._own.file)
            return posixpath.relpath(posixpath.normpath(name), folder), LookupPlace.SOURCE
        if name.startswith(PREFIX):
            return posixpath.normpath(name).removeprefix(f"{PREFIX}/"), LookupPlace.PREFIX
        return name, LookupPlace.ABSOLUTE if "/" in name else LookupPlace.SEARCH


def _in_order(elements: Values, node: ast.expr) -> Values:
    """Return the list that an expression makes; of a set, whose order is not known, two."""
    lists = [elements, elements[::-1]] if isinstance(node, ast.Set | ast.SetComp) else [elements]
    return either(lists)


def _imported_names(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif base := import_origin(node, package):
        yield from (base, *(f"{base}.{alias.name}" for alias in node.names))


def _directories(value: object) -> Iterator[str]:
    """Yield the directories in a value like that of PATH, those below site-packages relative."""
    for element in text(value).split(":"):
        path = element.replace(PREFIX, posixpath.normpath(f"{SITE}/../../.."), 1)
        is_below = path.startswith("/\0/")
        path = posixpath.relpath(posixpath.normpath(path), SITE) if is_below else path
        if path and "\0" not in path and (is_below or path.startswith("/")):
            yield path


def _as_if(subject: ast.expr, cases: Sequence[ast.match_case]) -> list[ast.stmt]:
    """Return what `match` amounts to; a test by another pattern than constants is not known."""
    if not cases:
        return []
    (case, *others) = cases
    tests = [_test(subject, case.pattern), *filter(None, [case.guard])]
    test, rest = ast.BoolOp(ast.And(), tests), _as_if(subject, others)
    return [ast.copy_location(ast.If(test, case.body, rest), case.body[0])]


def _test(subject: ast.expr, pattern: ast.pattern) -> ast.expr:
    match pattern:
        case ast.MatchValue(value=value):
            return ast.Compare(subject, [ast.Eq()], [value])
        case ast.MatchOr(patterns=patterns):
            return ast.BoolOp(ast.Or(), [_test(subject, one) for one in patterns])
        case ast.MatchAs(pattern=None, name=None):
            return ast.Constant(value=True)
        case _:
            return ast.Name("\0")


def _bound_by(node: ast.AST) -> set[object]:
    """Return the names that a node may bind or change an attribute of; imports are left out."""
    if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
        return {getattr(named, "id", "") for named in (node, getattr(node, "value", None))}
    is_import = isinstance(node, ast.alias)
    return set() if is_import else {getattr(node, name, "") for name in ("name", "arg", "rest")}


def _parameters(function: Function) -> dict[str, Values]:
    return {node.arg: ANY for node in ast.walk(function.args) if isinstance(node, ast.arg)}


def _is_ffi(node: ast.expr) -> bool:
    """Return whether `node` looks like a `cffi.FFI`: its name has `ffi`, or it is such a call."""
    if isinstance(node, ast.Call):
        return _is_ffi(node.func)
    name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
    return "ffi" in name.lower()
