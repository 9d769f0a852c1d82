"""The JSON schema of the settings."""

from collections.abc import Mapping
from typing import Any

from wheelfix.cli.config.values import TEXT_SCHEMA, kind_of
from wheelfix.settings import SETTING_FIELDS, SettingField


def schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of the table `[tool.wheelfix]`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "wheelfix",
        "description": "The table [tool.wheelfix] of pyproject.toml, or the whole wheelfix.toml.",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            **{field.key: _property(field) for field in SETTING_FIELDS},
            "overrides": {
                "description": "Settings for the wheels that `select` names.",
                "type": "array",
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["select"],
                    "properties": {"select": _WHEELS, **_overridable()},
                },
            },
        },
    }


_WHEELS: Mapping[str, Any] = {
    "description": "File names of wheels, as globs.",
    "anyOf": [TEXT_SCHEMA, {"type": "array", "items": TEXT_SCHEMA, "minItems": 1}],
}


def _property(field: SettingField) -> dict[str, Any]:
    return {"description": field.setting.help, **kind_of(field).schema}


def _overridable() -> dict[str, dict[str, Any]]:
    """Return the settings of an override, where `select` selects wheels."""
    return {
        field.key: _property(field)
        for field in SETTING_FIELDS
        if field.key != "select" and not field.setting.is_run_wide
    }
