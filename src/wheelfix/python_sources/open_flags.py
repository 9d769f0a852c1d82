"""Whether a Python source may open an object for all others: RTLD_GLOBAL, by name or by number.

What is done with a function that opens libraries, but to call it with plain flags, is not known.
"""

import ast
from collections.abc import Iterator
from functools import lru_cache

from wheelfix.python_sources.parsing import parse_source, without_annotations
from wheelfix.python_sources.values import RTLD_GLOBAL

_SETTER = "setdlopenflags"
_CALLED = frozenset({"CDLL", "PyDLL", "dlopen", "_dlopen", "dlmopen", "_dlltype", _SETTER})
_WORDS = (
    *(b"CDLL", b"PyDLL", b"dlopen", b"dlmopen", b"_dlltype", b"RTLD_GLOBAL"),
    *(b"getattr(sys", b"getattr(ctypes"),
)
"""One of them is in each source that opens an object with flags, or sets those of imports."""
_LOCAL = frozenset({"RTLD_LOCAL", "RTLD_LAZY", "RTLD_NOW", "DEFAULT_MODE"})
_WITHOUT_FLAGS = frozenset({"handle", "use_errno", "use_last_error", "winmode"})
"""The other parameters of `ctypes.CDLL`."""


@lru_cache(1 << 8)
def line_for_all(source: bytes) -> int:
    """Return the first line that may open an object for all others; 0 without one."""
    if not any(word in source for word in _WORDS):
        return 0
    tree = parse_source(source)
    return min(_lines(tree), default=0) if tree else 1


def _lines(tree: ast.Module) -> Iterator[int]:
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _CALLED:
                if not _has_plain_flags(node, 0 if name == _SETTER else 1):
                    yield node.lineno
                waiting += [*ast.iter_child_nodes(node.func), *node.args, *node.keywords]
                continue
            case ast.Call(func=ast.Name(id="eval" | "exec")):
                yield node.lineno
            case ast.Call(
                func=ast.Name(id="getattr"), args=[ast.Name(id="sys" | "ctypes"), name, *_]
            ) if not isinstance(name, ast.Constant):
                yield node.lineno
            case ast.Name(id=name, ctx=ast.Store()) if name in _LOCAL:
                yield node.lineno
            case ast.Name(id=name) | ast.Attribute(attr=name) if _is_suspect(name):
                yield node.lineno
            case ast.alias(name=name, asname=str(other)) if other != name and name in _CALLED:
                yield node.lineno
            case ast.Constant(value=str(text)) if _is_suspect(text.rpartition(".")[2]):
                yield node.lineno
            case _:
                pass
        waiting += without_annotations(node)


def _is_suspect(name: str) -> bool:
    """Return whether to name a function or flag, other than in a call, may open for all."""
    return name in _CALLED or (name.startswith("RTLD_") and name not in _LOCAL)


def _has_plain_flags(call: ast.Call, first: int) -> bool:
    """Return whether a call has flags that are known, and not RTLD_GLOBAL, from the `first` on."""
    flags = [word.value for word in call.keywords if word.arg not in _WITHOUT_FLAGS]
    is_whole = not any(isinstance(value, ast.Starred) for value in call.args)
    return is_whole and all(map(_is_plain, (*call.args[first:], *flags)))


def _is_plain(value: ast.expr) -> bool:
    waiting = [value]
    while waiting:
        match waiting.pop():
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                waiting += (left, right)
            case ast.Constant(value=int(flags)) if not flags & RTLD_GLOBAL:
                pass
            case ast.Constant(value=None):
                pass
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in _LOCAL:
                pass
            case _:
                return False
    return True
