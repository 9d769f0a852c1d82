"""The published JSON schemas, and the errors of a report against them."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator


def schema_of(name: str) -> dict[str, Any]:
    text = files("wheelfix.reports").joinpath("schemas", f"{name}.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    Draft202012Validator.check_schema(schema)
    return schema


def errors(name: str, report: Any) -> list[str]:
    return [f"{each.json_path}: {each.message}" for each in _validator(name).iter_errors(report)]


@cache
def _validator(name: str) -> Any:
    return Draft202012Validator(schema_of(name))
