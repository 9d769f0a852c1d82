"""Settings as text, in TOML: a table with comments, and those in effect for a wheel."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from textwrap import wrap
from typing import Any, cast

from wheelfix.reports.printable import hide_command
from wheelfix.settings import SETTING_FIELDS, ProviderSetting, Settings
from wheelfix.text import toml_string

_OVERRIDES = """\
# Other settings for some wheels, chosen by file name:
# [[{table}overrides]]
# select = "*musllinux*"
# ignore = {{ WF113 = "musl finds it" }}
"""


def toml(value: object) -> str:
    """Return `value` as one line of TOML 1.0."""
    if isinstance(value, int):
        return str(value).lower()  # a boolean is an int, too
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        inside = ", ".join(f"{_string(key)} = {toml(item)}" for key, item in items)
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, ProviderSetting) and not value.requirement:
        return _string(value.source)
    if is_dataclass(value) and not isinstance(value, type):
        return toml(_table_of(value))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(toml(item) for item in cast('Sequence[object]', value))}]"
    return _string(str(value))


def _table_of(value: object) -> Mapping[str, object]:
    """Return what stands in the table of a dataclass: all that differs from its default."""
    items = ((field, getattr(value, field.name)) for field in fields(cast("Any", value)))
    return {field.name.replace("_", "-"): item for field, item in items if item != field.default}


def _string(text: str) -> str:
    return hide_command(toml_string(text))


def commented_settings(table: str = "") -> str:
    """Return every setting with its help and its default, all behind `#`.

    `table` is the prefix of the tables within: `tool.wheelfix.` for a `pyproject.toml`.
    """
    parts: list[str] = []
    for field in SETTING_FIELDS:
        text = "\n".join(f"# {line}" for line in wrap(field.setting.help, 96))
        value = field.setting.example if field.default is None else field.default
        parts.append(f"{text}\n# {field.key} = {toml(value)}\n")
    return "\n".join([*parts, _OVERRIDES.format(table=table)])


def tables(key: str, values: Sequence[object]) -> str:
    """Return the tables of a list of settings as they stand in a `pyproject.toml`."""
    return "\n".join(f"[[tool.wheelfix.{key}]]\n{_lines(value)}" for value in values)


def _lines(value: object) -> str:
    return "".join(f"{key} = {toml(item)}\n" for key, item in _table_of(value).items())


def in_effect(settings: Settings, origins: Mapping[str, Sequence[str]]) -> str:
    """Return a line for each setting with its value, as in a file, and the layers that set it."""
    lines = [
        (_line(field.key, getattr(settings, field.name)), origins[field.name])
        for field in SETTING_FIELDS
    ]
    width = min(60, max(len(line) for line, _ in lines))
    return "\n".join(f"{line:{width}}  # {', '.join(sources)}" for line, sources in lines)


def _line(key: str, value: object) -> str:
    if value is None:
        return f"# {key} = (not set)"
    line = f"{key} = {toml(value)}"
    # A byte of a path that is not UTF-8 is a surrogate here (PEP 383), which TOML cannot hold.
    return f"# not UTF-8: {line}" if "\\U0000DC" in line else line
