"""Settings as a commented table, and as those in effect for a wheel."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from textwrap import wrap
from typing import cast

from wheelfix.settings import SETTING_FIELDS, Settings

_OVERRIDES = """\
# Other settings for some wheels, chosen by file name:
# [[{table}overrides]]
# select = "*musllinux*"
# ignore = {{ WF113 = "musl finds it" }}
"""


def toml(value: object) -> str:
    """Return `value` as one line of TOML 1.0."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        inside = ", ".join(f"{json.dumps(key)} = {toml(item)}" for key, item in items)
        return f"{{ {inside} }}" if inside else "{}"
    if is_dataclass(value) and not isinstance(value, type):
        given = asdict(value).items()
        return toml({key: item for key, item in given if item not in {None, "", ()}})
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(toml(item) for item in cast('Sequence[object]', value))}]"
    return json.dumps(str(value), ensure_ascii=False)


def commented(table: str = "") -> str:
    """Return every setting with its help and its default, all behind `#`.

    `table` is the prefix of the tables within: `tool.wheelfix.` for a `pyproject.toml`.
    """
    parts: list[str] = []
    for field in SETTING_FIELDS:
        text = "\n".join(f"# {line}" for line in wrap(field.setting.help, 96))
        value = field.setting.example if field.default is None else field.default
        parts.append(f"{text}\n# {field.key} = {toml(value)}\n")
    return "\n".join([*parts, _OVERRIDES.format(table=table)])


def in_effect(settings: Settings, origins: Mapping[str, Sequence[str]]) -> str:
    """Return each setting's value on a line, with the layers that set it."""
    lines = [
        (f"{field.key} = {_shown(getattr(settings, field.name))}", origins[field.name])
        for field in SETTING_FIELDS
    ]
    width = min(60, max(len(line) for line, _ in lines))
    return "\n".join(f"{line:{width}}  # {', '.join(sources)}" for line, sources in lines)


def _shown(value: object) -> str:
    return "(not set)" if value is None else toml(value)
