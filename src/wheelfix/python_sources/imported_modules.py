"""What a Python source may import, which imports may fail, and whose `load_library` it calls."""

import ast
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from wheelfix.grouping import values_by_key
from wheelfix.named_tuple import NamedTuple
from wheelfix.python_sources.parsing import (
    always_raises,
    blocks_in,
    import_origin,
    last_name,
    parse_source,
    suppresses,
)
from wheelfix.system.lazy_patterns import lazy_pattern

_CAUGHT = frozenset({"ImportError", "Exception", "BaseException"})
_FILE_IMPORTS = (b"spec_from_file_location", b"ExtensionFileLoader", b"load_dynamic")
"""Functions of importlib, and of imp before Python 3.12."""
_LONGEST = 200
"""Characters of a text that may be the name of a module."""
DYNAMIC = lazy_pattern(
    rb"import\s*\(?\s*\*|__getattr__|__dict__|__path__|__import__|meta_path|path_hooks|find_spec"
    rb"|\b(globals|vars|locals|exec|eval|setattr|modules|attach)\b|lazy"
)
"""What a source has that may bind any name in it."""


@lru_cache(1 << 14)
def module_name(path: str) -> str:
    """Return the dotted name of the module at `path`, below site-packages.

    `pkg/__init__.py` is `pkg`, `pkg/core.cpython-311-x86_64-linux-gnu.so` is `pkg.core`. Below
    another site-packages, as cmeel's, which a .pth file adds, it counts from there.
    """
    folder, _, name = path.rpartition("/site-packages/")[2].rpartition("/")
    stem = name.partition(".")[0]
    parts = [*folder.split("/"), *([] if stem == "__init__" else [stem])]
    return ".".join(filter(None, parts))


@lru_cache(1 << 8)
def imported_names(source: bytes, package: str) -> frozenset[str]:
    """Return the dotted names that the statements of a source of `package` import, at any place.

    Each of `from x import y` may be a module.
    """
    names: set[str] = set()
    tree = parse_source(source)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = import_origin(node, package)
            names.add(origin)
            names.update(f"{origin}.{alias.name}".lstrip(".") for alias in node.names)
    return frozenset(names)


class Naming(NamedTuple):
    """Where a source names a module that it may import."""

    name: str
    """Its dotted name; of a text, what is after the dots before it."""
    line: int
    runs: bool
    """Whether it is a statement of the module itself, also one that may not be reached."""

    def is_of(self, module: str) -> bool:
        """Return whether it may be a module, or one in it; a text may have its last part alone."""
        is_text = not self.runs and f".{self.name}".endswith(f".{module.rpartition('.')[2]}")
        return is_text or f"{self.name}.".startswith(f"{module}.")


@lru_cache(1 << 8)
def namings(source: bytes, package: str) -> Sequence[Naming]:
    """Return where a source of `package` names modules: in imports, and in texts.

    What only a type checker reads is left out. Nothing of a source that is not parsed.
    """
    tree = parse_source(source)
    found: list[Naming] = []
    waiting: list[tuple[ast.AST, bool]] = [(tree, True)] if tree else []
    while waiting:
        node, runs = waiting.pop()
        match node:
            case ast.Import(names=names):
                found += (Naming(alias.name, node.lineno, runs) for alias in names)
            case ast.ImportFrom(names=names):
                origin = import_origin(node, package)
                inside = (f"{origin}.{alias.name}".lstrip(".") for alias in names)
                found += (Naming(name, node.lineno, runs) for name in (origin, *inside))
            case ast.Constant(value=str(text)) if len(text) <= _LONGEST:
                found.append(Naming(text.lstrip("."), node.lineno, runs=False))
            case ast.If(test=test, orelse=orelse) if last_name(test) == "TYPE_CHECKING":
                waiting += ((other, runs) for other in orelse)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                waiting += ((child, False) for child in ast.iter_child_nodes(node))
            case _:
                waiting += ((child, runs) for child in ast.iter_child_nodes(node))
    return found


def by_part(found: Iterable[Naming]) -> Mapping[str, Sequence[Naming]]:
    """Return where modules are named by each part of their names."""
    return values_by_key((part, naming) for naming in found for part in {*naming.name.split(".")})


@lru_cache(1 << 8)
def bound_names(source: bytes, package: str) -> frozenset[str] | None:
    """Return the names that the `__init__.py` of a package may bind, but its files'.

    None if it may bind any.
    """
    tree = None if DYNAMIC.search(source) else parse_source(source)
    bound: set[str] = set()
    for node in ast.walk(tree) if tree else ():
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                bound.add(name)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                bound.add(node.name)
            case ast.ImportFrom() if import_origin(node, package) == package:
                pass
            case ast.Import() | ast.ImportFrom():
                bound |= {(a.asname or a.name).partition(".")[0] for a in node.names}
            case _:
                pass
    return frozenset(bound) if tree else None


def loads_libraries_of(source: bytes) -> frozenset[str]:
    """Return the modules whose function `load_library` a source calls, as RAPIDS' packages do."""
    tree = parse_source(source) if b".load_library(" in source else None
    return frozenset(
        node.func.value.id
        for node in (ast.walk(tree) if tree else ())
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "load_library"
        and isinstance(node.func.value, ast.Name)
    )


def names_of_file_imports(source: bytes) -> frozenset[str]:
    """Return the names under which a source imports modules from files; empty for one not known.

    These are the first arguments of `spec_from_file_location`, `ExtensionFileLoader` and
    `load_dynamic`: the import asks the file for the PyInit function of that name.
    """
    tree = parse_source(source) if any(word in source for word in _FILE_IMPORTS) else None
    names: set[str] = set()
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Call) and last_name(node.func).encode() in _FILE_IMPORTS:
            named = (word.value for word in node.keywords if word.arg in {"name", "fullname"})
            argument = node.args[0] if node.args else next(named, None)
            match argument:
                case ast.Constant(value=str(name)):
                    names.add(name.rpartition(".")[2])
                case _:
                    names.add("")
    return frozenset(names)


def failing_imports(source: bytes) -> Mapping[str, bool] | None:
    """Return for the last name of each imported module whether all imports of it may fail.

    They may in the body of a `try` that catches ImportError, and does not raise again. What only a
    type checker reads is not an import. None if the source is not parsed.
    """
    tree = parse_source(source)
    if tree is None:
        return None
    may_fail_in: dict[str, bool] = {}
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, may_fail = waiting.pop()
        match node:
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                origin = node.module or "" if isinstance(node, ast.ImportFrom) else ""
                for dotted in (origin, *(alias.name for alias in names)):
                    last = dotted.rpartition(".")[2]
                    may_fail_in[last] = may_fail_in.get(last, True) and may_fail
            case ast.Try(body=body, handlers=handlers) | ast.TryStar(body=body, handlers=handlers):
                catches = may_fail or any(map(_goes_on_after_import_error, handlers))
                waiting += ((tried, catches) for tried in body)
                others = (*handlers, *node.orelse, *node.finalbody)
                waiting += ((other, may_fail) for other in others)
            case ast.If(test=test, orelse=orelse) if last_name(test) == "TYPE_CHECKING":
                waiting += ((other, may_fail) for other in orelse)
            case ast.With(items=items, body=body):
                catches = may_fail or any(map(suppresses, items))
                waiting += ((inner, catches) for inner in body)
            case ast.AST():
                waiting += ((child, may_fail) for child in blocks_in(node))
    return may_fail_in


def _goes_on_after_import_error(handler: ast.ExceptHandler) -> bool:
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = [None if caught_node is None else last_name(caught_node) for caught_node in caught]
    # A constant may be a tuple of exceptions.
    catches = any(name is None or name in _CAUGHT or name.isupper() for name in names)
    return catches and not always_raises(handler.body)
