"""Demangling of C++ symbols (Itanium C++ ABI)."""

import re

_NESTED = re.compile(r"_ZN[rVK]*([RO]?)(.+)")
_PLAIN = re.compile(r"_Z(\d.*)")
_SPECIAL = {"_ZTI": "typeinfo for ", "_ZTV": "vtable for ", "_ZTS": "typeinfo name for "}


def demangle(symbol: str) -> str:
    """Return the qualified name of a mangled `symbol`, without parameters.

    Only plain and nested names are demangled (Itanium C++ ABI, "External Names"). Templates,
    operators and the standard library's abbreviations stay mangled, and so do symbols of C.
    """
    words = _SPECIAL.get(symbol[:4])
    if words is None:
        return _name(symbol)
    name = _name("_Z" + symbol[4:])
    return symbol if name.startswith("_Z") else words + name


def _name(symbol: str) -> str:
    """Return the qualified name of a function, a variable or a type."""
    nested = _NESTED.fullmatch(symbol)
    plain = _PLAIN.fullmatch(symbol)
    if nested:
        parts, rest = _source_names(nested[2])
        if rest[:2] in {"C1", "C2"} and parts:
            parts.append(parts[-1])
            rest = rest[2:]
        elif rest[:2] in {"D0", "D1", "D2"} and parts:
            parts.append(f"~{parts[-1]}")
            rest = rest[2:]
        return "::".join(parts) if parts and rest.startswith("E") else symbol
    if plain:
        parts, rest = _source_names(plain[1], most=1)
        return parts[0] if parts and not rest.startswith("I") else symbol
    return symbol


def _source_names(text: str, most: int = 100) -> tuple[list[str], str]:
    """Split `<length><name>` pairs off the front of `text`."""
    names: list[str] = []
    while len(names) < most and (match := re.match(r"(\d{1,4})", text)):
        size = int(match[1])
        name = text[match.end() : match.end() + size]
        if len(name) < size or not name.isidentifier():
            break
        names.append(name)
        text = text[match.end() + size :]
    return names, text
