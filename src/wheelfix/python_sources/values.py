"""Values in Python sources: what the standard library does with texts and paths on Linux.

A path below site-packages, and a directory of an environment variable, is a text that begins with a
place, which has a NUL. Functions raise `TypeError` and the like for what they are not meant for.
"""

import ast
import operator
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import PurePosixPath
from typing import Final, cast

from wheelfix.system.lazy_patterns import lazy_pattern

SITE = "/\0/" + "/".join("abcdefghijkl") + "/site"
"""Stands for site-packages: deep enough for any `..`."""
PREFIX = "/\0prefix"
"""Stands for `sys.prefix`."""
BASE = "/\0base"
"""Stands for `sys.base_prefix`, which is another one in a virtual environment."""
VARIABLE = lazy_pattern(r"/\0\?env\0(\d+)\0([^/]*)")
"""Stands for what an environment variable holds: the line that reads it, and its name."""
UNKNOWN: Final = "\0?"
"""A value that is not known, and in a text, a part that is not."""
RTLD_GLOBAL: Final = 0x100
_MAX_ALTERNATIVES = 16
_MOST_OF_POWER = 64

Values = tuple[object, ...]
"""The values that an expression may have."""
ANY: Final[Values] = (UNKNOWN,)


def either(*alternatives: Iterable[object]) -> Values:
    """Return all values of `alternatives`, each once; unknown if they are many or none."""
    merged: list[object] = []
    for value in chain.from_iterable(alternatives):
        if value not in merged:
            merged.append(value)
    return tuple(merged) if 0 < len(merged) <= _MAX_ALTERNATIVES else ANY


def items(values: Values) -> Values:
    """Return what an iteration of any of `values` may yield."""
    # The longest list first: the others are what it was before it grew.
    lists = [cast("Values", value) for value in values if isinstance(value, tuple)]
    lists.sort(key=lambda value: -len(value))
    return either(*lists, (value for value in values if not isinstance(value, tuple)))


def some_of(values: Values) -> Values:
    """Return a list that may have any of `values`."""
    return (values, UNKNOWN)


def truth(values: Values) -> bool | None:
    """Return whether a test holds, None if that is not known."""
    truths = {None if UNKNOWN in text(value) else bool(value) for value in values}
    return truths.pop() if len(truths) == 1 else None


def text(value: object) -> str:
    """Return a text or the text of a path; empty for anything else."""
    return str(value) if isinstance(value, str | PurePosixPath) else ""


def is_unknown(value: object) -> bool:
    """Return whether a text, or the list that it was split into, has a part that is not known."""
    parts = cast("Values", value) if isinstance(value, tuple) else (value,)
    return any(UNKNOWN in text(part) for part in parts)


def size(value: object) -> int:
    """Return the size of a value in pieces of 16 characters; a shared part counts each time."""
    if isinstance(value, dict):
        value = tuple(chain(*cast("dict[object, object]", value).items()))
    if isinstance(value, tuple):
        return 1 + sum(map(size, cast("Values", value)))
    return 1 + (len(text(value)) >> 4)


def variable(name: object, line: int) -> object:
    """Return what stands for the value of an environment variable, if it holds directories."""
    if isinstance(name, str) and names_directories(name):
        return f"/{UNKNOWN}env\0{line}\0{name}"
    return UNKNOWN


def names_directories(variable: str) -> bool:
    """Return whether the name of an environment variable says that it holds directories."""
    return _DIRECTORIES.search(variable) is not None


_DIRECTORIES = lazy_pattern(r"PATH|LIB|(?:HOME|DIRS?|ROOT|PREFIX|DATA)$", re.IGNORECASE)


# --- Functions ------------------------------------------------------------------------------------


def _same(value: object, *_options: object) -> object:
    return value


def _resource(package: str, *parts: str) -> object:
    return PurePosixPath(SITE, package.replace(".", "/"), *parts)


def _site_folder(name: object, *_options: object) -> object:
    if name not in {"purelib", "platlib"}:
        raise TypeError
    return SITE


def _normal_path(path: PurePosixPath, *_options: object) -> object:
    return PurePosixPath(posixpath.normpath(path))


_PLAIN_PERCENT = lazy_pattern(r"(?:[^%]|%(?:\(\w+\))?[sd%])*")
_PLAIN_FORMAT = lazy_pattern(r"(?:[^{}]|\{\w*\})*")


def _percent(template: object, values: object) -> object:
    """Format by `%`, but for fields that are padded to thousands of characters."""
    if not _PLAIN_PERCENT.fullmatch(cast("str", template)) or not _is_plain(values):
        raise TypeError
    return operator.mod(cast("str", template), values)


def _format(template: str, *values: object) -> object:
    """Format by `str.format`, but for padded fields and those that look into an object."""
    if not _PLAIN_FORMAT.fullmatch(template) or not _is_plain(values):
        raise TypeError
    return template.format(*values)


def _is_plain(values: object) -> bool:
    parts = cast("Values", values) if isinstance(values, tuple) else (values,)
    return all(isinstance(part, str | int | PurePosixPath) for part in parts)


def concatenate(*values: object) -> object:
    """Return the text of an f-string."""
    return _format("{}" * len(values), *values)


def _add(left: object, right: object) -> object:
    return operator.add(cast("str", left), cast("str", right))


def _small(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value <= _MOST_OF_POWER:
        raise TypeError
    return value


def _multiply(left: object, right: object) -> object:
    return _small(left) * _small(right)


def _power(base: object, exponent: object) -> object:
    return pow(_small(base), _small(exponent))


def _is_in(value: object, values: object) -> bool:
    if UNKNOWN in cast("Values", values):
        raise TypeError
    return value in cast("Values", values)


def _is_not_in(value: object, values: object) -> bool:
    return not _is_in(value, values)


def _look_up(table: dict[object, object], *arguments: object) -> object:
    return table.get(*arguments)


def _numbered(values: tuple[object, ...]) -> object:
    return tuple(enumerate(values))


def _first(values: tuple[object, ...], *_default: object) -> object:
    return values[0]


def _values(table: dict[object, object]) -> object:
    return tuple(table.values())


def _pairs(table: dict[object, object]) -> object:
    return tuple(table.items())


READS_VARIABLE = frozenset({"os.environ.get", "os.getenv"})
"""Calls that return the value of an environment variable, or their second argument."""
_LIBRARY: tuple[tuple[Callable[..., object], str], ...] = (
    (posixpath.join, "os.path.join"),
    (posixpath.dirname, "os.path.dirname"),
    (posixpath.basename, "os.path.basename"),
    (posixpath.split, "os.path.split"),
    (posixpath.splitext, "os.path.splitext"),
    (posixpath.normpath, "os.path.abspath os.path.realpath os.path.normpath"),
    (lambda: "Linux", "platform.system"),
    (lambda: "CPython", "platform.python_implementation"),
    (lambda: ("64bit", "ELF"), "platform.architecture"),
    (lambda: CONSTANTS["os.RTLD_NOW"], "sys.getdlopenflags"),
    (lambda *_: SITE, "importlib.metadata.distribution"),
    (str, "str os.fspath os.fsencode os.fsdecode"),
    (PurePosixPath, "pathlib.Path pathlib.PurePath pathlib.PosixPath"),
    (_resource, "importlib.resources.files importlib.resources.path importlib_resources.files"),
    (_resource, "pkg_resources.resource_filename"),
    (_same, "compile list tuple sorted iter os.path.expanduser"),
    (_numbered, "enumerate"),
    (_first, "next"),
    (_site_folder, "sysconfig.get_path"),
    ({"P": 8, "N": 8}.__getitem__, "struct.calcsize"),
    (lambda: {"purelib": SITE, "platlib": SITE}, "sysconfig.get_paths"),
    (lambda: (SITE,), "site.getsitepackages"),
    (_same, "importlib.resources.as_file importlib_resources.as_file"),
)
FUNCTIONS = {name: function for function, names in _LIBRARY for name in names.split()}
CONSTANTS: Mapping[str, object] = {
    "sys.platform": "linux",
    "os.name": "posix",
    "os.sep": "/",
    "os.path.sep": "/",
    "os.pathsep": ":",
    "os.pardir": "..",
    "os.path.pardir": "..",
    "os.curdir": ".",
    "os.path.curdir": ".",
    "sys.prefix": PREFIX,
    "sys.exec_prefix": PREFIX,
    "sys.base_prefix": BASE,
    "sys.base_exec_prefix": BASE,
    "sys.maxsize": 2**63 - 1,
    "typing.TYPE_CHECKING": False,
    **{
        f"{module}.RTLD_{name}": value
        for module in ("ctypes", "os")
        for name, value in (("LOCAL", 0), ("LAZY", 1), ("NOW", 2), ("GLOBAL", RTLD_GLOBAL))
    },
}
_SUFFIX = lazy_pattern(r"\.cpython-(\d)(\d+)t?-(\w+)-linux-\w+\.so")


def of_python(suffix: str) -> Mapping[str, object]:
    """Return what names stand for in the CPython with this `EXT_SUFFIX`; nothing for others."""
    match = _SUFFIX.fullmatch(suffix)
    if match is None:
        return {}
    major, minor = int(match[1]), int(match[2])
    return {
        "sys.version_info": (major, minor, 99),  # the newest patch release
        "sys.version_info.major": major,
        "sys.version_info.minor": minor,
        "sys.hexversion": (major << 24) + (minor << 16) + (99 << 8),
        "sys.implementation.name": "cpython",
        "os.uname.machine": match[3],
    }


OPERATORS: Mapping[type[ast.AST], Callable[..., object]] = {
    ast.Add: _add,
    ast.BitOr: int.__or__,
    ast.BitXor: int.__xor__,
    ast.BitAnd: int.__and__,
    ast.Div: PurePosixPath,
    ast.Mult: _multiply,
    ast.Pow: _power,
    ast.Mod: _percent,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.eq,
    ast.IsNot: operator.ne,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.In: _is_in,
    ast.NotIn: _is_not_in,
}
_METHODS: Mapping[type, Mapping[str, Callable[..., object]]] = {
    dict: {
        "get": _look_up,
        "keys": tuple,
        "values": _values,
        "items": _pairs,
    },
    str: {
        **{
            name: getattr(str, name)
            for name in (
                "lower", "strip", "replace", "join", "startswith", "endswith",
                "removesuffix", "removeprefix",
            )
        },
        "split": lambda *given: tuple(str.split(*given)),
        "rsplit": lambda *given: tuple(str.rsplit(*given)),
        "partition": str.partition,
        "rpartition": str.rpartition,
        "format": _format,
        "encode": _same,
    },
    PurePosixPath: {
        "resolve": _normal_path,
        "absolute": _same,
        "expanduser": _same,
        "joinpath": PurePosixPath.joinpath,
        "with_name": PurePosixPath.with_name,
        "with_suffix": PurePosixPath.with_suffix,
        "as_posix": str,
    },
}  # fmt: skip


def call_method(name: str, owner: object, *arguments: object) -> object:
    """Return what a method returns; of a place, any other method returns something in it."""
    method = _METHODS.get(type(owner), {}).get(name)
    return method(owner, *arguments) if method else _inside(owner)


def attribute(owner: object, name: str) -> object:
    """Return an attribute; of a place, any other attribute is something in it."""
    if isinstance(owner, PurePosixPath) and name == "path":  # of an `os.DirEntry`
        return str(owner)
    if isinstance(owner, PurePosixPath) and name in {"parent", "parents", "name", "stem", "suffix"}:
        value: object = getattr(owner, name)
        return tuple(owner.parents) if name == "parents" else value
    if isinstance(owner, dict):
        return cast("dict[object, object]", owner)[name]
    return _inside(owner)


def _inside(owner: object) -> object:
    if not text(owner).startswith("/\0"):
        raise TypeError
    return f"{owner}/{UNKNOWN}"
