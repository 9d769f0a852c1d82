"""Parsing of a wheel's Python sources, what they import, and the limits for reading them."""

import ast
import re
import warnings
from collections.abc import Callable, Iterator, Sequence

from wheelfix.grouping import flatten
from wheelfix.named_tuple import NamedTuple

STEPS_PER_EXPRESSION = 5
"""Steps of the budget for the evaluation of one expression."""
STEPS_PER_SOURCE = 100_000 * STEPS_PER_EXPRESSION
"""Of the budget, for one source."""
STEPS_PER_WHEEL = 1_000_000 * STEPS_PER_EXPRESSION
"""Of the budget, for all sources of one wheel: 20 times what SciPy's take."""
_MEMBER = "<a member of the wheel>"
_EXITS = frozenset({"sys.exit", "exit", "quit", "os._exit", "os.abort"})
_MAX_TOKENS = 100_000
"""More than any hand-written source has; the syntax tree of so many takes up to 100 MB."""


_BLOCKS = (ast.stmt, ast.excepthandler, ast.match_case)
"""What statements consist of, but for expressions, which import and define nothing."""


class Sources(NamedTuple):
    """The modules of an environment."""

    paths: Callable[[str], str | None]
    """Dotted name -> the path of its source below site-packages, None without one."""
    read: Callable[[str], bytes]
    """Path below site-packages -> the source."""
    is_extension: Callable[[str], bool]
    """Dotted name -> whether it is an extension module."""
    is_file: Callable[[str], bool] = lambda _: False
    """Path from site-packages, which may begin with `..` -> whether a file is there."""
    names: Callable[[str], Sequence[str]] = lambda _: ()
    """Path of a folder, likewise -> the names in it."""
    suffix: str = ""
    """That of extension modules (`EXT_SUFFIX`); empty if it is not known."""


def parse_source(source: bytes) -> ast.Module | None:
    """Parse a source without warnings; None if it is too large or not Python of this version."""
    if is_too_large(source):
        return None
    # Python 3.12 warns about `"\d"`; the file name keeps the filter to such sources.
    warnings.filterwarnings("ignore", module=re.escape(_MEMBER))
    try:
        tree = compile(source, _MEMBER, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree if isinstance(tree, ast.Module) else None


def without_texts(source: bytes) -> bytes:
    """Return a source without comments and docstrings; as it is if it may read these."""
    tree = None if b"__doc__" in source else parse_source(source)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value = ast.Constant(None)
    try:
        return ast.unparse(tree).encode("utf-8", "surrogatepass") if tree else source
    except RecursionError:
        return source


def blocks_in(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements directly in one, and its handlers and cases."""
    if not isinstance(node, ast.Import | ast.ImportFrom | ast.Expr):
        inside = ast.iter_child_nodes(node)
        yield from (child for child in inside if isinstance(child, _BLOCKS))


def always_raises(body: Sequence[ast.stmt]) -> bool:
    """Return whether every way through the body of a handler ends in an exception, or the program.

    A `return`, `break` or `continue` anywhere in it counts as a way on.
    """
    nodes = flatten(map(ast.walk, body))
    if any(isinstance(node, ast.Return | ast.Break | ast.Continue) for node in nodes):
        return False
    blocks = [body]
    while blocks:
        match blocks.pop()[-1]:
            case ast.Raise():
                pass
            case ast.If(body=then, orelse=[_, *_] as otherwise):
                blocks += [then, otherwise]
            case ast.With(items=items, body=inside) if not any(map(suppresses, items)):
                blocks.append(inside)
            case ast.Expr(value=ast.Call(func=function)) if ast.unparse(function) in _EXITS:
                pass
            case _:
                return False
    return True


def suppresses(item: ast.withitem) -> bool:
    """Return whether a `with` goes on after an error, as one of `contextlib.suppress` does."""
    return "suppress" in ast.unparse(item.context_expr)


def is_too_large(source: bytes) -> bool:
    """Return whether a source has more tokens than `parse_source` accepts."""
    return len(source) > _MAX_TOKENS and _tokens(source) > _MAX_TOKENS


def _tokens(source: bytes) -> int:
    return sum(1 for _ in re.finditer(rb"\w+|[^\w\s]", source))


def without_annotations(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what is in a node, but the types that annotations name."""
    annotated = getattr(node, "annotation", None), getattr(node, "returns", None)
    return (child for child in ast.iter_child_nodes(node) if child not in annotated)


def last_name(node: ast.AST) -> str:
    """Return the last part of a dotted name; empty for what has no name."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def import_origin(node: ast.ImportFrom, package: str) -> str:
    """Return the absolute name of what `from ... import` reads in a module of `package`.

    Empty for `from . import x` in a module that is not in a package (PEP 328).
    """
    parts = package.split(".") if package else []
    above = parts[: len(parts) - node.level + 1] if node.level else []
    return ".".join([*above, *([node.module] if node.module else [])])
