"""Demangling of C++ symbols (Itanium C++ ABI, 5.1 "External Names")."""

import re
from collections.abc import Iterable
from itertools import chain

from wheelfix.grouping import flatten, grouped
from wheelfix.text import join_plain, join_some, quote

_MOST = 2000
"""Characters of a name that is spelled; a few substitutions can stand for millions."""
_DEPTH = 40
_SPECIAL = {
    "_ZTI": "typeinfo for ",
    "_ZTV": "vtable for ",
    "_ZTS": "typeinfo name for ",
    "_ZTT": "VTT for ",
    "_ZGV": "guard variable for ",
}
_STD = {
    "St": "std",
    "Sa": "std::allocator",
    "Sb": "std::basic_string",
    "Ss": "std::string",
    "Si": "std::istream",
    "So": "std::ostream",
    "Sd": "std::iostream",
}
_TYPES = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char",
    "h": "unsigned char", "s": "short", "t": "unsigned short", "i": "int", "j": "unsigned int",
    "l": "long", "m": "unsigned long", "x": "long long", "y": "unsigned long long",
    "n": "__int128", "o": "unsigned __int128", "f": "float", "d": "double", "e": "long double",
    "g": "__float128", "z": "...", "Dn": "decltype(nullptr)", "Di": "char32_t",
    "Ds": "char16_t", "Du": "char8_t", "Da": "auto",
}  # fmt: skip
_QUALIFIERS = {"P": "*", "R": "&", "O": "&&", "K": " const", "V": " volatile", "r": " restrict"}
_OPERATORS = {
    "nw": " new", "na": " new[]", "dl": " delete", "da": " delete[]", "aw": " co_await",
    "ng": "-", "ad": "&", "de": "*", "co": "~", "pl": "+", "mi": "-", "ml": "*", "dv": "/",
    "rm": "%", "an": "&", "or": "|", "eo": "^", "aS": "=", "pL": "+=", "mI": "-=", "mL": "*=",
    "dV": "/=", "rM": "%=", "aN": "&=", "oR": "|=", "eO": "^=", "ls": "<<", "rs": ">>",
    "lS": "<<=", "rS": ">>=", "eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=",
    "ge": ">=", "ss": "<=>", "nt": "!", "aa": "&&", "oo": "||", "pp": "++", "mm": "--",
    "cm": ",", "pm": "->*", "pt": "->", "cl": "()", "ix": "[]",
}  # fmt: skip
_SUFFIXES = {"m": "ul", "l": "l", "j": "u", "y": "ull", "x": "ll"}


class _UnknownError(Exception):
    """The symbol has something that is not spelled: local names, expressions, lambdas."""


def join_symbols(symbols: Iterable[str], most: int = 2) -> str:
    """List the first of the symbols, demangled, and count the rest: mangled names are long.

    Overloads have one name: others than the first come last, mangled.
    """
    by_name = _by_name(symbols)
    return join_some((*by_name, *flatten(same[1:] for same in by_name.values())), most)


def join_with_mangled(symbols: Iterable[str]) -> str:
    """List them as `join_symbols`, each also as the loader names it: errors are searched for."""
    by_name = _by_name(symbols)
    firsts = ((name, same[0]) for name, same in by_name.items())
    others = ((name, symbol) for name, same in by_name.items() for symbol in same[1:])
    return join_plain(
        (
            quote(name) + (f" ({quote(symbol)})" if name != symbol else "")
            for name, symbol in chain(firsts, others)
        ),
        2,
    )


def _by_name(symbols: Iterable[str]) -> dict[str, list[str]]:
    return grouped(dict.fromkeys(symbols), demangle)


def demangle(symbol: str) -> str:
    """Return the qualified name of a mangled `symbol`, without parameters.

    Names in functions, lambdas and expressions stay mangled, and so do symbols of C.
    """
    words = _SPECIAL.get(symbol[:4], "")
    rest = symbol[4:] if words else symbol.removeprefix("_Z")
    if not words and not symbol.startswith("_Z"):
        return symbol
    try:
        names = _Names(rest)
        name = names.type() if words.startswith(("t", "v", "V")) else names.name()
    except (_UnknownError, IndexError, RecursionError):
        return symbol
    return words + name


class _Names:
    """What is left of a mangled name, and the parts that substitutions refer to."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        """Where the rest begins: to cut it off at each part would copy it as often."""
        self._seen: list[str] = []
        self._arguments: list[str] = []
        self._last = ""
        self._depth = 0
        self._size = 0

    def name(self) -> str:
        """Return a name, plain or nested, with its template arguments; what follows is ignored."""
        if self._is("N"):
            return self._nested_name()
        if self._is("S"):
            name, is_known = self._substitution()
            if name == "std" and not is_known:
                name = f"std::{self._part()}"
            if self._is("I"):
                if not is_known:
                    self._remember(name)
                return self._remember(name + self._template())
            return name if is_known else self._remember(name)
        name = self._part()
        if self._is("I"):
            self._remember(name)
            return name + self._template()
        return name

    def type(self) -> str:
        """Return a type, and remember it for substitutions."""
        self._depth += 1
        if self._depth > _DEPTH:
            raise _UnknownError
        text, is_new = self._type()
        self._depth -= 1
        return self._remember(text) if is_new else self._check_length(text)

    def _type(self) -> tuple[str, bool]:
        """Return a type, and whether a substitution may refer to it."""
        for size in (2, 1):
            if self._ahead(size) in _TYPES:
                return _TYPES[self._take(size)], False
        first = self._text[self._at]
        if bounds := self._match(r"A(\d+)_"):
            self._take(len(bounds[0]))
            text = f"{self.type()} [{bounds[1]}]"
        elif self._is("Dp"):
            self._take(2)
            text = f"{self.type()}..."
        elif first == "F":
            self._take(1)
            text = "{} ({})".format(self.type(), ", ".join(self._types()))
        elif first == "T":
            text = self._parameter()
        else:
            text = self._qualified_name() if first in _QUALIFIERS else self.name()
        return text, first != "S"

    def _qualified_name(self) -> str:
        mark = _QUALIFIERS[self._take(1)]
        inner = self.type()
        if not inner.endswith((")", "]")):
            return inner + mark
        opening = " (" if inner.endswith(")") else " ["
        head, _, tail = inner.rpartition(opening)
        if mark not in {"*", "&", "&&"} or not head or "(" in head:
            raise _UnknownError  # pointers to pointers to functions, and the like
        return f"{head} ({mark}){opening.lstrip() if inner.endswith(')') else opening}{tail}"

    def _parameter(self) -> str:
        match = self._match(r"T(\d{0,9})_")
        number = -1 if match is None else int(match[1] or -1) + 1
        if match is None or number >= len(self._arguments):
            raise _UnknownError
        self._take(len(match[0]))
        return self._arguments[number]

    def _types(self) -> list[str]:
        types: list[str] = []
        while not self._is("E"):
            types.append(self.type())
        self._take(1)
        return [] if types == ["void"] else types

    def _nested_name(self) -> str:
        match = self._match(r"N[rVK]*[RO]?")
        self._take(len(match[0]) if match else 1)
        name = ""
        while not self._is("E"):
            if self._is("S"):
                name, _ = self._substitution()
                continue
            if self._is("T"):
                name = self._remember(self._parameter())
                continue
            if self._is("I"):
                name += self._template()
            else:
                part = self._part()
                name = f"{name}::{part}" if name else part
            if not self._is("E"):
                self._remember(name)
        self._take(1)
        if not name:
            raise _UnknownError
        return self._check_length(name)

    def _part(self) -> str:
        """Return one part of a name: an identifier, a constructor, an operator."""
        if match := self._match(r"L?(\d{1,4})"):
            self._take(len(match[0]))
            name = self._take(int(match[1]))
            if not name.isidentifier() and "." not in name:
                raise _UnknownError
            name = "(anonymous namespace)" if name.startswith("_GLOBAL__N") else name
        elif match := self._match(r"C[123]|D[0-2]"):
            if not self._last:
                raise _UnknownError
            name = self._last if self._take(2)[0] == "C" else f"~{self._last}"
        elif self._ahead(2) in _OPERATORS:
            return f"operator{_OPERATORS[self._take(2)]}"
        elif self._is("cv"):
            self._take(2)
            return f"operator {self.type()}"
        else:
            raise _UnknownError
        while match := self._match(r"B(\d{1,3})"):
            self._take(len(match[0]))
            name += f"[abi:{self._take(int(match[1]))}]"
        self._last = name.partition("[")[0].removeprefix("~")
        return name

    def _template(self) -> str:
        """Return template arguments with their brackets."""
        self._take(1)
        last, arguments = self._last, self._template_arguments()
        self._last, self._arguments = last, arguments
        inside = ", ".join(arguments)
        return self._check_length(f"<{inside}{' ' if inside.endswith('>') else ''}>")

    def _template_arguments(self) -> list[str]:
        arguments: list[str] = []
        while not self._is("E"):
            if self._is("J"):
                self._take(1)
                arguments += self._template_arguments()
            elif match := self._match(r"L([a-z])(n?)(\d+)E"):
                self._take(len(match[0]))
                arguments.append(_literal(match[1], match[2], match[3]))
            else:
                arguments.append(self.type())
        self._take(1)
        return arguments

    def _substitution(self) -> tuple[str, bool]:
        """Return what a substitution stands for, and whether it was spelled in this symbol."""
        if match := self._match(r"S([0-9A-Z]{0,9})_"):
            self._take(len(match[0]))
            number = int(match[1], 36) + 1 if match[1] else 0
            if number >= len(self._seen):
                raise _UnknownError
            text = self._seen[number]
            self._last = re.sub(r"<.*", "", text).rpartition("::")[2]
            return self._check_length(text), True
        text = _STD.get(self._take(2), "")
        if not text:
            raise _UnknownError
        self._last = {"Ss": "basic_string"}.get(text, text.rpartition("::")[2])
        return text, text != "std"

    def _remember(self, name: str) -> str:
        self._seen.append(self._check_length(name))
        return name

    def _check_length(self, name: str) -> str:
        self._size += len(name)
        if len(name) > _MOST or self._size > 100 * _MOST:
            raise _UnknownError
        return name

    def _ahead(self, size: int) -> str:
        return self._text[self._at : self._at + size]

    def _is(self, start: str) -> bool:
        return self._text.startswith(start, self._at)

    def _match(self, pattern: str) -> re.Match[str] | None:
        return re.compile(pattern).match(self._text, self._at)

    def _take(self, size: int) -> str:
        taken = self._ahead(size)
        if size > len(taken):
            raise _UnknownError
        self._at += size
        return taken


def _literal(kind: str, sign: str, digits: str) -> str:
    """Return a literal as C++ spells it."""
    if kind == "b":
        return {"0": "false", "1": "true"}.get(digits, digits)
    number = f"{'-' if sign else ''}{digits}"
    if kind == "i" or kind in _SUFFIXES:
        return number + _SUFFIXES.get(kind, "")
    return f"({_TYPES.get(kind, kind)}){number}"
