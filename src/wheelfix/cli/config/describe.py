"""Settings described: as a commented table, as what holds for a wheel, and as a JSON schema."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from textwrap import wrap
from typing import Any, cast, get_type_hints

from wheelfix.cli.config.values import LEAST, MOST, RUN_WIDE
from wheelfix.rules.findings import Severity
from wheelfix.settings import SCHEMES, Provider, Requirement, Settings, Size

_EXAMPLES: Mapping[str, str] = {
    "ldpaths": "/opt/lib:/usr/lib64",
    "baseline": "wheelfix-baseline.json",
    "against": "old.whl",
}
"""What to show where the default is not to be set at all."""
_OVERRIDES = """\
# Other settings for some wheels, chosen by file name:
# [[{table}overrides]]
# select = "*musllinux*"
# ignore = {{ WF113 = "musl finds it" }}
"""


def key_of(field: str) -> str:
    """Return the key of a field of `Settings`: `wheel_dir` is `wheel-dir`."""
    return field.replace("_", "-")


# --- TOML -----------------------------------------------------------------------------------------


def toml(value: object) -> str:
    """Return `value` as TOML 1.0 writes it, on one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        inside = ", ".join(f"{json.dumps(key)} = {toml(each)}" for key, each in items)
        return f"{{ {inside} }}" if inside else "{}"
    if is_dataclass(value) and not isinstance(value, type):
        said = asdict(value).items()
        return toml({key: each for key, each in said if each not in {None, "", ()}})
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(toml(each) for each in cast('Sequence[object]', value))}]"
    return json.dumps(str(value), ensure_ascii=False)


def commented(docs: Mapping[str, str], table: str = "") -> str:
    """Return every setting with its text and its default, all behind `#`.

    `table` is the prefix of the tables within: `tool.wheelfix.` for a `pyproject.toml`.
    """
    parts: list[str] = []
    for field in fields(Settings):
        key = key_of(field.name)
        value = getattr(Settings(), field.name)
        text = "\n".join(f"# {line}" for line in wrap(docs.get(field.name, ""), 96))
        parts.append(f"{text}\n# {key} = {toml(_EXAMPLES[key] if value is None else value)}\n")
    return "\n".join([*parts, _OVERRIDES.format(table=table)])


def what_holds(settings: Settings, origins: Mapping[str, Sequence[str]]) -> str:
    """Return what holds, a line each, with the layers that have said something of it."""
    lines = [
        (f"{key_of(field.name)} = {_shown(getattr(settings, field.name))}", origins[field.name])
        for field in fields(Settings)
    ]
    width = min(60, max(len(line) for line, _ in lines))
    return "\n".join(f"{line:{width}}  # {', '.join(sources)}" for line, sources in lines)


def _shown(value: object) -> str:
    return "(not set)" if value is None else toml(value)


# --- JSON schema ----------------------------------------------------------------------------------


def schema(docs: Mapping[str, str]) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of the table `[tool.wheelfix]`."""
    kinds = get_type_hints(Settings)
    keys = {
        key_of(field.name): {
            "description": docs.get(field.name, ""),
            **_kind(key_of(field.name), kinds[field.name]),
        }
        for field in fields(Settings)
    }
    override = {key: value for key, value in keys.items() if key not in {"select", *RUN_WIDE}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "wheelfix",
        "description": "The table [tool.wheelfix] of pyproject.toml, or the whole wheelfix.toml.",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            **keys,
            "overrides": {
                "description": "Other settings for the wheels that `select` names.",
                "type": "array",
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["select"],
                    "properties": {
                        "select": {
                            "description": "File names of wheels, as globs.",
                            "anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1}],
                        },
                        **override,
                    },
                },
            },
        },
    }


_TEXT: Mapping[str, Any] = {"type": "string", "pattern": r"\S"}
_SIZE: Mapping[str, Any] = {
    "type": "string",
    "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*([KMGkmg]([Ii]?[Bb])?|[Bb])?\s*$",
}
_SCALARS: Mapping[object, Mapping[str, Any]] = {
    bool: {"type": "boolean"},
    Size: {"anyOf": [{"type": "integer", "minimum": 0}, _SIZE]},
    **dict.fromkeys((str, Path, str | None), _TEXT),
}
_TEXTS: Mapping[str, Any] = {"type": "array", "items": _TEXT}


def _kind(key: str, kind: object) -> Mapping[str, Any]:  # noqa: PLR0911 - one return for each kind
    if kind in _SCALARS:
        return _SCALARS[kind]
    if kind is int:
        most = {"maximum": MOST[key]} if key in MOST else {}
        return {"type": "integer", "minimum": LEAST[key], **most}
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return {"enum": [choice.value for choice in kind]}
    if kind == tuple[str, ...]:
        return _TEXTS
    if kind == tuple[Requirement, ...]:
        return {"type": "array", "items": {"anyOf": [_TEXT, _REQUIREMENT]}}
    if kind == tuple[Provider, ...]:
        return {"type": "array", "items": {"anyOf": [_TEXT, _PROVIDER]}}
    if key == "severity":
        labels = [severity.label for severity in Severity]
        return {"type": "object", "additionalProperties": {"enum": labels}}
    if kind == Mapping[str, str]:
        reasons = {"type": "object", "additionalProperties": {"type": "string"}}
        return {"anyOf": [_TEXTS, reasons]}
    if kind == Mapping[str, tuple[str, ...]]:
        return {"type": "object", "additionalProperties": {"anyOf": [_TEXT, _TEXTS]}}
    raise TypeError(f"`{key}` is of a kind without a schema: {kind}")


_REQUIREMENT: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["library"],
    "properties": {"library": _TEXT, "symbols": _TEXTS},
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
