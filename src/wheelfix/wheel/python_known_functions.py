"""Constants and functions of the standard library that the evaluator of Python sources knows.

These are the ones that build paths, by their dotted names, with their values on Linux. A path is a
`str`, as in `posixpath`. Functions raise `TypeError` for values of other types.
"""

import ast
import operator
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

SITE = "/\0/" + "/".join("abcdefghijkl") + "/site"
"""Stands for site-packages: deep enough for any `..`, and with NUL no path of a real file."""
PREFIX = "/\0prefix"
"""Stands for `sys.prefix`."""
Function = Callable[..., object]

CONSTANTS: Mapping[str, object] = {
    "sys.platform": "linux",
    "os.name": "posix",
    "os.sep": "/",
    "os.path.sep": "/",
    "os.altsep": None,
    "os.pathsep": ":",
    "os.curdir": ".",
    "os.pardir": "..",
    "sys.prefix": PREFIX,
    "sys.exec_prefix": PREFIX,
    "typing.TYPE_CHECKING": False,
    "sys.maxsize": 2**63 - 1,
}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _on_text(function: Callable[[str], object]) -> Function:
    """Return `function` for `str` only; other arguments, such as `strict`, are ignored."""

    def call(value: object, *_options: object) -> object:
        return function(_text(value))

    return call


def _method(name: str) -> Function:
    """Return the method `name` of `str`."""

    def call(value: object, *arguments: object) -> object:
        found: object = getattr(_text(value), name)(*arguments)
        return tuple(cast("list[object]", found)) if isinstance(found, list) else found

    return call


def _resource(package: object, *parts: object) -> str:
    return posixpath.join(SITE, _text(package).replace(".", "/"), *map(_text, parts))


def _joined(*parts: object) -> str:
    return posixpath.join(*map(_text, parts)) if parts else "."


def _path(*parts: object) -> str:
    """Join as `pathlib.PurePosixPath` does: without `.`."""
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


_WIDE = re.compile(r"%(?:\(\w*\))?[-+ #0-9.]*(?:\*|\d{4})")
_PLAIN = re.compile(r"(?:[^{}]|\{\{|\}\}|\{\w*(?:![rsa])?(?::(?![^{}]*\d{4})[^{}]*)?\})*")


def _percent(template: object, values: object) -> object:
    """Format by `%`, without fields that are padded to thousands of characters."""
    if _WIDE.search(_text(template)):
        raise ValueError
    return operator.mod(_text(template), cast("Any", values))


def _format(template: object, *values: object) -> str:
    """Format by `str.format`, without padded fields and those that look into an object."""
    if not _PLAIN.fullmatch(_text(template)):
        raise ValueError
    return _text(template).format(*values)


FUNCTIONS: Mapping[str, Function] = {
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
    "platform.system": lambda: "Linux",
    "sys.platform.startswith": "linux".startswith,
    "importlib.resources.files": _resource,
    "importlib_resources.files": _resource,
    "importlib.resources.path": _resource,
    "importlib.resources.as_file": _text,
    "importlib_resources.as_file": _text,
    "pkg_resources.resource_filename": _resource,
}
METHODS: Mapping[str, Function] = {
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
ATTRIBUTES: Mapping[str, Function] = {
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


def item(some: object, index: object) -> object:
    """Return `some[index]`."""
    return operator.getitem(cast("Any", some), cast("Any", index))


def as_tuple(*values: object) -> object:
    """Return a display of a tuple, list or set."""
    return values


def concatenate(*values: object) -> object:
    """Return the text of an f-string."""
    return "".join(map(str, values))


def _is_in(value: object, some: object) -> object:
    return operator.contains(cast("Any", some), value)


def _is_not_in(value: object, some: object) -> object:
    return not _is_in(value, some)


OPERATORS: Mapping[type[ast.operator], Function] = {
    ast.Add: operator.add,
    ast.Div: _joined,
    ast.Mod: _percent,
}
COMPARISONS: Mapping[type[ast.cmpop], Function] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: _is_in,
    ast.NotIn: _is_not_in,
    ast.Is: operator.eq,
    ast.IsNot: operator.ne,
}
