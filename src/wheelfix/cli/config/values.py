"""Parsers and JSON schemas of settings: from tables of files and flags to `Settings`.

Every layer (file, environment, flags) is a table whose keys are the fields of `Settings` in
kebab-case, so that all values are parsed alike.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from enum import StrEnum
from functools import partial
from inspect import isclass
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

from wheelfix.elf.model import ORIGIN
from wheelfix.errors import SettingsError
from wheelfix.named_tuple import NamedTuple
from wheelfix.rules.stated_rules import StatedRule
from wheelfix.settings import (
    SCHEMES,
    SETTING_FIELDS,
    Component,
    FileLists,
    PathList,
    ProviderSetting,
    SettingField,
    Settings,
    SeverityLabel,
    Size,
    Specifier,
    Suffix,
    SymbolContract,
)
from wheelfix.system import deferred
from wheelfix.text import join_some

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
                f"{source}: there is no setting `{key}`",
                hint=suggestion(key, [*FIELDS, "overrides"]),
            )
        field = FIELDS[key]
        value = kind_of(field).parse(given, f"{source}: `{key}`")
        below = getattr(base, field.name)
        changes[field.name] = _add(below, value) if field.setting.is_added else value
    return replace(base, **changes)


def suggestion(word: str, known: Iterable[str]) -> str | None:
    """Return a hint with the words of `known` closest to `word`, or of which it is a part."""
    spelled = {name.lower(): name for name in known}
    plain = word.lower().replace("_", "-")
    near = get_close_matches(plain, spelled, n=3)
    if not near and len(plain) >= _PART:
        near = sorted(name for name in spelled if word.lower() in name)[:3]
    return (
        "did you mean " + " or ".join(f"`{spelled[name]}`" for name in near) + "?" if near else None
    )


_PART = 4
"""The characters of a part of a name, at least: fewer are in too many names."""


def rule_suggestion(selector: str, rules: Iterable[StatedRule]) -> str:
    """Return a hint on the rules that `selector` may mean, which is not the code or name of one."""
    known = {rule.code: rule.name for rule in rules}
    if re.fullmatch(r"WF\d+", selector, re.IGNORECASE):
        prefixes = (selector[:length].upper() for length in range(len(selector), 2, -1))
        for prefix in prefixes:
            if codes := [code for code in known if code.startswith(prefix)]:
                return f"those that begin with {prefix} are {join_some(codes, 12)}"
    near = suggestion(selector, [*known, *known.values()])
    return near or "`wheelfix rule --all` lists the rules"


def _add(below: object, value: object) -> object:
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


def _numbers(least: float | None, most: float | None) -> Kind:
    bounds = {"minimum": least, "maximum": most}
    schema = {key: bound for key, bound in bounds.items() if bound is not None}
    return Kind(partial(_number, least, most), {"type": "integer", **schema}, int)


def _boolean(given: object, where: str) -> bool:
    if not isinstance(given, bool):
        raise SettingsError(f"{where} is {_quote(given)}; it must be true or false")
    return given


def _number(least: float | None, most: float | None, value: object, where: str) -> int:
    number = value if isinstance(value, int) and not isinstance(value, bool) else None
    is_low = number is not None and least is not None and number < least
    is_high = number is not None and most is not None and number > most
    if number is None or is_low or is_high:
        bounds = f"{least} to {most}" if most is not None else f"{least} or more"
        raise SettingsError(f"{where} is {_quote(value)}; it must be a number, {bounds}")
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
            f"{where} is {_quote(given)}; it must be a size", hint="such as `50MB` or `48MiB`"
        )
    return Size(round(float(match[1]) * unit) if "." in match[1] else int(match[1]) * unit)


def _choice(kind: type[StrEnum], value: object, where: str) -> StrEnum:
    choices = [choice.value for choice in kind]
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(f"`{choice}`" for choice in choices)
        hint = suggestion(value, choices) if isinstance(value, str) else None
        raise SettingsError(f"{where} is {_quote(value)}; it must be one of {listed}", hint=hint)
    return kind(value)


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise SettingsError(f"{where} is {_quote(value)}; it must be a string that is not empty")
    return value


def _specifier(given: object, where: str) -> Specifier:
    text = _text(given, where)
    try:
        specifiers = deferred.specifiers.SpecifierSet(text)
        specifiers.contains("1")  # which reads the numbers
        return Specifier(specifiers)
    except ValueError as error:  # InvalidSpecifier, or a number with thousands of digits
        raise SettingsError(
            f"{where} is {_quote(given)}; it must be a version specifier (PEP 440)",
            hint="such as `>=0.1` or `==0.1.*`",
        ) from error


def _path_list(value: object, where: str) -> PathList:
    if not isinstance(value, str) or "\0" in value or ORIGIN.search(value):
        raise SettingsError(
            f"{where} is {_quote(value)}; it must be a string of directories without `$ORIGIN`",
            hint="separate them by colons: `/opt/lib:sysroot/lib`",
        )
    return PathList(value)


def _suffix(value: object, where: str) -> Suffix:
    if not isinstance(value, str) or ".." in value.split("/") or "\0" in value:
        raise SettingsError(
            f"{where} is {_quote(value)}; it must be a string without the path component `..`",
            hint='`.libs` makes the directory pkg.libs, "/libs" makes pkg/libs',
        )
    return Suffix(value)


def _path(given: object, where: str) -> Path:
    return Path(_text(given, where))


def _list(
    what: str, parse: Callable[[object, str], _T], given: object, where: str
) -> tuple[_T, ...]:
    if not isinstance(given, list | tuple):
        key = where.rpartition("`")[0].rpartition("`")[2]
        raise SettingsError(
            f"{where} is {_quote(given)}; it must be a list of {what}",
            hint=f"{key} = [{json.dumps(given)}]" if isinstance(given, str) and key else None,
        )
    items = enumerate(cast("list[object]", given), start=1)
    return tuple(parse(item, f"{where}, item {number}") for number, item in items)


def _texts(given: object, where: str) -> tuple[str, ...]:
    return _list("strings", _text, given, where)


def _quote(value: object) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, Mapping):
        return "a table"
    return f"`{value}`" if isinstance(value, int | float | str) else "a list"


# --- Tables ---------------------------------------------------------------------------------------


def _table(given: object, where: str, keys: Iterable[str]) -> Mapping[str, object]:
    """Return `given` if it is a table that has no other key than `keys`."""
    if not isinstance(given, Mapping):
        raise SettingsError(f"{where} is {_quote(given)}; it must be a table")
    table = cast("Mapping[str, object]", given)
    for key in table:
        if key not in keys:
            raise SettingsError(
                f"{where}: there is no key `{key}`",
                hint=suggestion(key, keys) or f"the keys are {', '.join(keys)}",
            )
    return table


def _fields(kinds: Mapping[str, "Kind"], given: object, where: str) -> dict[str, Any]:
    """Return the fields that a table sets, each parsed by the kind of its key."""
    table = _table(given, where, kinds)
    return {
        key.replace("-", "_"): kinds[key].parse(value, f"{where}, `{key}`")
        for key, value in table.items()
    }


def _schema(kinds: Mapping[str, "Kind"], **more: object) -> dict[str, Any]:
    properties = {key: kind.schema for key, kind in kinds.items()}
    return {"type": "object", "additionalProperties": False, **more, "properties": properties}


def _contract(given: object, where: str) -> SymbolContract:
    """Parse an item of `[[tool.wheelfix.symbols]]`."""
    fields = _fields(_CONTRACT, given, where)
    keys = {key.replace("_", "-") for key in fields}
    if not fields.get("objects"):
        raise SettingsError(f"{where} has no `objects`", hint='such as objects = ["libfoo.so*"]')
    if keys.isdisjoint(_EXPORTS + _IMPORTS):
        listed = ", ".join((*_EXPORTS, *_IMPORTS))
        raise SettingsError(f"{where} allows and forbids nothing", hint=f"add one of {listed}")
    if "imports-of" in keys and keys.isdisjoint(_IMPORTS):
        raise SettingsError(f"{where} has `imports-of` without `imports` or `never-imports`")
    return SymbolContract(**fields)


def _provider(given: object, where: str) -> ProviderSetting:
    """Parse an item of `[[tool.wheelfix.provider]]`, or a text that is looked up later."""
    if isinstance(given, str):
        return ProviderSetting(source=_text(given, where))
    table = _table(given, where, ("requirement", "libraries", "directory", "scheme"))
    requirement = _text(table.get("requirement", ""), f"{where}, `requirement`")
    try:
        deferred.requirements.Requirement(requirement)
    except deferred.requirements.InvalidRequirement as error:
        raise SettingsError(
            f"{where}: `{requirement}` is not a requirement",
            hint="such as nvidia-cublas-cu12>=12.4",
        ) from error
    scheme = table.get("scheme", SCHEMES[0])
    if scheme not in SCHEMES:
        raise SettingsError(f"{where}: `scheme` must be one of {', '.join(SCHEMES)}")
    if ("libraries" in table) != ("directory" in table):
        raise SettingsError(
            f"{where} must have both `libraries` and `directory`, or neither",
            hint="without them, both are looked up by the name of the requirement",
        )
    libraries = _texts(table.get("libraries", ()), f"{where}, `libraries`")
    return ProviderSetting(
        requirement=requirement,
        libraries=libraries,
        directory=_folder(table["directory"], f"{where}, `directory`") if libraries else None,
        scheme=str(scheme),
    )


def _component(given: object, where: str) -> Component:
    """Parse an item of `[[tool.wheelfix.component]]`."""
    fields = _fields(_COMPONENT, given, where)
    if "name" not in fields:
        raise SettingsError(f"{where} has no `name`", hint='such as name = "zlib"')
    return Component(**fields)


def _file_lists(given: object, where: str) -> FileLists:
    """Parse the table `files`."""
    return FileLists(**_fields(_FILE_LISTS, given, where))


def _license(given: object, where: str) -> str:
    text = _text(given, where)
    try:
        return str(deferred.licenses.canonicalize_license_expression(text))
    except deferred.licenses.InvalidLicenseExpression as error:
        raise SettingsError(
            f"{where} is {_quote(given)}; it must be an SPDX license expression",
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
                f"{where}: the reason for `{selector}` is {_quote(reason)}; it must be a string"
            )
        reasons[_text(selector, where)] = reason
    return reasons


def _pairs(given: object, where: str, separator: str) -> Mapping[str, object]:
    """Return a table as it is, or texts such as `WF113=error` split at `separator`."""
    if isinstance(given, Mapping):
        return cast("Mapping[str, object]", given)
    if not isinstance(given, list | tuple):
        problem = f"{where} is {_quote(given)}; it must be a table, or a list of strings"
        raise SettingsError(problem, hint=f'such as ["{_PAIRED[separator]}"]')
    pairs: dict[str, object] = {}
    for text in _texts(cast("object", given), where):
        name, separated, value = text.rpartition(separator)
        if not separated or not name or not value:
            problem = f"{where}: `{text}` has no `{separator}` between two words"
            raise SettingsError(problem, hint=f"such as '{_PAIRED[separator]}'")
        pairs[name] = value
    return pairs


_PAIRED = {"=": "WF111=error", ":": "*:WF201"}
"""Separator -> an example of a text with it; in single quotes it is one in TOML and in a shell."""


_SEVERITIES: dict[str, SeverityLabel] = {label: label for label in get_args(SeverityLabel)}


def _severities(given: object, where: str) -> dict[str, SeverityLabel]:
    severities: dict[str, SeverityLabel] = {}
    for selector, value in _pairs(given, where, "=").items():
        label = _SEVERITIES.get(value) if isinstance(value, str) else None
        if label is None:
            listed = ", ".join(f"`{label}`" for label in _SEVERITIES)
            raise SettingsError(f"{where}: `{selector}` is {_quote(value)}; it must be {listed}")
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
_TEXT = Kind(_text, TEXT_SCHEMA, str)
_TEXTS = Kind(_texts, {"type": "array", "items": TEXT_SCHEMA})
_SIZE: Mapping[str, Any] = {
    "type": "string",
    "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*([KMGkmg]([Ii]?[Bb])?|[Bb])?\s*$",
}
_EXPORTS = ("exports", "never-exports", "must-export")
_IMPORTS = ("imports", "never-imports")
_CONTRACT = {
    "objects": Kind(_texts, {**_TEXTS.schema, "minItems": 1}),
    **dict.fromkeys(_EXPORTS, _TEXTS),
    "imports-of": _TEXT,
    **dict.fromkeys(_IMPORTS, _TEXTS),
}
_CONTRACT_SCHEMA = _schema(
    _CONTRACT,
    required=["objects"],
    anyOf=[{"required": [key]} for key in (*_EXPORTS, *_IMPORTS)],
    dependentSchemas={"imports-of": {"anyOf": [{"required": [key]} for key in _IMPORTS]}},
)
_FOLDER = r"^(?!/)(?!(.*/)?\.{1,2}(/|$))(?!.*//.)(?=.*\S)"
"""Relative, and without `.` and `..`."""
_PROVIDER: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["requirement"],
    "dependentRequired": {"libraries": ["directory"], "directory": ["libraries"]},
    "properties": {
        "requirement": {"type": "string", "pattern": r"^\s*[A-Za-z0-9]"},
        "libraries": _TEXTS.schema,
        "directory": {"type": "string", "pattern": _FOLDER},
        "scheme": {"enum": list(SCHEMES)},
    },
}

_COMPONENT = {
    "name": _TEXT,
    "version": _TEXT,
    "license": Kind(_license, TEXT_SCHEMA),
    "license-files": _TEXTS,
    "libraries": _TEXTS,
}
_FILE_LISTS = {"only": _TEXTS, "must": _TEXTS}


_PROVIDERS = {"type": "array", "items": {"anyOf": [TEXT_SCHEMA, _PROVIDER]}}


def _map_to(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"type": "object", "additionalProperties": schema}


_KINDS: Mapping[object, Kind] = {
    bool: Kind(_boolean, {"type": "boolean"}, bool),
    str: _TEXT,
    str | None: _TEXT,
    Specifier | None: Kind(_specifier, TEXT_SCHEMA, str),
    Path: Kind(_path, TEXT_SCHEMA, Path),
    PathList | None: Kind(_path_list, {"type": "string"}, str),
    Suffix: Kind(_suffix, {"type": "string", "pattern": _SUFFIX}, str),
    Size: Kind(_size, {"anyOf": [{"type": "integer", "minimum": 0}, _SIZE]}, str),
    tuple[str, ...]: _TEXTS,
    tuple[SymbolContract, ...]: Kind(
        partial(_list, "tables", _contract), {"type": "array", "items": _CONTRACT_SCHEMA}
    ),
    tuple[ProviderSetting, ...]: Kind(partial(_list, "tables", _provider), _PROVIDERS),
    tuple[Component, ...]: Kind(
        partial(_list, "tables", _component),
        {"type": "array", "items": _schema(_COMPONENT, required=["name"])},
    ),
    FileLists: Kind(_file_lists, _schema(_FILE_LISTS)),
    Mapping[str, str]: Kind(_reasons, {"anyOf": [_TEXTS.schema, _map_to({"type": "string"})]}),
    Mapping[str, SeverityLabel]: Kind(_severities, _map_to({"enum": list(_SEVERITIES)})),
    Mapping[str, tuple[str, ...]]: Kind(
        _per_file, _map_to({"anyOf": [TEXT_SCHEMA, _TEXTS.schema]})
    ),
}
"""The kinds by type, except those of numbers and choices."""
