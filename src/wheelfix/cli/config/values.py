"""Parsers and JSON schemas of settings: from tables of files and flags to `Settings`.

Every layer (file, environment, flags) is a table whose keys are the fields of `Settings` in
kebab-case, so that all values are parsed alike.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from enum import StrEnum
from functools import partial
from inspect import isclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast, get_args

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from wheelfix.errors import SettingsError
from wheelfix.settings import (
    SCHEMES,
    SETTING_FIELDS,
    Component,
    Provider,
    Requirement,
    SettingField,
    Settings,
    SeverityLabel,
    Size,
    Specifier,
    Suffix,
    name_of,
)

_T = TypeVar("_T")
FIELDS = {field.key: field for field in SETTING_FIELDS}
"""The fields of `Settings` by their key in a table."""


def settings_from(table: Mapping[str, object], base: Settings, source: str) -> Settings:
    """Return `base` changed by `table`; `source` names the table in messages.

    Raises `SettingsError` for a key or a value that does not exist.
    """
    changes: dict[str, Any] = {}
    for key, given in table.items():
        if key not in FIELDS:
            raise SettingsError(
                f"{source}: there is no setting `{key}`", hint=suggestion(key, FIELDS)
            )
        field = FIELDS[key]
        value = kind_of(field).parse(given, f"{source}: `{key}`")
        below = getattr(base, field.name)
        changes[field.name] = _added(below, value) if field.setting.is_added else value
    return replace(base, **changes)


def suggestion(word: str, known: Iterable[str]) -> str | None:
    """Return a hint with the words of `known` closest to `word`; None if none is close."""
    spelled = {name.lower(): name for name in known}
    near = get_close_matches(word.lower().replace("_", "-"), spelled, n=3)
    return (
        "did you mean " + " or ".join(f"`{spelled[name]}`" for name in near) + "?" if near else None
    )


def _added(below: object, value: object) -> object:
    if isinstance(below, tuple):
        return (*cast("tuple[str, ...]", below), *cast("tuple[str, ...]", value))
    return {**cast("Mapping[str, object]", below), **cast("Mapping[str, object]", value)}


# --- Kinds of values ------------------------------------------------------------------------------


class Kind(NamedTuple):
    """How the values of one type are parsed, described and given as a flag."""

    parse: Callable[[object, str], object]
    """From what stands in a table; the second argument names the value in messages."""
    schema: Mapping[str, Any]
    """JSON Schema (2020-12)."""
    flag: Any = list[str]
    """The type of the flag's value for typer."""


def kind_of(field: SettingField) -> Kind:
    """Return the kind of the values of `field`."""
    if field.type is int:
        return _numbers(field.setting.least, field.setting.most)
    choices = _choices(field.type)
    if choices is not None:
        values = [choice.value for choice in choices]
        return Kind(partial(_choice, choices), {"enum": values}, choices)
    return _KINDS[field.type]


def _choices(annotation: Any) -> type[StrEnum] | None:  # noqa: ANN401 - any annotation
    return annotation if isclass(annotation) and issubclass(annotation, StrEnum) else None


def _numbers(least: int | None, most: int | None) -> Kind:
    bounds = {"minimum": least, "maximum": most}
    schema = {key: bound for key, bound in bounds.items() if bound is not None}
    return Kind(partial(_number, least, most), {"type": "integer", **schema}, int)


def _boolean(given: object, where: str) -> bool:
    if not isinstance(given, bool):
        raise SettingsError(f"{where} is {_shown(given)}; it must be true or false")
    return given


def _number(least: int | None, most: int | None, given: object, where: str) -> int:
    number = given if isinstance(given, int) and not isinstance(given, bool) else None
    is_low = number is not None and least is not None and number < least
    is_high = number is not None and most is not None and number > most
    if number is None or is_low or is_high:
        bounds = f"{least} to {most}" if most is not None else f"{least} or more"
        raise SettingsError(f"{where} is {_shown(given)}; it must be a number, {bounds}")
    return number


_UNITS = {"": 1, "B": 1, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30} | {
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "K": 10**3, "M": 10**6, "G": 10**9,
}  # fmt: skip


def _size(given: object, where: str) -> Size:
    """Return bytes from a number of them, or from a text such as `1.5 MB` or `48MiB`."""
    text = str(given).strip() if isinstance(given, int | str) else ""
    match = re.fullmatch(r"(\d{1,18}(?:\.\d{1,18})?)\s*([A-Za-z]*)", text, re.ASCII)
    unit = _UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None:
        raise SettingsError(
            f"{where} is {_shown(given)}; it must be a size", hint="such as `50MB` or `48MiB`"
        )
    return Size(round(float(match[1]) * unit) if "." in match[1] else int(match[1]) * unit)


def _choice(kind: type[StrEnum], given: object, where: str) -> StrEnum:
    choices = [choice.value for choice in kind]
    if not isinstance(given, str) or given not in choices:
        listed = ", ".join(f"`{choice}`" for choice in choices)
        hint = suggestion(given, choices) if isinstance(given, str) else None
        raise SettingsError(f"{where} is {_shown(given)}; it must be one of {listed}", hint=hint)
    return kind(given)


def _text(given: object, where: str) -> str:
    if not isinstance(given, str) or not given.strip() or "\0" in given:
        raise SettingsError(f"{where} is {_shown(given)}; it must be a string that is not empty")
    return given


def _specifier(given: object, where: str) -> Specifier:
    text = _text(given, where)
    try:
        return Specifier(SpecifierSet(text))
    except InvalidSpecifier as error:
        raise SettingsError(
            f"{where} is {_shown(given)}; it must be a version specifier (PEP 440)",
            hint="such as `>=0.1` or `==0.1.*`",
        ) from error


def _suffix(given: object, where: str) -> Suffix:
    if not isinstance(given, str) or ".." in given.split("/") or "\0" in given:
        raise SettingsError(
            f"{where} is {_shown(given)}; it must be a string without the path component `..`",
            hint='`.libs` makes the directory pkg.libs, "/libs" makes pkg/libs',
        )
    return Suffix(given)


def _path(given: object, where: str) -> Path:
    return Path(_text(given, where))


def _list(
    what: str, parse: Callable[[object, str], _T], given: object, where: str
) -> tuple[_T, ...]:
    if not isinstance(given, list | tuple):
        raise SettingsError(f"{where} is {_shown(given)}; it must be a list of {what}")
    items = enumerate(cast("list[object]", given), start=1)
    return tuple(parse(item, f"{where}, item {number}") for number, item in items)


def _texts(given: object, where: str) -> tuple[str, ...]:
    return _list("strings", _text, given, where)


def _shown(given: object) -> str:
    if isinstance(given, bool):
        return f"`{str(given).lower()}`"
    if isinstance(given, Mapping):
        return "a table"
    return f"`{given}`" if isinstance(given, int | float | str) else "a list"


# --- Tables ---------------------------------------------------------------------------------------


def _table(given: object, where: str, keys: Iterable[str]) -> Mapping[str, object]:
    """Return `given` if it is a table that has no other key than `keys`."""
    if not isinstance(given, Mapping):
        raise SettingsError(f"{where} is {_shown(given)}; it must be a table")
    table = cast("Mapping[str, object]", given)
    for key in table:
        if key not in keys:
            raise SettingsError(f"{where}: there is no key `{key}`", hint=suggestion(key, keys))
    return table


def _requirement(given: object, where: str) -> Requirement:
    """Parse an item of `[[tool.wheelfix.require]]`, or a text such as `libx.so=x_*,y_*`."""
    if isinstance(given, str):
        library, _, symbols = given.partition("=")
        given = {"library": library, "symbols": [glob for glob in symbols.split(",") if glob]}
    table = _table(given, where, ("library", "symbols"))
    if "library" not in table:
        raise SettingsError(f"{where} has no `library`", hint='such as library = "libx.so*"')
    return Requirement(
        library=_text(table["library"], f"{where}, `library`"),
        symbols=_texts(table.get("symbols", ()), f"{where}, `symbols`"),
    )


def _provider(given: object, where: str) -> Provider:
    """Parse an item of `[[tool.wheelfix.provider]]`, or a text that is looked up later."""
    if isinstance(given, str):
        return Provider(source=_text(given, where))
    table = _table(given, where, ("requirement", "libraries", "directory", "scheme"))
    requirement = _text(table.get("requirement", ""), f"{where}, `requirement`")
    if not name_of(requirement):
        raise SettingsError(
            f"{where}: `{requirement}` is not a requirement",
            hint="such as nvidia-cublas-cu12>=12.4",
        )
    scheme = table.get("scheme", SCHEMES[0])
    if scheme not in SCHEMES:
        raise SettingsError(f"{where}: `scheme` must be one of {', '.join(SCHEMES)}")
    if ("libraries" in table) != ("directory" in table):
        raise SettingsError(
            f"{where} must have both `libraries` and `directory`, or neither",
            hint="without them, both are looked up by the name of the requirement",
        )
    libraries = _texts(table.get("libraries", ()), f"{where}, `libraries`")
    return Provider(
        requirement=requirement,
        libraries=libraries,
        directory=_folder(table["directory"], f"{where}, `directory`") if libraries else None,
        scheme=str(scheme),
    )


_COMPONENT_KEYS = ("name", "version", "license", "license-files", "libraries")


def _component(given: object, where: str) -> Component:
    """Parse an item of `[[tool.wheelfix.component]]`."""
    table = _table(given, where, _COMPONENT_KEYS)
    if "name" not in table:
        raise SettingsError(f"{where} has no `name`", hint='such as name = "zlib"')
    return Component(
        name=_text(table["name"], f"{where}, `name`"),
        version=_text(table["version"], f"{where}, `version`") if "version" in table else "",
        license=_license(table["license"], f"{where}, `license`") if "license" in table else "",
        license_files=_texts(table.get("license-files", ()), f"{where}, `license-files`"),
        libraries=_texts(table.get("libraries", ()), f"{where}, `libraries`"),
    )


def _license(given: object, where: str) -> str:
    text = _text(given, where)
    try:
        return str(canonicalize_license_expression(text))
    except InvalidLicenseExpression as error:
        raise SettingsError(
            f"{where} is {_shown(given)}; it must be an SPDX license expression",
            hint="such as `MIT`, `GPL-3.0-or-later WITH GCC-exception-3.1`, or `LicenseRef-Own`",
        ) from error


def _folder(given: object, where: str) -> str:
    """Return a folder relative to site-packages."""
    folder = _text(given, where).rstrip("/")
    if folder.startswith("/") or not {".", "..", ""}.isdisjoint(folder.split("/")):
        raise SettingsError(f"{where} is `{folder}`; it must be relative to site-packages")
    return folder


# --- Mappings -------------------------------------------------------------------------------------


def _reasons(given: object, where: str) -> dict[str, str]:
    """Return selector -> reason, from a table of them or from a list without reasons."""
    if not isinstance(given, Mapping):
        return dict.fromkeys(_texts(given, where), "")
    reasons: dict[str, str] = {}
    for selector, reason in cast("Mapping[str, object]", given).items():
        if not isinstance(reason, str):
            raise SettingsError(
                f"{where}: the reason for `{selector}` is {_shown(reason)}; it must be a string"
            )
        reasons[_text(selector, where)] = reason
    return reasons


def _pairs(given: object, where: str, separator: str) -> Mapping[str, object]:
    """Return a table as it is, or texts such as `WF113=error` split at `separator`."""
    if isinstance(given, Mapping):
        return cast("Mapping[str, object]", given)
    pairs: dict[str, object] = {}
    for text in _texts(given, where):
        name, found, value = text.rpartition(separator)
        if not found or not name or not value:
            raise SettingsError(f"{where}: `{text}` has no `{separator}` between two words")
        pairs[name] = value
    return pairs


_SEVERITIES: dict[str, SeverityLabel] = {label: label for label in get_args(SeverityLabel)}


def _severities(given: object, where: str) -> dict[str, SeverityLabel]:
    severities: dict[str, SeverityLabel] = {}
    for selector, value in _pairs(given, where, "=").items():
        label = _SEVERITIES.get(value) if isinstance(value, str) else None
        if label is None:
            listed = ", ".join(f"`{label}`" for label in _SEVERITIES)
            raise SettingsError(f"{where}: `{selector}` is {_shown(value)}; it must be {listed}")
        severities[_text(selector, where)] = label
    return severities


def _per_file(given: object, where: str) -> dict[str, tuple[str, ...]]:
    ignores: dict[str, tuple[str, ...]] = {}
    for glob, rules in _pairs(given, where, ":").items():
        listed = rules.split(",") if isinstance(rules, str) else rules
        ignores[_text(glob, where)] = tuple(
            selector.strip() for selector in _texts(listed, f"{where}: `{glob}`")
        )
    return ignores


# --- The table of kinds ---------------------------------------------------------------------------

_SUFFIX = r"^(?!(.*/)?\.\.(/|$))"
"""Without `..`."""
TEXT_SCHEMA: Mapping[str, Any] = {"type": "string", "pattern": r"\S"}
_TEXTS: Mapping[str, Any] = {"type": "array", "items": TEXT_SCHEMA}
_SIZE: Mapping[str, Any] = {
    "type": "string",
    "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*([KMGkmg]([Ii]?[Bb])?|[Bb])?\s*$",
}
_REQUIREMENT: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["library"],
    "properties": {"library": TEXT_SCHEMA, "symbols": _TEXTS},
}
_FOLDER = r"^(?!/)(?!(.*/)?\.{1,2}(/|$))(?!.*//.)(?=.*\S)"
"""Relative, and without `.` and `..`."""
_PROVIDER: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["requirement"],
    "dependentRequired": {"libraries": ["directory"], "directory": ["libraries"]},
    "properties": {
        "requirement": {"type": "string", "pattern": r"^\s*[A-Za-z0-9]"},
        "libraries": _TEXTS,
        "directory": {"type": "string", "pattern": _FOLDER},
        "scheme": {"enum": list(SCHEMES)},
    },
}

_COMPONENT: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name"],
    "properties": {
        "name": TEXT_SCHEMA,
        "version": TEXT_SCHEMA,
        "license": TEXT_SCHEMA,
        "license-files": _TEXTS,
        "libraries": _TEXTS,
    },
}


def _list_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"type": "array", "items": {"anyOf": [TEXT_SCHEMA, schema]}}


def _map_to(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"type": "object", "additionalProperties": schema}


_KINDS: Mapping[object, Kind] = {
    bool: Kind(_boolean, {"type": "boolean"}, bool),
    str: Kind(_text, TEXT_SCHEMA, str),
    str | None: Kind(_text, TEXT_SCHEMA, str),
    Specifier | None: Kind(_specifier, TEXT_SCHEMA, str),
    Path: Kind(_path, TEXT_SCHEMA, Path),
    Suffix: Kind(_suffix, {"type": "string", "pattern": _SUFFIX}, str),
    Size: Kind(_size, {"anyOf": [{"type": "integer", "minimum": 0}, _SIZE]}, str),
    tuple[str, ...]: Kind(_texts, _TEXTS),
    tuple[Requirement, ...]: Kind(partial(_list, "tables", _requirement), _list_of(_REQUIREMENT)),
    tuple[Provider, ...]: Kind(partial(_list, "tables", _provider), _list_of(_PROVIDER)),
    tuple[Component, ...]: Kind(
        partial(_list, "tables", _component), {"type": "array", "items": _COMPONENT}
    ),
    Mapping[str, str]: Kind(_reasons, {"anyOf": [_TEXTS, _map_to({"type": "string"})]}),
    Mapping[str, SeverityLabel]: Kind(_severities, _map_to({"enum": list(_SEVERITIES)})),
    Mapping[str, tuple[str, ...]]: Kind(_per_file, _map_to({"anyOf": [TEXT_SCHEMA, _TEXTS]})),
}
"""The kinds by type, except those of numbers and choices."""
