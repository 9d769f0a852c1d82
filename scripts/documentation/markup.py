"""Pieces of Markdown, and the docstrings below the attributes of a class."""

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from textwrap import dedent
from typing import NamedTuple

from wheelfix.reports.printable import backtick_spans

_MARKUP = str.maketrans({c: f"\\{c}" for c in "\\*_[]#"} | {c: f"&#{ord(c)};" for c in "<>|$"})
"""As Markdown's backslash escapes the first ones only, whoever renders it."""
_WIDEST = 90
"""Characters of code that fit a page."""
_FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
_INDENTED = "    "
_CODE_OR_LINK = re.compile(r"(`+[^`]*`+|\[[^\]]*\]\([^)]*\)|<[^>]*>)")
_RULE_CODE = re.compile(r"(?<![\w/=.-])WF\d{3}(?![\w=-])")


def prose(text: str) -> str:
    """Return plain text as Markdown, with its literals in backticks as code."""
    return "".join(
        f"`{piece}`" if literal else piece.translate(_MARKUP)
        for literal, piece in backtick_spans(" ".join(text.split()))
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a pipe in a cell must be escaped already."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(text: str) -> str:
    """Return a code span for the cell of a table, in which a pipe is an entity."""
    return f"<code>{escape(text).replace('|', '&#124;')}</code>" if "|" in text else f"`{text}`"


class Attribute(NamedTuple):
    """An attribute of a class, as its source says."""

    type: str
    """The annotation; empty without one."""
    text: str
    """The docstring below it, as one line; empty without one."""


def attributes(cls: type) -> Mapping[str, Attribute]:
    """Return the attributes and properties of `cls` by name, in the order of the source."""
    definition = _parsed(cls)
    assert isinstance(definition, ast.ClassDef)
    found: dict[str, Attribute] = {}
    previous = ""
    for statement in definition.body:
        name = ""
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                found[name] = Attribute(ast.unparse(annotation), "")
            case ast.Assign(targets=[ast.Name(id=name)]):
                found[name] = Attribute("", "")
            case ast.Expr(value=ast.Constant(value=str(text))) if previous:
                found[previous] = found[previous]._replace(text=" ".join(text.split()))
            case ast.FunctionDef(
                name=function,
                decorator_list=[ast.Name(id="property")],
                returns=ast.expr() as result,
            ):
                text = ast.get_docstring(statement) or ""
                found[function] = Attribute(ast.unparse(result), " ".join(text.split()))
            case _:
                pass
        previous = name
    return found


def signature(function: Callable[..., object]) -> str:
    """Return a function's name, parameters and result as its source has them."""
    definition = _parsed(function)
    assert isinstance(definition, ast.FunctionDef)
    definition.body = []
    definition.decorator_list = []
    head = ast.unparse(definition).removesuffix(":")
    if len(head) <= _WIDEST:
        return head
    inside, arrow, result = head.rpartition(") -> ")
    name, opening, _ = inside.partition("(")
    given = definition.args
    plain = ast.arguments(given.posonlyargs, given.args, None, [], [], None, given.defaults)
    named = ast.arguments([], [], None, given.kwonlyargs, given.kw_defaults, None, [])
    parts = [ast.unparse(plain), *([ast.unparse(named)] if given.kwonlyargs else [])]
    return "\n".join([f"{name}{opening}", *(f"    {part}," for part in parts), f"{arrow}{result}"])


def _parsed(thing: type | Callable[..., object]) -> ast.stmt:
    [definition] = ast.parse(dedent(inspect.getsource(thing))).body
    return definition


def with_linked_rules(page: str, addresses: Mapping[str, str]) -> str:
    """Return Markdown with each code of a rule in prose linked to its address.

    Code, links and headings stay as they are. Raises `KeyError` for a code without an address.
    """
    lines: list[str] = []
    fence = ""
    for line in page.splitlines():
        mark = _FENCE.match(line)
        if mark is not None and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        elif not fence and not line.startswith(("#", _INDENTED)):
            line = _linked(line, addresses)  # noqa: PLW2901 - the line with its links
        lines.append(line)
    return "\n".join(lines) + "\n"


def _linked(line: str, addresses: Mapping[str, str]) -> str:
    pieces = _CODE_OR_LINK.split(line)
    pieces[::2] = [
        _RULE_CODE.sub(lambda match: f"[{match[0]}]({addresses[match[0]]})", piece)
        for piece in pieces[::2]
    ]
    return "".join(pieces)
